"""``fairanchor fit``: from a table to fair clusters."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import click
import numpy as np

from fairanchor import AnchorFairClustering, FairKMeans, FairnessTargets
from fairanchor._utils._sampling import spread_sample
from fairanchor.cli import _common as common
from fairanchor.cli._commands import CLUSTERERS
from fairanchor.cli._common import Options
from fairanchor.cli._targets import targets_of_file
from fairanchor.cli._terminal import Run, exit_with, libraries_to_standard_error
from fairanchor.groups._groups import codes_of_known_groups
from fairanchor.persistence import save_model
from fairanchor.plotting._composition import Composition
from fairanchor.report import RunSummary, summarise_run, write_report
from fairanchor.report._collect import summary_of_sample
from fairanchor.rows._checkpoint import Checkpoint
from fairanchor.rows._chunks import CHUNK_ROWS, read_ahead
from fairanchor.rows._label_files import check_names, write_label_files
from fairanchor.rows._open import FileTable
from fairanchor.rows._row_files import RowFiles
from fairanchor.tables._load import object_array
from fairanchor.tables._preprocessing import Preprocessing, statistics_of
from fairanchor.tables._read import open_table
from fairanchor.tables._roles import MissingPolicy, choose_columns
from fairanchor.tables._wording import counted
from fairanchor.tables._write import write_table

# Entries of a summary, if the estimator has an attribute of this name and an underscore.
CERTIFICATES = ("lp_value", "mass_error", "duality_gap", "assignment_gap", "n_iter")
# Options that state the same as a column of --targets.
IN_TARGETS = {
    "min_cluster_size": "--min-size",
    "max_size": "--max-size",
    "max_share": "--max-share",
}
# Enough rows for the figures and profiles of a report.
REPORT_ROWS = 20_000
# Rounding errors of a cost, relative to it.
ROUNDING = 1e-12


def run_fit(run: Run, options: Options) -> None:
    """Fit, write what was asked for, and print a summary."""
    source, model, report = options["source"], options["model"], options["report"]
    is_directory = os.path.isdir(source)
    _check_request(is_directory, options)
    if not (options["output"] or model or report or options["as_json"]):
        options["output"] = "-"
    if is_directory:
        common.check_directory(options)
    inputs = {"input": source, "targets": options["targets"]}
    table = None if is_directory else options["output"]
    common.check_outputs(options, model, report, table=table, inputs=list(inputs.values()))
    fit = _fit_directory if is_directory else _fit_file
    data, estimator = fit(run, options)
    preprocessing = data.preprocessing
    if model is not None:
        save_model(estimator, model, preprocessing=preprocessing, force=options["force"])
    result = _result(data, estimator, options, run)
    if report is not None:
        with run.step("report", f"Writing {report}"):
            summarise = _summary_of_directory if is_directory else _summary_of_file
            summary = summarise(data, estimator, options)
            summary.fingerprints = common.file_checksums(inputs) or summary.fingerprints
            summary.command = common.command_line()
            summary.columns = list(preprocessing.sensitive)
            summary.timings, summary.warnings = run.timings, run.warnings
            summary.parameters = {
                "input": source,
                "sensitive columns": ", ".join(preprocessing.sensitive),
                "feature columns": ", ".join(preprocessing.inputs),
                "missing values": ", ".join(options["missing"]),
            } | summary.parameters
            write_report(report, summary, force=options["force"])
    _finish(run, result, options)


def _check_request(is_directory: bool, options: Options) -> None:
    """Raise an error for options that contradict each other or the kind of input."""
    for name, option in IN_TARGETS.items():
        if options["targets"] is not None and options[name] is not None:
            raise click.UsageError(f"{option} and --targets: state it in the file.")
    needs_groups = options["targets"] or options["max_share"] is not None
    has_sizes = options["min_cluster_size"] or options["max_size"]
    if not options["sensitive"] and (needs_groups or not has_sizes):
        raise click.UsageError(
            "Missing option '--sensitive': name the column of the groups, or bound the sizes of "
            "the clusters with --min-size and --max-size, which needs no groups."
        )
    if options["tolerance"] is None and options["targets"] is options["max_share"] is None:
        options["tolerance"] = 0.0
    if not is_directory:
        for name in ("engine", "scheduler", "checkpoint", "resume"):
            if options[name] not in (None, False, "memory"):
                raise click.UsageError(
                    f"--{name} is for a directory of Parquet or Arrow files, and INPUT is a file."
                )
        return
    options["engine"] = options["engine"] or "stream"
    if options["scheduler"] and options["engine"] != "dask":
        raise click.UsageError("--scheduler is for --engine dask.")
    if options["resume"] and not options["checkpoint"]:
        raise click.UsageError("--resume needs --checkpoint, the directory to continue from.")
    if options["checkpoint"] and options["engine"] == "memory":
        raise click.UsageError("--checkpoint is for --engine stream and --engine dask.")


def _new_estimator(options: Options, fairness: dict[str, Any]) -> Any:
    """The estimator that the options describe."""
    parameters = {
        **fairness,
        "attributes": options["attributes"],
        "missing_groups": MissingPolicy.of(options["missing"]).groups,
        "n_jobs": options["jobs"],
        "random_state": options["seed"],
    }
    if options["clusterer"] == CLUSTERERS[0]:
        return FairKMeans(options["n_clusters"], **parameters)
    return AnchorFairClustering(options["n_clusters"], clusterer=options["clusterer"], **parameters)


def _fairness(options: Options, n_columns: int) -> dict[str, Any]:
    """The parameters of the constraint that `--tolerance`, `--max-share` and sizes state."""
    tolerance, least = options["tolerance"], options["min_cluster_size"]
    if options["max_size"] is options["max_share"] is None:
        return {"tolerance": tolerance, "min_cluster_size": least}
    shares = {"upper": options["max_share"], "tolerance": tolerance}
    first = FairnessTargets(**shares, min_size=least, max_size=options["max_size"])
    if options["attributes"] == "intersection" or n_columns < 2:
        return {"fairness": first}
    return {"fairness": [first, *(FairnessTargets(**shares) for _ in range(n_columns - 1))]}


def _fit_file(run: Run, options: Options) -> tuple[Any, Any]:
    """Fit a table in memory and write its labels; returns the table and the estimator."""
    loaded = common.load_for_fit(run, options)
    columns, n_rows = loaded.preprocessing.sensitive, len(loaded.X)
    with run.step("fit", f"Clustering {counted(n_rows, 'row')}"), libraries_to_standard_error():
        fairness = _fairness(options, len(columns))
        if options["targets"] is not None:
            shape = options["n_clusters"], n_rows
            targets = targets_of_file(options, columns, loaded.groups.public_names, *shape)
            separate = options["attributes"] == "separate" and len(columns) > 1
            fairness = {"fairness": targets if separate else targets[0], "tolerance": 0.0}
        estimator = _new_estimator(options, fairness)
        groups = loaded.sensitive_features(options["attributes"])
        estimator.fit(loaded.X, sensitive_features=groups)
    output = options["output"]
    if output is not None:
        with run.step("write", f"Writing {output}"):
            write_table(loaded.labelled(estimator.labels_), output, force=options["force"])
    return loaded, estimator


def _summary_of_file(loaded: Any, estimator: Any, options: Options) -> RunSummary:
    summary = summarise_run(
        estimator,
        loaded.X,
        sensitive_features=loaded.sensitive_features(options["attributes"]),
        title=f"Fair clusters of {common.show_source(options['source'])}",
        feature_names=loaded.preprocessing.feature_names,
    )
    summary.n_rows_left_out = loaded.n_dropped
    return summary


def _result(data: Any, estimator: Any, options: Options, run: Run) -> dict[str, Any]:
    """What ``--json`` prints about a fit to a `LoadedTable` or to `RowFiles`."""
    result = {
        "command": "fit",
        "estimator": type(estimator).__name__,
        "input": options["source"],
        "n_rows": data.n_rows,
        "n_rows_left_out": getattr(data, "n_dropped", 0),
        "sensitive": list(data.preprocessing.sensitive),
        "features": data.preprocessing.feature_names,
        **Composition(estimator.counts_, [], estimator.groups_).entries,
        "targets": estimator.targets_,
        "cost": estimator.inertia_,
        "converged": bool(estimator.converged_),
        "worst_violation": estimator.worst_violation_,
        "parameters": options,
        "seconds": run.timings,
        "warnings": run.warnings,
    }
    for name in CERTIFICATES:
        if hasattr(estimator, f"{name}_"):
            result[name] = getattr(estimator, f"{name}_")
    if hasattr(estimator, "anchors_"):
        result["n_anchors"] = len(estimator.anchors_)
    if hasattr(estimator, "attribute_counts_"):
        result["attributes"] = {
            str(name): Composition(counts, [], estimator.attribute_groups_[name]).entries
            | {"worst_violation": estimator.attribute_violations_[name]}
            for name, counts in estimator.attribute_counts_.items()
        }
    return result


def _finish(run: Run, result: dict[str, Any], options: Options) -> None:
    """Print the result, and exit with code 3 if it is not what was asked for."""
    outputs = {"labels": options["output"], "model": options["model"], "report": options["report"]}
    written = {what: path for what, path in outputs.items() if path is not None}
    anchors = f"{counted(result['n_anchors'], 'anchor')}, " if "n_anchors" in result else ""
    has_groups = bool(result["sensitive"])
    gap = result["assignment_gap"] if result["assignment_gap"] > ROUNDING * result["cost"] else 0.0
    graph = ""
    if "mass_error" in result:
        mass_error, duality_gap = result["mass_error"], result["duality_gap"]
        graph = f"; anchor graph: mass error {mass_error:.2g} rows, duality gap {duality_gap:.2g}"
    run.say(
        "",
        *common.composition_lines(result["counts"], result["groups"] if has_groups else ()),
        "",
        *(common.measures_lines(result) if has_groups else ()),
        f"cost {result['cost']:.6g}, {anchors}fit in {run.timings['fit']:.1f} s",
        f"certificates: worst violation {result['worst_violation']:.2f} rows, assignment gap "
        f"{gap:.2g}{graph}",
        *(f"{what}: {path}" for what, path in written.items() if path != "-"),
    )
    if options["as_json"]:
        common.print_json(result | {"outputs": written})
    problems = []
    if result["worst_violation"] >= 1.0:
        problems.append(
            f"Target missed: the worst cell is {result['worst_violation']:.1f} rows off."
        )
    if not result["converged"]:
        reason = "the cost was still falling; a cheaper solution is likely"
        if "mass_error" in result:
            reason = f"the mass error of the anchor graph is {result['mass_error']:.1f} rows"
        problems.append(
            f"Not converged after {counted(result['n_iter'], 'iteration')}: {reason}. The table "
            "above counts the labels as they are."
        )
    exit_with(problems)


# Directories of Parquet or Arrow files. All engines read the same rows in the same order and give
# the same labels: memory reads all rows once, stream a chunk at a time in every pass, and with dask
# the workers of a cluster keep them.


def _fit_directory(run: Run, options: Options) -> tuple[Any, Any]:
    """Fit the files of a directory and write their labels; returns the files and the estimator."""
    directory = options["source"]
    with _cluster(options) as client:
        with run.step("read", f"Reading {directory}"):
            files = _learn_files(directory, options, client)
            check_names([name for name, _ in files.parts])
        run.say(
            f"{directory}: {files.n_rows:,} rows in {len(files.files):,} files",
            f"Features: {files.preprocessing.describe()}.",
        )
        estimator = _new_estimator(options, _fairness(options, len(files.sensitive)))
        fitting = run.step("fit", f"Clustering {files.n_rows:,} rows")
        with fitting as progress, libraries_to_standard_error():
            labels = _fit_files(files, estimator, options, client, progress)
        if options["output"] is not None:
            with run.step("write", f"Writing {options['output']}"):
                write_label_files(options["output"], files.parts, labels, force=options["force"])
    return files, estimator


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


def _learn_files(directory: str, options: Options, client: Any) -> RowFiles:
    """The table in a directory's files, with its preprocessing."""
    source = open_table(directory)
    chosen = {name: options[name] for name in ("sensitive", "features", "exclude")}
    roles = choose_columns(source, **chosen)
    files = RowFiles.of(source.footers, roles.features, roles.sensitive, numbers=False)
    impute = MissingPolicy.of(options["missing"]).impute
    spans = [
        (start, min(start + CHUNK_ROWS, files.n_rows))
        for start in range(0, files.n_rows, CHUNK_ROWS)
    ]
    statistics: Iterable[Any]
    if client is not None:
        from fairanchor.rows._dask import check_versions, result_of  # Dask is optional

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
    where = ""

    def tables() -> Iterator[Any]:
        nonlocal where
        for path, row, table in files.tables(start, stop):
            where = f"{path}, from row {row} on: "
            yield table

    try:
        return statistics_of(tables(), files.features, impute=impute)
    except ValueError as error:
        raise ValueError(f"{where}{error}") from error


def _fit_files(
    files: Any, estimator: Any, options: Options, client: Any, progress: Any
) -> Iterable[Any]:
    """Fit an estimator by the chosen engine; the labels of all rows, in order."""
    if options["engine"] == "memory":
        raw = files.read(0, files.n_rows, estimator.missing_groups)
        estimator.fit(raw.X, sensitive_features=raw.sensitive_features)
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
    return [estimator.labels_] if hasattr(estimator, "labels_") else estimator.iter_labels()


def _summary_of_directory(files: Any, estimator: Any, options: Options) -> RunSummary:
    """Facts of a report: the counts of all rows, and a sample of the rows with their labels."""
    sample = spread_sample(files.n_rows, REPORT_ROWS)
    names, X, codes = list(estimator.groups_), [], []
    chunks = files.read_in_turn(0, files.n_rows, CHUNK_ROWS)
    for number, raw in enumerate(chunks):
        start = number * CHUNK_ROWS
        chosen = sample[(sample >= start) & (sample < start + CHUNK_ROWS)] - start
        X.append(raw.X[chosen])
        of_rows, table = np.zeros(len(raw.X), dtype=np.int64), raw.sensitive_features
        if table is not None:
            of_rows, _ = codes_of_known_groups(table, names, len(table), missing="own_group")
        codes.append(of_rows[chosen])
    rows, group_codes = np.concatenate(X), np.concatenate(codes)
    if hasattr(estimator, "labels_"):
        labels = estimator.labels_[sample]
    else:
        groups = object_array(names)[group_codes] if files.sensitive else None
        labels = estimator.predict(rows, sensitive_features=groups)
    identity = json.dumps(files.fingerprint(), sort_keys=True, default=str).encode()
    digest = hashlib.sha256(identity).hexdigest()
    return summary_of_sample(
        estimator,
        rows,
        labels,
        group_codes,
        title=f"Fair clusters of {options['source']}",
        feature_names=files.feature_names,
        n_rows_total=files.n_rows,
        # Of the files' identity: their rows are not read once more.
        fingerprints={"files": f"sha256 {digest} of names, sizes and times"},
    )
