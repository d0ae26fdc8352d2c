"""Rows that stay in files: time and memory of streaming, and what a Dask cluster adds.

    python benchmarks/streaming.py --folder FOLDER
    python benchmarks/streaming.py --estimator AnchorFairClustering
    python benchmarks/streaming.py --quick

Writes overlapping blobs (10 features, 3 groups) as Parquet files of a million rows to FOLDER, by
default a temporary one, and fits 5 clusters to the first 5 and 10 million rows and to all 50
million, each in a process of its own whose peak of resident memory counts from its start, imports
included. Then the 10 million rows in memory, from the same files, and on a local Dask cluster of
two workers. All engines must give the same labels.
"""

import hashlib
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import fairanchor
from _common import (
    claim,
    finish,
    in_new_process,
    number,
    parsed,
    parser_of,
    peak_memory,
    print_table,
    progress,
    timed,
)
from fairanchor.cluster._large_scale import LargeScaleClusterer
from fairanchor.datasets import make_fair_blobs
from fairanchor.rows._open import FileTable

SIZES = (5_000_000, 10_000_000, 50_000_000)
QUICK_SIZES = (20_000, 40_000, 80_000)
FILE_ROWS, QUICK_FILE_ROWS, QUICK_CHUNK_ROWS = 1_000_000, 5_000, 8_192
N_CLUSTERS, N_FEATURES, GROUP_SHARES = 5, 10, (0.5, 0.3, 0.2)
N_WORKERS = 2
MOST_MEMORY_MB, MOST_GROWTH, MOST_OVERHEAD = 2_000, 1.10, 1.15


def main(arguments=None):
    parser = parser_of(__doc__, repeats=False)
    parser.add_argument("--folder", type=Path, help="where the files are, or are written")
    parser.add_argument("--sizes", type=int, nargs=3, help="numbers of rows, increasing")
    parser.add_argument(
        "--estimator", choices=["FairKMeans", "AnchorFairClustering"], default="FairKMeans"
    )
    options = parsed(parser, arguments)
    sizes = tuple(options.sizes or (QUICK_SIZES if options.quick else SIZES))
    if options.folder is not None:
        return measure_all(options, sizes, options.folder)
    with tempfile.TemporaryDirectory() as folder:
        return measure_all(options, sizes, Path(folder))


def measure_all(options, sizes, folder):
    file_rows = QUICK_FILE_ROWS if options.quick else FILE_ROWS
    chunk_rows = QUICK_CHUNK_ROWS if options.quick else LargeScaleClusterer._chunk_rows
    write_files(folder, max(sizes), file_rows)
    records = []
    for n_rows in sizes:
        files = files_of(folder, n_rows, file_rows)
        progress(f"streaming {n_rows:,} rows")
        records.append(in_new_process(stream, options.estimator, files, chunk_rows, limit=7200))
    files = files_of(folder, sizes[1], file_rows)
    for engine, measure in (("memory", in_memory), ("dask", on_dask)):
        progress(f"{sizes[1]:,} rows, {engine}")
        records.append(in_new_process(measure, options.estimator, files, chunk_rows, limit=7200))
    report(records)
    small, middle, large, memory, dask = records
    growth = large["peak_mb"] / small["peak_mb"]
    slowdown = large["seconds"] / small["seconds"] / (large["rows"] / small["rows"])
    overhead = dask["seconds"] / memory["seconds"]
    same = len({record["labels"] for record in (middle, memory, dask)}) == 1
    violation = max(record["worst_violation"] for record in records)
    checks = [
        claim("the same labels from all engines", same, same),
        claim("every cell the floor or ceiling of its target", violation < 1, violation),
    ]
    goals = [
        claim("peak below 2 GB", large["peak_mb"] < MOST_MEMORY_MB, large["peak_mb"]),
        claim("peak flat within 10 %", growth <= MOST_GROWTH, growth),
        claim("time per row, all over few", slowdown <= MOST_GROWTH, slowdown),
        claim("Dask at most 15 % over memory", overhead <= MOST_OVERHEAD, overhead),
    ]
    settings = {
        "estimator": options.estimator,
        "features": N_FEATURES,
        "n_clusters": N_CLUSTERS,
        "chunk_rows": chunk_rows,
    }
    return finish(
        "streaming", options, settings=settings, records=records, checks=checks, goals=goals
    )


def write_files(folder, n_rows, file_rows):
    """Files that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    centers = np.random.default_rng(0).uniform(-1.0, 1.0, (N_CLUSTERS, N_FEATURES))
    for number_, path in enumerate(paths_of(folder, n_rows, file_rows)):
        if path.exists():
            continue
        blobs = make_fair_blobs(
            file_rows, centers=centers, group_shares=GROUP_SHARES, random_state=number_
        )
        columns = {f"x{j}": blobs.data[:, j] for j in range(N_FEATURES)}
        columns["group"] = pa.array(blobs.sensitive_features)
        partial = path.with_suffix(".partial")
        pq.write_table(pa.table(columns), partial, row_group_size=2**18)
        partial.rename(path)


def paths_of(folder, n_rows, file_rows):
    return [folder / f"rows-{k:04d}.parquet" for k in range(-(-n_rows // file_rows))]


def files_of(folder, n_rows, file_rows):
    return [str(path) for path in paths_of(folder, n_rows, file_rows)]


# One engine, in a process of its own.


def fitted(estimator, table, **sensitive):
    model = getattr(fairanchor, estimator)(N_CLUSTERS, n_jobs=-1, random_state=0)
    return model.fit(table, **sensitive)


def warm(estimator, chunk_rows):
    """Load the kernels by a fit of a few rows."""
    blobs = make_fair_blobs(3_000, centers=N_CLUSTERS, n_features=N_FEATURES, random_state=0)
    LargeScaleClusterer._chunk_rows = 1_000
    fitted(estimator, blobs.data, sensitive_features=blobs.sensitive_features)
    LargeScaleClusterer._chunk_rows = chunk_rows


def record_of(engine, model, seconds, labels):
    return {
        "engine": engine,
        "rows": int(model.counts_.sum()),
        "seconds": seconds,
        "peak_mb": peak_memory(),
        "worst_violation": model.worst_violation_,
        "cost_per_row": model.inertia_ / float(model.counts_.sum()),
        "labels": digest(labels),
    }


def digest(arrays):
    hashed = hashlib.blake2b(digest_size=8)
    for labels in arrays:
        hashed.update(np.ascontiguousarray(labels, dtype=np.int32))
    return hashed.hexdigest()


def stream(estimator, files, chunk_rows):
    warm(estimator, chunk_rows)
    passes = {}

    def count(title, done, total):
        passes[title] = passes.get(title, 0) + (done == total)

    table = FileTable(ds.dataset(files), progress=count)
    seconds, model = timed(fitted, estimator, table, sensitive_features="group")
    writing, labels = timed(lambda: list(model.iter_labels()))
    record = record_of("stream", model, seconds, labels)
    return record | {"writing_seconds": writing, "passes": passes}


def in_memory(estimator, files, chunk_rows):
    warm(estimator, chunk_rows)
    reading, (X, groups) = timed(read_all, files)
    fitting, model = timed(fitted, estimator, X, sensitive_features=groups)
    record = record_of("memory", model, reading + fitting, [model.labels_])
    return record | {"fit_seconds": fitting}


def read_all(files):
    table = ds.dataset(files).to_table()
    X = np.empty((table.num_rows, N_FEATURES))
    for j in range(N_FEATURES):
        X[:, j] = table.column(f"x{j}").to_numpy()
    return X, table.column("group").to_numpy()


def on_dask(estimator, files, chunk_rows):
    from distributed import Client, LocalCluster

    options = {"n_workers": N_WORKERS, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        warm(estimator, chunk_rows)
        client.run(warm, estimator, chunk_rows)
        table = FileTable(ds.dataset(files), client=client)
        seconds, model = timed(fitted, estimator, table, sensitive_features="group")
        return record_of("dask", model, seconds, model.iter_labels())


def report(records):
    print_table(
        ("engine", "rows", "seconds", "µs per row", "peak MB", "labels"),
        [
            (
                record["engine"],
                f"{record['rows']:,}",
                number(record["seconds"], "{:.1f}"),
                number(1e6 * record["seconds"] / record["rows"]),
                number(record["peak_mb"], "{:.0f}"),
                record["labels"],
            )
            for record in records
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
