"""Words of messages: names and values of the data, which may be endless or unprintable."""

import shlex


class RequestError(ValueError):
    """What was asked for contradicts itself, whatever the data: wrong usage, not bad data."""


def counted(number, noun):
    """``1 row``, ``2,000 rows``.

    Examples
    --------
    >>> counted(1, "group"), counted(2000, "group")
    ('1 group', '2,000 groups')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def quoted(value, at_most=60):
    """A name or value of the data in quotes, without control characters, cut if it is long.

    Examples
    --------
    >>> print(quoted("two\\nlines"), quoted("x" * 70, at_most=5))
    'two\\nlines' 'xxxx…'
    """
    if isinstance(value, str) and len(value) > at_most:
        value = value[: at_most - 1] + "…"
    return repr(value)


def typed(name):
    """A name as it is typed after an option, if a shell can take it.

    Examples
    --------
    >>> typed("age"), typed("monthly income"), typed("")
    ('age', "'monthly income'", "''")
    """
    return shlex.quote(name) if name.isprintable() and len(name) <= 60 else quoted(name)
