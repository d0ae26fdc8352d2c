"""Selecting anchors and weighing what each stands for."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from fairanchor._groups import check_groups
from fairanchor.anchors import select_anchors
from fairanchor.anchors._das import row_scores, select_das, select_fdas
from fairanchor.anchors._kmeans import select_kmeans
from fairanchor.anchors._random import select_random
from fairanchor.anchors._select import anchor_masses
from fairanchor.rows import MemoryRows

METHODS = ["kmeans", "fdas", "das", "random"]


def make_rows(sizes=(120, 60, 30), d=4, seed=0, weights=None):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return MemoryRows(rng.normal(size=(len(codes), d)), codes, len(sizes), weights=weights)


def select(rows, method="kmeans", n_anchors=20, quotas="balanced", n_clusters=3, seed=0):
    groups = check_groups(rows.group_codes, rows.n_rows)
    assert_array_equal(groups.codes, rows.group_codes)
    return select_anchors(rows, groups, method, n_anchors, quotas, n_clusters, seed)


# --- all methods ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_anchors", [3, 20, 209, 210])
def test_anchors_are_distinct_rows_and_say_where_they_are(method, n_anchors):
    rows = make_rows()
    anchors = select(rows, method, n_anchors)
    assert len(np.unique(anchors.indices)) == n_anchors
    assert_array_equal(anchors.points, rows.X[anchors.indices])
    assert anchors.points.flags.c_contiguous
    assert_array_equal(anchors.group_codes, rows.group_codes[anchors.indices])


@pytest.mark.parametrize("method", ["kmeans", "fdas"])
@pytest.mark.parametrize(("quotas", "expected"), [("balanced", [6, 3, 3]), ("paper", [6, 3, 3])])
def test_groups_have_their_quota_and_come_in_order(method, quotas, expected):
    anchors = select(make_rows(), method, 12, quotas)
    assert_array_equal(anchors.group_codes, np.repeat([0, 1, 2], expected))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("quotas", ["balanced", "paper"])
def test_quotas_that_leave_a_group_without_a_seat_are_fine(method, quotas):
    rows = make_rows(sizes=(86, 8, 3, 2, 1))
    n_anchors = 10 if quotas == "paper" or method in ("das", "random") else 12
    anchors = select(rows, method, n_anchors, quotas, n_clusters=2)
    assert len(np.unique(anchors.indices)) == n_anchors
    assert_allclose(anchors.masses.sum(), 100)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_anchors", [4, 30, 59])
def test_rows_that_are_all_equal_have_distinct_anchors(method, n_anchors):
    rows = MemoryRows(np.ones((60, 2)), np.repeat([0, 1], [40, 20]), 2)
    anchors = select(rows, method, n_anchors, n_clusters=2)
    assert len(np.unique(anchors.indices)) == n_anchors
    assert_allclose(anchors.masses.sum(), 60)


@pytest.mark.parametrize("method", METHODS)
def test_few_distinct_values_have_distinct_anchors(method):
    rng = np.random.default_rng(0)
    rows = MemoryRows(rng.integers(0, 2, (60, 1)).astype(float), np.repeat([0, 1], [40, 20]), 2)
    anchors = select(rows, method, 50, n_clusters=2)
    assert len(np.unique(anchors.indices)) == 50


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_selects_the_same_anchors(method):
    first, second = (select(make_rows(), method, seed=5) for _ in range(2))
    assert_array_equal(first.indices, second.indices)
    assert_array_equal(first.masses, second.masses)


@pytest.mark.parametrize("method", ["kmeans", "random"])
def test_another_seed_selects_other_anchors(method):
    first, second = (select(make_rows(), method, seed=seed) for seed in (1, 2))
    assert set(first.indices) != set(second.indices)


@pytest.mark.parametrize("method", METHODS)
def test_names_of_groups_do_not_matter(method):
    rows = make_rows()
    expected = select(rows, method)
    for names in (["a", "b", "c"], ["z", "m", "a"], [3, 1, 2]):
        groups = check_groups(np.array(names)[rows.group_codes], rows.n_rows)
        anchors = select_anchors(rows, groups, method, 20, "balanced", 3, 0)
        assert_array_equal(anchors.indices, expected.indices)


@pytest.mark.parametrize("method", METHODS)
def test_automatic_number_of_anchors_is_twenty_per_group(method):
    assert len(select(make_rows(), method, "auto").indices) == 60


# --- DAS and FDAS --------------------------------------------------------------------------


def plain_das(scores, n_selected):
    """DAS in a few lines of NumPy: argmax, decay, divide by the largest that is left."""
    s = scores / scores.max()
    chosen = []
    for _ in range(n_selected):
        left = np.setdiff1d(np.arange(len(s)), chosen)
        chosen.append(left[np.argmax(s[left])])
        s = s * (1 - s)
        left = np.setdiff1d(left, chosen)
        s = s / s[left].max()
    return np.array(chosen)


def test_scores_are_sums_of_features_counted_from_their_minimum():
    rows = make_rows()
    expected = [
        sum(x - low for x, low in zip(row, rows.X.min(axis=0), strict=True)) for row in rows.X
    ]
    assert_allclose(row_scores(rows), expected, rtol=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_fdas_equals_a_plain_loop_for_thirty_picks(seed):
    """Not for more: the scores follow a chaotic map, in which rounding errors double."""
    rows = make_rows(sizes=(400, 300), seed=seed)
    scores = row_scores(rows)
    selected = select_fdas(rows, np.array([30, 30]), seed=0)
    for r in range(2):
        members = np.flatnonzero(rows.group_codes == r)
        expected = members[plain_das(scores[members], 30)]
        assert_array_equal(selected[30 * r : 30 * (r + 1)], expected)


def test_das_equals_a_plain_loop_on_all_rows():
    rows = make_rows(sizes=(400, 300))
    selected = select_das(rows, np.array([20, 10]), seed=0)
    assert_array_equal(selected, plain_das(row_scores(rows), 30))


@pytest.mark.parametrize("method", [select_fdas, select_das])
def test_a_hundred_picks_are_a_hundred_rows(method):
    """Dividing by the maximum before the decay, as printed, gives three to ten (F1)."""
    rows = make_rows(sizes=(500, 400))
    assert len(np.unique(method(rows, np.array([60, 40]), seed=0))) == 100


@pytest.mark.parametrize("method", [select_fdas, select_das])
def test_a_permutation_of_rows_permutes_the_anchors(method):
    rows = make_rows(sizes=(300, 200))
    order = np.random.default_rng(1).permutation(500)
    quotas = np.array([20, 20])
    selected = method(rows.subset(order), quotas, seed=0)
    assert_array_equal(order[selected], method(rows, quotas, seed=0))


def test_when_scores_run_out_the_rest_is_spread_over_the_ranks():
    """Scores of 0 and 1 only: after one pick all that is left decays to zero (F2)."""
    X = np.zeros((21, 1))
    X[7] = 1.0
    rows = MemoryRows(X, np.zeros(21, dtype=np.int64), 1)
    selected = select_das(rows, np.array([5]), seed=0)
    assert selected[0] == 7
    assert len(np.unique(selected)) == 5
    assert_array_equal(selected[1:], [0, 6, 13, 20])  # ranks 0, 6, 12, 19 of the others


def test_equal_scores_are_picked_by_the_lowest_index():
    X = np.array([[0.0], [1.0], [1.0], [0.4], [0.4]])
    rows = MemoryRows(X, np.zeros(5, dtype=np.int64), 1)
    assert_array_equal(select_das(rows, np.array([2]), seed=0), [1, 3])


# --- k-means -------------------------------------------------------------------------------


def test_kmeans_anchors_of_separated_blobs_are_one_per_blob_and_group():
    rng = np.random.default_rng(0)
    centers = 100.0 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    blob = np.tile(np.arange(4), 50)
    codes = np.repeat([0, 1], [120, 80])
    rows = MemoryRows(centers[blob] + rng.normal(size=(200, 2)), codes, 2)
    selected = select_kmeans(rows, np.array([4, 4]), seed=0)
    assert_array_equal(codes[selected], np.repeat([0, 1], 4))
    for r in range(2):
        assert sorted(blob[selected[4 * r : 4 * r + 4]]) == [0, 1, 2, 3]


def test_kmeans_takes_all_rows_of_a_group_no_larger_than_its_quota():
    rows = make_rows(sizes=(50, 5, 3))
    selected = select_kmeans(rows, np.array([10, 5, 3]), seed=0)
    for r in (1, 2):
        members = np.flatnonzero(rows.group_codes == r)
        assert set(members) <= set(selected)


def test_kmeans_anchors_of_a_group_depend_on_its_rows_only():
    rows = make_rows(sizes=(120, 60))
    moved = rows.X.copy()
    moved[rows.group_codes == 0] *= 7.0
    quotas = np.array([10, 10])
    first = select_kmeans(rows, quotas, seed=3)
    second = select_kmeans(MemoryRows(moved, rows.group_codes, 2), quotas, seed=3)
    assert_array_equal(first[10:], second[10:])


def test_kmeans_ignores_rows_without_weight():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(50, 2)), 1e3 + rng.normal(size=(50, 2))])
    weights = np.repeat([1.0, 0.0], 50)
    rows = MemoryRows(X, np.zeros(100, dtype=np.int64), 1, weights=weights)
    assert select_kmeans(rows, np.array([8]), seed=0).max() < 50


def test_kmeans_seats_of_a_group_without_weight_go_to_its_rows_all_the_same():
    weights = np.where(make_rows().group_codes == 1, 0.0, 1.0)
    rows = make_rows(weights=weights)
    selected = select_kmeans(rows, np.array([5, 4, 3]), seed=0)
    assert_array_equal(rows.group_codes[selected], np.repeat([0, 1, 2], [5, 4, 3]))
    assert len(np.unique(selected)) == 12


def test_kmeans_rows_with_weight_come_before_those_without():
    weights = np.zeros(210)
    weights[[3, 50, 120]] = 1.0
    rows = make_rows(sizes=(210,), weights=weights)
    selected = select_kmeans(rows, np.array([5]), seed=0)
    assert_array_equal(selected[:3], [3, 50, 120])
    assert len(np.unique(selected)) == 5


# --- random --------------------------------------------------------------------------------


def test_random_anchors_are_uniform():
    rows = make_rows(sizes=(30, 10))
    hits = np.zeros(40)
    for seed in range(2000):
        hits[select_random(rows, np.array([3, 1]), seed)] += 1
    # 2000 draws of 4 out of 40: 200 each, standard deviation 13.4.
    assert np.abs(hits - 200).max() < 5 * 13.4


# --- masses --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["kmeans", "fdas"])
@pytest.mark.parametrize("weighted", [False, True])
def test_masses_are_those_of_the_nearest_rows_of_the_same_group(method, weighted):
    weights = np.random.default_rng(9).uniform(0.5, 2.0, 210) if weighted else None
    rows = make_rows(weights=weights)
    anchors = select(rows, method)
    expected = np.zeros(20)
    distances = cdist(rows.X, anchors.points)
    for i in range(rows.n_rows):
        own = np.flatnonzero(anchors.group_codes == rows.group_codes[i])
        expected[own[np.argmin(distances[i, own])]] += rows.weights[i]
    assert_allclose(anchors.masses, expected, rtol=1e-12)
    sums = np.bincount(anchors.group_codes, weights=anchors.masses)
    assert_allclose(sums, rows.group_sizes, rtol=1e-12)


def test_rows_of_a_group_without_anchors_go_to_the_nearest_of_any_group():
    rows = make_rows(sizes=(50, 40))
    indices = np.flatnonzero(rows.group_codes == 0)[:5]
    masses = anchor_masses(rows, rows.X[indices], rows.group_codes[indices])
    nearest = np.argmin(cdist(rows.X, rows.X[indices]), axis=1)
    assert_allclose(masses, np.bincount(nearest, minlength=5))


def test_masses_far_from_the_origin_are_those_near_it():
    rows = make_rows()
    indices = np.arange(0, 210, 10)
    codes = rows.group_codes[indices]
    expected = anchor_masses(rows, rows.X[indices], codes)
    far = MemoryRows(rows.X + 1e6, rows.group_codes, 3)
    assert_array_equal(anchor_masses(far, far.X[indices], codes), expected)


def test_a_row_between_two_anchors_goes_to_the_first():
    rows = MemoryRows(np.array([[0.0], [2.0], [1.0]]), np.zeros(3, dtype=np.int64), 1)
    assert_array_equal(anchor_masses(rows, rows.X[:2], np.zeros(2, dtype=np.int64)), [2, 1])


# --- given rows ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda v: np.array(v, dtype=np.uint8)])
def test_given_rows_are_the_anchors_in_their_order(kind):
    rows = make_rows()
    anchors = select(rows, kind([100, 3, 50, 7]))
    assert_array_equal(anchors.indices, [100, 3, 50, 7])
    assert_allclose(anchors.masses.sum(), 210)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[0, 1], [2, 3]], r"shape \(2, 2\).*expected a one-dimensional array of row indices"),
        ([0.0, 1.0, 2.0], "type float64, expected a one-dimensional array of row indices"),
        ([True, False, True], "type bool, expected"),
        ([], r"shape \(0,\)"),
        ([0, 1, 210], r"from 0 to 210, expected 0..209: there are 210 rows"),
        ([0, 1, -1], r"from -1 to 1, expected 0..209"),
        ([0, 1, 1, 2], "more than once: anchors are distinct rows"),
        ([0, 1], "holds 2 row indices, expected at least n_clusters=3"),
    ],
)
def test_given_rows_that_cannot_be_anchors_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        select(make_rows(), given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_anchors": 2}, "n_anchors=2 should be >= n_clusters=3: a cluster without an anchor"),
        ({"n_anchors": 211}, "n_anchors=211 should be <= n_samples=210: anchors are distinct"),
        (
            {"n_anchors": 2, "n_clusters": 2},
            r"n_anchors=2 should be >= the number of groups.*got 3: \[0, 1, 2\]",
        ),
    ],
)
def test_numbers_of_anchors_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        select(make_rows(), **options)


def test_kmeans_anchors_of_a_table_whose_rows_come_in_turns():
    """Forty values in turn: every fortieth row would be one and the same value."""
    rows = MemoryRows((np.arange(100_000) % 40)[:, None] * 1.0, np.zeros(100_000, np.int64), 1)
    chosen = select_kmeans(rows, np.array([20]), seed=0)
    assert len(np.unique(rows.X[chosen])) > 15
