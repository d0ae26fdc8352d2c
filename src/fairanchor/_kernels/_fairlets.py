"""Kernels of the fairlet decompositions and of the clustering of their representatives."""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE

# How a hub was reached on a shortest path, where no row is the predecessor.
_THROUGH_SPARE = -2


@njit(nogil=True, cache=NUMBA_CACHE)
def assign_to_hubs(cost, least, most, bottleneck):
    """Exact transport of every row of ``cost`` to one hub, each hub taking ``least`` to ``most``.

    Successive shortest paths, one inserted row at a time. A hub's first ``least`` units leave
    it for the sink directly, further ones through the node *spare*, which passes
    ``n_rows - least * n_hubs`` units on: so all hubs are full enough exactly when all rows
    are inserted, and no large constant is needed to enforce the lower bound.

    Parameters
    ----------
    cost : ndarray of shape (n_rows, n_hubs)
        Infinity forbids a pair.
    least, most : int
        ``least * n_hubs <= n_rows <= most * n_hubs``.
    bottleneck : bool
        Minimise the largest cost of a used pair instead of the sum.

    Returns
    -------
    hub : ndarray of shape (n_rows,), dtype int64
        All -1 when forbidden pairs leave no assignment.
    """
    n_rows, n_hubs = cost.shape
    hub = np.full(n_rows, -1, dtype=np.int64)
    members = (np.full(n_hubs, -1, dtype=np.int64), np.full(n_rows, -1, dtype=np.int64))
    # Units each hub sends directly and through spare; the last entry counts those of spare.
    used = (np.zeros(n_hubs + 1, dtype=np.int64), np.zeros(n_hubs + 1, dtype=np.int64))
    limits = (least, most - least, n_rows - least * n_hubs)
    potential = np.zeros(n_hubs + 2)
    worst = _least_bottleneck(cost) if bottleneck else -np.inf
    for row in range(n_rows):
        length, settled, before = _shortest_path(
            cost, row, members, used, limits, potential, bottleneck, worst
        )
        sink = length[n_hubs + 1]
        if not np.isfinite(sink):
            hub[:] = -1
            return hub
        if bottleneck:
            worst = max(worst, sink)
        else:
            for node in range(n_hubs + 1):
                if settled[node]:
                    potential[node] += length[node] - sink
        _augment(before, row, hub, members, used)
    return hub


@njit(nogil=True, cache=NUMBA_CACHE)
def _least_bottleneck(cost):
    """No assignment is better than the nearest hub of every row and nearest row of every hub."""
    worst = 0.0
    nearest = np.full(cost.shape[1], np.inf)
    for row in range(cost.shape[0]):
        worst = max(worst, cost[row].min())
        nearest = np.minimum(nearest, cost[row])
    return max(worst, nearest.max())


@njit(nogil=True, cache=NUMBA_CACHE)
def _shortest_path(cost, row, members, used, limits, potential, bottleneck, worst):
    """Dijkstra from an inserted row over hubs, spare (n_hubs) and sink (n_hubs + 1)."""
    n_hubs = cost.shape[1]
    spare, sink = n_hubs, n_hubs + 1
    length = np.full(n_hubs + 2, np.inf)
    settled = np.zeros(n_hubs + 2, dtype=np.bool_)
    before = np.full(n_hubs + 2, -1, dtype=np.int64)
    for h in range(n_hubs):
        start = max(cost[row, h], worst) if bottleneck else cost[row, h] - potential[h]
        _reach_hub(h, start, row, length, before, used, limits, potential)
    while True:
        node = _next_node(length, settled)
        if node == sink or length[sink] <= length[node]:
            return length, settled, before
        settled[node] = True
        here = length[node]
        if node == spare:
            for h in range(n_hubs):
                if used[1][h] > 0 and not settled[h]:
                    there = max(here, here + potential[spare] - potential[h])
                    _reach_hub(h, there, _THROUGH_SPARE, length, before, used, limits, potential)
            continue
        member = members[0][node]
        while member >= 0 and length[sink] > here:
            offset = here + potential[node] - cost[member, node]
            for h in range(n_hubs):
                # Reduced costs are non-negative: rounding must not shorten a path.
                change = cost[member, h] if bottleneck else offset + cost[member, h] - potential[h]
                there = max(here, change)
                if there < length[h] and not settled[h]:
                    _reach_hub(h, there, member, length, before, used, limits, potential)
            member = members[1][member]


@njit(nogil=True, cache=NUMBA_CACHE)
def _next_node(length, settled):
    """The open node with the shortest path; the sink when there is no open hub left."""
    nearest = len(length) - 1
    for node in range(len(length) - 1):
        if not settled[node] and length[node] < length[nearest]:
            nearest = node
    return nearest


@njit(nogil=True, cache=NUMBA_CACHE)
def _reach_hub(hub, there, source, length, before, used, limits, potential):
    """Note a shorter path to a hub, and at once what it opens: spare and the sink.

    Seeing the sink early ends the search before ties are expanded.
    """
    if not there < length[hub]:
        return
    length[hub] = there
    before[hub] = source
    spare, sink = len(length) - 2, len(length) - 1
    if used[0][hub] < limits[0]:
        end = max(there, there + potential[hub])
        if end < length[sink]:
            length[sink] = end
            before[sink] = hub
    if used[1][hub] < limits[1]:
        middle = max(there, there + potential[hub] - potential[spare])
        if middle < length[spare]:
            length[spare] = middle
            before[spare] = hub
            end = max(middle, middle + potential[spare])
            if used[1][spare] < limits[2] and end < length[sink]:
                length[sink] = end
                before[sink] = spare


@njit(nogil=True, cache=NUMBA_CACHE)
def _augment(before, row, hub, members, used):
    """Send one unit along the path that ends in the sink."""
    first, following = members
    direct, spared = used
    spare = len(first)
    node = before[spare + 1]
    if node == spare:
        spared[spare] += 1
    else:
        direct[node] += 1
    while True:
        if node == spare:
            node = before[spare]
            spared[node] += 1
        mover = before[node]
        if mover == _THROUGH_SPARE:
            spared[node] -= 1
            node = spare
            continue
        old = hub[mover]
        if old >= 0:
            _unlink(first, following, old, mover)
        following[mover] = first[node]
        first[node] = mover
        hub[mover] = node
        if mover == row:
            return
        node = old


@njit(nogil=True, cache=NUMBA_CACHE)
def _unlink(first, following, hub, row):
    """Remove a row from a hub's linked list."""
    if first[hub] == row:
        first[hub] = following[row]
        return
    current = first[hub]
    while following[current] != row:
        current = following[current]
    following[current] = following[row]


@njit(nogil=True, cache=NUMBA_CACHE)
def fairlet_medoids(X, members, starts, worst_case, exact_size):
    """Row with the smallest sum (or largest value) of distances to its fairlet.

    ``members[starts[f]:starts[f + 1]]`` are the rows of fairlet f, ascending. A fairlet with
    more than ``exact_size`` rows takes the row nearest to its mean, to stay linear.
    """
    n_fairlets, n_features = len(starts) - 1, X.shape[1]
    medoids = np.empty(n_fairlets, dtype=np.int64)
    mean = np.empty(n_features)
    for f in range(n_fairlets):
        rows = members[starts[f] : starts[f + 1]]
        exact = len(rows) <= exact_size
        if not exact:
            mean[:] = 0.0
            for i in rows:
                mean += X[i] / len(rows)
        smallest = np.inf
        for i in rows:
            if exact:
                score = _spread(X, i, rows, worst_case)
            else:
                score = np.sqrt(((X[i] - mean) ** 2).sum())
            if score < smallest:
                smallest, medoids[f] = score, i
    return medoids


@njit(nogil=True, cache=NUMBA_CACHE)
def _spread(X, center, rows, worst_case):
    total = 0.0
    for i in rows:
        square = 0.0
        for j in range(X.shape[1]):
            square += (X[i, j] - X[center, j]) ** 2
        distance = np.sqrt(square)
        total = max(total, distance) if worst_case else total + distance
    return total


@njit(nogil=True, cache=NUMBA_CACHE)
def swap_medoids(distance, weights, medoids, max_passes):
    """Improve medoids by single swaps until none lowers the cost; in place.

    Every candidate is tried against all medoids at once: its gain splits into a part that
    does not depend on which medoid leaves, and one number per medoid.

    Returns
    -------
    cost : float
    n_passes : int
        Passes over all candidates; ``max_passes`` if the last one still found a swap.
    settled : bool
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


@njit(nogil=True, cache=NUMBA_CACHE)
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


@njit(nogil=True, cache=NUMBA_CACHE)
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
