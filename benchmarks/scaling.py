"""Time and memory of AnchorFairClustering from 10^4 to 10^7 rows, module by module.

    python benchmarks/scaling.py
    python benchmarks/scaling.py --sizes 10000 40000 --results FOLDER

Overlapping blobs with 10 features, 5 clusters and 3 groups, all cores. Every size has a process of
its own; a fit on few rows first loads the kernels. The functions that ``fit`` calls are timed by
wrappers; "other" is the rest of ``fit`` (checks, samples, attributes). Memory is the peak above
what interpreter, imports and data hold before the fit. Draws scaling.png beside the result file.
"""

import sys
import time
from collections.abc import Mapping
from contextlib import contextmanager

import numpy as np
from sklearn.cluster import KMeans

import fairanchor
from _common import (
    MEGABYTE,
    RunFailed,
    caught,
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
    reset_peak_memory,
    timed,
    without_places,
    write_whole,
)
from fairanchor import AnchorFairClustering
from fairanchor.datasets import make_fair_blobs
from fairanchor.rows._chunks import CHUNK_ROWS

SIZES = [10_000, 100_000, 1_000_000, 2_500_000, 4_000_000, 10_000_000]
QUICK_SIZES = [2_000, 8_000]
# Below, what does not depend on the rows (clustering the anchors) hides the growth.
GROWTH_FROM = 1_000_000
N_CLUSTERS, N_FEATURES = 5, 10
GROUP_SHARES = (0.5, 0.3, 0.2)
BLOCK_ROWS = 500_000
# Where `AnchorFairClustering.fit` finds what it calls, in the modules of the package.
MODULES = {
    "equal rows": "_open_rows.MemoryRows.merged",
    "anchors": "_anchor_clustering.select_anchors",
    "anchor clustering": "_anchor_clustering.cluster_anchors",
    "graph": "_anchor_parameters.SOLVERS.newton.solve",
    "propagation": "_anchor_clustering.propagate",
}
OTHER = "other"


def main(arguments=None):
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of rows")
    parser.add_argument("--limit", type=float, default=3600, help="seconds of one size")
    options = parsed(parser, arguments)
    sizes = sorted(options.sizes or (QUICK_SIZES if options.quick else SIZES))
    records = []
    for n_rows in sizes:
        progress(f"{n_rows:,} rows")
        try:
            records.append(in_new_process(measure, n_rows, options.repeats, limit=options.limit))
        except RunFailed as error:
            records.append({"rows": n_rows, "note": without_places(str(error))})
    measured = [record for record in records if "note" not in record]
    add_growth(measured, sizes[0] if options.quick else GROWTH_FROM)
    if measured:
        report(measured)
        draw(measured, options.results / "scaling.png")
    failed = {f"{record['rows']:,}": record["note"] for record in records if "note" in record}
    checks = [claim("every number of rows came to a result", not failed, failed or "all did")]
    settings = {
        "features": N_FEATURES,
        "n_clusters": N_CLUSTERS,
        "group_shares": GROUP_SHARES,
        "repeats": options.repeats,
        "modules": [*MODULES, OTHER],
    }
    return finish("scaling", options, settings=settings, records=records, checks=checks)


# One size, in a process of its own.


def measure(n_rows, n_repeats):
    """Medians of time, in all and by module, and peak memory of the first run."""
    some, some_groups = generate(min(n_rows, 2000))
    fit(some, some_groups)
    X, groups = generate(n_rows)
    held = reset_peak_memory()
    runs = [timed_run(X, groups)]
    extra = peak_memory() - held
    runs += [timed_run(X, groups) for _ in range(n_repeats - 1)]
    plain = KMeans(N_CLUSTERS, n_init=1, random_state=0)
    plain_seconds = [timed(plain.fit, X)[0] for _ in range(n_repeats)]
    return {
        "rows": n_rows,
        "table_mb": X.nbytes / MEGABYTE,
        "extra_mb": extra,
        "seconds": [run["seconds"] for run in runs],
        "median_seconds": median([run["seconds"] for run in runs]),
        "modules": {
            name: median([run["modules"][name] for run in runs]) for name in [*MODULES, OTHER]
        },
        "kmeans_seconds": plain_seconds,
        "kmeans_median_seconds": median(plain_seconds),
        "worst_violation": max(run["worst_violation"] for run in runs),
        "notes": sorted({note for run in runs for note in run["notes"]}),
    }


def generate(n_rows):
    """Blobs block by block, so that the generator needs little more than the table itself."""
    centers = np.random.default_rng(0).uniform(-1.0, 1.0, (N_CLUSTERS, N_FEATURES))
    X = np.empty((n_rows, N_FEATURES))
    groups = np.empty(n_rows, dtype=np.int64)
    for block, start in enumerate(range(0, n_rows, BLOCK_ROWS)):
        span = slice(start, min(start + BLOCK_ROWS, n_rows))
        blobs = make_fair_blobs(
            span.stop - start, centers=centers, group_shares=GROUP_SHARES, random_state=block
        )
        X[span], groups[span] = blobs.data, blobs.sensitive_features
    return X, groups


def timed_run(X, groups):
    names = dict(MODULES)
    if len(X) > CHUNK_ROWS:  # each chunk merges its equal rows, as part of the first pass
        del names["equal rows"]
    with stopwatches(fairanchor, names) as spent:
        seconds, (model, notes) = timed(fit, X, groups)
    spent = dict.fromkeys(MODULES, 0.0) | spent
    spent[OTHER] = seconds - sum(spent.values())
    return {
        "seconds": seconds,
        "modules": spent,
        "worst_violation": model.worst_violation_,
        "notes": notes,
    }


def fit(X, groups):
    model = AnchorFairClustering(N_CLUSTERS, n_jobs=-1, random_state=0)
    return caught(model.fit, X, sensitive_features=groups)


@contextmanager
def stopwatches(root, names):
    """Time spent in functions, looked up by name for as long as the context lasts.

    Parameters
    ----------
    root : module
    names : mapping from title to dotted name
        A part of a name is an attribute or, in a mapping, a key.

    Yields
    ------
    spent : dict from title to seconds
        Filled while the functions run. A function within itself is not counted twice.

    Raises
    ------
    RuntimeError
        If there is no such function, or if it was never called: its time would be zero by
        mistake.
    """
    spent, calls, originals = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0), []
    try:
        for title, name in names.items():
            owner, last, function = find(root, name)
            originals.append((owner, last, function))
            put(owner, last, stopwatch(function, title, spent, calls))
        yield spent
    finally:
        for owner, last, function in originals:
            put(owner, last, function)
    idle = [names[title] for title, count in calls.items() if count == 0]
    if idle:
        raise RuntimeError(f"fit did not call {', '.join(idle)}: what does their work now?")


def find(root, name):
    """Owner, last part and value of a dotted name."""
    *path, last = name.split(".")
    owner = root
    try:
        for part in path:
            owner = owner[part] if isinstance(owner, Mapping) else getattr(owner, part)
        return owner, last, owner[last] if isinstance(owner, Mapping) else getattr(owner, last)
    except (KeyError, AttributeError):
        raise RuntimeError(
            f"{root.__name__} has no {name}, which fit used to call: MODULES needs its new name."
        ) from None


def put(owner, name, value):
    if isinstance(owner, Mapping):
        owner[name] = value
    else:
        setattr(owner, name, value)


def stopwatch(function, title, spent, calls):
    running = []

    def run(*arguments, **keywords):
        calls[title] += 1
        running.append(time.perf_counter())
        try:
            return function(*arguments, **keywords)
        finally:
            start = running.pop()
            if not running:
                spent[title] += time.perf_counter() - start

    return run


# All sizes.


def add_growth(records, from_rows):
    """Time over that of a quarter of the rows, where both were measured."""
    by_rows = {record["rows"]: record for record in records}
    for record in records:
        quarter = by_rows.get(record["rows"] // 4)
        if record["rows"] % 4 == 0 and quarter is not None and quarter["rows"] >= from_rows:
            record["time_over_quarter"] = record["median_seconds"] / quarter["median_seconds"]


def report(records):
    names = list(records[0]["modules"])
    print_table(["rows", "seconds", "t(n)/t(n/4)", "KMeans", "extra MB", *names], [
        [
            f"{record['rows']:,}", number(record["median_seconds"], "{:.3f}"),
            number(record.get("time_over_quarter")),
            number(record["kmeans_median_seconds"], "{:.3f}"), number(record["extra_mb"], "{:.0f}"),
            *[number(record["modules"][name], "{:.3f}") for name in names],
        ]
        for record in records
    ])  # fmt: skip


def draw(records, path):
    """Time and memory against the number of rows, both axes logarithmic."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    rows = [record["rows"] for record in records]
    figure, (time_axes, memory_axes) = plt.subplots(1, 2, figsize=(13, 4.8), layout="constrained")
    draw_time(time_axes, rows, records)
    draw_memory(memory_axes, rows, records)
    for axes in (time_axes, memory_axes):
        axes.set(xscale="log", yscale="log", xlabel="rows")
        axes.grid(which="major", alpha=0.3)
        # Beside the axes: the lines leave no corner free.
        axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    write_whole(path, lambda file: figure.savefig(file, dpi=130, metadata={"Software": None}))
    plt.close(figure)


def draw_time(axes, rows, records):
    total = [record["median_seconds"] for record in records]
    axes.plot(rows, total, "o-", color="black", lw=2.2, label="AnchorFairClustering")
    axes.plot(rows, [record["kmeans_median_seconds"] for record in records], "s--", color="gray",
              label="KMeans(n_init=1), not fair")  # fmt: skip
    for name in records[0]["modules"]:
        axes.plot(rows, [record["modules"][name] for record in records], ".-", lw=1, label=name)
    linear = [total[-1] * n / rows[-1] for n in rows]
    axes.plot(rows, linear, ":", color="black", lw=1, label="linear in the rows")
    axes.set(ylabel="seconds", title="Time of fit, and of its modules")


def draw_memory(axes, rows, records):
    extra = [record["extra_mb"] for record in records]
    table = [record["table_mb"] for record in records]
    axes.plot(rows, extra, "o-", color="black", lw=2.2, label="peak above the table")
    axes.plot(rows, table, "s--", color="gray", label="the table itself")
    axes.set(ylabel="MB", title="Memory")


if __name__ == "__main__":
    sys.exit(main())
