"""How to repeat a run: the code runs and gives the same labels, the command says what was said."""

import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.cluster import AgglomerativeClustering

from fairanchor import (
    FDAS,
    AnchorFairClustering,
    FairKMeans,
    FairnessTargets,
    LocalGraph,
    ReconstructionGraph,
)
from fairanchor.report import render_report, summarise_labels, summarise_run


def summary_of(estimator, **facts):
    rows, groups = np.random.default_rng(0).normal(size=(80, 3)), np.arange(80) % 2
    estimator.fit(rows, sensitive_features=groups)
    return rows, groups, summarise_run(estimator, rows, sensitive_features=groups, **facts)


def test_warnings_rows_left_out_and_all_parameters_are_in_the_report():
    _, _, run = summary_of(FairKMeans(2, random_state=5), warnings=["Beware."], n_rows_left_out=2)
    html = render_report(run)
    assert "Left out: 2 of 82 rows, those with missing values" in html
    assert '<a href="#warnings">see below</a>' in html
    assert "<li>Beware.</li>" in html
    for name in FairKMeans().get_params():
        assert f'<th scope="row">{name}</th>' in html
    assert '<th scope="row">compared with</th>' in html


def test_a_run_without_warnings_says_so_and_one_that_knows_none_does_not():
    text = "The run raised no warning."
    run = summarise_labels([0, 0, 1], sensitive_features=["a", "b", "a"])
    assert text not in render_report(run)
    run.warnings = []
    assert text in render_report(run)


def by_first_column(anchors, sensitive_features, n_clusters, *, sample_weight, random_state):
    return np.arange(len(anchors)) % n_clusters


ESTIMATORS = [
    AnchorFairClustering(3, random_state=0),
    AnchorFairClustering(3, clusterer=FairKMeans(n_init=2), random_state=np.int64(4)),
    AnchorFairClustering(3, clusterer=AgglomerativeClustering(), random_state=0),
    AnchorFairClustering(2, fairness=np.array([[20, 20], [20, 20.0]]), random_state=0),
    AnchorFairClustering(2, graph=LocalGraph(n_neighbors=3), random_state=0),
    AnchorFairClustering(
        4,
        clusterer="vfc",
        anchors=FDAS(weights="uniform"),
        graph=ReconstructionGraph(alpha=2.5),
        n_anchors=30,
        random_state=3,
    ),
    FairKMeans(3, n_init=2, random_state=1),
    FairKMeans(2, fairness=FairnessTargets(lower={0: 0.4}), random_state=0),
    FairKMeans(
        2, fairness=FairnessTargets(upper={0: [0.6, 0.7]}, min_size=[20, 0.0]), random_state=0
    ),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=range(len(ESTIMATORS)))
def test_the_python_code_repeats_the_labels_and_imports_nothing_private(estimator):
    rows, groups, run = summary_of(estimator, plain_labels=None)
    names = {"X": rows, "groups": groups}
    exec(compile(run.code, "<report>", "exec"), names)
    assert_array_equal(names["model"].labels_, estimator.labels_)
    assert not re.search(r"(import|from|\.) *_", run.code)


def test_a_parameter_that_is_no_text_is_an_ellipsis():
    estimator = AnchorFairClustering(
        3, clusterer=by_first_column, anchors=np.arange(80), random_state=np.random.RandomState(0)
    )
    _, _, run = summary_of(estimator, plain_labels=None)
    compile(run.code, "<report>", "exec")
    assert run.code.count("=...") == 3
