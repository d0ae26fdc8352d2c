"""What reaches the terminal: errors as one line, results only on standard output, progress."""

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

INTERRUPTED = 130
# Errors of bad data and full disks; anything else is a defect and shows its traceback.
EXPECTED_ERRORS = (ValueError, OSError, ImportError, MemoryError, RuntimeError)
# The library names its parameters, the command line its options.
OPTIONS = {
    r"missing_groups='own_group'": "--missing own-group",
    r"set_params\(unknown_groups='blind'\)": "--unknown-groups blind",
    r"force=True": "--force",
    r"\bn_clusters\b": "--clusters",
    r"\bmin_cluster_size\b": "--min-size",
    r"\brandom_state\b": "--seed",
    r"\bn_jobs\b": "--jobs",
    r"\bsensitive_features\b": "the sensitive column",
    r"\b(tolerance|attributes|clusterer)=": r"--\1=",
}
STANDARD_OUTPUT, STANDARD_ERROR = 1, 2
# Names by which a file can be written to standard output.
OUTPUT_NAMES = {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}


@contextmanager
def errors_as_one_line() -> Iterator[None]:
    """Run a command with the exit codes of the help."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("\nInterrupted. No incomplete file is left.", err=True)
        sys.exit(INTERRUPTED)
    except (click.exceptions.Exit, click.Abort, BrokenPipeError):
        # The last means that the reader of our output has gone, as head does: click ends silently.
        raise
    except EXPECTED_ERRORS as error:
        if os.environ.get("FAIRANCHOR_TRACEBACK"):
            raise
        raise _one_line(error) from error


def _one_line(error: Exception) -> click.ClickException:
    from fairanchor.tables._wording import RequestError

    if isinstance(error, RequestError):
        return click.UsageError(printable(error), _context())
    message = str(error)
    if isinstance(error, MemoryError):
        message = f"There is not enough memory. {message}".strip()
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return click.ClickException(printable(with_options(message)) or type(error).__name__)


def _context() -> click.Context | None:
    """That of the command that failed, which click has left already."""
    context = click.get_current_context(silent=True)
    name = context and context.invoked_subcommand
    if context is None or not name:
        return context
    group: Any = context.command
    return click.Context(group.get_command(context, name), context, info_name=name)


def with_options(message: str) -> str:
    """A message of the library with options of the command line in place of parameters."""
    for parameter, option in OPTIONS.items():
        message = re.sub(parameter, option, message)
    return message


def printable(text: Any) -> str:
    """Text in which nothing can move the cursor, colour the terminal or begin a new line."""
    text = " ".join(str(text).split("\n"))
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


@contextmanager
def output_for_results_only() -> Iterator[None]:
    """Send what compiled libraries print to standard error.

    HiGHS has lines that no option silences: once in about a thousand tiny integer programs one
    would appear in the middle of ``--json`` or of labels that are written to ``-``. Nothing is
    redirected if an argument of the command is a name of standard output itself.
    """
    if not _results_can_be_separated():
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
        with suppress(OSError, AttributeError, TypeError):  # not every system has this library
            ctypes.CDLL(None).fflush(None)
        try:
            sys.stdout.flush()
        finally:
            os.dup2(kept, STANDARD_OUTPUT)
            with suppress(OSError):  # the flush has reported that the reader has gone
                sys.stdout.close()
            sys.stdout = before


def _results_can_be_separated() -> bool:
    values = {word for argument in sys.argv[1:] for word in (argument, argument.partition("=")[2])}
    if values & OUTPUT_NAMES:
        return False
    try:
        os.fstat(STANDARD_ERROR)
        return sys.stdout.fileno() == STANDARD_OUTPUT
    except (AttributeError, OSError, ValueError):
        return False


# Progress.


def draws(stream: Any) -> bool:
    """Whether a stream is a terminal that can draw a line again."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


@contextmanager
def progress_line(description: str, *, counts: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A line on the terminal: a spinner with the elapsed time, and a bar if there are counts.

    Yields a function of the name of a pass, the number of its chunks that are done, and of all.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    text = TextColumn("{task.description}", markup=False)
    bar = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) if counts else ()
    columns = (SpinnerColumn(), text, TimeElapsedColumn(), *bar)
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task(printable(description), total=None)

        def show(title: str, done: int, total: int) -> None:
            if done == 1:
                line.reset(task)
            text = printable(f"{description}: {title}")
            line.update(task, description=text, completed=done, total=total)

        yield show
