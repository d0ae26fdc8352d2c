"""Kernels of Lloyd's algorithm and of its fair form, on one block of rows.

Distances are sums over the features, not a matrix product: exact for rows far from the
origin, and the same bits whatever the block.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import INNER, LEAN, REASSOCIATE

# Rows whose columns fit in the innermost cache, if there are so few features.
ROWS_AT_A_TIME, FEW_FEATURES = 128, 32


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


@njit(**INNER, fastmath=REASSOCIATE)
def _write_distances(columns, center, distances):
    """Write the squared distances of rows, given by column, to one centre."""
    n_features, n_rows = columns.shape
    for i in range(n_rows):
        distances[i] = 0.0
    for j in range(0, n_features - 1, 2):  # two at a time: half as many loads and stores
        first, second = columns[j], columns[j + 1]
        for i in range(n_rows):
            a, b = first[i] - center[j], second[i] - center[j + 1]
            distances[i] += a * a + b * b
    if n_features % 2 == 1:
        last = columns[n_features - 1]
        for i in range(n_rows):
            a = last[i] - center[n_features - 1]
            distances[i] += a * a


@njit(**LEAN, fastmath=REASSOCIATE)
def nearest_center_sums(X, weights, centers, sums, totals):
    """Add each row to the sum of its nearest centre; return the weighted squared distance.

    A few rows at a time are compared with one centre after the other: processors do the same with
    several rows at once.
    """
    n_rows, n_features = X.shape
    is_narrow = n_features <= FEW_FEATURES
    columns = np.zeros((n_features if is_narrow else 0, ROWS_AT_A_TIME))
    distances, lowest = np.zeros(ROWS_AT_A_TIME), np.empty(ROWS_AT_A_TIME)
    nearest = np.empty(ROWS_AT_A_TIME)  # as floats, which are compared at once with distances
    cost = 0.0
    for start in range(0, n_rows, ROWS_AT_A_TIME):
        n_own = min(ROWS_AT_A_TIME, n_rows - start)
        if is_narrow:
            for i in range(n_own):
                for j in range(n_features):
                    columns[j, i] = X[start + i, j]
        for i in range(ROWS_AT_A_TIME):
            lowest[i], nearest[i] = np.inf, 0.0
        for l in range(centers.shape[0]):
            if is_narrow:
                _write_distances(columns, centers[l], distances)
            else:
                for i in range(n_own):
                    distances[i] = _squared_distance(X[start + i], centers[l])
            for i in range(ROWS_AT_A_TIME):
                nearest[i] = l if distances[i] < lowest[i] else nearest[i]
                lowest[i] = distances[i] if distances[i] < lowest[i] else lowest[i]
        for i in range(n_own):
            weight, best = weights[start + i], int(nearest[i])
            cost += weight * lowest[i]
            totals[best] += weight
            own = sums[best]
            for j in range(n_features):
                own[j] += weight * X[start + i, j]
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
