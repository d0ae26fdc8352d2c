"""Fair spectral clustering: SpFC, s-FairSC and an iteration without eigendecomposition."""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from fairanchor._utils._shared_state import equal_centers_allowed, one_thread
from fairanchor._utils._sklearn_compat import (
    Interval,
    StrOptions,
    check_weights,
    fit_context,
    validate_data,
)
from fairanchor.cluster._affinity import (
    build_affinity,
    check_affinity,
    scale_weights,
    weigh_graph,
)
from fairanchor.cluster._base import (
    FairClusterer,
    check_n_clusters,
    fill_empty_clusters,
    rows_with_weight,
)
from fairanchor.cluster._fair_eigen import SOLVERS, FairLaplacian
from fairanchor.exceptions import FairnessWarning
from fairanchor.groups._groups import check_groups

#: Up to this many rows a dense eigensolver is faster and more accurate than an iterative one.
DENSE_EIGEN_ROWS = 2000


class FairSpectralClustering(FairClusterer):
    """Spectral clustering with a fairness constraint on the embedding.

    With W the affinity of the rows, D its degrees, ``L = D - W``, and
    ``F[i, s] = 1[row i in group s] - share of s``, the embedding H solves

        minimise ``tr(HᵀLH)``  subject to  ``HᵀDH = I``  and  ``FᵀH = 0``

    (``HᵀH = I`` when ``normalized=False``); k-means on its rows gives the labels. A partition
    whose clusters all mirror the data's group shares has indicators with ``FᵀH = 0``, so this is
    the relaxation of the fair normalised cut (ratio cut). Any number of groups is supported.

    *What holds.* ``FᵀH = 0`` and the orthonormality hold to rounding error. *What does not.*
    k-means knows nothing of groups: the labels carry no guarantee, neither of balance nor of
    being fairer than those of plain spectral clustering.

    Cost: a dense eigenproblem, O(n³) time and O(n²) memory, up to 2000 rows; above, products with
    a sparse graph, O(n) each, whose number depends on the gaps of the spectrum. The
    neighbour search costs O(n log n) with few features and O(n²) with many.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, and of columns of the embedding.
    affinity : {"auto", "rbf", "knn", "precomputed"}, default="auto"
        ``"rbf"``: a Gaussian kernel of all pairs. ``"knn"``: a Gaussian kernel of nearest
        neighbours, made symmetric and connected. ``"auto"``: ``"rbf"`` up to 200 rows.
        ``"precomputed"``: X is a symmetric non-negative matrix, dense or sparse. Features are
        not standardised.
    n_neighbors : int or "auto", default="auto"
        For ``"knn"``; ``"auto"`` is a thirtieth of the rows, between 10 and 30.
    bandwidth : float or "auto", default="auto"
        Standard deviation of the kernel, in the unit of X. ``"auto"``: the median
        distance between distinct rows (``"rbf"``), or ``exp(-d_ij²/(s_i s_j))`` with ``s_i`` the
        distance to the farthest of the row's neighbours (``"knn"``).
    normalized : bool, default=True
        Normalised cut or ratio cut.
    eigen_solver : {"auto", "dense", "deflated", "polar"}, default="auto"
        Three ways to the same optimum. ``"dense"``: in a basis of the null space of Fᵀ (SpFC).
        ``"deflated"``: Lanczos on a projected operator (s-FairSC). ``"polar"``: block iterations
        that are feasible at every step. ``"auto"``: ``"dense"`` up to 2000 rows, above
        ``"deflated"``, or ``"polar"`` if the graph is disconnected (its lowest eigenvalue is
        multiple then). With more clusters than a quarter of the rows always ``"dense"``.
    n_init : int, default=10
        Starts of k-means.
    max_iter : int, default=1000
        Limit on the restarts of Lanczos, or on the steps of ``"polar"``.
    tol : float, default=1e-6
        Largest residual of an eigenpair relative to the spectrum, for the iterative solvers.
    random_state : int, RandomState instance or None, default=None
        For k-means and the first vectors of the iterative solvers.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row.
    embedding_ : ndarray of shape (n_samples, n_directions)
        H. Fewer columns than clusters if there are not enough fair directions.
    eigenvalues_ : ndarray of shape (n_directions,)
        Increasing.
    counts_ : ndarray of shape (n_clusters, n_groups)
        Weight of each group in each cluster.
    balance_ : float
        Worst ratio of a cluster's smallest group to its largest.
    groups_ : ndarray of shape (n_groups,)
        Names, in the order of the columns of ``counts_``.
    n_iter_ : int
        Products of the graph with a vector or block; 1 for the dense solver.

    Notes
    -----
    *Weights.* A row of weight w stands for w rows: ``W_ij`` becomes ``w_i w_j W_ij``, F and the
    group shares are weighted, and so is k-means. In a graph built from X the w rows are equal
    and similar to each other, which adds ``w (w - 1)`` to the diagonal: with ``affinity="rbf"``
    integer weights give the embedding of the repeated rows. In a precomputed graph the diagonal
    says how similar a row is to itself. Rows of weight zero are placed at the mean of their
    neighbours.

    *Isolated rows* of a precomputed graph could meet any constraint on H at no cost. They
    are left out of the eigenproblem, with a warning, and placed at the mean of the embedding.
    A *disconnected* graph is legitimate: its lowest eigenvalue, zero, is multiple. With more
    components than the embedding can tell apart the result is arbitrary, and a warning says so.

    References
    ----------
    Kleindessner, Samadi, Awasthi, Morgenstern. Guarantees for spectral clustering with fairness
    constraints. ICML 2019.

    Wang, Lu, Davidson, Bai. Scalable spectral clustering with group fairness constraints.
    AISTATS 2023.

    Tonin, Lambert, Suykens, Cevher. Accelerating spectral clustering under fairness constraints.
    ICML 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from fairanchor import FairSpectralClustering
    >>> X = np.array([[0.0], [0.1], [0.2], [0.3], [5.0], [5.1], [5.2], [5.3]])
    >>> sex = ["f", "m", "f", "m", "f", "m", "f", "m"]
    >>> model = FairSpectralClustering(n_clusters=2, random_state=0)
    >>> model.fit(X, sensitive_features=sex).balance_
    1.0
    """

    _parameter_constraints: dict = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "affinity": [StrOptions({"auto", "rbf", "knn", "precomputed"})],
        "n_neighbors": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "bandwidth": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "normalized": ["boolean"],
        "eigen_solver": [StrOptions({"auto", *SOLVERS})],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters=8,
        *,
        affinity="auto",
        n_neighbors="auto",
        bandwidth="auto",
        normalized=True,
        eigen_solver="auto",
        n_init=10,
        max_iter=1000,
        tol=1e-6,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.normalized = normalized
        self.eigen_solver = eigen_solver
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        precomputed = self.affinity == "precomputed"
        tags.input_tags.pairwise = precomputed
        tags.input_tags.sparse = precomputed
        tags.input_tags.positive_only = precomputed
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        """Cluster the rows of X, or the vertices of a precomputed graph.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; or the affinity, of shape (n_samples, n_samples), if ``affinity="precomputed"``.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row; several columns mean their intersection.
        sample_weight : array-like of shape (n_samples,), default=None
            Number of rows that each row stands for.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        X, groups, weights = self._check_input(X, sensitive_features, sample_weight)
        rows_with_weight(weights, self.n_clusters, X.shape[0])
        rng = check_random_state(self.random_state)
        # One thread: the last bits of multi-threaded sums depend on the number of threads.
        with one_thread():
            if self.affinity == "precomputed":
                graph, exponent = check_affinity(X)
            else:
                graph = build_affinity(X, self.affinity, self.n_neighbors, self.bandwidth, weights)
                exponent = 0
            H = self._embed(graph, exponent, groups.codes, weights, rng)
            labels = cluster_embedding(H, self.n_clusters, weights, self.n_init, rng)
        if self.n_clusters == len(labels) > 1 and groups.n_groups > 1:
            warnings.warn(
                f"n_clusters={self.n_clusters} equals the number of rows: every cluster is a "
                "single row, so each has one group only.",
                FairnessWarning,
                stacklevel=3,
            )
        self._store_labels(labels, groups, weights)
        return self

    def _check_input(self, X, sensitive_features, sample_weight):
        if self.affinity != "precomputed":
            return super()._check_input(X, sensitive_features, sample_weight)
        X = validate_data(self, X, dtype=np.float64, order="C", accept_sparse="csr")
        check_n_clusters(self.n_clusters, X.shape[0])
        groups = check_groups(sensitive_features, X.shape[0])
        return X, groups, check_weights(sample_weight, X)

    def _embed(self, graph, exponent, group_codes, weights, rng):
        """Set the embedding and its eigenvalues; return the embedding in a safe unit."""
        if weights is None:
            weights, weight_exponent, weighted = np.ones(graph.shape[0]), 0, graph
        else:
            weights, weight_exponent = scale_weights(weights)
            one_row = None if self.affinity == "precomputed" else np.exp2(-weight_exponent)
            weighted = weigh_graph(graph, weights, one_row=one_row)
        active = self._active_rows(weighted, weights)
        problem = FairLaplacian(
            weighted if active.all() else _subgraph(weighted, active),
            np.unique(group_codes[active], return_inverse=True)[1],
            weights[active],
            normalized=self.normalized,
        )
        result = self._solve(problem, n_rows=len(active), rng=rng)
        H = np.empty((len(active), len(result.values)))
        H[active] = _without_noise(result.vectors / np.sqrt(problem.metric)[:, None])
        _place_other_rows(H, graph, active, problem.metric, weights)

        # Affinity and weights were divided by powers of two; attributes are in the user's unit.
        if self.normalized:
            self.eigenvalues_ = result.values
            self.embedding_ = H * np.exp2(-0.5 * exponent - weight_exponent)
        else:
            self.eigenvalues_ = np.ldexp(result.values, exponent + weight_exponent)
            self.embedding_ = H * np.exp2(-0.5 * weight_exponent)
        self.n_iter_ = result.n_iter
        return H

    def _active_rows(self, weighted, weights):
        """Rows with a positive degree; isolated ones are told to the user."""
        active = np.asarray(weighted.sum(axis=1)).ravel() > 0
        present = weights > 0
        n_isolated = np.count_nonzero(present & ~active)
        if not active.any():
            raise ValueError(
                f"The graph has no edge between rows of positive weight (bandwidth="
                f"{self.bandwidth!r}): every affinity is zero, so nothing is said about clusters."
            )
        if n_isolated:
            warnings.warn(
                f"{n_isolated} of {len(active)} rows are similar to no other row (the first is "
                f"row {int(np.argmax(present & ~active))}): the fairness constraint leaves them "
                "out, and they join the cluster nearest to the mean of the embedding.",
                FairnessWarning,
                stacklevel=5,
            )
        return active

    def _solve(self, problem, n_rows, rng):
        n_vectors = min(self.n_clusters, problem.n_directions)
        if n_vectors < self.n_clusters < n_rows:
            warnings.warn(
                f"n_clusters={self.n_clusters} but {problem.n_rows} connected rows in "
                f"{problem.n_groups} groups have only {n_vectors} fair directions: the embedding "
                f"has {n_vectors} columns.",
                FairnessWarning,
                stacklevel=5,
            )
        n_components, _ = connected_components(problem.similarity, directed=False)
        if n_components - (problem.n_groups - 1) > n_vectors:
            warnings.warn(
                f"The graph has {n_components} components, more than n_clusters="
                f"{self.n_clusters} and the fairness constraint can tell apart: which of them "
                "share a cluster is arbitrary.",
                FairnessWarning,
                stacklevel=5,
            )
        name = choose_solver(self.eigen_solver, problem.n_rows, n_vectors, n_components)
        result = SOLVERS[name](problem, n_vectors, tol=self.tol, max_iter=self.max_iter, rng=rng)
        if result.residual > 10 * self.tol and name != "dense":
            warnings.warn(
                f"eigen_solver={name!r} stopped with a relative residual of "
                f"{result.residual:.1e}, above tol={self.tol}, after {result.n_iter} products: "
                "increase max_iter or tol.",
                ConvergenceWarning,
                stacklevel=5,
            )
        return result


def choose_solver(eigen_solver, n_rows, n_vectors, n_components):
    """Name in `SOLVERS`; Lanczos and blocks need room around the wanted vectors."""
    if n_vectors > n_rows // 4:
        return "dense"
    if eigen_solver != "auto":
        return eigen_solver
    if n_rows <= DENSE_EIGEN_ROWS:
        return "dense"
    return "deflated" if n_components == 1 else "polar"


def _subgraph(graph, active):
    rows = np.flatnonzero(active)
    if sparse.issparse(graph):
        return sparse.csr_array(graph[rows][:, rows])
    return graph[np.ix_(rows, rows)]


def _without_noise(H):
    """H with columns that are constant up to rounding made so: k-means would split the noise."""
    constant = np.ptp(H, axis=0) <= 1e-9 * np.abs(H).max(axis=0)
    H[:, constant] = H[:, constant].mean(axis=0)
    return H


def _place_other_rows(H, graph, active, metric, weights):
    """Write the rows of H outside the eigenproblem: mean of the neighbours, else of all rows."""
    others = np.flatnonzero(~active)
    if len(others) == 0:
        return
    masses = np.where(active, weights, 0.0)
    neighbours = graph[others]
    total = neighbours @ masses
    linked = total > 0
    H[others] = np.average(H[active], axis=0, weights=metric)
    nearby = neighbours @ (masses[:, None] * H)
    H[others[linked]] = nearby[linked] / total[linked, None]


def cluster_embedding(H, n_clusters, weights, n_init, rng, max_iter=300, stacklevel=4):
    """k-means labels of the rows of H, every cluster with a row; row by row if one per row."""
    if n_clusters == len(H):
        return np.arange(n_clusters)
    kmeans = KMeans(n_clusters, n_init=n_init, max_iter=max_iter, random_state=rng)
    with equal_centers_allowed():  # said below, in the words of this method
        labels = kmeans.fit(H, sample_weight=weights).labels_
    labels, n_filled = fill_empty_clusters(H, labels, n_clusters)
    if n_filled:
        warnings.warn(
            f"k-means found {n_clusters - n_filled} clusters, not {n_clusters}: the embedding has "
            "too few distinct rows, so the largest clusters were split arbitrarily.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
    return labels
