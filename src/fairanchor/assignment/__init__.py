"""From soft labels, or any scores, to hard labels: argmax, or exact totals by prices."""

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
