"""Deep fair clustering: exact labels of the last network, training, and use without PyTorch."""

import pickle
import sys
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score

from fairanchor import AnchorFairClustering, DeepFairClustering, FairnessWarning, load_model
from fairanchor.metrics import relative_balance_score

torch = pytest.importorskip("torch", reason='PyTorch is missing: pip install "fairanchor[deep]"')

SMALL = {"hidden_layer_sizes": (32,), "code_size": 8, "max_iter": 8, "random_state": 0}
every_method = pytest.mark.parametrize("method", ["dfdc", "dfc"])


def blobs(n_rows=240, n_groups=3):
    """Three blobs in five dimensions, each with more rows of one of the groups."""
    rng = np.random.default_rng(1)
    X, blob = make_blobs(n_rows, 5, centers=3, random_state=1)
    mixed = rng.uniform(size=n_rows) < 0.7
    return X, blob, np.where(mixed, rng.integers(0, n_groups, n_rows), blob % n_groups)


def in_turns(blob):
    """Two groups with equal shares of every blob."""
    return pd.Series(blob).groupby(blob).cumcount().to_numpy() % 2


def fit(method="dfdc", n_clusters=3, data=None, **parameters):
    X, _, group = blobs() if data is None else data
    model = DeepFairClustering(n_clusters, method=method, **SMALL | parameters)
    return model.fit(X, sensitive_features=group)


@cache
def fitted(method="dfdc"):
    """A model of `blobs`, which no test changes."""
    return fit(method)


# Labels.


@every_method
@pytest.mark.filterwarnings("ignore:.*largest membership:fairanchor.FairnessWarning")
@pytest.mark.parametrize("n_clusters", [1, 7])
def test_every_cell_is_its_target_rounded(method, n_clusters):
    X, _, group = blobs()
    model = fit(method, n_clusters, max_iter=3)
    counts = pd.crosstab(model.labels_, group).to_numpy()
    assert_array_equal(model.counts_, counts)
    targets = np.outer(counts.sum(axis=1), np.bincount(group)) / len(X)
    assert np.all((counts == np.floor(targets)) | (counts == np.ceil(targets)))
    assert model.worst_violation_ == pytest.approx(np.abs(counts - targets).max())
    # Clusters are as large as memberships make them.
    sizes = np.bincount(model.predict_proba(X).argmax(axis=1), minlength=n_clusters)
    if sizes.min() > 0:
        assert_array_equal(counts.sum(axis=1), sizes)


@every_method
def test_no_labels_with_these_counts_have_larger_memberships(method):
    X, _, group = blobs(60)
    model = fit(method, data=(X, None, group))
    costs = -np.log(model.predict_proba(X))
    n_rows, n_clusters = costs.shape
    # One equation for each row, and one for each cell.
    rows = np.kron(np.eye(n_rows), np.ones(n_clusters))
    cells = [np.outer(group == r, np.arange(n_clusters) == l).ravel()
             for l in range(n_clusters) for r in range(3)]  # fmt: skip
    best = linprog(
        costs.ravel(),
        A_eq=np.vstack([rows, *cells]),
        b_eq=np.concatenate([np.ones(n_rows), model.counts_.ravel()]),
    )
    assert costs[np.arange(n_rows), model.labels_].sum() == pytest.approx(best.fun, rel=1e-9)


@every_method
def test_predict_reproduces_the_labels_and_works_row_by_row(method):
    X, _, group = blobs()
    model = fitted(method)
    assert_array_equal(model.predict(X, sensitive_features=group), model.labels_)
    assert_array_equal(model.predict(X[[7]], sensitive_features=group[[7]]), model.labels_[[7]])
    assert_array_equal(model.predict(X), model.predict_proba(X).argmax(axis=1))
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.transform(X).shape == (len(X), 8)
    assert_allclose(model.transform(X[[7]]), model.transform(X)[[7]])


def test_shares_are_within_a_tolerance():
    X, _, group = blobs()
    model = fit(tolerance=0.3)
    sizes, share = model.counts_.sum(axis=1, keepdims=True), np.bincount(group) / len(X)
    assert np.all(model.counts_ > 0.7 * share * sizes - 1)
    assert np.all(model.counts_ < share * sizes / 0.7 + 1)
    assert model.worst_violation_ < 1


@every_method
def test_weights_are_counted_and_rows_without_weight_take_no_part(method):
    X, _, group = blobs()
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    weights[:40] = 0.0
    moved = X.copy()
    moved[:40] += 100.0
    model = DeepFairClustering(3, method=method, **SMALL | {"max_iter": 3})
    model.fit(X, sensitive_features=group, sample_weight=weights)
    table = pd.crosstab(model.labels_, group, values=weights, aggfunc="sum").to_numpy()
    assert_allclose(model.counts_, table)
    shares = np.bincount(group, weights) / weights.sum()
    # A cell misses its share of the cluster by a row or two.
    assert np.abs(table - np.outer(table.sum(axis=1), shares)).max() < 2 * weights.max()
    labels = model.labels_[40:]
    model.fit(moved, sensitive_features=group, sample_weight=weights)
    assert_array_equal(model.labels_[40:], labels)


# Training.


@every_method
def test_clear_clusters_are_found(method):
    X, blob, _ = blobs()
    model = fit(method, data=(X, None, in_turns(blob)))
    assert adjusted_rand_score(blob, model.labels_) > 0.95
    assert adjusted_rand_score(blob, model.predict(X)) > 0.95


def groups_apart():
    """Two clusters along the first axis; the groups are twice as far apart along the second."""
    rng = np.random.default_rng(0)
    cluster, group = np.arange(400) % 2, np.arange(400) // 2 % 2
    X = rng.normal(size=(400, 2)) + 4.0 * np.column_stack([cluster, 2 * group])
    return X, cluster, group


def test_own_labels_of_dfdc_become_fair():
    X, _, group = groups_apart()
    balance = [
        relative_balance_score(
            fit(n_clusters=2, data=(X, None, group), fairness_weight=weight).predict(X),
            sensitive_features=group,
        )
        for weight in (0.0, 10.0)
    ]
    assert balance[0] < 0.1
    assert balance[1] > 0.9


def test_a_seed_gives_the_same_bits_and_leaves_pytorch_as_it_was():
    model = fitted()
    before, n_threads = torch.random.get_rng_state(), torch.get_num_threads()
    again = fit()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == n_threads
    X = blobs()[0]
    assert_array_equal(again.transform(X), model.transform(X))
    try:
        torch.set_num_threads(n_threads + 1)
        torch.manual_seed(5)
        assert_array_equal(fit().transform(X), model.transform(X))
    finally:
        torch.set_num_threads(n_threads)
    assert not np.array_equal(fit(random_state=1).transform(X), model.transform(X))


def test_progress_is_shown_on_stderr_only(capsys):
    fit(verbose=True, max_iter=2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "100%" in captured.err
    fit(max_iter=2)
    assert capsys.readouterr().err == ""


# Users.


def test_a_fitted_model_needs_no_pytorch(monkeypatch):
    X, _, group = blobs()
    model = fitted()
    stored = pickle.dumps(model)
    monkeypatch.setitem(sys.modules, "torch", None)
    labels = pickle.loads(stored).predict(X, sensitive_features=group)
    assert_array_equal(labels, model.labels_)


@every_method
def test_inside_the_framework_counts_are_exact_and_models_are_saved(method, tmp_path, monkeypatch):
    X, blob, _ = blobs(900)
    group = in_turns(blob)
    clusterer = DeepFairClustering(method=method, **SMALL)
    model = AnchorFairClustering(3, clusterer=clusterer, n_anchors=90, random_state=0)
    model.fit(X, sensitive_features=group)
    assert model.worst_violation_ < 1
    assert adjusted_rand_score(blob, model.labels_) > 0.95
    assert isinstance(model.clusterer_, DeepFairClustering)
    model.save(tmp_path / "model.npz")
    monkeypatch.setitem(sys.modules, "torch", None)
    loaded = load_model(tmp_path / "model.npz")
    assert_array_equal(loaded.predict(X, sensitive_features=group), model.labels_)
    assert loaded.clusterer.get_params() == clusterer.get_params()


def test_a_group_with_fewer_rows_than_clusters_warns():
    X, _, _ = blobs()
    with pytest.warns(FairnessWarning, match="the smallest, 'few', has 2"):
        fit(data=(X, None, np.where(np.arange(len(X)) < 2, "few", "many")))


def test_a_cluster_without_members_gets_a_row_and_warns():
    X = np.ones((24, 2))
    with pytest.warns(FairnessWarning, match="2 of n_clusters=3 clusters"):
        model = fit(data=(X, None, np.arange(24) % 2), max_iter=1)
    assert sorted(model.counts_.sum(axis=1)) == [1, 1, 22]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "dec"}, "'method' parameter"),
        ({"tolerance": 1.5}, "'tolerance' parameter"),
        ({"code_size": 0}, "'code_size' parameter"),
        ({"learning_rate": 0.0}, "'learning_rate' parameter"),
        ({"hidden_layer_sizes": (16, 0)}, r"hidden_layer_sizes=\(16, 0\) should be"),
        ({"hidden_layer_sizes": (2.5,)}, "hidden_layer_sizes"),
        ({"learning_rate": 1e30}, "diverged with learning_rate=1e"),
    ],
)
def test_invalid_parameters_raise_an_error(parameters, message):
    with pytest.raises(ValueError, match=message):
        fit(**parameters)


def test_invalid_new_rows_raise_an_error():
    X, _, _ = blobs()
    with pytest.raises(NotFittedError):
        DeepFairClustering(2).predict(X)
    model = fitted()
    with pytest.raises(ValueError, match="has not seen"):
        model.predict(X[:2], sensitive_features=[0, 9])
    with pytest.raises(ValueError, match="4 features"):
        model.transform(X[:, :4])
    with pytest.raises(ValueError, match="NaN"):
        model.predict_proba(np.full((1, 5), np.nan))
