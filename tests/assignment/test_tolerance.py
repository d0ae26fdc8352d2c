"""Labels within limits, against an integer program with the same sizes."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from fairanchor.assignment import proportional_counts, transport
from fairanchor.assignment._boxed_program import BoxedProgram
from fairanchor.assignment._share_limits import ShareLimits
from fairanchor.assignment._tolerance import assign_with_tolerance, assign_within_limits
from fairanchor.clusterers._bounded_program import assign_within

TOLERANCES = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)


def integer_program(scores, codes, sizes, low, high):
    """Least cost of labels with these sizes and cells within bounds; None if there are none."""
    (n, c), h = scores.shape, low.shape[1]
    cells = np.tile(np.arange(c), n) * h + np.repeat(codes, c)
    each = np.arange(n * c)
    in_cell = sparse.csr_array((np.ones(n * c), (cells, each)), shape=(c * h, n * c))
    in_cluster = sparse.csr_array((np.ones(n * c), (np.tile(np.arange(c), n), each)))
    solution = milp(
        -scores.ravel(),
        constraints=[
            LinearConstraint(sparse.kron(sparse.eye_array(n), np.ones((1, c))), 1, 1),
            LinearConstraint(in_cluster, sizes, sizes),
            LinearConstraint(in_cell, low.ravel(), high.ravel()),
        ],
        integrality=np.ones(n * c),
        bounds=Bounds(0, 1),
    )
    return solution.fun if solution.status == 0 else None


def table_of(labels, codes, shape):
    table = np.zeros(shape, dtype=np.int64)
    np.add.at(table, (labels, codes), 1)
    return table


def missed_by(table, limits):
    """Independent of the library: the worst cell, or size."""
    sizes = table.sum(axis=1)
    worst = 0.0
    for l in range(table.shape[0]):
        worst = max(worst, limits.least[l] - sizes[l], sizes[l] - limits.greatest[l])
        for r in range(table.shape[1]):
            worst = max(worst, limits.lower[l, r] * sizes[l] - table[l, r])
            worst = max(worst, table[l, r] - limits.upper[l, r] * sizes[l])
    return worst if worst > 1e-7 else 0.0


def check_against_integer_program(scores, codes, limits, result):
    """The labels are the best with their sizes, strictly within the limits if they can be."""
    table = table_of(result.labels, codes, limits.lower.shape)
    assert_array_equal(table, result.counts)
    assert_allclose(result.violation, missed_by(table, limits), atol=1e-7)
    assert_allclose(result.cost, -scores[np.arange(len(scores)), result.labels].sum(), atol=1e-8)
    sizes = table.sum(axis=1)
    strict_low, strict_high = limits.lower * sizes[:, None], limits.upper * sizes[:, None]
    best = integer_program(scores, codes, sizes, strict_low - 1e-7, strict_high + 1e-7)
    if result.strict:
        assert_allclose(result.cost, best, atol=1e-7)
        assert result.gap >= -1e-7
    else:
        assert best is None, "a strict solution with these sizes exists"
        low, high = np.floor(strict_low + 1e-7), np.ceil(strict_high - 1e-7)
        assert_allclose(result.cost, integer_program(scores, codes, sizes, low, high), atol=1e-7)


@st.composite
def small_problems(draw):
    """Up to 24 rows, scores of few values (many ties) or of many."""
    n, c, h = draw(st.integers(1, 24)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = rng.normal(size=(n, c)) if draw(st.booleans()) else rng.integers(0, 3, size=(n, c))
    return scores.astype(float), rng.integers(0, h, size=n), h


@given(problem=small_problems(), tolerance=st.sampled_from(TOLERANCES))
@settings(deadline=None)
def test_labels_are_those_of_an_integer_program_with_the_same_sizes(problem, tolerance):
    scores, codes, h = problem
    group_sizes = np.bincount(codes, minlength=h)
    limits = ShareLimits.proportional(group_sizes, scores.shape[1], tolerance)
    result = assign_within_limits(scores, codes, limits)
    assert result.violation < 1.0
    check_against_integer_program(scores, codes, limits, result)


@pytest.mark.slow
@given(problem=small_problems(), draw=st.integers(0, 10**6))
@settings(deadline=None)
def test_limits_of_each_cluster_and_on_sizes_are_met_at_the_least_cost(problem, draw):
    """Limits around a random table, which therefore can be met."""
    scores, codes, h = problem
    rng = np.random.default_rng(draw)
    n, c = scores.shape
    table = table_of(rng.integers(0, c, size=n), codes, (c, h)).astype(float)
    sizes = table.sum(axis=1)
    shares = np.divide(table, sizes[:, None], out=np.zeros((c, h)), where=sizes[:, None] > 0)
    limits = ShareLimits(
        np.clip(shares - rng.uniform(0, 0.3, size=(c, h)), 0, 1),
        np.clip(shares + rng.uniform(0, 0.3, size=(c, h)), 0, 1),
        np.maximum(sizes - rng.integers(0, 3, size=c), 0.0),
        sizes + rng.integers(0, 3, size=c),
    )
    result = assign_within_limits(scores, codes, limits)
    assert (result.sizes >= limits.least).all()
    assert (result.sizes <= limits.greatest).all()
    if result.violation < 1.0:
        check_against_integer_program(scores, codes, limits, result)
    else:  # the rounded sizes are not those of the table
        assert result.violation < n


@given(problem=small_problems())
@settings(max_examples=40, deadline=None)
def test_bounds_and_costs_do_not_rise_with_the_tolerance(problem):
    scores, codes, _ = problem
    previous = None
    for tolerance in TOLERANCES:
        result = assign_with_tolerance(scores, codes, tolerance, incumbent=previous)
        if previous is not None:
            assert result.lp_value <= previous.lp_value + 1e-7
            limits = ShareLimits.proportional(np.bincount(codes), scores.shape[1], tolerance)
            if limits.violation(previous.counts) <= result.violation:
                assert result.cost <= previous.cost + 1e-9
        previous = result
    assert_allclose(previous.cost, -scores.max(axis=1).sum())


def blobs(n=4000, c=4, h=3, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.choice(h, size=n, p=np.arange(1, h + 1)[::-1] / np.arange(1, h + 1).sum())
    X = rng.normal(size=(n, 2)) + 1.5 * rng.normal(size=(h, 2))[codes]
    centers = 2.0 * rng.normal(size=(c, 2))
    return -((X[:, None] - centers) ** 2).sum(axis=2), codes


@pytest.mark.parametrize("tolerance", TOLERANCES[:-1])
def test_the_bound_is_that_of_the_linear_program_of_bera(tolerance):
    scores, codes = blobs()
    shares = np.bincount(codes) / len(codes)
    result = assign_with_tolerance(scores, codes, tolerance)
    limits = ((1 - tolerance) * shares, np.minimum(1, shares / (1 - tolerance)))
    _, value = assign_within(
        -scores, np.ones(len(codes)), codes, [codes], [limits], smallest_radius=False
    )
    assert_allclose(result.lp_value, value, rtol=1e-9)
    assert abs(result.gap) <= 2e-3 * value


def test_no_tolerance_mirrors_the_data_and_beats_a_table_chosen_without_costs():
    scores, codes = blobs()
    group_sizes = np.bincount(codes)
    result = assign_with_tolerance(scores, codes, 0.0)
    exact = np.outer(result.sizes, group_sizes) / len(codes)
    assert (np.abs(result.counts - exact) < 1).all()
    assert_array_equal(result.counts.sum(axis=0), group_sizes)
    totals = proportional_counts(result.sizes, group_sizes)
    labels = transport(scores, codes, totals).labels
    assert result.cost <= -scores[np.arange(len(codes)), labels].sum() + 1e-9


def test_full_tolerance_is_the_argmax():
    scores, codes = blobs()
    result = assign_with_tolerance(scores, codes, 1.0)
    assert_array_equal(result.labels, scores.argmax(axis=1))
    assert_array_equal(result.prices, 0)
    assert result.strict
    assert result.gap == 0


@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.5])
def test_prices_reproduce_the_labels_but_for_ties(tolerance):
    scores, codes = blobs()
    result = assign_with_tolerance(scores, codes, tolerance)
    priced = scores + result.prices.T[codes]
    own = priced[np.arange(len(codes)), result.labels]
    assert_allclose(own, priced.max(axis=1), atol=1e-9 * np.abs(scores).max())
    assert (priced.argmax(axis=1) == result.labels).mean() > 0.999


@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.3])
def test_neither_the_order_of_rows_nor_the_names_of_groups_and_clusters_matter(tolerance):
    scores, codes = blobs(n=700)
    rng = np.random.default_rng(1)
    rows, clusters, groups = rng.permutation(700), rng.permutation(4), rng.permutation(3)
    result = assign_with_tolerance(scores, codes, tolerance)
    other = assign_with_tolerance(scores[rows][:, clusters], groups[codes][rows], tolerance)
    assert_allclose(other.cost, result.cost)
    assert_allclose(other.lp_value, result.lp_value)
    assert_array_equal(other.counts[:, groups], result.counts[clusters])
    assert (clusters[other.labels] == result.labels[rows]).mean() > 0.99


@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_the_number_of_threads_does_not_matter(tolerance):
    scores, codes = blobs(n=70_000)
    one = assign_with_tolerance(scores, codes, tolerance, n_jobs=1)
    two = assign_with_tolerance(scores, codes, tolerance, n_jobs=2)
    assert_array_equal(one.labels, two.labels)
    assert_array_equal(one.prices, two.prices)


@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.3])
def test_copies_are_as_good_as_equal_rows(tolerance):
    scores, codes = blobs(n=150)
    numbers = np.random.default_rng(0).integers(1, 9, size=150)
    merged = assign_with_tolerance(
        scores, codes, tolerance, weights=numbers.astype(float), copies=True
    )
    repeated = assign_with_tolerance(
        np.repeat(scores, numbers, axis=0), np.repeat(codes, numbers), tolerance
    )
    assert_allclose(merged.cost, repeated.cost)
    assert_allclose(merged.lp_value, repeated.lp_value)
    assert_array_equal(merged.counts, repeated.counts)
    for row, parts in merged.split.items():
        assert sum(number for _, number in parts) == numbers[row]


@pytest.mark.parametrize("tolerance", [0.0, 0.1, 0.3])
def test_weights_are_within_limits_up_to_single_rows(tolerance):
    scores, codes = blobs(n=500)
    weights = np.random.default_rng(0).uniform(0.1, 3.0, size=500)
    result = assign_with_tolerance(scores, codes, tolerance, weights=weights)
    sums = [weights[codes == r].sum() for r in range(3)]
    assert_allclose(result.counts.sum(axis=0), sums)
    assert result.violation <= 2 * weights.max()
    assert abs(result.gap) <= 0.02 * result.lp_value


def test_equal_weights_are_another_unit():
    scores, codes = blobs(n=500)
    limits = ShareLimits.proportional(np.bincount(codes), 4, 0.2, least=60, greatest=200)
    plain = assign_within_limits(scores, codes, limits)
    tenths = ShareLimits.proportional(np.bincount(codes), 4, 0.2, least=6, greatest=20)
    result = assign_within_limits(scores, codes, tenths, weights=np.full(500, 0.1))
    assert_allclose(10 * result.lp_value, plain.lp_value)


@pytest.mark.parametrize("tolerance", [0.0, 0.2])
def test_a_start_from_a_similar_problem_ends_at_the_same_value(tolerance):
    scores, codes = blobs()
    start = assign_with_tolerance(1.1 * scores, codes, 0.1).multipliers
    cold = assign_with_tolerance(scores, codes, tolerance)
    warm = assign_with_tolerance(scores, codes, tolerance, start=start)
    assert_allclose(warm.lp_value, cold.lp_value, rtol=1e-10)


def test_an_incumbent_that_is_better_is_kept_and_explained_by_prices():
    """Sizes of a dozen rows: rounding them can cost more than a tighter limit does."""
    rng = np.random.default_rng(0)
    n_kept = 0
    for _ in range(60):
        scores, codes = rng.normal(size=(12, 3)), np.arange(12) % 2
        tight = assign_with_tolerance(scores, codes, 0.4)
        alone = assign_with_tolerance(scores, codes, 0.45)
        kept = assign_with_tolerance(scores, codes, 0.45, incumbent=tight)
        assert kept.cost <= min(alone.cost, tight.cost) + 1e-12
        priced = scores + kept.prices.T[codes]
        assert_allclose(priced[np.arange(12), kept.labels], priced.max(axis=1), atol=1e-9)
        n_kept += kept.cost < alone.cost - 1e-9
    assert n_kept > 0, "the case that this is about did not occur"


@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.2])
def test_a_handful_of_small_linear_programs_is_enough(tolerance, monkeypatch):
    """Prices of a group may all change by the same amount, however small the boxes are."""
    calls = []
    solve = BoxedProgram.solve

    def counted(self, multipliers):
        calls.append(len(self.band.regrets))
        return solve(self, multipliers)

    monkeypatch.setattr(BoxedProgram, "solve", counted)
    scores, codes = blobs(n=30_000, c=5, h=5)
    assign_with_tolerance(scores, codes, tolerance)
    assert len(calls) <= 6
    assert max(calls) < 10_000


# Corner cases


def test_a_thousand_groups_of_one_row_are_spread_evenly():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, 3))
    result = assign_with_tolerance(scores, np.arange(300), 0.1)
    assert result.violation < 1.0
    assert result.counts.max() == 1


def test_rows_that_are_all_equal_are_labelled_within_the_limits():
    codes = np.arange(600) % 3
    result = assign_with_tolerance(np.zeros((600, 4)), codes, 0.0)
    assert result.violation < 1.0
    assert result.cost == 0
    one_likes_all = np.where(np.arange(4) == np.arange(600)[:, None] % 3, 1.0, 0.0)
    result = assign_with_tolerance(one_likes_all, codes, 0.1)
    assert result.violation == 0.0
    assert_allclose(result.lp_value, result.cost, atol=5)


def test_a_cluster_that_nobody_wants_may_stay_empty():
    scores = np.column_stack([np.zeros(30), np.zeros(30), np.full(30, -1e3)])
    result = assign_with_tolerance(scores, np.arange(30) % 2, 0.0)
    assert result.sizes[2] == 0
    limits = ShareLimits.proportional([15, 15], 3, 0.0, least=4)
    result = assign_within_limits(scores, np.arange(30) % 2, limits)
    assert result.sizes.min() == 4
    assert_allclose(result.cost, 4e3)


@pytest.mark.parametrize("tolerance", TOLERANCES)
def test_one_cluster_or_one_group_is_no_constraint(tolerance):
    scores = np.random.default_rng(0).normal(size=(20, 3))
    alone = assign_with_tolerance(scores, np.zeros(20, dtype=int), tolerance)
    assert_array_equal(alone.labels, scores.argmax(axis=1))
    single = assign_with_tolerance(scores[:, :1], np.arange(20) % 2, tolerance)
    assert_array_equal(single.labels, 0)
    assert single.strict


def test_a_group_without_rows_changes_nothing():
    scores, codes = blobs(n=300)
    with_gap = np.where(codes == 2, 3, codes)
    a, b = (assign_with_tolerance(scores, own, 0.1) for own in (codes, with_gap))
    assert_allclose(a.lp_value, b.lp_value)
    assert_array_equal(b.counts[:, 2], 0)


@pytest.mark.parametrize("scale", [1e-100, 1e-3, 1e6, 1e100])
def test_the_unit_of_the_scores_does_not_matter(scale):
    scores, codes = blobs(n=600)
    plain = assign_with_tolerance(scores, codes, 0.1)
    scaled = assign_with_tolerance(scale * scores, codes, 0.1)
    assert_allclose(scaled.cost, scale * plain.cost, rtol=1e-9)
    assert_array_equal(scaled.counts, plain.counts)


@pytest.mark.parametrize(
    ("tolerance", "error", "message"),
    [
        (-0.1, ValueError, r"tolerance=-0.1 should be between 0 .* and 1"),
        (1.5, ValueError, r"tolerance=1.5 should be between"),
        (float("nan"), ValueError, r"tolerance=nan should be between"),
        ("0.1", TypeError, r"tolerance='0.1' should be a number"),
        (True, TypeError, r"tolerance=True should be a number"),
    ],
)
def test_a_bad_tolerance_is_refused(tolerance, error, message):
    with pytest.raises(error, match=message):
        assign_with_tolerance(np.zeros((4, 2)), np.arange(4) % 2, tolerance)


def test_contradictory_limits_name_group_cluster_and_slack():
    limits = ShareLimits.of_shares([[0.6, 0.0], [0.7, 0.0]], 1.0, 2, least=10)
    with pytest.raises(
        ValueError, match=r"group 0, with 4 rows .* lower share 0\.\d of cluster \d"
    ):
        assign_within_limits(np.zeros((20, 2)), (np.arange(20) % 5 > 0).astype(int), limits)


@example(seed=0)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_scores_of_any_sign_and_offset_give_the_same_labels_costs(seed):
    rng = np.random.default_rng(seed)
    scores, codes = rng.normal(size=(80, 3)), rng.integers(0, 2, size=80)
    offset = 1e3 * rng.normal(size=(80, 1))
    plain = assign_with_tolerance(scores, codes, 0.1)
    moved = assign_with_tolerance(scores + offset, codes, 0.1)
    assert_allclose(moved.gap, plain.gap, atol=1e-6)
