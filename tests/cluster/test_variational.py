"""Variational fair clustering against Lloyd, dense formulas and brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning

from fairanchor._kernels._variational import polish_labels
from fairanchor.cluster._variational import OBJECTIVES as OBJECTIVE_CLASSES
from fairanchor.cluster._variational import (
    CutObjective,
    Penalty,
    VariationalFairClustering,
    bound_updates,
)
from fairanchor.metrics import relative_balance_score
from tiers import first_is_fast

FLOOR = 1e-20
OBJECTIVES = ["kmeans", "kmedian", "ncut"]


def four_blobs(seed, *, unequal=False, standardise=True):
    """The publication's synthetic sets: two left, two right; groups are below and above."""
    rng = np.random.default_rng(seed)
    sizes = [150, 150, 50, 50] if unequal else [100] * 4
    top, sigma = (3.5, 0.13) if unequal else (5.0, 0.1)
    centers = [(1.0, 1.0), (2.1, 1.0), (1.0, top), (2.1, top)]
    X = np.concatenate([rng.normal(c, sigma, (n, 2)) for c, n in zip(centers, sizes, strict=True)])
    if standardise:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, np.repeat(["low", "low", "up", "up"], sizes)


def mixture(seed, n=120, n_groups=3, k=4):
    rng = np.random.default_rng(seed)
    group = np.concatenate([np.repeat(np.arange(n_groups), k), rng.integers(0, n_groups, n)])[:n]
    X = rng.normal(size=(n, 3)) + 2 * rng.normal(size=(k, 3))[rng.integers(0, k, n)]
    return X + rng.normal(size=(n_groups, 3))[group], group


def divergence(labels, group, weights):
    """Sum over clusters of KL(shares of the data || shares in the cluster); no zero cells."""
    shares = {r: weights[group == r].sum() / weights.sum() for r in np.unique(group)}
    total = 0.0
    for l in np.unique(labels):
        inside = weights[labels == l].sum()
        for r, share in shares.items():
            part = weights[(labels == l) & (group == r)].sum() / inside
            total += share * np.log(share / part)
    return total


def clustering_term(model, X, weights):
    distances = np.linalg.norm(X - model.cluster_centers_[model.labels_], axis=1)
    if model.objective == "kmeans":
        return weights @ distances**2
    assert model.objective == "kmedian"
    return weights @ distances


# What the publication reports, and what it does not survive.


@pytest.mark.parametrize("strength", [60, 80, 100])
@pytest.mark.parametrize(("unequal", "balance"), [(False, 1.0), (True, 1 / 3)])
@pytest.mark.parametrize("seed", first_is_fast(range(3)))
def test_synthetic_sets_become_perfectly_fair(strength, unequal, balance, seed):
    X, group = four_blobs(seed, unequal=unequal)
    model = VariationalFairClustering(2, fairness_weight=strength / len(X), random_state=seed)
    model.fit(X, sensitive_features=group)
    assert_allclose(model.balance_, balance)
    assert_allclose(model.fairness_error_, 0.0, atol=1e-12)


@pytest.mark.parametrize("strength", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("unequal", [False, True])
def test_a_small_weight_leaves_the_groups_apart(strength, unequal):
    X, group = four_blobs(0, unequal=unequal, standardise=False)
    model = VariationalFairClustering(
        2, fairness_weight=strength / len(X), polish=False, random_state=0
    )
    assert model.fit(X, sensitive_features=group).balance_ == 0
    # Polishing may put single rows where a group is missing: their price is finite.
    assert model.set_params(polish=True).fit(X, sensitive_features=group).balance_ < 0.01


@pytest.mark.parametrize("strength", [1e3, 1e5, 1e8, 1e12])
def test_a_huge_weight_does_not_collapse(strength):
    X, group = four_blobs(1)
    model = VariationalFairClustering(2, fairness_weight=strength / len(X), random_state=0)
    assert model.fit(X, sensitive_features=group).balance_ == 1.0


@pytest.mark.parametrize("seed", first_is_fast(range(4)))
def test_fairness_does_not_get_worse_from_a_large_to_a_huge_weight(seed):
    X, group = mixture(seed, n=300)
    errors = [
        VariationalFairClustering(4, fairness_weight=weight, random_state=0)
        .fit(X, sensitive_features=group)
        .fairness_error_
        for weight in (0.0, 10.0, 1e3, 1e6, 1e10)
    ]
    assert errors[1] < errors[0]
    # What is left is the rounding of counts: half a row in each of the 12 cells or so.
    assert max(errors[2:]) < 2e-3


def test_the_cut_with_the_published_weight_is_fair():
    X, group = four_blobs(0)
    model = VariationalFairClustering(
        2, objective="ncut", fairness_weight=10.0, random_state=0
    ).fit(X, sensitive_features=group)
    assert model.balance_ == 1.0
    assert_allclose(model.energy_path_[-1], 0.0, atol=1e-9)


# Lloyd's algorithm is the special case.


def first_centers(X, n_clusters, seed):
    """The centres of the first run."""
    random_state = np.random.RandomState(seed)
    return kmeans_plusplus(X, n_clusters, random_state=random_state)[0]


@pytest.mark.parametrize("seed", first_is_fast(range(5)))
@pytest.mark.parametrize("polish", [True, False])
def test_zero_weight_is_lloyd_from_the_same_start(seed, polish):
    X, group = mixture(seed)
    start = first_centers(X, 4, seed)
    ours = VariationalFairClustering(
        4, fairness_weight=0.0, n_init=1, tol=0.0, polish=polish, random_state=seed
    )
    ours.fit(X, sensitive_features=group)
    lloyd = KMeans(4, init=start, n_init=1, tol=0.0, algorithm="lloyd").fit(X)
    assert_array_equal(ours.labels_, lloyd.labels_)
    assert_allclose(ours.cluster_centers_, lloyd.cluster_centers_)
    assert_allclose(ours.energy_path_[-1], lloyd.inertia_)


def test_one_group_is_lloyd_whatever_the_weight():
    X, _ = mixture(3)
    one = np.zeros(len(X))
    ours = VariationalFairClustering(4, fairness_weight=50.0, n_init=1, tol=0.0, random_state=3)
    ours.fit(X, sensitive_features=one)
    lloyd = KMeans(4, init=first_centers(X, 4, 3), n_init=1, tol=0.0).fit(X)
    assert_array_equal(ours.labels_, lloyd.labels_)
    assert ours.fairness_error_ == 0


# The contract: the energy.


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("fairness_weight", [0.0, 0.25, "auto", 1e4])
def test_energy_never_rises_and_belongs_to_the_labels(objective, fairness_weight):
    X, group = mixture(1, n=90)
    weights = np.random.default_rng(0).uniform(0.5, 3.0, len(X))
    model = VariationalFairClustering(
        3, objective=objective, fairness_weight=fairness_weight, random_state=0
    ).fit(X, sensitive_features=group, sample_weight=weights)
    assert len(model.energy_path_) == model.n_iter_
    assert (np.diff(model.energy_path_) < 0).all()
    error = divergence(model.labels_, group, weights)
    assert_allclose(model.fairness_error_, error)
    penalty = model.fairness_weight_ * weights.sum() * error
    if objective == "ncut":
        term = weights.sum() * dense_cut(X, model.labels_, weights, model.n_neighbors)
    else:
        term = clustering_term(model, X, weights)
    assert_allclose(model.energy_path_[-1], term + penalty)


@given(seed=st.integers(0, 10**6), log_strength=st.floats(-3, 9))
def test_bound_updates_never_raise_the_soft_energy(seed, log_strength):
    rng = np.random.default_rng(seed)
    n, k, n_groups = rng.integers(5, 60), rng.integers(1, 5), rng.integers(1, 4)
    costs = rng.exponential(rng.choice([0.01, 1.0, 300.0]), size=(n, k))
    codes = rng.integers(0, n_groups, n)
    weights = rng.uniform(0.1, 4.0, n)
    codes = np.unique(codes, return_inverse=True)[1]
    shares = np.bincount(codes, weights) / weights.sum()
    penalty = Penalty(codes, weights, shares, 10.0**log_strength, FLOOR)
    sharpness, prices, energies = bound_updates(costs, penalty, 1.0, 2.0, 300, 1e-9)
    assert (np.diff(energies) <= 0).all()
    S = dense_soft_labels(costs, codes, sharpness, prices)
    expected = soft_energy(S, costs, weights, codes, shares, 10.0**log_strength)
    # The divergences are differences of numbers near one, times the strength.
    rounding = 5e-15 * 10.0**log_strength
    assert_allclose(energies[-1], expected, rtol=1e-7, atol=rounding)


def dense_soft_labels(costs, codes, sharpness, prices):
    scores = -sharpness * costs - prices.T[codes]
    S = np.exp(scores - scores.max(axis=1, keepdims=True))
    return S / S.sum(axis=1, keepdims=True)


def soft_energy(S, costs, weights, codes, shares, strength):
    masses = np.array([(S * weights[:, None])[codes == r].sum(axis=0) for r in range(len(shares))])
    masses = np.maximum(masses, FLOOR * shares[:, None])
    divergences = shares[:, None] * np.log(shares[:, None] * masses.sum(axis=0) / masses)
    return weights @ (S * costs).sum(axis=1) + strength * divergences.sum()


def test_bound_updates_equal_the_published_multiplicative_form():
    """A weak penalty, so that the step size is the given one: S <- S exp(-(a + lambda b)/L)."""
    rng = np.random.default_rng(0)
    n, k, strength, lipschitz = 40, 3, 2.0, 2.0
    costs, codes = rng.uniform(0, 3, size=(n, k)), np.arange(n) % 2
    shares = np.array([0.5, 0.5])
    penalty = Penalty(codes, np.ones(n), shares, strength, FLOOR)
    sharpness, prices, energies = bound_updates(costs, penalty, 1.0, lipschitz, 7, 0.0)
    S = np.exp(-costs)
    S /= S.sum(axis=1, keepdims=True)
    for _ in range(7):
        b = np.zeros((n, k))
        for r in range(2):
            member = (codes == r)[:, None]
            b += shares[r] / S.sum(axis=0) - shares[r] * member / (S * member).sum(axis=0)
        S *= np.exp(-(costs + strength * b) / lipschitz)
        S /= S.sum(axis=1, keepdims=True)
    assert len(energies) == 8
    assert_allclose(dense_soft_labels(costs, codes, sharpness, prices), S, atol=1e-12)


# Rounding.


@pytest.mark.parametrize("strength", [0.0, 3.0, 1e4])
def test_polished_labels_cannot_be_improved_by_one_move(strength):
    rng = np.random.default_rng(2)
    n, k = 30, 3
    costs, codes = rng.uniform(0, 2, (n, k)), np.arange(n) % 2
    weights = rng.uniform(0.5, 2.0, n)
    shares = np.bincount(codes, weights) / weights.sum()
    labels = (np.arange(n) % k).astype(np.int32)

    def energy(labels):
        hard = np.eye(k)[labels]
        floor = FLOOR * shares.min()
        masses = np.array([(hard * weights[:, None])[codes == r].sum(axis=0) for r in range(2)])
        parts = np.maximum(masses, floor) / masses.sum(axis=0)
        penalty = (shares[:, None] * np.log(shares[:, None] / parts)).sum()
        return weights @ costs[np.arange(n), labels] + strength * penalty

    before = energy(labels)
    polish_labels(np.arange(n), costs, weights, codes, shares, strength, FLOOR, 100, labels)
    reached = energy(labels)
    assert reached < before
    for i in range(n):
        for l in range(k):
            other = labels.copy()
            other[i] = l
            if len(np.unique(other)) == k:
                assert energy(other) >= reached - 1e-9 * abs(reached)


def test_equal_rows_are_shared_out_though_their_soft_labels_tie():
    X = np.repeat([[0.0], [1.0], [10.0], [11.0]], 20, axis=0)
    group = np.repeat(["a", "b"], 40)
    model = VariationalFairClustering(2, fairness_weight=1e3, random_state=0)
    assert model.fit(X, sensitive_features=group).balance_ == 1.0


# Weights, names, units.


@pytest.mark.parametrize("objective", ["kmeans", "kmedian"])
@pytest.mark.parametrize("fairness_weight", [0.3, 30.0])
def test_integer_weights_are_repetitions(objective, fairness_weight):
    X, group = mixture(5, n=60)
    weights = np.random.default_rng(1).integers(1, 4, len(X))
    model = VariationalFairClustering(3, objective=objective, polish=False)
    rows = np.repeat(np.arange(len(X)), weights)

    def run(rows, weights):
        penalty = Penalty.of(group[rows], weights.astype(float), fairness_weight)
        return model._run(OBJECTIVE_CLASSES[objective](X[rows], penalty, 3, 20), X[:3])

    by_weight, by_rows = run(np.arange(len(X)), weights), run(rows, np.ones(len(rows)))
    assert_array_equal(by_weight.labels[rows], by_rows.labels)
    assert_allclose(by_rows.energies, by_weight.energies)


@pytest.mark.parametrize("scale", [2.0**-150, 2.0**-10, 2.0**150])
def test_units_do_not_matter_if_the_weight_follows(scale):
    X, group = mixture(8)
    model = VariationalFairClustering(3, fairness_weight=2.0, random_state=0)
    plain = model.fit_predict(X, sensitive_features=group)
    model.set_params(fairness_weight=2.0 * scale**2)
    assert_array_equal(model.fit_predict(X * scale, sensitive_features=group), plain)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("scale", [2.0**-150, 8.0])
def test_the_default_weight_follows_the_unit_of_the_rows(objective, scale):
    X, group = mixture(8)
    model = VariationalFairClustering(3, objective=objective, random_state=0)
    plain = model.fit_predict(X, sensitive_features=group)
    assert_array_equal(model.fit_predict(X * scale, sensitive_features=group), plain)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("n_groups", [2, 4])
def test_the_default_weight_mixes_groups_that_live_apart(objective, n_groups):
    rng = np.random.default_rng(n_groups)
    group = rng.integers(0, n_groups, 300)
    offsets = 8.0 * np.eye(n_groups, 5)
    X = rng.normal(size=(300, 5)) + 2.0 * rng.normal(size=(3, 5))[rng.integers(0, 3, 300)]
    X = X + offsets[group]
    model = VariationalFairClustering(3, objective=objective, n_init=2, random_state=0)
    assert relative_balance(model, X, group) > 0.6
    assert relative_balance(model.set_params(fairness_weight=0.0), X, group) < 0.1


def relative_balance(model, X, group):
    labels = model.fit_predict(X, sensitive_features=group)
    return relative_balance_score(labels, sensitive_features=group)


# Parts of the objectives.


def dense_cut(X, labels, weights, n_neighbors):
    """Normalised cut of the neighbour graph, from its definition."""
    n = len(X)
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    np.fill_diagonal(distances, -1.0)
    W = np.zeros((n, n))
    for i in range(n):
        W[i, np.argsort(distances[i])[:n_neighbors]] = 1.0
    W = (W + W.T) / 2 * np.outer(weights, weights)
    cut = 0.0
    for l in np.unique(labels):
        inside = labels == l
        cut += W[inside][:, ~inside].sum() / W[inside].sum()
    return cut


def test_costs_of_the_cut_are_its_gradient():
    X, group = mixture(4, n=40)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    objective = CutObjective(X, Penalty.of(group, weights, 1.0), 3, 8)
    labels = np.arange(len(X)) % 3
    W = objective.links.toarray()

    def relaxed_cut(S):
        return sum(1 - s @ W @ s / (W.sum(axis=1) @ s) for s in S.T)

    S = np.eye(3)[labels]
    gradient = np.empty_like(S)
    for cell in np.ndindex(S.shape):
        step = np.zeros_like(S)
        step[cell] = 1e-6
        gradient[cell] = (relaxed_cut(S + step) - relaxed_cut(S - step)) / 2e-6
    expected = 3 + gradient * weights.sum() / weights[:, None]
    assert_allclose(objective.costs(labels), expected, atol=1e-6)
    # And their weighted sum at the labels is the cut itself.
    at_labels = weights @ objective.costs(labels)[np.arange(len(X)), labels]
    assert_allclose(at_labels, weights.sum() * relaxed_cut(S))
    assert_allclose(objective.value(labels, labels), weights.sum() * relaxed_cut(S))


@pytest.mark.parametrize("seed", first_is_fast(range(4)))
def test_centres_of_the_median_objective_have_the_least_sum_of_distances(seed):
    X, group = mixture(seed)
    weights = np.random.default_rng(seed).integers(1, 4, len(X)).astype(float)
    model = VariationalFairClustering(3, objective="kmedian", random_state=0)
    model.fit(X, sensitive_features=group, sample_weight=weights)
    for label, center in enumerate(model.cluster_centers_):
        members = model.labels_ == label
        sums = cdist(X[members], X[members]) @ weights[members]
        of_center = cdist([center], X[members])[0] @ weights[members]
        assert_allclose(of_center, sums.min(), rtol=1e-12)


# What goes wrong is said.


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_all_rows_equal_gives_all_clusters_and_a_warning(objective):
    model = VariationalFairClustering(3, objective=objective, random_state=0)
    with pytest.warns(ConvergenceWarning, match="2 of n_clusters=3 clusters lost all rows"):
        model.fit(np.ones((30, 2)), sensitive_features=np.arange(30) % 2)
    assert_array_equal(np.unique(model.labels_), [0, 1, 2])


def test_an_interrupted_run_warns():
    X, group = mixture(2)
    model = VariationalFairClustering(4, max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model.fit(X, sensitive_features=group)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"fairness_weight": -0.1}, "'fairness_weight' parameter"),
        ({"fairness_weight": 1e101}, r"range \[0.0, 1e\+100\]"),
        ({"objective": "kmedoids"}, "'objective' parameter"),
        ({"n_neighbors": 1}, "'n_neighbors' parameter"),
    ],
)
def test_bad_parameters_are_refused(params, match):
    X, group = mixture(0, n=20)
    model = VariationalFairClustering(**({"n_clusters": 3} | params))
    with pytest.raises(ValueError, match=match):
        model.fit(X, sensitive_features=group)
