"""What holds for `FairKMeans` and `AnchorFairClustering` alike, in cases that are easily missed."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from fairanchor import AnchorFairClustering, FairKMeans, FairnessTargets, load_model

BOTH = pytest.mark.parametrize("estimator", [AnchorFairClustering, FairKMeans])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    return X, np.repeat(["a", "b", "c"], [180, 99, 21])


@BOTH
@pytest.mark.slow
def test_a_group_without_weight_is_labelled_within_bounds(estimator, rows, tmp_path):
    X, group = rows
    model = estimator(3, tolerance=0.2, random_state=0)
    model.fit(X, sensitive_features=group, sample_weight=(group != "c").astype(float))
    labels = model.predict(X, sensitive_features=group)
    assert np.mean(labels == model.labels_) > 0.98
    model.save(tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    assert_array_equal(loaded.predict(X, sensitive_features=group), labels)


@pytest.mark.slow
def test_a_group_without_weight_has_soft_labels(rows):
    X, group = rows
    model = AnchorFairClustering(3, tolerance=0.2, random_state=0)
    model.fit(X, sensitive_features=group, sample_weight=(group != "c").astype(float))
    soft = model.predict_proba(X, sensitive_features=group)
    np.testing.assert_allclose(soft.sum(axis=1), 1.0)


@BOTH
def test_the_columns_of_a_frame_of_targets_go_by_name(estimator):
    X = np.random.default_rng(0).normal(size=(300, 3))
    group = np.repeat(["a", "b"], 150)
    targets = pd.DataFrame({"b": [150, 0], "a": [0, 150]})
    model = estimator(2, fairness=targets, random_state=0).fit(X, sensitive_features=group)
    assert model.counts_.tolist() == [[0, 150], [150, 0]]
    with pytest.raises(ValueError, match="columns"):
        estimator(2, fairness=targets.rename(columns={"a": "z"})).fit(X, sensitive_features=group)


@BOTH
def test_targets_are_checked_in_the_unit_of_the_weights(estimator, rows):
    X, group = rows
    weights = np.full(len(X), 1e-12)
    targets = np.array([[90, 50, 10], [90, 49, 11]])
    model = estimator(2, fairness=1e-12 * targets, random_state=0)
    model.fit(X, sensitive_features=group, sample_weight=weights)
    np.testing.assert_allclose(model.counts_, 1e-12 * targets)
    with pytest.raises(ValueError, match="group"):
        estimator(2, fairness=7e-12 * targets).fit(
            X, sensitive_features=group, sample_weight=weights
        )


@BOTH
@pytest.mark.filterwarnings("ignore:1 of 2 clusters have very few")
def test_a_cluster_without_a_target_stays_empty(estimator, rows):
    X, group = rows
    model = estimator(2, fairness=[[180, 99, 21], [0, 0, 0]], random_state=0)
    model.fit(X + 100.0, sensitive_features=group)
    assert model.counts_.tolist() == [[180, 99, 21], [0, 0, 0]]
    assert np.abs(model.cluster_centers_ - 100.0).max() < 10


@BOTH
def test_a_refitted_model_forgets_how_its_file_prepared_the_columns(estimator, rows):
    X, group = rows
    model = estimator(2, random_state=0).fit(X, sensitive_features=group)
    model.preprocessing_ = "of the file"
    model.fit(X, sensitive_features=group)
    assert not hasattr(model, "preprocessing_")


def test_argmax_leaves_forbidden_cells_empty(rows):
    X, group = rows
    targets = np.array([[180, 0, 10], [0, 99, 11]])
    model = AnchorFairClustering(2, fairness=targets, assignment="argmax", random_state=0)
    model.fit(X, sensitive_features=group)
    assert_array_equal(model.predict(X, sensitive_features=group), model.labels_)
    assert model.counts_[0, 1] == model.counts_[1, 0] == 0


def test_distances_to_anchors_do_not_cancel_far_from_the_origin():
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [5.0, 0.0], [1e9, 0.0], [1e9 + 5.0, 0.0]])
    blob = np.repeat(np.arange(4), 500)
    X = centers[blob] + 0.5 * rng.normal(size=(2000, 2))

    def nearest_center(points, codes, n_clusters, *, sample_weight, random_state):
        return ((points[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)

    model = AnchorFairClustering(4, clusterer=nearest_center, random_state=0)
    model.fit(X, sensitive_features=np.tile(["a", "b"], 1000))
    assert_array_equal(model.labels_, blob)


@BOTH
def test_mixed_lists_of_targets_raise(estimator, rows):
    X, group = rows
    with pytest.raises(ValueError, match="FairnessTargets"):
        estimator(2, fairness=[FairnessTargets(), "population"]).fit(X, sensitive_features=group)


@BOTH
def test_an_unseen_combination_stays_out_of_forbidden_clusters(estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    people = pd.DataFrame({"g": rng.choice(["a", "b"], 400), "h": rng.choice(["x", "y"], 400)})
    people.loc[people["g"] == "a", "h"] = "x"  # "a" with "y" is not seen
    bounds = [FairnessTargets(upper={"a": [0, 1, 1]}), FairnessTargets(tolerance=1)]
    model = estimator(3, fairness=bounds, attributes="separate", random_state=0)
    model.fit(X, sensitive_features=people)
    new = pd.DataFrame({"g": ["a"] * 400, "h": ["y"] * 400})
    assert 0 not in model.predict(100 * X, sensitive_features=new)
