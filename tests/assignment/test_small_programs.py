"""Our own simplex method against HiGHS, and what the boxed program does with either."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from fairanchor._kernels._dual_simplex import minimise, minimise_surely
from fairanchor.assignment import _boxed_program, _cell_flow
from fairanchor.assignment._boxed_program import BoxedProgram
from fairanchor.assignment._price_newton import smoothed_start
from fairanchor.assignment._share_limits import LimitRows, ShareLimits
from fairanchor.assignment._tolerance import assign_with_tolerance, scored_rows


def program(seed, n_rows, n_variables, *, whole=False):
    """A program with a solution, whose first basis is the identity at the end."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-2, 3, (n_rows, n_variables)) if whole else None
    left = rng.normal(size=(n_rows, n_variables)) if values is None else values.astype(float)
    upper = np.where(rng.random(n_variables) < 0.3, np.inf, rng.integers(1, 4, n_variables))
    inside = rng.random(n_variables) * np.minimum(upper, 2.0)
    right = left @ inside
    # Some rows are equations, the others have room to spare.
    is_equal = rng.random(n_rows) < 0.5
    right += np.where(is_equal, 0.0, rng.random(n_rows))
    cost = rng.integers(0, 3, n_variables) if whole else rng.random(n_variables)
    matrix = np.hstack([left, np.eye(n_rows)])
    spare = np.where(is_equal, 0.0, np.inf)
    return matrix, right, np.append(cost, np.zeros(n_rows)), np.append(upper, spare)


def by_highs(matrix, right, cost, upper):
    bounds = np.column_stack([np.zeros(len(cost)), upper])
    return linprog(cost, A_eq=matrix, b_eq=right, bounds=bounds)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 60), st.booleans())
def test_the_minimum_and_its_multipliers_are_those_of_highs(seed, n_rows, n_variables, whole):
    given_program = program(seed, n_rows, n_variables, whole=whole)
    matrix, right, cost, upper = given_program
    x, multipliers, is_optimal = minimise_surely(*given_program)
    expected = by_highs(*given_program)
    assert is_optimal
    assert expected.status == 0
    scale = 1 + abs(expected.fun)
    assert cost @ x == pytest.approx(expected.fun, abs=1e-7 * scale)
    np.testing.assert_allclose(matrix @ x, right, atol=1e-6)
    # The dual's value: what the right sides are worth, and the bounds that are worth meeting.
    reduced = cost - multipliers @ matrix
    at_bounds = np.minimum(reduced, 0.0) @ np.where(np.isfinite(upper), upper, 0.0)
    assert multipliers @ right + at_bounds == pytest.approx(expected.fun, abs=1e-6 * scale)


def test_a_program_without_a_solution_is_no_optimum():
    matrix = np.array([[1.0, 1.0, 1.0]])  # at most two, and three are wanted
    x, _, ended = minimise(
        matrix, np.array([3.0]), np.array([1.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0]), 1e-9, 100
    )
    assert not ended
    assert not minimise_surely(
        matrix, np.array([3.0]), np.array([1.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0])
    )[2]
    assert (x >= 0).all()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_program_that_needs_all_that_there_is_has_a_solution(n):
    matrix = np.append(np.ones(n), 1.0)[None]
    cost = upper = np.append(np.ones(n), 0.0)
    x, _, is_optimal = minimise_surely(matrix, np.array([float(n)]), cost, upper)
    assert is_optimal
    np.testing.assert_allclose(x, upper)


def test_too_few_steps_are_said():
    *_, ended = minimise(*program(0, 10, 50), 1e-9, 1)
    assert not ended


def boxed(seed, tolerance, n_clusters=4, n_groups=3):
    """A boxed program around a smoothed start, and the start's multipliers."""
    rng = np.random.default_rng(seed)
    scores, codes = rng.normal(size=(600, n_clusters)), rng.integers(0, n_groups, 600)
    scores[:, 0] += (codes == 0) * 1.0
    limits = ShareLimits.proportional(np.bincount(codes), n_clusters, tolerance)
    constraints = LimitRows.of([limits]).constraints
    rows = scored_rows(scores, codes, n_groups, None, 1)
    multipliers = smoothed_start(rows, constraints)
    prices = constraints.prices(multipliers)
    boxes = np.full(prices.shape, 0.05)
    program = BoxedProgram.near(rows, constraints, prices, rows.prefer(prices), boxes)
    return program, multipliers, rows


@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("seed", range(5))
def test_boxed_programs_have_the_same_value_by_either_method(seed, tolerance, monkeypatch):
    small, multipliers, rows = boxed(seed, tolerance)
    constraints = small.constraints
    found, table, binds = small.solve(multipliers)
    monkeypatch.setattr(_boxed_program, "DENSE_ENTRIES", 0)
    expected, other_table, other_binds = small.solve(multipliers)

    def value(of):
        return rows.prefer(constraints.prices(of))[0] - constraints.right @ of

    assert value(found) == pytest.approx(value(expected), rel=1e-9)
    assert binds.any() == other_binds.any()
    if not binds.any():
        assert constraints.excess(table) < 1e-6
        assert constraints.excess(other_table) < 1e-6


def test_highs_takes_over_where_our_method_does_not_end(monkeypatch):
    small, multipliers, rows = boxed(0, 0.1)
    expected = small.solve(multipliers)[0]
    monkeypatch.setattr(
        _boxed_program.dual_simplex, "minimise_surely", lambda *program: (None, None, False)
    )
    found = small.solve(multipliers)[0]
    bounds = [
        rows.prefer(small.constraints.prices(of))[0] - small.constraints.right @ of
        for of in (found, expected)
    ]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-9)


def test_every_round_of_the_flow_starts_from_the_best_known_prices(monkeypatch):
    # Two heaps far apart: prices that are found among too few rows run off to the other heap.
    rng = np.random.default_rng(0)
    heap = rng.random(4000) < 0.5
    codes = (rng.random(4000) < np.where(heap, 0.8, 0.3)).astype(np.int64)
    place = rng.normal(size=4000) + 50.0 * heap
    scores = -((place[:, None] - np.array([0.0, 1.0, 25.0, 50.0])) ** 2)
    tables, kernel = [], _cell_flow.flow_kernels.best_table

    def watched(regrets, starts, amounts, table, *others):
        tables.append(table.copy())
        return kernel(regrets, starts, amounts, table, *others)

    monkeypatch.setattr(_cell_flow.flow_kernels, "best_table", watched)
    monkeypatch.setattr(_cell_flow, "ROWS_PER_CELL", 1)
    result = assign_with_tolerance(scores, codes, 0.05)
    assert len(tables) > 1
    assert all((table == tables[0]).all() for table in tables)
    assert result.strict
    assert 0.0 <= result.gap < 2 * 50.0**2  # less than two rows that change the heap


@pytest.mark.parametrize("scale", [2.0**-60, 2.0**80, 2.0**300, 2.0**600])
def test_a_box_that_no_row_is_near_knows_the_scale_of_the_scores(scale):
    # All rows of a group are equal, so that the first box ends just where they would move.
    codes = np.arange(400) % 2
    scores = np.array([[0.0, 1.0, 0.3], [0.5, -1.0, 0.2]])[codes]
    expected = assign_with_tolerance(scores, codes, 0.1)
    found = assign_with_tolerance(scale * scores, codes, 0.1)
    assert found.lp_value / scale == pytest.approx(expected.lp_value, rel=1e-9)
    assert found.cost / scale == pytest.approx(expected.cost, rel=1e-9)
