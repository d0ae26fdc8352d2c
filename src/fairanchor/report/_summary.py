"""What a report is made from: one clustering, described by arrays only."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairanchor.plotting._tables import count_table


@dataclass(kw_only=True)
class RunSummary:
    """A clustering, with as much about it as is known.

    Only the first four are needed; a panel whose data is None is left out of the report. All tables
    have clusters as rows and groups as columns.

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
        Weight of each row; ``counts`` and ``targets`` are then in weight.
    counts : ndarray of shape (n_clusters, n_groups), default=None
        Rows, or weight, of each cell; by default counted from the labels.
    targets : ndarray of shape (n_clusters, n_groups), default=None
        What was asked for.
    asked : list of Asked, default=None
        Bounds, one entry for each attribute, by which the report then judges; None means the
        population's shares.
    request : str, default=None
        The same in one sentence.
    features : ndarray of shape (n_rows or len(sample_rows), n_features), default=None
        The features that were clustered, scaled as they were clustered.
    sample_rows : ndarray of ints, default=None
        Which rows ``features`` holds, in its order; None means all of them.
    feature_names : sequence of length n_features, default=None
        By default "feature 0" and so on.
    centers : ndarray of shape (n_clusters, n_features), default=None
        Means of the clusters.
    cost, plain_cost : float, default=None
        k-means cost of the labels, and of plain k-means on the same rows.
    plain_labels : ndarray of shape (n_rows,), default=None
        Labels of plain k-means.
    anchors : ndarray of shape (n_anchors, n_features), default=None
        Points that represent all rows.
    anchor_labels, anchor_masses : ndarray of shape (n_anchors,), default=None
        Cluster of each anchor, and how many rows it represents.
    history : list of dict, default=None
        One record per iteration, with ``mass_error`` (anchor graph) or ``cost`` (fair k-means).
    parameters, versions, timings : dict
        What is needed to repeat the run, and seconds by step; ``versions`` is filled in with
        those of the running programs if it is empty.
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
    cluster_names: list[Any] | None = None
    sample_weight: np.ndarray | None = None
    counts: np.ndarray | None = None
    targets: np.ndarray | None = None
    asked: list[Any] | None = None
    request: str | None = None
    features: np.ndarray | None = None
    sample_rows: np.ndarray | None = None
    feature_names: list[Any] | None = None
    centers: np.ndarray | None = None
    cost: float | None = None
    plain_cost: float | None = None
    plain_labels: np.ndarray | None = None
    anchors: np.ndarray | None = None
    anchor_labels: np.ndarray | None = None
    anchor_masses: np.ndarray | None = None
    history: list[Any] | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, Any] = field(default_factory=dict)
    command: str | None = None
    code: str | None = None
    warnings: list[Any] | None = None
    n_rows_left_out: int = 0
    left_out_reason: str = "with missing values"
    converged: bool = True
    n_rows_total: int | None = None
    uses_sensitive_for_prediction: bool = False

    def __post_init__(self):
        self.group_names = list(self.group_names)
        self.labels = _codes(self.labels, "labels", None, "cluster_names")
        self.group_codes = _codes(
            self.group_codes, "group_codes", len(self.group_names), "group_names"
        )
        _check_length(self.group_codes, "group_codes", len(self.labels), "labels")
        self.cluster_names = list(self._check_cluster_names())
        self._check_tables()
        self._check_features()
        self._check_anchors()
        if self.plain_labels is not None:
            self.plain_labels = _codes(self.plain_labels, "plain_labels", None, "cluster_names")
            _check_length(self.plain_labels, "plain_labels", len(self.labels), "labels")
        self._check_costs()

    @property
    def n_clusters(self) -> int:
        return len(self.cluster_names or ())

    @property
    def n_groups(self) -> int:
        return len(self.group_names)

    @property
    def feature_labels(self) -> np.ndarray:
        """Labels of the rows that ``features`` holds."""
        return self.labels if self.sample_rows is None else self.labels[self.sample_rows]

    @property
    def plain_counts(self) -> np.ndarray | None:
        """Table of plain k-means, over the rows in ``labels``; None without its labels."""
        if self.plain_labels is None:
            return None
        n_clusters = int(self.plain_labels.max()) + 1
        return count_table(
            self.plain_labels, self.group_codes, n_clusters, self.n_groups, self.sample_weight
        )

    @property
    def has_all_rows(self) -> bool:
        """Whether ``labels`` holds every row that was clustered."""
        return self.n_rows_total == len(self.labels)

    def _check_cluster_names(self):
        sized = [table for table in (self.counts, self.centers, self.targets) if table is not None]
        largest = int(self.labels.max()) + 1
        names = self.cluster_names
        if names is None:
            names = range(len(sized[0]) if sized else largest)
        if largest > len(names):
            raise ValueError(
                f"labels go up to {largest - 1}, but there are {len(names)} clusters in "
                "cluster_names, counts or centers."
            )
        return names

    def _check_tables(self):
        shape = (self.n_clusters, self.n_groups)
        if self.sample_weight is not None:
            self.sample_weight = np.asarray(self.sample_weight, dtype=float)
            _check_length(self.sample_weight, "sample_weight", len(self.labels), "labels")
        counted = count_table(self.labels, self.group_codes, *shape, self.sample_weight)
        if self.n_rows_total is None:
            self.n_rows_total = len(self.labels)
        if self.n_rows_total < len(self.labels):
            raise ValueError(
                f"n_rows_total={self.n_rows_total} should be >= the {len(self.labels)} labels."
            )
        self.counts = counted if self.counts is None else _table(self.counts, "counts", shape)
        self.targets = None if self.targets is None else _table(self.targets, "targets", shape)
        if self.has_all_rows and not np.allclose(self.counts, counted, rtol=1e-6, atol=1e-6):
            cell = np.unravel_index(np.abs(self.counts - counted).argmax(), shape)
            raise ValueError(
                f"counts{list(map(int, cell))} is {self.counts[cell]:g}, but the labels and groups "
                f"have {counted[cell]:g} there: they describe different clusterings."
            )

    def _check_features(self):
        if self.features is None:
            if self.sample_rows is not None:
                raise ValueError("sample_rows is given, but features, whose rows they are, is not.")
            return
        self.features = np.asarray(self.features, dtype=np.float64)
        expected = len(self.labels)
        if self.sample_rows is not None:
            self.sample_rows = _codes(self.sample_rows, "sample_rows", len(self.labels), "labels")
            expected = len(self.sample_rows)
        if self.features.ndim != 2 or len(self.features) != expected:
            raise ValueError(
                f"features has shape {self.features.shape}, expected ({expected}, n_features): one "
                "row per label, or per entry of sample_rows."
            )
        n_features = self.features.shape[1]
        if self.feature_names is None:
            self.feature_names = [f"feature {j}" for j in range(n_features)]
        self.feature_names = list(self.feature_names)
        _check_length(self.feature_names, "feature_names", n_features, "features' columns")
        if self.centers is not None:
            self.centers = _table(self.centers, "centers", (self.n_clusters, n_features))

    def _check_anchors(self):
        if self.anchors is None:
            return
        self.anchors = np.asarray(self.anchors, dtype=np.float64)
        if self.anchors.ndim != 2:
            raise ValueError(
                f"anchors has shape {self.anchors.shape}, expected (n_anchors, n_features)."
            )
        if self.features is not None:
            _check_length(
                self.anchors.T, "columns of anchors", self.features.shape[1], "features' columns"
            )
        for name in ("anchor_labels", "anchor_masses"):
            if getattr(self, name) is not None:
                _check_length(getattr(self, name), name, len(self.anchors), "anchors")

    def _check_costs(self):
        for name in ("cost", "plain_cost"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value >= 0):
                raise ValueError(f"{name}={value!r} should be a number >= 0, or None.")


def _codes(values, name, limit, names):
    """Whole numbers from 0, below a limit if there is one."""
    codes = np.asarray(values)
    if codes.ndim != 1 or len(codes) == 0:
        raise ValueError(f"{name} has shape {codes.shape}, expected one entry per row, at least 1.")
    if codes.dtype.kind not in "iu":
        raise ValueError(
            f"{name} has type {codes.dtype}, expected whole numbers from 0 that stand for {names}: "
            f"np.unique(values, return_inverse=True) gives both."
        )
    low, high = int(codes.min()), int(codes.max())
    if low < 0 or (limit is not None and high >= limit):
        upper = "" if limit is None else f" to {limit - 1}, the last of {names}"
        raise ValueError(f"{name} goes from {low} to {high}, expected from 0{upper}.")
    return codes.astype(np.int64, copy=False)


def _check_length(values, name, expected, of):
    if len(values) != expected:
        raise ValueError(f"{name} has {len(values)} entries, expected {expected}, as many as {of}.")


def _table(values, name, shape):
    table = np.asarray(values, dtype=float)
    if table.shape != shape or not np.isfinite(table).all():
        raise ValueError(
            f"{name} has shape {table.shape}, expected {shape}, without missing values."
        )
    return table
