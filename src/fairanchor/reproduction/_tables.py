"""Records side by side: one CSV file per table, and the comparisons that a reader looks for."""

import csv
import io

from fairanchor.reproduction._methods import DENSE, METHODS
from fairanchor.reproduction._records import QUALITY

KEYS = ("table", "dataset", "method", "where", "variant", "metric")
# Columns of the CSV files, in reading order; those without any number are left out.
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
    "ours, grid_labels_refined",
    "ours, defaults_refined",
)
PROMISED_MNCE = 0.999


def column_of(record):
    """The column of a record: its block, and how its hyper-parameters were chosen."""
    if record["block"] == "published" or record.get("selection") is None:
        return record["block"]
    return f"{record['block']}, {record['selection']}"


def side_by_side(records):
    """Rows that have published and measured values next to each other.

    Parameters
    ----------
    records : list of dict

    Returns
    -------
    rows : list of dict
        The keys of a row and ``cells``, a dict from column to record.
    """
    rows = {}
    for record in records:
        key = tuple(record.get(name) or "" for name in KEYS)
        row = rows.setdefault(key, dict(zip(KEYS, key, strict=True)) | {"cells": {}})
        row["cells"][column_of(record)] = record
    return list(rows.values())


def shown(record, digits=3):
    """A record's value as text, or why it has none."""
    if record is None:
        return ""
    value, metric = record["value"], record["metric"]
    if record.get("kind") == "limit":
        return f"> {value:g}"
    if value is None:
        return _reason(record)
    if metric in ("clusters_found", "n_iter") or isinstance(value, bool):
        return str(value)
    if metric == "seconds":
        return f"{value:.3g}"
    return f"{value:.{digits}f}"


def _reason(record):
    if record.get("kind") == "not reported":
        return "–"
    if record["status"] == "time limit":
        return "over the time limit"
    if record["status"] == "done":  # measured, but not this metric
        return ""
    return record["status"]


def table_csv(records, table):
    """One table as CSV text: full precision, one column per block and selection.

    Runs that have no number say why in the column ``note``.
    """
    rows = [row for row in side_by_side(records) if row["table"] == table]
    used = [name for name in COLUMNS if any(name in row["cells"] for row in rows)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*KEYS[1:], *used, "rows", "note"])
    for row in rows:
        cells = row["cells"]
        values = [_plain(cells.get(name)) for name in used]
        fitted = sorted({record["rows"] for record in cells.values() if "rows" in record})
        notes = [
            f"{name}: {record['note']}"
            for name, record in cells.items()
            if record["note"] and (record["value"] is None or name == "published")
        ]
        keys = [row[name] for name in KEYS[1:]]
        writer.writerow([*keys, *values, " / ".join(map(str, fitted)), "; ".join(notes)])
    return out.getvalue()


def _plain(record):
    if record is None:
        return ""
    if record.get("kind") == "limit":
        return f"> {record['value']:g}"
    value = record["value"]
    if value is None:
        return _reason(record)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def comparisons(records):
    """Every printed ACC and NMI beside the measured one at hyper-parameters chosen with labels.

    Returns
    -------
    lines : list of dict
        ``row`` (as in `side_by_side`), ``published``, ``measured``, and ``reached``.
    """
    lines = []
    for row in side_by_side(records):
        published = row["cells"].get("published")
        wanted = row["table"] == "2" and row["metric"] in ("acc", "nmi")
        if not wanted or published is None or published["kind"] != "value":
            continue
        name = "ours" if row["where"] == "alone" else "ours, grid_labels"
        measured = row["cells"].get(name)
        if measured is None or measured["value"] is None:
            continue
        # A printed number stands for all that round to it.
        reached = measured["value"] >= published["value"] - 0.0005
        lines.append({"row": row, "published": published, "measured": measured, "reached": reached})
    return lines


def promises(records):
    """For every dataset, the worst Balance and MNCE of our framework rows in Table 2.

    Returns
    -------
    lines : list of dict
        ``dataset``, ``dataset_balance``, ``balance``, ``mnce``, ``violation`` (samples),
        ``cells`` and ``kept``: counts within one sample of proportional, MNCE at least 0.999.
    """
    ours = [
        record
        for record in records
        if record["table"] == "2"
        and record["block"] == "ours"
        and record["where"] == "framework"
        and record["value"] is not None
    ]
    lines = []
    for dataset in dict.fromkeys(record["dataset"] for record in ours):
        own = [record for record in ours if record["dataset"] == dataset]
        values = {m: [r["value"] for r in own if r["metric"] == m] for m in _PROMISE_METRICS}
        line = {
            "dataset": dataset,
            "dataset_balance": values["dataset_balance"][0],
            "balance": min(values["balance"]),
            "mnce": min(values["mnce"]),
            "violation": max(values["worst_violation"]),
            "cells": len(values["balance"]),
        }
        kept = line["violation"] < 1 and line["mnce"] >= PROMISED_MNCE
        lines.append(line | {"kept": kept})
    return lines


_PROMISE_METRICS = ("dataset_balance", "balance", "mnce", "worst_violation")


def quality_rows(records, table, dataset):
    """Rows of a quality table for people: one per method, place, variant and column.

    Returns
    -------
    rows : list of dict
        ``method, where, variant, column``, ``values`` (a dict from metric to record) and the
        ``setting`` as text.
    """
    rows = {}
    for record in records:
        if record["table"] != table or record["dataset"] != dataset:
            continue
        if record["method"] == "any" or record["metric"] not in (*QUALITY, "cost", "seconds"):
            continue
        variant = record.get("variant") or ""
        key = (record["method"], record["where"], variant, column_of(record))
        row = rows.setdefault(key, dict(zip(_ROW_KEYS, key, strict=True)) | {"values": {}})
        row["values"][record["metric"]] = record
        row["setting"] = _setting(record)
    order = {name: position for position, name in enumerate(COLUMNS)}
    methods = {name: position for position, name in enumerate((DENSE, *METHODS))}
    return sorted(
        rows.values(),
        key=lambda row: (
            methods[row["method"]], row["where"], row["variant"], order[row["column"]],
        ),
    )  # fmt: skip


_ROW_KEYS = ("method", "where", "variant", "column")


def _setting(record):
    parts = []
    if "n_anchors" in record:
        parts.append(f"m = {record['n_anchors']}")
    if "alpha" in record:
        parts.append(f"α = {record['alpha']:g}")
    if record.get("refine"):
        parts.append("refined")
    if "rows" in record and record["where"] == "framework":
        parts.append(f"{record['rows']:,} rows")
    if record["value"] is None and record.get("note"):
        parts.append(record["note"])
    return ", ".join(parts)
