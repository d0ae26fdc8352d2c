"""How the library is used in a program with types; read by mypy, not run."""

from pathlib import Path
from typing import assert_type

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from fairanchor import (
    AnchorFairClustering,
    FairKMeans,
    FairnessTargets,
    fairness_path,
    load_model,
    suggest_tolerance,
)
from fairanchor.datasets import fetch_adult, make_fair_blobs
from fairanchor.metrics import attribute_balance_scores, balance_score
from fairanchor.plotting import plot_balance, plot_embedding, principal_plane
from fairanchor.report import (
    RunSummary,
    render_report,
    summarise_labels,
    summarise_run,
    write_report,
)


def use(X: NDArray[np.float64], groups: list[str], folder: Path) -> float:
    """Fit, keep, load and measure."""
    model = AnchorFairClustering(5, fairness=FairnessTargets(tolerance=0.1), random_state=0)
    assert_type(model.fit(X, sensitive_features=groups), AnchorFairClustering)
    model.save(folder / "model.npz", force=True)
    labels = load_model(folder / "model.npz").predict(X, sensitive_features=groups)
    assert_type(labels, NDArray[np.int32])
    assert_type(model.converged_, bool)
    scores = attribute_balance_scores(labels, sensitive_features=groups)
    path = fairness_path(X, groups, [0.0, 0.1], n_clusters=5)
    plain = FairKMeans(5, tolerance=suggest_tolerance(path)).fit_predict(X)
    return balance_score(plain, sensitive_features=groups) + sum(scores.values())


def show(folder: Path) -> str:
    """Draw and report."""
    data = make_fair_blobs(500, centers=[[0.0, 0.0], [5.0, 5.0]], random_state=0)
    groups = data.sensitive_features
    model = FairKMeans(data.n_clusters).fit(data.data, sensitive_features=groups)
    ax = plot_embedding(data.data, model.labels_, plane=principal_plane(data.data))
    assert_type(plot_balance(model, ax=ax), Axes)
    run = summarise_run(model, data.data, sensitive_features=groups, plain_labels=None)
    assert_type(summarise_labels([0, 1], sensitive_features=["a", "b"], targets=0.1), RunSummary)
    assert_type(run, RunSummary)
    write_report(folder / "report.html", run, force=True)
    features, _ = fetch_adult(data_home=folder, return_X_y=True)
    return render_report(run) + ", ".join(features.columns)
