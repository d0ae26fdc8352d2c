"""Fairness targets: what each name means, and tables that cannot be met."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fairanchor import FDAS, AnchorFairClustering, FairKMeans, ReconstructionGraph, fair_assign
from fairanchor.graph import AnchorSummary, fairness_targets


def summary_of(counts, masses, group_sizes, *, whole=True):
    return AnchorSummary(
        np.asarray(counts), np.asarray(masses, float), np.asarray(group_sizes, float), whole
    )


# The population


def test_population_targets_give_every_cluster_the_populations_shares():
    summary = summary_of([[3, 1], [1, 2]], [60.0, 40.0], [70, 30])
    assert_allclose(fairness_targets("population", summary), [[42, 18], [28, 12]])


def test_population_targets_have_whole_sizes_next_to_the_masses():
    summary = summary_of(np.ones((3, 2), int), [33.4, 33.3, 33.3], [60, 40])
    assert_allclose(fairness_targets("population", summary).sum(axis=1), [34, 33, 33])


def test_population_targets_of_weights_keep_the_masses():
    summary = summary_of(np.ones((2, 2), int), [1.25, 2.5], [3.0, 0.75], whole=False)
    targets = fairness_targets("population", summary)
    assert_allclose(targets.sum(axis=1), [1.25, 2.5])
    assert_allclose(targets.sum(axis=0), [3.0, 0.75])


@given(
    masses=st.lists(st.integers(0, 50), min_size=1, max_size=6).filter(any),
    shares=st.lists(st.integers(1, 20), min_size=1, max_size=4),
)
def test_population_targets_have_both_margins_and_full_balance(masses, shares):
    sizes = np.sort(np.array(shares) * sum(masses))[::-1]
    counts = np.ones((len(masses), len(shares)), int)
    summary = summary_of(counts, np.array(masses) * sum(shares), sizes)
    if sizes.sum() < len(masses):
        return
    targets = fairness_targets("population", summary)
    assert_allclose(targets.sum(axis=0), sizes, rtol=1e-12)
    cluster_sizes = targets.sum(axis=1)
    assert_allclose(cluster_sizes, np.rint(cluster_sizes), atol=1e-8)
    assert cluster_sizes.min() >= 1 - 1e-9  # a row for every cluster
    assert_allclose(targets / cluster_sizes[:, None], [sizes / sizes.sum()] * len(masses))


# The anchors


def test_anchors_targets_spread_each_group_as_its_anchors():
    summary = summary_of([[3, 1], [1, 2]], [0, 0], [80, 30])
    assert_allclose(fairness_targets("anchors", summary), [[60, 10], [20, 20]])


def test_a_group_without_anchors_is_spread_as_all_anchors_are():
    summary = summary_of([[3, 1, 0], [1, 3, 0], [1, 1, 0]], [0, 0, 0], [50, 40, 20])
    targets = fairness_targets("anchors", summary)
    assert_allclose(targets[:, 2], [20 * 4 / 10, 20 * 4 / 10, 20 * 2 / 10])
    assert_allclose(targets.sum(axis=0), [50, 40, 20])


def test_anchors_sized_targets_keep_odds_ratios_and_both_margins():
    counts = np.array([[5, 1, 2], [0, 4, 3], [2, 2, 9]])
    summary = summary_of(counts, [200, 100, 300], [300, 200, 100])
    targets = fairness_targets("anchors_sized", summary)
    assert_allclose(targets.sum(axis=0), [300, 200, 100])
    assert_allclose(targets.sum(axis=1), [200, 100, 300])

    def odds(table):
        return table[:1, :1] * table[1:, 1:] / (table[:1, 1:] * table[1:, :1])

    assert_allclose(odds(targets), odds(counts + 0.5), rtol=1e-9)


def test_paper_targets_are_those_of_anchors_only_for_proportional_quotas():
    proportional = summary_of([[3, 1], [3, 1]], [0, 0], [75, 25])
    assert_allclose(
        fairness_targets("paper", proportional), fairness_targets("anchors", proportional)
    )
    # The paper's example of quotas 2/2 on 418/182 rows: 300 are asked of each group (T1).
    skewed = summary_of([[1, 1], [1, 1]], [0, 0], [418, 182])
    assert_allclose(fairness_targets("paper", skewed).sum(axis=0), [300, 300])
    assert_allclose(fairness_targets("anchors", skewed).sum(axis=0), [418, 182])


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], 400, p=[0.7, 0.3])
    X = rng.normal(size=(400, 2)) + 8.0 * rng.integers(0, 3, 400)[:, None]
    return X, group


@pytest.mark.parametrize("graph", ["local", "reconstruction"])
def test_the_targets_of_a_fit_are_those_of_its_anchors(blobs, graph):
    X, group = blobs
    model = AnchorFairClustering(
        3, anchors="fdas", n_anchors=40, fairness="anchors", graph=graph, random_state=0
    ).fit(X, sensitive_features=group)
    cells = pd.crosstab(model.anchor_labels_, group[model.anchor_indices_]).to_numpy()
    sizes = pd.Series(group).value_counts().sort_index().to_numpy()
    assert_allclose(model.targets_, sizes * cells / cells.sum(axis=0))
    assert np.abs(model.counts_ - model.targets_).max() < 1


def test_a_summary_counts_anchors_and_adds_their_masses(blobs):
    X, group = blobs
    model = AnchorFairClustering(
        3, anchors="fdas", n_anchors=40, fairness="anchors_sized", random_state=0
    ).fit(X, sensitive_features=group)
    masses = np.bincount(model.anchor_labels_, weights=model.anchor_masses_)
    assert_allclose(model.targets_.sum(axis=1), masses, atol=1.0)
    assert_allclose(model.targets_.sum(axis=0), np.unique(group, return_counts=True)[1])


# Tables


def test_columns_of_a_table_are_in_the_order_of_the_sorted_names():
    group = np.repeat(list("abc"), [10, 30, 20])  # by size: b, c, a
    table = np.array([[1, 30, 5], [9, 0, 15]])
    costs = np.random.default_rng(0).normal(size=(60, 2))
    found = fair_assign(costs, sensitive_features=group, fairness=table)
    assert_array_equal(found.counts, table)
    assert found.groups.tolist() == ["a", "b", "c"]


GROUP = np.repeat(["x", "y"], [60, 30])
POINTS = np.random.default_rng(0).normal(size=(90, 2))
WRONG_TABLES = [
    ([[1, 2]], r"\(1, 2\).*\(2, 2\).*'x', 'y'"),
    ([1, 2, 3], r"\(3,\).*\(2, 2\)"),
    (np.ones((2, 4)), r"\(2, 4\).*\(2, 2\)"),
    ([[30, 20], [20, 10]], "'x' .*50 .*60"),
    ([[40, 5], [20, 26]], "'y' .*31 .*30"),
    ([[61, 20], [-1, 10]], "cluster 1.*'x'.*-1"),
    ([[60, np.nan], [0, 5]], "cluster 0.*'y'.*nan"),
    ([[60, 5], [0, np.inf]], "cluster 1.*'y'.*inf"),
]


@pytest.mark.parametrize(("table", "named"), WRONG_TABLES)
@pytest.mark.parametrize(
    "estimator",
    [
        AnchorFairClustering(2),
        AnchorFairClustering(2, graph="reconstruction"),
        AnchorFairClustering(2, graph=ReconstructionGraph(solver="admm")),
        FairKMeans(2),
    ],
    ids=["local", "newton", "admm", "FairKMeans"],
)
def test_a_table_that_nothing_meets_raises_with_group_and_numbers(estimator, table, named):
    estimator.set_params(fairness=table)
    with pytest.raises(ValueError, match=named):
        estimator.fit(POINTS, sensitive_features=GROUP)


@pytest.mark.parametrize("graph", ["local", "reconstruction", ReconstructionGraph(tol=1e-6)])
def test_the_papers_targets_need_admm(graph):
    model = AnchorFairClustering(
        2, fairness="paper", anchors=FDAS(quotas="paper"), graph=graph, random_state=0
    )
    with pytest.raises(ValueError, match="'paper'.*admm"):
        model.fit(POINTS, sensitive_features=GROUP)


def test_a_cluster_whose_anchors_represent_no_row_has_no_target():
    summary = summary_of([[2, 1], [1, 1]], [5.5, 0.0], [3.5, 2.0], whole=False)
    assert_allclose(fairness_targets("anchors_sized", summary), [[3.5, 2.0], [0.0, 0.0]])
