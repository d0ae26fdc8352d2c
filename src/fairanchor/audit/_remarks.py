"""Groups that are probably not what was meant: misspelt names, a handful of rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairanchor.plotting._names import display_name

TINY_SHARE = 0.001
MOST_NAMES = 5


def group_remarks(names: Sequence[Any], sizes: Any) -> list[str]:
    """Sentences on names that differ in case or spaces only, and on tiny groups."""
    sizes = np.asarray(sizes, dtype=float)
    alike: dict[Any, list[int]] = {}
    for r, name in enumerate(names):
        if name is not None:
            alike.setdefault(_plain(name), []).append(r)
    remarks = []
    several = [group for group in alike.values() if len(group) > 1]
    for group in several[:MOST_NAMES]:
        first, *others = sorted(group, key=lambda r: -sizes[r])
        listed = ", ".join(f"“{_shown(names[r])}” ({sizes[r]:,.8g} rows)" for r in others)
        remarks.append(
            f"The groups {listed} and “{_shown(names[first])}” ({sizes[first]:,.8g} rows) "
            "differ in capital letters or spaces only: they may be one group."
        )
    if len(several) > MOST_NAMES:
        remarks.append(f"{len(several) - MOST_NAMES} more names occur in several such spellings.")
    tiny = [r for r in range(len(names)) if 0 < sizes[r] < TINY_SHARE * sizes.sum()]
    if tiny:
        listed = ", ".join(f"“{display_name(names[r], 40)}”" for r in tiny[:MOST_NAMES])
        more = f" and {len(tiny) - MOST_NAMES} more" if len(tiny) > MOST_NAMES else ""
        plural = "s have" if len(tiny) > 1 else " has"
        remarks.append(
            f"{len(tiny)} group{plural} fewer than {TINY_SHARE:.1%} of the rows ({listed}{more}): "
            "a share of so few rows changes with every single one."
        )
    return remarks


def _plain(name: Any) -> Any:
    if isinstance(name, tuple):
        return tuple(map(_plain, name))
    return " ".join(str(name).split()).casefold()


def _shown(name: Any) -> str:
    """A name with its spaces, which may be all that distinguishes it."""
    text = str(name)
    return display_name(name, 40) if text.strip() == text else f"{text!r}"
