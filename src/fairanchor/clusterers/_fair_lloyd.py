"""Lloyd's algorithm, plain and fair: the engine of `FairKMeans` and of the refinement.

A fair step assigns all rows to the given centres at the least cost among proportional
assignments, and moves the centres to the means. If the step with new sizes does not
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
    transport,
)
from fairanchor.assignment._free_sizes import free_sizes


@dataclass(frozen=True)
class LloydResult:
    """A fair assignment to centres.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,)
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
    centers: np.ndarray
    targets: np.ndarray
    totals: np.ndarray
    prices: np.ndarray
    cost: float
    gap: float
    n_iter: int = 0
    converged: bool = False
    cost_path: list = field(default_factory=list)


def fair_lloyd(rows, centers, *, max_iter, tol, min_size=0.0, targets=None):
    """Alternate fair assignments and means until the cost falls by less than ``tol`` of itself.

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

    Returns
    -------
    result : LloydResult
    """
    free = None
    current = None
    cost_path = []
    converged = False
    for iteration in range(max_iter + 1):  # noqa: B007  the last one is reported
        costs = distances_to(rows, centers)
        if targets is not None:
            step_targets = targets
        else:
            free = free_sizes(costs, rows.group_codes, rows.weights, rows.n_groups, free)
            step_targets = proportional_targets(rows, free.sizes, min_size)
        step = assign_to_centers(rows, centers, costs, step_targets)
        if current is not None and targets is None:
            kept = _sum_of_costs(rows, costs, current.labels)
            if step.cost > kept:
                step = assign_to_centers(rows, centers, costs, current.targets, current.totals)
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
        centers = means_of(rows, step.labels, centers)
    return replace(current, n_iter=iteration, converged=converged, cost_path=cost_path)


def assign_to_centers(rows, centers, costs, targets, totals=None):
    """The cheapest labels whose cells weigh ``targets``, rounded to ``totals``."""
    if totals is None:
        totals = round_targets(targets, rows.group_sizes, whole=not rows.is_weighted)
    weights = rows.weights if rows.is_weighted else None
    result = transport(-costs, rows.group_codes, totals, weights=weights)
    cost = _sum_of_costs(rows, costs, result.labels)
    return LloydResult(result.labels, centers, targets, totals, result.prices, cost, result.gap)


def proportional_targets(rows, sizes, min_size):
    """Targets by which every cluster mirrors the population; sizes whole where rows are."""
    sizes = raise_small_sizes(sizes, min_size)
    if not rows.is_weighted:
        sizes = largest_remainder(sizes, rows.n_rows).astype(np.float64)
    return np.outer(sizes, rows.group_sizes) / rows.group_sizes.sum()


def plain_lloyd(rows, centers, *, max_iter, tol):
    """Lloyd's algorithm without fairness; returns the centres."""
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
    return centers


def distances_to(rows, centers):
    """Squared distances of all rows to the centres."""
    costs = np.empty((rows.n_rows, len(centers)))
    rows.map(lambda block, out: kernels.squared_distances(block.X, centers, out), [costs])
    return costs


def means_of(rows, labels, centers):
    """Means of the clusters; one without weight keeps its centre."""

    def add(block):
        sums = np.zeros_like(centers)
        totals = np.zeros(len(centers))
        own = labels[block.start : block.stop]
        kernels.label_sums(block.X, block.weights, own, sums, totals)
        return sums, totals

    sums, totals = rows.sum(add)
    return _divide(sums, totals, centers)


def cost_of(rows, labels, centers):
    """Squared distances of the rows to their cluster's centre, summed with their weights."""

    def add(block):
        own = labels[block.start : block.stop]
        return (np.array([kernels.label_cost(block.X, block.weights, own, centers)]),)

    return float(rows.sum(add)[0][0])


def _sum_of_costs(rows, costs, labels):
    # No product of BLAS, whose last bits depend on its threads: costs decide which step is kept.
    return float((rows.weights * costs[np.arange(rows.n_rows), labels]).sum())


def _divide(sums, totals, centers):
    used = totals > 0
    moved = centers.copy()
    moved[used] = sums[used] / totals[used, None]
    return moved
