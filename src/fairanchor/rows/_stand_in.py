"""Samples that stand for all rows.

Iterations that only have to come near settle on them, which leaves one or two sweeps
over all rows.
"""

import numpy as np

from fairanchor._utils._sampling import spread_sample, spread_sample_by_weight
from fairanchor.rows._distinct import distinct_rows
from fairanchor.rows._memory import MemoryRows

# Sizes of the samples, and the least number of rows of a group in each.
SAMPLE_ROWS = 100_000, 25_000
LEAST_ROWS_PER_GROUP = 2_000
# How much smaller than what comes next a sample must be to save anything.
GROWTH = 6


def stand_in_samples(rows, distinct, *, least_rows=0):
    """Samples of every group, each several times larger than the one before.

    Their weights sum to each group's; a group with few distinct rows is there with all of them.

    Parameters
    ----------
    rows : MemoryRows
    distinct : MemoryRows
        The same rows, equal ones merged or not.
    least_rows : int
        Least number of rows of a sample.

    Returns
    -------
    samples : list of MemoryRows
        From small to large; none of a small table.
    """
    samples, n_larger = [], distinct.n_rows
    for n_sample in SAMPLE_ROWS:
        per_group = _rows_per_group(rows, n_sample, least_rows)
        if GROWTH * sum(min(len(own), per_group) for own in distinct.members) <= n_larger:
            sample = _drawn(rows, distinct, per_group)
            samples.append(_scaled_to(rows.group_sizes, sample))
            n_larger = sample.n_rows
    return samples[::-1]


def draw_for_samples(rows, *, least_rows, least_per_group):
    """Rows in chunks from which `samples_of_drawn` makes samples: one pass for all.

    Parameters
    ----------
    rows : ChunkedRows
    least_rows : int
        Least number of rows in all.
    least_per_group : ndarray of shape (n_groups,)
        Least number of rows of each group (all, if it has fewer).

    Returns
    -------
    drawn : DrawnRows
    """
    wanted = np.maximum(_rows_per_group(rows, SAMPLE_ROWS[0], least_rows), least_per_group)
    sizes = rows.group_sizes.astype(np.int64)
    return rows.draw([spread_sample(int(n), int(w)) for n, w in zip(sizes, wanted, strict=True)])


def samples_of_drawn(rows, drawn, *, least_rows):
    """`stand_in_samples` of rows in chunks, at least one; equal rows of a sample are merged."""
    samples, n_larger = [], rows.n_rows
    for n_sample in SAMPLE_ROWS:
        per_group = _rows_per_group(rows, n_sample, least_rows)
        members = [own[spread_sample(len(own), per_group)] for own in drawn.rows.members]
        chosen = np.concatenate(members)
        if samples and GROWTH * len(chosen) > n_larger:
            continue
        sample = distinct_rows(drawn.rows.subset(chosen))
        sample = sample.weighted(sample.weights)
        samples.append(_scaled_to(rows.group_sizes, sample))
        n_larger = len(chosen)
    return samples[::-1]


def _rows_per_group(rows, n_sample, least_rows):
    return max(max(n_sample, least_rows) // rows.n_groups + 1, LEAST_ROWS_PER_GROUP)


def _drawn(rows, distinct, rows_per_group):
    """Rows of each group as often as they occur or weigh; all distinct ones where these are few."""
    parts = []
    for own, own_distinct in zip(rows.members, distinct.members, strict=True):
        if len(own_distinct) <= rows_per_group:
            chosen = distinct.subset(own_distinct)
            parts.append((chosen.X, chosen.group_codes, chosen.weights))
        elif rows.is_weighted:
            places, weights = spread_sample_by_weight(rows.weights[own], rows_per_group)
            parts.append((rows.X[own[places]], rows.group_codes[own[places]], weights))
        else:
            chosen = own[spread_sample(len(own), rows_per_group)]
            parts.append((rows.X[chosen], rows.group_codes[chosen], np.ones(len(chosen))))
    X, codes, weights = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return MemoryRows(X, codes, rows.n_groups, weights=weights, n_jobs=rows.n_jobs)


def _scaled_to(group_sizes, sample):
    """The sample with the weight of all rows of each group."""
    return sample.weighted(
        sample.weights * ratio(group_sizes, sample.group_sizes)[sample.group_codes]
    )


def ratio(total, part):
    """Element by element, zero where the part is."""
    return np.divide(total, part, out=np.zeros(len(part)), where=part > 0)
