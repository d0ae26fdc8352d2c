"""Fairlets: split the rows into small balanced sets, then cluster these."""

from functools import partial
from math import gcd
from numbers import Integral
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, maximum_flow
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils import check_random_state

from fairanchor._kernels import _fairlets as kernels
from fairanchor._utils._shared_state import (
    warn_unconverged,
    warn_unfair,
)
from fairanchor._utils._sklearn_compat import Interval, StrOptions
from fairanchor._utils._typing import Seed
from fairanchor.cluster._base import COMMON_CONSTRAINTS, FairClusterer
from fairanchor.groups._groups import Groups

#: Medoids are searched on a matrix of this many points; more points are sampled.
DENSE_POINTS = 2000
#: Medoids that are tried at once.
CANDIDATES = 32
#: A larger fairlet is represented by the row nearest to its mean.
EXACT_MEDOID_SIZE = 512
#: Halvings of each coordinate of the tree; rows that agree in all of them share a leaf.
TREE_DEPTH = 30


class FairletClustering(FairClusterer):
    """Clustering through fairlets (Chierichetti et al., 2017).

    The rows are split into *fairlets*, small sets with enough rows of every group. Each is
    represented by one of its rows, the representatives are clustered, and every row goes where its
    representative goes.

    *Two groups.* Let ``u_ij`` be whole numbers, the units of a row i of one group and a row j of
    the other. For a balance of p / q the split is ::

        minimise    sum of u_ij ||x_i - x_j|| / p   or   the largest ||x_i - x_j|| with u_ij > 0
        subject to  p <= sum_j u_ij <= q,   p <= sum_i u_ij <= q,   u_ij >= 0

    and the fairlets are the connected components of the pairs with ``u_ij > 0``. A component
    with a rows of one group and b of the other has p a <= q b and p b <= q a, since both sides sum
    to the same; and every split into sets with a balance of p / q or more has such numbers. With
    p = 1 the components are stars: a hub of either group, and 1 to q rows of the other group
    around it, so that this is the publication's minimum-cost flow. A fairlet with p > 1 can have
    more than p + q rows.

    *More groups*, an extension of the publication: every row of the smallest group is a hub, and
    each other group is split on its own, with ``n_r / n_smallest`` rows around a hub, rounded
    down and up (or 1 to t' when ``max_ratio`` is given).

    *Guaranteed for the labels*: every cluster is a union of fairlets, so counted in rows its
    smallest group is at least ``1 / max_ratio_`` of its largest. This is a lower bound: clusters
    need not mirror the population. ``sample_weight`` has no part in the split, and no such
    guarantee holds for sums of weights; it only weighs the representatives.

    *When there are fewer fairlets than clusters*, a `FairnessWarning` states which guarantee is
    lost: groups with fewer rows than ``n_clusters``, which cannot be in every cluster, take no part
    in the split and their rows join the fairlet of the nearest row; and if two groups have too
    few fairlets, only rows of the smaller group are hubs.

    Let f be the number of fairlets. ``method="flow"`` is exact: linear programs on a few nearest
    pairs, which grow until no other pair has a negative reduced cost. Memory is quadratic, time
    more (500 × 5,000 rows: 4 s; 1,000 × 2,000 rows that fill every hub, with groups that are apart:
    15 s). ``"tree"`` takes time and memory near-linear in n.
    Clustering the representatives costs O(f k) for k-center. For k-median it is a swap search on
    all of them up to 2,000, beyond that on ``n_init`` random samples of 2,000 (the best medoids so
    far included), of which the best on all of them is kept.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    method : {"flow", "tree"}, default="flow"
        How to split: exactly, or in the boxes of a randomly shifted quadtree, as Backurs et al. do,
        where rows are paired in the smallest box that has rows of both groups to spare.
    objective : {"kcenter", "kmedian"}, default="kcenter"
        Largest distance or sum of distances, both for the split and for the clusters. k-center
        can make clusters of a few outliers, whose distances are the largest; k-median does not.
    max_ratio : int, pair of int or "auto", default="auto"
        The integer t', the most rows of one group for a row of another in a fairlet; or, for two
        groups, the pair (p, q) in any order: q rows of one group for p of the other at most.
        ``"auto"`` is the ratio of the largest to the smallest group, rounded up to an integer.
    n_init : int, default=5
        Starts of the clustering of the representatives, of which the best is kept.
    max_iter : int, default=100
        Most passes of the swap search (k-median).
    random_state : int, RandomState instance or None, default=None
        Determines the starts and the shift of the tree.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row.
    fairlets_ : ndarray of shape (n_samples,)
        Fairlet of each row; fairlets are numbered in the order of their first rows.
    fairlet_centers_ : ndarray of shape (n_fairlets,)
        Row that represents each fairlet: the least sum of (k-median) or largest (k-center)
        distance to the others; in a fairlet of more than 512 rows the one nearest the mean.
    decomposition_cost_ : float
        Objective of the split. With ``method="flow"`` and two groups no split with that balance
        has a smaller one; with p = 1 it is the sum (k-median) or maximum (k-center) of the
        distances of rows to their hubs.
    max_ratio_ : float
        The t' or q / p of the split: ``1 / max_ratio_`` is guaranteed. 1 for a single group.
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
        "method": [StrOptions({"flow", "tree"})],
        "objective": [StrOptions({"kcenter", "kmedian"})],
        "max_ratio": [
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
            tuple,
            list,
        ],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        method: str = "flow",
        objective: str = "kcenter",
        max_ratio: int | tuple[int, int] | str = "auto",
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

    _of_rows, _row_numbers = ("fairlets_",), ("fairlet_centers_",)

    def _fit(self, X: np.ndarray, groups: Groups, weights: np.ndarray) -> np.ndarray:
        random_state = check_random_state(self.random_state)
        self.fairlets_, self.decomposition_cost_ = self._split(X, groups, random_state)
        self.fairlet_centers_ = _representatives(X, self.fairlets_, self.objective)
        representatives = X[self.fairlet_centers_]
        of_fairlets = np.bincount(self.fairlets_, weights=weights)
        centers, self.n_iter_ = find_centers(self, representatives, of_fairlets, random_state)
        nearest = np.argmin(cdist(representatives, representatives[centers]), axis=1)
        nearest[centers] = np.arange(len(centers))  # equal points keep centres of their own
        labels = nearest[self.fairlets_]
        self.cluster_centers_ = representatives[centers]
        to_centers = np.sqrt(((X - self.cluster_centers_[labels]) ** 2).sum(axis=1))
        by_sum = self.objective == "kmedian"
        self.inertia_ = float(weights @ to_centers if by_sum else to_centers.max())
        return labels

    def _split(
        self, X: np.ndarray, groups: Groups, random_state: np.random.RandomState
    ) -> tuple[np.ndarray, float]:
        """Fairlet of each row, and the cost of the split; sets ``max_ratio_``."""
        # Codes are in the order of decreasing sizes.
        n_split = int(np.count_nonzero(groups.sizes >= self.n_clusters))
        sizes = [int(size) for size in groups.sizes[:n_split]]
        least, most = _ratio(self.max_ratio, sizes, groups.names)
        boxes = None
        if self.method == "tree":
            tree = kernels.build_tree(_cells(X, random_state))
            # In post-order: children end no later than their parents.
            boxes = tree, np.lexsort((-tree[1][:, 0], tree[1][:, 1]))
        pair_up = partial(self._pairs, X, groups.codes, boxes)
        # Rows of one group, rows of another and units of each pair.
        pairs = np.zeros((3, 0), dtype=np.int64)
        if n_split == 2:
            pairs = pair_up((0, 1), (least, most), (least, most))
        elif n_split > 2:
            loads = [(1, most)] * (n_split - 1)
            if self.max_ratio == "auto":
                loads = [(size // sizes[-1], -(-size // sizes[-1])) for size in sizes[:-1]]
            stars = [pair_up((r, n_split - 1), (1, 1), load) for r, load in enumerate(loads)]
            pairs = np.hstack(stars)
        takes_part = groups.codes < (n_split or groups.n_groups)
        fairlets = _components(pairs, takes_part)
        n_fairlets = int(fairlets.max()) + 1
        if n_fairlets < self.n_clusters:
            needed = most if least == 1 else -(-sizes[0] // sizes[1])
            warn_unfair(
                f"The split into fairlets of least cost has {n_fairlets} of them, fewer than "
                f"n_clusters={self.n_clusters}. Instead every row of the smaller group gets a "
                f"separate fairlet, which guarantees a balance of 1/{needed} (max_ratio: "
                f"{least / most:.4g})."
            )
            least, most = 1, needed
            pairs = pair_up((0, 1), (1, 1), (1, most))
            fairlets = _components(pairs, takes_part)
        if not takes_part.all():
            inside = np.flatnonzero(takes_part)
            nearest = pairwise_distances_argmin(X[~takes_part], X[inside])
            fairlets[~takes_part] = fairlets[inside[nearest]]
        self.max_ratio_ = most / least
        lengths = _lengths(X, pairs)
        by_sum = self.objective == "kmedian"
        cost = float(pairs[2] @ lengths if by_sum else lengths.max(initial=0.0))
        return fairlets, cost / least

    def _pairs(
        self,
        X: np.ndarray,
        codes: np.ndarray,
        boxes: tuple | None,
        two_groups: tuple[int, int],
        first_load: tuple[int, int],
        second_load: tuple[int, int],
    ) -> np.ndarray:
        """Pairs of rows of two groups; a load is the least and most units of a row."""
        first, second = (np.flatnonzero(codes == group) for group in two_groups)
        if boxes is None:
            distance = cdist(X[first], X[second])
            rows, columns, units = _cheapest_units(
                distance, first_load, second_load, self.objective
            )
            pairs = np.array([first[rows], second[columns], units])
        else:
            kind = np.full(len(X), -1)
            kind[first], kind[second] = 0, 1
            loads = np.array([first_load, second_load])
            pairs = np.array(kernels.match_upwards(*boxes, kind, loads))
        # Units that both rows can spare are dropped, the longest pairs first: smaller fairlets.
        surplus = np.bincount(pairs[0], pairs[2], len(X)).astype(np.int64)
        surplus += np.bincount(pairs[1], pairs[2], len(X)).astype(np.int64)
        surplus[first] -= first_load[0]
        surplus[second] -= second_load[0]
        by_length = np.argsort(-_lengths(X, pairs), kind="stable")
        kernels.take_surplus(by_length, *pairs[:2], surplus, pairs[2])
        return pairs[:, pairs[2] > 0]


def _lengths(X: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    return np.sqrt(((X[pairs[0]] - X[pairs[1]]) ** 2).sum(axis=1))


def _components(pairs: np.ndarray, takes_part: np.ndarray) -> np.ndarray:
    """Connected component of each row, in the order of first rows; -1 for other rows."""
    shape = (len(takes_part), len(takes_part))
    links = csr_array((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), shape=shape)
    component = connected_components(links, directed=False)[1][takes_part]
    _, start, component = np.unique(component, return_index=True, return_inverse=True)
    fairlets = np.full(len(takes_part), -1, dtype=np.int64)
    fairlets[takes_part] = np.argsort(np.argsort(start))[component]
    return fairlets


def _ratio(max_ratio: Any, sizes: list[int], names: np.ndarray) -> tuple[int, int]:
    """The numbers p and q without a common factor."""
    if len(sizes) < 2:
        return 1, 1
    if isinstance(max_ratio, str):
        return 1, -(-sizes[0] // sizes[-1])
    pair = (1, max_ratio) if isinstance(max_ratio, Integral) else tuple(max_ratio)
    if len(pair) != 2 or not all(isinstance(n, Integral) and int(n) >= 1 for n in pair):
        raise ValueError(
            f"max_ratio={max_ratio!r} should be a pair of positive integers (p, q), an integer or "
            "'auto'."
        )
    least, most = (int(n) // gcd(*map(int, pair)) for n in sorted(pair))
    if least > 1 and len(sizes) > 2:
        raise ValueError(
            f"max_ratio={max_ratio!r} is for two groups, there are {len(sizes)}: give an integer "
            "or 'auto'."
        )
    if least * sizes[0] > most * sizes[-1]:
        raise ValueError(
            f"max_ratio={max_ratio!r} should be >= {sizes[0] / sizes[-1]:.4g}: group {names[0]!r} "
            f"has {sizes[0]} rows and group {names[len(sizes) - 1]!r} has {sizes[-1]}, so not "
            "every row can be in a fairlet with that ratio."
        )
    return least, most


# The exact split: a linear program whose vertices are whole numbers.


def _cheapest_units(
    distance: np.ndarray,
    row_load: tuple[int, int],
    column_load: tuple[int, int],
    objective: str,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and units of the least sum of distances, for k-center within a least radius."""
    n_rows, n_columns = distance.shape
    radius = np.inf
    if objective == "kcenter":
        radius = _least_radius(distance, row_load, column_load)
    allowed = distance <= radius
    within = np.where(allowed, distance, np.inf)
    distance, within = distance / (distance.max() or 1.0), within / (distance.max() or 1.0)
    if row_load == column_load == (1, 1):  # a matching
        rows, columns = linear_sum_assignment(within)
        return rows, columns, np.ones(len(rows), dtype=np.int64)
    reduced = within - _rough_prices(within, row_load, column_load)
    used = _lowest(reduced, 5 + row_load[1]) | _lowest(reduced.T, 5 + column_load[1]).T
    used = (used & allowed) | _sufficient_pairs(allowed, row_load, column_load)
    low, high = np.repeat([row_load, column_load], [n_rows, n_columns], axis=0).T
    while True:
        rows, columns = np.nonzero(used)
        # Unknowns are the units of the pairs and the loads of rows and columns.
        each, load = np.arange(len(rows)), np.arange(n_rows + n_columns)
        places = (
            np.concatenate([rows, n_rows + columns, load]),
            np.concatenate([each, each, len(rows) + load]),
        )
        signs = np.repeat([1.0, -1.0], [2 * len(rows), len(load)])
        result = linprog(
            np.concatenate([distance[used], np.zeros(len(load))]),
            A_eq=csr_array((signs, places)),
            b_eq=np.zeros(len(load)),
            bounds=np.column_stack(
                [np.append(np.zeros(len(rows)), low), np.append(np.full(len(rows), np.inf), high)]
            ),
            method="highs-ipm",
        )
        if not result.success:
            raise RuntimeError(
                f"HiGHS did not solve the program of the fairlets: {result.message} "
                "method='tree' needs no program."
            )
        prices = result.eqlin.marginals
        reduced = np.where(used, np.inf, within) - prices[:n_rows, None] - prices[n_rows:]
        missing = reduced < -1e-9 * distance.max()
        if not missing.any():
            units = np.rint(result.x[: len(rows)]).astype(np.int64)
            return rows[units > 0], columns[units > 0], units[units > 0]
        # The prices of a degenerate program are not unique, and exclude more pairs than need be:
        # only the best are added, at least one of each row that misses some.
        used |= missing & (_lowest(reduced, 8) | _lowest(reduced.T, 8).T)


def _lowest(values: np.ndarray, n_columns: int) -> np.ndarray:
    """Which columns have the lowest values of each row."""
    lowest = np.zeros(values.shape, dtype=bool)
    n_columns = min(n_columns, values.shape[1])
    columns = np.argpartition(values, n_columns - 1, axis=1)[:, :n_columns]
    np.put_along_axis(lowest, columns, True, axis=1)
    return lowest


def _rough_prices(
    distance: np.ndarray, row_load: tuple[int, int], column_load: tuple[int, int]
) -> np.ndarray:
    """Sums of the prices of rows and columns, by Sinkhorn iterations with ever smaller noise.

    The units of a pair are ``exp((price of row + price of column - distance) / noise)``, and a
    price is not 0 only where a load would otherwise be out of its bounds. They tell which pairs
    the program needs at first.
    """
    prices = [np.zeros(length) for length in distance.shape]
    loads = (row_load, column_load)
    spread = float(np.mean(distance[np.isfinite(distance)])) or 1.0
    for noise in spread * np.array([0.3, 0.1, 0.03, 0.01]):
        with np.errstate(under="ignore"):
            units = np.exp((prices[0][:, None] + prices[1] - distance) / noise)
            neutral = [np.exp(np.clip(-price / noise, -200, 200)) for price in prices]
            scales = [np.ones(length) for length in distance.shape]
            for step in range(40):
                side = step % 2
                sums = np.maximum((units if side == 0 else units.T) @ scales[1 - side], 1e-90)
                least, most = loads[side]
                scales[side] = np.clip(neutral[side], least / sums, most / sums)
        for price, scale in zip(prices, scales, strict=True):
            price += noise * np.log(scale)
    return prices[0][:, None] + prices[1]


def _least_radius(
    distance: np.ndarray, row_load: tuple[int, int], column_load: tuple[int, int]
) -> float:
    """Least distance within which all loads can be met."""
    lower = max(distance.min(axis=1).max(), distance.min(axis=0).max())
    radii = np.unique(distance[distance >= lower])

    def is_enough(position: int) -> bool:
        return _sufficient_pairs(distance <= radii[position], row_load, column_load) is not None

    # It is mostly near the lower bound, where there are few pairs.
    high = 0
    while high < len(radii) - 1 and not is_enough(high):
        high = min(2 * high + 1, len(radii) - 1)
    low = (high + 1) // 2
    while low < high:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle + 1
    return float(radii[high])


def _sufficient_pairs(
    allowed: np.ndarray, row_load: tuple[int, int], column_load: tuple[int, int]
) -> np.ndarray | None:
    """Pairs among the allowed ones that suffice for all loads, or None if there are none.

    By Hoffman's theorem on circulations the loads can be met if and only if the least loads of
    the rows can be met without exceeding the columns' largest, and the other way round; so the
    pairs of these two flows suffice.
    """
    of_rows = _flow(allowed, row_load[0], column_load[1])
    if of_rows is None:
        return None
    of_columns = _flow(allowed.T, column_load[0], row_load[1])
    return None if of_columns is None else of_rows | of_columns.T


def _flow(allowed: np.ndarray, supply: int, capacity: int) -> np.ndarray | None:
    """Pairs by which every row sends ``supply`` and no column gets more than ``capacity``."""
    n_rows, n_columns = allowed.shape
    rows, columns = np.nonzero(allowed)
    source, sink = n_rows + n_columns, n_rows + n_columns + 1
    tails = np.concatenate([np.full(n_rows, source), rows, n_rows + np.arange(n_columns)])
    heads = np.concatenate([np.arange(n_rows), n_rows + columns, np.full(n_columns, sink)])
    # SciPy's flows have 32 bits; no column can get more than all rows send.
    capacity = min(capacity, supply * n_rows)
    sizes = np.repeat(np.array([supply, capacity], np.int32), [n_rows + len(rows), n_columns])
    places = (tails.astype(np.int32), heads.astype(np.int32))
    flow = maximum_flow(csr_array((sizes, places), shape=(sink + 1, sink + 1)), source, sink)
    if flow.flow_value < supply * n_rows:
        return None
    return flow.flow[:n_rows, n_rows:source].toarray() > 0


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
        return _farthest_first(model, points, random_state), 1
    return _medoids(model, points, weights, random_state)


def _farthest_first(
    model: Any, points: np.ndarray, random_state: np.random.RandomState
) -> np.ndarray:
    """Gonzalez: the farthest point becomes the next centre; the best of several starts."""
    best_radius, best = np.inf, np.empty(0, dtype=np.int64)
    for start in random_state.permutation(len(points))[: model.n_init]:
        centers = [start]
        distance = cdist(points, points[[start]])[:, 0]
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
        cost, n_passes, is_final = swap_medoids(distance, weights[sample], medoids, model.max_iter)
        if len(sample) < len(points):
            cost = weights @ cdist(points, points[sample[medoids]]).min(axis=1)
        if cost < best_cost:
            best_cost, best, n_iter, converged = cost, sample[medoids], n_passes, is_final
    if not converged:
        warn_unconverged(
            f"The search for medoids did not converge in max_iter={model.max_iter} passes: "
            "increase max_iter."
        )
    return best, n_iter


def swap_medoids(
    distance: np.ndarray, weights: np.ndarray, medoids: np.ndarray, max_passes: int
) -> tuple[float, int, bool]:
    """Improve medoids by single swaps until none lowers the cost; in place.

    Every candidate is tried against all medoids at once: its gain splits into a part that
    does not depend on which medoid leaves, and one number per medoid. Returns the cost, the number
    of passes over all candidates, and whether the last one found no swap.
    """
    each = np.arange(len(distance))

    def two_nearest() -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        to_medoids = distance[:, medoids]
        nearest = to_medoids.argmin(axis=1)
        first = to_medoids[each, nearest]
        to_medoids[each, nearest] = np.inf
        return np.eye(len(medoids))[nearest], first, to_medoids.min(axis=1), float(weights @ first)

    nearest, first, second, cost = two_nearest()
    for n_passes in range(1, max_passes + 1):
        start, n_swaps = 0, 0
        while start < len(distance):
            candidates = distance[start : start + CANDIDATES]
            gained = np.minimum(candidates - first, 0.0)
            lost = np.where(gained < 0.0, 0.0, np.minimum(candidates, second) - first)
            change = (gained @ weights)[:, None] + (lost * weights) @ nearest
            better = np.flatnonzero(change.min(axis=1) < -1e-12 * cost)
            start += better[0] + 1 if len(better) else len(candidates)
            if len(better):
                medoids[change[better[0]].argmin()] = start - 1
                nearest, first, second, cost = two_nearest()
                n_swaps += 1
        if n_swaps == 0:
            return cost, n_passes, True
    return cost, max_passes, False


def _seed_medoids(
    distance: np.ndarray, weights: np.ndarray, n_clusters: int, random_state: np.random.RandomState
) -> np.ndarray:
    """k-means++ for sums of distances: a point is drawn with its share of the cost."""
    medoids: list[int] = []
    share = weights.copy()
    nearest = np.full(len(weights), np.inf)
    while len(medoids) < n_clusters:
        share[medoids] = 0.0
        if share.any():
            medoids.append(random_state.choice(len(share), p=share / share.sum()))
        else:
            medoids.append(np.setdiff1d(np.arange(len(share)), medoids)[0])
        nearest = np.minimum(nearest, distance[medoids[-1]])
        share = weights * nearest
    return np.array(medoids)
