"""Fair spectral clustering: SpFC, s-FairSC and FairSC.

The embedding has the lowest eigenvectors of a graph Laplacian among the vectors that are fair:

    minimise  tr(XᵀAX)   subject to   XᵀX = I,  CᵀX = 0

with ``A = I - M^{-1/2} W M^{-1/2}`` (or ``M^{-1/2} L M^{-1/2}``) and ``C = M^{-1/2} F``, where M is
the metric of the embedding ``H = M^{-1/2} X``: degrees for the normalised cut, row weights for
the ratio cut. ``FᵀH = 0`` states that each group has its share of every column of H.

Three solvers of the same problem: `solve_dense` by a dense eigenproblem (SpFC), `solve_deflated`
by Lanczos on a projected operator (s-FairSC), and `solve_dc` by ADMM on a difference of convex
functions (FairSC), which never factorises anything larger than the block.
"""

from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from fairanchor._utils._shared_state import (
    warn_unconverged,
    warn_unfair,
)
from fairanchor._utils._sklearn_compat import (
    Interval,
    StrOptions,
    check_weights,
    validate_data,
)
from fairanchor._utils._typing import Seed, Table, Weights
from fairanchor.cluster._affinity import (
    build_affinity,
    check_affinity,
    degrees_of,
    scale_both_sides,
    weigh_graph,
)
from fairanchor.cluster._base import (
    COMMON_CONSTRAINTS,
    FairClusterer,
    check_n_clusters,
    fill_empty_clusters,
)
from fairanchor.groups._groups import Groups, check_groups

#: Up to this many rows a dense eigensolver is faster and more accurate than an iterative one.
DENSE_EIGEN_ROWS = 2000
#: Steps of ADMM between two looks at the residuals.
RESIDUAL_EVERY = 10


class FairSpectralClustering(FairClusterer):
    """Spectral clustering with a fairness constraint on the embedding.

    With W the affinity of the rows, D its degrees, ``L = D - W``, and
    ``F[i, s] = 1[row i in group s] - share of s``, the embedding H solves

        minimise ``tr(HᵀLH)``  subject to  ``HᵀDH = I``  and  ``FᵀH = 0``

    (``HᵀH = I`` when ``normalized=False``); k-means on its rows gives the labels. A partition
    whose clusters all mirror the data's group shares has indicators with ``FᵀH = 0``, so this is
    the relaxation of the fair normalised cut (ratio cut). Any number of groups is supported.

    *Guaranteed*: ``FᵀH = 0`` and the orthonormality, to rounding error. *Not guaranteed*: any
    balance of the labels, or that they are fairer than those of plain spectral clustering, since
    k-means ignores groups.

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
    eigen_solver : {"auto", "dense", "deflated", "dc"}, default="auto"
        Three ways to the same optimum. ``"dense"``: all pairs of rows at once (SpFC).
        ``"deflated"``: Lanczos on a projected operator (s-FairSC). ``"dc"``: alternating directions
        on a difference of convex functions (FairSC), with 10 to 100 times the products (see
        Notes). ``"auto"``: ``"dense"`` up to 2000 rows, above ``"deflated"``. With more clusters
        than a quarter of the rows always ``"dense"``.
    n_init : int, default=10
        Starts of k-means.
    max_iter : int, default=1000
        Largest number of restarts of Lanczos, or of steps of ``"dc"``.
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
    states how similar a row is to itself, and the nearest row is the most similar one.

    *FairSC.* ``"dc"`` follows the idea of the publication: a difference of convex functions, a copy
    of the variable for the constraint, alternating directions with an adaptive penalty, and no
    eigendecomposition of the graph. Its subproblems are those of this library. On a stochastic
    block model of 600 rows it took about 600 products with the graph, Lanczos 33; on rows without
    clusters, whose eigenvalues lie close together, it did not reach ``tol=1e-6`` in 3,000 steps.

    *Isolated rows* of a graph are an error: they could meet any constraint on H at no cost.
    A *disconnected* graph is allowed: its lowest eigenvalue, zero, is multiple. With more
    components than the embedding can tell apart the result is arbitrary, with a warning.

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
        **COMMON_CONSTRAINTS,
        "affinity": [StrOptions({"auto", "rbf", "knn", "precomputed"})],
        "n_neighbors": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "bandwidth": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "normalized": ["boolean"],
        "eigen_solver": [StrOptions({"auto", "dense", "deflated", "dc"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        affinity: str = "auto",
        n_neighbors: int | str = "auto",
        bandwidth: float | str = "auto",
        normalized: bool = True,
        eigen_solver: str = "auto",
        n_init: int = 10,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: Seed = None,
    ) -> None:
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        precomputed = self.affinity == "precomputed"
        tags.input_tags.pairwise = precomputed
        tags.input_tags.sparse = precomputed
        tags.input_tags.positive_only = precomputed
        return tags

    _of_rows = ("embedding_",)

    def _fit(self, X: Any, groups: Groups, weights: np.ndarray) -> np.ndarray:
        is_precomputed = self.affinity == "precomputed"
        rng = check_random_state(self.random_state)
        if is_precomputed:
            graph = check_affinity(X)
        else:
            graph = build_affinity(X, self.affinity, self.n_neighbors, self.bandwidth, weights)
        graph = weigh_graph(graph, weights, equal_rows=not is_precomputed)
        problem = FairLaplacian(graph, groups.codes, weights, normalized=self.normalized)
        n_vectors = min(self.n_clusters, problem.n_directions)
        if problem.components[0] - (problem.n_groups - 1) > n_vectors:
            warn_unfair(
                f"The graph has {problem.components[0]} components, more than n_clusters="
                f"{self.n_clusters} and the fairness constraint can tell apart: which of them "
                "share a cluster is arbitrary."
            )
        self.eigenvalues_, X, self.n_iter_, residual = solve(
            problem, n_vectors, self.eigen_solver, self.tol, self.max_iter, rng
        )
        self.embedding_ = _without_noise(X / np.sqrt(problem.metric)[:, None])
        labels = cluster_embedding(self.embedding_, self.n_clusters, weights, self.n_init, rng)
        if residual > 10 * self.tol and self.n_iter_ > 1:
            warn_unconverged(
                f"eigen_solver={self.eigen_solver!r} stopped with a relative residual of "
                f"{residual:.1e}, above tol={self.tol}, after {self.n_iter_} products: "
                "increase max_iter or tol."
            )
        return labels

    def _check_input(
        self, X: Table, sensitive_features: Table, sample_weight: Weights
    ) -> tuple[np.ndarray, Groups, np.ndarray | None]:
        if self.affinity != "precomputed":
            return super()._check_input(X, sensitive_features, sample_weight)
        X = validate_data(self, X, dtype=np.float64, order="C", accept_sparse="csr")
        check_n_clusters(self.n_clusters, X.shape[0])
        groups = check_groups(sensitive_features, X.shape[0])
        return X, groups, check_weights(sample_weight, X)

    def _split_off(self, X: Any, kept: np.ndarray) -> tuple[Any, np.ndarray]:
        if self.affinity != "precomputed":
            return super()._split_off(X, kept)
        place = np.asarray(X[:, kept].argmax(axis=1)).ravel()
        place[kept] = np.arange(len(kept))
        return X[kept][:, kept], place


def _without_noise(H: np.ndarray) -> np.ndarray:
    """H with columns that are constant up to rounding made so: k-means would split the noise."""
    constant = np.ptp(H, axis=0) <= 1e-9 * np.abs(H).max(axis=0)
    H[:, constant] = H[:, constant].mean(axis=0)
    return H


def cluster_embedding(
    H: np.ndarray,
    n_clusters: int,
    weights: np.ndarray | None,
    n_init: int,
    rng: Any,
    max_iter: int = 300,
) -> np.ndarray:
    """k-means labels of the rows of H, every cluster with a row; row by row if one per row."""
    if n_clusters == len(H):
        return np.arange(n_clusters)
    kmeans = KMeans(n_clusters, n_init=n_init, max_iter=max_iter, random_state=rng)
    labels = kmeans.fit(H, sample_weight=weights).labels_
    labels, n_filled = fill_empty_clusters(H, labels, n_clusters)
    if n_filled:
        warn_unconverged(
            f"k-means found {n_clusters - n_filled} clusters, not {n_clusters}: the embedding has "
            "too few distinct rows, so the largest clusters were split arbitrarily."
        )
    return labels


# The eigenproblem.


#: Eigenvalues, increasing; orthonormal eigenvectors; the number of products of the graph with a
#: vector or block; and the largest norm of ``PAPx - value x``, relative to the spectrum's bound.
EigenResult = tuple[np.ndarray, np.ndarray, int, float]


class FairLaplacian:
    """The operator A and the projector P onto the fair vectors.

    The columns of F for all groups span ``{B c : share · c = 0}``, where the columns of B,
    one per group, have disjoint supports. So P needs one orthonormal vector per group and one
    direction in the space of groups: O(n) work and memory for any number of groups, and
    nothing depends on which group comes last. All degrees and weights are positive, and every
    group is present. The metric is the degrees for the normalised cut, else the weights.
    """

    def __init__(
        self, graph: Any, group_codes: np.ndarray, weights: np.ndarray, *, normalized: bool = True
    ) -> None:
        degrees = degrees_of(graph)
        self.metric = degrees if normalized else weights
        root = np.sqrt(self.metric)
        self.similarity = scale_both_sides(graph, 1.0 / root)
        self.diagonal = np.ones(len(degrees)) if normalized else degrees / weights
        self.spectrum_bound = 2.0 * self.diagonal.max()
        self.n_rows, self.n_groups = len(degrees), int(group_codes.max()) + 1
        #: Number of connected components, and that of each row.
        self.components = connected_components(sparse.csr_array(graph), directed=False)

        share = np.bincount(group_codes, weights=weights) / weights.sum()
        entries = weights / root
        norm = np.sqrt(np.bincount(group_codes, weights=entries**2))
        self._basis = sparse.csr_array(
            (entries / norm[group_codes], group_codes, np.arange(self.n_rows + 1)),
            shape=(self.n_rows, self.n_groups),
        )
        direction = share / norm
        self._direction = direction / np.linalg.norm(direction)

    @property
    def n_directions(self) -> int:
        """Dimension of the space of fair vectors."""
        return self.n_rows - self.n_groups + 1

    def project(self, V: np.ndarray) -> np.ndarray:
        """PV: the nearest fair vectors."""
        return V - self._basis @ self.unfairness(V)

    def unfairness(self, V: np.ndarray) -> np.ndarray:
        """One number per group, all zero if V is fair."""
        in_groups = self._basis.T @ V
        return in_groups - np.multiply.outer(self._direction, self._direction @ in_groups)

    def apply(self, V: np.ndarray) -> np.ndarray:
        """AV."""
        return (V.T * self.diagonal).T - self.similarity @ V


def solve(
    problem: FairLaplacian, n_vectors: int, eigen_solver: str, tol: float, max_iter: int, rng: Any
) -> EigenResult:
    """Lowest fair eigenvectors; Lanczos and blocks need room around the wanted vectors."""
    by_size = eigen_solver == "auto" and problem.n_rows <= DENSE_EIGEN_ROWS
    if eigen_solver == "dense" or by_size or n_vectors > problem.n_rows // 4:
        return solve_dense(problem, n_vectors)
    iterate = solve_dc if eigen_solver == "dc" else solve_deflated
    return iterate(problem, n_vectors, tol, max_iter, rng)


def solve_dense(problem: FairLaplacian, n_vectors: int) -> EigenResult:
    """SpFC: eigenvectors of PAP, with the unfair directions moved above the spectrum."""
    similarity = problem.similarity
    A = np.diag(problem.diagonal)
    A -= similarity.toarray() if sparse.issparse(similarity) else similarity
    if problem.n_groups > 1:
        P = problem.project(np.eye(problem.n_rows))
        A = problem.project(problem.project(A).T)
        A += 2.0 * problem.spectrum_bound * (np.eye(problem.n_rows) - P)
        A = 0.5 * (A + A.T)
    values, X = linalg.eigh(A, subset_by_index=(0, n_vectors - 1))
    return _result(problem, values, X, 1)


def solve_deflated(
    problem: FairLaplacian, n_vectors: int, tol: float, max_iter: int, rng: Any
) -> EigenResult:
    """s-FairSC: Lanczos on P(σI - A)P, whose largest eigenvectors are the fair lowest ones.

    σ exceeds the spectrum of A, so the unfair directions, at 0, lie below all others. Fair vectors
    that are constant on components have the eigenvalue zero, of which Lanczos would find one
    only: they are known, and moved to 0 too.
    """
    known = _constant_on_components(problem, n_vectors)
    n_wanted = n_vectors - known.shape[1]
    X = np.empty((problem.n_rows, 0))
    n_products = 1  # of the Rayleigh-Ritz step

    def project(v: np.ndarray) -> np.ndarray:
        v = problem.project(v)
        return v - known @ (known.T @ v)

    def multiply(v: np.ndarray) -> np.ndarray:
        nonlocal n_products
        n_products += 1
        v = project(v.reshape(-1))
        return project(1.1 * problem.spectrum_bound * v - problem.apply(v))

    if n_wanted:
        operator = LinearOperator((problem.n_rows,) * 2, matvec=multiply, dtype=np.float64)
        start = project(rng.standard_normal(problem.n_rows))
        n_lanczos = min(problem.n_rows, max(4 * n_vectors, 32))
        try:
            _, X = eigsh(
                operator, n_wanted, which="LA", v0=start, ncv=n_lanczos, tol=tol, maxiter=max_iter
            )
        except ArpackNoConvergence as error:  # the caller warns of the residual
            n_missing = n_wanted - error.eigenvectors.shape[1]
            X = np.hstack([error.eigenvectors, rng.standard_normal((problem.n_rows, n_missing))])
    X = _polar(problem, np.hstack([known, X]))
    return _result(problem, *_rayleigh_ritz(problem, X), n_products)


def _constant_on_components(problem: FairLaplacian, most: int) -> np.ndarray:
    """Orthonormal fair vectors of the eigenvalue zero, at most so many."""
    n_components, component = problem.components
    # So many components suffice, as there is a constraint less than groups.
    n_used = min(n_components, most + problem.n_groups - 1)
    rows = np.flatnonzero(component < n_used)
    length = np.sqrt(np.bincount(component[rows], weights=problem.metric[rows]))
    constant = np.zeros((problem.n_rows, n_used))
    constant[rows, component[rows]] = np.sqrt(problem.metric[rows]) / length[component[rows]]
    # All columns have length one, so that a zero is one by its size.
    _, singular, Vt = linalg.svd(problem.unfairness(constant))
    return constant @ Vt[np.count_nonzero(singular > 1e-10) :][:most].T


def solve_dc(
    problem: FairLaplacian, n_vectors: int, tol: float, max_iter: int, rng: Any
) -> EigenResult:
    """FairSC: ADMM on a difference of convex functions.

    With ``M = σI - A``, which is positive semidefinite, the problem is to maximise the convex
    function ``tr(YᵀMY) / 2`` over the hull ``‖Y‖₂ <= 1`` of the orthonormal blocks, where Y equals
    a fair block V. A step replaces the convex function by its tangent at Y,

        ``Y <- singular values of V + (MY - Λ) / β, at most 1``
        ``V <- P(Y + Λ / β)``,   ``Λ <- Λ + β (Y - V)``

    and β starts at σ, a bound on the curvature. It doubles or halves, within a factor of 4 of σ,
    when the residuals ``‖Y - V‖`` and ``β ‖ΔV‖`` differ by more than a factor of 10 (without these
    bounds it diverges on some ratio cuts). Convergence is that of a power iteration: slow where the
    gap after the last wanted eigenvalue is small.
    """
    sigma = problem.spectrum_bound
    X = rng.standard_normal((problem.n_rows, n_vectors))
    X[:, 0] = np.sqrt(problem.metric)
    Y = V = _polar(problem, X)
    dual, beta = np.zeros_like(Y), sigma
    values, best = _rayleigh_ritz(problem, Y)
    n_products = 1
    for step in range(1, max_iter + 1):
        U, singular, Wt = linalg.svd(
            V + (sigma * Y - problem.apply(Y) - dual) / beta, full_matrices=False
        )
        Y = (U * np.minimum(singular, 1.0)) @ Wt
        before, V = V, problem.project(Y + dual / beta)
        dual += beta * (Y - V)
        n_products += 1
        if step % RESIDUAL_EVERY == 0 or step == max_iter:
            values, best = _rayleigh_ritz(problem, _polar(problem, V))
            n_products += 2
            if _residuals(problem, values, best).max() <= tol:
                break
            primal, moved = np.linalg.norm(Y - V), beta * np.linalg.norm(V - before)
            if primal > 10 * moved:
                beta = min(2.0 * beta, 4.0 * sigma)
            elif moved > 10 * primal:
                beta = max(0.5 * beta, 0.25 * sigma)
    return _result(problem, values, best, n_products)


def _polar(problem: FairLaplacian, X: np.ndarray) -> np.ndarray:
    """The orthonormal block nearest to PX; it spans the same space, so it is fair too."""
    X = problem.project(X)
    norm = np.linalg.norm(X, axis=0)
    U, _, Vt = linalg.svd(X / np.where(norm > 0, norm, 1.0), full_matrices=False)
    return problem.project(U @ Vt)


def _rayleigh_ritz(problem: FairLaplacian, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    inner = X.T @ problem.apply(X)
    values, rotation = linalg.eigh(0.5 * (inner + inner.T))
    return values, X @ rotation


def _residuals(problem: FairLaplacian, values: np.ndarray, X: np.ndarray) -> np.ndarray:
    difference = problem.project(problem.apply(X)) - X * values
    return np.linalg.norm(difference, axis=0) / problem.spectrum_bound


def _result(problem: FairLaplacian, values: np.ndarray, X: np.ndarray, n_iter: int) -> EigenResult:
    X = problem.project(X)
    # The largest entry of each column is positive, the first one among near ties.
    size = np.abs(X)
    first = np.argmax(size >= (1 - 1e-6) * size.max(axis=0), axis=0)
    X = X * np.where(X[first, np.arange(X.shape[1])] < 0, -1.0, 1.0)
    return values, X, n_iter, float(_residuals(problem, values, X).max())
