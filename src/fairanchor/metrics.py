"""Fairness and quality of labels, from any clustering method.

Conventions of all fairness metrics: empty clusters are skipped, and rows may carry weights.
``N[l, r]`` is the weight of group r in cluster l, ``N_l`` and ``pi_r`` are cluster sizes and
group shares.
"""

from bisect import bisect_left
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import entr
from sklearn.metrics import normalized_mutual_info_score
from sklearn.utils import check_array, column_or_1d

from fairanchor._utils._sklearn_compat import check_weights
from fairanchor._utils._typing import Labels, Table, Weights
from fairanchor.constraints._fairness_targets import FairnessTargets
from fairanchor.groups._columns import attribute_names, check_pairing, columns_of
from fairanchor.groups._groups import (
    Groups,
    check_attributes,
    check_groups,
    count_cells,
    encode_names,
)

__all__ = [
    "attribute_balance_scores",
    "attribute_mnce_scores",
    "attribute_relative_balance_scores",
    "balance_score",
    "breakdown_errors",
    "clustering_accuracy_score",
    "clustering_cost",
    "contingency_table",
    "cost_ratio_score",
    "dataset_balance",
    "mnce_score",
    "nmi_score",
    "relative_balance_score",
    "worst_relative_balance",
    "worst_violation",
]


def contingency_table(
    labels: Labels, *, sensitive_features: Table, sample_weight: Weights = None
) -> np.ndarray:
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
    labels = _checked(labels, sensitive_features)
    codes, names = encode_names(sensitive_features)
    return _count(labels, codes, len(names), check_weights(sample_weight, labels))


def balance_score(
    labels: Labels, *, sensitive_features: Table, sample_weight: Weights = None
) -> float:
    """Balance (Eq. 1 of the paper): the worst cluster's smallest group over its largest.

    ``min_l min_r N[l, r] / max_r N[l, r]`` over non-empty clusters. No clustering can
    exceed the balance of the whole data set, see `dataset_balance`.
    """
    return balance_of_table(
        contingency_table(
            labels, sensitive_features=sensitive_features, sample_weight=sample_weight
        )
    )


def dataset_balance(sensitive_features: Table, *, sample_weight: Weights = None) -> float:
    """Balance of all rows taken as one cluster: the largest that any clustering can have."""
    codes, _ = encode_names(sensitive_features)
    return balance_score(
        np.zeros(len(codes), dtype=np.int64),
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
    )


def relative_balance_score(
    labels: Labels, *, sensitive_features: Table, sample_weight: Weights = None
) -> float:
    """Worst ratio of a group's share in a cluster to its share in the data; 1 = proportional.

    ``min over cells of min(N[l, r] / (N_l pi_r), N_l pi_r / N[l, r])``.
    """
    return relative_balance_of_table(
        contingency_table(
            labels, sensitive_features=sensitive_features, sample_weight=sample_weight
        )
    )


def mnce_score(
    labels: Labels, *, sensitive_features: Table, sample_weight: Weights = None
) -> float:
    """Minimal normalised conditional entropy: the worst cluster's group entropy over the data's.

    In [0, 1]; 1 with a single group.
    """
    return mnce_of_table(
        contingency_table(
            labels, sensitive_features=sensitive_features, sample_weight=sample_weight
        )
    )


def clustering_accuracy_score(y_true: Labels, labels: Labels) -> float:
    """Share of rows whose cluster is matched to their class, under the best one-to-one matching."""
    y_true, labels = column_or_1d(y_true), column_or_1d(labels)
    _check_n_labels(labels, "y_true", len(y_true))
    classes, class_codes = np.unique(y_true, return_inverse=True)
    table = _count(labels, class_codes, len(classes))
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


def nmi_score(y_true: Labels, labels: Labels, *, average_method: str = "max") -> float:
    """Normalised mutual information.

    ``average_method`` is scikit-learn's; ``"max"`` is what the paper's tables match,
    scikit-learn's own default is ``"arithmetic"``.
    """
    y_true, labels = column_or_1d(y_true), column_or_1d(labels)
    _check_n_labels(labels, "y_true", len(y_true))
    return float(normalized_mutual_info_score(y_true, labels, average_method=average_method))


def clustering_cost(X: Table, labels: Labels, *, sample_weight: Weights = None) -> float:
    """k-means cost: squared distances of the rows to their cluster's mean, summed."""
    X = check_array(X, dtype=np.float64)
    labels = column_or_1d(labels)
    _check_n_labels(labels, "X", len(X))
    weight = np.ones(len(X)) if sample_weight is None else check_weights(sample_weight, X)
    cost = 0.0
    for cluster in np.unique(labels):
        members = labels == cluster
        w = weight[members]
        if w.sum() > 0:
            center = np.average(X[members], axis=0, weights=w)
            cost += float(w @ ((X[members] - center) ** 2).sum(axis=1))
    return cost


def attribute_balance_scores(
    labels: Labels, *, sensitive_features: Table, sample_weight: Weights = None
) -> dict[Any, float]:
    """`balance_score` of each sensitive column, one after the other.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        Cluster of each row.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Groups of each row.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    scores : dict
        By name of the column, or its number where columns have no names.

    Examples
    --------
    >>> from fairanchor.metrics import attribute_balance_scores
    >>> groups = [["a", "x"], ["b", "x"], ["b", "y"], ["a", "x"], ["b", "y"], ["b", "y"]]
    >>> scores = attribute_balance_scores([0, 0, 0, 1, 1, 1], sensitive_features=groups)
    >>> {column: round(score, 3) for column, score in scores.items()}
    {0: 0.5, 1: 0.5}
    """
    return _scores(balance_of_table, labels, sensitive_features, sample_weight)


def attribute_relative_balance_scores(
    labels: Labels, *, sensitive_features: Table, sample_weight: Weights = None
) -> dict[Any, float]:
    """`relative_balance_score` of each sensitive column, see `attribute_balance_scores`."""
    return _scores(relative_balance_of_table, labels, sensitive_features, sample_weight)


def attribute_mnce_scores(
    labels: Labels, *, sensitive_features: Table, sample_weight: Weights = None
) -> dict[Any, float]:
    """`mnce_score` of each sensitive column, see `attribute_balance_scores`."""
    return _scores(mnce_of_table, labels, sensitive_features, sample_weight)


def worst_violation(
    labels: Labels,
    *,
    sensitive_features: Table,
    targets: Any = 0.0,
    attributes: str = "intersection",
    sample_weight: Weights = None,
) -> float:
    """Number of rows by which the worst cell violates the constraint; 0 if none does.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        Cluster of each row; 0, 1, ... where the targets differ between clusters.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Groups of each row.
    targets : float, FairnessTargets, or list of these, default=0.0
        A tolerance around the shares of the data, or targets; a list has one entry for
        each column and goes with ``attributes="separate"``.
    attributes : {"intersection", "separate"}, default="intersection"
        Whether several columns are one attribute or each is one.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row; the violation is then a weight.

    Returns
    -------
    violation : float
        Number of rows, a fraction where a bound is one.

    Examples
    --------
    Each cluster should have two rows of each group, and has one too many of one:

    >>> from fairanchor.metrics import worst_violation
    >>> labels, groups = [0, 0, 0, 0, 1, 1, 1, 1], list("aaabbbba")
    >>> worst_violation(labels, sensitive_features=groups)
    1.0
    >>> worst_violation(labels, sensitive_features=groups, targets=0.5)
    0.0
    """
    if attributes not in ("intersection", "separate"):
        raise ValueError(f"attributes={attributes!r} should be 'intersection' or 'separate'.")
    labels = _checked(labels, sensitive_features)
    weights = check_weights(sample_weight, labels)
    if attributes == "separate":
        columns = check_attributes(sensitive_features, len(labels))
    else:
        columns = [check_groups(sensitive_features, len(labels))]
    each = list(targets) if isinstance(targets, (list, tuple)) else [targets] * len(columns)
    if len(each) != len(columns):
        raise ValueError(
            f"targets has {len(each)} entries, expected {len(columns)}: one for each attribute "
            f"with attributes={attributes!r}."
        )
    return max(_violation(labels, *pair, weights) for pair in zip(columns, each, strict=True))


def worst_relative_balance(labels: Labels, *, sensitive_features: Table, n_errors: int) -> float:
    """The least relative balance if the groups of up to ``n_errors`` rows are recorded wrongly.

    ``min over truths of relative_balance_score(labels, sensitive_features=truth)``, where a truth
    differs from the recorded groups in at most ``n_errors`` rows and has the same groups. Labels
    stay as they are. The minimum is exact: to make group r as rare as possible in cluster l, a of
    its rows there and b rows elsewhere are wrong, and for given ``a + b`` the ratio is monotone in
    a, so the two ends of the feasible interval are enough. The cost is that of one table.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        Cluster of each row.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Recorded group of each row; several columns mean their intersection.
    n_errors : int
        Number of rows whose record may be wrong.

    Returns
    -------
    score : float
        At most `relative_balance_score`, which it equals for no errors.

    Examples
    --------
    >>> from fairanchor.metrics import worst_relative_balance
    >>> labels, groups = [0] * 50 + [1] * 50, ["a", "b"] * 50
    >>> worst_relative_balance(labels, sensitive_features=groups, n_errors=0)
    1.0
    >>> round(worst_relative_balance(labels, sensitive_features=groups, n_errors=5), 3)
    0.889
    """
    if isinstance(n_errors, bool) or not isinstance(n_errors, Integral) or n_errors < 0:
        raise ValueError(f"n_errors={n_errors!r} should be a whole number of rows, at least 0.")
    table = contingency_table(labels, sensitive_features=sensitive_features)
    return worst_relative_balance_of_table(table, int(n_errors))


def breakdown_errors(
    labels: Labels, *, sensitive_features: Table, threshold: float = 0.8
) -> int | None:
    """The least number of wrong records that can push the relative balance below a threshold.

    The least m with ``worst_relative_balance(labels, ..., n_errors=m) < threshold``, found by
    bisection. As long as fewer records are wrong, the relative balance of the true groups is at
    least ``threshold``.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        Cluster of each row.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Recorded group of each row; several columns mean their intersection.
    threshold : float in [0, 1], default=0.8
        Least acceptable relative balance.

    Returns
    -------
    n_errors : int or None
        0 if the recorded groups are below the threshold already; None if no number of errors has
        this effect, as with a single cluster or a single group.

    Examples
    --------
    >>> from fairanchor.metrics import breakdown_errors
    >>> labels, groups = [0] * 50 + [1] * 50, ["a", "b"] * 50
    >>> breakdown_errors(labels, sensitive_features=groups)
    9
    """
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or not 0 <= threshold <= 1:
        raise ValueError(f"threshold={threshold!r} should be a number between 0 and 1.")
    table = contingency_table(labels, sensitive_features=sensitive_features)
    return breakdown_of_table(table, float(threshold))


def cost_ratio_score(
    X: Table, labels: Labels, reference: Any, *, sample_weight: Weights = None
) -> float:
    """The price of fairness: k-means cost of the labels over that of a reference.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows.
    labels : array-like of shape (n_samples,)
        Cluster of each row.
    reference : float or array-like of shape (n_samples,)
        Cost, or labels, of a clustering without constraint.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    ratio : float
        1 = fairness costs nothing; below 1 the reference was not the best.

    Examples
    --------
    >>> from fairanchor.metrics import cost_ratio_score
    >>> X = [[0.0], [1.0], [10.0], [11.0]]
    >>> cost_ratio_score(X, [0, 1, 1, 0], reference=[0, 0, 1, 1])
    101.0
    """
    cost = clustering_cost(X, labels, sample_weight=sample_weight)
    if isinstance(reference, Real):
        least = float(reference)
    else:
        least = clustering_cost(X, reference, sample_weight=sample_weight)
    if not least >= 0:
        raise ValueError(f"reference={reference!r} should be a cost of at least 0, or labels.")
    if least == 0.0:
        return 1.0 if cost == 0.0 else np.inf
    return cost / least


# The same measures for a table that is already counted.


def balance_of_table(table: Table) -> float:
    """`balance_score` of a clusters × groups table."""
    table = _non_empty(table)
    return float((table.min(axis=1) / table.max(axis=1)).min())


def relative_balance_of_table(table: Table) -> float:
    """`relative_balance_score` of a clusters × groups table."""
    table = _non_empty(table)
    # Products before the division: exact for counts, so that proportional tables give 1.
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    smaller, larger = np.minimum(table, expected), np.maximum(table, expected)
    return float((smaller / larger).min())


def mnce_of_table(table: Table) -> float:
    """`mnce_score` of a clusters × groups table."""
    table = _non_empty(table)
    of_all, *of_clusters = [entr(row / row.sum()).sum() for row in (table.sum(axis=0), *table)]
    return 1.0 if of_all == 0 else float(min(1.0, min(of_clusters) / of_all))


def worst_relative_balance_of_table(table: Table, n_errors: int) -> float:
    """`worst_relative_balance` of a clusters × groups table of counts."""
    table = _non_empty(table)
    if table.shape[1] == 1:
        return 1.0  # a record can only be wrong if there is another group
    total, sizes, groups = table.sum(), table.sum(axis=1, keepdims=True), table.sum(axis=0)
    others_inside, others_outside = sizes - table, total - sizes - groups + table
    least = 1.0
    # A cell loses `inside` rows and its group gains `outside` elsewhere, or the other way round.
    for sign, most_inside, most_outside in (
        (-1.0, table, others_outside),
        (1.0, others_inside, groups - table),
    ):
        for wanted in (np.maximum(n_errors - most_outside, 0.0), n_errors):
            inside = np.minimum(wanted, most_inside)
            outside = np.minimum(n_errors - inside, most_outside)
            cell = table + sign * inside
            expected = sizes * (groups + sign * (inside - outside)) / total
            smaller, larger = (cell, expected) if sign < 0 else (expected, cell)
            # A group that is empty in truth has no share to compare with.
            ratio = np.divide(smaller, larger, out=np.ones(cell.shape), where=larger > 0)
            least = min(least, float(ratio.min()))
    return least


def breakdown_of_table(table: Table, threshold: float = 0.8) -> int | None:
    """`breakdown_errors` of a clusters × groups table of counts."""
    most = int(np.sum(table))
    if worst_relative_balance_of_table(table, most) >= threshold:
        return None
    return bisect_left(
        range(most), True, key=lambda m: worst_relative_balance_of_table(table, m) < threshold
    )


def n_clusters_of(targets: FairnessTargets) -> int | None:
    """Number of clusters of targets that differ between clusters; None if they do not."""
    for shares in (targets.shares, targets.lower, targets.upper):
        if isinstance(shares, dict):
            shares = np.array(list(shares.values()), dtype=np.float64).T
        if np.ndim(shares) == 2:
            return len(shares)
    for sizes in (targets.min_size, targets.max_size):
        if np.ndim(sizes) == 1:
            return len(sizes)
    return None


def _check_n_labels(labels: np.ndarray, name: str, n_rows: int) -> None:
    if len(labels) != n_rows:
        raise ValueError(
            f"{name} has {n_rows} rows, labels has {len(labels)}: expected as many labels as rows."
        )


def _checked(labels: Labels, sensitive_features: Table) -> np.ndarray:
    check_pairing(labels, sensitive_features, "labels")
    labels = column_or_1d(labels)
    if len(labels) == 0:
        raise ValueError("labels is empty: expected the cluster of at least one row.")
    if sensitive_features is not None:
        for _, values in columns_of(sensitive_features):
            _check_n_labels(labels, "sensitive_features", len(values))
    return labels


def _scores(
    measure: Callable, labels: Labels, sensitive_features: Table, sample_weight: Weights
) -> dict[Any, float]:
    """A measure of each sensitive column by its name."""
    labels = _checked(labels, sensitive_features)
    weights = check_weights(sample_weight, labels)
    attributes = check_attributes(sensitive_features, len(labels))
    tables = [_count(labels, groups.codes, groups.n_groups, weights) for groups in attributes]
    names = attribute_names(sensitive_features, len(tables))
    return dict(zip(names, map(measure, tables), strict=True))


def _violation(labels: np.ndarray, groups: Groups, targets: Any, weights: Any) -> float:
    if isinstance(targets, Real):
        targets = FairnessTargets(tolerance=targets)
    if not isinstance(targets, FairnessTargets):
        raise TypeError(
            f"targets={targets!r} should be a tolerance between 0 and 1, or FairnessTargets."
        )
    n_clusters = n_clusters_of(targets)
    if n_clusters is None:
        table = _count(labels, groups.codes, groups.n_groups, weights)
    elif labels.dtype.kind in "iu" and labels.min() >= 0 and labels.max() < n_clusters:
        table = count_cells(labels, groups.codes, n_clusters, groups.n_groups, weights)
    else:
        raise ValueError(
            f"The targets have a row for each of {n_clusters} clusters: expected labels "
            f"0..{n_clusters - 1}, got {np.unique(labels)[:20].tolist()}."
        )
    bounds = targets.resolve(groups, len(table), group_sizes=table.sum(axis=0))
    return bounds.violation(table)


def _count(
    labels: np.ndarray, codes: np.ndarray, n_codes: int, weights: np.ndarray | None = None
) -> np.ndarray:
    """Table of the clusters that occur, in sorted order."""
    if len(labels) == 0:
        raise ValueError("labels is empty: there is nothing to measure.")
    clusters, rows = np.unique(labels, return_inverse=True)
    return count_cells(rows.reshape(-1), codes, len(clusters), n_codes, weights)


def _non_empty(table: Table) -> np.ndarray:
    """Without the clusters and groups that have no weight: rows of weight 0 count as absent."""
    table = np.asarray(table, dtype=np.float64)
    kept = table[np.ix_(table.sum(axis=1) > 0, table.sum(axis=0) > 0)]
    if kept.size == 0:
        raise ValueError("There is no row in any cluster: there is nothing to measure.")
    return kept
