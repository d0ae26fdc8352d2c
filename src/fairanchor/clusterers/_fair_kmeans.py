"""Fair k-means: Lloyd's algorithm whose assignment step is exact and fair."""

import warnings
from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from fairanchor._attributes import Attributes
from fairanchor._scaling import power_of_two_scale
from fairanchor._sensitive_names import store_titles, titles_at_fit
from fairanchor._shared_state import with_one_blas_thread
from fairanchor._sklearn_compat import Interval, StrOptions, check_weights, fit_context
from fairanchor.assignment._limit_rule import proportional_rule
from fairanchor.clusterers._attribute_report import AttributeReport, public_limits
from fairanchor.clusterers._base import (
    FairClusterer,
    check_rows,
    fill_empty_clusters,
    known_codes,
)
from fairanchor.clusterers._fair_lloyd import (
    Settled,
    cost_of,
    distances_to,
)
from fairanchor.clusterers._lloyd_within import FairSteps, bound_of
from fairanchor.clusterers._starts import cheapest_different, competing_rows, starting_centers
from fairanchor.exceptions import FairnessWarning
from fairanchor.rows import MemoryRows, distinct_rows, stand_in_samples

# Distinct rows up to which all starts are followed to the end, and how many beyond.
EXACT_ROWS = 2_000
N_FINALISTS = 3


class FairKMeans(FairClusterer):
    """k-means whose clusters all mirror the population's groups, exactly or up to a tolerance.

    Minimises, over labels and centres::

        sum_i w_i ||x_i - center[label_i]||^2
        subject to  |N[l, r] - pi_r N_l| < 1   for every cluster l and group r
        (or, with a tolerance,  (1 - tolerance) pi_r <= N[l, r] / N_l <= pi_r / (1 - tolerance))

    where N[l, r] counts group r in cluster l, N_l is the cluster's size and pi_r the group's
    share of the data. Like k-means it finds a local optimum: the assignment step is
    exact for its cluster sizes (a transportation problem per group), the sizes are those of
    the cheapest proportional assignment, and a step is kept only if the cost falls.

    Any number of groups. *Guaranteed for the labels*: cluster and group totals are exact
    and every cell is the floor or the ceiling of ``N_l pi_r``. With unequal ``sample_weight``
    the cells are met up to the largest weight among a few rows. With a tolerance a cell misses
    its limits by less than one row, and by none if whole numbers near the linear program's solution
    allow it; ``worst_violation_`` says what was found. With ``attributes="separate"`` no violation
    is promised beforehand (nearly always it is below one row), it is reported, and warned about
    from one row on. The cost of an iteration is linear in the number of rows.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    init : {"k-means", "k-means++", "random"} or array of shape (n_clusters, n_features), \
default="k-means"
        Where the fair iterations start: at the centres of plain k-means (the best different
        ones of at least ten runs), at its seeds, at random rows, or at given centres.
    n_init : int, default=10
        Number of starts, of which the cheapest is kept; one if ``init`` is an array. With
        weights, or beyond 2,000 distinct rows, they compete with fractional assignments, on
        large data on a sample, and the three best, on large data the best, are followed with
        whole ones.
    max_iter : int, default=100
        Largest number of times that the centres move.
    tol : float, default=1e-4
        The iterations end when the cost falls by less than this part of itself.
    tolerance : float in [0, 1], default=0.0
        By how much a group's share of a cluster may differ from its share pi of the data: it is in
        ``[(1 - tolerance) pi, pi / (1 - tolerance)]``. 0 asks for exact proportions, 1 for
        nothing: plain k-means.
    attributes : {"intersection", "separate"}, default="intersection"
        Whether several columns of ``sensitive_features`` are one attribute, whose groups are the
        combinations, or each is an attribute that the clusters mirror by itself.
    n_jobs : int, default=None
        Number of threads; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Determines the starts.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centres to which the labels are the best fair assignment.
    assignment_prices_ : ndarray of shape (n_clusters, n_groups)
        A row of group r is in the cluster with the least squared distance minus price.
    groups_ : ndarray of shape (n_groups,)
        Names of the groups, sorted: the columns of the tables.
    counts_, targets_ : ndarray of shape (n_clusters, n_groups)
        Rows in each cell, and the exactly proportional number; with a tolerance or separate
        attributes, the numbers that were chosen within the limits.
    worst_violation_ : float
        By how many rows (how much weight) the worst cell misses its limits.
    lp_value_ : float
        Certified: no labels within the limits, fractional ones included, cost less for these
        centres. ``inertia_ - lp_value_`` is what whole rows cost at most; it is negative where
        labels gain by missing limits by a part of a row.
    attribute_groups_, attribute_counts_, attribute_violations_ : dict
        With ``attributes="separate"``, by the title of the column (or its number): its groups,
        rows in each cell, and rows by which its worst cell misses its limits.
    balance_ : float
        Smallest group over largest group in the worst cluster.
    inertia_ : float
        Sum of squared distances of the rows to their centres.
    cost_path_ : ndarray of shape (n_iter + 1,) or shorter
        Cost after each iteration, never increasing.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of features.
    sensitive_names_in_ : ndarray of shape (n_columns,)
        Titles of the sensitive columns, only if all of them are text that differs. `predict` pairs
        the columns of a table by them, in whatever order they are.

    Examples
    --------
    >>> import numpy as np
    >>> from fairanchor import FairKMeans
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> group = ["a", "b", "a", "a", "b", "a"]
    >>> FairKMeans(2, random_state=0).fit(X, sensitive_features=group).counts_
    array([[2, 1],
           [2, 1]])
    """

    __metadata_request__predict = {"sensitive_features": True}
    __metadata_request__score = {"sensitive_features": True, "sample_weight": True}

    _parameter_constraints = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"k-means", "k-means++", "random"}), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "tolerance": [Interval(Real, 0, 1, closed="both")],
        "attributes": [StrOptions({"intersection", "separate"})],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters=8,
        *,
        init="k-means",
        n_init=10,
        max_iter=100,
        tol=1e-4,
        tolerance=0.0,
        attributes="intersection",
        n_jobs=None,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.tolerance = tolerance
        self.attributes = attributes
        self.n_jobs = n_jobs
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    @with_one_blas_thread
    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        """Cluster the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row; what several columns mean, ``attributes`` says.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._fit(X, sensitive_features, sample_weight)
        return self

    @with_one_blas_thread
    def _fit_after(self, before, X, sensitive_features, sample_weight=None):
        """`fit` that may go on from where another fit of the same rows ended.

        Parameters
        ----------
        before : LloydResult or None
            Of the fit with a smaller tolerance.
        X, sensitive_features, sample_weight : array-like
            As in `fit`.

        Returns
        -------
        result : LloydResult
            For the next fit.
        is_warm : bool
            Whether going on was better than a fresh start.
        """
        self._validate_params()
        return self._fit(X, sensitive_features, sample_weight, before)

    @with_one_blas_thread
    def _fit_anchors(self, X, *, sensitive_features, sample_weight=None):
        """`fit` of anchors, where a cluster without one is of no concern to the user.

        Its rows are found by the propagation, by targets that leave no cluster empty.
        """
        self._validate_params()
        self._fit(X, sensitive_features, sample_weight, warns_of_filled=False)
        return self

    def _fit(self, X, sensitive_features, sample_weight, before=None, *, warns_of_filled=True):
        X, groups, weights = self._check_input(X, sensitive_features, sample_weight)
        scale = power_of_two_scale(X)
        # Equal weights are counts in another unit, and counts can be met exactly.
        is_counted = weights is None or np.ptp(weights) == 0.0
        rows = MemoryRows(
            X if scale == 1.0 else X * scale,
            groups.codes,
            groups.n_groups,
            weights=None if is_counted else weights,
            n_jobs=self.n_jobs,
        )
        distinct = distinct_rows(rows)
        samples = stand_in_samples(rows, distinct, least_rows=50 * self.n_clusters)
        attributes = None
        if self.attributes == "separate":
            attributes = Attributes.of(sensitive_features, groups)
        rule = self._rule(rows, attributes)
        best, is_warm = self._best_start(rows, distinct, samples, scale, rule), False
        if before is not None:
            best, is_warm = self._steps(rule, rows).better_of(distinct, best, before)
        labels = distinct.spread(best.labels, best.split)
        empty = np.bincount(labels, minlength=self.n_clusters) == 0
        labels, n_filled = fill_empty_clusters(rows.X, labels, self.n_clusters)
        if n_filled:
            best = replace(best, cost=cost_of(rows, labels, best.centers))
        if n_filled and warns_of_filled:
            why = _why_empty(rows, self.n_clusters, best.targets[empty])
            warnings.warn(
                f"{n_filled} of {self.n_clusters} clusters were left without a row, because {why}; "
                "each took the row farthest from the mean of the largest cluster, off its target.",
                FairnessWarning,
                stacklevel=5,
            )
        if not best.converged:
            warnings.warn(
                f"FairKMeans did not converge in max_iter={self.max_iter} iterations: the cost "
                f"still fell by more than tol={self.tol} of itself. The labels are fair, a "
                "cheaper solution is likely.",
                ConvergenceWarning,
                stacklevel=5,
            )
        self._store_labels(labels, groups, weights)
        store_titles(self, titles_at_fit(X, sensitive_features))
        unit = weights[0] if is_counted and weights is not None else 1.0
        self._store_result(best, bound_of(distinct, best), groups, scale, unit)
        self._asked_limits = public_limits(rule, groups, unit)
        if rule is None:
            rule = proportional_rule(rows.group_sizes, self.n_clusters, 0.0)
        counts = groups.from_public(self.counts_)
        counts = counts if unit == 1.0 else counts / unit
        report = AttributeReport.of(rule, attributes, counts, best)
        report.store(self, unit, scale**2)
        if n_filled == 0 and is_counted:
            report.warn_if_missed()
        return best, is_warm

    def _store_result(self, best, bound, groups, scale, unit):
        """Attributes of the assignment to centres, in the user's units."""
        self.cluster_centers_ = best.centers / scale
        self.assignment_prices_ = groups.to_public(best.prices) / scale**2
        self.targets_ = groups.to_public(best.targets) * unit
        # Of rows that are their own centres a cost is minus a sum of zeros: 0.0 takes the sign.
        self.inertia_ = best.cost * unit / scale**2 + 0.0
        self.lp_value_ = bound * unit / scale**2 + 0.0
        self.cost_path_ = np.array(best.cost_path) * unit / scale**2 + 0.0
        self.n_iter_ = best.n_iter

    def _rule(self, rows, attributes):
        """What is asked for, or None if it is exact proportions of one attribute."""
        joint = (
            attributes.joint if attributes is not None and attributes.joint.shape[1] > 1 else None
        )
        if self.tolerance == 0.0 and joint is None:
            return None
        min_size = 0.0 if rows.is_weighted else 1.0
        return proportional_rule(
            rows.group_sizes, self.n_clusters, self.tolerance, min_size=min_size, joint=joint
        )

    def predict(self, X, *, sensitive_features=None):
        """Cluster of new rows, by the centres and the prices of their groups.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            New rows.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups, all of which must have been seen by ``fit``; with separate attributes
            combinations of them may be new. Columns with titles are paired with those of ``fit``
            by title, others by position.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of each row.
        """
        return self._priced_distances(X, sensitive_features)[1].argmin(axis=1).astype(np.int32)

    def score(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        """Minus the k-means cost of the rows under `predict`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        score : float
            The larger, the better.
        """
        distances, priced = self._priced_distances(X, sensitive_features)
        own = distances[np.arange(len(distances)), priced.argmin(axis=1)]
        weights = check_weights(sample_weight, distances)
        return -float(own.sum() if weights is None else weights @ own)

    def _priced_distances(self, X, sensitive_features):
        check_is_fitted(self)
        X = check_rows(self, X, reset=False)
        # None: there is no parameter by which missing values could be made a group.
        codes, extra = known_codes(self, sensitive_features, len(X), missing_groups=None)
        prices = np.column_stack([self.assignment_prices_, *extra.values()])
        rows = MemoryRows(X, codes, prices.shape[1], n_jobs=self.n_jobs)
        distances = distances_to(rows, self.cluster_centers_)
        return distances, distances - prices.T[codes]

    def _steps(self, rule, rows):
        return FairSteps(rule, self.max_iter, self.tol, 0.0 if rows.is_weighted else 1.0)

    def _best_start(self, rows, distinct, samples, scale, rule):
        """The cheapest result of all starts, which compete on the smallest sample before."""
        steps = self._steps(rule, rows)
        if rule is not None and not samples:
            sample = competing_rows(distinct)
            samples = [] if sample is distinct else [sample]
        first, *larger = samples or [distinct]
        starts = list(starting_centers(self, rows, first, scale))
        finalists = [Settled(start) for start in starts]
        if samples or (len(starts) > 1 and (rows.is_weighted or first.n_rows > EXACT_ROWS)):
            settled = [steps.settle(first, finalist) for finalist in finalists]
            finalists = cheapest_different(settled, N_FINALISTS)
        for sample in larger:
            finalists = [steps.settle(sample, finalist) for finalist in finalists]
        if samples:  # on which they were compared
            finalists = cheapest_different(finalists, 1)
        results = [steps.follow(distinct, finalist) for finalist in finalists]
        return cheapest_different(results, 1)[0]


def _why_empty(rows, n_clusters, targets):
    """Why clusters that should have had so much of each group got no row."""
    n_distinct = len(np.unique(rows.X, axis=0))
    if n_distinct < n_clusters:
        return f"X has only {n_distinct} distinct row(s) for {n_clusters} clusters"
    share = targets.sum(axis=1).max()
    if rows.is_weighted and rows.weights.max() > share:
        return (
            f"sample_weight is up to {rows.weights.max():g}, more than the {share:.3g} that such "
            "a cluster should weigh"
        )
    return "rows are so equal, or groups so small, that some clusters had no share of them"
