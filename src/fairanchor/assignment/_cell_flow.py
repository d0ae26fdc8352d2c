"""The best table of whole numbers with given sizes and bounds on its cells.

With the sizes fixed the best labels are a minimum-cost flow, and prices that are nearly the
best leave little of it to do. Only rows near a tie enter; if the prices change by no more
than what these rows were chosen for, no other row would rather be elsewhere, and the table is
the best over all rows.
"""

import numpy as np

from fairanchor._kernels import _cell_flow as flow_kernels
from fairanchor._kernels import _tolerance as kernels
from fairanchor.assignment._boxed_program import merge_equal
from fairanchor.assignment._cell_program import BOX_GROWTH, ROWS_PER_CELL, TIED

# Of the change of a price that moves as many rows as a program begins with (50): rounding sizes
# and limits moves less than a row per cell, but with more clusters it goes through several, and
# a second round costs more than a few rows.
FIRST_BOX = 0.25
# After as many rounds all rows may move.
MAX_ROUNDS = 8


def best_whole_table(rows, prices, net, sizes, low, high, nearest, preferred=None):
    """Table of the cheapest labels with these sizes and cells within these bounds.

    Parameters
    ----------
    rows : ScoredRows
        Whose weights are whole numbers.
    prices : ndarray of shape (n_clusters, n_groups)
        Where to start: of a linear program with similar sizes and bounds.
    net : ndarray of shape (n_clusters, n_groups)
        The part of the prices that comes from limits on cells; the rest is the same for all
        cells of a cluster.
    sizes : ndarray of shape (n_clusters,)
    low, high : ndarray of shape (n_clusters, n_groups)
        Some table has these sizes, and cells within these bounds.
    nearest : ndarray of shape (n_clusters, n_groups)
        About the change of each price that moves a few dozen rows, which says how far to look at
        first: where that is too little, boxes grow.
    preferred : Preferred, default=None
        Of the rows under these prices, if that is known.

    Returns
    -------
    table : ndarray of shape (n_clusters, n_groups), dtype int64
    prices : ndarray of shape (n_clusters, n_groups)
        Under which the labels of the table are where rows prefer to be, up to ties.
    """
    sizes, low, high = (np.rint(values).astype(np.int64) for values in (sizes, low, high))
    preferred = preferred or rows.prefer(prices)
    boxes = FIRST_BOX * nearest
    for n_rounds in range(MAX_ROUNDS + 1):
        if n_rounds == MAX_ROUNDS:
            boxes = np.full(prices.shape, np.inf)
        band = _band(rows, prices, preferred, boxes)
        table = np.rint(preferred.mass).astype(np.int64)
        changes, complete = flow_kernels.best_table(
            *band, table, sizes, low, high, np.ascontiguousarray(net)
        )
        if complete and _is_within(changes, boxes):
            return table, prices + changes
        if n_rounds == 0:  # rows that have come to be tied can make the first boxes useless
            nearest = rows.distances_of_cells(prices, preferred, ROWS_PER_CELL, TIED)
            boxes = np.maximum(boxes, FIRST_BOX * nearest)
        # The prices that were found among too few rows are far worse than those at the start.
        boxes = BOX_GROWTH * boxes
    raise RuntimeError("No table has these sizes and bounds, though one should.")


def _band(rows, prices, preferred, boxes):
    """Regrets of the rows that may move, where each group begins, and their copies."""
    chosen = rows.movable(prices, preferred, boxes)
    chosen = chosen[np.argsort(rows.group_codes[chosen], kind="stable")]
    regrets = np.empty((len(chosen), rows.n_clusters))
    kernels.regrets(rows.scores, rows.group_codes, prices, chosen, regrets)
    groups, own = rows.group_codes[chosen], preferred.labels[chosen]
    first, weights = merge_equal(regrets, groups * rows.n_clusters + own, rows.weights[chosen])
    amounts = np.zeros((len(first), rows.n_clusters), dtype=np.int64)
    amounts[np.arange(len(first)), own[first]] = np.rint(weights)
    starts = np.searchsorted(groups[first], np.arange(rows.n_groups + 1))
    return regrets[first], starts, amounts


def _is_within(changes, boxes):
    """Whether no row outside of the band has a reason to move."""
    # A row of the cell (l, r) has a regret of at least both boxes for (k, r).
    apart = changes[:, None] - changes[None]
    return bool((apart <= boxes[:, None] + boxes[None]).all())
