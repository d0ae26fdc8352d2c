"""From what the user asks for to the constraint that labels must satisfy.

`_fairness_targets` has shares, bounds and sizes as the user states them, `_constraint` the
constraint of one fit, `_bounds` its rows for the engine; `_feasibility` explains why bounds cannot
be met.
"""

from fairanchor.constraints._constraint import Constraint
from fairanchor.constraints._fairness_targets import FairnessTargets

__all__ = ["Constraint", "FairnessTargets"]
