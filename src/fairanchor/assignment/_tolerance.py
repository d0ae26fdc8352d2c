"""The cheapest labels whose clusters keep shares and sizes within limits.

Among all labels with ``lower[l, r] N_l <= N[l, r] <= upper[l, r] N_l``, N_l being free or
within limits of its own, those with the largest sum of scores. In three steps:

1. the linear program over fractional labels, by its prices (`_cell_program`);
2. its cluster sizes, rounded to whole numbers (`_integer_table`);
3. with the sizes fixed the limits are bounds on the cells, and the best labels within
   them are a minimum-cost flow (`_cell_flow`), which finds the table; the exact transport of
   each group finds the labels.

So the labels are the best of all with these sizes and bounds; what is lost by fixing the
sizes is at most the difference to the first program's value, which is reported.
"""

from dataclasses import dataclass, field

import numpy as np

from fairanchor.assignment._cell_flow import best_whole_table
from fairanchor.assignment._cell_program import solve_by_prices
from fairanchor.assignment._feasibility import check_limits
from fairanchor.assignment._integer_table import choose_cells
from fairanchor.assignment._price_newton import smoothed_start
from fairanchor.assignment._scored_rows import ScoredRows
from fairanchor.assignment._share_limits import LimitRows, ShareLimits
from fairanchor.assignment._transport import transport


@dataclass(frozen=True)
class FairAssignment:
    """Labels within limits, and what is known about them.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,), dtype int32
    counts : ndarray of shape (n_clusters, n_groups)
        Rows in each cell (their weight, if there are weights).
    prices : ndarray of shape (n_clusters, n_groups)
        Row i of group r has the largest ``scores[i, l] + prices[l, r]`` at its label, up to
        ties.
    cost : float
        Minus the score of the labels.
    lp_value : float
        No labels within the limits, fractional ones included, cost less.
    violation : float
        By how many rows (or how much weight) the worst cell misses its limit.
    multipliers : list of ndarray
        Of the limits on sizes, and on each attribute's shares: a start for similar problems.
    split : dict
        With copies: the rows whose copies have different labels, with a list of (cluster,
        number of copies) each.
    """

    labels: np.ndarray
    counts: np.ndarray
    prices: np.ndarray
    cost: float
    lp_value: float
    violation: float
    multipliers: list = field(repr=False)
    split: dict = field(default_factory=dict, repr=False)

    @property
    def sizes(self):
        return self.counts.sum(axis=1)

    @property
    def gap(self):
        """What the labels cost more than the bound; negative if they miss limits to gain by it."""
        return self.cost - self.lp_value

    @property
    def strict(self):
        """Whether every limit is met."""
        return self.violation == 0.0


def assign_with_tolerance(scores, group_codes, tolerance, **options):
    """Best labels whose clusters mirror the data up to a tolerance.

    Each group's share of each cluster is in ``[(1 - tolerance) pi_r, pi_r / (1 - tolerance)]``,
    pi_r being its share of the rows: 0 asks for exact proportions, 1 for nothing.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_clusters)
        How well each row fits each cluster.
    group_codes : ndarray of shape (n_rows,)
    tolerance : float in [0, 1]
    **options
        Of `assign_within_limits`.

    Returns
    -------
    result : FairAssignment
    """
    group_sizes = np.bincount(group_codes, weights=options.get("weights"))
    limits = ShareLimits.proportional(group_sizes, scores.shape[1], tolerance)
    return assign_within_limits(scores, group_codes, limits, **options)


def assign_within_limits(
    scores,
    group_codes,
    limits,
    *,
    weights=None,
    copies=False,
    start=None,
    incumbent=None,
    n_jobs=None,
):
    """Best labels whose shares and sizes are within limits.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_clusters)
        How well each row fits each cluster; minus the costs.
    group_codes : ndarray of shape (n_rows,)
    limits : ShareLimits
        An error says where they contradict each other.
    weights : ndarray of shape (n_rows,), default=None
        Then limits are met in weight, up to the rows that the linear program splits.
    copies : bool, default=False
        Whether the weights are numbers of equal rows, which may get different labels.
    start : list of ndarray, default=None
        ``multipliers`` of a similar problem.
    incumbent : FairAssignment, default=None
        Labels of the same rows, for tighter limits or other scores. The result costs no
        more than these, if they are as far within the limits as the result.
    n_jobs : int, default=None

    Returns
    -------
    result : FairAssignment
    """
    rows = scored_rows(scores, group_codes, limits.lower.shape[1], weights, n_jobs)
    whole = weights is None or copies
    if whole:
        limits = limits.in_whole_rows()
    if not limits.allow_proportions(rows.group_sizes):
        check_limits([limits], rows.group_sizes).raise_if_infeasible()
    problem = _Problem(rows, limits, weights, copies)
    result = problem.unconstrained()
    if result is None:
        result = problem.solve(start)
        if incumbent is not None:
            result = problem.better_of(result, incumbent)
    return result


def scored_rows(scores, group_codes, n_groups, weights, n_jobs):
    return ScoredRows(
        np.ascontiguousarray(scores, dtype=np.float64),
        np.asarray(group_codes, dtype=np.int64),
        np.ones(len(scores)) if weights is None else np.asarray(weights, dtype=np.float64),
        n_groups,
        n_jobs,
    )


@dataclass(frozen=True)
class _Problem:
    rows: ScoredRows
    limits: ShareLimits
    weights: np.ndarray | None
    copies: bool

    @property
    def whole(self):
        return self.weights is None or self.copies

    def unconstrained(self):
        """Every row where it fits best, if that is within the limits; else None."""
        no_prices = np.zeros(self.limits.lower.shape)
        cost, counts, labels, _ = self.rows.prefer(no_prices)
        if self.limits.violation(counts) > 0.0:
            return None
        if self.whole:
            counts = np.rint(counts).astype(np.int64)
        multipliers = [np.zeros((self.limits.n_clusters, 1)), no_prices]
        return FairAssignment(labels, counts, no_prices, cost, cost, 0.0, multipliers)

    def solve(self, start):
        limit_rows = LimitRows.of([self.limits])
        constraints = limit_rows.constraints
        begin = None if start is None else limit_rows.from_tables(start)
        begin = smoothed_start(self.rows, constraints, begin)
        relaxed = solve_by_prices(self.rows, constraints, begin)
        multipliers = limit_rows.to_tables(relaxed.multipliers, [self.limits])
        if self.whole:
            totals, prices = self._whole_table(relaxed, multipliers[1])
        else:
            totals, prices = np.maximum(relaxed.table, 0.0), relaxed.prices
            columns = totals.sum(axis=0)  # zero for a group whose rows have no weight
            totals *= self.rows.group_sizes / np.where(columns > 0, columns, 1.0)
        return self._label(totals, prices, relaxed.bound, multipliers)

    def _whole_table(self, relaxed, net):
        """The best table of whole numbers with rounded sizes, and the prices that lead to it."""
        sizes, low, high, _ = choose_cells(self.limits, relaxed.table)
        return best_whole_table(
            self.rows, relaxed.prices, net, sizes, low, high, relaxed.nearest, relaxed.preferred
        )

    def _label(self, totals, prices, bound, multipliers):
        """Exact transport to a table."""
        rows = self.rows
        result = transport(
            rows.scores, rows.group_codes, totals, weights=self.weights, copies=self.copies,
            start=-prices, n_jobs=rows.n_jobs,
        )  # fmt: skip
        counts = totals
        if not self.whole:
            counts = count_cells(result.labels, rows)
        return FairAssignment(
            result.labels,
            counts,
            result.prices,
            -total_score(rows, result.labels, result.split),
            bound,
            self.limits.violation(counts),
            multipliers,
            result.split,
        )

    def better_of(self, result, incumbent):
        """The incumbent's table instead, if its labels cost less and miss no limit by more."""
        if self.limits.violation(incumbent.counts) > result.violation:
            return result
        cost = -total_score(self.rows, incumbent.labels, incumbent.split)
        if cost >= result.cost:
            return result
        again = self._label(
            incumbent.counts, -incumbent.prices, result.lp_value, result.multipliers
        )
        return again if again.cost < result.cost else result


def count_cells(labels, rows):
    cells = labels.astype(np.int64) * rows.n_groups + rows.group_codes
    n_cells = rows.n_clusters * rows.n_groups
    table = np.bincount(cells, weights=rows.weights, minlength=n_cells)
    return table.reshape(rows.n_clusters, rows.n_groups)


def total_score(rows, labels, split=None):
    """Scores of the rows for their labels, summed with their weights."""
    own = rows.scores[np.arange(len(labels)), labels]
    total = float(rows.weights @ own)
    for row, parts in (split or {}).items():
        total -= float(rows.weights[row] * own[row])
        total += sum(number * float(rows.scores[row, cluster]) for cluster, number in parts)
    return total
