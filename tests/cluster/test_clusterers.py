"""What holds for every fair clusterer: invariances, weights, degenerate and invalid input."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from every_clusterer import clusterers, marked
from fairanchor import FairnessFirstClustering, VariationalFairClustering
from fairanchor.exceptions import FairnessWarning
from tiers import first_is_fast

CLUSTERERS = list(clusterers(large_scale=False, variants=True).values())
every_clusterer = pytest.mark.parametrize("clusterer", marked(CLUSTERERS))
# A penalty is in the units of the features.
SCALE_FREE = [own for own in CLUSTERERS if not isinstance(own, VariationalFairClustering)]
# Small data make small clusters.
pytestmark = [
    pytest.mark.filterwarnings("ignore::fairanchor.exceptions.FairnessWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def three_clusters(clusterer):
    return clone(clusterer).set_params(n_clusters=3, random_state=0)


def table(n_rows=90):
    """Blobs, each mostly of one group."""
    rng = np.random.default_rng(0)
    blob = np.arange(n_rows) % 3
    X = 3 * rng.normal(size=(3, 2))[blob] + rng.normal(size=(n_rows, 2))
    return X, np.where(rng.uniform(size=n_rows) < 0.6, blob % 2, rng.integers(0, 2, n_rows))


@every_clusterer
def test_names_of_the_groups_do_not_matter(clusterer):
    X, group = table()
    model = three_clusters(clusterer).fit(X, sensitive_features=group)
    renamed = three_clusters(clusterer).fit(X, sensitive_features=np.array(["z", "a"])[group])
    assert_array_equal(renamed.labels_, model.labels_)
    assert_array_equal(renamed.groups_, ["a", "z"])
    assert_array_equal(renamed.counts_, model.counts_[:, ::-1])


@every_clusterer
def test_values_of_a_column_may_be_tuples_beside_others(clusterer):
    X, group = table()
    named = np.empty(len(X), dtype=object)
    named[:] = [("a", 1) if code else 0 for code in group]
    model = three_clusters(clusterer)
    labels = model.fit_predict(X, sensitive_features=group)
    assert_array_equal(model.fit_predict(X, sensitive_features=named), labels)


@pytest.mark.parametrize("scale", first_is_fast([2.0**-30, 2.0**-150, 2.0**150]))
@pytest.mark.parametrize("clusterer", marked(SCALE_FREE))
def test_scale_of_the_features_does_not_matter(clusterer, scale):
    X, group = table()
    model = three_clusters(clusterer)
    labels = model.fit_predict(X, sensitive_features=group)
    assert_array_equal(model.fit_predict(X * scale, sensitive_features=group), labels)


@every_clusterer
def test_a_seed_gives_one_result_which_can_be_pickled(clusterer):
    X, group = table(120)
    model = three_clusters(clusterer).fit(X, sensitive_features=group)
    again = three_clusters(clusterer).fit(X, sensitive_features=group)
    assert_array_equal(again.labels_, model.labels_)
    assert_array_equal(pickle.loads(pickle.dumps(model)).labels_, model.labels_)


@every_clusterer
def test_unit_weights_are_no_weights(clusterer):
    X, group = table()
    model = three_clusters(clusterer)
    labels = model.fit_predict(X, sensitive_features=group)
    counts = model.counts_
    model.fit(X, sensitive_features=group, sample_weight=np.ones(len(X)))
    assert_array_equal(model.labels_, labels)
    assert_allclose(model.counts_, counts)


@every_clusterer
@pytest.mark.parametrize(
    "X",
    [
        np.ones((24, 2)),
        np.repeat(np.arange(6.0), 4)[:, None],
        np.arange(24.0)[:, None],
        np.random.default_rng(0).normal(size=(24, 60)).astype(np.float32),
        np.arange(48).reshape(24, 2) % 3,
        np.vstack([np.random.default_rng(1).normal(size=(23, 2)), [[1e8, 1e8]]]),
    ],
    ids=["equal", "duplicates", "one feature", "wide float32", "integers", "outlier"],
)
@pytest.mark.parametrize("n_groups", first_is_fast([3, 1]))
def test_degenerate_rows_give_all_clusters(clusterer, X, n_groups):
    model = three_clusters(clusterer).fit(X, sensitive_features=np.arange(24) % n_groups)
    assert_array_equal(np.unique(model.labels_), np.arange(3))
    assert model.counts_.sum() == 24


@every_clusterer
def test_as_many_clusters_as_rows_are_singletons(clusterer):
    X = np.random.default_rng(0).normal(size=(5, 2))
    model = clone(clusterer).set_params(n_clusters=5, random_state=0)
    labels = model.fit_predict(X, sensitive_features=["a"] * 5)
    assert_array_equal(np.sort(labels), np.arange(5))


@every_clusterer
@pytest.mark.parametrize(
    ("parameters", "arguments", "message"),
    [
        ({"n_clusters": 0}, {}, "'n_clusters' parameter"),
        ({"n_clusters": 11}, {}, "n_samples=10 should be >= n_clusters=11"),
        ({}, {"sensitive_features": np.arange(9) % 2}, "has 9 rows, expected 10"),
        ({}, {"sample_weight": -(np.arange(10) % 2)}, "5 negative values"),
        ({}, {"sample_weight": np.ones(9)}, "sample_weight"),
        ({}, {"sample_weight": np.full(10, 1e60)}, r"value of sample_weight is 1e\+60, expected"),
        ({}, {"X": np.full((10, 2), 1e-60)}, "value of X is 1e-60, expected between 1e-50 and"),
        ({"n_clusters": 3}, {"sample_weight": np.arange(10) < 2}, "positive for 2 rows, fewer"),
    ],
)
def test_invalid_input_raises_an_error_with_its_values(clusterer, parameters, arguments, message):
    model = three_clusters(clusterer).set_params(**parameters)
    X = np.arange(20.0).reshape(10, 2)
    with pytest.raises(ValueError, match=message):
        model.fit(**{"X": X, "sensitive_features": np.arange(10) % 2} | arguments)


@pytest.mark.parametrize("clusterer", [FairnessFirstClustering(), VariationalFairClustering()])
def test_a_group_with_fewer_rows_than_clusters_warns(clusterer):
    X, _ = table()
    group = np.where(np.arange(len(X)) < 2, "few", "many")
    with pytest.warns(FairnessWarning, match="the smallest, 'few', has 2"):
        three_clusters(clusterer).fit(X, sensitive_features=group)


@every_clusterer
def test_a_single_row_with_weight_is_a_cluster(clusterer):
    X = np.array([[0.1, -0.1, 0.6], [0.1, -0.5, 0.4]])
    model = clone(clusterer).set_params(n_clusters=1, random_state=0)
    model.fit(X, sensitive_features=[0, 0], sample_weight=[1.0, 0.0])
    assert model.labels_.tolist() == [0, 0]


@pytest.mark.parametrize("clusterer", marked(CLUSTERERS))
def test_rows_of_weight_zero_take_no_part_and_follow_the_nearest_row(clusterer):
    X, group = table()
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    weights[::5] = weights[:2] = 0.0
    kept = weights > 0
    model = three_clusters(clusterer)
    alone = model.fit_predict(X[kept], sensitive_features=group[kept], sample_weight=weights[kept])
    counts = model.counts_
    group[:2] = 2  # a third group, which has no weight
    labels = model.fit_predict(X, sensitive_features=group, sample_weight=weights)
    assert_array_equal(labels[kept], alone)
    distances = ((X[:, None] - X[kept]) ** 2).sum(axis=2)
    assert_array_equal(labels, alone[distances.argmin(axis=1)])
    assert_array_equal(model.counts_, np.column_stack([counts, np.zeros(3)]))
    for name in ("embedding_", "fairlets_", "row_stability_"):
        assert len(getattr(model, name, labels)) == len(X)
    if hasattr(model, "fairlet_centers_"):
        own = np.arange(len(model.fairlet_centers_))
        assert_array_equal(model.fairlets_[model.fairlet_centers_], own)
