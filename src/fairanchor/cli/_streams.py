"""Standard output for nothing but results."""

import ctypes
import os
import sys
from contextlib import contextmanager, suppress

STANDARD_OUTPUT, STANDARD_ERROR = 1, 2


@contextmanager
def output_for_results_only():
    """Send what compiled libraries print to standard error.

    HiGHS has lines that no option silences: once in about a thousand tiny integer programs one
    would stand in the middle of ``--json`` or of labels that are written to ``-``.
    """
    if not _is_ours():
        yield
        return
    sys.stdout.flush()
    kept, before = os.dup(STANDARD_OUTPUT), sys.stdout
    buffering = 1 if before.line_buffering else -1
    sys.stdout = open(kept, "w", buffering, before.encoding, "backslashreplace")  # noqa: SIM115
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
    try:
        os.fstat(STANDARD_ERROR)
        return sys.stdout.fileno() == STANDARD_OUTPUT
    except (AttributeError, OSError, ValueError):
        return False


def _flush_compiled_libraries():
    """Write what the C library has not written yet, while it goes to standard error."""
    with suppress(OSError, AttributeError, TypeError):  # not every system has one to ask
        ctypes.CDLL(None).fflush(None)
