"""Socially fair k-means against brute force, a generic solver and closed forms."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.cluster import KMeans

from fairanchor import FairKMeans, SociallyFairKMeans, load_model
from tiers import first_is_fast


def people(n_rows, n_groups, seed, n_features=2):
    """Groups of different sizes, places and spreads."""
    rng = np.random.default_rng(seed)
    groups = np.minimum(rng.geometric(0.45, n_rows) - 1, n_groups - 1)
    groups[:n_groups] = np.arange(n_groups)
    X = rng.normal(size=(n_rows, n_features)) * (1.0 + 0.5 * groups[:, None])
    X += 3.0 * rng.normal(size=(5, n_features))[rng.integers(0, 5, n_rows)]
    return X + rng.normal(size=(n_groups, n_features))[groups], groups


def fit(X, groups, n_clusters, weights=None, **parameters):
    model = SociallyFairKMeans(n_clusters, random_state=0, n_jobs=1, **parameters)
    return model.fit(X, sensitive_features=groups, sample_weight=weights)


def average_costs(X, groups, centers, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    nearest = ((X[:, None] - centers) ** 2).sum(axis=2).min(axis=1)
    return np.bincount(groups, weights * nearest) / np.bincount(groups, weights)


def least_for_labels(X, groups, labels, n_clusters):
    """The least largest cost for given labels, by a generic solver with constraints."""
    n_groups, n_features = groups.max() + 1, X.shape[1]
    sizes = np.bincount(groups)

    def costs(centers):
        away = X - centers.reshape(n_clusters, n_features)[labels]
        return np.bincount(groups, (away**2).sum(axis=1)) / sizes

    def slopes(centers):
        away = centers.reshape(n_clusters, n_features)[labels] - X
        table = np.zeros((n_groups, n_clusters, n_features))
        np.add.at(table, (groups, labels), 2.0 * away / sizes[groups][:, None])
        return table.reshape(n_groups, -1)

    start = np.array([X[labels == l].mean(axis=0) for l in range(n_clusters)]).ravel()
    last = np.eye(len(start) + 1)[-1]
    bounds = {
        "type": "ineq",
        "fun": lambda z: z[-1] - costs(z[:-1]),
        "jac": lambda z: np.column_stack([-slopes(z[:-1]), np.ones(n_groups)]),
    }
    found = minimize(
        lambda z: z[-1], np.append(start, costs(start).max()), jac=lambda z: last, method="SLSQP",
        constraints=bounds, options={"maxiter": 500, "ftol": 1e-12},
    )  # fmt: skip
    return costs(found.x[:-1]).max()


@pytest.mark.slow
@settings(max_examples=6)
@given(st.integers(1, 4), st.integers(2, 4), st.integers(0, 10**6))
def test_the_centres_are_the_best_for_their_labels(n_clusters, n_groups, seed):
    X, groups = people(60, n_groups, seed)
    model = fit(X, groups, n_clusters, tol=1e-9)
    np.testing.assert_allclose(
        model.group_costs_, average_costs(X, groups, model.cluster_centers_), rtol=1e-9
    )
    assert model.social_cost_ == model.group_costs_.max()
    least = least_for_labels(X, groups, model.labels_, n_clusters)
    assert model.social_cost_ <= least * (1 + 1e-5)
    # The certificate is a bound, which the generic solver cannot fall below.
    assert model.social_cost_ - model.center_gap_ <= least * (1 + 1e-7)
    assert model.group_weights_.sum() == pytest.approx(1.0)


@pytest.mark.slow
def test_the_labels_of_tiny_tables_are_the_best_of_all():
    for seed in range(3):
        X, groups = people(9, 2, seed)
        least = np.inf
        for code in itertools.product([0, 1], repeat=8):
            labels = np.array([0, *code])
            if labels.any():
                least = min(least, least_for_labels(X, groups, labels, 2))
        assert fit(X, groups, 2).social_cost_ <= least * 1.001


def test_two_groups_and_one_centre_have_a_closed_form():
    """The centre is on the line between the groups' means, where both cost the same."""
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(300, 2)), rng.normal(size=(20, 2)) + [5.0, 0.0]
    groups = np.repeat([0, 1], [300, 20])
    model = fit(np.vstack([one, other]), groups, 1)
    a, b = one.mean(axis=0), other.mean(axis=0)
    spreads = [((part - part.mean(axis=0)) ** 2).sum(axis=1).mean() for part in (one, other)]
    length = np.linalg.norm(b - a)
    # |c - a|^2 + spread of one = |c - b|^2 + spread of the other, c = a + t (b - a).
    t = 0.5 + (spreads[1] - spreads[0]) / (2 * length**2)
    np.testing.assert_allclose(model.cluster_centers_[0], a + t * (b - a), atol=1e-6)
    np.testing.assert_allclose(*model.group_costs_, rtol=1e-6)


@pytest.mark.slow
def test_the_worst_group_is_better_off_than_under_plain_and_proportional_clusters():
    """Published behaviour on two groups: costs meet, or all weight is on the worse group."""
    for seed in range(5):
        X, groups = people(800, 2, seed)
        model = fit(X, groups, 4)
        plain = KMeans(4, n_init=10, random_state=0).fit(X)
        before = average_costs(X, groups, plain.cluster_centers_)
        assert model.social_cost_ <= before.max() * (1 + 1e-6)
        assert model.inertia_ >= plain.inertia_ * (1 - 1e-6)
        assert model.group_weights_ @ model.group_costs_ == pytest.approx(
            model.social_cost_, rel=1e-3
        )
        fair = FairKMeans(4, random_state=0).fit(X, sensitive_features=groups)
        away = ((X - fair.cluster_centers_[fair.labels_]) ** 2).sum(axis=1)
        assert model.social_cost_ < (np.bincount(groups, away) / np.bincount(groups)).max()


@pytest.mark.slow
def test_one_group_is_k_means():
    X, _ = people(400, 2, 3)
    model = fit(X, np.zeros(400), 3)
    expected = KMeans(3, n_init=20, random_state=0).fit(X).inertia_
    assert model.inertia_ == pytest.approx(expected, rel=1e-3)


def test_prediction_needs_no_groups(tmp_path):
    X, groups = people(300, 3, 4)
    model = fit(X, groups, 4)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.transform(X).argmin(axis=1), model.labels_)
    assert model.score(X, sensitive_features=groups) == pytest.approx(-model.social_cost_)
    assert model.score(X) == pytest.approx(-model.inertia_ / 300)
    model.save(tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict(X), model.labels_)
    assert loaded.social_cost_ == model.social_cost_


def test_integer_weights_equal_repeated_rows():
    X, groups = people(80, 2, 5)
    weights = np.random.default_rng(0).integers(1, 4, 80)
    centers = X[[0, 1, 40]]
    repeated = fit(np.repeat(X, weights, axis=0), np.repeat(groups, weights), 3, init=centers)
    weighted = fit(X, groups, 3, weights.astype(float), init=centers)
    np.testing.assert_allclose(weighted.group_costs_, repeated.group_costs_, rtol=1e-6)
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, rtol=1e-6)


@pytest.mark.slow
def test_names_of_groups_and_sparse_rows_change_nothing():
    X, groups = people(200, 3, 6)
    model = fit(X, groups, 3)
    renamed = fit(X, np.array(["z", "m", "a"])[groups], 3)
    np.testing.assert_array_equal(renamed.labels_, model.labels_)
    np.testing.assert_array_equal(renamed.group_costs_, model.group_costs_[::-1])
    found = fit(sparse.csr_array(X), groups, 3)
    assert found.social_cost_ == pytest.approx(model.social_cost_, rel=1e-9)


@pytest.mark.parametrize("chunk_rows", [2**20, 100])
def test_fewer_distinct_rows_than_clusters(monkeypatch, chunk_rows):
    monkeypatch.setattr(SociallyFairKMeans, "_chunk_rows", chunk_rows)
    X, groups = np.repeat([[0.0], [1.0]], 150, axis=0), np.arange(300) % 2
    model = fit(X, groups, 6)
    assert model.social_cost_ == 0.0
    assert model.counts_.sum() == 300


def test_the_labels_of_files_and_chunks_are_the_same(monkeypatch, tmp_path):
    X, groups = people(1500, 3, 7)
    whole = fit(X, groups, 4)
    monkeypatch.setattr(SociallyFairKMeans, "_chunk_rows", 600)
    memory = fit(X, groups, 4)
    table = {"x": X[:, 0], "y": X[:, 1], "group": groups}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    files = fit(ds.dataset(tmp_path), "group", 4)
    np.testing.assert_array_equal(np.concatenate(list(files.iter_labels())), memory.labels_)
    np.testing.assert_array_equal(files.cluster_centers_, memory.cluster_centers_)
    assert memory.social_cost_ == pytest.approx(whole.social_cost_, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_is_fast(range(12)))
def test_the_largest_cost_is_near_the_best_of_fifty_random_restarts(seed):
    """Alternating labels and a generic solver, from fifty random starts."""
    X, groups = people(70, 2 + seed % 3, 100 + seed)
    n_clusters = 2 + seed % 4
    rng = np.random.default_rng(seed)
    best = np.inf
    for _ in range(50):
        centers = X[rng.choice(len(X), n_clusters, replace=False)]
        for _ in range(10):
            labels = ((X[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
            if len(np.unique(labels)) < n_clusters:
                break
            best = min(best, average_costs(X, groups, centers).max())
            gamma = average_costs(X, groups, centers) ** 20  # an approximate dual
            weights = (gamma / gamma.sum() / np.bincount(groups))[groups]
            centers = np.array(
                [
                    np.average(X[labels == l], axis=0, weights=weights[labels == l])
                    for l in range(n_clusters)
                ]
            )
        else:
            best = min(best, least_for_labels(X, groups, labels, n_clusters))
    assert fit(X, groups, n_clusters).social_cost_ <= 1.01 * best


def test_what_cannot_be_used_raises_an_error():
    X, groups = people(50, 2, 8)
    with pytest.raises(ValueError, match="one centre per cluster"):
        fit(X, groups, 2, init=X[:3])
    with pytest.raises(ValueError, match="n_clusters=60"):
        fit(X, groups, 60)
