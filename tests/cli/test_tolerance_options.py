"""``--tolerance`` of fit, and ``--path`` of compare."""

import json

import pyarrow.csv
import pytest

from fairanchor import load_model
from fairanchor.metrics import worst_violation

TABLE = ("people.csv", "-k", 2, "--sensitive", "sex", "--id", "person", "--jobs", 1)
FEATURES = ("--features", "age,income")


def test_fit_keeps_the_tolerance_in_labels_summary_and_model(folder, run):
    result = run(
        "fit", *TABLE, *FEATURES, "--tolerance", 0.2, "-o", "labels.csv", "--model", "m.npz",
        "--json",
    )  # fmt: skip
    summary = json.loads(result.stdout)
    assert summary["parameters"]["tolerance"] == 0.2
    assert summary["worst_violation"] == 0.0
    labels = pyarrow.csv.read_csv("labels.csv")["cluster"].to_numpy()
    sex = folder.people["sex"].to_pylist()
    assert worst_violation(labels, sensitive_features=sex, targets=0.2) == 0.0
    assert load_model("m.npz").tolerance == 0.2


def test_fit_offers_targets_with_sizes_from_the_data(folder, run):
    result = run("fit", *TABLE, *FEATURES, "--fairness", "anchors_sized", "--json")
    assert json.loads(result.stdout)["worst_violation"] < 1


def test_compare_path_has_a_row_for_each_tolerance_and_a_picture(folder, run):
    result = run("compare", *TABLE, *FEATURES, "--path", "-o", "path.svg")
    lines = result.stdout.splitlines()
    assert lines[0].split()[:2] == ["tolerance", "cost"]
    assert [line.split()[0] for line in lines[1:7]] == ["0", "0.05", "0.1", "0.2", "0.5", "1"]
    costs = [float(line.split()[1]) for line in lines[1:7]]
    assert costs == sorted(costs, reverse=True)
    assert "not advice" in lines[7]
    assert "relative balance of the worst cell" in (folder / "path.svg").read_text()


def test_compare_path_as_json_has_what_was_asked_for(folder, run):
    result = run(
        "compare", *TABLE, *FEATURES, "--path", "--tolerance", 1, "--tolerance", 0.1, "--json"
    )
    summary = json.loads(result.stdout)
    assert [record["tolerance"] for record in summary["path"]] == [0.1, 1.0]
    assert summary["suggested_tolerance"] in (0.1, 1.0)
    assert all(record["violation"] == 0.0 for record in summary["path"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", *TABLE, "--tolerance", 1.5), "1.5 is not in the range 0<=x<=1"),
        (("fit", *TABLE, "--tolerance", "nan"), "nan is not a finite number"),
        (("compare", *TABLE, "--path", "--method", "k-means"), "--path and --method"),
        (("compare", *TABLE, "--tolerance", 0.1), "--tolerance needs --path"),
        (("compare", *TABLE, "--path", "--tolerance", -1), "-1.0 is not in the range 0<=x<=1"),
        (("compare", *TABLE, "--path", "-o", "x.txt"), "expected a picture"),
    ],
)
def test_bad_options_are_refused_by_name(folder, run, arguments, message):
    result = run(*arguments, code=2)
    assert message in result.stderr
