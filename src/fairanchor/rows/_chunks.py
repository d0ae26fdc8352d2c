"""Rows in chunks that need not be in one place, and the two verbs that reach them.

A *chunk* is a run of ``CHUNK_ROWS`` consecutive rows by global row number, wherever they
are stored. Its size is part of the contract: equal rows are merged within a chunk, blocks
are cut within a chunk, and sums are taken over chunks in their order, so that every engine
(memory, files, a cluster) computes the same bits.

The driver never sees a row that it did not ask for: `each` maps a function over the chunks
and returns what little it gives, `sum` adds small tables.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairanchor._utils._sampling import split_by_code
from fairanchor.rows._distinct import distinct_rows
from fairanchor.rows._memory import MemoryRows

CHUNK_ROWS = 2**20
# Results of a pass that a checkpoint keeps.
MOST_KEPT_BYTES = 2**23


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
        For how many costs are kept.
    """

    number: int
    start: int
    rows: MemoryRows
    n_clusters: int = 0

    def __getstate__(self):
        names = ("number", "start", "rows", "n_clusters")
        return {name: getattr(self, name) for name in names}

    def __sizeof__(self):
        # What a cluster knows of its memory. It asks once, before there are any costs.
        distinct = self.__dict__.get("distinct", self.rows)
        merged = 0 if distinct is self.rows else distinct.nbytes
        costs = 8 * distinct.n_rows * self.n_clusters + 8 * self.rows.n_groups
        return self.rows.nbytes + merged + costs

    def complete(self):
        """This chunk, equal rows found: what it keeps will not grow but by costs."""
        _ = self.distinct
        return self

    @cached_property
    def distinct(self):
        """The same rows with equal ones merged."""
        return distinct_rows(self.rows)

    @cached_property
    def _kept_costs(self):
        return {}

    def with_costs(self, costs):
        """The distinct rows with their costs as features; the last ones are kept."""
        if costs.key not in self._kept_costs:
            self._kept_costs.clear()
            self._kept_costs[costs.key] = self.distinct.with_features(
                self.distinct.map_to_table(costs.write, costs.n_clusters)
            )
        return self._kept_costs[costs.key]


@dataclass(frozen=True)
class DrawnRows:
    """Some rows of a table in chunks.

    Attributes
    ----------
    numbers : ndarray of shape (n_drawn,)
        Their global row numbers.
    rows : MemoryRows
    """

    numbers: np.ndarray
    rows: MemoryRows


class ChunkedRows:
    """Rows in chunks; a subclass knows where they are.

    Parameters
    ----------
    n_features : int
    group_sizes_of_chunks : ndarray of shape (n_chunks, n_groups), dtype int64
        Number of rows of each group in each chunk.
    chunk_rows : int
        Rows of every chunk but the last.
    """

    is_weighted = False
    has_copies = False
    #: Name and number of rows of each file or partition, in row order.
    parts = ()
    #: Keeps small results of passes, so that a run can go on after it was stopped.
    journal = None
    #: Called with a pass's title, the number of chunks done, and of all.
    progress = None

    def __init__(self, n_features, group_sizes_of_chunks, chunk_rows):
        self.n_features = n_features
        self.group_sizes_of_chunks = group_sizes_of_chunks
        self.chunk_rows = chunk_rows
        self.n_chunks, self.n_groups = group_sizes_of_chunks.shape
        self.group_sizes = group_sizes_of_chunks.sum(axis=0).astype(np.float64)
        self.n_rows = int(group_sizes_of_chunks.sum())

    @property
    def total(self):
        """Number of all rows."""
        return self.group_sizes.sum()

    def merged(self):
        """These rows: equal ones are merged within every chunk anyway."""
        return self

    def each(self, title, function, arguments=None, *, combine=None):
        """Results of ``function(chunk)``, or ``function(chunk, argument)``, in chunk order.

        Parameters
        ----------
        title : str
            What the pass is for, in a word or two.
        function : callable
            Can be sent to where the rows are: refers to small things only, changes none.
        arguments : sequence, default=None
            One for every chunk.
        combine : callable, default=None
            Makes one thing of the list of results, which a checkpoint keeps if it is small.

        Returns
        -------
        results : list, or what ``combine`` makes of it
        """
        if arguments is None:
            calls = [function] * self.n_chunks
        else:
            calls = [_With(function, argument) for argument in arguments]
        if self.journal is not None:
            known = self.journal.recall(title)
            if known is not None:
                return known
        results = []
        for result in self._run(title, calls):
            results.append(result)
            if self.progress is not None:
                self.progress(title, len(results), self.n_chunks)
        combined = results if combine is None else combine(results)
        if self.journal is not None:
            is_kept = combine is not None and _n_bytes(combined) <= MOST_KEPT_BYTES
            self.journal.record(title, combined if is_kept else None)
        return combined

    def sum(self, kernel, title="sums"):
        """Sum the tuples of small arrays that ``kernel(block)`` returns for the distinct rows."""
        return self.each(title, _SumOverBlocks(kernel), combine=added)

    def largest(self, kernel, title="largest"):
        """Largest of the numbers that ``kernel(block)`` returns for the distinct rows."""
        return self.each(title, _LargestOfBlocks(kernel), combine=max)

    def draw(self, ranks, title="sample"):
        """The rows of each group with the given ranks.

        Parameters
        ----------
        ranks : list of ndarray
            For every group increasing numbers: zero is its first row.
        title : str

        Returns
        -------
        drawn : DrawnRows
            Group by group.
        """
        before = np.cumsum(self.group_sizes_of_chunks, axis=0) - self.group_sizes_of_chunks
        arguments = []
        for first, sizes in zip(before, self.group_sizes_of_chunks, strict=True):
            own = []
            for wanted, begin, size in zip(ranks, first, sizes, strict=True):
                a, b = np.searchsorted(wanted, (begin, begin + size))
                own.append(wanted[a:b] - begin)
            arguments.append(own)
        parts = self.each(title, _rows_by_rank, arguments)
        indices, X = [], []
        for r in range(self.n_groups):
            indices += [part[r][0] for part in parts]
            X += [part[r][1] for part in parts]
        codes = np.repeat(np.arange(self.n_groups), [len(own) for own in ranks])
        drawn = MemoryRows(np.concatenate(X), codes, self.n_groups, n_jobs=self.n_jobs)
        return DrawnRows(np.concatenate(indices), drawn)

    def take(self, indices, title="rows"):
        """The rows with the given global numbers, in this order."""
        order = np.argsort(indices, kind="stable")
        edges = np.searchsorted(
            indices[order], np.arange(self.n_chunks + 1, dtype=np.int64) * self.chunk_rows
        )
        arguments = [
            indices[order[a:b]] - k * self.chunk_rows
            for k, (a, b) in enumerate(zip(edges[:-1], edges[1:], strict=True))
        ]
        parts = self.each(title, _rows_at, arguments)
        X = np.empty((len(indices), self.n_features))
        codes = np.empty(len(indices), dtype=np.int64)
        X[order] = np.concatenate([X for X, _ in parts])
        codes[order] = np.concatenate([codes for _, codes in parts])
        return MemoryRows(X, codes, self.n_groups, n_jobs=self.n_jobs)

    def _run(self, title, calls):
        """Yield ``calls[k](chunk k)`` in chunk order."""
        raise NotImplementedError


class MemoryChunks(ChunkedRows):
    """A table in memory, cut into chunks.

    Parameters
    ----------
    rows : MemoryRows
        Without weights.
    chunk_rows : int
    """

    def __init__(self, rows, chunk_rows):
        self.n_jobs = rows.n_jobs
        self._chunks = [
            Chunk(
                k,
                start,
                MemoryRows(
                    rows.X[start : start + chunk_rows],
                    rows.group_codes[start : start + chunk_rows],
                    rows.n_groups,
                    n_jobs=rows.n_jobs,
                ),
            )
            for k, start in enumerate(range(0, rows.n_rows, chunk_rows))
        ]
        sizes = [chunk.rows.group_sizes.astype(np.int64) for chunk in self._chunks]
        super().__init__(rows.n_features, np.array(sizes), chunk_rows)

    def _run(self, title, calls):
        for call, chunk in zip(calls, self._chunks, strict=True):
            yield call(chunk)


@dataclass(frozen=True)
class _With:
    """A function of a chunk and an argument, with its argument."""

    function: object
    argument: object

    def __call__(self, chunk):
        return self.function(chunk, self.argument)


@dataclass(frozen=True)
class _SumOverBlocks:
    kernel: object

    def __call__(self, chunk):
        return chunk.distinct.sum(self.kernel)


@dataclass(frozen=True)
class _LargestOfBlocks:
    kernel: object

    def __call__(self, chunk):
        return chunk.distinct.largest(self.kernel)


def _n_bytes(result):
    """Of all arrays in a result."""
    if isinstance(result, (list, tuple)):
        return sum(map(_n_bytes, result))
    return result.nbytes if isinstance(result, np.ndarray) else 0


def added(results):
    """Tables of all chunks, added in their order."""
    total = [np.array(table, dtype=np.float64) for table in results[0]]
    for tables in results[1:]:
        for accumulated, table in zip(total, tables, strict=True):
            accumulated += table
    return total


def _rows_by_rank(chunk, ranks):
    """For every group the global numbers and the features of the rows with these ranks."""
    found = []
    # Not `members`, which the rows would keep.
    groups = split_by_code(chunk.rows.group_codes, chunk.rows.n_groups)
    for members, own in zip(groups, ranks, strict=True):
        places = members[own]
        found.append((chunk.start + places, chunk.rows.X[places]))
    return found


def _rows_at(chunk, places):
    return chunk.rows.X[places], chunk.rows.group_codes[places]
