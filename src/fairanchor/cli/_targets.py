"""``--targets`` and ``--attributes`` of fit and audit: shares, bounds and sizes in a file.

A file of targets is a table (CSV), or a list of objects (JSON) with the same names. The columns
named like the sensitive ones give the group of a line, ``cluster`` its cluster; empty means all.
``share``, ``lower`` and ``upper`` are of a group, ``min_size`` and ``max_size`` of a cluster.
"""

import json
import os
from dataclasses import dataclass, field

import click

SHARES = ("share", "lower", "upper")
SIZES = ("min_size", "max_size")
# Names of the file's columns, and of the parameters of FairnessTargets.
PARAMETERS = {"share": "shares"}
CLUSTER = "cluster"


def attributes_option(command):
    """``--attributes``."""
    return click.option("--attributes", type=click.Choice(["intersection", "separate"]),
                        default="intersection", show_default=True,
                        help="Several sensitive columns: their combinations are the groups, or "
                        "clusters mirror each column by itself.")(command)  # fmt: skip


def targets_options(command):
    """Options for constraints other than clusters that mirror all groups."""
    command = click.option("--targets", type=click.Path(path_type=str), metavar="FILE",
                           help="Shares, bounds and sizes, .csv or .json: columns "
                           "named like the sensitive ones, cluster, share, lower, upper, "
                           "min_size, max_size; an empty cluster means all.")(command)  # fmt: skip
    return attributes_option(command)


def check_merged_attributes(options):
    """Raise an error for merged combinations where each column is an attribute by itself."""
    if options["attributes"] == "separate" and options["min_group_size"] > 1:
        raise click.UsageError(
            "--min-group-size merges combinations of columns, and --attributes separate has none."
        )


def check_targets_options(options):
    """Raise an error for options that contradict each other, naming both."""
    check_merged_attributes(options)
    fairness = options.get("fairness", "population")
    if options.get("min_cluster_size") is not None and fairness != "population":
        raise click.UsageError(
            f"--min-cluster-size and --fairness {fairness} both determine the sizes of the "
            "clusters."
        )
    if options["targets"] is None:
        return
    if fairness != "population":
        raise click.UsageError(f"--targets and --fairness {fairness} both determine the shares.")
    if options.get("min_cluster_size") is not None:
        raise click.UsageError(
            "--min-cluster-size and --targets: state the minimum in the column min_size of the "
            "file."
        )
    if not options["targets"].lower().endswith((".csv", ".json")):
        raise click.UsageError(f"--targets {options['targets']}: expected a .csv or a .json file.")


def fairness_of(loaded, options):
    """Value of the estimator's ``fairness``, and of its ``tolerance``."""
    if options["targets"] is None:
        return options["fairness"], options["tolerance"]
    columns = loaded.preprocessing.groups.columns
    numbers = options["n_clusters"], len(loaded.X)
    found = targets_of_file(options, columns, loaded.grouping.names, *numbers)
    separate = options["attributes"] == "separate" and len(columns) > 1
    return (found if separate else found[0]), 0.0


def targets_of_file(options, columns, group_names, n_clusters, n_rows):
    """`FairnessTargets` of ``--targets``, one for each attribute.

    Parameters
    ----------
    options : dict
        With ``targets``, ``attributes`` and ``tolerance``.
    columns : sequence of str
        The sensitive columns.
    group_names : list
        Names of their combinations.
    n_clusters, n_rows : int

    Returns
    -------
    targets : list of FairnessTargets
    """
    path, numbers = options["targets"], (n_clusters, n_rows)
    tables = [_Asked(path, tuple(columns), list(group_names), *numbers)]
    if options["attributes"] == "separate" and len(columns) > 1:
        names = zip(*group_names, strict=True)
        tables = [
            _Asked(path, (column,), list(dict.fromkeys(own)), *numbers)
            for column, own in zip(columns, names, strict=True)
        ]
    for number, record in enumerate(read_records(path), start=1):
        _add(tables, record, f"{path}, entry {number}")
    return [table.targets(options["tolerance"]) for table in tables]


def sensitive_columns(loaded, options):
    """``sensitive_features`` for the estimator: names of groups, or a table with each column."""
    columns = loaded.preprocessing.groups.columns
    if options["attributes"] == "intersection":
        return loaded.grouping.per_row()
    from fairanchor.groups import SeparateColumns
    from fairanchor.tables._grouping import object_array

    names, codes = loaded.grouping.names, loaded.grouping.codes
    parts = [names] if len(columns) == 1 else zip(*names, strict=True)
    return SeparateColumns(tuple(object_array(own)[codes] for own in parts), tuple(columns))


def attributes_of(estimator):
    """Entries of a summary for separate attributes; nothing if there are none."""
    tables = getattr(estimator, "attribute_counts_", None)
    if tables is None:
        return {}
    from fairanchor.cli._common import measures_of

    return {
        "attributes": {
            str(title): {
                "groups": estimator.attribute_groups_[title],
                "counts": table,
                "worst_violation": estimator.attribute_violations_[title],
                **measures_of(table),
            }
            for title, table in tables.items()
        }
    }


def attributes_of_new(estimator, names, counts):
    """Entries of a summary for separate attributes of new rows; nothing if there are none.

    Parameters
    ----------
    estimator : FairKMeans or AnchorFairClustering
        Fitted.
    names : list
        Of the groups, those that are combinations as tuples.
    counts : ndarray of shape (n_clusters, n_groups)
    """
    known = getattr(estimator, "attribute_groups_", None)
    if known is None:
        return {}
    import numpy as np

    from fairanchor.cli._common import measures_of

    parts = [names] if len(known) == 1 else zip(*names, strict=True)
    found = {}
    for (title, own_known), own in zip(known.items(), parts, strict=True):
        groups = [name for name in own_known if name in own]
        groups += dict.fromkeys(name for name in own if name not in groups)
        table = counts @ np.array([[name == group for group in groups] for name in own])
        found[str(title)] = {"groups": groups, "counts": table, **measures_of(table)}
    return {"attributes": found}


def attribute_lines(summary):
    """The measures of each separate attribute as lines of text."""
    from fairanchor.cli._common import measures_line

    attributes = summary.get("attributes", {})
    return [f"{title} by itself: {measures_line(own)}" for title, own in attributes.items()]


def read_records(path):
    """Lines of a file of targets, as dicts of what is not empty."""
    if not os.path.isfile(path):
        raise click.UsageError(f"--targets {path}: there is no such file.")
    if path.lower().endswith(".json"):
        return _json_records(path)
    from fairanchor.tables import open_table

    source = open_table(path)
    table = source.read(source.columns, text=source.columns)
    return [
        {name: value for name, value in record.items() if value not in (None, "")}
        for record in table.to_pylist()
    ]


def _json_records(path):
    with open(path, encoding="utf-8") as file:
        try:
            records = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path} is no JSON: {error}.") from None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ValueError(
            f'{path} should hold a list of objects such as {{"sex": "f", "lower": 0.3}}, one for '
            "each bound."
        )
    return [{k: v for k, v in record.items() if v is not None} for record in records]


def _add(tables, record, where):
    """Enter one line of the file where it belongs."""
    columns = [column for table in tables for column in table.columns]
    unknown = [name for name in record if name not in (*columns, CLUSTER, *SHARES, *SIZES)]
    if unknown:
        raise ValueError(
            f"{where} has {unknown[0]!r}: expected the sensitive columns ({', '.join(columns)}), "
            f"{CLUSTER}, {', '.join((*SHARES, *SIZES))}."
        )
    named = [table for table in tables if any(column in record for column in table.columns)]
    if len(named) > 1:
        raise ValueError(
            f"{where} names groups of {len(named)} columns: with --attributes separate a line is "
            "about one of them."
        )
    (named[0] if named else tables[0]).add(record, where)


@dataclass
class _Asked:
    """The targets of a file, for the groups of one attribute.

    Attributes
    ----------
    path : str
    columns : tuple of str
        Whose combinations are the groups.
    names : list
        Of the groups.
    n_clusters, n_rows : int
    shares : dict
        From kind ("share", "lower" or "upper") to group to a list with a value per cluster.
    sizes : dict
        From kind to a list with a value per cluster.
    """

    path: str
    columns: tuple
    names: list
    n_clusters: int
    n_rows: int
    shares: dict = field(default_factory=dict)
    sizes: dict = field(default_factory=dict)

    def add(self, record, where):
        clusters = self._clusters(record, where)
        is_about_group = any(column in record for column in self.columns)
        kinds = SHARES if is_about_group else SIZES
        wrong = [kind for kind in (*SHARES, *SIZES) if kind in record and kind not in kinds]
        if wrong:
            what = "a group" if is_about_group else "a cluster as a whole"
            raise ValueError(f"{where} has {wrong[0]!r}, but is about {what}.")
        given = {kind: _number(record[kind], kind, where) for kind in kinds if kind in record}
        if not given:
            raise ValueError(f"{where} has no target: expected {', '.join(kinds)}.")
        for kind, value in given.items():
            values, of = self.sizes, ""
            if is_about_group:
                group = self._group(record, where)
                values, of = self.shares.setdefault(kind, {}), f"group {group!r} in "
            values = values.setdefault(group if is_about_group else kind, [None] * self.n_clusters)
            for cluster in clusters:
                if values[cluster] is not None:
                    raise ValueError(f"{where}: {kind} of {of}cluster {cluster} is given twice.")
                values[cluster] = value

    def _clusters(self, record, where):
        if CLUSTER not in record:
            return range(self.n_clusters)
        number = _number(record[CLUSTER], CLUSTER, where)
        if number != int(number) or not 0 <= number < self.n_clusters:
            raise ValueError(
                f"{where} has the cluster {record[CLUSTER]}, expected 0..{self.n_clusters - 1} or "
                "nothing for all."
            )
        return [int(number)]

    def _group(self, record, where):
        """The group's name as the data have it; files of text have no types."""
        from fairanchor.tables._grouping import spelling

        absent = [column for column in self.columns if column not in record]
        if absent:
            raise ValueError(
                f"{where} lacks a value of {absent[0]!r}: groups are combinations of "
                f"{', '.join(self.columns)}."
            )
        parts = tuple(record[column] for column in self.columns)
        wanted = spelling(parts if len(parts) > 1 else parts[0])
        for name in self.names:
            if spelling(name) == wanted:
                return name
        known = ", ".join(map(str, self.names[:20]))
        raise ValueError(f"{where} names the group {wanted!r}, the data have {known}.")

    def targets(self, tolerance):
        """`FairnessTargets` of the lines so far."""
        from fairanchor import FairnessTargets

        shares = self.shares.get("share", {})
        for name in self.names if shares else ():
            if None in shares.get(name, [None]):
                raise ValueError(
                    f"{self.path} has shares, but not of group {name!r} in every cluster: the "
                    "shares of a cluster sum to one."
                )
        asked = {PARAMETERS.get(kind, kind): self._table(kind) for kind in self.shares}
        for kind, values in self.sizes.items():
            no_bound = 0.0 if kind == "min_size" else float(self.n_rows)
            asked[kind] = _same_for_all([no_bound if v is None else v for v in values])
        targets = FairnessTargets(tolerance=tolerance, **asked)
        try:
            targets._check_parameters()
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None
        return targets

    def _table(self, kind):
        """Shares by group; without a bound, the one that every cluster satisfies."""
        no_bound = 1.0 if kind == "upper" else 0.0
        table = {
            name: [no_bound if value is None else value for value in values]
            for name, values in self.shares[kind].items()
        }
        if all(len(set(values)) == 1 for values in table.values()):
            return {name: values[0] for name, values in table.items()}
        return table


def _same_for_all(values):
    return values[0] if len(set(values)) == 1 else values


def _number(value, name, where):
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if isinstance(value, bool) or number != number or number in (float("inf"), -float("inf")):
        raise ValueError(f"{where}: {name} is {value!r}, expected a number.")
    return number
