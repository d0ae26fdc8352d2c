"""The exact solvers of the rows' programs behind one interface.

`choose_row_solver` picks by the support that rows really have: few anchors per row favour
the growing active set, nearly all favour pivoting on those left out, and few features
favour the residual form.
"""

import numpy as np

from fairanchor._kernels import _active_set, _pivoting, _residual

TOLERANCE = 1e-13
# Largest term, in units of alpha, that leaves pivoting and the residual form enough digits.
LARGEST_TERM = 1e4


class ActiveSetRows:
    """Solver P: grows the support (`fairanchor._kernels._active_set`)."""

    def __init__(self, problem):
        self.problem = problem

    def sweep(self, block, multipliers, allowed, active, soft_labels):
        """Solve a block's rows at given multipliers.

        Parameters
        ----------
        block : Block
        multipliers : ndarray of shape (n_clusters, n_groups)
        allowed : ndarray of shape (n_groups, n_anchors), bool
            Anchors that a group may use.
        active : ndarray of shape (n_groups,), bool
            Groups whose rows are solved.
        soft_labels : ndarray of shape (n_block_rows, n_clusters)
            Written for the rows of active groups.

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
        problem = self.problem
        mass, curvature, value = _empty_sums(multipliers.shape)
        counts = _active_set.sweep(
            problem.products(block.X), block.group_codes, block.weights, active, problem.Q,
            problem.half_prices(multipliers), allowed, problem.anchor_labels, TOLERANCE,
            soft_labels, mass, curvature, value,
        )  # fmt: skip
        return mass, curvature, value, np.array(counts, dtype=np.float64)

    def weights(self, block, multipliers, allowed):
        """Anchor weights of a block's rows, dense."""
        Z = np.empty((len(block.X), self.problem.n_anchors))
        _active_set.weights_of_rows(
            self.problem.products(block.X), block.group_codes, self.problem.Q,
            self.problem.half_prices(multipliers), allowed, TOLERANCE, Z,
        )  # fmt: skip
        return Z


class ResidualRows:
    """Solver R: Newton's method on residuals (`fairanchor._kernels._residual`)."""

    def __init__(self, problem):
        self.problem = problem
        self.H = np.ascontiguousarray(problem.H)
        self.largest = LARGEST_TERM * problem.alpha

    def sweep(self, block, multipliers, allowed, active, soft_labels):
        """As `ActiveSetRows.sweep`."""
        problem = self.problem
        mass, curvature, value = _empty_sums(multipliers.shape)
        counts = _residual.sweep(
            block.X - problem.center, block.group_codes, block.weights, active, self.H, problem.Q,
            problem.alpha, problem.half_prices(multipliers), allowed, problem.anchor_labels,
            TOLERANCE, self.largest, soft_labels, mass, curvature, value,
        )  # fmt: skip
        return mass, curvature, value, np.array(counts, dtype=np.float64)

    def weights(self, block, multipliers, allowed):
        """As `ActiveSetRows.weights`."""
        problem = self.problem
        Z = np.empty((len(block.X), problem.n_anchors))
        _residual.weights_of_rows(
            block.X - problem.center, block.group_codes, self.H, problem.Q, problem.alpha,
            problem.half_prices(multipliers), allowed, TOLERANCE, self.largest, Z,
        )  # fmt: skip
        return Z


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
        self.largest = LARGEST_TERM * problem.alpha

    def sweep(self, block, multipliers, allowed, active, soft_labels):
        """As `ActiveSetRows.sweep`."""
        problem = self.problem
        mass, curvature, value = _empty_sums(multipliers.shape)
        half_prices = problem.half_prices(multipliers)
        counts = _pivoting.sweep(
            problem.products(block.X), self._starts(block.X), block.group_codes, block.weights,
            active, problem.Q, self.M, half_prices, half_prices @ self.M, allowed,
            problem.anchor_labels, self.cluster_M, self.cluster_curvature, TOLERANCE,
            self.largest, soft_labels, mass, curvature, value,
        )  # fmt: skip
        return mass, curvature, value, np.array(counts, dtype=np.float64)

    def weights(self, block, multipliers, allowed):
        """As `ActiveSetRows.weights`."""
        problem = self.problem
        half_prices = problem.half_prices(multipliers)
        Z = np.empty((len(block.X), problem.n_anchors))
        _pivoting.weights_of_rows(
            problem.products(block.X), self._starts(block.X), block.group_codes, problem.Q,
            self.M, half_prices, half_prices @ self.M, allowed, TOLERANCE, self.largest, Z,
        )  # fmt: skip
        return Z

    def _starts(self, X):
        return (X - self.problem.center) @ self.MH.T + self.k


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
    residual_form = 4 * (d + 1) <= m and mean_square <= LARGEST_TERM * problem.alpha
    solver = ResidualRows(problem) if residual_form else ActiveSetRows(problem)
    n_sample = 200 if residual_form else min(200, max(4, int(1e9 / m**3)))
    sample = rows.subset(np.arange(0, rows.n_rows, max(1, rows.n_rows // n_sample)))
    allowed = allowed_anchors(problem, targets)
    everyone = np.ones(rows.n_groups, dtype=bool)
    total_support = 0.0
    for block in sample.blocks():
        soft_labels = np.empty((len(block.X), problem.n_clusters))
        total_support += solver.sweep(block, multipliers, allowed, everyone, soft_labels)[3][0]
    s = total_support / sample.n_rows
    last_side = min(s, m - s)
    first_side = max(last_side, m / 3)  # pivoting starts far from sparse supports
    work = {
        ActiveSetRows: s * (0.5 * m * s + s**2),
        PivotingRows: sum(2.0 * (k**3 / 3 + m * k) for k in (first_side, last_side)),
    }
    if residual_form:
        work[ResidualRows] = 10.0 * (m * (d + 1) + 0.5 * s * d**2 + d**3 / 6)
    return min(work, key=work.get)(problem)


def _empty_sums(shape):
    n_clusters, n_groups = shape
    return (
        np.zeros((n_clusters, n_groups)),
        np.zeros((n_groups, n_clusters, n_clusters)),
        np.zeros(n_groups),
    )
