"""Figures of the report: SVG as matplotlib writes it, embedded as data URIs."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairanchor.plotting import (
    plot_anchors,
    plot_balance,
    plot_composition,
    plot_convergence,
    plot_embedding,
    plot_price_of_fairness,
)
from fairanchor.plotting._composition import Composition
from fairanchor.plotting._names import quoted_name
from fairanchor.plotting._rows import MAX_FEATURES, draw_profiles
from fairanchor.plotting._style import INK, MUTED, import_matplotlib
from fairanchor.report._verdict import Fairness, score_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairanchor.report._collect import RunSummary

SETTINGS = {
    # Text stays text, so that the browser draws glyphs that matplotlib's font lacks.
    "svg.fonttype": "none",
    "svg.hashsalt": "fairanchor",
    "font.size": 10.0,
    "axes.unicode_minus": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
}


@dataclass(frozen=True)
class Figure:
    """A figure as the source of an ``<img>``, its text alternative and its caption."""

    source: str
    alternative: str
    caption: str


def _draw(
    plot: Callable[[Axes], Any],
    alternative: str,
    caption: str,
    *,
    width: float = 6.4,
    height: float = 4.0,
) -> Figure:
    matplotlib = import_matplotlib()
    from matplotlib.figure import Figure as Canvas

    buffer = io.BytesIO()
    # Only these settings count: a user's matplotlibrc must not change the report.
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        warnings.filterwarnings("ignore", message=r"(?s)Glyph \d+ .*missing from font")
        canvas = Canvas(figsize=(width, height), layout="constrained")
        plot(canvas.add_subplot())
        canvas.savefig(buffer, format="svg", metadata={"Date": None})
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Figure(f"data:image/svg+xml;base64,{encoded}", alternative, caption)


def composition_figure(composition: Composition, fairness: Fairness, title: str) -> Figure:
    group = quoted_name("group", composition.groups[fairness.worst_group])
    cluster = quoted_name("cluster", composition.clusters[fairness.worst_cluster])
    return _draw(
        lambda ax: plot_composition(composition, ax=ax),
        f"{title}: share of each group in each cluster, below that of the population. Farthest "
        f"from it: {group} is {fairness.share:.1%} of {cluster} and "
        f"{fairness.population_share:.1%} of the population.",
        f"{title}: share of each group in each cluster.",
        height=composition.figure_height,
    )


def balance_figure(composition: Composition, fairness: Fairness) -> Figure:
    return _draw(
        lambda ax: plot_balance(composition, ax=ax),
        f"Balance of each cluster. The least balanced cluster has {score_text(fairness.balance)}, "
        f"the best possible is {score_text(fairness.bound)}.",
        "Balance of each cluster; the worst one is filled.",
        height=1.3 + 0.3 * len(composition.clusters_to_show()),
    )


def price_figure(costs: list[float], fairness: Fairness, plain: Fairness) -> Figure:
    return _draw(
        lambda ax: plot_price_of_fairness(
            costs,
            [plain.balance, fairness.balance],
            names=["plain k-means", "this clustering"],
            bound=fairness.bound,
            ax=ax,
        ),
        f"Extra cost against balance. Plain k-means has a balance of {score_text(plain.balance)}, "
        f"this clustering {score_text(fairness.balance)} at {costs[1] / costs[0] - 1:+.1%} of "
        f"cost; the best possible balance is {score_text(fairness.bound)}.",
        "Extra cost against balance; the dashed line is the best possible balance.",
        height=3.2,
    )


def profiles_figure(run: RunSummary, deviations: np.ndarray, importance: np.ndarray) -> Figure:
    n_shown = int(np.isfinite(deviations).all(axis=1).sum())
    return _draw(
        lambda ax: draw_profiles(deviations, importance, run.feature_names, run.cluster_names, ax),
        "Mean of each feature in each cluster, in standard deviations from the mean of all rows; "
        "the table with it has the largest.",
        "Red is above the average of all rows, blue below.",
        width=max(4.0, 1.6 + 0.62 * min(MAX_FEATURES, len(importance))),
        height=1.9 + 0.32 * n_shown,
    )


def map_figure(X: np.ndarray, labels: np.ndarray, plane: Any, names: Any, title: str) -> Figure:
    return _draw(
        lambda ax: plot_embedding(X, labels, plane=plane, cluster_names=names, ax=ax),
        f"{title}: rows in the plane of the first two principal components, in "
        f"{len(np.unique(labels))} clusters.",
        f"{title}: a colour and a number per cluster.",
        height=4.6,
    )


def convergence_figure(records: list[Any], key: str, number: str, measure: str) -> Figure:
    first, last = records[0][key], records[-1][key]
    return _draw(
        lambda ax: plot_convergence(records, ax=ax),
        f"{measure}: from {first:.5g} to {last:.5g} in {len(records)} records.",
        f"{measure}, by {number}.",
        height=3.0,
    )


def anchors_figure(anchors: np.ndarray, labels: Any, masses: Any, X: Any, plane: Any) -> Figure:
    area = "" if masses is None else "; a larger area represents more rows"
    return _draw(
        lambda ax: plot_anchors(anchors, labels, masses, X=X, plane=plane, ax=ax),
        f"{len(anchors)} anchors in the plane of the map, coloured by cluster.",
        f"Anchors, coloured by cluster{area}.",
        height=4.6,
    )
