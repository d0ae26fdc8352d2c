"""``--attributes separate`` and ``--targets`` of fit."""

import json

import numpy as np
import pyarrow.csv
import pytest

from fairanchor import FairnessTargets, load_model
from fairanchor.metrics import attribute_relative_balance_scores, worst_violation

TABLE = ("people.csv", "-k", 2, "--id", "person", "--jobs", 1, "--features", "age,income")
SEX = (*TABLE, "--sensitive", "sex")
BOTH = (*TABLE, "--sensitive", "sex,race")


def labels_in(path):
    return pyarrow.csv.read_csv(path)["cluster"].to_numpy()


def test_separate_attributes_are_mirrored_each_and_new_combinations_predicted(folder, run):
    people = folder.people
    seen = [not (s == "f" and r == 3) for s, r in zip(*columns(people), strict=True)]
    pyarrow.csv.write_csv(people.filter(seen), folder / "seen.csv")
    arguments = ("seen.csv", *BOTH[1:], "--attributes", "separate")
    result = run("fit", *arguments, "-o", "labels.csv", "--model", "m.npz", "--json")
    summary = json.loads(result.stdout)
    assert set(summary["attributes"]) == {"sex", "race"}
    assert summary["attributes"]["race"]["groups"] == [1, 2, 3]
    assert summary["worst_violation"] < 1
    groups = people.filter(seen).select(["sex", "race"])
    scores = attribute_relative_balance_scores(labels_in("labels.csv"), sensitive_features=groups)
    for title, score in scores.items():
        assert score == pytest.approx(summary["attributes"][title]["relative_balance"])
        assert score > 1 - 2 / np.min(summary["attributes"][title]["counts"])
    assert "sex by itself: balance" in result.stderr

    run("predict", "m.npz", "people.csv", "-o", "all.csv")
    assert len(labels_in("all.csv")) == len(people)


def columns(people):
    return people["sex"].to_pylist(), people["race"].to_pylist()


def test_bounds_and_sizes_of_a_file_are_kept(folder, run):
    (folder / "asked.csv").write_text(
        "sex,cluster,lower,upper,min_size\nf,,0.3,,\nf,1,,0.45,\n,0,,,300\n"
    )
    asked = ("--targets", "asked.csv")
    result = run("fit", *SEX, *asked, "-o", "labels.csv", "--model", "m.npz", "--json")
    assert json.loads(result.stdout)["worst_violation"] == 0.0
    assert load_model("m.npz").fairness == FairnessTargets(
        lower={"f": 0.3}, upper={"f": [1.0, 0.45]}, min_size=[300.0, 0.0]
    )
    labels, sex = labels_in("labels.csv"), np.array(folder.people["sex"].to_pylist())
    shares = [np.mean(sex[labels == cluster] == "f") for cluster in (0, 1)]
    assert min(shares) >= 0.3
    assert shares[1] <= 0.45
    assert np.sum(labels == 0) >= 300


def test_targets_of_separate_columns_and_a_tolerance_reach_the_model(folder, run):
    (folder / "asked.csv").write_text("sex,race,lower\nf,,0.35\n,1,0.5\n")
    run("fit", *BOTH, "--attributes", "separate", "--targets", "asked.csv", "--model", "m.npz",
        "--tolerance", 0.6, "-o", "labels.csv")  # fmt: skip
    expected = [
        FairnessTargets(lower={"f": 0.35}, tolerance=0.6),
        FairnessTargets(lower={1: 0.5}, tolerance=0.6),
    ]
    assert load_model("m.npz").fairness == expected
    violation = worst_violation(
        labels_in("labels.csv"),
        sensitive_features=folder.people.select(["sex", "race"]),
        targets=expected,
        attributes="separate",
    )
    assert violation < 1


def test_combinations_are_named_by_their_columns(folder, run):
    (folder / "asked.csv").write_text("sex,race,upper\nm,1,0.5\n")
    run("fit", *BOTH, "--targets", "asked.csv", "--model", "m.npz")
    assert load_model("m.npz").fairness == FairnessTargets(upper={("m", 1): 0.5})


@pytest.mark.parametrize(
    ("text", "message", "code"),
    [
        ("sex,share\nf,0.4\n", "no share for the groups ['m']", 1),
        ("sex,cluster,share\nf,,0.4\nm,0,0.6\n", "group 'm' in cluster 1 is missing", 1),
        ("sex,share\nf,0.4\nm,0.4\n", "sum to 0.8, expected 1", 1),
        ("sex,lower\nx,0.4\n", "names the group 'x', the data have", 1),
        ("sex,lower\nf,1.4\n", "lower holds 1.4", 1),
        ("sex,lower\nf,much\n", "lower is 'much', expected a number", 1),
        ("sex,cluster,lower\nf,2,0.4\n", "the cluster 2, expected 0..1", 1),
        (
            "sex,cluster,lower\nf,,0.4\nf,1,0.3\n",
            "lower of group 'f' in cluster 1 is given twice",
            1,
        ),
        ("cluster,min_size\n,9\n1,8\n", "min_size of cluster 1 is given twice", 1),
        ("sex,least\nf,0.4\n", "the column 'least', expected the sensitive columns (sex)", 1),
        (
            "sex,min_size\nf,100\n",
            "is about a group: expected share, lower, upper, got 'sex', 'min_size'",
            1,
        ),
        ("sex,lower\nf,\n", "lower, upper, got 'sex'", 1),
        ("sex,lower\nf,0.7\n", "group 'f'", 1),
    ],
)
def test_bad_targets_are_refused_with_the_reason(folder, run, text, message, code):
    (folder / "asked.csv").write_text(text)
    result = run("fit", *SEX, "--targets", "asked.csv", code=code)
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--targets", "asked.csv", "--min-size", 9), "--min-size and --targets"),
        (("--targets", "asked.csv", "-o", "asked.csv"), "is an input"),
        (("--targets", "absent.csv"), "'absent.csv' does not exist"),
    ],
)
def test_contradicting_options_are_refused_by_name(folder, run, arguments, message):
    (folder / "asked.csv").write_text("sex,lower\nf,0.3\n")
    assert message in run("fit", *SEX, *arguments, code=2).stderr


def test_a_folder_takes_neither(folder, run):
    (folder / "parts").mkdir()
    folder.write("parts/a.parquet")
    (folder / "x.csv").write_text("sex,lower\n")
    arguments = ("fit", "parts", "-k", 2, "--sensitive", "sex,race", "-o", "out")
    assert "--targets is for a single file" in run(*arguments, "--targets", "x.csv", code=2).stderr
    result = run(*arguments, "--attributes", "separate", code=2)
    assert "--attributes separate is for a single file" in result.stderr
