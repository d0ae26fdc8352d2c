"""Module 4 of the paper wherever the rows are: from the anchor graph to labels.

Labels follow from soft labels, or from a refinement: fair Lloyd steps that begin with the means
of what the soft labels make of the rows. Of a large table a sample is enough to begin with.
"""

from dataclasses import dataclass

import numpy as np

from fairanchor.assignment import round_targets
from fairanchor.assignment._agreed import AgreedResult, agree
from fairanchor.assignment._limit_rule import LimitRule
from fairanchor.assignment._propagate import ASSIGNMENTS, balanced
from fairanchor.assignment._tolerance import FairAssignment
from fairanchor.clusterers._fair_lloyd import Settled, cost_of, fair_lloyd, means_of, settle
from fairanchor.clusterers._lloyd_in_chunks import fair_lloyd_in_chunks
from fairanchor.clusterers._lloyd_within import FairSteps
from fairanchor.graph._row_solvers import allowed_anchors, require_solved
from fairanchor.rows import ChunkedRows, in_whole_rows

REFINE_TOL = 1e-4


@dataclass(frozen=True)
class Propagated:
    """Labels, and what explains them.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,), or AgreedResult
        Of all rows, or a function that gives those of a chunk.
    targets, prices : ndarray of shape (n_clusters, n_groups)
    centers : ndarray of shape (n_clusters, n_features)
    cost, gap : float
    by_distance : bool
        Whether prices belong to squared distances (after a refinement) or to soft labels.
    assignment : FairAssignment or None
        What is known about labels within limits.
    """

    labels: np.ndarray | AgreedResult
    targets: np.ndarray
    prices: np.ndarray
    centers: np.ndarray
    cost: float
    gap: float
    by_distance: bool
    assignment: FairAssignment | None = None


@dataclass(frozen=True)
class Refinement:
    """Fair Lloyd steps after propagation.

    Attributes
    ----------
    n_steps : int
    free : bool
        Whether sizes are free; else the targets stay.
    min_size : float
        Least weight of a cluster.
    rule : LimitRule or None
        Limits on the clusters, in place of targets and of the least weight.
    """

    n_steps: int
    free: bool
    min_size: float
    rule: LimitRule | None = None

    def settled(self, samples, centers):
        """Centres where the steps come to rest on samples, and the sizes there."""
        sizes = None
        for sample in samples if self.free else ():
            settled = settle(sample, centers, max_iter=self.n_steps, tol=REFINE_TOL, free=sizes)
            centers, sizes = settled.centers, settled.free
        return centers, sizes

    def options(self, rows, targets, sizes):
        """Arguments of the steps on all rows."""
        return {
            "max_iter": self.n_steps,
            "tol": REFINE_TOL,
            "min_size": max(self.min_size, 0.0 if rows.is_weighted else 1.0),
            "targets": None if self.free else targets,
            "free": sizes,
        }


def propagate(name, graph, rows, targets, samples, refinement):
    """Labels of the rows.

    Parameters
    ----------
    name : {"balanced", "argmax"}
    graph : GraphResult
    rows : MemoryRows or ChunkedRows
    targets : ndarray of shape (n_clusters, n_groups)
    samples : list of MemoryRows
    refinement : Refinement

    Returns
    -------
    propagated : Propagated
    """
    if refinement.rule is not None:
        return _propagate_within(graph, rows, targets, samples, refinement)
    is_held = not isinstance(rows, ChunkedRows)
    if refinement.n_steps == 0:
        if is_held:
            return _labels_in_memory(ASSIGNMENTS[name], graph, rows, targets)
        return _labels_in_chunks(graph, rows, targets, samples[-1])
    first = _first_centers(graph, rows, targets, samples)
    centers, sizes = refinement.settled(samples[-2:], first)
    options = refinement.options(rows, targets, sizes)
    if is_held:
        refined = fair_lloyd(rows, centers, **options)
        labels = rows.spread(refined.labels, refined.split)
    else:
        refined = fair_lloyd_in_chunks(rows, samples[-1], centers, **options)
        labels = refined.agreed
    return Propagated(
        labels, refined.targets, refined.prices, refined.centers, refined.cost, refined.gap,
        by_distance=True,
    )  # fmt: skip


def needs_soft_labels(refinement, samples):
    """Whether labels of all rows follow from soft labels: else those of a sample are enough."""
    return refinement.n_steps == 0 or not samples


def _propagate_within(graph, rows, targets, samples, refinement):
    """`propagate` within limits instead of to targets."""
    # The sample as it is: limits are about shares of all rows, and its weights add up to them.
    soft_labels, labelled = _soft_labels(graph, rows, targets, samples)
    found = refinement.rule.assign(labelled, soft_labels)
    zeros = np.zeros((len(targets), rows.n_features))
    centers = means_of(labelled, found.labels, zeros, found.split)
    by_distance = refinement.n_steps > 0
    cost = cost_of(labelled, found.labels, centers, found.split)
    if by_distance:
        steps = FairSteps(refinement.rule, refinement.n_steps, REFINE_TOL, 0.0)
        at = Settled(centers)
        for sample in samples[-2:]:
            at = steps.settle(sample, at)
        refined = steps.follow(rows, at)
        found, centers, cost = refined.assignment, refined.centers, refined.cost
    return Propagated(
        rows.spread(found.labels, found.split), found.counts, found.prices, centers, cost,
        found.gap, by_distance, found,
    )  # fmt: skip


def _soft_labels(graph, rows, targets, samples):
    """Soft labels of the rows, or of a sample of them, and whose they are."""
    soft_labels = graph.pop_soft_labels()
    if soft_labels is not None:
        return soft_labels, rows
    sample, soft_labels = samples[-1], graph.sample_soft_labels
    if soft_labels is None:  # of a solver that does not keep them
        soft_labels = SoftLabelScorer.of(graph, targets).scores(sample)
    return soft_labels, sample


def _first_centers(graph, rows, targets, samples):
    """Means of the clusters that the soft labels make of the rows, or of a sample of them."""
    soft_labels, labelled = _soft_labels(graph, rows, targets, samples)
    rows = labelled if labelled is rows else in_whole_rows(labelled)
    shares = targets * (rows.group_sizes / np.maximum(targets.sum(axis=0), 1e-300))
    assignment = balanced(soft_labels, rows, shares)
    zeros = np.zeros((len(targets), rows.n_features))
    return means_of(rows, assignment.labels, zeros, assignment.split)


def _labels_in_memory(assign, graph, rows, targets):
    assignment = assign(graph.pop_soft_labels(), rows, targets)
    zeros = np.zeros((len(targets), rows.n_features))
    centers = means_of(rows, assignment.labels, zeros, assignment.split)
    cost = cost_of(rows, assignment.labels, centers, assignment.split)
    labels = rows.spread(assignment.labels, assignment.split)
    prices, gap = assignment.prices, assignment.gap
    return Propagated(labels, targets, prices, centers, cost, gap, by_distance=False)


def _labels_in_chunks(graph, rows, targets, sample):
    totals = round_targets(targets, rows.group_sizes, whole=True)
    middles = _means_of_anchors(graph.row_solver.problem)
    agreed = agree(rows, SoftLabelScorer.of(graph, targets), totals, sample, middles=middles)
    sizes = agreed.totals.sum(axis=1)
    centers = agreed.sums / np.maximum(sizes, 1)[:, None]
    # Squares around points that are near, less the little that the means take of them.
    cost = agreed.squares - float(sizes @ ((centers - middles) ** 2).sum(axis=1))
    prices, gap = agreed.prices, agreed.gap
    return Propagated(agreed, targets, prices, centers, max(cost, 0.0), gap, by_distance=False)


def _means_of_anchors(problem):
    """Mean of each cluster's anchors; that of all for a cluster without any."""
    sums = np.zeros((problem.n_clusters, problem.anchors.shape[1]))
    np.add.at(sums, problem.anchor_labels, problem.anchors)
    counts = problem.anchors_per_cluster
    return np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], problem.center)


@dataclass(frozen=True)
class SoftLabelScorer:
    """Soft labels: weight of rows on the anchors of each cluster."""

    row_solver: object
    multipliers: np.ndarray
    allowed: np.ndarray

    @classmethod
    def of(cls, graph, targets):
        """By the prices of a solved anchor graph."""
        allowed = allowed_anchors(graph.row_solver.problem, targets)
        return cls(graph.row_solver, graph.multipliers, allowed)

    @property
    def key(self):
        """What tells these scores from others."""
        return self.multipliers.tobytes()

    def scores(self, rows):
        """Scores of `MemoryRows`."""
        problem = self.row_solver.problem
        priced = self.row_solver.at(self.multipliers, self.allowed)
        everyone = np.ones(rows.n_groups, dtype=bool)
        scores = np.empty((rows.n_rows, problem.n_clusters))

        def kernel(block, out):
            counts = priced.sweep(block, everyone, out, with_curvature=False)[3]
            require_solved(counts, len(block.X), problem)

        rows.map(kernel, [scores])
        return scores
