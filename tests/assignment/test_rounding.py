"""Rounding against exact fractions: what is next to a number, and what the margins must be."""

from fractions import Fraction
from itertools import combinations
from math import ceil, floor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fairanchor.assignment import (
    controlled_rounding,
    largest_remainder,
    proportional_counts,
    raise_small_sizes,
    round_targets,
)

relaxed = settings(deadline=None)


@st.composite
def tables(draw, entries):
    n_columns = draw(st.integers(1, 6))
    row = st.lists(entries, min_size=n_columns, max_size=n_columns)
    return draw(st.lists(row, min_size=1, max_size=6))


@st.composite
def margins(draw, largest=60):
    """Cluster sizes and group sizes of the same total."""
    sizes = draw(st.lists(st.integers(0, largest), min_size=1, max_size=7))
    sizes[0] = max(sizes[0], 1)
    n_groups = draw(st.integers(1, 6))
    cuts = sorted(
        draw(st.lists(st.integers(0, sum(sizes)), min_size=n_groups - 1, max_size=n_groups - 1))
    )
    return np.array(sizes), np.diff([0, *cuts, sum(sizes)])


def assert_next_to(integers, exact):
    """Each integer is the floor or the ceiling of its exact value, which is a Fraction."""
    for integer, value in zip(integers, exact, strict=True):
        assert integer in (floor(value), ceil(value)), f"{integer} for {float(value)}"


def assert_rounds_table(counts, exact):
    """Cells and both margins of ``counts`` are next to those of a table of Fractions."""
    assert counts.dtype == np.int64
    for row, exact_row in zip(counts.tolist(), exact, strict=True):
        assert_next_to(row, exact_row)
    assert_next_to(counts.sum(axis=1).tolist(), [sum(row) for row in exact])
    assert_next_to(
        counts.sum(axis=0).tolist(), [sum(column) for column in zip(*exact, strict=True)]
    )


# Largest remainder


@relaxed
@given(
    values=st.lists(st.integers(0, 1000), min_size=1, max_size=12).filter(any),
    total=st.integers(0, 500),
)
def test_largest_remainder_sums_to_the_total_next_to_every_share(values, total):
    counts = largest_remainder(values, total).tolist()
    shares = [Fraction(value * total, sum(values)) for value in values]
    assert sum(counts) == total
    assert_next_to(counts, shares)


@relaxed
@given(
    values=st.lists(st.integers(0, 64), min_size=2, max_size=8).filter(any),
    total=st.integers(1, 64),
)
def test_largest_remainder_rounds_up_the_largest_remainders(values, total):
    counts = largest_remainder(values, total).tolist()
    shares = [Fraction(value * total, sum(values)) for value in values]
    remainders = [share - floor(share) for share in shares]
    up = [r for r, count, share in zip(remainders, counts, shares, strict=True) if count > share]
    down = [r for r, count, share in zip(remainders, counts, shares, strict=True) if count < share]
    assert min(up, default=1) >= max(down, default=0) - Fraction(1, 10**9)


def test_largest_remainder_gives_ties_to_the_lowest_index():
    assert_array_equal(largest_remainder([1, 1, 1, 1], 6), [2, 2, 1, 1])


def test_largest_remainder_of_zeros_shares_equally():
    assert_array_equal(largest_remainder([0.0, 0.0], 5), [3, 2])


@pytest.mark.parametrize("total", [10**9, 10**9 + 7, 999_999_937])
def test_largest_remainder_is_exact_for_large_totals(total):
    rng = np.random.default_rng(0)
    values = rng.integers(1, 10**6, size=50)
    counts = largest_remainder(values, total).tolist()
    shares = [Fraction(int(value) * total, int(values.sum())) for value in values]
    assert sum(counts) == total
    assert_next_to(counts, shares)


# Raising small sizes


@relaxed
@given(
    sizes=st.lists(st.floats(0, 1e6), min_size=1, max_size=10).filter(lambda s: sum(s) > 1e-3),
    min_size=st.floats(0, 1e6),
)
def test_raised_sizes_keep_the_sum_and_reach_the_minimum(sizes, min_size):
    sizes = np.array(sizes)
    raised = raise_small_sizes(sizes, min_size)
    reachable = min(min_size, sizes.sum() / len(sizes))
    assert_allclose(raised.sum(), sizes.sum(), rtol=1e-12)
    assert raised.min() >= reachable * (1 - 1e-9) - 1e-9
    # Who pays stays in order, and nobody above the minimum gains.
    above = sizes >= reachable
    assert np.all(raised[above] <= sizes[above] * (1 + 1e-12))
    assert np.all(np.diff(raised[np.argsort(sizes, kind="stable")]) >= -1e-9 * sizes.sum())


def test_sizes_above_the_minimum_are_left_alone():
    sizes = np.array([3.0, 4.5, 10.0])
    assert_array_equal(raise_small_sizes(sizes, 3.0), sizes)


# Controlled rounding


@relaxed
@given(table=tables(st.integers(0, 64)))
def test_controlled_rounding_of_exact_binary_fractions(table):
    """Eighths are exact in floating point, so the claims hold without any tolerance."""
    exact = [[Fraction(entry, 8) for entry in row] for row in table]
    assert_rounds_table(controlled_rounding(np.array(table) / 8), exact)


@relaxed
@given(table=tables(st.floats(0, 1000)))
@example(table=[[1e-12, 1.0 - 1e-12], [0.3, 0.7]])
@example(table=[[1e-300, 5e-324]])
def test_controlled_rounding_of_any_table_moves_nothing_by_one(table):
    table = np.array(table)
    counts = controlled_rounding(table)
    for rounded, value in [
        (counts, table),
        (counts.sum(axis=0), table.sum(axis=0)),
        (counts.sum(axis=1), table.sum(axis=1)),
    ]:
        assert np.all(rounded >= np.floor(value + 1e-6))
        assert np.all(rounded <= np.ceil(value - 1e-6))


@relaxed
@given(sizes_and_groups=margins())
def test_controlled_rounding_meets_integer_margins_that_are_sums_of_thirds_and_sevenths(
    sizes_and_groups,
):
    sizes, group_sizes = sizes_and_groups
    counts = controlled_rounding(np.outer(sizes, group_sizes) / sizes.sum())
    assert_array_equal(counts.sum(axis=1), sizes)
    assert_array_equal(counts.sum(axis=0), group_sizes)


def test_controlled_rounding_leaves_an_integer_table_alone():
    table = np.arange(12.0).reshape(3, 4)
    assert_array_equal(controlled_rounding(table), table)


def test_controlled_rounding_keeps_integer_margins_next_to_large_cells():
    table = np.array([[5e8 + 0.5, 5e8 + 0.5], [0.5, 0.5]])
    counts = controlled_rounding(table)
    assert_array_equal(counts.sum(axis=1), [10**9 + 1, 1])
    assert_array_equal(counts.sum(axis=0), [5 * 10**8 + 1, 5 * 10**8 + 1])
    assert_array_equal(np.sort(counts[1]), [0, 1])


def test_controlled_rounding_takes_the_nearest_choice():
    """Of all 2 x 2 roundings with these margins, the one that moves the cells least."""
    table = np.array([[0.9, 0.1], [0.1, 0.9]])
    assert_array_equal(controlled_rounding(table), np.eye(2))


# Counts proportional to the groups


@relaxed
@given(sizes_and_groups=margins())
def test_proportional_counts_meet_both_margins_and_are_next_to_every_cell(sizes_and_groups):
    sizes, group_sizes = sizes_and_groups
    counts = proportional_counts(sizes, group_sizes)
    n = int(sizes.sum())
    exact = [[Fraction(int(s) * int(g), n) for g in group_sizes] for s in sizes]
    assert_rounds_table(counts, exact)
    assert_array_equal(counts.sum(axis=1), sizes)
    assert_array_equal(counts.sum(axis=0), group_sizes)


@relaxed
@given(
    sizes=st.lists(st.integers(1, 2_000), min_size=2, max_size=6),
    share=st.floats(0.02, 0.98),
)
def test_of_two_groups_the_best_clusters_are_rounded_up(sizes, share):
    """By enumeration: near, and where clusters are small rather more of the smaller group."""
    sizes = np.array(sizes)
    n = int(sizes.sum())
    first = min(max(round(share * n), 1), n - 1)
    counts = proportional_counts(sizes, np.array([first, n - first]))
    exact = sizes * first / n
    fraction = exact - np.floor(exact)
    rarity = -np.log(np.array([first, n - first]) / n)
    entropy = rarity @ np.array([first, n - first]) / n

    def badness(up):
        rounded = np.where(up, 1 - fraction, fraction)
        gained = np.where(up, rarity[0], rarity[1]) / entropy / sizes
        return (2 * rounded - 600 * gained)[fraction > 0].sum()

    free = np.flatnonzero(fraction > 1e-9)
    n_up = round(fraction.sum())
    choices = []
    for chosen in combinations(free, n_up):
        up = np.zeros(len(sizes), dtype=bool)
        up[list(chosen)] = True
        choices.append(badness(up))
    found = badness(counts[:, 0] > exact + 1e-9)
    assert found <= min(choices) + 1e-6 * (1 + abs(min(choices)))


@pytest.mark.parametrize("size", [148, 1_000, 7_477])
@pytest.mark.parametrize("smaller", [11_828, 3_001, 14_999])
def test_nearness_never_costs_a_cluster_a_thousandth_of_its_entropy(size, smaller):
    counts = proportional_counts(
        np.array([30_000 - size, size]), np.array([30_000 - smaller, smaller])
    )
    table, population = (
        counts / counts.sum(axis=1, keepdims=True),
        np.array([30_000 - smaller, smaller]),
    )
    entropy = -(table * np.log(table)).sum(axis=1)
    of_all = population / population.sum()
    assert entropy.min() >= 0.999 * -(of_all @ np.log(of_all))


def test_large_clusters_take_the_nearest_rounding():
    counts = proportional_counts(np.array([20_000, 10_000]), np.array([29_999 - 340, 341]))
    assert_array_equal(counts[:, 1], [227, 114])


def test_a_small_cluster_is_not_left_with_less_of_the_smaller_group():
    """58.35 of 148 rows: 58 would be nearer, 59 leaves the cluster more even than all rows."""
    counts = proportional_counts(np.array([29_852, 148]), np.array([18_172, 11_828]))
    assert_array_equal(counts[1], [89, 59])


def test_a_thousand_groups_of_one_row_fill_ten_clusters_evenly():
    counts = proportional_counts(np.full(10, 100), np.ones(1000, dtype=np.int64))
    assert_array_equal(counts.sum(axis=0), np.ones(1000))
    assert_array_equal(counts.sum(axis=1), np.full(10, 100))
    assert set(np.unique(counts)) == {0, 1}


@pytest.mark.parametrize("n", [10**9, 10**9 + 7, 2 * 10**9 - 1])
def test_proportional_counts_are_exact_near_the_limits_of_a_double_product(n):
    """The products are up to 4e18, beyond what a double holds exactly."""
    sizes = np.array([n - 300_000_002, 300_000_001, 1])
    group_sizes = np.array([n - 123_456_789 - 5, 123_456_789, 5])
    counts = proportional_counts(sizes, group_sizes)
    exact = [[Fraction(int(s) * int(g), n) for g in group_sizes] for s in sizes]
    assert_rounds_table(counts, exact)
    assert_array_equal(counts.sum(axis=1), sizes)
    assert_array_equal(counts.sum(axis=0), group_sizes)


# Targets


@relaxed
@given(sizes_and_groups=margins())
def test_proportional_targets_are_rounded_to_exact_margins(sizes_and_groups):
    sizes, group_sizes = sizes_and_groups
    targets = np.outer(sizes, group_sizes) / sizes.sum()
    counts = round_targets(targets, group_sizes.astype(float), whole=True)
    assert_array_equal(counts.sum(axis=1), sizes)
    assert_array_equal(counts.sum(axis=0), group_sizes)


@relaxed
@given(
    table=tables(st.floats(0.01, 50)),
    data=st.data(),
)
def test_targets_that_cannot_be_met_are_scaled_to_the_groups(table, data):
    targets = np.array(table)
    n_groups = targets.shape[1]
    group_sizes = np.array(
        data.draw(st.lists(st.integers(0, 200), min_size=n_groups, max_size=n_groups)), dtype=float
    )
    scaled = [
        [Fraction(cell) * int(size) / sum(Fraction(c) for c in column) for cell in column]
        for column, size in zip(targets.T.tolist(), group_sizes, strict=True)
    ]
    weights = round_targets(targets, group_sizes, whole=False)
    assert_allclose(weights.T, np.array(scaled, dtype=float), rtol=1e-12)

    counts = round_targets(targets, group_sizes, whole=True)
    assert_array_equal(counts.sum(axis=0), group_sizes)
    assert np.abs(counts.T - np.array(scaled, dtype=float)).max() < 1 + 1e-9


def test_targets_that_can_be_met_are_returned_as_they_are_for_weights():
    targets = np.array([[1.25, 0.5], [2.75, 1.5]])
    assert_array_equal(round_targets(targets, np.array([4.0, 2.0]), whole=False), targets)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (largest_remainder, ([np.nan, 1.0], 2), "expected finite numbers >= 0"),
        (largest_remainder, ([-1.0, 3.0], 2), "expected finite numbers >= 0"),
        (controlled_rounding, ([[np.inf, 1.0]],), "cannot be rounded: expected finite numbers"),
        (proportional_counts, (np.array([3, 4]), np.array([3, 3])), "sum to 7, .* groups to 6"),
    ],
)
def test_tables_that_make_no_sense_are_refused(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments)
