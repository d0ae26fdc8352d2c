"""What a fit leaves behind: the attributes of `AnchorFairClustering`, in the user's units.

Rows are worked on in scaled units and groups in canonical order (`Groups`); what users see has
their units and the groups in sorted order. The translation is here and nowhere else. What
`predict` needs of a fit is gathered in an `AnchorModel`.
"""

import numpy as np

from fairanchor._anchor_parameters import SOLVERS
from fairanchor._fairness_rule import allowed_cells
from fairanchor._model import AnchorModel
from fairanchor.clusterers._attribute_report import AttributeReport, public_limits
from fairanchor.graph import sufficient_multipliers
from fairanchor.graph._row_solvers import choose_row_solver
from fairanchor.metrics import balance_of_table
from fairanchor.rows import MemoryChunks
from fairanchor.rows._label_files import LabelsElsewhere


def store_graph(model, rows, units, anchors, problem, graph):
    """Attributes of the anchors and of the anchor graph, in the user's units."""
    scale = units.length
    model.anchor_indices_ = anchors.indices
    model.anchors_ = anchors.points / scale
    model.anchor_masses_ = anchors.masses * units.weight
    model.anchor_labels_ = problem.anchor_labels
    model._n_features_out = len(anchors.indices)
    model.mass_error_ = graph.mass_error * units.weight
    model.duality_gap_ = graph.duality_gap * units.weight / scale / scale
    model.converged_ = graph.converged
    sampled = graph.n_sample_rows
    model.n_graph_rows_ = int(rows.n_rows if sampled is None else sampled)
    model.n_iter_ = graph.n_iter
    model.history_ = graph.history_in_units_of(scale, units.weight)


def store_assignment(model, rows, groups, units, propagated):
    """Attributes of the labels, tables with the groups in the order of ``groups_``."""
    model._agreed = None
    if isinstance(propagated.labels, np.ndarray):
        is_weighted = rows.is_weighted or units.weight != 1.0
        weights = rows.weights * units.weight if is_weighted else None
        model._store_labels(propagated.labels, groups, weights)
    else:
        _store_agreed(model, rows, propagated.labels, groups, units)
    model._scale = scale = units.length
    price_unit = scale if propagated.by_distance else 1.0
    model.targets_ = groups.to_public(propagated.targets) * units.weight
    model.worst_violation_ = float(np.abs(model.counts_ - model.targets_).max())
    model.n_clusters_found_ = int(np.count_nonzero(model.counts_.sum(axis=1)))
    model.assignment_prices_ = groups.to_public(propagated.prices) / price_unit / price_unit
    model.assignment_gap_ = propagated.gap * units.weight / price_unit / price_unit
    model.cluster_centers_ = propagated.centers / scale
    # The cost of rows that are their own centres may come out as a zero with a sign.
    model.inertia_ = propagated.cost * units.weight / scale / scale + 0.0


def store_limits(model, rows, groups, attributes, units, propagated, rule):
    """By how much what was asked for is missed, in all and by attribute."""
    model._asked_limits = public_limits(rule, groups, units.weight)
    if rule is not None:
        counts = groups.from_public(model.counts_)
        counts = counts if units.weight == 1.0 else counts / units.weight
        report = AttributeReport.of(rule, attributes, counts, propagated)
    else:
        tables = [] if attributes is None else [model.counts_]
        missed = [model.worst_violation_ / units.weight]
        report = AttributeReport(attributes, tables, missed, [])
    report.store(model, units.weight)
    if rule is not None and not rows.is_weighted:
        report.warn_if_missed()


def _store_agreed(model, rows, agreed, groups, units):
    """Labels that are a function of the rows: written out where the rows are in memory."""
    model.groups_ = groups.public_names
    model.counts_ = groups.to_public(agreed.totals)
    if units.weight != 1.0:
        model.counts_ = model.counts_ * units.weight
    model.balance_ = balance_of_table(agreed.totals)
    if isinstance(rows, MemoryChunks):
        model.labels_ = np.concatenate(list(LabelsElsewhere(rows, agreed)))
    else:
        model._agreed = LabelsElsewhere(rows, agreed)
        # Of an earlier fit, or of the file that the model was loaded from.
        for name in ("labels_", "preprocessing_"):
            model.__dict__.pop(name, None)


def store_model(model, rows, groups, problem, targets, graph, propagated, rule):
    """What `predict` needs, in the units of the scaled rows."""
    # ADMM excludes no anchor: its zero targets are met as nearly as all others.
    exact = SOLVERS[model.solver].is_exact
    allowed = targets > 0 if exact else np.ones_like(targets, dtype=bool)
    allowed |= targets.sum(axis=0) == 0
    if rule is not None:
        # That a group has no row in a cell does not mean that it may have none.
        allowed = allowed_cells(rule, rows.n_groups)
    multipliers, row_solver = graph.multipliers, graph.row_solver
    if exact:
        multipliers = sufficient_multipliers(problem, rows, targets, multipliers)
    if row_solver is None:
        row_solver = choose_row_solver(problem, rows, multipliers, allowed.astype(float))
    scale = model._scale
    price_unit = scale if propagated.by_distance else 1.0
    model._model = AnchorModel(
        row_solver=row_solver,
        multipliers=groups.to_public(multipliers),
        allowed_cells=groups.to_public(allowed),
        prices=model.assignment_prices_ * price_unit * price_unit,
        centers=model.cluster_centers_ * scale,
        by_distance=propagated.by_distance,
        shares=groups.to_public(rows.group_sizes) / rows.total,
    )
    model.multipliers_ = model._model.multipliers / scale / scale
