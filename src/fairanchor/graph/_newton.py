"""Exact solver of the anchor graph: Newton's method on the dual.

For multipliers mu (clusters × groups) every row solves its program on its own::

    z_i(mu) = argmin over the simplex of ||x_i - H'z||^2 + alpha ||z||^2 + sum_j mu[l_j, g_i] z_j

The dual is concave and piecewise quadratic with gradient ``mass(mu) - targets``. Groups do
not interact, so a sweep over the rows yields, for each group, a gradient of c entries and
a c × c second derivative: everything a trust-region Newton step needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fairanchor.graph._problem import (
    AnchorGraphProblem,
    GraphResult,
    RowSolver,
    allowed_anchors,
    require_solved,
)
from fairanchor.rows import ChunkedRows, MemoryRows


@dataclass(frozen=True)
class NewtonSolver:
    """Dual Newton method with an exact row solver.

    ``max_iter`` is the largest number of sweeps over each sample and over all rows, ``tol`` the
    largest ``|mass - targets|`` of a cell, relative to its group's weight.
    """

    max_iter: int = 100
    tol: float = 1e-3

    def solve(
        self,
        problem: AnchorGraphProblem,
        rows: MemoryRows | ChunkedRows,
        targets: np.ndarray,
        samples: Sequence[MemoryRows] = (),
    ) -> GraphResult:
        """Solve the problem on these rows.

        Each column of ``targets`` (clusters × groups) sums to its group's weight. The samples,
        weighted and from small to large, are warm starts: multipliers that meet the targets on one
        nearly meet them on the next. The soft labels of rows in chunks are not kept.
        """
        multipliers, curvature = np.zeros(targets.shape), None
        for sample in samples:
            ascent = _DualAscent(problem, sample, targets, keep=False)
            # The error of a sample adds to that of its solution.
            result, curvature = ascent.run(multipliers, self.max_iter, 0.25 * self.tol, curvature)
            multipliers = result.multipliers
        ascent = _DualAscent(problem, rows, targets, keep=not isinstance(rows, ChunkedRows))
        return ascent.run(multipliers, self.max_iter, self.tol, curvature)[0]


def sufficient_multipliers(
    problem: AnchorGraphProblem,
    rows: MemoryRows | ChunkedRows,
    targets: np.ndarray,
    multipliers: np.ndarray,
) -> np.ndarray:
    """Multipliers under which no row wants an anchor of a cell whose target is zero.

    These cells are excluded while solving, since any large enough value is optimal for
    them. The value returned is large enough for all rows that are no farther from the anchors
    than these.
    """
    excluded = (targets <= 0) & (targets.sum(axis=0) > 0)
    if not excluded.any():
        return multipliers
    radius = np.sqrt(rows.largest(partial(_largest_square, problem.center), "radius"))
    reach = np.sqrt((problem.H**2).sum(axis=1).max())
    margin = 4.0 * reach * (radius + reach) + 2.0 * problem.alpha
    highest = np.where(excluded, -np.inf, multipliers).max(axis=0)
    return np.where(excluded, highest + margin, multipliers)


class _DualAscent:
    """The iteration on one set of rows."""

    def __init__(
        self, problem: AnchorGraphProblem, rows: Any, targets: np.ndarray, *, keep: bool
    ) -> None:
        self.problem = problem
        self.rows = rows
        self.targets = targets
        self.allowed = allowed_anchors(problem, targets)
        self.soft_labels = np.empty((rows.n_rows, problem.n_clusters)) if keep else None
        self.squares: float | None = None  # of the rows, which the kernels leave out
        self.n_sweeps = 0
        # What multipliers and values are measured in: squared units of the features.
        self.unit = np.trace(problem.Q) / problem.n_anchors

    def run(
        self, multipliers: np.ndarray, max_iter: int, tol: float, curvature: np.ndarray | None
    ) -> tuple[GraphResult, np.ndarray]:
        """Maximise the dual from given multipliers; also returns the curvature.

        The curvature of a sample serves the first step, so that the first sweep, often the only
        one, need not sum it.
        """
        everyone = np.ones(self.rows.n_groups, dtype=bool)
        state = self._sweep(multipliers, everyone, with_curvature=curvature is None)
        if curvature is not None:
            state = replace(state, curvature=curvature)
        tolerance = tol * self.rows.group_sizes
        radius = np.full(self.rows.n_groups, 4.0 * self.unit)
        history = [self._record(state)]
        written = everyone.copy()  # groups whose soft labels belong to the current state
        while self.n_sweeps < max_iter:
            active = np.abs(state.mass - self.targets).max(axis=0) > tolerance
            if not active.any():
                break
            step, predicted = self._steps(state, radius, active)
            trial = self._sweep(state.multipliers + step, active)
            better = self._accept(state, trial, step, predicted, radius, active)
            written = np.where(active, better, written)
            state = state.replaced(trial, better)
            history.append(self._record(state))
            if np.all(radius[active] < 1e-14 * (self.unit + np.abs(state.multipliers).max())):
                break
        if self.soft_labels is not None and not written.all():
            self._sweep(state.multipliers, ~written, with_curvature=False)
        return self._result(state, tolerance, history), state.curvature

    def _sweep(
        self, multipliers: np.ndarray, active: np.ndarray, *, with_curvature: bool = True
    ) -> "_State":
        """Solve the rows of the active groups; the other groups' columns are meaningless."""
        self.n_sweeps += 1
        kernel = _Sweep(
            RowSolver(self.problem, multipliers, self.allowed), active, with_curvature,
            self.soft_labels, with_squares=self.squares is None,
        )  # fmt: skip
        mass, curvature, value, counts, squares = self.rows.sum(kernel, "anchor graph")
        if self.squares is None:
            self.squares = float(squares)
        require_solved(counts, self.rows.n_rows, self.problem)
        dual = value - np.einsum("lr,lr->r", multipliers, self.targets)
        return _State(multipliers, mass, curvature, dual)

    def _steps(
        self, state: "_State", radius: np.ndarray, active: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        step = np.zeros_like(state.multipliers)
        predicted = np.zeros(len(radius))
        for r in np.flatnonzero(active):
            cells = self.targets[:, r] > 0
            gradient = (state.mass - self.targets)[cells, r]
            gradient -= gradient.mean()  # of rounding errors: both tables have the same sum
            # The kernels sum twice the second derivative.
            curvature = 0.5 * state.curvature[r][np.ix_(cells, cells)]
            step[cells, r], predicted[r] = trust_region_step(gradient, curvature, radius[r])
        return step, predicted

    def _accept(
        self,
        state: "_State",
        trial: "_State",
        step: np.ndarray,
        predicted: np.ndarray,
        radius: np.ndarray,
        active: np.ndarray,
    ) -> np.ndarray:
        """Groups whose step is kept; their trust radius follows the model's quality."""
        slope = ((state.mass - self.targets) * step).sum(axis=0)
        trial_slope = ((trial.mass - self.targets) * step).sum(axis=0)
        gained = trial.dual - state.dual
        # Differences below this are rounding errors of sums over all rows; slopes are not.
        noise = 1e-13 * (
            np.abs(trial.dual) + np.abs(state.dual) + self.unit * self.rows.group_sizes
        )
        gained = np.where(predicted <= 100 * noise, 0.5 * (slope + trial_slope), gained)
        better = active & (gained >= 1e-4 * predicted)
        agrees = better & (gained >= 0.5 * predicted)
        length = np.linalg.norm(step, axis=0)
        radius[agrees] = np.maximum(radius[agrees], 4.0 * length[agrees])
        poor = active & ~agrees
        shrink = np.where(better, 0.5, _way_back(step, trial_slope, trial.curvature))
        radius[poor] = (shrink * np.minimum(radius, length))[poor]
        return better

    def _gap(self, state: "_State") -> float:
        return float((state.multipliers * (self.targets - state.mass)).sum())

    def _record(self, state: "_State") -> dict:
        return {
            "sweep": self.n_sweeps,
            "objective": float(state.dual.sum()) + self._gap(state) + (self.squares or 0.0),
            "mass_error": float(np.abs(state.mass - self.targets).max()),
        }

    def _result(self, state: "_State", tolerance: np.ndarray, history: list) -> GraphResult:
        errors = np.abs(state.mass - self.targets)
        return GraphResult(
            multipliers=state.multipliers,
            soft_labels=self.soft_labels,
            mass=state.mass,
            mass_error=float(errors.max()),
            objective=history[-1]["objective"],
            duality_gap=self._gap(state),
            converged=bool((errors <= tolerance).all()),
            n_iter=self.n_sweeps,
            history=history,
        )


@dataclass(frozen=True)
class _Sweep:
    """The kernel of a sweep: the tables of a block, and its soft labels where they are kept."""

    row_solver: RowSolver
    active: np.ndarray
    with_curvature: bool
    soft_labels: np.ndarray | None
    with_squares: bool

    def __call__(self, block: Any) -> tuple:
        problem = self.row_solver.problem
        if self.soft_labels is None:
            soft_labels = np.empty((len(block.X), problem.n_clusters))
        else:
            soft_labels = self.soft_labels[block.start : block.stop]
        tables = self.row_solver.sweep(
            block, self.active, soft_labels, with_curvature=self.with_curvature
        )
        squares = 0.0
        if self.with_squares:
            squares = block.weights @ ((block.X - problem.center) ** 2).sum(axis=1)
        return *tables, np.asarray(squares)


def _largest_square(center: np.ndarray, block: Any) -> float:
    return float(((block.X - center) ** 2).sum(axis=1).max())


@dataclass(frozen=True)
class _State:
    multipliers: np.ndarray
    mass: np.ndarray
    curvature: np.ndarray
    dual: np.ndarray

    def replaced(self, trial: "_State", better: np.ndarray) -> "_State":
        """The trial's values for the groups where it is better."""
        return _State(
            np.where(better, trial.multipliers, self.multipliers),
            np.where(better, trial.mass, self.mass),
            np.where(better[:, None, None], trial.curvature, self.curvature),
            np.where(better, trial.dual, self.dual),
        )


def _way_back(step: np.ndarray, trial_slope: np.ndarray, trial_curvature: np.ndarray) -> np.ndarray:
    """Part of a step that went too far to go instead, by Newton's method from its end.

    Where a cluster has no row its mass is flat, and then bends sharply: the bend is visible from
    its far side only.
    """
    bend = 0.5 * np.einsum("lr,rlk,kr->r", step, trial_curvature, step)
    back = np.divide(-trial_slope, bend, out=np.full(len(bend), 0.75), where=bend > 0)
    return 1.0 - np.clip(back, 0.1, 0.9)


def trust_region_step(
    gradient: np.ndarray, curvature: np.ndarray, radius: float
) -> tuple[np.ndarray, float]:
    """Maximise ``gradient's - s'curvature s / 2`` over ``||s|| <= radius``.

    Exact, by the eigenvectors of the small matrix: the ridge that shortens the step to the
    radius is found by bisection. A direction without curvature, that of a cluster whose mass does
    not react, is followed to the radius. Also returns the model's gain.
    """
    values, vectors = np.linalg.eigh(curvature)
    g = vectors.T @ gradient
    # Prices that rise together change nothing: the gradient has no part there but noise.
    g[np.abs(g) < 1e-14 * np.abs(g).max(initial=0.0)] = 0.0
    # The ridge that shortens a step without curvature to the radius; all others need less.
    high = float(np.linalg.norm(g)) / radius
    values = np.maximum(values, 1e-14 * max(values.max(initial=0.0), high))
    s = np.divide(g, values, out=np.zeros_like(g), where=g != 0.0)
    if np.linalg.norm(s) > radius:
        low = 0.0
        for _ in range(100):
            ridge = 0.5 * (low + high)
            s = g / (values + ridge)
            if abs(np.linalg.norm(s) - radius) <= 1e-3 * radius:
                break
            low, high = (ridge, high) if np.linalg.norm(s) > radius else (low, ridge)
    predicted = float(g @ s - 0.5 * (values * s) @ s)
    return vectors @ s, predicted
