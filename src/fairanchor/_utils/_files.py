"""Files that appear under their name only when they are complete."""

import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TextIO

from fairanchor._utils._typing import Path as PathName


def check_output(path: PathName, *, force: bool = False) -> None:
    """Raise an error for a path that could not be written later; ``-`` is standard output."""
    if str(path) == "-":
        return
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory, expected the name of a file to write.")
    if path.exists() and not force:
        if is_device(path):
            return
        raise FileExistsError(f"{path} exists already. Use force=True to replace it.")
    parent = _target(path).parent
    if not parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: the directory {parent} does not exist.")
    if not is_device(path) and not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{path} cannot be written: the directory {parent} is not writable.")


def json_beside(path: PathName) -> Path:
    """The JSON file that belongs to a report."""
    beside = Path(path).with_suffix(".json")
    if beside == Path(path):
        raise ValueError(f"The report {path}: expected a name that ends in .html.")
    return beside


@contextmanager
def replacing(path: PathName, *, force: bool = False) -> Iterator[IO[bytes]]:
    """Open a binary file that takes the place of ``path`` if the block ends without an error.

    The data go to a temporary file in the same directory, are forced to the disk, and only then
    get their name: a full disk or an interrupt leaves what was there before. A new file has the
    permissions that the umask grants, a replaced one those it had. A device or a named pipe is
    written as it is. ``force`` allows to replace an existing file.
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
        _sync_directory(target.parent)


def write_bytes(path: PathName, content: bytes, *, force: bool = False) -> None:
    """Write a file at once, as `replacing` does."""
    with replacing(path, force=force) as file:
        file.write(content)


@contextmanager
def standard_output() -> Iterator[TextIO]:
    """Write to standard output; an error names it, and is not repeated when Python ends."""
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


def is_device(path: PathName) -> bool:
    """Whether the path exists and is a terminal, a pipe or the like."""
    path = Path(path)
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let errors of writing name the file: that of a full disk does not."""
    try:
        yield
    except OSError as error:
        about_another_file = error.filename is not None and ".partial" not in str(error.filename)
        if about_another_file or str(path) in str(error):
            raise
        if error.errno is None:
            raise OSError(f"{path} could not be written: {error}") from error
        raise OSError(error.errno, f"could not be written: {error.strerror}", str(path)) from error


def _target(path: Path) -> Path:
    """Where a link points to: the link itself must stay a link."""
    return Path(os.path.realpath(path))


def _sync_directory(directory: Path) -> None:
    if os.name != "posix":
        return
    # The file is in its place; not every file system lets its directory be synced.
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
