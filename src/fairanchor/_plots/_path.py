"""Picture of the cost-fairness curve."""

import numpy as np

from fairanchor._plots._documentation import completed
from fairanchor._plots._style import SURFACE, axes_or_new, series_color, tidy

# Of the span of the costs: a curve that hardly falls should not look like a cliff.
LEAST_SPAN = 0.05
# Points nearer to each other than this part of the axes would have names on top of each other.
NAME_DISTANCE = 0.05


@completed
def plot_fairness_path(path, *, ax=None):
    """Cost of each clustering of a path against how near it is to exact proportions.

    Beside the points are their tolerances. The cost of the loosest one is 1.

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
    color = series_color(0)
    ax.plot(balances, costs, color=color, linewidth=1.6, marker="o", markersize=6, zorder=3)
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


def _columns(path):
    records = getattr(path, "records", None)
    needed = ("tolerance", "cost", "relative_balance")
    if not records or any(name not in record for record in records for name in needed):
        raise ValueError(
            f"path is {path!r}, expected what fairness_path returns: records with "
            f"{', '.join(needed)}."
        )
    balances, costs, tolerances = (
        np.array([record[name] for record in records], dtype=float)
        for name in ("relative_balance", "cost", "tolerance")
    )
    if not costs[-1] > 0:
        raise ValueError(
            f"The loosest tolerance costs {costs[-1]:g}: nothing can be drawn relative to it."
        )
    return balances, costs / costs[-1], tolerances


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
