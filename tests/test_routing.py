"""Inside scikit-learn's Pipeline and GridSearchCV."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairanchor import AnchorFairClustering, FairKMeans
from fairanchor.datasets import make_zafar
from fairanchor.model_selection import FairCostScorer

DATA = make_zafar(600, variant="original", random_state=0)
X, GROUP = DATA.data * [1.0, 50.0], DATA.sensitive_features


@pytest.mark.parametrize("estimator", [AnchorFairClustering, FairKMeans])
def test_a_pipeline_routes_the_groups(estimator):
    direct = estimator(3, random_state=0)
    scaled = StandardScaler().fit_transform(X)
    direct.fit(scaled, sensitive_features=GROUP)
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), estimator(3, random_state=0))
        pipeline.fit(X, sensitive_features=GROUP)
        assert_array_equal(pipeline[-1].labels_, direct.labels_)
        labels = pipeline.predict(X, sensitive_features=GROUP)
        again = pipeline.fit_predict(X, sensitive_features=GROUP)
    assert_array_equal(labels, direct.predict(scaled, sensitive_features=GROUP))
    assert_array_equal(again, direct.labels_)


def test_a_pipeline_without_routing_takes_the_step_name():
    pipeline = make_pipeline(StandardScaler(), AnchorFairClustering(3, random_state=0))
    pipeline.fit(X, anchorfairclustering__sensitive_features=GROUP)
    assert pipeline[-1].worst_violation_ < 1


def test_a_grid_search_scores_by_cost():
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            AnchorFairClustering(clusterer="fair_kmeans", random_state=0),
            {"n_clusters": [2, 4]},
            cv=2,
            error_score="raise",
        )
        search.fit(X, sensitive_features=GROUP)
    assert search.best_params_ == {"n_clusters": 4}  # more clusters, less cost
    assert np.all(search.cv_results_["mean_test_score"] < 0)


@pytest.mark.parametrize(("scoring", "best"), [(None, 1.0), (FairCostScorer(0.7), 0.0)])
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_a_grid_search_picks_a_fair_model_only_by_the_fair_scorer(scoring, best, in_pipeline):
    estimator, parameter = FairKMeans(2, n_init=2, random_state=0), "tolerance"
    with config_context(enable_metadata_routing=True):
        if in_pipeline:
            estimator = make_pipeline(StandardScaler(), estimator)
            parameter = "fairkmeans__tolerance"
        search = GridSearchCV(
            estimator, {parameter: [0.0, 1.0]}, scoring=scoring, cv=2, error_score="raise"
        )
        search.fit(1e-6 * X, sensitive_features=GROUP)
    assert search.best_params_ == {parameter: best}


def test_a_search_without_routing_is_told_how_the_groups_reach_the_scorer():
    search = GridSearchCV(
        FairKMeans(2, random_state=0),
        {"tolerance": [0.0]},
        cv=2,
        scoring=FairCostScorer(),
        error_score="raise",
    )
    with pytest.raises(ValueError, match="enable_metadata_routing=True"):
        search.fit(X, sensitive_features=GROUP)


def test_the_fair_scorer_is_minus_the_cost_of_balanced_labels():
    fair, free = (FairKMeans(2, tolerance=t, random_state=0) for t in (0.0, 1.0))
    given = {"sensitive_features": GROUP}
    for model in (fair, free):
        model.fit(X, **given)
        assert FairCostScorer(0.0)(model, X, **given) == model.score(X, **given)
    assert FairCostScorer(0.9)(fair, X, **given) == fair.score(X, **given)
    assert free.score(X, **given) > fair.score(X, **given) > FairCostScorer(0.9)(free, X, **given)
    with pytest.raises(ValueError, match="min_relative_balance=2 should be"):
        FairCostScorer(2)
