"""Types of the public names, which are imported when first used."""

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from fairanchor._fairness_path import FairnessPath
from fairanchor.assignment._feasibility import FeasibilityReport
from fairanchor.exceptions import FairnessWarning as FairnessWarning

__version__: str

# An array, a data frame of any library, a dataset or a Dask collection; names of its columns.
_Table: TypeAlias = Any
_Seed: TypeAlias = int | RandomState | None
_Shares: TypeAlias = ArrayLike | dict[Any, Any] | None

class _Estimator:
    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def set_params(self, **params: Any) -> Self: ...

class _FairClusterer(_Estimator):
    labels_: NDArray[np.int32]
    groups_: NDArray[Any]
    counts_: NDArray[Any]
    balance_: float
    n_iter_: int
    n_features_in_: int
    def fit_predict(
        self,
        X: _Table,
        y: object = None,
        *,
        sensitive_features: _Table | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> NDArray[np.int32]: ...

class AnchorFairClustering(_FairClusterer):
    n_graph_rows_: int
    feature_names_in_: NDArray[Any]
    sensitive_names_in_: NDArray[Any]
    preprocessing_: Any
    targets_: NDArray[np.float64]
    worst_violation_: float
    anchor_indices_: NDArray[np.int64]
    anchors_: NDArray[np.float64]
    anchor_masses_: NDArray[np.float64]
    anchor_labels_: NDArray[np.int64]
    clusterer_: Any
    multipliers_: NDArray[np.float64]
    assignment_prices_: NDArray[np.float64]
    cluster_centers_: NDArray[np.float64]
    inertia_: float
    mass_error_: float
    duality_gap_: float
    assignment_gap_: float
    converged_: bool
    n_clusters_found_: int
    history_: list[dict[str, float]]
    attribute_groups_: dict[Any, NDArray[Any]]
    attribute_counts_: dict[Any, NDArray[Any]]
    attribute_violations_: dict[Any, float]
    def __init__(
        self,
        n_clusters: int = 8,
        *,
        clusterer: str | object = "fair_kmeans",
        n_anchors: int | Literal["auto"] = "auto",
        anchors: str | ArrayLike = "kmeans",
        quotas: Literal["balanced", "paper"] = "balanced",
        anchor_weights: Literal["mass", "uniform"] = "mass",
        alpha: float = 10.0,
        fairness: str | ArrayLike | FairnessTargets | list[FairnessTargets] = "population",
        tolerance: float = 0.0,
        attributes: Literal["intersection", "separate"] = "intersection",
        assignment: Literal["balanced", "argmax"] = "balanced",
        refine: int | Literal["auto"] = "auto",
        min_cluster_size: float | Literal["auto"] = "auto",
        missing_groups: Literal["error", "own_group"] = "error",
        unknown_groups: Literal["error", "blind"] = "error",
        solver: Literal["newton", "admm"] = "newton",
        graph_rows: Literal["auto", "all"] = "auto",
        max_iter: int | None = None,
        tol: float = 0.001,
        n_jobs: int | None = None,
        random_state: _Seed = None,
    ) -> None: ...
    @classmethod
    def as_in_paper(
        cls,
        n_clusters: int = 8,
        *,
        clusterer: str | object = "spfc",
        alpha: float = 1.0,
        **parameters: Any,
    ) -> Self: ...
    def fit(
        self,
        X: _Table,
        y: object = None,
        *,
        sensitive_features: _Table | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...
    def fit_predict(
        self,
        X: _Table,
        y: object = None,
        *,
        sensitive_features: _Table | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> NDArray[np.int32]: ...
    def predict(
        self, X: _Table, *, sensitive_features: _Table | None = None
    ) -> NDArray[np.int32]: ...
    def predict_proba(
        self, X: _Table, *, sensitive_features: _Table | None = None
    ) -> NDArray[np.float64]: ...
    def transform(self, X: _Table, *, sensitive_features: _Table | None = None) -> csr_array: ...
    def fit_transform(
        self,
        X: _Table,
        y: object = None,
        *,
        sensitive_features: _Table | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> csr_array: ...
    def score(
        self,
        X: _Table,
        y: object = None,
        *,
        sensitive_features: _Table | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float: ...
    def save(self, path: str | PathLike[str], *, force: bool = False) -> None: ...
    def write_labels(self, path: str | PathLike[str], *, force: bool = False) -> None: ...
    def iter_labels(self) -> Iterator[NDArray[np.int32]]: ...
    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]: ...
    def set_output(self, *, transform: Any = None) -> Self: ...

class BoundedFairAssignment(_FairClusterer):
    cluster_centers_: NDArray[Any]
    inertia_: float
    lp_value_: float
    violation_: float
    attribute_groups_: list[Any]
    attribute_counts_: list[Any]
    def __init__(
        self,
        n_clusters: int = 8,
        *,
        objective: str = "kmeans",
        tolerance: float = 0.2,
        lower: _Shares = None,
        upper: _Shares = None,
        n_init: int = 10,
        max_iter: int = 300,
        random_state: _Seed = None,
    ) -> None: ...
    def fit(
        self,
        X: _Table,
        y: object = None,
        *,
        sensitive_features: _Table | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...

class FairKMeans(_FairClusterer):
    sensitive_names_in_: NDArray[Any]
    lp_value_: float
    attribute_groups_: dict[Any, Any]
    attribute_counts_: dict[Any, Any]
    attribute_violations_: dict[Any, Any]
    cost_path_: NDArray[Any]
    targets_: NDArray[np.float64]
    worst_violation_: float
    assignment_prices_: NDArray[np.float64]
    cluster_centers_: NDArray[np.float64]
    inertia_: float
    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: str | ArrayLike = "k-means",
        n_init: int = 10,
        max_iter: int = 100,
        tol: float = 0.0001,
        tolerance: float = 0.0,
        attributes: Literal["intersection", "separate"] = "intersection",
        n_jobs: int | None = None,
        random_state: _Seed = None,
    ) -> None: ...
    def fit(
        self,
        X: _Table,
        y: object = None,
        *,
        sensitive_features: _Table | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...
    def predict(
        self, X: _Table, *, sensitive_features: _Table | None = None
    ) -> NDArray[np.int32]: ...
    def score(
        self,
        X: _Table,
        y: object = None,
        *,
        sensitive_features: _Table | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float: ...

class FairSpectralClustering(_FairClusterer):
    embedding_: NDArray[Any]
    eigenvalues_: NDArray[Any]
    def __init__(
        self,
        n_clusters: int = 8,
        *,
        affinity: str = "auto",
        n_neighbors: int | Literal["auto"] = "auto",
        bandwidth: float | str = "auto",
        normalized: bool = True,
        eigen_solver: str = "auto",
        n_init: int = 10,
        max_iter: int = 1000,
        tol: float = 1e-06,
        random_state: _Seed = None,
    ) -> None: ...
    def fit(
        self,
        X: _Table,
        y: object = None,
        *,
        sensitive_features: _Table | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...

class FairletClustering(_FairClusterer):
    fairlets_: NDArray[Any]
    fairlet_centers_: NDArray[Any]
    decomposition_cost_: float
    max_ratio_: int
    cluster_centers_: NDArray[Any]
    inertia_: float
    def __init__(
        self,
        n_clusters: int = 8,
        *,
        method: str = "flow",
        objective: str = "kcenter",
        max_ratio: int | Literal["auto"] = "auto",
        n_init: int = 5,
        max_iter: int = 100,
        random_state: _Seed = None,
    ) -> None: ...
    def fit(
        self,
        X: _Table,
        y: object = None,
        *,
        sensitive_features: _Table | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...

class FairnessFirstClustering(_FairClusterer):
    cluster_centers_: NDArray[Any]
    inertia_: float
    stage_costs_: dict[Any, Any]
    stage_counts_: dict[Any, Any]
    def __init__(
        self,
        n_clusters: int = 8,
        *,
        balance_threshold: float = 0.8,
        n_init: int = 10,
        max_refine_iter: int = 20,
        max_sweeps: int = 100,
        random_state: _Seed = None,
    ) -> None: ...
    def fit(
        self,
        X: _Table,
        y: object = None,
        *,
        sensitive_features: _Table | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...

class FairnessTargets(_Estimator):
    def __init__(
        self,
        *,
        shares: _Shares = None,
        lower: _Shares = None,
        upper: _Shares = None,
        tolerance: float | None = None,
        min_size: ArrayLike | None = None,
        max_size: ArrayLike | None = None,
    ) -> None: ...
    @classmethod
    def proportional(
        cls,
        tolerance: float = 0.0,
        *,
        min_size: ArrayLike | None = None,
        max_size: ArrayLike | None = None,
    ) -> Self: ...
    def resolve(
        self, groups: Any, n_clusters: int, *, group_sizes: ArrayLike | None = None
    ) -> Any: ...
    def check(
        self, group_sizes: ArrayLike, group_names: Sequence[Any] | None = None, *, n_clusters: int
    ) -> FeasibilityReport: ...
    def limits_for(
        self, group_sizes: ArrayLike, group_names: Sequence[Any], n_clusters: int
    ) -> Any: ...

class OneStageFairSpectralClustering(_FairClusterer):
    objective_path_: NDArray[Any]
    objective_: float
    fairness_weight_: float
    def __init__(
        self,
        n_clusters: int = 8,
        *,
        fairness_weight: float | Literal["auto"] = 1.0,
        n_neighbors: int | Literal["auto"] = 5,
        bandwidth: float | str = "auto",
        max_iter: int = 50,
        tol: float = 0.0001,
        n_init: int = 10,
        random_state: _Seed = None,
    ) -> None: ...
    def fit(
        self,
        X: _Table,
        y: object = None,
        *,
        sensitive_features: _Table | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...

class VariationalFairClustering(_FairClusterer):
    cluster_centers_: NDArray[Any]
    energy_path_: NDArray[Any]
    fairness_error_: float
    def __init__(
        self,
        n_clusters: int = 8,
        *,
        objective: str = "kmeans",
        fairness_weight: float | Literal["auto"] = 0.25,
        lipschitz: float | None = None,
        n_neighbors: int | Literal["auto"] = 20,
        init: str | ArrayLike = "k-means++",
        n_init: int = 4,
        max_iter: int = 100,
        max_inner_iter: int = 10000,
        tol: float = 0.0001,
        inner_tol: float = 1e-05,
        polish: bool = True,
        random_state: _Seed = None,
    ) -> None: ...
    def fit(
        self,
        X: _Table,
        y: object = None,
        *,
        sensitive_features: _Table | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self: ...

def clusters_path(
    X: _Table,
    sensitive_features: _Table,
    n_clusters: Iterable[int] = ...,
    *,
    tolerance: float = 0.0,
    attributes: Literal["intersection", "separate"] = "intersection",
    sample_weight: ArrayLike | None = None,
    n_init: int = 10,
    max_iter: int = 100,
    tol: float = 0.0001,
    n_jobs: int | None = None,
    random_state: _Seed = None,
) -> FairnessPath: ...
def fairness_path(
    X: _Table,
    sensitive_features: _Table,
    tolerances: Iterable[float] = ...,
    *,
    n_clusters: int = 8,
    attributes: Literal["intersection", "separate"] = "intersection",
    sample_weight: ArrayLike | None = None,
    n_init: int = 10,
    max_iter: int = 100,
    tol: float = 0.0001,
    n_jobs: int | None = None,
    random_state: _Seed = None,
) -> FairnessPath: ...
def load_model(path: str | PathLike[str]) -> AnchorFairClustering: ...
def suggest_tolerance(path: FairnessPath, *, extra_cost: float = 0.05) -> float: ...
