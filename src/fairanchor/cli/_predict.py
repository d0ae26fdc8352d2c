"""``fairanchor predict``: clusters of new rows with a saved model."""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import click

from fairanchor.cli import _common as common
from fairanchor.cli._common import PATH, Options, shared
from fairanchor.cli._terminal import Run, print_json
from fairanchor.tables._wording import counted


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
    run = Run(options["quiet"])
    if options["output"] is None and not options["as_json"]:
        options["output"] = "-"
    of_input = _of_directory if os.path.isdir(source) else _of_file
    totals, rows = of_input(run, model, source, options)
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


def _of_file(
    run: Run, model: str, source: str, options: Options
) -> tuple["_Totals", dict[str, int]]:
    """Label one file; returns the totals, and how many rows there are."""
    from fairanchor.tables._write import write_table

    output = options["output"]
    common.check_outputs(options, table=output, inputs=[source, model])
    estimator, loaded = load_with_model(run, model, source, options)
    totals = _Totals(estimator)
    with run.step("predict", f"Labelling {counted(len(loaded.X), 'row')}"):
        labels = totals.labels_of(loaded)
    if output is not None:
        with run.step("write", f"Writing {output}"):
            write_table(loaded.labelled(labels), output, force=options["force"])
    return totals, {"n_rows": loaded.n_rows, "n_rows_left_out": loaded.n_dropped}


def _of_directory(
    run: Run, model: str, directory: str, options: Options
) -> tuple["_Totals", dict[str, int]]:
    """Label a directory: memory holds two pieces of a file."""
    from fairanchor.rows._chunks import read_ahead
    from fairanchor.rows._label_files import check_names, write_label_files
    from fairanchor.rows._row_files import RowFiles
    from fairanchor.tables._load import load, roles_for_predict
    from fairanchor.tables._read import TableSource, open_table

    output = options["output"]
    common.check_directory(directory, options)
    estimator, policy = _loaded_model(model, options)
    preprocessing, known = estimator.preprocessing_, estimator.groups_
    whole = open_table(directory)
    roles = roles_for_predict(whole, preprocessing, blind=options["unknown_groups"] == "blind")
    files = RowFiles.of(whole.footers, roles.features, roles.sensitive, numbers=False)
    check_names([name for name, _ in files.parts])
    totals = _Totals(estimator)

    def pieces() -> Iterator[Any]:
        for path, row, table in files.tables(0, files.n_rows):
            title = f"{path}, from row {row} on,"
            read = lambda columns, names, table=table: table.select(columns)  # noqa: E731
            piece = TableSource(title, table.column_names, read)
            yield load(piece, roles, policy, preprocessing=preprocessing, known=known)

    labels: Iterable[Any] = map(totals.labels_of, read_ahead(pieces()))
    with run.step("predict", f"Labelling {counted(files.n_rows, 'row')}"):
        if output is not None:
            write_label_files(output, files.parts, labels, force=options["force"])
        else:
            deque(labels, maxlen=0)
    return totals, {"n_rows": files.n_rows, "n_rows_left_out": 0}


def load_with_model(run: Run, model: str, source: str, options: Options) -> tuple[Any, Any]:
    """A saved estimator, and a table as it needs it."""
    from fairanchor.tables._load import load, roles_for_predict
    from fairanchor.tables._read import open_table

    with run.step("read", f"Reading {common.show_source(source)}"):
        estimator, policy = _loaded_model(model, options)
        preprocessing, table = (
            estimator.preprocessing_,
            open_table(source, delimiter=options["delimiter"]),
        )
        blind = estimator.unknown_groups == "blind"
        roles = roles_for_predict(
            table, preprocessing, id_column=options.get("id_column"), blind=blind
        )
        known = estimator.groups_
        loaded = load(table, roles, policy, preprocessing=preprocessing, known=known)
    run.say_dropped(loaded.n_dropped)
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
    if estimator.missing_groups == "own_group" and "drop-rows" not in policy.choices:
        policy = MissingPolicy.of({*policy.choices, "own-group"} - {"error"})
    estimator.set_params(
        unknown_groups=options.get("unknown_groups", "error"),
        missing_groups=policy.groups,
        n_jobs=options.get("jobs", -1),
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

        measures = ("groups", "counts", "balance", "balance_bound", "relative_balance", "mnce")
        entries: dict[str, Any] = {"n_rows_blind": self.n_blind, "sizes": self.sizes}
        entries |= dict.fromkeys(measures)
        if not self.cells:
            return entries
        names = [name for name in self.estimator.groups_ if name in self.cells]
        names += [name for name in self.cells if name not in names]
        counts = np.column_stack([self.cells[name] for name in names])
        entries |= common.composition_entries(names, counts)
        known = getattr(self.estimator, "attribute_groups_", None)
        if known is not None:
            entries["attributes"] = {}
            parts = [names] if len(known) == 1 else zip(*names, strict=True)
            for (column, known_groups), values in zip(known.items(), parts, strict=True):
                groups = list(dict.fromkeys([*(g for g in known_groups if g in values), *values]))
                is_in = np.array([[value == group for group in groups] for value in values])
                entries["attributes"][str(column)] = common.composition_entries(
                    groups, counts @ is_in
                )
        return entries


def composition_of(groups: Any, estimator: Any, labels: Any) -> tuple[list[Any], Any]:
    """Groups of new rows, those that the model knows first, and the counts of their cells."""
    from fairanchor.groups._groups import count_cells

    n_clusters, names = len(estimator.cluster_centers_), groups.names.tolist()
    counts = count_cells(labels, groups.codes, n_clusters, groups.n_groups)
    order = [names.index(name) for name in estimator.groups_ if name in names]
    order += [code for code in groups.public_order.tolist() if code not in order]
    return [names[code] for code in order], counts[:, order]


def _lines(summary: dict[str, Any], sensitive: tuple[str, ...]) -> list[str]:
    """Composition of the clusters that have rows; sizes if the groups are not known."""
    sizes, blind = summary["sizes"], counted(summary["n_rows_blind"], "row")
    if summary["counts"] is None:
        listed = (f"{cluster}: {counted(size, 'row')}" for cluster, size in enumerate(sizes))
        lines = [f"Clusters: {', '.join(listed)}."]
        if sensitive:
            columns = ", ".join(map(common.show_name, sensitive))
            lines.append(
                f"Labelled without groups, by average prices: {blind}. The input does not have "
                f"{columns}, so the composition of the clusters is not known."
            )
        return lines
    clusters = [cluster for cluster, size in enumerate(sizes) if size]
    lines = [
        *common.composition_lines(summary["counts"][clusters], summary["groups"], clusters),
        "",
        common.measures_line(summary),
        *common.attribute_lines(summary.get("attributes")),
    ]
    if summary["n_rows_blind"]:
        lines.append(f"Labelled by average prices: {blind} of unknown groups.")
    return lines
