"""Figures of the cost-fairness curve, and of costs over the number of clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairanchor.model_selection import check_path
from fairanchor.plotting._documentation import completed
from fairanchor.plotting._style import (
    MARKERS,
    SURFACE,
    axes_or_new,
    legend_above,
    series_color,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairanchor.model_selection import FairnessPath

# Of the span of the costs: a curve that hardly falls should not look like a cliff.
LEAST_SPAN = 0.05
# Points nearer to each other than this part of the axes would have names on top of each other.
NAME_DISTANCE = 0.05


@completed
def plot_fairness_path(path: FairnessPath, *, ax: Axes | None = None) -> Axes:
    """Cost of each clustering of a path against how near it is to exact proportions.

    Beside the points are their tolerances. The cost of the loosest one is 1. Separate attributes
    have a curve each; the tolerances are beside the worst of them.

    Parameters
    ----------
    path : FairnessPath
        Of `fairanchor.fairness_path`.
    {axes}

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from fairanchor import fairness_path
    >>> from fairanchor.datasets import make_zafar
    >>> from fairanchor.plotting import plot_fairness_path
    >>> data = make_zafar(300, variant="original", random_state=0)
    >>> path = fairness_path(data.data, data.sensitive_features, (0, 1), n_clusters=2, n_init=1,
    ...                      random_state=0)
    >>> ax = plot_fairness_path(path)
    >>> [text.get_text() for text in ax.texts]
    ['tolerance 0', '1']
    """
    balances, costs, tolerances = _columns(path)
    ax = axes_or_new(ax)
    curves = _attribute_curves(path)
    for k, own in enumerate(curves.values() if curves else [balances]):
        ax.plot(own, costs, color=series_color(k), linewidth=1.6, marker=MARKERS[k % len(MARKERS)],
                markersize=6, zorder=3)  # fmt: skip
    if curves:
        legend_above(ax, ax.lines, list(curves))
    _name_points(ax, balances, costs, tolerances)
    low, high = float(costs.min()), max(float(costs.max()), float(costs.min()) + LEAST_SPAN)
    ax.set_ylim(low - 0.12 * (high - low), high + 0.15 * (high - low))
    left = float(balances.min())
    margin = 0.12 * max(1.0 - left, LEAST_SPAN)
    ax.set_xlim(left - margin, 1.0 + margin)
    ticks = [tick for tick in ax.get_xticks() if max(left - margin, 0.0) <= tick <= 1.0 + 1e-9]
    ax.set_xticks(ticks)
    ax.set_xlabel("relative balance of the worst cell (1 = exact proportions)")
    ax.set_ylabel(f"cost, tolerance {tolerances[-1]:g} = 1")
    return tidy(ax, grid="both")


@completed
def plot_clusters_path(path: FairnessPath, *, ax: Axes | None = None) -> Axes:
    """Cost over the number of clusters, with and without the constraint.

    The unconstrained cost of the fewest clusters is 1. Below each number of clusters are the
    number of rows of its smallest cell (a share of a handful of rows means little) and the
    balance of its worst cluster.

    Parameters
    ----------
    path : FairnessPath
        Of `fairanchor.clusters_path`.
    {axes}

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from fairanchor import clusters_path
    >>> from fairanchor.datasets import make_zafar
    >>> from fairanchor.plotting import plot_clusters_path
    >>> data = make_zafar(300, variant="original", random_state=0)
    >>> path = clusters_path(data.data, data.sensitive_features, (2, 3), n_init=1, random_state=0)
    >>> ax = plot_clusters_path(path)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['tolerance 0', 'no constraint']
    """
    needed = ("n_clusters", "cost", "plain_cost", "tolerance", "smallest_cell", "balance")
    numbers, costs, plain, tolerances, cells, balances = _arrays(path, needed, "clusters_path")
    if not plain[0] > 0:
        raise ValueError(
            f"Without a constraint {numbers[0]:g} clusters cost {plain[0]:g}: nothing can be drawn "
            "relative to it."
        )
    ax = axes_or_new(ax)
    lines = ((costs, f"tolerance {tolerances[0]:g}", "o", "-"), (plain, "no constraint", "s", "--"))
    for k, (values, title, marker, dashes) in enumerate(lines):
        ax.plot(numbers, values / plain[0], color=series_color(k), linewidth=1.6, marker=marker,
                markersize=6, linestyle=dashes, label=title, zorder=4 - k)  # fmt: skip
    below = zip(numbers, cells, balances, strict=True)
    ax.set_xticks(numbers, [f"{number:g}\n{cell:,.0f}\n{own:.2f}" for number, cell, own in below])
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("number of clusters, rows of the smallest cell, balance")
    ax.set_ylabel(f"cost, {numbers[0]:g} clusters without constraint = 1")
    ax.legend(frameon=False)
    return tidy(ax, grid="y")


def _columns(path):
    needed = ("relative_balance", "cost", "tolerance")
    balances, costs, tolerances = _arrays(path, needed, "fairness_path")
    if not costs[-1] > 0:
        raise ValueError(
            f"The loosest tolerance costs {costs[-1]:g}: nothing can be drawn relative to it."
        )
    return balances, costs / costs[-1], tolerances


def _attribute_curves(path):
    """Relative balances of each separate attribute, by its title; none if there is only one."""
    titles = list(path.records[0].get("attributes", {}))
    if len(titles) < 2:
        return {}
    return {
        title: [record["attributes"][title]["relative_balance"] for record in path.records]
        for title in titles
    }


def _arrays(path, names, source):
    """Columns of a path's records."""
    check_path(path, source)
    return [np.array([record[name] for record in path.records], dtype=float) for name in names]


def _name_points(ax, balances, costs, tolerances):
    """Tolerances beside the points, without those that would cover another's name."""
    span_x = max(float(np.ptp(balances)), LEAST_SPAN)
    span_y = max(float(np.ptp(costs)), LEAST_SPAN)
    named = []
    for k, tolerance in enumerate(tolerances):
        place = np.array([balances[k] / span_x, costs[k] / span_y])
        if any(np.abs(place - other).max() < NAME_DISTANCE for other in named):
            continue
        named.append(place)
        ax.annotate(
            f"tolerance {tolerance:g}" if k == 0 else f"{tolerance:g}",
            (balances[k], costs[k]),
            # The curve rises to the right: below and above it there is room.
            xytext=(4, 8) if k == 0 else (4, -15),
            textcoords="offset points",
            ha="right" if k == 0 else "left",
            bbox={"boxstyle": "square,pad=0.1", "facecolor": SURFACE, "edgecolor": "none"},
            zorder=4,
        )
