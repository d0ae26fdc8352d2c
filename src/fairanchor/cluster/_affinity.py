"""Graphs over rows: symmetric non-negative matrices, dense arrays or CSR arrays.

The graphs built here have a zero diagonal. Bandwidths follow the data, so that only the relative
scale of the features matters.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.neighbors import NearestNeighbors

#: Up to this many rows every pair of rows is an edge; above, only near neighbours.
DENSE_ROWS = 200
#: An edge whose bandwidth was chosen here never weighs less: a row of vanishing degree could
#: meet any linear constraint on the embedding by itself, at no cost.
WEAKEST_EDGE = 1e-3


def build_affinity(
    X: np.ndarray,
    affinity: str = "auto",
    n_neighbors: int | str = "auto",
    bandwidth: float | str = "auto",
    weights: np.ndarray | None = None,
) -> Any:
    """Graph over the rows of X, as `FairSpectralClustering` describes it.

    Unless a given bandwidth is too small for the distances, no row is isolated, and the
    graph of neighbours is connected. The weights are those of the median.
    """
    n_rows = len(X)
    weights = np.ones(n_rows) if weights is None else weights
    if n_rows == 1:
        return np.ones((1, 1))
    if affinity == "rbf" or (affinity == "auto" and n_rows <= DENSE_ROWS):
        return _rbf_graph(X, bandwidth, weights)
    if isinstance(n_neighbors, str):
        # Chosen on moons, circles and spirals of 300 to 1,000 anchors of 2 to 10 groups, where a
        # thirtieth of the anchors keeps a shape together and two shapes apart.
        n_neighbors = min(max(10, n_rows // 30), 30)
    rows, columns, distance = neighbour_edges(X, n_neighbors)
    # A row among its duplicates is at distance zero of its last neighbour, and takes the mean.
    last = distance.reshape(n_rows, -1)[:, -1]
    scales = np.where(last > 0, last, last[last > 0].mean() if last.any() else 1.0)

    def weigh(rows: np.ndarray, columns: np.ndarray, distance: np.ndarray) -> np.ndarray:
        if not isinstance(bandwidth, str):
            return gaussian(distance, bandwidth)
        local = np.sqrt(0.5 * scales[rows] * scales[columns])
        return np.maximum(gaussian(distance, local), WEAKEST_EDGE)

    graph = symmetric_graph(rows, columns, weigh(rows, columns, distance), n_rows)
    return _link_components(graph, X, weigh)


def heat_kernel_graph(X: np.ndarray, n_neighbors: int, bandwidth: float | str = "auto") -> Any:
    """Nearest-neighbour graph with one bandwidth; ``"auto"`` is the median neighbour distance."""
    if len(X) == 1:
        return sparse.csr_array(np.ones((1, 1)))
    rows, columns, distance = neighbour_edges(X, n_neighbors)
    if isinstance(bandwidth, str):
        weight = np.maximum(gaussian(distance, positive_median(distance)), WEAKEST_EDGE)
    else:
        weight = gaussian(distance, bandwidth)
    return symmetric_graph(rows, columns, weight, len(X))


def gaussian(distance: np.ndarray, bandwidth: float | np.ndarray) -> np.ndarray:
    """``exp(-distance**2 / (2 bandwidth**2))``, one at distance zero whatever the bandwidth."""
    with np.errstate(over="ignore", under="ignore"):
        ratio = np.divide(distance, bandwidth, out=np.zeros_like(distance), where=distance > 0)
        return np.exp(-0.5 * ratio * ratio)


def positive_median(distance: np.ndarray, pair_weights: np.ndarray | None = None) -> float:
    """Lower weighted median of the positive values; one if there is none."""
    mass = np.ones(len(distance)) if pair_weights is None else pair_weights
    kept = (distance > 0) & (mass > 0)
    if not kept.any():
        return 1.0
    order = np.argsort(distance[kept], kind="stable")
    cumulated = np.cumsum(mass[kept][order])
    return float(distance[kept][order[np.searchsorted(cumulated, 0.5 * cumulated[-1])]])


def _rbf_graph(X: np.ndarray, bandwidth: float | str, weights: np.ndarray) -> np.ndarray:
    """Kernel of every pair. Distances are differences of rows, so equal rows are at exactly 0."""
    if not isinstance(bandwidth, str):
        graph = gaussian(cdist(X, X), bandwidth)
        np.fill_diagonal(graph, 0.0)
        return graph
    pairs, (first, second) = pdist(X), np.triu_indices(len(X), 1)
    distance = squareform(pairs)
    graph = gaussian(distance, positive_median(pairs, weights[first] * weights[second]))
    np.fill_diagonal(graph, 0.0)
    np.fill_diagonal(distance, np.inf)
    row, nearest = np.arange(len(X)), distance.argmin(axis=1)
    strongest = np.maximum(graph[row, nearest], WEAKEST_EDGE)
    graph[row, nearest] = strongest
    graph[nearest, row] = np.maximum(graph[nearest, row], strongest)
    return graph


def neighbour_edges(X: np.ndarray, n_neighbors: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each row's nearest other rows, nearest first: indices of both ends and distances.

    ``n_neighbors`` is cut down to the number of other rows. Distances are taken again from
    differences: those of the search lose half of their digits, so that equal rows would seem
    to be apart.
    """
    n_rows = len(X)
    n_neighbors = min(n_neighbors, n_rows - 1)
    X = X - X.mean(axis=0)
    columns = NearestNeighbors(n_neighbors=n_neighbors).fit(X).kneighbors(return_distance=False)
    distance = np.empty(columns.shape)
    for start in range(0, n_rows, 4096):
        block = slice(start, start + 4096)
        distance[block] = np.linalg.norm(X[block, None, :] - X[columns[block]], axis=2)
    order = np.argsort(distance, axis=1, kind="stable")
    columns = np.take_along_axis(columns, order, axis=1)
    distance = np.take_along_axis(distance, order, axis=1)
    return np.repeat(np.arange(n_rows), n_neighbors), columns.ravel(), distance.ravel()


def symmetric_graph(
    rows: np.ndarray, columns: np.ndarray, weight: np.ndarray, n_rows: int
) -> sparse.csr_array:
    """CSR array in which an edge has the larger weight of its two directions."""
    directed = sparse.csr_array((weight, (rows, columns)), shape=(n_rows, n_rows))
    graph = sparse.csr_array(directed.maximum(directed.T))
    graph.eliminate_zeros()
    graph.sort_indices()
    return graph


def _link_components(graph: sparse.csr_array, X: np.ndarray, weigh: Callable) -> sparse.csr_array:
    """Join each component to the nearest other one until the graph is connected.

    A component is represented by the row nearest to its mean; every round at least halves
    the number of components. Edges that the kernel makes vanish end the search.
    """
    n_before, (n_components, component) = np.inf, connected_components(graph, directed=False)
    while 1 < n_components < n_before:
        n_before = n_components
        sizes = np.bincount(component)
        membership = sparse.csr_array((np.ones(len(X)), (component, np.arange(len(X)))))
        centers = (membership @ X) / sizes[:, None]
        to_center = ((X - centers[component]) ** 2).sum(axis=1)
        order = np.lexsort((to_center, component))
        middle = order[np.concatenate([[0], np.cumsum(sizes)[:-1]])]
        search = NearestNeighbors(n_neighbors=1).fit(X[middle])
        other = middle[search.kneighbors(return_distance=False)[:, 0]]
        distance = np.linalg.norm(X[middle] - X[other], axis=1)
        links = symmetric_graph(middle, other, weigh(middle, other, distance), len(X))
        graph = sparse.csr_array(graph.maximum(links))
        n_components, component = connected_components(graph, directed=False)
    graph.sort_indices()
    return graph


def check_affinity(graph: Any) -> Any:
    """A precomputed graph, exactly symmetric; a matrix that is no graph is an error."""
    if graph.shape[0] != graph.shape[1]:
        raise ValueError(
            f"The precomputed affinity has shape {graph.shape}, expected a square matrix: "
            "entry (i, j) is the similarity of rows i and j."
        )
    if sparse.issparse(graph):
        graph = sparse.csr_array(graph, copy=True)
        graph.sum_duplicates()
    smallest, largest = graph.min(), graph.max()
    if smallest < 0:
        raise ValueError(
            f"Negative values in data: the smallest precomputed affinity is {smallest}, "
            "expected similarities >= 0. Convert distances to similarities first."
        )
    largest_gap = abs(graph - graph.T).max()
    if largest_gap > 1e-8 * largest:
        raise ValueError(
            f"The precomputed affinity is not symmetric: entries (i, j) and (j, i) differ by up "
            f"to {largest_gap}, the largest entry is {largest}. Pass (W + W.T) / 2."
        )
    return 0.5 * (graph + graph.T)


def weigh_graph(graph: Any, weights: np.ndarray, *, equal_rows: bool) -> Any:
    """Graph among rows that stand for several: edge (i, j) becomes ``w_i w_j W_ij``.

    If the rows that a row stands for are equal, each is similar to the others by one: the diagonal
    gains ``w (w - 1)``, nothing for weights up to one. Otherwise the diagonal of the graph states
    how similar they are.
    """
    weighted = scale_both_sides(graph, weights)
    if not equal_rows:
        return weighted
    loops = np.maximum(weights * (weights - 1.0), 0.0)
    if sparse.issparse(graph):
        return sparse.csr_array(weighted + sparse.diags_array(loops))
    return weighted + np.diag(loops)


def degrees_of(graph: Any) -> np.ndarray:
    """Sums of the rows of a graph; an isolated row is an error."""
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    n_isolated = np.count_nonzero(degrees == 0)
    if n_isolated:
        raise ValueError(
            f"{n_isolated} of {len(degrees)} rows are similar to no other row (the first is row "
            f"{np.argmin(degrees)}), and could meet any constraint alone. Leave them out, or "
            "increase the bandwidth."
        )
    return degrees


def scale_both_sides(graph: Any, factor: np.ndarray) -> Any:
    """Entry (i, j) times ``factor[i] * factor[j]``."""
    if not sparse.issparse(graph):
        return factor[:, None] * graph * factor
    scaled = graph.copy()
    scaled.data *= np.repeat(factor, np.diff(graph.indptr))
    scaled.data *= factor[graph.indices]
    return scaled
