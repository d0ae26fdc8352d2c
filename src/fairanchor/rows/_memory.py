"""Rows in memory, swept block by block by a pool of threads."""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

BLOCK_ROWS = 4096


@dataclass(frozen=True)
class Block:
    """Consecutive rows: ``X[start:stop]`` with their group codes and weights."""

    X: np.ndarray
    group_codes: np.ndarray
    weights: np.ndarray
    start: int
    stop: int


class MemoryRows:
    """A table in memory with a group code and a weight for each row.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features), C-contiguous float64
    group_codes : ndarray of shape (n_rows,), dtype int64
    n_groups : int
    weights : ndarray of shape (n_rows,), or None
        ``None`` means that every row counts once.
    n_jobs : int or None
        Threads of a sweep, as in joblib. The result does not depend on it.
    """

    def __init__(self, X, group_codes, n_groups, *, weights=None, n_jobs=None):
        self.X = X
        self.group_codes = group_codes
        self.is_weighted = weights is not None
        self.weights = np.ones(len(X)) if weights is None else weights
        self.n_groups = n_groups
        self.n_jobs = n_jobs
        self.n_rows, self.n_features = X.shape
        self.group_sizes = np.bincount(group_codes, weights=self.weights, minlength=n_groups)

    def map(self, kernel, outputs):
        """Call ``kernel(block, *views)``, where the views are each output's rows of the block."""

        def run(block):
            kernel(block, *[output[block.start : block.stop] for output in outputs])

        for _ in self._sweep(run):
            pass

    def sum(self, kernel):
        """Sum the tuples of small arrays that ``kernel(block)`` returns, in block order."""
        total = None
        for tables in self._sweep(kernel):
            if total is None:
                total = [np.array(table, dtype=np.float64) for table in tables]
            else:
                for accumulated, table in zip(total, tables, strict=True):
                    accumulated += table
        return total

    def blocks(self):
        """All blocks in row order."""
        return map(self._block, range(0, self.n_rows, BLOCK_ROWS))

    def subset(self, indices):
        """The rows at ``indices``, as rows of their own."""
        weights = self.weights[indices] if self.is_weighted else None
        return MemoryRows(
            np.ascontiguousarray(self.X[indices]),
            self.group_codes[indices],
            self.n_groups,
            weights=weights,
            n_jobs=self.n_jobs,
        )

    def _block(self, start):
        stop = min(start + BLOCK_ROWS, self.n_rows)
        span = slice(start, stop)
        return Block(self.X[span], self.group_codes[span], self.weights[span], start, stop)

    def _sweep(self, function):
        starts = range(0, self.n_rows, BLOCK_ROWS)
        n_threads = min(effective_n_jobs(self.n_jobs), len(starts))
        # One BLAS thread: the blocks are the parallelism, and a product's bits must not
        # depend on how many threads share it.
        with _thread_pools().limit(limits=1, user_api="blas"):
            if n_threads <= 1:
                for start in starts:
                    yield function(self._block(start))
                return
            with ThreadPoolExecutor(n_threads) as pool:
                pending = deque()
                for start in starts:
                    pending.append(pool.submit(function, self._block(start)))
                    if len(pending) > 4 * n_threads:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()


@cache
def _thread_pools():
    # Finding the loaded libraries takes milliseconds, more than a sweep over a small table.
    return ThreadpoolController()
