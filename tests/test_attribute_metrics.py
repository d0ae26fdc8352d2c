"""Measures of several attributes against loops over clusters and groups."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose

from fairanchor import FairnessTargets, metrics
from fairanchor.exceptions import FairnessWarning
from fairanchor.metrics import (
    attribute_balance_scores,
    attribute_mnce_scores,
    attribute_relative_balance_scores,
    cost_ratio_score,
    worst_violation,
)


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"sex": rng.choice(["f", "m"], size=200), "race": rng.choice(list("xyz"), size=200)}
    )


@pytest.fixture
def labels():
    return np.random.default_rng(1).integers(0, 4, size=200)


def slow_violation(labels, groups, tolerance, weights):
    """The definition, cell by cell."""
    worst = 0.0
    for name in np.unique(groups):
        share = weights[groups == name].sum() / weights.sum()
        upper = 1.0 if tolerance == 1 else min(1.0, share / (1 - tolerance))
        for cluster in np.unique(labels):
            size = weights[labels == cluster].sum()
            own = weights[(labels == cluster) & (groups == name)].sum()
            worst = max(worst, (1 - tolerance) * share * size - own, own - upper * size)
    return worst


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("several", "single"),
    [
        (attribute_balance_scores, metrics.balance_score),
        (attribute_relative_balance_scores, metrics.relative_balance_score),
        (attribute_mnce_scores, metrics.mnce_score),
    ],
)
def test_scores_of_a_frame_are_those_of_its_columns(frame, labels, several, single, weighted):
    weight = np.random.default_rng(2).uniform(size=200) if weighted else None
    scores = several(labels, sensitive_features=frame, sample_weight=weight)
    assert list(scores) == ["sex", "race"]
    for title, score in scores.items():
        expected = single(labels, sensitive_features=frame[title], sample_weight=weight)
        assert_allclose(score, expected)


def test_columns_without_titles_are_numbered(frame, labels):
    expected = list(attribute_balance_scores(labels, sensitive_features=frame).values())
    plain = attribute_balance_scores(labels, sensitive_features=frame.to_numpy())
    assert plain == {0: expected[0], 1: expected[1]}
    arrow = attribute_balance_scores(labels, sensitive_features=pa.Table.from_pandas(frame))
    assert arrow == {"sex": expected[0], "race": expected[1]}
    twins = frame.set_axis(["sex", "sex"], axis=1)
    assert list(attribute_balance_scores(labels, sensitive_features=twins)) == [0, 1]
    single = attribute_balance_scores(labels, sensitive_features=frame["sex"])
    assert single == {0: expected[0]}


@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_violation_is_that_of_the_definition(frame, labels, tolerance, weighted):
    weight = np.random.default_rng(2).uniform(size=200) if weighted else None
    w = np.ones(200) if weight is None else weight
    by_column = [slow_violation(labels, frame[k].to_numpy(), tolerance, w) for k in frame]
    joint = (frame["sex"] + frame["race"]).to_numpy()
    given = {"sensitive_features": frame, "sample_weight": weight}
    separate = worst_violation(labels, targets=tolerance, attributes="separate", **given)
    assert_allclose(separate, max(by_column), atol=1e-9)
    together = worst_violation(labels, targets=tolerance, **given)
    assert_allclose(together, slow_violation(labels, joint, tolerance, w), atol=1e-9)


def test_proportional_labels_have_no_violation():
    groups = np.tile(["a", "b"], 10)
    labels = np.repeat(["left", "right"], 10)
    assert worst_violation(labels, sensitive_features=groups) == 0.0


def test_targets_of_each_cluster_are_compared_with_its_label():
    groups = np.array(["a", "a", "b", "b", "a", "b", "b", "b"])
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    targets = FairnessTargets(shares=[[0.5, 0.5], [0.25, 0.75]])
    assert worst_violation(labels, sensitive_features=groups, targets=targets) == 0.0
    assert_allclose(worst_violation(1 - labels, sensitive_features=groups, targets=targets), 1.0)
    sizes = FairnessTargets(tolerance=1.0, min_size=[6, 1])
    assert_allclose(worst_violation(labels, sensitive_features=groups, targets=sizes), 2.0)


def test_each_attribute_may_have_its_own_targets(frame, labels):
    each = [FairnessTargets(tolerance=1.0), 0.1]
    value = worst_violation(labels, sensitive_features=frame, targets=each, attributes="separate")
    expected = slow_violation(labels, frame["race"].to_numpy(), 0.1, np.ones(200))
    assert_allclose(value, expected)


def test_the_cost_ratio_is_a_quotient_of_costs():
    X = np.array([[0.0], [1.0], [10.0], [11.0]])
    best, fair = [0, 0, 1, 1], [0, 1, 0, 1]
    assert_allclose(cost_ratio_score(X, fair, best), 100.0)
    assert_allclose(cost_ratio_score(X, fair, 1.0), 100.0)
    assert cost_ratio_score(X, best, best) == 1.0
    assert cost_ratio_score(X, [0, 1, 2, 3], [0, 1, 2, 3]) == 1.0
    assert cost_ratio_score(X, best, [0, 1, 2, 3]) == np.inf
    weight = [1.0, 1.0, 0.0, 0.0]
    assert_allclose(cost_ratio_score(X, best, 0.25, sample_weight=weight), 2.0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"attributes": "joint"}, ValueError, "attributes='joint' should be 'intersection' or"),
        ({"targets": [0.0, 0.1]}, ValueError, "targets has 2 entries, expected 1"),
        ({"targets": [0.0], "attributes": "separate"}, ValueError, "1 entries, expected 2"),
        ({"targets": 1.5}, ValueError, "tolerance=1.5 should be between"),
        ({"targets": "fair"}, TypeError, "targets='fair' should be a tolerance"),
        (
            {"targets": FairnessTargets(min_size=[0, 0])},
            ValueError,
            r"each of 2 clusters: expected labels 0..1, got \[0, 1, 2, 3\]",
        ),
    ],
)
def test_bad_options_are_refused(frame, labels, options, error, message):
    with pytest.raises(error, match=message):
        worst_violation(labels, sensitive_features=frame, **options)


@pytest.mark.parametrize("score", [worst_violation, metrics.attribute_balance_scores])
@pytest.mark.parametrize("columns", [["sex"], ["sex", "race"]])
def test_labels_of_other_rows_are_refused_as_by_all_metrics(frame, labels, score, columns):
    expected = f"sensitive_features has {len(frame)} rows, labels has 2: expected as many labels"
    with pytest.raises(ValueError, match=expected):
        score(labels[:2], sensitive_features=frame[columns])


def test_a_negative_reference_is_refused():
    with pytest.raises(ValueError, match="reference=-1.0 should be a cost"):
        cost_ratio_score(np.zeros((2, 1)), [0, 1], -1.0)


def test_no_groups_are_one_group_and_warned_about(labels):
    with pytest.warns(FairnessWarning, match="sensitive_features is None"):
        assert worst_violation(labels, sensitive_features=None) == 0.0
