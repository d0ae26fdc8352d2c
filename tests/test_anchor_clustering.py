"""The framework end to end: what it guarantees, and what its parts compute."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, Birch, KMeans
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from fairanchor import (
    FDAS,
    AnchorFairClustering,
    FairKMeans,
    FairnessWarning,
    LocalGraph,
    ReconstructionGraph,
)
from fairanchor.cluster._on_anchors import CLUSTERERS
from fairanchor.datasets import make_fair_blobs, make_zafar
from fairanchor.metrics import relative_balance_score
from tiers import first_is_fast

NAMES = sorted(CLUSTERERS)
GRAPHS = ["local", "reconstruction"]


@pytest.fixture(scope="module")
def zafar():
    data = make_zafar(3000, variant="original", random_state=0)
    return data.data, data.sensitive_features


@pytest.fixture(scope="module")
def small(zafar):
    return zafar[0][:1000], zafar[1][:1000]


@pytest.fixture(scope="module")
def blobs():
    """Three blobs that two of three groups prefer; no two rows are equal."""
    rng = np.random.default_rng(0)
    group = rng.choice(3, size=240, p=[0.5, 0.3, 0.2])
    blob = np.where(rng.random(240) < 0.5, group, rng.integers(0, 3, 240))
    return 4.0 * np.eye(3, 2)[blob] + rng.normal(size=(240, 2)), group


def in_turns(points, codes, n_clusters, *, sample_weight, random_state):
    return np.arange(len(points)) % n_clusters


def by_first_feature(points, codes, n_clusters, *, sample_weight, random_state):
    ranks = points[:, 0].argsort().argsort()
    return ranks * n_clusters // len(points)


def fit(data, n_clusters=3, **parameters):
    X, group = data
    parameters = {"clusterer": "fair_kmeans", "random_state": 0} | parameters
    return AnchorFairClustering(n_clusters, **parameters).fit(X, sensitive_features=group)


def assert_guarantees(model, sensitive_features):
    """Exact margins, and every cell the floor or the ceiling of its target (by hand)."""
    table = pd.crosstab(model.labels_, np.asarray(sensitive_features))
    counts = table.reindex(index=range(len(model.targets_)), fill_value=0).to_numpy()
    assert_array_equal(model.counts_, counts)
    assert_array_equal(counts.sum(axis=0), np.rint(model.targets_.sum(axis=0)))
    target = model.targets_
    nearest = np.rint(target)
    target = np.where(np.abs(target - nearest) < 1e-9, nearest, target)
    assert np.all((counts == np.floor(target)) | (counts == np.ceil(target)))
    assert model.worst_violation_ < 1
    assert len(model.labels_) == counts.sum()


def assert_mirrors_population(model, sensitive_features):
    """Targets are the population's shares of clusters of whole sizes."""
    _, sizes = np.unique(np.asarray(sensitive_features), return_counts=True)
    cluster_sizes = model.targets_.sum(axis=1)
    assert_allclose(model.targets_, np.outer(cluster_sizes, sizes / sizes.sum()), rtol=1e-12)
    assert_array_equal(model.counts_.sum(axis=1), np.rint(cluster_sizes))


# Exact counts


@pytest.mark.parametrize("n_clusters", [1, 2, 5, 9])
@pytest.mark.parametrize("anchors", ["kmeans", "fdas", "das", "random", FDAS(quotas="paper")])
def test_every_cell_is_its_target_rounded(zafar, anchors, n_clusters):
    model = fit(zafar, n_clusters, anchors=anchors, n_anchors=60)
    assert_guarantees(model, zafar[1])
    assert_mirrors_population(model, zafar[1])
    smallest = model.counts_.min()
    relative = relative_balance_score(model.labels_, sensitive_features=zafar[1])
    assert relative >= 1 - 1 / smallest


@pytest.mark.parametrize("clusterer", NAMES)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.filterwarnings("ignore:.*very few samples:fairanchor.FairnessWarning")
def test_every_clusterer_by_name_has_exact_counts(small, clusterer, graph):
    for fairness in ("population", "anchors"):
        model = fit(small, clusterer=clusterer, fairness=fairness, graph=graph, n_anchors=40)
        assert_guarantees(model, small[1])
    assert model.n_clusters_found_ == 3


@pytest.mark.parametrize(
    "clusterer",
    [
        KMeans(n_init=3),
        AgglomerativeClustering(),
        Birch(threshold=0.1),
        GaussianMixture(n_components=9),
        FairKMeans(n_init=2),
        in_turns,
    ],
    ids=["KMeans", "Agglomerative", "Birch", "GaussianMixture", "FairKMeans", "callable"],
)
@pytest.mark.parametrize("graph", GRAPHS)
def test_any_estimator_or_callable_has_exact_counts(small, clusterer, graph):
    model = fit(small, clusterer=clusterer, graph=graph, n_anchors=60)
    assert_guarantees(model, small[1])
    assert_mirrors_population(model, small[1])
    assert set(model.anchor_labels_) == {0, 1, 2}


def test_the_number_of_clusters_can_be_the_clusterers():
    X, blob = make_blobs(
        1500, centers=[[0, 0], [9, 0], [0, 9], [9, 9]], cluster_std=0.6, random_state=0
    )
    group = np.random.default_rng(0).choice(["a", "b"], len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)  # noise among the anchors
        model = fit((X, group), None, clusterer=HDBSCAN(min_cluster_size=20, copy=True))
    assert model.n_clusters_found_ == 4
    assert adjusted_rand_score(blob, model.labels_) > 0.9
    assert_guarantees(model, group)


def test_clusterers_that_accept_weights_get_the_masses(zafar):
    class Recorder(BaseEstimator):
        def fit(self, X, sensitive_features=None, sample_weight=None):
            self.seen_ = X, sensitive_features, sample_weight
            self.labels_ = np.arange(len(X)) % 3
            return self

    model = fit(zafar, clusterer=Recorder(), n_anchors=50)
    points, codes, weights = model.clusterer_.seen_
    sizes = np.bincount(zafar[1])
    assert_allclose(model.anchor_masses_.sum(), 3000)
    seen = [np.flatnonzero((model.anchors_ == point).all(axis=1))[0] for point in points]
    assert_allclose(weights, model.anchor_masses_[seen])
    by_size = np.argsort(-sizes)  # code 0 is the largest group
    heavy = np.bincount(codes, weights=weights)
    assert np.all(heavy >= 0.9 * sizes[by_size])
    assert np.all(heavy <= sizes[by_size])


# The local graph


def local_costs(X, model, n_neighbors=5):
    """Squared distance of every row to the nearest mean of neighbours in every cluster."""
    costs = np.empty((len(X), model.anchor_labels_.max() + 1))
    for l in range(costs.shape[1]):
        anchors = model.anchors_[model.anchor_labels_ == l]
        nearest = np.argsort(cdist(anchors, anchors), axis=1, kind="stable")[:, :n_neighbors]
        costs[:, l] = cdist(X, anchors[nearest].mean(axis=1), "sqeuclidean").min(axis=1)
    return costs


def least_cost(costs, group, counts):
    """Of all labels with these counts, by an assignment of rows to places."""
    total = 0.0
    for r in range(counts.shape[1]):
        places = np.repeat(np.arange(len(counts)), counts[:, r])
        table = costs[group == r][:, places]
        rows, columns = linear_sum_assignment(table)
        total += table[rows, columns].sum()
    return total


@pytest.mark.parametrize("clusterer", ["spfc", "fair_kmeans", by_first_feature])
@pytest.mark.parametrize("n_anchors", [12, 40, "auto"])
def test_labels_are_the_cheapest_for_their_counts(blobs, clusterer, n_anchors):
    X, group = blobs
    model = fit(blobs, clusterer=clusterer, n_anchors=n_anchors)
    costs = local_costs(X, model)
    # Sizes are those of the rows' cheapest clusters; the shares are the population's.
    sizes = np.bincount(costs.argmin(axis=1), minlength=3)
    assert_allclose(model.targets_, np.outer(sizes, np.bincount(group)) / 240, atol=1e-9)
    assert_guarantees(model, group)
    found = costs[np.arange(240), model.labels_].sum()
    assert_allclose(found, least_cost(costs, group, model.counts_), rtol=1e-9)
    assert model.assignment_gap_ == pytest.approx(0.0, abs=1e-9 * (1.0 + found))


def test_labels_of_a_table_are_the_cheapest(blobs):
    X, group = blobs
    sizes = np.bincount(group)
    table = np.stack([sizes // 4, sizes // 2, sizes - sizes // 4 - sizes // 2])
    model = fit(blobs, fairness=table)
    costs = local_costs(X, model)
    assert_array_equal(model.counts_, table)
    found = costs[np.arange(240), model.labels_].sum()
    assert_allclose(found, least_cost(costs, group, table), rtol=1e-9)


def test_argmax_takes_the_nearest_anchor_and_keeps_no_count(blobs):
    X, group = blobs
    graph = LocalGraph(n_neighbors=1)
    options = {"clusterer": AgglomerativeClustering(), "n_anchors": 40, "graph": graph}
    nearest = fit(blobs, assignment="argmax", **options)
    distances = cdist(X, nearest.anchors_)
    assert_array_equal(nearest.labels_, nearest.anchor_labels_[distances.argmin(axis=1)])
    assert nearest.worst_violation_ > 5
    balanced = fit(blobs, assignment="balanced", **options)
    assert balanced.worst_violation_ < 1
    assert_array_equal(balanced.anchor_labels_, nearest.anchor_labels_)


def test_predict_gives_the_labels_of_the_training_rows(blobs):
    X, group = blobs
    model = fit(blobs)
    assert_array_equal(model.predict(X, sensitive_features=group), model.labels_)
    priced = local_costs(X, model) - model.assignment_prices_.T[group]
    assert_array_equal(priced.argmin(axis=1), model.labels_)


def test_predict_differs_from_the_labels_only_at_ties():
    rng = np.random.default_rng(0)
    X, group = rng.integers(0, 4, size=(400, 2)).astype(float), rng.integers(0, 2, 400)
    model = fit((X, group), clusterer=AgglomerativeClustering())
    predicted = model.predict(X, sensitive_features=group)
    priced = local_costs(X, model) - model.assignment_prices_.T[group]
    rows = np.arange(400)
    assert (predicted != model.labels_).any()
    assert_allclose(priced[rows, predicted], priced.min(axis=1), atol=1e-9)
    assert_allclose(priced[rows, model.labels_], priced.min(axis=1), atol=1e-9)


def project(points):
    """Nearest points of the simplex, by sorting each row."""
    ordered = -np.sort(-points, axis=1)
    places = np.arange(1, points.shape[1] + 1)
    levels = (np.cumsum(ordered, axis=1) - 1.0) / places
    n_positive = (ordered > levels).sum(axis=1)
    level = levels[np.arange(len(points)), n_positive - 1]
    return np.maximum(points - level[:, None], 0.0)


def ridges(X, model, n_neighbors):
    """alpha of every row: s times its (s+1)-th smallest distance less the sum of s smallest."""
    ordered = np.sort(cdist(X, model.anchors_, "sqeuclidean"), axis=1)
    s = min(n_neighbors, ordered.shape[1] - 1)
    return 0.5 * (s * ordered[:, s] - ordered[:, :s].sum(axis=1))


@pytest.mark.parametrize("n_neighbors", [1, 5, 30, 500])
def test_soft_labels_are_projections_of_the_priced_costs(blobs, n_neighbors):
    X, group = blobs
    model = fit(blobs, n_anchors=60, graph=LocalGraph(n_neighbors))
    soft = model.predict_proba(X, sensitive_features=group)
    assert_allclose(soft.sum(axis=1), 1.0, rtol=1e-12)
    assert soft.min() >= 0.0
    assert_array_equal(soft.argmax(axis=1), model.predict(X, sensitive_features=group))
    costs = local_costs(X, model, n_neighbors)
    least = 1e-3 * costs.min(axis=1).mean()
    alpha = np.maximum(ridges(X, model, n_neighbors), least)
    priced = costs - model.assignment_prices_.T[group]
    assert_allclose(soft, project(-priced / (2.0 * alpha[:, None])), atol=1e-9)


@pytest.mark.parametrize("n_neighbors", [1, 3, 5])
def test_rows_have_n_neighbors_anchors_where_the_constraint_does_not_bind(blobs, n_neighbors):
    X, group = blobs
    # With a tolerance of one nothing is asked for, and all prices are zero.
    model = fit(blobs, n_anchors=60, tolerance=1.0, graph=LocalGraph(n_neighbors))
    Z = model.transform(X, sensitive_features=group)
    assert Z.shape == (240, 60)
    assert_allclose(Z.sum(axis=1), 1.0, rtol=1e-12)
    dense = Z.toarray()
    assert dense.min() >= 0.0
    nearest = np.argsort(cdist(X, model.anchors_), axis=1)[:, :n_neighbors]
    expected = np.zeros((240, 60), dtype=bool)
    np.put_along_axis(expected, nearest, True, axis=1)
    assert_array_equal(dense > 1e-9, expected)


def test_weights_on_the_anchors_are_projections_of_the_priced_distances(blobs):
    X, group = blobs
    model = fit(blobs, n_anchors=60)
    distances = cdist(X, model.anchors_, "sqeuclidean")
    alpha = np.maximum(ridges(X, model, 5), 1e-3 * distances.min(axis=1).mean())
    priced = distances - model.assignment_prices_[model.anchor_labels_].T[group]
    Z = model.transform(X, sensitive_features=group).toarray()
    assert_allclose(Z, project(-priced / (2.0 * alpha[:, None])), atol=1e-9)
    both = clone(model).fit_transform(X, sensitive_features=group)
    assert_array_equal(both.toarray(), Z)
    assert len(model.get_feature_names_out()) == 60


def soft_labels_of_the_graph(distances, anchor_labels, group, table, alpha):
    """The problem min sum d z + alpha ||z||^2 with the group-label constraint, by Clarabel."""
    clarabel = pytest.importorskip("clarabel")
    n, m = distances.shape
    c, h = table.shape
    simplex = sp.kron(sp.eye(n), np.ones((1, m)))
    members, clusters = np.eye(h)[group], np.eye(c)[anchor_labels]
    cells = [np.outer(members[:, r], clusters[:, l]).ravel() for l in range(c) for r in range(h)]
    # The last cell of every group follows from the others and the simplex.
    cells, right = np.array(cells)[: (c - 1) * h], table.ravel()[: (c - 1) * h]
    A = sp.vstack([simplex, sp.csr_matrix(cells), -sp.eye(n * m)], format="csc")
    b = np.concatenate([np.ones(n), right, np.zeros(n * m)])
    cones = [clarabel.ZeroConeT(n + len(right)), clarabel.NonnegativeConeT(n * m)]
    options = clarabel.DefaultSettings()
    options.verbose = False
    P = sp.csc_matrix(2.0 * alpha * sp.eye(n * m))
    solution = clarabel.DefaultSolver(P, distances.ravel(), A, b, cones, options).solve()
    assert str(solution.status) == "Solved"
    return np.array(solution.x).reshape(n, m) @ clusters


@pytest.mark.parametrize("seed", first_is_fast(range(4)))
def test_labels_are_the_limit_of_the_local_graph(seed):
    """Whole targets, a unique optimum, a small ridge, one anchor per cost: both labels agree."""
    rng = np.random.default_rng(seed)
    X, group = rng.normal(size=(30, 2)), np.repeat([0, 1, 2], 10)
    table = np.array([[5, 5, 5], [3, 2, 3], [2, 3, 2]])
    model = fit(
        (X, group), clusterer=by_first_feature, n_anchors=9, fairness=table, graph=LocalGraph(1)
    )
    distances = cdist(X, model.anchors_, "sqeuclidean")
    soft = soft_labels_of_the_graph(distances, model.anchor_labels_, group, table, 1e-5)
    assert_allclose(soft, np.eye(3)[model.labels_], atol=1e-4)
    # A large ridge spreads rows over clusters, so that this test can fail.
    blurred = soft_labels_of_the_graph(distances, model.anchor_labels_, group, table, 10.0)
    assert np.abs(blurred - np.eye(3)[model.labels_]).max() > 0.1


# The reconstruction graph


@pytest.mark.parametrize("alpha", first_is_fast(["auto", 1.0, 100.0]))
def test_soft_masses_meet_the_targets(zafar, alpha):
    X, group = zafar
    graph = ReconstructionGraph(alpha=alpha, tol=1e-6)
    model = fit(zafar, 4, graph=graph, n_anchors=40)
    soft = model.predict_proba(X, sensitive_features=group)
    mass = np.array([soft[group == r].sum(axis=0) for r in (0, 1)]).T
    assert_allclose(mass, model.targets_, atol=2e-6 * len(X))
    assert model.mass_error_ <= 1e-6 * len(X)
    assert model.converged_
    assert 1 <= model.n_iter_ == len(model.history_)
    explained = model.mass_error_ * np.abs(model.multipliers_).sum()
    assert abs(model.duality_gap_) <= explained * (1 + 1e-9)


def test_labels_maximise_the_soft_labels_for_their_counts(blobs):
    X, group = blobs
    model = fit(blobs, graph="reconstruction", n_anchors=30)
    soft = model.predict_proba(X, sensitive_features=group)
    found = soft[np.arange(240), model.labels_].sum()
    assert_allclose(found, -least_cost(-soft, group, model.counts_), rtol=1e-9)
    priced = soft + model.assignment_prices_.T[group]
    assert np.mean(priced.argmax(axis=1) == model.labels_) > 0.98
    assert np.mean(model.predict(X, sensitive_features=group) == model.labels_) > 0.98


def test_anchor_weights_reconstruct_the_soft_labels(zafar):
    X, group = zafar
    model = fit(zafar, graph="reconstruction", n_anchors=40)
    Z = model.transform(X[:500], sensitive_features=group[:500])
    assert Z.shape == (500, 40)
    assert Z.min() >= 0
    assert_allclose(Z.sum(axis=1), 1, atol=1e-12)
    soft = model.predict_proba(X[:500], sensitive_features=group[:500])
    assert_allclose(Z @ np.eye(3)[model.anchor_labels_], soft, atol=1e-9)


def test_too_few_sweeps_are_reported(zafar):
    graph = ReconstructionGraph(alpha=0.01, tol=1e-9, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="1 sweeps"):
        model = fit(zafar, graph=graph, n_anchors=40)
    assert not model.converged_
    assert_guarantees(model, zafar[1])


def test_as_in_paper_is_the_papers_setting(small):
    X, group = small
    model = AnchorFairClustering.as_in_paper(2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="samples away from its target"):
        model.fit(X, sensitive_features=group)
    assert {"objective", "augmented_lagrangian", "r", "s", "rho"} <= set(model.history_[0])
    assert len(model.history_) == model.n_iter_ == 100
    assert len(model.anchor_indices_) == 40
    # The paper's targets: n times the share of the cell among the anchors.
    cells = pd.crosstab(model.anchor_labels_, group[model.anchor_indices_]).to_numpy()
    assert_allclose(model.targets_, len(X) * cells / cells.sum())
    assert not model.converged_
    # Labels are those of the last iterate, which the multipliers give up to its error.
    soft = model.predict_proba(X, sensitive_features=group)
    assert np.mean(model.labels_ == soft.argmax(axis=1)) > 0.98


def test_as_in_paper_takes_other_parameters():
    model = AnchorFairClustering.as_in_paper(
        4, clusterer="vfc", alpha=7.0, fairness="anchors", n_anchors=30, random_state=3
    )
    assert (model.n_clusters, model.clusterer, model.n_anchors) == (4, "vfc", 30)
    assert (model.graph.alpha, model.graph.solver) == (7.0, "admm")
    assert (model.fairness, model.assignment, model.random_state) == ("anchors", "argmax", 3)
    assert (model.anchors.quotas, model.anchors.weights) == ("paper", "uniform")


def test_admm_and_newton_agree_on_a_feasible_target():
    data = make_zafar(300, variant="original", random_state=0)
    data = data.data, data.sensitive_features
    newton = fit(data, 2, n_anchors=10, graph=ReconstructionGraph(alpha=20.0, tol=1e-8))
    graph = ReconstructionGraph(alpha=20.0, solver="admm", tol=1e-6, max_iter=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        admm = fit(data, 2, n_anchors=10, graph=graph)
    assert_allclose(admm.history_[-1]["objective"], newton.history_[-1]["objective"], rtol=1e-3)
    assert np.mean(admm.labels_ == newton.labels_) > 0.98


def test_a_second_fit_with_another_graph_leaves_nothing_of_the_first(blobs):
    X, group = blobs
    model = fit(blobs, graph="reconstruction", anchors="fdas", n_anchors=30)
    assert hasattr(model, "multipliers_")
    model.set_params(graph="local", anchors="kmeans").fit(X, sensitive_features=group)
    for name in ("multipliers_", "mass_error_", "duality_gap_", "history_", "anchor_indices_"):
        assert not hasattr(model, name)
    assert model.converged_
    assert model.n_iter_ == 1


# What is asked for


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_table_is_met_and_its_empty_cells_stay_empty(small, graph):
    X, group = small
    table = np.array([[0.5, 0.25], [0.5, 0.0], [0.0, 0.75]]) * np.bincount(group)
    model = fit(small, fairness=table, graph=graph, n_anchors=60, unknown_groups="blind")
    assert_guarantees(model, group)
    assert model.counts_[1, 1] == model.counts_[2, 0] == 0
    assert_allclose(model.targets_, table)
    soft = model.predict_proba(X, sensitive_features=group)
    assert soft[group == 1, 1].max() == 0
    assert np.mean(model.predict(X, sensitive_features=group) == model.labels_) > 0.99
    far = model.predict(1e6 * X, sensitive_features=group)
    assert set(far[group == 1]) <= {0, 2}
    assert set(far[group == 0]) <= {0, 1}
    assert len(set(model.predict(X))) > 1  # without groups, every cluster is open


def test_columns_of_a_table_follow_the_sorted_names(zafar):
    X, group = zafar
    table = np.array([[0.7, 0.2], [0.3, 0.8]]) * np.bincount(group)
    first = fit((X, np.where(group == 0, "a", "b")), 2, fairness=table)
    second = fit((X, np.where(group == 0, "z", "b")), 2, fairness=table[:, ::-1])
    assert_array_equal(first.labels_, second.labels_)
    assert_array_equal(first.counts_, second.counts_[:, ::-1])


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.slow
def test_a_cluster_of_few_rows_is_reported(zafar, graph):
    X, group = zafar
    X = X.copy()
    X[-12:] += 1e3
    places = [*range(58), *np.flatnonzero(group[-12:] == 0)[:1], *np.flatnonzero(group[-12:])[:1]]
    anchors = np.array(places) + np.repeat([0, 2988], [58, 2])  # two are far from nearly all rows

    def outlier(points, codes, n_clusters, *, sample_weight, random_state):
        return (points[:, 0] > 500).astype(int)

    options = {"anchors": anchors, "clusterer": outlier, "graph": graph}
    with pytest.warns(FairnessWarning, match=r"1 of 2 clusters.*1 \(12\).*min_cluster_size"):
        model = fit((X, group), 2, **options)
    assert_guarantees(model, group)
    sized = fit((X, group), 2, min_cluster_size=500, **options)
    assert sized.counts_.sum(axis=1).min() >= 500


@pytest.mark.parametrize("n_found", [1, 2, 4])
def test_another_number_of_clusters_raises(zafar, n_found):
    def other(points, codes, n_clusters, *, sample_weight, random_state):
        return np.arange(len(points)) % n_found

    with pytest.raises(ValueError, match=f"{n_found} clusters.*n_clusters=3"):
        fit(zafar, clusterer=other)


# Shapes


def shape_of(name, n, seed):
    make = {
        "moons": lambda: make_moons(n, noise=0.06, random_state=seed),
        "circles": lambda: make_circles(n, noise=0.05, factor=0.4, random_state=seed),
    }
    X, true = make[name]()
    return X, np.random.default_rng(seed).choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]), true


@pytest.mark.parametrize("seed", first_is_fast(range(3)))
@pytest.mark.parametrize("name", ["moons", "circles"])
def test_the_default_finds_shapes_with_exact_composition(name, seed):
    X, group, true = shape_of(name, 4000, seed)
    model = AnchorFairClustering(2, random_state=seed).fit(X, sensitive_features=group)
    assert_guarantees(model, group)
    assert_mirrors_population(model, group)
    assert adjusted_rand_score(true, model.labels_) >= 0.9


# What must not matter


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("exponent", first_is_fast([-300, -10, 20, 300]))
def test_the_unit_of_the_features_changes_no_label(zafar, graph, exponent):
    X, group = zafar[0][:800], zafar[1][:800]
    expected = fit((X, group), clusterer="spfc", graph=graph, n_anchors=60)
    scaled = fit((X * 2.0**exponent, group), clusterer="spfc", graph=graph, n_anchors=60)
    assert_array_equal(scaled.labels_, expected.labels_)
    assert_allclose(scaled.anchors_, expected.anchors_ * 2.0**exponent, rtol=1e-12)


def test_an_absolute_ridge_has_the_unit_of_squared_features(zafar):
    X, group = zafar[0][:800], zafar[1][:800]
    models = [
        fit(
            (X * scale, group),
            graph=ReconstructionGraph(alpha=10.0 * scale**2, tol=1e-7),
            n_anchors=40,
        )
        for scale in (1.0, 2.0**-40, 2.0**40)
    ]
    for other in models[1:]:
        assert_array_equal(other.labels_, models[0].labels_)
        assert other.mass_error_ <= 1e-7 * 800


@pytest.mark.parametrize("graph", first_is_fast(GRAPHS))
def test_the_number_of_threads_changes_no_bit(graph):
    data = make_zafar(10_000, variant="original", random_state=1)
    models = [
        fit((data.data, data.sensitive_features), 4, graph=graph, n_anchors=40, n_jobs=n_jobs)
        for n_jobs in (1, 2, 3)
    ]
    for other in models[1:]:
        assert_array_equal(models[0].labels_, other.labels_)
        assert_array_equal(models[0].assignment_prices_, other.assignment_prices_)
        assert models[0].inertia_ == other.inertia_


@pytest.mark.parametrize("anchors", first_is_fast(["kmeans", "fdas"]))
def test_names_and_types_of_groups_change_nothing(anchors):
    data = make_fair_blobs(600, group_shares=(0.5, 0.3, 0.2), random_state=0)
    codes = np.unique(data.sensitive_features, return_inverse=True)[1]
    expected = fit((data.data, codes), anchors=anchors)
    variants = [
        np.array(["x", "m", "a"])[codes],
        np.array([2.5, -1.0, 7.0])[codes],
        pd.Categorical.from_codes(codes, ["q", "p", "o"]),
        pd.Series(np.array(["x", "m", "a"])[codes], dtype="string"),
        (2 - codes).astype(np.int8),
        np.column_stack([codes // 2, codes % 2]),
    ]
    for variant in variants:
        other = clone(expected).fit(data.data, sensitive_features=variant)
        assert_array_equal(other.labels_, expected.labels_)
        assert sorted(other.counts_.sum(axis=0)) == sorted(expected.counts_.sum(axis=0))


def test_permuting_rows_permutes_fdas_anchors_and_labels():
    data = make_zafar(2000, variant="original", random_state=3)
    X, group = data.data, data.sensitive_features
    order = np.random.default_rng(0).permutation(len(X))
    # At most 30 picks per group: beyond, the selection amplifies the last bits of the scores.
    options = {"anchors": "fdas", "n_anchors": 40, "clusterer": AgglomerativeClustering()}
    straight = fit((X, group), **options)
    permuted = fit((X[order], group[order]), **options)
    assert_array_equal(order[permuted.anchor_indices_], straight.anchor_indices_)
    assert_allclose(permuted.targets_, straight.targets_)
    assert np.mean(permuted.labels_ == straight.labels_[order]) > 0.99


def test_tables_of_every_library_give_the_same_labels(zafar):
    X, group = zafar[0][:500], zafar[1][:500]
    frame = pd.DataFrame(X, columns=["first", "second"])
    tables = [
        (frame, pd.Series(group)),
        (pl.from_pandas(frame), pl.Series(group)),
        (pa.Table.from_pandas(frame), pa.array(group)),
        (X.tolist(), group.tolist()),
        (np.asfortranarray(X), group),
    ]
    expected = fit((X, group)).labels_
    for data in tables:
        assert_array_equal(fit(data).labels_, expected)


def test_integer_weights_count_like_repeated_rows():
    data = make_zafar(400, variant="original", random_state=0)
    X, group = data.data, data.sensitive_features
    weight = np.random.default_rng(0).integers(1, 4, len(X))
    chosen = np.arange(0, 400, 10)
    # The same anchors and clusters of anchors.
    model = AnchorFairClustering(3, clusterer=AgglomerativeClustering(), anchors=chosen)
    weighted = clone(model).fit(X, sensitive_features=group, sample_weight=weight.astype(float))
    first = np.r_[0, np.cumsum(weight)[:-1]]
    repeated = clone(model).set_params(anchors=first[chosen])
    repeated.fit(np.repeat(X, weight, axis=0), sensitive_features=np.repeat(group, weight))
    assert_allclose(weighted.anchor_masses_, repeated.anchor_masses_)
    assert_allclose(weighted.targets_, repeated.targets_)
    assert_allclose(weighted.counts_.sum(axis=0), np.bincount(group, weights=weight))
    assert weighted.worst_violation_ <= weight.max()
    assert_allclose(weighted.inertia_, repeated.inertia_, rtol=0.02)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("unit", first_is_fast([1.0, 2.5]))
def test_equal_weights_are_counts_in_another_unit(zafar, unit, graph):
    X, group = zafar[0][:600], zafar[1][:600]
    plain = fit((X, group), graph=graph, n_anchors=60)
    weighted = clone(plain).fit(X, sensitive_features=group, sample_weight=np.full(600, unit))
    assert_array_equal(weighted.labels_, plain.labels_)
    for name in ("counts_", "targets_", "inertia_", "anchor_masses_"):
        assert_allclose(getattr(weighted, name), getattr(plain, name) * unit)
    assert_allclose(weighted.assignment_prices_, plain.assignment_prices_)


# As an estimator


def test_centres_are_means_and_the_score_is_minus_their_cost(zafar):
    X, group = zafar
    model = fit(zafar)
    means = np.array([X[model.labels_ == l].mean(axis=0) for l in range(3)])
    assert_allclose(model.cluster_centers_, means)
    distances = cdist(X, means, "sqeuclidean")
    assert_allclose(distances[np.arange(len(X)), model.labels_].sum(), model.inertia_, rtol=1e-9)
    labels = model.predict(X, sensitive_features=group)
    score = -distances[np.arange(len(X)), labels].sum()
    assert_allclose(model.score(X, sensitive_features=group), score)
    counts = model.counts_
    assert_allclose(model.balance_, (counts.min(axis=1) / counts.max(axis=1)).min())


def test_new_rows_are_nearly_fair(zafar):
    X, group = zafar
    model = fit((X[:2000], group[:2000]))
    labels = model.predict(X[2000:], sensitive_features=group[2000:])
    plain = KMeans(3, n_init=3, random_state=0).fit_predict(X[2000:])
    fair = relative_balance_score(labels, sensitive_features=group[2000:])
    unfair = relative_balance_score(plain, sensitive_features=group[2000:])
    assert fair > 0.8 > unfair


def test_missing_groups_are_predicted_as_they_were_fitted(zafar):
    X, group = zafar[0][:400], zafar[1][:400].astype(object)
    group[::7] = None
    model = fit((X, group), 2, missing_groups="own_group")
    assert_array_equal(model.predict(X, sensitive_features=group), model.labels_)


@pytest.mark.parametrize("graph", GRAPHS)
def test_blind_prediction_of_unknown_groups(small, graph):
    X, group = small
    model = fit(small, graph=graph, n_anchors=60, unknown_groups="blind")
    blind = model.predict(X[:50])
    named = model.predict(X[:50], sensitive_features=np.full(50, 99))
    assert_array_equal(blind, named)
    mixed = np.where(np.arange(50) % 2, 99, group[:50])
    labels = model.predict(X[:50], sensitive_features=mixed)
    known = model.predict(X[:50], sensitive_features=group[:50])
    assert_array_equal(labels[::2], known[::2])
    assert_array_equal(labels[1::2], blind[1::2])
    if graph == "local":
        shares = np.bincount(group) / len(group)
        average = model.assignment_prices_ @ shares
        assert_array_equal(blind, (local_costs(X[:50], model) - average).argmin(axis=1))


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("estimator", [AnchorFairClustering, FairKMeans])
def test_a_failed_fit_leaves_no_half_fitted_model(zafar, estimator, graph):
    X, group = zafar[0][:300], zafar[1][:300]
    model = estimator(2, fairness=np.ones((2, 2)), random_state=0)
    if estimator is AnchorFairClustering:
        model.set_params(graph=graph, clusterer=in_turns, n_anchors=20)
    with pytest.raises(ValueError, match="group"):
        model.fit(X, sensitive_features=group)
    with pytest.raises(NotFittedError):
        model.predict(X, sensitive_features=group)
    labels = model.set_params(fairness="population").fit_predict(X, sensitive_features=group)
    with pytest.raises(ValueError, match="group"):
        model.set_params(fairness=np.ones((2, 2))).fit(X + 1.0, sensitive_features=group)
    assert_array_equal(model.predict(X, sensitive_features=group), labels)


def test_parameters_of_the_graph_and_the_anchors_can_be_set_by_name(blobs):
    X, group = blobs
    model = AnchorFairClustering(3, graph=LocalGraph(), anchors=FDAS(), n_anchors=40)
    model.set_params(graph__n_neighbors=2, anchors__quotas="paper")
    assert model.get_params()["graph__n_neighbors"] == 2
    assert clone(model).anchors.quotas == "paper"
    assert pickle.loads(pickle.dumps(model)).graph.n_neighbors == 2


def test_a_copy_predicts_the_same(blobs):
    X, group = blobs
    model = fit(blobs)
    copied = pickle.loads(pickle.dumps(model))
    assert_array_equal(copied.predict(X, sensitive_features=group), model.labels_)


def test_warnings_point_to_the_line_that_fits(zafar):
    X, group = zafar[0][:300], zafar[1][:300]
    few = np.r_[np.zeros(299), 1]
    noisy = np.r_[-1, np.arange(299) % 3]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        AnchorFairClustering(3, clusterer=in_turns).fit(X)
        FairKMeans(3).fit(X)
        AnchorFairClustering(3, clusterer=in_turns).fit(X, sensitive_features=few)
        FairKMeans(3).fit(X, sensitive_features=few)
        FairKMeans(3, max_iter=1, tol=0, init=X[:3]).fit(X, sensitive_features=group)
        AnchorFairClustering(3, clusterer=lambda *_, **__: noisy).fit(X, sensitive_features=group)
        graph = ReconstructionGraph(alpha=1e-30, max_iter=1, tol=1e-9)
        AnchorFairClustering(3, clusterer=in_turns, graph=graph, n_anchors=20).fit(
            X, sensitive_features=group
        )
    assert len(caught) >= 8
    assert {warning.filename for warning in caught} == {__file__}


# Random tables


@given(st.data())
def test_counts_are_exact_for_random_tables(data):
    n = data.draw(st.integers(1, 60))
    d = data.draw(st.integers(1, 4))
    h = data.draw(st.integers(1, 6))
    c = data.draw(st.integers(1, n))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    X = rng.integers(0, 4, (n, d)) if data.draw(st.booleans()) else rng.normal(size=(n, d))
    group = rng.integers(0, h, n)
    model = AnchorFairClustering(
        c,
        clusterer=data.draw(st.sampled_from(["spfc", "fair_kmeans"])),
        anchors=data.draw(st.sampled_from(["kmeans", "fdas", "das", "random"])),
        graph=data.draw(st.sampled_from(GRAPHS)),
        fairness=data.draw(st.sampled_from(["population", "anchors"])),
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        warnings.filterwarnings("ignore", "k-means found", ConvergenceWarning)
        model.fit(X, sensitive_features=group)
    assert_guarantees(model, group)
    if model.fairness == "population":
        assert model.n_clusters_found_ == c


@pytest.mark.parametrize("clusterer", first_is_fast(NAMES, 2))
def test_a_group_of_two_in_a_thousand_has_its_share(clusterer):
    shares = (0.51, 0.34, 0.08, 0.06, 0.008, 0.002)
    data = make_fair_blobs(5000, centers=4, group_shares=shares, random_state=0)
    groups = data.sensitive_features
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model = fit((data.data, groups), 4, clusterer=clusterer, n_anchors=120)
    assert_guarantees(model, groups)
    assert_mirrors_population(model, groups)
    assert pd.Series(groups).value_counts().min() <= 0.0025 * len(groups)


def test_labels_by_admm_belong_to_their_rows_where_rows_are_equal():
    rng = np.random.default_rng(0)
    X, group = rng.integers(0, 4, (600, 3)).astype(float), rng.integers(0, 2, 600)
    model = AnchorFairClustering.as_in_paper(2, clusterer="fair_kmeans", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the paper's targets are infeasible
        model.fit(X, sensitive_features=group)
    soft = model.predict_proba(X, sensitive_features=group)
    assert np.mean(soft.argmax(axis=1) == model.labels_) > 0.95


@pytest.mark.parametrize("graph", ["local", "reconstruction"])
def test_anchor_weights_as_a_data_frame(graph):
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(60, 2)), np.arange(60) % 2
    model = AnchorFairClustering(2, n_anchors=8, graph=graph, random_state=0)
    expected = model.fit_transform(X, sensitive_features=groups).toarray()
    frame = model.set_output(transform="pandas").transform(X, sensitive_features=groups)
    assert frame.columns.tolist() == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(frame.to_numpy(), expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", ["blobs", "far from the origin", "grid", "outlier", "huge"])
def test_without_a_constraint_rows_follow_their_nearest_anchor(case, dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5)) + 4.0 * rng.integers(0, 3, size=(3000, 1))
    if case == "far from the origin":
        X += 1000.0
    elif case == "grid":  # many ties
        X = np.rint(X)
    elif case == "outlier":  # beyond the range of float32 squares
        X[0] = 1e25
    elif case == "huge":  # squares of some, but not all differences are beyond it
        X *= 1e18
    X = X.astype(dtype)
    anchors = np.arange(1, 201)
    model = AnchorFairClustering(
        3, clusterer=KMeans(n_init=1), anchors=anchors, tolerance=1.0, random_state=0
    ).fit(X, sensitive_features=rng.integers(0, 2, 3000))
    distances = cdist(X.astype(np.float64), X[anchors].astype(np.float64), "sqeuclidean")
    of_label = np.where(model.anchor_labels_ == model.labels_[:, None], distances, np.inf)
    assert_allclose(of_label.min(axis=1), distances.min(axis=1), rtol=1e-5, atol=1e-9)


def test_many_rows_in_separate_blobs_get_labels_that_are_proved_optimal():
    rng = np.random.default_rng(0)
    n = 200_000  # more than the prices of the first samples are looked for on
    X = rng.normal(size=(n, 2)) + 30.0 * np.eye(2)[rng.integers(0, 2, n)]
    model = AnchorFairClustering(2, n_anchors=40, random_state=0)
    model.fit(X, sensitive_features=rng.integers(0, 4, n))
    assert model.worst_violation_ < 1
    assert model.assignment_gap_ <= 1e-9 * model.inertia_
