"""The page: figures and tables of each panel, put into the template.

The sentences are in ``templates/report.html``.
"""

from __future__ import annotations

import base64
import hashlib
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata, resources
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from fairanchor import __version__
from fairanchor._utils._sampling import spread_sample
from fairanchor.groups._groups import count_cells
from fairanchor.plotting import (
    plot_anchors,
    plot_balance,
    plot_comparison,
    plot_composition,
    plot_convergence,
    plot_embedding,
    principal_plane,
)
from fairanchor.plotting._composition import MAX_CLUSTERS, MAX_GROUPS, Composition, count_text
from fairanchor.plotting._names import display_lines, display_name, quoted_name
from fairanchor.plotting._rows import MAX_FEATURES, MAX_POINTS, cluster_profiles, draw_profiles
from fairanchor.plotting._style import import_matplotlib
from fairanchor.report._collect import RunSummary
from fairanchor.report._constraints import ConstraintCheck
from fairanchor.report._figures import Figure, draw
from fairanchor.report._stability import stability_rows
from fairanchor.report._verdict import (
    judge,
    price_sentence,
    score_text,
    share_of_best,
)
from fairanchor.tables._wording import counted

# Groups with fewer rows have a share that changes with every row.
SMALL_GROUP = 20
# More columns of the figure of profiles are too small in half the page's width.
WIDEST_BESIDE = 7
# Smaller differences from the average are not mentioned.
LEAST_DEVIATION = 0.2
# Of a longer history the first and last records are shown.
MAX_RECORDS = 12
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib", "jinja2")


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column names the row."""

    caption: str
    header: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Panel:
    """Figures and tables of a section; the tables are beside the figures if both are narrow."""

    title: str
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    beside: bool = False


def render_report(run: RunSummary) -> str:
    """Render the report of a run as the text of one HTML file.

    The file is complete: figures are embedded, a policy forbids it to load or run anything, and
    it has a light, a dark and a printed form. The same run gives the same text.

    Parameters
    ----------
    run : RunSummary
        Facts about the clustering. Panels whose facts are missing are left out.

    Returns
    -------
    html : str
        The report.

    Examples
    --------
    >>> from fairanchor.report import render_report, summarise_labels
    >>> run = summarise_labels([0, 0, 1, 1], sensitive_features=["a", "b", "a", "b"])
    >>> html = render_report(run)
    >>> "<strong>Yes.</strong> The least balanced cluster has a balance of 1.0000" in html
    True
    """
    jinja2 = import_libraries()
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fairanchor.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "name": display_name,
        "lines": lambda text: "\n".join(display_lines(text)),
        "score": score_text,
        "count": count_text,
    }
    css = (resources.files("fairanchor.report") / "templates" / "report.css").read_text("utf-8")
    page = Page(run)
    panels = {key: panel(page) for key, panel in PANELS.items()}
    return environment.get_template("report.html").render(
        page=page,
        run=run,
        composition=page.composition,
        verdict=judge(run),
        price=price_sentence(run),
        panels={key: panel for key, panel in panels.items() if panel is not None},
        css=css,
        css_hash=base64.b64encode(hashlib.sha256(css.encode("utf-8")).digest()).decode("ascii"),
        counted=counted,
        share_of_best=share_of_best,
        version=__version__,
    )


def import_libraries() -> Any:
    """The package jinja2; an error explains how to install it and matplotlib."""
    import_matplotlib()
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            'The report needs jinja2, which is not installed: pip install "fairanchor[report]".'
        ) from error
    return jinja2


class Page:
    """A run with everything that several panels, or the template, need of it."""

    max_clusters, max_groups, max_features = MAX_CLUSTERS, MAX_GROUPS, MAX_FEATURES
    small_group = SMALL_GROUP

    def __init__(self, run: RunSummary) -> None:
        self.run = run
        self.composition = run.composition
        self.group_sizes = run.counts.sum(axis=0)[run.counts.sum(axis=0) > 0]
        self.n_clusters = int(np.count_nonzero(run.counts.sum(axis=1)))
        self.plain_labels, self.moved, self.plain_names = _matched(run)
        self.plain = None
        if self.plain_labels is not None:
            shape = len(self.plain_names), len(run.group_names)
            table = count_cells(self.plain_labels, run.group_codes, *shape, run.sample_weight)
            self.plain = Composition(table.astype(float), self.plain_names, run.group_names)
        self.drawn_rows = np.zeros(0, dtype=np.int64)
        self.drawn = None
        if run.features is not None:
            self.drawn_rows = spread_sample(len(run.features), MAX_POINTS)
            self.drawn = run.features[self.drawn_rows]

    @cached_property
    def plane(self) -> Any:
        return None if self.run.features is None else principal_plane(self.run.features)

    @property
    def worst_violation(self) -> float:
        return max(check.worst for check in self.run.checks or ())

    @property
    def has_cost_ratio(self) -> bool:
        return self.run.cost is not None and bool(self.run.plain_cost)

    @property
    def has_no_seed(self) -> bool:
        return None in {self.run.parameters.get(name, 0) for name in ("random_state", "seed")}

    @property
    def n_small_groups(self) -> int:
        return int(np.count_nonzero(self.group_sizes < SMALL_GROUP))


def _matched(run: RunSummary) -> tuple[Any, float | None, list[Any]]:
    """Plain labels with the numbers of the overlapping clusters, share of moved rows, names."""
    if run.plain_labels is None:
        return None, None, run.cluster_names
    n_plain = int(run.plain_labels.max()) + 1
    overlap = count_cells(run.labels, run.plain_labels, run.n_clusters, n_plain)
    ours, theirs = linear_sum_assignment(overlap, maximize=True)
    number = np.full(n_plain, -1)
    number[theirs] = ours
    unmatched = np.flatnonzero(number < 0)
    number[unmatched] = run.n_clusters + np.arange(len(unmatched))
    names = [*run.cluster_names, *[f"plain {i + 1}" for i in range(len(unmatched))]]
    return number[run.plain_labels], 1.0 - overlap[ours, theirs].sum() / len(run.labels), names


# Panels, in the order of the page. None: the facts are missing.


def _constraint_panel(page: Page) -> Panel | None:
    checks = page.run.checks
    if checks is None:
        return None
    tables = [_check_table(check, page.run.cluster_names) for check in checks]
    if len(checks) > 1:
        header = ["Attribute", "Violation", "Relative balance", "Balance", "Best possible balance"]
        rows = []
        for check in checks:
            margin = Composition(check.counts, page.run.cluster_names, check.groups)
            scores = (margin.relative_balance, margin.balance, margin.bound)
            name = display_name(check.attribute, 60)
            rows.append([name, f"{check.worst:,.2f} rows", *map(score_text, scores)])
        tables.insert(0, Table("Each attribute by itself", header, rows))
    return Panel("The constraint", [], tables)


def _check_table(check: ConstraintCheck, cluster_names: list[Any]) -> Table:
    """Clusters × groups: bounds and actual shares."""
    composition = Composition(check.counts, cluster_names, check.groups)
    shares, sizes = composition.shares, check.counts.sum(axis=1)
    slack = np.minimum(shares - check.bounds.lower, check.bounds.upper - shares).min(axis=0)
    chosen = np.sort(np.argsort(slack, kind="stable")[:MAX_GROUPS])
    same = check.is_same_for_all
    rows = [["Bounds", "", *[check.share_text(0, r) for r in chosen], ""]] if same else []
    worst = np.maximum(check.violations.max(axis=1), check.size_violations)
    for l in composition.clusters_to_show():
        bounds = ["" if same else f" ({check.share_text(l, r)})" for r in chosen]
        size = check.size_text(l)
        rows.append(
            [
                display_name(cluster_names[l], 80),
                count_text(sizes[l]) + (f" ({size})" if size else ""),
                *[f"{shares[l, r]:.2%}{text}" for r, text in zip(chosen, bounds, strict=True)],
                f"{worst[l]:,.2f}",
            ]
        )
    name = "" if check.attribute is None else f": {display_name(check.attribute, 60)}"
    groups = [display_name(check.groups[r], 60) for r in chosen]
    return Table(f"Bounds and actual shares{name}", ["Cluster", "Rows", *groups, "Violation"], rows)


def _composition_panel(page: Page) -> Panel:
    figures = [_composition_figure(page.composition, "This clustering")]
    if page.plain is not None:
        figures.insert(0, _composition_figure(page.plain, "Plain k-means"))
    composition, folded = page.composition, page.composition.with_few_groups()
    closeness, shares = composition.closeness, composition.shares
    total = folded.table.sum(axis=0)
    cells = [f"{n / total.sum():.1%} ({count_text(n)})" for n in total]
    rows = [["All rows", count_text(total.sum()), *cells, score_text(composition.bound), ""]]
    for l in composition.clusters_to_show():
        worst = closeness[l].argmin()
        size = composition.table[l].sum()
        rows.append(
            [
                display_name(composition.clusters[l], 80),
                count_text(size),
                *[f"{n / size:.1%} ({count_text(n)})" for n in folded.table[l]],
                score_text(composition.balances[l]),
                f"{display_name(composition.groups[worst], 40)}: {shares[l, worst]:.2%} against "
                f"{composition.population[worst]:.2%}",
            ]
        )
    groups = [display_name(name, 60) for name in folded.groups]
    header = ["Cluster", "Rows", *groups, "Balance", "Farthest from the population"]
    table = Table("Rows and share of each group, by cluster", header, rows)
    return Panel("Composition of the clusters", figures, [table])


def _composition_figure(composition: Composition, title: str) -> Figure:
    l, r = composition.worst_cell
    group = quoted_name("group", composition.groups[r])
    cluster = quoted_name("cluster", composition.clusters[l])
    caption = f"{title}: share of each group in each cluster."
    return draw(
        plot_composition,
        composition,
        caption=caption,
        alternative=f"{caption} Farthest from the population: {group} is "
        f"{composition.shares[l, r]:.1%} of {cluster} and {composition.population[r]:.1%} of the "
        "population.",
        height=composition.figure_height,
    )


def _balance_panel(page: Page) -> Panel:
    composition = page.composition
    figure = draw(
        plot_balance,
        composition,
        caption="Balance of each cluster; the worst one is filled.",
        height=1.3 + 0.3 * len(composition.clusters_to_show()),
    )
    rows = [
        ["Balance", score_text(composition.balance), score_text(composition.bound)],
        ["Relative balance", score_text(composition.relative_balance), "1"],
        ["MNCE", score_text(composition.mnce), "1"],
        ["Farthest cell from exact proportion", f"{composition.deviation:,.2f} rows", "0 to 1 row"],
    ]
    if page.run.checks is not None:
        worst = f"{page.worst_violation:,.2f} rows"
        rows.append(["Worst violation of the constraint", worst, "0 to 1 row"])
    table = Table("Measures of fairness", ["Measure", "This clustering", "Best possible"], rows)
    return Panel("Balance", [figure], [table], beside=True)


def _price_panel(page: Page) -> Panel | None:
    run, ours, plain = page.run, page.composition, page.plain
    if run.plain_labels is None and run.plain_cost is None:
        return None
    rows = [
        [name, "–" if plain is None else score_text(getattr(plain, key)), score_text(value)]
        for name, key, value in [
            (f"Balance (at most {score_text(ours.bound)})", "balance", ours.balance),
            ("Relative balance (at most 1)", "relative_balance", ours.relative_balance),
            ("MNCE (at most 1)", "mnce", ours.mnce),
        ]
    ]
    rows.append(["Cost", _number(run.plain_cost), _number(run.cost)])
    figures = []
    if run.cost is not None and run.plain_cost:
        rows.append(["Cost, plain k-means = 1", "1.0000", f"{run.cost / run.plain_cost:.4f}"])
        if plain is not None:
            methods = [
                {"name": "plain k-means", "cost": run.plain_cost, "balance": plain.balance},
                {"name": "this clustering", "cost": run.cost, "balance": ours.balance},
            ]
            caption = "Cost against balance; the dashed line is the best possible balance."
            figures = [
                draw(plot_comparison, methods, bound=ours.bound, caption=caption, height=3.2)
            ]
    header = ["Measure", "Plain k-means", "This clustering"]
    table = Table("With and without fairness", header, rows)
    return Panel("The price of fairness", figures, [table], beside=True)


def _profiles_panel(page: Page) -> Panel | None:
    run = page.run
    if run.features is None:
        return None
    deviations, importance = cluster_profiles(run.features, run.labels, run.n_clusters)
    shown = np.isin(np.arange(run.n_clusters), page.composition.clusters_to_show())
    deviations[~shown] = np.nan
    rows = []
    for l in np.flatnonzero(np.isfinite(deviations).all(axis=1)):
        texts = [
            f"{'higher' if deviations[l, j] > 0 else 'lower'} "
            f"{display_name(run.feature_names[j], 60)} ({deviations[l, j]:+.1f})"
            for j in np.argsort(-np.abs(deviations[l]), kind="stable")[:3]
            if abs(deviations[l, j]) >= LEAST_DEVIATION
        ]
        text = ", ".join(texts) or "nothing: close to the average in every feature"
        rows.append([display_name(run.cluster_names[l]), text])
    table = Table("What distinguishes a cluster", ["Cluster", "Differs by"], rows)
    n_columns = min(MAX_FEATURES, len(importance))
    figure = draw(
        draw_profiles,
        deviations,
        importance,
        run.feature_names,
        run.cluster_names,
        caption="Red is above the average of all rows, blue below.",
        width=max(4.0, 1.6 + 0.62 * n_columns),
        height=1.9 + 0.32 * len(rows),
    )
    return Panel("Profiles of the clusters", [figure], [table], beside=n_columns <= WIDEST_BESIDE)


def _map_panel(page: Page) -> Panel | None:
    if page.drawn is None:
        return None
    labelled = [("Plain k-means", page.plain_labels), ("This clustering", page.run.labels)]
    figures = [
        draw(
            plot_embedding,
            page.drawn,
            labels[page.drawn_rows],
            plane=page.plane,
            cluster_names=page.plain_names,
            caption=f"{title}: rows in the plane, with a colour and a number per cluster.",
            height=4.6,
        )
        for title, labels in labelled
        if labels is not None
    ]
    return Panel("The rows on a map", figures)


def _convergence_panel(page: Page) -> Panel | None:
    records = list(page.run.history or [])
    if not records or ("cost" in records[0] and len(records) == 1):
        return None
    if "mass_error" in records[0]:
        number, measures = "sweep", {"mass_error": "Error, in rows", "objective": "Objective"}
    else:
        number, measures = "iteration", {"cost": "Cost"}
    rows = [
        [f"{record.get(number, i + 1)}", *[_number(record.get(key)) for key in measures]]
        for i, record in enumerate(records)
    ]
    caption = "Iterations"
    if len(rows) > MAX_RECORDS:
        caption = "First and last iterations"
        rows = rows[: MAX_RECORDS // 2] + rows[-MAX_RECORDS // 2 :]
    title = next(iter(measures.values()))
    figure = draw(plot_convergence, records, caption=f"{title}, by {number}.", height=3.0)
    table = Table(caption, [number.capitalize(), *measures.values()], rows)
    return Panel("Convergence", [figure], [table], beside=True)


def _anchors_panel(page: Page) -> Panel | None:
    run = page.run
    labels, masses = run.anchor_labels, run.anchor_masses
    if run.anchors is None:
        return None
    area = "" if masses is None else "; a larger area represents more rows"
    figure = draw(
        plot_anchors,
        run.anchors,
        labels,
        masses,
        X=page.drawn,
        plane=page.plane,
        caption=f"Anchors in the plane of the map, coloured by cluster{area}.",
        height=4.6,
    )
    tables = []
    if labels is not None:
        rows = []
        for l in np.unique(labels)[:MAX_CLUSTERS]:
            mass = [] if masses is None else [count_text(masses[labels == l].sum())]
            rows.append([display_name(run.cluster_names[l]), f"{(labels == l).sum()}", *mass])
        header = ["Cluster", "Anchors"] + ([] if masses is None else ["Rows represented"])
        tables = [Table("Anchors by cluster", header, rows)]
    return Panel("The anchors", [figure], tables, beside=True)


def _stability_panel(page: Page) -> Panel | None:
    run = page.run
    if run.stability is None:
        return None
    rows = stability_rows(run.stability, [display_name(name) for name in run.cluster_names])
    header = ["Cluster", "Stability", "Rows below 0.8"]
    return Panel("Stability of the clusters", [], [Table("Stability by cluster", header, rows)])


def _repeat_panel(page: Page) -> Panel:
    run = page.run
    running = {"python": platform.python_version(), "fairanchor": __version__}
    running |= {name: metadata.version(name) for name in LIBRARIES}
    values: list[tuple[str, str, Mapping[str, Any]]] = [
        ("Parameters", "Parameter", run.parameters),
        ("Versions", "Program", running),
        ("Seconds", "Step", {step: f"{seconds:.3g}" for step, seconds in run.timings.items()}),
    ]
    tables = [
        Table(
            caption,
            [first, "Value"],
            [
                [display_name(name), "None" if value is None else display_name(value, 400)]
                for name, value in items.items()
            ],
        )
        for caption, first, items in values
        if items
    ]
    return Panel("How to repeat this run", [], tables)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.6g}"


PANELS: dict[str, Callable[[Page], Panel | None]] = {
    "constraint": _constraint_panel,
    "composition": _composition_panel,
    "balance": _balance_panel,
    "price": _price_panel,
    "profiles": _profiles_panel,
    "map": _map_panel,
    "convergence": _convergence_panel,
    "anchors": _anchors_panel,
    "stability": _stability_panel,
    "repeat": _repeat_panel,
}
