"""Children of this process that run a function and may be killed, limited or crash.

They are forked, so that libraries are loaded and kernels compiled before the first moment that is
disturbed: every kill hits the work itself, not the start of Python.
"""

import multiprocessing
import os
import resource
import signal
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

FORK = multiprocessing.get_context("fork")
LONGEST = 300.0


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code (negative: a signal), what it said, and its seconds."""

    code: int
    said: str
    seconds: float


def start(function, *arguments, said):
    """A forked child that runs ``function(*arguments)`` with both outputs in the file ``said``."""
    process = FORK.Process(target=_redirected, args=(said, function, arguments))
    with warnings.catch_warnings():
        # Newer Pythons warn of forks in a process with threads; ours are idle.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


def run(function, *arguments, said, kill_when=None):
    """Run a child to its end, or until ``kill_when()`` is true.

    Parameters
    ----------
    function : callable
    *arguments
    said : Path
        File of its standard output and error.
    kill_when : callable, default=None
        Asked again and again while the child runs.

    Returns
    -------
    ended : Ended
    """
    began = time.perf_counter()
    process = start(function, *arguments, said=said)
    while process.exitcode is None and kill_when is not None and not kill_when():
        time.sleep(0.0005)
    if kill_when is not None and process.exitcode is None:
        os.kill(process.pid, signal.SIGKILL)
    process.join(LONGEST)
    if process.exitcode is None:
        process.kill()
        process.join()
        return Ended(-signal.SIGALRM, "it hung", time.perf_counter() - began)
    return Ended(process.exitcode, said.read_text("utf-8", "replace"), time.perf_counter() - began)


def _redirected(said, function, arguments):
    with Path(said).open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    # The parent may have put others in their place, as pytest does.
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", buffering=1, closefd=False)
    function(*arguments)


def command_line(*arguments):
    """The command line of the library, in a child: ends the child with its exit code."""
    from fairanchor.cli import main

    main([str(argument) for argument in arguments], prog_name="fairanchor")


def command_in_chunks(chunk_rows, *arguments):
    """`command_line` with chunks so small that a small folder has several."""
    from fairanchor.cluster._large_scale import LargeScaleClusterer

    LargeScaleClusterer._chunk_rows = chunk_rows
    command_line(*arguments)


def command_with_small_files(largest, *arguments):
    """`command_line` whose files cannot grow beyond a size, as on a disk that is full there."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    command_line(*arguments)


def command_with_full_disk(call, *arguments):
    """`command_line` on a disk that is full when a function of `os` is called the n-th time."""
    name, remaining = call
    real = getattr(os, name)

    def full(*given, **options):
        nonlocal remaining
        remaining -= 1
        if remaining == 0:
            raise OSError(28, "No space left on device")
        return real(*given, **options)

    setattr(os, name, full)
    command_line(*arguments)
