"""``fairanchor predict``: clusters of new rows by a saved model."""

import click

from fairanchor.cli._common import (
    PATH,
    Run,
    check_outputs,
    composition_lines,
    count_rows,
    jobs_option,
    measures_line,
    measures_of,
    missing_option,
    missing_policy,
    open_input,
    print_json,
    run_options,
    show_name,
    show_source,
    table_options,
)
from fairanchor.cli._progress import seconds_to_label, seconds_to_read, seconds_to_write


@click.command(
    short_help="Label new rows by a saved model.",
    epilog="Example: fairanchor predict people.npz new.csv --id person -o new-labels.csv",
)
@click.argument("model", type=PATH)
@click.argument("source", metavar="INPUT", type=PATH)
@click.option("--output", "-o", type=PATH,
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
@click.option("--json", "as_json", is_flag=True, help="Summary as JSON on standard output.")
@jobs_option
@run_options
def predict(model, source, output, as_json, force, quiet, **options):
    """Label the rows of INPUT by MODEL, a file that 'fairanchor fit --model' wrote.

    INPUT needs the columns that the model was fitted to, the sensitive ones included: a row's
    cluster depends on its group. Rows are labelled one by one; that the composition of new rows is
    fair as well is likely, not guaranteed, so it is printed.

    The labels go to standard output without -o, unless --json asks for the summary there.
    """
    from fairanchor.tables._write import check_format

    if output is None and not as_json:
        output = "-"
    if as_json and output == "-":
        raise click.UsageError("--json and -o - would both write to standard output.")
    run = Run(quiet)
    check_outputs(output, force=force, inputs=[source, model])
    if output is not None:
        check_format(output)
    with run.step("read", f"Reading {show_source(source)}", expected=seconds_to_read(source)):
        estimator = _load_model(model, options)
        loaded = _load(source, estimator, options)
        _check_groups(loaded, estimator)
    if loaded.n_dropped:
        run.say(
            f"Left out: {count_rows(loaded.n_dropped)} with missing values; they get no cluster."
        )
    n_rows = len(loaded.X)
    with run.step("predict", f"Labelling {count_rows(n_rows)}", expected=seconds_to_label(n_rows)):
        labels, table = _label(estimator, loaded, options)
    if output is not None:
        with run.step("write", f"Writing {output}", expected=seconds_to_write(n_rows)):
            _write(table, output, force)
    summary = _summary(source, model, loaded, estimator, labels, run)
    _say_composition(run, summary)
    if as_json:
        print_json(summary | {"outputs": {} if output is None else {"labels": output}})


def _load_model(path, options):
    from fairanchor._model_file import load_model
    from fairanchor.tables._load import check_id_name

    estimator = load_model(path)
    if estimator.preprocessing_ is None:
        raise ValueError(
            f"{path} does not say how a table's columns become its {estimator.n_features_in_} "
            "features: it was saved from Python without preprocessing. Use it from there, with "
            "fairanchor.load_model."
        )
    check_id_name(
        options["id_column"],
        estimator.n_clusters,
        soft=options["soft"],
        regret=options["regret"],
    )
    return estimator.set_params(unknown_groups=options["unknown_groups"], n_jobs=options["jobs"])


def _load(source, estimator, options):
    from fairanchor.tables._load import load_for_predict

    policy = missing_policy(options["missing"])
    table = open_input(source, options["delimiter"], options["null_values"])
    return load_for_predict(
        table,
        estimator.preprocessing_,
        estimator.groups_,
        policy,
        id_column=options["id_column"],
    )


def _check_groups(loaded, estimator):
    """Refuse groups that the model does not have, unless they may be labelled all the same."""
    from fairanchor.clusterers._attribute_report import unseen_combinations

    if estimator.unknown_groups == "blind":
        return
    sizes = zip(loaded.grouping.names, loaded.grouping.sizes.tolist(), strict=True)
    # Of separate attributes combinations may be new, as long as their parts are known.
    known = {*estimator.groups_, *unseen_combinations(estimator, loaded.grouping.per_row())}
    unknown = [(name, size) for name, size in sizes if name not in known]
    if unknown:
        listed = ", ".join(f"{show_name(name)} ({count_rows(n)})" for name, n in unknown[:5])
        known = ", ".join(map(show_name, estimator.groups_[:20]))
        raise ValueError(
            f"{count_rows(len(unknown), 'group')} that the model has not seen: {listed}. It knows "
            f"{known}. A group's prices are learned from its rows; --unknown-groups blind uses "
            "the average of the known ones instead."
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


def _summary(source, model, loaded, estimator, labels, run):
    from fairanchor.clusterers._base import count_cells

    names = loaded.grouping.names
    known = [name for name in estimator.groups_ if name in names]
    names = [*known, *(name for name in names if name not in known)]
    codes = loaded.grouping.codes_among(names)
    counts = count_cells(labels, codes, estimator.n_clusters, len(names))
    return {
        "command": "predict",
        "input": source,
        "model": model,
        "n_rows": loaded.n_rows,
        "n_rows_left_out": loaded.n_dropped,
        "groups": names,
        "counts": counts,
        **measures_of(counts),
        "seconds": run.timings,
        "warnings": run.warnings,
    }


def _say_composition(run, summary):
    counts = summary["counts"]
    used = counts.sum(axis=1) > 0
    clusters = [cluster for cluster in range(len(counts)) if used[cluster]]
    for line in composition_lines(counts[used], summary["groups"], clusters):
        run.say(line)
    run.say(f"\n{measures_line(summary)}")
