"""Module 2 of the paper: any clusterer on the anchors."""

import inspect
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import clone

from fairanchor._utils._shared_state import (
    fairness_warnings_ignored,
    warn_unfair,
)
from fairanchor.anchors import Anchors
from fairanchor.cluster._bounded import BoundedFairAssignment
from fairanchor.cluster._consensus import ConsensusClustering
from fairanchor.cluster._fair_kmeans import FairKMeans
from fairanchor.cluster._fairlets import FairletClustering
from fairanchor.cluster._fairness_first import FairnessFirstClustering
from fairanchor.cluster._one_stage import OneStageFairSpectralClustering
from fairanchor.cluster._spectral import FairSpectralClustering
from fairanchor.cluster._variational import VariationalFairClustering

#: Clusterers by the names that `AnchorFairClustering` takes.
CLUSTERERS: dict[str, Any] = {
    "fair_kmeans": FairKMeans,
    "spfc": FairSpectralClustering,
    "vfc": VariationalFairClustering,
    "fmsc": OneStageFairSpectralClustering,
    "fairlets": FairletClustering,
    "ffc": FairnessFirstClustering,
    "bounded": BoundedFairAssignment,
    "consensus": ConsensusClustering,
}
# Anchors with less than this part of their group's average mass do not take part: clusterers
# that know no weights would make clusters of outliers.
LIGHT_SHARE = 0.1
# Parameters by which clusterers call the number of clusters.
N_CLUSTERS = ("n_clusters", "n_components")


def cluster_anchors(
    clusterer: Any, anchors: Anchors, n_clusters: int | None, seed: int
) -> tuple[np.ndarray, Any]:
    """Label the anchors, each of the labels ``0..n_clusters-1`` at least once.

    The clusterer is what `AnchorFairClustering` takes; an estimator is cloned, and the fitted clone
    returned. Without ``n_clusters`` the number that the clusterer finds is taken.
    """
    if clusterer is None:
        clusterer = FairSpectralClustering()
    elif isinstance(clusterer, str):
        clusterer = CLUSTERERS[clusterer]()
    elif isinstance(clusterer, type):
        raise TypeError(
            f"clusterer is the class {clusterer.__name__}, expected an instance of it: "
            f"{clusterer.__name__}()."
        )
    name = type(clusterer).__name__ if hasattr(clusterer, "fit") else repr(clusterer)
    n_anchors = len(anchors.points)
    if n_clusters == 1:
        return np.zeros(n_anchors, dtype=np.int64), None
    if n_clusters == n_anchors:
        return np.arange(n_anchors), None
    used, weights = np.arange(n_anchors), None
    if anchors.weighted:
        counts = np.bincount(anchors.group_codes)
        masses = np.bincount(anchors.group_codes, weights=anchors.masses)
        average = (masses / np.maximum(counts, 1))[anchors.group_codes]
        heavy = np.flatnonzero(anchors.masses >= LIGHT_SHARE * average)
        used = heavy if len(heavy) >= (n_clusters or 1) else used
        weights = np.maximum(anchors.masses[used], 1e-12)
    points, codes = anchors.points[used], anchors.group_codes[used]
    # Warnings about the composition of the anchors are irrelevant: the rows get theirs later.
    with fairness_warnings_ignored():
        answer, fitted = _run(clusterer, name, points, codes, n_clusters, weights, seed)
    labels = np.full(n_anchors, -1, dtype=np.int64)
    labels[used] = _check_labels(answer, len(used), n_clusters, name)
    # Light anchors and noise follow the nearest anchor that has a label.
    leader = np.arange(n_anchors)
    known, others = np.flatnonzero(labels >= 0), np.flatnonzero(labels < 0)
    if len(others):
        nearest = np.argmin(cdist(anchors.points[others], anchors.points[known]), axis=1)
        leader[others] = known[nearest]
    if hasattr(fitted, "row_stability_"):  # of all anchors, as the labels
        fitted.row_stability_ = fitted.row_stability_[np.searchsorted(used, leader)]
    return labels[leader], fitted


def _run(
    clusterer: Any,
    name: str,
    points: np.ndarray,
    codes: np.ndarray,
    n_clusters: int | None,
    weights: np.ndarray | None,
    seed: int,
) -> tuple[Any, Any]:
    if not hasattr(clusterer, "fit"):
        answer = clusterer(points, codes, n_clusters, sample_weight=weights, random_state=seed)
        return answer, None
    fitted = clone(clusterer)
    parameters = fitted.get_params(deep=False)
    if n_clusters is not None:
        fitted.set_params(**{name: n_clusters for name in N_CLUSTERS if name in parameters})
    if "random_state" in parameters and parameters["random_state"] is None:
        fitted.set_params(random_state=seed)
    accepted = inspect.signature(fitted.fit).parameters
    offered = {"sensitive_features": codes, "sample_weight": weights}
    fitted.fit(points, **{name: value for name, value in offered.items() if name in accepted})
    if hasattr(fitted, "labels_"):
        return fitted.labels_, fitted
    if hasattr(fitted, "predict"):
        return fitted.predict(points), fitted
    raise TypeError(
        f"{name} has neither labels_ nor predict after fit, expected one of them: "
        "the clusters of the anchors come from there."
    )


def _check_labels(answer: Any, n_points: int, n_clusters: int | None, name: str) -> np.ndarray:
    """Labels 0, 1, ... as found; -1 for noise."""
    labels = np.asarray(answer)
    if labels.shape != (n_points,):
        raise ValueError(
            f"{name} returned labels of shape {labels.shape} for {n_points} anchors, expected "
            f"({n_points},): one label per anchor."
        )
    is_number = np.issubdtype(labels.dtype, np.number) and np.isfinite(labels).all()
    if not is_number or np.any(labels != np.floor(labels)):
        raise ValueError(
            f"{name} returned labels that are not whole numbers: {labels[:10].tolist()}."
        )
    # HDBSCAN has further negative labels for rows that it could not place.
    noise = labels < 0
    if noise.all():
        raise ValueError(
            f"{name} labelled all {n_points} anchors as noise: there is no cluster to build on."
        )
    distinct, codes = np.unique(labels[~noise], return_inverse=True)
    if n_clusters is not None and len(distinct) != n_clusters:
        raise ValueError(
            f"{name} returned {len(distinct)} clusters of anchors, expected "
            f"n_clusters={n_clusters}. With n_clusters=None the number that it finds is taken."
        )
    if noise.any():
        warn_unfair(
            f"{name} labelled {int(noise.sum())} of {n_points} anchors as noise; they join the "
            "cluster of the nearest labelled anchor, since every row gets a cluster."
        )
    compact = np.full(n_points, -1, dtype=np.int64)
    compact[~noise] = codes
    return compact
