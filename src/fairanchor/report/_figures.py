"""Figures of the report: SVG as matplotlib writes it, embedded as data URIs."""

import base64
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairanchor.plotting._style import INK, MUTED, import_matplotlib

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


def draw(
    plot: Callable[..., Any],
    *arguments: Any,
    caption: str,
    alternative: str | None = None,
    width: float = 6.4,
    height: float = 4.0,
    **options: Any,
) -> Figure:
    """Call a function of `fairanchor.plotting`; its figure must not depend on the user's settings.

    Parameters
    ----------
    plot : callable
        Draws into the axes ``ax``.
    *arguments, **options
        Passed to ``plot``.
    caption, alternative : str
        The text alternative is by default the caption.
    width, height : float
        Size in inches.
    """
    matplotlib = import_matplotlib()
    from matplotlib.figure import Figure as Canvas

    buffer = io.BytesIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        warnings.filterwarnings("ignore", message=r"(?s)Glyph \d+ .*missing from font")
        canvas = Canvas(figsize=(width, height), layout="constrained")
        plot(*arguments, ax=canvas.add_subplot(), **options)
        canvas.savefig(buffer, format="svg", metadata={"Date": None})
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return Figure(f"data:image/svg+xml;base64,{encoded}", alternative or caption, caption)
