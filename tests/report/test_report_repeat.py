"""How to repeat a run: the code runs and gives the same labels, the command says what was said."""

import re
import shlex
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.cluster import AgglomerativeClustering

from fairanchor import (
    AnchorFairClustering,
    FairKMeans,
    FairnessTargets,
    LocalGraph,
)
from fairanchor.report import render_report, summarise_run
from fairanchor.report._repeat import python_of_estimator, shell_command


def repeated(code, **names):
    exec(compile(code, "<report>", "exec"), names)
    return names["model"]


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
