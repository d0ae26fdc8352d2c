"""Fair assignment as a program in a few prices: any linear limits on the cells.

With ``N[l, j]`` the weight of group j in cluster l, the program over fractional
assignments x ::

    minimise  - sum_i w_i sum_l x[i, l] scores[i, l]
    subject to  sum_l x[i, l] = 1,   A N <= b  (some rows of it with equality)

has the dual ``max_y sum_i w_i min_l (q[l, g_i] - scores[i, l]) - b'y``, where the prices of
the cells are ``q = A'y`` and the multipliers y of inequalities are not negative. Every such y
gives a lower bound on the cost, whatever it was obtained from.

The prices are first looked for on a sample and with a smoothed minimum, by Newton's
method (`_price_newton`). Then a small linear program over the rows that are near a tie
finds the best prices within a box around them. Rows with a larger regret than the box
can make up for need not be looked at, so the result is the best of the box over *all*
rows; if the box does not bind, it is the best of all.
"""

from dataclasses import dataclass, field

import numpy as np

from fairanchor.assignment._boxed_program import BoxedProgram
from fairanchor.assignment._scored_rows import Preferred

# Rows near a tie that enter the first linear program, for each cell of the table.
ROWS_PER_CELL = 50
# By how much a box that binds is widened, and how often.
BOX_GROWTH = 4.0
MAX_ROUNDS = 40
# Of the mean margin: prices that make rows tied do so up to rounding errors.
TIED = 1e-9


@dataclass(frozen=True)
class PriceSolution:
    """What the program comes to.

    Attributes
    ----------
    multipliers : ndarray of shape (n_limits,)
    prices : ndarray of shape (n_clusters, n_groups)
        A row of group j prefers the cluster with the largest ``scores[l] - prices[l, j]``.
    bound : float
        No assignment within the limits costs less.
    table : ndarray of shape (n_clusters, n_groups)
        Of an optimal assignment, if ``is_optimal``.
    is_optimal : bool
        Whether the box around the prices did not bind in the last program.
    nearest : ndarray of shape (n_clusters, n_groups)
        By how much a price of the last program's start must change to move ``rows_per_cell`` rows.
    preferred : Preferred, or None
        Of all rows under these prices.
    """

    multipliers: np.ndarray
    prices: np.ndarray
    bound: float
    table: np.ndarray
    is_optimal: bool
    nearest: np.ndarray = field(repr=False)
    preferred: Preferred | None = field(default=None, repr=False)


def solve_by_prices(rows, constraints, multipliers, rows_per_cell=ROWS_PER_CELL):
    """Best prices from a start that is near: boxed programs over the rows near a tie.

    Parameters
    ----------
    rows : ScoredRows
    constraints : CellConstraints
        Which some assignment must meet.
    multipliers : ndarray of shape (n_limits,)
        Where to start; not negative for inequalities.
    rows_per_cell : int
        How many rows of a group the first box of a price can move; it grows where it binds.

    Returns
    -------
    solution : PriceSolution
    """
    best_bound, boxes = -np.inf, np.zeros(constraints.shape)
    binds = np.ones(constraints.shape, dtype=np.bool_)
    for _ in range(MAX_ROUNDS):
        prices = constraints.prices(multipliers)
        preferred = rows.prefer(prices)
        best_bound = max(preferred.value - float(constraints.right @ multipliers), best_bound)
        if not binds.any():
            break
        nearest = rows.distances_of_cells(prices, preferred, rows_per_cell, TIED)
        boxes = np.maximum(nearest / 2, np.where(binds, BOX_GROWTH, 1.0) * boxes)
        program = BoxedProgram.near(rows, constraints, prices, preferred, boxes)
        multipliers, table, binds = program.solve(multipliers)
    else:
        preferred = None  # of other prices
    is_optimal = not binds.any()
    prices = constraints.prices(multipliers)
    return PriceSolution(multipliers, prices, best_bound, table, is_optimal, nearest, preferred)
