"""What the clusters are: sizes, groups, features and typical rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils import check_array

from fairanchor._utils._records import RecordTable
from fairanchor._utils._typing import Table
from fairanchor.plotting._composition import check_rows_of_fit
from fairanchor.plotting._names import feature_names_of
from fairanchor.plotting._rows import cluster_profiles


@dataclass(frozen=True)
class ClusterProfiles(RecordTable):
    """What each cluster is.

    Attributes
    ----------
    records : list of dict
        One per cluster: ``cluster``, ``size``, ``share`` of all rows, ``share of GROUP`` for each
        group, the standardised difference of each feature by the feature's name, and
        ``typical_rows``.
    feature_names : list
        Names of the features.
    differences : ndarray of shape (n_clusters, n_features)
        Mean of the cluster minus mean of all rows, in standard deviations of all rows; NaN for an
        empty cluster.
    typical_rows : list of list of int
        Rows nearest to the mean of the cluster, the nearest first.
    """

    feature_names: list[Any]
    differences: np.ndarray = field(repr=False)
    typical_rows: list[list[int]] = field(repr=False)


def describe_clusters(
    model: Any,
    X: Table,
    *,
    feature_names: Sequence[Any] | None = None,
    n_typical: int = 3,
) -> ClusterProfiles:
    """Describe the clusters of a fitted model by size, groups, features and typical rows.

    Parameters
    ----------
    model : fitted estimator
        An estimator of this library, with ``labels_``, ``counts_`` and ``groups_``.
    X : array-like of shape (n_samples, n_features)
        The rows that it was fitted on.
    feature_names : sequence of length n_features, default=None
        By default the column names of ``X``, or "feature 0" and so on if it has none.
    n_typical : int, default=3
        Number of typical rows of each cluster.

    Returns
    -------
    profiles : ClusterProfiles
        A record for each cluster.

    Examples
    --------
    >>> from fairanchor import FairKMeans, describe_clusters
    >>> X = [[0.0, 1.0], [0.0, 2.0], [8.0, 1.0], [8.0, 2.0]]
    >>> model = FairKMeans(2, random_state=0).fit(X, sensitive_features=["a", "b", "a", "b"])
    >>> profiles = describe_clusters(model, X, feature_names=["income", "age"], n_typical=1)
    >>> sorted((record["income"], record["share of a"]) for record in profiles.records)
    [(-1.0, 0.5), (1.0, 0.5)]
    """
    names = feature_names_of(X, feature_names)
    X = check_array(X, dtype=np.float64, input_name="X")
    check_rows_of_fit(model, len(X))
    labels, counts = np.asarray(model.labels_), model.counts_
    differences = cluster_profiles(X, labels, len(counts))[0]
    typical = typical_rows(X, labels, len(counts), n_typical)
    sizes = counts.sum(axis=1)
    records = []
    for l, row in enumerate(counts):
        record = {"cluster": l, "size": sizes[l].item(), "share": float(sizes[l] / sizes.sum())}
        for name, count in zip(model.groups_, row, strict=True):
            record[f"share of {name}"] = float(count / max(sizes[l], 1e-300))
        record |= {str(name): float(v) for name, v in zip(names, differences[l], strict=True)}
        records.append(record | {"typical_rows": typical[l]})
    return ClusterProfiles(records, names, differences, typical)


def typical_rows(
    X: np.ndarray, labels: np.ndarray, n_clusters: int, n_typical: int
) -> list[list[int]]:
    """Rows nearest to the mean of each cluster."""
    nearest = []
    for l in range(n_clusters):
        members = np.flatnonzero(labels == l)
        distances = (
            ((X[members] - X[members].mean(axis=0)) ** 2).sum(axis=1) if len(members) else []
        )
        nearest.append(members[np.argsort(distances, kind="stable")[:n_typical]].tolist())
    return nearest
