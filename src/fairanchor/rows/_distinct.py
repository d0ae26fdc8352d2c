"""Equal rows of a group, solved once.

Tables of people are full of equal rows: every program that looks at a row by itself needs
to look at one of them only, with their number as weight.
"""

import numpy as np

from fairanchor._kernels import _distinct as kernels
from fairanchor._kernels._sorting import sort_by_code
from fairanchor._sampling import spread_sample
from fairanchor.rows._memory import MemoryRows, map_in_threads

# Rows looked at before all are, and the least share of them that must have an equal.
SAMPLE_ROWS = 2**15
LEAST_SAMPLE_SHARE = 1 / 64
# More distinct rows than this share of all save less than finding them takes.
LARGEST_SHARE = 0.85
PART_BITS = 6


class DistinctRows(MemoryRows):
    """The distinct rows of a table, weighing as much as their copies.

    Attributes
    ----------
    first : ndarray of shape (n_rows,)
        Where in the table each distinct row occurs first; increasing.
    place : ndarray of shape (n_table_rows,), dtype int32
        The distinct row that each row of the table equals.
    """

    def __init__(self, rows, first, place):
        copies = np.bincount(place, minlength=len(first)).astype(np.float64)
        super().__init__(
            np.ascontiguousarray(rows.X[first]),
            rows.group_codes[first],
            rows.n_groups,
            weights=copies,
            copies=True,
            n_jobs=rows.n_jobs,
        )
        self.first = first
        self.place = place

    def spread(self, labels, split):
        """Labels of the table's rows; the copies of a split row take turns in row order.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,)
        split : dict
            Distinct row to a list of (cluster, number of copies).
        """
        spread = labels[self.place]
        for row, parts in split.items():
            copies = np.flatnonzero(self.place == row)
            ordered = sorted(parts)
            numbers = np.rint([number for _, number in ordered]).astype(np.int64)
            spread[copies] = np.repeat([cluster for cluster, _ in ordered], numbers)
        return spread


def distinct_rows(rows):
    """The distinct rows of a table as `DistinctRows`, or the table itself if few rows are equal.

    Rows are equal if their group and all features are. Rows with weights are left alone:
    two of them cannot share one label's rounding.
    """
    if rows.is_weighted or rows.n_rows < 2 or _looks_distinct(rows):
        return rows
    first = _first_equal(rows)
    is_first = first == np.arange(rows.n_rows)
    n_distinct = int(np.count_nonzero(is_first))
    if n_distinct > LARGEST_SHARE * rows.n_rows:
        return rows
    number = np.cumsum(is_first, dtype=np.int32)
    number -= 1
    return DistinctRows(rows, np.flatnonzero(is_first), number[first])


def _looks_distinct(rows):
    sample = rows.subset(spread_sample(rows.n_rows, SAMPLE_ROWS))
    first = _first_equal(sample)
    n_repeated = np.count_nonzero(first != np.arange(sample.n_rows))
    return n_repeated < LEAST_SAMPLE_SHARE * sample.n_rows


def _first_equal(rows):
    """For every row an earlier row that equals it, or itself; the first one, but for collisions."""
    bits = rows.X.view(np.uint64)
    hashes = np.empty(rows.n_rows, dtype=np.uint64)
    rows.map(
        lambda block, out: kernels.hash_rows(
            bits[block.start : block.stop], block.group_codes, out
        ),
        [hashes],
    )
    order = np.empty(rows.n_rows, dtype=np.int64)
    ends = np.empty(2**PART_BITS, dtype=np.int64)
    sort_by_code((hashes >> np.uint64(64 - PART_BITS)).astype(np.int64), order, ends)
    first = np.empty(rows.n_rows, dtype=np.int64)

    def find(members):
        kernels.first_equal_hashes(hashes, members, first)

    for _ in map_in_threads(find, np.split(order, ends[:-1]), rows.n_jobs):
        pass
    # A row whose first row is changed here is first for nobody, so threads do not meet.
    rows.map(
        lambda block, _: kernels.confirm(rows.X, rows.group_codes, block.start, block.stop, first),
        [first],
    )
    return first
