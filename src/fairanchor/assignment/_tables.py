"""Whole tables near a fractional one: counts of rows that keep limits, or miss them least."""

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from fairanchor.assignment._rounding import largest_remainder

# Tables with more cells are rounded cell by cell.
MOST_CELLS = 400
# How far from its fractional value a cell is looked for, in rows.
REACHES = (2, 8)
# Of the search: where it ends without a proof, the best table found is nearly as good.
MAX_NODES = 300
# What a row beyond a limit counts, beside a row that moves from one cell to another.
WORTH_OF_A_LIMIT = 1_000.0
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
        for reach in REACHES:
            counts = _search(limit_rows, table, group_sizes, reach)
            if counts is not None:
                return counts
    return _rounded(rule, table, group_sizes)


def _search(limit_rows, table, group_sizes, reach):
    """The nearest table with the least miss, by an integer program; None if none is near."""
    constraints, (n_clusters, n_groups) = limit_rows.constraints, table.shape
    n_cells = table.size
    near = _snapped(table).ravel()
    lowest = np.maximum(np.floor(near) - reach, 0.0)
    highest = np.minimum(np.ceil(near) + reach, np.tile(group_sizes, n_clusters))
    # Variables: cells, their distances, and the worst miss of a share.
    identity, nothing = sparse.eye_array(n_cells), sparse.csr_array((n_cells, 1))
    of_groups = sparse.kron(np.ones((1, n_clusters)), sparse.eye_array(n_groups))
    matrix, is_size = constraints.matrix, limit_rows.place[:, 0] < 0
    right, equal = constraints.right, constraints.is_equal
    size_rows, share_rows = np.flatnonzero(is_size), np.flatnonzero(~is_size)
    back = share_rows[equal[share_rows]]
    parts = [
        LinearConstraint(
            sparse.hstack([of_groups, sparse.csr_array((n_groups, n_cells + 1))], format="csr"),
            group_sizes, group_sizes,
        ),
        LinearConstraint(sparse.hstack([identity, -identity, nothing], format="csr"), ub=near),
        LinearConstraint(sparse.hstack([identity, identity, nothing], format="csr"), lb=near),
    ]  # fmt: skip
    for rows, sign, miss in ((size_rows, 1.0, 0.0), (share_rows, 1.0, -1.0), (back, -1.0, -1.0)):
        if len(rows) == 0:
            continue
        own = sparse.hstack(
            [
                sign * matrix[rows],
                sparse.csr_array((len(rows), n_cells)),
                sparse.csr_array(np.full((len(rows), 1), miss)),
            ],
            format="csr",
        )
        least = np.full(len(rows), -np.inf)
        if miss == 0.0:
            least = np.where(equal[rows], right[rows], -np.inf)
        parts.append(LinearConstraint(own, lb=least, ub=sign * right[rows]))
    solution = milp(
        np.concatenate([np.zeros(n_cells), np.ones(n_cells), [WORTH_OF_A_LIMIT]]),
        constraints=parts,
        integrality=np.concatenate([np.ones(n_cells), np.zeros(n_cells + 1)]),
        bounds=Bounds(
            np.concatenate([lowest, np.zeros(n_cells + 1)]),
            np.concatenate([highest, np.full(n_cells + 1, np.inf)]),
        ),
        options={"node_limit": MAX_NODES, "mip_rel_gap": 0.0},
    )
    if solution.x is None:
        return None
    counts = np.rint(solution.x[:n_cells]).astype(np.int64).reshape(table.shape)
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
