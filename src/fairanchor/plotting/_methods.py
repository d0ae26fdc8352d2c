"""Figures of what fairness costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairanchor.plotting._documentation import completed
from fairanchor.plotting._names import check_names, plot_name
from fairanchor.plotting._style import (
    INK,
    MARKERS,
    SERIES,
    SURFACE,
    axes_or_new,
    legend_above,
    series_color,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

# A price of a few per mille should not look like a cliff.
LEAST_SPAN = 0.05


@completed
def plot_price_of_fairness(
    costs: ArrayLike,
    balances: ArrayLike,
    *,
    names: Sequence[Any] | None = None,
    bound: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Extra cost of each clustering over the first one, against its balance.

    Parameters
    ----------
    costs : array-like of shape (n_clusterings,)
        k-means costs; the first one, usually of plain k-means, is the reference.
    balances : array-like of shape (n_clusterings,)
        Balance of each clustering.
    names : sequence of length n_clusterings, default=None
        What is written beside the points.
    {bound}
    {axes}

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from fairanchor.plotting import plot_price_of_fairness
    >>> ax = plot_price_of_fairness([100, 105], [0.4, 0.6], names=["plain", "fair"], bound=0.6)
    >>> [round(float(value), 4) for value in ax.lines[0].get_ydata()]
    [0.0, 0.05]
    """
    prices, shares = _check_points(costs, balances)
    names = check_names(names, "names", len(prices), "costs")
    extra = _relative(prices, prices[0]) - 1.0
    ax = axes_or_new(ax)
    order = np.argsort(shares, kind="stable")
    ax.plot(shares[order], extra[order], "o-", color=series_color(0), linewidth=1.2)
    for position, name in enumerate(names or ()):
        _name_point(ax, name, shares, extra, position)
    _draw_bound(ax, bound)
    _widen(ax, shares if bound is None else [*shares, bound], extra)
    ax.yaxis.set_major_formatter("{x:+.1%}")
    ax.set_xlabel("balance of the worst cluster")
    ax.set_ylabel("extra cost")
    return tidy(ax, grid="y")


@completed
def plot_comparison(
    results: Sequence[Mapping[str, Any]],
    *,
    bound: float | None = None,
    reference: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Methods side by side: cost against balance, with their times in the legend.

    Parameters
    ----------
    results : sequence of mappings
        One per method, with ``name``, ``cost``, ``balance`` and, if it was measured,
        ``seconds``; other keys are ignored.
    {bound}
    reference : float, default=None
        Cost that counts as 1; by default that of the first method.
    {axes}

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from fairanchor.plotting import plot_comparison
    >>> methods = [
    ...     {"name": "plain k-means", "cost": 10.0, "balance": 0.2, "seconds": 0.1},
    ...     {"name": "FairKMeans", "cost": 10.5, "balance": 0.5, "seconds": 0.3},
    ... ]
    >>> ax = plot_comparison(methods, bound=0.5)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['plain k-means, 0.1 s', 'FairKMeans, 0.3 s', 'best possible: 0.500']
    """
    results = [_check_result(result) for result in results]
    costs, balances = _check_points([r["cost"] for r in results], [r["balance"] for r in results])
    costs = _relative(costs, costs[0] if reference is None else reference)
    ax = axes_or_new(ax, width=7.2)
    handles = [
        # Hollow markers of several shapes: methods that agree are drawn over each other.
        ax.plot(
            balances[i],
            costs[i],
            marker=MARKERS[i % len(MARKERS)],
            markersize=9 + 2 * (len(results) - i) / len(results),
            markerfacecolor="none",
            markeredgewidth=1.8,
            color=SERIES[i % len(SERIES)],
            linestyle="none",
        )[0]
        for i in range(len(results))
    ]
    names = [_with_time(result) for result in results]
    line = _draw_bound(ax, bound)
    if line is not None:
        handles, names = [*handles, line], [*names, f"best possible: {bound:.3f}"]
    legend_above(ax, handles, names)
    _widen(ax, balances if bound is None else [*balances, bound], costs)
    ax.set_xlabel("balance of the worst cluster")
    ax.set_ylabel(f"cost, {plot_name(results[0]['name'])} = 1" if reference is None else "cost")
    return tidy(ax, grid="both")


def _name_point(ax, name, balances, extra, position):
    """Name and extra cost beside a point, away from the line that leaves it."""
    first = position == np.argmin(balances)
    price = "" if position == 0 else f": {extra[position]:+.1%}"
    ax.annotate(
        plot_name(name) + price,
        (balances[position], extra[position]),
        xytext=(2, -16) if first else (-6, 8),
        textcoords="offset points",
        ha="left" if first else "right",
        # Lines end at the name instead of crossing it.
        bbox={"boxstyle": "square,pad=0.15", "facecolor": SURFACE, "edgecolor": "none"},
        zorder=4,
    )


def _check_points(costs, balances):
    costs, balances = np.asarray(costs, dtype=float), np.asarray(balances, dtype=float)
    if costs.ndim != 1 or costs.shape != balances.shape or len(costs) == 0:
        raise ValueError(
            f"costs has shape {costs.shape} and balances {balances.shape}: expected one cost and "
            "one balance for each of at least one clustering."
        )
    if not (np.isfinite(costs).all() and np.isfinite(balances).all()):
        raise ValueError(
            f"costs {costs.tolist()} and balances {balances.tolist()} must be finite to be drawn."
        )
    return costs, balances


def _relative(costs, reference):
    if not reference > 0:
        raise ValueError(f"the reference cost is {reference}, expected a positive number.")
    return costs / reference


def _check_result(result):
    needed = ("name", "cost", "balance")
    if not isinstance(result, Mapping) or any(key not in result for key in needed):
        given = sorted(map(str, result)) if isinstance(result, Mapping) else repr(result)
        raise ValueError(f"a result must be a mapping with name, cost and balance, got {given}.")
    return result


def _with_time(result):
    seconds = result.get("seconds")
    if seconds is None:
        return str(result["name"])
    return f"{result['name']}, {f'{seconds:,.0f}' if seconds >= 10 else f'{seconds:.2g}'} s"


def _draw_bound(ax, bound):
    if bound is None:
        return None
    return ax.axvline(bound, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))


def _widen(ax, xs, ys):
    """Limits with room for the marks, and never a span so small that noise looks large."""
    for values, set_limits in [(xs, ax.set_xlim), (ys, ax.set_ylim)]:
        low, high = float(np.min(values)), float(np.max(values))
        spare = max(LEAST_SPAN - (high - low), 0.0) / 2
        margin = spare + 0.18 * max(high - low, LEAST_SPAN)
        set_limits(low - margin, high + margin)
    # The room to the left is for names; no balance is below zero.
    left, right = ax.get_xlim()
    ax.set_xticks([tick for tick in ax.get_xticks() if max(left, 0.0) <= tick <= right])
