"""Figures of rows and anchors in the plane, and of the features that distinguish clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array

from fairanchor._utils._sampling import GOLDEN_RATIO, spread_sample
from fairanchor.plotting._composition import fitted
from fairanchor.plotting._names import check_names, column_names, plot_name
from fairanchor.plotting._style import (
    FAINT,
    INK,
    SURFACE,
    axes_or_new,
    series_color,
    series_marker,
    tidy,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from fairanchor._utils._typing import Clustering, Table

MAX_POINTS = 1500
ROWS_FOR_PLANE = 20_000
MAX_FEATURES = 12
# Differences beyond so many standard deviations have the same colour.
COLOR_RANGE = 2.0


def principal_plane(X: Table) -> PCA:
    """Fit the plane of the first two principal components, to draw several figures alike.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows; the plane is that of at most 20,000 of them, chosen by a fixed rule.

    Returns
    -------
    plane : :class:`~sklearn.decomposition.PCA`
        For `plot_embedding` and `plot_anchors`.
    """
    X = check_array(X, dtype=np.float64, input_name="X")
    X = X[spread_sample(len(X), ROWS_FOR_PLANE)]
    X = np.repeat(X, 2, axis=0) if len(X) == 1 else X  # a variance needs two rows
    with np.errstate(invalid="ignore"):  # equal rows have no variance to explain
        return PCA(min(2, *X.shape), random_state=0).fit(X)


def plot_embedding(
    X: Table,
    labels: Clustering,
    *,
    plane: PCA | None = None,
    max_points: int = MAX_POINTS,
    cluster_names: Sequence[Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the rows in the plane of their first two principal components, coloured by cluster.

    At most ``max_points`` rows are drawn: one from each of equally long stretches of the table, by
    a fixed rule without random numbers. The number of each cluster is at the mean of its drawn
    rows.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows.
    labels : fitted estimator or array-like of shape (n_samples,)
        Labels, in ``0..n_clusters-1``, or an estimator fitted on these rows.
    plane : PCA, default=None
        Returned by `principal_plane`; by default that of ``X``.
    max_points : int, default=1500
        Largest number of rows drawn.
    cluster_names : sequence of length n_clusters, default=None
        By default the clusters' numbers.
    ax : matplotlib Axes, default=None
        Axes to draw into; by default new ones.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from fairanchor.plotting import plot_embedding
    >>> ax = plot_embedding([[0.0, 0.0], [0.0, 1.0], [5.0, 0.0], [5.0, 1.0]], [0, 0, 1, 1])
    >>> ax.get_xlabel()
    'first component (96% of the variance)'
    """
    X = check_array(X, dtype=np.float64, input_name="X")
    codes = _check_labels(labels, len(X))
    names = check_names(cluster_names, "cluster_names", int(codes.max()) + 1, at_least=True)
    plane = principal_plane(X) if plane is None else plane
    rows = spread_sample(len(X), max_points)
    points, codes = _project(plane, X[rows]), codes[rows]
    ax = axes_or_new(ax, height=4.8)
    for cluster in np.unique(codes):
        members = points[codes == cluster]
        ax.plot(*members.T, series_marker(cluster), color=series_color(cluster), markersize=3.5,
                markeredgewidth=0, alpha=0.65)  # fmt: skip
        box = {"boxstyle": "round,pad=0.25", "facecolor": SURFACE,
               "edgecolor": series_color(cluster)}  # fmt: skip
        ax.annotate(plot_name(names[cluster], 12), members.mean(axis=0), color=INK, ha="center",
                    va="center", weight="bold", bbox=box, zorder=4)  # fmt: skip
    return _name_axes(ax, plane)


def plot_anchors(
    anchors: Any,
    labels: ArrayLike | None = None,
    masses: ArrayLike | None = None,
    *,
    X: Table | None = None,
    plane: PCA | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the anchors, coloured by cluster, with areas that grow with their masses.

    Parameters
    ----------
    anchors : fitted estimator or array-like of shape (n_anchors, n_features)
        A fitted `AnchorFairClustering` provides labels and masses as well.
    labels : array-like of shape (n_anchors,), default=None
        Cluster of each anchor; by default they have one colour.
    masses : array-like of shape (n_anchors,), default=None
        Rows that each anchor represents; by default areas are equal.
    X : array-like of shape (n_samples, n_features), default=None
        Rows, drawn in grey behind (at most 1500 of them).
    plane : PCA, default=None
        Returned by `principal_plane`; by default that of ``X``, or of the anchors.
    ax : matplotlib Axes, default=None
        Axes to draw into; by default new ones.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from fairanchor.plotting import plot_anchors
    >>> ax = plot_anchors([[0.0, 0.0], [4.0, 0.0], [0.0, 2.0]], [0, 1, 0], masses=[30, 10, 20])
    >>> len(ax.collections)
    2
    """
    if hasattr(anchors, "fit"):
        labels = fitted(anchors, "anchor_labels_") if labels is None else labels
        masses = fitted(anchors, "anchor_masses_") if masses is None else masses
        anchors = fitted(anchors, "anchors_")
    anchors = check_array(anchors, dtype=np.float64, input_name="anchors")
    codes = np.zeros(len(anchors), int) if labels is None else _check_labels(labels, len(anchors))
    areas = np.full(len(anchors), 60.0)
    if masses is not None:
        masses = np.asarray(masses, dtype=float)
        if masses.shape != areas.shape or not (masses >= 0).all():
            raise ValueError(
                f"masses has shape {masses.shape}, expected {areas.shape} and no negative number."
            )
        areas = 12.0 + 260.0 * masses / max(masses.max(), np.finfo(float).tiny)
    rows = None if X is None else check_array(X, dtype=np.float64, input_name="X")
    if plane is None:
        plane = principal_plane(anchors if rows is None else rows)
    ax = axes_or_new(ax, height=4.8)
    if rows is not None:
        behind = _project(plane, rows[spread_sample(len(rows), MAX_POINTS)])
        ax.plot(*behind.T, "o", color=FAINT, markersize=2.5, markeredgewidth=0)
    points = _project(plane, anchors)
    for cluster in np.unique(codes):
        members = codes == cluster
        x, y = points[members].T
        ax.scatter(x, y, areas[members], color=series_color(cluster),
                   marker=series_marker(cluster), edgecolors=SURFACE, linewidths=0.8, alpha=0.85,
                   zorder=3)  # fmt: skip
    return _name_axes(ax, plane)


def plot_profiles(
    X: Table,
    labels: Clustering,
    *,
    feature_names: Sequence[Any] | None = None,
    cluster_names: Sequence[Any] | None = None,
    max_features: int = MAX_FEATURES,
    ax: Axes | None = None,
) -> Axes:
    """Plot each cluster's feature means, in standard deviations from the mean of all rows.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows.
    labels : fitted estimator or array-like of shape (n_samples,)
        Labels, in ``0..n_clusters-1``, or an estimator fitted on these rows.
    feature_names : sequence of length n_features, default=None
        By default the column names of ``X``, or the features' numbers if it has none.
    cluster_names : sequence of length n_clusters, default=None
        By default the clusters' numbers.
    max_features : int, default=12
        Number of features drawn: those in which the clusters differ most.
    ax : matplotlib Axes, default=None
        Axes to draw into; by default new ones.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from fairanchor.plotting import plot_profiles
    >>> X = [[0.0, 1.0], [0.0, 2.0], [8.0, 1.0], [8.0, 2.0]]
    >>> ax = plot_profiles(X, [0, 0, 1, 1], feature_names=["income", "age"])
    >>> [text.get_text() for text in ax.get_xticklabels()]
    ['income', 'age']
    """
    feature_names = column_names(X) if feature_names is None else feature_names
    X = check_array(X, dtype=np.float64, input_name="X")
    codes = _check_labels(labels, len(X))
    n_clusters = int(codes.max()) + 1
    features = check_names(feature_names, "feature_names", X.shape[1])
    clusters = check_names(cluster_names, "cluster_names", n_clusters, at_least=True)
    deviations, importance = cluster_profiles(X, codes, n_clusters)
    columns = np.argsort(-importance, kind="stable")[:max_features]
    shown = np.flatnonzero(np.isfinite(deviations).all(axis=1))  # clusters with rows
    table = deviations[np.ix_(shown, columns)]
    ax = axes_or_new(ax, width=1.6 + 0.62 * len(columns), height=1.8 + 0.34 * len(shown))
    ax.pcolormesh(
        table, cmap="RdBu_r", vmin=-COLOR_RANGE, vmax=COLOR_RANGE, edgecolors=SURFACE, linewidth=1
    )
    for (row, column), value in np.ndenumerate(table):
        # The ends of the colour scale are dark.
        color = SURFACE if abs(value) > 0.65 * COLOR_RANGE else INK
        text = deviation_text(value)
        ax.text(column + 0.5, row + 0.5, text, color=color, ha="center", va="center",
                fontsize="small", in_layout=False)  # fmt: skip
    names = [plot_name(features[j], 22) for j in columns]
    ax.set_xticks(np.arange(len(columns)) + 0.5, names, rotation=40, ha="right")
    ax.set_yticks(np.arange(len(shown)) + 0.5, [plot_name(clusters[l], 20) for l in shown])
    ax.invert_yaxis()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_ylabel("cluster")
    return ax


def deviation_text(value: float) -> str:
    """A difference in standard deviations; zero has no sign."""
    return f"{value:+.1f}" if abs(value) >= 0.05 else "0.0"


def cluster_profiles(
    X: np.ndarray, labels: np.ndarray, n_clusters: int
) -> tuple[np.ndarray, np.ndarray]:
    """Deviations of the clusters' means from all rows', and the importance of each feature.

    Deviations are in standard deviations, NaN for an empty cluster; the importance of a feature
    is the share of its variance that lies between clusters.
    """
    scaler = StandardScaler().fit(X)
    sizes = np.bincount(labels, minlength=n_clusters)[:, None]
    members = csr_array((np.ones(len(X)), (labels, np.arange(len(X)))), (n_clusters, len(X)))
    with np.errstate(invalid="ignore"):
        deviations = ((members @ X) / sizes - scaler.mean_) / scaler.scale_
    return deviations, (sizes / len(X) * np.nan_to_num(deviations) ** 2).sum(axis=0)


def _check_labels(labels: Any, n_rows: int) -> np.ndarray:
    """Labels of so many rows as integers from 0, from an array or a fitted estimator."""
    labels = np.asarray(fitted(labels, "labels_") if hasattr(labels, "fit") else labels)
    if labels.shape != (n_rows,):
        raise ValueError(f"labels has shape {labels.shape}, expected ({n_rows},): one per row.")
    if labels.dtype.kind not in "iu" or labels.min() < 0:
        raise ValueError(
            "labels must be whole numbers from 0; for other names pass "
            "np.unique(labels, return_inverse=True)[1] and cluster_names."
        )
    return labels.astype(np.int64)


def _project(plane: PCA, X: np.ndarray) -> np.ndarray:
    """Coordinates of rows; a single feature is spread along a second axis to be visible."""
    points = plane.transform(X)
    if points.shape[1] == 1:
        points = np.column_stack([points, np.arange(len(points)) * GOLDEN_RATIO % 1.0])
    return points


def _name_axes(ax: Axes, plane: PCA) -> Axes:
    explained = np.nan_to_num(plane.explained_variance_ratio_)
    ax.set_xlabel(f"first component ({explained[0]:.0%} of the variance)")
    if len(explained) > 1:
        ax.set_ylabel(f"second component ({explained[1]:.0%} of the variance)")
    else:
        ax.set_ylabel("spread to be visible, no meaning")
    ax.set_xticks([])
    ax.set_yticks([])
    return tidy(ax)
