"""Kernels of the fair assignment by prices: which rows a change of prices can move.

A row of group j prefers the cluster with the largest ``scores[l] - prices[l, j]``; what it
loses anywhere else is its regret.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE
from fairanchor._kernels._centers import soft_assignment, two_cheapest

# Of the quadratic model of a Newton step, which need not be maximised exactly.
BOX_STEPS = 60


@njit(nogil=True, cache=NUMBA_CACHE)
def prefer(scores, group_codes, weights, prices, labels, margins, mass):
    """Write each row's preferred cluster, lowest on ties, and its regret for the second best.

    ``mass`` (clusters × groups) is incremented by the weights. Returns the weighted sum of
    the rows' costs under these prices, ``prices - scores``.
    """
    value = 0.0
    by_group = prices.T.copy()
    for i in range(scores.shape[0]):
        j = group_codes[i]
        best, lowest, second = two_cheapest(scores[i], by_group[j])
        labels[i] = best
        margins[i] = second - lowest
        mass[best, j] += weights[i]
        value += weights[i] * lowest
    return value


@njit(nogil=True, cache=NUMBA_CACHE)
def regrets(scores, group_codes, prices, rows, out):
    """Write the regrets of some rows for all clusters; zero for the preferred one."""
    n_clusters = scores.shape[1]
    for k in range(rows.shape[0]):
        own, j, target = scores[rows[k]], group_codes[rows[k]], out[k]
        lowest = np.inf
        for l in range(n_clusters):
            target[l] = prices[l, j] - own[l]
            lowest = min(lowest, target[l])
        for l in range(n_clusters):
            target[l] -= lowest


@njit(nogil=True, cache=NUMBA_CACHE)
def raise_rewards(scores, group_codes, rewards):
    """Raise ``rewards`` (clusters × groups) as far as no row would rather be elsewhere.

    A row is where ``scores[l] + rewards[l, j]`` is largest. That of a group without rows stays.
    """
    n_clusters, n_groups = rewards.shape
    highest = np.full((n_clusters, n_groups), np.inf)
    for i in range(scores.shape[0]):
        j, best = group_codes[i], -np.inf
        for l in range(n_clusters):
            best = max(best, scores[i, l] + rewards[l, j])
        for l in range(n_clusters):
            highest[l, j] = min(highest[l, j], best - scores[i, l])
    for l in range(n_clusters):
        for j in range(n_groups):
            if highest[l, j] < np.inf:
                rewards[l, j] = highest[l, j]


@njit(nogil=True, cache=NUMBA_CACHE)
def _keep_smaller(heap, value):
    """Put a value in the place of a heap's largest, which is on top."""
    size, place = len(heap), 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = value


@njit(nogil=True, cache=NUMBA_CACHE)
def distances_of_cells(scores, group_codes, prices, labels, margins, n_rows, least):
    """By how much a cell's price must change to move ``n_rows`` rows, others unchanged.

    Rows have the labels and margins of `prefer`. Those that are tied already, up to ``least``,
    do not count. Infinite if there are fewer.
    """
    n_clusters, n_groups = prices.shape
    heaps = np.full((n_groups, n_clusters, n_rows), np.inf)
    farthest = np.full((n_groups, n_clusters), np.inf)
    by_group = prices.T.copy()
    for i in range(scores.shape[0]):
        own, j, best = scores[i], group_codes[i], labels[i]
        lowest = by_group[j, best] - own[best]
        for l in range(n_clusters):
            distance = margins[i] if l == best else by_group[j, l] - own[l] - lowest
            if least < distance < farthest[j, l]:
                _keep_smaller(heaps[j, l], distance)
                farthest[j, l] = heaps[j, l, 0]
    return farthest.T.copy()


@njit(nogil=True, cache=NUMBA_CACHE)
def find_movable(scores, group_codes, prices, labels, margins, boxes):
    """Rows that could prefer another cluster after changes of prices within boxes.

    Rows have the labels and margins of `prefer`.
    """
    n_clusters, n_groups = prices.shape
    by_group = prices.T.copy()
    widest = np.array([2.0 * boxes[:, j].max() for j in range(n_groups)])
    movable, n_movable = np.empty(scores.shape[0], dtype=np.int64), 0
    for i in range(scores.shape[0]):
        j, best = group_codes[i], labels[i]
        if margins[i] >= widest[j]:
            continue
        own = scores[i]
        lowest = by_group[j, best] - own[best]
        for l in range(n_clusters):
            regret = by_group[j, l] - own[l] - lowest
            if l != best and regret < boxes[l, j] + boxes[best, j]:
                movable[n_movable] = i
                n_movable += 1
                break
    return movable[:n_movable].copy()


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
    part = np.empty((len(free), len(free)))
    for a in range(len(free)):
        for b in range(len(free)):
            part[a, b] = matrix[free[a], free[b]]
    step = np.zeros(len(slope))
    if len(free) > 0:
        step[free] = np.linalg.solve(part, slope[free])
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
            length *= 0.25
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
