"""Fairlets: split the rows into small balanced sets, then cluster these."""

import warnings
from numbers import Integral

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from fairanchor._kernels._fairlets import fairlet_medoids, swap_medoids
from fairanchor._utils._scaling import power_of_two_scale
from fairanchor._utils._sklearn_compat import Interval, StrOptions, fit_context
from fairanchor.cluster._base import FairClusterer
from fairanchor.cluster._fairlet_flow import flow_fairlets, vanilla_fairlets
from fairanchor.cluster._fairlet_tree import tree_fairlets

#: Medoids are searched on a matrix of this many points; more points are sampled.
DENSE_POINTS = 2000

#: A larger fairlet is represented by the row nearest to its mean.
EXACT_MEDOID_SIZE = 512


class FairletClustering(FairClusterer):
    """Clustering through fairlets (Chierichetti et al., 2017), with the tree of Backurs et al.

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
    mirror the population. ``sample_weight`` has no part in the split, and no such promise
    holds for sums of weights; it only weighs the representatives.

    Let f be the number of fairlets. ``method="flow"`` is exact, with super-quadratic time and
    ``n_r x f`` memory (2 s for 3,000 rows around 1,000 hubs); ``"tree"`` takes time and memory
    near-linear in n. Clustering the representatives costs O(f k) for k-center. For k-median
    it is a swap search on all of them up to 2,000, beyond that on ``n_init`` random samples
    of 2,000 (the best medoids so far included), of which the best on all of them is kept.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, at most the number of fairlets.
    method : {"flow", "tree", "vanilla"}, default="flow"
        How to split: exact transport; a randomly shifted quadtree; or at random, a baseline
        without geometry. With two groups the tree also makes fairlets around rows of the
        larger group, hence sometimes fewer fairlets than the smallest group has rows.
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
        The t' that was used: the promise is ``1 / max_ratio_``. 1 for a single group.
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

    _parameter_constraints = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "method": [StrOptions({"flow", "tree", "vanilla"})],
        "objective": [StrOptions({"kcenter", "kmedian"})],
        "max_ratio": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters=8,
        *,
        method="flow",
        objective="kcenter",
        max_ratio="auto",
        n_init=5,
        max_iter=100,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.method = method
        self.objective = objective
        self.max_ratio = max_ratio
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        """Split the rows into fairlets and cluster these.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row; several columns mean their intersection.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row in the clustering of the representatives. A k-center radius
            only heeds whether a fairlet has any weight.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X, groups, weights = self._check_input(X, sensitive_features, sample_weight)
        scale = power_of_two_scale(X)
        points = X * scale
        random_state = check_random_state(self.random_state)

        self.max_ratio_, loads = _star_loads(groups, self.max_ratio)
        hub_of_row = self._split(points, groups, loads, random_state)
        hubs, fairlets = np.unique(hub_of_row, return_inverse=True)
        self._check_n_fairlets(len(hubs), groups)
        self.fairlets_ = fairlets.reshape(-1)
        self.fairlet_centers_ = _representatives(points, self.fairlets_, self.objective)

        row_weights = np.ones(len(X)) if weights is None else weights
        centers, self.n_iter_ = find_centers(
            points[self.fairlet_centers_],
            np.bincount(self.fairlets_, weights=row_weights),
            self.n_clusters,
            objective=self.objective,
            n_init=self.n_init,
            max_iter=self.max_iter,
            random_state=random_state,
        )
        labels = nearest_center(points[self.fairlet_centers_], centers)[self.fairlets_]
        center_rows = self.fairlet_centers_[centers]
        self._store_labels(labels, groups, weights)
        self.cluster_centers_ = X[center_rows]
        self.decomposition_cost_ = (
            _cost(points, hub_of_row, np.ones(len(X)), self.objective) / scale
        )
        self.inertia_ = _cost(points, center_rows[labels], row_weights, self.objective) / scale
        return self

    def _split(self, X, groups, loads, random_state):
        """Row index of the hub of each row. A single group needs no balance: all are hubs."""
        if groups.n_groups == 1:
            return np.arange(len(X))
        if self.method == "flow":
            return flow_fairlets(X, groups, loads, self.objective)
        if self.method == "tree":
            return tree_fairlets(X, groups, loads, random_state)
        return vanilla_fairlets(groups, loads, random_state)

    def _check_n_fairlets(self, n_fairlets, groups):
        if n_fairlets < self.n_clusters:
            raise ValueError(
                f"n_clusters={self.n_clusters} should be <= the number of fairlets, "
                f"{n_fairlets}: clusters are unions of fairlets, and each fairlet needs a row of "
                f"group {groups.names[-1]!r}, which has n_samples={groups.sizes[-1]}."
            )


def _star_loads(groups, max_ratio):
    """The integer t', and for each group but the smallest the least and most rows in a star."""
    smallest, largest = int(groups.sizes[-1]), int(groups.sizes[0])
    needed = -(-largest // smallest)
    if max_ratio == "auto":
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


def _representatives(X, fairlets, objective):
    members = np.argsort(fairlets, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(fairlets))])
    return fairlet_medoids(X, members, starts, objective == "kcenter", EXACT_MEDOID_SIZE)


def _cost(X, target_rows, weights, objective):
    distance = np.sqrt(((X - X[target_rows]) ** 2).sum(axis=1))
    if objective == "kcenter":
        return float(distance[weights > 0].max())
    return float(weights @ distance)


# Clustering of points by centres that are points. Also the start of `BoundedFairAssignment`.


def find_centers(points, weights, n_clusters, *, objective, n_init, max_iter, random_state):
    """Indices of distinct points that serve as centres, and the number of iterations."""
    if objective == "kcenter":
        return _farthest_first(points, weights, n_clusters, n_init, random_state), 1
    return _medoids(points, weights, n_clusters, n_init, max_iter, random_state)


def nearest_center(points, centers):
    """Position of the nearest centre of each point; a centre is always its own."""
    labels = np.argmin(cdist(points, points[centers]), axis=1)
    labels[centers] = np.arange(len(centers))
    return labels


def _farthest_first(points, weights, n_clusters, n_init, random_state):
    """Gonzalez: the farthest point becomes the next centre; the best of several starts."""
    counted = np.flatnonzero(weights > 0)
    best_radius, best = np.inf, None
    for start in random_state.permutation(counted)[:n_init]:
        centers = [start]
        distance = cdist(points, points[[start]])[:, 0]
        distance[weights == 0] = 0.0
        while len(centers) < n_clusters:
            # Copies of centres have distance 0; the next free point keeps centres distinct.
            distance[centers] = -1.0
            centers.append(np.argmax(distance))
            distance = np.minimum(distance, cdist(points, points[centers[-1:]])[:, 0])
        radius = distance.max()
        if radius < best_radius:
            best_radius, best = radius, np.array(centers)
    return best


def _medoids(points, weights, n_clusters, n_init, max_iter, random_state):
    """Weighted k-medoids by swaps, on samples when there are many points (CLARA)."""
    best_cost, best, n_iter, converged = np.inf, np.empty(0, dtype=np.int64), 1, True
    for _ in range(n_init):
        sample = _sample(len(points), max(DENSE_POINTS, 4 * n_clusters), best, random_state)
        distance = cdist(points[sample], points[sample])
        medoids = _seed_medoids(distance, weights[sample], n_clusters, random_state)
        cost, n_passes, settled = swap_medoids(distance, weights[sample], medoids, max_iter)
        if len(sample) < len(points):
            cost = weights @ cdist(points, points[sample[medoids]]).min(axis=1)
        if cost < best_cost:
            best_cost, best, n_iter, converged = cost, sample[medoids], n_passes, settled
    if not converged:
        warnings.warn(
            f"The search for medoids still improved after max_iter={max_iter} passes.",
            ConvergenceWarning,
            stacklevel=4,
        )
    return best, n_iter


def _sample(n_points, size, kept, random_state):
    """Sorted indices: all points if they are few, else a sample that includes ``kept``."""
    if n_points <= size:
        return np.arange(n_points)
    drawn = random_state.choice(n_points, size=size, replace=False)
    return np.union1d(drawn, kept)


def _seed_medoids(distance, weights, n_clusters, random_state):
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
