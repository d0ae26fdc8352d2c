"""Figure of the iterations of a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairanchor.plotting._documentation import completed
from fairanchor.plotting._style import (
    INK,
    axes_or_new,
    legend_above,
    series_color,
    tidy,
)
from fairanchor.plotting._tables import fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@completed
def plot_convergence(
    history: Any | list[dict[str, Any]],
    *,
    tolerance: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Progress of the iterations: the anchor graph's error, or the cost of fair k-means.

    Parameters
    ----------
    history : fitted estimator or list of dict
        `FairKMeans`, or `AnchorFairClustering` with ``graph="reconstruction"`` (the local graph
        has no iterations); or records with ``mass_error``, as in
        ``AnchorFairClustering.history_``, or with ``cost``.
    tolerance : float, default=None
        Error that counts as converged, in rows; drawn as a line.
    {axes}

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from fairanchor.plotting import plot_convergence
    >>> records = [{"sweep": 1, "mass_error": 40.0}, {"sweep": 2, "mass_error": 0.5}]
    >>> plot_convergence(records).get_yscale()
    'log'
    """
    if hasattr(history, "fit"):
        history = _records_of(history)
    key, numbers, values = _columns(history)
    ax = axes_or_new(ax, height=3.0)
    # An exact zero has no place on a logarithmic axis: it is drawn at its foot.
    positive = values[values > 0]
    if key == "mass_error" and len(positive):
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:,g}")
        values = np.where(values > 0, values, positive.min() / 10)
    ax.plot(numbers, values, "o-", color=series_color(0), linewidth=1.2, markersize=4)
    if tolerance is not None and tolerance > 0:
        line = ax.axhline(tolerance, color=INK, linewidth=1.0, linestyle=(0, (4, 3)))
        legend_above(ax, [line], [f"tolerance: {tolerance:.3g} rows"])
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("sweep over the rows" if key == "mass_error" else "iteration")
    ax.set_ylabel("error, in rows" if key == "mass_error" else "cost")
    return tidy(ax, grid="y")


def _records_of(estimator):
    """Records of a fitted estimator's iterations."""
    if hasattr(estimator, "cost_path_"):
        return [{"iteration": i, "cost": cost} for i, cost in enumerate(estimator.cost_path_)]
    return fitted(estimator, "history_")


def _columns(history):
    """Which measure the records have, their numbers, and the values of the measure."""
    records = list(history)
    key = "cost" if records and "cost" in records[0] else "mass_error"
    if not records or any(key not in record for record in records):
        raise ValueError(
            f"history has {len(records)} record(s), expected at least one, each with 'mass_error' "
            "or each with 'cost'."
        )
    number = "sweep" if key == "mass_error" else "iteration"
    numbers = [record.get(number, i + 1) for i, record in enumerate(records)]
    values = np.asarray([record[key] for record in records], dtype=float)
    return key, np.asarray(numbers, dtype=float), values
