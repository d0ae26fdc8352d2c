"""Metrics against their formulas written out with loops, and the laws they must obey."""

from fractions import Fraction
from itertools import permutations
from math import log

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fairanchor.metrics import (
    balance_of_table,
    balance_score,
    clustering_accuracy_score,
    clustering_cost,
    contingency_table,
    dataset_balance,
    mnce_of_table,
    mnce_score,
    nmi_score,
    relative_balance_of_table,
    relative_balance_score,
)
from tiers import first_is_fast

FAIRNESS_SCORES = [balance_score, relative_balance_score, mnce_score]
relaxed = settings(deadline=None)

# A labelled data set: one (cluster, group) pair per row.
rows_of_pairs = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=40)


# Oracles: loops over rows and exact fractions, no code shared with the library


def count(labels, groups, weights=None):
    """Weight by (cluster, group), as a dict of dicts over what occurs."""
    weights = [1] * len(labels) if weights is None else weights
    all_groups = {g for g, w in zip(groups, weights, strict=True) if w > 0}
    cells = {}
    for label, group, weight in zip(labels, groups, weights, strict=True):
        if weight > 0:
            cell = cells.setdefault(label, dict.fromkeys(all_groups, Fraction(0)))
            cell[group] += Fraction(weight)
    return cells


def slow_balance(cells):
    return min(min(cell.values()) / max(cell.values()) for cell in cells.values())


def slow_relative_balance(cells):
    total = sum(sum(cell.values()) for cell in cells.values())
    worst = Fraction(1)
    for cell in cells.values():
        size = sum(cell.values())
        for group, mass in cell.items():
            share = sum(other[group] for other in cells.values()) / total
            worst = min(worst, mass / (size * share))
            if mass:
                worst = min(worst, size * share / mass)
    return worst


def slow_entropy(masses):
    total = sum(masses)
    return -sum(float(m / total) * log(m / total) for m in masses if m)


def slow_mnce(cells):
    of_all = slow_entropy(
        [sum(cell[g] for cell in cells.values()) for g in next(iter(cells.values()))]
    )
    if of_all == 0:
        return 1.0
    return min(slow_entropy(list(cell.values())) for cell in cells.values()) / of_all


ORACLES = {
    balance_score: slow_balance,
    relative_balance_score: slow_relative_balance,
    mnce_score: slow_mnce,
}


# Fairness scores


@pytest.mark.parametrize("score", FAIRNESS_SCORES)
@relaxed
@given(pairs=rows_of_pairs)
def test_scores_equal_their_formula(score, pairs):
    labels, groups = zip(*pairs, strict=True)
    expected = float(ORACLES[score](count(labels, groups)))
    assert_allclose(score(labels, sensitive_features=groups), expected, atol=1e-12)


@pytest.mark.parametrize("score", FAIRNESS_SCORES)
@relaxed
@given(pairs=rows_of_pairs, data=st.data())
def test_weighted_scores_equal_their_formula(score, pairs, data):
    labels, groups = zip(*pairs, strict=True)
    quarters = st.integers(0, 12).map(lambda quarter: quarter / 4)
    weights = data.draw(st.lists(quarters, min_size=len(pairs), max_size=len(pairs)))
    assume(sum(weights) > 0)
    expected = float(ORACLES[score](count(labels, groups, weights)))
    value = score(labels, sensitive_features=groups, sample_weight=weights)
    assert_allclose(value, expected, atol=1e-12)


@pytest.mark.parametrize("score", FAIRNESS_SCORES)
@relaxed
@given(pairs=rows_of_pairs, data=st.data())
def test_integer_weights_equal_repeated_rows(score, pairs, data):
    labels, groups = np.array(pairs).T
    weights = data.draw(st.lists(st.integers(0, 3), min_size=len(pairs), max_size=len(pairs)))
    assume(sum(weights) > 0)
    repeated = score(np.repeat(labels, weights), sensitive_features=np.repeat(groups, weights))
    assert score(labels, sensitive_features=groups, sample_weight=weights) == repeated


@pytest.mark.parametrize("score", FAIRNESS_SCORES)
@relaxed
@given(pairs=rows_of_pairs, seed=st.integers(0, 2**32 - 1))
def test_scores_ignore_names_and_order(score, pairs, seed):
    rng = np.random.default_rng(seed)
    labels, groups = np.array(pairs).T
    renamed_labels = rng.permutation(5)[labels] - 2
    renamed_groups = np.array(["d", "b", "a", "c"])[rng.permutation(4)][groups]
    order = rng.permutation(len(pairs))
    assert_allclose(
        score(renamed_labels[order], sensitive_features=renamed_groups[order]),
        score(labels, sensitive_features=groups),
        rtol=1e-13,
    )


@relaxed
@given(pairs=rows_of_pairs)
def test_no_clustering_exceeds_the_balance_of_the_data(pairs):
    labels, groups = np.array(pairs).T
    assert balance_score(labels, sensitive_features=groups) <= dataset_balance(groups)


@pytest.mark.parametrize("score", FAIRNESS_SCORES)
@relaxed
@given(pairs=rows_of_pairs)
def test_scores_are_in_the_unit_interval(score, pairs):
    labels, groups = np.array(pairs).T
    assert 0.0 <= score(labels, sensitive_features=groups) <= 1.0


@relaxed
@given(
    group_sizes=st.lists(st.integers(1, 50), min_size=1, max_size=5),
    multiples=st.lists(st.integers(1, 50), min_size=1, max_size=5),
)
def test_exactly_proportional_clusters_score_exactly_one(group_sizes, multiples):
    table = np.outer(multiples, group_sizes)
    assert relative_balance_of_table(table) == 1.0
    assert_allclose(mnce_of_table(table), 1.0, rtol=1e-13)
    assert balance_of_table(table) == min(group_sizes) / max(group_sizes)


@pytest.mark.parametrize("score", FAIRNESS_SCORES)
def test_a_cluster_of_one_group_scores_zero(score):
    value = score([0, 0, 0, 1, 1], sensitive_features=["a", "b", "a", "b", "b"])
    assert value == 0.0
    assert not np.signbit(value)  # "-0.0" in a report would puzzle its reader


@pytest.mark.parametrize("score", FAIRNESS_SCORES)
def test_a_single_group_is_perfectly_fair(score):
    assert score([0, 1, 1], sensitive_features=["a", "a", "a"]) == 1.0


def test_mnce_in_any_base_of_the_logarithm():
    # Entropies in bits by hand: cluster 0 has 1 of 2 rows in each group, 1 bit; cluster 1
    # has 1 of 4; the data 2 of 6.
    def bits(share):
        return -share * np.log2(share) - (1 - share) * np.log2(1 - share)

    value = mnce_score([0, 0, 1, 1, 1, 1], sensitive_features=list("abbbab"))
    assert_allclose(value, bits(1 / 4) / bits(1 / 3), rtol=1e-14)


def test_several_sensitive_columns_mean_their_intersection():
    frame = pd.DataFrame({"sex": list("mfmfmf"), "young": [True, True, False, False, True, False]})
    labels = [0, 0, 0, 0, 1, 1]
    joint = [f"{sex}{young}" for sex, young in zip(frame.sex, frame.young, strict=True)]
    assert_array_equal(
        contingency_table(labels, sensitive_features=frame),
        [[1, 1, 1, 1], [1, 0, 0, 1]],
    )
    for score in FAIRNESS_SCORES:
        assert score(labels, sensitive_features=frame) == score(labels, sensitive_features=joint)


# Tables


def test_contingency_table_counts_in_sorted_order():
    table = contingency_table([7, -1, 7, 7], sensitive_features=["z", "b", "b", "z"])
    assert_array_equal(table, [[1, 0], [1, 2]])
    weighted = contingency_table(
        [7, -1, 7, 7], sensitive_features=["z", "b", "b", "z"], sample_weight=[0.5, 2, 0, 1]
    )
    assert_array_equal(weighted, [[2, 0], [0, 1.5]])


@pytest.mark.parametrize("measure", [balance_of_table, relative_balance_of_table, mnce_of_table])
def test_empty_clusters_and_absent_groups_do_not_count(measure):
    table = np.array([[3, 1, 2], [1, 1, 4]])
    padded = np.insert(np.insert(table, 1, 0, axis=0), 2, 0, axis=1)
    assert measure(padded) == measure(table)


@pytest.mark.parametrize("measure", [balance_of_table, relative_balance_of_table, mnce_of_table])
def test_a_table_without_rows_is_refused(measure):
    with pytest.raises(ValueError, match="no row in any cluster"):
        measure(np.zeros((2, 3)))


def test_dataset_balance_is_smallest_over_largest_group():
    assert dataset_balance(["a"] * 6 + ["b"] * 4 + ["c"] * 3) == 0.5
    assert dataset_balance(["a", "b"], sample_weight=[1, 4]) == 0.25


# Accuracy


@relaxed
@given(pairs=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=25))
def test_accuracy_is_the_best_over_all_matchings(pairs):
    classes, labels = np.array(pairs).T
    best = max((np.array(p)[labels] == classes).mean() for p in permutations(range(4)))
    assert_allclose(clustering_accuracy_score(classes, labels), best, rtol=1e-14)


def test_accuracy_matches_one_cluster_to_one_class_at_most():
    # Three pure clusters of one class: only one of them can be matched.
    assert clustering_accuracy_score(["a"] * 6, [0, 0, 0, 1, 1, 2]) == 0.5
    # Three classes in one cluster: only the largest is matched.
    assert clustering_accuracy_score([0, 0, 0, 1, 1, 2], [5] * 6) == 0.5


def test_accuracy_is_one_for_renamed_classes():
    assert clustering_accuracy_score(["x", "y", "y", "z"], [2, 0, 0, 1]) == 1.0


# Normalised mutual information


def by_hand_nmi(classes, labels, normaliser):
    n = len(classes)

    def entropy(values):
        shares = [list(values).count(v) / n for v in set(values)]
        return -sum(share * log(share) for share in shares)

    pairs = list(zip(classes, labels, strict=True))
    mutual = entropy(classes) + entropy(labels) - entropy(pairs)
    return mutual / normaliser(entropy(classes), entropy(labels))


@pytest.mark.parametrize(
    ("average_method", "normaliser"),
    [
        (None, max),
        ("max", max),
        ("min", min),
        ("arithmetic", lambda a, b: (a + b) / 2),
        ("geometric", lambda a, b: (a * b) ** 0.5),
    ],
)
@pytest.mark.parametrize("seed", first_is_fast(range(3)))
def test_nmi_equals_entropies_by_hand(average_method, normaliser, seed):
    rng = np.random.default_rng(seed)
    classes, labels = rng.integers(3, size=40).tolist(), rng.integers(5, size=40).tolist()
    labels = [
        cls if rng.random() < 0.5 else label for cls, label in zip(classes, labels, strict=True)
    ]
    options = {} if average_method is None else {"average_method": average_method}
    expected = by_hand_nmi(classes, labels, normaliser)
    assert_allclose(nmi_score(classes, labels, **options), expected, rtol=1e-10)


def test_nmi_by_maximum_is_the_smallest_of_the_normalisations():
    classes, labels = [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 1, 1]
    values = [
        nmi_score(classes, labels, average_method=method)
        for method in ("max", "arithmetic", "geometric", "min")
    ]
    assert nmi_score(classes, labels) == values[0] == min(values)
    assert values[0] < values[1]


# Cost


@pytest.mark.parametrize("seed", first_is_fast(range(3)))
def test_cost_equals_half_the_mean_pairwise_distances(seed):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(30, 4)), rng.integers(3, size=30)
    # Huygens: the sum of squares around the mean from pairwise distances, without a mean.
    expected = 0.0
    for cluster in range(3):
        members = X[labels == cluster]
        pairwise = ((members[:, None] - members[None]) ** 2).sum()
        expected += pairwise / (2 * len(members))
    assert_allclose(clustering_cost(X, labels), expected, rtol=1e-12)


def test_cost_with_integer_weights_equals_repeated_rows():
    rng = np.random.default_rng(0)
    X, labels, weights = (
        rng.normal(size=(20, 3)),
        rng.integers(3, size=20),
        rng.integers(4, size=20),
    )
    assert_allclose(
        clustering_cost(X, labels, sample_weight=weights),
        clustering_cost(np.repeat(X, weights, axis=0), np.repeat(labels, weights)),
        rtol=1e-12,
    )


def test_cost_of_singletons_and_of_equal_rows_is_zero():
    assert clustering_cost([[1.0], [2.0]], [0, 1]) == 0.0
    assert clustering_cost([[1.5], [1.5]], [0, 0]) == 0.0
    assert clustering_cost([[1.0], [9.0]], [0, 1], sample_weight=[1, 0]) == 0.0


# Bad input


@pytest.mark.parametrize("score", [*FAIRNESS_SCORES, contingency_table])
@pytest.mark.parametrize(
    ("labels", "groups", "weights", "match"),
    [
        ([0, 1], ["a"], None, "sensitive_features has 1 rows, labels has 2: expected"),
        ([0, 1], ["a", None], None, "1 missing values in 2 rows, first at row 1"),
        ([0, 1], ["a", float("nan")], None, "1 missing values in 2 rows, first at row 1"),
        ([0, 1], ["a", "b"], [1, -1], "1 negative values, smallest -1"),
        ([0, 1], ["a", "b"], [0, 0], "zero for every row|at least one non-zero"),
        ([0, 1], ["a", "b"], [1, np.nan], "NaN"),
        ([0, 1], ["a", "b"], [1, 2, 3], "sample_weight.shape == "),
        ([[0, 1], [1, 0]], ["a", "b"], None, "1d array"),
        ([], [], None, "labels is empty"),
    ],
)
def test_bad_input_is_refused(score, labels, groups, weights, match):
    with pytest.raises(ValueError, match=match):
        score(labels, sensitive_features=groups, sample_weight=weights)


def test_accuracy_and_cost_refuse_bad_input():
    for score in (clustering_accuracy_score, nmi_score):
        with pytest.raises(ValueError, match="y_true has 3 rows, labels has 2: expected"):
            score([0, 1, 1], [0, 1])
    with pytest.raises(ValueError, match="labels is empty"):
        clustering_accuracy_score([], [])
    with pytest.raises(ValueError, match="X has 2 rows, labels has 1: expected"):
        clustering_cost([[0.0], [1.0]], [0])
    with pytest.raises(ValueError, match="negative"):
        clustering_cost([[0.0], [1.0]], [0, 1], sample_weight=[1, -1])
