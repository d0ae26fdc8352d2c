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

from dataclasses import dataclass, field, replace

import numpy as np

from fairanchor._kernels._transport import UNREACHED, central_prices, send_excess
from fairanchor.assignment._band_plan import first_look, next_look
from fairanchor.assignment._looks import (
    ChunkTables,
    Decision,
    Labeller,
    Look,
    Seen,
    Tables,
    combined_tables,
    merge_kinds,
)
from fairanchor.assignment._rounding import largest_remainder, round_targets
from fairanchor.assignment._transport import (
    LOWEST,
    OUT_OF_REACH,
    SCORE_BITS,
    score_range,
    transport_rows,
)
from fairanchor.rows._stand_in import in_whole_rows, ratio

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
    squares : float
        Squared distances of the rows to the middle of their cluster, if middles were given.
    """

    look: Look
    decisions: list
    prices: np.ndarray
    gap: float
    score: float
    sums: np.ndarray
    totals: np.ndarray
    squares: float

    def labellers(self):
        """Functions that give the labels of the chunks' rows, one for each chunk."""
        return [Labeller(self.look, decision) for decision in self.decisions]


def agree(rows, scorer, totals, sample, start=None, *, middles=None):
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
    middles : ndarray of shape (n_clusters, n_features), default=None
        From where squared distances are wanted.

    Returns
    -------
    result : AgreedResult
    """
    scores = scorer.scores(sample)
    prices = _prices_of_sample(sample, scores, totals, start)
    resolution = _resolution(scores)
    while True:
        scale = 2.0 ** min(SCORE_BITS - np.ceil(np.log2(resolution)), 1023)
        first = first_look(rows, scorer, scale, sample, scores, prices)
        look, decisions, gap = _decide(rows, totals, first)
        given = [(look, decision) for decision in decisions]
        tables = rows.each("labels", Tables(middles), given, combine=combined_tables)
        tables = ChunkTables(*tables)
        # Raising scores to `LOWEST` can only help; if no row makes use of it, the labels
        # are optimal for the scores as they were.
        if tables.lowest_used.min() > LOWEST:
            break
        resolution *= COARSER
    _check_counts(tables.counts, totals)
    prices = _prices_of_labels(tables, totals) / scale
    return AgreedResult(
        look, decisions, prices, gap / scale, tables.score, tables.sums, tables.counts,
        tables.squares,
    )  # fmt: skip


def _prices_of_sample(sample, scores, totals, start):
    """Prices at which the sample has its part of the totals."""
    whole = in_whole_rows(sample)
    shares = totals * ratio(whole.group_sizes, totals.sum(axis=0))
    sample_totals = _with_small_cells(
        round_targets(shares, whole.group_sizes, whole=True), totals > 0
    )
    return transport_rows(whole, scores, sample_totals, start).prices


def _prices_of_labels(tables, totals):
    """Prices in the middle of those that explain the labels, in fixed point."""
    prices = np.zeros(totals.shape)
    for r in np.flatnonzero(totals.any(axis=0)):
        is_used = tables.counts[:, r] > 0
        prices[:, r] = central_prices(tables.regrets[r], is_used, totals[:, r], OUT_OF_REACH)
    return prices


def _check_counts(counts, totals):
    if (counts != totals).any():
        raise RuntimeError(
            f"The labels have {counts.tolist()} rows in the cells, expected {totals.tolist()}. "
            "This is an error of fairanchor: please report it."
        )


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
    """Largest difference of scores that is told apart, with room for rows no sample knows."""
    typical, largest = score_range(scores)
    if 0.0 < typical < COARSER * largest:
        return typical
    return COARSER * largest if largest > 0 else 1.0


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
    n_looks, n_failures = 0, 0
    while True:
        parts = rows.each("prices", look)
        n_looks += 1
        seen, places = _merged(parts)
        described = replace(look, strides=look.strides * seen.thinner)
        moves = [
            _GroupBand(
                seen.kinds[own, 1:], seen.numbers[own], totals[:, r] - seen.outside[:, r],
                look.widths[r], described.strides[r],
            ).moved()
            for r, own in enumerate(_spans(seen.kinds[:, 0], rows.n_groups))
        ]  # fmt: skip
        if all(move.is_final for move in moves):
            gap = sum(move.gap for move in moves)
            return look, _dealt(parts, places, *_joined_moves(moves)), gap
        excess = np.abs(seen.load - totals).sum(axis=0) / 2
        n_failures += any(
            not move.is_final and (stride == 1 or not move.is_enough)
            for stride, move in zip(look.strides, moves, strict=True)
        )
        look = next_look(rows, described, seen, moves, excess, n_looks, n_failures)


def _merged(parts):
    """What all chunks have seen together, and the place of each chunk's kinds among all."""
    load, outside, bins = (sum(tables) for tables in list(zip(*parts, strict=True))[:3])
    kinds, places, numbers = merge_kinds(
        np.concatenate([part.kinds for part in parts]),
        np.concatenate([part.numbers for part in parts]),
    )
    thinner = max(part.thinner for part in parts)
    return Seen(load, outside, bins, kinds, numbers, thinner), places


def _joined_moves(moves):
    """Labels of the kinds of all groups, and those that go to several clusters."""
    starts = np.cumsum([0, *(len(move.labels) for move in moves)])
    split = {
        int(start + kind): pieces
        for start, move in zip(starts, moves, strict=False)
        for kind, pieces in move.split.items()
    }
    return np.concatenate([move.labels for move in moves]), split


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
    is_enough : bool
        Whether the rows of the band could fill every cluster.
    price_change : ndarray of shape (n_clusters,), dtype int64
    labels : ndarray of shape (n_kinds,), dtype int32
    split : dict
        Kinds that go to several clusters, to a list of (cluster, number).
    gap : float
    """

    is_final: bool
    is_enough: bool
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
            return _Moves(is_final, is_final, change, np.empty(0, dtype=np.int32))
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
            return _Moves(False, bool(complete and self.room.min() >= 0), change)
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
        return _Moves(True, True, change, labels.astype(np.int32), split, gap)


def _dealt(parts, places, labels, split):
    """The decisions on all kinds, dealt to the chunks in their order."""
    is_split = np.zeros(len(labels), dtype=bool)
    is_split[list(split)] = True
    left = {kind: list(pieces) for kind, pieces in split.items()}
    decisions, start = [], 0
    for part in parts:
        numbers = part.numbers
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
