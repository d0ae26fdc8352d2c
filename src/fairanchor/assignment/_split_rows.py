"""Rows that an optimal assignment splits between clusters, and what becomes of them."""

import numpy as np
from scipy.optimize import linear_sum_assignment

# Rounding errors, of all that is summed up, and the most of a row that is taken for one.
ROUNDING_ERROR, MOST_OF_A_ROW = 1e-12, 1e-3


def place_pieces(labels, band, places, piece_weights, weights, total):
    """Write the labels of the band's rows; return the rows that are in several clusters.

    ``total`` is the weight of all rows of the group.
    """
    # A piece that is nothing but a rounding error is none. Of a light row it can be a large part.
    own = weights[places[:, 0]]
    alive = piece_weights > np.minimum(ROUNDING_ERROR * total, MOST_OF_A_ROW * own)
    rows, clusters, shares = band[places[alive, 0]], places[alive, 1], piece_weights[alive]
    labels[rows] = clusters
    n_pieces = np.bincount(places[alive, 0], minlength=len(band))
    several = n_pieces[places[alive, 0]] > 1
    edges = {}
    for row, cluster, weight in zip(
        rows[several].tolist(), clusters[several].tolist(), shares[several].tolist(), strict=True
    ):
        edges[row, cluster] = edges.get((row, cluster), 0.0) + weight
    split = {}
    for (row, cluster), weight in _without_cycles(edges).items():
        split.setdefault(row, []).append((cluster, weight))
    for row, parts in split.items():
        labels[row] = parts[0][0]
    return {row: parts for row, parts in split.items() if len(parts) > 1}


def _without_cycles(edges):
    """The same weights of rows and clusters on a forest of (row, cluster) pairs.

    All pieces are in clusters between which their rows are indifferent, so weight can be
    passed round a cycle for nothing until one of its pairs is empty. In a forest fewer
    rows are split than there are clusters.
    """
    forest, neighbours = {}, {}
    for (row, cluster), weight in edges.items():
        a, b = ("row", row), ("cluster", cluster)
        path = _path(neighbours, a, b)
        forest[row, cluster] = weight
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
        if path is None:
            continue
        pairs = [_pair(*ends) for ends in zip([b, *path[:-1]], path, strict=True)]
        least = min(pairs[::2], key=forest.get)
        amount = forest[least]
        for k, pair in enumerate(pairs):
            forest[pair] += amount if k % 2 else -amount
        for pair in [pair for pair in pairs[::2] if forest[pair] <= 0.0]:
            del forest[pair]
            neighbours["row", pair[0]].discard(("cluster", pair[1]))
            neighbours["cluster", pair[1]].discard(("row", pair[0]))
    return forest


def _pair(a, b):
    return (a[1], b[1]) if a[0] == "row" else (b[1], a[1])


def _path(neighbours, start, goal):
    """Nodes of a forest from ``start`` to ``goal``, or None if there is no path."""
    came_from, stack = {start: None}, [start]
    while stack:
        node = stack.pop()
        if node == goal:
            path = []
            while node is not None:
                path.append(node)
                node = came_from[node]
            return path[::-1]
        for other in neighbours.get(node, ()):
            if other not in came_from:
                came_from[other] = node
                stack.append(other)
    return None


def round_by_slots(pieces, scores, weights):
    """Labels of split rows by slot rounding (Shmoys and Tardos), heaviest row first.

    Within a cluster the pieces, heaviest row first, are laid end to end in units of
    rows and cut into slots of one row each. A matching of the rows to slots that touches
    every full slot changes a cluster's weight by less than the heaviest split row, and the
    cheapest one costs no more than the fractional assignment.

    Parameters
    ----------
    pieces : list of list of (cluster, weight)
    scores : ndarray of shape (n_rows, n_clusters)
    weights : ndarray of shape (n_rows,), not increasing
    """
    filled, slots = {}, {}
    edges = []
    for k, parts in enumerate(pieces):
        for cluster, weight in parts:
            start = filled.get(cluster, 0.0)
            stop = start + weight / weights[k]
            filled[cluster] = stop
            last = int(np.ceil(stop - 1e-9)) - 1
            for number in range(int(start + 1e-9), max(int(start + 1e-9), last) + 1):
                slot = slots.setdefault((cluster, number), len(slots))
                edges.append((k, slot, cluster))
    forbidden = 4.0 * float(np.abs(scores).max() + 1) * len(pieces)
    cost = np.full((len(pieces), len(slots)), 4 * forbidden)
    cluster_of = np.empty(len(slots), dtype=np.int64)
    for k, slot, cluster in edges:
        cost[k, slot] = -float(scores[k, cluster]) * weights[k] / weights[0]
        cluster_of[slot] = cluster
    for (cluster, number), slot in slots.items():
        if number + 1 <= filled[cluster] + 1e-9:
            cost[:, slot] -= forbidden
    matched = linear_sum_assignment(cost)[1]
    return cluster_of[matched]
