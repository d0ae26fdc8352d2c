"""Labels of least cost under a constraint, for rows in memory or in chunks.

1. *Dual*: prices of the cells under which rows meet the constraint, nearly (`_dual`).
2. *Program*: the value of the linear program, where it is small enough to be solved (`_program`).
3. *Table*: whole numbers of rows for the cells (`_rounding`).
4. *Transport*: the cheapest labels with this table, and a proof (`_transport`).
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairanchor.assignment._dual import WIDTH, Dual, solve_dual
from fairanchor.assignment._program import Program, solve_program
from fairanchor.assignment._rounding import (
    largest_remainder,
    raise_small_sizes,
    round_targets,
    whole_table,
)
from fairanchor.assignment._sweep import Costs, KnownCosts, SweepTask, Swept, sweep
from fairanchor.assignment._transport import Transported, transport
from fairanchor.constraints._bounds import CellConstraints
from fairanchor.constraints._constraint import Constraint


@dataclass(frozen=True)
class Assignment:
    """Labels that satisfy a constraint, and what is known about them.

    Attributes
    ----------
    costs : object
    transported : Transported
        Labels and prices.
    targets : ndarray of shape (n_clusters, n_groups)
        What the cells should weigh: what was asked for, or the table that was chosen.
    totals : ndarray of shape (n_clusters, n_groups)
        The same in whole rows, where rows are whole.
    cost : float
    lp_value : float
        No labels that satisfy the constraint cost less, fractional ones included.
    multipliers : ndarray of shape (n_bounds,)
        A start for similar problems.
    """

    costs: Costs
    transported: Transported
    targets: np.ndarray
    totals: np.ndarray
    cost: float
    lp_value: float
    multipliers: np.ndarray = field(repr=False)

    def labels(self, rows: Any) -> np.ndarray:
        """Labels of all rows in memory, copies of merged rows included."""
        return rows.spread(*self.transported.memory_labels())

    def labellers(self) -> Iterator["Labeller"]:
        """For every chunk of rows a function that labels it."""
        moved = self.transported
        task = SweepTask(self.costs, moved.swept.prices, moved.swept.widths)
        for start, stop in itertools.pairwise(moved.swept.chunks.tolist()):
            own = {row - start: parts for row, parts in moved.split.items() if start <= row < stop}
            yield Labeller(task, moved.labels[start:stop], own)

    @property
    def gap(self) -> float:
        """Cost of the labels above a lower bound for labels with the same totals."""
        moved = self.transported
        return max(self.cost - (moved.value() - float((moved.prices * self.totals).sum())), 0.0)

    @property
    def prices(self) -> np.ndarray:
        """Row i of group r has the least ``costs[i, l] + prices[l, r]`` at its label."""
        return self.transported.prices


@dataclass(frozen=True)
class Labeller:
    """Labels one chunk. It is small, because it is sent to where the chunk is.

    Attributes
    ----------
    task : callable
        The sweep that sorted the rows.
    labels : ndarray of shape (n_band_rows,)
        Of the chunk's rows in the band.
    split : dict
        Of these rows, those whose copies have different labels.
    """

    task: SweepTask
    labels: np.ndarray
    split: dict

    def __call__(self, chunk: Any) -> np.ndarray:
        swept = self.task.of_chunk(chunk)
        labels = np.array(swept.labels)
        labels[swept.rows] = self.labels
        split = {int(swept.rows[row]): parts for row, parts in self.split.items()}
        return chunk.distinct.spread(labels, split)


@dataclass(frozen=True)
class Unassigned:
    """The attributes of an `Assignment` that ``assignment="argmax"`` has: no price is needed."""

    targets: np.ndarray
    gap = 0.0
    multipliers = np.empty(0)

    @property
    def prices(self) -> np.ndarray:
        return np.zeros(self.targets.shape)


def with_known_costs(rows: Any, costs: Costs) -> tuple[Any, KnownCosts]:
    """Rows in memory whose features are the costs."""
    table = rows.map_to_table(costs.write, costs.n_clusters)
    return rows.with_features(table), KnownCosts(costs.n_clusters)


def unconstrained(rows: Any, costs: Costs) -> tuple[tuple, np.ndarray, float]:
    """What rows do without a constraint.

    Parameters
    ----------
    rows : MemoryRows
    costs : object
        As in `assign`.

    Returns
    -------
    known : tuple
        Rows and costs for what follows, computed once.
    mass : ndarray of shape (n_clusters, n_groups)
        Weight of each group's rows by their cheapest cluster.
    cost : float
        Weighted sum of these costs.
    """
    rows, costs = with_known_costs(rows, costs)
    nothing = np.zeros((costs.n_clusters, rows.n_groups))
    swept = sweep(rows, costs, nothing, 0.0)
    return (rows, costs), swept.mass(nothing), swept.value(nothing)


def assign(
    rows: Any,
    costs: Costs,
    constraint: Constraint,
    *,
    cells: CellConstraints | None = None,
    start: np.ndarray | None = None,
    sample: Any = None,
    min_size: float = 0.0,
    known: Swept | None = None,
    temperature: float = np.inf,
) -> Assignment:
    """The cheapest labels under a constraint.

    Parameters
    ----------
    rows : MemoryRows or ChunkedRows
        Equal rows may be merged.
    costs : object
        ``n_clusters``, and ``write(block, out)`` as `sweep` takes it.
    constraint : Constraint
    cells : CellConstraints, default=None
        The same as linear bounds, if they are known.
    start : ndarray of shape (n_bounds,), default=None
        Multipliers of a similar problem.
    sample : MemoryRows, default=None
        A weighted sample of rows in chunks.
    min_size : float
        Least weight of a cluster, where the constraint is exact proportions.
    known : Swept, default=None
        A pass over the rows at these costs, near the start.
    temperature : float
        As in `solve_dual`.

    Returns
    -------
    assignment : Assignment
    """
    constraints = cells or constraint.cells(rows.group_sizes, costs.n_clusters)
    dual = solve_dual(
        rows, costs, constraints, start=start, sample=sample, known=known, temperature=temperature
    )
    whole = not rows.is_weighted
    program: Program | None
    if constraint.targets is None:
        program = solve_program(rows, costs, constraints, dual)
        targets, totals = _chosen_table(rows, constraint, dual, program, min_size)
    else:
        targets = constraint.targets
        totals = round_targets(targets, rows.group_sizes, whole=whole)
        # Whole targets are met, by labels that are optimal: they need no other proof.
        is_met = whole and np.array_equal(totals, targets)
        program = None if is_met else solve_program(rows, costs, constraints, dual)
    prices = dual.prices if program is None else constraints.prices(program.multipliers)
    moved = transport(rows, costs, totals, prices, WIDTH * dual.temperature, dual.swept)
    cost = moved.cost()
    if program is None:
        return Assignment(costs, moved, targets, totals, cost, cost, dual.multipliers)
    return Assignment(costs, moved, targets, totals, cost, program.value, program.multipliers)


def labels_with_totals(rows: Any, costs: Costs, totals: np.ndarray) -> np.ndarray:
    """The cheapest labels of rows in memory whose cells weigh ``totals``."""
    dual = solve_dual(rows, costs, CellConstraints.of_table(totals))
    moved = transport(rows, costs, totals, dual.prices, WIDTH * dual.temperature, dual.swept)
    return rows.spread(*moved.memory_labels())


def _chosen_table(
    rows: Any, constraint: Constraint, dual: Dual, program: Program, min_size: float
) -> tuple[np.ndarray, np.ndarray]:
    """Targets of the cells within the constraint, and totals in whole rows."""
    whole, table = not rows.is_weighted, np.maximum(program.table, 0.0)
    if constraint.rule is None:  # the population's shares
        sizes = raise_small_sizes(table.sum(axis=1), min_size)
        if whole:
            sizes = largest_remainder(sizes, int(rows.total)).astype(np.float64)
        targets = np.outer(sizes, rows.group_sizes) / rows.total
        return targets, round_targets(targets, rows.group_sizes, whole=whole)
    # Every row where it costs least, if that is within the bounds.
    alone = dual.swept.mass(dual.prices)
    if not dual.prices.any() and max(constraint.rule.violations(alone)) == 0.0:
        totals = np.rint(alone).astype(np.int64) if whole else alone
        return alone, totals
    if whole:
        totals = whole_table(constraint.rule, table, rows.group_sizes)
        return totals, totals
    columns = table.sum(axis=0)  # zero for a group whose rows have no weight
    table = table * (rows.group_sizes / np.where(columns > 0, columns, 1.0))
    return table, table
