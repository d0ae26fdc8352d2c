"""Fairlets: split the rows into small balanced sets, then cluster these."""

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from fairanchor._kernels import _fairlets as kernels
from fairanchor._utils._scaling import power_of_two_scale
from fairanchor._utils._shared_state import users_stacklevel
from fairanchor._utils._sklearn_compat import Interval, StrOptions
from fairanchor._utils._typing import Seed
from fairanchor.cluster._base import COMMON_CONSTRAINTS, FairClusterer
from fairanchor.groups._groups import Groups

#: Medoids are searched on a matrix of this many points; more points are sampled.
DENSE_POINTS = 2000
#: A larger fairlet is represented by the row nearest to its mean.
EXACT_MEDOID_SIZE = 512
#: Halvings of each coordinate of the tree; rows that agree in all of them share a leaf.
TREE_DEPTH = 30


class FairletClustering(FairClusterer):
    """Clustering through fairlets (Chierichetti et al., 2017).

    A *fairlet* is a star of rows: a hub, and rows of the other groups around it. The rows
    are split into fairlets, each is represented by one of its rows, the representatives
    are clustered and every row goes where its representative goes. Splitting minimises ::

        sum or max over rows of ||x_i - hub(i)||
        subject to  least_r <= rows of group r around a hub <= most_r   for every other group r

    where the hubs are the rows of the smallest group. With two groups ``least_r = 1`` and
    ``most_r = t'``. With more groups, an extension of the paper, each group is split on its
    own with ``n_r / n_smallest`` rounded down and up (or 1 and t' when ``max_ratio`` is given).

    *Guaranteed for the labels*: every cluster is a union of fairlets, so counted in rows its
    smallest group is at least ``1 / t'`` of its largest. This is a floor: clusters need not
    mirror the population. ``sample_weight`` has no part in the split, and no such guarantee
    holds for sums of weights; it only weighs the representatives.

    Let f be the number of fairlets. ``method="flow"`` is exact, with cubic time and quadratic
    memory in the size of the largest group (10 s for 3,000 rows around 1,000 hubs); ``"tree"``
    takes time and memory near-linear in n. Clustering the representatives costs O(f k) for
    k-center. For k-median
    it is a swap search on all of them up to 2,000, beyond that on ``n_init`` random samples
    of 2,000 (the best medoids so far included), of which the best on all of them is kept.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, at most the number of fairlets.
    method : {"flow", "tree", "vanilla"}, default="flow"
        How to split: exact transport; in the boxes of a randomly shifted quadtree, as Backurs et
        al. do, where rows are matched to hubs in the smallest box that has both; or at random,
        a baseline without geometry.
    objective : {"kcenter", "kmedian"}, default="kcenter"
        Largest distance or sum of distances, both for the split and for the clusters.
    max_ratio : int or "auto", default="auto"
        The integer t': the most rows of one group for a row of another in a fairlet.
        ``"auto"`` is the ratio of the largest to the smallest group, rounded up, and
        nothing smaller is possible.
    n_init : int, default=5
        Starts of the clustering of the representatives, of which the best is kept.
    max_iter : int, default=100
        Most passes of the swap search (k-median).
    random_state : int, RandomState instance or None, default=None
        Determines the starts, the shift of the tree and the baseline.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row.
    fairlets_ : ndarray of shape (n_samples,)
        Fairlet of each row; fairlets are numbered in the order of their hubs.
    fairlet_centers_ : ndarray of shape (n_fairlets,)
        Row that represents each fairlet: the least sum of (k-median) or largest (k-center)
        distance to the others; in a fairlet of more than 512 rows the one nearest the mean.
    decomposition_cost_ : float
        Sum (k-median) or maximum (k-center) of the distances of rows to their hubs. With
        ``method="flow"`` no split around rows of the smallest group has a smaller one.
    max_ratio_ : int
        The t' that was used: ``1 / max_ratio_`` is guaranteed. 1 for a single group.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Representatives that are the centres of the clusters.
    inertia_ : float
        Weighted sum (k-median) or maximum (k-center) of the distances of rows to the centres.
    groups_ : ndarray of shape (n_groups,)
        Names of the groups, sorted: the columns of ``counts_``.
    counts_ : ndarray of shape (n_clusters, n_groups)
        Rows, or their weight, in each cluster and group.
    balance_ : float
        Smallest group over largest group in the worst cluster, from ``counts_``.
    n_iter_ : int
        Passes of the swap search; 1 for k-center.
    n_features_in_ : int
        Number of features.

    References
    ----------
    .. [1] F. Chierichetti, R. Kumar, S. Lattanzi, S. Vassilvitskii, "Fair clustering through
       fairlets", NeurIPS 2017.
    .. [2] A. Backurs, P. Indyk, K. Onak, B. Schieber, A. Vakilian, T. Wagner, "Scalable fair
       clustering", ICML 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from fairanchor import FairletClustering
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> group = ["a", "b", "a", "a", "b", "a"]
    >>> model = FairletClustering(2, random_state=0).fit(X, sensitive_features=group)
    >>> model.counts_
    array([[2, 1],
           [2, 1]])
    >>> model.fairlets_
    array([0, 0, 0, 1, 1, 1])
    """

    _parameter_constraints: dict = {
        **COMMON_CONSTRAINTS,
        "method": [StrOptions({"flow", "tree", "vanilla"})],
        "objective": [StrOptions({"kcenter", "kmedian"})],
        "max_ratio": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        method: str = "flow",
        objective: str = "kcenter",
        max_ratio: int | str = "auto",
        n_init: int = 5,
        max_iter: int = 100,
        random_state: Seed = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.method = method
        self.objective = objective
        self.max_ratio = max_ratio
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit(self, X: np.ndarray, groups: Any, weights: np.ndarray | None) -> None:
        scale = power_of_two_scale(X)
        points = X * scale
        random_state = check_random_state(self.random_state)

        self.max_ratio_, loads = _star_loads(groups, self.max_ratio)
        hub_of_row = np.arange(len(X))
        if groups.n_groups > 1:  # a single group needs no balance: all rows are hubs
            hub_of_row = self._split(points, groups, loads, random_state)
        hubs, fairlets = np.unique(hub_of_row, return_inverse=True)
        if len(hubs) < self.n_clusters:
            raise ValueError(
                f"n_clusters={self.n_clusters} should be <= the number of fairlets, {len(hubs)}: "
                "clusters are unions of fairlets, and each fairlet needs a row of group "
                f"{groups.names[-1]!r}, which has n_samples={groups.sizes[-1]}."
            )
        self.fairlets_ = fairlets.reshape(-1)
        self.fairlet_centers_ = _representatives(points, self.fairlets_, self.objective)

        row_weights = np.ones(len(X)) if weights is None else weights
        representatives = points[self.fairlet_centers_]
        of_fairlets = np.bincount(self.fairlets_, weights=row_weights)
        centers, self.n_iter_ = find_centers(self, representatives, of_fairlets, random_state)
        nearest = np.argmin(cdist(representatives, representatives[centers]), axis=1)
        nearest[centers] = np.arange(len(centers))  # equal points keep centres of their own
        labels = nearest[self.fairlets_]
        center_rows = self.fairlet_centers_[centers]
        self._store_labels(labels, groups, weights)
        self.cluster_centers_ = X[center_rows]
        self.decomposition_cost_ = self._cost(points, hub_of_row, np.ones(len(X))) / scale
        self.inertia_ = self._cost(points, center_rows[labels], row_weights) / scale

    def _split(
        self,
        X: np.ndarray,
        groups: Groups,
        loads: list[tuple[int, int]],
        random_state: np.random.RandomState,
    ) -> np.ndarray:
        """Row index of the hub of each row; the rows of the last group are the hubs."""
        hubs = np.flatnonzero(groups.codes == groups.n_groups - 1)
        hub_of_row = np.empty(len(X), dtype=np.int64)
        hub_of_row[hubs] = hubs
        if self.method == "tree":
            tree = kernels.build_tree(_cells(X, random_state))
            # Children end no later than their parents: this is a post-order.
            post_order = np.lexsort((-tree[1][:, 0], tree[1][:, 1]))
        for group, (least, most) in enumerate(loads):
            rows = np.flatnonzero(groups.codes == group)
            if self.method == "flow":
                distance = cdist(X[rows], X[hubs])
                hub_of_row[rows] = hubs[_transport(distance, least, most, self.objective)]
            elif self.method == "tree":
                kind = np.zeros(len(X), dtype=np.int64)
                kind[rows], kind[hubs] = 1, 2
                n_extra = len(rows) - least * len(hubs)
                kernels.match_upwards(tree, post_order, kind, least, most, n_extra, hub_of_row)
            else:
                dealt = np.arange(len(rows)) % len(hubs)
                hub_of_row[random_state.permutation(rows)] = random_state.permutation(hubs)[dealt]
        return hub_of_row

    def _cost(self, X: np.ndarray, target_rows: np.ndarray, weights: np.ndarray) -> float:
        distance = np.sqrt(((X - X[target_rows]) ** 2).sum(axis=1))
        if self.objective == "kcenter":
            return float(distance[weights > 0].max())
        return float(weights @ distance)


def _star_loads(groups: Groups, max_ratio: int | str) -> tuple[int, list[tuple[int, int]]]:
    """The integer t', and for each group but the smallest the least and most rows in a star."""
    smallest, largest = int(groups.sizes[-1]), int(groups.sizes[0])
    needed = -(-largest // smallest)
    if isinstance(max_ratio, str):
        floor = 1 if groups.n_groups == 2 else None
        loads = [(floor or int(n) // smallest, -(-int(n) // smallest)) for n in groups.sizes[:-1]]
        return needed, loads
    if max_ratio < needed:
        raise ValueError(
            f"max_ratio={max_ratio} should be >= {needed}: group {groups.names[0]!r} has {largest} "
            f"rows and group {groups.names[-1]!r} has {smallest}, so not every row can be in a "
            f"fairlet with at most {max_ratio} rows of one group for a row of another."
        )
    return int(max_ratio), [(1, int(max_ratio))] * (groups.n_groups - 1)


# Exact stars: a transportation problem for each group.


def _transport(distance: np.ndarray, least: int, most: int, objective: str) -> np.ndarray:
    """Hub of each row: the least sum of distances, for k-center within the least radius."""
    if objective == "kcenter":
        radius = _least_radius(distance, least, most)
        distance = np.where(distance <= radius, distance, np.inf)
    n_rows, n_hubs = distance.shape
    # Each hub has `most` slots; further rows, which fill the slots that are left, cost nothing
    # but may not use the first `least`.
    fillers = np.zeros((n_hubs * most - n_rows, n_hubs, most))
    fillers[:, :, :least] = np.inf
    fillers = fillers.reshape(len(fillers), n_hubs * most)
    slots = np.vstack([np.repeat(distance, most, axis=1), fillers])
    return linear_sum_assignment(slots)[1][:n_rows] // most


def _least_radius(distance: np.ndarray, least: int, most: int) -> float:
    """Least distance within which every row has a hub and every hub its rows."""
    lower = max(distance.min(axis=1).max(), distance.min(axis=0).max())
    radii = np.unique(distance[distance >= lower])
    # It is mostly near the lower bound, where there are few pairs.
    high = 0
    while high < len(radii) - 1 and not _has_flow(distance <= radii[high], least, most):
        high = min(2 * high + 1, len(radii) - 1)
    low = (high + 1) // 2
    while low < high:
        middle = (low + high) // 2
        if _has_flow(distance <= radii[middle], least, most):
            high = middle
        else:
            low = middle + 1
    return float(radii[high])


def _has_flow(allowed: np.ndarray, least: int, most: int) -> bool:
    """Whether rows can go to allowed hubs, ``least`` to ``most`` of them each.

    A hub's first rows go to the sink directly, further ones through a node that passes on what
    is left when every hub has its least.
    """
    n_rows, n_hubs = allowed.shape
    rows, hubs = np.nonzero(allowed)
    each_row, each_hub = np.arange(n_rows), n_rows + np.arange(n_hubs)
    source, spare, sink = n_rows + n_hubs + np.arange(3)
    edges = [
        (np.full(n_rows, source), each_row, 1),
        (rows, n_rows + hubs, 1),
        (each_hub, np.full(n_hubs, sink), least),
        (each_hub, np.full(n_hubs, spare), most - least),
        (np.array([spare]), np.array([sink]), n_rows - least * n_hubs),
    ]
    # SciPy's flows have 32 bits; no capacity exceeds the number of rows.
    capacities = np.concatenate([np.full(len(tails), size, np.int32) for tails, _, size in edges])
    places = tuple(np.concatenate([edge[k] for edge in edges]).astype(np.int32) for k in (0, 1))
    graph = csr_array((capacities, places), shape=(sink + 1, sink + 1))
    return maximum_flow(graph, source, sink).flow_value == n_rows


def _cells(X: np.ndarray, random_state: np.random.RandomState) -> np.ndarray:
    """Integer coordinates of the rows in a randomly shifted box of twice their range.

    Coordinates are ordered by decreasing variance: the first ones are cut first.
    """
    low = X.min(axis=0)
    side = float((X.max(axis=0) - low).max())
    shift = random_state.uniform(size=X.shape[1])
    if side == 0:
        return np.zeros(X.shape, dtype=np.int64)
    cells = np.floor(((X - low) / side + shift) * 2.0 ** (TREE_DEPTH - 1)).astype(np.int64)
    by_variance = np.argsort(-X.var(axis=0), kind="stable")
    return np.ascontiguousarray(cells[:, by_variance])


def _representatives(X: np.ndarray, fairlets: np.ndarray, objective: str) -> np.ndarray:
    """Row with the least sum, or largest, of the distances to its fairlet."""
    summary = np.max if objective == "kcenter" else np.sum
    members = np.argsort(fairlets, kind="stable")
    chosen = []
    for rows in np.split(members, np.cumsum(np.bincount(fairlets))[:-1]):
        others = X[rows] if len(rows) <= EXACT_MEDOID_SIZE else X[rows].mean(axis=0, keepdims=True)
        chosen.append(rows[np.argmin(summary(cdist(X[rows], others), axis=1))])
    return np.array(chosen)


# Clustering of points by centres that are points. Also the start of `BoundedFairAssignment`.


def find_centers(
    model: Any, points: np.ndarray, weights: np.ndarray, random_state: np.random.RandomState
) -> tuple[np.ndarray, int]:
    """Indices of distinct points that serve as centres, and the number of iterations.

    ``model`` has the parameters ``n_clusters``, ``objective``, ``n_init`` and ``max_iter``.
    """
    if model.objective == "kcenter":
        return _farthest_first(model, points, weights, random_state), 1
    return _medoids(model, points, weights, random_state)


def _farthest_first(
    model: Any, points: np.ndarray, weights: np.ndarray, random_state: np.random.RandomState
) -> np.ndarray:
    """Gonzalez: the farthest point becomes the next centre; the best of several starts."""
    best_radius, best = np.inf, np.empty(0, dtype=np.int64)
    for start in random_state.permutation(np.flatnonzero(weights > 0))[: model.n_init]:
        centers = [start]
        distance = cdist(points, points[[start]])[:, 0]
        distance[weights == 0] = 0.0
        while len(centers) < model.n_clusters:
            # Copies of centres have distance 0; the next free point keeps centres distinct.
            distance[centers] = -1.0
            centers.append(np.argmax(distance))
            distance = np.minimum(distance, cdist(points, points[centers[-1:]])[:, 0])
        if distance.max() < best_radius:
            best_radius, best = distance.max(), np.array(centers)
    return best


def _medoids(
    model: Any, points: np.ndarray, weights: np.ndarray, random_state: np.random.RandomState
) -> tuple[np.ndarray, int]:
    """Weighted k-medoids by swaps, on samples when there are many points (CLARA)."""
    best_cost, best, n_iter, converged = np.inf, np.empty(0, dtype=np.int64), 1, True
    size = max(DENSE_POINTS, 4 * model.n_clusters)
    for _ in range(model.n_init):
        sample = np.arange(len(points))
        if len(points) > size:
            drawn = random_state.choice(len(points), size=size, replace=False)
            sample = np.union1d(drawn, best)
        distance = cdist(points[sample], points[sample])
        medoids = _seed_medoids(distance, weights[sample], model.n_clusters, random_state)
        cost, n_passes, is_final = kernels.swap_medoids(
            distance, weights[sample], medoids, model.max_iter
        )
        if len(sample) < len(points):
            cost = weights @ cdist(points, points[sample[medoids]]).min(axis=1)
        if cost < best_cost:
            best_cost, best, n_iter, converged = cost, sample[medoids], n_passes, is_final
    if not converged:
        warnings.warn(
            f"The search for medoids still improved after max_iter={model.max_iter} passes.",
            ConvergenceWarning,
            stacklevel=users_stacklevel(),
        )
    return best, n_iter


def _seed_medoids(
    distance: np.ndarray, weights: np.ndarray, n_clusters: int, random_state: np.random.RandomState
) -> np.ndarray:
    """k-means++ for sums of distances: a point is drawn with its share of the cost."""
    medoids = np.empty(n_clusters, dtype=np.int64)
    share = weights.copy()
    nearest = np.full(len(weights), np.inf)
    for m in range(n_clusters):
        share[medoids[:m]] = 0.0
        total = np.cumsum(share)
        if total[-1] > 0:
            draw = random_state.uniform() * total[-1]
            medoids[m] = min(np.searchsorted(total, draw, side="right"), len(weights) - 1)
        else:
            medoids[m] = np.setdiff1d(np.arange(len(weights)), medoids[:m])[0]
        nearest = np.minimum(nearest, distance[medoids[m]])
        share = weights * nearest
    return medoids
