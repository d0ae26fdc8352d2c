"""Fairness targets: what each name means, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fairanchor import AnchorFairClustering
from fairanchor._groups import check_groups
from fairanchor.anchors import Anchors
from fairanchor.graph import AnchorSummary, check_targets, fairness_targets
from fairanchor.rows import MemoryRows


def summary_of(counts, masses, group_sizes, *, min_size=0.0, whole=True):
    return AnchorSummary(
        np.asarray(counts), np.asarray(masses, float), np.asarray(group_sizes, float),
        min_size, whole,
    )  # fmt: skip


def groups_of(*sizes, names="abcdefgh"):
    """Groups a, b, ... of these sizes."""
    return check_groups(np.repeat(list(names[: len(sizes)]), sizes), sum(sizes))


def targets_for(fairness, summary, groups=None):
    groups = groups_of(*summary.group_sizes.astype(int)) if groups is None else groups
    return fairness_targets(fairness, summary, groups)


# --- population ----------------------------------------------------------------------------


def test_population_targets_give_every_cluster_the_populations_shares():
    summary = summary_of([[3, 1], [1, 2]], [60.0, 40.0], [70, 30])
    assert_allclose(targets_for("population", summary), [[42, 18], [28, 12]])


def test_population_targets_have_whole_sizes_next_to_the_masses():
    summary = summary_of(np.ones((3, 2), int), [33.4, 33.3, 33.3], [60, 40])
    sizes = targets_for("population", summary).sum(axis=1)
    assert_allclose(sizes, [34, 33, 33])


def test_population_targets_of_weights_keep_the_masses():
    summary = summary_of(np.ones((2, 2), int), [1.25, 2.5], [3.0, 0.75], whole=False)
    targets = targets_for("population", summary, groups_of(3, 1))
    assert_allclose(targets.sum(axis=1), [1.25, 2.5])
    assert_allclose(targets.sum(axis=0), [3.0, 0.75])


def test_population_targets_raise_clusters_below_the_minimum_size():
    summary = summary_of(np.ones((3, 2), int), [1.0, 39.0, 60.0], [50, 50], min_size=10.0)
    sizes = targets_for("population", summary).sum(axis=1)
    assert_allclose(sizes[0], 10)
    assert_allclose(sizes.sum(), 100)
    assert sizes[1] < 39
    assert sizes[2] < 60


@given(
    masses=st.lists(st.integers(1, 50), min_size=1, max_size=6),
    shares=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    min_size=st.integers(0, 20),
)
@settings(max_examples=60, deadline=None)
def test_population_targets_have_both_margins_and_full_balance(masses, shares, min_size):
    sizes = np.sort(np.array(shares) * sum(masses))[::-1]
    summary = summary_of(
        np.ones((len(masses), len(shares)), int),
        np.array(masses) * sum(shares),
        sizes,
        min_size=min_size,
    )
    targets = targets_for("population", summary)
    assert_allclose(targets.sum(axis=0), sizes, rtol=1e-12)
    cluster_sizes = targets.sum(axis=1)
    assert_allclose(cluster_sizes, np.rint(cluster_sizes), atol=1e-8)
    assert cluster_sizes.min() >= min(min_size, sizes.sum() // len(masses)) - 1
    assert_allclose(targets / cluster_sizes[:, None], [sizes / sizes.sum()] * len(masses))


# --- anchors, paper ------------------------------------------------------------------------


def test_anchors_targets_spread_each_group_as_its_anchors():
    summary = summary_of([[3, 1], [1, 2]], [0, 0], [80, 30])
    assert_allclose(targets_for("anchors", summary), [[60, 10], [20, 20]])


def test_a_group_without_anchors_is_spread_as_all_anchors_are():
    summary = summary_of([[3, 1, 0], [1, 3, 0], [1, 1, 0]], [0, 0, 0], [50, 40, 20])
    targets = targets_for("anchors", summary)
    assert_allclose(targets[:, 2], [20 * 4 / 10, 20 * 4 / 10, 20 * 2 / 10])
    assert_allclose(targets.sum(axis=0), [50, 40, 20])


def test_paper_targets_are_those_of_anchors_only_for_proportional_quotas():
    proportional = summary_of([[3, 1], [3, 1]], [0, 0], [75, 25])
    assert_allclose(targets_for("paper", proportional), targets_for("anchors", proportional))
    # The paper's example of quotas 2/2 on 418/182 rows: 300 are asked of each group (T1).
    skewed = summary_of([[1, 1], [1, 1]], [0, 0], [418, 182])
    assert_allclose(targets_for("paper", skewed).sum(axis=0), [300, 300])
    assert_allclose(targets_for("anchors", skewed).sum(axis=0), [418, 182])


# --- tables --------------------------------------------------------------------------------


def test_columns_of_a_table_are_in_the_order_of_the_sorted_names():
    groups = groups_of(10, 30, 20)  # canonical order: b, c, a
    assert groups.names.tolist() == ["b", "c", "a"]
    table = [[1, 30, 5], [9, 0, 15]]
    summary = summary_of(np.ones((2, 3), int), [0, 0], groups.sizes)
    targets = fairness_targets(table, summary, groups)
    assert_array_equal(targets, [[30, 5, 1], [0, 15, 9]])
    assert_array_equal(groups.to_public(targets), table)


@pytest.mark.parametrize("table", [[[1, 2]], [1, 2, 3], np.ones((2, 4)), np.ones((3, 2))])
def test_a_table_of_the_wrong_shape_is_refused(table):
    groups = groups_of(10, 30, 20)
    summary = summary_of(np.ones((2, 3), int), [0, 0], groups.sizes)
    with pytest.raises(ValueError, match=r"expected \(n_clusters, n_groups\)=\(2, 3\).*'a', 'b'"):
        fairness_targets(table, summary, groups)


# --- refusals ------------------------------------------------------------------------------


def check(targets, counts=((1, 1), (1, 1)), sizes=(30, 10)):
    groups = groups_of(*sizes)
    check_targets(np.array(targets, float), summary_of(counts, [0, 0], sizes), groups)


def test_targets_that_can_be_met_are_accepted():
    check([[20, 0], [10, 10]])
    check([[30, 10], [0, 0]], counts=[[1, 1], [0, 0]])  # nothing is asked of no anchor


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([[20, 5], [9, 5]], r"group 'a' sum to 29 .*largest: 20 in cluster 0.* has 30 rows"),
        ([[20, 5], [10, 6]], r"group 'b' sum to 11 .*largest: 6 in cluster 1.* has 10 rows"),
        ([[31, 5], [-1, 5]], r"cluster 1 and group 'a' is -1.0: expected a finite weight"),
        ([[30, np.nan], [0, 5]], r"cluster 0 and group 'b' is nan"),
        ([[30, 5], [0, np.inf]], r"cluster 1 and group 'b' is inf"),
    ],
)
def test_targets_that_nothing_meets_are_refused_with_cluster_group_and_numbers(targets, message):
    with pytest.raises(ValueError, match=message):
        check(targets)


def test_a_target_of_a_cluster_without_anchor_is_refused():
    with pytest.raises(ValueError, match="Cluster 1 has no anchor but a target of 8 .* 'a'"):
        check([[22, 7], [8, 3]], counts=[[1, 1], [0, 0]])


def test_fit_refuses_a_table_that_nothing_meets_and_names_the_group():
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(90, 2)), np.repeat(["x", "y"], [60, 30])
    model = AnchorFairClustering(2, fairness=[[30, 20], [20, 10]], random_state=0)
    with pytest.raises(ValueError, match="group 'x' sum to 50 .* has 60 rows"):
        model.fit(X, sensitive_features=groups)


def test_fit_refuses_the_papers_targets_unless_solver_is_admm():
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(90, 2)), np.repeat(["x", "y"], [60, 30])
    model = AnchorFairClustering(2, fairness="paper", n_anchors=10, quotas="paper", random_state=0)
    with pytest.raises(ValueError, match="solver='admm' accepts such targets"):
        model.fit(X, sensitive_features=groups)


# --- summary -------------------------------------------------------------------------------


def test_summary_counts_anchors_and_adds_their_masses():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(20, 2)), np.repeat([0, 1], [12, 8])
    indices = np.array([0, 1, 2, 13, 14])
    masses = np.array([5.0, 4.0, 3.0, 2.0, 6.0])
    anchors = Anchors(indices, X[indices], codes[indices], masses)
    labels = np.array([0, 1, 1, 1, 1])
    summary = AnchorSummary.of(anchors, labels, 3, MemoryRows(X, codes, 2), 2.5)
    assert_array_equal(summary.counts, [[1, 0], [2, 2], [0, 0]])
    assert_array_equal(summary.cluster_masses, [5.0, 15.0, 0.0])
    assert_array_equal(summary.group_sizes, [12, 8])
    assert summary.whole
    assert summary.min_size == 2.5
    weighted = MemoryRows(X, codes, 2, weights=np.full(20, 0.5))
    summary = AnchorSummary.of(anchors, labels, 3, weighted, 2.5)
    assert not summary.whole
    assert_array_equal(summary.group_sizes, [6, 4])
