"""``fairanchor predict``: clusters of new rows with a saved model."""

from dataclasses import replace
from typing import Any

import click

from fairanchor.cli._common import (
    PATH,
    Options,
    Run,
    attribute_lines,
    check_outputs,
    composition_entries,
    composition_lines,
    measures_line,
    print_json,
    shared,
    show_name,
    show_source,
)
from fairanchor.tables._wording import counted

MEASURES = ("balance", "balance_bound", "relative_balance", "mnce")


@click.command(
    short_help="Label new rows with a saved model.",
    epilog="Example: fairanchor predict people.npz new.csv --id person -o new-labels.csv",
)
@click.argument("model", type=PATH)
@click.argument("source", metavar="INPUT", type=PATH)
@shared("labels", "id")
@click.option(
    "--unknown-groups",
    type=click.Choice(["error", "blind"]),
    default="error",
    show_default=True,
    help="Groups that the model has not seen, or rows without groups: raise an error, or label "
    "them by the average dual variables of the population.",
)
@shared("missing", "delimiter", "json", "jobs", "force", "quiet")
def predict(model: str, source: str, **options: Any) -> None:
    """Label the rows of INPUT with MODEL, a file that 'fairanchor fit --model' wrote.

    INPUT needs the columns that the model was fitted to, the sensitive ones included: a row's
    cluster depends on its group. With --unknown-groups blind it may lack all sensitive columns;
    then sizes are printed. Rows are labelled one by one: a fair composition of new rows is likely,
    not guaranteed, so it is printed.

    The labels go to standard output without -o, unless --json is given.
    """
    from fairanchor.tables._load import check_id_name
    from fairanchor.tables._write import check_format, write_table

    if options["output"] is None and not options["as_json"]:
        options["output"] = "-"
    output = options["output"]
    run = Run(options["quiet"])
    check_outputs(options, inputs=[source, model])
    if output is not None:
        check_format(output)
    check_id_name(options["id_column"])
    with run.step("read", f"Reading {show_source(source)}"):
        estimator, loaded = load_with_model(model, source, options)
    run.say_dropped(loaded.n_dropped)
    with run.step("predict", f"Labelling {counted(len(loaded.X), 'row')}"):
        labels = estimator.predict(loaded.X, sensitive_features=loaded.sensitive_features())
    if output is not None:
        with run.step("write", f"Writing {output}"):
            write_table(loaded.labelled(labels), output, force=options["force"])
    summary = {
        "command": "predict",
        "input": source,
        "model": model,
        "n_rows": loaded.n_rows,
        "n_rows_left_out": loaded.n_dropped,
        **_composition(loaded, estimator, labels),
        "seconds": run.timings,
        "warnings": run.warnings,
    }
    run.say(*_lines(summary, estimator.preprocessing_.sensitive))
    if output is not None:
        run.say(f"labels: {output}")
    if options["as_json"]:
        print_json(summary | {"outputs": {} if output is None else {"labels": output}})


def load_with_model(model: str, source: str, options: Options) -> tuple[Any, Any]:
    """A saved estimator, and a table as it needs it."""
    from fairanchor.persistence import load_model
    from fairanchor.tables._load import load_for_predict
    from fairanchor.tables._read import open_table
    from fairanchor.tables._roles import MissingPolicy

    policy = MissingPolicy.of(options["missing"])
    estimator = load_model(model)
    if estimator.preprocessing_ is None:
        raise ValueError(
            f"{model} does not have the preprocessing from a table's columns to its "
            f"{estimator.n_features_in_} features: it was saved from Python without preprocessing. "
            "Use it there, with fairanchor.load_model."
        )
    if estimator.missing_groups == "own_group" and policy.groups == "error":
        policy = replace(policy, groups="own_group")
    estimator.set_params(
        unknown_groups=options["unknown_groups"],
        missing_groups=policy.missing_groups,
        n_jobs=options["jobs"],
    )
    loaded = load_for_predict(
        open_table(source, delimiter=options["delimiter"]),
        estimator.preprocessing_,
        estimator.groups_,
        policy,
        id_column=options["id_column"],
        groups_needed=options["unknown_groups"] != "blind",
    )
    return estimator, loaded


def _composition(loaded: Any, estimator: Any, labels: Any) -> dict[str, Any]:
    """Sizes, groups, counts and measures; None where groups are not known."""
    import numpy as np

    from fairanchor.cluster._base import unseen_combinations

    entries: dict[str, Any] = {
        "n_rows_blind": len(labels),
        "sizes": np.bincount(labels, minlength=len(estimator.cluster_centers_)),
        **dict.fromkeys(("groups", "counts", *MEASURES)),
    }
    if loaded.groups is None:
        return entries
    # Combinations of separate attributes may be new, as long as their parts are known.
    known = {
        *estimator.groups_,
        *unseen_combinations(estimator, loaded.sensitive_features()),
    }
    sizes = zip(loaded.groups.names, loaded.groups.sizes.tolist(), strict=True)
    names, counts = composition_of(loaded.groups, estimator, labels)
    entries |= {
        "n_rows_blind": sum(size for name, size in sizes if name not in known),
        **composition_entries(names, counts),
    }
    if hasattr(estimator, "attribute_groups_"):
        entries["attributes"] = _attributes_of(estimator, names, counts)
    return entries


def composition_of(groups: Any, estimator: Any, labels: Any) -> tuple[list[Any], Any]:
    """Groups of new rows, those that the model knows first, and the counts of their cells."""
    from fairanchor.groups._groups import count_cells

    n_clusters, names = len(estimator.cluster_centers_), groups.names.tolist()
    counts = count_cells(labels, groups.codes, n_clusters, groups.n_groups)
    order = [names.index(name) for name in estimator.groups_ if name in names]
    order += [code for code in groups.public_order.tolist() if code not in order]
    return [names[code] for code in order], counts[:, order]


def _attributes_of(estimator: Any, names: list[Any], counts: Any) -> dict[str, Any]:
    """Groups, counts and measures of each separate attribute."""
    import numpy as np

    known = estimator.attribute_groups_
    attributes = {}
    parts = [names] if len(known) == 1 else zip(*names, strict=True)
    for (column, known_groups), values in zip(known.items(), parts, strict=True):
        groups = list(dict.fromkeys([*(g for g in known_groups if g in values), *values]))
        table = counts @ np.array([[value == group for group in groups] for value in values])
        attributes[str(column)] = composition_entries(groups, table)
    return attributes


def _lines(summary: dict[str, Any], sensitive: tuple[str, ...]) -> list[str]:
    """Composition of the clusters that have rows; sizes if the groups are not known."""
    sizes, blind = summary["sizes"], counted(summary["n_rows_blind"], "row")
    if summary["counts"] is None:
        listed = (f"{cluster}: {counted(size, 'row')}" for cluster, size in enumerate(sizes))
        columns = ", ".join(map(show_name, sensitive))
        lines = [f"Clusters: {', '.join(listed)}."]
        if not sensitive:
            return lines
        return [
            *lines,
            f"Labelled without groups, by average prices: {blind}. The input does not have "
            f"{columns}, so the composition of the clusters is not known.",
        ]
    clusters = [cluster for cluster, size in enumerate(sizes) if size]
    lines = [
        *composition_lines(summary["counts"][clusters], summary["groups"], clusters),
        "",
        measures_line(summary),
        *attribute_lines(summary.get("attributes")),
    ]
    if summary["n_rows_blind"]:
        lines.append(f"Labelled by average prices: {blind} of unknown groups.")
    return lines
