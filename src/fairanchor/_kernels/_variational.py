"""Polishing of variational fair clustering: single rows change their cluster."""

import math

import numpy as np
from numba import njit

from fairanchor._kernels import INNER, LEAN


@njit(**LEAN)
def polish_labels(order, costs, weights, codes, shares, strength, floor, max_sweeps, labels):
    """Move single rows while that lowers the energy of the hard labels, in place.

    Rows are visited in the given order and go to the cluster that lowers the energy most,
    if it does so by more than rounding errors can explain. No cluster loses its last row.
    The table of masses is counted anew before each sweep, so errors cannot accumulate. The penalty
    is that of `Penalty.of_masses`.
    """
    n_clusters = costs.shape[1]
    masses = np.empty((n_clusters, len(shares)))
    totals = np.empty(n_clusters)
    sizes = np.empty(n_clusters, dtype=np.int64)
    for _ in range(max_sweeps):
        masses[:] = 0.0
        sizes[:] = 0
        for i in range(len(labels)):
            masses[labels[i], codes[i]] += weights[i]
            sizes[labels[i]] += 1
        for l in range(n_clusters):
            totals[l] = masses[l].sum()
        moved = False
        for i in order:
            origin, group, weight = labels[i], codes[i], weights[i]
            if sizes[origin] == 1:
                continue
            share, cell_floor = shares[group], floor * shares[group]
            left = _change(masses[origin, group], totals[origin], -weight, share, cell_floor, floor)
            best, target = 0.0, origin
            for l in range(n_clusters):
                if l == origin or sizes[l] == 0:
                    continue
                joined = _change(masses[l, group], totals[l], weight, share, cell_floor, floor)
                moved_cost = weight * (costs[i, l] - costs[i, origin])
                change = moved_cost + strength * (left + joined)
                noise = abs(moved_cost) + strength * (abs(left) + abs(joined))
                if change < best and change < -1e-12 * noise:
                    best, target = change, l
            if target != origin:
                masses[origin, group] -= weight
                masses[target, group] += weight
                totals[origin] -= weight
                totals[target] += weight
                sizes[origin] -= 1
                sizes[target] += 1
                labels[i] = target
                moved = True
        if not moved:
            return


@njit(**INNER)
def _change(cell, total, added, share, cell_floor, floor):
    """Change of a cluster's divergence when one of its cells gains ``added``."""
    of_total = math.log(max(total + added, floor) / max(total, floor))
    of_cell = math.log(max(cell + added, cell_floor) / max(cell, cell_floor))
    return of_total - share * of_cell
