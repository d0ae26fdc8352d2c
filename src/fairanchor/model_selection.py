"""The price of fairness over tolerances and numbers of clusters, and a scorer for searches."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from sklearn.metrics import silhouette_score
from sklearn.utils.metadata_routing import MetadataRequest

from fairanchor._utils._records import RecordTable, columns_of_records
from fairanchor._utils._sampling import spread_sample
from fairanchor._utils._shared_state import users_stacklevel
from fairanchor._utils._typing import Table, Weights
from fairanchor.cluster import FairKMeans
from fairanchor.constraints._bounds import check_tolerance
from fairanchor.exceptions import FairnessWarning
from fairanchor.metrics import (
    attribute_relative_balance_scores,
    balance_of_table,
    clustering_cost,
    relative_balance_of_table,
    relative_balance_score,
)

TOLERANCES = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)
# How much worse than the cost of a single cluster the score of an unfair clustering is.
PENALTY = 1_000.0
# Distances between all pairs of rows are computed for a silhouette.
SILHOUETTE_ROWS = 2_000


@dataclass(frozen=True)
class FairnessPath(RecordTable):
    """Clusterings of one table, and what each costs.

    Attributes
    ----------
    records : list of dict
        One per clustering: ``tolerance``, ``n_clusters``, ``cost`` (k-means cost of the labels to
        their centres), ``lp_value`` (certified lower bound on what labels within the bounds cost
        with these centres), ``violation`` (rows by which the worst cell misses its bounds),
        ``balance`` and ``relative_balance`` (of the worst attribute, if there are several),
        ``smallest_cluster``, ``smallest_cell``, ``n_iter``, ``converged`` and ``start``: whether
        the previous clustering was the better start ("warm") or the data ("cold"). Labels that
        miss a bound by a part of a row (``violation`` above 0, as is common with tolerance 0) may
        gain by it: ``cost - lp_value`` can then be negative, and is no distance from an optimum.
        With ``attributes="separate"`` also ``attributes``: by the name of each column its
        ``balance``, ``relative_balance`` and ``violation``.
    models : list of FairKMeans
        The fitted estimators, with ``labels_`` and `predict`.
    """

    models: list[FairKMeans] = field(repr=False)

    @property
    def table(self) -> dict[str, np.ndarray]:
        """Columns of the records by name, for instance for a data frame: dict of ndarray.

        Measures of separate attributes have separate columns, such as
        ``relative_balance_sex``.
        """
        flat = []
        for record in self.records:
            flat.append({name: value for name, value in record.items() if name != "attributes"})
            for column, measures in record.get("attributes", {}).items():
                flat[-1] |= {f"{measure}_{column}": v for measure, v in measures.items()}
        return columns_of_records(flat)


def fairness_path(
    X: Table,
    sensitive_features: Table,
    tolerances: Sequence[float] = TOLERANCES,
    *,
    n_clusters: int = 8,
    sample_weight: Weights = None,
    n_init: Any = 10,
    **parameters: Any,
) -> FairnessPath:
    """The cost-fairness curve: fair k-means for one tolerance after the other.

    Tolerances are fitted from tight to loose. The labels of one satisfy the next, looser one and
    are a warm start there; the cheaper of this and of a fresh start is kept. Hence the cost does
    not rise along the path. There are two exceptions: cells so small that the tighter labels
    violate the looser bounds by a part of a row, and are replaced by labels that do not; and the
    rounding of unequal weights.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows to cluster, in memory.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Group of each row; the parameter ``attributes`` controls what several columns mean.
    tolerances : sequence of floats in [0, 1], default=(0, 0.05, 0.1, 0.2, 0.5, 1)
        In any order; they are sorted. 0 requires exact proportions, 1 sets no bound.
    n_clusters : int, default=8
        Number of clusters.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    n_init : int or "auto", default=10
        Number of starts of each fit.
    **parameters : dict
        Other parameters of `FairKMeans`, such as ``attributes`` or ``random_state``.

    Returns
    -------
    path : FairnessPath
        In the order of increasing tolerance.

    Examples
    --------
    >>> from fairanchor import fairness_path
    >>> from fairanchor.datasets import make_zafar
    >>> data = make_zafar(400, variant="original", random_state=0)
    >>> path = fairness_path(data.data, data.sensitive_features, (0, 0.2, 1), n_clusters=2,
    ...                      random_state=0)
    >>> costs = path.table["cost"]
    >>> bool((costs[1:] <= costs[:-1]).all())
    True
    """
    for tolerance in tolerances:
        check_tolerance(tolerance)
    if len(tolerances) == 0:
        raise ValueError("tolerances is empty: expected at least one value.")
    records, models, before = [], [], None
    for tolerance in sorted(set(map(float, tolerances))):
        model = FairKMeans(n_clusters, tolerance=tolerance, n_init=n_init, **parameters)
        before, is_warm = model._fit_after(before, X, sensitive_features, sample_weight)
        records.append(_record(model) | {"start": "warm" if is_warm else "cold"})
        models.append(model)
    return FairnessPath(records, models)


def clusters_path(
    X: Table,
    sensitive_features: Table,
    n_clusters: Sequence[int] = tuple(range(2, 11)),
    *,
    tolerance: float = 0.0,
    **parameters: Any,
) -> FairnessPath:
    """Cost and balance of fair k-means over the number of clusters, to help choose it.

    Every record also has ``plain_cost``, of k-means without a constraint, ``cost_ratio``, the
    price of fairness, and ``silhouette``, the mean silhouette of at most 2,000 rows (NaN for one
    cluster). Costs fall with the number of clusters in any case; look for where they stop falling
    fast, where the ratio begins to rise, for a silhouette that is larger than its neighbours, and
    for cells so small (``smallest_cell``) that a share of them means little.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows to cluster, in memory.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Group of each row.
    n_clusters : sequence of int, default=(2, ..., 10)
        Numbers of clusters.
    tolerance : float in [0, 1], default=0.0
        See `FairKMeans`.
    **parameters : dict
        As in `fairness_path`.

    Returns
    -------
    path : FairnessPath
        In the order of increasing numbers of clusters.

    Examples
    --------
    >>> from fairanchor import clusters_path
    >>> from fairanchor.datasets import make_zafar
    >>> data = make_zafar(400, variant="original", random_state=0)
    >>> path = clusters_path(data.data, data.sensitive_features, [2, 3], n_init=2, random_state=0)
    >>> bool((path.table["cost_ratio"] >= 1).all())
    True
    """
    check_tolerance(tolerance)
    if len(n_clusters) == 0:
        raise ValueError("n_clusters is empty: expected at least one value.")
    records, models = [], []
    for number in sorted(set(n_clusters)):
        path = fairness_path(
            X, sensitive_features, sorted({tolerance, 1.0}), n_clusters=number, **parameters
        )
        plain = path.records[-1]["cost"]
        record = path.records[0]
        ratio = record["cost"] / plain if plain > 0 else 1.0
        silhouette = _silhouette(X, path.models[0])
        records.append(
            record | {"plain_cost": plain, "cost_ratio": ratio, "silhouette": silhouette}
        )
        models.append(path.models[0])
    return FairnessPath(records, models)


def suggest_tolerance(path: FairnessPath, *, extra_cost: float = 0.05) -> float:
    """The smallest tolerance of a path whose cost is close to that of the loosest one.

    The result describes the curve and is not advice: what fairness may cost, and whether any
    tolerance is acceptable, depends on what the clusters are used for. The loosest tolerance of the
    path should be 1, no constraint; if it is not, a warning states what costs are compared with.

    Parameters
    ----------
    path : FairnessPath
        Returned by `fairness_path`, with at least two tolerances.
    extra_cost : float, default=0.05
        Largest extra cost, relative to the cost at the loosest tolerance.

    Returns
    -------
    tolerance : float
        One of the path's tolerances; the loosest if no tighter one costs so little.

    Examples
    --------
    >>> from fairanchor import fairness_path, suggest_tolerance
    >>> from fairanchor.datasets import make_zafar
    >>> data = make_zafar(400, variant="original", random_state=0)
    >>> path = fairness_path(data.data, data.sensitive_features, (0, 0.2, 1), n_clusters=2,
    ...                      n_init=2, random_state=0)
    >>> suggest_tolerance(path, extra_cost=0.1)
    0.2
    """
    if isinstance(extra_cost, bool) or not isinstance(extra_cost, Real) or not extra_cost >= 0:
        raise ValueError(
            f"extra_cost={extra_cost!r} should be a number of at least 0: the part of the cost "
            "that fairness may add."
        )
    check_path(path, "fairness_path")
    costs, tolerances = path.table["cost"], path.table["tolerance"]
    if len(tolerances) < 2:
        raise ValueError(
            f"path has the single tolerance {tolerances[0]:g}, expected at least two: the cost of "
            "a tolerance is relative to that of the loosest."
        )
    if tolerances[-1] < 1.0:
        warnings.warn(
            f"The loosest tolerance of the path is {tolerances[-1]:g}: costs are compared with "
            "that, not with clusters without a constraint (tolerance 1).",
            FairnessWarning,
            stacklevel=users_stacklevel(),
        )
    return float(tolerances[np.argmax(costs <= (1.0 + extra_cost) * costs[-1])])


@dataclass(frozen=True)
class FairCostScorer:
    """Scorer for `sklearn.model_selection.GridSearchCV` that respects the constraint.

    The ``score`` of an estimator is minus its cost, so that a search over tolerances always
    prefers the loosest one. This scorer is minus the cost too, but only for clusterings of the
    scored rows whose relative balance is large enough; all others score lower than any of these,
    the lower the less balanced they are. Scored rows are usually held out, where proportions are
    not exact even with ``tolerance=0``: leave room for that in the threshold.

    Groups reach the scorer by metadata routing, which
    ``sklearn.set_config(enable_metadata_routing=True)`` enables.

    Parameters
    ----------
    min_relative_balance : float in [0, 1], default=0.8
        Least `fairanchor.metrics.relative_balance_score` of the scored rows; of the worst column
        if the estimator has ``attributes="separate"``.

    Examples
    --------
    >>> from sklearn import config_context
    >>> from sklearn.model_selection import GridSearchCV
    >>> from fairanchor import FairKMeans
    >>> from fairanchor.datasets import make_zafar
    >>> from fairanchor.model_selection import FairCostScorer
    >>> data = make_zafar(400, variant="original", random_state=0)
    >>> search = GridSearchCV(FairKMeans(2, random_state=0), {"tolerance": [0.0, 1.0]}, cv=2,
    ...                       scoring=FairCostScorer(0.7))
    >>> with config_context(enable_metadata_routing=True):
    ...     _ = search.fit(data.data, sensitive_features=data.sensitive_features)
    >>> search.best_params_
    {'tolerance': 0.0}
    """

    min_relative_balance: float = 0.8

    def __post_init__(self) -> None:
        least = self.min_relative_balance
        if isinstance(least, bool) or not isinstance(least, Real) or not 0 <= least <= 1:
            raise ValueError(f"min_relative_balance={least!r} should be a number in [0, 1].")

    def __call__(
        self,
        estimator: Any,
        X: Table,
        y: Any = None,
        *,
        sensitive_features: Table = None,
        sample_weight: Weights = None,
    ) -> float:
        """Score of a fitted estimator: the larger, the better.

        Parameters
        ----------
        estimator : FairKMeans, AnchorFairClustering, or a Pipeline that ends in one
            Fitted.
        X : array-like of shape (n_samples, n_features)
            Rows to score.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        score : float
            Minus the cost, or a penalty.
        """
        if sensitive_features is None:
            raise ValueError(
                "FairCostScorer got no sensitive_features. A search passes them on after "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        if hasattr(estimator, "steps"):  # costs are those of the transformed rows
            X, estimator = estimator[:-1].transform(X), estimator[-1]
        labels = estimator.predict(X, sensitive_features=sensitive_features)
        metadata = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        if getattr(estimator, "attributes", None) == "separate":
            balance = min(attribute_relative_balance_scores(labels, **metadata).values())
        else:
            balance = relative_balance_score(labels, **metadata)
        if balance >= self.min_relative_balance:
            return estimator.score(X, **metadata)
        # Finite, since searches average the scores of several folds.
        spread = clustering_cost(X, np.zeros(len(labels)), sample_weight=sample_weight)
        return -PENALTY * (1.0 + self.min_relative_balance - balance) * max(spread, 1e-300)

    def get_metadata_routing(self) -> MetadataRequest:
        """The metadata that the scorer takes, for scikit-learn's routing.

        Returns
        -------
        routing : MetadataRequest
        """
        request = MetadataRequest(owner="FairCostScorer")
        for parameter in ("sensitive_features", "sample_weight"):
            request.score.add_request(param=parameter, alias=True)
        return request


def check_path(path: Any, source: str) -> None:
    """Raise an error for anything but a path of ``"fairness_path"`` or ``"clusters_path"``."""
    if not isinstance(path, FairnessPath):
        raise TypeError(f"path is a {type(path).__name__}, expected a FairnessPath of {source}.")
    actual = "clusters_path" if "plain_cost" in path.table else "fairness_path"
    if actual != source:
        raise ValueError(f"path is one of {actual}, expected one of {source}.")


def _silhouette(X: Table, model: FairKMeans) -> float:
    """Mean silhouette of a sample of the rows; NaN if it has fewer than two clusters."""
    chosen = spread_sample(len(model.labels_), SILHOUETTE_ROWS)
    X, labels = np.asarray(X, dtype=np.float64)[chosen], model.labels_[chosen]
    if not 1 < len(np.unique(labels)) < len(X):
        return float("nan")
    return float(silhouette_score(X, labels, metric=model.metric))


def _record(model: FairKMeans) -> dict[str, Any]:
    separate = getattr(model, "attribute_counts_", None)
    tables = [model.counts_] if separate is None else list(separate.values())
    record = {
        "tolerance": float(model.tolerance),
        "n_clusters": int(model.n_clusters),
        "cost": model.inertia_,
        "lp_value": model.lp_value_,
        "violation": model.worst_violation_,
        "balance": min(map(balance_of_table, tables)),
        "relative_balance": min(map(relative_balance_of_table, tables)),
        "smallest_cluster": min(table.sum(axis=1).min() for table in tables).item(),
        "smallest_cell": min(table.min() for table in tables).item(),
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
    }
    if separate is not None:
        record["attributes"] = {
            column: {
                "balance": balance_of_table(table),
                "relative_balance": relative_balance_of_table(table),
                "violation": model.attribute_violations_[column],
            }
            for column, table in separate.items()
        }
    return record
