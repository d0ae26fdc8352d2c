"""The anchor graph's optimisation problem, the programs of its rows, and what solvers return."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairanchor._kernels import _active_set
from fairanchor._utils._shared_state import users_stacklevel

# Bounds of alpha relative to the anchors' mean squared norm: below, the dual is so steep that
# double precision cannot place its multipliers; above, all rows would be rounded to one and
# the same combination of anchors.
SMALLEST_ALPHA = 1e-7
LARGEST_ALPHA = 1e9
# Of the row solver.
TOLERANCE = 1e-13
# Entries of a history that are in squared units of the features, and those that are sums over rows.
SQUARED = {"objective", "augmented_lagrangian", "s", "rho", "multiplier_norm"}
SUMS = {"mass_error", "objective", "augmented_lagrangian", "r"}


class AnchorGraphProblem:
    """Write each row as a convex combination of anchors::

        minimise  sum_i w_i (||x_i - H'z_i||^2 + alpha ||z_i||^2)   over z_i in the simplex
        subject to  sum of w_i z_ij over rows i of group r and anchors j of cluster l = t[l, r]

    ``alpha`` is the ridge weight, in squared units of the features; None is the mean squared norm
    of the anchors H, measured from their mean, the ``center``. Since the weights of a row sum to
    one, the problem does not change when all is measured from there, and the products do not
    cancel. ``Q`` is ``HH' + alpha I``. A warning tells if another alpha has to be used, unless
    ``announce`` is false.
    """

    def __init__(
        self,
        anchors: np.ndarray,
        anchor_labels: np.ndarray,
        n_clusters: int,
        alpha: float | None,
        *,
        announce: bool = True,
    ) -> None:
        self.anchors = anchors
        self.anchor_labels = np.asarray(anchor_labels, dtype=np.int64)
        self.n_clusters = n_clusters
        self.n_anchors = len(anchors)
        self.center = anchors.mean(axis=0)
        self.H = anchors - self.center
        gram = self.H @ self.H.T
        mean_square = np.trace(gram) / self.n_anchors
        if mean_square == 0.0:  # the solution does not depend on it
            alpha, mean_square = 1.0, 1.0
        self.alpha = (
            mean_square if alpha is None else _effective_alpha(alpha, mean_square, announce)
        )
        self.Q = gram + self.alpha * np.eye(self.n_anchors)

    @property
    def anchors_per_cluster(self) -> np.ndarray:
        return np.bincount(self.anchor_labels, minlength=self.n_clusters)

    def products(self, X: np.ndarray) -> np.ndarray:
        """Inner products of rows and anchors, measured from ``center``."""
        return (X - self.center) @ self.H.T


def _effective_alpha(alpha: float, mean_square: float, announce: bool) -> float:
    effective = min(max(alpha, SMALLEST_ALPHA * mean_square), LARGEST_ALPHA * mean_square)
    if announce and effective != alpha:
        warnings.warn(
            f"alpha is {alpha / mean_square:.1e} times the anchors' mean squared norm; "
            f"{effective / mean_square:.0e} times is used, the nearest value that can be solved in "
            "double precision. Standardise the features or change alpha.",
            UserWarning,
            stacklevel=users_stacklevel(),
        )
    return effective


class RowSolver:
    """The rows' programs at given multipliers, solved exactly by an active set.

    ``allowed`` (groups × anchors) states which anchors each group may use; see `allowed_anchors`.
    """

    def __init__(
        self, problem: AnchorGraphProblem, multipliers: np.ndarray, allowed: np.ndarray
    ) -> None:
        self.problem = problem
        self.half_prices = np.where(allowed, 0.5 * multipliers[problem.anchor_labels].T, np.inf)

    def sweep(
        self,
        block: Any,
        active: np.ndarray,
        soft_labels: np.ndarray,
        *,
        with_curvature: bool = True,
        weights: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Solve a block's rows of the active groups; write soft labels and, if given, weights.

        Returns
        -------
        mass : ndarray of shape (n_clusters, n_groups)
        curvature : ndarray of shape (n_groups, n_clusters, n_clusters)
            Minus the derivative of the mass by the multipliers, times two; zero unless asked for.
        value : ndarray of shape (n_groups,)
            Sum of the rows' optimal values, without the constant ``||x||^2``.
        counts : ndarray of shape (2,)
            Total size of the supports and number of rows left unsolved.
        """
        problem = self.problem
        n_clusters, n_groups = problem.n_clusters, len(self.half_prices)
        mass, value = np.zeros((n_clusters, n_groups)), np.zeros(n_groups)
        curvature = np.zeros((n_groups, n_clusters, n_clusters))
        Z = np.empty((0, problem.n_anchors)) if weights is None else weights
        counts = _active_set.sweep(
            problem.products(block.X), block.group_codes, block.weights, active, problem.Q,
            problem.alpha, self.half_prices, problem.anchor_labels, TOLERANCE, soft_labels, mass,
            curvature if with_curvature else curvature[:0], value, Z,
        )  # fmt: skip
        return mass, curvature, value, np.array(counts, dtype=np.float64)

    def weights(self, block: Any) -> np.ndarray:
        """Anchor weights of a block's rows."""
        Z = np.zeros((len(block.X), self.problem.n_anchors))
        everyone = np.ones(len(self.half_prices), dtype=bool)
        soft_labels = np.empty((len(Z), self.problem.n_clusters))
        self.sweep(block, everyone, soft_labels, with_curvature=False, weights=Z)
        return Z


def allowed_anchors(problem: AnchorGraphProblem, targets: np.ndarray) -> np.ndarray:
    """Anchors that each group may use: all but those of clusters where its target is zero."""
    wanted = (targets > 0) | (targets.sum(axis=0) == 0)  # a group without weight is free
    return np.ascontiguousarray(wanted[problem.anchor_labels].T)


def require_solved(counts: np.ndarray, n_rows: int, problem: AnchorGraphProblem) -> None:
    """Raise an error if rows were left unsolved (no such row is known)."""
    if counts[1] > 0:
        raise RuntimeError(
            f"{int(counts[1])} of {n_rows} rows could not be expressed by the anchors within the "
            f"step limit; alpha={problem.alpha:.3g} may be too small for these features."
        )


@dataclass
class GraphResult:
    """Solution of an `AnchorGraphProblem`.

    With the ``multipliers`` (clusters × groups) as prices of the cells every row solves its program
    on its own. ``soft_labels`` are the weights of the rows on the anchors of each cluster, None
    where they were not kept; ``mass`` has their sums, to be compared with the targets, and
    ``mass_error`` the largest difference, in samples. The ``duality_gap``, ``<multipliers, targets
    - mass>``, can be negative as long as the mass is not exact. ``n_iter`` counts sweeps over the
    rows; ``history`` has one record per iteration.
    """

    multipliers: np.ndarray
    soft_labels: np.ndarray | None
    mass: np.ndarray
    mass_error: float
    objective: float
    duality_gap: float
    converged: bool
    n_iter: int
    history: list

    def history_in_units_of(self, scale: float, weight: float = 1.0) -> list[dict]:
        """The history for rows that were not multiplied by ``scale``, and weigh ``weight`` each."""
        units = {
            name: (scale**-2 if name in SQUARED else 1.0) * (weight if name in SUMS else 1.0)
            for name in SQUARED | SUMS
        }
        return [
            {name: value * units.get(name, 1) for name, value in record.items()}
            for record in self.history
        ]
