"""Deep fair clustering against fair k-means and fair spectral clustering, on digits.

Three tables made from scikit-learn's 1,797 digits of 8 x 8 pixels, 10 clusters each: accuracy and
normalised mutual information with the true digits, balance (smallest group over largest in the
worst cluster) and the balance of the table, which no clustering exceeds. Means over seeds, with
standard deviations. "Own labels" of a network are its largest memberships, for which no group is
needed.

    python benchmarks/deep.py [--tables ink negatives scanners] [--seeds 5] [--output FILE]
    python benchmarks/deep.py --rows 10000     CPU seconds for a fit of generated rows x 64
"""

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

from fairanchor import (
    AnchorFairClustering,
    DeepFairClustering,
    FairKMeans,
    FairSpectralClustering,
)
from fairanchor.metrics import (
    balance_score,
    clustering_accuracy_score,
    dataset_balance,
    nmi_score,
)

N_CLUSTERS = 10


def ink():
    """Pixels; groups: more or less ink than the median, which depends on the digit."""
    X, digit = load_digits(return_X_y=True)
    total = X.sum(axis=1)
    return X, digit, np.where(total > np.median(total), "bold", "fine")


def negatives():
    """Pixels of all digits and of their negatives; groups: which of the two."""
    X, digit = load_digits(return_X_y=True)
    return np.vstack([X, 16 - X]), np.tile(digit, 2), np.repeat(["positive", "negative"], len(X))


def scanners():
    """Embeddings; every ninth digit is blurred and pale, as by another scanner, the smaller group.

    An embedding has 64 principal components of 300 features of a Gaussian kernel.
    """
    X, digit = load_digits(return_X_y=True)
    other = np.arange(len(X)) % 9 == 0
    images = X.reshape(-1, 8, 8).copy()
    images[other] = 0.7 * gaussian_filter(images[other], sigma=(0, 0.5, 0.5))
    embed = make_pipeline(Nystroem(gamma=5e-4, n_components=300, random_state=0), PCA(64))
    return embed.fit_transform(images.reshape(len(X), -1)), digit, np.where(other, "b", "a")


TABLES = {"ink": ink, "negatives": negatives, "scanners": scanners}


def methods(seed):
    """Estimators by name."""
    return {
        "KMeans": KMeans(N_CLUSTERS, n_init=4, random_state=seed),
        "FairKMeans": FairKMeans(N_CLUSTERS, random_state=seed),
        "FairSpectralClustering": FairSpectralClustering(N_CLUSTERS, random_state=seed),
        "AnchorFairClustering": AnchorFairClustering(N_CLUSTERS, random_state=seed),
        "DFC": DeepFairClustering(N_CLUSTERS, method="dfc", random_state=seed),
        "DFDC": DeepFairClustering(N_CLUSTERS, random_state=seed),
    }


def measure(table, name, model, X, digit, groups):
    """Records of a fit: of its labels, and of the own labels of a network."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X) if name == "KMeans" else model.fit(X, sensitive_features=groups)
    seconds = time.perf_counter() - start
    print(f"{table}, {name}, seed {model.random_state}: {seconds:.1f} s", file=sys.stderr)
    labels = {name: model.labels_}
    if isinstance(model, DeepFairClustering):
        labels[f"{name}, own labels"] = model.predict(X)
    return [
        {
            "table": table,
            "method": which,
            "seed": model.random_state,
            "accuracy": clustering_accuracy_score(digit, own),
            "nmi": nmi_score(digit, own),
            "balance": balance_score(own, sensitive_features=groups),
            "seconds": seconds,
        }
        for which, own in labels.items()
    ]


def print_table(table, records, bound):
    print(f"\n{table}: balance of at most {bound:.3f}")
    print(f"{'method':24}{'accuracy':>16}{'NMI':>16}{'balance':>16}{'seconds':>9}")
    for name in dict.fromkeys(record["method"] for record in records):
        own = [record for record in records if record["method"] == name]
        line = f"{name:24}"
        for quantity in ("accuracy", "nmi", "balance"):
            values = [record[quantity] for record in own]
            line += f"{np.mean(values):9.3f} ± {np.std(values):.3f}"
        print(f"{line}{np.median([record['seconds'] for record in own]):9.1f}", flush=True)


def time_fits(n_rows):
    """CPU seconds for a fit of each method on generated rows with 64 features and three groups."""
    X, _ = make_blobs(n_rows, n_features=64, centers=N_CLUSTERS, cluster_std=4.0, random_state=0)
    groups = np.random.default_rng(0).choice(3, n_rows)
    for method in ("dfdc", "dfc"):
        model = DeepFairClustering(N_CLUSTERS, method=method, verbose=True, random_state=0)
        start = time.process_time()  # a fit has one thread
        model.fit(X, sensitive_features=groups)
        print(f"{method}: {time.process_time() - start:.0f} CPU s for {n_rows:,} x 64")


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, help="only time fits of as many generated rows")
    parser.add_argument("--output", type=Path, help="file of the records, as JSON")
    options = parser.parse_args(arguments)
    if options.rows is not None:
        time_fits(options.rows)
        return
    records = []
    for table in options.tables:
        X, digit, groups = TABLES[table]()
        own = [
            record
            for seed in range(options.seeds)
            for name, model in methods(seed).items()
            for record in measure(table, name, model, X, digit, groups)
        ]
        print_table(table, own, dataset_balance(groups))
        records += own
    if options.output:
        options.output.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
