"""The paper's anchor graph: a row is a convex combination of anchors.

See `AnchorGraphProblem` for the problem, and `NewtonSolver` and `ADMMSolver` for its solvers.
"""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from sklearn.base import BaseEstimator

from fairanchor._utils._sklearn_compat import Interval, StrOptions
from fairanchor.constraints._bounds import BoundRule
from fairanchor.graph._admm import ADMMSolver
from fairanchor.graph._newton import NewtonSolver
from fairanchor.graph._problem import (
    AnchorGraphProblem,
    RowSolver,
    allowed_anchors,
    require_solved,
)
from fairanchor.rows import MemoryRows

SOLVERS: dict[str, Any] = {"newton": NewtonSolver, "admm": ADMMSolver}


class ReconstructionGraph(BaseEstimator):
    """Write each row as a convex combination of the anchors, as in the paper.

    With the anchors as the rows of H, the weights z_i of the rows minimise::

        sum_i w_i (||x_i - H^T z_i||^2 + alpha ||z_i||^2)   over z_i in the simplex
        subject to  sum of w_i z_ij over rows i of group r and anchors j of cluster l = t[l, r]

    A sweep solves one small quadratic program per row, so the time grows quickly with the number
    of anchors.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Ridge weight. A number is absolute, in squared units of the features, as in the paper;
        ``"auto"`` is the mean squared distance of the anchors from their mean.
    solver : {"newton", "admm"}, default="newton"
        The exact dual method, or the paper's ADMM with Frank-Wolfe steps.
    tol : float, default=1e-3
        Largest error of a cell's soft mass, relative to its group's size.
    max_iter : int, default=100
        Largest number of sweeps of the solver over the rows.
    """

    _parameter_constraints: dict = {
        "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"newton", "admm"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        alpha: float | str = "auto",
        solver: str = "newton",
        tol: float = 1e-3,
        max_iter: int = 100,
    ) -> None:
        self.alpha = alpha
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter

    def problem(
        self, anchors: np.ndarray, anchor_labels: np.ndarray, n_clusters: int, length: float = 1.0
    ) -> AnchorGraphProblem:
        """The problem for anchors that were multiplied by ``length``."""
        alpha = None if isinstance(self.alpha, str) else self.alpha * length**2
        return AnchorGraphProblem(anchors, anchor_labels, n_clusters, alpha)

    def make_solver(self) -> Any:
        """The solver by its name."""
        return SOLVERS[self.solver](max_iter=self.max_iter, tol=self.tol)


@dataclass(frozen=True)
class SoftLabels:
    """Weight of rows on the anchors of each cluster: costs are minus these.

    A cell that is not allowed has a target of zero: no row of its group uses these anchors.
    """

    problem: AnchorGraphProblem
    multipliers: np.ndarray
    allowed_cells: np.ndarray
    takes_long = True

    @property
    def key(self) -> bytes:
        """Identifies these costs among those of other multipliers."""
        return self.multipliers.tobytes()

    @property
    def n_clusters(self) -> int:
        return self.problem.n_clusters

    def write(self, block: Any, out: np.ndarray) -> None:
        """Write minus the soft labels of a block."""
        self._write(self._row_solver(), block, out)
        np.negative(out, out=out)

    def soft_labels(self, rows: MemoryRows, prices: Any = None) -> np.ndarray:
        """Soft labels of `MemoryRows`; prices belong to the labels."""
        solver = self._row_solver()
        return rows.map_to_table(
            lambda block, out: self._write(solver, block, out), self.n_clusters
        )

    def anchor_weights(self, rows: MemoryRows, prices: Any) -> Any:
        """Weights of `MemoryRows` on the anchors, as a sparse matrix built block by block."""
        solver = self._row_solver()
        weights = [sparse.csr_array(solver.weights(block)) for block in rows.blocks()]
        return sparse.vstack(weights, format="csr")

    def _write(self, solver: RowSolver, block: Any, out: np.ndarray) -> None:
        everyone = np.ones(self.multipliers.shape[1], dtype=bool)
        counts = solver.sweep(block, everyone, out, with_curvature=False)[3]
        require_solved(counts, len(block.X), self.problem)

    def _row_solver(self) -> RowSolver:
        allowed = allowed_anchors(self.problem, self.allowed_cells)
        return RowSolver(self.problem, self.multipliers, allowed)


def nearest_targets(rule: BoundRule, problem: AnchorGraphProblem, rows: MemoryRows) -> np.ndarray:
    """Targets within bounds that change the graph least.

    They differ least, in the sum of all cells, from the mass that the anchors of each cluster get
    of each group without any constraint.
    """
    shape = (problem.n_clusters, rows.n_groups)
    free = SoftLabels(problem, np.zeros(shape), np.ones(shape, dtype=bool)).soft_labels(rows)
    mass = np.zeros(shape)
    np.add.at(mass.T, rows.group_codes, free * rows.weights[:, None])
    constraints = rule.cells
    if len(constraints.right) == 0 or constraints.excess(mass) <= 1e-9 * rows.total:
        return mass
    n_clusters, n_groups = shape
    of_groups = sparse.kron(np.ones((1, n_clusters)), sparse.eye_array(n_groups))
    equal, left = constraints.is_equal, constraints.left(mass)

    def changes(matrix: Any) -> Any:
        """Coefficients of what is added to the cells, and of what is taken."""
        return sparse.hstack([matrix, -matrix], format="csr")

    bounds = changes(constraints.matrix)
    solution = linprog(
        np.ones(2 * mass.size),
        A_ub=bounds[~equal],
        b_ub=left[~equal],
        A_eq=sparse.vstack([changes(of_groups), bounds[equal]]),
        b_eq=np.concatenate([np.zeros(n_groups), left[equal]]),
        bounds=np.column_stack(
            [np.zeros(2 * mass.size), np.append(np.full(mass.size, np.inf), mass.ravel())]
        ),
        method="highs",
    )
    if solution.status != 0:
        raise RuntimeError(f"HiGHS found no targets within the bounds: {solution.message}")
    added, taken = solution.x.reshape(2, *shape)
    table = np.maximum(mass + added - taken, 0.0)
    totals = table.sum(axis=0)
    return table * np.divide(rows.group_sizes, totals, out=np.ones(n_groups), where=totals > 0)
