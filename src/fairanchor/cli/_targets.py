"""``--targets``: shares, bounds and sizes in a table.

The columns named like the sensitive ones give the group of a line, ``cluster`` its cluster; empty
means all. ``share``, ``lower`` and ``upper`` are about a group, ``min_size`` and ``max_size`` about
a cluster.
"""

from collections.abc import Sequence
from typing import Any

import click

from fairanchor.cli._common import Options

SHARES = ("share", "lower", "upper")
SIZES = ("min_size", "max_size")
CLUSTER = "cluster"
# Options that state the same as a column of the file.
OPTIONS = {
    "min_cluster_size": "--min-size",
    "max_size": "--max-size",
    "max_share": "--max-share",
}


def check_targets_options(options: Options) -> None:
    """Raise an error for options that contradict ``--targets``."""
    for name, option in OPTIONS.items():
        if options["targets"] is not None and options[name] is not None:
            raise click.UsageError(f"{option} and --targets: state it in the file.")


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
    from fairanchor.tables._read import open_table

    path = options["targets"]
    attributes, names = [tuple(columns)], [list(group_names)]
    if options["attributes"] == "separate" and len(columns) > 1:
        attributes = [(column,) for column in columns]
        names = [list(dict.fromkeys(part)) for part in zip(*group_names, strict=True)]
    source = open_table(path)
    known = (CLUSTER, *SHARES, *SIZES)
    unknown = [name for name in source.columns if name not in (*columns, *known)]
    if unknown:
        raise ValueError(
            f"{path} has the column {unknown[0]!r}, expected the sensitive columns "
            f"({', '.join(columns)}), {', '.join(known)}."
        )
    # From (kind, group) to one value per cluster; the group is None for sizes.
    values: list[dict[tuple[str, Any], list[Any]]] = [{} for _ in attributes]
    lines = source.read(source.columns, names=source.columns).to_pylist()
    for number, line in enumerate(lines, start=1):
        where = f"{path}, entry {number}"
        record = {name: value for name, value in line.items() if value not in (None, "")}
        named = [place for place, part in enumerate(attributes) if set(part) & set(record)]
        if len(named) > 1:
            raise ValueError(
                f"{where} names groups of {len(named)} columns: with --attributes separate a line "
                "is about one of them."
            )
        place = named[0] if named else 0
        group = _group(record, attributes[place], names[place], where) if named else None
        kinds, about = (SHARES, "a group") if named else (SIZES, "a cluster as a whole")
        if not set(record) & set(kinds) or set(record) & ({*SHARES, *SIZES} - set(kinds)):
            given = ", ".join(map(repr, record))
            raise ValueError(f"{where} is about {about}: expected {', '.join(kinds)}, got {given}.")
        clusters: Sequence[int] = range(n_clusters)
        if CLUSTER in record:
            if record[CLUSTER] not in clusters:
                raise ValueError(
                    f"{where} has the cluster {record[CLUSTER]}, expected 0..{n_clusters - 1} or "
                    "nothing for all."
                )
            clusters = [int(record[CLUSTER])]
        for kind in set(kinds) & set(record):
            cells = values[place].setdefault((kind, group), [None] * n_clusters)
            for cluster in clusters:
                if cells[cluster] is not None:
                    of = f"group {group!r} in " if named else ""
                    raise ValueError(f"{where}: {kind} of {of}cluster {cluster} is given twice.")
                try:
                    cells[cluster] = float(record[kind])
                except ValueError:
                    raise ValueError(
                        f"{where}: {kind} is {record[kind]!r}, expected a number."
                    ) from None
    try:
        return [_targets(cells, options["tolerance"], n_rows) for cells in values]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _group(record: dict[str, Any], columns: tuple[str, ...], names: list[Any], where: str) -> Any:
    """The group's name as the data have it; text files have no types."""
    from fairanchor.tables._load import spelling

    parts = tuple(record.get(column) for column in columns)
    wanted = spelling(parts if len(parts) > 1 else parts[0])
    for name in names:
        if spelling(name) == wanted:
            return name
    known = ", ".join(map(str, names[:20]))
    raise ValueError(f"{where} names the group {wanted!r}, the data have {known}.")


def _targets(cells: dict[tuple[str, Any], list[Any]], tolerance: float | None, n_rows: int) -> Any:
    """`FairnessTargets` of one attribute."""
    from fairanchor import FairnessTargets

    # What every cluster satisfies, where no bound is given.
    nothing = {"lower": 0.0, "upper": 1.0, "min_size": 0.0, "max_size": float(n_rows)}
    tables: dict[str, dict[Any, list[Any]]] = {}
    for (kind, group), values in cells.items():
        if kind == "share" and None in values:
            raise ValueError(
                f"the share of group {group!r} in cluster {values.index(None)} is missing: shares "
                "are needed in every cluster."
            )
        filled = [nothing[kind] if value is None else value for value in values]
        tables.setdefault("shares" if kind == "share" else kind, {})[group] = filled
    parameters: dict[str, Any] = {}
    for kind, table in tables.items():
        if all(len(set(values)) == 1 for values in table.values()):
            table = {group: values[0] for group, values in table.items()}
        parameters[kind] = table[None] if kind in SIZES else table
    targets = FairnessTargets(tolerance=tolerance, **parameters)
    targets._check_parameters()
    return targets
