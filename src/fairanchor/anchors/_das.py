"""Anchors that are rows: DAS, its fair form FDAS, and rows at random.

A row's score in DAS is the sum of its features, each counted from its smallest value. The row
with the largest score is selected and all scores decay, so that the next largest is
elsewhere in the range. FDAS runs this for every group, with a quota each.
"""

from typing import Any

import numpy as np
from sklearn.utils.random import sample_without_replacement

from fairanchor._kernels._das import select_by_decay
from fairanchor.rows import MemoryRows


def select_fdas(rows: MemoryRows, quotas: np.ndarray, seed: int) -> np.ndarray:
    """FDAS (Algorithm 1 of the paper): quotas per group, ordered by group, then selection."""
    scores = row_scores(rows)
    selected = []
    for members, quota in zip(rows.members, quotas, strict=True):
        selected.append(members[_select(scores[members], int(quota))])
    return np.concatenate(selected)


def select_das(rows: MemoryRows, quotas: np.ndarray, seed: int) -> np.ndarray:
    """DAS: all rows compete for all seats, whatever their group."""
    return _select(row_scores(rows), int(quotas.sum()))


def select_random(rows: MemoryRows, quotas: np.ndarray, seed: int) -> np.ndarray:
    """Distinct rows, uniformly at random: the baseline of the paper's ablation."""
    return sample_without_replacement(rows.n_rows, int(quotas.sum()), random_state=seed)


def row_scores(rows: MemoryRows) -> np.ndarray:
    """Sum of each row's features, counted from the smallest value of the feature."""
    smallest = rows.X.min(axis=0)
    scores = np.empty(rows.n_rows)

    def kernel(block: Any, out: np.ndarray) -> None:
        out[:] = (block.X - smallest).sum(axis=1)

    rows.map(kernel, [scores])
    return scores


def _select(scores: np.ndarray, n_selected: int) -> np.ndarray:
    selected = np.empty(n_selected, dtype=np.int64)
    n_found = select_by_decay(scores.copy(), n_selected, selected)
    if n_found == n_selected:
        return selected
    # Only rows with the lowest score, or duplicates, are left: take them evenly by rank.
    left = np.setdiff1d(np.arange(len(scores)), selected[:n_found])
    left = left[np.argsort(scores[left], kind="stable")]
    ranks = np.linspace(0, len(left) - 1, n_selected - n_found).astype(np.int64)
    # Strictly increasing, without leaving 0..len(left)-1.
    steps = np.arange(len(ranks))
    ranks = np.maximum.accumulate(ranks - steps) + steps
    selected[n_found:] = left[np.minimum(ranks, len(left) - len(ranks) + steps)]
    return selected
