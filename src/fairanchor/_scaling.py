"""Keeping squares inside the range of doubles."""

import numpy as np


def power_of_two_scale(X):
    """Factor by which to multiply X so that sums of squares neither overflow nor vanish.

    A power of two changes no digit, and 1.0 (no copy needed) for all ordinary data.
    """
    largest = float(max(abs(X.max(initial=0.0)), abs(X.min(initial=0.0))))
    if largest == 0.0 or 1e-60 < largest < 1e60:
        return 1.0
    # Both halves stay in range where the whole power might not.
    return float(2.0 ** -np.floor(np.log2(largest)))
