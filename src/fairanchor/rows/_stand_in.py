"""Samples that stand for all rows.

Iterations that only have to come near settle on them, which leaves one or two sweeps
over all rows.
"""

import numpy as np

from fairanchor._sampling import spread_sample

# Sizes of the samples, and the least number of rows of a group in them.
SAMPLE_ROWS = 100_000, 25_000, 6_000
LEAST_ROWS_PER_GROUP = 2_000


def stand_in_samples(rows, n_distinct, cell_of=None, cell_weights=None):
    """Samples of every group, each at least four times larger than the one before.

    Their weights sum to each group's. With cells they are post-stratified: the sampled rows
    of a cell weigh as much as all its rows, so that a sample says little about the rows'
    places but what is known anyway.

    Parameters
    ----------
    rows : MemoryRows
    n_distinct : int
        How many of the rows differ: a table with few of them has no samples.
    cell_of : callable, default=None
        Gives the cell of each row of a block; no cell has rows of two groups.
    cell_weights : ndarray, default=None
        Weight of all rows of each cell.

    Returns
    -------
    samples : list of MemoryRows
        From small to large.
    """
    samples, n_larger = [], n_distinct
    for n_sample in SAMPLE_ROWS:
        per_group = max(n_sample // rows.n_groups, LEAST_ROWS_PER_GROUP)
        if 4 * sum(min(len(own), per_group) for own in rows.members) <= n_larger:
            samples.append(_stand_in_rows(rows, per_group, cell_of, cell_weights))
            n_larger = samples[-1].n_rows
    return samples[::-1]


def _stand_in_rows(rows, rows_per_group, cell_of, cell_weights):
    chosen = [own[spread_sample(len(own), rows_per_group)] for own in rows.members]
    sample = rows.subset(np.sort(np.concatenate(chosen)))
    weights = sample.weights
    if cell_of is not None:
        cells = np.concatenate([cell_of(block) for block in sample.blocks()])
        sampled = np.bincount(cells, weights=weights, minlength=len(cell_weights))
        weights = weights * _ratio(cell_weights, sampled)[cells]
    # Cells without a sampled row are left to the rest of their group.
    group_weights = np.bincount(sample.group_codes, weights=weights, minlength=rows.n_groups)
    return sample.weighted(weights * _ratio(rows.group_sizes, group_weights)[sample.group_codes])


def _ratio(total, part):
    return np.divide(total, part, out=np.zeros(len(part)), where=part > 0)
