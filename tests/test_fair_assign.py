"""The assignment engine at its public seam, against brute force, SciPy's assignment and HiGHS.

Every oracle is written out here, row by row; none shares code with the library.
"""

from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import csr_array, eye_array, kron, vstack

from fairanchor import FairnessTargets, fair_assign
from tiers import first_is_fast

TOLERANCES = (0.05, 0.2, 0.5)


# Instances


def make_instance(seed, n=60, n_clusters=3, n_groups=3, *, ties=False):
    """Costs that depend on the group, and groups 0, 1, ... of different sizes."""
    rng = np.random.default_rng(seed)
    shares = np.arange(n_groups, 0, -1)
    group = np.sort(rng.choice(n_groups, size=n, p=shares / shares.sum()))
    group[:n_groups] = np.arange(n_groups)
    costs = rng.normal(size=(n, n_clusters)) + rng.normal(size=(n_groups, n_clusters))[group]
    if ties:
        costs = np.round(costs)
    order = rng.permutation(n)
    return costs[order], group[order]


def population_bounds(group, n_clusters, tolerance, weights=None):
    """Shares of every group in every cluster, for exact proportions up to a tolerance."""
    sizes = np.bincount(group, weights=weights)
    shares = sizes / sizes.sum()
    lower = np.tile((1 - tolerance) * shares, (n_clusters, 1))
    if tolerance == 1:
        return lower, np.ones(lower.shape)
    return lower, np.minimum(np.tile(shares / (1 - tolerance), (n_clusters, 1)), 1.0)


# Oracles


def counts_of(labels, group, n_clusters, weights=None):
    table = np.zeros((n_clusters, group.max() + 1))
    for i, (l, r) in enumerate(zip(labels, group, strict=True)):
        table[l, r] += 1.0 if weights is None else weights[i]
    return table


def violation_of(counts, lower, upper, least=0.0, greatest=np.inf):
    """By how much the worst cell or cluster is beyond its bounds."""
    sizes = counts.sum(axis=1, keepdims=True)
    missed = [lower * sizes - counts, counts - upper * sizes]
    missed += [least - sizes[:, 0], sizes[:, 0] - greatest]
    return max(0.0, max(float(np.max(one)) for one in missed))


def linear_program(costs, attributes, *, least=None, greatest=None, weights=None):
    """Value of the program over fractional labels, by HiGHS on all n * k variables.

    ``attributes`` has (group, lower, upper) of each attribute.
    """
    n, k = costs.shape
    weights = np.ones(n) if weights is None else weights
    rows, right = [], []
    for l in range(k):
        size = np.zeros((n, k))
        size[:, l] = weights
        for group, lower, upper in attributes:
            for r in range(group.max() + 1):
                cell = np.where((group == r)[:, None], size, 0.0)
                rows += [lower[l, r] * size - cell, cell - upper[l, r] * size]
                right += [0.0, 0.0]
        if least is not None:
            rows.append(-size)
            right.append(-np.broadcast_to(least, k)[l])
        if greatest is not None:
            rows.append(size)
            right.append(np.broadcast_to(greatest, k)[l])
    solution = linprog(
        (weights[:, None] * costs).ravel(),
        A_ub=csr_array(np.array([row.ravel() for row in rows])) if rows else None,
        b_ub=right if rows else None,
        A_eq=kron(eye_array(n), np.ones((1, k))),
        b_eq=np.ones(n),
        method="highs",
    )
    assert solution.status == 0, solution.message
    return solution.fun


def transport_program(costs, group, table):
    """The program whose cells have given masses, fractional ones included."""
    n, k = costs.shape
    cells = [
        np.outer(group == r, np.arange(k) == l).ravel().astype(float)
        for l in range(k)
        for r in range(table.shape[1])
    ]
    simplex = kron(eye_array(n), np.ones((1, k)))
    # The cells of the last cluster follow from the others.
    n_free = (k - 1) * table.shape[1]
    solution = linprog(
        costs.ravel(),
        A_eq=vstack([simplex, csr_array(np.array(cells[:n_free]).reshape(n_free, n * k))]),
        b_eq=np.concatenate([np.ones(n), table.ravel()[:n_free]]),
        method="highs",
    )
    assert solution.status == 0, solution.message
    return solution.fun


def least_cost_for(costs, group, counts):
    """Of all labels with these counts, by the assignment of rows to places."""
    total = 0.0
    for r in range(counts.shape[1]):
        places = np.repeat(np.arange(len(counts)), counts[:, r])
        table = costs[group == r][:, places]
        rows, columns = linear_sum_assignment(table)
        total += table[rows, columns].sum()
    return total


def assert_consistent(result, costs, group, weights=None):
    """What holds for every assignment, whatever was asked for."""
    n, k = costs.shape
    w = np.ones(n) if weights is None else weights
    assert result.labels.shape == (n,)
    assert set(result.labels) <= set(range(k))
    assert_allclose(result.counts, counts_of(result.labels, group, k, weights), atol=1e-9)
    assert_array_equal(result.groups, np.unique(group))
    assert_allclose(result.cost, w @ costs[np.arange(n), result.labels], rtol=1e-9, atol=1e-9)
    assert result.gap == result.cost - result.lp_value
    assert result.dual_variables.shape == (k, len(result.groups))
    if weights is None:
        priced = costs - result.dual_variables.T[group]
        slack = priced[np.arange(n), result.labels] - priced.min(axis=1)
        assert slack.max() <= 1e-7 * max(1.0, np.abs(priced).max())


# Exact proportions


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(3, 80),
    n_clusters=st.integers(1, 7),
    n_groups=st.integers(1, 5),
    ties=st.booleans(),
)
def test_every_cell_is_the_floor_or_the_ceiling_of_its_share(seed, n, n_clusters, n_groups, ties):
    costs, group = make_instance(seed, max(n, n_groups), n_clusters, n_groups, ties=ties)
    result = fair_assign(costs, sensitive_features=group)
    assert_consistent(result, costs, group)
    # In integers: N_l n_r // n.
    products = np.outer(result.counts.sum(axis=1), np.bincount(group)).astype(np.int64)
    counts = result.counts.astype(np.int64)
    assert np.all(counts >= products // len(group))
    assert np.all(counts <= -(-products // len(group)))
    lower, upper = population_bounds(group, n_clusters, 0.0)
    expected = violation_of(result.counts, lower, upper)
    assert expected < 1
    assert_allclose(result.worst_violation, expected, atol=1e-9)


@pytest.mark.parametrize("seed", first_is_fast(range(6)))
@pytest.mark.parametrize("ties", [False, True])
def test_labels_are_the_cheapest_for_their_counts(seed, ties):
    costs, group = make_instance(seed, 90, 4, 3, ties=ties)
    for asked in ({}, {"tolerance": 0.2}, {"fairness": FairnessTargets(upper=0.6, min_size=10)}):
        result = fair_assign(costs, sensitive_features=group, **asked)
        assert_allclose(result.cost, least_cost_for(costs, group, result.counts), rtol=1e-9)


@pytest.mark.parametrize("seed", first_is_fast(range(6)))
def test_the_value_of_the_program_for_exact_proportions(seed):
    costs, group = make_instance(seed)
    result = fair_assign(costs, sensitive_features=group)
    expected = linear_program(costs, [(group, *population_bounds(group, 3, 0.0))])
    assert_allclose(result.lp_value, expected, rtol=1e-6)


# Brute force


def brute_force(costs, group, lower, upper, slack, least=0.0, greatest=np.inf):
    """Least cost of all labelings that miss their bounds by no more than the slack."""
    n, k = costs.shape
    best = np.inf
    for labels in product(range(k), repeat=n):
        counts = counts_of(labels, group, k)
        if violation_of(counts, lower, upper, least, greatest) <= slack + 1e-9:
            best = min(best, costs[np.arange(n), labels].sum())
    return best


@pytest.mark.parametrize("seed", first_is_fast(range(8)))
@pytest.mark.parametrize("tolerance", [0.0, 0.2, 0.5])
def test_no_labeling_within_the_bounds_beats_the_certificate(seed, tolerance):
    rng = np.random.default_rng(seed)
    k, group = (2, np.repeat([0, 1], [5, 3])) if seed % 2 else (3, np.repeat([0, 1], [4, 2]))
    costs = rng.normal(size=(len(group), k)) + np.eye(2, k)[group]
    lower, upper = population_bounds(group, k, tolerance)
    result = fair_assign(costs, sensitive_features=group, tolerance=tolerance)
    assert_consistent(result, costs, group)
    within = brute_force(costs, group, lower, upper, 0.0)
    assert result.lp_value <= within + 1e-9
    assert result.cost <= within + max(result.gap, 0.0) + 1e-9
    # All labelings that are as near to the bounds as the result: it is among them.
    assert brute_force(costs, group, lower, upper, result.worst_violation) <= result.cost + 1e-9


@pytest.mark.parametrize("seed", first_is_fast(range(8)))
def test_labels_of_a_whole_table_are_optimal_among_all_labelings(seed):
    rng = np.random.default_rng(seed)
    group = np.repeat([0, 1], [4, 4])
    table = np.array([[2, 1], [1, 1], [1, 2]])
    costs = rng.normal(size=(8, 3))
    found = fair_assign(costs, sensitive_features=group, fairness=table)
    best = min(
        costs[np.arange(8), labels].sum()
        for labels in product(range(3), repeat=8)
        if np.array_equal(counts_of(labels, group, 3), table)
    )
    assert_allclose(found.cost, best, rtol=1e-9)
    assert_allclose(found.lp_value, best, rtol=1e-9)
    assert found.worst_violation == 0


@pytest.mark.parametrize("seed", first_is_fast(range(5)))
def test_whole_proportions_that_the_program_meets_are_optimal_among_all_labelings(seed):
    """Every cluster has as many of either group: then the program has whole solutions."""
    rng = np.random.default_rng(seed)
    group = np.repeat([0, 1], 4)
    costs = rng.normal(size=(8, 2))
    found = fair_assign(costs, sensitive_features=group)
    lower, upper = population_bounds(group, 2, 0.0)
    assert_allclose(found.cost, brute_force(costs, group, lower, upper, 0.0), rtol=1e-9)
    assert_allclose(found.gap, 0.0, atol=1e-9)


# Tables


@pytest.mark.parametrize("seed", first_is_fast(range(6)))
@pytest.mark.parametrize("ties", [False, True])
def test_a_table_of_whole_numbers_is_met_at_the_least_cost(seed, ties):
    costs, group = make_instance(seed, 80, 4, 3, ties=ties)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, size=80)  # the last cluster is empty
    table = counts_of(labels, group, 4)
    table[:, 1] = np.roll(table[:, 1], 1)
    result = fair_assign(costs, sensitive_features=group, fairness=table)
    assert_array_equal(result.counts, table)
    assert_consistent_cells(result, costs, group, table)
    assert_allclose(result.cost, least_cost_for(costs, group, table.astype(int)), rtol=1e-9)
    assert_allclose(result.gap, 0.0, atol=1e-7)
    assert result.worst_violation == 0


def assert_consistent_cells(result, costs, group, table):
    """As `assert_consistent`, with clusters that a group may not use left out."""
    priced = np.where(table.T[group] > 0, costs - result.dual_variables.T[group], np.inf)
    slack = priced[np.arange(len(costs)), result.labels] - priced.min(axis=1)
    assert slack.max() <= 1e-7


@pytest.mark.parametrize("seed", first_is_fast(range(6)))
def test_a_table_of_fractions_is_rounded_and_bounded_by_its_program(seed):
    costs, group = make_instance(seed, 50, 3, 2)
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.ones(3) * 4, size=2).T * np.bincount(group)
    result = fair_assign(costs, sensitive_features=group, fairness=table)
    assert np.all((result.counts == np.floor(table)) | (result.counts == np.ceil(table)))
    assert_allclose(result.worst_violation, np.abs(result.counts - table).max())
    assert_allclose(result.cost, least_cost_for(costs, group, result.counts), rtol=1e-9)
    # A bound: the dual variables are those of the rounded table.
    assert result.lp_value <= transport_program(costs, group, table) + 1e-7


@pytest.mark.parametrize("tolerance", [0.1, 0.5])
def test_a_tolerance_is_around_the_shares_of_a_table(tolerance):
    costs, group = make_instance(1, 90, 3, 2)
    sizes = np.bincount(group)
    table = np.array([[0.6, 0.2], [0.3, 0.4], [0.1, 0.4]]) * sizes
    shares = table / table.sum(axis=1, keepdims=True)
    lower, upper = (1 - tolerance) * shares, np.minimum(shares / (1 - tolerance), 1.0)
    result = fair_assign(costs, sensitive_features=group, fairness=table, tolerance=tolerance)
    assert_consistent(result, costs, group)
    assert_allclose(result.lp_value, linear_program(costs, [(group, lower, upper)]), rtol=1e-6)
    expected = violation_of(result.counts, lower, upper)
    assert expected < 1
    assert_allclose(result.worst_violation, expected, atol=1e-9)


# Tolerance and bounds


@pytest.mark.parametrize("seed", first_is_fast(range(4)))
@pytest.mark.parametrize("tolerance", TOLERANCES)
def test_the_value_of_the_program_within_a_tolerance(seed, tolerance):
    costs, group = make_instance(seed)
    lower, upper = population_bounds(group, 3, tolerance)
    result = fair_assign(costs, sensitive_features=group, tolerance=tolerance)
    assert_consistent(result, costs, group)
    assert_allclose(result.lp_value, linear_program(costs, [(group, lower, upper)]), rtol=1e-6)
    expected = violation_of(result.counts, lower, upper)
    assert expected < 1
    assert_allclose(result.worst_violation, expected, atol=1e-9)
    assert result.gap >= -1e-9 or expected > 0


BOUNDS = {
    "upper": ({"upper": 0.55}, {"upper": 0.55}),
    "lower": ({"lower": 0.12}, {"lower": 0.12}),
    "both": ({"lower": {1: 0.2}, "upper": {0: 0.6}}, {"lower": [0, 0.2, 0], "upper": [0.6, 1, 1]}),
    "by cluster": (
        {"lower": [[0.2, 0.2, 0.1], [0.0, 0.1, 0.0], [0.1, 0.0, 0.0]]},
        {"lower": [[0.2, 0.2, 0.1], [0.0, 0.1, 0.0], [0.1, 0.0, 0.0]]},
    ),
    "sizes": ({"min_size": 15, "max_size": [20, 30, 25], "tolerance": 1.0}, {}),
    "bounds and sizes": ({"upper": 0.6, "min_size": [10, 0, 25]}, {"upper": 0.6}),
    "closed cell": ({"upper": [[1, 1, 0], [1, 1, 1], [0, 1, 1]]},
                    {"upper": [[1, 1, 0], [1, 1, 1], [0, 1, 1]]}),
}  # fmt: skip


@pytest.mark.parametrize("seed", first_is_fast(range(3)))
@pytest.mark.parametrize("case", BOUNDS)
def test_bounds_on_shares_and_sizes(case, seed):
    asked, tables = BOUNDS[case]
    costs, group = make_instance(seed)
    lower = np.broadcast_to(tables.get("lower", 0.0), (3, 3)).astype(float)
    upper = np.broadcast_to(tables.get("upper", 1.0), (3, 3)).astype(float)
    least, greatest = asked.get("min_size", 0), asked.get("max_size", np.inf)
    result = fair_assign(costs, sensitive_features=group, fairness=FairnessTargets(**asked))
    assert_consistent_within(result, costs, group, upper)
    program = linear_program(
        costs, [(group, lower, upper)], least=np.broadcast_to(least, 3),
        greatest=None if "max_size" not in asked else np.array(greatest),
    )  # fmt: skip
    assert_allclose(result.lp_value, program, rtol=1e-6)
    sizes = result.counts.sum(axis=1)
    assert np.all(sizes >= least)
    assert np.all(sizes <= greatest)
    expected = violation_of(result.counts, lower, upper)
    assert expected < 1
    assert_allclose(result.worst_violation, expected, atol=1e-9)


def assert_consistent_within(result, costs, group, upper):
    """As `assert_consistent`, with cells that are closed to a group left out."""
    assert_allclose(result.counts, counts_of(result.labels, group, costs.shape[1]))
    priced = np.where(upper.T[group] > 0, costs - result.dual_variables.T[group], np.inf)
    slack = priced[np.arange(len(costs)), result.labels] - priced.min(axis=1)
    assert slack.max() <= 1e-7
    assert np.all(result.counts[upper == 0] == 0)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(4, 60),
    n_clusters=st.integers(1, 5),
    n_groups=st.integers(1, 4),
    tolerance=st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0]),
    sized=st.booleans(),
    ties=st.booleans(),
)
def test_any_bounds_are_missed_by_less_than_a_row_and_sizes_by_none(
    seed, n, n_clusters, n_groups, tolerance, sized, ties
):
    costs, group = make_instance(seed, n, n_clusters, n_groups, ties=ties)
    least = n // (2 * n_clusters) if sized else 0
    greatest = -(-3 * n // (2 * n_clusters)) if sized else n
    asked = FairnessTargets(tolerance=tolerance, min_size=least, max_size=greatest)
    result = fair_assign(costs, sensitive_features=group, fairness=asked)
    assert_consistent(result, costs, group)
    lower, upper = population_bounds(group, n_clusters, tolerance)
    sizes = result.counts.sum(axis=1)
    assert np.all(sizes >= least)
    assert np.all(sizes <= greatest)
    expected = violation_of(result.counts, lower, upper)
    assert expected < 1
    assert_allclose(result.worst_violation, expected, atol=1e-9)
    program = linear_program(
        costs, [(group, lower, upper)], least=np.full(n_clusters, least),
        greatest=np.full(n_clusters, greatest),
    )  # fmt: skip
    assert_allclose(result.lp_value, program, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n_groups", [1, 3])
def test_nothing_asked_for_is_each_rows_cheapest_cluster(n_groups):
    costs, group = make_instance(0, n_groups=n_groups)
    for asked in ({"tolerance": 1.0}, {"fairness": FairnessTargets(tolerance=1.0)}):
        result = fair_assign(costs, sensitive_features=group, **asked)
        assert_array_equal(result.labels, costs.argmin(axis=1))
        assert_allclose(result.gap, 0.0, atol=1e-9)
        assert_array_equal(result.dual_variables, 0.0)
        assert result.worst_violation == 0


def test_without_groups_only_sizes_are_constrained():
    costs, _ = make_instance(0, 40, 4)
    free = fair_assign(costs)
    assert_array_equal(free.labels, costs.argmin(axis=1))
    result = fair_assign(costs, fairness=FairnessTargets(min_size=10, max_size=10))
    assert_array_equal(np.bincount(result.labels), [10, 10, 10, 10])
    rows, places = linear_sum_assignment(np.repeat(costs, 10, axis=1))
    assert_allclose(result.cost, np.repeat(costs, 10, axis=1)[rows, places].sum(), rtol=1e-9)


def test_a_looser_tolerance_costs_no_more():
    costs, group = make_instance(2, 300, 4)
    found = [
        fair_assign(costs, sensitive_features=group, tolerance=tolerance).lp_value
        for tolerance in (0.0, 0.05, 0.1, 0.3, 0.6, 1.0)
    ]
    assert np.all(np.diff(found) <= 1e-9)


# Several attributes


@pytest.mark.parametrize("seed", first_is_fast(range(4)))
@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.4])
def test_separate_attributes_have_the_value_of_their_program(seed, tolerance):
    costs, first = make_instance(seed, 70, 3, 3)
    second = np.random.default_rng(seed + 100).integers(0, 2, 70)
    columns = pd.DataFrame({"race": first, "sex": second})
    result = fair_assign(
        costs, sensitive_features=columns, attributes="separate", tolerance=tolerance
    )
    attributes = [(own, *population_bounds(own, 3, tolerance)) for own in (first, second)]
    assert_allclose(result.lp_value, linear_program(costs, attributes), rtol=1e-6)
    missed = [
        violation_of(counts_of(result.labels, own, 3), lower, upper)
        for own, lower, upper in attributes
    ]
    assert_allclose(result.worst_violation, max(missed), atol=1e-9)
    assert result.worst_violation < 1
    names = [tuple(name) for name in result.groups]
    joint = np.array([names.index(pair) for pair in zip(first, second, strict=True)])
    assert_allclose(result.counts, counts_of(result.labels, joint, 3))
    priced = costs - result.dual_variables.T[joint]
    slack = priced[np.arange(70), result.labels] - priced.min(axis=1)
    assert slack.max() <= 1e-7


def test_separate_attributes_have_bounds_of_their_own():
    costs, first = make_instance(5, 70, 3, 3)
    second = np.random.default_rng(5).integers(0, 2, 70)
    bounds = [FairnessTargets(upper=0.6, min_size=10), FairnessTargets(tolerance=0.1)]
    result = fair_assign(
        costs,
        sensitive_features=np.column_stack([first, second]),
        attributes="separate",
        fairness=bounds,
    )
    attributes = [
        (first, np.zeros((3, 3)), np.full((3, 3), 0.6)),
        (second, *population_bounds(second, 3, 0.1)),
    ]
    program = linear_program(costs, attributes, least=np.full(3, 10.0))
    assert_allclose(result.lp_value, program, rtol=1e-6)
    assert result.counts.sum(axis=1).min() >= 10


def test_separate_attributes_cost_no_more_than_their_intersection():
    costs, first = make_instance(3, 200, 3, 2)
    columns = np.column_stack([first, np.arange(200) % 2])
    separate = fair_assign(costs, sensitive_features=columns, attributes="separate")
    joint = fair_assign(costs, sensitive_features=columns)
    assert separate.lp_value <= joint.lp_value + 1e-9


def test_one_separate_attribute_is_the_attribute_itself():
    costs, group = make_instance(4)
    expected = fair_assign(costs, sensitive_features=group, tolerance=0.1)
    result = fair_assign(
        costs, sensitive_features=group[:, None], attributes="separate", tolerance=0.1
    )
    assert_array_equal(result.labels, expected.labels)


# Weights


@pytest.mark.parametrize("seed", first_is_fast(range(4)))
@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.4])
def test_weights_have_the_value_of_their_program(seed, tolerance):
    costs, group = make_instance(seed)
    weights = np.random.default_rng(seed).uniform(0.2, 3.0, len(group))
    result = fair_assign(
        costs, sensitive_features=group, tolerance=tolerance, sample_weight=weights
    )
    lower, upper = population_bounds(group, 3, tolerance, weights)
    program = linear_program(costs, [(group, lower, upper)], weights=weights)
    assert_allclose(result.lp_value, program, rtol=1e-6)
    assert_consistent(result, costs, group, weights)
    expected = violation_of(result.counts, lower, upper)
    assert_allclose(result.worst_violation, expected, atol=1e-9)
    assert expected <= 2 * weights.max()


@pytest.mark.parametrize("seed", range(5))
def test_very_unequal_weights_have_the_value_of_their_program(seed):
    rng = np.random.default_rng(seed)
    costs = rng.integers(0, 4, (60, 4)).astype(float)
    weights = 10.0 ** rng.uniform(-6, 6, 60)
    sizes = rng.dirichlet(np.ones(4)) * weights.sum()
    result = fair_assign(costs, fairness=sizes[:, None], sample_weight=weights)
    # By an interior point method on weights, not shares, of the rows.
    solution = linprog(
        costs.ravel(),
        A_eq=vstack([kron(eye_array(60), np.ones((1, 4))), kron(np.ones((1, 60)), eye_array(4))]),
        b_eq=np.concatenate([weights, sizes]),
        method="highs-ipm",
    )
    assert solution.status == 0, solution.message
    assert_allclose(result.lp_value, solution.fun, rtol=1e-6)


@pytest.mark.parametrize("tolerance", [0.0, 0.2])
def test_integer_weights_have_the_program_of_repeated_rows(tolerance):
    costs, group = make_instance(7, 50)
    repeats = np.random.default_rng(7).integers(1, 4, 50)
    weighted = fair_assign(
        costs, sensitive_features=group, tolerance=tolerance, sample_weight=repeats
    )
    repeated = fair_assign(
        np.repeat(costs, repeats, axis=0),
        sensitive_features=np.repeat(group, repeats),
        tolerance=tolerance,
    )
    assert_allclose(weighted.lp_value, repeated.lp_value, rtol=1e-6)


@pytest.mark.parametrize("asked", [{}, {"tolerance": 0.2}, {"fairness": "table"}])
def test_equal_weights_are_counts_in_another_unit(asked):
    costs, group = make_instance(8)
    unit, table = 2.5, np.outer([0.5, 0.3, 0.2], np.bincount(group))
    plain_asked = {"fairness": table} if "fairness" in asked else asked
    weighted_asked = {"fairness": table * unit} if "fairness" in asked else asked
    plain = fair_assign(costs, sensitive_features=group, **plain_asked)
    weighted = fair_assign(
        costs, sensitive_features=group, sample_weight=np.full(len(group), unit), **weighted_asked
    )
    assert_array_equal(weighted.labels, plain.labels)
    assert_allclose(weighted.dual_variables, plain.dual_variables)
    for name in ("counts", "cost", "lp_value", "worst_violation", "gap"):
        assert_allclose(getattr(weighted, name), unit * getattr(plain, name), atol=1e-9)


def test_rows_without_weight_are_labelled_and_count_nothing():
    costs, group = make_instance(9)
    weights = np.where(np.arange(len(group)) % 3 == 0, 0.0, 1.0 + np.arange(len(group)) % 2)
    result = fair_assign(costs, sensitive_features=group, sample_weight=weights)
    assert_consistent(result, costs, group, weights)
    assert_allclose(result.counts.sum(), weights.sum())


# What must not matter

ASKED = {
    "proportions": {},
    "tolerance": {"tolerance": 0.2},
    "bounds": {"fairness": FairnessTargets(upper=0.8, min_size=12)},
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("seed", first_is_fast(range(3)))
def test_the_order_of_rows_does_not_matter(seed, asked):
    costs, group = make_instance(seed, 70)
    order = np.random.default_rng(seed).permutation(70)
    expected = fair_assign(costs, sensitive_features=group, **ASKED[asked])
    shuffled = fair_assign(costs[order], sensitive_features=group[order], **ASKED[asked])
    assert_allclose(shuffled.lp_value, expected.lp_value, rtol=1e-9)
    assert_array_equal(shuffled.labels, expected.labels[order])


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(
    "rename",
    [
        lambda group: np.array(["z", "a", "m"])[group],
        lambda group: 7 - group,
        lambda group: pd.Categorical.from_codes(group, ["x", "y", "w"]),
        lambda group: pl.Series(np.array(["z", "a", "m"])[group]),
        lambda group: np.column_stack([group // 2, group % 2]),
        lambda group: group.tolist(),
    ],
    ids=["text", "numbers", "categories", "polars", "columns", "list"],
)
def test_the_names_of_the_groups_do_not_matter(rename, asked):
    costs, group = make_instance(3, 70)
    expected = fair_assign(costs, sensitive_features=group, **ASKED[asked])
    renamed = fair_assign(costs, sensitive_features=rename(group), **ASKED[asked])
    assert_array_equal(renamed.labels, expected.labels)
    assert renamed.lp_value == expected.lp_value


@pytest.mark.parametrize("asked", ASKED)
def test_the_order_of_clusters_does_not_matter(asked):
    costs, group = make_instance(4, 70)
    expected = fair_assign(costs, sensitive_features=group, **ASKED[asked])
    other = fair_assign(costs[:, [2, 0, 1]], sensitive_features=group, **ASKED[asked])
    assert_allclose(other.lp_value, expected.lp_value, rtol=1e-7)


@given(seed=st.integers(0, 10**6), asked=st.sampled_from(sorted(ASKED)))
def test_a_constant_added_to_a_rows_costs_changes_no_label(seed, asked):
    costs, group = make_instance(seed, 60)
    # Few binary digits, so that the shifted costs are exact.
    costs = np.round(1024 * costs) / 1024
    shifts = np.random.default_rng(seed).integers(-50, 50, len(costs)).astype(float)
    expected = fair_assign(costs, sensitive_features=group, **ASKED[asked])
    shifted = fair_assign(costs + shifts[:, None], sensitive_features=group, **ASKED[asked])
    assert_allclose(shifted.lp_value, expected.lp_value + shifts.sum(), atol=1e-5)
    # Rounded costs have ties: labels may differ, their value may not.
    assert_allclose(
        least_cost_for(costs, group, shifted.counts),
        costs[np.arange(len(costs)), shifted.labels].sum(),
        atol=1e-9,
    )


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("exponent", first_is_fast([-60, -7, 11, 80]))
def test_the_unit_of_the_costs_changes_no_label(exponent, asked):
    costs, group = make_instance(5, 70)
    scale = 2.0**exponent
    expected = fair_assign(costs, sensitive_features=group, **ASKED[asked])
    scaled = fair_assign(costs * scale, sensitive_features=group, **ASKED[asked])
    assert_array_equal(scaled.labels, expected.labels)
    assert_allclose(scaled.lp_value, expected.lp_value * scale, rtol=1e-9)
    assert_allclose(scaled.dual_variables, expected.dual_variables * scale, rtol=1e-6)


@pytest.mark.parametrize("asked", [*ASKED, "table"])
def test_the_number_of_threads_changes_no_bit(asked):
    costs, group = make_instance(6, 12_000, 4)
    table = np.outer([0.4, 0.3, 0.2, 0.1], np.bincount(group))
    wanted = {"fairness": table} if asked == "table" else ASKED[asked]
    one, two = (fair_assign(costs, sensitive_features=group, n_jobs=k, **wanted) for k in (1, 2))
    assert_array_equal(one.labels, two.labels)
    assert_array_equal(one.dual_variables, two.dual_variables)
    assert (one.cost, one.lp_value) == (two.cost, two.lp_value)


def test_costs_of_any_type_are_taken_at_their_value():
    costs, group = make_instance(7, ties=True)
    expected = fair_assign(costs, sensitive_features=group).labels
    for typed in (costs.astype(np.float32), costs.astype(int), costs.tolist(),
                  np.asfortranarray(costs), pd.DataFrame(costs)):  # fmt: skip
        assert_array_equal(fair_assign(typed, sensitive_features=group).labels, expected)


def test_neither_costs_nor_groups_are_changed():
    costs, group = make_instance(8)
    kept = costs.copy(), group.copy()
    fair_assign(costs, sensitive_features=group, tolerance=0.1)
    assert_array_equal(costs, kept[0])
    assert_array_equal(group, kept[1])


# Special instances


@pytest.mark.parametrize("tolerance", [0.0, 0.2])
@pytest.mark.parametrize(
    "costs",
    [np.zeros((12, 3)), np.ones((12, 1)), -np.ones((12, 2)), np.eye(12), np.ones((12, 20))],
    ids=["all equal", "one cluster", "negative", "as many clusters", "more clusters than rows"],
)
def test_degenerate_costs(costs, tolerance):
    group = np.arange(12) % 2
    result = fair_assign(costs, sensitive_features=group, tolerance=tolerance)
    assert_consistent(result, costs, group)
    assert result.worst_violation < 1


@pytest.mark.parametrize(
    ("costs", "message"),
    [(lambda: None, "returned NoneType"), ((np.ones((2, 2)) for _ in range(2)), "is a generator")],
)
def test_blocks_that_are_none_raise(costs, message):
    with pytest.raises(TypeError, match=message):
        fair_assign(costs, sensitive_features=[0, 1, 0, 1])


def test_one_row():
    result = fair_assign([[3.0, 1.0, 2.0]], sensitive_features=["a"])
    assert result.labels.tolist() == [1]
    assert result.cost == 1.0


def test_a_group_of_one_row_and_a_hundred_groups():
    costs = np.random.default_rng(0).normal(size=(200, 4))
    for group in (np.r_[np.zeros(199, dtype=int), 1], np.arange(200) // 2):
        result = fair_assign(costs, sensitive_features=group)
        assert_consistent(result, costs, group)
        assert result.worst_violation < 1


@pytest.mark.slow
@pytest.mark.parametrize("asked", ASKED)
def test_many_rows_are_as_near_to_the_program_as_few(asked):
    """The gap is that of the rows that whole numbers leave over, however many rows there are."""
    costs, group = make_instance(0, 30_000, 8)
    result = fair_assign(costs, sensitive_features=group, **ASKED[asked])
    assert_consistent(result, costs, group)
    assert result.worst_violation < 1
    assert abs(result.gap) <= 30 * np.ptp(costs)


# Errors

COSTS, GROUP = make_instance(0, 30)
BAD_INPUT = {
    "NaN": ({"costs": np.where(COSTS.max() == COSTS, np.nan, COSTS)}, ValueError, "costs.*NaN"),
    "infinity": ({"costs": np.full((30, 3), np.inf)}, ValueError, "costs.*inf"),
    "one dimension": ({"costs": np.zeros(30)}, ValueError, "1D"),
    "no rows": ({"costs": np.empty((0, 3)), "sensitive_features": []}, ValueError, "0 sample"),
    "no clusters": ({"costs": np.empty((30, 0))}, ValueError, r"0 feature\(s\)|0 cluster"),
    "groups of another length": (
        {"sensitive_features": GROUP[:29]}, ValueError, "sensitive_features has 29",
    ),
    "missing groups": ({"sensitive_features": [None] * 30}, ValueError, "30 missing"),
    "weights of another length": ({"sample_weight": np.ones(29)}, ValueError, "sample_weight"),
    "negative weights": ({"sample_weight": np.full(30, -1.0)}, ValueError, "30 negative"),
    "zero weights": ({"sample_weight": np.zeros(30)}, ValueError, "zero"),
    "negative tolerance": ({"tolerance": -0.1}, ValueError, "tolerance=-0.1"),
    "large tolerance": ({"tolerance": 1.5}, ValueError, "tolerance=1.5"),
    "NaN tolerance": ({"tolerance": float("nan")}, ValueError, "tolerance=nan"),
    "tolerance as text": ({"tolerance": "loose"}, TypeError, "tolerance='loose'"),
    "unknown attributes": ({"attributes": "each"}, ValueError, "attributes='each'"),
    "unknown fairness": ({"fairness": "anchors"}, ValueError, "fairness='anchors'"),
    "two tolerances": (
        {"fairness": FairnessTargets(), "tolerance": 0.1}, ValueError, "tolerance=0.1",
    ),
    "wrong shape of a table": ({"fairness": np.ones((2, 3))}, ValueError, r"\(2, 3\).*\(3, 3\)"),
    "wrong sums of a table": ({"fairness": np.ones((3, 3))}, ValueError, "sum to 3"),
    "unknown group": ({"fairness": FairnessTargets(upper={"z": 0.5})}, ValueError, "upper.*'z'"),
    "lower bounds above one": (
        {"fairness": FairnessTargets(lower=0.5)}, ValueError, r"lower share 0\.5 of cluster",
    ),
    "upper bounds below one": (
        {"fairness": FairnessTargets(upper=0.2, min_size=1)}, ValueError, "30 rows.*cluster",
    ),
    "sizes above all rows": (
        {"fairness": FairnessTargets(min_size=11)}, ValueError, "30 rows.*min_size=11 by 3 rows",
    ),
    "sizes below all rows": (
        {"fairness": FairnessTargets(max_size=9)}, ValueError, "30 rows.*max_size=9 by 3 rows",
    ),
    "crossed bounds": (
        {"fairness": FairnessTargets(lower={0: 0.5}, upper={0: 0.25})}, ValueError, "0.5.*0.25",
    ),
    "two targets for one attribute": (
        {"fairness": [FairnessTargets()] * 2}, ValueError, "2 FairnessTargets",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_INPUT)
def test_an_error_names_what_was_given(case):
    changed, error, named = BAD_INPUT[case]
    arguments = {"costs": COSTS, "sensitive_features": GROUP} | changed
    with pytest.raises(error, match=named):
        fair_assign(arguments.pop("costs"), **arguments)


def test_a_table_is_about_one_attribute():
    columns = np.column_stack([GROUP, np.arange(30) % 2])
    with pytest.raises(ValueError, match="attributes='separate'.*fairness"):
        fair_assign(
            COSTS, sensitive_features=columns, attributes="separate", fairness=np.ones((3, 6))
        )


def test_attributes_that_cannot_be_met_together_are_missed_by_the_least():
    """The seven columns of a Hadamard design: no four of its eight rows halve them all."""
    bits = np.array(list(product([0, 1], repeat=3)))
    masks = [mask for mask in product([0, 1], repeat=3) if any(mask)]
    columns = bits @ np.array(masks).T % 2
    bounds = [FairnessTargets(min_size=4, max_size=4)] * 7
    costs = np.random.default_rng(0).normal(size=(8, 2))
    result = fair_assign(costs, sensitive_features=columns, attributes="separate", fairness=bounds)
    assert_array_equal(np.bincount(result.labels), [4, 4])
    missed = [abs(columns[result.labels == 0, a].sum() - 2) for a in range(7)]
    assert result.worst_violation == max(missed) == 1


# Costs that are not in memory


@pytest.mark.parametrize("asked", [{}, {"tolerance": 0.2}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_costs_on_disk_and_in_blocks_give_the_same_result(asked, dtype, tmp_path):
    costs, group = make_instance(3, n=400)
    costs = costs.astype(dtype)
    mapped = np.lib.format.open_memmap(
        tmp_path / "costs.npy", mode="w+", dtype=dtype, shape=costs.shape
    )
    mapped[:] = costs
    expected = fair_assign(costs, sensitive_features=group, **asked)
    for table in (mapped, lambda: iter(np.array_split(costs, 7))):
        result = fair_assign(table, sensitive_features=group, **asked)
        assert_array_equal(result.labels, expected.labels)
        assert result.cost == expected.cost
        assert_array_equal(result.dual_variables, expected.dual_variables)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], "no block"),
        ([np.zeros((2, 3)), np.zeros((2, 2))], "2 columns after blocks with 3"),
        ([np.zeros((2, 3)), np.full((2, 3), np.nan)], "NaN in row 2 and column 0"),
    ],
)
def test_blocks_that_make_no_table_raise(blocks, message):
    with pytest.raises(ValueError, match=message):
        fair_assign(lambda: iter(blocks), sensitive_features=np.zeros(4))


@pytest.mark.parametrize("n_clusters", [1, 3])
def test_many_rows_that_are_all_tied(n_clusters):
    group = np.arange(200_000) % 3
    result = fair_assign(np.zeros((200_000, n_clusters)), sensitive_features=group)
    assert result.worst_violation < 1
    assert result.gap == 0.0


@pytest.mark.parametrize("seed", first_is_fast(range(4)))
def test_the_value_of_the_program_where_most_costs_are_equal(seed):
    # Tied rows differ by rounding errors, which are no unit for a solver.
    rng = np.random.default_rng(seed)
    attributes = list(rng.integers(0, [[3], [3], [2]], (3, 60)))
    costs = rng.integers(0, 3, (60, 5)).astype(float)
    result = fair_assign(
        costs, sensitive_features=np.column_stack(attributes), attributes="separate",
        tolerance=0.05,
    )  # fmt: skip
    program = linear_program(
        costs, [(group, *population_bounds(group, 5, 0.05)) for group in attributes]
    )
    assert result.lp_value == pytest.approx(program, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("seed", [1, 3, 7])
def test_sizes_are_bounded_where_all_costs_are_equal_and_weights_are_not(seed):
    rng = np.random.default_rng(seed)
    group, weights = rng.integers(3, size=140), 10.0 ** rng.uniform(-6, 6, 140)
    most = 0.4 * weights.sum()
    result = fair_assign(
        np.zeros((140, 4)), sensitive_features=group, sample_weight=weights,
        fairness=FairnessTargets(max_size=most),
    )  # fmt: skip
    heaviest = [weights[group == g].max() for g in range(3)]
    assert result.counts.sum(axis=1).max() <= most + sum(heaviest)
