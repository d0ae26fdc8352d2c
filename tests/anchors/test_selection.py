"""Anchors: which points represent the rows, and the weight that each represents."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from fairanchor import FDAS, AnchorFairClustering, LocalGraph
from fairanchor.anchors._methods import row_scores, select_das, select_fdas, select_random
from fairanchor.rows import MemoryRows
from tiers import first_is_fast

METHODS = ["kmeans", "fdas", "das", "random"]
METHODS_OF_ROWS = ["fdas", "das", "random"]


def make_data(sizes=(120, 60, 30), d=4, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return rng.normal(size=(len(group), d)), group


def in_turns(points, codes, n_clusters, *, sample_weight, random_state):
    return np.arange(len(points)) % n_clusters


def fit(X, group, anchors="kmeans", n_anchors=20, n_clusters=3, seed=0, weights=None):
    """The framework with a clusterer that does not look at the anchors."""
    model = AnchorFairClustering(
        n_clusters, anchors=anchors, n_anchors=n_anchors, clusterer=in_turns, random_state=seed,
        graph=LocalGraph(n_neighbors=1),
    )  # fmt: skip
    return model.fit(X, sensitive_features=group, sample_weight=weights)


# All methods


@pytest.mark.parametrize("method", METHODS_OF_ROWS)
@pytest.mark.parametrize("n_anchors", [3, 20, 209, 210])
def test_anchors_that_are_rows_are_distinct_and_have_their_index(method, n_anchors):
    X, group = make_data()
    model = fit(X, group, method, n_anchors)
    assert len(np.unique(model.anchor_indices_)) == n_anchors
    assert_array_equal(model.anchors_, X[model.anchor_indices_])


def test_mean_anchors_have_no_index():
    X, group = make_data()
    model = fit(X, group, "fdas")
    model.set_params(anchors="kmeans").fit(X, sensitive_features=group)
    assert not hasattr(model, "anchor_indices_")
    assert model.anchors_.shape == (20, 4)


@pytest.mark.parametrize("anchors", ["kmeans", "fdas", FDAS(quotas="paper")])
def test_groups_have_their_quota_and_come_in_order(anchors):
    # Sizes 120, 60, 30 and 12 anchors: proportional 7, 3, 2, at least 3 each for 3 clusters.
    X, group = make_data()
    model = fit(X, group, anchors, 12)
    ends = np.cumsum([0, 6, 3, 3])
    masses = [model.anchor_masses_[a:b].sum() for a, b in zip(ends[:-1], ends[1:], strict=True)]
    assert_allclose(masses, [120, 60, 30])
    if hasattr(model, "anchor_indices_"):
        assert_array_equal(group[model.anchor_indices_], np.repeat([0, 1, 2], [6, 3, 3]))


@pytest.mark.parametrize("anchors", ["das", "random", FDAS(quotas="paper")])
def test_quotas_may_leave_a_group_without_an_anchor(anchors):
    X, group = make_data(sizes=(86, 8, 3, 2, 1))
    with pytest.warns(UserWarning, match="group"):  # groups smaller than the clusters
        model = fit(X, group, anchors, 10, n_clusters=2)
    assert len(np.unique(model.anchor_indices_)) == 10
    assert_allclose(model.anchor_masses_.sum(), 100)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_anchors", [4, 30, 59])
def test_rows_that_are_all_equal_have_as_many_anchors_as_asked_for(method, n_anchors):
    model = fit(np.ones((60, 2)), np.repeat([0, 1], [40, 20]), method, n_anchors, n_clusters=2)
    assert_array_equal(model.anchors_, np.ones((n_anchors, 2)))
    assert_allclose(model.anchor_masses_.sum(), 60)
    if method != "kmeans":
        assert len(np.unique(model.anchor_indices_)) == n_anchors


@pytest.mark.parametrize("method", METHODS_OF_ROWS)
def test_few_distinct_values_have_distinct_rows_as_anchors(method):
    X = np.random.default_rng(0).integers(0, 2, (60, 1)).astype(float)
    model = fit(X, np.repeat([0, 1], [40, 20]), method, 50, n_clusters=2)
    assert len(np.unique(model.anchor_indices_)) == 50


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_selects_the_same_anchors(method):
    X, group = make_data()
    first, second = (fit(X, group, method, seed=5) for _ in range(2))
    assert_array_equal(first.anchors_, second.anchors_)
    assert_array_equal(first.anchor_masses_, second.anchor_masses_)


@pytest.mark.parametrize("method", ["kmeans", "random"])
def test_another_seed_selects_other_anchors(method):
    X, group = make_data()
    first, second = (fit(X, group, method, seed=seed) for seed in (1, 2))
    assert not np.array_equal(np.sort(first.anchors_, axis=0), np.sort(second.anchors_, axis=0))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("names", [["a", "b", "c"], ["z", "m", "a"], [3, 1, 2]])
def test_names_of_groups_do_not_matter(method, names):
    X, group = make_data()
    expected, renamed = fit(X, group, method), fit(X, np.array(names)[group], method)
    assert_array_equal(renamed.anchors_, expected.anchors_)


def test_the_number_of_anchors_is_automatic_by_default():
    X, group = make_data(sizes=(1500, 500))
    assert len(fit(X, group, n_anchors="auto").anchors_) == 600
    assert len(fit(X[:300], group[:300], n_anchors="auto").anchors_) == 300
    few = AnchorFairClustering(3, clusterer=in_turns, graph="reconstruction", random_state=0)
    assert len(few.fit(X, sensitive_features=group).anchors_) == 40


# DAS and FDAS


def rows_of(sizes, seed=0):
    X, group = make_data(sizes, seed=seed)
    return MemoryRows(X, group, len(sizes))


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


def scores_of(X):
    return (X - X.min(axis=0)).sum(axis=1)


@pytest.mark.parametrize("seed", first_is_fast(range(5)))
def test_fdas_equals_a_plain_loop_for_thirty_picks(seed):
    """Not for more: the scores follow a chaotic map, in which rounding errors double."""
    X, group = make_data(sizes=(300, 300), seed=seed)
    model = fit(X, group, "fdas", 60)
    first = group[0]  # of groups with equal sizes the one with the first row comes first
    for place, r in enumerate((first, 1 - first)):
        members = np.flatnonzero(group == r)
        expected = members[plain_das(scores_of(X)[members], 30)]
        assert_array_equal(model.anchor_indices_[30 * place : 30 * (place + 1)], expected)


def test_das_equals_a_plain_loop_on_all_rows():
    X, group = make_data(sizes=(400, 300))
    assert_array_equal(fit(X, group, "das", 30).anchor_indices_, plain_das(scores_of(X), 30))


def test_scores_are_sums_of_features_counted_from_their_minimum():
    rows = rows_of((120, 60))
    assert_allclose(row_scores(rows), scores_of(rows.X), rtol=1e-13)


def printed_das(scores, n_selected):
    """Algorithm 1, lines 11 to 16, as printed."""
    s, chosen = scores / scores.max(), []
    for _ in range(n_selected):
        chosen.append(int(np.argmax(s)))
        s = s * (1 - s) / s.max()
    return list(dict.fromkeys(chosen))


@pytest.mark.parametrize("origin", ["features", "table"])
def test_the_printed_decay_selects_what_the_printed_loop_selects(origin):
    X, group = make_data()
    model = fit(X, group, FDAS(quotas="paper", decay="printed", origin=origin), 40)
    smallest = X.min(axis=0) if origin == "features" else X.min()
    scores, expected = (X - smallest).sum(axis=1), []
    for r, quota in enumerate((22, 11, 7)):  # floors of 40 shares, the rest to the smallest count
        members = np.flatnonzero(group == r)
        expected += members[printed_das(scores[members], quota)].tolist()
    assert_array_equal(model.anchor_indices_, expected)
    assert len(expected) < 40  # rows that are selected again are one anchor


@pytest.mark.parametrize("method", ["das", "random"])
def test_the_selections_of_the_ablation_have_the_options_of_fdas(method):
    X, group = make_data()
    named, option = fit(X, group, method), fit(X, group, FDAS(selection=method))
    assert_array_equal(named.anchor_indices_, option.anchor_indices_)


@pytest.mark.parametrize("method", [select_fdas, select_das])
def test_a_hundred_picks_are_a_hundred_rows(method):
    """Dividing by the maximum before the decay, as printed, gives three to ten (F1)."""
    assert len(np.unique(method(rows_of((500, 400)), np.array([60, 40]), seed=0))) == 100


@pytest.mark.parametrize("method", [select_fdas, select_das])
def test_a_permutation_of_rows_permutes_the_anchors(method):
    rows = rows_of((300, 200))
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


@pytest.mark.parametrize(
    ("options", "parameter", "value"),
    [({"quotas": "even"}, "quotas", "even"), ({"weights": "row"}, "weights", "row")],
)
def test_bad_options_of_fdas_are_named_when_fitting(options, parameter, value):
    X, group = make_data()
    with pytest.raises(ValueError, match=f"{parameter}.*{value}"):
        fit(X, group, FDAS(**options))


# Mean anchors


def test_mean_anchors_of_separated_blobs_are_the_means_of_each_blob_and_group():
    rng = np.random.default_rng(0)
    blob, group = np.tile(np.arange(4), 50), np.repeat([0, 1], [120, 80])
    X = 100.0 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])[blob] + rng.normal(size=(200, 2))
    model = fit(X, group, n_anchors=8, n_clusters=4)
    # 8 anchors by size are 5 and 3, but each group has at least one per cluster.
    for r, anchors in enumerate((model.anchors_[:4], model.anchors_[4:])):
        means = np.array([X[(blob == b) & (group == r)].mean(axis=0) for b in range(4)])
        order = np.lexsort(np.round(anchors).T)
        assert_allclose(anchors[order], means[np.lexsort(np.round(means).T)], atol=1e-9)


def test_mean_anchors_lose_no_more_than_k_means_of_each_group():
    X, group = make_data(sizes=(400, 200), d=2)
    model = fit(X, group, n_anchors=30)
    distances = cdist(X, model.anchors_, "sqeuclidean")
    ends = (0, 20, 30)
    for r in range(2):
        own = group == r
        found = distances[own, ends[r] : ends[r + 1]].min(axis=1).sum()
        plain = KMeans(ends[r + 1] - ends[r], n_init=1, random_state=0).fit(X[own]).inertia_
        assert found <= 1.15 * plain


def test_a_group_no_larger_than_its_quota_is_its_own_anchors():
    X, group = make_data(sizes=(50, 3, 3))
    model = fit(X, group, n_anchors=18)
    for row in X[group > 0]:
        assert (model.anchors_ == row).all(axis=1).any()


def test_mean_anchors_of_a_group_depend_on_its_rows_only():
    X, group = make_data(sizes=(120, 60))
    moved = np.where(group[:, None] == 0, 7.0 * X, X)
    first, second = fit(X, group, n_anchors=15), fit(moved, group, n_anchors=15)
    assert_array_equal(first.anchors_[10:], second.anchors_[10:])
    assert not np.array_equal(first.anchors_[:10], second.anchors_[:10])


def test_rows_without_weight_attract_no_mean_anchor():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(50, 2)), 1e3 + rng.normal(size=(50, 2))])
    weights = np.repeat([1.0, 0.0], 50)
    model = fit(X, np.arange(100) % 2, n_anchors=8, weights=weights)
    assert model.anchors_.max() < 100


def test_a_group_without_weight_still_has_its_quota():
    X, group = make_data()
    weights = np.where(group == 1, 0.0, 1.0)
    model = fit(X, group, n_anchors=12, weights=weights)
    assert len(model.anchors_) == 12
    own = [any((row == anchor).all() for row in X[group == 1]) for anchor in model.anchors_]
    assert sum(own) >= 3


def test_mean_anchors_of_a_table_whose_rows_come_in_turns():
    """Forty values in turn: every fortieth row would be one and the same value."""
    X = (np.arange(100_000) % 40)[:, None] * 1.0
    model = fit(X, np.arange(100_000) // 40 % 2, n_anchors=40, n_clusters=1)
    assert len(np.unique(np.round(model.anchors_))) > 15


# Random rows


def test_random_anchors_are_uniform():
    rows, hits = rows_of((30, 10)), np.zeros(40)
    for seed in range(2000):
        hits[select_random(rows, np.array([3, 1]), seed)] += 1
    # 2000 draws of 4 out of 40: 200 each, standard deviation 13.4.
    assert np.abs(hits - 200).max() < 5 * 13.4


# Masses


@pytest.mark.parametrize("anchors", ["kmeans", "fdas"])
@pytest.mark.parametrize("weighted", [False, True])
def test_masses_are_those_of_the_nearest_rows_of_the_same_group(anchors, weighted):
    X, group = make_data(sizes=(120, 60, 30))
    weights = np.random.default_rng(9).uniform(0.5, 2.0, 210) if weighted else None
    model = fit(X, group, anchors, weights=weights)
    # 20 anchors by size: 11.4, 5.7 and 2.9.
    codes = np.repeat([0, 1, 2], [11, 6, 3])
    distances = cdist(X, model.anchors_)
    expected = np.zeros(20)
    for i in range(len(X)):
        own = np.flatnonzero(codes == group[i])
        expected[own[np.argmin(distances[i, own])]] += 1.0 if weights is None else weights[i]
    assert_allclose(model.anchor_masses_, expected, rtol=1e-12)


def test_rows_of_a_group_without_anchors_belong_to_the_nearest_of_any_group():
    X, group = make_data(sizes=(50, 40))
    indices = np.flatnonzero(group == 0)[:5]
    model = fit(X, group, indices)
    distances = cdist(X, X[indices])
    assert_allclose(model.anchor_masses_, np.bincount(distances.argmin(axis=1), minlength=5))


def test_masses_far_from_the_origin_are_those_near_it():
    X, group = make_data()
    X = np.round(X * 1024) / 1024  # exact after the shift
    indices = np.arange(0, 210, 10)
    near, far = fit(X, group, indices), fit(X + 2.0**20, group, indices)
    assert_array_equal(far.anchor_masses_, near.anchor_masses_)


def test_a_row_between_two_anchors_belongs_to_the_first():
    X = np.array([[0.0], [2.0], [1.0], [1.0]])
    model = fit(X, np.array([0, 0, 0, 0]), [0, 1], n_clusters=1)
    assert_array_equal(model.anchor_masses_, [3, 1])


# Given rows


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda v: np.array(v, dtype=np.uint8)])
def test_given_rows_are_the_anchors_in_their_order(kind):
    X, group = make_data()
    model = fit(X, group, kind([100, 3, 50, 7]))
    assert_array_equal(model.anchor_indices_, [100, 3, 50, 7])
    assert_array_equal(model.anchors_, X[[100, 3, 50, 7]])
    assert_allclose(model.anchor_masses_.sum(), 210)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([[0, 1], [2, 3]], r"anchors.*\(2, 2\)"),
        ([0.0, 1.0, 2.0], "anchors.*float64"),
        ([True, False, True], "anchors.*bool"),
        ([], r"anchors.*\(0,\)"),
        ([0, 1, 210], r"anchors.*210"),
        ([0, 1, -1], r"anchors.*-1"),
        ([0, 1, 1, 2], "anchors"),
        ([0, 1], "anchors.*2.*n_clusters=3"),
    ],
)
def test_given_rows_that_cannot_be_anchors_raise(given, named):
    X, group = make_data()
    with pytest.raises(ValueError, match=named):
        fit(X, group, given)


@pytest.mark.parametrize(
    ("n_anchors", "n_clusters", "named"),
    [
        (2, 3, "n_anchors=2.*n_clusters=3"),
        (211, 3, "n_anchors=211.*n_samples=210"),
        (2, 2, "n_anchors=2.*groups.*3"),
    ],
)
def test_impossible_numbers_of_anchors_raise(n_anchors, n_clusters, named):
    X, group = make_data()
    with pytest.raises(ValueError, match=named):
        fit(X, group, n_anchors=n_anchors, n_clusters=n_clusters)
