"""`antidote_rows`: synthetic rows that make an unmodified clusterer fairer."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans

from fairanchor import antidote_rows
from fairanchor.datasets import make_zafar
from fairanchor.metrics import clustering_cost, relative_balance_score

DATA = make_zafar(300, variant="original", random_state=0)
X, GROUP = DATA.data, np.asarray(DATA.sensitive_features)


def two_means(x):
    """Labels of the best split of numbers into two clusters, by trying every split."""
    order = np.argsort(x, kind="stable")
    costs = [
        np.var(x[order[:cut]]) * cut + np.var(x[order[cut:]]) * (len(x) - cut)
        for cut in range(1, len(x))
    ]
    labels = np.zeros(len(x), dtype=int)
    labels[order[1 + int(np.argmin(costs)) :]] = 1
    return labels


@pytest.mark.parametrize("clusterer", [KMeans(3, n_init=2), AgglomerativeClustering(3)])
def test_the_result_is_a_plain_fit_to_the_union(clusterer):
    result = antidote_rows(X, GROUP, clusterer, 30, n_evaluations=30, random_state=0)
    assert type(result.model) is type(clusterer)
    assert 0 < len(result.rows) <= 30
    again = type(clusterer)(**result.model.get_params()).fit(np.vstack([X, result.rows]))
    assert_array_equal(result.labels, again.labels_[: len(X)])
    curve = result.curve
    before = type(clusterer)(**result.model.get_params()).fit(X).labels_
    ends = [(before, 0), (result.labels, -1)]
    for labels, end in ends:
        expected = relative_balance_score(labels, sensitive_features=GROUP)
        assert_allclose(curve["relative_balance"][end], expected)
        ratio = clustering_cost(X, labels) / clustering_cost(X, before)
        assert_allclose(curve["cost"][end], ratio)
    assert curve["n_rows"][0] == 0
    assert curve["n_rows"][-1] == len(result.rows)
    assert (np.diff(curve["relative_balance"]) >= 0).all()
    assert (np.diff(curve["n_rows"]) >= 0).all()
    assert len(np.unique(result.labels)) == 3


@pytest.mark.slow
def test_one_place_is_nearly_as_good_as_the_best_of_a_fine_grid():
    """Group b fills the middle, so that the border between two halves decides the balance."""
    x = np.linspace(0.0, 1.0, 60) ** 2
    group = np.where((x > 0.15) & (x < 0.45), "b", "a")

    def score(place):
        labels = two_means(np.r_[x, place])[:60]
        return relative_balance_score(labels, sensitive_features=group)

    before = relative_balance_score(two_means(x), sensitive_features=group)
    best = max(score(place) for place in np.linspace(0.0, 1.0, 201))
    assert best > before
    found = antidote_rows(
        x[:, None], group, KMeans(2, n_init=5), 1, n_evaluations=60, random_state=0
    )
    gained = found.curve["relative_balance"][-1] - before
    assert gained >= 0.8 * (best - before)


@pytest.mark.slow
def test_a_seed_gives_one_result_and_the_default_is_k_means():
    options = {"n_rows": 12, "n_evaluations": 12, "random_state": 3}
    first, second = (antidote_rows(X, GROUP, **options) for _ in range(2))
    assert isinstance(first.model, KMeans)
    assert_array_equal(first.rows, second.rows)
    assert first.records == second.records


def test_by_default_at_most_a_twentieth_of_the_rows_is_added():
    result = antidote_rows(X, GROUP, KMeans(2, n_init=1), n_evaluations=20, random_state=0)
    assert len(result.rows) <= 15


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"clusterer": KMeans}, TypeError, "instance of an estimator"),
        ({"clusterer": "kmeans"}, TypeError, "instance of an estimator"),
        ({"n_rows": 0}, ValueError, "n_rows == 0"),
        ({"n_rows": 2.5}, TypeError, "n_rows must be an instance of int"),
        ({"n_evaluations": 0}, ValueError, "n_evaluations == 0"),
        ({"sensitive_features": GROUP[:5]}, ValueError, "has 5 rows, expected 300"),
        ({"X": np.full((300, 2), np.nan)}, ValueError, "NaN"),
        ({"X": [["a"]] * 300}, ValueError, "could not convert|dtype='numeric'"),
        ({"clusterer": DBSCAN(eps=1e-9)}, ValueError, "300 of 300 rows as noise"),
    ],
)
def test_invalid_input_raises_an_error(arguments, error, message):
    given = {"X": X, "sensitive_features": GROUP, "clusterer": KMeans(2), "n_rows": 5} | arguments
    with pytest.raises(error, match=message):
        antidote_rows(**given)
