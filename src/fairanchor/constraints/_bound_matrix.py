"""Linear limits on the weights of groups in clusters."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from fairanchor._kernels._dual import Limits


class Entries(NamedTuple):
    """Entries of a matrix that are not zero: its rows are limits, its columns places.

    Plain arrays: where a program has a few dozen limits, and there are many programs, sparse
    matrices would take longer to make than to use.
    """

    limits: np.ndarray
    places: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class CellConstraints:
    """Linear limits on the table N of clusters × groups, and on its row sums, the sizes.

    A limit on a share is one on a cell and on a size. Written as one on the cells only it
    would have an entry for each group, which is slow where there are many.

    Attributes
    ----------
    of_cells, of_sizes : Entries
        Coefficients of the cells, in row-major order, and of the sizes.
    right : ndarray of shape (n_limits,)
    is_equal : ndarray of bool of shape (n_limits,)
        The sum is equal to ``right`` there, at most ``right`` elsewhere.
    shape : tuple
        (n_clusters, n_groups).
    """

    of_cells: Entries
    of_sizes: Entries
    right: np.ndarray
    is_equal: np.ndarray
    shape: tuple

    @classmethod
    def of_table(cls, table):
        """Every cell as in a table."""
        table = np.asarray(table, dtype=np.float64)
        cells, nothing = np.arange(table.size), np.empty(0, dtype=np.int64)
        of_cells = Entries(cells, cells, np.ones(table.size))
        is_equal = np.ones(table.size, dtype=np.bool_)
        of_sizes = Entries(nothing, nothing, np.empty(0))
        return cls(of_cells, of_sizes, table.ravel(), is_equal, table.shape)

    @property
    def n_limits(self):
        return len(self.right)

    @cached_property
    def for_kernels(self):
        """The same as plain arrays."""
        return Limits(*self.of_cells, *self.of_sizes, self.right, self.is_equal)

    def typical_weight(self, cells):
        """For every limit the weight that it is about, if groups weigh so much in a cluster."""
        n_clusters, n_groups = self.shape
        weights = np.zeros(self.n_limits)
        limits, places, values = self.of_cells
        np.add.at(weights, limits, np.abs(values) * cells[places % n_groups])
        is_size = np.ones(self.n_limits, dtype=np.bool_)
        is_size[limits] = False
        return np.where(is_size, cells.sum(), weights)

    @property
    def matrix(self):
        """Coefficients when sizes are written as sums of cells, as a sparse matrix."""
        n_clusters, n_groups = self.shape
        sums = sparse.kron(sparse.eye_array(n_clusters), np.ones((1, n_groups)), format="csr")
        of_cells = self._sparse(self.of_cells, n_clusters * n_groups)
        return of_cells + self._sparse(self.of_sizes, n_clusters) @ sums

    def _sparse(self, entries, n_places):
        limits, places, values = entries
        return sparse.csr_array((values, (limits, places)), shape=(self.n_limits, n_places))

    def size_prices(self, multipliers):
        """What limits add to the prices of all cells of a cluster."""
        return _summed(self.of_sizes, multipliers, self.shape[0])

    def prices(self, multipliers):
        """Prices of the cells."""
        n_clusters, n_groups = self.shape
        of_cells = _summed(self.of_cells, multipliers, n_clusters * n_groups)
        of_sizes = _summed(self.of_sizes, multipliers, n_clusters)
        return of_cells.reshape(self.shape) + of_sizes[:, None]

    def left(self, table):
        """What a table leaves of each limit; negative beyond it."""
        taken = np.zeros(self.n_limits)
        for (limits, places, values), amounts in (
            (self.of_cells, table.ravel()),
            (self.of_sizes, table.sum(axis=1)),
        ):
            taken += np.bincount(limits, weights=values * amounts[places], minlength=len(taken))
        return self.right - taken

    def excess(self, table):
        """By how much the worst limit is missed."""
        beyond = -self.left(table)
        return float(np.where(self.is_equal, np.abs(beyond), beyond).max(initial=0.0))


def _summed(entries, multipliers, n_places):
    limits, places, values = entries
    return np.bincount(places, weights=values * multipliers[limits], minlength=n_places)
