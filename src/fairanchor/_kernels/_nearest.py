"""Nearest anchors."""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE


@njit(nogil=True, cache=NUMBA_CACHE)
def add_nearest_mass(products, half_squares, group_codes, weights, allowed, masses):
    """Add each row's weight to the mass of its nearest anchor among those its group may use.

    ``||x - h||^2 / 2`` is, up to a constant of the row, ``half_squares - products``.
    """
    for i in range(products.shape[0]):
        may_use = allowed[group_codes[i]]
        nearest, smallest = -1, np.inf
        for j in range(products.shape[1]):
            if may_use[j] and half_squares[j] - products[i, j] < smallest:
                nearest, smallest = j, half_squares[j] - products[i, j]
        masses[nearest] += weights[i]
