"""The rows that a fit works on: from what the user gave to checked rows, and samples of them.

Here is decided whether the rows stay in one array or are read in chunks, in which units they are
worked on, and which of them stand for all. Reading files and Dask collections is in `rows`; the
checks of arrays are those of all estimators, in `clusterers/_base.py`.
"""

from dataclasses import dataclass

import numpy as np

from fairanchor._anchor_parameters import SOLVERS
from fairanchor._attributes import Attributes
from fairanchor._fairness_rule import has_limits
from fairanchor._groups import check_groups, warn_one_group
from fairanchor._scaling import power_of_two_scale
from fairanchor._sensitive_names import titles_at_fit
from fairanchor._sklearn_compat import check_weights, set_feature_names
from fairanchor.anchors import anchor_seats, nearest_anchor_finder, rows_to_draw
from fairanchor.clusterers._base import check_n_clusters, check_rows
from fairanchor.rows import (
    ChunkedRows,
    MemoryRows,
    _chunks,
    draw_for_samples,
    samples_of_drawn,
    stand_in_samples,
)
from fairanchor.rows._journal import identity_of_run
from fairanchor.rows._open import kind_of, source_of
from fairanchor.rows._stream import as_table


@dataclass(frozen=True)
class Units:
    """What the rows were multiplied by, and what one of them weighs."""

    length: float = 1.0
    weight: float = 1.0


def open_rows(estimator, X, sensitive_features, sample_weight):
    """Checked rows, scaled by a power of two if squares would leave the range of doubles.

    Parameters
    ----------
    estimator : AnchorFairClustering
        Whose parameters say what is asked for; the names of the features are stored in it.
    X, sensitive_features, sample_weight
        As `fit` takes them.

    Returns
    -------
    rows : MemoryRows or ChunkedRows
    groups : Groups
    units : Units
    attributes : Attributes or None
        The columns one by one, if each is an attribute by itself.
    """
    source = None
    if kind_of(X) is not None:
        source = source_of(X, sensitive_features)
        if source.n_rows > _chunks.CHUNK_ROWS:
            return _rows_elsewhere(estimator, source, sensitive_features, sample_weight)
        _journal_of(estimator, source)
        titles = titles_at_fit(X, sensitive_features)
        X, columns = source.read(estimator.missing_groups)
        sensitive_features = as_table(columns, titles) if columns else None
    X = check_rows(estimator, X)
    if source is not None:
        set_feature_names(estimator, source.feature_names, X.shape[1])
    check_n_clusters(estimator.n_clusters, len(X))
    groups = check_groups(sensitive_features, len(X), missing=estimator.missing_groups)
    attributes = None
    if estimator.attributes == "separate":
        attributes = Attributes.of(sensitive_features, groups)
    weights = check_weights(sample_weight, X)
    units = Units(length=power_of_two_scale(X))
    X = X if units.length == 1.0 else X * units.length
    if weights is not None and np.ptp(weights) == 0.0:
        # Equal weights are counts in another unit, and counts can be met exactly.
        weights, units = None, Units(units.length, weight=float(weights[0]))
    rows = MemoryRows(X, groups.codes, groups.n_groups, weights=weights, n_jobs=estimator.n_jobs)
    if _can_be_in_chunks(estimator) and weights is None:
        rows = rows.in_chunks()
    return rows, groups, units, attributes


def _rows_elsewhere(estimator, source, sensitive_features, sample_weight):
    """Rows of a dataset or of a Dask collection, a chunk at a time."""
    if sample_weight is not None:
        raise ValueError(
            "sample_weight is given for rows that are not in memory: weights are kept for "
            "tables in memory only."
        )
    if has_limits(estimator.fairness, estimator.tolerance, estimator.attributes):
        raise ValueError(
            f"tolerance={estimator.tolerance}, fairness={estimator.fairness!r} and attributes="
            f"{estimator.attributes!r} need all rows in memory, and there are {source.n_rows:,}. "
            "Rows in chunks are for tolerance=0, a named fairness or a table, and "
            "attributes='intersection'."
        )
    if not _can_be_in_chunks(estimator):
        raise ValueError(
            f"solver={estimator.solver!r} with assignment={estimator.assignment!r} needs all rows "
            f"in memory, and there are {source.n_rows:,}. Use solver='newton' and "
            "assignment='balanced'."
        )
    check_n_clusters(estimator.n_clusters, source.n_rows)
    if sensitive_features is None:
        warn_one_group(stacklevel=7)
    journal = _journal_of(estimator, source)  # refuses another run's before any row is read
    opened = source.open(estimator.missing_groups, estimator.n_jobs, estimator.n_clusters)
    opened.rows.journal, opened.rows.progress = journal, source.progress
    set_feature_names(estimator, source.feature_names, opened.rows.n_features)
    return opened.rows, opened.groups, Units(length=opened.scale), None


def _journal_of(estimator, source):
    """Where the run's checkpoint is kept, if there is to be one."""
    if source.checkpoint is None:
        return None
    parameters = estimator.get_params(deep=False)
    return source.checkpoint(identity_of_run(parameters, source.fingerprint(), _chunks.CHUNK_ROWS))


def _can_be_in_chunks(estimator):
    """Whether nothing that was asked for needs all rows in memory at once."""
    if has_limits(estimator.fairness, estimator.tolerance, estimator.attributes):
        return False
    return SOLVERS[estimator.solver].is_exact and estimator.assignment == "balanced"


def draw_rows(estimator, rows, groups):
    """Rows in chunks are looked at once, for anchors and samples alike."""
    if not isinstance(rows, ChunkedRows):
        return None
    wanted = np.zeros(rows.n_groups)
    if isinstance(estimator.anchors, str):
        given = (estimator.anchors, estimator.n_anchors, estimator.quotas, estimator.n_clusters)
        seats = anchor_seats(groups, *given)
        wanted = rows_to_draw(rows.group_sizes, estimator.anchors, seats)
    return draw_for_samples(rows, least_rows=50 * estimator.n_clusters, least_per_group=wanted)


def samples_of(estimator, rows, distinct, drawn, anchors):
    """Samples that stand for all rows; cells are known where every group has anchors."""
    options = {"least_rows": 50 * estimator.n_clusters}
    if len(np.unique(anchors.group_codes)) == rows.n_groups:
        options["cell_of"] = nearest_anchor_finder(
            anchors.points, anchors.group_codes, rows.n_groups
        )
        options["cell_weights"] = anchors.masses
    if drawn is not None:
        return samples_of_drawn(rows, drawn, **options)
    return stand_in_samples(rows, distinct, **options)
