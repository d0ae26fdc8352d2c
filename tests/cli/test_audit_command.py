"""``fairanchor audit``: measures of labels made by any tool."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from pyarrow import parquet

from fairanchor.audit import selection_rates
from fairanchor.metrics import (
    balance_score,
    breakdown_errors,
    mnce_score,
    relative_balance_score,
    worst_relative_balance,
)


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
    assert "farthest from proportional: group f in cluster rich" in result.stdout
    assert result.stderr == ""


def test_labels_of_fit_are_audited_with_the_table_they_came_from(folder, run):
    options = ("-k", 3, "--sensitive", "sex", "--id", "person", "--jobs", 1)
    fitted = run("fit", "people.csv", *options, "-o", "labels.csv", "--json")
    audit = ("audit", "labels.csv", "--data", "people.parquet", "--sensitive", "sex", "--json")
    expected = json.loads(fitted.stdout)["counts"]
    assert json.loads(run(*audit).stdout)["counts"] == expected
    shuffled = pd.read_csv("labels.csv", dtype=str).sample(frac=1, random_state=0)
    shuffled.to_csv("shuffled.csv", index=False)
    by_position = run("audit", "shuffled.csv", *audit[2:], code=1)
    assert "The column 'person' differs" in by_position.stderr
    assert "--id" in by_position.stderr
    by_id = ("audit", "shuffled.csv", *audit[2:], "--id", "person")
    assert json.loads(run(*by_id).stdout)["counts"] == expected


@pytest.fixture
def incomplete(folder):
    """Every row of group a has a cluster, and 100 of 500 of group b: two balanced clusters."""
    clusters = ["x", "y"] * 250 + ["x", "y"] * 50 + [None] * 400
    frame = pd.DataFrame({"g": ["a"] * 500 + ["b"] * 500, "cluster": clusters})
    frame.insert(0, "id", np.arange(1000))
    frame.to_csv("nocluster.csv", index=False)
    return frame


def test_rows_without_a_cluster_count_against_the_verdict(incomplete, run, folder):
    audit = ("audit", "nocluster.csv", "--sensitive", "g")
    found = json.loads(run(*audit, "--json").stdout)
    assert (found["n_rows"], found["n_rows_without_cluster"]) == (600, 400)
    assert found["relative_balance"] == 1.0
    # 100 of 600 rows in the clusters are of b, which is half of all.
    assert found["relative_balance_all_rows"] == pytest.approx(1 / 3)
    assert found["answer"] == "No"
    assert found["breakdown_errors"] == 0
    assert "400 of the 500 rows of group “b” have no cluster" in run(*audit).stdout
    run(*audit, "--tolerance", 0, "--report", "r.html", code=3)
    assert "<strong>No.</strong>" in (folder / "r.html").read_text()
    run(*audit, "--min-relative-balance", 0.9, code=3)


def test_rows_that_the_labels_do_not_have_are_rows_without_a_cluster(incomplete, run):
    incomplete[["id", "g"]].to_csv("data.csv", index=False)
    labelled = incomplete.dropna().sample(frac=1, random_state=0)
    labelled[["cluster", "id"]].to_csv("labels.csv", index=False)
    by_id = ("audit", "labels.csv", "--data", "data.csv", "--id", "id", "--sensitive", "g")
    found = json.loads(run(*by_id, "--json").stdout)
    assert found["n_rows_without_cluster"] == 400
    assert found["answer"] == "No"


def test_one_row_without_a_cluster_is_no_yes_but_no_failure(folder, run):
    frame = pd.DataFrame({"g": ["a", "b"] * 500, "cluster": [0.0, 0.0, 1.0, 1.0] * 250})
    frame.loc[7, "cluster"] = None
    frame.to_csv("nearly.csv", index=False)
    audit = ("audit", "nearly.csv", "--sensitive", "g", "--min-relative-balance", 0.99)
    found = json.loads(run(*audit, "--json").stdout)
    assert found["answer"] == "Not for all rows: 1 row left out. For the others: Nearly"


JOINS = {
    "an id that disagrees": ({"id": [2, 1, 0, 3]}, "'id' differs in 2 rows"),
    "a group that disagrees": ({"g": ["b", "a", "a", "b"]}, "'g' differs in 2 rows"),
    "rows in another order": ({"row": [0, 2, 1, 3]}, "'row' differs in 2 rows"),
}


@pytest.mark.parametrize("case", JOINS)
def test_rows_are_matched_by_position_only_if_what_is_known_agrees(folder, run, case):
    columns, message = JOINS[case]
    pd.DataFrame({"id": range(4), "g": list("abab")}).to_csv("data.csv", index=False)
    pd.DataFrame({"cluster": [0, 0, 1, 1], **columns}).to_csv("labels.csv", index=False)
    audit = ("audit", "labels.csv", "--data", "data.csv", "--sensitive", "g")
    assert message in run(*audit, code=1).stderr
    pd.DataFrame({"cluster": [0, 0, 1, 1]}).to_csv("labels.csv", index=False)
    assert "matched by position" in run(*audit).stderr
    same = pd.DataFrame({"cluster": [0, 0, 1, 1], "id": [0.0, 1.0, 2.0, 3.0], "row": range(4)})
    same.to_csv("labels.csv", index=False)
    assert run(*audit).stderr == ""


def test_shared_columns_are_compared_with_all_their_digits_and_gaps(folder, run):
    columns = {
        "number": [1.5, np.nan, 3.0],
        "flag": [True, False, True],
        "code": ["12345678901234567890", "12345678901234567891", None],
    }
    data = pd.DataFrame({**columns, "g": list("aba")})
    data.to_parquet("data.parquet")
    audit = ("audit", "labels.parquet", "--data", "data.parquet", "--sensitive", "g")
    labels = pa.table({**{name: pa.array(v) for name, v in columns.items()}, "cluster": [0, 0, 1]})
    parquet.write_table(labels, "labels.parquet")  # its NaN is no null
    assert run(*audit).stderr == ""
    swapped = [columns["code"][i] for i in (1, 0, 2)]
    parquet.write_table(labels.drop_columns("code").append_column("code", [swapped]),
                        "labels.parquet")  # fmt: skip
    refused = run(*audit, code=1).stderr
    assert "'code' differs in 2 rows" in refused
    assert "'12345678901234567891' and '12345678901234567890'" in refused


def test_missing_groups_are_an_error_whose_remedy_audit_has(folder, run):
    pd.DataFrame({"g": ["a", None, "b"], "cluster": [0, 1, 1]}).to_csv("labels.csv", index=False)
    audit = ("audit", "labels.csv", "--sensitive", "g")
    refused = run(*audit, code=1).stderr
    assert "--missing own-group" in refused
    assert "drop-rows" not in refused
    run(*audit, "--missing", "own-group")


def test_names_of_rows_that_look_like_formulas_are_written_as_text_and_matched(folder, run):
    ids = [f"={i}+1" for i in range(450)] + [f"-x{i}" for i in range(448)] + ["-5", "@me"]
    folder.write("people.csv", person=ids)
    fit = ("-k", 2, "--sensitive", "sex", "--id", "person", "--jobs", 1)
    run("fit", "people.csv", *fit, "-o", "labels.csv")
    written = pd.read_csv("labels.csv", dtype=str)["person"]
    assert written[0] == "'=0+1"
    assert written.tolist()[-2:] == ["-5", "'@me"]
    audit = ("audit", "labels.csv", "--data", "people.csv", "--sensitive", "sex", "--json")
    by_position, by_id = (json.loads(run(*audit, *id_).stdout) for id_ in ((), ("--id", "person")))
    assert by_position["counts"] == by_id["counts"]


def test_selection_rates_are_those_of_the_library(frame, run):
    found = json.loads(run(*BASIC, "--sensitive", "race", "--favourable", "rich", "--json").stdout)
    expected = selection_rates(
        frame["segment"], sensitive_features=frame[["sex", "race"]], favourable=["rich"]
    )
    assert found["impact_ratio"] == pytest.approx(expected.impact_ratio)
    assert found["p_value"] == pytest.approx(expected.p_value)
    assert [record["selected"] for record in found["selection"]] == [
        record["selected"] for record in expected.records
    ]
    text = run(*BASIC, "--favourable", "rich").stdout
    assert "below four fifths" in text
    assert "complian" not in text.lower()
    run(*BASIC, "--min-impact-ratio", 0.8, code=3)
    assert "not a cluster of the labels" in run(*BASIC, "--favourable", "3", code=1).stderr


def test_the_breakdown_number_and_the_certificate_are_those_of_the_metrics(frame, run):
    frame["segment"] = np.arange(len(frame)) % 3
    frame.to_csv("segments.csv", index=False)
    found = json.loads(run(*BASIC, "--group-errors", 7, "--json").stdout)
    known = {"sensitive_features": frame["sex"]}
    assert found["breakdown_errors"] == breakdown_errors(frame["segment"], **known)
    for line in found["worst_relative_balance"]:
        expected = worst_relative_balance(frame["segment"], **known, n_errors=line["n_errors"])
        assert line["relative_balance"] == pytest.approx(expected)
    assert [line["n_errors"] for line in found["worst_relative_balance"]] == [9, 45, 90, 7]


def test_misspelt_and_tiny_groups_are_pointed_out(folder, run):
    sex = ["Female", "male"] * 999 + ["female", " Female"]
    pd.DataFrame({"sex": sex, "cluster": 0}).to_csv("misspelt.csv", index=False)
    text = run("audit", "misspelt.csv", "--sensitive", "sex").stdout
    assert "differ in capital letters or spaces only" in text
    assert "2 groups have fewer than 0.1%" in text


def test_missing_groups_are_refused_or_a_group(frame, run):
    frame.loc[[1, 4, 5], "sex"] = None
    frame.to_csv("segments.csv", index=False)
    refused = run(*BASIC, code=1).stderr
    assert "'sex' has 3 missing values in" in refused
    assert "the first in row 1 (counted from 0). Use --missing own-group" in refused
    assert "drop-rows" not in refused  # audit does not have it
    own = json.loads(run(*BASIC, "--missing", "own-group", "--json").stdout)
    assert own["groups"] == ["f", "m", None]


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
    facts = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert "segments.csv" in facts["made"]["fingerprints"]["labels"]
    assert facts["met"]["impact_ratio"] < 0.8
    (folder / "report.html").unlink()
    assert "report.json exists already" in run(*BASIC, "--report", "report.html", code=1).stderr
    (folder / "report.html").touch()
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
    "a column twice": (["--sensitive", "sex"], "named more than once"),
    "a threshold of batches": (["--max-far", "0.1"], "--max-far is for --model"),
    "labels with a model": (["--model", "m.npz"], "--sensitive is for labels"),
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


def test_values_that_are_no_clusters_raise_an_error(frame, run):
    frame["segment"] = frame["income"]
    frame.to_csv("segments.csv", index=False)
    assert "it seems not to name clusters" in run(*BASIC, code=1).stderr


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(frame, run, case):
    frame[:10].to_csv("few.csv", index=False)
    twice = frame.copy()
    twice.loc[7, "person"] = "00003"
    twice.to_csv("twice.csv", index=False)
    options, message = REFUSED[case]
    assert message in run(*BASIC, *options, code=1).stderr


def test_labels_of_a_directory_are_audited_with_its_files(folder, run):
    for name in ("people", "others"):
        (folder / name).mkdir()
    for number, start in enumerate([0, 250, 600]):
        part = folder.people.slice(start, [250, 350, 300][number])
        parquet.write_table(part, folder / "people" / f"{number}.parquet")
        parquet.write_table(part, folder / "others" / f"{2 - number}.parquet")
    fit = ("-k", 3, "--sensitive", "sex", "--exclude", "person", "-o", "labels")
    fitted = json.loads(run("fit", "people", *fit, "--json").stdout)
    audit = ("audit", "labels", "--sensitive", "sex", "--tolerance", 0)
    found = json.loads(run(*audit, "--data", "people", "--json").stdout)
    assert found["counts"] == fitted["counts"]
    assert found["worst_violation"] == pytest.approx(fitted["worst_violation"])
    assert "'row' differs" in run(*audit, "--data", "others", code=1).stderr
    assert "--data names a table" in run(*audit, code=1).stderr
