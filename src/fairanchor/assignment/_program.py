"""The linear program itself, over the rows near a tie, by HiGHS.

The smoothed dual comes near. Here rows within a width of a tie are free and all others stay; if
the prices that this program asks for differ from those of the sweep by less than the width, its
value is that of the program over all rows.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from fairanchor.assignment._sweep import sweep

# Rows near a tie that enter: so many for each limit, and so many more.
ROWS_PER_LIMIT, MORE_ROWS = 10, 200
# Larger programs take longer than a certificate is worth; the dual's bound has to do for them.
MOST_LIMITS, MOST_ENTRIES = 400, 20_000
WIDENING, MAX_ROUNDS = 4.0, 8
# Of a value: rounding errors, and those of the solver.
ERROR = 1e-9
# Tables with fewer costs enter as a whole.
FEW_ENTRIES = 2_000
# In temperatures. Costs of outliers would leave all others below the solver's tolerance.
ALL_BUT_OUTLIERS = 1e5


@dataclass(frozen=True)
class Program:
    """Solution of the linear program, or what is known of it.

    Attributes
    ----------
    multipliers : ndarray of shape (n_limits,)
    value : float
        No fractional labels within the limits cost less.
    table : ndarray of shape (n_clusters, n_groups)
        Weight of the cells.
    is_exact : bool
        Whether the value is attained.
    """

    multipliers: np.ndarray
    value: float
    table: np.ndarray
    is_exact: bool


def solve_program(rows, costs, constraints, dual):
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
    best = Program(dual.multipliers, dual.bound, dual.mass, False)
    n_limits = constraints.n_limits
    if n_limits == 0:
        return Program(dual.multipliers, dual.bound, dual.mass, True)
    if n_limits > MOST_LIMITS:
        return best
    multipliers, width = dual.multipliers, _first_width(rows, dual, n_limits)
    for _ in range(MAX_ROUNDS):
        prices = constraints.prices(multipliers)
        swept = sweep(rows, costs, prices, width, title="program")
        if len(swept.band.costs) > MOST_ENTRIES and len(swept.rows) > n_limits:
            break
        solution = _solve(swept, constraints)
        if solution is None:
            width *= WIDENING
            continue
        found, table = solution
        change = constraints.prices(found) - prices
        bound = swept.value(constraints.prices(found)) - float(constraints.right @ found)
        if np.ptp(change, axis=0).max() <= width and bound >= best.value - ERROR * abs(best.value):
            return Program(found, bound, table, True)
        # The bound holds only within the width: one more sweep tells what it is.
        again = sweep(rows, costs, constraints.prices(found), 0.0, title="program")
        value = again.value(constraints.prices(found)) - float(constraints.right @ found)
        if value > best.value:
            best = Program(found, value, dual.mass, False)
            multipliers = found
        width *= WIDENING
    return best


def _first_width(rows, dual, n_limits):
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
    place = min(ROWS_PER_LIMIT * n_limits + MORE_ROWS, len(margins)) - 1
    return max(float(margins[place]), 4.0 * dual.temperature)


def _solve(swept, constraints):
    """Multipliers and table of the program over the band; None if the band is too narrow.

    Variables are the weights of the candidates, then the changes of the cells and of the sizes
    that they make, which keeps the matrix sparse.
    """
    band, (n_clusters, n_groups) = swept.band, constraints.shape
    n_rows, n_entries, n_cells = len(band.weights), len(band.costs), n_clusters * n_groups
    counts = np.diff(band.first)
    # In units of a row and of a typical difference between costs, from each row's least cost.
    least = np.minimum.reduceat(band.costs, band.first[:-1]) if n_rows else np.empty(0)
    costs = band.costs - np.repeat(least, counts)
    unit = float(np.median(costs[costs > 0])) if (costs > 0).any() else 1.0
    weight = (float(band.weights.mean()) if n_rows else 0.0) or 1.0
    cells = band.clusters * n_groups + np.repeat(band.group_codes, counts)
    each_cell, each_cluster = np.arange(n_cells), np.arange(n_clusters)
    before = n_entries + n_cells
    entries = [
        (np.repeat(np.arange(n_rows), counts), np.arange(n_entries), 1.0),
        (n_rows + cells, np.arange(n_entries), 1.0),
        (n_rows + each_cell, n_entries + each_cell, -1.0),
        (n_rows + n_cells + each_cell // n_groups, n_entries + each_cell, 1.0),
        (n_rows + n_cells + each_cluster, before + each_cluster, -1.0),
    ]
    equations = _matrix(entries, (n_rows + n_cells + n_clusters, before + n_clusters))
    of_cells, of_sizes = constraints.of_cells, constraints.of_sizes
    limits = _matrix(
        [
            (of_cells.limits, n_entries + of_cells.places, of_cells.values),
            (of_sizes.limits, before + of_sizes.places, of_sizes.values),
        ],
        (constraints.n_limits, before + n_clusters),
    )
    left = constraints.left(swept.clear) / weight
    equal = np.flatnonzero(constraints.is_equal)
    unequal = np.flatnonzero(~constraints.is_equal)
    bounds = np.zeros((before + n_clusters, 2))
    bounds[:, 1] = np.inf
    bounds[n_entries:, 0] = -np.inf
    result = linprog(
        np.concatenate([costs / unit, np.zeros(n_cells + n_clusters)]),
        A_ub=limits[unequal] if len(unequal) else None,
        b_ub=left[unequal] if len(unequal) else None,
        A_eq=sparse.vstack([equations, limits[equal]], format="csr"),
        b_eq=np.concatenate([band.weights / weight, np.zeros(n_cells + n_clusters), left[equal]]),
        bounds=bounds,
        method="highs-ds",
    )
    if result.status != 0:
        return None
    multipliers = np.zeros(constraints.n_limits)
    multipliers[equal] = -unit * result.eqlin.marginals[len(equations.indptr) - 1 :]
    if len(unequal):
        multipliers[unequal] = np.maximum(-unit * result.ineqlin.marginals, 0.0)
    table = swept.clear + weight * result.x[n_entries:before].reshape(constraints.shape)
    return multipliers, table


def _matrix(entries, shape):
    """Sparse matrix from (rows, columns, values)."""
    values = np.concatenate([np.broadcast_to(value, len(rows)) for rows, _, value in entries])
    rows, columns = (np.concatenate([entry[k] for entry in entries]) for k in (0, 1))
    return sparse.csr_array((values, (rows, columns)), shape=shape)
