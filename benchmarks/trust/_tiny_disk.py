"""A file system of a megabyte that really is full: the system refuses to write, not a stand-in."""

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

SIZE = 2**20
BALLAST = ".ballast"


class CannotMountError(Exception):
    """This user, or this container, may not mount file systems."""


@contextmanager
def tiny_disk(folder):
    """Mount an empty file system of a megabyte at a new folder, and take it away at the end.

    Parameters
    ----------
    folder : Path

    Yields
    ------
    folder : Path

    Raises
    ------
    CannotMountError
        Where that is not permitted.
    """
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if mount is None or unmount is None:
        raise CannotMountError("there is no program that mounts file systems")
    folder = Path(folder)
    folder.mkdir()
    command = [mount, "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        folder.rmdir()
        raise CannotMountError("mounting a file system is not permitted")
    try:
        yield folder
    finally:
        # Lazily if need be: a process that still has a file there must not hide what happened.
        if subprocess.run([unmount, folder], check=False).returncode != 0:
            subprocess.run([unmount, "--lazy", folder], check=True)
        folder.rmdir()


def fill(folder, leave):
    """Fill a file system until so many bytes are free, in whole blocks; returns how many are."""
    ballast = Path(folder) / BALLAST
    ballast.unlink(missing_ok=True)
    block = os.statvfs(folder).f_frsize
    excess = free_bytes(folder) - leave
    with ballast.open("wb") as file:
        file.write(bytes(max(0, excess // block * block)))
    return free_bytes(folder)


def free_bytes(folder):
    """Bytes that a file of this user can still take."""
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize
