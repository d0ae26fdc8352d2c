"""Module 3 of the paper, the anchor graph: its problem, its targets, the solvers that meet them.

Problem, solver and result are three types. `_row_solvers` has what the solvers share: the n small
programs, one per row, whose kernels are in `_kernels`. Labels are made elsewhere, in `assignment`.
"""

from fairanchor.graph._admm import ADMMSolver, warn_not_converged
from fairanchor.graph._newton import NewtonSolver, sufficient_multipliers
from fairanchor.graph._problem import AnchorGraphProblem
from fairanchor.graph._result import GraphResult
from fairanchor.graph._row_solvers import allowed_anchors, choose_row_solver
from fairanchor.graph._targets import AnchorSummary, check_targets, fairness_targets

__all__ = [
    "ADMMSolver",
    "AnchorGraphProblem",
    "AnchorSummary",
    "GraphResult",
    "NewtonSolver",
    "allowed_anchors",
    "check_targets",
    "choose_row_solver",
    "fairness_targets",
    "sufficient_multipliers",
    "warn_not_converged",
]
