"""The inverse of a support's matrix, which grows and shrinks by rank-one updates.

K is the inverse of [[0, 1'], [1, Q_SS]] for the anchors S of a row's support, in the first
``size + 1`` rows and columns of an array; ``Q = HH' + alpha I``. Used by `_active_set`.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE, REASSOCIATE

# Below, the support nearly contains the anchor: K's updates have lost the digits of the rest.
SMALL_PIVOT = 1e-5


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _border(j, size, Q, support, K, u, column):
    """Write u = K (1, Q_Sj), what the support gives up for anchor j; return the pivot."""
    n = size + 1
    row = Q[j]
    column[0] = 1.0
    for a in range(size):
        column[a + 1] = row[support[a]]
    for p in range(n):
        u[p] = 0.0
    # K is symmetric: two of its rows at a time, as long sums of short vectors.
    for a in range(0, n - 1, 2):
        first, second = K[a], K[a + 1]
        x, y = column[a], column[a + 1]
        for p in range(n):
            u[p] += x * first[p] + y * second[p]
    if n % 2:
        first, x = K[size], column[size]
        for p in range(n):
            u[p] += x * first[p]
    return _pivot(j, n, Q, u, column)


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _pivot(j, n, Q, u, column):
    pivot = Q[j, j]
    for p in range(n):
        pivot -= column[p] * u[p]
    return pivot


@njit(nogil=True, cache=NUMBA_CACHE)
def _ridge_of_pivot(size, alpha, u):
    """The ridge's part of a pivot: that of the anchor, and of what the support gives up."""
    total = 1.0
    for a in range(1, size + 1):
        total += u[a] * u[a]
    return alpha * total


@njit(nogil=True, cache=NUMBA_CACHE)
def _refine_border(size, Q, support, K, u, column, work):
    """Correct u, the solution for the border of an anchor, by its residual."""
    work[0] = 1.0
    for a in range(1, size + 1):
        work[0] -= u[a]
    for p in range(1, size + 1):
        row = Q[support[p - 1]]
        total = column[p] - u[0]
        for a in range(1, size + 1):
            total -= row[support[a - 1]] * u[a]
        work[p] = total
    for p in range(size + 1):
        for a in range(size + 1):
            u[p] += K[p, a] * work[a]


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _extend(j, size, support, K, u, pivot):
    """Border K with anchor j."""
    n = size + 1
    last = K[n]
    for p in range(n):
        row = K[p]
        scaled = u[p] / pivot
        for q in range(n):
            row[q] += scaled * u[q]
        row[n] = -scaled
        last[p] = -scaled
    last[n] = 1.0 / pivot
    support[size] = j


@njit(nogil=True, cache=NUMBA_CACHE)
def enter(j, size, Q, alpha, support, K, u, column, work):
    """Border K with anchor j; u is what the support gives up for it. Returns the pivot."""
    pivot = _border(j, size, Q, support, K, u, column)
    if pivot < SMALL_PIVOT * Q[j, j]:
        for _ in range(2):
            _refine_border(size, Q, support, K, u, column, work)
        # The pivot is a squared distance and this: less, even zero, is what rounding left of it.
        pivot = max(_pivot(j, size + 1, Q, u, column), _ridge_of_pivot(size, alpha, u))
    _extend(j, size, support, K, u, pivot)
    return pivot


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def leave(k, size, support, z, K, u):
    """Take the anchor at position k out of K; the last one moves to its place."""
    last = size
    p = k + 1
    if p != last:
        for q in range(size + 1):
            K[p, q], K[last, q] = K[last, q], K[p, q]
        for q in range(size + 1):
            K[q, p], K[q, last] = K[q, last], K[q, p]
        support[k] = support[size - 1]
        z[k] = z[size - 1]
    pivot = K[last, last]
    for q in range(size):
        u[q] = K[q, last]
    for p in range(size):
        row = K[p]
        scaled = u[p] / pivot
        for q in range(size):
            row[q] -= scaled * u[q]


@njit(nogil=True, cache=NUMBA_CACHE)
def renew(size, Q, support, K):
    """Compute K from its definition instead of by updates."""
    n = size + 1
    unit = 0.0  # of Q: the border must be of its size for the elimination to be stable
    for a in range(size):
        unit = max(unit, Q[support[a], support[a]])
    bordered = np.zeros((n, n))
    for a in range(size):
        bordered[0, a + 1] = bordered[a + 1, 0] = unit
        for c in range(size):
            bordered[a + 1, c + 1] = Q[support[a], support[c]]
    inverse = np.linalg.inv(bordered)
    for p in range(n):
        for q in range(n):
            K[p, q] = 0.5 * (inverse[p, q] + inverse[q, p])
    for p in range(n):
        K[p, 0] *= unit
        K[0, p] *= unit
