"""From a table on disk to rows and groups, and back to a table of labels.

The path of the data: `open_table` looks at a file, `choose_columns` says what each column is
for, `learn_groups` and `Preprocessing` make groups and numbers of the columns, `write_table`
writes the result, whole or not at all. Names are imported when first used: pyarrow takes a
third of a second.
"""

from importlib import import_module

_NAMES = {
    "GroupRule": "_grouping",
    "Preprocessing": "_preprocessing",
    "Roles": "_roles",
    "TableSource": "_read",
    "check_output": "_files",
    "choose_columns": "_roles",
    "learn_groups": "_grouping",
    "open_table": "_read",
    "replacing": "_files",
    "write_table": "_write",
}

__all__ = sorted(_NAMES)


def __getattr__(name):
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__
