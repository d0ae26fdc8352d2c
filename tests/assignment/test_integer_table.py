"""Sizes and bounds of cells in whole rows."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.optimize import linprog

from fairanchor.assignment._integer_table import (
    choose_cells,
    has_table,
    round_sizes,
    strictly_possible_sizes,
)
from fairanchor.assignment._share_limits import ShareLimits


def random_bounds(draw):
    """Margins of a random table, and bounds around it or around another."""
    rng = np.random.default_rng(draw)
    c, h = rng.integers(1, 5, size=2)
    table = rng.integers(0, 6, size=(c, h))
    center = table if draw % 2 else rng.integers(0, 6, size=(c, h))
    low = np.maximum(center - rng.integers(0, 2, size=(c, h)), 0)
    return table.sum(axis=1), table.sum(axis=0), low, center + rng.integers(0, 2, size=(c, h))


@given(draw=st.integers(0, 10**6))
@settings(deadline=None)
def test_a_table_exists_exactly_where_a_linear_program_finds_one(draw):
    sizes, group_sizes, low, high = random_bounds(draw)
    c, h = low.shape
    margins = np.vstack([np.kron(np.eye(c), np.ones((1, h))), np.kron(np.ones((1, c)), np.eye(h))])
    solution = linprog(
        np.zeros(c * h),
        A_eq=margins,
        b_eq=np.concatenate([sizes, group_sizes]),
        bounds=np.column_stack([low.ravel(), high.ravel()]),
    )
    assert has_table(sizes, group_sizes, low, high) == (solution.status == 0)


@given(draw=st.integers(0, 10**6), tolerance=st.sampled_from([0.0, 0.05, 0.2, 0.5]))
@settings(deadline=None)
def test_outward_bounds_always_suffice_around_the_shares_of_the_data(draw, tolerance):
    rng = np.random.default_rng(draw)
    c, h = rng.integers(1, 6, size=2)
    group_sizes = rng.integers(1, 30, size=h)
    weights = rng.dirichlet(np.ones(c))
    limits = ShareLimits.proportional(group_sizes, c, tolerance).in_whole_rows()
    sizes, low, high, is_strict = choose_cells(limits, np.outer(weights, group_sizes))
    assert sizes.sum() == group_sizes.sum()
    exact_low, exact_high = limits.lower * sizes[:, None], limits.upper * sizes[:, None]
    if is_strict:
        assert (low >= exact_low - 1e-6).all()
        assert (high <= exact_high + 1e-6).all()
    assert (low > exact_low - 1).all()
    assert (high < exact_high + 1).all()
    assert has_table(sizes, group_sizes, low, high)


def test_sizes_just_below_a_whole_number_are_that_number():
    assert_array_equal(round_sizes(np.array([9.9999999999, 5.0000000001]), 15), [10, 5])
    assert_array_equal(round_sizes(np.array([2.4, 3.3, 4.3]), 10), [3, 3, 4])


def test_sizes_are_moved_to_where_each_cluster_can_be_exact():
    """Two groups of equal size: clusters of odd size cannot be."""
    limits = ShareLimits.proportional([10, 10], 3, 0.0)
    wanted = np.array([6.7, 6.6, 6.7])
    sizes = strictly_possible_sizes([limits], wanted)
    assert sizes.sum() == 20
    assert (sizes % 2 == 0).all()
    assert np.abs(sizes - wanted).max() < 2
    assert choose_cells(limits.in_whole_rows(), np.outer(wanted, [0.5, 0.5]))[3]


def test_there_may_be_no_sizes_at_which_clusters_are_exact():
    assert (
        strictly_possible_sizes([ShareLimits.proportional([7, 6], 2, 0.0)], np.array([6.5, 6.5]))
        is None
    )


def test_large_clusters_are_moved_further_to_be_exact():
    """Groups of 300 and 400 of 700: only multiples of seven have exact shares."""
    limits = ShareLimits.proportional([3_000, 4_000], 3, 0.0)
    wanted = np.array([2_004.4, 1_503.2, 3_492.4])
    sizes = strictly_possible_sizes([limits], wanted)
    assert sizes.sum() == 7_000
    assert (sizes % 7 == 0).all()
    assert np.abs(sizes - wanted).max() <= 7


def test_the_nearest_sizes_are_those_of_an_exhaustive_search():
    rng = np.random.default_rng(0)
    for _ in range(30):
        group_sizes = rng.integers(1, 12, size=rng.integers(1, 4))
        total = int(group_sizes.sum())
        wanted = total * rng.dirichlet(np.ones(2))
        limits = ShareLimits.proportional(group_sizes, 2, rng.choice([0.1, 0.3, 0.6]))
        found = strictly_possible_sizes([limits], wanted)
        distances = {}
        for first in range(total + 1):
            sizes = np.array([first, total - first])
            low = np.ceil(limits.lower * sizes[:, None] - 1e-9)
            high = np.floor(limits.upper * sizes[:, None] + 1e-9)
            fits = (low <= high).all() and (low.sum(axis=1) <= sizes).all()
            fits = fits and (sizes <= high.sum(axis=1)).all()
            near = (sizes >= np.floor(wanted) - 2).all() and (sizes <= np.ceil(wanted) + 2).all()
            kept = (sizes >= np.minimum(1, np.floor(wanted))).all()
            if fits and near and kept:
                distances[first] = np.abs(sizes - wanted).sum()
        if not distances:
            assert found is None
        else:
            assert np.abs(found - wanted).sum() == pytest.approx(min(distances.values()))


@given(draw=st.integers(0, 10**6), tolerance=st.sampled_from([0.0, 0.1, 0.3, 0.5]))
@settings(deadline=None)
def test_few_rows_are_strictly_within_the_limits_wherever_any_table_is(draw, tolerance):
    """Against all tables of two clusters, one by one."""
    rng = np.random.default_rng(draw)
    group_sizes = rng.integers(1, 8, size=rng.integers(1, 4))
    limits = ShareLimits.proportional(group_sizes, 2, tolerance, least=1.0)
    exists = False
    for first in itertools.product(*(range(n + 1) for n in group_sizes)):
        table = np.array([first, group_sizes - first])
        sizes = table.sum(axis=1, keepdims=True)
        exists |= bool(
            (sizes >= 1).all()
            and (table >= limits.lower * sizes - 1e-9).all()
            and (table <= limits.upper * sizes + 1e-9).all()
        )
    share = rng.uniform(0.2, 0.8)
    wanted = np.outer([share, 1 - share], group_sizes)
    if wanted.sum(axis=1).min() >= 1:
        assert choose_cells(limits, wanted)[3] == exists
