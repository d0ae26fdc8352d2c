"""FairnessTargets: how parameters are read, compared, resolved and checked."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from sklearn.base import clone

from fairanchor import FairKMeans, FairnessTargets, fair_assign
from fairanchor.groups._groups import check_groups

# "b" is the largest group, so its canonical code is 0; public tables are sorted by name.
GROUPS = check_groups(np.array(["b"] * 6 + ["a"] * 3 + ["c"] * 1), 10)


def public(table):
    return GROUPS.to_public(table)


def test_nothing_given_mirrors_the_data():
    limits = FairnessTargets().resolve(GROUPS, 2)
    assert_allclose(limits.lower, [[0.6, 0.3, 0.1]] * 2)
    assert_allclose(limits.upper, limits.lower)
    assert FairnessTargets() == FairnessTargets()
    assert FairnessTargets() != FairnessTargets(tolerance=0.1)


@pytest.mark.parametrize("tolerance", [0.0, 0.2, 0.5, 1.0])
def test_a_tolerance_is_that_of_bera(tolerance):
    limits = FairnessTargets(tolerance=tolerance).resolve(GROUPS, 3)
    shares = np.array([0.6, 0.3, 0.1])
    assert_allclose(limits.lower, np.tile((1 - tolerance) * shares, (3, 1)))
    expected = np.ones(3) if tolerance == 1 else np.minimum(shares / (1 - tolerance), 1)
    assert_allclose(limits.upper, np.tile(expected, (3, 1)))


SHARES = [[0.2, 0.5, 0.3], [0.4, 0.6, 0.0]]


@pytest.mark.parametrize(
    "given",
    [
        SHARES,
        np.array(SHARES),
        pd.DataFrame(SHARES, columns=["a", "b", "c"]),
        pd.DataFrame(SHARES, columns=["a", "b", "c"])[["c", "a", "b"]],
        pl.DataFrame(SHARES, schema=["a", "b", "c"], orient="row"),
        pa.table({"b": [0.5, 0.6], "c": [0.3, 0.0], "a": [0.2, 0.4]}),
    ],
    ids=["list", "array", "pandas", "pandas reordered", "polars", "pyarrow"],
)
def test_a_table_of_shares_is_read_by_name_or_in_sorted_order(given):
    limits = FairnessTargets(shares=given).resolve(GROUPS, 2)
    assert_allclose(public(limits.lower), SHARES)
    assert_allclose(public(limits.upper), SHARES)


@pytest.mark.parametrize(
    "given", [{"c": 0.3, "a": 0.2, "b": 0.5}, pd.Series({"b": 0.5, "a": 0.2, "c": 0.3}), SHARES[0]]
)
def test_shares_of_groups_are_for_all_clusters(given):
    limits = FairnessTargets(shares=given, tolerance=0.5).resolve(GROUPS, 2)
    assert_allclose(public(limits.lower), [[0.1, 0.25, 0.15]] * 2)
    assert_allclose(public(limits.upper), [[0.4, 1.0, 0.6]] * 2)


def test_groups_that_are_not_named_and_nan_have_no_limit():
    table = pd.DataFrame({"c": [0.05, np.nan], "a": [0.1, 0.2]})
    limits = FairnessTargets(lower=table, upper={"b": 0.7}, min_size=2, max_size=[5, 8]).resolve(
        GROUPS, 2
    )
    assert_allclose(public(limits.lower), [[0.1, 0.0, 0.05], [0.2, 0.0, 0.0]])
    assert_allclose(public(limits.upper), [[1.0, 0.7, 1.0]] * 2)
    assert_array_equal(limits.least, 2)
    assert_array_equal(limits.greatest, [5, 8])


@pytest.mark.parametrize("share", [0.7, np.float64(0.7)])
def test_one_number_bounds_every_group(share):
    limits = FairnessTargets(upper=share, lower=0.05).resolve(GROUPS, 2)
    assert_allclose(limits.upper, 0.7)
    assert_allclose(limits.lower, 0.05)


def test_a_tolerance_beside_limits_holds_as_well():
    limits = FairnessTargets(lower={"c": 0.08}, tolerance=0.5).resolve(GROUPS, 1)
    assert_allclose(public(limits.lower), [[0.15, 0.3, 0.08]])
    assert_allclose(public(limits.upper), [[0.6, 1.0, 0.2]])


def test_weights_of_groups_replace_their_sizes():
    limits = FairnessTargets().resolve(GROUPS, 1, group_sizes=[1.0, 1.0, 2.0])
    assert_allclose(limits.lower, [[0.25, 0.25, 0.5]])


# As a scikit-learn object


def test_it_can_be_cloned_compared_and_shown():
    targets = FairnessTargets(lower={"a": 0.1}, min_size=3)
    assert repr(targets) == "FairnessTargets(lower={'a': 0.1}, min_size=3)"
    assert clone(targets) == targets
    assert clone(targets) is not targets
    assert targets != FairnessTargets(lower={"a": 0.2}, min_size=3)
    assert targets != FairnessTargets(lower={"b": 0.1}, min_size=3)
    assert targets != "targets"
    table = pd.DataFrame(SHARES, columns=["a", "b", "c"])
    assert FairnessTargets(shares=table) == FairnessTargets(shares=table.copy())
    assert FairnessTargets(shares=table) != FairnessTargets(shares=table.to_numpy())
    assert FairnessTargets(min_size=3) != FairnessTargets(min_size=[3, 3])


def test_parameters_are_stored_untouched():
    given = {"a": 0.5}
    targets = FairnessTargets(lower=given, tolerance=3.0)
    assert targets.get_params()["lower"] is given
    assert targets.set_params(tolerance=0.25).tolerance == 0.25


# Errors


@pytest.mark.parametrize(
    ("parameters", "error", "named"),
    [
        ({"tolerance": -0.5}, ValueError, "tolerance=-0.5"),
        ({"tolerance": 3.0}, ValueError, "tolerance=3.0"),
        ({"tolerance": "x"}, TypeError, "tolerance='x'"),
        ({"lower": {"a": 1.2}}, ValueError, "lower.*1.2"),
        ({"upper": [[-0.1]]}, ValueError, "upper.*-0.1"),
        ({"upper": 20}, ValueError, "upper.*20"),
        ({"shares": {"a": float("nan")}}, ValueError, "shares.*nan"),
        ({"shares": 0.5}, ValueError, "shares"),
        ({"lower": {"a": "many"}}, TypeError, "lower.*many"),
        ({"lower": np.zeros((2, 2, 2))}, ValueError, r"lower.*\(2, 2, 2\)"),
        ({"lower": {}}, ValueError, r"lower.*\(0,\)"),
        ({"min_size": -1}, ValueError, "min_size=-1"),
        ({"max_size": [3, -2]}, ValueError, r"max_size=\[3, -2\]"),
    ],
)
def test_bad_values_are_named_when_they_are_used(parameters, error, named):
    targets = FairnessTargets(**parameters)  # no error yet
    X, group = np.arange(20.0).reshape(10, 2), np.array(["b"] * 6 + ["a"] * 3 + ["c"])
    with pytest.raises(error, match=named):
        targets.check([3, 6, 1], ["a", "b", "c"], n_clusters=2)
    with pytest.raises(error, match=named):
        fair_assign(X, sensitive_features=group, fairness=targets)
    with pytest.raises(error, match=named), pytest.warns(UserWarning, match="'c'"):
        FairKMeans(2, fairness=targets).fit(X, sensitive_features=group)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"shares": {"a": 0.5, "b": 0.4, "c": 0.0}},
            r"shares of cluster 0 sum to 0\.9, expected 1",
        ),
        (
            {"shares": [[0.2, 0.8, 0.0], [0.5, 0.5, 0.1]]},
            r"shares of cluster 1 sum to 1\.1, expected 1",
        ),
        ({"shares": {"a": 0.5, "b": 0.5}}, r"no share for the groups \['c'\]"),
        (
            {"lower": {"d": 0.1, "a": 0.1}},
            r"lower names the groups \['d'\], which are not in the data: \['a', 'b', 'c'\]",
        ),
        ({"upper": [0.5, 0.5]}, r"upper has 2 shares, but there are 3 groups: \['a', 'b', 'c'\]"),
        ({"lower": np.zeros((3, 3))}, r"lower has 3 rows, but there are 2 clusters"),
        (
            {"lower": {"a": 0.5}, "upper": {"a": 0.25}},
            r"Group 'a' must have at least 0\.5 and at most 0\.25 of cluster 0: .* by 0\.25",
        ),
        ({"min_size": 5, "max_size": 4}, r"Cluster 0 has min_size=5 > max_size=4"),
        ({"min_size": [1, 2, 3]}, r"min_size has shape \(3,\), expected a number or \(2,\)"),
        (
            {"lower": pd.DataFrame([[0.1, 0.1]] * 2, columns=["a", "a"])},
            r"lower names a group twice",
        ),
    ],
)
def test_what_does_not_fit_the_data_is_refused_by_name(parameters, message):
    targets = FairnessTargets(**parameters)
    with pytest.raises(ValueError, match=message):
        targets.resolve(GROUPS, 2)
    with pytest.raises(ValueError, match=message):
        targets.check([3, 6, 1], ["a", "b", "c"], n_clusters=2)


def test_sizes_and_names_must_be_as_many():
    with pytest.raises(ValueError, match=r"shape \(2,\) and there are 3 group_names"):
        FairnessTargets().check([1, 2], ["a", "b", "c"], n_clusters=2)


# Feasibility


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"lower": {"a": 0.5}}, ("a", "lower", 20.0)),
        ({"upper": {"b": 0.4}}, ("b", "upper", 20.0)),
        ({"shares": {"a": 0.5, "b": 0.4, "c": 0.1}}, (None, None, 20.0)),
        ({"min_size": 40, "tolerance": 1.0}, (None, "min_size", 20.0)),
        ({"max_size": 30, "tolerance": 1.0}, (None, "max_size", 10.0)),
    ],
)
def test_contradictions_with_the_data_are_named_with_their_slack(parameters, expected):
    """100 rows: 30 of a, 60 of b, 10 of c, in 3 clusters."""
    group, limit, slack = expected
    report = FairnessTargets(**parameters).check([30, 60, 10], ["a", "b", "c"], n_clusters=3)
    assert not report.feasible
    assert limit is None or (report.group, report.bound) == (group, limit)
    assert_allclose(report.total_slack, slack if limit else 40.0, atol=1e-6)
    assert 0 < report.slack <= report.total_slack + 1e-9
    assert f"cluster {report.cluster}" in report.message
    assert report.group is None or repr(report.group) in report.message
    with pytest.raises(ValueError, match="No assignment of 100 rows in 3 clusters meets"):
        report.raise_if_infeasible()


@given(draw=st.integers(0, 10**6))
def test_feasible_is_what_a_linear_program_without_slack_finds(draw):
    rng = np.random.default_rng(draw)
    c, h = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    sizes = rng.integers(1, 20, size=h).astype(float)
    lower, upper = rng.uniform(0, 0.5, size=(c, h)), rng.uniform(0.4, 1.0, size=(c, h))
    lower = np.minimum(lower, upper)
    least = rng.uniform(0, 0.6 * sizes.sum() / c, size=c)
    report = FairnessTargets(lower=lower, upper=upper, min_size=least).check(sizes, n_clusters=c)
    rows = []
    for l in range(c):
        size = np.zeros((c, h))
        size[l] = 1.0
        rows.append(-size.ravel())
        for r in range(h):
            cell = np.zeros((c, h))
            cell[l, r] = 1.0
            rows += [(lower[l, r] * size - cell).ravel(), (cell - upper[l, r] * size).ravel()]
    right = np.concatenate([[-least[l], *[0.0] * (2 * h)] for l in range(c)])
    solution = linprog(
        np.zeros(c * h), A_ub=rows, b_ub=right, A_eq=np.tile(np.eye(h), c), b_eq=sizes
    )
    assert report.feasible == (solution.status == 0)
    assert_allclose(report.table.sum(axis=0), sizes, atol=1e-6)


@pytest.mark.parametrize(
    ("asked", "bound"),
    [
        ({"lower": {"a": 0.5, "b": 0.6}}, "lower share"),
        ({"upper": {"a": [0.3] * 3, "b": [0.4, 0.8, 0.8]}, "min_size": 1}, ""),
        ({"min_size": 150}, "min_size=150"),
        ({"max_size": 50}, "max_size=50"),
    ],
)
def test_the_message_names_the_bound_that_is_missed_most(asked, bound):
    report = FairnessTargets(**asked).check([150, 150], ["a", "b"], n_clusters=3)
    assert not report.feasible
    assert report.message.startswith("No assignment of 300 rows in 3 clusters meets the bounds")
    assert f"misses its {bound}" in report.message
    assert f"cluster {report.cluster}" in report.message
    assert f"by {report.slack:,g} rows" in report.message
    assert report.group is None or f"group {report.group!r}" in report.message


def test_feasible_targets_can_be_met_by_labels():
    targets = FairnessTargets(lower=[[0.5, 0.2, 0.0], [0.0, 0.5, 0.05]], min_size=3)
    report = targets.check([3, 6, 1], ["a", "b", "c"], n_clusters=2)
    assert report.feasible
    report.raise_if_infeasible()
    group = np.array(["b"] * 6 + ["a"] * 3 + ["c"])
    result = fair_assign(np.zeros((10, 2)), sensitive_features=group, fairness=targets)
    assert result.worst_violation < 1.0
    assert result.counts.sum(axis=1).min() >= 3
