"""Kernels of the fair assignment by prices: which rows a change of prices can move.

A row of group j prefers the cluster with the largest ``scores[l] - prices[l, j]``; what it
loses anywhere else is its regret.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE


@njit(nogil=True, cache=NUMBA_CACHE)
def prefer(scores, group_codes, weights, prices, labels, margins, mass):
    """Write each row's preferred cluster, lowest on ties, and its regret for the second best.

    ``mass`` (clusters × groups) is incremented by the weights. Returns the weighted sum of
    the rows' costs under these prices, ``prices - scores``.
    """
    n_clusters = scores.shape[1]
    value = 0.0
    for i in range(scores.shape[0]):
        own, j = scores[i], group_codes[i]
        best, lowest, second = 0, np.inf, np.inf
        for l in range(n_clusters):
            cost = prices[l, j] - own[l]
            if cost < lowest:
                best, lowest, second = l, cost, lowest
            elif cost < second:
                second = cost
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
def distances_of_cells(scores, group_codes, prices, n_rows, least):
    """By how much a cell's price must change to move ``n_rows`` rows, others unchanged.

    Rows that are tied already, up to ``least``, do not count. Infinite if there are fewer.
    """
    n_clusters, n_groups = prices.shape
    heaps = np.full((n_clusters, n_groups, n_rows), np.inf)
    regrets = np.empty(n_clusters)
    for i in range(scores.shape[0]):
        own, j = scores[i], group_codes[i]
        best, lowest, second = 0, np.inf, np.inf
        for l in range(n_clusters):
            cost = prices[l, j] - own[l]
            regrets[l] = cost
            if cost < lowest:
                best, lowest, second = l, cost, lowest
            elif cost < second:
                second = cost
        for l in range(n_clusters):
            distance = second - lowest if l == best else regrets[l] - lowest
            if least < distance < heaps[l, j, 0]:
                _keep_smaller(heaps[l, j], distance)
    return heaps[:, :, 0].copy()


@njit(nogil=True, cache=NUMBA_CACHE)
def find_movable(scores, group_codes, prices, boxes, is_movable):
    """Write which rows could prefer another cluster after changes of prices within boxes."""
    n_clusters = scores.shape[1]
    regrets = np.empty(n_clusters)
    for i in range(scores.shape[0]):
        own, j = scores[i], group_codes[i]
        best, lowest = 0, np.inf
        for l in range(n_clusters):
            regrets[l] = prices[l, j] - own[l]
            if regrets[l] < lowest:
                best, lowest = l, regrets[l]
        is_movable[i] = False
        for l in range(n_clusters):
            if l != best and regrets[l] - lowest < boxes[l, j] + boxes[best, j]:
                is_movable[i] = True
                break


@njit(nogil=True, cache=NUMBA_CACHE)
def _ascend(matrix, gradient, lower, upper, point, value, step):
    """Cut a step back to the box, halve it until it pays; the new point, slope and value."""
    length = 1.0
    while length > 1e-4:
        trial = np.minimum(np.maximum(point + length * step, lower), upper)
        slope = gradient - matrix @ trial
        trial_value = 0.5 * (trial @ (gradient + slope))
        if trial_value > value:
            return trial, slope, trial_value
        length *= 0.5
    return point, gradient - matrix @ point, value


@njit(nogil=True, cache=NUMBA_CACHE)
def maximise_in_box(matrix, gradient, lower, upper, max_steps):
    """Maximise ``gradient'd - d'matrix d / 2`` over a box that contains zero.

    The matrix is positive definite. Coordinates that are at a bound and want to go beyond
    are left there; the others take a Newton step, or follow the scaled gradient where the
    bounds they meet on the way make that step useless.
    """
    size = len(gradient)
    diagonal = np.diag(matrix)
    point, slope, value = np.zeros(size), gradient.copy(), 0.0
    for _ in range(max_steps):
        held = ((point <= lower) & (slope < 0.0)) | ((point >= upper) & (slope > 0.0))
        free = np.flatnonzero(~held)
        if len(free) == 0:
            break
        part = np.empty((len(free), len(free)))
        for a in range(len(free)):
            for b in range(len(free)):
                part[a, b] = matrix[free[a], free[b]]
        step = np.zeros(size)
        step[free] = np.linalg.solve(part, slope[free])
        before = value
        point, slope, value = _ascend(matrix, gradient, lower, upper, point, value, step)
        if value == before:
            step[free] = slope[free] / diagonal[free]
            point, slope, value = _ascend(matrix, gradient, lower, upper, point, value, step)
        if value - before <= 1e-9 * abs(value):
            break
    return point
