"""The page and the numbers of a report.

Sentences, tables and figures (inline SVG) are in ``templates/report.html``, which takes a
`RunSummary` and what `_context` computes of it. ``report_facts`` has the same numbers for programs.
"""

from __future__ import annotations

import base64
import hashlib
import platform
from importlib import metadata, resources
from typing import Any

import numpy as np

from fairanchor import __version__
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
from fairanchor.plotting._names import display_name
from fairanchor.plotting._rows import MAX_FEATURES, cluster_profiles, deviation_text
from fairanchor.report._collect import RunSummary
from fairanchor.report._verdict import judge, score_text
from fairanchor.tables._wording import counted

# Smaller differences from the average are not mentioned.
LEAST_DEVIATION = 0.2
# Shares of wrong records for which the certificate is stated, and points of its curve.
WRONG_SHARES = (0.01, 0.05, 0.1)
CURVE_POINTS = 60
BREAKDOWN = 0.8
CERTIFICATE = ("breakdown_errors", "worst_relative_balance", "worst_relative_balance_curve")
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow")


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
    filters: dict[str, Any] = {
        "name": display_name,
        "score": score_text,
        "count": count_text,
        "percent": share_text,
        "change": lambda ratio: f"{ratio - 1:+.1%}",
        "number": lambda value, form=",.4g": format(value, form),
        "deviation": deviation_text,
    }
    environment.filters |= filters
    css = (resources.files("fairanchor.report") / "templates" / "report.css").read_text("utf-8")
    return environment.get_template("report.html").render(
        **_context(run),
        css=css,
        css_hash=base64.b64encode(hashlib.sha256(css.encode("utf-8")).digest()).decode("ascii"),
        counted=counted,
        max_clusters=MAX_CLUSTERS,
        max_groups=MAX_GROUPS,
        max_features=MAX_FEATURES,
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
    context, selection = _context(run), run.selection
    verdict, certificate, profile = (context[k] for k in ("verdict", "certificate", "profile"))
    return {
        "title": run.title,
        "date": run.date,
        "asked": {
            "constraint": run.constraint,
            "n_rows": run.n_rows_total,
            "n_rows_left_out": run.n_rows_left_out,
            "columns": list(run.columns),
        },
        "met": {
            **{key: getattr(verdict, key) for key in ("question", "answer", "level", "sentence")},
            "details": verdict.details,
            "clusters": run.cluster_names,
            **run.composition.entries,
            "relative_balance_all_rows": run.relative_balance,
            "worst_cell": _worst_cell(run.composition),
            "worst_violation": context["worst_violation"],
            "attributes": {
                str(check.attribute): check.composition.entries | {"worst_violation": check.worst}
                for check in run.checks or ()
                if check.attribute is not None
            },
            "unassigned": run.unassigned,
            "impact_ratio": None if selection is None else selection.impact_ratio,
            "p_value": None if selection is None else selection.p_value,
            "selection": None if selection is None else selection.records,
        },
        "who_pays": None if run.group_costs is None else run.group_costs.records,
        "clusters": [
            {
                "cluster": run.cluster_names[l],
                "size": run.counts[l].sum(),
                "differences": None if profile is None else profile["differences"][l],
                "typical_rows": None if profile is None else profile["typical"][l],
            }
            for l in range(run.n_clusters)
        ],
        "feature_names": run.feature_names,
        "robustness": {
            **(certificate or dict.fromkeys(CERTIFICATE)),
            "remarks": context["remarks"],
            "check": None
            if run.robustness is None
            else {
                name: getattr(run.robustness, name)
                for name in ("baseline", "worst", "control", "records")
            },
            "stability": run.stability,
        },
        "made": {
            "fairanchor": __version__,
            "versions": context["versions"],
            "command": run.command,
            "fingerprints": run.fingerprints,
            "parameters": {name: str(value) for name, value in run.parameters.items()},
            "seconds": run.timings,
            "warnings": run.warnings,
            "converged": run.converged,
        },
    }


def _worst_cell(composition: Composition) -> dict[str, Any]:
    """The cell farthest from proportional, by ratio."""
    l, r = composition.worst_cell
    return {
        "cluster": composition.clusters[l],
        "group": composition.groups[r],
        "rows": composition.table[l, r],
        "proportional_rows": composition.expected[l, r],
        "share_of_cluster": composition.shares[l, r],
        "share_of_all": composition.population[r],
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


def _context(run: RunSummary) -> dict[str, Any]:
    """A run with what is computed of it for the page and for `report_facts`."""
    everyone, group_sizes = run.everyone, run.counts.sum(axis=0)
    n_groups, n_clusters = np.count_nonzero(group_sizes), np.count_nonzero(run.counts.sum(axis=1))
    # Not for weights, which are no records, nor where there is nothing to balance.
    has_certificate = run.sample_weight is None and min(n_groups, n_clusters) > 1
    return {
        "run": run,
        "composition": run.composition,
        # Rows without a cluster are rows like all others: a bar of their own, and part of "all".
        "everyone": everyone,
        "folded": everyone.with_few_groups(),
        "lines": _lines(run, everyone),
        "n_groups": n_groups,
        "n_clusters": n_clusters,
        "verdict": judge(run),
        "worst_violation": None if run.checks is None else max(c.worst for c in run.checks),
        "certificate": _certificate(run) if has_certificate else None,
        "remarks": group_remarks(run.group_names, everyone.table.sum(axis=0)),
        "profile": None if run.features is None else _profile(run, run.features),
        "versions": {"python": platform.python_version(), "fairanchor": __version__}
        | {name: metadata.version(name) for name in LIBRARIES},
    }


def _certificate(run: RunSummary) -> dict[str, Any]:
    """What wrong records can do to the relative balance, the labels as they are.

    Rows without a cluster may push the relative balance below the threshold by themselves: the
    breakdown number is then 0.
    """
    counts, total = run.counts, int(run.counts.sum())
    breakdown = 0 if run.relative_balance < BREAKDOWN else breakdown_of_table(counts, BREAKDOWN)
    stated = [(share, int(share * total)) for share in WRONG_SHARES]
    if run.n_errors is not None:
        stated.append((run.n_errors / total, run.n_errors))
    worst = [
        {
            "share": share,
            "n_errors": m,
            "relative_balance": worst_relative_balance_of_table(counts, m),
        }
        for share, m in stated
    ]
    # As far as the curve falls, or 10 % of the rows if it never ends at 0.
    last = max(breakdown_of_table(counts, 1e-9) or total // 10, 1)
    curve = [
        (m, worst_relative_balance_of_table(counts, m))
        for m in np.unique(np.linspace(0, last, CURVE_POINTS).astype(int)).tolist()
    ]
    return dict(zip(CERTIFICATE, (breakdown, worst, curve), strict=True))


def _lines(run: RunSummary, everyone: Composition) -> list[dict[str, Any]]:
    """All rows, each cluster shown, rows without a cluster: counts, shares, farthest group."""
    folded, shown = everyone.with_few_groups().table, run.composition.clusters_to_show()
    rows: list[tuple[Any, int | None]] = [
        ("All rows", None),
        *((run.cluster_names[l], l) for l in shown),
    ]
    if len(everyone.table) > run.n_clusters:
        rows.append(("No cluster", run.n_clusters))
    lines = []
    for name, l in rows:
        row = folded.sum(axis=0) if l is None else folded[l]
        shares, worst = row / row.sum(), None if l is None else everyone.closeness[l].argmin()
        lines.append(
            {
                "name": name,
                "is_cluster": l is not None and l < run.n_clusters,
                "row": row,
                "size": row.sum(),
                "shares": shares,
                "starts": np.cumsum(shares) - shares,
                "balance": everyone.bound if l is None else everyone.balances[l],
                "worst": worst,
                "worst_share": None if l is None else everyone.shares[l, worst],
            }
        )
    return lines


def _profile(run: RunSummary, features: np.ndarray) -> dict[str, Any]:
    """Differences of the clusters' features, their columns to show, words and typical rows."""
    shape = features, run.labels, run.n_clusters
    differences, importance = cluster_profiles(*shape)
    words = []
    for row in differences:
        texts = [
            f"{'higher' if row[j] > 0 else 'lower'} {display_name(run.feature_names[j], 60)}"
            for j in np.argsort(-np.abs(row), kind="stable")[:3]
            if abs(row[j]) >= LEAST_DEVIATION
        ]
        words.append(", ".join(texts) or "close to the average in everything")
    return {
        "differences": differences,
        "features": np.argsort(-importance, kind="stable")[:MAX_FEATURES],
        "clusters": [
            l for l in run.composition.clusters_to_show() if np.isfinite(differences[l]).all()
        ],
        "words": words,
        "typical": typical_rows(*shape, 3),
    }
