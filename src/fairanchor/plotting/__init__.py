"""Figures of a clustering and of its fairness.

Every function draws into ``ax`` (by default new axes) and returns it. The functions need
matplotlib: ``pip install "fairanchor[report]"``.
"""

from fairanchor.plotting._composition import plot_balance, plot_composition
from fairanchor.plotting._costs import (
    plot_clusters_path,
    plot_comparison,
    plot_convergence,
    plot_fairness_path,
)
from fairanchor.plotting._rows import (
    plot_anchors,
    plot_embedding,
    plot_profiles,
    principal_plane,
)

__all__ = [
    "plot_anchors",
    "plot_balance",
    "plot_clusters_path",
    "plot_comparison",
    "plot_composition",
    "plot_convergence",
    "plot_embedding",
    "plot_fairness_path",
    "plot_profiles",
    "principal_plane",
]
