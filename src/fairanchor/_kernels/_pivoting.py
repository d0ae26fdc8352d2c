"""Row solver H: block principal pivoting on the smaller side of the support.

The same program as in `_active_set`, for rows that use many of the anchors. F is the
set of anchors with weight, D the others. All anchors of F that came out negative leave,
all of D with a negative reduced gradient enter, at once; after three rounds without
progress only the one with the largest index changes side, which cannot cycle.

If D is the smaller side, the solution starts from that on all anchors, ``z0 = k - Mb``,
and only the system ``M_DD u = -z0_D`` is solved. Else it is ``Q_FF``'s.

Both lose digits where the linear term is very large compared with the ridge: such rows
are left to the active set, which refines its solution.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE, REASSOCIATE, _active_set
from fairanchor._kernels._active_set import best_vertex, magnitude


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _factorise(A, chosen, size, L):
    """Cholesky factor of ``A[chosen, chosen]``, lower triangle of L; False if not definite."""
    for p in range(size):
        row, own = A[chosen[p]], L[p]
        for q in range(p + 1):
            other = L[q]
            total = row[chosen[q]]
            for a in range(q):
                total -= own[a] * other[a]
            if p == q:
                if total <= 0.0:
                    return False
                own[p] = np.sqrt(total)
            else:
                own[q] = total / other[q]
    return True


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _forward(L, size, x):
    for p in range(size):
        row = L[p]
        total = x[p]
        for a in range(p):
            total -= row[a] * x[a]
        x[p] = total / row[p]


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _backward(L, size, x):
    for p in range(size - 1, -1, -1):
        row = L[p]
        value = x[p] / row[p]
        x[p] = value
        for a in range(p):
            x[a] -= row[a] * value


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _solve_on_free(b, Q, free, n_free, z, reduced, L, x, e):
    """Weights on F and reduced gradients on D from the system of F."""
    m = b.shape[0]
    if not _factorise(Q, free, n_free, L):
        return False
    for p in range(n_free):
        x[p] = -b[free[p]]
        e[p] = 1.0
    _forward(L, n_free, x)
    _backward(L, n_free, x)
    _forward(L, n_free, e)
    _backward(L, n_free, e)
    total_x, total_e = 0.0, 0.0
    for p in range(n_free):
        total_x += x[p]
        total_e += e[p]
    multiplier = (1.0 - total_x) / total_e
    for j in range(m):
        z[j] = 0.0
        reduced[j] = b[j] - multiplier
    for p in range(n_free):
        weight = x[p] + multiplier * e[p]
        z[free[p]] = weight
        column = Q[free[p]]
        for j in range(m):
            reduced[j] += weight * column[j]
    return True


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _solve_on_dropped(z0, M, dropped, n_dropped, z, reduced, L, x):
    """Weights on F and reduced gradients on D from the system of D."""
    m = z0.shape[0]
    if not _factorise(M, dropped, n_dropped, L):
        return False
    for p in range(n_dropped):
        x[p] = -z0[dropped[p]]
    _forward(L, n_dropped, x)
    _backward(L, n_dropped, x)
    for j in range(m):
        z[j] = z0[j]
        reduced[j] = 0.0
    for p in range(n_dropped):
        row = M[dropped[p]]
        weight = x[p]
        for j in range(m):
            z[j] += weight * row[j]
    for p in range(n_dropped):
        z[dropped[p]] = 0.0
        reduced[dropped[p]] = x[p]
    return True


@njit(nogil=True, cache=NUMBA_CACHE)
def _split(is_free, free, dropped):
    n_free, n_dropped = 0, 0
    for j in range(is_free.shape[0]):
        if is_free[j]:
            free[n_free] = j
            n_free += 1
        else:
            dropped[n_dropped] = j
            n_dropped += 1
    return n_free, n_dropped


@njit(nogil=True, cache=NUMBA_CACHE)
def _normalise(free, n_free, z):
    total = 0.0
    for p in range(n_free):
        total += z[free[p]]
    for p in range(n_free):
        z[free[p]] /= total


@njit(nogil=True, cache=NUMBA_CACHE)
def solve_row(b, z0, Q, M, tolerance, largest, is_free, free, dropped, z, reduced, L, x, e):
    """Solve one row's program; ``z`` holds the solution and ``free`` its support.

    Returns
    -------
    n_free : int
    by_free : bool
        Whether L is the factor of ``Q_FF`` (else of ``M_DD``).
    solved : bool
        False also if the terms of the gradient exceed ``largest``: nothing is tried then.
    """
    m = b.shape[0]
    size_of_terms = magnitude(b, Q)
    if size_of_terms > largest:
        return 0, True, False
    tolerance *= size_of_terms
    n_free = 0
    for j in range(m):
        is_free[j] = b[j] < np.inf and z0[j] > 0.0
        n_free += is_free[j]
    if n_free == 0:
        is_free[best_vertex(b, Q)] = True
    fewest, patience = m + 1, 3
    by_free = True
    for _ in range(100 + 10 * m):
        n_free, n_dropped = _split(is_free, free, dropped)
        by_free = n_free <= n_dropped
        if by_free:
            definite = _solve_on_free(b, Q, free, n_free, z, reduced, L, x, e)
        else:
            definite = _solve_on_dropped(z0, M, dropped, n_dropped, z, reduced, L, x)
        if not definite:
            break
        n_wrong, last_wrong = 0, -1
        for j in range(m):
            if b[j] < np.inf and (z[j] < 0.0 if is_free[j] else reduced[j] < -tolerance):
                n_wrong += 1
                last_wrong = j
        if n_wrong == 0:
            _normalise(free, n_free, z)
            return n_free, by_free, True
        if n_wrong < fewest:
            fewest, patience = n_wrong, 3
        else:
            patience -= 1
        if patience >= 0:
            for j in range(m):
                if b[j] < np.inf and (z[j] < 0.0 if is_free[j] else reduced[j] < -tolerance):
                    is_free[j] = not is_free[j]
        else:
            is_free[last_wrong] = not is_free[last_wrong]
    return n_free, by_free, False


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def _add_curvature(
    w, by_free, free, n_free, dropped, n_dropped, anchor_labels, cluster_M, cluster_curvature,
    L, x, columns, curvature,
):  # fmt: skip
    """Add ``w L' M_S L``, M_S the inverse on the support with the constant direction removed."""
    n_clusters = curvature.shape[0]
    if not by_free:
        # M_S = M - M_D' M_DD^-1 M_D: one triangular solve per cluster.
        for l in range(n_clusters):
            for p in range(n_dropped):
                columns[l, p] = cluster_M[l, dropped[p]]
            _forward(L, n_dropped, columns[l])
        for l in range(n_clusters):
            for k in range(n_clusters):
                total = cluster_curvature[l, k]
                for p in range(n_dropped):
                    total -= columns[l, p] * columns[k, p]
                curvature[l, k] += w * total
        return
    for l in range(n_clusters):
        for p in range(n_free):
            columns[l, p] = 1.0 if anchor_labels[free[p]] == l else 0.0
        _forward(L, n_free, columns[l])
    for p in range(n_free):
        x[p] = 1.0
    _forward(L, n_free, x)
    norm = 0.0
    for p in range(n_free):
        norm += x[p] * x[p]
    for l in range(n_clusters):
        along = 0.0
        for p in range(n_free):
            along += columns[l, p] * x[p]
        for p in range(n_free):
            columns[l, p] -= along / norm * x[p]
    for l in range(n_clusters):
        for k in range(n_clusters):
            total = 0.0
            for p in range(n_free):
                total += columns[l, p] * columns[k, p]
            curvature[l, k] += w * total


@njit(nogil=True, cache=NUMBA_CACHE)
def sweep(
    products, starts, group_codes, weights, active, Q, M, alpha, half_prices,
    price_starts, anchor_labels, cluster_M, cluster_curvature, tolerance, largest,
    soft_labels, mass, curvature, value,
):  # fmt: skip
    """As `_active_set.sweep`; ``starts - price_starts`` are the solutions on all anchors.

    ``cluster_M`` and ``cluster_curvature`` are M with its rows, and with rows and columns,
    summed over the anchors of each cluster. Rows with terms above ``largest``, and those that
    pivoting does not solve, are solved by the active set.
    """
    m = Q.shape[0]
    n_clusters = mass.shape[0]
    b, z0, z = np.empty(m), np.empty(m), np.empty(m)
    reduced, x, e = np.empty(m + 2), np.empty(m), np.empty(m)
    is_free = np.empty(m, dtype=np.bool_)
    free, dropped = np.empty(m, dtype=np.int64), np.empty(m, dtype=np.int64)
    L, columns = np.empty((m, m)), np.empty((n_clusters, m))
    support, own_z, K = np.empty(m + 1, dtype=np.int64), np.empty(m + 1), np.empty((m + 2, m + 2))
    residual, u, column = np.empty(m + 1), np.empty(m + 2), np.empty(m + 2)
    total_support, n_unsolved = 0, 0
    for i in range(products.shape[0]):
        r = group_codes[i]
        if not active[r]:
            continue
        for j in range(m):
            b[j] = half_prices[r, j] - products[i, j]
            z0[j] = starts[i, j] - price_starts[r, j]
        n_free, by_free, solved = solve_row(
            b, z0, Q, M, tolerance, largest, is_free, free, dropped, z, reduced, L, x, e
        )
        if solved:
            _add_row(
                weights[i], r, b, Q, by_free, free, n_free, dropped, z, anchor_labels, cluster_M,
                cluster_curvature, L, x, columns, soft_labels[i], mass, curvature, value,
            )  # fmt: skip
        else:
            n_free, multiplier, solved = _active_set.solve_row(
                b, Q, alpha, tolerance, support, own_z, K, reduced, residual, u, column
            )
            _active_set.add_row(
                weights[i], r, b, n_free, multiplier, support, own_z, K, anchor_labels,
                soft_labels[i], mass, curvature, value,
            )  # fmt: skip
        total_support += n_free
        n_unsolved += not solved
    return total_support, n_unsolved


@njit(nogil=True, cache=NUMBA_CACHE)
def _add_row(
    w, r, b, Q, by_free, free, n_free, dropped, z, anchor_labels, cluster_M, cluster_curvature,
    L, x, columns, soft_labels, mass, curvature, value,
):  # fmt: skip
    """Write a solved row's soft labels, and add the row to the sums of its group r."""
    n_clusters = mass.shape[0]
    for l in range(n_clusters):
        soft_labels[l] = 0.0
    linear = 0.0
    heaviest = free[0]
    for p in range(n_free):
        j = free[p]
        soft_labels[anchor_labels[j]] += z[j]
        linear += b[j] * z[j]
        if z[j] > z[heaviest]:
            heaviest = j
    # The gradient's value on the support, from the anchor that carries most weight.
    multiplier = b[heaviest]
    for p in range(n_free):
        multiplier += Q[heaviest, free[p]] * z[free[p]]
    for l in range(n_clusters):
        mass[l, r] += w * soft_labels[l]
    value[r] += w * (multiplier + linear)
    if curvature.shape[0] > 0:
        _add_curvature(
            w, by_free, free, n_free, dropped, b.shape[0] - n_free, anchor_labels, cluster_M,
            cluster_curvature, L, x, columns, curvature[r],
        )  # fmt: skip


@njit(nogil=True, cache=NUMBA_CACHE)
def weights_of_rows(
    products, starts, group_codes, Q, M, alpha, half_prices, price_starts, tolerance, largest, Z
):
    """Write the anchor weights of each row of a block."""
    m = Q.shape[0]
    b, z0, reduced = np.empty(m), np.empty(m), np.empty(m)
    x, e = np.empty(m), np.empty(m)
    is_free = np.empty(m, dtype=np.bool_)
    free, dropped = np.empty(m, dtype=np.int64), np.empty(m, dtype=np.int64)
    L = np.empty((m, m))
    support, own_z, K = np.empty(m + 1, dtype=np.int64), np.empty(m + 1), np.empty((m + 2, m + 2))
    residual, u, column, work = np.empty(m + 1), np.empty(m + 2), np.empty(m + 2), np.empty(m + 2)
    for i in range(products.shape[0]):
        r = group_codes[i]
        for j in range(m):
            b[j] = half_prices[r, j] - products[i, j]
            z0[j] = starts[i, j] - price_starts[r, j]
        _, _, solved = solve_row(
            b, z0, Q, M, tolerance, largest, is_free, free, dropped, Z[i], reduced,
            L, x, e,
        )  # fmt: skip
        if not solved:
            size, _, _ = _active_set.solve_row(
                b, Q, alpha, tolerance, support, own_z, K, work, residual, u, column
            )
            Z[i] = 0.0
            for a in range(size):
                Z[i, support[a]] = own_z[a]
