"""Hard labels with exact totals: the transportation problem of each group.

For every group r by itself::

    maximise  sum_i scores[i, label_i]   over the rows i of group r
    subject to  the rows with label l weigh totals[l, r]

Its dual has one price per cluster: an optimal labelling sends each row to the cluster
with the largest ``scores[i, l] + price[l]``, rows with a tie to where there is room. So
nearly all rows can be labelled by prices estimated on a sample; only rows with a small
margin are looked at more closely, and the price change they cause proves that all the
others were right.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from fairanchor._kernels import _transport as kernels
from fairanchor.assignment._rounding import largest_remainder

# Bits of the fixed-point scores: exact comparisons, and room for sums of many regrets.
SCORE_BITS = 40
# A difference of scores above this times the median row's between its two best clusters is
# an outlier's: it must not cost all others their digits.
OUTLIER_FACTOR = 2.0**20
# Groups up to this size are solved at once, larger ones start from a sample of this size.
SAMPLE_ROWS = 20_000


@dataclass(frozen=True)
class TransportResult:
    """Labels, and the prices that explain them.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,), dtype int32
    prices : ndarray of shape (n_clusters, n_groups)
        Row i of group r has the largest ``scores[i, l] + prices[l, r]`` at its label, up to
        ties.
    gap : float
        Value of the dual minus value of the labels; zero up to the resolution of the
        fixed-point scores proves that no labelling with these totals is better.
    n_fractional : int
        With weights: rows that the linear program splits between clusters, fewer than
        there are clusters for each group.
    """

    labels: np.ndarray
    prices: np.ndarray
    gap: float
    n_fractional: int = 0


def transport(scores, group_codes, totals, *, weights=None):
    """Label rows so that each group has its totals in the clusters, at the largest score.

    With weights the score of a row counts as often as the row weighs.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_clusters)
        How well each row fits each cluster.
    group_codes : ndarray of shape (n_rows,)
    totals : ndarray of shape (n_clusters, n_groups)
        Integer counts per cluster and group, or weights if ``weights`` is given.
        Each column sums to its group's rows (weight).
    weights : ndarray of shape (n_rows,), default=None
        Without weights the totals are met exactly. With weights a cell misses its total by
        at most the largest weight among the rows that the linear program splits.

    Returns
    -------
    result : TransportResult
    """
    n_clusters, n_groups = totals.shape
    resolutions = _resolutions(scores)
    labels = np.empty(len(scores), dtype=np.int32)
    prices = np.zeros((n_clusters, n_groups))
    gap, n_fractional = 0.0, 0
    by_group = np.argsort(group_codes, kind="stable")
    ends = np.cumsum(np.bincount(group_codes, minlength=n_groups))
    for r, rows in enumerate(np.split(by_group, ends[:-1])):
        if len(rows) == 0:
            continue
        group_scores, group_totals = scores[rows], totals[:, r].astype(np.float64)
        group_weights = np.ones(len(rows)) if weights is None else weights[rows]
        own, own_prices, n_split = _label_group(
            group_scores, group_weights, group_totals, resolutions
        )
        labels[rows] = own
        prices[:, r] = own_prices
        gap += _gap(group_scores, own, group_weights, group_totals, own_prices)
        n_fractional += n_split
    return TransportResult(labels, prices, gap, n_fractional)


def _resolutions(scores):
    """Largest differences of scores to be told apart: without those of outliers, then all."""
    nearest, farthest = np.empty(len(scores)), np.empty(len(scores))
    kernels.score_differences(scores, nearest, farthest)
    largest = float(farthest.max(initial=0.0))
    if largest == 0.0:
        return [1.0]
    typical = OUTLIER_FACTOR * float(np.median(nearest))
    return [typical, largest] if 0.0 < typical < largest else [largest]


def _label_group(scores, weights, totals, resolutions):
    """Labels and prices of one group, and the number of its rows that had to be rounded."""
    counted = weights > 0
    if not counted.any():
        return scores.argmax(axis=1), np.zeros(len(totals)), 0
    if not counted.all():  # rows without weight go where the prices of the others send them
        own, prices, n_split = _label_group(scores[counted], weights[counted], totals, resolutions)
        labels = (scores + prices).argmax(axis=1)
        labels[counted] = own
        return labels, prices, n_split
    fixed = np.empty(scores.shape, dtype=np.int64)
    lowest = -(2.0**SCORE_BITS)
    for resolution in resolutions:
        scale = 2.0 ** min(SCORE_BITS - np.ceil(np.log2(resolution)), 1023)
        kernels.to_fixed_point(scores, scale, lowest, fixed)
        labels, split = _solve_group(fixed, weights, totals)
        if split:
            _round_split_rows(labels, split, fixed, weights)
        # Raising scores to `lowest` can only help; if no row makes use of it, the labels
        # are optimal for the scores as they were.
        if fixed[np.arange(len(labels)), labels].min() > lowest:
            break
    return labels, _central_prices(fixed, labels, totals) / scale, len(split)


def _solve_group(scores, weights, totals):
    """Optimal labels of one group, and the pieces of rows that are split.

    Returns
    -------
    labels : ndarray of shape (n_rows,)
        A split row has the label of one of its pieces.
    split : dict
        Row to list of (cluster, weight).
    """
    n_rows = len(scores)
    prices = _starting_prices(scores, weights, totals)
    labels = np.empty(n_rows, dtype=np.int64)
    margins = np.empty(n_rows, dtype=np.int64)
    whole = np.all(weights == 1.0) and np.all(totals == np.rint(totals))
    slack = 0.5 if whole else 1e-9 * weights.sum()
    n_band = 0
    while True:
        kernels.prefer(scores, prices, labels, margins)
        load = np.bincount(labels, weights=weights, minlength=len(totals))
        excess = np.abs(load - totals).sum() / 2
        if excess <= slack:
            return labels, {}
        n_band = max(4 * n_band, int(16 * excess / weights.mean()), SAMPLE_ROWS)
        if n_band >= n_rows:
            band, width = np.arange(n_rows), kernels.UNREACHED
        else:
            width = np.partition(margins, n_band)[n_band]
            band = np.flatnonzero(margins <= width)
        load_outside = load - np.bincount(
            labels[band], weights=weights[band], minlength=len(totals)
        )
        new_prices = prices.copy()
        places, piece_weights, complete = kernels.send_excess(
            scores[band], weights[band], labels[band], totals - load_outside, new_prices, slack
        )
        change = new_prices - prices
        # A row outside the band would lose more than `width` anywhere else; no difference
        # of price changes makes up for that.
        if len(band) == n_rows or (complete and change.max() - change.min() <= width):
            return labels, _place_pieces(labels, band, places, piece_weights, weights)
        prices = new_prices


def _starting_prices(scores, weights, totals):
    n_rows, n_clusters = scores.shape
    if n_rows <= 2 * SAMPLE_ROWS:
        return np.zeros(n_clusters, dtype=np.int64)
    sample = np.arange(0, n_rows, n_rows // SAMPLE_ROWS)
    load = weights[sample].sum()
    sample_totals = totals * (load / totals.sum())
    if np.all(weights == 1.0):
        sample_totals = largest_remainder(sample_totals, len(sample)).astype(np.float64)
    prices = np.zeros(n_clusters, dtype=np.int64)
    labels = np.empty(len(sample), dtype=np.int64)
    margins = np.empty(len(sample), dtype=np.int64)
    sampled = np.ascontiguousarray(scores[sample])
    kernels.prefer(sampled, prices, labels, margins)
    slack = 1e-9 * load
    kernels.send_excess(sampled, weights[sample], labels, sample_totals, prices, slack)
    return prices


def _place_pieces(labels, band, places, piece_weights, weights):
    """Write the labels of the band's rows; return the rows that are in several clusters."""
    # A piece that is nothing but a rounding error is none.
    alive = piece_weights > 1e-12 * weights[band[places[:, 0]]]
    rows, clusters, shares = band[places[alive, 0]], places[alive, 1], piece_weights[alive]
    labels[rows] = clusters
    n_pieces = np.bincount(places[alive, 0], minlength=len(band))
    several = n_pieces[places[alive, 0]] > 1
    edges = {}
    for row, cluster, weight in zip(
        rows[several].tolist(), clusters[several].tolist(), shares[several].tolist(), strict=True
    ):
        edges[row, cluster] = edges.get((row, cluster), 0.0) + weight
    split = {}
    for (row, cluster), weight in _without_cycles(edges).items():
        split.setdefault(row, []).append((cluster, weight))
    for row, parts in split.items():
        labels[row] = parts[0][0]
    return {row: parts for row, parts in split.items() if len(parts) > 1}


def _without_cycles(edges):
    """The same weights of rows and clusters on a forest of (row, cluster) pairs.

    All pieces are in clusters between which their rows are indifferent, so weight can be
    passed round a cycle for nothing until one of its pairs is empty. In a forest fewer
    rows are split than there are clusters.
    """
    forest, neighbours = {}, {}
    for (row, cluster), weight in edges.items():
        a, b = ("row", row), ("cluster", cluster)
        path = _path(neighbours, a, b)
        forest[row, cluster] = weight
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
        if path is None:
            continue
        pairs = [_pair(*ends) for ends in zip([b, *path[:-1]], path, strict=True)]
        least = min(pairs[::2], key=forest.get)
        amount = forest[least]
        for k, pair in enumerate(pairs):
            forest[pair] += amount if k % 2 else -amount
        for pair in [pair for pair in pairs[::2] if forest[pair] <= 0.0]:
            del forest[pair]
            neighbours["row", pair[0]].discard(("cluster", pair[1]))
            neighbours["cluster", pair[1]].discard(("row", pair[0]))
    return forest


def _pair(a, b):
    return (a[1], b[1]) if a[0] == "row" else (b[1], a[1])


def _path(neighbours, start, goal):
    """Nodes of a forest from ``start`` to ``goal``, or None if there is no path."""
    came_from, stack = {start: None}, [start]
    while stack:
        node = stack.pop()
        if node == goal:
            path = []
            while node is not None:
                path.append(node)
                node = came_from[node]
            return path[::-1]
        for other in neighbours.get(node, ()):
            if other not in came_from:
                came_from[other] = node
                stack.append(other)
    return None


def _round_split_rows(labels, split, scores, weights):
    """Give every split row to one of its clusters by slot rounding (Shmoys and Tardos).

    Within a cluster the pieces, heaviest row first, are laid end to end in units of
    rows and cut into slots of one row each. A matching of the rows to slots that touches
    every full slot changes a cluster's weight by less than the heaviest split row, and the
    cheapest one costs no more than the fractional assignment.
    """
    rows = sorted(split, key=lambda row: (-weights[row], row))
    position = {row: k for k, row in enumerate(rows)}
    filled, slots = {}, {}
    edges = []
    for row in rows:
        for cluster, weight in split[row]:
            start = filled.get(cluster, 0.0)
            stop = start + weight / weights[row]
            filled[cluster] = stop
            last = int(np.ceil(stop - 1e-9)) - 1
            for number in range(int(start + 1e-9), max(int(start + 1e-9), last) + 1):
                slot = slots.setdefault((cluster, number), len(slots))
                edges.append((position[row], slot, cluster))
    heaviness = weights[rows] / weights[rows[0]]
    forbidden = 4.0 * float(np.abs(scores[rows]).max() + 1) * len(rows)
    cost = np.full((len(rows), len(slots)), 4 * forbidden)
    cluster_of = np.empty(len(slots), dtype=np.int64)
    for k, slot, cluster in edges:
        cost[k, slot] = -float(scores[rows[k], cluster]) * heaviness[k]
        cluster_of[slot] = cluster
    for (cluster, number), slot in slots.items():
        if number + 1 <= filled[cluster] + 1e-9:
            cost[:, slot] -= forbidden
    matched_rows, matched_slots = linear_sum_assignment(cost)
    for k, slot in zip(matched_rows, matched_slots, strict=True):
        labels[rows[k]] = cluster_of[slot]


def _central_prices(scores, labels, totals):
    """Prices in the middle of all that explain the labels, as floats in fixed-point units.

    The prices that explain the labels are those with
    ``price[l'] - price[l] <= regret[l, l']`` for the smallest regret of a row in l. Every
    shortest-path tree is an extreme solution; their mean leaves as much room as possible
    on all sides, so that only real ties are ties.
    """
    n_clusters = scores.shape[1]
    regrets = np.full((n_clusters, n_clusters), kernels.UNREACHED, dtype=np.int64)
    kernels.smallest_regrets(scores, labels, regrets)
    np.fill_diagonal(regrets, 0)
    is_used = np.bincount(labels, minlength=n_clusters) > 0
    used = np.flatnonzero(is_used)
    distances = np.ascontiguousarray(regrets[np.ix_(used, used)])
    kernels.shortest_distances(distances)
    prices = np.empty(n_clusters)
    prices[used] = (distances.mean(axis=0) - distances.mean(axis=1)) / 2
    prices[used] -= prices[used].mean()
    # Weights can leave a cluster without a row that should have some: as dear as it can be.
    missed = np.flatnonzero(~is_used & (totals > 0))
    prices[missed] = (prices[used, None] + regrets[np.ix_(used, missed)]).min(axis=0)
    # A cluster without a share of this group must not attract anyone: below all scores.
    prices[~is_used & (totals <= 0)] = prices[used].min() - 2.0**SCORE_BITS * 4
    return prices


def _gap(scores, labels, weights, totals, prices):
    dual = kernels.best_value(scores, weights, prices) - totals @ prices
    return max(0.0, float(dual - weights @ scores[np.arange(len(scores)), labels]))
