"""What the choice of anchors does to the cost: the figures of docs/guide/choosing_anchors.md.

Run with the folder of the tables::

    python benchmarks/anchors.py --data FOLDER
"""

import argparse
import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from fairanchor import AnchorFairClustering, datasets

LOADERS = {"Credit": datasets.load_credit_card, "Bank": datasets.load_bank_marketing}
KINDS = {
    f'`anchors="{anchors}"`, `anchor_weights="{weights}"`': {
        "anchors": anchors,
        "anchor_weights": weights,
    }
    for anchors in ("kmeans", "fdas", "random")
    for weights in ("mass", "uniform")
}
NUMBERS = {f"`n_anchors={number}`": {"n_anchors": number} for number in (40, 60, 120, 240)}
RIDGES = {f"`alpha={alpha:g}`": {"alpha": alpha} for alpha in (0.01, 1.0, 10.0, 100.0)}


def main():
    """Print one line per setting, without and with refinement, plain k-means being 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder with the Parquet files")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    tables = [Table(load(options.data), options.seeds) for load in LOADERS.values()]
    titles = [f"{name}, {kind}" for name in LOADERS for kind in ("`refine=0`", "refined")]
    print(f"| setting | {' | '.join(titles)} |")
    print("| --- " * (1 + len(titles)) + "|")
    for name, setting in (KINDS | NUMBERS | RIDGES).items():
        settings = [setting | {"refine": 0}, setting]
        costs = [table.cost(**each) for table in tables for each in settings]
        print(f"| {name} | {' | '.join(f'{cost:.3f}' for cost in costs)} |", flush=True)


class Table:
    """Standardised rows and the cost of plain k-means on them."""

    def __init__(self, table, n_seeds):
        self.X = StandardScaler().fit_transform(table.data)
        self.groups, self.n_clusters = table.sensitive_features, table.n_clusters
        self.plain = KMeans(table.n_clusters, n_init=10, random_state=0).fit(self.X).inertia_
        self.n_seeds = n_seeds

    def cost(self, **setting):
        """Median over the seeds."""
        costs = []
        for seed in range(self.n_seeds):
            model = AnchorFairClustering(self.n_clusters, random_state=seed, **setting)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of small clusters, which unweighted anchors make
                model.fit(self.X, sensitive_features=self.groups)
            costs.append(model.inertia_)
        return np.median(costs) / self.plain


if __name__ == "__main__":
    main()
