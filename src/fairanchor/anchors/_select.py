"""Module 1 of the paper: choose the anchors and weigh what each stands for."""

from dataclasses import dataclass

import numpy as np

from fairanchor._kernels._nearest import nearest_of_group
from fairanchor.anchors._das import select_das, select_fdas
from fairanchor.anchors._kmeans import kmeans_sample_rows, select_kmeans
from fairanchor.anchors._quotas import QUOTAS, auto_n_anchors
from fairanchor.anchors._random import select_random

# DAS and FDAS score all rows of a table in memory, and so many of one in chunks.
SCORED_ROWS = 2**20
METHODS = {
    "kmeans": select_kmeans,
    "fdas": select_fdas,
    "das": select_das,
    "random": select_random,
}


@dataclass(frozen=True)
class Anchors:
    """Selected rows.

    Attributes
    ----------
    indices : ndarray of shape (n_anchors,)
        Row of each anchor.
    points : ndarray of shape (n_anchors, n_features)
    group_codes : ndarray of shape (n_anchors,)
    masses : ndarray of shape (n_anchors,)
        Weight of the rows of the anchor's group that are nearest to it. A group's masses
        sum to its weight.
    """

    indices: np.ndarray
    points: np.ndarray
    group_codes: np.ndarray
    masses: np.ndarray


def select_anchors(
    rows, groups, method, n_anchors, quotas, n_clusters, seed, *, distinct=None, drawn=None
):
    """Select anchors by name, or take the given rows.

    Parameters
    ----------
    rows : MemoryRows or ChunkedRows
    groups : Groups
    method : {"kmeans", "fdas", "das", "random"} or array-like of row indices
    n_anchors : int or "auto"
    quotas : {"balanced", "paper"}
    n_clusters : int
    seed : int
    distinct : DistinctRows, default=None
        The same rows with equal ones merged: enough to weigh them.
    drawn : DrawnRows, default=None
        Of rows in chunks: those among which anchors are looked for.

    Returns
    -------
    anchors : Anchors
    """
    if not isinstance(method, str):
        indices = _check_indices(method, rows.n_rows, n_clusters)
        chosen = rows.take(indices, "anchors")
    else:
        seats = anchor_seats(groups, method, n_anchors, quotas, n_clusters)
        if drawn is None or method == "random":
            indices = METHODS[method](rows, seats, seed)
            chosen = rows.take(indices, "anchors")
        else:
            places = METHODS[method](drawn.rows, seats, seed)
            indices, chosen = drawn.numbers[places], drawn.rows.take(places)
    masses = anchor_masses(rows if distinct is None else distinct, chosen.X, chosen.group_codes)
    return Anchors(indices, chosen.X, chosen.group_codes, masses)


def anchor_seats(groups, method, n_anchors, quotas, n_clusters):
    """Checked number of anchors of each group."""
    if isinstance(n_anchors, str):
        n_anchors = auto_n_anchors(groups.sizes, n_clusters)
    _check_n_anchors(n_anchors, n_clusters, groups, method, quotas)
    return QUOTAS[quotas](groups.sizes, n_anchors, n_clusters)


def rows_to_draw(group_sizes, method, seats):
    """How many rows of each group a method wants to see, of rows that are in chunks."""
    if not isinstance(method, str) or method == "random":
        return np.zeros(len(group_sizes), dtype=np.int64)
    if method == "kmeans":
        return kmeans_sample_rows(seats)
    return np.ceil(SCORED_ROWS * group_sizes / group_sizes.sum()).astype(np.int64)


def anchor_masses(rows, points, codes):
    """Weight of the rows nearest to each anchor of their own group (of any, if it has none)."""
    nearest_anchor = nearest_anchor_finder(points, codes, rows.n_groups)

    def kernel(block):
        nearest = nearest_anchor(block)
        return (np.bincount(nearest, weights=block.weights, minlength=len(points)),)

    (masses,) = rows.sum(kernel, "masses of anchors")
    return masses


def nearest_anchor_finder(points, codes, n_groups):
    """A function of a block: the nearest anchor of each row among those of the row's group."""
    by_group = np.argsort(codes, kind="stable")
    first = np.searchsorted(codes, np.arange(n_groups), side="left", sorter=by_group)
    last = np.searchsorted(codes, np.arange(n_groups), side="right", sorter=by_group)
    without = first == last  # any anchor will do
    first[without], last[without] = 0, len(points)
    center = points.mean(axis=0)
    centred = points[by_group] - center
    half_squares = 0.5 * (centred**2).sum(axis=1)

    def nearest_anchor(block):
        nearest = np.empty(len(block.X), dtype=np.int64)
        nearest_of_group(
            block.X, block.group_codes, center, centred, half_squares, first, last, nearest
        )
        return by_group[nearest]

    return nearest_anchor


def _check_n_anchors(n_anchors, n_clusters, groups, method, quotas):
    n_rows = int(groups.sizes.sum())
    if n_anchors < n_clusters:
        raise ValueError(
            f"n_anchors={n_anchors} should be >= n_clusters={n_clusters}: "
            "a cluster without an anchor cannot receive any row."
        )
    if n_anchors > n_rows:
        raise ValueError(
            f"n_anchors={n_anchors} should be <= n_samples={n_rows}: anchors are distinct rows."
        )
    if n_anchors < groups.n_groups and method in ("kmeans", "fdas") and quotas == "balanced":
        raise ValueError(
            f"n_anchors={n_anchors} should be >= the number of groups in sensitive_features, "
            f"got {groups.n_groups}: {groups.public_names.tolist()[:20]}. A group without an "
            "anchor is not represented when the anchors are clustered."
        )


def _check_indices(given, n_rows, n_clusters):
    indices = np.asarray(given)
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or len(indices) == 0:
        raise ValueError(
            f"anchors is an array of shape {indices.shape} and type {indices.dtype}, expected a "
            "one-dimensional array of row indices (or one of "
            f"{sorted(METHODS)})."
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
