"""What a fitted `AnchorFairClustering` knows of new rows: a few small arrays."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from fairanchor.clusterers._fair_lloyd import distances_to
from fairanchor.graph._row_solvers import ActiveSetRows, PivotingRows


@dataclass(frozen=True)
class AnchorModel:
    """Soft labels and labels of any row from its features and its group code.

    All lengths are in the units of the scaled rows; tables have the public order of groups.

    Attributes
    ----------
    row_solver : ActiveSetRows or PivotingRows
        Holds the anchors and their clusters.
    multipliers : ndarray of shape (n_clusters, n_groups)
    allowed : ndarray of shape (n_groups, n_anchors), bool
    prices : ndarray of shape (n_clusters, n_groups)
    centers : ndarray of shape (n_clusters, n_features)
    by_distance : bool
        Whether labels go by squared distance minus price (after a refinement), or by soft
        label plus price.
    shares : ndarray of shape (n_groups,)
        The groups' shares of the training rows.
    """

    row_solver: ActiveSetRows | PivotingRows
    multipliers: np.ndarray
    allowed: np.ndarray
    prices: np.ndarray
    centers: np.ndarray
    by_distance: bool
    shares: np.ndarray

    def with_blind_group(self):
        """The same model with one more group, priced as the population is on average."""
        return AnchorModel(
            self.row_solver,
            _with_mean_column(self.multipliers, self.shares),
            np.vstack([self.allowed, self.allowed.any(axis=0)]),
            _with_mean_column(self.prices, self.shares),
            self.centers,
            self.by_distance,
            np.append(self.shares, 0.0),
        )

    def labels(self, rows):
        """Cluster of each row."""
        own_prices = self.prices.T[rows.group_codes]
        if self.by_distance:
            best = (distances_to(rows, self.centers) - own_prices).argmin(axis=1)
        else:
            best = (self.soft_labels(rows) + own_prices).argmax(axis=1)
        return best.astype(np.int32)

    def soft_labels(self, rows):
        """Weight of each row on the anchors of each cluster."""
        soft_labels = np.empty((rows.n_rows, len(self.centers)))
        everyone = np.ones(rows.n_groups, dtype=bool)

        def kernel(block, out):
            self.row_solver.sweep(block, self.multipliers, self.allowed, everyone, out)

        rows.map(kernel, [soft_labels])
        return soft_labels

    def anchor_weights(self, rows):
        """Weight of each row on each anchor, as a sparse matrix built block by block."""
        blocks = [
            csr_array(self.row_solver.weights(block, self.multipliers, self.allowed))
            for block in rows.blocks()
        ]
        return vstack(blocks, format="csr")


def _with_mean_column(table, shares):
    return np.ascontiguousarray(np.column_stack([table, table @ shares]))
