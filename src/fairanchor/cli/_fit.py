"""``fairanchor fit``: from a table to fair clusters."""

import os
from dataclasses import replace
from typing import Any

import click

from fairanchor.cli._common import (
    CLUSTERERS,
    PATH,
    Options,
    Run,
    Share,
    attribute_lines,
    check_outputs,
    command_line,
    composition_entries,
    composition_lines,
    exit_with,
    file_checksums,
    load_table,
    measures_line,
    print_json,
    shared,
    show_name,
    show_source,
)
from fairanchor.cli._fit_directory import check_no_engine, engine_options, fit_directory
from fairanchor.cli._targets import check_targets_options, targets_of_file
from fairanchor.tables._wording import counted

# Entries of a summary, and the attributes of estimators that have them.
CERTIFICATES = {
    "lp_value": "lp_value_",
    "mass_error": "mass_error_",
    "duality_gap": "duality_gap_",
    "assignment_gap": "assignment_gap_",
    "n_iter": "n_iter_",
}


@click.command(
    short_help="Compute fair clusters of a table.",
    epilog=(
        "Example: fairanchor fit people.csv -k 5 --sensitive sex,race --id person -o labels.csv "
        "--model people.npz"
    ),
)
@click.argument("source", metavar="INPUT", type=PATH)
@shared("clusters", "groups", "features", "exclude", "id")
@click.option(
    "--clusterer",
    type=click.Choice(CLUSTERERS),
    default=CLUSTERERS[0],
    show_default=True,
    help="fair_kmeans clusters all rows by fair k-means; any other clusters anchors, and the "
    "anchor framework labels the rows.",
)
@click.option(
    "--tolerance",
    type=Share(),
    help="By how much shares may deviate: 0 requires exact shares, 1 sets no bound. The default is "
    "0, or 1 with --max-share or with bounds in --targets.",
)
@click.option("--max-share", type=Share(), metavar="SHARE",
              help="Largest share that any group may have of a cluster, such as 0.2. Alone it is "
              "the only constraint; with --tolerance, both apply.")  # fmt: skip
@shared("targets", "attributes", "min_size", "max_size", "missing", "delimiter", "labels")
@click.option("--model", type=PATH, help="Model file for 'fairanchor predict', .npz.")
@shared("report", "json", "seed", "jobs")
@engine_options
@shared("force", "quiet")
def fit(source: str, **options: Any) -> None:
    """Cluster the rows of INPUT so that every cluster mirrors the groups.

    With --min-size and --max-size the sizes of the clusters are bounded: with --sensitive in
    addition to the groups, without it by themselves.

    INPUT is CSV, TSV, Parquet or Arrow (Feather), also compressed by gzip; - is standard input.
    A directory of Parquet or Arrow files is read chunk by chunk, and its labels are a directory.
    Numeric columns are standardised and text columns become columns of 0 and 1. Sensitive columns
    are features only if --features names them.

    The labels keep the order of the rows: the id, or the row's number from 0, and the column
    'cluster'. Without -o they go to standard output, unless --json, --model or --report asks for
    something else.

    Exit code 3: the labels are written, but the fit did not converge, or a cell misses its target
    by a row or more; the message states which.
    """
    from fairanchor.persistence import save_model
    from fairanchor.tables._load import check_id_name
    from fairanchor.tables._write import check_format, write_table

    check_targets_options(options)
    _check_something_is_asked(options)
    if options["tolerance"] is None and options["targets"] is options["max_share"] is None:
        options["tolerance"] = 0.0
    run = Run(options["quiet"])
    if os.path.isdir(source):
        fit_directory(run, source, options)
        return
    check_no_engine(options)
    wants_nothing_else = not any(options[name] for name in ("as_json", "model", "report"))
    if options["output"] is None and wants_nothing_else:
        options["output"] = "-"
    check_outputs(options, "model", "report", inputs=[source, options["targets"]])
    if options["output"] is not None:
        check_format(options["output"])
        check_id_name(options["id_column"])

    with run.step("read", f"Reading {show_source(source)}"):
        loaded = load_table(source, options)
    _say_what_was_read(run, source, loaded)
    with run.step("fit", f"Clustering {counted(len(loaded.X), 'row')}"):
        estimator = new_estimator(options, _fairness(loaded, options))
        groups = loaded.sensitive_features(options["attributes"])
        estimator.fit(loaded.X, sensitive_features=groups)
    summary = summary_of(source, loaded, estimator, options, run)

    force = options["force"]
    if options["output"] is not None:
        with run.step("write", f"Writing {options['output']}"):
            write_table(loaded.labelled(estimator.labels_), options["output"], force=force)
    if options["model"] is not None:
        preprocessing = loaded.preprocessing
        save_model(estimator, options["model"], preprocessing=preprocessing, force=force)
    if options["report"] is not None:
        with run.step("report", f"Writing {options['report']}"):
            _write_report(source, loaded, estimator, options, run)
    finish(run, summary, options)


def _fairness(loaded: Any, options: Options) -> dict[str, Any]:
    """The estimator's parameters of the constraint."""
    columns = loaded.preprocessing.sensitive
    if options["targets"] is None:
        return fairness_without_file(options, len(columns))
    shape = options["n_clusters"], len(loaded.X)
    targets = targets_of_file(options, columns, loaded.groups.public_names, *shape)
    separate = options["attributes"] == "separate" and len(columns) > 1
    return {"fairness": targets if separate else targets[0], "tolerance": 0.0}


def fairness_without_file(options: Options, n_columns: int) -> dict[str, Any]:
    """The parameters of the constraint that `--tolerance`, `--max-share` and sizes state."""
    from fairanchor import FairnessTargets

    tolerance, least = options["tolerance"], options["min_cluster_size"]
    if options["max_size"] is options["max_share"] is None:
        return {"tolerance": tolerance, "min_cluster_size": least}
    shares = {"upper": options["max_share"], "tolerance": tolerance}
    first = FairnessTargets(**shares, min_size=least, max_size=options["max_size"])
    if options["attributes"] == "intersection" or n_columns < 2:
        return {"fairness": first}
    return {"fairness": [first, *(FairnessTargets(**shares) for _ in range(n_columns - 1))]}


def _check_something_is_asked(options: Options) -> None:
    """Raise an error for a fit without groups and without sizes."""
    is_asked = any(options[name] for name in ("sensitive", "min_cluster_size", "max_size"))
    needs_groups = options["targets"] or options["max_share"] is not None
    if not is_asked or (needs_groups and not options["sensitive"]):
        raise click.UsageError(
            "Missing option '--sensitive': name the column of the groups, or bound the sizes of "
            "the clusters with --min-size and --max-size, which needs no groups."
        )


def new_estimator(options: Options, fairness: dict[str, Any]) -> Any:
    """The estimator that the options describe."""
    from fairanchor import AnchorFairClustering, FairKMeans
    from fairanchor.tables._roles import MissingPolicy

    parameters = {
        **fairness,
        "attributes": options["attributes"],
        "missing_groups": MissingPolicy.of(options["missing"]).missing_groups,
        "n_jobs": options["jobs"],
        "random_state": options["seed"],
    }
    if options["clusterer"] == CLUSTERERS[0]:
        return FairKMeans(options["n_clusters"], **parameters)
    return AnchorFairClustering(options["n_clusters"], clusterer=options["clusterer"], **parameters)


def _say_what_was_read(run: Run, source: str, loaded: Any) -> None:
    groups, of_groups = loaded.groups, ""
    if groups is not None:
        shares = zip(groups.names[:6], groups.sizes / len(loaded.X), strict=False)
        listed = ", ".join(f"{show_name(name)} {share:.1%}" for name, share in shares)
        more = f" and {groups.n_groups - 6} more" if groups.n_groups > 6 else ""
        of_groups = f", {counted(groups.n_groups, 'group')}: {listed}{more}"
    run.say(
        f"{show_source(source)}: {counted(loaded.n_rows, 'row')}{of_groups}",
        f"Features: {loaded.preprocessing.describe()}.",
    )
    run.say_dropped(loaded.n_dropped)


def summary_of(
    source: str, loaded: Any, estimator: Any, options: Options, run: Run
) -> dict[str, Any]:
    """What ``--json`` prints about a fit to a `LoadedTable` or to `RowFiles`."""
    names = (
        "n_clusters", "clusterer", "tolerance", "max_share", "targets", "attributes",
        "min_cluster_size", "max_size", "missing", "seed", "jobs", "engine",
    )  # fmt: skip
    certificates = {
        name: getattr(estimator, attribute)
        for name, attribute in CERTIFICATES.items()
        if hasattr(estimator, attribute)
    }
    if hasattr(estimator, "anchors_"):
        certificates["n_anchors"] = len(estimator.anchors_)
    summary = {
        "command": "fit",
        "estimator": type(estimator).__name__,
        "input": source,
        "n_rows": loaded.n_rows,
        "n_rows_left_out": getattr(loaded, "n_dropped", 0),
        "sensitive": list(loaded.preprocessing.sensitive),
        "features": loaded.preprocessing.feature_names,
        **composition_entries(estimator.groups_, estimator.counts_, targets=estimator.targets_),
        "cost": estimator.inertia_,
        "converged": bool(estimator.converged_),
        "worst_violation": estimator.worst_violation_,
        **certificates,
        "parameters": {name: options[name] for name in names},
        "seconds": run.timings,
        "warnings": run.warnings,
    }
    if hasattr(estimator, "attribute_counts_"):
        summary["attributes"] = {
            str(name): composition_entries(
                estimator.attribute_groups_[name],
                counts,
                worst_violation=estimator.attribute_violations_[name],
            )
            for name, counts in estimator.attribute_counts_.items()
        }
    return summary


def report_parameters(source: str, loaded: Any, options: Options) -> dict[str, Any]:
    """How the table was read, for a report."""
    return {
        "input": source,
        "sensitive columns": ", ".join(loaded.preprocessing.sensitive),
        "feature columns": ", ".join(loaded.preprocessing.inputs),
        "missing values": ", ".join(options["missing"]),
    }


def _write_report(source: str, loaded: Any, estimator: Any, options: Options, run: Run) -> None:
    from fairanchor.report import summarise_run, write_report

    summary = summarise_run(
        estimator,
        loaded.X,
        sensitive_features=loaded.sensitive_features(options["attributes"]),
        title=f"Fair clusters of {show_source(source)}",
        feature_names=loaded.preprocessing.feature_names,
        timings=run.timings,
        warnings=run.warnings,
        n_rows_left_out=loaded.n_dropped,
    )
    parameters = report_parameters(source, loaded, options) | summary.parameters
    inputs = {"input": source, "targets": options["targets"]}
    summary = replace(
        summary,
        command=command_line(),
        parameters=parameters,
        columns=list(loaded.preprocessing.sensitive),
        fingerprints=file_checksums(inputs) or summary.fingerprints,
    )
    write_report(options["report"], summary, force=options["force"])


def finish(run: Run, summary: dict[str, Any], options: Options) -> None:
    """Print the result, and exit with code 3 if it is not what was asked for."""
    outputs = {"labels": options["output"], "model": options["model"], "report": options["report"]}
    written = {what: path for what, path in outputs.items() if path is not None}
    anchors = f"{counted(summary['n_anchors'], 'anchor')}, " if "n_anchors" in summary else ""
    run.say(
        "",
        *composition_lines(summary["counts"], summary["groups"] if summary["sensitive"] else ()),
        "",
        *([measures_line(summary)] if summary["sensitive"] else []),
        *attribute_lines(summary.get("attributes")),
        f"cost {summary['cost']:.6g}, {anchors}{sum(run.timings.values()):.1f} s",
        _certificates_line(summary),
        *(f"{what}: {path}" for what, path in written.items() if path != "-"),
    )
    if options["as_json"]:
        print_json(summary | {"outputs": written})
    exit_with(_problems(summary))


def _certificates_line(summary: dict[str, Any]) -> str:
    """How far the labels are from the targets and from the optimum."""
    line = (
        f"certificates: worst violation {summary['worst_violation']:.2f} rows, assignment gap "
        f"{summary['assignment_gap']:.2g}"
    )
    if "lp_value" in summary:
        line += f", linear program {summary['lp_value']:.6g}"
    if "mass_error" in summary:
        line += (
            f"; anchor graph: mass error {summary['mass_error']:.2g} rows, duality gap "
            f"{summary['duality_gap']:.2g}"
        )
    return line


def _problems(summary: dict[str, Any]) -> list[str]:
    """Why the exit code is 3; nothing if it is not."""
    problems = []
    if summary["worst_violation"] >= 1.0:
        problems.append(
            f"Target missed: the worst cell is {summary['worst_violation']:.1f} rows off."
        )
    if not summary["converged"]:
        reason = "the cost was still falling; a cheaper solution is likely"
        if "mass_error" in summary:
            reason = f"the mass error of the anchor graph is {summary['mass_error']:.1f} rows"
        problems.append(
            f"Not converged after {counted(summary['n_iter'], 'iteration')}: {reason}. The table "
            "above counts the labels as they are."
        )
    return problems
