"""The transport against scipy's assignment and HiGHS, which share no code with it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import block_array, eye_array, kron

from fairanchor.assignment import _transport as transport_module
from fairanchor.assignment import transport

# Scores are fixed point numbers of 40 bits: values agree to this part of the largest difference.
RESOLUTION = 1e-10

KINDS = ["real", "ties", "copies", "rounded"]


# Oracles


def best_value(scores, totals):
    """Largest sum of scores with these counts: every cluster as often as it has places."""
    places = np.repeat(np.arange(len(totals)), totals)
    rows, columns = linear_sum_assignment(scores[:, places], maximize=True)
    return scores[rows, places[columns]].sum()


def best_fractional_value(scores, weights, totals):
    """Largest weighted sum of scores when rows may be split; one linear program."""
    n, c = scores.shape
    whole_rows = kron(eye_array(n), np.ones((1, c)))
    filled_clusters = kron(weights[None, :], eye_array(c))
    solution = linprog(
        -(weights[:, None] * scores).ravel(),
        A_eq=block_array([[whole_rows], [filled_clusters]], format="csr"),
        b_eq=np.concatenate([np.ones(n), totals]),
        bounds=(0, None),
        method="highs",
    )
    assert solution.status == 0, solution.message
    return -solution.fun


def random_scores(rng, kind, n, c):
    if kind == "real":
        return rng.normal(size=(n, c))
    if kind == "ties":
        return rng.integers(0, 3, size=(n, c)).astype(float)
    if kind == "copies":
        return rng.normal(size=(3, c))[rng.integers(0, 3, size=n)]
    return np.round(rng.normal(size=(n, c)), 1)


def random_totals(rng, n, c):
    """Counts that sum to n; often some clusters have none."""
    shares = rng.dirichlet(np.full(c, rng.choice([0.2, 1.0, 10.0])))
    return rng.multinomial(n, shares)


def random_instance(seed, *, n_max=40, c_max=7):
    rng = np.random.default_rng(seed)
    n, c = int(rng.integers(1, n_max + 1)), int(rng.integers(1, c_max + 1))
    scores = random_scores(rng, KINDS[seed % len(KINDS)], n, c)
    return scores, random_totals(rng, n, c)


def one_group(scores, totals, weights=None):
    codes = np.zeros(len(scores), dtype=np.int64)
    return transport(scores, codes, np.asarray(totals)[:, None], weights=weights)


def value_of(scores, labels, weights=1.0):
    return float(np.sum(weights * scores[np.arange(len(scores)), labels]))


def assert_explained(scores, labels, prices):
    """Every row has the largest score plus price at its label, up to ties."""
    priced = scores + prices
    lost = priced.max(axis=1) - priced[np.arange(len(scores)), labels]
    assert lost.max() <= RESOLUTION * max(1.0, np.ptp(scores, axis=1).max())


def assert_optimal(scores, totals, result):
    tolerance = RESOLUTION * max(1.0, np.ptp(scores, axis=1).max()) * len(scores)
    assert_array_equal(np.bincount(result.labels, minlength=len(totals)), totals)
    assert_allclose(value_of(scores, result.labels), best_value(scores, totals), atol=tolerance)
    assert 0 <= result.gap <= tolerance
    assert result.n_fractional == 0
    assert_explained(scores, result.labels, result.prices[:, 0])


# Counts


@pytest.mark.parametrize("start", range(0, 400, 50))
def test_labels_are_as_good_as_linear_assignment(start):
    for seed in range(start, start + 50):
        scores, totals = random_instance(seed)
        assert_optimal(scores, totals, one_group(scores, totals))


@pytest.mark.parametrize("start", range(0, 160, 40))
def test_labels_from_a_sample_and_a_band_are_as_good_as_linear_assignment(start, monkeypatch):
    """Prices from 50 rows, bands of 50 rows: sampling, bands and widening all take part."""
    monkeypatch.setattr(transport_module, "SAMPLE_ROWS", 50)
    monkeypatch.setattr(transport_module, "LEAST_BAND", 50)
    for seed in range(start, start + 40):
        rng = np.random.default_rng(seed)
        n, c = int(rng.integers(120, 400)), int(rng.integers(2, 7))
        scores = random_scores(rng, KINDS[seed % len(KINDS)], n, c)
        if seed % 3 == 0:  # the sample misleads: the rows are sorted
            scores = scores[np.argsort(scores[:, 0])]
        totals = random_totals(rng, n, c)
        assert_optimal(scores, totals, one_group(scores, totals))


def test_a_band_that_is_too_narrow_is_widened(monkeypatch):
    """The rows with small margins hesitate between clusters 0 and 1, but cluster 2 lacks rows."""
    monkeypatch.setattr(transport_module, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(transport_module, "LEAST_BAND", 100)
    widths = []
    send_excess = transport_module.kernels.send_excess

    def spy(scores, *arguments):
        widths.append(len(scores))
        return send_excess(scores, *arguments)

    monkeypatch.setattr(transport_module.kernels, "send_excess", spy)
    rng = np.random.default_rng(0)
    hesitant = np.column_stack([rng.uniform(0.0, 0.1, size=(150, 2)), np.full(150, -50.0)])
    firm = np.column_stack([rng.uniform(9.0, 10.0, size=40), np.zeros(40), np.zeros(40)])
    scores = np.vstack([hesitant, firm])
    preferred = np.bincount(scores.argmax(axis=1), minlength=3)
    totals = preferred + [-2, 0, 2]
    assert_optimal(scores, totals, one_group(scores, totals))
    assert len(widths) == 2
    assert widths[0] < widths[1] == 190


def test_groups_are_solved_each_for_itself():
    rng = np.random.default_rng(3)
    codes = rng.permutation(np.repeat([0, 1, 2], [30, 12, 1]))
    scores = rng.normal(size=(43, 4))
    totals = np.column_stack([[10, 10, 5, 5], [3, 3, 3, 3], [0, 0, 1, 0]])
    result = transport(scores, codes, totals)
    for r in range(3):
        own = codes == r
        assert_array_equal(np.bincount(result.labels[own], minlength=4), totals[:, r])
        assert_allclose(
            value_of(scores[own], result.labels[own]), best_value(scores[own], totals[:, r])
        )
        assert_explained(scores[own], result.labels[own], result.prices[:, r])


def test_a_group_without_rows_changes_nothing():
    scores, totals = random_instance(8)
    expected = one_group(scores, totals)
    codes = np.full(len(scores), 1)
    with_empty = transport(scores, codes, np.column_stack([np.zeros_like(totals), totals]))
    assert_array_equal(with_empty.labels, expected.labels)
    assert_array_equal(with_empty.prices[:, 0], 0)


def test_one_cluster_takes_all():
    result = one_group(np.random.default_rng(0).normal(size=(9, 1)), [9])
    assert_array_equal(result.labels, 0)
    assert_array_equal(result.prices, 0)


def test_more_clusters_than_rows():
    scores = np.random.default_rng(0).normal(size=(3, 8))
    totals = np.array([0, 1, 0, 0, 1, 0, 0, 1])
    assert_optimal(scores, totals, one_group(scores, totals))


def test_rows_that_are_all_equal_go_where_there_is_room():
    scores = np.tile([3.0, -1.0, 0.5], (100, 1))
    totals = np.array([20, 50, 30])
    assert_optimal(scores, totals, one_group(scores, totals))


def test_scores_that_are_all_zero():
    totals = np.array([4, 0, 6])
    assert_optimal(np.zeros((10, 3)), totals, one_group(np.zeros((10, 3)), totals))


def test_many_equal_rows_are_split_over_sample_and_band(monkeypatch):
    monkeypatch.setattr(transport_module, "SAMPLE_ROWS", 20)
    monkeypatch.setattr(transport_module, "LEAST_BAND", 20)
    scores = np.repeat([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]], 300, axis=0)
    totals = np.array([100, 350, 150])
    assert_optimal(scores, totals, one_group(scores, totals))


def test_a_cluster_without_a_share_attracts_nobody():
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(50, 3)) + [0.0, 30.0, 0.0]
    result = one_group(scores, [25, 0, 25])
    assert set((scores + result.prices[:, 0]).argmax(axis=1)) == {0, 2}


@pytest.mark.parametrize("seed", range(8))
def test_without_ties_the_prices_decide_every_row(seed):
    """Central prices leave room on all sides: no row is on the edge."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(200, 5))
    totals = random_totals(rng, 200, 5)
    result = one_group(scores, totals)
    priced = np.sort((scores + result.prices[:, 0])[:, totals > 0], axis=1)
    assert_array_equal((scores + result.prices[:, 0]).argmax(axis=1), result.labels)
    if (totals > 0).sum() > 1:
        assert (priced[:, -1] - priced[:, -2]).min() > 1e-9


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_the_order_of_the_rows_does_not_change_the_value(seed, data):
    scores, totals = random_instance(seed)
    order = np.array(data.draw(st.permutations(range(len(scores)))))
    expected = value_of(scores, one_group(scores, totals).labels)
    permuted = value_of(scores[order], one_group(scores[order], totals).labels)
    assert_allclose(permuted, expected, atol=1e-9)


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10**6))
def test_a_constant_added_to_a_row_changes_nothing(seed):
    """Powers of two are added, so that the differences keep all their digits."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(-8, 9, size=(25, 4)) / 8
    totals = random_totals(rng, 25, 4)
    constants = 2.0 ** rng.integers(-3, 20, size=(25, 1))
    expected, shifted = one_group(scores, totals), one_group(scores + constants, totals)
    assert_array_equal(shifted.labels, expected.labels)
    assert_array_equal(shifted.prices, expected.prices)


@pytest.mark.parametrize("exponent", [-960, -300, 300, 900])
def test_the_scale_of_the_scores_does_not_change_the_labels(exponent):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 1000, size=(60, 4)).astype(float)
    totals = np.array([10, 20, 25, 5])
    expected = one_group(scores, totals)
    scaled = one_group(np.ldexp(scores, exponent), totals)
    assert_array_equal(scaled.labels, expected.labels)


@pytest.mark.parametrize("far", [1e9, 1e13, 1e17])
def test_a_far_outlier_does_not_cost_the_others_their_digits(far):
    """Fixed point relative to the outlier would call all other rows tied."""
    rng = np.random.default_rng(1)
    near = rng.normal(size=(60, 2))
    # A cluster far from the 60 rows, and two rows far from all clusters but that one.
    scores = np.column_stack([near, np.full(60, -far)])
    scores = np.vstack([scores, [[-far, -far, 0.0], [-far, -far, 0.0]]])
    totals = np.array([35, 25, 2])
    result = one_group(scores, totals)
    assert_array_equal(np.bincount(result.labels), totals)
    assert_array_equal(result.labels[-2:], 2)
    assert_allclose(value_of(near, result.labels[:-2]), best_value(near, totals[:2]), rtol=1e-6)


def test_outliers_go_where_the_totals_send_them_however_much_they_lose():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(40, 3))
    scores[:5, 1:] -= 1e12  # five rows insist on cluster 0, which has room for two
    totals = np.array([2, 19, 19])
    result = one_group(scores, totals)
    assert_array_equal(np.bincount(result.labels), totals)
    assert (result.labels[:5] == 0).sum() == 2
    assert_allclose(value_of(scores, result.labels), best_value(scores, totals), rtol=1e-10)


# Weights


def random_weighted_instance(seed):
    rng = np.random.default_rng(seed)
    n, c = int(rng.integers(1, 30)), int(rng.integers(1, 6))
    weights = [
        rng.uniform(0.1, 3.0, size=n),
        rng.integers(1, 5, size=n).astype(float),
        np.exp(2.0 * rng.normal(size=n)),
        rng.integers(0, 3, size=n) + np.eye(1, n)[0],
    ][(seed // len(KINDS)) % 4]
    totals = rng.dirichlet(np.ones(c)) * weights.sum()
    if seed % 5 == 0 and c > 1:
        totals[1] += totals[0]
        totals[0] = 0.0
    return random_scores(rng, KINDS[seed % len(KINDS)], n, c), weights, totals


def assert_rounded_from_the_linear_program(scores, weights, totals, result):
    tolerance = 1e-8 * weights.sum()
    value = value_of(scores, result.labels, weights)
    assert value >= best_fractional_value(scores, weights, totals) - tolerance
    weighed = np.bincount(result.labels, weights=weights, minlength=len(totals))
    # Split rows are at most as heavy as the heaviest; without any the totals are met.
    heaviest = weights.max() if result.n_fractional else 0.0
    assert np.abs(weighed - totals).max() <= heaviest + tolerance
    assert result.n_fractional <= len(totals) - 1
    assert_explained(scores, result.labels, result.prices[:, 0])


@pytest.mark.parametrize("start", range(0, 320, 80))
def test_weighted_labels_cost_no_more_than_the_linear_program(start):
    for seed in range(start, start + 80):
        scores, weights, totals = random_weighted_instance(seed)
        result = one_group(scores, totals, weights)
        assert_rounded_from_the_linear_program(scores, weights, totals, result)


def test_weighted_labels_from_a_sample_cost_no_more_than_the_linear_program(monkeypatch):
    monkeypatch.setattr(transport_module, "SAMPLE_ROWS", 4)
    monkeypatch.setattr(transport_module, "LEAST_BAND", 4)
    for seed in range(80):
        scores, weights, totals = random_weighted_instance(seed)
        result = one_group(scores, totals, weights)
        assert_rounded_from_the_linear_program(scores, weights, totals, result)


@pytest.mark.parametrize("start", range(0, 300, 100))
def test_cells_miss_their_total_by_at_most_the_heaviest_split_row(start, monkeypatch):
    """The rows that the program splits are caught on their way to the rounding."""
    split_rows = []
    round_by_slots = transport_module.round_by_slots

    def spy(pieces, scores, weights):
        split_rows.extend(weights)
        return round_by_slots(pieces, scores, weights)

    monkeypatch.setattr(transport_module, "round_by_slots", spy)
    for seed in range(start, start + 100):
        scores, weights, totals = random_weighted_instance(seed)
        split_rows.clear()
        result = one_group(scores, totals, weights)
        if len(weights) == 1 and np.count_nonzero(totals) > 1:  # split, and rounded with no other
            split_rows.extend(weights)
        weighed = np.bincount(result.labels, weights=weights, minlength=len(totals))
        assert result.n_fractional == len(split_rows)
        limit = max(split_rows, default=0.0) + 1e-8 * weights.sum()
        assert np.abs(weighed - totals).max() <= limit


@pytest.mark.parametrize("weight", [1.0, 2.5, 0.1, 1 / 3, 1e-9, 1e12])
def test_equal_weights_give_exact_counts(weight):
    for seed in range(60):
        scores, totals = random_instance(seed)
        result = one_group(scores, totals * weight, np.full(len(scores), weight))
        assert_array_equal(np.bincount(result.labels, minlength=len(totals)), totals)
        assert_allclose(value_of(scores, result.labels), best_value(scores, totals), atol=1e-8)


@pytest.mark.parametrize("seed", range(12))
def test_unit_weights_with_fractional_totals_are_rounded_next_to_them(seed):
    rng = np.random.default_rng(seed)
    scores = random_scores(rng, KINDS[seed % len(KINDS)], 30, 4)
    totals = rng.dirichlet(np.ones(4)) * 30
    result = one_group(scores, totals, np.ones(30))
    counts = np.bincount(result.labels, minlength=4)
    assert np.all(counts >= np.floor(totals - 1e-9))
    assert np.all(counts <= np.ceil(totals + 1e-9))
    assert_rounded_from_the_linear_program(scores, np.ones(30), totals, result)


@pytest.mark.parametrize("seed", range(30))
def test_integer_weights_cost_no_more_than_repeated_rows(seed):
    """Copies of a row may part, so they have the linear program's freedom, in whole units."""
    rng = np.random.default_rng(seed)
    n, c = int(rng.integers(2, 25)), int(rng.integers(1, 5))
    scores = random_scores(rng, KINDS[seed % len(KINDS)], n, c)
    repeats = rng.integers(1, 5, size=n)
    totals = random_totals(rng, int(repeats.sum()), c)
    weighted = one_group(scores, totals.astype(float), repeats.astype(float))
    repeated = one_group(np.repeat(scores, repeats, axis=0), totals)
    expected = value_of(np.repeat(scores, repeats, axis=0), repeated.labels)
    assert value_of(scores, weighted.labels, repeats) >= expected - 1e-8


def test_rows_without_weight_follow_the_prices_of_the_others():
    rng = np.random.default_rng(4)
    scores = rng.normal(size=(80, 3))
    weights = np.where(np.arange(80) % 4 == 0, 0.0, 1.0)
    totals = np.array([40.0, 15.0, 5.0])
    result = one_group(scores, totals, weights)
    counted = weights > 0
    alone = one_group(scores[counted], totals.astype(int))
    assert_array_equal(result.labels[counted], alone.labels)
    assert_array_equal(result.labels, (scores + result.prices[:, 0]).argmax(axis=1))


def test_a_group_without_weight_goes_to_its_largest_scores():
    rng = np.random.default_rng(4)
    scores = rng.normal(size=(20, 3))
    codes = np.arange(20) % 2
    weights = np.where(codes == 0, 1.0, 0.0)
    result = transport(scores, codes, np.array([[4.0, 0], [3, 0], [3, 0]]), weights=weights)
    assert_array_equal(np.bincount(result.labels[codes == 0]), [4, 3, 3])
    assert_array_equal(result.labels[codes == 1], scores[codes == 1].argmax(axis=1))


def test_a_row_that_outweighs_every_total_still_goes_to_one_cluster():
    scores = np.array([[1.0, 0.0, 0.2], [0.3, 0.9, 0.0]])
    weights, totals = np.array([100.0, 1.0]), np.full(3, 101 / 3)
    result = one_group(scores, totals, weights)
    assert_rounded_from_the_linear_program(scores, weights, totals, result)


def test_totals_that_no_labelling_has_are_refused():
    with pytest.raises(
        ValueError, match=r"group 0 sum to 9 over the clusters, but its rows weigh 20"
    ):
        one_group(np.zeros((20, 3)), np.array([3, 3, 3]))


def test_a_cluster_without_a_total_gets_no_row_however_light():
    weights = np.append(1e11, np.ones(49))
    scores = np.tile([0.0, 0.0, 1.0], (50, 1))
    result = one_group(scores, np.array([1e11, 49.0, 0.0]), weights)
    assert not np.any(result.labels == 2)
    weights[1:] = 0.0
    scores[1:, 2] = 1e9
    result = one_group(scores, np.array([1e11, 0.0, 0.0]), weights)
    assert_array_equal(result.labels, 0)


SCORES = np.random.default_rng(0).normal(size=(6, 2))
CODES = np.array([0, 0, 0, 1, 1, 1])
TOTALS = np.array([[2, 1], [1, 2]])


def with_score(value):
    scores = SCORES.copy()
    scores[2, 1] = value
    return {"scores": scores}


REFUSED = {
    "missing score": (with_score(np.nan), "scores sum to nan: expected finite"),
    "infinite score": (with_score(np.inf), "scores sum to inf: expected finite"),
    "scores too large": ({"scores": SCORES * 1e308}, "scores sum to .* with a finite sum"),
    "too few scores": ({"scores": SCORES[:, :1]}, r"shape \(6, 1\), expected \(6, 2\)"),
    "too few rows": ({"scores": SCORES[:5]}, r"shape \(5, 2\), expected \(6, 2\)"),
    "unknown group": ({"group_codes": CODES + 1}, r"group_codes are 1..2, expected 0..1"),
    "negative group": ({"group_codes": CODES - 1}, r"group_codes are -1..0, expected 0..1"),
    "negative total": ({"totals": np.array([[4, 1], [-1, 2]])}, "totals has the value -1"),
    "missing total": ({"totals": np.array([[np.nan, 1], [1, 2]])}, "totals has the value nan"),
    "other totals": ({"totals": TOTALS + 1}, "totals of group 0 sum to 5 .* its rows weigh 3"),
    "negative weight": ({"weights": np.array([1, 1, 1, 1, 3, -1.0])}, "weights has negative"),
    "missing weight": ({"weights": np.array([1, 1, 1, 1, 1, np.nan])}, "weights has negative"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_refused_with_the_reason(case):
    changed, message = REFUSED[case]
    arguments = {"scores": SCORES, "group_codes": CODES, "totals": TOTALS} | changed
    with pytest.raises(ValueError, match=message):
        transport(**arguments)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weighted", [False, True])
def test_groups_of_one_row_are_labelled_as_by_the_search(seed, weighted):
    rng = np.random.default_rng(seed)
    n, c = 60, 4
    scores = -rng.exponential(size=(n, c))
    scores[:3] *= 1e9  # outliers, for which the scale of the others is too fine
    weights = rng.uniform(0.5, 2.0, size=n) if weighted else None
    if weighted:
        shares = rng.dirichlet(np.ones(c), size=n) * (rng.uniform(size=(n, c)) < 0.6)
        shares[np.arange(n), rng.integers(0, c, size=n)] += 0.1
        totals = (shares / shares.sum(axis=1, keepdims=True)).T * weights
    else:
        totals = np.eye(c)[rng.integers(0, c, size=n)].T
    found = transport(scores, np.arange(n), totals, weights=weights)
    searched = [
        transport_module._Group(
            scores, np.array([r]), None if weights is None else weights[r : r + 1],
            totals[:, r], whole=not weighted, start=None,
        ).solve(transport_module._resolutions(scores))
        for r in range(n)
    ]  # fmt: skip
    assert_array_equal(found.labels, [own.labels[0] for own in searched])
    assert_allclose(found.prices.T, [own.prices for own in searched], rtol=1e-12)
    assert_allclose(found.gap, sum(own.gap for own in searched), rtol=1e-9, atol=1e-9)
    assert found.n_fractional == sum(len(own.split) for own in searched)


def test_a_group_of_one_row_takes_its_best_cluster_of_those_it_may_have():
    scores = np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    totals = np.array([[0.0, 1.0, 1.0], [0.5, 0.0, 1.5]]).T
    found = transport(scores, np.array([0, 1]), totals, weights=np.array([2.0, 2.0]))
    assert_array_equal(found.labels, [1, 0])
    assert found.n_fractional == 2


@pytest.mark.parametrize("n_heavy", [1, 4])
@pytest.mark.parametrize("seed", range(25))
def test_no_light_row_is_left_in_a_cluster_without_a_total(seed, n_heavy):
    # What is left over of sums of heavy rows is a large part of a light one.
    rng = np.random.default_rng(seed)
    weights = np.append(rng.uniform(10.0, 1e4, size=40 * n_heavy), rng.uniform(1e-6, 1e-3, size=40))
    scores = rng.normal(size=(len(weights), 4))
    scores[:, 0] += 2.0
    totals = weights.sum() * np.append(0.0, rng.dirichlet(np.ones(3)))
    codes = np.zeros(len(weights), dtype=np.int64)
    labels = transport(scores, codes, totals[:, None], weights=weights).labels
    assert (labels > 0).all()
    missed = np.bincount(labels, weights=weights, minlength=4) - totals
    assert np.abs(missed).max() <= weights.max()
