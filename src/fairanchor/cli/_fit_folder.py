"""``fairanchor fit`` of a directory of Parquet or Arrow files, by one of three engines.

All read the same rows in the same order and give the same labels: ``memory`` reads all rows
once, ``stream`` a chunk at a time in every pass, and with ``dask`` the workers of a cluster keep
them.
"""

import os
from contextlib import contextmanager
from functools import partial

import click

ENGINES = ("memory", "stream", "dask")
# Options of `fit` that a directory does not take, with their defaults.
FOR_FILES_ONLY = {
    "id_column": None, "soft": False, "regret": False, "min_group_size": 0, "delimiter": None,
    "null_values": (), "attributes": "intersection", "targets": None,
}  # fmt: skip
OPTION_NAMES = {"id_column": "--id", "null_values": "--null"}
SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc"}
# What a chunk needs besides its rows, as a multiple of them: copies, scores, reading ahead.
CHUNK_FACTOR = 6
INTERPRETER_BYTES = 450 * 2**20


class Bytes(click.ParamType):
    """A size such as ``2GB`` or ``500MB``."""

    name = "size"
    units = {
        "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
        "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "b": 1,
    }  # fmt: skip

    def convert(self, value, param, ctx):
        """Number of bytes of the text."""
        text = str(value).strip().lower()
        unit = next((unit for unit in self.units if text.endswith(unit)), "")
        try:
            size = float(text.removesuffix(unit)) * self.units.get(unit, 1)
        except ValueError:
            size = -1.0
        if not 0 < size < float("inf"):
            self.fail(f"{value!r} is no size: expected for instance 2GB or 500MB.", param, ctx)
        return int(size)


def engine_options(command):
    """Options of a fit of a directory."""
    for option in reversed(
        [
            click.option("--engine", type=click.Choice(ENGINES),
                         help="Of a directory: stream (default) reads chunks, memory all rows, "
                         "dask uses a cluster. All give the same labels."),
            click.option("--scheduler", metavar="ADDRESS",
                         help="Of a Dask cluster; by default one is started here."),
            click.option("--workers", type=click.IntRange(min=1), metavar="N",
                         help="Of the Dask cluster that is started; by default one per core."),
            click.option("--memory-limit", type=Bytes(), metavar="SIZE",
                         help="Such as 2GB: an error if the run would need more; of the workers of "
                         "a started cluster, together."),
            click.option("--checkpoint", type=click.Path(file_okay=False), metavar="DIRECTORY",
                         help="Keep intermediate results, a few kB."),
            click.option("--resume", is_flag=True, help="Continue from --checkpoint."),
        ]
    ):  # fmt: skip
        command = option(command)
    return command


def check_no_engine(options):
    """Raise an error for options that are for a directory."""
    for name in ("engine", "scheduler", "workers", "memory_limit", "checkpoint", "resume"):
        if options[name] not in (None, False, "memory"):
            raise click.UsageError(
                f"--{name.replace('_', '-')} is for a directory of Parquet or Arrow files, and "
                "INPUT is a file."
            )


def fit_folder(folder, output, model, report, as_json, force, quiet, options):
    """``fairanchor fit`` of a directory."""
    from fairanchor.cli._common import Run, check_outputs, show_source
    from fairanchor.cli._fit import finish, new_estimator, save, summary_of
    from fairanchor.rows._label_files import check_folder, check_names, write_label_files

    options["engine"] = options["engine"] or "stream"
    check_request(output, report, options)
    run = Run(quiet)
    check_outputs(None, model, force=force, inputs=[folder])
    if output is None and not (model or as_json):
        raise click.UsageError("No output: expected -o DIRECTORY (or --model, or --json).")
    _check_apart({
        "INPUT": folder, "-o": output, "--checkpoint": options["checkpoint"], "--model": model,
    })  # fmt: skip
    if output is not None:
        check_folder(output, force=force)
    with cluster(options) as client:
        with run.step("read", f"Reading {show_source(folder)}"):
            files = learn_files(folder, options, client)
            check_memory(files, options)
            if output is not None:
                check_names([name for name, _ in files.parts])
        run.say(f"{show_source(folder)}: {files.n_rows:,} rows in {len(files.files):,} files")
        run.say(f"Features: {files.preprocessing.describe()}.")
        estimator = new_estimator(
            files.preprocessing, options, options["fairness"], options["tolerance"]
        )
        with run.passes("fit", f"Clustering {files.n_rows:,} rows") as progress:
            labels = fit_files(files, estimator, options, client, progress)
        loaded = LearnedFiles(files)
        summary = summary_of(folder, loaded, estimator, options, run)
        if output is not None:
            with run.passes("write", f"Writing {output}"):
                write_label_files(output, files.parts, labels, force=force)
    if model is not None:
        save(estimator, loaded, model, force)
    finish(run, summary, {"labels": output, "model": model}, as_json)


class LearnedFiles:
    """What a summary states about the input."""

    n_dropped = 0

    def __init__(self, files):
        self.n_rows = files.n_rows
        self.preprocessing = files.preprocessing


def _check_apart(places):
    """Raise an error for outputs inside of the input, or of another output."""
    real = {name: os.path.realpath(path) for name, path in places.items() if path is not None}
    for name, path in real.items():
        for other, around in real.items():
            if (
                name != other
                and other != "--model"
                and os.path.commonpath([path, around]) == around
            ):
                raise click.UsageError(
                    f"{name} {places[name]} is inside of {other} {places[other]}: inputs, outputs "
                    "and checkpoints need directories of their own."
                )


def check_request(output, report, options):
    """Raise an error for what a directory does not take, before any work."""
    for name, default in FOR_FILES_ONLY.items():
        if options[name] != default:
            option = OPTION_NAMES.get(name, f"--{name.replace('_', '-')}")
            raise click.UsageError(f"{option} is for a single file, and INPUT is a directory.")
    if report is not None:
        raise click.UsageError(
            "--report is for a single file, and INPUT is a directory. 'fairanchor audit' writes "
            "one for labels."
        )
    if set(options["missing"]) - {"error", "own-group"}:
        raise click.UsageError(
            "--missing impute and --missing drop-rows are for a single file, and INPUT is a "
            "directory."
        )
    if output == "-":
        raise click.UsageError("Labels of a directory are a directory: name it with -o.")
    engine = options["engine"]
    for name in ("scheduler", "workers"):
        if options[name] is not None and engine != "dask":
            raise click.UsageError(f"--{name} is for --engine dask.")
    if options["scheduler"] is not None and options["workers"] is not None:
        raise click.UsageError(
            "--scheduler and --workers are both given: --workers is for a cluster that is started "
            "here."
        )
    if options["scheduler"] is not None and options["memory_limit"] is not None:
        raise click.UsageError("--memory-limit is for a cluster that is started here.")
    if options["resume"] and options["checkpoint"] is None:
        raise click.UsageError("--resume needs --checkpoint, the directory to continue from.")
    if options["checkpoint"] is not None and engine == "memory":
        raise click.UsageError("--checkpoint is for --engine stream and --engine dask.")


def open_files(folder):
    """The Parquet or Arrow files of a directory as a pyarrow dataset, by the order of names."""
    import pyarrow.dataset as ds

    paths = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        paths += [
            os.path.join(parent, name) for name in sorted(names) if not name.startswith((".", "_"))
        ]
    kinds = set(map(_kind, paths))
    if not paths:
        raise ValueError(f"{folder} has no files, expected Parquet or Arrow files.")
    if len(kinds) > 1 or None in kinds:
        first = {_kind(path): path for path in reversed(paths)}
        examples = [first[None]] if None in first else first.values()
        raise ValueError(
            f"{folder} has {' and '.join(map(os.path.basename, examples))}: expected only .parquet "
            "files, or only .arrow (.feather). Text files are read one by one, or written as "
            "Parquet first."
        )
    return ds.dataset(sorted(paths), format=kinds.pop())


def _kind(path):
    return SUFFIXES.get(os.path.splitext(path)[1].lower())


@contextmanager
def cluster(options):
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
    n_workers = options["workers"] or os.cpu_count() or 1
    limit = options["memory_limit"]
    with LocalCluster(
        n_workers=n_workers, threads_per_worker=1, dashboard_address=":0",
        memory_limit="auto" if limit is None else limit // n_workers,
    ) as local, Client(local, set_as_default=False) as client:  # fmt: skip
        yield client


def check_memory(files, options):
    """Raise an error for a memory limit that these rows would exceed."""
    from fairanchor.rows import _chunks

    limit = options["memory_limit"]
    if limit is None:
        return
    numbers_per_row = len(files.feature_names) + options["n_clusters"] + 3
    chunk = 8 * min(_chunks.CHUNK_ROWS, files.n_rows) * numbers_per_row
    needed = INTERPRETER_BYTES + CHUNK_FACTOR * chunk
    if options["engine"] == "memory":
        needed += 8 * files.n_rows * numbers_per_row
    elif options["engine"] == "dask":
        n_workers = options["workers"] or os.cpu_count() or 1
        needed = n_workers * needed + 8 * files.n_rows * numbers_per_row
    if needed > limit:
        raise ValueError(
            f"--memory-limit of {limit / 1e9:.2g} GB is too small: {files.n_rows:,} rows with "
            f"{len(files.feature_names)} features need about {needed / 1e9:.2g} GB with --engine "
            f"{options['engine']}."
        )


def learn_files(folder, options, client):
    """The table in a directory's files, with its preprocessing.

    Returns
    -------
    files : RowFiles
    """
    from dataclasses import replace

    from fairanchor.cli._common import missing_policy
    from fairanchor.rows import _chunks
    from fairanchor.rows._chunks import read_ahead
    from fairanchor.rows._dask import check_versions, result_of
    from fairanchor.rows._row_files import Footers, RowFiles
    from fairanchor.tables._from_chunks import preprocessing_of, statistics_of_span
    from fairanchor.tables._grouping import GroupRule
    from fairanchor.tables._read import TableSource
    from fairanchor.tables._roles import choose_columns

    footers = Footers.of(open_files(folder))
    source = TableSource(folder, footers.names, None)
    roles = choose_columns(
        source,
        sensitive=options["sensitive"],
        features=options["features"],
        exclude=options["exclude"],
    )
    files = RowFiles.of(footers, roles.features, roles.sensitive, numbers=False)
    own_group = missing_policy(options["missing"]).groups == "own_group"
    rule = GroupRule(roles.sensitive, "own_group" if own_group else "error")
    starts = range(0, files.n_rows, _chunks.CHUNK_ROWS)
    spans = [(start, min(start + _chunks.CHUNK_ROWS, files.n_rows)) for start in starts]
    if client is not None:
        check_versions(client)
        futures = [
            client.submit(statistics_of_span, *files.around(*span), pure=False) for span in spans
        ]
        statistics = (result_of(future, "statistics") for future in futures)
    else:
        look = partial(_statistics, files, spans)
        statistics = read_ahead(look, len(spans))
    scale = not options["no_scale"]
    preprocessing = preprocessing_of(statistics, roles.features, rule, scale=scale)
    return replace(files, preprocessing=preprocessing, missing_advice="--missing own-group")


def _statistics(files, spans, number):
    from fairanchor.tables._from_chunks import statistics_of_span

    return statistics_of_span(files, *spans[number])


def fit_files(files, estimator, options, client, progress):
    """Fit an estimator by the chosen engine.

    Returns
    -------
    labels : iterator of ndarray
        Of all rows, in order.
    """
    from fairanchor.rows._open import FileTable
    from fairanchor.rows._raw_rows import as_table

    if options["engine"] == "memory":
        X, columns = files.read(0, files.n_rows, estimator.missing_groups)
        estimator.fit(X, sensitive_features=as_table(columns, files.sensitive))
    else:
        checkpoint = None
        if options["checkpoint"] is not None:
            checkpoint = partial(
                _journal, options["checkpoint"], resume=options["resume"],
                command=_identity(options),
            )  # fmt: skip
        table = FileTable(files, client=client, checkpoint=checkpoint, progress=progress)
        estimator.fit(table, sensitive_features=list(files.sensitive))
    if hasattr(estimator, "labels_"):
        return iter([estimator.labels_])
    return estimator.iter_labels()


def _journal(folder, run, *, resume, command):
    from fairanchor.rows._checkpoint import Checkpoint

    return Checkpoint(folder, run | {"command": command}, resume=resume)


def _identity(options):
    """Options that change the result."""
    names = ("sensitive", "features", "exclude", "no_scale", "missing")
    return {name: options[name] for name in names}
