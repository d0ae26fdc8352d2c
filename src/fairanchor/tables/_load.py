"""A table as the estimators want it: rows of numbers and a group for each."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairanchor.tables._grouping import Grouping, learn_groups
from fairanchor.tables._numbers import warn_rounded_identifiers
from fairanchor.tables._preprocessing import Preprocessing
from fairanchor.tables._roles import Roles, check_id, require_columns
from fairanchor.tables._wording import RequestError, quoted

ROW_NUMBER = "row"
CLUSTER, REGRET = "cluster", "regret"
BLIND_ADVICE = (
    " A row's cluster depends on its group; --unknown-groups blind labels rows without groups, by "
    "the average prices of the known ones."
)


@dataclass(frozen=True)
class LoadedTable:
    """Rows ready to be clustered or labelled.

    Attributes
    ----------
    X : ndarray of shape (n_kept, n_features)
    grouping : Grouping or None
        Of the kept rows; None if the table has no sensitive columns.
    preprocessing : Preprocessing
    kept : ndarray of shape (n_rows,), bool, or None
        Rows without missing values, where others were to be left out; None means all.
    ids : pyarrow.Array of length n_rows
        What identifies a row in the output.
    id_name : str
    """

    X: np.ndarray
    grouping: Grouping | None
    preprocessing: Preprocessing
    kept: np.ndarray | None
    ids: pa.Array
    id_name: str

    @property
    def n_rows(self):
        """Rows of the table, kept or not."""
        return len(self.ids)

    @property
    def n_dropped(self):
        return self.n_rows - len(self.X)

    def labelled(self, labels, *, memberships=None, regret=None):
        """The output table, in the order of the input; rows left out have no cluster."""
        columns = {self.id_name: self.ids, CLUSTER: self._spread(labels.astype(np.int32))}
        if memberships is not None:
            names = membership_names(memberships.shape[1])
            columns |= dict(zip(names, map(self._spread, memberships.T), strict=True))
        if regret is not None:
            columns[REGRET] = self._spread(regret)
        return pa.table(columns)

    def _spread(self, values):
        """Values of the kept rows at their places, null elsewhere."""
        if self.kept is None:
            return pa.array(values)
        everywhere = np.zeros(self.n_rows, dtype=values.dtype)
        everywhere[self.kept] = values
        return pa.array(everywhere, mask=~self.kept)


def membership_names(n_clusters):
    """Names of the columns of soft memberships."""
    return [f"membership_{cluster}" for cluster in range(n_clusters)]


def check_id_name(id_column, n_clusters, *, soft=False, regret=False):
    """Refuse an id whose name a column of the output has.

    Parameters
    ----------
    id_column : str or None
    n_clusters : int
    soft, regret : bool
        Whether the output has memberships, and regrets.
    """
    taken = [CLUSTER, *(membership_names(n_clusters) if soft else ()), *([REGRET] * regret)]
    if id_column in taken:
        raise RequestError(
            f"--id {quoted(id_column)}: a column of the output is called so as well. Rename it in "
            "the input."
        )


def load_for_fit(source, roles, missing, *, scale=True, min_group_size=0):
    """Read a table and learn how to make rows and groups of it.

    Parameters
    ----------
    source : TableSource
    roles : Roles
    missing : MissingPolicy
    scale : bool, default=True
        Whether to standardise numeric columns.
    min_group_size : int, default=0
        Groups with fewer rows are merged into one.

    Returns
    -------
    loaded : LoadedTable
    """
    table, kept, ids = _read(source, roles, roles.as_text, missing)
    own_group = "own_group" if missing.groups == "own_group" else "error"
    grouping, rule = learn_groups(
        table, roles.sensitive, missing=own_group, min_size=min_group_size
    )
    impute = missing.features == "impute"
    preprocessing = Preprocessing.learn(table, roles.features, rule, scale=scale, impute=impute)
    X = preprocessing.rows_of(table, impute=impute)
    return LoadedTable(X, grouping, preprocessing, kept, ids, _id_name(roles))


def load_for_predict(source, preprocessing, known, missing, *, id_column=None, groups_needed=True):
    """Read a table as a model wants it.

    Parameters
    ----------
    source : TableSource
    preprocessing : Preprocessing
    known : sequence
        The groups' names in the model.
    missing : MissingPolicy
    id_column : str, default=None
    groups_needed : bool, default=True
        Whether to refuse a table that has none of the sensitive columns.

    Returns
    -------
    loaded : LoadedTable
    """
    sensitive = _sensitive_of(source, preprocessing, groups_needed)
    roles = Roles(sensitive, tuple(preprocessing.inputs), id_column)
    check_id(id_column, (*roles.sensitive, *roles.features))
    require_columns(source, roles.needed)
    as_text = preprocessing.text_columns | ({id_column} - {None})
    table, kept, ids = _read(source, roles, as_text, missing)
    grouping = None
    if sensitive:
        rule = preprocessing.groups
        if missing.groups == "own_group":
            rule = replace(rule, missing="own_group")
        grouping = rule.groups_of(table, known)
    X = preprocessing.rows_of(table, impute=missing.features == "impute")
    return LoadedTable(X, grouping, preprocessing, kept, ids, _id_name(roles))


def _sensitive_of(source, preprocessing, needed):
    """Sensitive columns to read of a table with new rows: all, or none if it may do without."""
    columns = tuple(preprocessing.groups.columns)
    absent = [name for name in columns if name not in source.columns]
    if len(absent) == len(columns):
        if needed:
            features = set(preprocessing.inputs)
            require_columns(source, columns, "" if features & set(columns) else BLIND_ADVICE)
        return ()
    if absent and not needed:
        present = [name for name in columns if name in source.columns]
        raise ValueError(
            f"{source.title} has {', '.join(map(quoted, present))}, but not "
            f"{', '.join(map(quoted, absent))}: a group is told by all sensitive columns. Rows are "
            "labelled with all of them or, by --unknown-groups blind, without any."
        )
    return columns


def _id_name(roles):
    return ROW_NUMBER if roles.id_column is None else roles.id_column


def _read(source, roles, as_text, missing):
    table = source.read(roles.needed, text=as_text)
    if roles.id_column is None:
        ids = pa.array(np.arange(table.num_rows))
    else:
        ids = ids_of(table.column(roles.id_column))
        _check_ids(ids, roles.id_column)
    kept = missing.complete_rows(table, roles)
    if kept is not None:
        if not kept.any():
            raise ValueError(
                f"Every row of {source.title} has a missing value: none is left to cluster."
            )
        table = table.filter(pa.array(kept))
    return table, kept, ids


def _check_ids(ids, name):
    if pa.types.is_nested(ids.type):
        raise ValueError(
            f"The id column {quoted(name)} has values of type {ids.type}, expected text or numbers."
        )
    if pa.types.is_floating(ids.type):
        values = ids.drop_null().to_numpy(zero_copy_only=False)
        advice = "Two rows may have the same id: write it as whole numbers or as text."
        warn_rounded_identifiers(values[~np.isnan(values)], name, advice)


def ids_of(column):
    """A column of identifiers, as numbers where that changes no spelling."""
    ids = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_string(ids.type):
        return ids
    try:
        numbers = ids.cast(pa.int64())
    except pa.ArrowInvalid:
        return ids
    return numbers if pc.all(pc.equal(numbers.cast(pa.string()), ids)).as_py() else ids
