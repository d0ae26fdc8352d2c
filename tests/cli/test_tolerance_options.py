"""``--tolerance`` of fit, and ``--path`` of compare."""

import json

import pyarrow.csv
import pytest
from sklearn.preprocessing import StandardScaler

from fairanchor import FairKMeans, load_model
from fairanchor.metrics import relative_balance_score, worst_violation
from fairanchor.model_selection import TOLERANCES

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


@pytest.mark.slow
def test_compare_path_has_a_row_for_each_tolerance_and_a_picture(folder, run):
    result = run("compare", *TABLE, *FEATURES, "--path", "-o", "path.svg")
    lines = result.stdout.splitlines()
    assert lines[0].split()[:2] == ["tolerance", "cost"]
    assert [line.split()[0] for line in lines[1:7]] == ["0", "0.05", "0.1", "0.2", "0.5", "1"]
    costs = [float(line.split()[1]) for line in lines[1:7]]
    assert costs == sorted(costs, reverse=True)
    assert "than 1 (no constraint)" in lines[-1]
    assert "relative balance of the worst cell" in (folder / "path.svg").read_text()


def test_compare_path_of_one_tolerance_suggests_nothing(folder, run):
    result = run("compare", *TABLE, *FEATURES, "--path", "--tolerance", 0.1)
    assert "it is not a recommendation" not in result.stdout
    result = run("compare", *TABLE, *FEATURES, "--path", "--tolerance", 0.1, "--json")
    assert json.loads(result.stdout)["suggested_tolerance"] is None


def test_compare_path_that_ends_before_1_warns(folder, run):
    options = ("--path", "--tolerance", 0.1, "--tolerance", 0.2, "--json")
    result = run("compare", *TABLE, *FEATURES, *options)
    assert "Warning: The loosest tolerance of the path is 0.2" in result.stderr
    assert "The loosest tolerance of the path is 0.2" in json.loads(result.stdout)["warnings"][0]


def test_the_tolerances_in_the_help_are_those_of_the_library(run):
    *most, last = [f"{tolerance:g}" for tolerance in TOLERANCES]
    text = " ".join(run("compare", "--help").stdout.split())
    assert f"By default {', '.join(most)} and {last}." in text


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
        (("compare", *TABLE, "--path", "--method", "k-means"), "--path and --method"),
        (("compare", *TABLE, "--tolerance", 0.1), "--tolerance needs --path"),
        (("compare", *TABLE, "--path", "--tolerance", -1), "-1.0 is not in the range 0<=x<=1"),
        (("compare", *TABLE, "--path", "-o", "x.txt"), "expected a figure"),
        (("compare", *TABLE, "--path", "-o", "-"), "Only labels can go to standard output"),
        (("compare", *TABLE, "--attributes", "separate"), "--attributes separate needs --path"),
    ],
)
def test_bad_options_are_refused_by_name(folder, run, arguments, message):
    result = run(*arguments, code=2)
    assert message in result.stderr


SEPARATE = ("--sensitive", "race", "--attributes", "separate")


@pytest.mark.slow
def test_compare_path_of_separate_attributes_has_figures_of_each(folder, run):
    result = run(
        "compare", *TABLE, *FEATURES, *SEPARATE, "--path", "--tolerance", 0, "--tolerance", 1,
        "--json", "-o", "path.svg",
    )  # fmt: skip
    summary = json.loads(result.stdout)
    assert summary["attributes"] == "separate"
    X = StandardScaler().fit_transform(folder.people.select(["age", "income"]).to_pandas())
    frame = folder.people.select(["sex", "race"]).to_pandas()
    model = FairKMeans(2, attributes="separate", n_init=10, random_state=0)
    model.fit(X, sensitive_features=frame)
    exact, loose = summary["path"]
    assert exact["cost"] == pytest.approx(model.inertia_)
    for title in ("sex", "race"):
        relative = relative_balance_score(model.labels_, sensitive_features=frame[title])
        assert exact["attributes"][title]["relative_balance"] == pytest.approx(relative)
        assert exact["attributes"][title]["violation"] < 1
    assert loose["attributes"]["sex"]["relative_balance"] < 0.95
    assert "sex" in (folder / "path.svg").read_text()


@pytest.mark.slow
def test_compare_path_shows_a_column_for_each_attribute(folder, run):
    result = run("compare", *TABLE, *FEATURES, *SEPARATE, "--path", "--tolerance", 0.1)
    head, row, note = result.stdout.splitlines()
    assert head.split()[-2:] == ["sex", "race"]
    assert all(float(value) >= 0.9 for value in row.split()[-2:])
    assert "their relative balance" in note


@pytest.mark.slow
def test_compare_path_takes_missing_values_of_a_separate_column_as_a_group(folder, run):
    race = [None, None, None, *folder.people["race"].to_pylist()[3:]]
    folder.write("gaps.csv", race=race)
    result = run(
        "compare", "gaps.csv", *TABLE[1:], *FEATURES, *SEPARATE, "--path", "--tolerance", 0,
        "--missing", "own-group", "--json",
    )  # fmt: skip
    [record] = json.loads(result.stdout)["path"]
    counts = record["attributes"]["race"]
    # Three rows without a race, in two clusters: none can have exactly its share of them.
    assert 0.3 < counts["relative_balance"] < 0.95
    assert counts["violation"] < 1


def test_one_column_that_is_separate_is_the_same_as_one_column(folder, run):
    options = ("--path", "--tolerance", 0.1, "--json")
    one = json.loads(run("compare", *TABLE, *FEATURES, *options).stdout)["path"][0]
    separate = run("compare", *TABLE, *FEATURES, *options, "--attributes", "separate")
    other = json.loads(separate.stdout)["path"][0]
    assert other.pop("attributes")["sex"]["relative_balance"] == one["relative_balance"]
    assert other == one
