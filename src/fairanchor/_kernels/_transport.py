"""Shortest paths on the graph of clusters: rows of one group from full clusters to others.

An edge leads from cluster l to m where a row in l may go to m; its length is what the cheapest
such row loses. Sending a row along a shortest path, and raising the prices by the distances left,
keeps every row where cost plus price is least.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import INNER, LEAN

NONE = -1


@njit(**INNER)
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


@njit(**INNER)
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


@njit(**INNER)
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


@njit(**INNER)
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


@njit(**INNER)
def _pop(heap, size, distance, position):
    """Take the nearest cluster off the heap; returns the size that is left."""
    last = heap[size - 1]
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
    return size


@njit(**LEAN)
def send_excess(first, clusters, costs, weights, own, load, totals, prices, slack, n_more):
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
        Weight that need not be moved, and rests of rows that move with the others.
    n_more : int
        Room for rows that are in several clusters, in candidates.

    Returns
    -------
    weight_at : ndarray of shape (n_entries,)
        What every row weighs at each of its candidates.
    state : int
        1 if the totals are met, 0 if the candidates do not suffice, -1 if ``n_more`` does not.
    """
    n_clusters, n_rows, n_entries = len(totals), len(weights), len(clusters)
    # Where a row is, at an entry, it has a node for each candidate, in the heap of the edge to it.
    room, n_nodes = n_entries + n_more, n_entries
    weight_at, nodes_of = np.empty(n_entries), np.empty(n_entries, dtype=np.int32)
    row_of = np.empty(n_entries, dtype=np.int32)
    source_of, target_of = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    keys, child = np.empty(room), np.empty(room, dtype=np.int32)
    following, previous = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    for node in range(room):
        child[node] = following[node] = previous[node] = NONE
    # Edges by ``l * n_clusters + m``; those of l that have ever had a row are listed.
    roots = np.empty(n_clusters * n_clusters, dtype=np.int64)
    listed = np.empty(n_clusters * n_clusters, dtype=np.int64)
    is_listed = np.empty(n_clusters * n_clusters, dtype=np.int64)
    degrees = np.empty(n_clusters, dtype=np.int64)
    for l in range(n_clusters):
        degrees[l] = 0
    for edge in range(n_clusters * n_clusters):
        roots[edge], is_listed[edge] = NONE, 0
    for i in range(n_rows):
        l = clusters[own[i]]
        for e in range(first[i], first[i + 1]):
            weight_at[e], nodes_of[e], row_of[e] = 0.0, NONE, i
            source_of[e], target_of[e] = own[i], e
            m = clusters[e]
            if m == l:
                continue
            keys[e] = costs[e] - costs[own[i]]
            edge = l * n_clusters + m
            if is_listed[edge] == 0:
                listed[l * n_clusters + degrees[l]] = m
                degrees[l] += 1
                is_listed[edge] = 1
            roots[edge] = _meld(roots[edge], e, keys, child, following, previous)
        weight_at[own[i]], nodes_of[own[i]] = weights[i], first[i]
    distance, arrived = np.empty(n_clusters), np.empty(n_clusters, dtype=np.int64)
    is_final = np.empty(n_clusters, dtype=np.int64)
    heap, position = np.empty(n_clusters, dtype=np.int64), np.empty(n_clusters, dtype=np.int64)
    path = np.empty(n_clusters, dtype=np.int64)
    while True:
        size, is_short = 0, False
        for l in range(n_clusters):
            distance[l], arrived[l], is_final[l], position[l] = np.inf, NONE, 0, NONE
            if load[l] - totals[l] > slack:
                distance[l] = 0.0
                heap[size], position[l] = l, size
                size += 1
            elif totals[l] - load[l] > slack:
                is_short = True
        if size == 0 or not is_short:
            return weight_at, 1
        goal = -1
        while size > 0:
            l = heap[0]
            size = _pop(heap, size, distance, position)
            is_final[l] = 1
            if totals[l] - load[l] > slack:
                goal = l
                break
            for k in range(degrees[l]):
                m = listed[l * n_clusters + k]
                root = roots[l * n_clusters + m]
                if is_final[m] == 1 or root == NONE:
                    continue
                length = keys[root] + prices[m] - prices[l]
                away = distance[l] + length if length > 0.0 else distance[l]
                if away < distance[m]:
                    if position[m] == NONE:
                        heap[size], position[m] = m, size
                        size += 1
                    distance[m], arrived[m] = away, l
                    _sift(heap, position[m], distance, position)
        if goal == -1:
            return weight_at, 0
        for l in range(n_clusters):
            if distance[l] < distance[goal]:
                prices[l] += distance[goal] - distance[l]
        n_path, m = 0, goal
        while arrived[m] != NONE:
            l = arrived[m]
            node = roots[l * n_clusters + m]
            if n_path > 0 and source_of[path[n_path - 1]] == target_of[node]:
                # A row that moves on goes there at once. By rounding errors the way round can be
                # the shorter one, and then only the little weight that is there would move.
                source = source_of[node]
                node = nodes_of[source] + target_of[path[n_path - 1]] - first[row_of[source]]
                n_path -= 1
            path[n_path] = node
            n_path += 1
            m = l
        amount = totals[goal] - load[goal]
        for k in range(n_path):
            weight = weight_at[source_of[path[k]]]
            amount = weight if weight < amount else amount
        amount = load[m] - totals[m] if load[m] - totals[m] < amount else amount
        load[m] -= amount
        load[goal] += amount
        for k in range(n_path):
            source, target = source_of[path[k]], target_of[path[k]]
            start, stop = first[row_of[source]], first[row_of[source] + 1]
            moved = amount
            if weight_at[source] - amount > slack:
                weight_at[source] -= amount
            else:
                moved = weight_at[source]
                weight_at[source] = 0.0
                l = clusters[source]
                for e in range(start, stop):
                    if e != source:
                        node, edge = nodes_of[source] + e - start, l * n_clusters + clusters[e]
                        roots[edge] = _remove(roots[edge], node, keys, child, following, previous)
            if weight_at[target] == 0.0:
                if nodes_of[target] == NONE:
                    if n_nodes + stop - start > room:
                        return weight_at, -1
                    nodes_of[target] = n_nodes
                    n_nodes += stop - start
                l = clusters[target]
                for e in range(start, stop):
                    if e == target:
                        continue
                    node, edge = nodes_of[target] + e - start, l * n_clusters + clusters[e]
                    keys[node], source_of[node], target_of[node] = (
                        costs[e] - costs[target],
                        target,
                        e,
                    )
                    if is_listed[edge] == 0:
                        listed[l * n_clusters + degrees[l]] = clusters[e]
                        degrees[l] += 1
                        is_listed[edge] = 1
                    roots[edge] = _meld(roots[edge], node, keys, child, following, previous)
            weight_at[target] += moved
