"""The local anchor graph: a row is connected to the anchors around it.

With ``d_ij = ||x_i - h_j||^2``::

    minimise  sum_i w_i (d_i z_i + alpha_i ||z_i||^2)   over z_i in the simplex
    subject to  sum of w_i z_ij over rows i of group r and anchors j of cluster l = t[l, r]

Given the dual variables, a row's weights are a projection onto the simplex, in closed form and
sparse. For whole targets, a unique optimum and small enough alpha the soft labels are 0 or 1, and
the problem is the assignment with costs ``min of d_ij over the anchors j of cluster l``.

A single anchor is a noisy estimate of where a cluster ends. Labels are made from the costs
``D[i, l] = min of ||x_i - m_j||^2 over the anchors j of cluster l``, where m_j is the mean of j and
the anchors of the cluster nearest to it. One neighbour is the nearest anchor, all are the centroid.
"""

import hashlib
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack
from sklearn.base import BaseEstimator

from fairanchor._kernels import _nearest as kernels
from fairanchor._utils._cached import cached_property
from fairanchor.rows import MemoryRows
from fairanchor.rows._nearest import NearestAnchors

# Least alpha of a row, in mean costs of a row in its cheapest cluster. Rows at equal distances from
# more anchors than n_neighbors have no other.
LEAST_ALPHA = 1e-3


class LocalGraph(BaseEstimator):
    """Connect each row to the anchors around it.

    The cost of a row in a cluster is its squared distance to the nearest mean of ``n_neighbors``
    neighbouring anchors of that cluster: an anchor, and those nearest to it.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of anchors in a mean; a cluster may have fewer. 1 takes the anchors themselves, whose
        positions are noisy: boundaries are less smooth. It is also the number of anchors with a
        positive weight in `AnchorFairClustering.transform` where the constraint does not bind, and
        sets how sharp the soft labels of ``predict_proba`` are.
    """

    def __init__(self, n_neighbors: int = 5) -> None:
        self.n_neighbors = n_neighbors

    def _check(self) -> None:
        if not isinstance(self.n_neighbors, Integral) or self.n_neighbors < 1:
            raise ValueError(
                f"LocalGraph(n_neighbors={self.n_neighbors!r}) should be a whole number >= 1."
            )


@dataclass(frozen=True)
class LocalCosts:
    """Squared distance of rows to the nearest mean of neighbouring anchors of each cluster."""

    anchors: np.ndarray
    anchor_labels: np.ndarray
    n_clusters: int
    n_neighbors: int = 5
    least_alpha: float = 1e-300
    takes_long = True

    @cached_property
    def _nearest(self) -> NearestAnchors:
        """The means of neighbouring anchors, by cluster."""
        means = np.empty_like(self.anchors)
        kernels.average_neighbours(self.anchors, self.anchor_labels, self.n_neighbors, means)
        return NearestAnchors.of(means, self.anchor_labels, self.n_clusters)

    @cached_property
    def key(self) -> bytes:
        """Identifies these costs among those of other anchors or labels."""
        digest = hashlib.blake2b(self.anchors.tobytes(), digest_size=16)
        digest.update(self.anchor_labels.tobytes())
        digest.update(int(self.n_neighbors).to_bytes(8))
        return digest.digest()

    def write(self, block: Any, out: np.ndarray) -> None:
        """Write the costs of a block."""
        self._nearest.write(block.X, np.empty(out.shape, dtype=np.int32), out)

    def with_typical_cost(self, cost: float) -> "LocalCosts":
        """The same costs, with the mean cost of a row in its cheapest cluster."""
        return replace(self, least_alpha=max(LEAST_ALPHA * cost, 1e-300))

    def soft_labels(self, rows: MemoryRows, prices: np.ndarray) -> np.ndarray:
        """Projection of ``-(costs - prices) / 2 alpha`` on the simplex, for `MemoryRows`.

        ``prices`` has a row per cluster and a column per group; minus infinity excludes a cell.
        """
        soft_labels = np.empty((rows.n_rows, self.n_clusters))

        def kernel(block: Any, out: np.ndarray) -> None:
            costs = np.empty(out.shape)
            self.write(block, costs)
            costs -= prices.T[block.group_codes]
            alphas = np.empty(len(costs))
            nothing = np.empty((0, len(self.anchors)))
            self._write_weights(block, nothing, nothing, alphas)
            kernels.project_rows(costs, alphas, out)

        rows.map(kernel, [soft_labels])
        return soft_labels

    def anchor_weights(self, rows: MemoryRows, prices: np.ndarray) -> Any:
        """Weights of `MemoryRows` on the anchors, as a sparse matrix built block by block."""
        by_anchor = np.ascontiguousarray(prices[self.anchor_labels].T)
        blocks = []
        for block in rows.blocks():
            Z, alphas = np.empty((len(block.X), len(self.anchors))), np.empty(len(block.X))
            self._write_weights(block, by_anchor[block.group_codes], Z, alphas)
            blocks.append(csr_array(Z))
        return vstack(blocks, format="csr")

    def _write_weights(
        self, block: Any, prices: np.ndarray, Z: np.ndarray, alphas: np.ndarray
    ) -> None:
        kernels.neighbour_weights(
            block.X, self.anchors, self.n_neighbors, self.least_alpha, prices, Z, alphas
        )
