"""Bounds on the sizes of clusters, without groups and together with them."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

from fairanchor import AnchorFairClustering, FairKMeans, FairnessTargets, FairnessWarning
from fairanchor.metrics import clustering_cost


def blobs(n_rows, n_blobs, seed, n_features=3):
    """Blobs of different sizes."""
    rng = np.random.default_rng(seed)
    shares = np.linspace(1.0, 4.0, n_blobs)
    centers = 3.0 * rng.normal(size=(n_blobs, n_features))
    own = rng.choice(n_blobs, n_rows, p=shares / shares.sum())
    return centers[own] + rng.normal(size=(n_rows, n_features))


def sized(n_clusters, *, seed=0, init="k-means", **sizes):
    return FairKMeans(
        n_clusters, init=init, fairness=FairnessTargets(**sizes), random_state=seed, n_jobs=1
    )


@pytest.mark.parametrize("estimator", [FairKMeans, AnchorFairClustering])
def test_sizes_need_no_groups_and_no_warning(estimator):
    X = blobs(600, 4, 0)
    model = estimator(4, fairness=FairnessTargets(max_size=170), random_state=0).fit(X)
    assert np.bincount(model.labels_).max() <= 170
    np.testing.assert_array_equal(model.predict(X), model.labels_)


@pytest.mark.parametrize("parameters", [{}, {"tolerance": 1.0}, {"fairness": FairnessTargets()}])
def test_without_groups_and_sizes_a_warning_reports_that_nothing_is_asked_for(parameters):
    with pytest.warns(FairnessWarning):
        FairKMeans(2, random_state=0, **parameters).fit(blobs(50, 2, 0))


@given(
    st.integers(2, 5), st.integers(0, 10**6), st.floats(0.5, 1.0), st.floats(1.0, 1.6)
)  # fmt: skip
def test_every_bound_is_kept_exactly(n_clusters, seed, least, greatest):
    X = blobs(40 + seed % 60, n_clusters, seed, n_features=2)
    bounds = np.floor(least * len(X) / n_clusters), np.ceil(greatest * len(X) / n_clusters)
    model = sized(n_clusters, min_size=bounds[0], max_size=bounds[1], seed=seed).fit(X)
    sizes = np.bincount(model.labels_, minlength=n_clusters)
    assert bounds[0] <= sizes.min()
    assert sizes.max() <= bounds[1]
    assert model.worst_violation_ == 0.0


def test_labels_are_the_cheapest_with_equal_sizes():
    """Against the assignment of rows to copies of the centres by SciPy."""
    X = blobs(60, 3, 1)
    model = sized(3, min_size=20, max_size=20).fit(X)
    distances = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    slots = np.repeat(distances, 20, axis=1)
    assert model.inertia_ == pytest.approx(slots[linear_sum_assignment(slots)].sum())


def test_the_cost_of_small_tables_is_that_of_the_best_clusters():
    """Against all ways to divide ten rows into two clusters of five."""
    for seed in range(5):
        X = blobs(10, 2, seed, n_features=2)
        costs = []
        for chosen in itertools.combinations(range(10), 5):
            labels = np.isin(np.arange(10), chosen).astype(int)
            costs.append(clustering_cost(X, labels))
        labels = sized(2, min_size=5, max_size=5).fit_predict(X)
        assert clustering_cost(X, labels) == pytest.approx(min(costs))


def test_bounds_that_hold_anyway_change_nothing():
    X = blobs(500, 3, 2)
    model = sized(3, max_size=500).fit(X)
    assert model.inertia_ == pytest.approx(KMeans(3, n_init=10, random_state=0).fit(X).inertia_)


def test_different_sizes_are_matched_in_rank_order_and_belong_to_their_index():
    rng = np.random.default_rng(0)
    X = np.concatenate([c + rng.normal(size=(n, 2)) for c, n in ((0, 300), (20, 100), (40, 200))])
    sizes = [190, 310, 100]
    model = sized(3, min_size=sizes, max_size=sizes).fit(X)
    np.testing.assert_array_equal(np.bincount(model.labels_), sizes)
    # The largest blob is the cluster of 310, the smallest that of 100.
    np.testing.assert_allclose(model.cluster_centers_[:, 0], [40, 0, 20], atol=3.0)


def test_with_given_centres_sizes_belong_to_these():
    rng = np.random.default_rng(0)
    X = np.concatenate([c + rng.normal(size=(100, 2)) for c in (0, 20, 40)])
    init = [[0.0, 0.0], [20.0, 20.0], [40.0, 40.0]]
    model = sized(3, max_size=[100, 150, 60], init=init).fit(X)
    np.testing.assert_allclose(model.cluster_centers_[[0, 2], 0], [0, 40], atol=3.0)
    assert np.bincount(model.labels_)[2] == 60


@given(st.integers(2, 4), st.integers(0, 10**6), st.booleans())
def test_weights_are_within_the_largest_weight_of_a_row(n_clusters, seed, heavy):
    rng = np.random.default_rng(seed)
    X = blobs(50, n_clusters, seed, n_features=2)
    weights = rng.lognormal(sigma=2.0 if heavy else 0.5, size=50)
    if weights.max() > weights.sum() / n_clusters:
        return  # no labels could be near
    most = 1.1 * weights.sum() / n_clusters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)  # a cluster of light rows can be empty
        model = sized(n_clusters, max_size=most, seed=seed).fit(X, sample_weight=weights)
    loads = np.bincount(model.labels_, weights, minlength=n_clusters)
    assert loads.max() <= most + weights.max() * (1 + 1e-9)


def test_equal_weights_are_numbers_of_rows_in_another_unit():
    X = blobs(120, 3, 3)
    model = sized(3, max_size=100.0).fit(X, sample_weight=np.full(120, 2.5))
    np.testing.assert_array_equal(np.bincount(model.labels_), [40, 40, 40])


def test_sizes_and_groups_together():
    X = blobs(900, 3, 4)
    groups = np.where(X[:, 0] > np.median(X[:, 0]), "b", "a")
    groups[:90] = "c"
    model = sized(3, min_size=300, max_size=300).fit(X, sensitive_features=groups)
    expected = np.unique(groups, return_counts=True)[1] / 3
    np.testing.assert_array_less(np.abs(model.counts_ - expected), 1.0)
    np.testing.assert_array_equal(model.counts_.sum(axis=1), 300)


def test_sizes_in_chunks_are_those_in_memory(monkeypatch):
    X = blobs(3000, 4, 5)
    expected = sized(4, max_size=800).fit(X).counts_
    monkeypatch.setattr(FairKMeans, "_chunk_rows", 1000)
    model = sized(4, max_size=800).fit(X)
    assert model.counts_.max() <= 800
    assert model.counts_.sum() == expected.sum()
