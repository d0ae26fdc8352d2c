"""From a table on disk to rows and groups, and back to a table of labels.

`open_table` opens a file, `choose_columns` gives every column a role, `Preprocessing` turns the
features into numbers, and `write_table` writes a table completely or not at all. Names are
imported when they are first used, because importing pyarrow takes a third of a second.
"""

from importlib import import_module
from typing import Any

_NAMES = {
    "Preprocessing": "fairanchor.tables._preprocessing",
    "Roles": "fairanchor.tables._roles",
    "TableSource": "fairanchor.tables._read",
    "choose_columns": "fairanchor.tables._roles",
    "open_table": "fairanchor.tables._read",
    "write_table": "fairanchor.tables._write",
}

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
