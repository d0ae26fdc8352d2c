"""Rows as the price programs see them: scores, a group and a weight each."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fairanchor._kernels import _tolerance as kernels
from fairanchor._kernels._centers import soft_assignment
from fairanchor._kernels._sorting import split_by_code
from fairanchor._sampling import spread_sample, spread_sample_by_weight
from fairanchor.rows._memory import map_in_threads

# Rows of a sweep that one thread takes at a time; sums are taken in this order.
BLOCK_ROWS = 32_768


class Preferred(NamedTuple):
    """Where rows prefer to be under some prices.

    Attributes
    ----------
    value : float
        The rows' part of the dual.
    mass : ndarray of shape (n_clusters, n_groups)
    labels : ndarray of shape (n_rows,), dtype int32
    margins : ndarray of shape (n_rows,)
        What each row loses in the second best cluster.
    """

    value: float
    mass: np.ndarray
    labels: np.ndarray
    margins: np.ndarray


@dataclass(frozen=True)
class ScoredRows:
    """Rows with a group, a weight, and a score for each cluster."""

    scores: np.ndarray
    group_codes: np.ndarray
    weights: np.ndarray
    n_groups: int
    n_jobs: int | None = None

    @property
    def n_clusters(self):
        return self.scores.shape[1]

    @property
    def group_sizes(self):
        return np.bincount(self.group_codes, weights=self.weights, minlength=self.n_groups)

    def sample(self, at_most):
        """Some rows of each group, which weigh as much as all of its rows."""
        if len(self.scores) <= at_most:
            return self
        rows, weights = [], []
        is_even = self.weights.min() == self.weights.max()
        for own in split_by_code(self.group_codes, self.n_groups):
            quota = max(at_most * len(own) // len(self.scores), at_most // (4 * self.n_groups), 1)
            if is_even:
                chosen = spread_sample(len(own), quota)
                own_weights = np.full(len(chosen), self.weights[0] * len(own) / max(len(chosen), 1))
            else:
                chosen, own_weights = spread_sample_by_weight(self.weights[own], quota)
            rows.append(own[chosen])
            weights.append(own_weights)
        rows = np.concatenate(rows)
        return replace(
            self,
            scores=np.ascontiguousarray(self.scores[rows]),
            group_codes=self.group_codes[rows],
            weights=np.concatenate(weights),
            n_jobs=1,
        )

    def share_softly(self, prices, temperature):
        """Value, masses and curvatures of the smoothed dual, summed in the order of blocks."""
        n_clusters, n_groups = prices.shape

        def sweep(span):
            mass = np.zeros((n_clusters, n_groups))
            curvature = np.zeros((n_groups, n_clusters, n_clusters))
            value = soft_assignment(
                self.scores[span], self.group_codes[span], self.weights[span],
                prices, temperature, mass, curvature,
            )  # fmt: skip
            return value, mass, curvature

        return self._sum(sweep)

    def prefer(self, prices):
        """Where the rows prefer to be."""
        labels = np.empty(len(self.scores), dtype=np.int32)
        margins = np.empty(len(self.scores))

        def sweep(span):
            mass = np.zeros(prices.shape)
            value = kernels.prefer(
                self.scores[span], self.group_codes[span], self.weights[span],
                prices, labels[span], margins[span], mass,
            )  # fmt: skip
            return value, mass

        value, mass = self._sum(sweep)
        return Preferred(value, mass, labels, margins)

    def distances_of_cells(self, prices, preferred, n_rows, tied):
        """By how much each price must change to move some of the rows that are not tied.

        ``tied`` is relative to the mean margin.
        """
        return kernels.distances_of_cells(
            self.scores, self.group_codes, prices, preferred.labels, preferred.margins, n_rows,
            tied * float(preferred.margins.mean()),
        )  # fmt: skip

    def movable(self, prices, preferred, boxes):
        """Numbers of the rows that changes of prices within boxes could move."""
        return kernels.find_movable(
            self.scores, self.group_codes, prices, preferred.labels, preferred.margins, boxes
        )

    def _sum(self, sweep):
        spans = [slice(k, k + BLOCK_ROWS) for k in range(0, len(self.scores), BLOCK_ROWS)]
        if len(spans) == 1:
            return sweep(spans[0])
        totals = None
        for parts in map_in_threads(sweep, spans, self.n_jobs):
            totals = (
                parts if totals is None else [a + b for a, b in zip(totals, parts, strict=True)]
            )
        return totals
