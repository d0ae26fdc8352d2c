"""Shares of the groups within bounds in every cluster, for given centres."""

import warnings
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from fairanchor._utils._scaling import power_of_two_scale
from fairanchor._utils._shared_state import (
    equal_centers_allowed,
    one_thread,
    users_stacklevel,
)
from fairanchor._utils._sklearn_compat import Interval, StrOptions
from fairanchor._utils._typing import Seed, Table, Weights
from fairanchor.assignment._engine import labels_with_totals
from fairanchor.assignment._fair_assign import fair_assign
from fairanchor.assignment._sweep import KnownCosts
from fairanchor.cluster._base import COMMON_CONSTRAINTS, FairClusterer, fill_empty_clusters
from fairanchor.cluster._fairlets import find_centers
from fairanchor.constraints import FairnessTargets
from fairanchor.constraints._bounds import ShareBounds, share_interval
from fairanchor.exceptions import FairnessWarning
from fairanchor.groups._columns import attribute_names
from fairanchor.groups._groups import Groups, check_attributes, count_cells
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
    ) -> tuple[np.ndarray, Any, np.ndarray | None]:
        """Groups are those of all columns together, of each column, and the columns' names."""
        X, groups, weights = super()._check_input(X, sensitive_features, sample_weight)
        attributes = [groups]
        if sensitive_features is not None:  # None has been warned about
            attributes = check_attributes(sensitive_features, len(X))
        names = attribute_names(sensitive_features, len(attributes))
        return X, (groups, attributes, names), weights

    def _fit(self, X: np.ndarray, groups: Any, weights: np.ndarray | None) -> None:
        groups, attributes, names = groups
        row_weights = np.ones(len(X)) if weights is None else weights
        bounds = self._bounds(attributes, row_weights)
        scale = power_of_two_scale(X)
        centers = self._find_centers(X * scale, row_weights)
        self.cluster_centers_ = centers / scale

        unit = scale**2 if self.objective == "kmeans" else scale
        cost = cdist(X * scale, centers)
        if self.objective == "kmeans":
            cost **= 2
        labels = np.argmin(cost, axis=1)
        # Rows without weight do not take part: they stay with their nearest centre.
        counted = np.flatnonzero(row_weights > 0)
        assign = _assign_within_radius if self.objective == "kcenter" else _assign_at_least_cost
        labels[counted], value = assign(
            cost[counted], row_weights[counted], [a.codes[counted] for a in attributes], bounds
        )
        self.lp_value_ = value / unit
        labels, n_filled = fill_empty_clusters(X * scale, labels, self.n_clusters)
        self._store_labels(labels, groups, weights)
        self._store_attributes(attributes, names, bounds, weights)
        self._warn_if_missed(len(attributes), row_weights.max(), n_filled)
        used = cost[np.arange(len(X)), self.labels_]
        if self.objective == "kcenter":
            self.inertia_ = float(used[counted].max()) / unit
        else:
            self.inertia_ = float(row_weights @ used) / unit

    def _bounds(self, attributes: list[Groups], weights: np.ndarray) -> list[ShareBounds]:
        """Bounds of each attribute, groups in canonical order."""
        lowers = _per_column(self.lower, len(attributes), "lower")
        uppers = _per_column(self.upper, len(attributes), "upper")
        bounds = []
        for groups, lower, upper in zip(attributes, lowers, uppers, strict=True):
            names = groups.public_names.tolist()
            sizes = groups.to_public(np.bincount(groups.codes, weights=weights))
            low, high = share_interval(sizes / sizes.sum(), self.tolerance)
            targets = FairnessTargets(
                lower=_with_defaults(lower, low, names), upper=_with_defaults(upper, high, names)
            )
            if lower is not None or upper is not None:
                report = targets.check(sizes, names, n_clusters=self.n_clusters)
                report.raise_if_infeasible()
            bounds.append(targets.resolve(groups, self.n_clusters))
        return bounds

    def _find_centers(self, X: np.ndarray, weights: np.ndarray) -> np.ndarray:
        random_state = check_random_state(self.random_state)
        if self.objective != "kmeans":
            rows, self.n_iter_ = find_centers(self, X, weights, random_state)
            return X[rows]
        model = KMeans(
            self.n_clusters, n_init=self.n_init, max_iter=self.max_iter, random_state=random_state
        )
        # Bits must not depend on the number of threads. Equal centres do no harm here: every
        # cluster gets a row.
        with one_thread(), equal_centers_allowed():
            model.fit(X, sample_weight=weights)
        self.n_iter_ = model.n_iter_
        return model.cluster_centers_

    def _store_attributes(
        self, attributes: list[Groups], names: list, bounds: list, weights: np.ndarray | None
    ) -> None:
        """Set the tables of each attribute and ``worst_violation_``."""
        self.attribute_groups_ = {
            name: a.public_names for name, a in zip(names, attributes, strict=True)
        }
        self.attribute_counts_ = {}
        self._public_bounds = []
        self.worst_violation_ = 0.0
        for name, a, bound in zip(names, attributes, bounds, strict=True):
            counts = count_cells(self.labels_, a.codes, self.n_clusters, a.n_groups, weights)
            table = a.to_public(counts)
            asked = replace(bound, lower=a.to_public(bound.lower), upper=a.to_public(bound.upper))
            self.attribute_counts_[name] = table
            self._public_bounds.append(asked)
            self.worst_violation_ = max(self.worst_violation_, asked.violation(table))

    def _warn_if_missed(self, n_attributes: int, heaviest: float, n_filled: int) -> None:
        expected = (4 * n_attributes + 4) * heaviest
        if n_filled or self.worst_violation_ >= expected:
            warnings.warn(
                f"A bound is missed by {self.worst_violation_:g} rows (in weight), expected less "
                f"than {expected:g}; {n_filled} empty clusters had to be filled.",
                FairnessWarning,
                stacklevel=users_stacklevel(),
            )


def _assign_at_least_cost(
    cost: np.ndarray, weights: np.ndarray, codes: list[np.ndarray], bounds: list
) -> tuple[np.ndarray, float]:
    """Labels within bounds on the shares, and the value of the linear program."""
    targets = []
    for column, bound in zip(codes, bounds, strict=True):
        present = np.unique(column)  # a group of weightless rows is not
        targets.append(
            FairnessTargets(
                lower=bound.lower[:, present],
                upper=bound.upper[:, present],
                min_size=_least_size(weights, cost.shape[1]),
            )
        )
    several = len(codes) > 1
    assignment = fair_assign(
        cost,
        sensitive_features=np.column_stack(codes) if several else codes[0],
        fairness=targets if several else targets[0],
        attributes="separate" if several else "intersection",
        sample_weight=weights,
    )
    return assignment.labels, assignment.lp_value


def _least_size(weights: np.ndarray, n_clusters: int) -> float:
    """Least weight of a cluster: one row."""
    return min(weights.min(), weights.sum() / n_clusters)


def _assign_within_radius(
    cost: np.ndarray, weights: np.ndarray, codes: list[np.ndarray], bounds: list
) -> tuple[np.ndarray, float]:
    """Labels within bounds on the shares whose largest distance is small, and the least radius.

    Rows of the same groups with the same centres within the radius are one class: a small linear
    program on classes decides whether a radius is feasible.
    """
    n_clusters = cost.shape[1]
    nearest = np.argmin(cost, axis=1)
    radius = float(cost.min(axis=1).max())
    if len(np.unique(nearest)) == n_clusters and all(
        bound.violation(count_cells(nearest, column, n_clusters, bound.lower.shape[1], weights))
        == 0.0
        for column, bound in zip(codes, bounds, strict=True)
    ):
        return nearest, radius
    _, joint = np.unique(np.column_stack(codes), axis=0, return_inverse=True)
    joint = joint.reshape(-1)

    def program(radius: float) -> "_RadiusProgram":
        return _RadiusProgram(cost, radius, weights, joint, codes, bounds)

    candidates = np.unique(cost[cost >= radius])
    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        if program(candidates[middle]).solve() is None:
            low = middle + 1
        else:
            high = middle
    radius = float(candidates[low])
    unweighted = np.ptp(weights) == 0.0
    totals = program(radius).table(whole=unweighted)
    # No chain of exchanges over all clusters is worth a distance beyond the radius.
    farthest = (n_clusters + 1) * (float(cost.max()) or 1.0)
    known = MemoryRows(
        np.where(cost <= radius, cost, farthest),
        joint,
        totals.shape[1],
        weights=None if unweighted else weights,
    )
    return labels_with_totals(known, KnownCosts(n_clusters), totals), radius


class _RadiusProgram:
    """Masses of classes of rows in clusters, with shares within bounds.

    Variables are the pairs of a class and a centre that all of its rows have within reach.
    """

    def __init__(
        self,
        cost: np.ndarray,
        radius: float,
        weights: np.ndarray,
        joint: np.ndarray,
        codes: list[np.ndarray],
        bounds: list,
    ) -> None:
        reach = cost <= radius
        key = np.column_stack([joint, np.packbits(reach, axis=1)])
        _, first, classes = np.unique(key, axis=0, return_index=True, return_inverse=True)
        classes = classes.reshape(-1)
        unit = weights[0] if np.ptp(weights) == 0.0 else weights.mean()
        self.unit = float(unit)
        self.mass = np.bincount(classes, weights=weights / unit)
        self.shape = (cost.shape[1], int(joint.max()) + 1)
        self.pair_classes, self.clusters = np.nonzero(reach[first])
        self.groups = joint[first][self.pair_classes]
        self.codes = [column[first][self.pair_classes] for column in codes]
        self.bounds = bounds
        self.least = _least_size(weights / unit, cost.shape[1])
        sums = np.zeros((len(first), cost.shape[1]))
        np.add.at(sums, classes, weights[:, None] / unit * cost)
        self.cost = (sums / self.mass[:, None])[self.pair_classes, self.clusters]

    def solve(self) -> np.ndarray | None:
        """Masses of the pairs with the least sum of distances; None if there are none."""
        parts, right = [self._summed(self.clusters, -1.0)], [np.full(self.shape[0], -self.least)]
        for codes, bound in zip(self.codes, self.bounds, strict=True):
            for group, (low, high) in enumerate(zip(bound.lower[0], bound.upper[0], strict=True)):
                in_group = (codes == group).astype(np.float64)
                parts += [
                    self._summed(self.clusters, low - in_group),
                    self._summed(self.clusters, in_group - high),
                ]
        right.append(np.zeros((len(parts) - 1) * self.shape[0]))
        return self._minimise(sparse.vstack(parts), np.concatenate(right))

    def table(self, *, whole: bool) -> np.ndarray:
        """Weight of clusters × groups, in whole rows the floor or ceiling of fractional ones.

        Cells and clusters are nested sums, and classes divide the rows: such a program has whole
        solutions.
        """
        x = self.solve()
        if x is None:
            raise RuntimeError("HiGHS finds no fair assignment, though one exists.")
        n_clusters, n_cells = self.shape[0], self.shape[0] * self.shape[1]
        cells = self.clusters * self.shape[1] + self.groups
        if not whole:
            return self.unit * np.bincount(cells, x, n_cells).reshape(self.shape)
        sums = sparse.vstack(
            [self._summed(self.clusters, 1.0, n_clusters), self._summed(cells, 1.0, n_cells)]
        )
        totals = sums @ x
        nearest = np.rint(totals)
        totals = np.where(np.abs(totals - nearest) < 1e-6, nearest, totals)
        right = np.concatenate([np.ceil(totals), -np.floor(totals)])
        x = self._minimise(sparse.vstack([sums, -sums]), right)
        if x is None:
            raise RuntimeError("HiGHS finds no whole assignment, though one exists.")
        return np.bincount(cells, np.rint(x), n_cells).astype(np.int64).reshape(self.shape)

    def _summed(self, places: np.ndarray, values: Any, n_places: int | None = None) -> Any:
        """Matrix that sums the pairs times values by place."""
        n_pairs = len(self.clusters)
        values = np.broadcast_to(values, n_pairs)
        shape = (self.shape[0] if n_places is None else n_places, n_pairs)
        return sparse.csr_array((values, (places, np.arange(n_pairs))), shape=shape)

    def _minimise(self, matrix: Any, right: np.ndarray) -> np.ndarray | None:
        result = linprog(
            self.cost / (np.abs(self.cost).max() or 1.0),
            A_ub=matrix,
            b_ub=right,
            A_eq=self._summed(self.pair_classes, 1.0, len(self.mass)),
            b_eq=self.mass,
            method="highs-ds",
        )
        return result.x if result.status == 0 else None


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
