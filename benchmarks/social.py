"""`SociallyFairKMeans`: time against `KMeans(n_init=1)`, growth with the rows, and group costs.

    python benchmarks/social.py [--repeats 3]
    python benchmarks/social.py --quick

Gaussian blobs with ten features and three groups of different shares and spreads. Both methods take
turns on the same array in one process, after a fit of few rows that is not counted. CPU times and
costs are medians over the repeats, each of which has a seed of its own. The largest group cost is
compared with that of the centres of `KMeans` and of `FairKMeans`.

On small tables it is compared with the best of 50 random starts of a generic solver: SciPy's SLSQP,
which minimises a bound on the costs of the groups over all centres at once.
"""

import os
import sys
from time import process_time

import numpy as np
from scipy.optimize import minimize
from sklearn.cluster import KMeans

from _common import claim, finish, in_new_process, median, parsed, parser_of, print_table, progress
from fairanchor import FairKMeans, SociallyFairKMeans

N_FEATURES, N_GROUPS = 10, 3
TABLES = ((10_000, 5), (100_000, 5), (1_000_000, 5), (1_000_000, 20))
QUICK_TABLES = ((2_000, 3),)
TIME_LIMIT, COST_LIMIT, GROWTH_LIMIT = 3.0, 1.01, 1.1
N_SMALL_TABLES, N_STARTS = 60, 50


def main(arguments=None):
    options = parsed(parser_of(__doc__), arguments)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    records = []
    for n_rows, n_clusters in QUICK_TABLES if options.quick else TABLES:
        progress(f"{n_rows:,} rows, k = {n_clusters}")
        runs = [in_new_process(measure, n_rows, n_clusters, s) for s in range(options.repeats)]
        medians = {name: median([run[name] for run in runs]) for name in runs[0]}
        records.append({"n_rows": n_rows, "n_clusters": n_clusters, **medians, "runs": runs})
    print_table(
        ["rows", "k", "CPU s", "KMeans", "ratio", "largest cost", "KMeans", "FairKMeans", "gap"],
        [
            [
                f"{r['n_rows']:,}", r["n_clusters"], f"{r['cpu']:.3f}", f"{r['kmeans_cpu']:.3f}",
                f"{r['cpu'] / r['kmeans_cpu']:.2f}", f"{r['social']:.4f}",
                f"{r['kmeans_social']:.4f}", f"{r['fair_social']:.4f}", f"{r['gap']:.1e}",
            ]
            for r in records
        ],
    )  # fmt: skip
    worst = max(run["social"] / run["kmeans_social"] for r in records for run in r["runs"])
    checks = [claim("the largest cost is not above that of KMeans", worst <= 1.001, worst)]
    ratios = [r["cpu"] / r["kmeans_cpu"] for r in records if r["n_rows"] >= 1_000_000]
    text = "a million rows: CPU time <= 3 x KMeans"
    goals = [claim(text, max(ratios) <= TIME_LIMIT, ratios)] if ratios else []
    per_row = {r["n_rows"]: r["cpu"] / r["n_rows"] for r in records if r["n_clusters"] == 5}
    if 1_000_000 in per_row:
        growth = per_row[1_000_000] / per_row[100_000]
        goals.append(claim("CPU time per row does not grow", growth <= GROWTH_LIMIT, growth))
    progress("small tables")
    n_small = 1 if options.quick else N_SMALL_TABLES
    small = [against_generic_solver(seed) for seed in range(n_small)]
    text = f"small tables: cost <= {COST_LIMIT} x the best of {N_STARTS} starts of a generic solver"
    goals.append(claim(text, max(small) <= COST_LIMIT, small))
    settings = {"features": N_FEATURES, "groups": N_GROUPS, "repeats": options.repeats}
    return finish("social", options, settings=settings, records=records, checks=checks, goals=goals)


def measure(n_rows, n_clusters, seed):
    X, groups = people(n_rows, seed)
    social = SociallyFairKMeans(n_clusters, n_jobs=2, random_state=seed)
    social.fit(X[:5_000], sensitive_features=groups[:5_000])
    KMeans(n_clusters, n_init=1).fit(X[:5_000])
    start = process_time()
    plain = KMeans(n_clusters, n_init=1, random_state=seed).fit(X)
    plain_seconds = process_time() - start
    start = process_time()
    social.fit(X, sensitive_features=groups)
    seconds = process_time() - start
    fair = FairKMeans(n_clusters, n_jobs=2, random_state=seed).fit(X, sensitive_features=groups)
    return {
        "cpu": seconds,
        "kmeans_cpu": plain_seconds,
        "social": social.social_cost_,
        "kmeans_social": largest_cost(X, groups, plain),
        "fair_social": largest_cost(X, groups, fair),
        "gap": social.center_gap_,
        "iterations": social.n_iter_,
    }


def people(n_rows, seed):
    """Ten blobs whose groups have different shares, and spreads of 1, 1.3 and 1.6."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, 10, n_rows)
    shares = np.cumsum(rng.dirichlet([3.0, 2.0, 1.0], size=10), axis=1)
    groups = (rng.random(n_rows)[:, None] > shares[own, :-1]).sum(axis=1)
    centers = 6.0 / np.sqrt(2 * N_FEATURES) * rng.standard_normal((10, N_FEATURES))
    spread = np.array([1.0, 1.3, 1.6])[groups]
    return centers[own] + spread[:, None] * rng.standard_normal((n_rows, N_FEATURES)), groups


def largest_cost(X, groups, model):
    squares = ((X - model.cluster_centers_[model.labels_]) ** 2).sum(axis=1)
    return float((np.bincount(groups, squares) / np.bincount(groups)).max())


def against_generic_solver(seed):
    """Largest group cost over that of the best start of SLSQP, on a table of 80 rows."""
    rng = np.random.default_rng(10_000 + seed)
    n_groups, n_clusters, n_features = 2 + seed % 3, 2 + seed % 4, 2 + seed % 2
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, 80 - n_groups)])
    X = 3.0 * rng.normal(size=(6, n_features))[rng.integers(0, 6, 80)]
    X += (1.0 + 0.5 * groups[:, None]) * rng.normal(size=X.shape)
    sizes = np.bincount(groups)

    def nearest(values):
        away = values[:-1].reshape(n_clusters, 1, n_features) - X
        labels = (away**2).sum(axis=2).argmin(axis=0)
        return labels, away[labels, np.arange(len(X))]

    def room(values):  # of the bound, the last value, above the cost of each group
        _, away = nearest(values)
        return values[-1] - np.bincount(groups, (away**2).sum(axis=1)) / sizes

    def slopes(values):
        labels, away = nearest(values)
        table = np.zeros((n_groups, n_clusters, n_features))
        np.add.at(table, (groups, labels), -2.0 * away / sizes[groups][:, None])
        return np.column_stack([table.reshape(n_groups, -1), np.ones(n_groups)])

    last = np.eye(n_clusters * n_features + 1)[-1]
    best = np.inf
    for _ in range(N_STARTS):
        start = np.append(X[rng.choice(len(X), n_clusters, replace=False)].ravel(), 0.0)
        start[-1] = -room(start).min()
        found = minimize(
            lambda values: values[-1], start, jac=lambda _: last, method="SLSQP",
            constraints={"type": "ineq", "fun": room, "jac": slopes}, options={"maxiter": 200},
        )  # fmt: skip
        best = min(best, found.x[-1] - room(found.x).min())
    model = SociallyFairKMeans(n_clusters, random_state=seed).fit(X, sensitive_features=groups)
    return float(model.social_cost_ / best)


if __name__ == "__main__":
    sys.exit(main())
