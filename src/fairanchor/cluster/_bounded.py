"""Shares of the groups within bounds in every cluster, by linear programming."""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from fairanchor._utils._scaling import power_of_two_scale
from fairanchor._utils._shared_state import equal_centers_allowed, one_thread
from fairanchor._utils._sklearn_compat import Interval, StrOptions, fit_context
from fairanchor.cluster._base import FairClusterer, fill_empty_clusters
from fairanchor.cluster._bounded_program import assign_within, worst_violation
from fairanchor.cluster._fairlets import find_centers
from fairanchor.constraints._share_bounds import ShareLimits
from fairanchor.exceptions import FairnessWarning
from fairanchor.groups._columns import attribute_names
from fairanchor.groups._groups import check_attributes, count_cells


class BoundedFairAssignment(FairClusterer):
    """Fair assignment to the centres of an unfair clustering (Bera et al., 2019).

    First centres are found without any regard to groups. Then, with N[l, r] the rows of
    group r in cluster l and N_l the cluster's rows, the labels solve approximately ::

        min   sum or max over rows of cost(x_i, center[label_i])
        s.t.  lower_r N_l <= N[l, r] <= upper_r N_l   for every cluster l and group r

    where the cost is the squared distance (k-means) or the distance. By default
    ``lower_r = (1 - tolerance) pi_r`` and ``upper_r = pi_r / (1 - tolerance)``, pi_r being the
    share of the group in the data. The linear program is solved exactly, with at least one
    row's mass in every cluster, then rounded iteratively.

    Any number of groups. Several columns of ``sensitive_features`` are attributes of their
    own, each with its bounds, and *not* their intersection: a row is in one group of each.

    *Guaranteed for the labels*, with D attributes: no bound is missed by 4 D + 4 rows or
    more (``worst_violation_`` is what was found, commonly below 3 rows), and ``inertia_`` is at
    most ``lp_value_``, the smallest cost that any labels *within* the bounds could have with these
    centres. With ``sample_weight`` all counts are sums of weights and the bound is 4 D + 4
    times the largest weight. Should an empty cluster have to be filled afterwards, or the
    bound be missed for numerical reasons, a ``FairnessWarning`` says so.

    The program has n k variables, but rows that clearly prefer one cluster under the
    prices of the bounds are put there at once and this is checked afterwards (the optimum is
    the exact one): below 1 s for 10,000 rows and 5 clusters, below 5 s for 100,000, up to
    some 20 s with weights or several attributes, and a minute for k-center.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    objective : {"kmeans", "kmedian", "kcenter"}, default="kmeans"
        The cost, and how centres are found: k-means; k-medoids by swaps (on samples of 2,000
        rows); farthest-first traversal. For k-center the program is a bisection over the
        distances for the least radius, then the least sum of distances within it.
    tolerance : float in [0, 1), default=0.2
        Relative slack of the default bounds; 0 asks for exact proportionality.
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
        Optimal value of the linear program, the radius for k-center.
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

    _parameter_constraints = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "objective": [StrOptions({"kmeans", "kmedian", "kcenter"})],
        "tolerance": [Interval(Real, 0, 1, closed="left")],
        "lower": [None, dict, "array-like"],
        "upper": [None, dict, "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters=8,
        *,
        objective="kmeans",
        tolerance=0.2,
        lower=None,
        upper=None,
        n_init=10,
        max_iter=300,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.objective = objective
        self.tolerance = tolerance
        self.lower = lower
        self.upper = upper
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        """Find centres, then the fair assignment to them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Groups of each row; every column is an attribute with its own bounds.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row, in the costs and in the bounds.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X, groups, weights = self._check_input(X, sensitive_features, sample_weight)
        no_columns = sensitive_features is None  # which has been warned about
        attributes = [groups] if no_columns else check_attributes(sensitive_features, len(X))
        row_weights = np.ones(len(X)) if weights is None else weights
        limits = self._limits(attributes, row_weights)
        scale = power_of_two_scale(X)
        centers = self._find_centers(X * scale, row_weights)
        self.cluster_centers_ = centers / scale

        distance = cdist(X * scale, centers)
        cost = distance**2 if self.objective == "kmeans" else distance
        unit = scale**2 if self.objective == "kmeans" else scale
        labels, value = assign_within(
            cost, row_weights, groups.codes, [a.codes for a in attributes], limits,
            smallest_radius=self.objective == "kcenter",
        )  # fmt: skip
        self.lp_value_ = value / unit
        labels, n_filled = fill_empty_clusters(X * scale, labels, self.n_clusters)
        self._store_labels(labels, groups, weights)
        titles = attribute_names(sensitive_features, len(attributes))
        self._store_attributes(attributes, titles, limits, row_weights, weights is None, n_filled)
        used = cost[np.arange(len(X)), self.labels_]
        if self.objective == "kcenter":
            self.inertia_ = float(used[row_weights > 0].max()) / unit
        else:
            self.inertia_ = float(row_weights @ used) / unit
        return self

    def _limits(self, attributes, weights):
        """Least and greatest share of each group of each attribute, as one array each."""
        lowers = _per_column(self.lower, len(attributes), "lower")
        uppers = _per_column(self.upper, len(attributes), "upper")
        limits = []
        for groups, lower, upper in zip(attributes, lowers, uppers, strict=True):
            share = np.bincount(groups.codes, weights=weights) / weights.sum()
            default = (1 - self.tolerance) * share, np.minimum(1, share / (1 - self.tolerance))
            low = _given_shares(lower, default[0], groups, "lower")
            high = _given_shares(upper, default[1], groups, "upper")
            _refuse_contradictions(low, high, share, groups)
            limits.append((low, high))
        return limits

    def _find_centers(self, X, weights):
        random_state = check_random_state(self.random_state)
        if self.objective != "kmeans":
            rows, self.n_iter_ = find_centers(
                X, weights, self.n_clusters, objective=self.objective, n_init=self.n_init,
                max_iter=self.max_iter, random_state=random_state,
            )  # fmt: skip
            return X[rows]
        model = KMeans(
            self.n_clusters, n_init=self.n_init, max_iter=self.max_iter, random_state=random_state
        )
        # Bits must not depend on the number of threads. Equal centres are no failure here: the
        # program puts mass in every cluster.
        with one_thread(), equal_centers_allowed():
            model.fit(X, sample_weight=weights)
        self.n_iter_ = model.n_iter_
        return model.cluster_centers_

    def _store_attributes(self, attributes, titles, limits, row_weights, unweighted, n_filled):
        """Set the tables per attribute and ``worst_violation_``; warn if the promise is not met."""
        tables = [
            count_cells(self.labels_, a.codes, self.n_clusters, a.n_groups, row_weights)
            for a in attributes
        ]
        self.worst_violation_ = max(map(worst_violation, tables, limits))
        self._asked_limits = [
            ShareLimits.of_shares(*map(a.to_public, own), self.n_clusters)
            for a, own in zip(attributes, limits, strict=True)
        ]
        if unweighted:
            tables = [table.astype(np.int64) for table in tables]
        pairs = list(zip(titles, attributes, strict=True))
        self.attribute_groups_ = {title: a.public_names for title, a in pairs}
        self.attribute_counts_ = {
            title: a.to_public(table) for (title, a), table in zip(pairs, tables, strict=True)
        }
        promised = (4 * len(attributes) + 4) * row_weights.max()
        if n_filled or self.worst_violation_ >= promised:
            warnings.warn(
                f"A bound is missed by {self.worst_violation_:g} rows (in weight); {n_filled} "
                "empty clusters had to be filled. The algorithm guarantees less than "
                f"{promised:g}.",
                FairnessWarning,
                stacklevel=3,
            )


def _per_column(given, n_columns, name):
    if n_columns == 1 or given is None:
        return [given] * n_columns
    if not isinstance(given, (list, tuple)) or len(given) != n_columns:
        raise ValueError(
            f"{name}={given!r} should be a list with one entry for each of the {n_columns} columns "
            "of sensitive_features (None keeps a column's default)."
        )
    return given


def _given_shares(given, default, groups, name):
    """Shares in canonical order."""
    if given is None:
        return default
    if isinstance(given, dict):
        unknown = set(given) - set(groups.names)
        if unknown:
            raise ValueError(
                f"{name} names the groups {sorted(map(str, unknown))}, which are not in "
                f"sensitive_features: {groups.public_names.tolist()}."
            )
        pairs = zip(groups.names, default, strict=True)
        shares = np.array([given.get(group, share) for group, share in pairs], dtype=np.float64)
    else:
        shares = np.asarray(given, dtype=np.float64)
        if shares.shape != (groups.n_groups,):
            raise ValueError(
                f"{name} has shape {shares.shape}, expected ({groups.n_groups},): one share for "
                f"each of the groups {groups.public_names.tolist()}."
            )
        shares = groups.from_public(shares)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f"{name}={given!r} should hold shares between 0 and 1.")
    return shares


def _refuse_contradictions(low, high, share, groups):
    for r, name in enumerate(groups.names):
        if low[r] > high[r]:
            raise ValueError(f"Group {name!r} has lower={low[r]:g} > upper={high[r]:g}.")
        if not low[r] - 1e-12 <= share[r] <= high[r] + 1e-12:
            raise ValueError(
                f"Group {name!r} has the share {share[r]:g} of the data, which is not between "
                f"lower={low[r]:g} and upper={high[r]:g}: no clustering has all clusters within "
                "bounds that all rows together are outside of."
            )
