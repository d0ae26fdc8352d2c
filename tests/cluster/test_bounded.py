import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from fairanchor.cluster._bounded import BoundedFairAssignment
from fairanchor.exceptions import FairnessWarning
from tiers import first_is_fast

OBJECTIVES = ["kmeans", "kmedian", "kcenter"]


def segregated_data(rng, n_rows, n_clusters=3):
    """Blobs, each mostly of one group, and a second attribute."""
    blob = rng.integers(0, n_clusters, n_rows)
    X = 4 * rng.normal(size=(n_clusters, 2))[blob] + rng.normal(size=(n_rows, 2))
    first = np.where(rng.uniform(size=n_rows) < 0.7, blob % 2, rng.integers(0, 2, n_rows))
    second = np.where(rng.uniform(size=n_rows) < 0.7, (blob + 1) % 3, rng.integers(0, 3, n_rows))
    return X, np.column_stack([first, second])


def fit_quietly(model, X, groups, **keywords):
    """Fit although on few rows an empty cluster may have to be filled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        return model.fit(X, sensitive_features=groups, **keywords)


def costs_to(model, X):
    distance = cdist(X, model.cluster_centers_)
    return distance**2 if model.objective == "kmeans" else distance


def within_bounds(table, share, tolerance, slack=1e-9):
    size = table.sum(axis=1, keepdims=True)
    return np.all(table >= (1 - tolerance) * share * size - slack) and np.all(
        table <= share / (1 - tolerance) * size + slack
    )


def dense_program(cost, columns, tolerance, weights=None, allowed=None):
    """Oracle: the program as it is written down, one variable per row and cluster."""
    n, k = cost.shape
    weights = np.ones(n) if weights is None else weights
    inequalities = []
    for column in columns.T:
        for name in np.unique(column):
            share = weights[column == name].sum() / weights.sum()
            for cluster in range(k):
                of_cluster, of_group = np.zeros((n, k)), np.zeros((n, k))
                of_cluster[:, cluster] = weights
                of_group[:, cluster] = weights * (column == name)
                inequalities.append((1 - tolerance) * share * of_cluster - of_group)
                inequalities.append(of_group - share / (1 - tolerance) * of_cluster)
    limits = [0.0] * len(inequalities)
    for cluster in range(k):
        of_cluster = np.zeros((n, k))
        of_cluster[:, cluster] = -weights
        inequalities.append(of_cluster)
        limits.append(-min(weights.min(), weights.sum() / k))
    upper = np.ones((n, k)) if allowed is None else allowed.astype(float)
    return linprog(
        (cost * weights[:, None]).ravel(),
        A_ub=np.reshape(inequalities, (-1, n * k)),
        b_ub=limits,
        A_eq=np.kron(np.eye(n), np.ones(k)),
        b_eq=np.ones(n),
        bounds=np.column_stack([np.zeros(n * k), upper.ravel()]),
    )


# The linear program.


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", ["kmeans", "kmedian"])
@pytest.mark.parametrize("seed", first_is_fast(range(4)))
def test_lp_value_is_that_of_the_program_written_down(seed, objective, weighted):
    rng = np.random.default_rng(seed)
    X, columns = segregated_data(rng, 60)
    X[40:] = X[:20]  # equal rows, partly of equal groups
    columns = columns[:, : 1 + seed % 2]
    weights = rng.uniform(0.1, 3.0, 60) if weighted else None
    model = BoundedFairAssignment(3, objective=objective, tolerance=0.1 * seed, random_state=0)
    fit_quietly(model, X, columns, sample_weight=weights)
    expected = dense_program(costs_to(model, X), columns, 0.1 * seed, weights)
    assert_allclose(model.lp_value_, expected.fun, rtol=1e-6)


@pytest.mark.parametrize("seed", first_is_fast(range(4)))
def test_radius_is_the_least_distance_with_a_feasible_program(seed):
    X, columns = segregated_data(np.random.default_rng(seed), 40)
    columns = columns[:, :1]
    model = BoundedFairAssignment(3, objective="kcenter", tolerance=0.1, random_state=0)
    fit_quietly(model, X, columns)
    cost = costs_to(model, X)
    feasible = (
        radius
        for radius in np.unique(cost)
        if radius >= cost.min(axis=1).max()
        and dense_program(0 * cost, columns, 0.1, allowed=cost <= radius).status == 0
    )
    assert_allclose(model.lp_value_, next(feasible), rtol=1e-9)
    assert model.inertia_ <= model.lp_value_ * (1 + 1e-12)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_larger_tolerance_never_raises_the_lp_value(objective):
    X, columns = segregated_data(np.random.default_rng(0), 150)
    values = [
        fit_quietly(
            BoundedFairAssignment(3, objective=objective, tolerance=tolerance, random_state=0),
            X,
            columns[:, 0],
        ).lp_value_
        for tolerance in [0.0, 0.05, 0.2, 0.5, 0.8, 0.99]
    ]
    assert np.all(np.diff(values) <= 1e-6 * values[0])
    assert values[-1] < values[0]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_labels_are_those_of_the_nearest_center_when_bounds_do_not_bind(objective):
    X, columns = segregated_data(np.random.default_rng(0), 80)
    model = BoundedFairAssignment(
        3, objective=objective, lower=[0, 0], upper=[1, 1], random_state=0
    )
    model.fit(X, sensitive_features=columns[:, 0])
    cost = costs_to(model, X)
    assert_array_equal(model.labels_, cost.argmin(axis=1))
    assert_allclose(model.inertia_, model.lp_value_)
    one_group = BoundedFairAssignment(3, objective=objective, random_state=0)
    one_group.fit(X, sensitive_features=["a"] * 80)
    assert_array_equal(one_group.labels_, model.labels_)
    if objective == "kmeans":
        plain = KMeans(3, n_init=10, random_state=0).fit(X)
        assert_allclose(one_group.inertia_, plain.inertia_)


# Rounding.


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", first_is_fast(range(4)))
def test_against_all_assignments_of_few_rows(seed, objective):
    rng = np.random.default_rng(seed)
    n, k, tolerance = int(rng.integers(6, 11)), 2, 0.5
    group = rng.permutation(np.arange(n) % 2)
    X = rng.normal(size=(n, 2))
    model = BoundedFairAssignment(k, objective=objective, tolerance=tolerance, random_state=0)
    fit_quietly(model, X, group)
    cost = costs_to(model, X)
    share = np.bincount(group) / n
    best = np.inf
    for labels in map(np.array, itertools.product(range(k), repeat=n)):
        table = np.array([np.bincount(group[labels == c], minlength=2) for c in range(k)])
        if table.sum(axis=1).min() > 0 and within_bounds(table, share, tolerance):
            used = cost[np.arange(n), labels]
            best = min(best, used.max() if objective == "kcenter" else used.sum())
    assert model.lp_value_ <= best * (1 + 1e-7)
    if model.worst_violation_ == 0:
        # Then the labels are among those enumerated: nothing is better than the program.
        assert model.inertia_ >= best * (1 - 1e-7)


@given(
    seed=st.integers(0, 10**6),
    n_attributes=st.integers(1, 3),
    n_clusters=st.integers(1, 5),
    objective=st.sampled_from(OBJECTIVES),
    tolerance=st.sampled_from([0.0, 0.2, 0.7]),
)
def test_bounds_are_missed_by_less_than_documented(
    seed, n_attributes, n_clusters, objective, tolerance
):
    rng = np.random.default_rng(seed)
    X, columns = segregated_data(rng, int(rng.integers(30, 90)), max(2, n_clusters))
    columns = np.column_stack([columns, rng.integers(0, 4, len(X))])[:, :n_attributes]
    model = BoundedFairAssignment(
        n_clusters, objective=objective, tolerance=tolerance, n_init=2, random_state=seed
    )
    filled = False
    try:
        model.fit(X, sensitive_features=columns)
    except FairnessWarning:
        filled = True
        fit_quietly(model, X, columns)

    assert_array_equal(np.unique(model.labels_), np.arange(n_clusters))
    violation = 0.0
    for column, table in zip(columns.T, model.attribute_counts_.values(), strict=True):
        share = np.unique(column, return_counts=True)[1] / len(X)
        size = table.sum(axis=1, keepdims=True)
        violation = max(violation, ((1 - tolerance) * share * size - table).max())
        upper = np.minimum(1, share / (1 - tolerance))
        violation = max(violation, (table - upper * size).max())
    assert_allclose(model.worst_violation_, violation, atol=1e-9)
    if filled:
        return
    if n_attributes > 1:
        assert violation < 4 * n_attributes + 4
    else:
        assert violation < (2 if objective == "kcenter" else 1)
    if objective == "kcenter":
        assert model.inertia_ <= model.lp_value_ * (1 + 1e-12)


def test_attributes_are_bounded_each_and_not_their_intersection():
    X, columns = segregated_data(np.random.default_rng(1), 300)
    model = BoundedFairAssignment(3, tolerance=0.1, random_state=0)
    model.fit(X, sensitive_features=columns)
    for j, table in enumerate(model.attribute_counts_.values()):
        names = np.unique(columns[:, j])
        assert_array_equal(list(model.attribute_groups_.values())[j], names)
        expected = [
            [np.sum((model.labels_ == c) & (columns[:, j] == name)) for name in names]
            for c in range(3)
        ]
        assert_array_equal(table, expected)
        share = table.sum(axis=0) / 300
        assert within_bounds(table, share, 0.1, slack=model.worst_violation_ + 1e-9)
    assert model.counts_.shape == (3, 6)
    assert model.counts_.sum() == 300
    assert model.worst_violation_ <= 11
    # The intersection itself is not within these bounds, or the test would show nothing.
    joint_share = model.counts_.sum(axis=0) / 300
    assert not within_bounds(model.counts_, joint_share, 0.1, slack=model.worst_violation_ + 1e-9)


def test_bounds_by_name_and_by_position_replace_the_default():
    X, columns = segregated_data(np.random.default_rng(2), 200)
    group = np.where(columns[:, 0] == 0, "x", "y")
    share = np.mean(group == "x")
    named = BoundedFairAssignment(
        3, tolerance=0.9, lower={"x": share - 0.02}, upper={"x": share + 0.02}, random_state=0
    ).fit(X, sensitive_features=group)
    rows = named.counts_.sum(axis=1)
    assert np.all(np.abs(named.counts_[:, 0] - share * rows) <= 0.02 * rows + 7)
    placed = BoundedFairAssignment(
        3, lower=[share - 0.02, 0], upper=[share + 0.02, 1], random_state=0
    ).fit(X, sensitive_features=group)
    assert_array_equal(placed.labels_, named.labels_)
    assert (
        named.lp_value_
        > BoundedFairAssignment(3, tolerance=0.9, random_state=0)
        .fit(X, sensitive_features=group)
        .lp_value_
    )
    per_column = BoundedFairAssignment(
        3, tolerance=0.0, lower=[None, [0, 0, 0]], upper=[None, [1, 1, 1]], random_state=0
    )
    per_column.fit(X, sensitive_features=columns)
    only_first = BoundedFairAssignment(3, tolerance=0.0, random_state=0)
    only_first.fit(X, sensitive_features=columns[:, 0])
    assert_allclose(per_column.lp_value_, only_first.lp_value_, rtol=1e-6)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_violation_with_weights_is_below_its_bound_and_weightless_rows_are_ignored(objective):
    rng = np.random.default_rng(4)
    X, columns = segregated_data(rng, 120)
    weights = rng.choice([0.0, 0.5, 1.0, 4.0], 120)
    model = BoundedFairAssignment(3, objective=objective, random_state=0)
    model.fit(X, sensitive_features=columns[:, 0], sample_weight=weights)
    assert model.worst_violation_ < 8 * 4.0
    cost, kept = costs_to(model, X), weights > 0
    if objective == "kcenter":
        assert model.inertia_ <= model.lp_value_ * (1 + 1e-12)
    else:
        expected = dense_program(cost[kept], columns[kept][:, :1], 0.2, weights[kept]).fun
        assert_allclose(model.lp_value_, expected, rtol=1e-6)


# Habits of an estimator.


def test_unfinished_search_for_medoids_warns():
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = BoundedFairAssignment(10, objective="kmedian", max_iter=1, n_init=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        fit_quietly(model, X, np.arange(300) % 2)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"tolerance": 1.0}, "'tolerance' parameter"),
        ({"tolerance": -0.1}, "'tolerance' parameter"),
        ({"objective": "median"}, "'objective' parameter"),
        ({"lower": {"a": 0.6}, "upper": {"a": 0.4}}, "'a' must have at least 0.6 and at most 0.4"),
        (
            {"upper": {"a": 0.4}, "lower": {"a": 0.0}},
            "'a', with .* 0.5 of all, misses its upper share 0.4",
        ),
        ({"lower": {"b": 0.55}}, "'b', with .* 0.5 of all, misses its lower share 0.55"),
        ({"lower": {"c": 0.1}}, r"lower names the groups \['c'\]"),
        ({"upper": [0.5, 0.5, 0.5]}, "upper has 3 shares, but there are 2 groups"),
        ({"upper": {"a": 1.5}}, "expected shares of a cluster, between 0 and 1"),
    ],
)
def test_bad_input_is_refused_with_names_and_numbers(params, match):
    model = BoundedFairAssignment(**{"n_clusters": 2, **params})
    with pytest.raises(ValueError, match=match):
        model.fit(np.arange(6.0)[:, None], sensitive_features=list("ababab"))


def test_bounds_for_several_columns_need_one_entry_per_column():
    model = BoundedFairAssignment(2, lower=[0.1, 0.1, 0.1])
    columns = np.column_stack([np.arange(6) // 3, np.arange(6) % 2])
    with pytest.raises(ValueError, match="one entry for each of the 2 columns"):
        model.fit(np.arange(6.0)[:, None], sensitive_features=columns)
