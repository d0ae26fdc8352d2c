"""Picture of how the solver came to its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairanchor._plots._documentation import completed
from fairanchor._plots._style import (
    INK,
    axes_or_new,
    legend_above,
    series_color,
    tidy,
)
from fairanchor._plots._tables import fitted

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@completed
def plot_convergence(
    history: Any | list[dict[str, Any]],
    *,
    tolerance: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Largest error of a cell's mass after each sweep over the rows, in rows.

    Parameters
    ----------
    history : fitted estimator or list of dict
        Records with ``sweep`` and ``mass_error``, as in ``AnchorFairClustering.history_``.
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
        history = fitted(history, "history_")
    sweeps, errors = _columns(history)
    ax = axes_or_new(ax, height=3.0)
    # An exact zero has no place on a logarithmic axis: it is drawn at its foot.
    positive = errors[errors > 0]
    if len(positive):
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter("{x:,g}")
        errors = np.where(errors > 0, errors, positive.min() / 10)
    ax.plot(sweeps, errors, "o-", color=series_color(0), linewidth=1.2, markersize=4)
    if tolerance is not None and tolerance > 0:
        line = ax.axhline(tolerance, color=INK, linewidth=1.0, linestyle=(0, (4, 3)))
        legend_above(ax, [line], [f"tolerance: {tolerance:.3g} rows"])
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("sweep over the rows")
    ax.set_ylabel("error, in rows")
    return tidy(ax, grid="y")


def _columns(history):
    records = list(history)
    if not records or any("mass_error" not in record for record in records):
        raise ValueError(
            f"history has {len(records)} record(s), expected at least one, each with 'mass_error'."
        )
    sweeps = [record.get("sweep", i + 1) for i, record in enumerate(records)]
    errors = np.asarray([record["mass_error"] for record in records], dtype=float)
    return np.asarray(sweeps, dtype=float), errors
