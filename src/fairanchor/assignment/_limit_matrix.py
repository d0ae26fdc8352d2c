"""Linear limits on the weights of groups in clusters."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse


@dataclass(frozen=True)
class CellConstraints:
    """Linear limits on the table N of clusters × groups, and on its row sums, the sizes.

    A limit on a share is one on a cell and on a size. Written as one on the cells only it
    would have an entry for each group, which is slow where there are many.

    Attributes
    ----------
    of_cells : csr_array of shape (n_limits, n_clusters * n_groups)
        Coefficients of the cells, in row-major order.
    of_sizes : csr_array of shape (n_limits, n_clusters)
    right : ndarray of shape (n_limits,)
    is_equal : ndarray of bool of shape (n_limits,)
        The sum is equal to ``right`` there, at most ``right`` elsewhere.
    shape : tuple
        (n_clusters, n_groups).
    """

    of_cells: sparse.csr_array
    of_sizes: sparse.csr_array
    right: np.ndarray
    is_equal: np.ndarray
    shape: tuple

    @classmethod
    def of_entries(cls, cell_entries, size_entries, right, is_equal, shape):
        """From triples (limits, places, values)."""
        n_limits, (n_clusters, n_groups) = len(right), shape
        rows, columns, values = cell_entries
        of_cells = sparse.csr_array(
            (values, (rows, columns)), shape=(n_limits, n_clusters * n_groups)
        )
        rows, columns, values = size_entries
        of_sizes = sparse.csr_array((values, (rows, columns)), shape=(n_limits, n_clusters))
        return cls(of_cells, of_sizes, right, is_equal, shape)

    @cached_property
    def entries(self):
        """Entries of the cells, and of the sizes."""
        return self.of_cells.tocoo(), self.of_sizes.tocoo()

    @cached_property
    def _transposed(self):
        return self.of_cells.T.tocsr(), self.of_sizes.T.tocsr()

    @property
    def matrix(self):
        """Coefficients when sizes are written as sums of cells."""
        n_clusters, n_groups = self.shape
        sums = sparse.kron(sparse.eye_array(n_clusters), np.ones((1, n_groups)), format="csr")
        return self.of_cells + self.of_sizes @ sums

    def prices(self, multipliers):
        """Prices of the cells."""
        of_cells, of_sizes = self._transposed
        return (of_cells @ multipliers).reshape(self.shape) + (of_sizes @ multipliers)[:, None]

    def left(self, table):
        """What a table leaves of each limit; negative beyond it."""
        return self.right - self.of_cells @ table.ravel() - self.of_sizes @ table.sum(axis=1)

    def excess(self, table):
        """By how much the worst limit is missed."""
        beyond = -self.left(table)
        return float(np.where(self.is_equal, np.abs(beyond), beyond).max(initial=0.0))
