"""``fairanchor compare --path``: what fairness costs, tolerance by tolerance."""

import time

import click

from fairanchor.cli._common import NOT_CONVERGED, exit_with, print_json, print_result
from fairanchor.cli._comparison import head_of_summary, named_groups
from fairanchor.cli._progress import seconds_to_fit

TOLERANCES = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0)
# What a tolerance takes, with its starts, against a fit that begins at anchors.
FITS_PER_TOLERANCE = 4
HEADS = ("tolerance", "cost", "/ loosest", "balance", "relative", "violation", "gap")


def check_path_options(context, path, tolerances):
    """Refuse options that contradict ``--path``, naming both."""
    given = context.get_parameter_source("methods") is click.core.ParameterSource.COMMANDLINE
    if path and given:
        raise click.UsageError("--path and --method: the path is that of fair k-means alone.")
    if tolerances and not path:
        raise click.UsageError("--tolerance needs --path: methods are compared without one.")


def compare_path(run, source, loaded, options, tolerances, output, as_json, force):
    """Fair k-means for each tolerance: a table, a picture if asked for, and the exit code."""
    from fairanchor._fairness_path import fairness_path, suggest_tolerance

    tolerances = tolerances or TOLERANCES
    n_fits = len(set(tolerances))
    expected = n_fits * FITS_PER_TOLERANCE * seconds_to_fit(loaded, options["n_clusters"])
    with run.step("path", f"Fair k-means for {n_fits} tolerances", expected=expected):
        start = time.perf_counter()
        path = fairness_path(
            loaded.X,
            named_groups(loaded.grouping),
            tolerances,
            n_clusters=options["n_clusters"],
            n_jobs=options["jobs"],
            random_state=options["seed"],
        )
        seconds = time.perf_counter() - start
    suggested = suggest_tolerance(path)
    summary = head_of_summary(source, loaded, options) | {
        "path": path.records,
        "suggested_tolerance": suggested,
        "seconds": round(seconds, 4),
        "warnings": run.warnings,
    }
    if as_json:
        print_json(summary)
    else:
        print_result(_lines(path, suggested))
    # After the table: whatever happens to the picture, the results are there.
    if output is not None:
        with run.step("draw", f"Drawing {output}"):
            _save_picture(path, output, force)
        run.say(f"picture: {output}")
    exit_with(NOT_CONVERGED if any(r["violation"] >= 1.0 for r in path.records) else 0)


def _lines(path, suggested):
    loosest = path.records[-1]["cost"]
    lines = ["".join(f"{head:>11}" for head in HEADS)]
    for record in path.records:
        cost = record["cost"]
        relative = f"{cost / loosest:11.3f}" if loosest > 0 else f"{'':11}"
        gap = max(cost - record["lp_value"], 0.0) / cost if cost > 0 else 0.0
        lines.append(
            f"{record['tolerance']:11g}{cost:11.4g}{relative}{record['balance']:11.4f}"
            f"{record['relative_balance']:11.4f}{record['violation']:11.2f}{gap:11.1e}"
        )
    last = path.records[-1]["tolerance"]
    lines.append(
        f"Tolerance {suggested:g} is the smallest that costs at most 5% more than {last:g}: "
        "a reading of the curve, not advice."
    )
    return lines


def _save_picture(path, output, force):
    from fairanchor.cli._pictures import save_figure
    from fairanchor.plotting import plot_fairness_path

    save_figure(lambda ax: plot_fairness_path(path, ax=ax), output, force, salt="path")
