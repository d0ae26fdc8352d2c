"""Files that appear under their name only when they are complete."""

import os
import secrets
import stat
from contextlib import contextmanager
from pathlib import Path


def check_output(path, *, force=False):
    """Refuse a path that could not be written later, before any work is done for it.

    Parameters
    ----------
    path : str or path-like
        ``-``, standard output, is always accepted.
    force : bool, default=False
        Whether an existing file may be replaced.
    """
    if str(path) == "-":
        return
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, expected the name of a file to write.")
    if path.exists() and not force:
        if is_device(path):
            return
        raise FileExistsError(f"{path} exists already. Use --force to replace it (force=True).")
    folder = _target(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder} to write {path.name} in.")
    if not is_device(path) and not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"The folder {folder} of {path.name} is not writable.")


@contextmanager
def replacing(path, *, force=False):
    """Open a binary file that takes the place of ``path`` if the block ends without an error.

    The data go to a temporary file in the same folder, are forced to the disk, and only then
    get their name: a full disk or an interrupt leaves what was there before. A device or a
    named pipe is written as it is.

    Parameters
    ----------
    path : str or path-like
    force : bool, default=False
        Whether an existing file may be replaced.

    Yields
    ------
    file : binary file object
    """
    check_output(path, force=force)
    path = Path(path)
    if is_device(path):
        with path.open("wb") as file:
            yield file
        return
    target = _target(path)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            check_output(path, force=force)  # it may have appeared in the meantime
            partial.chmod(stat.S_IMODE(target.stat().st_mode))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    _sync_folder(target.parent)


def _target(path):
    """Where a link points to: the link itself must stay a link."""
    return Path(os.path.realpath(path))


def is_device(path):
    """Whether the path exists and is a terminal, a pipe or the like."""
    path = Path(path)
    return path.exists() and not path.is_file() and not path.is_dir()


def _sync_folder(folder):
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
