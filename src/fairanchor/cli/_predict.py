"""``fairanchor predict``: clusters of new rows by a saved model."""

import click

from fairanchor.cli._common import (
    PATH,
    Run,
    check_outputs,
    composition_lines,
    count_rows,
    measures_line,
    measures_of,
    missing_option,
    missing_policy,
    open_input,
    run_options,
    show_source,
    table_options,
)


@click.command(
    short_help="Label new rows by a saved model.",
    epilog="Example: fairanchor predict people.npz new.csv --id person -o new-labels.csv",
)
@click.argument("model", type=PATH)
@click.argument("source", metavar="INPUT", type=PATH)
@click.option("--output", "-o", type=PATH, default="-", show_default=True,
              help="Labels, .csv, .tsv, .parquet or .arrow; - for standard output.")  # fmt: skip
@click.option("--id", "id_column", metavar="COLUMN", help="Copied to the output.")
@click.option("--soft", is_flag=True, help="Add the soft memberships to the labels.")
@click.option(
    "--regret",
    is_flag=True,
    help="Add how much farther (squared) each row's centre is than the nearest one.",
)
@click.option(
    "--unknown-groups",
    type=click.Choice(["error", "blind"]),
    default="error",
    show_default=True,
    help="Groups the model has not seen: refuse them, or use the population's average prices.",
)
@missing_option
@table_options
@click.option("--jobs", default=-1, show_default=True, type=int, help="Threads; -1: all cores.")
@run_options
def predict(model, source, output, id_column, unknown_groups, jobs, force, quiet, **options):
    """Label the rows of INPUT by MODEL, a file that 'fairanchor fit --model' wrote.

    INPUT needs the columns that the model was fitted to, the sensitive ones included: a row's
    cluster depends on its group. Rows are labelled one by one; that the composition of new rows is
    fair as well is likely, not guaranteed, so it is printed.
    """
    from fairanchor.tables._write import check_format

    run = Run(quiet)
    check_outputs(output, force=force, inputs=[source, model])
    check_format(output)
    with run.step("read", f"Reading {show_source(source)}"):
        estimator = _load_model(model, unknown_groups, jobs)
        loaded = _load(source, estimator, id_column, options)
    if loaded.n_dropped:
        run.say(
            f"Left out: {count_rows(loaded.n_dropped)} with missing values; they get no cluster."
        )
    with run.step("predict", f"Labelling {count_rows(len(loaded.X))}"):
        labels, table = _label(estimator, loaded, options)
    with run.step("write", f"Writing {output}"):
        _write(table, output, force)
    _say_composition(run, loaded, estimator, labels)


def _load_model(path, unknown_groups, jobs):
    from fairanchor._model_file import load_model

    estimator = load_model(path)
    if estimator.preprocessing_ is None:
        raise ValueError(
            f"{path} does not say how a table's columns become its {estimator.n_features_in_} "
            "features: it was saved from Python without preprocessing. Use it from there, with "
            "fairanchor.load_model."
        )
    return estimator.set_params(unknown_groups=unknown_groups, n_jobs=jobs)


def _load(source, estimator, id_column, options):
    from fairanchor.tables._load import load_for_predict

    policy = missing_policy(options["missing"])
    table = open_input(source, options["delimiter"], options["null_values"])
    return load_for_predict(
        table, estimator.preprocessing_, estimator.groups_, policy, id_column=id_column
    )


def _label(estimator, loaded, options):
    from fairanchor.cli._fit import regret_of

    groups = loaded.grouping.per_row()
    labels = estimator.predict(loaded.X, sensitive_features=groups)
    memberships = regret = None
    if options["soft"]:
        memberships = estimator.predict_proba(loaded.X, sensitive_features=groups)
    if options["regret"]:
        regret = regret_of(loaded.X, labels, estimator.cluster_centers_)
    return labels, loaded.labelled(labels, memberships=memberships, regret=regret)


def _write(table, output, force):
    from fairanchor.tables import write_table

    write_table(table, output, force=force)


def _say_composition(run, loaded, estimator, labels):
    from fairanchor.clusterers._base import count_cells

    names = loaded.grouping.names
    known = [name for name in estimator.groups_ if name in names]
    names = [*known, *(name for name in names if name not in known)]
    codes = loaded.grouping.codes_among(names)
    counts = count_cells(labels, codes, estimator.n_clusters, len(names))
    used = counts.sum(axis=1) > 0
    clusters = [cluster for cluster in range(estimator.n_clusters) if used[cluster]]
    for line in composition_lines(counts[used], names, clusters):
        run.say(line)
    run.say(f"\n{measures_line(measures_of(counts))}")
