"""What chunks of rows do for an assignment by agreed prices: look, label, and count.

These functions are sent to where the rows are; `fairanchor.assignment._agreed` is the driver.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairanchor._kernels import _agreed as kernels
from fairanchor._kernels._transport import UNREACHED
from fairanchor.assignment._transport import LOWEST

# Spreads row numbers, so that thinning a band out takes no pattern of the rows with it.
MIX = np.uint64(0x9E3779B97F4A7C15)
# Numbers that describe the rows of a band before equal ones are merged.
SLICE_NUMBERS = 2**21


class Seen(NamedTuple):
    """What a chunk answers to a look.

    Attributes
    ----------
    load, outside : ndarray of shape (n_clusters, n_groups)
        Rows that prefer each cluster, and those of them that are beyond the band.
    bins : ndarray of shape (n_groups, N_BINS)
        Rows by their margins.
    kinds : ndarray of shape (n_kinds, 1 + n_clusters), dtype int64
        Group and regrets of the rows of the band, without repetition, in lexicographic order.
    numbers : ndarray of shape (n_kinds,)
        Rows of each kind.
    thinner : int
        How many times fewer rows are described than the look's strides say.
    """

    load: np.ndarray
    outside: np.ndarray
    bins: np.ndarray
    kinds: np.ndarray
    numbers: np.ndarray
    thinner: int


@dataclass(frozen=True)
class Look:
    """What a pass asks every chunk.

    Attributes
    ----------
    scorer : object
        Has ``scores(rows)``.
    scale : float
        Of the fixed-point scores.
    prices : ndarray of shape (n_groups, n_clusters), dtype int64
    widths : ndarray of shape (n_groups,), dtype int64
        A row whose margin is at most this is in the band.
    strides : ndarray of shape (n_groups,), dtype int64
        One of so many rows of the band is described.
    most_kinds : int
        A chunk with more kinds of rows in its band describes fewer rows.
    """

    scorer: object
    scale: float
    prices: np.ndarray
    widths: np.ndarray
    strides: np.ndarray
    most_kinds: int

    def __call__(self, chunk):
        """What the chunk has to say, as `Seen`."""
        labels, margins = self.preferences(chunk)
        rows, n_clusters = chunk.distinct, self.prices.shape[1]

        def add(block):
            own = slice(block.start, block.stop)
            load, outside = np.zeros((2, n_clusters, rows.n_groups))
            bins = np.zeros((rows.n_groups, kernels.N_BINS))
            kernels.count_margins(
                block.group_codes, block.weights, labels[own], margins[own], self.widths,
                load, outside, bins,
            )  # fmt: skip
            return load, outside, bins

        tables = rows.sum(add)
        thinner = 1
        while True:
            found = self._kinds_of(chunk, self.band(chunk, margins, thinner * self.strides))
            if found is not None:
                kinds, numbers = found
                return Seen(*tables, kinds, thinner * numbers, thinner)
            thinner *= 2

    def preferences(self, chunk):
        """Preferred cluster and margin of the distinct rows."""
        scores = chunk.scores(self.scorer)
        labels = np.empty(len(scores), dtype=np.int32)
        margins = np.empty(len(scores), dtype=np.int64)

        def kernel(block, own, labels, margins):
            kernels.prefer_in_groups(
                own, block.group_codes, self.scale, LOWEST, self.prices, labels, margins
            )

        chunk.distinct.map(kernel, [scores, labels, margins])
        return labels, margins

    def band(self, chunk, margins, strides=None):
        """Distinct rows in the band, or one of so many of them, by their global number."""
        codes = chunk.distinct.group_codes
        band = np.flatnonzero(margins <= self.widths[codes])
        if strides is None or (strides == 1).all():
            return band
        first = getattr(chunk.distinct, "first", None)
        numbers = (band if first is None else first[band]) + chunk.start
        mixed = (numbers.astype(np.uint64) * MIX) >> np.uint64(33)
        return band[mixed % strides[codes[band]].astype(np.uint64) == 0]

    def places(self, chunk, band):
        """The kind of each row of the band, kinds in the order in which `Seen` has them."""
        if len(band) <= self._slice_rows:
            return merge_kinds(self._regrets(chunk, band), np.ones(len(band)))[1]
        kinds, _ = self._kinds_of(chunk, band, limited=False)
        places = np.empty(len(band), dtype=np.int64)
        for own in self._slices(band):
            joined = np.concatenate([kinds, self._regrets(chunk, band[own])])
            places[own] = merge_kinds(joined, np.ones(len(joined)))[1][len(kinds) :]
        return places

    def _kinds_of(self, chunk, band, *, limited=True):
        """Kinds of these rows, and how many are of each; None if they are too many."""
        kinds, numbers = np.empty((0, 1 + self.prices.shape[1]), dtype=np.int64), np.empty(0)
        for own in self._slices(band):
            joined = np.concatenate([kinds, self._regrets(chunk, band[own])])
            weights = np.concatenate([numbers, chunk.distinct.weights[band[own]]])
            kinds, _, numbers = merge_kinds(joined, weights)
            if limited and len(kinds) > self.most_kinds:
                return None
        return kinds, numbers

    def _regrets(self, chunk, rows):
        """Group and regrets of some rows."""
        regrets = np.empty((len(rows), 1 + self.prices.shape[1]), dtype=np.int64)
        kernels.regrets_of_rows(
            chunk.scores(self.scorer), chunk.distinct.group_codes, self.scale, LOWEST,
            self.prices, self.widths, rows, regrets,
        )  # fmt: skip
        return regrets

    @property
    def _slice_rows(self):
        return max(1, SLICE_NUMBERS // (1 + self.prices.shape[1]))

    def _slices(self, band):
        step = self._slice_rows
        return [slice(a, a + step) for a in range(0, len(band), step)]


@dataclass(frozen=True)
class Decision:
    """What becomes of the kinds of rows in a chunk's band.

    Attributes
    ----------
    labels : ndarray of shape (n_kinds,), dtype int32
    split : dict
        Kind to a list of (cluster, number of rows), in the order in which rows get them.
    """

    labels: np.ndarray
    split: dict


@dataclass(frozen=True)
class Labeller:
    """Labels of one chunk: has no more than it needs, since it may be sent to the chunk."""

    look: Look
    decision: Decision

    def __call__(self, chunk):
        labels, split = chunk_labels(chunk, self.look, self.decision)
        return chunk.distinct.spread(labels, split)


def chunk_labels(chunk, look, decision):
    """Labels of a chunk's distinct rows, and those whose copies have different ones."""
    labels, margins = look.preferences(chunk)
    band = look.band(chunk, margins)
    places = look.places(chunk, band)
    labels[band] = decision.labels[places]
    split = {}
    if decision.split:
        order = np.argsort(places, kind="stable")  # once for all kinds, in row order within each
        for kind, parts in decision.split.items():
            start, stop = np.searchsorted(places, [kind, kind + 1], sorter=order)
            _share_out(chunk.distinct, band[order[start:stop]], parts, labels, split)
    return labels, split


def _share_out(rows, members, parts, labels, split):
    """Give rows of one kind to clusters in row order; a row with copies can be cut."""
    until = np.cumsum(np.rint(rows.weights[members]).astype(np.int64))
    clusters = np.array([cluster for cluster, _ in parts])
    edges = np.cumsum([number for _, number in parts])
    first = np.searchsorted(edges, until - rows.weights[members].astype(np.int64), side="right")
    last = np.searchsorted(edges, until - 1, side="right")
    labels[members] = clusters[first]
    for place in np.flatnonzero(first != last).tolist():
        begin = until[place] - int(rows.weights[members[place]])
        pieces = []
        for k in range(first[place], last[place] + 1):
            stop = min(edges[k], until[place])
            pieces.append((int(clusters[k]), int(stop - begin)))
            begin = stop
        split[int(members[place])] = pieces


class ChunkTables(NamedTuple):
    """What labels make of a chunk, or of all.

    Attributes
    ----------
    counts : ndarray of shape (n_clusters, n_groups), dtype int64
    sums : ndarray of shape (n_clusters, n_features)
        Of the rows of each cluster.
    regrets : ndarray of shape (n_groups, n_clusters, n_clusters), dtype int64
        The least that a row of a cluster would lose in another one.
    lowest_used : ndarray of shape (n_groups,), dtype int64
        Smallest score of a row for its own cluster.
    score : float
        Sum of the rows' scores for their clusters.
    squares : float
        Sum of squared distances to the middles that were given; zero without.
    """

    counts: np.ndarray
    sums: np.ndarray
    regrets: np.ndarray
    lowest_used: np.ndarray
    score: float
    squares: float


def combined_tables(parts):
    """`ChunkTables` of all chunks together, as a plain tuple."""
    return (
        sum(part.counts for part in parts),
        sum(part.sums for part in parts),
        np.minimum.reduce([part.regrets for part in parts]),
        np.minimum.reduce([part.lowest_used for part in parts]),
        sum(part.score for part in parts),
        sum(part.squares for part in parts),
    )


@dataclass(frozen=True)
class Tables:
    """Computes the `ChunkTables` of a chunk.

    Attributes
    ----------
    middles : ndarray of shape (n_clusters, n_features), or None
        From where squared distances are wanted: near the means, so that what these take of
        the squares is little.
    """

    middles: np.ndarray | None = None

    def __call__(self, chunk, given):
        """By a look and a decision."""
        from fairanchor.clusterers._fair_lloyd import cluster_sums, cost_of, total_score

        look, decision = given
        rows, n_clusters = chunk.distinct, look.prices.shape[1]
        labels, split = chunk_labels(chunk, look, decision)
        scores = chunk.scores(look.scorer)
        regrets, lowest_used = _smallest(rows, scores, look.scale, labels, split)
        counts = _counts(rows, labels, split, n_clusters)
        sums, _ = cluster_sums(rows, labels, n_clusters, split)
        score = total_score(rows, scores, labels, split)
        squares = 0.0
        if self.middles is not None:
            squares = cost_of(rows, labels, self.middles, split)
        return ChunkTables(counts, sums, regrets, lowest_used, score, squares)


def _counts(rows, labels, split, n_clusters):
    cells = labels * np.int64(rows.n_groups) + rows.group_codes
    counts = np.bincount(cells, weights=rows.weights, minlength=n_clusters * rows.n_groups)
    counts = counts.reshape(n_clusters, rows.n_groups)
    for row, parts in split.items():
        r = rows.group_codes[row]
        counts[labels[row], r] -= rows.weights[row]
        for cluster, number in parts:
            counts[cluster, r] += number
    return np.rint(counts).astype(np.int64)


def _smallest(rows, scores, scale, labels, split):
    """Smallest regrets and smallest scores used."""
    n_clusters = scores.shape[1]
    regrets = np.full((rows.n_groups, n_clusters, n_clusters), UNREACHED)
    lowest_used = np.full(rows.n_groups, UNREACHED)
    given = (scores, rows.group_codes, scale, LOWEST)
    kernels.smallest_regrets_in_groups(*given, labels, regrets, lowest_used)
    for row, parts in split.items():
        one = (scores[row : row + 1], rows.group_codes[row : row + 1], scale, LOWEST)
        for cluster, _ in parts:
            label = np.array([cluster], dtype=np.int32)
            kernels.smallest_regrets_in_groups(*one, label, regrets, lowest_used)
    return regrets, lowest_used


def merge_kinds(regrets, numbers):
    """Equal rows counted together, in lexicographic order.

    Returns
    -------
    kinds : ndarray of shape (n_kinds, 1 + n_clusters), dtype int64
    places : ndarray of shape (n_rows,)
        The kind of each row.
    totals : ndarray of shape (n_kinds,)
    """
    if len(regrets) == 0:
        return regrets, np.empty(0, dtype=np.int64), np.empty(0)
    order = np.lexsort(regrets.T[::-1])
    ordered = regrets[order]
    is_new = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    places = np.empty(len(regrets), dtype=np.int64)
    places[order] = np.cumsum(is_new) - 1
    kinds = ordered[is_new]
    return kinds, places, np.bincount(places, weights=numbers, minlength=len(kinds))
