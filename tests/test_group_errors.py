"""Records that may be wrong: the certificate, and fits that leave room for errors."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fairanchor import AnchorFairClustering, FairKMeans, FairnessTargets, fair_assign
from fairanchor.metrics import (
    breakdown_errors,
    relative_balance_score,
    worst_relative_balance,
    worst_violation,
)
from tiers import first_is_fast


def truths(table, n_errors):
    """Every table that results if at most so many records are moved to another group."""
    seen = frontier = {tuple(map(tuple, table))}
    for _ in range(n_errors):
        moved = set()
        for rows in frontier:
            for l, row in enumerate(rows):
                for r, count in enumerate(row):
                    for s in range(len(row)):
                        if count and s != r:
                            other = list(row)
                            other[r] -= 1
                            other[s] += 1
                            moved.add((*rows[:l], tuple(other), *rows[l + 1 :]))
        frontier = moved - seen
        seen = seen | moved
    return seen


def relative_balance(table):
    """As defined, in fractions: groups that no row has in truth are left out."""
    sizes = [sum(row) for row in table]
    groups = [sum(column) for column in zip(*table, strict=True)]
    ratios = [
        Fraction(row[r] * sum(sizes), size * groups[r])
        for row, size in zip(table, sizes, strict=True)
        for r in range(len(groups))
        if size and groups[r]
    ]
    return min(min(ratio, 1 / ratio) if ratio else Fraction(0) for ratio in ratios)


def rows_of(table):
    """Labels and groups with these counts."""
    cells = np.repeat(np.arange(table.size), table.ravel())
    return np.divmod(cells, table.shape[1])


@pytest.mark.parametrize("seed", first_is_fast(range(4)))
def test_the_certificate_equals_brute_force_over_all_placements(seed):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        shape = rng.integers(1, 4), rng.integers(1, 4)
        table = rng.multinomial(rng.integers(1, 9), np.full(np.prod(shape), 1 / np.prod(shape)))
        labels, groups = rows_of(table.reshape(shape))
        recorded = np.array(
            [[np.sum((labels == l) & (groups == r)) for r in np.unique(groups)]
             for l in np.unique(labels)]
        )  # fmt: skip
        worst = [min(map(relative_balance, truths(recorded.tolist(), m))) for m in range(5)]
        found = [
            worst_relative_balance(labels, sensitive_features=groups, n_errors=m) for m in range(5)
        ]
        assert found == pytest.approx([float(value) for value in worst], abs=1e-12)
        for threshold in (0.8, 0.5):
            below = [m for m, value in enumerate(worst) if value < Fraction(str(threshold))]
            number = breakdown_errors(labels, sensitive_features=groups, threshold=threshold)
            assert number == below[0] if below else number is None or number >= 5


def test_the_breakdown_number_is_where_the_certificate_crosses_the_threshold():
    rng = np.random.default_rng(0)
    labels, groups = rng.integers(0, 4, 5000), rng.choice(["a", "b", "c"], 5000, p=[0.6, 0.3, 0.1])
    known = {"sensitive_features": groups}
    number = breakdown_errors(labels, **known)
    assert worst_relative_balance(labels, **known, n_errors=number) < 0.8
    assert worst_relative_balance(labels, **known, n_errors=number - 1) >= 0.8
    none = worst_relative_balance(labels, **known, n_errors=0)
    assert none == relative_balance_score(labels, **known)


def test_no_number_of_errors_unbalances_a_single_cluster_or_group():
    assert breakdown_errors([0, 0, 0], sensitive_features=["a", "b", "b"]) is None
    assert breakdown_errors([0, 1, 1], sensitive_features=["a", "a", "a"]) is None
    assert breakdown_errors([0, 1, 1], sensitive_features=["a", "b", "b"]) == 0


@pytest.mark.parametrize("n_errors", [-1, 1.5, True, None])
def test_errors_are_a_whole_number_of_rows(n_errors):
    with pytest.raises(ValueError, match="n_errors="):
        worst_relative_balance([0, 1], sensitive_features=["a", "b"], n_errors=n_errors)
    with pytest.raises(ValueError, match="group_errors="):
        FairnessTargets(lower=0.1, group_errors=n_errors).check([5, 5], n_clusters=1)


def people(seed, n=300):
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    shift = np.array([{"a": 0.0, "b": 1.0, "c": 3.0}[name] for name in groups])
    return rng.normal(size=(n, 3)) + shift[:, None], groups


LOWER, UPPER = np.array([0.3, 0.15, 0.05]), np.array([0.8, 0.6, 0.5])


@pytest.mark.parametrize("estimator", [FairKMeans, AnchorFairClustering, "fair_assign"])
@pytest.mark.parametrize("errors", [1, 4, 8])
def test_no_placement_of_errors_breaks_bounds_that_leave_room(estimator, errors):
    X, groups = people(0)
    bounds = {"lower": dict(zip("abc", LOWER, strict=True)), "upper": UPPER}
    targets = FairnessTargets(**bounds, group_errors=errors)
    if estimator == "fair_assign":
        costs = np.random.default_rng(1).random((len(X), 3))
        counts = fair_assign(costs, sensitive_features=groups, fairness=targets).counts
    else:
        options = {} if estimator is FairKMeans else {"clusterer": "fair_kmeans"}
        model = estimator(3, fairness=targets, random_state=0, **options)
        counts = model.fit(X, sensitive_features=groups).counts_
        assert model.worst_violation_ == 0.0
    sizes = counts.sum(axis=1, keepdims=True)
    # All errors in one cell, which is the worst placement for it.
    assert (counts - errors >= np.ceil(LOWER * sizes - 1e-9)).all()
    assert (counts + errors <= np.floor(UPPER * sizes + 1e-9)).all()


def test_errors_placed_at_random_keep_the_bounds_of_a_tolerance():
    X, groups = people(1)
    targets = FairnessTargets(tolerance=0.4, group_errors=6)
    labels = FairKMeans(3, fairness=targets, random_state=0).fit_predict(
        X, sensitive_features=groups
    )
    recorded = np.array([np.mean(groups == name) for name in "abc"])
    rng = np.random.default_rng(0)
    for _ in range(300):
        truth = groups.copy()
        truth[rng.choice(len(X), 6, replace=False)] = rng.choice(list("abc"))
        for l in range(3):
            shares = np.array([np.mean(truth[labels == l] == name) for name in "abc"])
            assert (shares >= 0.6 * recorded - 1e-12).all()
            assert (shares <= recorded / 0.6 + 1e-12).all()


def test_room_for_errors_is_part_of_the_violation():
    labels, groups = np.repeat([0, 1], 20), ["a", "b"] * 20
    known = {"sensitive_features": groups}
    for errors, expected in ((0, 0.0), (2, 0.0), (5, 3.0)):
        targets = FairnessTargets(lower=0.4, group_errors=errors)
        assert worst_violation(labels, **known, targets=targets) == pytest.approx(expected)


IMPOSSIBLE = {
    "exact shares": ({"group_errors": 2}, "tolerance above 0"),
    "a fixed share": ({"shares": [0.5, 0.3, 0.2], "group_errors": 2}, "tolerance above 0"),
    "too many errors": ({"lower": 0.1, "group_errors": 60}, "group_errors=60"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_bounds_without_room_raise_with_the_reason(case):
    X, groups = people(2)
    parameters, reason = IMPOSSIBLE[case]
    with pytest.raises(ValueError, match=reason):
        FairKMeans(3, fairness=FairnessTargets(**parameters)).fit(X, sensitive_features=groups)


def test_errors_are_counted_in_rows_not_in_weight():
    X, groups = people(3)
    model = FairKMeans(2, fairness=FairnessTargets(lower=0.1, group_errors=3), random_state=0)
    equal = model.fit(X, sensitive_features=groups, sample_weight=np.full(len(X), 2.0)).labels_
    assert_array_equal(equal, model.fit(X, sensitive_features=groups).labels_)
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, sensitive_features=groups, sample_weight=np.arange(1.0, len(X) + 1))


def test_one_group_has_no_wrong_records():
    labels = np.repeat([0, 1], 5)
    targets = FairnessTargets(lower=0.5, group_errors=3)
    assert worst_violation(labels, sensitive_features=["a"] * 10, targets=targets) == 0.0
