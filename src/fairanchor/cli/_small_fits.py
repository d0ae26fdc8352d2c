"""Small fits that run every kernel with all types of arguments that arise from users' data."""

from inspect import signature
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from fairanchor import (
    AnchorFairClustering,
    FairKMeans,
    FairletClustering,
    FairnessFirstClustering,
    SociallyFairKMeans,
    VariationalFairClustering,
    fair_assign,
)
from fairanchor.cluster._on_anchors import CLUSTERERS

N_ROWS, N_CLUSTERS = 240, 3
MODEL = {"n_clusters": N_CLUSTERS, "random_state": 0}
ANCHORS = {**MODEL, "n_anchors": 40}

# Three clusters, and three groups, each of which has more rows in one of them.
_rng = np.random.default_rng(0)
_cluster = np.arange(N_ROWS) % N_CLUSTERS
X = _rng.normal(size=(N_ROWS, 3)) + 6.0 * np.eye(N_CLUSTERS)[_cluster]
EQUAL_ROWS = np.round(X)
# As of memory-mapped files, and of data frames. Numba compiles it as another type.
READ_ONLY = X.copy()
READ_ONLY.flags.writeable = False
WEIGHTS = _rng.uniform(0.5, 2.0, N_ROWS)
GROUPS = np.where(_rng.uniform(size=N_ROWS) < 0.6, _cluster, _rng.integers(0, 3, N_ROWS))
TWO_GROUPS = GROUPS % 2
TWO_ATTRIBUTES = np.column_stack([TWO_GROUPS, np.arange(N_ROWS) // 2 % 2])
COUNTS = np.full((N_CLUSTERS, 3), np.bincount(GROUPS) / N_CLUSTERS)

CONSTRAINTS: tuple[dict[str, Any], ...] = (
    {},
    {"tolerance": 0.2},
    {"tolerance": 1.0},
    {"min_cluster_size": 60},
)
SEPARATE = {"attributes": "separate"}


def fit_fair_kmeans():
    """`FairKMeans` with all kinds of constraints, rows and weights."""
    for rows in (X, EQUAL_ROWS, READ_ONLY, X.astype(np.float32)):
        for constraint in (*CONSTRAINTS, {"fairness": COUNTS}):
            _fit(FairKMeans(**MODEL, **constraint), rows, GROUPS)
        for tolerance in (0.0, 0.2):
            model = FairKMeans(**MODEL, **SEPARATE, tolerance=tolerance)
            _fit(model, rows, TWO_ATTRIBUTES)
        for constraint in CONSTRAINTS[:2]:
            _fit(FairKMeans(**MODEL, **constraint), rows, GROUPS, WEIGHTS)
    _fit(FairKMeans(**MODEL), X, None)
    _fit(FairKMeans(**MODEL, metric="cosine"), csr_array(X), GROUPS)
    for rows in (X, READ_ONLY, X.astype(np.float32)):
        _fit(SociallyFairKMeans(**MODEL, n_init=2), rows, GROUPS)


def fit_anchors():
    """`AnchorFairClustering` with both graphs, all anchors and all clusterers."""
    for rows in (X, EQUAL_ROWS, READ_ONLY):
        for graph in ("local", "reconstruction"):
            for constraint in CONSTRAINTS:
                _fit(AnchorFairClustering(**ANCHORS, graph=graph, **constraint), rows, GROUPS)
            model = AnchorFairClustering(**ANCHORS, graph=graph, **SEPARATE, tolerance=0.2)
            _fit(model, rows, TWO_ATTRIBUTES)
            _fit(AnchorFairClustering(**ANCHORS, graph=graph), rows, GROUPS, WEIGHTS)
        for anchors in ("fdas", "das", "random"):
            _fit(AnchorFairClustering(**ANCHORS, anchors=anchors), rows, GROUPS)
        _fit(AnchorFairClustering.as_in_paper(**ANCHORS), rows, GROUPS)
    for clusterer in CLUSTERERS:
        _fit(AnchorFairClustering(**ANCHORS, clusterer=clusterer), X, GROUPS)
    _fit(AnchorFairClustering(**ANCHORS), X, None)


def fit_clusterers():
    """All other clusterers, alone."""
    clusterers = [
        *(clusterer(**MODEL) for clusterer in CLUSTERERS.values()),
        VariationalFairClustering(**MODEL, objective="kmedian"),
        FairnessFirstClustering(**MODEL, balance_threshold=0.5),
        *(
            FairletClustering(**MODEL, method=method, objective=objective)
            for method in ("flow", "tree")
            for objective in ("kcenter", "kmedian")
        ),
    ]
    for clusterer in clusterers:
        for rows in (X, READ_ONLY):
            for groups in (GROUPS, TWO_GROUPS):
                clusterer.fit(rows, sensitive_features=groups)


def assign_costs():
    """`fair_assign` with all kinds of constraints and costs."""
    for costs in (X, READ_ONLY):
        fair_assign(costs, sensitive_features=GROUPS, fairness=COUNTS)
        for tolerance in (0.0, 0.2):
            constraint = {"sensitive_features": GROUPS, "tolerance": tolerance}
            fair_assign(costs, **constraint)
            fair_assign(costs, **constraint, sample_weight=WEIGHTS)


def fit_chunks():
    """Both estimators on rows in chunks, as they are in large tables, files and Dask clusters."""
    models = [FairKMeans(**MODEL)]
    models += [AnchorFairClustering(**ANCHORS, graph=g) for g in ("local", "reconstruction")]
    for model in models:
        model._chunk_rows = 100
        for rows in (X, EQUAL_ROWS, READ_ONLY):
            for groups in (GROUPS, None):
                _fit(model, rows, groups)


#: What each of them fits, for people.
SMALL_FITS = {
    "FairKMeans": fit_fair_kmeans,
    "AnchorFairClustering": fit_anchors,
    "other clusterers": fit_clusterers,
    "fair_assign": assign_costs,
    "rows in chunks": fit_chunks,
}


def _fit(model, rows, groups, weights=None):
    """Fit a model and label the rows again."""
    model.fit(rows, sensitive_features=groups, sample_weight=weights)
    for name in ("predict", "predict_proba", "transform", "score"):
        method = getattr(model, name, None)
        if method is None:
            continue
        takes_groups = "sensitive_features" in signature(method).parameters
        method(rows, **({"sensitive_features": groups} if takes_groups else {}))
