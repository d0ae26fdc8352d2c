"""The best table with fixed sizes and bounded cells, against linear programming."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from fairanchor.assignment import _cell_flow
from fairanchor.assignment._cell_flow import best_whole_table
from fairanchor.assignment._scored_rows import ScoredRows


def random_problem(draw):
    """Rows, and sizes and bounds that some labels have; scores with ties in every other draw."""
    rng = np.random.default_rng(draw)
    c, h, n = rng.integers(1, 5), rng.integers(1, 5), rng.integers(5, 60)
    codes = rng.integers(0, h, n)
    scores = rng.normal(size=(n, c)) if draw % 2 else rng.integers(0, 3, (n, c)).astype(float)
    copies = rng.integers(1, 4, n) if draw % 3 == 0 else np.ones(n, dtype=np.int64)
    table = np.zeros((c, h), dtype=np.int64)
    np.add.at(table, (rng.integers(0, c, n), codes), copies)
    low = np.maximum(table - rng.integers(0, 3, (c, h)), 0)
    high = table + rng.integers(0, 3, (c, h))
    return ScoredRows(scores, codes, copies.astype(float), h), table.sum(axis=1), low, high


def least_cost(rows, sizes, low, high):
    """A dense linear program over all rows; its matrix is that of a flow, so it is integral."""
    (n, c), h = rows.scores.shape, rows.n_groups
    row, cluster = np.divmod(np.arange(n * c), c)
    each_row = (row == np.arange(n)[:, None]).astype(float)
    each_cluster = (cluster == np.arange(c)[:, None]).astype(float)
    cell = cluster * h + rows.group_codes[row]
    each_cell = (cell == np.arange(c * h)[:, None]).astype(float)
    solution = linprog(
        -rows.scores.ravel(),
        A_ub=np.vstack([each_cell, -each_cell]),
        b_ub=np.concatenate([high.ravel(), -low.ravel()]),
        A_eq=np.vstack([each_row, each_cluster]),
        b_eq=np.concatenate([rows.weights, sizes]),
    )
    assert solution.status == 0
    return solution.fun


def dual_value(rows, table, prices):
    """What labels with this table cost at the least, by any prices."""
    costs = (prices[:, rows.group_codes].T - rows.scores).min(axis=1)
    return rows.weights @ costs - (prices * table).sum()


@given(
    draw=st.integers(0, 10**6),
    scale=st.sampled_from([0.0, 0.3, 3.0]),
    reach=st.sampled_from([0.0, 1e-3, 1.0, np.inf]),
)
@settings(deadline=None)
def test_the_table_is_the_best_from_whatever_prices_it_starts(draw, scale, reach):
    rows, sizes, low, high = random_problem(draw)
    rng = np.random.default_rng(draw + 1)
    net = scale * rng.normal(size=low.shape)
    start = net + scale * rng.normal(size=(len(sizes), 1))

    nearest = reach * rng.uniform(size=low.shape)
    table, prices = best_whole_table(rows, start, net, sizes, low, high, nearest)

    np.testing.assert_array_equal(table.sum(axis=1), sizes)
    np.testing.assert_array_equal(table.sum(axis=0), rows.group_sizes)
    assert ((table >= low) & (table <= high)).all()
    expected = least_cost(rows, sizes, low, high)
    # The prices prove what labels with this table cost, by weak duality.
    assert dual_value(rows, table, prices) == pytest.approx(expected, abs=1e-9)


def test_rows_far_from_a_tie_enter_when_those_near_one_are_too_few():
    """All of a group's near ties are in one cluster: the first band cannot fill the other."""
    rng = np.random.default_rng(0)
    gaps = np.concatenate([rng.uniform(0, 1e-3, 20), rng.uniform(10, 20, 500)])
    rows = ScoredRows(
        np.column_stack([gaps, np.zeros(520)]), np.zeros(520, dtype=np.int64), np.ones(520), 1
    )
    bounds, nothing = np.array([[120], [400]]), np.zeros((2, 1))
    table, prices = best_whole_table(
        rows, nothing, nothing, bounds[:, 0], bounds, bounds, nothing + 1e-3
    )
    np.testing.assert_array_equal(table, bounds)
    assert dual_value(rows, table, prices) == pytest.approx(-np.sort(gaps)[-120:].sum())


def test_boxes_that_are_far_too_narrow_cost_one_round(monkeypatch):
    # Whole numbers as scores: what moved rows before they were tied is of no use.
    rng = np.random.default_rng(0)
    scores, codes = rng.integers(0, 5, (600, 4)).astype(float), rng.integers(0, 3, 600)
    rows = ScoredRows(scores, codes, np.ones(600), 3)
    nothing, sizes = np.zeros((4, 3)), np.array([300, 150, 100, 50])
    low, high = nothing, np.full((4, 3), 110)
    rounds, band = [], _cell_flow._band
    monkeypatch.setattr(_cell_flow, "_band", lambda *given: rounds.append(1) or band(*given))
    table, prices = best_whole_table(rows, nothing, nothing, sizes, low, high, nothing + 1e-9)
    assert 1 < len(rounds) <= 3
    assert dual_value(rows, table, prices) == pytest.approx(least_cost(rows, sizes, low, high))
