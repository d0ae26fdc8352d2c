"""What a transport refuses: rows and totals that make no sense."""

import numpy as np


def check_rows_of_transport(scores, group_codes, totals, weights):
    """Refuse rows that could not be told from others, or have no place in the totals."""
    n_clusters, n_groups = totals.shape
    if scores.shape != (len(group_codes), n_clusters):
        raise ValueError(
            f"scores has shape {scores.shape}, expected {(len(group_codes), n_clusters)}: a row "
            "for each group code, a column for each cluster of totals."
        )
    if len(group_codes) and not 0 <= group_codes.min() <= group_codes.max() < n_groups:
        raise ValueError(
            f"group_codes are {group_codes.min()}..{group_codes.max()}, expected 0..{n_groups - 1}."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        total = scores.sum()
    if not np.isfinite(total):
        raise ValueError(f"scores sum to {total}: expected finite values with a finite sum.")
    if weights is not None and not (weights >= 0).all():
        raise ValueError(f"weights has negative or missing values, smallest {weights.min()}.")


def check_totals(totals, group_weights):
    """Refuse totals that no labelling has."""
    if not (totals >= 0).all():
        raise ValueError(f"totals has the value {totals.min():g}: expected numbers >= 0.")
    columns = totals.sum(axis=0)
    wrong = ~np.isclose(columns, group_weights, rtol=1e-6, atol=0.5 * (totals.dtype.kind == "i"))
    if wrong.any():
        r = int(np.argmax(wrong))
        raise ValueError(
            f"The totals of group {r} sum to {columns[r]:g} over the clusters, but its rows weigh "
            f"{group_weights[r]:g}: every row has exactly one label."
        )
