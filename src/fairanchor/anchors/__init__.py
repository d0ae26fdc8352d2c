"""Fair anchor generation: a few rows that stand for all."""

from fairanchor.anchors._select import Anchors, select_anchors

__all__ = ["Anchors", "select_anchors"]
