"""Fairness targets: how much of each group goes to each cluster."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairanchor.assignment import largest_remainder, raise_small_sizes
from fairanchor.groups._groups import count_cells

# Of iterative proportional fitting, which converges linearly for positive tables.
FITTING_STEPS = 10_000
FITTING_TOLERANCE = 1e-12


@dataclass(frozen=True)
class AnchorSummary:
    """What targets may depend on.

    Anchors in each cell (clusters × groups), weight of the rows that each cluster's anchors
    represent, weight of each group's rows, and whether rows count one each, so that sizes are
    whole numbers.
    """

    counts: np.ndarray
    cluster_masses: np.ndarray
    group_sizes: np.ndarray
    whole: bool

    @classmethod
    def of(
        cls, anchors: Any, anchor_labels: np.ndarray, n_clusters: int, rows: Any
    ) -> "AnchorSummary":
        """Summary of labelled anchors of these rows."""
        counts = count_cells(anchor_labels, anchors.group_codes, n_clusters, rows.n_groups)
        masses = np.bincount(anchor_labels, weights=anchors.masses, minlength=n_clusters)
        return cls(counts, masses, rows.group_sizes, whole=not rows.is_weighted)


def population_targets(summary: AnchorSummary) -> np.ndarray:
    """``s_l n_r / n``: every cluster mirrors the population."""
    sizes = whole_sizes(summary.cluster_masses, whole=summary.whole)
    return np.outer(sizes, summary.group_sizes) / summary.group_sizes.sum()


def whole_sizes(masses: np.ndarray, *, whole: bool = True) -> np.ndarray:
    """Sizes as whole numbers with the same sum, none of them zero; weights stay as they are."""
    if not whole:
        return masses
    return largest_remainder(raise_small_sizes(masses, 1.0), round(masses.sum())).astype(np.float64)


def anchors_targets(summary: AnchorSummary) -> np.ndarray:
    """``n_r |A_lr| / m_r``: each group is spread over the clusters as its anchors are.

    A group without anchors is spread as all anchors are.
    """
    counts = summary.counts.astype(np.float64)
    per_group = counts.sum(axis=0)
    spread = np.where(per_group > 0, counts, counts.sum(axis=1, keepdims=True))
    return summary.group_sizes * spread / spread.sum(axis=0)


def anchors_sized_targets(summary: AnchorSummary) -> np.ndarray:
    """Composition of the anchors, sizes of the clusters and groups from the data.

    Iterative proportional fitting of the anchors' counts to both margins: it keeps their odds
    ratios, not their shares. Half an anchor is added to every cell first, because with zeros
    a table with these margins may not exist.
    """
    sizes = whole_sizes(summary.cluster_masses, whole=summary.whole)
    table = summary.counts + 0.5
    for _ in range(FITTING_STEPS):
        row_sums = table.sum(axis=1)  # zero for a cluster whose anchors represent no row
        table = (
            table
            * np.divide(sizes, row_sums, out=np.zeros(len(sizes)), where=row_sums > 0)[:, None]
        )
        columns = table.sum(axis=0)
        table = table * np.divide(summary.group_sizes, columns)
        if np.abs(table.sum(axis=1) - sizes).max() <= FITTING_TOLERANCE * sizes.max():
            break
    return table


def paper_targets(summary: AnchorSummary) -> np.ndarray:
    """``n |A_lr| / m``, the paper's literal form: infeasible unless quotas are proportional."""
    return summary.group_sizes.sum() * summary.counts / summary.counts.sum()


TARGETS = {
    "population": population_targets,
    "anchors": anchors_targets,
    "anchors_sized": anchors_sized_targets,
    "paper": paper_targets,
}


def fairness_targets(name: str, summary: AnchorSummary) -> np.ndarray:
    """The table of targets by its name, groups in canonical order."""
    return TARGETS[name](summary)
