"""Fair anchor generation: a few rows that stand for all."""

from fairanchor.anchors._select import Anchors, nearest_anchor_finder, select_anchors

__all__ = ["Anchors", "nearest_anchor_finder", "select_anchors"]
