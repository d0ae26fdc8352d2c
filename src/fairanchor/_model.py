"""What a fitted `AnchorFairClustering` knows of new rows: a few small arrays."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array, vstack

from fairanchor._propagation import SoftLabelScorer
from fairanchor.clusterers._fair_lloyd import distances_to
from fairanchor.graph._row_solvers import (
    ActiveSetRows,
    PivotingRows,
    ResidualRows,
    allowed_anchors,
)


@dataclass(frozen=True)
class AnchorModel:
    """Soft labels and labels of any row from its features and its group code.

    All lengths are in the units of the scaled rows; tables have the public order of groups.

    Attributes
    ----------
    row_solver : ActiveSetRows, PivotingRows or ResidualRows
        Holds the anchors and their clusters.
    multipliers : ndarray of shape (n_clusters, n_groups)
    allowed_cells : ndarray of shape (n_clusters, n_groups), bool
        False where a group's target was zero: none of its rows goes there, seen or new.
    prices : ndarray of shape (n_clusters, n_groups)
    centers : ndarray of shape (n_clusters, n_features)
    by_distance : bool
        Whether labels go by squared distance minus price (after a refinement), or by soft
        label plus price.
    shares : ndarray of shape (n_groups,)
        The groups' shares of the training rows.
    """

    row_solver: ActiveSetRows | PivotingRows | ResidualRows
    multipliers: np.ndarray
    allowed_cells: np.ndarray
    prices: np.ndarray
    centers: np.ndarray
    by_distance: bool
    shares: np.ndarray

    def with_blind_group(self, prices=None):
        """The same model with one more group, priced as the population is on average.

        Parameters
        ----------
        prices : ndarray of shape (n_clusters,), default=None
            The group's own prices of the labels, if there are any.
        """
        prices = self._mean(self.prices) if prices is None else prices
        return replace(
            self,
            multipliers=_with_column(self.multipliers, self._mean(self.multipliers)),
            allowed_cells=_with_column(self.allowed_cells, self.allowed_cells.any(axis=1)),
            prices=_with_column(self.prices, prices),
            shares=np.append(self.shares, 0.0),
        )

    def labels(self, rows):
        """Cluster of each row."""
        prices = np.where(self.allowed_cells, self.prices, -np.inf)
        own_prices = prices.T[rows.group_codes]
        if self.by_distance:
            best = (distances_to(rows, self.centers) - own_prices).argmin(axis=1)
        else:
            best = (self.soft_labels(rows) + own_prices).argmax(axis=1)
        return best.astype(np.int32)

    def soft_labels(self, rows):
        """Weight of each row on the anchors of each cluster."""
        allowed = allowed_anchors(self.row_solver.problem, self.allowed_cells)
        return SoftLabelScorer(self.row_solver, self.multipliers, allowed).scores(rows)

    def anchor_weights(self, rows):
        """Weight of each row on each anchor, as a sparse matrix built block by block."""
        allowed = allowed_anchors(self.row_solver.problem, self.allowed_cells)
        priced = self.row_solver.at(self.multipliers, allowed)
        blocks = [csr_array(priced.weights(block)) for block in rows.blocks()]
        return vstack(blocks, format="csr")

    def _mean(self, table):
        """Mean over the groups that may use the cell, by their shares."""
        shares = self.allowed_cells * self.shares
        totals = shares.sum(axis=1)
        return np.divide((shares * table).sum(axis=1), totals, out=table.min(axis=1),
                         where=totals > 0)  # fmt: skip


def _with_column(table, column):
    return np.ascontiguousarray(np.column_stack([table, column]))
