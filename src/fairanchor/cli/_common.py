"""Shared by the commands: options, checks of outputs, messages, and the text of a summary."""

import json
import logging
import math
import os
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import click

from fairanchor.cli._terminal import draws, printable, progress_line, with_options
from fairanchor.tables._wording import counted

NOT_CONVERGED = 3
MOST_GROUPS_IN_A_TABLE = 8
MOST_CLUSTERS_IN_A_TABLE = 40
LONGEST_NAME = 40
CLUSTERERS = ("fair_kmeans", "spfc", "vfc", "fmsc", "fairlets", "ffc", "bounded", "consensus")

Options = dict[str, Any]
PATH = click.Path(path_type=str, allow_dash=True)


class Share(click.FloatRange):
    """A number between 0 and 1, which NaN is not."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


def _delimiter(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value in ("tab", "\\t"):
        return "\t"
    if value is not None and (len(value) != 1 or not value.isascii() or value in '"\r\n\0'):
        raise click.UsageError(
            f"--delimiter {value!r}: expected one character of ASCII other than a quote and the "
            "end of a line, or 'tab'."
        )
    return value


def _all_cores(context: click.Context, parameter: click.Parameter, value: int | None) -> int:
    return -1 if value is None else value


MISSING = ("error", "own-group", "impute", "drop-rows")
# Options that several commands have.
SHARED = {
    "clusters": click.option("--clusters", "-k", "n_clusters", required=True,
                             type=click.IntRange(min=1), help="Number of clusters."),
    "sensitive": click.option("--sensitive", multiple=True, required=True, metavar="COLUMNS",
                              help="Column, or columns separated by commas, whose combinations "
                              "are the groups."),
    "groups": click.option("--sensitive", multiple=True, metavar="COLUMNS",
                           help="Column, or columns separated by commas, whose combinations are "
                           "the groups. Not needed if only sizes are bounded."),
    "min_size": click.option("--min-size", "--min-cluster-size", "min_cluster_size", metavar="N",
                             type=click.IntRange(min=1),
                             help="Smallest number of rows of a cluster."),
    "max_size": click.option("--max-size", metavar="N", type=click.IntRange(min=1),
                             help="Largest number of rows of a cluster."),
    "features": click.option("--features", multiple=True, metavar="COLUMNS",
                             help="Columns to cluster by; by default all but the sensitive ones "
                             "and the id."),
    "exclude": click.option("--exclude", multiple=True, metavar="COLUMNS",
                            help="Columns that are not features."),
    "id": click.option("--id", "id_column", metavar="COLUMN",
                       help="Column that identifies a row. It is copied to the output and is "
                       "not a feature."),
    "attributes": click.option("--attributes", type=click.Choice(["intersection", "separate"]),
                               default="intersection", show_default=True,
                               help="Several sensitive columns: their combinations are the groups, "
                               "or each column is constrained separately."),
    "targets": click.option("--targets", type=click.Path(path_type=str), metavar="FILE",
                            help="Shares, bounds and sizes, .csv or .json: columns named like the "
                            "sensitive ones, cluster, share, lower, upper, min_size, max_size; an "
                            "empty cluster means all."),
    "missing": click.option("--missing", multiple=True, default=["error"],
                            type=click.Choice(MISSING),
                            help="Missing values: raise an error (default); own-group: missing "
                            "sensitive values are a group; impute: features get the mean or the "
                            "most frequent category; drop-rows: such rows get no cluster, and "
                            "their number is printed. Repeatable."),
    "delimiter": click.option("--delimiter", callback=_delimiter,
                              help="Delimiter of CSV files, such as ';' or 'tab'."),
    "labels": click.option("--output", "-o", type=PATH,
                           help="Labels, .csv, .tsv, .parquet or .arrow; - for standard output."),
    "report": click.option("--report", type=PATH, help="Report, .html."),
    "json": click.option("--json", "as_json", is_flag=True,
                         help="Summary as JSON on standard output."),
    "seed": click.option("--seed", default=0, show_default=True,
                         type=click.IntRange(min=0, max=2**32 - 1),
                         help="Seed of all random numbers; the same seed gives the same result."),
    "jobs": click.option("--jobs", type=click.IntRange(min=1), metavar="N", callback=_all_cores,
                         help="Threads, or workers of a Dask cluster that is started; by default "
                         "one per core."),
    "force": click.option("--force", is_flag=True, help="Replace existing files."),
    "quiet": click.option("--quiet", "-q", is_flag=True, help="Print errors and warnings only."),
}  # fmt: skip


def shared(*names: str) -> Callable[[Any], Any]:
    """Add options of `SHARED` to a command, in this order."""

    def decorate(command: Any) -> Any:
        for name in reversed(names):
            command = SHARED[name](command)
        return command

    return decorate


def load_table(source: str, options: Options) -> Any:
    """Rows and groups for fitting, by the options of `fit` and `compare`."""
    from fairanchor.tables._load import load_for_fit
    from fairanchor.tables._read import open_table
    from fairanchor.tables._roles import MissingPolicy, choose_columns

    policy = MissingPolicy.of(options["missing"])
    table = open_table(source, delimiter=options["delimiter"])
    names = ("sensitive", "features", "exclude", "id_column")
    chosen = {name: options[name] for name in names}
    roles = choose_columns(table, **chosen, optional=not options["sensitive"])
    return load_for_fit(table, roles, policy)


def check_outputs(options: Options, *names: str, inputs: Sequence[str | None] = ()) -> None:
    """Raise an error before the work for what could not be written after it.

    ``output`` may be ``-``, standard output; ``names`` are options with further output files.
    Files that are read, ``inputs``, are never replaced.
    """
    from fairanchor._utils._files import check_output, is_device, json_beside

    table = options.get("output")
    files = [options[name] for name in names if options[name] is not None]
    if "-" in files:
        raise click.UsageError("Only labels can go to standard output (-): name a file.")
    if table == "-" and options["as_json"]:
        raise click.UsageError("--json and -o - would both write to standard output.")
    if table == "-" and sys.stdout is None:
        raise click.UsageError("Standard output is closed: name a file with -o.")
    outputs = [path for path in (table, *files) if path not in (None, "-")]
    report = options.get("report")
    if report is not None and report.lower().endswith((".html", ".htm")):
        outputs.append(str(json_beside(report)))
    # Files are compared by their real paths; a device takes any number of outputs.
    targets = [os.path.realpath(path) for path in outputs if not is_device(path)]
    for path in outputs:
        if targets.count(os.path.realpath(path)) > 1:
            raise click.UsageError(f"Two outputs would be written to {path}.")
    for source in inputs:
        if source not in (None, "-") and os.path.realpath(str(source)) in targets:
            raise click.UsageError(f"{source} is an input: an output must have another name.")
    for path in outputs:
        check_output(path, force=options["force"])
    if report is not None:
        check_report(report)


def check_report(path: str) -> None:
    """Raise an error for a report that is no HTML file, or that needs other libraries."""
    from fairanchor._utils._files import is_device
    from fairanchor.report._render import import_libraries

    if not path.lower().endswith((".html", ".htm")) and not is_device(path):
        raise click.UsageError(f"The report {path}: expected a name that ends in .html.")
    import_libraries()


def command_line() -> str:
    """The running command, as a line for a POSIX shell."""
    return shlex.join(["fairanchor", *click.get_current_context().meta["arguments"]])


def file_checksums(paths: dict[str, str | None]) -> dict[str, str]:
    """Name, size and checksum of input files by what they are; standard input has none."""
    import hashlib

    checksums = {}
    for what, path in paths.items():
        if path is None or not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        checksums[what] = f"{path}, {os.path.getsize(path):,} bytes, sha256 {digest}"
    return checksums


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
    def step(self, name: str, description: str, *, counts: bool = False) -> Iterator[Any]:
        """Time a part of the work, show its progress, and repeat its warnings.

        For work in passes over chunks it yields a function of the name of a pass, the number of its
        chunks that are done, and of all. Without a terminal a pass is a line when it ends.
        """
        start = time.perf_counter()
        with recorded_warnings() as messages:
            try:
                with messages_hidden() if self.quiet else nullcontext():
                    if self.quiet:
                        yield None
                    elif draws(sys.stderr):
                        with progress_line(description, counts=counts) as show:
                            yield show
                    else:
                        yield self._say_pass
            finally:
                self.timings[name] = round(time.perf_counter() - start, 4)
        self.warnings += messages

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
def recorded_warnings(prefix: str = "") -> Iterator[list[str]]:
    """A list that gets the warnings of a block at its end, each once; they are also printed."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        # Deprecations of libraries are not for users.
        for category in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", category)
        try:
            yield messages
        finally:
            messages += dict.fromkeys(with_options(str(warning.message)) for warning in caught)
            for message in messages:
                click.echo(f"Warning: {prefix}{printable(message)}", err=True)


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


def print_result(*lines: str) -> None:
    """Lines on standard output: the result of the command."""
    from fairanchor._utils._files import standard_output

    with standard_output():
        click.echo("\n".join(lines))


def print_json(summary: dict[str, Any]) -> None:
    """A summary on standard output."""
    from fairanchor._utils._records import json_value

    print_result(json.dumps(json_value(summary), indent=2, allow_nan=False))


def show_source(path: str) -> str:
    """Name of an input in messages."""
    return "standard input" if path == "-" else path


def show_name(name: Any) -> str:
    """A group's name for people: printable, and cut if it is long."""
    from fairanchor.plotting._names import display_name

    if isinstance(name, tuple):
        return " × ".join(map(show_name, name))
    return str(display_name(name, LONGEST_NAME))


def measures_of(counts: Any) -> dict[str, float]:
    """Fairness of a clusters × groups table of counts."""
    from fairanchor import metrics

    return {
        "balance": metrics.balance_of_table(counts),
        "balance_bound": metrics.balance_of_table(counts.sum(axis=0, keepdims=True)),
        "relative_balance": metrics.relative_balance_of_table(counts),
        "mnce": metrics.mnce_of_table(counts),
    }


def composition_entries(groups: Any, counts: Any, **others: Any) -> dict[str, Any]:
    """Entries of a summary about a clusters × groups table of counts."""
    return {"groups": groups, "counts": counts, **others, **measures_of(counts)}


def composition_lines(
    counts: Any, group_names: Sequence[Any], cluster_names: Sequence[Any] | None = None
) -> list[str]:
    """The table clusters × groups as text: rows, and the share of each named group."""
    n_clusters, n_groups = counts.shape
    if n_groups > MOST_GROUPS_IN_A_TABLE:
        size = f"{counted(n_clusters, 'cluster')}, {counted(n_groups, 'group')}"
        return [f"{size} (--json has the table)"]
    shown = min(n_clusters, MOST_CLUSTERS_IN_A_TABLE)
    clusters = [show_name(name) for name in list(cluster_names or range(n_clusters))[:shown]]
    names = [show_name(name) for name in group_names]
    width = max([10, *(len(name) + 2 for name in names)])
    first = max(7, *map(len, clusters))
    lines = [f"{'cluster':>{first}}{'rows':>13}" + "".join(f"{name:>{width}}" for name in names)]
    for cluster, row in [*zip(clusters, counts, strict=False), ("all", counts.sum(axis=0))]:
        shares = "".join(f"{count / row.sum():>{width}.2%}" for count in row[: len(names)])
        lines.append(f"{cluster:>{first}}{row.sum():>13,.0f}{shares}")
    if shown < n_clusters:
        left_out = counted(n_clusters - shown, "more cluster")
        lines.insert(-1, f"{'...':>{first}}  {left_out} (--json has all)")
    return lines


def measures_line(measures: dict[str, Any]) -> str:
    """The fairness measures as one line of text."""
    return (
        f"balance {measures['balance']:.4f} (at most {measures['balance_bound']:.4f}), "
        f"relative balance {measures['relative_balance']:.4f}, MNCE {measures['mnce']:.4f}"
    )


def attribute_lines(attributes: dict[str, Any] | None) -> list[str]:
    """The measures of each separate attribute as lines of text."""
    items = (attributes or {}).items()
    return [f"{show_name(name)} by itself: {measures_line(entry)}" for name, entry in items]


def exit_with(problems: Sequence[str]) -> None:
    """Print why a command that has done its work ends with exit code 3; nothing is success."""
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        click.get_current_context().exit(NOT_CONVERGED)
