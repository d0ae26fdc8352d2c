"""Whole tables near a fractional one: counts of rows that keep limits, or miss them least."""

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from fairanchor.assignment._rounding import largest_remainder

# Tables with more cells are rounded cell by cell; with fewer than these, cells are looked for
# further away.
MOST_CELLS, FEW_CELLS = 600, 60
# How far beyond a limit on shares a table may be, in rows, and how far cells may be from their
# fractional values: what is tried, the best first.
TRIALS = ((0.0, 0), (0.0, 2), (0.999, 0), (0.999, 2), (1.999, 2), (3.999, 4))
# Of each search: where it ends without a proof, the best table found is nearly as good.
MAX_NODES, GAP = 20, 0.1
# Bounds this close to a whole number are whole.
WHOLE = 1e-9


def whole_table(rule, table, group_sizes):
    """Counts near a table that is within limits.

    Sizes of clusters are within their limits, and every group has its rows. Shares are within
    theirs where such a table is near; else the worst miss is as small as can be found, below one
    row for a single attribute.

    Parameters
    ----------
    rule : LimitRule
    table : ndarray of shape (n_clusters, n_groups)
        Weights within the limits, summing to the groups.
    group_sizes : ndarray of shape (n_groups,)
        Whole numbers.

    Returns
    -------
    counts : ndarray of shape (n_clusters, n_groups), dtype int64
    """
    group_sizes, limit_rows = np.rint(group_sizes), rule.limit_rows
    if table.size <= MOST_CELLS:
        for miss, reach in TRIALS:
            if miss == 0.0 and reach > 0 and table.size > FEW_CELLS:
                continue
            counts = _search(limit_rows, table, group_sizes, miss, reach)
            if counts is not None:
                return counts
    return _rounded(rule, table, group_sizes)


def _search(limit_rows, table, group_sizes, miss, reach):
    """The nearest table that is beyond no limit on shares by more than ``miss``, or None.

    A cell is its floor, plus at most one row at a cost that its fraction tells, plus or minus
    further rows at the full cost.
    """
    constraints, (n_clusters, n_groups) = limit_rows.constraints, table.shape
    cells = np.maximum(_snapped(table), 0.0).ravel()
    floor = np.floor(cells)
    of_groups = sparse.kron(np.ones((1, n_clusters)), sparse.eye_array(n_groups), format="csr")
    slack = np.where(limit_rows.place[:, 0] < 0, 0.0, miss)
    left = constraints.right - constraints.matrix @ floor
    wanted = group_sizes - of_groups @ floor

    def changes(matrix):
        return sparse.hstack([matrix, matrix, -matrix], format="csr")

    parts = [LinearConstraint(changes(of_groups), wanted, wanted)]
    if constraints.n_limits:
        least = np.where(constraints.is_equal, left - slack, -np.inf)
        parts.append(LinearConstraint(changes(constraints.matrix), least, left + slack + WHOLE))
    further = np.full(table.size, float(reach))
    solution = milp(
        np.concatenate([1.0 - 2.0 * (cells - floor), np.ones(2 * table.size)]),
        constraints=parts,
        integrality=np.ones(3 * table.size),
        bounds=Bounds(
            0.0, np.concatenate([np.ones(table.size), further, np.minimum(floor, reach)])
        ),
        options={"node_limit": MAX_NODES, "mip_rel_gap": GAP},
    )
    if solution.x is None:
        return None
    up, beyond, below = np.rint(solution.x).reshape(3, table.size)
    counts = (floor + up + beyond - below).astype(np.int64).reshape(table.shape)
    return counts if (counts.sum(axis=0) == group_sizes).all() else None


def _rounded(rule, table, group_sizes):
    """Sizes rounded within their limits, then the nearest cells with these sizes.

    With whole sizes, limits on the shares of one attribute are bounds on the cells. Rounded
    outward to whole numbers, they leave a transportation problem, whose solution is whole.
    """
    limits = rule.limits[0]
    sizes = largest_remainder(table.sum(axis=1), int(group_sizes.sum()))
    sizes = _within(sizes, np.ceil(limits.least).astype(np.int64), limits.greatest)
    lowest, highest = np.zeros(table.shape), np.tile(group_sizes, (len(table), 1))
    if rule.joint is None:
        lowest = np.maximum(np.floor(limits.lower * sizes[:, None] + WHOLE), 0.0)
        highest = np.minimum(np.ceil(limits.upper * sizes[:, None] - WHOLE), highest)
    while True:
        counts = _nearest_with_margins(table, sizes, group_sizes, lowest, highest)
        if counts is not None:
            return counts
        # Only limits that differ between clusters can make it necessary to go further out.
        lowest = np.maximum(lowest - 1.0, 0.0)
        highest = np.minimum(highest + 1.0, group_sizes)


def _nearest_with_margins(table, sizes, group_sizes, lowest, highest):
    """The nearest whole table within bounds on the cells, or None.

    A cell is its floor, plus at most one row at a cost that its fraction tells, plus or minus
    further rows at the full cost.
    """
    n_clusters, n_groups = table.shape
    cells = np.clip(_snapped(table), lowest, highest)
    floor = np.floor(cells)
    fraction = (cells - floor).ravel()
    upwards = np.minimum(highest - floor, 1.0).ravel()
    of_sizes = sparse.kron(sparse.eye_array(n_clusters), np.ones((1, n_groups)))
    of_groups = sparse.kron(np.ones((1, n_clusters)), sparse.eye_array(n_groups))
    margins = sparse.vstack([of_sizes, of_groups])
    wanted = np.concatenate([sizes - floor.sum(axis=1), group_sizes - floor.sum(axis=0)])
    zeros, ones = np.zeros(table.size), np.ones(table.size)
    solution = linprog(
        np.concatenate([1.0 - 2.0 * fraction, ones, ones]),
        A_eq=sparse.hstack([margins, margins, -margins], format="csr"),
        b_eq=wanted,
        bounds=np.column_stack([
            np.concatenate([zeros, zeros, zeros]),
            np.concatenate([
                upwards, np.maximum((highest - floor).ravel() - upwards, 0.0),
                (floor - lowest).ravel(),
            ]),
        ]),
        method="highs-ds",
    )  # fmt: skip
    if solution.status != 0:
        return None
    up, beyond, below = np.rint(solution.x).reshape(3, n_clusters, n_groups)
    return (floor + up + beyond - below).astype(np.int64)


def _within(sizes, least, greatest):
    """Whole sizes of the same sum within bounds; rows go from where there is most room."""
    sizes = sizes.copy()
    total = sizes.sum()
    sizes = np.clip(sizes, least, np.where(np.isfinite(greatest), greatest, total)).astype(np.int64)
    while sizes.sum() != total:
        if sizes.sum() > total:
            sizes[np.argmax(sizes - least)] -= 1
        else:
            room = np.where(np.isfinite(greatest), greatest - sizes, np.inf)
            sizes[np.argmax(room)] += 1
    return sizes


def _snapped(table):
    """Cells that are whole up to rounding errors are whole."""
    nearest = np.rint(table)
    return np.where(np.abs(table - nearest) <= 1e-6 * np.maximum(nearest, 1.0), nearest, table)
