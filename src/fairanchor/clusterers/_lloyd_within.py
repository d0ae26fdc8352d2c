"""Fair Lloyd steps within limits on shares and sizes: a tolerance, targets, several attributes.

Each step finds the best labels within the limits for the given centres, with the labels of
the step before as incumbent, and moves the centres to the means. So the cost never rises, nor
does the number of rows by which a limit is missed.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from fairanchor.assignment._limit_rule import LimitRule, bound_of_prices, incumbent_of
from fairanchor.assignment._tolerance import FairAssignment
from fairanchor.clusterers._fair_lloyd import (
    LloydResult,
    Settled,
    distances_to,
    dual_value,
    fair_lloyd,
    is_settled,
    means_of,
    settle,
    total_score,
    write_scores,
)
from fairanchor.rows import ChunkedRows


@dataclass(frozen=True)
class LloydWithinLimits(LloydResult):
    """A fair assignment to centres, and what is known about it.

    ``targets`` and ``totals`` are the counts, ``gap`` is what the labels cost more than the
    linear program.
    """

    assignment: FairAssignment | None = field(default=None, repr=False)


def lloyd_within(rows, centers, rule, *, max_iter, tol, start=None, incumbent=None):
    """Alternate best labels within limits and means, as `fair_lloyd` does for fixed shares.

    Rows by which limits are missed never rise. Nor does the cost, but where less is missed; the
    result's ``cost_path`` begins after that.

    Parameters
    ----------
    rows : MemoryRows
    centers : ndarray of shape (n_clusters, n_features)
    rule : LimitRule
    max_iter : int
        Number of times that the centres move.
    tol : float
        The iterations end when the cost falls by less than this part of itself.
    start : list of ndarray, default=None
        Multipliers of a similar problem.
    incumbent : FairAssignment, default=None
        Labels of these rows, for the given centres. The result costs no more, unless these
        labels miss the limits by more rows than the result.

    Returns
    -------
    result : LloydWithinLimits
    """
    current, cost_path, converged = None, [], False
    scores = np.empty((rows.n_rows, len(centers)))
    for iteration in range(max_iter + 1):
        write_scores(rows, centers, scores)
        found = rule.assign(rows, scores, start=start, incumbent=incumbent)
        step = _step(found, centers)
        if current is not None:
            if _misses_less(rows, found, current.assignment):
                cost_path = []  # what costs less and misses more is no measure
            elif step.cost > -total_score(rows, scores, current.labels, current.split):
                # Only the rounding of weights can come out dearer.
                converged = True
                break
            elif step.cost >= current.cost * (1.0 - tol):
                converged = True
                if step.cost <= current.cost:
                    current = step
                    cost_path.append(step.cost)
                break
        current, incumbent, start = step, found, found.multipliers
        cost_path.append(step.cost)
        centers = means_of(rows, step.labels, centers, step.split)
        if is_settled(found.sizes, centers - step.centers, step.cost, tol):
            iteration += 1  # the move that shows it has been made
            converged = True
            break
    return replace(current, n_iter=iteration, converged=converged, cost_path=cost_path)


def settle_within(sample, centers, rule, *, max_iter, tol, free=None):
    """Iterate with labels that keep the limits nearly, to compare starts or to come near.

    Parameters
    ----------
    sample : MemoryRows
    centers : ndarray of shape (n_clusters, n_features)
    rule : LimitRule
    max_iter : int
    tol : float
    free : list of ndarray, default=None
        Multipliers of a similar problem.

    Returns
    -------
    settled : Settled
        The cost is a lower bound on that of labels within the limits; ``free`` has the
        multipliers.
    """
    settled = None
    scores = np.empty((sample.n_rows, len(centers)))
    for _ in range(max_iter + 1):
        write_scores(sample, centers, scores)
        bound, labels, free = rule.estimate(sample, scores, free)
        if settled is not None and bound >= settled.cost * (1.0 - tol):
            break
        settled = Settled(centers, bound, free)
        moved = means_of(sample, labels, centers)
        sizes = np.bincount(labels, weights=sample.weights, minlength=len(centers))
        if is_settled(sizes, moved - centers, bound, tol):
            break
        centers = moved
    return settled


def _misses_less(rows, found, other):
    """Whether labels are nearer to the limits; weights are rounded now so, now so."""
    return not rows.is_weighted and found.violation < other.violation


def _step(found, centers):
    return LloydWithinLimits(
        found.labels, found.split, centers, found.counts, found.counts, found.prices, found.cost,
        found.gap, assignment=found,
    )  # fmt: skip


@dataclass(frozen=True)
class FairSteps:
    """Fair Lloyd steps: exact proportions of one attribute, or within the limits of a rule.

    Attributes
    ----------
    rule : LimitRule or None
        Bounds on shares and sizes.
    targets : ndarray of shape (n_clusters, n_groups), or None
        Fixed weights of the cells. Neither asks for exact proportions.
    max_iter : int
    tol : float
    min_size : float
        Least weight of a cluster, where there is no rule to say it.
    """

    rule: LimitRule | None
    targets: np.ndarray | None
    max_iter: int
    tol: float
    min_size: float

    def settle(self, sample, at):
        """Where the steps converge on a sample, from a `Settled` of other rows."""
        options = {"max_iter": self.max_iter, "tol": self.tol, "free": at.free}
        if self.rule is None:
            return settle(sample, at.centers, **options)
        return settle_within(sample, at.centers, self.rule, **options)

    def follow(self, rows, at):
        """`LloydResult` of the steps with whole rows, from a `Settled` of others."""
        options = {"max_iter": self.max_iter, "tol": self.tol}
        if self.rule is None:
            return fair_lloyd(
                rows, at.centers, min_size=self.min_size, targets=self.targets, free=at.free,
                **options,
            )  # fmt: skip
        return lloyd_within(rows, at.centers, self.rule, start=at.free, **options)

    def better_of(self, rows, result, before):
        """A result, or what comes of going on from another one for tighter limits.

        Returns
        -------
        better : LloydWithinLimits
        is_other : bool
        """
        options = {"max_iter": self.max_iter, "tol": self.tol}
        incumbent = getattr(before, "assignment", None)
        start = None if incumbent is None else incumbent.multipliers
        if incumbent is None:
            incumbent = incumbent_of(rows, before.labels, before.split, before.prices)
        other = lloyd_within(
            rows, before.centers, self.rule, start=start, incumbent=incumbent, **options
        )
        costs = [(own.assignment.violation, own.cost) for own in (other, result)]
        return (other, True) if costs[0] <= costs[1] else (result, False)


def bound_of(rows, result, constraint):
    """Lower bound on the cost of labels for the result's centres, fractional ones included."""
    if isinstance(result, LloydWithinLimits):
        return result.assignment.lp_value
    if constraint.targets is not None:
        return result.cost - result.gap
    if isinstance(rows, ChunkedRows):
        return dual_value(rows, result.centers, result.prices)
    scores = -distances_to(rows, result.centers)
    return bound_of_prices(rows, scores, result.prices)
