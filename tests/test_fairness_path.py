"""The cost-fairness curve, and the curve over the number of clusters."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans

from fairanchor import FairKMeans, clusters_path, fairness_path, suggest_tolerance
from fairanchor.exceptions import FairnessWarning
from fairanchor.metrics import relative_balance_score, worst_violation
from fairanchor.model_selection import FairnessPath

# One process runs the tests that share a path.
pytestmark = pytest.mark.xdist_group("path")


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], size=500, p=[0.4, 0.6])
    race = rng.choice(["a", "b"], size=500, p=[0.7, 0.3])
    X = rng.normal(size=(500, 2))
    X[:, 0] += 2.0 * (sex == "m")
    X[:, 1] += 1.0 * (race == "a")
    return X, pd.DataFrame({"sex": sex, "race": race})


@pytest.fixture(scope="module")
def path(people):
    X, frame = people
    return fairness_path(X, frame["sex"], n_clusters=3, n_init=3, random_state=0)


def test_costs_fall_and_limits_hold_along_the_path(people, path):
    _, frame = people
    table = path.table
    assert table["tolerance"].tolist() == [0.0, 0.05, 0.1, 0.2, 0.5, 1.0]
    assert (np.diff(table["cost"]) <= 0).all()
    assert table["cost"][0] > 1.1 * table["cost"][-1]
    for model, record in zip(path.models, path.records, strict=True):
        found = worst_violation(
            model.labels_, sensitive_features=frame["sex"], targets=record["tolerance"]
        )
        assert_allclose(record["violation"], found, atol=1e-9)
        assert found < 1.0
        assert found == 0.0 or record["tolerance"] == 0.0
        relative = relative_balance_score(model.labels_, sensitive_features=frame["sex"])
        assert_allclose(record["relative_balance"], relative)
        assert record["smallest_cluster"] == np.bincount(model.labels_).min()


def test_the_ends_are_exact_proportions_and_plain_k_means(people, path):
    X, frame = people
    exact = FairKMeans(3, n_init=3, random_state=0).fit(X, sensitive_features=frame["sex"])
    assert_array_equal(path.models[0].labels_, exact.labels_)
    plain = KMeans(3, n_init=10, random_state=0).fit(X)
    assert_allclose(path.records[-1]["cost"], plain.inertia_, rtol=0.02)
    assert path.records[-1]["violation"] == 0.0


@pytest.mark.slow
def test_no_record_costs_more_than_a_fresh_fit(people, path):
    X, frame = people
    for record in path.records:
        fresh = FairKMeans(3, n_init=3, tolerance=record["tolerance"], random_state=0)
        fresh.fit(X, sensitive_features=frame["sex"])
        assert record["cost"] <= fresh.inertia_ + 1e-9
    assert {record["start"] for record in path.records} <= {"warm", "cold"}


def test_models_of_the_path_predict(people, path):
    X, frame = people
    for model in path.models:
        labels = model.predict(X, sensitive_features=frame["sex"])
        assert np.mean(labels == model.labels_) > 0.99


@pytest.mark.slow
@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), copied=st.booleans())
def test_costs_fall_on_random_tables(seed, copied):
    rng = np.random.default_rng(seed)
    groups = np.repeat([0, 1, 2], [100, 60, 40])
    X = rng.normal(size=(200, 2)) + rng.normal(size=(3, 2))[groups]
    X = X.round(0) if copied else X
    path = fairness_path(X, groups, (0, 0.1, 0.3, 1), n_clusters=3, n_init=1, random_state=seed)
    costs = path.table["cost"]
    for k in range(1, len(costs)):
        before = path.models[k - 1].labels_
        tolerance = path.records[k]["tolerance"]
        still = worst_violation(before, sensitive_features=groups, targets=tolerance)
        # Labels that miss the looser limits by more may have been replaced.
        if still <= path.records[k]["violation"]:
            assert costs[k] <= costs[k - 1] * (1 + 1e-12)


def test_separate_attributes_and_weights(people):
    X, frame = people
    path = fairness_path(
        X, frame, (0.0, 0.2, 1.0), n_clusters=3, attributes="separate", n_init=1, random_state=0
    )
    assert (np.diff(path.table["cost"]) <= 0).all()
    assert (path.table["violation"] < 1).all()
    for title in frame:
        for model, found in zip(path.models, path.table[f"relative_balance_{title}"], strict=True):
            relative = relative_balance_score(model.labels_, sensitive_features=frame[title])
            assert_allclose(found, relative)
    both = np.minimum(path.table["relative_balance_sex"], path.table["relative_balance_race"])
    assert_array_equal(path.table["relative_balance"], both)
    assert suggest_tolerance(path, extra_cost=10.0) == 0.0
    weights = np.random.default_rng(0).uniform(0.5, 1.5, size=len(X))
    path = fairness_path(
        X, frame["sex"], (0.0, 0.2, 1.0), n_clusters=3, sample_weight=weights, n_init=1,
        random_state=0,
    )  # fmt: skip
    # The first two have equal labels; their costs may differ by one unit in the last place.
    costs = path.table["cost"]
    assert (np.diff(costs) <= 1e-14 * costs[0]).all()


def test_missing_groups_can_be_a_group(people):
    X, frame = people
    sexes = [None] * 10 + frame["sex"].tolist()[10:]
    options = {"n_clusters": 2, "n_init": 1, "random_state": 0}
    path = fairness_path(X, sexes, (0, 1), missing_groups="own_group", **options)
    named = fairness_path(X, ["z" if sex is None else sex for sex in sexes], (0, 1), **options)
    assert_array_equal(path.models[0].labels_, named.models[0].labels_)


def test_order_and_repetition_of_tolerances_do_not_matter(people):
    X, frame = people
    options = {"n_clusters": 2, "n_init": 1, "random_state": 0}
    one = fairness_path(X, frame["sex"], [1, 0.2, 0.2], **options)
    other = fairness_path(X, frame["sex"], np.array([0.2, 1.0]), **options)
    assert one.records == other.records


def made_path(costs, tolerances):
    pairs = zip(tolerances, costs, strict=True)
    return FairnessPath([{"tolerance": t, "cost": c} for t, c in pairs], [])


@pytest.mark.parametrize(
    ("extra_cost", "expected"), [(0.0, 1.0), (0.05, 0.5), (0.1, 0.2), (0.5, 0.0)]
)
def test_the_suggestion_is_the_smallest_tolerance_that_is_cheap_enough(extra_cost, expected):
    path = made_path([12.0, 10.9, 10.5, 10.0], [0.0, 0.2, 0.5, 1.0])
    assert suggest_tolerance(path, extra_cost=extra_cost) == expected


def test_a_suggestion_from_a_path_that_ends_before_1_says_what_it_compares_with():
    with pytest.warns(FairnessWarning, match="loosest tolerance of the path is 0.5: costs are"):
        assert suggest_tolerance(made_path([10.2, 10.0], [0.0, 0.5])) == 0.0


def test_equal_rows_cost_nothing_without_a_sign():
    path = fairness_path(np.full((30, 1), 0.3), [0, 1] * 15, (0, 1), n_clusters=2, random_state=0)
    assert not np.signbit(path.table["cost"]).any()
    assert not np.signbit(path.table["lp_value"]).any()
    assert not np.signbit([*path.models[0].cost_path_, *path.models[1].cost_path_]).any()


@pytest.mark.slow
def test_cost_and_balance_over_the_number_of_clusters(people):
    X, frame = people
    path = clusters_path(X, frame["sex"], (4, 2, 3), n_init=2, random_state=0)
    table = path.table
    assert table["n_clusters"].tolist() == [2, 3, 4]
    assert (np.diff(table["cost"]) < 0).all()
    assert (table["cost_ratio"] >= 1.0).all()
    assert_allclose(table["cost_ratio"], table["cost"] / table["plain_cost"])
    assert (table["tolerance"] == 0.0).all()
    for model, record in zip(path.models, path.records, strict=True):
        assert record["smallest_cell"] == model.counts_.min()
        plain = KMeans(record["n_clusters"], n_init=10, random_state=0).fit(X)
        assert_allclose(record["plain_cost"], plain.inertia_, rtol=0.02)


def test_without_limits_the_price_over_the_number_of_clusters_is_one(people):
    X, frame = people
    path = clusters_path(X, frame["sex"], (2, 3), tolerance=1.0, n_init=1, random_state=0)
    assert_array_equal(path.table["cost_ratio"], 1.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda X, g: fairness_path(X, g, [0.1, 1.2]), ValueError, r"tolerance=1.2 should be betw"),
        (lambda X, g: fairness_path(X, g, [-0.1]), ValueError, "tolerance=-0.1 should be between"),
        (lambda X, g: fairness_path(X, g, ["x"]), TypeError, "tolerance='x' should be a number"),
        (lambda X, g: fairness_path(X, g, []), ValueError, "tolerances is empty"),
        (
            lambda X, g: clusters_path(X, g, [2, 2.5]),
            ValueError,
            "'n_clusters' parameter of FairKMeans must be an int",
        ),
        (lambda X, g: clusters_path(X, g, [0]), ValueError, "'n_clusters' parameter of FairKMeans"),
        (lambda X, g: clusters_path(X, g, []), ValueError, "n_clusters is empty"),
        (lambda X, g: clusters_path(X, g, [2], tolerance="x"), TypeError, "tolerance='x' should"),
        (lambda X, g: fairness_path(X, g[:3]), ValueError, "sensitive_features has 3 rows"),
        (
            lambda X, g: fairness_path(X, g, attributes="all"),
            ValueError,
            "'attributes' parameter .* Got 'all'",
        ),
        (
            lambda X, g: suggest_tolerance(made_path([1.0], [0.0]), extra_cost=-1),
            ValueError,
            "extra_cost=-1 should be a number of at least 0",
        ),
        (lambda X, g: suggest_tolerance([1, 2]), TypeError, "path is a list, expected a Fairness"),
        (
            lambda X, g: suggest_tolerance(made_path([2.0], [0.1])),
            ValueError,
            "path has the single tolerance 0.1, expected at least two",
        ),
        (
            lambda X, g: suggest_tolerance(clusters_path(X, g, [2], n_init=1, random_state=0)),
            ValueError,
            "path is one of clusters_path, expected one of fairness_path",
        ),
        (
            lambda X, g: fairness_path(X, [None, *g[1:]]),
            ValueError,
            "first at row 0: .* Use missing_groups='own_group'",
        ),
    ],
)
def test_bad_input_is_refused_with_what_was_given(people, call, error, message):
    X, frame = people
    with pytest.raises(error, match=message):
        call(X, frame["sex"])
