"""``fairanchor audit --model``: new batches against a saved model."""

import json

import numpy as np
import pandas as pd
import pytest

from fairanchor import load_model
from fairanchor.audit import audit_batch


@pytest.fixture
def model(folder, run):
    """A model of the people, and a batch of others like them."""
    features = ("--features", "age,income")
    run("fit", "people.csv", "-k", 3, "--sensitive", "sex", *features, "--model", "m.npz", "-q")
    folder.write_strangers("batch.parquet", 500)


def test_a_batch_is_compared_with_the_model_and_nothing_is_labelled(folder, model, run):
    before = folder.names
    result = run("audit", "--model", "m.npz", "batch.parquet", "--json")
    assert folder.names == before
    found = json.loads(result.stdout)
    estimator = load_model("m.npz")
    batch = pd.read_parquet("batch.parquet")
    X = np.column_stack([batch["age"], batch["income"]]).astype(float)
    people = folder.people.to_pandas()
    fitted = np.column_stack([people["age"], people["income"]]).astype(float)
    X = (X - fitted.mean(axis=0)) / fitted.std(axis=0)
    expected = audit_batch(estimator, X, sensitive_features=batch["sex"])
    assert found["counts"] == expected.counts.tolist()
    assert found["p_value"] == pytest.approx(expected.p_value)
    assert found["n_rows_far"] == len(expected.far_rows)
    assert {"impact_ratio", "p_value", "breakdown_errors"} <= set(found)
    assert "smallest p-value" in run("audit", "--model", "m.npz", "batch.parquet").stdout


THRESHOLDS = [
    ({"income": lambda frame: frame["income"] + 1e7}, "--max-far", 0.01),
    ({"sex": lambda frame: np.where(np.arange(len(frame)) % 10, "f", "m")}, "--min-p-value", 1e-6),
    ({"sex": lambda frame: np.where(frame["sex"] == "f", "d", "m")}, "--max-unseen", 0.1),
    ({"sex": lambda frame: ["f"] * len(frame)}, "--min-relative-balance", 0.5),
]


@pytest.mark.parametrize(("changes", "option", "threshold"), THRESHOLDS)
def test_a_threshold_that_is_crossed_ends_with_3(folder, model, run, changes, option, threshold):
    audit = ("audit", "--model", "m.npz")
    run(*audit, "batch.parquet", option, 0 if option.startswith("--min") else 1)
    batch = pd.read_parquet("batch.parquet")
    batch.assign(**changes).to_csv("other.csv", index=False)
    run(*audit, "other.csv")
    assert option in run(*audit, "other.csv", option, threshold, code=3).stderr


@pytest.mark.parametrize("measure", ["impact-ratio", "p-value", "relative-balance"])
def test_a_batch_of_unknown_groups_alone_meets_no_threshold(folder, model, run, measure):
    option = f"--min-{measure}"
    pd.read_parquet("batch.parquet").assign(sex="d").to_csv("other.csv", index=False)
    audit = ("audit", "--model", "m.npz", "other.csv")
    assert option in run(*audit, option, 0.001, code=3).stderr
    assert json.loads(run(*audit, "--json").stdout)["p_value"] is None


def test_a_table_without_the_groups_is_told_of_data(folder, run):
    pd.DataFrame({"cluster": [0, 1]}).to_csv("labels.csv", index=False)
    assert "--data names a table" in run("audit", "labels.csv", "--sensitive", "sex", code=1).stderr
