"""Standard output for nothing but results."""

import ctypes
import os
import sys
from contextlib import contextmanager, suppress

STANDARD_OUTPUT, STANDARD_ERROR = 1, 2
# Names by which a file can be written to standard output.
OUTPUT_NAMES = {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}


@contextmanager
def output_for_results_only():
    """Send what compiled libraries print to standard error.

    HiGHS has lines that no option silences: once in about a thousand tiny integer programs one
    would stand in the middle of ``--json`` or of labels that are written to ``-``. Not where an
    argument of the command is a name of standard output itself, which would change its meaning.
    """
    if not _is_ours():
        yield
        return
    sys.stdout.flush()
    kept, before = os.dup(STANDARD_OUTPUT), sys.stdout
    buffering = 1 if getattr(before, "line_buffering", False) else -1
    encoding = getattr(before, "encoding", None)
    sys.stdout = open(kept, "w", buffering, encoding, "backslashreplace")  # noqa: SIM115
    os.dup2(STANDARD_ERROR, STANDARD_OUTPUT)
    try:
        yield
    finally:
        _flush_compiled_libraries()
        try:
            sys.stdout.flush()
        finally:
            os.dup2(kept, STANDARD_OUTPUT)
            with suppress(OSError):  # nobody reads any more, which the flush has said
                sys.stdout.close()
            sys.stdout = before


def _is_ours():
    """Whether results go where compiled libraries print to, and there is another place."""
    if any(argument.partition("=")[2] in OUTPUT_NAMES or argument in OUTPUT_NAMES
           for argument in sys.argv[1:]):  # fmt: skip
        return False
    try:
        os.fstat(STANDARD_ERROR)
        return sys.stdout.fileno() == STANDARD_OUTPUT
    except (AttributeError, OSError, ValueError):
        return False


def _flush_compiled_libraries():
    """Write what the C library has not written yet, while it goes to standard error."""
    with suppress(OSError, AttributeError, TypeError):  # not every system has one to ask
        ctypes.CDLL(None).fflush(None)
