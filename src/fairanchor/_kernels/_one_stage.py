"""Coordinate descent on the one-stage fair cut: one row at a time changes its cluster.

With weights w, cluster weights N_l, the association A_l inside a cluster and the excess
``e_lr = N_lr - share_r N_l`` of each group, a cluster costs

    (-A_l + fairness_weight * sum_r e_lr**2) / N_l

and differs from the trace form of the objective by constants only. Sums of squared
excesses, unlike sums of squared counts, do not drown the association when the weight of
fairness is large.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from fairanchor._kernels import INNER, LEAN


class Association(NamedTuple):
    """A symmetric matrix in CSR form without its diagonal, and that diagonal."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    loops: np.ndarray


class Rows(NamedTuple):
    """Positive weight and group of each row, and the groups' shares of the total weight."""

    weights: np.ndarray
    codes: np.ndarray
    shares: np.ndarray


class Sums(NamedTuple):
    """Rows, weight, association and excess of each group, of every cluster."""

    sizes: np.ndarray
    mass: np.ndarray
    association: np.ndarray
    excess: np.ndarray


@njit(**INNER)
def _spread(excess, shares):
    """Squared length of a cluster's excess, and its product with the shares."""
    squared, along = 0.0, 0.0
    for r in range(len(shares)):
        squared += excess[r] * excess[r]
        along += shares[r] * excess[r]
    return squared, along


@njit(**INNER)
def _add_row(i, l, sign, inside, rows, sums):
    """Add a row to cluster l (sign 1) or take it out (sign -1), in place; return its spread."""
    w, shares = rows.weights[i], rows.shares
    sums.sizes[l] += np.int64(sign)
    sums.mass[l] += sign * w
    sums.association[l] += sign * inside
    for r in range(len(shares)):
        sums.excess[l, r] -= sign * w * shares[r]
    sums.excess[l, rows.codes[i]] += sign * w
    return _spread(sums.excess[l], shares)


@njit(**LEAN)
def sweep(graph, rows, fairness_weight, labels, sums):
    """Move every row, in index order, to the cluster that lowers the cost most.

    A row stays where it is on ties, and where it is alone. ``labels`` and ``sums`` change in
    place. Returns the number of moves. O(edges + rows × clusters), and O(groups) per move.
    """
    shares = rows.shares
    sizes, mass, association, excess = sums
    n_clusters = len(sizes)
    squared_share = (shares * shares).sum()
    squared, along = np.zeros(n_clusters), np.zeros(n_clusters)
    for l in range(n_clusters):
        squared[l], along[l] = _spread(excess[l], shares)
    links = np.zeros(n_clusters)
    n_moved = 0
    for i in range(len(labels)):
        home, g, w, loop = labels[i], rows.codes[i], rows.weights[i], graph.loops[i]
        if sizes[home] == 1:
            continue
        links[:] = 0.0
        for p in range(graph.indptr[i], graph.indptr[i + 1]):
            links[labels[graph.indices[p]]] += graph.data[p]
        self_term = w * w * (1.0 - 2.0 * shares[g] + squared_share)

        cut = association[home] - 2.0 * links[home] - loop
        unfair = squared[home] - 2.0 * w * (excess[home, g] - along[home]) + self_term
        left = (fairness_weight * unfair - cut) / (mass[home] - w)
        stay = (fairness_weight * squared[home] - association[home]) / mass[home]
        best, best_change = home, 0.0
        for l in range(n_clusters):
            if l == home:
                continue
            cut = association[l] + 2.0 * links[l] + loop
            unfair = squared[l] + 2.0 * w * (excess[l, g] - along[l]) + self_term
            joined = (fairness_weight * unfair - cut) / (mass[l] + w)
            before = (fairness_weight * squared[l] - association[l]) / mass[l]
            change = (joined - before) + (left - stay)
            # A gain below rounding error is a tie.
            noise = 1e-13 * (abs(joined) + abs(before) + abs(left) + abs(stay))
            if change < best_change - noise:
                best, best_change = l, change
        if best != home:
            for l, sign in ((home, -1.0), (best, 1.0)):
                inside = 2.0 * links[l] + loop
                squared[l], along[l] = _add_row(i, l, sign, inside, rows, sums)
            labels[i] = best
            n_moved += 1
    return n_moved
