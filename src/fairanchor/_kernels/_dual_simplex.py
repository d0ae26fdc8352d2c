"""Dual simplex method with bound flips, on a dense tableau: for small programs.

A general solver spends most of its time on setting such a program up. Here a step is one sweep
over the tableau: microseconds for a few dozen rows.
"""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE

#: Entries of the tableau below this are rounding errors.
SMALLEST_PIVOT = 1e-9
#: Ratios this near to each other are equal: the largest pivot is the most accurate of them.
EQUAL_RATIOS = 1e-12
#: Variables may be outside their bounds by this much.
FEASIBLE = 1e-9
#: Rounding errors of a solution that counts as proven.
PROVEN = 1e-7


@njit(nogil=True, cache=NUMBA_CACHE)
def _worst_row(values, basic, upper, tolerance):
    """Row of the basic variable that is farthest outside its bounds; -1 if none is outside."""
    row, worst = -1, tolerance
    for k in range(len(values)):
        outside = max(-values[k], values[k] - upper[basic[k]])
        if outside > worst:
            row, worst = k, outside
    return row


@njit(nogil=True, cache=NUMBA_CACHE)
def _entering(entries, reduced, upper, is_basic, at_upper, slope, flips):
    """Variable that enters, and how many of ``flips`` go to their other bound before it.

    The dual objective rises with slope ``slope`` until the first reduced cost is zero, then less
    steeply, since that variable goes to its other bound; the entering one is the last for which
    it still rises. ``entries`` have the sign by which a positive one lowers the basic variable.
    -1 if it rises for ever.
    """
    candidates = np.empty(len(entries), dtype=np.int64)
    ratios = np.empty(len(entries))
    n_candidates = 0
    for j in range(len(entries)):
        entry = -entries[j] if at_upper[j] else entries[j]
        if is_basic[j] or upper[j] == 0.0 or entry <= SMALLEST_PIVOT:
            continue
        candidates[n_candidates] = j
        ratios[n_candidates] = abs(reduced[j]) / entry
        n_candidates += 1
    order = np.argsort(ratios[:n_candidates])
    for place in range(n_candidates):
        j = candidates[order[place]]
        slope -= abs(entries[j]) * upper[j]
        if slope <= FEASIBLE:  # what is left is nothing
            limit = ratios[order[place]] + EQUAL_RATIOS
            best = j
            for later in range(place + 1, n_candidates):
                if ratios[order[later]] > limit:
                    break
                other = candidates[order[later]]
                if abs(entries[other]) > abs(entries[best]):
                    best = other
            return best, place
        flips[place] = j
    return -1, 0


@njit(nogil=True, cache=NUMBA_CACHE)
def _pivot(tableau, reduced, row, column):
    """Make a column of the tableau that of a basic variable."""
    tableau[row] /= tableau[row, column]
    own = tableau[row]
    for k in range(len(tableau)):
        factor = tableau[k, column]
        if k != row and factor != 0.0:
            for j in range(len(own)):
                tableau[k, j] -= factor * own[j]
            tableau[k, column] = 0.0
    factor = reduced[column]
    for j in range(len(own)):
        reduced[j] -= factor * own[j]
    reduced[column] = 0.0


@njit(nogil=True, cache=NUMBA_CACHE)
def minimise(matrix, right, cost, upper, tolerance, max_steps):
    """Minimise ``cost'x`` subject to ``matrix x = right`` and ``0 <= x <= upper``.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_variables)
        Its last ``n_rows`` columns are the identity: the variables of the first basis.
    right : ndarray of shape (n_rows,)
    cost : ndarray of shape (n_variables,)
        Not negative; zero for the first basis.
    upper : ndarray of shape (n_variables,)
        Can be infinite, and zero for variables that are only there to begin with.
    tolerance : float
        How far outside its bounds a variable may be.
    max_steps : int

    Returns
    -------
    x : ndarray of shape (n_variables,)
    multipliers : ndarray of shape (n_rows,)
        What the minimum gains by a unit more of each right side.
    ended : bool
        False if there is no solution, or none was found in so many steps.
    """
    n_rows, n_variables = matrix.shape
    tableau, reduced, values = matrix.copy(), cost.copy(), right.copy()
    first = n_variables - n_rows
    basic = np.arange(first, n_variables)
    is_basic = np.arange(n_variables) >= first
    at_upper = np.zeros(n_variables, dtype=np.bool_)
    flips = np.empty(n_variables, dtype=np.int64)
    ended = False
    for _ in range(max_steps):
        row = _worst_row(values, basic, upper, tolerance)
        if row < 0:
            ended = True
            break
        leaving = basic[row]
        is_above = values[row] > upper[leaving]
        bound = upper[leaving] if is_above else 0.0
        entries = tableau[row] if is_above else -tableau[row]
        column, n_flips = _entering(
            entries, reduced, upper, is_basic, at_upper, abs(values[row] - bound), flips
        )
        if column < 0:
            break
        for j in flips[:n_flips]:
            change = -upper[j] if at_upper[j] else upper[j]
            at_upper[j] = not at_upper[j]
            for k in range(n_rows):
                values[k] -= change * tableau[k, j]
        step = (values[row] - bound) / tableau[row, column]
        for k in range(n_rows):
            values[k] -= step * tableau[k, column]
        values[row] = step + (upper[column] if at_upper[column] else 0.0)
        _pivot(tableau, reduced, row, column)
        basic[row] = column
        is_basic[leaving], is_basic[column] = False, True
        at_upper[leaving], at_upper[column] = is_above and bound > 0.0, False
    x = np.where(at_upper, upper, 0.0)
    x[basic] = values
    return x, -reduced[first:], ended


@njit(nogil=True, cache=NUMBA_CACHE)
def minimise_surely(matrix, right, cost, upper):
    """As `minimise`, and check the result against the program itself.

    Returns
    -------
    x : ndarray of shape (n_variables,)
    multipliers : ndarray of shape (n_rows,)
    is_optimal : bool
        Whether the equations hold, all variables are within their bounds, and none that is not at
        a bound would gain by being elsewhere, all up to rounding errors.
    """
    n_rows, n_variables = matrix.shape
    x, multipliers, ended = minimise(matrix, right, cost, upper, FEASIBLE, 20 * (n_rows + 10))
    if not ended:
        return x, multipliers, False
    for k in range(n_rows):
        if abs(matrix[k] @ x - right[k]) > PROVEN * (1.0 + abs(right[k])):
            return x, multipliers, False
    x = np.minimum(np.maximum(x, 0.0), upper)
    for j in range(n_variables):
        gain = -cost[j]
        for k in range(n_rows):
            gain += multipliers[k] * matrix[k, j]
        can_rise = x[j] < upper[j] - PROVEN
        can_fall = x[j] > PROVEN
        if (can_rise and gain > PROVEN) or (can_fall and gain < -PROVEN):
            return x, multipliers, False
    return x, multipliers, True
