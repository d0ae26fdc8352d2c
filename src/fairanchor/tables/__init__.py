"""From a table on disk to rows and groups, and back to a table of labels.

`_read` opens a file or a directory, `_roles` gives every column a role, `_preprocessing` turns the
features into numbers, `_load` does all three, and `_write` writes a table completely or not at all.
"""

from typing import Any

__all__ = ["Preprocessing"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # loads pyarrow
        from fairanchor.tables._preprocessing import Preprocessing

        return Preprocessing
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
