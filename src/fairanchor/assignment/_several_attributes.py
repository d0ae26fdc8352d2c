"""The cheapest labels when several attributes have limits, each by itself.

A row is in one group of each attribute; rows that agree in all of them are a *joint*
group. The limits are on the margins of the table of clusters × joint groups, so the price
of a cell is a sum over the attributes, and the linear program is the same as for one
attribute (`_cell_program`). Its rounding is not: integer tables with given margins in
three or more directions are no flow. A small integer program looks for one near the
fractional table; the labels then come from the exact transport of each joint group.

No violation is promised beforehand. In the linear program's solution at most
``(c - 1) (sum_a (h_a - 1) + 1)`` rows are split between clusters, so that some rounding
misses no limit by more rows than that; what was found, nearly always less than one, is
reported, and warned about if it is not.
"""

import warnings
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from fairanchor.assignment._cell_program import solve_by_prices
from fairanchor.assignment._feasibility import check_limits
from fairanchor.assignment._integer_table import (
    FEW_CELLS,
    FEW_ROWS,
    outward_bounds,
    round_sizes,
    sizes_of_strict_table,
    strict_bounds,
    strictly_possible_sizes,
)
from fairanchor.assignment._price_newton import smoothed_start
from fairanchor.assignment._scored_rows import ScoredRows
from fairanchor.assignment._share_limits import LimitRows
from fairanchor.assignment._tolerance import FairAssignment, count_cells, scored_rows, total_score
from fairanchor.assignment._transport import transport
from fairanchor.exceptions import FairnessWarning

# How far from the fractional table an integer one is looked for.
REACHES = (3, 12)
# Of the search for it: where it ends without a proof, the best table found is as good.
MAX_NODES = 2_000
# Rows near a tie from which the cost of moving one more is estimated.
SPACING_ROWS = 50


@dataclass(frozen=True)
class AttributesAssignment(FairAssignment):
    """Labels within the limits of several attributes.

    ``counts`` and ``prices`` have a column for each joint group, ``violation`` is that of
    the worst attribute.

    Attributes
    ----------
    joint_groups : ndarray of shape (n_joint, n_attributes)
        Codes of the joint groups.
    attribute_counts : list of ndarray of shape (n_clusters, n_groups)
        Rows in each cell, for each attribute.
    attribute_prices : list of ndarray of shape (n_clusters, n_groups)
        Their sum over a row's groups takes the place of ``prices`` for a combination of
        groups that has not been seen.
    violations : list of float
        Of each attribute.
    """

    joint_groups: np.ndarray = None
    attribute_counts: list = field(default_factory=list)
    attribute_prices: list = field(default_factory=list)
    violations: list = field(default_factory=list)

    def prices_for(self, attribute_codes):
        """Prices for rows with these codes, of combinations seen or not.

        Parameters
        ----------
        attribute_codes : ndarray of shape (n_rows, n_attributes)

        Returns
        -------
        prices : ndarray of shape (n_rows, n_clusters)
        """
        known = {tuple(codes): j for j, codes in enumerate(self.joint_groups.tolist())}
        distinct, place = np.unique(attribute_codes, axis=0, return_inverse=True)
        table = np.empty((len(distinct), len(self.counts)))
        for k, codes in enumerate(distinct.tolist()):
            j = known.get(tuple(codes))
            if j is None:
                table[k] = sum(
                    own[:, r] for own, r in zip(self.attribute_prices, codes, strict=True)
                )
            else:
                table[k] = self.prices[:, j]
        return table[place.reshape(-1)]


def assign_by_attributes(
    scores,
    attribute_codes,
    limits,
    *,
    weights=None,
    copies=False,
    start=None,
    n_jobs=None,
    warn=True,
):
    """Best labels in which every attribute is within its limits.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_clusters)
        How well each row fits each cluster; minus the costs.
    attribute_codes : ndarray of shape (n_rows, n_attributes)
        Group of each row, in each attribute.
    limits : list of ShareLimits
        One per attribute; limits on sizes are those of the first.
    weights : ndarray of shape (n_rows,), default=None
        Then limits are met in weight, up to the rows that the linear program splits.
    copies : bool, default=False
        Whether the weights are numbers of equal rows, which may get different labels.
    start : list of ndarray, default=None
        ``multipliers`` of a similar problem.
    n_jobs : int, default=None
    warn : bool, default=True
        Whether limits that are missed by a row or more are warned about.

    Returns
    -------
    result : AttributesAssignment
    """
    attribute_codes = np.asarray(attribute_codes)
    if attribute_codes.ndim != 2 or attribute_codes.shape[1] != len(limits):
        raise ValueError(
            f"attribute_codes has shape {attribute_codes.shape}, expected (n_rows, "
            f"{len(limits)}): one column for each of the {len(limits)} limits."
        )
    joint, codes = joint_groups(attribute_codes)
    if weights is None or copies:
        limits = [own.in_whole_rows() for own in limits]
    rows = scored_rows(scores, codes, len(joint), weights, n_jobs)
    problem = _Problem(rows, limits, joint, weights, copies)
    problem.refuse_contradictions()
    result = problem.unconstrained()
    if result is None:
        result = problem.solve(start)
        if warn:
            problem.warn_if_missed(result)
    return result


def joint_groups(attribute_codes):
    """Distinct rows of codes in lexicographic order, and the number of each row's."""
    key = np.zeros(len(attribute_codes), dtype=np.int64)
    for own in attribute_codes.T:
        key = np.unique(key * (int(own.max()) + 1) + own, return_inverse=True)[1].reshape(-1)
    first = np.unique(key, return_index=True)[1]
    return attribute_codes[first].astype(np.int64), key


@dataclass(frozen=True)
class _Problem:
    rows: ScoredRows
    limits: list
    joint: np.ndarray
    weights: np.ndarray | None
    copies: bool

    @property
    def whole(self):
        return self.weights is None or self.copies

    @property
    def shape(self):
        return self.limits[0].n_clusters, len(self.joint)

    def margins(self, table):
        """Tables of the attributes, from that of the joint groups."""
        tables = []
        for a, own in enumerate(self.limits):
            margin = np.zeros(own.lower.shape, dtype=table.dtype)
            np.add.at(margin.T, self.joint[:, a], table.T)
            tables.append(margin)
        return tables

    def refuse_contradictions(self):
        """Raise where no assignment, fractional ones included, meets all limits."""
        sizes = self.rows.group_sizes
        for a, own in enumerate(self.limits):
            of_groups = np.bincount(self.joint[:, a], weights=sizes, minlength=own.lower.shape[1])
            if not own.allow_proportions(of_groups):
                check_limits(self.limits, sizes, joint=self.joint).raise_if_infeasible()
                return

    def unconstrained(self):
        """Every row where it fits best, if that is within the limits; else None."""
        no_prices = np.zeros(self.shape)
        cost, counts, labels, _ = self.rows.prefer(no_prices)
        tables = self.margins(counts)
        if any(own.violation(table) > 0 for own, table in zip(self.limits, tables, strict=True)):
            return None
        if self.whole:
            counts = np.rint(counts).astype(np.int64)
        nothing = [np.zeros(own.lower.shape) for own in self.limits]
        multipliers = [np.zeros((self.shape[0], 1)), *nothing]
        return self._result(labels, {}, counts, no_prices, nothing, cost, cost, multipliers)

    def solve(self, start):
        limit_rows = LimitRows.of(self.limits, self.joint)
        constraints = limit_rows.constraints
        begin = None if start is None else limit_rows.from_tables(start)
        begin = smoothed_start(self.rows, constraints, begin)
        relaxed = solve_by_prices(self.rows, constraints, begin)
        if self.whole:
            totals = self._whole_table(relaxed)
        else:
            totals = np.maximum(relaxed.table, 0.0)
            columns = totals.sum(axis=0)  # zero for a group whose rows have no weight
            totals *= self.rows.group_sizes / np.where(columns > 0, columns, 1.0)
        moved = transport(
            self.rows.scores, self.rows.group_codes, totals, weights=self.weights,
            copies=self.copies, start=-relaxed.prices, n_jobs=self.rows.n_jobs,
        )  # fmt: skip
        counts = totals if self.whole else count_cells(moved.labels, self.rows)
        multipliers = limit_rows.to_tables(relaxed.multipliers, self.limits)
        cost = -total_score(self.rows, moved.labels, moved.split)
        return self._result(
            moved.labels, moved.split, counts, moved.prices,
            self._attribute_prices(relaxed.prices, multipliers), cost, relaxed.bound, multipliers,
        )  # fmt: skip

    def _attribute_prices(self, prices, multipliers):
        """Prices of each attribute, whose sum over a joint group's are its prices."""
        parts = [-net for net in multipliers[1:]]
        of_cells = sum(part[:, self.joint[:, a]] for a, part in enumerate(parts))
        # What is left is the price of the cluster itself.
        parts[0] = parts[0] + (-prices - of_cells).mean(axis=1, keepdims=True)
        return parts

    def _result(self, labels, split, counts, prices, parts, cost, bound, multipliers):
        tables = self.margins(counts)
        violations = [own.violation(table) for own, table in zip(self.limits, tables, strict=True)]
        return AttributesAssignment(
            labels, counts, prices, cost, bound, max(violations), multipliers, split,
            joint_groups=self.joint, attribute_counts=tables, attribute_prices=parts,
            violations=violations,
        )  # fmt: skip

    def _whole_table(self, relaxed):
        """An integer table near the fractional one, as far within the limits as can be found."""
        nearest = np.rint(relaxed.table)
        if np.abs(nearest - relaxed.table).max() <= 1e-6:
            return nearest.astype(np.int64)
        sizes = relaxed.table.sum(axis=1)
        rounded = round_sizes(sizes, int(np.rint(sizes.sum())))
        spacing = self._spacing(relaxed.prices)
        for chosen, reach in self._candidates(relaxed.table, rounded):
            bounds = [strict_bounds(own, chosen) for own in self.limits]
            table = self._table_within(bounds, chosen, relaxed, spacing, reach)
            if table is not None:
                return table
        outside = 0
        while True:
            bounds = [outward_bounds(own, rounded, outside) for own in self.limits]
            for reach in REACHES:
                table = self._table_within(bounds, rounded, relaxed, spacing, reach + outside)
                if table is not None:
                    return table
            outside = max(1, 2 * outside)

    def _candidates(self, table, rounded):
        """Sizes with which all limits may be met, best first, and how far to look for a table."""
        near = strictly_possible_sizes(self.limits, table.sum(axis=1))
        for sizes in (rounded, near):
            if sizes is not None:
                yield from ((sizes, reach) for reach in REACHES)
        if rounded.sum() <= FEW_ROWS and table.size <= FEW_CELLS:
            anywhere = sizes_of_strict_table(self.limits, table, self.joint)
            if anywhere is not None:
                yield anywhere, int(rounded.sum())

    def _spacing(self, prices):
        """About what it costs to move one more row of each joint group."""
        margins = self.rows.prefer(prices)[3]
        spacing = np.empty(len(self.joint))
        for j in range(len(self.joint)):
            own = margins[self.rows.group_codes == j]
            k = min(SPACING_ROWS, len(own) - 1)
            spacing[j] = np.partition(own, k)[k] / (k + 1)
        return spacing

    def _table_within(self, bounds, sizes, relaxed, spacing, reach):
        """Integer joint table with these sizes and margins within bounds, or None."""
        n_clusters, n_joint = self.shape
        if any((low > high).any() for low, high in bounds):
            return None
        n_cells = n_clusters * n_joint
        each = sparse.eye_array(n_clusters)
        table = relaxed.table.ravel()
        rows = [
            sparse.kron(each, np.ones((1, n_joint))),
            sparse.kron(np.ones((1, n_clusters)), sparse.eye_array(n_joint)),
        ]
        group_sizes = np.rint(self.rows.group_sizes)
        low, high = [sizes, group_sizes], [sizes, group_sizes]
        for a, (least, greatest) in enumerate(bounds):
            in_group = self.joint[:, a] == np.arange(least.shape[1])[:, None]
            rows.append(sparse.kron(each, in_group.astype(np.float64)))
            low.append(least.ravel())
            high.append(greatest.ravel())
        limits = sparse.vstack(rows)
        # Variables: the cells, and their distances from the fractional table.
        identity = sparse.eye_array(n_cells)
        constraints = [
            LinearConstraint(
                sparse.hstack([limits, sparse.csr_array(limits.shape)]),
                np.concatenate(low),
                np.concatenate(high),
            ),
            LinearConstraint(sparse.hstack([identity, -identity]), -np.inf, table),
            LinearConstraint(sparse.hstack([identity, identity]), table, np.inf),
        ]
        unit = spacing.max() or 1.0
        distance_cost = np.tile(np.maximum(spacing, 1e-3 * unit), n_clusters)
        solution = milp(
            np.concatenate([-relaxed.prices.ravel(), distance_cost]) / unit,
            constraints=constraints,
            integrality=np.repeat([1, 0], n_cells),
            bounds=Bounds(
                np.concatenate([np.maximum(np.floor(table) - reach, 0.0), np.zeros(n_cells)]),
                np.concatenate([np.ceil(table) + reach, np.full(n_cells, np.inf)]),
            ),
            options={"node_limit": MAX_NODES},
        )
        if solution.x is None:
            return None
        return np.rint(solution.x[:n_cells]).astype(np.int64).reshape(self.shape)

    def warn_if_missed(self, result):
        """Say so where the rounding is off by a row or more, or by more than weights explain."""
        heaviest = float(self.rows.weights.max()) if not self.whole else 1.0
        if result.violation < heaviest:
            return
        n_clusters = self.shape[0]
        n_split = (n_clusters - 1) * (sum(own.lower.shape[1] - 1 for own in self.limits) + 1)
        warnings.warn(
            f"The {len(self.limits)} attributes could not all be met in whole rows: the worst "
            f"cell misses its limit by {result.violation:.3g} (attributes: "
            f"{', '.join(f'{v:.3g}' for v in result.violations)}). That is the least found; "
            f"up to {n_split} rows can be left over when several attributes are rounded at once.",
            FairnessWarning,
            stacklevel=3,
        )
