"""The nearest anchor of each row among those that its group may use."""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE, REASSOCIATE


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def nearest_of_group(X, group_codes, center, H, half_squares, first, last, nearest):
    """Write the number of each row's nearest anchor.

    ``||x - h||^2 / 2`` is, up to a constant of the row, ``half_squares - h x``.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    group_codes : ndarray of shape (n_rows,)
    center : ndarray of shape (n_features,)
        What the anchors are measured from.
    H : ndarray of shape (n_anchors, n_features)
        The anchors, those of a group one after the other.
    half_squares : ndarray of shape (n_anchors,)
    first, last : ndarray of shape (n_groups,)
        Group r may use the anchors ``first[r]`` to ``last[r] - 1``.
    nearest : ndarray of shape (n_rows,)
        Written.
    """
    n_features = H.shape[1]
    x = np.empty(n_features)
    for i in range(X.shape[0]):
        for j in range(n_features):
            x[j] = X[i, j] - center[j]
        best, smallest = -1, np.inf
        for a in range(first[group_codes[i]], last[group_codes[i]]):
            distance, anchor = half_squares[a], H[a]
            for j in range(n_features):
                distance -= x[j] * anchor[j]
            if distance < smallest:
                best, smallest = a, distance
        nearest[i] = best


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
