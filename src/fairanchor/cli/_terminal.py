"""What reaches the terminal: errors as one line, warnings, progress, results."""

import ctypes
import logging
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import click

from fairanchor.tables._wording import counted

INTERRUPTED = 130
NOT_CONVERGED = 3
# Errors of bad data and full disks; anything else is a defect and shows its traceback.
EXPECTED_ERRORS = (ValueError, OSError, ImportError, MemoryError, RuntimeError)
# The library names its parameters, the command line its options.
OPTIONS = {
    r"missing_groups='own_group'": "--missing own-group",
    r"set_params\(unknown_groups='blind'\)": "fairanchor predict --unknown-groups blind",
    r"force=True": "--force",
    r"\bn_clusters\b": "--clusters",
    r"\bn_samples=": "rows=",
    r"\bmin_cluster_size\b": "--min-size",
    r"\b(min|max)_size(?==| of all clusters)": r"--\1-size",
    r"\brandom_state\b": "--seed",
    r"\bn_jobs\b": "--jobs",
    r"\bsensitive_features\b": "the sensitive column",
    r"\b(tolerance|attributes|clusterer)=": r"--\1=",
}


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
        message = str(error)
        if isinstance(error, MemoryError):
            message = f"There is not enough memory. {message}".strip()
        if isinstance(error, OSError) and error.strerror:
            message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        message = printable(with_options(message)) or type(error).__name__
        raise click.ClickException(message) from error


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


def exit_with(problems: list[str]) -> None:
    """Print why a command that has done its work ends with exit code 3; nothing is success."""
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        click.get_current_context().exit(NOT_CONVERGED)


class Run:
    """Messages, warnings, progress and timings of one command."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.timings: dict[str, float] = {}
        self.warnings: list[str] = []

    def say(self, *lines: str) -> None:
        """Print lines on standard error."""
        for line in () if self.quiet else lines:
            click.echo(printable(line), err=True)

    @contextmanager
    def step(self, name: str, description: str, *, prefix: str = "") -> Iterator[Any]:
        """Time a part of the work, show its progress, and repeat its warnings, with a prefix.

        Yields a function of the name of a pass over chunks, the number of its chunks that are
        done, and of all. Without a terminal a pass is a line when it ends.
        """
        is_terminal = sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
        shown: Any = nullcontext(self._say_pass)
        if self.quiet:
            shown = messages_hidden()
        elif is_terminal:
            shown = progress_line(description)
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            # Deprecations of libraries are not for users.
            for category in (UserWarning, RuntimeWarning):
                warnings.simplefilter("always", category)
            try:
                with shown as show:
                    yield show
            finally:
                self.timings[name] = round(time.perf_counter() - start, 4)
                messages = dict.fromkeys(with_options(str(w.message)) for w in caught)
                for message in messages:
                    click.echo(f"Warning: {printable(prefix + message)}", err=True)
                self.warnings += [prefix + message for message in messages]

    def _say_pass(self, title: str, done: int, total: int) -> None:
        if done == total:
            self.say(f"  pass: {title}")

    def say_dropped(self, number: int) -> None:
        """Report rows that get no cluster."""
        if number:
            self.say(
                f"Left out: {counted(number, 'row')} with missing values; they get no cluster."
            )


@contextmanager
def messages_hidden() -> Iterator[None]:
    """Let the library log nothing below a warning during a block."""
    logger = logging.getLogger("fairanchor")
    level = logger.level
    logger.setLevel(max(level, logging.WARNING))
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def libraries_to_standard_error() -> Iterator[None]:
    """Send what compiled libraries print to standard error during a fit.

    HiGHS has lines that no option silences: once in about a thousand tiny integer programs one
    would appear in the middle of results.
    """
    try:
        kept = os.dup(1)
    except OSError:  # standard output is closed
        yield
        return
    try:
        with suppress(OSError):
            os.dup2(2, 1)
        yield
    finally:
        with suppress(OSError, AttributeError, TypeError):  # not every system has this library
            ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def progress_line(description: str) -> Iterator[Callable[[str, int, int], None]]:
    """A line on the terminal: a spinner, a bar that fills once there are counts, the time."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    columns = [SpinnerColumn(), text, BarColumn(), TimeElapsedColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as line:
        task = line.add_task(printable(description), total=None)

        def show(title: str, done: int, total: int) -> None:
            text = printable(f"{description}: {title} {done}/{total}")
            line.update(task, description=text, completed=done, total=total)

        yield show
