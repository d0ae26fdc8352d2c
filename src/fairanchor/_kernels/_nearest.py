"""Squared distances of rows to anchors: the nearest anchor of a cluster, or of a group.

Distances are sums of squared differences, not products: exact for rows far from the origin. Rows
are taken in tiles of 128 with their features side by side, so that the inner loops run over rows
and fill vector registers. A tile is always full (its last rows may be meaningless), so that a
row's result has the same bits wherever the row is.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import INNER, LEAN, REASSOCIATE

TILE = 128
# Rows and anchors are finite, so a minimum need not look for NaN.
FINITE = REASSOCIATE | {"nnan"}


@njit(**INNER)
def _fill_tile(X, rows, first, last, tile):
    """Write the rows ``rows[first:last]`` of X, feature by feature."""
    for i in range(last - first):
        row = X[rows[first + i]]
        for j in range(tile.shape[0]):
            tile[j, i] = row[j]


@njit(**INNER, fastmath=FINITE)
def _distances(anchor, tile, distances):
    """Write the squared distances of the rows of a tile to one anchor."""
    n_features = tile.shape[0]
    for i in range(TILE):
        distances[i] = 0.0
    j = 0
    while j + 4 <= n_features:  # four features at once: a quarter of the loads and stores
        h0, h1, h2, h3 = anchor[j], anchor[j + 1], anchor[j + 2], anchor[j + 3]
        x0, x1, x2, x3 = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
        for i in range(TILE):
            a, b, c, d = x0[i] - h0, x1[i] - h1, x2[i] - h2, x3[i] - h3
            distances[i] += a * a + b * b + c * c + d * d
        j += 4
    while j < n_features:
        h0, x0 = anchor[j], tile[j]
        for i in range(TILE):
            a = x0[i] - h0
            distances[i] += a * a
        j += 1


@njit(**LEAN, fastmath=FINITE)
def nearest_in_clusters(X, H, first, distances):
    """Write each row's squared distance to the nearest anchor of each cluster.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    H : ndarray of shape (n_anchors, n_features)
        The anchors, those of a cluster one after the other.
    first : ndarray of shape (n_clusters + 1,)
        Cluster l has the anchors ``first[l]`` to ``first[l + 1] - 1``.
    distances : ndarray of shape (n_rows, n_clusters)
        Written.
    """
    n_clusters = len(first) - 1
    tile, found = np.zeros((H.shape[1], TILE)), np.empty(TILE)
    smallest = np.empty((n_clusters, TILE))
    rows = np.arange(X.shape[0])
    for start in range(0, X.shape[0], TILE):
        stop = start + TILE if start + TILE < X.shape[0] else X.shape[0]
        _fill_tile(X, rows, start, stop, tile)
        for l in range(n_clusters):
            low = smallest[l]
            for i in range(TILE):
                low[i] = np.inf
            for a in range(first[l], first[l + 1]):
                _distances(H[a], tile, found)
                for i in range(TILE):
                    low[i] = found[i] if found[i] < low[i] else low[i]
        for i in range(stop - start):
            for l in range(n_clusters):
                distances[start + i, l] = smallest[l, i]


@njit(**LEAN, fastmath=FINITE)
def nearest_of_group(X, rows, ends, H, first, last, nearest, distances):
    """Write each row's nearest anchor among those that its group may use, and the distance.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    rows, ends : ndarray
        Numbers of the rows by group, since a tile has rows of one group, and where those of each
        group end.
    H : ndarray of shape (n_anchors, n_features)
        The anchors, those of a group one after the other.
    first, last : ndarray of shape (n_groups,)
        Group r may use the anchors ``first[r]`` to ``last[r] - 1``.
    nearest, distances : ndarray of shape (n_rows,)
        Written.
    """
    tile, found = np.zeros((H.shape[1], TILE)), np.empty(TILE)
    smallest, place = np.empty(TILE), np.empty(TILE, dtype=np.int64)
    begin = 0
    for r in range(len(ends)):
        for start in range(begin, ends[r], TILE):
            stop = start + TILE if start + TILE < ends[r] else ends[r]
            _fill_tile(X, rows, start, stop, tile)
            for i in range(TILE):
                smallest[i], place[i] = np.inf, first[r]
            for a in range(first[r], last[r]):
                _distances(H[a], tile, found)
                for i in range(TILE):
                    place[i] = a if found[i] < smallest[i] else place[i]
                    smallest[i] = found[i] if found[i] < smallest[i] else smallest[i]
            for i in range(stop - start):
                nearest[rows[start + i]] = place[i]
                distances[rows[start + i]] = smallest[i]
        begin = ends[r]


@njit(**LEAN)
def neighbour_weights(X, H, n_neighbors, least_alpha, prices, Z, alphas):
    """Write adaptive-neighbour weights: projections of ``-(d - prices) / 2 alpha`` on the simplex.

    ``alpha`` is such that, without prices, a row has ``n_neighbors`` positive weights::

        alpha_i = (s d_(s+1) - d_(1) - ... - d_(s)) / 2,   at least ``least_alpha``

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    H : ndarray of shape (n_anchors, n_features)
    n_neighbors : int
    least_alpha : float
        Positive.
    prices : ndarray of shape (n_rows, n_anchors) or (0, n_anchors)
        Without rows only ``alphas`` are written.
    Z : ndarray of shape (n_rows, n_anchors) or (0, n_anchors)
        Written.
    alphas : ndarray of shape (n_rows,)
        Written.
    """
    n_anchors = H.shape[0]
    distances = np.empty(n_anchors)
    tile, found = np.zeros((H.shape[1], TILE)), np.empty((n_anchors, TILE))
    rows = np.arange(X.shape[0])
    s = min(n_neighbors, n_anchors - 1)
    smallest = np.empty(s + 1)
    for start in range(0, X.shape[0], TILE):
        stop = min(start + TILE, X.shape[0])
        _fill_tile(X, rows, start, stop, tile)
        for a in range(n_anchors):
            _distances(H[a], tile, found[a])
        for i in range(stop - start):
            smallest[:] = np.inf
            for a in range(n_anchors):
                distance = found[a, i]
                distances[a] = distance
                if distance < smallest[s]:  # insertion into the sorted list of the smallest
                    place = s
                    while place > 0 and smallest[place - 1] > distance:
                        smallest[place] = smallest[place - 1]
                        place -= 1
                    smallest[place] = distance
            total = 0.0
            for a in range(s):
                total += smallest[s] - smallest[a]
            alphas[start + i] = max(0.5 * total, least_alpha)
            if len(Z) > 0:
                for a in range(n_anchors):
                    distances[a] -= prices[start + i, a]
                project_on_simplex(distances, alphas[start + i], Z[start + i])


@njit(**LEAN)
def project_on_simplex(costs, alpha, z):
    """Write the point of the simplex nearest to ``-costs / 2 alpha``; infinite costs get zero."""
    lowest = np.inf
    for a in range(len(costs)):
        lowest = min(lowest, costs[a])
    if lowest == np.inf:  # nothing is allowed, so nothing is preferred
        z[:] = 1.0 / len(costs)
        return
    # z_a = max(0, level - (costs_a - lowest)) / 2 alpha; the level falls, by Newton's method, until
    # the weights sum to one.
    level, reached = 2.0 * alpha, np.inf
    while level < reached:
        reached = level
        total, n_positive = 0.0, 0
        for a in range(len(costs)):
            if costs[a] - lowest < reached:
                total += costs[a] - lowest
                n_positive += 1
        level = (2.0 * alpha + total) / n_positive
    total = 0.0
    for a in range(len(costs)):
        z[a] = max(0.0, level - (costs[a] - lowest))
        total += z[a]
    for a in range(len(costs)):
        z[a] /= total


@njit(**LEAN)
def project_rows(costs, alphas, Z):
    """`project_on_simplex` of each row."""
    for i in range(len(costs)):
        project_on_simplex(costs[i], alphas[i], Z[i])
