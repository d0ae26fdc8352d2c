"""The framework with a tolerance, bounds, and several attributes each by itself."""

import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering

from fairanchor import (
    AnchorFairClustering,
    FairKMeans,
    FairnessTargets,
    FairnessWarning,
    ReconstructionGraph,
    datasets,
)
from fairanchor.cluster._large_scale import LargeScaleClusterer
from fairanchor.constraints._bounds import proportional_rule
from fairanchor.graph import AnchorGraphProblem
from fairanchor.graph._reconstruction import nearest_targets
from fairanchor.metrics import attribute_relative_balance_scores, worst_violation
from fairanchor.rows import MemoryRows
from tiers import first_is_fast

TOLERANCES = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)
GRAPHS = ("local", "reconstruction")


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 900
    sex = rng.choice(["f", "m"], size=n, p=[0.4, 0.6])
    race = rng.choice(["a", "b", "c"], size=n, p=[0.6, 0.25, 0.15])
    X = rng.normal(size=(n, 3))
    X[:, 0] += 1.5 * (sex == "m")
    X[:, 1] += 1.5 * (race == "a")
    return X, pd.DataFrame({"sex": sex, "race": race})


def fit(people, column="race", n_clusters=3, **settings):
    X, frame = people
    groups = frame if column is None else frame[column]
    settings = {"clusterer": "fair_kmeans", "n_anchors": 60, "random_state": 0} | settings
    return AnchorFairClustering(n_clusters, **settings).fit(X, sensitive_features=groups)


def shares_of(model):
    return model.counts_ / model.counts_.sum(axis=1, keepdims=True)


# Tolerance


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("tolerance", first_is_fast(TOLERANCES))
def test_shares_are_within_the_tolerance(people, tolerance, graph):
    X, frame = people
    model = fit(people, tolerance=tolerance, graph=graph)
    found = worst_violation(model.labels_, sensitive_features=frame["race"], targets=tolerance)
    assert found < 1.0
    if tolerance > 0.0:
        assert found == 0.0
        assert_allclose(model.worst_violation_, 0.0, atol=1e-9)
        assert_array_equal(model.targets_, model.counts_)
        assert model.assignment_gap_ >= -1e-9
    labels = model.predict(X, sensitive_features=frame["race"])
    assert np.mean(labels == model.labels_) > 0.99


@pytest.mark.parametrize("graph", first_is_fast(GRAPHS))
def test_tolerance_one_leaves_rows_where_they_fit_best(people, graph):
    X, frame = people
    model = fit(people, tolerance=1.0, graph=graph)
    assert_array_equal(model.assignment_prices_, 0.0)
    soft_labels = model.predict_proba(X, sensitive_features=frame["race"])
    assert_array_equal(model.labels_, soft_labels.argmax(axis=1))
    if graph == "local":
        distances = ((X[:, None] - model.anchors_) ** 2).sum(axis=2)
        assert_array_equal(model.labels_, model.anchor_labels_[distances.argmin(axis=1)])
    else:
        assert_array_equal(model.multipliers_, 0.0)


def test_the_cost_of_the_graph_does_not_rise_with_the_tolerance(people):
    """The squared distances to the nearest anchors of the rows' clusters, for one start."""
    X = people[0]
    costs = []
    for tolerance in (0.0, 0.1, 0.3, 1.0):
        model = fit(people, tolerance=tolerance, min_cluster_size=1)
        distances = ((X[:, None] - model.anchors_) ** 2).sum(axis=2)
        other = model.anchor_labels_ != model.labels_[:, None]
        costs.append(np.where(other, np.inf, distances).min(axis=1).sum())
    assert (np.diff(costs) < 0).all()


def test_equal_weights_and_units_of_the_features_change_nothing(people):
    X, frame = people
    expected = fit(people, tolerance=0.1)
    model = fit((X * 2.0**30, frame), tolerance=0.1)
    assert_array_equal(model.labels_, expected.labels_)
    assert_allclose(model.assignment_gap_, expected.assignment_gap_ * 2.0**60, rtol=1e-6)
    model.fit(X, sensitive_features=frame["race"], sample_weight=np.full(len(X), 0.5))
    assert_array_equal(model.labels_, expected.labels_)
    assert_allclose(model.counts_, 0.5 * expected.counts_)
    assert_allclose(model.assignment_gap_, 0.5 * expected.assignment_gap_, rtol=1e-6)


def test_unequal_weights_are_within_the_tolerance_up_to_a_few_rows(people):
    X, frame = people
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=len(X))
    model = AnchorFairClustering(3, clusterer="fair_kmeans", tolerance=0.1, random_state=0)
    model.fit(X, sensitive_features=frame["race"], sample_weight=weights)
    assert model.worst_violation_ <= 2 * weights.max()
    found = worst_violation(
        model.labels_, sensitive_features=frame["race"], targets=0.1, sample_weight=weights
    )
    assert_allclose(model.worst_violation_, found, atol=1e-9)


@pytest.mark.parametrize("fairness", ["anchors", "anchors_sized", "table"])
@pytest.mark.parametrize("graph", first_is_fast(GRAPHS))
def test_a_tolerance_is_around_the_shares_of_any_target(people, fairness, graph):
    _, frame = people
    if fairness == "table":
        sizes = frame["race"].value_counts().sort_index().to_numpy()
        fairness = np.outer([0.5, 0.3, 0.2], sizes).astype(float)
        fairness[0, 0] += 30
        fairness[1, 0] -= 30
    exact = fit(people, fairness=fairness, graph=graph)
    assert exact.worst_violation_ < 1.0
    wanted = exact.targets_ / exact.targets_.sum(axis=1, keepdims=True)
    model = fit(people, fairness=fairness, tolerance=0.2, graph=graph)
    assert model.worst_violation_ == 0.0
    assert (shares_of(model) >= 0.8 * wanted - 1e-9).all()
    assert (shares_of(model) <= wanted / 0.8 + 1e-9).all()


# Targets from the anchors, with sizes from the data


@pytest.mark.parametrize("graph", GRAPHS)
def test_anchors_sized_keeps_odds_ratios_and_both_margins(people, graph):
    _, frame = people
    model = fit(people, fairness="anchors_sized", graph=graph, anchors="fdas")
    assert model.worst_violation_ < 1.0
    groups = frame["race"].to_numpy()
    anchors = pd.crosstab(model.anchor_labels_, groups[model.anchor_indices_]).to_numpy() + 0.5
    targets = model.targets_
    assert_allclose(targets.sum(axis=0), pd.Series(groups).value_counts().sort_index())
    masses = np.bincount(model.anchor_labels_, weights=model.anchor_masses_)
    assert_allclose(targets.sum(axis=1), masses, atol=1.0)

    def odds(table):
        return table[:1, :1] * table[1:, 1:] / (table[:1, 1:] * table[1:, :1])

    assert_allclose(odds(targets), odds(anchors), rtol=1e-6)


# Bounds


@pytest.mark.parametrize("graph", first_is_fast(GRAPHS))
def test_limits_on_shares_and_sizes_are_kept(people, graph):
    limits = FairnessTargets(lower={"c": 0.14}, upper={"a": 0.65}, min_size=200, max_size=450)
    model = fit(people, fairness=limits, graph=graph)
    assert model.worst_violation_ == 0.0
    shares, sizes = shares_of(model), model.counts_.sum(axis=1)
    assert model.groups_.tolist() == ["a", "b", "c"]
    assert (shares[:, 2] >= 0.14).all()
    assert (shares[:, 0] <= 0.65).all()
    assert sizes.min() >= 200
    assert sizes.max() <= 450


def test_a_cluster_can_be_closed_to_a_group(people):
    X, frame = people
    upper = np.ones((3, 3))
    upper[1, 2] = 0.0
    model = fit(people, fairness=FairnessTargets(upper=upper))
    assert model.counts_[1, 2] == 0
    new = np.random.default_rng(3).normal(scale=5.0, size=(200, 3))
    labels = model.predict(new, sensitive_features=np.full(200, "c"))
    assert (labels != 1).all()


def test_shares_of_each_cluster_are_met(people):
    _, frame = people
    race = frame["race"].value_counts(normalize=True).sort_index().to_numpy()
    table = np.array([race, race, race])
    table[0] += [0.1, -0.1, 0.0]
    table[1] += [-0.1, 0.1, 0.0]
    model = fit(people, fairness=FairnessTargets(shares=table, tolerance=0.1))
    assert model.worst_violation_ == 0.0
    assert (np.abs(shares_of(model) / table - 1) <= 0.12).all()


def test_targets_of_the_graph_change_it_least(people):
    """Against a random search: no table within the limits is nearer."""
    X, frame = people
    codes = (frame["sex"] == "m").to_numpy().astype(np.int64)
    rows = MemoryRows(X, codes, 2)
    problem = AnchorGraphProblem(X[:12], (X[:12, 0] > 0.5).astype(int), 2, 1.0)
    free = nearest_targets(proportional_rule(rows.group_sizes, 2, 1.0), problem, rows)
    rule = proportional_rule(rows.group_sizes, 2, 0.05)
    assert max(rule.violations(free)) > 0.0
    targets = nearest_targets(rule, problem, rows)
    assert max(rule.violations(targets)) <= 1e-6
    assert_allclose(targets.sum(axis=0), rows.group_sizes)
    distance = np.abs(targets - free).sum()
    first = rows.group_sizes * np.random.default_rng(0).uniform(size=(20_000, 2))
    tables = np.stack([first, rows.group_sizes - first], axis=1)
    inside = [table for table in tables if max(rule.violations(table)) == 0.0]
    assert len(inside) > 50
    assert min(np.abs(table - free).sum() for table in inside) >= distance - 1e-6


# Several attributes


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("tolerance", first_is_fast([0.0, 0.1], 2))
def test_each_attribute_is_mirrored_by_itself(people, tolerance, graph):
    X, frame = people
    model = fit(people, None, attributes="separate", tolerance=tolerance, graph=graph)
    for title in ("sex", "race"):
        found = worst_violation(model.labels_, sensitive_features=frame[title], targets=tolerance)
        assert found < 1.0
        assert_allclose(model.attribute_violations_[title], found, atol=1e-9)
        expected = pd.crosstab(model.labels_, frame[title]).to_numpy()
        assert_array_equal(model.attribute_counts_[title], expected)
    assert model.worst_violation_ == max(model.attribute_violations_.values())
    labels = model.predict(X, sensitive_features=frame)
    assert np.mean(labels == model.labels_) > 0.99


@pytest.mark.slow
def test_each_attribute_can_have_limits_of_its_own(people):
    limits = [FairnessTargets(tolerance=0.05), FairnessTargets(upper={"a": 0.7}, min_size=100)]
    model = fit(people, None, attributes="separate", fairness=limits)
    assert model.worst_violation_ == 0.0
    race = model.attribute_counts_["race"]
    sizes = race.sum(axis=1)
    assert (race[:, 0] <= 0.7 * sizes).all()
    assert sizes.min() >= 100


@pytest.mark.parametrize("graph", GRAPHS)
def test_unseen_combinations_have_the_prices_of_their_parts(people, graph):
    X, frame = people
    unseen = ((frame["sex"] == "f") & (frame["race"] == "c")).to_numpy()
    model = fit((X[~unseen], frame[~unseen]), None, attributes="separate", graph=graph)
    labels = model.predict(X, sensitive_features=frame)
    assert np.mean(labels[~unseen] == model.labels_) > 0.99
    counts = pd.crosstab(labels, frame["race"])
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / len(X)
    assert (np.abs(counts.to_numpy() / expected - 1) < 0.6).all()
    with pytest.raises(ValueError, match="has not seen"):
        model.predict(X[:2], sensitive_features=frame.iloc[:2].assign(race="d"))


def test_a_single_separate_attribute_is_reported(people):
    _, frame = people
    model = fit(people, ["race"], attributes="separate")
    assert_array_equal(model.attribute_counts_["race"], model.counts_)
    assert model.attribute_violations_ == {"race": model.worst_violation_}
    model.set_params(attributes="intersection").fit(people[0], sensitive_features=frame["race"])
    assert not hasattr(model, "attribute_counts_")


def test_more_attributes_than_can_be_met_are_reported_with_the_least_violation():
    """The seven columns of a Hadamard design: no four of its eight rows halve them all."""
    bits = np.array(list(np.ndindex(2, 2, 2)))
    masks = np.array([mask for mask in np.ndindex(2, 2, 2) if any(mask)])
    columns = bits @ masks.T % 2
    X = np.random.default_rng(0).normal(size=(8, 2))
    limits = [FairnessTargets(min_size=4, max_size=4)] * 7
    model = AnchorFairClustering(
        2,
        clusterer=AgglomerativeClustering(),
        attributes="separate",
        fairness=limits,
        anchors=np.arange(8),
        random_state=0,
    )
    with pytest.warns(FairnessWarning) as caught:
        model.fit(X, sensitive_features=columns)
    assert_array_equal(np.bincount(model.labels_), [4, 4])
    missed = [abs(np.sum(columns[model.labels_ == 0, a]) - 2) for a in range(7)]
    assert list(model.attribute_violations_.values()) == missed
    assert model.worst_violation_ == max(missed) == 1.0
    assert any("1 rows" in str(warning.message) for warning in caught)


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [AnchorFairClustering(5, clusterer="fair_kmeans"), FairKMeans(5)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_sex_and_race_of_the_census_are_both_mirrored_in_seconds(data_dir, estimator):
    sex, race = (
        datasets.load_kdd_census_income(data_dir, sensitive=name) for name in ("sex", "race")
    )
    X = np.asarray(sex.data, dtype=np.float64)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    columns = pd.DataFrame(
        {"sex": np.asarray(sex.sensitive_features), "race": np.asarray(race.sensitive_features)}
    )
    started = time.process_time()
    model = clone(estimator).set_params(attributes="separate", random_state=0)
    model.fit(X, sensitive_features=columns)
    assert time.process_time() - started < 60
    scores = attribute_relative_balance_scores(model.labels_, sensitive_features=columns)
    for title, score in scores.items():
        assert model.attribute_violations_[title] < 1.0
        assert score >= 1 - 2 / model.attribute_counts_[title].min()


def test_bounds_that_can_be_met_are_met_on_large_tables():
    rng = np.random.default_rng(19)
    X, groups = rng.normal(size=(700_000, 2)), rng.choice(3, 700_000, p=[0.5, 0.4, 0.1])
    X[:, 0] += groups == 0
    model = FairKMeans(3, tolerance=0.2, random_state=0).fit(X, sensitive_features=groups)
    assert model.worst_violation_ == 0.0


# Where the rows are


def test_large_tables_in_memory_are_not_cut_into_chunks(people, monkeypatch):
    expected = fit(people, tolerance=0.1)
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", 200)
    assert_array_equal(fit(people, tolerance=0.1).labels_, expected.labels_)


def test_rows_in_chunks_raise_with_what_needs_memory(people, monkeypatch, tmp_path):
    X, frame = people
    table = pa.table({"x": X[:, 0], "y": X[:, 1], "race": frame["race"].tolist()})
    pq.write_table(table, tmp_path / "rows.parquet")
    dataset = ds.dataset(tmp_path)
    model = AnchorFairClustering(3, attributes="separate", random_state=0)
    model.fit(dataset, sensitive_features="race")  # small enough to be read
    assert len(model.labels_) == len(X)
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", 200)
    with pytest.raises(ValueError, match="^attributes=.*900"):
        model.fit(dataset, sensitive_features="race")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tolerance": 1.01}, "'tolerance'.*1.01"),
        ({"tolerance": 0.1, "assignment": "argmax"}, "tolerance=0.1.*'argmax'"),
        ({"tolerance": 0.1, "graph": ReconstructionGraph(solver="admm")}, "tolerance=0.1"),
        ({"tolerance": 0.1, "fairness": "paper"}, "fairness='paper'"),
        ({"tolerance": 0.1, "fairness": FairnessTargets()}, "tolerance=0.1.*FairnessTargets"),
        (
            {"fairness": FairnessTargets(lower={"a": 0.9})},
            r"group 'a'.* misses its lower share 0.9 of cluster \d by [\d.]+ rows",
        ),
        (
            {"fairness": FairnessTargets(min_size=400)},
            r"cluster \d misses its min_size=400",
        ),
        # Of 900 rows three clusters can have 299.5 each, but not in whole rows.
        (
            {"fairness": FairnessTargets(max_size=[299.5, 300.5, 300.0])},
            r"No assignment of 900 rows .* cluster \d misses its max_size=\d+ by 1 rows",
        ),
        ({"fairness": FairnessTargets(shares={"z": 1.0})}, r"names the groups \['z'\]"),
        ({"fairness": [FairnessTargets(), FairnessTargets()]}, "2 FairnessTargets.*1"),
        ({"attributes": "each"}, "'attributes' parameter .* Got 'each'"),
    ],
)
def test_bad_requests_raise_with_what_was_asked(people, settings, message):
    with pytest.raises(ValueError, match=message):
        fit(people, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fairness": "anchors"}, "fairness='anchors'"),
        ({"fairness": [FairnessTargets()]}, "1 FairnessTargets.*2"),
        (
            {"fairness": [FairnessTargets(lower={"f": 0.5}), FairnessTargets()]},
            r"group 'f' of attribute .sex.* misses its lower share 0.5",
        ),
    ],
)
def test_bad_requests_for_several_attributes_raise(people, settings, message):
    with pytest.raises(ValueError, match=message):
        fit(people, None, attributes="separate", **settings)


@pytest.mark.parametrize("graph", first_is_fast(GRAPHS))
@pytest.mark.parametrize(
    "asked",
    [
        {"tolerance": 0.05},
        {"fairness": FairnessTargets(lower={"b": 0.05}, upper={"b": 0.3}, min_size=2_000)},
    ],
    ids=["tolerance", "bounds"],
)
def test_bounds_hold_on_a_table_large_enough_for_samples(asked, graph):
    """Its groups are unequal: a sample that gave them equal weights could not meet any share."""
    rng = np.random.default_rng(0)
    groups = np.where(rng.random(37_000) < 0.1, "b", "a")
    X = rng.normal(size=(len(groups), 3)) + 2.0 * (groups == "b")[:, None] * rng.random(3)
    model = AnchorFairClustering(
        2, clusterer="fair_kmeans", n_anchors=12, graph=graph, random_state=0, **asked
    )
    model.fit(X, sensitive_features=groups)
    assert model.worst_violation_ == 0
    shares = model.counts_[:, 1] / model.counts_.sum(axis=1)
    of_all = np.mean(groups == "b")
    low, high = (0.95 * of_all, of_all / 0.95) if "tolerance" in asked else (0.05, 0.3)
    assert (shares >= low - 1e-12).all()
    assert (shares <= high + 1e-12).all()


# Minimum sizes


@pytest.mark.parametrize("graph", first_is_fast(GRAPHS))
def test_no_cluster_is_smaller_than_the_minimum(people, graph):
    free = fit(people, n_clusters=5, graph=graph)
    least = int(free.counts_.sum(axis=1).min()) + 40
    model = fit(people, n_clusters=5, graph=graph, min_cluster_size=least)
    assert model.counts_.sum(axis=1).min() >= least
    same = fit(people, n_clusters=5, graph=graph, fairness=FairnessTargets(min_size=least))
    assert_array_equal(model.labels_, same.labels_)
    assert model.worst_violation_ < 1
