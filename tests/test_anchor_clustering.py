"""The framework end to end: what it promises, on generated and on real data."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import GaussianMixture

from fairanchor import AnchorFairClustering, FairKMeans, FairnessWarning
from fairanchor.clusterers._registry import CLUSTERERS
from fairanchor.datasets import make_fair_blobs, make_zafar
from fairanchor.metrics import relative_balance_score


@pytest.fixture(scope="module")
def zafar():
    data = make_zafar(3000, variant="original", random_state=0)
    return data.data, data.sensitive_features


def assert_keeps_promise(model, sensitive_features):
    """Exact margins, and every cell the floor or the ceiling of its target (by hand)."""
    table = pd.crosstab(model.labels_, np.asarray(sensitive_features))
    counts = table.reindex(index=range(model.n_clusters), fill_value=0).to_numpy()
    assert_array_equal(model.counts_, counts)
    assert_array_equal(counts.sum(axis=0), np.rint(model.targets_.sum(axis=0)))
    target = model.targets_
    nearest = np.rint(target)
    target = np.where(np.abs(target - nearest) < 1e-9, nearest, target)
    assert np.all((counts == np.floor(target)) | (counts == np.ceil(target)))
    assert model.worst_violation_ < 1
    assert len(model.labels_) == counts.sum()


@pytest.mark.parametrize("n_clusters", [1, 2, 5, 9])
@pytest.mark.parametrize("anchors", ["kmeans", "fdas", "das", "random"])
def test_every_cell_is_its_target_rounded(zafar, anchors, n_clusters):
    X, group = zafar
    model = AnchorFairClustering(n_clusters, anchors=anchors, random_state=0, refine=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)  # small clusters are dissolved
        model.fit(X, sensitive_features=group)
    assert_keeps_promise(model, group)
    # Targets mirror the population exactly.
    shares = np.bincount(group) / len(group)
    sizes = model.targets_.sum(axis=1)
    assert_allclose(model.targets_, np.outer(sizes, shares), rtol=1e-12)
    assert_array_equal(model.counts_.sum(axis=1), sizes)
    smallest = model.counts_.min()
    assert relative_balance_score(model.labels_, sensitive_features=group) >= 1 - 1 / smallest


@pytest.mark.parametrize("clusterer", sorted(CLUSTERERS))
@pytest.mark.parametrize("fairness", ["population", "anchors"])
def test_every_clusterer_by_name_keeps_the_promise(zafar, clusterer, fairness):
    X, group = zafar
    model = AnchorFairClustering(3, clusterer=clusterer, fairness=fairness, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(X, sensitive_features=group)
    assert_keeps_promise(model, group)
    assert model.counts_.sum(axis=1).min() >= 1


@pytest.mark.parametrize(
    "clusterer",
    [
        KMeans(n_init=3),
        AgglomerativeClustering(),
        FairKMeans(n_init=2),
        lambda X, groups, k, *, sample_weight, random_state: np.arange(len(X)) % k,
    ],
    ids=["KMeans", "AgglomerativeClustering", "FairKMeans", "callable"],
)
def test_any_estimator_or_callable_labels_the_anchors(zafar, clusterer):
    X, group = zafar
    model = AnchorFairClustering(3, clusterer=clusterer, random_state=0)
    model.fit(X, sensitive_features=group)
    assert_keeps_promise(model, group)
    assert set(model.anchor_labels_) == {0, 1, 2}
    if hasattr(clusterer, "fit"):
        assert not hasattr(clusterer, "labels_")  # a clone was fitted
        assert model.clusterer_.n_clusters == 3


def test_a_user_table_is_met_cell_by_cell(zafar):
    X, group = zafar
    sizes = np.bincount(group)
    table = np.array([[0.5, 0.25], [0.5, 0.0], [0.0, 0.75]]) * sizes
    model = AnchorFairClustering(3, fairness=table, random_state=0).fit(X, sensitive_features=group)
    assert_keeps_promise(model, group)
    assert model.counts_[1, 1] == 0
    assert model.counts_[2, 0] == 0
    assert_allclose(model.targets_, table)
    # The zero cells hold for predictions and soft labels as well.
    proba = AnchorFairClustering(3, fairness=table, random_state=0, refine=0)
    proba.fit(X, sensitive_features=group)
    soft = proba.predict_proba(X, sensitive_features=group)
    assert soft[group == 1, 1].max() == 0
    assert_array_equal(proba.predict(X, sensitive_features=group), proba.labels_)


def test_columns_of_a_table_follow_the_sorted_names(zafar):
    X, group = zafar
    sizes = np.bincount(group)
    table = np.array([[0.7, 0.2], [0.3, 0.8]]) * sizes
    names = np.where(group == 0, "a", "b")
    swapped = np.where(group == 0, "z", "b")
    first = AnchorFairClustering(2, fairness=table, random_state=0)
    second = clone(first).set_params(fairness=table[:, ::-1])
    first.fit(X, sensitive_features=names)
    second.fit(X, sensitive_features=swapped)
    assert_array_equal(first.labels_, second.labels_)
    assert_array_equal(first.counts_, second.counts_[:, ::-1])


def test_the_soft_mass_obeys_proposition_1(zafar):
    X, group = zafar
    model = AnchorFairClustering(4, random_state=0, refine=0, tol=1e-6)
    model.fit(X, sensitive_features=group)
    soft = model.predict_proba(X, sensitive_features=group)
    mass = np.array([soft[group == r].sum(axis=0) for r in (0, 1)]).T
    assert_allclose(mass, model.targets_, atol=2e-6 * len(X))
    assert model.mass_error_ <= 1e-6 * len(X)
    assert model.converged_


def test_argmax_keeps_no_count_but_balanced_does(zafar):
    X, group = zafar
    soft = AnchorFairClustering(
        2, assignment="argmax", random_state=0, alpha=1e4, min_cluster_size=0
    )
    soft.fit(X, sensitive_features=group)
    hard = clone(soft).set_params(assignment="balanced").fit(X, sensitive_features=group)
    assert soft.worst_violation_ > 50
    assert hard.worst_violation_ < 1


def test_transform_reconstructs_the_soft_labels(zafar):
    X, group = zafar
    model = AnchorFairClustering(3, random_state=0).fit(X, sensitive_features=group)
    Z = model.transform(X[:500], sensitive_features=group[:500])
    assert Z.shape == (500, len(model.anchors_))
    assert Z.min() >= 0
    assert_allclose(Z.sum(axis=1), 1, atol=1e-12)
    clusters = np.eye(3)[model.anchor_labels_]
    soft = model.predict_proba(X[:500], sensitive_features=group[:500])
    assert_allclose(Z @ clusters, soft, atol=1e-9)
    both = clone(model).fit_transform(X, sensitive_features=group)
    assert_allclose(both[:500].toarray(), Z.toarray(), atol=1e-9)


@pytest.mark.parametrize("refine", [0, 5])
def test_predict_on_training_rows_gives_the_labels(zafar, refine):
    X, group = zafar
    model = AnchorFairClustering(4, random_state=0, refine=refine)
    model.fit(X, sensitive_features=group)
    predicted = model.predict(X, sensitive_features=group)
    assert np.mean(predicted == model.labels_) >= 0.999


def test_new_rows_are_nearly_fair(zafar):
    X, group = zafar
    model = AnchorFairClustering(3, random_state=0).fit(X[:2000], sensitive_features=group[:2000])
    labels = model.predict(X[2000:], sensitive_features=group[2000:])
    plain = KMeans(3, n_init=3, random_state=0).fit_predict(X[2000:])
    fair = relative_balance_score(labels, sensitive_features=group[2000:])
    unfair = relative_balance_score(plain, sensitive_features=group[2000:])
    assert fair > 0.8 > unfair


def test_score_is_minus_the_cost_under_predict(zafar):
    X, group = zafar
    model = AnchorFairClustering(3, random_state=0).fit(X, sensitive_features=group)
    assert_allclose(model.score(X, sensitive_features=group), -model.inertia_, rtol=1e-6)
    distances = cdist(X, model.cluster_centers_, "sqeuclidean")
    assert_allclose(distances[np.arange(len(X)), model.labels_].sum(), model.inertia_, rtol=1e-9)


def test_refinement_lowers_the_cost(zafar):
    X, group = zafar
    coarse = AnchorFairClustering(5, random_state=0, refine=0, n_anchors=20)
    refined = clone(coarse).set_params(refine=20)
    coarse.fit(X, sensitive_features=group)
    refined.fit(X, sensitive_features=group)
    assert refined.inertia_ < coarse.inertia_
    assert_keeps_promise(refined, group)


def test_refinement_keeps_fixed_targets(zafar):
    X, group = zafar
    model = AnchorFairClustering(3, fairness="anchors", refine=10, random_state=0)
    model.fit(X, sensitive_features=group)
    unrefined = clone(model).set_params(refine=0).fit(X, sensitive_features=group)
    assert_array_equal(model.targets_, unrefined.targets_)
    assert_keeps_promise(model, group)


def test_the_result_does_not_depend_on_threads():
    data = make_zafar(20_000, variant="original", random_state=1)
    models = [
        AnchorFairClustering(4, random_state=0, n_jobs=n_jobs).fit(
            data.data, sensitive_features=data.sensitive_features
        )
        for n_jobs in (1, 2, 3)
    ]
    for other in models[1:]:
        assert_array_equal(models[0].labels_, other.labels_)
        assert_array_equal(models[0].multipliers_, other.multipliers_)
        assert models[0].inertia_ == other.inertia_


@pytest.mark.parametrize("anchors", ["kmeans", "fdas"])
def test_names_and_types_of_groups_change_nothing(anchors):
    data = make_fair_blobs(600, group_shares=(0.5, 0.3, 0.2), random_state=0)
    codes = np.unique(data.sensitive_features, return_inverse=True)[1]
    model = AnchorFairClustering(3, anchors=anchors, random_state=0)
    expected = clone(model).fit(data.data, sensitive_features=codes)
    variants = [
        np.array(["x", "m", "a"])[codes],
        np.array([2.5, -1.0, 7.0])[codes],
        pd.Categorical.from_codes(codes, ["q", "p", "o"]),
        pd.Series(np.array(["x", "m", "a"])[codes], dtype="string"),
        (2 - codes).astype(np.int8),
        np.column_stack([codes // 2, codes % 2]),
    ]
    for variant in variants:
        other = clone(model).fit(data.data, sensitive_features=variant)
        assert_array_equal(other.labels_, expected.labels_)
        assert sorted(other.counts_.sum(axis=0)) == sorted(expected.counts_.sum(axis=0))


def test_permuting_rows_permutes_fdas_anchors_and_keeps_targets():
    data = make_zafar(2000, variant="original", random_state=3)
    X, group = data.data, data.sensitive_features
    order = np.random.default_rng(0).permutation(len(X))
    # 30 picks per group: beyond, the selection amplifies the last bits of the scores.
    model = AnchorFairClustering(
        3, anchors="fdas", n_anchors=40, clusterer=AgglomerativeClustering(), refine=0
    )
    straight = clone(model).fit(X, sensitive_features=group)
    permuted = clone(model).fit(X[order], sensitive_features=group[order])
    assert_array_equal(order[permuted.anchor_indices_], straight.anchor_indices_)
    assert_array_equal(permuted.targets_, straight.targets_)
    assert_keeps_promise(permuted, group[order])


def test_tables_of_every_library_give_the_same_labels(zafar):
    X, group = zafar[0][:500], zafar[1][:500]
    frame = pd.DataFrame(X, columns=["first", "second"])
    tables = [
        (frame, pd.Series(group)),
        (pl.from_pandas(frame), pl.Series(group)),
        (pa.Table.from_pandas(frame), pa.array(group)),
        (X.tolist(), group.tolist()),
        (np.asfortranarray(X), group),
    ]
    model = AnchorFairClustering(3, random_state=0)
    expected = clone(model).fit(X, sensitive_features=group).labels_
    for table, groups in tables:
        assert_array_equal(clone(model).fit(table, sensitive_features=groups).labels_, expected)


def test_sample_weights_count_like_repeated_rows():
    data = make_zafar(400, variant="original", random_state=0)
    X, group = data.data, data.sensitive_features
    weight = np.random.default_rng(0).integers(1, 4, len(X))
    # The same anchors and clusters of anchors: then the graph must be the same too.
    given = {"anchors": np.arange(0, 400, 10), "clusterer": AgglomerativeClustering()}
    model = AnchorFairClustering(3, refine=0, tol=1e-9, min_cluster_size=0, **given)
    weighted = clone(model).fit(X, sensitive_features=group, sample_weight=weight.astype(float))
    first = np.r_[0, np.cumsum(weight)[:-1]]
    repeated = clone(model).set_params(anchors=first[np.arange(0, 400, 10)])
    repeated.fit(np.repeat(X, weight, axis=0), sensitive_features=np.repeat(group, weight))
    assert_allclose(weighted.targets_, repeated.targets_, atol=0.5 + 1e-9)  # whole sizes there
    assert_allclose(weighted.anchor_masses_, repeated.anchor_masses_)
    soft = weighted.predict_proba(X, sensitive_features=group)
    assert_allclose(soft, repeated.predict_proba(X, sensitive_features=group), atol=5e-3)
    assert_allclose(weighted.counts_.sum(axis=0), np.bincount(group, weights=weight))
    assert weighted.worst_violation_ <= weight.max()


@pytest.mark.parametrize("unit", [1.0, 2.5])
def test_equal_weights_are_counts_in_another_unit(zafar, unit):
    X, group = zafar[0][:600], zafar[1][:600]
    plain = AnchorFairClustering(3, random_state=0).fit(X, sensitive_features=group)
    weighted = clone(plain).fit(X, sensitive_features=group, sample_weight=np.full(600, unit))
    assert_array_equal(weighted.labels_, plain.labels_)
    assert_allclose(weighted.counts_, plain.counts_ * unit)
    assert_allclose(weighted.targets_, plain.targets_ * unit)
    assert_allclose(weighted.inertia_, plain.inertia_ * unit)
    assert_allclose(weighted.anchor_masses_, plain.anchor_masses_ * unit)


def test_zero_cells_hold_for_rows_far_away_and_for_unknown_groups(zafar):
    X, group = zafar
    sizes = np.bincount(group)
    table = np.array([[1.0, 0.0], [0.0, 0.4], [0.0, 0.6]]) * sizes
    for refine in (0, 3):
        model = AnchorFairClustering(
            3, fairness=table, refine=refine, random_state=0, unknown_groups="blind"
        )
        model.fit(X, sensitive_features=group)
        labels = model.predict(1e6 * X, sensitive_features=group)
        assert set(labels[group == 0]) == {0}
        assert set(labels[group == 1]) <= {1, 2}
        blind = model.predict(X)
        assert len(set(blind)) > 1


def test_small_units_of_the_features_do_not_stop_the_solver_early(zafar):
    X, group = zafar[0][:800], zafar[1][:800]
    for scale in (2.0**-40, 2.0**40):
        model = AnchorFairClustering(3, alpha=10 * scale**2, refine=0, tol=1e-7, random_state=0)
        model.fit(X * scale, sensitive_features=group)
        assert model.converged_
        assert model.mass_error_ <= 1e-7 * 800


@pytest.mark.parametrize("refine", [0, "auto"])
def test_the_duality_gap_is_within_what_the_mass_error_explains(zafar, refine):
    model = AnchorFairClustering(3, refine=refine, random_state=0)
    model.fit(zafar[0], sensitive_features=zafar[1])
    explained = model.mass_error_ * np.abs(model.multipliers_).sum()
    assert abs(model.duality_gap_) <= explained * (1 + 1e-9)
    assert model.duality_gap_ != 0.0


def test_missing_groups_are_predicted_as_they_were_fitted(zafar):
    X, group = zafar[0][:400], zafar[1][:400].astype(object)
    group[::7] = None
    model = AnchorFairClustering(2, missing_groups="own_group", random_state=0)
    model.fit(X, sensitive_features=group)
    assert_array_equal(model.predict(X, sensitive_features=group), model.labels_)


def test_a_failed_fit_leaves_no_half_fitted_model(zafar):
    X, group = zafar[0][:300], zafar[1][:300]
    model = AnchorFairClustering(2, fairness=np.ones((2, 2)))
    with pytest.raises(ValueError, match="sum to"):
        model.fit(X, sensitive_features=group)
    with pytest.raises(NotFittedError):
        model.predict(X, sensitive_features=group)


def test_the_clusterers_own_seed_is_kept(zafar):
    X, group = zafar
    model = AnchorFairClustering(3, clusterer=KMeans(n_init=1, random_state=5), random_state=0)
    assert model.fit(X, sensitive_features=group).clusterer_.random_state == 5
    free = AnchorFairClustering(3, clusterer=KMeans(n_init=1), random_state=0)
    assert free.fit(X, sensitive_features=group).clusterer_.random_state is not None


def test_an_estimator_that_only_predicts_labels_the_anchors(zafar):
    X, group = zafar
    model = AnchorFairClustering(3, clusterer=GaussianMixture(3, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(X, sensitive_features=group)
    assert_keeps_promise(model, group)


def test_blind_prediction_of_unknown_groups(zafar):
    X, group = zafar
    model = AnchorFairClustering(3, random_state=0, unknown_groups="blind")
    model.fit(X, sensitive_features=group)
    blind = model.predict(X[:50])
    named = model.predict(X[:50], sensitive_features=np.full(50, 99))
    assert_array_equal(blind, named)
    mixed = np.where(np.arange(50) % 2, 99, group[:50])
    labels = model.predict(X[:50], sensitive_features=mixed)
    known = model.predict(X[:50], sensitive_features=group[:50])
    assert_array_equal(labels[::2], known[::2])
    assert_array_equal(labels[1::2], blind[1::2])


def test_as_in_paper_is_the_papers_setting(zafar):
    X, group = zafar
    model = AnchorFairClustering.as_in_paper(2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="samples away from its target"):
        model.fit(X, sensitive_features=group)
    assert {"objective", "augmented_lagrangian", "r", "s", "rho"} <= set(model.history_[0])
    assert len(model.history_) == model.n_iter_ == 100
    assert model.targets_.sum() == pytest.approx(len(X))
    # The paper's targets: n times the share of the cell among the anchors.
    codes = group[model.anchor_indices_]
    cells = pd.crosstab(model.anchor_labels_, codes).to_numpy()
    assert_allclose(model.targets_, len(X) * cells / cells.sum())
    assert not model.converged_


def test_admm_and_newton_agree_on_a_feasible_target():
    data = make_zafar(300, variant="original", random_state=0)
    options = {"n_anchors": 10, "random_state": 0, "alpha": 20.0, "refine": 0}
    newton = AnchorFairClustering(2, tol=1e-8, **options)
    admm = AnchorFairClustering(2, solver="admm", tol=1e-6, max_iter=2000, **options)
    newton.fit(data.data, sensitive_features=data.sensitive_features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        admm.fit(data.data, sensitive_features=data.sensitive_features)
    assert_allclose(admm.history_[-1]["objective"], newton.history_[-1]["objective"], rtol=1e-3)
    assert np.mean(admm.labels_ == newton.labels_) > 0.98


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_the_promise_holds_for_random_tables(data):
    n = data.draw(st.integers(1, 60))
    d = data.draw(st.integers(1, 4))
    h = data.draw(st.integers(1, 6))
    c = data.draw(st.integers(1, n))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    X = rng.integers(0, 4, (n, d)) if data.draw(st.booleans()) else rng.normal(size=(n, d))
    group = rng.integers(0, h, n)
    model = AnchorFairClustering(
        c,
        anchors=data.draw(st.sampled_from(["kmeans", "fdas", "das", "random"])),
        fairness=data.draw(st.sampled_from(["population", "anchors"])),
        alpha=data.draw(st.sampled_from([0.1, 10.0, 1000.0])),
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(X, sensitive_features=group)
    assert_keeps_promise(model, group)
    if model.fairness == "population":
        assert model.n_clusters_found_ == c


@pytest.mark.parametrize("clusterer", sorted(CLUSTERERS))
def test_a_group_of_two_in_a_thousand_has_its_anchors_and_its_share(clusterer):
    shares = (0.51, 0.34, 0.08, 0.06, 0.008, 0.002)
    data = make_fair_blobs(5000, centers=4, group_shares=shares, random_state=0)
    groups = data.sensitive_features
    model = AnchorFairClustering(4, clusterer=clusterer, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(data.data, sensitive_features=groups)
    assert_keeps_promise(model, groups)
    sizes = pd.Series(groups).value_counts()
    anchors = pd.Series(groups[model.anchor_indices_]).value_counts()
    assert sizes.min() <= 0.0025 * len(groups)
    assert (anchors.reindex(sizes.index) >= np.minimum(4, sizes)).all()
