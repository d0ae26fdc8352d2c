"""The guarantees on the paper's public tables (skipped where these are not on disk)."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans

from fairanchor import AnchorFairClustering, FairKMeans, FairnessWarning
from fairanchor.cluster._on_anchors import CLUSTERERS
from fairanchor.metrics import relative_balance_score

TABLES = ["law_school", "credit_card", "bank_marketing"]


@pytest.fixture(params=TABLES, scope="module")
def table(request):
    return request.getfixturevalue(request.param)


def fit(table, **parameters):
    model = AnchorFairClustering(table.n_clusters, n_jobs=2, **parameters)
    with warnings.catch_warnings():
        # Small clusters are reported, and not the point.
        warnings.simplefilter("ignore", FairnessWarning)
        return model.fit(table.X, sensitive_features=table.sensitive_features)


def assert_guarantees(model, table):
    n = len(table.X)
    counts, targets = model.counts_, model.targets_
    recounted = pd.crosstab(model.labels_, table.sensitive_features)
    assert np.array_equal(recounted.to_numpy(), counts)
    assert recounted.columns.tolist() == model.groups_.tolist()
    if model.fairness == "population":
        shares = recounted.sum(axis=0).to_numpy() / n
        assert np.allclose(targets, np.outer(counts.sum(axis=1), shares), rtol=1e-12)
    nearest = np.rint(targets)
    targets = np.where(np.abs(targets - nearest) < 1e-9, nearest, targets)
    assert np.all((counts == np.floor(targets)) | (counts == np.ceil(targets)))
    relative = relative_balance_score(model.labels_, sensitive_features=table.sensitive_features)
    if model.fairness == "population":
        assert relative >= 1 - 1 / max(counts.min(), 1)


@pytest.mark.parametrize("per_group", [4, 10, 20])
def test_every_number_of_anchors_keeps_the_guarantees(table, per_group):
    n_anchors = per_group * len(table.group_sizes)
    if n_anchors < 2 * table.n_clusters:
        pytest.skip(f"{n_anchors} anchors are fewer than two per cluster")
    assert_guarantees(fit(table, n_anchors=n_anchors, random_state=0), table)


@pytest.mark.slow
@pytest.mark.parametrize("clusterer", sorted(CLUSTERERS))
@pytest.mark.parametrize("fairness", ["population", "anchors"])
def test_every_clusterer_keeps_the_guarantees(table, clusterer, fairness):
    model = fit(table, clusterer=clusterer, fairness=fairness, random_state=0)
    assert_guarantees(model, table)


@pytest.mark.slow
def test_fair_k_means_on_the_anchors_costs_little_more_than_on_all_rows(table):
    plain = KMeans(table.n_clusters, n_init=10, random_state=0).fit(table.X).inertia_
    reference = FairKMeans(table.n_clusters, random_state=0, n_jobs=2)
    reference.fit(table.X, sensitive_features=table.sensitive_features)
    assert reference.inertia_ <= 1.06 * plain
    costs = [fit(table, clusterer="fair_kmeans", random_state=seed).inertia_ for seed in range(3)]
    # 1.02 to 1.14 on tables with other seeds, measured when the local graph was chosen.
    assert np.median(costs) <= 1.15 * reference.inertia_


# Clusters of spectral clustering are smaller, and equal rows are ties that predict cannot split.
@pytest.mark.parametrize(("clusterer", "least"), [("fair_kmeans", 0.9), (None, 0.7)])
def test_predict_gives_the_labels_and_new_rows_are_nearly_fair(table, clusterer, least):
    half = np.arange(len(table.X)) % 2 == 0
    model = AnchorFairClustering(table.n_clusters, clusterer=clusterer, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(table.X[half], sensitive_features=table.sensitive_features[half])
    seen = model.predict(table.X[half], sensitive_features=table.sensitive_features[half])
    assert np.mean(seen == model.labels_) >= 0.99
    new = model.predict(table.X[~half], sensitive_features=table.sensitive_features[~half])
    groups = table.sensitive_features[~half]
    assert relative_balance_score(new, sensitive_features=groups) >= least
