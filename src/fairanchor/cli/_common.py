"""Shared by the commands: options, loading, checks of outputs, and the text of a summary."""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from fairanchor.tables._wording import counted

MOST_GROUPS_IN_A_TABLE = 8
MOST_CLUSTERS_IN_A_TABLE = 40
LONGEST_NAME = 40
CLUSTERERS = ("fair_kmeans", "spfc", "vfc", "fmsc", "fairlets", "ffc", "bounded", "consensus")
PAGES = (".html", ".htm")

Options = dict[str, Any]
PATH = click.Path(path_type=str, allow_dash=True)


SHARE = click.FloatRange(0, 1)


def _delimiter(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value in ("tab", "\\t"):
        return "\t"
    if value is not None and not (len(value) == 1 and value.isascii()):
        raise click.BadParameter("expected one ASCII character, or 'tab'.")
    return value


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
    "min_size": click.option("--min-size", "min_cluster_size", metavar="N",
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
    "targets": click.option("--targets", metavar="FILE",
                            type=click.Path(exists=True, dir_okay=False, path_type=str),
                            help="Table of shares, bounds and sizes: columns named like the "
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
    "jobs": click.option("--jobs", type=click.IntRange(min=1), metavar="N",
                         callback=lambda context, parameter, n: n or -1,
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


def load_for_fit(run: Any, source: str, options: Options) -> Any:
    """Rows and groups of a table, by the options of `fit` and `compare`; reports what was read."""
    from fairanchor.audit._remarks import group_remarks
    from fairanchor.tables._load import load
    from fairanchor.tables._read import open_table
    from fairanchor.tables._roles import MissingPolicy, choose_columns

    policy = MissingPolicy.of(options["missing"])
    with run.step("read", f"Reading {show_source(source)}"):
        table = open_table(source, delimiter=options["delimiter"])
        chosen = ("sensitive", "features", "exclude", "id_column")
        roles = choose_columns(table, **{name: options[name] for name in chosen})
        loaded = load(table, roles, policy)
    groups, of_groups = loaded.groups, ""
    if groups is not None:
        shares = zip(groups.names[:6], groups.sizes / len(loaded.X), strict=False)
        listed = ", ".join(f"{show_name(name)} {share:.1%}" for name, share in shares)
        more = f" and {groups.n_groups - 6} more" if groups.n_groups > 6 else ""
        of_groups = f", {counted(groups.n_groups, 'group')}: {listed}{more}"
    run.say(
        f"{show_source(source)}: {counted(loaded.n_rows, 'row')}{of_groups}",
        f"Features: {loaded.preprocessing.describe()}.",
    )
    run.say_dropped(loaded.n_dropped)
    if groups is not None:
        run.say(*(f"Note: {remark}" for remark in group_remarks(list(groups.names), groups.sizes)))
    return loaded


def check_outputs(
    options: Options, *files: str | None, table: str | None = None, inputs: Sequence[Any] = ()
) -> None:
    """Raise an error before the work for what could not be written after it.

    ``table`` may be ``-``, standard output. Files that are read, ``inputs``, are never replaced.
    """
    from fairanchor._utils._files import check_output, is_device, json_beside

    if "-" in files:
        raise click.UsageError("Only labels can go to standard output (-): name a file.")
    if table == "-" and options.get("as_json"):
        raise click.UsageError("--json and -o - would both write to standard output.")
    if table == "-" and sys.stdout is None:
        raise click.UsageError("Standard output is closed: name a file with -o.")
    outputs = [path for path in (table, *files) if path not in (None, "-")]
    report = options.get("report")
    if report is not None:
        if report.lower().endswith(PAGES):
            outputs.append(str(json_beside(report)))
        elif not is_device(report):
            raise click.UsageError(f"The report {report}: expected a name that ends in .html.")
        from fairanchor.report._render import import_libraries

        import_libraries()
    # Files are compared by their real paths; a device takes any number of outputs.
    read = [os.path.realpath(path) for path in inputs if path not in (None, "-")]
    targets = [os.path.realpath(path) for path in outputs if not is_device(path)]
    for path in outputs:
        if targets.count(os.path.realpath(path)) > 1:
            raise click.UsageError(f"Two outputs would be written to {path}.")
        if os.path.realpath(path) in read:
            raise click.UsageError(f"{path} is an input: an output must have another name.")
        check_output(path, force=options["force"])
    if table is not None:
        from fairanchor.tables._write import check_format

        check_format(table)


def check_directory(directory: str, options: Options) -> None:
    """Raise an error before the work for what a directory as INPUT does not take."""
    from fairanchor.rows._label_files import check_folder

    output = options["output"]
    for_files = {"id_column": "--id", "delimiter": "--delimiter", "targets": "--targets"}
    given = [option for name, option in for_files.items() if options.get(name) is not None]
    given += ["--attributes separate"] if options.get("attributes") == "separate" else []
    given += ["--missing drop-rows"] if "drop-rows" in options["missing"] else []
    if given:
        advice = ""
        if given[0] == "--id":
            instead = "; use --exclude for this column" if "exclude" in options else ""
            advice = f" Its labels have row numbers{instead}."
        raise click.UsageError(
            f"{given[0]} is for a single file, and INPUT is a directory.{advice}"
        )
    if output == "-":
        raise click.UsageError("Labels of a directory are a directory: name it with -o.")
    names = {"output": "-o", "checkpoint": "--checkpoint", "model": "--model", "report": "--report"}
    places = {names[key]: options[key] for key in names if options.get(key)}
    places["INPUT"] = directory
    for name, path in places.items():
        for other, around in places.items():
            real, outside = os.path.realpath(path), os.path.realpath(around)
            if name != other and os.path.commonpath([real, outside]) == outside:
                raise click.UsageError(
                    f"{name} {path} is inside {other} {around}: inputs, outputs and checkpoints "
                    "need separate directories."
                )
    if output is not None:
        check_folder(output, force=options["force"])


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
    n_clusters = len(counts)
    if len(group_names) > MOST_GROUPS_IN_A_TABLE:
        sizes = composition_lines(counts, (), cluster_names)
        return [*sizes, f"(--json has the shares of the {len(group_names)} groups)"]
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
    from fairanchor.report._verdict import score_text

    relative, mnce = score_text(measures["relative_balance"]), score_text(measures["mnce"])
    return (
        f"balance {measures['balance']:.4f} (at most {measures['balance_bound']:.4f}), "
        f"relative balance {relative}, MNCE {mnce}"
    )


def attribute_lines(attributes: dict[str, Any] | None) -> list[str]:
    """The measures of each separate attribute as lines of text."""
    items = (attributes or {}).items()
    return [f"{show_name(name)} by itself: {measures_line(entry)}" for name, entry in items]
