"""``fairanchor fit``: from a table to fair clusters."""

import os

import click

from fairanchor.cli._common import (
    NOT_CONVERGED,
    PATH,
    FiniteRange,
    Run,
    check_outputs,
    check_report,
    composition_lines,
    count_rows,
    exit_with,
    jobs_option,
    load_table,
    measures_line,
    measures_of,
    missing_option,
    print_json,
    run_options,
    show_name,
    show_source,
    table_options,
)
from fairanchor.cli._fit_folder import check_no_engine, engine_options, fit_folder
from fairanchor.cli._targets import (
    attribute_lines,
    attributes_of,
    check_targets_options,
    fairness_of,
    sensitive_columns,
    targets_options,
)

FAIR_KMEANS = "fair_kmeans"
CLUSTERERS = (FAIR_KMEANS, "spfc", "vfc", "fmsc", "fairlets", "ffc", "bounded")
ANCHORS = ("kmeans", "fdas", "das", "random")
GRAPHS = ("local", "reconstruction")
FAIRNESS = ("population", "anchors", "anchors_sized")
# Options that only the anchor framework has, and what they are by default.
FRAMEWORK = {"graph": GRAPHS[0], "anchors": ANCHORS[0], "n_anchors": "auto"}
# Options of earlier versions, and what replaces them.
REMOVED = {
    "--refine": "--clusterer fair_kmeans, the default, iterates until it converges. To follow a "
    "fit of the anchor framework, use FairKMeans(init=model.cluster_centers_) in Python.",
    "--alpha": "--graph reconstruction chooses alpha by the data. To set it, use "
    "AnchorFairClustering(graph=ReconstructionGraph(alpha=...)) in Python.",
}
# Numbers of a summary by the attributes that have them, if the estimator does.
FIGURES = {
    "lp_value": "lp_value_",
    "mass_error": "mass_error_",
    "duality_gap": "duality_gap_",
    "assignment_gap": "assignment_gap_",
    "n_iter": "n_iter_",
}


class NumberOr(click.ParamType):
    """A whole number of at least 1, or ``auto`` where that is a choice.

    Parameters
    ----------
    no_auto : str, default=None
        Why ``auto`` is not a choice.
    """

    name = "number"

    def __init__(self, no_auto=None):
        self.no_auto = no_auto

    def convert(self, value, param, ctx):
        """Integer of the text, ``auto`` as it is."""
        if value != "auto":
            return click.IntRange(min=1).convert(value, param, ctx)
        if self.no_auto is not None:
            self.fail(self.no_auto, param, ctx)
        return value


def removed_options(command):
    """Options of earlier versions, which raise an error that names the new way."""
    for name, instead in REMOVED.items():
        command = click.option(
            name, hidden=True, expose_value=False, callback=_no_longer, help=instead
        )(command)
    return command


def _no_longer(context, parameter, value):
    if value is not None:
        raise click.UsageError(f"{parameter.opts[0]} does not exist any more: {parameter.help}")


@click.command(
    short_help="Cluster a table with fair groups.",
    epilog=(
        "Example: fairanchor fit people.csv -k 5 --sensitive sex,race --id person -o labels.csv "
        "--model people.npz"
    ),
)
@click.argument("source", metavar="INPUT", type=PATH)
@click.option("--clusters", "-k", "n_clusters", required=True, type=click.IntRange(min=1),
              help="Number of clusters.")  # fmt: skip
@click.option(
    "--sensitive",
    multiple=True,
    required=True,
    metavar="COLUMNS",
    help="Column, or columns separated by commas: their combinations are the groups.",
)
@click.option(
    "--features",
    multiple=True,
    metavar="COLUMNS",
    help="Columns to cluster by; by default all but the sensitive ones and the id.",
)
@click.option("--exclude", multiple=True, metavar="COLUMNS", help="Columns that are no features.")
@click.option("--id", "id_column", metavar="COLUMN", help="Copied to the output.")
@click.option(
    "--clusterer",
    type=click.Choice(CLUSTERERS),
    default=FAIR_KMEANS,
    show_default=True,
    help="fair_kmeans clusters all rows by fair k-means; any other clusters anchors, and the "
    "anchor framework labels the rows.",
)
@click.option("--anchors", type=click.Choice(ANCHORS), show_default=FRAMEWORK["anchors"],
              help="How the framework chooses anchors.")  # fmt: skip
@click.option("--n-anchors", type=NumberOr(), show_default=FRAMEWORK["n_anchors"],
              help="Number of anchors of the framework; auto: all rows up to 1,000, else 600, or "
              "more for many groups or clusters.")  # fmt: skip
@click.option("--graph", type=click.Choice(GRAPHS), show_default=FRAMEWORK["graph"],
              help="How the framework connects rows to anchors: by distance, or as convex "
              "combinations of anchors.")  # fmt: skip
@click.option(
    "--fairness",
    type=click.Choice(FAIRNESS),
    default=FAIRNESS[0],
    show_default=True,
    help="Every cluster mirrors the population; or, with the framework, each group is spread as "
    "its anchors are, with their counts or fitted to the sizes in the data.",
)
@click.option(
    "--tolerance",
    type=FiniteRange(min=0, max=1),
    help="By how much shares may differ: 0 (the default, unless --targets has bounds) asks for "
    "exact shares, 1 for nothing.",
)
@targets_options
@removed_options
@click.option("--no-scale", is_flag=True, help="Do not standardise numeric columns.")
@click.option("--min-group-size", type=click.IntRange(min=0), default=0, metavar="N",
              help="Merge groups of fewer rows into one, called 'other'.")  # fmt: skip
@click.option(
    "--min-cluster-size",
    type=NumberOr(no_auto="there is no automatic minimum any more: give a number, or nothing."),
    metavar="N",
    help="Least number of rows of a cluster; by default none.",
)
@missing_option
@table_options
@click.option("--output", "-o", type=PATH,
              help="Labels, .csv, .tsv, .parquet or .arrow; - for standard output.")  # fmt: skip
@click.option("--soft", is_flag=True,
              help="Add soft labels; only with the anchor framework.")  # fmt: skip
@click.option(
    "--regret",
    is_flag=True,
    help="Add how much farther (squared) each row's centre is than the nearest one.",
)
@click.option("--model", type=PATH, help="Model file for 'fairanchor predict', .npz.")
@click.option("--report", type=PATH, help="Report, .html.")
@click.option("--json", "as_json", is_flag=True, help="Summary as JSON on standard output.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0, max=2**32 - 1),
              help="The same seed gives the same labels.")  # fmt: skip
@jobs_option
@engine_options
@run_options
def fit(source, output, model, report, as_json, force, quiet, **options):
    """Cluster the rows of INPUT so that every cluster mirrors the groups.

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
    if options["tolerance"] is None and options["targets"] is None:
        options["tolerance"] = 0.0
    _complete_framework(options)
    check_targets_options(options)
    if os.path.isdir(source):
        fit_folder(source, output, model, report, as_json, force, quiet, options)
        return
    check_no_engine(options)
    if output is None and not (as_json or model or report):
        output = "-"
    if as_json and output == "-":
        raise click.UsageError("--json and -o - would both write to standard output.")
    run = Run(quiet)
    check_outputs(output, model, report, force=force, inputs=[source, options["targets"]])
    _check_request(output, report, options)

    with run.step("read", f"Reading {show_source(source)}"):
        loaded = load_table(source, options)
    _say_what_was_read(run, source, loaded)
    with run.step("fit", f"Clustering {count_rows(len(loaded.X))}"):
        estimator = new_estimator(loaded.preprocessing, options, *fairness_of(loaded, options))
        estimator.fit(loaded.X, sensitive_features=sensitive_columns(loaded, options))
    summary = summary_of(source, loaded, estimator, options, run)

    if output is not None:
        with run.step("write", f"Writing {output}"):
            _write_labels(output, loaded, estimator, options, force)
    if model is not None:
        save(estimator, loaded, model, force)
    if report is not None:
        with run.step("report", f"Writing {report}"):
            _write_report(report, source, loaded, estimator, options, run, force)
    finish(run, summary, {"labels": output, "model": model, "report": report}, as_json)


def _check_request(output, report, options):
    from fairanchor.tables._load import check_id_name
    from fairanchor.tables._write import check_format

    check_report(report)
    if report is not None:
        from fairanchor.report._render import import_libraries

        import_libraries()
    if output is not None:
        check_format(output)
        check_id_name(
            options["id_column"],
            options["n_clusters"],
            soft=options["soft"],
            regret=options["regret"],
        )


def _complete_framework(options):
    """Fill in the options of the anchor framework; without it they raise an error."""
    if options["clusterer"] != FAIR_KMEANS:
        options |= {name: options[name] or default for name, default in FRAMEWORK.items()}
        return
    given = [f"--{name.replace('_', '-')}" for name in FRAMEWORK if options[name] is not None]
    for name in FRAMEWORK:
        del options[name]
    if options["fairness"] != FAIRNESS[0]:
        given.append(f"--fairness {options['fairness']}")
    if options["soft"]:
        given.append("--soft")
    if given:
        others = ", ".join(CLUSTERERS[2:])
        raise click.UsageError(
            f"{given[0]} needs the anchor framework: add --clusterer {CLUSTERERS[1]} (or "
            f"{others}). --clusterer {FAIR_KMEANS}, the default, has neither anchors nor soft "
            "labels."
        )


def new_estimator(preprocessing, options, fairness, tolerance):
    """The estimator that the options describe."""
    from fairanchor import AnchorFairClustering, FairKMeans

    parameters = {
        "fairness": fairness,
        "tolerance": tolerance,
        "attributes": options["attributes"],
        "min_cluster_size": options["min_cluster_size"],
        "missing_groups": preprocessing.groups.missing,
        "n_jobs": options["jobs"],
        "random_state": options["seed"],
    }
    if options["clusterer"] == FAIR_KMEANS:
        return FairKMeans(options["n_clusters"], **parameters)
    parameters |= {name: options[name] for name in ("clusterer", *FRAMEWORK)}
    return AnchorFairClustering(options["n_clusters"], **parameters)


def _say_what_was_read(run, source, loaded):
    sizes = sorted(zip(-loaded.grouping.sizes, map(show_name, loaded.grouping.names), strict=True))
    n_groups = len(sizes)
    listed = ", ".join(f"{name} {-size / len(loaded.X):.1%}" for size, name in sizes[:6])
    more = f" and {n_groups - 6} more" if n_groups > 6 else ""
    run.say(
        f"{show_source(source)}: {count_rows(loaded.n_rows)}, {count_rows(n_groups, 'group')}: "
        f"{listed}{more}"
    )
    run.say(f"Features: {loaded.preprocessing.describe()}.")
    if loaded.n_dropped:
        run.say(
            f"Left out: {count_rows(loaded.n_dropped)} with missing values; they get no cluster."
        )


def summary_of(source, loaded, estimator, options, run):
    """What ``--json`` prints about a run."""
    preprocessing = loaded.preprocessing
    unsaid = ("sensitive", "features", "exclude", "delimiter", "null_values", "id_column")
    return {
        "command": "fit",
        "estimator": type(estimator).__name__,
        "input": source,
        "n_rows": loaded.n_rows,
        "n_rows_left_out": loaded.n_dropped,
        "sensitive": list(preprocessing.groups.columns),
        "features": preprocessing.feature_names,
        "standardised": preprocessing.scaled,
        "groups": estimator.groups_,
        "counts": estimator.counts_,
        "targets": estimator.targets_,
        **measures_of(estimator.counts_),
        "cost": estimator.inertia_,
        "converged": bool(estimator.converged_),
        "worst_violation": estimator.worst_violation_,
        **attributes_of(estimator),
        **_figures_of(estimator),
        "parameters": {name: value for name, value in options.items() if name not in unsaid},
        "seconds": run.timings,
        "warnings": run.warnings,
    }


def _figures_of(estimator):
    """Numbers that only some estimators have."""
    figures = {
        name: getattr(estimator, attribute)
        for name, attribute in FIGURES.items()
        if hasattr(estimator, attribute)
    }
    if hasattr(estimator, "anchors_"):
        figures["n_anchors"] = len(estimator.anchors_)
    return figures


def _write_labels(output, loaded, estimator, options, force):
    from fairanchor.tables import write_table

    memberships = regret = None
    if options["soft"]:
        groups = loaded.grouping.per_row()
        memberships = estimator.predict_proba(loaded.X, sensitive_features=groups)
    if options["regret"]:
        regret = regret_of(loaded.X, estimator.labels_, estimator.cluster_centers_)
    table = loaded.labelled(estimator.labels_, memberships=memberships, regret=regret)
    write_table(table, output, force=force)


def regret_of(X, labels, centers):
    """Squared distance to the own centre minus that to the nearest: what fairness cost a row."""
    import numpy as np

    own = np.empty(len(X))
    nearest = np.full(len(X), np.inf)
    for cluster, center in enumerate(centers):
        distances = ((X - center) ** 2).sum(axis=1)
        np.copyto(own, distances, where=labels == cluster)
        np.minimum(nearest, distances, out=nearest)
    return own - nearest


def save(estimator, loaded, path, force):
    """Write the model file."""
    from fairanchor.persistence import save_model

    save_model(estimator, path, preprocessing=loaded.preprocessing, force=force)


def _write_report(path, source, loaded, estimator, options, run, force):
    from fairanchor.cli._repeat import command_line
    from fairanchor.report import write_report
    from fairanchor.report._collect import summarise_table_run

    summary = summarise_table_run(
        estimator,
        loaded,
        source=source,
        options=options,
        command=command_line(),
        warnings=run.warnings,
        timings=run.timings,
    )
    write_report(path, summary, force=force)


def certificates_line(summary):
    """How far the labels are from the targets and from the optimum, as one line of text."""
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


def finish(run, summary, outputs, as_json):
    """Print the result, and exit with the code that it deserves."""
    written = {what: path for what, path in outputs.items() if path is not None}
    run.say()
    for line in composition_lines(summary["counts"], summary["groups"]):
        run.say(line)
    run.say(f"\n{measures_line(summary)}")
    for line in attribute_lines(summary):
        run.say(line)
    n_anchors = summary.get("n_anchors")
    anchors = "" if n_anchors is None else f"{count_rows(n_anchors, 'anchor')}, "
    run.say(f"cost {summary['cost']:.6g}, {anchors}{sum(run.timings.values()):.1f} s")
    run.say(certificates_line(summary))
    for what, path in written.items():
        if path != "-":
            run.say(f"{what}: {path}")
    if as_json:
        print_json(summary | {"outputs": written})
    problems = _problems(summary)
    for problem in problems:
        click.echo(problem, err=True)
    exit_with(NOT_CONVERGED if problems else 0)


def _problems(summary):
    """Why the exit code is 3; nothing if it is not."""
    problems = []
    if summary["worst_violation"] >= 1.0:
        problems.append(
            f"Target missed: the worst cell is {summary['worst_violation']:.1f} rows off."
        )
    if not summary["converged"]:
        iterations = f"Not converged after {count_rows(summary['n_iter'], 'iteration')}"
        if "mass_error" in summary:
            problems.append(
                f"{iterations}: the mass error of the anchor graph is {summary['mass_error']:.1f} "
                "rows. The table above counts the labels as they are."
            )
        else:
            problems.append(
                f"{iterations}: the cost was still falling. The table above counts the labels as "
                "they are; a cheaper solution is likely."
            )
    return problems
