"""``fairanchor fit`` of a directory of Parquet or Arrow files, by one of three engines.

All read the same rows in the same order and give the same labels: ``memory`` reads all rows
once, ``stream`` a chunk at a time in every pass, and with ``dask`` the workers of a cluster keep
them.
"""

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

from fairanchor.cli._common import Options, Run, check_outputs, command_line

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


def engine_options(command: Any) -> Any:
    """Add the options for a directory."""
    for option in reversed(
        [
            click.option("--engine", type=click.Choice(ENGINES),
                         help="For a directory: stream (default) reads chunks, memory all rows, "
                         "dask uses a cluster. All give the same labels."),
            click.option("--scheduler", metavar="ADDRESS",
                         help="Of a Dask cluster; by default one is started here."),
            click.option("--checkpoint", type=click.Path(file_okay=False), metavar="DIRECTORY",
                         help="Keep intermediate results, a few kB."),
            click.option("--resume", is_flag=True, help="Continue from --checkpoint."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def check_no_engine(options: Options) -> None:
    """Raise an error for options that are for a directory."""
    for name in ("engine", "scheduler", "checkpoint", "resume"):
        if options[name] not in (None, False, "memory"):
            raise click.UsageError(
                f"--{name.replace('_', '-')} is for a directory of Parquet or Arrow files, and "
                "INPUT is a file."
            )


def fit_directory(run: Run, directory: str, options: Options) -> None:
    """``fairanchor fit`` of a directory."""
    from fairanchor.cli._fit import fairness_without_file, finish, new_estimator, summary_of
    from fairanchor.persistence import save_model
    from fairanchor.rows._label_files import check_folder, check_names, write_label_files

    options["engine"] = options["engine"] or "stream"
    output, model, report, force = (options[n] for n in ("output", "model", "report", "force"))
    _check_request(directory, options)
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
        estimator = new_estimator(options, fairness_without_file(options, len(files.sensitive)))
        with run.step("fit", f"Clustering {files.n_rows:,} rows", counts=True) as progress:
            labels: Iterable[Any] = _fit_files(files, estimator, options, client, progress)
        summary = summary_of(directory, files, estimator, options, run)
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
            _write_report(directory, files, sample, estimator, options, run)
    finish(run, summary, options)


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


def _write_report(
    directory: str, files: Any, sample: _Sample, estimator: Any, options: Options, run: Run
) -> None:
    import numpy as np

    from fairanchor.cli._fit import report_parameters
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
        parameters=report_parameters(directory, files, options)
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


def _check_request(directory: str, options: Options) -> None:
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
                    f"{name} {path} is inside of {other} {around}: inputs, outputs and checkpoints "
                    "need directories of their own."
                )


def _open_files(directory: str) -> Any:
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
            ".parquet files, or only .arrow (.feather). Text files are read one by one, or written "
            "as Parquet first."
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

    footers = Footers.of(_open_files(directory))
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
        statistics = read_ahead(
            lambda number: statistics_of_span(impute, files, *spans[number]), len(spans)
        )
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
