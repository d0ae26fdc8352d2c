"""Counting sort of rows by small integers."""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE


def split_by_code(codes, n_codes):
    """The rows of each code, increasing: a list of index arrays."""
    order, ends = np.empty(len(codes), dtype=np.int64), np.empty(n_codes, dtype=np.int64)
    _sort_by_code(codes, order, ends)
    return np.split(order, ends[:-1])


@njit(nogil=True, cache=NUMBA_CACHE)
def _sort_by_code(codes, order, ends):
    """Write the rows by code, in their order within a code, and where each code's rows end."""
    ends[:] = 0
    for i in range(codes.shape[0]):
        ends[codes[i]] += 1
    total = 0
    for r in range(ends.shape[0]):
        total, ends[r] = total + ends[r], total
    for i in range(codes.shape[0]):
        order[ends[codes[i]]] = i
        ends[codes[i]] += 1
