"""Module 3 of the paper, the anchor graph: how rows are connected to anchors.

`_local` has the default, costs by distance. `_reconstruction` has the paper's graph; its problem,
the small programs of the rows and the type of a result are in `_problem`, its solvers in `_newton`
and `_admm`, the tables that it has to meet in `_targets`.
"""

from fairanchor.graph._admm import ADMMSolver, warn_not_converged
from fairanchor.graph._local import LocalCosts, LocalGraph
from fairanchor.graph._newton import NewtonSolver, sufficient_multipliers
from fairanchor.graph._problem import (
    AnchorGraphProblem,
    GraphResult,
    RowSolver,
    allowed_anchors,
)
from fairanchor.graph._reconstruction import ReconstructionGraph, SoftLabels, nearest_targets
from fairanchor.graph._targets import AnchorSummary, fairness_targets, whole_sizes

__all__ = [
    "ADMMSolver",
    "AnchorGraphProblem",
    "AnchorSummary",
    "GraphResult",
    "LocalCosts",
    "LocalGraph",
    "NewtonSolver",
    "ReconstructionGraph",
    "RowSolver",
    "SoftLabels",
    "allowed_anchors",
    "fairness_targets",
    "nearest_targets",
    "sufficient_multipliers",
    "warn_not_converged",
    "whole_sizes",
]
