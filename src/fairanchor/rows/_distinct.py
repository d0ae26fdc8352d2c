"""Equal rows of a group, solved once.

Tables of people are full of equal rows: every program that looks at a row by itself needs
to look at one of them only, with their number as weight.
"""

import numpy as np

from fairanchor._kernels import _distinct as kernels
from fairanchor._utils._sampling import split_by_code
from fairanchor.rows._memory import MemoryRows, map_in_threads

# Rows looked at before all are.
SAMPLE_ROWS = 2**15
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

    @property
    def nbytes(self):
        """Bytes of the distinct rows, and of where they are."""
        return super().nbytes + self.first.nbytes + self.place.nbytes

    def spread(self, labels, split):
        """Labels of the table's rows; the copies of a split row take turns in row order.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,)
        split : dict
            Distinct row to a list of (cluster, number of copies).
        """
        spread = labels[self.place]
        if not split:
            return spread
        copies = np.flatnonzero(np.isin(self.place, list(split)))
        copies = copies[np.argsort(self.place[copies], kind="stable")]
        turns = []
        for row in sorted(split):
            for cluster, number in sorted(split[row]):
                turns += [cluster] * round(number)
        spread[copies] = turns
        return spread


def distinct_rows(rows):
    """The distinct rows of a table as `DistinctRows`, or the table itself if few rows are equal.

    Rows are equal if their group and all features are. Rows with weights are left alone:
    two of them cannot share one label's rounding.
    """
    if rows.is_weighted or rows.n_rows < 2:
        return rows
    hashes = _hashes(rows)
    if _distinct_share(hashes) > LARGEST_SHARE:
        return rows
    first = _first_equal(rows, hashes)
    is_first = first == np.arange(rows.n_rows)
    n_distinct = int(np.count_nonzero(is_first))
    if n_distinct > LARGEST_SHARE * rows.n_rows:
        return rows
    number = np.cumsum(is_first, dtype=np.int32)
    number -= 1
    return DistinctRows(rows, np.flatnonzero(is_first), number[first])


def _hashes(rows):
    hashes = np.empty(rows.n_rows, dtype=np.uint64)

    def write(block, out):
        bits = np.asarray(block.X, dtype=np.float64).view(np.uint64)
        kernels.hash_rows(bits, block.group_codes, out)

    rows.map(write, [hashes])
    return hashes


def _distinct_share(hashes):
    """Share of distinct rows, from those whose hash is small: copies are all in or all out."""
    share = min(1.0, SAMPLE_ROWS / len(hashes))
    sample = hashes[hashes <= np.uint64(share * (2**64 - 1025))]
    return len(np.unique(sample)) / len(sample) if len(sample) else 1.0


def _first_equal(rows, hashes):
    """For every row an earlier row that equals it, or itself; the first one, but for collisions."""
    parts = split_by_code((hashes >> np.uint64(64 - PART_BITS)).astype(np.int64), 2**PART_BITS)
    first = np.empty(rows.n_rows, dtype=np.int64)

    def find(members):
        kernels.first_equal_hashes(hashes, members, first)

    for _ in map_in_threads(find, parts, rows.n_jobs):
        pass
    # A row whose first row is changed here is first for nobody, so threads do not meet.
    rows.map(
        lambda block: kernels.confirm(rows.X, rows.group_codes, block.start, block.stop, first), []
    )
    return first
