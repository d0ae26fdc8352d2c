"""Lloyd's algorithm, plain and fair.

A fair step finds prices under which rows, shared between clusters where they are near a tie, meet
the constraint for the given centres, and moves the centres to the means. Labels are whole only in
the end, where one exact assignment belongs to the last centres.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from fairanchor._kernels import _centers as kernels
from fairanchor._utils._cached import cached_property
from fairanchor.assignment._dual import Dual, small_temperature, solve_dual, typical_gaps
from fairanchor.assignment._engine import Assignment, assign
from fairanchor.assignment._sweep import Swept, cheapest_clusters
from fairanchor.constraints import Constraint
from fairanchor.constraints._bounds import CellConstraints
from fairanchor.rows import Block, ChunkedRows
from fairanchor.rows._memory import added
from fairanchor.rows._sums import label_cost, label_sums, shared_sums, sparse_squared_distances
from fairanchor.rows._tables import numbers_per_row, rows_at

# From so many clusters on, a matrix product is faster than loops, whatever the number of features.
PRODUCT_CLUSTERS = 40
# After which a fit is taken to have converged.
STEPS_OF_A_FULL_FIT = 300
# Of a block's rows, or of their costs.
NUMBERS_AT_A_TIME = 2**18


@dataclass(frozen=True)
class CenterCosts:
    """Squared distances to centres."""

    centers: np.ndarray
    takes_long = False

    @property
    def n_clusters(self) -> int:
        return len(self.centers)

    def is_product(self, X: Any) -> bool:
        """Whether costs come from a matrix product."""
        return issparse(X) or len(self.centers) >= PRODUCT_CLUSTERS

    def rows_at_a_time(self, X: Any) -> int:
        """Rows that fit in a cache."""
        return max(64, NUMBERS_AT_A_TIME // max(len(self.centers), numbers_per_row(X)))

    @property
    def key(self) -> bytes:
        """Identifies these costs."""
        return self.centers.tobytes()

    def write(self, block: Block, out: np.ndarray) -> None:
        """Write the costs of a block."""
        if issparse(block.X):
            sparse_squared_distances(block.X, self._columns, out)
            return
        if not self.is_product(block.X):
            # Doubles of a block: conversions one by one take as long as the distances.
            X = np.asarray(block.X, dtype=np.float64)
            kernels.squared_distances(X, self.centers, out)
            return
        middle, factor = self._factor()
        rows = np.empty((len(block.X), factor.shape[0]))
        np.subtract(block.X, middle, out=rows[:, :-2])
        rows[:, -2] = 1.0
        np.einsum("ij,ij->i", rows[:, :-2], rows[:, :-2], out=rows[:, -1])
        np.matmul(rows, factor, out=out)
        np.maximum(out, 0.0, out=out)

    @cached_property
    def _columns(self) -> np.ndarray:
        return np.ascontiguousarray(self.centers.T)

    def _factor(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean of the centres, and what rows from there, 1 and their square are multiplied by."""
        middle = self.centers.mean(axis=0)
        centers = self.centers - middle
        squares = (centers**2).sum(axis=1)
        return middle, np.vstack([-2.0 * centers.T, squares, np.ones(len(centers))])


@dataclass(frozen=True)
class Start:
    """Centres, their cost on some rows, the multipliers there, and the pass that found them."""

    centers: np.ndarray
    cost: float = np.inf
    multipliers: np.ndarray | None = None
    swept: Swept | None = None


@dataclass(frozen=True)
class LloydResult:
    """A fair assignment to centres.

    Attributes
    ----------
    centers : ndarray of shape (n_clusters, n_features)
        The labels are the best ones for these centres.
    assignment : Assignment
    n_iter : int
        Number of times that the centres moved, at least 1.
    converged : bool
    cost_path : list of float
        Cost of the fractional assignment in each iteration, never increasing.
    """

    centers: np.ndarray
    assignment: Assignment
    n_iter: int
    converged: bool
    cost_path: list = field(default_factory=list)

    @property
    def cost(self) -> float:
        return self.assignment.cost


@dataclass(frozen=True)
class FairLloyd:
    """Fair Lloyd steps.

    Attributes
    ----------
    constraint : Constraint
    cells : CellConstraints
        The same as linear bounds.
    max_iter : int
        Number of times that the centres move.
    tol : float
        The iterations end when the cost falls by less than this part of itself.
    min_size : float
        Least weight of a cluster, where clusters mirror the population.
    spherical : bool
        Whether centres have unit length, as the rows do.
    max_passes : int or None
        Passes over rows in chunks, that which writes labels included.
    """

    constraint: Constraint
    cells: CellConstraints
    max_iter: int
    tol: float
    min_size: float
    spherical: bool = False
    max_passes: int | None = None

    def converge(self, sample: Any, at: Start, max_iter: int | None = None) -> Start:
        """Centres after the steps on a sample, until they converge or ``max_iter`` times."""
        lloyd = self if max_iter is None else replace(self, max_iter=max_iter)
        return replace(lloyd._iterate(sample, at)[0], swept=None)

    def excess(self, of: LloydResult, first: Any, second: Any) -> float:
        """By how much the cost of a result's centres exceeds that after more steps, relative to it.

        Steps on a second sample gain too much on this sample, whose noise they fit, and as much too
        little on the first one.
        """
        start = Start(of.centers, multipliers=of.assignment.multipliers)
        moved = self.converge(second, start, STEPS_OF_A_FULL_FIT)
        gains = []
        for sample in (first, second):
            before, after = (self._cost(sample, at) for at in (start, moved))
            gains.append(before / after - 1.0 if after > 0.0 else 0.0)
        return max(float(np.mean(gains)), 0.0)

    def _cost(self, rows: Any, at: Start) -> float:
        gaps = typical_gaps(rows, CenterCosts(at.centers))
        return max(self._dual(rows, at.centers, at.multipliers, gaps).bound, 0.0)

    def follow(self, rows: Any, at: Start, sample: Any = None) -> LloydResult:
        """`LloydResult` of all rows.

        Parameters
        ----------
        rows : MemoryRows or ChunkedRows
        at : Start
        sample : MemoryRows, default=None
            A weighted sample of rows in chunks.
        """
        if isinstance(rows, ChunkedRows):
            return self._follow_in_chunks(rows, at, sample)
        best, path, n_iter, converged = self._iterate(rows, at)
        centers = best.centers
        found = self._assign(rows, centers, best.multipliers, known=best.swept)
        del best
        while n_iter < self.max_iter:
            # Whole rows can leave the means elsewhere, which shows on small tables.
            labels, split = found.transported.memory_labels()
            means = self._projected(means_of(rows, labels, centers, split))
            if has_converged(found.totals.sum(axis=1), means - centers, found.cost, self.tol):
                break
            n_iter += 1
            again = self._assign(rows, means, found.multipliers)
            is_better = again.cost < found.cost and not self._misses_more(again, found)
            is_done = again.cost >= found.cost * (1.0 - self.tol)
            if is_better:
                found, centers = again, means
            if is_done or not is_better:
                converged = True
                break
        return LloydResult(centers, found, max(n_iter, 1), converged, path)

    def _follow_in_chunks(self, rows: ChunkedRows, at: Start, sample: Any) -> LloydResult:
        """`follow` in few passes: the sample predicts how the multipliers change with the centres.

        If the last band has all rows near a tie, the labels need no other pass.
        """
        centers, multipliers = at.centers, at.multipliers
        gaps = typical_gaps(sample, CenterCosts(centers))
        best: Any = None
        path: list[float] = []
        n_moves, converged, n_before = 0, False, rows.n_passes
        differs: Any = 0.0  # the multipliers of all rows from those of the sample
        temperature = np.inf
        while True:
            near = self._dual(sample, centers, multipliers, gaps, rough=False)
            start = self._shifted(near.multipliers, differs)
            step = self._dual(
                rows, centers, start, gaps, sample, temperature, rough=False, far=best is None
            )
            differs = step.multipliers - near.multipliers
            multipliers, cost = near.multipliers, max(step.bound, 0.0)
            temperature = min(temperature, small_temperature(step.swept, step.prices))
            is_lower = best is None or cost < best.cost
            converged = best is not None and cost >= best.cost * (1.0 - self.tol)
            if is_lower:
                best = Start(centers, cost, step.multipliers, step.swept)
                path.append(cost)
            means = self._projected(_means_in_chunks(step, centers, sample))
            sizes = step.mass.sum(axis=1)
            converged = converged or has_converged(sizes, means - centers, cost, self.tol)
            # Besides, one pass drew the sample and one writes labels; how many there were before
            # can depend on where the rows are. After a thinned band, the next one can be thinned,
            # and labels then need another.
            n_passes = rows.n_passes - n_before + (4 if step.swept.thinned else 3)
            is_last = self.max_passes is not None and n_passes > self.max_passes
            if converged or is_last or n_moves == self.max_iter:
                break
            n_moves += 1
            centers, best = means, replace(best, swept=None)  # two bands are too much memory
            del step
        del step
        found = self._assign(rows, best.centers, best.multipliers, sample, best.swept, temperature)
        return LloydResult(best.centers, found, max(n_moves, 1), converged, path)

    def _shifted(self, multipliers: np.ndarray, by: Any) -> np.ndarray:
        """Multipliers of a sample as those of all rows; of inequalities they are not negative."""
        shifted = multipliers + by
        return np.where(self.cells.is_equal, shifted, np.maximum(shifted, 0.0))

    def _iterate(self, rows: Any, at: Start) -> tuple[Start, list[float], int, bool]:
        """Steps with shared rows: best centres, costs, number of moves, whether it converged."""
        centers, multipliers = at.centers, at.multipliers
        gaps = typical_gaps(rows, CenterCosts(centers))
        best, path, n_moves, converged = None, [], 0, False
        prices: Any = None
        reach = 0.0
        while True:
            step = self._dual(rows, centers, multipliers, gaps, reach=reach)
            if prices is not None:  # the next step moves them less
                reach = float(np.ptp(step.prices - prices, axis=0).max())
            prices = step.prices
            cost = max(step.bound, 0.0)
            converged = best is not None and cost >= best.cost * (1.0 - self.tol)
            if best is None or cost < best.cost:
                best = Start(centers, cost, step.multipliers, step.swept)
                path.append(cost)
            if converged or n_moves == self.max_iter:
                break
            means = self._projected(_means(rows, step, centers))
            multipliers = step.multipliers
            n_moves += 1
            if has_converged(step.mass.sum(axis=1), means - centers, cost, self.tol):
                converged = True
                break
            centers, best = means, replace(best, swept=None)  # two bands are too much memory
            del step
        return best, path, n_moves, converged

    def _projected(self, means: np.ndarray) -> np.ndarray:
        return unit_length(means) if self.spherical else means

    def _dual(
        self,
        rows: Any,
        centers: np.ndarray,
        multipliers: np.ndarray | None,
        gaps: tuple[float, float],
        sample: Any = None,
        temperature: float = np.inf,
        *,
        rough: bool = True,
        far: bool = True,
        reach: float = 0.0,
    ) -> Dual:
        return solve_dual(
            rows, CenterCosts(centers), self.cells, start=multipliers, sample=sample, gaps=gaps,
            rough=rough, sums="clear" if sample is None else "all",
            temperature=temperature, thinned=True, far=far, reach=reach,
        )  # fmt: skip

    def _assign(
        self,
        rows: Any,
        centers: np.ndarray,
        multipliers: np.ndarray | None,
        sample: Any = None,
        known: Swept | None = None,
        temperature: float = np.inf,
    ) -> Assignment:
        return assign(
            rows, CenterCosts(centers), self.constraint, cells=self.cells, start=multipliers,
            sample=sample, min_size=self.min_size, known=known, temperature=temperature,
        )  # fmt: skip

    def _misses_more(self, one: Assignment, other: Assignment) -> bool:
        rule = self.constraint.rule
        if rule is None:
            return False
        return max(rule.violations(one.totals)) > max(rule.violations(other.totals))


def has_converged(sizes: np.ndarray, moves: np.ndarray, cost: float, tol: float) -> bool:
    """Whether the last move of the centres lowers the cost by less than half of ``tol`` of it.

    The next assignment lowers it by about as much again: too little to be worth a sweep.
    """
    return float(sizes @ (moves**2).sum(axis=1)) <= 0.5 * tol * cost


def _means_in_chunks(step: Dual, centers: np.ndarray, sample: Any) -> np.ndarray:
    """Means of the clusters: rows are summed up at the prices of the pass.

    A sample shows what changes with the prices that were found afterwards.
    """
    swept, costs = step.swept, CenterCosts(centers)
    sums: Any = swept.sums
    totals = swept.mass(swept.prices).sum(axis=1)
    for sign, prices in ((1.0, step.prices), (-1.0, swept.prices)):
        labels = cheapest_clusters(sample, costs, prices)
        own_sums, own_totals = cluster_sums(sample, labels, len(centers))
        sums, totals = sums + sign * own_sums, totals + sign * own_totals
    return _divide(sums, totals, centers)


def _means(rows: Any, step: Dual, centers: np.ndarray) -> np.ndarray:
    """Means of the clusters between which rows are shared."""
    swept = step.swept
    band = swept.band
    weights = step.shares * np.repeat(band.weights, np.diff(band.first))
    sums = np.array(swept.sums)
    for start in range(0, len(swept.rows), rows.block_rows):  # the band can have most rows
        chosen = swept.rows[start : start + rows.block_rows]
        first = band.first[start : start + len(chosen) + 1]
        own = slice(first[0], first[-1])
        sums += shared_sums(
            rows_at(rows.X, chosen),
            first - first[0],
            band.clusters[own],
            weights[own],
            len(centers),
        )
    return _divide(sums, step.mass.sum(axis=1), centers)


def unit_length(centers: np.ndarray) -> np.ndarray:
    """Centres divided by their norms: of all such points, the nearest to rows with these means."""
    norms = np.linalg.norm(centers, axis=1, keepdims=True)
    return np.divide(centers, norms, out=np.zeros_like(centers), where=norms > 0)


def plain_lloyd(
    rows: Any, centers: np.ndarray, *, max_iter: int, tol: float, spherical: bool = False
) -> tuple[np.ndarray, float]:
    """Lloyd's algorithm without fairness; returns the centres and the last cost seen."""
    last_cost = np.inf
    for _ in range(max_iter):
        sums, totals, cost = rows.sum(_PlainStep(CenterCosts(centers)))
        if cost[0] >= last_cost * (1.0 - tol):
            break
        last_cost = cost[0]
        centers = _divide(sums, totals, centers)
        centers = unit_length(centers) if spherical else centers
    return centers, last_cost


def in_order_of_sizes(rows: Any, centers: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The same centres, numbered so that those with more rows get the larger sizes."""
    labels = cheapest_clusters(rows, CenterCosts(centers), np.zeros((len(centers), rows.n_groups)))
    totals = np.bincount(labels, rows.weights, minlength=len(centers))
    ordered = np.empty_like(centers)
    ordered[np.argsort(sizes, kind="stable")] = centers[np.argsort(totals, kind="stable")]
    return ordered


@dataclass(frozen=True)
class _PlainStep:
    """Sums, weights and cost of a block's rows at their nearest centres."""

    costs: CenterCosts

    def __call__(self, block: Any) -> tuple:
        centers = self.costs.centers
        if not self.costs.is_product(block.X):
            sums, totals = np.zeros(centers.shape), np.zeros(len(centers))
            cost = kernels.nearest_center_sums(block.X, block.weights, centers, sums, totals)
            return sums, totals, np.array([cost])
        table = np.empty((block.n_rows, len(centers)))
        for part in block.parts(self.costs.rows_at_a_time(block.X)):
            self.costs.write(part, table[part.start - block.start : part.stop - block.start])
        labels = table.argmin(axis=1)
        cost = block.weights @ table[np.arange(len(labels)), labels]
        return *label_sums(block.X, block.weights, labels, len(centers)), np.array([cost])


def means_of(
    rows: Any, labels: np.ndarray, centers: np.ndarray, split: dict | None = None
) -> np.ndarray:
    """Means of the clusters; one without weight keeps its centre."""
    return _divide(*cluster_sums(rows, labels, len(centers), split), centers)


def cluster_sums(
    rows: Any, labels: np.ndarray, n_clusters: int, split: dict | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the rows of each cluster, and their weight."""

    def add(block: Any) -> tuple:
        own = labels[block.start : block.stop]
        return label_sums(block.X, block.weights, own, n_clusters)

    sums, totals = rows.sum(add)
    for row, cluster, moved in _moves(rows, labels, split):
        sums[cluster] += moved * rows.X[row]
        totals[cluster] += moved
    return sums, totals


def cost_of(rows: Any, labels: np.ndarray, centers: np.ndarray, split: dict | None = None) -> float:
    """Squared distances of the rows to their cluster's centre, summed with their weights."""

    def add(block: Any) -> tuple:
        own = labels[block.start : block.stop]
        return (np.array([label_cost(block.X, block.weights, own, centers)]),)

    cost = float(rows.sum(add)[0][0])
    for row, cluster, moved in _moves(rows, labels, split):
        cost += moved * float(((rows.X[row] - centers[cluster]) ** 2).sum())
    return cost


@dataclass(frozen=True)
class SumsOfChunk:
    """Sums of a chunk's rows by label, their numbers, and squared distances to given points.

    Called with the chunk and labels, or a function that labels it.
    """

    n_clusters: int
    points: np.ndarray | None = None

    def __call__(self, chunk: Any, labels: Any) -> tuple:
        labels = labels(chunk) if callable(labels) else labels
        sums, totals = cluster_sums(chunk.rows, labels, self.n_clusters)
        squares = 0.0 if self.points is None else cost_of(chunk.rows, labels, self.points)
        return sums, totals, np.array([squares])


def sums_in_chunks(
    rows: Any, labels: Any, n_clusters: int, points: np.ndarray | None = None
) -> tuple:
    """Sums, numbers and squares of all chunks together, as in `SumsOfChunk`.

    Parameters
    ----------
    rows : ChunkedRows
    labels : sequence
        Of each chunk, or functions that label it.
    """
    return rows.each("means", SumsOfChunk(n_clusters, points), labels, combine=added)


def _moves(rows: Any, labels: np.ndarray, split: dict | None) -> Iterator[tuple]:
    """What split rows weigh elsewhere than at their label: (row, cluster, change) each."""
    for row, parts in (split or {}).items():
        yield row, labels[row], -rows.weights[row]
        for cluster, weight in parts:
            yield row, cluster, weight


def _divide(sums: Any, totals: np.ndarray, centers: np.ndarray) -> np.ndarray:
    used = totals > 0
    moved = centers.copy()
    moved[used] = sums[used] / totals[used, None]
    return moved
