"""``--targets`` of fit and audit: shares, bounds and sizes in a file.

The file is a table (CSV), or a list of objects (JSON) with the same names. The columns named like
the sensitive ones give the group of a line, ``cluster`` its cluster; empty means all. ``share``,
``lower`` and ``upper`` are about a group, ``min_size`` and ``max_size`` about a cluster.
"""

import json
import math
import os
from collections.abc import Sequence
from typing import Any

import click

from fairanchor.cli._common import Options

SHARES = ("share", "lower", "upper")
SIZES = ("min_size", "max_size")
CLUSTER = "cluster"


def check_targets_options(options: Options) -> None:
    """Raise an error for options that contradict ``--targets``, and for a wrong file."""
    path = options["targets"]
    if path is None:
        return
    options_of_columns = {
        "min_size": "min_cluster_size",
        "max_size": "max_size",
        "upper": "max_share",
    }
    for column, name in options_of_columns.items():
        if options.get(name) is not None:
            option = "max-share" if name == "max_share" else column.replace("_", "-")
            raise click.UsageError(
                f"--{option} and --targets: state it in the column {column} of the file."
            )
    if not path.lower().endswith((".csv", ".json")):
        raise click.UsageError(f"--targets {path}: expected a .csv or a .json file.")
    if not os.path.isfile(path):
        raise click.UsageError(f"--targets {path}: there is no such file.")


def targets_of_file(
    options: Options,
    columns: Sequence[str],
    group_names: Sequence[Any],
    n_clusters: int,
    n_rows: int,
) -> list[Any]:
    """`FairnessTargets` of ``--targets``, one for each attribute.

    The groups are the combinations of the sensitive columns.
    """
    path = options["targets"]
    attributes = [_Attribute(tuple(columns), list(group_names), n_clusters)]
    if options["attributes"] == "separate" and len(columns) > 1:
        attributes = [
            _Attribute((column,), list(dict.fromkeys(names)), n_clusters)
            for column, names in zip(columns, zip(*group_names, strict=True), strict=True)
        ]
    known = (*columns, CLUSTER, *SHARES, *SIZES)
    for number, record in enumerate(_read_records(path), start=1):
        where = f"{path}, entry {number}"
        unknown = [name for name in record if name not in known]
        if unknown:
            raise ValueError(
                f"{where} has {unknown[0]!r}: expected the sensitive columns "
                f"({', '.join(columns)}), {', '.join(known[len(columns) :])}."
            )
        named = [part for part in attributes if set(part.columns) & set(record)]
        if len(named) > 1:
            raise ValueError(
                f"{where} names groups of {len(named)} columns: with --attributes separate a line "
                "is about one of them."
            )
        (named or attributes)[0].add(record, where)
    try:
        return [part.targets(options["tolerance"], n_rows) for part in attributes]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_records(path: str) -> list[dict[str, Any]]:
    """Lines of a file of targets, without empty values."""
    if path.lower().endswith(".json"):
        with open(path, encoding="utf-8") as file:
            try:
                records = json.load(file)
            except ValueError as error:
                raise ValueError(f"{path} is not valid JSON: {error}.") from None
        if not isinstance(records, list) or not all(isinstance(line, dict) for line in records):
            raise ValueError(
                f'{path} should hold a list of objects such as {{"sex": "f", "lower": 0.3}}, one '
                "for each bound."
            )
    else:
        from fairanchor.tables import open_table

        source = open_table(path)
        records = source.read(source.columns, names=source.columns).to_pylist()
    return [{k: v for k, v in line.items() if v is not None and v != ""} for line in records]


class _Attribute:
    """The targets of a file for one attribute, whose groups are combinations of columns."""

    def __init__(self, columns: tuple[str, ...], names: list[Any], n_clusters: int) -> None:
        self.columns = columns
        self.names = names
        self.n_clusters = n_clusters
        # From (kind, group) to one value per cluster; the group is None for sizes.
        self.values: dict[tuple[str, Any], list[float | None]] = {}

    def add(self, record: dict[str, Any], where: str) -> None:
        """Enter one line of the file."""
        about_group = bool(set(self.columns) & set(record))
        kinds, others = (SHARES, SIZES) if about_group else (SIZES, SHARES)
        for kind in others:
            if kind in record:
                what = "a group" if about_group else "a cluster as a whole"
                raise ValueError(f"{where} has {kind!r}, but is about {what}.")
        if not set(kinds) & set(record):
            raise ValueError(f"{where} has no target: expected {', '.join(kinds)}.")
        group = self._group(record, where) if about_group else None
        clusters: Sequence[int] = range(self.n_clusters)
        if CLUSTER in record:
            number = _number(record, CLUSTER, where)
            if number not in clusters:
                raise ValueError(
                    f"{where} has the cluster {record[CLUSTER]}, expected 0..{self.n_clusters - 1} "
                    "or nothing for all."
                )
            clusters = [int(number)]
        for kind in set(kinds) & set(record):
            values = self.values.setdefault((kind, group), [None] * self.n_clusters)
            for cluster in clusters:
                if values[cluster] is not None:
                    of = f"group {group!r} in " if about_group else ""
                    raise ValueError(f"{where}: {kind} of {of}cluster {cluster} is given twice.")
                values[cluster] = _number(record, kind, where)

    def _group(self, record: dict[str, Any], where: str) -> Any:
        """The group's name as the data have it; text files have no types."""
        from fairanchor.tables._load import spelling

        for column in self.columns:
            if column not in record:
                raise ValueError(
                    f"{where} lacks a value of {column!r}: groups are combinations of "
                    f"{', '.join(self.columns)}."
                )
        parts = tuple(record[column] for column in self.columns)
        wanted = spelling(parts if len(parts) > 1 else parts[0])
        for name in self.names:
            if spelling(name) == wanted:
                return name
        known = ", ".join(map(str, self.names[:20]))
        raise ValueError(f"{where} names the group {wanted!r}, the data have {known}.")

    def targets(self, tolerance: float | None, n_rows: int) -> Any:
        """`FairnessTargets` of the lines so far."""
        from fairanchor import FairnessTargets

        # What every cluster satisfies, where no bound is given; shares have no such value.
        no_bound = {"lower": 0.0, "upper": 1.0, "min_size": 0.0, "max_size": float(n_rows)}
        parameters: dict[str, Any] = {}
        for (kind, group), values in self.values.items():
            filled = [no_bound.get(kind) if value is None else value for value in values]
            if group is None:
                parameters[kind] = filled if len(set(filled)) > 1 else filled[0]
            else:
                parameters.setdefault("shares" if kind == "share" else kind, {})[group] = filled
        for name in self.names if "shares" in parameters else ():
            if None in parameters["shares"].get(name, [None]):
                raise ValueError(
                    f"it has shares, but not of group {name!r} in every cluster: the shares of a "
                    "cluster sum to one."
                )
        for kind in ("shares", "lower", "upper"):
            table = parameters.get(kind, {})
            if table and all(len(set(values)) == 1 for values in table.values()):
                parameters[kind] = {group: values[0] for group, values in table.items()}
        targets = FairnessTargets(tolerance=tolerance, **parameters)
        targets._check_parameters()
        return targets


def _number(record: dict[str, Any], name: str, where: str) -> float:
    value = record[name]
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where}: {name} is {value!r}, expected a number.")
    return number
