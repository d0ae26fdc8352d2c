"""Values to JSON and back, type included: a group called 1 is not a group called "1"."""

import datetime as dt

import numpy as np


def to_plain(value):
    """A structure of JSON types from which `from_plain` makes an equal value."""
    if isinstance(value, np.generic) and not isinstance(value, (np.datetime64, np.timedelta64)):
        value = value.item()
    if value is None or isinstance(value, (str, bool, int)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"float": repr(value)}
    if isinstance(value, tuple):
        return {"tuple": [to_plain(item) for item in value]}
    if isinstance(value, list):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {"dict": [[to_plain(key), to_plain(item)] for key, item in value.items()]}
    for kind, (type_, write, _) in _TAGGED.items():
        if isinstance(value, type_):
            return {kind: write(value)}
    raise TypeError(
        f"{value!r} is a {type(value).__name__}, which a model file cannot hold: expected text, "
        "numbers, booleans, dates, or tuples of these."
    )


def from_plain(plain):
    """Inverse of `to_plain`; anything else is an error."""
    if isinstance(plain, list):
        return [from_plain(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if len(plain) != 1:
        raise ValueError(f"Expected one type and its value, got {sorted(plain)[:5]}.")
    [(kind, content)] = plain.items()
    if kind == "tuple":
        return tuple(from_plain(item) for item in content)
    if kind == "dict":
        return {from_plain(key): from_plain(item) for key, item in content}
    if kind == "float":
        return float(content)
    if kind in _TAGGED:
        return _TAGGED[kind][2](content)
    raise ValueError(f"There is no type {kind!r}.")


def _numpy_time(value):
    # Integers in their unit: text would lose nanoseconds of a duration.
    return [str(value.dtype), int(value.astype(np.int64))]


def _to_numpy_time(pair):
    name, count = pair
    dtype = np.dtype(name)
    if dtype.kind not in "mM":
        raise ValueError(f"{name!r} is neither a time nor a duration.")
    return np.int64(count).astype(dtype)


# A datetime is a date to isinstance, so it comes first.
_TAGGED = {
    "numpy_time": ((np.datetime64, np.timedelta64), _numpy_time, _to_numpy_time),
    "datetime": (dt.datetime, lambda value: value.isoformat(), dt.datetime.fromisoformat),
    "date": (dt.date, lambda value: value.isoformat(), dt.date.fromisoformat),
}
