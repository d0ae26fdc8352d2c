"""Cosine distances and sparse rows: peak memory, time and agreement with dense computations.

    python benchmarks/embeddings.py
    python benchmarks/embeddings.py --quick

Memory is the peak of resident memory during `fit`, above what is held before it, in a process of
its own; the table itself is not part of it. Embeddings are float32 rows with 384 features; texts
are CSR rows with 20,000 features, 50 of which are not zero, and what they would take as a dense
table is printed beside them.
"""

import os
import sys

import numpy as np
from scipy import sparse

from _common import (
    MEGABYTE,
    claim,
    finish,
    in_new_process,
    parsed,
    parser_of,
    peak_memory,
    print_table,
    progress,
    reset_peak_memory,
    timed,
)
from fairanchor import FairKMeans, FairnessTargets

TABLES = {
    "embeddings, cosine": (1_000_000, 384, "cosine"),
    "embeddings, euclidean": (1_000_000, 384, "euclidean"),
    "texts, cosine": (200_000, 20_000, "cosine"),
    "texts, euclidean": (200_000, 20_000, "euclidean"),
}
N_CLUSTERS, PER_ROW = 20, 50


def main(arguments=None):
    options = parsed(parser_of(__doc__, repeats=False), arguments)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    records = []
    for name, (n_rows, n_features, metric) in TABLES.items():
        progress(name)
        n_rows = 3_000 if options.quick else n_rows
        found = in_new_process(measure, name.split(",")[0], n_rows, n_features, metric)
        records.append({"table": name, "n_rows": n_rows, "n_features": n_features, **found})
    print_table(
        ["table", "rows", "table MB", "dense MB", "extra MB", "wall s", "largest cluster"],
        [
            [
                r["table"], f"{r['n_rows']:,}", f"{r['table_mb']:.0f}", f"{r['dense_mb']:.0f}",
                f"{r['extra_mb']:.0f}", f"{r['wall']:.1f}", r["largest"],
            ]
            for r in records
        ],
    )  # fmt: skip
    agreement = in_new_process(largest_difference)
    checks = [claim("sparse and dense costs agree to 1e-9", agreement < 1e-9, agreement)]
    goals = [
        claim(
            f"{r['table']}: memory with the table within twice the table",
            r["extra_mb"] <= r["table_mb"], r["extra_mb"] / r["table_mb"],
        )
        for r in records
        if r["table"].startswith("embeddings")
    ]  # fmt: skip
    settings = {"clusters": N_CLUSTERS, "numbers_per_text": PER_ROW}
    return finish("embeddings", options, settings=settings, records=records, checks=checks,
                  goals=goals)  # fmt: skip


def measure(kind, n_rows, n_features, metric):
    X = embeddings(n_rows, n_features) if kind == "embeddings" else texts(n_rows, n_features)
    model(metric, 2_000).fit(X[:2_000])
    held = reset_peak_memory()
    wall, fitted = timed(model(metric, n_rows).fit, X)
    extra = peak_memory() - held
    parts = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]
    return {
        "table_mb": sum(part.nbytes for part in parts) / MEGABYTE,
        "dense_mb": X.dtype.itemsize * n_rows * n_features / MEGABYTE,
        "extra_mb": extra,
        "wall": wall,
        "largest": int(fitted.counts_.max()),
    }


def model(metric, n_rows):
    sizes = FairnessTargets(max_size=int(1.5 * n_rows / N_CLUSTERS))
    return FairKMeans(N_CLUSTERS, metric=metric, fairness=sizes, n_jobs=2, random_state=0)


def embeddings(n_rows, n_features):
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((2 * N_CLUSTERS, n_features), dtype=np.float32)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    for start in range(0, n_rows, 10_000):  # no copy of the table: it would hide the peak
        part = X[start : start + 10_000]
        part += centers[rng.integers(0, len(centers), len(part))]
    return X


def texts(n_rows, n_features):
    """Rows of topics, each with words of its own beside those of all."""
    rng = np.random.default_rng(0)
    topics = rng.integers(0, N_CLUSTERS, n_rows)
    common = (n_features * rng.random((n_rows, PER_ROW)) ** 3).astype(np.int32)
    own = topics[:, None] * 200 + rng.integers(0, 200, (n_rows, PER_ROW)).astype(np.int32)
    words = np.where(rng.random((n_rows, PER_ROW)) < 0.4, own, common)
    counts = sparse.csr_array(
        (np.ones(words.size, dtype=np.float32), words.ravel(), np.arange(n_rows + 1) * PER_ROW),
        shape=(n_rows, n_features),
    )
    counts.sum_duplicates()
    return counts


def largest_difference():
    """Of the costs of sparse rows and of the same dense ones, relative."""
    X = texts(2_000, 4_500).astype(np.float64)
    X.data *= np.random.default_rng(1).uniform(0.9, 1.1, len(X.data))  # no ties
    costs = [
        (model(metric, 2_000).fit(X).inertia_, model(metric, 2_000).fit(X.toarray()).inertia_)
        for metric in ("cosine", "euclidean")
    ]
    return max(abs(one / other - 1.0) for one, other in costs)


if __name__ == "__main__":
    sys.exit(main())
