"""Rows in chunks that need not be in one place.

A *chunk* is a run of consecutive rows by global row number, wherever they are stored. Its size is
part of the contract: equal rows are merged within a chunk, blocks are cut within a chunk, and sums
are taken over chunks in their order, so that every engine (memory, files, a cluster) computes the
same bits.

The driver sees only the rows it asks for: `each` maps a function over the chunks and returns its
small results, `sum` adds small tables.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from fairanchor._utils._cached import cached_property
from fairanchor.rows._memory import MemoryRows, added
from fairanchor.rows._tables import part_of, rows_at, stacked

#: Rows of a chunk, unless an estimator's ``_chunk_rows`` differs.
CHUNK_ROWS = 2**20
#: One that a fit is made on, and one that shows what it has missed.
N_SAMPLES = 2


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows in memory.

    Attributes
    ----------
    number : int
        Of the chunk, from zero.
    start : int
        Global number of its first row.
    rows : MemoryRows
    n_clusters : int
        Number of costs per row that are kept.
    """

    number: int
    start: int
    rows: MemoryRows
    n_clusters: int = 0

    def __getstate__(self) -> dict:
        names = ("number", "start", "rows", "n_clusters")
        return {name: getattr(self, name) for name in names}

    def __sizeof__(self) -> int:
        # A cluster asks for the memory of a chunk once, before there are any costs.
        distinct = self.__dict__.get("distinct", self.rows)
        merged = 0 if distinct is self.rows else distinct.nbytes
        costs = 8 * distinct.n_rows * self.n_clusters + 8 * self.rows.n_groups
        return self.rows.nbytes + merged + costs

    @cached_property
    def distinct(self) -> MemoryRows:
        """The same rows with equal ones merged."""
        return self.rows.merged()

    @cached_property
    def _kept_costs(self) -> dict:
        return {}

    def with_costs(self, costs: Any) -> MemoryRows:
        """The distinct rows with their costs as features; the last ones are kept."""
        if costs.key not in self._kept_costs:
            self._kept_costs.clear()
            self._kept_costs[costs.key] = self.distinct.with_features(
                self.distinct.map_to_table(costs.write, costs.n_clusters)
            )
        return self._kept_costs[costs.key]


@dataclass(frozen=True)
class DrawnRows:
    """Some rows of a table in chunks, and their global row numbers."""

    numbers: np.ndarray
    rows: MemoryRows

    def smallest(self, wanted: np.ndarray, *, second: bool = False) -> "DrawnRows":
        """Of each group the rows with the smallest hashes, in row order.

        A ``second`` sample has the next ones, as far as there are any, and some of the first else.
        """
        chosen = []
        for members, n_rows in zip(self.rows.members, wanted.tolist(), strict=True):
            hashes = hashes_of(self.numbers[members])
            own = members[smallest_hashes(hashes, n_rows)]
            if second and len(members) > n_rows:
                own = members[np.argsort(hashes)[min(n_rows, len(members) - n_rows) :][:n_rows]]
            chosen.append(own[np.argsort(self.numbers[own])])
        places = np.concatenate(chosen)
        return DrawnRows(self.numbers[places], self.rows.subset(places))


def hashes_of(numbers: np.ndarray) -> np.ndarray:
    """Well-spread bits of row numbers (the last steps of the generator SplitMix64)."""
    hashes = numbers.astype(np.uint64)
    hashes += np.uint64(1)
    hashes *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hashes ^= hashes >> np.uint64(shift)
        hashes *= np.uint64(factor)
    hashes ^= hashes >> np.uint64(31)
    return hashes


def smallest_hashes(hashes: np.ndarray, n_rows: int) -> np.ndarray:
    """Places of the smallest of all hashes."""
    if len(hashes) <= n_rows:
        return np.arange(len(hashes))
    return np.argpartition(hashes, n_rows)[:n_rows]


class ChunkedRows:
    """Rows in chunks; a subclass knows where they are.

    Parameters
    ----------
    n_features : int
    group_sizes_of_chunks : ndarray of shape (n_chunks, n_groups), dtype int64
        Number of rows of each group in each chunk.
    chunk_rows : int
        Rows of every chunk but the last.
    n_jobs : int or None
        Threads that work on rows in this process.
    """

    is_weighted = False
    has_copies = False
    #: Name and number of rows of each file or partition, in row order.
    parts: Sequence[tuple[str, int]] = ()
    #: Keeps small results of passes, so that a stopped run can be resumed.
    checkpoint: Any = None
    #: Called with a pass's title, the number of finished chunks, and of all.
    progress: Callable[[str, int, int], Any] | None = None
    #: Passes over all rows so far, from the one that the sample is drawn in.
    n_passes: int = 0
    #: Rows that were drawn, if only when the groups were counted.
    drawn: DrawnRows | None = None

    def __init__(
        self,
        n_features: int,
        group_sizes_of_chunks: np.ndarray,
        chunk_rows: int,
        n_jobs: int | None = None,
    ) -> None:
        self.n_features = n_features
        self.group_sizes_of_chunks = group_sizes_of_chunks
        self.chunk_rows = chunk_rows
        self.n_jobs = n_jobs
        self.n_chunks, self.n_groups = group_sizes_of_chunks.shape
        self.group_sizes = group_sizes_of_chunks.sum(axis=0).astype(np.float64)
        self.n_rows = int(group_sizes_of_chunks.sum())

    @property
    def total(self) -> float:
        """Number of all rows."""
        return self.group_sizes.sum()

    def merged(self) -> "ChunkedRows":
        """These rows: equal ones are merged within every chunk anyway."""
        return self

    def each(
        self,
        title: str,
        function: Callable,
        arguments: Sequence | None = None,
        *,
        combine: Callable[[Iterable], Any] = list,
    ) -> Any:
        """Results of ``function(chunk)``, or ``function(chunk, argument)``, in chunk order.

        Parameters
        ----------
        title : str
            Purpose of the pass, in a word or two.
        function : callable
            Can be sent to where the rows are: refers to small things only, changes none.
        arguments : sequence, default=None
            One for every chunk.
        combine : callable
            Combines the results, one after the other; a checkpoint keeps what it returns.

        Returns
        -------
        results : list, or what ``combine`` returns
        """
        self.n_passes += 1
        if self.checkpoint is not None:
            known = self.checkpoint.recall(title)
            if known is not None:
                return known
        calls = [function] * self.n_chunks
        if arguments is not None:
            calls = [partial(_call, function, argument) for argument in arguments]
        combined = combine(self.run(title, calls))
        if self.checkpoint is not None:
            self.checkpoint.record(title, None if combine is list else combined)
        return combined

    def run(self, title: str, calls: Sequence[Callable]) -> Iterator[Any]:
        """Yield ``calls[k](chunk k)`` in chunk order, and report progress."""
        for number, result in enumerate(self._run(title, calls)):
            if self.progress is not None:
                self.progress(title, number + 1, self.n_chunks)
            yield result

    def sum(self, kernel: Callable, title: str = "sums") -> list[np.ndarray]:
        """Sum the tuples of small arrays that ``kernel(block)`` returns for the distinct rows."""
        return self.each(title, partial(_sum_of_chunk, kernel), combine=added)

    def largest(self, kernel: Callable, title: str = "largest") -> float:
        """Largest of the numbers that ``kernel(block)`` returns for the distinct rows."""
        return self.each(title, partial(_largest_of_chunk, kernel), combine=max)

    def draw(self, wanted: np.ndarray, *, second: bool = False) -> DrawnRows:
        """So many rows of each group (all, if it has fewer), group by group.

        They are those whose numbers have the smallest hashes, wherever they are stored, or those of
        a ``second`` sample, as in `DrawnRows.smallest`.
        """
        wanted = np.minimum(wanted, self.group_sizes).astype(np.int64)
        both = np.minimum(N_SAMPLES * wanted, self.group_sizes)
        drawn, candidates = self.drawn, both + 8.0 * np.sqrt(both) + 8.0
        while drawn is None or (drawn.rows.group_sizes < both).any():
            shares = np.minimum(candidates / self.group_sizes, 1.0)
            self.n_passes += 1
            # Not in checkpoints: whether this pass is needed depends on where the rows are.
            call = partial(_rows_with_small_hashes, shares)
            parts = list(self.run("sample", [call] * self.n_chunks))
            numbers, X, codes = zip(*parts, strict=True)
            rows = MemoryRows(
                _in_doubles(stacked(X)), np.concatenate(codes), self.n_groups, n_jobs=self.n_jobs
            )
            drawn, candidates = DrawnRows(np.concatenate(numbers), rows), 2.0 * candidates
        self.drawn = drawn
        return drawn.smallest(wanted, second=second)

    def take(self, indices: np.ndarray, title: str = "rows") -> MemoryRows:
        """The rows with the given global numbers, in this order."""
        order = np.argsort(indices, kind="stable")
        starts = np.arange(self.n_chunks + 1, dtype=np.int64) * self.chunk_rows
        edges = np.searchsorted(indices[order], starts)
        arguments = [
            indices[order[a:b]] - start
            for start, a, b in zip(starts[:-1], edges[:-1], edges[1:], strict=True)
        ]
        parts = self.each(title, _rows_at, arguments)
        X = np.empty((len(indices), self.n_features))
        codes = np.empty(len(indices), dtype=np.int64)
        X[order] = np.concatenate([X for X, _ in parts])
        codes[order] = np.concatenate([codes for _, codes in parts])
        return MemoryRows(X, codes, self.n_groups, n_jobs=self.n_jobs)

    def _run(self, title: str, calls: Sequence[Callable]) -> Iterator[Any]:
        raise NotImplementedError


class MemoryChunks(ChunkedRows):
    """A table in memory without weights, cut into chunks."""

    def __init__(self, rows: MemoryRows, chunk_rows: int) -> None:
        self._chunks = []
        for number, start in enumerate(range(0, rows.n_rows, chunk_rows)):
            span = slice(start, start + chunk_rows)
            X = part_of(rows.X, start, min(start + chunk_rows, rows.n_rows))
            part = MemoryRows(X, rows.group_codes[span], rows.n_groups, n_jobs=rows.n_jobs)
            self._chunks.append(Chunk(number, start, part))
        sizes = [chunk.rows.group_sizes.astype(np.int64) for chunk in self._chunks]
        super().__init__(rows.n_features, np.array(sizes), chunk_rows, rows.n_jobs)

    def _run(self, title: str, calls: Sequence[Callable]) -> Iterator[Any]:
        for call, chunk in zip(calls, self._chunks, strict=True):
            yield call(chunk)


class StreamedRows(ChunkedRows):
    """Chunks that ``read()`` yields in every pass: memory holds two of them."""

    n_passes = 1  # the one that counted the groups and drew the sample

    def __init__(self, read: Callable[[], Iterator[Chunk]], *parameters: Any) -> None:
        super().__init__(*parameters)
        self._read = read
        self._without_copies: set[int] = set()

    def _run(self, title: str, calls: Sequence[Callable]) -> Iterator[Any]:
        for chunk, call in zip(read_ahead(self._read()), calls, strict=True):
            if chunk.number in self._without_copies:  # no need to look again
                chunk.__dict__["distinct"] = chunk.rows
            yield call(chunk)
            if chunk.__dict__.get("distinct") is chunk.rows:
                self._without_copies.add(chunk.number)


def read_ahead(items: Iterator[Any]) -> Iterator[Any]:
    """Yield the items; the next one is made while one is worked on."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, items, None)
        while (current := following.result()) is not None:
            following = pool.submit(next, items, None)
            yield current
            del current


def _call(function: Callable, argument: Any, chunk: Chunk) -> Any:
    return function(chunk, argument)


def _sum_of_chunk(kernel: Callable, chunk: Chunk) -> list[np.ndarray]:
    return chunk.distinct.sum(kernel)


def _largest_of_chunk(kernel: Callable, chunk: Chunk) -> float:
    return chunk.distinct.largest(kernel)


def _rows_with_small_hashes(shares: np.ndarray, chunk: Chunk) -> tuple:
    """Numbers, features and groups of about these shares of the groups' rows."""
    codes, numbers = chunk.rows.group_codes, chunk.start + np.arange(chunk.rows.n_rows)
    # Not 2**64, which is no uint64: 2048 is the distance of doubles below it.
    limits = np.where(shares < 1.0, shares, 1.0) * (2.0**64 - 2048)
    limits = np.where(shares < 1.0, limits.astype(np.uint64), np.uint64(2**64 - 1))
    places = np.flatnonzero(hashes_of(numbers) <= limits[codes])
    return numbers[places], rows_at(chunk.rows.X, places), codes[places]


def _in_doubles(X: Any) -> Any:
    return X if issparse(X) else np.asarray(X, dtype=np.float64)


def _rows_at(chunk: Chunk, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return chunk.rows.X[places], chunk.rows.group_codes[places]
