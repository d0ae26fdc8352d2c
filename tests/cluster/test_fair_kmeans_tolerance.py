"""Fair k-means with a tolerance, and with several attributes each by itself."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from fairanchor import FairKMeans, FairnessWarning
from fairanchor.metrics import attribute_relative_balance_scores, worst_violation
from fairanchor.rows import Sampler
from tiers import first_is_fast

TOLERANCES = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)


def make_people(n=600, seed=0):
    """Two attributes that each pull rows in a direction of their own."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], size=n, p=[0.4, 0.6])
    race = rng.choice(["a", "b", "c"], size=n, p=[0.7, 0.2, 0.1])
    X = rng.normal(size=(n, 3))
    X[:, 0] += 1.5 * (sex == "m")
    X[:, 1] += 1.5 * (race == "a")
    return X, pd.DataFrame({"sex": sex, "race": race})


def missed_by(labels, groups, tolerance):
    """Rows by which the worst cell is beyond its limits, by loops."""
    worst = 0.0
    for name in np.unique(groups):
        share = np.mean(groups == name)
        for cluster in np.unique(labels):
            members = labels == cluster
            count, size = np.sum(members & (groups == name)), np.sum(members)
            worst = max(worst, (1 - tolerance) * share * size - count)
            if tolerance < 1:
                worst = max(worst, count - min(1.0, share / (1 - tolerance)) * size)
    return worst


def least_fractional_cost(costs, groups, tolerance):
    """The linear program over all fractional labels, written out row by row."""
    n, c = costs.shape
    A_ub = []
    for name in np.unique(groups):
        share = np.mean(groups == name)
        own = (groups == name).astype(float)
        for cluster in range(c):
            for sign, bound in ((-1, (1 - tolerance) * share), (1, share / (1 - tolerance))):
                row = np.zeros((n, c))
                row[:, cluster] = sign * (own - bound)
                A_ub.append(row.ravel())
    solution = linprog(
        costs.ravel(),
        A_ub=np.array(A_ub),
        b_ub=np.zeros(len(A_ub)),
        A_eq=np.kron(np.eye(n), np.ones((1, c))),
        b_eq=np.ones(n),
    )
    return solution.fun


def squared_distances(X, centers):
    return ((X[:, None] - centers) ** 2).sum(axis=2)


@pytest.mark.parametrize("tolerance", TOLERANCES)
def test_no_cell_misses_its_limits_by_a_row_and_this_is_what_is_reported(tolerance):
    X, people = make_people()
    race = people["race"].to_numpy()
    model = FairKMeans(4, tolerance=tolerance, n_init=3, random_state=0)
    labels = model.fit_predict(X, sensitive_features=race)
    missed = missed_by(labels, race, tolerance)
    assert missed < 1.0
    assert_allclose(model.worst_violation_, missed, atol=1e-6)
    if tolerance > 0:
        assert missed < 1e-6  # cells are large: whole numbers within the limits exist
    distances = squared_distances(X, model.cluster_centers_)
    assert_allclose(model.inertia_, distances[np.arange(len(X)), labels].sum())
    assert model.lp_value_ <= model.inertia_ + 1e-9 or model.worst_violation_ > 0
    assert (np.diff(model.cost_path_) <= 1e-9).all()
    assert_array_equal(model.predict(X, sensitive_features=race), labels)


@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.5])
def test_the_certified_bound_is_at_most_the_linear_program(tolerance):
    X, people = make_people(n=80)
    sex = people["sex"].to_numpy()
    model = FairKMeans(3, tolerance=tolerance, random_state=0).fit(X, sensitive_features=sex)
    costs = squared_distances(X, model.cluster_centers_)
    exact = least_fractional_cost(costs, sex, min(tolerance, 1 - 1e-9))
    assert model.lp_value_ <= exact * (1 + 1e-9)
    # Without a tolerance the bound comes from the prices at hand, not from a program of its own.
    assert_allclose(model.lp_value_, exact, rtol=2e-2 if tolerance == 0.0 else 1e-7)


@pytest.mark.parametrize("seed", first_is_fast(range(4)))
def test_a_cluster_without_rows_of_a_group_does_not_spoil_the_bound(seed):
    X = np.random.default_rng(seed).normal(size=(60, 2))
    groups = np.repeat(["a", "b", "c"], [40, 18, 2])
    with pytest.warns(FairnessWarning, match="'c'"):  # smaller than the number of clusters
        model = FairKMeans(4, random_state=0).fit(X, sensitive_features=groups)
    exact = least_fractional_cost(squared_distances(X, model.cluster_centers_), groups, 0.0)
    assert (model.counts_ == 0).any()
    assert 0.9 * exact <= model.lp_value_ <= exact * (1 + 1e-9)


def test_tolerance_one_is_plain_k_means():
    X, people = make_people()
    start = X[:4]
    options = {"n_init": 1, "max_iter": 300, "tol": 0.0}
    fair = FairKMeans(4, init=start, tolerance=1.0, **options)
    fair.fit(X, sensitive_features=people["race"])
    plain = KMeans(4, init=start, algorithm="lloyd", **options).fit(X)
    assert_array_equal(fair.labels_, plain.labels_)
    assert_allclose(fair.inertia_, plain.inertia_)
    assert fair.worst_violation_ == 0.0
    assert_allclose(fair.inertia_ - fair.lp_value_, 0.0, atol=1e-9)


def test_a_looser_tolerance_does_not_cost_more_from_the_same_start():
    X, people = make_people()
    costs = [
        FairKMeans(4, tolerance=t, n_init=5, random_state=0)
        .fit(X, sensitive_features=people["race"])
        .inertia_
        for t in (0.0, 0.1, 0.3, 1.0)
    ]
    assert (np.diff(costs) < 0).all()


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(6, 80),
    n_clusters=st.integers(1, 5),
    tolerance=st.sampled_from(TOLERANCES),
    copied=st.booleans(),
)
def test_any_small_table_is_within_a_row_of_its_limits(seed, n, n_clusters, tolerance, copied):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(n, 2)).astype(float) if copied else rng.normal(size=(n, 2))
    groups = rng.integers(0, 3, size=n)
    model = FairKMeans(n_clusters, tolerance=tolerance, n_init=1, tol=1e-6, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FairnessWarning)  # small groups
        model.fit(X, sensitive_features=groups)
    assert missed_by(model.labels_, groups, tolerance) < 1.0
    assert (np.diff(model.cost_path_) <= 1e-9).all()


def test_weights_are_shared_out_up_to_the_heaviest_row():
    X, people = make_people(n=300)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=300)
    model = FairKMeans(3, tolerance=0.1, n_init=2, random_state=0)
    model.fit(X, sensitive_features=people["sex"], sample_weight=weights)
    assert model.worst_violation_ <= weights.max()
    found = worst_violation(
        model.labels_, sensitive_features=people["sex"], targets=0.1, sample_weight=weights
    )
    assert_allclose(model.worst_violation_, found, atol=1e-9)


def test_equal_weights_are_counts_in_another_unit():
    X, people = make_people(n=300)
    options = {"tolerance": 0.1, "n_init": 2, "random_state": 0}
    one = FairKMeans(3, **options).fit(X, sensitive_features=people["sex"])
    half = FairKMeans(3, **options).fit(
        X, sensitive_features=people["sex"], sample_weight=np.full(300, 0.5)
    )
    assert_array_equal(one.labels_, half.labels_)
    assert_allclose(half.lp_value_, 0.5 * one.lp_value_)
    assert_allclose(half.counts_, 0.5 * one.counts_)


@pytest.mark.slow
def test_large_tables_start_from_samples(monkeypatch):
    X, people = make_people(n=3000)
    monkeypatch.setattr(FairKMeans, "_sampler", Sampler((300,), 50))
    for attributes in ("intersection", "separate"):
        model = FairKMeans(3, tolerance=0.2, attributes=attributes, random_state=0)
        model.fit(X, sensitive_features=people)
        assert model.worst_violation_ == 0.0


# Several attributes


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [0.0, 0.1, 1.0])
def test_each_attribute_is_mirrored_by_itself(tolerance):
    X, people = make_people()
    model = FairKMeans(4, tolerance=tolerance, attributes="separate", n_init=2, random_state=0)
    labels = model.fit_predict(X, sensitive_features=people)
    for title in ("sex", "race"):
        values = people[title].to_numpy()
        missed = missed_by(labels, values, tolerance)
        assert missed < 1.0
        assert_allclose(model.attribute_violations_[title], missed, atol=1e-6)
        assert model.attribute_groups_[title].tolist() == sorted(set(values))
        expected = pd.crosstab(labels, values).to_numpy()
        assert_array_equal(model.attribute_counts_[title], expected)
    assert model.worst_violation_ == max(model.attribute_violations_.values())
    if tolerance == 0.0:
        smallest = min(table.min() for table in model.attribute_counts_.values())
        scores = attribute_relative_balance_scores(labels, sensitive_features=people)
        assert min(scores.values()) >= 1 - 2 / smallest


@pytest.mark.slow
def test_separate_attributes_cost_no_more_than_their_intersection():
    X, people = make_people()
    cost = {
        attributes: FairKMeans(4, attributes=attributes, n_init=5, random_state=0)
        .fit(X, sensitive_features=people)
        .inertia_
        for attributes in ("intersection", "separate")
    }
    assert cost["separate"] <= cost["intersection"]


@pytest.mark.parametrize("kind", ["frame", "array", "series", "column"])
def test_one_separate_attribute_is_the_attribute_itself(kind):
    X, people = make_people(n=200)
    forms = {
        "frame": people[["race"]],
        "array": people[["race"]].to_numpy(),
        "series": people["race"],
        "column": people["race"].tolist(),
    }
    options = {"tolerance": 0.1, "n_init": 1, "random_state": 0}
    expected = FairKMeans(3, **options).fit(X, sensitive_features=people["race"])
    model = FairKMeans(3, attributes="separate", **options).fit(X, sensitive_features=forms[kind])
    assert_array_equal(model.labels_, expected.labels_)
    [(title, table)] = model.attribute_counts_.items()
    assert title == ("race" if kind == "frame" else 0)
    assert_array_equal(table, pd.crosstab(model.labels_, people["race"]).to_numpy())


def test_new_rows_may_have_combinations_that_have_not_been_seen():
    X, people = make_people()
    unseen = ((people["sex"] == "f") & (people["race"] == "c")).to_numpy()
    model = FairKMeans(4, attributes="separate", n_init=2, random_state=0)
    model.fit(X[~unseen], sensitive_features=people[~unseen])
    assert ("f", "c") not in model.groups_.tolist()
    seen_labels = model.predict(X[~unseen], sensitive_features=people[~unseen])
    assert np.mean(seen_labels == model.labels_) > 0.99
    labels = model.predict(X, sensitive_features=people)
    assert_array_equal(labels[~unseen], seen_labels)
    # Prices of "f" and of "c" move the new rows as they move others of these groups.
    plain = squared_distances(X[unseen], model.cluster_centers_).argmin(axis=1)
    assert list(model.attribute_groups_) == ["sex", "race"]
    sums = [model._attribute_prices[0][:, 0], model._attribute_prices[1][:, 2]]
    distances = squared_distances(X[unseen], model.cluster_centers_)
    assert_array_equal(labels[unseen], (distances - sum(sums)).argmin(axis=1))
    assert (labels[unseen] != plain).any()


def test_small_groups_are_those_of_the_attributes_not_of_their_combinations():
    X, people = make_people(n=100)
    counts = people.value_counts()
    assert counts.min() < 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FairKMeans(5, attributes="separate", random_state=0).fit(X, sensitive_features=people)
    with pytest.warns(FairnessWarning, match="'c'"):
        FairKMeans(5, random_state=0).fit(X, sensitive_features=people)
    people.loc[0, "race"] = "rare"
    with pytest.warns(FairnessWarning, match="1 of 6 groups.*'rare'"):
        FairKMeans(5, attributes="separate", random_state=0).fit(X, sensitive_features=people)


def test_a_value_that_has_not_been_seen_raises():
    X, people = make_people(n=100)
    model = FairKMeans(2, attributes="separate", n_init=1, random_state=0)
    model.fit(X, sensitive_features=people)
    new = people.iloc[:3].assign(race="d")
    with pytest.raises(ValueError, match=r"has not seen: .*'d'"):
        model.predict(X[:3], sensitive_features=new)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tolerance": -0.1}, r"'tolerance' parameter .* range \[0.0, 1.0\]\. Got -0.1"),
        ({"tolerance": 1.5}, r"'tolerance' parameter .* range \[0.0, 1.0\]\. Got 1.5"),
        ({"tolerance": float("nan")}, r"'tolerance' parameter .* Got nan"),
        ({"tolerance": "loose"}, "'tolerance' parameter .* Got 'loose'"),
        ({"attributes": "both"}, "'attributes' parameter .* Got 'both'"),
    ],
)
def test_bad_settings_raise_with_what_was_given(settings, message):
    X, people = make_people(n=20)
    with pytest.raises(ValueError, match=message):
        FairKMeans(2, **settings).fit(X, sensitive_features=people)
