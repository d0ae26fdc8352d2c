"""``fairanchor fit``: from a table to fair clusters."""

import hashlib
import json
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from fairanchor.cli._common import (
    CLUSTERERS,
    PATH,
    Options,
    Run,
    Share,
    attribute_lines,
    check_outputs,
    command_line,
    composition_entries,
    composition_lines,
    exit_with,
    file_checksums,
    load_table,
    measures_line,
    print_json,
    shared,
    show_name,
    show_source,
)
from fairanchor.cli._targets import check_targets_options, targets_of_file
from fairanchor.tables._wording import counted

# Entries of a summary, and the attributes of estimators that have them.
CERTIFICATES = {
    "lp_value": "lp_value_",
    "mass_error": "mass_error_",
    "duality_gap": "duality_gap_",
    "assignment_gap": "assignment_gap_",
    "n_iter": "n_iter_",
}
ENGINES = ("memory", "stream", "dask")
# Options of `fit` that a directory does not take, with their defaults.
FOR_FILES_ONLY = {
    "id_column": ("--id", None),
    "delimiter": ("--delimiter", None),
    "attributes": ("--attributes", "intersection"),
    "targets": ("--targets", None),
}
SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc"}
# Enough rows for the figures and profiles of a report.
REPORT_ROWS = 20_000
# Rounding errors of a cost, relative to it.
ROUNDING = 1e-12


def _engine_options(command: Any) -> Any:
    """Add the options for a directory."""
    for option in reversed(
        [
            click.option("--engine", type=click.Choice(ENGINES),
                         help="For a directory: stream (default) reads chunks, memory all rows, "
                         "dask uses a cluster. All give the same labels."),
            click.option("--scheduler", metavar="ADDRESS",
                         help="Address of a Dask scheduler; by default a cluster is started on "
                         "this machine."),
            click.option("--checkpoint", type=click.Path(file_okay=False), metavar="DIRECTORY",
                         help="Directory for intermediate results (a few kB) for --resume."),
            click.option("--resume", is_flag=True, help="Continue the run of --checkpoint."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


@click.command(
    short_help="Compute fair clusters of a table.",
    epilog=(
        "Example: fairanchor fit people.csv -k 5 --sensitive sex,race --id person -o labels.csv "
        "--model people.npz"
    ),
)
@click.argument("source", metavar="INPUT", type=PATH)
@shared("clusters", "groups", "features", "exclude", "id")
@click.option(
    "--clusterer",
    type=click.Choice(CLUSTERERS),
    default=CLUSTERERS[0],
    show_default=True,
    help="fair_kmeans clusters all rows by fair k-means; any other clusters anchors, and the "
    "anchor framework labels the rows.",
)
@click.option(
    "--tolerance",
    type=Share(),
    help="By how much shares may deviate: 0 requires exact shares, 1 sets no bound. The default is "
    "0, or 1 with --max-share or with bounds in --targets.",
)
@click.option("--max-share", type=Share(), metavar="SHARE",
              help="Largest share that any group may have of a cluster, such as 0.2. Alone it is "
              "the only constraint; with --tolerance, both apply.")  # fmt: skip
@shared("targets", "attributes", "min_size", "max_size", "missing", "delimiter", "labels")
@click.option("--model", type=PATH, help="Model file for 'fairanchor predict', .npz.")
@shared("report", "json", "seed", "jobs")
@_engine_options
@shared("force", "quiet")
def fit(source: str, **options: Any) -> None:
    """Cluster the rows of INPUT so that every cluster mirrors the groups.

    --min-size and --max-size bound the sizes of the clusters. They can be combined with
    --sensitive, or used without it.

    INPUT is CSV, TSV, Parquet or Arrow (Feather), also compressed by gzip; - is standard input.
    A directory of Parquet or Arrow files is read chunk by chunk, and its labels are a directory.
    Numeric columns are standardised and text columns become columns of 0 and 1. Sensitive columns
    are features only if --features names them.

    The labels keep the order of the rows: the id, or the row's number from 0, and the column
    'cluster'. Without -o they go to standard output, unless --json, --model or --report is
    given.

    Exit code 3: the labels are written, but the fit did not converge, or a cell misses its target
    by a row or more; the message states which.
    """
    from fairanchor.persistence import save_model
    from fairanchor.tables._load import check_id_name
    from fairanchor.tables._write import check_format, write_table

    check_targets_options(options)
    _check_something_is_asked(options)
    if options["tolerance"] is None and options["targets"] is options["max_share"] is None:
        options["tolerance"] = 0.0
    run = Run(options["quiet"])
    if os.path.isdir(source):
        _fit_directory(run, source, options)
        return
    _check_no_engine(options)
    wants_nothing_else = not any(options[name] for name in ("as_json", "model", "report"))
    if options["output"] is None and wants_nothing_else:
        options["output"] = "-"
    check_outputs(options, "model", "report", inputs=[source, options["targets"]])
    if options["output"] is not None:
        check_format(options["output"])
        check_id_name(options["id_column"])

    with run.step("read", f"Reading {show_source(source)}"):
        loaded = load_table(source, options)
    _say_what_was_read(run, source, loaded)
    with run.step("fit", f"Clustering {counted(len(loaded.X), 'row')}"):
        estimator = _new_estimator(options, _fairness(loaded, options))
        groups = loaded.sensitive_features(options["attributes"])
        estimator.fit(loaded.X, sensitive_features=groups)
    summary = _summary_of(source, loaded, estimator, options, run)

    force = options["force"]
    if options["output"] is not None:
        with run.step("write", f"Writing {options['output']}"):
            write_table(loaded.labelled(estimator.labels_), options["output"], force=force)
    if options["model"] is not None:
        preprocessing = loaded.preprocessing
        save_model(estimator, options["model"], preprocessing=preprocessing, force=force)
    if options["report"] is not None:
        with run.step("report", f"Writing {options['report']}"):
            _write_report(source, loaded, estimator, options, run)
    _finish(run, summary, options)


def _fairness(loaded: Any, options: Options) -> dict[str, Any]:
    """The estimator's parameters of the constraint."""
    columns = loaded.preprocessing.sensitive
    if options["targets"] is None:
        return _fairness_without_file(options, len(columns))
    shape = options["n_clusters"], len(loaded.X)
    targets = targets_of_file(options, columns, loaded.groups.public_names, *shape)
    separate = options["attributes"] == "separate" and len(columns) > 1
    return {"fairness": targets if separate else targets[0], "tolerance": 0.0}


def _fairness_without_file(options: Options, n_columns: int) -> dict[str, Any]:
    """The parameters of the constraint that `--tolerance`, `--max-share` and sizes state."""
    from fairanchor import FairnessTargets

    tolerance, least = options["tolerance"], options["min_cluster_size"]
    if options["max_size"] is options["max_share"] is None:
        return {"tolerance": tolerance, "min_cluster_size": least}
    shares = {"upper": options["max_share"], "tolerance": tolerance}
    first = FairnessTargets(**shares, min_size=least, max_size=options["max_size"])
    if options["attributes"] == "intersection" or n_columns < 2:
        return {"fairness": first}
    return {"fairness": [first, *(FairnessTargets(**shares) for _ in range(n_columns - 1))]}


def _check_something_is_asked(options: Options) -> None:
    """Raise an error for a fit without groups and without sizes."""
    is_asked = any(options[name] for name in ("sensitive", "min_cluster_size", "max_size"))
    needs_groups = options["targets"] or options["max_share"] is not None
    if not is_asked or (needs_groups and not options["sensitive"]):
        raise click.UsageError(
            "Missing option '--sensitive': name the column of the groups, or bound the sizes of "
            "the clusters with --min-size and --max-size, which needs no groups."
        )


def _new_estimator(options: Options, fairness: dict[str, Any]) -> Any:
    """The estimator that the options describe."""
    from fairanchor import AnchorFairClustering, FairKMeans
    from fairanchor.tables._roles import MissingPolicy

    parameters = {
        **fairness,
        "attributes": options["attributes"],
        "missing_groups": MissingPolicy.of(options["missing"]).missing_groups,
        "n_jobs": options["jobs"],
        "random_state": options["seed"],
    }
    if options["clusterer"] == CLUSTERERS[0]:
        return FairKMeans(options["n_clusters"], **parameters)
    return AnchorFairClustering(options["n_clusters"], clusterer=options["clusterer"], **parameters)


def _say_what_was_read(run: Run, source: str, loaded: Any) -> None:
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


def _summary_of(
    source: str, loaded: Any, estimator: Any, options: Options, run: Run
) -> dict[str, Any]:
    """What ``--json`` prints about a fit to a `LoadedTable` or to `RowFiles`."""
    names = (
        "n_clusters", "clusterer", "tolerance", "max_share", "targets", "attributes",
        "min_cluster_size", "max_size", "missing", "seed", "jobs", "engine",
    )  # fmt: skip
    certificates = {
        name: getattr(estimator, attribute)
        for name, attribute in CERTIFICATES.items()
        if hasattr(estimator, attribute)
    }
    if hasattr(estimator, "anchors_"):
        certificates["n_anchors"] = len(estimator.anchors_)
    summary = {
        "command": "fit",
        "estimator": type(estimator).__name__,
        "input": source,
        "n_rows": loaded.n_rows,
        "n_rows_left_out": getattr(loaded, "n_dropped", 0),
        "sensitive": list(loaded.preprocessing.sensitive),
        "features": loaded.preprocessing.feature_names,
        **composition_entries(estimator.groups_, estimator.counts_, targets=estimator.targets_),
        "cost": estimator.inertia_,
        "converged": bool(estimator.converged_),
        "worst_violation": estimator.worst_violation_,
        **certificates,
        "parameters": {name: options[name] for name in names},
        "seconds": run.timings,
        "warnings": run.warnings,
    }
    if hasattr(estimator, "attribute_counts_"):
        summary["attributes"] = {
            str(name): composition_entries(
                estimator.attribute_groups_[name],
                counts,
                worst_violation=estimator.attribute_violations_[name],
            )
            for name, counts in estimator.attribute_counts_.items()
        }
    return summary


def _report_parameters(source: str, loaded: Any, options: Options) -> dict[str, Any]:
    """How the table was read, for a report."""
    return {
        "input": source,
        "sensitive columns": ", ".join(loaded.preprocessing.sensitive),
        "feature columns": ", ".join(loaded.preprocessing.inputs),
        "missing values": ", ".join(options["missing"]),
    }


def _write_report(source: str, loaded: Any, estimator: Any, options: Options, run: Run) -> None:
    from fairanchor.report import summarise_run, write_report

    summary = summarise_run(
        estimator,
        loaded.X,
        sensitive_features=loaded.sensitive_features(options["attributes"]),
        title=f"Fair clusters of {show_source(source)}",
        feature_names=loaded.preprocessing.feature_names,
        timings=run.timings,
        warnings=run.warnings,
        n_rows_left_out=loaded.n_dropped,
    )
    parameters = _report_parameters(source, loaded, options) | summary.parameters
    inputs = {"input": source, "targets": options["targets"]}
    summary = replace(
        summary,
        command=command_line(),
        parameters=parameters,
        columns=list(loaded.preprocessing.sensitive),
        fingerprints=file_checksums(inputs) or summary.fingerprints,
    )
    write_report(options["report"], summary, force=options["force"])


def _finish(run: Run, summary: dict[str, Any], options: Options) -> None:
    """Print the result, and exit with code 3 if it is not what was asked for."""
    outputs = {"labels": options["output"], "model": options["model"], "report": options["report"]}
    written = {what: path for what, path in outputs.items() if path is not None}
    anchors = f"{counted(summary['n_anchors'], 'anchor')}, " if "n_anchors" in summary else ""
    run.say(
        "",
        *composition_lines(summary["counts"], summary["groups"] if summary["sensitive"] else ()),
        "",
        *([measures_line(summary)] if summary["sensitive"] else []),
        *attribute_lines(summary.get("attributes")),
        f"cost {summary['cost']:.6g}, {anchors}{sum(run.timings.values()):.1f} s",
        _certificates_line(summary),
        *(f"{what}: {path}" for what, path in written.items() if path != "-"),
    )
    if options["as_json"]:
        print_json(summary | {"outputs": written})
    exit_with(_problems(summary))


def _certificates_line(summary: dict[str, Any]) -> str:
    """How far the labels are from the targets and from the optimum."""
    gap = summary["assignment_gap"]
    if gap <= ROUNDING * summary["cost"]:
        gap = 0.0
    line = (
        f"certificates: worst violation {summary['worst_violation']:.2f} rows, assignment gap "
        f"{gap:.2g}"
    )
    if "lp_value" in summary:
        line += f", linear program {summary['lp_value']:.6g}"
    if "mass_error" in summary:
        line += (
            f"; anchor graph: mass error {summary['mass_error']:.2g} rows, duality gap "
            f"{summary['duality_gap']:.2g}"
        )
    return line


def _problems(summary: dict[str, Any]) -> list[str]:
    """Why the exit code is 3; nothing if it is not."""
    problems = []
    if summary["worst_violation"] >= 1.0:
        problems.append(
            f"Target missed: the worst cell is {summary['worst_violation']:.1f} rows off."
        )
    if not summary["converged"]:
        reason = "the cost was still falling; a cheaper solution is likely"
        if "mass_error" in summary:
            reason = f"the mass error of the anchor graph is {summary['mass_error']:.1f} rows"
        problems.append(
            f"Not converged after {counted(summary['n_iter'], 'iteration')}: {reason}. The table "
            "above counts the labels as they are."
        )
    return problems


# Directories of Parquet or Arrow files. All engines read the same rows in the same order and give
# the same labels: memory reads all rows once, stream a chunk at a time in every pass, and with dask
# the workers of a cluster keep them.


def _check_no_engine(options: Options) -> None:
    """Raise an error for options that are for a directory."""
    for name in ("engine", "scheduler", "checkpoint", "resume"):
        if options[name] not in (None, False, "memory"):
            raise click.UsageError(
                f"--{name.replace('_', '-')} is for a directory of Parquet or Arrow files, and "
                "INPUT is a file."
            )


def _fit_directory(run: Run, directory: str, options: Options) -> None:
    """``fairanchor fit`` of a directory."""
    from fairanchor.persistence import save_model
    from fairanchor.rows._label_files import check_folder, check_names, write_label_files

    options["engine"] = options["engine"] or "stream"
    output, model, report, force = (options[n] for n in ("output", "model", "report", "force"))
    _check_directory_request(directory, options)
    check_outputs(options | {"output": None}, "model", "report", inputs=[directory])
    if output is not None:
        check_folder(output, force=force)
    with _cluster(options) as client:
        with run.step("read", f"Reading {directory}"):
            files = _learn_files(directory, options, client)
            if output is not None:
                check_names([name for name, _ in files.parts])
        run.say(
            f"{directory}: {files.n_rows:,} rows in {len(files.files):,} files",
            f"Features: {files.preprocessing.describe()}.",
        )
        estimator = _new_estimator(options, _fairness_without_file(options, len(files.sensitive)))
        with run.step("fit", f"Clustering {files.n_rows:,} rows", counts=True) as progress:
            labels: Iterable[Any] = _fit_files(files, estimator, options, client, progress)
        summary = _summary_of(directory, files, estimator, options, run)
        if report is not None:
            with run.step("sample", "Reading a sample for the report"):
                sample = _Sample(files)
            labels = sample.collecting(labels)
        if output is not None:
            with run.step("write", f"Writing {output}"):
                write_label_files(output, files.parts, labels, force=force)
        elif report is not None:
            deque(labels, maxlen=0)  # only those of the sample are kept
    if model is not None:
        save_model(estimator, model, preprocessing=files.preprocessing, force=force)
    if report is not None:
        with run.step("report", f"Writing {report}"):
            _write_directory_report(directory, files, sample, estimator, options, run)
    _finish(run, summary, options)


class _Sample:
    """Rows for a report, from all parts of the files, and their labels."""

    def __init__(self, files: Any) -> None:
        import numpy as np
        import pyarrow as pa

        from fairanchor._utils._sampling import spread_sample
        from fairanchor.rows._columns import joined

        self.rows = np.sort(spread_sample(files.n_rows, REPORT_ROWS))
        X: list[Any] = []
        parts: list[list[Any]] = [[] for _ in files.sensitive]
        for start, stop in _spans(files):
            features, columns = files.read(start, stop)
            wanted = self._within(start, stop)
            X.append(features[wanted])
            for part, column in zip(parts, columns, strict=True):
                part += column.take(pa.array(wanted)).chunks
        self.X = np.concatenate(X)
        self.sensitive = [joined(part) for part in parts]
        self.labels: list[Any] = []

    def _within(self, start: int, stop: int) -> Any:
        return self.rows[(self.rows >= start) & (self.rows < stop)] - start

    def collecting(self, labels: Iterable[Any]) -> Iterator[Any]:
        """The same labels; those of the sample are kept."""
        start = 0
        for block in labels:
            stop = start + len(block)
            self.labels.append(block[self._within(start, stop)])
            yield block
            start = stop


def _write_directory_report(
    directory: str, files: Any, sample: _Sample, estimator: Any, options: Options, run: Run
) -> None:
    import numpy as np

    from fairanchor.groups._groups import codes_of_known_groups
    from fairanchor.report import RunSummary, write_report
    from fairanchor.report._collect import stability_of
    from fairanchor.report._constraints import checks_of_estimator, describe_estimator
    from fairanchor.rows._raw_rows import as_table

    names = list(estimator.groups_)
    codes = np.zeros(len(sample.rows), dtype=np.int64)
    if files.sensitive:
        sensitive = as_table(sample.sensitive, files.sensitive)
        codes, _ = codes_of_known_groups(sensitive, names, len(codes), missing="own_group")
    summary = RunSummary(
        title=f"Fair clusters of {directory}",
        labels=np.concatenate(sample.labels),
        group_codes=codes,
        group_names=names,
        columns=list(files.sensitive),
        counts=estimator.counts_,
        checks=checks_of_estimator(estimator),
        constraint=describe_estimator(estimator),
        features=sample.X,
        feature_names=files.feature_names,
        stability=stability_of(estimator),
        parameters=_report_parameters(directory, files, options)
        | {"estimator": type(estimator).__name__, "engine": options["engine"]}
        | estimator.get_params(deep=False),
        command=command_line(),
        warnings=run.warnings,
        timings=run.timings,
        converged=bool(estimator.converged_),
        n_rows_total=files.n_rows,
        fingerprints={"files": _fingerprint(files)},
        uses_sensitive_for_prediction=True,
    )
    write_report(options["report"], summary, force=options["force"])


def _fingerprint(files: Any) -> str:
    """Checksum of names, sizes and times of the files: their rows are not read once more."""
    identity = json.dumps(files.fingerprint(), sort_keys=True, default=str)
    return f"sha256 {hashlib.sha256(identity.encode()).hexdigest()} of names, sizes and times"


def _check_directory_request(directory: str, options: Options) -> None:
    """Raise an error for what a directory does not take, before any work."""
    for name, (option, default) in FOR_FILES_ONLY.items():
        if options[name] != default:
            raise click.UsageError(f"{option} is for a single file, and INPUT is a directory.")
    engine, scheduler, output = options["engine"], options["scheduler"], options["output"]
    wanted = [options[name] for name in ("output", "model", "report", "as_json")]
    for is_wrong, message in [
        ("drop-rows" in options["missing"], "--missing drop-rows is for a single file."),
        (output == "-", "Labels of a directory are a directory: name it with -o."),
        (not any(wanted), "No output: expected -o DIRECTORY, --model, --report or --json."),
        (scheduler and engine != "dask", "--scheduler is for --engine dask."),
        (
            options["resume"] and not options["checkpoint"],
            "--resume needs --checkpoint, the directory to continue from.",
        ),
        (
            options["checkpoint"] and engine == "memory",
            "--checkpoint is for --engine stream and --engine dask.",
        ),
    ]:
        if is_wrong:
            raise click.UsageError(message)
    names = {"output": "-o", "checkpoint": "--checkpoint", "model": "--model", "report": "--report"}
    places = {"INPUT": directory} | {names[key]: options[key] for key in names if options[key]}
    for name, path in places.items():
        for other, around in places.items():
            real, outside = os.path.realpath(path), os.path.realpath(around)
            if name != other and os.path.commonpath([real, outside]) == outside:
                raise click.UsageError(
                    f"{name} {path} is inside {other} {around}: inputs, outputs and checkpoints "
                    "need separate directories."
                )


def open_files(directory: str) -> Any:
    """The Parquet or Arrow files of a directory as a pyarrow dataset, in the order of names."""
    import pyarrow.dataset as ds

    hidden = re.compile(r"(^|/)[._]")
    paths = [path.as_posix() for path in Path(directory).rglob("*") if path.is_file()]
    paths = sorted(path for path in paths if not hidden.search(os.path.relpath(path, directory)))
    if not paths:
        raise ValueError(f"{directory} has no files, expected Parquet or Arrow files.")
    first = {SUFFIXES.get(os.path.splitext(path)[1].lower()): path for path in reversed(paths)}
    if len(first) > 1 or None in first:
        examples = [first[None]] if None in first else list(first.values())
        raise ValueError(
            f"{directory} has {' and '.join(map(os.path.basename, examples))}: expected only "
            ".parquet files, or only .arrow (.feather). Convert text files to Parquet, or fit a "
            "single one."
        )
    return ds.dataset(paths, format=next(iter(first)))


@contextmanager
def _cluster(options: Options) -> Iterator[Any]:
    """A client of the Dask cluster; None without ``--engine dask``."""
    if options["engine"] != "dask":
        yield None
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise click.UsageError(
            '--engine dask needs Dask: pip install "fairanchor[dask]".'
        ) from None
    if options["scheduler"] is not None:
        try:
            client = Client(options["scheduler"], timeout=10, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ValueError(
                f"The scheduler {options['scheduler']} cannot be reached: {error or 'no answer'}."
            ) from None
        with client:
            yield client
        return
    n_workers = (os.cpu_count() or 1) if options["jobs"] == -1 else options["jobs"]
    with (
        LocalCluster(n_workers, threads_per_worker=1, dashboard_address=":0") as local,
        Client(local, set_as_default=False) as client,
    ):
        yield client


def _spans(files: Any) -> list[tuple[int, int]]:
    """First row, and the row after the last one, of every chunk."""
    from fairanchor.rows import _chunks

    starts = range(0, files.n_rows, _chunks.CHUNK_ROWS)
    return [(start, min(start + _chunks.CHUNK_ROWS, files.n_rows)) for start in starts]


def _learn_files(directory: str, options: Options, client: Any) -> Any:
    """The table in a directory's files, as `RowFiles` with its preprocessing."""
    from fairanchor.rows._chunks import read_ahead
    from fairanchor.rows._dask import check_versions, result_of
    from fairanchor.rows._row_files import Footers, RowFiles
    from fairanchor.tables._preprocessing import Preprocessing
    from fairanchor.tables._read import TableSource
    from fairanchor.tables._roles import MissingPolicy, choose_columns

    footers = Footers.of(open_files(directory))
    source = TableSource(directory, footers.names, lambda columns, names: None)
    names = ("sensitive", "features", "exclude")
    chosen = {name: options[name] for name in names}
    roles = choose_columns(source, **chosen, optional=not options["sensitive"])
    files = RowFiles.of(footers, roles.features, roles.sensitive, numbers=False)
    impute = MissingPolicy.of(options["missing"]).features == "impute"
    spans = _spans(files)
    statistics: Iterable[Any]
    if client is not None:
        check_versions(client)
        futures = [
            client.submit(statistics_of_span, impute, *files.around(*span), pure=False)
            for span in spans
        ]
        statistics = (result_of(future, "statistics") for future in futures)
    else:
        statistics = read_ahead(statistics_of_span(impute, files, *span) for span in spans)
    preprocessing = Preprocessing.of_statistics(
        statistics, roles.features, roles.sensitive, impute=impute
    )
    return replace(files, preprocessing=preprocessing, missing_advice="--missing own-group")


def statistics_of_span(impute: bool, files: Any, start: int, stop: int) -> list[Any]:
    """Statistics of all features in a span of rows; errors name the file."""
    from fairanchor.tables._preprocessing import statistics_of, values_of

    parts = []
    for path, row, table in files.tables(start, stop):
        try:
            parts.append(values_of(table, files.features, impute=impute))
        except ValueError as error:
            raise ValueError(f"{path}, from row {row} on: {error}") from error
    return statistics_of(parts, files.features)


def _fit_files(
    files: Any, estimator: Any, options: Options, client: Any, progress: Any
) -> Iterator[Any]:
    """Fit an estimator by the chosen engine; the labels of all rows, in order."""
    from fairanchor.rows._checkpoint import Checkpoint
    from fairanchor.rows._open import FileTable
    from fairanchor.rows._raw_rows import as_table

    if options["engine"] == "memory":
        X, columns = files.read(0, files.n_rows, estimator.missing_groups)
        groups = as_table(columns, files.sensitive) if columns else None
        estimator.fit(X, sensitive_features=groups)
    else:
        checkpoint = None
        if options["checkpoint"] is not None:
            names = ("sensitive", "features", "exclude", "missing")
            command = {name: options[name] for name in names}
            checkpoint = lambda run: Checkpoint(  # noqa: E731
                options["checkpoint"], run | {"command": command}, resume=options["resume"]
            )
        table = FileTable(files, client=client, checkpoint=checkpoint, progress=progress)
        estimator.fit(table, sensitive_features=list(files.sensitive) or None)
    # Names are in the preprocessing, as in models of a single file.
    vars(estimator).pop("feature_names_in_", None)
    if hasattr(estimator, "labels_"):
        return iter([estimator.labels_])
    labels: Iterator[Any] = estimator.iter_labels()
    return labels
