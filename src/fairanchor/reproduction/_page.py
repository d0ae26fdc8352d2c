"""One self-contained HTML page with published and measured values side by side."""

import base64
import os
from collections import Counter
from importlib import resources

from fairanchor import __version__
from fairanchor.report._svg import policy_hash
from fairanchor.reproduction import _data
from fairanchor.reproduction._cells import QUICK
from fairanchor.reproduction._choose import RULES
from fairanchor.reproduction._methods import DENSE, METHODS
from fairanchor.reproduction._methods import TITLES as METHOD_TITLES
from fairanchor.reproduction._plan import REFINE_STEPS
from fairanchor.reproduction._records import METRICS, QUALITY
from fairanchor.reproduction._tables import (
    comparisons,
    promises,
    quality_rows,
    shown,
    side_by_side,
)

QUALITY_TABLES = {
    "2": (
        "alone and in the framework",
        "Five fair clustering methods by themselves on all rows, and inside the framework.",
    ),
    "3": (
        "how anchors are selected",
        "Random, DAS and FDAS; ours also has medoids of k-means, its default. The faithful block "
        "keeps the setting that the grid chose with labels, ours keeps its defaults.",
    ),
    "5": (
        "with and without the group-label constraint",
        "The same anchors and anchor labels; without the constraint all prices are zero and labels "
        "are the largest soft label.",
    ),
}
FIGURES = {
    "alpha": (
        "Sensitivity to alpha",
        "At the largest number of anchors of the grid. The dotted line is the Balance of the data, "
        "which no clustering exceeds.",
    ),
    "anchors": ("Sensitivity to the number of anchors", "At the alpha of the grid nearest to 1."),
    "convergence": (
        "Convergence",
        "SpFC on FDAS anchors. With the paper's targets, which do not sum to the groups' numbers "
        "of rows, the error of the soft mass cannot vanish; with feasible targets ADMM creeps "
        "towards it; Newton's method on the dual solves the same problem in a few sweeps.",
    ),
}


def render_page(request, settings, outcome, records, pictures):
    """The page as text.

    Parameters
    ----------
    request : Request
    settings : Settings
    outcome : Outcome
    records : list of dict
    pictures : dict from figure name to SVG bytes

    Returns
    -------
    html : str
    """
    css = (resources.files("fairanchor.reproduction") / "page.css").read_text("utf-8")
    context = {
        "version": __version__,
        "css": css,
        "style_source": policy_hash(css),
        "quick": settings.max_rows == QUICK["max_rows"],
        "settings": settings,
        "rules": RULES,
        "refine_steps": REFINE_STEPS,
        "shapes": list(outcome.shapes.values()),
        "titles": _data.TITLES,
        "published_rows": _data.PUBLISHED_ROWS,
        "methods": METHOD_TITLES,
        "metrics": METRICS,
        "quality": QUALITY,
        "shown": shown,
        "cores": os.cpu_count(),
        "promises": promises(records),
        "comparisons": comparisons(records),
        "quality_tables": _quality_tables(request, records),
        "times": time_lines(records),
        "figures": _pictures(pictures),
        "summaries": [r for r in records if r["block"] == "published" and _is_summary(r)],
        "warned": warning_lines(outcome.results),
    }
    context["sections"] = _sections(context)
    return _template().render(context)


def _template():
    import jinja2
    from markupsafe import Markup

    loader = jinja2.PackageLoader("fairanchor.reproduction", "")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined
    )
    # For the style sheet, which this package wrote itself.
    environment.filters["own_markup"] = Markup
    return environment.get_template("page.html")


def _quality_tables(request, records):
    return [
        {
            "id": table,
            "title": title,
            "text": text,
            "variants": table != "2",
            "parts": [
                {"dataset": name, "rows": quality_rows(records, table, name)}
                for name in request.datasets
            ],
        }
        for table, (title, text) in QUALITY_TABLES.items()
        if table in request.tables
    ]


def time_lines(records):
    """Rows of Table 4 as text: published, faithful and ours next to each other."""
    lines = []
    for row in side_by_side(records):
        if row["table"] != "4" or row["method"] == "any" or row["metric"] != "seconds":
            continue
        cells = row["cells"]
        line = {name: row[name] for name in ("dataset", "method", "where")}
        for block in ("published", "faithful", "ours"):
            record = cells.get(block) or cells.get(f"{block}, defaults")
            line[block] = shown(record)
        notes = [r["note"] for r in cells.values() if r["value"] is None and r["note"]]
        lines.append(line | {"note": "; ".join(notes)})
    datasets, methods = list(_data.TITLES), [DENSE, *METHODS]
    lines.sort(key=lambda x: (datasets.index(x["dataset"]), methods.index(x["method"]), x["where"]))
    return lines


def warning_lines(results):
    """Kinds of warnings, by block, the most frequent first."""
    counts, examples = Counter(), {}
    for cell, result in results.items():
        for text in result.get("warnings", []):
            key = (cell.block, cell.where, _kind(text))
            counts[key] += 1
            examples.setdefault(key, text)
    return [
        {"block": key[0], "where": key[1], "count": count, "example": examples[key]}
        for key, count in counts.most_common()
    ]


def _kind(text):
    """Warnings that differ in their numbers only are of one kind."""
    return "".join(character for character in text[:60] if not character.isdigit())


def _is_summary(record):
    return record["kind"] == "largest" or "any" in (record["method"], record["dataset"])


def _pictures(pictures):
    return [
        {
            "id": f"figure-{name}",
            "title": FIGURES[name][0],
            "text": FIGURES[name][1],
            "data": base64.b64encode(content).decode(),
        }
        for name, content in pictures.items()
    ]


def _sections(context):
    sections = [("reading", "How to read this"), ("data", "Data")]
    if context["promises"]:
        sections.append(("promises", "Promises"))
    if context["comparisons"]:
        sections.append(("comparison", "One by one"))
    sections += [(f"table{t['id']}", f"Table {t['id']}") for t in context["quality_tables"]]
    if context["times"]:
        sections.append(("table4", "Table 4"))
    sections += [(figure["id"], figure["title"]) for figure in context["figures"]]
    if context["summaries"]:
        sections.append(("summaries", "In summary only"))
    if context["warned"]:
        sections.append(("warnings", "Warnings"))
    return sections
