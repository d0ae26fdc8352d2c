"""Quotas: how many of the anchors each group gets."""

import numpy as np

from fairanchor.assignment import largest_remainder

# Shapes such as spirals need about 600 anchors (`benchmarks/shapes.py`); every row of a smaller
# table is an anchor.
N_ANCHORS = 600
SMALL_TABLE = 1000
ANCHORS_PER_GROUP = 50
LARGEST_AUTO = 1000


def auto_n_anchors(group_sizes: np.ndarray, n_clusters: int, *, few: bool = False) -> int:
    """600 anchors, more for many groups or clusters; all rows of a small table.

    Few are 20 for each group, as in the paper, and 4 for each cluster.
    """
    n_rows = int(group_sizes.sum())
    if few:
        return min(max(20 * len(group_sizes), 4 * n_clusters), n_rows)
    if n_rows <= SMALL_TABLE:
        return n_rows
    wanted = max(N_ANCHORS, min(ANCHORS_PER_GROUP * len(group_sizes), LARGEST_AUTO))
    return min(max(wanted, 4 * n_clusters, len(group_sizes)), n_rows)


def balanced_quotas(group_sizes: np.ndarray, n_anchors: int, n_clusters: int) -> np.ndarray:
    """Anchors in proportion to the groups, with at least min(n_clusters, size) for each.

    If there are too few anchors for that, the minimum is lowered evenly; every group has
    at least one. No group gets more anchors than it has rows.
    """
    minimum = n_clusters
    while np.minimum(minimum, group_sizes).sum() > n_anchors:
        minimum -= 1
    quotas = np.minimum(minimum, group_sizes)
    proportional = largest_remainder(group_sizes, n_anchors)
    while quotas.sum() < n_anchors:
        # Seats go where most are missing; a full group passes its share on.
        room = quotas < group_sizes
        missing = np.where(room, np.maximum(proportional - quotas, 0), 0)
        if missing.sum() == 0:
            missing = np.where(room, group_sizes, 0)
        extra = largest_remainder(missing, n_anchors - int(quotas.sum()))
        quotas = np.minimum(quotas + extra, group_sizes)
    return quotas


def paper_quotas(group_sizes: np.ndarray, n_anchors: int, n_clusters: int = 0) -> np.ndarray:
    """The paper's rule: ``floor(m n_r / n)`` seats, the rest one by one to the smallest count.

    Not proportional, and a group may be left without a seat; see the user guide. Seats
    beyond a group's rows go to the group that lacks most.
    """
    n_rows = int(group_sizes.sum())
    quotas = n_anchors * group_sizes // n_rows
    while quotas.sum() < n_anchors:
        open_groups = quotas < group_sizes
        quotas[np.argmin(np.where(open_groups, quotas, n_rows + 1))] += 1
    return quotas


QUOTAS = {"balanced": balanced_quotas, "paper": paper_quotas}
