"""Columns of files and partitions: what is asked of them, and their values."""

import numpy as np

MISSING_ADVICE = "missing_groups='own_group'"


def check_columns(opened, features, sensitive, *, numbers):
    """Refuse a file that lacks a column, or whose column is of another kind than elsewhere."""
    import pyarrow.types as types

    kinds = {}
    for file, schema in opened:
        for name in (*features, *sensitive):
            place = schema.get_all_field_indices(name)
            if len(place) != 1:
                problem = "is missing" if not place else f"is there {len(place)} times"
                raise ValueError(
                    f"The column {name!r} {problem} in {file.path}, expected once in every file."
                )
            type_ = schema.field(place[0]).type
            if types.is_dictionary(type_):
                type_ = type_.value_type
            is_number = types.is_integer(type_) or types.is_floating(type_)
            if numbers and name in features and not (is_number or types.is_boolean(type_)):
                raise ValueError(
                    f"The column {name!r} is of type {type_} in {file.path}, expected numbers. "
                    "Name the columns that are features, or encode it as numbers."
                )
            if types.is_null(type_):  # all values are missing, whatever they would be
                continue
            kind = kind_of_names(type_)
            other = kinds.setdefault(name, (kind, type_, file.path))
            if name in sensitive and other[0] != kind:
                raise ValueError(
                    f"The column {name!r} is of type {type_} in {file.path}, but of type "
                    f"{other[1]} in {other[2]}: their groups would not be the same."
                )


def kind_of_names(type_):
    """What types of a sensitive column have to share, for equal groups to have equal names."""
    import pyarrow.types as types

    if types.is_dictionary(type_):
        type_ = type_.value_type
    for kind, is_kind in (
        ("integer", lambda t: types.is_integer(t) and not types.is_uint64(t)),
        ("number", types.is_floating),
        ("truth", types.is_boolean),
        ("text", lambda t: types.is_string(t) or types.is_large_string(t)),
    ):
        if is_kind(type_):
            return kind
    return str(type_)


def plain(column):
    """A column without dictionary, of a width that all files share."""
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    wide = {"integer": pa.int64(), "number": pa.float64(), "text": pa.large_string()}
    kind = kind_of_names(column.type)
    return column.cast(wide[kind]) if kind in wide else column


def joined(pieces):
    """Pieces of a sensitive column as one; a piece without any value takes the others' type.

    Parameters
    ----------
    pieces : list of pyarrow.Array

    Returns
    -------
    column : pyarrow.ChunkedArray
    """
    import pyarrow as pa
    import pyarrow.types as types

    common = next((own.type for own in pieces if not types.is_null(own.type)), pa.null())
    return pa.chunked_array(
        [own.cast(common) if types.is_null(own.type) else own for own in pieces], type=common
    )


def check_groups_known(column, name, where, row, advice=MISSING_ADVICE):
    """Refuse rows without a group.

    Parameters
    ----------
    column : pyarrow.Array
    name : str
    where : str
        The file or partition.
    row : int
        Number of its first row there.
    advice : str
        How to make them a group.
    """
    is_missing = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if is_missing.any():
        raise ValueError(
            f"{where} has {np.count_nonzero(is_missing)} or more missing values in column "
            f"{name!r} of sensitive_features, the first in row {row + int(np.argmax(is_missing))}: "
            f"a row without a group cannot be counted for one. Use {advice} to make them a group "
            "of their own, or leave these rows out."
        )


def numbers_of(column, name, where, row):
    """A column without missing values as an array."""
    if column.null_count:
        first = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(
            f"{where} has {column.null_count} or more missing values in column {name!r}, the "
            f"first in row {row + first}. Distances need numbers: impute or drop them."
        )
    return column.to_numpy(zero_copy_only=False)


def check_finite(X, features, where, row):
    """Refuse numbers that are none, with their place: rows are counted from ``row`` on."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):
            return
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        i, j = bad[0]
        what = "NaN" if np.isnan(X[i, j]) else "infinity"
        raise ValueError(
            f"{where} has {what} in column {features[j]!r}, row {row + i}. Distances need "
            "finite numbers: impute or drop them."
        )
