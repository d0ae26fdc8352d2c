"""Files that appear under their name only when they are complete."""

import errno
import os
import secrets
import stat
import sys
from contextlib import contextmanager, suppress
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
        raise FileExistsError(f"{path} exists already. Use force=True to replace it.")
    folder = _target(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: the folder {folder} does not exist.")
    if not is_device(path) and not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{path} cannot be written: the folder {folder} is not writable.")


@contextmanager
def replacing(path, *, force=False):
    """Open a binary file that takes the place of ``path`` if the block ends without an error.

    The data go to a temporary file in the same folder, are forced to the disk, and only then
    get their name: a full disk or an interrupt leaves what was there before. A new file has the
    permissions that the umask grants, a replaced one those it had. A device or a named pipe is
    written as it is.

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
    with _naming(path):
        if is_device(path):
            with path.open("wb") as file:
                yield file
            return
        target = _target(path)
        # Not made of the target's name, which may be as long as names can be.
        partial = target.with_name(f".fairanchor-{secrets.token_hex(6)}.partial")
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


def write_bytes(path, content, *, force=False):
    """Write a file at once, as `replacing` does.

    Parameters
    ----------
    path : str or path-like
    content : bytes
    force : bool, default=False
        Whether an existing file may be replaced.
    """
    with replacing(path, force=force) as file:
        file.write(content)


@contextmanager
def standard_output():
    """Write to standard output; an error names it, and is not repeated when Python ends.

    Yields
    ------
    file : text file object
    """
    if sys.stdout is None:
        raise ValueError("Standard output is closed: there is nowhere to write the result.")
    try:
        yield sys.stdout
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError, ValueError):  # what is left in the buffer would fail again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno in (None, errno.EPIPE):
            raise
        raise OSError(error.errno, error.strerror, "standard output") from error


def is_device(path):
    """Whether the path exists and is a terminal, a pipe or the like."""
    path = Path(path)
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def _naming(path):
    """Let errors of writing say which file they are about: a full disk does not."""
    try:
        yield
    except OSError as error:
        about_another_file = error.filename is not None and ".partial" not in str(error.filename)
        if about_another_file or str(path) in str(error):
            raise
        if error.errno is None:
            raise OSError(f"{path} could not be written: {error}") from error
        raise OSError(error.errno, f"could not be written: {error.strerror}", str(path)) from error


def _target(path):
    """Where a link points to: the link itself must stay a link."""
    return Path(os.path.realpath(path))


def _sync_folder(folder):
    if os.name != "posix":
        return
    # The file is in its place; not every file system lets its folder be synced.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
