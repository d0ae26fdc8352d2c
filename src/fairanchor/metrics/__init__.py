"""Fairness and quality of given labels, whoever made them.

Conventions shared by all fairness metrics: empty clusters are skipped, and rows may
carry weights. ``N[l, r]`` is the weight of group r in cluster l, ``N_l`` and ``pi_r``
are cluster sizes and group shares.
"""

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import normalized_mutual_info_score
from sklearn.utils import check_array, column_or_1d

from fairanchor._utils._sklearn_compat import check_weights
from fairanchor.groups._groups import encode_names
from fairanchor.metrics._attributes import (
    attribute_balance_scores,
    attribute_mnce_scores,
    attribute_relative_balance_scores,
    check_n_labels,
    cost_ratio_score,
    worst_violation,
)

__all__ = [
    "attribute_balance_scores",
    "attribute_mnce_scores",
    "attribute_relative_balance_scores",
    "balance_score",
    "clustering_accuracy_score",
    "clustering_cost",
    "contingency_table",
    "cost_ratio_score",
    "dataset_balance",
    "mnce_score",
    "nmi_score",
    "relative_balance_score",
    "worst_violation",
]


def contingency_table(labels, *, sensitive_features, sample_weight=None):
    """Weight of each group in each non-empty cluster.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        Cluster of each row.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Group of each row; several columns mean their intersection.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    table : ndarray of shape (n_clusters, n_groups)
        Clusters and groups in sorted order.
    """
    labels = column_or_1d(labels)
    codes, names = encode_names(sensitive_features)
    check_n_labels(labels, "sensitive_features", len(codes))
    return _count(labels, codes, len(names), check_weights(sample_weight, labels))


def balance_score(labels, *, sensitive_features, sample_weight=None):
    """Balance (Eq. 1 of the paper): the worst cluster's smallest group over its largest.

    ``min_l min_r N[l, r] / max_r N[l, r]`` over non-empty clusters. No clustering can
    exceed the balance of the whole data set, see `dataset_balance`.
    """
    table = contingency_table(
        labels, sensitive_features=sensitive_features, sample_weight=sample_weight
    )
    return balance_of_table(table)


def dataset_balance(sensitive_features, *, sample_weight=None):
    """Balance of all rows taken as one cluster: the largest that any clustering can have."""
    codes, _ = encode_names(sensitive_features)
    return balance_score(
        np.zeros(len(codes), dtype=np.int64),
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
    )


def relative_balance_score(labels, *, sensitive_features, sample_weight=None):
    """Worst ratio of a group's share in a cluster to its share in the data; 1 = proportional.

    ``min over cells of min(N[l, r] / (N_l pi_r), N_l pi_r / N[l, r])``.
    """
    table = contingency_table(
        labels, sensitive_features=sensitive_features, sample_weight=sample_weight
    )
    return relative_balance_of_table(table)


def mnce_score(labels, *, sensitive_features, sample_weight=None):
    """Minimal normalised conditional entropy: the worst cluster's group entropy over the data's.

    In [0, 1]; 1 with a single group.
    """
    table = contingency_table(
        labels, sensitive_features=sensitive_features, sample_weight=sample_weight
    )
    return mnce_of_table(table)


def clustering_accuracy_score(y_true, labels):
    """Share of rows whose cluster is matched to their class, under the best one-to-one matching."""
    y_true, labels = column_or_1d(y_true), column_or_1d(labels)
    check_n_labels(labels, "y_true", len(y_true))
    classes, class_codes = np.unique(y_true, return_inverse=True)
    table = _count(labels, class_codes, len(classes))
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


def nmi_score(y_true, labels, *, average_method="max"):
    """Normalised mutual information.

    ``average_method`` is scikit-learn's; ``"max"`` is what the paper's tables match,
    scikit-learn's own default is ``"arithmetic"``.
    """
    y_true, labels = column_or_1d(y_true), column_or_1d(labels)
    check_n_labels(labels, "y_true", len(y_true))
    return float(normalized_mutual_info_score(y_true, labels, average_method=average_method))


def clustering_cost(X, labels, *, sample_weight=None):
    """k-means cost: squared distances of the rows to their cluster's mean, summed."""
    X = check_array(X, dtype=np.float64)
    labels = column_or_1d(labels)
    check_n_labels(labels, "X", len(X))
    weight = np.ones(len(X)) if sample_weight is None else check_weights(sample_weight, X)
    cost = 0.0
    for cluster in np.unique(labels):
        members = labels == cluster
        w = weight[members]
        if w.sum() > 0:
            center = np.average(X[members], axis=0, weights=w)
            cost += float(w @ ((X[members] - center) ** 2).sum(axis=1))
    return cost


# The same measures for a table that is already counted.


def balance_of_table(table):
    """`balance_score` of a clusters × groups table."""
    table = _non_empty(table)
    return float((table.min(axis=1) / table.max(axis=1)).min())


def relative_balance_of_table(table):
    """`relative_balance_score` of a clusters × groups table."""
    table = _non_empty(table)
    # Products before the division: exact for counts, so that proportional tables give 1.
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    smaller, larger = np.minimum(table, expected), np.maximum(table, expected)
    return float((smaller / larger).min())


def mnce_of_table(table):
    """`mnce_score` of a clusters × groups table."""
    table = _non_empty(table)
    of_all = _entropy(table.sum(axis=0, keepdims=True))[0]
    if of_all == 0:
        return 1.0
    return float(min(1.0, _entropy(table).min() / of_all))


def _count(labels, codes, n_codes, weights=None):
    if len(labels) == 0:
        raise ValueError("labels is empty: there is nothing to measure.")
    clusters, rows = np.unique(labels, return_inverse=True)
    cells = rows.reshape(-1) * n_codes + codes
    table = np.bincount(cells, weights=weights, minlength=len(clusters) * n_codes)
    return table.reshape(len(clusters), n_codes)


def _non_empty(table):
    """Without the clusters and groups that have no weight: rows of weight 0 count as absent."""
    table = np.asarray(table, dtype=np.float64)
    kept = table[np.ix_(table.sum(axis=1) > 0, table.sum(axis=0) > 0)]
    if kept.size == 0:
        raise ValueError("There is no row in any cluster: there is nothing to measure.")
    return kept


def _entropy(table):
    shares = table / table.sum(axis=1, keepdims=True)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return 0.0 - (shares * logs).sum(axis=1)  # a pure cluster has 0.0, not -0.0
