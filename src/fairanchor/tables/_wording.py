"""Words of messages: names and values of the data, which may be very long or unprintable."""

import shlex
from typing import Any


def counted(number: int, noun: str) -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def quoted(value: Any, at_most: int = 60) -> str:
    """A name or value in quotes, without control characters, cut if it is long."""
    if isinstance(value, str) and len(value) > at_most:
        value = value[: at_most - 1] + "…"
    return repr(value)


def typed(name: str) -> str:
    """A name as it is typed after an option."""
    return shlex.quote(name) if name.isprintable() and len(name) <= 60 else quoted(name)
