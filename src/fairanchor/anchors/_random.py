"""Random anchors: the baseline of the paper's ablation, blind to groups."""

import numpy as np


def select_random(rows, quotas, seed):
    """Distinct rows, uniformly at random."""
    return np.random.RandomState(seed).choice(rows.n_rows, int(quotas.sum()), replace=False)
