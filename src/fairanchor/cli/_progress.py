"""Progress on a terminal: a count where it is known, else a spinner with the elapsed time."""

import os
from contextlib import contextmanager

from fairanchor.cli._errors import printable


@contextmanager
def step_spinner(description):
    """A line on the terminal with a spinner and the elapsed time, for work of unknown length."""
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    with _line(SpinnerColumn(), text, TimeElapsedColumn()) as line:
        line.add_task(printable(description), total=None)
        yield


@contextmanager
def pass_bars(description):
    """A bar on the terminal that counts the chunks of a pass and restarts with every pass."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with _line(*columns) as line:
        task = line.add_task(printable(description), total=None)

        def show(title, done, total):
            if done == 1:
                line.reset(task)
            text = printable(f"{description}: {title}")
            line.update(task, description=text, completed=done, total=total)

        yield show


def draws(stream):
    """Whether a stream is a terminal that can draw a line again."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def _line(*columns):
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)
