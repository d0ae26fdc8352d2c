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
from fairanchor.tables._preprocessing import Preprocessing
from fairanchor.tables._read import TableSource
from fairanchor.tables._roles import CLUSTER, MissingPolicy, Roles, is_missing, require_columns
from fairanchor.tables._wording import counted, quoted

ROW_NUMBER = "row"
MANY_GROUPS = 50
TOO_MANY_GROUPS = 1000
BLIND_ADVICE = (
    " A row's cluster depends on its group; fairanchor predict --unknown-groups blind labels rows "
    "without groups, by the average prices of the known ones."
)
# What to do about missing sensitive values: in fit and compare, in audit, with a saved model.
AUDIT_ADVICE = "Use --missing own-group to treat them as a separate group."
FIT_ADVICE = (
    "Use --missing own-group to treat them as a separate group, or --missing drop-rows (of a "
    "single file) to leave these rows out."
)
MODEL_ADVICE = (
    "The model has no group of missing values. In predict and report --missing drop-rows (of a "
    "single file) leaves these rows out; in predict --missing own-group --unknown-groups blind "
    "labels them by average prices."
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
        columns, codes = self.preprocessing.sensitive, self.groups.codes
        names = list(self.groups.names)
        parts = [names] if len(columns) == 1 else list(zip(*names, strict=True))
        parts = [[missing if value is None else value for value in part] for part in parts]
        if attributes == "separate":
            return SeparateColumns(tuple(object_array(part)[codes] for part in parts), columns)
        return object_array(parts[0] if len(parts) == 1 else list(zip(*parts, strict=True)))[codes]

    def labelled(self, labels: np.ndarray) -> pa.Table:
        """The output table, in the order of the input; dropped rows have no cluster."""
        clusters = pa.array(labels.astype(np.int32))
        if self.kept is not None:
            everywhere = np.zeros(self.n_rows, dtype=np.int32)
            everywhere[self.kept] = labels
            clusters = pa.array(everywhere, mask=~self.kept)
        return pa.table({self.id_name: self.ids, CLUSTER: clusters})


def load(
    source: TableSource,
    roles: Roles,
    missing: MissingPolicy,
    *,
    preprocessing: Preprocessing | None = None,
    known: Sequence[Any] | None = None,
) -> LoadedTable:
    """Read a table and turn it into rows and groups.

    How that is done is learned from the table, or is the ``preprocessing`` of a model with the
    groups ``known``.
    """
    names = roles.names
    if preprocessing is not None:
        names = (preprocessing.text_columns | names) & set(roles.needed)
    table = source.read(roles.needed, names=names)
    ids, id_name = pa.array(np.arange(table.num_rows)), ROW_NUMBER
    if roles.id_column is not None:
        ids, id_name = table.column(roles.id_column), roles.id_column
        check_names(ids, id_name)
    kept = missing.complete_rows(table, roles)
    if kept is not None:
        if not kept.any():
            raise ValueError(f"Every row of {source.title} has a missing value: no row is left.")
        table = table.filter(pa.array(kept))
    groups = None
    if roles.sensitive:
        advice = FIT_ADVICE if known is None else MODEL_ADVICE
        groups = groups_of(table, roles.sensitive, missing.groups, advice=advice)
        if known is None:
            check_number_of_groups(groups, roles.sensitive)
        else:
            groups = check_groups(_spelled_like(known, groups), len(table), missing="own_group")
    if preprocessing is None:
        preprocessing = Preprocessing.learn(
            table, roles.features, roles.sensitive, impute=missing.impute
        )
    else:
        preprocessing = replace(preprocessing, impute=missing.impute)
    return LoadedTable(preprocessing.rows_of(table), groups, preprocessing, kept, ids, id_name)


def roles_for_predict(
    source: TableSource,
    preprocessing: Preprocessing,
    *,
    id_column: str | None = None,
    blind: bool = False,
) -> Roles:
    """Columns of a table for a model; if ``blind`` it may lack all sensitive ones."""
    sensitive = preprocessing.sensitive
    has_none = not set(sensitive) & set(source.columns)
    roles = Roles(() if blind and has_none else sensitive, tuple(preprocessing.inputs), id_column)
    can_be_blind = has_none and not set(sensitive) & set(roles.features)
    require_columns(source, roles.sensitive, BLIND_ADVICE if can_be_blind else "")
    require_columns(source, roles.needed)
    return roles


def check_names(column: pa.ChunkedArray, name: str) -> None:
    """Raise an error for values that cannot name a row, a group or a cluster."""
    if pa.types.is_nested(column.type):
        raise ValueError(
            f"The column {quoted(name)} has values of type {column.type}, expected text or numbers."
        )


def groups_of(
    table: pa.Table, columns: Sequence[str], missing: str, *, advice: str = FIT_ADVICE
) -> Groups:
    """Groups of a table by one or several columns; errors name options of the command line.

    ``advice`` says what to do about missing values.
    """
    for name in columns:
        check_names(table.column(name), name)
        absent = is_missing(table.column(name))
        if absent.any() and missing == "error":
            raise ValueError(
                f"The sensitive column {quoted(name)} has "
                f"{counted(int(absent.sum()), 'missing value')} in {counted(len(table), 'row')}, "
                f"the first in row {int(np.argmax(absent))} (counted from 0). {advice}"
            )
    return check_groups(table.select(columns), len(table), missing=missing)


def object_array(values: Sequence[Any]) -> np.ndarray:
    """One-dimensional array of any objects, tuples included."""
    return np.fromiter(values, dtype=object, count=len(values))


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


def check_number_of_groups(groups: Groups, columns: Sequence[str]) -> None:
    """Warn of a single group or of many; too many are an error."""
    if groups.n_groups == 1:
        _warn(
            f"The sensitive column {', '.join(map(quoted, columns))} has one value only, "
            f"{quoted(groups.names[0])}: every clustering is proportional to a single group."
        )
    if groups.n_groups <= MANY_GROUPS:
        return
    message = (
        f"The sensitive column {', '.join(map(quoted, columns))} has {groups.n_groups:,} groups "
        f"in {len(groups.codes):,} rows, the smallest of "
        f"{counted(int(groups.sizes.min()), 'row')}. Proportions of so many groups mean little: "
        "merge small groups, or replace values (of an age, say) by ranges."
    )
    if groups.n_groups > TOO_MANY_GROUPS:
        raise ValueError(f"{message} At most {TOO_MANY_GROUPS:,} are accepted.")
    _warn(message)


def _warn(message: str) -> None:
    warnings.warn(message, FairnessWarning, stacklevel=users_stacklevel())
