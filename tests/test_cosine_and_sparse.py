"""Cosine distances and sparse rows of `FairKMeans`, against dense rows of unit length."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fairanchor import AnchorFairClustering, FairKMeans, FairnessTargets, load_model

FORMATS = (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array)


def texts(n_rows, seed, n_features=20):
    """Rows with few numbers that are not zero, of all lengths, in groups."""
    rng = np.random.default_rng(seed)
    topics = 4.0 * rng.dirichlet(np.full(n_features, 0.2), size=3)
    X = rng.poisson(topics[rng.integers(0, 3, n_rows)] * rng.uniform(0.5, 4.0, (n_rows, 1)))
    X[:, :3] += 1
    # No ties, which rounding errors would decide.
    X = X * rng.lognormal(sigma=0.3, size=X.shape)
    return X, rng.choice(["a", "b", "c"], n_rows, p=[0.5, 0.3, 0.2])


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def model_of(n_clusters=3, **parameters):
    return FairKMeans(n_clusters, random_state=0, n_jobs=1, **parameters)


@given(st.integers(0, 10**6), st.sampled_from(["euclidean", "cosine"]), st.sampled_from(FORMATS))
def test_sparse_rows_give_the_results_of_dense_ones(seed, metric, sparse_format):
    X, groups = texts(120, seed)
    dense = model_of(metric=metric).fit(X, sensitive_features=groups)
    found = model_of(metric=metric).fit(sparse_format(X), sensitive_features=groups)
    assert found.inertia_ == pytest.approx(dense.inertia_, rel=1e-10)
    np.testing.assert_allclose(found.cluster_centers_, dense.cluster_centers_, atol=1e-10)
    np.testing.assert_array_equal(found.counts_, dense.counts_)
    new = sparse_format(X)
    np.testing.assert_array_equal(found.predict(new, sensitive_features=groups), found.labels_)
    expected = dense.score(X, sensitive_features=groups)
    assert found.score(new, sensitive_features=groups) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    "parameters",
    [
        {"init": "random"},
        {"init": "k-means++", "n_init": 2},
        {"tolerance": 0.2, "metric": "cosine"},
        {"fairness": FairnessTargets(tolerance=0.5, max_size=230)},
        {"n_clusters": 45, "tolerance": 1.0},
    ],
)
def test_sparse_rows_with_other_parameters(parameters):
    X, groups = texts(400, 1)
    weights = np.random.default_rng(0).uniform(1.0, 2.0, 400)
    dense = model_of(**parameters).fit(X, sensitive_features=groups, sample_weight=weights)
    X = sparse.csr_array(X)
    found = model_of(**parameters).fit(X, sensitive_features=groups, sample_weight=weights)
    assert found.inertia_ == pytest.approx(dense.inertia_, rel=1e-9)


def test_the_cosine_is_the_squared_distance_of_unit_rows():
    X, groups = texts(300, 2)
    model = model_of(metric="cosine").fit(X, sensitive_features=groups)
    centers = model.cluster_centers_
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1.0)
    assert model.inertia_ == pytest.approx(((unit(X) - centers[model.labels_]) ** 2).sum())
    # The length of a row changes nothing, powers of two not even a bit.
    scaled = X * 2.0 ** np.random.default_rng(0).integers(-9, 9, (300, 1))
    again = model_of(metric="cosine").fit(scaled, sensitive_features=groups)
    np.testing.assert_array_equal(again.labels_, model.labels_)


def test_cosine_clusters_of_small_tables_are_the_best_ones():
    """Against all ways to divide nine rows into two clusters, with the best unit centres."""
    for seed in range(4):
        X, _ = texts(9, seed, n_features=4)
        least = np.inf
        for code in itertools.product([0, 1], repeat=8):
            labels = np.array([0, *code])
            if 3 <= labels.sum() <= 6:
                # A cluster's cost is 2 (rows - norm of the sum of its unit rows).
                sums = [np.linalg.norm(unit(X)[labels == l].sum(axis=0)) for l in (0, 1)]
                least = min(least, 2.0 * (9 - sum(sums)))
        model = model_of(2, metric="cosine", fairness=FairnessTargets(min_size=3), tol=0.0)
        assert model.fit(X).inertia_ == pytest.approx(least)


def test_the_labels_of_files_are_those_of_memory(monkeypatch, tmp_path):
    X, groups = texts(900, 3)
    expected = model_of(metric="cosine").fit(X, sensitive_features=groups).counts_
    monkeypatch.setattr(FairKMeans, "_chunk_rows", 400)
    memory = model_of(metric="cosine").fit(X, sensitive_features=groups)
    columns = {f"x{j}": column for j, column in enumerate(X.T)} | {"group": groups}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    files = model_of(metric="cosine").fit(ds.dataset(tmp_path), sensitive_features="group")
    np.testing.assert_array_equal(np.concatenate(list(files.iter_labels())), memory.labels_)
    in_csr = model_of(metric="cosine").fit(sparse.csr_array(X), sensitive_features=groups)
    assert in_csr.inertia_ == pytest.approx(memory.inertia_, rel=1e-10)
    assert memory.counts_.sum() == expected.sum()


def test_float32_stays_near_float64_and_a_model_file_keeps_the_metric(tmp_path):
    X, groups = texts(300, 4)
    exact = model_of(metric="cosine").fit(X, sensitive_features=groups)
    single = model_of(metric="cosine").fit(X.astype(np.float32), sensitive_features=groups)
    assert single.inertia_ == pytest.approx(exact.inertia_, rel=1e-5)
    exact.save(tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict(X, sensitive_features=groups), exact.labels_)


def test_rows_of_zeros_and_equal_rows_are_clustered():
    X, groups = texts(200, 5)
    X[:30], X[100:200] = 0.0, X[100]
    for rows in (X, sparse.csr_array(X)):
        model = model_of(metric="cosine").fit(rows, sensitive_features=groups)
        assert model.worst_violation_ < 1
        assert np.isfinite(model.inertia_)


def test_what_cannot_be_used_raises_an_error():
    X, groups = texts(50, 6)
    with pytest.raises(TypeError, match="dense data is required"):
        AnchorFairClustering(2).fit(sparse.csr_array(X), sensitive_features=groups)
    X[7, 3] = np.nan
    with pytest.raises(ValueError, match="in column 3, row 7"):
        model_of().fit(sparse.csr_array(X), sensitive_features=groups)
    with pytest.raises(ValueError, match="metric"):
        model_of(metric="manhattan").fit(X, sensitive_features=groups)
