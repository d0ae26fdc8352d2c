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

# Temperatures relative to the mean difference between a row's two best costs.
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
    total_weight = weights.sum()
    if len(costs) > SAMPLE_ROWS:
        sample = np.arange(0, len(costs), -(-len(costs) // SAMPLE_ROWS))
        costs, group_codes, weights = costs[sample], group_codes[sample], weights[sample]
    n_clusters = costs.shape[1]
    if n_clusters == 1 or n_groups == 1:
        loads = np.bincount(costs.argmin(axis=1), weights=weights, minlength=n_clusters)
        return FreeSizes(loads * (total_weight / loads.sum()), np.zeros((n_clusters, n_groups)))

    two_best = np.partition(costs, 1, axis=1)[:, :2]
    unit = float(np.average(two_best[:, 1] - two_best[:, 0], weights=weights))
    if unit <= 0:  # every row is tied: any sizes cost the same
        sizes = np.full(n_clusters, total_weight / n_clusters)
        return FreeSizes(sizes, np.zeros((n_clusters, n_groups)))
    shares = np.bincount(group_codes, weights=weights, minlength=n_groups) / weights.sum()
    if start is None:
        prices, temperature = np.zeros((n_clusters, n_groups)), FIRST_TEMPERATURE * unit
    else:
        prices, temperature = start.prices, 4 * LAST_TEMPERATURE * unit
        prices = prices - (prices @ shares)[:, None]
    while True:
        prices, sizes = _maximise(costs, group_codes, weights, shares, prices, temperature)
        if temperature <= LAST_TEMPERATURE * unit:
            sizes = np.maximum(sizes, 0.0)
            return FreeSizes(sizes * (total_weight / sizes.sum()), prices)
        temperature /= 4


def _maximise(costs, group_codes, weights, shares, prices, temperature):
    """Newton's method at one temperature; returns prices and the sizes they imply."""
    value, mass, curvature = _evaluate(costs, group_codes, weights, shares, prices, temperature)
    tolerance = MASS_TOLERANCE * weights.sum() * shares
    for _ in range(MAX_STEPS):
        step, sizes = _newton_step(mass, curvature, shares, temperature)
        residual = mass - sizes[:, None] * shares
        if np.all(np.abs(residual).max(axis=0) <= tolerance):
            break
        length = 1.0
        while length > 1e-3:
            trial = prices + length * step
            new = _evaluate(costs, group_codes, weights, shares, trial, temperature)
            if new[0] >= value - 1e-12 * abs(value):
                break
            length /= 4
        else:
            break
        prices, (value, mass, curvature) = trial, new
    return prices, mass.sum(axis=1)


def _evaluate(costs, group_codes, weights, shares, prices, temperature):
    n_clusters, n_groups = costs.shape[1], len(shares)
    mass = np.zeros((n_clusters, n_groups))
    curvature = np.zeros((n_groups, n_clusters, n_clusters))
    value = soft_assignment(costs, group_codes, weights, prices, temperature, mass, curvature)
    return value, mass, curvature


def _newton_step(mass, curvature, shares, temperature):
    """Step of the prices, and the sizes that make it keep ``sum_r pi_r q[l, r] = 0``."""
    n_clusters = len(mass)
    flat = np.full((n_clusters, n_clusters), 1.0 / n_clusters)
    # The ridge bounds the step where hardly a row is near a tie; the constant vector, which
    # changes nothing, is sent to itself.
    scale = (mass.sum(axis=0) / n_clusters)[:, None, None]
    inverses = np.linalg.inv(curvature + scale * (1e-8 * np.eye(n_clusters) + flat))
    schur = np.einsum("r,rlk->lk", shares**2, inverses)
    right = np.einsum("r,rlk,kr->l", shares, inverses, mass)
    sizes = np.linalg.solve(schur, right)
    sizes *= mass.sum() / sizes.sum()
    step = temperature * np.einsum("rlk,kr->lr", inverses, mass - sizes[:, None] * shares)
    # A box per coordinate: the quadratic model holds for a few temperatures only.
    step = np.clip(step, -8 * temperature, 8 * temperature)
    return step - (step @ shares)[:, None], sizes
