"""What a terminal shows while a step goes on: what is done, for how long, and how long still.

A pass over chunks knows how far it is. Work in memory is told by how much it is: the times here
are rough, of one machine, and called so ("about"); a step that takes longer says that it does.
"""

import os
from contextlib import contextmanager

from fairanchor.cli._errors import printable

# Bytes per second of readers by suffix, and seconds per number or row of the other steps.
BYTES_PER_SECOND = {".parquet": 80e6, ".arrow": 300e6, ".feather": 300e6, ".ipc": 300e6}
TEXT_BYTES_PER_SECOND = 100e6
TO_LOAD = 1.0  # libraries and compiled kernels
PER_ROW_TO_FIT, PER_NUMBER_TO_FIT = 1.5e-6, 4e-8
PER_ROW_AND_ANCHOR = 1.5e-7  # of the anchor graph, where every row is solved
PER_ROW_TO_LABEL, PER_ROW_TO_WRITE = 3e-7, 3e-7
PER_NUMBER_TO_COMPARE = 2e-7  # plain k-means from ten starts
BAR_WIDTH = 30


def seconds_to_read(path):
    """About how long it takes to read a file; None if its size is not known."""
    try:
        size = os.path.getsize(path)
    except OSError:  # a pipe, or no file at all, which the reader will say
        return None
    if not os.path.isfile(path):
        return None
    suffix = os.path.splitext(path)[1].lower()
    return TO_LOAD + size / BYTES_PER_SECOND.get(suffix, TEXT_BYTES_PER_SECOND)


def seconds_to_fit(loaded, n_clusters, n_anchors=0):
    """About how long a fit takes; anchors count where every row is expressed by them."""
    n_rows, n_features = loaded.X.shape
    per_row = PER_ROW_TO_FIT * max(1.0, n_clusters / 5) + PER_NUMBER_TO_FIT * n_features
    return TO_LOAD + n_rows * (per_row + PER_ROW_AND_ANCHOR * n_anchors)


def solved_anchors(
    loaded, n_clusters, clusterer, n_anchors="auto", refine="auto", *, every_row=False
):
    """Number of anchors by which every row is expressed: none where a refinement follows.

    Then a sample is enough, unless ``every_row`` is asked for.
    """
    is_refined = clusterer == "fair_kmeans" if refine == "auto" else refine > 0
    if is_refined and not every_row:
        return 0
    from fairanchor.anchors import auto_n_anchors

    if isinstance(n_anchors, str):
        return auto_n_anchors(loaded.grouping.sizes, n_clusters)
    return n_anchors


def seconds_to_label(n_rows):
    """About how long it takes to label new rows."""
    return TO_LOAD + n_rows * PER_ROW_TO_LABEL


def seconds_to_write(n_rows):
    """About how long it takes to write a table of labels."""
    return n_rows * PER_ROW_TO_WRITE


def seconds_to_report(n_rows, n_features):
    """About how long a report takes: plain k-means of the same rows, and pictures."""
    return 2.0 + TO_LOAD + n_rows * n_features * PER_NUMBER_TO_COMPARE


def time_left(expected, elapsed):
    """How long a step still takes, in words."""
    left = expected - elapsed
    if left < -0.5 * expected - 1.0:
        return "longer than expected"
    if left < 1.0:
        return "nearly done"
    if left < 90.0:
        return f"about {left:.0f} s left"
    return f"about {left / 60:.0f} min left"


@contextmanager
def step_bar(description, expected):
    """A line on the terminal that shows that a step goes on, and how long it will."""
    from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    class Expected(ProgressColumn):
        def render(self, task):
            return ProgressBar(total=expected, completed=task.elapsed or 0.0, width=BAR_WIDTH)

    class Left(ProgressColumn):
        def render(self, task):
            return Text(time_left(expected, task.elapsed or 0.0))

    known = (Expected(), Elapsed(), Left()) if expected else (BarColumn(BAR_WIDTH), Elapsed())
    with _line(SpinnerColumn(), TextColumn("{task.description}", markup=False), *known) as line:
        line.add_task(printable(description), total=None)
        yield


@contextmanager
def pass_bars(description):
    """A bar on the terminal, which starts anew with every pass."""
    from rich.progress import (
        BarColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
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
