"""The promises on the paper's real tables (skipped where these are not on disk)."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans

from fairanchor import AnchorFairClustering, FairKMeans, FairnessWarning
from fairanchor.clusterers._registry import CLUSTERERS
from fairanchor.metrics import relative_balance_score

TABLES = ["law_school", "credit_card", "bank_marketing"]


@pytest.fixture(params=TABLES, scope="module")
def table(request):
    return request.getfixturevalue(request.param)


def fit(table, **parameters):
    model = AnchorFairClustering(table.n_clusters, n_jobs=2, **parameters)
    with warnings.catch_warnings():
        # That small clusters of anchors are dissolved is announced, and meant.
        warnings.simplefilter("ignore", FairnessWarning)
        return model.fit(table.X, sensitive_features=table.sensitive_features)


def assert_promise(model, table):
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
        assert relative >= 1 - 1 / counts.min()
        smallest = max(20 * n / table.group_sizes.min(), 0.005 * n)
        assert counts.sum(axis=1).min() >= np.floor(min(smallest, n / (2 * table.n_clusters)))


@pytest.mark.parametrize("per_group", [4, 10, 20])
def test_every_number_of_anchors_keeps_the_promise(table, per_group):
    n_anchors = per_group * len(table.group_sizes)
    if n_anchors < 2 * table.n_clusters:
        pytest.skip(f"{n_anchors} anchors are fewer than two per cluster")
    assert_promise(fit(table, n_anchors=n_anchors, random_state=0), table)


@pytest.mark.parametrize("clusterer", sorted(CLUSTERERS))
@pytest.mark.parametrize("fairness", ["population", "anchors"])
def test_every_clusterer_keeps_the_promise(table, clusterer, fairness):
    model = fit(table, clusterer=clusterer, fairness=fairness, random_state=0)
    assert_promise(model, table)


def test_cost_is_that_of_fair_kmeans_on_all_rows(table):
    plain = KMeans(table.n_clusters, n_init=10, random_state=0).fit(table.X).inertia_
    reference = FairKMeans(table.n_clusters, random_state=0, n_jobs=2)
    reference.fit(table.X, sensitive_features=table.sensitive_features)
    assert reference.inertia_ <= 1.06 * plain
    refined = [fit(table, random_state=seed).inertia_ for seed in range(5)]
    assert np.median(refined) <= 1.03 * reference.inertia_
    unrefined = [fit(table, random_state=seed, refine=0).inertia_ for seed in range(5)]
    assert np.median(unrefined) <= 1.10 * reference.inertia_


def test_predict_gives_the_labels_and_new_rows_are_nearly_fair(table):
    half = np.arange(len(table.X)) % 2 == 0
    model = AnchorFairClustering(table.n_clusters, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(table.X[half], sensitive_features=table.sensitive_features[half])
    seen = model.predict(table.X[half], sensitive_features=table.sensitive_features[half])
    assert np.mean(seen == model.labels_) >= 0.99
    new = model.predict(table.X[~half], sensitive_features=table.sensitive_features[~half])
    groups = table.sensitive_features[~half]
    assert relative_balance_score(new, sensitive_features=groups) >= 0.85
