"""``fairanchor predict``: new rows by a saved model."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.pipeline import make_pipeline

from fairanchor import FairKMeans
from fairanchor.persistence import load_model, save_model

FIT = ("fit", "people.csv", "-k", 3, "--id", "person", "--jobs", 1)
SPFC = ("--clusterer", "spfc")


def clusters(name):
    return pd.read_csv(name)["cluster"]


@pytest.mark.parametrize("options", [[], SPFC], ids=["fair k-means", "framework"])
@pytest.mark.parametrize("sensitive", ["sex", "race", "sex,race"])
def test_training_rows_get_their_labels_again_whatever_the_format(folder, run, sensitive, options):
    run(*FIT, *options, "--sensitive", sensitive, "-o", "fitted.csv", "--model", "m.npz")
    for source in ("people.csv", "people.parquet"):
        run("predict", "m.npz", source, "--id", "person", "-o", "again.csv", "--force")
        assert (folder / "again.csv").read_text() == (folder / "fitted.csv").read_text()


def test_new_rows_are_labelled_as_by_the_library(folder, run):
    new = folder.write_strangers("new.parquet", 50)
    run(*FIT, *SPFC, "--sensitive", "sex", "--features", "age,income", "--model", "m.npz")
    run("predict", "m.npz", "new.parquet", "-o", "new.csv")
    model = load_model("m.npz")
    old = folder.people.select(["age", "income"]).to_pandas()
    X = ((new.select(["age", "income"]).to_pandas() - old.mean()) / old.std(ddof=0)).to_numpy()
    expected = model.predict(X, sensitive_features=new["sex"].to_pandas())
    assert_array_equal(clusters("new.csv"), expected)


@pytest.mark.parametrize("missing", [(), ("--missing", "impute")])
def test_a_model_is_a_pipeline_of_scikit_learn(folder, run, missing):
    if missing:
        folder.write("people.csv", age=[None, *folder.people["age"].to_pylist()[1:]])
    run(*FIT, "--sensitive", "sex", *missing, "--model", "m.npz")
    run("predict", "m.npz", "people.csv", *missing, "-o", "labels.csv")
    model, frame = load_model("m.npz"), pd.read_csv("people.csv")
    pipeline = make_pipeline(model.preprocessing_.to_transformer(), model)
    labels = pipeline.predict(frame, sensitive_features=frame["sex"])
    assert_array_equal(labels, clusters("labels.csv"))


def test_labels_go_to_standard_output_by_default(folder, run):
    run(*FIT, "--sensitive", "sex", "--model", "m.npz")
    result = run("predict", "m.npz", "-", stdin=(folder / "people.csv").read_bytes())
    assert result.stdout.startswith("row,cluster\n0,")
    assert "relative balance" in result.stderr


def test_imputed_models_repeat_what_fit_did(folder, run):
    incomes = folder.people["income"].to_pylist()  # hardly two are equal: no ties
    folder.write("gaps.csv", income=[None, *incomes[1:]])
    options = ("--sensitive", "sex", "--features", "income,job", "--missing", "impute")
    run("fit", "gaps.csv", *FIT[2:], *options, "-o", "a.csv", "--model", "m.npz")
    result = run("predict", "m.npz", "gaps.csv", "-o", "b.csv", code=1)
    assert "'income' has 1 missing value in 900 rows" in result.stderr
    run("predict", "m.npz", "gaps.csv", "-o", "b.csv", "--missing", "impute")
    assert_array_equal(clusters("a.csv"), clusters("b.csv"))
    run("predict", "m.npz", "gaps.csv", "-o", "c.csv", "--missing", "drop-rows")
    assert np.isnan(clusters("c.csv")[0])
    assert_array_equal(clusters("c.csv")[1:], clusters("a.csv")[1:])


def test_unknown_groups_are_refused_or_blind(folder, run):
    folder.write("new.csv", sex=["x"] + folder.people["sex"].to_pylist()[1:])
    run(*FIT, "--sensitive", "sex", "--model", "m.npz")
    result = run("predict", "m.npz", "new.csv", "-o", "a.csv", code=1)
    assert "1 group(s) that fit has not seen: 'x' (1 rows)" in result.stderr
    assert not (folder / "a.csv").exists()
    run("predict", "m.npz", "new.csv", "-o", "a.csv", "--unknown-groups", "blind")
    assert len(clusters("a.csv")) == len(folder.people)


BLIND = ("--unknown-groups", "blind")


@pytest.fixture
def model_of_two(folder, run):
    """A model of sex and race, each by itself; people whose race is not known to it."""
    run(*FIT, "--sensitive", "sex,race", "--attributes", "separate", "--model", "m.npz")
    races = [7, 8] * 3 + folder.people["race"].to_pylist()[6:]
    folder.write("unknown.csv", race=races)
    return races


def test_rows_without_groups_are_labelled_blindly_where_that_was_asked_for(folder, run):
    run(*FIT, "--sensitive", "sex,race", "--model", "m.npz")
    folder.write("new.csv", sex=None, race=None)
    refused = run("predict", "m.npz", "new.csv", "-o", "a.csv", code=1).stderr
    assert "has no column 'sex'" in refused
    assert "--unknown-groups blind labels rows without groups" in refused
    result = run("predict", "m.npz", "new.csv", "-o", "a.csv", *BLIND)
    assert "Labelled without groups, by average prices: 900 rows" in result.stderr
    assert "does not have sex, race" in result.stderr
    assert "balance" not in result.stderr
    model = load_model("m.npz").set_params(unknown_groups="blind")
    table = folder.people.select(model.preprocessing_.inputs)
    labels = model.predict(model.preprocessing_.rows_of(table))
    assert_array_equal(clusters("a.csv"), labels)
    sizes = np.bincount(labels, minlength=3)
    assert f"Clusters: 0: {sizes[0]} rows, 1: {sizes[1]} rows" in result.stderr
    summary = json.loads(run("predict", "m.npz", "new.csv", "--json", *BLIND).stdout)
    assert summary["sizes"] == sizes.tolist()
    assert summary["n_rows_blind"] == 900
    assert summary["groups"] is summary["counts"] is summary["balance"] is None


def test_some_of_the_sensitive_columns_are_not_enough(folder, run, model_of_two):
    folder.write("new.csv", race=None)
    result = run("predict", "m.npz", "new.csv", "-o", "a.csv", *BLIND, code=1)
    assert "has no column 'race'" in result.stderr
    result = run("predict", "m.npz", "new.csv", "-o", "a.csv", code=1)
    assert "has no column 'race'" in result.stderr
    assert "blind" not in result.stderr
    assert not (folder / "a.csv").exists()


def test_a_sensitive_column_that_is_a_feature_is_needed(folder, run):
    run(*FIT, "--sensitive", "sex", "--features", "age,sex", "--model", "m.npz")
    folder.write("new.csv", sex=None)
    for options in ((), BLIND):
        refused = run("predict", "m.npz", "new.csv", *options, code=1).stderr
        assert "has no column 'sex'" in refused
        assert "blind" not in refused


def test_rows_of_unknown_groups_are_counted(folder, run, model_of_two):
    predict = ("predict", "m.npz", "unknown.csv")
    result = run(*predict, "-o", "a.csv", *BLIND)
    assert "Labelled by average prices: 6 rows of unknown groups." in result.stderr
    summary = json.loads(run(*predict, "--json", *BLIND).stdout)
    assert summary["n_rows_blind"] == 6
    assert summary["sizes"] == np.bincount(clusters("a.csv")).tolist()
    result = run("predict", "m.npz", "people.csv", "-o", "b.csv", *BLIND)
    assert "average prices" not in result.stderr
    assert json.loads(run("predict", "m.npz", "people.csv", "--json").stdout)["n_rows_blind"] == 0


def test_an_unknown_value_of_a_separate_attribute_is_named_beside_the_known_ones(
    folder, run, model_of_two
):
    refused = run("predict", "m.npz", "unknown.csv", "-o", "a.csv", code=1).stderr
    assert ", 7) (" in refused
    assert "race [" in refused
    assert "--unknown-groups blind" in refused


def test_separate_attributes_are_judged_one_by_one(folder, run, model_of_two):
    run("predict", "m.npz", "unknown.csv", "-o", "a.csv", *BLIND)
    result = run("predict", "m.npz", "unknown.csv", "--json", *BLIND)
    attributes = json.loads(result.stdout)["attributes"]
    columns = {"sex": folder.people["sex"].to_pylist(), "race": model_of_two}
    for title, values in columns.items():
        expected = pd.crosstab(clusters("a.csv"), np.array(values))
        assert attributes[title]["groups"] == expected.columns.tolist()
        assert_array_equal(attributes[title]["counts"], expected)
        shares = expected.div(expected.sum(axis=1), axis=0)
        balance = (shares.min(axis=1) / shares.max(axis=1)).min()
        assert attributes[title]["balance"] == pytest.approx(balance)
        assert f"{title} by itself: balance {balance:.4f} (at most" in result.stderr


def test_training_rows_are_judged_as_by_fit(folder, run):
    options = ("--sensitive", "sex,race", "--attributes", "separate", "--model", "m.npz")
    fitted = json.loads(run(*FIT, *options, "--json").stdout)["attributes"]
    again = json.loads(run("predict", "m.npz", "people.csv", "--json").stdout)["attributes"]
    for own in fitted.values():
        del own["worst_violation"]  # of limits, which new rows do not have
    assert again == fitted


def test_one_separate_attribute_is_called_by_its_title(folder, run):
    run(*FIT, "--sensitive", "race", "--attributes", "separate", "--model", "m.npz")
    result = run("predict", "m.npz", "people.csv", "-o", "a.csv")
    assert "race by itself: balance" in result.stderr


def test_a_model_of_the_command_line_knows_its_columns_in_python(folder, run):
    run(*FIT, "--sensitive", "sex,race", "-o", "a.csv", "--model", "m.npz")
    model = load_model("m.npz")
    assert model.sensitive_names_in_.tolist() == ["sex", "race"]
    rows = model.preprocessing_.rows_of(folder.people)
    swapped = folder.people.select(["race", "sex"])
    assert_array_equal(model.predict(rows, sensitive_features=swapped), clusters("a.csv"))


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
}


@pytest.mark.parametrize("case", BAD_IDS)
def test_an_id_that_is_something_else_as_well_is_refused(folder, run, case):
    run(*FIT, *SPFC, "--sensitive", "sex", "--model", "m.npz")
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
    refused = run("predict", "m.npz", "unknown.csv", code=1).stderr
    assert "--missing own-group --unknown-groups blind" in refused
    refused = run("predict", "m.npz", "unknown.csv", "--missing", "own-group", code=1).stderr
    assert "1 group(s) that fit has not seen: None (1 rows)." in refused
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
    model = FairKMeans(2, random_state=0).fit(X, sensitive_features=np.arange(100) % 2)
    save_model(model, "m.npz")
    result = run("predict", "m.npz", "people.csv", code=1)
    assert "saved from Python without preprocessing" in result.stderr


def test_a_damaged_model_is_refused(folder, run):
    (folder / "m.npz").write_bytes(b"not a model")
    assert "is not a model" in run("predict", "m.npz", "people.csv", code=1).stderr
    assert "There is no model file" in run("predict", "x.npz", "people.csv", code=1).stderr


def test_the_model_holds_the_preprocessing_and_no_row(folder, run):
    run(*FIT, "--sensitive", "sex", "--model", "m.npz")
    preprocessing = load_model("m.npz").preprocessing_
    assert preprocessing.inputs == ["age", "income", "job", "race"]
    assert preprocessing.sensitive == ("sex",)
    age = preprocessing.columns[0]
    ages = folder.people["age"].to_numpy()
    assert (age.center, age.scale) == (pytest.approx(ages.mean()), pytest.approx(ages.std()))
    assert "00017" not in json.dumps(preprocessing.to_json())
