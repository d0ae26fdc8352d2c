"""``fairanchor fit``: labels, models, summaries, and all that can be wrong with a table."""

import json
import os
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from pyarrow import feather, parquet
from sklearn.preprocessing import StandardScaler

from fairanchor import AnchorFairClustering, FairKMeans, load_model
from fairanchor.cli._commands import CLUSTERERS as CHOICES
from fairanchor.cluster._on_anchors import CLUSTERERS
from fairanchor.metrics import contingency_table, mnce_score, relative_balance_score

BASIC = ("fit", "people.csv", "-k", 3, "--sensitive", "sex", "--id", "person", "--jobs", 1)
SPFC = ("--clusterer", "spfc")


def by_hand(people, estimator=None, sensitive="sex"):
    """The same clusters through pandas and scikit-learn."""
    frame = people.to_pandas()
    numbers = frame[["age", "income"]].to_numpy(dtype=float)
    jobs = pd.get_dummies(frame["job"]).to_numpy(dtype=float)
    X = np.hstack([StandardScaler().fit_transform(numbers), jobs])
    model = estimator or FairKMeans(3, random_state=0)
    return X, model.fit(X, sensitive_features=frame[sensitive])


BY_HAND = {
    "fair k-means": ([], FairKMeans(3, random_state=0)),
    "framework": (SPFC, AnchorFairClustering(3, clusterer="spfc", random_state=0)),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_labels_equal_those_made_by_hand_in_the_order_of_the_rows(folder, run, case):
    options, estimator = BY_HAND[case]
    run(*BASIC, *options, "--exclude", "race", "-o", "labels.csv")
    labels = pd.read_csv("labels.csv", dtype={"person": str})
    assert labels.columns.tolist() == ["person", "cluster"]
    assert labels["person"].tolist() == folder.people["person"].to_pylist()
    _, model = by_hand(folder.people, estimator)
    assert_array_equal(labels["cluster"], model.labels_)


def test_every_cluster_mirrors_the_population(folder, run):
    run(*BASIC, "-o", "labels.csv")
    clusters = pd.read_csv("labels.csv")["cluster"]
    sex = folder.people["sex"].to_pandas()
    table = contingency_table(clusters, sensitive_features=sex)
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    assert np.abs(table - expected).max() < 1


def test_all_formats_in_and_out_give_the_same_labels(folder, run):
    feather.write_feather(folder.people, "people.feather")
    (folder / "people.tsv").write_text((folder / "people.csv").read_text().replace(",", "\t"))
    run(*BASIC, "-o", "expected.csv")
    expected = pd.read_csv("expected.csv")["cluster"]
    for source, output, read in [
        ("people.parquet", "a.parquet", parquet.read_table),
        ("people.feather", "b.feather", feather.read_table),
        ("people.tsv", "c.arrow", feather.read_table),
    ]:
        run("fit", source, *BASIC[2:], "-o", output)
        assert_array_equal(read(output)["cluster"], expected)
        assert read(output)["person"].to_pylist() == folder.people["person"].to_pylist()


def test_standard_input_to_standard_output(folder, run):
    run(*BASIC, "-o", "expected.csv")
    result = run("fit", "-", *BASIC[2:], stdin=(folder / "people.csv").read_bytes())
    assert result.stdout == (folder / "expected.csv").read_text()
    assert "relative balance" in result.stderr


def test_separators_can_be_named(folder, run):
    text = (folder / "people.csv").read_text()
    for name, option, mark in [("semicolon.csv", ";", ";"), ("tab.csv", "tab", "\t")]:
        (folder / name).write_text(text.replace(",", mark))
        run("fit", name, *BASIC[2:], "--delimiter", option, "-o", f"labels-{name}")
    run(*BASIC, "-o", "labels.csv")
    for name in ("semicolon.csv", "tab.csv"):
        assert (folder / f"labels-{name}").read_text() == (folder / "labels.csv").read_text()


def test_groups_that_differ_in_case_only_are_noted(folder, run):
    sex = folder.people["sex"].to_pylist()
    folder.write("typed.csv", sex=["F" if i < 60 and s == "f" else s for i, s in enumerate(sex)])
    result = run("fit", "typed.csv", *BASIC[2:], "-o", "labels.csv")
    assert "they may be one group" in result.stderr
    assert "they may be one group" not in run(*BASIC, "-o", "other.csv").stderr


def test_sizes_are_shown_where_groups_are_too_many_for_a_table(folder, run):
    region = [f"r{i % 9}" for i in range(len(folder.people))]
    folder.write("regions.csv", region=region)
    arguments = ("-k", 3, "--sensitive", "region", "--features", "age", "--json", "-o", "l.csv")
    result = run("fit", "regions.csv", *arguments)
    sizes = np.sum(json.loads(result.stdout)["counts"], axis=1)
    lines = [line.split() for line in result.stderr.splitlines()]
    assert all([str(cluster), str(size)] in lines for cluster, size in enumerate(sizes))


def test_rows_are_numbered_without_an_id(folder, run):
    result = run("fit", "people.csv", "-k", 2, "--sensitive", "sex", "--features", "age,income")
    lines = result.stdout.splitlines()
    assert lines[0] == "row,cluster"
    assert [int(line.split(",")[0]) for line in lines[1:]] == list(range(len(folder.people)))


def test_the_summary_as_json_has_the_table_and_the_measures(folder, run):
    result = run(*BASIC, "--json", "-o", "labels.csv")
    summary = json.loads(result.stdout)
    clusters = pd.read_csv("labels.csv")["cluster"]
    sex = folder.people["sex"].to_pandas()
    counts = contingency_table(clusters, sensitive_features=sex)
    assert_array_equal(summary["counts"], counts)
    assert summary["groups"] == ["f", "m"]
    relative = relative_balance_score(clusters, sensitive_features=sex)
    assert summary["relative_balance"] == pytest.approx(relative)
    assert summary["mnce"] == pytest.approx(mnce_score(clusters, sensitive_features=sex))
    assert summary["n_rows"] == len(folder.people)
    assert summary["converged"] is True
    assert summary["outputs"] == {"labels": "labels.csv"}


@pytest.mark.parametrize(
    ("options", "estimator", "keys"),
    [
        ([], "FairKMeans", {"lp_value"}),
        (SPFC, "AnchorFairClustering", {"n_anchors"}),
    ],
)
def test_the_summary_has_the_certificates_that_the_estimator_has(
    folder, run, options, estimator, keys
):
    result = run(*BASIC, *options, "--exclude", "race", "--json")
    summary = json.loads(result.stdout)
    assert summary["estimator"] == estimator
    assert set(summary) & {"lp_value", "n_anchors"} == keys
    _, model = by_hand(folder.people, next(m for o, m in BY_HAND.values() if o == options))
    assert summary["cost"] == pytest.approx(model.inertia_)
    assert summary["worst_violation"] == pytest.approx(model.worst_violation_)
    assert summary["n_iter"] == model.n_iter_
    assert summary["assignment_gap"] == pytest.approx(model.assignment_gap_, abs=1e-9)
    assert summary.get("n_anchors") == (None if estimator == "FairKMeans" else len(model.anchors_))
    assert ("anchors" in result.stderr) == (estimator != "FairKMeans")


def test_several_sensitive_columns_are_their_intersection(folder, run):
    result = run(*BASIC[:4], "--sensitive", "sex,race", *BASIC[6:], "--json")
    groups = json.loads(result.stdout)["groups"]
    assert groups == [["f", 1], ["f", 2], ["f", 3], ["m", 1], ["m", 2], ["m", 3]]


def test_a_sensitive_column_is_a_feature_only_if_named(folder, run):
    features = json.loads(run(*BASIC, "--json").stdout)["features"]
    assert not [name for name in features if name.startswith("sex")]
    named = run(*BASIC, "--features", "age,sex", "--json", "--missing", "error")
    assert json.loads(named.stdout)["features"] == ["age", "sex=f", "sex=m"]


def test_quiet_says_nothing_but_the_data(folder, run):
    assert run(*BASIC, "-o", "a.csv", "--quiet").output == ""


def test_the_same_seed_gives_the_same_files(folder, run):
    for name in ("a.csv", "b.csv"):
        run(*BASIC, *SPFC, "--seed", 1, "-o", name)
    assert (folder / "a.csv").read_text() == (folder / "b.csv").read_text()


def test_the_options_reach_the_estimator(folder, run):
    run(*BASIC, "--clusterer", "vfc", "--seed", 7, "--tolerance", 0.3, "--model", "m.npz")
    expected = {
        "n_clusters": 3, "clusterer": "vfc", "tolerance": 0.3, "min_cluster_size": None,
        "random_state": 7, "n_jobs": 1,
    }  # fmt: skip
    parameters = load_model("m.npz").get_params()
    assert {name: parameters[name] for name in expected} == expected


@pytest.mark.parametrize("options", [[], SPFC], ids=["fair k-means", "framework"])
def test_no_cluster_has_fewer_rows_than_the_minimum(folder, run, options):
    run(*BASIC, *options, "--min-size", 280, "-o", "labels.csv", "--model", "m.npz")
    assert np.bincount(pd.read_csv("labels.csv")["cluster"]).min() >= 280
    assert load_model("m.npz").min_cluster_size == 280


def test_the_choices_are_those_of_the_library():
    assert set(CHOICES) == set(CLUSTERERS)


def test_hundreds_of_groups_warn_and_name_the_way_out(folder, run):
    options = ("-k", 2, "--sensitive", "age", "--features", "income", "--jobs", 1)
    result = run("fit", "people.csv", *options, "-o", "a.csv")
    n_groups = len(np.unique(folder.people["age"]))
    assert f"Warning: The sensitive column 'age' has {n_groups} groups" in result.stderr
    assert "merge small groups" in result.stderr


def test_numbers_beyond_2_to_53_are_said(folder, run):
    huge = 2**53 + np.arange(len(folder.people))
    folder.write("huge.parquet", big=huge)
    result = run("fit", "huge.parquet", *BASIC[2:], "-o", "a.csv")
    assert "beyond 2**53" in result.stderr
    run("fit", "huge.parquet", *BASIC[2:6], "--id", "big", "--exclude", "person", "-o", "b.csv")
    assert pd.read_csv("b.csv")["big"].tolist() == huge.tolist()


def with_gaps(values, rows=(3, 5)):
    values = list(values)
    for row in rows:
        values[row] = None
    return values


def test_missing_values_are_refused_imputed_or_left_out_as_asked(folder, run):
    people = folder.people
    folder.write(
        "gaps.parquet",
        age=with_gaps(people["age"].to_pylist()),
        sex=with_gaps(people["sex"].to_pylist(), [5, 8]),
    )
    gaps = ("fit", "gaps.parquet", *BASIC[2:], "-o", "labels.parquet", "--force")
    assert "'sex' has 2 missing values" in run(*gaps, code=1).stderr
    assert "'age' has 2 missing" in run(*gaps, "--missing", "own-group", code=1).stderr
    result = run(*gaps, "--missing", "own-group", "--missing", "impute", "--json")
    assert json.loads(result.stdout)["groups"] == ["f", "m", None]
    assert parquet.read_table("labels.parquet")["cluster"].null_count == 0
    result = run(*gaps, "--missing", "drop-rows")
    assert "Left out: 3 rows with missing values; they get no cluster." in result.stderr
    clusters = parquet.read_table("labels.parquet")["cluster"].to_pylist()
    assert [row for row, cluster in enumerate(clusters) if cluster is None] == [3, 5, 8]
    assert len(clusters) == len(people)


def test_a_run_that_did_not_converge_writes_its_labels_and_ends_with_3(folder, run, monkeypatch):
    fit = FairKMeans.fit

    def impatient(self, *args, **kwargs):
        return fit(self.set_params(max_iter=1, tol=0.0, init="random"), *args, **kwargs)

    monkeypatch.setattr(FairKMeans, "fit", impatient)
    result = run(*BASIC, "-o", "labels.csv", "--report", "report.html", code=3)
    assert "Not converged after 1 iteration: the cost was still falling" in result.stderr
    assert "Target missed" not in result.stderr
    assert len(pd.read_csv("labels.csv")) == len(folder.people)
    assert "Not converged" in (folder / "report.html").read_text()


def test_targets_that_are_missed_end_with_3(folder, run, monkeypatch):
    fit = FairKMeans.fit

    def missing(self, *args, **kwargs):
        fit(self, *args, **kwargs).worst_violation_ = 2.5
        return self

    monkeypatch.setattr(FairKMeans, "fit", missing)
    result = run(*BASIC, "-o", "labels.csv", code=3)
    assert "Target missed: the worst cell is 2.5 rows off" in result.stderr
    assert "Not converged" not in result.stderr


def test_a_column_without_a_name_is_the_id_or_left_out(folder, run):
    frame = folder.people.to_pandas().drop(columns="person")
    frame.to_csv("indexed.csv")
    fit = ("fit", "indexed.csv", "-k", 2, "--sensitive", "sex", "--jobs", 1)
    assert "use --id '' or --exclude ''" in run(*fit, "-o", "a.csv").stderr
    run(*fit, "--exclude", "", "-o", "b.csv")
    run(*fit, "--id", "", "-o", "c.csv")
    named = pd.read_csv("c.csv", index_col=0)
    assert named.index.tolist() == list(range(len(frame)))
    assert_array_equal(named["cluster"], pd.read_csv("b.csv")["cluster"])


def test_a_single_group_is_announced(folder, run):
    folder.write("alike.csv", sex=["f"] * len(folder.people))
    result = run("fit", "alike.csv", *BASIC[2:], "-o", "a.csv")
    assert "'sex' has one value only, 'f': every clustering is proportional" in result.stderr
    assert "1 group: f 100.0%" in result.stderr


def test_an_unclosed_quote_loses_no_row_silently(folder, run):
    lines = (folder / "people.csv").read_text().replace('"', "").splitlines()
    person, age, income, job, *rest = lines[100].split(",")
    lines[100] = ",".join([person, age, income, f'"{job}', *rest])
    (folder / "odd.csv").write_text("\n".join(lines) + "\n")
    for options in ([], ["--exclude", "job"]):
        result = run("fit", "odd.csv", *BASIC[2:], *options, "-o", "a.csv", code=1)
        assert "Check that every quote in this row is closed" in result.stderr
    assert not (folder / "a.csv").exists()


def test_a_pipe_is_read_like_a_file(folder, run):
    """What a shell gives for <(command), and for /dev/stdin after a pipe."""
    run("fit", "people.csv", *BASIC[2:], "-o", "expected.csv")
    reader, writer = os.pipe()
    data = (folder / "people.csv").read_bytes()

    def write():
        with open(writer, "wb") as file:
            file.write(data)

    thread = threading.Thread(target=write)
    thread.start()
    run("fit", f"/dev/fd/{reader}", *BASIC[2:], "-o", "labels.csv")
    thread.join()
    os.close(reader)
    assert (folder / "labels.csv").read_text() == (folder / "expected.csv").read_text()


def test_nothing_is_overwritten_without_force(folder, run):
    for option, name in [("-o", "a.csv"), ("--model", "a.npz"), ("--report", "a.html")]:
        (folder / name).write_text("old")
        assert "exists already. Use --force" in run(*BASIC, option, name, code=1).stderr
        assert (folder / name).read_text() == "old"
    run(*BASIC, "-o", "a.csv", "--force")
    assert (folder / "a.csv").read_text().startswith("person,cluster")


@pytest.mark.slow
def test_a_report_is_written(folder, run):
    run(*BASIC, "--report", "report.html", "-o", "labels.csv")
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert text.lstrip().lower().startswith("<!doctype html")
    assert "people.csv" in text


def test_clusters_are_whole_numbers_in_typed_files(folder, run):
    run(*BASIC, "-o", "labels.parquet")
    schema = parquet.read_schema("labels.parquet")
    assert schema.field("cluster").type == pa.int32()


@pytest.mark.slow
def test_the_report_says_what_was_left_out_and_how_to_repeat_the_run(folder, run):
    ages = [None, *folder.people["age"].to_pylist()[1:]]
    folder.write("people.csv", age=ages, constant=[1.0] * len(ages))
    run("fit", "people.csv", "-k", 2, "--sensitive", "sex", "--id", "person", "--missing",
        "drop-rows", "-o", "labels.csv", "--report", "report.html")  # fmt: skip
    html = (folder / "report.html").read_text()
    assert "1 of 900 rows, those with missing values" in html
    assert "fairanchor fit people.csv -k 2 --sensitive sex --id person" in html
    assert "is constant: it does not influence the clusters" in html
    assert '<th scope="row">random_state</th><td>0</td>' in html


def test_sizes_need_no_sensitive_column(folder, run):
    options = (
        "people.csv",
        "-k",
        3,
        "--features",
        "age,income",
        "--max-size",
        310,
        "--id",
        "person",
    )
    result = run("fit", *options, "--min-size", 280, "--json", "-o", "a.csv", "--model", "m.npz")
    sizes = np.array(json.loads(result.stdout)["counts"])[:, 0]
    assert sizes.min() >= 280
    assert sizes.max() <= 310
    predicted = run("predict", "m.npz", "people.csv", "--id", "person", "-o", "b.csv", "--json")
    assert json.loads(predicted.stdout)["sizes"] == sizes.tolist()
    assert (folder / "a.csv").read_text() == (folder / "b.csv").read_text()


def test_sizes_and_groups_together(folder, run):
    result = run(*BASIC, "--max-size", 301, "--json", "-o", "a.csv")
    counts = np.array(json.loads(result.stdout)["counts"])
    assert counts.sum(axis=1).max() <= 301
    assert json.loads(result.stdout)["worst_violation"] < 1


@pytest.mark.parametrize("option", ["--min-size", "--max-size"])
def test_sizes_that_cannot_be_met_are_named_by_their_options(folder, run, option):
    size = {"--min-size": 301, "--max-size": 299}[option]
    message = run(*BASIC, "--max-size", 900, option, size, code=1).stderr
    assert f"misses its {option}={size} by" in message
    assert "_size" not in message


def test_a_fit_needs_groups_or_sizes(folder, run):
    assert run("fit", "people.csv", "-k", 3, code=2).stderr.count("--max-size") == 1
