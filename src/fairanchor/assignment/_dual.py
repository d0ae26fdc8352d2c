"""Prices of the cells under which rows, left to themselves, meet linear bounds.

With ``N[l, r]`` the weight of group r in cluster l, the program over fractional labels x ::

    minimise  sum_i w_i sum_l x[i, l] costs[i, l]
    subject to  sum_l x[i, l] = 1,   A N <= b  (some rows of it with equality)

has the dual ``max_y sum_i w_i min_l (costs[i, l] + q[l, g_i]) - b'y``, where the prices of the
cells are ``q = A'y`` and multipliers y of inequalities are not negative. Every such y gives a
lower bound on the cost. The minimum is smoothed by a temperature, so that Newton's method applies;
only rows in the band of a sweep have to be looked at.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairanchor._kernels import _dual as kernels
from fairanchor._utils._sampling import spread_sample_by_weight
from fairanchor.assignment._sweep import Costs, Swept, joined_bands, sweep
from fairanchor.constraints._bounds import CellConstraints
from fairanchor.rows import ChunkedRows

# Temperatures relative to the difference between a row's two best costs: the first to the mean,
# so that prices can go as far as outliers ask for, the last to the median row's.
FIRST_TEMPERATURE, LAST_TEMPERATURE = 0.5, 0.004
# Of steps that are not the last ones, and where to go on from what few rows found.
STEP_TEMPERATURE, SECOND_TEMPERATURE = 0.016, 0.1
COOLING = 4.0
# In temperatures: how far prices may move before the next sweep, and by how much more if that was
# too little. Clear rows have no share elsewhere even then.
REACH, WIDENING, FAR = 8.0, 4.0, 4.0
WIDTH = kernels.NEGLIGIBLE + REACH
# Rows on which prices are looked for first, and next, where these are at least so many per cell.
START_ROWS, SECOND_ROWS, ROWS_PER_CELL = 2_000, 40_000, 200
MAX_STEPS, MAX_SWEEPS, MOST_THINNED = 30, 12, 4
# A band with more candidates is not widened; the search continues with a new sweep. So many of a
# row; for bands of all rows, at least and at most.
CANDIDATES, SMALL_BAND, LARGE_BAND = 8, 2**19, 2**22
# Of the weight of a cell, and of a row: by how much bounds may be missed in the end, and before.
OF_A_CELL, OF_A_CELL_BEFORE, OF_A_ROW = 2e-5, 1e-2, 0.05
# By how much the band of a pass may be narrower than the thinned one before it.
NARROWING = 16.0


@dataclass(frozen=True)
class Dual:
    """Multipliers that meet the bounds, nearly.

    Attributes
    ----------
    multipliers : ndarray of shape (n_bounds,)
    prices : ndarray of shape (n_clusters, n_groups)
        A row of group r prefers the cluster with the least ``costs[l] + prices[l, r]``.
    temperature : float
        By how much more a cluster may cost and still get a share of the row.
    mass : ndarray of shape (n_clusters, n_groups)
        Of the rows' shares.
    swept : Swept
        The band that the prices were found on.
    shares : ndarray of shape (n_entries,)
        Of the band's candidates.
    bound : float
        No fractional labels within the bounds cost less.
    """

    multipliers: np.ndarray
    prices: np.ndarray
    temperature: float
    mass: np.ndarray
    swept: Swept
    shares: np.ndarray
    bound: float


def solve_dual(
    rows: Any,
    costs: Costs,
    constraints: CellConstraints,
    *,
    start: np.ndarray | None = None,
    sample: Any = None,
    sums: str | None = None,
    gaps: Any = None,
    rough: bool = False,
    known: Swept | None = None,
    temperature: float = np.inf,
    thinned: bool = False,
    far: bool = True,
    reach: float = 0.0,
) -> Dual:
    """Multipliers for rows in memory or in chunks.

    Parameters
    ----------
    rows : MemoryRows or ChunkedRows
    costs : object
        As `sweep` takes it.
    constraints : CellConstraints
        Which some assignment meets.
    start : ndarray of shape (n_bounds,), default=None
        Multipliers of a similar problem.
    sample : MemoryRows, default=None
        A weighted sample of rows in chunks.
    sums : str, default=None
        Of the last sweep.
    gaps : tuple of float, default=None
        `typical_gaps`, if they are known.
    rough : bool
        Whether a higher temperature will do, as for steps that others follow.
    known : Swept, default=None
        A pass over the rows at these costs, near the start.
    temperature : float
        At most the first one: `small_temperature` of a pass at similar costs and prices.
    thinned : bool
        Whether the last band of rows in chunks may be thinned: the multipliers are needed, not the
        rows.
    far : bool
        Whether the start is that of a sample, far away compared with the bands that many rows need.
    reach : float
        By how much prices are expected to move: the first band reaches as far.

    Returns
    -------
    dual : Dual
    """
    near = rows if sample is None else sample
    mean, median = gaps or typical_gaps(near, costs)
    last = (STEP_TEMPERATURE if rough else LAST_TEMPERATURE) * median
    first = max(COOLING * LAST_TEMPERATURE * median, last)
    if start is None:
        # From few rows to more: the farther prices have to go, the wider is the band.
        few, second = few_of_each_group(near, START_ROWS), SECOND_TEMPERATURE * median
        start = _Search(few, costs, constraints).cool(FIRST_TEMPERATURE * mean, second)
        if sample is None and rows.n_rows > 4 * SECOND_ROWS and costs.n_clusters > 1:
            near, first = rows_near_ties(rows, costs), last
            search = _Search(near, costs, constraints, rough=False)
            start = search.follow(start, second, last).multipliers
        elif sample is None:
            first = second
        else:
            start = _Search(sample, costs, constraints).follow(start, second, last).multipliers
    if known is not None:  # it was made for multipliers at the last temperature
        first = last
    if temperature < first:  # the colder, the farther a band reaches
        first = last = min(last, temperature / COOLING)
        reach = max(reach, WIDTH * temperature - kernels.NEGLIGIBLE * first)
    search = _Search(rows, costs, constraints, sums, rough=rough, thinned=thinned, sample=sample)
    if far and search.in_chunks and temperature == np.inf:
        reach = FAR * REACH * first
    return search.follow(start, first, last, known, reach=reach)


def small_temperature(swept: Swept, prices: np.ndarray) -> float:
    """First temperature whose band need not be thinned, if the prices are that exact."""
    if not swept.thinned:
        return np.inf
    return max(swept.width_of_a_small_band(prices), swept.widths.min() / NARROWING) / WIDTH


def typical_gaps(rows: Any, costs: Costs) -> tuple[float, float]:
    """Mean and median difference between the two best costs of a row, ties left out."""
    few = few_of_each_group(rows, START_ROWS)
    table = few.map_to_table(costs.write, costs.n_clusters)
    if table.shape[1] < 2:
        return 1.0, 1.0
    differences = _differences(table)
    counted = (differences > 0) & (few.weights > 0)
    if not counted.any():  # every row is tied between its two best
        regrets = table - table.min(axis=1, keepdims=True)
        typical = float(np.median(regrets[regrets > 0])) if (regrets > 0).any() else 1.0
        return typical, typical
    mean = float(np.average(differences[counted], weights=few.weights[counted]))
    return mean, float(np.median(differences[counted]))


def _differences(table: np.ndarray) -> np.ndarray:
    two = np.partition(table, 1, axis=1)[:, :2]
    return two[:, 1] - two[:, 0]


def few_of_each_group(rows: Any, n_rows: int) -> Any:
    """Some rows of each group with the weight of all of it; the rows themselves if few more."""
    if rows.n_rows <= 2 * n_rows:
        return rows
    chosen, weights = few_rows_by_group(rows, n_rows)
    return rows.subset(chosen).weighted(weights)


def few_rows_by_group(rows: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and weights of the rows of `few_of_each_group`."""
    chosen, weights = [], []
    for members in rows.members:
        share = n_rows * len(members) // (2 * rows.n_rows)
        quota = share + n_rows // (2 * rows.n_groups) + 1
        places, own = spread_sample_by_weight(rows.weights[members], quota)
        chosen.append(members[places])
        weights.append(own)
    return np.concatenate(chosen), np.concatenate(weights)


def rows_near_ties(rows: Any, costs: Costs) -> Any:
    """Rows whose best two costs differ least, and some of the others with the weight of all.

    Of the others, those of a group with the same best cluster weigh as much as they do among all
    rows: without prices, the cells weigh what they do among all rows. By how much a random sample
    misses a bound is noise, where rows meet it nearly.
    """
    n_cells = costs.n_clusters * rows.n_groups
    n_near = min(max(SECOND_ROWS, ROWS_PER_CELL * n_cells) // 2, rows.n_rows // 8)
    others, weights = few_rows_by_group(rows, n_near)
    costs_of_few = rows.subset(others).map_to_table(costs.write, costs.n_clusters)
    width = np.quantile(_differences(costs_of_few), n_near / rows.n_rows)
    nothing = np.zeros((costs.n_clusters, rows.n_groups))
    swept = sweep(rows, costs, nothing, width)
    if len(swept.rows) > rows.n_rows // 4:  # most rows are tied
        return rows.subset(others).weighted(weights)
    cells = swept.labels * rows.n_groups + rows.group_codes
    cells[swept.rows] = n_cells
    is_clear = cells[others] < n_cells
    others, weights = others[is_clear], weights[is_clear]
    found = np.bincount(cells[others], weights, minlength=n_cells)
    clear = swept.clear.ravel()
    lost = np.flatnonzero((found == 0) & (clear > 0))
    more = np.flatnonzero(np.isin(cells, lost)) if len(lost) else lost
    weights *= (clear / np.where(found > 0, found, 1.0))[cells[others]]
    chosen = np.concatenate([swept.rows, others, more])
    own = np.concatenate([rows.weights[swept.rows], weights, rows.weights[more]])
    order = np.argsort(chosen)
    return rows.subset(chosen[order]).weighted(own[order])


class _Search:
    """Newton's method with a sweep whenever prices have moved too far."""

    def __init__(
        self,
        rows: Any,
        costs: Costs,
        constraints: CellConstraints,
        sums: str | None = None,
        *,
        rough: bool = True,
        thinned: bool = True,
        sample: Any = None,
    ) -> None:
        self.rows, self.costs, self.constraints, self.sums = rows, costs, constraints, sums
        self.sample = sample
        self.bounds, self.thinned = constraints.for_kernels, thinned
        self.in_chunks = isinstance(rows, ChunkedRows)
        cells = constraints.typical_weight(rows.group_sizes / constraints.shape[0])
        of_a_cell = OF_A_CELL_BEFORE if rough and not self.in_chunks else OF_A_CELL
        self.most_entries = min(max(CANDIDATES * rows.n_rows, SMALL_BAND), LARGE_BAND)
        self.tolerance = np.maximum(of_a_cell * cells, OF_A_ROW * rows.total / rows.n_rows)

    def cool(self, first: float, last: float) -> np.ndarray:
        """Multipliers on few rows, from nothing."""
        search = _Band(self, np.zeros(self.constraints.n_bounds), np.inf)
        temperature = first
        while True:
            search.maximise(temperature, np.inf)
            if temperature <= last:
                return search.multipliers
            temperature = max(temperature / COOLING, last)

    def follow(
        self,
        multipliers: np.ndarray,
        first: float,
        last: float,
        known: Swept | None = None,
        *,
        reach: float = 0.0,
    ) -> Dual:
        """`Dual` from a start that is near; prices move by ``reach`` or more without a sweep."""
        temperature, n_sweeps, n_thinned = first, 0, 0
        reach = max(reach, REACH * first)
        negligible = kernels.NEGLIGIBLE * temperature
        prices = self.constraints.prices(multipliers)
        if known is not None and known.reaches(prices, negligible):
            search = _Band(self, multipliers, float(known.widths.min()), known)
            reach = search.width - negligible
        else:
            search = _Band(self, multipliers, negligible + reach)
        if self.constraints.n_bounds == 0:
            return search.dual(last)
        while True:
            state = search.maximise(temperature, reach)
            if state < 0 and n_sweeps < MAX_SWEEPS:
                n_sweeps += 1
                if self.sample is not None:
                    search = self._beyond(search, temperature)
                elif len(search.swept.band.costs) <= self.most_entries:
                    reach *= WIDENING
                if n_sweeps % 3 == 0:
                    temperature *= COOLING
                search.sweep(kernels.NEGLIGIBLE * temperature + reach)
            elif temperature <= last and search.swept.thinned and not self.thinned:
                # The prices are good enough for a band that has all of its rows.
                n_thinned += 1
                prices = self.constraints.prices(search.multipliers)
                temperature = min(small_temperature(search.swept, prices), temperature / COOLING)
                last, reach = temperature / COOLING, REACH * temperature
                width = kernels.NEGLIGIBLE * temperature + reach
                # Where many rows are tied, no band is small.
                search.sweep(width, thin=n_thinned < MOST_THINNED)
            elif temperature <= last:
                return search.dual(temperature)
            else:
                temperature = max(temperature / COOLING, last)
                reach = REACH * temperature
                width = kernels.NEGLIGIBLE * temperature + reach
                if width < search.width / (2.0 * COOLING) and not self.in_chunks:
                    search.sweep(width)
                else:
                    reach = search.width - kernels.NEGLIGIBLE * temperature

    def _beyond(self, search: "_Band", temperature: float) -> "_Band":
        """A wider band, for which no pass is made: sampled rows stand for those that are clear.

        Of each cell, they weigh as much as its clear rows.
        """
        swept, sample, width = search.swept, self.sample, search.width
        own = sweep(sample, self.costs, swept.prices, swept.widths)
        is_clear = np.ones(sample.n_rows, dtype=bool)
        is_clear[own.rows] = False
        if not is_clear.any():  # the next pass moves on from here
            return search
        cells = np.asarray(own.labels)[is_clear], sample.group_codes[is_clear]
        ratio = np.divide(swept.clear, own.clear, out=np.zeros_like(own.clear), where=own.clear > 0)
        others = sample.subset(np.flatnonzero(is_clear)).weighted(
            sample.weights[is_clear] * ratio[cells]
        )
        missing = np.where(own.clear > 0, 0.0, swept.clear)
        for _ in range(MAX_SWEEPS):
            width *= WIDENING
            wider = sweep(others, self.costs, swept.prices, width)
            wider = replace(
                wider, clear=wider.clear + missing, band=joined_bands([swept.band, wider.band])
            )
            search = _Band(self, search.multipliers, width, wider)
            if search.maximise(temperature, width - kernels.NEGLIGIBLE * temperature) >= 0:
                break
        return search


class _Band:
    """The rows that a sweep found to be near a tie, and multipliers that are changed on them."""

    swept: Swept
    shares: np.ndarray

    def __init__(
        self, search: _Search, multipliers: np.ndarray, width: float, known: Swept | None = None
    ) -> None:
        self.search, self.multipliers = search, multipliers.copy()
        if known is None:
            self.sweep(width)
        else:
            self._hold(known, width)

    def sweep(self, width: float, *, thin: bool = True) -> None:
        """Replace the band by that of a sweep around the multipliers."""
        search, prices = self.search, self.search.constraints.prices(self.multipliers)
        if hasattr(self, "swept"):  # two bands take too much memory
            del self.swept, self.shares
        swept = sweep(search.rows, search.costs, prices, width, sums=search.sums, thin=thin)
        self._hold(swept, width)

    def _hold(self, swept: Swept, width: float) -> None:
        self.swept, self.reference, self.width = swept, swept.prices, width
        self.mass = np.empty(self.reference.shape)
        self.shares = np.empty(len(swept.band.costs))

    def maximise(self, temperature: float, reach: float) -> int:
        n_groups = self.search.rows.n_groups
        return kernels.maximise(
            self.swept.band, self.search.bounds, self.swept.clear.ravel(), self.multipliers,
            temperature, self.search.tolerance, MAX_STEPS, reach, self.reference.ravel(),
            n_groups, self.mass.ravel(), self.shares,
        )  # fmt: skip

    def dual(self, temperature: float) -> Dual:
        constraints = self.search.constraints
        prices = constraints.prices(self.multipliers)
        alone = None if self.multipliers.any() else self.swept.mass(prices)
        # No bound binds: rows are where they cost least. Rows that are tied may have to be shared.
        if alone is not None and constraints.excess(alone) <= 1e-9 * self.search.rows.total:
            self.mass = alone
            self.shares[:] = 0.0
            self.shares[self.swept.cheapest(prices)[0]] = 1.0
        bound = self.swept.value(prices) - float(constraints.right @ self.multipliers)
        return Dual(
            self.multipliers, prices, temperature, self.mass, self.swept, self.shares, bound
        )
