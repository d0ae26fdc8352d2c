"""Facts of a report: from a fitted estimator, or labels made by any tool, to a `RunSummary`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from fairanchor._utils._records import html_table
from fairanchor._utils._typing import Table, Weights
from fairanchor.audit import GroupCosts, SelectionRates, cost_by_group
from fairanchor.audit._selection import rates_of_counts
from fairanchor.constraints._fairness_targets import FairnessTargets
from fairanchor.groups._columns import attribute_names, columns_of, in_fitted_order
from fairanchor.groups._groups import codes_of_known_groups, count_cells, encode_names
from fairanchor.metrics import relative_balance_of_table
from fairanchor.plotting._composition import Composition, encode_labels, fitted
from fairanchor.plotting._names import check_names, column_names, display_name
from fairanchor.report._constraints import (
    ConstraintCheck,
    checks_of_counts,
    checks_of_estimator,
    describe_constraint,
    describe_estimator,
)
from fairanchor.report._repeat import python_of_estimator
from fairanchor.report._verdict import judge

# Rows of a lower stability share a run's cluster with other clusters' rows too often to be called
# settled: one companion in five.
SETTLED = 0.8


@dataclass(kw_only=True)
class RunSummary:
    """Facts about a clustering from which a report is written.

    Only the first four are required; what is None is left out of the report, which states so where
    it matters. All tables have clusters as rows and groups as columns.

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
    columns : sequence, default=()
        Names of the sensitive columns.
    sample_weight : ndarray of shape (n_rows,), default=None
        Weight of each row; ``counts`` is then in weight.
    counts : ndarray of shape (n_clusters, n_groups), default=None
        Rows, or weight, of each cell; by default counted from the labels.
    unassigned : ndarray of shape (n_groups,), default=None
        Rows of each group that have no cluster. They count against the verdict.
    ungrouped : ndarray of shape (n_clusters,), default=None
        Rows of each cluster that have no group. They count against the verdict.
    checks : list of ConstraintCheck, default=None
        The constraint, one entry for each attribute, by which the report judges; None means the
        population's shares.
    constraint : str, default=None
        The same in one sentence.
    features : ndarray of shape (n_rows, n_features), default=None
        The features that were clustered, scaled as they were clustered.
    feature_names : sequence of length n_features, default=None
        By default "feature 0" and so on.
    group_costs : GroupCosts, default=None
        What fairness costs each group, see `fairanchor.cost_by_group`.
    selection : SelectionRates, default=None
        Selection rates, see `fairanchor.audit.selection_rates`.
    favourable : bool, default=False
        Whether the clusters of ``selection`` were marked as favourable.
    n_errors : int, default=None
        A number of wrong records for which the certificate is stated, besides 1, 5 and 10 %.
    robustness : object, default=None
        Result of fits with wrong records: ``records`` (list of dict, one per point of the curve),
        ``baseline``, ``worst`` and ``control`` (relative balances).
    stability : array-like of shape (n_clusters, 2), default=None
        For a consensus of several runs: stability of each cluster between 0 and 1, and the share of
        its rows near a border.
    parameters, timings : dict
        What is needed to repeat the run, and seconds by step.
    command, code : str, default=None
        Command line, or Python code, that repeats the run.
    warnings : list of str, default=None
        Warnings of the run; None if they are not known.
    n_rows_left_out : int, default=0
        Rows of the table that are in no figure.
    converged : bool, default=True
        Whether the iterations that made the labels converged.
    n_rows_total : int, default=None
        Number of rows that were clustered, if ``labels`` holds only some of them.
    uses_sensitive_for_prediction : bool, default=False
        Whether labelling new rows needs their group.
    fingerprints : dict, default=None
        Checksum by name of the data; by default that of labels, groups and features.
    date : str, default=None
        When the summary was made; by default now.
    """

    title: str
    labels: np.ndarray
    group_codes: np.ndarray
    group_names: list[Any]
    cluster_names: Any = None
    columns: Sequence[Any] = ()
    sample_weight: np.ndarray | None = None
    counts: Any = None
    unassigned: np.ndarray | None = None
    ungrouped: np.ndarray | None = None
    checks: list[ConstraintCheck] | None = None
    constraint: str | None = None
    features: np.ndarray | None = None
    feature_names: Any = None
    group_costs: GroupCosts | None = None
    selection: SelectionRates | None = None
    favourable: bool = False
    n_errors: int | None = None
    robustness: Any = None
    stability: Any = None
    parameters: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    command: str | None = None
    code: str | None = None
    warnings: list[Any] | None = None
    n_rows_left_out: int = 0
    converged: bool = True
    n_rows_total: Any = None
    uses_sensitive_for_prediction: bool = False
    fingerprints: dict[str, str] | None = None
    date: str | None = None

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
        for name, expected in (
            ("sample_weight", n_rows),
            ("unassigned", len(self.group_names)),
            ("ungrouped", self.n_clusters),
            ("stability", self.n_clusters),
        ):
            if (values := getattr(self, name)) is not None:
                setattr(self, name, np.asarray(values, dtype=float))
                _check_length(getattr(self, name), name, expected)
        self._check_counts()
        self._check_features()
        if self.fingerprints is None:
            arrays = {"labels": self.labels, "groups": self.group_codes, "features": self.features}
            known = {name: array for name, array in arrays.items() if array is not None}
            self.fingerprints = {name: _checksum(array) for name, array in known.items()}
        if self.date is None:
            self.date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")

    @property
    def n_clusters(self) -> int:
        return len(self.cluster_names)

    @property
    def composition(self) -> Composition:
        return Composition(self.counts, self.cluster_names, self.group_names)

    @property
    def relative_balance(self) -> float:
        """Relative balance with rows that lack a cluster or a group counted against it."""
        return cautious_balance(self.counts, self.unassigned, self.ungrouped)

    def _repr_html_(self) -> str:
        verdict, composition = judge(self), self.composition
        shares = [composition.population, *composition.shares]
        sizes = [self.counts.sum(), *self.counts.sum(axis=1)]
        names = ["all rows", *map(display_name, self.cluster_names)]
        rows = [
            [name, f"{size:,.8g}", *[f"{share:.1%}" for share in parts]]
            for name, size, parts in zip(names, sizes, shares, strict=True)
        ]
        header = ["cluster", "rows", *map(display_name, self.group_names)]
        answer = f"<strong>{escape(verdict.answer)}.</strong> {escape(verdict.sentence)}"
        return f"<p>{escape(verdict.question)} {answer}</p>{html_table(header, rows)}"

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
        if self.features is None:
            return
        self.features = check_array(self.features, dtype=np.float64, input_name="features")
        _check_length(self.features, "features", len(self.labels))
        numbers = [f"feature {j}" for j in range(self.features.shape[1])]
        names = numbers if self.feature_names is None else self.feature_names
        self.feature_names = check_names(names, "feature_names", len(numbers))


def cautious_balance(
    counts: np.ndarray, unassigned: np.ndarray | None, ungrouped: np.ndarray | None
) -> float:
    """Relative balance of a table, with incomplete rows counted against it."""
    if unassigned is None and ungrouped is None:
        return relative_balance_of_table(counts)
    groups = counts.sum(axis=0) + (0.0 if unassigned is None else unassigned)
    unknown = np.zeros((len(counts), 1)) if ungrouped is None else ungrouped[:, None]
    sizes = counts.sum(axis=1, keepdims=True) + unknown
    total = groups.sum() + unknown.sum()
    # No unknown row of the cluster is of the group and all others are; or the other way round.
    rare = counts, sizes * (groups + unknown.sum() - unknown) / total
    frequent = sizes * (groups + unknown) / total, counts + unknown
    ratios = [
        np.divide(smaller, larger, out=np.ones(counts.shape), where=larger > 0)
        for smaller, larger in (rare, frequent)
    ]
    return float(min(1.0, *(ratio.min() for ratio in ratios)))


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
    robustness: Any = None,
    stability: ArrayLike | None = None,
) -> RunSummary:
    """Collect the facts about a fitted estimator.

    Parameters
    ----------
    estimator : fitted estimator
        `FairKMeans`, `AnchorFairClustering` or any other clusterer of this library.
    X : array-like of shape (n_samples, n_features)
        The rows that it was fitted on.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Their groups; None if it was fitted without groups.
    sample_weight : array-like of shape (n_samples,), default=None
        Their weights, if it was fitted with weights.
    title : str, default=None
        Heading; by default the estimator's name and the number of rows.
    feature_names : sequence of length n_features, default=None
        By default the column names of ``X``, or "feature 0" and so on if it has none.
    plain_labels : "fit", None or array-like of shape (n_samples,), default="fit"
        Labels without a constraint on groups, for what fairness costs each group: "fit" fits the
        same estimator with ``tolerance=1``, see `fairanchor.cost_by_group`; None leaves the
        comparison out.
    timings : dict, default=None
        Seconds by step.
    warnings : list of str, default=None
        Warnings of the run; None means that they are not known.
    n_rows_left_out : int, default=0
        Rows of the table that were not clustered.
    robustness : object, default=None
        Result of a robustness check, for the section on robustness.
    stability : array-like of shape (n_clusters, 2), default=None
        Stability of each cluster and share of its rows that are not settled, for the same section;
        by default those of `ConsensusClustering`, alone or as the clusterer of the framework.

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
    if isinstance(plain_labels, str) and plain_labels != "fit":
        raise ValueError(f"plain_labels={plain_labels!r}, expected 'fit', None or labels.")
    if sensitive_features is not None:
        sensitive_features = in_fitted_order(estimator, sensitive_features)
    codes = _known_codes(sensitive_features, list(estimator.groups_), n_rows, estimator)
    parameters = {"estimator": type(estimator).__name__} | estimator.get_params(deep=False)
    costs = None
    if plain_labels is not None:
        costs = cost_by_group(
            estimator,
            X,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            plain_labels=None if isinstance(plain_labels, str) else plain_labels,
        )
        parameters["compared with"] = costs.plain
    return RunSummary(
        title=title or f"{type(estimator).__name__}: {n_rows:,} rows",
        labels=estimator.labels_,
        group_codes=codes,
        group_names=list(estimator.groups_),
        columns=_text_names(sensitive_features),
        sample_weight=None if sample_weight is None else np.asarray(sample_weight),
        counts=estimator.counts_,
        checks=checks_of_estimator(estimator),
        constraint=describe_estimator(estimator),
        features=X,
        feature_names=names,
        group_costs=costs,
        robustness=robustness,
        stability=stability_of(estimator) if stability is None else stability,
        parameters=parameters,
        timings=dict(timings or {}),
        code=python_of_estimator(estimator, weighted=sample_weight is not None),
        warnings=warnings,
        n_rows_left_out=n_rows_left_out,
        converged=bool(getattr(estimator, "converged_", True)),
        uses_sensitive_for_prediction=hasattr(estimator, "predict"),
    )


def stability_of(estimator: Any) -> np.ndarray | None:
    """Stability of each cluster, and the share of its rows that are not settled, if it is known.

    In the framework anchors count by the rows that they represent.
    """
    clusterer = getattr(estimator, "clusterer_", estimator)
    if not hasattr(clusterer, "cluster_stability_"):
        return None
    labels = getattr(estimator, "anchor_labels_", clusterer.labels_)
    masses = getattr(estimator, "anchor_masses_", np.ones(len(labels)))
    unsettled = masses * (clusterer.row_stability_ < SETTLED)
    n_clusters = len(clusterer.cluster_stability_)
    sums = [np.bincount(labels, weights=w, minlength=n_clusters) for w in (unsettled, masses)]
    share = sums[0] / np.maximum(sums[1], np.finfo(float).tiny)
    return np.column_stack([clusterer.cluster_stability_, share])


def summarise_labels(
    labels: ArrayLike,
    *,
    sensitive_features: Table,
    sample_weight: Weights = None,
    targets: float | FairnessTargets | Sequence[float | FairnessTargets] | None = None,
    attributes: Literal["intersection", "separate"] = "intersection",
    favourable: Sequence[Any] | None = None,
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
    favourable : sequence, default=None
        Clusters in which it is good to be, for selection rates; by default each is shown.
    title : str, default="Audit of given labels"
        Heading.
    missing : {"error", "drop"}, default="error"
        Whether rows whose label is missing (None or NaN) raise an error, or are left out of the
        clusters; they then count against the verdict.

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
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
    left_out = None if weights is None else weights[~kept]
    without = np.bincount(group_codes[~kept], weights=left_out, minlength=len(groups))
    names = attribute_names(sensitive_features, len(columns_of(sensitive_features)))
    run = RunSummary(
        title=title,
        labels=codes,
        cluster_names=clusters,
        group_codes=group_codes[kept],
        group_names=groups,
        columns=_text_names(sensitive_features),
        sample_weight=None if weights is None else weights[kept],
        unassigned=None if kept.all() else without,
        n_rows_left_out=int(np.count_nonzero(~kept)),
        favourable=favourable is not None,
    )
    if weights is None:
        run.selection = rates_of_counts(run.counts, without, groups, clusters, names, favourable)
    if targets is not None:
        separate = names if attributes == "separate" else None
        run.checks = checks_of_counts(
            run.counts, run.group_names, targets, separate, unassigned=run.unassigned
        )
        is_tolerance = isinstance(targets, Real)
        run.constraint = describe_constraint(
            "population" if is_tolerance else FairnessTargets(),
            float(targets) if isinstance(targets, Real) else 0.0,
            separate or (),
        )
    return run


def _known_codes(
    sensitive_features: Any, names: list[Any], n_rows: int, estimator: Any
) -> np.ndarray:
    if sensitive_features is None and len(names) == 1:
        return np.zeros(n_rows, dtype=np.int64)
    missing = getattr(estimator, "missing_groups", None)
    codes, unknown = codes_of_known_groups(sensitive_features, names, n_rows, missing=missing)
    if unknown:
        raise ValueError(
            f"sensitive_features has groups that the estimator was not fitted with: "
            f"{list(unknown)[:5]}. A report is about the rows of the fit."
        )
    return codes


def _text_names(sensitive_features: Any) -> list[str]:
    """Names of the sensitive columns, where they have some."""
    if sensitive_features is None:
        return []
    names = [name for name, _ in columns_of(sensitive_features)]
    return names if all(isinstance(name, str) for name in names) else []


def _checksum(array: np.ndarray) -> str:
    array = np.ascontiguousarray(array)
    return f"sha256 {hashlib.sha256(array.tobytes()).hexdigest()}, shape {array.shape}"


def _codes(values: Any, name: str, n_codes: int | None = None) -> np.ndarray:
    """Whole numbers from 0, below ``n_codes`` if it is given."""
    codes = np.asarray(values)
    is_valid = codes.ndim == 1 and len(codes) > 0 and codes.dtype.kind in "iu" and codes.min() >= 0
    if not is_valid or (n_codes is not None and codes.max() >= n_codes):
        below = "" if n_codes is None else f" and below {n_codes}"
        raise ValueError(
            f"{name} has shape {codes.shape} and type {codes.dtype}, expected a whole number of at "
            f"least 0{below} for each row: np.unique(values, return_inverse=True) gives names and "
            "numbers."
        )
    return codes.astype(np.int64, copy=False)


def _check_length(values: Any, name: str, expected: int) -> None:
    if len(values) != expected:
        raise ValueError(f"{name} has {len(values)} entries, expected {expected}.")
