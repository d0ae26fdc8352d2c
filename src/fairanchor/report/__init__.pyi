"""Types of the report."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal

from numpy.typing import ArrayLike, NDArray

from fairanchor import FairnessTargets, _FairClusterer, _Table

__all__ = ["RunSummary", "render_report", "summarise_labels", "summarise_run", "write_report"]

class RunSummary:
    title: str
    labels: NDArray[Any]
    group_codes: NDArray[Any]
    group_names: list[Any]
    cluster_names: list[Any]
    sample_weight: NDArray[Any] | None
    counts: NDArray[Any]
    targets: NDArray[Any] | None
    asked: list[Any] | None
    request: str | None
    features: NDArray[Any] | None
    sample_rows: NDArray[Any] | None
    feature_names: list[Any] | None
    centers: NDArray[Any] | None
    cost: float | None
    plain_cost: float | None
    plain_labels: NDArray[Any] | None
    anchors: NDArray[Any] | None
    anchor_labels: NDArray[Any] | None
    anchor_masses: NDArray[Any] | None
    history: list[dict[str, Any]] | None
    parameters: dict[str, Any]
    versions: dict[str, Any]
    timings: dict[str, float]
    command: str | None
    code: str | None
    warnings: list[str] | None
    n_rows_left_out: int
    left_out_reason: str
    converged: bool
    n_graph_rows: int | None
    n_rows_total: int
    uses_sensitive_for_prediction: bool
    def __init__(
        self,
        *,
        title: str,
        labels: ArrayLike,
        group_codes: ArrayLike,
        group_names: Sequence[Any],
        cluster_names: Sequence[Any] | None = None,
        sample_weight: ArrayLike | None = None,
        counts: ArrayLike | None = None,
        targets: ArrayLike | None = None,
        asked: list[Any] | None = None,
        request: str | None = None,
        features: ArrayLike | None = None,
        sample_rows: ArrayLike | None = None,
        feature_names: Sequence[Any] | None = None,
        centers: ArrayLike | None = None,
        cost: float | None = None,
        plain_cost: float | None = None,
        plain_labels: ArrayLike | None = None,
        anchors: ArrayLike | None = None,
        anchor_labels: ArrayLike | None = None,
        anchor_masses: ArrayLike | None = None,
        history: list[dict[str, Any]] | None = None,
        parameters: dict[str, Any] = ...,
        versions: dict[str, Any] = ...,
        timings: dict[str, float] = ...,
        command: str | None = None,
        code: str | None = None,
        warnings: list[str] | None = None,
        n_rows_left_out: int = 0,
        left_out_reason: str = "with missing values",
        converged: bool = True,
        n_graph_rows: int | None = None,
        n_rows_total: int | None = None,
        uses_sensitive_for_prediction: bool = False,
    ) -> None: ...
    @property
    def n_clusters(self) -> int: ...
    @property
    def n_groups(self) -> int: ...
    @property
    def feature_labels(self) -> NDArray[Any]: ...
    @property
    def plain_counts(self) -> NDArray[Any] | None: ...
    @property
    def has_all_rows(self) -> bool: ...

def render_report(run: RunSummary) -> str: ...
def summarise_labels(
    labels: ArrayLike,
    *,
    sensitive_features: _Table,
    sample_weight: ArrayLike | None = None,
    targets: float | FairnessTargets | Sequence[float | FairnessTargets] | None = None,
    attributes: Literal["intersection", "separate"] = "intersection",
    title: str = "Audit of given labels",
    missing: Literal["error", "drop"] = "error",
) -> RunSummary: ...
def summarise_run(
    estimator: _FairClusterer,
    X: _Table,
    *,
    sensitive_features: _Table,
    sample_weight: ArrayLike | None = None,
    title: str | None = None,
    feature_names: Sequence[Any] | None = None,
    plain_labels: Literal["fit"] | ArrayLike | None = "fit",
    timings: Mapping[str, float] | None = None,
    warnings: list[str] | None = None,
    n_rows_left_out: int = 0,
) -> RunSummary: ...
def write_report(path: str | PathLike[str], run: RunSummary, *, force: bool = False) -> None: ...
