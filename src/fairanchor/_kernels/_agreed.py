"""Kernels of the assignment by agreed prices: what a chunk tells the driver about its rows."""

import numpy as np
from numba import njit

from fairanchor._kernels import NUMBA_CACHE
from fairanchor._kernels._transport import UNREACHED, _fixed_point

# A regret that is too large to matter; sums of such never reach UNREACHED.
TOO_FAR = np.int64(2**50)
# Regrets are told apart up to so many times the width of the band: beyond, prices would have to
# change by more than a look can prove, and rows would no longer be counted together.
REACH = 16
# Margins are counted by their number of bits and the two bits after the first.
N_BINS = 256


@njit(nogil=True, cache=NUMBA_CACHE)
def margin_bin(margin):
    """Bin of a non-negative margin: increasing, four bins for every power of two."""
    if margin < 4:
        return margin
    n_bits = 0
    rest = margin
    while rest > 7:
        rest >>= 1
        n_bits += 1
    return min(4 * n_bits + rest, N_BINS - 1)


@njit(nogil=True, cache=NUMBA_CACHE)
def prefer_in_groups(scores, group_codes, scale, lowest, prices, labels, margins):
    """Write each row's preferred cluster at its group's prices, and by how much.

    Parameters
    ----------
    prices : ndarray of shape (n_groups, n_clusters), dtype int64
    """
    n_clusters = scores.shape[1]
    fixed = np.empty(n_clusters, dtype=np.int64)
    for i in range(scores.shape[0]):
        _fixed_point(scores[i], scale, lowest, fixed)
        own = prices[group_codes[i]]
        best, best_value, second_value = 0, fixed[0] + own[0], -UNREACHED
        for l in range(1, n_clusters):
            value = fixed[l] + own[l]
            if value > best_value:
                best, best_value, second_value = l, value, best_value
            elif value > second_value:
                second_value = value
        labels[i] = best
        margins[i] = min(best_value - second_value, UNREACHED)


@njit(nogil=True, cache=NUMBA_CACHE)
def count_margins(group_codes, weights, labels, margins, widths, load, outside, bins):
    """Add up the clusters' loads, those of rows beyond the band, and the margins.

    Parameters
    ----------
    widths : ndarray of shape (n_groups,), dtype int64
        A row is in its group's band if its margin is at most this.
    load, outside : ndarray of shape (n_clusters, n_groups)
    bins : ndarray of shape (n_groups, N_BINS)
    """
    for i in range(labels.shape[0]):
        r, l = group_codes[i], labels[i]
        load[l, r] += weights[i]
        bins[r, margin_bin(margins[i])] += weights[i]
        if margins[i] > widths[r]:
            outside[l, r] += weights[i]


@njit(nogil=True, cache=NUMBA_CACHE)
def regrets_of_rows(scores, group_codes, scale, lowest, prices, widths, rows, regrets):
    """Write what some rows of the bands lose in each cluster.

    What is lost beyond `REACH` times the band's width is written as `TOO_FAR`: no row goes there
    while the band is wide enough. So all rows with the same ties are the same.

    Parameters
    ----------
    rows : ndarray of shape (n_described,)
    regrets : ndarray of shape (n_described, 1 + n_clusters), dtype int64
        The first column is the group.
    """
    n_clusters = scores.shape[1]
    fixed = np.empty(n_clusters, dtype=np.int64)
    for k in range(rows.shape[0]):
        r = group_codes[rows[k]]
        _fixed_point(scores[rows[k]], scale, lowest, fixed)
        best = fixed[0] + prices[r, 0]
        for l in range(1, n_clusters):
            best = max(best, fixed[l] + prices[r, l])
        reach = REACH * min(widths[r], TOO_FAR)
        regrets[k, 0] = r
        for l in range(n_clusters):
            regret = best - fixed[l] - prices[r, l]
            regrets[k, 1 + l] = regret if regret <= reach else TOO_FAR


@njit(nogil=True, cache=NUMBA_CACHE)
def smallest_regrets_in_groups(scores, group_codes, scale, lowest, labels, regrets, smallest):
    """Lower ``regrets[r, l, l']`` to the smallest ``score[l] - score[l']`` of a row of r in l.

    And ``smallest[r]`` to the smallest score of a row for its own cluster.
    """
    n_clusters = scores.shape[1]
    fixed = np.empty(n_clusters, dtype=np.int64)
    for i in range(scores.shape[0]):
        _fixed_point(scores[i], scale, lowest, fixed)
        r, l = group_codes[i], labels[i]
        smallest[r] = min(smallest[r], fixed[l])
        for other in range(n_clusters):
            regret = fixed[l] - fixed[other]
            if regret < regrets[r, l, other]:
                regrets[r, l, other] = regret
