"""Module 1 of the paper: choose the anchors, and count the rows that each represents."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from fairanchor._kernels._nearest import nearest_of_part
from fairanchor._utils._sampling import split_by_code
from fairanchor.anchors._das import DECAYS, select_das, select_fdas, select_random
from fairanchor.anchors._kmeans import kmeans_anchors, kmeans_sample_rows
from fairanchor.anchors._quotas import QUOTAS, auto_n_anchors
from fairanchor.groups._groups import Groups
from fairanchor.rows._nearest import NearestAnchors
from fairanchor.rows._sums import label_sums

# DAS and FDAS score all rows of a table in memory, and this many of one in chunks.
SCORED_ROWS = 2**20
# Groups with fewer anchors are not worth a matrix product.
FEW_ANCHORS = 32
# Methods whose anchors are rows; those of "kmeans" are means.
SELECTIONS = {"fdas": select_fdas, "das": select_das, "random": select_random}
METHODS = ("kmeans", *SELECTIONS)


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

    def _check(self) -> None:
        allowed = {
            "quotas": tuple(QUOTAS),
            "weights": ("mass", "uniform"),
            "decay": tuple(DECAYS),
            "origin": ("features", "table"),
            "selection": tuple(SELECTIONS),
        }
        for name, options in allowed.items():
            if getattr(self, name) not in options:
                raise ValueError(
                    f"FDAS({name}={getattr(self, name)!r}) should be one of {list(options)}."
                )


class AnchorPlan(NamedTuple):
    """Which anchors to choose: method, quota of each group, and the options of `FDAS`.

    ``method`` is a name in `METHODS`, or an array of row indices, for which quotas are None.
    """

    method: str | np.ndarray
    quotas: Any
    options: FDAS

    def select_rows(self, rows: Any, seed: int) -> np.ndarray:
        """Indices of rows by the method, which is a name in `SELECTIONS`."""
        options = {"decay": self.options.decay, "origin": self.options.origin}
        return SELECTIONS[str(self.method)](rows, self.quotas, seed, **options)

    def rows_to_draw(self, group_sizes: np.ndarray) -> np.ndarray:
        """Rows of each group that the method needs, of rows that are in chunks."""
        if self.quotas is None or self.method == "random":
            return np.zeros(len(group_sizes), dtype=np.int64)
        if self.method == "kmeans":
            return kmeans_sample_rows(self.quotas)
        return np.ceil(SCORED_ROWS * group_sizes / group_sizes.sum()).astype(np.int64)


@dataclass(frozen=True)
class Anchors:
    """Points that represent all rows.

    Attributes
    ----------
    points : ndarray of shape (n_anchors, n_features)
    group_codes : ndarray of shape (n_anchors,)
    masses : ndarray of shape (n_anchors,)
        Weight of the rows of the anchor's group that are nearest to it. A group's masses
        sum to its weight.
    indices : ndarray of shape (n_anchors,), or None
        Row of each anchor; None where anchors are means.
    weighted : bool
        Whether clusterers get the masses.
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
    n_rows = int(groups.sizes.sum())
    if not isinstance(anchors, (str, FDAS)):
        return AnchorPlan(_check_indices(anchors, n_rows, n_clusters), None, FDAS())
    options = anchors if isinstance(anchors, FDAS) else FDAS()
    options._check()
    method = anchors.selection if isinstance(anchors, FDAS) else anchors
    if isinstance(n_anchors, str):
        n_anchors = auto_n_anchors(groups.sizes, n_clusters, few=few)
    _check_n_anchors(n_anchors, n_clusters, groups, method, options.quotas)
    quotas = QUOTAS[options.quotas](groups.sizes, n_anchors, n_clusters)
    return AnchorPlan(method, quotas, options)


def select_anchors(plan: AnchorPlan, rows: Any, distinct: Any, drawn: Any, seed: int) -> Anchors:
    """Anchors of the rows, with their masses.

    ``distinct`` are the same rows with equal ones merged; ``drawn``, for rows in chunks, those
    among which anchors are chosen.
    """
    indices = None
    candidates = rows if drawn is None else drawn.rows
    if isinstance(plan.method, str) and plan.method == "kmeans":
        points, codes = kmeans_anchors(candidates, plan.quotas, seed)
    else:
        if not isinstance(plan.method, str):
            indices = plan.method
        elif drawn is None or plan.method == "random":
            indices = plan.select_rows(rows, seed)
        else:
            indices = drawn.numbers[plan.select_rows(candidates, seed)]
        chosen = rows.take(indices, "anchors")
        points, codes = chosen.X, chosen.group_codes
    cells = _Cells.of(points, codes, rows.n_groups)
    masses, sums = cells.masses_and_sums(distinct)
    if indices is None:  # a last step of k-means, on all rows
        used = masses > 0
        points = np.where(used[:, None], sums / np.where(used, masses, 1.0)[:, None], points)
    return Anchors(points, codes, masses, indices, plan.options.weights == "mass")


@dataclass(frozen=True)
class _Cells:
    """Rows by the nearest anchor of their own group, of any if it has none (``everywhere``).

    It can be sent to where the rows are.
    """

    by_group: NearestAnchors
    everywhere: NearestAnchors

    @classmethod
    def of(cls, points: np.ndarray, codes: np.ndarray, n_groups: int) -> "_Cells":
        """Of anchors and their groups."""
        one_part = np.zeros(len(points), dtype=np.int64)
        return cls(
            NearestAnchors.of(points, codes, n_groups), NearestAnchors.of(points, one_part, 1)
        )

    def masses_and_sums(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Weight of the rows of each cell, and their weighted sum."""
        return tuple(rows.sum(self, "masses of anchors"))

    def __call__(self, block: Any) -> tuple[np.ndarray, np.ndarray]:
        first = self.by_group.first
        counts = np.diff(first)
        if counts.min() > 0 and counts.max() <= FEW_ANCHORS:
            places = np.empty(len(block.X), dtype=np.int64)
            nearest_of_part(block.X, block.group_codes, self.by_group.points, first, places)
            nearest = self.by_group.order[places]
        else:
            nearest = np.empty(len(block.X), dtype=np.int64)
            for r, rows in enumerate(split_by_code(block.group_codes, len(counts))):
                index, part = (self.by_group, r) if counts[r] > 0 else (self.everywhere, 0)
                nearest[rows] = index.nearest(block.X[rows], part)[0]
        sums, masses = label_sums(block.X, block.weights, nearest, len(self.everywhere.points))
        return masses, sums


def _check_n_anchors(
    n_anchors: int, n_clusters: int, groups: Groups, method: str, quotas: str
) -> None:
    n_rows = int(groups.sizes.sum())
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
    if n_anchors < groups.n_groups and method in ("kmeans", "fdas") and quotas == "balanced":
        raise ValueError(
            f"n_anchors={n_anchors} should be >= the number of groups in sensitive_features, "
            f"got {groups.n_groups}: {groups.public_names.tolist()[:20]}. A group without an "
            "anchor is not represented when the anchors are clustered."
        )


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
