"""Figures of where clusters and anchors are, and of what makes a cluster different."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairanchor._utils._sampling import GOLDEN_RATIO, spread_sample
from fairanchor.plotting._documentation import completed
from fairanchor.plotting._names import check_names, plot_name, tick_name
from fairanchor.plotting._style import (
    FAINT,
    INK,
    SURFACE,
    axes_or_new,
    marker_of,
    series_color,
    tidy,
)
from fairanchor.plotting._tables import fitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from fairanchor._utils._typing import Clustering, Table

MAX_POINTS = 1500
ROWS_FOR_PLANE = 20_000
MAX_FEATURES = 12
# Rows that are centred at a time: a copy of all could be too much.
BLOCK = 65_536
# Differences beyond so many standard deviations are drawn alike.
COLOR_RANGE = 2.0


@dataclass(frozen=True)
class Plane:
    """The two directions in which rows differ most.

    Attributes
    ----------
    center : ndarray of shape (n_features,)
        Mean of the rows.
    directions : ndarray of shape (1 or 2, n_features)
        Principal axes; one feature has one.
    explained : ndarray of shape (1 or 2,)
        Share of the rows' variance along each.
    """

    center: np.ndarray
    directions: np.ndarray
    explained: np.ndarray

    @classmethod
    def of(cls, X: Table) -> Plane:
        """The plane of at most 20,000 rows, taken at a fixed rule from all."""
        X = check_matrix(X, "X")
        X = X[spread_sample(len(X), ROWS_FOR_PLANE)]
        center = X.mean(axis=0)
        covariance = (X - center).T @ (X - center) / len(X)
        values, vectors = np.linalg.eigh(covariance)
        directions = vectors[:, ::-1][:, :2].T
        # An axis has no sign of its own: the largest entry decides, so that figures repeat.
        largest = np.abs(directions).argmax(axis=1)
        directions = directions * np.sign(directions[np.arange(len(directions)), largest])[:, None]
        total = max(float(np.trace(covariance)), np.finfo(float).tiny)
        return cls(center, directions, np.clip(values[::-1][:2], 0.0, None) / total)

    def project(self, X: np.ndarray) -> np.ndarray:
        """Coordinates of rows; a single feature is spread along a second axis to be visible."""
        points = (X - self.center) @ self.directions.T
        if points.shape[1] == 1:
            spread = np.arange(len(points)) * GOLDEN_RATIO % 1.0
            points = np.column_stack([points, spread])
        return points


@completed
def plot_embedding(
    X: Table,
    labels: Clustering,
    *,
    plane: Plane | None = None,
    max_points: int = MAX_POINTS,
    cluster_names: Sequence[Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The rows in the plane of their first two principal components, coloured by cluster.

    Of more than ``max_points`` rows, so many are drawn: one from each of equally long stretches
    of the table, by a fixed rule without random numbers. The number of each cluster stands at
    the mean of its drawn rows.

    Parameters
    ----------
    {rows}
    plane : Plane, default=None
        Where to draw, as returned by `principal_plane`; by default that of ``X``.
    max_points : int, default=1500
        Largest number of rows drawn.
    {cluster_names}
    {axes}

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from fairanchor.plotting import plot_embedding
    >>> ax = plot_embedding([[0.0, 0.0], [0.0, 1.0], [5.0, 0.0], [5.0, 1.0]], [0, 0, 1, 1])
    >>> ax.get_xlabel()
    'first component (96% of the variance)'
    """
    X = check_matrix(X, "X")
    labels = check_labels(labels, len(X))
    cluster_names = _check_cluster_names(cluster_names, labels)
    plane = Plane.of(X) if plane is None else plane
    rows = spread_sample(len(X), max_points)
    points, labels = plane.project(X[rows]), labels[rows]
    ax = axes_or_new(ax, height=4.8)
    for cluster in np.unique(labels):
        members = points[labels == cluster]
        ax.plot(
            *members.T,
            marker_of(cluster),
            color=series_color(cluster),
            markersize=3.5,
            markeredgewidth=0,
            alpha=0.65,
        )
    for cluster in np.unique(labels):
        name = cluster if cluster_names is None else cluster_names[cluster]
        _name_at(ax, points[labels == cluster].mean(axis=0), plot_name(name, 12), cluster)
    return _name_axes(ax, plane)


@completed
def plot_anchors(
    anchors: Any,
    labels: ArrayLike | None = None,
    masses: ArrayLike | None = None,
    *,
    X: Table | None = None,
    plane: Plane | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The anchors, coloured by cluster, with areas like the rows that they represent.

    Parameters
    ----------
    anchors : fitted estimator or array-like of shape (n_anchors, n_features)
        A fitted `AnchorFairClustering` brings labels and masses along.
    labels : array-like of shape (n_anchors,), default=None
        Cluster of each anchor; by default they have one colour.
    masses : array-like of shape (n_anchors,), default=None
        Rows that each anchor represents; by default areas are equal.
    X : array-like of shape (n_samples, n_features), default=None
        Rows, drawn in grey behind (at most 1500 of them).
    plane : Plane, default=None
        Where to draw, as returned by `principal_plane`; by default that of ``X``, or of the
        anchors.
    {axes}

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from fairanchor.plotting import plot_anchors
    >>> ax = plot_anchors([[0.0, 0.0], [4.0, 0.0], [0.0, 2.0]], [0, 1, 0], masses=[30, 10, 20])
    >>> len(ax.collections)
    2
    """
    if hasattr(anchors, "fit"):
        labels = fitted(anchors, "anchor_labels_") if labels is None else labels
        masses = fitted(anchors, "anchor_masses_") if masses is None else masses
        anchors = fitted(anchors, "anchors_")
    anchors = check_matrix(anchors, "anchors")
    labels = np.zeros(len(anchors), int) if labels is None else check_labels(labels, len(anchors))
    areas = _areas(masses, len(anchors))
    rows = None if X is None else check_matrix(X, "X")
    plane = Plane.of(anchors if rows is None else rows) if plane is None else plane
    ax = axes_or_new(ax, height=4.8)
    if rows is not None:
        behind = plane.project(rows[spread_sample(len(rows), MAX_POINTS)])
        ax.plot(*behind.T, "o", color=FAINT, markersize=2.5, markeredgewidth=0)
    points = plane.project(anchors)
    for cluster in np.unique(labels):
        own = labels == cluster
        ax.scatter(
            points[own, 0],
            points[own, 1],
            s=areas[own],
            color=series_color(cluster),
            marker=marker_of(cluster),
            edgecolors=SURFACE,
            linewidths=0.8,
            alpha=0.85,
            zorder=3,
        )
    return _name_axes(ax, plane)


@completed
def plot_profiles(
    X: Table,
    labels: Clustering,
    *,
    feature_names: Sequence[Any] | None = None,
    cluster_names: Sequence[Any] | None = None,
    max_features: int = MAX_FEATURES,
    ax: Axes | None = None,
) -> Axes:
    """Which features make a cluster different: its means, in standard deviations from all rows'.

    Parameters
    ----------
    {rows}
    feature_names : sequence of length n_features, default=None
        By default the features' numbers.
    {cluster_names}
    max_features : int, default=12
        Features drawn: those in which the clusters differ most.
    {axes}

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from fairanchor.plotting import plot_profiles
    >>> X = [[0.0, 1.0], [0.0, 2.0], [8.0, 1.0], [8.0, 2.0]]
    >>> ax = plot_profiles(X, [0, 0, 1, 1], feature_names=["income", "age"])
    >>> [text.get_text() for text in ax.get_xticklabels()]
    ['income', 'age']
    """
    X = check_matrix(X, "X")
    labels = check_labels(labels, len(X))
    feature_names = check_names(feature_names, "feature_names", X.shape[1], "columns of X")
    cluster_names = _check_cluster_names(cluster_names, labels)
    deviations, importance = cluster_profiles(X, labels, int(labels.max()) + 1)
    return draw_profiles(deviations, importance, feature_names, cluster_names, max_features, ax)


def draw_profiles(deviations, importance, feature_names, cluster_names, max_features, ax):
    """The figure of `plot_profiles`, from `cluster_profiles`."""
    columns = np.argsort(-importance, kind="stable")[:max_features]
    shown = np.flatnonzero(np.isfinite(deviations).all(axis=1))
    table = deviations[np.ix_(shown, columns)]
    ax = axes_or_new(ax, width=1.6 + 0.62 * len(columns), height=1.8 + 0.34 * len(shown))
    ax.pcolormesh(
        table, cmap="RdBu_r", vmin=-COLOR_RANGE, vmax=COLOR_RANGE, edgecolors=SURFACE, linewidth=1
    )
    for (row, column), value in np.ndenumerate(table):
        # The ends of the colour scale are dark in every theme, so this text has its own colour.
        color = "#fdfdfd" if abs(value) > 0.65 * COLOR_RANGE else "#16191d"
        ax.text(
            column + 0.5,
            row + 0.5,
            f"{value:+.1f}".replace("-0.0", "0.0").replace("+0.0", "0.0"),
            color=color,
            ha="center",
            va="center",
            fontsize="small",
            in_layout=False,
        )
    features = range(len(importance)) if feature_names is None else feature_names
    names = [plot_name(features[j], 22) for j in columns]
    ax.set_xticks(np.arange(len(columns)) + 0.5, names, rotation=40, ha="right")
    clusters = range(len(deviations)) if cluster_names is None else cluster_names
    ax.set_yticks(np.arange(len(shown)) + 0.5, [tick_name(clusters[l]) for l in shown])
    ax.invert_yaxis()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_ylabel("cluster")
    return ax


def cluster_profiles(X, labels, n_clusters):
    """Means of the clusters in standard deviations from the mean, and what features explain.

    Returns
    -------
    deviations : ndarray of shape (n_clusters, n_features)
        NaN for a cluster without a row; 0 for a constant feature.
    importance : ndarray of shape (n_features,)
        Share of each feature's variance that lies between clusters.
    """
    n_rows = len(X)
    sizes = np.bincount(labels, minlength=n_clusters)[:, None]
    center = X.mean(axis=0)
    sums, squares = _centred_sums(X, labels, n_clusters, center)
    variance = squares / n_rows
    # A constant column leaves rounding errors only.
    constant = np.sqrt(variance) <= 1e-12 * np.abs(center)
    spread = np.sqrt(np.where(constant, 1.0, variance))
    deviations = np.full(sums.shape, np.nan)
    np.divide(np.where(constant, 0.0, sums / spread), sizes, out=deviations, where=sizes > 0)
    importance = (sizes / n_rows * np.where(sizes > 0, deviations, 0.0) ** 2).sum(axis=0)
    return deviations, np.minimum(importance, 1.0)


def _centred_sums(X, labels, n_clusters, center):
    """Sums of the clusters' rows and of all squares, after the centre was taken away."""
    from scipy.sparse import csr_array

    sums, squares = np.zeros((n_clusters, X.shape[1])), np.zeros(X.shape[1])
    for start in range(0, len(X), BLOCK):
        block = X[start : start + BLOCK] - center
        cells = (labels[start : start + BLOCK], np.arange(len(block)))
        sums += csr_array((np.ones(len(block)), cells), (n_clusters, len(block))) @ block
        squares += np.einsum("ij,ij->j", block, block)
    return sums, squares


def check_matrix(values, name):
    """Two-dimensional finite float64 rows, at least one."""
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(
            f"{name} has shape {matrix.shape}, expected (rows, features), at least one of each."
        )
    if not np.isfinite(matrix).all():
        raise ValueError(
            f"{name} has {np.count_nonzero(~np.isfinite(matrix))} value(s) that are not finite: "
            "they have no place in a figure."
        )
    return matrix


def check_labels(labels, n_rows):
    """Labels of so many rows as integers from 0, from an array or a fitted estimator."""
    if hasattr(labels, "fit"):
        labels = fitted(labels, "labels_")
    labels = np.asarray(labels)
    if labels.shape != (n_rows,):
        raise ValueError(f"labels has shape {labels.shape}, expected ({n_rows},): one per row.")
    if labels.dtype.kind not in "iu" or labels.min() < 0:
        raise ValueError(
            "labels must be whole numbers from 0; for other names give "
            "np.unique(labels, return_inverse=True)[1] and cluster_names."
        )
    return labels.astype(np.int64)


def _check_cluster_names(names, labels):
    # More names than labels are in use: the last clusters may be empty.
    n_clusters = int(labels.max()) + 1
    return check_names(names, "cluster_names", n_clusters, "clusters in labels", at_least=True)


def _areas(masses, n_anchors):
    if masses is None:
        return np.full(n_anchors, 60.0)
    masses = np.asarray(masses, dtype=float)
    if masses.shape != (n_anchors,) or not (masses >= 0).all():
        raise ValueError(
            f"masses has shape {masses.shape}, expected ({n_anchors},) and no negative number."
        )
    return 12.0 + 260.0 * masses / max(masses.max(), np.finfo(float).tiny)


def _name_at(ax, place, text, cluster):
    ax.annotate(
        text,
        place,
        color=INK,
        ha="center",
        va="center",
        weight="bold",
        bbox={
            "boxstyle": "round,pad=0.25",
            "facecolor": SURFACE,
            "edgecolor": series_color(cluster),
        },
        zorder=4,
    )


def _name_axes(ax, plane):
    ax.set_xlabel(f"first component ({plane.explained[0]:.0%} of the variance)")
    if len(plane.explained) > 1:
        ax.set_ylabel(f"second component ({plane.explained[1]:.0%} of the variance)")
    else:
        ax.set_ylabel("spread to be visible, no meaning")
    ax.set_xticks([])
    ax.set_yticks([])
    return tidy(ax)


def principal_plane(X: Table) -> Plane:
    """The plane in which rows differ most, to draw several figures alike.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows; the plane is that of at most 20,000 of them.

    Returns
    -------
    plane : Plane
        To be given to `plot_embedding` and `plot_anchors`.
    """
    return Plane.of(X)
