"""Published and measured numbers as one flat list of records, and tables made of them.

A record has ``table, dataset, method, block, metric, value``; ``block`` is "published",
"faithful" or "ours". Further keys: ``where`` (alone, framework), ``selection`` (how
hyper-parameters were chosen), ``variant`` (the row of an ablation), ``status`` and ``note`` where
there is no value, and the setting itself.
"""

import csv
from pathlib import Path

from cells import (
    BLOCKS,
    METHODS,
    ablation_cells,
    alone_cells,
    chosen_cell,
    convergence_cells,
    defaults_cell,
    grid_cells,
    selections,
    untimed_cell,
)

PUBLISHED = Path(__file__).with_name("published.csv")
# "value": a printed number; "limit": a run that did not end within the paper's 30 minutes;
# "not supported": a method for two groups on a table with three.
KINDS = ("value", "limit", "not supported")
QUALITY = ("acc", "nmi", "balance", "mnce")
ALL_SCORES = (*QUALITY, "relative_balance", "cost", "clusters_found", "dataset_balance",
              "worst_violation")  # fmt: skip
METRICS = {"acc": "ACC", "nmi": "NMI", "balance": "Balance", "mnce": "MNCE"}
# Facts of the anchor graph that back what the documentation says about the paper.
EVIDENCE = ("target_balance", "balance", "mass_error", "infeasible_by", "n_iter", "converged")
KEYS = ("table", "dataset", "method", "where", "variant", "metric")
# Columns of a table, in reading order; those without any number are left out.
COLUMNS = (
    "published",
    "faithful",
    "ours",
    "faithful, grid_labels",
    "faithful, grid_label_free",
    "faithful, defaults",
    "ours, grid_labels",
    "ours, grid_label_free",
    "ours, defaults",
)


def read_published():
    """All cells of the paper's tables; ``value`` is None where the paper has no number."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    return [
        {
            "table": line["table"],
            "dataset": line["dataset"],
            "method": line["method"],
            "block": "published",
            "metric": line["metric"],
            "value": float(line["value"]) if line["value"] else None,
            "where": line["where"],
            "variant": line["variant"] or None,
            "kind": line["kind"],
            "note": "",
        }
        for line in lines
    ]


def all_records(request, settings, outcome):
    """Published and measured numbers of all requested tables and figures."""
    records = [
        record
        for record in read_published()
        if record["table"] in request.tables and record["dataset"] in request.datasets
    ]
    makers = {"2": _table_2, "3": _table_3, "4": _table_4, "5": _table_5}
    parts = [(table, makers[table]) for table in request.tables]
    if {"alpha", "anchors"} & set(request.figures):
        parts.append(("grid", _grid))
    if "convergence" in request.figures:
        parts.append(("evidence", _evidence))
    for table, make in parts:
        for name in request.datasets:
            shape = outcome.shapes[name]
            for method in METHODS:
                for cell, metrics, keys in make(shape, method, settings, outcome.results):
                    if cell in outcome.results:
                        result = outcome.results[cell]
                        records += _rows(table, shape, cell, result, metrics, keys)
    return records


# The rows of a table: a cell, its metrics, and further keys.


def _table_2(shape, method, settings, results):
    for cell in alone_cells(shape.name, method):
        yield cell, ALL_SCORES, {}
    for block in BLOCKS:
        for selection, cell in selections(shape, method, block, settings, results).items():
            yield cell, (*ALL_SCORES, "seconds"), {"selection": selection}


def _table_3(shape, method, settings, results):
    for block in BLOCKS:
        selection = "grid_labels" if block == "faithful" else "defaults"
        for variant, cell in ablation_cells(shape, method, block, settings, results).items():
            yield cell, ALL_SCORES, {"variant": variant, "selection": selection}


def _table_4(shape, method, settings, results):
    for cell in alone_cells(shape.name, method):
        yield cell, ("seconds",), {}
    for block in BLOCKS:
        cell = defaults_cell(shape.name, method, block)
        yield cell, ("seconds",), {"selection": "defaults"}


def _table_5(shape, method, settings, results):
    cells = [("defaults", untimed_cell(shape.name, method))]
    for block in BLOCKS:
        cell = chosen_cell("grid_labels", shape, method, block, settings, results)
        cells.append(("grid_labels", cell))
    for selection, cell in cells:
        for variant in ("with constraint", "without constraint"):
            yield cell, ALL_SCORES, {"variant": variant, "selection": selection}


def _grid(shape, method, settings, results):
    for block in BLOCKS:
        for cell in grid_cells(shape, method, block, settings):
            yield cell, ALL_SCORES, {}


def _evidence(shape, method, settings, results):
    for cell in convergence_cells(shape, settings):
        if cell.method == method:
            variant = f"{cell.solver or 'admm'}, {cell.fairness or 'paper'} targets"
            yield cell, EVIDENCE, {"variant": variant, "per_group": cell.per_group}


def _rows(table, shape, cell, result, metrics, keys):
    """One record per metric; a fit that came to no end has no values, but a note."""
    if keys.get("variant") == "without constraint":
        result = result | result.get("without_constraint", {}) | {"worst_violation": None}
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
    return [
        {
            "table": table,
            "dataset": cell.dataset,
            "method": cell.method,
            "block": cell.block,
            "metric": metric,
            "value": result.get(metric) if result["status"] == "done" else None,
            **common,
        }
        for metric in metrics
    ]


# Tables.


def select(records, **wanted):
    """The records that have these values."""
    return [r for r in records if all(r.get(name) == value for name, value in wanted.items())]


def side_by_side(records):
    """Rows with published and measured values: their keys and a dict from column to record."""
    rows = {}
    for record in records:
        key = tuple(record.get(name) or "" for name in KEYS)
        column = record["block"]
        if record.get("selection") is not None:
            column += f", {record['selection']}"
        rows.setdefault(key, {})[column] = record
    return [(dict(zip(KEYS, key, strict=True)), cells) for key, cells in rows.items()]


def table_rows(records, table):
    """The titles and the rows of a table, with one column per block and selection.

    Fits that have no number say why in the column ``note``. The tables "grid" and "evidence" have
    no printed counterpart, and one row per record.
    """
    own = select(records, table=table)
    if table in ("grid", "evidence"):
        titles = list(dict.fromkeys(key for record in own for key in record))
        return titles, [[record.get(title, "") for title in titles] for record in own]
    rows = side_by_side(own)
    used = [name for name in COLUMNS if any(name in cells for _, cells in rows)]
    lines = []
    for keys, cells in rows:
        fitted = sorted({record["rows"] for record in cells.values() if "rows" in record})
        notes = [
            f"{name}: {record['note']}"
            for name, record in cells.items()
            if record["note"] and record["value"] is None
        ]
        values = [shown(cells.get(name), "{:.6g}") for name in used]
        sizes = " / ".join(map(str, fitted))
        lines.append([*list(keys.values())[1:], *values, sizes, "; ".join(notes)])
    return [*KEYS[1:], *used, "rows", "note"], lines


def shown(record, form="{:.3f}"):
    """A record's value as text, or why it has none."""
    if record is None:
        return ""
    value = record["value"]
    if record.get("kind") == "limit":
        return "over 30 minutes"
    if record.get("kind") == "not supported":
        return "–"
    if value is not None:
        return form.format(value) if isinstance(value, float) else str(value)
    # A fit that is done has no value of a measure that does not apply.
    texts = {"time limit": "over the time limit", "done": ""}
    return texts.get(record["status"], record["status"])
