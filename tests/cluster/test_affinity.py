"""Graphs over rows: kernels, symmetry, connectedness, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fairanchor.cluster._affinity import (
    WEAKEST_EDGE,
    build_affinity,
    check_affinity,
    heat_kernel_graph,
    neighbour_edges,
    positive_median,
    weigh_graph,
)


def distances(X):
    return np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))


def rows(seed, n_rows=60, n_features=3):
    return np.random.default_rng(seed).normal(size=(n_rows, n_features))


def test_rbf_is_the_kernel_with_the_median_distance():
    X = rows(0, 31)
    distance = distances(X)
    median = np.median(distance[np.triu_indices(31, 1)])  # 465 pairs: an odd number
    expected = np.exp(-(distance**2) / (2 * median**2)) * (1 - np.eye(31))
    assert_allclose(build_affinity(X), expected, atol=1e-12)


def test_a_given_bandwidth_is_in_the_unit_of_the_rows():
    X = 1e-7 * rows(1)
    expected = np.exp(-(distances(X) ** 2) / (2 * 3e-7**2)) * (1 - np.eye(60))
    assert_allclose(build_affinity(X, "rbf", bandwidth=3e-7), expected, atol=1e-9)


def test_knn_has_local_scales_and_the_edges_of_both_directions():
    X = rows(2)
    distance = distances(X)
    order = np.argsort(distance, axis=1)[:, 1:6]
    near = np.zeros((60, 60), dtype=bool)
    near[np.arange(60)[:, None], order] = True
    near |= near.T
    scale = distance[np.arange(60), order[:, -1]]
    expected = np.exp(-(distance**2) / np.outer(scale, scale))
    graph = build_affinity(X, "knn", n_neighbors=5).toarray()
    assert_allclose(graph[near], expected[near], atol=1e-10)
    assert connected_components(near, directed=False)[0] == 1
    assert_array_equal(graph > 0, near)


def test_auto_takes_all_pairs_up_to_200_rows_and_neighbours_above():
    assert not sparse.issparse(build_affinity(rows(3, 200)))
    graph = build_affinity(rows(3, 201))
    assert sparse.issparse(graph)
    assert (graph.count_nonzero(axis=1) >= 10).all()


@given(
    n_rows=st.integers(2, 40),
    n_distinct=st.integers(1, 6),
    affinity=st.sampled_from(["rbf", "knn"]),
    outlier=st.sampled_from([0.0, 1e3, 1e9]),
    seed=st.integers(0, 10**6),
)
def test_graphs_are_symmetric_connected_and_have_a_zero_diagonal(
    n_rows, n_distinct, affinity, outlier, seed
):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_distinct, 2))[rng.integers(n_distinct, size=n_rows)]
    X[0] += outlier
    graph = build_affinity(X, affinity, n_neighbors=3)
    dense = graph.toarray() if sparse.issparse(graph) else graph
    assert_array_equal(dense, dense.T)
    assert_array_equal(np.diag(dense), 0)
    assert dense.min() >= 0
    assert dense.max() <= 1
    assert dense.max(axis=1).min() >= WEAKEST_EDGE
    if affinity == "knn":
        assert connected_components(dense, directed=False)[0] == 1


def test_far_apart_blobs_are_linked():
    X = np.vstack([rows(s, 30) + 1e4 * s for s in range(7)])
    separate = build_affinity(X, "knn", n_neighbors=4, bandwidth=1.0)
    linked = build_affinity(X, "knn", n_neighbors=4)
    assert connected_components(separate, directed=False)[0] >= 7
    assert connected_components(linked, directed=False)[0] == 1


def test_equal_rows_are_at_distance_zero_far_from_the_origin():
    X = np.repeat(rows(4, 50, 30) + 1e6, 4, axis=0)
    _, _, distance = neighbour_edges(X, 3)
    assert_array_equal(distance, 0)


def test_neighbours_come_nearest_first_and_never_include_the_row():
    X = np.repeat(rows(5, 20), 2, axis=0)
    first, second, distance = neighbour_edges(X, 6)
    assert (first != second).all()
    assert (np.diff(distance.reshape(40, 6), axis=1) >= 0).all()
    assert_allclose(distance.reshape(40, 6), np.sort(distances(X), axis=1)[:, 1:7], atol=1e-12)


@pytest.mark.parametrize("scale", [1e-50, 1.0, 1e50])
@pytest.mark.parametrize("affinity", ["rbf", "knn"])
def test_the_scale_of_the_rows_does_not_matter(affinity, scale):
    X = rows(6)
    as_array = np.asarray if affinity == "rbf" else sparse.csr_array.toarray
    expected = as_array(build_affinity(X, affinity))
    assert_allclose(as_array(build_affinity(X * scale, affinity)), expected, rtol=1e-9)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=12))
def test_weighted_median_is_the_median_of_repeated_values(pairs):
    values, repeats = np.array(pairs).T
    repeated = np.sort(np.repeat(values, repeats))
    repeated = repeated[repeated > 0]
    expected = repeated[(len(repeated) - 1) // 2] if len(repeated) else 1.0
    assert positive_median(values.astype(float), repeats.astype(float)) == expected


def test_heat_kernel_uses_the_median_neighbour_distance():
    X = rows(8, 40)
    distance = distances(X)
    order = np.argsort(distance, axis=1)[:, 1:6]
    median = np.sort(np.take_along_axis(distance, order, axis=1).ravel())[99]
    graph = heat_kernel_graph(X, 5).toarray()
    kernel = np.exp(-(distance**2) / (2 * median**2))
    assert_allclose(graph[graph > 0], kernel[graph > 0], atol=1e-10)
    assert ((graph > 0).sum(axis=1) >= 5).all()


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_weigh_graph_is_the_sum_over_repeated_rows(convert):
    X, repeats = rows(9, 12), np.array([1, 2, 3] * 4)
    graph = build_affinity(X, "rbf", bandwidth=1.0)
    copies = np.repeat(np.arange(12), repeats)
    repeated = np.exp(-(distances(X[copies]) ** 2) / 2) - np.eye(len(copies))
    expected = np.zeros((12, 12))
    np.add.at(expected, (copies[:, None], copies[None, :]), repeated)
    weighted = weigh_graph(convert(graph), repeats.astype(float), equal_rows=True)
    weighted = weighted.toarray() if sparse.issparse(weighted) else weighted
    assert_allclose(weighted, expected, atol=1e-12)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, sparse.coo_array])
def test_check_affinity_symmetrises_rounding_errors_and_keeps_its_input(convert):
    graph = build_affinity(rows(10, 15)) * 1e-100
    graph[0, 1] *= 1 + 1e-12
    given_graph = convert(graph)
    checked = check_affinity(given_graph)
    checked = checked.toarray() if sparse.issparse(checked) else checked
    assert_array_equal(checked, checked.T)
    assert_allclose(checked, graph, rtol=1e-10)
    unchanged = given_graph.toarray() if sparse.issparse(given_graph) else given_graph
    assert_array_equal(unchanged, graph)


BAD_GRAPHS = [
    (np.ones((2, 3)), r"shape \(2, 3\), expected a square"),
    (np.array([[0, 1.0], [2.0, 0]]), "not symmetric.*differ by up to 1.0"),
    (np.array([[0, -1.0], [-1.0, 0]]), "smallest precomputed affinity is -1.0"),
]


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("graph", "message"), BAD_GRAPHS)
def test_what_is_no_graph_is_refused(graph, message, convert):
    with pytest.raises(ValueError, match=message):
        check_affinity(convert(graph))
