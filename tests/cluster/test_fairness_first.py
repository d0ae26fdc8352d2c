"""Fairness-first clustering: what each stage promises, against recomputation and brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from fairanchor._kernels._fairness_first import swap_change
from fairanchor.cluster._base import WeightedRows
from fairanchor.cluster._fairness_first import (
    FairnessFirstClustering,
    _combine,
    _improve_once,
    _refine,
    _relax_once,
    _viable_sizes,
)
from fairanchor.exceptions import FairnessWarning
from fairanchor.metrics import balance_score, dataset_balance, relative_balance_score
from tiers import first_is_fast


def mixture(seed, n=150, n_groups=3, k=4, shift=2.0):
    rng = np.random.default_rng(seed)
    shares = np.arange(n_groups, 0, -1) / np.arange(1, n_groups + 1).sum()
    group = np.concatenate([np.repeat(np.arange(n_groups), k), rng.choice(n_groups, n, p=shares)])[
        :n
    ]
    X = rng.normal(size=(n, 3)) + 3 * rng.normal(size=(k, 3))[rng.integers(0, k, n)]
    return X + shift * rng.normal(size=(n_groups, 3))[group], group


def sse(X, labels, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    cost = 0.0
    for l in np.unique(labels):
        w = weights[labels == l]
        center = np.average(X[labels == l], axis=0, weights=w)
        cost += w @ ((X[labels == l] - center) ** 2).sum(axis=1)
    return cost


def some_rows(seed, n=24, n_groups=2, k=3, *, weighted=False):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_groups
    weights = rng.uniform(0.5, 2.0, n) if weighted else np.ones(n)
    labels = rng.permutation(np.arange(n) % k).astype(np.int32)
    return WeightedRows(rng.normal(size=(n, 2)), codes, weights, k, n_groups), labels


# The promises of the stages.


@pytest.mark.parametrize("seed", first_is_fast(range(6)))
@pytest.mark.parametrize("weighted", [False, True])
def test_cost_is_that_of_the_labels_and_falls_with_refinement_steps(seed, weighted):
    X, group = mixture(seed)
    weights = np.random.default_rng(seed).uniform(0.2, 3.0, len(X)) if weighted else None
    rows = WeightedRows(X, group, np.ones(len(X)) if weights is None else weights, 4, 3)
    start = _combine(rows, 2, seed)
    costs = [rows.cost(_refine(rows, start, n_steps)[0]) for n_steps in range(1, 8)]
    assert (np.diff(costs) <= 1e-9 * costs[0]).all()
    model = FairnessFirstClustering(4, balance_threshold=0.8, random_state=0)
    model.fit(X, sensitive_features=group, sample_weight=weights)
    assert_allclose(model.inertia_, sse(X, model.labels_, weights))


@pytest.mark.parametrize("seed", first_is_fast(range(6)))
@pytest.mark.parametrize("n_groups", [2, 5])
def test_cells_are_within_one_row_of_proportional(seed, n_groups):
    X, group = mixture(seed, n_groups=n_groups)
    model = FairnessFirstClustering(4, random_state=0).fit(X, sensitive_features=group)
    sizes, group_sizes = model.counts_.sum(axis=1), np.bincount(group)
    assert_array_equal(model.counts_.sum(axis=0), group_sizes)
    assert (np.abs(model.counts_ - np.outer(sizes, group_sizes) / len(X)) < 1).all()
    # The sizes are those of the combined groups, unless a cluster had to be enlarged.
    rows = WeightedRows(X, group, np.ones(len(X)), 4, n_groups)
    combined = np.bincount(_combine(rows, 10, np.random.RandomState(0).randint(2**31 - 1)))
    assert_array_equal(sizes, _viable_sizes(combined, group_sizes))


def test_refined_weights_are_within_one_row_of_proportional():
    X, group = mixture(3)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    rows = WeightedRows(X, group, weights, 4, 3)
    start = _combine(rows, 2, 0)
    before, after = rows.masses(start), rows.masses(_refine(rows, start, 20)[0])
    targets = np.outer(before.sum(axis=1), before.sum(axis=0)) / weights.sum()
    assert np.abs(after - targets).max() <= weights.max()


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", first_is_fast(range(3)))
def test_balance_keeps_the_threshold(threshold, weighted, seed):
    X, group = mixture(seed, n=200)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, len(X)) if weighted else None
    model = FairnessFirstClustering(4, balance_threshold=threshold, random_state=0)
    model.fit(X, sensitive_features=group, sample_weight=weights)
    codes = np.unique(group, return_inverse=True)[1]
    rows = WeightedRows(X, codes, np.ones(len(X)) if weights is None else weights, 4, 3)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    counts = rows.masses(_refine(rows, _combine(rows, 10, seed), 20)[0])
    refined = (counts.min(axis=1) / counts.max(axis=1)).min()
    wanted = threshold * dataset_balance(group, sample_weight=weights)
    assert model.balance_ >= min(wanted, refined) * (1 - 1e-9)
    assert_allclose(
        model.balance_,
        balance_score(model.labels_, sensitive_features=group, sample_weight=weights),
    )


@pytest.mark.parametrize("seed", first_is_fast(range(4)))
@pytest.mark.parametrize("n_groups", [2, 4])
def test_default_is_fairer_than_plain_kmeans(seed, n_groups):
    rng = np.random.default_rng(seed)
    clusters = rng.integers(0, 4, 400)
    X = rng.normal(size=(400, 3)) + 5 * rng.normal(size=(4, 3))[clusters]
    # Mild skew: plain k-means keeps most of the balance, and a lower threshold changes nothing.
    group = (rng.integers(0, n_groups, 400) + (rng.uniform(size=400) < 0.1) * clusters) % n_groups
    plain = KMeans(4, n_init=4, random_state=0).fit(X)
    model = FairnessFirstClustering(4, random_state=0).fit(X, sensitive_features=group)
    fair, unfair = (
        relative_balance_score(labels, sensitive_features=group)
        for labels in (model.labels_, plain.labels_)
    )
    assert fair > 0.95
    assert fair > unfair


def test_a_lower_threshold_buys_a_lower_cost():
    X, group = mixture(1, n=300, shift=1.0)
    costs = {
        threshold: FairnessFirstClustering(4, balance_threshold=threshold, random_state=0)
        .fit(X, sensitive_features=group)
        .inertia_
        for threshold in (0.0, 0.5, 1.0)
    }
    assert costs[0.0] < costs[0.5] < costs[1.0]


@pytest.mark.parametrize("seed", first_is_fast(range(4)))
def test_one_group_is_kmeans_and_refinement_does_nothing(seed):
    X, _ = mixture(seed)
    model = FairnessFirstClustering(4, balance_threshold=1.0, n_init=10, random_state=seed)
    model.fit(X, sensitive_features=np.zeros(len(X)))
    plain = KMeans(4, n_init=10, random_state=np.random.RandomState(seed).randint(2**31 - 1))
    plain.fit(X)
    assert_array_equal(np.sort(model.counts_.ravel()), np.sort(np.bincount(plain.labels_)))
    assert model.inertia_ <= plain.inertia_ * (1 + 1e-12)


def test_small_problems_reach_the_brute_force_optimum_of_exact_balance():
    """Two far blobs with both groups in each: the best proportional labelling is found."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (4, 2)), rng.normal(8, 1, (4, 2))])
    group = np.array([0, 0, 1, 1] * 2)
    best = min(
        sse(X, np.array(labels))
        for labels in itertools.product([0, 1], repeat=8)
        if np.bincount(np.array(labels) * 2 + group, minlength=4).tolist() == [2, 2, 2, 2]
    )
    model = FairnessFirstClustering(2, balance_threshold=1.0, random_state=0)
    assert_allclose(model.fit(X, sensitive_features=group).inertia_, best)


# The kernels of the local search.


@given(seed=st.integers(0, 10**6))
def test_swap_change_is_the_difference_of_the_costs(seed):
    rows, labels = some_rows(seed, weighted=True)
    a, b = labels[0], (labels[0] + 1) % 3
    partner = np.flatnonzero(labels == b)[0]
    centers = rows.centers(labels)
    totals = rows.masses(labels).sum(axis=1)
    weight, other = rows.weights[0], rows.weights[partner]
    change, _ = swap_change(
        rows.X[0], rows.X[partner], weight, other, centers[a], centers[b],
        totals[a], totals[b],
    )  # fmt: skip
    swapped = labels.copy()
    swapped[0], swapped[partner] = b, a
    expected = sse(rows.X, swapped, rows.weights) - sse(rows.X, labels, rows.weights)
    assert_allclose(change, expected, atol=1e-9)


@pytest.mark.parametrize("seed", first_is_fast(range(5)))
@pytest.mark.parametrize("n_groups", [1, 2, 3])
def test_after_improvement_no_pair_of_a_group_is_worth_swapping(seed, n_groups):
    rows, labels = some_rows(seed, n=30, n_groups=n_groups)
    before = rows.masses(labels)
    costs = [sse(rows.X, labels)]
    while _improve_once(rows, labels):
        costs.append(sse(rows.X, labels))
    assert (np.diff(costs) < 0).all()
    assert_array_equal(rows.masses(labels), before)
    for i, j in itertools.combinations(range(30), 2):
        if rows.codes[i] == rows.codes[j] and labels[i] != labels[j]:
            swapped = labels.copy()
            swapped[i], swapped[j] = labels[j], labels[i]
            assert sse(rows.X, swapped) >= costs[-1] - 1e-9


@pytest.mark.parametrize("seed", first_is_fast(range(5)))
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("least_balance", [0.0, 0.4, 0.9])
def test_after_relaxation_no_allowed_move_is_worth_making(seed, weighted, least_balance):
    rows, labels = some_rows(seed, n=30, weighted=weighted)

    def balance(labels):
        masses = rows.masses(labels)
        return masses.min(axis=1) / masses.max(axis=1)

    start = balance(labels).min()
    while _relax_once(least_balance, rows, labels):
        pass
    assert balance(labels).min() >= min(start, least_balance) - 1e-12
    reached = sse(rows.X, labels, rows.weights)
    for i, l in itertools.product(range(30), range(3)):
        moved = labels.copy()
        moved[i] = l
        if l == labels[i] or np.count_nonzero(labels == labels[i]) == 1:
            continue
        concerned = [labels[i], l]
        if balance(moved)[concerned].min() >= least_balance:
            assert sse(rows.X, moved, rows.weights) >= reached - 1e-9


@pytest.mark.parametrize("seed", first_is_fast(range(5)))
def test_weighted_swaps_never_lower_the_balance(seed):
    rows, labels = some_rows(seed, n=40, weighted=True)
    masses = rows.masses(labels)
    before, cost = (masses.min(axis=1) / masses.max(axis=1)).min(), rows.cost(labels)
    while _improve_once(rows, labels):
        pass
    masses = rows.masses(labels)
    assert (masses.min(axis=1) / masses.max(axis=1)).min() >= before - 1e-12
    assert rows.cost(labels) <= cost


@given(seed=st.integers(0, 10**6))
def test_viable_sizes_leave_room_for_every_group_that_can_be_everywhere(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 60, rng.integers(1, 7))
    n, k = sizes.sum(), len(sizes)
    n_groups = rng.integers(1, 5)
    group_sizes = np.bincount(rng.choice(n_groups, n, p=rng.dirichlet(np.ones(n_groups))))
    viable = _viable_sizes(sizes, group_sizes)
    assert viable.sum() == n
    assert (viable > 0).all()
    everywhere = group_sizes[group_sizes >= k]
    if len(everywhere) and k * -(-n // everywhere.min()) <= n:
        assert (viable * everywhere.min() >= n).all()
    if len(everywhere) and (sizes * everywhere.min() >= n).all():
        assert_array_equal(viable, sizes)


# Invariances.


def test_equal_weights_are_no_weights():
    X, group = mixture(9)
    model = FairnessFirstClustering(3, random_state=0)
    plain = model.fit_predict(X, sensitive_features=group)
    cost = model.inertia_
    heavy = np.full(len(X), 4.0)
    assert_array_equal(model.fit_predict(X, sensitive_features=group, sample_weight=heavy), plain)
    assert_allclose(model.inertia_, 4 * cost)


# Edges, and what is said about them.


def test_a_far_outlier_does_not_become_a_cluster_without_a_group():
    X, group = mixture(0, n=100, n_groups=2)
    X[0] = 1e6
    model = FairnessFirstClustering(4, balance_threshold=1.0, random_state=0)
    assert model.fit(X, sensitive_features=group).balance_ > 0


def test_a_group_missing_for_want_of_room_warns():
    X, _ = mixture(0, n=10)
    group = np.array([0] * 5 + [1] * 5)
    weights = np.r_[100.0, np.ones(9)]
    model = FairnessFirstClustering(5, random_state=0)
    with pytest.warns(FairnessWarning, match="The balance is 0"):
        model.fit(X, sensitive_features=group, sample_weight=weights)


def test_groups_of_one_row_are_spread_over_the_clusters():
    X, _ = mixture(0, n=300)
    model = FairnessFirstClustering(3, balance_threshold=1.0, random_state=0)
    with pytest.warns(FairnessWarning, match="300 of 300 groups"):
        model.fit(X, sensitive_features=np.arange(300))
    assert model.counts_.sum(axis=1).min() > 10
    # Every table of zeros and ones is as proportional as any: the first need not be given up.
    rows = WeightedRows(X, np.arange(300), np.ones(300), 3, 300)
    combined = _combine(rows, 10, np.random.RandomState(0).randint(2**31 - 1))
    assert model.inertia_ <= rows.cost(combined)


def test_an_interrupted_search_warns():
    X, group = mixture(1, n=300)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 sweeps"):
        FairnessFirstClustering(4, balance_threshold=0.5, max_iter=1, random_state=0).fit(
            X, sensitive_features=group
        )


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"balance_threshold": 1.1}, "'balance_threshold' parameter"),
        ({"balance_threshold": -0.1}, "'balance_threshold' parameter"),
        ({"n_init": 0}, "'n_init' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
    ],
)
def test_bad_parameters_are_refused(params, match):
    X, group = mixture(0, n=20)
    with pytest.raises(ValueError, match=match):
        FairnessFirstClustering(**({"n_clusters": 3} | params)).fit(X, sensitive_features=group)
