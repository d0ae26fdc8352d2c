"""The nearest anchor of each row among those that its group may use."""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE


@njit(nogil=True, cache=NUMBA_CACHE)
def nearest_of_group(X, group_codes, center, HT, half_squares, first, last, nearest):
    """Write the number of each row's nearest anchor.

    ``||x - h||^2 / 2`` is, up to a constant of the row, ``half_squares - h x``.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    group_codes : ndarray of shape (n_rows,)
    center : ndarray of shape (n_features,)
        What the anchors are measured from.
    HT : ndarray of shape (n_features, n_anchors)
        The anchors as columns, those of a group side by side.
    half_squares : ndarray of shape (n_anchors,)
    first, last : ndarray of shape (n_groups,)
        Group r may use the anchors ``first[r]`` to ``last[r] - 1``.
    nearest : ndarray of shape (n_rows,)
        Written.
    """
    n_features, n_anchors = HT.shape
    distances = np.empty(n_anchors)
    for i in range(X.shape[0]):
        begin, end = first[group_codes[i]], last[group_codes[i]]
        own = distances[: end - begin]
        own[:] = half_squares[begin:end]
        for j in range(n_features):
            value, row = X[i, j] - center[j], HT[j, begin:end]
            for a in range(own.shape[0]):
                own[a] -= value * row[a]
        best = 0
        for a in range(1, own.shape[0]):
            if own[a] < own[best]:
                best = a
        nearest[i] = begin + best


@njit(nogil=True, cache=NUMBA_CACHE)
def medoids_of(X, centers):
    """The row nearest to each centre that no earlier centre has taken."""
    n_rows, n_features = X.shape
    taken = np.zeros(n_rows, dtype=np.bool_)
    medoids = np.empty(len(centers), dtype=np.int64)
    for k in range(len(centers)):
        best, smallest = -1, np.inf
        for i in range(n_rows):
            distance = 0.0
            for j in range(n_features):
                difference = X[i, j] - centers[k, j]
                distance += difference * difference
            if distance < smallest and not taken[i]:
                best, smallest = i, distance
        medoids[k] = best
        taken[best] = True
    return medoids
