"""Keeping squares inside the range of doubles."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

# Beyond these, squares cannot be told from zero or from infinity.
SMALLEST_VALUE, LARGEST_VALUE = 1e-152, 1e152


def power_of_two_scale(X: Any) -> float:
    """Factor by which to multiply X so that sums of squares neither overflow nor vanish.

    A power of two changes no digit, and 1.0 (no copy needed) for all ordinary data. Values
    whose squares leave the range of doubles raise an error.
    """
    return scale_of_largest(largest_value(X))


def largest_value(X: Any) -> float:
    """Largest absolute value of a dense or sparse array."""
    values = X.data if issparse(X) else X
    return float(max(abs(values.max(initial=0.0)), abs(values.min(initial=0.0))))


def scale_of_largest(largest: float) -> float:
    """`power_of_two_scale` of rows whose largest absolute value is known."""
    if not (largest == 0.0 or SMALLEST_VALUE < largest < LARGEST_VALUE):
        raise ValueError(
            f"The largest absolute value of X is {largest:.3g}, expected between "
            f"{SMALLEST_VALUE:g} and {LARGEST_VALUE:g}: squared distances would exceed double "
            "precision. Multiply X by a constant, which does not change the labels."
        )
    if largest == 0.0 or 1e-60 < largest < 1e60:
        return 1.0
    return float(2.0 ** -np.floor(np.log2(largest)))
