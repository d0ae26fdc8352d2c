"""Cluster sizes of the cheapest proportional assignment.

The program over fractional assignments x, with the sizes left free::

    minimise  sum_i w_i sum_l x[i, l] costs[i, l]
    subject to  sum_l x[i, l] = 1,   N[l, r] = pi_r N_l   for every cluster l and group r

has the dual ``max_q sum_i w_i min_l (costs[i, l] + q[l, g_i])`` over prices with
``sum_r pi_r q[l, r] = 0``; the multipliers of these c equations are the sizes N_l. The
minimum is smoothed by a temperature, which makes Newton's method applicable: a pass
yields one c × h table and h small matrices. The sizes at a low temperature are all that
is wanted here; the labels come from the exact transport with these sizes.
"""

from dataclasses import dataclass

import numpy as np

from fairanchor._kernels._free_sizes import maximise
from fairanchor._sampling import spread_sample

# Temperatures relative to the difference between a row's two best costs: the first to the
# mean, so that prices can go as far as outliers ask for, the last to the median row's.
FIRST_TEMPERATURE = 0.5
LAST_TEMPERATURE = 0.5 / 4**4
# More rows than this only sharpen what the rounding decides anyway.
SAMPLE_ROWS = 40_000
MAX_STEPS = 30
MASS_TOLERANCE = 1e-3


@dataclass(frozen=True)
class FreeSizes:
    """Sizes of the clusters (summing to the weight of the rows) and prices of the cells."""

    sizes: np.ndarray
    prices: np.ndarray


def free_sizes(costs, group_codes, weights, n_groups, start=None):
    """Sizes of the cheapest proportional assignment, from a start's prices if there is one.

    Parameters
    ----------
    costs : ndarray of shape (n_rows, n_clusters)
    group_codes : ndarray of shape (n_rows,)
    weights : ndarray of shape (n_rows,)
    n_groups : int
    start : FreeSizes, default=None
        Of a similar problem, such as the previous iteration's.

    Returns
    -------
    result : FreeSizes
    """
    n_clusters = costs.shape[1]
    total_weight = weights.sum()
    prices = np.zeros((n_clusters, n_groups))
    if n_clusters == 1 or n_groups == 1:
        sizes = np.bincount(costs.argmin(axis=1), weights=weights, minlength=n_clusters)
        return FreeSizes(sizes, prices)
    costs, codes, weights, present = _sample(costs, group_codes, weights, n_groups)
    mean, median = _typical_differences(costs, weights)
    if mean == 0.0:  # every row is tied: any sizes cost the same
        return FreeSizes(np.full(n_clusters, total_weight / n_clusters), prices)
    shares = np.bincount(codes, weights=weights) / weights.sum()
    if start is None:
        own, temperature = prices[:, present], FIRST_TEMPERATURE * mean
    else:
        own, temperature = start.prices[:, present], 4 * LAST_TEMPERATURE * median
        own = own - (own @ shares)[:, None]
    # Nothing much finer than a row survives the rounding.
    tolerance = np.maximum(MASS_TOLERANCE * weights.sum() * shares, 0.05 * weights.mean())
    own = np.ascontiguousarray(own)
    while True:
        own, sizes = maximise(costs, codes, weights, shares, own, temperature, tolerance, MAX_STEPS)
        if temperature <= LAST_TEMPERATURE * median:
            break
        temperature /= 4
    prices[:, present] = own
    sizes = np.maximum(sizes, 0.0)
    return FreeSizes(sizes * (total_weight / sizes.sum()), prices)


def _sample(costs, group_codes, weights, n_groups):
    """Rows with weight, not too many of them, and codes without gaps.

    Returns
    -------
    costs, codes, weights : ndarray
        The rows of a group weigh as much as all of its rows.
    present : ndarray of bool of shape (n_groups,)
        Groups that have a row here; the codes number them.
    """
    totals = np.bincount(group_codes, weights=weights, minlength=n_groups)
    rows = spread_sample(len(costs), SAMPLE_ROWS)
    rows = rows[weights[rows] > 0]
    codes, weights = group_codes[rows], weights[rows]
    sampled = np.bincount(codes, weights=weights, minlength=n_groups)
    present = sampled > 0
    factors = np.divide(totals, sampled, out=np.zeros(n_groups), where=present)
    return costs[rows], (np.cumsum(present) - 1)[codes], weights * factors[codes], present


def _typical_differences(costs, weights):
    """Mean and median of the differences between a row's two best costs, ties left out."""
    two_best = np.partition(costs, 1, axis=1)[:, :2]
    differences = two_best[:, 1] - two_best[:, 0]
    tied = differences == 0
    if tied.all():
        return 0.0, 0.0
    differences, weights = differences[~tied], weights[~tied]
    return float(np.average(differences, weights=weights)), float(np.median(differences))
