"""The findings as a Markdown page, every number of which comes from the records."""

from statistics import median

from fairanchor import __version__
from fairanchor.reproduction import _data
from fairanchor.reproduction._cells import QUICK
from fairanchor.reproduction._choose import RULES
from fairanchor.reproduction._methods import TITLES as METHOD_TITLES
from fairanchor.reproduction._plan import REFINE_STEPS
from fairanchor.reproduction._published import read_published
from fairanchor.reproduction._records import METRICS, QUALITY
from fairanchor.reproduction._tables import comparisons, promises, shown

NEWTON = "newton, anchors targets"
ADMM = "admm, anchors targets"
LITERAL = "admm, paper targets"


def render_findings(settings, outcome, records):
    """The page as text; sections whose runs were not requested are left out.

    Parameters
    ----------
    settings : Settings
    outcome : Outcome
    records : list of dict

    Returns
    -------
    markdown : str
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fairanchor.reproduction", ""),
        autoescape=jinja2.select_autoescape(),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    published = read_published()
    compared = comparisons(records)
    context = {
        "version": __version__,
        "quick": settings.max_rows == QUICK["max_rows"],
        "settings": settings,
        "shapes": list(outcome.shapes.values()),
        "titles": _data.TITLES,
        "published_rows": _data.PUBLISHED_ROWS,
        "methods": METHOD_TITLES,
        "metrics": METRICS,
        "rules": RULES,
        "refine_steps": REFINE_STEPS,
        "shown": shown,
        "n_cells": sum(number.is_cell for number in published),
        "n_summaries": sum(not number.is_cell for number in published),
        "promises": promises(records),
        "constants": constants(records, outcome.shapes),
        "comparisons": compared,
        "below": [discussion(line, records) for line in compared if not line["reached"]],
        "largest": largest_lines(records),
        "infeasible": infeasible_lines(records),
        "proposition": proposition_lines(records),
        "coincidences": coincidences(records),
        "limits": limit_lines(records),
    }
    return environment.get_template("findings.md").render(context)


def discussion(line, records):
    """What the neighbouring runs say about a cell that is below its printed value."""
    row, measured = line["row"], line["measured"]
    name = f"{_data.TITLES[row['dataset']]}, {METHOD_TITLES[row['method']]}, {row['where']}"
    own = (measured["block"], measured.get("selection"), None)
    fairness = [
        f"{METRICS[metric]} {_text(records, row, metric, *own)} against "
        f"{_text(records, row, metric, 'published', None, None)}"
        for metric in ("balance", "mnce")
    ]
    text = (
        f"**{name}, {METRICS[row['metric']]}**: {shown(measured)} against "
        f"{shown(line['published'])} published, with {' and '.join(fairness)}."
    )
    neighbours = {
        "faithful, chosen with labels": ("faithful", "grid_labels", None),
        "ours, the same anchors without the constraint": (
            "ours", "grid_labels", "without constraint",
        ),
        "ours, refined": ("ours", "grid_labels_refined", None),
    }  # fmt: skip
    values = {title: _find(records, row, row["metric"], *key) for title, key in neighbours.items()}
    found = [f"{title}: {value:.3f}" for title, value in values.items() if value is not None]
    return text + (f" The same measure, {'; '.join(found)}." if found else "")


def _text(records, row, metric, *key):
    value = _find(records, row, metric, *key)
    return "an unknown value" if value is None else f"{value:.3f}"


def _find(records, row, metric, block, selection, variant):
    """The value of Table 2, or of the ablation of the constraint if a variant is asked for."""
    table = "2" if variant is None else "5"
    for record in records:
        same = all(record[key] == row[key] for key in ("dataset", "method", "where"))
        found = [record.get(name) for name in ("table", "metric", "block", "selection", "variant")]
        if same and found == [table, metric, block, selection, variant]:
            return record["value"]
    return None


def constants(records, shapes):
    """What one setting for all tables and methods costs, against the label-free choice for each.

    Returns
    -------
    found : dict or None
        ``alphas``, and ``lines`` with the anchors per group and the median ratio of costs for
        each alpha; ``defaults``, the same for the library's defaults; ``n_grids``. None if no
        grid was run.
    """
    ours = [r for r in records if r["block"] == "ours" and r["where"] == "framework"]
    ratios, default_ratios, n_grids = {}, [], 0
    chosen = [r for r in ours if r["table"] == "2" and r.get("selection") == "grid_label_free"]
    for best in (r for r in chosen if r["metric"] == "cost" and r["status"] == "done"):
        key = (best["dataset"], best["method"])
        same = [r for r in ours if (r["dataset"], r["method"]) == key and r["status"] == "done"]
        points = [r for r in same if r["table"] == "grid" and r["metric"] == "cost"]
        n_grids += bool(points)
        for point in points:
            per_group = point["n_anchors"] // shapes[best["dataset"]].n_groups
            ratio = point["value"] / best["value"]
            ratios.setdefault((per_group, point["alpha"]), []).append(ratio)
        default_ratios += [
            r["value"] / best["value"]
            for r in same
            if (r["table"], r["metric"], r.get("selection")) == ("2", "cost", "defaults")
        ]
    if not ratios or not default_ratios:
        return None
    alphas = sorted({alpha for _, alpha in ratios})
    lines = [
        (per_group, [_median_text(ratios.get((per_group, alpha))) for alpha in alphas])
        for per_group in sorted({per_group for per_group, _ in ratios})
    ]
    return {
        "alphas": alphas,
        "lines": lines,
        "defaults": _median_text(default_ratios),
        "worst": f"{max(default_ratios):.3f}",
        "n_grids": n_grids,
    }


def _median_text(values):
    return "" if not values else f"{median(values):.3f}"


def largest_lines(records):
    """Largest printed values of a dataset beside the largest of our rows."""
    lines = []
    for record in records:
        if record["block"] != "published" or record.get("kind") != "largest":
            continue
        if record["table"] != "2" or record["dataset"] == "any":
            continue
        values = {
            selection: _largest(records, record, selection)
            for selection in ("grid_labels", "grid_labels_refined")
        }
        if values["grid_labels"] is not None:
            shown_values = {
                key: "" if value is None else f"{value:.3f}" for key, value in values.items()
            }
            lines.append(
                {
                    "dataset": record["dataset"],
                    "metric": record["metric"],
                    "published": record["value"],
                    "ours": shown_values["grid_labels"],
                    "refined": shown_values["grid_labels_refined"],
                }
            )
    return lines


def _largest(records, published, selection):
    values = [
        record["value"]
        for record in records
        if record["table"] == "2"
        and record["block"] == "ours"
        and record.get("selection") == selection
        and record["dataset"] == published["dataset"]
        and record["metric"] == published["metric"]
        and record["value"] is not None
    ]
    return max(values, default=None)


def infeasible_lines(records):
    """For every dataset, what the paper's targets demand and how near the solvers come."""
    lines = []
    for dataset, facts in _evidence(records).items():
        literal = next((f for (variant, _), f in facts.items() if variant == LITERAL), None)
        if literal is None or literal["mass_error"] is None:
            continue
        alpha = next(alpha for (variant, alpha) in facts if variant == LITERAL)
        feasible, newton = facts.get((ADMM, alpha)), facts.get((NEWTON, alpha))
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
    lines = []
    for dataset, facts in _evidence(records).items():
        for (variant, alpha), values in sorted(facts.items()):
            if variant == NEWTON and values["target_balance"] is not None:
                lines.append(
                    {
                        "dataset": dataset,
                        "alpha": alpha,
                        "target": values["target_balance"],
                        "labels": values["balance"],
                    }
                )
    return lines


def _evidence(records):
    """Evidence records by dataset, then by (variant, alpha), as dicts of metrics."""
    facts = {}
    for record in records:
        if record["table"] == "evidence":
            key = (record["variant"], record["alpha"])
            values = facts.setdefault(record["dataset"], {}).setdefault(key, {})
            values[record["metric"]] = record["value"]
            values["rows"] = record["rows"]
    return facts


def limit_lines(records):
    """Timed runs that were stopped, refused or left out."""
    return [
        record
        for record in records
        if record["table"] == "4" and record["block"] != "published" and record["value"] is None
    ]


def coincidences(records):
    """Printed rows that agree with a measured row in all four measures, up to the last digit.

    Returns
    -------
    lines : list of dict
        ``published`` and ``measured``, a record of each row, and ``values`` as printed.
    """
    rows = {}
    for record in records:
        if record["table"] == "2" and record["metric"] in QUALITY and record["value"] is not None:
            key = tuple(record.get(name) for name in _ROW)
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


_ROW = ("dataset", "method", "where", "block", "selection")
LAST_DIGIT = 0.001 + 1e-9
