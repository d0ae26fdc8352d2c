"""Random anchors: the baseline of the paper's ablation, blind to groups."""

from sklearn.utils.random import sample_without_replacement


def select_random(rows, quotas, seed):
    """Distinct rows, uniformly at random."""
    return sample_without_replacement(rows.n_rows, int(quotas.sum()), random_state=seed)
