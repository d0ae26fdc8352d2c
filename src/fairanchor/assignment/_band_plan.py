"""Where to look next: prices, how wide the bands are, and how many of their rows are described.

The driver of `fairanchor.assignment._agreed` must come to an end, and must not be sent more than
it can hold. While prices are far from right, bands are wide and thinned out: what is left open by
a sample of a band is a band that is narrower by far. The last look sees every row of its bands.
"""

import numpy as np

from fairanchor._kernels import _agreed as kernels
from fairanchor._kernels._transport import UNREACHED
from fairanchor.assignment._looks import Look
from fairanchor.assignment._transport import LOWEST, OUT_OF_REACH

# Rows that the bands should have, all groups and chunks together, and numbers that describe
# them: the driver needs some forty bytes for each.
BAND_ROWS = 2**19
BAND_NUMBERS = 2**22
# For a group the least number of rows, and the number for each row that is expected to move.
LEAST_BAND = 5_000
BAND_FACTOR = 8
# Bands are thinned out in the first looks only: in the end nothing may be missing.
THINNED_LOOKS = 6
# Looks at bands that may turn out too narrow before more rows are described.
PATIENCE = 2


def first_look(rows, scorer, scale, sample, scores, prices):
    """A look at the sample's prices, with bands that are likely wide enough."""
    fixed = np.rint(np.clip(prices * scale, OUT_OF_REACH, -OUT_OF_REACH)).astype(np.int64)
    fixed = np.ascontiguousarray(fixed.T)
    labels = np.empty(sample.n_rows, dtype=np.int32)
    margins = np.empty(sample.n_rows, dtype=np.int64)
    kernels.prefer_in_groups(scores, sample.group_codes, scale, LOWEST, fixed, labels, margins)
    sampled = np.maximum(np.bincount(sample.group_codes, minlength=rows.n_groups), 1)
    # Every cluster's load is wrong by the error of a sample, and these add up.
    moving = 0.5 * rows.group_sizes * np.sqrt(0.5 * scores.shape[1] / sampled)
    room = _Room(rows, scores.shape[1])
    wanted = room.least + BAND_FACTOR * moving
    widths = np.full(rows.n_groups, UNREACHED)
    for r, members in enumerate(sample.members):
        if len(members) == 0 or wanted[r] >= 0.5 * rows.group_sizes[r]:
            continue
        order = members[np.argsort(margins[members], kind="stable")]
        until = np.cumsum(sample.weights[order])
        place = np.searchsorted(until, until[-1] * wanted[r] / rows.group_sizes[r])
        widths[r] = margins[order[min(place, len(order) - 1)]]
    return Look(scorer, scale, fixed, widths, room.strides(wanted), room.per_chunk)


class _Room:
    """How many rows of the bands may be described.

    Twice as many with every band too many that was not wide enough: in the end all rows are
    seen, which needs no proof.

    Parameters
    ----------
    rows : ChunkedRows
    n_clusters : int
    n_failures : int
        Looks at bands that were not wide enough.

    Attributes
    ----------
    least : int
        Rows that a group's band should have.
    of_groups : ndarray of shape (n_groups,)
    per_chunk : int
        Kinds of rows of a chunk: its part of all several times over, since bands are not spread
        evenly.
    """

    def __init__(self, rows, n_clusters, n_failures=0):
        n_rows = min(BAND_ROWS, BAND_NUMBERS // (n_clusters + 1))
        self.least = max(1, min(LEAST_BAND, n_rows // rows.n_groups))
        n_rows *= 2 ** max(0, n_failures - PATIENCE)
        self.of_groups = n_rows * rows.group_sizes / rows.total + self.least
        self.per_chunk = 4 * n_rows // rows.n_chunks + n_rows // 256 + 1
        self.group_sizes = rows.group_sizes

    def strides(self, wanted):
        """How much bands of so many rows have to be thinned out."""
        described = np.minimum(wanted, self.group_sizes)
        return np.maximum(1, np.ceil(described / self.of_groups)).astype(np.int64)


def next_look(rows, look, seen, moves, excess, n_looks, n_failures):
    """New prices and other bands for the groups that were not final.

    Parameters
    ----------
    rows : ChunkedRows
    look : Look
        The last one.
    seen : Seen
        By all chunks together.
    moves : list
        What each group would change: has ``is_final``, ``is_enough`` and ``price_change``.
    excess : ndarray of shape (n_groups,)
        Rows that were not where they should be.
    n_looks, n_failures : int
        Looks so far, and how many of them were at bands that were not wide enough.
    """
    prices, widths, strides = look.prices.copy(), look.widths.copy(), look.strides.copy()
    room = _Room(rows, look.prices.shape[1], n_failures)
    # Rows that are counted together take the place of one.
    bearable = room.of_groups * _rows_of_a_kind(seen, rows.n_groups)
    for r in [r for r, move in enumerate(moves) if not move.is_final]:
        is_thinned = look.strides[r] > 1
        careful = n_failures > PATIENCE and not is_thinned
        change, is_within = _bearable(moves[r].price_change, look.widths[r], careful=careful)
        prices[r] += change
        prices[r] -= prices[r].max()
        in_band = np.cumsum(seen.bins[r])
        band = in_band[_bin_of(look.widths[r])]
        if not (is_within and moves[r].is_enough):
            more = (2.0 if is_within else 4.0) * max(band, excess[r])
            wanted = max(more, room.least * 4.0**n_failures)
        else:
            wanted = _rows_left_open(band, look.strides[r], room.least, n_failures)
            if is_thinned and wanted >= band / 2:  # samples of this band say no more
                wanted = min(wanted, bearable[r])
        if n_looks >= THINNED_LOOKS:
            wanted = min(wanted, bearable[r])
        strides[r] = max(1, np.ceil(min(wanted, rows.group_sizes[r]) / bearable[r]))
        is_all = wanted >= 0.5 * rows.group_sizes[r]
        widths[r] = UNREACHED if is_all else upper_edges()[np.searchsorted(in_band, wanted)]
    return Look(look.scorer, look.scale, prices, widths, strides, room.per_chunk)


def _rows_left_open(band, stride, least, n_failures):
    """Rows that may still have to move after a look that was wide enough."""
    if stride > 1:
        return least + 2.0 * BAND_FACTOR * np.sqrt(band * stride)
    # Prices that moved within reach are about right: the same band will do for the rest.
    return max(band, least * 4.0**n_failures)


def _rows_of_a_kind(seen, n_groups):
    """For every group the mean number of described rows that are counted together."""
    codes = seen.kinds[:, 0]
    n_kinds = np.bincount(codes, minlength=n_groups)
    n_rows = np.bincount(codes, weights=seen.numbers, minlength=n_groups)
    return np.maximum(n_rows / np.maximum(n_kinds, 1), 1.0)


def _bearable(price_change, width, *, careful):
    """A change of prices that a look of this width can answer for, and whether it is the whole.

    Beyond its reach a look says no more than that it was too short. Within the width the dual
    is known exactly, so that a careful part of the way never leads away from the best prices.
    """
    change = price_change - price_change.min()
    reach = kernels.REACH * min(width, kernels.TOO_FAR // 64)
    is_within = bool(change.max() < reach)
    if careful and change.max() > width:
        part = max(int(width), 1) / float(change.max())
        return np.ceil(change * part).astype(np.int64), is_within
    return np.minimum(change, reach), is_within


def _bin_of(width):
    """The last bin that has margins up to this width."""
    return min(int(np.searchsorted(upper_edges(), width)), kernels.N_BINS - 1)


def upper_edges():
    """Largest margin of every bin."""
    bins = np.arange(kernels.N_BINS, dtype=object)
    edges = [b if b < 8 else ((4 + b % 4 + 1) << (b // 4 - 1)) - 1 for b in bins]
    return np.array([min(edge, int(UNREACHED)) for edge in edges], dtype=np.int64)
