"""``fairanchor predict``: clusters of new rows by a saved model."""

import click

from fairanchor.cli._common import (
    MOST_CLUSTERS_IN_A_TABLE,
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
from fairanchor.cli._targets import attribute_lines, attributes_of_new

MEASURES = ("balance", "balance_bound", "relative_balance", "mnce")


@click.command(
    short_help="Label new rows by a saved model.",
    epilog="Example: fairanchor predict people.npz new.csv --id person -o new-labels.csv",
)
@click.argument("model", type=PATH)
@click.argument("source", metavar="INPUT", type=PATH)
@click.option("--output", "-o", type=PATH,
              help="Labels, .csv, .tsv, .parquet or .arrow; - for standard output.")  # fmt: skip
@click.option("--id", "id_column", metavar="COLUMN", help="Copied to the output.")
@click.option("--soft", is_flag=True,
              help="Add soft labels; only for models of the anchor framework.")  # fmt: skip
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
    help="Groups that the model has not seen, or no groups: raise an error, or use the "
    "population's average prices.",
)
@missing_option
@table_options
@click.option("--json", "as_json", is_flag=True, help="Summary as JSON on standard output.")
@jobs_option
@run_options
def predict(model, source, output, as_json, force, quiet, **options):
    """Label the rows of INPUT by MODEL, a file that 'fairanchor fit --model' wrote.

    INPUT needs the columns that the model was fitted to, the sensitive ones included: a row's
    cluster depends on its group. With --unknown-groups blind it may lack all sensitive columns;
    then sizes are printed. Rows are labelled one by one: a fair composition of new rows is likely,
    not guaranteed, so it is printed.

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
    with run.step("read", f"Reading {show_source(source)}"):
        estimator = _load_model(model, options)
        loaded = _load(source, estimator, options)
        unknown = _unknown_groups(loaded, estimator)
    if loaded.n_dropped:
        run.say(
            f"Left out: {count_rows(loaded.n_dropped)} with missing values; they get no cluster."
        )
    n_rows = len(loaded.X)
    with run.step("predict", f"Labelling {count_rows(n_rows)}"):
        labels, table = _label(estimator, loaded, options)
    if output is not None:
        with run.step("write", f"Writing {output}"):
            _write(table, output, force)
    summary = _summary(source, model, loaded, estimator, labels, unknown, run)
    _say_composition(run, summary)
    _say_blind(run, summary, estimator, unknown)
    if as_json:
        print_json(summary | {"outputs": {} if output is None else {"labels": output}})


def _load_model(path, options):
    from fairanchor.persistence import load_model
    from fairanchor.tables._load import check_id_name

    estimator = load_model(path)
    if estimator.preprocessing_ is None:
        raise ValueError(
            f"{path} does not have the preprocessing from a table's columns to its "
            f"{estimator.n_features_in_} features: it was saved from Python without preprocessing. "
            "Use it there, with fairanchor.load_model."
        )
    if options["soft"] and not hasattr(estimator, "predict_proba"):
        raise click.UsageError(
            f"--soft: {path} is a model of {type(estimator).__name__}, which has no soft labels. "
            "'fairanchor fit --clusterer spfc' and the other clusterers of the anchor framework "
            "have."
        )
    check_id_name(
        options["id_column"],
        len(estimator.cluster_centers_),
        soft=options["soft"],
        regret=options["regret"],
    )
    return estimator.set_params(unknown_groups=options["unknown_groups"], n_jobs=options["jobs"])


def _load(source, estimator, options):
    from fairanchor.tables._load import load_for_predict

    policy = missing_policy(options["missing"])
    table = open_input(source, options["delimiter"], options["null_values"])
    loaded = load_for_predict(
        table,
        estimator.preprocessing_,
        estimator.groups_,
        policy,
        id_column=options["id_column"],
        groups_needed=options["unknown_groups"] != "blind",
    )
    if loaded.grouping is None:
        _warn_of_similar(table, estimator.preprocessing_.groups.columns)
    return loaded


def _warn_of_similar(table, sensitive):
    """Warn of columns whose names are similar, since they are not used."""
    import warnings

    from fairanchor.exceptions import FairnessWarning
    from fairanchor.tables._roles import nearest

    for name in sensitive:
        meant = nearest(name, table.columns)
        if meant != ".":
            warnings.warn(
                f"{table.title} has no column {name!r}{meant} Rows are labelled without groups.",
                FairnessWarning,
                stacklevel=2,
            )


def _unknown_groups(loaded, estimator):
    """Rows of each group that the model does not have; an error unless they may be blind."""
    from fairanchor.cluster._base import unseen_combinations

    if loaded.grouping is None:
        return {}
    sizes = zip(loaded.grouping.names, loaded.grouping.sizes.tolist(), strict=True)
    # Of separate attributes combinations may be new, as long as their parts are known.
    known = {*estimator.groups_, *unseen_combinations(estimator, loaded.grouping.per_row())}
    unknown = {name: size for name, size in sizes if name not in known}
    if unknown and estimator.unknown_groups == "error":
        raise ValueError(
            f"{_unknown_in_words(estimator, unknown)} A group's prices are learned from its rows; "
            "--unknown-groups blind uses the average of the known ones instead."
        )
    return unknown


def _unknown_in_words(estimator, unknown):
    from fairanchor.cluster._base import unseen_values

    by_column = unseen_values(estimator, unknown)
    if by_column is None:
        return (
            f"{count_rows(len(unknown), 'group')} that the model has not seen: "
            f"{_with_rows(unknown)}. It knows {_listed(estimator.groups_)}."
        )
    number = count_rows(sum(map(len, by_column.values())), "value")
    listed = "; ".join(
        f"{_with_rows(counts)} in the column {show_name(title)}, whose groups are "
        f"{_listed(estimator.attribute_groups_[title])}"
        for title, counts in by_column.items()
    )
    return f"{number} that the model has not seen: {listed}."


def _with_rows(unknown):
    most = list(unknown.items())[:5]
    return ", ".join(f"{show_name(name)} ({count_rows(size)})" for name, size in most)


def _listed(names):
    return ", ".join(map(show_name, names[:20]))


def _label(estimator, loaded, options):
    from fairanchor.cli._fit import regret_of

    groups = None if loaded.grouping is None else loaded.grouping.per_row()
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


def _summary(source, model, loaded, estimator, labels, unknown, run):
    import numpy as np

    blind = len(loaded.X) if loaded.grouping is None else sum(unknown.values())
    return {
        "command": "predict",
        "input": source,
        "model": model,
        "n_rows": loaded.n_rows,
        "n_rows_left_out": loaded.n_dropped,
        "n_rows_blind": blind,
        "sizes": np.bincount(labels, minlength=len(estimator.cluster_centers_)),
        **_composition(loaded.grouping, estimator, labels),
        "seconds": run.timings,
        "warnings": run.warnings,
    }


def _composition(grouping, estimator, labels):
    """Groups, counts and measures, of separate attributes as well; None if there are no groups."""
    from fairanchor.groups._groups import count_cells

    if grouping is None:
        return dict.fromkeys(("groups", "counts", *MEASURES))
    known = [name for name in estimator.groups_ if name in grouping.names]
    names = [*known, *(name for name in grouping.names if name not in known)]
    codes = grouping.codes_among(names)
    counts = count_cells(labels, codes, len(estimator.cluster_centers_), len(names))
    return {
        "groups": names,
        "counts": counts,
        **measures_of(counts),
        **attributes_of_new(estimator, names, counts),
    }


def _say_composition(run, summary):
    counts, sizes = summary["counts"], summary["sizes"]
    clusters = [cluster for cluster, size in enumerate(sizes.tolist()) if size]
    if counts is None:
        for line in _size_lines(sizes[clusters], clusters):
            run.say(line)
        return
    for line in composition_lines(counts[clusters], summary["groups"], clusters):
        run.say(line)
    run.say(f"\n{measures_line(summary)}")
    for line in attribute_lines(summary):
        run.say(line)


def _size_lines(sizes, clusters):
    """Rows of each cluster as text, where nothing is known of their groups."""
    rows = list(zip(clusters, sizes.tolist(), strict=True))
    shown = [*rows[:MOST_CLUSTERS_IN_A_TABLE], ("all", int(sizes.sum()))]
    lines = [f"{name:>7}{size:>13,}{size / sizes.sum():>10.2%}" for name, size in shown]
    if len(rows) > MOST_CLUSTERS_IN_A_TABLE:
        left_out = count_rows(len(rows) - MOST_CLUSTERS_IN_A_TABLE, "more cluster")
        lines.insert(-1, f"{'...':>7}  {left_out} (--json has all)")
    return [f"{'cluster':>7}{'rows':>13}{'share':>10}", *lines]


def _say_blind(run, summary, estimator, unknown):
    """How many rows were labelled without regard to their groups."""
    from fairanchor.cluster._base import unseen_values

    number = count_rows(summary["n_rows_blind"])
    if summary["groups"] is None:
        columns = ", ".join(map(show_name, estimator.preprocessing_.groups.columns))
        run.say(
            f"\nLabelled without groups, by average prices: {number}. The input does not have "
            f"{columns}, so the composition of the clusters is not known."
        )
    elif unknown:
        by_column = unseen_values(estimator, unknown)
        n_groups = len(unknown) if by_column is None else sum(map(len, by_column.values()))
        groups = count_rows(n_groups, "unknown group")
        run.say(f"Labelled by average prices: {number} of {groups}.")
