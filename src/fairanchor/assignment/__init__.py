"""Labels of least cost under a constraint: one engine for any costs, constraint and place of rows.

`_engine` has the steps: a pass over the rows (`_sweep`), prices of the cells (`_dual`), the linear
program (`_program`), whole tables (`_rounding`) and exact labels (`_transport`).
`_fair_assign` is the engine as a public function. Nothing here knows of anchors or centres.
"""

from fairanchor.assignment._rounding import (
    controlled_rounding,
    largest_remainder,
    proportional_counts,
    raise_small_sizes,
    round_targets,
)

__all__ = [
    "controlled_rounding",
    "largest_remainder",
    "proportional_counts",
    "raise_small_sizes",
    "round_targets",
]
