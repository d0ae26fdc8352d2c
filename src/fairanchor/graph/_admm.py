"""The paper's solver of the anchor graph: ADMM with Frank-Wolfe steps (its Algorithms 2 and 3).

The paper splits ``Z = E`` with Z on the simplex, E meeting the targets, and a multiplier
matrix as large as Z. But after every iteration that matrix is constant on each
(cluster, group) cell, and E is Z plus such a constant. With
``v = (targets - mass) / (anchors of l * rows of r)``::

    E = Z + v (expanded),    lambda <- lambda - rho v,    ||Z - E||^2 = sum of cell sizes * v^2

so one matrix and two small tables carry the whole iteration, to the same digits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairanchor._kernels import _frank_wolfe as kernels
from fairanchor._utils._shared_state import (
    warn_unconverged,
)
from fairanchor.graph._problem import AnchorGraphProblem, GraphResult
from fairanchor.rows import MemoryRows

# Infeasible targets make the printed rule double the penalty without end. This bound keeps doubles
# finite; it takes 3,300 iterations to get there.
LARGEST_GROWTH = 1e100


@dataclass(frozen=True)
class ADMMSolver:
    """ADMM as in the paper, collapsed to its distinct numbers.

    The paper does not state the first penalty, the tolerance and the numbers of iterations, nor
    which norm its tolerance refers to; those are the defaults here.

    Parameters
    ----------
    max_iter : int
        Number of iterations, each one sweep over all rows.
    tol : float
        Tolerance of both residuals.
    stopping : {"relative", "printed"}
        ``"relative"``: the rule of Boyd et al., whom the paper cites, with residuals relative to Z,
        E and the multipliers. ``"printed"``: ``max(r, s) < tol``, although s has the unit of
        squared features, and both grow with the number of rows.
    n_inner : int
        Frank-Wolfe steps per row and iteration.
    rho : float or None
        First penalty. None is ``trace(2HH') / m`` with anchors measured from their mean: the
        curvature of the row problems, whatever the unit of the features.
    adapt_every, factor, ratio : int, float, float
        From the first iteration on, every so many iterations the penalty is multiplied (divided)
        by ``factor`` if the primal residual exceeds ``ratio`` times the dual one (or the reverse).
    constrained : bool
        False leaves out the constraint: the paper's ablation AC, by the same iteration.
    """

    max_iter: int = 100
    tol: float = 1e-3
    stopping: str = "relative"
    n_inner: int = 50
    rho: float | None = None
    adapt_every: int = 10
    factor: float = 2.0
    ratio: float = 10.0
    constrained: bool = True
    absolute_tol: float = 1e-4
    gap_tol: float = 1e-6
    curvature_tol: float = 1e-12

    def solve(
        self,
        problem: AnchorGraphProblem,
        rows: MemoryRows,
        targets: np.ndarray,
        samples: Sequence[MemoryRows] = (),
    ) -> GraphResult:
        """As `NewtonSolver.solve`, but the targets may be infeasible, and samples are not used."""
        if rows.is_weighted:
            raise ValueError(
                "solver='admm' does not take sample_weight: the paper's algorithm counts rows. "
                "Use solver='newton'."
            )
        rho = self.rho
        if rho is None:  # the ridge where all anchors are equal
            curvature = 2.0 * float((problem.H**2).sum()) / problem.n_anchors
            rho = curvature if curvature > 0.0 else 2.0 * problem.alpha
        cell_sizes = np.outer(problem.anchors_per_cluster, rows.group_sizes)
        Z = np.full((rows.n_rows, problem.n_anchors), 1.0 / problem.n_anchors)
        state = _State(
            multipliers=np.zeros(targets.shape),
            shift=np.zeros(targets.shape),
            mass=cell_sizes / problem.n_anchors,
            rho=rho,
        )
        first_rho, history, converged = rho, [], False
        for k in range(self.max_iter):
            state, record = self._iterate(problem, rows, targets, cell_sizes, Z, state)
            if k % self.adapt_every == 0:
                state = self._adapted(state, record, LARGEST_GROWTH * first_rho)
                record["s"] *= state.rho / record["rho"]  # printed after the update of rho
            history.append({"sweep": k + 1, **record})
            if self._stops(record, Z.size, first_rho):
                converged = True
                break
        return GraphResult(
            multipliers=state.multipliers,
            soft_labels=Z @ np.eye(problem.n_clusters)[problem.anchor_labels],
            mass=state.mass,
            mass_error=history[-1]["mass_error"],
            objective=history[-1]["objective"],
            duality_gap=float((state.multipliers * (targets - state.mass)).sum()),
            converged=converged,
            n_iter=len(history),
            history=history,
        )

    def _iterate(
        self,
        problem: AnchorGraphProblem,
        rows: MemoryRows,
        targets: np.ndarray,
        cell_sizes: np.ndarray,
        Z: np.ndarray,
        state: "_State",
    ) -> tuple["_State", dict]:
        twice_Q = 2.0 * problem.Q
        by_anchor = problem.anchor_labels
        shift = np.ascontiguousarray(state.shift[by_anchor].T)
        prices = np.ascontiguousarray(state.multipliers[by_anchor].T)

        def kernel(block: Any) -> tuple[np.ndarray, np.ndarray]:
            mass = np.zeros(targets.shape)
            weights = Z[block.start : block.stop]
            products = problem.products(block.X)
            squared = kernels.update_weights(
                weights, products, block.group_codes, twice_Q, state.rho, shift, prices,
                self.n_inner, self.gap_tol, self.curvature_tol, by_anchor, mass,
            )  # fmt: skip
            value = (weights * (weights @ problem.Q - 2.0 * products)).sum()
            value += ((block.X - problem.center) ** 2).sum()
            return mass, np.array([squared, value, (weights**2).sum()])

        mass, (squared_change, objective, squared_norm) = rows.sum(kernel)
        bound = cell_sizes > 0 if self.constrained else np.zeros(targets.shape, dtype=bool)
        new_shift = np.divide(targets - mass, cell_sizes, out=np.zeros(targets.shape), where=bound)
        # ||E - E_old||^2 with E = Z + v: the cross term needs block sums only.
        moved = new_shift - state.shift
        cross = 2.0 * (moved * (mass - state.mass)).sum()
        squared_E = squared_change + cross + (cell_sizes * moved**2).sum()
        multipliers = state.multipliers - state.rho * new_shift
        primal = np.sqrt((cell_sizes * new_shift**2).sum())
        longer = 2.0 * (new_shift * mass).sum() + primal**2  # ||E||^2 - ||Z||^2
        penalty = -(multipliers * (targets - mass)).sum() + 0.5 * state.rho * primal**2
        record = {
            "objective": objective,
            "mass_error": float(np.abs(mass - targets).max()),
            "augmented_lagrangian": float(objective + penalty),
            "r": float(primal),
            "s": float(state.rho * np.sqrt(max(0.0, squared_E))),
            "rho": state.rho,
            "norm": float(np.sqrt(squared_norm + max(0.0, longer))),
            "multiplier_norm": float(np.sqrt((cell_sizes * multipliers**2).sum())),
        }
        return _State(multipliers, new_shift, mass, state.rho), record

    def _stops(self, record: dict, n_entries: int, first_rho: float) -> bool:
        if self.stopping == "printed":
            return bool(max(record["r"], record["s"]) < self.tol)
        least = np.sqrt(n_entries) * min(self.absolute_tol, self.tol)
        primal_bound = least + self.tol * record["norm"]
        dual_bound = first_rho * least + self.tol * record["multiplier_norm"]
        return bool(record["r"] <= primal_bound and record["s"] <= dual_bound)

    def _adapted(self, state: "_State", record: dict, largest_rho: float) -> "_State":
        rho = state.rho
        if record["r"] > self.ratio * record["s"]:
            rho = min(rho * self.factor, largest_rho)
        elif record["s"] > self.ratio * record["r"]:
            rho /= self.factor
        return replace(state, rho=rho)


@dataclass(frozen=True)
class _State:
    multipliers: np.ndarray
    shift: np.ndarray
    mass: np.ndarray
    rho: float


def warn_not_converged(result: GraphResult) -> None:
    """Warn of a graph that did not converge, with its distance from the targets in samples."""
    if not result.converged:
        warn_unconverged(
            f"The anchor graph did not converge in {result.n_iter} sweeps: a cell's soft mass is "
            f"{result.mass_error:.4g} samples away from its target. Increase max_iter, or use "
            "solver='newton' with a feasible target."
        )
