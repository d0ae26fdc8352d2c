"""Kernels of the exact transport: rows to clusters with given totals, by prices.

One group at a time. ``scores`` are int64 fixed point, so every comparison and every sum
of a few of them is exact. Row i *prefers* the cluster with the largest
``scores[i, l] + prices[l]``; its *regret* for l' is what it loses by going there.

`send_excess` is a successive-shortest-path method on the graph of the clusters: the
edge l → l' costs the smallest regret of a row now in l. One pairing heap per edge keeps
that row on top. A row with a weight may be cut into *pieces*, each in one cluster.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE

UNREACHED = np.int64(2**62)


@njit(nogil=True, cache=NUMBA_CACHE)
def _fixed_point(scores, scale, lowest, fixed):
    """Write ``scores * scale`` rounded to integers, relative to the row's largest score.

    Adding a constant to a row changes no assignment; taking the largest away keeps the
    digits for the differences, which decide. Nothing is written below ``lowest``.
    """
    largest = scores[0]
    for l in range(1, scores.shape[0]):
        largest = max(largest, scores[l])
    for l in range(scores.shape[0]):
        fixed[l] = np.int64(np.rint(max((scores[l] - largest) * scale, lowest)))


@njit(nogil=True, cache=NUMBA_CACHE)
def to_fixed_point(scores, rows, scale, lowest, fixed):
    """Write the fixed-point scores of some rows."""
    for i in range(rows.shape[0]):
        _fixed_point(scores[rows[i]], scale, lowest, fixed[i])


@njit(nogil=True, cache=NUMBA_CACHE)
def prefer(scores, rows, scale, lowest, prices, labels, margins):
    """Write each row's preferred cluster (lowest on ties) and its regret for the second best."""
    n_clusters = scores.shape[1]
    fixed = np.empty(n_clusters, dtype=np.int64)
    for i in range(rows.shape[0]):
        _fixed_point(scores[rows[i]], scale, lowest, fixed)
        best, best_value, second_value = 0, fixed[0] + prices[0], -UNREACHED
        for l in range(1, n_clusters):
            value = fixed[l] + prices[l]
            if value > best_value:
                best, best_value, second_value = l, value, best_value
            elif value > second_value:
                second_value = value
        labels[i] = best
        margins[i] = best_value - second_value


@njit(nogil=True, cache=NUMBA_CACHE)
def smallest_regrets(scores, rows, scale, lowest, labels, regrets):
    """Lower ``regrets[l, l']`` to the smallest ``score[l] - score[l']`` of a row in l.

    Returns the smallest score of a row for its own cluster.
    """
    n_clusters = scores.shape[1]
    fixed = np.empty(n_clusters, dtype=np.int64)
    smallest = UNREACHED
    for i in range(rows.shape[0]):
        _fixed_point(scores[rows[i]], scale, lowest, fixed)
        l = labels[i]
        own = regrets[l]
        smallest = min(smallest, fixed[l])
        for other in range(n_clusters):
            regret = fixed[l] - fixed[other]
            if regret < own[other]:
                own[other] = regret
    return smallest


# A heap entry is one row of an int64 array, so that it shares a cache line.
KEY, PIECE, CHILD, SIBLING = 0, 1, 2, 3


@njit(nogil=True, cache=NUMBA_CACHE)
def _meld(a, b, heap):
    """Root of the union of two heaps; the older entry wins a tie."""
    if a < 0:
        return b
    if b < 0:
        return a
    if heap[b, KEY] < heap[a, KEY] or (heap[b, KEY] == heap[a, KEY] and b < a):
        a, b = b, a
    heap[b, SIBLING] = heap[a, CHILD]
    heap[a, CHILD] = b
    return a


@njit(nogil=True, cache=NUMBA_CACHE)
def _without_top(top, heap):
    """Root of the heap without its top: meld the children in pairs, then from right to left."""
    pairs = -1
    node = heap[top, CHILD]
    while node >= 0:
        partner = heap[node, SIBLING]
        heap[node, SIBLING] = -1
        following = -1
        if partner >= 0:
            following = heap[partner, SIBLING]
            heap[partner, SIBLING] = -1
        pair = _meld(node, partner, heap)
        heap[pair, SIBLING] = pairs
        pairs = pair
        node = following
    root = -1
    while pairs >= 0:
        following = heap[pairs, SIBLING]
        heap[pairs, SIBLING] = -1
        root = _meld(root, pairs, heap)
        pairs = following
    return root


@njit(nogil=True, cache=NUMBA_CACHE)
def _push_regrets(piece, scores, l, heap, n_nodes, roots):
    """Enter a piece of the row with these scores, now in cluster l, on all edges that leave l."""
    for other in range(scores.shape[0]):
        if other != l:
            heap[n_nodes, KEY] = scores[l] - scores[other]
            heap[n_nodes, PIECE] = piece
            heap[n_nodes, CHILD] = -1
            heap[n_nodes, SIBLING] = -1
            roots[l, other] = _meld(roots[l, other], n_nodes, heap)
            n_nodes += 1
    return n_nodes


@njit(nogil=True, cache=NUMBA_CACHE)
def _refresh_tops(l, piece_weight, heap, roots, cheapest):
    """Drop entries of pieces that have left cluster l from the tops of its edges."""
    for other in range(roots.shape[0]):
        top = roots[l, other]
        while top >= 0 and piece_weight[heap[top, PIECE]] <= 0.0:
            top = _without_top(top, heap)
        roots[l, other] = top
        cheapest[l, other] = heap[top, KEY] if top >= 0 else UNREACHED


@njit(nogil=True, cache=NUMBA_CACHE)
def _grown(array, needed):
    if needed <= array.shape[0]:
        return array
    shape = (max(needed, 2 * array.shape[0]), array.shape[1])
    larger = np.empty(shape, dtype=array.dtype)
    larger[: array.shape[0]] = array
    return larger


@njit(nogil=True, cache=NUMBA_CACHE)
def _grown_vector(array, needed):
    if needed <= array.shape[0]:
        return array
    larger = np.empty(max(needed, 2 * array.shape[0]), dtype=array.dtype)
    larger[: array.shape[0]] = array
    return larger


@njit(nogil=True, cache=NUMBA_CACHE)
def _shortest_path(cheapest, prices, excess, slack, distance, parent, settled):
    """Dijkstra from all over-full clusters to the nearest under-full one; -1 if none is reached."""
    n_clusters = excess.shape[0]
    for l in range(n_clusters):
        distance[l] = 0 if excess[l] > slack else UNREACHED
        parent[l] = -1
        settled[l] = False
    for _ in range(n_clusters):
        nearest = -1
        for l in range(n_clusters):
            if not settled[l] and (nearest < 0 or distance[l] < distance[nearest]):
                nearest = l
        if distance[nearest] >= UNREACHED:
            return -1
        if excess[nearest] < -slack:
            return nearest
        settled[nearest] = True
        for l in range(n_clusters):
            if not settled[l] and cheapest[nearest, l] < UNREACHED:
                through = distance[nearest] + cheapest[nearest, l] + prices[nearest] - prices[l]
                if through < distance[l]:
                    distance[l] = through
                    parent[l] = nearest
    return -1


@njit(nogil=True, cache=NUMBA_CACHE)
def send_excess(scores, weights, labels, totals, prices, slack):
    """Move weight from over-full to under-full clusters at the least total regret.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_clusters), dtype int64
    weights : ndarray of shape (n_rows,)
        Weight of each row; all ones for counts.
    labels : ndarray of shape (n_rows,)
        Preferred clusters at ``prices``.
    totals : ndarray of shape (n_clusters,)
        Weight that each cluster shall have.
    prices : ndarray of shape (n_clusters,), dtype int64
        Overwritten by optimal prices.
    slack : float
        A difference of at most this much between weight and total is none.

    Returns
    -------
    places : ndarray of shape (n_pieces, 2)
        Row and cluster of each piece.
    piece_weight : ndarray of shape (n_pieces,)
        A piece of weight zero has been moved away.
    complete : bool
        False when these rows cannot fill every cluster, as happens when they are only a
        part of the problem.
    """
    n_rows, n_clusters = scores.shape
    n_pieces = n_rows
    places = np.empty((n_rows + 4 * n_clusters, 2), dtype=np.int64)
    piece_weight = np.empty(n_rows + 4 * n_clusters, dtype=np.float64)
    heap = np.empty((places.shape[0] * n_clusters, 4), dtype=np.int64)
    roots = np.full((n_clusters, n_clusters), -1, dtype=np.int64)
    cheapest = np.full((n_clusters, n_clusters), UNREACHED, dtype=np.int64)
    excess = -totals.astype(np.float64)
    n_nodes = 0
    for i in range(n_rows):
        places[i, 0], places[i, 1], piece_weight[i] = i, labels[i], weights[i]
        excess[labels[i]] += weights[i]
        n_nodes = _push_regrets(i, scores[i], labels[i], heap, n_nodes, roots)
    for l in range(n_clusters):
        _refresh_tops(l, piece_weight, heap, roots, cheapest)

    distance = np.empty(n_clusters, dtype=np.int64)
    parent = np.empty(n_clusters, dtype=np.int64)
    settled = np.empty(n_clusters, dtype=np.bool_)
    moved = np.empty(n_clusters, dtype=np.int64)
    target = 0
    while excess.max() > slack:
        target = _shortest_path(cheapest, prices, excess, slack, distance, parent, settled)
        if target < 0:
            break
        # Prices rise towards the target, which keeps every regret non-negative.
        for l in range(n_clusters):
            prices[l] += min(distance[l], distance[target])

        # All tops are read before any piece moves, so that none moves twice on one path.
        amount = -excess[target]
        n_moves, l = 0, target
        while parent[l] >= 0:
            moved[n_moves] = heap[roots[parent[l], l], PIECE]
            amount = min(amount, piece_weight[moved[n_moves]])
            n_moves += 1
            l = parent[l]
        amount = min(amount, excess[l])
        excess[l] -= amount
        excess[target] += amount

        places = _grown(places, n_pieces + n_moves)
        piece_weight = _grown_vector(piece_weight, n_pieces + n_moves)
        heap = _grown(heap, n_nodes + n_moves * n_clusters)
        l = target
        for move in range(n_moves):
            i = places[moved[move], 0]
            piece_weight[moved[move]] -= amount
            places[n_pieces, 0], places[n_pieces, 1], piece_weight[n_pieces] = i, l, amount
            n_nodes = _push_regrets(n_pieces, scores[i], l, heap, n_nodes, roots)
            n_pieces += 1
            l = parent[l]
        while target >= 0:  # only clusters on the path can have a new top
            _refresh_tops(target, piece_weight, heap, roots, cheapest)
            target = parent[target]
        target = 0
    complete = target >= 0 and excess.min() >= -slack
    return places[:n_pieces], piece_weight[:n_pieces], complete


@njit(nogil=True, cache=NUMBA_CACHE)
def score_differences(scores, nearest, farthest):
    """Write how far each row's second largest and its smallest score are below its largest."""
    for i in range(scores.shape[0]):
        largest, second, smallest = scores[i, 0], -np.inf, scores[i, 0]
        for l in range(1, scores.shape[1]):  # without branches, which cannot be foreseen
            value = scores[i, l]
            lower = value if value < largest else largest
            second = lower if lower > second else second
            largest = value if value > largest else largest
            smallest = value if value < smallest else smallest
        nearest[i] = largest - second
        farthest[i] = largest - smallest


@njit(nogil=True, cache=NUMBA_CACHE)
def best_and_own_value(scores, rows, weights, prices, labels):
    """Weighted sums of each row's largest ``scores[i, l] + prices[l]``, and of its own score."""
    best_total, own_total = 0.0, 0.0
    for i in range(rows.shape[0]):
        own = scores[rows[i]]
        best = own[0] + prices[0]
        for l in range(1, own.shape[0]):
            best = max(best, own[l] + prices[l])
        weight = weights[i] if weights.shape[0] > 0 else 1.0
        best_total += weight * best
        own_total += weight * own[labels[i]]
    return best_total, own_total


@njit(nogil=True, cache=NUMBA_CACHE)
def shortest_distances(lengths):
    """Floyd-Warshall in place; a negative diagonal entry means a cycle that saves cost."""
    n = lengths.shape[0]
    for k in range(n):
        for i in range(n):
            if lengths[i, k] < UNREACHED:
                for j in range(n):
                    if lengths[k, j] < UNREACHED:
                        through = lengths[i, k] + lengths[k, j]
                        if through < lengths[i, j]:
                            lengths[i, j] = through


@njit(nogil=True, cache=NUMBA_CACHE)
def central_prices(regrets, is_used, totals, out_of_reach):
    """Prices in the middle of all that explain the labels of a group.

    The prices that explain the labels are those with
    ``price[l'] - price[l] <= regret[l, l']`` for the smallest regret of a row in l. Every
    shortest-path tree is an extreme solution; their mean leaves as much room as possible
    on all sides, so that only real ties are ties.

    Parameters
    ----------
    regrets : ndarray of shape (n_clusters, n_clusters), dtype int64
    is_used : ndarray of shape (n_clusters,), bool
        Whether a cluster has a row.
    totals : ndarray of shape (n_clusters,)
    out_of_reach : float
        Added to the least price for clusters without a share of this group.

    Returns
    -------
    prices : ndarray of shape (n_clusters,)
        In fixed-point units, with mean zero over the clusters in use.
    """
    used = np.flatnonzero(is_used)
    n_used = len(used)
    distances = np.empty((n_used, n_used), dtype=np.int64)
    for a in range(n_used):
        for b in range(n_used):
            distances[a, b] = regrets[used[a], used[b]] if a != b else 0
    shortest_distances(distances)
    middle = np.zeros(n_used)
    for a in range(n_used):
        for b in range(n_used):
            middle[b] += distances[a, b] / (2.0 * n_used)
            middle[a] -= distances[a, b] / (2.0 * n_used)
    middle -= middle.mean()
    prices = np.full(len(totals), middle.min() + out_of_reach)
    prices[used] = middle
    for l in np.flatnonzero(~is_used & (totals > 0)):
        # Weights can leave a cluster without a row that should have some: as dear as can be.
        prices[l] = np.inf
        for a in range(n_used):
            prices[l] = min(prices[l], middle[a] + regrets[used[a], l])
    return prices
