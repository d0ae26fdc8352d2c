"""From ``sensitive_features`` to group codes.

Nothing downstream sees names. Codes are *canonical*: the largest group is 0, groups of
equal size are ordered by their first row. So neither the names of the groups, nor their
type, nor the order of a categorical's levels can influence a result. Tables that users
see have their columns in the sorted order of the names instead (``Groups.public_order``).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length

from fairanchor._utils._shared_state import users_stacklevel
from fairanchor.exceptions import FairnessWarning
from fairanchor.groups._columns import (
    attribute_names,
    columns_of,
    dictionary_of,
    is_arrow,
    raw_columns_of,
)

# Range of integers that are encoded by a table of values, without sorting the rows.
NARROW = 2**16
# What to do about missing values: None is for callers without a parameter.
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
        Group of each row, in ``0..n_groups-1``; None if the rows are not in memory.
    sizes : ndarray of shape (n_groups,), dtype int64
        Number of rows of each group, never increasing.
    public_order : ndarray of shape (n_groups,), dtype int64
        Canonical code of each group in the sorted order of the names.
    """

    names: np.ndarray
    codes: Any
    sizes: np.ndarray
    public_order: np.ndarray

    @property
    def n_groups(self) -> int:
        return len(self.sizes)

    @property
    def public_names(self) -> np.ndarray:
        """Names in the order of the columns of public tables."""
        return self.names[self.public_order]

    def to_public(self, table: np.ndarray) -> np.ndarray:
        """Reorder the last axis from canonical codes to the order of ``public_names``."""
        return np.ascontiguousarray(table[..., self.public_order])

    def take(self, rows: np.ndarray) -> "Groups":
        """Groups of some of the rows."""
        codes = np.argsort(self.public_order)[self.codes[rows]]
        present, codes = np.unique(codes, return_inverse=True)
        return _canonical(codes, self.public_names[present].tolist())

    def from_public(self, table: np.ndarray) -> np.ndarray:
        """Reorder the last axis from the order of ``public_names`` to canonical codes."""
        canonical = np.empty_like(table)
        canonical[..., self.public_order] = table
        return canonical


@dataclass(frozen=True)
class Attributes:
    """Several sensitive columns, each an attribute by itself, whose combinations are the groups.

    Attributes
    ----------
    columns : list
        Names of the columns, or their numbers where they have none.
    names : list of ndarray, dtype object
        Sorted names of each attribute's groups.
    joint : ndarray of shape (n_groups, n_attributes)
        For each combination that occurs, in canonical order, its group in each attribute.
    """

    columns: list
    names: list[np.ndarray]
    joint: np.ndarray

    @classmethod
    def of(cls, sensitive_features: Any, groups: Groups) -> "Attributes":
        """The columns of ``sensitive_features`` of which `groups` are the combinations."""
        n_columns = 1 if sensitive_features is None else len(columns_of(sensitive_features))
        return cls.of_names(attribute_names(sensitive_features, n_columns), groups.names)

    @classmethod
    def of_names(cls, columns: Sequence, names: Any) -> "Attributes":
        """From the names of combinations, which are tuples if there are several columns."""
        parts = list(zip(*names, strict=True)) if len(columns) > 1 else [tuple(names)]
        if len(parts) != len(columns):
            raise ValueError(
                f"{len(columns)} columns, but names of groups have {len(parts)} parts."
            )
        listed, joint = [], []
        for values in parts:
            distinct = sorted_names(list(dict.fromkeys(values)))
            place = {name: code for code, name in enumerate(distinct)}
            joint.append([place[value] for value in values])
            listed.append(np.empty(len(distinct), dtype=object))
            listed[-1][:] = distinct
        return cls(list(columns), listed, np.array(joint, dtype=np.int64).T)

    @property
    def joint_of_several(self) -> np.ndarray | None:
        """``joint``, or None if there is one attribute only, whose groups are the groups."""
        return self.joint if self.joint.shape[1] > 1 else None

    def codes_of(self, name: Any) -> list[int] | None:
        """Group in each attribute of a combination, seen or not; None if one is unknown."""
        values = name if isinstance(name, tuple) and len(self.names) > 1 else (name,)
        known = [names.tolist() for names in self.names]
        if len(values) != len(known) or any(v not in k for v, k in zip(values, known, strict=True)):
            return None
        return [names.index(value) for value, names in zip(values, known, strict=True)]


def check_groups(
    sensitive_features: Any, n_rows: int, *, missing: str | None = None, warns: bool = True
) -> Groups:
    """Encode the sensitive features of ``n_rows`` rows; None is a single group, with a warning.

    Several columns mean their intersection. Missing values (None, NaN, NaT, pandas' NA) are an
    error unless ``missing="own_group"``; "error" advises the parameter ``missing_groups``, None is
    for callers without it.
    """
    if sensitive_features is None:
        if warns:
            warn_one_group()
        return _canonical(np.zeros(n_rows, dtype=np.int64), ["all"])
    return _canonical(*encode_names(sensitive_features, n_rows, missing=missing))


def check_attributes(sensitive_features: Any, n_rows: int) -> list[Groups]:
    """Encode every sensitive column by itself, where `check_groups` takes their intersection."""
    if sensitive_features is None:
        return [check_groups(None, n_rows)]
    columns = raw_columns_of(sensitive_features)
    return [_canonical(*_encode_column(values, name, None, n_rows)) for name, values in columns]


def encode_names(
    sensitive_features: Any, n_rows: int | None = None, *, missing: str | None = None
) -> tuple[np.ndarray, list]:
    """Integer codes of one or several sensitive columns, and sorted names.

    ``names[code]`` is the group's name, a tuple when there are several columns.
    """
    columns = raw_columns_of(sensitive_features)
    encoded = [_encode_column(values, name, missing, n_rows) for name, values in columns]
    codes, names = encoded[0]
    if len(encoded) == 1:
        return codes, names
    check_consistent_length(*[codes for codes, _ in encoded])
    names = [(name,) for name in names]
    for codes_of_column, added in encoded[1:]:
        codes, cells = _factorize(codes * len(added) + codes_of_column)
        pairs = [divmod(cell, len(added)) for cell in cells]
        names = [(*names[first], added[last]) for first, last in pairs]
    return codes, names


def codes_of_known_groups(
    sensitive_features: Any, known: Sequence, n_rows: int, *, missing: str | None = None
) -> tuple[np.ndarray, dict]:
    """Codes of new rows among ``known`` names, -1 for others; and the rows of each other name.

    Another number of columns than the known names were made of is an error.
    """
    codes, names = encode_names(sensitive_features, n_rows, missing=missing)
    n_columns = len(columns_of(sensitive_features))
    # Columns that cannot make any of the known names, whatever their values are.
    expected = {len(name) if isinstance(name, tuple) else 1 for name in known}
    is_joint = any(isinstance(name, tuple) for name in names) or set(names) <= {None}
    if n_columns not in expected and not (n_columns == 1 and is_joint):
        raise ValueError(
            f"sensitive_features has {n_columns} column(s), expected the "
            f"{' or '.join(map(str, sorted(expected)))} of fit: all columns together identify a "
            "group."
        )
    position = {name: code for code, name in enumerate(known)}
    translation = np.array([position.get(name, -1) for name in names], dtype=np.int64)
    counts = np.bincount(codes, minlength=len(names))
    unknown = {name: int(counts[code]) for code, name in enumerate(names) if translation[code] < 0}
    return translation[codes], unknown


def warn_one_group() -> None:
    """Warn that nothing is constrained."""
    warnings.warn(
        "sensitive_features is None: all rows are taken as one group, so the clusters are not "
        "constrained in any way. Pass the group of each row as sensitive_features=...; y is "
        "ignored.",
        FairnessWarning,
        stacklevel=users_stacklevel(),
    )


def _canonical(codes: np.ndarray, names: list) -> Groups:
    first_rows = np.empty(len(names), dtype=np.int64)
    first_rows[codes[::-1]] = np.arange(len(codes))[::-1]  # of several the last, which is the first
    groups = groups_of_counts(names, np.bincount(codes, minlength=len(names)), first_rows)
    return replace(groups, codes=groups.public_order[codes])


def groups_of_counts(names: list, sizes: np.ndarray, first_rows: np.ndarray) -> Groups:
    """Groups without codes, from sorted names, numbers of rows and numbers of first rows."""
    order = np.lexsort((first_rows, -sizes))
    rank = np.argsort(order)
    canonical_names = np.empty(len(names), dtype=object)
    for code, name in enumerate(names):
        canonical_names[rank[code]] = name
    return Groups(canonical_names, None, sizes[order], public_order=rank)


def sorted_names(names: list) -> list:
    """Names of groups in the order of public tables: by value, column by column, missing last."""
    # A single column may hold tuples, beside other values or of several lengths.
    lengths = {len(name) if isinstance(name, tuple) else 0 for name in names}
    is_joint = len(lengths) == 1 and lengths != {0}
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


def count_cells(
    labels: np.ndarray,
    group_codes: np.ndarray,
    n_clusters: int,
    n_groups: int,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Table of the rows (or of their weight) in each cluster and group."""
    cells = labels.astype(np.int64) * n_groups + group_codes
    counts = np.bincount(cells, weights=weights, minlength=n_clusters * n_groups)
    return counts.reshape(n_clusters, n_groups)


def _encode_column(
    values: Any, column: Any, missing: str | None, n_rows: int | None = None
) -> tuple[np.ndarray, list]:
    """Codes and sorted names of one column; missing values come last, as ``None``."""
    if n_rows not in (None, len(values)):
        raise ValueError(
            f"sensitive_features has {len(values)} rows, expected {n_rows}: "
            "every row needs exactly one group."
        )
    places: Any = slice(None)
    if is_arrow(values):  # rows never become Python objects
        values, places = dictionary_of(values)
    codes, distinct = _factorize(values)
    codes = codes[places]
    present = [code for code, value in enumerate(distinct) if not _is_missing(value)]
    is_present = np.isin(np.arange(len(distinct)), present)
    n_missing = 0 if is_present.all() else len(codes) - int(is_present[codes].sum())
    if n_missing and missing != "own_group":
        where = "" if column is None else f" (column {column!r})"
        raise ValueError(
            f"sensitive_features{where} has {n_missing} missing values in {len(codes)} rows, "
            f"first at row {int(np.argmin(is_present[codes]))}: a row without a group "
            f"cannot be counted for one. {_ADVICE[missing]} to treat them as a separate group, "
            "or leave these rows out."
        )
    if (
        n_missing
        and values.dtype.kind == "f"
        and all(distinct[code].is_integer() for code in present)
    ):
        # Whole numbers are floats only because something is missing beside them.
        distinct = [int(value) if code in present else None for code, value in enumerate(distinct)]
    present = _sorted_by_name(present, distinct)
    names = [distinct[code] for code in present] + [None] * (n_missing > 0)
    rank = np.full(len(distinct), len(present), dtype=np.int64)
    rank[present] = np.arange(len(present))
    return rank[codes], names


def _factorize(values: np.ndarray) -> tuple[np.ndarray, list]:
    """Codes of a column's values, and the distinct values."""
    kind = values.dtype.kind
    if kind in "OUST":  # hashing beats sorting when names are few and rows many
        listed = values.tolist()
        try:
            position = {value: code for code, value in enumerate(dict.fromkeys(listed))}
        except TypeError as error:
            raise TypeError(
                f"sensitive_features holds values that cannot name a group: {error}."
            ) from None
        codes = np.fromiter(map(position.__getitem__, listed), np.int64, count=len(listed))
        return codes, list(position)
    if kind in "iu" and len(values) and int(values.max()) - int(values.min()) < NARROW:
        lowest = values.min()
        # The difference of a narrow type may wrap, which is right again without a sign.
        offsets = (values - lowest).view(f"u{values.itemsize}").astype(np.int64)
        present = np.bincount(offsets) > 0
        distinct = [int(lowest) + offset for offset in np.flatnonzero(present).tolist()]
        return (np.cumsum(present) - 1)[offsets], distinct
    unique, codes = np.unique(values, return_inverse=True, equal_nan=True)
    # Dates stay dates: tolist() would make integers of those in nanoseconds.
    return codes, list(unique) if kind in "mM" else unique.tolist()


def _sorted_by_name(present: list[int], distinct: list) -> list[int]:
    """By value where all are of one type that has an order, else by the type's name and text."""
    if len({type(distinct[code]) for code in present}) == 1:
        try:
            return sorted(present, key=lambda code: distinct[code])
        except TypeError:  # complex numbers, members of an Enum
            pass
    return sorted(present, key=lambda code: (type(distinct[code]).__name__, str(distinct[code])))


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    same = value == value  # noqa: PLR0124  NaN, NaT and pandas' NA are not equal to themselves
    return not isinstance(same, (bool, np.bool_)) or not same
