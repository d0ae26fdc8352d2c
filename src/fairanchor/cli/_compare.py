"""``fairanchor compare``: what fairness costs on a table, method by method."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import click
import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from fairanchor import AnchorFairClustering, FairKMeans
from fairanchor._utils._files import replacing
from fairanchor.cli import _common as common
from fairanchor.cli._commands import ALONE, METHODS, PLAIN
from fairanchor.cli._common import Options, show_name
from fairanchor.cli._terminal import Run, exit_with, libraries_to_standard_error, with_options
from fairanchor.datasets import make_zafar
from fairanchor.metrics import clustering_cost
from fairanchor.model_selection import TOLERANCES, fairness_path, suggest_tolerance
from fairanchor.plotting import plot_comparison, plot_fairness_path
from fairanchor.plotting._composition import composition_of
from fairanchor.plotting._style import import_matplotlib

FIGURES = (".png", ".svg", ".pdf")
# Starts of plain k-means.
PLAIN_STARTS = 10
PATH_HEADS = ("tolerance", "cost", "/ loosest", "balance", "relative", "violation")

# Entries of the summary, lines to print, problems, and a function that draws the figure.
Comparison = tuple[dict[str, Any], list[str], list[str], Callable[[Any], Any] | None]


def run_compare(run: Run, options: Options) -> None:
    """Compare methods or tolerances, print the table, and draw the figure."""
    figure = options["figure"]
    _check_request(options)
    loaded = common.load_for_fit(run, options)
    # Not all methods take missing values.
    groups = loaded.sensitive_features(options["attributes"], missing="(missing)")
    compare = _compare_path if options["path"] else _compare_methods
    summary, lines, problems, draw = compare(run, loaded.X, groups, options)
    if options["as_json"]:
        head = {
            "command": "compare",
            "input": options["source"],
            "n_rows": loaded.n_rows,
            "n_rows_left_out": loaded.n_dropped,
            "n_clusters": options["n_clusters"],
            "groups": loaded.groups.public_names,
            "group_sizes": loaded.groups.to_public(loaded.groups.sizes),
            "seed": options["seed"],
        }
        common.print_json(head | summary | {"warnings": run.warnings})
    else:
        common.print_result(*lines)
    # After the lines, so that the results are printed even if the file cannot be written.
    if figure is not None and draw is None:
        run.say(f"No method succeeded: there is no figure {figure}.")
    elif figure is not None:
        with run.step("draw", f"Drawing {figure}"):
            _save_figure(draw, figure, options["force"])
        run.say(f"figure: {figure}")
    exit_with(problems)


def _check_request(options: Options) -> None:
    """Raise an error before the work for contradictions, and for what could not be drawn."""
    figure = options["figure"]
    common.check_outputs(options, figure, inputs=[options["source"]])
    if not options["sensitive"]:
        raise click.UsageError("Missing option '--sensitive': name the columns with the groups.")
    if options["path"] and options["methods"]:
        raise click.UsageError("--path and --method: the path is that of fair k-means alone.")
    if options["tolerances"] and not options["path"]:
        raise click.UsageError("--tolerance needs --path: methods are compared without one.")
    if options["attributes"] == "separate" and not options["path"]:
        raise click.UsageError(
            "--attributes separate needs --path: methods are compared by the combinations of all "
            "sensitive columns."
        )
    if figure is not None:
        if not figure.lower().endswith(FIGURES):
            raise click.UsageError(f"-o {figure}: expected a figure, {', '.join(FIGURES)}.")
        import_matplotlib()


def _save_figure(draw: Any, output: str, force: bool) -> None:
    """Write what ``draw(ax)`` draws; equal results give equal files."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    suffix = output.rsplit(".", 1)[1].lower()
    undated: Any = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(suffix)
    # Text stays text, and no id in the file is random.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "compare"}):
        figure = Figure(figsize=(7.6, 5.2), layout="constrained")
        draw(figure.add_subplot())
        with replacing(output, force=force) as file:
            figure.savefig(file, format=suffix, dpi=150, metadata=undated)


# The comparison of methods.


def _compare_methods(run: Run, X: np.ndarray, groups: Any, options: Options) -> Comparison:
    methods = tuple(dict.fromkeys(options["methods"] or METHODS))
    records = []
    with run.step("prepare", "Loading compiled kernels"):
        for method in methods:
            load_kernels(method)
    for number, method in enumerate(methods, start=1):
        before, title = len(run.warnings), f"{method} ({number} of {len(methods)})"
        with run.step(method, title, prefix=f"{method}: "), libraries_to_standard_error():
            try:
                records.append(fitted_and_measured(method, X, groups, options)[1])
            except (ValueError, RuntimeError, MemoryError) as error:
                reason = with_options(str(error)) or type(error).__name__
                records.append({"method": method, "error": reason})
        messages = run.warnings[before:]
        records[-1]["warnings"] = [text.removeprefix(f"{method}: ") for text in messages]
    plain = next((r["cost"] for r in records if r["method"] == PLAIN and "cost" in r), None)
    for record in records:
        if plain and "cost" in record:
            record["relative_cost"] = record["cost"] / plain
    drawn = [record for record in records if "error" not in record]
    remarks = {record["method"]: _remark(record) for record in records}
    problems = [f"{method}: {remark}" for method, remark in remarks.items() if remark]
    draw = (lambda ax: _draw(drawn, ax)) if drawn else None
    return {"methods": records}, method_lines(records), problems, draw


def load_kernels(method: str) -> None:
    """Fit a few rows: compiled code is loaded at its first use, which is not to be timed."""
    small = make_zafar(400, variant="original", random_state=0)
    few = {"n_clusters": 2, "seed": 0, "jobs": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about these few rows
        _fitted(method, small.data, small.sensitive_features, few)


def _fitted(method: str, X: Any, groups: Any, options: Options) -> Any:
    """The estimator of a method, fitted."""
    n_clusters, seed, jobs = options["n_clusters"], options["seed"], options["jobs"]
    if method == PLAIN:
        return KMeans(n_clusters, n_init=PLAIN_STARTS, random_state=seed).fit(X)
    estimator: Any = FairKMeans(n_clusters, random_state=seed, n_jobs=jobs)
    if method != ALONE:
        clusterer = method.removeprefix("anchors+")
        estimator = AnchorFairClustering(
            n_clusters, clusterer=clusterer, random_state=seed, n_jobs=jobs
        )
    return estimator.fit(X, sensitive_features=groups)


def fitted_and_measured(
    method: str, X: np.ndarray, groups: Any, options: Options
) -> tuple[Any, dict[str, Any]]:
    """The estimator of a method, and its row of the comparison."""
    # For libraries without ``n_jobs``, scikit-learn's k-means among them.
    with threadpool_limits(None if options["jobs"] == -1 else options["jobs"]):
        start = time.perf_counter()
        estimator = _fitted(method, X, groups, options)
        seconds = time.perf_counter() - start
    composition = composition_of(estimator.labels_, groups)
    # From exact proportions, and from the targets of the method.
    violation = max(composition.deviation, getattr(estimator, "worst_violation_", 0.0))
    is_plain = isinstance(estimator, KMeans)
    converged = estimator.n_iter_ < estimator.max_iter if is_plain else estimator.converged_
    return estimator, {
        "method": method,
        "cost": clustering_cost(X, estimator.labels_),
        **composition.entries,
        "smallest_cluster": int(composition.table.sum(axis=1).min()),
        "worst_violation": float(violation),
        "converged": bool(converged),
        "seconds": round(seconds, 4),
    }


def _remark(record: dict[str, Any]) -> str:
    """Why a method's results are to be read with care, or nothing."""
    if "error" in record:
        return f"failed: {record['error']}"
    remarks = [] if record["converged"] else ["did not converge"]
    if record["method"] != PLAIN and record["worst_violation"] >= 1.0:
        remarks.append(f"misses its proportions by {record['worst_violation']:.1f} rows")
    return ", ".join(remarks)


def method_lines(records: list[dict[str, Any]]) -> list[str]:
    """The comparison as a table."""
    width = max(len(record["method"]) for record in records) + 2
    heads = ("cost", "/ plain", "balance", "relative", "MNCE", "seconds")
    lines = [f"{'method':{width}}" + "".join(f"{head:>10}" for head in heads)]
    for record in records:
        numbers = ""
        if "error" not in record:
            relative = record.get("relative_cost")
            numbers = (
                f"{record['cost']:10.4g}{'' if relative is None else f'{relative:.3f}':>10}"
                f"{record['balance']:10.4f}{record['relative_balance']:10.4f}{record['mnce']:10.4f}"
                f"{record['seconds']:10.2f}  "
            )
        lines.append(f"{record['method']:{width}}{numbers}{_remark(record)}".rstrip())
    bounds = [record["balance_bound"] for record in records if "balance_bound" in record]
    if bounds:
        lines.append(f"No clustering of these rows has a balance above {bounds[0]:.4f}.")
    return lines


def _draw(records: list[dict[str, Any]], ax: Any) -> None:
    """Cost against balance of each method, plain k-means first: its cost counts as 1."""
    ordered = sorted(records, key=lambda record: record["method"] != PLAIN)
    results = [{"name": record["method"], **record} for record in ordered]
    plot_comparison(results, bound=records[0]["balance_bound"], ax=ax)


# The path of tolerances.


def _compare_path(run: Run, X: np.ndarray, groups: Any, options: Options) -> Comparison:
    """Fair k-means for each tolerance."""
    tolerances = options["tolerances"] or TOLERANCES
    suggested = None
    title = f"Fair k-means for {len(set(tolerances))} tolerances"
    with run.step("path", title), libraries_to_standard_error():
        path = fairness_path(
            X,
            groups,
            tolerances,
            n_clusters=options["n_clusters"],
            attributes=options["attributes"],
            n_jobs=options["jobs"],
            random_state=options["seed"],
        )
        if len(path.records) > 1:
            suggested = suggest_tolerance(path)
    summary = {
        "attributes": options["attributes"],
        "path": path.records,
        "suggested_tolerance": suggested,
        "seconds": run.timings["path"],
    }
    missed = [f"{r['tolerance']:g}" for r in path.records if r["violation"] >= 1.0]
    stopped = [f"{r['tolerance']:g}" for r in path.records if not r["converged"]]
    problems = []
    if missed:
        problems.append(f"Bounds missed by a row or more: tolerance {', '.join(missed)}.")
    if stopped:
        problems.append(f"Not converged: tolerance {', '.join(stopped)}.")
    lines = _path_lines(path.records, suggested)
    return summary, lines, problems, lambda ax: plot_fairness_path(path, ax=ax)


def _path_lines(records: list[dict[str, Any]], suggested: float | None) -> list[str]:
    loosest = records[-1]
    columns = list(records[0].get("attributes", {}))
    widths = [max(11, len(show_name(column)) + 2) for column in columns]
    heads = "".join(f"{head:>11}" for head in PATH_HEADS)
    names = zip(columns, widths, strict=True)
    lines = [heads + "".join(f"{show_name(column):>{width}}" for column, width in names)]
    for record in records:
        relative = f"{record['cost'] / loosest['cost']:.3f}" if loosest["cost"] > 0 else ""
        line = (
            f"{record['tolerance']:11g}{record['cost']:11.4g}{relative:>11}"
            f"{record['balance']:11.4f}{record['relative_balance']:11.4f}"
            f"{record['violation']:11.2f}"
        )
        for column, width in zip(columns, widths, strict=True):
            line += f"{record['attributes'][column]['relative_balance']:{width}.4f}"
        lines.append(line)
    if columns:
        lines.append(
            "Columns named like sensitive ones have their relative balance; the others are about "
            "the worst of them."
        )
    if suggested is not None:
        tolerance = loosest["tolerance"]
        of = f"{tolerance:g} ({'no constraint' if tolerance == 1.0 else 'the loosest one here'})"
        text = f"Tolerance {suggested:g} is the smallest that costs at most 5% more than {of}"
        if suggested == tolerance:
            text = f"No tighter tolerance costs at most 5% more than {of}"
        lines.append(f"{text}. This describes the curve; it is not a recommendation.")
    return lines
