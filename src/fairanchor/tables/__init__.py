"""From a table on disk to rows and groups, and back to a table of labels.

The path of the data: `open_table` looks at a file, `choose_columns` says what each column is
for, `learn_groups` and `Preprocessing` make groups and numbers of the columns, `write_table`
writes the result, whole or not at all. Names are imported when first used: pyarrow takes a
third of a second.
"""

from importlib import import_module

_NAMES = {
    "GroupRule": "fairanchor.tables._grouping",
    "Preprocessing": "fairanchor.tables._preprocessing",
    "Roles": "fairanchor.tables._roles",
    "TableSource": "fairanchor.tables._read",
    "check_output": "fairanchor._utils._files",
    "choose_columns": "fairanchor.tables._roles",
    "learn_groups": "fairanchor.tables._grouping",
    "open_table": "fairanchor.tables._read",
    "replacing": "fairanchor._utils._files",
    "write_table": "fairanchor.tables._write",
}

__all__ = sorted(_NAMES)


def __getattr__(name):
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__
