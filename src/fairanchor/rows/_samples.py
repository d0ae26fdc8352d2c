"""Weighted samples of all rows.

Iterations that need not be exact converge on samples, which leaves one or two sweeps over all rows.
"""

from dataclasses import dataclass

import numpy as np

from fairanchor._utils._sampling import spread_sample, spread_sample_by_weight
from fairanchor.rows._chunks import ChunkedRows, DrawnRows
from fairanchor.rows._memory import MemoryRows, distinct_rows
from fairanchor.rows._tables import rows_at, stacked

# How much smaller than what comes next a sample must be to save anything.
GROWTH = 6


@dataclass(frozen=True)
class Sampler:
    """Draws samples in which the weights of each group sum to its size.

    Attributes
    ----------
    sizes : tuple of int
        Numbers of rows of the samples, from large to small.
    rows_per_group : int
        Least number of rows of a group in each sample (all, if it has fewer).
    """

    sizes: tuple[int, ...] = (100_000, 25_000)
    rows_per_group: int = 2_000

    def samples(
        self, rows: MemoryRows, distinct: MemoryRows, *, least_rows: int = 0
    ) -> list[MemoryRows]:
        """Samples of at least ``least_rows`` rows, from small to large; none of a small table.

        ``distinct`` are the same rows, with equal ones merged or not; a group with few distinct
        rows is in a sample with all of them.
        """
        samples, n_larger = [], distinct.n_rows
        for size in self.sizes:
            per_group = self._per_group(rows.n_groups, size, least_rows)
            if GROWTH * sum(min(len(m), per_group) for m in distinct.members) <= n_larger:
                sample = _drawn(rows, distinct, per_group)
                samples.append(_scaled_to(rows.group_sizes, sample))
                n_larger = sample.n_rows
        return samples[::-1]

    def rows_to_draw(self, n_groups: int, least_rows: int) -> int:
        """Rows of each of so many groups in the largest sample: those in `samples_of_drawn`."""
        return self._per_group(n_groups, self.sizes[0], least_rows)

    def samples_of_drawn(
        self, rows: ChunkedRows, drawn: DrawnRows, *, least_rows: int
    ) -> list[MemoryRows]:
        """`samples` of rows in chunks, at least one; equal rows of a sample are merged."""
        samples: list[MemoryRows] = []
        n_larger = rows.n_rows
        for size in self.sizes:
            per_group = self._per_group(rows.n_groups, size, least_rows)
            members = [m[spread_sample(len(m), per_group)] for m in drawn.rows.members]
            chosen = np.concatenate(members)
            if samples and GROWTH * len(chosen) > n_larger:
                continue
            sample = distinct_rows(drawn.rows.subset(chosen))
            samples.append(_scaled_to(rows.group_sizes, sample.weighted(sample.weights)))
            n_larger = len(chosen)
        return samples[::-1]

    def _per_group(self, n_groups: int, size: int, least_rows: int) -> int:
        return max(max(size, least_rows) // n_groups + 1, self.rows_per_group)


def _drawn(rows: MemoryRows, distinct: MemoryRows, rows_per_group: int) -> MemoryRows:
    """Rows of each group as often as they occur or weigh; all distinct ones where these are few."""
    parts = []
    for members, distinct_members in zip(rows.members, distinct.members, strict=True):
        if len(distinct_members) <= rows_per_group:
            chosen = distinct.subset(distinct_members)
            parts.append((chosen.X, chosen.group_codes, chosen.weights))
            continue
        if rows.is_weighted:
            places, weights = spread_sample_by_weight(rows.weights[members], rows_per_group)
        else:
            places = spread_sample(len(members), rows_per_group)
            weights = np.ones(len(places))
        parts.append((rows_at(rows.X, members[places]), rows.group_codes[members[places]], weights))
    tables, *arrays = zip(*parts, strict=True)
    codes, weights = map(np.concatenate, arrays)
    return MemoryRows(stacked(tables), codes, rows.n_groups, weights=weights, n_jobs=rows.n_jobs)


def _scaled_to(group_sizes: np.ndarray, sample: MemoryRows) -> MemoryRows:
    """The sample with the weight of all rows of each group."""
    part = sample.group_sizes
    ratio = np.divide(group_sizes, part, out=np.zeros(len(part)), where=part > 0)
    return sample.weighted(sample.weights * ratio[sample.group_codes])
