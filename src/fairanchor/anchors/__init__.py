"""Fair anchor generation: a few rows that stand for all."""

from fairanchor.anchors._select import (
    Anchors,
    anchor_seats,
    nearest_anchor_finder,
    rows_to_draw,
    select_anchors,
)

__all__ = ["Anchors", "anchor_seats", "nearest_anchor_finder", "rows_to_draw", "select_anchors"]
