"""Bound updates of variational fair clustering.

Three facts carry the file:

1. The penalty's gradient at row i depends only on the row's group, so a step adds one
   number per (cluster, group) cell to the row's scores.
2. Hence the soft labels after any number of steps are
   ``softmax(-sharpness * costs[i] - prices[:, group of i])``: one scalar and one
   clusters x groups table describe them, and no soft label is ever stored.
3. Row weights multiply a row's whole term, so they cancel in its update and only enter
   the sums: a row of weight 2 behaves as two equal rows.

``masses[l, r]`` is the (soft or hard) weight of group r in cluster l.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from fairanchor._kernels import INNER, LEAN

#: A step is halved at most this often before the point counts as stationary.
MAX_HALVINGS = 40
#: The curvature bound is for the worst direction. After each step that lowered the energy
#: this share of it is tried: about six times fewer steps when the penalty dominates.
COURAGE = 0.8


class Model(NamedTuple):
    """Weight and group of each row, the groups' shares of the total weight, and the penalty.

    Cells are at least ``floor * shares[r]`` and cluster totals ``floor``, which makes the penalty
    of an empty cluster zero.
    """

    weights: np.ndarray
    codes: np.ndarray
    shares: np.ndarray
    strength: float
    floor: float


@njit(**LEAN)
def penalty_of_masses(masses, model):
    """``strength`` times the sum over clusters of KL(shares || composition of the cluster)."""
    n_clusters, n_groups = masses.shape
    shares, floor = model.shares, model.floor
    penalty = 0.0
    for l in range(n_clusters):
        total = max(masses[l].sum(), floor)
        divergence = 0.0
        for r in range(n_groups):
            if shares[r] > 0.0:
                cell = max(masses[l, r], floor * shares[r])
                divergence += shares[r] * math.log(shares[r] * total / cell)
        penalty += max(divergence, 0.0)  # below 0 only by rounding
    return model.strength * penalty


@njit(**LEAN)
def soft_energy(costs, model, sharpness, prices, masses):
    """Write the cells' soft masses to ``masses`` and return the energy of the soft labels."""
    n_rows, n_clusters = costs.shape
    share = np.empty(n_clusters)
    masses[:] = 0.0
    total_cost = 0.0
    for i in range(n_rows):
        group = model.codes[i]
        top = -np.inf
        for l in range(n_clusters):
            share[l] = -sharpness * costs[i, l] - prices[l, group]
            top = max(top, share[l])
        normaliser = 0.0
        for l in range(n_clusters):
            share[l] = math.exp(share[l] - top)
            normaliser += share[l]
        factor = model.weights[i] / normaliser
        for l in range(n_clusters):
            part = factor * share[l]
            masses[l, group] += part
            total_cost += part * costs[i, l]
    return total_cost + penalty_of_masses(masses, model)


@njit(**LEAN)
def penalty_slopes(masses, model, slopes):
    """Write the penalty's gradient per unit of weight; return the curvature bound.

    The bound is ``strength * max(shares[r] / masses[l, r])``: by Cauchy-Schwarz the
    convex part of the penalty is then locally below that multiple of the entropy.
    """
    _, _, shares, strength, floor = model
    curvature = 0.0
    for l in range(masses.shape[0]):
        total = max(masses[l].sum(), floor)
        for r in range(masses.shape[1]):
            if shares[r] > 0.0:
                ratio = shares[r] / max(masses[l, r], floor * shares[r])
                slopes[l, r] = strength * (1.0 / total - ratio)
                curvature = max(curvature, strength * ratio)
            else:
                slopes[l, r] = 0.0
    return curvature


@njit(**LEAN)
def bound_updates(costs, model, start, min_lipschitz, max_iter, tol):
    """Minimise cost + penalty over soft labels, the costs being fixed.

    From ``softmax(-start * costs)`` until a step lowers the energy by at most ``tol`` times its
    size. The inverse step size is at least ``min_lipschitz``. The first step also respects the
    curvature of the penalty; later ones a smaller and smaller share of it, until the energy would
    rise, which doubles the inverse step size and the share. Returns sharpness and prices of the
    soft labels, the energies, which never increase, and whether it converged.
    """
    shape = (costs.shape[1], len(model.shares))
    prices, trial_prices, slopes = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    masses, trial_masses = np.zeros(shape), np.zeros(shape)
    energies = np.empty(max_iter + 1)

    caution = 1.0
    sharpness = start
    energy = soft_energy(costs, model, sharpness, prices, masses)
    energies[0] = energy
    for step in range(1, max_iter + 1):
        curvature = penalty_slopes(masses, model, slopes)
        lipschitz = max(min_lipschitz, caution * curvature)
        accepted = False
        for _ in range(MAX_HALVINGS):
            trial_sharpness = sharpness + 1.0 / lipschitz
            trial_prices[:] = prices + slopes / lipschitz
            trial = soft_energy(costs, model, trial_sharpness, trial_prices, trial_masses)
            if trial <= energy:
                accepted = True
                break
            if trial - energy <= 1e-13 * abs(energy):
                break  # a rise at rounding level: no step makes a difference
            lipschitz *= 2.0
            caution = min(1.0, 2.0 * caution)
        if not accepted:
            return sharpness, prices, energies[:step], True
        caution *= COURAGE
        change = energy - trial
        sharpness, energy = trial_sharpness, trial
        prices[:] = trial_prices
        masses[:] = trial_masses
        energies[step] = energy
        if step > 2 and change <= tol * abs(energy):
            return sharpness, prices, energies[: step + 1], True
    return sharpness, prices, energies, False


@njit(**LEAN)
def most_likely_clusters(costs, group_codes, sharpness, prices):
    """Argmax of the soft labels (lowest index on ties) and the margin of its logarithm."""
    n_rows, n_clusters = costs.shape
    labels = np.empty(n_rows, dtype=np.int32)
    margins = np.empty(n_rows)
    for i in range(n_rows):
        best, second, label = np.inf, np.inf, 0
        for l in range(n_clusters):
            score = sharpness * costs[i, l] + prices[l, group_codes[i]]
            if score < best:
                best, second, label = score, best, l
            elif score < second:
                second = score
        labels[i] = label
        margins[i] = second - best
    return labels, margins


@njit(**LEAN)
def polish_labels(order, costs, model, max_sweeps, labels):
    """Move single rows while that lowers the energy of the hard labels, in place.

    Rows are visited in the given order and go to the cluster that lowers the energy most,
    if it does so by more than rounding errors can explain. No cluster loses its last row.
    The table of masses is counted anew before each sweep, so errors cannot accumulate.
    """
    weights, codes, shares, strength, floor = model
    n_clusters, n_groups = costs.shape[1], len(shares)
    masses = np.empty((n_clusters, n_groups))
    totals = np.empty(n_clusters)
    sizes = np.empty(n_clusters, dtype=np.int64)
    for _ in range(max_sweeps):
        masses[:] = 0.0
        sizes[:] = 0
        for i in range(len(labels)):
            masses[labels[i], codes[i]] += weights[i]
            sizes[labels[i]] += 1
        for l in range(n_clusters):
            totals[l] = masses[l].sum()
        moved = False
        for i in order:
            origin, group, weight = labels[i], codes[i], weights[i]
            if sizes[origin] == 1:
                continue
            share, cell_floor = shares[group], floor * shares[group]
            left = _change(masses[origin, group], totals[origin], -weight, share, cell_floor, floor)
            best, target = 0.0, origin
            for l in range(n_clusters):
                if l == origin or sizes[l] == 0:
                    continue
                joined = _change(masses[l, group], totals[l], weight, share, cell_floor, floor)
                moved_cost = weight * (costs[i, l] - costs[i, origin])
                change = moved_cost + strength * (left + joined)
                noise = abs(moved_cost) + strength * (abs(left) + abs(joined))
                if change < best and change < -1e-12 * noise:
                    best, target = change, l
            if target != origin:
                masses[origin, group] -= weight
                masses[target, group] += weight
                totals[origin] -= weight
                totals[target] += weight
                sizes[origin] -= 1
                sizes[target] += 1
                labels[i] = target
                moved = True
        if not moved:
            return


@njit(**INNER)
def _change(cell, total, added, share, cell_floor, floor):
    """Change of a cluster's divergence when one of its cells gains ``added``."""
    of_total = math.log(max(total + added, floor) / max(total, floor))
    of_cell = math.log(max(cell + added, cell_floor) / max(cell, cell_floor))
    return of_total - share * of_cell
