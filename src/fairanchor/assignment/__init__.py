"""From soft labels, or any scores, to hard labels: argmax, or exact totals by prices.

Module 4 of the paper, and the assignment step of fair k-means alike: scores may be soft labels or
minus squared distances. `_rounding` makes whole numbers of targets, `_transport` labels with these
totals, `_agreed` the same for rows in chunks; the files about limits, prices and programs are for
shares between bounds and for several attributes. Nothing here knows of anchors.
"""

from fairanchor.assignment._rounding import (
    controlled_rounding,
    largest_remainder,
    proportional_counts,
    raise_small_sizes,
    round_targets,
)
from fairanchor.assignment._transport import TransportResult, transport, transport_rows

__all__ = [
    "TransportResult",
    "controlled_rounding",
    "largest_remainder",
    "proportional_counts",
    "raise_small_sizes",
    "round_targets",
    "transport",
    "transport_rows",
]
