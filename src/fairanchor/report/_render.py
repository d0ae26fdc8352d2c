"""The page: what each section needs of a run, put into the template.

The sentences, and the figures as inline SVG, are in ``templates/report.html``. ``report_facts`` has
the same numbers for programs.
"""

from __future__ import annotations

import base64
import hashlib
import platform
from dataclasses import asdict, dataclass
from importlib import metadata, resources
from typing import Any

import numpy as np

from fairanchor import __version__
from fairanchor._utils._cached import cached_property
from fairanchor.audit._profiles import typical_rows
from fairanchor.audit._remarks import group_remarks
from fairanchor.metrics import breakdown_of_table, worst_relative_balance_of_table
from fairanchor.plotting._composition import (
    MAX_CLUSTERS,
    MAX_GROUPS,
    Composition,
    count_text,
    share_text,
)
from fairanchor.plotting._names import display_lines, display_name
from fairanchor.plotting._rows import MAX_FEATURES, cluster_profiles
from fairanchor.report._collect import RunSummary
from fairanchor.report._constraints import ConstraintCheck
from fairanchor.report._verdict import judge, score_text
from fairanchor.tables._wording import counted

# Smaller differences from the average are not mentioned.
LEAST_DEVIATION = 0.2
# Shares of wrong records for which the certificate is stated, and points of its curve.
WRONG_SHARES = (0.01, 0.05, 0.1)
CURVE_POINTS = 60
BREAKDOWN = 0.8
MOST_TESTS = 24
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow", "jinja2")


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column names the row."""

    caption: str
    header: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Certificate:
    """What wrong records can do to the relative balance, the labels as they are.

    ``curve`` has pairs of a number of wrong records and the least relative balance, ``stated`` the
    same for some shares of the rows.
    """

    breakdown: int | None
    stated: list[dict[str, float]]
    curve: list[tuple[int, float]]

    @classmethod
    def of(cls, run: RunSummary) -> Certificate:
        """Of the rows with a cluster and a group; others may be below the threshold already."""
        counts, n_errors, total = run.counts, run.n_errors, int(run.counts.sum())
        is_below = run.relative_balance < BREAKDOWN
        breakdown = 0 if is_below else breakdown_of_table(counts, BREAKDOWN)
        # As far as the curve falls, or 10 % of the rows if it never ends at 0.
        last = max(breakdown_of_table(counts, 1e-9) or total // 10, 1)
        numbers = np.unique(np.linspace(0, last, CURVE_POINTS).astype(int)).tolist()
        stated = [(share, int(share * total)) for share in WRONG_SHARES]
        if n_errors is not None:
            stated.append((n_errors / total, n_errors))
        return cls(
            breakdown,
            [
                {"share": share, "n_errors": m, "relative_balance": _worst(counts, m)}
                for share, m in stated
            ],
            [(m, _worst(counts, m)) for m in numbers],
        )


def _worst(counts: np.ndarray, n_errors: int) -> float:
    return worst_relative_balance_of_table(counts, n_errors)


def render_report(run: RunSummary) -> str:
    """Render the report of a run as the text of one HTML file.

    The file is complete: figures are inline SVG, a policy forbids it to load or run anything, and
    it has a light, a dark and a printed form. The same run gives the same text.

    Parameters
    ----------
    run : RunSummary
        Facts about the clustering. What is missing is left out.

    Returns
    -------
    html : str
        The report.

    Examples
    --------
    >>> from fairanchor.report import render_report, summarise_labels
    >>> groups = ["women", "men", "women", "men"]
    >>> run = summarise_labels([0, 0, 1, 1], sensitive_features=groups)
    >>> "Every cluster is 50.0% men and 50.0% women, as all rows are." in render_report(run)
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
        "percent": share_text,
        "change": lambda ratio: f"{ratio - 1:+.1%}",
        "number": lambda value: f"{value:,.4g}",
    }
    css = (resources.files("fairanchor.report") / "templates" / "report.css").read_text("utf-8")
    return environment.get_template("report.html").render(
        page=Page(run),
        run=run,
        composition=run.composition,
        verdict=judge(run),
        css=css,
        css_hash=base64.b64encode(hashlib.sha256(css.encode("utf-8")).digest()).decode("ascii"),
        counted=counted,
        version=__version__,
    )


def report_facts(run: RunSummary) -> dict[str, Any]:
    """The numbers of a report for programs: what ``report.json`` holds.

    Parameters
    ----------
    run : RunSummary
        Facts about the clustering.

    Returns
    -------
    facts : dict
        By the sections of the report.

    Examples
    --------
    >>> from fairanchor.report import report_facts, summarise_labels
    >>> run = summarise_labels([0, 0, 1, 1], sensitive_features=["a", "b", "a", "b"])
    >>> facts = report_facts(run)
    >>> facts["met"]["answer"], facts["robustness"]["breakdown_errors"]
    ('Yes', 1)
    """
    page, verdict, composition = Page(run), judge(run), run.composition
    selection = run.selection
    return {
        "title": run.title,
        "date": run.date,
        "asked": {
            "constraint": run.constraint,
            "n_rows": run.n_rows_total,
            "n_rows_left_out": run.n_rows_left_out,
            "columns": list(run.columns),
            "groups": run.group_names,
            "clusters": run.cluster_names,
        },
        "met": {
            **{key: getattr(verdict, key) for key in ("question", "answer", "level", "sentence")},
            "details": verdict.details,
            "counts": run.counts,
            "relative_balance": composition.relative_balance,
            "relative_balance_all_rows": run.relative_balance,
            "balance": composition.balance,
            "balance_bound": composition.bound,
            "mnce": composition.mnce,
            "worst_violation": page.worst_violation,
            "unassigned": run.unassigned,
            "ungrouped": run.ungrouped,
            "impact_ratio": None if selection is None else selection.impact_ratio,
            "p_value": None if selection is None else selection.p_value,
            "selection": None if selection is None else selection.records,
        },
        "who_pays": None if run.group_costs is None else run.group_costs.records,
        "clusters": [
            {
                "cluster": run.cluster_names[l],
                "size": run.counts[l].sum(),
                "differences": None if page.differences is None else page.differences[l],
                "typical_rows": None if page.typical is None else page.typical[l],
            }
            for l in range(run.n_clusters)
        ],
        "feature_names": run.feature_names,
        "robustness": {
            "breakdown_errors": None if page.certificate is None else page.certificate.breakdown,
            "certificate": None if page.certificate is None else asdict(page.certificate),
            "remarks": page.remarks,
            "check": page.check,
            "stability": run.stability,
        },
        "made": {
            "fairanchor": __version__,
            "versions": page.versions,
            "command": run.command,
            "code": run.code,
            "fingerprints": run.fingerprints,
            "parameters": {name: str(value) for name, value in run.parameters.items()},
            "seconds": run.timings,
            "warnings": run.warnings,
            "converged": run.converged,
        },
    }


def import_libraries() -> Any:
    """The package jinja2; an error explains how to install it."""
    try:
        import jinja2
    except ImportError as error:
        raise ImportError(
            'The report needs jinja2, which is not installed: pip install "fairanchor[report]".'
        ) from error
    return jinja2


class Page:
    """A run with everything that the template needs of it."""

    max_clusters, max_groups, max_features = MAX_CLUSTERS, MAX_GROUPS, MAX_FEATURES

    def __init__(self, run: RunSummary) -> None:
        self.run = run
        self.composition = run.composition
        # Rows without a cluster are rows like all others: a bar of their own, and part of "all".
        self.n_unassigned = 0 if run.unassigned is None else int(run.unassigned.sum())
        self.everyone = self.composition
        if run.unassigned is not None and self.n_unassigned:
            table = np.vstack([run.counts, run.unassigned])
            self.everyone = Composition(table, [*run.cluster_names, None], run.group_names)
        self.group_sizes = run.counts.sum(axis=0)[run.counts.sum(axis=0) > 0]
        self.n_clusters = int(np.count_nonzero(run.counts.sum(axis=1)))
        self.unit = "rows" if run.sample_weight is None else "weight"
        self.versions = {"python": platform.python_version(), "fairanchor": __version__} | {
            name: metadata.version(name) for name in LIBRARIES
        }
        self.differences = self.typical = None
        if run.features is not None:
            shape = run.features, run.labels, run.n_clusters
            self.differences, self.importance = cluster_profiles(*shape)
            self.typical = typical_rows(*shape, 3)

    @property
    def worst_violation(self) -> float | None:
        return None if self.run.checks is None else max(check.worst for check in self.run.checks)

    @property
    def remarks(self) -> list[str]:
        return group_remarks(self.run.group_names, self.run.counts.sum(axis=0))

    @property
    def check(self) -> dict[str, Any] | None:
        """Result of fits with wrong records, if there is one."""
        names = ("baseline", "worst", "control", "records")
        result = self.run.robustness
        return None if result is None else {name: getattr(result, name) for name in names}

    @property
    def has_no_seed(self) -> bool:
        return None in {self.run.parameters.get(name, 0) for name in ("random_state", "seed")}

    @cached_property
    def certificate(self) -> Certificate | None:
        """Not for weights, which are no records, nor where there is nothing to balance."""
        if self.run.sample_weight is not None or min(len(self.group_sizes), self.n_clusters) < 2:
            return None
        return Certificate.of(self.run)

    # Figures: numbers for the SVG of the template.

    @property
    def bars(self) -> list[dict[str, Any]]:
        """Composition of all rows and of each cluster shown, as parts of a bar of length 100."""
        folded = self.everyone.with_few_groups()
        lines = [("All rows", folded.table.sum(axis=0))]
        lines += [
            (f"Cluster {display_name(folded.clusters[l], 40)}", folded.table[l])
            for l in self.composition.clusters_to_show()
        ]
        if self.n_unassigned:
            lines.append(("No cluster", folded.table[-1]))
        return [{"name": name, "size": row.sum(), "parts": _parts(row)} for name, row in lines]

    @property
    def legend(self) -> list[str]:
        return [display_name(name, 40) for name in self.everyone.with_few_groups().groups]

    @property
    def costs(self) -> list[dict[str, Any]]:
        """Who pays: records with the lengths of two bars, at most 100."""
        records = [] if self.run.group_costs is None else self.run.group_costs.records
        largest = max([r[c] for r in records for c in ("plain_cost", "fair_cost")], default=0.0)
        scale = 100.0 / largest if largest > 0 else 0.0
        return [
            record | {"plain": scale * record["plain_cost"], "fair": scale * record["fair_cost"]}
            for record in records
        ]

    @property
    def curve(self) -> dict[str, Any]:
        """The certificate as a line in a box of 320 × 140."""
        assert self.certificate is not None
        points = self.certificate.curve
        last = max(points[-1][0], 1)
        line = [(round(320 * m / last, 2), round(140 * (1 - value), 2)) for m, value in points]
        return {
            "line": " ".join(f"{x:g},{y:g}" for x, y in line),
            "last": last,
            "share": last / max(float(self.run.counts.sum()), 1.0),
        }

    # Tables.

    def counts_table(self) -> Table:
        """Rows and share of each group by cluster."""
        composition, everyone = self.composition, self.everyone
        folded = everyone.with_few_groups()
        lines = [("All rows", folded.table.sum(axis=0), everyone.bound, "")]
        closeness, shares = everyone.closeness, everyone.shares
        for l in composition.clusters_to_show():
            worst = closeness[l].argmin()
            share, expected = 100 * shares[l, worst], 100 * everyone.population[worst]
            group = display_name(composition.groups[worst], 40)
            farthest = f"{group}: {share:.4g}% instead of {expected:.4g}%"
            name = display_name(composition.clusters[l], 80)
            lines.append((name, folded.table[l], composition.balances[l], farthest))
        if self.n_unassigned:
            lines.append(("No cluster", folded.table[-1], everyone.balances[-1], ""))
        rows = []
        for name, row, balance, farthest in lines:
            cells = [f"{count_text(n)} ({share_text(n / row.sum())})" for n in row]
            rows.append([name, count_text(row.sum()), *cells, score_text(balance), farthest])
        groups = [display_name(name, 60) for name in folded.groups]
        header = ["Cluster", "Rows", *groups, "Balance", "Farthest from all rows"]
        return Table("Rows of each group in each cluster", header, rows)

    def constraint_tables(self) -> list[Table]:
        """Bounds and actual shares of each attribute."""
        return [_check_table(check, self.run.cluster_names) for check in self.run.checks or ()]

    def selection_tables(self) -> list[Table]:
        """Selection rates: each group, if clusters are marked as favourable; else the extremes."""
        if self.run.selection is None:
            return []
        if not self.run.favourable:
            return [self._extremes()]
        tables = []
        for table in self.run.selection.tables:
            rows = [
                [
                    display_name(r["group"], 60),
                    f"{r['selected']:,} of {r['rows']:,}",
                    f"{r['rate']:.1%} ({_interval(r['rate_interval'])})",
                    "–" if r["impact_ratio"] is None else f"{r['impact_ratio']:.3f}",
                    _interval(r["impact_ratio_interval"], ".3f"),
                    _flags(r),
                ]
                for r in table.records
            ]
            header = ["Group", "Selected", "Rate (95 % interval)", "Impact ratio",
                      "95 % interval", "Remark"]  # fmt: skip
            clusters = ", ".join(display_name(name, 40) for name in table.clusters)
            caption = (
                f"{_attribute(table.attribute)}, cluster {clusters}: p = {table.p_value:.3g} "
                f"({table.test})"
            )
            tables.append(Table(caption, header, rows))
        return tables

    def _extremes(self) -> Table:
        """One line per table, the smallest impact ratios first."""
        assert self.run.selection is not None
        rows = []
        for table in sorted(self.run.selection.tables, key=lambda t: t.impact_ratio)[:MOST_TESTS]:
            known = [r for r in table.records if r["impact_ratio"] is not None]
            if len(known) < 2:
                continue
            low, high = (f(known, key=lambda r: r["rate"]) for f in (min, max))
            rows.append(
                [
                    ", ".join(display_name(name, 40) for name in table.clusters),
                    _attribute(table.attribute),
                    f"{display_name(low['group'], 40)}: {low['rate']:.1%}",
                    f"{display_name(high['group'], 40)}: {high['rate']:.1%}",
                    f"{table.impact_ratio:.3f}",
                    f"{table.p_value:.3g}",
                    _flags(low),
                ]
            )
        header = ["Cluster", "Column", "Lowest rate", "Highest rate", "Impact ratio", "p-value",
                  "Remark"]  # fmt: skip
        return Table("Share of each group that is in a cluster", header, rows)

    def profile(self) -> dict[str, Any] | None:
        """Clusters × features: differences with a class for the colour, and words."""
        if self.differences is None:
            return None
        columns = np.argsort(-self.importance, kind="stable")[:MAX_FEATURES]
        lines = []
        for l in self.composition.clusters_to_show():
            differences = self.differences[l]
            if not np.isfinite(differences).all():
                continue
            cells = [
                (f"{v:+.1f}" if abs(v) >= 0.05 else "0.0", _shade(v)) for v in differences[columns]
            ]
            lines.append(
                {
                    "name": display_name(self.run.cluster_names[l], 40),
                    "size": self.run.counts[l].sum(),
                    "share": self.run.counts[l].sum() / self.run.counts.sum(),
                    "words": self._words(differences),
                    "typical": ", ".join(map(str, self.typical[l] if self.typical else [])),
                    "cells": cells,
                }
            )
        names = [display_name(self.run.feature_names[j], 40) for j in columns]
        return {"features": names, "lines": lines}

    def _words(self, differences: np.ndarray) -> str:
        texts = [
            f"{'higher' if differences[j] > 0 else 'lower'} "
            f"{display_name(self.run.feature_names[j], 60)}"
            for j in np.argsort(-np.abs(differences), kind="stable")[:3]
            if abs(differences[j]) >= LEAST_DEVIATION
        ]
        return ", ".join(texts) or "close to the average in everything"

    def made_tables(self) -> list[Table]:
        """What is needed to repeat the run."""
        seconds = {step: f"{value:.3g}" for step, value in self.run.timings.items()}
        values = (
            ("Data", "Checksum", self.run.fingerprints or {}),
            ("Parameter", "Value", self.run.parameters),
            ("Program", "Version", self.versions),
            ("Step", "Seconds", seconds),
        )
        return [
            Table("", [first, second], [[display_name(k), _value(v)] for k, v in items.items()])
            for first, second, items in values
            if items
        ]


def _parts(row: np.ndarray) -> list[dict[str, float]]:
    shares = row / row.sum()
    starts = np.cumsum(shares) - shares
    return [
        {"start": round(100 * float(a), 3), "width": round(100 * float(w), 3), "share": float(w)}
        for a, w in zip(starts, shares, strict=True)
    ]


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
    header = ["Cluster", "Rows", *groups, "Rows outside"]
    return Table(f"Bounds and actual shares{name}", header, rows)


def _attribute(name: Any) -> str:
    if isinstance(name, tuple):
        return " × ".join(map(_attribute, name))
    return "groups" if name is None or isinstance(name, int) else display_name(name, 40)


def _interval(interval: Any, form: str = ".1%") -> str:
    return "–" if interval is None else f"{interval[0]:{form}} to {interval[1]:{form}}"


def _flags(record: dict[str, Any]) -> str:
    flags = {
        "below four fifths": record["below_four_fifths"],
        "less than 2 % of the rows": record["small"],
        "group not known": record["group"] is None,
    }
    return ", ".join(text for text, applies in flags.items() if applies)


def _shade(value: float) -> str:
    """Class of a cell: p for higher, n for lower, 1 to 3; z for about average."""
    level = min(3, int(1.5 * abs(value) + 0.5))
    return "z" if level == 0 else f"{'p' if value > 0 else 'n'}{level}"


def _value(value: Any) -> str:
    return "None" if value is None else display_name(value, 400)
