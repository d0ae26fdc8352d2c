"""One-stage fair spectral clustering of one or several views: FMSC."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from fairanchor._kernels import _one_stage as kernels
from fairanchor._utils._shared_state import (
    warn_unconverged,
)
from fairanchor._utils._sklearn_compat import Interval, StrOptions
from fairanchor._utils._typing import Seed, Table, Weights
from fairanchor.cluster._affinity import (
    degrees_of,
    heat_kernel_graph,
    scale_both_sides,
    weigh_graph,
)
from fairanchor.cluster._base import COMMON_CONSTRAINTS, FairClusterer, check_rows
from fairanchor.cluster._spectral import (
    FairLaplacian,
    cluster_embedding,
    solve,
)
from fairanchor.groups._columns import check_pairing
from fairanchor.groups._groups import Groups, count_cells

#: ``fairness_weight="auto"`` is so many times n_clusters / W.
AUTO_WEIGHT = 20.0


class OneStageFairSpectralClustering(FairClusterer):
    """Spectral clustering that descends on the labels themselves, with a fairness penalty.

    Over partitions with indicator matrix Y, and G the one-hot matrix of the groups,

        minimise ``tr( (YᵀY)⁻¹ Yᵀ (L + λ GGᵀ) Y )``,   ``L = I - D^{-1/2} S D^{-1/2}``

    on a nearest-neighbour graph S with degrees D. The second term equals
    ``λ Σ_l N_l Σ_r (N_lr / N_l)²``: never below ``λ n Σ_r share_r²``, which it attains just when
    every cluster mirrors the data. Any number of groups is supported.

    *Several views* of the same rows (say, an image and its caption) have a graph and a Laplacian
    ``L_v`` each. With ``e_v = tr((YᵀY)⁻¹ Yᵀ L_v Y)`` the first term is the geometric mean of the
    V numbers ``e_v``. A sweep lowers its tangent ``Σ_v α_v e_v``, whose weights
    ``α_v = mean / (V e_v)`` are learned anew before each one: views that have the clusters count
    more. Views should have the same clusters; clusters that only exist in the combination of two
    views are better found in the columns of both as a single view.

    *Guaranteed*: the objective never increases from sweep to sweep, and at the end (unless
    ``tol`` or ``max_iter`` stopped it) no move of a single row lowers it. *Not guaranteed*: any
    balance, since fairness is a penalty; the result is a local minimum that depends on the start
    and on the order of the rows.

    Cost of a sweep: O(edges + n × clusters), memory O(edges) of all views; GGᵀ is never formed. The
    start needs the lowest eigenvectors of the Laplacian of the mean graph (dense up to 2000 rows,
    then sparse), each graph a neighbour search.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    fairness_weight : float or "auto", default="auto"
        λ. The graph's term is at most ``n_clusters`` while the fairness term grows with the
        number of rows (or their weight) W, so the same λ requires more fairness on more rows.
        ``"auto"`` is 20 n_clusters / W, whose effect does not depend on W.
    n_neighbors : int, default=10
        Number of neighbours of each row in the graph, at most the number of other rows.
    bandwidth : float or "auto", default="auto"
        t of the kernel ``exp(-d²/(2t²))``; ``"auto"`` is the median distance to a neighbour.
    max_iter : int, default=50
        Largest number of sweeps.
    tol : float, default=1e-4
        Stop when a sweep lowers the objective by this much relative to the part of it that
        labels can change, its excess over ``λ n Σ_r share_r²``.
    n_init : int, default=10
        Starts of the k-means that gives the first labels.
    views : list of int, default=None
        Numbers of columns of the views, which are beside each other in X; None is a single view.
        ``fit`` also takes a list of arrays with the same rows, which are then the views. Inside
        `AnchorFairClustering`, whose anchors have all columns, state the numbers here and pass
        ``np.hstack(views)``; its other steps take distances over all columns.
    random_state : int, RandomState instance or None, default=None
        For the first labels; the descent has no randomness.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row.
    objective_path_ : ndarray of shape (n_iter + 1,)
        Objective at the first labels and after each sweep.
    objective_ : float
        Its last value.
    fairness_weight_ : float
        λ that was used.
    views_ : list of int
        Number of columns of each view.
    view_weights_ : ndarray of shape (n_views,)
        Shares of the views in the sum of the α.
    counts_ : ndarray of shape (n_clusters, n_groups)
        Weight of each group in each cluster.
    balance_ : float
        Worst ratio of a cluster's smallest group to its largest.
    groups_ : ndarray of shape (n_groups,)
        Names, in the order of the columns of ``counts_``.
    n_iter_ : int
        Number of sweeps.

    Notes
    -----
    *Weights.* A row of weight w stands for w equal rows with the same neighbours, similar to
    each other by one (not counting themselves). With ``d_i = Σ_j w_j S_ij + (w_i - 1)`` this gives

        ``Σ_l [ N_l - Σ_{ij in l} w_i w_j S_ij / sqrt(d_i d_j) - Σ_{i in l} w_i (w_i - 1) / d_i
        + λ Σ_r N_lr² ] / N_l``

    with weighted counts N: for integer weights the objective of the repeated rows in that
    graph. For weights below one the terms in ``w_i - 1`` are left out.

    References
    ----------
    Li, Hu, Du, Chen, Jiang, Zhou. One-stage fair multi-view spectral clustering. ACM
    Multimedia 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from fairanchor import OneStageFairSpectralClustering
    >>> X = np.array([[0.0], [0.1], [0.2], [0.3], [5.0], [5.1], [5.2], [5.3]])
    >>> sex = ["f", "m", "f", "m", "f", "m", "f", "m"]
    >>> model = OneStageFairSpectralClustering(n_clusters=2, n_neighbors=3, random_state=0)
    >>> model.fit(X, sensitive_features=sex).balance_
    1.0

    A second view without clusters counts less:

    >>> noise = np.random.default_rng(0).normal(size=(8, 2))
    >>> model.fit([X, noise], sensitive_features=sex).balance_
    1.0
    >>> bool(model.view_weights_[0] > 0.8)
    True
    """

    _parameter_constraints: dict = {
        **COMMON_CONSTRAINTS,
        "fairness_weight": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "bandwidth": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "views": [list, tuple, None],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        fairness_weight: float | str = "auto",
        n_neighbors: int = 10,
        bandwidth: float | str = "auto",
        max_iter: int = 50,
        tol: float = 1e-4,
        n_init: int = 10,
        views: list[int] | None = None,
        random_state: Seed = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.fairness_weight = fairness_weight
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.views = views
        self.random_state = random_state

    def _check_input(
        self, X: Any, sensitive_features: Table, sample_weight: Weights
    ) -> tuple[np.ndarray, Any, np.ndarray | None]:
        """Views beside each other; sets ``views_``."""
        widths = self.views
        if _is_list_of_tables(X):
            for view in X:
                check_pairing(view, sensitive_features)
            arrays = [check_rows(self, view) for view in X]
            if len({len(view) for view in arrays}) > 1:
                raise ValueError(
                    f"The views have {[len(view) for view in arrays]} rows, expected the same "
                    "number in each: row i of every view is the same sample."
                )
            X, widths = np.hstack(arrays), [view.shape[1] for view in arrays]
            if self.views is not None and list(self.views) != widths:
                raise ValueError(f"views={self.views}, but the arrays have {widths} columns.")
        X, groups, weights = super()._check_input(X, sensitive_features, sample_weight)
        self.views_ = [X.shape[1]] if widths is None else list(widths)
        is_whole = all(isinstance(width, Integral) and int(width) > 0 for width in self.views_)
        if not is_whole or sum(self.views_) != X.shape[1]:
            raise ValueError(
                f"views={self.views} should be positive integers that sum to the "
                f"{X.shape[1]} columns of X: the number of columns of each view."
            )
        return X, groups, weights

    def _fit(self, X: np.ndarray, groups: Groups, weights: np.ndarray) -> np.ndarray:
        rng = check_random_state(self.random_state)
        graphs = [
            heat_kernel_graph(np.ascontiguousarray(view), self.n_neighbors, self.bandwidth)
            for view in np.split(X, np.cumsum(self.views_)[:-1], axis=1)
        ]
        problem, similarity = _build_problem(graphs, weights, groups.codes)
        labels = _first_labels(similarity, problem, self.n_clusters, self.n_init, rng)
        self.fairness_weight_: Any = self.fairness_weight
        if self.fairness_weight == "auto":
            self.fairness_weight_ = float(AUTO_WEIGHT * self.n_clusters / weights.sum())
        labels, self.objective_path_, self.view_weights_, converged = problem.descend(
            labels, self.fairness_weight_, self.max_iter, self.tol
        )
        self.objective_ = float(self.objective_path_[-1])
        self.n_iter_ = len(self.objective_path_) - 1
        if not converged:
            warn_unconverged(
                f"The objective did not converge in max_iter={self.max_iter} sweeps: the last one "
                f"lowered it by {-np.diff(self.objective_path_)[-1]:.3g}. Increase max_iter."
            )
        return labels


@dataclass(frozen=True)
class OneStageProblem:
    """Associations of the rows in each view."""

    views: list
    rows: kernels.Rows

    def view_weights(self, labels: np.ndarray, n_clusters: int) -> np.ndarray:
        """Slopes of the geometric mean of the views' costs."""
        mass = np.bincount(labels, weights=self.rows.weights, minlength=n_clusters)
        scaled = (1.0 / np.sqrt(mass[labels]), labels, np.arange(len(labels) + 1))
        onehot = sparse.csr_array(scaled, shape=(len(labels), n_clusters))
        inside = [float((onehot * (view @ onehot)).sum()) for view in self.views]
        # A view in which no link is cut costs nothing, up to rounding.
        costs = np.maximum(n_clusters - np.array(inside), 1e-12 * n_clusters)
        return np.exp(np.log(costs).mean()) / (len(costs) * costs)

    def graph(self, view_weights: np.ndarray) -> kernels.Association:
        """Association of all views together, as the kernels take it."""
        total = sum(weight * view for weight, view in zip(view_weights, self.views, strict=True))
        loops = total.diagonal()
        total = sparse.csr_array(total - sparse.diags_array(loops))
        total.eliminate_zeros()
        total.sort_indices()
        return kernels.Association(total.indptr, total.indices, total.data, loops)

    def sums(self, graph: kernels.Association, labels: np.ndarray, n_clusters: int) -> kernels.Sums:
        """Sums of the clusters."""
        weights, codes, shares = self.rows
        mass = np.bincount(labels, weights=weights, minlength=n_clusters)
        table = count_cells(labels, codes, n_clusters, len(shares), weights)
        first = np.repeat(labels, np.diff(graph.indptr))
        inside = np.concatenate([graph.data * (first == labels[graph.indices]), graph.loops])
        first = np.concatenate([first, labels])
        association = np.bincount(first, weights=inside, minlength=n_clusters)
        sizes = np.bincount(labels, minlength=n_clusters)
        return kernels.Sums(sizes, mass, association, table - mass[:, None] * shares)

    def descend(
        self, labels: np.ndarray, fairness_weight: float, max_iter: int, tol: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
        """Sweep until nothing moves, little changes, or ``max_iter`` is reached.

        Returns labels, the objective before the first sweep and after each one, the weights of the
        views, and whether it converged.
        """
        labels, shares = labels.astype(np.int64), self.rows.shares
        n_clusters = int(labels.max()) + 1
        costs: list[float] = []
        converged = False
        while True:
            if not costs or len(self.views) > 1:
                view_weights = self.view_weights(labels, n_clusters)
                graph = self.graph(view_weights)
            # Afresh before each sweep, so that rounding errors do not add up.
            sums = self.sums(graph, labels, n_clusters)
            costs.append(_changeable_cost(sums, fairness_weight, float(view_weights.sum())))
            little = len(costs) > 2 and costs[-2] - costs[-1] <= tol * abs(costs[-1])
            converged = converged or little
            if converged or len(costs) > max_iter:
                break
            converged = kernels.sweep(graph, self.rows, fairness_weight, labels, sums) == 0
        objectives = np.array(costs) + fairness_weight * sums.mass.sum() * (shares**2).sum()
        return labels, objectives, view_weights / view_weights.sum(), converged


def _changeable_cost(sums: kernels.Sums, fairness_weight: float, links: float) -> float:
    """Objective without its lower bound ``λ n Σ share²``; not negative.

    ``links`` is the cost of a cluster without association.
    """
    unfairness = (sums.excess**2).sum(axis=1)
    return float((links + (fairness_weight * unfairness - sums.association) / sums.mass).sum())


def _is_list_of_tables(X: Any) -> bool:
    is_list = isinstance(X, (list, tuple)) and len(X) > 0
    return is_list and all(len(getattr(view, "shape", ())) == 2 for view in X)


def _build_problem(
    graphs: list, weights: np.ndarray, codes: np.ndarray
) -> tuple[OneStageProblem, Any]:
    """The problem for the sweeps, and the mean graph among weighted rows for the first labels."""
    graphs = [weigh_graph(graph, weights, equal_rows=True) for graph in graphs]
    views = [scale_both_sides(graph, np.sqrt(weights / degrees_of(graph))) for graph in graphs]
    shares = np.bincount(codes, weights=weights) / weights.sum()
    problem = OneStageProblem(views, kernels.Rows(weights, codes, shares))
    return problem, sum(graphs) / len(graphs)


def _first_labels(
    weighted: Any, problem: OneStageProblem, n_clusters: int, n_init: int, rng: Any
) -> np.ndarray:
    """k-means on the lowest eigenvectors, rows of length one."""
    one_group = np.zeros_like(problem.rows.codes)
    laplacian = FairLaplacian(sparse.csr_array(weighted), one_group, problem.rows.weights)
    # A start only: accurate to what k-means can tell apart.
    _, vectors, _, _ = solve(laplacian, n_clusters, "auto", 1e-5, 200, rng)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    embedding = vectors / np.where(length > 0, length, 1.0)
    return cluster_embedding(embedding, n_clusters, problem.rows.weights, n_init, rng, max_iter=50)
