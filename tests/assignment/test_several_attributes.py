"""Several attributes at once, against programs over all rows and clusters."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from sklearn.cluster import KMeans

from fairanchor import datasets
from fairanchor.assignment._several_attributes import assign_by_attributes, joint_groups
from fairanchor.assignment._share_limits import ShareLimits
from fairanchor.assignment._tolerance import assign_with_tolerance
from fairanchor.exceptions import FairnessWarning
from fairanchor.metrics import relative_balance_of_table


def limits_of(codes, n_clusters, tolerance):
    return [ShareLimits.proportional(np.bincount(own), n_clusters, tolerance) for own in codes.T]


def tables_of(labels, codes, n_clusters):
    tables = []
    for own in codes.T:
        table = np.zeros((n_clusters, own.max() + 1), dtype=np.int64)
        np.add.at(table, (labels, own), 1)
        tables.append(table)
    return tables


def rows_in_cells(codes, n_clusters):
    """For each attribute, the matrix that sums rows × clusters to cells."""
    n = len(codes)
    each = np.arange(n * n_clusters)
    matrices = []
    for own in codes.T:
        cells = np.tile(np.arange(n_clusters), n) * (own.max() + 1) + np.repeat(own, n_clusters)
        shape = (n_clusters * (own.max() + 1), len(each))
        matrices.append(sparse.csr_array((np.ones(len(each)), (cells, each)), shape=shape))
    return matrices


def linear_program(scores, codes, limits):
    """Least cost of fractional labels, all shares within their limits."""
    n, c = scores.shape
    sizes = sparse.csr_array((np.ones(n * c), (np.tile(np.arange(c), n), np.arange(n * c))))
    rows = []
    for matrix, own in zip(rows_in_cells(codes, c), limits, strict=True):
        of_cell = sparse.kron(sparse.eye_array(c), np.ones((own.lower.shape[1], 1))) @ sizes
        rows.append(of_cell * own.lower.reshape(-1, 1) - matrix)
        rows.append(matrix - of_cell * own.upper.reshape(-1, 1))
    limit_rows = sparse.vstack(rows)
    solution = linprog(
        -scores.ravel(),
        A_ub=limit_rows,
        b_ub=np.zeros(limit_rows.shape[0]),
        A_eq=sparse.kron(sparse.eye_array(n), np.ones((1, c))),
        b_eq=np.ones(n),
        bounds=(0, 1),
    )
    assert solution.status == 0, solution.message
    return solution.fun


def strict_cost(scores, codes, limits, sizes):
    """Least cost of labels with these sizes within all limits; None if there are none."""
    n, c = scores.shape
    sums = sparse.csr_array((np.ones(n * c), (np.tile(np.arange(c), n), np.arange(n * c))))
    constraints = [
        LinearConstraint(sparse.kron(sparse.eye_array(n), np.ones((1, c))), 1, 1),
        LinearConstraint(sums, sizes, sizes),
    ]
    for matrix, own in zip(rows_in_cells(codes, c), limits, strict=True):
        low, high = own.lower * sizes[:, None] - 1e-7, own.upper * sizes[:, None] + 1e-7
        constraints.append(LinearConstraint(matrix, low.ravel(), high.ravel()))
    solution = milp(
        -scores.ravel(), constraints=constraints, integrality=np.ones(n * c), bounds=Bounds(0, 1)
    )
    return solution.fun if solution.status == 0 else None


def random_problem(seed, n=40, c=3, groups=(2, 3)):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.permutation(np.arange(n) % h) for h in groups])
    pull = sum(rng.normal(size=(h, c))[own] for h, own in zip(groups, codes.T, strict=True))
    return rng.normal(size=(n, c)) + pull, codes


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), tolerance=st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.5]))
@settings(max_examples=40, deadline=None)
def test_what_is_reported_is_what_programs_over_all_rows_find(seed, tolerance):
    scores, codes = random_problem(seed)
    limits = limits_of(codes, 3, tolerance)
    result = assign_by_attributes(scores, codes, limits)
    tables = tables_of(result.labels, codes, 3)
    for table, reported in zip(tables, result.attribute_counts, strict=True):
        assert_array_equal(table, reported)
    violations = [own.violation(table) for own, table in zip(limits, tables, strict=True)]
    assert_allclose(result.violations, violations)
    assert result.violation == max(result.violations)
    assert_allclose(result.lp_value, linear_program(scores, codes, limits), atol=1e-7)
    best = strict_cost(scores, codes, limits, result.sizes)
    if result.strict:
        assert result.cost >= best - 1e-7
        assert result.gap >= -1e-7
    else:
        assert result.violation < 1.0
        assert best is None, "a strict solution with these sizes exists"


@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.3])
def test_rounding_costs_little(tolerance):
    """Of 2,000 rows some dozen are moved."""
    scores, codes = random_problem(0, n=2000, c=4, groups=(2, 3, 4))
    result = assign_by_attributes(scores, codes, limits_of(codes, 4, tolerance))
    assert result.violation < 1.0
    assert abs(result.gap) <= 0.01 * abs(result.lp_value)


@pytest.mark.parametrize("tolerance", [0.0, 0.1, 1.0])
def test_one_attribute_has_the_same_bound_as_by_itself(tolerance):
    scores, codes = random_problem(1, n=500)
    single = codes[:, 1:]
    several = assign_by_attributes(scores, single, limits_of(single, 3, tolerance))
    alone = assign_with_tolerance(scores, single[:, 0], tolerance)
    assert_allclose(several.lp_value, alone.lp_value)
    assert_allclose(several.cost, alone.cost, rtol=0.02)
    assert_array_equal(several.attribute_counts[0].sum(axis=0), np.bincount(single[:, 0]))


def test_the_same_attribute_twice_asks_for_nothing_more():
    scores, codes = random_problem(2, n=500)
    twice = codes[:, [1, 1]]
    once = assign_with_tolerance(scores, codes[:, 1], 0.1)
    result = assign_by_attributes(scores, twice, limits_of(twice, 3, 0.1))
    assert_allclose(result.lp_value, once.lp_value)
    assert_array_equal(*result.attribute_counts)


def test_separate_attributes_cost_no_more_than_their_intersection():
    scores, codes = random_problem(3, n=1000, groups=(2, 4))
    joint = joint_groups(codes)[1]
    separate = assign_by_attributes(scores, codes, limits_of(codes, 3, 0.0))
    intersection = assign_with_tolerance(scores, joint, 0.0)
    assert separate.lp_value <= intersection.lp_value + 1e-7


def test_full_tolerance_is_the_argmax():
    scores, codes = random_problem(4)
    result = assign_by_attributes(scores, codes, limits_of(codes, 3, 1.0))
    assert_array_equal(result.labels, scores.argmax(axis=1))
    assert result.gap == 0
    assert result.strict


@pytest.mark.parametrize("tolerance", [0.0, 0.2])
def test_prices_reproduce_the_labels_and_add_up_for_unseen_combinations(tolerance):
    scores, codes = random_problem(5, n=3000, groups=(3, 3))
    seen = ~((codes[:, 0] == 2) & (codes[:, 1] == 2))
    result = assign_by_attributes(scores[seen], codes[seen], limits_of(codes[seen], 3, tolerance))
    priced = scores[seen] + result.prices_for(codes[seen])
    assert (priced.argmax(axis=1) == result.labels).mean() > 0.995
    unseen = result.prices_for(np.array([[2, 2], [0, 1]]))
    expected = result.attribute_prices[0][:, 2] + result.attribute_prices[1][:, 2]
    assert_allclose(unseen[0], expected)
    # For combinations that were seen, sums of prices send nearly all rows to the same place.
    sums = sum(part.T[own] for part, own in zip(result.attribute_prices, codes.T, strict=True))
    assert ((scores + sums)[seen].argmax(axis=1) == result.labels).mean() > 0.98


def test_copies_are_as_good_as_equal_rows():
    scores, codes = random_problem(6, n=120)
    numbers = np.random.default_rng(0).integers(1, 6, size=120)
    repeated = np.repeat(codes, numbers, axis=0)
    limits = limits_of(repeated, 3, 0.1)
    merged = assign_by_attributes(scores, codes, limits, weights=numbers.astype(float), copies=True)
    expanded = assign_by_attributes(np.repeat(scores, numbers, axis=0), repeated, limits)
    assert_allclose(merged.lp_value, expanded.lp_value)
    assert_allclose(merged.cost, expanded.cost, rtol=1e-3)
    assert merged.violation < 1.0


def test_weights_are_within_limits_up_to_single_rows():
    scores, codes = random_problem(7, n=400)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=400)
    limits = [
        ShareLimits.proportional(np.bincount(own, weights=weights), 3, 0.1) for own in codes.T
    ]
    result = assign_by_attributes(scores, codes, limits, weights=weights)
    assert result.violation <= 3 * weights.max()
    assert_allclose(result.counts.sum(), weights.sum())


def test_a_start_from_a_similar_problem_ends_at_the_same_value():
    scores, codes = random_problem(8, n=1500)
    start = assign_by_attributes(0.9 * scores, codes, limits_of(codes, 3, 0.0)).multipliers
    cold = assign_by_attributes(scores, codes, limits_of(codes, 3, 0.1))
    warm = assign_by_attributes(scores, codes, limits_of(codes, 3, 0.1), start=start)
    assert_allclose(warm.lp_value, cold.lp_value, rtol=1e-10)


def test_limits_on_sizes_hold_with_several_attributes():
    scores, codes = random_problem(9, n=300)
    limits = [
        ShareLimits.proportional(np.bincount(own), 3, 0.2, least=90, greatest=105)
        for own in codes.T
    ]
    result = assign_by_attributes(scores, codes, limits)
    assert result.sizes.min() >= 90
    assert result.sizes.max() <= 105


def test_a_combination_whose_rows_have_no_weight_is_no_obstacle():
    scores, codes = random_problem(3, n=60)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=60)
    weights[(codes == [0, 0]).all(axis=1)] = 0.0
    limits = [
        ShareLimits.proportional(np.bincount(own, weights=weights), 3, 0.1) for own in codes.T
    ]
    result = assign_by_attributes(scores, codes, limits, weights=weights, warn=False)
    assert np.isfinite(result.cost)
    assert result.violation <= 2 * weights.max()
    assert_allclose(result.counts.sum(), weights.sum())


def free_strict_cost(scores, codes, limits):
    """Least cost of labels of any sizes within all limits, no cluster empty; None without any."""
    n, c = scores.shape
    sums = sparse.csr_array((np.ones(n * c), (np.tile(np.arange(c), n), np.arange(n * c))))
    constraints = [
        LinearConstraint(sparse.kron(sparse.eye_array(n), np.ones((1, c))), 1, 1),
        LinearConstraint(sums, np.maximum(limits[0].least, 1.0), limits[0].greatest),
    ]
    for matrix, own in zip(rows_in_cells(codes, c), limits, strict=True):
        of_cell = sparse.kron(sparse.eye_array(c), np.ones((own.lower.shape[1], 1))) @ sums
        least = sparse.csr_array(matrix - of_cell * own.lower.reshape(-1, 1))
        greatest = sparse.csr_array(matrix - of_cell * own.upper.reshape(-1, 1))
        constraints.append(LinearConstraint(least, -1e-7, np.inf))
        constraints.append(LinearConstraint(greatest, -np.inf, 1e-7))
    solution = milp(
        -scores.ravel(), constraints=constraints, integrality=np.ones(n * c), bounds=Bounds(0, 1)
    )
    return solution.fun if solution.status == 0 else None


@pytest.mark.parametrize("seed", range(12))
def test_few_rows_are_within_all_limits_and_sizes_wherever_any_labels_are(seed):
    rng = np.random.default_rng(seed)
    scores, codes = random_problem(seed, n=int(rng.integers(12, 30)), c=3, groups=(2, 3))
    least, greatest = rng.integers(1, 5, size=3), 12 + rng.integers(0, 9, size=3)
    tolerance = rng.choice([0.0, 0.2, 0.4])
    limits = [
        ShareLimits.proportional(np.bincount(own), 3, tolerance, least=least, greatest=greatest)
        for own in codes.T
    ]
    result = assign_by_attributes(scores, codes, limits, warn=False)
    best = free_strict_cost(scores, codes, limits)
    assert result.strict == (best is not None)
    assert result.violation < 1.0
    if best is not None:
        assert result.lp_value - 1e-7 <= best <= result.cost + 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_limits_of_each_cluster_are_kept_wherever_any_labels_do(seed):
    rng = np.random.default_rng(seed)
    scores, codes = random_problem(seed, n=int(rng.integers(16, 34)), c=4, groups=(2, 2, 2))
    limits = []
    for own in codes.T:
        shares = np.bincount(own) / len(own)
        lower = shares * (1 - rng.uniform(0, 0.6, size=(4, 2)))
        upper = np.minimum(shares * (1 + rng.uniform(0, 1, size=(4, 2))), 1.0)
        limits.append(ShareLimits.of_shares(lower, upper, 4, least=1.0))
    result = assign_by_attributes(scores, codes, limits, warn=False)
    best = free_strict_cost(scores, codes, limits)
    assert result.strict == (best is not None)
    if best is not None:
        assert result.lp_value - 1e-7 <= best <= result.cost + 1e-7


def test_joint_groups_are_the_distinct_rows():
    codes = np.random.default_rng(0).integers(0, 4, size=(200, 3))
    joint, place = joint_groups(codes)
    expected, inverse = np.unique(codes, axis=0, return_inverse=True)
    assert_array_equal(joint, expected)
    assert_array_equal(place, inverse.reshape(-1))


def test_attributes_that_contradict_each_other_are_refused_by_name():
    """All of group 0 are in group 0 of the other attribute as well."""
    codes = np.repeat([[0, 0], [1, 1]], 20, axis=0)
    wanted = [[0.9, 0.1], [0.1, 0.9]]
    limits = [
        ShareLimits.of_shares(wanted, wanted, 2, least=20, greatest=20),
        ShareLimits.of_shares(wanted[::-1], wanted[::-1], 2),
    ]
    with pytest.raises(ValueError, match=r"of attribute \d.* share 0\.\d of cluster \d by"):
        assign_by_attributes(np.zeros((40, 2)), codes, limits)


def test_a_wrong_number_of_columns_is_refused():
    with pytest.raises(ValueError, match=r"shape \(4, 2\), expected \(n_rows, 1\)"):
        assign_by_attributes(
            np.zeros((4, 2)), np.zeros((4, 2), dtype=int), limits_of(np.zeros((4, 1), int), 2, 0)
        )


def test_more_attributes_than_can_be_met_are_warned_about_with_the_least_violation():
    """Ten attributes of a dozen rows; an integer program confirms that none is within a row."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, size=(12, 10))
    codes[:2] = [[0], [1]]
    limits = [ShareLimits.proportional(np.bincount(own), 3, 0.0, least=4) for own in codes.T]
    scores = rng.normal(size=(12, 3))
    with pytest.warns(FairnessWarning, match=r"10 attributes .* by 1\.\d+ .* up to 22 rows"):
        result = assign_by_attributes(scores, codes, limits)
    within_a_row = [
        ShareLimits.of_shares(
            (np.floor(own.lower * 4) / 4), (np.ceil(own.upper * 4) / 4), 3, least=4
        )
        for own in limits
    ]
    assert_array_equal(result.sizes, 4)
    assert strict_cost(scores, codes, within_a_row, result.sizes) is None
    assert 1.0 <= result.violation <= 22


@pytest.mark.slow
def test_sex_and_race_of_the_census_are_both_proportional_in_seconds(data_dir):
    sex, race = (
        datasets.load_kdd_census_income(data_dir, sensitive=name) for name in ("sex", "race")
    )
    X = np.asarray(sex.data, dtype=np.float64)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    centers = KMeans(5, n_init=1, random_state=0).fit(X[::10]).cluster_centers_
    scores = -np.stack([((X - center) ** 2).sum(axis=1) for center in centers], axis=1)
    codes = np.column_stack(
        [np.unique(bunch.sensitive_features, return_inverse=True)[1] for bunch in (sex, race)]
    )
    started = time.process_time()
    result = assign_by_attributes(scores, codes, limits_of(codes, 5, 0.0))
    assert time.process_time() - started < 20
    assert result.violation < 1.0
    assert abs(result.gap) <= 1e-3 * result.lp_value
    for table in tables_of(result.labels, codes, 5):
        assert relative_balance_of_table(table) >= 1 - 2 / table.min()
