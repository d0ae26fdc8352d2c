"""The engine of fair k-means: each step against loops, the whole against what it promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

from fairanchor.clusterers import _fair_lloyd as module
from fairanchor.clusterers._fair_lloyd import (
    assign_to_centers,
    cost_of,
    distances_to,
    fair_lloyd,
    means_of,
    plain_lloyd,
    proportional_targets,
)
from fairanchor.rows import MemoryRows


def make_rows(seed=0, n=120, n_groups=3, *, weights=None, n_jobs=None):
    """Rows whose groups live in different places, so that fairness costs something."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % n_groups)
    X = rng.normal(size=(n, 3)) + 2.0 * rng.normal(size=(n_groups, 3))[codes]
    return MemoryRows(X, codes, n_groups, weights=weights, n_jobs=n_jobs)


def random_weights(seed, n):
    return np.random.default_rng(seed + 1000).uniform(0.2, 3.0, size=n)


def table_of(labels, rows, n_clusters):
    table = np.zeros((n_clusters, rows.n_groups))
    for label, code, weight in zip(labels, rows.group_codes, rows.weights, strict=True):
        table[label, code] += weight
    return table


def slow_cost(rows, labels, centers):
    return sum(
        w * ((x - centers[l]) ** 2).sum()
        for x, w, l in zip(rows.X, rows.weights, labels, strict=True)
    )


# Single steps


@pytest.mark.parametrize("n", [1, 50, 9000])  # below, and above, one block of rows
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_steps_equal_their_formulas(n, n_jobs):
    rows = make_rows(n=n, n_groups=1, weights=random_weights(0, n), n_jobs=n_jobs)
    rng = np.random.default_rng(1)
    centers = rng.normal(size=(4, 3))
    labels = rng.integers(0, 3, size=n).astype(np.int32)  # nobody is in cluster 3
    distances = distances_to(rows, centers)
    assert_allclose(distances, ((rows.X[:, None] - centers) ** 2).sum(axis=2))
    assert_allclose(cost_of(rows, labels, centers), rows.weights @ distances[range(n), labels])
    means = means_of(rows, labels, centers)
    for l in range(4):
        own = labels == l
        expected = centers[l]
        if own.any():
            expected = np.average(rows.X[own], axis=0, weights=rows.weights[own])
        assert_allclose(means[l], expected)


def test_distances_keep_their_digits_far_from_the_origin():
    X = np.array([[1e8, 1.0], [1e8 + 1, 2.0], [1e8 + 3, -1.0]])
    rows = MemoryRows(X, np.zeros(3, dtype=np.int64), 1)
    assert_array_equal(distances_to(rows, X[:1])[:, 0], [0.0, 2.0, 13.0])


@pytest.mark.parametrize("weighted", [False, True])
def test_plain_lloyd_equals_scikit_learn(weighted):
    rows = make_rows(3, n=300, weights=random_weights(3, 300) if weighted else None)
    start = rows.X[:5].copy()
    centers, _ = plain_lloyd(rows, start, max_iter=300, tol=0.0)
    reference = KMeans(5, init=start, n_init=1, tol=0.0, max_iter=300)
    reference.fit(rows.X, sample_weight=rows.weights)
    assert_allclose(centers, reference.cluster_centers_)


def test_plain_lloyd_moves_no_more_than_max_iter_times():
    rows = make_rows(3, n=300)
    start = rows.X[:5].copy()
    one, _ = plain_lloyd(rows, start, max_iter=1, tol=0.0)
    nearest = ((rows.X[:, None] - start) ** 2).sum(axis=2).argmin(axis=1)
    assert_allclose(one, [rows.X[nearest == l].mean(axis=0) for l in range(5)])


def test_the_assignment_is_the_cheapest_with_its_totals():
    rows = make_rows(5, n=60, n_groups=2)
    centers = rows.X[:4]
    costs = distances_to(rows, centers)
    targets = np.outer([20, 18, 12, 10], rows.group_sizes) / 60
    result = assign_to_centers(rows, centers, -costs, targets)
    assert_array_equal(table_of(result.labels, rows, 4), result.totals)
    least = 0.0
    for r in range(2):
        own = rows.group_codes == r
        places = np.repeat(np.arange(4), result.totals[:, r])
        i, j = linear_sum_assignment(costs[own][:, places])
        least += costs[own][i, places[j]].sum()
    assert_allclose(result.cost, least)
    assert_allclose(result.cost, slow_cost(rows, result.labels, centers))


@pytest.mark.parametrize("min_size", [0.0, 1.0, 7.5, 1e9])
def test_proportional_targets_mirror_the_population_in_whole_sizes(min_size):
    rows = make_rows(n=100)
    targets = proportional_targets(rows, np.array([0.1, 20.3, 79.6]), min_size)
    sizes = targets.sum(axis=1)
    assert_allclose(sizes, np.rint(sizes))
    assert_allclose(targets.sum(axis=0), rows.group_sizes)
    assert_allclose(targets, np.outer(sizes, rows.group_sizes) / 100)
    assert sizes.min() >= min(np.floor(min_size), 33)


# The iterations


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n_groups=st.integers(1, 5),
    n_clusters=st.integers(1, 6),
    weighted=st.booleans(),
    fixed=st.booleans(),
)
def test_the_cost_never_rises_and_is_that_of_the_labels(
    seed, n_groups, n_clusters, weighted, fixed
):
    n = 60
    rows = make_rows(seed, n, n_groups, weights=random_weights(seed, n) if weighted else None)
    rng = np.random.default_rng(seed)
    targets = None
    if fixed:
        sizes = rng.dirichlet(np.full(n_clusters, 3.0))
        targets = np.outer(sizes, rows.group_sizes)
    result = fair_lloyd(
        rows, rows.X[:n_clusters].copy(), max_iter=20, tol=0.0, min_size=0.0, targets=targets
    )
    assert np.all(np.diff(result.cost_path) <= 0)
    assert result.cost == result.cost_path[-1]
    assert_allclose(result.cost, slow_cost(rows, result.labels, result.centers))
    assert len(result.cost_path) <= result.n_iter + 1
    if fixed:
        assert_array_equal(result.targets, targets)
    if not weighted:
        assert_array_equal(table_of(result.labels, rows, n_clusters), result.totals)
        assert np.abs(result.totals - result.targets).max() < 1


def test_without_tolerance_the_labels_are_a_fixed_point():
    """The means of the labels, assigned anew with the same totals, give no cheaper labels."""
    rows = make_rows(11, n=200)
    result = fair_lloyd(rows, rows.X[:4].copy(), max_iter=200, tol=0.0)
    assert result.converged
    centers = means_of(rows, result.labels, result.centers)
    costs = distances_to(rows, centers)
    again = assign_to_centers(rows, centers, -costs, result.targets, result.totals)
    assert_allclose(again.cost, result.cost, rtol=1e-9)


def test_a_cost_of_zero_is_converged():
    rows = MemoryRows(np.repeat([[0.0], [1.0]], 4, axis=0), np.arange(8) % 2, 2)
    result = fair_lloyd(rows, np.array([[0.0], [1.0]]), max_iter=50, tol=0.0)
    assert result.converged
    assert result.cost == 0.0
    assert result.n_iter == 1


def test_a_run_that_is_cut_short_says_so():
    rows = make_rows(4, n=300)
    result = fair_lloyd(rows, rows.X[:5].copy(), max_iter=1, tol=0.0)
    assert not result.converged
    assert result.n_iter == 1
    assert len(result.cost_path) == 2


def test_a_step_whose_new_sizes_are_dearer_keeps_the_sizes(monkeypatch):
    """From the second step on the proposed sizes are absurd, yet the cost goes on falling."""
    rows = make_rows(6, n=200)
    propose = module.free_sizes
    calls = []

    def absurd(costs, *arguments):
        calls.append(1)
        free = propose(costs, *arguments)
        if len(calls) > 1:
            free = module.replace(free, sizes=np.array([197.0, 1.0, 1.0, 1.0]))
        return free

    monkeypatch.setattr(module, "free_sizes", absurd)
    result = fair_lloyd(rows, rows.X[:4].copy(), max_iter=30, tol=1e-6)
    assert len(result.cost_path) > 2
    assert np.all(np.diff(result.cost_path) <= 0)
    assert result.totals.sum(axis=1).max() < 197


def test_free_sizes_beat_sizes_frozen_at_the_start():
    """One blob three times as large as the other: equal sizes have to cut it."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(300, 2)), rng.normal(size=(100, 2)) + 12])
    rows = MemoryRows(X, np.arange(400) % 2, 2)
    start = X[[0, 399]]
    frozen = fair_lloyd(
        rows, start, max_iter=50, tol=0.0, targets=np.outer([200, 200], rows.group_sizes) / 400
    )
    free = fair_lloyd(rows, start, max_iter=50, tol=0.0)
    assert_array_equal(np.sort(free.totals.sum(axis=1)), [100, 300])
    assert free.cost < 0.2 * frozen.cost


def test_no_cluster_is_smaller_than_the_minimum():
    rows = make_rows(2, n=150)
    far = np.vstack([rows.X[:3], np.full((2, 3), 1e3)])  # two centres that nobody wants
    result = fair_lloyd(rows, far, max_iter=20, tol=1e-4, min_size=12.0)
    assert result.totals.sum(axis=1).min() >= 12


@pytest.mark.parametrize("seed", range(10))
def test_integer_weights_cost_no_more_than_repeated_rows(seed):
    """At the same centres and totals the copies of a row may part; this cannot be dearer."""
    rng = np.random.default_rng(seed)
    repeats = rng.integers(1, 4, size=40)
    weighted = make_rows(seed, n=40, n_groups=2, weights=repeats.astype(float))
    repeated = MemoryRows(
        np.repeat(weighted.X, repeats, axis=0), np.repeat(weighted.group_codes, repeats), 2
    )
    centers = weighted.X[:3]
    targets = np.outer(rng.dirichlet(np.ones(3) * 5), repeated.group_sizes)
    whole = assign_to_centers(repeated, centers, -distances_to(repeated, centers), targets)
    # The weights get the very counts to which the targets of the copies were rounded.
    totals = whole.totals.astype(float)
    costs = distances_to(weighted, centers)
    assert assign_to_centers(weighted, centers, -costs, totals).cost <= whole.cost * (1 + 1e-9)
