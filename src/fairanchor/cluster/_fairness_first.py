"""Fairness-first clustering: proportional clusters first, lower cost within bounds after."""

from collections.abc import Callable
from functools import partial
from numbers import Real

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state

from fairanchor._kernels import _fairness_first as kernels
from fairanchor._utils._shared_state import (
    warn_unconverged,
    warn_unfair,
)
from fairanchor._utils._sklearn_compat import Interval
from fairanchor._utils._typing import Seed
from fairanchor.assignment import largest_remainder, proportional_counts
from fairanchor.assignment._engine import labels_with_totals
from fairanchor.assignment._sweep import KnownCosts
from fairanchor.cluster._base import (
    COMMON_CONSTRAINTS,
    FairClusterer,
    WeightedRows,
    fill_empty_clusters,
)
from fairanchor.groups._groups import Groups, count_cells
from fairanchor.metrics import balance_of_table
from fairanchor.rows import MemoryRows
from fairanchor.rows._sums import label_sums


class FairnessFirstClustering(FairClusterer):
    r"""Fair k-means in stages: combine, make proportional, relax, improve (FFC).

    It searches for labels with a small k-means cost
    :math:`\sum_i w_i \|x_i - c_{\text{label}_i}\|^2` whose balance is at least
    ``balance_threshold`` times that of the data set. Any number of groups is supported.

    1. *Combination*: k-means inside each group; the sub-clusters of every group are matched
       to those of the largest by the cost of merging them.
    2. *Refinement*: cluster sizes are kept; each group is distributed over the clusters in
       proportion to their sizes, at the least total distance (an exact transportation problem),
       and the centres are recomputed, until the cost stops falling.
    3. *Relaxation*: single rows move to another cluster, the largest gains first, as long as
       both clusters keep the balance. The default, ``balance_threshold=1``, leaves this stage out.
    4. *Improvement*: two rows of one group swap clusters where that lowers the cost.

    *Guaranteed* without weights: after refinement a cluster of size N_l has the floor or the
    ceiling of :math:`N_l n_r / n` rows of group r; relaxation never lets the balance fall
    below the smaller of the threshold and the balance after refinement; improvement leaves
    every count as it is; from the first refinement step on, the cost only falls. A cluster
    too small to have a row of every group is enlarged where that is possible, so the balance
    after refinement is above 0 if :math:`k \lceil n / n_r \rceil \le n` for every group.
    *Not guaranteed*: the least cost, nor any distance from it.

    The publication describes the stages; the details (matching cost, transport, order of the
    moves) are those of this library. The publication's threshold is not known. The default is 1:
    plain k-means often has 0.8 of the data set's balance or more, and then a threshold of 0.8 lets
    relaxation undo what refinement did. Features are not rescaled: standardise them unless their
    units are comparable.

    **Cost**: k-means per group, a near-linear transport per refinement step, O(n k d) per
    sweep of moves; swaps are O(Σ n_r²) per sweep at worst, but pairs that a bound rules out
    are skipped, which leaves few of them after an exact refinement.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    balance_threshold : float in [0, 1], default=1.0
        Share of the data set's balance that relaxation must keep; 1 disables relaxation,
        0 lets it ignore the groups.
    n_init : int, default=10
        Runs of k-means inside each group.
    max_iter : int, default=100
        Largest number of refinement steps, and of sweeps over the rows in relaxation and in
        improvement.
    random_state : int, RandomState instance or None, default=None
        Seeds k-means; every group gets the same seed.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Means of the clusters.
    inertia_ : float
        The k-means cost of ``labels_``.
    counts_ : ndarray of shape (n_clusters, n_groups)
        Weight of each group in each cluster, groups as in ``groups_``.
    balance_ : float
        Smallest group over largest, in the worst cluster.
    groups_ : ndarray of shape (n_groups,)
        Names of the groups.
    n_iter_ : int
        Refinement steps and sweeps.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    With unequal ``sample_weight`` all costs, shares and the balance are in weight. A cell
    then misses its share after refinement by at most the weight of one row, and improvement
    only makes swaps that do not lower the balance of the two clusters concerned.

    References
    ----------
    R. Pan, C. Zhong. Fairness First Clustering: A Multi-Stage Approach for Mitigating Bias.
    Electronics 12(13):2969, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from fairanchor import FairnessFirstClustering
    >>> X = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1], [0, 9], [1, 9], [0, 10], [1, 10]])
    >>> group = ["a", "a", "a", "a", "b", "b", "b", "b"]
    >>> model = FairnessFirstClustering(2, random_state=0).fit(X, sensitive_features=group)
    >>> model.balance_
    1.0
    >>> model.counts_
    array([[2, 2],
           [2, 2]])
    """

    _parameter_constraints: dict = {
        **COMMON_CONSTRAINTS,
        "balance_threshold": [Interval(Real, 0, 1, closed="both")],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        balance_threshold: float = 1.0,
        n_init: int = 10,
        max_iter: int = 100,
        random_state: Seed = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.balance_threshold = balance_threshold
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit(self, X: np.ndarray, groups: Groups, weights: np.ndarray) -> np.ndarray:
        rows = WeightedRows(X, groups.codes, weights, self.n_clusters, groups.n_groups)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        labels = _combine(rows, self.n_init, seed)
        labels, self.n_iter_ = _refine(rows, labels, self.max_iter)
        if self.balance_threshold < 1:
            of_data = balance_of_table(rows.masses(labels).sum(axis=0)[None])
            # The last bits of a quotient must not decide whether a move meets the threshold.
            least_balance = self.balance_threshold * of_data * (1 - 1e-12)
            self.n_iter_ += self._sweep(rows, labels, partial(_relax_once, least_balance))
        self.n_iter_ += self._sweep(rows, labels, _improve_once)
        self.cluster_centers_ = rows.centers(labels)
        self.inertia_ = rows.cost(labels)
        absent = (rows.masses(labels) == 0).any(axis=1)
        smallest = groups.sizes.min()
        if absent.any() and self.balance_threshold > 0 and smallest >= self.n_clusters:
            warn_unfair(
                f"The balance is 0: {int(absent.sum())} of {self.n_clusters} clusters have no row "
                f"of some group, though the smallest group has {smallest} rows. Fewer clusters may "
                "suit these rows better."
            )
        return labels

    def _sweep(self, rows: WeightedRows, labels: np.ndarray, sweep: Callable) -> int:
        """Sweep, changing the labels in place, until nothing changes; the number of sweeps."""
        for n_sweeps in range(self.max_iter):
            n_changes = sweep(rows, labels)
            if n_changes == 0:
                return n_sweeps
        warn_unconverged(
            f"The cost still fell in the last of max_iter={self.max_iter} sweeps, which "
            f"changed {n_changes} pairs or rows: increase max_iter."
        )
        return self.max_iter


def _combine(rows: WeightedRows, n_init: int, seed: int) -> np.ndarray:
    """Cluster each group by itself and match its sub-clusters to the heaviest group's."""
    group_masses = np.bincount(rows.codes, weights=rows.weights)
    reference = int(np.argmax(group_masses))
    sub_labels = np.empty(len(rows.X), dtype=np.int32)
    for group in range(rows.n_groups):
        members = np.flatnonzero(rows.codes == group)
        sub_labels[members] = _sub_clusters(rows, members, n_init, seed)
    labels = sub_labels.copy()
    means, masses = _means_of_cells(rows, sub_labels)
    slot_means, slot_masses = means[reference].copy(), masses[reference].copy()
    for group in range(rows.n_groups):
        if group == reference:
            continue
        cost = _merge_costs(slot_means, slot_masses, means[group], masses[group])
        slots, sub_clusters = linear_sum_assignment(cost)
        slot_of = np.empty(rows.n_clusters, dtype=np.int32)
        slot_of[sub_clusters] = slots
        members = rows.codes == group
        labels[members] = slot_of[sub_labels[members]]
        # A reference with fewer rows than clusters leaves slots open: first come, first served.
        opened = slots[slot_masses[slots] == 0]
        matched = sub_clusters[slot_masses[slots] == 0]
        slot_means[opened], slot_masses[opened] = means[group, matched], masses[group, matched]
    return fill_empty_clusters(rows.X, labels, rows.n_clusters)[0]


def _sub_clusters(rows: WeightedRows, members: np.ndarray, n_init: int, seed: int) -> np.ndarray:
    if len(members) <= rows.n_clusters:
        return np.arange(len(members))
    model = KMeans(rows.n_clusters, n_init=n_init, random_state=seed)
    return model.fit(rows.X[members], sample_weight=rows.weights[members]).labels_


def _means_of_cells(rows: WeightedRows, sub_labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and mass of each group's sub-clusters; the mean of an empty one is 0."""
    n_cells = rows.n_groups * rows.n_clusters
    cells = rows.codes * rows.n_clusters + sub_labels
    sums, masses = label_sums(rows.X, rows.weights, cells, n_cells)
    means = sums / np.where(masses > 0, masses, 1.0)[:, None]
    shape = (rows.n_groups, rows.n_clusters)
    return means.reshape(*shape, -1), masses.reshape(shape)


def _merge_costs(
    means_a: np.ndarray, masses_a: np.ndarray, means_b: np.ndarray, masses_b: np.ndarray
) -> np.ndarray:
    """By how much merging two sub-clusters raises the cost; 0 if one of them is empty."""
    a, b = masses_a[:, None], masses_b[None, :]
    together = np.where(a + b > 0, a + b, 1.0)
    return a * (b / together) * cdist(means_a, means_b, "sqeuclidean")


def _refine(rows: WeightedRows, labels: np.ndarray, max_iter: int) -> tuple[np.ndarray, int]:
    """Deal the groups to clusters of the given sizes in proportion, at the least distance.

    Also returns the number of steps.
    """
    totals = _proportional_totals(rows, labels)
    weights = None if rows.has_equal_weights else rows.weights
    is_proportional = weights is None and np.array_equal(
        count_cells(labels, rows.codes, rows.n_clusters, rows.n_groups), totals
    )
    # Unless they are already proportional, the first labels are given up at any cost.
    lowest = rows.cost(labels) if is_proportional else np.inf
    for n_steps in range(max_iter):
        costs = cdist(rows.X, rows.centers(labels), "sqeuclidean")
        known = MemoryRows(costs, rows.codes, rows.n_groups, weights=weights)
        dealt = labels_with_totals(known, KnownCosts(rows.n_clusters), totals)
        dealt, n_filled = fill_empty_clusters(rows.X, dealt, rows.n_clusters)
        cost = rows.cost(dealt)
        if lowest < np.inf and (n_filled or not cost < lowest * (1 - 1e-12)):
            return labels, n_steps + 1
        labels, lowest = dealt, cost
    return labels, max_iter


def _proportional_totals(rows: WeightedRows, labels: np.ndarray) -> np.ndarray:
    """What each cluster should have of each group: counts, or weights if these differ."""
    if rows.has_equal_weights:
        counts = count_cells(labels, rows.codes, rows.n_clusters, rows.n_groups)
        group_sizes = counts.sum(axis=0)
        sizes = _viable_sizes(counts.sum(axis=1), group_sizes)
        if (np.abs(counts * len(labels) - np.outer(sizes, group_sizes)) < len(labels)).all():
            return counts  # nothing is fairer; another rounding would not know the distances
        return proportional_counts(sizes, group_sizes)
    masses = rows.masses(labels)
    return masses.sum(axis=1, keepdims=True) * (masses.sum(axis=0) / masses.sum())


def _viable_sizes(sizes: np.ndarray, group_sizes: np.ndarray) -> np.ndarray:
    """Enlarge clusters too small to have a row of every group that has enough rows."""
    n_clusters, n = len(sizes), int(sizes.sum())
    enough = group_sizes[group_sizes >= n_clusters]
    if len(enough) == 0:
        return sizes
    least = -(-n // int(enough.min()))
    if least * n_clusters > n:
        return sizes
    return least + largest_remainder(np.maximum(sizes - least, 0), n - least * n_clusters)


def _state(rows: WeightedRows, labels: np.ndarray) -> kernels.State:
    """What the kernels keep up to date; labels change in place."""
    masses = rows.masses(labels).astype(np.float64)
    sizes = np.bincount(labels, minlength=rows.n_clusters)
    return kernels.State(labels, rows.centers(labels), masses.sum(axis=1), sizes, masses)


def _relax_once(least_balance: float, rows: WeightedRows, labels: np.ndarray) -> int:
    """One sweep of single moves, the largest gains first; changes the labels in place."""
    state, each = _state(rows, labels), np.arange(len(labels))
    distances = cdist(rows.X, state.centers, "sqeuclidean")
    to_own = distances[each, labels]
    distances[each, labels] = np.inf
    order = np.argsort(rows.weights * (distances.min(axis=1) - to_own), kind="stable")
    known = kernels.Rows(rows.X, rows.weights, rows.codes)
    return kernels.relaxation_sweep(order, known, least_balance, state)


def _improve_once(rows: WeightedRows, labels: np.ndarray) -> int:
    """One sweep of swaps inside the groups; changes the labels in place."""
    state = _state(rows, labels)
    distances = cdist(rows.X, state.centers)
    cells = rows.codes * rows.n_clusters + labels
    members = np.argsort(cells, kind="stable")
    starts = np.searchsorted(cells[members], np.arange(rows.n_groups * rows.n_clusters + 1))
    used = np.flatnonzero(np.diff(starts))
    # What partners in a cell can contribute at best; the last column of reach is their weight.
    gains = distances**2 - distances[np.arange(len(labels)), labels][:, None] ** 2
    reach = np.column_stack([distances, np.ones(len(labels))])
    bounds = []
    for best, values, nothing in ((np.minimum, gains, np.inf), (np.maximum, reach, 0.0)):
        weighted = (rows.weights[:, None] * values)[members]
        bounds.append(np.full((len(starts) - 1, values.shape[1]), nothing))
        bounds[-1][used] = best.reduceat(weighted, starts[used], axis=0)
    known = kernels.Rows(rows.X, rows.weights, rows.codes)
    return kernels.improvement_sweep(known, distances, members, starts, *bounds, state)
