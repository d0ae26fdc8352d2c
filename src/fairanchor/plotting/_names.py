"""Names of groups, clusters and features as text that is safe and short enough to show.

Names come from the user's data: they can be tuples, missing, very long, or made to mislead.
"""

import unicodedata
from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np

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


def feature_names_of(X: Any, names: Iterable[Any] | None) -> list[Any]:
    """The names, by default those of the columns of X, or "feature 0" and so on."""
    n_features = np.shape(X)[1]
    if names is None:
        names = getattr(X, "column_names", getattr(X, "columns", None))
    names = [f"feature {j}" for j in range(n_features)] if names is None else list(names)
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} entries, expected {n_features}.")
    return names


def _visible(character: str) -> str:
    if character in "\t\n\r":
        return " "
    if character in REORDERING or unicodedata.category(character) in {"Cc", "Cs", "Co", "Cn"}:
        return f"\\u{ord(character):04x}"
    return character
