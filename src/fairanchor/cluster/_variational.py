"""Variational fair clustering: a clustering cost plus a penalty on the groups' shares."""

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.cluster import kmeans_plusplus
from sklearn.neighbors import kneighbors_graph
from sklearn.utils import check_random_state, gen_batches

from fairanchor._kernels._variational import polish_labels
from fairanchor._utils._shared_state import (
    warn_unconverged,
)
from fairanchor._utils._sklearn_compat import Interval, StrOptions
from fairanchor._utils._typing import Seed
from fairanchor.cluster._base import (
    COMMON_CONSTRAINTS,
    FairClusterer,
    fill_empty_clusters,
)
from fairanchor.groups._groups import Groups, count_cells
from fairanchor.rows._sums import label_sums

#: Cells lighter than this share of the total weight count as this heavy: the penalty of a
#: cluster without a group is large but finite.
MASS_FLOOR = 1e-20
# A larger penalty would overflow.
LARGEST_WEIGHT = 1e100
#: First soft labels are softmax(-FIRST_SHARPNESS * costs / their spread): soft enough that a
#: group far away can still enter a cluster, sharp enough that the argmax keeps its shares.
FIRST_SHARPNESS = 10.0
#: Rows whose distances to all rows of a cluster are computed at once.
MEDOID_BLOCK = 1000
MAX_POLISH_SWEEPS = 100
#: An outer iteration has at most so many bound updates; one that lowers the energy by at most this
#: share is its last. A step is halved at most so often before the point counts as stationary.
MAX_BOUND_UPDATES, BOUND_TOL, MAX_HALVINGS = 10_000, 1e-5, 40
#: The curvature bound is for the worst direction. After each step that lowered the energy
#: this share of it is tried: about six times fewer steps when the penalty dominates.
COURAGE = 0.8


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
    constraint; check ``fairness_error_`` and raise ``fairness_weight`` if it is too high.

    **Units.** The clustering term is in units of X squared (``"kmedian"``: of X), the
    penalty is not, so the same number as ``fairness_weight`` means less fairness when X is
    multiplied by ten. The default, ``"auto"``, is the mean cost of a row in a single cluster
    of all rows, :math:`\sum_i w_i \|x_i - \bar x\|^2 / W` (``"kmedian"``: without the square), and
    has that unit. On 48 generated tables of 2 to 4 groups and 2 to 8 clusters, among them groups
    that are separated, it gave a relative balance of 0.73 to 0.98 where plain k-means had 0.00 to
    0.96. Features are never rescaled here: standardise them first, unless their units are
    comparable. For ``"ncut"`` the cut is multiplied by W, so ``fairness_weight`` is the
    publication's own :math:`\lambda`, whatever the units of X, and ``"auto"`` is 10, a value
    used there.

    **Cost**: O(n k) time per inner step and O(n k) memory, plus O(n k d) per outer
    iteration; medoids and the neighbour graph take up to O(n²) time in high dimension.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    objective : {"kmeans", "kmedian", "ncut"}, default="kmeans"
        The clustering term.
    fairness_weight : float or "auto", default="auto"
        Weight of the penalty per unit of row weight; ``"auto"`` as described above. 0 gives the
        unfair counterpart, for ``"kmeans"`` Lloyd's algorithm.
    n_neighbors : int, default=20
        Neighbours in the graph of ``"ncut"``, the row itself included.
    n_init : int, default=4
        Number of runs from centres that k-means++ draws; the one with the lowest energy is kept.
    max_iter : int, default=100
        Largest number of outer iterations of a run.
    tol : float, default=1e-4
        An outer iteration that lowers the energy by at most this share is the last.
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
    fairness_weight_ : float
        The weight that was used.
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
    rows).

    A large penalty can leave a cluster without rows, since nothing is fairer than an empty
    cluster. It then gets the row of the largest cluster that is farthest from its centre, with a
    ``ConvergenceWarning`` if this happens in the last iteration.

    References
    ----------
    I. M. Ziko, J. Yuan, E. Granger, I. Ben Ayed. Variational Fair Clustering. AAAI 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from fairanchor import VariationalFairClustering
    >>> X = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1], [0, 9], [1, 9], [0, 10], [1, 10]])
    >>> group = ["a", "a", "a", "a", "b", "b", "b", "b"]
    >>> model = VariationalFairClustering(2, random_state=0)
    >>> model.fit(X, sensitive_features=group).counts_
    array([[1, 3],
           [3, 1]])
    >>> model.set_params(fairness_weight=200.0).fit(X, sensitive_features=group).balance_
    1.0
    >>> model.set_params(fairness_weight=0.0).fit(X, sensitive_features=group).balance_
    0.0
    """

    _parameter_constraints: dict = {
        **COMMON_CONSTRAINTS,
        "objective": [StrOptions({"kmeans", "kmedian", "ncut"})],
        "fairness_weight": [
            StrOptions({"auto"}),
            Interval(Real, 0, LARGEST_WEIGHT, closed="both"),
        ],
        "n_neighbors": [Interval(Integral, 2, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "polish": ["boolean"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        objective: str = "kmeans",
        fairness_weight: float | str = "auto",
        n_neighbors: int = 20,
        n_init: int = 4,
        max_iter: int = 100,
        tol: float = 1e-4,
        polish: bool = True,
        random_state: Seed = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.objective = objective
        self.fairness_weight = fairness_weight
        self.n_neighbors = n_neighbors
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.polish = polish
        self.random_state = random_state

    def _fit(self, X: np.ndarray, groups: Groups, weights: np.ndarray) -> np.ndarray:
        self.fairness_weight_ = self._weight(X, weights)
        penalty = Penalty.of(groups.codes, weights, self.fairness_weight_)
        objective = OBJECTIVES[self.objective](X, penalty, self.n_clusters, self.n_neighbors)
        run = self._best_run(objective)
        self._warn_if_incomplete(run)
        self.cluster_centers_ = objective.centers(run.labels)
        self.energy_path_ = np.array(run.energies)
        self.n_iter_ = len(run.energies)
        self.fairness_error_ = penalty.divergences(
            penalty.masses(run.labels, self.n_clusters)
        ).sum()
        return run.labels

    def _weight(self, X: np.ndarray, weights: np.ndarray) -> float:
        """The weight of the penalty; ``"auto"`` is the mean cost of a row in a single cluster."""
        if not isinstance(self.fairness_weight, str):
            return float(self.fairness_weight)
        if self.objective == "ncut":
            return 10.0
        squared = ((X - np.average(X, axis=0, weights=weights)) ** 2).sum(axis=1)
        costs = np.sqrt(squared) if self.objective == "kmedian" else squared
        return float(np.average(costs, weights=weights))

    def _best_run(self, objective: "MeansObjective") -> "_Run":
        """The run with the lowest energy, the earliest on ties."""
        random_state = check_random_state(self.random_state)
        X, weights = objective.X, objective.penalty.weights
        if len(X) == self.n_clusters:  # there is only one clustering
            labels = np.arange(self.n_clusters, dtype=np.int32)
            energy = objective.energy(labels, objective.update(labels))
            return _Run(labels, [energy], converged=True)
        runs = []
        for _ in range(self.n_init):
            centers, _ = kmeans_plusplus(
                X, self.n_clusters, sample_weight=weights, random_state=random_state
            )
            runs.append(self._run(objective, centers))
        return min(runs, key=lambda run: run.energies[-1])

    def _run(self, objective: "MeansObjective", centers: np.ndarray) -> "_Run":
        """Alternate bound updates and centre updates until the energy stops falling."""
        run = _Run(np.empty(0, dtype=np.int32), [])
        state = objective.start(centers)
        while len(run.energies) < self.max_iter and not run.converged:
            costs = objective.costs(state)
            labels = self._assign(objective, costs)
            labels, n_lost = fill_empty_clusters(objective.X, labels, self.n_clusters)
            if n_lost:
                self._polish(objective.penalty, costs, labels, order=np.arange(len(labels)))
            state = objective.update(labels)
            energy = objective.energy(labels, state)
            if run.energies and energy >= run.energies[-1]:
                run.converged = True
                break
            if len(run.energies) > 1:
                run.converged = run.energies[-1] - energy <= self.tol * abs(energy)
            run.labels, run.n_lost = labels, n_lost
            run.energies.append(energy)
        return run

    def _assign(self, objective: "MeansObjective", costs: np.ndarray) -> np.ndarray:
        """Hard labels for fixed costs."""
        penalty = objective.penalty
        away = costs.mean(axis=1) - costs.min(axis=1)
        unit = (float(np.average(away, weights=penalty.weights)) or 1.0) / FIRST_SHARPNESS
        sharpness, prices, _ = bound_updates(costs, penalty, 1.0 / unit, unit * objective.lipschitz)
        scores = sharpness * costs + prices.T[penalty.codes]
        labels = scores.argmin(axis=1).astype(np.int32)
        scores.sort(axis=1)
        margins = np.diff(scores[:, :2], axis=1).sum(axis=1)
        self._polish(penalty, costs, labels, order=np.argsort(margins, kind="stable"))
        return labels

    def _polish(
        self, penalty: "Penalty", costs: np.ndarray, labels: np.ndarray, order: np.ndarray
    ) -> None:
        if self.polish:
            polish_labels(
                order, costs, penalty.weights, penalty.codes, penalty.shares, penalty.strength,
                penalty.floor, MAX_POLISH_SWEEPS, labels,
            )  # fmt: skip

    def _warn_if_incomplete(self, run: "_Run") -> None:
        if run.n_lost:
            message = (
                f"{run.n_lost} of n_clusters={self.n_clusters} clusters lost all rows: the largest "
                "clusters were split by their farthest rows. Fewer clusters may suit these rows "
                "better."
            )
        elif not run.converged:
            message = (
                f"The energy still fell after max_iter={self.max_iter} iterations, to "
                f"{run.energies[-1]:.6g}: increase max_iter or tol."
            )
        else:
            return
        warn_unconverged(message)


@dataclass
class _Run:
    """State of one run: the best labels so far and the energies that led there."""

    labels: np.ndarray
    energies: list
    converged: bool = False
    n_lost: int = 0


@dataclass(frozen=True)
class Penalty:
    """``strength`` times the sum over clusters of KL(shares || composition of the cluster).

    Cells count as at least ``floor * shares[r]`` and clusters as ``floor``, which makes the penalty
    of an empty cluster zero.
    """

    codes: np.ndarray
    weights: np.ndarray
    shares: np.ndarray
    strength: float
    floor: float

    @classmethod
    def of(cls, codes: np.ndarray, weights: np.ndarray, fairness_weight: float) -> "Penalty":
        """The penalty of rows of these groups."""
        masses = np.bincount(codes, weights)
        total = float(masses.sum())
        return cls(codes, weights, masses / total, fairness_weight * total, MASS_FLOOR * total)

    def masses(self, labels: np.ndarray, n_clusters: int) -> np.ndarray:
        """Weight of each group in each cluster."""
        return count_cells(labels, self.codes, n_clusters, len(self.shares), self.weights)

    def divergences(self, masses: np.ndarray) -> np.ndarray:
        """KL(shares || composition) of each cluster."""
        totals = np.maximum(masses.sum(axis=1, keepdims=True), self.floor)
        cells = np.maximum(masses, self.floor * self.shares)
        # Below 0 only by rounding.
        return np.maximum((self.shares * np.log(self.shares * totals / cells)).sum(axis=1), 0.0)

    def of_masses(self, masses: np.ndarray) -> float:
        """The penalty."""
        return self.strength * float(self.divergences(masses).sum())

    def slopes(self, masses: np.ndarray) -> tuple[np.ndarray, float]:
        """The penalty's gradient per unit of weight, and a bound on its curvature.

        The bound is ``strength * max(shares[r] / masses[l, r])``: by Cauchy-Schwarz the
        convex part of the penalty is then locally below that multiple of the entropy.
        """
        totals = np.maximum(masses.sum(axis=1, keepdims=True), self.floor)
        ratios = self.shares / np.maximum(masses, self.floor * self.shares)
        return self.strength * (1.0 / totals - ratios), self.strength * float(ratios.max())


def bound_updates(
    costs: np.ndarray,
    penalty: Penalty,
    start: float,
    min_lipschitz: float,
    max_iter: int = MAX_BOUND_UPDATES,
    tol: float = BOUND_TOL,
) -> tuple[float, np.ndarray, list]:
    """Minimise cost + penalty over soft labels, the costs being fixed.

    The penalty's gradient at a row depends only on the row's group, so a step adds one number per
    cluster and group to the scores of the rows: soft labels are ``softmax(-sharpness * costs -
    prices.T[codes])``. Steps begin at ``softmax(-start * costs)`` and end when one lowers the
    energy by at most ``tol`` times its size. The inverse step size is at least ``min_lipschitz``.
    The first step also respects the curvature of the penalty; later ones a smaller and smaller
    share of it, until the energy would rise, which doubles the inverse step size and the share.
    Returns sharpness, prices and the energies, which never increase.
    """

    codes, weights, n_groups = penalty.codes, penalty.weights, len(penalty.shares)
    costs = np.ascontiguousarray(costs.T)  # sums over clusters take long along short rows

    def energy_at(sharpness: float, prices: np.ndarray) -> tuple[float, np.ndarray]:
        soft = -sharpness * costs - prices[:, codes]
        soft -= soft.max(axis=0)
        np.exp(soft, out=soft)
        soft *= weights / soft.sum(axis=0)
        masses = np.array([np.bincount(codes, row, n_groups) for row in soft])
        return float(np.vdot(soft, costs)) + penalty.of_masses(masses), masses

    sharpness, prices, caution = start, np.zeros((len(costs), n_groups)), 1.0
    energy, masses = energy_at(sharpness, prices)
    energies = [energy]
    while len(energies) <= max_iter:
        slopes, curvature = penalty.slopes(masses)
        lipschitz = max(min_lipschitz, caution * curvature)
        for _ in range(MAX_HALVINGS):
            trial = sharpness + 1.0 / lipschitz, prices + slopes / lipschitz
            reached, masses = energy_at(*trial)
            # A rise at rounding level: no step makes a difference.
            if reached <= energy or reached - energy <= 1e-13 * abs(energy):
                break
            lipschitz *= 2.0
            caution = min(1.0, 2.0 * caution)
        if reached > energy:
            break
        caution *= COURAGE
        (sharpness, prices), change, energy = trial, energy - reached, reached
        energies.append(energy)
        if len(energies) > 3 and change <= tol * abs(energy):
            break
    return sharpness, prices, energies


class MeansObjective:
    """k-means: squared distances to means. The state is the table of centres."""

    lipschitz = 2.0

    def __init__(self, X: np.ndarray, penalty: Penalty, n_clusters: int, n_neighbors: int) -> None:
        self.X, self.penalty, self.n_clusters = X, penalty, n_clusters

    def start(self, centers: np.ndarray) -> np.ndarray:
        """State that belongs to given centres."""
        return centers

    def costs(self, state: np.ndarray) -> np.ndarray:
        """Cost of every row in every cluster, per unit of its weight."""
        return cdist(self.X, state, "sqeuclidean")

    def update(self, labels: np.ndarray) -> np.ndarray:
        """State that is best for given labels."""
        return self.centers(labels)

    def value(self, labels: np.ndarray, state: np.ndarray) -> float:
        """The clustering term of given labels, whose state is known."""
        costs = self.costs(state)[np.arange(len(labels)), labels]
        return float(self.penalty.weights @ costs)

    def energy(self, labels: np.ndarray, state: np.ndarray) -> float:
        """The clustering term and the penalty of given labels."""
        masses = self.penalty.masses(labels, self.n_clusters)
        return self.value(labels, state) + self.penalty.of_masses(masses)

    def centers(self, labels: np.ndarray) -> np.ndarray:
        """Means of the clusters."""
        sums, totals = label_sums(self.X, self.penalty.weights, labels, self.n_clusters)
        return sums / totals[:, None]


class MedianObjective(MeansObjective):
    """k-median: distances to medoids."""

    def costs(self, state: np.ndarray) -> np.ndarray:
        return np.sqrt(super().costs(state))

    def centers(self, labels: np.ndarray) -> np.ndarray:
        """The row of each cluster with the least weighted sum of distances."""
        medoids = []
        for l in range(self.n_clusters):
            X, weights = self.X[labels == l], self.penalty.weights[labels == l]
            blocks = gen_batches(len(X), MEDOID_BLOCK)
            sums = np.concatenate([cdist(X[block], X) @ weights for block in blocks])
            # The first of sums that are equal up to rounding.
            medoids.append(X[np.argmax(sums <= sums.min() * (1 + 1e-12))])
        return np.array(medoids)


class CutObjective(MeansObjective):
    """Normalised cut of a nearest-neighbour graph, times the total weight.

    The state is a labelling: the costs are the cut's gradient there, plus the constant
    that makes their sum equal to the cut. A link's weight is multiplied by the weights of
    its two rows.
    """

    lipschitz = 1.0

    def __init__(self, X: np.ndarray, penalty: Penalty, n_clusters: int, n_neighbors: int) -> None:
        super().__init__(X, penalty, n_clusters, n_neighbors)
        # Each row and its neighbours, itself included.
        links = sparse.eye_array(len(X), format="csr")
        n_others = min(n_neighbors, len(X)) - 1
        if n_others > 0:
            links = links + kneighbors_graph(X, n_others, include_self=False)
        links = (links + links.T) / 2
        # The cut does not depend on the unit of the weights, but their products could overflow.
        by_weight = sparse.diags_array(penalty.weights / penalty.weights.mean())
        self.links = (by_weight @ links @ by_weight).tocsr()
        self.total_weight = float(penalty.weights.sum())
        self.degrees = np.asarray(self.links.sum(axis=1)).ravel()

    def start(self, centers: np.ndarray) -> np.ndarray:
        return np.argmin(cdist(self.X, centers, "sqeuclidean"), axis=1)

    def costs(self, state: np.ndarray) -> np.ndarray:
        indicator, volumes, inner = self._cut(state)
        # A start whose labels leave a cluster empty: no row is drawn to it, none repelled.
        volumes = np.where(volumes > 0, volumes, 1.0)
        gradient = np.outer(self.degrees, inner / volumes**2) - 2 * indicator / volumes
        return self.n_clusters + gradient * (self.total_weight / self.penalty.weights)[:, None]

    def update(self, labels: np.ndarray) -> np.ndarray:
        return labels

    def value(self, labels: np.ndarray, state: np.ndarray) -> float:
        _, volumes, inner = self._cut(labels)
        return float(self.total_weight * (self.n_clusters - (inner / volumes).sum()))

    def _cut(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Links of each row into each cluster, volumes, and links inside each cluster."""
        onehot = np.eye(self.n_clusters)[labels]
        into = self.links @ onehot
        return into, self.degrees @ onehot, (into * onehot).sum(axis=0)


OBJECTIVES = {"kmeans": MeansObjective, "kmedian": MedianObjective, "ncut": CutObjective}
