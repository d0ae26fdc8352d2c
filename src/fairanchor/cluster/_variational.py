"""Variational fair clustering: a clustering cost plus a penalty on the groups' shares."""

import warnings
from numbers import Integral, Real

import numpy as np
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state

from fairanchor._kernels._variational import (
    bound_updates,
    most_likely_clusters,
    polish_labels,
)
from fairanchor._utils._scaling import power_of_two_scale
from fairanchor._utils._shared_state import equal_centers_allowed, one_thread
from fairanchor._utils._sklearn_compat import Interval, StrOptions, fit_context
from fairanchor.cluster._base import FairClusterer, fill_empty_clusters
from fairanchor.cluster._variational_objectives import OBJECTIVES, PenalisedRows, mean_spread
from fairanchor.cluster._weighted_rows import (
    rows_with_weight,
    spread_labels,
    warn_about_small_groups,
)

#: First soft labels are softmax(-FIRST_SHARPNESS * costs / their spread): soft enough that a
#: group far away can still enter a cluster, sharp enough that the argmax keeps its shares.
FIRST_SHARPNESS = 10.0
MAX_RESEEDS = 2
MAX_POLISH_SWEEPS = 100


class VariationalFairClustering(FairClusterer):
    r"""k-means, k-median or normalised cut with a penalty on unequal group shares (VFC).

    Over soft labels S (rows on the simplex) and centres c it minimises

    .. math:: \sum_i w_i \sum_l S_{il}\, a_{il}(c)
              + \lambda \sum_l \mathrm{KL}(\pi \,\|\, P_l),
              \qquad P_{lr} = M_{lr} / \sum_s M_{ls},
              \qquad M_{lr} = \sum_{i \in G_r} w_i S_{il},

    with :math:`\pi` the groups' shares of the total weight W and
    :math:`\lambda = \text{fairness\_weight} \cdot W`. The unary cost a is the squared
    distance to the cluster's mean (``"kmeans"``), the distance to its medoid
    (``"kmedian"``), or the linearised normalised cut of a nearest-neighbour graph
    (``"ncut"``). Any number of groups is supported.

    With the centres fixed, a bound on this energy is minimised in closed form again and
    again (mirror descent); the labels are the largest entries of S, and the centres are
    recomputed from them. The inverse step size is at least
    :math:`\lambda \max \pi_r / M_{lr}` and doubles whenever the true energy would rise, so
    that a large ``fairness_weight`` cannot overshoot into unfair labels.

    *Guaranteed*: ``energy_path_``, the energy of the hard labels with their own centres,
    never increases, and its last entry belongs to ``labels_``. Every cluster has a row.
    *Not guaranteed*: any bound on the balance of the labels. The penalty is a price, not a
    constraint; look at ``fairness_error_`` and raise ``fairness_weight`` if it is too high.

    **Units.** The clustering term is in units of X squared (``"kmedian"``: of X), the
    penalty is not, so the same ``fairness_weight`` means less fairness when X is
    multiplied by ten. Features are never rescaled here: standardise them first, unless
    their units are comparable; the default 0.25 is meant for costs of about one per row.
    For ``"ncut"`` the cut is multiplied by W, so ``fairness_weight`` is the publication's
    own :math:`\lambda`, whatever the units of X.

    **Cost**: O(n k) time per inner step and O(n k) memory, plus O(n k d) per outer
    iteration; medoids and the neighbour graph take up to O(n²) time in high dimension.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    objective : {"kmeans", "kmedian", "ncut"}, default="kmeans"
        The clustering term.
    fairness_weight : float, default=0.25
        Weight of the penalty per unit of row weight. 0 gives the unfair counterpart, for
        ``"kmeans"`` Lloyd's algorithm.
    lipschitz : float, default=None
        Smallest inverse step size; the first soft labels are then ``softmax(-a)``. The
        publication uses 2 for k-means and k-median and 1 for the cut, on rows of unit
        length. ``None`` means these values times a tenth of the mean spread of a row's
        costs, and first soft labels as sharp as that: the result then does not depend on
        the units in which X and ``fairness_weight`` are given.
    n_neighbors : int, default=20
        Neighbours in the graph of ``"ncut"``, the row itself included.
    init : {"k-means++"} or array-like of shape (n_clusters, n_features), default="k-means++"
        First centres. An array means a single run.
    n_init : int, default=4
        Number of runs; the one with the lowest energy is kept.
    max_iter : int, default=100
        Largest number of outer iterations of a run.
    max_inner_iter : int, default=10_000
        Largest number of bound updates per outer iteration.
    tol : float, default=1e-4
        An outer iteration that lowers the energy by at most this share is the last.
    inner_tol : float, default=1e-5
        The same for the bound updates.
    polish : bool, default=True
        After taking the largest soft label, move single rows, those nearest to a tie
        first, as long as the energy of the hard labels falls. This is not part of the
        publication: rounding can undo the fairness of soft labels, above all among equal
        rows. ``False`` keeps the plain argmax.
    random_state : int, RandomState instance or None, default=None
        Draws the first centres.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Means of the clusters (``"kmedian"``: medoids).
    energy_path_ : ndarray of shape (n_iter,)
        Energy of the labels after each outer iteration of the best run.
    fairness_error_ : float
        ``sum over clusters of KL(pi || P_l)`` of the labels; 0 is proportional.
    counts_ : ndarray of shape (n_clusters, n_groups)
        Weight of each group in each cluster, groups as in ``groups_``.
    balance_ : float
        Smallest group over largest, in the worst cluster.
    groups_ : ndarray of shape (n_groups,)
        Names of the groups.
    n_iter_ : int
        Outer iterations of the best run.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    A row of integer weight w behaves as w equal rows (``"ncut"``: with links to the same
    rows). Rows of weight zero take no part; they get the nearest centre's label.

    A large penalty can leave a cluster without rows, since nothing is fairer than an empty
    cluster. Such a run starts anew from plain k-means, at most twice; after that the
    largest cluster is split by its farthest row, and a ConvergenceWarning says so.

    References
    ----------
    I. M. Ziko, J. Yuan, E. Granger, I. Ben Ayed. Variational Fair Clustering. AAAI 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from fairanchor import VariationalFairClustering
    >>> X = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1], [0, 9], [1, 9], [0, 10], [1, 10]])
    >>> group = ["a", "a", "a", "a", "b", "b", "b", "b"]
    >>> model = VariationalFairClustering(2, fairness_weight=200.0, random_state=0)
    >>> model.fit(X, sensitive_features=group).balance_
    1.0
    >>> model.set_params(fairness_weight=0.0).fit(X, sensitive_features=group).balance_
    0.0
    """

    _parameter_constraints: dict = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "objective": [StrOptions({"kmeans", "kmedian", "ncut"})],
        "fairness_weight": [Interval(Real, 0, None, closed="left")],
        "lipschitz": [Interval(Real, 0, None, closed="neither"), None],
        "n_neighbors": [Interval(Integral, 2, None, closed="left")],
        "init": [StrOptions({"k-means++"}), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_inner_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "inner_tol": [Interval(Real, 0, None, closed="left")],
        "polish": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters=8,
        *,
        objective="kmeans",
        fairness_weight=0.25,
        lipschitz=None,
        n_neighbors=20,
        init="k-means++",
        n_init=4,
        max_iter=100,
        max_inner_iter=10_000,
        tol=1e-4,
        inner_tol=1e-5,
        polish=True,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.objective = objective
        self.fairness_weight = fairness_weight
        self.lipschitz = lipschitz
        self.n_neighbors = n_neighbors
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.max_inner_iter = max_inner_iter
        self.tol = tol
        self.inner_tol = inner_tol
        self.polish = polish
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
        """Cluster the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster.
        y : Ignored
            Present for API consistency.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
            Group of each row; several columns mean their intersection.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row, in the clustering term and in the groups' shares.

        Returns
        -------
        self : VariationalFairClustering
        """
        X, groups, weights = self._check_input(X, sensitive_features, sample_weight)
        power_of_two_scale(X)  # refuses what cannot be squared
        kept = rows_with_weight(weights, self.n_clusters, len(X))
        warn_about_small_groups(groups, self.n_clusters, kept)
        rows = PenalisedRows.of(X, groups, weights, kept, self.fairness_weight)

        with one_thread():
            objective = OBJECTIVES[self.objective](rows, self.n_clusters, self.n_neighbors)
            run = self._best_run(rows, objective)
        run.warn_if_incomplete(self)

        self.cluster_centers_ = objective.centers(run.labels)
        self.energy_path_ = np.array(run.energies)
        self.n_iter_ = len(run.energies)
        self._store_labels(
            spread_labels(X, kept, run.labels, self.cluster_centers_), groups, weights
        )
        self.fairness_error_ = fairness_error(self.counts_)
        return self

    def _best_run(self, rows, objective):
        """The run with the lowest energy, the earliest on ties."""
        random_state = check_random_state(self.random_state)
        if len(rows.X) == self.n_clusters:
            return _singletons(rows, objective)
        if not isinstance(self.init, str):
            return self._run(rows, objective, self._check_init(rows.X), random_state)
        runs = []
        for _ in range(self.n_init):
            centers, _ = kmeans_plusplus(
                rows.X, self.n_clusters, sample_weight=rows.weights, random_state=random_state
            )
            runs.append(self._run(rows, objective, centers, random_state))
        return min(runs, key=lambda run: run.energies[-1])

    def _check_init(self, X):
        centers = check_array(self.init, dtype=np.float64, order="C", input_name="init")
        expected = (self.n_clusters, X.shape[1])
        if centers.shape != expected:
            raise ValueError(
                f"init has shape {centers.shape}, expected {expected}: one centre per cluster, "
                "with the features of X."
            )
        return centers

    def _run(self, rows, objective, centers, random_state):
        """Alternate bound updates and centre updates until the energy stops falling."""
        run = _Run()
        state = objective.start(centers)
        n_reseeds = 0
        while len(run.energies) < self.max_iter and not run.converged:
            costs = objective.costs(state)
            labels, inner_converged = self._assign(rows, costs, objective.lipschitz)
            n_lost = self.n_clusters - len(np.unique(labels))
            if n_lost and n_reseeds < MAX_RESEEDS:
                n_reseeds += 1
                state = objective.start(_kmeans_centers(rows, self.n_clusters, random_state))
                continue
            if n_lost:
                labels, _ = fill_empty_clusters(rows.X, labels, self.n_clusters)
                self._polish(rows, costs, labels, order=np.arange(len(labels)))
            state = objective.update(labels)
            energy = objective.value(labels, state) + rows.penalty(labels, self.n_clusters)
            run.record(labels, energy, self.tol, inner_converged=inner_converged, n_lost=n_lost)
        return run

    def _assign(self, rows, costs, default_lipschitz):
        """Hard labels for fixed costs, and whether the bound updates converged."""
        if self.lipschitz is None:
            unit = mean_spread(costs, rows.weights) / FIRST_SHARPNESS
            lipschitz = unit * default_lipschitz
        else:
            unit, lipschitz = 1.0, float(self.lipschitz)
        sharpness, prices, _, converged = bound_updates(
            costs, *rows.model, 1.0 / unit, lipschitz, self.max_inner_iter, float(self.inner_tol)
        )
        labels, margins = most_likely_clusters(costs, rows.codes, sharpness, prices)
        self._polish(rows, costs, labels, order=np.argsort(margins, kind="stable"))
        return labels, converged

    def _polish(self, rows, costs, labels, order):
        if self.polish:
            polish_labels(order, costs, *rows.model, MAX_POLISH_SWEEPS, labels)


class _Run:
    """State of one run: the best labels so far and the energies that led there."""

    def __init__(self):
        self.labels = None
        self.energies = []
        self.converged = False
        self.inner_converged = True
        self.n_lost = 0

    def record(self, labels, energy, tol, *, inner_converged, n_lost):
        """Keep the labels unless the energy rose; stop when it hardly fell."""
        if self.energies and energy >= self.energies[-1]:
            self.converged = True
            return
        if len(self.energies) > 1:
            self.converged = self.energies[-1] - energy <= tol * abs(energy)
        self.labels = labels
        self.energies.append(energy)
        self.inner_converged = inner_converged
        self.n_lost = n_lost

    def warn_if_incomplete(self, model):
        if self.n_lost:
            warnings.warn(
                f"{self.n_lost} of n_clusters={model.n_clusters} clusters lost all rows, also "
                f"after {MAX_RESEEDS} new starts: the largest clusters were split by their "
                "farthest rows. Fewer clusters may suit these rows better.",
                ConvergenceWarning,
                stacklevel=4,
            )
        elif not self.converged:
            warnings.warn(
                f"The energy still fell after max_iter={model.max_iter} iterations, to "
                f"{self.energies[-1]:.6g}: raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        elif not self.inner_converged:
            warnings.warn(
                f"The bound updates did not converge in max_inner_iter={model.max_inner_iter} "
                "steps: raise max_inner_iter or inner_tol.",
                ConvergenceWarning,
                stacklevel=4,
            )


def _singletons(rows, objective):
    """The only clustering of as many rows as clusters."""
    labels = np.arange(len(rows.X), dtype=np.int32)
    run = _Run()
    energy = objective.value(labels, objective.update(labels)) + rows.penalty(labels, len(labels))
    run.record(labels, energy, 0.0, inner_converged=True, n_lost=0)
    run.converged = True
    return run


def _kmeans_centers(rows, n_clusters, random_state):
    """Centres of plain k-means, a start that does not lose clusters by itself."""
    with equal_centers_allowed():
        model = KMeans(n_clusters, n_init=1, random_state=random_state.randint(2**31 - 1))
        return model.fit(rows.X, sample_weight=rows.weights).cluster_centers_


def fairness_error(counts):
    """``sum over non-empty clusters of KL(group shares || shares in the cluster)``."""
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    shares = counts.sum(axis=0) / counts.sum()
    inside = counts / counts.sum(axis=1, keepdims=True)
    return float((shares * np.log(shares / np.maximum(inside, 1e-20))).sum())
