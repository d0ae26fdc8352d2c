"""Types of the pictures."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from fairanchor import _FairClusterer, _Table
from fairanchor._fairness_path import FairnessPath

__all__ = [
    "plot_anchors",
    "plot_balance",
    "plot_clusters_path",
    "plot_comparison",
    "plot_composition",
    "plot_convergence",
    "plot_embedding",
    "plot_fairness_path",
    "plot_price_of_fairness",
    "plot_profiles",
    "principal_plane",
]

class _Plane:
    center: NDArray[np.float64]
    directions: NDArray[np.float64]
    explained: NDArray[np.float64]
    def project(self, X: NDArray[np.float64]) -> NDArray[np.float64]: ...

def plot_anchors(
    anchors: _FairClusterer | ArrayLike,
    labels: ArrayLike | None = None,
    masses: ArrayLike | None = None,
    *,
    X: _Table | None = None,
    plane: _Plane | None = None,
    ax: Axes | None = None,
) -> Axes: ...
def plot_balance(
    clustering: _FairClusterer | ArrayLike,
    sensitive_features: _Table | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes: ...
def plot_clusters_path(path: FairnessPath, *, ax: Axes | None = None) -> Axes: ...
def plot_comparison(
    results: Sequence[Mapping[str, Any]],
    *,
    bound: float | None = None,
    reference: float | None = None,
    ax: Axes | None = None,
) -> Axes: ...
def plot_composition(
    clustering: _FairClusterer | ArrayLike,
    sensitive_features: _Table | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes: ...
def plot_convergence(
    history: _FairClusterer | list[dict[str, Any]],
    *,
    tolerance: float | None = None,
    ax: Axes | None = None,
) -> Axes: ...
def plot_embedding(
    X: _Table,
    labels: ArrayLike,
    *,
    plane: _Plane | None = None,
    max_points: int = 1500,
    cluster_names: Sequence[Any] | None = None,
    ax: Axes | None = None,
) -> Axes: ...
def plot_fairness_path(path: FairnessPath, *, ax: Axes | None = None) -> Axes: ...
def plot_price_of_fairness(
    costs: ArrayLike,
    balances: ArrayLike,
    *,
    names: Sequence[Any] | None = None,
    bound: float | None = None,
    ax: Axes | None = None,
) -> Axes: ...
def plot_profiles(
    X: _Table,
    labels: ArrayLike,
    *,
    feature_names: Sequence[Any] | None = None,
    cluster_names: Sequence[Any] | None = None,
    max_features: int = 12,
    ax: Axes | None = None,
) -> Axes: ...
def principal_plane(X: _Table) -> _Plane: ...
