"""What methods on weighted rows in memory share: means, costs, rows without weight."""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from fairanchor._utils._shared_state import users_stacklevel
from fairanchor.exceptions import FairnessWarning
from fairanchor.groups._groups import count_cells
from fairanchor.rows._sums import label_cost, label_sums


def squared_distances(X, centers):
    """Squared distance of each row to each centre."""
    return cdist(X, centers, "sqeuclidean")


def cluster_means(X, weights, labels, n_clusters):
    """Weighted means of the clusters, each of which must have weight."""
    sums, totals = label_sums(X, weights, labels, n_clusters)
    return sums / totals[:, None]


def within_cost(X, weights, labels, centers):
    """Weighted squared distance of the rows to their cluster's centre."""
    return label_cost(X, weights, labels, centers)


def rows_with_weight(weights, n_clusters, n_rows):
    """Indices of the rows of positive weight; refuse fewer of them than clusters."""
    if weights is None:
        return np.arange(n_rows)
    kept = np.flatnonzero(weights > 0)
    if len(kept) < n_clusters:
        raise ValueError(
            f"sample_weight is positive for {len(kept)} rows, fewer than n_clusters={n_clusters}: "
            "a row of weight zero takes no part, so some cluster would be empty."
        )
    return kept


def spread_labels(X, kept, labels, centers):
    """Labels of all rows: ``labels`` for the kept ones, the nearest centre for the others."""
    if len(kept) == len(X):
        return labels
    of_all = np.argmin(squared_distances(X, centers), axis=1).astype(np.int32)
    of_all[kept] = labels
    return of_all


def warn_about_small_groups(groups, n_clusters, kept=None, attributes=None):
    """Name a group that is too small to have a row in every cluster.

    Parameters
    ----------
    groups : Groups
    n_clusters : int
    kept : ndarray of row indices, default=None
        Rows that count; by default all.
    attributes : Attributes, default=None
        Columns that are attributes by themselves: the combinations of their groups may be small.
    """
    sizes, names = groups.sizes, groups.names
    if kept is not None:
        sizes = np.bincount(groups.codes[kept], minlength=groups.n_groups)
    if attributes is not None:
        codes = attributes.joint.T
        sizes = np.concatenate([np.bincount(own, weights=sizes) for own in codes]).astype(np.int64)
        names = np.concatenate(attributes.names)
    small = np.flatnonzero((sizes > 0) & (sizes < n_clusters))
    if len(small) == 0:
        return
    smallest = small[np.argmin(sizes[small])]
    warnings.warn(
        f"{len(small)} of {len(sizes)} groups have fewer rows than n_clusters={n_clusters} "
        f"(the smallest, {names[smallest]!r}, has {sizes[smallest]}): such a group cannot "
        "be in every cluster, so its share means little. Merge it with another group, or ask for "
        "fewer clusters.",
        FairnessWarning,
        stacklevel=users_stacklevel(),
    )


@dataclass(frozen=True)
class WeightedRows:
    """Rows of positive weight, and what is counted of them under given labels."""

    X: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    n_clusters: int
    n_groups: int

    @classmethod
    def of(cls, X, groups, weights, kept, n_clusters):
        """The rows at ``kept``, groups without weight left out; no weights means ones."""
        present, codes = np.unique(groups.codes[kept], return_inverse=True)
        kept_weights = np.ones(len(kept)) if weights is None else weights[kept]
        return cls(X[kept], codes, kept_weights, n_clusters, len(present))

    @property
    def has_equal_weights(self):
        return bool(np.all(self.weights == self.weights[0]))

    def masses(self, labels):
        """Weight of each group in each cluster."""
        return count_cells(labels, self.codes, self.n_clusters, self.n_groups, self.weights)

    def centers(self, labels):
        return cluster_means(self.X, self.weights, labels, self.n_clusters)

    def cost(self, labels):
        """Weighted squared distance to the means of the clusters."""
        return within_cost(self.X, self.weights, labels, self.centers(labels))
