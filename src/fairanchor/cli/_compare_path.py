"""``fairanchor compare --path``: what fairness costs, tolerance by tolerance."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from fairanchor.cli._common import Options, Run, show_name

# Part of the cost within which cost and bound differ by rounding only.
ROUNDING = 1e-12
HEADS = ("tolerance", "cost", "/ loosest", "balance", "relative", "violation", "gap")


@dataclass(frozen=True)
class Comparison:
    """Results of a comparison: for ``--json``, as text, as columns of a table, and as a figure."""

    summary: dict[str, Any]
    lines: list[str]
    columns: dict[str, Any]
    draw: Callable[[Any], Any] | None
    problems: list[str]


def check_path_options(options: Options) -> None:
    """Raise an error for options that contradict ``--path``, naming both."""
    if options["path"] and options["methods"]:
        raise click.UsageError("--path and --method: the path is that of fair k-means alone.")
    if options["tolerances"] and not options["path"]:
        raise click.UsageError("--tolerance needs --path: methods are compared without one.")
    if options["attributes"] == "separate" and not options["path"]:
        raise click.UsageError(
            "--attributes separate needs --path: methods are compared by the combinations of all "
            "sensitive columns."
        )


def compare_path(run: Run, X: Any, groups: Any, options: Options) -> Comparison:
    """Fair k-means for each tolerance."""
    from fairanchor.model_selection import TOLERANCES, fairness_path, suggest_tolerance

    tolerances = options["tolerances"] or TOLERANCES
    start = time.perf_counter()
    with run.step("path", f"Fair k-means for {len(set(tolerances))} tolerances"):
        path = fairness_path(
            X,
            groups,
            tolerances,
            n_clusters=options["n_clusters"],
            attributes=options["attributes"],
            n_jobs=options["jobs"],
            random_state=options["seed"],
        )
    seconds = time.perf_counter() - start
    suggested = None
    if len(path.records) > 1:
        with run.step("read curve", "Reading the curve"):  # which repeats its warning
            suggested = suggest_tolerance(path)
    summary = {
        "attributes": options["attributes"],
        "path": path.records,
        "suggested_tolerance": suggested,
        "seconds": round(seconds, 4),
    }
    lines, problems = _lines(path.records, suggested), _problems(path.records)
    return Comparison(summary, lines, path.table, lambda ax: _draw(path, ax), problems)


def _draw(path: Any, ax: Any) -> None:
    from fairanchor.plotting import plot_fairness_path

    plot_fairness_path(path, ax=ax)


def _problems(records: list[dict[str, Any]]) -> list[str]:
    """Why the exit code is 3; nothing if it is not."""
    missed = [f"{r['tolerance']:g}" for r in records if r["violation"] >= 1.0]
    stopped = [f"{r['tolerance']:g}" for r in records if not r["converged"]]
    problems = []
    if missed:
        problems.append(f"Bounds missed by a row or more: tolerance {', '.join(missed)}.")
    if stopped:
        problems.append(f"Not converged: tolerance {', '.join(stopped)}.")
    return problems


def _lines(records: list[dict[str, Any]], suggested: float | None) -> list[str]:
    loosest = records[-1]["cost"]
    columns = list(records[0].get("attributes", {}))
    widths = [max(11, len(show_name(column)) + 2) for column in columns]
    line = "".join(f"{head:>11}" for head in HEADS)
    for column, width in zip(columns, widths, strict=True):
        line += f"{show_name(column):>{width}}"
    lines = [line]
    for record in records:
        relative = f"{record['cost'] / loosest:.3f}" if loosest > 0 else ""
        line = (
            f"{record['tolerance']:11g}{record['cost']:11.4g}{relative:>11}"
            f"{record['balance']:11.4f}{record['relative_balance']:11.4f}"
            f"{record['violation']:11.2f}{_gap(record):11.1e}"
        )
        for column, width in zip(columns, widths, strict=True):
            line += f"{record['attributes'][column]['relative_balance']:{width}.4f}"
        lines.append(line)
    if columns:
        lines.append(
            "Columns named like sensitive ones have their relative balance; the others are about "
            "the worst of them."
        )
    if any(_gap(record) < 0.0 for record in records):
        lines.append(
            "A gap below 0: labels that miss bounds by a part of a row cost less than any within "
            "them, for the same centres."
        )
    if suggested is not None:
        lines.append(_suggestion(suggested, records[-1]["tolerance"]))
    return lines


def _gap(record: dict[str, Any]) -> float:
    """Part of the cost that labels within the bounds could save at most; below 0 if none."""
    cost: float = record["cost"]
    gap = (cost - record["lp_value"]) / cost if cost > 0 else 0.0
    return gap if abs(gap) > ROUNDING else 0.0


def _suggestion(suggested: float, loosest: float) -> str:
    of = "no constraint" if loosest == 1.0 else "the loosest one here"
    if suggested == loosest:
        text = f"No tighter tolerance costs at most 5% more than {loosest:g} ({of})"
    else:
        text = (
            f"Tolerance {suggested:g} is the smallest that costs at most 5% more than "
            f"{loosest:g} ({of})"
        )
    return f"{text}: a reading of the curve, not advice."
