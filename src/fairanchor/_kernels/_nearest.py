"""Nearest anchors."""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE


@njit(nogil=True, cache=NUMBA_CACHE)
def nearest_allowed(products, half_squares, group_codes, allowed, nearest):
    """Write each row's nearest anchor among those its group may use.

    ``||x - h||^2 / 2`` is, up to a constant of the row, ``half_squares - products``.
    """
    for i in range(products.shape[0]):
        may_use, product = allowed[group_codes[i]], products[i]
        best, smallest = -1, np.inf
        for j in range(product.shape[0]):
            distance = half_squares[j] - product[j]
            if may_use[j] and distance < smallest:
                best, smallest = j, distance
        nearest[i] = best
