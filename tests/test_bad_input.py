"""Hostile tables: those that must work, and those that must raise an error with a reason."""

import time
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array
from sklearn.cluster import DBSCAN
from sklearn.exceptions import ConvergenceWarning

from fairanchor import (
    FDAS,
    AnchorFairClustering,
    FairKMeans,
    FairnessTargets,
    FairnessWarning,
    LocalGraph,
    ReconstructionGraph,
)
from tiers import first_is_fast

RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=(200, 3))
GROUPS = np.arange(200) % 3

MUST_WORK = {
    "constant column": (np.column_stack([NORMAL, np.ones(200)]), GROUPS, 3),
    "all rows equal": (np.ones((100, 3)), GROUPS[:100], 4),
    "all rows equal and tiny": (np.full((53, 1), 1e-100), GROUPS[:53], 2),
    "all rows equal and huge": (np.full((53, 1), 1e100), GROUPS[:53], 2),
    "duplicate rows": (np.repeat(NORMAL[:5], 40, axis=0), GROUPS, 4),
    "one feature": (NORMAL[:, :1], GROUPS, 3),
    "more features than rows": (RNG.normal(size=(30, 100)), GROUPS[:30], 3),
    "one group": (NORMAL, np.zeros(200), 3),
    "one-row groups": (NORMAL, np.r_[np.zeros(197), 1, 2, 3], 3),
    "100 groups": (NORMAL, np.arange(200) // 2, 4),
    "one cluster": (NORMAL, GROUPS, 1),
    "as many clusters as rows": (NORMAL[:20], GROUPS[:20], 20),
    "as many clusters as equal rows": (np.ones((20, 2)), GROUPS[:20], 20),
    "one row": (NORMAL[:1], [0], 1),
    "two rows": (NORMAL[:2], [0, 1], 2),
    "huge": (NORMAL * 1e150, GROUPS, 3),
    "tiny": (NORMAL * 1e-150, GROUPS, 3),
    "features of different scale": (NORMAL * [1e-8, 1.0, 1e8], GROUPS, 3),
    "one feature in cents": (NORMAL * [1.0, 1.0, 1e5], GROUPS, 3),
    "features of three scales": (NORMAL * [1.0, 1e4, 1e8], GROUPS, 3),
    "far from the origin": (NORMAL + 1e9, GROUPS, 3),
    "one outlier": (np.vstack([NORMAL, [[1e5] * 3]]), np.r_[GROUPS, 0], 3),
    "float32": (NORMAL.astype(np.float32), GROUPS, 3),
    "integers": (RNG.integers(0, 5, (200, 3)), GROUPS, 3),
    "booleans": (NORMAL > 0, GROUPS, 3),
}


@pytest.mark.parametrize("estimator", [AnchorFairClustering, FairKMeans])
@pytest.mark.parametrize("case", MUST_WORK)
def test_works_with_every_row_labelled(case, estimator):
    X, groups, n_clusters = MUST_WORK[case]
    model = estimator(n_clusters, random_state=0)
    with warnings.catch_warnings():
        # Small groups and clusters, embeddings with fewer distinct rows than clusters.
        warnings.simplefilter("ignore", FairnessWarning)
        warnings.filterwarnings("ignore", "k-means found", ConvergenceWarning)
        model.fit(X, sensitive_features=groups)
    n_groups = len(np.unique(groups))
    assert model.labels_.shape == (len(X),)
    assert set(np.unique(model.labels_)) == set(range(n_clusters))
    assert model.counts_.shape == (n_clusters, n_groups)
    assert np.abs(model.counts_ - model.targets_).max() < 1
    assert np.isfinite(model.inertia_)
    assert np.isfinite(model.assignment_prices_).all()
    predicted = model.predict(X, sensitive_features=groups)
    rows, of_row = np.unique(np.column_stack([X, groups]), axis=0, return_inverse=True)
    if len(rows) == len(X):
        assert np.mean(predicted == model.labels_) >= 0.99
    else:  # equal rows are ties: fit deals them out, predict cannot, but treats them alike
        assert len(np.unique(np.column_stack([of_row.ravel(), predicted]), axis=0)) == len(rows)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [AnchorFairClustering, FairKMeans])
def test_thousands_of_groups_of_one_or_two_rows_take_seconds(estimator):
    """Every row is an anchor then. It took more than five minutes."""
    rng = np.random.default_rng(0)
    groups = np.r_[np.arange(1500), rng.permutation(1500)[:500]]
    model = estimator(3, random_state=0)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        warnings.filterwarnings("ignore", "k-means found", ConvergenceWarning)
        model.fit(rng.normal(size=(2000, 3)), sensitive_features=groups)
    assert time.process_time() - began < 100
    assert model.counts_.shape == (3, 1500)
    assert_array_equal(model.counts_.sum(axis=0), np.bincount(groups))
    assert np.abs(model.counts_ - model.targets_).max() < 1


@pytest.mark.parametrize("graph", ["local", "reconstruction"])
@pytest.mark.parametrize("scales", [(1e-8, 1, 1e8), (1, 1, 1e5), (1, 1, 1e6), (1e-12, 1, 1e12)])
def test_features_of_any_scale_converge(scales, graph):
    X = np.random.default_rng(1).normal(size=(200, 3)) * scales
    model = AnchorFairClustering(3, graph=graph, n_anchors=40, random_state=1)
    model.fit(X, sensitive_features=GROUPS)
    assert model.converged_
    assert model.worst_violation_ < 1


@pytest.mark.parametrize("estimator", [AnchorFairClustering, FairKMeans])
def test_an_outlier_beyond_all_digits_keeps_the_counts_but_not_predict(estimator):
    """Squared distances of 1e24 leave no digit for the others: they are ties to the prices."""
    X = np.vstack([NORMAL, [[1e12] * 3]])
    groups = np.r_[GROUPS, 0]
    model = estimator(3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the ridge, the convergence: said, and not the point
        model.fit(X, sensitive_features=groups)
    assert np.bincount(model.labels_, minlength=3).min() > 0
    assert np.abs(model.counts_ - model.targets_).max() < 1
    predicted = model.predict(X, sensitive_features=groups)
    assert set(predicted) <= {0, 1, 2}


@pytest.mark.parametrize("anchors", ["kmeans", "fdas"])
def test_a_group_smaller_than_its_quota_works(anchors):
    groups = np.r_[np.zeros(197), np.ones(3)]
    model = AnchorFairClustering(5, anchors=anchors, n_anchors=50, random_state=0)
    with pytest.warns(FairnessWarning, match="n_clusters=5"):
        model.fit(NORMAL, sensitive_features=groups)
    for row in NORMAL[groups == 1]:
        assert (model.anchors_ == row).all(axis=1).any()
    assert model.worst_violation_ < 1


def with_value(value, column=1):
    X = NORMAL.copy()
    X[7, column] = value
    return X


FRAME = pd.DataFrame(NORMAL, columns=["age", "income", "size"])
MUST_RAISE = {
    "NaN": ({"X": with_value(np.nan)}, {}, ValueError, r"\(NaN\) in column 1, row 7"),
    "infinity": ({"X": with_value(np.inf)}, {}, ValueError, "infinity in column 1"),
    "NaN in a frame": (
        {"X": FRAME.assign(income=with_value(np.nan)[:, 1])},
        {},
        ValueError,
        "column 'income'",
    ),
    "fewer rows than clusters": (
        {"X": NORMAL[:2], "sensitive_features": [0, 1]},
        {},
        ValueError,
        "n_samples=2 should be >= n_clusters=3",
    ),
    "empty table": ({"X": np.empty((0, 3)), "sensitive_features": []}, {}, ValueError, "0 sample"),
    "no feature": ({"X": np.empty((200, 0))}, {}, ValueError, r"0 feature\(s\)"),
    "missing group": (
        {"sensitive_features": pd.Series(["a", None] * 100)},
        {},
        ValueError,
        "100 missing values in 200 rows",
    ),
    "noise only": (
        {},
        {"clusterer": lambda X, g, k, *, sample_weight, random_state: np.full(len(X), -1)},
        ValueError,
        "200 anchors",
    ),
    "too many clusters of anchors": (
        {},
        {"clusterer": lambda X, g, k, *, sample_weight, random_state: np.arange(len(X))},
        ValueError,
        "expected n_clusters=3",
    ),
    "labels of another length": (
        {},
        {"clusterer": lambda X, g, k, *, sample_weight, random_state: np.zeros(3)},
        ValueError,
        "one label per anchor",
    ),
    "a class": ({}, {"clusterer": DBSCAN}, TypeError, r"expected an instance of it: DBSCAN\(\)"),
    "sparse": ({"X": csr_array(NORMAL)}, {}, TypeError, "[Ss]parse"),
    "text": ({"X": FRAME.assign(age="old")}, {}, ValueError, "could not convert string"),
    "infeasible table": (
        {},
        {"fairness": np.full((3, 3), 10.0)},
        ValueError,
        "group 0 .* 30 .* 67",
    ),
    "negative target": (
        {},
        {"fairness": np.full((3, 3), -1.0)},
        ValueError,
        "The target of cluster 0 and group 0 is -1",
    ),
    "table of another shape": (
        {},
        {"fairness": np.ones((3, 2))},
        ValueError,
        r"shape \(3, 2\), expected .*\(3, 3\)",
    ),
    "paper targets with the local graph": ({}, {"fairness": "paper"}, ValueError, "'paper'.*admm"),
    "paper targets with newton": (
        {},
        {"fairness": "paper", "graph": "reconstruction"},
        ValueError,
        "'paper'.*admm",
    ),
    "bounds with argmax": (
        {},
        {"assignment": "argmax", "tolerance": 0.1},
        ValueError,
        "tolerance=0.1.*'argmax'",
    ),
    "bounds with admm": (
        {},
        {"graph": ReconstructionGraph(solver="admm"), "tolerance": 0.1},
        ValueError,
        "tolerance=0.1",
    ),
    "two tolerances": (
        {},
        {"fairness": FairnessTargets(tolerance=0.1), "tolerance": 0.2},
        ValueError,
        "tolerance=0.2.*FairnessTargets",
    ),
    "two minimum sizes": (
        {},
        {"fairness": FairnessTargets(min_size=3), "min_cluster_size": 5},
        ValueError,
        "min_cluster_size=5",
    ),
    "NaN labels": (
        {},
        {"clusterer": lambda X, g, k, *, sample_weight, random_state: np.full(len(X), np.nan)},
        ValueError,
        "not whole numbers",
    ),
    "minimum size above the mean": (
        {},
        {"min_cluster_size": 70},
        ValueError,
        "min_cluster_size=70.*n_clusters=3.*200",
    ),
    "NaN targets with admm": (
        {},
        {"fairness": np.full((3, 3), np.nan), "graph": ReconstructionGraph(solver="admm")},
        ValueError,
        "nan",
    ),
    "values beyond the range": (
        {"X": NORMAL * 1e160},
        {},
        ValueError,
        "exceed double precision",
    ),
    "negative alpha": (
        {},
        {"graph": ReconstructionGraph(alpha=-1.0)},
        ValueError,
        "alpha.* Got -1.0",
    ),
    "unknown solver": (
        {},
        {"graph": ReconstructionGraph(solver="x")},
        ValueError,
        "solver.* Got 'x'",
    ),
    "zero tol": ({}, {"graph": ReconstructionGraph(tol=0)}, ValueError, "tol.* Got 0"),
    "no sweep": ({}, {"graph": ReconstructionGraph(max_iter=0)}, ValueError, "max_iter.* Got 0"),
    "no neighbour": (
        {},
        {"graph": LocalGraph(n_neighbors=0)},
        ValueError,
        "n_neighbors.* Got 0",
    ),
    "unknown quotas": ({}, {"anchors": FDAS(quotas="x")}, ValueError, "quotas.* Got 'x'"),
    "unknown name": ({}, {"clusterer": "kmeans++"}, ValueError, "'clusterer' parameter"),
}


@pytest.mark.parametrize("case", MUST_RAISE)
def test_an_error_names_what_was_given(case):
    inputs, parameters, error, message = MUST_RAISE[case]
    arguments = {"X": NORMAL, "sensitive_features": GROUPS} | inputs
    model = AnchorFairClustering(3, random_state=0, **parameters)
    with pytest.raises(error, match=message):
        model.fit(arguments.pop("X"), **arguments)


def test_an_unknown_group_in_predict_is_named_and_counted():
    names = np.array(["a", "b", "c"])[GROUPS]
    model = AnchorFairClustering(2, random_state=0).fit(NORMAL, sensitive_features=names)
    with pytest.raises(ValueError, match=r"not seen: 'd' \(2 rows\)"):
        model.predict(NORMAL[:3], sensitive_features=["a", "d", "d"])
    with pytest.raises(ValueError, match="sensitive_features is None"):
        model.predict(NORMAL[:3])


def test_missing_groups_can_be_a_group_of_their_own():
    groups = pd.Series(["a", "b", None, "a"] * 50)
    model = AnchorFairClustering(2, missing_groups="own_group", random_state=0)
    model.fit(NORMAL, sensitive_features=groups)
    assert model.groups_.tolist() == ["a", "b", None]
    assert model.counts_.sum(axis=0).tolist() == [100, 50, 50]


def test_no_sensitive_features_warns():
    with pytest.warns(FairnessWarning, match="one group"):
        AnchorFairClustering(2, random_state=0).fit(NORMAL)


REMOVED = {
    "refine": "FairKMeans",
    "graph_rows": "LocalGraph",
    "alpha": "ReconstructionGraph",
    "solver": "ReconstructionGraph",
    "max_iter": "ReconstructionGraph",
    "tol": "ReconstructionGraph",
    "quotas": "FDAS",
    "anchor_weights": "FDAS",
    "verbose": "",
}


@pytest.mark.parametrize("parameter", REMOVED)
def test_a_removed_parameter_raises_with_what_replaces_it(parameter):
    with pytest.raises(TypeError, match=f"'{parameter}'.*{REMOVED[parameter]}"):
        AnchorFairClustering(3, **{parameter: 1})


def test_an_unknown_parameter_raises():
    with pytest.raises(TypeError, match="colour"):
        AnchorFairClustering(3, colour="red")


FAIR_KMEANS_MUST_RAISE = {
    "too few labels": ({"init": np.arange(199) % 3}, "199.*200"),
    "labels of another number of clusters": ({"init": np.arange(200) % 4}, "4.*n_clusters=3"),
    "an estimator that is not fitted": ({"init": FairKMeans(3)}, "init.*cluster_centers_"),
    "unknown number of starts": ({"n_init": "best"}, "n_init"),
    "anchors are not for k-means": ({"fairness": "anchors"}, "fairness"),
    "two tolerances": (
        {"fairness": FairnessTargets(tolerance=0.1), "tolerance": 0.2},
        "tolerance=0.2.*FairnessTargets",
    ),
    "a table and a minimum": (
        {"fairness": np.full((3, 3), 22), "min_cluster_size": 5},
        "min_cluster_size=5",
    ),
    "minimum size above the mean": ({"min_cluster_size": 70}, "min_cluster_size=70.*200"),
    "infeasible table": ({"fairness": np.full((3, 3), 10.0)}, "group 0 .* 30 .* 67"),
    "infeasible bounds": ({"fairness": FairnessTargets(lower={0: 0.5})}, "group 0"),
    "unknown group": ({"fairness": FairnessTargets(lower={9: 0.5})}, "lower.*9"),
    "a target for each of two": ({"fairness": [FairnessTargets()] * 2}, "2 FairnessTargets"),
}


@pytest.mark.parametrize("case", FAIR_KMEANS_MUST_RAISE)
def test_an_error_of_fair_k_means_names_what_was_given(case):
    parameters, named = FAIR_KMEANS_MUST_RAISE[case]
    with pytest.raises(ValueError, match=named):
        FairKMeans(3, random_state=0, **parameters).fit(NORMAL, sensitive_features=GROUPS)


@pytest.mark.parametrize("seed", first_is_fast(range(3)))
def test_more_clusters_than_distinct_rows_keep_their_composition(seed):
    X = np.repeat([[0.0], [1.0], [2.0]], 100, axis=0)
    groups = np.random.default_rng(seed).choice(["a", "b"], 300)
    model = AnchorFairClustering(4, random_state=0)
    with pytest.warns(UserWarning, match="clusters"):  # the fourth cluster has few rows
        model.fit(X, sensitive_features=groups)
    assert model.n_clusters_found_ == 4
    assert model.worst_violation_ < 1
    assert not np.signbit(model.inertia_)


def test_an_empty_cluster_is_reported():
    # All rows are equal, and so are all anchors: every row is nearest to the first cluster.
    X, groups = np.ones((60, 1)), np.tile(["a", "b"], 30)

    def halves(points, codes, n_clusters, *, sample_weight, random_state):
        return np.arange(len(points)) % n_clusters

    model = AnchorFairClustering(2, clusterer=halves, assignment="argmax", random_state=0)
    with pytest.warns(FairnessWarning, match=r"1 of 2 clusters.*1 \(0\)"):
        model.fit(X, sensitive_features=groups)
    assert model.n_clusters_found_ == 1


@pytest.mark.parametrize("estimator", [AnchorFairClustering, FairKMeans])
def test_a_group_without_weight_is_labelled_within_a_tolerance(estimator):
    X, groups = np.ones((3, 1)), np.array([0, 0, 1])
    weights = np.array([1.9, 0.9, 0.0])
    model = estimator(3, tolerance=0.3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # clusters without a row, small ones: not the point
        model.fit(X, sensitive_features=groups, sample_weight=weights)
    assert set(model.labels_) <= {0, 1, 2}
    np.testing.assert_allclose(model.counts_.sum(axis=0), [2.8, 0.0])
