"""Smoothed start of the prices: Newton's method on ever larger samples."""

from dataclasses import dataclass

import numpy as np

from fairanchor._kernels._price_newton import newton_step, smoothed_dual, worst_miss
from fairanchor._kernels._transport import score_differences
from fairanchor.assignment._limit_curvature import CurvatureOfLimits
from fairanchor.assignment._limit_matrix import CellConstraints
from fairanchor.assignment._scored_rows import ScoredRows

# Temperatures relative to the difference between a row's two best scores: the first to the
# mean, so that prices can go as far as outliers ask for; the last, at which it ends, to the
# median row's.
FIRST_TEMPERATURE = 0.5
LAST_TEMPERATURE = 0.5 / 4**4
COOLING = 4.0
# Far from the end a few rows tell where to go, near it only many do: rows of a sample, the
# temperature, relative to the last, down to which they are enough, and most steps at one.
# Few steps will do: what they leave over, the linear programs settle in less time.
SAMPLES = ((500, 32, 3), (2_000, 8, 3), (20_000, 1, 3))
# Which of them shows the differences between scores.
DIFFERENCES_SAMPLE = 1
# A step that gains less than this part of the value is the last at its temperature.
LEAST_GAIN = 1e-6
# With more limits than this the matrix of a Newton step would be costly to solve with.
MANY_LIMITS = 300
# Largest miss of a limit, relative to a cell of average size, that ends a temperature.
MASS_TOLERANCE = 1e-2
LEAST_RIDGE = 1e-8


def smoothed_start(rows, constraints, multipliers=None):
    """Multipliers near the best ones.

    Parameters
    ----------
    rows : ScoredRows
    constraints : CellConstraints
    multipliers : ndarray of shape (n_limits,), default=None
        Of a similar problem.

    Returns
    -------
    multipliers : ndarray of shape (n_limits,)
    """
    samples = _nested_samples(rows)
    mean, median = _typical_differences(samples[DIFFERENCES_SAMPLE])
    if mean == 0.0:
        return np.zeros(len(constraints.right)) if multipliers is None else multipliers
    last = LAST_TEMPERATURE * median
    temperature = FIRST_TEMPERATURE * mean
    if multipliers is None:
        multipliers = np.zeros(len(constraints.right))
    else:
        temperature = min(temperature, COOLING**2 * last)
    weight = float(rows.weights.sum())
    for sample, (_, lowest, max_steps) in zip(samples, SAMPLES, strict=True):
        while temperature > lowest * last:
            dual = SmoothedDual(sample, constraints, temperature, weight)
            multipliers = _maximise(dual, multipliers, max_steps)
            temperature /= COOLING
    return multipliers


def _nested_samples(rows):
    """Samples of the sizes above, each of the next larger one: that spares sorting all rows."""
    samples = []
    for at_most, _, _ in reversed(SAMPLES):
        rows = rows.sample(at_most)
        samples.insert(0, rows)
    return samples


def _maximise(dual, multipliers, max_steps):
    """Maximise the smoothed dual at one temperature, by Newton steps in a box."""
    value, gradient, curvature = dual.evaluate(multipliers)
    ridge, widest = LEAST_RIDGE, 8.0 * dual.temperature
    box = widest
    for _ in range(max_steps):
        if worst_miss(gradient, multipliers, dual.constraints.is_equal) <= dual.tolerance:
            break
        trial = multipliers + dual.newton_step(multipliers, gradient, curvature, ridge, box)
        trial_value, trial_gradient, trial_curvature = dual.evaluate(trial)
        gain = trial_value - value
        if gain >= -1e-12 * abs(value):
            multipliers, value = trial, trial_value
            gradient, curvature = trial_gradient, trial_curvature
            if gain <= LEAST_GAIN * abs(value):
                break
            ridge, box = max(ridge / 100, LEAST_RIDGE), min(2 * box, widest)
        else:  # where hardly a row is near a tie the quadratic model promises too much
            ridge, box = 10 * ridge, box / 4
    return multipliers


@dataclass(frozen=True)
class SmoothedDual:
    """The dual with a smoothed minimum: how good multipliers are, and where better ones are.

    Attributes
    ----------
    rows : ScoredRows
    constraints : CellConstraints
    temperature : float
    weight : float
        Of all rows.
    """

    rows: ScoredRows
    constraints: CellConstraints
    temperature: float
    weight: float

    @property
    def tolerance(self):
        """Miss of a limit that ends a temperature."""
        return MASS_TOLERANCE * self.weight / self.rows.n_clusters / self.rows.n_groups

    @property
    def has_many_limits(self):
        return self.constraints.n_limits > MANY_LIMITS

    def evaluate(self, multipliers):
        """Value, gradient and curvature; the latter by groups, for prices rather than limits."""
        rows, constraints = self.rows, self.constraints
        if self.has_many_limits:
            prices = constraints.prices(multipliers)
            value, mass, curvature = rows.share_softly(prices, self.temperature)
            value -= float(constraints.right @ multipliers)
            return value, -constraints.left(mass), curvature / self.temperature
        return smoothed_dual(
            rows.scores, rows.group_codes, rows.weights, constraints.by_group, constraints.right,
            multipliers, self.temperature,
        )  # fmt: skip

    def newton_step(self, multipliers, gradient, curvature, ridge, box):
        """Step within a box that maximises the quadratic model; no multiplier gets negative."""
        constraints = self.constraints
        ridge *= self.weight / self.temperature
        if not self.has_many_limits:
            return newton_step(
                constraints.by_group, constraints.is_equal, curvature, ridge, gradient,
                multipliers, box,
            )  # fmt: skip
        model = CurvatureOfLimits(constraints, curvature, ridge)
        lowest = np.where(constraints.is_equal, -box, np.maximum(-box, -multipliers))
        return model.maximise_in_box(gradient, lowest, np.full(len(lowest), box))


def _typical_differences(rows):
    """Mean and median of the differences between a row's two best scores, ties left out."""
    differences, farthest = np.empty(len(rows.scores)), np.empty(len(rows.scores))
    score_differences(rows.scores, differences, farthest)
    apart = differences > 0
    if not apart.any():
        return 0.0, 0.0
    mean = float(np.average(differences[apart], weights=rows.weights[apart]))
    return mean, float(np.median(differences[apart]))
