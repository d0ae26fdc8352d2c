"""Kernels of Lloyd's algorithm and of its fair form, on one block of rows.

Distances are sums over the features, not a matrix product: exact for rows far from the
origin, and the same bits whatever the block.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE, REASSOCIATE


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _squared_distance(row, center):
    total = 0.0
    for j in range(row.shape[0]):
        difference = row[j] - center[j]
        total += difference * difference
    return total


@njit(nogil=True, cache=NUMBA_CACHE)
def squared_distances(X, centers, distances):
    """Write the squared distance of each row to each centre."""
    for i in range(X.shape[0]):
        row, own = X[i], distances[i]
        for l in range(centers.shape[0]):
            own[l] = _squared_distance(row, centers[l])


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
    """Add each row to the sum of its cluster; a negative label is none."""
    for i in range(X.shape[0]):
        l = labels[i]
        if l < 0:
            continue
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
def shared_sums(X, rows, first, clusters, weights, shares, sums):
    """Add rows to the sums of the clusters that they are shared between."""
    for k in range(len(rows)):
        row = X[rows[k]]
        for e in range(first[k], first[k + 1]):
            share = weights[k] * shares[e]
            if share > 0.0:
                own = sums[clusters[e]]
                for j in range(row.shape[0]):
                    own[j] += share * row[j]
