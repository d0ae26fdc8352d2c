"""Runs to report on: a fair one with everything known, and one made to do harm."""

import numpy as np
import pytest

from fairanchor import AnchorFairClustering
from fairanchor.audit import GroupCosts, selection_rates
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

COSTS = ("group", "rows", "plain_cost", "fair_cost", "ratio", "changed", "largest_loss")


@pytest.fixture(scope="session")
def fair_run():
    """A run of the framework on 2,000 rows, with everything known."""
    data = make_zafar(2000, variant="original", random_state=0)
    noise = np.random.default_rng(0).normal(size=(2000, 3))
    X = np.column_stack([data.data, noise])
    groups = np.where(data.sensitive_features == 1, "women", "men")
    model = AnchorFairClustering(
        4, clusterer="fair_kmeans", n_anchors=60, graph="reconstruction", random_state=0
    ).fit(X, sensitive_features=groups)
    run = summarise_run(
        model,
        X,
        sensitive_features=groups,
        title="Customer segments",
        feature_names=["income", "age", "=cmd()", "visits", "tenure"],
    )
    run.timings = {"fit": 0.5}
    return run


@pytest.fixture(scope="session")
def hostile_run():
    """A run whose every name is an attack."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, len(HOSTILE)))
    names = np.array(HOSTILE)[np.arange(600) % len(HOSTILE)]
    return RunSummary(
        title=HOSTILE[0],
        labels=rng.integers(0, len(HOSTILE), 600),
        cluster_names=HOSTILE,
        group_codes=rng.integers(0, len(HOSTILE), 600),
        group_names=HOSTILE,
        features=X,
        feature_names=HOSTILE,
        columns=HOSTILE[:1],
        group_costs=GroupCosts(
            [dict.fromkeys(COSTS, 1.0) | {"group": name} for name in HOSTILE], HOSTILE[0], X[:, 0]
        ),
        selection=selection_rates(names, sensitive_features=names, favourable=HOSTILE[:2]),
        favourable=True,
        command=HOSTILE[0],
        warnings=HOSTILE,
        parameters={name: name for name in HOSTILE},
        timings=dict.fromkeys(HOSTILE, 1.0),
        converged=False,
    )
