"""The smoothed dual of the fair assignment, on the rows whose cluster is not clear.

A row of group r puts the share ``p_l ~ exp(-(cost_l + price[l, r]) / temperature)`` of its weight
on each cluster l of its candidates. The prices of the cells come from the multipliers of linear
bounds; Newton's method finds multipliers at which the masses of the cells meet the bounds.

Tables of clusters × groups are flat here: the place of a cell is ``l * n_groups + r``.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from fairanchor._kernels import INNER, LEAN

# A share of less than exp(-12) of a row, six millionths, is none.
NEGLIGIBLE = 12.0
# Conjugate gradients: a Newton step need not be exact, only good.
MAX_PRODUCTS, USUAL_PRODUCTS, RESIDUAL = 40, 5, 0.03
# The first bound on the change of a multiplier in a step, in temperatures; it doubles with every
# step that is accepted.
FIRST_RADIUS = 4.0
SHRINK, MAX_TRIALS = 0.3, 8
# Steps that would have gone beyond the reach of the band before a search ends there. One can be
# too long where the next ones are not.
MAX_BLOCKED = 3
ROUNDING_ERROR = 1e-12


class Band(NamedTuple):
    """Rows and the clusters that they may be in: entries ``first[i]:first[i + 1]`` are of row i."""

    first: np.ndarray
    clusters: np.ndarray
    costs: np.ndarray
    group_codes: np.ndarray
    weights: np.ndarray


class Bounds(NamedTuple):
    """``A N <= right`` (or equal) on a table N of clusters × groups, A by its entries.

    A is the sum of coefficients of cells and of row sums.
    """

    cell_bounds: np.ndarray
    cell_places: np.ndarray
    cell_values: np.ndarray
    size_bounds: np.ndarray
    size_places: np.ndarray
    size_values: np.ndarray
    right: np.ndarray
    is_equal: np.ndarray


class Mixed(NamedTuple):
    """Rows with more than one share: places of the cells, and the shares, one row after another.

    Shares ``first[k]:first[k + 1]`` are of row k. For every cell, ``bends`` has the sum of
    ``weight * share * (1 - share)``; ``value`` is that of all rows in the smoothed dual.
    """

    first: np.ndarray
    places: np.ndarray
    shares: np.ndarray
    weights: np.ndarray
    bends: np.ndarray
    value: np.ndarray


@njit(**INNER)
def write_prices(bounds, multipliers, n_groups, prices):
    """Write ``A' multipliers``."""
    of_clusters = np.zeros(len(prices) // n_groups)
    for e in range(len(bounds.size_bounds)):
        of_clusters[bounds.size_places[e]] += (
            bounds.size_values[e] * multipliers[bounds.size_bounds[e]]
        )
    for l in range(len(of_clusters)):
        for r in range(n_groups):
            prices[l * n_groups + r] = of_clusters[l]
    for e in range(len(bounds.cell_bounds)):
        value = bounds.cell_values[e] * multipliers[bounds.cell_bounds[e]]
        prices[bounds.cell_places[e]] += value


@njit(**INNER)
def write_taken(bounds, table, n_groups, taken):
    """Write ``A table``."""
    sizes = _cluster_sums(table, n_groups)
    for j in range(len(taken)):
        taken[j] = 0.0
    for e in range(len(bounds.size_bounds)):
        taken[bounds.size_bounds[e]] += bounds.size_values[e] * sizes[bounds.size_places[e]]
    for e in range(len(bounds.cell_bounds)):
        taken[bounds.cell_bounds[e]] += bounds.cell_values[e] * table[bounds.cell_places[e]]


@njit(**INNER)
def _cluster_sums(table, n_groups):
    sums = np.zeros(len(table) // n_groups)
    for l in range(len(sums)):
        for r in range(n_groups):
            sums[l] += table[l * n_groups + r]
    return sums


@njit(**INNER)
def soften(band, clear, prices, n_groups, temperature, shares, mixed, mass):
    """Write the shares of the band's rows, and the masses of all rows.

    Returns the number of rows with more than one share, which are written to ``mixed``.
    """
    value = 0.0
    for place in range(len(mass)):
        mass[place] = clear[place]
        value += clear[place] * prices[place]
        mixed.bends[place] = 0.0
    nothing, coldness = NEGLIGIBLE * temperature, 1.0 / temperature
    n_mixed, n_places = 0, 0
    for i in range(len(band.weights)):
        start, stop = band.first[i], band.first[i + 1]
        r, w = band.group_codes[i], band.weights[i]
        lowest, second, best = np.inf, np.inf, start
        for e in range(start, stop):
            cost = band.costs[e] + prices[band.clusters[e] * n_groups + r]
            shares[e] = cost
            if cost < lowest:
                lowest, second, best = cost, lowest, e
            elif cost < second:
                second = cost
        if second - lowest > nothing:
            for e in range(start, stop):
                shares[e] = 0.0
            shares[best] = 1.0
            mass[band.clusters[best] * n_groups + r] += w
            value += w * lowest
            continue
        total = 0.0
        for e in range(start, stop):
            behind = shares[e] - lowest
            shares[e] = np.exp(-behind * coldness) if behind < nothing else 0.0
            total += shares[e]
        value += w * (lowest - temperature * np.log(total))
        mixed.first[n_mixed] = n_places
        mixed.weights[n_mixed] = w
        n_mixed += 1
        for e in range(start, stop):
            if shares[e] > 0.0:
                place = band.clusters[e] * n_groups + r
                shares[e] /= total
                mass[place] += w * shares[e]
                mixed.bends[place] += w * shares[e] * (1.0 - shares[e])
                mixed.places[n_places] = place
                mixed.shares[n_places] = shares[e]
                n_places += 1
    mixed.first[n_mixed] = n_places
    mixed.value[0] = value
    return n_mixed


@njit(**INNER)
def _write_curvature(mixed, n_mixed, prices, changes):
    """Write by how much the masses fall per temperature if prices rise by these."""
    for place in range(len(changes)):
        changes[place] = 0.0
    for k in range(n_mixed):
        start, stop = mixed.first[k], mixed.first[k + 1]
        mean, w = 0.0, mixed.weights[k]
        for e in range(start, stop):
            mean += mixed.shares[e] * prices[mixed.places[e]]
        for e in range(start, stop):
            place = mixed.places[e]
            changes[place] += w * mixed.shares[e] * (prices[place] - mean)


@njit(**INNER)
def _curvature_of_groups(mixed, n_mixed, n_groups, n_cells):
    """The same as tables of clusters × clusters, one for each group; none if sums are faster.

    A product with them takes ``n_groups * n_clusters**2`` multiplications instead of two for every
    share, and to make them takes one for every two shares of a row.
    """
    n_clusters = n_cells // n_groups
    n_pairs = 0
    for k in range(n_mixed):
        n_shares = mixed.first[k + 1] - mixed.first[k]
        n_pairs += n_shares * n_shares
    saved = 2 * mixed.first[n_mixed] - n_groups * n_clusters * n_clusters
    if USUAL_PRODUCTS * saved < n_pairs:
        return np.empty((0, 0, 0))
    tables = np.zeros((n_groups, n_clusters, n_clusters))
    for k in range(n_mixed):
        start, stop = mixed.first[k], mixed.first[k + 1]
        table = tables[mixed.places[start] % n_groups]
        for e in range(start, stop):
            l = mixed.places[e] // n_groups
            mass = mixed.weights[k] * mixed.shares[e]
            table[l, l] += mass
            for f in range(start, stop):
                table[l, mixed.places[f] // n_groups] -= mass * mixed.shares[f]
    return tables


@njit(**INNER)
def _multiply_by_group(tables, prices, changes):
    """As `_write_curvature`, by the tables of the groups."""
    n_groups, n_clusters = tables.shape[0], tables.shape[1]
    for r in range(n_groups):
        for l in range(n_clusters):
            total, row = 0.0, tables[r, l]
            for m in range(n_clusters):
                total += row[m] * prices[m * n_groups + r]
            changes[l * n_groups + r] = total


@njit(**INNER)
def _write_step(bounds, mixed, n_mixed, n_groups, coldness, slope, ridge, is_free, n_cells, step):
    """Write the step that solves ``(A K A' coldness + ridge) step = slope`` nearly.

    By conjugate gradients over the free multipliers, scaled by about the diagonal.
    """
    n_bounds = len(slope)
    prices, changes = np.empty(n_cells), np.empty(n_cells)
    product, residual = np.empty(n_bounds), np.empty(n_bounds)
    diagonal, direction = np.empty(n_bounds), np.empty(n_bounds)
    # About the diagonal: enough to scale unknowns by.
    for j in range(n_bounds):
        diagonal[j] = ridge[j]
    bends = _cluster_sums(mixed.bends, n_groups)
    for e in range(len(bounds.size_bounds)):
        square = bounds.size_values[e] * bounds.size_values[e]
        diagonal[bounds.size_bounds[e]] += coldness * square * bends[bounds.size_places[e]]
    for e in range(len(bounds.cell_bounds)):
        square = bounds.cell_values[e] * bounds.cell_values[e]
        diagonal[bounds.cell_bounds[e]] += coldness * square * mixed.bends[bounds.cell_places[e]]
    size = 0.0
    for j in range(n_bounds):
        step[j] = 0.0
        residual[j] = slope[j] if is_free[j] == 1 else 0.0
        direction[j] = residual[j] / diagonal[j]
        size += residual[j] * direction[j]
    enough = RESIDUAL * RESIDUAL * size
    tables = _curvature_of_groups(mixed, n_mixed, n_groups, n_cells)
    for _ in range(MAX_PRODUCTS):
        if size <= enough:
            break
        write_prices(bounds, direction, n_groups, prices)
        if len(tables) > 0:
            _multiply_by_group(tables, prices, changes)
        else:
            _write_curvature(mixed, n_mixed, prices, changes)
        write_taken(bounds, changes, n_groups, product)
        bend = 0.0
        for j in range(n_bounds):
            product[j] = product[j] * coldness + ridge[j] * direction[j]
            product[j] = product[j] if is_free[j] == 1 else 0.0
            bend += direction[j] * product[j]
        if bend <= 0.0:
            break
        length, following = size / bend, 0.0
        for j in range(n_bounds):
            step[j] += length * direction[j]
            residual[j] -= length * product[j]
            following += residual[j] * residual[j] / diagonal[j]
        for j in range(n_bounds):
            direction[j] = residual[j] / diagonal[j] + following / size * direction[j]
        size = following


@njit(**INNER)
def _spread(prices, others, n_groups):
    """Largest difference, over the groups, between the changes of a group's prices."""
    widest = 0.0
    for r in range(n_groups):
        lowest, highest = np.inf, -np.inf
        for place in range(r, len(prices), n_groups):
            change = prices[place] - others[place]
            lowest = change if change < lowest else lowest
            highest = change if change > highest else highest
        widest = highest - lowest if highest - lowest > widest else widest
    return widest


@njit(**LEAN)
def maximise(band, bounds, clear, multipliers, temperature, tolerance, max_steps, reach,
             reference, n_groups, mass, shares):  # fmt: skip
    """Newton's method at one temperature, as far as the band reaches.

    Parameters
    ----------
    band : Band
    bounds : Bounds
    clear : ndarray of shape (n_cells,)
        Mass of the rows that are not in the band.
    multipliers : ndarray of shape (n_bounds,)
        Changed in place. Those of inequalities are not negative.
    temperature : float
    tolerance : ndarray of shape (n_bounds,)
        By how much a bound may be missed.
    max_steps : int
    reach : float
        Largest difference between changes of a group's prices for which rows outside the band
        stay where they are.
    reference : ndarray of shape (n_cells,)
        Prices of the sweep that made the band.
    n_groups : int
    mass : ndarray of shape (n_cells,)
        Written: of all rows, at these multipliers.
    shares : ndarray of shape (n_entries,)
        Written: of the band's rows.

    Returns
    -------
    state : int
        1 if all bounds are met, 0 after ``max_steps``, -1 if the band does not reach far enough.
    """
    n_bounds, n_cells, n_entries = len(multipliers), len(clear), len(band.costs)
    mixed = Mixed(
        np.empty(len(band.first), dtype=np.int64), np.empty(n_entries, dtype=np.int32),
        np.empty(n_entries), np.empty(len(band.first)), np.empty(n_cells),
        np.empty(1),
    )  # fmt: skip
    prices, slope, trial_slope = np.empty(n_cells), np.empty(n_bounds), np.empty(n_bounds)
    ridge, step, trial = np.empty(n_bounds), np.empty(n_bounds), np.empty(n_bounds)
    is_free = np.empty(n_bounds, dtype=np.int64)
    radius, length, gain = FIRST_RADIUS * temperature, 0.0, 0.0
    n_steps, n_trials, n_blocked, blocked, value, trial_value = 0, 0, 0, False, -np.inf, 0.0
    for j in range(n_bounds):
        trial[j] = multipliers[j]
    while True:
        write_prices(bounds, trial, n_groups, prices)
        after = 0.0
        is_beyond = length > 0.0 and _spread(prices, reference, n_groups) > reach
        if not is_beyond:
            n_mixed = soften(band, clear, prices, n_groups, temperature, shares, mixed, mass)
            write_taken(bounds, mass, n_groups, trial_slope)
            trial_value = mixed.value[0]
            for j in range(n_bounds):
                trial_slope[j] -= bounds.right[j]
                after += (trial[j] - multipliers[j]) * trial_slope[j]
                trial_value -= trial[j] * bounds.right[j]
        blocked |= is_beyond
        # The dual is concave: it rose if its slope along the step is still positive. After a small
        # overshoot, the values are compared, up to rounding errors.
        is_worse = after < -0.5 * gain
        if after < 0.0 and trial_value < value - ROUNDING_ERROR * abs(value):
            is_worse = True
        if is_beyond or is_worse:
            n_trials += 1
            length *= SHRINK
            if n_trials == MAX_TRIALS:  # go back, and try shorter steps
                length, radius = 0.0, SHRINK * SHRINK * radius
            gain = 0.0
            for j in range(n_bounds):
                trial[j] = multipliers[j] + length * step[j]
                if not bounds.is_equal[j] and trial[j] < 0.0:
                    trial[j] = 0.0
                gain += (trial[j] - multipliers[j]) * slope[j]
            continue
        if length == 1.0:
            radius *= 2.0
        elif length > 0.0:
            radius = length * radius if length * radius > temperature else temperature
        is_met, value = True, trial_value
        for j in range(n_bounds):
            multipliers[j], slope[j] = trial[j], trial_slope[j]
            is_free[j] = 1 if bounds.is_equal[j] or multipliers[j] > 0.0 or slope[j] > 0.0 else 0
            missed = abs(slope[j]) if is_free[j] == 1 else 0.0
            is_met &= missed <= tolerance[j]
            ridge[j] = (missed if missed > tolerance[j] else tolerance[j]) / radius
        if is_met:
            return 1
        n_blocked += blocked
        if n_blocked == MAX_BLOCKED:
            return -1
        blocked = False
        if n_steps == max_steps:
            return 0
        n_steps += 1
        _write_step(
            bounds, mixed, n_mixed, n_groups, 1.0 / temperature, slope, ridge, is_free, n_cells,
            step,
        )  # fmt: skip
        gain, n_trials, farthest = 0.0, 0, 4.0 * radius
        for j in range(n_bounds):
            farthest = abs(step[j]) if abs(step[j]) > farthest else farthest
        length = 4.0 * radius / farthest
        for j in range(n_bounds):
            trial[j] = multipliers[j] + length * step[j]
            if not bounds.is_equal[j] and trial[j] < 0.0:
                trial[j] = 0.0
            gain += (trial[j] - multipliers[j]) * slope[j]
