"""Small fits of everything that has kernels; run by `test_interpreted_kernels`, twice.

    python tests/interpreted_fits.py RESULTS.npz

With NUMBA_DISABLE_JIT=1 in the environment the kernels are plain Python, so that they can be read
by a debugger, and their branches be counted.
"""

import sys
import warnings

import numpy as np

from fairanchor import (
    AnchorFairClustering,
    BoundedFairAssignment,
    FairKMeans,
    FairletClustering,
    FairnessFirstClustering,
    FairSpectralClustering,
    OneStageFairSpectralClustering,
    ReconstructionGraph,
    VariationalFairClustering,
)

N_ROWS = 90


def table(seed, n_features=3):
    """Three clusters, and groups of which each has more in one of them."""
    rng = np.random.default_rng(seed)
    cluster = np.arange(N_ROWS) % 3
    X = rng.normal(size=(N_ROWS, n_features)) + 6.0 * np.eye(3, n_features)[cluster]
    return X, np.where(rng.uniform(size=N_ROWS) < 0.6, cluster % 2, rng.integers(0, 3, N_ROWS))


X, GROUPS = table(0)
WEIGHTS = np.random.default_rng(1).uniform(0.5, 2.0, N_ROWS)
TWO_GROUPS = GROUPS % 2
ANCHORS = {"n_clusters": 3, "n_anchors": 18, "random_state": 0}


def anchored(**options):
    return AnchorFairClustering(**(ANCHORS | options))


def reconstructed(**options):
    return anchored(graph=ReconstructionGraph(**options))


# Name to estimator, rows, groups and weights.
FITS = {
    "anchors": (anchored(), X, GROUPS, None),
    "weights": (anchored(), X, GROUPS, WEIGHTS),
    "equal rows": (anchored(), np.repeat(X[:30], 3, axis=0), GROUPS, None),
    "row anchors": (anchored(anchors="fdas"), X, GROUPS, None),
    "small ridge": (reconstructed(alpha=1e-3), X, GROUPS, None),
    "large ridge": (reconstructed(alpha=1e3), X, GROUPS, None),
    "many features": (reconstructed(alpha=100.0), table(2, 12)[0], GROUPS, None),
    "one large feature": (reconstructed(), X * [1.0, 1.0, 1e6], GROUPS, None),
    "tolerance": (anchored(tolerance=0.2), X, GROUPS, None),
    "the paper's": (
        AnchorFairClustering.as_in_paper(
            3, n_anchors=18, graph=ReconstructionGraph(1.0, "admm", max_iter=10), random_state=0
        ),
        X, GROUPS, None,
    ),
    "fair k-means": (FairKMeans(3, n_init=2, random_state=0), X, GROUPS, None),
    "fair k-means, weights": (FairKMeans(3, n_init=2, random_state=0), X, GROUPS, WEIGHTS),
    "fair k-means, tolerance": (
        FairKMeans(3, tolerance=0.2, n_init=2, random_state=0), X, GROUPS, None,
    ),
    "spectral": (FairSpectralClustering(3, random_state=0), X, GROUPS, None),
    "variational": (VariationalFairClustering(3, random_state=0), X, GROUPS, None),
    "variational, medoids": (
        VariationalFairClustering(3, objective="kmedian", random_state=0), X, GROUPS, None,
    ),
    "one stage": (OneStageFairSpectralClustering(3, random_state=0), X, GROUPS, None),
    "fairlets": (FairletClustering(3, random_state=0), X, TWO_GROUPS, None),
    "fairlets by a tree": (
        FairletClustering(3, method="tree", random_state=0), X, TWO_GROUPS, None,
    ),
    "fairlets of three groups": (
        FairletClustering(3, method="tree", objective="kmedian", random_state=0), X, GROUPS, None,
    ),
    "fairlets around medoids": (
        FairletClustering(3, objective="kmedian", random_state=0), X, TWO_GROUPS, None,
    ),
    "fairness first": (
        FairnessFirstClustering(3, balance_threshold=0.5, random_state=0), X, GROUPS, None,
    ),
    "linear programming": (BoundedFairAssignment(3, random_state=0), X, GROUPS, None),
}  # fmt: skip


def main(path):
    """Write the labels of every fit."""
    labels = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the paper's setting does not converge, and the like
        for name, (estimator, rows, groups, weights) in FITS.items():
            given = {} if weights is None else {"sample_weight": weights}
            labels[name] = estimator.fit(rows, sensitive_features=groups, **given).labels_
    np.savez(path, **labels)


if __name__ == "__main__":
    main(sys.argv[1])
