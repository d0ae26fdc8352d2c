"""Reports of runs with another constraint than the population's shares."""

import numpy as np
import pandas as pd
import pytest

from fairanchor import (
    AnchorFairClustering,
    BoundedFairAssignment,
    FairKMeans,
    FairnessTargets,
)
from fairanchor.constraints._bounds import ShareBounds
from fairanchor.metrics import worst_violation
from fairanchor.report import RunSummary, render_report, summarise_labels, summarise_run
from fairanchor.report._constraints import (
    ConstraintCheck,
    checks_of_estimator,
    describe_constraint,
    describe_violation,
)
from fairanchor.report._verdict import judge

BOUNDS = FairnessTargets(lower={"f": [0.3, 0.35, 0.0]}, upper={"f": 0.6}, min_size=100)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 600, p=[0.4, 0.6])
    race = rng.choice(["a", "b", "c"], 600, p=[0.5, 0.3, 0.2])
    X = rng.normal(size=(600, 2))
    X[:, 0] += 2.0 * (sex == "m")
    X[:, 1] += 1.0 * (race == "a")
    return X, pd.DataFrame({"sex": sex, "race": race})


def fitted(people, estimator, columns):
    X, frame = people
    return estimator.set_params(random_state=0).fit(X, sensitive_features=frame[columns])


def summary(people, estimator, columns):
    X, frame = people
    model = fitted(people, estimator, columns)
    return summarise_run(model, X, sensitive_features=frame[columns], plain_labels=None)


@pytest.mark.parametrize(
    ("estimator", "columns", "targets"),
    [
        (FairKMeans(3, tolerance=0.1), "race", 0.1),
        (AnchorFairClustering(3, tolerance=0.3), "race", 0.3),
        (FairKMeans(3, fairness=BOUNDS), "sex", BOUNDS),
        (AnchorFairClustering(3, fairness=BOUNDS), "sex", BOUNDS),
    ],
)
def test_violations_equal_the_metric(people, estimator, columns, targets):
    _, frame = people
    model = fitted(people, estimator, columns)
    [check] = checks_of_estimator(model)
    found = worst_violation(model.labels_, sensitive_features=frame[columns], targets=targets)
    assert check.worst == pytest.approx(found, abs=1e-9)
    assert check.worst == pytest.approx(model.worst_violation_, abs=1e-9)
    expected = pd.crosstab(model.labels_, frame[columns])
    assert check.groups == list(expected.columns)
    np.testing.assert_array_equal(check.counts, expected)


@pytest.mark.parametrize("columns", [["race"], ["sex", "race"]])
def test_labels_of_the_linear_program_are_judged_by_its_bounds(people, columns):
    _, frame = people
    model = fitted(people, BoundedFairAssignment(3, tolerance=0.2), columns)
    checks = checks_of_estimator(model)
    for check, column in zip(checks, columns, strict=True):
        found = worst_violation(model.labels_, sensitive_features=frame[column], targets=0.2)
        assert check.worst == pytest.approx(found, abs=1e-9)
        assert check.groups == sorted(set(frame[column]))
    run = summary(people, BoundedFairAssignment(3, upper={"a": 0.6}), ["race"])
    assert run.checks[0].share_text(0, 0).endswith("to 60.00%")
    assert "within given bounds" in run.constraint
    assert "Bounds and actual shares" in render_report(run)


def test_bounds_have_their_groups_in_the_order_of_the_names(people):
    # Canonical order is by size: "m" before "f".
    model = fitted(people, FairKMeans(3, fairness=BOUNDS), "sex")
    [check] = checks_of_estimator(model)
    np.testing.assert_allclose(check.bounds.lower[:, 0], [0.3, 0.35, 0.0])
    np.testing.assert_allclose(check.bounds.upper, [[0.6, 1.0]] * 3)
    assert check.size_text(0) == "at least 100"
    assert not check.is_same_for_all
    assert check.share_text(0, 0) == "30.00% to 60.00%"
    assert check.share_text(2, 0) == "at most 60.00%"
    assert check.share_text(0, 1) == "any"


@pytest.mark.slow
def test_separate_attributes_are_judged_each_by_itself(people):
    run = summary(people, FairKMeans(3, attributes="separate"), ["sex", "race"])
    assert [check.attribute for check in run.checks] == ["sex", "race"]
    assert "separately to “sex”, “race”" in run.constraint
    verdict = judge(run)
    assert verdict.answer in ("Yes", "Yes, to less than one row")
    assert verdict.level == "good"
    page = render_report(run)
    assert "Bounds and actual shares: sex" in page
    assert "Bounds and actual shares: race" in page
    assert "for all combinations of the columns" in page


def test_a_table_of_targets_is_judged_by_its_own_shares(people):
    X, frame = people
    model = fitted(people, AnchorFairClustering(3, fairness="anchors"), "sex")
    run = summarise_run(model, X, sensitive_features=frame["sex"], plain_labels=None)
    [check] = run.checks
    assert check.worst == pytest.approx(np.abs(model.counts_ - model.targets_).max())
    assert judge(run).answer in ("Yes", "Yes, to less than one row")


@pytest.mark.parametrize("estimator", [FairKMeans(3), AnchorFairClustering(3)])
def test_exact_proportions_are_judged_by_the_population(people, estimator):
    run = summary(people, estimator, "sex")
    assert run.checks is None
    assert judge(run).answer in ("Yes", "Yes, as nearly as whole rows allow")
    assert "Bounds and actual shares" not in render_report(run)


def test_a_least_size_is_part_of_the_constraint(people):
    run = summary(people, FairKMeans(3, min_cluster_size=150), "sex")
    assert run.constraint.endswith("A cluster has at least 150 rows.")
    assert run.checks[0].size_text(0) == "at least 150"
    assert judge(run).level == "good"


def run_with(counts, lower, upper, *, least=0.0, greatest=np.inf, **known):
    """A run with these counts and bounds on shares and sizes."""
    counts = np.asarray(counts)
    bounds = ShareBounds.of_shares(lower, upper, len(counts), least=least, greatest=greatest)
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    labels, codes = np.divmod(cells, counts.shape[1])
    checks = [ConstraintCheck(None, ["f", "m"], counts, bounds)]
    return RunSummary(title="t", labels=labels, group_codes=codes, group_names=["f", "m"],
                      checks=checks, constraint="The constraint: that.", **known)  # fmt: skip


ANSWERS = [
    ([[40, 60], [50, 50]], {}, "Yes", "good"),
    ([[39, 61], [50, 50]], {}, "No", "poor"),
    ([[3, 5], [50, 50]], {}, "Yes, to less than one row", "good"),
    ([[40, 60], [50, 50]], {"greatest": 90}, "No", "poor"),
    ([[39, 61], [50, 50]], {"converged": False}, "Not converged", "poor"),
    ([[39, 61], [50, 50]], {"sample_weight": np.ones(200)}, "No", "poor"),
    ([[3, 5], [50, 50]], {"sample_weight": np.ones(108)}, "Yes, to less than one row", "good"),
    ([[39, 61], [50, 50]], {"sample_weight": np.r_[2.0, np.ones(199)]},
     "Missed by no more than the heaviest row", "fair"),
    ([[30, 70], [50, 50]], {"sample_weight": np.r_[2.0, np.ones(199)]}, "No", "poor"),
]  # fmt: skip


@pytest.mark.parametrize(("counts", "known", "answer", "level"), ANSWERS)
def test_the_answer_follows_from_the_violation(counts, known, answer, level):
    run = run_with(counts, [0.4, 0.0], [0.5, 1.0], **known)
    verdict = judge(run)
    assert (verdict.answer, verdict.level) == (answer, level)


def test_the_worst_cell_is_named_with_its_bounds():
    run = run_with([[35, 65], [50, 50]], [0.4, 0.0], [0.5, 1.0])
    assert describe_violation(run.checks, ["c0", "c1"]) == (
        "Worst violation: group “f” is 35.00% of cluster “c0”, expected 40.00% to 50.00%: off by "
        "5.00 rows."
    )
    run = run_with([[40, 60], [50, 50]], [0.4, 0.0], [0.5, 1.0], least=150)
    assert describe_violation(run.checks, [0, 1]) == (
        "Worst violation: cluster 0 has a size of 100, expected at least 150."
    )


def test_of_many_groups_those_nearest_to_a_bound_are_shown():
    counts = np.tile(np.arange(20, 40), (2, 1))
    shares = counts[0] / counts[0].sum()
    counts[:, 7] += 9
    counts[1, 8] += 1
    names = [f"group{r:02d}" for r in range(20)]
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    labels, codes = np.divmod(cells, 20)
    bounds = ShareBounds.of_shares(0.5 * shares, shares, 2)
    run = RunSummary(title="t", labels=labels, group_codes=codes, group_names=names,
                     checks=[ConstraintCheck(None, names, counts, bounds)])  # fmt: skip
    page = render_report(run)
    start = page.index("Bounds and actual shares")
    table = page[start : page.index("</table>", start)]
    assert "group07" in table
    assert table.count("group") == 8


@pytest.mark.parametrize(
    ("fairness", "tolerance", "words"),
    [
        (
            "population",
            0.2,
            "of its share of all rows: at least 0.8 times and at most 1.25",
        ),
        ("population", 1.0, "a tolerance of 1 allows any share"),
        (
            "anchors_sized",
            0.0,
            "the anchors of the cluster, fitted to the sizes in the data",
        ),
        ("anchors", 0.0, "equals its share of the anchors"),
        (np.ones((2, 2)), 0.0, "equals its share in a given table"),
        (FairnessTargets(lower={"f": 0.3}), 0.0, "within given bounds"),
    ],
)
def test_the_constraint_is_described_in_words(fairness, tolerance, words):
    assert words in describe_constraint(fairness, tolerance)


def test_given_labels_are_judged_by_the_targets(people):
    _, frame = people
    labels = np.arange(600) % 3
    for targets in (0.5, FairnessTargets(upper={"f": 0.2})):
        run = summarise_labels(labels, sensitive_features=frame["sex"], targets=targets)
        expected = worst_violation(labels, sensitive_features=frame["sex"], targets=targets)
        assert run.checks[0].worst == pytest.approx(expected)
        assert judge(run).answer == ("No" if expected >= 1 else "Yes")
    run = summarise_labels(
        labels, sensitive_features=frame, targets=[0.5, 1.0], attributes="separate"
    )
    assert [check.attribute for check in run.checks] == ["sex", "race"]
    assert run.checks[1].worst == 0.0
    assert "“sex”, “race”" in run.constraint


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attributes": "separate"}, "attributes='separate' needs targets"),
        ({"attributes": "each", "targets": 0.1}, "attributes='each' should be"),
        ({"attributes": "separate", "targets": [0.1]}, "has 1 entries, expected 2"),
        ({"targets": 2.0}, "tolerance=2.0 should be between 0"),
    ],
)
def test_invalid_targets_raise_errors(people, settings, message):
    with pytest.raises(ValueError, match=message):
        summarise_labels(np.arange(600) % 3, sensitive_features=people[1], **settings)


def test_names_in_the_constraint_are_shown_and_never_run():
    attack = "<script>alert(1)</script>"
    labels, codes = np.arange(40) % 2, np.arange(40) // 2 % 2
    counts = np.full((2, 2), 10)
    bounds = ShareBounds.of_shares([0.6, 0.0], [1.0, 1.0], 2)
    each = [ConstraintCheck(name, [attack, "b"], counts, bounds) for name in (attack, "race")]
    run = RunSummary(title="t", labels=labels, group_codes=codes, group_names=[attack, "b"],
                     cluster_names=[attack, "c"], checks=each, constraint=attack)  # fmt: skip
    page = render_report(run)
    assert attack not in page
    assert "Bounds and actual shares: &lt;script&gt;alert(1)" in page
    assert "off by 2.00 rows" in page
