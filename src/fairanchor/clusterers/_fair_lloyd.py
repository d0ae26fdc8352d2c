"""Lloyd's algorithm, plain and fair: the engine of `FairKMeans` and of the refinement.

A fair step assigns all rows to the given centres at the least cost among proportional
assignments, and moves the centres to the means. Once a step with new sizes does not
lower the cost, the sizes of the step before are kept: with these the exact transport
cannot be worse than the labels it starts from. So the cost never rises.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from fairanchor._kernels import _centers as kernels
from fairanchor.assignment import (
    largest_remainder,
    raise_small_sizes,
    round_targets,
    transport_rows,
)
from fairanchor.assignment._free_sizes import FreeSizes, free_sizes


@dataclass(frozen=True)
class LloydResult:
    """A fair assignment to centres.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,)
    split : dict
        Rows whose copies have different labels, with (cluster, number of copies) each.
    centers : ndarray of shape (n_clusters, n_features)
        The labels are the best ones for these centres.
    targets : ndarray of shape (n_clusters, n_groups)
        Weight asked for in each cell, before rounding.
    totals : ndarray of shape (n_clusters, n_groups)
        The targets, rounded to counts where rows have no weights.
    prices : ndarray of shape (n_clusters, n_groups)
        Row i of group r has the least ``||x_i - center_l||^2 - prices[l, r]`` at its label.
    cost : float
    gap : float
        Of the last transport; zero proves its labels optimal.
    n_iter : int
    converged : bool
    cost_path : list of float
        Cost after each iteration, never increasing.
    """

    labels: np.ndarray
    split: dict
    centers: np.ndarray
    targets: np.ndarray
    totals: np.ndarray
    prices: np.ndarray
    cost: float
    gap: float
    n_iter: int = 0
    converged: bool = False
    cost_path: list = field(default_factory=list)


def fair_lloyd(rows, centers, *, max_iter, tol, min_size=0.0, targets=None, free=None):
    """Alternate fair assignments and means until the cost falls by less than ``tol`` of itself.

    Or until a move of the centres shows that it would.

    Parameters
    ----------
    rows : MemoryRows
    centers : ndarray of shape (n_clusters, n_features)
    max_iter : int
        Number of times that the centres move.
    tol : float
    min_size : float
        Least weight of a cluster.
    targets : ndarray of shape (n_clusters, n_groups), default=None
        Fixed weights of the cells. By default the clusters mirror the population and
        their sizes are free.
    free : FreeSizes, default=None
        Of the given centres, on fewer rows.

    Returns
    -------
    result : LloydResult
    """
    assigner = _HeldAssigner(rows, len(centers))
    return iterate_fairly(assigner, centers, max_iter, tol, min_size, targets, free)


def iterate_fairly(assigner, centers, max_iter, tol, min_size, targets, free):
    """`fair_lloyd` wherever the rows are.

    Parameters
    ----------
    assigner : object
        ``move_to(centers)``, then ``cost_of(step)`` of an earlier step's labels,
        ``free_sizes(free)`` and ``assign(targets, totals, start)`` at these centres;
        ``means(step)``; ``rows``.
    """
    current, kept = None, np.inf
    cost_path = []
    converged = False
    sizes_are_free = targets is None
    for iteration in range(max_iter + 1):
        assigner.move_to(centers)
        if current is not None:
            kept = assigner.cost_of(current)
        if sizes_are_free:
            free = assigner.free_sizes(free)
            wanted = proportional_targets(assigner.rows, free.sizes, min_size)
            step = assigner.assign(wanted, start=-free.prices)
            # Sizes of a sample stop paying before the centres have settled: the last ones stay.
            sizes_are_free = step.cost <= kept
        if not sizes_are_free:
            given = (targets,) if current is None else (current.targets, current.totals)
            start = None if current is None else current.prices
            step = assigner.assign(*given, start=start)
            # Weights can make the rounding of the very same totals come out dearer.
            if step.cost > kept:
                converged = True
                break
        if current is not None and step.cost >= current.cost * (1.0 - tol):
            converged = True
            if step.cost <= current.cost:
                current = step
                cost_path.append(step.cost)
            break
        current = step
        cost_path.append(step.cost)
        centers = assigner.means(step)
        if is_settled(step.totals.sum(axis=1), centers - step.centers, step.cost, tol):
            iteration += 1  # the move that shows it has been made
            converged = True
            break
    return replace(current, n_iter=iteration, converged=converged, cost_path=cost_path)


class _HeldAssigner:
    """Rows in memory, with their scores."""

    def __init__(self, rows, n_clusters):
        self.rows = rows
        self.scores = np.empty((rows.n_rows, n_clusters))

    def move_to(self, centers):
        self.centers = centers
        write_scores(self.rows, centers, self.scores)

    def cost_of(self, step):
        return -total_score(self.rows, self.scores, step.labels, step.split)

    def free_sizes(self, free):
        rows = self.rows
        return free_sizes(self.scores, rows.group_codes, rows.weights, rows.n_groups, free)

    def assign(self, targets, totals=None, start=None):
        return assign_to_centers(self.rows, self.centers, self.scores, targets, totals, start)

    def means(self, step):
        return means_of(self.rows, step.labels, self.centers, step.split)


@dataclass(frozen=True)
class Settled:
    """Where fair k-means converges on a sample."""

    centers: np.ndarray
    cost: float = np.inf
    free: FreeSizes | None = None


def settle(sample, centers, *, max_iter, tol, free=None):
    """Iterate on a sample until the cost falls by less than ``tol`` of itself.

    Rows near a tie are shared between clusters, as the smoothed program with free sizes has
    it: exactly fair, fractional, and cheap enough to compare many starts or to come near
    what an exact iteration on all rows goes on from.
    """
    settled = None
    scores = np.empty((sample.n_rows, len(centers)))
    for _ in range(max_iter + 1):
        write_scores(sample, centers, scores)
        free = free_sizes(scores, sample.group_codes, sample.weights, sample.n_groups, free)
        moved, cost = _shared_means(sample, scores, free, centers)
        if settled is not None and cost >= settled.cost * (1.0 - tol):
            break
        settled = Settled(centers, cost, free)
        if is_settled(free.sizes, moved - centers, cost, tol):
            break
        centers = moved
    return settled


def is_settled(sizes, moves, cost, tol):
    """Whether the last move of the centres lowers the cost by less than half of ``tol`` of it.

    The next assignment lowers it by about as much again: too little to be worth a sweep.
    """
    return float(sizes @ (moves**2).sum(axis=1)) < 0.5 * tol * cost


def _shared_means(rows, scores, free, centers):
    """Means and cost of the clusters between which the smoothed program shares the rows."""
    if free.temperature == 0.0:
        labels = scores.argmax(axis=1)
        return means_of(rows, labels, centers), -total_score(rows, scores, labels)

    def add(block):
        sums, totals = np.zeros_like(centers), np.zeros(len(centers))
        score = kernels.soft_sums(
            block.X, scores[block.start : block.stop], block.group_codes, block.weights,
            free.prices, free.temperature, sums, totals,
        )  # fmt: skip
        return sums, totals, np.array([score])

    sums, totals, score = rows.sum(add)
    return _divide(sums, totals, centers), -float(score[0])


def assign_to_centers(rows, centers, scores, targets, totals=None, start=None):
    """The cheapest labels whose cells weigh ``targets``, rounded to ``totals``."""
    if totals is None:
        totals = round_targets(targets, rows.group_sizes, whole=not rows.is_weighted)
    result = transport_rows(rows, scores, totals, start=start)
    cost = -total_score(rows, scores, result.labels, result.split)
    return LloydResult(
        result.labels, result.split, centers, targets, totals, result.prices, cost, result.gap
    )


def proportional_targets(rows, sizes, min_size):
    """Targets by which every cluster mirrors the population; sizes whole where rows are."""
    sizes = raise_small_sizes(sizes, min_size)
    if not rows.is_weighted:
        sizes = largest_remainder(sizes, int(rows.total)).astype(np.float64)
    return np.outer(sizes, rows.group_sizes) / rows.total


def plain_lloyd(rows, centers, *, max_iter, tol):
    """Lloyd's algorithm without fairness; returns the centres and the last cost seen."""
    n_clusters = len(centers)

    def step(block, centers):
        sums = np.zeros((n_clusters, rows.n_features))
        totals = np.zeros(n_clusters)
        cost = kernels.nearest_center_sums(block.X, block.weights, centers, sums, totals)
        return sums, totals, np.array([cost])

    last_cost = np.inf
    for _ in range(max_iter):
        sums, totals, cost = rows.sum(lambda block, centers=centers: step(block, centers))
        if cost[0] >= last_cost * (1.0 - tol):
            break
        last_cost = cost[0]
        centers = _divide(sums, totals, centers)
    return centers, last_cost


@dataclass(frozen=True)
class CenterScorer:
    """Minus the squared distances to centres."""

    centers: np.ndarray

    @property
    def key(self):
        """What tells these scores from others."""
        return self.centers.tobytes()

    def scores(self, rows):
        """Scores of `MemoryRows`."""
        scores = np.empty((rows.n_rows, len(self.centers)))
        write_scores(rows, self.centers, scores)
        return scores


def distances_to(rows, centers):
    """Squared distances of all rows to the centres."""
    distances = np.empty((rows.n_rows, len(centers)))
    rows.map(lambda block, out: kernels.squared_distances(block.X, centers, out, 1.0), [distances])
    return distances


def dual_value(rows, centers, prices):
    """Lower bound on the cost of labels whose clusters mirror the population, by given prices."""
    shares = rows.group_sizes / rows.total
    # The price of a cell without rows can be out of all reach, and would spoil the cluster's mean.
    reach = 4.0 * ((centers[:, None] - centers) ** 2).sum(axis=2).max()
    prices = np.maximum(prices, prices.max(axis=0) - reach)
    added = (prices @ shares)[:, None] - prices
    return float(rows.sum(_DualValue(centers, added), "bound")[0])


@dataclass(frozen=True)
class _DualValue:
    """The kernel of `dual_value`, which can be sent to where the rows are."""

    centers: np.ndarray
    added: np.ndarray

    def __call__(self, block):
        costs = np.empty((len(block.X), len(self.centers)))
        kernels.squared_distances(block.X, self.centers, costs, 1.0)
        costs += self.added.T[block.group_codes]
        return (np.asarray(block.weights @ costs.min(axis=1)),)


def write_scores(rows, centers, scores):
    """Write minus the squared distances of all rows to the centres."""
    rows.map(lambda block, out: kernels.squared_distances(block.X, centers, out, -1.0), [scores])


def means_of(rows, labels, centers, split=None):
    """Means of the clusters; one without weight keeps its centre."""
    return _divide(*cluster_sums(rows, labels, len(centers), split), centers)


def cluster_sums(rows, labels, n_clusters, split=None):
    """Sum of the rows of each cluster, and their weight."""

    def add(block):
        sums = np.zeros((n_clusters, rows.n_features))
        totals = np.zeros(n_clusters)
        own = labels[block.start : block.stop]
        kernels.label_sums(block.X, block.weights, own, sums, totals)
        return sums, totals

    sums, totals = rows.sum(add)
    for row, cluster, moved in _moves(rows, labels, split):
        sums[cluster] += moved * rows.X[row]
        totals[cluster] += moved
    return sums, totals


def cost_of(rows, labels, centers, split=None):
    """Squared distances of the rows to their cluster's centre, summed with their weights."""

    def add(block):
        own = labels[block.start : block.stop]
        return (np.array([kernels.label_cost(block.X, block.weights, own, centers)]),)

    cost = float(rows.sum(add)[0][0])
    for row, cluster, moved in _moves(rows, labels, split):
        cost += moved * float(((rows.X[row] - centers[cluster]) ** 2).sum())
    return cost


def total_score(rows, scores, labels, split=None):
    """Scores of the rows for their clusters, summed with their weights."""

    def add(block):
        own = slice(block.start, block.stop)
        return (np.array([kernels.own_score(scores[own], block.weights, labels[own])]),)

    total = float(rows.sum(add)[0][0])
    for row, cluster, moved in _moves(rows, labels, split):
        total += moved * float(scores[row, cluster])
    return total


def _moves(rows, labels, split):
    """What split rows weigh elsewhere than at their label: (row, cluster, change) each."""
    for row, parts in (split or {}).items():
        yield row, labels[row], -rows.weights[row]
        for cluster, weight in parts:
            yield row, cluster, weight


def _divide(sums, totals, centers):
    used = totals > 0
    moved = centers.copy()
    moved[used] = sums[used] / totals[used, None]
    return moved
