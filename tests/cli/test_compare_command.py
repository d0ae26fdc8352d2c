"""``fairanchor compare``: plain and fair methods on one table."""

import errno
import json
import sys
import warnings
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from fairanchor import AnchorFairClustering, FairKMeans
from fairanchor.cli._commands import METHODS
from fairanchor.metrics import relative_balance_score

N_PEOPLE = 900

BASIC = ("compare", "people.csv", "-k", 2, "--sensitive", "sex", "--id", "person", "--jobs", 1)
TWO = ("--method", "k-means", "--method", "anchors+fairlets")


def records(result):
    return {record["method"]: record for record in json.loads(result.stdout)["methods"]}


@pytest.mark.slow
def test_figures_equal_those_made_by_hand(folder, run):
    found = records(run(*BASIC, *TWO, "--features", "age,income", "--json"))
    X = StandardScaler().fit_transform(folder.people.select(["age", "income"]).to_pandas())
    sex = folder.people["sex"].to_pandas()
    plain = KMeans(2, n_init=10, random_state=0).fit(X)
    fair = AnchorFairClustering(2, clusterer="fairlets", random_state=0)
    fair.fit(X, sensitive_features=sex)
    assert found["k-means"]["cost"] == pytest.approx(plain.inertia_, rel=1e-3)
    assert found["k-means"]["relative_cost"] == 1.0
    relative = relative_balance_score(fair.labels_, sensitive_features=sex)
    assert found["anchors+fairlets"]["relative_balance"] == pytest.approx(relative)
    assert found["anchors+fairlets"]["relative_cost"] >= 0.999
    alone = records(run(*BASIC, "--method", "fair k-means", "--features", "age,income", "--json"))
    exact = FairKMeans(2, random_state=0).fit(X, sensitive_features=sex)
    assert alone["fair k-means"]["cost"] == pytest.approx(exact.inertia_, rel=1e-3)
    assert "relative_cost" not in alone["fair k-means"]
    of_plain = relative_balance_score(plain.labels_, sensitive_features=sex)
    assert found["k-means"]["relative_balance"] == pytest.approx(of_plain)


@pytest.mark.slow
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
    legend = [text for text in texts if text.strip().endswith(" s")]
    assert {text.split(",")[0].strip() for text in legend} == {"k-means", "anchors+fairlets"}
    assert {"cost, k-means = 1", "balance of the worst cluster"} <= {t.strip() for t in texts}


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
    assert "expected a figure" in run(*BASIC, "-o", "table.csv", code=2).stderr
    assert "is an input" in run("compare", "p.png", *BASIC[2:], "-o", "p.png", code=2).stderr
    (folder / "old.png").write_text("old")
    assert "exists already" in run(*BASIC, "-o", "old.png", code=1).stderr
    assert (folder / "old.png").read_text() == "old"


def changed_fit(monkeypatch, change):
    """Let the framework, on these rows, do something before or after its work."""
    fit = AnchorFairClustering.fit

    def with_change(self, X, *args, **kwargs):
        fit(self, X, *args, **kwargs)
        if len(X) == N_PEOPLE:
            change(self, X, **kwargs)
        return self

    monkeypatch.setattr(AnchorFairClustering, "fit", with_change)


def test_without_matplotlib_the_error_comes_first_and_names_the_extra(folder, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("compare", "none.csv", *BASIC[2:], "-o", "compare.png", code=1)
    assert 'pip install "fairanchor[report]"' in result.stderr


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_picture_that_fails_does_not_take_the_results_along(folder, run, monkeypatch, as_json):
    def fail(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device", "compare.png")

    monkeypatch.setattr("fairanchor.cli._compare.plot_comparison", fail)
    result = run(*BASIC, *TWO, *as_json, "-o", "compare.png", code=1)
    assert "anchors+fairlets" in result.stdout
    assert "compare.png: No space left on device" in result.stderr
    assert folder.names == ["people.csv", "people.parquet"]


def test_without_a_success_there_is_no_picture_and_it_is_said(folder, run):
    result = run(*BASIC[:3], 901, *BASIC[4:], *TWO, "-o", "compare.png", code=3)
    assert "there is no figure compare.png" in result.stderr
    assert "--clusters=901" in result.stdout
    assert not (folder / "compare.png").exists()


def test_groups_have_their_names_in_what_methods_say(folder, run, monkeypatch):
    folder.write("people.csv", sex=[None] * 3 + folder.people["sex"].to_pylist()[3:])
    seen = []
    changed_fit(
        monkeypatch, lambda self, X, sensitive_features: seen.append(set(sensitive_features))
    )
    result = run(*BASIC, *TWO, "--missing", "own-group", "--json")
    assert seen == [{"f", "m", "(missing)"}]
    assert set(json.loads(result.stdout)["groups"]) == {"f", "m", None}


def test_warnings_name_the_method_that_gave_them(folder, run, monkeypatch):
    def warn(self, X, **kwargs):
        warnings.warn("these rows are odd", UserWarning, stacklevel=2)

    changed_fit(monkeypatch, warn)
    result = run(*BASIC, *TWO, "--features", "age,income", "--json")
    assert "Warning: anchors+fairlets: these rows are odd" in result.stderr
    found = records(result)
    assert found["anchors+fairlets"]["warnings"] == ["these rows are odd"]
    assert found["k-means"]["warnings"] == []
    assert json.loads(result.stdout)["warnings"] == ["anchors+fairlets: these rows are odd"]


def test_a_method_that_did_not_converge_ends_with_code_3(folder, run, monkeypatch):
    changed_fit(monkeypatch, lambda self, X, **kwargs: setattr(self, "converged_", False))
    assert "did not converge" in run(*BASIC, *TWO, code=3).stdout
    assert not records(run(*BASIC, *TWO, "--json", code=3))["anchors+fairlets"]["converged"]


def test_a_broken_promise_ends_with_code_3_but_plain_kmeans_promises_nothing(
    folder, run, monkeypatch
):
    assert records(run(*BASIC, *TWO, "--json"))["k-means"]["worst_violation"] > 1

    def spoil(self, X, **kwargs):
        self.labels_ = (X[:, 1] > np.median(X[:, 1])).astype(np.int32)

    changed_fit(monkeypatch, spoil)
    result = run(*BASIC, *TWO, code=3)
    assert "misses its proportions by" in result.stdout.splitlines()[2]
    assert "misses" not in result.stdout.splitlines()[1]


@pytest.mark.slow
def test_a_group_with_few_anchors_does_not_warn(folder, run):
    race = [9] * 6 + folder.people["race"].to_pylist()[6:]
    folder.write("small.parquet", race=race)
    methods = ("--method", "anchors+vfc", "--method", "anchors+ffc")
    result = run("compare", "small.parquet", "-k", 4, "--sensitive", "race", "--id", "person",
                 "--features", "age,income", *methods, "--json", code=None)  # fmt: skip
    for record in records(result).values():
        assert not [message for message in record["warnings"] if "fewer rows" in message]
