"""Kernels of Lloyd's algorithm and of its fair form, on one block of rows.

Distances are sums over the features, not a matrix product: exact for rows far from the
origin, and the same bits whatever the block.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import INNER, LEAN, REASSOCIATE


@njit(**INNER, fastmath=REASSOCIATE)
def _squared_distance(row, center):
    total = 0.0
    for j in range(row.shape[0]):
        difference = row[j] - center[j]
        total += difference * difference
    return total


@njit(**LEAN)
def squared_distances(X, centers, distances):
    """Write the squared distance of each row to each centre."""
    for i in range(X.shape[0]):
        row, own = X[i], distances[i]
        for l in range(centers.shape[0]):
            own[l] = _squared_distance(row, centers[l])


@njit(**LEAN)
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


@njit(**LEAN)
def add_rows(X, weights, labels, sums, totals):
    """Add each row to the sum and the weight of its label; a negative one leaves it out."""
    for i in range(X.shape[0]):
        label, weight = labels[i], weights[i]
        if label < 0:
            continue
        totals[label] += weight
        own = sums[label]
        for j in range(X.shape[1]):
            own[j] += weight * X[i, j]


@njit(**LEAN)
def add_shares(X, first, labels, weights, sums):
    """Add each row to the sums of its labels, which are ``labels[first[i] : first[i + 1]]``."""
    for i in range(X.shape[0]):
        for e in range(first[i], first[i + 1]):
            total = sums[labels[e]]
            for j in range(X.shape[1]):
                total[j] += weights[e] * X[i, j]
