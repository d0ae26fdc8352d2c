"""Cost and balance on three tables of the paper, for several tolerances and for new rows.

    python benchmarks/quality.py --data FOLDER
    python benchmarks/quality.py --data FOLDER --clusters 5
    python benchmarks/quality.py --data FOLDER --rows 2000 --seeds 1

Standardised features, by default the paper's numbers of clusters. Cost is the k-means cost over
that of plain k-means, the median of the seeds; balance and relative balance are the worst of them.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from fairanchor import (
    AnchorFairClustering,
    FairKMeans,
    ReconstructionGraph,
    datasets,
    fairness_path,
)
from fairanchor.metrics import balance_score, dataset_balance, relative_balance_score

LOADERS = {
    "Law School": datasets.load_law_school,
    "Credit": datasets.load_credit_card,
    "Bank": datasets.load_bank_marketing,
}
METHODS = {
    "FairKMeans": lambda k, seed: FairKMeans(k, random_state=seed),
    "AnchorFairClustering": lambda k, seed: AnchorFairClustering(k, random_state=seed),
    "  clusterer='fair_kmeans'": lambda k, seed: AnchorFairClustering(
        k, clusterer="fair_kmeans", random_state=seed
    ),
    "  graph='reconstruction'": lambda k, seed: AnchorFairClustering(
        k, n_anchors=40, graph="reconstruction", random_state=seed
    ),
}
ALPHAS = (1e-4, 1e-2, 1.0, 10.0, 100.0)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="folder with the Parquet files")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--clusters", type=int, help="number of clusters of every table")
    parser.add_argument("--rows", type=int, help="at most so many rows of each table")
    options = parser.parse_args()
    tables = {title: load_table(load, options) for title, load in LOADERS.items()}
    print("| table | method | cost | balance (bound) | relative balance | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for title, table in tables.items():
        compare(title, *table, options.seeds)
    print("\nTolerance: cost over that of tolerance 1, relative balance (medians):")
    for title, table in tables.items():
        follow_path(title, *table, options.seeds)
    print("\nRelative balance of 30 % of the rows, held out (median, worst); the same, blind:")
    for title, table in tables.items():
        hold_out(title, *table, options.seeds)
    print(
        "\nReconstruction graph: sweeps to a mass error of 1e-6 of a group, for alpha =",
        ", ".join(f"{alpha:g}" for alpha in ALPHAS),
    )
    for title, table in tables.items():
        count_sweeps(title, *table)


def load_table(load, options):
    """Standardised rows, groups, and the number of clusters."""
    table = load(options.data)
    X, groups = StandardScaler().fit_transform(table.data), np.asarray(table.sensitive_features)
    if options.rows is not None:
        some = np.random.default_rng(0).permutation(len(X))[: options.rows]
        X, groups = X[some], groups[some]
    return X, groups, options.clusters or table.n_clusters


def compare(title, X, groups, k, n_seeds):
    bound = dataset_balance(groups)
    plain = KMeans(k, n_init=10, random_state=0)
    plain_seconds = timed(lambda: plain.fit(X))
    report(title, "KMeans", [plain], plain.inertia_, groups, bound, [plain_seconds])
    for name, make in METHODS.items():
        models = [make(k, seed) for seed in range(n_seeds)]
        seconds = [timed(lambda m=m: quietly_fitted(m, X, groups)) for m in models]
        report(title, name, models, plain.inertia_, groups, bound, seconds)


def follow_path(title, X, groups, k, n_seeds):
    found = []
    for seed in range(n_seeds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = fairness_path(X, groups, n_clusters=k, random_state=seed)
        tolerance, cost, relative = (
            np.asarray(path.table[name]) for name in ("tolerance", "cost", "relative_balance")
        )
        found.append([tolerance, cost / cost[-1], relative])
    for tolerance, cost, relative in np.median(found, axis=0).T:
        print(f"{title}, {tolerance:g}: {cost:.3f}, {relative:.3f}", flush=True)


def hold_out(title, X, groups, k, n_splits):
    for name in ("FairKMeans", "AnchorFairClustering"):
        known, blind = [], []
        for seed in range(n_splits):
            seen = np.random.default_rng(seed).random(len(X)) < 0.7
            model = METHODS[name](k, seed).set_params(unknown_groups="blind")
            quietly_fitted(model, X[seen], groups[seen])
            new, own = X[~seen], groups[~seen]
            for scores, given in ((known, own), (blind, None)):
                labels = model.predict(new, sensitive_features=given)
                scores.append(relative_balance_score(labels, sensitive_features=own))
        found = [f"{np.median(scores):.3f}, {min(scores):.3f}" for scores in (known, blind)]
        print(f"{title}, {name}: {found[0]}; {found[1]}", flush=True)


def count_sweeps(title, X, groups, k):
    sweeps = []
    for alpha in ALPHAS:
        graph = ReconstructionGraph(alpha=alpha, tol=1e-6)
        model = AnchorFairClustering(k, n_anchors=40, graph=graph, random_state=0)
        quietly_fitted(model, X, groups)
        sweeps.append(f"{model.n_iter_}{'' if model.converged_ else ' (not converged)'}")
    print(f"{title}: {', '.join(sweeps)}", flush=True)


def quietly_fitted(model, X, groups):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small clusters
        return model.fit(X, sensitive_features=groups)


def report(title, name, models, plain_cost, groups, bound, seconds):
    cost = np.median([model.inertia_ for model in models]) / plain_cost
    balance = min(balance_score(m.labels_, sensitive_features=groups) for m in models)
    relative = min(relative_balance_score(m.labels_, sensitive_features=groups) for m in models)
    print(
        f"| {title} | {name} | {cost:.3f} | {balance:.3f} ({bound:.3f}) | {relative:.4f} "
        f"| {np.median(seconds):.1f} |",
        flush=True,
    )


def timed(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
