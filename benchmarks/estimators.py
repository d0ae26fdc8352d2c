"""k-means cost of both estimators on public tables, relative to the best that was found.

The reference is the cheapest of ``FairKMeans(n_init=10)`` over all seeds. Printed for each
estimator: median and worst ratio over the seeds, seconds, and the smallest cluster.

    python benchmarks/estimators.py --data FOLDER [--seeds 10] [--output FILE]
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from fairanchor import AnchorFairClustering, FairKMeans, datasets

TABLES = {"law_school": 2, "credit_card": 5, "bank_marketing": 2, "kdd_census_income": 5}


def load(name, folder):
    """Standardised features, groups and number of clusters."""
    if name == "zafar":
        table, n_clusters = datasets.make_zafar(20_000, random_state=0), 2
    else:
        table = getattr(datasets, f"load_{name}")(Path(folder) / f"{name}.parquet")
        n_clusters = TABLES[name]
    X = StandardScaler().fit_transform(np.asarray(table.data, dtype=np.float64))
    return X, np.asarray(table.sensitive_features), n_clusters


def measure(model, X, groups):
    """Cost, time and smallest share of a cluster after a fit."""
    start = time.perf_counter()
    model.fit(X, sensitive_features=groups)
    seconds = time.perf_counter() - start
    sizes = model.counts_.sum(axis=1)
    return {
        "cost": model.inertia_, "seconds": seconds, "smallest": sizes.min() / sizes.sum(),
        "converged": bool(model.converged_), "worst_violation": model.worst_violation_,
    }  # fmt: skip


def main():
    """Measure all tables and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--tables", nargs="+", default=[*TABLES, "zafar"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--output")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    records = []
    for name in options.tables:
        X, groups, k = load(name, options.data)
        plain = KMeans(k, n_init=10, random_state=0).fit(X).inertia_
        models = {
            "FairKMeans(n_init=10)": lambda seed, k=k: FairKMeans(
                k, n_init=10, n_jobs=-1, random_state=seed
            ),
            "FairKMeans": lambda seed, k=k: FairKMeans(k, n_jobs=-1, random_state=seed),
            "framework(FairKMeans)": lambda seed, k=k: AnchorFairClustering(
                k, clusterer=FairKMeans(), n_jobs=-1, random_state=seed
            ),
            "framework": lambda seed, k=k: AnchorFairClustering(k, n_jobs=-1, random_state=seed),
        }
        found = {
            title: [measure(make(seed), X, groups) for seed in range(options.seeds)]
            for title, make in models.items()
        }
        best = min(record["cost"] for record in found["FairKMeans(n_init=10)"])
        print(f"{name}: {X.shape[0]:,} x {X.shape[1]}, k={k}, best fair cost {best / plain:.4f} of "
              "plain k-means")  # fmt: skip
        for title, runs in found.items():
            ratios = np.array([run["cost"] for run in runs]) / best
            seconds = np.median([run["seconds"] for run in runs])
            smallest = min(run["smallest"] for run in runs)
            print(f"  {title:24} median {np.median(ratios):.4f}  worst {ratios.max():.4f}  "
                  f"{seconds:6.2f} s  smallest cluster {smallest:.3%}", flush=True)  # fmt: skip
            records += [
                {"table": name, "estimator": title, "seed": seed, "ratio": ratio} | run
                for seed, (ratio, run) in enumerate(zip(ratios.tolist(), runs, strict=True))
            ]
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(records, file, indent=1)


if __name__ == "__main__":
    main()
