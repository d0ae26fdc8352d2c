"""Figures of a clustering and of its fairness.

Every function takes ``ax`` (by default it makes new axes), draws into it and returns it. They
need matplotlib: ``pip install "fairanchor[report]"``.
"""

from fairanchor._plots._fairness import plot_balance, plot_composition
from fairanchor._plots._methods import plot_comparison, plot_price_of_fairness
from fairanchor._plots._path import plot_clusters_path, plot_fairness_path
from fairanchor._plots._rows import Plane, plot_anchors, plot_embedding, plot_profiles
from fairanchor._plots._solver import plot_convergence
from fairanchor._typing import Table

__all__ = [
    "plot_anchors",
    "plot_balance",
    "plot_clusters_path",
    "plot_comparison",
    "plot_composition",
    "plot_convergence",
    "plot_embedding",
    "plot_fairness_path",
    "plot_price_of_fairness",
    "plot_profiles",
    "principal_plane",
]


def principal_plane(X: Table) -> Plane:
    """The plane in which rows differ most, to draw several figures alike.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows; the plane is that of at most 20,000 of them.

    Returns
    -------
    plane : Plane
        To be given to `plot_embedding` and `plot_anchors`.
    """
    return Plane.of(X)
