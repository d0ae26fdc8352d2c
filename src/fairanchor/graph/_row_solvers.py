"""The rows' programs, one small quadratic program per row, solved exactly by an active set."""

from dataclasses import dataclass

import numpy as np

from fairanchor._kernels import _active_set

TOLERANCE = 1e-13


class RowSolver:
    """Exact solver of the rows' programs.

    Parameters
    ----------
    problem : AnchorGraphProblem
    """

    def __init__(self, problem):
        self.problem = problem

    def at(self, multipliers, allowed):
        """Fix the prices for one sweep over the rows.

        Parameters
        ----------
        multipliers : ndarray of shape (n_clusters, n_groups)
        allowed : ndarray of shape (n_groups, n_anchors), bool
            Anchors that each group may use; see `allowed_anchors`.

        Returns
        -------
        priced : PricedRowSolver
        """
        return PricedRowSolver(self.problem, self.problem.half_prices(multipliers, allowed))


@dataclass(frozen=True)
class PricedRowSolver:
    """The row solver at given multipliers.

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
        with_curvature : bool, default=True
            Whether second derivatives are computed; otherwise the ones returned are zero.

        Returns
        -------
        mass : ndarray of shape (n_clusters, n_groups)
        curvature : ndarray of shape (n_groups, n_clusters, n_clusters)
            Minus the derivative of the mass by the multipliers, times two.
        value : ndarray of shape (n_groups,)
            Sum of the rows' optimal values, without the constant ``||x||^2``.
        counts : ndarray of shape (2,)
            Total size of the supports and number of rows left unsolved.
        """
        problem = self.problem
        n_clusters, n_groups = problem.n_clusters, len(self.half_prices)
        mass, value = np.zeros((n_clusters, n_groups)), np.zeros(n_groups)
        curvature = np.zeros((n_groups, n_clusters, n_clusters))
        counts = _active_set.sweep(
            problem.products(block.X), block.group_codes, block.weights, active, problem.Q,
            problem.alpha, self.half_prices, problem.anchor_labels, TOLERANCE, soft_labels, mass,
            curvature if with_curvature else curvature[:0], value,
        )  # fmt: skip
        return mass, curvature, value, np.array(counts, dtype=np.float64)

    def weights(self, block):
        """Compute the anchor weights of a block's rows.

        Parameters
        ----------
        block : Block

        Returns
        -------
        Z : ndarray of shape (n_block_rows, n_anchors)
        """
        problem = self.problem
        Z = np.empty((len(block.X), problem.n_anchors))
        _active_set.weights_of_rows(
            problem.products(block.X), block.group_codes, problem.Q, problem.alpha,
            self.half_prices, TOLERANCE, Z,
        )  # fmt: skip
        return Z


def allowed_anchors(problem, targets):
    """Which anchors each group may use: all but those of clusters where its target is zero."""
    wanted = (targets > 0) | (targets.sum(axis=0) == 0)  # a group without weight is free
    return np.ascontiguousarray(wanted[problem.anchor_labels].T)


def require_solved(counts, n_rows, problem):
    """Raise an error if rows were left unsolved (no such row is known)."""
    if counts[1] > 0:
        raise RuntimeError(
            f"{int(counts[1])} of {n_rows} rows could not be expressed by the anchors within the "
            f"step limit; alpha={problem.alpha:.3g} may be too small for these features."
        )
