"""Per-group k-means medoids: the rows nearest to the centres of each group's own k-means."""

import numpy as np
from sklearn.cluster import kmeans_plusplus

from fairanchor._kernels._nearest import medoids_of
from fairanchor._sampling import spread_sample
from fairanchor.clusterers._fair_lloyd import plain_lloyd

# A hundred rows per anchor place it well enough; the masses come from all rows.
SAMPLE_ROWS = 2_500
SAMPLE_ROWS_PER_ANCHOR = 100
MAX_ITER = 20
# Threads delay an iteration with fewer distances than this.
FEW_DISTANCES = 2**23


def select_kmeans(rows, quotas, seed):
    """The quota of each group as medoids, ordered by group.

    Every group draws from the same seed, so that its anchors depend on its rows only.
    """
    # One group after the other: most of the work is many small calls, which threads only delay.
    groups = zip(rows.members, quotas, strict=True)
    return np.concatenate([_select_in_group(rows, *own, seed) for own in groups])


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
    sample = rows.subset(chosen, threaded=len(chosen) * quota > FEW_DISTANCES)
    centers, _ = kmeans_plusplus(
        sample.X, int(quota), sample_weight=sample.weights, random_state=seed
    )
    centers, _ = plain_lloyd(sample, centers, max_iter=MAX_ITER, tol=1e-3)
    return chosen[medoids_of(sample.X, centers)]
