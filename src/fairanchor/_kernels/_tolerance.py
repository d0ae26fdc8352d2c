"""Kernels of the fair assignment by prices: which rows a change of prices can move.

A row of group j prefers the cluster with the largest ``scores[l] - prices[l, j]``; what it
loses anywhere else is its regret.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE
from fairanchor._kernels._centers import two_cheapest


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
