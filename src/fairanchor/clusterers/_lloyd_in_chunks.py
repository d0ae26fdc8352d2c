"""Fair Lloyd steps for rows in chunks: labels are agreed on, sums come back."""

from dataclasses import dataclass

import numpy as np

from fairanchor.assignment import round_targets
from fairanchor.assignment._agreed import AgreedResult, agree
from fairanchor.assignment._free_sizes import free_sizes
from fairanchor.clusterers._fair_lloyd import (
    CenterScorer,
    LloydResult,
    cluster_sums,
    iterate_fairly,
)


@dataclass(frozen=True)
class AgreedStep(LloydResult):
    """A `LloydResult` whose labels are a function of the rows."""

    agreed: AgreedResult | None = None


def fair_lloyd_in_chunks(
    rows, sample, centers, *, max_iter, tol, min_size=0.0, targets=None, free=None
):
    """`fair_lloyd` for `ChunkedRows`, with a weighted sample of them for sizes and prices."""
    assigner = _AgreedAssigner(rows, sample)
    return iterate_fairly(assigner, centers, max_iter, tol, min_size, targets, free)


class _AgreedAssigner:
    """Rows in chunks; sizes come from the sample, labels and sums from all rows."""

    def __init__(self, rows, sample):
        self.rows = rows
        self.sample = sample

    def move_to(self, centers):
        self.scorer = CenterScorer(centers)

    def cost_of(self, step):
        """Cost of an earlier step's labels at these centres, by its sums alone.

        The squared distance of a cluster's rows to a centre is that to their mean, plus their
        number times the squared distance of the mean.
        """
        sizes = step.totals.sum(axis=1)
        means = self.means(step)
        before = sizes @ ((means - step.centers) ** 2).sum(axis=1)
        return float(step.cost - before + sizes @ ((means - self.scorer.centers) ** 2).sum(axis=1))

    def free_sizes(self, free):
        sample = self.sample
        scores = self.scorer.scores(sample)
        return free_sizes(scores, sample.group_codes, sample.weights, sample.n_groups, free)

    def assign(self, targets, totals=None, start=None):
        if totals is None:
            totals = round_targets(targets, self.rows.group_sizes, whole=True)
        agreed = agree(self.rows, self.scorer, totals, self.sample, start)
        return AgreedStep(
            labels=None, split={}, centers=self.scorer.centers, targets=targets, totals=totals,
            prices=agreed.prices, cost=-agreed.score, gap=agreed.gap, agreed=agreed,
        )  # fmt: skip

    def means(self, step):
        sizes = step.totals.sum(axis=1)
        means = step.centers.copy()
        used = sizes > 0
        means[used] = step.agreed.sums[used] / sizes[used, None]
        return means


def means_in_chunks(rows, labels, n_clusters):
    """Means of the clusters that labels of all rows make.

    Parameters
    ----------
    rows : ChunkedRows
    labels : ndarray of shape (n_rows,)
        Every one of ``0..n_clusters-1`` occurs.
    n_clusters : int

    Returns
    -------
    means : ndarray of shape (n_clusters, n_features)
    """
    starts = range(0, rows.n_rows, rows.chunk_rows)
    spans = [labels[start : start + rows.chunk_rows] for start in starts]
    tables = rows.each("means of labels", _SumsOfLabels(n_clusters), spans)
    sums, totals = (np.sum(table, axis=0) for table in zip(*tables, strict=True))
    return sums / totals[:, None]


@dataclass(frozen=True)
class _SumsOfLabels:
    """Sums of a chunk's rows by label, and their numbers."""

    n_clusters: int

    def __call__(self, chunk, labels):
        return cluster_sums(chunk.rows, labels, self.n_clusters)
