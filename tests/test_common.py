"""scikit-learn's common checks for every public estimator, with one group and with several."""

from inspect import signature

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from every_clusterer import SLOW, clusterers
from fairanchor import (
    AnchorFairClustering,
    DeepFairClustering,
    FairKMeans,
    SociallyFairKMeans,
)

BY_NAME = {"AnchorFairClustering": AnchorFairClustering(n_clusters=3), **clusterers(n_clusters=3)}
FAST = [estimator for name, estimator in BY_NAME.items() if name not in SLOW]
OTHERS = [
    AnchorFairClustering(n_clusters=3, tolerance=0.2),
    FairKMeans(n_clusters=3, tolerance=0.2),
    *(BY_NAME[name] for name in BY_NAME if name in SLOW),
]
PAPER = AnchorFairClustering(n_clusters=3, anchors="fdas", graph="reconstruction")

KINDS = ("dense", "sparse")


def expected_failures(estimator):
    seeded = AnchorFairClustering | FairKMeans | SociallyFairKMeans | DeepFairClustering
    if not isinstance(estimator, seeded):
        return {}
    reason = "the start depends on the rows, as for scikit-learn's KMeans"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in KINDS}


pytestmark = [
    # One group is what the checks are about here; small data make small clusters.
    pytest.mark.filterwarnings("ignore::fairanchor.FairnessWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
]


@parametrize_with_checks(FAST, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([PAPER, *OTHERS], expected_failed_checks=expected_failures)
def test_scikit_learn_checks_of_slow_clusterers_and_variants(estimator, check):
    check(estimator)


def group_of_rows(X):
    """Two groups that depend on the row only, as predictions on subsets need, but on no cluster."""
    try:
        with np.errstate(all="ignore"):
            digits = np.floor(1000 * np.abs(np.asarray(X).sum(axis=1, dtype=float)))
    except (TypeError, ValueError, np.exceptions.AxisError, np.exceptions.ComplexWarning):
        return None
    digits = np.where(np.isfinite(digits), digits, 0)
    return np.where(digits % 2 == 0, "even", "odd") if len(digits) else None


def takes_groups(base, name):
    """Whether there is such a method, and it takes groups or passes keywords on."""
    parameters = signature(getattr(base, name)).parameters if hasattr(base, name) else {}
    return not {"sensitive_features", "fit_params"}.isdisjoint(parameters)


def with_groups(estimator):
    """The estimator, of a class that finds groups for the checks, which pass none."""
    base = type(estimator)

    def with_keyword(name):
        method = getattr(base, name)

        def call(self, X, y=None, **keywords):
            keywords.setdefault("sensitive_features", group_of_rows(X))
            return method(self, X, **keywords)

        return call

    names = [
        "fit",
        "fit_predict",
        "fit_transform",
        "predict",
        "predict_proba",
        "transform",
        "score",
    ]
    methods = {name: with_keyword(name) for name in names if takes_groups(base, name)}
    grouped = type(f"{base.__name__}", (base,), {"__init__": base.__init__, **methods})
    # Pickling looks classes up by their module and name.
    grouped.__qualname__ = grouped.__name__ = f"{base.__name__}WithGroups"
    grouped.__module__ = __name__
    grouped = globals().setdefault(grouped.__name__, grouped)
    parameters = {**estimator.get_params(deep=False)}
    if "unknown_groups" in parameters:
        parameters["unknown_groups"] = "blind"
    return grouped(**parameters)


@pytest.mark.slow
@parametrize_with_checks(
    [with_groups(estimator) for estimator in (*FAST, *OTHERS)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks_with_groups(estimator, check):
    check(estimator)
