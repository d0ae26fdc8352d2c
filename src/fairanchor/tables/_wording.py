"""Words of messages: names and values of the data, which may be very long or unprintable."""

import shlex
from typing import Any


class RequestError(ValueError):
    """Command-line arguments that contradict each other, whatever the data are."""


def counted(number: int, noun: str) -> str:
    """``1 row``, ``2,000 rows``.

    Examples
    --------
    >>> counted(1, "group"), counted(2000, "group")
    ('1 group', '2,000 groups')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def quoted(value: Any, at_most: int = 60) -> str:
    """A name or value of the data in quotes, without control characters, cut if it is long.

    Examples
    --------
    >>> print(quoted("two\\nlines"), quoted("x" * 70, at_most=5))
    'two\\nlines' 'xxxx…'
    """
    if isinstance(value, str) and len(value) > at_most:
        value = value[: at_most - 1] + "…"
    return repr(value)


def typed(name: str) -> str:
    """A name as it is typed after an option.

    Examples
    --------
    >>> typed("age"), typed("monthly income"), typed("")
    ('age', "'monthly income'", "''")
    """
    return shlex.quote(name) if name.isprintable() and len(name) <= 60 else quoted(name)
