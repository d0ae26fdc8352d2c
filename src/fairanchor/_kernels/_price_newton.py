"""Kernels of Newton's method on the smoothed dual of the fair assignment."""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE
from fairanchor._kernels._centers import soft_assignment

# Steps to the maximum of the quadratic model. Nearly always there are fewer, and a Newton step
# that is not quite the best one will do.
BOX_STEPS = 60
# Part of such a step, when cut back to the box, that is tried at the least.
SHORTEST_PART = 1e-4


@njit(nogil=True, cache=NUMBA_CACHE)
def smoothed_dual(scores, group_codes, weights, by_group, right, multipliers, temperature):
    """Value, gradient and curvature of the smoothed dual.

    Parameters
    ----------
    by_group : ndarray of shape (n_groups, n_limits, n_clusters)
        Coefficients of the limits.
    right, multipliers : ndarray of shape (n_limits,)

    Returns
    -------
    value : float
    gradient : ndarray of shape (n_limits,)
    curvature : ndarray of shape (n_groups, n_clusters, n_clusters)
        Minus the second derivative by the prices of each group.
    """
    n_groups, n_limits, n_clusters = by_group.shape
    prices, mass = np.zeros((n_clusters, n_groups)), np.zeros((n_clusters, n_groups))
    for j in range(n_groups):
        for k in range(n_limits):
            prices[:, j] += multipliers[k] * by_group[j, k]
    curvature = np.zeros((n_groups, n_clusters, n_clusters))
    value = soft_assignment(scores, group_codes, weights, prices, temperature, mass, curvature)
    gradient = -right
    for j in range(n_groups):
        for k in range(n_limits):
            for l in range(n_clusters):
                gradient[k] += by_group[j, k, l] * mass[l, j]
    return value - right @ multipliers, gradient, curvature / temperature


@njit(nogil=True, cache=NUMBA_CACHE)
def worst_miss(gradient, multipliers, is_equal):
    """Largest part of a gradient that multipliers, where not negative, could still follow."""
    worst = 0.0
    for k in range(len(gradient)):
        both_ways = is_equal[k] or multipliers[k] > 0.0
        worst = max(worst, abs(gradient[k]) if both_ways else gradient[k])
    return worst


@njit(nogil=True, cache=NUMBA_CACHE)
def _newton_direction(matrix, slope, held):
    """Step to the best point of the coordinates that are not held."""
    free = np.flatnonzero(~held)
    block = np.empty((len(free), len(free)))
    for a in range(len(free)):
        for b in range(len(free)):
            block[a, b] = matrix[free[a], free[b]]
    step = np.zeros(len(slope))
    if len(free) > 0:
        step[free] = np.linalg.solve(block, slope[free])
    return step


@njit(nogil=True, cache=NUMBA_CACHE)
def maximise_in_box(matrix, gradient, lower, upper, max_steps):
    """Maximise ``gradient'd - d'matrix d / 2`` over a box that contains zero.

    The matrix is positive definite. Coordinates that meet a bound are held there until the
    others have come to their best; then those that would gain by leaving are let go. A step
    that leaves the box is cut back to it, and shortened until it pays; up to the first bound
    it always does.
    """
    size = len(gradient)
    point, slope, value = np.zeros(size), gradient.copy(), 0.0
    least_slope = 1e-9 * np.abs(gradient).max()
    held = ((lower >= 0.0) & (slope < 0.0)) | ((upper <= 0.0) & (slope > 0.0))
    for _ in range(max_steps):
        step = _newton_direction(matrix, slope, held)
        bound = np.where(step > 0.0, upper, lower)
        part = np.full(size, np.inf)  # of the step, at which a coordinate meets its bound
        for k in np.flatnonzero(step):
            part[k] = max((bound[k] - point[k]) / step[k], 0.0)
        first, length, before = part.min(), 1.0, value
        while True:
            length = max(length, min(first, 1.0))
            trial = np.minimum(np.maximum(point + length * step, lower), upper)
            trial = np.where(part <= length, bound, trial)
            slope = gradient - matrix @ trial
            value = 0.5 * (trial @ (gradient + slope))
            if value > before or not length > first:
                break
            length = 0.25 * length if length > SHORTEST_PART else first
        point = trial
        if first < 1.0:
            held |= part <= length
            continue
        let_go = np.where(point <= lower, slope > least_slope, slope < -least_slope)
        let_go &= held & (lower < upper)
        if not let_go.any():
            break
        held &= ~let_go
    return point


@njit(nogil=True, cache=NUMBA_CACHE)
def newton_step(by_group, is_equal, curvature, ridge, gradient, multipliers, box):
    """Step in a box that maximises the quadratic model ``gradient'd - d'(A K A' + ridge I)d / 2``.

    K is block-diagonal with the groups' ``curvature``. Multipliers of inequalities do not get
    negative.
    """
    size = len(gradient)
    lower, upper = np.full(size, -box), np.full(size, box)
    for k in range(size):
        if not is_equal[k]:
            lower[k] = max(-box, -multipliers[k])
    matrix = ridge * np.eye(size)
    for j in range(len(by_group)):
        matrix += by_group[j] @ (curvature[j] @ by_group[j].T)
    return maximise_in_box(matrix, gradient, lower, upper, BOX_STEPS)
