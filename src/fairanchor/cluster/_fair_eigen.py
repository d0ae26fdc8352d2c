"""Lowest eigenvectors of a graph Laplacian among the vectors that are fair.

    minimise  tr(XᵀAX)   subject to   XᵀX = I,  CᵀX = 0

with ``A = I - M^{-1/2} W M^{-1/2}`` (or ``M^{-1/2} L M^{-1/2}``) and ``C = M^{-1/2} F``, where M is
the metric of the embedding ``H = M^{-1/2} X``: degrees for the normalised cut, row weights for
the ratio cut. ``FᵀH = 0`` says that each group has its share of every column of H.

Three solvers of the same problem: `solve_dense` works in a basis of the null space (SpFC),
`solve_deflated` by Lanczos on a projected operator (s-FairSC), `solve_polar` by block
iterations that stay feasible and never factorise anything larger than the block.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from fairanchor.cluster._affinity import scale_both_sides

#: A Chebyshev filter magnifies the last wanted direction by about this much per iteration.
FILTER_GAIN = 1e4
#: And the lowest one by no more than this: at 1e12 rounding errors stalled at residuals of 1e-10.
FILTER_RANGE = 1e6
FILTER_DEGREES = (4, 200)


@dataclass(frozen=True)
class EigenResult:
    """Eigenpairs of the constrained problem, values increasing.

    Attributes
    ----------
    values : ndarray of shape (n_vectors,)
    vectors : ndarray of shape (n_rows, n_vectors)
        Orthonormal; the largest entry of each column is positive.
    n_iter : int
        Products of the graph with a vector or block.
    residual : float
        Largest norm of ``PAPx - value x``, relative to the bound on the spectrum.
    """

    values: np.ndarray
    vectors: np.ndarray
    n_iter: int
    residual: float


class FairLaplacian:
    """The operator A and the projector P onto the fair vectors.

    The columns of F for all groups span ``{B c : share · c = 0}``, where the columns of B,
    one per group, have disjoint supports. So P needs one orthonormal vector per group and one
    direction in the space of groups: O(n) work and memory for any number of groups, and
    nothing depends on which group comes last.

    Parameters
    ----------
    graph : ndarray or CSR array of shape (n_rows, n_rows)
        Symmetric, non-negative, positive degrees.
    group_codes : ndarray of shape (n_rows,)
        In ``0..n_groups-1``, every group present.
    weights : ndarray of shape (n_rows,)
        Positive.
    normalized : bool
        Normalised cut (metric: degrees) or ratio cut (metric: weights).
    """

    def __init__(self, graph, group_codes, weights, *, normalized=True):
        degrees = np.asarray(graph.sum(axis=1)).ravel()
        self.metric = degrees if normalized else weights
        root = np.sqrt(self.metric)
        self.similarity = scale_both_sides(graph, 1.0 / root)
        self.diagonal = np.ones(len(degrees)) if normalized else degrees / weights
        self.spectrum_bound = 2.0 * self.diagonal.max()
        self.n_rows, self.n_groups = len(degrees), int(group_codes.max()) + 1

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
    def n_directions(self):
        """Dimension of the space of fair vectors."""
        return self.n_rows - self.n_groups + 1

    def project(self, V):
        """PV: the nearest fair vectors."""
        in_groups = self._basis.T @ V
        in_groups = in_groups - np.multiply.outer(self._direction, self._direction @ in_groups)
        return V - self._basis @ in_groups

    def apply(self, V):
        """AV."""
        return (V.T * self.diagonal).T - self.similarity @ V

    def constraint(self):
        """An orthonormal basis of the unfair directions, shape (n_rows, n_groups - 1)."""
        rotation, _ = linalg.qr(self._direction[:, None])
        return self._basis @ rotation[:, 1:]


def solve_dense(problem, n_vectors, **_):
    """SpFC: eigenvectors of ZᵀAZ, with Z a basis of the fair vectors kept as reflectors."""
    similarity = problem.similarity
    A = np.diag(problem.diagonal)
    A -= similarity.toarray() if sparse.issparse(similarity) else similarity
    n_unfair = problem.n_groups - 1
    if n_unfair == 0:
        values, X = linalg.eigh(A, subset_by_index=(0, n_vectors - 1))
        return _result(problem, values, X, 1)
    (reflectors, tau), _ = linalg.qr(problem.constraint(), mode="raw")
    A = _multiply_by_q("L", "T", reflectors, tau, A)
    A = _multiply_by_q("R", "N", reflectors, tau, A)[n_unfair:, n_unfair:]
    values, Y = linalg.eigh(0.5 * (A + A.T), subset_by_index=(0, n_vectors - 1))
    X = np.zeros((problem.n_rows, n_vectors))
    X[n_unfair:] = Y
    return _result(problem, values, _multiply_by_q("L", "N", reflectors, tau, X), 1)


def _multiply_by_q(side, transpose, reflectors, tau, C):
    """QC, QᵀC or CQ from the reflectors of a QR factorisation, without forming Q."""
    C = np.asfortranarray(C)
    _, work, _ = linalg.lapack.dormqr(side, transpose, reflectors, tau, C, -1)
    product, _, info = linalg.lapack.dormqr(side, transpose, reflectors, tau, C, int(work[0]))
    if info != 0:
        raise RuntimeError(f"LAPACK's dormqr refused argument {-info}.")
    return product


def solve_deflated(problem, n_vectors, *, tol, max_iter, rng):
    """s-FairSC: Lanczos on P(σI - A)P, whose largest eigenvectors are the fair lowest ones.

    σ exceeds the spectrum of A, so the unfair directions, at 0, lie below all others. Where
    Lanczos does not converge, `solve_polar` continues from what it found.
    """
    start = problem.project(rng.standard_normal(problem.n_rows))
    n_products = 0

    def multiply(v):
        nonlocal n_products
        n_products += 1
        v = problem.project(v.reshape(-1))
        return problem.project(1.1 * problem.spectrum_bound * v - problem.apply(v))

    operator = LinearOperator((problem.n_rows,) * 2, matvec=multiply, dtype=np.float64)
    n_lanczos = min(problem.n_rows, max(4 * n_vectors, 32))
    try:
        _, X = eigsh(
            operator, n_vectors, which="LA", v0=start, ncv=n_lanczos, tol=tol, maxiter=max_iter
        )
    except ArpackNoConvergence as stopped:
        found = solve_polar(
            problem, n_vectors, tol=tol, max_iter=max_iter, rng=rng, start=stopped.eigenvectors
        )
        return _result(problem, found.values, found.vectors, n_products + found.n_iter)
    return _result(problem, *_rayleigh_ritz(problem, _polar(problem, X)), n_products)


def solve_polar(problem, n_vectors, *, tol, max_iter, rng, start=None):
    """Block iteration ``X <- polar(p(PAP) X)``: both constraints hold after every step.

    p is a Chebyshev polynomial that is small on the unwanted part of the spectrum. The block
    has a few vectors to spare, since its last ones converge slowly, and is rotated to its
    Ritz vectors in between. Copes with multiple eigenvalues up to the size of the block.
    """
    n_block = min(n_vectors + max(4, n_vectors // 2), problem.n_directions)
    X = rng.standard_normal((problem.n_rows, n_block))
    # sqrt(metric), a constant column of the embedding, is the lowest eigenvector of all.
    X[:, 0] = np.sqrt(problem.metric)
    if start is not None:
        n_start = min(start.shape[1], n_block - 1)
        X[:, 1 : n_start + 1] = start[:, :n_start]
    values, X = _rayleigh_ritz(problem, _polar(problem, X))
    n_products = 0
    for _ in range(max_iter):
        residuals = _residuals(problem, values, X)
        if residuals[:n_vectors].max() <= tol:
            break
        # Converged leading vectors rest, or they would drown the others in the filter.
        n_locked = int(np.argmax(residuals > 0.1 * tol))
        locked, moving = X[:, :n_locked], X[:, n_locked:]
        degree = _filter_degree(values, n_vectors, problem.spectrum_bound)
        moving = _chebyshev(problem, moving, values[n_locked], values[-1], degree)
        moving -= locked @ (locked.T @ moving)
        values, X = _rayleigh_ritz(problem, _polar(problem, np.hstack([locked, moving])))
        n_products += degree
    return _result(problem, values[:n_vectors], X[:, :n_vectors], max(1, n_products))


def _filter_degree(values, n_vectors, bound):
    """Degree that magnifies the last wanted direction by `FILTER_GAIN`.

    Less if the lowest direction would then be magnified by more than `FILTER_RANGE`.
    """
    width = max(bound - values[-1], 1e-12 * bound)
    rates = np.arccosh(1.0 + np.maximum(2.0 * (values[-1] - values) / width, 1e-12))
    degree = min(np.log(FILTER_GAIN) / rates[n_vectors - 1], np.log(FILTER_RANGE) / rates[0])
    return int(np.clip(degree, *FILTER_DEGREES))


def _chebyshev(problem, X, lowest, cut, degree):
    """Chebyshev polynomial of PAP, bounded by one on [cut, bound], applied to X.

    Divided by its value at ``lowest``, so that nothing overflows.
    """
    upper = problem.spectrum_bound * (1 + 1e-6)
    half_width, center = 0.5 * (upper - cut), 0.5 * (upper + cut)
    first_scale = half_width / (lowest - center)
    scale = first_scale
    before, current = X, (problem.project(problem.apply(X)) - center * X) * (scale / half_width)
    for _ in range(degree - 1):
        next_scale = 1.0 / (2.0 / first_scale - scale)
        product = problem.project(problem.apply(current)) - center * current
        product *= 2.0 * next_scale / half_width
        product -= before * (scale * next_scale)
        before, current, scale = current, product, next_scale
    return current


def _polar(problem, X):
    """The orthonormal block nearest to PX; it spans the same space, so it is fair too."""
    X = problem.project(X)
    norm = np.linalg.norm(X, axis=0)
    U, _, Vt = linalg.svd(X / np.where(norm > 0, norm, 1.0), full_matrices=False)
    return problem.project(U @ Vt)


def _rayleigh_ritz(problem, X):
    inner = X.T @ problem.apply(X)
    values, rotation = linalg.eigh(0.5 * (inner + inner.T))
    return values, X @ rotation


def _residuals(problem, values, X):
    difference = problem.project(problem.apply(X)) - X * values
    return np.linalg.norm(difference, axis=0) / problem.spectrum_bound


def _result(problem, values, X, n_iter):
    X = problem.project(X)
    X = X * _signs(X)
    return EigenResult(values, X, n_iter, float(_residuals(problem, values, X).max()))


def _signs(X):
    """Signs that make each column's largest entry positive, the first one among near ties."""
    size = np.abs(X)
    first = np.argmax(size >= (1 - 1e-6) * size.max(axis=0), axis=0)
    return np.where(X[first, np.arange(X.shape[1])] < 0, -1.0, 1.0)


SOLVERS = {"dense": solve_dense, "deflated": solve_deflated, "polar": solve_polar}
