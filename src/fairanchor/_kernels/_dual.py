"""The smoothed dual of the fair assignment, on the rows whose cluster is not clear.

A row of group r puts the share ``p_l ~ exp(-(cost_l + price[l, r]) / temperature)`` of its weight
on each cluster l of its candidates. The prices of the cells come from the multipliers of linear
limits; Newton's method finds multipliers at which the masses of the cells meet the limits.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE

# A share of less than exp(-12) of a row, six millionths, is none.
NEGLIGIBLE = 12.0
# Conjugate gradients: a Newton step need not be exact, only good.
MAX_PRODUCTS, RESIDUAL = 40, 0.03
# The first bound on the change of a multiplier in a step, in temperatures; it doubles with every
# step that is accepted.
FIRST_RADIUS = 4.0
SHRINK, MAX_TRIALS = 0.3, 8


class Band(NamedTuple):
    """Rows and the clusters that they may be in: entries ``first[i]:first[i + 1]`` are of row i."""

    first: np.ndarray
    clusters: np.ndarray
    costs: np.ndarray
    group_codes: np.ndarray
    weights: np.ndarray


class Limits(NamedTuple):
    """``A N <= right`` (or equal) on a table N of clusters × groups, A by its entries.

    A is the sum of coefficients of cells (row-major places) and of row sums.
    """

    cell_limits: np.ndarray
    cell_places: np.ndarray
    cell_values: np.ndarray
    size_limits: np.ndarray
    size_places: np.ndarray
    size_values: np.ndarray
    right: np.ndarray
    is_equal: np.ndarray


@njit(nogil=True, cache=NUMBA_CACHE)
def write_prices(limits, multipliers, prices):
    """Write ``A' multipliers`` as a table."""
    n_clusters, n_groups = prices.shape
    for l in range(n_clusters):
        for r in range(n_groups):
            prices[l, r] = 0.0
    for e in range(len(limits.size_limits)):
        value = limits.size_values[e] * multipliers[limits.size_limits[e]]
        l = limits.size_places[e]
        for r in range(n_groups):
            prices[l, r] += value
    for e in range(len(limits.cell_limits)):
        place = limits.cell_places[e]
        value = limits.cell_values[e] * multipliers[limits.cell_limits[e]]
        prices[place // n_groups, place % n_groups] += value


@njit(nogil=True, cache=NUMBA_CACHE)
def write_taken(limits, table, taken):
    """Write ``A table``."""
    n_clusters, n_groups = table.shape
    for j in range(len(taken)):
        taken[j] = 0.0
    sizes = np.zeros(n_clusters)
    for l in range(n_clusters):
        for r in range(n_groups):
            sizes[l] += table[l, r]
    for e in range(len(limits.size_limits)):
        taken[limits.size_limits[e]] += limits.size_values[e] * sizes[limits.size_places[e]]
    for e in range(len(limits.cell_limits)):
        place = limits.cell_places[e]
        cell = table[place // n_groups, place % n_groups]
        taken[limits.cell_limits[e]] += limits.cell_values[e] * cell


class Mixed(NamedTuple):
    """Rows with more than one share: places of the cells, and the shares, one row after another.

    Shares ``first[k]:first[k + 1]`` are of row k.
    """

    first: np.ndarray
    places: np.ndarray
    shares: np.ndarray
    weights: np.ndarray


@njit(nogil=True, cache=NUMBA_CACHE)
def soften(band, prices, temperature, shares, mixed, mass):
    """Write the shares of the band's rows and add them to the masses.

    Returns the number of rows with more than one share, which are written to ``mixed``.
    """
    n_groups = prices.shape[1]
    nothing, coldness = NEGLIGIBLE * temperature, 1.0 / temperature
    n_mixed, n_places = 0, 0
    for i in range(len(band.first) - 1):
        start, stop = band.first[i], band.first[i + 1]
        r, w = band.group_codes[i], band.weights[i]
        lowest, second, best = np.inf, np.inf, start
        for e in range(start, stop):
            cost = band.costs[e] + prices[band.clusters[e], r]
            shares[e] = cost
            if cost < lowest:
                lowest, second, best = cost, lowest, e
            elif cost < second:
                second = cost
        if second - lowest > nothing:
            for e in range(start, stop):
                shares[e] = 0.0
            shares[best] = 1.0
            mass[band.clusters[best], r] += w
            continue
        total = 0.0
        for e in range(start, stop):
            behind = shares[e] - lowest
            shares[e] = np.exp(-behind * coldness) if behind < nothing else 0.0
            total += shares[e]
        mixed.first[n_mixed] = n_places
        mixed.weights[n_mixed] = w
        n_mixed += 1
        for e in range(start, stop):
            if shares[e] > 0.0:
                shares[e] /= total
                mass[band.clusters[e], r] += w * shares[e]
                mixed.places[n_places] = band.clusters[e] * n_groups + r
                mixed.shares[n_places] = shares[e]
                n_places += 1
    mixed.first[n_mixed] = n_places
    return n_mixed


@njit(nogil=True, cache=NUMBA_CACHE)
def _write_curvature(mixed, n_mixed, prices, changes):
    """Write by how much the masses fall per temperature if prices rise by these."""
    prices, changes = prices.ravel(), changes.ravel()
    for place in range(len(changes)):
        changes[place] = 0.0
    for k in range(n_mixed):
        start, stop = mixed.first[k], mixed.first[k + 1]
        mean = 0.0
        for e in range(start, stop):
            mean += mixed.shares[e] * prices[mixed.places[e]]
        for e in range(start, stop):
            place = mixed.places[e]
            changes[place] += mixed.weights[k] * mixed.shares[e] * (prices[place] - mean)


@njit(nogil=True, cache=NUMBA_CACHE)
def _write_diagonal(limits, mixed, n_mixed, of_cells, diagonal):
    """Write about the diagonal of ``A K A'``: enough to scale unknowns by."""
    n_clusters, n_groups = of_cells.shape
    sizes, of_cells = np.zeros(n_clusters), of_cells.ravel()
    for place in range(len(of_cells)):
        of_cells[place] = 0.0
    for k in range(n_mixed):
        for e in range(mixed.first[k], mixed.first[k + 1]):
            own = mixed.weights[k] * mixed.shares[e] * (1.0 - mixed.shares[e])
            of_cells[mixed.places[e]] += own
            sizes[mixed.places[e] // n_groups] += own
    for j in range(len(diagonal)):
        diagonal[j] = 0.0
    for e in range(len(limits.size_limits)):
        own = sizes[limits.size_places[e]]
        diagonal[limits.size_limits[e]] += limits.size_values[e] ** 2 * own
    for e in range(len(limits.cell_limits)):
        own = of_cells[limits.cell_places[e]]
        diagonal[limits.cell_limits[e]] += limits.cell_values[e] ** 2 * own


@njit(nogil=True, cache=NUMBA_CACHE)
def _write_step(limits, mixed, n_mixed, coldness, slope, ridge, is_free, table, step):
    """Write the step that solves ``(A K A' coldness + ridge) step = slope`` nearly.

    By conjugate gradients over the free multipliers, scaled by about the diagonal; ``table`` has
    the shape of a table of cells.
    """
    n_limits = len(slope)
    prices, changes = np.empty_like(table), np.empty_like(table)
    product, residual = np.empty(n_limits), np.empty(n_limits)
    diagonal, direction = np.empty(n_limits), np.empty(n_limits)
    _write_diagonal(limits, mixed, n_mixed, changes, diagonal)
    size = 0.0
    for j in range(n_limits):
        diagonal[j] = diagonal[j] * coldness + ridge[j]
        step[j] = 0.0
        residual[j] = slope[j] if is_free[j] else 0.0
        direction[j] = residual[j] / diagonal[j]
        size += residual[j] * direction[j]
    enough = RESIDUAL**2 * size
    for _ in range(MAX_PRODUCTS):
        if size <= enough:
            break
        write_prices(limits, direction, prices)
        _write_curvature(mixed, n_mixed, prices, changes)
        write_taken(limits, changes, product)
        bend = 0.0
        for j in range(n_limits):
            product[j] = product[j] * coldness + ridge[j] * direction[j] if is_free[j] else 0.0
            bend += direction[j] * product[j]
        if bend <= 0.0:
            break
        length, following = size / bend, 0.0
        for j in range(n_limits):
            step[j] += length * direction[j]
            residual[j] -= length * product[j]
            following += residual[j] * residual[j] / diagonal[j]
        for j in range(n_limits):
            direction[j] = residual[j] / diagonal[j] + following / size * direction[j]
        size = following


@njit(nogil=True, cache=NUMBA_CACHE)
def _spread(prices, others):
    """Largest difference, over the groups, between the changes of a group's prices."""
    widest = 0.0
    for r in range(prices.shape[1]):
        lowest, highest = np.inf, -np.inf
        for l in range(prices.shape[0]):
            change = prices[l, r] - others[l, r]
            lowest, highest = min(lowest, change), max(highest, change)
        widest = max(widest, highest - lowest)
    return widest


@njit(nogil=True, cache=NUMBA_CACHE)
def maximise(band, limits, clear, multipliers, temperature, tolerance, max_steps, reach,
             reference, mass, shares):  # fmt: skip
    """Newton's method at one temperature, as far as the band reaches.

    Parameters
    ----------
    band : Band
    limits : Limits
    clear : ndarray of shape (n_clusters, n_groups)
        Mass of the rows that are not in the band.
    multipliers : ndarray of shape (n_limits,)
        Changed in place. Those of inequalities are not negative.
    temperature : float
    tolerance : ndarray of shape (n_limits,)
        By how much a limit may be missed.
    max_steps : int
    reach : float
        Largest difference between changes of a group's prices for which rows outside the band
        stay where they are.
    reference : ndarray of shape (n_clusters, n_groups)
        Prices of the sweep that made the band.
    mass : ndarray of shape (n_clusters, n_groups)
        Written: of all rows, at these multipliers.
    shares : ndarray of shape (n_entries,)
        Written: of the band's rows.

    Returns
    -------
    state : int
        1 if all limits are met, 0 after ``max_steps``, -1 if the band does not reach far enough.
    """
    n_limits = len(multipliers)
    n_entries = len(band.costs)
    mixed = Mixed(
        np.empty(len(band.first), dtype=np.int64), np.empty(n_entries, dtype=np.int32),
        np.empty(n_entries), np.empty(len(band.first)),
    )  # fmt: skip
    prices = np.empty_like(clear)
    slope, trial_slope = np.empty(n_limits), np.empty(n_limits)
    ridge, step, trial = np.empty(n_limits), np.empty(n_limits), np.empty(n_limits)
    is_free = np.empty(n_limits, dtype=np.bool_)
    write_prices(limits, multipliers, prices)
    mass[:] = clear
    n_mixed = soften(band, prices, temperature, shares, mixed, mass)
    write_taken(limits, mass, slope)
    for j in range(n_limits):
        slope[j] -= limits.right[j]
    radius = FIRST_RADIUS * temperature
    for _ in range(max_steps):
        is_met = True
        for j in range(n_limits):
            is_free[j] = limits.is_equal[j] or multipliers[j] > 0.0 or slope[j] > 0.0
            missed = abs(slope[j]) if is_free[j] else 0.0
            is_met &= missed <= tolerance[j]
            ridge[j] = max(missed, tolerance[j]) / radius
        if is_met:
            return 1
        _write_step(limits, mixed, n_mixed, 1.0 / temperature, slope, ridge, is_free, prices, step)
        length, accepted, blocked = 1.0, False, False
        for j in range(n_limits):
            length = min(length, 4.0 * radius / max(abs(step[j]), 1e-300))
        for _ in range(MAX_TRIALS):
            gain = 0.0
            for j in range(n_limits):
                trial[j] = multipliers[j] + length * step[j]
                if not limits.is_equal[j]:
                    trial[j] = max(trial[j], 0.0)
                gain += (trial[j] - multipliers[j]) * slope[j]
            write_prices(limits, trial, prices)
            if _spread(prices, reference) > reach:
                blocked = True
                length *= SHRINK
                continue
            mass[:] = clear
            n_mixed = soften(band, prices, temperature, shares, mixed, mass)
            write_taken(limits, mass, trial_slope)
            after = 0.0
            for j in range(n_limits):
                trial_slope[j] -= limits.right[j]
                after += (trial[j] - multipliers[j]) * trial_slope[j]
            # The dual is concave: where its slope along the step has not turned round, it rose.
            if after >= -0.5 * gain:
                accepted = True
                break
            length *= SHRINK
        if not accepted:
            write_prices(limits, multipliers, prices)
            mass[:] = clear
            n_mixed = soften(band, prices, temperature, shares, mixed, mass)
            if blocked:
                return -1
            radius *= SHRINK**2
            continue
        multipliers[:] = trial
        slope[:] = trial_slope
        if blocked:
            return -1
        radius = 2.0 * radius if length == 1.0 else max(length * radius, temperature)
    return 0
