"""Module 4 of the paper: from soft labels to labels, by name."""

import warnings

import numpy as np

from fairanchor.assignment._rounding import round_targets
from fairanchor.assignment._transport import TransportResult, transport_rows
from fairanchor.exceptions import FairnessWarning


def balanced(soft_labels, rows, targets):
    """Labels with the targets' counts and the largest sum of soft labels."""
    if not np.allclose(targets.sum(axis=0), rows.group_sizes, rtol=1e-6):
        warnings.warn(
            "The targets do not sum to the sizes of the groups; the labels meet them scaled to "
            "these sizes.",
            FairnessWarning,
            stacklevel=4,
        )
    totals = round_targets(targets, rows.group_sizes, whole=not rows.is_weighted)
    return transport_rows(rows, soft_labels, totals)


def argmax(soft_labels, rows, targets):
    """Each row's largest soft label (the paper's rule); no count is kept."""
    labels = soft_labels.argmax(axis=1).astype(np.int32)
    return TransportResult(labels, prices=np.zeros(targets.shape), gap=0.0)


ASSIGNMENTS = {"balanced": balanced, "argmax": argmax}
