"""What the fair clustering estimators share: input checks, weights, attributes after ``fit``."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.metrics import pairwise_distances_argmin

from fairanchor._utils._shared_state import equal_centers_allowed, one_thread, warn_unfair
from fairanchor._utils._sklearn_compat import (
    Interval,
    check_weights,
    fit_context,
    validate_data,
)
from fairanchor._utils._typing import Table, Weights
from fairanchor.groups._columns import check_pairing, in_fitted_order, text_column
from fairanchor.groups._groups import (
    Attributes,
    Groups,
    check_groups,
    codes_of_known_groups,
    count_cells,
    encode_names,
)
from fairanchor.metrics import balance_of_table
from fairanchor.rows._open import kind_of
from fairanchor.rows._sums import label_cost, label_sums, sparse_squared_distances
from fairanchor.rows._tables import check_finite

#: Squares of products of weights and features stay in the range of doubles.
SMALLEST, LARGEST = 1e-50, 1e50
#: Constraints of parameters that most clusterers have.
COMMON_CONSTRAINTS: dict = {
    "n_clusters": [Interval(Integral, 1, None, closed="left")],
    "n_init": [Interval(Integral, 1, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
}


class FairClusterer(ClusterMixin, BaseEstimator):
    """Base of the estimators with ``fit(X, *, sensitive_features, sample_weight)``.

    A subclass writes ``_fit(X, groups, weights)``, which sets ``n_iter_`` and returns labels in
    ``0..n_clusters-1``. All weights are positive; without ``sample_weight`` they are one. Fitted
    attributes with one entry per row are named in ``_of_rows``, those that are indices of rows in
    ``_row_numbers``.
    """

    # With metadata routing switched on, Pipeline and GridSearchCV pass the groups on.
    __metadata_request__fit = {"sensitive_features": True, "sample_weight": True}
    __metadata_request__fit_predict = {"sensitive_features": True, "sample_weight": True}

    _of_rows: tuple[str, ...] = ()
    _row_numbers: tuple[str, ...] = ()
    n_clusters: Any

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Table,
        y: Any = None,
        *,
        sensitive_features: Table = None,
        sample_weight: Weights = None,
    ) -> Self:
        """Cluster the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster. The largest absolute value is between 1e-50 and 1e50, or all are zero.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row; several columns mean their intersection.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row; what it means is part of the description of the class. Rows of
            weight zero take no part, as if they were removed, and then get the cluster of the
            nearest row that has a weight.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X, groups, weights = self._check_input(X, sensitive_features, sample_weight)
        if weights is None or weights.all():
            labels = self._fit_weighted(X, groups, weights)
        else:
            kept = np.flatnonzero(weights)
            if len(kept) < self.n_clusters:
                raise ValueError(
                    f"sample_weight is positive for {len(kept)} rows, fewer than n_clusters="
                    f"{self.n_clusters}: a row of weight zero takes no part, so some cluster would "
                    "be empty."
                )
            rows, place = self._split_off(X, kept)
            labels = self._fit_weighted(rows, groups.take(kept), weights[kept])[place]
            for name in self._of_rows:
                setattr(self, name, getattr(self, name)[place])
            for name in self._row_numbers:
                setattr(self, name, kept[getattr(self, name)])
        self._store_labels(labels, groups, weights)
        return self

    def fit_predict(
        self,
        X: Table,
        y: Any = None,
        *,
        sensitive_features: Table = None,
        sample_weight: Weights = None,
    ) -> np.ndarray:
        """Fit and return the labels of all rows, also of rows that are not in memory.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As in `fit`.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of each row.
        """
        self.fit(X, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return self._fitted_labels()

    def _fitted_labels(self) -> np.ndarray:
        return self.labels_

    def _fit_weighted(self, X: Any, groups: Groups, weights: np.ndarray | None) -> np.ndarray:
        """Fit rows that all have a weight."""
        warn_about_small_groups(groups, self.n_clusters, self._attributes_of(groups))
        known = np.ones(X.shape[0]) if weights is None else weights
        # One thread: the last bits of sums depend on their number. Every cluster gets a row in the
        # end, so that k-means may find fewer.
        with one_thread(), equal_centers_allowed():
            return self._fit(X, groups, known)

    def _fit(self, X: np.ndarray, groups: Groups, weights: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _attributes_of(self, groups: Groups) -> Attributes | None:
        """The sensitive columns, if each is an attribute by itself."""
        return None

    def _split_off(self, X: Any, kept: np.ndarray) -> tuple[Any, np.ndarray]:
        """The rows ``kept``, and for every row the place of the nearest of them."""
        others = np.setdiff1d(np.arange(len(X)), kept)
        place = np.zeros(len(X), dtype=np.int64)
        place[kept] = np.arange(len(kept))
        place[others] = pairwise_distances_argmin(X[others], X[kept])
        return X[kept], place

    def _check_input(
        self, X: Table, sensitive_features: Table, sample_weight: Weights
    ) -> tuple[np.ndarray, Any, np.ndarray | None]:
        """Validated C-contiguous float64 rows, `Groups`, and weights (``None`` stays ``None``)."""
        check_pairing(X, sensitive_features)
        X = check_rows(self, X)
        check_n_clusters(self.n_clusters, len(X))
        groups = check_groups(sensitive_features, len(X))
        weights = check_weights(sample_weight, X)
        for name, values in (("X", X), ("sample_weight", weights)):
            largest = 1.0 if values is None else float(np.abs(values).max())
            if largest > 0.0 and not SMALLEST < largest < LARGEST:
                raise ValueError(
                    f"The largest absolute value of {name} is {largest:.3g}, expected between "
                    f"{SMALLEST:g} and {LARGEST:g}. Multiply it by a constant."
                )
        return X, groups, weights

    def _store_labels(
        self,
        labels: np.ndarray,
        groups: Groups,
        weights: np.ndarray | None = None,
        n_clusters: int | None = None,
    ) -> None:
        """Set ``labels_``, ``groups_``, ``counts_`` and ``balance_``."""
        self.labels_ = np.asarray(labels, dtype=np.int32)
        n_clusters = self.n_clusters if n_clusters is None else n_clusters
        counts = count_cells(self.labels_, groups.codes, n_clusters, groups.n_groups, weights)
        self.groups_ = groups.public_names
        self.counts_ = groups.to_public(counts)
        self.balance_ = balance_of_table(counts)


# Checks.


def check_rows(
    estimator: Any,
    X: Table,
    *,
    reset: bool = True,
    keep_float32: bool = False,
    sparse: bool = False,
) -> Any:
    """C-contiguous rows of float64, or of float32 if that is kept, all of them finite.

    With ``sparse`` they may be sparse, and are then a CSR array.
    """
    if kind_of(X) in ("files", "stream"):
        raise TypeError(
            f"X is a {type(X).__name__}, expected rows in memory: {type(estimator).__name__} needs "
            "all of them at once. Call .collect() on a lazy frame; FairKMeans().fit and "
            "AnchorFairClustering().fit take datasets and streams as they are."
        )
    names = getattr(X, "column_names", getattr(X, "columns", None))  # pyarrow's come first
    dtype = [np.float64, np.float32] if keep_float32 else np.float64
    options = {"dtype": dtype, "order": "C", "ensure_all_finite": False, "reset": reset}
    options["accept_sparse"] = "csr" if sparse else False
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
    X = csr_array(X) if issparse(X) else X
    check_finite(X, range(X.shape[1]) if names is None else list(names), "Input X")
    return X


def check_n_clusters(n_clusters: int, n_samples: int) -> None:
    """Raise an error for fewer rows than clusters."""
    if n_samples < n_clusters:
        raise ValueError(
            f"n_samples={n_samples} should be >= n_clusters={n_clusters}: "
            "a cluster without a row cannot be returned."
        )


def warn_about_small_groups(
    groups: Groups, n_clusters: int, attributes: Attributes | None = None
) -> None:
    """Name a group that is too small to have a row in every cluster.

    Of separate attributes, the combinations of their groups may be small.
    """
    sizes, names = groups.sizes, groups.names
    if attributes is not None:
        codes = attributes.joint.T
        sizes = np.concatenate([np.bincount(column, weights=sizes) for column in codes]).astype(
            np.int64
        )
        names = np.concatenate(attributes.names)
    small = np.flatnonzero((sizes > 0) & (sizes < n_clusters))
    if len(small) == 0:
        return
    smallest = small[np.argmin(sizes[small])]
    name = "of missing values" if names[smallest] is None else repr(names[smallest])
    verb = "has" if len(small) == 1 else "have"
    warn_unfair(
        f"{len(small)} of {len(sizes)} groups {verb} fewer rows than n_clusters={n_clusters} "
        f"(the smallest, {name}, has {sizes[smallest]}): such a group cannot "
        "be in every cluster, so its share means little. Merge it with another group, or use "
        "fewer clusters."
    )


# Labels and weights.


@dataclass(frozen=True)
class WeightedRows:
    """Rows of positive weight in groups that are all present."""

    X: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    n_clusters: int
    n_groups: int

    @property
    def has_equal_weights(self) -> bool:
        return bool(np.all(self.weights == self.weights[0]))

    def masses(self, labels: np.ndarray) -> np.ndarray:
        """Weight of each group in each cluster."""
        return count_cells(labels, self.codes, self.n_clusters, self.n_groups, self.weights)

    def centers(self, labels: np.ndarray) -> np.ndarray:
        """Means of the clusters, each of which must have a row."""
        sums, totals = label_sums(self.X, self.weights, labels, self.n_clusters)
        return sums / totals[:, None]

    def cost(self, labels: np.ndarray) -> float:
        """Weighted squared distance to the means of the clusters."""
        return label_cost(self.X, self.weights, labels, self.centers(labels))


def fill_empty_clusters(
    X: np.ndarray, labels: np.ndarray, n_clusters: int, may_be_empty: np.ndarray | None = None
) -> tuple[np.ndarray, int]:
    """Labels in which every cluster has a row, and how many had none.

    An empty cluster takes, from the cluster with most rows, the row farthest from that cluster's
    mean (the lowest index on ties), unless it may be empty.
    """
    labels = np.array(labels, dtype=np.int32)
    sizes = np.bincount(labels, minlength=n_clusters)
    empty = np.flatnonzero((sizes == 0) if may_be_empty is None else (sizes == 0) & ~may_be_empty)
    for cluster in empty:
        members = np.flatnonzero(labels == np.argmax(sizes))
        own = X[members]
        distance = np.empty(len(members))
        if issparse(own):
            mean = np.asarray(own.mean(axis=0)).reshape(-1, 1)
            sparse_squared_distances(own, mean, distance[:, None])
        else:
            distance = ((own - own.mean(axis=0)) ** 2).sum(axis=1)
        taken = members[np.argmax(distance)]
        sizes[labels[taken]] -= 1
        sizes[cluster] = 1
        labels[taken] = cluster
    return labels, len(empty)


# Groups of new rows.


def known_codes(
    estimator: Any,
    sensitive_features: Table,
    n_rows: int,
    *,
    unknown_groups: str = "error",
    missing_groups: str = "error",
) -> tuple[np.ndarray, dict]:
    """Codes of new rows in the order of the estimator's ``groups_``.

    A group that ``fit`` has not seen is an error, or -1 if ``unknown_groups="blind"``, which
    covers missing values as well.

    Codes after those of the estimator's groups are of new combinations of separate attributes,
    whose prices are also returned by their names; see `unseen_combinations`.
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
            f"{_remedy(estimator)}"
        )
    sensitive_features = in_fitted_order(estimator, sensitive_features)
    extra = unseen_combinations(estimator, sensitive_features)
    missing = "own_group" if unknown_groups == "blind" else missing_groups
    codes, unknown = codes_of_known_groups(
        sensitive_features, [*known, *extra], n_rows, missing=missing
    )
    if unknown and unknown_groups == "error":
        listed = ", ".join(f"{name!r} ({count} rows)" for name, count in list(unknown.items())[:5])
        known = getattr(estimator, "attribute_groups_", {"": known})
        names = "; ".join(f"{column} {names.tolist()[:20]}" for column, names in known.items())
        raise ValueError(
            f"sensitive_features has {len(unknown)} group(s) that fit has not seen: {listed}. "
            f"Known groups: {names.strip()}. A group's prices are learned in fit, so there are "
            f"none for a new group.{_remedy(estimator)}"
        )
    return codes, extra


def unseen_combinations(estimator: Any, sensitive_features: Table) -> dict:
    """Prices, per cluster, of combinations that ``fit`` has not seen of groups that it has."""
    attributes = getattr(estimator, "_attributes", None)
    parts = getattr(estimator, "_attribute_prices", [])
    if not parts or attributes is None or sensitive_features is None:
        return {}
    known = set(estimator.groups_.tolist())
    extra = {}
    for name in encode_names(sensitive_features, missing="own_group")[1]:
        codes = None if name in known else attributes.codes_of(name)
        if codes is not None:
            extra[name] = sum(prices[:, r] for prices, r in zip(parts, codes, strict=True))
    return extra


def _remedy(estimator: Any) -> str:
    if not hasattr(estimator, "unknown_groups"):
        return " AnchorFairClustering with unknown_groups='blind' labels rows of unknown groups."
    return (
        " To label rows of unknown groups, or without any, by average prices: "
        "set_params(unknown_groups='blind')."
    )
