"""Any clusterer on the anchors: what it sees, and how its answer is used."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.cluster import DBSCAN, AgglomerativeClustering, Birch, KMeans
from sklearn.mixture import GaussianMixture

from fairanchor import FDAS, AnchorFairClustering, FairKMeans, FairnessWarning, LocalGraph
from fairanchor.cluster import FairSpectralClustering

BLOB = np.arange(30) % 3
GROUP = np.arange(30) // 3 % 2
POINTS = 50.0 * np.array([[0, 0], [0, 1], [1, 0]])[BLOB] + np.random.default_rng(0).normal(
    size=(30, 2)
)


def fit(clusterer, n_clusters=3, *, X=POINTS, weights=None, anchors=None, seed=0):
    """Every row is an anchor; the mass of an anchor is the weight of its row.

    A row's cost is its distance to the nearest anchor: answers may ignore where anchors are.
    """
    group = np.resize(GROUP, len(X))
    model = AnchorFairClustering(
        n_clusters,
        clusterer=clusterer,
        anchors=np.arange(len(X)) if anchors is None else anchors,
        n_anchors=len(X),
        graph=LocalGraph(n_neighbors=1),
        random_state=seed,
    )
    return model.fit(X, sensitive_features=group, sample_weight=weights)


def answering(labels):
    """A clusterer whose answer is known."""

    def answer(points, codes, n_clusters, *, sample_weight, random_state):
        return labels

    return answer


class Recorder:
    """A callable that remembers its arguments."""

    def __call__(self, points, codes, n_clusters, *, sample_weight, random_state):
        self.seen = (points, codes, n_clusters, sample_weight, random_state)
        return np.arange(len(points)) % n_clusters


def must_not_be_called(*args, **kwargs):
    raise AssertionError("the clusterer must not be called")


def same_partition(first, second):
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    return len(pairs) == len(set(first.tolist())) == len(set(second.tolist()))


# What the clusterer sees


def test_a_callable_sees_points_groups_masses_and_a_seed():
    weights, recorder = np.linspace(5, 15, 30), Recorder()
    model = fit(recorder, 4, weights=weights)
    points, codes, n_clusters, masses, seed = recorder.seen
    assert_array_equal(points, POINTS)
    assert_array_equal(codes, GROUP)
    assert_array_equal(masses, weights)
    assert n_clusters == 4
    assert isinstance(seed, int)
    assert_array_equal(model.anchor_labels_, np.arange(30) % 4)
    assert model.clusterer_ is None


def test_light_anchors_take_no_part_and_get_the_nearest_label():
    weights, light = np.full(30, 10.0), [4, 11, 20]
    weights[light] = 0.5  # below a tenth of their group's average
    recorder = Recorder()
    model = fit(recorder, weights=weights)
    heavy = np.setdiff1d(np.arange(30), light)
    assert_array_equal(recorder.seen[0], POINTS[heavy])
    assert_array_equal(recorder.seen[3], weights[heavy])
    assert_array_equal(model.anchor_labels_[heavy], np.arange(27) % 3)
    for j in light:
        nearest = heavy[np.argmin(np.linalg.norm(POINTS[heavy] - POINTS[j], axis=1))]
        assert model.anchor_labels_[j] == model.anchor_labels_[nearest]


def test_lightness_is_relative_to_the_own_group():
    recorder = Recorder()
    fit(recorder, weights=np.where(GROUP == 0, 1000.0, 1.0))
    assert len(recorder.seen[0]) == 30


def test_all_anchors_take_part_if_too_few_are_heavy():
    weights = np.full(30, 1e-3)
    weights[[0, 3]] = 1e4  # one in each group
    recorder = Recorder()
    fit(recorder, 2, weights=weights)
    assert len(recorder.seen[0]) == 2
    with pytest.warns(FairnessWarning, match="clusters"):  # two rows have all the weight
        fit(recorder, 3, weights=weights)
    assert len(recorder.seen[0]) == 30


def test_uniform_weights_of_fdas_hide_the_masses():
    weights = np.full(30, 10.0)
    weights[4] = 0.1
    recorder = Recorder()
    fit(recorder, weights=weights, anchors=FDAS(weights="uniform"))
    assert len(recorder.seen[0]) == 30
    assert recorder.seen[3] is None


def test_no_weight_that_a_clusterer_gets_is_zero():
    """Many clusterers divide by weights; a group without weight has only zeros."""
    recorder = Recorder()
    fit(recorder, weights=np.where(GROUP == 1, 0.0, 10.0))
    assert len(recorder.seen[3]) == 30
    assert recorder.seen[3].min() > 0


# Estimators


@pytest.mark.parametrize(
    "clusterer",
    [
        KMeans(n_init=3),
        AgglomerativeClustering(),
        AgglomerativeClustering(linkage="single"),
        Birch(threshold=5.0),
        DBSCAN(eps=10.0),
        GaussianMixture(),
        FairKMeans(),
        FairSpectralClustering(),
        None,
    ],
    ids=lambda c: type(c).__name__,
)
def test_separated_blobs_are_found_by_any_clusterer(clusterer):
    before = None if clusterer is None else clusterer.get_params()
    model = fit(clusterer)
    assert same_partition(model.anchor_labels_, BLOB)
    assert same_partition(model.labels_, BLOB)
    if clusterer is not None:
        assert type(model.clusterer_) is type(clusterer)
        assert model.clusterer_ is not clusterer
        assert clusterer.get_params() == before
        assert not hasattr(clusterer, "labels_")


def test_the_default_clusterer_is_fair_spectral_clustering():
    assert isinstance(fit(None).clusterer_, FairSpectralClustering)


def test_an_estimator_gets_the_number_of_clusters_a_seed_and_the_masses():
    weights = np.linspace(5, 15, 30)
    fitted = fit(KMeans(n_clusters=8, n_init=1), 5, weights=weights).clusterer_
    assert fitted.n_clusters == 5
    expected = KMeans(5, n_init=1, random_state=fitted.random_state)
    assert_array_equal(fitted.labels_, expected.fit(POINTS, sample_weight=weights).labels_)


def test_an_estimator_keeps_its_own_seed():
    assert fit(KMeans(n_init=1, random_state=5)).clusterer_.random_state == 5
    assert fit(KMeans(n_init=1)).clusterer_.random_state is not None


def test_a_mixture_gets_the_number_of_components():
    assert fit(GaussianMixture(n_components=7)).clusterer_.n_components == 3


def test_an_estimator_gets_only_what_its_fit_accepts():
    class Plain(BaseEstimator):
        def fit(self, X):
            self.labels_ = np.arange(len(X)) % 3
            return self

    assert_array_equal(fit(Plain()).anchor_labels_, BLOB)


def test_a_fair_estimator_sees_the_groups():
    class Fair(BaseEstimator):
        def fit(self, X, sensitive_features=None):
            self.labels_ = np.asarray(sensitive_features)
            return self

    assert_array_equal(fit(Fair(), 2).anchor_labels_, GROUP)


def test_an_estimator_without_labels_or_predict_raises():
    class Mute(BaseEstimator):
        def fit(self, X):
            return self

    with pytest.raises(TypeError, match="Mute"):
        fit(Mute())


# Answers


@pytest.mark.parametrize("names", [[7, 3, 100], [2.0, 0.0, 1.0], [2**40, 1, 0]])
def test_any_three_labels_become_zero_to_two(names):
    model = fit(answering(np.array(names)[BLOB]))
    assert set(model.anchor_labels_) == {0, 1, 2}
    assert same_partition(model.anchor_labels_, BLOB)


def test_a_list_is_as_good_as_an_array():
    assert_array_equal(fit(answering(BLOB.tolist())).anchor_labels_, BLOB)


@pytest.mark.parametrize("noise", [-1, -2, -3])
def test_noise_joins_the_nearest_labelled_anchor_with_a_warning(noise):
    answer = BLOB.copy()
    answer[[0, 10, 20]] = noise
    with pytest.warns(FairnessWarning, match="3 of 30"):
        model = fit(answering(answer))
    assert_array_equal(model.anchor_labels_, BLOB)


def test_noise_of_dbscan_joins_a_cluster():
    X = np.concatenate([POINTS, [[25.0, 25.0]]])
    # Anchors count as the ten rows each that they represent.
    with pytest.warns(FairnessWarning, match="DBSCAN.*1 of 31"):
        model = fit(DBSCAN(eps=10.0, min_samples=11), X=X, weights=np.linspace(9.9, 10.1, 31))
    assert set(model.anchor_labels_) == {0, 1, 2}


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (np.zeros(29), r"\(29,\).*30"),
        (np.zeros((30, 1)), r"\(30, 1\).*30"),
        (3, r"\(\).*30"),
        (None, r"\(\).*30"),
        (np.full(30, "a"), "a"),
        (np.full(30, np.nan), "nan"),
        (BLOB + 0.5, "0.5"),
        (np.arange(30) % 4, "4 clusters.*n_clusters=3"),
        (np.arange(30) % 2, "2 clusters.*n_clusters=3"),
        (np.zeros(30), "1 clusters.*n_clusters=3"),
        (np.full(30, -1), "30 anchors"),
    ],
)
def test_unusable_answers_raise(answer, named):
    with pytest.raises(ValueError, match=named):
        fit(answering(answer))


def test_an_error_names_the_estimator():
    with pytest.raises(ValueError, match="DBSCAN"):
        fit(DBSCAN(eps=1e-9, min_samples=11), weights=np.linspace(9.9, 10.1, 30))
    with pytest.raises(ValueError, match="DBSCAN.*1 clusters"):
        fit(DBSCAN(eps=1e9))


@pytest.mark.parametrize("n_found", [1, 2, 3, 5])
def test_without_a_number_the_clusters_that_are_found_count(n_found):
    model = fit(answering(np.arange(30) % n_found), None)
    assert model.n_clusters_found_ == n_found
    assert model.counts_.shape == (n_found, 2)


def test_one_cluster_needs_no_clusterer():
    model = fit(must_not_be_called, 1)
    assert_array_equal(model.labels_, 0)
    assert model.clusterer_ is None


def test_as_many_clusters_as_anchors_need_no_clusterer():
    with pytest.warns(FairnessWarning):  # groups are smaller than the number of clusters
        model = fit(must_not_be_called, 30)
    assert sorted(model.anchor_labels_) == list(range(30))
    assert model.clusterer_ is None
