"""DAS and its fair form FDAS: rows spread over the range of a one-dimensional score.

A row's score is the sum of its features, each counted from its smallest value. The row
with the largest score is selected and all scores decay, so that the next largest is
elsewhere in the range. FDAS runs this for every group, with a quota each.
"""

import numpy as np

from fairanchor._kernels._das import select_by_decay


def select_fdas(rows, quotas, seed):
    """FDAS (Algorithm 1 of the paper): quotas per group, ordered by group, then selection."""
    scores = row_scores(rows)
    selected = []
    for members, quota in zip(rows.members, quotas, strict=True):
        selected.append(members[_select(scores[members], int(quota))])
    return np.concatenate(selected)


def select_das(rows, quotas, seed):
    """DAS: all rows compete for all seats, whatever their group."""
    return _select(row_scores(rows), int(quotas.sum()))


def row_scores(rows):
    """Sum of each row's features, counted from the smallest value of the feature."""
    smallest = rows.X.min(axis=0)
    scores = np.empty(rows.n_rows)

    def kernel(block, out):
        out[:] = (block.X - smallest).sum(axis=1)

    rows.map(kernel, [scores])
    return scores


def _select(scores, n_selected):
    selected = np.empty(n_selected, dtype=np.int64)
    n_found = select_by_decay(scores.copy(), n_selected, selected)
    if n_found == n_selected:
        return selected
    # Only rows with the lowest score, or duplicates, are left: take them evenly by rank.
    left = np.setdiff1d(np.arange(len(scores)), selected[:n_found])
    left = left[np.argsort(scores[left], kind="stable")]
    ranks = np.linspace(0, len(left) - 1, n_selected - n_found).astype(np.int64)
    selected[n_found:] = left[_distinct(ranks, len(left))]
    return selected


def _distinct(ranks, n):
    """Non-decreasing ranks made strictly increasing without leaving ``0..n-1``."""
    ranks = np.maximum.accumulate(ranks - np.arange(len(ranks))) + np.arange(len(ranks))
    return np.minimum(ranks, n - len(ranks) + np.arange(len(ranks)))
