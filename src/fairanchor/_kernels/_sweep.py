"""One pass over a block of rows: which are clear, and between which clusters the others are."""

import numpy as np
from numba import njit

from fairanchor._kernels import LEAN


@njit(**LEAN)
def classify(costs, group_codes, weights, prices, widths, labels, counts, clear, clusters, kept):
    """Write the cheapest cluster of each row, and those that are within the width of it.

    Parameters
    ----------
    costs : ndarray of shape (n_rows, n_clusters)
    group_codes, weights : ndarray of shape (n_rows,)
    prices : ndarray of shape (n_groups, n_clusters)
        Added to the costs of the group's rows.
    widths : ndarray of shape (n_groups,)
    labels : ndarray of shape (n_rows,)
        Written.
    counts : ndarray of shape (n_rows,)
        Written: 0 for a row whose cluster is clear, else the number of its candidates.
    clear : ndarray of shape (n_clusters, n_groups)
        Incremented by the weights of the clear rows.
    clusters, kept : ndarray of shape (n_rows * n_clusters,)
        Written, as far as needed: candidates of the other rows, and their costs.

    Returns
    -------
    cost : float
        Weighted cost of the clear rows, without prices.
    """
    n_clusters = costs.shape[1]
    total, e = 0.0, 0
    for i in range(costs.shape[0]):
        own, r = costs[i], group_codes[i]
        price = prices[r]
        best, lowest, second = 0, np.inf, np.inf
        for l in range(n_clusters):  # without branches: the best cluster cannot be foreseen
            cost = own[l] + price[l]
            higher = cost if cost > lowest else lowest
            second = higher if higher < second else second
            best = l if cost < lowest else best
            lowest = cost if cost < lowest else lowest
        labels[i] = best
        width = widths[r]
        if second - lowest > width:
            counts[i] = 0
            clear[best, r] += weights[i]
            total += weights[i] * own[best]
            continue
        before = e
        for l in range(n_clusters):
            if own[l] + price[l] - lowest <= width:
                clusters[e] = l
                kept[e] = own[l]
                e += 1
        counts[i] = e - before
    return total


@njit(**LEAN)
def cheapest(band, prices, entries, least):
    """Write the first of each row's cheapest candidates in a `Band`, and its priced cost.

    ``prices`` has shape (n_clusters, n_groups).
    """
    for i in range(band.group_codes.shape[0]):
        r, best, lowest = band.group_codes[i], band.first[i], np.inf
        for e in range(band.first[i], band.first[i + 1]):
            cost = band.costs[e] + prices[band.clusters[e], r]
            if cost < lowest:
                best, lowest = e, cost
        entries[i], least[i] = best, lowest
