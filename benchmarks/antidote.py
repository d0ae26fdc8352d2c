"""Antidote rows: how much fairer does plain k-means become?

Relative balance of plain ``KMeans(n_init=10)``, of the same with antidote rows (a twentieth of the
rows, 200 fits), of the same rows with five other seeds of k-means, and of the fairest of as many
restarts of plain k-means: what a search without antidotes finds. Generated data, and up to 5,000
rows of the public tables if they are at hand.

    python benchmarks/antidote.py [--seeds 5] [--data FOLDER]
"""

import sys
import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from _common import finish, median, parsed, parser_of, print_table, progress, timed
from fairanchor import antidote_rows
from fairanchor.datasets import (
    load_bank_marketing,
    load_credit_card,
    load_law_school,
    make_fair_blobs,
    make_zafar,
)
from fairanchor.metrics import relative_balance_score

MOST_ROWS = 5_000


def public(load, folder):
    """A sample of a public table, standardised."""

    def table(seed):
        data = load(folder)
        rows = np.random.default_rng(seed).permutation(len(data.data))[:MOST_ROWS]
        groups = np.asarray(data.sensitive_features)[rows]
        return StandardScaler().fit_transform(np.asarray(data.data)[rows]), groups

    return table


def zafar(seed):
    data = make_zafar(3_000, variant="original", random_state=seed)
    return data.data, data.sensitive_features


def blobs(seed):
    data = make_fair_blobs(
        3_000, centers=4, group_shares=(0.5, 0.3, 0.2), skew=0.3, cluster_std=3.0, random_state=seed
    )
    return data.data, data.sensitive_features


def measure(table, n_clusters, seed, n_evaluations):
    """Relative balances of one table."""
    X, groups = table(seed)

    def balance(labels):
        return relative_balance_score(labels, sensitive_features=groups)

    seconds, result = timed(
        antidote_rows, X, groups, KMeans(n_clusters, n_init=10), n_evaluations=n_evaluations,
        random_state=seed,
    )  # fmt: skip
    union = np.vstack([X, result.rows])
    others = [
        balance(KMeans(n_clusters, n_init=10, random_state=100 + s).fit(union).predict(X))
        for s in range(5)
    ]
    restarts = [
        balance(KMeans(n_clusters, n_init=1, random_state=s).fit(X).labels_)
        for s in range(n_evaluations)
    ]
    curve = result.curve
    return {
        "plain": curve["relative_balance"][0], "antidote": curve["relative_balance"][-1],
        "other_seeds": median(others), "best_restart": max(restarts),
        "n_rows": int(curve["n_rows"][-1]), "cost": curve["cost"][-1], "seconds": seconds,
    }  # fmt: skip


def main(arguments=None):
    """Measure all tables."""
    parser = parser_of(__doc__, repeats=False)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", help="folder of the public tables")
    options = parsed(parser, arguments)
    tables = {"Zafar": (zafar, 5), "blobs": (blobs, 4)}
    if options.data is not None:
        for name, load in (("Law School", load_law_school), ("Credit", load_credit_card),
                           ("Bank", load_bank_marketing)):  # fmt: skip
            tables[name] = (public(load, options.data), 5)
    n_seeds, n_evaluations = (1, 10) if options.quick else (options.seeds, 200)
    warnings.simplefilter("ignore")
    records = []
    for name, (table, n_clusters) in tables.items():
        progress(name)
        for seed in range(n_seeds):
            records.append({"table": name, "seed": seed})
            records[-1] |= measure(table, n_clusters, seed, n_evaluations)
    columns = ["plain", "antidote", "other_seeds", "best_restart", "n_rows", "cost", "seconds"]
    print_table(
        ["table", *columns],
        [
            [name]
            + [f"{median([r[c] for r in records if r['table'] == name]):.3f}" for c in columns]
            for name in tables
        ],
    )
    return finish("antidote", options, settings={"seeds": n_seeds}, records=records)


if __name__ == "__main__":
    sys.exit(main())
