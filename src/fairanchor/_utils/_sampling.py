"""Rows by group, samples spread over the table by a fixed rule, and seeds of repeated fits.

Samples with weights, for iterations on fewer rows, are in `rows/_samples.py`.
"""

from typing import Any

import numpy as np
from sklearn.base import clone

GOLDEN_RATIO = (1 + 5**0.5) / 2


def spread_sample(n_rows: int, at_most: int) -> np.ndarray:
    """Increasing row numbers, at most ``at_most``, one from each of equally long stretches.

    The place within a stretch follows the multiples of the golden ratio: tables whose rows
    come in turns (group a, group b, group a, ...) are common, and every second row of
    such a table would be anything but a sample.
    """
    if n_rows <= at_most:
        return np.arange(n_rows)
    edges = np.linspace(0, n_rows, at_most + 1).astype(np.int64)
    turns = np.arange(at_most) * GOLDEN_RATIO
    places = turns - np.floor(turns)  # the same as modulo 1, in a fifth of the time
    return edges[:-1] + (places * np.diff(edges)).astype(np.int64)


def spread_sample_by_weight(weights: np.ndarray, at_most: int) -> tuple[np.ndarray, np.ndarray]:
    """A sample in which a row occurs as often as its weight asks for.

    One place from each of equally heavy stretches, as in `spread_sample`: where some rows
    weigh a thousand times as much as others, rows chosen evenly would be no sample. Returns
    increasing row numbers, and weights whose sum is that of all weights.
    """
    if len(weights) <= at_most:
        return np.arange(len(weights)), np.asarray(weights, dtype=np.float64)
    until = np.cumsum(weights)
    places = (np.arange(at_most) + np.arange(at_most) * GOLDEN_RATIO % 1.0) / at_most
    met = np.searchsorted(until, places * until[-1], side="right")
    rows, counts = np.unique(np.minimum(met, len(weights) - 1), return_counts=True)
    return rows, counts * (until[-1] / at_most)


def clone_with_seed(estimator: Any, rng: np.random.RandomState) -> Any:
    """A clone to be fitted again and again; without a ``random_state`` it gets one."""
    copy = clone(estimator)
    if copy.get_params(deep=False).get("random_state", 0) is None:
        copy.set_params(random_state=rng.randint(np.iinfo(np.int32).max))
    return copy


def split_by_code(codes: np.ndarray, n_codes: int) -> list[np.ndarray]:
    """The rows of each code, increasing: a list of index arrays."""
    order, ends = sorted_by_code(codes, n_codes)
    return np.split(order, ends[:-1])


def sorted_by_code(codes: np.ndarray, n_codes: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows in the order of their codes, and where those of each code end."""
    # Small types are sorted by counting.
    order = np.argsort(codes.astype(np.min_scalar_type(n_codes)), kind="stable")
    return order, np.cumsum(np.bincount(codes, minlength=n_codes))
