"""Samples of rows that need no random numbers."""

import numpy as np

GOLDEN_RATIO = (1 + 5**0.5) / 2


def spread_sample(n_rows, at_most):
    """Increasing row numbers, at most ``at_most``, one from each of equally long stretches.

    The place within a stretch follows the multiples of the golden ratio: tables whose rows
    come in turns (group a, group b, group a, ...) are common, and every second row of
    such a table would be anything but a sample.
    """
    if n_rows <= at_most:
        return np.arange(n_rows)
    edges = np.linspace(0, n_rows, at_most + 1).astype(np.int64)
    places = np.arange(at_most) * GOLDEN_RATIO % 1.0
    return edges[:-1] + (places * np.diff(edges)).astype(np.int64)
