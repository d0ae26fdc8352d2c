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
from fairanchor._kernels._sorting import split_by_code
from fairanchor._kernels._transport import score_differences
from fairanchor._sampling import spread_sample_by_weight

# Temperatures relative to the difference between a row's two best costs: the first to the
# mean, so that prices can go as far as outliers ask for, the last to the median row's.
FIRST_TEMPERATURE = 0.5
LAST_TEMPERATURE = 0.5 / 4**4
# More rows than this only sharpen what the rounding decides anyway.
SAMPLE_ROWS = 40_000
# Rows on which prices are looked for first: they have far to go.
START_ROWS = 2_000
MAX_STEPS = 30
MASS_TOLERANCE = 1e-3
# Part of a row below which a cluster is empty: smoothing leaves none without a trace.
LEAST_SIZE = 1e-5


@dataclass(frozen=True)
class FreeSizes:
    """The smoothed solution.

    Attributes
    ----------
    sizes : ndarray of shape (n_clusters,)
        Of the clusters, summing to the weight of the rows.
    prices : ndarray of shape (n_clusters, n_groups)
        A row of group r prefers the cluster with the largest ``scores[l] - prices[l, r]``.
    temperature : float
        By how much less it may fit and still get a share of the row; zero is no smoothing.
    """

    sizes: np.ndarray
    prices: np.ndarray
    temperature: float = 0.0


def free_sizes(scores, group_codes, weights, n_groups, start=None):
    """Sizes of the cheapest proportional assignment, from a start's prices if there is one.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_clusters)
        Minus the costs.
    group_codes : ndarray of shape (n_rows,)
    weights : ndarray of shape (n_rows,)
    n_groups : int
    start : FreeSizes, default=None
        Of a similar problem, such as the previous iteration's.

    Returns
    -------
    result : FreeSizes
    """
    n_clusters = scores.shape[1]
    total_weight = weights.sum()
    prices = np.zeros((n_clusters, n_groups))
    if n_clusters == 1 or n_groups == 1:
        sizes = np.bincount(scores.argmax(axis=1), weights=weights, minlength=n_clusters)
        return FreeSizes(sizes, prices)
    scores, codes, weights, present = _sample(scores, group_codes, weights, n_groups)
    mean, median = _typical_differences(scores, weights)
    if mean == 0.0:  # every row is tied: any sizes cost the same
        return FreeSizes(np.full(n_clusters, total_weight / n_clusters), prices)
    shares = np.bincount(codes, weights=weights) / weights.sum()
    if start is not None:
        own = start.prices[:, present]
    else:
        start = _start_on_few(scores, codes, weights, len(shares))
        own = prices[:, present] if start is None else start.prices
    own = np.ascontiguousarray(own - (own @ shares)[:, None])
    temperature = FIRST_TEMPERATURE * mean if start is None else 4 * LAST_TEMPERATURE * median
    # Nothing much finer than a row survives the rounding.
    tolerance = np.maximum(MASS_TOLERANCE * weights.sum() * shares, 0.05 * weights.mean())
    while True:
        own, sizes = maximise(
            scores, codes, weights, shares, own, temperature, tolerance, MAX_STEPS
        )
        if temperature <= LAST_TEMPERATURE * median:
            break
        temperature /= 4
    prices[:, present] = own
    sizes = np.where(sizes > LEAST_SIZE * weights.mean(), sizes, 0.0)
    return FreeSizes(sizes * (total_weight / sizes.sum()), prices, temperature)


def _start_on_few(scores, codes, weights, n_groups):
    """Solution of the same program on a few rows of each group; None if these are not few."""
    few, few_weights = [], []
    for own in split_by_code(codes, n_groups):
        rows, own_weights = spread_sample_by_weight(weights[own], START_ROWS // n_groups + 1)
        few.append(own[rows])
        few_weights.append(own_weights)
    few = np.concatenate(few)
    if 4 * len(few) > len(scores):
        return None
    return free_sizes(scores[few], codes[few], np.concatenate(few_weights), n_groups)


def _sample(scores, group_codes, weights, n_groups):
    """Rows with weight, not too many of them, and codes without gaps.

    Returns
    -------
    scores, codes, weights : ndarray
        The rows of a group weigh as much as all of its rows.
    present : ndarray of bool of shape (n_groups,)
        Groups that have a row here; the codes number them.
    """
    totals = np.bincount(group_codes, weights=weights, minlength=n_groups)
    rows, weights = spread_sample_by_weight(weights, SAMPLE_ROWS)
    rows, weights = rows[weights > 0], weights[weights > 0]
    codes = group_codes[rows]
    sampled = np.bincount(codes, weights=weights, minlength=n_groups)
    present = sampled > 0
    factors = np.divide(totals, sampled, out=np.zeros(n_groups), where=present)
    return scores[rows], (np.cumsum(present) - 1)[codes], weights * factors[codes], present


def _typical_differences(scores, weights):
    """Mean and median of the differences between a row's two best scores, ties left out."""
    differences, farthest = np.empty(len(scores)), np.empty(len(scores))
    score_differences(scores, differences, farthest)
    tied = differences == 0
    if tied.all():
        return 0.0, 0.0
    differences, weights = differences[~tied], weights[~tied]
    return float(np.average(differences, weights=weights)), float(np.median(differences))
