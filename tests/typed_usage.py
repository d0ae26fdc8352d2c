"""How the library is used in a program with types; read by mypy, not run."""

from pathlib import Path
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

from fairanchor import (
    AnchorFairClustering,
    FairKMeans,
    FairnessTargets,
    fairness_path,
    load_model,
    suggest_tolerance,
)
from fairanchor.metrics import attribute_balance_scores, balance_score


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
