"""Every clusterer alone on all rows, and inside `AnchorFairClustering` on the same rows.

    python benchmarks/alone_and_in_framework.py --rows 4000
    python benchmarks/alone_and_in_framework.py --rows 10000 --datasets zafar \\
        --methods "spfc (dense)" --limit 500
    python benchmarks/alone_and_in_framework.py --data DIR --datasets law_school --limit 120

Every run has a process of its own, with one thread unless told otherwise. A warm-up on 500
rows compiles the kernels; time, memory and the limit count from there. Features are
standardised, so the k-means cost per row of a single cluster is their number. Memory is the
peak above what the process held before the fit; below some 10 MB it says little, as freed memory
is used again. A speed-up with ">" is a lower bound: alone, the clusterer did not come to an end.
"""

import argparse
import ctypes
import gc
import json
import multiprocessing
import os
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from fairanchor import AnchorFairClustering, datasets
from fairanchor.cluster import FairSpectralClustering
from fairanchor.cluster._on_anchors import CLUSTERERS
from fairanchor.metrics import (
    balance_score,
    clustering_cost,
    nmi_score,
    relative_balance_score,
)

GENERATED = {
    "zafar": lambda rows: datasets.make_zafar(rows, variant="original", random_state=0),
    "blobs": lambda rows: datasets.make_fair_blobs(rows, n_features=4, centers=5, random_state=0),
}
TABLES = {
    "law_school": datasets.load_law_school,
    "credit_card": datasets.load_credit_card,
    "bank_marketing": datasets.load_bank_marketing,
    "kdd_census_income": datasets.load_kdd_census_income,
}
# The first form of fair spectral clustering: all pairs of rows, and a dense eigenproblem.
DENSE_SPFC = "spfc (dense)"
METHODS = [*CLUSTERERS, DENSE_SPFC]

WARM_UP_ROWS = 500
WARM_UP_SECONDS = 300
KEY = ("dataset", "rows", "method", "where", "threads")
COLUMNS = {
    "dataset": "{}",
    "rows": "{}",
    "method": "{}",
    "where": "{}",
    "seconds": "{:.2f}",
    "memory_mb": "{:.0f}",
    "cost_per_row": "{:.4f}",
    "nmi": "{:.3f}",
    "balance": "{:.3f}",
    "relative_balance": "{:.3f}",
    "speed_up": "{:.1f}",
    "note": "{}",
}


def main():
    options = parse_options()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(options.threads)  # the processes to come read these
    records = []
    for dataset in options.datasets:
        for method in options.methods:
            pair = [run(dataset, method, where, options) for where in ("alone", "framework")]
            add_speed_up(*pair)
            records += pair
    print(table_of(records))
    if options.json:
        add_to_file(options.json, records)


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4000, help="rows of the generated data")
    parser.add_argument("--data", type=Path, help="folder of the real tables, as Parquet files")
    parser.add_argument(
        "--datasets", nargs="+", choices=[*GENERATED, *TABLES],
        help="by default the real tables with --data, else the generated ones",
    )  # fmt: skip
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--limit", type=float, default=60, help="seconds, then a run is killed")
    parser.add_argument("--memory", type=float, default=12, help="GB of address space of a run")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="file to which the results are added")
    options = parser.parse_args()
    if options.datasets is None:
        options.datasets = list(GENERATED if options.data is None else TABLES)
    if options.data is None and set(options.datasets) & set(TABLES):
        parser.error(f"--datasets {' '.join(options.datasets)} needs --data")
    return options


# One run, from the outside.


def run(dataset, method, where, options):
    """Measure in a new process; what it could not measure is missing from the record."""
    print(f"{dataset}, {method}, {where} ...", file=sys.stderr, flush=True)
    # Not fork: the parent's peak memory would be inherited.
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    arguments = (sender, dataset, method, where, options.rows, options.data, options.memory)
    process = context.Process(target=measure, args=arguments)
    process.start()
    sender.close()
    n_rows = options.rows if dataset in GENERATED else None  # of a table the process will tell
    record = {"dataset": dataset, "rows": n_rows, "method": method, "where": where}
    record |= {"threads": options.threads, "limit": options.limit, "note": ""}
    try:
        record |= messages(receiver, options.limit)
    except EOFError:
        process.join()
        record["note"] = f"died, exit code {process.exitcode}"
    process.kill()
    process.join()
    return record


def messages(receiver, limit):
    """What the process says after the warm-up, and after the fit if it ends in time."""
    if not receiver.poll(WARM_UP_SECONDS):
        return {"note": f"killed after {WARM_UP_SECONDS} s of warm-up"}
    started = receiver.recv()
    if "note" in started:
        return started
    if not receiver.poll(limit):
        return started | {"note": f"killed after {limit:g} s", "killed": True}
    return started | receiver.recv()


def add_speed_up(alone, framework):
    if "seconds" not in framework:
        return
    if "seconds" in alone:
        framework["speed_up"] = alone["seconds"] / framework["seconds"]
    elif alone.get("killed"):
        framework["speed_up"] = alone["limit"] / framework["seconds"]
        framework["speed_up_is_lower_bound"] = True


# One run, from the inside.


def measure(sender, dataset, method, where, n_rows, folder, memory):
    """Send the number of rows after the warm-up, then the measurements."""
    limit = int(memory * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    data = load(dataset, n_rows, folder)
    model = estimator(method, where, data.n_clusters)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warm_up(model, data)
        sender.send({"rows": len(data.data)})
        sender.send(measured_fit(model, data))
    except MemoryError:
        sender.send({"note": f"needs more than {memory:g} GB"})
    except ValueError as error:
        sender.send({"note": f"refused: {error}"})


def load(dataset, n_rows, folder):
    data = GENERATED[dataset](n_rows) if dataset in GENERATED else TABLES[dataset](folder)
    data.data = StandardScaler().fit_transform(data.data)
    return data


def estimator(method, where, n_clusters):
    dense = FairSpectralClustering(affinity="rbf", eigen_solver="dense")
    if where == "framework":
        clusterer = dense if method == DENSE_SPFC else method
        return AnchorFairClustering(n_clusters, clusterer=clusterer, random_state=0)
    alone = dense if method == DENSE_SPFC else CLUSTERERS[method]()
    return alone.set_params(n_clusters=n_clusters, random_state=0)


def warm_up(model, data):
    n_rows = min(WARM_UP_ROWS, len(data.data))
    some = np.random.default_rng(0).choice(len(data.data), n_rows, replace=False)
    clone(model).fit(data.data[some], sensitive_features=data.sensitive_features[some])


def measured_fit(model, data):
    groups = data.sensitive_features
    return_freed_memory()
    held = reset_peak_memory()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        labels = model.fit(data.data, sensitive_features=groups).labels_
        seconds = time.perf_counter() - start
    record = {
        "seconds": seconds,
        "memory_mb": max(0.0, peak_memory() - held),
        "cost_per_row": clustering_cost(data.data, labels) / len(labels),
        "balance": balance_score(labels, sensitive_features=groups),
        "relative_balance": relative_balance_score(labels, sensitive_features=groups),
        "note": "; ".join(sorted({f"{w.category.__name__}: {w.message}" for w in caught})),
    }
    if data.get("target") is not None:
        record["nmi"] = nmi_score(data.target, labels)
    return record


def return_freed_memory():
    """What the warm-up freed would otherwise be used again, and not be counted."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def reset_peak_memory():
    """Resident memory in MB; on Linux the peak is set back to it, elsewhere it is the peak."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def peak_memory():
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e6


# The table.


def table_of(records):
    lines = [[name.replace("_", " ") for name in COLUMNS]]
    lines += [[cell(record, name) for name in COLUMNS] for record in records]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    widths[-1] = 0
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def cell(record, name):
    if record.get(name) is None:
        return "-"
    if name == "note":
        return record["note"][:80]
    bound = ">" if name == "speed_up" and record.get("speed_up_is_lower_bound") else ""
    return bound + COLUMNS[name].format(record[name])


def add_to_file(path, records):
    """Records of the same runs are replaced, all others kept."""
    old = json.loads(path.read_text()) if path.exists() else []
    by_key = {tuple(record[name] for name in KEY): record for record in [*old, *records]}
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(" " + json.dumps(rounded(record)) for record in by_key.values())
    path.write_text(f"[\n{lines}\n]\n")


def rounded(record):
    return {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in record.items()}


if __name__ == "__main__":
    main()
