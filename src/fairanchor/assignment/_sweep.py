"""One pass over all rows, wherever they are: rows whose cluster is clear, and a band of others.

Under given prices a row is *clear* if its second best cluster costs more than the best one by more
than a width. As long as the prices of a group change by amounts that differ by less than the
width, clear rows stay where they are. All others are in the band, with the clusters that they may
be in and the costs of these, so that what follows needs no other row.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from fairanchor._kernels import _sweep as kernels
from fairanchor._kernels._dual import Band
from fairanchor._utils._sampling import split_by_code
from fairanchor.rows import Block, ChunkedRows
from fairanchor.rows._sums import label_sums

# Numbers of a table of costs at a time, so that it stays in a cache.
COSTS_AT_A_TIME = 2**18
# Label of a row that adds to no sum.
NOT_CLEAR = -1
# Candidates in the band of rows in chunks, for all cells and for each: a band with more is thinned.
# With 200 for each, prices are so far off that costs rise.
MOST_ENTRIES, ENTRIES_PER_CELL = 2**22, 2**10


class Costs(Protocol):
    """Costs of rows in the clusters, computed block by block."""

    takes_long: bool

    @property
    def n_clusters(self) -> int: ...

    def write(self, block: Block, out: np.ndarray) -> None:
        """Write the costs of a block's rows, a column for each cluster."""


@dataclass(frozen=True)
class KnownCosts:
    """Costs that are known: the features of the rows."""

    n_clusters: int
    takes_long = False

    def write(self, block: Any, out: np.ndarray) -> None:
        """Write the costs of a block."""
        out[:] = block.X


def cheapest_clusters(rows: Any, costs: Costs, prices: np.ndarray) -> np.ndarray:
    """Cluster with the least cost plus price, of each row in memory."""
    return np.asarray(sweep(rows, costs, prices, 0.0).labels)


@dataclass(frozen=True)
class Swept:
    """What a pass found.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,), or None
        Cheapest cluster of each row, where rows are in memory.
    clear : ndarray of shape (n_clusters, n_groups)
        Weight of the clear rows in their clusters.
    clear_cost : float
        Their cost, without prices.
    rows : ndarray of shape (n_band_rows,)
        Numbers of the rows in the band; within their chunk, where rows are in chunks.
    band : Band
        Candidates of these rows, and their costs without prices.
    chunks : ndarray of shape (n_chunks + 1,)
        First row of the band of each chunk.
    prices : ndarray of shape (n_clusters, n_groups)
        Under which rows were sorted.
    widths : ndarray of shape (n_groups,)
    sums : ndarray of shape (n_clusters, n_features), or None
        Of the rows that were asked for.
    thinned : bool
        Whether the band has some of its rows only, with the weights of all: enough to find prices,
        not to label rows.
    """

    labels: np.ndarray | None
    clear: np.ndarray
    clear_cost: float
    rows: np.ndarray
    band: Band
    chunks: np.ndarray
    prices: np.ndarray
    widths: np.ndarray
    sums: np.ndarray | None = None
    thinned: bool = False

    def reaches(self, prices: np.ndarray, widths: np.ndarray | float) -> bool:
        """Whether rows that are clear here are clear at these prices and widths, too."""
        is_within = np.ptp(prices - self.prices, axis=0) + widths <= self.widths
        return not self.thinned and bool(is_within.all())

    def width_of_a_small_band(self, prices: np.ndarray) -> float:
        """Width at which a band around other prices has half of `most_entries`, by estimate."""
        counts = np.diff(self.band.first)
        entries, least = self.cheapest(prices)
        regrets = self.priced(prices) - np.repeat(least, counts)
        is_other = np.ones(len(regrets), dtype=bool)
        is_other[entries] = False
        regrets, weights = regrets[is_other], np.repeat(self.band.weights, counts)[is_other]
        order = np.argsort(regrets)
        # Every row in the band has its cheapest cluster there, besides the others.
        until = 2.0 * np.cumsum(weights[order])
        place = int(np.searchsorted(until, most_entries(prices) / 2))
        return float(regrets[order[min(place, len(order) - 1)]])

    def thin(self, steps: np.ndarray) -> "Swept":
        """The same pass with every ``steps[r]``-th row of group r in the band; weights stay."""
        band, counts = self.band, np.diff(self.band.first)
        is_kept = np.zeros(len(counts), dtype=bool)
        for members, step in zip(split_by_code(band.group_codes, len(steps)), steps, strict=True):
            is_kept[members[::step]] = True
        chosen, entries = np.flatnonzero(is_kept), np.repeat(is_kept, counts)
        first = np.concatenate([[0], np.cumsum(counts[chosen])])
        thinned = Band(
            first, band.clusters[entries], band.costs[entries], band.group_codes[chosen],
            band.weights[chosen],
        )  # fmt: skip
        return replace(self, rows=self.rows[chosen], band=thinned)

    def narrowed(self, prices: np.ndarray, widths: np.ndarray) -> tuple["Swept", np.ndarray]:
        """What a pass at other prices and widths within reach would find, without a pass.

        Returns
        -------
        swept : Swept
            Its labels and sums are not known.
        places : ndarray of shape (n_rows_of_its_band,)
            Of the rows that are still in the band.
        """
        if np.array_equal(prices, self.prices) and np.array_equal(widths, self.widths):
            return self, np.arange(len(self.rows))
        band, counts = self.band, np.diff(self.band.first)
        entries, least = self.cheapest(prices)
        is_near = self.priced(prices) - np.repeat(least, counts) <= np.repeat(
            widths[band.group_codes], counts
        )
        n_near = counts
        if len(counts):
            n_near = np.add.reduceat(is_near, band.first[:-1], dtype=np.int64)
        is_clear = n_near == 1
        places = np.flatnonzero(~is_clear)
        kept = np.flatnonzero(is_near & np.repeat(~is_clear, counts))
        cleared, own = band.weights[is_clear], entries[is_clear]
        clear = self.clear.copy()
        np.add.at(clear, (band.clusters[own], band.group_codes[is_clear]), cleared)
        narrow = Band(
            np.concatenate([[0], np.cumsum(n_near[places])]), band.clusters[kept],
            band.costs[kept], band.group_codes[places], band.weights[places],
        )  # fmt: skip
        cost = self.clear_cost + float(cleared @ band.costs[own])
        chunks = np.searchsorted(places, self.chunks)
        return (
            Swept(None, clear, cost, self.rows[places], narrow, chunks, prices, widths),
            places,
        )

    def priced(self, prices: np.ndarray) -> np.ndarray:
        """Costs of the band's candidates, prices included."""
        return self.band.costs + prices[self.band.clusters, np.repeat(
            self.band.group_codes, np.diff(self.band.first)
        )]  # fmt: skip

    def cheapest(self, prices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Entry of each row's cheapest candidate, the first one on ties, and its priced cost."""
        n_rows = len(self.band.group_codes)
        entries, least = np.empty(n_rows, dtype=np.int64), np.empty(n_rows)
        kernels.cheapest(self.band, np.ascontiguousarray(prices), entries, least)
        return entries, least

    def value(self, prices: np.ndarray) -> float:
        """Weighted sum of all rows' least cost plus price, within the reach of the band."""
        own = float(self.band.weights @ self.cheapest(prices)[1])
        return self.clear_cost + float((self.clear * prices).sum()) + own

    def mass(self, prices: np.ndarray) -> np.ndarray:
        """Weight of the rows of each group by cheapest cluster."""
        return self.clear + self._of_band(self.cheapest(prices)[0])

    def band_totals(self) -> list:
        """Weight of the band's rows by cheapest cluster at the prices of the pass, and cost."""
        entries, _ = self.cheapest(self.prices)
        return [self._of_band(entries), float(self.band.weights @ self.band.costs[entries])]

    def _of_band(self, entries: np.ndarray) -> np.ndarray:
        n_clusters, n_groups = self.clear.shape
        cells = self.band.clusters[entries] * n_groups + self.band.group_codes
        weights = np.bincount(cells, self.band.weights, minlength=n_clusters * n_groups)
        return weights.reshape(self.clear.shape)


def sweep(
    rows: Any,
    costs: Costs,
    prices: np.ndarray,
    widths: np.ndarray | float,
    *,
    sums: str | None = None,
    thin: bool = False,
    title: str = "sweep",
) -> Swept:
    """Sort rows into clear ones and the band.

    Parameters
    ----------
    rows : MemoryRows or ChunkedRows
    costs : object
        ``costs.write(block, out)`` writes the costs of a block's rows in the clusters.
    prices : ndarray of shape (n_clusters, n_groups)
        Added to the costs of a group's rows.
    widths : ndarray of shape (n_groups,)
    sums : {None, "clear", "all"}
        Whether to sum the clear rows of each cluster, or all rows at their cheapest cluster.
    thin : bool
        Whether a band of more than `most_entries` candidates of rows in chunks is thinned.
    title : str
        Names the pass where passes are reported.

    Returns
    -------
    swept : Swept
    """
    task = SweepTask(costs, prices, np.zeros(rows.n_groups) + widths, sums)
    if not isinstance(rows, ChunkedRows):
        return task(rows)
    clear, cost, numbers, band, chunks, summed, thinned = rows.each(
        title, _OfChunk(task), combine=partial(_joined, most_entries(prices) if thin else np.inf)
    )
    return Swept(
        None, clear, cost, numbers, Band(*band), chunks, prices, task.widths, summed, thinned
    )


@dataclass(frozen=True)
class _OfChunk:
    """A sweep of a chunk's distinct rows, whose labels stay there."""

    task: "SweepTask"

    def __call__(self, chunk: Any) -> Swept:
        return replace(self.task.of_chunk(chunk), labels=None)


@dataclass(frozen=True)
class SweepTask:
    """A sweep that can be sent to where the rows are; attributes as in `sweep`."""

    costs: Costs
    prices: np.ndarray
    widths: np.ndarray
    sums: str | None = None

    def of_chunk(self, chunk: Any) -> Swept:
        """Of a chunk's distinct rows; costs that take long are kept there."""
        if not self.costs.takes_long:
            return self(chunk.distinct)
        return replace(self, costs=KnownCosts(self.costs.n_clusters))(chunk.with_costs(self.costs))

    def __call__(self, rows: Any) -> Swept:
        n_clusters = len(self.prices)
        labels = np.empty(rows.n_rows, dtype=np.int32)
        by_group = np.ascontiguousarray(self.prices.T)
        n_rows = max(16, COSTS_AT_A_TIME // max(n_clusters, rows.numbers_per_row))

        def run(block: Any) -> tuple[list, list]:
            found: list = []
            clear, cost = np.zeros(self.prices.shape), 0.0
            own = labels[block.start : block.stop]
            table = np.empty((min(n_rows, len(own)), n_clusters))
            for part in block.parts(n_rows):
                labelled = own[part.start - block.start :]
                own_costs = table[: part.n_rows]
                cost += self._classify(part, own_costs, by_group, labelled, clear, found)
            tables = [clear, np.array([cost])]
            if self.sums is not None:
                if self.sums == "clear":
                    own = own.copy()
                    for chosen, *_ in found:
                        own[chosen - block.start] = NOT_CLEAR
                tables.append(label_sums(block.X, block.weights, own, n_clusters)[0])
            return tables, found

        total: list = []
        parts: list = []
        for tables, found in rows.sweep(run):
            parts += found
            total = total or [np.zeros(table.shape) for table in tables]
            for accumulated, table in zip(total, tables, strict=True):
                accumulated += table
        chosen, counts, clusters, kept = (np.concatenate(each) for each in zip(*parts, strict=True))
        first = np.concatenate([[0], np.cumsum(counts)])
        band = Band(first, clusters, kept, rows.group_codes[chosen], rows.weights[chosen])
        clear, cost, *sums = total
        edges = np.array([0, len(chosen)])
        return Swept(
            labels, clear, float(cost[0]), chosen, band, edges, self.prices, self.widths, *sums
        )

    def _classify(
        self,
        part: Block,
        table: np.ndarray,
        by_group: np.ndarray,
        labels: np.ndarray,
        clear: np.ndarray,
        found: list,
    ) -> float:
        """Sort some rows; returns the cost of the clear ones."""
        self.costs.write(part, table)
        labels, counts = labels[: len(table)], np.empty(len(table), dtype=np.int64)
        clusters, kept = np.empty(table.size, dtype=np.int32), np.empty(table.size)
        cost = kernels.classify(
            table, part.group_codes, part.weights, by_group, self.widths, labels, counts, clear,
            clusters, kept,
        )  # fmt: skip
        n_entries, chosen = int(counts.sum()), np.flatnonzero(counts)
        clusters, kept = clusters[:n_entries].copy(), kept[:n_entries].copy()
        found.append((chosen + part.start, counts[chosen], clusters, kept))
        return cost


def most_entries(prices: np.ndarray) -> int:
    """Candidates in a band that is not thinned."""
    return max(MOST_ENTRIES, ENTRIES_PER_CELL * prices.size)


def _joined(most: float, parts: Iterable[Swept]) -> tuple:
    """What all chunks found together, in plain arrays: one band of all bands.

    A band that becomes too large is thinned: every second row of the group with most of it goes,
    wherever it is stored, so that small groups keep theirs.
    """
    kept: list[Swept] = []
    total: list = []
    steps: Any = None
    entries_of_groups: Any = 0
    for part in parts:
        own = [part.clear, part.clear_cost, 0.0 if part.sums is None else part.sums]
        if most < np.inf:  # what the band weighs and costs, should it be thinned
            own += part.band_totals()
        total = [a + b for a, b in zip(total, own, strict=True)] if total else own
        if steps is None:
            steps = np.ones(len(part.widths), dtype=np.int64)
        kept.append(part.thin(steps) if steps.max() > 1 else part)
        entries_of_groups = entries_of_groups + _entries_of_groups(kept[-1])
        while entries_of_groups.sum() > most and any(len(part.rows) > 1 for part in kept):
            halved = np.ones_like(steps)
            halved[entries_of_groups.argmax()] = 2
            steps *= halved
            n_entries = entries_of_groups.sum()
            kept = [part.thin(halved) for part in kept]
            entries_of_groups = sum(map(_entries_of_groups, kept))
            if n_entries == entries_of_groups.sum():  # one row of each chunk is left
                break
    clear, clear_cost, sums, *of_band = total
    band = joined_bands([part.band for part in kept])
    edges = np.cumsum([0, *(len(part.rows) for part in kept)])
    is_thinned = bool(steps.max() > 1)
    if is_thinned:
        thinned = replace(kept[0], clear=clear, clear_cost=clear_cost, band=band)
        mass, cost = of_band
        band, clear, clear_cost = _weighted_as(mass, cost, thinned)
    numbers = np.concatenate([part.rows for part in kept])
    sums = None if kept[0].sums is None else sums
    return clear, clear_cost, numbers, list(band), edges, sums, is_thinned


def joined_bands(bands: list[Band]) -> Band:
    """The rows of all bands."""
    counts = np.concatenate([np.diff(band.first) for band in bands])
    first = np.concatenate([[0], np.cumsum(counts)])
    return Band(first, *(np.concatenate(each) for each in list(zip(*bands, strict=True))[1:]))


def _entries_of_groups(swept: Swept) -> np.ndarray:
    counts = np.diff(swept.band.first)
    return np.bincount(swept.band.group_codes, counts, minlength=len(swept.widths))


def _weighted_as(mass: np.ndarray, cost: float, swept: Swept) -> tuple[Band, np.ndarray, float]:
    """A thinned band with the weight of all rows, cell by cell; the clear rows' totals."""
    band, clear = swept.band, swept.clear
    entries, _ = swept.cheapest(swept.prices)
    found = swept.band_totals()[0]
    ratio = np.divide(mass, found, out=np.zeros(found.shape), where=found > 0)
    band = band._replace(weights=band.weights * ratio[band.clusters[entries], band.group_codes])
    # Cells without any row, and what the others cost more or less than all.
    clear = clear + np.where(found > 0, 0.0, mass)
    return band, clear, swept.clear_cost + cost - float(band.weights @ band.costs[entries])


def first_least(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Place of the first of the least values in each stretch ``first[i]:first[i + 1]``."""
    if len(first) == 1:
        return np.empty(0, dtype=np.int64)
    least = np.minimum.reduceat(values, first[:-1])
    is_least = np.flatnonzero(values == np.repeat(least, np.diff(first)))
    return is_least[np.searchsorted(is_least, first[:-1])]
