"""Mean anchors: the centroids of k-means within each group."""

from typing import Any

import numpy as np
from sklearn.cluster import kmeans_plusplus

from fairanchor._utils._sampling import spread_sample
from fairanchor.rows import MemoryRows
from fairanchor.rows._nearest import NearestAnchors
from fairanchor.rows._sums import label_sums

# A few rows place an anchor well enough: a last step takes the means over all rows.
SAMPLE_ROWS = 2_500
SAMPLE_ROWS_PER_ANCHOR = 25
MAX_ITER, TOL = 10, 1e-3
# Threads delay an iteration with fewer distances than this.
FEW_DISTANCES = 2**23


def kmeans_anchors(
    rows: MemoryRows, quotas: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Centroids of samples of each group's rows, ordered by group, and their groups.

    Every group draws from the same seed, so that its anchors depend on its rows only.
    """
    points = [
        _group_centroids(rows, members, int(quota), seed)
        for members, quota in zip(rows.members, quotas, strict=True)
    ]
    codes = np.repeat(np.arange(len(points)), [len(centroids) for centroids in points])
    return np.concatenate(points), codes


def kmeans_sample_rows(quota: int | np.ndarray) -> np.ndarray:
    """Number of rows of a group on which k-means places its anchors."""
    return np.maximum(SAMPLE_ROWS, SAMPLE_ROWS_PER_ANCHOR * np.asarray(quota))


def _group_centroids(rows: MemoryRows, members: np.ndarray, quota: int, seed: int) -> np.ndarray:
    candidates = members[rows.weights[members] > 0]
    if quota >= len(candidates):
        # Rows of weight zero fill the quota: a group of nothing else still needs anchors.
        others = members[rows.weights[members] == 0]
        return rows.X[np.concatenate([candidates, others])[:quota]]
    chosen = candidates[spread_sample(len(candidates), int(kmeans_sample_rows(quota)))]
    sample = rows.subset(chosen, threaded=len(chosen) * quota > FEW_DISTANCES)
    centers, _ = kmeans_plusplus(
        sample.X, quota, sample_weight=sample.weights, random_state=seed, n_local_trials=1
    )
    return _lloyd(sample, centers)


def _lloyd(sample: MemoryRows, centers: np.ndarray) -> np.ndarray:
    """A few iterations of Lloyd's algorithm with many centres."""
    last_cost, one_part = np.inf, np.zeros(len(centers), dtype=np.int64)
    for _ in range(MAX_ITER):
        of_centers = NearestAnchors.of(centers, one_part, 1)

        def step(block: Any, index: NearestAnchors = of_centers) -> tuple:
            nearest, distances = index.nearest(block.X)
            sums, totals = label_sums(block.X, block.weights, nearest, len(index.points))
            return sums, totals, np.asarray(block.weights @ distances)

        sums, totals, cost = sample.sum(step)
        if cost >= last_cost * (1.0 - TOL):
            break
        last_cost, used = float(cost), totals > 0
        centers = np.where(used[:, None], sums / np.where(used, totals, 1.0)[:, None], centers)
    return centers
