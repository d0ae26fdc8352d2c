"""Squared distances of rows to anchors.

Distances are sums of squared differences, not products: exact for rows far from the origin. A
row's distance has the same bits wherever the row is.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import INNER, LEAN, REASSOCIATE

# Rows so many times farther away than the anchors are compared by exact distances: products of
# float32 would overflow.
FAR_AWAY = 1e30


@njit(**LEAN, fastmath=REASSOCIATE)
def write_tile(X, middle, scale, tile, norms):
    """Write rows as they are seen from the middle, feature by feature, and their norms."""
    for i in range(len(X)):
        row, total = X[i], 0.0
        for j in range(len(middle)):
            value = (row[j] - middle[j]) * scale
            tile[j, i] = value
            total += value * value
        norms[i] = np.sqrt(total) if total < FAR_AWAY**2 else np.inf


@njit(**LEAN, fastmath=REASSOCIATE)
def nearest_by_scores(scores, X, norms, H, first, slopes, offsets, places, distances):
    """Write each row's nearest anchor of each part, and the squared distance to it.

    The scores say which anchors it can be; among these, exact distances decide.

    Parameters
    ----------
    scores : ndarray of shape (n_anchors, n_columns), dtype float32
        Squared distances up to errors, and up to a term that is the same for the anchors of a
        part. Columns beyond the rows are ignored.
    X : ndarray of shape (n_rows, n_features)
    norms : ndarray of shape (n_columns,)
    H : ndarray of shape (n_anchors, n_features)
        The anchors, those of a part one after the other.
    first : ndarray of shape (n_parts + 1,)
        Part l has the anchors ``first[l]`` to ``first[l + 1] - 1``.
    slopes, offsets : ndarray of shape (n_parts,)
        The difference of two scores is off by at most ``slopes[l] * norms[i] + offsets[l]``.
    places : ndarray of shape (n_rows, n_parts), dtype int32
        Written: the anchor, of several the first.
    distances : ndarray of shape (n_rows, n_parts)
        Written; infinite where a part has no anchor.
    """
    n_columns = scores.shape[1]
    lowest, second = np.empty(n_columns, np.float32), np.empty(n_columns, np.float32)
    place = np.empty(n_columns, np.int32)
    for l in range(len(first) - 1):
        for i in range(n_columns):
            lowest[i] = second[i] = np.inf
            place[i] = first[l]
        a, stop = first[l], first[l + 1]
        while a + 4 <= stop:  # four anchors at once: a quarter of the loads and stores
            own = np.int32(a)
            for i in range(n_columns):
                s0, s1, s2, s3 = scores[a, i], scores[a + 1, i], scores[a + 2, i], scores[a + 3, i]
                low_a, high_a = s0 if s0 < s1 else s1, s1 if s0 < s1 else s0
                low_b, high_b = s2 if s2 < s3 else s3, s3 if s2 < s3 else s2
                score, other = low_a if low_a < low_b else low_b, low_b if low_a < low_b else low_a
                behind = high_a if low_a < low_b else high_b
                behind = other if other < behind else behind
                low = lowest[i]
                higher = score if score > low else low
                higher = behind if behind < higher else higher
                second[i] = higher if higher < second[i] else second[i]
                place[i] = own if score < low else place[i]
                lowest[i] = score if score < low else low
            a += 4
        while a < stop:
            own = np.int32(a)
            for i in range(n_columns):
                score, low = scores[a, i], lowest[i]
                higher = score if score > low else low
                second[i] = higher if higher < second[i] else second[i]
                place[i] = own if score < low else place[i]
                lowest[i] = score if score < low else low
            a += 1
        for i in range(X.shape[0]):
            error = slopes[l] * norms[i] + offsets[l]
            nearest, highest = place[i], np.float64(lowest[i]) + error
            if second[i] > highest:
                while scores[nearest, i] != lowest[i]:
                    nearest += 1
                places[i, l] = nearest
                distances[i, l] = _squared_distance(X[i], H[nearest])
                continue
            best = np.inf
            for a in range(first[l], stop):
                if scores[a, i] > highest:  # false for NaN, after an overflow
                    continue
                distance = _squared_distance(X[i], H[a])
                if distance < best:
                    best, nearest = distance, np.int32(a)
            places[i, l] = nearest
            distances[i, l] = best


@njit(**LEAN, fastmath=REASSOCIATE)
def nearest_of_part(X, parts, H, first, nearest):
    """Write each row's nearest anchor among those of its part, without scores; arrays as above."""
    for i in range(len(X)):
        best, x = np.inf, X[i]
        nearest[i] = first[parts[i]]
        for a in range(first[parts[i]], first[parts[i] + 1]):
            distance = _squared_distance(x, H[a])
            if distance < best:
                best, nearest[i] = distance, a


@njit(**INNER, fastmath=REASSOCIATE)
def _squared_distance(x, h):
    total = 0.0
    for j in range(len(h)):
        difference = x[j] - h[j]
        total += difference * difference
    return total


@njit(**LEAN)
def average_neighbours(H, labels, n_neighbors, means):
    """Write the mean of each anchor and those of its cluster nearest to it, so many in all.

    Parameters
    ----------
    H : ndarray of shape (n_anchors, n_features)
    labels : ndarray of shape (n_anchors,)
    n_neighbors : int
        Number of anchors in a mean; clusters may have fewer.
    means : ndarray of shape (n_anchors, n_features)
        Written.
    """
    most = min(n_neighbors, len(H))
    nearest, distances = np.empty(most, np.int64), np.empty(most)
    for a in range(len(H)):
        n_found = 0
        for b in range(len(H)):
            if labels[b] != labels[a]:
                continue
            distance = _squared_distance(H[a], H[b])
            if n_found < most:
                n_found += 1
            elif distance >= distances[most - 1]:
                continue
            place = n_found - 1
            while place > 0 and distances[place - 1] > distance:
                distances[place], nearest[place] = distances[place - 1], nearest[place - 1]
                place -= 1
            distances[place], nearest[place] = distance, b
        means[a] = 0.0
        for place in range(n_found):
            for j in range(H.shape[1]):
                means[a, j] += H[nearest[place], j] / n_found


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
    n_anchors = len(H)
    distances = np.empty(n_anchors)
    s = min(n_neighbors, n_anchors - 1)
    smallest = np.empty(s + 1)
    for i in range(len(X)):
        smallest[:] = np.inf
        for a in range(n_anchors):
            distance = _squared_distance(X[i], H[a])
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
        alphas[i] = max(0.5 * total, least_alpha)
        if len(Z) > 0:
            for a in range(n_anchors):
                distances[a] -= prices[i, a]
            project_on_simplex(distances, alphas[i], Z[i])


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
