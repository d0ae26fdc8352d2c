"""The selection loop of DAS and FDAS."""

import numpy as np
from numba import njit

from fairanchor._kernels import LEAN


@njit(**LEAN)
def select_by_decay(scores, n_selected, selected):
    """Pick rows by the largest score; after each pick scores decay by ``s <- s (1 - s)``.

    The decayed scores are divided by the largest of a row that is left.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
        Non-negative; overwritten.
    selected : ndarray of shape (n_selected,), dtype int64
        Written: distinct rows in the order of their selection, the lowest on ties.

    Returns
    -------
    n_found : int
        Smaller than ``n_selected`` when all scores that are left are zero.
    """
    chosen = np.zeros(scores.shape[0], dtype=np.bool_)
    divisor = 0.0
    best = -1
    for i in range(scores.shape[0]):
        if scores[i] > divisor:
            divisor, best = scores[i], i
    n_found = 0
    while best >= 0 and n_found < n_selected:
        selected[n_found] = best
        chosen[best] = True
        n_found += 1
        largest, following = 0.0, -1
        for i in range(scores.shape[0]):
            s = scores[i] / divisor
            scores[i] = s * (1.0 - s)
            if scores[i] > largest and not chosen[i]:
                largest, following = scores[i], i
        divisor, best = largest, following
    return n_found
