"""From a matplotlib figure to SVG that lives inside a page.

The page forbids everything but its own style sheet, so inline styles become classes of that
sheet; colours of the palette become its variables, so that a dark page has light lines.
"""

import base64
import hashlib
import io
import re
import warnings
from html import escape

from fairanchor._plots._style import (
    FAINT,
    INK,
    MUTED,
    ON_SERIES,
    SERIES,
    SURFACE,
    import_matplotlib,
)

VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    FAINT: "var(--faint)",
    SURFACE: "var(--surface)",
    ON_SERIES: "var(--on-series)",
} | {color: f"var(--series-{i})" for i, color in enumerate(SERIES)}

SETTINGS = {
    # Text stays text: it can be searched, read aloud, and has the glyphs of the reader's fonts.
    "svg.fonttype": "none",
    "svg.hashsalt": "fairanchor",
    "font.family": ["DejaVu Sans"],
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


class StyleSheet:
    """Classes for the inline styles of all pictures of a page."""

    def __init__(self):
        self._names = {}

    def class_of(self, declarations):
        """Name of the class with these declarations."""
        declarations = _themed(declarations)
        return self._names.setdefault(declarations, f"p{len(self._names)}")

    def rules(self):
        """The classes as CSS."""
        return "\n".join(f".{name}{{{style}}}" for style, name in self._names.items())


def draw(paint, name, title, description, sheet, *, width=6.4, height=4.0):
    """Paint into new axes and return the picture as an SVG element.

    Parameters
    ----------
    paint : callable
        Draws into the axes that it is given.
    name : str
        Beginning of all ids within the picture; unique on the page.
    title, description : str
        The text alternative.
    sheet : StyleSheet
        Gets the picture's styles.
    width, height : float
        Size in inches.

    Returns
    -------
    svg : str
        An ``<svg>`` element without inline styles.
    """
    matplotlib = import_matplotlib()
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    # Only these settings count: a user's matplotlibrc must not change the report.
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        # A glyph that matplotlib's font lacks is drawn by the browser, from another font.
        warnings.filterwarnings("ignore", message=r"(?s)Glyph \d+ .*missing from font")
        figure = Figure(figsize=(width, height), layout="constrained")
        paint(figure.add_subplot())
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return _inline(buffer.getvalue(), name, title, description, sheet)


def policy_hash(text):
    """Source expression that allows exactly this style sheet."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _inline(svg, name, title, description, sheet):
    opening, body = svg[svg.index("<svg") :].split(">", 1)
    box = re.search(r'viewBox="([^"]*)"', opening).group(1)
    for part in (r"<metadata>.*?</metadata>", r"<style[^>]*>.*?</style>", r"<!--.*?-->"):
        body = re.sub(part, "", body, flags=re.DOTALL)
    used = set(re.findall(r'(?:href="|url\()#([^")]*)', body))
    # Within tags only: between them stand the user's names, which can look like attributes.
    body = re.sub(r"<[^<>]*>", lambda tag: _page_tag(tag.group(0), name, used, sheet), body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'class="picture" viewBox="{box}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-desc">{escape(description)}</desc>{body.strip()}'
    )


def _page_tag(tag, name, used, sheet):
    """A tag with ids of its own on the page, a class for its style, and short numbers."""
    if "=" not in tag:
        return tag
    tag = re.sub(
        r'\sid="([^"]*)"', lambda m: f' id="{name}-{m.group(1)}"' if m.group(1) in used else "", tag
    )
    tag = tag.replace('href="#', f'href="#{name}-').replace("url(#", f"url(#{name}-")
    tag = re.sub(r'\sstyle="([^"]*)"', lambda m: f' class="{sheet.class_of(m.group(1))}"', tag)
    tag = re.sub(r'\s(?:d|x|y|transform)="[^"]*"', _with_two_decimals, tag)
    return re.sub(r"\s+", " ", tag)


def _with_two_decimals(match):
    return re.sub(r"(\d\.\d\d)\d+", r"\1", match.group(0))


def _themed(declarations):
    for color, variable in VARIABLES.items():
        declarations = declarations.replace(color, variable)
    return declarations.replace("'DejaVu Sans'", "'DejaVu Sans',Verdana,sans-serif").strip()
