"""Whole tables: from real targets to counts whose margins stay exact, or that keep bounds."""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from fairanchor.constraints._bounds import BoundRule, CellConstraints

# What the whole entropy of a cluster counts beside distances of cells in rows. So much that
# nearness hardly ever costs a cluster a thousandth of it: of two groups a move between two
# clusters changes four cells, and pays unless it gains less than 4 f (1 - 2f) / EVENNESS.
EVENNESS = 600.0
# Tables with more cells are rounded cell by cell; with fewer than these, cells are looked for
# further away.
MOST_CELLS, FEW_CELLS = 600, 60
# How far beyond a bound on shares a table may be, in rows, and how far cells may be from their
# fractional values: what is tried, the best first.
TRIALS = ((0.0, 0), (0.0, 2), (0.999, 0), (0.999, 2), (1.999, 2), (3.999, 4))
# Of each search: where it ends without a proof, the best table found is nearly as good.
MAX_NODES, GAP = 20, 0.1
# Bounds this close to a whole number are whole.
WHOLE = 1e-9


def largest_remainder(values: np.ndarray, total: int) -> np.ndarray:
    """Integers that sum to ``total``, each the floor or the ceiling of its share.

    The values are scaled to sum to ``total`` first (equal shares if all are zero); the largest
    fractional parts are rounded up, the lowest index on ties.
    """
    values = np.asarray(values, dtype=np.float64)
    if not (values >= 0).all() or not np.isfinite(values).all():
        raise ValueError(
            f"{values.tolist()} cannot be scaled to shares: expected finite numbers >= 0."
        )
    if not values.sum() > 0:
        values = np.ones_like(values)
    shares = values * (total / values.sum())
    counts = np.floor(shares).astype(np.int64)
    # Rounding errors can leave the floors one above or below what the shares allow.
    order = np.argsort(counts - shares, kind="stable")
    missing = int(total - counts.sum())
    if missing >= 0:
        counts[order[:missing]] += 1
    else:
        counts[order[missing:]] -= 1
    return counts


def raise_small_sizes(sizes: np.ndarray, min_size: float) -> np.ndarray:
    """Sizes of at least ``min_size`` with the same sum; the others pay by what they have above."""
    total = sizes.sum()
    min_size = min(min_size, total / len(sizes))
    raised = np.maximum(sizes, min_size)
    surplus = raised - min_size
    if raised.sum() > total and surplus.sum() > 0:
        raised -= surplus * ((raised.sum() - total) / surplus.sum())
    return raised


def proportional_counts(sizes: np.ndarray, group_sizes: np.ndarray) -> np.ndarray:
    """Controlled rounding of the table ``sizes[l] * group_sizes[r] / n``, in exact integers.

    Both margins are met exactly and every cell is the floor or the ceiling of its entry. Of all
    such tables the nearest one is taken, but in clusters so small that a row changes their
    composition noticeably, where a small group is rather rounded up.

    Parameters
    ----------
    sizes : ndarray of shape (n_clusters,), dtype int64
    group_sizes : ndarray of shape (n_groups,), dtype int64
        Both sum to n.
    """
    n = int(sizes.sum())
    if n != group_sizes.sum():
        raise ValueError(
            f"The sizes of the clusters sum to {n}, those of the groups to {group_sizes.sum()}: "
            "both should be the number of rows."
        )
    products = sizes[:, None].astype(np.int64) * group_sizes.astype(np.int64)
    floor = products // n
    return _round_cells(
        floor,
        (products % n) / n,
        (sizes - floor.sum(axis=1)).astype(np.float64),
        (group_sizes - floor.sum(axis=0)).astype(np.float64),
        worth=EVENNESS * _evenness_of_a_row(sizes, group_sizes),
    )


def controlled_rounding(table: np.ndarray) -> np.ndarray:
    """Integer table next to ``table``: cells and both margins are rounded up or down.

    A margin that is an integer is met exactly.
    """
    table = np.asarray(table, dtype=np.float64)
    if not np.isfinite(table).all():
        raise ValueError(f"The table {table.tolist()} cannot be rounded: expected finite numbers.")
    cells = _snap(table)
    floor = np.floor(cells)
    # The margins are those of the table as given: next to large cells the small changes by
    # which cells are snapped would add up to something.
    return _round_cells(
        floor.astype(np.int64),
        cells - floor,
        _snap(table.sum(axis=1)) - floor.sum(axis=1),
        _snap(table.sum(axis=0)) - floor.sum(axis=0),
    )


def round_targets(targets: np.ndarray, group_sizes: np.ndarray, *, whole: bool) -> np.ndarray:
    """Counts next to the targets, with exact margins; weights are left as they are.

    Parameters
    ----------
    targets : ndarray of shape (n_clusters, n_groups)
    group_sizes : ndarray of shape (n_groups,)
        What the columns must sum to; targets that cannot be met are scaled to it.
    whole : bool
        Whether rows count one each.
    """
    columns = targets.sum(axis=0)
    feasible = np.allclose(columns, group_sizes, rtol=1e-13, atol=0)
    if not feasible:
        # A group without any target is spread as the others are together.
        spread = np.where(columns > 0, targets, targets.sum(axis=1, keepdims=True))
        totals = spread.sum(axis=0)
        targets = spread * np.divide(
            group_sizes, totals, out=np.zeros(len(columns)), where=totals > 0
        )
    if not whole:
        return targets
    sizes = np.rint(targets.sum(axis=1)).astype(np.int64)
    group_counts = np.rint(group_sizes).astype(np.int64)
    if sizes.sum() == group_counts.sum() > 0:
        proportional = np.outer(sizes, group_counts) / sizes.sum()
        if np.allclose(targets, proportional, rtol=1e-12, atol=0):
            return proportional_counts(sizes, group_counts)
    return controlled_rounding(targets)


def _snap(values: np.ndarray) -> np.ndarray:
    """What is an integer up to rounding errors of its computation is an integer."""
    nearest = np.rint(values)
    tolerance = np.minimum(1e-9 * np.maximum(1.0, nearest), 1e-4)
    return np.where(np.abs(values - nearest) <= tolerance, nearest, values)


def _evenness_of_a_row(sizes: np.ndarray, group_sizes: np.ndarray) -> np.ndarray:
    """By how much one more row of each group raises the entropy of each cluster.

    Relative to the population's entropy, and to first order at its composition, where a row
    changes the entropy by ``-log(share) / size``.
    """
    share = group_sizes / group_sizes.sum()
    rarity = -np.log(share, out=np.zeros_like(share), where=share > 0)
    entropy = float(share @ rarity)
    return rarity / max(entropy, np.finfo(float).tiny) / np.maximum(sizes, 1)[:, None]


def _round_cells(
    floor: np.ndarray,
    fraction: np.ndarray,
    row_sums: np.ndarray,
    column_sums: np.ndarray,
    worth: np.ndarray | float = 0.0,
) -> np.ndarray:
    """Choose the cells to round up so that each margin is rounded up or down as well.

    The choice is a vertex of a transportation polytope that contains the fractions
    themselves, so it exists and is integral; of all of them, the nearest to the
    fractions is taken, where a cell that is rounded up counts as nearer by its ``worth``.
    ``row_sums`` and ``column_sums`` are the sums of the fractions, integers where the margins
    are.
    """
    rows, columns = np.nonzero(fraction)
    if len(rows) == 0:
        return floor
    n_rows, n_columns = floor.shape
    cells = np.arange(len(rows))
    margins = sparse.csr_array(
        (
            np.ones(2 * len(rows)),
            (np.concatenate([rows, n_rows + columns]), np.concatenate([cells, cells])),
        ),
        shape=(n_rows + n_columns, len(rows)),
    )
    f = fraction[rows, columns]
    sums = np.concatenate([row_sums, column_sums])
    solution = linprog(
        1.0 - 2.0 * f - np.broadcast_to(worth, fraction.shape)[rows, columns],
        A_ub=sparse.vstack([margins, -margins], format="csr"),
        b_ub=np.concatenate([np.ceil(sums), -np.floor(sums)]),
        bounds=(0.0, 1.0),
        method="highs-ds",
    )
    if solution.status != 0:
        raise RuntimeError(f"Controlled rounding failed: {solution.message}")
    counts = floor.copy()
    counts[rows, columns] += np.rint(solution.x).astype(np.int64)
    return counts


# Tables within bounds.


def whole_table(rule: BoundRule, table: np.ndarray, group_sizes: np.ndarray) -> np.ndarray:
    """Counts near a table that is within bounds.

    Sizes of clusters are within their bounds, and every group has its rows. Shares are within
    theirs where such a table is near; else the worst miss is as small as can be found, below one
    row for a single attribute.

    Parameters
    ----------
    rule : BoundRule
    table : ndarray of shape (n_clusters, n_groups)
        Weights within the bounds, summing to the groups.
    group_sizes : ndarray of shape (n_groups,)
        Whole numbers.

    Returns
    -------
    counts : ndarray of shape (n_clusters, n_groups), dtype int64
    """
    group_sizes = np.rint(group_sizes)
    table = _within_bounds(rule.cells, table, group_sizes)
    if table.size <= MOST_CELLS:
        for miss, reach in TRIALS:
            if miss == 0.0 and reach > 0 and table.size > FEW_CELLS:
                continue
            counts = _search(rule.cells, table, group_sizes, miss, reach)
            if counts is not None:
                return counts
    return _rounded(rule, table, group_sizes)


def _within_bounds(
    constraints: CellConstraints, table: np.ndarray, group_sizes: np.ndarray
) -> np.ndarray:
    """The nearest table within the bounds: prices that are nearly right can leave it outside."""
    if constraints.excess(table) <= WHOLE * max(1.0, group_sizes.max()):
        return table
    n_clusters, n_groups = table.shape
    of_groups = sparse.kron(np.ones((1, n_clusters)), sparse.eye_array(n_groups), format="csr")
    both = sparse.vstack([of_groups, constraints.matrix], format="csr")
    cells = table.ravel()
    right = np.concatenate([group_sizes, constraints.right]) - both @ cells
    is_equal = np.concatenate([np.ones(n_groups, dtype=bool), constraints.is_equal])
    changes = sparse.hstack([both, -both], format="csr")
    solution = linprog(
        np.ones(2 * table.size),
        A_ub=changes[~is_equal] if (~is_equal).any() else None,
        b_ub=right[~is_equal] if (~is_equal).any() else None,
        A_eq=changes[is_equal],
        b_eq=right[is_equal],
        bounds=np.column_stack(
            [np.zeros(2 * table.size), np.r_[np.full(table.size, np.inf), cells]]
        ),
        method="highs-ds",
    )
    if solution.status != 0:
        return table
    up, down = solution.x.reshape(2, *table.shape)
    return np.maximum(table + up - down, 0.0)


def _search(
    constraints: CellConstraints,
    table: np.ndarray,
    group_sizes: np.ndarray,
    miss: float,
    reach: int,
) -> np.ndarray | None:
    """The nearest table that is beyond no bound on shares by more than ``miss``, or None.

    A cell is its floor, plus at most one row at a cost that its fraction tells, plus or minus
    further rows at the full cost.
    """
    n_clusters, n_groups = table.shape
    cells = np.maximum(_snapped(table), 0.0).ravel()
    floor = np.floor(cells)
    of_groups = sparse.kron(np.ones((1, n_clusters)), sparse.eye_array(n_groups), format="csr")
    slack = np.where(constraints.place[:, 0] < 0, 0.0, miss)
    left = constraints.right - constraints.matrix @ floor
    wanted = group_sizes - of_groups @ floor

    def changes(matrix: Any) -> Any:
        return sparse.hstack([matrix, matrix, -matrix], format="csr")

    parts = [LinearConstraint(changes(of_groups), wanted, wanted)]
    if constraints.n_bounds:
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


def _rounded(rule: BoundRule, table: np.ndarray, group_sizes: np.ndarray) -> np.ndarray:
    """Sizes rounded within their bounds, then the nearest cells with these sizes.

    With whole sizes, bounds on the shares of one attribute are bounds on the cells. Rounded
    outward to whole numbers, they leave a transportation problem, whose solution is whole.
    """
    bounds = rule.bounds[0]
    sizes = largest_remainder(table.sum(axis=1), int(group_sizes.sum()))
    sizes = _within(sizes, np.ceil(bounds.least).astype(np.int64), bounds.greatest)
    lowest, highest = np.zeros(table.shape), np.tile(group_sizes, (len(table), 1))
    if rule.joint is None:
        least, most = bounds.cell_bounds(sizes)
        lowest = np.maximum(np.floor(least + WHOLE), 0.0)
        highest = np.minimum(np.ceil(most - WHOLE), highest)
    while True:
        counts = _nearest_with_margins(table, sizes, group_sizes, lowest, highest)
        if counts is not None:
            return counts
        # Only bounds that differ between clusters can make it necessary to go further out.
        lowest = np.maximum(lowest - 1.0, 0.0)
        highest = np.minimum(highest + 1.0, group_sizes)


def _nearest_with_margins(
    table: np.ndarray,
    sizes: np.ndarray,
    group_sizes: np.ndarray,
    lowest: np.ndarray,
    highest: np.ndarray,
) -> np.ndarray | None:
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


def _within(sizes: np.ndarray, least: np.ndarray, greatest: np.ndarray) -> np.ndarray:
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


def _snapped(table: np.ndarray) -> np.ndarray:
    """Cells that are whole up to rounding errors are whole."""
    nearest = np.rint(table)
    return np.where(np.abs(table - nearest) <= 1e-6 * np.maximum(nearest, 1.0), nearest, table)
