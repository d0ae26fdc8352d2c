"""From a matplotlib figure to SVG that lives inside a page.

The page's policy forbids inline styles, so they become presentation attributes; colours of the
palette become variables of the style sheet, so that a dark page has light lines.
"""

import base64
import hashlib
import io
import warnings
import xml.etree.ElementTree as ET

from fairanchor.plotting._style import (
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


def draw(paint, name, title, description, *, width=6.4, height=4.0):
    """Paint into new axes and return the picture as an SVG element.

    Parameters
    ----------
    paint : callable
        Draws into the axes that it is given.
    name : str
        Unique on the page: ids within the picture depend on it.
    title, description : str
        The text alternative.
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
        matplotlib.rcParams.update(SETTINGS | {"svg.hashsalt": name})
        # A glyph that matplotlib's font lacks is drawn by the browser, from another font.
        warnings.filterwarnings("ignore", message=r"(?s)Glyph \d+ .*missing from font")
        figure = Figure(figsize=(width, height), layout="constrained")
        paint(figure.add_subplot())
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return _inline(buffer.getvalue(), name, title, description)


def policy_hash(text):
    """Source expression that allows exactly this style sheet."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _inline(svg, name, title, description):
    # Parsing is safe: matplotlib wrote the text, and escaped all names in it.
    root = ET.fromstring(svg)  # nosec B314
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        _rewrite(element)
    root.attrib = {
        "class": "picture",
        "viewBox": root.get("viewBox"),
        "role": "img",
        "aria-labelledby": f"{name}-title {name}-desc",
    }
    for position, (tag, text) in enumerate([("title", title), ("desc", description)]):
        alternative = ET.Element(tag, id=f"{name}-{tag}")
        alternative.text = text
        root.insert(position, alternative)
    return ET.tostring(root, encoding="unicode")


def _rewrite(element):
    """Drop namespaces and unused ids, and turn the style into attributes."""
    _, _, element.tag = element.tag.rpartition("}")
    for name in list(element.attrib):
        if "}" in name:
            element.set(name.rpartition("}")[2], element.attrib.pop(name))
    # Nothing refers to groups, and their ids are the same in every figure.
    if element.tag == "g":
        element.attrib.pop("id", None)
    style = element.attrib.pop("style", "")
    for declaration in filter(None, style.split(";")):
        name, _, value = map(str.strip, declaration.partition(":"))
        if name == "font":  # matplotlib 3.10: "700 10px 'DejaVu Sans'"
            *weight, size = value.partition("px")[0].split()
            element.attrib |= {"font-size": f"{size}px", "font-weight": " ".join(weight) or "400"}
        else:
            element.set(name, VARIABLES.get(value, value))
