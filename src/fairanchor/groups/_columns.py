"""Sensitive columns of NumPy, pandas, polars, pyarrow and lists: their names and values.

Columns with names are matched by name in ``predict``, as scikit-learn does with features. Arrays,
lists and frames with numbered columns are matched by position, and so is a single column (a
Series), whose name is often an accident.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class SeparateColumns:
    """Several sensitive columns, each of a type of its own, and their names if they have some."""

    columns: tuple
    names: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.columns[0])


def columns_of(table: Any) -> list[tuple[Any, np.ndarray]]:
    """Pairs (name, one-dimensional array of values), one per sensitive column."""
    return [(name, values_of(column)) for name, column in raw_columns_of(table)]


def raw_columns_of(table: Any) -> list[tuple[Any, Any]]:
    """`columns_of`, but columns of pyarrow stay as they are."""
    if isinstance(table, (str, dict)):
        raise TypeError(
            f"sensitive_features is a {type(table).__name__}, expected the group of each row as an "
            "array, a Series or a data frame."
        )
    if _is_lazy(table):
        raise TypeError(
            f"sensitive_features is a {type(table).__name__}, which has no rows yet: "
            "call .collect() first."
        )
    kind = type(table).__name__
    if hasattr(table, "to_arrow"):  # polars
        table = table.to_arrow()
    if is_arrow(table):
        return [(None, table)]
    names: Any = _names_of(table)
    if names is None and not isinstance(table, SeparateColumns):
        values = values_of(table)
        if values.ndim == 1:
            return [(getattr(table, "name", None), values)]
        if values.ndim == 2 and values.shape[1] > 0:
            return [(j, values[:, j]) for j in range(values.shape[1])]
        raise ValueError(
            f"sensitive_features has shape {values.shape}, expected (n_rows,) or "
            "(n_rows, n_columns) with at least one column."
        )
    if isinstance(table, SeparateColumns):
        columns = list(table.columns)
        names = range(len(columns)) if names is None else names
    elif hasattr(table, "itercolumns"):  # pyarrow
        columns = list(table.itercolumns())
    else:  # pandas, where names may repeat
        columns = [column for _, column in table.items()]
    if not columns:
        raise ValueError(
            f"sensitive_features is a {kind} without columns: every row needs exactly one group."
        )
    columns = [column if is_arrow(column) else values_of(column) for column in columns]
    return list(zip(names, columns, strict=True))


def _is_lazy(table: Any) -> bool:
    return hasattr(table, "collect") and not hasattr(table, "__len__")


def _names_of(table: Any) -> list | None:
    """Names of a table's columns; None where there are none."""
    if isinstance(table, SeparateColumns):
        return None if table.names is None else list(table.names)
    if hasattr(table, "itercolumns"):  # pyarrow, whose `columns` are values
        return list(table.schema.names)
    names = None if _is_lazy(table) else getattr(table, "columns", None)
    return None if names is None else list(names)


def is_arrow(column: Any) -> bool:
    """Whether this is an array of pyarrow, in chunks or not."""
    return hasattr(column, "null_count") and hasattr(column, "dictionary_encode")


def values_of(column: Any) -> np.ndarray:
    """A column of any library as an array."""
    if isinstance(column, np.ma.MaskedArray):
        values = column.data.astype(object)
        values[np.ma.getmaskarray(column)] = None
        return values
    if isinstance(column, np.ndarray):
        return np.atleast_1d(column)
    if is_arrow(column):
        return _values_of_arrow(column)
    if hasattr(column, "to_numpy"):
        is_integer = getattr(getattr(column, "dtype", None), "kind", "") in ("i", "u")
        if is_integer and hasattr(column, "isna") and column.isna().any():  # not as floats
            return np.asarray(column.to_numpy(dtype=object))
        return np.asarray(column.to_numpy())
    values = np.atleast_1d(np.asarray(column))
    # NumPy makes text of everything in a list that holds some text, NaN included.
    return np.atleast_1d(np.asarray(column, dtype=object)) if values.dtype.kind in "US" else values


def _values_of_arrow(column: Any) -> np.ndarray:
    import pyarrow.types as types

    if types.is_dictionary(column.type):
        # Of a dictionary in chunks pyarrow would make another value of a null.
        column = column.cast(column.type.value_type)
    if types.is_integer(column.type) and column.null_count:  # not as floats
        return np.array(column.to_pylist(), dtype=object)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def dictionary_of(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values of a column of pyarrow, and the place of each row's value among them."""
    import pyarrow as pa
    import pyarrow.types as types

    if not types.is_dictionary(column.type):
        try:
            column = column.dictionary_encode()
        except pa.ArrowNotImplementedError:  # of lists and the like
            return values_of(column), np.arange(len(column))
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # older versions of pyarrow
        column = column.chunk(0)
    n_values = len(column.dictionary)
    indices = column.indices.cast(pa.int64()).fill_null(n_values).to_numpy()
    counts = np.bincount(indices, minlength=n_values + 1)
    present = np.flatnonzero(counts)
    places = np.cumsum(counts > 0) - 1
    values = pa.concat_arrays([column.dictionary, pa.nulls(1, column.dictionary.type)])
    return values_of(values)[present], places[indices]


def text_names(table: Any) -> list[str] | None:
    """Names of the columns of a table in memory; None unless all are text and differ."""
    names = _names_of(table)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return names if len(set(names)) == len(names) else None


def attribute_names(sensitive_features: Any, n_columns: int) -> list:
    """Names of the columns where they have some that differ as text, else numbers."""
    names = _names_of(sensitive_features)
    if names is None or len(set(map(str, names))) != n_columns:
        return list(range(n_columns))
    return names


def store_sensitive_names(estimator: Any, names: list[str] | None) -> None:
    """Set ``sensitive_names_in_``, or remove that of an earlier fit."""
    estimator.__dict__.pop("sensitive_names_in_", None)
    if names is not None:
        estimator.sensitive_names_in_ = np.array(names, dtype=object)


def in_fitted_order(estimator: Any, sensitive_features: Any) -> Any:
    """Sensitive columns of new rows in the order of those of ``fit``."""
    fitted: Any = getattr(estimator, "sensitive_names_in_", None)
    names = None if fitted is None else _names_of(sensitive_features)
    if names is None or not all(isinstance(name, str) for name in names):
        return sensitive_features
    fitted = fitted.tolist()
    if names == fitted:
        return sensitive_features
    if sorted(names) != sorted(fitted):
        problems = {
            "missing": [name for name in fitted if name not in names],
            "not seen in fit": [name for name in names if name not in fitted],
            "given more than once": sorted({name for name in names if names.count(name) > 1}),
        }
        listed = ", ".join(f"{problem} {which}" for problem, which in problems.items() if which)
        raise ValueError(
            f"sensitive_features has the columns {names}, expected those of fit, {fitted}, in any "
            f"order: {listed}. Columns are matched by name; without names, as an array, they are "
            "matched by position."
        )
    columns = dict(columns_of(sensitive_features))
    return SeparateColumns(tuple(columns[name] for name in fitted), tuple(fitted))


def check_pairing(X: Any, sensitive_features: Any, name: str = "X") -> None:
    """Raise an error for names instead of values, and for pandas objects in another row order."""
    if not hasattr(X, "__len__"):  # not in memory
        return
    names, values = text_names(X), sensitive_features
    is_name = isinstance(values, str)
    if isinstance(values, (list, tuple)) and names is not None and len(values) != len(X):
        is_name = len(values) > 0 and all(isinstance(v, str) and v in names for v in values)
    if is_name:
        listed = repr(values if isinstance(values, str) else list(values))
        raise ValueError(
            f"sensitive_features={listed} names columns, expected the group of each row, such as "
            f"table[{listed}]. Leave sensitive columns out of {name}, unless they are features as "
            "well."
        )
    one: Any = getattr(X, "index", None)
    other: Any = getattr(values, "index", None)
    if not (hasattr(one, "equals") and hasattr(other, "equals")) or one.equals(other):
        return
    if len(one) == len(other) and one.isin(other).all() and other.isin(one).all():
        row = int(np.argmax(one.to_numpy() != other.to_numpy()))
        raise ValueError(
            f"{name} and sensitive_features have the same index in another order (row {row} is "
            f"{one[row]} in {name} and {other[row]} in sensitive_features), but rows are "
            f"matched by position. Pass sensitive_features.loc[{name}.index], or to_numpy() if the "
            "positions are right."
        )


def text_column(X: Any) -> str | None:
    """The first column of a table that cannot be read as numbers, in words; None if all can."""
    try:
        columns = columns_of(X)
    except (TypeError, ValueError):
        return None
    for j, (name, values) in enumerate(columns):
        try:
            np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            return f"column {j if name is None else name!r}"
    return None
