"""Hostile tables: those that must work, and those that must be refused with a reason."""

import time
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array
from sklearn.cluster import DBSCAN

from fairanchor import AnchorFairClustering, FairKMeans, FairnessWarning

RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=(200, 3))
GROUPS = np.arange(200) % 3

MUST_WORK = {
    "constant column": (np.column_stack([NORMAL, np.ones(200)]), GROUPS, 3),
    "all rows equal": (np.ones((100, 3)), GROUPS[:100], 4),
    "all rows equal and tiny": (np.full((53, 1), 1e-100), GROUPS[:53], 2),
    "all rows equal and huge": (np.full((53, 1), 1e100), GROUPS[:53], 2),
    "duplicate rows": (np.repeat(NORMAL[:5], 40, axis=0), GROUPS, 4),
    "one feature": (NORMAL[:, :1], GROUPS, 3),
    "more features than rows": (RNG.normal(size=(30, 100)), GROUPS[:30], 3),
    "one group": (NORMAL, np.zeros(200), 3),
    "one-row groups": (NORMAL, np.r_[np.zeros(197), 1, 2, 3], 3),
    "100 groups": (NORMAL, np.arange(200) // 2, 4),
    "one cluster": (NORMAL, GROUPS, 1),
    "as many clusters as rows": (NORMAL[:20], GROUPS[:20], 20),
    "as many clusters as equal rows": (np.ones((20, 2)), GROUPS[:20], 20),
    "one row": (NORMAL[:1], [0], 1),
    "two rows": (NORMAL[:2], [0, 1], 2),
    "huge": (NORMAL * 1e150, GROUPS, 3),
    "tiny": (NORMAL * 1e-150, GROUPS, 3),
    "features of different scale": (NORMAL * [1e-8, 1.0, 1e8], GROUPS, 3),
    "one feature in cents": (NORMAL * [1.0, 1.0, 1e5], GROUPS, 3),
    "features of three scales": (NORMAL * [1.0, 1e4, 1e8], GROUPS, 3),
    "far from the origin": (NORMAL + 1e9, GROUPS, 3),
    "one outlier": (np.vstack([NORMAL, [[1e5] * 3]]), np.r_[GROUPS, 0], 3),
    "float32": (NORMAL.astype(np.float32), GROUPS, 3),
    "integers": (RNG.integers(0, 5, (200, 3)), GROUPS, 3),
    "booleans": (NORMAL > 0, GROUPS, 3),
}


@pytest.mark.parametrize("estimator", [AnchorFairClustering, FairKMeans])
@pytest.mark.parametrize("case", MUST_WORK)
def test_works_with_every_row_labelled(case, estimator):
    X, groups, n_clusters = MUST_WORK[case]
    model = estimator(n_clusters, random_state=0)
    with warnings.catch_warnings():
        # Dissolved clusters, a ridge out of range: all are announced. All must converge.
        warnings.simplefilter("ignore", FairnessWarning)
        warnings.filterwarnings("ignore", "alpha is", UserWarning)
        model.fit(X, sensitive_features=groups)
    n_groups = len(np.unique(groups))
    assert model.labels_.shape == (len(X),)
    assert set(np.unique(model.labels_)) == set(range(n_clusters))
    assert model.counts_.shape == (n_clusters, n_groups)
    assert np.abs(model.counts_ - model.targets_).max() < 1
    assert np.isfinite(model.inertia_)
    assert np.isfinite(model.assignment_prices_).all()
    predicted = model.predict(X, sensitive_features=groups)
    rows, of_row = np.unique(np.column_stack([X, groups]), axis=0, return_inverse=True)
    if len(rows) == len(X):
        assert np.mean(predicted == model.labels_) >= 0.99
    else:  # equal rows are ties: fit deals them out, predict cannot, but treats them alike
        assert len(np.unique(np.column_stack([of_row.ravel(), predicted]), axis=0)) == len(rows)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [AnchorFairClustering, FairKMeans])
def test_thousands_of_groups_of_one_or_two_rows_take_seconds(estimator):
    """Every row is an anchor then. It took more than five minutes."""
    rng = np.random.default_rng(0)
    groups = np.r_[np.arange(1500), rng.permutation(1500)[:500]]
    model = estimator(3, random_state=0)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(rng.normal(size=(2000, 3)), sensitive_features=groups)
    assert time.process_time() - began < 100
    assert model.counts_.shape == (3, 1500)
    assert_array_equal(model.counts_.sum(axis=0), np.bincount(groups))
    assert np.abs(model.counts_ - model.targets_).max() < 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scales", [(1e-8, 1, 1e8), (1, 1, 1e5), (1, 1, 1e6), (1e-12, 1, 1e12)])
def test_features_of_any_scale_converge(scales, seed):
    X = np.random.default_rng(seed).normal(size=(200, 3)) * scales
    model = AnchorFairClustering(3, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "alpha is", UserWarning)
        model.fit(X, sensitive_features=GROUPS)
    assert model.converged_
    assert model.worst_violation_ < 1


@pytest.mark.parametrize("estimator", [AnchorFairClustering, FairKMeans])
def test_an_outlier_beyond_all_digits_keeps_the_counts_but_not_predict(estimator):
    """Squared distances of 1e24 leave no digit for the others: they are ties to the prices."""
    X = np.vstack([NORMAL, [[1e12] * 3]])
    groups = np.r_[GROUPS, 0]
    model = estimator(3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the ridge, the convergence: said, and not the point
        model.fit(X, sensitive_features=groups)
    assert np.bincount(model.labels_, minlength=3).min() > 0
    assert np.abs(model.counts_ - model.targets_).max() < 1
    predicted = model.predict(X, sensitive_features=groups)
    assert set(predicted) <= {0, 1, 2}


def test_a_group_smaller_than_its_quota_works():
    groups = np.r_[np.zeros(197), np.ones(3)]
    model = AnchorFairClustering(5, n_anchors=50, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(NORMAL, sensitive_features=groups)
    assert np.sum(groups[model.anchor_indices_] == 1) == 3
    assert model.worst_violation_ < 1


def test_scaling_by_a_power_of_two_changes_no_label():
    model = AnchorFairClustering(3, random_state=0, alpha=1.0)
    expected = model.fit(NORMAL, sensitive_features=GROUPS).labels_
    for exponent in (-20, 15):
        scale = 2.0**exponent
        scaled = AnchorFairClustering(3, random_state=0, alpha=scale**2)
        np.testing.assert_array_equal(
            scaled.fit(NORMAL * scale, sensitive_features=GROUPS).labels_, expected
        )


def with_value(value, column=1):
    X = NORMAL.copy()
    X[7, column] = value
    return X


FRAME = pd.DataFrame(NORMAL, columns=["age", "income", "size"])
MUST_BE_REFUSED = {
    "NaN": ({"X": with_value(np.nan)}, {}, ValueError, r"NaN: 1 value\(s\) in column 1 .* row 7"),
    "infinity": ({"X": with_value(np.inf)}, {}, ValueError, "infinity: .* column 1"),
    "NaN in a frame": (
        {"X": FRAME.assign(income=with_value(np.nan)[:, 1])},
        {},
        ValueError,
        "column 'income'",
    ),
    "fewer rows than clusters": (
        {"X": NORMAL[:2], "sensitive_features": [0, 1]},
        {},
        ValueError,
        "n_samples=2 should be >= n_clusters=3",
    ),
    "too few anchors": ({}, {"n_anchors": 2}, ValueError, "n_anchors=2 should be >= n_clusters=3"),
    "too many anchors": ({}, {"n_anchors": 201}, ValueError, "<= n_samples=200"),
    "fewer anchors than groups": (
        {"sensitive_features": np.arange(200) % 20},
        {"n_anchors": 10},
        ValueError,
        "number of groups in sensitive_features, got 20",
    ),
    "empty table": ({"X": np.empty((0, 3)), "sensitive_features": []}, {}, ValueError, "0 sample"),
    "no feature": ({"X": np.empty((200, 0))}, {}, ValueError, r"0 feature\(s\)"),
    "wrong length": (
        {"sensitive_features": GROUPS[:10]},
        {},
        ValueError,
        "sensitive_features has 10 rows, X has 200",
    ),
    "missing group": (
        {"sensitive_features": pd.Series(["a", None] * 100)},
        {},
        ValueError,
        "100 missing values in 200 rows",
    ),
    "noise only": (
        {},
        {"clusterer": lambda X, g, k, *, sample_weight, random_state: np.full(len(X), -1)},
        ValueError,
        "called all .* anchors noise",
    ),
    "too many clusters of anchors": (
        {},
        {"clusterer": lambda X, g, k, *, sample_weight, random_state: np.arange(len(X))},
        ValueError,
        "expected n_clusters=3",
    ),
    "labels of another length": (
        {},
        {"clusterer": lambda X, g, k, *, sample_weight, random_state: np.zeros(3)},
        ValueError,
        "one label per anchor",
    ),
    "a class": ({}, {"clusterer": DBSCAN}, TypeError, r"expected an instance of it: DBSCAN\(\)"),
    "sparse": ({"X": csr_array(NORMAL)}, {}, TypeError, "[Ss]parse"),
    "lazy frame": ({"X": pl.LazyFrame(FRAME.to_dict("list"))}, {}, TypeError, r"\.collect\(\)"),
    "text": ({"X": FRAME.assign(age="old")}, {}, ValueError, "could not convert string"),
    "infeasible table": (
        {},
        {"fairness": np.full((3, 3), 10.0)},
        ValueError,
        "targets of group 0 sum to 30 .* has 67 rows",
    ),
    "negative target": (
        {},
        {"fairness": np.full((3, 3), -1.0)},
        ValueError,
        "The target of cluster 0 and group 0 is -1",
    ),
    "table of another shape": (
        {},
        {"fairness": np.ones((3, 2))},
        ValueError,
        r"shape \(3, 2\), expected .*\(3, 3\)",
    ),
    "paper targets with newton": (
        {"sensitive_features": np.r_[np.zeros(150), np.ones(50)]},
        {"fairness": "paper", "n_anchors": 9, "anchors": "fdas", "min_cluster_size": 0},
        ValueError,
        "solver='admm' accepts such targets",
    ),
    "NaN labels": (
        {},
        {"clusterer": lambda X, g, k, *, sample_weight, random_state: np.full(len(X), np.nan)},
        ValueError,
        "not finite numbers",
    ),
    "minimum size above the mean": (
        {},
        {"min_cluster_size": 70},
        ValueError,
        "min_cluster_size=70 times n_clusters=3 should be <= the 200 samples",
    ),
    "NaN targets with admm": (
        {},
        {"fairness": np.full((3, 3), np.nan), "solver": "admm"},
        ValueError,
        "expected a finite weight",
    ),
    "values beyond the range": (
        {"X": NORMAL * 1e160},
        {},
        ValueError,
        "leave the range of doubles",
    ),
    "row index out of range": ({}, {"anchors": [0, 1, 200]}, ValueError, "expected 0..199"),
    "repeated row index": ({}, {"anchors": [0, 1, 1]}, ValueError, "more than once"),
    "refined argmax": ({}, {"assignment": "argmax", "refine": 2}, ValueError, "refine=2 needs"),
    "negative weight": ({"sample_weight": -np.ones(200)}, {}, ValueError, "200 negative values"),
    "zero weight": ({"sample_weight": np.zeros(200)}, {}, ValueError, "zero"),
    "negative alpha": ({}, {"alpha": -1.0}, ValueError, "'alpha' parameter"),
    "unknown name": ({}, {"clusterer": "kmeans++"}, ValueError, "'clusterer' parameter"),
}


@pytest.mark.parametrize("case", MUST_BE_REFUSED)
def test_is_refused_with_what_was_given_and_why(case):
    inputs, parameters, error, message = MUST_BE_REFUSED[case]
    arguments = {"X": NORMAL, "sensitive_features": GROUPS} | inputs
    model = AnchorFairClustering(3, random_state=0, **parameters)
    with pytest.raises(error, match=message):
        model.fit(arguments.pop("X"), **arguments)


def test_an_unknown_group_in_predict_is_named_and_counted():
    names = np.array(["a", "b", "c"])[GROUPS]
    model = AnchorFairClustering(2, random_state=0).fit(NORMAL, sensitive_features=names)
    with pytest.raises(ValueError, match=r"not seen: 'd' \(2 rows\)"):
        model.predict(NORMAL[:3], sensitive_features=["a", "d", "d"])
    with pytest.raises(ValueError, match="sensitive_features is None"):
        model.predict(NORMAL[:3])


def test_missing_groups_can_be_a_group_of_their_own():
    groups = pd.Series(["a", "b", None, "a"] * 50)
    model = AnchorFairClustering(2, missing_groups="own_group", random_state=0)
    model.fit(NORMAL, sensitive_features=groups)
    assert model.groups_.tolist() == ["a", "b", None]
    assert model.counts_.sum(axis=0).tolist() == [100, 50, 50]


def test_no_sensitive_features_warns():
    with pytest.warns(FairnessWarning, match="one group"):
        AnchorFairClustering(2, random_state=0).fit(NORMAL)


@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_without_an_anchor_is_no_concern_where_propagation_fills_it(seed):
    X = np.repeat([[0.0], [1.0], [2.0]], 100, axis=0)
    groups = np.random.default_rng(seed).choice(["a", "b"], 300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AnchorFairClustering(4, random_state=0).fit(X, sensitive_features=groups)
    assert model.n_clusters_found_ == 4
    assert model.worst_violation_ < 1
    assert not np.signbit(model.inertia_)


def test_a_cluster_that_ends_empty_is_said():
    # All rows are equal, and so are all anchors: every row has its largest soft label in common.
    X, groups = np.ones((60, 1)), np.tile(["a", "b"], 30)
    model = AnchorFairClustering(2, assignment="argmax", random_state=0)
    with pytest.warns(FairnessWarning, match="1 of 2 clusters have no samples, the first is"):
        model.fit(X, sensitive_features=groups)
    assert model.n_clusters_found_ == 1


def test_fewer_clusters_than_asked_are_split_with_a_warning():
    model = AnchorFairClustering(
        3, clusterer=lambda X, g, k, *, sample_weight, random_state: np.zeros(len(X)),
        random_state=0,
    )  # fmt: skip
    with pytest.warns(FairnessWarning, match="returned 1 clusters of anchors"):
        model.fit(NORMAL, sensitive_features=GROUPS)
    assert model.n_clusters_found_ == 3


@pytest.mark.parametrize("estimator", [AnchorFairClustering, FairKMeans])
def test_a_group_without_weight_is_labelled_within_a_tolerance(estimator):
    X, groups = np.ones((3, 1)), np.array([0, 0, 1])
    weights = np.array([1.9, 0.9, 0.0])
    model = estimator(3, tolerance=0.3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # clusters without a row, small ones: not the point
        model.fit(X, sensitive_features=groups, sample_weight=weights)
    assert set(model.labels_) <= {0, 1, 2}
    np.testing.assert_allclose(model.counts_.sum(axis=0), [2.8, 0.0])
