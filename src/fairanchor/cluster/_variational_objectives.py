"""The clustering terms of variational fair clustering, and the rows they share."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.neighbors import kneighbors_graph

from fairanchor._kernels._variational import medoid, penalty_of_masses
from fairanchor.cluster._weighted_rows import cluster_means, squared_distances
from fairanchor.groups._groups import count_cells

#: Cells lighter than this share of the total weight count as this heavy: the penalty of a
#: cluster without a group is large but finite.
MASS_FLOOR = 1e-20


@dataclass(frozen=True)
class PenalisedRows:
    """Rows of positive weight with their groups, and the strength of the penalty.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features)
    codes : ndarray of shape (n_rows,)
        Group of each row.
    weights : ndarray of shape (n_rows,)
    shares : ndarray of shape (n_groups,)
        Each group's share of the total weight; 0 for a group without weight.
    strength : float
        The penalty's factor, proportional to the total weight.
    """

    X: np.ndarray
    codes: np.ndarray
    weights: np.ndarray
    shares: np.ndarray
    strength: float

    @classmethod
    def of(cls, X, groups, weights, kept, fairness_weight):
        """The rows at ``kept``; without weights every row weighs 1."""
        codes = groups.codes[kept]
        kept_weights = np.ones(len(kept)) if weights is None else weights[kept]
        masses = np.bincount(codes, weights=kept_weights, minlength=groups.n_groups)
        total = float(masses.sum())
        strength = float(fairness_weight) * total
        if not strength < 1e300:
            raise ValueError(
                f"fairness_weight={fairness_weight} times the total weight {total:g} should be "
                "below 1e300: the penalty must stay a finite number."
            )
        return cls(X[kept], codes, kept_weights, masses / total, strength)

    @property
    def total_weight(self):
        return float(self.weights.sum())

    @property
    def model(self):
        """What every kernel takes after the costs: weights, groups and penalty."""
        floor = MASS_FLOOR * self.total_weight
        return self.weights, self.codes, self.shares, self.strength, floor

    def penalty(self, labels, n_clusters):
        """The penalty of hard labels, times its strength."""
        masses = count_cells(labels, self.codes, n_clusters, len(self.shares), self.weights)
        floor = MASS_FLOOR * self.total_weight
        return self.strength * penalty_of_masses(masses, self.shares, floor)


class MeansObjective:
    """k-means: squared distances to means. The state is the table of centres."""

    lipschitz = 2.0

    def __init__(self, rows, n_clusters, n_neighbors):
        self.rows = rows
        self.n_clusters = n_clusters

    def start(self, centers):
        """State that belongs to given centres."""
        return centers

    def costs(self, centers):
        """Cost of every row in every cluster, per unit of its weight."""
        return squared_distances(self.rows.X, centers)

    def update(self, labels):
        """State that is best for given labels."""
        return self.centers(labels)

    def value(self, labels, centers):
        """The clustering term of given labels."""
        costs = self.costs(centers)[np.arange(len(labels)), labels]
        return float(self.rows.weights @ costs)

    def centers(self, labels):
        """Means of the clusters."""
        return cluster_means(self.rows.X, self.rows.weights, labels, self.n_clusters)


class MedianObjective(MeansObjective):
    """k-median: distances to medoids."""

    def costs(self, centers):
        return np.sqrt(super().costs(centers))

    def centers(self, labels):
        """The row of each cluster with the least weighted sum of distances."""
        X, weights = self.rows.X, self.rows.weights
        members = [np.flatnonzero(labels == l) for l in range(self.n_clusters)]
        return np.array([X[rows[medoid(X, weights, rows)]] for rows in members])


class CutObjective(MeansObjective):
    """Normalised cut of a nearest-neighbour graph, times the total weight.

    The state is a labelling: the costs are the cut's gradient there, plus the constant
    that makes their sum equal to the cut. A link's weight is multiplied by the weights of
    its two rows.
    """

    lipschitz = 1.0

    def __init__(self, rows, n_clusters, n_neighbors):
        super().__init__(rows, n_clusters, n_neighbors)
        links = neighbour_graph(rows.X, n_neighbors)
        # The cut does not depend on the unit of the weights, but their products could overflow.
        by_weight = sparse.diags_array(rows.weights / rows.weights.mean())
        self.links = (by_weight @ links @ by_weight).tocsr()
        self.degrees = np.asarray(self.links.sum(axis=1)).ravel()

    def start(self, centers):
        return np.argmin(squared_distances(self.rows.X, centers), axis=1)

    def costs(self, labels):
        indicator, volumes, inner = self._cut(labels)
        # A start whose labels leave a cluster empty: no row is drawn to it, none repelled.
        volumes = np.where(volumes > 0, volumes, 1.0)
        gradient = np.outer(self.degrees, inner / volumes**2) - 2 * indicator / volumes
        return self.n_clusters + gradient * (self.rows.total_weight / self.rows.weights)[:, None]

    def update(self, labels):
        return labels

    def value(self, labels, _state):
        _, volumes, inner = self._cut(labels)
        return float(self.rows.total_weight * (self.n_clusters - (inner / volumes).sum()))

    def _cut(self, labels):
        """Links of each row into each cluster, volumes, and links inside each cluster."""
        n_rows = len(labels)
        onehot = np.zeros((n_rows, self.n_clusters))
        onehot[np.arange(n_rows), labels] = 1.0
        into = self.links @ onehot
        volumes = self.degrees @ onehot
        inner = (into * onehot).sum(axis=0)
        return into, volumes, inner


OBJECTIVES = {"kmeans": MeansObjective, "kmedian": MedianObjective, "ncut": CutObjective}


def neighbour_graph(X, n_neighbors):
    """Symmetric graph of 0, 1/2 and 1: each row and its neighbours, itself included."""
    n_real = min(n_neighbors, len(X)) - 1
    links = sparse.eye_array(len(X), format="csr")
    if n_real > 0:
        links = links + kneighbors_graph(X, n_real, mode="connectivity", include_self=False)
    return (links + links.T) / 2


def mean_spread(costs, weights):
    """Weighted mean over the rows of (mean cost - least cost); 1 if nothing is spread."""
    spread = float(np.average(costs.mean(axis=1) - costs.min(axis=1), weights=weights))
    return spread if spread > 1e-300 else 1.0
