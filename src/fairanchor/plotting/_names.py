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


def tick_name(value, at_most=20):
    """`plot_name` beside an axis: cut in the middle, for long names often differ at their end."""
    text = display_name(value)
    if len(text) > at_most:
        end = at_most // 2
        text = f"{text[: at_most - end - 1].rstrip()}…{text[-end:].lstrip()}"
    return text.replace("$", r"\$")


def display_lines(text):
    """The lines of a text, indented as they are, with all but tabs and line ends visible."""
    return ["".join(map(_visible, line.expandtabs(4))) for line in str(text).split("\n")]


def check_names(names, title, expected, of, *, at_least=False):
    """Names as a list, or None; an error if there are not as many as things to be named."""
    if names is None:
        return None
    listed = list(names)
    if len(listed) != expected and not (at_least and len(listed) > expected):
        number = f"at least {expected}" if at_least else f"{expected}"
        raise ValueError(f"{title} has {len(listed)} entries, expected {number}, as many as {of}.")
    return listed


def _visible(character):
    if character in "\t\n\r":
        return " "
    if character in REORDERING or unicodedata.category(character) in {"Cc", "Cs", "Co", "Cn"}:
        return f"\\u{ord(character):04x}"
    return character


def _shortened(text, at_most):
    return text if len(text) <= at_most else text[: at_most - 1].rstrip() + "…"
