"""Figures of what fairness costs, and of the iterations of a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairanchor.model_selection import check_path
from fairanchor.plotting._composition import fitted
from fairanchor.plotting._names import plot_name
from fairanchor.plotting._style import (
    DASHES,
    INK,
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

# A price of a few per mille should not look like a cliff.
LEAST_SPAN = 0.05
# Points nearer to each other than this part of the axes share one name.
NAME_DISTANCE = 0.05


def plot_comparison(
    results: Sequence[Mapping[str, Any]],
    *,
    bound: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the cost of several methods against their balance, with times in the legend.

    The cost of the first method counts as 1.

    Parameters
    ----------
    results : sequence of mappings
        One per method, with ``name``, ``cost``, ``balance`` and, if it was measured,
        ``seconds``; other keys are ignored.
    bound : float, default=None
        Largest balance that any clustering of the rows can have.
    ax : matplotlib Axes, default=None
        Axes to draw into; by default new ones.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from fairanchor.plotting import plot_comparison
    >>> methods = [
    ...     {"name": "plain k-means", "cost": 10.0, "balance": 0.2, "seconds": 0.1},
    ...     {"name": "FairKMeans", "cost": 10.5, "balance": 0.5, "seconds": 0.3},
    ... ]
    >>> ax = plot_comparison(methods, bound=0.5)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['plain k-means, 0.1 s', 'FairKMeans, 0.3 s', 'best possible: 0.500']
    """
    if not results or any(not {"name", "cost", "balance"} <= set(result) for result in results):
        raise ValueError(
            f"results={results!r} should have a name, a cost and a balance for each method."
        )
    costs, balances = np.array([[r["cost"], r["balance"]] for r in results], dtype=float).T
    if not np.isfinite([costs, balances]).all():
        raise ValueError(
            f"results has the costs {costs} and balances {balances}, expected finite numbers."
        )
    costs = _relative(costs, costs[0])
    ax = axes_or_new(ax, width=7.2)
    handles, names = [], []
    for i, result in enumerate(results):
        # Hollow markers of several shapes and sizes: equal results are drawn over each other.
        handles += ax.plot(
            balances[i],
            costs[i],
            marker=MARKERS[i % len(MARKERS)],
            markersize=9 + 2 * (len(results) - i) / len(results),
            markerfacecolor="none",
            markeredgewidth=1.8,
            color=series_color(i),
            linestyle="none",
        )
        seconds = result.get("seconds")
        time = "" if seconds is None else f", {seconds:{',.0f' if seconds >= 10 else '.2g'}} s"
        names.append(f"{result['name']}{time}")
    if bound is not None:
        handles.append(ax.axvline(bound, color=INK, linewidth=1.2, linestyle=DASHES))
        names.append(f"best possible: {bound:.3f}")
    legend_above(ax, handles, names, at_most=40)
    _set_limits(ax, balances if bound is None else [*balances, bound], costs)
    ax.set_xlabel("balance of the worst cluster")
    ax.set_ylabel(f"cost, {plot_name(results[0]['name'])} = 1")
    return tidy(ax, grid="both")


def plot_fairness_path(path: FairnessPath, *, ax: Axes | None = None) -> Axes:
    """Plot the cost of each clustering of a path against its relative balance.

    The points are labelled with their tolerances. The cost of the largest tolerance is 1.
    Separate attributes have a curve each; the tolerances are beside the worst of them.

    Parameters
    ----------
    path : FairnessPath
        Returned by `fairanchor.fairness_path`.
    ax : matplotlib Axes, default=None
        Axes to draw into; by default new ones.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
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
    check_path(path, "fairness_path")
    balances, costs, tolerances = _columns(path, "relative_balance", "cost", "tolerance")
    costs = _relative(costs, costs[-1])
    ax = axes_or_new(ax)
    attributes = list(path.records[0].get("attributes", {}))
    curves = [balances]
    if len(attributes) > 1:
        curves = [
            np.array([record["attributes"][name]["relative_balance"] for record in path.records])
            for name in attributes
        ]
    for k, curve in enumerate(curves):
        ax.plot(curve, costs, "-", marker=MARKERS[k % len(MARKERS)], color=series_color(k),
                linewidth=1.6, markersize=6, zorder=3)  # fmt: skip
    if len(curves) > 1:
        legend_above(ax, ax.lines, attributes)
    _name_tolerances(ax, balances, costs, tolerances)
    _set_limits(ax, [*balances, 1.0], costs)
    ax.set_xlabel("relative balance of the worst cell (1 = exact proportions)")
    ax.set_ylabel(f"cost, tolerance {tolerances[-1]:g} = 1")
    return tidy(ax, grid="both")


def plot_clusters_path(path: FairnessPath, *, ax: Axes | None = None) -> Axes:
    """Plot the cost over the number of clusters, with and without the constraint.

    The unconstrained cost of the fewest clusters is 1. Below each number of clusters are the
    number of rows of its smallest cell (a share of a handful of rows means little), the balance of
    its worst cluster and the silhouette of a sample.

    Parameters
    ----------
    path : FairnessPath
        Returned by `fairanchor.clusters_path`.
    ax : matplotlib Axes, default=None
        Axes to draw into; by default new ones.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from fairanchor import clusters_path
    >>> from fairanchor.datasets import make_zafar
    >>> from fairanchor.plotting import plot_clusters_path
    >>> data = make_zafar(300, variant="original", random_state=0)
    >>> path = clusters_path(data.data, data.sensitive_features, (2, 3), n_init=1, random_state=0)
    >>> ax = plot_clusters_path(path)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['tolerance 0', 'no constraint']
    """
    check_path(path, "clusters_path")
    numbers, costs, plain, tolerances, *below = _columns(
        path, "n_clusters", "cost", "plain_cost", "tolerance", "smallest_cell", "balance",
        "silhouette",
    )  # fmt: skip
    ax = axes_or_new(ax)
    lines = ((costs, f"tolerance {tolerances[0]:g}", "o-"), (plain, "no constraint", "s--"))
    for k, (values, name, style) in enumerate(lines):
        ax.plot(numbers, _relative(values, plain[0]), style, color=series_color(k), linewidth=1.6,
                markersize=6, label=name, zorder=4 - k)  # fmt: skip
    texts = [
        f"{number:g}\n{cell:,.0f}\n{balance:.2f}\n{silhouette:.2f}"
        for number, cell, balance, silhouette in zip(numbers, *below, strict=True)
    ]
    ax.set_xticks(numbers, texts)
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("number of clusters, rows of the smallest cell, balance, silhouette")
    ax.set_ylabel(f"cost, {numbers[0]:g} clusters without constraint = 1")
    ax.legend(frameon=False)
    return tidy(ax, grid="y")


def plot_convergence(model: Any, *, ax: Axes | None = None) -> Axes:
    """Plot the progress of the iterations: the anchor graph's error, or the cost of fair k-means.

    Parameters
    ----------
    model : fitted estimator
        `FairKMeans`, or `AnchorFairClustering` with ``graph="reconstruction"`` (the local graph
        has no iterations).
    ax : matplotlib Axes, default=None
        Axes to draw into; by default new ones.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> from fairanchor import FairKMeans
    >>> from fairanchor.datasets import make_zafar
    >>> from fairanchor.plotting import plot_convergence
    >>> data = make_zafar(300, variant="original", random_state=0)
    >>> model = FairKMeans(2, random_state=0)
    >>> ax = plot_convergence(model.fit(data.data, sensitive_features=data.sensitive_features))
    >>> ax.get_ylabel()
    'cost'
    """
    ax = axes_or_new(ax, height=3.0)
    if hasattr(model, "cost_path_"):
        values, labels = np.asarray(model.cost_path_), ("iteration", "cost")
        numbers = np.arange(len(values))
    else:
        records, labels = fitted(model, "history_"), ("sweep over the rows", "error, in rows")
        values = np.array([record["mass_error"] for record in records])
        numbers = np.array([record["sweep"] for record in records])
        if (values > 0).any():
            ax.set_yscale("log")
            ax.yaxis.set_major_formatter("{x:,g}")
            # An exact zero is drawn at the foot of the logarithmic axis.
            values = np.where(values > 0, values, values[values > 0].min() / 10)
    ax.plot(numbers, values, "o-", color=series_color(0), linewidth=1.2, markersize=4)
    ax.locator_params(axis="x", integer=True)
    ax.set(xlabel=labels[0], ylabel=labels[1])
    return tidy(ax, grid="y")


def _relative(costs: np.ndarray, reference: float) -> np.ndarray:
    if not reference > 0:
        raise ValueError(f"The reference cost is {reference}, expected a positive number.")
    return costs / reference


def _columns(path: FairnessPath, *names: str) -> list[np.ndarray]:
    return [np.array([record[name] for record in path.records], dtype=float) for name in names]


def _set_limits(ax: Axes, xs: Any, ys: Any) -> None:
    """Leave room for the names, and never let a small span look large."""
    for values, axis in [(xs, "x"), (ys, "y")]:
        low, high = float(np.min(values)), float(np.max(values))
        margin = max(LEAST_SPAN - (high - low), 0.0) / 2 + 0.18 * max(high - low, LEAST_SPAN)
        ax.set(**{f"{axis}lim": (low - margin, high + margin)})
    # The room on both sides is for names: no balance is below 0 or above 1.
    left, right = ax.get_xlim()
    ax.set_xticks([x for x in ax.get_xticks() if max(left, 0.0) <= x <= min(right, 1.0 + 1e-9)])


def _name_tolerances(
    ax: Axes, balances: np.ndarray, costs: np.ndarray, tolerances: np.ndarray
) -> None:
    """Tolerances beside the points, without those that would cover another's name."""
    span = [max(float(np.ptp(values)), LEAST_SPAN) for values in (balances, costs)]
    named: list[np.ndarray] = []
    for k, point in enumerate(np.column_stack([balances, costs])):
        if any(np.abs((point - other) / span).max() < NAME_DISTANCE for other in named):
            continue
        named.append(point)
        # The curve rises to the right: there is room above its first point and below the others.
        text, offset, side = ("tolerance ", (4, 8), "right") if k == 0 else ("", (4, -15), "left")
        # The curve ends at the text instead of crossing it.
        box = {"boxstyle": "square,pad=0.15", "facecolor": SURFACE, "edgecolor": "none"}
        ax.annotate(f"{text}{tolerances[k]:g}", point, xytext=offset, ha=side,
                    textcoords="offset points", bbox=box, zorder=4)  # fmt: skip
