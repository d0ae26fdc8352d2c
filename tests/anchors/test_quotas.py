"""Quotas: the number of anchors of each group."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fairanchor.anchors._select import QUOTAS, auto_n_anchors, balanced_quotas, paper_quotas

group_sizes = st.lists(st.integers(1, 300), min_size=1, max_size=8).map(
    lambda sizes: np.array(sorted(sizes, reverse=True))
)


def shares_of(sizes, n_anchors):
    return [Fraction(int(n_anchors) * int(size), int(sizes.sum())) for size in sizes]


# --- balanced ------------------------------------------------------------------------------


@given(sizes=group_sizes, n_anchors=st.integers(1, 400), n_clusters=st.integers(1, 30))
def test_balanced_quotas_keep_their_promises(sizes, n_anchors, n_clusters):
    assume(len(sizes) <= n_anchors <= sizes.sum())
    quotas = balanced_quotas(sizes, n_anchors, n_clusters)
    assert quotas.dtype.kind == "i"
    assert quotas.sum() == n_anchors
    assert np.all(quotas <= sizes)
    assert np.all(quotas >= 1)
    minimum = np.minimum(n_clusters, sizes)
    if minimum.sum() <= n_anchors:
        assert np.all(quotas >= minimum)
    # Nobody gets more than its share, unless a minimum asks for it.
    for quota, share, least in zip(quotas, shares_of(sizes, n_anchors), minimum, strict=True):
        assert quota <= max(math.ceil(share), least)


@given(sizes=group_sizes, n_anchors=st.integers(1, 400), n_clusters=st.integers(1, 10))
def test_balanced_quotas_are_proportional_within_one_where_the_minimum_allows(
    sizes, n_anchors, n_clusters
):
    assume(len(sizes) <= n_anchors <= sizes.sum())
    shares = shares_of(sizes, n_anchors)
    assume(all(math.floor(share) >= min(n_clusters, s) for share, s in zip(shares, sizes)))  # noqa: B905
    quotas = balanced_quotas(sizes, n_anchors, n_clusters)
    assert all(abs(q - share) < 1 for q, share in zip(quotas.tolist(), shares, strict=True))


@given(sizes=group_sizes, n_anchors=st.integers(1, 400), n_clusters=st.integers(1, 30))
def test_a_larger_group_has_no_fewer_seats(sizes, n_anchors, n_clusters):
    assume(len(sizes) <= n_anchors <= sizes.sum())
    assert np.all(np.diff(balanced_quotas(sizes, n_anchors, n_clusters)) <= 0)


@pytest.mark.parametrize(
    ("sizes", "n_anchors", "n_clusters", "expected"),
    [
        ([60, 40], 10, 2, [6, 4]),
        ([98, 2], 10, 5, [8, 2]),  # never more seats than rows
        ([900, 90, 10], 20, 5, [10, 5, 5]),  # the minimum of 5 leaves 10
        ([900, 90, 10], 8, 5, [4, 2, 2]),  # too few seats: the minimum is lowered to 2
        ([5, 5, 5], 15, 2, [5, 5, 5]),
    ],
)
def test_balanced_quotas_of_known_cases(sizes, n_anchors, n_clusters, expected):
    assert_array_equal(balanced_quotas(np.array(sizes), n_anchors, n_clusters), expected)


# --- the paper's rule ----------------------------------------------------------------------


def test_paper_quotas_of_the_credit_data_are_not_proportional(credit_card):
    assert_array_equal(paper_quotas(credit_card.group_sizes, 8), [4, 4])
    assert_array_equal(balanced_quotas(credit_card.group_sizes, 8, 2), [5, 3])


def test_paper_quotas_may_leave_groups_without_a_seat():
    assert_array_equal(paper_quotas(np.array([86, 8, 3, 2, 1]), 10), [8, 1, 1, 0, 0])


def test_paper_quotas_are_computed_in_integers():
    assert math.floor(0.29 * 100) == 28  # what floating point would give
    assert_array_equal(paper_quotas(np.array([71, 29]), 100), [71, 29])
    # ... and for tables of any size that fits in memory.
    sizes = np.array([71 * 10**10, 29 * 10**10])
    assert_array_equal(paper_quotas(sizes, 100), [71, 29])


def literal_paper_quotas(sizes, n_anchors):
    """Lines 3 to 7 of the paper's Algorithm 1, with F6: no more seats than rows."""
    quotas = [n_anchors * size // sum(sizes) for size in sizes]
    while sum(quotas) < n_anchors:
        has_room = [r for r in range(len(sizes)) if quotas[r] < sizes[r]]
        quotas[min(has_room, key=lambda r: (quotas[r], r))] += 1
    return quotas


@given(sizes=group_sizes, n_anchors=st.integers(1, 400))
def test_paper_quotas_follow_the_algorithm(sizes, n_anchors):
    assume(n_anchors <= sizes.sum())
    before = sizes.copy()
    quotas = paper_quotas(sizes, n_anchors)
    assert_array_equal(quotas, literal_paper_quotas(sizes.tolist(), n_anchors))
    assert quotas.dtype.kind == "i"
    assert quotas.sum() == n_anchors
    assert np.all(quotas <= sizes)
    assert_array_equal(sizes, before)


def test_table_of_rules_has_one_signature():
    for rule in QUOTAS.values():
        assert rule(np.array([6, 4]), 5, 2).sum() == 5


# --- number of anchors ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "n_clusters", "expected"),
    [
        ([5000, 5000], 2, 600),
        ([5000, 5000], 200, 800),  # 4 per cluster
        ([500] * 15, 2, 750),  # 50 per group
        ([500] * 100, 5, 1000),  # the limit of anchors per group
        ([500] * 100, 700, 2800),  # 4 per cluster beyond the limit
        ([20] * 1200, 2, 1200),  # one per group beyond the limit
        ([600, 400], 2, 1000),  # all rows of a small table
        ([20, 10], 2, 30),
        ([800, 300], 400, 1100),  # never more than there are rows
    ],
)
def test_automatic_number_of_anchors(sizes, n_clusters, expected):
    assert auto_n_anchors(np.array(sizes), n_clusters) == expected


@pytest.mark.parametrize(
    ("sizes", "n_clusters", "expected"),
    [
        ([5000, 5000], 2, 40),  # 20 per group
        ([500] * 3, 2, 60),
        ([5000, 5000], 90, 360),  # 4 per cluster
        ([10, 5], 2, 15),  # all rows
    ],
)
def test_few_anchors_are_twenty_per_group(sizes, n_clusters, expected):
    assert auto_n_anchors(np.array(sizes), n_clusters, few=True) == expected
