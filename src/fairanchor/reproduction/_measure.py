"""One fit in this process: labels, and every number that a table or figure wants."""

import time
import warnings
from dataclasses import replace

import numpy as np

from fairanchor.reproduction._data import load
from fairanchor.reproduction._methods import alone

# The paper's largest grid point, and the middle of its range of alpha.
FAITHFUL_PER_GROUP = 20
FAITHFUL_ALPHA = 1.0
WARM_UP_ROWS = 300


def measure_cell(cell, settings, n_jobs=1):
    """Fit a cell and measure it.

    Parameters
    ----------
    cell : Cell
    settings : Settings
    n_jobs : int
        Threads of the framework.

    Returns
    -------
    result : dict
        ``status`` is "done", or "refused" with the ``message`` of the error. ``warnings`` lists
        every different one.
    """
    data = load(cell.dataset, settings.data_dir, settings.max_rows).sample(cell.rows)
    model = estimator(cell, data, settings.seed, n_jobs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = _fit_and_measure(model, cell, data)
    result["warnings"] = sorted({f"{w.category.__name__}: {w.message}" for w in caught})
    return result


def estimator(cell, data, seed, n_jobs):
    """What a cell fits."""
    if cell.where == "alone":
        return alone(cell.method, data.n_clusters, seed)
    from fairanchor import AnchorFairClustering

    given = {name: getattr(cell, name) for name in ("alpha", "anchors", "fairness", "solver")}
    given = {name: value for name, value in given.items() if value is not None}
    given |= {"clusterer": cell.method, "random_state": seed, "n_jobs": n_jobs}
    if cell.refine is not None:
        given["refine"] = cell.refine
    per_group = cell.per_group
    if cell.block == "faithful":
        per_group = FAITHFUL_PER_GROUP if per_group is None else per_group
        given.setdefault("alpha", FAITHFUL_ALPHA)
    if per_group is not None:
        given["n_anchors"] = min(per_group * data.n_groups, len(data.X))
    make = AnchorFairClustering.as_in_paper if cell.block == "faithful" else AnchorFairClustering
    return make(data.n_clusters, **given)


def warm_up(cell, settings, n_jobs):
    """A small fit, so that compilation is not timed."""
    data = load(cell.dataset, settings.data_dir, settings.max_rows)
    small = data.sample(min(WARM_UP_ROWS, max(len(data.X) // 4, 60)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = estimator(cell, small, settings.seed, n_jobs)
            model.fit(small.X, sensitive_features=small.groups)
        except ValueError:
            return  # the real fit will say why


def _fit_and_measure(model, cell, data):
    start = time.perf_counter()
    try:
        model.fit(data.X, sensitive_features=data.groups)
    except ValueError as error:
        return {"status": "refused", "message": str(error), "rows": len(data.X)}
    result = {"status": "done", "seconds": time.perf_counter() - start, "rows": len(data.X)}
    result |= scores(model.labels_, data)
    if cell.where == "framework":
        result |= graph_facts(model)
        if cell.history:
            result["history"] = model.history_
        if cell.unconstrained:
            labels = unconstrained_labels(model, data)
            result["without_constraint"] = scores(labels, data)
    return result


def scores(labels, data):
    """The paper's four measures, and some of ours."""
    from fairanchor import metrics

    groups = {"sensitive_features": data.groups}
    return {
        "acc": metrics.clustering_accuracy_score(data.target, labels),
        "nmi": metrics.nmi_score(data.target, labels),
        "balance": metrics.balance_score(labels, **groups),
        "mnce": metrics.mnce_score(labels, **groups),
        "relative_balance": metrics.relative_balance_score(labels, **groups),
        "cost": metrics.clustering_cost(data.X, labels) / len(labels),
        "clusters_found": len(np.unique(labels)),
        "dataset_balance": metrics.dataset_balance(data.groups),
    }


def graph_facts(model):
    """What the anchor graph was asked for, and how near its soft mass came."""
    from fairanchor.metrics import balance_of_table

    group_sizes = model.counts_.sum(axis=0)
    return {
        "n_anchors": len(model.anchor_indices_),
        "alpha": float(model.alpha),
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
        "mass_error": float(model.mass_error_),
        "target_balance": balance_of_table(model.targets_),
        # How many rows the targets demand of a group that it has not, at worst.
        "infeasible_by": float(np.abs(model.targets_.sum(axis=0) - group_sizes).max()),
        "worst_violation": float(model.worst_violation_),
    }


def unconstrained_labels(model, data):
    """Labels of the same anchors with all prices at zero: the ablation of the constraint."""
    rows, fitted = model._new_rows(data.X, data.groups)
    zero = np.zeros_like(fitted.multipliers)
    free = replace(
        fitted,
        multipliers=zero,
        prices=zero,
        allowed_cells=np.ones(zero.shape, dtype=bool),
        by_distance=False,
    )
    return free.labels(rows)
