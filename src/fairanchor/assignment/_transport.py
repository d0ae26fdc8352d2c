"""Whole labels with exact totals: the transportation problem of each group.

For every group r by itself::

    minimise  sum_i costs[i, label_i]   over the rows i of group r
    subject to  the rows with label l weigh totals[l, r]

Its dual has one price per cluster: the cheapest labels send each row to the cluster with the least
``costs[i, l] + price[l]``, rows with a tie to where there is room. From prices that are nearly
right, only rows of a sweep's band have to be moved; the change of prices that this takes proves
that all others are where they should be, or asks for a wider band.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from fairanchor._kernels import _transport as kernels
from fairanchor._utils._sampling import split_by_code
from fairanchor.assignment._sweep import Costs, Swept, first_least, sweep
from fairanchor.rows._memory import map_in_threads

# Entries, those of all groups together, that are taken at once, without a proof being needed.
FEW_ENTRIES = 100_000
# By how much a band that was too narrow is widened, and after how often it has all rows.
WIDENING, MAX_ROUNDS = 4.0, 10
# Clusters from which the middle of all right prices is looked for.
MAX_ROOTS = 32

# Rounding errors, of all that is summed up, and the most of a row that is taken for one.
ROUNDING_ERROR, MOST_OF_A_ROW = 1e-12, 1e-3


def _nothing() -> np.ndarray:
    return np.empty(0)


@dataclass(frozen=True)
class Transported:
    """Labels with exact totals, and the prices that explain them.

    Attributes
    ----------
    prices : ndarray of shape (n_clusters, n_groups)
        Row i of group r has the least ``costs[i, l] + prices[l, r]`` at its label, up to ties.
    swept : Swept
        The pass that the labels belong to.
    labels : ndarray of shape (n_band_rows,)
        Of the rows in its band.
    split : dict
        Rows of the band whose weight is divided: lists of (cluster, weight).
    """

    prices: np.ndarray
    swept: Swept
    labels: np.ndarray
    split: dict = field(default_factory=dict)

    def cost(self) -> float:
        """Of all rows."""
        band = self.swept.band
        cost = self.swept.clear_cost
        counts = np.diff(band.first)
        is_own = band.clusters == np.repeat(self.labels, counts)
        own = band.costs[is_own]
        cost += float(band.weights @ own)
        for row, parts in self.split.items():
            entries = slice(band.first[row], band.first[row + 1])
            price = dict(zip(band.clusters[entries].tolist(), band.costs[entries], strict=True))
            cost -= float(band.weights[row] * own[row])
            cost += sum(weight * float(price[cluster]) for cluster, weight in parts)
        return cost

    def value(self) -> float:
        """Weighted sum of the rows' least cost plus price."""
        return self.swept.value(self.prices)

    def memory_labels(self) -> tuple[np.ndarray, dict]:
        """Labels of rows in memory, and the split rows by their numbers."""
        labels = np.array(self.swept.labels)
        labels[self.swept.rows] = self.labels
        return labels, {int(self.swept.rows[row]): parts for row, parts in self.split.items()}


def transport(
    rows: Any,
    costs: Costs,
    totals: np.ndarray,
    prices: np.ndarray,
    width: float = 0.0,
    known: Swept | None = None,
) -> Transported:
    """The cheapest labels whose cells weigh ``totals``.

    Parameters
    ----------
    rows : MemoryRows or ChunkedRows
    costs : object
        As `sweep` takes it.
    totals : ndarray of shape (n_clusters, n_groups)
        Each column sums to its group's weight. Without weights, or where weights are numbers of
        copies, whole numbers, which are met exactly. Otherwise a cell misses its total by at most
        the largest weight among the rows that the linear program splits.
    prices : ndarray of shape (n_clusters, n_groups)
        Of a similar problem.
    width : float
        Of the first band.
    known : Swept, default=None
        A pass over the rows at these costs, which saves another one where it reaches far enough.

    Returns
    -------
    transported : Transported
    """
    n_clusters, n_groups = totals.shape
    whole = not rows.is_weighted
    counts = rows.group_sizes if whole else np.bincount(rows.group_codes, minlength=n_groups)
    is_few = counts * n_clusters <= FEW_ENTRIES / n_groups
    widths = np.where(is_few | (width == 0.0), np.inf, float(width))
    reference = prices.copy()
    wide = sweep(rows, costs, reference, widths) if known is None else known
    for n_rounds in range(MAX_ROUNDS):
        if not wide.reaches(reference, widths):
            wide = sweep(rows, costs, reference, widths)
        swept, places = wide.narrowed(reference, widths)
        groups = list(_groups_of(swept, totals, reference, widths, whole))
        solved = list(map_in_threads(_Group.solve, groups, rows.n_jobs))
        open_ones = [r for r, group in enumerate(solved) if not group.is_proved]
        if not open_ones:
            break
        for r in open_ones:
            # Continue from the prices found so far; in the last round, start over with all rows.
            is_last = n_rounds == MAX_ROUNDS - 2
            reference[:, r] = prices[:, r] if is_last else solved[r].prices
            widths[r] = np.inf if is_last else WIDENING * widths[r]
    labels = wide.band.clusters[wide.cheapest(reference)[0]].astype(np.int32)
    split: dict = {}
    solved = [group.at_central_prices() for group in solved]
    for group in solved:
        own = places[group.rows]
        labels[own] = group.labels
        split |= {int(own[row]): parts for row, parts in group.split.items()}
    final = np.column_stack([group.prices for group in solved])
    return Transported(final, wide, labels, split)


@dataclass(frozen=True)
class _Group:
    """Rows of one group in a band, and what becomes of them.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,)
        Their places in the band.
    first, clusters, costs, weights : ndarray
        Their candidates, as in `Band`.
    clear, totals, reference : ndarray of shape (n_clusters,)
        Weight of the other rows, weight asked for, and prices of the sweep.
    width : float
        Of the band.
    whole : bool
        Whether weights are numbers of rows.
    prices : ndarray of shape (n_clusters,)
        Under which the pieces are where they cost least.
    pieces : ndarray of shape (n_pieces, 2)
        Row and cluster.
    complete : bool
        Whether the totals are met.
    labels : ndarray of shape (n_rows,)
        These three are empty before the group is solved.
    split : dict
    """

    rows: np.ndarray
    first: np.ndarray
    clusters: np.ndarray
    costs: np.ndarray
    weights: np.ndarray
    clear: np.ndarray
    totals: np.ndarray
    reference: np.ndarray
    width: float
    whole: bool
    prices: np.ndarray = field(default_factory=_nothing)
    pieces: np.ndarray = field(default_factory=_nothing)
    complete: bool = False
    labels: np.ndarray = field(default_factory=_nothing)
    split: dict = field(default_factory=dict)

    @property
    def is_proved(self) -> bool:
        """Whether no row outside the band could do better elsewhere."""
        moved = np.ptp(self.prices - self.reference)
        return self.width == np.inf or (self.complete and moved <= self.width)

    def solve(self) -> Self:
        """The same group with labels that meet the totals, as far as the band allows."""
        priced = self.costs + self.reference[self.clusters]
        own = first_least(priced, self.first)
        labels = self.clusters[own]
        load = self.clear + np.bincount(labels, self.weights, minlength=len(self.totals))
        total = self.totals.sum()
        counted = self.weights > 0
        slack = 0.5
        if not self.whole:
            # Below the lightest row: a cluster without a total must not be left with one.
            lightest = self.weights[counted].min(initial=np.inf)
            slack = min(1e-9 * total, 0.5 * lightest)
        prices, moving = self.reference.copy(), self
        if not counted.all():
            moving = self._part(np.flatnonzero(counted))
            own = first_least(moving.costs + prices[moving.clusters], moving.first)
        pieces, piece_weights, complete = moving._send(own, load, prices, slack)
        if not counted.all():
            pieces[:, 0] = np.flatnonzero(counted)[pieces[:, 0]]
        all_rows = np.arange(len(self.rows))
        split = place_pieces(labels, all_rows, pieces, piece_weights, self.weights, total)
        if split and not self.whole:
            self._round(labels, split)
            pieces, split = np.column_stack([all_rows, labels])[counted], {}
        return replace(
            self, prices=prices, pieces=pieces, complete=complete, labels=labels, split=split
        )

    def _send(
        self, own: np.ndarray, load: np.ndarray, prices: np.ndarray, slack: float
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """Pieces of rows, their weights, and whether they meet the totals."""
        n_more = len(self.costs)
        while True:
            rest, changed = load.copy(), prices.copy()
            weight_at, state = kernels.send_excess(
                self.first, self.clusters, self.costs, self.weights, own, rest,
                self.totals.astype(np.float64), changed, slack, n_more,
            )  # fmt: skip
            if state >= 0:
                break
            n_more *= 4
        prices[:] = changed
        places = np.flatnonzero(weight_at > 0.0)
        rows = np.searchsorted(self.first, places, side="right") - 1
        return np.column_stack([rows, self.clusters[places]]), weight_at[places], state == 1

    def _part(self, chosen: np.ndarray) -> Self:
        """Some of the rows."""
        counts = np.diff(self.first)
        entries = _entries(self.first[:-1][chosen], counts[chosen])
        return replace(
            self, rows=self.rows[chosen], clusters=self.clusters[entries],
            first=np.concatenate([[0], np.cumsum(counts[chosen])]), costs=self.costs[entries],
            weights=self.weights[chosen],
        )  # fmt: skip

    def _round(self, labels: np.ndarray, split: dict) -> None:
        """Give every row with a weight that is split to one of its clusters."""
        rows = np.array(sorted(split, key=lambda row: (-self.weights[row], row)))
        scores = np.zeros((len(rows), len(self.totals)))
        for k, row in enumerate(rows):
            entries = slice(self.first[row], self.first[row + 1])
            scores[k, self.clusters[entries]] = -self.costs[entries]
        labels[rows] = round_by_slots([split[row] for row in rows.tolist()], scores,
                                      self.weights[rows])  # fmt: skip

    def at_central_prices(self) -> Self:
        """The same group with prices in the middle of those that explain the labels."""
        if not self.prices.any():
            return self  # the constraint does not bind
        change = self._to_the_middle()
        if self.width < np.inf:
            # Clear rows stay clear.
            moved = self.prices - self.reference
            room, wanted = self.width - np.ptp(moved), np.ptp(moved + change) - np.ptp(moved)
            if wanted > room:
                change *= max(room, 0.0) / wanted
        prices, labels = self.prices + change, self.labels.copy()
        # Rows without weight go where the prices of the others send them.
        cheapest = self.clusters[first_least(self.costs + prices[self.clusters], self.first)]
        is_free = self.weights == 0
        labels[is_free] = cheapest[is_free]
        return replace(self, prices=prices, labels=labels)

    def _to_the_middle(self) -> np.ndarray:
        """Change of the prices to the middle of those that keep every piece where it is.

        A row in cluster l that would lose least in m bounds the difference of their prices. As
        seen from one cluster, the price of another can fall by the distance from it and rise by
        the distance to it; the middle of both, averaged over some clusters, keeps all bounds.
        """
        n_clusters = len(self.prices)
        rows, own = self.pieces[:, 0], self.pieces[:, 1]
        counts = np.diff(self.first)[rows]
        entries = _entries(self.first[:-1][rows], counts)
        priced = self.costs[entries] + self.prices[self.clusters[entries]]
        least = np.minimum.reduceat(priced, np.cumsum(counts) - counts) if len(rows) else _nothing()
        regrets = np.maximum(priced - np.repeat(least, counts), 0.0)
        edges = np.repeat(own, counts) * n_clusters + self.clusters[entries]
        lengths = np.full(n_clusters * n_clusters, np.inf)
        np.minimum.at(lengths, edges, regrets)
        lengths[:: n_clusters + 1] = np.inf
        edges = np.flatnonzero(np.isfinite(lengths))
        # Older versions of SciPy want small indices.
        places = tuple(place.astype(np.int32) for place in np.divmod(edges, n_clusters))
        graph = csr_array((lengths[edges], places), shape=(n_clusters, n_clusters))
        roots = np.arange(min(n_clusters, MAX_ROOTS)) * n_clusters // min(n_clusters, MAX_ROOTS)
        farthest = self.width
        if farthest == np.inf:
            farthest = (2.0 * np.ptp(self.costs) if len(self.costs) else 0.0) or 1.0
        away = np.minimum(dijkstra(graph, indices=roots), farthest)
        back = np.minimum(dijkstra(graph.T.tocsr(), indices=roots), farthest)
        return (back - away).mean(axis=0) / 2.0


def _groups_of(
    swept: Swept, totals: np.ndarray, reference: np.ndarray, widths: np.ndarray, whole: bool
) -> Iterator[_Group]:
    """The problems of the groups."""
    band = swept.band
    counts = np.diff(band.first)
    for r, rows in enumerate(split_by_code(band.group_codes, totals.shape[1])):
        entries = _entries(band.first[rows], counts[rows])
        yield _Group(
            rows, np.concatenate([[0], np.cumsum(counts[rows])]), band.clusters[entries],
            band.costs[entries], band.weights[rows], swept.clear[:, r], totals[:, r],
            np.ascontiguousarray(reference[:, r]), widths[r], whole,
        )  # fmt: skip


def _entries(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Numbers ``starts[k], starts[k] + 1, ...``, so many of each, one after the other."""
    until = np.cumsum(counts)
    n_entries = int(until[-1]) if len(until) else 0
    return np.arange(n_entries) + np.repeat(starts - (until - counts), counts)


# Rows that an optimal assignment splits between clusters.


def place_pieces(
    labels: np.ndarray,
    band: np.ndarray,
    places: np.ndarray,
    piece_weights: np.ndarray,
    weights: np.ndarray,
    total: float,
) -> dict:
    """Write the labels of the band's rows; return the rows that are in several clusters.

    ``total`` is the weight of all rows of the group.
    """
    # A piece that is nothing but a rounding error is none. Of a light row it can be a large part.
    own = weights[places[:, 0]]
    alive = piece_weights > np.minimum(ROUNDING_ERROR * total, MOST_OF_A_ROW * own)
    rows, clusters, shares = band[places[alive, 0]], places[alive, 1], piece_weights[alive]
    labels[rows] = clusters
    n_pieces = np.bincount(places[alive, 0], minlength=len(band))
    several = n_pieces[places[alive, 0]] > 1
    edges: dict = {}
    for row, cluster, weight in zip(
        rows[several].tolist(), clusters[several].tolist(), shares[several].tolist(), strict=True
    ):
        edges[row, cluster] = edges.get((row, cluster), 0.0) + weight
    split: dict = {}
    for (row, cluster), weight in _without_cycles(edges).items():
        split.setdefault(row, []).append((cluster, weight))
    for row, parts in split.items():
        labels[row] = parts[0][0]
    return {row: parts for row, parts in split.items() if len(parts) > 1}


def _without_cycles(edges: dict) -> dict:
    """The same weights of rows and clusters on a forest of (row, cluster) pairs.

    All pieces are in clusters between which their rows are indifferent, so weight can be
    passed round a cycle for nothing until one of its pairs is empty. In a forest fewer
    rows are split than there are clusters.
    """
    forest: dict = {}
    neighbours: dict = {}
    for (row, cluster), weight in edges.items():
        a, b = ("row", row), ("cluster", cluster)
        path = _path(neighbours, a, b)
        forest[row, cluster] = weight
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
        if path is None:
            continue
        pairs = [_pair(*ends) for ends in zip([b, *path[:-1]], path, strict=True)]
        least = min(pairs[::2], key=forest.__getitem__)
        amount = forest[least]
        for k, pair in enumerate(pairs):
            forest[pair] += amount if k % 2 else -amount
        for pair in [pair for pair in pairs[::2] if forest[pair] <= 0.0]:
            del forest[pair]
            neighbours["row", pair[0]].discard(("cluster", pair[1]))
            neighbours["cluster", pair[1]].discard(("row", pair[0]))
    return forest


def _pair(a: Any, b: Any) -> tuple:
    return (a[1], b[1]) if a[0] == "row" else (b[1], a[1])


def _path(neighbours: dict, start: Any, goal: Any) -> list | None:
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


def round_by_slots(pieces: list, scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Labels of split rows by slot rounding (Shmoys and Tardos), heaviest row first.

    Within a cluster the pieces, heaviest row first, are laid end to end in units of
    rows and cut into slots of one row each. A matching of the rows to slots that touches
    every full slot changes a cluster's weight by less than the heaviest split row, and the
    cheapest one costs no more than the fractional assignment.

    Parameters
    ----------
    pieces : list of list of (cluster, weight)
    scores : ndarray of shape (n_rows, n_clusters)
    weights : ndarray of shape (n_rows,), not increasing
    """
    filled: dict = {}
    slots: dict = {}
    edges = []
    for k, parts in enumerate(pieces):
        for cluster, weight in parts:
            start = filled.get(cluster, 0.0)
            stop = start + weight / weights[k]
            filled[cluster] = stop
            last = int(np.ceil(stop - 1e-9)) - 1
            for number in range(int(start + 1e-9), max(int(start + 1e-9), last) + 1):
                slot = slots.setdefault((cluster, number), len(slots))
                edges.append((k, slot, cluster))
    forbidden = 4.0 * float(np.abs(scores).max() + 1) * len(pieces)
    cost = np.full((len(pieces), len(slots)), 4 * forbidden)
    cluster_of = np.empty(len(slots), dtype=np.int64)
    for k, slot, cluster in edges:
        cost[k, slot] = -float(scores[k, cluster]) * weights[k] / weights[0]
        cluster_of[slot] = cluster
    for (cluster, number), slot in slots.items():
        if number + 1 <= filled[cluster] + 1e-9:
            cost[:, slot] -= forbidden
    matched = linear_sum_assignment(cost)[1]
    return cluster_of[matched]
