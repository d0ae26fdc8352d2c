"""Colours, axes, legends and the lazy import that all figures share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from fairanchor.plotting._names import plot_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Dark enough for white text on them, and different in hue and lightness for the colour-blind.
SERIES = ["#0072b2", "#c14a00", "#007f5f", "#a8487f", "#8a6400",
          "#4b5fc4", "#7f3c8d", "#5a6f12", "#5f6b7a", "#8b4513"]  # fmt: skip
INK = "#1c2430"
FAINT = "#c9cfd6"
SURFACE = "#ffffff"
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">", "*"]
DASHES = (0, (4, 3))
WIDTH = 6.4
# Characters of a legend per inch of a figure.
LEGEND_DENSITY = 9


def import_matplotlib() -> Any:
    """The package matplotlib; an error explains how to install it."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(
            'Figures need matplotlib, which is not installed: pip install "fairanchor[report]".'
        ) from error
    return matplotlib


def axes_or_new(ax: Axes | None, *, width: float = WIDTH, height: float = 4.0) -> Axes:
    """``ax``, or the axes of a new pyplot figure."""
    import_matplotlib()
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def series_color(position: int) -> str:
    return SERIES[position % len(SERIES)]


def series_marker(position: int) -> str:
    """Marker of a series: it changes where the colours begin again."""
    return MARKERS[position // len(SERIES) % len(MARKERS)]


def tidy(ax: Axes, *, grid: Literal["x", "y", "both"] | None = None) -> Axes:
    """Remove the upper and right spines; add a light grid along ``grid``."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
    if grid is not None:
        ax.grid(axis=grid, color=FAINT, linewidth=0.6)
    return ax


def legend_columns(names: Sequence[Any], width: float = WIDTH, at_most: int = 28) -> int:
    """Number of columns in which these names fit above axes of a figure of this width."""
    longest = max(len(plot_name(name, at_most)) for name in names)
    return max(1, min(4, len(names), int(LEGEND_DENSITY * width) // (longest + 5)))


def legend_above(
    ax: Axes, handles: Sequence[Any], names: Sequence[Any], *, at_most: int = 28
) -> None:
    """Legend over the axes; names are shown as they are, a leading underscore included."""
    # matplotlib hides entries that begin with an underscore.
    texts = [plot_name(name, at_most) for name in names]
    texts = ["\N{ZERO WIDTH SPACE}" + text if text.startswith("_") else text for text in texts]
    # Axes usually have 0.775 of the figure's width.
    figure: Any = ax.get_figure(root=True)
    width = figure.get_figwidth() * ax.get_position().width / 0.775
    ax.legend(
        handles,
        texts,
        # From the right: above long tick labels there is room to the left of the axes.
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=legend_columns(names, width, at_most),
        frameon=False,
        borderaxespad=0.2,
        handlelength=1.4,
        columnspacing=1.2,
    )
