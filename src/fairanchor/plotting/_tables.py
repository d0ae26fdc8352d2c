"""Tables behind the figures: which clusters and groups are shown, in which order."""

from dataclasses import dataclass

import numpy as np

from fairanchor.groups._groups import encode_names
from fairanchor.metrics import relative_balance_of_table

MAX_CLUSTERS = 40
MAX_GROUPS = 8


@dataclass(frozen=True)
class Composition:
    """Counts of a clustering, with names.

    Attributes
    ----------
    table : ndarray of shape (n_clusters, n_groups)
        Rows, or weight, of each cell.
    clusters, groups : list
        Names.
    """

    table: np.ndarray
    clusters: list
    groups: list

    @property
    def population(self):
        """Share of each group in all rows."""
        return self.table.sum(axis=0) / self.table.sum()

    def shares(self):
        """Share of each group in each cluster; an empty cluster has zeros."""
        sizes = self.table.sum(axis=1, keepdims=True)
        return np.divide(self.table, sizes, out=np.zeros(self.table.shape), where=sizes > 0)


def composition_of(clustering, sensitive_features=None, sample_weight=None):
    """Composition of a fitted estimator, or of labels and groups.

    Parameters
    ----------
    clustering : fitted estimator, array of labels, or Composition
        An estimator brings its own groups, unless others are given.
    sensitive_features : array-like, default=None
        Group of each row; needed with labels.
    sample_weight : array-like, default=None
        Weight of each row, with ``sensitive_features``.
    """
    if isinstance(clustering, Composition):
        return clustering
    if sensitive_features is None:
        return _of_estimator(clustering, sample_weight)
    if hasattr(clustering, "fit"):
        clustering = fitted(clustering, "labels_")
    cluster_codes, clusters = _encode_labels(clustering)
    codes, groups = encode_names(sensitive_features)
    if len(codes) != len(cluster_codes):
        raise ValueError(
            f"sensitive_features has {len(codes)} rows, labels has {len(cluster_codes)}: "
            "every row needs exactly one group."
        )
    weights = _check_weights(sample_weight, len(codes))
    table = count_table(cluster_codes, codes, len(clusters), len(groups), weights)
    return Composition(table, clusters, groups)


def _of_estimator(estimator, sample_weight):
    """Composition by the groups that an estimator was fitted with."""
    if not hasattr(estimator, "fit"):
        raise ValueError(
            "sensitive_features is None: with an array of labels the group of each row is needed "
            "too. A fitted estimator of this library brings its own."
        )
    if sample_weight is not None:
        raise ValueError(
            "sample_weight is given without sensitive_features: the counts of a fitted estimator "
            "are in the weights that it was fitted with. Give the groups too, or no weights."
        )
    table = np.asarray(fitted(estimator, "counts_"), dtype=float)
    return Composition(table, list(range(len(table))), list(estimator.groups_))


def _encode_labels(labels):
    labels = np.asarray(labels, dtype=object if isinstance(labels, list) else None)
    if labels.ndim != 1:
        raise ValueError(f"labels has shape {labels.shape}, expected (n_rows,).")
    codes, clusters = encode_names(labels, missing="own_group")
    if None in clusters:
        missing = codes == clusters.index(None)
        raise ValueError(
            f"labels has {np.count_nonzero(missing)} missing value(s) in {len(codes)} rows, the "
            f"first in row {int(missing.argmax())}: a row without a label is in no cluster. Leave "
            "such rows out."
        )
    return codes, clusters


def _check_weights(weights, n_rows):
    if weights is None:
        return None
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (n_rows,) or not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError(
            f"sample_weight has shape {weights.shape}, expected ({n_rows},) and finite numbers "
            "that are not negative."
        )
    return weights


def fitted(estimator, attribute):
    """An attribute that ``fit`` sets, or an error that says so."""
    if not hasattr(estimator, attribute):
        raise ValueError(
            f"{type(estimator).__name__} has no {attribute}: it is not fitted, or it is not an "
            "estimator that sets it. Give arrays instead."
        )
    return getattr(estimator, attribute)


def count_table(labels, codes, n_clusters, n_groups, weights=None):
    """Rows, or weight, of each cell."""
    cells = np.asarray(labels, dtype=np.int64) * n_groups + codes
    table = np.bincount(cells, weights=weights, minlength=n_clusters * n_groups)
    return table.reshape(n_clusters, n_groups).astype(float)


def clusters_to_show(table, at_most=MAX_CLUSTERS):
    """Numbers of the non-empty clusters, or of those farthest from the population."""
    sizes = table.sum(axis=1)
    present = np.flatnonzero(sizes > 0)
    if len(present) <= at_most:
        return present
    rest = table.sum(axis=0)
    closeness = [relative_balance_of_table(np.vstack([table[l], rest - table[l]])) for l in present]
    return np.sort(present[np.argsort(closeness, kind="stable")[:at_most]])


def fold_small_groups(composition, at_most=MAX_GROUPS):
    """The largest groups, the others added up as the last one; as it is if there are few."""
    sizes = composition.table.sum(axis=0)
    present = np.flatnonzero(sizes > 0)
    if len(present) <= at_most:
        names = [composition.groups[r] for r in present]
        return Composition(composition.table[:, present], composition.clusters, names)
    order = present[np.argsort(-sizes[present], kind="stable")]
    kept, folded = np.sort(order[: at_most - 1]), order[at_most - 1 :]
    table = np.column_stack([composition.table[:, kept], composition.table[:, folded].sum(axis=1)])
    names = [*[composition.groups[r] for r in kept], f"{len(folded)} smaller groups"]
    return Composition(table, composition.clusters, names)
