"""Per-group k-means medoids: the rows nearest to the centres of each group's own k-means."""

import numpy as np
from sklearn.cluster import kmeans_plusplus

from fairanchor._sampling import spread_sample
from fairanchor.clusterers._fair_lloyd import plain_lloyd
from fairanchor.rows import map_in_threads

# A hundred rows per anchor place it well enough; the masses come from all rows.
SAMPLE_ROWS = 2_500
SAMPLE_ROWS_PER_ANCHOR = 100
MAX_ITER = 20


def select_kmeans(rows, quotas, seed):
    """The quota of each group as medoids, ordered by group.

    Every group draws from the same seed, so that its anchors depend on its rows only.
    """
    groups = list(zip(rows.members, quotas, strict=True))
    selected = map_in_threads(lambda own: _select_in_group(rows, *own, seed), groups, rows.n_jobs)
    return np.concatenate(list(selected))


def kmeans_sample_rows(quota):
    """Rows of a group that are looked at to place so many anchors."""
    return np.maximum(SAMPLE_ROWS, SAMPLE_ROWS_PER_ANCHOR * np.asarray(quota))


def _select_in_group(rows, members, quota, seed):
    weightless = rows.weights[members] == 0
    candidates = members[~weightless]
    if quota == 0 or quota >= len(candidates):
        # Rows without weight take the seats that are left.
        return np.concatenate([candidates, members[weightless]])[:quota]
    n_sample = int(kmeans_sample_rows(quota))
    chosen = candidates[spread_sample(len(candidates), n_sample)]
    sample = rows.subset(chosen, threaded=False)
    centers, _ = kmeans_plusplus(
        sample.X, int(quota), sample_weight=sample.weights, random_state=seed
    )
    centers, _ = plain_lloyd(sample, centers, max_iter=MAX_ITER, tol=1e-3)
    return chosen[_medoids(sample.X, centers)]


def _medoids(X, centers):
    """The row nearest to each centre that no earlier centre has taken."""
    taken = np.zeros(len(X), dtype=bool)
    medoids = np.empty(len(centers), dtype=np.int64)
    for k, center in enumerate(centers):
        distance = ((X - center) ** 2).sum(axis=1)
        distance[taken] = np.inf
        medoids[k] = np.argmin(distance)
        taken[medoids[k]] = True
    return medoids
