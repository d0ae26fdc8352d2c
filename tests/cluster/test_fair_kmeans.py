"""Fair k-means as an estimator: what it guarantees, and the inputs that it must survive."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from fairanchor import (
    AnchorFairClustering,
    FairKMeans,
    FairnessTargets,
    FairnessWarning,
    fair_assign,
)
from fairanchor.cluster import _fair_kmeans as module
from fairanchor.rows import Sampler
from tiers import first_is_fast

SMALL_GROUPS = pytest.mark.filterwarnings(
    "ignore:.*fewer rows than n_clusters:fairanchor.FairnessWarning"
)


def make_data(seed=0, n=240, shares=(0.6, 0.3, 0.1)):
    """Four blobs in three dimensions that the groups prefer differently."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(len(shares), size=n, p=shares)
    groups[: len(shares)] = np.arange(len(shares))
    leaning = rng.dirichlet(np.ones(4), size=len(shares))
    blobs = np.array([rng.choice(4, p=leaning[g]) for g in groups])
    X = 5.0 * rng.normal(size=(4, 3))[blobs] + rng.normal(size=(n, 3))
    return X, groups


def fit(X, groups, n_clusters=4, *, weights=None, **settings):
    settings = {"random_state": 0, "n_init": 2, **settings}
    model = FairKMeans(n_clusters, **settings)
    return model.fit(X, sensitive_features=groups, sample_weight=weights)


def cross_table(labels, groups, weights=None):
    """Weight by cluster and sorted name of the group, by loops."""
    names = sorted(set(np.asarray(groups).tolist()))
    table = np.zeros((max(labels) + 1, len(names)))
    weights = np.ones(len(labels)) if weights is None else weights
    for label, group, weight in zip(labels, np.asarray(groups).tolist(), weights, strict=True):
        table[label, names.index(group)] += weight
    return table


def assert_proportional(labels, groups):
    """Every cell is the floor or the ceiling of its share, in exact integers."""
    table = cross_table(labels, groups).astype(np.int64)
    products = np.outer(table.sum(axis=1), table.sum(axis=0))
    n = len(labels)
    assert np.all(table >= products // n)
    assert np.all(table <= -(-products // n))


def cost_to_centers(X, labels, centers, weights=1.0):
    return float(np.sum(weights * ((X - centers[labels]) ** 2).sum(axis=1)))


# Guarantees


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(8, 120),
    n_clusters=st.integers(1, 8),
    n_groups=st.integers(2, 6),
    init=st.sampled_from(["k-means", "k-means++", "random"]),
    weighted=st.booleans(),
)
def test_the_cost_falls_and_every_cluster_mirrors_the_population(
    seed, n, n_clusters, n_groups, init, weighted
):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    groups = rng.integers(0, n_groups, size=n)
    weights = rng.uniform(0.5, 2.0, size=n) if weighted else None
    model = FairKMeans(n_clusters, init=init, n_init=1, tol=1e-6, random_state=seed)
    with warnings.catch_warnings():
        # Groups smaller than the number of clusters, weights that leave a cluster empty.
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(X, sensitive_features=groups, sample_weight=weights)

    assert np.all(np.diff(model.cost_path_) <= 0)
    assert set(model.labels_) == set(range(n_clusters))
    assert_allclose(model.counts_, cross_table(model.labels_, groups, weights))
    cost = cost_to_centers(
        X, model.labels_, model.cluster_centers_, 1.0 if weights is None else weights
    )
    assert_allclose(model.inertia_, cost, rtol=1e-9, atol=1e-12)
    if not weighted:
        assert_proportional(model.labels_, groups)
        assert np.abs(model.counts_ - model.targets_).max() < 1
        assert_array_equal(model.counts_.sum(axis=1), np.rint(model.targets_.sum(axis=1)))


@pytest.mark.parametrize("seed", first_is_fast(range(5)))
def test_weighted_cells_are_met_up_to_the_heaviest_row(seed):
    X, groups = make_data(seed)
    weights = np.random.default_rng(seed).uniform(0.1, 4.0, size=len(X))
    model = fit(X, groups, weights=weights)
    assert np.abs(model.counts_ - model.targets_).max() <= weights.max()
    sizes = model.targets_.sum(axis=1)
    shares = np.bincount(groups, weights=weights) / weights.sum()
    assert_allclose(model.targets_, np.outer(sizes, shares))


@pytest.mark.parametrize("seed", first_is_fast(range(5)))
def test_one_group_is_plain_k_means(seed):
    X, _ = make_data(seed)
    start = X[:4].copy()
    model = fit(X, np.zeros(len(X)), init=start, tol=0.0, max_iter=300)
    reference = KMeans(4, init=start, n_init=1, tol=0.0, max_iter=300).fit(X)
    assert_allclose(model.inertia_, reference.inertia_)
    assert_array_equal(model.labels_, reference.labels_)


def test_one_group_is_plain_k_means_on_more_rows_than_are_sampled(monkeypatch):
    monkeypatch.setattr("fairanchor.assignment._dual.START_ROWS", 100)
    monkeypatch.setattr("fairanchor.assignment._transport.FEW_ENTRIES", 100)
    X, _ = make_data(1, n=1000)
    start = X[:4].copy()
    model = fit(X, np.zeros(len(X)), init=start, tol=0.0, max_iter=300)
    reference = KMeans(4, init=start, n_init=1, tol=0.0, max_iter=300).fit(X)
    assert_array_equal(model.labels_, reference.labels_)


@pytest.mark.slow
@pytest.mark.parametrize("data", first_is_fast(["law_school", "credit_card", "bank_marketing"]))
def test_real_tables_cost_little_more_than_plain_k_means(data, request):
    data = request.getfixturevalue(data)
    model = fit(data.X, data.sensitive_features, data.n_clusters, n_init=3)
    plain = KMeans(data.n_clusters, n_init=5, random_state=0).fit(data.X).inertia_
    assert plain * (1 - 1e-6) <= model.inertia_ <= 1.06 * plain
    assert_proportional(model.labels_, data.sensitive_features)
    predicted = model.predict(data.X, sensitive_features=data.sensitive_features)
    assert np.mean(predicted != model.labels_) < 1e-3


@pytest.mark.parametrize("seed", first_is_fast(range(4)))
def test_labels_are_the_best_fair_assignment_to_the_centres(seed):
    """Costs, dual variables and labels belong to one assignment."""
    X, groups = make_data(seed)
    model = fit(X, groups)
    distances = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    again = fair_assign(distances, sensitive_features=groups, fairness=model.counts_)
    assert_allclose(again.cost, model.inertia_)
    # A bound, not always the value itself: the labels' own dual variables prove it.
    program = fair_assign(distances, sensitive_features=groups).lp_value
    assert 0 < model.lp_value_ <= program * (1 + 1e-9)


def test_it_converges_and_counts_its_iterations():
    X, groups = make_data(3)
    model = fit(X, groups)
    assert model.converged_
    assert 1 <= model.n_iter_ <= model.max_iter
    assert len(model.cost_path_) <= model.n_iter_ + 1
    assert np.all(np.diff(model.cost_path_) <= 0)
    assert model.n_clusters_found_ == 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_is_fast(range(3)))
def test_the_default_costs_about_as_much_as_the_best_of_many_starts(seed):
    X, groups = make_data(seed, n=600)
    automatic = fit(X, groups, n_init="auto")
    assert_proportional(automatic.labels_, groups)
    best = min(fit(X, groups, n_init=1, random_state=state).inertia_ for state in range(8))
    assert automatic.inertia_ <= 1.1 * best


# Constraints


def test_a_table_is_met_and_its_empty_cells_stay_empty():
    X, groups = make_data(0)
    sizes = np.bincount(groups)
    table = np.array([[0.5, 0.0, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5], [0.0, 0.25, 0.0]])
    model = fit(X, groups, fairness=table * sizes)
    assert_allclose(model.targets_, table * sizes)
    assert np.abs(model.counts_ - model.targets_).max() < 1
    assert np.all(model.counts_[table == 0] == 0)
    far = model.predict(1e3 * X, sensitive_features=groups)
    assert np.all(cross_table(np.r_[far, 3], np.r_[groups, 0])[:, 1:][table[:, 1:] == 0] == 0)


def test_bounds_on_shares_and_sizes_are_kept():
    X, groups = make_data(1)
    names = np.array(["a", "b", "c"])[groups]
    bounds = FairnessTargets(upper={"a": 0.7}, lower={"c": 0.05}, min_size=40, max_size=100)
    model = fit(X, names, fairness=bounds)
    sizes = model.counts_.sum(axis=1)
    assert sizes.min() >= 40
    assert sizes.max() <= 100
    assert np.all(model.counts_[:, 0] < 0.7 * sizes + 1)
    assert np.all(model.counts_[:, 2] > 0.05 * sizes - 1)
    missed = np.maximum(model.counts_[:, 0] - 0.7 * sizes, 0.05 * sizes - model.counts_[:, 2])
    assert_allclose(model.worst_violation_, max(missed.max(), 0.0), atol=1e-9)


@pytest.mark.parametrize("unit", [1.0, 0.5])
def test_no_cluster_is_smaller_than_the_minimum(unit):
    X, groups = make_data(2)
    free = fit(X, groups, 6)
    least = int(free.counts_.sum(axis=1).min()) + 10
    weights = None if unit == 1.0 else np.full(len(X), unit)
    model = fit(X, groups, 6, min_cluster_size=least * unit, weights=weights)
    assert model.counts_.sum(axis=1).min() >= least * unit
    assert model.worst_violation_ < unit


def test_missing_groups_can_be_a_group_of_their_own():
    X, groups = make_data(3)
    names = np.array(["a", "b", None], dtype=object)[groups]
    model = fit(X, names, missing_groups="own_group")
    assert model.groups_.tolist() == ["a", "b", None]
    assert_array_equal(model.labels_, fit(X, groups).labels_)
    assert_array_equal(model.predict(X, sensitive_features=names), model.labels_)


def test_unknown_groups_can_be_predicted_with_average_prices():
    X, groups = make_data(3)
    model = fit(X, groups, unknown_groups="blind")
    shares = np.bincount(groups) / len(groups)
    distances = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    expected = (distances - model.assignment_prices_ @ shares).argmin(axis=1)
    assert_array_equal(model.predict(X), expected)
    assert_array_equal(model.predict(X, sensitive_features=np.full(len(X), 9)), expected)
    mixed = np.where(np.arange(len(X)) % 2, groups, 9)
    labels = np.where(np.arange(len(X)) % 2, model.labels_, expected)
    assert_array_equal(model.predict(X, sensitive_features=mixed), labels)


# Starts


@pytest.mark.slow
def test_the_best_of_several_starts_is_kept():
    X, groups = make_data(3)
    costs = [fit(X, groups, init="random", n_init=n).inertia_ for n in (1, 4, 12)]
    assert costs[0] >= costs[1] >= costs[2]


def test_starts_that_compete_on_a_sample_still_label_all_rows(monkeypatch):
    X, groups = make_data(5, n=600)
    everywhere = fit(X, groups, n_init=4)
    monkeypatch.setattr(FairKMeans, "_sampler", Sampler((100, 15), 5))
    competed = fit(X, groups, n_init="auto")
    assert len(competed.labels_) == 600
    assert_proportional(competed.labels_, groups)
    assert competed.inertia_ <= 1.2 * everywhere.inertia_


def test_seeds_are_found_in_tables_whose_rows_come_in_turns(monkeypatch):
    """Every fifth row of this table is of one and the same blob."""
    monkeypatch.setattr(module, "SEEDING_ROWS", 100)
    rng = np.random.default_rng(0)
    X = 100.0 * (np.arange(500) % 5)[:, None] + rng.normal(size=(500, 1))
    model = fit(X, np.arange(500) // 5 % 2, 5, init="k-means++", n_init=1)
    assert_array_equal(np.sort(model.counts_, axis=0), np.full((5, 2), 50))


# Prediction


@pytest.mark.parametrize("seed", first_is_fast(range(5)))
def test_prediction_equals_the_labels_of_the_training_rows(seed):
    X, groups = make_data(seed)
    model = fit(X, groups)
    assert_array_equal(model.predict(X, sensitive_features=groups), model.labels_)
    order = np.random.default_rng(seed).permutation(len(X))
    shuffled = model.predict(X[order], sensitive_features=groups[order])
    assert_array_equal(shuffled, model.labels_[order])


def test_prediction_differs_from_the_labels_only_at_ties():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(200, 2)).astype(float)
    groups = rng.integers(0, 2, size=200)
    model = fit(X, groups, 3)
    predicted = model.predict(X, sensitive_features=groups)
    distances = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    priced = distances - model.assignment_prices_.T[groups]
    rows = np.arange(200)
    assert_allclose(priced[rows, predicted], priced[rows, model.labels_], atol=1e-9)


def test_prediction_of_weighted_rows_equals_their_labels():
    X, groups = make_data(2)
    weights = np.random.default_rng(0).uniform(0.0, 2.0, size=len(X))
    weights[::7] = 0.0
    model = fit(X, groups, weights=weights)
    assert_array_equal(model.predict(X, sensitive_features=groups), model.labels_)


def test_the_score_of_the_training_rows_is_minus_the_inertia():
    X, groups = make_data(4)
    model = fit(X, groups)
    assert_allclose(model.score(X, sensitive_features=groups), -model.inertia_)
    weights = np.random.default_rng(0).uniform(0.1, 2.0, size=len(X))
    weighted = fit(X, groups, weights=weights)
    score = weighted.score(X, sensitive_features=groups, sample_weight=weights)
    assert_allclose(score, -weighted.inertia_)


def test_prices_are_named_by_the_sorted_groups():
    """A price of the public table, looked up by name, explains the labels of that group."""
    X, codes = make_data(0)
    names = np.array(["zoe", "ann", "mia"])[codes]  # the largest group has the last name
    model = fit(X, names)
    assert_array_equal(model.groups_, ["ann", "mia", "zoe"])
    for column, name in enumerate(model.groups_):
        own = names == name
        distances = ((X[own, None] - model.cluster_centers_) ** 2).sum(axis=2)
        explained = (distances - model.assignment_prices_[:, column]).argmin(axis=1)
        assert_array_equal(explained, model.labels_[own])
        assert_array_equal(model.counts_[:, column], np.bincount(model.labels_[own], minlength=4))


# What must not matter


def test_the_number_of_threads_changes_no_bit():
    X, groups = make_data(7, n=10_000)  # several blocks of rows
    one, two = (fit(X, groups, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert_array_equal(one.labels_, two.labels_)
    assert_array_equal(one.cluster_centers_, two.cluster_centers_)
    assert_array_equal(one.assignment_prices_, two.assignment_prices_)
    assert one.inertia_ == two.inertia_


def test_the_number_of_threads_of_blas_changes_no_bit():
    X, groups = make_data(7, n=30_000)
    with threadpool_limits(1):
        one = fit(X, groups)
    with threadpool_limits(2):
        two = fit(X, groups)
    assert_array_equal(one.labels_, two.labels_)
    assert_array_equal(one.cost_path_, two.cost_path_)
    assert_array_equal(one.assignment_prices_, two.assignment_prices_)


@pytest.mark.parametrize(
    "rename",
    [
        lambda codes: 7 - codes,
        lambda codes: np.array(["b", "c", "a"])[codes],
        lambda codes: pd.Categorical.from_codes(codes, ["x", "y", "z"], ordered=True),
        lambda codes: np.array([True, False, None], dtype=object)[codes].astype(str),
    ],
)
def test_the_names_of_the_groups_do_not_matter(rename):
    X, groups = make_data(8)
    expected, renamed = fit(X, groups), fit(X, rename(groups))
    assert_array_equal(renamed.labels_, expected.labels_)
    assert_array_equal(renamed.cluster_centers_, expected.cluster_centers_)


@pytest.mark.parametrize("scale", first_is_fast([1e-150, 1e-100, 1e-30, 1e30, 1e100, 1e150]))
def test_the_scale_of_the_data_does_not_matter(scale):
    X, groups = make_data(0)
    expected, scaled = fit(X, groups), fit(X * scale, groups)
    assert_array_equal(scaled.labels_, expected.labels_)
    assert_array_equal(scaled.predict(X * scale, sensitive_features=groups), expected.labels_)
    assert_allclose(scaled.cluster_centers_, expected.cluster_centers_ * scale)
    assert_allclose(scaled.inertia_, expected.inertia_ * scale * scale)


def test_a_shift_of_the_data_hardly_matters():
    """The shift costs ten digits, by which a size next to .5 can be rounded the other way."""
    X, groups = make_data(9)
    start = X[:4]
    expected = fit(X, groups, init=start)
    shifted = fit(X + 1e6, groups, init=start + 1e6)
    assert_allclose(shifted.inertia_, expected.inertia_, rtol=1e-3)
    assert np.mean(shifted.labels_ != expected.labels_) <= 0.02


@pytest.mark.parametrize("dtype", first_is_fast([np.float32, np.int16, np.int64, np.uint8]))
def test_numbers_of_any_type_are_taken_at_their_value(dtype):
    X, groups = make_data(1)
    X = np.round(4 * X + 100).astype(dtype)
    expected, converted = fit(X.astype(float), groups), fit(X, groups)
    assert_array_equal(converted.labels_, expected.labels_)
    assert converted.cluster_centers_.dtype == np.float64


def test_lists_frames_and_columns_order_do_not_matter():
    X, groups = make_data(1)
    expected = fit(X, groups).labels_
    assert_array_equal(fit(X.tolist(), groups.tolist()).labels_, expected)
    assert_array_equal(fit(np.asfortranarray(X), groups).labels_, expected)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert_array_equal(fit(frame, pd.Series(groups)).labels_, expected)


@pytest.mark.parametrize("weight", first_is_fast([1.0, 0.1, 2.5]))
def test_equal_weights_change_nothing_but_the_unit(weight):
    X, groups = make_data(1)
    expected, weighted = fit(X, groups), fit(X, groups, weights=np.full(len(X), weight))
    assert_array_equal(weighted.labels_, expected.labels_)
    assert_allclose(weighted.counts_, expected.counts_ * weight)
    assert_allclose(weighted.targets_, expected.targets_ * weight)
    assert_allclose(weighted.inertia_, expected.inertia_ * weight)
    assert_allclose(weighted.cost_path_, expected.cost_path_ * weight)


def test_integer_weights_cost_about_as_much_as_repeated_rows():
    """The same start; only the rounding of sizes and cells differs."""
    X, groups = make_data(2)
    repeats = np.random.default_rng(0).integers(1, 4, size=len(X))
    start = X[:4].copy()
    weighted = fit(X, groups, weights=repeats, init=start, tol=1e-6)
    copies = np.repeat(np.arange(len(X)), repeats)
    repeated = fit(X[copies], groups[copies], init=start, tol=1e-6)
    assert_allclose(weighted.inertia_, repeated.inertia_, rtol=0.02)
    assert_allclose(weighted.targets_, repeated.targets_, atol=0.03 * repeats.sum())


def test_fitting_changes_neither_the_data_nor_the_parameters():
    X, groups = make_data(1)
    start = X[:4].copy()
    kept = X.copy(), groups.copy(), start.copy()
    model = FairKMeans(4, init=start)
    parameters = clone(model).get_params()
    model.fit(X, sensitive_features=groups)
    for before, after in zip(kept, (X, groups, start), strict=True):
        assert_array_equal(after, before)
    assert model.init is start
    assert {**model.get_params(), "init": None} == {**parameters, "init": None}


def test_the_same_random_state_gives_the_same_result():
    X, groups = make_data(1)
    first, second = (fit(X, groups, init="random", random_state=5) for _ in range(2))
    assert_array_equal(first.labels_, second.labels_)
    assert first.inertia_ == second.inertia_


# Given starts


def test_given_centres_are_the_start():
    """The first costs are those of the best fair assignment to the given centres."""
    X, groups = make_data(1)
    start = X[[3, 50, 100, 150]]
    model = fit(X, groups, init=start)
    nearest = ((X[:, None] - start) ** 2).sum(axis=2).min(axis=1).sum()
    assert nearest <= model.cost_path_[0]
    again = fit(X, groups, init=start, random_state=99)
    assert_array_equal(again.labels_, model.labels_)


def test_the_order_of_given_centres_is_the_order_of_the_clusters():
    X, groups = make_data(1)
    start = X[[3, 50, 100, 150]]
    forwards, backwards = fit(X, groups, init=start), fit(X, groups, init=start[::-1])
    assert_allclose(backwards.inertia_, forwards.inertia_, rtol=1e-3)
    assert_allclose(backwards.cluster_centers_[::-1], forwards.cluster_centers_, atol=0.5)


def test_labels_start_at_the_means_of_their_clusters():
    X, groups = make_data(1)
    labels = KMeans(4, n_init=1, random_state=0).fit_predict(X)
    means = np.array([X[labels == l].mean(axis=0) for l in range(4)])
    expected = fit(X, groups, init=means)
    assert_array_equal(fit(X, groups, init=labels).labels_, expected.labels_)
    names = [10 * l - 7 for l in labels.tolist()]
    assert_array_equal(fit(X, groups, init=names).labels_, expected.labels_)


@pytest.mark.parametrize(
    "estimator",
    [KMeans(4, n_init=1, random_state=3), AnchorFairClustering(4, random_state=3)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_fitted_estimator_starts_at_its_centres(estimator):
    X, groups = make_data(1)
    if isinstance(estimator, KMeans):
        start = estimator.fit(X)
    else:
        start = estimator.fit(X, sensitive_features=groups)
    expected = fit(X, groups, init=start.cluster_centers_)
    model = fit(X, groups, init=start)
    assert_array_equal(model.labels_, expected.labels_)
    assert model.init is start


def test_lloyd_steps_after_the_framework_lower_its_cost():
    X, groups = make_data(1, n=600)
    framework = AnchorFairClustering(4, random_state=0).fit(X, sensitive_features=groups)
    model = fit(X, groups, init=framework.cluster_centers_)
    assert model.inertia_ <= framework.inertia_ * (1 + 1e-9)


# Inputs to survive


@SMALL_GROUPS
def test_as_many_clusters_as_rows():
    X, groups = make_data(0, n=12)
    model = fit(X, groups, 12)
    assert_array_equal(np.sort(model.labels_), np.arange(12))
    assert_allclose(model.inertia_, 0.0, atol=1e-20)


def test_one_cluster():
    X, groups = make_data(0)
    model = fit(X, groups, 1)
    assert_array_equal(model.labels_, 0)
    assert_allclose(model.cluster_centers_[0], X.mean(axis=0))


@pytest.mark.parametrize("init", ["k-means", "k-means++", "random"])
def test_rows_that_are_all_equal(init):
    model = fit(np.full((20, 2), 3.5), np.arange(20) % 2, 3, init=init)
    assert set(model.labels_) == {0, 1, 2}
    assert_proportional(model.labels_, np.arange(20) % 2)
    assert model.inertia_ == 0.0


def test_fewer_distinct_rows_than_clusters():
    X = np.repeat([[0.0, 0.0], [1.0, 5.0]], 15, axis=0)
    groups = np.arange(30) % 3
    model = fit(X, groups, 4)
    assert set(model.labels_) == {0, 1, 2, 3}
    assert_proportional(model.labels_, groups)


@pytest.mark.parametrize("init", ["k-means", "k-means++", "random"])
def test_fewer_distinct_rows_in_chunks_than_clusters(monkeypatch, init):
    """The samples, in which equal rows are merged, have fewer rows than there are clusters."""
    monkeypatch.setattr(FairKMeans, "_chunk_rows", 100)
    X, groups = np.repeat([[0.0], [1.0]], 300, axis=0), np.arange(600) % 2
    assert_proportional(fit(X, groups, 6, init=init).labels_, groups)


def test_duplicated_rows_may_be_in_different_clusters_but_the_counts_are_exact():
    X, groups = make_data(3, n=60)
    X, groups = np.repeat(X, 5, axis=0), np.repeat(groups, 5)
    assert_proportional(fit(X, groups).labels_, groups)


def test_constant_columns_do_not_matter():
    X, groups = make_data(2)
    with_constants = np.column_stack([np.full(len(X), 7.0), X, np.zeros(len(X))])
    assert_array_equal(fit(with_constants, groups).labels_, fit(X, groups).labels_)


def test_one_feature_and_more_features_than_rows():
    X, groups = make_data(2)
    assert_proportional(fit(X[:, :1], groups).labels_, groups)
    wide = np.random.default_rng(0).normal(size=(15, 40))
    few = np.arange(15) % 3
    assert_proportional(fit(wide, few, 3).labels_, few)


@SMALL_GROUPS
@pytest.mark.parametrize("n_groups", first_is_fast([100, 240]))
def test_many_groups_down_to_one_row_each(n_groups):
    X, _ = make_data(2)
    groups = np.arange(len(X)) % n_groups
    model = fit(X, groups, n_init=1)
    assert set(model.labels_) == {0, 1, 2, 3}
    assert_proportional(model.labels_, groups)


@SMALL_GROUPS
def test_a_group_of_one_row_among_many():
    X, groups = make_data(2)
    groups[5] = 99
    model = fit(X, groups)
    assert_proportional(model.labels_, groups)
    assert model.counts_[:, 3].sum() == 1


@SMALL_GROUPS
def test_a_group_of_one_row_that_the_samples_miss(monkeypatch):
    monkeypatch.setattr("fairanchor.assignment._dual.START_ROWS", 30)
    monkeypatch.setattr(FairKMeans, "_sampler", Sampler((40,), 5))
    X, groups = make_data(2)
    for row in (0, 5, 100, 239):
        with_single = groups.copy()
        with_single[row] = 99
        assert_proportional(fit(X, with_single).labels_, with_single)


def test_a_group_without_weight():
    X, groups = make_data(2)
    weights = np.where(groups == 1, 0.0, 1.0 + np.arange(len(X)) % 2)
    model = fit(X, groups, weights=weights)
    assert_array_equal(model.counts_[:, 1], 0)
    assert_array_equal(model.predict(X, sensitive_features=groups), model.labels_)


def test_far_outliers_do_not_blur_the_other_clusters():
    rng = np.random.default_rng(1)
    near = np.vstack([rng.normal(size=(300, 2)), rng.normal(size=(300, 2)) + 8])
    groups = np.arange(602) % 2
    without = fit(near, groups[:600], 2)
    outliers = fit(np.vstack([near, np.full((2, 2), 1e6)]), groups, 3)
    assert_array_equal(np.sort(outliers.counts_.sum(axis=1)), [2, 300, 300])
    assert_allclose(outliers.inertia_, without.inertia_, rtol=1e-3)


# Warnings and errors


def test_a_run_that_is_cut_short_warns():
    X, groups = make_data(3)
    start = X[:4]
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1 .* tol=0"):
        model = fit(X, groups, init=start, max_iter=1, tol=0)
    assert model.n_iter_ == 1
    assert_proportional(model.labels_, groups)


def test_a_cluster_that_weights_leave_empty_is_filled_with_a_warning():
    X, groups = make_data(0, n=6)
    weights = np.array([30.0, 1, 1, 1, 1, 1])
    with pytest.warns(FairnessWarning) as caught:
        model = fit(X, groups % 2, weights=weights)
    assert any("of 4 clusters" in str(w.message) for w in caught)
    assert any("sample_weight is up to 30" in str(w.message) for w in caught)
    assert set(model.labels_) == {0, 1, 2, 3}
    cost = cost_to_centers(X, model.labels_, model.cluster_centers_, weights)
    assert_allclose(model.inertia_, cost)


def test_clusters_without_a_row_of_their_own_are_put_down_to_equal_rows():
    X, groups = np.array([[0.0], [0.0], [3.0], [3.0], [3.0]]), [1, 0, 0, 1, 0]
    weights = [1.0, 1.2, 1.0, 1.1, 1.1]
    with pytest.warns(FairnessWarning) as caught:
        FairKMeans(3, n_init=1, random_state=0).fit(
            X, sensitive_features=groups, sample_weight=weights
        )
    assert {warning.filename for warning in caught} == {__file__}
    assert any("1 of 3 clusters" in str(w.message) for w in caught)
    assert any("2 distinct" in str(w.message) for w in caught)


@pytest.mark.parametrize("method", ["fit", "predict"])
def test_missing_groups_raise_with_their_row(method):
    X, groups = make_data(3)
    model = fit(X, groups)
    missing = [None, *groups[1:].tolist()]
    with pytest.raises(ValueError, match="row 0.*missing_groups"):
        getattr(model, method)(X, sensitive_features=missing)


def test_no_groups_warn_and_mean_plain_k_means():
    X, _ = make_data(3)
    with pytest.warns(FairnessWarning, match="one group"):
        model = FairKMeans(4, random_state=0).fit(X)
    assert_array_equal(model.predict(X), model.labels_)
    reference = KMeans(4, n_init=10, random_state=0).fit(X)
    assert_allclose(model.inertia_, reference.inertia_, rtol=0.05)


BAD_FITS = [
    ({"n_clusters": 0}, {}, "n_clusters"),
    ({"n_clusters": 2.5}, {}, "n_clusters"),
    ({"n_clusters": 31}, {}, r"n_samples=30 should be >= n_clusters=31"),
    ({"n_init": 0}, {}, "n_init"),
    ({"max_iter": 0}, {}, "max_iter"),
    ({"tol": -1.0}, {}, "tol"),
    ({"init": "best"}, {}, "init"),
    ({"init": np.zeros((2, 3))}, {}, r"shape \(2, 3\), expected .*\(3, 3\)"),
    ({"init": np.zeros((3, 2))}, {}, r"shape \(3, 2\), expected .*\(3, 3\)"),
    ({"init": np.full((3, 3), np.nan)}, {}, "NaN"),
    ({}, {"X": np.full((30, 3), np.nan)}, "NaN"),
    ({}, {"X": np.full((30, 3), np.inf)}, "infinity"),
    ({}, {"X": np.zeros(30)}, "1D array"),
    ({}, {"X": np.full((30, 3), 1e160)}, r"is 1e\+160, expected"),
    ({}, {"X": np.full((30, 3), 1e-160)}, "is 1e-160, expected"),
    ({}, {"sensitive_features": np.zeros(29)}, "29 rows, expected 30"),
    ({}, {"sensitive_features": [None] * 30}, "30 missing values"),
    ({}, {"sample_weight": np.full(30, -1.0)}, "30 negative values"),
    ({}, {"sample_weight": np.zeros(30)}, "zero"),
    ({}, {"sample_weight": np.ones(29)}, "sample_weight"),
]


@pytest.mark.parametrize(("parameters", "data", "match"), BAD_FITS)
def test_bad_input_raises_with_its_reason(parameters, data, match):
    X, groups = make_data(0, n=30)
    arguments = {"X": X, "sensitive_features": groups, **data}
    model = FairKMeans(**{"n_clusters": 3, **parameters})
    with pytest.raises(ValueError, match=match):
        model.fit(**arguments)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ({"sensitive_features": None}, "was fitted with 3 groups"),
        ({"sensitive_features": np.full(30, 8)}, r"8 \(30 rows\)"),
        ({"sensitive_features": np.zeros(3)}, "3 rows, expected 30"),
        ({"X": np.zeros((30, 2))}, "2 features"),
    ],
)
@pytest.mark.parametrize("method", ["predict", "score"])
def test_bad_new_rows_raise_with_their_reason(method, data, match):
    X, groups = make_data(0, n=30)
    model = fit(X, groups, 3)
    with pytest.raises(ValueError, match=match):
        getattr(model, method)(**{"X": X, "sensitive_features": groups, **data})


def test_random_centres_may_be_rows_without_weight_where_too_few_have_some():
    X = np.arange(8.0).reshape(-1, 1)
    weights = np.array([1.0, 2.0, 0, 0, 0, 0, 0, 0])
    model = FairKMeans(3, init="random", n_init=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(X, sensitive_features=list("abababab"), sample_weight=weights)
    assert set(model.labels_) == {0, 1, 2}


@pytest.mark.parametrize("options", [{}, {"tolerance": 0.1}, {"init": "random"}])
def test_single_precision_is_kept_and_changes_no_label(options):
    X, groups = make_data(0, n=600)
    X = X.astype(np.float32)
    single, double = (fit(rows, groups, **options) for rows in (X, X.astype(np.float64)))
    assert_array_equal(single.labels_, double.labels_)
    assert_allclose(single.inertia_, double.inertia_)
    assert_array_equal(single.predict(X, sensitive_features=groups), single.labels_)


def test_the_value_of_the_linear_program_is_the_cost_s_lower_bound():
    X, groups = make_data(1)
    model = fit(X, groups)
    distances = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    program = fair_assign(distances, sensitive_features=groups).lp_value
    assert_allclose(model.lp_value_, program, rtol=1e-6)


@pytest.mark.parametrize(("n", "n_clusters"), first_is_fast([(300, 200), (2000, 100)]))
def test_many_clusters_are_exactly_fair(n, n_clusters):
    X, groups = make_data(0, n=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)  # groups smaller than the clusters
        model = fit(X, groups, n_clusters, n_init="auto")
    assert_proportional(model.labels_, groups)
    assert len(np.unique(model.labels_)) == n_clusters
