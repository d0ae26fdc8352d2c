"""``fairanchor predict``: clusters of new rows by a saved model."""

import warnings
from dataclasses import replace
from typing import Any

import click

from fairanchor.cli._common import (
    MOST_CLUSTERS_IN_A_TABLE,
    PATH,
    Options,
    Run,
    attribute_lines,
    check_outputs,
    composition_lines,
    measures_line,
    measures_of,
    print_json,
    shared,
    show_name,
    show_source,
)
from fairanchor.tables._wording import counted

MEASURES = ("balance", "balance_bound", "relative_balance", "mnce")


@click.command(
    short_help="Label new rows by a saved model.",
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
    help="Groups that the model has not seen, or no groups: raise an error, or use the "
    "population's average prices.",
)
@shared("missing", "delimiter", "json", "jobs", "force", "quiet")
def predict(
    model: str,
    source: str,
    output: str | None,
    as_json: bool,
    force: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Label the rows of INPUT by MODEL, a file that 'fairanchor fit --model' wrote.

    INPUT needs the columns that the model was fitted to, the sensitive ones included: a row's
    cluster depends on its group. With --unknown-groups blind it may lack all sensitive columns;
    then sizes are printed. Rows are labelled one by one: a fair composition of new rows is likely,
    not guaranteed, so it is printed.

    The labels go to standard output without -o, unless --json asks for the summary there.
    """
    from fairanchor.tables._load import check_id_name
    from fairanchor.tables._write import check_format, write_table

    if output is None and not as_json:
        output = "-"
    run = Run(quiet)
    check_outputs(output, force=force, inputs=[source, model], as_json=as_json)
    if output is not None:
        check_format(output)
    check_id_name(options["id_column"])
    with run.step("read", f"Reading {show_source(source)}"):
        estimator, loaded = load_with_model(model, source, options)
        unknown = _unknown_groups(loaded, estimator)
    run.say_dropped(loaded.n_dropped)
    with run.step("predict", f"Labelling {counted(len(loaded.X), 'row')}"):
        labels = estimator.predict(loaded.X, sensitive_features=loaded.sensitive_features())
    if output is not None:
        with run.step("write", f"Writing {output}"):
            write_table(loaded.labelled(labels), output, force=force)
    summary = _summary(source, model, loaded, estimator, labels, unknown, run)
    run.say(*_composition_lines(summary), *_blind_lines(summary, estimator, unknown))
    if as_json:
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
    estimator.set_params(unknown_groups=options["unknown_groups"], n_jobs=options["jobs"])
    table = open_table(source, delimiter=options["delimiter"])
    loaded = load_for_predict(
        table,
        estimator.preprocessing_,
        estimator.groups_,
        policy,
        id_column=options["id_column"],
        groups_needed=options["unknown_groups"] != "blind",
    )
    if loaded.groups is None:
        _warn_of_similar(table, estimator.preprocessing_.sensitive)
    return estimator, loaded


def _warn_of_similar(table: Any, sensitive: tuple[str, ...]) -> None:
    """Warn of columns with similar names, since they are not used."""
    from fairanchor.exceptions import FairnessWarning
    from fairanchor.tables._roles import nearest

    for name in sensitive:
        near = nearest(name, table.columns)
        if near is not None:
            warnings.warn(
                f"{table.title} has no column {name!r}; did you mean {near!r}? Rows are labelled "
                "without groups.",
                FairnessWarning,
                stacklevel=2,
            )


def _unknown_groups(loaded: Any, estimator: Any) -> dict[Any, int]:
    """Rows of each group that the model does not have; an error unless they may be blind."""
    from fairanchor.cluster._attribute_report import unseen_combinations

    if loaded.groups is None:
        return {}
    sizes = zip(loaded.groups.names, loaded.groups.sizes.tolist(), strict=True)
    # Combinations of separate attributes may be new, as long as their parts are known.
    known = {*estimator.groups_, *unseen_combinations(estimator, loaded.sensitive_features())}
    unknown = {name: size for name, size in sizes if name not in known}
    if unknown and estimator.unknown_groups == "error":
        raise ValueError(
            f"{_unknown_in_words(estimator, unknown)} A group's prices are learned from its rows; "
            "--unknown-groups blind uses the average of the known ones instead."
        )
    return unknown


def _unknown_in_words(estimator: Any, unknown: dict[Any, int]) -> str:
    from fairanchor.cluster._attribute_report import unseen_values

    def with_rows(sizes: dict[Any, int]) -> str:
        most = list(sizes.items())[:5]
        return ", ".join(f"{show_name(name)} ({counted(size, 'row')})" for name, size in most)

    def listed(names: Any) -> str:
        return ", ".join(map(show_name, names[:20]))

    by_column = unseen_values(estimator, unknown)
    if by_column is None:
        return (
            f"{counted(len(unknown), 'group')} that the model has not seen: {with_rows(unknown)}. "
            f"It knows {listed(estimator.groups_)}."
        )
    number = counted(sum(map(len, by_column.values())), "value")
    columns = "; ".join(
        f"{with_rows(sizes)} in the column {show_name(column)}, whose groups are "
        f"{listed(estimator.attribute_groups_[column])}"
        for column, sizes in by_column.items()
    )
    return f"{number} that the model has not seen: {columns}."


def _summary(
    source: str,
    model: str,
    loaded: Any,
    estimator: Any,
    labels: Any,
    unknown: dict[Any, int],
    run: Run,
) -> dict[str, Any]:
    import numpy as np

    n_clusters = len(estimator.cluster_centers_)
    composition: dict[str, Any] = dict.fromkeys(("groups", "counts", *MEASURES))
    if loaded.groups is not None:
        names, counts = composition_of(loaded.groups, estimator, labels)
        composition = {"groups": names, "counts": counts, **measures_of(counts)}
        if hasattr(estimator, "attribute_groups_"):
            composition["attributes"] = _attributes_of(estimator, names, counts)
    return {
        "command": "predict",
        "input": source,
        "model": model,
        "n_rows": loaded.n_rows,
        "n_rows_left_out": loaded.n_dropped,
        "n_rows_blind": len(loaded.X) if loaded.groups is None else sum(unknown.values()),
        "sizes": np.bincount(labels, minlength=n_clusters),
        **composition,
        "seconds": run.timings,
        "warnings": run.warnings,
    }


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
        attributes[str(column)] = {"groups": groups, "counts": table, **measures_of(table)}
    return attributes


def _composition_lines(summary: dict[str, Any]) -> list[str]:
    """Composition of the clusters that have rows; sizes if the groups are not known."""
    counts, sizes = summary["counts"], summary["sizes"]
    clusters = [cluster for cluster, size in enumerate(sizes.tolist()) if size]
    if counts is not None:
        return [
            *composition_lines(counts[clusters], summary["groups"], clusters),
            "",
            measures_line(summary),
            *attribute_lines(summary.get("attributes")),
        ]
    rows: list[tuple[Any, int]] = [(c, int(sizes[c])) for c in clusters[:MOST_CLUSTERS_IN_A_TABLE]]
    lines = [
        f"{name:>7}{size:>13,}{size / sizes.sum():>10.2%}"
        for name, size in [*rows, ("all", int(sizes.sum()))]
    ]
    if len(clusters) > len(rows):
        left_out = counted(len(clusters) - len(rows), "more cluster")
        lines.insert(-1, f"{'...':>7}  {left_out} (--json has all)")
    return [f"{'cluster':>7}{'rows':>13}{'share':>10}", *lines]


def _blind_lines(summary: dict[str, Any], estimator: Any, unknown: dict[Any, int]) -> list[str]:
    """How many rows were labelled without regard to their groups."""
    from fairanchor.cluster._attribute_report import unseen_values

    number = counted(summary["n_rows_blind"], "row")
    if summary["groups"] is None:
        columns = ", ".join(map(show_name, estimator.preprocessing_.sensitive))
        return [
            "",
            f"Labelled without groups, by average prices: {number}. The input does not have "
            f"{columns}, so the composition of the clusters is not known.",
        ]
    if not unknown:
        return []
    by_column = unseen_values(estimator, unknown)
    n_groups = len(unknown) if by_column is None else sum(map(len, by_column.values()))
    return [f"Labelled by average prices: {number} of {counted(n_groups, 'unknown group')}."]
