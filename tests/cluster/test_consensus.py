"""Consensus clustering: co-association, stability, and agreement between seeds."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from fairanchor import AnchorFairClustering, ConsensusClustering, FairKMeans
from fairanchor.report import render_report, summarise_run
from tiers import first_is_fast

METHODS = ("spectral", "average")
every_method = pytest.mark.parametrize("method", METHODS)


def blobs(n_blobs=4, size=20, spread=0.1, seed=0):
    rng = np.random.default_rng(seed)
    blob = np.repeat(np.arange(n_blobs), size)
    centers = 10.0 * np.column_stack([np.arange(n_blobs), np.arange(n_blobs) % 2])
    return centers[blob] + spread * rng.normal(size=(len(blob), 2)), blob


def fit(X, n_clusters, groups=None, **parameters):
    groups = np.zeros(len(X)) if groups is None else groups
    parameters = {"random_state": 0} | parameters
    weights = parameters.pop("sample_weight", None)
    model = ConsensusClustering(n_clusters, **parameters)
    return model.fit(X, sensitive_features=groups, sample_weight=weights)


def companions_in_own_cluster(model, weights):
    """The definition of the stability of a row, pair by pair."""
    own, every = np.zeros(len(weights)), np.zeros(len(weights))
    for i in range(len(weights)):
        for j in range(len(weights)):
            every[i] += weights[j] * model.co_association_[i, j]
            if model.labels_[i] == model.labels_[j]:
                own[i] += weights[j] * model.co_association_[i, j]
    return own / every


@every_method
def test_one_run_of_separate_blobs_is_their_indicator(method):
    X, blob = blobs()
    model = fit(X, 4, n_runs=1, run_clusters=4, method=method, random_state=3)
    assert_array_equal(model.co_association_, blob[:, None] == blob)
    assert adjusted_rand_score(blob, model.labels_) == 1.0
    assert_array_equal(model.row_stability_, np.ones(len(X)))


@every_method
@given(
    seed=st.integers(0, 2**16),
    n_rows=st.integers(4, 30),
    n_clusters=st.integers(1, 4),
    weighted=st.booleans(),
)
def test_stability_is_the_share_of_companions_in_the_own_cluster(
    method, seed, n_rows, n_clusters, weighted
):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    weights = rng.integers(1, 5, n_rows) if weighted else np.ones(n_rows)
    model = fit(X, n_clusters, n_runs=5, method=method, sample_weight=weights)
    A = model.co_association_
    assert_array_equal(A, A.T)
    assert_array_equal(np.diag(A), np.ones(n_rows))
    assert_allclose(5 * A, np.round(5 * A), atol=1e-12)
    assert_array_equal(np.unique(model.labels_), np.arange(n_clusters))
    expected = companions_in_own_cluster(model, weights)
    assert_allclose(model.row_stability_, expected, rtol=1e-12)
    for cluster, stability in enumerate(model.cluster_stability_):
        rows = model.labels_ == cluster
        assert_allclose(stability, np.average(expected[rows], weights=weights[rows]), rtol=1e-12)


@every_method
def test_rows_between_two_blobs_are_the_least_stable(method):
    X, _ = blobs(2)
    bridge = np.array([[5.0, 5.0], [5.2, 5.2]])
    model = fit(np.vstack([X, bridge]), 2, run_clusters=2, method=method)
    assert model.row_stability_[-2:].max() < 0.9 * model.row_stability_[:-2].min()


@every_method
def test_separate_clusters_beyond_the_number_asked_for_are_merged_by_distance(method):
    """No run joins any two of the three blobs; two of them are near."""
    X, blob = blobs(3)
    X[blob == 2] += [20.0, 0.0]
    for seed in range(5):
        model = fit(X, 2, n_runs=20, method=method, random_state=seed)
        assert adjusted_rand_score(blob == 2, model.labels_) == 1.0


def test_groups_have_no_part():
    X = np.random.default_rng(0).normal(size=(60, 3))
    of_groups = (None, X[:, 0] > 0, np.arange(60) % 7)
    labels = [fit(X, 3, groups, n_runs=20).labels_ for groups in of_groups]
    assert_array_equal(labels[0], labels[1])
    assert_array_equal(labels[0], labels[2])


def test_a_run_uses_at_least_two_features():
    """Either feature alone would mix the rings."""
    X, ring = make_circles(400, noise=0.03, factor=0.4, random_state=0)
    assert adjusted_rand_score(ring, fit(X, 2).labels_) > 0.95


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_runs": 0}, "'n_runs' parameter"),
        ({"run_clusters": "many"}, "'run_clusters' parameter"),
        ({"method": "single"}, "'method' parameter"),
    ],
)
def test_invalid_parameters_raise_an_error(parameters, message):
    with pytest.raises(ValueError, match=message):
        fit(np.zeros((5, 2)), 2, **parameters)


def test_too_many_rows_name_the_framework():
    with pytest.raises(ValueError, match="10001 rows.*AnchorFairClustering"):
        fit(np.zeros((10_001, 1)), 2)


@pytest.mark.parametrize("n_anchors", first_is_fast([40, "auto"]))
def test_the_framework_has_the_stability_of_clusters_and_anchors(n_anchors):
    rng = np.random.default_rng(0)
    X = np.vstack([blobs(3, size=400, spread=1.5)[0], rng.uniform(-40, 60, (5, 2))])
    group = rng.integers(0, 2, len(X))
    model = AnchorFairClustering(3, clusterer="consensus", n_anchors=n_anchors, random_state=0)
    model.fit(X, sensitive_features=group)
    stability = model.clusterer_.row_stability_
    assert stability.shape == model.anchor_labels_.shape
    assert model.clusterer_.cluster_stability_.shape == (3,)
    assert model.worst_violation_ < 1


def agreements(models, X, group):
    """Adjusted Rand index of every pair of seeds."""
    labels = [model.fit(X, sensitive_features=group).labels_ for model in models]
    return [adjusted_rand_score(a, b) for a, b in combinations(labels, 2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [make_moons, partial(make_circles, factor=0.5)], ids=["moons", "circles"]
)
def test_seeds_agree_on_shapes_and_counts_are_exact(make):
    X, _ = make(3000, noise=0.05, random_state=0)
    group = np.random.default_rng(0).integers(0, 3, len(X))
    consensus = [
        AnchorFairClustering(2, clusterer="consensus", random_state=seed) for seed in range(5)
    ]
    found = agreements(consensus, X, group)
    assert min(found) >= 0.9
    assert max(model.worst_violation_ for model in consensus) < 1
    if make is not make_moons:  # k-means cuts the rings in any direction
        others = [
            [FairKMeans(2, random_state=seed) for seed in range(5)],
            [AnchorFairClustering(2, clusterer=KMeans(), random_state=s) for s in range(5)],
        ]
        for models in others:
            assert np.mean(agreements(models, X, group)) < 0.9


@pytest.mark.slow
def test_the_report_shows_the_stability_of_every_cluster():
    X, _ = blobs(3, size=60, spread=3.0)
    group = np.arange(len(X)) % 2
    framework = AnchorFairClustering(3, clusterer="consensus", random_state=0)
    for model in (ConsensusClustering(3, random_state=0), framework):
        model.fit(X, sensitive_features=group)
        stability = getattr(model, "clusterer_", model)
        labels = getattr(model, "anchor_labels_", model.labels_)
        run = summarise_run(model, X, sensitive_features=group, plain_labels=None)
        page = render_report(run)
        for cluster, value in enumerate(stability.cluster_stability_):
            unsettled = np.mean(stability.row_stability_[labels == cluster] < 0.8)
            assert f"Cluster {cluster}: {value:.3f}; {unsettled:.1%} of its rows" in page
    run = summarise_run(
        FairKMeans(3, random_state=0).fit(X, sensitive_features=group),
        X,
        sensitive_features=group,
        plain_labels=None,
    )
    assert run.stability is None
    assert "Stability" not in render_report(run)
