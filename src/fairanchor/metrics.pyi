"""Types of the measures."""

from typing import Any, Literal

from numpy.typing import ArrayLike, NDArray

from fairanchor import FairnessTargets, _Table

__all__ = [
    "attribute_balance_scores",
    "attribute_mnce_scores",
    "attribute_relative_balance_scores",
    "balance_score",
    "clustering_accuracy_score",
    "clustering_cost",
    "contingency_table",
    "cost_ratio_score",
    "dataset_balance",
    "mnce_score",
    "nmi_score",
    "relative_balance_score",
    "worst_violation",
]

def attribute_balance_scores(
    labels: ArrayLike, *, sensitive_features: _Table, sample_weight: ArrayLike | None = None
) -> dict[Any, float]: ...
def attribute_mnce_scores(
    labels: ArrayLike, *, sensitive_features: _Table, sample_weight: ArrayLike | None = None
) -> dict[Any, float]: ...
def attribute_relative_balance_scores(
    labels: ArrayLike, *, sensitive_features: _Table, sample_weight: ArrayLike | None = None
) -> dict[Any, float]: ...
def balance_score(
    labels: ArrayLike, *, sensitive_features: _Table, sample_weight: ArrayLike | None = None
) -> float: ...
def clustering_accuracy_score(y_true: ArrayLike, labels: ArrayLike) -> float: ...
def clustering_cost(
    X: _Table, labels: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float: ...
def contingency_table(
    labels: ArrayLike, *, sensitive_features: _Table, sample_weight: ArrayLike | None = None
) -> NDArray[Any]: ...
def cost_ratio_score(
    X: _Table,
    labels: ArrayLike,
    reference: float | ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> float: ...
def dataset_balance(
    sensitive_features: _Table, *, sample_weight: ArrayLike | None = None
) -> float: ...
def mnce_score(
    labels: ArrayLike, *, sensitive_features: _Table, sample_weight: ArrayLike | None = None
) -> float: ...
def nmi_score(
    y_true: ArrayLike,
    labels: ArrayLike,
    *,
    average_method: Literal["max", "min", "geometric", "arithmetic"] = "max",
) -> float: ...
def relative_balance_score(
    labels: ArrayLike, *, sensitive_features: _Table, sample_weight: ArrayLike | None = None
) -> float: ...
def worst_violation(
    labels: ArrayLike,
    *,
    sensitive_features: _Table,
    targets: float | ArrayLike | FairnessTargets | list[FairnessTargets] = 0.0,
    attributes: Literal["intersection", "separate"] = "intersection",
    sample_weight: ArrayLike | None = None,
) -> float: ...
