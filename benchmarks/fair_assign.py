"""Time of `fair_assign` on random costs, against each row's cheapest cluster.

    python benchmarks/fair_assign.py
    python benchmarks/fair_assign.py --rows 10000 --clusters 10

Three groups; each cluster is cheaper for one of them, so that many rows must move.
"""

import argparse
import time

import numpy as np

from fairanchor import fair_assign


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--clusters", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--tolerance", type=float, default=0.0)
    options = parser.parse_args()
    print("rows, clusters: seconds (argmin), gap over cost, rows not in their cheapest cluster")
    for n_clusters in options.clusters:
        assign(2_000, n_clusters, options.tolerance)  # compiles what is not cached yet
        for n_rows in options.rows:
            print(f"{n_rows:,}, {n_clusters}: {assign(n_rows, n_clusters, options.tolerance)}")


def assign(n_rows, n_clusters, tolerance):
    rng = np.random.default_rng(0)
    groups = rng.choice(3, n_rows, p=[0.6, 0.3, 0.1])
    costs = rng.exponential(size=(n_rows, n_clusters))
    costs -= 0.3 * (groups[:, None] == np.arange(n_clusters) % 3)
    start = time.perf_counter()
    cheapest = costs.argmin(axis=1)
    middle = time.perf_counter()
    found = fair_assign(costs, sensitive_features=groups, tolerance=tolerance)
    end = time.perf_counter()
    moved = np.mean(found.labels != cheapest)
    gap = found.gap / abs(found.cost)
    return f"{end - middle:.2f} ({middle - start:.2f}), {gap:.1e}, {moved:.0%}"


if __name__ == "__main__":
    main()
