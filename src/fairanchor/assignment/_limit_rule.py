"""What is asked of the clusters of a table, and the best labels that keep it.

Rows always carry the code of their *joint* group, whether the limits are on these groups
or on each sensitive column by itself: nothing but this rule has to know the difference.
"""

from dataclasses import dataclass, replace

import numpy as np

from fairanchor._kernels._tolerance import raise_rewards
from fairanchor.assignment._cell_program import solve_by_prices
from fairanchor.assignment._price_newton import smoothed_start
from fairanchor.assignment._several_attributes import assign_by_attributes
from fairanchor.assignment._share_limits import LimitRows, ShareLimits
from fairanchor.assignment._tolerance import (
    FairAssignment,
    assign_within_limits,
    count_cells,
    scored_rows,
    total_score,
)
from fairanchor.assignment._transport import transport_rows


@dataclass(frozen=True)
class LimitRule:
    """Limits on the shares of one or several attributes, and on the sizes of the clusters.

    Attributes
    ----------
    limits : tuple of ShareLimits
        One per attribute; limits on sizes are those of the first.
    joint : ndarray of shape (n_groups, n_attributes), or None
        Group in each attribute, of each group that rows have a code of. None if these groups
        are the only attribute.
    """

    limits: tuple
    joint: np.ndarray | None = None

    @property
    def n_clusters(self):
        return self.limits[0].n_clusters

    def margins(self, table):
        """Tables of the attributes, from that of the rows' groups."""
        if self.joint is None:
            return [table]
        tables = []
        for a, own in enumerate(self.limits):
            margin = np.zeros(own.lower.shape, dtype=table.dtype)
            np.add.at(margin.T, self.joint[:, a], table.T)
            tables.append(margin)
        return tables

    def violations(self, table):
        """By how many rows each attribute's worst cell, or a size, misses its limit."""
        tables = self.margins(np.asarray(table))
        return [own.violation(one) for own, one in zip(self.limits, tables, strict=True)]

    def assign(self, rows, scores, *, start=None, incumbent=None):
        """The best labels of `MemoryRows` within the limits.

        Parameters
        ----------
        rows : MemoryRows
            With rows of every group.
        scores : ndarray of shape (n_rows, n_clusters)
            How well each row fits each cluster.
        start : list of ndarray, default=None
            ``multipliers`` of a similar problem.
        incumbent : FairAssignment, default=None
            Earlier labels of the same rows. The result misses the limits by no more than these,
            and if by no less costs no more (where rows have no unequal weights).

        Returns
        -------
        result : FairAssignment
            Tables with a column for each group of the rows.
        """
        options = {"copies": rows.has_copies, "start": start, "n_jobs": rows.n_jobs}
        if rows.is_weighted or rows.has_copies:
            options["weights"] = rows.weights
        if self.joint is None:
            result = assign_within_limits(scores, rows.group_codes, self.limits[0], **options)
        else:
            codes = self.joint[rows.group_codes]
            result = assign_by_attributes(scores, codes, list(self.limits), warn=False, **options)
            result = _in_order_of(self.joint, result)
        if incumbent is None:
            return result
        return self._better_of(rows, scores, result, incumbent)

    def _better_of(self, rows, scores, result, incumbent):
        """The best labels with the incumbent's table instead, if these are the better ones."""
        kept = max(self.violations(incumbent.counts))
        if kept > result.violation:
            return result
        cost = -total_score(_scored(rows, scores), incumbent.labels, incumbent.split)
        if kept == result.violation and cost >= result.cost:
            return result
        again = self.relabel(rows, scores, result, incumbent)
        if rows.is_weighted and (again.violation > kept or again.cost > cost):
            # The rounding of the very same weights came out worse.
            return replace(again, labels=incumbent.labels, counts=incumbent.counts, cost=cost,
                           violation=kept)  # fmt: skip
        return again

    def relabel(self, rows, scores, result, incumbent):
        """A result with the incumbent's table and the best labels for it."""
        moved = transport_rows(rows, scores, incumbent.counts, start=incumbent.prices)
        own = _scored(rows, scores)
        counts = incumbent.counts if not rows.is_weighted else count_cells(moved.labels, own)
        changes = {
            "labels": moved.labels,
            "split": moved.split,
            "counts": counts,
            "prices": moved.prices,
            "cost": -total_score(own, moved.labels, moved.split),
            "violation": max(self.violations(counts)),
        }
        if self.joint is not None:
            changes["attribute_counts"] = self.margins(counts)
            changes["violations"] = self.violations(counts)
        return replace(result, **changes)

    def estimate(self, rows, scores, start=None):
        """Labels that keep the limits but for the rows that the linear program splits.

        Returns
        -------
        bound : float
            Value of the program: no labels within the limits cost less.
        labels : ndarray of shape (n_rows,)
        start : list of ndarray
            For the next estimate, or for `assign`.
        """
        own = _scored(rows, scores)
        limit_rows = LimitRows.of(list(self.limits), self.joint)
        constraints = limit_rows.constraints
        if len(constraints.right) == 0:
            bound, _, labels, _ = own.prefer(np.zeros(constraints.shape))
            return bound, labels, None
        begin = None if start is None else limit_rows.from_tables(start)
        begin = smoothed_start(own, constraints, begin)
        # What is only smoothed can be far off where a group is small.
        solution = solve_by_prices(own, constraints, begin)
        labels = own.prefer(solution.prices)[2]
        tables = limit_rows.to_tables(solution.multipliers, list(self.limits))
        return solution.bound, labels, tables


def proportional_rule(group_sizes, n_clusters, tolerance, *, min_size=0.0, joint=None):
    """Every cluster mirrors the data up to a tolerance, in each attribute.

    Parameters
    ----------
    group_sizes : ndarray of shape (n_groups,)
        Weight of the groups that rows have a code of.
    n_clusters : int
    tolerance : float in [0, 1]
    min_size : float
        Least weight of a cluster.
    joint : ndarray of shape (n_groups, n_attributes), default=None
        As in `LimitRule`.

    Returns
    -------
    rule : LimitRule
    """
    sizes = [group_sizes]
    if joint is not None:
        sizes = [np.bincount(codes, weights=group_sizes) for codes in joint.T]
    limits = tuple(
        ShareLimits.proportional(own, n_clusters, tolerance, least=min_size) for own in sizes
    )
    return LimitRule(limits, joint)


def bound_of_prices(rows, scores, prices):
    """Lower bound on the cost of labels whose clusters all mirror the data, by given prices.

    Any prices whose mean over the data is the same for all clusters give one.

    Parameters
    ----------
    rows : MemoryRows
    scores : ndarray of shape (n_rows, n_clusters)
    prices : ndarray of shape (n_clusters, n_groups)
        As in `FairAssignment`.
    """
    own = _scored(rows, scores)
    # That of a cell without rows can be out of all reach, which would spoil the cluster's mean.
    prices = prices.copy()
    raise_rewards(own.scores, own.group_codes, prices)
    shares = own.group_sizes / own.group_sizes.sum()
    return own.prefer((prices @ shares)[:, None] - prices).value


def incumbent_of(rows, labels, split, prices):
    """Labels of `MemoryRows` that come from elsewhere, as an incumbent."""
    counts = np.zeros(prices.shape)
    np.add.at(counts, (labels, rows.group_codes), rows.weights)
    for row, parts in split.items():
        counts[labels[row], rows.group_codes[row]] -= rows.weights[row]
        for cluster, number in parts:
            counts[cluster, rows.group_codes[row]] += number
    if not rows.is_weighted:
        counts = np.rint(counts).astype(np.int64)
    return FairAssignment(labels, counts, prices, np.nan, np.nan, np.nan, [], split)


def _scored(rows, scores):
    return scored_rows(scores, rows.group_codes, rows.n_groups, rows.weights, rows.n_jobs)


def _in_order_of(joint, result):
    """The result's columns, which are in lexicographic order, in that of the groups."""
    place = np.empty(len(joint), dtype=np.int64)
    place[np.lexsort(joint.T[::-1])] = np.arange(len(joint))
    return replace(
        result,
        counts=np.ascontiguousarray(result.counts[:, place]),
        prices=np.ascontiguousarray(result.prices[:, place]),
        joint_groups=joint,
    )
