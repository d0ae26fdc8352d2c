"""Coordinate descent on the one-stage fair cut: one row at a time changes its cluster.

With weights w, cluster weights N_l, the association A_l inside a cluster and the excess
``e_lr = N_lr - share_r N_l`` of each group, a cluster costs

    (-A_l + fairness_weight * sum_r e_lr**2) / N_l

and differs from the trace form of the objective by constants only. Sums of squared
excesses, unlike sums of squared counts, do not drown the association when the weight of
fairness is large.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE


@njit(nogil=True, cache=NUMBA_CACHE)
def cluster_sums(graph, rows, shares, labels, n_clusters):
    """Sums per cluster that `sweep` updates, from scratch.

    Parameters
    ----------
    graph : tuple
        ``indptr``, ``indices``, ``data`` of the symmetric association in CSR form without its
        diagonal, and ``loops``, that diagonal.
    rows : tuple
        ``weights``, positive, and ``codes``, the group, of each row.
    shares : ndarray of shape (n_groups,)
        Of the groups in the total weight.
    labels : ndarray of shape (n_rows,)

    Returns
    -------
    sizes : ndarray of shape (n_clusters,), dtype int64
        Rows of each cluster.
    mass : ndarray of shape (n_clusters,)
        Weight of each cluster.
    association : ndarray of shape (n_clusters,)
    excess : ndarray of shape (n_clusters, n_groups)
    """
    indptr, indices, data, loops = graph
    weights, codes = rows
    sizes = np.zeros(n_clusters, dtype=np.int64)
    mass = np.zeros(n_clusters)
    association = np.zeros(n_clusters)
    excess = np.zeros((n_clusters, len(shares)))
    for i in range(len(labels)):
        l = labels[i]
        sizes[l] += 1
        mass[l] += weights[i]
        excess[l, codes[i]] += weights[i]
        inside = loops[i]
        for p in range(indptr[i], indptr[i + 1]):
            if labels[indices[p]] == l:
                inside += data[p]
        association[l] += inside
    for l in range(n_clusters):
        for r in range(len(shares)):
            excess[l, r] -= shares[r] * mass[l]
    return sizes, mass, association, excess


@njit(nogil=True, cache=NUMBA_CACHE)
def _spread(excess, shares):
    """Squared length of a cluster's excess, and its product with the shares."""
    squared, along = 0.0, 0.0
    for r in range(len(shares)):
        squared += excess[r] * excess[r]
        along += shares[r] * excess[r]
    return squared, along


@njit(nogil=True, cache=NUMBA_CACHE)
def _add_row(l, sign, w, g, inside, shares, sizes, mass, association, excess, squared, along):
    """Add a row to cluster l (sign 1) or take it out (sign -1), in place."""
    sizes[l] += np.int64(sign)
    mass[l] += sign * w
    association[l] += sign * inside
    for r in range(len(shares)):
        excess[l, r] -= sign * w * shares[r]
    excess[l, g] += sign * w
    squared[l], along[l] = _spread(excess[l], shares)


@njit(nogil=True, cache=NUMBA_CACHE)
def sweep(graph, rows, shares, fairness_weight, labels, sums):
    """Move every row, in index order, to the cluster that lowers the cost most.

    A row stays where it is on ties, and where it is alone. O(edges + rows × clusters), and
    O(groups) per move.

    Parameters
    ----------
    graph : tuple
        ``indptr``, ``indices``, ``data`` and ``loops`` of `cluster_sums`.
    rows : tuple
        ``weights`` and ``codes``.
    shares : ndarray of shape (n_groups,)
    fairness_weight : float
    labels : ndarray of shape (n_rows,)
        Updated in place.
    sums : tuple
        What `cluster_sums` returned, updated in place.

    Returns
    -------
    n_moved : int
    """
    indptr, indices, data, loops = graph
    weights, codes = rows
    sizes, mass, association, excess = sums
    n_clusters = len(sizes)
    squared_share = (shares * shares).sum()
    squared, along = np.zeros(n_clusters), np.zeros(n_clusters)
    for l in range(n_clusters):
        squared[l], along[l] = _spread(excess[l], shares)
    links = np.zeros(n_clusters)
    n_moved = 0
    for i in range(len(labels)):
        home, g, w = labels[i], codes[i], weights[i]
        if sizes[home] == 1:
            continue
        links[:] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            links[labels[indices[p]]] += data[p]
        own = w * w * (1.0 - 2.0 * shares[g] + squared_share)

        cut = association[home] - 2.0 * links[home] - loops[i]
        unfair = squared[home] - 2.0 * w * (excess[home, g] - along[home]) + own
        left = (fairness_weight * unfair - cut) / (mass[home] - w)
        stay = (fairness_weight * squared[home] - association[home]) / mass[home]
        best, best_change = home, 0.0
        for l in range(n_clusters):
            if l == home:
                continue
            cut = association[l] + 2.0 * links[l] + loops[i]
            unfair = squared[l] + 2.0 * w * (excess[l, g] - along[l]) + own
            joined = (fairness_weight * unfair - cut) / (mass[l] + w)
            before = (fairness_weight * squared[l] - association[l]) / mass[l]
            change = (joined - before) + (left - stay)
            # A gain below rounding error is a tie.
            noise = 1e-13 * (abs(joined) + abs(before) + abs(left) + abs(stay))
            if change < best_change - noise:
                best, best_change = l, change
        if best != home:
            inside = 2.0 * links[home] + loops[i]
            _add_row(
                home, -1.0, w, g, inside, shares, sizes, mass, association, excess, squared, along
            )
            inside = 2.0 * links[best] + loops[i]
            _add_row(
                best, 1.0, w, g, inside, shares, sizes, mass, association, excess, squared, along
            )
            labels[i] = best
            n_moved += 1
    return n_moved
