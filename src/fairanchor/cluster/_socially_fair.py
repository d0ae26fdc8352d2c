"""Socially fair k-means: the group that is worst off is as well off as possible."""

from dataclasses import dataclass
from functools import partial
from itertools import islice
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted

from fairanchor._utils._shared_state import (
    warn_unconverged,
    with_one_blas_thread,
)
from fairanchor._utils._sklearn_compat import (
    HasMethods,
    Interval,
    StrOptions,
    check_weights,
    fit_context,
)
from fairanchor._utils._typing import Seed, Table, Weights
from fairanchor.assignment._sweep import cheapest_clusters
from fairanchor.cluster._base import known_codes
from fairanchor.cluster._center_distances import CenterDistances
from fairanchor.cluster._fair_kmeans import COMPETING_ROWS, competing_sample, kmeans_seeds
from fairanchor.cluster._fair_lloyd import CenterCosts
from fairanchor.cluster._large_scale import LargeScaleClusterer, TrainingRows
from fairanchor.rows import MemoryRows
from fairanchor.rows._open import is_batched, tables_of
from fairanchor.rows._sums import label_sums

# Starts by the largest number of clusters for which there are so many.
STARTS = {10: 20, 20: 10, 50: 8, 100: 4}
# So many times more of them on small tables.
MOST_ON_FEW_ROWS = 5
# Steps of each on few rows; so many are continued there, and so many on more rows.
FIRST_ROWS, FIRST_STEPS, PROMISING, FINALISTS = 5_000, 5, 8, 3
# The dual is solved until its value and the largest cost differ by this part of it.
DUAL_GAP = 1e-6
MAX_NEWTON_STEPS = 60


class SociallyFairKMeans(CenterDistances, LargeScaleClusterer):
    """k-means that minimises the largest average cost of a group.

    Minimises, over the centres::

        max over groups g of  (1 / n_g) sum of ||x_i - nearest center||^2 over the rows of g

    where n_g is the number of rows (weight) of the group (Ghadiri, Samadi and Vempala, "Socially
    Fair k-Means Clustering", FAccT 2021). Rows are in the cluster of the nearest centre, whatever
    their group, so `predict` needs no groups, and the composition of the clusters is free. Use it
    where the centres serve people (as sites, or as profiles that represent them), and
    `FairKMeans` where each cluster should have the composition of the population.

    Any number of groups. Like k-means it finds a local optimum. A step assigns rows to the nearest
    centre, then finds the best centres for these labels. That is a convex problem, solved by its
    dual: a concave function of one weight per group, whose weighted means are the centres.
    *Guaranteed*: ``center_gap_``, the largest cost of the fitted centres above the least that any
    centres could have for the same labels. The largest cost is never above that of the start. The
    cost of a step is linear in the number of rows; the dual needs sums by cluster and group only.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    init : "k-means++", array-like of shape (n_clusters, n_features) or fitted estimator, \
default="k-means++"
        Where the steps start: at seeds of k-means++, drawn from all rows alike or from all groups
        alike, at given centres, or at the ``cluster_centers_`` of a fitted estimator.
    n_init : int or "auto", default="auto"
        Number of starts, of which the best is kept; they are compared on a sample of large
        tables. ``"auto"``: 20 for up to 10 clusters, fewer for more; on tables of 2,500 rows or
        fewer two to five times as many. Ignored if ``init`` holds centres.
    max_iter : int, default=300
        Largest number of times that the centres move.
    tol : float, default=1e-4
        The steps end when the relative decrease of the largest cost is below this value.
    missing_groups : {"error", "own_group"}, default="error"
        What missing values of ``sensitive_features`` mean.
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
        The centres.
    groups_ : ndarray of shape (n_groups,)
        Names of the groups, sorted.
    group_costs_ : ndarray of shape (n_groups,)
        Average squared distance of each group's rows to their centre.
    social_cost_ : float
        The largest of these costs: the objective.
    group_weights_ : ndarray of shape (n_groups,)
        Dual variables, which sum to one: a group without weight is not among the worst.
    center_gap_ : float
        ``social_cost_`` above the least that any centres could have for these labels.
    counts_ : ndarray of shape (n_clusters, n_groups)
        Rows (weight) in each cell.
    balance_ : float
        Smallest group over largest group in the worst cluster.
    inertia_ : float
        Sum of squared distances of all rows.
    cost_path_ : ndarray of shape (n_iter,)
        Largest cost in each step on all rows, never increasing.
    n_iter_ : int
        Number of steps on all rows.
    converged_ : bool
        Whether the steps ended because the largest cost stopped falling.
    n_clusters_found_ : int
        Number of clusters with at least one row.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from fairanchor import SociallyFairKMeans
    >>> X = np.array([[0.0], [1.0], [0.0], [1.0], [9.0]])
    >>> group = ["a", "a", "a", "a", "b"]
    >>> model = SociallyFairKMeans(1, random_state=0).fit(X, sensitive_features=group)
    >>> model.cluster_centers_.round(2), model.group_costs_.round(2)
    (array([[4.74]]), array([18.19, 18.19]))
    >>> model.predict([[3.0]])
    array([0], dtype=int32)
    """

    _keeps_float32 = True
    _takes_sparse = True
    _attributes = None
    # Parameters of the other estimators that have no meaning here.
    attributes = "intersection"
    fairness = "population"
    min_cluster_size = None
    unknown_groups = "blind"

    _parameter_constraints = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"k-means++"}), "array-like", HasMethods("fit")],
        "n_init": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "missing_groups": [StrOptions({"error", "own_group"})],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int | str = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        missing_groups: str = "error",
        n_jobs: int | None = None,
        random_state: Seed | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.missing_groups = missing_groups
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
            Rows to cluster; see `FairKMeans.fit`.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row; several columns mean their intersection. Without it all rows are one
            group, which a warning reports: that is k-means. For datasets and Dask DataFrames the
            name of a column or a list of names.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        training = self._open_rows(X, sensitive_features, sample_weight)
        start = self._best_start(training)
        best = self._follow(training.distinct, start, self.max_iter)
        if not best.converged:
            warn_unconverged(
                f"SociallyFairKMeans did not converge in max_iter={self.max_iter} iterations: the "
                f"last one lowered the largest cost by more than tol={self.tol} of it. Increase "
                "max_iter."
            )
        self._store(training, best)
        return self

    def predict(self, X: Table, *, sensitive_features: Table | None = None) -> np.ndarray:
        """Number of the nearest centre of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            New rows, or an Arrow stream, dataset or Dask DataFrame, read batch by batch.
        sensitive_features : str, list of str or array-like, default=None
            Names of columns of X that are no features, for rows that are read in batches; ignored
            otherwise, since labels do not depend on groups.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Cluster of each row.
        """
        check_is_fitted(self)
        if is_batched(X):
            parts = tables_of(X, sensitive_features)
            return np.concatenate([self.predict(part) for part, _ in parts])
        return _nearest(self._rows_of(X), self._costs)

    def score(
        self,
        X: Table,
        y: None = None,
        *,
        sensitive_features: Table | None = None,
        sample_weight: Weights | None = None,
    ) -> float:
        """Minus the largest average cost of a group.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Their groups, all of which `fit` has seen. Without it all rows are one group.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        score : float
            The larger, the better.
        """
        check_is_fitted(self)
        rows = self._rows_of(X)
        weights = check_weights(sample_weight, rows.X)
        codes, n_groups = rows.group_codes, 1
        if sensitive_features is not None:
            missing = {"missing_groups": self.missing_groups}
            codes, _ = known_codes(self, sensitive_features, rows.n_rows, **missing)
            n_groups = len(self.groups_)
        rows = MemoryRows(rows.X, codes, n_groups, weights=weights, n_jobs=self.n_jobs)
        labelled = _Labelled.of(rows, self._costs.centers)
        return -float(labelled.costs.max()) / self._length**2

    def _restore_costs(self, parts: dict[str, Any]) -> None:
        """Set the costs that a model file has stored in parts."""
        self._costs = CenterCosts(parts["centers"])
        self.cluster_centers_ = parts["centers"] / self._length

    # Starts, from samples to all rows.

    def _best_start(self, training: TrainingRows) -> np.ndarray:
        samples = training.samples(self.n_clusters, training.draw(self.n_clusters))
        if not samples:
            n_rows = max(COMPETING_ROWS, 50 * self.n_clusters)
            samples = competing_sample(training.distinct, n_rows)
        first = samples[0] if samples else training.distinct
        few = competing_sample(first, max(FIRST_ROWS, 50 * self.n_clusters)) or [first]
        starts = self._starts(training, few[0])
        if len(starts) > 1:
            starts = self._cheapest(few[0], starts, FIRST_STEPS, PROMISING)
            starts = self._cheapest(few[0], starts, self.max_iter, FINALISTS)
        for sample in samples:
            starts = self._cheapest(sample, starts, self.max_iter, 1)
        return starts[0]

    def _cheapest(
        self, rows: Any, starts: list[np.ndarray], max_iter: int, at_most: int
    ) -> list[np.ndarray]:
        """Centres of the starts after steps on these rows, the best first."""
        followed = [self._follow(rows, centers, max_iter) for centers in starts]
        followed.sort(key=lambda one: one.path[-1])
        return [one.centers for one in followed[:at_most]]

    def _starts(self, training: TrainingRows, sample: Any) -> list[np.ndarray]:
        if not isinstance(self.init, str):
            centers = getattr(self.init, "cluster_centers_", self.init)
            centers = check_array(centers, dtype=np.float64, copy=True)
            expected = (self.n_clusters, sample.n_features)
            if centers.shape != expected:
                raise ValueError(
                    f"init has shape {centers.shape}, expected (n_clusters, n_features)="
                    f"{expected}: one centre per cluster."
                )
            return [centers * training.length]
        n_starts = self.n_init
        if n_starts == "auto":
            of_clusters = (number for most, number in STARTS.items() if self.n_clusters <= most)
            n_starts = next(of_clusters, 2)
            n_starts *= np.clip(FIRST_ROWS // sample.n_rows, 1, MOST_ON_FEW_ROWS)
        random_state = check_random_state(self.random_state)
        # Every second start is drawn as if all groups were of one size.
        of_groups = _inverse(sample.group_sizes)[sample.group_codes]
        alike = sample.weighted(sample.weights * of_groups)
        halves = (sample, -(-int(n_starts) // 2)), (alike, int(n_starts) // 2)
        return [
            centers
            for rows, number in halves
            for centers in islice(kmeans_seeds(rows, self.n_clusters, random_state), number)
        ]

    def _follow(self, rows: Any, centers: np.ndarray, max_iter: int) -> "_Followed":
        """Steps from given centres, until the largest cost falls no further."""
        path: list[float] = []
        weights = None
        while True:
            labelled = _Labelled.of(rows, centers)
            cost = float(labelled.costs.max())
            converged = bool(path) and cost >= path[-1] * (1.0 - self.tol)
            if not path or cost < path[-1]:
                path.append(cost)
                best = centers, labelled
            else:
                centers, labelled = best
            moves, weights, value = best_moves(labelled, weights)
            if converged or len(path) > max_iter:
                return _Followed(centers, labelled, weights, path, path[-1] - value, converged)
            centers = centers + moves

    def _store(self, training: TrainingRows, best: "_Followed") -> None:
        rows, groups = training.rows, training.groups
        self._costs, labels, labellers = CenterCosts(best.centers), None, []
        if training.in_chunks:
            labellers = [partial(_labels_of_chunk, self._costs)] * rows.n_chunks
        else:
            distinct = training.distinct
            labels = distinct.spread(_nearest(distinct, self._costs), {})
        self._store_rows(training, labels, best.labelled.totals, labellers)
        self._price_unit = training.length**2
        self.cluster_centers_ = best.centers / training.length
        self.group_costs_ = groups.to_public(best.labelled.costs) / self._price_unit
        self.social_cost_ = float(self.group_costs_.max())
        self.group_weights_ = groups.to_public(best.weights)
        self.center_gap_ = max(best.gap, 0.0) / self._price_unit
        cost = float(best.labelled.costs @ rows.group_sizes)
        self.inertia_ = cost * training.unit / self._price_unit
        self.cost_path_ = np.array(best.path) / self._price_unit
        self.n_iter_, self.converged_ = len(best.path), best.converged
        self.n_clusters_found_ = int(np.count_nonzero(self.counts_.sum(axis=1)))


@dataclass(frozen=True)
class _Labelled:
    """Rows at their nearest centres, in sums by cluster and group.

    ``moments`` are sums of the rows' differences to their centre, and ``shares`` sums of their
    weights, both over the weight of the group; ``costs`` are average squared distances.
    """

    moments: np.ndarray
    shares: np.ndarray
    totals: np.ndarray
    costs: np.ndarray

    @classmethod
    def of(cls, rows: Any, centers: np.ndarray) -> "_Labelled":
        """One pass over all rows."""
        (n_clusters, n_features), n_groups = centers.shape, rows.n_groups
        sums, totals, costs = rows.sum(_GroupSums(CenterCosts(centers), n_groups))
        totals = totals.reshape(n_clusters, n_groups)
        moments = sums.reshape(n_clusters, n_groups, n_features)
        moments = moments - totals[..., None] * centers[:, None, :]
        inverse = _inverse(rows.group_sizes)
        return cls(moments * inverse[:, None], totals * inverse, totals, costs * inverse)


@dataclass(frozen=True)
class _GroupSums:
    """Sums and weights of a block's rows by nearest centre and group, and costs of the groups."""

    costs: CenterCosts
    n_groups: int

    def __call__(self, block: Any) -> tuple:
        n_clusters = self.costs.n_clusters
        table = np.empty((block.n_rows, n_clusters))
        for part in block.parts(self.costs.rows_at_a_time(block.X)):
            self.costs.write(part, table[part.start - block.start : part.stop - block.start])
        labels = table.argmin(axis=1)
        nearest = block.weights * table[np.arange(len(labels)), labels]
        cells = labels * self.n_groups + block.group_codes
        sums, totals = label_sums(block.X, block.weights, cells, n_clusters * self.n_groups)
        return sums, totals, np.bincount(block.group_codes, nearest, minlength=self.n_groups)


@dataclass(frozen=True)
class _Followed:
    """Centres after the steps, the rows there, dual weights, costs, and the gap of the last."""

    centers: np.ndarray
    labelled: _Labelled
    weights: np.ndarray
    path: list
    gap: float
    converged: bool


def best_moves(
    labelled: _Labelled, start: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, float]:
    """Moves of the centres after which the largest cost is least, dual weights, and a lower bound.

    With moments s, shares a and costs q of the groups, moves u lead to the costs
    ``q_g - 2 sum_k s_kg u_k + sum_k a_kg |u_k|^2``. For group weights z on the simplex their
    weighted sum is least at ``u_k = sum_g z_g s_kg / sum_g z_g a_kg``. That least value is a
    concave function of z, and its maximum the least largest cost. It is found by Newton's method
    with a logarithmic barrier, from weights ``start`` of a similar problem.
    """
    used = labelled.shares.any(axis=1)  # other centres stay where they are
    moments, shares = labelled.moments[used], labelled.shares[used]
    n_groups = shares.shape[1]

    def at(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Moves for these weights, the costs after them, and their weighted sum."""
        moves = np.einsum("g,kgd->kd", weights, moments) / (shares @ weights)[:, None]
        costs = labelled.costs - 2.0 * np.einsum("kgd,kd->g", moments, moves)
        costs += (moves**2).sum(axis=1) @ shares
        return moves, costs, float(weights @ costs)

    def curvature(weights: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Minus the second derivatives of the least value."""
        away = moments - shares[..., None] * moves[:, None, :]
        away /= np.sqrt(shares @ weights)[:, None, None]
        flat = away.swapaxes(0, 1).reshape(n_groups, -1)
        return 2.0 * flat @ flat.T

    weights, barrier = np.full(n_groups, 1.0 / n_groups), 0.1
    if start is not None:
        weights, barrier = 0.999 * start + 0.001 * weights, 1e-4
    scale = float(labelled.costs.max())
    barrier *= scale / n_groups
    best, least = None, np.inf
    moves, costs, value = at(weights)
    for _ in range(MAX_NEWTON_STEPS):
        largest = float(costs.max())
        if largest < least:
            least, best = largest, moves
        if largest - value <= DUAL_GAP * scale:
            break
        system = np.ones((n_groups + 1, n_groups + 1))
        system[:-1, :-1] = curvature(weights, moves) + np.diag(barrier / weights**2)
        system[-1, -1] = 0.0
        gradient = costs + barrier / weights
        step = np.linalg.solve(system, np.append(gradient, 0.0))[:-1]
        falls = step < 0.0
        length = min(1.0, 0.95 * float(np.min(-weights[falls] / step[falls], initial=np.inf)))
        expected, reached = float(gradient @ step), value + barrier * np.log(weights).sum()
        while True:
            tried = weights + length * step
            moves, costs, value = at(tried)
            rises = value + barrier * np.log(tried).sum() - reached
            if rises >= 0.1 * length * expected or length * expected <= 1e-14 * scale:
                break
            length *= 0.5
        weights = tried / tried.sum()
        if expected <= n_groups * barrier:  # near enough to the centre for the next barrier
            barrier *= 0.01
    all_moves = np.zeros(labelled.moments[:, 0].shape)
    all_moves[used] = best
    return all_moves, weights, value


def _nearest(rows: Any, costs: CenterCosts) -> np.ndarray:
    return cheapest_clusters(rows, costs, np.zeros((costs.n_clusters, rows.n_groups)))


def _labels_of_chunk(costs: CenterCosts, chunk: Any) -> np.ndarray:
    return chunk.distinct.spread(_nearest(chunk.distinct, costs), {})


def _inverse(sizes: np.ndarray) -> np.ndarray:
    """One over the weight of each group; zero for a group without weight."""
    return np.divide(1.0, sizes, out=np.zeros(len(sizes)), where=sizes > 0)
