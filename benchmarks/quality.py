"""Cost and balance on the paper's real tables: the figures of the README.

Run with the folder of the tables::

    python benchmarks/quality.py --data FOLDER
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from fairanchor import AnchorFairClustering, FairKMeans, datasets
from fairanchor.metrics import balance_score, dataset_balance, relative_balance_score

LOADERS = {
    "Law School": datasets.load_law_school,
    "Credit": datasets.load_credit_card,
    "Bank": datasets.load_bank_marketing,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with the Parquet files")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    print("| table | method | cost | balance (bound) | relative balance | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for title, load in LOADERS.items():
        compare(title, load(arguments.data), arguments.seeds)
    print("\nRelative balance of rows held out (median, worst), agreement on training rows:")
    for title, load in LOADERS.items():
        hold_out(title, load(arguments.data), arguments.seeds)
    print("\nPasses over the rows to a mass error of 1e-6, for alpha = 1e-4, 1e-2, 1, 10, 100:")
    for title, load in LOADERS.items():
        count_passes(title, load(arguments.data))


def compare(title, table, n_seeds):
    X = StandardScaler().fit_transform(table.data)
    groups, k = table.sensitive_features, table.n_clusters
    bound = dataset_balance(groups)
    plain = KMeans(k, n_init=10, random_state=0)
    plain_seconds = timed(lambda: plain.fit(X))
    methods = {
        "FairKMeans": lambda seed: FairKMeans(k, random_state=seed),
        "AnchorFairClustering": lambda seed: AnchorFairClustering(k, random_state=seed),
        "  without refinement": lambda seed: AnchorFairClustering(k, random_state=seed, refine=0),
        "  spfc": lambda seed: AnchorFairClustering(k, random_state=seed, clusterer="spfc"),
    }
    report(title, "plain k-means", [plain], plain.inertia_, groups, bound, [plain_seconds])
    for name, make in methods.items():
        models = [make(seed) for seed in range(n_seeds)]
        seconds = [timed(lambda m=m: quietly_fitted(m, X, groups)) for m in models]
        report(title, name, models, plain.inertia_, groups, bound, seconds)


def hold_out(title, table, n_splits):
    X = StandardScaler().fit_transform(table.data)
    groups = table.sensitive_features
    relative, agreement = [], []
    for seed in range(n_splits):
        seen = np.random.default_rng(seed).random(len(X)) < 0.5
        model = quietly_fitted(
            AnchorFairClustering(table.n_clusters, random_state=seed), X[seen], groups[seen]
        )
        new = model.predict(X[~seen], sensitive_features=groups[~seen])
        relative.append(relative_balance_score(new, sensitive_features=groups[~seen]))
        own = model.predict(X[seen], sensitive_features=groups[seen])
        agreement.append(np.mean(own == model.labels_))
    print(f"{title}: {np.median(relative):.3f}, {min(relative):.3f}, {min(agreement):.5f}")


def count_passes(title, table):
    X = StandardScaler().fit_transform(table.data)
    passes = []
    for alpha in (1e-4, 1e-2, 1.0, 10.0, 100.0):
        model = AnchorFairClustering(
            table.n_clusters, alpha=alpha, tol=1e-6, refine=0, random_state=0
        )
        quietly_fitted(model, X, table.sensitive_features)
        passes.append(f"{model.n_iter_}{'' if model.converged_ else ' (not converged)'}")
    print(f"{title}: {', '.join(passes)}", flush=True)


def quietly_fitted(model, X, groups):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small clusters of anchors are dissolved
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
