"""From ``sensitive_features`` to group codes.

Nothing downstream sees names. Codes are *canonical*: the largest group is 0, groups of
equal size are ordered by their first row. So neither the names of the groups, nor their
type, nor the order of a categorical's levels can influence a result. Tables that users
see have their columns in the sorted order of the names instead (``Groups.public_order``).
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils import check_consistent_length

from fairanchor._utils._shared_state import users_stacklevel
from fairanchor.exceptions import FairnessWarning

# Range of integers that are looked up in a table.
NARROW = 2**16
# What to do with missing values: None is where there is no parameter to refuse or allow them.
_ADVICE = {
    "error": "Use missing_groups='own_group'",
    None: "Fill them with a name that no group has, such as 'unknown',",
}


@dataclass(frozen=True)
class Groups:
    """The groups of the rows.

    Attributes
    ----------
    names : ndarray of shape (n_groups,), dtype object
        Names in canonical order; tuples when there were several sensitive columns.
    codes : ndarray of shape (n_rows,), dtype int64, or None
        Group of each row, in ``0..n_groups-1``; None if the rows are elsewhere.
    sizes : ndarray of shape (n_groups,), dtype int64
        Number of rows of each group, never increasing.
    public_order : ndarray of shape (n_groups,), dtype int64
        Canonical code of each group in the sorted order of the names.
    """

    names: np.ndarray
    codes: np.ndarray | None
    sizes: np.ndarray
    public_order: np.ndarray

    @property
    def n_groups(self):
        return len(self.sizes)

    @property
    def public_names(self):
        """Names in the order of the columns of public tables."""
        return self.names[self.public_order]

    def to_public(self, table):
        """Reorder the last axis from canonical codes to the order of ``public_names``."""
        return np.ascontiguousarray(table[..., self.public_order])

    def from_public(self, table):
        """Reorder the last axis from the order of ``public_names`` to canonical codes."""
        canonical = np.empty_like(table)
        canonical[..., self.public_order] = table
        return canonical


@dataclass(frozen=True)
class SeparateColumns:
    """Several sensitive columns, each of a type of its own.

    Attributes
    ----------
    columns : tuple
        Values of each.
    titles : tuple of str, or None
        Of each, if they have some.
    """

    columns: tuple
    titles: tuple | None = None

    def __len__(self):
        return len(self.columns[0])


def check_groups(sensitive_features, n_rows, *, missing=None):
    """Encode the sensitive features of ``n_rows`` rows.

    Parameters
    ----------
    sensitive_features : array-like of shape (n_rows,) or (n_rows, n_columns), or None
        Several columns mean their intersection. ``None`` means a single group and warns.
    n_rows : int
        Number of rows that must be matched.
    missing : {"error", "own_group"} or None
        What to do with missing values (None, NaN, NaT, pandas' NA). "error" refuses them and
        advises the parameter ``missing_groups``, None where the caller has none.

    Returns
    -------
    groups : Groups
    """
    if sensitive_features is None:
        return _one_group(n_rows)
    codes, names = encode_names(sensitive_features, missing=missing)
    _check_n_rows(codes, n_rows)
    return _canonical(codes, names)


def check_attributes(sensitive_features, n_rows):
    """Encode every sensitive column by itself, where `check_groups` takes their intersection.

    Parameters
    ----------
    sensitive_features : array-like of shape (n_rows,) or (n_rows, n_columns), or None
        ``None`` means one column with a single group and warns.
    n_rows : int
        Number of rows that must be matched.

    Returns
    -------
    attributes : list of Groups
        One per column.
    """
    if sensitive_features is None:
        return [_one_group(n_rows)]
    attributes = []
    for title, values in columns_of(sensitive_features):
        codes, names = _encode_column(values, title, missing=None)
        _check_n_rows(codes, n_rows)
        attributes.append(_canonical(codes, names))
    return attributes


def encode_names(sensitive_features, *, missing=None):
    """Integer codes and sorted names of one or several sensitive columns.

    Returns
    -------
    codes : ndarray of shape (n_rows,), dtype int64
    names : list
        ``names[code]`` is the group's name; a tuple when there are several columns.
    """
    return _encode_columns(columns_of(sensitive_features), missing)


def _encode_columns(columns, missing):
    encoded = [_encode_column(values, title, missing) for title, values in columns]
    if len(encoded) == 1:
        return encoded[0]
    check_consistent_length(*[codes for codes, _ in encoded])
    joint = np.stack([codes for codes, _ in encoded], axis=1)
    combinations, codes = np.unique(joint, axis=0, return_inverse=True)
    names = [
        tuple(names[code] for code, (_, names) in zip(row, encoded, strict=True))
        for row in combinations
    ]
    return codes.reshape(-1).astype(np.int64), names


def codes_of_known_groups(sensitive_features, known, n_rows, *, missing=None):
    """Codes of new rows among ``known`` names; -1 for a name that is not among them.

    Another number of columns than the known names were made of is an error.

    Returns
    -------
    codes : ndarray of shape (n_rows,), dtype int64
    unknown : dict
        Number of rows of every unknown name.
    """
    columns = columns_of(sensitive_features)
    codes, names = _encode_columns(columns, missing)
    _check_n_rows(codes, n_rows)
    _check_n_columns(len(columns), names, known)
    position = {name: code for code, name in enumerate(known)}
    translation = np.array([position.get(name, -1) for name in names], dtype=np.int64)
    counts = np.bincount(codes, minlength=len(names))
    unknown = {name: int(counts[code]) for code, name in enumerate(names) if translation[code] < 0}
    return translation[codes], unknown


def warn_one_group():
    """Say that nothing is constrained."""
    warnings.warn(
        "sensitive_features is None: all rows are taken as one group, so the clusters "
        "are not constrained in any way.",
        FairnessWarning,
        stacklevel=users_stacklevel(),
    )


def _one_group(n_rows):
    warn_one_group()
    return _canonical(np.zeros(n_rows, dtype=np.int64), ["all"])


def _check_n_rows(codes, n_rows):
    if len(codes) != n_rows:
        raise ValueError(
            f"sensitive_features has {len(codes)} rows, X has {n_rows}: "
            "every row needs exactly one group."
        )


def _check_n_columns(n_columns, names, known):
    """Refuse columns that cannot make any of the known names, whatever their values are."""
    expected = {len(name) if isinstance(name, tuple) else 1 for name in known}
    is_joint = any(isinstance(name, tuple) for name in names) or set(names) <= {None}
    if n_columns not in expected and not (n_columns == 1 and is_joint):
        raise ValueError(
            f"sensitive_features has {n_columns} column(s), expected the "
            f"{' or '.join(map(str, sorted(expected)))} of fit: groups are told apart by all of "
            "the columns."
        )


def _canonical(codes, names):
    sizes = np.bincount(codes, minlength=len(names))
    _, first_row = np.unique(codes, return_index=True)
    groups = groups_of_counts(names, sizes, first_row)
    return replace(groups, codes=groups.public_order[codes])


def groups_of_counts(names, sizes, first_rows):
    """Groups of rows that are elsewhere: their codes are None.

    Parameters
    ----------
    names : list
        Sorted.
    sizes, first_rows : ndarray of shape (n_groups,)
        Number of rows of each group, and the number of its first row.
    """
    order = np.lexsort((first_rows, -sizes))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    canonical_names = np.empty(len(names), dtype=object)
    for code, name in enumerate(names):
        canonical_names[rank[code]] = name
    return Groups(canonical_names, None, sizes[order], public_order=rank)


def sorted_names(names):
    """Names of groups in the order of public tables: by value, column by column, missing last."""
    is_joint = any(isinstance(name, tuple) for name in names)
    columns = list(zip(*names, strict=True)) if is_joint else [names]
    ranks = []
    for values in columns:
        distinct = list(dict.fromkeys(values))
        present = [code for code, value in enumerate(distinct) if not _is_missing(value)]
        in_order = [distinct[code] for code in _sorted_by_name(present, distinct)]
        rank = {value: place for place, value in enumerate([*in_order, None])}
        ranks.append([rank[value] for value in values])
    order = sorted(range(len(names)), key=lambda k: [rank[k] for rank in ranks])
    return [names[k] for k in order]


def count_cells(labels, group_codes, n_clusters, n_groups, weights=None):
    """Table of the rows (or of their weight) in each cluster and group."""
    cells = labels.astype(np.int64) * n_groups + group_codes
    counts = np.bincount(cells, weights=weights, minlength=n_clusters * n_groups)
    return counts.reshape(n_clusters, n_groups)


def columns_of(sensitive_features):
    """Pairs (title, one-dimensional array of values), one per sensitive column."""
    table = sensitive_features
    if isinstance(table, SeparateColumns):
        titles = range(len(table.columns)) if table.titles is None else table.titles
        return list(zip(titles, map(_values, table.columns), strict=True))
    if hasattr(table, "collect") and not hasattr(table, "__len__"):
        raise TypeError(
            f"sensitive_features is a {type(table).__name__}, which has no rows yet: "
            "call .collect() first."
        )
    if hasattr(table, "itercolumns"):  # pyarrow
        columns = list(zip(table.schema.names, map(_values, table.itercolumns()), strict=True))
    elif hasattr(table, "iloc") and hasattr(table, "columns"):  # pandas; titles may repeat
        columns = [(title, _values(column)) for title, column in table.items()]
    elif hasattr(table, "columns") and hasattr(table, "__getitem__"):  # polars
        columns = [(title, _values(table[title])) for title in table.columns]
    else:
        return _columns_of_array(_values(table), getattr(table, "name", None))
    if not columns:
        raise ValueError(
            f"sensitive_features is a {type(table).__name__} without columns: "
            "every row needs exactly one group."
        )
    return columns


def _columns_of_array(values, title):
    if values.ndim == 1:
        return [(title, values)]
    if values.ndim == 2 and values.shape[1] > 0:
        return [(j, values[:, j]) for j in range(values.shape[1])]
    raise ValueError(
        f"sensitive_features has shape {values.shape}, expected (n_rows,) or (n_rows, n_columns) "
        "with at least one column."
    )


def _values(column):
    if isinstance(column, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(column), None, column.data.astype(object))
    if isinstance(column, np.ndarray):
        return np.atleast_1d(column)
    if hasattr(column, "to_numpy"):
        if hasattr(column, "null_count") and hasattr(column, "to_pylist"):
            # pyarrow refuses to copy unless told to, and text and booleans need a copy.
            return np.asarray(column.to_numpy(zero_copy_only=False))
        return np.asarray(column.to_numpy())
    values = np.atleast_1d(np.asarray(column))
    # NumPy makes text of everything in a list that holds some text, NaN included.
    return np.atleast_1d(np.asarray(column, dtype=object)) if values.dtype.kind in "US" else values


def _encode_column(values, title, missing):
    """Codes and sorted names of one column; missing values come last, as ``None``."""
    if values.dtype.kind in "OUST":
        codes, distinct = _encode_objects(values)
    elif values.dtype.kind in "iu" and _is_narrow(values):
        codes, distinct = _encode_narrow(values)
    else:
        distinct, codes = np.unique(values, return_inverse=True, equal_nan=True)
        # Dates stay dates: tolist() would make integers of those in nanoseconds.
        distinct = list(distinct) if values.dtype.kind in "mM" else distinct.tolist()
    present = [code for code, value in enumerate(distinct) if not _is_missing(value)]
    n_missing = len(values) - int(np.isin(codes, present).sum())
    if n_missing and missing != "own_group":
        where = "" if title is None else f" (column {title!r})"
        raise ValueError(
            f"sensitive_features{where} has {n_missing} missing values in {len(values)} rows, "
            f"first at row {int(np.argmin(np.isin(codes, present)))}: a row without a group "
            f"cannot be counted for one. {_ADVICE[missing]} to make them a group of their own, "
            "or leave these rows out."
        )
    present = _sorted_by_name(present, distinct)
    names = [distinct[code] for code in present] + [None] * (n_missing > 0)
    rank = np.full(len(distinct), len(present), dtype=np.int64)
    rank[present] = np.arange(len(present))
    return rank[codes], names


def _encode_objects(values):
    """Codes by first appearance: hashing beats sorting when names are few and rows many."""
    listed = values.tolist()
    try:
        position = {value: code for code, value in enumerate(dict.fromkeys(listed))}
    except TypeError as error:
        raise TypeError(
            f"sensitive_features holds values that cannot name a group: {error}."
        ) from None
    codes = np.fromiter(map(position.__getitem__, listed), np.int64, count=len(listed))
    return codes, list(position)


def _is_narrow(values):
    """Whether a table by value is small: most groups are numbered by small integers."""
    return len(values) > 0 and int(values.max()) - int(values.min()) < NARROW


def _encode_narrow(values):
    """Codes by value, without sorting the rows."""
    lowest = values.min()
    # The difference of a narrow type may wrap, which is right again without a sign.
    offsets = (values - lowest).view(f"u{values.itemsize}").astype(np.int64)
    present = np.bincount(offsets) > 0
    names = [int(lowest) + offset for offset in np.flatnonzero(present).tolist()]
    return (np.cumsum(present) - 1)[offsets], names


def _sorted_by_name(present, distinct):
    """By value where all are of one type that has an order, else by the type's name and text."""
    if len({type(distinct[code]) for code in present}) == 1:
        try:
            return sorted(present, key=lambda code: distinct[code])
        except TypeError:  # complex numbers, members of an Enum
            pass
    return sorted(present, key=lambda code: (type(distinct[code]).__name__, str(distinct[code])))


def _is_missing(value):
    if value is None:
        return True
    same = value == value  # noqa: PLR0124  NaN, NaT and pandas' NA are not equal to themselves
    return not isinstance(same, (bool, np.bool_)) or not same
