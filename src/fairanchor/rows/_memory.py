"""Rows in memory, swept block by block by a pool of threads; equal rows can be merged."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
from joblib import effective_n_jobs, parallel_config
from scipy.sparse import issparse

from fairanchor._kernels import _distinct as kernels
from fairanchor._utils._cached import cached_property
from fairanchor._utils._sampling import split_by_code
from fairanchor._utils._shared_state import one_blas_thread
from fairanchor.rows._tables import (
    ChosenRows,
    UnitTable,
    bytes_of,
    numbers_per_row,
    rows_at,
    rows_between,
)

BLOCK_ROWS = 8192
# Blocks of sparse rows are larger by the number of features over this, but not by more: sums over a
# block are dense.
FEATURES_PER_BLOCK, LARGEST_BLOCK = 1024, 16
# Seconds of work that are not worth threads.
SHORT_WORK = 1e-3
# Rows from which the share of distinct ones is estimated.
ESTIMATE_ROWS = 2**15
# More distinct rows than this share of all save less than finding them takes.
LARGEST_SHARE = 0.85
PART_BITS = 6

#: Labels of the copies of a row that is split: row to pairs of (cluster, number of copies).
Split = dict[int, list[tuple[int, float]]]


@dataclass(frozen=True)
class Block:
    """Consecutive rows: ``X[start:stop]``, an array or sparse, with group codes and weights."""

    X: Any
    group_codes: np.ndarray
    weights: np.ndarray
    start: int
    stop: int

    @property
    def n_rows(self) -> int:
        return self.stop - self.start

    def parts(self, n_rows: int) -> Iterator["Block"]:
        """The same rows, ``n_rows`` at a time."""
        for start in range(0, self.n_rows, n_rows):
            stop = min(start + n_rows, self.n_rows)
            codes, weights = self.group_codes[start:stop], self.weights[start:stop]
            X = rows_between(self.X, start, stop)
            yield Block(X, codes, weights, self.start + start, self.start + stop)


class MemoryRows:
    """A table in memory with a group code and a weight for each row.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features), C-contiguous float64 or float32
        Or a `UnitTable` or `ChosenRows` of one, or a sparse array in CSR format.
    group_codes : ndarray of shape (n_rows,), dtype int64
    n_groups : int
    weights : ndarray of shape (n_rows,), or None
        ``None`` means that every row counts once.
    copies : bool
        Whether the weights are numbers of equal rows, which may get different labels.
    n_jobs : int or None
        Threads of a sweep, as in joblib. The result does not depend on it.
    """

    def __init__(
        self,
        X: Any,
        group_codes: np.ndarray,
        n_groups: int,
        *,
        weights: np.ndarray | None = None,
        copies: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.X = X
        self.group_codes = group_codes
        self.is_weighted = weights is not None and not copies
        self.has_copies = weights is not None and copies
        self.weights = np.ones(X.shape[0]) if weights is None else weights
        self.n_groups = n_groups
        self.n_jobs = n_jobs
        self.n_rows, self.n_features = X.shape
        self.block_rows = BLOCK_ROWS
        if self.is_sparse:
            self.block_rows *= min(max(self.n_features // FEATURES_PER_BLOCK, 1), LARGEST_BLOCK)
        self.group_sizes = np.bincount(group_codes, weights=self.weights, minlength=n_groups)

    @property
    def is_sparse(self) -> bool:
        return issparse(self.X)

    @property
    def numbers_per_row(self) -> int:
        """Numbers that are read for a row."""
        return numbers_per_row(self.X)

    @property
    def total(self) -> float:
        """Weight of all rows: their number, where they have no weights."""
        return self.group_sizes.sum()

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        arrays = (self.group_codes, self.weights, self.group_sizes)
        return bytes_of(self.X) + sum(array.nbytes for array in arrays)

    @cached_property
    def members(self) -> list[np.ndarray]:
        """Increasing row numbers of each group."""
        return split_by_code(self.group_codes, self.n_groups)

    def map(self, kernel: Callable, outputs: Sequence[np.ndarray]) -> None:
        """Call ``kernel(block, *views)``, where the views are each output's rows of the block."""

        def run(block: Block) -> None:
            kernel(block, *[output[block.start : block.stop] for output in outputs])

        for _ in self.sweep(run):
            pass

    def map_to_table(self, write: Callable, n_columns: int) -> np.ndarray:
        """Table that ``write(block, out)`` fills block by block."""
        table = np.empty((self.n_rows, n_columns))
        self.map(write, [table])
        return table

    def sum(self, kernel: Callable, title: str | None = None) -> list[np.ndarray]:
        """Sum the tuples of small arrays that ``kernel(block)`` returns, in block order.

        The title names the pass where passes are reported.
        """
        return added(self.sweep(kernel))

    def largest(self, kernel: Callable, title: str | None = None) -> float:
        """Largest of the numbers that ``kernel(block)`` returns."""
        return max(self.sweep(kernel))

    def merged(self) -> "MemoryRows":
        """The same rows with equal ones merged, or these if few are equal."""
        return distinct_rows(self)

    def blocks(self) -> Iterator[Block]:
        """All blocks in row order."""
        return map(self._block, range(0, self.n_rows, self.block_rows))

    def subset(self, indices: np.ndarray, *, threaded: bool = True) -> "MemoryRows":
        """The rows at ``indices``, as rows of their own, swept by as many threads or by one."""
        has_weights = self.is_weighted or self.has_copies
        return MemoryRows(
            rows_at(self.X, indices),
            self.group_codes[indices],
            self.n_groups,
            weights=self.weights[indices] if has_weights else None,
            copies=self.has_copies,
            n_jobs=self.n_jobs if threaded else 1,
        )

    def take(self, indices: np.ndarray, title: str | None = None) -> "MemoryRows":
        """`subset`, under the name that rows in chunks have for it."""
        return self.subset(indices)

    def spread(self, labels: np.ndarray, split: Split) -> np.ndarray:
        """Labels of the table's rows from those of these rows, which are the same."""
        return labels

    def with_features(self, X: np.ndarray) -> "MemoryRows":
        """The same rows with other features; weights are shared."""
        weights = self.weights if self.is_weighted or self.has_copies else None
        rows = MemoryRows(
            X, self.group_codes, self.n_groups, weights=weights, copies=self.has_copies,
            n_jobs=self.n_jobs,
        )  # fmt: skip
        rows.weights = self.weights
        return rows

    def weighted(self, weights: np.ndarray) -> "MemoryRows":
        """The same rows with other weights."""
        return MemoryRows(
            self.X, self.group_codes, self.n_groups, weights=weights, n_jobs=self.n_jobs
        )

    def sweep(self, function: Callable) -> Iterator[Any]:
        """Yield ``function(block)`` of all blocks, in row order."""
        starts = range(0, self.n_rows, self.block_rows)
        return map_in_threads(lambda start: function(self._block(start)), starts, self.n_jobs)

    def _block(self, start: int) -> Block:
        stop = min(start + self.block_rows, self.n_rows)
        span = slice(start, stop)
        X = rows_between(self.X, start, stop)
        return Block(X, self.group_codes[span], self.weights[span], start, stop)


def added(results: Iterable[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """Sums of tuples of small arrays, in their order."""
    results = iter(results)
    total = [np.array(table, dtype=np.float64) for table in next(results)]
    for tables in results:
        for accumulated, table in zip(total, tables, strict=True):
            accumulated += table
    return total


def map_in_threads(function: Callable, items: Sequence, n_jobs: int | None) -> Iterator[Any]:
    """Yield ``function(item)`` for every item, in their order, computed by ``n_jobs`` threads.

    The function must not call this one: it would wait for its own thread.
    """
    with parallel_config(backend="threading"):  # for processes it warns in a worker of a cluster
        n_threads = min(effective_n_jobs(n_jobs), len(items))
    # One BLAS thread: the items are the parallelism, and a product's bits must not
    # depend on how many threads share it.
    with one_blas_thread():
        rest = iter(items)
        for item in rest:
            started = perf_counter()
            result = function(item)
            # Other threads take a while to wake up, so short work is done without them.
            is_short = (perf_counter() - started) * (len(items) - 1) < SHORT_WORK
            yield result
            if n_threads > 1 and not is_short:
                break
        else:
            return
        pool, pending = _pool(n_threads), deque[Future]()
        try:
            for item in rest:
                pending.append(pool.submit(function, item))
                if len(pending) > 4 * n_threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:  # after an error, nothing goes on writing
            wait([future for future in pending if not future.cancel()])


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    # A fit has hundreds of sweeps, and threads take longer to start than many of them last.
    return ThreadPoolExecutor(n_threads, "fairanchor")


if hasattr(os, "register_at_fork"):  # a forked process has no threads but its own
    os.register_at_fork(after_in_child=_pool.cache_clear)


# Tables of people are full of equal rows: a program that works row by row needs one of them only,
# with their number as weight.


class DistinctRows(MemoryRows):
    """The distinct rows of a table, weighing as much as their copies.

    Attributes
    ----------
    first : ndarray of shape (n_rows,)
        Where in the table each distinct row occurs first; increasing.
    place : ndarray of shape (n_table_rows,), dtype int32
        The distinct row that each row of the table equals.
    """

    def __init__(self, rows: MemoryRows, first: np.ndarray, place: np.ndarray) -> None:
        super().__init__(
            ChosenRows(rows.X, first),
            rows.group_codes[first],
            rows.n_groups,
            weights=np.bincount(place, minlength=len(first)).astype(np.float64),
            copies=True,
            n_jobs=rows.n_jobs,
        )
        self.first = first
        self.place = place

    @property
    def nbytes(self) -> int:
        """Bytes of where the distinct rows are, and of their groups and weights."""
        return super().nbytes + self.place.nbytes

    def spread(self, labels: np.ndarray, split: Split) -> np.ndarray:
        """Labels of the table's rows; the copies of a split row take turns in row order."""
        spread = labels[self.place]
        if not split:
            return spread
        copies = np.flatnonzero(np.isin(self.place, list(split)))
        copies = copies[np.argsort(self.place[copies], kind="stable")]
        turns: list[int] = []
        for row in sorted(split):
            for cluster, number in sorted(split[row]):
                turns += [cluster] * round(number)
        spread[copies] = turns
        return spread


def distinct_rows(rows: MemoryRows) -> MemoryRows:
    """The distinct rows of a table as `DistinctRows`, or the table itself if few rows are equal.

    Rows are equal if their group and all features are, before they are made of unit length. Rows
    with weights are left alone: two of them cannot share one label's rounding. So are sparse rows.
    """
    if rows.is_weighted or rows.is_sparse or rows.n_rows < 2:
        return rows
    if isinstance(rows.X, UnitTable):
        found = distinct_rows(rows.with_features(rows.X.X))
        if not isinstance(found, DistinctRows):
            return rows
        return DistinctRows(rows, found.first, found.place)
    hashes = np.empty(rows.n_rows, dtype=np.uint64)

    def write(block: Block, out: np.ndarray) -> None:
        bits = np.asarray(block.X, dtype=np.float64).view(np.uint64)
        kernels.hash_rows(bits, block.group_codes, out)

    rows.map(write, [hashes])
    if _distinct_share(hashes) > LARGEST_SHARE:
        return rows
    first = _first_equal(rows, hashes)
    is_first = first == np.arange(rows.n_rows)
    if np.count_nonzero(is_first) > LARGEST_SHARE * rows.n_rows:
        return rows
    number = np.cumsum(is_first, dtype=np.int32)
    number -= 1
    return DistinctRows(rows, np.flatnonzero(is_first), number[first])


def _distinct_share(hashes: np.ndarray) -> float:
    """Share of distinct rows, from those whose hash is small: copies are all in or all out."""
    share = min(1.0, ESTIMATE_ROWS / len(hashes))
    sample = hashes[hashes <= np.uint64(share * (2**64 - 1025))]
    return len(np.unique(sample)) / len(sample) if len(sample) else 1.0


def _first_equal(rows: MemoryRows, hashes: np.ndarray) -> np.ndarray:
    """For every row an earlier row that equals it, or itself; the first one, but for collisions."""
    parts = split_by_code((hashes >> np.uint64(64 - PART_BITS)).astype(np.int64), 2**PART_BITS)
    first = np.empty(rows.n_rows, dtype=np.int64)

    def find(members: np.ndarray) -> None:
        kernels.first_equal_hashes(hashes, members, first)

    for _ in map_in_threads(find, parts, rows.n_jobs):
        pass
    # A row whose first row is changed here is first for no other, so threads do not conflict.
    rows.map(
        lambda block: kernels.confirm(rows.X, rows.group_codes, block.start, block.stop, first), []
    )
    return first
