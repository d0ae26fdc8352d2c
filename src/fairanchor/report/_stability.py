"""Stability of the clusters, for reports of consensus clustering."""

from typing import Any

import numpy as np

# Rows of a lower stability share a run's cluster with other clusters' rows too often to be called
# settled: one companion in five.
SETTLED = 0.8


def stability_of(estimator: Any) -> np.ndarray | None:
    """Stability of each cluster, and the share of its rows that are not settled.

    Shape (n_clusters, 2). In the framework anchors count by the rows that they represent. None
    for estimators without a stability.
    """
    clusterer = getattr(estimator, "clusterer_", estimator)
    if not hasattr(clusterer, "cluster_stability_"):
        return None
    labels = getattr(estimator, "anchor_labels_", clusterer.labels_)
    masses = getattr(estimator, "anchor_masses_", np.ones(len(labels)))
    unsettled = masses * (clusterer.row_stability_ < SETTLED)
    n_clusters = len(clusterer.cluster_stability_)
    sums = [np.bincount(labels, weights=w, minlength=n_clusters) for w in (unsettled, masses)]
    share = sums[0] / np.maximum(sums[1], np.finfo(float).tiny)
    return np.column_stack([clusterer.cluster_stability_, share])
