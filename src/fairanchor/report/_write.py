"""A text file that appears whole or not at all."""

import os
import stat
import tempfile
from pathlib import Path

from fairanchor.tables._files import is_device


def check_target(path, *, force):
    """Refuse an output path that cannot, or must not, be written."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of the report's file.")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"{path} cannot be written: the folder {path.parent} does not exist."
        )
    if path.exists() and not force and not is_device(path):
        raise FileExistsError(
            f"{path} exists already and is left as it is: use force=True (--force on the command "
            "line) to replace it, or give another name."
        )
    return path


def write_text(path, text, *, force=False):
    """Write UTF-8 text under a temporary name in the same folder, then rename it.

    Whatever goes wrong, a full disk included, an older file of that name stays as it was.
    """
    path = check_target(path, force=force)
    if is_device(path):  # to be written to, not to be replaced
        path.write_text(text, encoding="utf-8")
        return
    # A link keeps pointing at its file, which is what gets replaced.
    final = path.resolve()
    handle, temporary = tempfile.mkstemp(prefix=f".{final.name}.", suffix=".tmp", dir=final.parent)
    try:
        with open(handle, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(final))
        os.replace(temporary, final)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync_folder(final.parent)


def _mode(path):
    """Permissions of the file that is replaced, or those of any new file."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder):
    """Make the new name durable, where the system lets a folder be opened."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
