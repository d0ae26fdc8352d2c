"""Names of groups, clusters and features as text that is safe and short enough to show.

Names come from the user's data: they can be tuples, missing, very long, or made to mislead.
"""

import unicodedata
from collections.abc import Iterable
from numbers import Integral
from typing import Any

# Characters that reorder the text around them, so that a name can pass for another one.
REORDERING = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def display_name(value: object, at_most: int = 200) -> str:
    """Text of a name: one line, at most so long, without control or reordering characters."""
    if value is None:
        return "(missing)"
    if isinstance(value, tuple):
        text = " × ".join(display_name(part, at_most) for part in value)
    else:
        text = "".join(map(_visible, str(value))).strip() or "(empty)"
    return text if len(text) <= at_most else text[: at_most - 1].rstrip() + "…"


def quoted_name(kind: str, name: object) -> str:
    """``cluster 3``, ``group “women”``: names that are words are in quotes."""
    text = display_name(name, 60)
    return f"{kind} {text}" if isinstance(name, Integral) else f"{kind} “{text}”"


def plot_name(value: object, at_most: int = 28) -> str:
    """A name for matplotlib, cut in the middle because long names often differ at their end."""
    text = display_name(value)
    if len(text) > at_most:
        end = at_most // 2
        text = f"{text[: at_most - end - 1].rstrip()}…{text[-end:].lstrip()}"
    return text.replace("$", r"\$")  # text between dollars would be set as a formula


def display_lines(text: object) -> str:
    """A text with its lines and their indentation, all other control characters made visible."""
    return "\n".join("".join(map(_visible, line)) for line in str(text).expandtabs(4).split("\n"))


def column_names(X: Any) -> list[Any] | None:
    """Column names of a data frame or an Arrow table; None for anything else."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else list(names)


def check_names(
    names: Iterable[Any] | None, parameter: str, expected: int, *, at_least: bool = False
) -> list[Any]:
    """Names as a list, by default 0, 1, ...; another number of names raises an error."""
    if names is None:
        return list(range(expected))
    names = list(names)
    if len(names) < expected or (len(names) > expected and not at_least):
        number = f"at least {expected}" if at_least else f"{expected}"
        raise ValueError(f"{parameter} has {len(names)} entries, expected {number}.")
    return names


def _visible(character: str) -> str:
    if character in "\t\n\r":
        return " "
    if character in REORDERING or unicodedata.category(character) in {"Cc", "Cs", "Co", "Cn"}:
        return f"\\u{ord(character):04x}"
    return character
