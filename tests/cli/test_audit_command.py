"""``fairanchor audit``: measures of labels made by any tool."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from fairanchor.cli import _audit
from fairanchor.metrics import balance_score, mnce_score, relative_balance_score


@pytest.fixture
def frame(folder):
    """People with clusters that some other tool made, noise and all."""
    frame = folder.people.to_pandas()
    frame["segment"] = np.where(frame["income"] > 40_000, "rich", "poor")
    frame.to_csv("segments.csv", index=False)
    return frame


BASIC = ("audit", "segments.csv", "--cluster", "segment", "--sensitive", "sex")


def test_measures_equal_those_of_the_library(frame, run):
    summary = json.loads(run(*BASIC, "--json", "--quiet").stdout)
    for name, score in [
        ("balance", balance_score),
        ("relative_balance", relative_balance_score),
        ("mnce", mnce_score),
    ]:
        expected = score(frame["segment"], sensitive_features=frame["sex"])
        assert summary[name] == pytest.approx(expected)
    assert summary["clusters"] == ["poor", "rich"]
    assert summary["groups"] == ["f", "m"]
    assert_array_equal(summary["counts"], pd.crosstab(frame["segment"], frame["sex"]))


def test_the_worst_cell_is_the_farthest_from_proportional(frame, run):
    summary = json.loads(run(*BASIC, "--json", "--quiet").stdout)
    counts = pd.crosstab(frame["segment"], frame["sex"])
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / len(frame)
    ratios = np.minimum(counts / expected, expected / counts)
    cell = summary["worst_cell"]
    assert ratios.loc[cell["cluster"], cell["group"]] == ratios.to_numpy().min()
    assert cell["rows"] == counts.loc[cell["cluster"], cell["group"]]


def test_the_table_is_the_output(frame, run):
    result = run(*BASIC)
    assert "rich" in result.stdout
    assert "relative balance" in result.stdout
    assert result.stderr == ""


def test_labels_of_fit_are_audited_with_the_table_they_came_from(folder, run):
    options = ("-k", 3, "--sensitive", "sex", "--id", "person", "--jobs", 1)
    fitted = run("fit", "people.csv", *options, "-o", "labels.csv", "--json")
    audit = ("audit", "labels.csv", "--data", "people.parquet", "--sensitive", "sex", "--json")
    expected = json.loads(fitted.stdout)["counts"]
    assert json.loads(run(*audit).stdout)["counts"] == expected
    shuffled = pd.read_csv("labels.csv", dtype=str).sample(frac=1, random_state=0)
    shuffled.to_csv("shuffled.csv", index=False)
    by_position = run("audit", "shuffled.csv", *audit[2:])
    assert "Warning: The column 'person' of shuffled.csv differs" in by_position.stderr
    by_id = ("audit", "shuffled.csv", *audit[2:], "--id", "person")
    assert json.loads(run(*by_id).stdout)["counts"] == expected


def test_rows_without_a_cluster_are_not_counted_and_said(frame, run):
    frame.loc[[1, 4], "segment"] = None
    frame.to_csv("segments.csv", index=False)
    result = run(*BASIC, "--json")
    assert json.loads(result.stdout)["n_rows"] == len(frame) - 2
    assert "Not counted: 2 rows" in result.stderr


def test_missing_groups_are_refused_counted_or_left_out(frame, run):
    frame.loc[[1, 4, 5], "sex"] = None
    frame.to_csv("segments.csv", index=False)
    assert "'sex' has 3 missing values" in run(*BASIC, code=1).stderr
    own = json.loads(run(*BASIC, "--missing", "own-group", "--json").stdout)
    assert own["groups"] == ["f", "m", None]
    left_out = json.loads(run(*BASIC, "--missing", "drop-rows", "--json").stdout)
    assert left_out["n_rows_not_counted"] == 3


def test_numbers_as_clusters_are_in_the_order_of_numbers(frame, run):
    frame["segment"] = np.arange(len(frame)) % 12
    frame.to_csv("segments.csv", index=False)
    assert json.loads(run(*BASIC, "--json").stdout)["clusters"] == list(range(12))


def test_a_minimum_that_is_missed_ends_with_3(frame, run):
    run(*BASIC, "--min-relative-balance", "0.01")
    result = run(*BASIC, "--min-relative-balance", "0.999", code=3)
    assert "is below --min-relative-balance 0.999" in result.stderr


def test_a_report_is_written(frame, run, folder):
    run(*BASIC, "--report", "report.html")
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "rich" in text
    assert "exists already" in run(*BASIC, "--report", "report.html", code=1).stderr


REFUSED = {
    "no such cluster column": (["--cluster", "segmnt"], "did you mean 'segment'?"),
    "no such sensitive column": (["--sensitive", "gender"], "no column 'gender'"),
    "other rows": (["--data", "few.csv"], "900 rows, few.csv has 10"),
    "unknown id": (["--data", "few.csv", "--id", "person"], "few.csv lacks 890 ids of the labels"),
    "repeated id": (["--data", "twice.csv", "--id", "person"], "2 rows with the id '00003'"),
}


WRONG_USAGE = {
    "cluster as group": (["--sensitive", "segment"], "both cluster and group"),
    "id without data": (["--id", "person"], "give --data as well"),
    "NaN": (["--min-relative-balance", "nan"], "nan is not a number"),
    "no page": (["--report", "report.txt"], "expected a name that ends in .html"),
    "report is an input": (["--report", "segments.html", "--force"], "is an input"),
}


@pytest.mark.parametrize("case", WRONG_USAGE)
def test_wrong_usage_ends_with_2(frame, run, folder, case):
    frame.to_csv("segments.html", index=False)
    options, message = WRONG_USAGE[case]
    assert message in run("audit", "segments.html", *BASIC[2:], *options, code=2).stderr
    assert (folder / "segments.html").read_text().startswith("person,")


def test_standard_input_cannot_be_both_tables(frame, run):
    result = run("audit", "-", "--data", "-", *BASIC[2:], code=2, stdin=b"")
    assert "cannot both be standard input" in result.stderr


def test_a_long_table_is_cut_and_says_so(frame, run):
    frame["segment"] = np.arange(len(frame)) % 60
    frame.to_csv("segments.csv", index=False)
    lines = run(*BASIC).stdout.splitlines()
    assert lines[40].split()[0] == "39"
    assert lines[41].split(maxsplit=1) == ["...", "20 more clusters (--json has all)"]
    assert lines[42].split()[:2] == ["all", "900"]
    assert len(json.loads(run(*BASIC, "--json").stdout)["counts"]) == 60


def test_values_that_are_no_clusters_are_announced_or_refused(frame, run, monkeypatch):
    frame["segment"] = frame["income"]
    frame.to_csv("segments.csv", index=False)
    n_values = frame["income"].nunique()
    message = f"'segment' has {n_values} different values in 900 rows: it seems not to name"
    assert f"Warning: The column {message}" in run(*BASIC).stderr
    monkeypatch.setattr(_audit, "MOST_CELLS", 1000)
    assert f"Error: The column {message}" in run(*BASIC, code=1).stderr


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(frame, run, case):
    frame[:10].to_csv("few.csv", index=False)
    twice = frame.copy()
    twice.loc[7, "person"] = "00003"
    twice.to_csv("twice.csv", index=False)
    options, message = REFUSED[case]
    assert message in run(*BASIC, *options, code=1).stderr
