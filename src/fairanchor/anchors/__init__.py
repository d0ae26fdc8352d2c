"""Module 1 of the paper, fair anchor generation: a few points that represent all rows.

`_select` gives each group its number of anchors, runs a method of `_methods` by name and counts the
rows that each anchor represents. Anchors are labelled in
`cluster/_on_anchors.py` and connected to the rows in `graph`.
"""

from fairanchor.anchors._select import (
    FDAS,
    METHODS,
    Anchors,
    auto_n_anchors,
    plan_anchors,
    select_anchors,
)

__all__ = ["FDAS", "METHODS", "Anchors", "auto_n_anchors", "plan_anchors", "select_anchors"]
