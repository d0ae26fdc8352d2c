"""``fairanchor predict``: new rows by a saved model."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from fairanchor import AnchorFairClustering
from fairanchor._model_file import load_model, save_model

FIT = ("fit", "people.csv", "-k", 3, "--id", "person", "--jobs", 1)


def clusters(name):
    return pd.read_csv(name)["cluster"]


@pytest.mark.parametrize("sensitive", ["sex", "race", "sex,race"])
def test_training_rows_get_their_labels_again_whatever_the_format(folder, run, sensitive):
    run(*FIT, "--sensitive", sensitive, "-o", "fitted.csv", "--model", "m.npz")
    for source in ("people.csv", "people.parquet"):
        run("predict", "m.npz", source, "--id", "person", "-o", "again.csv", "--force")
        assert (folder / "again.csv").read_text() == (folder / "fitted.csv").read_text()


def test_new_rows_are_labelled_as_by_the_library(folder, run):
    new = folder.write_strangers("new.parquet", 50)
    run(*FIT, "--sensitive", "sex", "--features", "age,income", "--model", "m.npz")
    run("predict", "m.npz", "new.parquet", "-o", "new.csv", "--soft", "--regret")
    model = load_model("m.npz")
    old = folder.people.select(["age", "income"]).to_pandas()
    X = ((new.select(["age", "income"]).to_pandas() - old.mean()) / old.std(ddof=0)).to_numpy()
    sex = new["sex"].to_pandas()
    found = pd.read_csv("new.csv")
    assert_array_equal(found["cluster"], model.predict(X, sensitive_features=sex))
    memberships = found[[f"membership_{l}" for l in range(3)]]
    expected = model.predict_proba(X, sensitive_features=sex)
    np.testing.assert_allclose(memberships, expected, atol=1e-9)
    assert (found["regret"] >= 0).all()


def test_labels_go_to_standard_output_by_default(folder, run):
    run(*FIT, "--sensitive", "sex", "--model", "m.npz")
    result = run("predict", "m.npz", "-", stdin=(folder / "people.csv").read_bytes())
    assert result.stdout.startswith("row,cluster\n0,")
    assert "relative balance" in result.stderr


def test_unscaled_and_imputed_models_repeat_what_fit_did(folder, run):
    incomes = folder.people["income"].to_pylist()  # hardly two are equal: no ties
    folder.write("gaps.csv", income=[None, *incomes[1:]])
    options = (
        "--sensitive",
        "sex",
        "--no-scale",
        "--features",
        "income,job",
        "--missing",
        "impute",
    )
    run("fit", "gaps.csv", *FIT[2:], *options, "-o", "a.csv", "--model", "m.npz")
    result = run("predict", "m.npz", "gaps.csv", "-o", "b.csv", code=1)
    assert "'income' has 1 missing value in 900 rows" in result.stderr
    run("predict", "m.npz", "gaps.csv", "-o", "b.csv", "--missing", "impute")
    assert_array_equal(clusters("a.csv"), clusters("b.csv"))
    run("predict", "m.npz", "gaps.csv", "-o", "c.csv", "--missing", "drop-rows")
    assert np.isnan(clusters("c.csv")[0])
    assert_array_equal(clusters("c.csv")[1:], clusters("a.csv")[1:])


def test_merged_groups_stay_merged(folder, run):
    rare = ["x", "y"] + folder.people["sex"].to_pylist()[2:]
    folder.write("rare.csv", sex=rare)
    options = ("--sensitive", "sex", "--min-group-size", 5)
    run("fit", "rare.csv", *FIT[2:], *options, "-o", "a.csv", "--model", "m.npz")
    run("predict", "m.npz", "rare.csv", "-o", "b.csv")
    assert_array_equal(clusters("a.csv"), clusters("b.csv"))


def test_unknown_groups_are_refused_or_blind(folder, run):
    folder.write("new.csv", sex=["x"] + folder.people["sex"].to_pylist()[1:])
    run(*FIT, "--sensitive", "sex", "--model", "m.npz")
    result = run("predict", "m.npz", "new.csv", "-o", "a.csv", code=1)
    assert "1 group that the model has not seen: x (1 row)" in result.stderr
    assert not (folder / "a.csv").exists()
    run("predict", "m.npz", "new.csv", "-o", "a.csv", "--unknown-groups", "blind")
    assert len(clusters("a.csv")) == len(folder.people)


def test_a_new_category_warns(folder, run):
    folder.write("new.csv", job=["pilot"] + folder.people["job"].to_pylist()[1:])
    run(*FIT, "--sensitive", "sex", "--model", "m.npz")
    assert "such as 'pilot'" in run("predict", "m.npz", "new.csv", "-o", "a.csv").stderr


def test_the_summary_as_json_has_the_composition(folder, run):
    run(*FIT, "--sensitive", "sex", "--model", "m.npz")
    predict = ("predict", "m.npz", "people.csv")
    summary = json.loads(run(*predict, "--json", "-o", "a.csv").stdout)
    expected = pd.crosstab(clusters("a.csv"), folder.people["sex"].to_pandas())
    assert_array_equal(summary["counts"], expected)
    assert summary["groups"] == ["f", "m"]
    assert summary["outputs"] == {"labels": "a.csv"}
    alone = json.loads(run(*predict, "--json").stdout)
    assert alone["counts"] == summary["counts"]
    assert alone["outputs"] == {}
    assert "standard output" in run(*predict, "--json", "-o", "-", code=2).stderr


BAD_IDS = {
    "feature": ["--id", "age"],
    "sensitive": ["--id", "sex"],
    "cluster": ["--id", "cluster"],
    "membership": ["--id", "membership_2", "--soft"],
    "regret": ["--id", "regret", "--regret"],
}


@pytest.mark.parametrize("case", BAD_IDS)
def test_an_id_that_is_something_else_as_well_is_refused(folder, run, case):
    run(*FIT, "--sensitive", "sex", "--model", "m.npz")
    result = run("predict", "m.npz", "people.csv", *BAD_IDS[case], "-o", "a.csv", code=2)
    assert f"--id {BAD_IDS[case][1]!r}" in result.stderr
    assert not (folder / "a.csv").exists()


def test_advice_about_missing_values_can_be_followed(folder, run):
    people = folder.people
    folder.write("gaps.csv", age=[None, *people["age"].to_pylist()[1:]])
    folder.write("unknown.csv", sex=[None, *people["sex"].to_pylist()[1:]])
    run(*FIT, "--sensitive", "sex", "--model", "m.npz")
    refused = run("predict", "m.npz", "gaps.csv", code=1).stderr
    assert "--missing impute" in refused
    assert "--exclude" not in refused
    refused = run("predict", "m.npz", "unknown.csv", "--missing", "own-group", code=1).stderr
    assert "1 group that the model has not seen: (missing) (1 row). It knows f, m." in refused
    assert "--unknown-groups blind" in refused
    options = ("--missing", "own-group", "--unknown-groups", "blind", "-o", "a.csv")
    run("predict", "m.npz", "unknown.csv", *options)
    assert clusters("a.csv").notna().all()


def test_a_missing_column_is_named(folder, run):
    folder.write("new.csv", income=None, incomes=folder.people["income"].to_numpy())
    run(*FIT, "--sensitive", "sex", "--model", "m.npz")
    result = run("predict", "m.npz", "new.csv", code=1)
    assert "has no column 'income'; did you mean 'incomes'?" in result.stderr


def test_a_model_without_preprocessing_is_for_python_only(folder, run):
    X = np.random.default_rng(0).normal(size=(100, 2))
    model = AnchorFairClustering(2, random_state=0).fit(X, sensitive_features=np.arange(100) % 2)
    save_model(model, "m.npz")
    result = run("predict", "m.npz", "people.csv", code=1)
    assert "saved from Python without preprocessing" in result.stderr


def test_a_damaged_model_is_refused(folder, run):
    (folder / "m.npz").write_bytes(b"not a model")
    assert "is not a model file" in run("predict", "m.npz", "people.csv", code=1).stderr
    assert "There is no model file" in run("predict", "x.npz", "people.csv", code=1).stderr


def test_the_model_holds_the_preprocessing_and_no_row(folder, run):
    run(*FIT, "--sensitive", "sex", "--model", "m.npz")
    preprocessing = load_model("m.npz").preprocessing_
    assert preprocessing.inputs == ["age", "income", "job", "race"]
    assert preprocessing.groups.columns == ("sex",)
    age = preprocessing.columns[0]
    ages = folder.people["age"].to_numpy()
    assert (age.center, age.scale) == (pytest.approx(ages.mean()), pytest.approx(ages.std()))
    assert "00017" not in json.dumps(preprocessing.to_json())
