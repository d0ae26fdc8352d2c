"""The paper's inner solver: Frank-Wolfe steps with exact line search, one row at a time."""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE, REASSOCIATE


@njit(nogil=True, cache=NUMBA_CACHE, fastmath=REASSOCIATE)
def update_weights(
    Z, products, group_codes, Q, rho, shift, prices, n_steps, gap_tolerance, curvature_tolerance,
    anchor_labels, cell_mass,
):  # fmt: skip
    """Approximate the Z-update of ADMM in place, from the weights of the iteration before.

    Row i minimises ``1/2 z'(Q + rho I)z + c'z`` over the simplex with
    ``c = -2 products[i] - rho (z_old + shift) + prices``, the shift and the prices being those of
    the row's group (Q already holds the factor two).

    Parameters
    ----------
    Z : ndarray of shape (n_rows, n_anchors)
        Overwritten.
    shift, prices : ndarray of shape (n_groups, n_anchors)
    cell_mass : ndarray of shape (n_clusters, n_groups)
        Incremented by the new weights.

    Returns
    -------
    squared_change : float
        Sum of squared differences between new and old weights.
    """
    m = Q.shape[0]
    squared_change = 0.0
    c, old, gradient = np.empty(m), np.empty(m), np.empty(m)
    for i in range(Z.shape[0]):
        r = group_codes[i]
        z = Z[i]
        for j in range(m):
            old[j] = z[j]
            c[j] = prices[r, j] - 2.0 * products[i, j] - rho * (z[j] + shift[r, j])
        for j in range(m):
            total = c[j] + rho * z[j]
            for k in range(m):
                total += Q[j, k] * z[k]
            gradient[j] = total
        # Along a step both products with z change by known numbers: no pass over the anchors.
        slope, linear = 0.0, 0.0
        for j in range(m):
            slope += gradient[j] * z[j]
            linear += c[j] * z[j]
        for _ in range(n_steps):
            best = 0
            for j in range(1, m):
                if gradient[j] < gradient[best]:
                    best = j
            gap = slope - gradient[best]
            if gap <= gap_tolerance:
                break
            # Direction e_best - z; its image under Q + rho I follows from the gradient c + (Q +
            # rho I)z itself.
            at_best = gradient[best] - c[best]
            image_of_best = Q[best, best] + rho - at_best
            image_of_z = at_best - (slope - linear)
            curvature = image_of_best - image_of_z
            step = 1.0
            if curvature > curvature_tolerance:
                step = min(1.0, gap / curvature)
            kept = 1.0 - step
            slope = kept * (slope + step * image_of_z) + step * (
                gradient[best] + step * image_of_best
            )
            linear = kept * linear + step * c[best]
            toward = Q[best]
            for j in range(m):
                z[j] *= kept
                gradient[j] += step * (toward[j] - (gradient[j] - c[j]))
            gradient[best] += step * rho
            z[best] += step
        for j in range(m):
            difference = z[j] - old[j]
            squared_change += difference * difference
            cell_mass[anchor_labels[j], r] += z[j]
    return squared_change
