"""Module 1 of the paper: choose the anchors, and count the rows that each represents."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from fairanchor._kernels._nearest import nearest_of_part
from fairanchor._utils._sampling import split_by_code
from fairanchor._utils._sklearn_compat import StrOptions
from fairanchor.anchors._methods import (
    DECAYS,
    kmeans_anchors,
    select_das,
    select_fdas,
    select_random,
)
from fairanchor.assignment import largest_remainder
from fairanchor.groups._groups import Groups
from fairanchor.rows._nearest import NearestAnchors
from fairanchor.rows._sums import label_sums

# Shapes such as spirals need about 600 anchors (`benchmarks/shapes.py`); every row of a smaller
# table is an anchor.
N_ANCHORS = 600
SMALL_TABLE = 1000
ANCHORS_PER_GROUP = 50
LARGEST_AUTO = 1000
# A few rows place a mean well enough: a last step takes the means over all rows.
SAMPLE_ROWS, SAMPLE_ROWS_PER_ANCHOR = 2_500, 25
# DAS and FDAS score all rows of a table in memory, and this many of one in chunks.
SCORED_ROWS = 2**20
# Groups with fewer anchors are not worth a matrix product.
FEW_ANCHORS = 32
# Methods whose anchors are rows; those of "kmeans" are means.
SELECTIONS = {"fdas": select_fdas, "das": select_das, "random": select_random}
METHODS = ("kmeans", *SELECTIONS)


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


class FDAS(BaseEstimator):
    """The paper's anchor selection, with its variants.

    FDAS gives each group a quota of anchors and spreads them over the range of a
    one-dimensional score, the sum of a row's features. The anchors are rows.

    Parameters
    ----------
    quotas : {"balanced", "paper"}, default="balanced"
        ``"balanced"``: proportional to the groups' sizes, at least
        ``min(n_clusters, group size)`` each. ``"paper"``: the paper's rule, which is not
        proportional and can leave a group without an anchor.
    weights : {"mass", "uniform"}, default="mass"
        Whether the clusterer sees each anchor with the number of rows that it represents, or
        all anchors alike as in the paper.
    decay : {"renormalised", "printed"}, default="renormalised"
        How scores decay after a selection. The paper prints ``s (1 - s) / max(s)`` with the maximum
        before the decay, and does not exclude selected rows: it selects rows repeatedly, and fewer
        anchors than ``n_anchors`` are left. ``"renormalised"`` divides by the largest score that is
        left, so that all anchors are distinct.
    origin : {"features", "table"}, default="features"
        What ``min(X)`` of the paper means: the smallest value of each feature, or of the table.
    selection : {"fdas", "das", "random"}, default="fdas"
        The paper's ablation: DAS is the same without quotas, and random rows have no score.

    Examples
    --------
    >>> import numpy as np
    >>> from fairanchor import FDAS, AnchorFairClustering
    >>> X, group = np.random.default_rng(0).normal(size=(300, 2)), np.arange(300) % 2
    >>> model = AnchorFairClustering(2, anchors=FDAS(quotas="paper"), n_anchors=40, random_state=0)
    >>> len(model.fit(X, sensitive_features=group).anchor_indices_)
    40
    """

    _parameter_constraints: dict = {
        "quotas": [StrOptions(set(QUOTAS))],
        "weights": [StrOptions({"mass", "uniform"})],
        "decay": [StrOptions(set(DECAYS))],
        "origin": [StrOptions({"features", "table"})],
        "selection": [StrOptions(set(SELECTIONS))],
    }

    def __init__(
        self,
        quotas: str = "balanced",
        weights: str = "mass",
        decay: str = "renormalised",
        origin: str = "features",
        selection: str = "fdas",
    ) -> None:
        self.quotas = quotas
        self.weights = weights
        self.decay = decay
        self.origin = origin
        self.selection = selection


class AnchorPlan(NamedTuple):
    """Which anchors to choose.

    ``method`` is a name in `METHODS`, or an array of row indices, for which there are no quotas.
    ``rows_to_draw`` are the rows of each group that it needs of rows that are in chunks.
    """

    method: Any
    quotas: Any
    rows_to_draw: np.ndarray
    options: FDAS = FDAS()


@dataclass(frozen=True)
class Anchors:
    """Points that represent all rows.

    The mass of an anchor is the weight of the rows of its group that are nearest to it: a group's
    masses sum to its weight. ``indices`` are the rows of the anchors, None where anchors are means;
    ``weighted`` states whether clusterers get the masses.
    """

    points: np.ndarray
    group_codes: np.ndarray
    masses: np.ndarray
    indices: np.ndarray | None = None
    weighted: bool = True


def plan_anchors(
    anchors: Any, n_anchors: int | str, groups: Groups, n_clusters: int, *, few: bool = False
) -> AnchorPlan:
    """Check the parameters, and give each group its quota.

    ``anchors`` is a name in `METHODS`, `FDAS` or an array of row indices; ``n_anchors`` may be
    ``"auto"``, which with ``few`` is the paper's number.
    """
    n_rows, none = int(groups.sizes.sum()), np.zeros(groups.n_groups, dtype=np.int64)
    if not isinstance(anchors, (str, FDAS)):
        return AnchorPlan(_check_indices(anchors, n_rows, n_clusters), None, none)
    method, options = anchors, FDAS()
    if isinstance(anchors, FDAS):
        anchors._validate_params()
        method, options = anchors.selection, anchors
    if isinstance(n_anchors, str):
        n_anchors = auto_n_anchors(groups.sizes, n_clusters, few=few)
    if n_anchors < n_clusters:
        raise ValueError(
            f"n_anchors={n_anchors} should be >= n_clusters={n_clusters}: "
            "a cluster without an anchor cannot receive any row."
        )
    if n_anchors > n_rows:
        raise ValueError(
            f"n_anchors={n_anchors} should be <= n_samples={n_rows}: an anchor represents at "
            "least one row."
        )
    needs_all = method in ("kmeans", "fdas") and options.quotas == "balanced"
    if n_anchors < groups.n_groups and needs_all:
        raise ValueError(
            f"n_anchors={n_anchors} should be >= the number of groups in sensitive_features, "
            f"got {groups.n_groups}: {groups.public_names.tolist()[:20]}. A group without an "
            "anchor is not represented when the anchors are clustered."
        )
    quotas = QUOTAS[options.quotas](groups.sizes, n_anchors, n_clusters)
    rows_to_draw = none
    if method == "kmeans":
        rows_to_draw = np.maximum(SAMPLE_ROWS, SAMPLE_ROWS_PER_ANCHOR * quotas)
    elif method != "random":
        rows_to_draw = np.ceil(SCORED_ROWS * groups.sizes / n_rows).astype(np.int64)
    return AnchorPlan(method, quotas, rows_to_draw, options)


def select_anchors(plan: AnchorPlan, rows: Any, distinct: Any, drawn: Any, seed: int) -> Anchors:
    """Anchors of the rows, with their masses.

    ``distinct`` are the same rows with equal ones merged; ``drawn``, for rows in chunks, those
    among which anchors are chosen.
    """
    indices, method, options = None, plan.method, plan.options
    candidates = rows if drawn is None else drawn.rows
    if isinstance(method, str) and method == "kmeans":
        points, codes = kmeans_anchors(candidates, plan.quotas, plan.rows_to_draw, seed)
    else:
        indices = method
        if isinstance(method, str):
            of_drawn = drawn is not None and method != "random"
            indices = SELECTIONS[method](
                candidates if of_drawn else rows, plan.quotas, seed, decay=options.decay,
                origin=options.origin,
            )  # fmt: skip
            indices = drawn.numbers[indices] if of_drawn else indices
        chosen = rows.take(indices, "anchors")
        points, codes = chosen.X, chosen.group_codes
    cells = _SumsOfCells(NearestAnchors.of(points, codes, rows.n_groups))
    masses, sums = distinct.sum(cells, "masses of anchors")
    if indices is None:  # a last step of k-means, on all rows
        used = masses > 0
        points = np.where(used[:, None], sums / np.where(used, masses, 1.0)[:, None], points)
    return Anchors(points, codes, masses, indices, options.weights == "mass")


@dataclass(frozen=True)
class _SumsOfCells:
    """Weight of a block's rows by the nearest anchor of their own group, and their weighted sum.

    It can be sent to where the rows are.
    """

    by_group: NearestAnchors

    def __call__(self, block: Any) -> tuple[np.ndarray, np.ndarray]:
        index, nearest = self.by_group, np.empty(len(block.X), dtype=np.int64)
        counts = np.diff(index.first)
        if counts.min() > 0 and counts.max() <= FEW_ANCHORS:
            nearest_of_part(block.X, block.group_codes, index.points, index.first, nearest)
            nearest = index.order[nearest]
        else:
            for r, rows in enumerate(split_by_code(block.group_codes, len(counts))):
                nearest[rows] = index.nearest(block.X[rows], r)[0]
        sums, masses = label_sums(block.X, block.weights, nearest, len(index.points))
        return masses, sums


def _check_indices(anchors: Any, n_rows: int, n_clusters: int) -> np.ndarray:
    indices = np.asarray(anchors)
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or len(indices) == 0:
        raise ValueError(
            f"anchors is an array of shape {indices.shape} and type {indices.dtype}, expected a "
            f"one-dimensional array of row indices, FDAS(...), or one of {sorted(METHODS)}."
        )
    indices = indices.astype(np.int64)
    if indices.min() < 0 or indices.max() >= n_rows:
        raise ValueError(
            f"anchors holds row indices from {indices.min()} to {indices.max()}, expected "
            f"0..{n_rows - 1}: there are {n_rows} rows."
        )
    if len(np.unique(indices)) < len(indices):
        raise ValueError("anchors holds a row index more than once: anchors are distinct rows.")
    if len(indices) < n_clusters:
        raise ValueError(
            f"anchors holds {len(indices)} row indices, expected at least n_clusters={n_clusters}: "
            "a cluster without an anchor cannot receive any row."
        )
    return indices
