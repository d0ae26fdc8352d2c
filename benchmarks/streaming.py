"""Rows that stay in files: passes, time and memory of streaming, and what a Dask cluster adds.

    python benchmarks/streaming.py
    python benchmarks/streaming.py --sizes 10000000 100000000 1000000000 --estimator FairKMeans
    python benchmarks/streaming.py --quick

Writes overlapping blobs as compact Parquet (six features of 8 bits, the group as a dictionary of
text, row groups of a million rows) to a temporary folder below ``--folder``, which is removed at
the end. Every fit (five clusters, two threads) runs in a process of its own, whose peak of resident
memory counts from its start, imports included; labels are written to files.

The *reference pass* reads the same columns, forms one block of float32 per row group, multiplies it
by the centres and takes the argmin, in two threads: the median of three after a warm-up. A pass of
the fit is compared with it. The smallest table is also fitted in memory and on a local Dask cluster
of two workers: all engines must give the same labels.
"""

import hashlib
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
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
SIZES, QUICK_SIZES = (10_000_000, 100_000_000), (20_000, 80_000)
FILE_ROWS, GROUP_ROWS = 10_000_000, 1_000_000
QUICK_FILE_ROWS, QUICK_GROUP_ROWS, QUICK_CHUNK_ROWS = 10_000, 5_000, 8_192
N_CLUSTERS, N_FEATURES, N_THREADS, N_WORKERS = 5, 6, 2, 2
# Shares of the groups in each blob: they differ, so that fairness costs something.
GROUPS = ("a", "b", "c")
SHARES = np.array([[6, 3, 1], [5, 3, 2], [4, 4, 2], [5, 2, 3], [6, 2, 2]]) / 10
SPREAD, CENTERS = 18.0, 45.0
MOST_PASSES, MOST_MEMORY_MB, MOST_GROWTH, MOST_OF_REFERENCE = 5, 2_000, 1.3, 1.5
SAME_TIME = 0.10
SECONDS = 6 * 3600


def main(arguments=None):
    parser = parser_of(__doc__, repeats=False)
    parser.add_argument("--folder", type=Path, help="where the temporary folder is created")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of rows, increasing")
    parser.add_argument("--estimator", choices=ESTIMATORS, nargs="+", default=list(ESTIMATORS))
    parser.add_argument("--max-passes", type=int, help="by default as the estimator has it")
    options = parsed(parser, arguments)
    options.sizes = tuple(options.sizes or (QUICK_SIZES if options.quick else SIZES))
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="streaming-") as folder:
        return measure_all(options, Path(folder))


def measure_all(options, folder):
    chunk_rows = QUICK_CHUNK_ROWS if options.quick else LargeScaleClusterer._chunk_rows
    file_rows = QUICK_FILE_ROWS if options.quick else FILE_ROWS
    records, ratios, growths, slowdowns, same = [], [], [], [], []
    progress(f"writing {max(options.sizes):,} rows")
    files = write_files(folder, max(options.sizes), file_rows, options.quick)
    for estimator in options.estimator:
        streamed = []
        parameters = {} if options.max_passes is None else {"max_passes": options.max_passes}
        for n_rows in options.sizes:
            progress(f"{estimator}, {n_rows:,} rows, files")
            own = files[: -(-n_rows // file_rows)]
            call = (stream, estimator, parameters, own, chunk_rows, folder)
            streamed.append(in_new_process(*call, limit=SECONDS))
            report(streamed[-1:])
        smallest = files[: -(-options.sizes[0] // file_rows)]
        others = []
        for engine, measure in (("memory", in_memory), ("dask", on_dask)):
            progress(f"{estimator}, {options.sizes[0]:,} rows, {engine}")
            call = (measure, estimator, parameters, smallest, chunk_rows)
            others.append(in_new_process(*call, limit=SECONDS))
        records += streamed + others
        same.append(len({record["labels"] for record in (streamed[0], *others)}) == 1)
        ratios += [record["of_reference"] for record in streamed]
        growths.append(streamed[-1]["peak_mb"] / streamed[0]["peak_mb"])
        per_row = [record["seconds"] / record["rows"] for record in streamed]
        slowdowns.append(max(per_row) / min(per_row) - 1.0)
    report(records)
    violation = max(record["worst_violation"] for record in records)
    passes = max(record["n_passes"] for record in records)
    peak = max(record["peak_mb"] for record in records if record["engine"] == "stream")
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
    """Seconds to read the columns, form float32 blocks, multiply by the centres, take argmins."""
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

    with threadpool_limits(1), ThreadPoolExecutor(N_THREADS) as pool:
        return timed(lambda: list(pool.map(run, pieces)))[0]


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


def record_of(engine, model, seconds, labels):
    return {
        "estimator": type(model).__name__,
        "engine": engine,
        "rows": int(model.counts_.sum()),
        "seconds": seconds,
        "peak_mb": peak_memory(),
        "n_passes": model.n_passes_ + (engine != "memory"),
        "worst_violation": model.worst_violation_,
        "cost_per_row": model.inertia_ / float(model.counts_.sum()),
        "labels": labels,
    }


def digest(arrays):
    hashed = hashlib.blake2b(digest_size=8)
    for labels in arrays:
        hashed.update(np.ascontiguousarray(labels, dtype=np.int32))
    return hashed.hexdigest()


def labels_in(folder):
    """Labels of a directory of label files, one batch after the other."""
    for path in sorted(folder.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(columns=["cluster"]):
            yield batch.column(0).to_numpy()


def stream(estimator, parameters, files, chunk_rows, folder):
    warm(estimator, parameters, chunk_rows)
    passes, started = [], [time.perf_counter()]

    def count(title, done, total):
        if done == total:
            now = time.perf_counter()
            passes.append((title, now - started[0]))
            started[0] = now

    cpu = time.process_time()
    started[0] = time.perf_counter()
    table = FileTable(ds.dataset(files), progress=count)
    fitting, model = timed(fitted, estimator, parameters, table, sensitive_features="group")
    started[0] = time.perf_counter()
    target = folder / "labels"
    writing, _ = timed(model.write_labels, target)
    cpu = time.process_time() - cpu
    record = record_of("stream", model, fitting + writing, digest(labels_in(target)))
    shutil.rmtree(target)
    n_rows, n_passes = record["rows"], record["n_passes"]
    some = files[:10]  # the reference is the same for every row
    reference_pass(some, model.cluster_centers_)
    reference = median([reference_pass(some, model.cluster_centers_) for _ in range(3)])
    reference *= len(files) / len(some)
    per_pass = record["seconds"] / n_passes
    return record | {
        "passes": passes,
        "cpu_seconds": cpu,
        "us_per_row_and_pass": 1e6 * per_pass / n_rows,
        "reference_us_per_row": 1e6 * reference / n_rows,
        "of_reference": per_pass / reference,
    }


def in_memory(estimator, parameters, files, chunk_rows):
    warm(estimator, parameters, chunk_rows)
    reading, (X, groups) = timed(read_all, files)
    fitting, model = timed(fitted, estimator, parameters, X, sensitive_features=groups)
    return record_of("memory", model, reading + fitting, digest([model.labels_]))


def read_all(files):
    table = ds.dataset(files).to_table()
    X = np.empty((table.num_rows, N_FEATURES))
    for j in range(N_FEATURES):
        X[:, j] = table.column(f"x{j}").to_numpy()
    return X, table.column("group")


def on_dask(estimator, parameters, files, chunk_rows):
    from distributed import Client, LocalCluster

    options = {"n_workers": N_WORKERS, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        warm(estimator, parameters, chunk_rows)
        client.run(warm, estimator, parameters, chunk_rows)
        table = FileTable(ds.dataset(files), client=client)
        seconds, model = timed(fitted, estimator, parameters, table, sensitive_features="group")
        return record_of("dask", model, seconds, digest(model.iter_labels()))


def report(records):
    print_table(
        ("estimator", "engine", "rows", "seconds", "passes", "µs per row and pass", "x reference",
         "peak MB", "violation", "labels"),
        [
            (
                record["estimator"],
                record["engine"],
                f"{record['rows']:,}",
                number(record["seconds"], "{:.1f}"),
                record["n_passes"],
                number(record.get("us_per_row_and_pass"), "{:.3f}"),
                number(record.get("of_reference")),
                number(record["peak_mb"], "{:.0f}"),
                number(record["worst_violation"]),
                record["labels"],
            )
            for record in records
        ],
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
