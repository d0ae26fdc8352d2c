"""Newton steps for many limits, by conjugate gradients.

With hundreds of groups the matrix ``A K A'`` of the limits is large and dense, but a product
with it is not: A has two entries in a row, and K is a small matrix for each group.
"""

from dataclasses import dataclass

import numpy as np

from fairanchor.assignment._limit_matrix import CellConstraints

# A step need not be exact, only good.
MAX_ROUNDS = 3
MAX_PRODUCTS = 20
RESIDUAL = 1e-2
LEAST_GAIN = 1e-3
SHORTEST_STEP = 1e-3


@dataclass(frozen=True)
class CurvatureOfLimits:
    """The matrix ``A K A' + ridge I``.

    Attributes
    ----------
    constraints : CellConstraints
    curvature : ndarray of shape (n_groups, n_clusters, n_clusters)
        The blocks of K.
    ridge : float
    """

    constraints: CellConstraints
    curvature: np.ndarray
    ridge: float

    def times(self, vector):
        """Product with a vector of multipliers."""
        prices = self.constraints.prices(vector)
        changes = (self.curvature @ prices.T[:, :, None])[:, :, 0].T
        limits = self.constraints.right - self.constraints.left(changes)
        return limits + self.ridge * vector

    def about_diagonal(self):
        """Positive, and of the order of the diagonal: enough to scale unknowns by."""
        constraints = self.constraints
        own = np.einsum("rll->lr", self.curvature)
        diagonal = np.full(constraints.n_limits, self.ridge)
        for (limits, places, values), of_places in (
            (constraints.of_cells, own.ravel()),
            (constraints.of_sizes, own.sum(axis=1)),
        ):
            weights = values**2 * of_places[places]
            diagonal += np.bincount(limits, weights=weights, minlength=len(diagonal))
        return diagonal

    def maximise_in_box(self, gradient, lowest, highest):
        """Nearly maximise ``gradient'd - d'H d / 2`` over a box that contains zero.

        Limits at a bound that want to go beyond are left there, the others take a Newton step
        that is cut back to the box, and shortened until it pays.
        """
        diagonal = self.about_diagonal()
        point, slope, value = np.zeros(len(gradient)), gradient, 0.0
        for _ in range(MAX_ROUNDS):
            held = ((point <= lowest) & (slope < 0.0)) | ((point >= highest) & (slope > 0.0))
            if held.all():
                break
            before = value
            step = self._solve(np.where(held, 0.0, slope), ~held, diagonal)
            length = 1.0
            while length > SHORTEST_STEP:
                trial = np.clip(point + length * step, lowest, highest)
                trial_slope = gradient - self.times(trial)
                trial_value = 0.5 * float(trial @ (gradient + trial_slope))
                if trial_value > value:
                    point, slope, value = trial, trial_slope, trial_value
                    break
                length *= 0.5
            if value - before <= LEAST_GAIN * abs(value):
                break
        return point

    def _solve(self, right, is_free, diagonal):
        """Conjugate gradients over the free limits, scaled by the diagonal."""
        solution, residual = np.zeros(len(right)), right.copy()
        scaled = residual / diagonal
        direction, size = scaled, float(residual @ scaled)
        enough = RESIDUAL**2 * size
        for _ in range(MAX_PRODUCTS):
            if size <= enough:
                break
            product = np.where(is_free, self.times(direction), 0.0)
            length = size / float(direction @ product)
            solution += length * direction
            residual -= length * product
            scaled = residual / diagonal
            following = float(residual @ scaled)
            direction, size = scaled + following / size * direction, following
        return solution
