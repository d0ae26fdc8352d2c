"""Kernels of fairlets: a quadtree in which rows are matched to hubs, and swaps of medoids.

The tree halves one coordinate at a time, so its nodes include those of the usual quadtree
and every inner node has two children, whatever the number of features. Nodes with all rows on
one side of a cut are skipped: at most ``2 n_rows - 1`` nodes are left. Nodes are numbered in
the order of creation, hence parents come before children, and loops replace recursion.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import INNER, LEAN


@njit(**LEAN)
def build_tree(cells):
    """Compressed binary quadtree.

    Returns
    -------
    order : ndarray of shape (n_rows,)
        Rows in the order of the leaves.
    spans : ndarray of shape (n_nodes, 2)
        ``order[spans[v, 0]:spans[v, 1]]`` are the rows of node v.
    children : ndarray of shape (n_nodes, 2)
        Nodes, or -1 in a leaf.
    """
    n_rows = len(cells)
    order = np.arange(n_rows)
    buffer = np.empty(n_rows, dtype=np.int64)
    spans = np.zeros((2 * n_rows, 2), dtype=np.int64)
    children = np.full((2 * n_rows, 2), -1, dtype=np.int64)
    spans[0, 1] = n_rows
    n_nodes = 1
    node = 0
    while node < n_nodes:
        start, stop = spans[node]
        feature, bit = _first_cut(cells, order[start:stop])
        if bit > 0:
            middle = _partition(cells, order, buffer, start, stop, feature, bit)
            spans[n_nodes] = start, middle
            spans[n_nodes + 1] = middle, stop
            children[node] = n_nodes, n_nodes + 1
            n_nodes += 2
        node += 1
    return order, spans[:n_nodes], children[:n_nodes]


@njit(**INNER)
def _first_cut(cells, rows):
    """Feature and value of the highest bit in which the rows differ; bit 0 if in none."""
    feature, highest = 0, 0
    if len(rows) == 1:
        return feature, highest
    for j in range(cells.shape[1]):
        differs = 0
        for i in rows:
            differs |= cells[i, j] ^ cells[rows[0], j]
        # True exactly when the highest bit of `differs` is above that of `highest`.
        if highest < differs and highest < (highest ^ differs):
            feature, highest = j, differs
    bit = 0
    if highest > 0:
        bit = 1
        while bit <= highest >> 1:
            bit <<= 1
    return feature, bit


@njit(**INNER)
def _partition(cells, order, buffer, start, stop, feature, bit):
    """Stable partition of ``order[start:stop]`` by one bit, in place; returns the border."""
    middle, n_right = start, 0
    for position in range(start, stop):
        row = order[position]
        if cells[row, feature] & bit:
            buffer[n_right] = row
            n_right += 1
        else:
            order[middle] = row
            middle += 1
    order[middle:stop] = buffer[:n_right]
    return middle


@njit(**LEAN)
def match_upwards(tree, post_order, kind, least, most, n_extra, hub_of_row):
    """Match rows (kind 1) to hubs (kind 2) in the smallest boxes that hold both; in place.

    ``tree`` is what `build_tree` returns. Every hub takes ``least`` rows, and up to ``most`` with
    the ``n_extra`` that are left over. As the nodes come in post-order, the open rows and hubs of
    a node are on top of the three stacks.
    """
    order, spans, children = tree
    room = most - least
    n = len(order)
    open_rows, needing, roomy = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    n_open = n_needing = n_roomy = 0
    still_needs = np.full(n, least, dtype=np.int64)
    still_has = np.full(n, room, dtype=np.int64)
    for node in post_order:
        start, stop = spans[node]
        if children[node, 0] < 0:
            for position in range(start, stop):
                if kind[order[position]] == 1:
                    open_rows[n_open] = position
                    n_open += 1
                elif kind[order[position]] == 2:
                    needing[n_needing] = roomy[n_roomy] = position
                    n_needing += 1
                    n_roomy += 1
        while n_open and open_rows[n_open - 1] >= start:
            if n_needing and needing[n_needing - 1] >= start:
                hub = needing[n_needing - 1]
                still_needs[hub] -= 1
                n_needing -= still_needs[hub] == 0
            elif n_extra and room and n_roomy and roomy[n_roomy - 1] >= start:
                hub = roomy[n_roomy - 1]
                still_has[hub] -= 1
                n_roomy -= still_has[hub] == 0
                n_extra -= 1
            else:
                break
            n_open -= 1
            hub_of_row[order[open_rows[n_open]]] = order[hub]


@njit(**LEAN)
def swap_medoids(distance, weights, medoids, max_passes):
    """Improve medoids by single swaps until none lowers the cost; in place.

    Every candidate is tried against all medoids at once: its gain splits into a part that
    does not depend on which medoid leaves, and one number per medoid.

    Returns
    -------
    cost : float
    n_passes : int
        Passes over all candidates; ``max_passes`` if the last one still found a swap.
    is_final : bool
        Whether the last pass found no swap.
    """
    n = len(distance)
    nearest = np.empty(n, dtype=np.int64)
    first, second = np.empty(n), np.empty(n)
    cost = _two_nearest(distance, weights, medoids, nearest, first, second)
    is_medoid = np.zeros(n, dtype=np.bool_)
    is_medoid[medoids] = True
    for n_passes in range(1, max_passes + 1):
        n_swaps = 0
        for candidate in range(n):
            if is_medoid[candidate]:
                continue
            change = _swap_changes(distance[candidate], weights, nearest, first, second, medoids)
            leaving = np.argmin(change)
            if change[leaving] < -1e-12 * cost:
                is_medoid[medoids[leaving]] = False
                is_medoid[candidate] = True
                medoids[leaving] = candidate
                cost = _two_nearest(distance, weights, medoids, nearest, first, second)
                n_swaps += 1
        if n_swaps == 0:
            return cost, n_passes, True
    return cost, max_passes, False


@njit(**INNER)
def _swap_changes(to_candidate, weights, nearest, first, second, medoids):
    """Change of the cost when the candidate replaces each of the medoids."""
    change = np.zeros(len(medoids))
    shared = 0.0
    for i in range(len(weights)):
        if to_candidate[i] < first[i]:
            shared += weights[i] * (to_candidate[i] - first[i])
        else:
            closest = min(to_candidate[i], second[i])
            change[nearest[i]] += weights[i] * (closest - first[i])
    return change + shared


@njit(**INNER)
def _two_nearest(distance, weights, medoids, nearest, first, second):
    """Nearest and second nearest medoid of every point, in place; returns the cost."""
    cost = 0.0
    for i in range(len(weights)):
        first[i] = second[i] = np.inf
        for m in range(len(medoids)):
            d = distance[medoids[m], i]
            if d < first[i]:
                second[i] = first[i]
                first[i] = d
                nearest[i] = m
            elif d < second[i]:
                second[i] = d
        cost += weights[i] * first[i]
    return cost
