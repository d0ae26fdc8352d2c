"""Selection rates: how often rows of each group are in favourable clusters."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta, chi2_contingency, chisquare, fisher_exact
from scipy.stats.contingency import relative_risk

from fairanchor._utils._records import RecordTable
from fairanchor._utils._typing import Labels, Table
from fairanchor.groups._columns import attribute_names, check_pairing, columns_of
from fairanchor.groups._groups import count_cells, encode_names
from fairanchor.plotting._composition import Composition

FOUR_FIFTHS = 0.8
# Groups with a smaller share of the rows are marked: their rates change with single rows.
SMALL_SHARE = 0.02
# The chi-square distribution is used where every expected count is at least as large.
LEAST_EXPECTED = 5.0
# Random tables of a permutation test, so that the smallest p-value is 1 / (N_DRAWS + 1).
N_DRAWS = 9_999
LEVEL = 0.95


@dataclass(frozen=True)
class SelectionTable(RecordTable):
    """How often rows of each group are in some clusters.

    Attributes
    ----------
    records : list of dict
        One per group: ``group``, ``rows``, ``selected``, ``rate``, ``rate_interval`` (exact, of
        Clopper and Pearson), ``impact_ratio`` (the rate over the highest rate of a group),
        ``impact_ratio_interval`` (of the logarithm of the ratio, Katz), ``below_four_fifths``, and
        ``small``: whether the group has less than 2 % of the rows. Intervals have a level of 95 %.
        Groups without a name (missing values) come last, with a count and a rate only.
    attribute : str, int or tuple
        Column of the groups; a tuple of columns is their intersection.
    clusters : list
        Clusters that count as selected.
    p_value : float
        Probability of a difference at least as large if clusters did not depend on the groups:
        Fisher's exact test for two groups, else the chi-square test where all expected counts are
        at least 5, else a permutation test. Multiplied by the number of tables of the attribute,
        at most 1.
    test : str
        Which of the three.
    """

    attribute: Any
    clusters: list[Any]
    p_value: float
    test: str

    @property
    def impact_ratio(self) -> float:
        """The smallest impact ratio of a named group; 1 if there is one group only."""
        ratios = [record["impact_ratio"] for record in self.records]
        return min((ratio for ratio in ratios if ratio is not None), default=1.0)


@dataclass(frozen=True)
class SelectionRates:
    """Selection rates of every sensitive column and of their intersection.

    Attributes
    ----------
    tables : list of SelectionTable
        One for each column, then for the intersection: all favourable clusters together if there
        are several, then each by itself.
    """

    tables: list[SelectionTable]

    @property
    def impact_ratio(self) -> float:
        """The smallest impact ratio of all tables."""
        return min(table.impact_ratio for table in self.tables)

    @property
    def p_value(self) -> float:
        """The smallest p-value of all tables."""
        return min(table.p_value for table in self.tables)

    @property
    def records(self) -> list[dict[str, Any]]:
        """Records of all tables, for instance for a data frame."""
        return [
            {"attribute": table.attribute, "clusters": table.clusters, "p_value": table.p_value}
            | record
            for table in self.tables
            for record in table.records
        ]

    def _repr_html_(self) -> str:
        return RecordTable(self.records)._repr_html_()


def selection_rates(
    labels: Labels, *, sensitive_features: Table, favourable: Sequence[Any] | None = None
) -> SelectionRates:
    """Selection rates and impact ratios of each group, with tests and intervals.

    For favourable clusters F the selection rate of group r is the share of its rows that are in F,
    and its impact ratio is this rate over that of the group with the highest rate. Four fifths is
    a rule of thumb for such ratios; whether it applies, and to which clusters, is not a question
    that a program can answer. P-values and intervals treat the rows as a random sample. The group
    with the highest observed rate may owe part of it to chance: with many groups of equal rates
    the intervals of the ratios cover less than 95 % (90 % for five groups of 100 rows), so prefer
    the p-value there.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        Cluster of each row; None or NaN is a row that is in no cluster, hence not selected.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Group of each row. Missing values are counted and shown, and take no part in tests.
    favourable : sequence, default=None
        Clusters that count as selected; by default each cluster is one such set.

    Returns
    -------
    rates : SelectionRates
        Tables of each column, and of their intersection.

    Examples
    --------
    >>> from fairanchor.audit import selection_rates
    >>> labels, sex = ["in"] * 50 + ["out"] * 50, ["f", "m", "m", "m", "f"] * 20
    >>> rates = selection_rates(labels, sensitive_features=sex, favourable=["in"])
    >>> [(record["group"], record["rate"]) for record in rates.records]
    [('f', 0.5), ('m', 0.5)]
    >>> rates.impact_ratio, rates.p_value
    (1.0, 1.0)
    """
    check_pairing(labels, sensitive_features, "labels")
    names = attribute_names(sensitive_features, len(columns_of(sensitive_features)))
    labels = np.asarray(labels, dtype=object)
    codes, clusters = encode_names(labels, missing="own_group")
    group_codes, groups = encode_names(sensitive_features, len(codes), missing="own_group")
    counts = count_cells(codes, group_codes, len(clusters), len(groups))
    is_cluster = [name is not None for name in clusters]
    named = [name for name in clusters if name is not None]
    without = counts[~np.array(is_cluster)].sum(axis=0)
    return rates_of_counts(counts[is_cluster], without, groups, named, names, favourable)


def rates_of_counts(
    counts: np.ndarray,
    without: np.ndarray,
    groups: Sequence[Any],
    clusters: Sequence[Any],
    columns: Sequence[Any],
    favourable: Sequence[Any] | None = None,
) -> SelectionRates:
    """`selection_rates` of a clusters × groups table; ``without`` counts rows in no cluster."""
    clusters, groups = list(clusters), list(groups)
    chosen = clusters if favourable is None else list(dict.fromkeys(favourable))
    unknown = [name for name in chosen if name not in clusters]
    if unknown or not chosen:
        raise ValueError(
            f"favourable={list(favourable or ())!r} should name clusters of the labels, which are "
            f"{clusters[:20]}."
        )
    sets = [[name] for name in chosen]
    if favourable is not None and len(chosen) > 1:
        sets.insert(0, chosen)
    everyone = Composition(np.vstack([counts, without]), [*clusters, None], groups)
    attributes = [(columns[0], everyone)]
    if len(columns) > 1:
        attributes = [*everyone.by_column(columns), (tuple(columns), everyone)]
    tables = []
    for attribute, part in attributes:
        for wanted in sets:
            selected = part.table[[clusters.index(name) for name in wanted]].sum(axis=0)
            totals = part.table.sum(axis=0)
            tables.append(_table(attribute, wanted, part.groups, selected, totals, len(sets)))
    return SelectionRates(tables)


def _table(
    attribute: Any,
    clusters: list[Any],
    names: list[Any],
    selected: np.ndarray,
    totals: np.ndarray,
    n_tables: int,
) -> SelectionTable:
    is_named = [None not in (name if isinstance(name, tuple) else (name,)) for name in names]
    known = [r for r in range(len(names)) if is_named[r] and totals[r] > 0]
    rates = np.divide(selected, totals, out=np.zeros(len(totals)), where=totals > 0)
    best = max(known, key=lambda r: rates[r], default=-1)
    records = []
    for r in [*known, *(r for r in range(len(names)) if not is_named[r])]:
        ratio = interval = None
        if r in known:
            ratio = float(rates[r] / rates[best]) if rates[best] > 0 else 1.0
            interval = ratio_interval(selected[r], totals[r], selected[best], totals[best])
        records.append(
            {
                "group": names[r],
                "rows": int(totals[r]),
                "selected": int(selected[r]),
                "rate": float(rates[r]),
                "rate_interval": rate_interval(selected[r], totals[r]),
                "impact_ratio": ratio,
                "impact_ratio_interval": interval if r != best else None,
                "below_four_fifths": ratio is not None and ratio < FOUR_FIFTHS,
                "small": bool(totals[r] < SMALL_SHARE * totals.sum()),
            }
        )
    p_value, test = independence(selected[known], totals[known])
    return SelectionTable(records, attribute, clusters, min(1.0, p_value * n_tables), test)


# Statistics of counts.


def rate_interval(selected: float, total: float) -> tuple[float, float]:
    """Exact interval of a proportion (Clopper and Pearson): covers it at least so often."""
    tail = (1.0 - LEVEL) / 2.0
    low = beta.ppf(tail, selected, total - selected + 1) if selected > 0 else 0.0
    high = beta.ppf(1.0 - tail, selected + 1, total - selected) if selected < total else 1.0
    return float(low), float(high)


def ratio_interval(
    selected: float, total: float, best: float, best_total: float
) -> tuple[float, float] | None:
    """Interval of a ratio of proportions (Katz); None where it is not defined."""
    if min(selected, best) == 0:
        return None
    counts = map(int, (selected, total, best, best_total))
    low, high = relative_risk(*counts).confidence_interval(LEVEL)
    return float(low), float(high)


def independence(selected: Iterable[float], totals: Iterable[float]) -> tuple[float, str]:
    """P-value of "all groups have the same rate", and the name of the test."""
    selected, totals = np.asarray(selected), np.asarray(totals)
    table = np.array([selected, totals - selected], dtype=np.int64)
    if len(totals) < 2 or (table.sum(axis=1) == 0).any():
        return 1.0, "no comparison"
    if len(totals) == 2:
        return float(fisher_exact(table).pvalue), "Fisher's exact test"
    expected = np.outer(table.sum(axis=1), totals) / totals.sum()
    if expected.min() >= LEAST_EXPECTED:
        return float(chi2_contingency(table, correction=False).pvalue), "chi-square test"
    draws = np.random.default_rng(0).multivariate_hypergeometric(
        totals.astype(np.int64), int(table[0].sum()), N_DRAWS, method="marginals"
    )
    # The lower row follows from the upper one, so that it adds nothing to the order of tables.
    weights = 1.0 / expected[0] + 1.0 / expected[1]
    return _exceeded(draws - expected[0], table[0] - expected[0], weights), "permutation test"


def goodness_of_fit(counts: np.ndarray, shares: np.ndarray) -> float:
    """P-value of "the counts are a sample of a population with these shares"."""
    counts, possible = np.asarray(counts), np.asarray(shares) > 0
    total = int(counts.sum())
    if total == 0 or len(counts) < 2:
        return 1.0
    if counts[~possible].sum() > 0:
        return 0.0
    counts, shares = counts[possible], shares[possible] / shares[possible].sum()
    if len(counts) < 2:
        return 1.0
    expected = total * shares
    if expected.min() >= LEAST_EXPECTED:
        return float(chisquare(counts, expected).pvalue)
    draws = np.random.default_rng(0).multinomial(total, shares, N_DRAWS)
    return _exceeded(draws - expected, counts - expected, 1.0 / expected)


def _exceeded(draws: np.ndarray, observed: np.ndarray, weights: np.ndarray) -> float:
    """P-value of a simulation: how often the statistic is at least as large as the observed."""
    statistic = float(observed**2 @ weights)
    n_larger = np.count_nonzero(draws**2 @ weights >= statistic * (1.0 - 1e-9))
    return (1.0 + n_larger) / (1.0 + len(draws))
