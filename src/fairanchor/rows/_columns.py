"""Checks of columns that come from files and partitions, and their values."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

MISSING_ADVICE = "missing_groups='own_group'"


def kind_of_names(type_: pa.DataType) -> str:
    """What types of a sensitive column have to share, for equal groups to have equal names."""
    if types.is_dictionary(type_):
        type_ = type_.value_type
    if types.is_integer(type_) and not types.is_uint64(type_):
        return "integer"
    if types.is_floating(type_):
        return "number"
    return "text" if types.is_string(type_) or types.is_large_string(type_) else str(type_)


def plain(column: pa.Array) -> pa.Array:
    """A column as a dictionary whose values have a width that all files share."""
    if types.is_null(column.type):
        return column
    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    wide = {"integer": pa.int64(), "number": pa.float64(), "text": pa.large_string()}
    values, indices = column.dictionary, column.indices
    values = values.cast(wide.get(kind_of_names(values.type), values.type))
    return pa.DictionaryArray.from_arrays(indices.cast(pa.int32()), values)


def check_groups_known(
    column: pa.Array, name: Any, where: str, row: int, advice: str = MISSING_ADVICE
) -> None:
    """Raise an error for rows without a group; ``row`` is the number of the first one."""
    if types.is_dictionary(column.type):
        if not column.null_count and not _is_missing(column.dictionary).any():
            return
        column = column.dictionary_decode()
    is_missing = _is_missing(column)
    if is_missing.any():
        raise ValueError(
            f"{where} has {np.count_nonzero(is_missing)} or more missing values in column "
            f"{name!r} of sensitive_features, the first in row {row + int(np.argmax(is_missing))}: "
            f"a row without a group cannot be counted for one. Use {advice} to treat them as a "
            "separate group, or leave these rows out."
        )


def _is_missing(column: pa.Array) -> np.ndarray:
    return column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)


def numbers_of(column: pa.Array) -> np.ndarray:
    """A column of numbers as an array; missing values are NaN."""
    if column.null_count and types.is_boolean(column.type):
        column = column.cast(pa.float32())
    return column.to_numpy(zero_copy_only=False)
