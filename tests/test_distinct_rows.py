"""Equal rows are found, merged and spread again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fairanchor import AnchorFairClustering, FairKMeans, fair_assign
from fairanchor._utils._sampling import spread_sample_by_weight
from fairanchor.cluster._large_scale import LargeScaleClusterer
from fairanchor.rows import DistinctRows, MemoryRows, Sampler, distinct_rows
from fairanchor.rows import _memory as module
from tiers import first_is_fast


def lattice(seed, n=400, d=2, n_groups=3, levels=4, n_jobs=None):
    rng = np.random.default_rng(seed)
    X = rng.integers(levels, size=(n, d)).astype(float)
    return MemoryRows(X, rng.integers(n_groups, size=n), n_groups, n_jobs=n_jobs)


@given(seed=st.integers(0, 10**6), n=st.integers(2, 300), d=st.integers(1, 3))
def test_distinct_rows_are_those_of_numpy(seed, n, d):
    rows = lattice(seed, n, d)
    distinct = distinct_rows(rows)
    table = np.column_stack([rows.X, rows.group_codes])
    expected, counts = np.unique(table, axis=0, return_counts=True)
    assert (distinct is rows) == (len(expected) > 0.85 * n)
    if distinct is rows:
        return
    found = np.column_stack([distinct.X, distinct.group_codes])
    order = np.lexsort(found.T[::-1])
    assert_array_equal(found[order], expected)
    assert_array_equal(distinct.weights[order], counts)
    assert_array_equal(rows.X[distinct.first], distinct.X)
    assert_array_equal(distinct.X[distinct.place], rows.X)
    assert_array_equal(np.sort(distinct.first), distinct.first)


def test_zero_and_minus_zero_are_equal_and_groups_are_told_apart():
    X = np.tile([[0.0], [-0.0]], (10, 1))
    assert distinct_rows(MemoryRows(X, np.zeros(20, dtype=np.int64), 1)).n_rows == 1
    assert distinct_rows(MemoryRows(X, np.arange(20) % 2, 2)).n_rows == 2


def test_rows_that_share_a_hash_only_are_not_merged():
    """With a hash that is the same for all rows every merge is left to the comparison."""
    rows = lattice(0, levels=3)
    first = module._first_equal(rows, np.full(rows.n_rows, 7, dtype=np.uint64))
    assert_array_equal(rows.X[first], rows.X)
    assert_array_equal(rows.group_codes[first], rows.group_codes)
    assert np.count_nonzero(first == 0) > 1


@pytest.mark.parametrize("arrange", [np.tile, lambda X, times: np.repeat(X, times[0], axis=0)])
def test_copies_are_found_wherever_they_are(arrange):
    X = arrange(np.random.default_rng(0).normal(size=(20_000, 1)), (5, 1))
    rows = MemoryRows(np.ascontiguousarray(X), np.zeros(100_000, dtype=np.int64), 1)
    assert distinct_rows(rows).n_rows == 20_000


def test_a_table_without_equal_rows_and_a_weighted_one_stay_as_they_are():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    rows = MemoryRows(X, np.zeros(1000, dtype=np.int64), 1)
    assert distinct_rows(rows) is rows
    weighted = MemoryRows(np.zeros((9, 1)), np.zeros(9, dtype=np.int64), 1, weights=np.ones(9))
    assert distinct_rows(weighted) is weighted


def test_distinct_rows_do_not_depend_on_the_threads():
    one, two = (distinct_rows(lattice(1, 20_000, 3, n_jobs=n)) for n in (1, 2))
    assert_array_equal(one.first, two.first)
    assert_array_equal(one.place, two.place)


def test_copies_take_turns_in_row_order():
    rows = MemoryRows(np.zeros((6, 1)), np.zeros(6, dtype=np.int64), 1)
    distinct = distinct_rows(rows)
    assert isinstance(distinct, DistinctRows)
    spread = distinct.spread(np.array([2]), {0: [(2, 4.0), (0, 2.0)]})
    assert_array_equal(spread, [0, 0, 2, 2, 2, 2])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("seed", first_is_fast(range(15)))
def test_labels_of_copies_are_as_good_as_those_of_all_rows(seed, narrow, monkeypatch):
    """Also where a few rows have most of the copies, and bands start narrow and have to widen."""
    if narrow:
        monkeypatch.setattr("fairanchor.assignment._transport.FEW_ENTRIES", 0)
        monkeypatch.setattr("fairanchor.assignment._engine.WIDTH", 0.01)
    rng = np.random.default_rng(seed)
    copies = np.ceil(rng.exponential(size=60) ** 4).astype(int)
    rows = rng.integers(4, size=(60, 2)) / 4 if seed % 2 else rng.random((60, 2))
    X = np.repeat(rows, copies, axis=0)
    groups = np.repeat(rng.integers(2, size=60), copies)
    model = FairKMeans(int(rng.integers(2, 5)), random_state=0).fit(X, sensitive_features=groups)
    distances = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    single = fair_assign(distances, sensitive_features=groups, fairness=model.counts_)
    assert_allclose(model.inertia_, single.cost, rtol=1e-9, atol=1e-12)
    assert_allclose(distances[np.arange(len(X)), model.labels_].sum(), model.inertia_, atol=1e-12)


@pytest.mark.parametrize("estimator", [FairKMeans(3), AnchorFairClustering(3, n_anchors=30)])
def test_labels_of_a_table_full_of_equal_rows_are_exact(estimator):
    rows = lattice(5, 3000, 3, n_groups=2)
    estimator.set_params(random_state=0).fit(rows.X, sensitive_features=rows.group_codes)
    assert distinct_rows(rows).n_rows < 200
    sizes = estimator.counts_.sum(axis=1)
    exact = np.outer(sizes, estimator.counts_.sum(axis=0)) / 3000
    assert np.abs(estimator.counts_ - exact).max() < 1
    # Equal rows differ in their labels only where they are tied, which is rare.
    agree = estimator.predict(rows.X, sensitive_features=rows.group_codes) == estimator.labels_
    assert agree.mean() > 0.9


@given(seed=st.integers(0, 10**6), n=st.integers(1, 200), at_most=st.integers(1, 60))
def test_a_sample_by_weight_meets_rows_as_often_as_they_weigh(seed, n, at_most):
    weights = np.random.default_rng(seed).exponential(size=n) ** 3 + 1e-9
    rows, sampled = spread_sample_by_weight(weights, at_most)
    assert len(rows) <= at_most
    assert np.all(np.diff(rows) > 0)
    np.testing.assert_allclose(sampled.sum(), weights.sum())
    if n > at_most:  # one place in each of equally heavy stretches: off by less than two
        expected = weights[rows] / weights.sum() * at_most
        assert np.all(np.abs(sampled * at_most / weights.sum() - expected) < 2 + 1e-9)


def test_samples_weigh_as_much_as_all_rows():
    rng = np.random.default_rng(0)
    n = 300_000
    X, codes = rng.normal(size=(n, 1)), (rng.random(n) < 0.1).astype(np.int64)
    rows = MemoryRows(X, codes, 2)
    samples = Sampler().samples(rows, rows)
    assert [sample.n_rows for sample in samples] == [25_002]
    for sample in samples:
        np.testing.assert_allclose(sample.group_sizes, rows.group_sizes)


def test_a_group_with_few_distinct_rows_is_in_the_samples_with_all_of_them():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(120_000, 1)), rng.integers(50, size=(60_000, 1))])
    codes = np.repeat([0, 1], [120_000, 60_000])
    rows = MemoryRows(X, codes, 2)
    distinct = distinct_rows(rows)
    samples = Sampler().samples(rows, distinct)
    assert samples
    for sample in samples:
        own = sample.group_codes == 1
        assert_array_equal(np.sort(sample.X[own, 0]), np.arange(50))
        order = np.argsort(sample.X[own, 0])
        assert_array_equal(sample.weights[own][order], np.bincount(X[120_000:, 0].astype(int)))


def test_a_small_table_has_no_stand_in():
    rows = lattice(0)
    assert Sampler().samples(rows, rows) == []


def test_a_sample_of_weighted_rows_has_the_weight_of_every_group():
    """Five rows of the second group have all its weight."""
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], [120_000, 60_000])
    weights = np.ones(180_000)
    weights[120_000:] = 0.0
    weights[120_000::12_000] = 50.0
    rows = MemoryRows(rng.normal(size=(180_000, 1)), codes, 2, weights=weights)
    samples = Sampler().samples(rows, rows)
    assert samples
    for sample in samples:
        np.testing.assert_allclose(sample.group_sizes, [120_000, 250])


@pytest.mark.parametrize("kind", first_is_fast(["lattice", "normal", "weighted"]))
def test_labels_do_not_depend_on_threads_where_samples_and_copies_take_part(kind, monkeypatch):
    monkeypatch.setattr(LargeScaleClusterer, "_sampler", Sampler((1000, 150), 30))
    monkeypatch.setattr("fairanchor.assignment._dual.START_ROWS", 500)
    monkeypatch.setattr("fairanchor.assignment._transport.FEW_ENTRIES", 100)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20_000, 3))
    X = np.round(2 * X) if kind == "lattice" else X
    groups = rng.choice(3, 20_000, p=[0.6, 0.3, 0.1])
    weights = rng.exponential(size=20_000) if kind == "weighted" else None
    for estimator in (AnchorFairClustering, FairKMeans):
        fits = [
            estimator(4, random_state=0, n_jobs=n_jobs).fit(
                X, sensitive_features=groups, sample_weight=weights
            )
            for n_jobs in (1, 2)
        ]
        assert_array_equal(fits[0].labels_, fits[1].labels_)
        assert_array_equal(fits[0].assignment_prices_, fits[1].assignment_prices_)
