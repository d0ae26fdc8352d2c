"""What several panels need, worked out once."""

from dataclasses import dataclass

import numpy as np

from fairanchor._utils._sampling import spread_sample
from fairanchor.plotting._rows import MAX_POINTS, Plane
from fairanchor.plotting._tables import Composition, count_table
from fairanchor.report._verdict import Fairness, measure


@dataclass(frozen=True)
class Scene:
    """A run, its numbers, and the rows that its figures show.

    Attributes
    ----------
    run : RunSummary
    composition : Composition
        Of the run's clusters.
    fairness : Fairness
    plain : Composition or None
        Of plain k-means.
    plain_labels : ndarray of shape (n_rows,) or None
        Labels of plain k-means, each cluster with the number of the run's cluster that it
        overlaps with most, so that pictures of both can be compared.
    moved : float or None
        Share of the rows that are in another cluster than with plain k-means.
    all_cluster_names : list
        Names of the run's clusters, and of those of plain k-means that match none.
    plane : Plane or None
        Of the features.
    drawn_rows : ndarray of ints, or None
        Rows that are drawn as points.
    drawn_features : ndarray of shape (len(drawn_rows), n_features) or None
        Their features.
    """

    run: object
    composition: Composition
    fairness: Fairness
    plain: Composition | None
    plain_labels: np.ndarray | None
    moved: float | None
    all_cluster_names: list
    plane: Plane | None
    drawn_rows: np.ndarray | None
    drawn_features: np.ndarray | None

    @classmethod
    def of(cls, run):
        """The scene of a run."""
        plain_labels, moved, names = _matched(run)
        plain = None
        if plain_labels is not None:
            table = count_table(
                plain_labels, run.group_codes, len(names), run.n_groups, run.sample_weight
            )
            plain = Composition(table, names, run.group_names)
        plane, rows, features = _drawn(run)
        return cls(
            run=run,
            composition=Composition(run.counts, run.cluster_names, run.group_names),
            fairness=measure(run.counts),
            plain=plain,
            plain_labels=plain_labels,
            moved=moved,
            all_cluster_names=names,
            plane=plane,
            drawn_rows=rows,
            drawn_features=features,
        )


def _matched(run):
    """Plain labels in the run's numbering, the share of rows that differ, and all names."""
    if run.plain_labels is None:
        return None, None, run.cluster_names
    from scipy.optimize import linear_sum_assignment

    n_plain = int(run.plain_labels.max()) + 1
    overlap = count_table(run.labels, run.plain_labels, run.n_clusters, n_plain)
    ours, theirs = linear_sum_assignment(overlap, maximize=True)
    number = np.full(n_plain, -1)
    number[theirs] = ours
    unmatched = np.flatnonzero(number < 0)
    number[unmatched] = run.n_clusters + np.arange(len(unmatched))
    names = [*run.cluster_names, *[f"plain {i + 1}" for i in range(len(unmatched))]]
    return number[run.plain_labels], 1.0 - overlap[ours, theirs].sum() / len(run.labels), names


def _drawn(run):
    """The plane of the features, and the rows that are drawn in it."""
    if run.features is None:
        return None, None, None
    positions = spread_sample(len(run.features), MAX_POINTS)
    rows = positions if run.sample_rows is None else run.sample_rows[positions]
    return Plane.of(run.features), rows, run.features[positions]
