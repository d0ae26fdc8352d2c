"""``fairanchor compare``: plain and fair methods on one table."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from fairanchor import AnchorFairClustering
from fairanchor.cli._compare import METHODS
from fairanchor.metrics import relative_balance_score

BASIC = ("compare", "people.csv", "-k", 2, "--sensitive", "sex", "--id", "person", "--jobs", 1)
TWO = ("--method", "k-means", "--method", "anchors+fair_kmeans")


def records(result):
    return {record["method"]: record for record in json.loads(result.stdout)["methods"]}


def test_figures_equal_those_made_by_hand(folder, run):
    found = records(run(*BASIC, *TWO, "--features", "age,income", "--json"))
    X = StandardScaler().fit_transform(folder.people.select(["age", "income"]).to_pandas())
    sex = folder.people["sex"].to_pandas()
    plain = KMeans(2, n_init=10, random_state=0).fit(X)
    fair = AnchorFairClustering(2, random_state=0).fit(X, sensitive_features=sex)
    assert found["k-means"]["cost"] == pytest.approx(plain.inertia_, rel=1e-3)
    assert found["k-means"]["relative_cost"] == 1.0
    relative = relative_balance_score(fair.labels_, sensitive_features=sex)
    assert found["anchors+fair_kmeans"]["relative_balance"] == pytest.approx(relative)
    assert found["anchors+fair_kmeans"]["relative_cost"] >= 0.999
    assert found["k-means"]["relative_balance"] < relative


def test_every_method_takes_part_by_default(folder, run):
    result = run(*BASIC, "--features", "age,income", "-o", "compare.png")
    for method in METHODS:
        assert method in result.stdout
    assert "No clustering of these rows has a balance above" in result.stdout
    assert (folder / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_a_vector_picture_names_the_methods(folder, run):
    run(*BASIC, *TWO, "-o", "compare.svg")
    root = ElementTree.parse("compare.svg").getroot()
    texts = set(root.itertext())
    assert {"k-means", "anchors+fair_kmeans", "seconds"} <= texts


def test_a_method_that_fails_is_listed_with_its_reason(folder, run, monkeypatch):
    def refuse(self, *args, **kwargs):
        if len(args[0]) == len(folder.people):
            raise ValueError("these rows are not to my taste")
        return fit(self, *args, **kwargs)

    fit = AnchorFairClustering.fit
    monkeypatch.setattr(AnchorFairClustering, "fit", refuse)
    result = run(*BASIC, *TWO, code=3)
    assert "failed: these rows are not to my taste" in result.stdout
    assert np.isfinite(float(result.stdout.splitlines()[1].split()[1]))


def test_the_picture_is_checked_before_the_work(folder, run):
    assert "expected a picture" in run(*BASIC, "-o", "table.csv", code=2).stderr
    (folder / "old.png").write_text("old")
    assert "exists already" in run(*BASIC, "-o", "old.png", code=1).stderr
    assert (folder / "old.png").read_text() == "old"
