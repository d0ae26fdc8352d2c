"""Selection rates: p-values and intervals against SciPy, permutations and simulation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from fairanchor.audit import selection_rates
from fairanchor.audit._selection import goodness_of_fit
from tiers import first_is_fast


def rates_of(selected, totals, **options):
    """Selection rates of groups "0", "1", ... with these counts."""
    labels, groups = [], []
    for r, (k, n) in enumerate(zip(selected, totals, strict=True)):
        labels += ["in"] * k + ["out"] * (n - k)
        groups += [str(r)] * n
    return selection_rates(labels, sensitive_features=groups, favourable=["in"], **options)


def test_rates_ratios_and_intervals_are_those_of_the_definition_and_of_scipy():
    selected, totals = [30, 12, 55], [60, 40, 100]
    table = rates_of(selected, totals).tables[0]
    assert [r["rate"] for r in table.records] == pytest.approx([0.5, 0.3, 0.55])
    assert [r["impact_ratio"] for r in table.records] == pytest.approx([0.5 / 0.55, 0.3 / 0.55, 1])
    assert [r["below_four_fifths"] for r in table.records] == [False, True, False]
    for record in table.records:
        exact = stats.binomtest(record["selected"], record["rows"]).proportion_ci(method="exact")
        assert_allclose(record["rate_interval"], exact, rtol=1e-9)
    own = table.records[1]
    expected = stats.contingency.relative_risk(12, 40, 55, 100).confidence_interval(0.95)
    assert_allclose(own["impact_ratio_interval"], expected)


@pytest.mark.parametrize("seed", first_is_fast(range(3)))
def test_p_values_equal_those_of_scipy_and_of_permutations(seed):
    rng = np.random.default_rng(seed)
    for n_groups in (2, 3, 4):
        totals = rng.integers(30, 60, n_groups)
        selected = rng.binomial(totals, 0.4)
        table = rates_of(selected, totals).tables[0]
        contingency = np.array([selected, totals - selected])
        if n_groups == 2:
            assert table.p_value == pytest.approx(stats.fisher_exact(contingency).pvalue)
        else:
            assert table.test == "chi-square test"
            expected = stats.chi2_contingency(contingency, correction=False)
            assert table.p_value == pytest.approx(expected.pvalue)
        # Shuffled labels: of all tables, those at least as far from equal rates.
        is_selected = np.repeat(np.tile([1, 0], n_groups), np.ravel(contingency.T))
        codes = np.repeat(np.arange(n_groups), totals)
        center = totals * selected.sum() / totals.sum()
        draws = np.array([
            np.bincount(codes, rng.permutation(is_selected), n_groups) for _ in range(2000)
        ])  # fmt: skip
        far = ((draws - center) ** 2 / center).sum(axis=1)
        observed = ((selected - center) ** 2 / center).sum()
        assert table.p_value == pytest.approx((far >= observed - 1e-9).mean(), abs=0.06)


def test_few_rows_are_tested_by_permutations():
    selected, totals = [3, 1, 0], [4, 4, 5]
    table = rates_of(selected, totals).tables[0]
    assert table.test == "permutation test"
    # Every way to select 4 of 13 rows, weighted by how often it occurs.
    draws = [(a, b, 4 - a - b) for a in range(5) for b in range(5 - a)]
    weights = stats.multivariate_hypergeom.pmf(draws, totals, 4)
    center = np.array(totals) * 4 / 13
    far = ((np.array(draws) - center) ** 2 / center).sum(axis=1)
    observed = ((np.array(selected) - center) ** 2 / center).sum()
    assert table.p_value == pytest.approx(weights[far >= observed - 1e-9].sum(), abs=0.01)


@pytest.mark.parametrize(("rate", "total"), [(0.1, 40), (0.5, 25), (0.9, 80)])
def test_exact_intervals_cover_at_least_as_often_as_they_state(rate, total):
    counts = np.arange(total + 1)
    records = [rates_of([k, 1], [total, 2]).tables[0].records[0] for k in counts]
    covered = [
        record["rate_interval"][0] <= rate <= record["rate_interval"][1] for record in records
    ]
    assert stats.binom.pmf(counts, total, rate)[covered].sum() >= 0.95


def test_intervals_of_ratios_cover_about_as_often_as_they_state():
    """The exact probability of all tables; nominal 95 %, 93 to 97 % where counts are not small."""
    for (p, n), (q, m) in [
        ((0.4, 60), (0.6, 70)),
        ((0.5, 80), (0.5, 80)),
        ((0.3, 150), (0.35, 90)),
    ]:
        first, second = np.meshgrid(np.arange(1, n + 1), np.arange(1, m + 1), indexing="ij")
        log_error = 1.96 * np.sqrt(1 / first - 1 / n + 1 / second - 1 / m)
        observed = np.log((first / n) / (second / m))
        oracle = np.abs(observed - np.log(p / q)) <= log_error
        weights = stats.binom.pmf(first, n, p) * stats.binom.pmf(second, m, q)
        assert 0.93 <= weights[oracle].sum() <= 0.97
    # The oracle's interval is the one of the table.
    record = min(rates_of([24, 42], [60, 70]).tables[0].records, key=lambda r: r["impact_ratio"])
    error = 1.96 * np.sqrt(1 / 24 - 1 / 60 + 1 / 42 - 1 / 70)
    expected = record["impact_ratio"] * np.exp([-error, error])
    assert_allclose(record["impact_ratio_interval"], expected, rtol=1e-4)


def test_each_column_and_the_intersection_have_tables_of_each_cluster():
    rng = np.random.default_rng(0)
    labels, sex = rng.integers(0, 3, 300), rng.choice(["f", "m"], 300)
    race = rng.choice(["x", "y", "z"], 300)
    rates = selection_rates(labels, sensitive_features=np.column_stack([sex, race]))
    assert [(t.attribute, t.clusters) for t in rates.tables] == [
        (attribute, [l]) for attribute in (0, 1, (0, 1)) for l in range(3)
    ]
    inside, outside = (
        [np.sum(((labels == 0) == of_cluster) & (sex == s))
         for s in ("f", "m")]
        for of_cluster in (True, False)
    )  # fmt: skip
    one = stats.fisher_exact([inside, outside]).pvalue
    assert rates.tables[0].p_value == pytest.approx(min(1.0, 3 * one))
    assert len(rates.tables[-1].records) == 6
    several = selection_rates(labels, sensitive_features=sex, favourable=[0, 2])
    assert [table.clusters for table in several.tables] == [[0, 2], [0], [2]]


def test_unknown_groups_small_groups_and_rows_without_a_cluster_are_counted():
    labels = ["in"] * 60 + ["out"] * 35 + [None] * 5
    groups = ["a"] * 50 + ["b"] * 44 + ["c"] + [None] * 5
    table = selection_rates(labels, sensitive_features=groups, favourable=["in"]).tables[0]
    rows = {record["group"]: record for record in table.records}
    assert [record["rows"] for record in table.records] == [50, 44, 1, 5]
    assert rows["c"]["small"]
    assert rows[None]["impact_ratio"] is None
    assert not rows[None]["below_four_fifths"]
    assert table.impact_ratio == 0.0
    assert "<table>" in table._repr_html_()


def test_clusters_that_are_not_there_cannot_be_favourable():
    with pytest.raises(ValueError, match="favourable="):
        selection_rates([0, 1], sensitive_features=["a", "b"], favourable=[2])


def test_goodness_of_fit_equals_scipy_and_the_exact_multinomial_test():
    counts, shares = np.array([30, 50, 20]), np.array([0.4, 0.4, 0.2])
    expected = stats.chisquare(counts, 100 * shares).pvalue
    assert goodness_of_fit(counts, shares) == pytest.approx(expected)
    few = np.array([3, 0, 1])
    draws = np.array([(a, b, 4 - a - b) for a in range(5) for b in range(5 - a)])
    weights = stats.multinomial.pmf(draws, 4, shares)
    far = ((draws - 4 * shares) ** 2 / (4 * shares)).sum(axis=1)
    observed = ((few - 4 * shares) ** 2 / (4 * shares)).sum()
    exact = weights[far >= observed - 1e-9].sum()
    assert goodness_of_fit(few, shares) == pytest.approx(exact, abs=0.02)
    assert goodness_of_fit(np.array([1, 2]), np.array([1.0, 0.0])) == 0.0
