"""``fairanchor audit`` by what was asked for: a tolerance, targets, separate attributes."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from fairanchor.metrics import worst_violation

AUDIT = ("audit", "labels.csv", "--sensitive", "sex")


@pytest.fixture
def labels(folder):
    """Two clusters, the first with more men than its share."""
    rng = np.random.default_rng(7)
    sex = np.array(folder.people["sex"].to_pylist())
    cluster = (rng.random(len(sex)) < np.where(sex == "m", 0.45, 0.55)).astype(int)
    race = folder.people["race"]
    csv.write_csv(pa.table({"cluster": cluster, "sex": sex, "race": race}), "labels.csv")
    return cluster


def test_the_violation_is_that_of_the_metric(folder, labels, run):
    sex = folder.people["sex"].to_pylist()
    for tolerance in (0.0, 0.05, 0.2):
        expected = worst_violation(labels, sensitive_features=sex, targets=tolerance)
        code = 3 if expected >= 1 else 0
        result = run(*AUDIT, "--tolerance", tolerance, "--json", code=code)
        assert json.loads(result.stdout)["worst_violation"] == pytest.approx(expected)
        assert ("The constraint is missed by" in result.stderr) == (code == 3)
    assert expected == 0.0


def test_without_a_request_nothing_is_said_of_one(folder, labels, run):
    result = run(*AUDIT, "--json")
    assert json.loads(result.stdout)["worst_violation"] is None
    assert "constraint" not in result.stderr


def test_lines_and_page_say_what_was_asked_for_and_where_it_is_missed(folder, labels, run):
    result = run(*AUDIT, "--tolerance", 0.05, "--report", "page.html", code=3)
    assert "within a tolerance of 0.05" in result.stdout
    assert "Worst violation: group “" in result.stdout
    page = (folder / "page.html").read_text()
    assert "within a tolerance of 0.05" in page
    assert "<strong>No.</strong>" in page


def test_separate_attributes_are_audited_each_by_itself(folder, labels, run):
    options = ("--sensitive", "race", "--attributes", "separate", "--tolerance", 0.5)
    found = json.loads(run(*AUDIT, *options, "--json").stdout)["attributes"]
    assert list(found) == ["sex", "race"]
    race = np.array(folder.people["race"].to_pylist())
    expected = [[int(((labels == l) & (race == r)).sum()) for r in (1, 2, 3)] for l in (0, 1)]
    assert found["race"]["counts"] == expected
    assert found["race"]["groups"] == [1, 2, 3]
    text = run(*AUDIT, *options).stdout
    assert "race by itself: balance" in text


def test_targets_of_a_file_are_audited(folder, labels, run):
    (folder / "targets.csv").write_text("sex,cluster,upper,max_size\nf,0,0.1,\n,1,,1000\n")
    result = run(*AUDIT, "--targets", "targets.csv", "--json", code=3)
    women = int(((labels == 0) & (np.array(folder.people["sex"].to_pylist()) == "f")).sum())
    expected = women - 0.1 * (labels == 0).sum()
    assert json.loads(result.stdout)["worst_violation"] == pytest.approx(expected)


def test_targets_by_number_need_clusters_with_numbers(folder, labels, run):
    (folder / "targets.csv").write_text("sex,cluster,upper\nf,0,0.9\n")
    table = csv.read_csv("labels.csv")
    named = pa.array([["east", "west"][l] for l in labels])
    csv.write_csv(table.set_column(0, "cluster", named), "labels.csv")
    result = run(*AUDIT, "--targets", "targets.csv", code=1)
    assert "number clusters 0..1, but" in result.stderr
    assert "east, west" in result.stderr
    (folder / "targets.csv").write_text("sex,upper\nf,0.9\n")
    run(*AUDIT, "--targets", "targets.csv")


def test_a_missed_constraint_and_a_crossed_threshold_are_both_named(folder, labels, run):
    options = ("--tolerance", 0, "--min-relative-balance", 0.99)
    result = run(*AUDIT, *options, code=3)
    assert "The constraint is missed by" in result.stderr
    assert "is below --min-relative-balance 0.99" in result.stderr
