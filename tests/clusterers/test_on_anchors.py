"""Any clusterer on the anchors: what it sees, and what is made of its answer."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans

from fairanchor.anchors import Anchors
from fairanchor.clusterers import FairKMeans
from fairanchor.clusterers._on_anchors import cluster_anchors, enforce_min_size, minimum_size
from fairanchor.exceptions import FairnessWarning
from fairanchor.rows import MemoryRows

BLOBS = 50.0 * np.array([[0, 0], [0, 1], [1, 0]])


def make_anchors(n=30, seed=0, masses=None, points=None):
    """Anchors in three far blobs, groups 0 and 1 by turns."""
    rng = np.random.default_rng(seed)
    if points is None:
        points = BLOBS[np.arange(n) % 3] + rng.normal(size=(n, 2))
    n = len(points)
    masses = np.full(n, 10.0) if masses is None else np.asarray(masses, dtype=float)
    return Anchors(np.arange(n), np.asarray(points, dtype=float), np.arange(n) // 3 % 2, masses)


def run(clusterer, anchors, n_clusters=3, *, weighted=True, min_size=0.0, seed=0):
    return cluster_anchors(
        clusterer, anchors, n_clusters, weighted=weighted, min_size=min_size, seed=seed
    )


def answering(labels):
    """A clusterer whose answer is known."""

    def answer(points, codes, n_clusters, *, sample_weight, random_state):
        return labels

    return answer


class Recorder:
    """A callable that remembers what it was given."""

    def __call__(self, points, codes, n_clusters, *, sample_weight, random_state):
        self.seen = (points, codes, n_clusters, sample_weight, random_state)
        return np.arange(len(points)) % n_clusters


def refuse(*args, **kwargs):
    raise AssertionError("the clusterer must not be called")


def same_partition(first, second):
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    return len(pairs) == len(set(first.tolist())) == len(set(second.tolist()))


# --- what the clusterer sees ---------------------------------------------------------------


def test_a_callable_sees_points_groups_masses_and_the_seed():
    anchors, recorder = make_anchors(masses=np.linspace(5, 15, 30)), Recorder()
    labels, fitted = run(recorder, anchors, 4, seed=17)
    points, codes, n_clusters, weights, seed = recorder.seen
    assert_array_equal(points, anchors.points)
    assert_array_equal(codes, anchors.group_codes)
    assert_array_equal(weights, anchors.masses)
    assert (n_clusters, seed) == (4, 17)
    assert_array_equal(labels, np.arange(30) % 4)
    assert fitted is None


def test_light_anchors_do_not_vote_and_take_the_nearest_label():
    masses = np.full(30, 10.0)
    light = [4, 11, 20]
    masses[light] = 0.5  # below a tenth of their group's average
    anchors, recorder = make_anchors(masses=masses), Recorder()
    heavy = np.setdiff1d(np.arange(30), light)
    labels, _ = run(recorder, anchors)
    assert_array_equal(recorder.seen[0], anchors.points[heavy])
    assert_array_equal(recorder.seen[3], masses[heavy])
    assert_array_equal(labels[heavy], np.arange(27) % 3)
    for j in light:
        nearest = heavy[
            np.argmin(np.linalg.norm(anchors.points[heavy] - anchors.points[j], axis=1))
        ]
        assert labels[j] == labels[nearest]


def test_lightness_is_relative_to_the_own_group():
    masses = np.where(make_anchors().group_codes == 0, 1000.0, 1.0)
    recorder = Recorder()
    run(recorder, make_anchors(masses=masses))
    assert len(recorder.seen[0]) == 30


def test_all_anchors_vote_if_too_few_are_heavy():
    masses = np.full(30, 1e-3)
    masses[[0, 3]] = 1e4  # one in each group
    recorder = Recorder()
    run(recorder, make_anchors(masses=masses))
    assert len(recorder.seen[0]) == 30


def test_without_weights_all_anchors_are_alike():
    masses = np.full(30, 10.0)
    masses[4] = 0.0
    recorder = Recorder()
    run(recorder, make_anchors(masses=masses), weighted=False)
    assert len(recorder.seen[0]) == 30
    assert recorder.seen[3] is None


def test_no_weight_handed_on_is_zero():
    """Many clusterers divide by weights; a group without weight has only zeros."""
    anchors = make_anchors()
    masses = np.where(anchors.group_codes == 1, 0.0, 10.0)
    recorder = Recorder()
    run(recorder, make_anchors(masses=masses))
    assert len(recorder.seen[3]) == 30
    assert recorder.seen[3].min() > 0


# --- estimators ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "clusterer",
    [
        KMeans(n_init=3),
        AgglomerativeClustering(),
        AgglomerativeClustering(linkage="single"),
        DBSCAN(eps=10.0),
        FairKMeans(),
    ],
    ids=lambda c: type(c).__name__,
)
def test_separated_blobs_are_found_by_any_clusterer(clusterer):
    before = clusterer.get_params()
    labels, fitted = run(clusterer, make_anchors())
    assert same_partition(labels, np.arange(30) % 3)
    assert type(fitted) is type(clusterer)
    assert fitted is not clusterer
    assert clusterer.get_params() == before
    assert not hasattr(clusterer, "labels_")


def test_an_estimator_is_told_the_number_of_clusters_the_seed_and_the_masses():
    masses = np.linspace(5, 15, 30)
    _, fitted = run(KMeans(n_clusters=8, n_init=1), make_anchors(masses=masses), 5, seed=3)
    assert (fitted.n_clusters, fitted.random_state) == (5, 3)
    expected = KMeans(5, n_init=1, random_state=3).fit(make_anchors().points, sample_weight=masses)
    assert_array_equal(fitted.labels_, expected.labels_)


def test_an_estimator_is_told_only_what_it_asks_for():
    class Plain(BaseEstimator):
        def fit(self, X):
            self.labels_ = np.arange(len(X)) % 3
            return self

    labels, _ = run(Plain(), make_anchors())
    assert_array_equal(labels, np.arange(30) % 3)


def test_a_fair_estimator_sees_the_groups():
    class Fair(BaseEstimator):
        def fit(self, X, sensitive_features=None):
            self.labels_ = np.asarray(sensitive_features)
            return self

    anchors = make_anchors()
    labels, _ = run(Fair(), anchors, 2)
    assert_array_equal(labels, anchors.group_codes)


# --- answers -------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [[7, 3, 100], [-5, 0, 5], [2.0, 0.0, 1.0], [2**40, 1, 0]])
def test_any_three_names_become_zero_to_two(names):
    answer = np.array(names)[np.arange(30) % 3]
    labels, _ = run(answering(answer), make_anchors())
    assert set(labels) == {0, 1, 2}
    assert same_partition(labels, np.arange(30) % 3)


def test_a_list_is_as_good_as_an_array():
    labels, _ = run(answering([j % 3 for j in range(30)]), make_anchors())
    assert_array_equal(labels, np.arange(30) % 3)


def test_noise_joins_the_nearest_labelled_anchor_with_a_warning():
    answer = np.arange(30) % 3
    answer[[0, 10, 20]] = -1
    with pytest.warns(FairnessWarning, match=r"3 of 30 anchors noise \(-1\)"):
        labels, _ = run(answering(answer), make_anchors())
    assert_array_equal(labels, np.arange(30) % 3)


def test_noise_of_dbscan_is_not_lost():
    points = np.concatenate([make_anchors().points, [[25.0, 25.0]]])
    with pytest.warns(FairnessWarning, match="DBSCAN called 1 of 31 anchors noise"):
        # Anchors count as the ten rows each that they stand for.
        labels, _ = run(DBSCAN(eps=10.0, min_samples=11), make_anchors(points=points))
    assert set(labels) == {0, 1, 2}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.zeros(29), r"shape \(29,\) for 30 anchors, expected \(30,\)"),
        (np.zeros((30, 1)), r"shape \(30, 1\) for 30 anchors"),
        (3, r"shape \(\) for 30 anchors"),
        (None, r"shape \(\) for 30 anchors"),
        (np.arange(30) % 4, "returned 4 clusters, expected n_clusters=3"),
        (np.arange(30), "returned 30 clusters"),
        (np.full(30, -1), r"called all 30 anchors noise \(-1\)"),
    ],
)
def test_answers_of_no_use_are_refused(answer, message):
    with pytest.raises(ValueError, match=message):
        run(answering(answer), make_anchors())


def test_refusals_name_the_estimator():
    with pytest.raises(ValueError, match="DBSCAN called all 30 anchors noise"):
        run(DBSCAN(eps=1e-9, min_samples=11), make_anchors())


@pytest.mark.parametrize("n_found", [1, 2, 4])
def test_too_few_clusters_are_split_with_a_warning(n_found):
    with pytest.warns(FairnessWarning, match=f"returned {n_found} clusters .*n_clusters=5"):
        labels, _ = run(answering(np.arange(30) % n_found), make_anchors(), 5)
    assert set(labels) == set(range(5))


def test_the_heaviest_cluster_is_split_where_it_falls_apart():
    answer = np.where(np.arange(30) % 3 == 0, 0, 1)  # two blobs in one cluster
    with pytest.warns(FairnessWarning, match="largest are split"):
        labels, _ = run(answering(answer), make_anchors())
    assert same_partition(labels, np.arange(30) % 3)


def test_equal_points_can_be_split_too():
    with pytest.warns(FairnessWarning, match="returned 1 clusters"):
        labels, _ = run(answering(np.zeros(10)), make_anchors(points=np.ones((10, 2))), 4)
    assert set(labels) == {0, 1, 2, 3}


@pytest.mark.parametrize("weighted", [True, False])
def test_one_cluster_needs_no_clusterer(weighted):
    labels, fitted = run(refuse, make_anchors(), 1, weighted=weighted)
    assert_array_equal(labels, 0)
    assert fitted is None


def test_as_many_clusters_as_anchors_need_no_clusterer():
    labels, fitted = run(refuse, make_anchors(), 30)
    assert sorted(labels) == list(range(30))
    assert fitted is None


# --- minimum size --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group_sizes", "n_clusters", "expected"),
    [
        ([9000, 1000], 2, 200.0),  # twenty rows of the smallest group
        ([50_000, 50_000], 2, 500.0),  # half a percent
        ([90, 10], 4, 12.5),  # never more than half of an even share
        ([900.0, 100.0, 0.0], 2, 200.0),  # a group without weight asks for nothing
    ],
)
def test_automatic_minimum_size(group_sizes, n_clusters, expected):
    rows = rows_of(group_sizes)
    assert_allclose(minimum_size("auto", rows, n_clusters, 1.0), expected)


def test_automatic_minimum_size_does_not_depend_on_the_unit_of_weights():
    rows = MemoryRows(np.zeros((4, 1)), np.array([0, 0, 0, 1]), 2, weights=np.array([4.0, 2, 2, 4]))
    half = MemoryRows(rows.X, rows.group_codes, 2, weights=rows.weights / 2)
    assert minimum_size("auto", half, 2, 1.0) == minimum_size("auto", rows, 2, 1.0) / 2


def test_given_minimum_size_is_taken_as_it_is():
    assert minimum_size(7, rows_of([90, 10]), 5, 1.0) == 7.0
    assert minimum_size(7, rows_of([90, 10]), 5, 2.0) == 3.5  # two to a row
    with pytest.raises(ValueError, match="min_cluster_size=7 times n_clusters=50"):
        minimum_size(7, rows_of([90, 10]), 50, 1.0)


def rows_of(group_sizes):
    codes = np.repeat(np.arange(len(group_sizes)), np.array(group_sizes, dtype=int))
    return MemoryRows(np.zeros((len(codes), 1)), codes, len(group_sizes))


def test_a_cluster_below_the_minimum_is_dissolved_and_the_largest_split():
    """An outlier alone in a cluster; two blobs together in another."""
    points = np.concatenate([make_anchors().points, [[-400.0, 0.0]]])
    answer = np.append(np.where(np.arange(30) % 3 == 0, 0, 1), 2)
    anchors = make_anchors(points=points)
    with pytest.warns(FairnessWarning, match="1 of 3 clusters stood for fewer than 50 samples"):
        labels, _ = run(answering(answer), anchors, min_size=50.0)
    assert same_partition(labels[:30], np.arange(30) % 3)
    assert labels[30] == labels[0]  # the blob at the origin is the nearest


def test_clusters_above_the_minimum_are_left_alone():
    labels, _ = run(answering(np.arange(30) % 3), make_anchors(), min_size=100.0)
    assert_array_equal(labels, np.arange(30) % 3)


def test_a_minimum_that_cannot_be_met_leaves_every_cluster_with_an_anchor():
    anchors = make_anchors(masses=[1000.0] + [1.0] * 9, points=np.arange(10.0)[:, None])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        labels = enforce_min_size(np.arange(10) % 4, anchors, 4, 250.0)
    assert set(labels) == {0, 1, 2, 3}


@given(seed=st.integers(0, 10_000), n_clusters=st.integers(2, 6), share=st.floats(0.0, 1.0))
@settings(max_examples=100, deadline=None)
def test_enforcing_never_makes_the_smallest_cluster_smaller(seed, n_clusters, share):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(n_clusters + 1, 25))
    points = np.round(rng.normal(size=(n, 2)), 1)
    anchors = make_anchors(points=points, masses=rng.exponential(size=n) * (rng.random(n) < 0.8))
    labels = np.concatenate([np.arange(n_clusters), rng.integers(0, n_clusters, n - n_clusters)])
    min_size = share * anchors.masses.sum() / n_clusters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        enforced = enforce_min_size(labels, anchors, n_clusters, min_size)
    assert set(enforced) == set(range(n_clusters))
    before, after = (np.bincount(x, weights=anchors.masses).min() for x in (labels, enforced))
    assert after >= before
    if before >= min_size:
        assert_array_equal(enforced, labels)


def sum_of_squares(values, weights):
    mean = (values * weights).sum() / weights.sum()
    return (weights * (values - mean) ** 2).sum()


def places_of_change(labels):
    return [k + 1 for k, (a, b) in enumerate(pairwise(labels)) if a != b]


@pytest.mark.parametrize("seed", range(5))
def test_a_line_is_cut_where_the_sum_of_squares_is_least(seed):
    rng = np.random.default_rng(seed)
    x, masses = np.sort(rng.normal(size=12)), rng.uniform(1, 10, 12)
    costs = {
        k: sum_of_squares(x[:k], masses[:k]) + sum_of_squares(x[k:], masses[k:])
        for k in range(1, 12)
    }
    anchors = make_anchors(points=x[:, None], masses=masses)
    with pytest.warns(FairnessWarning, match="returned 1 clusters"):
        labels, _ = run(answering(np.zeros(12)), anchors, 2)
    assert places_of_change(labels) == [min(costs, key=costs.get)]


@pytest.mark.parametrize("seed", range(5))
def test_a_cut_leaves_the_minimum_on_both_sides_where_it_can(seed):
    rng = np.random.default_rng(seed)
    x, masses = np.sort(rng.exponential(size=12)) ** 3, rng.uniform(1, 10, 12)
    min_size = 0.3 * masses.sum()
    costs = {
        k: sum_of_squares(x[:k], masses[:k]) + sum_of_squares(x[k:], masses[k:])
        for k in range(1, 12)
        if min(masses[:k].sum(), masses[k:].sum()) >= min_size
    }
    anchors = make_anchors(points=x[:, None], masses=masses)
    answer = np.arange(12) == 11  # the farthest alone: too small, so it rejoins the others
    with pytest.warns(FairnessWarning, match="dissolved"):
        labels = enforce_min_size(answer.astype(int), anchors, 2, min_size)
    assert places_of_change(labels) == [min(costs, key=costs.get)]
