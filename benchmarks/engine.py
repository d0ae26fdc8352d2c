"""CPU time of `FairKMeans` with default parameters against `KMeans(n_init=1)`, line by line.

    python benchmarks/engine.py [--only "k*" wide-k10] [--seeds 3] [--repeats 3] [--output FILE]
    python benchmarks/engine.py --list
    python benchmarks/engine.py --quick

A line is a table, a constraint and a limit: on the ratio of CPU times (process time, two threads
for both), on the wall time of a fit, or on the wall time of the first fit with an empty Numba
cache. Some lines also limit the extra memory, the peak resident memory above that before the fit,
to the bytes of the table. The tables are Gaussian blobs whose groups have different shares in each
blob; no rows are equal except in ``equal-rows``, where a third of the rows are distinct.

Both methods take turns on the same array in one process, after a fit that is not counted, with
OMP_WAIT_POLICY=passive: threads of `KMeans` that wait take no CPU time. Threads of OpenBLAS that
wait stay busy for about 0.1 s, whatever runs then, so every fit starts after a pause; while a fit
runs, they count, as for its users. With OPENBLAS_THREAD_TIMEOUT=4 they are not busy, and `KMeans`
takes about half the CPU time at 100,000 rows. A seed draws the table and the starts; its time is
the median of the repeats, and a fit of more than 30 s is not repeated. Printed are medians over
the seeds, the ratio of these medians, the worst ratio (or time) of a seed, and the worst violation
of all. Each seed of a line has a process of its own, killed after 15 minutes. The exit code is 1 if
a limit is exceeded or a line fails, goals excepted.

`KMeans` takes the fewer iterations the farther apart the blobs are, which ``--distance`` sets.
"""

import argparse
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from unittest import mock

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from _common import (
    MEGABYTE,
    RunFailed,
    caught,
    in_new_process,
    machine_facts,
    median,
    number,
    peak_memory,
    print_table,
    progress,
    reset_peak_memory,
    timed,
    write_json,
)
from fairanchor import AnchorFairClustering, FairKMeans, FairnessTargets

N_THREADS = 2
TIME_OUT = 15 * 60
# Seconds after which a fit is not repeated with the same seed.
ONCE_IS_ENOUGH = 30.0
# Seconds before a fit, until no thread of the fit before it is busy.
PAUSE = 0.3
ESTIMATORS = {"FairKMeans": FairKMeans, "AnchorFairClustering": AnchorFairClustering}

# What a limit is on: CPU time over that of KMeans, or seconds of wall time.
CPU_RATIO, WALL, FIRST_FIT = "CPU ratio", "wall s", "first fit, wall s"

MOST_BLOBS = 50
# Of the shares of the groups in the blobs: the larger, the more alike the blobs are.
ALIKENESS = 3.0
# Sizes of bounded clusters, in parts of equal ones. The blobs' sizes are outside.
SIZE_BOUNDS = (0.9, 1.1)


@dataclass(frozen=True)
class Line:
    """A table, a constraint, and the limit of its fit."""

    name: str
    limit: float
    n_rows: int = 100_000
    n_features: int = 10
    n_groups: int = 3
    n_clusters: int = 5
    measure: str = CPU_RATIO
    dtype: str = "float64"
    distance: float = 6.0  # of two centres of blobs, on average, in standard deviations
    scale: float = 1.0  # of the features
    equal_rows: bool = False
    n_attributes: int = 1
    bounded_sizes: bool = False
    limits_memory: bool = False
    is_goal: bool = False
    estimator: str = "FairKMeans"
    parameters: dict = field(default_factory=dict)


MILLION = {"n_rows": 1_000_000}
WIDE = {"n_features": 384, "dtype": "float32", "limits_memory": True}
SEPARATE = {"parameters": {"attributes": "separate"}}
LINES = (
    Line("k5", 3.0, n_clusters=5),
    Line("k20", 3.0, n_clusters=20),
    Line("k50", 1.5, n_clusters=50),
    Line("k100", 1.5, n_clusters=100),
    Line("k500", 1.5, n_clusters=500),
    Line("k1000", 1.5, n_clusters=1000, is_goal=True),
    Line("million-k5", 2.0, **MILLION),
    Line("million-k100", 2.0, n_clusters=100, **MILLION),
    Line("groups-20", 3.0, n_groups=20, n_clusters=10),
    Line("groups-100", 3.0, n_groups=100, n_clusters=10, is_goal=True),
    Line("wide-k10", 2.0, n_clusters=10, **WIDE),
    Line("wide-k100", 2.0, n_clusters=100, **WIDE),
    Line("tolerance", 4.0, parameters={"tolerance": 0.1}, **MILLION),
    Line("sizes", 4.0, bounded_sizes=True, **MILLION),
    Line("attributes", 4.0, n_attributes=2, **SEPARATE, **MILLION),
    Line("equal-rows", 0.5, n_rows=2_458_285, n_features=25, equal_rows=True),
    Line("300-rows-k200", 1.0, n_rows=300, n_clusters=200, measure=WALL),
    Line("10000-rows-k50", 1.0, n_rows=10_000, n_clusters=50, measure=WALL),
    Line("500-rows-large-values", 1.0, n_rows=500, scale=1e6, measure=WALL),
    Line(
        "800-rows-four-attributes", 1.0, n_rows=800, n_features=3, n_attributes=4, measure=WALL,
        **SEPARATE,
    ),
    Line("first-fit", 10.0, measure=FIRST_FIT),
    Line("first-fit-anchors", 12.0, measure=FIRST_FIT, estimator="AnchorFairClustering"),
    Line("first-fit-tolerance", 15.0, measure=FIRST_FIT, parameters={"tolerance": 0.1}),
)  # fmt: skip


def main(arguments=None):
    options = parsed(arguments)
    if options.list:
        for line in options.lines:
            print(f"{line.name:24}  {in_words(line)}")
        return 0
    # Before the processes start. By default threads of OpenMP that wait are busy, and KMeans takes
    # up to twice as much CPU time at 100,000 rows, far more at few, if other processes run.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    records = []
    for line in options.lines:
        progress(f"{line.name}: {in_words(line)}")
        records.append(record_of(line, options))
        progress(f"{line.name}: {finding(records[-1])}")
        if options.output:  # after every line: a run of hours may be stopped
            write(options, records)
    report(records)
    exceeded = [r["name"] for r in records if not (r["reached"] or r["is_goal"])]
    if exceeded and not options.quick:
        print(f"limit exceeded, or failed: {', '.join(exceeded)}", file=sys.stderr)
    failed = [r["name"] for r in records if "failed" in r]
    return 1 if (failed if options.quick else exceeded) else 0


def write(options, records):
    document = {
        "benchmark": "engine",
        "quick": options.quick,
        "machine": machine_facts(),
        "settings": {
            "seeds": options.seeds,
            "repeats": options.repeats,
            "threads": N_THREADS,
            "OMP_WAIT_POLICY": os.environ["OMP_WAIT_POLICY"],
        },
        "records": records,
    }
    write_json(options.output, document)


def parsed(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--only", nargs="+", default=["*"], help="names or patterns of lines")
    parser.add_argument("--list", action="store_true", help="print the lines, measure nothing")
    parser.add_argument("--seeds", type=int, help="by default 3")
    parser.add_argument("--repeats", type=int, help="fits with each seed, by default 3")
    parser.add_argument(
        "--distance", type=float, default=Line.distance,
        help="of two centres of blobs, in standard deviations, by default %(default)g",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, help="JSON file, which is replaced")
    options = parser.parse_args(arguments)
    for name in ("seeds", "repeats"):
        value = getattr(options, name)
        if value is None:
            setattr(options, name, 1 if options.quick else 3)
        elif value < 1:
            parser.error(f"--{name} {value} should be at least 1: nothing would be measured")
    for pattern in options.only:
        if not any(fnmatchcase(line.name, pattern) for line in LINES):
            parser.error(f"--only {pattern}: no line has this name, see --list")
    options.lines = [
        replace(quick(line) if options.quick else line, distance=options.distance)
        for line in LINES
        if any(fnmatchcase(line.name, pattern) for pattern in options.only)
    ]
    return options


def quick(line):
    return replace(
        line,
        n_rows=min(line.n_rows, 2_000),
        n_features=min(line.n_features, 20),
        n_groups=min(line.n_groups, 5),
        n_clusters=min(line.n_clusters, 10),
    )


def in_words(line):
    table = f"{line.n_rows:,} x {line.n_features}, {line.n_groups} groups, k = {line.n_clusters}"
    return f"{table}: {line.measure} at most {line.limit:g}{', a goal' if line.is_goal else ''}"


# Tables.


def table(line, seed):
    """Rows, and the group of each row, or a column of groups for each attribute."""
    rng = np.random.default_rng(seed)
    n_drawn = line.n_rows // 3 if line.equal_rows else line.n_rows
    X, blobs = draw_blobs(rng, n_drawn, line)
    columns = [draw_groups(rng, blobs, line.n_groups) for _ in range(line.n_attributes)]
    groups = columns[0] if line.n_attributes == 1 else np.column_stack(columns)
    if line.equal_rows:
        X = np.rint(X)
        X -= X.min(axis=0)
        # Few rows have very many copies, as in a census.
        copied = (n_drawn * rng.random(line.n_rows - n_drawn) ** 3).astype(np.int64)
        rows = rng.permutation(np.concatenate([np.arange(n_drawn), copied]))
        X, groups = X[rows], groups[rows]
    return X, groups


def draw_blobs(rng, n_rows, line):
    """Blobs of unit variance; the last is three times as large as the first."""
    n_blobs = min(line.n_clusters, MOST_BLOBS)
    weights = np.linspace(1.0, 3.0, n_blobs)
    blobs = rng.choice(n_blobs, n_rows, p=weights / weights.sum())
    centers = rng.standard_normal((n_blobs, line.n_features))
    centers *= line.distance / np.sqrt(2 * line.n_features)
    X = rng.standard_normal((n_rows, line.n_features), dtype=line.dtype)
    X += centers.astype(line.dtype)[blobs]
    X *= line.scale
    return X, blobs


def draw_groups(rng, blobs, n_groups):
    """Groups with random shares in each blob; the first is about twice as large as the last."""
    shares = np.linspace(2.0, 1.0, n_groups)
    shares *= ALIKENESS / shares.mean()
    edges = np.cumsum(rng.dirichlet(shares, size=blobs.max() + 1), axis=1)[:, :-1]
    draws = rng.random(len(blobs))
    groups = np.zeros(len(blobs), dtype=np.int64)
    for edge in edges.T:
        groups += draws > edge[blobs]
    return groups


# Measurements.


def record_of(line, options):
    """What was measured, or why it failed."""
    record = asdict(line)
    try:
        if line.measure == FIRST_FIT:
            fits = [first_fit_without_cache(line, seed) for seed in range(options.repeats)]
            record |= medians_of_first_fits(fits)
        else:
            found = [
                in_new_process(compare, line, seed, options.repeats, limit=TIME_OUT)
                for seed in range(options.seeds)
            ]
            record |= summary(line, found)
        if line.limits_memory:
            record |= in_new_process(extra_memory, line, limit=TIME_OUT)
    except RunFailed as error:
        return record | {"failed": str(error), "reached": False}
    reached = record["value"] <= line.limit
    if line.limits_memory:
        reached &= record["extra_mb"] <= record["table_mb"]
    return record | {"reached": bool(reached)}


def model_of(line, seed):
    parameters = dict(line.parameters)
    if line.bounded_sizes:
        least, greatest = (part * line.n_rows / line.n_clusters for part in SIZE_BOUNDS)
        parameters["fairness"] = FairnessTargets(min_size=least, max_size=greatest)
    make = ESTIMATORS[line.estimator]
    return make(line.n_clusters, n_jobs=N_THREADS, random_state=seed, **parameters)


def fit_fair(line, seed, X, groups):
    """The fitted model, its times, and warnings."""
    return fit(model_of(line, seed), X, sensitive_features=groups)


def fit_plain(line, seed, X):
    return fit(KMeans(line.n_clusters, n_init=1, random_state=seed), X)


def fit(model, X, **keywords):
    time.sleep(PAUSE)
    with threadpool_limits(N_THREADS):
        start = time.process_time()
        wall, (model, notes) = timed(caught, model.fit, X, **keywords)
        return model, {"cpu": time.process_time() - start, "wall": wall, "notes": notes}


def compare(line, seed, n_repeats):
    """Times and costs of both methods."""
    X, groups = table(line, seed)
    # Loads or compiles the kernels, and starts the threads of scikit-learn.
    fit_fair(line, seed, X, groups)
    fit_plain(line, seed, X[: max(1_000, line.n_clusters)])
    plain_times, fair_times = [], []
    for _ in range(n_repeats):
        if not is_slow(plain_times):
            plain, times = fit_plain(line, seed, X)
            plain_times.append(times)
        if not is_slow(fair_times):
            fair, times = fit_fair(line, seed, X, groups)
            fair_times.append(times)
    return {
        "seed": seed,
        "fair": fair_times,
        "kmeans": plain_times,
        "cost_over_kmeans": fair.inertia_ / plain.inertia_,
        "worst_violation": fair.worst_violation_,
        "iterations": fair.n_iter_,
        "kmeans_iterations": plain.n_iter_,
    }


def is_slow(times):
    return any(own["wall"] > ONCE_IS_ENOUGH for own in times)


def summary(line, found):
    """Medians of what `compare` found for the seeds."""
    times = {
        (method, clock): np.array([median([own[clock] for own in of[method]]) for of in found])
        for method in ("fair", "kmeans")
        for clock in ("cpu", "wall")
    }
    record = {
        ("" if method == "fair" else "kmeans_") + clock: median(seconds)
        for (method, clock), seconds in times.items()
    }
    record["ratio"] = record["cpu"] / record["kmeans_cpu"]
    if line.measure == CPU_RATIO:
        value, worst = record["ratio"], (times["fair", "cpu"] / times["kmeans", "cpu"]).max()
    else:
        value, worst = record["wall"], times["fair", "wall"].max()
    return record | {
        "value": value,
        "worst_seed": worst,
        "cost_over_kmeans": median([of["cost_over_kmeans"] for of in found]),
        "worst_violation": max(of["worst_violation"] for of in found),
        "iterations": median([of["iterations"] for of in found]),
        "kmeans_iterations": median([of["kmeans_iterations"] for of in found]),
        "fits": found,
    }


def extra_memory(line):
    """Peak memory of a fit above what is held before it, and the size of the table, in MB."""
    X, groups = table(line, 0)
    some = slice(max(1_000, 2 * line.n_clusters))
    fit_fair(line, 0, X[some], groups[some])  # memory of the compiler is not that of the fit
    held = reset_peak_memory()
    fit_fair(line, 0, X, groups)
    return {"extra_mb": peak_memory() - held, "table_mb": X.nbytes / MEGABYTE}


def first_fit_without_cache(line, seed):
    """Times of the first fit in a process that finds no compiled kernels, and of the second."""
    # Numba reads the variable when it is imported, so it has to be set when the process starts.
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, NUMBA_CACHE_DIR=folder),
    ):
        return in_new_process(first_fits, line, seed, limit=TIME_OUT)


def first_fits(line, seed):
    X, groups = table(line, seed)
    fits = [fit_fair(line, seed, X, groups) for _ in range(2)]
    times = [own for _, own in fits]
    return {
        "first": times[0],
        "second": times[1],
        "worst_violation": fits[0][0].worst_violation_,
    }


def medians_of_first_fits(found):
    wall = [own["first"]["wall"] for own in found]
    return {
        "cpu": median([own["first"]["cpu"] for own in found]),
        "wall": median(wall),
        "value": median(wall),
        "worst_seed": max(wall),
        "worst_violation": max(own["worst_violation"] for own in found),
        "fits": found,
    }


# Text.


def finding(record):
    if "failed" in record:
        return f"failed: {record['failed']}"
    memory = ""
    if "extra_mb" in record:
        memory = f", extra memory {record['extra_mb']:.0f} of {record['table_mb']:.0f} MB"
    outcome = "reached" if record["reached"] else "EXCEEDED"
    return f"{record['measure']} {record['value']:.2f} of {record['limit']:g}{memory}: {outcome}"


def report(records):
    titles = ["line", "n", "d", "groups", "k", "dtype", "CPU s", "KMeans", "ratio", "limit",
              "worst seed", "reached", "wall s", "KMeans", "iterations", "KMeans",
              "cost / KMeans", "violation", "extra MB"]  # fmt: skip
    print_table(titles, [
        [
            r["name"], f"{r['n_rows']:,}", r["n_features"], groups_text(r), r["n_clusters"],
            r["dtype"], number(r.get("cpu"), "{:.3f}"), number(r.get("kmeans_cpu"), "{:.3f}"),
            number(r.get("ratio")), limit_text(r), number(r.get("worst_seed")), reached_text(r),
            number(r.get("wall"), "{:.3f}"), number(r.get("kmeans_wall"), "{:.3f}"),
            number(r.get("iterations"), "{:.0f}"), number(r.get("kmeans_iterations"), "{:.0f}"),
            number(r.get("cost_over_kmeans"), "{:.4f}"), number(r.get("worst_violation"), "{:.3f}"),
            f"{r['extra_mb']:.0f} of {r['table_mb']:.0f}" if "extra_mb" in r else "-",
        ]
        for r in records
    ])  # fmt: skip


def groups_text(record):
    several = record["n_attributes"] > 1
    return f"{record['n_attributes']} x {record['n_groups']}" if several else record["n_groups"]


def limit_text(record):
    return f"{record['limit']:g}{'x' if record['measure'] == CPU_RATIO else ' s wall'}"


def reached_text(record):
    text = "failed" if "failed" in record else "yes" if record["reached"] else "NO"
    return f"{text} (goal)" if record["is_goal"] else text


if __name__ == "__main__":
    sys.exit(main())
