"""Checks of arguments that the generators share."""

from numbers import Integral


def check_count(name, value, *, minimum):
    """``value`` as an int; refuse anything but an integer of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}={value!r} should be an integer, got {type(value).__name__}.")
    if value < minimum:
        raise ValueError(f"{name}={value} should be >= {minimum}.")
    return int(value)


def check_option(name, value, options):
    """Refuse a ``value`` that is not one of ``options``."""
    if value not in options:
        raise ValueError(f"{name}={value!r} should be one of {list(options)}.")
