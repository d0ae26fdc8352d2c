"""Where anchors are: centroids of k-means within each group, or rows by DAS, FDAS or at random.

A row's score in DAS is the sum of its features, each counted from its smallest value. The row
with the largest score is selected and all scores decay, so that the next largest is
elsewhere in the range. FDAS runs this for every group, with a quota each. ``decay`` and ``origin``
are described in `FDAS`.
"""

from typing import Any

import numpy as np
from sklearn.cluster import kmeans_plusplus
from sklearn.utils.random import sample_without_replacement

from fairanchor._kernels._das import select_by_decay
from fairanchor._utils._sampling import spread_sample
from fairanchor.rows import MemoryRows
from fairanchor.rows._nearest import NearestAnchors
from fairanchor.rows._sums import label_sums

MAX_ITER, TOL = 10, 1e-3
# Threads delay an iteration with fewer distances than this.
FEW_DISTANCES = 2**23


def kmeans_anchors(
    rows: MemoryRows, quotas: np.ndarray, sample_rows: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Centroids of samples of each group's rows, ordered by group, and their groups.

    Every group draws from the same seed, so that its anchors depend on its rows only.
    """
    points = [
        _group_centroids(rows, members, int(quota), int(at_most), seed)
        for members, quota, at_most in zip(rows.members, quotas, sample_rows, strict=True)
    ]
    codes = np.repeat(np.arange(len(points)), [len(centroids) for centroids in points])
    return np.concatenate(points), codes


def _group_centroids(
    rows: MemoryRows, members: np.ndarray, quota: int, at_most: int, seed: int
) -> np.ndarray:
    candidates = members[rows.weights[members] > 0]
    if quota >= len(candidates):
        # Rows of weight zero fill the quota: a group of nothing else still needs anchors.
        others = members[rows.weights[members] == 0]
        return rows.X[np.concatenate([candidates, others])[:quota]]
    chosen = candidates[spread_sample(len(candidates), at_most)]
    sample = rows.subset(chosen, threaded=len(chosen) * quota > FEW_DISTANCES)
    centers, _ = kmeans_plusplus(sample.X, quota, sample_weight=sample.weights, random_state=seed)
    last_cost, one_part = np.inf, np.zeros(quota, dtype=np.int64)
    for _ in range(MAX_ITER):
        of_centers = NearestAnchors.of(centers, one_part, 1)

        def step(block: Any, index: NearestAnchors = of_centers) -> tuple:
            nearest, distances = index.nearest(block.X, 0)
            sums, totals = label_sums(block.X, block.weights, nearest, quota)
            return sums, totals, np.asarray(block.weights @ distances)

        sums, totals, cost = sample.sum(step)
        if cost >= last_cost * (1.0 - TOL):
            break
        last_cost, used = float(cost), totals > 0
        centers = np.where(used[:, None], sums / np.where(used, totals, 1.0)[:, None], centers)
    return centers


def select_fdas(
    rows: MemoryRows,
    quotas: np.ndarray,
    seed: int,
    *,
    decay: str = "renormalised",
    origin: str = "features",
) -> np.ndarray:
    """FDAS (Algorithm 1 of the paper): quotas per group, ordered by group, then selection."""
    scores, select = row_scores(rows, origin), DECAYS[decay]
    selected = [
        members[select(scores[members], int(quota))]
        for members, quota in zip(rows.members, quotas, strict=True)
    ]
    return np.concatenate(selected)


def select_das(
    rows: MemoryRows,
    quotas: np.ndarray,
    seed: int,
    *,
    decay: str = "renormalised",
    origin: str = "features",
) -> np.ndarray:
    """DAS: all rows compete for all seats, whatever their group."""
    return DECAYS[decay](row_scores(rows, origin), int(quotas.sum()))


def select_random(rows: MemoryRows, quotas: np.ndarray, seed: int, **ignored: str) -> np.ndarray:
    """Distinct rows, uniformly at random: the baseline of the paper's ablation."""
    return sample_without_replacement(rows.n_rows, int(quotas.sum()), random_state=seed)


def row_scores(rows: MemoryRows, origin: str = "features") -> np.ndarray:
    """Sum of each row's features, counted from their smallest values or from that of the table."""
    smallest = rows.X.min(axis=0) if origin == "features" else rows.X.min()
    scores = np.empty(rows.n_rows)

    def kernel(block: Any, out: np.ndarray) -> None:
        out[:] = (block.X - smallest).sum(axis=1)

    rows.map(kernel, [scores])
    return scores


def _select(scores: np.ndarray, n_selected: int) -> np.ndarray:
    """Distinct rows: decayed scores are divided by the largest that is left."""
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


def _select_as_printed(scores: np.ndarray, n_selected: int) -> np.ndarray:
    """The printed loop: it selects a row repeatedly, which is one anchor, so there may be fewer."""
    selected: list[int] = []
    scores = scores / max(scores.max(initial=0.0), 1e-300)
    while len(selected) < n_selected and len(scores):
        selected.append(int(np.argmax(scores)))
        largest = scores.max()
        if largest <= 0.0:
            break
        scores = scores * (1.0 - scores) / largest
    return np.array(list(dict.fromkeys(selected)), dtype=np.int64)


DECAYS = {"renormalised": _select, "printed": _select_as_printed}
