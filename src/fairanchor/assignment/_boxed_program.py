"""The best prices within a box, by a linear program over the rows that can move."""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from fairanchor._kernels import _distinct as distinct
from fairanchor._kernels import _dual_simplex as dual_simplex
from fairanchor._kernels import _tolerance as kernels
from fairanchor.assignment._limit_matrix import CellConstraints

# Of a row: less than this is nothing.
LEAST_MASS = 1e-6
# Of the tableau: more are for a solver with sparse matrices.
DENSE_ENTRIES = 200_000


@dataclass(frozen=True)
class BoxedProgram:
    """The program over the rows near a tie, with prices that change by at most a box.

    Attributes
    ----------
    constraints : CellConstraints
    mass : ndarray of shape (n_clusters, n_groups)
        Where all rows are now.
    band : _Band
        The rows that may move.
    boxes : ndarray of shape (n_clusters, n_groups)
        Largest change of a price, not counting what is common to all of a group.
    unit : float
        Of the masses: what a row weighs.
    """

    constraints: CellConstraints
    mass: np.ndarray
    band: "_Band"
    boxes: np.ndarray
    unit: float

    @classmethod
    def near(cls, rows, constraints, prices, preferred, boxes):
        """With all rows that prices within the boxes can move."""
        chosen = rows.movable(prices, preferred, boxes)
        band = _Band.of(rows, prices, preferred.labels, chosen, boxes)
        return cls(constraints, preferred.mass, band, boxes, float(rows.weights.mean()))

    def solve(self, multipliers):
        """Better multipliers, the table they come with, and the cells whose box binds.

        If none does, no other multipliers are better.

        Variables are the masses moved, what is missing and what is too much in a cell, and what
        is left of the limits; in units of a row and of a typical regret.
        """
        unequal = np.flatnonzero(~self.constraints.is_equal)
        boxes = self.boxes.ravel()
        boxed = np.flatnonzero(np.isfinite(boxes))
        band = self.band
        cost = np.concatenate([band.regrets, boxes[boxed], boxes[boxed], multipliers[unequal]])
        price_unit = _mean(band.regrets) or _mean(boxes[boxed]) or 1.0
        upper = np.full(len(cost), np.inf)
        upper[: len(band.regrets)] = band.weights / self.unit
        program = (boxed, unequal, cost / price_unit, upper)
        solution = self._solve_dense(*program) or self._solve_sparse(*program)
        x, marginals = solution
        changed = multipliers - price_unit * marginals
        changed[unequal] = np.maximum(changed[unequal], 0.0)
        n_pairs, n_boxed = len(band.regrets), len(boxed)
        added, removed = x[n_pairs : n_pairs + 2 * n_boxed].reshape(2, n_boxed)
        changes = band.changes(x[:n_pairs], self.mass.size)
        changes[boxed] += added - removed
        binds = np.zeros(self.mass.size, dtype=np.bool_)
        binds[boxed] = added + removed > LEAST_MASS
        shape = self.mass.shape
        return changed, self.mass + self.unit * changes.reshape(shape), binds.reshape(shape)

    def _solve_dense(self, boxed, unequal, cost, upper):
        """Variables and multipliers of the limits by our own simplex method.

        None if the program is too large for it, or it does not come to a proven end.
        """
        constraints, band = self.constraints, self.band
        n_limits, n_groups = constraints.n_limits, constraints.shape[1]
        n_several = len(band.several_weights)
        n_rows = n_limits + n_groups + n_several
        if n_rows * (len(cost) + n_rows) > DENSE_ENTRIES:
            return None
        n_pairs = len(band.regrets)
        of_limits, of_groups = slice(n_limits), slice(n_limits, n_limits + n_groups)
        matrix = np.zeros((n_rows, len(cost) + n_rows))
        by_cell = constraints.dense
        matrix[of_limits, :n_pairs] = by_cell[:, band.to_cell] - by_cell[:, band.from_cell]
        own_group = np.arange(n_groups)[:, None] == boxed % n_groups
        for start, sign in ((n_pairs, 1.0), (n_pairs + len(boxed), -1.0)):
            matrix[of_limits, start : start + len(boxed)] = sign * by_cell[:, boxed]
            matrix[of_groups, start : start + len(boxed)] = sign * own_group
        matrix[unequal, len(cost) - len(unequal) + np.arange(len(unequal))] = 1.0
        matrix[n_limits + n_groups + band.several_rows, band.several] = 1.0
        matrix[:, len(cost) :] = np.eye(n_rows)
        right = np.zeros(n_rows)
        right[of_limits] = constraints.left(self.mass) / self.unit
        right[n_limits + n_groups :] = band.several_weights / self.unit
        # Limits and groups are equations: what they begin with is to vanish.
        spare = np.where(np.arange(n_rows) < n_limits + n_groups, 0.0, np.inf)
        x, marginals, is_optimal = dual_simplex.minimise_surely(
            matrix, right, np.append(cost, np.zeros(n_rows)), np.append(upper, spare)
        )
        return (x[: len(cost)], marginals[of_limits]) if is_optimal else None

    def _solve_sparse(self, boxed, unequal, cost, upper):
        """Variables and multipliers of the limits by HiGHS.

        The changes of the cells and of the sizes are variables too, which keeps the matrix sparse.
        """
        n_cells, n_limits = self.mass.size, self.constraints.n_limits
        matrix = self._matrix(boxed, unequal)
        n_free = matrix.shape[1] - len(cost)
        before = len(cost) - len(unequal)
        lowest = np.insert(np.zeros(len(cost)), before, np.full(n_free, -np.inf))
        right = np.zeros(matrix.shape[0])
        right[n_cells : n_cells + n_limits] = self.constraints.left(self.mass) / self.unit
        result = _solve(
            np.insert(cost, before, np.zeros(n_free)),
            A_eq=matrix,
            b_eq=right,
            **self.band.choices(matrix.shape[1], self.unit),
            bounds=np.column_stack([lowest, np.insert(upper, before, np.full(n_free, np.inf))]),
        )
        x = np.delete(result.x, np.arange(before, before + n_free))
        return x, result.eqlin.marginals[n_cells : n_cells + n_limits]

    def _matrix(self, boxed, unequal):
        """Equations of the cells, the limits, the groups, whose rows stay as many, and the sizes.

        Those of the groups leave it free to change all prices of a group by the same amount,
        which moves no row, beyond the box.
        """
        constraints = self.constraints
        of_cells, of_sizes = constraints.of_cells, constraints.of_sizes
        n_clusters, n_groups = constraints.shape
        n_limits, n_cells = constraints.n_limits, n_clusters * n_groups
        n_pairs, n_boxed = len(self.band.regrets), len(boxed)
        starts = np.cumsum([0, n_pairs, n_boxed, n_boxed, n_cells, n_clusters, len(unequal)])
        pairs, missing, too_much, cells, sizes, slack = (
            np.arange(*ends) for ends in itertools.pairwise(starts)
        )
        after = n_cells + n_limits
        each_cell, each_cluster = np.arange(n_cells), np.arange(n_clusters)
        entries = [
            (self.band.to_cell, pairs, 1.0),
            (self.band.from_cell, pairs, -1.0),
            (boxed, missing, 1.0),
            (boxed, too_much, -1.0),
            (each_cell, cells, -1.0),
            (n_cells + of_cells.limits, cells[of_cells.places], of_cells.values),
            (n_cells + of_sizes.limits, sizes[of_sizes.places], of_sizes.values),
            (n_cells + unequal, slack, 1.0),
            (after + each_cell % n_groups, cells, 1.0),
            (after + n_groups + each_cell // n_groups, cells, 1.0),
            (after + n_groups + each_cluster, sizes, -1.0),
        ]
        values = np.concatenate([np.broadcast_to(value, len(rows)) for rows, _, value in entries])
        rows, columns = (np.concatenate([entry[k] for entry in entries]) for k in (0, 1))
        shape = (after + n_groups + n_clusters, starts[-1])
        return sparse.csc_array((values, (rows, columns)), shape=shape)


def _solve(cost, **program):
    """An optimal vertex.

    Presolve finds nothing to take out and takes far longer than the simplex method, which
    however gives up now and then without it.
    """
    for presolve in (False, True):
        result = linprog(cost, **program, method="highs-ds", options={"presolve": presolve})
        if result.status == 0:
            return result
    raise RuntimeError(f"HiGHS could not solve the fair assignment: {result.message}")


def _mean(values):
    """What is typical, or zero of nothing; not the median, as many can be rounding errors."""
    return float(values.mean()) if len(values) else 0.0


@dataclass(frozen=True)
class _Band:
    """Pairs of a row near a tie and a cluster that it could go to.

    Attributes
    ----------
    from_cell, to_cell : ndarray of shape (n_pairs,)
        Numbers of cells: where the row is, and where it would be.
    regrets, weights : ndarray of shape (n_pairs,)
    several : ndarray of int
        Pairs of rows that have more than one: together they cannot move more than the row.
    several_rows : ndarray of int
        Number of the row of each of these pairs.
    several_weights : ndarray of shape (n_several,)
    """

    from_cell: np.ndarray
    to_cell: np.ndarray
    regrets: np.ndarray
    weights: np.ndarray
    several: np.ndarray
    several_rows: np.ndarray
    several_weights: np.ndarray

    def changes(self, moved, n_cells):
        """Of the cells, if so much of each pair is moved."""
        changes = np.zeros(n_cells)
        np.add.at(changes, self.to_cell, moved)
        np.subtract.at(changes, self.from_cell, moved)
        return changes

    def choices(self, n_variables, unit):
        """Arguments by which a row with several pairs moves at most its weight."""
        n_rows = len(self.several_weights)
        if n_rows == 0:
            return {}
        matrix = sparse.csr_array(
            (np.ones(len(self.several)), (self.several_rows, self.several)),
            shape=(n_rows, n_variables),
        )
        return {"A_ub": matrix, "b_ub": self.several_weights / unit}

    @classmethod
    def of(cls, rows, prices, labels, chosen, boxes):
        """Pairs of the chosen rows that the boxes can move; equal rows are one."""
        regrets = np.empty((len(chosen), rows.n_clusters))
        kernels.regrets(rows.scores, rows.group_codes, prices, chosen, regrets)
        groups = rows.group_codes[chosen]
        own, weights = labels[chosen], rows.weights[chosen]
        regrets[~(regrets < boxes.T[groups] + boxes[own, groups][:, None])] = np.inf
        first, weights = merge_equal(regrets, groups * rows.n_clusters + own, weights)
        regrets, groups, own = regrets[first], groups[first], own[first]
        regrets[np.arange(len(first)), own] = np.inf
        row, cluster = np.nonzero(np.isfinite(regrets))
        n_of_row = np.bincount(row, minlength=len(first))
        several = np.flatnonzero(n_of_row[row] > 1)
        torn, several_rows = np.unique(row[several], return_inverse=True)
        return cls(
            own[row].astype(np.int64) * rows.n_groups + groups[row],
            cluster * rows.n_groups + groups[row],
            regrets[row, cluster],
            weights[row],
            several,
            several_rows,
            weights[torn],
        )


def merge_equal(values, codes, weights):
    """First of each set of equal rows, and what they weigh together."""
    hashes = np.empty(len(values), dtype=np.uint64)
    first = np.empty(len(values), dtype=np.int64)
    distinct.hash_rows(values.view(np.uint64), codes, hashes)
    distinct.first_equal_hashes(hashes, np.arange(len(values)), first)
    distinct.confirm(values, codes, 0, len(values), first)
    totals = np.bincount(first, weights=weights, minlength=len(values))
    kept = np.flatnonzero(first == np.arange(len(values)))
    return kept, totals[kept]
