"""The same seed, the same bits: for any number of threads, in any process, in any order."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from every_clusterer import clusterers
from fairanchor import (
    AnchorFairClustering,
    FairKMeans,
    ReconstructionGraph,
    SociallyFairKMeans,
)
from fairanchor.datasets import make_fair_blobs

# Enough rows for several blocks, of enough features for the products to be shared by threads.
SHARES = (0.6, 0.25, 0.15)
DATA = make_fair_blobs(20_000, n_features=12, centers=4, group_shares=SHARES, random_state=1)
X, GROUPS = DATA.data, DATA.sensitive_features
LARGE = {
    "framework": AnchorFairClustering(4, random_state=3),
    "with a tolerance": AnchorFairClustering(4, tolerance=0.2, random_state=3),
    "reconstruction": AnchorFairClustering(
        4, graph="reconstruction", anchors="fdas", n_anchors=60, random_state=3
    ),
    "as in the paper": AnchorFairClustering.as_in_paper(
        4,
        fairness="anchors",
        graph=ReconstructionGraph(alpha=1.0, solver="admm", max_iter=5, tol=1e6),
        random_state=3,
    ),
    "fair k-means": FairKMeans(4, random_state=3),
    "fair k-means with a tolerance": FairKMeans(4, tolerance=0.2, random_state=3),
    "cosine": FairKMeans(4, metric="cosine", random_state=3),
    "socially fair": SociallyFairKMeans(4, random_state=3),
}
SMALL = clusterers(large_scale=False, n_clusters=4, random_state=3)
NUMBERS = ("labels_", "counts_", "targets_", "multipliers_", "assignment_prices_", "anchors_",
           "cluster_centers_", "dual_variables_", "inertia_", "mass_error_", "duality_gap_",
           "n_iter_")  # fmt: skip


def fingerprint(estimator, span=slice(None), **parameters):
    """Digest of all numbers that a fit leaves, to the last bit."""
    model = type(estimator)(**(estimator.get_params(deep=False) | parameters))
    model.fit(X[span], sensitive_features=GROUPS[span])
    digest = hashlib.sha256()
    for name in NUMBERS:
        if hasattr(model, name):
            digest.update(name.encode() + np.ascontiguousarray(getattr(model, name)).tobytes())
    return digest.hexdigest()


def all_fingerprints(n_jobs):
    """Digests of all estimators by name."""
    found = {name: fingerprint(own, n_jobs=n_jobs) for name, own in LARGE.items()}
    return found | {name: fingerprint(own, slice(0, 400)) for name, own in SMALL.items()}


@pytest.fixture(scope="module")
def expected():
    return all_fingerprints(1)


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [2, 3, -1])
def test_any_number_of_threads_gives_the_same_bits(n_jobs, expected):
    found = {name: fingerprint(own, n_jobs=n_jobs) for name, own in LARGE.items()}
    assert found == {name: expected[name] for name in LARGE}


@pytest.mark.slow
def test_a_second_run_gives_the_same_bits(expected):
    assert all_fingerprints(2) == expected


@pytest.mark.slow
def test_another_seed_is_seen_by_the_fingerprint(expected):
    assert fingerprint(LARGE["framework"], random_state=4) != expected["framework"]


# Other values of what must not matter: threads of BLAS and OpenMP, the order of sets, the locale.
ENVIRONMENTS = (
    {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "1"},
    {"OPENBLAS_NUM_THREADS": "4", "OMP_NUM_THREADS": "3", "PYTHONHASHSEED": "2", "LC_ALL": "C"},
)


@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=["one thread", "many threads"])
def test_another_process_gives_the_same_bits(environment, expected):
    script = "import json, test_determinism as t; print(json.dumps(t.all_fingerprints(2)))"
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | environment, cwd=Path(__file__).parent,
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected
