"""The local anchor graph: a row is connected to the anchors around it.

With ``d_ij = ||x_i - h_j||^2``::

    minimise  sum_i w_i (d_i z_i + alpha_i ||z_i||^2)   over z_i in the simplex
    subject to  sum of w_i z_ij over rows i of group r and anchors j of cluster l = t[l, r]

Given the dual variables, a row's weights are a projection onto the simplex, in closed form and
sparse. For whole targets, a unique optimum and small enough alpha the soft labels are 0 or 1, and
the problem is the assignment with costs ``D[i, l] = min of d_ij over the anchors j of cluster l``.
Labels are made from these costs.
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
from fairanchor._utils._sklearn_compat import Interval
from fairanchor.rows import MemoryRows
from fairanchor.rows._nearest import NearestAnchors

# Least alpha of a row, in mean squared distances between a row and its nearest anchor. Rows at
# equal distances from more anchors than n_neighbors have no other.
LEAST_ALPHA = 1e-3


class LocalGraph(BaseEstimator):
    """Connect each row to the anchors around it.

    The cost of a row in a cluster is its squared distance to the nearest anchor of that cluster.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of anchors with a positive weight in `AnchorFairClustering.transform` where the
        constraint does not bind. It also sets how sharp the soft labels of ``predict_proba``
        are; the labels do not depend on it.
    """

    _parameter_constraints: dict = {"n_neighbors": [Interval(Integral, 1, None, closed="left")]}

    def __init__(self, n_neighbors: int = 5) -> None:
        self.n_neighbors = n_neighbors


@dataclass(frozen=True)
class LocalCosts:
    """Squared distance of rows to the nearest anchor of each cluster."""

    anchors: np.ndarray
    anchor_labels: np.ndarray
    n_clusters: int
    n_neighbors: int = 5
    least_alpha: float = 1e-300
    takes_long = True

    @cached_property
    def _nearest(self) -> NearestAnchors:
        """The anchors by cluster."""
        return NearestAnchors.of(self.anchors, self.anchor_labels, self.n_clusters)

    @cached_property
    def key(self) -> bytes:
        """Identifies these costs among those of other anchors or labels."""
        digest = hashlib.blake2b(self.anchors.tobytes(), digest_size=16)
        digest.update(self.anchor_labels.tobytes())
        return digest.digest()

    def write(self, block: Any, out: np.ndarray) -> None:
        """Write the costs of a block."""
        self._nearest.write(block.X, np.empty(out.shape, dtype=np.int32), out)

    def with_typical_distance(self, distance: float) -> "LocalCosts":
        """The same costs, with the mean squared distance of a row to its nearest anchor."""
        return replace(self, least_alpha=max(LEAST_ALPHA * distance, 1e-300))

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
        order = self._nearest.order
        by_anchor = np.ascontiguousarray(prices[self.anchor_labels[order]].T)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        blocks = []
        for block in rows.blocks():
            Z, alphas = np.empty((len(block.X), len(order))), np.empty(len(block.X))
            self._write_weights(block, by_anchor[block.group_codes], Z, alphas)
            blocks.append(csr_array(Z[:, place]))
        return vstack(blocks, format="csr")

    def _write_weights(
        self, block: Any, prices: np.ndarray, Z: np.ndarray, alphas: np.ndarray
    ) -> None:
        H = self._nearest.points
        kernels.neighbour_weights(block.X, H, self.n_neighbors, self.least_alpha, prices, Z, alphas)
