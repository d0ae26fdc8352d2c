"""``fairanchor compare --path``: what fairness costs, tolerance by tolerance."""

import time

import click

from fairanchor.cli._common import NOT_CONVERGED, exit_with, print_json, print_result, show_name
from fairanchor.cli._comparison import head_of_summary, named_columns, named_groups, write_records
from fairanchor.cli._targets import check_merged_attributes

# Part of the cost within which cost and bound differ by rounding only.
ROUNDING = 1e-12
HEADS = ("tolerance", "cost", "/ loosest", "balance", "relative", "violation", "gap")


def check_path_options(context, path, tolerances, options):
    """Raise an error for options that contradict ``--path``, naming both."""
    given = context.get_parameter_source("methods") is click.core.ParameterSource.COMMANDLINE
    if path and given:
        raise click.UsageError("--path and --method: the path is that of fair k-means alone.")
    if tolerances and not path:
        raise click.UsageError("--tolerance needs --path: methods are compared without one.")
    if options["attributes"] == "separate" and not path:
        raise click.UsageError(
            "--attributes separate needs --path: methods are compared by the combinations of all "
            "sensitive columns."
        )
    check_merged_attributes(options)


def compare_path(run, source, loaded, options, tolerances, outputs, as_json, force):
    """Fair k-means for each tolerance: a table, the output files, and the exit code."""
    from fairanchor.model_selection import TOLERANCES

    start = time.perf_counter()
    path = _path(run, loaded, options, tolerances or TOLERANCES)
    seconds = time.perf_counter() - start
    suggested = _suggested(run, path)
    if as_json:
        summary = head_of_summary(source, loaded, options) | {
            "attributes": options["attributes"],
            "path": path.records,
            "suggested_tolerance": suggested,
            "seconds": round(seconds, 4),
            "warnings": run.warnings,
        }
        print_json(summary)
    else:
        print_result(_lines(path, suggested))
    # After the lines, so that the results are printed even if a file cannot be written.
    write_records(run, path.table, outputs["table"], force)
    if outputs["figure"] is not None:
        with run.step("draw", f"Drawing {outputs['figure']}"):
            _save_figure(path, outputs["figure"], force)
        run.say(f"figure: {outputs['figure']}")
    problems = _problems(path)
    for problem in problems:
        click.echo(problem, err=True)
    exit_with(NOT_CONVERGED if problems else 0)


def _problems(path):
    """Why the exit code is 3; nothing if it is not."""
    missed = [f"{r['tolerance']:g}" for r in path.records if r["violation"] >= 1.0]
    stopped = [f"{r['tolerance']:g}" for r in path.records if not r["converged"]]
    problems = []
    if missed:
        problems.append(f"Bounds missed by a row or more: tolerance {', '.join(missed)}.")
    if stopped:
        problems.append(f"Not converged: tolerance {', '.join(stopped)}.")
    return problems


def _suggested(run, path):
    """The tolerance that the curve suggests, or None of a single one."""
    if len(path.records) < 2:
        return None
    from fairanchor.model_selection import suggest_tolerance

    with run.step("read curve", "Reading the curve"):  # which repeats its warning
        return suggest_tolerance(path)


def _path(run, loaded, options, tolerances):
    from fairanchor.model_selection import fairness_path

    groups = named_groups(loaded.grouping)
    if options["attributes"] == "separate":
        groups = named_columns(loaded.grouping, loaded.preprocessing.groups.columns)
    with run.step("path", f"Fair k-means for {len(set(tolerances))} tolerances"):
        return fairness_path(
            loaded.X,
            groups,
            tolerances,
            n_clusters=options["n_clusters"],
            attributes=options["attributes"],
            n_jobs=options["jobs"],
            random_state=options["seed"],
        )


def _lines(path, suggested):
    loosest = path.records[-1]["cost"]
    titles = list(path.records[0].get("attributes", {}))
    heads = [show_name(title) for title in titles]
    widths = [max(11, len(head) + 2) for head in heads]
    own_heads = "".join(f"{h:>{width}}" for h, width in zip(heads, widths, strict=True))
    lines = ["".join(f"{head:>11}" for head in HEADS) + own_heads]
    for record in path.records:
        cost = record["cost"]
        relative = f"{cost / loosest:11.3f}" if loosest > 0 else f"{'':11}"
        gap = _gap(record)
        own = "".join(
            f"{record['attributes'][title]['relative_balance']:{width}.4f}"
            for title, width in zip(titles, widths, strict=True)
        )
        lines.append(
            f"{record['tolerance']:11g}{cost:11.4g}{relative}{record['balance']:11.4f}"
            f"{record['relative_balance']:11.4f}{record['violation']:11.2f}{gap:11.1e}{own}"
        )
    if titles:
        lines.append(
            "Columns named like sensitive ones have their relative balance; the others are about "
            "the worst of them."
        )
    if any(_gap(record) < 0.0 for record in path.records):
        lines.append(
            "A gap below 0: labels that miss bounds by a part of a row cost less than any within "
            "them, for the same centres."
        )
    if suggested is not None:
        lines.append(_suggestion(suggested, path.records[-1]["tolerance"]))
    return lines


def _gap(record):
    """Part of the cost that labels within the bounds could save at most; below 0 if none."""
    cost = record["cost"]
    gap = (cost - record["lp_value"]) / cost if cost > 0 else 0.0
    return gap if abs(gap) > ROUNDING else 0.0


def _suggestion(suggested, loosest):
    of = "no constraint" if loosest == 1.0 else "the loosest one here"
    if suggested == loosest:
        found = f"No tighter tolerance costs at most 5% more than {loosest:g} ({of})"
    else:
        found = (
            f"Tolerance {suggested:g} is the smallest that costs at most 5% more than "
            f"{loosest:g} ({of})"
        )
    return f"{found}: a reading of the curve, not advice."


def _save_figure(path, output, force):
    from fairanchor.cli._figures import save_figure
    from fairanchor.plotting import plot_fairness_path

    save_figure(lambda ax: plot_fairness_path(path, ax=ax), output, force, salt="path")
