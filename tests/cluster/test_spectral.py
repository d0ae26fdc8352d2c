"""FairSpectralClustering against dense linear algebra, and on graphs with known clusters."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg, sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from fairanchor.cluster._spectral import FairLaplacian, FairSpectralClustering
from fairanchor.exceptions import FairnessWarning
from fairanchor.metrics import clustering_accuracy_score
from tiers import first_is_fast

SOLVERS = ["dense", "deflated"]


def block_graph(n_rows, n_blocks, probabilities, seed):
    """Fair stochastic block model: adjacency, clusters, groups (as many as clusters)."""
    rng = np.random.default_rng(seed)
    clusters = np.arange(n_rows) % n_blocks
    groups = (np.arange(n_rows) // n_blocks) % n_blocks
    same_cluster = clusters[:, None] == clusters
    same_group = groups[:, None] == groups
    a, b, c, d = probabilities
    probability = np.where(same_group, np.where(same_cluster, a, b), np.where(same_cluster, c, d))
    upper = np.triu(rng.uniform(size=(n_rows, n_rows)) < probability, 1)
    return (upper + upper.T).astype(float), clusters, groups


def random_graph(seed, n_rows=30, density=0.4):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.uniform(0.1, 1, size=(n_rows, n_rows)), 1)
    upper *= rng.uniform(size=upper.shape) < density
    upper[np.arange(n_rows - 1), np.arange(1, n_rows)] = 0.5  # a path: connected
    return upper + upper.T


def fairness_matrix(groups, weights=None):
    """F of the specification, last group left out, rows times their weight."""
    weights = np.ones(len(groups)) if weights is None else weights
    names = np.unique(groups)[:-1]
    shares = np.array([weights[groups == name].sum() for name in names]) / weights.sum()
    return weights[:, None] * ((groups[:, None] == names) - shares)


def pencil_eigenvalues(W, groups, n_values, *, normalized, weights=None):
    """Oracle: the pencil (ZᵀLZ, ZᵀMZ) in a null-space basis by singular values."""
    weights = np.ones(len(W)) if weights is None else weights
    W = W * np.outer(weights, weights)
    D = np.diag(W.sum(axis=1))
    Z = linalg.null_space(fairness_matrix(groups, weights).T, rcond=1e-12)
    if len(np.unique(groups)) == 1:
        Z = np.eye(len(W))
    metric = D if normalized else np.diag(weights)
    return linalg.eigh(Z.T @ (D - W) @ Z, Z.T @ metric @ Z, eigvals_only=True)[:n_values]


def fit_graph(W, groups, n_clusters, **parameters):
    weights = parameters.pop("sample_weight", None)
    model = FairSpectralClustering(n_clusters, affinity="precomputed", random_state=0, **parameters)
    return model.fit(W, sensitive_features=groups, sample_weight=weights)


def blobs(seed, n_rows=80, n_features=2):
    """Rows, groups with shares near 0.6 and 0.4 in both clusters, clusters."""
    rng = np.random.default_rng(seed)
    clusters = np.arange(n_rows) % 2
    groups = np.where(np.arange(n_rows) // 2 % 5 < 3, "a", "b")
    return rng.normal(size=(n_rows, n_features)) + 4 * clusters[:, None], groups, clusters


# The embedding


@given(
    seed=st.integers(0, 10**6),
    n_groups=st.integers(1, 6),
    normalized=st.booleans(),
    weighted=st.booleans(),
    solver=st.sampled_from(SOLVERS),
)
def test_embedding_solves_the_constrained_problem(seed, n_groups, normalized, weighted, solver):
    rng = np.random.default_rng(seed)
    W = random_graph(seed)
    groups = rng.permutation(np.arange(30) % n_groups)
    weights = rng.uniform(0.2, 5, size=30) if weighted else None
    model = fit_graph(
        W, groups, 4, normalized=normalized, eigen_solver=solver, tol=1e-11, sample_weight=weights
    )
    H, mass = model.embedding_, np.ones(30) if weights is None else weights
    expected = pencil_eigenvalues(W, groups, 4, normalized=normalized, weights=weights)
    weighted_graph = W * np.outer(mass, mass)
    metric = weighted_graph.sum(axis=1) if normalized else mass
    L = np.diag(weighted_graph.sum(axis=1)) - weighted_graph
    assert_allclose(model.eigenvalues_, expected, atol=1e-9)
    assert_allclose(H.T @ (metric[:, None] * H), np.eye(4), atol=1e-10)
    assert_allclose(H.T @ L @ H, np.diag(expected), atol=1e-8)
    if n_groups > 1:
        assert np.abs(fairness_matrix(groups, mass).T @ H).max() < 1e-10


@pytest.mark.parametrize("normalized", [True, False])
def test_fair_eigenvalues_interlace_above_the_unconstrained_ones(normalized):
    W, groups = random_graph(0, 40), np.arange(40) % 4
    fair = fit_graph(W, groups, 10, normalized=normalized).eigenvalues_
    plain = pencil_eigenvalues(W, np.zeros(40), 13, normalized=normalized)
    assert (fair >= plain[:10] - 1e-10).all()
    assert (fair <= plain[3:13] + 1e-10).all()
    assert (fair - plain[:10]).max() > 1e-3


@pytest.mark.parametrize("normalized", [True, False])
def test_lanczos_reaches_the_dense_optimum(normalized):
    W, _, groups = block_graph(600, 3, (0.4, 0.3, 0.2, 0.1), seed=1)
    dense = fit_graph(W, groups, 3, eigen_solver="dense", normalized=normalized)
    other = fit_graph(
        sparse.csr_array(W), groups, 3, eigen_solver="deflated", normalized=normalized, tol=1e-10
    )
    scale = dense.eigenvalues_.max()
    assert_allclose(other.eigenvalues_, dense.eigenvalues_, atol=1e-10 * max(1, scale))
    root = np.sqrt(W.sum(axis=1) if normalized else np.ones(600))[:, None]
    angles = linalg.subspace_angles(root * dense.embedding_, root * other.embedding_)
    assert angles.max() < 1e-7
    assert np.abs(fairness_matrix(groups).T @ other.embedding_).max() < 1e-10
    assert dense.n_iter_ == 1
    assert other.n_iter_ > 1


@pytest.mark.parametrize("normalized", [True, False])
def test_difference_of_convex_functions_reaches_the_dense_optimum(normalized):
    W, _, groups = block_graph(150, 3, (0.9, 0.6, 0.5, 0.1), seed=1)
    dense = fit_graph(W, groups, 3, eigen_solver="dense", normalized=normalized)
    dc = fit_graph(W, groups, 3, eigen_solver="dc", normalized=normalized, tol=1e-8)
    scale = max(1, dense.eigenvalues_.max())
    assert_allclose(dc.eigenvalues_, dense.eigenvalues_, atol=1e-10 * scale)
    root = np.sqrt(W.sum(axis=1) if normalized else np.ones(150))[:, None]
    assert linalg.subspace_angles(root * dense.embedding_, root * dc.embedding_).max() < 1e-5
    assert np.abs(fairness_matrix(groups).T @ dc.embedding_).max() < 1e-10
    assert clustering_accuracy_score(dense.labels_, dc.labels_) == 1


@pytest.mark.parametrize("n_groups", [1, 2, 7, 25])
def test_projector_is_the_one_of_the_fairness_matrix(n_groups):
    W, groups = random_graph(3), np.arange(30) % n_groups
    weights = np.random.default_rng(3).uniform(0.1, 3, size=30)
    problem = FairLaplacian(W, groups, weights)
    C = fairness_matrix(groups, weights) / np.sqrt(W.sum(axis=1))[:, None]
    expected = np.eye(30) - C @ np.linalg.pinv(C)
    assert_allclose(problem.project(np.eye(30)), expected, atol=1e-10)
    assert problem.n_directions == round(np.trace(expected))


@pytest.mark.slow
def test_large_disconnected_graphs_have_as_many_zeros_as_components_less_constraints():
    blocks = [random_graph(seed, 301, density=0.1) for seed in range(7)]
    W = sparse.csr_array(sparse.block_diag(blocks))
    groups = np.random.default_rng(0).integers(2, size=7 * 301)
    model = fit_graph(W, groups, 7)
    assert model.n_iter_ > 1
    assert_allclose(model.eigenvalues_[:6], 0, atol=1e-9)
    dense = fit_graph(W, groups, 7, eigen_solver="dense")
    assert dense.eigenvalues_[6] > 1e-4
    assert_allclose(model.eigenvalues_, dense.eigenvalues_, atol=1e-9)


# Known clusters


@pytest.mark.slow
def test_fair_embedding_recovers_clusters_where_the_plain_one_finds_groups():
    plain, fair = [], []
    for seed in range(3):
        W, clusters, groups = block_graph(1000, 5, (0.4, 0.3, 0.2, 0.1), seed)
        fair.append(1 - clustering_accuracy_score(clusters, fit_graph(W, groups, 5).labels_))
        model = fit_graph(W, np.zeros(1000), 5)
        plain.append(1 - clustering_accuracy_score(clusters, model.labels_))
        assert adjusted_rand_score(groups, model.labels_) > 0.9
    assert 0.7 < np.mean(plain) < 0.85
    assert np.mean(fair) < 0.1


def test_a_tenth_of_wrong_groups_does_not_spoil_the_clusters():
    W, clusters, groups = block_graph(1000, 5, (0.4, 0.3, 0.2, 0.1), seed=0)
    rng = np.random.default_rng(0)
    flipped = np.where(rng.uniform(size=1000) < 0.1, rng.integers(5, size=1000), groups)
    assert clustering_accuracy_score(clusters, fit_graph(W, flipped, 5).labels_) > 0.85


@pytest.mark.parametrize("affinity", ["auto", "rbf", "knn"])
@pytest.mark.parametrize("n_rows", [30, 400])
def test_separate_blobs_are_found_from_features(affinity, n_rows):
    X, groups, clusters = blobs(5, n_rows)
    model = FairSpectralClustering(2, affinity=affinity, random_state=0)
    model.fit(8 * clusters[:, None] + X, sensitive_features=groups)
    assert clustering_accuracy_score(clusters, model.labels_) == 1


def test_large_tables_take_the_sparse_path():
    X, groups, clusters = blobs(6, 2500)
    model = FairSpectralClustering(2, random_state=0).fit(X, sensitive_features=groups)
    assert model.n_iter_ > 1
    assert clustering_accuracy_score(clusters, model.labels_) > 0.97
    assert np.abs(fairness_matrix(groups).T @ model.embedding_).max() < 1e-9


# Weights


@pytest.mark.parametrize("normalized", [True, False])
def test_integer_weights_give_the_embedding_of_repeated_rows(normalized):
    X, groups, _ = blobs(7, 24)
    repeats = np.arange(24) % 4 + 1
    copies = np.repeat(np.arange(24), repeats)
    # The ratio cut's third eigenvector would tell copies of one row apart.
    model = FairSpectralClustering(3 if normalized else 2, normalized=normalized, random_state=0)
    weighted = model.fit(X, sensitive_features=groups, sample_weight=repeats)
    eigenvalues, H = weighted.eigenvalues_, weighted.embedding_
    repeated = model.fit(X[copies], sensitive_features=groups[copies])
    assert_allclose(eigenvalues, repeated.eigenvalues_, atol=1e-10)
    assert_allclose(np.abs(H[copies]), np.abs(repeated.embedding_), atol=1e-8)


def test_weights_of_a_precomputed_graph_use_its_diagonal():
    W, groups = random_graph(8, 20, 0.8) + 0.7 * np.eye(20), np.arange(20) % 3
    repeats = np.arange(20) % 3 + 1
    copies = np.repeat(np.arange(20), repeats)
    weighted = fit_graph(W, groups, 3, sample_weight=repeats.astype(float))
    repeated = fit_graph(W[np.ix_(copies, copies)], groups[copies], 3)
    assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, atol=1e-10)
    assert_allclose(np.abs(weighted.embedding_[copies]), np.abs(repeated.embedding_), atol=1e-8)


def test_rows_of_weight_zero_follow_the_most_similar_row_of_a_graph():
    W, groups = random_graph(10, 40), np.arange(40) % 2
    weights = np.where(np.arange(40) % 5 == 0, 0.0, 2.0)
    kept = weights > 0
    alone = fit_graph(W[np.ix_(kept, kept)], groups[kept], 2, sample_weight=weights[kept])
    for convert in (np.asarray, sparse.csr_array):
        model = fit_graph(convert(W), groups, 2, sample_weight=weights)
        assert_allclose(model.eigenvalues_, alone.eigenvalues_, atol=1e-12)
        assert_array_equal(model.labels_[kept], alone.labels_)
        most_similar = W[:, kept].argmax(axis=1)
        assert_array_equal(model.labels_[~kept], alone.labels_[most_similar[~kept]])


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_tiny_and_huge_affinities_stay_in_range(scale):
    W, groups = random_graph(11), np.arange(30) % 2
    expected = fit_graph(W, groups, 3)
    scaled = fit_graph(W * scale, groups, 3)
    assert_array_equal(scaled.labels_, expected.labels_)
    assert_allclose(scaled.embedding_ * np.sqrt(scale), expected.embedding_, rtol=1e-6)
    values = fit_graph(W * scale, groups, 3, normalized=False).eigenvalues_
    assert_allclose(
        values / scale, fit_graph(W, groups, 3, normalized=False).eigenvalues_, atol=1e-9
    )


# Invariances


def test_order_of_the_rows_does_not_matter():
    X, groups, _ = blobs(14)
    order = np.random.default_rng(0).permutation(80)
    model = FairSpectralClustering(2, random_state=0)
    labels = model.fit_predict(X, sensitive_features=groups)
    permuted = model.fit_predict(X[order], sensitive_features=groups[order])
    assert adjusted_rand_score(labels[order], permuted) == 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_sparse_and_dense_graphs_agree(solver):
    W, groups = random_graph(15, 60), np.arange(60) % 3
    dense = fit_graph(W, groups, 3, eigen_solver=solver, tol=1e-11)
    csr = fit_graph(sparse.csr_matrix(W), groups, 3, eigen_solver=solver, tol=1e-11)
    assert_allclose(csr.embedding_, dense.embedding_, atol=1e-8)


# Small and degenerate input


@pytest.mark.filterwarnings("ignore::fairanchor.exceptions.FairnessWarning")
@pytest.mark.filterwarnings("ignore:k-means found:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_rows", [2, 3, 4, 5, 12])
@pytest.mark.parametrize("n_groups", [1, 2, 4])
@pytest.mark.parametrize("solver", first_is_fast(SOLVERS))
def test_few_anchors_give_exactly_k_clusters(n_rows, n_groups, solver):
    X, groups = np.random.default_rng(n_rows).normal(size=(n_rows, 3)), np.arange(n_rows) % n_groups
    for n_clusters in range(1, n_rows + 1):
        model = FairSpectralClustering(n_clusters, eigen_solver=solver, random_state=0)
        model.fit(X, sensitive_features=groups)
        assert_array_equal(np.unique(model.labels_), np.arange(n_clusters))


def test_one_row_groups_and_one_row_are_accepted():
    X, _, _ = blobs(17, 40)
    groups = np.where(np.arange(40) < 3, np.arange(40), 99)
    with pytest.warns(FairnessWarning, match="3 of 4 groups have fewer rows than n_clusters=3"):
        model = FairSpectralClustering(3, random_state=0).fit(X, sensitive_features=groups)
    assert model.counts_.shape == (3, 4)
    single = FairSpectralClustering(1).fit([[3.0]], sensitive_features=["a"])
    assert_array_equal(single.labels_, [0])


def test_more_components_than_clusters_warn():
    W = linalg.block_diag(*[random_graph(seed, 6, 1.0) for seed in range(5)])
    with pytest.warns(UserWarning, match="5 components, more than n_clusters=3"):
        fit_graph(W, np.arange(30) % 2, 3)


def test_components_are_the_clusters_of_a_disconnected_graph():
    W = linalg.block_diag(*[random_graph(seed, 12, 1.0) for seed in range(3)])
    labels = fit_graph(W, np.arange(36) % 2, 3).labels_
    assert adjusted_rand_score(np.repeat(np.arange(3), 12), labels) == 1


def test_too_few_fair_directions_are_an_embedding_of_fewer_columns():
    with pytest.warns(FairnessWarning, match="3 of 3 groups have fewer rows than n_clusters=3"):
        model = FairSpectralClustering(3, random_state=0).fit(
            [[0.0], [1.0], [5.0], [6.5]], sensitive_features=[0, 1, 2, 0]
        )
    assert model.embedding_.shape == (4, 2)
    assert len(np.unique(model.labels_)) == 3


def test_one_cluster_per_row_warns():
    with pytest.warns(FairnessWarning, match="2 of 2 groups have fewer rows than n_clusters=3"):
        model = FairSpectralClustering(3).fit([[0], [1], [2]], sensitive_features=[0, 1, 0])
    assert_array_equal(model.labels_, [0, 1, 2])
    assert model.balance_ == 0


@pytest.mark.parametrize("solver", ["deflated", "dc"])
def test_a_solver_that_stops_early_warns(solver):
    W, _, groups = block_graph(400, 2, (0.4, 0.3, 0.2, 0.1), seed=0)
    with pytest.warns(ConvergenceWarning, match="relative residual .* increase max_iter or tol"):
        model = fit_graph(W, groups, 6, eigen_solver=solver, max_iter=1, tol=1e-12)
    assert np.abs(fairness_matrix(groups).T @ model.embedding_).max() < 1e-10


GOOD = random_graph(19, 10)
HALVES = np.arange(10) % 2

BAD_INPUT = [
    (GOOD[:, :9], {}, {}, r"shape \(10, 9\), expected a square"),
    (GOOD + np.triu(GOOD), {}, {}, "not symmetric"),
    (GOOD - 1, {}, {}, "Negative values in data"),
    (
        np.diag(np.eye(10)[3]),
        {},
        {},
        "9 of 10 rows are .* first is row 0",
    ),
    (sparse.csr_array((10, 10)), {}, {}, "10 of 10 rows are similar to no other row"),
    (GOOD * np.nan, {}, {}, "NaN"),
    (GOOD, {}, {"sample_weight": (np.arange(10) == 0) * 1.0}, "positive for 1 rows, fewer than"),
    (GOOD, {"affinity": "cosine"}, {}, "'affinity' parameter"),
    (GOOD, {"eigen_solver": "amg"}, {}, "'eigen_solver' parameter"),
    (GOOD, {"affinity": "rbf", "bandwidth": 0.0}, {}, "'bandwidth' parameter"),
    (
        GOOD,
        {"affinity": "rbf", "bandwidth": 1e-9},
        {},
        "similar to no other row .* increase the bandwidth",
    ),
    (sparse.csr_array(GOOD), {"affinity": "knn"}, {}, "[Ss]parse data"),
]


@pytest.mark.parametrize(("X", "parameters", "arguments", "message"), BAD_INPUT)
def test_bad_input_is_refused_with_its_values(X, parameters, arguments, message):
    model = FairSpectralClustering(**{"n_clusters": 2, "affinity": "precomputed"} | parameters)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, **{"sensitive_features": HALVES} | arguments)


def test_without_groups_it_is_spectral_clustering_and_warns():
    W = random_graph(20)
    with pytest.warns(FairnessWarning, match="sensitive_features is None"):
        model = FairSpectralClustering(3, affinity="precomputed", random_state=0).fit(W)
    expected = pencil_eigenvalues(W, np.zeros(30), 3, normalized=True)
    assert_allclose(model.eigenvalues_, expected, atol=1e-10)


def test_only_a_precomputed_affinity_is_pairwise():
    for affinity, pairwise in [("precomputed", True), ("rbf", False)]:
        tags = FairSpectralClustering(affinity=affinity).__sklearn_tags__().input_tags
        assert tags.pairwise is pairwise
        assert tags.sparse is pairwise


def test_input_is_not_changed():
    W, weights = sparse.csr_array(random_graph(21)), np.linspace(0.5, 3, 30)
    before, weights_before = W.copy(), weights.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_graph(W, np.arange(30) % 2, 3, sample_weight=weights)
    assert abs(W - before).max() == 0
    assert_array_equal(weights, weights_before)
