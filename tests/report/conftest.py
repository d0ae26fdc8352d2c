"""Runs to report on: a fair one with everything known, and one made to do harm."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from fairanchor import AnchorFairClustering
from fairanchor.datasets import make_zafar
from fairanchor.report import RunSummary, summarise_run

HOSTILE = [
    "<script>alert(1)</script>",
    "=cmd()",
    '</style><img src="http://example.com/x" onerror="alert(1)">',
    'a style="}*{opacity:0"',
    "{{ 7 * 7 }}",
    "_hidden",
    "$\\frac{1}$",
    "--><svg onload=alert(1)>",
]


@pytest.fixture(scope="session")
def fair_run():
    """A run of the framework on 2,000 rows, with every panel."""
    data = make_zafar(2000, variant="original", random_state=0)
    noise = np.random.default_rng(0).normal(size=(2000, 3))
    X = np.column_stack([data.data, noise])
    groups = np.where(data.sensitive_features == 1, "women", "men")
    model = AnchorFairClustering(
        4, clusterer="fair_kmeans", n_anchors=60, graph="reconstruction", random_state=0
    ).fit(X, sensitive_features=groups)
    return summarise_run(
        model,
        X,
        sensitive_features=groups,
        title="Customer segments",
        feature_names=["income", "age", "=cmd()", "visits", "tenure"],
        timings={"fit": 0.5},
    )


@pytest.fixture(scope="session")
def hostile_run():
    """A run whose every name is an attack."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, len(HOSTILE)))
    return RunSummary(
        title=HOSTILE[0],
        labels=rng.integers(0, len(HOSTILE), 600),
        cluster_names=HOSTILE,
        group_codes=rng.integers(0, len(HOSTILE), 600),
        group_names=HOSTILE,
        features=X,
        feature_names=HOSTILE,
        plain_labels=KMeans(3, n_init=1, random_state=0).fit_predict(X),
        anchors=X[:20],
        anchor_labels=np.arange(20) % len(HOSTILE),
        history=[{"sweep": 1, "mass_error": 3.0}],
        parameters={name: name for name in HOSTILE},
        timings=dict.fromkeys(HOSTILE, 1.0),
        converged=False,
    )
