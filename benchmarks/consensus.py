"""Consensus on anchors: do seeds agree with each other, and what does a million rows cost?

Adjusted Rand index between the labels of all pairs of ten seeds, on the shapes of ``shapes.py`` and
on overlapping blobs, for the consensus with the default number of anchors and with 1,000, k-means
on anchors, and fair k-means on all rows. All of them have exact counts.

    python benchmarks/consensus.py [--rows 5000] [--seeds 10] [--large 1000000]
"""

import sys
import warnings
from itertools import combinations

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score

from _common import finish, parsed, parser_of, print_table, progress, timed
from fairanchor import AnchorFairClustering, FairKMeans
from shapes import SHAPES, draw_groups

METHODS = {
    "consensus": lambda k, seed: AnchorFairClustering(
        k, clusterer="consensus", random_state=seed, n_jobs=-1
    ),
    "consensus, 1,000 anchors": lambda k, seed: AnchorFairClustering(
        k, clusterer="consensus", n_anchors=1_000, random_state=seed, n_jobs=-1
    ),
    "k-means on anchors": lambda k, seed: AnchorFairClustering(
        k, clusterer=KMeans(n_init=1), random_state=seed, n_jobs=-1
    ),
    "FairKMeans": lambda k, seed: FairKMeans(k, random_state=seed, n_jobs=-1),
}


def six_features(n_rows, seed):
    """Five Gaussian clusters that overlap so much that hardly any gap is left."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(0.0, 3.5 / np.sqrt(12), (5, 6))
    cluster = rng.integers(0, 5, n_rows)
    return centers[cluster] + rng.normal(size=(n_rows, 6)), cluster


TABLES = {name: make for name, make in SHAPES.items() if name != "200 features"} | {
    "overlapping blobs": lambda n, seed: make_blobs(
        n, centers=5, cluster_std=1.5, random_state=seed
    ),
    "six features": six_features,
}


def measure(name, method, n_rows, n_seeds):
    """Agreement of the seeds on one table, with each other and with the true clusters."""
    X, cluster = TABLES[name](n_rows, 0)
    groups = draw_groups(n_rows, 3, 0)
    n_clusters = int(cluster.max()) + 1
    labels, seconds, violations = [], [], []
    for seed in range(n_seeds):
        model = METHODS[method](n_clusters, seed)
        duration, _ = timed(model.fit, X, sensitive_features=groups)
        seconds.append(duration)
        labels.append(model.labels_)
        violations.append(model.worst_violation_)
    pairs = [adjusted_rand_score(a, b) for a, b in combinations(labels, 2)]
    return {
        "table": name, "method": method, "n_rows": n_rows, "mean": np.mean(pairs),
        "least": np.min(pairs),
        "truth": np.median([adjusted_rand_score(cluster, found) for found in labels]),
        "seconds": np.median(seconds), "violation": np.max(violations),
    }  # fmt: skip


def main(arguments=None):
    """Measure all tables and the large one."""
    parser = parser_of(__doc__, repeats=False)
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--large", type=int, default=1_000_000)
    options = parsed(parser, arguments)
    n_rows, n_seeds, large = options.rows, options.seeds, options.large
    if options.quick:
        n_rows, n_seeds, large = 1_200, 2, 5_000
    warnings.simplefilter("ignore")
    records = []
    for name in TABLES:
        for method in METHODS:
            progress(f"{name}, {method}")
            records.append(measure(name, method, n_rows, n_seeds))
    X, _ = make_moons(large, noise=0.06, random_state=0)
    for method in METHODS:
        progress(f"{large:,} rows, {method}")
        model = METHODS[method](2, 0)
        seconds, _ = timed(model.fit, X, sensitive_features=draw_groups(large, 3, 0))
        records.append({"table": "moons", "method": method, "n_rows": large, "seconds": seconds,
                        "violation": model.worst_violation_})  # fmt: skip
    titles = ["table", "rows", "method", "agreement", "least", "truth", "seconds", "violation"]
    names = ["mean", "least", "truth", "seconds", "violation"]
    print_table(
        titles,
        [
            [r["table"], f"{r['n_rows']:,}", r["method"]]
            + [f"{r[name]:.3f}" if name in r else "-" for name in names]
            for r in records
        ],
    )
    return finish("consensus", options, settings={"seeds": n_seeds}, records=records)


if __name__ == "__main__":
    sys.exit(main())
