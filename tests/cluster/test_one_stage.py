"""OneStageFairSpectralClustering against the trace it minimises, written out densely."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from fairanchor import AnchorFairClustering
from fairanchor._kernels._one_stage import sweep
from fairanchor.cluster._one_stage import OneStageFairSpectralClustering, _build_problem
from fairanchor.exceptions import FairnessWarning
from fairanchor.metrics import (
    clustering_accuracy_score,
    mnce_of_table,
    relative_balance_score,
)
from tiers import first_is_fast


def data(seed, n_rows=60, shift=1.5):
    """Two clusters whose groups have different shares."""
    rng = np.random.default_rng(seed)
    clusters = np.arange(n_rows) % 2
    groups = (rng.uniform(size=n_rows) < 0.25 + 0.3 * clusters).astype(int)
    return rng.normal(size=(n_rows, 2)) + shift * clusters[:, None], groups, clusters


def neighbour_graph(X, n_neighbors=10):
    """Oracle of the graph: heat kernel with the lower median of the neighbour distances."""
    distance = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    near = np.argsort(distance, axis=1)[:, 1 : n_neighbors + 1]
    lengths = np.sort(np.take_along_axis(distance, near, axis=1).ravel())
    kernel = np.exp(-(distance**2) / (2 * lengths[(len(lengths) - 1) // 2] ** 2))
    edges = np.zeros(distance.shape, dtype=bool)
    edges[np.arange(len(X))[:, None], near] = True
    return np.where(edges | edges.T, np.maximum(kernel, 1e-3), 0.0)


def trace_objective(S, groups, labels, fairness_weight):
    """tr((YᵀY)⁻¹ Yᵀ(L + λGGᵀ)Y) with dense matrices."""
    Y = (labels[:, None] == np.unique(labels)).astype(float)
    G = (groups[:, None] == np.unique(groups)).astype(float)
    root = 1 / np.sqrt(S.sum(axis=1))
    K = np.eye(len(S)) - root[:, None] * S * root + fairness_weight * G @ G.T
    return np.trace(np.linalg.solve(Y.T @ Y, Y.T @ K @ Y))


def best_move(objective, labels, i):
    """Label that row i gets: lowest objective over all clusters, its own on ties."""
    if (labels == labels[i]).sum() == 1:
        return labels[i]
    values = []
    for label in range(labels.max() + 1):
        moved = labels.copy()
        moved[i] = label
        values.append(objective(moved))
    best = int(np.argmin(values))
    return best if values[best] < values[labels[i]] - 1e-10 else labels[i]


def repeated_objective(S, groups, repeats, fairness_weight):
    """Objective of labels when row i is there ``repeats[i]`` times, its copies similar by one."""
    copies = np.repeat(np.arange(len(S)), repeats)
    repeated = S[np.ix_(copies, copies)]
    repeated[(copies[:, None] == copies) & ~np.eye(len(copies), dtype=bool)] = 1.0
    return lambda labels: trace_objective(repeated, groups[copies], labels[copies], fairness_weight)


def random_problem(seed, n_rows=25, n_groups=3, n_clusters=4):
    rng = np.random.default_rng(seed)
    X, groups = rng.normal(size=(n_rows, 2)), rng.permutation(np.arange(n_rows) % n_groups)
    return neighbour_graph(X), groups, rng.permutation(np.arange(n_rows) % n_clusters)


# The kernel


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    n_groups=st.integers(1, 5),
    fairness_weight=st.sampled_from([0.0, 0.03, 1.0, 50.0]),
    largest_weight=st.sampled_from([1, 4]),
)
def test_a_sweep_makes_the_moves_that_lower_the_dense_trace_most(
    seed, n_groups, fairness_weight, largest_weight
):
    S, groups, labels = random_problem(seed, n_groups=n_groups)
    repeats = np.random.default_rng(seed).integers(1, largest_weight + 1, size=25)
    objective = repeated_objective(S, groups, repeats, fairness_weight)
    expected = labels.copy()
    for i in range(len(S)):
        expected[i] = best_move(objective, expected, i)
    problem, _ = _build_problem([sparse.csr_array(S)], repeats.astype(float), groups)
    before = labels.copy()
    graph = problem.graph(np.ones(1))
    sums = problem.sums(graph, labels, 4)
    n_moved = sweep(graph, problem.rows, fairness_weight, labels, sums)
    assert_array_equal(labels, expected)
    assert n_moved == (labels != before).sum()


# The objective


@pytest.mark.parametrize("fairness_weight", [0.0, 0.1, 1.0, 1e3])
def test_objective_is_the_dense_trace_and_never_increases(fairness_weight):
    X, groups, _ = data(0)
    model = OneStageFairSpectralClustering(3, fairness_weight=fairness_weight, random_state=0)
    model.fit(X, sensitive_features=groups)
    expected = trace_objective(neighbour_graph(X), groups, model.labels_, fairness_weight)
    assert_allclose(model.objective_, expected, rtol=1e-10)
    assert model.objective_ == model.objective_path_[-1]
    assert len(model.objective_path_) == model.n_iter_ + 1
    assert (np.diff(model.objective_path_) <= 1e-12 * abs(expected)).all()


@pytest.mark.parametrize("seed", first_is_fast(range(4)))
def test_objective_decreases_from_a_bad_start(seed):
    S, groups, labels = random_problem(seed, n_rows=80)
    problem, _ = _build_problem([sparse.csr_array(S)], np.ones(len(S)), groups)
    ended, objectives, _, _ = problem.descend(labels, 0.3, max_iter=50, tol=0.0)
    assert len(objectives) > 3
    assert (np.diff(objectives) <= 1e-12 * objectives[0]).all()
    assert_allclose(objectives[0], trace_objective(S, groups, labels, 0.3), rtol=1e-10)
    assert_allclose(objectives[-1], trace_objective(S, groups, ended, 0.3), rtol=1e-10)


def test_at_the_end_no_single_move_helps():
    X, groups, _ = data(1)
    model = OneStageFairSpectralClustering(3, tol=0.0, random_state=0)
    labels = model.fit_predict(X, sensitive_features=groups).astype(int)
    objective = repeated_objective(neighbour_graph(X), groups, np.ones(60, dtype=int), 1.0)
    assert_array_equal([best_move(objective, labels, i) for i in range(60)], labels)


def test_fairness_term_has_the_bound_of_proportional_clusters():
    """Sampled partitions never go below n Σ share², and a huge weight nearly attains it."""
    X, groups, _ = data(2)
    S, rng = neighbour_graph(X), np.random.default_rng(0)
    bound = 60 * (np.bincount(groups) ** 2).sum() / 60**2

    def fairness(labels):
        return trace_objective(S, groups, labels, 1.0) - trace_objective(S, groups, labels, 0.0)

    sampled = [fairness(rng.permutation(np.arange(60) % 3)) for _ in range(300)]
    assert min(sampled) >= bound - 1e-9
    model = OneStageFairSpectralClustering(3, fairness_weight=1e7, random_state=0)
    model.fit(X, sensitive_features=groups)
    shares = np.bincount(groups) / 60
    excess = model.counts_ - model.counts_.sum(axis=1, keepdims=True) * shares
    assert np.abs(excess).max() < 1  # proportional up to integrality
    assert bound - 1e-9 <= fairness(model.labels_) < bound + 0.1


@pytest.mark.parametrize("n_groups", [2, 3, 6])
def test_more_weight_on_fairness_gives_fairer_clusters(n_groups):
    rng = np.random.default_rng(n_groups)
    X = rng.normal(size=(150, 2)) + 3 * (np.arange(150) % 3)[:, None]
    groups = np.where(rng.uniform(size=150) < 0.6, np.arange(150) % 3, np.arange(150) // 3)
    groups = groups % n_groups
    mnce = []
    for fairness_weight in [0.0, 0.05, 100.0]:
        model = OneStageFairSpectralClustering(
            3, fairness_weight=fairness_weight, random_state=0
        ).fit(X, sensitive_features=groups)
        mnce.append(mnce_of_table(model.counts_))
    assert mnce[0] < mnce[-1]
    assert mnce[0] <= mnce[1] + 1e-12
    assert mnce[-1] > 0.97


def test_without_fairness_separate_blobs_are_found():
    X, groups, clusters = data(3, 200, shift=12.0)
    model = OneStageFairSpectralClustering(2, fairness_weight=0.0, random_state=0)
    labels = model.fit_predict(X, sensitive_features=groups)
    assert clustering_accuracy_score(clusters, labels) == 1


@pytest.mark.parametrize("weight", [1.0, 50.0])
def test_auto_weight_does_not_depend_on_the_weight_of_all_rows(weight):
    X, groups, _ = data(3, 400, shift=2.0)
    model = OneStageFairSpectralClustering(2, random_state=0)
    model.fit(X, sensitive_features=groups, sample_weight=np.full(400, weight))
    assert model.fairness_weight_ == 20 * 2 / (400 * weight)
    assert relative_balance_score(model.labels_, sensitive_features=groups) > 0.9
    blind = model.set_params(fairness_weight=0.0).fit_predict(X, sensitive_features=groups)
    assert relative_balance_score(blind, sensitive_features=groups) < 0.8


# Several views


def two_views(seed, n_rows=120):
    """Three clusters that both views have, in different places."""
    rng = np.random.default_rng(seed)
    clusters = np.arange(n_rows) % 3
    groups = (rng.uniform(size=n_rows) < 0.3 + 0.2 * (clusters == 1)).astype(int)
    centers = np.array([[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [2.0, 3.5, 0.0]])
    first = rng.normal(size=(n_rows, 2)) + centers[clusters, :2]
    second = rng.normal(size=(n_rows, 3)) + centers[clusters - 1]
    return [first, second], groups, clusters


@pytest.mark.parametrize("fairness_weight", [0.0, 0.1, 10.0])
def test_objective_of_several_views_is_their_geometric_mean_and_never_increases(fairness_weight):
    views, groups, _ = two_views(0)
    views.append(np.random.default_rng(1).normal(size=(120, 2)))
    model = OneStageFairSpectralClustering(
        3, fairness_weight=fairness_weight, tol=0.0, random_state=0
    ).fit(views, sensitive_features=groups)
    labels = model.labels_
    costs = [trace_objective(neighbour_graph(view), groups, labels, 0.0) for view in views]
    fairness = trace_objective(neighbour_graph(views[0]), groups, labels, fairness_weight)
    fairness -= costs[0]
    assert_allclose(model.objective_, np.prod(costs) ** (1 / 3) + fairness, rtol=1e-9)
    weights = (1 / np.array(costs)) / np.sum(1 / np.array(costs))
    assert_allclose(model.view_weights_, weights, rtol=1e-9)
    assert (np.diff(model.objective_path_) <= 1e-12 * abs(model.objective_)).all()


def test_a_view_without_clusters_has_little_weight():
    (first, second), groups, clusters = two_views(0)
    noise = 50.0 * np.random.default_rng(1).normal(size=(120, 10))
    model = OneStageFairSpectralClustering(3, fairness_weight=1e-3, random_state=0)

    def accuracy(X):
        return clustering_accuracy_score(clusters, model.fit_predict(X, sensitive_features=groups))

    assert accuracy([first, second, noise]) > 0.9
    assert model.view_weights_[2] < 0.1
    # As columns beside each other, the noise covers everything.
    assert accuracy(np.hstack([first, second, noise])) < 0.6


def test_views_are_a_list_of_arrays_or_columns_beside_each_other():
    views, groups, _ = two_views(1)
    model = OneStageFairSpectralClustering(3, random_state=0).fit(views, sensitive_features=groups)
    assert model.views_ == [2, 3]
    assert model.n_features_in_ == 5
    frames = [pd.DataFrame(view, columns=[*"abc"[: view.shape[1]]]) for view in views]
    for X, columns in [(np.hstack(views), [2, 3]), (frames, None)]:
        other = OneStageFairSpectralClustering(3, views=columns, random_state=0)
        other.fit(X, sensitive_features=groups)
        assert_array_equal(other.labels_, model.labels_)
    # Equal views are the single view.
    single = OneStageFairSpectralClustering(3, random_state=0)
    single.fit(views[0], sensitive_features=groups)
    objective, labels = single.objective_, single.labels_
    single.fit([views[0], views[0]], sensitive_features=groups)
    assert_array_equal(single.labels_, labels)
    assert_allclose(single.objective_, objective)
    assert_allclose(single.view_weights_, [0.5, 0.5])


def test_anchors_have_the_columns_of_all_views():
    views, _, clusters = two_views(2, 1200)
    groups = np.arange(1200) // 3 % 2
    clusterer = OneStageFairSpectralClustering(fairness_weight=1e-3, views=[2, 3])
    model = AnchorFairClustering(3, clusterer=clusterer, n_anchors=120, random_state=0)
    labels = model.fit_predict(np.hstack(views), sensitive_features=groups)
    assert model.clusterer_.views_ == [2, 3]
    assert clustering_accuracy_score(clusters, labels) > 0.9


# Weights


@given(seed=st.integers(0, 10**6))
def test_integer_weights_have_the_objective_of_repeated_rows(seed):
    S, groups, labels = random_problem(seed, n_rows=20)
    repeats = np.random.default_rng(seed).integers(1, 5, size=20)
    objective = repeated_objective(S, groups, repeats, 0.7)
    problem, _ = _build_problem([sparse.csr_array(S)], repeats.astype(float), groups)
    ended, objectives, _, _ = problem.descend(labels, 0.7, max_iter=1, tol=0.0)
    assert_allclose(objectives[0], objective(labels), rtol=1e-10)
    assert_allclose(objectives[1], objective(ended), rtol=1e-10)


# Invariances and degenerate input


def test_one_row_is_one_cluster():
    model = OneStageFairSpectralClustering(1).fit([[3.0]], sensitive_features=["a"])
    assert_array_equal(model.labels_, [0])


def test_large_tables_take_the_sparse_path():
    X, groups, clusters = data(12, 2400, shift=6.0)
    model = OneStageFairSpectralClustering(2, fairness_weight=1e-4, random_state=0)
    labels = model.fit_predict(X, sensitive_features=groups)
    assert clustering_accuracy_score(clusters, labels) > 0.99


def test_too_few_sweeps_warn():
    X, groups, _ = data(13, 100)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 sweeps"):
        OneStageFairSpectralClustering(4, max_iter=1, random_state=0).fit(
            X, sensitive_features=groups
        )


def test_one_cluster_per_row_warns():
    with pytest.warns(FairnessWarning, match="2 of 2 groups have fewer rows than n_clusters=3"):
        model = OneStageFairSpectralClustering(3).fit([[0], [1], [2]], sensitive_features=[0, 1, 0])
    assert_array_equal(model.labels_, [0, 1, 2])


GOOD = np.random.default_rng(3).normal(size=(10, 2))
HALVES = np.arange(10) % 2

BAD_INPUT = [
    (GOOD, {"bandwidth": 1e-9}, {}, "10 of 10 rows are similar to no other row"),
    (GOOD, {"bandwidth": 0.0}, {}, "'bandwidth' parameter"),
    (GOOD, {"fairness_weight": -1.0}, {}, "'fairness_weight' parameter"),
    (GOOD, {"fairness_weight": np.inf}, {}, "'fairness_weight' parameter"),
    (GOOD, {"n_neighbors": 0}, {}, "'n_neighbors' parameter"),
    (GOOD * np.nan, {}, {}, "NaN"),
    (GOOD, {"views": [1, 2]}, {}, r"views=\[1, 2\] should be .* sum to the 2 columns"),
    (GOOD, {"views": [2, 0]}, {}, "should be positive integers"),
    ([GOOD, GOOD[:9]], {}, {}, r"\[10, 9\] rows, expected the same"),
    ([GOOD, GOOD], {"views": [2, 3]}, {}, r"the arrays have \[2, 2\] columns"),
]


@pytest.mark.parametrize(("X", "parameters", "arguments", "message"), BAD_INPUT)
def test_bad_input_is_refused_with_its_values(X, parameters, arguments, message):
    model = OneStageFairSpectralClustering(**{"n_clusters": 2} | parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, **{"sensitive_features": HALVES} | arguments)
