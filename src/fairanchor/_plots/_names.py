"""Names of groups, clusters and features as text that is safe and short enough to show.

Names come from the user's data: they can be tuples, missing, endless, or made to mislead.
"""

import unicodedata

# Characters that reorder the text around them, so that a name can pass for another one.
REORDERING = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def display_name(value, at_most=200):
    """Text of a name: one line, no control or reordering characters, at most so long."""
    if value is None:
        return "(missing)"
    if isinstance(value, tuple):
        return _shortened(" × ".join(display_name(part, at_most) for part in value), at_most)
    text = "".join(_visible(character) for character in str(value))
    return _shortened(text.strip() or "(empty)", at_most)


def plot_name(value, at_most=28):
    """`display_name` for matplotlib, which would set text between dollars as a formula."""
    return display_name(value, at_most).replace("$", r"\$")


def _visible(character):
    if character in "\t\n\r":
        return " "
    if character in REORDERING or unicodedata.category(character) in {"Cc", "Cs", "Co", "Cn"}:
        return f"\\u{ord(character):04x}"
    return character


def _shortened(text, at_most):
    return text if len(text) <= at_most else text[: at_most - 1].rstrip() + "…"
