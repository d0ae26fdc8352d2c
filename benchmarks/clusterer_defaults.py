"""Defaults of the clusterers inside the framework, on generated data with known clusters.

    python benchmarks/clusterer_defaults.py [--rows 10000] [--seeds 3] [--output FILE]

The groups are independent of the clusters, so that exact counts cost nothing and the adjusted Rand
index shows what the clusterer made of the anchors. In "overlapping" and "groups apart", groups have
other features. What is in the file is not run again.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from fairanchor import (
    AnchorFairClustering,
    FairletClustering,
    FairnessFirstClustering,
    FairSpectralClustering,
    OneStageFairSpectralClustering,
    VariationalFairClustering,
)
from shapes import SHAPES, draw_groups

N_GROUPS = 3


def stretched(n_rows, seed):
    """Three blobs that are long in one direction."""
    X, cluster = make_blobs(n_rows, centers=3, random_state=170 + seed)
    return X @ np.array([[0.6, -0.6], [-0.4, 0.8]]), cluster


def heavy_tails(n_rows, seed):
    """Three clusters with outliers far away (Student's t, two degrees of freedom)."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(0, 3, n_rows)
    return 5.0 * np.eye(3, 4)[cluster] + 0.7 * rng.standard_t(2, (n_rows, 4)), cluster


def moons_in_noise(n_rows, seed):
    """Moons, and two percent of rows anywhere."""
    X, cluster = make_moons(n_rows, noise=0.06, random_state=seed)
    rng = np.random.default_rng(seed)
    noise = rng.random(n_rows) < 0.02
    X[noise] = rng.uniform([-2.0, -1.5], [3.0, 2.0], (noise.sum(), 2))
    return X, cluster


def skewed(n_rows, seed):
    """Three clusters of log-normal features."""
    rng = np.random.default_rng(seed)
    cluster = rng.choice(3, n_rows, p=[0.5, 0.3, 0.2])
    logarithm = rng.normal(0.0, 1.5, (3, 6))[cluster] + rng.normal(size=(n_rows, 6))
    return np.exp(0.5 * logarithm), cluster


def overlapping(n_rows, seed, shift=1.0, n_clusters=5):
    """Overlapping normal clusters; features also depend on the group."""
    rng = np.random.default_rng(seed)
    cluster, group = rng.integers(0, n_clusters, n_rows), draw_groups(n_rows, N_GROUPS, seed)
    directions = rng.normal(size=(N_GROUPS, 5))
    directions *= shift / np.linalg.norm(directions, axis=1, keepdims=True)
    centers = 2.0 * rng.normal(size=(n_clusters, 5)) / np.sqrt(2.0)
    return centers[cluster] + directions[group] + rng.normal(size=(n_rows, 5)), cluster


DATA = SHAPES | {
    "stretched": stretched,
    "heavy tails": heavy_tails,
    "moons in noise": moons_in_noise,
    "skewed": skewed,
    "overlapping": overlapping,
    "groups apart": lambda n, seed: overlapping(n, seed, shift=3.0),
    "50 clusters": lambda n, seed: overlapping(n, seed, n_clusters=50),
}
RESULTS = Path(__file__).parent / "results" / "clusterer_defaults.json"
FMSC = OneStageFairSpectralClustering
CLUSTERERS = {
    "SpFC": FairSpectralClustering(),
    "SpFC, 10 neighbours": FairSpectralClustering(n_neighbors=10),
    "SpFC, 30 neighbours": FairSpectralClustering(n_neighbors=30),
    "FMSC": FMSC(),
    "FMSC, weight 1, 5 neighbours": FMSC(fairness_weight=1.0, n_neighbors=5),
    "FMSC, weight 1": FMSC(fairness_weight=1.0),
    "FMSC, 5 neighbours": FMSC(n_neighbors=5),
    "TFC, k-center": FairletClustering(objective="kcenter"),
    "TFC, k-median": FairletClustering(objective="kmedian"),
    "VFC": VariationalFairClustering(),
    "VFC, without fairness": VariationalFairClustering(fairness_weight=0.0),
    "FFC": FairnessFirstClustering(),
    "FFC, threshold 0.8": FairnessFirstClustering(balance_threshold=0.8),
}


def main():
    """Measure what is missing, and print medians over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = json.loads(options.output.read_text()) if options.output.exists() else {}
    for seed in range(options.seeds):
        for name, make in DATA.items():
            X, cluster = make(options.rows, seed)
            X, groups = StandardScaler().fit_transform(X), draw_groups(len(X), N_GROUPS, seed)
            for title, clusterer in CLUSTERERS.items():
                of_seeds = found.setdefault(name, {}).setdefault(title, [])
                if len(of_seeds) > seed:
                    continue
                model = AnchorFairClustering(
                    int(cluster.max()) + 1, clusterer=clusterer, random_state=seed, n_jobs=1
                )
                labels = model.fit_predict(X, sensitive_features=groups)
                of_seeds.append(round(adjusted_rand_score(cluster, labels), 4))
            options.output.write_text(json.dumps(found, indent=1) + "\n")
    for name, by_title in found.items():
        print(name)
        for title, values in by_title.items():
            print(f"  {title:30} {np.median(values):.3f} (worst {min(values):.3f})")


if __name__ == "__main__":
    main()
