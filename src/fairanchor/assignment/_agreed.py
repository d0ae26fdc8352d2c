"""Exact totals for rows that stay where they are: prices agreed by small reductions.

The transportation problem of `fairanchor.assignment._transport`, for chunks of rows. A
sample gives prices; every chunk tells how many of its rows prefer which cluster at these
prices, and describes those with a small margin, the *band*: what each loses elsewhere,
equal ones counted together. The driver moves rows of the band until the totals are met.
If the prices change by no more than the width of the band, no row beyond it wants to move:
the labels are optimal for all rows. Otherwise the next look is at the new prices.

A row's label then follows from the prices and, in the band, from the driver's decision on
its kind, dealt to equal rows in row order. So labels do not depend on who computes them.
"""

from dataclasses import dataclass, field

import numpy as np

from fairanchor._kernels import _agreed as kernels
from fairanchor._kernels._transport import UNREACHED, score_differences, send_excess
from fairanchor.assignment._looks import (
    Decision,
    Labeller,
    Look,
    combined_tables,
    merge_kinds,
    tables_of_chunk,
)
from fairanchor.assignment._rounding import largest_remainder, round_targets
from fairanchor.assignment._transport import (
    LOWEST,
    OUTLIER_FACTOR,
    SCORE_BITS,
    central_prices,
    transport_rows,
)
from fairanchor.rows._stand_in import in_whole_rows

# Rows that a chunk's band should have, all groups and chunks together, and for a group the
# least number and the number for each row that is expected to move.
BAND_ROWS = 2**19
LEAST_BAND = 5_000
BAND_FACTOR = 8
# Bands are thinned out in the first looks only: in the end nothing may be missing.
THINNED_LOOKS = 3
# By how much coarser the scores are if an outlier's do not fit.
COARSER = 2.0**12


@dataclass(frozen=True)
class AgreedResult:
    """Labels as a function of the rows.

    Attributes
    ----------
    look : Look
        The last one.
    decisions : list of Decision
        One for every chunk.
    prices : ndarray of shape (n_clusters, n_groups)
        Row i of group r has the largest ``scores[i, l] + prices[l, r]`` at its label, but for
        ties.
    gap : float
        Value of the dual minus value of the labels, in fixed point: zero proves that no
        labelling with these totals is better.
    score : float
        Sum of the rows' scores for their clusters.
    sums : ndarray of shape (n_clusters, n_features)
        Of the rows of each cluster.
    totals : ndarray of shape (n_clusters, n_groups)
        Rows in each cell.
    """

    look: Look
    decisions: list
    prices: np.ndarray
    gap: float
    score: float
    sums: np.ndarray
    totals: np.ndarray

    def labellers(self):
        """Functions that give the labels of the chunks' rows, one for each chunk."""
        return [Labeller(self.look, decision) for decision in self.decisions]


def agree(rows, scorer, totals, sample, start=None):
    """Label rows so that each group has its totals in the clusters, at the largest score.

    Parameters
    ----------
    rows : ChunkedRows
    scorer : object
        ``scores(rows)`` says how well each row of some `MemoryRows` fits each cluster.
    totals : ndarray of shape (n_clusters, n_groups), dtype int64
        Each column sums to its group's rows.
    sample : MemoryRows
        Rows that stand for all, with weights.
    start : ndarray of shape (n_clusters, n_groups), default=None
        Prices of a similar problem.

    Returns
    -------
    result : AgreedResult
    """
    scores = scorer.scores(sample)
    whole = in_whole_rows(sample)
    shares = totals * _ratio(whole.group_sizes, totals.sum(axis=0))
    sample_totals = _with_small_cells(
        round_targets(shares, whole.group_sizes, whole=True), totals > 0
    )
    on_sample = transport_rows(whole, scores, sample_totals, start)
    resolution = _resolution(scores)
    while True:
        scale = 2.0 ** min(SCORE_BITS - np.ceil(np.log2(resolution)), 1023)
        first = _first_look(rows, scorer, scale, sample, scores, on_sample.prices)
        look, decisions, gap = _decide(rows, totals, first)
        given = [(look, decision) for decision in decisions]
        counts, sums, regrets, lowest_used, score = rows.each(
            "labels", tables_of_chunk, given, combine=combined_tables
        )
        # Raising scores to `LOWEST` can only help; if no row makes use of it, the labels
        # are optimal for the scores as they were.
        if lowest_used.min() > LOWEST:
            break
        resolution *= COARSER
    prices = np.stack(
        [
            central_prices(regrets[r], counts[:, r] > 0, totals[:, r]) if totals[:, r].any()
            else np.zeros(len(totals))
            for r in range(rows.n_groups)
        ],
        axis=1,
    )  # fmt: skip
    if (counts != totals).any():
        raise RuntimeError(
            f"The labels have {counts.tolist()} rows in the cells, expected {totals.tolist()}. "
            "This is an error of fairanchor: please report it."
        )
    return AgreedResult(look, decisions, prices / scale, gap / scale, score, sums, counts)


def _ratio(part, whole):
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)


def _with_small_cells(totals, is_wanted):
    """Totals of a sample in which a cell that shall have few rows is not left without a price."""
    totals = totals.copy()
    for column, wanted in zip(totals.T, is_wanted.T, strict=True):
        for l in np.flatnonzero(wanted & (column == 0)):
            largest = int(np.argmax(column))
            if column[largest] > 1:
                column[largest] -= 1
                column[l] = 1
    return totals


def _resolution(scores):
    """Largest difference of scores that is told apart from others, outliers left out."""
    nearest, farthest = np.empty(len(scores)), np.empty(len(scores))
    score_differences(scores, nearest, farthest)
    largest, typical = float(farthest.max()), OUTLIER_FACTOR * float(np.median(nearest))
    if 0.0 < typical < COARSER * largest:
        return typical
    return COARSER * largest if largest > 0 else 1.0


def _first_look(rows, scorer, scale, sample, scores, prices):
    """A look at the sample's prices, with bands that are likely wide enough."""
    fixed = np.rint(np.clip(prices * scale, 4 * LOWEST, -4 * LOWEST)).astype(np.int64)
    fixed = np.ascontiguousarray(fixed.T)
    labels = np.empty(sample.n_rows, dtype=np.int32)
    margins = np.empty(sample.n_rows, dtype=np.int64)
    kernels.prefer_in_groups(scores, sample.group_codes, scale, LOWEST, fixed, labels, margins)
    sampled = np.maximum(np.bincount(sample.group_codes, minlength=rows.n_groups), 1)
    # Every cluster's load is wrong by the error of a sample, and these add up.
    moving = 0.5 * rows.group_sizes * np.sqrt(0.5 * scores.shape[1] / sampled)
    wanted = _least_band(rows.n_groups) + BAND_FACTOR * moving
    widths = np.full(rows.n_groups, UNREACHED)
    for r, members in enumerate(sample.members):
        if len(members) == 0 or wanted[r] >= 0.5 * rows.group_sizes[r]:
            continue
        order = members[np.argsort(margins[members], kind="stable")]
        until = np.cumsum(sample.weights[order])
        place = np.searchsorted(until, until[-1] * wanted[r] / rows.group_sizes[r])
        widths[r] = margins[order[min(place, len(order) - 1)]]
    return Look(scorer, scale, fixed, widths, _strides(wanted, rows))


def _least_band(n_groups):
    return min(LEAST_BAND, BAND_ROWS // n_groups)


def _strides(wanted, rows):
    """How much bands of so many rows have to be thinned out, for their sum to be bearable."""
    room = BAND_ROWS * rows.group_sizes / rows.total + _least_band(rows.n_groups)
    return np.maximum(1, np.ceil(np.minimum(wanted, rows.group_sizes) / room)).astype(np.int64)


def _decide(rows, totals, look):
    """Look, and look again, until every group's band is wide enough for its rows to be moved.

    Returns
    -------
    look : Look
        The last one.
    decisions : list of Decision
    gap : float
        In units of the fixed-point scores.
    """
    n_looks = 0
    while True:
        parts = rows.each("prices", look)
        n_looks += 1
        load, outside, bins = (sum(part[k] for part in parts) for k in range(3))
        kinds, places, numbers = merge_kinds(
            np.concatenate([part[3] for part in parts]), np.concatenate([part[4] for part in parts])
        )
        groups = [
            _GroupBand(
                kinds[own, 1:], numbers[own], totals[:, r] - outside[:, r], look.widths[r],
                look.strides[r],
            )
            for r, own in enumerate(_spans(kinds[:, 0], rows.n_groups))
        ]  # fmt: skip
        moves = [group.moved() for group in groups]
        if all(move.is_final for move in moves):
            labels = np.concatenate([move.labels for move in moves])
            starts = np.cumsum([0, *(len(move.labels) for move in moves)])
            split = {
                int(start + kind): pieces
                for start, move in zip(starts, moves, strict=False)
                for kind, pieces in move.split.items()
            }
            gap = sum(move.gap for move in moves)
            return look, _dealt(parts, places, labels, split), gap
        excess = np.abs(load - totals).sum(axis=0) / 2
        look = _next_look(rows, look, moves, bins, excess, n_looks)


def _spans(codes, n_groups):
    edges = np.searchsorted(codes, np.arange(n_groups + 1))
    return [slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]


@dataclass(frozen=True)
class _Moves:
    """Where the kinds of a group's band go.

    Attributes
    ----------
    is_final : bool
        Whether the labels that follow are optimal for all rows of the group.
    price_change : ndarray of shape (n_clusters,), dtype int64
    labels : ndarray of shape (n_kinds,), dtype int32
    split : dict
        Kinds that go to several clusters, to a list of (cluster, number).
    gap : float
    """

    is_final: bool
    price_change: np.ndarray
    labels: np.ndarray | None = None
    split: dict = field(default_factory=dict)
    gap: float = 0.0


@dataclass(frozen=True)
class _GroupBand:
    """The transportation problem that is left of a group.

    Attributes
    ----------
    regrets : ndarray of shape (n_kinds, n_clusters), dtype int64
    numbers : ndarray of shape (n_kinds,)
        Rows of each kind.
    room : ndarray of shape (n_clusters,)
        What the rows beyond the band leave of the totals.
    width, stride : int
    """

    regrets: np.ndarray
    numbers: np.ndarray
    room: np.ndarray
    width: int
    stride: int

    def moved(self):
        change = np.zeros(len(self.room), dtype=np.int64)
        if len(self.numbers) == 0:  # nobody there to move
            is_final = not self.room.any()
            return _Moves(is_final, change, np.empty(0, dtype=np.int32))
        numbers, room = self.numbers, self.room
        if self.stride > 1:  # fewer rows, so less room: in whole numbers, which leave no crumbs
            wanted = np.maximum(room, 0.0) * (numbers.sum() / max(room.clip(0).sum(), 1.0))
            room = largest_remainder(wanted, int(numbers.sum())).astype(np.float64)
        scores = -self.regrets
        labels = self.regrets.argmin(axis=1)
        places, weights, complete = send_excess(scores, numbers, labels, room, change, 0.5)
        enough = self.width >= UNREACHED or change.max() - change.min() <= self.width
        is_final = bool(complete and enough and self.stride == 1)
        if not is_final:
            return _Moves(False, change)
        alive = weights > 0.5
        kinds, clusters = places[alive].T
        labels[kinds] = clusters
        several = (np.bincount(kinds, minlength=len(numbers)) > 1)[kinds]
        split = {}
        for kind, cluster, weight in zip(
            kinds[several].tolist(), clusters[several].tolist(), weights[alive][several].tolist(),
            strict=True,
        ):  # fmt: skip
            pieces = split.setdefault(kind, {})
            pieces[cluster] = pieces.get(cluster, 0) + round(weight)
        split = {kind: sorted(pieces.items()) for kind, pieces in split.items()}
        # What a row loses where it went, at the new prices: nothing, if all is right.
        priced = scores + change
        lost = priced.max(axis=1, keepdims=True) - priced
        gap = float((weights[alive] * lost[kinds, clusters]).sum())
        return _Moves(True, change, labels.astype(np.int32), split, gap)


def _next_look(rows, look, moves, bins, excess, n_looks):
    """New prices and wider bands for the groups that were not final."""
    prices, widths = look.prices.copy(), look.widths.copy()
    wanted = np.zeros(rows.n_groups)
    for r, move in enumerate(moves):
        if move.is_final:
            continue
        # Beyond the reach of the look a change says no more than that it was too short.
        reach = kernels.REACH * min(look.widths[r], kernels.TOO_FAR // 64)
        change = move.price_change - move.price_change.min()
        prices[r] += np.minimum(change, reach)
        prices[r] -= prices[r].max()
        in_band = np.cumsum(bins[r])
        seen = np.searchsorted(_upper_edges(), look.widths[r])
        band = in_band[min(seen, len(in_band) - 1)]
        if look.strides[r] > 1:
            moving = 2.0 * np.sqrt(band * look.strides[r])
            wanted[r] = _least_band(rows.n_groups) + BAND_FACTOR * moving
        else:
            # In the end all rows, which needs no proof.
            least = _least_band(rows.n_groups) * 4.0**n_looks
            # Prices that moved within reach are about right: the same band will do for the rest.
            more = band if change.max() < reach else 4.0 * max(band, excess[r])
            wanted[r] = max(more, least)
        if wanted[r] >= 0.5 * rows.group_sizes[r]:
            widths[r] = UNREACHED
        else:
            widths[r] = _upper_edges()[np.searchsorted(in_band, wanted[r])]
    strides = look.strides.copy()
    active = np.array([not move.is_final for move in moves])
    thinned = _strides(wanted, rows) if n_looks < THINNED_LOOKS else np.ones_like(strides)
    strides[active] = thinned[active]
    return Look(look.scorer, look.scale, prices, widths, strides)


def _upper_edges():
    """Largest margin of every bin."""
    bins = np.arange(kernels.N_BINS, dtype=object)
    edges = [b if b < 8 else ((4 + b % 4 + 1) << (b // 4 - 1)) - 1 for b in bins]
    return np.array([min(edge, int(UNREACHED)) for edge in edges], dtype=np.int64)


def _dealt(parts, places, labels, split):
    """The decisions on all kinds, dealt to the chunks in their order."""
    is_split = np.zeros(len(labels), dtype=bool)
    is_split[list(split)] = True
    left = {kind: list(pieces) for kind, pieces in split.items()}
    decisions, start = [], 0
    for part in parts:
        numbers = part[4]
        own = places[start : start + len(numbers)]
        start += len(numbers)
        own_labels, own_split = labels[own], {}
        for k in np.flatnonzero(is_split[own]).tolist():
            taken = _take(left[int(own[k])], numbers[k])
            own_labels[k] = taken[0][0]
            if len(taken) > 1:
                own_split[k] = taken
        decisions.append(Decision(own_labels, own_split))
    return decisions


def _take(parts, number):
    """Take so many rows off a list of (cluster, number), from its beginning."""
    taken, missing = [], round(number)
    while missing:
        cluster, there = parts[0]
        some = min(there, missing)
        taken.append((cluster, some))
        missing -= some
        if some == there:
            parts.pop(0)
        else:
            parts[0] = (cluster, there - some)
    return taken
