"""Figures of who is in which cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairanchor.plotting._documentation import completed
from fairanchor.plotting._names import tick_name
from fairanchor.plotting._style import (
    INK,
    ON_SERIES,
    SURFACE,
    axes_or_new,
    legend_above,
    legend_height,
    series_color,
    tidy,
)
from fairanchor.plotting._tables import (
    clusters_to_show,
    composition_of,
    fold_small_groups,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairanchor._utils._typing import Clustering, Table, Weights

# Narrower parts of a bar hold no number.
LEAST_LABELLED_SHARE = 0.1


@completed
def plot_composition(
    clustering: Clustering,
    sensitive_features: Table | None = None,
    *,
    sample_weight: Weights = None,
    ax: Axes | None = None,
) -> Axes:
    """Composition of each cluster, below that of the population.

    Dashed lines carry the population's boundaries down: in a proportional clustering all bars
    break there. More than 8 groups are drawn as the 7 largest and the rest; of more than 40
    clusters, those farthest from the population are drawn.

    Parameters
    ----------
    {clustering}
    {axes}

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from fairanchor.plotting import plot_composition
    >>> ax = plot_composition([0, 0, 1, 1, 1], ["a", "b", "a", "b", "b"])
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['all: 5 rows', '0: 2 rows', '1: 3 rows']
    """
    whole = composition_of(clustering, sensitive_features, sample_weight)
    shown = clusters_to_show(whole.table)
    drawn = fold_small_groups(whole)
    ax = axes_or_new(ax, height=composition_height(whole))
    unit = "rows" if _is_whole(whole.table) else "weight"

    shares = np.vstack([drawn.population, drawn.shares()[shown]])
    places = np.concatenate([[0.0], np.arange(len(shown)) + 1.5])
    handles = _stacked_bars(ax, shares, places)
    for boundary in np.cumsum(drawn.population)[:-1]:
        ax.axvline(boundary, color=INK, linewidth=1.0, linestyle=(0, (4, 3)))

    sizes = [whole.table.sum(), *whole.table[shown].sum(axis=1)]
    names = ["all", *[tick_name(whole.clusters[l]) for l in shown]]
    labels = [f"{name}: {_number(size)} {unit}" for name, size in zip(names, sizes, strict=True)]
    ax.set_yticks(places, labels)
    ax.set_ylim(places[-1] + 0.55, -0.55)
    ax.set_xlim(0, 1)
    ax.xaxis.set_major_formatter("{x:.0%}")
    ax.set_xlabel("share of the cluster")
    legend_above(ax, handles, drawn.groups)
    return tidy(ax)


def composition_height(composition):
    """Height in inches at which the figure of `plot_composition` is easy to read."""
    n_bars = len(clusters_to_show(composition.table)) + 1.5
    return 0.8 + 0.28 * n_bars + legend_height(fold_small_groups(composition).groups)


@completed
def plot_balance(
    clustering: Clustering,
    sensitive_features: Table | None = None,
    *,
    sample_weight: Weights = None,
    ax: Axes | None = None,
) -> Axes:
    """Balance of each cluster, and the largest balance that any clustering of the rows can have.

    The balance of a cluster is its smallest group over its largest; that of the clustering is
    the balance of its worst cluster, which is drawn filled.

    Parameters
    ----------
    {clustering}
    {axes}

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from fairanchor.plotting import plot_balance
    >>> ax = plot_balance([0, 0, 1, 1, 1], ["a", "b", "a", "b", "b"])
    >>> ax.get_xlabel()
    'balance (smallest group / largest group)'
    """
    whole = composition_of(clustering, sensitive_features, sample_weight)
    shown = clusters_to_show(whole.table)
    values = balance_of_clusters(whole)
    ax = axes_or_new(ax, height=1.2 + 0.3 * len(shown))
    worst = shown[np.argmin(values[shown])]
    places = np.arange(len(shown))
    color = series_color(0)
    ax.hlines(places, 0, values[shown], color=color, linewidth=1.2)
    for place, cluster in zip(places, shown, strict=True):
        face = color if cluster == worst else SURFACE
        ax.plot(values[cluster], place, "o", color=color, markerfacecolor=face)
    bound = whole.table.sum(axis=0)
    bound = bound[bound > 0]
    bound = bound.min() / bound.max()
    line = ax.axvline(bound, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
    legend_above(ax, [line], [f"best possible for the worst cluster: {bound:.4f}"], at_most=60)
    ax.set_yticks(places, [tick_name(whole.clusters[l]) for l in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlim(0, 1.1 * max(bound, values[shown].max()))
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel("balance (smallest group / largest group)")
    ax.set_ylabel("cluster")
    return tidy(ax, grid="x")


def balance_of_clusters(composition):
    """Smallest group over largest, cluster by cluster; NaN for an empty one."""
    table = composition.table[:, composition.table.sum(axis=0) > 0]
    largest = table.max(axis=1)
    return np.divide(table.min(axis=1), largest, out=np.full(len(table), np.nan), where=largest > 0)


def _stacked_bars(ax, shares, places):
    """One horizontal bar per row of shares; returns a handle per column."""
    starts = np.cumsum(shares, axis=1) - shares
    handles = []
    for r in range(shares.shape[1]):
        bars = ax.barh(
            places,
            shares[:, r],
            left=starts[:, r],
            height=0.8,
            color=series_color(r),
            edgecolor=SURFACE,
            linewidth=0.5,
        )
        handles.append(bars[0])
        for share, start, place in zip(shares[:, r], starts[:, r], places, strict=True):
            if share >= LEAST_LABELLED_SHARE:
                ax.text(
                    start + share / 2,
                    place,
                    f"{share:.1%}",
                    color=ON_SERIES,
                    ha="center",
                    va="center",
                    fontsize="small",
                    in_layout=False,
                )
    return handles


def _is_whole(table):
    return bool(np.all(table == np.round(table)))


def _number(value):
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"
