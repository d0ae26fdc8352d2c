"""The page: panels, style sheet and policy put together."""

import platform
from importlib import metadata, resources

from fairanchor import __version__
from fairanchor.plotting._names import display_lines, display_name
from fairanchor.plotting._style import import_matplotlib
from fairanchor.report._fairness_panels import (
    asked_panel,
    balance_panel,
    composition_panel,
    price_panel,
)
from fairanchor.report._parts import Code, Panel, Table, count_text, score_text
from fairanchor.report._scene import Scene
from fairanchor.report._structure_panels import (
    anchors_panel,
    convergence_panel,
    map_panel,
    profiles_panel,
)
from fairanchor.report._summary import RunSummary
from fairanchor.report._svg import policy_hash
from fairanchor.report._verdict import judge, price_sentence
from fairanchor.tables._wording import counted

PANELS = {
    "The constraint": asked_panel,
    "Composition of the clusters": composition_panel,
    "Balance": balance_panel,
    "The price of fairness": price_panel,
    "Profiles of the clusters": profiles_panel,
    "The rows on a map": map_panel,
    "Convergence": convergence_panel,
    "The anchors": anchors_panel,
}
# Groups with fewer rows have a share that jumps with every row.
SMALL_GROUP = 20
# Tables with more columns say that they can be scrolled.
WIDE_TABLE = 8
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib", "jinja2")


def render(run: RunSummary) -> str:
    """The report of a run as one HTML text; the same run gives the same text."""
    environment = _environment()
    scene = Scene.of(run)
    results = {title: panel(scene) for title, panel in PANELS.items()}
    panels = [result for result in results.values() if isinstance(result, Panel)]
    css = _text("report.css")
    return environment.from_string(_text("report.html")).render(
        title=display_name(run.title),
        css=css,
        style_source=policy_hash(css),
        verdict=judge(run, scene.fairness),
        wide=WIDE_TABLE,
        price=price_sentence(run),
        converged=run.converged,
        left_out_rows=_left_out_sentence(run),
        warnings=[display_name(warning, 2000) for warning in run.warnings or []],
        tiles=_tiles(scene),
        panels=[*panels, _repeat_panel(run)],
        not_shown=[(t, reason) for t, reason in results.items() if isinstance(reason, str)],
        cautions=_cautions(run),
        version=__version__,
    )


def running_versions():
    """Versions of Python, of this library and of those it computes with."""
    versions = {"python": platform.python_version(), "fairanchor": __version__}
    for name in LIBRARIES:
        versions[name] = metadata.version(name)
    return versions


def import_libraries():
    """The package jinja2, or an error that says how to get it and matplotlib."""
    import_matplotlib()
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            'The report needs jinja2, which is not installed: pip install "fairanchor[report]" '
            "brings it."
        ) from error
    return jinja2


def _environment():
    jinja2 = import_libraries()
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    # For what this package wrote itself: pictures and the style sheet.
    environment.filters["own_markup"] = Markup
    return environment


def _text(name):
    return (resources.files("fairanchor.report") / "templates" / name).read_text("utf-8")


def _tiles(scene):
    run, fairness = scene.run, scene.fairness
    whose = "of all combinations; " if run.asked is not None and len(run.asked) > 1 else ""
    best = f"{whose}best possible {score_text(fairness.bound)}"
    tiles = [
        ("Balance", score_text(fairness.balance), best),
        ("Relative balance", score_text(fairness.relative_balance), f"{whose}1 is proportional"),
        ("MNCE", score_text(fairness.mnce), f"{whose}1 is as mixed as the population"),
    ]
    if run.asked is not None:
        missed = max(own.worst for own in run.asked)
        unit = "rows" if run.sample_weight is None else "weight"
        tiles.insert(0, ("Worst violation", f"{missed:,.2f}", f"{unit} outside the bounds"))
    if run.cost is not None and run.plain_cost:
        extra = run.cost / run.plain_cost - 1
        tiles.append(("Extra cost", f"{extra:+.1%}", "against plain k-means"))
    n_clusters = int((run.counts.sum(axis=1) > 0).sum())
    n_groups = int((run.counts.sum(axis=0) > 0).sum())
    note = f"{counted(n_clusters, 'cluster')}, {counted(n_groups, 'group')}"
    if run.n_rows_left_out:
        note += f"; {run.n_rows_left_out:,} more left out"
    tiles.append(("Rows", f"{run.n_rows_total:,}", note))
    return tiles


def _left_out_sentence(run):
    if not run.n_rows_left_out:
        return None
    total = run.n_rows_total + run.n_rows_left_out
    return (
        f"{run.n_rows_left_out:,} of {counted(total, 'row')}, those "
        f"{display_name(run.left_out_reason)}, were left out: they are in no cluster, and no "
        "figure of this report counts them."
    )


def _repeat_panel(run):
    tables = [
        _named_values("Parameters", "Parameter", run.parameters),
        _named_values("Versions", "Program", run.versions or running_versions()),
        _named_values("Seconds", "Step", {k: f"{v:.3g}" for k, v in run.timings.items()}),
    ]
    codes = [
        Code(caption, "\n".join(display_lines(text)))
        for caption, text in [("On the command line", run.command), ("In Python", run.code)]
        if text
    ]
    text = ["What is needed to repeat the run on the same rows."]
    if not run.parameters:
        text.append("The parameters are not known: the labels came without them.")
    if run.warnings is not None and not run.warnings:
        text.append("The run gave no warning.")
    tables = [table for table in tables if table.rows]
    return Panel("repeat", "How to repeat this run", text, [], tables, codes=codes)


def _named_values(caption, first, values):
    rows = [
        [display_name(name), "None" if value is None else display_name(value, 400)]
        for name, value in values.items()
    ]
    return Table(caption, [first, "Value"], rows)


def _cautions(run):
    cautions = [
        "Clusters that mirror the population are one notion of fairness. Whether it is the right "
        "one depends on what the clusters are used for.",
        "The figures describe the rows of this run. Rows that are assigned later are labelled one "
        "by one, so their composition should be measured again.",
    ]
    if run.uses_sensitive_for_prediction:
        cautions.insert(
            0,
            "Assigning new people uses their protected attribute: two people with the same "
            "features and different groups can get different clusters. The law may restrict this; "
            "ask before such labels are used for decisions.",
        )
    seeds = {run.parameters.get(name, 0) for name in ("random_state", "seed")}
    if None in seeds:
        cautions.append("No seed was given: a repeated run can give other clusters.")
    sizes = run.counts.sum(axis=0)
    small = int(((sizes > 0) & (sizes < SMALL_GROUP)).sum())
    if small and run.sample_weight is None:
        least = count_text(sizes[sizes > 0].min())
        cautions.append(
            f"{counted(small, 'group')} of fewer than {SMALL_GROUP} rows, the smallest of {least}: "
            "such shares change with every single row, and a cluster can hardly mirror them."
        )
    if not run.has_all_rows:
        cautions.append(
            f"Counts cover all {run.n_rows_total:,} rows; what is compared with plain k-means, "
            f"the maps and the profiles cover {len(run.labels):,} of them."
        )
    return cautions
