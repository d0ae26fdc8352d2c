"""Shared by the commands: loading, checks of outputs, and the text of a summary."""

import hashlib
import json
import os
import shlex
from collections.abc import Sequence
from typing import Any

import click

from fairanchor._utils._files import check_output, json_beside, standard_output
from fairanchor._utils._records import json_value
from fairanchor.audit._remarks import group_remarks
from fairanchor.cli._terminal import Run
from fairanchor.plotting._composition import MAX_CLUSTERS, MAX_GROUPS
from fairanchor.plotting._names import display_name
from fairanchor.report._render import import_libraries
from fairanchor.report._verdict import score_text
from fairanchor.rows._label_files import check_folder
from fairanchor.tables._load import load
from fairanchor.tables._read import open_table
from fairanchor.tables._roles import MissingPolicy, choose_columns
from fairanchor.tables._wording import counted
from fairanchor.tables._write import check_format

LONGEST_NAME = 40
Options = dict[str, Any]


def load_for_fit(run: Run, options: Options) -> Any:
    """The `LoadedTable` of the options of `fit` and `compare`; reports what was read."""
    source = options["source"]
    policy = MissingPolicy.of(options["missing"])
    with run.step("read", f"Reading {show_source(source)}"):
        table = open_table(source, delimiter=options["delimiter"])
        chosen = ("sensitive", "features", "exclude", "id_column")
        loaded = load(
            table, choose_columns(table, **{name: options[name] for name in chosen}), policy
        )
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
    if "-" in files:
        raise click.UsageError("Only labels can go to standard output (-): name a file.")
    if table == "-" and options.get("as_json"):
        raise click.UsageError("--json and -o - would both write to standard output.")
    outputs = [path for path in (table, *files) if path not in (None, "-")]
    report = options.get("report")
    if report is not None:
        if not report.lower().endswith((".html", ".htm")):
            raise click.UsageError(f"The report {report}: expected a name that ends in .html.")
        outputs.append(str(json_beside(report)))
        import_libraries()
    # Files are compared by their real paths.
    read = [os.path.realpath(path) for path in inputs if path not in (None, "-")]
    targets = [os.path.realpath(path) for path in outputs]
    for path in outputs:
        if targets.count(os.path.realpath(path)) > 1:
            raise click.UsageError(f"Two outputs would be written to {path}.")
        if os.path.realpath(path) in read:
            raise click.UsageError(f"{path} is an input: an output must have another name.")
        check_output(path, force=options["force"])
    if table is not None:
        check_format(table)


def check_directory(options: Options) -> None:
    """Raise an error before the work for what a directory as INPUT does not take."""
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
    around = {"INPUT": options["source"]} | ({"-o": output} if output else {})
    for name, path in places.items():
        for other, outside in around.items():
            real = os.path.realpath(outside)
            if name != other and os.path.commonpath([os.path.realpath(path), real]) == real:
                raise click.UsageError(
                    f"{name} {path} is inside {other} {outside}: inputs, outputs and checkpoints "
                    "need separate directories."
                )
    if output is not None:
        check_folder(output, force=options["force"])


def command_line() -> str:
    """The running command, as a line for a POSIX shell."""
    return shlex.join(["fairanchor", *click.get_current_context().meta["arguments"]])


def file_checksums(paths: dict[str, str | None]) -> dict[str, str]:
    """Name, size and checksum of input files by what they are; standard input has none."""
    checksums = {}
    for what, path in paths.items():
        if path is None or not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        checksums[what] = f"{path}, {os.path.getsize(path):,} bytes, sha256 {digest}"
    return checksums


def print_result(*lines: str) -> None:
    """Lines on standard output: the result of the command."""
    with standard_output():
        click.echo("\n".join(lines))


def print_json(summary: dict[str, Any]) -> None:
    """A summary on standard output."""
    print_result(json.dumps(json_value(summary), indent=2, allow_nan=False))


def show_source(path: str) -> str:
    """Name of an input in messages."""
    return "standard input" if path == "-" else path


def show_name(name: Any) -> str:
    """A group's name for people: printable, and cut if it is long."""
    if isinstance(name, tuple):
        return " × ".join(map(show_name, name))
    return display_name(name, LONGEST_NAME)


def composition_lines(
    counts: Any, group_names: Sequence[Any], cluster_names: Sequence[Any] | None = None
) -> list[str]:
    """The table clusters × groups as text: rows, and the share of each named group."""
    n_clusters = len(counts)
    if len(group_names) > MAX_GROUPS:
        sizes = composition_lines(counts, (), cluster_names)
        return [*sizes, f"(--json has the shares of the {len(group_names)} groups)"]
    shown = min(n_clusters, MAX_CLUSTERS)
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


def measures_lines(summary: dict[str, Any]) -> list[str]:
    """The fairness measures of a summary as text, then those of each separate attribute."""
    entries = {"": summary} | {
        f"{show_name(name)} by itself: ": entry
        for name, entry in (summary.get("attributes") or {}).items()
    }
    return [
        f"{of}balance {entry['balance']:.4f} (at most {entry['balance_bound']:.4f}), relative "
        f"balance {score_text(entry['relative_balance'])}, MNCE {score_text(entry['mnce'])}"
        for of, entry in entries.items()
    ]
