"""Facts of a report: from a fitted estimator, or labels made by any tool, to a `RunSummary`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from fairanchor._utils._records import html_table
from fairanchor._utils._sklearn_compat import check_weights
from fairanchor._utils._typing import Labels, Table, Weights
from fairanchor.audit import GroupCosts, SelectionRates, cost_by_group
from fairanchor.audit._selection import rates_of_counts
from fairanchor.constraints._fairness_targets import FairnessTargets
from fairanchor.groups._columns import attribute_names, columns_of, in_fitted_order
from fairanchor.groups._groups import codes_of_known_groups, count_cells, encode_names
from fairanchor.plotting._composition import Composition, check_rows_of_fit, encode_labels
from fairanchor.plotting._names import display_name, feature_names_of
from fairanchor.report._constraints import (
    ConstraintCheck,
    checks_of_counts,
    checks_of_estimator,
    describe_constraint,
    describe_estimator,
)
from fairanchor.report._verdict import judge

# Rows of a lower stability share a run's cluster with other clusters' rows too often to be called
# settled: one companion in five.
SETTLED = 0.8


@dataclass(kw_only=True)
class RunSummary:
    """Facts about a clustering from which a report is written.

    `summarise_run` and `summarise_labels` collect them; attributes can be changed afterwards. What
    is None is left out of the report, which states so where it matters. All tables have clusters
    as rows and groups as columns.

    Attributes
    ----------
    title : str
        Heading of the report.
    labels : ndarray of shape (n_rows,)
        Cluster of each row, in ``0..n_clusters-1``.
    group_codes : ndarray of shape (n_rows,)
        Group of each row, in ``0..n_groups-1``.
    group_names : list of length n_groups
        Anything that can be shown as text; a tuple is an intersection, None is "missing".
    cluster_names : list of length n_clusters, default=None
        By default the clusters' numbers.
    columns : sequence, default=()
        Names of the sensitive columns.
    sample_weight : ndarray of shape (n_rows,), default=None
        Weight of each row; ``counts`` is then in weight.
    counts : ndarray of shape (n_clusters, n_groups), default=None
        Rows, or weight, of each cell; by default counted from the labels.
    unassigned : ndarray of shape (n_groups,), default=None
        Rows of each group that have no cluster. They count against the verdict.
    checks : list of ConstraintCheck, default=None
        The constraint, one entry for each attribute, by which the report judges; None means the
        population's shares.
    constraint : str, default=None
        The same in one sentence.
    features : ndarray of shape (n_rows, n_features), default=None
        The features that were clustered, scaled as they were clustered.
    feature_names : list of length n_features, default=None
        By default "feature 0" and so on.
    group_costs : GroupCosts, default=None
        What fairness costs each group, see `fairanchor.cost_by_group`.
    selection : SelectionRates, default=None
        Selection rates, see `fairanchor.audit.selection_rates`.
    favourable : bool, default=False
        Whether the clusters of ``selection`` were marked as favourable.
    n_errors : int, default=None
        A number of wrong records for which the certificate is stated, besides 1, 5 and 10 %.
    robustness : RobustnessResult, default=None
        Result of `fairanchor.robustness_check`, for the section on robustness.
    stability : ndarray of shape (n_clusters, 2), default=None
        For a consensus of several runs: stability of each cluster between 0 and 1, and the share of
        its rows near a border.
    parameters, timings : dict
        What is needed to repeat the run, and seconds by step.
    command : str, default=None
        Command line that repeats the run.
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
    date : str
        When the summary was made.
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
    checks: list[ConstraintCheck] | None = None
    constraint: str | None = None
    features: np.ndarray | None = None
    feature_names: Any = None
    group_costs: GroupCosts | None = None
    selection: SelectionRates | None = None
    favourable: bool = False
    n_errors: int | None = None
    robustness: Any = None
    stability: np.ndarray | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    command: str | None = None
    warnings: list[Any] | None = None
    n_rows_left_out: int = 0
    converged: bool = True
    n_rows_total: Any = None
    uses_sensitive_for_prediction: bool = False
    fingerprints: dict[str, str] | None = None
    date: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))

    def __post_init__(self) -> None:
        for name in ("labels", "group_codes", "sample_weight", "unassigned"):
            if getattr(self, name) is not None:
                setattr(self, name, np.asarray(getattr(self, name)))
        if self.n_rows_total is None:
            self.n_rows_total = len(self.labels)
        n_clusters = max(int(self.labels.max()) + 1, 0 if self.counts is None else len(self.counts))
        if self.cluster_names is None:
            self.cluster_names = list(range(n_clusters))
        shape = (len(self.cluster_names), len(self.group_names))
        counted = count_cells(self.labels, self.group_codes, *shape, self.sample_weight)
        self.counts = np.asarray(counted if self.counts is None else self.counts)
        if self.has_all_rows and not np.allclose(self.counts, counted, rtol=1e-6, atol=1e-6):
            cell = np.unravel_index(np.abs(self.counts - counted).argmax(), shape)
            raise ValueError(
                f"counts{list(map(int, cell))} is {self.counts[cell]:g}, but the labels and groups "
                f"have {counted[cell]:g} there: they describe different clusterings."
            )
        if self.features is not None:
            self.feature_names = feature_names_of(self.features, self.feature_names)
        if self.fingerprints is None:
            arrays = {"labels": self.labels, "groups": self.group_codes, "features": self.features}
            known = {name: array for name, array in arrays.items() if array is not None}
            self.fingerprints = {name: _checksum(array) for name, array in known.items()}

    @property
    def n_clusters(self) -> int:
        return len(self.cluster_names)

    @property
    def composition(self) -> Composition:
        """Composition of the clusters."""
        return Composition(self.counts, self.cluster_names, self.group_names)

    @property
    def everyone(self) -> Composition:
        """The same, with rows that have no cluster as a last cluster without a name."""
        if self.unassigned is None or not self.unassigned.any():
            return self.composition
        table = np.vstack([self.counts, self.unassigned])
        return Composition(table, [*self.cluster_names, None], self.group_names)

    @property
    def relative_balance(self) -> float:
        """Relative balance with rows that lack a cluster counted against it."""
        return float(self.everyone.closeness[: self.n_clusters].min())

    @property
    def has_all_rows(self) -> bool:
        """Whether ``labels`` holds every row that was clustered."""
        return bool(self.n_rows_total == len(self.labels))

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


def summarise_run(
    estimator: Any,
    X: Table,
    *,
    sensitive_features: Table,
    sample_weight: Weights = None,
    title: str | None = None,
    feature_names: Sequence[Any] | None = None,
    plain_labels: Literal["fit"] | ArrayLike | None = "fit",
    robustness: Any = None,
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
    robustness : RobustnessResult, default=None
        Result of `fairanchor.robustness_check`, for the section on robustness.

    Returns
    -------
    run : RunSummary
        For `write_report`. `ConsensusClustering`, alone or as the clusterer of the framework,
        provides the stability of the clusters.
    """
    names = feature_names_of(X, feature_names)
    X = check_array(X, dtype=np.float64, input_name="X")
    n_rows = check_rows_of_fit(estimator, len(X))
    if isinstance(plain_labels, str) and plain_labels != "fit":
        raise ValueError(f"plain_labels={plain_labels!r}, expected 'fit', None or labels.")
    codes, columns = np.zeros(n_rows, dtype=np.int64), []
    if sensitive_features is not None:
        sensitive_features = in_fitted_order(estimator, sensitive_features)
        columns = _text_names(sensitive_features)
        codes, unknown = codes_of_known_groups(
            sensitive_features,
            list(estimator.groups_),
            n_rows,
            missing=getattr(estimator, "missing_groups", None),
        )
        if unknown:
            raise ValueError(
                f"sensitive_features has groups that the estimator was not fitted with: "
                f"{list(unknown)[:5]}. A report is about the rows of the fit."
            )
    run = summary_of_sample(
        estimator,
        X,
        estimator.labels_,
        codes,
        title=title or f"{type(estimator).__name__}: {n_rows:,} rows",
        feature_names=names,
        columns=columns,
        sample_weight=None if sample_weight is None else np.asarray(sample_weight, dtype=float),
        robustness=robustness,
    )
    if plain_labels is not None:
        run.group_costs = cost_by_group(
            estimator,
            X,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            plain_labels=None if isinstance(plain_labels, str) else plain_labels,
        )
        run.parameters["compared with"] = run.group_costs.plain
    return run


def summary_of_sample(
    estimator: Any, X: np.ndarray, labels: np.ndarray, codes: np.ndarray, **facts: Any
) -> RunSummary:
    """Facts about a fitted estimator, and some or all rows of its fit with labels and groups."""
    return RunSummary(
        labels=labels,
        group_codes=codes,
        group_names=list(estimator.groups_),
        counts=estimator.counts_,
        checks=checks_of_estimator(estimator),
        constraint=describe_estimator(estimator),
        features=X,
        stability=_stability_of(estimator),
        parameters={"estimator": type(estimator).__name__} | estimator.get_params(deep=False),
        converged=bool(getattr(estimator, "converged_", True)),
        uses_sensitive_for_prediction=hasattr(estimator, "predict"),
        **facts,
    )


def _stability_of(estimator: Any) -> np.ndarray | None:
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
    labels: Labels,
    *,
    sensitive_features: Table,
    sample_weight: Weights = None,
    targets: float | FairnessTargets | Sequence[float | FairnessTargets] | None = None,
    attributes: Literal["intersection", "separate"] = "intersection",
    favourable: Sequence[Any] | None = None,
    title: str = "Audit of given labels",
    missing: Literal["error", "drop"] = "error",
    missing_groups: Literal["error", "own_group"] = "error",
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
    missing_groups : {"error", "own_group"}, default="error"
        Whether rows whose group is missing raise an error, or are a group of their own.

    Returns
    -------
    run : RunSummary
        For `write_report`.
    """
    for name, value, choices in (
        ("missing", missing, ("error", "drop")),
        ("missing_groups", missing_groups, ("error", "own_group")),
        ("attributes", attributes, ("intersection", "separate")),
    ):
        if value not in choices:
            raise ValueError(f"{name}={value!r} should be {' or '.join(map(repr, choices))}.")
    if attributes == "separate" and targets is None:
        raise ValueError("attributes='separate' needs targets: give a tolerance, such as 0.1.")
    codes, clusters, kept = encode_labels(labels, drop_missing=missing == "drop")
    group_codes, groups = encode_names(sensitive_features, len(kept), missing=missing_groups)
    weights = check_weights(sample_weight, kept)
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


def _text_names(sensitive_features: Any) -> list[str]:
    """Names of the sensitive columns, where they have some."""
    names = [name for name, _ in columns_of(sensitive_features)]
    return names if all(isinstance(name, str) for name in names) else []


def _checksum(array: np.ndarray) -> str:
    array = np.ascontiguousarray(array)
    return f"sha256 {hashlib.sha256(array.tobytes()).hexdigest()}, shape {array.shape}"
