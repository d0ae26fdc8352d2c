"""``fairanchor predict``: clusters of new rows with a saved model."""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
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

    The labels go to standard output without -o, unless --json is given. A directory of Parquet or
    Arrow files is read piece by piece, and its labels are a directory.
    """
    from fairanchor.tables._load import check_id_name
    from fairanchor.tables._write import check_format, write_table

    if os.path.isdir(source):
        _predict_directory(model, source, options)
        return
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
    totals = _Totals(estimator)
    run.say_dropped(loaded.n_dropped)
    with run.step("predict", f"Labelling {counted(len(loaded.X), 'row')}"):
        labels = totals.labels_of(loaded)
    if output is not None:
        with run.step("write", f"Writing {output}"):
            write_table(loaded.labelled(labels), output, force=options["force"])
    rows = {"n_rows": loaded.n_rows, "n_rows_left_out": loaded.n_dropped}
    _finish(run, model, source, totals, rows, options)


def _predict_directory(model: str, directory: str, options: Options) -> None:
    """``fairanchor predict`` of a directory: memory holds two pieces of a file."""
    from fairanchor.cli._fit import open_files
    from fairanchor.rows._chunks import read_ahead
    from fairanchor.rows._label_files import check_folder, check_names, write_label_files
    from fairanchor.rows._row_files import Footers, RowFiles
    from fairanchor.tables._load import load_for_predict, roles_for_predict
    from fairanchor.tables._read import TableSource

    output = options["output"]
    for is_wrong, message in [
        (options["id_column"] is not None, "--id is for a single file."),
        (options["delimiter"] is not None, "--delimiter is for a single file."),
        ("drop-rows" in options["missing"], "--missing drop-rows is for a single file."),
        (
            output == "-" or not (output or options["as_json"]),
            "Labels of a directory are a directory: name it with -o.",
        ),
    ]:
        if is_wrong:
            raise click.UsageError(message)
    if output is not None:
        real, outside = os.path.realpath(output), os.path.realpath(directory)
        if os.path.commonpath([real, outside]) in (real, outside):
            raise click.UsageError(f"-o {output} and INPUT {directory} overlap.")
        check_folder(output, force=options["force"])
    run = Run(options["quiet"])
    estimator, policy = _loaded_model(model, options)
    footers = Footers.of(open_files(directory))
    is_blind = options["unknown_groups"] == "blind"
    whole = TableSource(directory, footers.names, lambda columns, names: None)
    roles = roles_for_predict(whole, estimator.preprocessing_, groups_needed=not is_blind)
    files = RowFiles.of(footers, roles.features, roles.sensitive, numbers=False)
    check_names([name for name, _ in files.parts])
    totals = _Totals(estimator)

    def pieces() -> Iterator[Any]:
        for path, row, table in files.tables(0, files.n_rows):
            title, read = f"{path}, from row {row} on,", partial(_selected, table)
            source = TableSource(title, table.column_names, read)
            yield load_for_predict(
                source, estimator.preprocessing_, estimator.groups_, policy, roles=roles
            )

    labels: Iterable[Any] = map(totals.labels_of, read_ahead(pieces()))
    with run.step("predict", f"Labelling {counted(files.n_rows, 'row')}"):
        if output is not None:
            write_label_files(output, files.parts, labels, force=options["force"])
        else:
            deque(labels, maxlen=0)
    rows = {"n_rows": files.n_rows, "n_rows_left_out": 0}
    _finish(run, model, directory, totals, rows, options)


def _selected(table: Any, columns: list[str], names: set[str]) -> Any:
    return table.select(columns)


def _finish(
    run: Run, model: str, source: str, totals: "_Totals", rows: dict[str, int], options: Options
) -> None:
    """Print what was found."""
    output = options["output"]
    summary = {
        "command": "predict", "input": source, "model": model, **rows, **totals.entries(),
        "seconds": run.timings, "warnings": run.warnings,
    }  # fmt: skip
    run.say(*_lines(summary, totals.estimator.preprocessing_.sensitive))
    if output is not None:
        run.say(f"labels: {output}")
    if options["as_json"]:
        print_json(summary | {"outputs": {} if output is None else {"labels": output}})


def load_with_model(model: str, source: str, options: Options) -> tuple[Any, Any]:
    """A saved estimator, and a table as it needs it."""
    from fairanchor.tables._load import load_for_predict, roles_for_predict
    from fairanchor.tables._read import open_table

    estimator, policy = _loaded_model(model, options)
    table = open_table(source, delimiter=options["delimiter"])
    roles = roles_for_predict(
        table,
        estimator.preprocessing_,
        id_column=options["id_column"],
        groups_needed=options["unknown_groups"] != "blind",
    )
    loaded = load_for_predict(
        table, estimator.preprocessing_, estimator.groups_, policy, roles=roles
    )
    return estimator, loaded


def _loaded_model(model: str, options: Options) -> tuple[Any, Any]:
    """A saved estimator, and what is done about missing values."""
    from fairanchor.persistence import load_model
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
    return estimator, policy


class _Totals:
    """Sizes and counts of what was labelled, piece by piece."""

    def __init__(self, estimator: Any) -> None:
        self.estimator, self.n_blind = estimator, 0
        self.sizes: Any = 0
        self.cells: dict[Any, Any] = {}

    def labels_of(self, loaded: Any) -> Any:
        """Labels of a table, which are counted."""
        import numpy as np

        from fairanchor.cluster._base import unseen_combinations

        estimator, sensitive = self.estimator, loaded.sensitive_features()
        labels = estimator.predict(loaded.X, sensitive_features=sensitive)
        self.sizes += np.bincount(labels, minlength=len(estimator.cluster_centers_))
        if loaded.groups is None:
            self.n_blind += len(labels)
            return labels
        # Combinations of separate attributes may be new, as long as their parts are known.
        known = {*estimator.groups_, *unseen_combinations(estimator, sensitive)}
        names, counts = composition_of(loaded.groups, estimator, labels)
        for name, own in zip(names, counts.T, strict=True):
            self.cells[name] = self.cells.get(name, 0) + own
            self.n_blind += 0 if name in known else int(own.sum())
        return labels

    def entries(self) -> dict[str, Any]:
        """Sizes, groups, counts and measures; None where groups are not known."""
        import numpy as np

        entries: dict[str, Any] = {
            "n_rows_blind": self.n_blind,
            "sizes": self.sizes,
            **dict.fromkeys(("groups", "counts", *MEASURES)),
        }
        if not self.cells:
            return entries
        names = [name for name in self.estimator.groups_ if name in self.cells]
        names += [name for name in self.cells if name not in names]
        counts = np.column_stack([self.cells[name] for name in names])
        entries |= composition_entries(names, counts)
        if hasattr(self.estimator, "attribute_groups_"):
            entries["attributes"] = _attributes_of(self.estimator, names, counts)
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
