"""Results as one flat list of records: what ``--json`` prints and every table is made of.

A record has ``table, dataset, method, block, metric, value``; ``block`` is "published",
"faithful" or "ours". Further keys: ``where`` (alone, framework), ``selection`` (how
hyper-parameters were chosen), ``variant`` (the row of an ablation), ``status`` and ``note`` where
there is no value, and the setting itself.
"""

from dataclasses import replace

from fairanchor.reproduction._methods import DENSE, METHODS
from fairanchor.reproduction._plan import (
    BLOCKS,
    REFINE_STEPS,
    ablation_cells,
    chosen_cell,
    convergence_cells,
    defaults_cell,
    grid_cells,
    refined_defaults_cell,
    untimed_defaults_cell,
)
from fairanchor.reproduction._published import read_published

QUALITY = ("acc", "nmi", "balance", "mnce")
EXTRA = ("relative_balance", "cost", "clusters_found", "dataset_balance", "worst_violation")
METRICS = {
    "acc": "ACC",
    "nmi": "NMI",
    "balance": "Balance",
    "mnce": "MNCE",
    "relative_balance": "relative balance",
    "cost": "cost per row",
    "clusters_found": "clusters",
    "seconds": "seconds",
}
# Facts of the anchor graph that back what the documentation says about the paper.
EVIDENCE = ("target_balance", "balance", "mass_error", "infeasible_by", "n_iter", "converged")


def all_records(request, settings, outcome):
    """Published and measured numbers of all requested tables and figures.

    Parameters
    ----------
    request : Request
    settings : Settings
    outcome : Outcome

    Returns
    -------
    records : list of dict
    """
    records = published_records(request)
    makers = {"2": _table_2, "3": _table_3, "4": _table_4, "5": _table_5}
    for table in request.tables:
        for name in request.datasets:
            for method in METHODS:
                records += makers[table](outcome.shapes[name], method, settings, outcome.results)
    for name in request.datasets:
        if {"alpha", "anchors"} & set(request.figures):
            records += _grid_records(outcome.shapes[name], settings, outcome.results)
        if "convergence" in request.figures:
            records += _evidence_records(outcome.shapes[name], settings, outcome.results)
    return records


def published_records(request):
    """The known printed numbers of the requested tables and datasets."""
    return [
        {
            "table": number.table,
            "dataset": number.dataset,
            "method": number.method,
            "block": "published",
            "metric": number.metric,
            "value": number.value,
            "where": number.where,
            "variant": number.variant or None,
            "kind": number.kind,
            "note": number.source,
        }
        for number in read_published()
        if number.table in request.tables and number.dataset in (*request.datasets, "any")
    ]


def selections(shape, method, block, settings, results):
    """The cells of a block, by how their hyper-parameters were chosen."""
    cells = {"defaults": defaults_cell(shape.name, method, block)}
    for rule in ("grid_labels", "grid_label_free"):
        cell = chosen_cell(rule, shape, method, block, settings, results)
        if cell is not None:
            cells[rule] = cell
    if block == "ours":
        cells["defaults_refined"] = refined_defaults_cell(shape.name, method)
        if "grid_labels" in cells:
            refined = replace(cells["grid_labels"], refine=REFINE_STEPS)
            cells["grid_labels_refined"] = refined
    return {name: cell for name, cell in cells.items() if cell in results}


def _table_2(shape, method, settings, results):
    records = []
    for cell in _alone_cells(shape, method):
        if cell in results:
            records += _rows("2", shape, cell, results[cell], (*QUALITY, *EXTRA))
    for block in BLOCKS:
        for selection, cell in selections(shape, method, block, settings, results).items():
            keys = {"selection": selection}
            metrics = (*QUALITY, *EXTRA, "seconds")
            records += _rows("2", shape, cell, results[cell], metrics, **keys)
    return records


def _table_3(shape, method, settings, results):
    records = []
    for block in BLOCKS:
        cells = ablation_cells(shape, method, block, settings, results)
        selection = "grid_labels" if block == "faithful" else "defaults"
        for variant, cell in cells.items():
            if cell in results:
                keys = {"variant": variant, "selection": selection}
                records += _rows("3", shape, cell, results[cell], (*QUALITY, *EXTRA), **keys)
    return records


def _table_4(shape, method, settings, results):
    cells = [*_alone_cells(shape, method)]
    cells += [defaults_cell(shape.name, method, block) for block in BLOCKS]
    records = []
    for cell in cells:
        if cell in results:
            keys = {} if cell.where == "alone" else {"selection": "defaults"}
            records += _rows("4", shape, cell, results[cell], ("seconds",), **keys)
    return records


def _table_5(shape, method, settings, results):
    cells = [("defaults", untimed_defaults_cell(shape.name, method))]
    for block in BLOCKS:
        cell = chosen_cell("grid_labels", shape, method, block, settings, results)
        cells.append(("grid_labels", cell))
    records = []
    for selection, cell in cells:
        if cell not in results:
            continue
        result = results[cell]
        keys = {"variant": "with constraint", "selection": selection}
        records += _rows("5", shape, cell, result, (*QUALITY, *EXTRA), **keys)
        without = result | result.get("without_constraint", {}) | {"worst_violation": None}
        keys["variant"] = "without constraint"
        records += _rows("5", shape, cell, without, (*QUALITY, *EXTRA), **keys)
    return records


def _grid_records(shape, settings, results):
    records = []
    for block in BLOCKS:
        for method in METHODS:
            for cell in grid_cells(shape, method, block, settings):
                if cell in results:
                    records += _rows("grid", shape, cell, results[cell], (*QUALITY, *EXTRA))
    return records


def _evidence_records(shape, settings, results):
    records = []
    for cell in convergence_cells(shape, settings):
        if cell in results:
            keys = {
                "variant": f"{cell.solver or 'admm'}, {cell.fairness or 'paper'} targets",
                "per_group": cell.per_group,
            }
            records += _rows("evidence", shape, cell, results[cell], EVIDENCE, **keys)
    return records


def _alone_cells(shape, method):
    from fairanchor.reproduction._plan import timed_cells

    names = (method, DENSE) if method == "spfc" else (method,)
    return [cell for cell in timed_cells(shape) if cell.where == "alone" and cell.method in names]


def _rows(table, shape, cell, result, metrics, **keys):
    """One record per metric; without a value they say why."""
    common = {
        "where": cell.where,
        "rows": result.get("rows", shape.n_rows),
        "data": shape.origin,
        "status": result["status"],
        "note": result.get("message", ""),
        **keys,
    }
    for name in ("n_anchors", "alpha"):
        value = result.get(name, getattr(cell, name, None))
        if value is not None:
            common[name] = value
    if cell.refine:
        common["refine"] = cell.refine
    return [
        {
            "table": table,
            "dataset": cell.dataset,
            "method": cell.method,
            "block": cell.block,
            "metric": metric,
            "value": _value(result, metric),
            **common,
        }
        for metric in metrics
    ]


def _value(result, metric):
    """The number, or None for a run that did not come to an end."""
    return result.get(metric) if result["status"] == "done" else None
