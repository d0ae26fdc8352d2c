"""What every solver of the anchor graph returns."""

from dataclasses import dataclass

import numpy as np

# Entries of a history that are in squared units of the features.
SQUARED = {"objective", "augmented_lagrangian", "s", "rho", "multiplier_norm"}
# Those that are sums over rows.
SUMS = {"mass_error", "objective", "augmented_lagrangian", "r"}


@dataclass
class GraphResult:
    """Solution of an `AnchorGraphProblem`.

    Attributes
    ----------
    multipliers : ndarray of shape (n_clusters, n_groups)
        Prices of the cells: with them every row solves its program on its own.
    soft_labels : ndarray of shape (n_rows, n_clusters), or None
        Weight of each row on the anchors of each cluster; None where they were not kept.
    mass : ndarray of shape (n_clusters, n_groups)
        The soft labels' sums, to be compared with the targets.
    mass_error : float
        Largest ``|mass - targets|``, in samples.
    objective : float
        Value of the problem's objective.
    duality_gap : float
        Primal minus dual value, ``<multipliers, targets - mass>``; negative is possible as
        long as the mass is not exact.
    converged : bool
    n_iter : int
        Sweeps over the rows.
    history : list of dict
        One record per iteration.
    """

    multipliers: np.ndarray
    soft_labels: np.ndarray | None
    mass: np.ndarray
    mass_error: float
    objective: float
    duality_gap: float
    converged: bool
    n_iter: int
    history: list

    def pop_soft_labels(self):
        """The soft labels, which are not kept: they grow with the rows."""
        soft_labels, self.soft_labels = self.soft_labels, None
        return soft_labels

    def history_in_units_of(self, scale, weight=1.0):
        """The history for rows that were not multiplied by ``scale``, and weigh ``weight`` each."""

        def converted(name, value):
            value = value / scale / scale if name in SQUARED else value
            return value * weight if name in SUMS else value

        return [
            {name: converted(name, value) for name, value in record.items()}
            for record in self.history
        ]
