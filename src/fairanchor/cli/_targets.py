"""``--targets``: shares, bounds and sizes in a table.

The columns named like the sensitive ones give the group of a line, ``cluster`` its cluster; empty
means all. ``share``, ``lower`` and ``upper`` are about a group, ``min_size`` and ``max_size`` about
a cluster.
"""

from collections.abc import Sequence
from typing import Any

from fairanchor import FairnessTargets
from fairanchor.tables._load import spelling
from fairanchor.tables._read import open_table
from fairanchor.tables._roles import CLUSTER

SHARES = ("share", "lower", "upper")
SIZES = ("min_size", "max_size")


def targets_of_file(
    options: dict[str, Any],
    columns: Sequence[str],
    group_names: Any,
    n_clusters: int,
    n_rows: int,
) -> list[FairnessTargets]:
    """`FairnessTargets` of ``--targets``, one for each attribute.

    The groups are the combinations of the sensitive columns.
    """
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
    # From (kind, group) to values by cluster; the group is None for sizes.
    values: list[dict[tuple[str, Any], dict[int, float]]] = [{} for _ in attributes]
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
        stated = set(record) & {*SHARES, *SIZES}
        if not stated or not stated <= set(kinds):
            given = ", ".join(map(repr, record))
            raise ValueError(f"{where} is about {about}: expected {', '.join(kinds)}, got {given}.")
        cluster = record.get(CLUSTER)
        if cluster not in (None, *range(n_clusters)):
            raise ValueError(
                f"{where} has the cluster {cluster}, expected 0..{n_clusters - 1} or nothing for "
                "all."
            )
        for kind in stated:
            cells = values[place].setdefault((kind, group), {})
            for l in range(n_clusters) if cluster is None else [int(cluster)]:
                if l in cells:
                    of = f"group {group!r} in " if named else ""
                    raise ValueError(f"{where}: {kind} of {of}cluster {l} is given twice.")
                cells[l] = _number(record[kind], f"{where}: {kind}")
    try:
        return [_targets(cells, options["tolerance"], n_clusters, n_rows) for cells in values]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _number(value: Any, what: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{what} is {value!r}, expected a number.") from None


def _group(record: dict[str, Any], columns: tuple[str, ...], names: list[Any], where: str) -> Any:
    """The group's name as the data have it; text files have no types."""
    parts = tuple(record.get(column) for column in columns)
    wanted = spelling(parts if len(parts) > 1 else parts[0])
    for name in names:
        if spelling(name) == wanted:
            return name
    known = ", ".join(map(str, names[:20]))
    raise ValueError(f"{where} names the group {wanted!r}, the data have {known}.")


def _targets(
    values: dict[tuple[str, Any], dict[int, float]],
    tolerance: float | None,
    n_clusters: int,
    n_rows: int,
) -> FairnessTargets:
    """`FairnessTargets` of one attribute."""
    # What every cluster satisfies, where no bound is given.
    nothing = {"lower": 0.0, "upper": 1.0, "min_size": 0.0, "max_size": float(n_rows)}
    parameters: dict[str, Any] = {}
    for (kind, group), cells in values.items():
        missing = [l for l in range(n_clusters) if l not in cells]
        if kind == "share" and missing:
            raise ValueError(
                f"the share of group {group!r} in cluster {missing[0]} is missing: shares are "
                "needed in every cluster."
            )
        filled = [cells.get(l, nothing.get(kind)) for l in range(n_clusters)]
        parameters.setdefault("shares" if kind == "share" else kind, {})[group] = filled
    for name, table in parameters.items():
        if all(len(set(cells)) == 1 for cells in table.values()):
            table = {group: cells[0] for group, cells in table.items()}
        parameters[name] = table[None] if name in SIZES else table
    targets = FairnessTargets(tolerance=tolerance, **parameters)
    targets._check_parameters()
    return targets
