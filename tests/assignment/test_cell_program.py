"""Prices and bounds against the whole linear program, solved by HiGHS."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import linprog

from fairanchor._kernels._price_newton import maximise_in_box
from fairanchor.assignment import _cell_program as module
from fairanchor.assignment import _price_newton
from fairanchor.assignment._cell_program import solve_by_prices
from fairanchor.assignment._price_newton import smoothed_start
from fairanchor.assignment._scored_rows import ScoredRows
from fairanchor.assignment._share_limits import LimitRows, ShareLimits


def whole_program(rows, constraints):
    """Value of the linear program with one variable for each row and cluster."""
    n, c = rows.scores.shape
    h = rows.n_groups
    cells = np.tile(np.arange(c), n) * h + np.repeat(rows.group_codes, c)
    masses = sparse.csr_array(
        (np.repeat(rows.weights, c), (cells, np.arange(n * c))), shape=(c * h, n * c)
    )
    limits = constraints.matrix @ masses
    equal = constraints.is_equal
    solution = linprog(
        -(rows.weights[:, None] * rows.scores).ravel(),
        A_ub=limits[~equal] if (~equal).any() else None,
        b_ub=constraints.right[~equal] if (~equal).any() else None,
        A_eq=sparse.vstack([sparse.kron(sparse.eye_array(n), np.ones((1, c))), limits[equal]]),
        b_eq=np.concatenate([np.ones(n), constraints.right[equal]]),
        bounds=(0, 1),
        method="highs",
    )
    assert solution.status == 0, solution.message
    return solution.fun


def random_rows(seed):
    """Few rows and many; scores with ties, and with outliers; weights in every other case."""
    rng = np.random.default_rng(seed)
    n, c, h = int(rng.integers(15, 300)), int(rng.integers(2, 6)), int(rng.integers(2, 5))
    codes = rng.permutation(np.concatenate([np.arange(h), rng.integers(0, h, size=n - h)]))
    if seed % 3 == 0:
        scores = -rng.integers(0, 4, size=(n, c)).astype(float)
    else:
        scores = -(rng.normal(size=(n, c)) ** 2) * np.exp(
            2.0 * (seed % 3 - 1) * rng.normal(size=(n, 1))
        )
    weights = np.ones(n) if seed % 2 else rng.uniform(0.5, 2.0, size=n)
    return ScoredRows(scores, codes, weights, h)


def tolerance_limits(rows, tolerance):
    limits = ShareLimits.proportional(rows.group_sizes, rows.n_clusters, tolerance)
    return LimitRows.of([limits]).constraints


@pytest.mark.parametrize("rows_per_cell", [1, 30])
@pytest.mark.parametrize("seed", range(40))
def test_the_bound_is_the_value_of_the_whole_linear_program(seed, rows_per_cell):
    rows = random_rows(seed)
    constraints = tolerance_limits(rows, [0.0, 0.05, 0.1, 0.2, 0.5][seed % 5])
    start = smoothed_start(rows, constraints)
    solution = solve_by_prices(rows, constraints, start, rows_per_cell)
    assert solution.is_optimal
    expected = whole_program(rows, constraints)
    assert_allclose(solution.bound, expected, rtol=1e-9, atol=1e-9 * len(rows.scores))
    assert constraints.excess(solution.table) <= 1e-6
    assert_allclose(solution.table.sum(axis=0), rows.group_sizes)


@pytest.mark.parametrize("seed", range(0, 20, 3))
def test_a_start_without_prices_ends_at_the_same_value(seed):
    rows = random_rows(seed)
    constraints = tolerance_limits(rows, 0.1)
    nothing = np.zeros(len(constraints.right))
    near = solve_by_prices(rows, constraints, smoothed_start(rows, constraints))
    assert_allclose(solve_by_prices(rows, constraints, nothing, 2).bound, near.bound, rtol=1e-9)


@given(seed=st.integers(0, 50), scale=st.floats(0.0, 10.0), draw=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_whatever_multipliers_give_a_lower_bound(seed, scale, draw):
    rows = random_rows(seed)
    constraints = tolerance_limits(rows, 0.2)
    rng = np.random.default_rng(draw)
    multipliers = scale * rng.normal(size=len(constraints.right))
    multipliers[~constraints.is_equal] = np.abs(multipliers[~constraints.is_equal])
    bound = rows.prefer(constraints.prices(multipliers))[0] - constraints.right @ multipliers
    expected = whole_program(rows, constraints)
    assert bound <= expected + 1e-7 * (1 + abs(expected))


def test_many_limits_start_from_samples_and_end_at_the_same_value(monkeypatch):
    rng = np.random.default_rng(0)
    codes = np.arange(6000) % 3
    scores = rng.normal(size=(6000, 4)) + 0.8 * rng.normal(size=(3, 4))[codes]
    rows = ScoredRows(scores, codes, np.ones(6000), 3)
    constraints = tolerance_limits(rows, 0.1)
    by_newton = solve_by_prices(rows, constraints, smoothed_start(rows, constraints))
    monkeypatch.setattr(_price_newton, "MANY_LIMITS", 0)
    start = smoothed_start(rows, constraints)
    assert start.any()
    assert_allclose(solve_by_prices(rows, constraints, start).bound, by_newton.bound, rtol=1e-10)


def test_a_cluster_far_from_all_rows_is_priced_as_well():
    """Rows near a tie with it are a thousand times rarer than with the others."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(size=2000), 1000.0 + 50.0 * rng.normal(size=20)])
    codes = np.concatenate([np.arange(2000) % 2, np.zeros(20, dtype=int)])
    scores = -((X[:, None] - np.array([-1.0, 1.0, 1000.0])) ** 2)
    rows = ScoredRows(scores, codes, np.ones(len(X)), 2)
    constraints = tolerance_limits(rows, 0.05)
    solution = solve_by_prices(rows, constraints, smoothed_start(rows, constraints))
    assert solution.is_optimal
    assert_allclose(solution.bound, whole_program(rows, constraints), rtol=1e-9)


def test_a_run_that_is_cut_short_says_so_and_still_gives_a_bound(monkeypatch):
    monkeypatch.setattr(module, "MAX_ROUNDS", 1)
    rows = random_rows(1)
    constraints = tolerance_limits(rows, 0.0)
    solution = solve_by_prices(rows, constraints, np.zeros(len(constraints.right)), 1)
    assert not solution.is_optimal
    assert solution.bound <= whole_program(rows, constraints) + 1e-9


def test_sums_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(0)
    scores, codes = rng.normal(size=(100_000, 3)), rng.integers(0, 2, size=100_000)
    one, two = (ScoredRows(scores, codes, np.ones(100_000), 2, n_jobs=k) for k in (1, 2))
    prices = rng.normal(size=(3, 2))
    for a, b in zip(one.share_softly(prices, 0.3), two.share_softly(prices, 0.3), strict=True):
        assert_array_equal(a, b)


def test_a_sample_keeps_the_weight_of_each_group():
    rows = random_rows(4)
    sample = rows.sample(12)
    assert len(sample.scores) < len(rows.scores)
    assert_allclose(sample.group_sizes, rows.group_sizes)


@pytest.mark.parametrize("seed", range(20))
def test_the_box_program_meets_its_optimality_conditions(seed):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(8, 8))
    matrix = factor @ factor.T + 1e-3 * np.eye(8)
    gradient = rng.normal(size=8) * 10.0 ** rng.integers(-1, 3)
    lower, upper = -rng.uniform(0, 1, size=8), rng.uniform(0, 1, size=8)
    point = maximise_in_box(matrix, gradient, lower, upper, 200)
    slope = gradient - matrix @ point
    scale = np.abs(gradient).max() + np.abs(matrix).max()
    assert (point >= lower).all()
    assert (point <= upper).all()
    inside = (point > lower) & (point < upper)
    assert np.abs(slope[inside]).max(initial=0.0) <= 1e-8 * scale
    assert (slope[point == lower] <= 1e-8 * scale).all()
    assert (slope[point == upper] >= -1e-8 * scale).all()


def test_distances_of_cells_are_the_smallest_regrets():
    rng = np.random.default_rng(0)
    scores, codes = rng.normal(size=(60, 3)), np.arange(60) % 2
    prices = rng.normal(size=(3, 2))
    rows = ScoredRows(scores, codes, np.ones(60), 2)
    found = rows.distances_of_cells(prices, rows.prefer(prices), 5, 0.0)
    costs = prices.T[codes] - scores
    ordered = np.sort(costs, axis=1)
    regrets = costs - ordered[:, :1]
    own = regrets == 0
    regrets[own] = ordered[:, 1] - ordered[:, 0]
    for l in range(3):
        for j in range(2):
            assert_allclose(found[l, j], np.sort(regrets[codes == j, l])[4])


@pytest.mark.parametrize("seed", range(20))
def test_a_coordinate_without_room_does_not_keep_the_others_from_their_best(seed):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(40, 40))
    matrix, gradient = factor @ factor.T + np.eye(40), 30.0 * rng.normal(size=40)
    lower, upper = -rng.uniform(0, 1, size=40), rng.uniform(0, 1, size=40)
    fixed = np.arange(40) % 4 == 0
    lower[fixed] = upper[fixed] = 0.0
    point = maximise_in_box(matrix, gradient, lower, upper, 200)
    assert not point[fixed].any()
    others = ~fixed
    expected = maximise_in_box(
        np.ascontiguousarray(matrix[np.ix_(others, others)]),
        gradient[others], lower[others], upper[others], 200,
    )  # fmt: skip
    assert_allclose(point[others], expected, atol=1e-9)
