"""Kernels of Lloyd's algorithm and of its fair form, on one block of rows.

Distances are summed feature by feature, not by a matrix product: exact for rows far from
the origin, and the same bits whatever the block.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE


@njit(nogil=True, cache=NUMBA_CACHE)
def squared_distances(X, centers, distances):
    """Write the squared distance of each row to each centre."""
    for i in range(X.shape[0]):
        row = X[i]
        for l in range(centers.shape[0]):
            center = centers[l]
            total = 0.0
            for j in range(row.shape[0]):
                difference = row[j] - center[j]
                total += difference * difference
            distances[i, l] = total


@njit(nogil=True, cache=NUMBA_CACHE)
def nearest_center_sums(X, weights, centers, sums, totals):
    """Add each row to the sum of its nearest centre; return the weighted squared distance."""
    cost = 0.0
    for i in range(X.shape[0]):
        row = X[i]
        best, best_distance = 0, np.inf
        for l in range(centers.shape[0]):
            center = centers[l]
            distance = 0.0
            for j in range(row.shape[0]):
                difference = row[j] - center[j]
                distance += difference * difference
            if distance < best_distance:
                best, best_distance = l, distance
        cost += weights[i] * best_distance
        totals[best] += weights[i]
        for j in range(row.shape[0]):
            sums[best, j] += weights[i] * row[j]
    return cost


@njit(nogil=True, cache=NUMBA_CACHE)
def label_sums(X, weights, labels, sums, totals):
    """Add each row to the sum of its cluster."""
    for i in range(X.shape[0]):
        l = labels[i]
        totals[l] += weights[i]
        for j in range(X.shape[1]):
            sums[l, j] += weights[i] * X[i, j]


@njit(nogil=True, cache=NUMBA_CACHE)
def label_cost(X, weights, labels, centers):
    """Weighted squared distance of the rows to their cluster's centre."""
    cost = 0.0
    for i in range(X.shape[0]):
        center = centers[labels[i]]
        distance = 0.0
        for j in range(X.shape[1]):
            difference = X[i, j] - center[j]
            distance += difference * difference
        cost += weights[i] * distance
    return cost


@njit(nogil=True, cache=NUMBA_CACHE)
def soft_assignment(costs, group_codes, weights, prices, temperature, mass, curvature):
    """Soft counts of the smoothed fair assignment, and their derivative.

    Row i puts the share ``p_l ~ exp(-(costs[i, l] + prices[l, g_i]) / temperature)`` of its
    weight on cluster l.

    Parameters
    ----------
    mass : ndarray of shape (n_clusters, n_groups)
        Incremented by the weighted shares.
    curvature : ndarray of shape (n_groups, n_clusters, n_clusters)
        Incremented by ``weight * (diag(p) - p p')``.

    Returns
    -------
    value : float
        The rows' part of the smoothed dual.
    """
    n_clusters = costs.shape[1]
    p = np.empty(n_clusters)
    value = 0.0
    for i in range(costs.shape[0]):
        r, w = group_codes[i], weights[i]
        lowest = np.inf
        for l in range(n_clusters):
            p[l] = costs[i, l] + prices[l, r]
            lowest = min(lowest, p[l])
        total = 0.0
        for l in range(n_clusters):
            p[l] = np.exp((lowest - p[l]) / temperature)
            total += p[l]
        value += w * (lowest - temperature * np.log(total))
        for l in range(n_clusters):
            p[l] /= total
            mass[l, r] += w * p[l]
            curvature[r, l, l] += w * p[l]
        for l in range(n_clusters):
            if p[l] > 1e-12:
                for k in range(n_clusters):
                    curvature[r, l, k] -= w * p[l] * p[k]
    return value
