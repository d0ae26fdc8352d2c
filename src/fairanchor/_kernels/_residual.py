"""Row solver R: Newton's method in the space of residuals.

The same program as in `_active_set`, through its dual. With the residual ``p = x - H'z`` and
the multiplier nu of ``sum z = 1`` the optimum has
``z_j = max(0, (h_j p + nu - price_j / 2) / alpha)``, so only d + 1 numbers are unknown,
however many anchors there are. They minimise the convex, piecewise quadratic function::

    1/2 ||p||^2 - x'p - nu + 1/(2 alpha) sum_j max(0, h_j p + nu - price_j / 2)^2

whose Newton step is exact once the set of positive terms is right. Best for few features
and many anchors.

The matrix of a step, alpha times the second derivative, is a sum over the support of the
anchors' outer products ``(h, 1)(h, 1)'``. These are tabulated as packed lower triangles, and
the sum is taken over the support or, from the total, over its complement.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE, REASSOCIATE, _active_set
from fairanchor._kernels._active_set import best_vertex
from fairanchor._kernels._residual_step import (
    add_along_anchors,
    backward,
    ensure_support,
    factorise,
    forward,
    keeps_support,
    line_search,
    write_gradient,
    write_levels,
    write_matrix,
    write_start,
)

MAX_STEPS = 200


@njit(nogil=True, cache=NUMBA_CACHE)
def solve_row(
    x, half_prices, slopes, constants, HT, products, all_products, alpha,
    unknowns, level, change, positive, step, chosen, W,
):  # fmt: skip
    """Solve one row's program; ``max(0, level) / alpha`` are its weights, W is factorised.

    Returns
    -------
    size : int
        Size of the support.
    solved : bool
    """
    d, m = HT.shape
    write_start(x, slopes, constants, unknowns)
    write_levels(unknowns, half_prices, HT, level)
    size = 0
    for _ in range(MAX_STEPS):
        ensure_support(alpha, unknowns, level)
        write_gradient(x, unknowns, alpha, level, HT, positive, step)
        size = write_matrix(level, alpha, d, products, all_products, chosen, W)
        factorise(W, d + 1)
        forward(W, d + 1, step)
        backward(W, d + 1, step)
        for a in range(m):
            change[a] = 0.0
        add_along_anchors(step, HT, change)
        stays = keeps_support(level, change)
        t = 1.0 if stays else line_search(x, unknowns, alpha, level, step, change)
        for j in range(d + 1):
            unknowns[j] += t * step[j]
        if stays:
            write_levels(unknowns, half_prices, HT, level)
            return size, True
        for a in range(m):
            level[a] += t * change[a]
    return size, False


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _weights(level, alpha, z):
    """Weights that sum to one exactly: nu's rounding error is spread over the support."""
    size, total = 0, 0.0
    for a in range(level.shape[0]):
        z[a] = max(level[a], 0.0) / alpha
        total += z[a]
        size += level[a] > 0.0
    correction = (1.0 - total) / size
    for a in range(level.shape[0]):
        z[a] = max(0.0, z[a] + correction) if z[a] > 0.0 else 0.0


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _add_curvature(w, alpha, level, H, anchor_labels, W, sums, curvature):
    """Add ``w L'M_S L`` with ``M_S = (I - A W^-1 A') / alpha``, the rows of A being (h, 1)."""
    n_clusters = curvature.shape[0]
    m, d = H.shape
    factor = w / alpha
    for l in range(n_clusters):
        for j in range(d + 1):
            sums[l, j] = 0.0
    for a in range(m):
        if level[a] > 0.0:
            own, row = sums[anchor_labels[a]], H[a]
            own[d] += 1.0
            for j in range(d):
                own[j] += row[j]
    for l in range(n_clusters):
        curvature[l, l] += factor * sums[l, d]
        forward(W, d + 1, sums[l])
    for l in range(n_clusters):
        own = sums[l]
        for k in range(l + 1):
            other = sums[k]
            total = 0.0
            for j in range(d + 1):
                total += own[j] * other[j]
            curvature[l, k] -= factor * total
            if k < l:
                curvature[k, l] -= factor * total


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _objective(x, unknowns, half_prices, alpha, z):
    """The row's optimal value without ``||x||^2``; ``H'z = x - p``."""
    objective = 0.0
    for j in range(x.shape[0]):
        objective += unknowns[j] * unknowns[j] - x[j] * x[j]
    for a in range(z.shape[0]):
        if z[a] > 0.0:  # the price of an anchor that may not be used is infinite
            objective += (alpha * z[a] + 2.0 * half_prices[a]) * z[a]
    return objective


@njit(nogil=True, cache=NUMBA_CACHE)
def _add_row(w, r, objective, z, anchor_labels, soft_labels, mass, value):
    """Write a solved row's soft labels, and add the row to the sums of its group r."""
    for l in range(soft_labels.shape[0]):
        soft_labels[l] = 0.0
    for a in range(z.shape[0]):
        soft_labels[anchor_labels[a]] += z[a]
    for l in range(soft_labels.shape[0]):
        mass[l, r] += w * soft_labels[l]
    value[r] += w * objective


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _linear_term(x, half_prices, HT, b):
    """Write the linear term of the row's program; return its largest finite absolute value."""
    d, m = HT.shape
    for a in range(m):
        b[a] = half_prices[a]
    for j in range(d):
        row, value = HT[j], x[j]
        for a in range(m):
            b[a] -= value * row[a]
    largest = 0.0
    for a in range(m):
        size = abs(b[a])
        largest = max(largest, size if size < np.inf else 0.0)
    return largest


@njit(nogil=True, cache=NUMBA_CACHE)
def _cell(b, Q, slopes):
    """Which of the starts a row takes: that of the anchor which is best alone."""
    return best_vertex(b, Q) if slopes.shape[0] > 1 else 0


@njit(nogil=True, cache=NUMBA_CACHE)
def sweep(
    X, group_codes, weights, active, H, HT, products, all_products, Q, alpha, half_prices, slopes,
    constants, anchor_labels, tolerance, largest, soft_labels, mass, curvature, value,
):  # fmt: skip
    """As `_active_set.sweep`, for rows measured from the anchors' centre.

    ``slopes[j]`` and ``constants[r, j]`` are the affine function of a row of group r with the best
    anchor j at which its iteration starts; there may be only one for all anchors.
    Rows with a linear term above ``largest``, whose weights would be differences of large
    numbers, and those that are not solved within the step limit, are left to the active set.
    """
    m, d = H.shape
    level, change, z, b = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    unknowns, step = np.empty(d + 1), np.empty(d + 1)
    W, sums = np.empty(products.shape[1]), np.empty((mass.shape[0], d + 1))
    chosen = np.empty(m + 1, dtype=np.int64)
    support, own_z, K = np.empty(m + 1, dtype=np.int64), np.empty(m + 1), np.empty((m + 2, m + 2))
    residual, u, column, work = np.empty(m + 1), np.empty(m + 2), np.empty(m + 2), np.empty(m + 2)
    total_support, n_unsolved = 0, 0
    for i in range(X.shape[0]):
        r = group_codes[i]
        if not active[r]:
            continue
        x, prices = X[i], half_prices[r]
        size, solved = 0, False
        if _linear_term(x, prices, HT, b) <= largest:
            k = _cell(b, Q, slopes)
            size, solved = solve_row(
                x, prices, slopes[k], constants[r, k], HT, products, all_products, alpha,
                unknowns, level, change, z, step, chosen, W,
            )  # fmt: skip
        if solved:
            _weights(level, alpha, z)
            objective = _objective(x, unknowns, prices, alpha, z)
            _add_row(weights[i], r, objective, z, anchor_labels, soft_labels[i], mass, value)
            if curvature.shape[0] > 0:
                _add_curvature(weights[i], alpha, level, H, anchor_labels, W, sums, curvature[r])
        else:
            size, multiplier, solved = _active_set.solve_row(
                b, Q, alpha, tolerance, support, own_z, K, work, residual, u, column
            )
            _active_set.add_row(
                weights[i], r, b, size, multiplier, support, own_z, K, anchor_labels,
                soft_labels[i], mass, curvature, value,
            )  # fmt: skip
        total_support += size
        n_unsolved += not solved
    return total_support, n_unsolved


@njit(nogil=True, cache=NUMBA_CACHE)
def weights_of_rows(
    X,
    group_codes,
    HT,
    products,
    all_products,
    Q,
    alpha,
    half_prices,
    slopes,
    constants,
    tolerance,
    largest,
    Z,
):
    """Write the anchor weights of each row of a block."""
    d, m = HT.shape
    level, change, b, positive = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    unknowns, step = np.empty(d + 1), np.empty(d + 1)
    W, chosen = np.empty(products.shape[1]), np.empty(m + 1, dtype=np.int64)
    support, own_z, K = np.empty(m + 1, dtype=np.int64), np.empty(m + 1), np.empty((m + 2, m + 2))
    residual, u, column, work = np.empty(m + 1), np.empty(m + 2), np.empty(m + 2), np.empty(m + 2)
    for i in range(X.shape[0]):
        r = group_codes[i]
        solved = False
        if _linear_term(X[i], half_prices[r], HT, b) <= largest:
            k = _cell(b, Q, slopes)
            _, solved = solve_row(
                X[i], half_prices[r], slopes[k], constants[r, k], HT, products, all_products,
                alpha, unknowns, level, change, positive, step, chosen, W,
            )  # fmt: skip
        if solved:
            _weights(level, alpha, Z[i])
        else:
            size, _, _ = _active_set.solve_row(
                b, Q, alpha, tolerance, support, own_z, K, work, residual, u, column
            )
            Z[i] = 0.0
            for a in range(size):
                Z[i, support[a]] = own_z[a]
