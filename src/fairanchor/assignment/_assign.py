"""Labels of rows, wherever they are, from what they cost in each cluster."""

from dataclasses import dataclass

import numpy as np

from fairanchor.assignment._agreed import AgreedResult, agree
from fairanchor.assignment._rounding import round_targets
from fairanchor.assignment._tolerance import FairAssignment
from fairanchor.assignment._transport import transport_rows
from fairanchor.rows import ChunkedRows
from fairanchor.rows._chunks import added


@dataclass(frozen=True)
class Assigned:
    """Labels that satisfy a constraint, and what explains them.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,), or AgreedResult
        Of all rows; of rows in chunks, functions that label a chunk.
    targets : ndarray of shape (n_clusters, n_groups)
        What was asked for, or the table that was chosen within bounds.
    prices : ndarray of shape (n_clusters, n_groups)
        Row i of group r has the largest ``scores[i, l] + prices[l, r]`` at its label, up to ties.
    gap : float
        Value of the labels above a lower bound on it; zero proves them optimal.
    within : FairAssignment or None
        What is known about labels within bounds.
    """

    labels: np.ndarray | AgreedResult
    targets: np.ndarray
    prices: np.ndarray
    gap: float
    within: FairAssignment | None = None


@dataclass(frozen=True)
class KnownScores:
    """Scores of rows in memory that have been computed before."""

    known: np.ndarray

    def scores(self, rows):
        """Of the rows that they were computed for."""
        return self.known


def unconstrained(rows, scorer):
    """What rows do without a constraint.

    Parameters
    ----------
    rows : MemoryRows or ChunkedRows
    scorer : object
        As in `assign_rows`.

    Returns
    -------
    mass : ndarray of shape (n_clusters, n_groups)
        Weight of each group's rows by their cheapest cluster.
    cost : float
        Weighted sum of these costs.
    """
    if isinstance(rows, ChunkedRows):
        mass, cost = rows.each("costs", _Unconstrained(scorer), combine=added)
    else:
        mass, cost = _cheapest(rows, scorer.scores(rows))
    return mass, float(cost)


@dataclass(frozen=True)
class _Unconstrained:
    """`unconstrained` of one chunk, which keeps its scores for the assignment."""

    scorer: object

    def __call__(self, chunk):
        return _cheapest(chunk.distinct, chunk.scores(self.scorer))


def _cheapest(rows, scores):
    best = scores.argmax(axis=1)
    shape = (scores.shape[1], rows.n_groups)
    cells = best * rows.n_groups + rows.group_codes
    mass = np.bincount(cells, weights=rows.weights, minlength=shape[0] * shape[1])
    return mass.reshape(shape), np.asarray(-rows.weights @ scores[np.arange(len(best)), best])


def assign_rows(rows, scorer, constraint, sample=None, middles=None):
    """The best labels of rows under a constraint.

    Parameters
    ----------
    rows : MemoryRows or ChunkedRows
        Equal rows may be merged.
    scorer : object
        ``scores(rows)`` are minus the costs of `MemoryRows` in each cluster.
    constraint : Constraint
        With targets or a rule.
    sample : MemoryRows, default=None
        Of rows in chunks: a weighted sample.
    middles : ndarray of shape (n_clusters, n_features), default=None
        Of rows in chunks: points from which squared distances are summed.

    Returns
    -------
    assigned : Assigned
    """
    if constraint.rule is not None:
        found = constraint.rule.assign(rows, scorer.scores(rows))
        labels = rows.spread(found.labels, found.split)
        return Assigned(labels, found.counts, found.prices, found.gap, found)
    targets = constraint.targets
    totals = round_targets(targets, rows.group_sizes, whole=not rows.is_weighted)
    if isinstance(rows, ChunkedRows):
        agreed = agree(rows, scorer, totals, sample, middles=middles)
        return Assigned(agreed, targets, agreed.prices, agreed.gap)
    result = transport_rows(rows, scorer.scores(rows), totals)
    labels = rows.spread(result.labels, result.split)
    return Assigned(labels, targets, result.prices, result.gap)
