"""``fairanchor predict`` and ``fairanchor report``: new rows and a saved model."""

import os
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from fairanchor.cli import _common as common
from fairanchor.cli._common import Options
from fairanchor.cli._terminal import Run
from fairanchor.cluster._base import unseen_combinations
from fairanchor.groups._groups import count_cells, sorted_names
from fairanchor.persistence import load_model
from fairanchor.plotting._composition import Composition
from fairanchor.report import summarise_labels, write_report
from fairanchor.rows._chunks import read_ahead
from fairanchor.rows._label_files import check_names, write_label_files
from fairanchor.rows._row_files import RowFiles
from fairanchor.tables._load import LoadedTable, load, object_array, roles_for_predict
from fairanchor.tables._read import TableSource, open_table
from fairanchor.tables._roles import MissingPolicy
from fairanchor.tables._wording import counted
from fairanchor.tables._write import write_table


def run_predict(run: Run, options: Options) -> None:
    """Label the rows, write the labels, and print a summary."""
    if options["output"] is None and not options["as_json"]:
        options["output"] = "-"
    label = _label_directory if os.path.isdir(options["source"]) else _label_file
    labelled, n_left_out = label(run, options)
    output, sensitive = options["output"], labelled.estimator.preprocessing_.sensitive
    summary = {
        "command": "predict",
        "input": options["source"],
        "model": options["model"],
        "n_rows": int(labelled.sizes.sum()) + n_left_out,
        "n_rows_left_out": n_left_out,
        **labelled.summary(),
        "seconds": run.timings,
        "warnings": run.warnings,
    }
    run.say(*_lines(summary, sensitive), *([] if output is None else [f"labels: {output}"]))
    if options["as_json"]:
        common.print_json(summary | {"outputs": {} if output is None else {"labels": output}})


def _label_file(run: Run, options: Options) -> tuple["_Labelled", int]:
    """Label one file; returns what was labelled, and the number of other rows."""
    output = options["output"]
    common.check_outputs(options, table=output, inputs=[options["source"], options["model"]])
    estimator, loaded = load_with_model(run, options)
    labelled = _Labelled(estimator)
    with run.step("predict", f"Labelling {counted(len(loaded.X), 'row')}"):
        labels = labelled.labels_of(loaded)
    if output is not None:
        with run.step("write", f"Writing {output}"):
            write_table(loaded.labelled(labels), output, force=options["force"])
    return labelled, loaded.n_dropped


def _label_directory(run: Run, options: Options) -> tuple["_Labelled", int]:
    """Label the files of a directory: memory holds two pieces of a file."""
    common.check_directory(options)
    estimator, policy = _loaded_model(options)
    preprocessing, whole = estimator.preprocessing_, open_table(options["source"])
    roles = roles_for_predict(whole, preprocessing, blind=options["unknown_groups"] == "blind")
    files = RowFiles.of(whole.footers, roles.features, roles.sensitive, numbers=False)
    check_names([name for name, _ in files.parts])
    labelled, known = _Labelled(estimator), estimator.groups_

    def pieces() -> Iterator[LoadedTable]:
        for path, row, table in files.tables(0, files.n_rows):
            title = f"{path}, from row {row} on,"
            read = lambda columns, names, table=table: table.select(columns)  # noqa: E731
            piece = TableSource(title, table.column_names, read)
            yield load(piece, roles, policy, preprocessing=preprocessing, known=known)

    labels = map(labelled.labels_of, read_ahead(pieces()))
    with run.step("predict", f"Labelling {counted(files.n_rows, 'row')}"):
        if options["output"] is not None:
            write_label_files(options["output"], files.parts, labels, force=options["force"])
        else:
            deque(labels, maxlen=0)
    return labelled, 0


def load_with_model(run: Run, options: Options) -> tuple[Any, LoadedTable]:
    """A saved estimator, and a table as it needs it."""
    source = options["source"]
    with run.step("read", f"Reading {common.show_source(source)}"):
        estimator, policy = _loaded_model(options)
        preprocessing, known = estimator.preprocessing_, estimator.groups_
        table = open_table(source, delimiter=options["delimiter"])
        blind, id_column = estimator.unknown_groups == "blind", options.get("id_column")
        roles = roles_for_predict(table, preprocessing, id_column=id_column, blind=blind)
        loaded = load(table, roles, policy, preprocessing=preprocessing, known=known)
    run.say_dropped(loaded.n_dropped)
    return estimator, loaded


def _loaded_model(options: Options) -> tuple[Any, MissingPolicy]:
    """A saved estimator, and what is done about missing values."""
    policy, model = MissingPolicy.of(options["missing"]), options["model"]
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


class _Labelled:
    """Sizes and counts of what was labelled, piece by piece."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.sizes = np.zeros(len(estimator.cluster_centers_), dtype=np.int64)
        self.columns: dict[Any, np.ndarray] = {}  # rows of each cluster by group

    def labels_of(self, loaded: LoadedTable) -> np.ndarray:
        """Labels of a table, which are counted."""
        labels = self.estimator.predict(loaded.X, sensitive_features=loaded.sensitive_features())
        n_clusters, groups = len(self.sizes), loaded.groups
        self.sizes += np.bincount(labels, minlength=n_clusters)
        if groups is not None:
            counts = count_cells(labels, groups.codes, n_clusters, groups.n_groups)
            for name, column in zip(groups.names, counts.T, strict=True):
                self.columns[name] = self.columns.get(name, 0) + column
        return labels

    def summary(self) -> dict[str, Any]:
        """Sizes, groups, counts and measures; None where groups are not known."""
        if not self.columns:
            entries = dict.fromkeys(Composition(self.sizes[:, None], [], ["all"]).entries)
            return {"n_rows_blind": self.sizes.sum(), "sizes": self.sizes, **entries}
        names, known = list(self.columns), list(self.estimator.groups_)
        # Combinations of separate attributes may be new, as long as their parts are known.
        priced = {*known, *unseen_combinations(self.estimator, object_array(names))}
        n_blind = sum(int(self.columns[name].sum()) for name in names if name not in priced)
        ordered = [name for name in known if name in names]
        ordered += sorted_names([name for name in names if name not in known])
        counts = np.column_stack([self.columns[name] for name in ordered])
        composition = Composition(counts, list(range(len(counts))), ordered)
        entries = {"n_rows_blind": n_blind, "sizes": self.sizes, **composition.entries}
        attributes = getattr(self.estimator, "attribute_groups_", None)
        if attributes is not None:
            entries["attributes"] = {
                str(column): part.entries for column, part in composition.by_column(attributes)
            }
        return entries


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
        *common.measures_lines(summary),
    ]
    if summary["n_rows_blind"]:
        lines.append(f"Labelled by average prices: {blind} of unknown groups.")
    return lines


def run_report(run: Run, options: Options) -> None:
    """Label the rows and write the report."""
    source, model, output = options["source"], options["model"], options["report"]
    common.check_outputs(options, output, inputs=[source, model])
    estimator, loaded = load_with_model(run, options)
    groups = loaded.sensitive_features()
    if groups is None:
        raise ValueError(
            f"{model} was fitted without groups, whose composition the report is about: fit with "
            "--sensitive, or audit the labels of 'fairanchor predict'."
        )
    with run.step("report", f"Writing {output}"):
        summary = summarise_labels(
            estimator.predict(loaded.X, sensitive_features=groups),
            sensitive_features=groups,
            title=f"Clusters of {common.show_source(source)} by {model}",
            missing_groups="own_group",
        )
        summary.columns = list(estimator.preprocessing_.sensitive)
        summary.features = loaded.X
        summary.feature_names = loaded.preprocessing.feature_names
        summary.parameters = {"model": model, "estimator": type(estimator).__name__}
        summary.parameters |= estimator.get_params(deep=False)
        summary.warnings, summary.n_rows_left_out = run.warnings, loaded.n_dropped
        summary.command = common.command_line()
        summary.fingerprints = common.file_checksums({"model": model, "input": source})
        summary.uses_sensitive_for_prediction = True
        write_report(output, summary, force=options["force"])
    run.say(f"report: {output}")
