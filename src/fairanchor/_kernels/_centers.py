"""Kernels of Lloyd's algorithm and of its fair form, on one block of rows.

Distances are sums over the features, not a matrix product: exact for rows far from the
origin, and the same bits whatever the block.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE, REASSOCIATE

# A share of less than exp(-20) of a row, two billionths, is none.
NEGLIGIBLE = 20.0


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _squared_distance(row, center):
    total = 0.0
    for j in range(row.shape[0]):
        difference = row[j] - center[j]
        total += difference * difference
    return total


@njit(nogil=True, cache=NUMBA_CACHE)
def squared_distances(X, centers, distances, sign):
    """Write the squared distance of each row to each centre, times a sign."""
    for i in range(X.shape[0]):
        row, own = X[i], distances[i]
        for l in range(centers.shape[0]):
            own[l] = sign * _squared_distance(row, centers[l])


@njit(nogil=True, cache=NUMBA_CACHE)
def nearest_center_sums(X, weights, centers, sums, totals):
    """Add each row to the sum of its nearest centre; return the weighted squared distance."""
    cost = 0.0
    for i in range(X.shape[0]):
        row = X[i]
        best, best_distance = 0, np.inf
        for l in range(centers.shape[0]):
            distance = _squared_distance(row, centers[l])
            if distance < best_distance:
                best, best_distance = l, distance
        cost += weights[i] * best_distance
        totals[best] += weights[i]
        own = sums[best]
        for j in range(row.shape[0]):
            own[j] += weights[i] * row[j]
    return cost


@njit(nogil=True, cache=NUMBA_CACHE)
def label_sums(X, weights, labels, sums, totals):
    """Add each row to the sum of its cluster."""
    for i in range(X.shape[0]):
        l = labels[i]
        totals[l] += weights[i]
        row, own = X[i], sums[l]
        for j in range(row.shape[0]):
            own[j] += weights[i] * row[j]


@njit(nogil=True, cache=NUMBA_CACHE)
def label_cost(X, weights, labels, centers):
    """Weighted squared distance of the rows to their cluster's centre."""
    cost = 0.0
    for i in range(X.shape[0]):
        cost += weights[i] * _squared_distance(X[i], centers[labels[i]])
    return cost


@njit(nogil=True, cache=NUMBA_CACHE)
def own_score(scores, weights, labels):
    """Weighted sum of the rows' scores for their cluster."""
    total = 0.0
    for i in range(scores.shape[0]):
        total += weights[i] * scores[i, labels[i]]
    return total


@njit(nogil=True, cache=NUMBA_CACHE)
def soft_sums(X, scores, group_codes, weights, prices, temperature, sums, totals):
    """Add each row to the sums of all clusters by its shares in `soft_assignment`.

    Returns the weighted score of the shares.
    """
    n_clusters = scores.shape[1]
    p = np.empty(n_clusters)
    total_score = 0.0
    nothing = NEGLIGIBLE * temperature
    for i in range(X.shape[0]):
        row, own, r = X[i], scores[i], group_codes[i]
        highest, total = -np.inf, 0.0
        for l in range(n_clusters):
            p[l] = own[l] - prices[l, r]
            highest = max(highest, p[l])
        for l in range(n_clusters):
            behind = highest - p[l]
            p[l] = np.exp(-behind / temperature) if behind < nothing else 0.0
            total += p[l]
        for l in range(n_clusters):
            share = weights[i] * p[l] / total
            if share > 0.0:
                total_score += share * own[l]
                totals[l] += share
                sum_of_cluster = sums[l]
                for j in range(row.shape[0]):
                    sum_of_cluster[j] += share * row[j]
    return total_score


@njit(nogil=True, cache=NUMBA_CACHE, inline="always")
def two_cheapest(scores, prices):
    """Cluster with the least ``prices - scores``, lowest on ties; its cost and the second least.

    Without branches: which cluster is best cannot be foreseen.
    """
    best, lowest, second = 0, np.inf, np.inf
    for l in range(len(scores)):
        cost = prices[l] - scores[l]
        higher = cost if cost > lowest else lowest
        second = higher if higher < second else second
        best = l if cost < lowest else best
        lowest = cost if cost < lowest else lowest
    return best, lowest, second


@njit(nogil=True, cache=NUMBA_CACHE)
def soft_assignment(scores, group_codes, weights, prices, temperature, mass, curvature):
    """Soft counts of the smoothed fair assignment, and their derivative.

    Row i puts the share ``p_l ~ exp((scores[i, l] - prices[l, g_i]) / temperature)`` of its
    weight on cluster l.

    Parameters
    ----------
    temperature : float
        Positive.
    mass : ndarray of shape (n_clusters, n_groups)
        Incremented by the weighted shares.
    curvature : ndarray of shape (n_groups, n_clusters, n_clusters)
        Symmetric for each group; incremented by ``weight * (diag(p) - p p')``.

    Returns
    -------
    value : float
        The rows' part of the smoothed dual.
    """
    n_clusters = scores.shape[1]
    p, places = np.empty(n_clusters), np.empty(n_clusters, dtype=np.int64)
    value = 0.0
    nothing, coldness = NEGLIGIBLE * temperature, 1.0 / temperature
    by_group = prices.T.copy()
    for i in range(scores.shape[0]):
        own, r, w = scores[i], group_codes[i], weights[i]
        best, lowest, second = two_cheapest(own, by_group[r])
        if second - lowest > nothing:  # at low temperatures most rows: no share elsewhere
            value += w * lowest
            mass[best, r] += w
            continue
        total, n_places = 0.0, 0
        for l in range(n_clusters):
            behind = by_group[r, l] - own[l] - lowest
            if behind < nothing:
                p[n_places], places[n_places] = np.exp(-behind * coldness), l
                total += p[n_places]
                n_places += 1
        value += w * (lowest - temperature * np.log(total))
        for a in range(n_places):
            p[a] /= total
            l, share = places[a], w * p[a]
            mass[l, r] += share
            curvature[r, l, l] += share
            for b in range(a + 1):  # the places increase: this is the lower triangle
                curvature[r, l, places[b]] -= share * p[b]
    for r in range(curvature.shape[0]):
        for l in range(n_clusters):
            for k in range(l):
                curvature[r, k, l] = curvature[r, l, k]
    return value
