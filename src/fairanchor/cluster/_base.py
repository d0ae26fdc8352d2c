"""What all fair clustering estimators share: input checks and the attributes after ``fit``."""

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin

from fairanchor._utils._sklearn_compat import check_weights, validate_data
from fairanchor.cluster._attribute_report import unseen_combinations, unseen_values
from fairanchor.groups._columns import check_pairing, in_fitted_order, text_column
from fairanchor.groups._groups import check_groups, codes_of_known_groups, count_cells
from fairanchor.metrics import balance_of_table
from fairanchor.rows._open import kind_of


class FairClusterer(ClusterMixin, BaseEstimator):
    """Base of the estimators with ``fit(X, *, sensitive_features, sample_weight)``.

    A subclass writes ``fit`` with the same signature: it calls `_check_input`, computes
    labels in ``0..n_clusters-1``, calls `_store_labels` and sets ``n_iter_``.
    """

    # With metadata routing switched on, Pipeline and GridSearchCV hand the groups on.
    __metadata_request__fit = {"sensitive_features": True, "sample_weight": True}
    __metadata_request__fit_predict = {"sensitive_features": True, "sample_weight": True}

    def fit_predict(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        """Fit and return ``labels_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row; several columns mean their intersection.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of each row.
        """
        self.fit(X, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return self.labels_

    def _check_input(self, X, sensitive_features, sample_weight):
        """Validated C-contiguous float64 rows, `Groups`, and weights (``None`` stays ``None``)."""
        check_pairing(X, sensitive_features)
        X = check_rows(self, X)
        check_n_clusters(self.n_clusters, len(X))
        groups = check_groups(sensitive_features, len(X))
        return X, groups, check_weights(sample_weight, X)

    def _store_labels(self, labels, groups, weights=None, n_clusters=None):
        """Set ``labels_``, ``groups_``, ``counts_`` and ``balance_``."""
        self.labels_ = np.asarray(labels, dtype=np.int32)
        n_clusters = self.n_clusters if n_clusters is None else n_clusters
        counts = count_cells(self.labels_, groups.codes, n_clusters, groups.n_groups, weights)
        self.groups_ = groups.public_names
        self.counts_ = groups.to_public(counts)
        self.balance_ = balance_of_table(counts)


def check_rows(estimator, X, *, reset=True, keep_float32=False):
    """C-contiguous rows of float64, or of float32 if that is kept, all of them finite."""
    if hasattr(X, "collect") and not hasattr(X, "__len__"):
        raise TypeError(f"X is a {type(X).__name__}, which has no rows yet: call .collect() first.")
    if kind_of(X) == "files":
        raise TypeError(
            f"X is a {type(X).__name__}, expected rows in memory: {type(estimator).__name__} needs "
            "all of them at once. AnchorFairClustering().fit takes datasets, with the name of a "
            "column as sensitive_features."
        )
    names = getattr(X, "column_names", getattr(X, "columns", None))  # pyarrow's come first
    dtype = [np.float64, np.float32] if keep_float32 else np.float64
    options = {"dtype": dtype, "order": "C", "ensure_all_finite": False, "reset": reset}
    try:
        X = validate_data(estimator, X, **options)
    except ValueError as error:
        column = text_column(X) if "could not convert string" in str(error) else None
        if column is None:
            raise
        raise ValueError(
            f"Input X has text in {column}: {error}. Distances need numbers: encode the column as "
            "numbers (OneHotEncoder), or drop it."
        ) from error
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(X.sum(axis=0))  # false also when the sum overflows
    for j in np.flatnonzero(~finite):
        bad = np.flatnonzero(~np.isfinite(X[:, j]))
        if len(bad):
            column = f"column {j}" if names is None else f"column {names[j]!r}"
            what = "NaN" if np.isnan(X[bad[0], j]) else "infinity"
            raise ValueError(
                f"Input X contains {what}: {len(bad)} value(s) in {column} are not finite, the "
                f"first in row {bad[0]}. Distances need finite numbers: impute or drop them."
            )
    return X


def check_n_clusters(n_clusters, n_samples):
    """Refuse fewer rows than clusters."""
    if n_samples < n_clusters:
        raise ValueError(
            f"n_samples={n_samples} should be >= n_clusters={n_clusters}: "
            "a cluster without a row cannot be returned."
        )


def known_codes(
    estimator, sensitive_features, n_rows, *, unknown_groups="error", missing_groups="error"
):
    """Codes of new rows in the order of the estimator's ``groups_``.

    A group that ``fit`` has not seen is an error, or -1 if ``unknown_groups="blind"``, which
    covers missing values as well.

    Returns
    -------
    codes : ndarray of shape (n_rows,)
        Those after the estimator's groups are of ``extra``.
    extra : dict
        Prices of new combinations of separate attributes by their names; see
        `unseen_combinations`.
    """
    known = estimator.groups_
    if sensitive_features is None:
        if len(known) == 1:
            return np.zeros(n_rows, dtype=np.int64), {}
        if unknown_groups == "blind":
            return np.full(n_rows, -1, dtype=np.int64), {}
        raise ValueError(
            f"sensitive_features is None, but {type(estimator).__name__} was fitted with "
            f"{len(known)} groups: {known.tolist()[:20]}. A row's cluster depends on its group."
            f"{_way_out(estimator)}"
        )
    sensitive_features = in_fitted_order(estimator, sensitive_features)
    extra = unseen_combinations(estimator, sensitive_features)
    missing = "own_group" if unknown_groups == "blind" else missing_groups
    codes, unknown = codes_of_known_groups(
        sensitive_features, [*known, *extra], n_rows, missing=missing
    )
    if unknown and unknown_groups == "error":
        raise ValueError(
            f"sensitive_features has {_unknown_in_words(estimator, unknown)}. A group's prices are "
            f"learned in fit, so there are none for a new group.{_way_out(estimator)}"
        )
    return codes, extra


def _unknown_in_words(estimator, unknown):
    """Unknown groups with their rows, and the known ones; by column, where each is by itself."""
    by_column = unseen_values(estimator, unknown)
    if by_column is None:
        return (
            f"{len(unknown)} group(s) that fit has not seen: {_with_counts(unknown)}. Known "
            f"groups: {estimator.groups_.tolist()[:20]}"
        )
    listed = "; ".join(
        f"{_with_counts(counts)} in column {title!r}, whose groups are "
        f"{estimator.attribute_groups_[title].tolist()[:20]}"
        for title, counts in by_column.items()
    )
    return f"{sum(map(len, by_column.values()))} value(s) that fit has not seen: {listed}"


def _with_counts(unknown):
    return ", ".join(f"{name!r} ({count} rows)" for name, count in list(unknown.items())[:5])


def _way_out(estimator):
    if not hasattr(estimator, "unknown_groups"):
        return " AnchorFairClustering with unknown_groups='blind' labels rows of unknown groups."
    return (
        " To label rows of unknown groups, or without any, by average prices: "
        "set_params(unknown_groups='blind')."
    )


def fill_empty_clusters(X, labels, n_clusters, may_be_empty=None):
    """Labels in which every one of ``n_clusters`` clusters has a row.

    As long as a cluster is empty it takes, from the cluster with most rows, the row
    farthest from that cluster's mean (the lowest index on ties). ``may_be_empty`` tells which
    ones stay as they are.

    Returns
    -------
    labels : ndarray of shape (n_samples,)
        A new array.
    n_filled : int
        Number of clusters that were empty; a caller whose user expects otherwise warns.
    """
    labels = np.array(labels, dtype=np.int32)
    sizes = np.bincount(labels, minlength=n_clusters)
    empty = np.flatnonzero((sizes == 0) if may_be_empty is None else (sizes == 0) & ~may_be_empty)
    for cluster in empty:
        members = np.flatnonzero(labels == np.argmax(sizes))
        distance = ((X[members] - X[members].mean(axis=0)) ** 2).sum(axis=1)
        taken = members[np.argmax(distance)]
        sizes[labels[taken]] -= 1
        sizes[cluster] = 1
        labels[taken] = cluster
    return labels, len(empty)
