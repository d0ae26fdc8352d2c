"""Facts of a report: from a fitted estimator, or labels made by any tool, to a `RunSummary`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import KMeans
from sklearn.utils import check_array

from fairanchor._utils._typing import Table, Weights
from fairanchor.constraints._fairness_targets import FairnessTargets
from fairanchor.groups._columns import attribute_names, in_fitted_order
from fairanchor.groups._groups import (
    codes_of_known_groups,
    columns_of,
    count_cells,
    encode_names,
)
from fairanchor.metrics import clustering_cost
from fairanchor.plotting._composition import Composition, encode_labels, fitted
from fairanchor.plotting._costs import has_history, history_of
from fairanchor.plotting._names import check_names, column_names
from fairanchor.report._constraints import (
    ConstraintCheck,
    checks_of_counts,
    checks_of_estimator,
    describe_constraint,
    describe_estimator,
)
from fairanchor.report._repeat import python_of_estimator
from fairanchor.report._stability import stability_of

# Starts of the k-means run that clusterings are compared with.
PLAIN_STARTS = 10


@dataclass(kw_only=True)
class RunSummary:
    """Facts about a clustering from which a report is written.

    Only the first four are required; a panel whose facts are None is left out of the report. All
    tables have clusters as rows and groups as columns.

    Attributes
    ----------
    title : str
        Heading of the report.
    labels : ndarray of shape (n_rows,)
        Cluster of each row, in ``0..n_clusters-1``.
    group_codes : ndarray of shape (n_rows,)
        Group of each row, in ``0..n_groups-1``.
    group_names : sequence of length n_groups
        Anything that can be shown as text; a tuple is an intersection, None is "missing".
    cluster_names : sequence of length n_clusters, default=None
        By default the clusters' numbers.
    sample_weight : ndarray of shape (n_rows,), default=None
        Weight of each row; ``counts`` is then in weight.
    counts : ndarray of shape (n_clusters, n_groups), default=None
        Rows, or weight, of each cell; by default counted from the labels.
    checks : list of ConstraintCheck, default=None
        The constraint, one entry for each attribute, by which the report judges; None means the
        population's shares.
    constraint : str, default=None
        The same in one sentence.
    features : ndarray of shape (n_rows, n_features), default=None
        The features that were clustered, scaled as they were clustered.
    feature_names : sequence of length n_features, default=None
        By default "feature 0" and so on.
    cost, plain_cost : float, default=None
        k-means cost of the labels, and of plain k-means on the same rows.
    plain_labels : ndarray of shape (n_rows,), default=None
        Labels of plain k-means.
    anchors : ndarray of shape (n_anchors, n_features), default=None
        Points that represent all rows.
    anchor_labels, anchor_masses : ndarray of shape (n_anchors,), default=None
        Cluster of each anchor, and how many rows it represents.
    stability : ndarray of shape (n_clusters, 2), default=None
        Stability of each cluster, and the share of its rows that are not settled, of a consensus.
    history : list of dict, default=None
        One record per iteration, with ``mass_error`` (anchor graph) or ``cost`` (fair k-means).
    parameters, timings : dict
        What is needed to repeat the run, and seconds by step.
    command, code : str, default=None
        The command line, and the Python code, that repeat the run.
    warnings : list of str, default=None
        Warnings of the run; None means that they are not known.
    n_rows_left_out : int, default=0
        Rows of the table that are in no cluster, and in no count.
    left_out_reason : str, default="with missing values"
        Which rows they are.
    converged : bool, default=True
        Whether the iterations that made the labels converged.
    n_rows_total : int, default=None
        Number of rows that were clustered, if ``labels`` holds only some of them.
    uses_sensitive_for_prediction : bool, default=False
        Whether labelling new rows needs their group.
    """

    title: str
    labels: np.ndarray
    group_codes: np.ndarray
    group_names: list[Any]
    cluster_names: Any = None
    sample_weight: np.ndarray | None = None
    counts: Any = None
    checks: list[ConstraintCheck] | None = None
    constraint: str | None = None
    features: np.ndarray | None = None
    feature_names: Any = None
    cost: float | None = None
    plain_cost: float | None = None
    plain_labels: np.ndarray | None = None
    anchors: np.ndarray | None = None
    anchor_labels: np.ndarray | None = None
    anchor_masses: np.ndarray | None = None
    stability: np.ndarray | None = None
    history: list[Any] | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    command: str | None = None
    code: str | None = None
    warnings: list[Any] | None = None
    n_rows_left_out: int = 0
    left_out_reason: str = "with missing values"
    converged: bool = True
    n_rows_total: Any = None
    uses_sensitive_for_prediction: bool = False

    def __post_init__(self) -> None:
        self.group_names = list(self.group_names)
        self.labels = _codes(self.labels, "labels")
        n_rows = len(self.labels)
        self.group_codes = _codes(self.group_codes, "group_codes", len(self.group_names))
        _check_length(self.group_codes, "group_codes", n_rows)
        n_clusters = int(self.labels.max()) + 1
        n_clusters = n_clusters if self.counts is None else max(n_clusters, len(self.counts))
        self.cluster_names = check_names(
            self.cluster_names, "cluster_names", n_clusters, at_least=True
        )
        if self.sample_weight is not None:
            self.sample_weight = np.asarray(self.sample_weight, dtype=float)
            _check_length(self.sample_weight, "sample_weight", n_rows)
        self._check_counts()
        self._check_features()
        if self.plain_labels is not None:
            self.plain_labels = _codes(self.plain_labels, "plain_labels")
            _check_length(self.plain_labels, "plain_labels", n_rows)
        for name in ("cost", "plain_cost"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value >= 0):
                raise ValueError(f"{name}={value!r} should be a number >= 0, or None.")

    @property
    def n_clusters(self) -> int:
        return len(self.cluster_names)

    @property
    def composition(self) -> Composition:
        return Composition(self.counts, self.cluster_names, self.group_names)

    @property
    def has_all_rows(self) -> bool:
        """Whether ``labels`` holds every row that was clustered."""
        return bool(self.n_rows_total == len(self.labels))

    def _check_counts(self) -> None:
        shape = (self.n_clusters, len(self.group_names))
        counted = count_cells(self.labels, self.group_codes, *shape, self.sample_weight)
        if self.n_rows_total is None:
            self.n_rows_total = len(self.labels)
        if self.n_rows_total < len(self.labels):
            raise ValueError(
                f"n_rows_total={self.n_rows_total} should be >= the {len(self.labels)} labels."
            )
        self.counts = np.asarray(counted if self.counts is None else self.counts, dtype=float)
        if self.counts.shape != shape:
            raise ValueError(f"counts has shape {self.counts.shape}, expected {shape}.")
        if self.has_all_rows and not np.allclose(self.counts, counted, rtol=1e-6, atol=1e-6):
            cell = np.unravel_index(np.abs(self.counts - counted).argmax(), shape)
            raise ValueError(
                f"counts{list(map(int, cell))} is {self.counts[cell]:g}, but the labels and groups "
                f"have {counted[cell]:g} there: they describe different clusterings."
            )

    def _check_features(self) -> None:
        for name in ("features", "anchors"):
            if (rows := getattr(self, name)) is not None:
                setattr(self, name, check_array(rows, dtype=np.float64, input_name=name))
        if self.features is not None:
            _check_length(self.features, "features", len(self.labels))
            n_features = self.features.shape[1]
            numbers = [f"feature {j}" for j in range(n_features)]
            names = numbers if self.feature_names is None else self.feature_names
            self.feature_names = check_names(names, "feature_names", n_features)
            if self.anchors is not None:
                _check_length(self.anchors[0], "a row of anchors", n_features)
        for name in ("anchor_labels", "anchor_masses"):
            if self.anchors is not None and getattr(self, name) is not None:
                setattr(self, name, np.asarray(getattr(self, name)))
                _check_length(getattr(self, name), name, len(self.anchors))


def summarise_run(
    estimator: Any,
    X: Table,
    *,
    sensitive_features: Table,
    sample_weight: Weights = None,
    title: str | None = None,
    feature_names: Sequence[Any] | None = None,
    plain_labels: Literal["fit"] | ArrayLike | None = "fit",
    timings: Mapping[str, float] | None = None,
    warnings: list[str] | None = None,
    n_rows_left_out: int = 0,
) -> RunSummary:
    """Collect the facts about a fitted estimator.

    Parameters
    ----------
    estimator : fitted estimator
        `FairKMeans`, `AnchorFairClustering` or any other clusterer of this library.
    X : array-like of shape (n_samples, n_features)
        The rows that it was fitted on.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Their groups.
    sample_weight : array-like of shape (n_samples,), default=None
        Their weights, if it was fitted with weights.
    title : str, default=None
        Heading; by default the estimator's name and the number of rows.
    feature_names : sequence of length n_features, default=None
        By default the column names of ``X``, or "feature 0" and so on if it has none.
    plain_labels : "fit", None or array-like of shape (n_samples,), default="fit"
        Labels of plain k-means to compare with: "fit" runs it with 10 starts; None leaves
        the comparison out.
    timings : dict, default=None
        Seconds by step.
    warnings : list of str, default=None
        Warnings of the run; None means that they are not known.
    n_rows_left_out : int, default=0
        Rows of the table that were not clustered.

    Returns
    -------
    run : RunSummary
        For `write_report`.
    """
    n_rows = len(fitted(estimator, "labels_"))
    names = column_names(X) if feature_names is None else feature_names
    X = np.asarray(X, dtype=np.float64)
    if len(X) != n_rows:
        raise ValueError(
            f"X has {len(X)} rows, the estimator was fitted on {n_rows}: a report is about the "
            "rows of the fit."
        )
    return _summarise(
        estimator,
        X,
        _known_codes(sensitive_features, list(estimator.groups_), n_rows, estimator),
        plain_labels,
        title=title or f"{type(estimator).__name__}: {n_rows:,} rows",
        sample_weight=None if sample_weight is None else np.asarray(sample_weight),
        feature_names=names,
        warnings=warnings,
        n_rows_left_out=n_rows_left_out,
        timings=dict(timings or {}),
    )


def _summarise(
    estimator: Any,
    X: np.ndarray,
    group_codes: np.ndarray,
    plain_labels: Any,
    parameters: Mapping[str, Any] | None = None,
    *,
    sample_weight: np.ndarray | None = None,
    **facts: Any,
) -> RunSummary:
    """Facts that the estimator provides, and the comparison with plain k-means."""
    parameters = {
        **(parameters or {}),
        "estimator": type(estimator).__name__,
        **estimator.get_params(deep=False),
    }
    if isinstance(plain_labels, str):
        if plain_labels != "fit":
            raise ValueError(f"plain_labels={plain_labels!r}, expected 'fit', None or labels.")
        plain = plain_kmeans(estimator)
        parameters["plain k-means"] = f"n_init={plain.n_init}, random_state={plain.random_state}"
        plain_labels = plain.fit(X, sample_weight=sample_weight).labels_
    costs = [
        None if labels is None else clustering_cost(X, labels, sample_weight=sample_weight)
        for labels in (estimator.labels_, plain_labels)
    ]
    return RunSummary(
        labels=estimator.labels_,
        group_codes=group_codes,
        group_names=list(estimator.groups_),
        sample_weight=sample_weight,
        counts=estimator.counts_,
        checks=checks_of_estimator(estimator),
        constraint=describe_estimator(estimator),
        features=X,
        cost=costs[0],
        plain_cost=costs[1],
        plain_labels=plain_labels,
        anchors=getattr(estimator, "anchors_", None),
        anchor_labels=getattr(estimator, "anchor_labels_", None),
        anchor_masses=getattr(estimator, "anchor_masses_", None),
        stability=stability_of(estimator),
        history=history_of(estimator) if has_history(estimator) else None,
        parameters=parameters,
        code=python_of_estimator(estimator, weighted=sample_weight is not None),
        converged=bool(getattr(estimator, "converged_", True)),
        uses_sensitive_for_prediction=hasattr(estimator, "predict"),
        **facts,
    )


def summarise_labels(
    labels: ArrayLike,
    *,
    sensitive_features: Table,
    sample_weight: Weights = None,
    targets: float | FairnessTargets | Sequence[float | FairnessTargets] | None = None,
    attributes: Literal["intersection", "separate"] = "intersection",
    title: str = "Audit of given labels",
    missing: Literal["error", "drop"] = "error",
) -> RunSummary:
    """Collect the facts about labels made by any tool.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        Cluster of each row: numbers or names.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Group of each row.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    targets : float, FairnessTargets, or list of these, default=None
        The constraint by which the report judges: a tolerance around the shares of the data,
        or targets; a list has one entry for each column and requires
        ``attributes="separate"``. Targets that differ between clusters are in the sorted order of
        the clusters' names. None means the shares of the data, by the report's own thresholds.
    attributes : {"intersection", "separate"}, default="intersection"
        Whether several columns are one attribute or each is one, which requires ``targets``.
    title : str, default="Audit of given labels"
        Heading.
    missing : {"error", "drop"}, default="error"
        Whether rows whose label is missing (None or NaN) raise an error, or are left out, which
        the report then states.

    Returns
    -------
    run : RunSummary
        For `write_report`.
    """
    if missing not in ("error", "drop"):
        raise ValueError(f"missing={missing!r}, expected 'error' or 'drop'.")
    if attributes not in ("intersection", "separate"):
        raise ValueError(f"attributes={attributes!r} should be 'intersection' or 'separate'.")
    if attributes == "separate" and targets is None:
        raise ValueError("attributes='separate' needs targets: give a tolerance, such as 0.1.")
    group_codes, groups = encode_names(sensitive_features)
    codes, clusters, kept = encode_labels(labels, drop_missing=missing == "drop")
    if len(kept) != len(group_codes):
        raise ValueError(
            f"sensitive_features has {len(group_codes)} rows, labels has {len(kept)}: every row "
            "needs exactly one group."
        )
    run = RunSummary(
        title=title,
        labels=codes,
        cluster_names=clusters,
        group_codes=group_codes[kept],
        group_names=groups,
        sample_weight=None if sample_weight is None else np.asarray(sample_weight)[kept],
        n_rows_left_out=int(np.count_nonzero(~kept)),
        left_out_reason="without a label",
    )
    if targets is not None:
        names = None
        if attributes == "separate":
            names = attribute_names(sensitive_features, len(columns_of(sensitive_features)))
        run.checks = checks_of_counts(run.counts, run.group_names, targets, names)
        is_tolerance = isinstance(targets, Real)
        run.constraint = describe_constraint(
            "population" if is_tolerance else FairnessTargets(),
            float(targets) if isinstance(targets, Real) else 0.0,
            names or (),
        )
    return run


def plain_kmeans(estimator: Any) -> KMeans:
    """The k-means that a fitted estimator is compared with: as many clusters, and its seed."""
    seed = getattr(estimator, "random_state", None)
    seed = seed if isinstance(seed, (int, np.integer)) else 0
    n_clusters = estimator.n_clusters or len(estimator.counts_)
    return KMeans(n_clusters, n_init=PLAIN_STARTS, random_state=seed)


def _known_codes(
    sensitive_features: Any, names: list[Any], n_rows: int, estimator: Any
) -> np.ndarray:
    if sensitive_features is None and len(names) == 1:
        return np.zeros(n_rows, dtype=np.int64)
    missing = getattr(estimator, "missing_groups", None)
    sensitive_features = in_fitted_order(estimator, sensitive_features)
    codes, unknown = codes_of_known_groups(sensitive_features, names, n_rows, missing=missing)
    if unknown:
        raise ValueError(
            f"sensitive_features has groups that the estimator was not fitted with: "
            f"{list(unknown)[:5]}. A report is about the rows of the fit."
        )
    return codes


def _codes(values: Any, name: str, n_codes: int | None = None) -> np.ndarray:
    """Whole numbers from 0, below ``n_codes`` if it is given."""
    codes = np.asarray(values)
    if codes.ndim != 1 or len(codes) == 0:
        raise ValueError(f"{name} has shape {codes.shape}, expected one entry per row, at least 1.")
    if codes.dtype.kind not in "iu":
        raise ValueError(
            f"{name} has type {codes.dtype}, expected whole numbers from 0: "
            "np.unique(values, return_inverse=True) gives names and numbers."
        )
    low, high = int(codes.min()), int(codes.max())
    if low < 0 or (n_codes is not None and high >= n_codes):
        upper = "" if n_codes is None else f" to {n_codes - 1}"
        raise ValueError(f"{name} goes from {low} to {high}, expected from 0{upper}.")
    return codes.astype(np.int64, copy=False)


def _check_length(values: Any, name: str, expected: int) -> None:
    if len(values) != expected:
        raise ValueError(f"{name} has {len(values)} entries, expected {expected}.")
