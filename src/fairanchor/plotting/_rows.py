"""Figures of rows and anchors in the plane, and of the features that distinguish clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array

from fairanchor._utils._sampling import GOLDEN_RATIO, spread_sample
from fairanchor.plotting._composition import encode_labels, fitted
from fairanchor.plotting._names import feature_names_of, plot_name
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
    ax: Axes | None = None,
) -> Axes:
    """Plot the rows in the plane of their first two principal components, coloured by cluster.

    At most ``max_points`` rows are drawn: one from each of equally long stretches of the table, by
    a fixed rule without random numbers. The name of each cluster is at the mean of its drawn
    rows.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows.
    labels : fitted estimator or array-like of shape (n_samples,)
        Numbers or names of the clusters, or an estimator fitted on these rows.
    plane : PCA, default=None
        Returned by `principal_plane`; by default that of ``X``.
    max_points : int, default=1500
        Largest number of rows drawn.
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
    codes, names = _clusters_of(labels, len(X))
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
    model: Any, *, X: Table | None = None, plane: PCA | None = None, ax: Axes | None = None
) -> Axes:
    """Plot the anchors, coloured by cluster, with areas that grow with their masses.

    Parameters
    ----------
    model : AnchorFairClustering
        Fitted.
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
    >>> from fairanchor import AnchorFairClustering
    >>> from fairanchor.datasets import make_zafar
    >>> from fairanchor.plotting import plot_anchors
    >>> data = make_zafar(300, variant="original", random_state=0)
    >>> model = AnchorFairClustering(2, n_anchors=20, random_state=0)
    >>> model = model.fit(data.data, sensitive_features=data.sensitive_features)
    >>> ax = plot_anchors(model)
    >>> len(ax.collections)
    2
    """
    anchors, masses = fitted(model, "anchors_"), model.anchor_masses_
    codes, _ = _clusters_of(model.anchor_labels_, len(anchors))
    areas = 12.0 + 260.0 * masses / masses.max()
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
    max_features: int = MAX_FEATURES,
    ax: Axes | None = None,
) -> Axes:
    """Plot each cluster's feature means, in standard deviations from the mean of all rows.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows.
    labels : fitted estimator or array-like of shape (n_samples,)
        Numbers or names of the clusters, or an estimator fitted on these rows.
    feature_names : sequence of length n_features, default=None
        By default the column names of ``X``, or "feature 0" and so on if it has none.
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
    features = feature_names_of(X, feature_names)
    X = check_array(X, dtype=np.float64, input_name="X")
    codes, clusters = _clusters_of(labels, len(X))
    deviations, importance = cluster_profiles(X, codes, len(clusters))
    columns = np.argsort(-importance, kind="stable")[:max_features]
    table = deviations[:, columns]
    ax = axes_or_new(ax, width=1.6 + 0.62 * len(columns), height=1.8 + 0.34 * len(clusters))
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
    ax.set_yticks(np.arange(len(clusters)) + 0.5, [plot_name(name, 20) for name in clusters])
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


def _clusters_of(labels: Any, n_rows: int) -> tuple[np.ndarray, list[Any]]:
    """Codes of so many labels, from an array or a fitted estimator, and names of the clusters."""
    codes, names, _ = encode_labels(fitted(labels, "labels_") if hasattr(labels, "fit") else labels)
    if len(codes) != n_rows:
        raise ValueError(f"labels has {len(codes)} entries, expected {n_rows}: one per row.")
    return codes, names


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
