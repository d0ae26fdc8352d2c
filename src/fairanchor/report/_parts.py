"""What panels are made of, and how numbers are written in them."""

from dataclasses import dataclass, field
from numbers import Integral

from fairanchor.plotting._names import display_name


@dataclass(frozen=True)
class Picture:
    """An SVG element with its caption."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column names the row."""

    caption: str
    header: list
    rows: list


@dataclass(frozen=True)
class Code:
    """Lines to be copied, as they are."""

    caption: str
    text: str


@dataclass(frozen=True)
class Panel:
    """A section of the report; tables go beside the picture if both are narrow."""

    key: str
    title: str
    text: list
    pictures: list = field(default_factory=list)
    tables: list = field(default_factory=list)
    beside: bool = False
    codes: list = field(default_factory=list)


def named(kind, name):
    """``cluster 3``, ``group “women”``: names that are words stand in quotes."""
    text = display_name(name, 60)
    return f"{kind} {text}" if isinstance(name, Integral) else f"{kind} “{text}”"


def cell_text(count, share):
    """A share with the count behind it."""
    return f"{share:.1%} ({count_text(count)})"


def count_text(value):
    """A number of rows, or a weight."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def figure_text(value):
    """Any other number; a dash if it is not known."""
    return "–" if value is None else f"{value:,.6g}"


def score_text(value):
    """A measure with four decimals; 1.0000 means reached, not nearly so."""
    return f"{value if value >= 1.0 else min(value, 0.9999):.4f}"


def share_of_best(part, whole):
    """Percentage of the best possible; 100.0% means reached, not nearly so."""
    return f"{1.0 if part >= whole else min(part / whole, 0.999):.1%}"
