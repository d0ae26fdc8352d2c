"""Colours, axes and the lazy import that all figures share."""

from fairanchor.plotting._names import plot_name

# Dark enough for white text on them, and different in hue and lightness for the colour-blind.
SERIES = [
    "#0072b2",
    "#c14a00",
    "#007f5f",
    "#a8487f",
    "#8a6400",
    "#4b5fc4",
    "#7f3c8d",
    "#5a6f12",
    "#5f6b7a",
    "#8b4513",
]
INK = "#1c2430"
MUTED = "#66707d"
FAINT = "#c9cfd6"
SURFACE = "#ffffff"
ON_SERIES = "#fefefe"
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">", "*"]


def import_matplotlib():
    """The package matplotlib, or an error that says how to get it."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(
            "Figures need matplotlib, which is not installed: "
            'pip install "fairanchor[report]" brings it.'
        ) from error
    return matplotlib


def axes_or_new(ax, *, width=6.4, height=4.0):
    """The given axes, or those of a new pyplot figure."""
    import_matplotlib()
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax


def series_color(position):
    """Colour of the series with this number."""
    return SERIES[position % len(SERIES)]


def marker_of(position):
    """Marker of the series with this number: changes where colours begin again."""
    return MARKERS[position // len(SERIES) % len(MARKERS)]


def tidy(ax, *, grid=None):
    """Take away the frame's upper and right lines; a light grid along one axis if asked."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
    if grid is not None:
        ax.grid(axis=grid, color=FAINT, linewidth=0.6)
    return ax


USUAL_WIDTH = 6.4
# Characters of a legend that fit above axes of the usual width.
LEGEND_WIDTH = 58


def legend_columns(names, width=USUAL_WIDTH):
    """Number of columns in which these names fit above axes so many inches wide."""
    longest = max(len(plot_name(name)) for name in names)
    at_most = int(LEGEND_WIDTH * width / USUAL_WIDTH) // (longest + 5)
    return max(1, min(4, len(names), at_most))


def legend_height(names):
    """Height of the legend with these names above axes of the usual width, in inches."""
    return 0.2 * -(-len(names) // legend_columns(names))


def legend_above(ax, handles, names, *, at_most=28):
    """Legend over the axes; names are shown as they are, a leading underscore included."""
    # matplotlib hides entries that begin with an underscore.
    texts = [plot_name(name, at_most) for name in names]
    texts = ["\N{ZERO WIDTH SPACE}" + text if text.startswith("_") else text for text in texts]
    width = ax.get_figure(root=True).get_figwidth() * ax.get_position().width
    return ax.legend(
        handles,
        texts,
        # From the right: above long names of ticks there is room to the left of the axes.
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        # Axes usually have 0.775 of the figure's width.
        ncols=legend_columns(names, width / 0.775),
        frameon=False,
        borderaxespad=0.2,
        handlelength=1.4,
        columnspacing=1.2,
    )
