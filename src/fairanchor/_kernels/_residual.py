"""Row solver R: Newton's method in the space of residuals.

The same program as in `_active_set`, through its dual. With the residual ``p = x - H'z`` and
the multiplier nu of ``sum z = 1`` the optimum has
``z_j = max(0, (h_j p + nu - price_j / 2) / alpha)``, so only d + 1 numbers are unknown,
however many anchors there are. They minimise the convex, piecewise quadratic function::

    1/2 ||p||^2 - x'p - nu + 1/(2 alpha) sum_j max(0, h_j p + nu - price_j / 2)^2

whose Newton step is exact once the set of positive terms is right. The line search is
exact too. Best for few features and many anchors.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE, _active_set
from fairanchor._kernels._pivoting import _backward, _forward

MAX_STEPS = 200


@njit(nogil=True, cache=NUMBA_CACHE)
def _start(x, half_prices, H, alpha, allowed, p, level):
    """p as if all anchors had the same weight, and nu such that the weights sum to one."""
    m, d = H.shape
    for j in range(d):
        p[j] = x[j]
    count, total = 0, 0.0
    for a in range(m):
        level[a] = -np.inf
        if allowed[a]:
            level[a] = -half_prices[a]
            for j in range(d):
                level[a] += H[a, j] * p[j]
            count += 1
            total += level[a]
    nu = (alpha - total) / count
    while True:  # drop what is negative until nothing is; only rounding can bring one back
        kept, kept_total = 0, 0.0
        for a in range(m):
            if level[a] + nu > 0.0:
                kept += 1
                kept_total += level[a]
        if kept >= count or kept == 0:
            return nu
        count = kept
        nu = (alpha - kept_total) / count


@njit(nogil=True, cache=NUMBA_CACHE)
def _levels(p, nu, half_prices, H, allowed, level):
    """Write ``alpha`` times the weights before they are cut at zero."""
    for a in range(H.shape[0]):
        level[a] = -np.inf
        if allowed[a]:
            total = nu - half_prices[a]
            for j in range(p.shape[0]):
                total += H[a, j] * p[j]
            level[a] = total


@njit(nogil=True, cache=NUMBA_CACHE)
def _derivatives(x, p, H, alpha, level, gradient, W):
    """Gradient and lower triangle of the second derivative; returns the support's size."""
    m, d = H.shape
    for j in range(d):
        gradient[j] = p[j] - x[j]
        for k in range(j + 1):
            W[j, k] = 0.0
        W[j, j] = alpha
    gradient[d] = -1.0
    for k in range(d + 1):
        W[d, k] = 0.0
    size = 0
    for a in range(m):
        if level[a] > 0.0:
            size += 1
            h = H[a]
            weight = level[a] / alpha
            for j in range(d):
                gradient[j] += weight * h[j]
                for k in range(j + 1):
                    W[j, k] += h[j] * h[k]
                W[d, j] += h[j]
            gradient[d] += weight
    W[d, d] = size
    return size


@njit(nogil=True, cache=NUMBA_CACHE)
def _factorise(W, size):
    """Cholesky factor in place. A direction without curvature gets some."""
    for p in range(size):
        for q in range(p + 1):
            total = W[p, q]
            for a in range(q):
                total -= W[p, a] * W[q, a]
            if p == q:
                W[p, p] = np.sqrt(max(total, 1e-13 * abs(W[p, p]) + 1e-300))
            else:
                W[p, q] = total / W[q, q]


@njit(nogil=True, cache=NUMBA_CACHE)
def _line_search(x, p, alpha, level, step, change):
    """Length of the step that minimises the function along it: a root of its slope."""
    d = p.shape[0]
    constant, linear = -step[d], 0.0
    for j in range(d):
        constant += (p[j] - x[j]) * step[j]
        linear += step[j] * step[j]
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(60):
        slope, curvature = constant + t * linear, linear
        for a in range(level.shape[0]):
            here = level[a] + t * change[a]
            if here > 0.0:
                slope += here * change[a] / alpha
                curvature += change[a] * change[a] / alpha
        if slope < 0.0:
            low = t
        else:
            high = t
        if curvature <= 0.0:
            return t
        following = t - slope / curvature
        if not low < following < high:
            following = 0.5 * (low + high) if high < np.inf else 2.0 * t
        if abs(following - t) <= 1e-12 * t:
            return following
        t = following
    return t


@njit(nogil=True, cache=NUMBA_CACHE)
def solve_row(x, half_prices, H, alpha, allowed, p, level, change, gradient, step, W):
    """Solve one row's program; ``max(0, level) / alpha`` are its weights, W is factorised.

    Returns
    -------
    size : int
        Size of the support.
    solved : bool
    """
    m, d = H.shape
    nu = _start(x, half_prices, H, alpha, allowed, p, level)
    _levels(p, nu, half_prices, H, allowed, level)
    size = 0
    for _ in range(MAX_STEPS):
        size = _derivatives(x, p, H, alpha, level, gradient, W)
        _factorise(W, d + 1)
        for j in range(d + 1):
            step[j] = -alpha * gradient[j]  # W is alpha times the second derivative
        _forward(W, d + 1, step)
        _backward(W, d + 1, step)
        stays = True
        for a in range(m):
            change[a] = 0.0
            if allowed[a]:
                change[a] = step[d]
                for j in range(d):
                    change[a] += H[a, j] * step[j]
                if (level[a] > 0.0) != (level[a] + change[a] > 0.0):
                    stays = False
        t = 1.0 if stays else _line_search(x, p, alpha, level, step, change)
        for j in range(d):
            p[j] += t * step[j]
        nu += t * step[d]
        _levels(p, nu, half_prices, H, allowed, level)
        if stays:
            return size, True
    return size, False


@njit(nogil=True, cache=NUMBA_CACHE)
def _weights(level, alpha, z):
    """Weights that sum to one exactly: nu's rounding error is spread over the support."""
    size, total = 0, 0.0
    for a in range(level.shape[0]):
        z[a] = 0.0
        if level[a] > 0.0:
            z[a] = level[a] / alpha
            total += z[a]
            size += 1
    for a in range(level.shape[0]):
        if z[a] > 0.0:
            z[a] = max(0.0, z[a] + (1.0 - total) / size)


@njit(nogil=True, cache=NUMBA_CACHE)
def _add_curvature(w, alpha, level, H, anchor_labels, W, sums, curvature):
    """Add ``w L'M_S L`` with ``M_S = (I - A W^-1 A') / alpha``, the rows of A being (h, 1)."""
    n_clusters = curvature.shape[0]
    m, d = H.shape
    for l in range(n_clusters):
        for j in range(d + 1):
            sums[l, j] = 0.0
    for a in range(m):
        if level[a] > 0.0:
            l = anchor_labels[a]
            for j in range(d):
                sums[l, j] += H[a, j]
            sums[l, d] += 1.0
            curvature[l, l] += w / alpha
    for l in range(n_clusters):
        _forward(W, d + 1, sums[l])
    for l in range(n_clusters):
        for k in range(n_clusters):
            total = 0.0
            for j in range(d + 1):
                total += sums[l, j] * sums[k, j]
            curvature[l, k] -= w * total / alpha


@njit(nogil=True, cache=NUMBA_CACHE)
def _add_row(
    w, r, x, half_prices, H, alpha, level, z, image, anchor_labels, W, sums,
    soft_labels, mass, curvature, value,
):  # fmt: skip
    """Write a solved row's soft labels, and add the row to the sums of its group r."""
    m, d = H.shape
    n_clusters = mass.shape[0]
    for l in range(n_clusters):
        soft_labels[l] = 0.0
    for j in range(d):
        image[j] = 0.0  # H'z
    objective = 0.0
    for a in range(m):
        if z[a] > 0.0:
            soft_labels[anchor_labels[a]] += z[a]
            objective += (alpha * z[a] + 2.0 * half_prices[a]) * z[a]
            for j in range(d):
                image[j] += z[a] * H[a, j]
    for j in range(d):
        objective += image[j] * (image[j] - 2.0 * x[j])
    for l in range(n_clusters):
        mass[l, r] += w * soft_labels[l]
    value[r] += w * objective
    _add_curvature(w, alpha, level, H, anchor_labels, W, sums, curvature[r])


@njit(nogil=True, cache=NUMBA_CACHE)
def _linear_term(x, half_prices, H, b):
    """Write the linear term of the row's program; return its largest absolute value."""
    largest = 0.0
    for a in range(H.shape[0]):
        b[a] = half_prices[a]
        for j in range(x.shape[0]):
            b[a] -= H[a, j] * x[j]
        largest = max(largest, abs(b[a]))
    return largest


@njit(nogil=True, cache=NUMBA_CACHE)
def sweep(
    X, group_codes, weights, active, H, Q, alpha, half_prices, allowed, anchor_labels, tolerance,
    largest, soft_labels, mass, curvature, value,
):  # fmt: skip
    """As `_active_set.sweep`, for rows measured from the anchors' centre.

    Rows with a linear term above ``largest``, whose weights would be differences of large
    numbers, and those that are not solved within the step limit, are left to the active set.
    """
    m, d = H.shape
    level, change, z, b = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    p, gradient, step = np.empty(d), np.empty(d + 1), np.empty(d + 1)
    W, sums = np.empty((d + 1, d + 1)), np.empty((mass.shape[0], d + 1))
    support, own_z, K = np.empty(m + 1, dtype=np.int64), np.empty(m + 1), np.empty((m + 2, m + 2))
    residual, u = np.empty(m + 1), np.empty(m + 2)
    total_support, n_unsolved = 0, 0
    for i in range(X.shape[0]):
        r = group_codes[i]
        if not active[r]:
            continue
        size, solved = 0, False
        if _linear_term(X[i], half_prices[r], H, b) <= largest:
            size, solved = solve_row(
                X[i], half_prices[r], H, alpha, allowed[r], p, level, change, gradient, step, W
            )
        if solved:
            _weights(level, alpha, z)
            _add_row(
                weights[i], r, X[i], half_prices[r], H, alpha, level, z, gradient, anchor_labels,
                W, sums, soft_labels[i], mass, curvature, value,
            )  # fmt: skip
        else:
            size, multiplier, solved = _active_set.solve_row(
                b, Q, allowed[r], tolerance, support, own_z, K, change, residual, u
            )
            _active_set.add_row(
                weights[i], r, b, size, multiplier, support, own_z, K, anchor_labels,
                soft_labels[i], mass, curvature, value,
            )  # fmt: skip
        total_support += size
        n_unsolved += not solved
    return total_support, n_unsolved


@njit(nogil=True, cache=NUMBA_CACHE)
def weights_of_rows(X, group_codes, H, Q, alpha, half_prices, allowed, tolerance, largest, Z):
    """Write the anchor weights of each row of a block."""
    m, d = H.shape
    level, change, b = np.empty(m), np.empty(m), np.empty(m)
    p, gradient, step = np.empty(d), np.empty(d + 1), np.empty(d + 1)
    W = np.empty((d + 1, d + 1))
    support, own_z, K = np.empty(m + 1, dtype=np.int64), np.empty(m + 1), np.empty((m + 2, m + 2))
    residual, u = np.empty(m + 1), np.empty(m + 2)
    for i in range(X.shape[0]):
        r = group_codes[i]
        solved = False
        if _linear_term(X[i], half_prices[r], H, b) <= largest:
            _, solved = solve_row(
                X[i], half_prices[r], H, alpha, allowed[r], p, level, change, gradient, step, W
            )
        if solved:
            _weights(level, alpha, Z[i])
        else:
            size, _, _ = _active_set.solve_row(
                b, Q, allowed[r], tolerance, support, own_z, K, change, residual, u
            )
            Z[i] = 0.0
            for a in range(size):
                Z[i, support[a]] = own_z[a]
