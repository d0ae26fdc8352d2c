"""From real targets to integer counts whose margins stay exact."""

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

# What the whole entropy of a cluster counts beside distances of cells in rows. So much that
# nearness hardly ever costs a cluster a thousandth of it: of two groups a move between two
# clusters changes four cells, and pays unless it gains less than 4 f (1 - 2f) / EVENNESS.
EVENNESS = 600.0


def largest_remainder(values, total):
    """Integers that sum to ``total``, each the floor or the ceiling of its share.

    The values are scaled to sum to ``total`` first (equal shares if all are zero); the largest
    fractional parts are rounded up, the lowest index on ties.
    """
    values = np.asarray(values, dtype=np.float64)
    if not (values >= 0).all() or not np.isfinite(values).all():
        raise ValueError(
            f"Shares of {values.tolist()} cannot be taken: expected finite numbers >= 0."
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


def raise_small_sizes(sizes, min_size):
    """Sizes of at least ``min_size`` with the same sum; the others pay by what they have above."""
    total = sizes.sum()
    min_size = min(min_size, total / len(sizes))
    raised = np.maximum(sizes, min_size)
    surplus = raised - min_size
    if raised.sum() > total and surplus.sum() > 0:
        raised -= surplus * ((raised.sum() - total) / surplus.sum())
    return raised


def proportional_counts(sizes, group_sizes):
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


def controlled_rounding(table):
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


def round_targets(targets, group_sizes, *, whole):
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


def _snap(values):
    """What is an integer up to rounding errors of its computation is an integer."""
    nearest = np.rint(values)
    tolerance = np.minimum(1e-9 * np.maximum(1.0, nearest), 1e-4)
    return np.where(np.abs(values - nearest) <= tolerance, nearest, values)


def _evenness_of_a_row(sizes, group_sizes):
    """By how much one more row of each group raises the entropy of each cluster.

    Relative to the population's entropy, and to first order at its composition, where a row
    changes the entropy by ``-log(share) / size``.
    """
    share = group_sizes / group_sizes.sum()
    rarity = -np.log(share, out=np.zeros_like(share), where=share > 0)
    entropy = float(share @ rarity)
    return rarity / max(entropy, np.finfo(float).tiny) / np.maximum(sizes, 1)[:, None]


def _round_cells(floor, fraction, row_sums, column_sums, worth=0.0):
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
    margins = csr_array(
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
        A_ub=vstack([margins, -margins], format="csr"),
        b_ub=np.concatenate([np.ceil(sums), -np.floor(sums)]),
        bounds=(0.0, 1.0),
        method="highs-ds",
    )
    if solution.status != 0:
        raise RuntimeError(f"Controlled rounding failed: {solution.message}")
    counts = floor.copy()
    counts[rows, columns] += np.rint(solution.x).astype(np.int64)
    return counts
