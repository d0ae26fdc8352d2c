"""Rows in memory, swept block by block by a pool of threads."""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter

import numpy as np
from joblib import effective_n_jobs, parallel_config

from fairanchor._utils._sampling import split_by_code
from fairanchor._utils._shared_state import one_blas_thread

BLOCK_ROWS = 8192
# Seconds of work that are not worth threads.
SHORT_WORK = 1e-3


@dataclass(frozen=True)
class Block:
    """Consecutive rows: ``X[start:stop]`` with their group codes and weights."""

    X: np.ndarray
    group_codes: np.ndarray
    weights: np.ndarray
    start: int
    stop: int

    def parts(self, n_rows):
        """The same rows, so many at a time."""
        for start in range(0, len(self.X), n_rows):
            yield self.part(start, min(start + n_rows, len(self.X)))

    def part(self, start, stop):
        """Some of the rows, counted from the first."""
        own = slice(start, stop)
        return Block(
            self.X[own], self.group_codes[own], self.weights[own], self.start + start,
            self.start + stop,
        )  # fmt: skip


class MemoryRows:
    """A table in memory with a group code and a weight for each row.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features), C-contiguous float64 or float32
    group_codes : ndarray of shape (n_rows,), dtype int64
    n_groups : int
    weights : ndarray of shape (n_rows,), or None
        ``None`` means that every row counts once.
    copies : bool
        Whether the weights are numbers of equal rows, which may get different labels.
    n_jobs : int or None
        Threads of a sweep, as in joblib. The result does not depend on it.
    """

    def __init__(self, X, group_codes, n_groups, *, weights=None, copies=False, n_jobs=None):
        self.X = X
        self.group_codes = group_codes
        self.is_weighted = weights is not None and not copies
        self.has_copies = weights is not None and copies
        self.weights = np.ones(len(X)) if weights is None else weights
        self.n_groups = n_groups
        self.n_jobs = n_jobs
        self.n_rows, self.n_features = X.shape
        self.block_rows = BLOCK_ROWS
        self.group_sizes = np.bincount(group_codes, weights=self.weights, minlength=n_groups)

    @property
    def total(self):
        """Weight of all rows: their number, where they have no weights."""
        return self.group_sizes.sum()

    @property
    def nbytes(self):
        """Bytes of the table."""
        return self.X.nbytes + self.group_codes.nbytes + self.weights.nbytes

    def map(self, kernel, outputs):
        """Call ``kernel(block, *views)``, where the views are each output's rows of the block."""

        def run(block):
            kernel(block, *[output[block.start : block.stop] for output in outputs])

        for _ in self.sweep(run):
            pass

    def map_to_table(self, write, n_columns):
        """Table that ``write(block, out)`` fills block by block."""
        table = np.empty((self.n_rows, n_columns))

        self.map(write, [table])
        return table

    def sum(self, kernel, title=None):
        """Sum the tuples of small arrays that ``kernel(block)`` returns, in block order.

        The title names the pass where passes are reported.
        """
        total = None
        for tables in self.sweep(kernel):
            if total is None:
                total = [np.array(table, dtype=np.float64) for table in tables]
            else:
                for accumulated, table in zip(total, tables, strict=True):
                    accumulated += table
        return total

    @cached_property
    def members(self):
        """The rows of each group, increasing: a list of index arrays."""
        return split_by_code(self.group_codes, self.n_groups)

    def largest(self, kernel, title=None):
        """Largest of the numbers that ``kernel(block)`` returns."""
        return max(self.sweep(kernel))

    def merged(self):
        """The same rows with equal ones merged, or these if few are equal."""
        from fairanchor.rows._distinct import distinct_rows  # which imports this module

        return distinct_rows(self)

    def in_chunks(self):
        """The same rows as `MemoryChunks`, or these if they fit in one chunk."""
        from fairanchor.rows import _chunks  # which imports this module

        if self.n_rows <= _chunks.CHUNK_ROWS:
            return self
        return _chunks.MemoryChunks(self, _chunks.CHUNK_ROWS)

    def blocks(self):
        """All blocks in row order."""
        return map(self._block, range(0, self.n_rows, self.block_rows))

    def subset(self, indices, *, threaded=True):
        """The rows at ``indices``, as rows of their own, swept by as many threads or by one."""
        has_weights = self.is_weighted or self.has_copies
        return MemoryRows(
            np.ascontiguousarray(self.X[indices]),
            self.group_codes[indices],
            self.n_groups,
            weights=self.weights[indices] if has_weights else None,
            copies=self.has_copies,
            n_jobs=self.n_jobs if threaded else 1,
        )

    def take(self, indices, title=None):
        """`subset`, under the name that rows in chunks have for it."""
        return self.subset(indices)

    def spread(self, labels, split):
        """Labels of the table's rows from those of these rows, which are the same."""
        return labels

    def with_features(self, X):
        """The same rows with other features; weights are shared."""
        has_weights = self.is_weighted or self.has_copies
        rows = MemoryRows(
            X, self.group_codes, self.n_groups, weights=self.weights if has_weights else None,
            copies=self.has_copies, n_jobs=self.n_jobs,
        )  # fmt: skip
        rows.weights = self.weights
        return rows

    def weighted(self, weights):
        """The same rows with other weights."""
        return MemoryRows(
            self.X, self.group_codes, self.n_groups, weights=weights, n_jobs=self.n_jobs
        )

    def _block(self, start):
        stop = min(start + self.block_rows, self.n_rows)
        span = slice(start, stop)
        return Block(self.X[span], self.group_codes[span], self.weights[span], start, stop)

    def sweep(self, function):
        """Yield ``function(block)`` of all blocks, in row order."""
        starts = range(0, self.n_rows, self.block_rows)
        return map_in_threads(lambda start: function(self._block(start)), starts, self.n_jobs)


def map_in_threads(function, items, n_jobs):
    """Yield ``function(item)`` for every item, in their order, computed by ``n_jobs`` threads."""
    n_threads = min(_number_of_threads(n_jobs), len(items))
    # One BLAS thread: the items are the parallelism, and a product's bits must not
    # depend on how many threads share it.
    with one_blas_thread():
        rest = iter(items)
        for item in rest:
            started = perf_counter()
            result = function(item)
            # Threads take a while to start, so short work is done without them.
            is_short = (perf_counter() - started) * (len(items) - 1) < SHORT_WORK
            yield result
            if n_threads > 1 and not is_short:
                break
        else:
            return
        with ThreadPoolExecutor(n_threads) as pool:
            pending = deque()
            for item in rest:
                pending.append(pool.submit(function, item))
                if len(pending) > 4 * n_threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()


def _number_of_threads(n_jobs):
    """As in joblib, for threads: for processes it would warn in a worker of a cluster."""
    with parallel_config(backend="threading"):
        return effective_n_jobs(n_jobs)
