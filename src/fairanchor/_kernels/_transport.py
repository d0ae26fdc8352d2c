"""Shortest paths on the graph of clusters: rows of one group from full clusters to others.

An edge leads from cluster l to m where a row in l may go to m; its length is what the cheapest
such row loses. Sending a row along a shortest path, and raising the prices by the distances left,
keeps every row where cost plus price is least.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE

NONE = -1
# A piece of a row that is smaller than this is a rounding error, and moves with the rest.
CRUMB = 1e-12


@njit(nogil=True, cache=NUMBA_CACHE)
def _meld(a, b, keys, child, following, previous):
    """Root of two pairing heaps together; ties go to the lower number."""
    if a == NONE:
        return b
    if b == NONE:
        return a
    if keys[b] < keys[a] or (keys[b] == keys[a] and b < a):
        a, b = b, a
    first = child[a]
    following[b] = first
    if first != NONE:
        previous[first] = b
    previous[b] = a
    child[a] = b
    return a


@njit(nogil=True, cache=NUMBA_CACHE)
def _children(node, keys, child, following, previous):
    """Root of the heap of a node's children."""
    # Pairs from left to right, kept in a list by `previous`, then together from right to left.
    pairs, current = NONE, child[node]
    while current != NONE:
        other = following[current]
        rest = NONE
        if other != NONE:
            rest = following[other]
        following[current] = NONE
        previous[current] = NONE
        if other != NONE:
            following[other] = NONE
            previous[other] = NONE
        pair = _meld(current, other, keys, child, following, previous)
        previous[pair] = pairs
        pairs = pair
        current = rest
    root = NONE
    while pairs != NONE:
        before = previous[pairs]
        previous[pairs] = NONE
        root = _meld(root, pairs, keys, child, following, previous)
        pairs = before
    if root != NONE:
        previous[root] = NONE
        following[root] = NONE
    child[node] = NONE
    return root


@njit(nogil=True, cache=NUMBA_CACHE)
def _remove(root, node, keys, child, following, previous):
    """Root of a heap without one of its nodes."""
    rest = _children(node, keys, child, following, previous)
    if node == root:
        return rest
    before, after = previous[node], following[node]
    if child[before] == node:
        child[before] = after
    else:
        following[before] = after
    if after != NONE:
        previous[after] = before
    previous[node] = NONE
    following[node] = NONE
    return _meld(root, rest, keys, child, following, previous)


@njit(nogil=True, cache=NUMBA_CACHE)
def _sift(heap, place, distance, position):
    """Move a cluster up in the binary heap of clusters by distance."""
    l = heap[place]
    while place > 0:
        above = (place - 1) // 2
        if distance[heap[above]] <= distance[l]:
            break
        heap[place] = heap[above]
        position[heap[place]] = place
        place = above
    heap[place] = l
    position[l] = place


@njit(nogil=True, cache=NUMBA_CACHE)
def _pop(heap, size, distance, position):
    """Take the nearest cluster off the heap."""
    nearest, last = heap[0], heap[size - 1]
    size -= 1
    place = 0
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and distance[heap[below + 1]] < distance[heap[below]]:
            below += 1
        if distance[last] <= distance[heap[below]]:
            break
        heap[place] = heap[below]
        position[heap[place]] = place
        place = below
    if size > 0:
        heap[place] = last
        position[last] = place
    return nearest, size


@njit(nogil=True, cache=NUMBA_CACHE)
def _enlarged(array, size):
    larger = np.full(size, NONE, dtype=array.dtype)
    larger[: len(array)] = array
    return larger


@njit(nogil=True, cache=NUMBA_CACHE)
def send_excess(first, clusters, costs, weights, own, load, totals, prices, slack):
    """Move rows of one group until the clusters have their totals.

    Parameters
    ----------
    first, clusters, costs : ndarray
        Candidates of the rows; entries ``first[i]:first[i + 1]`` are of row i.
    weights : ndarray of shape (n_rows,)
    own : ndarray of shape (n_rows,)
        Entry of each row's cluster, where cost plus price is least.
    load : ndarray of shape (n_clusters,)
        Weight in each cluster, rows that are not given included. Changed.
    totals : ndarray of shape (n_clusters,)
    prices : ndarray of shape (n_clusters,)
        Raised where that moves rows away.
    slack : float
        Weight that need not be moved.

    Returns
    -------
    pieces : ndarray of shape (n_pieces, 2)
        Row and cluster; a row whose weight is divided has several.
    piece_weights : ndarray of shape (n_pieces,)
    complete : bool
        Whether the totals are met.
    """
    n_clusters, n_rows, n_entries = len(totals), len(weights), len(clusters)
    # A piece of a row has a node for each candidate, in the heap of its cluster's edge to it.
    row_of, at = np.arange(n_rows), own.copy()
    piece_weights, node_of = weights.copy(), first[:n_rows].copy()
    n_pieces, n_nodes = n_rows, n_entries
    entry_of, piece_of = np.arange(n_entries), np.empty(n_entries, dtype=np.int64)
    keys = np.empty(n_entries)
    child = np.full(n_entries, NONE)
    following, previous = child.copy(), child.copy()
    roots = np.full((n_clusters, n_clusters), NONE)
    neighbours = np.full((n_clusters, n_clusters), NONE, dtype=np.int32)
    degrees = np.zeros(n_clusters, dtype=np.int64)
    for i in range(n_rows):
        l = clusters[own[i]]
        for e in range(first[i], first[i + 1]):
            piece_of[e] = i
            m = clusters[e]
            if m == l:
                continue
            keys[e] = costs[e] - costs[own[i]]
            if roots[l, m] == NONE:
                neighbours[l, degrees[l]] = m
                degrees[l] += 1
            roots[l, m] = _meld(roots[l, m], e, keys, child, following, previous)
    distance, arrived = np.empty(n_clusters), np.empty(n_clusters, dtype=np.int64)
    is_final = np.empty(n_clusters, dtype=np.bool_)
    heap, position = np.empty(n_clusters, dtype=np.int64), np.empty(n_clusters, dtype=np.int64)
    path = np.empty(n_clusters, dtype=np.int64)
    while True:
        excess, size, deficit = 0.0, 0, 0.0
        for l in range(n_clusters):
            distance[l], arrived[l], is_final[l], position[l] = np.inf, NONE, False, NONE
            if load[l] - totals[l] > slack:
                excess += load[l] - totals[l]
                distance[l] = 0.0
                heap[size], position[l] = l, size
                size += 1
            elif totals[l] - load[l] > slack:
                deficit += totals[l] - load[l]
        if size == 0 or deficit == 0.0:
            break
        goal = NONE
        while size > 0:
            l, size = _pop(heap, size, distance, position)
            is_final[l] = True
            if totals[l] - load[l] > slack:
                goal = l
                break
            for k in range(degrees[l]):
                m = neighbours[l, k]
                if is_final[m] or roots[l, m] == NONE:
                    continue
                length = max(keys[roots[l, m]] + prices[m] - prices[l], 0.0)
                if distance[l] + length < distance[m]:
                    if position[m] == NONE:
                        heap[size], position[m] = m, size
                        size += 1
                    distance[m], arrived[m] = distance[l] + length, l
                    _sift(heap, position[m], distance, position)
        if goal == NONE:
            break
        for l in range(n_clusters):
            if distance[l] < distance[goal]:
                prices[l] += distance[goal] - distance[l]
        n_path, amount, m = 0, totals[goal] - load[goal], goal
        while arrived[m] != NONE:
            l = arrived[m]
            path[n_path] = roots[l, m]
            amount = min(amount, piece_weights[piece_of[path[n_path]]])
            n_path += 1
            m = l
        amount = min(amount, load[m] - totals[m])
        load[m] -= amount
        load[goal] += amount
        for k in range(n_path):
            node = path[k]
            piece, entry = piece_of[node], entry_of[node]
            i = row_of[piece]
            if piece_weights[piece] - amount > CRUMB * weights[i]:
                # The rest stays where it is; what moves is a piece of its own.
                piece_weights[piece] -= amount
                n_candidates = first[i + 1] - first[i]
                if n_pieces == len(row_of):
                    row_of, at = _enlarged(row_of, 2 * n_pieces), _enlarged(at, 2 * n_pieces)
                    node_of = _enlarged(node_of, 2 * n_pieces)
                    piece_weights = _enlarged(piece_weights, 2 * n_pieces)
                while n_nodes + n_candidates > len(entry_of):
                    n_more = 2 * len(entry_of)
                    entry_of, piece_of = _enlarged(entry_of, n_more), _enlarged(piece_of, n_more)
                    keys, child = _enlarged(keys, n_more), _enlarged(child, n_more)
                    following = _enlarged(following, n_more)
                    previous = _enlarged(previous, n_more)
                row_of[n_pieces], piece_weights[n_pieces] = i, amount
                node_of[n_pieces] = n_nodes
                for e in range(first[i], first[i + 1]):
                    entry_of[n_nodes], piece_of[n_nodes] = e, n_pieces
                    n_nodes += 1
                piece = n_pieces
                n_pieces += 1
            else:
                l = clusters[at[piece]]
                for e in range(first[i], first[i + 1]):
                    m, old = clusters[e], node_of[piece] + e - first[i]
                    if m != l:
                        roots[l, m] = _remove(roots[l, m], old, keys, child, following, previous)
            at[piece] = entry
            l = clusters[entry]
            for e in range(first[i], first[i + 1]):
                m, new = clusters[e], node_of[piece] + e - first[i]
                if m == l:
                    continue
                keys[new] = costs[e] - costs[entry]
                if roots[l, m] == NONE:
                    is_known = False
                    for n in range(degrees[l]):
                        is_known |= neighbours[l, n] == m
                    if not is_known:
                        neighbours[l, degrees[l]] = m
                        degrees[l] += 1
                roots[l, m] = _meld(roots[l, m], new, keys, child, following, previous)
    pieces = np.empty((n_pieces, 2), dtype=np.int64)
    for piece in range(n_pieces):
        pieces[piece, 0] = row_of[piece]
        pieces[piece, 1] = clusters[at[piece]]
    missed = 0.0
    for l in range(n_clusters):
        missed = max(missed, abs(load[l] - totals[l]))
    return pieces, piece_weights[:n_pieces], missed <= slack


@njit(nogil=True, cache=NUMBA_CACHE)
def _shortest(lengths, start, backwards, distance, is_final):
    """Write the distances from a cluster, or to it, on the complete graph of these lengths."""
    n = len(distance)
    for l in range(n):
        distance[l], is_final[l] = np.inf, False
    distance[start] = 0.0
    for _ in range(n):
        nearest, least = NONE, np.inf
        for l in range(n):
            if not is_final[l] and distance[l] < least:
                nearest, least = l, distance[l]
        if nearest == NONE:
            break
        is_final[nearest] = True
        for m in range(n):
            length = lengths[m, nearest] if backwards else lengths[nearest, m]
            if least + length < distance[m]:
                distance[m] = least + length


@njit(nogil=True, cache=NUMBA_CACHE)
def central_change(first, clusters, costs, places, prices, farthest, n_roots, change):
    """Write a change of one group's prices to the middle of those that keep every label.

    Parameters
    ----------
    first, clusters, costs : ndarray
        Candidates of the rows.
    places : ndarray of shape (n_pieces, 2)
        Row and cluster of all pieces.
    prices : ndarray of shape (n_clusters,)
        Under which every piece is where cost plus price is least.
    farthest : float
        Cuts off distances: of clusters between which no row is.
    n_roots : int
        The middle is taken between the extremes as seen from so many clusters.
    change : ndarray of shape (n_clusters,)
        Written.
    """
    n_clusters = len(prices)
    regrets = np.full((n_clusters, n_clusters), np.inf)
    for piece in range(len(places)):
        i, l = places[piece, 0], places[piece, 1]
        own = 0.0
        for e in range(first[i], first[i + 1]):
            if clusters[e] == l:
                own = costs[e] + prices[l]
        for e in range(first[i], first[i + 1]):
            m = clusters[e]
            regret = max(costs[e] + prices[m] - own, 0.0)
            if m != l and regret < regrets[l, m]:
                regrets[l, m] = regret
    distance, is_final = np.empty(n_clusters), np.empty(n_clusters, dtype=np.bool_)
    change[:] = 0.0
    for k in range(n_roots):
        root = k * n_clusters // n_roots
        # Prices of other clusters, relative to the root's, can fall by as much as the distance
        # from it, and rise by that to it.
        _shortest(regrets, root, False, distance, is_final)
        for l in range(n_clusters):
            change[l] -= min(distance[l], farthest)
        _shortest(regrets, root, True, distance, is_final)
        for l in range(n_clusters):
            change[l] += min(distance[l], farthest)
    for l in range(n_clusters):
        change[l] /= 2.0 * n_roots
