"""The exact solvers of the rows' programs behind one interface.

``solver.at(multipliers, allowed)`` prepares one sweep; what it returns has ``sweep`` and
``weights`` for a block of rows. `choose_row_solver` picks by the support that rows really
have: few anchors per row favour the growing active set, nearly all favour pivoting on
those left out, and few features favour the residual form.
"""

from dataclasses import dataclass

import numpy as np

from fairanchor._kernels import _active_set, _pivoting, _residual
from fairanchor._sampling import spread_sample

TOLERANCE = 1e-13
# Largest term, in units of alpha, that leaves pivoting and the residual form enough digits.
LARGEST_TERM = 1e4
LEARNING_ROWS_PER_ANCHOR = 10
# Entries of the table of starts (80 MB); common problems have some thousands.
LARGEST_STARTS = 10_000_000


@dataclass(frozen=True)
class _PricedRows:
    """A row solver at given multipliers.

    Attributes
    ----------
    problem : AnchorGraphProblem
    half_prices : ndarray of shape (n_groups, n_anchors)
        Infinite where a group may not use an anchor.
    """

    problem: object
    half_prices: np.ndarray

    def sweep(self, block, active, soft_labels, *, with_curvature=True):
        """Solve a block's rows.

        Parameters
        ----------
        block : Block
        active : ndarray of shape (n_groups,), bool
            Groups whose rows are solved.
        soft_labels : ndarray of shape (n_block_rows, n_clusters)
            Written for the rows of active groups.
        with_curvature : bool
            Whether second derivatives are wanted; else those returned are zero.

        Returns
        -------
        mass : ndarray of shape (n_clusters, n_groups)
        curvature : ndarray of shape (n_groups, n_clusters, n_clusters)
            Minus the derivative of the mass by the multipliers, times two.
        value : ndarray of shape (n_groups,)
            Sum of the rows' optimal values, without the constant ``||x||^2``.
        counts : ndarray of shape (2,)
            Total support and number of rows left unsolved.
        """
        n_clusters, n_groups = self.problem.n_clusters, len(self.half_prices)
        mass, value = np.zeros((n_clusters, n_groups)), np.zeros(n_groups)
        curvature = np.zeros((n_groups, n_clusters, n_clusters))
        wanted = curvature if with_curvature else curvature[:0]
        counts = self._sweep(block, active, soft_labels, mass, wanted, value)
        return mass, curvature, value, np.array(counts, dtype=np.float64)

    def weights(self, block):
        """Anchor weights of a block's rows, dense."""
        Z = np.empty((len(block.X), self.problem.n_anchors))
        self._weights(block, Z)
        return Z


class ActiveSetRows:
    """Solver P: grows the support (`fairanchor._kernels._active_set`)."""

    def __init__(self, problem):
        self.problem = problem

    def at(self, multipliers, allowed):
        """The solver at these multipliers, for the anchors that groups are allowed to use."""
        return _PricedActiveSet(self.problem, self.problem.half_prices(multipliers, allowed))


class _PricedActiveSet(_PricedRows):
    def _sweep(self, block, active, *sums):
        problem = self.problem
        return _active_set.sweep(
            problem.products(block.X), block.group_codes, block.weights, active, problem.Q,
            problem.alpha, self.half_prices, problem.anchor_labels, TOLERANCE, *sums,
        )  # fmt: skip

    def _weights(self, block, Z):
        problem = self.problem
        _active_set.weights_of_rows(
            problem.products(block.X), block.group_codes, problem.Q, problem.alpha,
            self.half_prices, TOLERANCE, Z,
        )  # fmt: skip


class ResidualRows:
    """Solver R: Newton's method on residuals (`fairanchor._kernels._residual`).

    A row starts from the solution on a typical support of rows with the same best anchor:
    all anchors, or what `learned` has seen.
    """

    def __init__(self, problem, typical_supports=None):
        m = problem.n_anchors
        self.problem = problem
        self.H = np.ascontiguousarray(problem.H)
        self.HT = np.ascontiguousarray(problem.H.T)
        # (h, 1) of every anchor, and the lower triangles of their outer products.
        self.bordered = np.column_stack([problem.H, np.ones(m)])
        lower = np.tril_indices(self.bordered.shape[1])
        self.products = self.bordered[:, lower[0]] * self.bordered[:, lower[1]]
        self.all_products = self.products.sum(axis=0)
        self.typical_supports = np.ones((1, m)) if typical_supports is None else typical_supports
        self._tabulate_starts(self.typical_supports)

    def _tabulate_starts(self, supports):
        """Unknowns of a typical support S: ``W_S^-1 (alpha (x, 1) + sum of price_j (h_j, 1))``."""
        alpha, d = self.problem.alpha, self.H.shape[1]
        ridge = alpha * np.diag(np.append(np.ones(d), 0.0))
        bordered = self.bordered
        self.start_inverses = np.empty((len(supports), d + 1, d + 1))
        for k, support in enumerate(supports):
            W = bordered.T @ (support[:, None] * bordered) + ridge
            self.start_inverses[k] = np.linalg.inv(W)
        # A price is one for all anchors of a cluster, so these sums serve every price.
        of_clusters = self.problem.anchor_labels == np.arange(self.problem.n_clusters)[:, None]
        self.start_sums = np.stack([supports[:, own] @ bordered[own] for own in of_clusters])

    def learned(self, rows, multipliers, allowed):
        """The same solver with starts from the solutions of some rows.

        Where a table of groups, or clusters, × anchors × features would be too large, it stays as
        it is.
        """
        m = self.problem.n_anchors
        most = max(allowed.shape[0], self.problem.n_clusters)
        if most * m * self.bordered.shape[1] > LARGEST_STARTS:
            return self
        used, count = np.zeros((m, m)), np.zeros(m)
        priced = self.at(multipliers, allowed)
        for block in rows.blocks():
            linear = priced.half_prices[block.group_codes] - self.problem.products(block.X)
            cell = (linear + 0.5 * np.diag(self.problem.Q)).argmin(axis=1)
            of_cell = (cell == np.arange(m)[:, None]).astype(np.float64)
            used += of_cell @ (priced.weights(block) > 0.0)
            count += of_cell.sum(axis=1)
        overall = used.sum(axis=0) > 0.5 * count.sum()
        supports = np.where(count[:, None] > 0, used > 0.5 * count[:, None], overall)
        supports[~supports.any(axis=1)] = True
        return ResidualRows(self.problem, supports.astype(np.float64))

    def at(self, multipliers, allowed):
        """The solver at these multipliers, for the anchors that groups are allowed to use."""
        half_prices = self.problem.half_prices(multipliers, allowed)
        by_cluster = np.zeros((len(half_prices), self.problem.n_clusters))
        by_cluster[:, self.problem.anchor_labels] = np.where(allowed, half_prices, 0.0)
        alpha, d = self.problem.alpha, self.H.shape[1]
        right = np.tensordot(by_cluster, self.start_sums, axes=1)
        right[:, :, d] += alpha
        constants = np.einsum("rkp,kpq->rkq", right, self.start_inverses)
        slopes = alpha * self.start_inverses[:, :d]
        return _PricedResidual(self.problem, half_prices, self, slopes, constants)


@dataclass(frozen=True)
class _PricedResidual(_PricedRows):
    """Starts are affine functions of a row: slopes by typical support, constants by group too."""

    solver: ResidualRows
    slopes: np.ndarray
    constants: np.ndarray

    def _sweep(self, block, active, *sums):
        solver, problem = self.solver, self.problem
        return _residual.sweep(
            block.X - problem.center, block.group_codes, block.weights, active, solver.H,
            solver.HT, solver.products, solver.all_products, problem.Q, problem.alpha,
            self.half_prices, self.slopes, self.constants, problem.anchor_labels, TOLERANCE,
            self._largest, *sums,
        )  # fmt: skip

    def _weights(self, block, Z):
        solver, problem = self.solver, self.problem
        _residual.weights_of_rows(
            block.X - problem.center, block.group_codes, solver.HT, solver.products,
            solver.all_products, problem.Q, problem.alpha, self.half_prices, self.slopes,
            self.constants, TOLERANCE, self._largest, Z,
        )  # fmt: skip

    @property
    def _largest(self):
        return LARGEST_TERM * self.problem.alpha


class PivotingRows:
    """Solver H: pivots on the smaller side of the support (`fairanchor._kernels._pivoting`)."""

    def __init__(self, problem):
        self.problem = problem
        inverse = np.linalg.inv(problem.Q)
        inverse = 0.5 * (inverse + inverse.T)
        along = inverse.sum(axis=1)
        # All anchors in use: z = k - M b with b = prices / 2 - H x.
        self.k = along / along.sum()
        self.M = inverse - np.outer(along, along) / along.sum()
        self.MH = self.M @ problem.H
        one_hot = np.eye(problem.n_clusters)[problem.anchor_labels]
        self.cluster_M = np.ascontiguousarray(one_hot.T @ self.M)
        self.cluster_curvature = self.cluster_M @ one_hot

    def at(self, multipliers, allowed):
        """The solver at these multipliers, for the anchors that groups are allowed to use."""
        return _PricedPivoting(
            self.problem,
            self.problem.half_prices(multipliers, allowed),
            self,
            0.5 * multipliers.T @ self.cluster_M,
        )

    def starts(self, X):
        """Solutions on all anchors, were all prices zero."""
        return (X - self.problem.center) @ self.MH.T + self.k


@dataclass(frozen=True)
class _PricedPivoting(_PricedRows):
    solver: PivotingRows
    price_starts: np.ndarray

    def _sweep(self, block, active, *sums):
        solver, problem = self.solver, self.problem
        return _pivoting.sweep(
            problem.products(block.X), solver.starts(block.X), block.group_codes, block.weights,
            active, problem.Q, solver.M, problem.alpha, self.half_prices, self.price_starts,
            problem.anchor_labels, solver.cluster_M, solver.cluster_curvature, TOLERANCE,
            LARGEST_TERM * problem.alpha, *sums,
        )  # fmt: skip

    def _weights(self, block, Z):
        solver, problem = self.solver, self.problem
        _pivoting.weights_of_rows(
            problem.products(block.X), solver.starts(block.X), block.group_codes, problem.Q,
            solver.M, problem.alpha, self.half_prices, self.price_starts, TOLERANCE,
            LARGEST_TERM * problem.alpha, Z,
        )  # fmt: skip


def allowed_anchors(problem, targets):
    """Which anchors each group may use: all but those of clusters where its target is zero."""
    wanted = (targets > 0) | (targets.sum(axis=0) == 0)  # a group without weight is free
    return np.ascontiguousarray(wanted[problem.anchor_labels].T)


def require_solved(counts, n_rows, problem):
    """Refuse to go on with rows that no solver could finish (none is known)."""
    if counts[1] > 0:
        raise RuntimeError(
            f"{int(counts[1])} of {n_rows} rows could not be expressed by the anchors within the "
            f"step limit; alpha={problem.alpha:.3g} may be too small for these features."
        )


def choose_row_solver(problem, rows, multipliers, targets):
    """The row solver for this problem, by the support of some rows and the work it means.

    By a count of operations, not by a clock: the choice must be the same at every run.
    """
    m, d = problem.n_anchors, len(problem.center)
    mean_square = (problem.H**2).sum() / m
    # Growing dense supports to look at them would cost more than it saves: in this shape
    # the residual form is good enough for looking, if the ridge leaves it the digits.
    residual_form = 2 * (d + 1) <= m and mean_square <= LARGEST_TERM * problem.alpha
    solver = ResidualRows(problem) if residual_form else ActiveSetRows(problem)
    n_sample = 200 if residual_form else min(200, max(4, int(1e9 / m**3)))
    sample = rows.subset(spread_sample(rows.n_rows, n_sample))
    allowed = allowed_anchors(problem, targets)
    priced = solver.at(multipliers, allowed)
    s = sum(np.count_nonzero(priced.weights(block)) for block in sample.blocks()) / sample.n_rows
    work = {ActiveSetRows: _active_set_work(m, s), PivotingRows: _pivoting_work(m, s)}
    if mean_square > LARGEST_TERM * problem.alpha:
        del work[PivotingRows]  # it would leave all rows to the active set
    if residual_form:
        work[ResidualRows] = _residual_work(m, d, s)
    best = min(work, key=work.get)
    if best is ResidualRows:
        sample = rows.subset(spread_sample(rows.n_rows, LEARNING_ROWS_PER_ANCHOR * m))
        return solver.learned(sample, multipliers, allowed)
    return best(problem)


# Nanoseconds per row, fitted to measurements (`benchmarks/kernels.py`) for 2 to 25 features, 40 to
# 100 anchors and 8 to 38 of them in use. Only their order matters.
def _active_set_work(m, s):
    return s * (250 + 0.12 * m * s + 0.25 * s**2)


def _pivoting_work(m, s):
    # Pivoting starts near the solution if most anchors are in use, else far from it.
    side, n_rounds = (m - s, 3) if 2 * s > m else (max(s, m / 3), 7)
    return n_rounds * (300 + 0.12 * side**3 + 0.8 * m * side + 1.5 * side**2)


def _residual_work(m, d, s):
    n = d + 1
    sums = 0.075 * min(s, m - s) * n**2
    return 3.75 * (300 + 0.5 * m * n + sums + n**2 + 0.12 * n**3)
