"""Whole numbers of rows for the cells, as near to limits on shares as they come.

The limits refer to a cluster's own size. With the sizes chosen, they are bounds on the
cells, and integer tables within bounds on cells and with given margins are a flow: if
there is a fractional one there is an integer one.
"""

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow

from fairanchor.assignment._rounding import largest_remainder
from fairanchor.assignment._share_limits import ROUNDING_ERROR

# Sizes that differ by so much from those of the linear program are tried, if the nearest
# ones do not let all cells be within their limits.
SIZE_REACH = 2


def choose_cells(limits, table):
    """Sizes, and least and greatest counts of the cells, that some integer table meets.

    Strictly within the limits if that is possible with sizes next to the table's, else
    with bounds rounded outward, by which a cell misses its limit by less than a row. Only
    limits that differ between clusters can make it necessary to go further out.

    Parameters
    ----------
    limits : ShareLimits
        In whole rows.
    table : ndarray of shape (n_clusters, n_groups)
        Of the linear program.

    Returns
    -------
    sizes : ndarray of shape (n_clusters,), dtype int64
    low, high : ndarray of shape (n_clusters, n_groups)
    is_strict : bool
    """
    group_sizes = np.rint(table.sum(axis=0)).astype(np.int64)
    rounded = round_sizes(table.sum(axis=1), int(group_sizes.sum()))
    for sizes in (rounded, strictly_possible_sizes([limits], table.sum(axis=1))):
        if sizes is not None:
            low, high = strict_bounds(limits, sizes)
            if has_table(sizes, group_sizes, low, high):
                return sizes, low, high, True
    outside = 0
    while True:
        low, high = outward_bounds(limits, rounded, outside)
        if has_table(rounded, group_sizes, low, high):
            return rounded, low, high, False
        outside = max(1, 2 * outside)


def round_sizes(sizes, total):
    """Whole sizes with this sum, each rounded up or down."""
    nearest = np.rint(sizes)
    # A size that the program's tolerance puts just below a limit must not be rounded down.
    is_whole = np.abs(sizes - nearest) <= 1e-6 * np.maximum(1.0, np.abs(nearest)) ** 0.5
    return largest_remainder(np.where(is_whole, nearest, sizes), total)


def strict_bounds(limits, sizes):
    error = ROUNDING_ERROR * np.maximum(1.0, sizes)[:, None]
    low = np.ceil(limits.lower * sizes[:, None] - error)
    high = np.floor(limits.upper * sizes[:, None] + error)
    return np.maximum(low, 0.0), np.minimum(high, sizes[:, None])


def outward_bounds(limits, sizes, outside):
    error = ROUNDING_ERROR * np.maximum(1.0, sizes)[:, None]
    low = np.floor(limits.lower * sizes[:, None] + error) - outside
    high = np.ceil(limits.upper * sizes[:, None] - error) + outside
    return np.maximum(low, 0.0), np.minimum(high, sizes[:, None])


def strictly_possible_sizes(limits, sizes):
    """Nearest whole sizes with which every cluster, by itself, can be within its limits.

    Parameters
    ----------
    limits : list of ShareLimits
        One per attribute.
    sizes : ndarray of shape (n_clusters,)
        Of the linear program.

    Returns
    -------
    sizes : ndarray of shape (n_clusters,), or None
        None if there are none with the right sum near by.
    """
    total = int(np.rint(sizes.sum()))
    costs = {0: (0.0, ())}  # sum so far: distance so far, sizes so far
    for l, wanted in enumerate(sizes):
        following = {}
        for size in _possible_sizes(limits, l, wanted):
            for partial, (cost, chosen) in costs.items():
                key, value = partial + size, cost + abs(size - wanted)
                if key <= total and value < following.get(key, (np.inf,))[0]:
                    following[key] = (value, (*chosen, size))
        costs = following
    if total not in costs:
        return None
    return np.array(costs[total][1], dtype=np.int64)


def _possible_sizes(limits, l, wanted):
    # A cluster that has rows keeps some: one without any is within all limits.
    least = max(limits[0].least[l], min(1.0, np.floor(wanted)))
    first, last = int(np.floor(wanted)) - SIZE_REACH, int(np.ceil(wanted)) + SIZE_REACH
    sizes = range(max(first, int(least)), last + 1)
    return [
        size
        for size in sizes
        if size <= limits[0].greatest[l] and all(_is_possible(own, l, size) for own in limits)
    ]


def _is_possible(limits, l, size):
    error = ROUNDING_ERROR * max(1, size)
    low = np.ceil(limits.lower[l] * size - error)
    high = np.floor(limits.upper[l] * size + error)
    return (low <= high).all() and low.sum() <= size <= high.sum()


def has_table(sizes, group_sizes, low, high):
    """Whether some table has these margins, and cells within these bounds."""
    supply, demand = sizes - low.sum(axis=1), group_sizes - low.sum(axis=0)
    if (low > high).any() or (supply < 0).any() or (demand < 0).any():
        return False
    n_clusters, n_groups = low.shape
    # Nodes: source, clusters, groups, sink.
    capacity = np.zeros((n_clusters + n_groups + 2,) * 2, dtype=np.int32)
    capacity[0, 1 : n_clusters + 1] = supply
    capacity[1 : n_clusters + 1, n_clusters + 1 : -1] = high - low
    capacity[n_clusters + 1 : -1, -1] = demand
    flow = maximum_flow(sparse.csr_array(capacity), 0, len(capacity) - 1)
    return flow.flow_value == int(supply.sum())
