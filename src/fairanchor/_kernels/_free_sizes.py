"""Newton's method for the smoothed fair assignment with free sizes.

All of it is compiled: on a few dozen anchors the arithmetic is nothing, and calls from
Python would be everything.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE
from fairanchor._kernels._centers import soft_assignment

LEAST_RIDGE = 1e-8
# The ridge after a step that went too far, if it had none worth the name: a smaller one hardly
# shortens the next.
FIRST_RIDGE = 1e-2


@njit(nogil=True, cache=NUMBA_CACHE)
def _newton_step(mass, curvature, shares, temperature, ridge):
    """Step of the prices, and the sizes that make it keep ``sum_r pi_r q[l, r] = 0``."""
    n_clusters, n_groups = mass.shape
    inverses = np.empty_like(curvature)
    schur = np.zeros((n_clusters, n_clusters))
    right = np.zeros(n_clusters)
    for r in range(n_groups):
        # The ridge bounds the step; the constant vector, which changes nothing, is sent to itself.
        scale = mass[:, r].sum() / n_clusters
        matrix = curvature[r] + scale / n_clusters
        for l in range(n_clusters):
            matrix[l, l] += scale * ridge
        inverses[r] = np.linalg.inv(matrix)
        schur += shares[r] ** 2 * inverses[r]
        for l in range(n_clusters):
            for k in range(n_clusters):
                right[l] += shares[r] * inverses[r, l, k] * mass[k, r]
    sizes = np.linalg.solve(schur, right)
    sizes *= mass.sum() / sizes.sum()
    step = np.zeros((n_clusters, n_groups))
    # A box per coordinate: the quadratic model holds for a few temperatures only.
    box = 8.0 * temperature
    for l in range(n_clusters):
        mean = 0.0
        for r in range(n_groups):
            total = 0.0
            for k in range(n_clusters):
                total += inverses[r, l, k] * (mass[k, r] - sizes[k] * shares[r])
            step[l, r] = min(box, max(-box, temperature * total))
            mean += shares[r] * step[l, r]
        for r in range(n_groups):
            step[l, r] -= mean
    return step, sizes


@njit(nogil=True, cache=NUMBA_CACHE)
def _is_close(mass, sizes, shares, tolerance):
    for l in range(mass.shape[0]):
        for r in range(mass.shape[1]):
            if abs(mass[l, r] - sizes[l] * shares[r]) > tolerance[r]:
                return False
    return True


@njit(nogil=True, cache=NUMBA_CACHE)
def maximise(scores, group_codes, weights, shares, prices, temperature, tolerance, max_steps):
    """Maximise the smoothed dual at one temperature.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_clusters)
    group_codes, weights : ndarray of shape (n_rows,)
    shares : ndarray of shape (n_groups,)
    prices : ndarray of shape (n_clusters, n_groups)
        Where to start.
    temperature : float
    tolerance : ndarray of shape (n_groups,)
        Largest difference of a group's soft mass in a cluster from its share of the size.
    max_steps : int

    Returns
    -------
    prices : ndarray of shape (n_clusters, n_groups)
    sizes : ndarray of shape (n_clusters,)
        What these prices imply.
    """
    shape, cubic = prices.shape, (len(shares), prices.shape[0], prices.shape[0])
    mass, curvature = np.zeros(shape), np.zeros(cubic)
    value = soft_assignment(scores, group_codes, weights, prices, temperature, mass, curvature)
    ridge = LEAST_RIDGE
    for _ in range(max_steps):
        step, sizes = _newton_step(mass, curvature, shares, temperature, ridge)
        if _is_close(mass, sizes, shares, tolerance):
            # Where the full step would lead: a ridge draws the sizes to where they are.
            _, sizes = _newton_step(mass, curvature, shares, temperature, LEAST_RIDGE)
            return prices, sizes
        trial = prices + step
        new_mass, new_curvature = np.zeros(shape), np.zeros(cubic)
        new_value = soft_assignment(
            scores, group_codes, weights, trial, temperature, new_mass, new_curvature
        )
        if new_value >= value - 1e-12 * abs(value):
            prices, value, mass, curvature = trial, new_value, new_mass, new_curvature
            ridge = ridge / 10 if ridge > 1e-3 * FIRST_RIDGE else LEAST_RIDGE
        else:  # where hardly a row is near a tie the quadratic model promises too much
            ridge = max(10 * ridge, FIRST_RIDGE)
    return prices, mass.sum(axis=1)
