"""Fair k-means: Lloyd's algorithm whose assignment step is exact and fair."""

import itertools
import warnings
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.cluster import kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_array

from fairanchor._utils._sampling import spread_sample, spread_sample_by_weight
from fairanchor._utils._shared_state import users_stacklevel, with_one_blas_thread
from fairanchor._utils._sklearn_compat import HasMethods, Interval, StrOptions, fit_context
from fairanchor._utils._typing import Seed, Table, Weights
from fairanchor.cluster._base import fill_empty_clusters, warn_about_small_groups
from fairanchor.cluster._center_distances import CenterDistances
from fairanchor.cluster._fair_lloyd import (
    CenterCosts,
    FairLloyd,
    LloydResult,
    Start,
    cost_of,
    in_order_of_sizes,
    means_of,
    plain_lloyd,
    sums_in_chunks,
    unit_length,
)
from fairanchor.cluster._large_scale import LargeScaleClusterer, TrainingRows
from fairanchor.constraints._constraint import Constraint, check_request, constraint_of
from fairanchor.constraints._fairness_targets import FairnessTargets
from fairanchor.exceptions import FairnessWarning
from fairanchor.rows import MemoryRows
from fairanchor.rows._tables import dense_rows

# Rows from which seeds are drawn: at least, and for each cluster.
SEEDING_ROWS, SEEDING_ROWS_PER_CLUSTER = 20_000, 50
# Runs of plain k-means by the largest number of clusters for which so many are made: with many
# clusters runs differ little, and each takes long.
PLAIN_RUNS = {20: 10, 50: 4}
# No more are made when so many have had the least cost. They end when the cost falls by less than
# this part of itself: steps with the constraint follow.
ENOUGH_RUNS, PLAIN_TOLERANCE = 3, 1e-3
# Of these, the cheapest that are continued with the constraint, and compared by the cost that they
# then have.
FINALISTS = {10: 5, 20: 3}
SAME_COST, WORTH_A_TRY = 1e-3, 1.2
# Their steps before those are given up that cost more than this times the best.
FIRST_ROWS, FIRST_ROWS_PER_CELL, FIRST_STEPS, PROMISING = 8_000, 25, 3, 1.015
# Rows on which starts are compared. Fewer chose worse starts on some tables.
COMPETING_ROWS = 20_000


class FairKMeans(CenterDistances, LargeScaleClusterer):
    """k-means whose clusters all mirror the population's groups, exactly or up to a tolerance.

    Minimises, over labels and centres::

        sum_i w_i ||x_i - center[label_i]||^2
        subject to  |N[l, r] - pi_r N_l| < 1   for every cluster l and group r
        (or, with a tolerance,  (1 - tolerance) pi_r <= N[l, r] / N_l <= pi_r / (1 - tolerance))

    where N[l, r] is the number of rows of group r in cluster l, N_l the size of the cluster and
    pi_r the group's share of the data. Like k-means, it finds a local optimum by Lloyd steps, in
    which the assignment is the cheapest one that satisfies the constraint. The steps share rows
    near a tie between clusters; the final labels are whole, and optimal for the final centres and
    for their counts.

    *Guaranteed for the labels*, with any number of groups: cluster and group totals are exact, and
    every cell is the floor or the ceiling of ``N_l pi_r``. With unequal ``sample_weight`` a cell
    can miss it by the largest weight among a few rows. With a tolerance or bounds a cell misses
    them by less than one row, and by none if whole numbers near the linear program's solution
    allow it; ``worst_violation_`` is the actual violation. With ``attributes="separate"`` no bound
    on the violation is guaranteed beforehand (nearly always it is below one row), and a warning
    reports a violation of one row or more.

    *Cost*: the time of an iteration is linear in the number of rows. A table of rows × clusters is
    never stored.

    Bounds on the sizes of the clusters need no groups: ``fairness=FairnessTargets(min_size=...,
    max_size=...)`` without ``sensitive_features`` is balanced, or size-constrained, k-means. Sizes
    that differ between clusters belong to the centres of ``init``, if it holds some; otherwise the
    largest cluster of the start gets the largest size.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    metric : {"euclidean", "cosine"}, default="euclidean"
        ``"cosine"`` divides rows and centres by their norms (spherical k-means), for embeddings
        and texts: a squared distance is then ``2 (1 - cosine)``. A row of zeros is equally far
        from all centres.
    init : {"k-means", "k-means++", "random"}, array-like or fitted estimator, default="k-means"
        Where the fair iterations start: at the centres of plain k-means, at its seeds, at random
        rows, at given centres of shape (n_clusters, n_features), at the means of given labels of
        shape (n_samples,), or at the ``cluster_centers_`` of a fitted estimator.
    n_init : int or "auto", default="auto"
        ``"auto"``: several runs of plain k-means (up to ten for 20 clusters or fewer, up to four
        for 50, otherwise one), until three of them reach the least cost. The best few are compared
        by their fair cost, and the cheapest is continued; large tables are sampled for this. With
        another ``init``, one start. An integer: that many fair fits from different starts, of
        which the cheapest is kept. Ignored if ``init`` holds centres or labels.
    max_iter : int, default=100
        Maximum number of iterations, in each of which the centres move.
    tol : float, default=1e-4
        The iterations end when the relative decrease of the cost is below this value.
    fairness : "population", array of shape (n_clusters, n_groups), or FairnessTargets, \
default="population"
        The constraint: every cluster mirrors the population, a table of sample counts, or
        bounds on shares and sizes (with separate attributes a list, one for each column).
    tolerance : float in [0, 1], default=0.0
        By how much a group's share of a cluster may differ from its share pi of the data: it is in
        ``[(1 - tolerance) pi, pi / (1 - tolerance)]``. 0 requires exact proportions, 1
        sets no bound (plain k-means).
    attributes : {"intersection", "separate"}, default="intersection"
        Whether several columns of ``sensitive_features`` are one attribute, whose groups are the
        combinations, or each column is constrained separately.
    min_cluster_size : float, default=None
        Least number of rows (weight) of a cluster; short for ``FairnessTargets(min_size=...)``.
    missing_groups : {"error", "own_group"}, default="error"
        What missing values of ``sensitive_features`` mean.
    unknown_groups : {"error", "blind"}, default="error"
        What `predict` does with a group that `fit` has not seen: raise an error, or use the
        population's average prices.
    max_passes : int, default=None
        Number of passes over more than 2**20 rows for each start, at least 4: one that draws a
        sample, one for each iteration on all rows, one for the final labels and one that writes
        them. More are taken only where the labels could not be proved optimal otherwise. None:
        until convergence.
    n_jobs : int, default=None
        Number of threads; the result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Determines the starts.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row. Not set if X is a dataset or Dask collection with more than 2**20
        rows; use `iter_labels` or `write_labels`.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centres to which the labels are the best fair assignment.
    assignment_prices_ : ndarray of shape (n_clusters, n_groups)
        Dual variables: a row of group r is in the cluster with the least squared distance minus
        price.
    groups_ : ndarray of shape (n_groups,)
        Names of the groups, sorted: the columns of the tables.
    counts_, targets_ : ndarray of shape (n_clusters, n_groups)
        Rows in each cell, and the exactly proportional number; with a tolerance, bounds or
        separate attributes, the numbers that were chosen within them.
    worst_violation_ : float
        By how many rows (how much weight) the worst cell misses its target or bound.
    lp_value_ : float
        Value of the linear program over fractional labels: no labels that satisfy the constraint
        cost less for these centres. For very large programs (more than 400 constraints, or where
        many rows are tied) it is a lower bound that is a few millionths below. ``inertia_ -
        lp_value_`` is negative where labels gain by missing bounds by a part of a row.
    assignment_gap_ : float
        Cost of the labels above the least that any labels with the same counts could cost; zero,
        up to rounding errors, proves them optimal.
    attribute_groups_, attribute_counts_, attribute_violations_ : dict
        With ``attributes="separate"``, by the name of the column (or its number): its groups,
        rows in each cell, and rows by which its worst cell misses its bounds.
    balance_ : float
        Smallest group over largest group in the worst cluster.
    inertia_ : float
        Sum of squared distances of the rows to their centres.
    cost_path_ : ndarray of shape (n_iter + 1,) or shorter
        Value of the linear program, whose labels may be fractions, in each iteration on all rows;
        never increasing. Labels are whole: ``inertia_`` can be higher.
    n_iter_ : int
        Number of iterations on all rows.
    converged_ : bool
        Whether the iterations ended because the cost stopped falling.
    n_passes_ : int
        Number of passes over all rows, if there are more than 2**20; `write_labels` and
        `iter_labels` take one more. Model files do not have it.
    expected_excess_ : float
        With more than 2**20 rows: the relative excess of the cost over that of up to 300 further
        iterations, estimated on two samples. Model files do not have it.
    n_clusters_found_ : int
        Number of clusters with at least one row.
    n_features_in_ : int
        Number of features.
    sensitive_names_in_ : ndarray of shape (n_columns,)
        Names of the sensitive columns, if all of them are distinct strings. `predict` matches the
        columns of a table by them, in any order.

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

    _keeps_float32 = True
    _takes_sparse = True

    _parameter_constraints = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "metric": [StrOptions({"euclidean", "cosine"})],
        "init": [StrOptions({"k-means", "k-means++", "random"}), "array-like", HasMethods("fit")],
        "n_init": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "fairness": [StrOptions({"population"}), "array-like", FairnessTargets],
        "tolerance": [Interval(Real, 0, 1, closed="both")],
        "attributes": [StrOptions({"intersection", "separate"})],
        "min_cluster_size": [Interval(Real, 0, None, closed="left"), None],
        "missing_groups": [StrOptions({"error", "own_group"})],
        "unknown_groups": [StrOptions({"error", "blind"})],
        "max_passes": [Interval(Integral, 4, None, closed="left"), None],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        metric: str = "euclidean",
        init: Any = "k-means",
        n_init: int | str = "auto",
        max_iter: int = 100,
        tol: float = 1e-4,
        fairness: Any = "population",
        tolerance: float = 0.0,
        attributes: str = "intersection",
        min_cluster_size: float | None = None,
        missing_groups: str = "error",
        unknown_groups: str = "error",
        max_passes: int | None = None,
        n_jobs: int | None = None,
        random_state: Seed | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.fairness = fairness
        self.tolerance = tolerance
        self.attributes = attributes
        self.min_cluster_size = min_cluster_size
        self.missing_groups = missing_groups
        self.unknown_groups = unknown_groups
        self.max_passes = max_passes
        self.n_jobs = n_jobs
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    @with_one_blas_thread
    def fit(
        self,
        X: Table,
        y: None = None,
        *,
        sensitive_features: Table | None = None,
        sample_weight: Weights | None = None,
    ) -> Self:
        """Cluster the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), dataset or Dask collection
            Rows to cluster: in memory (sparse rows stay sparse, in CSR format), in files (a pyarrow
            dataset of Parquet or Arrow files, the path of a file or directory, or a list of paths),
            in a Dask DataFrame or array, whose client must be open, or from a function that opens
            an Arrow stream, such as the result of a query, anew for each pass. Anything else with
            ``__arrow_c_stream__`` (a relation of DuckDB, a reader of record batches) and a lazy
            frame of polars are read into memory in batches.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row. Without it all rows are one group, and only the sizes of the
            clusters can be constrained; a warning reports it if they are not. For files,
            Dask DataFrames and Arrow streams the name of a column or a list of names; all other
            columns are features.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._fit_rows(X, sensitive_features, sample_weight)
        return self

    @with_one_blas_thread
    def _fit_after(
        self,
        before: LloydResult | None,
        X: Table,
        sensitive_features: Table,
        sample_weight: Weights | None = None,
    ) -> tuple[LloydResult, bool]:
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
        return self._fit_rows(X, sensitive_features, sample_weight, before)

    @property
    def _has_unit_rows(self) -> bool:
        return self.metric == "cosine"

    def _restore_costs(self, parts: dict[str, Any]) -> None:
        """Set the costs that a model file has stored in parts."""
        self._costs = CenterCosts(parts["centers"])
        self.cluster_centers_ = parts["centers"] / self._length

    def _fit_rows(
        self,
        X: Table,
        sensitive_features: Table,
        sample_weight: Weights,
        before: LloydResult | None = None,
    ) -> tuple[LloydResult, bool]:
        check_request(self.fairness, self.tolerance, self.min_cluster_size)
        needs_memory = "attributes='separate'" if self.attributes == "separate" else None
        if before is not None:
            needs_memory = "A warm start"
        training = self._open_rows(X, sensitive_features, sample_weight, needs_memory=needs_memory)
        warn_about_small_groups(training.groups, self.n_clusters, attributes=training.attributes)
        constraint = constraint_of(
            self.fairness, self.tolerance, training.attributes, training.groups, training.rows,
            self.n_clusters, min_size=self.min_cluster_size, unit=training.unit,
        )  # fmt: skip
        least = 0.0 if training.rows.is_weighted else 1.0
        cells = constraint.cells(training.rows.group_sizes, self.n_clusters)
        lloyd = FairLloyd(
            constraint, cells, self.max_iter, self.tol, least, self._has_unit_rows, self.max_passes
        )
        best, is_warm = self._best_fit(training, lloyd), False
        if before is not None:
            # The labels of a tighter constraint satisfy this one too.
            warm = lloyd.follow(training.distinct, Start(before.centers))
            better = min((warm, before), key=lambda result: result.cost)
            if better.cost <= best.cost:
                best, is_warm = better, True
        labels, cost = self._labels(training, best, constraint)
        if not best.converged:
            limit = f"max_iter={self.max_iter} iterations"
            if best.n_iter < self.max_iter:
                limit = f"max_passes={self.max_passes} passes"
            warnings.warn(
                f"FairKMeans did not converge in {limit}: the last one lowered the cost by more "
                f"than tol={self.tol} of it. The labels are fair, but their cost can be lower: "
                f"increase {limit.partition('=')[0]}.",
                ConvergenceWarning,
                stacklevel=users_stacklevel(),
            )
        self._costs = CenterCosts(best.centers)
        unit = training.unit / training.length**2
        self.cluster_centers_ = best.centers / training.length
        # The cost of rows that are their own centres can be a zero with a sign.
        self.inertia_ = cost * unit + 0.0
        self.lp_value_ = max(best.assignment.lp_value, 0.0) * unit
        self.cost_path_ = np.array(best.cost_path) * unit + 0.0
        self.n_iter_, self.converged_ = best.n_iter, best.converged
        self._store_assignment(training, best.assignment, labels, constraint)
        if training.in_chunks:
            drawn = (training.draw(self.n_clusters, second=second) for second in (False, True))
            samples = (training.samples(self.n_clusters, own)[-1] for own in drawn)
            self.expected_excess_ = lloyd.excess(best, *samples)
        self.n_clusters_found_ = int(np.count_nonzero(self.counts_.sum(axis=1)))
        return best, is_warm

    def _best_fit(self, training: TrainingRows, lloyd: FairLloyd) -> LloydResult:
        """The cheapest fair fit of all starts.

        Starts are compared, and come near, on samples, where steps are cheap.
        """
        samples = training.samples(self.n_clusters, training.draw(self.n_clusters))
        if not samples:
            samples = competing_sample(training.distinct, max(COMPETING_ROWS, 50 * self.n_clusters))
        first, *larger = samples or [training.distinct]
        starts = [Start(centers) for centers in self._starts(training, first, lloyd.constraint)]
        if self.n_init == "auto" and len(starts) > 1:
            # A few steps on few rows tell which ones are worth more.
            n_cells = self.n_clusters * first.n_groups
            few = competing_sample(first, max(FIRST_ROWS, FIRST_ROWS_PER_CELL * n_cells))
            few = few or [first]
            starts = [lloyd.converge(few[0], start, FIRST_STEPS) for start in starts]
            most = PROMISING * min(start.cost for start in starts)
            starts = [start for start in starts if start.cost <= most]
        if samples or len(starts) > 1:
            starts = [lloyd.converge(first, start) for start in starts]
        if self.n_init == "auto":
            starts = cheapest_different(starts, 1)
        for sample in larger:
            starts = [lloyd.converge(sample, start) for start in starts]
        sample = samples[-1] if training.in_chunks else None
        del samples, first, larger  # they are not needed beside all rows
        results = [lloyd.follow(training.distinct, start, sample) for start in starts]
        return cheapest_different(results, 1)[0]

    def _starts(
        self, training: TrainingRows, sample: Any, constraint: Constraint
    ) -> list[np.ndarray]:
        """Centres to start from, the best first.

        Where clusters are to have different sizes, the largest ones get the largest sizes, unless
        the start is given: its clusters are numbered by the user.

        Parameters
        ----------
        training : TrainingRows
        sample : MemoryRows
            What plain k-means runs on.
        constraint : Constraint

        Returns
        -------
        centers : list of ndarray of shape (n_clusters, n_features)
        """
        if not isinstance(self.init, str):
            given = self._given_start(training)
            return [unit_length(given) if self._has_unit_rows else given]
        starts = self._found_starts(training, sample)
        wanted = constraint.typical_sizes(sample.total)
        if wanted is None or np.ptp(wanted) == 0.0:
            return starts
        return [in_order_of_sizes(sample, centers, wanted) for centers in starts]

    def _found_starts(self, training: TrainingRows, sample: Any) -> list[np.ndarray]:
        n_clusters, random_state = self.n_clusters, check_random_state(self.random_state)
        rows = sample if training.in_chunks else training.rows
        n_fits = 1 if self.n_init == "auto" else int(self.n_init)
        if self.init == "random":
            shares = rows.weights / rows.total
            if np.count_nonzero(shares) < n_clusters:
                shares = None  # rows without weight have to serve as well
            chosen = (
                random_state.choice(
                    rows.n_rows, n_clusters, replace=rows.n_rows < n_clusters, p=shares
                )
                for _ in range(n_fits)
            )
            return [dense_rows(rows.X[indices]) for indices in chosen]
        seeds = kmeans_seeds(rows, n_clusters, random_state)
        if self.init == "k-means++":
            return list(itertools.islice(seeds, n_fits))
        is_auto = self.n_init == "auto"
        options: dict[str, Any] = {"max_iter": self.max_iter, "spherical": self._has_unit_rows}
        options["tol"] = max(self.tol, PLAIN_TOLERANCE) if is_auto else self.tol
        n_runs = max(n_fits, _by_clusters(PLAIN_RUNS, n_clusters))
        plain: list[Start] = []
        for centers in itertools.islice(seeds, n_runs):
            plain.append(Start(*plain_lloyd(sample, centers, **options)))
            most = (1.0 + SAME_COST) * min(start.cost for start in plain)
            if is_auto and sum(start.cost <= most for start in plain) == ENOUGH_RUNS:
                break
        if not is_auto:
            return [start.centers for start in cheapest_different(plain, n_fits)]
        # Runs that ended in the same clusters stopped at costs that differ a little.
        finalists = cheapest_different(plain, _by_clusters(FINALISTS, n_clusters), SAME_COST)
        most = WORTH_A_TRY * finalists[0].cost
        return [start.centers for start in finalists if start.cost <= most]

    def _given_start(self, training: TrainingRows) -> np.ndarray:
        """Centres that the user gave, directly, by labels, or by a fitted estimator."""
        rows, expected = training.rows, (self.n_clusters, training.rows.n_features)
        given = getattr(self.init, "cluster_centers_", self.init)
        if hasattr(given, "fit"):
            raise ValueError(
                f"init={given!r} has no cluster_centers_, expected a fitted estimator that has "
                "them. Copies that clone makes are not fitted: pass the centres themselves."
            )
        if np.ndim(given) == 1:
            labels = np.asarray(given)
            codes = np.unique(labels, return_inverse=True)[1]
            if len(labels) != rows.n_rows or codes.max(initial=0) + 1 != self.n_clusters:
                raise ValueError(
                    f"init holds {len(labels)} labels of {codes.max(initial=0) + 1} clusters, "
                    f"expected {rows.n_rows} labels of n_clusters={self.n_clusters}."
                )
            if training.in_chunks:
                parts = np.split(codes, range(rows.chunk_rows, rows.n_rows, rows.chunk_rows))
                sums, totals, _ = sums_in_chunks(rows, parts, self.n_clusters)
                return sums / totals[:, None]
            return means_of(rows, codes, np.zeros(expected))
        centers = check_array(given, dtype=np.float64, copy=True)
        if centers.shape != expected:
            raise ValueError(
                f"init has shape {centers.shape}, expected (n_clusters, n_features)="
                f"{expected}: one centre per cluster."
            )
        return centers * training.length

    def _labels(
        self, training: TrainingRows, best: LloydResult, constraint: Constraint
    ) -> tuple[np.ndarray | None, float]:
        """Labels of all rows and their cost; empty clusters get a row each, with a warning."""
        if training.in_chunks:
            return None, best.cost
        rows = training.rows
        labels = best.assignment.labels(training.distinct)
        empty = np.bincount(labels, minlength=self.n_clusters) == 0
        if constraint.targets is not None:  # a cluster without a target is empty as asked for
            empty &= constraint.targets.sum(axis=1) > 0
        elif constraint.rule is not None:
            empty &= constraint.rule.bounds[0].greatest > 0
        if not empty.any():
            return labels, best.cost
        why = _why_empty(rows, self.n_clusters, best.assignment.targets[empty])
        labels, n_filled = fill_empty_clusters(rows.X, labels, self.n_clusters, ~empty)
        warnings.warn(
            f"{n_filled} of {self.n_clusters} clusters were left without a row, because {why}; "
            "each took the row farthest from the mean of the largest cluster, off its target.",
            FairnessWarning,
            stacklevel=users_stacklevel(),
        )
        return labels, cost_of(rows, labels, best.centers)


def kmeans_seeds(rows: Any, n_clusters: int, random_state: Any) -> Iterator[np.ndarray]:
    """Centres by k-means++, again and again."""
    n_rows = max(SEEDING_ROWS, SEEDING_ROWS_PER_CLUSTER * n_clusters)
    chosen = spread_sample(rows.n_rows, n_rows)
    # Merged rows may be fewer than the clusters, which then have equal centres.
    chosen = np.resize(chosen, max(len(chosen), n_clusters))
    X, weights = rows.X[chosen], rows.weights[chosen]
    options = {"sample_weight": weights, "x_squared_norms": row_norms(X, squared=True)}
    while True:
        centers, _ = kmeans_plusplus(X, n_clusters, random_state=random_state, **options)
        yield centers.astype(np.float64)


def _by_clusters(numbers: dict[int, int], n_clusters: int) -> int:
    """The number for so many clusters; 1 for more than any that is listed."""
    return next((number for most, number in numbers.items() if n_clusters <= most), 1)


def competing_sample(rows: Any, n_rows: int) -> list[MemoryRows]:
    """Some rows of each group, with the weight of all of it, to compare starts on; or none."""
    if rows.n_rows <= 2 * n_rows:
        return []
    chosen, weights = [], []
    for members in rows.members:
        share = n_rows * len(members) // rows.n_rows
        quota = max(share, n_rows // (4 * rows.n_groups), 1)
        places, group_weights = spread_sample_by_weight(rows.weights[members], quota)
        chosen.append(members[places])
        weights.append(group_weights)
    return [rows.subset(np.concatenate(chosen)).weighted(np.concatenate(weights))]


def cheapest_different(candidates: Any, at_most: int, same: float = 1e-9) -> list:
    """The cheapest candidates, one of each cost.

    Starts that converge to the same clusters number them differently, and rounding errors, hence
    the units of the data, must not decide between them: of equal costs the first one counts.
    """
    levels: list = []  # of equal cost: the cost, and the first candidate that has it
    for k in sorted(range(len(candidates)), key=lambda k: candidates[k].cost):
        cost = candidates[k].cost
        if levels and cost <= levels[-1][0] * (1 + same):
            levels[-1][1] = min(levels[-1][1], k)
        else:
            levels.append([cost, k])
    return [candidates[k] for _, k in levels[:at_most]]


def _why_empty(rows: Any, n_clusters: int, targets: np.ndarray) -> str:
    """Why clusters that should have had so much of each group got no row."""
    n_distinct = len(np.unique(rows.X, axis=0)) if isinstance(rows.X, np.ndarray) else n_clusters
    if n_distinct < n_clusters:
        return f"X has only {n_distinct} distinct row(s) for {n_clusters} clusters"
    share = targets.sum(axis=1).max()
    if rows.is_weighted and rows.weights.max() > share:
        return (
            f"sample_weight is up to {rows.weights.max():g}, more than the {share:.3g} that such "
            "a cluster should weigh"
        )
    return "rows are so equal, or groups so small, that some clusters had no share of them"
