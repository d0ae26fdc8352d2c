"""The pieces of one Newton step of row solver R (`_residual`): start, matrix, line search.

``unknowns`` are the residual p and the multiplier nu, in this order; ``level`` has
``h_j p + nu - price_j / 2`` for each anchor j, whose positive ones are the support.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE, REASSOCIATE

# Relative error of a step's length: the last step needs no search, and is exact.
LINE_SEARCH_TOLERANCE = 0.05


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def write_start(x, slopes, constants, unknowns):
    """Write the unknowns (p, nu) that an affine function of x gives."""
    d = x.shape[0]
    for k in range(d + 1):
        unknowns[k] = constants[k]
    for j in range(d):
        row, value = slopes[j], x[j]
        for k in range(d + 1):
            unknowns[k] += value * row[k]


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def add_along_anchors(vector, HT, out):
    """Add ``(h, 1)'vector`` of every anchor; HT has the anchors as columns."""
    m = HT.shape[1]
    d = HT.shape[0]
    for a in range(m):
        out[a] += vector[d]
    for j in range(d):
        row, value = HT[j], vector[j]
        for a in range(m):
            out[a] += value * row[a]


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def write_levels(unknowns, half_prices, HT, level):
    """Write ``alpha`` times the weights before they are cut at zero."""
    for a in range(level.shape[0]):
        level[a] = -half_prices[a]
    add_along_anchors(unknowns, HT, level)


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def write_gradient(x, unknowns, alpha, level, HT, positive, gradient):
    """Write minus ``alpha`` times the gradient, and the levels cut at zero."""
    d, m = HT.shape
    total = 0.0
    for a in range(m):
        positive[a] = max(level[a], 0.0)
        total += positive[a]
    gradient[d] = alpha - total
    for j in range(d):
        row = HT[j]
        along = 0.0
        for a in range(m):
            along += row[a] * positive[a]
        gradient[j] = alpha * (x[j] - unknowns[j]) - along


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def write_matrix(level, alpha, d, products, all_products, chosen, W):
    """Write the packed matrix of the step; return the size of the support."""
    m, n_packed = products.shape
    size = 0
    for a in range(m):
        size += level[a] > 0.0
    inside = 2 * size <= m
    n_chosen = 0
    for a in range(m):
        chosen[n_chosen] = a
        n_chosen += (level[a] > 0.0) == inside
    sign = 1.0 if inside else -1.0
    if inside:
        for k in range(n_packed):
            W[k] = 0.0
    else:
        for k in range(n_packed):
            W[k] = all_products[k]
    # Four anchors at a time, so that W is read and written a quarter as often.
    for a in range(0, n_chosen - 3, 4):
        p0, p1 = products[chosen[a]], products[chosen[a + 1]]
        p2, p3 = products[chosen[a + 2]], products[chosen[a + 3]]
        for k in range(n_packed):
            W[k] += sign * (p0[k] + p1[k] + p2[k] + p3[k])
    for a in range(n_chosen - n_chosen % 4, n_chosen):
        p0 = products[chosen[a]]
        for k in range(n_packed):
            W[k] += sign * p0[k]
    for j in range(d):
        W[j * (j + 3) // 2] += alpha
    return size


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def factorise(W, size):
    """Cholesky factor in place, packed by rows. A direction without curvature gets some."""
    for p in range(size):
        own = W[p * (p + 1) // 2 :]
        for q in range(p + 1):
            other = W[q * (q + 1) // 2 :]
            total = own[q]
            for a in range(q):
                total -= own[a] * other[a]
            if p == q:
                own[p] = 1.0 / np.sqrt(max(total, 1e-13 * abs(own[p]) + 1e-300))
            else:
                own[q] = total * other[q]


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def forward(W, size, x):
    """Solve with the factor, whose diagonal holds reciprocals."""
    for p in range(size):
        row = W[p * (p + 1) // 2 :]
        total = x[p]
        for a in range(p):
            total -= row[a] * x[a]
        x[p] = total * row[p]


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def backward(W, size, x):
    for p in range(size - 1, -1, -1):
        row = W[p * (p + 1) // 2 :]
        value = x[p] * row[p]
        x[p] = value
        for a in range(p):
            x[a] -= row[a] * value


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _slope(level, change, t):
    """The anchors' part of the slope and curvature along a step, at length t."""
    slope, curvature = 0.0, 0.0
    for a in range(level.shape[0]):
        here = level[a] + t * change[a]
        used = change[a] if here > 0.0 else 0.0
        slope += max(here, 0.0) * used
        curvature += used * used
    return slope, curvature


@njit(nogil=True, cache=NUMBA_CACHE)
def line_search(x, unknowns, alpha, level, step, change):
    """Length of the step that nearly minimises the function along it: a root of its slope."""
    d = x.shape[0]
    constant, linear = -alpha * step[d], 0.0
    for j in range(d):
        constant += alpha * (unknowns[j] - x[j]) * step[j]
        linear += alpha * step[j] * step[j]
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(60):
        slope, curvature = _slope(level, change, t)
        slope += constant + t * linear
        curvature += linear
        if slope < 0.0:
            low = t
        else:
            high = t
        if curvature <= 0.0:
            return t
        following = t - slope / curvature
        if not low < following < high:
            following = 0.5 * (low + high) if high < np.inf else 2.0 * t
        if abs(following - t) <= LINE_SEARCH_TOLERANCE * t:
            return following
        t = following
    return t


@njit(nogil=True, cache=NUMBA_CACHE)
def ensure_support(alpha, unknowns, level):
    """Raise nu until the best anchor has all the weight, if none has any."""
    highest = level[0]
    for a in range(1, level.shape[0]):
        highest = max(highest, level[a])
    if highest <= 0.0:
        missing = alpha - highest
        unknowns[-1] += missing
        for a in range(level.shape[0]):
            level[a] += missing


@njit(nogil=True, cache=NUMBA_CACHE)
def keeps_support(level, change):
    crossed = 0
    for a in range(level.shape[0]):
        crossed += (level[a] > 0.0) != (level[a] + change[a] > 0.0)
    return crossed == 0
