"""What a report is made from: checks of the arrays, and where they come from."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from fairanchor import AnchorFairClustering, FairKMeans, FairnessTargets
from fairanchor.datasets import make_zafar
from fairanchor.report import RunSummary, render_report, summarise_labels, summarise_run

SMALL = {
    "title": "t",
    "labels": [0, 0, 1, 1],
    "group_codes": [0, 1, 0, 1],
    "group_names": ["a", "b"],
}


def test_counts_of_another_clustering_raise_an_error():
    with pytest.raises(ValueError, match=r"counts\[1, 0\] is 2, but the labels and groups have 1"):
        RunSummary(**SMALL, counts=np.array([[1, 1], [2, 1]]))


def test_counts_are_those_of_the_labels():
    run = RunSummary(**{**SMALL, "labels": [0, 0, 0, 2]})
    assert_array_equal(run.counts, [[2, 1], [0, 0], [0, 1]])
    assert run.n_rows_total == 4


def test_counts_may_cover_more_rows_than_the_labels():
    run = RunSummary(**SMALL, counts=[[10, 10], [20, 20]], n_rows_total=60)
    assert run.counts.sum() == 60
    assert not run.has_all_rows


def test_weights_are_counted():
    run = RunSummary(**SMALL, sample_weight=[0.5, 1, 2, 4])
    assert_allclose(run.counts, [[0.5, 1], [2, 4]])


def test_a_fitted_estimator_provides_its_facts():
    data = make_zafar(800, variant="original", random_state=0)
    graph = "reconstruction"
    model = AnchorFairClustering(3, n_anchors=40, graph=graph, random_state=0)
    model.fit(data.data, sensitive_features=data.sensitive_features)
    run = summarise_run(model, data.data, sensitive_features=data.sensitive_features)
    assert_array_equal(run.counts, model.counts_)
    total = run.group_costs.records[-1]
    assert_allclose(800 * total["fair_cost"], model.inertia_, rtol=1e-3)
    assert set(run.fingerprints) == {"labels", "groups", "features"}
    assert run.uses_sensitive_for_prediction
    assert run.parameters["estimator"] == "AnchorFairClustering"
    assert run.parameters["random_state"] == 0


def test_a_fit_without_groups_is_reported():
    data = make_zafar(300, variant="original", random_state=0)
    model = FairKMeans(3, random_state=0, fairness=FairnessTargets(max_size=120)).fit(data.data)
    run = summarise_run(model, data.data, sensitive_features=None)
    assert [record["group"] for record in run.group_costs.records] == ["all rows"]
    assert "Are the clusters within the required bounds?" in render_report(run)


def test_other_estimators_and_frames_are_taken():
    import pandas as pd

    data = make_zafar(300, variant="original", random_state=0)
    frame = pd.DataFrame(data.data, columns=["income", "age"])
    model = FairKMeans(2, random_state=0, n_init=1)
    model.fit(frame, sensitive_features=data.sensitive_features)
    run = summarise_run(
        model, frame, sensitive_features=data.sensitive_features, plain_labels=None, title="T"
    )
    assert run.feature_names == ["income", "age"]
    assert run.group_costs is None
    assert run.title == "T"


def test_rows_other_than_those_of_the_fit_are_refused():
    data = make_zafar(300, variant="original", random_state=0)
    model = FairKMeans(2, random_state=0, n_init=1)
    groups = data.sensitive_features
    model.fit(data.data, sensitive_features=groups)
    with pytest.raises(ValueError, match="X has 200 rows, the estimator was fitted on 300"):
        summarise_run(model, data.data[:200], sensitive_features=groups[:200])
    with pytest.raises(ValueError, match="not fitted with: \\['x'\\]"):
        summarise_run(model, data.data, sensitive_features=np.full(300, "x"))
    with pytest.raises(ValueError, match="'no', expected 'fit', None or labels"):
        summarise_run(model, data.data, sensitive_features=groups, plain_labels="no")
    with pytest.raises(TypeError, match="Sparse data was passed for X"):
        summarise_run(model, csr_array(data.data), sensitive_features=groups)
    with pytest.raises(ValueError, match="FairKMeans has no labels_"):
        summarise_run(FairKMeans(2), data.data, sensitive_features=groups)


def test_labels_of_any_tool_keep_their_names():
    run = summarise_labels(["gold", "tin", "tin"], sensitive_features=["f", "m", "f"])
    assert run.cluster_names == ["gold", "tin"]
    assert_array_equal(run.counts, [[1, 0], [1, 1]])


@pytest.mark.parametrize("missing", [None, np.nan, float("nan")])
def test_a_missing_label_is_refused_or_left_out_and_counted(missing):
    labels, groups = ["gold", missing, "tin", "tin"], ["f", "f", "m", "f"]
    with pytest.raises(ValueError, match=r"labels has 1 missing value.* row 1\. .*missing='drop'"):
        summarise_labels(labels, sensitive_features=groups)
    run = summarise_labels(labels, sensitive_features=groups, missing="drop")
    assert_array_equal(run.counts, [[1, 0], [1, 1]])
    assert run.cluster_names == ["gold", "tin"]
    assert run.n_rows_left_out == 1
    assert_array_equal(run.unassigned, [1, 0])
    weighted = summarise_labels(
        labels, sensitive_features=groups, sample_weight=[1, 50, 2, 3], missing="drop"
    )
    assert_array_equal(weighted.counts, [[1, 0], [3, 2]])


BAD_LABELS = [
    ({"labels": [None, None]}, "labels has 2 missing"),
    ({"labels": [0.0, 1.0, 2.0]}, "sensitive_features has 2 rows, expected 3"),
    ({"missing": "ignore"}, "missing='ignore' should be 'error' or 'drop'"),
    ({"sensitive_features": ["a", None]}, "sensitive_features has 1 missing"),
    ({"missing_groups": "drop"}, "missing_groups='drop' should be 'error' or 'own_group'"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_LABELS)
def test_labels_that_make_no_sense_are_refused(changes, message):
    given = {"labels": [0, 1], "sensitive_features": ["a", "b"], "missing": "drop"} | changes
    with pytest.raises(ValueError, match=message):
        summarise_labels(given.pop("labels"), **given)
