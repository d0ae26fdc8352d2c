"""Module 1 of the paper, fair anchor generation: a few rows that stand for all.

`_quotas` gives each group its seats, `_kmeans`, `_das` and `_random` choose rows, `_select` looks
the method up and weighs what each anchor stands for. What is done with anchors is elsewhere: they
are labelled in `clusterers/_on_anchors.py`, and rows are written as mixtures of them in `graph`.
"""

from fairanchor.anchors._quotas import auto_n_anchors
from fairanchor.anchors._select import (
    Anchors,
    anchor_seats,
    nearest_anchor_finder,
    rows_to_draw,
    select_anchors,
)

__all__ = [
    "Anchors",
    "anchor_seats",
    "auto_n_anchors",
    "nearest_anchor_finder",
    "rows_to_draw",
    "select_anchors",
]
