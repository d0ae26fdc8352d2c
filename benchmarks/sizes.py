"""Bounds on cluster sizes: `FairKMeans` against k-means-constrained, faiss and scikit-learn.

    python benchmarks/sizes.py [--seeds 3] [--up-to 600]
    python benchmarks/sizes.py --rows 1000000 --clusters 100 --methods FairKMeans KMeans --add
    python benchmarks/sizes.py --quick

Gaussian blobs of different sizes with ten features; sizes may differ by 10 % from equal ones. All
methods have one start (`FairKMeans` its default), two threads, and a process of their own, which is
stopped after ``--up-to`` CPU seconds; k-means-constrained may take 8 GB. What was stopped is not
tried on larger tables with as many clusters or more. faiss and `KMeans` have no bounds on sizes:
they show what these cost. k-means-constrained and faiss are measured if they are installed, here
or in the environment of peers.py. CPU time is that of `fit` after a fit of few rows; cost is the
sum of squared distances to the means of the clusters. With ``--add`` the result file keeps what is
not measured again.
"""

import os
import resource
import signal
import sys
from importlib.util import find_spec
from time import process_time

import numpy as np
from sklearn.cluster import KMeans

from _common import (
    RunFailed,
    claim,
    finish,
    in_new_process,
    median,
    number,
    parsed,
    parser_of,
    print_table,
    progress,
    with_earlier,
)
from fairanchor import FairKMeans, FairnessTargets
from fairanchor.metrics import clustering_cost
from peers import ENVIRONMENT

N_FEATURES, LEAST, GREATEST = 10, 0.9, 1.1
# Rows and clusters.
TABLES = (
    (10_000, 10), (10_000, 100), (10_000, 1000), (100_000, 10), (100_000, 100), (100_000, 1000),
    (1_000_000, 10), (1_000_000, 100), (1_000_000, 1000),
)  # fmt: skip
QUICK_TABLES = ((2_000, 5),)
TIME_LIMIT, COST_LIMIT = 3.0, 1.005
MOST_MEMORY = 8 * 2**30


def main(arguments=None):
    parser = parser_of(__doc__, repeats=False)
    parser.add_argument("--seeds", type=int, default=3, help="by default 3")
    parser.add_argument("--up-to", type=float, default=600, help="CPU seconds, by default 600")
    for name, column in (("--rows", 0), ("--clusters", 1)):
        parser.add_argument(name, type=int, nargs="+", default=sorted({t[column] for t in TABLES}))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--add", action="store_true", help="to the result file")
    options = parsed(parser, arguments)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    sys.path += map(str, ENVIRONMENT.glob("lib/*/site-packages"))
    records = []
    chosen = [t for t in TABLES if t[0] in options.rows and t[1] in options.clusters]
    for n_rows, n_clusters in QUICK_TABLES if options.quick else chosen:
        for method in options.methods:
            package = METHODS[method]
            if package is not None and find_spec(package) is None:
                continue
            progress(f"{method}: {n_rows:,} rows, k = {n_clusters}")
            record = {"n_rows": n_rows, "n_clusters": n_clusters, "method": method}
            smaller = [r for r in records if "failed" in r and r["method"] == method]
            if any(r["n_rows"] <= n_rows and r["n_clusters"] <= n_clusters for r in smaller):
                record["failed"] = "not tried"
            else:
                record |= of_method(method, n_rows, n_clusters, options)
            records.append(record)
            progress(f"{record.get('cpu', record.get('failed'))}")
    if options.add:
        records = with_earlier("sizes", options, records, key_of)
        order = list(METHODS)
        records.sort(key=lambda r: (r["n_rows"], r["n_clusters"], order.index(r["method"])))
    report(records)
    settings = {"seeds": options.seeds, "features": N_FEATURES, "sizes": [LEAST, GREATEST]}
    ours = [r for r in records if r["method"] == "FairKMeans" and "failed" not in r]
    checks = [claim("sizes are kept", all(r["violation"] == 0 for r in ours), len(ours))]
    return finish(
        "sizes", options, settings=settings, records=records, checks=checks, goals=goals(records)
    )


def key_of(record):
    return record["n_rows"], record["n_clusters"], record["method"]


def of_method(method, n_rows, n_clusters, options):
    """Medians over the seeds, or why there are none."""
    try:
        found = [
            in_new_process(measure, method, n_rows, n_clusters, seed, options.up_to)
            for seed in range(1 if options.quick else options.seeds)
        ]
    except RunFailed as error:
        stopped = str(error).endswith(f"exit code {-signal.SIGXCPU}")
        return {"failed": f"stopped after {options.up_to:g} CPU s" if stopped else str(error)}
    return {
        "cpu": median([one["cpu"] for one in found]),
        "cost": median([one["cost"] for one in found]),
        "violation": max(one["violation"] for one in found),
        "runs": found,
    }


def measure(method, n_rows, n_clusters, seed, up_to):
    X = blobs(n_rows, min(n_clusters, 50), seed)
    bounds = int(LEAST * n_rows / n_clusters), int(np.ceil(GREATEST * n_rows / n_clusters))
    fit = globals()[f"fit_{method.lower().replace('-', '_')}"]
    few = min(n_clusters, 20)
    fit(X[:2_000], few, (int(LEAST * 2_000 / few), int(GREATEST * 2_000 / few)), seed)
    start = process_time()
    most = int(np.ceil(start + up_to))
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 10))
    labels = fit(X, n_clusters, bounds, seed)
    seconds = process_time() - start
    sizes = np.bincount(labels, minlength=n_clusters)
    violation = max(bounds[0] - sizes.min(), sizes.max() - bounds[1], 0)
    return {"cpu": seconds, "cost": clustering_cost(X, labels), "violation": int(violation)}


def blobs(n_rows, n_blobs, seed):
    """Blobs of unit variance; the last is three times as large as the first."""
    rng = np.random.default_rng(seed)
    shares = np.linspace(1.0, 3.0, n_blobs)
    centers = 6.0 / np.sqrt(2 * N_FEATURES) * rng.standard_normal((n_blobs, N_FEATURES))
    own = rng.choice(n_blobs, n_rows, p=shares / shares.sum())
    return rng.standard_normal((n_rows, N_FEATURES)) + centers[own]


def fit_fairkmeans(X, n_clusters, bounds, seed):
    sizes = FairnessTargets(min_size=bounds[0], max_size=bounds[1])
    return FairKMeans(n_clusters, fairness=sizes, random_state=seed, n_jobs=2).fit_predict(X)


def fit_k_means_constrained(X, n_clusters, bounds, seed):
    from k_means_constrained import KMeansConstrained

    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))  # an arc per row and cluster
    size_min, size_max = bounds
    # Its jobs are processes, whose CPU time would not be counted; one start has one job.
    model = KMeansConstrained(
        n_clusters, size_min=size_min, size_max=size_max, n_init=1, random_state=seed, n_jobs=1
    )
    return model.fit_predict(X)


def fit_faiss(X, n_clusters, bounds, seed):
    import faiss

    rows = X.astype(np.float32)
    model = faiss.Kmeans(X.shape[1], n_clusters, seed=seed + 1, niter=25)
    model.train(rows)
    return model.index.search(rows, 1)[1][:, 0]


def fit_kmeans(X, n_clusters, bounds, seed):
    return KMeans(n_clusters, n_init=1, random_state=seed).fit_predict(X)


# By the package that a method needs.
METHODS = {
    "FairKMeans": None,
    "KMeans": None,
    "k-means-constrained": "k_means_constrained",
    "faiss": "faiss",
}


def goals(records):
    by_key = {key_of(record): record for record in records if "failed" not in record}
    found = []
    for (n_rows, n_clusters, method), ours in by_key.items():
        if method != "FairKMeans":
            continue
        place = f"{n_rows:,} rows, k = {n_clusters}"
        plain = by_key.get((n_rows, n_clusters, "KMeans"))
        if plain is not None and n_rows >= 1_000_000:
            ratio = ours["cpu"] / plain["cpu"]
            found.append(claim(f"{place}: CPU time <= 3 x KMeans", ratio <= TIME_LIMIT, ratio))
        peer = by_key.get((n_rows, n_clusters, "k-means-constrained"))
        if peer is not None:
            pairs = zip(ours["runs"], peer["runs"], strict=False)  # the same seeds
            ratios = [own["cost"] / other["cost"] for own, other in pairs]
            text = f"{place}: cost <= 1.005 x k-means-constrained"
            found.append(claim(text, max(ratios) <= COST_LIMIT, ratios))
    return found


def report(records):
    print_table(
        ["rows", "k", "method", "CPU s", "cost", "violation"],
        [
            [
                f"{r['n_rows']:,}", r["n_clusters"], r["method"], number(r.get("cpu"), "{:.3f}"),
                number(r.get("cost"), "{:.6g}"), r.get("violation", r.get("failed")),
            ]
            for r in records
        ],
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
