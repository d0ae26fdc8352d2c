"""How to repeat a run: the code runs and gives the same labels, the command says what was said."""

import re
import shlex
import subprocess

import click
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from pyarrow import csv
from sklearn.cluster import AgglomerativeClustering, KMeans

from fairanchor import (
    FDAS,
    AnchorFairClustering,
    FairKMeans,
    FairnessTargets,
    LocalGraph,
    ReconstructionGraph,
)
from fairanchor.cli._repeat import command_line
from fairanchor.cli._targets import sensitive_columns
from fairanchor.report import render_report, summarise_run
from fairanchor.report._repeat import python_of_estimator, shell_command
from fairanchor.report._table_run import summarise_table_run
from fairanchor.tables import choose_columns, open_table
from fairanchor.tables._load import load_for_fit
from fairanchor.tables._missing import MissingPolicy

SEX = ['it\'s "sex"']
READ = {"delimiter": None, "null_values": (), "missing": ("error",), "min_group_size": 0}
N_PEOPLE = 300


@pytest.fixture
def people(tmp_path, monkeypatch):
    """A table with awkward names, a missing age and a missing income, as ``people.csv``."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, N_PEOPLE).astype(object)
    age[7] = None
    income = rng.normal(size=N_PEOPLE).astype(object)
    income[9] = None
    table = {
        'it\'s "sex"': rng.choice(["f", "m", "d"], N_PEOPLE, p=[0.49, 0.49, 0.02]),
        "age": age.tolist(),
        "income": income.tolist(),
        "job": rng.choice(["nurse", "cook"], N_PEOPLE),
    }
    csv.write_csv(pa.table(table), "people.csv")
    csv.write_csv(pa.table(table), "semicolon.csv", csv.WriteOptions(delimiter=";"))
    return tmp_path


def run_of(source="people.csv", estimator=None, scale=True, sensitive=SEX, **options):
    """The summary of ``fairanchor fit`` with these options."""
    options = READ | options
    policy = MissingPolicy.of(options["missing"])
    table = open_table(source, delimiter=options["delimiter"], null_values=options["null_values"])
    roles = choose_columns(table, sensitive=sensitive)
    loaded = load_for_fit(
        table, roles, policy, scale=scale, min_group_size=options["min_group_size"]
    )
    estimator = estimator or FairKMeans(3, random_state=0)
    groups = sensitive_columns(loaded, {"attributes": estimator.attributes})
    estimator.fit(loaded.X, sensitive_features=groups)
    return estimator, summarise_table_run(
        estimator,
        loaded,
        source=source,
        options=options,
        command="fairanchor fit people.csv",
        warnings=["Beware."],
        timings={"fit": 1.0},
    )


def repeated(code, **names):
    exec(compile(code, "<report>", "exec"), names)
    return names["model"]


WAYS = {
    "rows dropped": {"missing": ("drop-rows",)},
    "imputed": {"missing": ("impute",)},
    "not scaled": {"missing": ("drop-rows",), "scale": False},
    "merged": {"missing": ("impute",), "min_group_size": 20},
    "another delimiter": {
        "source": "semicolon.csv",
        "missing": ("impute",),
        "delimiter": ";",
        "null_values": ("?",),
    },
    "other parameters": {
        "missing": ("impute",),
        "estimator": AnchorFairClustering(
            4,
            clusterer="vfc",
            anchors=FDAS(weights="uniform"),
            graph=ReconstructionGraph(alpha=2.5),
            n_anchors=30,
            random_state=3,
        ),
    },
    "two sensitive columns": {"missing": ("drop-rows",), "sensitive": [*SEX, "job"]},
    "separate columns": {
        "missing": ("impute",),
        "sensitive": [*SEX, "job"],
        "estimator": FairKMeans(2, attributes="separate", tolerance=0.1, random_state=0),
    },
    "bounds": {
        "missing": ("impute",),
        "estimator": FairKMeans(2, fairness=FairnessTargets(lower={"f": 0.4}), random_state=0),
    },
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("way", WAYS)
def test_the_python_code_of_a_table_gives_the_same_labels(people, way):
    estimator, run = run_of(**WAYS[way])
    assert_array_equal(repeated(run.code).labels_, estimator.labels_)
    assert not re.search(r"(import|from|\.) *_", run.code)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rows_left_out_warnings_and_all_parameters_are_in_the_report(people):
    _, run = run_of(missing=("drop-rows",))
    html = render_report(run)
    assert "2 of 300 rows, those with missing values, were left out" in html
    assert "2 more left out" in html
    assert '<a href="#warnings">see below</a>' in html
    assert "<li>Beware.</li>" in html
    for name in (*FairKMeans().get_params(), "feature columns", "missing values"):
        assert f'<th scope="row">{name}</th>' in html
    assert "age, income, job" in html
    assert "n_init=10, random_state=0" in html
    assert "fairanchor fit people.csv" in html


@pytest.mark.slow
def test_a_run_without_warnings_says_so_and_one_that_knows_none_does_not(fair_run):
    said = "The run gave no warning."
    assert said not in render_report(fair_run)
    rows = np.random.default_rng(0).normal(size=(60, 2))
    groups = ["a", "b", "c"] * 20
    model = FairKMeans(2, n_init=1, random_state=0).fit(rows, sensitive_features=groups)
    run = summarise_run(model, rows, sensitive_features=groups, warnings=[], n_rows_left_out=1)
    html = render_report(run)
    assert said in html
    assert "1 of 61 rows" in html


def test_plain_kmeans_is_the_same_wherever_it_is_shown(people):
    _, run = run_of(missing=("impute",), estimator=FairKMeans(3, random_state=5))
    names = {}
    exec(run.code, names)
    rows = names["X"]
    plain = KMeans(3, n_init=10, random_state=5).fit(rows)
    assert run.plain_cost == plain.inertia_
    again = summarise_run(names["model"], rows, sensitive_features=names["groups"].per_row())
    assert_array_equal(again.plain_labels, run.plain_labels)
    assert again.parameters["plain k-means"] == run.parameters["plain k-means"]


def by_first_column(anchors, sensitive_features, n_clusters, *, sample_weight, random_state):
    return np.arange(len(anchors)) % n_clusters


ESTIMATORS = [
    AnchorFairClustering(3, random_state=0),
    AnchorFairClustering(3, clusterer=FairKMeans(n_init=2), random_state=np.int64(4)),
    AnchorFairClustering(3, clusterer=AgglomerativeClustering(), random_state=0),
    AnchorFairClustering(2, fairness=np.array([[20, 20], [20, 20.0]]), random_state=0),
    AnchorFairClustering(2, graph=LocalGraph(n_neighbors=3), random_state=0),
    FairKMeans(3, n_init=2, random_state=1),
    FairKMeans(
        2, fairness=FairnessTargets(upper={0: [0.6, 0.7]}, min_size=[20, 0.0]), random_state=0
    ),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=range(len(ESTIMATORS)))
def test_the_python_code_of_an_estimator_makes_an_equal_one(estimator):
    rows, groups = np.random.default_rng(0).normal(size=(80, 3)), np.arange(80) % 2
    estimator.fit(rows, sensitive_features=groups)
    code = python_of_estimator(estimator)
    again = repeated(code, X=rows, groups=groups)
    assert_array_equal(again.labels_, estimator.labels_)
    assert not re.search(r"(import|from|\.) *_", code)


def test_what_has_no_code_is_named_in_a_comment():
    estimator = AnchorFairClustering(
        3, clusterer=by_first_column, anchors=np.arange(100), random_state=np.random.RandomState(0)
    )
    code = python_of_estimator(estimator, weighted=True)
    assert "clusterer=...,  # by_first_column" in code
    assert "anchors=...,  # an array of shape (100,)" in code
    assert "random_state=...,  # RandomState" in code
    assert "sample_weight=weights" in code
    compile(code, "<report>", "exec")


@settings(deadline=None, max_examples=40)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=1))
def test_words_without_hidden_characters_come_back_from_a_shell(words):
    line = shell_command(words)
    assert line.isprintable()
    if all(word.isprintable() for word in words):
        assert shlex.split(line) == words


def test_hidden_characters_come_back_from_bash():
    words = ["a\nb", "tab\there", "quo'te\\ \x1b[31m", "\u202eüber", "\U000e0001"]
    line = f"printf '%s\\0' {shell_command(words)}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True,
                          env={"LC_ALL": "C.UTF-8"})  # fmt: skip
    assert done.stdout.decode().split("\0")[:-1] == words


@click.command()
@click.argument("source")
@click.option("--clusters", "-k", type=int, default=2)
@click.option("--exclude", multiple=True)
@click.option("--no-scale", is_flag=True)
@click.option("--null", "null_values", multiple=True)
def pretend(**options):
    """A command with every kind of parameter."""


COMMANDS = [
    (["people.csv"], "fairanchor pretend people.csv"),
    (["my people.csv", "-k", "3"], "fairanchor pretend 'my people.csv' --clusters 3"),
    (
        ["-", "--no-scale", "--exclude", "a", "--exclude", "it's"],
        "fairanchor pretend - --exclude a --exclude 'it'\"'\"'s' --no-scale",
    ),
    (["--null=-", "--null=-9", "x"], "fairanchor pretend x --null - --null=-9"),
    (["--", "-x.csv"], "fairanchor pretend -- -x.csv"),
]


@pytest.mark.parametrize(("words", "line"), COMMANDS)
def test_the_command_line_says_what_was_given(words, line):
    context = pretend.make_context("pretend", words)
    assert command_line(context) == line
    again = pretend.make_context("pretend", shlex.split(line)[2:])
    assert again.params == context.params
