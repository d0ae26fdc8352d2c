"""Whole numbers of rows for the cells, as near to limits on shares as they come.

The limits refer to a cluster's own size. With the sizes chosen, they are bounds on the
cells, and integer tables within bounds on cells and with given margins are a flow: if
there is a fractional one there is an integer one.
"""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.optimize import LinearConstraint, milp
from scipy.sparse.csgraph import maximum_flow

from fairanchor._kernels._cell_flow import fills_greedily
from fairanchor.assignment._rounding import largest_remainder
from fairanchor.assignment._share_limits import ROUNDING_ERROR, LimitRows

# Sizes that differ by so much from those of the linear program are tried, if the nearest
# ones do not let all cells be within their limits: this part of a size, at least and at most
# so many rows.
SIZE_REACH = 0.01
LEAST_SIZE_REACH, MOST_SIZE_REACH = 2, 50
# With as few rows and cells, whole numbers within the limits are looked for at all sizes.
FEW_ROWS, FEW_CELLS = 500, 60
# Nodes of the search for the nearest of them, and for any at all.
NODES_FOR_NEAREST, NODES_FOR_ANY = 100, 2_000


def choose_cells(limits, table):
    """Sizes, and least and greatest counts of the cells, that some integer table meets.

    Strictly within the limits if that is possible with sizes next to the table's, or, for few
    rows, with any sizes; else with bounds rounded outward, by which a cell misses its limit
    by less than a row. Only limits that differ between clusters can make it necessary to go
    further out.

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
    for sizes in _candidate_sizes(limits, table, rounded):
        low, high = strict_bounds(limits, sizes)
        if has_table(sizes, group_sizes, low, high):
            return sizes, low, high, True
    outside = 0
    while True:
        low, high = outward_bounds(limits, rounded, outside)
        if has_table(rounded, group_sizes, low, high):
            return rounded, low, high, False
        outside = max(1, 2 * outside)


def _candidate_sizes(limits, table, rounded):
    """Sizes with which all cells may be within their limits, best first."""
    yield rounded
    wanted = table.sum(axis=1)
    near = strictly_possible_sizes([limits], wanted)
    if near is not None:
        yield near
    if rounded.sum() <= FEW_ROWS and table.size <= FEW_CELLS:
        anywhere = sizes_of_strict_table([limits], table)
        if anywhere is not None:
            yield anywhere


def sizes_of_strict_table(limits, table, joint=None):
    """Sizes of the integer table within the limits whose sizes are nearest to a table's.

    By an integer program over the cells, so for few rows and cells only.

    Parameters
    ----------
    limits : list of ShareLimits
        One per attribute.
    table : ndarray of shape (n_clusters, n_groups)
    joint : ndarray of shape (n_groups, n_attributes), default=None
        Group in each attribute of the table's groups; by default these are the only attribute.

    Returns
    -------
    sizes : ndarray of shape (n_clusters,), or None
        None if there is no such table (or none was found in `NODES_FOR_ANY` nodes).
    """
    sizes = table.sum(axis=1)
    # A cluster that has rows keeps some.
    least = np.maximum(limits[0].least, np.minimum(1.0, np.floor(sizes)))
    wanted = _WholeTable.within(limits, joint, np.rint(table.sum(axis=0)), least)
    some = _some_table(wanted)
    if some is None:
        return None
    # In whole numbers: HiGHS was seen to fail where the distances are fractions.
    nearest = wanted.nearest_to(np.rint(sizes))
    return (some if nearest is None else nearest).sum(axis=1).astype(np.int64)


@dataclass(frozen=True)
class _WholeTable:
    """An integer program for a table within limits. Equal ones have equal answers.

    Attributes
    ----------
    shape : tuple of int
    key : tuple of bytes
        All that the answer depends on.
    matrix : sparse array of shape (n_rows, n_cells)
    low, high : ndarray of shape (n_rows,)
    """

    shape: tuple
    key: tuple
    matrix: object = field(compare=False)
    low: np.ndarray = field(compare=False)
    high: np.ndarray = field(compare=False)

    @classmethod
    def within(cls, limits, joint, group_sizes, least):
        """Of groups of these sizes, within the shares of limits and at least so large clusters."""
        constraints = LimitRows.of(limits, joint).constraints
        n_clusters, n_groups = shape = constraints.shape
        of_sizes = sparse.kron(sparse.eye_array(n_clusters), np.ones((1, n_groups)))
        of_groups = sparse.kron(np.ones((1, n_clusters)), sparse.eye_array(n_groups))
        matrix = sparse.csr_array(sparse.vstack([constraints.matrix, of_groups, of_sizes]))
        lowest = np.where(constraints.is_equal, constraints.right, -np.inf)
        low = np.concatenate([lowest, group_sizes, least])
        high = np.concatenate([constraints.right, group_sizes, limits[0].greatest])
        parts = (matrix.data, matrix.indices, matrix.indptr, low, high)
        return cls(shape, tuple(part.tobytes() for part in parts), matrix, low, high)

    def nearest_to(self, sizes):
        """The table whose sizes differ least from these in all, of those found; or None."""
        n_clusters, n_groups = self.shape
        each = sparse.eye_array(n_clusters)
        of_sizes = sparse.kron(each, np.ones((1, n_groups)))
        # Variables: the cells, and the distances of the sizes from the wanted ones.
        constraints = [
            self.limits(n_clusters),
            LinearConstraint(sparse.hstack([of_sizes, -each]), -np.inf, sizes),
            LinearConstraint(sparse.hstack([of_sizes, each]), sizes, np.inf),
        ]
        costs = np.repeat([0.0, 1.0], [n_clusters * n_groups, n_clusters])
        return self.solve(costs, constraints, NODES_FOR_NEAREST)

    def limits(self, n_more=0):
        """The program's rows, with so many variables besides the cells."""
        nothing = sparse.csr_array((self.matrix.shape[0], n_more))
        return LinearConstraint(sparse.hstack([self.matrix, nothing]), self.low, self.high)

    def solve(self, costs, constraints, max_nodes):
        """The table of least cost that was found in so many nodes; None without any."""
        n_cells = self.matrix.shape[1]
        solution = milp(
            costs,
            constraints=constraints,
            integrality=np.repeat([1, 0], [n_cells, len(costs) - n_cells]),
            options={"node_limit": max_nodes},
        )
        if solution.x is None:
            return None
        return np.rint(solution.x[:n_cells]).reshape(self.shape)


@lru_cache(maxsize=64)
def _some_table(wanted):
    """Any such table, or None: steps that only move centres ask for it again and again."""
    costs = np.zeros(wanted.matrix.shape[1])
    return wanted.solve(costs, [wanted.limits()], NODES_FOR_ANY)


def round_sizes(sizes, total):
    """Whole sizes with this sum, each rounded up or down."""
    nearest = np.rint(sizes)
    # A size that the program's tolerance puts just below a limit must not be rounded down.
    is_whole = np.abs(sizes - nearest) <= 1e-6 * np.maximum(1.0, np.abs(nearest)) ** 0.5
    return largest_remainder(np.where(is_whole, nearest, sizes), total)


def strict_bounds(limits, sizes):
    low, high = _whole_limits(limits.lower, limits.upper, sizes[:, None])
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
    choices = [_possible_sizes(limits, l, wanted) for l, wanted in enumerate(sizes)]
    if any(len(own) == 0 for own in choices):
        return None
    return _nearest_with_sum(choices, sizes, total)


def _nearest_with_sum(choices, wanted, total):
    """One of the choices for each cluster, with this sum, at the least distance from the wanted.

    By dynamic programming over the sums of the first clusters' sizes.
    """
    first = [int(own[0]) for own in choices]
    distances = np.zeros(1)  # of the best choices so far, by their sum less that of the first
    steps = []
    for own, size, lowest in zip(choices, wanted, first, strict=True):
        offsets = own - lowest
        following = np.full(len(distances) + offsets[-1], np.inf)
        chosen = np.zeros(len(following), dtype=np.int64)
        for offset, distance in zip(offsets.tolist(), np.abs(own - size), strict=True):
            part = slice(offset, offset + len(distances))
            is_nearer = distances + distance < following[part]
            following[part][is_nearer] = (distances + distance)[is_nearer]
            chosen[part][is_nearer] = offset
        distances = following
        steps.append(chosen)
    place = total - sum(first)
    if not 0 <= place < len(distances) or not np.isfinite(distances[place]):
        return None
    result = []
    for lowest, chosen in zip(reversed(first), reversed(steps), strict=True):
        result.append(lowest + chosen[place])
        place -= chosen[place]
    return np.array(result[::-1], dtype=np.int64)


def _possible_sizes(limits, l, wanted):
    """Sizes near the wanted one with which a cluster can be within its limits, increasing."""
    # A cluster that has rows keeps some: one without any is within all limits.
    least = max(limits[0].least[l], min(1.0, np.floor(wanted)))
    reach = max(LEAST_SIZE_REACH, min(MOST_SIZE_REACH, int(SIZE_REACH * wanted)))
    sizes = np.arange(max(int(np.floor(wanted)) - reach, int(least)), np.ceil(wanted) + reach + 1)
    is_possible = sizes <= limits[0].greatest[l]
    for own in limits:
        low, high = _whole_limits(own.lower[l], own.upper[l], sizes[:, None])
        is_possible &= (low <= high).all(axis=1)
        is_possible &= (low.sum(axis=1) <= sizes) & (sizes <= high.sum(axis=1))
    return sizes[is_possible].astype(np.int64)


def _whole_limits(lower, upper, sizes):
    """Least and greatest whole numbers within shares of sizes."""
    error = ROUNDING_ERROR * np.maximum(1.0, sizes)
    return np.ceil(lower * sizes - error), np.floor(upper * sizes + error)


def has_table(sizes, group_sizes, low, high):
    """Whether some table has these margins, and cells within these bounds."""
    supply, demand = sizes - low.sum(axis=1), group_sizes - low.sum(axis=0)
    if (low > high).any() or (supply < 0).any() or (demand < 0).any():
        return False
    n_clusters, n_groups = low.shape
    room = high - low
    if fills_greedily(supply.astype(np.float64), demand.astype(np.float64), room):
        return True
    # Nodes: source, clusters, groups, sink.
    capacity = np.zeros((n_clusters + n_groups + 2,) * 2, dtype=np.int32)
    capacity[0, 1 : n_clusters + 1] = supply
    capacity[1 : n_clusters + 1, n_clusters + 1 : -1] = room
    capacity[n_clusters + 1 : -1, -1] = demand
    flow = maximum_flow(sparse.csr_array(capacity), 0, len(capacity) - 1)
    return flow.flow_value == int(supply.sum())
