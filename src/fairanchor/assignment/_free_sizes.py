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

from fairanchor._kernels._centers import soft_assignment
from fairanchor._sampling import spread_sample

# Temperatures relative to the difference between a row's two best costs: the first to the
# mean, so that prices can go as far as outliers ask for, the last to the median row's.
FIRST_TEMPERATURE = 0.5
LAST_TEMPERATURE = 0.5 / 4**4
# More rows than this only sharpen what the rounding decides anyway.
SAMPLE_ROWS = 40_000
MAX_STEPS = 20
MASS_TOLERANCE = 1e-3
LEAST_RIDGE = 1e-8


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
    while True:
        own, sizes = _maximise(costs, codes, weights, shares, own, temperature)
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


def _maximise(costs, group_codes, weights, shares, prices, temperature):
    """Newton's method at one temperature; returns prices and the sizes they imply."""
    value, mass, curvature = _evaluate(costs, group_codes, weights, shares, prices, temperature)
    # Nothing much finer than a row survives the rounding.
    tolerance = np.maximum(MASS_TOLERANCE * weights.sum() * shares, 0.05 * weights.mean())
    ridge = LEAST_RIDGE
    for _ in range(MAX_STEPS):
        step, sizes = _newton_step(mass, curvature, shares, temperature, ridge)
        residual = mass - sizes[:, None] * shares
        if np.all(np.abs(residual).max(axis=0) <= tolerance):
            return prices, sizes
        trial = prices + step
        new = _evaluate(costs, group_codes, weights, shares, trial, temperature)
        if new[0] >= value - 1e-12 * abs(value):
            prices, (value, mass, curvature) = trial, new
            ridge = max(ridge / 100, LEAST_RIDGE)
        else:  # where hardly a row is near a tie the quadratic model promises too much
            ridge *= 10
    return prices, mass.sum(axis=1)


def _evaluate(costs, group_codes, weights, shares, prices, temperature):
    n_clusters, n_groups = costs.shape[1], len(shares)
    mass = np.zeros((n_clusters, n_groups))
    curvature = np.zeros((n_groups, n_clusters, n_clusters))
    value = soft_assignment(costs, group_codes, weights, prices, temperature, mass, curvature)
    return value, mass, curvature


def _newton_step(mass, curvature, shares, temperature, ridge):
    """Step of the prices, and the sizes that make it keep ``sum_r pi_r q[l, r] = 0``."""
    n_clusters = len(mass)
    flat = np.full((n_clusters, n_clusters), 1.0 / n_clusters)
    # The ridge bounds the step; the constant vector, which changes nothing, is sent to itself.
    scale = (mass.sum(axis=0) / n_clusters)[:, None, None]
    inverses = np.linalg.inv(curvature + scale * (ridge * np.eye(n_clusters) + flat))
    schur = np.einsum("r,rlk->lk", shares**2, inverses)
    right = np.einsum("r,rlk,kr->l", shares, inverses, mass)
    sizes = np.linalg.solve(schur, right)
    sizes *= mass.sum() / sizes.sum()
    step = temperature * np.einsum("rlk,kr->lr", inverses, mass - sizes[:, None] * shares)
    # A box per coordinate: the quadratic model holds for a few temperatures only.
    step = np.clip(step, -8 * temperature, 8 * temperature)
    return step - (step @ shares)[:, None], sizes
