"""What chunks of rows do for an assignment by agreed prices: look, label, and count.

These functions are sent to where the rows are; `fairanchor.assignment._agreed` is the driver.
"""

from dataclasses import dataclass

import numpy as np

from fairanchor._kernels import _agreed as kernels
from fairanchor._kernels._transport import UNREACHED
from fairanchor.assignment._transport import LOWEST

# Spreads row numbers, so that thinning a band out takes no pattern of the rows with it.
MIX = np.uint64(0x9E3779B97F4A7C15)


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
    """

    scorer: object
    scale: float
    prices: np.ndarray
    widths: np.ndarray
    strides: np.ndarray

    def __call__(self, chunk):
        """Loads, loads beyond the band, margins by bins, and the kinds of rows in the band."""
        labels, margins = self.preferences(chunk)
        rows, n_clusters = chunk.distinct, self.prices.shape[1]

        def add(block):
            own = slice(block.start, block.stop)
            load, outside = np.zeros((2, n_clusters, rows.n_groups))
            bins = np.zeros((rows.n_groups, kernels.N_BINS))
            n_band = kernels.count_margins(
                block.group_codes, block.weights, labels[own], margins[own], self.widths,
                load, outside, bins,
            )  # fmt: skip
            return load, outside, bins, np.array([n_band])

        load, outside, bins, n_band = rows.sum(add)
        band, regrets = self.band(chunk, margins, int(n_band[0]))
        kept = _is_described(chunk, band, self.strides[regrets[:, 0]])
        kinds, _, numbers = merge_kinds(regrets[kept], rows.weights[band[kept]])
        return load, outside, bins, kinds, numbers

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

    def band(self, chunk, margins, n_band):
        """Distinct rows in the band, and their group and regrets."""
        rows = np.empty(n_band, dtype=np.int64)
        regrets = np.empty((n_band, 1 + self.prices.shape[1]), dtype=np.int64)
        kernels.band_regrets(
            chunk.scores(self.scorer), chunk.distinct.group_codes, self.scale, LOWEST,
            self.prices, margins, self.widths, rows, regrets,
        )  # fmt: skip
        return rows, regrets


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
    n_band = int(np.count_nonzero(margins <= look.widths[chunk.distinct.group_codes]))
    band, regrets = look.band(chunk, margins, n_band)
    _, places, _ = merge_kinds(regrets, np.ones(n_band))
    labels[band] = decision.labels[places] if n_band else 0
    split = {}
    for kind, parts in decision.split.items():
        _share_out(chunk.distinct, band[places == kind], parts, labels, split)
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


def combined_tables(parts):
    """What `tables_of_chunk` gives, for all chunks together."""
    counts, sums, regrets, lowest_used = (table.copy() for table in parts[0][:4])
    score = parts[0][4]
    for part in parts[1:]:
        counts += part[0]
        sums += part[1]
        np.minimum(regrets, part[2], out=regrets)
        np.minimum(lowest_used, part[3], out=lowest_used)
        score += part[4]
    return counts, sums, regrets, lowest_used, score


def tables_of_chunk(chunk, given):
    """Counts, sums of the rows, smallest regrets and scores used, and total score of a chunk."""
    from fairanchor.clusterers._fair_lloyd import cluster_sums, total_score

    look, decision = given
    rows, n_clusters = chunk.distinct, look.prices.shape[1]
    labels, split = chunk_labels(chunk, look, decision)
    scores = chunk.scores(look.scorer)
    regrets = np.full((rows.n_groups, n_clusters, n_clusters), UNREACHED)
    lowest_used = np.full(rows.n_groups, UNREACHED)
    given = (scores, rows.group_codes, look.scale, LOWEST)
    kernels.smallest_regrets_in_groups(*given, labels, regrets, lowest_used)
    cells = labels * np.int64(rows.n_groups) + rows.group_codes
    counts = np.bincount(cells, weights=rows.weights, minlength=n_clusters * rows.n_groups)
    counts = counts.reshape(n_clusters, rows.n_groups)
    for row, parts in split.items():
        r = rows.group_codes[row]
        counts[labels[row], r] -= rows.weights[row]
        one = (scores[row : row + 1], rows.group_codes[row : row + 1], look.scale, LOWEST)
        for cluster, number in parts:
            counts[cluster, r] += number
            label = np.array([cluster], dtype=np.int32)
            kernels.smallest_regrets_in_groups(*one, label, regrets, lowest_used)
    sums, _ = cluster_sums(rows, labels, n_clusters, split)
    score = total_score(rows, scores, labels, split)
    return np.rint(counts).astype(np.int64), sums, regrets, lowest_used, score


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


def _is_described(chunk, band, strides):
    """Which rows of the band are described: one of so many, by their global number."""
    if (strides == 1).all():
        return np.ones(len(band), dtype=bool)
    first = getattr(chunk.distinct, "first", None)
    numbers = (band if first is None else first[band]) + chunk.start
    mixed = (numbers.astype(np.uint64) * MIX) >> np.uint64(33)
    return mixed % strides.astype(np.uint64) == 0
