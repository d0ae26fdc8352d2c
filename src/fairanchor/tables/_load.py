"""A table as the estimators need it: rows of numbers, and a group for each row."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from fairanchor._utils._shared_state import users_stacklevel
from fairanchor.exceptions import FairnessWarning
from fairanchor.groups._columns import SeparateColumns
from fairanchor.groups._groups import Groups, check_groups
from fairanchor.rows._raw_rows import as_table
from fairanchor.tables._preprocessing import Preprocessing
from fairanchor.tables._read import TableSource
from fairanchor.tables._roles import (
    MissingPolicy,
    Roles,
    check_id,
    is_missing,
    nearest,
    require_columns,
)
from fairanchor.tables._wording import RequestError, counted, quoted

ROW_NUMBER = "row"
CLUSTER = "cluster"
MANY_GROUPS = 50
TOO_MANY_GROUPS = 1000
BLIND_ADVICE = (
    " A row's cluster depends on its group; --unknown-groups blind labels rows without groups, by "
    "the average prices of the known ones."
)


@dataclass(frozen=True)
class LoadedTable:
    """Rows that are ready to be clustered or labelled.

    ``groups`` is None if the table has no sensitive columns, ``kept`` None if no row was dropped.
    ``ids`` identify all rows in the output.
    """

    X: np.ndarray
    groups: Groups | None
    preprocessing: Preprocessing
    kept: np.ndarray | None
    ids: Any
    id_name: str

    @property
    def n_rows(self) -> int:
        """Rows of the table, kept or not."""
        return len(self.ids)

    @property
    def n_dropped(self) -> int:
        return self.n_rows - len(self.X)

    def sensitive_features(self, attributes: str = "intersection", missing: Any = None) -> Any:
        """Names of groups as the estimators take them, with another name for missing values."""
        if self.groups is None:
            return None
        names = [_without_none(name, missing) for name in self.groups.names]
        if attributes == "intersection":
            return object_array(names)[self.groups.codes]
        columns = self.preprocessing.sensitive
        parts = [names] if len(columns) == 1 else zip(*names, strict=True)
        arrays = tuple(object_array(part)[self.groups.codes] for part in parts)
        return SeparateColumns(arrays, columns)

    def labelled(self, labels: np.ndarray) -> pa.Table:
        """The output table, in the order of the input; dropped rows have no cluster."""
        clusters = pa.array(labels.astype(np.int32))
        if self.kept is not None:
            everywhere = np.zeros(self.n_rows, dtype=np.int32)
            everywhere[self.kept] = labels
            clusters = pa.array(everywhere, mask=~self.kept)
        return pa.table({self.id_name: self.ids, CLUSTER: clusters})


def check_id_name(id_column: str | None) -> None:
    """Raise an error for an id with the name of a column of the output."""
    if id_column == CLUSTER:
        raise RequestError(
            f"--id {quoted(id_column)}: a column of the output has this name as well. Rename it in "
            "the input."
        )


def load_for_fit(source: TableSource, roles: Roles, missing: MissingPolicy) -> LoadedTable:
    """Read a table and learn how to turn it into rows and groups."""
    table, kept, ids, id_name = _read(source, roles, roles.names, missing)
    groups = None
    if roles.sensitive:
        groups = groups_of(table, roles.sensitive, missing.missing_groups)
        check_number_of_groups(groups, len(table), roles.sensitive)
    impute = missing.features == "impute"
    preprocessing = Preprocessing.learn(table, roles.features, roles.sensitive, impute=impute)
    X = preprocessing.rows_of(table)
    return LoadedTable(X, groups, preprocessing, kept, ids, id_name)


def load_for_predict(
    source: TableSource,
    preprocessing: Preprocessing,
    known: Sequence[Any],
    missing: MissingPolicy,
    *,
    roles: Roles,
) -> LoadedTable:
    """Read a table for a model whose groups are ``known``."""
    sensitive = roles.sensitive
    names = (preprocessing.text_columns | roles.names) & set(roles.needed)
    table, kept, ids, id_name = _read(source, roles, names, missing)
    groups = None
    if sensitive:
        groups = groups_of(table, sensitive, missing.missing_groups)
        groups = check_groups(_spelled_like(known, groups), len(table), missing="own_group")
    preprocessing = replace(preprocessing, impute=missing.features == "impute")
    X = preprocessing.rows_of(table)
    return LoadedTable(X, groups, preprocessing, kept, ids, id_name)


def roles_for_predict(
    source: TableSource,
    preprocessing: Preprocessing,
    *,
    id_column: str | None = None,
    groups_needed: bool = True,
) -> Roles:
    """Columns of a table for a model; without ``groups_needed`` it may lack all sensitive ones."""
    sensitive = _sensitive_of(source, preprocessing, groups_needed)
    roles = Roles(sensitive, tuple(preprocessing.inputs), id_column)
    check_id(id_column, (*roles.sensitive, *roles.features))
    require_columns(source, roles.needed)
    return roles


def _sensitive_of(
    source: TableSource, preprocessing: Preprocessing, needed: bool
) -> tuple[str, ...]:
    """Sensitive columns to read of a table with new rows: all, or none if they are optional."""
    columns = preprocessing.sensitive
    absent = [name for name in columns if name not in source.columns]
    if len(absent) == len(columns):
        if needed:
            are_features = set(preprocessing.inputs) & set(columns)
            require_columns(source, columns, "" if are_features else BLIND_ADVICE)
        for name in columns:
            near = nearest(name, source.columns)
            if near is not None:
                warnings.warn(
                    f"{source.title} has no column {name!r}; did you mean {near!r}? Rows are "
                    "labelled without groups.",
                    FairnessWarning,
                    stacklevel=users_stacklevel(),
                )
        return ()
    if absent and not needed:
        present = [name for name in columns if name in source.columns]
        raise ValueError(
            f"{source.title} has {', '.join(map(quoted, present))}, but not "
            f"{', '.join(map(quoted, absent))}: all sensitive columns together name a group. "
            "--unknown-groups blind labels rows with all of them or without any."
        )
    return columns


def _read(
    source: TableSource, roles: Roles, names: set[str], missing: MissingPolicy
) -> tuple[pa.Table, np.ndarray | None, Any, str]:
    """The rows to keep, which ones these are, and what identifies all rows."""
    table = source.read(roles.needed, names=names)
    if roles.id_column is None:
        ids, id_name = pa.array(np.arange(table.num_rows)), ROW_NUMBER
    else:
        ids, id_name = table.column(roles.id_column), roles.id_column
        check_names(ids, id_name)
    kept = missing.complete_rows(table, roles)
    if kept is not None:
        if not kept.any():
            raise ValueError(f"Every row of {source.title} has a missing value: no row is left.")
        table = table.filter(pa.array(kept))
    return table, kept, ids, id_name


def check_names(column: pa.ChunkedArray, name: str) -> None:
    """Raise an error for values that cannot name a row, a group or a cluster."""
    if pa.types.is_nested(column.type):
        raise ValueError(
            f"The column {quoted(name)} has values of type {column.type}, expected text or numbers."
        )


def groups_of(table: pa.Table, columns: Sequence[str], missing: str) -> Groups:
    """Groups of a table by one or several columns; errors name options of the command line."""
    for name in columns:
        check_names(table.column(name), name)
        absent = is_missing(table.column(name))
        if absent.any() and missing == "error":
            raise ValueError(
                f"The sensitive column {quoted(name)} has "
                f"{counted(int(absent.sum()), 'missing value')} in {counted(len(table), 'row')}, "
                f"the first in row {int(np.argmax(absent))}. Use --missing own-group to treat them "
                "as a separate group, or --missing drop-rows to leave these rows out."
            )
    sensitive = as_table([table.column(name) for name in columns], tuple(columns))
    return check_groups(sensitive, len(table), missing=missing)


def object_array(values: Sequence[Any]) -> np.ndarray:
    """One-dimensional array of any objects, tuples included."""
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def _without_none(name: Any, missing: Any) -> Any:
    if isinstance(name, tuple):
        return tuple(_without_none(part, missing) for part in name)
    return missing if name is None else name


def spelling(name: Any) -> Any:
    """How a name is written in a text file: 1 and 1.0 and "1" are spelled alike."""
    if isinstance(name, tuple):
        return tuple(map(spelling, name))
    if isinstance(name, bool) or (isinstance(name, str) and name.lower() in ("true", "false")):
        return str(name).lower()
    if isinstance(name, float) and name.is_integer():
        return str(int(name))
    return None if name is None else str(name)


def _spelled_like(known: Sequence[Any], groups: Groups) -> np.ndarray:
    """Each row's group under its known name: text files have no types."""
    by_spelling = {spelling(name): name for name in known}
    names = [by_spelling.get(spelling(name), name) for name in groups.names]
    return object_array(names)[groups.codes]


def check_number_of_groups(groups: Groups, n_rows: int, columns: Sequence[str]) -> None:
    """Warn of a single group or of many; too many are an error."""
    title = f"The sensitive column {quoted(columns[0])}"
    if len(columns) > 1:
        title = f"The intersection of {', '.join(map(quoted, columns))}"
    if groups.n_groups == 1:
        _warn(
            f"{title} has one value only, {quoted(groups.names[0])}: every clustering is "
            "proportional to a single group, so that fairness changes nothing."
        )
    if groups.n_groups <= MANY_GROUPS:
        return
    message = (
        f"{title} has {groups.n_groups:,} groups in {n_rows:,} rows, the smallest of "
        f"{counted(int(groups.sizes.min()), 'row')}. Proportions of so many groups mean little: "
        "merge small groups, or replace values (of an age, say) by ranges."
    )
    if groups.n_groups > TOO_MANY_GROUPS:
        raise ValueError(f"{message} At most {TOO_MANY_GROUPS:,} are accepted.")
    _warn(message)


def _warn(message: str) -> None:
    warnings.warn(message, FairnessWarning, stacklevel=users_stacklevel())
