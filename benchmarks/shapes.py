"""Shapes: the framework with fair spectral clustering against spectral clustering alone.

Moons, circles, spirals, blobs of unequal density, anisotropic and high-dimensional blobs, with
groups that are independent of the clusters. Adjusted Rand index with the true clusters, and the
share of the index that spectral clustering of all rows reaches, where it can run.

    python benchmarks/shapes.py [--rows 10000 1000000] [--seeds 5] [--output FILE]
"""

import argparse
import json
import time
import warnings

import numpy as np
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from fairanchor import AnchorFairClustering, FairSpectralClustering

N_GROUPS = (2, 3, 5, 10)
MOST_ROWS_ALONE = 10_000


def spirals(n_rows, seed):
    """Two interleaved spirals of one and a half turns."""
    rng = np.random.default_rng(seed)
    angle = np.sqrt(rng.uniform(0.05, 1.0, n_rows)) * 3 * np.pi
    arm = np.arange(n_rows) % 2
    turned = angle + np.pi * arm
    X = angle[:, None] * np.column_stack([np.cos(turned), np.sin(turned)]) / (3 * np.pi)
    return X + rng.normal(0.0, 0.02, X.shape), arm


def unequal_blobs(n_rows, seed):
    """Three blobs of different sizes and densities."""
    sizes = [n_rows * 6 // 10, n_rows * 3 // 10, n_rows - n_rows * 9 // 10]
    return make_blobs(sizes, centers=[[0, 0], [8, 0], [0, 8]], cluster_std=[2.0, 0.5, 1.0],
                      random_state=seed)  # fmt: skip


def high_dimensional(n_rows, seed, n_features=200):
    """Four overlapping blobs in many dimensions."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(0.0, 6.0 / np.sqrt(n_features), (4, n_features))
    cluster = rng.integers(0, 4, n_rows)
    return centers[cluster] + rng.normal(size=(n_rows, n_features)), cluster


SHAPES = {
    "moons": lambda n, seed: make_moons(n, noise=0.06, random_state=seed),
    "circles": lambda n, seed: make_circles(n, noise=0.05, factor=0.5, random_state=seed),
    "spirals": spirals,
    "unequal blobs": unequal_blobs,
    "200 features": high_dimensional,
}


def draw_groups(n_rows, n_groups, seed):
    """Groups independent of the clusters; the first is twice as large as the last."""
    shares = np.linspace(2.0, 1.0, n_groups)
    return np.random.default_rng(1000 + seed).choice(n_groups, n_rows, p=shares / shares.sum())


def measure(name, n_rows, n_groups, seed):
    """Adjusted Rand index inside the framework, and alone where that is possible."""
    X, cluster = SHAPES[name](n_rows, seed)
    groups, n_clusters = draw_groups(n_rows, n_groups, seed), int(cluster.max()) + 1
    start = time.perf_counter()
    model = AnchorFairClustering(n_clusters, random_state=seed, n_jobs=-1)
    model.fit(X, sensitive_features=groups)
    record = {
        "shape": name, "n_rows": n_rows, "n_groups": n_groups, "seed": seed,
        "inside": adjusted_rand_score(cluster, model.labels_),
        "seconds": time.perf_counter() - start,
        "worst_violation": model.worst_violation_,
    }  # fmt: skip
    if n_rows <= MOST_ROWS_ALONE:
        alone = FairSpectralClustering(n_clusters, random_state=seed)
        alone.fit(X, sensitive_features=groups)
        record["alone"] = adjusted_rand_score(cluster, alone.labels_)
    return record


def main():
    """Measure all shapes and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES))
    parser.add_argument("--groups", type=int, nargs="+", default=list(N_GROUPS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--output")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    records = []
    for n_rows in options.rows:
        for name in options.shapes:
            if n_rows > MOST_ROWS_ALONE and name == "200 features":
                continue  # 1.6 GB of rows
            for n_groups in options.groups:
                found = [measure(name, n_rows, n_groups, seed) for seed in range(options.seeds)]
                records += found
                inside = [record["inside"] for record in found]
                line = f"{name:14} n={n_rows:9,} {n_groups:3} groups  inside"
                line += f" {np.median(inside):.3f} (worst {min(inside):.3f})"
                if "alone" in found[0]:
                    alone = [record["alone"] for record in found]
                    line += f"  alone {np.median(alone):.3f} (worst {min(alone):.3f})"
                seconds = np.median([record["seconds"] for record in found])
                print(f"{line}  {seconds:.1f} s", flush=True)
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(records, file, indent=1)


if __name__ == "__main__":
    main()
