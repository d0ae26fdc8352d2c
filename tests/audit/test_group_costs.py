"""Who pays, what the clusters are, and new batches."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans

from fairanchor import (
    AnchorFairClustering,
    FairKMeans,
    FairletClustering,
    FairnessTargets,
    clusters_path,
    cost_by_group,
    describe_clusters,
)
from fairanchor.audit import audit_batch
from fairanchor.metrics import clustering_cost


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    groups = rng.choice(["a", "b"], 400, p=[0.7, 0.3])
    return rng.normal(size=(400, 3)) + np.where(groups == "a", 0.0, 1.5)[:, None], groups


@pytest.fixture(scope="module")
def model(people):
    X, groups = people
    return FairKMeans(3, random_state=0).fit(X, sensitive_features=groups)


def test_costs_of_groups_add_up_to_the_costs_of_both_clusterings(people, model):
    X, groups = people
    costs = cost_by_group(model, X, sensitive_features=groups)
    *by_group, total = costs.records
    plain = FairKMeans(3, tolerance=1.0, random_state=0).fit(X, sensitive_features=groups)
    for name, labels in (("fair_cost", model.labels_), ("plain_cost", plain.labels_)):
        expected = clustering_cost(X, labels)
        assert sum(r["rows"] * r[name] for r in by_group) == pytest.approx(expected)
        assert total[name] == pytest.approx(expected / len(X))
    # The best matching of three clusters, by trying all.
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    kept = max(np.mean(np.array(o)[plain.labels_] == model.labels_) for o in orders)
    assert total["changed"] == pytest.approx(1 - kept)


def test_the_largest_loss_is_that_of_a_row():
    X = np.array([[0.0], [1.0], [10.0], [11.0]])
    groups = ["a", "a", "b", "b"]
    model = FairKMeans(2, random_state=0).fit(X, sensitive_features=groups)
    costs = cost_by_group(model, X, sensitive_features=groups, plain_labels=[0, 0, 1, 1])
    means = np.array([X[model.labels_ == l].mean() for l in model.labels_])
    loss = (X[:, 0] - means) ** 2 - 0.25
    assert [r["largest_loss"] for r in costs.records] == pytest.approx(
        [loss[:2].max(), loss[2:].max(), loss.max()]
    )
    assert [r["changed"] for r in costs.records] == [0.5, 0.5, 0.5]


def test_equal_weights_change_nothing_and_a_weight_of_two_is_two_rows(people):
    X, groups = people
    labels = np.arange(len(X)) % 2
    model = FairKMeans(2, random_state=0).fit(X, sensitive_features=groups)
    weights = np.where(np.arange(len(X)) < 50, 2.0, 1.0)
    weighted = cost_by_group(
        model, X, sensitive_features=groups, sample_weight=weights, plain_labels=labels
    )
    twice = np.repeat(np.arange(len(X)), weights.astype(int))
    model.labels_ = model.labels_[twice]
    copied = cost_by_group(
        model, X[twice], sensitive_features=groups[twice], plain_labels=labels[twice]
    )
    for one, other in zip(weighted.records, copied.records, strict=True):
        assert [one[name] for name in list(one)[1:]] == pytest.approx(list(other.values())[1:])


def test_bounds_on_sizes_stay_and_clusterers_without_tolerance_are_compared_with_k_means(people):
    X, groups = people
    sized = FairKMeans(2, fairness=FairnessTargets(min_size=190), random_state=0)
    costs = cost_by_group(sized.fit(X, sensitive_features=groups), X, sensitive_features=groups)
    assert np.bincount(costs.plain_labels).min() >= 190
    fairlets = FairletClustering(2, random_state=0).fit(X, sensitive_features=groups)
    costs = cost_by_group(fairlets, X, sensitive_features=groups)
    least = KMeans(2, n_init=10, random_state=0).fit(X).inertia_ / len(X)
    assert costs.records[-1]["plain_cost"] == pytest.approx(least, rel=0.01)


def test_clusters_are_described_by_size_groups_features_and_typical_rows(people, model):
    X, groups = people
    profiles = describe_clusters(model, X, feature_names=["x", "y", "z"], n_typical=2)
    assert len(profiles) == 3
    for l, record in enumerate(profiles.records):
        members = model.labels_ == l
        assert record["size"] == members.sum()
        assert record["share of a"] == pytest.approx(np.mean(groups[members] == "a"))
        expected = (X[members].mean(axis=0) - X.mean(axis=0)) / X.std(axis=0)
        assert_allclose([record[name] for name in "xyz"], expected)
        distances = ((X - X[members].mean(axis=0)) ** 2).sum(axis=1)
        distances[~members] = np.inf
        assert record["typical_rows"] == np.argsort(distances)[:2].tolist()
    assert "<th>share of a</th>" in profiles._repr_html_()
    assert_array_equal(profiles.table["size"], model.counts_.sum(axis=1))


def test_the_choice_of_k_has_a_silhouette_beside_the_cost():
    rng = np.random.default_rng(0)
    centers = np.array([[0, 0], [20, 0], [0, 20]])
    X = rng.normal(size=(300, 2)) + np.repeat(centers, 100, axis=0)
    path = clusters_path(X, ["a", "b"] * 150, (1, 2, 3, 4), n_init=2, random_state=0)
    silhouettes = path.table["silhouette"]
    assert np.isnan(silhouettes[0])
    assert np.nanargmax(silhouettes) == 2
    assert "silhouette" in path._repr_html_()


# New batches.


ESTIMATORS = [
    FairKMeans(3, random_state=0),
    FairKMeans(3, tolerance=0.2, random_state=0),
    FairKMeans(3, fairness=FairnessTargets(lower=0.2), random_state=0),
    AnchorFairClustering(3, clusterer="fair_kmeans", random_state=0),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=["exact", "tolerance", "bounds", "anchors"])
def test_a_batch_mirrors_its_own_population(people, estimator):
    X, groups = people
    estimator.fit(X, sensitive_features=groups)
    rng = np.random.default_rng(1)
    batch, own = rng.normal(size=(101, 3)), rng.choice(["a", "b"], 101, p=[0.4, 0.6])
    labels = estimator.predict_batch(batch, sensitive_features=own)
    counts = np.array([[np.sum((labels == l) & (own == g)) for g in "ab"] for l in range(3)])
    sizes, shares = counts.sum(axis=1, keepdims=True), np.array([np.mean(own == g) for g in "ab"])
    if estimator.fairness == "population":
        tolerance = estimator.tolerance
        assert (counts > (1 - tolerance) * shares * sizes - 1).all()
        assert (counts < shares / (1 - tolerance) * sizes + 1).all()
    else:
        assert (counts >= 0.2 * sizes - 1e-9).all()


def test_a_batch_of_the_fitted_rows_costs_what_the_fit_cost(people, model):
    X, groups = people
    labels = model.predict_batch(X, sensitive_features=groups)
    cost = ((X - model.cluster_centers_[labels]) ** 2).sum()
    assert cost == pytest.approx(model.inertia_, rel=1e-3)
    table = FairKMeans(3, fairness=model.counts_, random_state=0).fit(X, sensitive_features=groups)
    with pytest.raises(ValueError, match="predict_batch"):
        table.predict_batch(X, sensitive_features=groups)


def test_a_batch_like_the_fit_passes_and_another_one_does_not(people, model):
    X, groups = people
    same = audit_batch(model, X, sensitive_features=groups)
    assert same.p_value == 1.0
    assert same.share_far < 0.01
    assert same.unseen_groups == {}
    assert_array_equal(same.counts, model.counts_)
    other = audit_batch(model, X + 50.0, sensitive_features=["b"] * 200 + ["c", None] * 100)
    assert other.p_value < 1e-6
    assert other.share_far == 1.0
    assert other.unseen_groups == {"c": 100, None: 100}
    assert other.share_unseen == 0.5
    assert other.relative_balance < 0.5
    assert "<table>" in other._repr_html_()


def test_the_silhouette_has_the_distance_of_the_fit(people):
    X, groups = people
    path = clusters_path(X, groups, [3], metric="cosine", n_init=1, random_state=0)
    labels = path.models[0].labels_
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    distances = 1.0 - unit @ unit.T
    np.fill_diagonal(distances, 0.0)
    scores = []
    for i, own in enumerate(labels):
        means = [distances[i, labels == l].sum() for l in range(3)]
        inside = means[own] / (np.sum(labels == own) - 1)
        outside = min(means[l] / np.sum(labels == l) for l in range(3) if l != own)
        scores.append((outside - inside) / max(inside, outside))
    assert path.table["silhouette"][0] == pytest.approx(np.mean(scores))


def test_lengths_of_rows_mean_nothing_with_cosine_distances(people):
    X, groups = people
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    longer = unit * np.random.default_rng(0).uniform(1, 50, (len(X), 1))
    model = FairKMeans(3, metric="cosine", random_state=0).fit(longer, sensitive_features=groups)
    batch = audit_batch(model, longer, sensitive_features=groups)
    assert batch.share_far < 0.01
    total = cost_by_group(model, longer, sensitive_features=groups).records[-1]
    assert total["fair_cost"] == pytest.approx(clustering_cost(unit, model.labels_) / len(X))
