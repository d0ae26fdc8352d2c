import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import LinearConstraint, milp
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from fairanchor import AnchorFairClustering, FairletClustering
from fairanchor.cluster._fairlets import swap_medoids
from fairanchor.exceptions import FairnessWarning
from tiers import first_is_fast

METHODS = ["flow", "tree"]
OBJECTIVES = ["kcenter", "kmedian"]


def random_groups(rng, n_rows, n_groups):
    """Groups of different sizes, each with at least one row."""
    shares = rng.dirichlet(np.full(n_groups, 2.0))
    rest = rng.choice(n_groups, p=shares, size=n_rows - n_groups)
    return rng.permutation(np.concatenate([np.arange(n_groups), rest]))


def count_rows(labels, group):
    names, columns = np.unique(group, return_inverse=True)
    table = np.zeros((labels.max() + 1, len(names)), dtype=int)
    np.add.at(table, (labels, columns), 1)
    return table


def balance_in_rows(labels, group):
    table = count_rows(labels, group)
    return (table.min(axis=1) / table.max(axis=1)).min()


def clustered_data(rng, n_rows, n_features=2):
    """Eight blobs; half of them have few rows of the smaller group."""
    blob = rng.integers(0, 8, n_rows)
    X = 5 * rng.normal(size=(8, n_features))[blob] + rng.normal(size=(n_rows, n_features))
    return X, rng.uniform(size=n_rows) < np.where(blob < 4, 0.15, 0.5)


# The exact split.


def set_partitions(rows):
    if not rows:
        yield []
        return
    for rest in set_partitions(rows[1:]):
        yield [[rows[0]], *rest]
        for position in range(len(rest)):
            yield [*rest[:position], [rows[0], *rest[position]], *rest[position + 1 :]]


def star_costs(X, group, fairlet, ratio):
    """Distances to the best hub: the only row of its group, with at most ``ratio`` others."""
    costs = []
    for hub in fairlet:
        others = [row for row in fairlet if row != hub]
        if 1 <= len(others) <= ratio and all(group[row] != group[hub] for row in others):
            costs.append(np.linalg.norm(X[others] - X[hub], axis=1))
    return min(costs, key=np.sum, default=None)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", first_is_fast(range(10)))
def test_flow_has_the_least_cost_of_all_star_decompositions(seed, objective):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 8))
    group = random_groups(rng, n, 2)
    X = rng.normal(size=(n, 2)) + 3.0 * rng.integers(0, 2, (n, 1))
    sizes = np.bincount(group)
    ratio = int(-(-sizes.max() // sizes.min())) + seed % 2

    model = FairletClustering(1, objective=objective, max_ratio=ratio, random_state=0)
    cost = model.fit(X, sensitive_features=group).decomposition_cost_

    summary = np.max if objective == "kcenter" else np.sum
    best = np.inf
    for fairlets in set_partitions(list(range(n))):
        costs = [star_costs(X, group, fairlet, ratio) for fairlet in fairlets]
        if all(star is not None for star in costs):
            best = min(best, summary(np.concatenate(costs)))
    assert_allclose(cost, best, rtol=1e-12)


def test_hubs_of_flow_are_of_either_group():
    X = np.array([0, 0.1, 10, 0.05, 10.1, 10.2, 10.3])[:, None]
    model = FairletClustering(2, objective="kmedian", max_ratio=3, random_state=0)
    model.fit(X, sensitive_features=[*"rrrbbbb"])
    # Around rows of the smaller group only, the least sum is 10.55.
    assert_allclose(model.decomposition_cost_, 0.7)
    assert_array_equal(model.fairlets_, [0, 0, 1, 0, 1, 1, 1])


@pytest.mark.parametrize("seed", first_is_fast(range(6)))
def test_flow_for_p_and_q_is_the_optimum_of_the_integer_program(seed):
    rng = np.random.default_rng(seed)
    least, most = [(2, 3), (3, 5), (1, 2)][seed % 3]
    n_first = int(rng.integers(8, 14))
    n_second = int(rng.integers(n_first, n_first * most // least + 1))
    X = rng.normal(size=(n_first + n_second, 2))
    group = np.repeat([0, 1], [n_first, n_second])
    model = FairletClustering(1, objective="kmedian", max_ratio=(most, least), random_state=0)
    model.fit(X, sensitive_features=group)

    distance = cdist(X[:n_first], X[n_first:])
    loads = np.vstack(
        [np.kron(np.eye(n_first), np.ones(n_second)), np.tile(np.eye(n_second), n_first)]
    )
    program = milp(
        distance.ravel(), integrality=np.ones(distance.size),
        constraints=LinearConstraint(loads, least, most),
    )  # fmt: skip
    assert_allclose(model.decomposition_cost_, program.fun / least, rtol=1e-9)
    assert model.max_ratio_ == most / least


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_flow_is_exact_in_every_unit_of_the_features(scale):
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(100, 3)), rng.uniform(size=100) < 0.3
    model = FairletClustering(4, objective="kmedian", random_state=0)
    cost = model.fit(X, sensitive_features=group).decomposition_cost_
    scaled = model.fit(scale * X, sensitive_features=group).decomposition_cost_
    assert_allclose(scaled, scale * cost, rtol=1e-9)


# All splits.


@given(
    seed=st.integers(0, 10**6),
    n_groups=st.integers(1, 4),
    method=st.sampled_from(METHODS),
    objective=st.sampled_from(OBJECTIVES),
    slack=st.sampled_from([None, 0, 2]),
)
def test_balance_in_rows_is_never_below_what_is_promised(
    seed, n_groups, method, objective, slack
):  # fmt: skip
    rng = np.random.default_rng(seed)
    n = int(rng.integers(n_groups, 40))
    group = random_groups(rng, n, n_groups)
    X = rng.integers(0, 4, (n, 2)) if seed % 2 else rng.normal(size=(n, int(rng.integers(1, 6))))
    sizes = np.bincount(group)
    needed = -(-sizes.max() // sizes.min())
    ratio = "auto" if slack is None else int(needed + slack)
    n_clusters = max(1, min(3, n // (2 * n_groups * int(needed + (slack or 0)))))

    model = FairletClustering(
        n_clusters, method=method, objective=objective, max_ratio=ratio, random_state=seed
    ).fit(X, sensitive_features=group)

    assert model.max_ratio_ == (needed if slack is None or n_groups == 1 else ratio)
    in_fairlets = count_rows(model.fairlets_, group)
    assert in_fairlets.min() >= 1
    assert in_fairlets.max() <= model.max_ratio_
    assert_array_equal(model.fairlets_[model.fairlet_centers_], np.arange(len(in_fairlets)))
    assert_array_equal(np.unique(model.labels_), np.arange(n_clusters))
    assert balance_in_rows(model.labels_, group) >= 1 / model.max_ratio_
    assert model.balance_ == balance_in_rows(model.labels_, group)
    # Clusters are unions of fairlets.
    assert_array_equal(model.labels_, model.labels_[model.fairlet_centers_][model.fairlets_])


@given(
    seed=st.integers(0, 10**6),
    method=st.sampled_from(METHODS),
    objective=st.sampled_from(OBJECTIVES),
    ratio=st.sampled_from([(2, 3), (3, 4), (3, 5), (5, 2), (2, 4), (1, 1)]),
)
def test_every_fairlet_has_the_balance_p_over_q(seed, method, objective, ratio):
    rng = np.random.default_rng(seed)
    least, most = sorted(ratio)
    n_first = int(rng.integers(1, 20))
    n_second = int(rng.integers(n_first, n_first * most // least + 1))
    X = rng.normal(size=(n_first + n_second, 2))
    X = np.round(X) if seed % 2 else X
    group = rng.permutation(np.repeat([0, 1], [n_first, n_second]))
    model = FairletClustering(
        1, method=method, objective=objective, max_ratio=ratio, random_state=seed
    ).fit(X, sensitive_features=group)
    table = count_rows(model.fairlets_, group)
    assert (most * table.min(axis=1) >= least * table.max(axis=1)).all()
    assert model.max_ratio_ == most / least
    assert model.decomposition_cost_ >= 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_equal_rows_are_split(method, objective):
    model = FairletClustering(2, method=method, objective=objective, random_state=0)
    model.fit(np.ones((15, 2)), sensitive_features=np.arange(15) % 3 == 0)
    assert model.decomposition_cost_ == 0
    assert balance_in_rows(model.labels_, np.arange(15) % 3 == 0) >= 0.5


@pytest.mark.parametrize("method", METHODS)
def test_groups_too_small_for_every_cluster_join_the_others(method):
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat([*"abcde"], [200, 60, 30, 3, 1]))
    X = rng.normal(size=(len(group), 2))
    model = FairletClustering(4, method=method, random_state=0)
    with pytest.warns(FairnessWarning, match=r"2 of 5 groups .*'e', has 1"):
        model.fit(X, sensitive_features=group)
    large = np.isin(group, [*"abc"])
    assert len(model.fairlet_centers_) == 30
    assert model.max_ratio_ == 7
    assert balance_in_rows(model.labels_[large], group[large]) >= 1 / 7
    # Each other row is in the fairlet of its nearest row.
    inside = np.flatnonzero(large)
    nearest = inside[cdist(X[~large], X[inside]).argmin(axis=1)]
    assert_array_equal(model.fairlets_[~large], model.fairlets_[nearest])


def test_a_framework_with_five_very_unequal_groups_has_four_clusters():
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat([*"abcde"], [900, 300, 40, 8, 5]))
    X = rng.normal(size=(len(group), 3))
    model = AnchorFairClustering(4, clusterer="fairlets", n_anchors=60, random_state=0)
    model.fit(X, sensitive_features=group)
    assert (model.counts_.sum(axis=1) > 0).all()


def test_only_rows_of_the_smaller_group_are_hubs_when_there_are_too_few_fairlets():
    X = np.array([0, 0.1, 10, 0.05, 10.1, 10.2, 10.3])[:, None]
    model = FairletClustering(3, objective="kmedian", max_ratio=3, random_state=0)
    with pytest.warns(FairnessWarning, match="2 of them, fewer than n_clusters=3"):
        model.fit(X, sensitive_features=[*"rrrbbbb"])
    assert_allclose(model.decomposition_cost_, 10.55)
    assert len(model.fairlet_centers_) == 3


@pytest.mark.parametrize("method", METHODS)
def test_more_than_two_groups_have_even_loads_around_every_row_of_the_smallest(method):
    rng = np.random.default_rng(0)
    group = rng.permutation(np.repeat([0, 1, 2, 3], [50, 33, 20, 8]))
    X = rng.normal(size=(len(group), 3))
    model = FairletClustering(2, method=method, random_state=0).fit(X, sensitive_features=group)
    table = count_rows(model.fairlets_, group)
    assert len(table) == 8
    assert_array_equal(table.min(axis=0), [6, 4, 2, 1])
    assert_array_equal(table.max(axis=0), [7, 5, 3, 1])


def spread(X, fairlets):
    """Sum of the distances of rows to the means of their fairlets."""
    means = np.array([X[fairlets == f].mean(axis=0) for f in range(fairlets.max() + 1)])
    return np.linalg.norm(X - means[fairlets], axis=1).sum()


@pytest.mark.parametrize("n_groups", [2, 3])
def test_tree_is_cheaper_than_chance_and_dearer_than_flow_on_clustered_data(n_groups):
    costs = {"flow": [], "tree": []}
    spreads = {"tree": [], "chance": []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, group = clustered_data(rng, 300)
        group = group + (n_groups == 3) * (rng.uniform(size=300) < 0.3)
        for method, own in costs.items():
            model = FairletClustering(2, method=method, objective="kmedian", random_state=seed)
            own.append(model.fit(X, sensitive_features=group).decomposition_cost_)
        spreads["tree"].append(spread(X, model.fairlets_))
        # The same with every row at the place of another.
        model.fit(rng.permutation(X), sensitive_features=group)
        spreads["chance"].append(spread(X, model.fairlets_))
    assert np.mean(costs["flow"]) < np.mean(costs["tree"])
    assert np.mean(spreads["tree"]) < 0.85 * np.mean(spreads["chance"])


def test_tree_splits_every_blob_within_itself_when_all_blobs_are_balanced():
    rng = np.random.default_rng(0)
    blob = np.repeat(np.arange(5), 40)
    # Corners of cells of the same size: whatever the shift, blobs are far from each other.
    X = 100.0 * rng.permutation(np.eye(5))[blob] + 0.01 * rng.uniform(size=(200, 5))
    group = np.tile([0, 0, 1, 0], 50)
    model = FairletClustering(5, method="tree", random_state=0).fit(X, sensitive_features=group)
    assert_array_equal(blob[model.fairlet_centers_[model.fairlets_]], blob)


def test_tree_handles_many_rows_and_extreme_ratios():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, 5))
    group = rng.uniform(size=50_000) < 0.3
    model = FairletClustering(8, method="tree", objective="kmedian", n_init=2, random_state=0)
    model.fit(X, sensitive_features=group)
    assert balance_in_rows(model.labels_, group) >= 1 / 3
    # One fairlet of all rows: no quadratic search for its medoid.
    lonely = np.arange(50_000) == 7
    assert len(model.set_params(n_clusters=1).fit(X, sensitive_features=lonely).counts_) == 1


# Representatives and their clusters.


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_representatives_are_medoids_of_their_fairlets(objective):
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(60, 3)), np.arange(60) % 4 == 0
    model = FairletClustering(3, objective=objective, random_state=0)
    model.fit(X, sensitive_features=group)
    for fairlet, center in enumerate(model.fairlet_centers_):
        members = np.flatnonzero(model.fairlets_ == fairlet)
        distance = cdist(X[members], X[members])
        score = distance.max(axis=1) if objective == "kcenter" else distance.sum(axis=1)
        assert center == members[np.argmin(score)]


@pytest.mark.parametrize("seed", first_is_fast(range(6)))
def test_no_single_swap_improves_the_medoids(seed):
    rng = np.random.default_rng(seed)
    distance = cdist(*[rng.normal(size=(25, 2))] * 2)
    weights = rng.integers(1, 5, 25).astype(float)
    medoids = rng.choice(25, size=1 + seed % 4, replace=False)

    cost, _, is_final = swap_medoids(distance, weights, medoids, 100)

    assert is_final
    assert_allclose(cost, weights @ distance[:, medoids].min(axis=1), rtol=1e-12)
    for position, candidate in itertools.product(range(len(medoids)), range(25)):
        swapped = medoids.copy()
        swapped[position] = candidate
        assert weights @ distance[:, swapped].min(axis=1) >= cost * (1 - 1e-9)


@pytest.mark.parametrize("seed", first_is_fast(range(5)))
def test_farthest_first_is_within_twice_the_best_radius_with_one_group(seed):
    X = np.random.default_rng(seed).normal(size=(12, 2))
    model = FairletClustering(3, random_state=seed).fit(X, sensitive_features=["a"] * 12)
    distance = cdist(X, X)
    best = min(
        distance[:, list(centers)].min(axis=1).max()
        for centers in itertools.combinations(range(12), 3)
    )
    assert best - 1e-12 <= model.inertia_ <= 2 * best + 1e-12
    assert model.balance_ == 1.0
    assert model.decomposition_cost_ == 0.0


def test_weights_decide_the_center_but_not_the_fairlets():
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(40, 2)), np.arange(40) % 2
    weights = rng.integers(1, 20, 40).astype(float)
    model = FairletClustering(1, objective="kmedian", random_state=0)
    unweighted = model.fit(X, sensitive_features=group).fairlets_
    model.fit(X, sensitive_features=group, sample_weight=weights)
    assert_array_equal(model.fairlets_, unweighted)
    of_fairlet = np.bincount(model.fairlets_, weights=weights)
    representatives = X[model.fairlet_centers_]
    best = np.argmin(of_fairlet @ cdist(representatives, representatives))
    assert_array_equal(model.cluster_centers_, representatives[[best]])
    assert_allclose(model.counts_, [[weights[group == 0].sum(), weights[group == 1].sum()]])
    assert_allclose(model.inertia_, weights @ np.linalg.norm(X - representatives[best], axis=1))


# Habits of an estimator.


def test_unfinished_search_warns():
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = FairletClustering(10, objective="kmedian", max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model.fit(X, sensitive_features=np.arange(300) % 2)


@pytest.mark.parametrize(
    ("params", "group", "match"),
    [
        ({"max_ratio": 1}, [0, 0, 0, 0, 1, 1], r"max_ratio=1 should be >= 2: group 0 has 4"),
        ({"max_ratio": (2, 3)}, [0, 0, 0, 0, 1, 1], r"max_ratio=\(2, 3\) should be >= 2"),
        ({"max_ratio": (2, 3)}, [0, 0, 1, 1, 2, 2], "is for two groups, there are 3"),
        ({"max_ratio": (2, 0)}, [0, 0, 0, 1, 1, 1], "should be a pair of positive integers"),
        ({"max_ratio": 1.5}, [0, 0, 0, 1, 1, 1], "'max_ratio' parameter"),
        ({"max_ratio": 0}, [0, 0, 0, 1, 1, 1], "'max_ratio' parameter"),
        ({"method": "magic"}, [0, 0, 0, 1, 1, 1], "'method' parameter"),
        ({"objective": "kmeans"}, [0, 0, 0, 1, 1, 1], "'objective' parameter"),
    ],
)
def test_bad_input_is_refused_with_numbers(params, group, match):
    model = FairletClustering(**{"n_clusters": 2, **params})
    with pytest.raises(ValueError, match=match):
        model.fit(np.arange(6.0)[:, None], sensitive_features=group)
