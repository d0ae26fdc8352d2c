"""What a run writes: one CSV file per table, the figures, findings.md and index.html."""

import csv
import io
import json
from pathlib import Path
from statistics import median

import jinja2
import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import data
from cells import (
    BLOCKS,
    METHOD_TITLES,
    METHODS,
    QUICK,
    RULES,
    convergence_cells,
    grid_cells,
    on_line,
)
from fairanchor import __version__
from records import (
    METRICS,
    QUALITY,
    all_records,
    read_published,
    select,
    shown,
    side_by_side,
    table_rows,
)

PROMISED_MNCE = 0.999
# Printed numbers have three digits.
LAST_DIGIT = 0.001 + 1e-9
# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLORS = dict(zip(METHODS, ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"), strict=True))
LINES = {"ours": "-", "faithful": "--"}
COURSES = (
    ("ADMM, the paper's targets", "#D55E00"),
    ("ADMM, feasible targets", "#E69F00"),
    ("Newton, feasible targets", "#0072B2"),
)


def write_report(folder, request, settings, outcome):
    """Write all files of a run, and return the records."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    records = all_records(request, settings, outcome)
    names = [name for name in (*request.tables, "grid", "evidence") if select(records, table=name)]
    tables = {name: table_rows(records, name) for name in names}
    for name, (titles, rows) in tables.items():
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([titles, *rows])
        file_name = f"table{name}.csv" if name in request.tables else f"{name}.csv"
        (folder / file_name).write_text(out.getvalue(), encoding="utf-8")
    for name in request.figures:
        draw(folder / f"figure_{name}.svg", name, request, settings, outcome)
    (folder / "results.json").write_text(json.dumps(records, indent=1) + "\n")
    printed = {name: tables[name] for name in request.tables if name in tables}
    for name, context in (
        ("findings.md", findings(settings, outcome, records)),
        ("index.html", {"tables": printed, "figures": request.figures}),
    ):
        text = render(name, settings, context)
        (folder / name).write_text(text, encoding="utf-8")
    return records


def render(name, settings, context):
    """The template of that name, filled in."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=jinja2.select_autoescape(),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    common = {
        "version": __version__,
        "quick": settings.max_rows == QUICK["max_rows"],
        "settings": settings,
        "rules": RULES,
    }
    return environment.get_template(name).render(common | context)


# Findings.


def findings(settings, outcome, records):
    """Everything that ``findings.md`` shows; sections without results are left out."""
    return {
        "shapes": list(outcome.shapes.values()),
        "titles": data.TITLES,
        "published_rows": data.PUBLISHED_ROWS,
        "methods": METHOD_TITLES,
        "metrics": METRICS,
        "shown": shown,
        "n_printed": sum(record["kind"] == "value" for record in read_published()),
        "promises": promises(records),
        "constants": constants(records, outcome.shapes),
        "comparisons": comparisons(records),
        "infeasible": infeasible_lines(records),
        "proposition": proposition_lines(records),
        "coincidences": coincidences(records),
        "limits": [
            r for r in select(records, table="4", value=None) if r["block"] != "published"
        ],
    }  # fmt: skip


def comparisons(records):
    """Every printed number of Table 2 beside the measured ones, those that were missed first.

    Measured at hyper-parameters chosen with labels, as the paper presumably did.
    """
    lines = []
    for row, cells in side_by_side(select(records, table="2")):
        published = cells.get("published")
        own = cells.get("ours" if row["where"] == "alone" else "ours, grid_labels")
        if published is None or published["kind"] != "value" or own is None:
            continue
        if own["value"] is not None:
            # A printed number stands for all that round to it.
            reached = own["value"] >= published["value"] - 0.0005
            faithful = cells.get("faithful, grid_labels")
            lines.append(
                {"row": row, "published": published, "faithful": faithful, "ours": own,
                 "reached": reached}
            )  # fmt: skip
    return sorted(lines, key=lambda line: line["reached"])


def promises(records):
    """For every dataset, the worst Balance and MNCE of our framework rows in Table 2.

    A promise is kept if counts are within one sample of proportional and MNCE is at least 0.999.
    """
    ours = select(records, table="2", block="ours", where="framework", status="done")
    lines = []
    for dataset in dict.fromkeys(record["dataset"] for record in ours):
        values = {
            metric: [r["value"] for r in select(ours, dataset=dataset, metric=metric)]
            for metric in ("dataset_balance", "balance", "mnce", "worst_violation")
        }
        mnce, violation = min(values["mnce"]), max(values["worst_violation"])
        lines.append(
            {
                "dataset": dataset,
                "dataset_balance": values["dataset_balance"][0],
                "balance": min(values["balance"]),
                "mnce": mnce,
                "violation": violation,
                "cells": len(values["balance"]),
                "kept": violation < 1 and mnce >= PROMISED_MNCE,
            }
        )
    return lines


def constants(records, shapes):
    """What one number of anchors for all tables and methods costs, against the best for each.

    The median ratio of the k-means cost to that of the label-free choice, for each number of
    anchors per group and for the library's defaults. None if no grid was run.
    """
    ours = select(records, block="ours", where="framework", metric="cost", status="done")
    ratios, defaults, n_grids = {}, [], 0
    for best in select(ours, table="2", selection="grid_label_free"):
        own = select(ours, dataset=best["dataset"], method=best["method"])
        points = select(own, table="grid")
        n_grids += bool(points)
        for point in points:
            per_group = point["n_anchors"] // shapes[best["dataset"]].n_groups
            ratios.setdefault(per_group, []).append(point["value"] / best["value"])
        chosen = select(own, table="2", selection="defaults")
        defaults += [record["value"] / best["value"] for record in chosen]
    if not ratios or not defaults:
        return None
    return {
        "lines": [(per_group, f"{median(ratios[per_group]):.3f}") for per_group in sorted(ratios)],
        "defaults": f"{median(defaults):.3f}",
        "worst": f"{max(defaults):.3f}",
        "n_grids": n_grids,
    }


def coincidences(records):
    """Printed rows that agree with a measured row in all four measures, up to the last digit."""
    rows = {}
    for record in select(records, table="2"):
        if record["metric"] in QUALITY and record["value"] is not None:
            names = ("dataset", "method", "where", "block", "selection")
            key = tuple(record.get(name) for name in names)
            rows.setdefault(key, {})[record["metric"]] = record
    complete = [row for row in rows.values() if len(row) == len(QUALITY)]
    printed = [row for row in complete if row["acc"]["block"] == "published"]
    measured = [row for row in complete if row["acc"]["block"] != "published"]
    return [
        {
            "published": one["acc"],
            "measured": other["acc"],
            "values": " / ".join(f"{one[metric]['value']:.3f}" for metric in QUALITY),
        }
        for one in printed
        for other in measured
        if one["acc"]["dataset"] == other["acc"]["dataset"]
        and all(abs(one[m]["value"] - other[m]["value"]) < LAST_DIGIT for m in QUALITY)
    ]


def evidence(records):
    """The facts of the anchor graphs: dataset, variant, alpha, and a dict of metrics."""
    facts = {}
    for record in select(records, table="evidence", status="done"):
        key = (record["dataset"], record["variant"], record["alpha"])
        facts.setdefault(key, {"rows": record["rows"]})[record["metric"]] = record["value"]
    return facts


def infeasible_lines(records):
    """For every dataset, what the paper's targets demand and how near the solvers come."""
    facts, lines = evidence(records), []
    for (dataset, variant, alpha), literal in facts.items():
        if variant == "admm, paper targets":
            feasible = facts.get((dataset, "admm, anchors targets", alpha))
            newton = facts.get((dataset, "newton, anchors targets", alpha))
            lines.append(
                {
                    "dataset": dataset,
                    "rows": literal["rows"],
                    "missing": f"{literal['infeasible_by']:,.1f}",
                    "admm": f"{literal['mass_error']:,.1f}",
                    "feasible": "" if feasible is None else f"{feasible['mass_error']:,.1f}",
                    "newton": "" if newton is None else f"{newton['mass_error']:,.3g}",
                    "sweeps": "" if newton is None else newton["n_iter"],
                }
            )
    return lines


def proposition_lines(records):
    """Balance of soft mass and of argmax labels, for every dataset and alpha."""
    order = list(data.TITLES)
    found = sorted(evidence(records).items(), key=lambda x: (order.index(x[0][0]), x[0][1:]))
    return [
        {
            "dataset": dataset,
            "alpha": alpha,
            "target": facts["target_balance"],
            "labels": facts["balance"],
        }
        for (dataset, variant, alpha), facts in found
        if variant == "newton, anchors targets"
    ]


# Figures.


def draw(path, name, request, settings, outcome):
    """Draw a figure of the paper, with two panels for every dataset."""
    n_rows = len(request.datasets)
    with matplotlib.rc_context({"svg.hashsalt": "fairanchor", "font.size": 9}):
        figure = Figure(figsize=(8.5, 2.4 * n_rows + 0.6), layout="constrained")
        for axes, dataset in zip(
            figure.subplots(n_rows, 2, squeeze=False), request.datasets, strict=True
        ):
            shape = outcome.shapes[dataset]
            if name == "convergence":
                draw_convergence(axes, shape, settings, outcome.results)
            else:
                draw_sensitivity(axes, name, shape, settings, outcome.results)
        gray = [("--", "primal residual"), (":", "dual residual")]
        if name != "convergence":
            gray = [(line, block) for block, line in LINES.items()]
        colors = [(METHODS[method], color) for method, color in COLORS.items()]
        if name == "convergence":
            colors = COURSES
        handles = [Line2D([], [], color=color, label=label) for label, color in colors]
        handles += [Line2D([], [], color="gray", linestyle=x, label=label) for x, label in gray]
        if name != "convergence":
            bound = Line2D([], [], color="black", linestyle=":", label="Balance of the dataset")
            handles.append(bound)
        figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=8)
        figure.savefig(path, format="svg", metadata={"Date": None})


def draw_sensitivity(axes, name, shape, settings, results):
    varied = "alpha" if name == "alpha" else "per_group"
    for axis, metric in zip(axes, ("nmi", "balance"), strict=True):
        for block in BLOCKS:
            for method in METHODS:
                points = [
                    (getattr(cell, varied), results[cell][metric])
                    for cell in grid_cells(shape, method, block, settings)
                    if on_line(cell, name, settings)
                    and results.get(cell, {}).get("status") == "done"
                ]
                if points:
                    axis.plot(
                        *zip(*points, strict=True), LINES[block],
                        color=COLORS[method], marker="o", markersize=3, linewidth=1.2,
                    )  # fmt: skip
        axis.set_title(f"{data.TITLES[shape.name]}: {METRICS[metric]}", fontsize=9)
        axis.set_xlabel("alpha" if name == "alpha" else "anchors per group")
        if name == "alpha":
            axis.set_xscale("log")
        axis.grid(alpha=0.3)
    axes[1].axhline(shape.balance, color="black", linewidth=0.8, linestyle=":")
    axes[1].set_ylim(bottom=0)


def draw_convergence(axes, shape, settings, results):
    cells = convergence_cells(shape, settings)[: len(COURSES)]
    for cell, (_, color) in zip(cells, COURSES, strict=True):
        history = results.get(cell, {}).get("history", [])
        if not history:
            continue
        sweeps = range(1, len(history) + 1)
        # Few sweeps would be invisible without their points.
        marker = "o" if len(history) < 20 else None
        style = {"color": color, "linewidth": 1.2, "marker": marker, "markersize": 3}
        axes[0].plot(sweeps, [x["objective"] / results[cell]["rows"] for x in history], **style)
        axes[1].plot(sweeps, [max(x["mass_error"], 1e-9) for x in history], **style)
        for name, line in (("r", "--"), ("s", ":")):
            if name in history[0]:
                residuals = [max(x[name], 1e-9) for x in history]
                axes[1].plot(sweeps, residuals, line, color=color, linewidth=1.0)
    title = data.TITLES[shape.name]
    axes[0].set_title(f"{title}: objective per row", fontsize=9)
    axes[1].set_title(f"{title}: error of soft mass (samples), residuals", fontsize=9)
    axes[1].set_yscale("log")
    for axis in axes:
        axis.set_xlabel("sweep over the rows")
        axis.set_xscale("log")
        axis.grid(alpha=0.3)
