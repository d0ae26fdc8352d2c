"""What the commands share: options, messages, progress, and the words of a summary."""

import json
import math
import os
import sys
import time
import warnings
from contextlib import contextmanager

import click

NOT_CONVERGED = 3
MOST_GROUPS_IN_A_TABLE = 8

PATH = click.Path(path_type=str, allow_dash=True)


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
            "Missing values: refuse them (default); own-group: missing sensitive values are a "
            "group; impute: features get the mean or the commonest category; drop-rows: such "
            "rows get no cluster, and their number is said. Repeatable."
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
    if delimiter is not None and len(delimiter) != 1:
        raise click.UsageError(f"--delimiter {delimiter!r}: expected one character, or 'tab'.")
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
    """Refuse now what could not be written in the end.

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
    from fairanchor.tables import check_output
    from fairanchor.tables._files import is_device

    if "-" in files:
        raise click.UsageError("Only labels can go to standard output (-): name a file.")
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


class Run:
    """Messages, warnings, progress and timings of one command.

    Parameters
    ----------
    quiet : bool
        Whether to say nothing but warnings.
    """

    def __init__(self, quiet):
        self.quiet = quiet
        self.timings = {}
        self.warnings = []

    def say(self, message=""):
        """A line on standard error."""
        if not self.quiet:
            click.echo(message, err=True)

    @contextmanager
    def step(self, name, description):
        """Time a part of the work; on a terminal, show that it goes on; repeat its warnings."""
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            # Deprecations of libraries are not for users.
            for category in (UserWarning, RuntimeWarning):
                warnings.simplefilter("always", category)
            try:
                with self._spinner(description):
                    yield
            finally:
                self.timings[name] = round(time.perf_counter() - start, 4)
                self._repeat(caught)

    def _repeat(self, caught):
        for message in dict.fromkeys(str(warning.message) for warning in caught):
            self.warnings.append(message)
            click.echo(f"Warning: {message}", err=True)

    @contextmanager
    def _spinner(self, description):
        if self.quiet or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            progress.add_task(description, total=None)
            yield


def print_json(summary):
    """A summary on standard output."""
    click.echo(json.dumps(_json_value(summary), indent=2, allow_nan=False))


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
    """A group's name for people."""
    if isinstance(name, tuple):
        return " & ".join(map(show_name, name))
    return "(missing)" if name is None else str(name)


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
    clusters = [str(name) for name in cluster_names or range(n_clusters)]
    if n_groups > MOST_GROUPS_IN_A_TABLE:
        return [f"{n_clusters} clusters, {n_groups} groups (--json has the table)"]
    names = [show_name(name) for name in group_names]
    width = max(10, *(len(name) + 2 for name in names))
    first = max(7, *map(len, clusters))
    lines = [f"{'cluster':>{first}}{'rows':>13}" + "".join(f"{name:>{width}}" for name in names)]
    for cluster, row in zip([*clusters, "all"], [*counts, counts.sum(axis=0)], strict=True):
        shares = "".join(f"{count / row.sum():>{width}.2%}" for count in row)
        lines.append(f"{cluster:>{first}}{row.sum():>13,.0f}{shares}")
    return lines


def measures_line(measures):
    """The fairness measures as one line of text."""
    return (
        f"balance {measures['balance']:.4f} (at most {measures['balance_bound']:.4f}), "
        f"relative balance {measures['relative_balance']:.4f}, MNCE {measures['mnce']:.4f}"
    )


def count_rows(number, noun="row"):
    """``1 row``, ``2,000 rows``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def exit_with(code):
    """End a command that has done its work with an exit code of its own."""
    if code:
        click.get_current_context().exit(code)
