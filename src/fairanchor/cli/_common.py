"""Shared by the commands: options, messages, progress, and the text of a summary."""

import json
import logging
import math
import os
import sys
import time
import warnings
from contextlib import contextmanager, nullcontext

import click

from fairanchor.cli._errors import printable
from fairanchor.cli._progress import draws, pass_bars, step_spinner
from fairanchor.tables._wording import counted

NOT_CONVERGED = 3
MOST_GROUPS_IN_A_TABLE = 8
MOST_CLUSTERS_IN_A_TABLE = 40
LONGEST_NAME = 40
REPORTS = (".html", ".htm")

PATH = click.Path(path_type=str, allow_dash=True)


class Jobs(click.ParamType):
    """A number of threads: at least 1, or -1 for all cores."""

    name = "integer"

    def convert(self, value, param, ctx):
        """Integer of the text."""
        number = click.INT.convert(value, param, ctx)
        if number < 1 and number != -1:
            self.fail(f"{number} is no number of threads: expected 1 or more, or -1.", param, ctx)
        return number


class FiniteRange(click.FloatRange):
    """A range of numbers in which neither NaN nor infinity is."""

    def convert(self, value, param, ctx):
        """Number of the text."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def jobs_option(command):
    """``--jobs``."""
    return click.option("--jobs", default=-1, show_default=True, type=Jobs(), metavar="N",
                        help="Threads of this process; -1: all cores.")(command)  # fmt: skip


def table_options(command):
    """Options of every command that reads a table."""
    for option in reversed(
        [
            click.option("--delimiter", help="Between values of a text table ('tab' for a tab)."),
            click.option(
                "--null",
                "null_values",
                multiple=True,
                metavar="TEXT",
                help="Text that means a missing value, besides empty, NA, NaN, null; repeatable.",
            ),
        ]
    ):
        command = option(command)
    return command


def missing_option(command):
    """``--missing``, which may be repeated."""
    return click.option(
        "--missing",
        multiple=True,
        default=["error"],
        type=click.Choice(["error", "own-group", "impute", "drop-rows"]),
        help=(
            "Missing values: raise an error (default); own-group: missing sensitive values are a "
            "group; impute: features get the mean or the most frequent category; drop-rows: such "
            "rows get no cluster, and their number is printed. Repeatable."
        ),
    )(command)


def run_options(command):
    """Options of every command that writes and takes time."""
    for option in reversed(
        [
            click.option("--force", is_flag=True, help="Replace files that exist."),
            click.option("--quiet", "-q", is_flag=True, help="Only errors and warnings."),
        ]
    ):
        command = option(command)
    return command


def open_input(path, delimiter, null_values):
    """`fairanchor.tables.open_table` with the options of `table_options`."""
    from fairanchor.tables import open_table

    delimiter = {"tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
    one = delimiter is not None and len(delimiter) == 1 and delimiter.isascii()
    if delimiter is not None and (not one or delimiter in '"\r\n\0'):
        raise click.UsageError(
            f"--delimiter {delimiter!r}: expected one character of ASCII other than a quote and "
            "the end of a line, or 'tab'."
        )
    return open_table(path, delimiter=delimiter, null_values=null_values)


def load_table(source, options):
    """Rows and groups for fitting, by the options of `fit` and `compare`."""
    from fairanchor.tables._load import load_for_fit
    from fairanchor.tables._roles import choose_columns

    policy = missing_policy(options["missing"])
    table = open_input(source, options["delimiter"], options["null_values"])
    roles = choose_columns(
        table,
        sensitive=options["sensitive"],
        features=options["features"],
        exclude=options["exclude"],
        id_column=options["id_column"],
    )
    return load_for_fit(
        table,
        roles,
        policy,
        scale=not options["no_scale"],
        min_group_size=options["min_group_size"],
    )


def missing_policy(choices):
    """`MissingPolicy` of ``--missing``; a contradiction is an error of usage."""
    from fairanchor.tables._missing import MissingPolicy

    try:
        return MissingPolicy.of(choices)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def check_outputs(table=None, *files, force, inputs=()):
    """Raise an error now for what could not be written in the end.

    Parameters
    ----------
    table : str, default=None
        Output that may be ``-``, standard output.
    *files : str or None
        Outputs that must be files.
    force : bool
        Whether files may be replaced.
    inputs : sequence of str or None
        Files that are read, and must not be replaced even so.
    """
    from fairanchor._utils._files import is_device
    from fairanchor.tables import check_output

    if "-" in files:
        raise click.UsageError("Only labels can go to standard output (-): name a file.")
    if table == "-" and sys.stdout is None:
        raise click.UsageError("Standard output is closed: name a file with -o.")
    given = [path for path in (table, *files) if path is not None]
    # Files by what they are, not by how their path is written; a device takes any number.
    targets = [os.path.realpath(path) for path in given if path != "-" and not is_device(path)]
    for path in given:
        if path != "-" and targets.count(os.path.realpath(path)) > 1:
            raise click.UsageError(f"Two outputs would be written to {path}.")
    for path in inputs:
        if path not in (None, "-") and os.path.realpath(path) in targets:
            raise click.UsageError(f"{path} is an input: an output must have another name.")
    for path in given:
        check_output(path, force=force)


def check_report(path):
    """Raise an error for the name of a report that is no HTML file."""
    from fairanchor._utils._files import is_device

    if path is not None and not path.lower().endswith(REPORTS) and not is_device(path):
        raise click.UsageError(f"--report {path}: expected a name that ends in .html.")


class Run:
    """Messages, warnings, progress and timings of one command.

    Parameters
    ----------
    quiet : bool
        Whether to print nothing but warnings.
    """

    def __init__(self, quiet):
        self.quiet = quiet
        self.timings = {}
        self.warnings = []

    def say(self, message=""):
        """A line on standard error."""
        if not self.quiet:
            click.echo("\n".join(map(printable, message.split("\n"))), err=True)

    @contextmanager
    def step(self, name, description, *, spinner=True):
        """Time a part of the work, show a spinner on a terminal, and repeat its warnings."""
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            # Deprecations of libraries are not for users.
            for category in (UserWarning, RuntimeWarning):
                warnings.simplefilter("always", category)
            try:
                shown = self._spinner(description) if spinner else nullcontext()
                with shown, messages_hidden() if self.quiet else nullcontext():
                    yield
            finally:
                self.timings[name] = round(time.perf_counter() - start, 4)
                self._repeat(caught)

    @contextmanager
    def passes(self, name, description):
        """`step` for work in passes over chunks; yields a function that takes their progress.

        On a terminal every pass has a bar, elsewhere it is a line when it ends.
        """
        with self.step(name, description, spinner=False):
            if self.quiet:
                yield None
            elif draws(sys.stderr):
                with pass_bars(description) as show:
                    yield show
            else:
                yield lambda title, done, total: done == total and self.say(f"  pass: {title}")

    def _repeat(self, caught):
        for message in dict.fromkeys(str(warning.message) for warning in caught):
            self.warnings.append(message)
            click.echo(f"Warning: {printable(message)}", err=True)

    def _spinner(self, description):
        if self.quiet or not draws(sys.stderr):
            return nullcontext()
        return step_spinner(description)


@contextmanager
def messages_hidden():
    """Let the library log nothing below a warning during a block."""
    logger = logging.getLogger("fairanchor")
    level = logger.level
    logger.setLevel(max(level, logging.WARNING))
    try:
        yield
    finally:
        logger.setLevel(level)


def print_result(lines):
    """Lines on standard output: the result of the command."""
    from fairanchor._utils._files import standard_output

    with standard_output():
        click.echo("\n".join(lines))


def print_json(summary):
    """A summary on standard output."""
    print_result([json.dumps(_json_value(summary), indent=2, allow_nan=False)])


def _json_value(value):
    """NumPy's arrays and numbers and any group's name as JSON has them; null for NaN."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def show_source(path):
    """What to call an input."""
    return "standard input" if path == "-" else path


def show_name(name):
    """A group's name for people: nothing but text, and not too much of it."""
    from fairanchor.plotting._names import display_name

    if isinstance(name, tuple):
        return " × ".join(map(show_name, name))
    return display_name(name, LONGEST_NAME)


def measures_of(counts):
    """Fairness of a clusters × groups table of counts."""
    from fairanchor import metrics

    return {
        "balance": metrics.balance_of_table(counts),
        "balance_bound": metrics.balance_of_table(counts.sum(axis=0, keepdims=True)),
        "relative_balance": metrics.relative_balance_of_table(counts),
        "mnce": metrics.mnce_of_table(counts),
    }


def composition_lines(counts, group_names, cluster_names=None):
    """The table clusters × groups as text: rows, and each group's share of its cluster."""
    n_clusters, n_groups = counts.shape
    if n_groups > MOST_GROUPS_IN_A_TABLE:
        size = f"{count_rows(n_clusters, 'cluster')}, {count_rows(n_groups, 'group')}"
        return [f"{size} (--json has the table)"]
    shown = min(n_clusters, MOST_CLUSTERS_IN_A_TABLE)
    clusters = [show_name(name) for name in list(cluster_names or range(n_clusters))[:shown]]
    names = [show_name(name) for name in group_names]
    width = max(10, *(len(name) + 2 for name in names))
    first = max(7, *map(len, clusters))
    lines = [f"{'cluster':>{first}}{'rows':>13}" + "".join(f"{name:>{width}}" for name in names)]
    rows = [*zip(clusters, counts[:shown], strict=True), ("all", counts.sum(axis=0))]
    for cluster, row in rows:
        shares = "".join(f"{count / row.sum():>{width}.2%}" for count in row)
        lines.append(f"{cluster:>{first}}{row.sum():>13,.0f}{shares}")
    if shown < n_clusters:
        left_out = count_rows(n_clusters - shown, "more cluster")
        lines.insert(-1, f"{'...':>{first}}  {left_out} (--json has all)")
    return lines


def measures_line(measures):
    """The fairness measures as one line of text."""
    return (
        f"balance {measures['balance']:.4f} (at most {measures['balance_bound']:.4f}), "
        f"relative balance {measures['relative_balance']:.4f}, MNCE {measures['mnce']:.4f}"
    )


def count_rows(number, noun="row"):
    """``1 row``, ``2,000 rows``."""
    return counted(number, noun)


def exit_with(code):
    """End a command that has done its work with an exit code of its own."""
    if code:
        click.get_current_context().exit(code)
