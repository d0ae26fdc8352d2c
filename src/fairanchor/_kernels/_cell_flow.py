"""Kernel of the best table with given sizes and bounds on its cells: a minimum-cost flow.

Rows flow to the cells of their group, cells to their clusters. A cell sends between ``low``
and ``high`` rows, a cluster takes its size. The start has prices under which every row is
where it prefers to be, and all that is left to do is to send what cells or clusters have too
many along shortest paths to where there are too few. Few rows are near a tie and can move.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE

# Kinds of steps of a path: a row goes to another cell of its group, a cell sends more to its
# cluster, or less.
NO_STEP, MOVE, MORE, LESS = -1, 0, 1, 2


@njit(nogil=True, cache=NUMBA_CACHE)
def _find_cheapest(r, first_row, regrets, amounts, cheapest, movers):
    """Cheapest move between each pair of cells of a group, and the row that makes it."""
    n_clusters = regrets.shape[1]
    cheapest[r] = np.inf
    for k in range(first_row[r], first_row[r + 1]):
        for l in range(n_clusters):
            if amounts[k, l] > 0:
                for other in range(n_clusters):
                    regret = regrets[k, other] - regrets[k, l]
                    if regret < cheapest[r, l, other]:
                        cheapest[r, l, other] = regret
                        movers[r, l, other] = k


@njit(nogil=True, cache=NUMBA_CACHE)
def _first_flow(rows_of_cells, low, high, net):
    """What cells send where the net price of a bound says which one is met."""
    flow = np.minimum(np.maximum(rows_of_cells, low), high)
    for l in range(flow.shape[0]):
        for r in range(flow.shape[1]):
            if net[l, r] > 0.0:
                flow[l, r] = high[l, r]
            elif net[l, r] < 0.0:
                flow[l, r] = low[l, r]
    return flow


@njit(nogil=True, cache=NUMBA_CACHE)
def _reach(node, following, length, step, distance, parent, steps):
    # Rounding errors must not make a step pay.
    through = distance[node] + max(length, 0.0)
    if through < distance[following]:
        distance[following] = through
        parent[following] = node
        steps[following] = step


@njit(nogil=True, cache=NUMBA_CACHE)
def _shortest_path(excess, cheapest, flow, low, high, net, prices, distance, parent, steps):
    """Dijkstra from all nodes with too many to the nearest with too few; -1 if none is reached.

    Nodes are the cells, row by row, and the clusters.
    """
    n_clusters, n_groups = flow.shape
    n_cells, n_nodes = flow.size, len(excess)
    settled = np.zeros(n_nodes, dtype=np.bool_)
    for node in range(n_nodes):
        distance[node] = 0.0 if excess[node] > 0 else np.inf
        parent[node], steps[node] = -1, NO_STEP
    for _ in range(n_nodes):
        node, nearest = -1, np.inf
        for other in range(n_nodes):
            if not settled[other] and distance[other] < nearest:
                node, nearest = other, distance[other]
        if node < 0:
            return -1
        if excess[node] < 0:
            return node
        settled[node] = True
        if node < n_cells:
            l, r = node // n_groups, node % n_groups
            for other in range(n_clusters):
                following = other * n_groups + r
                if not settled[following] and cheapest[r, l, other] < np.inf:
                    length = cheapest[r, l, other] + prices[following] - prices[node]
                    _reach(node, following, length, MOVE, distance, parent, steps)
            following = n_cells + l
            if not settled[following] and flow[l, r] < high[l, r]:
                length = prices[following] - prices[node] - net[l, r]
                _reach(node, following, length, MORE, distance, parent, steps)
        else:
            l = node - n_cells
            for r in range(n_groups):
                following = l * n_groups + r
                if not settled[following] and flow[l, r] > low[l, r]:
                    length = net[l, r] + prices[following] - prices[node]
                    _reach(node, following, length, LESS, distance, parent, steps)
    return -1


@njit(nogil=True, cache=NUMBA_CACHE)
def _largest_amount(target, excess, amounts, movers, flow, low, high, parent, steps):
    """How many rows can take a path, and where it begins."""
    n_groups, n_cells = flow.shape[1], flow.size
    amount, node = -excess[target], target
    while parent[node] >= 0:
        before = parent[node]
        cell = before if before < n_cells else node
        l, r = cell // n_groups, cell % n_groups
        if steps[node] == MOVE:
            amount = min(amount, amounts[movers[r, l, node // n_groups], l])
        elif steps[node] == MORE:
            amount = min(amount, high[l, r] - flow[l, r])
        else:
            amount = min(amount, flow[l, r] - low[l, r])
        node = before
    return min(amount, excess[node]), node


@njit(nogil=True, cache=NUMBA_CACHE)
def _send(target, amount, amounts, movers, flow, table, parent, steps, touched):
    """Send an amount along a path, and note the groups whose rows move."""
    n_groups, n_cells = flow.shape[1], flow.size
    node = target
    while parent[node] >= 0:
        before = parent[node]
        cell = before if before < n_cells else node
        l, r = cell // n_groups, cell % n_groups
        if steps[node] == MOVE:
            other = node // n_groups
            row = movers[r, l, other]
            amounts[row, l] -= amount
            amounts[row, other] += amount
            table[l, r] -= amount
            table[other, r] += amount
            touched[r] = True
        elif steps[node] == MORE:
            flow[l, r] += amount
        else:
            flow[l, r] -= amount
        node = before


@njit(nogil=True, cache=NUMBA_CACHE)
def best_table(regrets, first_row, amounts, table, sizes, low, high, net):
    """The table with these sizes, within these bounds, whose rows lose least.

    Parameters
    ----------
    regrets : ndarray of shape (n_rows, n_clusters)
        Of the rows that may move, sorted by group: what each loses outside of its preferred
        cluster under the prices of the start.
    first_row : ndarray of shape (n_groups + 1,)
        Where each group begins.
    amounts : ndarray of shape (n_rows, n_clusters), dtype int64
        Copies of each row in each cluster, at the start where it prefers to be. Changed in place.
    table : ndarray of shape (n_clusters, n_groups), dtype int64
        Of all rows. Changed in place to the best one.
    sizes : ndarray of shape (n_clusters,), dtype int64
    low, high : ndarray of shape (n_clusters, n_groups), dtype int64
    net : ndarray of shape (n_clusters, n_groups)
        Prices of the bounds at the start: positive if ``high`` is met, negative if ``low`` is.

    Returns
    -------
    changes : ndarray of shape (n_clusters, n_groups)
        By which the prices of the cells have changed.
    complete : bool
        False if these rows are too few to make such a table.
    """
    n_clusters, n_groups = table.shape
    n_cells = table.size
    flow = _first_flow(table, low, high, net)
    excess = np.empty(n_cells + n_clusters, dtype=np.int64)
    excess[:n_cells] = (table - flow).ravel()
    excess[n_cells:] = flow.sum(axis=1) - sizes
    cheapest = np.full((n_groups, n_clusters, n_clusters), np.inf)
    movers = np.zeros((n_groups, n_clusters, n_clusters), dtype=np.int64)
    prices = np.zeros(len(excess))
    distance = np.empty(len(excess))
    parent = np.empty(len(excess), dtype=np.int64)
    steps = np.empty(len(excess), dtype=np.int64)
    touched = np.ones(n_groups, dtype=np.bool_)
    complete = True
    while excess.max() > 0:
        for r in range(n_groups):
            if touched[r]:
                _find_cheapest(r, first_row, regrets, amounts, cheapest, movers)
                touched[r] = False
        target = _shortest_path(
            excess, cheapest, flow, low, high, net, prices, distance, parent, steps
        )
        if target < 0:
            complete = False
            break
        # Lower by the distance: every step keeps a length of at least zero.
        prices -= np.minimum(distance, distance[target])
        amount, source = _largest_amount(
            target, excess, amounts, movers, flow, low, high, parent, steps
        )
        _send(target, amount, amounts, movers, flow, table, parent, steps, touched)
        excess[source] -= amount
        excess[target] += amount
    return prices[:n_cells].copy().reshape(table.shape), complete


@njit(nogil=True, cache=NUMBA_CACHE)
def fills_greedily(supply, demand, room):
    """Whether every cluster can give what it has where most is still wanted, within the room.

    Mostly it can, if there is a way at all; that it cannot proves nothing.
    """
    wanted = demand.copy()
    for l in range(len(supply)):
        left = supply[l]
        for j in np.argsort(-wanted):
            given = min(left, wanted[j], room[l, j])
            wanted[j] -= given
            left -= given
        if left > 0.0:
            return False
    return wanted.max() <= 0.0
