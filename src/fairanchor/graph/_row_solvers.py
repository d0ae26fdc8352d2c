"""The two exact solvers of the rows' programs behind one interface.

`choose_row_solver` picks by the support that rows really have: few anchors per row
favour the growing active set, many favour pivoting on those left out.
"""

import numpy as np

from fairanchor._kernels import _active_set, _pivoting

TOLERANCE = 1e-13
# Up to this share of the anchors in use, adding them one by one is the faster way.
SPARSE_SUPPORT = 0.4


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

    def sweep(self, block, multipliers, allowed, active, soft_labels):
        """As `ActiveSetRows.sweep`."""
        problem = self.problem
        mass, curvature, value = _empty_sums(multipliers.shape)
        half_prices = problem.half_prices(multipliers)
        counts = _pivoting.sweep(
            problem.products(block.X), self._starts(block.X), block.group_codes, block.weights,
            active, problem.Q, self.M, half_prices, half_prices @ self.M, allowed,
            problem.anchor_labels, self.cluster_M, self.cluster_curvature, TOLERANCE,
            soft_labels, mass, curvature, value,
        )  # fmt: skip
        return mass, curvature, value, np.array(counts, dtype=np.float64)

    def weights(self, block, multipliers, allowed):
        """As `ActiveSetRows.weights`."""
        problem = self.problem
        half_prices = problem.half_prices(multipliers)
        Z = np.empty((len(block.X), problem.n_anchors))
        _pivoting.weights_of_rows(
            problem.products(block.X), self._starts(block.X), block.group_codes, problem.Q,
            self.M, half_prices, half_prices @ self.M, allowed, TOLERANCE, Z,
        )  # fmt: skip
        return Z

    def _starts(self, X):
        return (X - self.problem.center) @ self.MH.T + self.k


def allowed_anchors(problem, targets):
    """Which anchors each group may use: all but those of clusters where its target is zero."""
    wanted = (targets > 0) | (targets.sum(axis=0) == 0)  # a group without weight is free
    return np.ascontiguousarray(wanted[problem.anchor_labels].T)


def choose_row_solver(problem, rows, multipliers, targets):
    """The row solver for this problem, by the mean support of some rows."""
    allowed = allowed_anchors(problem, targets)
    step = max(1, rows.n_rows // 500)
    sample = rows.subset(np.arange(0, rows.n_rows, step))
    solver = ActiveSetRows(problem)
    everyone = np.ones(rows.n_groups, dtype=bool)
    soft_labels = np.empty((sample.n_rows, problem.n_clusters))
    total_support = 0.0
    for block in sample.blocks():
        own = soft_labels[block.start : block.stop]
        total_support += solver.sweep(block, multipliers, allowed, everyone, own)[3][0]
    if total_support <= SPARSE_SUPPORT * problem.n_anchors * sample.n_rows:
        return solver
    return PivotingRows(problem)


def _empty_sums(shape):
    n_clusters, n_groups = shape
    return (
        np.zeros((n_clusters, n_groups)),
        np.zeros((n_groups, n_clusters, n_clusters)),
        np.zeros(n_groups),
    )
