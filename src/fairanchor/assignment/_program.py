"""The linear program itself, over the rows near a tie, by HiGHS.

The smoothed dual comes near. Here rows within a width of a tie are free and all others stay: the
cost is at least that of the program over all rows. The dual's bound is at most that, so the two
prove each other where they meet; otherwise more rows are needed.
"""

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from fairanchor.assignment._dual import Dual
from fairanchor.assignment._sweep import Costs, Swept, sweep
from fairanchor.constraints._bounds import CellConstraints

# Rows near a tie that enter: so many for each bound, and so many more.
ROWS_PER_BOUND, MORE_ROWS = 10, 200
# Larger programs take longer than a certificate is worth; the dual's bound has to do for them.
MOST_BOUNDS, MOST_ENTRIES = 400, 6_000
WIDENING, MAX_ROUNDS = 4.0, 12
# The same for tables with so few costs.
SMALL_TABLE, MOST_BOUNDS_OF_SMALL, WIDENING_OF_SMALL = 20_000, 2_000, 64.0
# Differences of priced costs, of the largest, that are rounding errors.
TIED = 1e-13
# Of a value: rounding errors, and those of the solver.
ERROR = 1e-8
# Of a row: less than this is nothing.
LEAST_MASS = 1e-6
# Tables with fewer costs enter as a whole.
FEW_ENTRIES = 2_000
# In temperatures. Costs of outliers would leave all others below the solver's tolerance.
ALL_BUT_OUTLIERS = 1e5


@dataclass(frozen=True)
class Program:
    """Solution of the linear program, or what is known of it.

    Attributes
    ----------
    multipliers : ndarray of shape (n_bounds,)
    value : float
        No fractional labels within the bounds cost less.
    table : ndarray of shape (n_clusters, n_groups)
        Weight of the cells.
    """

    multipliers: np.ndarray
    value: float
    table: np.ndarray


def solve_program(rows: Any, costs: Costs, constraints: CellConstraints, dual: Dual) -> Program:
    """The program's solution from multipliers that are near.

    Parameters
    ----------
    rows : MemoryRows or ChunkedRows
    costs : object
    constraints : CellConstraints
    dual : Dual

    Returns
    -------
    program : Program
    """
    best = Program(dual.multipliers, dual.bound, dual.mass)
    n_bounds = constraints.n_bounds
    if n_bounds == 0:
        return best
    is_small = rows.n_rows * len(dual.prices) <= SMALL_TABLE
    if n_bounds > (MOST_BOUNDS_OF_SMALL if is_small else MOST_BOUNDS):
        return best
    # Few rows can be outliers, whose prices are far away.
    widening = WIDENING_OF_SMALL if is_small else WIDENING
    multipliers = dual.multipliers
    widths = np.full(rows.n_groups, _first_width(rows, dual, n_bounds))
    for _ in range(MAX_ROUNDS):
        prices = constraints.prices(multipliers)
        swept = _pass(rows, costs, prices, widths, dual.swept)
        if len(swept.band.costs) > MOST_ENTRIES and len(swept.rows) > n_bounds:
            break
        solution = _solve(swept, constraints, multipliers, widths)
        if solution is None:
            break
        found, table, cost, is_short = solution
        changed = constraints.prices(found)
        if (np.ptp(changed - prices, axis=0) > widths).any():
            # What it says of rows outside the band holds only within the width.
            swept = _pass(rows, costs, changed, 0.0 * widths, dual.swept)
        value = swept.value(changed) - float(constraints.right @ found)
        if value > best.value:
            best = Program(found, value, best.table)
        # The program over the band is a program over all rows with fewer choices.
        scale = max(abs(cost), abs(best.value), dual.temperature * rows.total)
        if not is_short.any() and cost - best.value <= ERROR * scale:
            return replace(best, table=table)
        if not is_short.any() and len(swept.band.costs) == rows.n_rows * len(prices):
            break  # what is left are rounding errors
        multipliers = best.multipliers
        widths = np.where(is_short | ~is_short.any(), widening, 1.0) * widths
    return best


def _pass(rows: Any, costs: Costs, prices: np.ndarray, widths: np.ndarray, known: Swept) -> Swept:
    """A pass over all rows, or what follows from one that is known."""
    if known.reaches(prices, widths):
        return known.narrowed(prices, widths)[0]
    return sweep(rows, costs, prices, widths, title="program")


def _first_width(rows: Any, dual: Dual, n_bounds: int) -> float:
    priced, first = dual.swept.priced(dual.prices), dual.swept.band.first
    if rows.n_rows * len(dual.prices) <= FEW_ENTRIES or len(first) == 1:
        return ALL_BUT_OUTLIERS * dual.temperature
    entries, least = dual.swept.cheapest(dual.prices)
    others = priced.copy()
    others[entries] = np.inf
    margins = np.minimum.reduceat(others, first[:-1]) - least
    margins = np.sort(margins[np.isfinite(margins)])
    if len(margins) == 0:
        return ALL_BUT_OUTLIERS * dual.temperature
    place = min(ROWS_PER_BOUND * n_bounds + MORE_ROWS, len(margins)) - 1
    return max(float(margins[place]), 4.0 * dual.temperature)


def _solve(
    swept: Swept, constraints: CellConstraints, multipliers: np.ndarray, widths: np.ndarray
) -> Any:
    """Multipliers, table and cost of the program over the band, and groups it is too narrow for.

    Variables are the weights of the candidates, then the changes of the cells and of the sizes
    that they make, which keeps the matrix sparse, and then what is missing and what is too much in
    a cell. That costs as much as the band is wide, so prices change by no more.
    """
    band, (n_clusters, n_groups) = swept.band, constraints.shape
    n_rows, n_entries, n_cells = len(band.weights), len(band.costs), n_clusters * n_groups
    counts = np.diff(band.first)
    # Prices that are there already are part of the costs, in units of a row and of a typical
    # regret; what is left of an inequality costs its multiplier.
    priced = swept.priced(swept.prices)
    regrets = priced - np.repeat(swept.cheapest(swept.prices)[1], counts)
    regrets[regrets <= TIED * np.abs(priced).max(initial=0.0)] = 0.0  # no unit of the solver
    unit = float(np.median(regrets[regrets > 0])) if (regrets > 0).any() else 1.0
    weight = (float(band.weights.mean()) if n_rows else 0.0) or 1.0
    cells = band.clusters * n_groups + np.repeat(band.group_codes, counts)
    each_cell, each_cluster = np.arange(n_cells), np.arange(n_clusters)
    unequal = np.flatnonzero(~constraints.is_equal)
    starts = np.cumsum([0, n_entries, n_cells, n_clusters, n_cells, n_cells, len(unequal)])
    own, cell, size, missing, excess, left_over = (
        np.arange(*ends) for ends in itertools.pairwise(starts.tolist())
    )
    of_cell, of_cluster = n_rows + each_cell, n_rows + n_cells + each_cell // n_groups
    of_group = n_rows + n_cells + n_clusters + each_cell % n_groups
    equations = _matrix(
        [
            (np.repeat(np.arange(n_rows), counts), own, 1.0),
            (n_rows + cells, own, 1.0),
            (of_cell, cell, -1.0),
            (of_cell, missing, 1.0),
            (of_cell, excess, -1.0),
            (of_cluster, cell, 1.0),
            (n_rows + n_cells + each_cluster, size, -1.0),
            (of_group, missing, 1.0),
            (of_group, excess, -1.0),
        ],
        (n_rows + n_cells + n_clusters + n_groups, starts[-1]),
    )
    n_equations = equations.shape[0]
    of_cells, of_sizes = constraints.of_cells, constraints.of_sizes
    bounds = _matrix(
        [
            (of_cells.bounds, cell[of_cells.places], of_cells.values),
            (of_sizes.bounds, size[of_sizes.places], of_sizes.values),
            (unequal, left_over, 1.0),
        ],
        (constraints.n_bounds, starts[-1]),
    )
    left = constraints.left(swept.clear) / weight
    ranges = np.zeros((starts[-1], 2))
    ranges[:, 1] = np.inf
    ranges[cell[0] : missing[0], 0] = -np.inf
    box = np.tile(0.5 * widths, n_clusters)
    nothing = np.zeros(n_cells + n_clusters)
    result = linprog(
        np.concatenate([regrets, nothing, box, box, multipliers[unequal]]) / unit,
        A_eq=sparse.vstack([equations, bounds], format="csr"),
        b_eq=np.concatenate([band.weights / weight, np.zeros(n_equations - n_rows), left]),
        bounds=ranges,
        method="highs-ds",
        # It drops what rows of very little weight cost, and finds some programs infeasible.
        options={"presolve": n_entries > FEW_ENTRIES},
    )
    if result.status != 0:
        return None
    found = multipliers - unit * result.eqlin.marginals[n_equations:]
    found[unequal] = np.maximum(found[unequal], 0.0)
    table = swept.clear + weight * result.x[cell].reshape(constraints.shape)
    cost = swept.clear_cost + float(weight * result.x[own] @ band.costs)
    short = (result.x[missing] + result.x[excess]).reshape(constraints.shape).max(axis=0)
    return found, table, cost, short > LEAST_MASS


def _matrix(entries: list[tuple], shape: tuple[int, int]) -> Any:
    """Sparse matrix from (rows, columns, values)."""
    values = np.concatenate([np.broadcast_to(value, len(rows)) for rows, _, value in entries])
    rows, columns = (np.concatenate([entry[k] for entry in entries]) for k in (0, 1))
    return sparse.csr_array((values, (rows, columns)), shape=shape)
