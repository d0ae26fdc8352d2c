"""Smoothed start of the prices: Newton's method on a sample, then on all rows."""

import numpy as np

from fairanchor._kernels._tolerance import maximise_in_box
from fairanchor._kernels._transport import score_differences
from fairanchor.assignment._limit_curvature import CurvatureOfLimits

# Temperatures relative to the difference between a row's two best scores: the first to the
# mean, so that prices can go as far as outliers ask for, the last to the median row's.
FIRST_TEMPERATURE = 0.5
LAST_TEMPERATURE = 0.5 / 4**4
COOLING = 4.0
# Far from the end a few rows tell where to go, near it only many do: rows of a sample, the
# temperature, relative to the last, down to which they are enough, and most steps at one.
# Few steps will do: what they leave over, the linear programs settle in less time.
SAMPLES = ((500, 4**3, 6), (2_000, 4**2, 6), (20_000, 4, 3), (np.inf, 1, 2))
# Rows of a sample of the differences.
DIFFERENCES_ROWS = 20_000
# A step that gains less than this part of the value is the last at its temperature.
LEAST_GAIN = 1e-6
# With more limits than this the matrix of a Newton step would be costly to solve with.
MANY_LIMITS = 300
# Largest miss of a limit, relative to the rows, that ends a temperature.
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
    mean, median = _typical_differences(rows.sample(DIFFERENCES_ROWS))
    if mean == 0.0:
        return np.zeros(len(constraints.right)) if multipliers is None else multipliers
    last = LAST_TEMPERATURE * median
    temperature = FIRST_TEMPERATURE * mean
    if multipliers is None:
        multipliers = np.zeros(len(constraints.right))
    else:
        temperature = min(temperature, COOLING**2 * last)
    for n_rows, lowest, max_steps in SAMPLES:
        sample = rows.sample(n_rows)
        while True:
            multipliers = _maximise(sample, constraints, multipliers, temperature, max_steps)
            if temperature <= lowest * last:
                break
            temperature /= COOLING
    return multipliers


def _maximise(rows, constraints, multipliers, temperature, max_steps):
    """Maximise the smoothed dual at one temperature, by Newton steps in a box."""
    is_free = constraints.is_equal
    tolerance = MASS_TOLERANCE * rows.weights.sum() / rows.n_clusters / rows.n_groups

    def evaluate(multipliers):
        value, mass, curvature = rows.share_softly(constraints.prices(multipliers), temperature)
        return value - constraints.right @ multipliers, mass, curvature

    value, mass, curvature = evaluate(multipliers)
    ridge, box = LEAST_RIDGE, 8.0 * temperature
    for _ in range(max_steps):
        gradient = -constraints.left(mass)
        wanted = np.where(is_free | (multipliers > 0), np.abs(gradient), gradient)
        if wanted.max(initial=0.0) <= tolerance:
            break
        lowest = np.where(is_free, -box, np.maximum(-box, -multipliers))
        added = ridge * rows.weights.sum() / temperature
        model = (constraints, curvature / temperature, added)
        step = _newton_step(*model, gradient, lowest, np.full(len(lowest), box))
        trial = multipliers + step
        trial_value, trial_mass, trial_curvature = evaluate(trial)
        gain = trial_value - value
        if gain >= -1e-12 * abs(value):
            multipliers, value, mass, curvature = trial, trial_value, trial_mass, trial_curvature
            if gain <= LEAST_GAIN * abs(value):
                break
            ridge, box = max(ridge / 100, LEAST_RIDGE), min(2 * box, 8.0 * temperature)
        else:  # where hardly a row is near a tie the quadratic model promises too much
            ridge, box = 10 * ridge, box / 4
    return multipliers


def _newton_step(constraints, curvature, ridge, gradient, lowest, highest):
    """Step in a box that maximises the quadratic model of the smoothed dual."""
    if constraints.n_limits > MANY_LIMITS:
        model = CurvatureOfLimits(constraints, curvature, ridge)
        return model.maximise_in_box(gradient, lowest, highest)
    hessian = _curvature_of_limits(constraints.dense, curvature)
    hessian[np.diag_indices_from(hessian)] += ridge
    return maximise_in_box(hessian, gradient, lowest, highest, 30)


def _curvature_of_limits(matrix, curvature):
    """``A K A'`` for the block-diagonal matrix K of the groups' curvatures."""
    n_groups, n_clusters, _ = curvature.shape
    by_group = matrix.reshape(len(matrix), n_clusters, n_groups).transpose(2, 0, 1)
    product = (by_group @ curvature).transpose(1, 2, 0).reshape(matrix.shape)
    return product @ matrix.T


def _typical_differences(rows):
    """Mean and median of the differences between a row's two best scores, ties left out."""
    differences, farthest = np.empty(len(rows.scores)), np.empty(len(rows.scores))
    score_differences(rows.scores, differences, farthest)
    apart = differences > 0
    if not apart.any():
        return 0.0, 0.0
    mean = float(np.average(differences[apart], weights=rows.weights[apart]))
    return mean, float(np.median(differences[apart]))
