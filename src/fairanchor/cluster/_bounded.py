"""Shares of the groups within bounds in every cluster, for given centres."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from fairanchor._utils._shared_state import (
    warn_unfair,
)
from fairanchor._utils._sklearn_compat import Interval, StrOptions
from fairanchor._utils._typing import Seed, Table, Weights
from fairanchor.assignment._engine import labels_with_totals
from fairanchor.assignment._fair_assign import fair_assign
from fairanchor.assignment._sweep import KnownCosts
from fairanchor.cluster._base import COMMON_CONSTRAINTS, FairClusterer, fill_empty_clusters
from fairanchor.cluster._fairlets import find_centers
from fairanchor.constraints import FairnessTargets
from fairanchor.constraints._bounds import (
    BoundRule,
    CellConstraints,
    ShareBounds,
    share_interval,
)
from fairanchor.groups._groups import Attributes, Groups, count_cells
from fairanchor.rows import MemoryRows


class BoundedFairAssignment(FairClusterer):
    """Fair assignment to the centres of an unfair clustering (Bera et al., 2019).

    First the centres are found, regardless of groups. Then, with N[l, r] the rows of
    group r in cluster l and N_l the cluster's rows, the labels solve approximately ::

        min   sum or max over rows of cost(x_i, center[label_i])
        s.t.  lower_r N_l <= N[l, r] <= upper_r N_l   for every cluster l and group r

    where the cost is the squared distance (k-means) or the distance. By default
    ``lower_r = (1 - tolerance) pi_r`` and ``upper_r = pi_r / (1 - tolerance)``, pi_r being the
    share of the group in the data. Every cluster has at least one row.

    Any number of groups. Several columns of ``sensitive_features`` are attributes, each with its
    own bounds, and *not* their intersection: a row is in one group of each.

    *Guaranteed for the labels*. Where the paper rounds the linear program at no extra cost and
    misses a bound by less than 4 D + 4 rows, D the number of attributes, this implementation
    chooses a whole table of clusters × groups next to the program's, and then the cheapest labels
    with that table, as `fair_assign` does:

    * k-means and k-median: with one attribute every bound is met or missed by less than one row,
      since shares of whole rows cannot be exact. ``inertia_`` is at least ``lp_value_`` if no
      bound is missed; the more rows, the smaller the difference (0.1 % or less for 10,000 rows).
    * k-center: ``inertia_`` is at most ``lp_value_``, the least radius within which fractional
      labels satisfy the bounds; with one attribute a bound is missed by less than two rows.
    * several attributes: the counts of all combinations of groups are near those of the
      program. ``worst_violation_`` is commonly below two rows; a ``FairnessWarning`` reports
      4 D + 4 rows or more, and an empty cluster that had to be filled.

    With unequal ``sample_weight`` all counts are sums of weights, and a count of a combination of
    groups misses the program's by at most the largest weight.

    The cost is that of `fair_assign`: below 1 s for 100,000 rows and 5 clusters. k-center solves
    some 20 linear programs whose size is the number of combinations of groups and of centres
    within reach (3 s), which is large for many clusters.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    objective : {"kmeans", "kmedian", "kcenter"}, default="kmeans"
        The cost, and how centres are found: k-means; k-medoids by swaps (on samples of 2,000
        rows); farthest-first traversal. For k-center a bisection finds the least radius; rows
        are assigned within it, at a small sum of distances.
    tolerance : float in [0, 1), default=0.2
        Relative slack of the default bounds; 0 requires exact proportions.
    lower, upper : dict, array-like of shape (n_groups,), or list of these, default=None
        Shares instead of the default bounds, by name (others keep the default) or for all
        groups in sorted order of the names. With several columns, a list with one such
        entry, or None, per column. The share of a group in the data must lie within.
    n_init : int, default=10
        Starts for the centres.
    max_iter : int, default=300
        Most iterations for the centres.
    random_state : int, RandomState instance or None, default=None
        Determines the starts.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centres of the unfair clustering, to which the rows were assigned.
    inertia_ : float
        Cost of the labels with these centres, a maximum for k-center.
    lp_value_ : float
        Value of the linear program over fractional labels (a lower bound of it where it is too
        large to be solved exactly), the radius for k-center.
    worst_violation_ : float
        By how many rows (or weight) the worst cell misses its bound; 0 if none does.
    groups_ : ndarray of shape (n_groups,)
        Names of the groups, of the intersection (tuples) if there are several columns.
    counts_ : ndarray of shape (n_clusters, n_groups)
        Rows, or their weight, in each cluster and group.
    balance_ : float
        Smallest group over largest group in the worst cluster, from ``counts_``.
    attribute_groups_, attribute_counts_ : dict
        By the name of the column (or its number): names of its groups, and rows in each cell.
    n_iter_ : int
        Iterations of the search for the centres.
    n_features_in_ : int
        Number of features.

    References
    ----------
    .. [1] S. Bera, D. Chakrabarty, N. Flores, M. Negahbani, "Fair algorithms for clustering",
       NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from fairanchor import BoundedFairAssignment
    >>> X = np.arange(20.0)[:, np.newaxis]
    >>> group = np.where(X[:, 0] < 10, "low", "high")
    >>> model = BoundedFairAssignment(2, tolerance=0.4, random_state=0)
    >>> np.sort(model.fit(X, sensitive_features=group).counts_, axis=0)
    array([[3, 3],
           [7, 7]])
    """

    _parameter_constraints: dict = {
        **COMMON_CONSTRAINTS,
        "objective": [StrOptions({"kmeans", "kmedian", "kcenter"})],
        "tolerance": [Interval(Real, 0, 1, closed="left")],
        "lower": [None, dict, "array-like"],
        "upper": [None, dict, "array-like"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        objective: str = "kmeans",
        tolerance: float = 0.2,
        lower: Any = None,
        upper: Any = None,
        n_init: int = 10,
        max_iter: int = 300,
        random_state: Seed = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.objective = objective
        self.tolerance = tolerance
        self.lower = lower
        self.upper = upper
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    def _check_input(
        self, X: Table, sensitive_features: Table, sample_weight: Weights
    ) -> tuple[np.ndarray, Groups, np.ndarray | None]:
        X, groups, weights = super()._check_input(X, sensitive_features, sample_weight)
        self._columns = Attributes.of(sensitive_features, groups).columns
        return X, groups, weights

    def _attributes_of(self, groups: Groups) -> Attributes:
        return Attributes.of_names(self._columns, groups.names)

    def _fit(self, X: np.ndarray, groups: Groups, weights: np.ndarray) -> np.ndarray:
        attributes = self._attributes_of(groups)
        sizes = np.bincount(groups.codes, weights)
        rule = BoundRule(tuple(self._bounds(attributes, sizes)), attributes.joint)
        self.cluster_centers_ = self._find_centers(X, weights)
        cost = cdist(X, self.cluster_centers_)
        if self.objective == "kmeans":
            cost **= 2
        assign = _assign_within_radius if self.objective == "kcenter" else _assign_at_least_cost
        labels, self.lp_value_ = assign(cost, weights, groups.codes, rule, attributes.joint)
        labels, n_filled = fill_empty_clusters(X, labels, self.n_clusters)
        used = cost[np.arange(len(X)), labels]
        self.inertia_ = float(used.max() if self.objective == "kcenter" else weights @ used)

        counts = count_cells(labels, groups.codes, self.n_clusters, groups.n_groups, weights)
        if (weights == 1.0).all():
            counts = counts.astype(np.int64)
        self.attribute_groups_ = dict(zip(attributes.columns, attributes.names, strict=True))
        self.attribute_counts_ = dict(zip(attributes.columns, rule.margins(counts), strict=True))
        self._public_bounds = list(rule.bounds)
        self.worst_violation_ = max(rule.violations(counts))
        expected = (4 * len(rule.bounds) + 4) * weights.max()
        if n_filled or self.worst_violation_ >= expected:
            warn_unfair(
                f"A bound is missed by {self.worst_violation_:g} rows (in weight), expected less "
                f"than {expected:g}; {n_filled} empty clusters had to be filled."
            )
        return labels

    def _bounds(self, attributes: Attributes, sizes: np.ndarray) -> Iterator[ShareBounds]:
        """Bounds of each attribute, groups in the order of their names."""
        n_columns = len(attributes.columns)
        lowers = _per_column(self.lower, n_columns, "lower")
        uppers = _per_column(self.upper, n_columns, "upper")
        for codes, names, lower, upper in zip(
            attributes.joint.T, attributes.names, lowers, uppers, strict=True
        ):
            weight, names = np.bincount(codes, sizes), names.tolist()
            low, high = share_interval(weight / weight.sum(), self.tolerance)
            targets = FairnessTargets(
                lower=_with_defaults(lower, low, names), upper=_with_defaults(upper, high, names)
            )
            if lower is not None or upper is not None:
                targets.check(weight, names, n_clusters=self.n_clusters).raise_if_infeasible()
            yield targets.bounds_for(weight, names, self.n_clusters)

    def _find_centers(self, X: np.ndarray, weights: np.ndarray) -> np.ndarray:
        random_state = check_random_state(self.random_state)
        if self.objective != "kmeans":
            rows, self.n_iter_ = find_centers(self, X, weights, random_state)
            return X[rows]
        model = KMeans(
            self.n_clusters, n_init=self.n_init, max_iter=self.max_iter, random_state=random_state
        )
        model.fit(X, sample_weight=weights)
        self.n_iter_ = model.n_iter_
        return model.cluster_centers_


def _least_size(weights: np.ndarray, n_clusters: int) -> float:
    """Least weight of a cluster: one row."""
    return min(weights.min(), weights.sum() / n_clusters)


def _assign_at_least_cost(
    cost: np.ndarray, weights: np.ndarray, codes: np.ndarray, rule: BoundRule, joint: np.ndarray
) -> tuple[np.ndarray, float]:
    """Labels within bounds on the shares, and the value of the linear program."""
    least = _least_size(weights, cost.shape[1])
    targets = [FairnessTargets(lower=b.lower, upper=b.upper, min_size=least) for b in rule.bounds]
    found = fair_assign(
        cost,
        sensitive_features=joint[codes],
        fairness=targets,
        attributes="separate",
        sample_weight=weights,
    )
    return found.labels, found.lp_value


def _assign_within_radius(
    cost: np.ndarray, weights: np.ndarray, codes: np.ndarray, rule: BoundRule, joint: np.ndarray
) -> tuple[np.ndarray, float]:
    """Labels within bounds on the shares whose largest distance is small, and the least radius."""
    n_clusters, n_groups = cost.shape[1], len(joint)
    nearest, radius = cost.argmin(axis=1), float(cost.min(axis=1).max())
    counts = count_cells(nearest, codes, n_clusters, n_groups, weights)
    if counts.sum(axis=1).all() and max(rule.violations(counts)) == 0.0:
        return nearest, radius
    is_whole = np.ptp(weights) == 0.0
    unit = weights[0] if is_whole else weights.mean()
    scaled = weights / unit
    first = replace(rule.bounds[0], least=np.full(n_clusters, _least_size(scaled, n_clusters)))
    sized = BoundRule((first, *rule.bounds[1:]), joint)

    def masses(radius: float, *, whole: bool = False) -> np.ndarray | None:
        return _masses_within(cost, radius, scaled, codes, sized.cells, whole=whole)

    radii = np.unique(cost[cost >= radius])
    place = bisect_left(radii[:-1], True, key=lambda radius: masses(radius) is not None)
    radius = float(radii[place])
    table = masses(radius, whole=is_whole)
    if table is None:
        raise RuntimeError("HiGHS finds no fair assignment, though one exists.")
    # No chain of exchanges over all clusters is worth a distance beyond the radius.
    farthest = (n_clusters + 1) * (float(cost.max()) or 1.0)
    near = np.where(cost <= radius, cost, farthest)
    known = MemoryRows(near, codes, n_groups, weights=None if is_whole else scaled)
    return labels_with_totals(known, KnownCosts(n_clusters), table), radius


def _masses_within(
    cost: np.ndarray,
    radius: float,
    weights: np.ndarray,
    codes: np.ndarray,
    bounds: CellConstraints,
    *,
    whole: bool,
) -> np.ndarray | None:
    """Weight of clusters × groups at the least sum of distances, or None if none is feasible.

    Rows of the same group with the same centres within the radius are one class: the variables are
    the masses of the pairs of a class and such a centre. If it is to be whole, the table has the
    floor or ceiling of fractional cells and sizes. These are nested sums, and classes divide the
    rows: such a program has whole solutions.
    """
    n_clusters, n_groups = bounds.shape
    reach = cost <= radius
    key = np.column_stack([codes, np.packbits(reach, axis=1)])
    _, first, classes = np.unique(key, axis=0, return_index=True, return_inverse=True)
    classes = classes.reshape(-1)
    pair_classes, clusters = np.nonzero(reach[first])

    def sums(places: np.ndarray, n_places: int) -> Any:
        """Matrix that sums the pairs by place."""
        entries = (np.ones(len(places)), (places, np.arange(len(places))))
        return sparse.csr_array(entries, shape=(n_places, len(places)))

    of_classes = sums(classes, len(first)) * weights
    mass = of_classes.sum(axis=1)
    linear = ((of_classes @ cost) / mass[:, None])[pair_classes, clusters]
    cells = sums(clusters * n_groups + codes[first][pair_classes], n_clusters * n_groups)

    def minimise(matrix: Any, right: np.ndarray, is_equal: np.ndarray) -> np.ndarray | None:
        result = linprog(
            linear / (linear.max() or 1.0),
            A_ub=matrix[~is_equal],
            b_ub=right[~is_equal],
            A_eq=sparse.vstack([sums(pair_classes, len(mass)), matrix[is_equal]]),
            b_eq=np.concatenate([mass, right[is_equal]]),
            method="highs-ds",
        )
        return result.x if result.status == 0 else None

    x = minimise(bounds.matrix @ cells, bounds.right, bounds.is_equal)
    if x is not None and whole:
        nested = sparse.vstack([sums(clusters, n_clusters), cells])
        totals = nested @ x
        nearest = np.rint(totals)
        totals = np.where(np.abs(totals - nearest) < 1e-6, nearest, totals)
        right = np.concatenate([np.ceil(totals), -np.floor(totals)])
        x = minimise(sparse.vstack([nested, -nested]), right, np.zeros(len(right), dtype=bool))
    if x is None:
        return None
    table = (cells @ x).reshape(n_clusters, n_groups)
    return np.rint(table).astype(np.int64) if whole else table


def _per_column(shares: Any, n_columns: int, name: str) -> Any:
    if n_columns == 1 or shares is None:
        return [shares] * n_columns
    if not isinstance(shares, (list, tuple)) or len(shares) != n_columns:
        raise ValueError(
            f"{name}={shares!r} should be a list with one entry for each of the {n_columns} "
            "columns of sensitive_features (None keeps a column's default)."
        )
    return shares


def _with_defaults(given: Any, defaults: np.ndarray, names: list) -> Any:
    """Shares as `FairnessTargets` takes them: groups that a dict does not name keep the default."""
    if given is None:
        return defaults
    return dict(zip(names, defaults, strict=True)) | given if isinstance(given, dict) else given
