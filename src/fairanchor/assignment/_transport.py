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

from dataclasses import dataclass, field, replace

import numpy as np

from fairanchor._kernels import _transport as kernels
from fairanchor._kernels._sorting import split_by_code
from fairanchor._sampling import spread_sample, spread_sample_by_weight
from fairanchor.assignment._rounding import largest_remainder
from fairanchor.assignment._single_rows import transport_single_rows
from fairanchor.assignment._split_rows import place_pieces, round_by_slots
from fairanchor.assignment._transport_checks import check_rows_of_transport, check_totals
from fairanchor.rows._memory import map_in_threads

# Bits of the fixed-point scores: exact comparisons, and room for sums of many regrets.
SCORE_BITS = 40
LOWEST = -(2.0**SCORE_BITS)
# No score is below `LOWEST`, so this far below the other prices a cluster attracts no row.
OUT_OF_REACH = 4 * LOWEST
# A difference of scores above this times the median row's between its two best clusters is
# an outlier's: it must not cost all others their digits.
OUTLIER_FACTOR = 2.0**20
MEDIAN_ROWS = 2_000
# Groups up to twice this size are solved at once, larger ones start from a sample.
SAMPLE_ROWS = 20_000
# Rows with a small margin that are looked at: at least so many, and so many for each row that
# has to move.
LEAST_BAND = 5_000
# The same where prices of a similar problem leave little to move.
LEAST_BAND_AFTER_START = 500
BAND_FACTOR = 8


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
    split : dict
        With copies: the rows whose copies have different labels, with a list of (cluster,
        number of copies) each.
    """

    labels: np.ndarray
    prices: np.ndarray
    gap: float
    n_fractional: int = 0
    split: dict = field(default_factory=dict)


def transport(scores, group_codes, totals, *, weights=None, copies=False, start=None, n_jobs=None):
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
    copies : bool, default=False
        Whether the weights are numbers of equal rows: then totals are counts, and are met
        exactly by giving the copies of a few rows different labels.
    start : ndarray of shape (n_clusters, n_groups), default=None
        Prices of a similar problem. By default they come from a sample.
    n_jobs : int, default=None
        Threads; each works on one group at a time.

    Returns
    -------
    result : TransportResult
    """
    n_clusters, n_groups = totals.shape
    check_rows_of_transport(scores, group_codes, totals, weights)
    check_totals(totals, np.bincount(group_codes, weights=weights, minlength=n_groups))
    resolutions = _resolutions(scores)
    rows_of = split_by_code(group_codes, n_groups)
    labels = np.empty(len(scores), dtype=np.int32)
    prices = np.zeros((n_clusters, n_groups))
    single = np.array([_is_single(rows, weights, copies) for rows in rows_of], dtype=bool)
    gap, n_fractional = _write_single(
        scores, rows_of, np.flatnonzero(single), totals, weights, resolutions, labels, prices
    )
    others = np.flatnonzero(~single)
    groups = [
        _Group(
            scores,
            rows_of[r],
            None if weights is None else weights[rows_of[r]],
            totals[:, r].astype(np.float64),
            whole=weights is None or copies,
            start=None if start is None else start[:, r],
        )
        for r in others
    ]
    splits = {}
    solutions = map_in_threads(lambda group: group.solve(resolutions), groups, n_jobs)
    for r, group, solution in zip(others, groups, solutions, strict=True):
        labels[group.rows] = solution.labels
        prices[:, r] = solution.prices
        gap += solution.gap
        n_fractional += len(solution.split)
        splits |= {int(group.rows[row]): parts for row, parts in solution.split.items()}
    return TransportResult(labels, prices, gap, n_fractional, splits if copies else {})


def _is_single(rows, weights, copies):
    return len(rows) == 1 and not copies and (weights is None or weights[rows[0]] > 0)


def _write_single(scores, rows_of, groups, totals, weights, resolutions, labels, prices):
    """Write labels and prices of groups of one row; returns their gap and number of splits."""
    if len(groups) == 0:
        return 0.0, 0
    rows = np.concatenate([rows_of[r] for r in groups])
    own = np.ones(len(rows)) if weights is None else weights[rows]
    labels[rows], found, gaps, is_split = transport_single_rows(
        scores[rows], totals[:, groups].T.astype(np.float64), own, resolutions, SCORE_BITS
    )
    prices[:, groups] = found.T
    return float(gaps.sum()), int(is_split.sum())


def transport_rows(rows, scores, totals, start=None):
    """`transport` of rows with their own weights, copies and threads."""
    return transport(
        scores,
        rows.group_codes,
        totals,
        weights=rows.weights if rows.is_weighted or rows.has_copies else None,
        copies=rows.has_copies,
        start=start,
        n_jobs=rows.n_jobs,
    )


def score_range(scores):
    """Largest difference of scores that is no outlier's, by the median row, and the largest."""
    nearest, farthest = np.empty(len(scores)), np.empty(len(scores))
    kernels.score_differences(scores, nearest, farthest)
    sampled = nearest[spread_sample(len(nearest), MEDIAN_ROWS)]
    typical = OUTLIER_FACTOR * float(np.median(sampled)) if len(sampled) else 0.0
    return typical, float(farthest.max(initial=0.0))


def _resolutions(scores):
    """Largest differences of scores to be told apart: without those of outliers, then all."""
    typical, largest = score_range(scores)
    if largest == 0.0:
        return [1.0]
    return [typical, largest] if 0.0 < typical < largest else [largest]


@dataclass(frozen=True)
class _GroupSolution:
    labels: np.ndarray
    prices: np.ndarray
    gap: float
    split: dict


@dataclass(frozen=True)
class _Group:
    """The problem of one group.

    Attributes
    ----------
    scores : ndarray of shape (n_all_rows, n_clusters)
    rows : ndarray of shape (n_rows,)
        The rows of this group.
    weights : ndarray of shape (n_rows,), or None
    totals : ndarray of shape (n_clusters,)
    whole : bool
        Whether rows count one each, or weights are numbers of copies.
    start : ndarray of shape (n_clusters,), or None
    """

    scores: np.ndarray
    rows: np.ndarray
    weights: np.ndarray | None
    totals: np.ndarray
    whole: bool
    start: np.ndarray | None

    def solve(self, resolutions):
        """Labels and prices; ``split`` has the rows that the linear program splits."""
        if self.weights is None or (self.weights > 0).all():
            return self._solve_counted(resolutions)
        counted = self.weights > 0
        if not counted.any():
            labels = self.scores[self.rows].argmax(axis=1)  # all totals are zero
            return _GroupSolution(labels, np.zeros(len(self.totals)), 0.0, {})
        part = replace(self, rows=self.rows[counted], weights=self.weights[counted])
        solution = part._solve_counted(resolutions)
        # Rows without weight go where the prices of the others send them.
        priced = np.where(self.totals > 0, self.scores[self.rows] + solution.prices, -np.inf)
        labels = priced.argmax(axis=1)
        labels[counted] = solution.labels
        numbers = np.flatnonzero(counted)
        split = {int(numbers[row]): parts for row, parts in solution.split.items()}
        return replace(solution, labels=labels, split=split)

    def _solve_counted(self, resolutions):
        if len(self.rows) == 0:
            return _GroupSolution(np.empty(0, np.int64), np.zeros(len(self.totals)), 0.0, {})
        for resolution in resolutions:
            scale = 2.0 ** min(SCORE_BITS - np.ceil(np.log2(resolution)), 1023)
            labels, split = self._labels(scale)
            pieces = {}
            if self.whole:
                pieces = split
            elif split:
                self._round_split_rows(labels, split, scale)
            prices, lowest_used = self._central_prices(labels, pieces, scale)
            # Raising scores to `LOWEST` can only help; if no row makes use of it, the labels
            # are optimal for the scores as they were.
            if lowest_used > LOWEST:
                break
        return _GroupSolution(
            labels, prices / scale, self._gap(labels, pieces, prices / scale), split
        )

    def _labels(self, scale):
        """Optimal labels, and the pieces of rows that are split.

        Returns
        -------
        labels : ndarray of shape (n_rows,)
            A split row has the label of one of its pieces.
        split : dict
            Row to list of (cluster, weight).
        """
        n_rows = len(self.rows)
        prices = self._starting_prices(scale)
        labels = np.empty(n_rows, dtype=np.int64)
        margins = np.empty(n_rows, dtype=np.int64)
        # Below the lightest row: a cluster without a total must not be left with one.
        slack = 0.5 if self.whole else min(1e-9 * self.weights.sum(), 0.5 * self.weights.min())
        least_band = LEAST_BAND if self.start is None else LEAST_BAND_AFTER_START
        while True:
            kernels.prefer(self.scores, self.rows, scale, LOWEST, prices, labels, margins)
            load = self._load(labels)
            excess = np.abs(load - self.totals).sum() / 2
            if excess <= slack:
                return labels, {}
            n_band = max(least_band, int(BAND_FACTOR * excess * n_rows / load.sum()))
            least_band *= 4  # in the end all rows, which needs no proof
            if n_band >= n_rows:
                band, width = np.arange(n_rows), kernels.UNREACHED
            else:
                width = np.partition(margins, n_band)[n_band]
                band = np.flatnonzero(margins <= width)
            load_outside = load - self._load(labels[band], band)
            new_prices = prices.copy()
            places, piece_weights, complete = kernels.send_excess(
                self._fixed_point(band, scale), self._weight_of(band), labels[band],
                self.totals - load_outside, new_prices, slack,
            )  # fmt: skip
            change = new_prices - prices
            # A row outside the band would lose more than `width` anywhere else; no difference
            # of price changes makes up for that.
            if len(band) == n_rows or (complete and change.max() - change.min() <= width):
                weights, total = self._weight_of(band), self.totals.sum()
                return labels, place_pieces(labels, band, places, piece_weights, weights, total)
            prices = new_prices

    def _starting_prices(self, scale):
        if self.start is not None:
            return np.rint(np.clip(self.start * scale, OUT_OF_REACH, -OUT_OF_REACH)).astype(
                np.int64
            )
        n_clusters = len(self.totals)
        prices = np.zeros(n_clusters, dtype=np.int64)
        if len(self.rows) <= 2 * SAMPLE_ROWS:
            return prices
        if self.weights is None:
            sample = spread_sample(len(self.rows), SAMPLE_ROWS)
            weights = np.ones(len(sample))
        else:
            # Whole numbers leave no crumbs, which would be moved about for ever.
            sample, weights = spread_sample_by_weight(self.weights, SAMPLE_ROWS)
            weights = np.rint(weights / weights.min())
        sample_totals = self.totals * (weights.sum() / self.totals.sum())
        sample_totals = largest_remainder(sample_totals, int(weights.sum())).astype(np.float64)
        labels = np.empty(len(sample), dtype=np.int64)
        margins = np.empty(len(sample), dtype=np.int64)
        chosen = self.rows[sample]
        kernels.prefer(self.scores, chosen, scale, LOWEST, prices, labels, margins)
        fixed = self._fixed_point(sample, scale)
        kernels.send_excess(fixed, weights, labels, sample_totals, prices, 0.5)
        return prices

    def _weight_of(self, rows):
        if self.weights is None:
            return np.ones(len(self.rows[rows]))
        return self.weights[rows]

    def _load(self, labels, rows=slice(None)):
        weights = None if self.weights is None else self.weights[rows]
        return np.bincount(labels, weights=weights, minlength=len(self.totals))

    def _fixed_point(self, rows, scale):
        fixed = np.empty((len(rows), len(self.totals)), dtype=np.int64)
        kernels.to_fixed_point(self.scores, self.rows[rows], scale, LOWEST, fixed)
        return fixed

    def _round_split_rows(self, labels, split, scale):
        """Give every row of a weighted group that is split to one of its clusters."""
        rows = np.array(sorted(split, key=lambda row: (-self.weights[row], row)))
        pieces = [split[row] for row in rows.tolist()]
        labels[rows] = round_by_slots(pieces, self._fixed_point(rows, scale), self.weights[rows])

    def _central_prices(self, labels, split, scale):
        """`central_prices` of the labels, and the smallest score of a row for its own cluster."""
        n_clusters = len(self.totals)
        regrets = np.full((n_clusters, n_clusters), kernels.UNREACHED, dtype=np.int64)
        given = (self.scores, self.rows, scale, LOWEST)
        lowest_used = kernels.smallest_regrets(*given, labels, regrets)
        is_used = np.bincount(labels, minlength=n_clusters) > 0
        for row, parts in split.items():
            for cluster, _ in parts:
                own = (self.scores, self.rows[row : row + 1], scale, LOWEST)
                used = kernels.smallest_regrets(*own, np.array([cluster]), regrets)
                lowest_used = min(lowest_used, used)
                is_used[cluster] = True
        return kernels.central_prices(regrets, is_used, self.totals, OUT_OF_REACH), lowest_used

    def _gap(self, labels, split, prices):
        weights = np.empty(0) if self.weights is None else self.weights
        best, own = kernels.best_and_own_value(self.scores, self.rows, weights, prices, labels)
        for row, parts in split.items():
            scores = self.scores[self.rows[row]]
            own += sum(
                number * (scores[cluster] - scores[labels[row]]) for cluster, number in parts
            )
        return max(0.0, float(best - self.totals @ prices - own))
