"""Fairness targets: how much of each group goes to each cluster."""

from dataclasses import dataclass

import numpy as np

from fairanchor.assignment import largest_remainder, raise_small_sizes

# Of iterative proportional fitting, which converges linearly for positive tables.
FITTING_STEPS = 10_000
FITTING_TOLERANCE = 1e-12


@dataclass(frozen=True)
class AnchorSummary:
    """What targets may depend on: where the anchors are, not what they look like.

    Attributes
    ----------
    counts : ndarray of shape (n_clusters, n_groups)
        Anchors in each cell.
    cluster_masses : ndarray of shape (n_clusters,)
        Weight of the rows that each cluster's anchors stand for.
    group_sizes : ndarray of shape (n_groups,)
        Weight of each group's rows.
    min_size : float
        Least size of a cluster.
    whole : bool
        Whether rows count one each, so that sizes are whole numbers.
    """

    counts: np.ndarray
    cluster_masses: np.ndarray
    group_sizes: np.ndarray
    min_size: float
    whole: bool

    @classmethod
    def of(cls, anchors, anchor_labels, n_clusters, rows, min_size):
        """Summary of labelled anchors of these rows."""
        shape = (n_clusters, rows.n_groups)
        counts = np.zeros(shape, dtype=np.int64)
        np.add.at(counts, (anchor_labels, anchors.group_codes), 1)
        masses = np.bincount(anchor_labels, weights=anchors.masses, minlength=n_clusters)
        return cls(counts, masses, rows.group_sizes, min_size, whole=not rows.is_weighted)


def population_targets(summary):
    """``s_l n_r / n``: every cluster mirrors the population."""
    return np.outer(_sizes_of_masses(summary), summary.group_sizes) / summary.group_sizes.sum()


def _sizes_of_masses(summary):
    """Sizes of the clusters by what their anchors stand for."""
    # Where rows are whole, a cluster has at least one.
    min_size = max(summary.min_size, 1.0) if summary.whole else summary.min_size
    sizes = raise_small_sizes(summary.cluster_masses, min_size)
    if summary.whole:
        sizes = largest_remainder(sizes, int(summary.group_sizes.sum())).astype(np.float64)
    return sizes


def anchors_targets(summary):
    """``n_r |A_lr| / m_r``: each group is spread over the clusters as its anchors are.

    A group without anchors is spread as all anchors are.
    """
    counts = summary.counts.astype(np.float64)
    per_group = counts.sum(axis=0)
    spread = np.where(per_group > 0, counts, counts.sum(axis=1, keepdims=True))
    return summary.group_sizes * spread / spread.sum(axis=0)


def anchors_sized_targets(summary):
    """Composition of the anchors, sizes of the clusters and groups from the data.

    Iterative proportional fitting of the anchors' counts to both margins: it keeps their odds
    ratios, not their shares. Half an anchor is added to every cell first, because with zeros
    a table with these margins may not exist.
    """
    sizes = _sizes_of_masses(summary)
    table = summary.counts + 0.5
    for _ in range(FITTING_STEPS):
        table = table * (sizes / table.sum(axis=1))[:, None]
        columns = table.sum(axis=0)
        table = table * np.divide(summary.group_sizes, columns)
        if np.abs(table.sum(axis=1) - sizes).max() <= FITTING_TOLERANCE * sizes.max():
            break
    return table


def paper_targets(summary):
    """``n |A_lr| / m``, the paper's literal form: infeasible unless quotas are proportional."""
    return summary.group_sizes.sum() * summary.counts / summary.counts.sum()


TARGETS = {
    "population": population_targets,
    "anchors": anchors_targets,
    "anchors_sized": anchors_sized_targets,
    "paper": paper_targets,
}


def fairness_targets(fairness, summary, groups, *, unit=1.0):
    """The table of targets for a name or a table of weights (columns as in ``groups_``).

    Parameters
    ----------
    fairness : str or array-like of shape (n_clusters, n_groups)
    summary : AnchorSummary
    groups : Groups
        For the order of a table's columns, and for the names in messages.
    unit : float
        What one row weighs in the units of a table.

    Returns
    -------
    targets : ndarray of shape (n_clusters, n_groups)
        In the canonical order of the groups.
    """
    if isinstance(fairness, str):
        return TARGETS[fairness](summary)
    table = np.asarray(fairness, dtype=np.float64)
    expected = summary.counts.shape
    if table.shape != expected:
        raise ValueError(
            f"fairness is a table of shape {table.shape}, expected (n_clusters, n_groups)="
            f"{expected} with the groups in the order {groups.public_names.tolist()}."
        )
    return groups.from_public(table) / unit


def check_targets(targets, summary, groups, *, feasible=True):
    """Refuse a target that no assignment can meet, and say which and why.

    With ``feasible=False`` the columns need not sum to the groups' sizes.
    """
    names = groups.names
    if not np.isfinite(targets).all() or (targets < 0).any():
        l, r = np.argwhere(~(targets >= 0) | ~np.isfinite(targets))[0]
        raise ValueError(
            f"The target of cluster {l} and group {names[r]!r} is {targets[l, r]}: "
            "expected a finite weight of at least 0."
        )
    without_anchor = (summary.counts.sum(axis=1) == 0) & (targets.sum(axis=1) > 0)
    if without_anchor.any():
        l = int(np.argmax(without_anchor))
        r = int(np.argmax(targets[l]))
        raise ValueError(
            f"Cluster {l} has no anchor but a target of {targets[l, r]:.6g} for group "
            f"{names[r]!r}: no row can be expressed by its anchors. Use more anchors."
        )
    if not feasible:
        return
    columns = targets.sum(axis=0)
    tolerance = np.minimum(1e-6 * np.maximum(summary.group_sizes, 1.0), 0.5)
    wrong = np.abs(columns - summary.group_sizes) > tolerance
    if wrong.any():
        r = int(np.argmax(wrong))
        l = int(np.argmax(targets[:, r]))
        raise ValueError(
            f"The targets of group {names[r]!r} sum to {columns[r]:.6g} over the clusters "
            f"(largest: {targets[l, r]:.6g} in cluster {l}), but the group has "
            f"{summary.group_sizes[r]:.6g} rows: every row has exactly one unit to give. "
            "solver='admm' accepts such targets and ends near them."
        )
