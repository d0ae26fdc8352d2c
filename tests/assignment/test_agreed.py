"""Labels agreed on by prices against scipy's assignment, and against all rows in one place."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linear_sum_assignment

from fairanchor._kernels import _agreed as kernels
from fairanchor.assignment import _band_plan, _looks, transport
from fairanchor.assignment._agreed import agree
from fairanchor.assignment._looks import Look, Tables, merge_kinds
from fairanchor.rows import MemoryChunks, MemoryRows

# Fixed-point scores keep 12 of their 40 bits for rows that no sample knows: values agree to this
# part of the largest difference.
RESOLUTION = 2.0 ** (2 + 12 - 40)


@dataclass(frozen=True)
class ColumnScorer:
    """Scores that are the features themselves."""

    key = "columns"

    def scores(self, rows):
        return rows.X.copy()


@dataclass(frozen=True)
class Problem:
    """Scores of rows, their groups, and how many of each group a cluster gets."""

    scores: np.ndarray
    codes: np.ndarray
    totals: np.ndarray

    @property
    def rows(self):
        return MemoryRows(self.scores, self.codes, self.totals.shape[1])

    def sample(self, every):
        """Every so many rows of each group, weighing as much as all of its rows."""
        chosen = np.concatenate([own[::every] for own in self.rows.members])
        sample = self.rows.subset(np.sort(chosen))
        ratio = self.rows.group_sizes / np.maximum(sample.group_sizes, 1)
        return sample.weighted(ratio[sample.group_codes])

    def solve(self, chunk_rows, every=3, start=None):
        """Labels of all rows, and the result that they came from."""
        chunks = MemoryChunks(self.rows, chunk_rows)
        result = agree(chunks, ColumnScorer(), self.totals, self.sample(every), start)
        labels = [
            label(chunk) for label, chunk in zip(result.labellers(), chunks._chunks, strict=True)
        ]
        return np.concatenate(labels), result


def best_value(problem):
    """Largest sum of scores with these totals: every cluster as often as it has places."""
    value = 0.0
    for r in range(problem.totals.shape[1]):
        own = problem.scores[problem.codes == r]
        places = np.repeat(np.arange(len(problem.totals)), problem.totals[:, r])
        rows, columns = linear_sum_assignment(own[:, places], maximize=True)
        value += own[rows, places[columns]].sum()
    return value


def value_of(problem, labels):
    return float(problem.scores[np.arange(len(labels)), labels].sum())


def assert_optimal(problem, labels, result, best):
    """Exact totals, the best value, a certificate, and prices that explain every label."""
    n, scale = len(labels), max(1.0, np.ptp(problem.scores, axis=1).max())
    counts = np.zeros_like(problem.totals)
    np.add.at(counts, (labels, problem.codes), 1)
    assert_array_equal(counts, problem.totals)
    assert_array_equal(result.totals, problem.totals)
    assert_allclose(value_of(problem, labels), best, atol=RESOLUTION * scale * n)
    assert result.gap == 0.0
    assert_allclose(result.score, value_of(problem, labels), rtol=1e-12, atol=1e-12 * scale * n)
    sums = np.zeros_like(result.sums)
    np.add.at(sums, labels, problem.scores)
    assert_allclose(result.sums, sums, atol=1e-12 * np.abs(problem.scores).max() * n)
    priced = problem.scores + result.prices.T[problem.codes]
    lost = priced.max(axis=1) - priced[np.arange(n), labels]
    assert lost.max() <= RESOLUTION * scale


def random_totals(rng, codes, n_clusters):
    """Counts that sum to each group's rows; often some clusters have none of a group."""
    shares = rng.dirichlet(np.full(n_clusters, rng.choice([0.2, 1.0, 10.0])))
    sizes = np.bincount(codes)
    return np.stack([rng.multinomial(size, shares) for size in sizes], axis=1)


def random_problem(rng, kind, n, n_clusters, n_groups):
    codes = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, size=n)])[:n]
    codes = rng.permutation(np.unique(codes, return_inverse=True)[1]).astype(np.int64)
    if kind == "real":
        scores = rng.normal(size=(n, n_clusters))
    elif kind == "ties":
        scores = rng.integers(0, 3, size=(n, n_clusters)).astype(float)
    elif kind == "copies":
        scores = rng.normal(size=(4, n_clusters))[rng.integers(0, 4, size=n)]
    elif kind == "sorted":  # a chunk's rows are nothing like another's
        scores = rng.normal(size=(n, n_clusters))
        scores = scores[np.argsort(scores[:, 0])]
    else:
        scores = np.zeros((n, n_clusters))
    return Problem(scores, codes, random_totals(rng, codes, n_clusters))


@pytest.fixture
def narrow_bands(monkeypatch):
    """Bands of a few rows, so that many looks are needed, and the first ones are thinned."""

    def narrow(least_band=3, band_rows=12, patience=2):
        monkeypatch.setattr(_band_plan, "LEAST_BAND", least_band)
        monkeypatch.setattr(_band_plan, "BAND_ROWS", band_rows)
        monkeypatch.setattr(_band_plan, "PATIENCE", patience)
        monkeypatch.setattr(_band_plan, "BAND_FACTOR", 1)

    return narrow


@pytest.fixture
def looks(monkeypatch):
    """All looks that chunks were asked for, in their order."""
    seen = []
    call = Look.__call__

    def spy(self, chunk):
        if chunk.number == 0:
            seen.append(self)
        return call(self, chunk)

    monkeypatch.setattr(Look, "__call__", spy)
    return seen


KINDS = ["real", "ties", "copies", "sorted", "equal"]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    n_clusters=st.integers(1, 6),
    n_groups=st.integers(1, 4),
    chunk_rows=st.integers(1, 70),
    every=st.integers(1, 9),
)
def test_labels_are_as_good_as_linear_assignment(
    kind, seed, n, n_clusters, n_groups, chunk_rows, every
):
    problem = random_problem(np.random.default_rng(seed), kind, n, n_clusters, n_groups)
    labels, result = problem.solve(chunk_rows, every)
    assert_optimal(problem, labels, result, best_value(problem))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("patience", [0, 2])
def test_labels_from_narrow_bands_are_as_good_as_linear_assignment(
    kind, patience, narrow_bands, looks
):
    narrow_bands(patience=patience)
    n_looks = Counter()
    for seed in range(25):
        looks.clear()
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, kind, int(rng.integers(60, 300)), 4, 3)
        labels, result = problem.solve(chunk_rows=47, every=20)
        assert_optimal(problem, labels, result, best_value(problem))
        assert (looks[-1].strides == 1).all()  # in the end nothing is missing
        n_looks[len(looks)] += 1
    if kind in ("real", "sorted"):
        assert max(n_looks) >= 3


def test_thinned_looks_take_part(narrow_bands, looks):
    narrow_bands(least_band=4, band_rows=8)
    problem = random_problem(np.random.default_rng(1), "real", 2000, 4, 2)
    labels, result = problem.solve(chunk_rows=300, every=50)
    assert_optimal(problem, labels, result, best_value(problem))
    assert (looks[0].strides > 1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_as_good_as_those_of_the_transport_in_memory(kind):
    problem = random_problem(np.random.default_rng(0), kind, 20_000, 6, 3)
    in_memory = transport(problem.scores, problem.codes, problem.totals)
    labels, result = problem.solve(chunk_rows=3_000, every=40)
    assert_optimal(problem, labels, result, value_of(problem, in_memory.labels))


def test_few_rows_leave_their_chunks():
    """What a look brings back is the band, not the rows."""
    problem = random_problem(np.random.default_rng(0), "real", 1_000_000, 4, 2)
    chunks = MemoryChunks(problem.rows, 100_000)
    brought = []
    each = chunks.each

    def spy(title, function, arguments=None, **options):
        results = each(title, function, arguments, **options)
        if title == "prices":
            brought.append(sum(len(part.kinds) for part in results))
        return results

    chunks.each = spy
    agree(chunks, ColumnScorer(), problem.totals, problem.sample(10))
    assert len(brought) <= 3
    assert max(brought) < 150_000


@pytest.mark.parametrize("kind", ["copies", "ties", "equal"])
@pytest.mark.parametrize("chunk_rows", [7, 50, 1000])
def test_copies_of_a_kind_are_dealt_over_chunks(kind, chunk_rows):
    """Nearly all labels are decided by turns, in a chunk and from one chunk to the next."""
    problem = random_problem(np.random.default_rng(3), kind, 900, 5, 2)
    labels, result = problem.solve(chunk_rows)
    assert_optimal(problem, labels, result, best_value(problem))
    if kind != "ties" and chunk_rows >= 50:
        assert any(decision.split for decision in result.decisions)


def test_equal_rows_get_their_clusters_in_row_order():
    problem = Problem(np.zeros((10, 3)), np.zeros(10, dtype=np.int64), np.array([[4], [0], [6]]))
    for chunk_rows in (1, 3, 10):
        labels, _ = problem.solve(chunk_rows)
        assert_array_equal(labels, np.repeat([0, 2], [4, 6]))


def test_the_number_of_chunks_does_not_change_labels_without_ties():
    """The optimum of real scores is unique, so every cut must find it."""
    problem = random_problem(np.random.default_rng(5), "real", 3_000, 5, 3)
    expected, _ = problem.solve(chunk_rows=3_000)
    for chunk_rows in (1_000, 171, 64):
        assert_array_equal(problem.solve(chunk_rows)[0], expected)


def test_prices_of_a_similar_problem_lead_to_labels_that_are_as_good():
    problem = random_problem(np.random.default_rng(6), "real", 2_000, 4, 2)
    cold, before = problem.solve(chunk_rows=400)
    warm, after = problem.solve(chunk_rows=400, start=before.prices)
    assert_array_equal(warm, cold)
    wild = np.random.default_rng(0).normal(size=before.prices.shape) * 1e6
    assert_array_equal(problem.solve(chunk_rows=400, start=wild)[0], cold)
    assert after.gap == 0.0


# Shapes at the edge


def test_groups_of_one_row_get_what_their_totals_say(narrow_bands):
    narrow_bands()
    rng = np.random.default_rng(0)
    codes = np.arange(40)
    totals = np.zeros((3, 40), dtype=np.int64)
    totals[rng.integers(0, 3, size=40), codes] = 1
    problem = Problem(rng.normal(size=(40, 3)), codes, totals)
    labels, result = problem.solve(chunk_rows=7)
    assert_array_equal(labels, totals.argmax(axis=0))
    assert_optimal(problem, labels, result, best_value(problem))


def test_a_cluster_without_totals_gets_no_row_however_much_rows_like_it(narrow_bands):
    narrow_bands()
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(500, 4))
    scores[:, 2] += 100.0
    codes = rng.integers(0, 2, size=500)
    totals = random_totals(rng, codes, 4)
    totals[0] += totals[2]
    totals[2] = 0
    problem = Problem(scores, codes, totals)
    labels, result = problem.solve(chunk_rows=60)
    assert_optimal(problem, labels, result, best_value(problem))
    assert not (labels == 2).any()


def test_a_group_that_is_in_one_chunk_only_has_its_totals():
    rng = np.random.default_rng(0)
    codes = np.zeros(400, dtype=np.int64)
    codes[150:160] = 1
    problem = Problem(rng.normal(size=(400, 3)), codes, random_totals(rng, codes, 3))
    labels, result = problem.solve(chunk_rows=100)
    assert_optimal(problem, labels, result, best_value(problem))


@pytest.mark.parametrize("size", [1e6, 1e12])
@pytest.mark.parametrize("in_sample", [True, False])
def test_outliers_do_not_cost_the_others_their_digits(size, in_sample):
    """One row's scores are far larger than all others, whether or not the sample knows it."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(600, 4))
    place = 0 if in_sample else 1
    scores[place] = -size * np.array([1.0, 2.0, 3.0, 4.0])
    codes = np.zeros(600, dtype=np.int64)
    problem = Problem(scores, codes, np.array([[100], [200], [50], [250]]))
    labels, result = problem.solve(chunk_rows=90)
    counts = np.bincount(labels, minlength=4)
    assert_array_equal(counts, problem.totals[:, 0])
    assert labels[place] == 0
    # All others are labelled as if they were alone, with one place of cluster 0 taken.
    others = np.arange(600) != place
    alone = Problem(scores[others], codes[others], problem.totals - [[1], [0], [0], [0]])
    assert_allclose(value_of(alone, labels[others]), best_value(alone), atol=1e-6)


@pytest.mark.parametrize("size", [1e6, 1e12, 1e100])
def test_outliers_that_compete_for_a_place_are_told_apart(size):
    """Two rows that no sample knows want the last place of a cluster: the one that loses more."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, 3))
    scores[1] = [0.0, -size, -1.5 * size]
    scores[2] = [0.0, -3.0 * size, -3.5 * size]
    problem = Problem(scores, np.zeros(300, dtype=np.int64), np.array([[1], [149], [150]]))
    labels, result = problem.solve(chunk_rows=70)
    assert_array_equal(np.bincount(labels), [1, 149, 150])
    assert labels[2] == 0
    assert labels[1] == 1
    assert result.gap == 0.0


@pytest.mark.parametrize("unit", [1e-200, 1e-12, 1e12, 1e200])
def test_the_unit_of_the_scores_does_not_matter(unit):
    problem = random_problem(np.random.default_rng(8), "real", 500, 4, 2)
    expected, _ = problem.solve(chunk_rows=90)
    scaled = Problem(problem.scores * 2.0 ** np.round(np.log2(unit)), problem.codes, problem.totals)
    assert_array_equal(scaled.solve(chunk_rows=90)[0], expected)


def test_labels_that_miss_their_totals_are_never_returned(monkeypatch):
    problem = random_problem(np.random.default_rng(0), "real", 100, 3, 1)
    tables = Tables.__call__

    def wrong(self, chunk, given):
        found = tables(self, chunk, given)
        return found._replace(counts=found.counts + 1)

    monkeypatch.setattr(Tables, "__call__", wrong)
    with pytest.raises(RuntimeError, match="rows in the cells, expected"):
        problem.solve(chunk_rows=30)


# Parts


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=50))
def test_bins_of_margins_increase_and_end_at_their_upper_edges(margins):
    margins = sorted({*margins, 0, 1, 3, 4, 7, 8})
    bins = [int(kernels.margin_bin(margin)) for margin in margins]
    assert bins == sorted(bins)
    edges = _band_plan.upper_edges()
    for margin, b in zip(margins, bins, strict=True):
        assert margin <= edges[b]
        assert b == 0 or margin > edges[b - 1] or edges[b] == edges[b - 1]


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3)), max_size=40)
)
def test_kinds_are_the_distinct_rows_in_order(rows):
    regrets = np.array(rows, dtype=np.int64).reshape(-1, 3)
    kinds, places, totals = merge_kinds(regrets, np.full(len(rows), 2.0))
    assert [tuple(kind) for kind in kinds.tolist()] == sorted(set(rows))
    assert_array_equal(kinds[places], regrets)
    expected = Counter(rows)
    assert totals.tolist() == [2.0 * expected[tuple(kind)] for kind in kinds.tolist()]


# How much is sent


def described(chunks):
    """Kinds of rows that each look brings, appended as it is made; to be read after `agree`."""
    brought, each = [], chunks.each

    def spy(title, function, arguments=None, **options):
        results = each(title, function, arguments, **options)
        if title == "prices":
            brought.append([len(part.kinds) for part in results])
        return results

    chunks.each = spy
    return brought


@pytest.mark.parametrize("n_clusters", [2, 40])
def test_what_describes_a_band_does_not_grow_with_the_number_of_clusters(n_clusters, monkeypatch):
    monkeypatch.setattr(_band_plan, "BAND_NUMBERS", 6_000)
    problem = random_problem(np.random.default_rng(0), "real", 40_000, n_clusters, 1)
    chunks = MemoryChunks(problem.rows, 4_000)
    brought = described(chunks)
    agree(chunks, ColumnScorer(), problem.totals, problem.sample(40))
    numbers = [sum(look) * (n_clusters + 1) for look in brought]
    assert max(numbers[:3]) <= 2 * 6_000 + 2 * _band_plan.LEAST_BAND


def test_rows_are_thinned_out_before_they_are_described(monkeypatch):
    """The arrays that describe a chunk's rows have no more rows than are sent."""
    problem = random_problem(np.random.default_rng(1), "real", 20_000, 4, 1)
    chunk = MemoryChunks(problem.rows, 20_000)._chunks[0]
    sizes, regrets = [], Look._regrets
    monkeypatch.setattr(
        Look, "_regrets", lambda *given: sizes.append(len(given[2])) or regrets(*given)
    )
    prices, widths = np.zeros((1, 4), dtype=np.int64), np.array([2**60])
    Look(ColumnScorer(), 2.0**30, prices, widths, np.array([50]), 10**6)(chunk)
    assert 300 < sum(sizes) < 500


def test_bands_are_bounded_however_wrong_the_sample_is(narrow_bands):
    """Nearly half of the rows have to move: wide looks are thinned out, whole ones narrow."""
    narrow_bands(least_band=20, band_rows=400)
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(20_000, 3))
    scores[10_000:, 0] += 6.0  # the sample is of the first rows only
    codes = np.zeros(20_000, dtype=np.int64)
    problem = Problem(scores, codes, np.array([[2_000], [9_000], [9_000]]))
    chunks = MemoryChunks(problem.rows, 2_000)
    sample = problem.rows.subset(np.arange(0, 10_000, 10))
    brought = described(chunks)
    result = agree(chunks, ColumnScorer(), problem.totals, sample.weighted(np.full(1_000, 20.0)))
    labels = [label(chunk) for label, chunk in zip(result.labellers(), chunks._chunks, strict=True)]
    in_memory = transport(problem.scores, problem.codes, problem.totals)
    assert_optimal(problem, np.concatenate(labels), result, value_of(problem, in_memory.labels))
    assert 4 <= len(brought) <= 12
    assert max(map(sum, brought)) < 3 * 400


def test_a_chunk_describes_no_more_kinds_than_it_may():
    """Whatever the band is: it leaves rows out, and says so."""
    problem = random_problem(np.random.default_rng(1), "real", 5_000, 4, 1)
    chunk = MemoryChunks(problem.rows, 5_000)._chunks[0]
    given = (ColumnScorer(), 2.0**30, np.zeros((1, 4), dtype=np.int64), np.array([2**60]))
    whole = Look(*given, np.array([1]), 5_000)(chunk)
    assert whole.thinner == 1
    assert whole.numbers.sum() == 5_000
    seen = Look(*given, np.array([1]), 300)(chunk)
    assert len(seen.kinds) <= 300
    assert seen.thinner == 32
    assert_allclose(seen.numbers.sum(), 5_000, rtol=0.3)
    assert_array_equal(seen.load, whole.load)


@pytest.mark.parametrize("kind", KINDS)
def test_bands_described_in_slices_give_the_same_labels(kind, monkeypatch):
    problem = random_problem(np.random.default_rng(4), kind, 2_000, 4, 3)
    expected, _ = problem.solve(chunk_rows=300, every=20)
    monkeypatch.setattr(_looks, "SLICE_NUMBERS", 35)  # seven rows
    found, result = problem.solve(chunk_rows=300, every=20)
    assert_array_equal(found, expected)
