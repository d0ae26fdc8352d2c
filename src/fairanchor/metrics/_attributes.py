"""Fairness of labels for several attributes, against limits, and its price.

`fairanchor.metrics` makes these public. Where it takes one table, these take several
sensitive columns, each measured by itself.
"""

from importlib import import_module
from numbers import Real

import numpy as np
from sklearn.utils import column_or_1d

from fairanchor._utils._sklearn_compat import check_weights
from fairanchor.constraints._fairness_targets import FairnessTargets
from fairanchor.groups._columns import attribute_names
from fairanchor.groups._groups import check_attributes, check_groups, columns_of


def attribute_balance_scores(labels, *, sensitive_features, sample_weight=None):
    """`balance_score` of each sensitive column by itself.

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
        By title of the column, or its number where columns have no titles.

    Examples
    --------
    >>> from fairanchor.metrics import attribute_balance_scores
    >>> groups = [["a", "x"], ["b", "x"], ["b", "y"], ["a", "x"], ["b", "y"], ["b", "y"]]
    >>> scores = attribute_balance_scores([0, 0, 0, 1, 1, 1], sensitive_features=groups)
    >>> {column: round(score, 3) for column, score in scores.items()}
    {0: 0.5, 1: 0.5}
    """
    return _scores("balance_of_table", labels, sensitive_features, sample_weight)


def attribute_relative_balance_scores(labels, *, sensitive_features, sample_weight=None):
    """`relative_balance_score` of each sensitive column by itself; 1 = proportional.

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
        By title of the column, or its number where columns have no titles.

    Examples
    --------
    >>> from fairanchor.metrics import attribute_relative_balance_scores
    >>> groups = [["a", "x"], ["b", "x"], ["b", "y"], ["a", "x"], ["b", "y"], ["b", "y"]]
    >>> scores = attribute_relative_balance_scores([0, 0, 0, 1, 1, 1], sensitive_features=groups)
    >>> {column: round(score, 3) for column, score in scores.items()}
    {0: 1.0, 1: 0.667}
    """
    return _scores("relative_balance_of_table", labels, sensitive_features, sample_weight)


def attribute_mnce_scores(labels, *, sensitive_features, sample_weight=None):
    """`mnce_score` of each sensitive column by itself.

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
        By title of the column, or its number where columns have no titles.

    Examples
    --------
    >>> from fairanchor.metrics import attribute_mnce_scores
    >>> groups = [["a", "x"], ["b", "x"], ["b", "y"], ["a", "x"], ["b", "y"], ["b", "y"]]
    >>> scores = attribute_mnce_scores([0, 0, 0, 1, 1, 1], sensitive_features=groups)
    >>> {column: round(score, 3) for column, score in scores.items()}
    {0: 1.0, 1: 0.918}
    """
    return _scores("mnce_of_table", labels, sensitive_features, sample_weight)


def worst_violation(
    labels, *, sensitive_features, targets=0.0, attributes="intersection", sample_weight=None
):
    """By how many rows the worst cell misses what was asked for; 0 if none does.

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
        Number of rows, a fraction where a limit is one.

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
    labels = _given_labels(labels, sensitive_features)
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
    own = [_violation(labels, *pair, weights) for pair in zip(columns, each, strict=True)]
    return max(own)


def cost_ratio_score(X, labels, reference, *, sample_weight=None):
    """The price of fairness: k-means cost of the labels over that of a reference.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows.
    labels : array-like of shape (n_samples,)
        Cluster of each row.
    reference : float or array-like of shape (n_samples,)
        Cost, or labels, of a clustering without regard to fairness.
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
    clustering_cost = _measure("clustering_cost")
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


def attribute_tables(labels, sensitive_features, sample_weight=None):
    """Table of clusters × groups of each sensitive column, by its title.

    Clusters are those that occur, groups are in the sorted order of their names.
    """
    labels = _given_labels(labels, sensitive_features)
    weights = check_weights(sample_weight, labels)
    attributes = check_attributes(sensitive_features, len(labels))
    clusters, rows = np.unique(labels, return_inverse=True)
    tables = [
        groups.to_public(_count(rows.reshape(-1), groups, len(clusters), weights))
        for groups in attributes
    ]
    return dict(zip(attribute_names(sensitive_features, len(tables)), tables, strict=True))


def check_n_labels(labels, name, n_rows):
    """Refuse labels of more or fewer rows than something else has."""
    if len(labels) != n_rows:
        raise ValueError(
            f"{name} has {n_rows} rows, labels has {len(labels)}: expected as many labels as rows."
        )


def _given_labels(labels, sensitive_features):
    labels = column_or_1d(labels)
    if len(labels) == 0:
        raise ValueError("labels has no rows: expected the cluster of at least one row.")
    if sensitive_features is not None:
        for _, values in columns_of(sensitive_features):
            check_n_labels(labels, "sensitive_features", len(values))
    return labels


def _measure(name):
    # Not at the top: that module makes this one's functions public.
    return getattr(import_module("fairanchor.metrics"), name)


def _scores(name, labels, sensitive_features, sample_weight):
    tables = attribute_tables(labels, sensitive_features, sample_weight)
    measure = _measure(name)
    return {title: measure(table) for title, table in tables.items()}


def _violation(labels, groups, targets, weights):
    if isinstance(targets, Real):
        targets = FairnessTargets.proportional(targets)
    if not isinstance(targets, FairnessTargets):
        raise TypeError(
            f"targets={targets!r} should be a tolerance between 0 and 1, or FairnessTargets."
        )
    n_clusters = n_clusters_of(targets)
    if n_clusters is None:
        clusters, rows = np.unique(labels, return_inverse=True)
        n_clusters = len(clusters)
    else:
        rows = labels
        if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= n_clusters:
            raise ValueError(
                f"The targets have a row for each of {n_clusters} clusters: expected labels "
                f"0..{n_clusters - 1}, got {np.unique(labels)[:20].tolist()}."
            )
    table = _count(rows.reshape(-1), groups, n_clusters, weights)
    limits = targets.resolve(groups, n_clusters, group_sizes=table.sum(axis=0))
    return limits.violation(table)


def n_clusters_of(targets):
    """Number of clusters of targets that tell them apart; None if they do not."""
    for given in (targets.shares, targets.lower, targets.upper):
        if isinstance(given, dict):
            given = np.array(list(given.values()), dtype=np.float64).T
        shape = () if given is None else np.shape(given)
        if len(shape) == 2:
            return shape[0]
    for given in (targets.min_size, targets.max_size):
        if np.ndim(given) == 1:
            return len(given)
    return None


def _count(rows, groups, n_clusters, weights):
    cells = rows.astype(np.int64) * groups.n_groups + groups.codes
    counts = np.bincount(cells, weights=weights, minlength=n_clusters * groups.n_groups)
    return counts.reshape(n_clusters, groups.n_groups)
