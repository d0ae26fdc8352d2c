"""Figures of a clustering and of its fairness.

Every function takes ``ax`` (by default it makes new axes), draws into it and returns it. They
need matplotlib: ``pip install "fairanchor[report]"``.
"""

from fairanchor.plotting._fairness import plot_balance, plot_composition
from fairanchor.plotting._methods import plot_comparison, plot_price_of_fairness
from fairanchor.plotting._path import plot_clusters_path, plot_fairness_path
from fairanchor.plotting._rows import (
    plot_anchors,
    plot_embedding,
    plot_profiles,
    principal_plane,
)
from fairanchor.plotting._solver import plot_convergence

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
