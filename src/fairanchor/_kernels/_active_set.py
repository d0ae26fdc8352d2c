"""The row solver: a primal active set that grows the support one anchor at a time.

Each row solves a small quadratic program that shares its matrix with all others::

    minimise  1/2 z'Qz + b'z   over the simplex,  Q = HH' + alpha I

K is the inverse of the matrix [[0, 1'], [1, Q_SS]] of the equality-constrained problem on
the support S. Adding and dropping an anchor are rank-one updates of K. A row with s of the m
anchors in its support takes about s steps of m * s operations.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE, REASSOCIATE

#: An error of a gradient that is not seen: in weight, times the ridge, but not less than rounding
#: errors are, relative to the terms of a gradient.
EXACT_WEIGHT = 1e-4
MOST_RENEWALS = 20
ROUNDING = 2e-15


@njit(nogil=True, cache=NUMBA_CACHE)
def _first_anchor(b, Q):
    """The anchor that alone gives the least objective, and the size of a gradient's terms.

    Rounding errors are relative to that size.
    """
    best, lowest, largest = 0, np.inf, 0.0
    for j in range(b.shape[0]):
        objective, value = 0.5 * Q[j, j] + b[j], abs(b[j]) + Q[j, j]
        if objective < lowest:
            best, lowest = j, objective
        if largest < value < np.inf:
            largest = value
    return best, largest


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _gradient(b, Q, support, size, z, gradient):
    """Write ``b + Qz``, four anchors of the support at a time."""
    m = b.shape[0]
    for j in range(m):
        gradient[j] = b[j]
    for a in range(0, size - 3, 4):
        c0, c1, c2, c3 = Q[support[a]], Q[support[a + 1]], Q[support[a + 2]], Q[support[a + 3]]
        z0, z1, z2, z3 = z[a], z[a + 1], z[a + 2], z[a + 3]
        for j in range(m):
            gradient[j] += z0 * c0[j] + z1 * c1[j] + z2 * c2[j] + z3 * c3[j]
    for a in range(size - size % 4, size):
        c0, z0 = Q[support[a]], z[a]
        for j in range(m):
            gradient[j] += z0 * c0[j]


@njit(nogil=True, cache=NUMBA_CACHE)
def _solve_row(b, Q, alpha, tolerance, support, z, K, gradient, residual, u, column):
    """Solve one row's program: size of the support, multiplier, and whether it was solved.

    The linear term b is infinite for an anchor that may not carry weight. A reduced gradient
    above minus ``tolerance``, relative to the terms it is made of, is non-negative. After it,
    ``support[:size]`` and ``z[:size]`` hold the solution and K its inverse; the multiplier is the
    gradient's common value there. The other arrays are work space.
    """
    m = b.shape[0]
    first, size_of_terms = _first_anchor(b, Q)
    exact = max(EXACT_WEIGHT * alpha, ROUNDING * size_of_terms)
    tolerance = min(tolerance * size_of_terms, exact)
    size = 1
    support[0] = first
    z[0] = 1.0
    K[0, 0], K[0, 1], K[1, 0], K[1, 1] = -Q[first, first], 1.0, 1.0, 0.0
    multiplier = 0.0
    n_rejected, n_refined, n_renewed = 0, 0, 0
    for _ in range(20 + 10 * m):
        _gradient(b, Q, support, size, z, gradient)
        multiplier = _residual_on_support(size, support, z, gradient, residual)
        for a in range(size):
            gradient[support[a]] = np.inf
        entering, lowest = -1, multiplier - tolerance
        for j in range(m):
            if gradient[j] < lowest:
                entering, lowest = j, gradient[j]
        is_stale = False
        if entering >= 0:
            pivot = enter(entering, size, Q, alpha, support, K, u, column)
            if _take(size, z, u, (multiplier - lowest) / pivot):
                size += 1
                continue
            z[size] = 0.0
            residual[size] = multiplier - lowest
            size += 1
        elif n_renewed < MOST_RENEWALS and np.abs(residual[:size]).max() > exact:
            renew(size, Q, support, K)
            n_rejected, n_renewed, is_stale = 0, n_renewed + 1, True
        # Without an anchor to enter this is a last step of iterative refinement.
        size, multiplier = _move(b, Q, multiplier, size, support, z, K, gradient, residual, u)
        n_rejected += entering >= 0 and not np.any(support[:size] == entering)
        if n_rejected >= 2 and n_renewed < MOST_RENEWALS:
            renew(size, Q, support, K)
            n_rejected, n_renewed, is_stale = 0, n_renewed + 1, True
        # Rejected twice, it promised nothing but rounding errors.
        if not is_stale and (entering < 0 or n_rejected >= 2):
            if _normalise(z, size) <= 1e-13 or n_refined == 4:
                return size, multiplier, True
            n_refined += 1
    return size, multiplier, False


@njit(nogil=True, cache=NUMBA_CACHE)
def _take(size, z, u, weight):
    """Give the entering anchor its weight, if no other one falls below zero for it."""
    for a in range(size):
        if z[a] < weight * u[a + 1]:
            return False
    for a in range(size):
        z[a] -= weight * u[a + 1]
    z[size] = weight
    return True


@njit(nogil=True, cache=NUMBA_CACHE)
def _normalise(z, size):
    """Make the weights sum to one; return by how much they did not."""
    total = 0.0
    for a in range(size):
        total += z[a]
    for a in range(size):
        z[a] /= total
    return abs(total - 1.0)


@njit(nogil=True, cache=NUMBA_CACHE)
def _residual_on_support(size, support, z, gradient, residual):
    """Write how far the gradient is from constant; return its mean under z."""
    multiplier = 0.0
    for a in range(size):
        multiplier += z[a] * gradient[support[a]]
    for a in range(size):
        residual[a] = multiplier - gradient[support[a]]
    return multiplier


@njit(nogil=True, cache=NUMBA_CACHE)
def _move(b, Q, multiplier, size, support, z, K, gradient, residual, u):
    """Go towards the best point of the support's plane, dropping anchors that reach zero.

    The way is found from residuals, so that errors of the updates of K do not add up.
    """
    while True:
        missing = 1.0
        for a in range(size):
            missing -= z[a]
        for k in range(size):
            u[k] = K[0, k + 1] * missing
        for a in range(size):
            row, weight = K[a + 1], residual[a]
            for k in range(size):
                u[k] += weight * row[k + 1]
        step, leaving = 1.0, -1
        for k in range(size):
            if z[k] + step * u[k] < 0.0:
                step, leaving = z[k] / -u[k], k
        for k in range(size):
            z[k] += step * u[k]
        if leaving < 0:
            multiplier -= K[0, 0] * missing
            for a in range(size):
                multiplier -= K[0, a + 1] * residual[a]
            return size, multiplier
        z[leaving] = 0.0
        leave(leaving, size, support, z, K, u)
        size -= 1
        for a in range(size):
            total = b[support[a]]
            for c in range(size):
                total += Q[support[a], support[c]] * z[c]
            gradient[support[a]] = total
        multiplier = _residual_on_support(size, support, z, gradient, residual)


@njit(nogil=True, cache=NUMBA_CACHE)
def sweep(
    products, group_codes, weights, active, Q, alpha, half_prices, anchor_labels, tolerance,
    soft_labels, mass, curvature, value, Z,
):  # fmt: skip
    """Solve the rows of a block, and sum what the dual's Newton method needs.

    Parameters
    ----------
    products : ndarray of shape (n_rows, n_anchors)
        Inner products of rows and anchors.
    active : ndarray of shape (n_groups,), bool
        Rows of other groups are skipped.
    half_prices : ndarray of shape (n_groups, n_anchors)
        Half the multiplier of each anchor's cluster; infinite where a group may not use it.
    soft_labels : ndarray of shape (n_rows, n_clusters)
        Written: the weight of each row on the anchors of each cluster.
    mass : ndarray of shape (n_clusters, n_groups)
        Incremented by the soft labels.
    curvature : ndarray of shape (n_groups, n_clusters, n_clusters)
        Incremented by minus twice the derivative of the mass by the multipliers.
    value : ndarray of shape (n_groups,)
        Incremented by the optimal values of the rows.
    Z : ndarray of shape (n_rows, n_anchors) or (0, n_anchors)
        Incremented by the weights of the rows, unless it has none.

    Returns
    -------
    total_support : int
    n_unsolved : int
    """
    m = Q.shape[0]
    support = np.empty(m + 1, dtype=np.int64)
    z, b = np.empty(m + 1), np.empty(m)
    gradient, residual = np.empty(m + 2), np.empty(m + 1)
    u, column = np.empty(m + 2), np.empty(m + 2)
    K = np.empty((m + 2, m + 2))
    total_support, n_unsolved = 0, 0
    for i in range(products.shape[0]):
        r = group_codes[i]
        if not active[r]:
            continue
        prices, product = half_prices[r], products[i]
        for j in range(m):
            b[j] = prices[j] - product[j]
        size, multiplier, solved = _solve_row(
            b, Q, alpha, tolerance, support, z, K, gradient, residual, u, column
        )
        total_support += size
        n_unsolved += not solved
        if Z.shape[0] > 0:
            for a in range(size):
                Z[i, support[a]] += z[a]
        for l in range(mass.shape[0]):
            soft_labels[i, l] = 0.0
        linear, w = 0.0, weights[i]
        for a in range(size):
            soft_labels[i, anchor_labels[support[a]]] += z[a]
            linear += b[support[a]] * z[a]
        for l in range(mass.shape[0]):
            mass[l, r] += w * soft_labels[i, l]
        value[r] += w * (multiplier + linear)
        if curvature.shape[0] > 0:  # w L'KL without the row and column of the multiplier
            for a in range(size):
                row, target = K[a + 1], curvature[r, anchor_labels[support[a]]]
                for c in range(size):
                    target[anchor_labels[support[c]]] += w * row[c + 1]
    return total_support, n_unsolved


# The inverse K, in the first ``size + 1`` rows and columns of an array.


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def enter(j, size, Q, alpha, support, K, u, column):
    """Border K with anchor j; write u, what the support gives up for it. Returns the pivot."""
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
    # The pivot is a squared distance and the ridge's part: less is what rounding left of it.
    pivot, least = Q[j, j], 1.0
    for p in range(n):
        pivot -= column[p] * u[p]
        least += (p > 0) * u[p] * u[p]
    pivot = max(pivot, alpha * least)
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
