"""Rows that stay in files: passes, time and memory of streaming, and what a Dask cluster adds.

    python benchmarks/streaming.py
    python benchmarks/streaming.py --sizes 10000000 100000000 --estimator AnchorFairClustering
    python benchmarks/streaming.py --quick

Writes overlapping blobs as compact Parquet (six features of 8 bits, the group as a dictionary of
text, row groups of a million rows; 6.3 GB for 10^9 rows) to a temporary folder below ``--folder``,
which is removed at the end. Every fit (five clusters, two threads) runs in a process of its own,
whose peak of resident memory counts from its start, imports included; labels are written to files,
and the cells are counted from these files and the input's.

The *reference pass* reads the same columns, forms one block of float32 per row group, multiplies it
by the centres and takes the argmin, in two threads: the median of three after a warm-up. A pass of
the fit is compared with it. The smallest table is also fitted in memory and on local Dask clusters
of ``--workers`` workers with one thread each: all engines must give the same labels. Of these fits
the passes are measured at the driver: seconds, and bytes of what workers send. `FairKMeans` is
bounded to ``--max-passes``, and fitted to the smallest table without that bound for comparison.
"""

import hashlib
import os
import pickle
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

import fairanchor
from _common import (
    claim,
    finish,
    in_new_process,
    median,
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

ESTIMATORS = ("FairKMeans", "AnchorFairClustering")
SIZES, QUICK_SIZES = (10_000_000, 100_000_000, 1_000_000_000), (20_000, 80_000)
FILE_ROWS, GROUP_ROWS = 10_000_000, 1_000_000
QUICK_FILE_ROWS, QUICK_GROUP_ROWS, QUICK_CHUNK_ROWS = 10_000, 5_000, 8_192
N_CLUSTERS, N_FEATURES, N_THREADS, WORKERS = 5, 6, 2, (1, 2, 4)
# Shares of the groups in each blob: they differ, so that fairness costs something.
GROUPS = ("a", "b", "c")
SHARES = np.array([[6, 3, 1], [5, 3, 2], [4, 4, 2], [5, 2, 3], [6, 2, 2]]) / 10
SPREAD, CENTERS = 18.0, 45.0
MOST_PASSES, MOST_MEMORY_MB, MOST_GROWTH, MOST_OF_REFERENCE = 5, 2_000, 1.3, 1.5
SAME_TIME, SAME_COST = 0.10, 0.002
SECONDS = 6 * 3600


def main(arguments=None):
    parser = parser_of(__doc__, repeats=False)
    parser.add_argument("--folder", type=Path, help="where the temporary folder is created")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of rows, increasing")
    parser.add_argument("--estimator", choices=ESTIMATORS, nargs="+", default=["FairKMeans"])
    parser.add_argument("--max-passes", type=int, default=MOST_PASSES, help="of FairKMeans")
    parser.add_argument("--workers", type=int, nargs="*", default=WORKERS, help="Dask clusters")
    options = parsed(parser, arguments)
    options.sizes = tuple(options.sizes or (QUICK_SIZES if options.quick else SIZES))
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="streaming-") as folder:
        return measure_all(options, Path(folder))


def measure_all(options, folder):
    chunk_rows = QUICK_CHUNK_ROWS if options.quick else LargeScaleClusterer._chunk_rows
    file_rows = QUICK_FILE_ROWS if options.quick else FILE_ROWS
    records, ratios, growths, slowdowns, same, costs = [], [], [], [], [], []
    progress(f"writing {max(options.sizes):,} rows")
    files = write_files(folder, max(options.sizes), file_rows, options.quick)
    for estimator in options.estimator:
        streamed = []
        bounded = estimator == "FairKMeans"
        parameters = {"max_passes": options.max_passes} if bounded else {}
        for n_rows in options.sizes[::-1]:  # what takes longest fails first
            progress(f"{estimator}, {n_rows:,} rows, files")
            own = files[: -(-n_rows // file_rows)]
            call = (stream, estimator, parameters, own, chunk_rows, folder)
            streamed.insert(0, in_new_process(*call, limit=SECONDS))
            report(streamed[:1])
        smallest = files[: -(-options.sizes[0] // file_rows)]
        others = []
        progress(f"{estimator}, {options.sizes[0]:,} rows, memory")
        call = (in_memory, estimator, parameters, smallest, chunk_rows)
        others.append(in_new_process(*call, limit=SECONDS))
        for n_workers in options.workers:
            progress(f"{estimator}, {options.sizes[0]:,} rows, Dask, {n_workers} workers")
            call = (on_dask, estimator, parameters, smallest, chunk_rows, n_workers)
            others.append(in_new_process(*call, limit=SECONDS))
        if bounded:
            progress(f"{estimator}, {options.sizes[0]:,} rows, any number of passes")
            call = (in_memory, estimator, {}, smallest, chunk_rows)
            free = in_new_process(*call, limit=SECONDS) | {"engine": "memory, max_passes=None"}
            costs.append(streamed[0]["cost_per_row"] / free["cost_per_row"] - 1.0)
            records.append(free)
        records += streamed + others
        same.append(len({record["labels"] for record in (streamed[0], *others)}) == 1)
        ratios += [record["of_reference"] for record in streamed]
        growths.append(streamed[-1]["peak_mb"] / streamed[0]["peak_mb"])
        per_row = [record["seconds"] / record["rows"] for record in streamed]
        slowdowns.append(max(per_row) / min(per_row) - 1.0)
    report(records)
    on_files = [record for record in records if record["engine"] == "stream"]
    violation = max(record["worst_cell"] for record in on_files)
    passes = max(record["n_passes"] for record in on_files)
    peak = max(record["peak_mb"] for record in on_files)
    checks = [
        claim("the same labels from all engines", all(same), same),
        claim("every cell the floor or ceiling of its target", violation < 1, violation),
    ]
    goals = [
        claim("at most 5 passes, writing included", passes <= MOST_PASSES, passes),
        claim("peak at most 2 GB", peak <= MOST_MEMORY_MB, peak),
        claim("peak of the largest at most 1.3 x", max(growths) <= MOST_GROWTH, growths),
        claim("a pass at most 1.5 x the reference", max(ratios) <= MOST_OF_REFERENCE, ratios),
        claim("time per row within 10 %", max(slowdowns) <= SAME_TIME, slowdowns),
        claim(
            "cost within 0.2 % of that of any number of passes",
            max(costs, default=0.0) <= SAME_COST,
            costs,
        ),
    ]
    settings = {
        "sizes": list(options.sizes), "features": N_FEATURES, "n_clusters": N_CLUSTERS,
        "threads": N_THREADS, "chunk_rows": chunk_rows,
    }  # fmt: skip
    return finish(
        "streaming", options, settings=settings, records=records, checks=checks, goals=goals
    )


# Files.


def write_files(folder, n_rows, file_rows, quick):
    """Files of equal size with at least ``n_rows`` rows; returns their paths."""
    group_rows = QUICK_GROUP_ROWS if quick else GROUP_ROWS
    centers = np.random.default_rng(0).uniform(-CENTERS, CENTERS, (N_CLUSTERS, N_FEATURES))
    centers = centers.astype(np.float32)
    paths = [folder / f"rows-{k:04d}.parquet" for k in range(-(-n_rows // file_rows))]
    schema = pa.schema(
        [(f"x{j}", pa.int8()) for j in range(N_FEATURES)]
        + [("group", pa.dictionary(pa.int8(), pa.string()))]
    )
    with ThreadPoolExecutor(N_THREADS) as pool:
        calls = [
            pool.submit(write_file, path, k, centers, schema, file_rows, group_rows)
            for k, path in enumerate(paths)
        ]
        for call in calls:
            call.result()
    return [str(path) for path in paths]


def write_file(path, seed, centers, schema, file_rows, group_rows):
    rng = np.random.default_rng(seed)
    names = pa.array(GROUPS)
    with pq.ParquetWriter(path, schema, compression="none") as writer:
        for start in range(0, file_rows, group_rows):
            n = min(group_rows, file_rows - start)
            blobs = rng.integers(N_CLUSTERS, size=n)
            X = rng.standard_normal((n, N_FEATURES), dtype=np.float32) * np.float32(SPREAD)
            X += centers[blobs]
            X = np.clip(np.rint(X), -128, 127).astype(np.int8)
            codes = (rng.random(n, dtype=np.float32)[:, None] > SHARES.cumsum(1)[blobs, :-1]).sum(1)
            columns = [pa.array(np.ascontiguousarray(X[:, j])) for j in range(N_FEATURES)]
            columns.append(pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int8)), names))
            writer.write_table(pa.table(columns, schema=schema), row_group_size=group_rows)


# The reference pass.


def reference_pass(files, centers):
    """Read the columns, form float32 blocks, multiply by the centres, take argmins.

    Returns seconds of the clock and of the processor.
    """
    names = [*(f"x{j}" for j in range(N_FEATURES)), "group"]
    factor = np.ascontiguousarray(-2.0 * centers.T, dtype=np.float32)
    squares = (centers**2).sum(axis=1).astype(np.float32)
    pieces = [
        (path, k) for path in files for k in range(pq.read_metadata(path).num_row_groups)
    ]  # fmt: skip

    def run(piece):
        path, k = piece
        table = pq.ParquetFile(path).read_row_group(k, columns=names, use_threads=False)
        X = np.empty((table.num_rows, N_FEATURES), dtype=np.float32)
        for j in range(N_FEATURES):
            X[:, j] = table.column(j).to_numpy()
        return (X @ factor + squares).argmin(axis=1).sum()

    cpu = time.process_time()
    with threadpool_limits(1), ThreadPoolExecutor(N_THREADS) as pool:
        seconds = timed(lambda: list(pool.map(run, pieces)))[0]
    return seconds, time.process_time() - cpu


# One engine, in a process of its own.


def fitted(estimator, parameters, table, **sensitive):
    model = getattr(fairanchor, estimator)(
        N_CLUSTERS, n_jobs=N_THREADS, random_state=0, **parameters
    )
    return model.fit(table, **sensitive)


def warm(estimator, parameters, chunk_rows):
    """Load the kernels by fits of a few rows."""
    blobs = make_fair_blobs(3_000, centers=N_CLUSTERS, n_features=N_FEATURES, random_state=0)
    LargeScaleClusterer._chunk_rows = 1_000
    for dtype in (np.float32, np.float64):
        X = blobs.data.astype(dtype)
        fitted(estimator, parameters, X, sensitive_features=blobs.sensitive_features)
    LargeScaleClusterer._chunk_rows = chunk_rows


def record_of(engine, model, seconds):
    return {
        "estimator": type(model).__name__,
        "engine": engine,
        "rows": int(model.counts_.sum()),
        "seconds": seconds,
        "peak_mb": peak_memory(),
        "n_passes": model.n_passes_ + (engine != "memory"),
        "worst_violation": model.worst_violation_,
        "cost_per_row": model.inertia_ / float(model.counts_.sum()),
    }


def digest(arrays):
    hashed = hashlib.blake2b(digest_size=8)
    for labels in arrays:
        hashed.update(np.ascontiguousarray(labels, dtype=np.int32))
    return hashed.hexdigest()


def labels_in(folder):
    """Labels of a directory of label files, one file after the other."""
    for path in sorted(folder.glob("*.parquet")):
        yield pq.read_table(path, columns=["cluster"]).column(0).to_numpy()


def worst_cell(files, labels):
    """By how many rows a cell differs from its target, all rows counted anew."""
    counts = np.zeros((N_CLUSTERS, len(GROUPS)), dtype=np.int64)
    for path, own in zip(files, labels, strict=True):
        names = pq.read_table(path, columns=["group"]).column(0)
        codes = pc.index_in(names.cast(pa.string()), pa.array(GROUPS)).to_numpy()
        cells = own * len(GROUPS) + codes
        counts += np.bincount(cells, minlength=counts.size).reshape(counts.shape)
    targets = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    return float(np.abs(counts - targets).max())


def stream(estimator, parameters, files, chunk_rows, folder):
    warm(estimator, parameters, chunk_rows)
    passes, started = [], [time.perf_counter(), time.process_time()]

    def count(title, done, total):
        if done == total:
            now = [time.perf_counter(), time.process_time()]
            passes.append((title, *(b - a for a, b in zip(started, now, strict=True))))
            started[:] = now

    cpu = time.process_time()
    started[:] = [time.perf_counter(), cpu]
    table = FileTable(ds.dataset(files), progress=count)
    fitting, model = timed(fitted, estimator, parameters, table, sensitive_features="group")
    started[:] = [time.perf_counter(), time.process_time()]
    target = folder / "labels"
    writing, _ = timed(model.write_labels, target)
    cpu = time.process_time() - cpu
    record = record_of("stream", model, fitting + writing)
    record["load"] = os.getloadavg()[1]
    record["labels"] = digest(labels_in(target))
    record["worst_cell"] = worst_cell(files, labels_in(target))
    shutil.rmtree(target)
    n_rows, n_passes = record["rows"], record["n_passes"]
    some = files[:10]  # the reference is the same for every row
    reference_pass(some, model.cluster_centers_)
    references = [reference_pass(some, model.cluster_centers_) for _ in range(3)]
    seconds, cpu_seconds = (median(each) for each in zip(*references, strict=True))
    scale = len(files) / len(some)
    return record | {
        "passes": passes,
        "cpu_seconds": cpu,
        "us_per_row_and_pass": 1e6 * record["seconds"] / n_passes / n_rows,
        "cpu_us_per_row_and_pass": 1e6 * cpu / n_passes / n_rows,
        "reference_us_per_row": 1e6 * seconds * scale / n_rows,
        "reference_cpu_us_per_row": 1e6 * cpu_seconds * scale / n_rows,
        "of_reference": record["seconds"] / n_passes / (seconds * scale),
        "cpu_of_reference": cpu / n_passes / (cpu_seconds * scale),
    }


def in_memory(estimator, parameters, files, chunk_rows):
    warm(estimator, parameters, chunk_rows)
    reading, (X, groups) = timed(read_all, files)
    fitting, model = timed(fitted, estimator, parameters, X, sensitive_features=groups)
    return record_of("memory", model, reading + fitting) | {"labels": digest([model.labels_])}


def read_all(files):
    table = ds.dataset(files).to_table()
    X = np.empty((table.num_rows, N_FEATURES))
    for j in range(N_FEATURES):
        X[:, j] = table.column(f"x{j}").to_numpy()
    return X, table.column("group")


def on_dask(estimator, parameters, files, chunk_rows, n_workers):
    from distributed import Client, LocalCluster

    from fairanchor.rows._dask import DaskRows

    passes, run = [], DaskRows._run

    def measured(rows, title, calls):
        started, n_bytes = time.perf_counter(), 0
        for result in run(rows, title, calls):
            n_bytes += len(pickle.dumps(result))
            yield result
        passes.append((title, time.perf_counter() - started, n_bytes))

    options = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        warm(estimator, parameters, chunk_rows)
        client.run(warm, estimator, parameters, chunk_rows)
        DaskRows._run = measured
        table = FileTable(ds.dataset(files), client=client)
        seconds, model = timed(fitted, estimator, parameters, table, sensitive_features="group")
        waiting = sum(own for _, own, _ in passes)
        return record_of(f"dask {n_workers}", model, seconds) | {
            "passes": list(passes),
            "driver_seconds": seconds - waiting,
            "load": os.getloadavg()[1],
            "labels": digest(model.iter_labels()),
        }


def report(records):
    print_table(
        ("estimator", "engine", "rows", "seconds", "CPU", "passes", "CPU µs per row and pass",
         "x reference", "of CPU", "peak MB", "violation", "labels"),
        [
            (
                record["estimator"],
                record["engine"],
                f"{record['rows']:,}",
                number(record["seconds"], "{:.1f}"),
                number(record.get("cpu_seconds"), "{:.1f}"),
                record["n_passes"],
                number(record.get("cpu_us_per_row_and_pass"), "{:.3f}"),
                number(record.get("of_reference")),
                number(record.get("cpu_of_reference")),
                number(record["peak_mb"], "{:.0f}"),
                number(record["worst_violation"]),
                record["labels"],
            )
            for record in records
        ],
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
