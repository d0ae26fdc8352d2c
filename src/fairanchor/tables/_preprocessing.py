"""Columns to numbers: standardised, or one column of zeros and ones per category.

What was learned from the training table is all that is needed for new rows, and it travels in
the model file.
"""

import warnings
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairanchor.tables._grouping import GroupRule

MAX_CATEGORIES = 100
LARGEST_EXACT_INTEGER = 2**53


@dataclass(frozen=True)
class NumericColumn:
    """``(value - center) / scale``; a missing value counts as ``fill`` if that is allowed."""

    name: str
    center: float
    scale: float
    fill: float

    @property
    def outputs(self):
        return [self.name]

    def write(self, column, out, *, impute):
        """Fill the only column of ``out``."""
        values = numbers_of(column, self.name)
        missing = np.isnan(values)
        if missing.any():
            _require(impute, self.name, missing)
            values = np.where(missing, self.fill, values)
        np.subtract(values, self.center, out=out[:, 0])
        if self.scale != 1.0:
            out[:, 0] /= self.scale


@dataclass(frozen=True)
class CategoricalColumn:
    """One column of zeros and ones per category; a new category has zeros only."""

    name: str
    categories: tuple
    fill: str

    @property
    def outputs(self):
        return [f"{self.name}={category}" for category in self.categories]

    def write(self, column, out, *, impute):
        """Fill the columns of ``out``, one per category."""
        texts = texts_of(column)
        if texts.null_count:
            _require(impute, self.name, texts.is_null().to_numpy(zero_copy_only=False))
            texts = texts.fill_null(self.fill)
        codes = pc.index_in(texts, value_set=pa.array(self.categories, texts.type))
        codes = codes.fill_null(-1).to_numpy(zero_copy_only=False)
        known = np.flatnonzero(codes >= 0)
        if len(known) < len(codes):
            first = texts[int(np.argmin(codes >= 0))].as_py()
            warnings.warn(
                f"{len(codes) - len(known):,} rows have a value of {self.name!r} that the model "
                f"has not seen, such as {first!r}: they count as none of its categories.",
                UserWarning,
                stacklevel=4,
            )
        out[:] = 0.0
        out[known, codes[known]] = 1.0


@dataclass(frozen=True)
class Preprocessing:
    """From a table's columns to the rows that are clustered, and to their groups.

    Attributes
    ----------
    columns : tuple of NumericColumn and CategoricalColumn
    scaled : bool
        Whether numeric columns are standardised.
    groups : GroupRule
        How the sensitive columns name a group.
    """

    columns: tuple
    scaled: bool
    groups: GroupRule

    @classmethod
    def learn(cls, table, names, groups, *, scale=True, impute=False):
        """Means, deviations and categories of the named columns.

        Parameters
        ----------
        table : pyarrow.Table
        names : sequence of str
            The features.
        groups : GroupRule
        scale : bool, default=True
            Whether to standardise numeric columns.
        impute : bool, default=False
            Whether missing values are allowed: they become the mean, or the commonest category.

        Returns
        -------
        preprocessing : Preprocessing
        """
        columns = tuple(_learn_column(table.column(name), name, scale, impute) for name in names)
        return cls(columns, scale, groups)

    @property
    def inputs(self):
        """Names of the columns that are read."""
        return [column.name for column in self.columns]

    @property
    def text_columns(self):
        """Columns whose values are names, whatever they look like in a text file."""
        categorical = [column.name for column in self.columns if _is_categorical(column)]
        numeric = {column.name for column in self.columns if not _is_categorical(column)}
        return {*categorical, *self.groups.columns} - numeric

    @property
    def feature_names(self):
        """Names of the columns that come out."""
        return [output for column in self.columns for output in column.outputs]

    def rows_of(self, table, *, impute=False):
        """The numbers that are clustered.

        Parameters
        ----------
        table : pyarrow.Table
        impute : bool, default=False
            Whether missing values are replaced; otherwise they are an error.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features), C-contiguous float64
        """
        X = np.empty((table.num_rows, len(self.feature_names)))
        start = 0
        for column in self.columns:
            stop = start + len(column.outputs)
            column.write(table.column(column.name), X[:, start:stop], impute=impute)
            start = stop
        return X

    def describe(self):
        """One sentence for people."""
        n_categorical = sum(map(_is_categorical, self.columns))
        n_numeric = len(self.columns) - n_categorical
        parts = []
        if n_numeric:
            scaling = "standardised (mean 0, deviation 1)" if self.scaled else "not scaled"
            parts.append(f"{_counted(n_numeric, 'numeric column')} {scaling}")
        if n_categorical:
            n_outputs = len(self.feature_names) - n_numeric
            outputs = f"{_counted(n_outputs, 'column')} of 0 and 1"
            parts.append(f"{_counted(n_categorical, 'text column')} as {outputs}")
        return " and ".join(parts)

    def to_json(self):
        """A structure of JSON types; numbers keep all digits."""
        kinds = [{"kind": _KIND_OF[type(column)]} | asdict(column) for column in self.columns]
        return {"columns": kinds, "scaled": self.scaled, "groups": self.groups.to_json()}

    @classmethod
    def from_json(cls, plain):
        """Inverse of `to_json`."""
        columns = []
        for entry in plain["columns"]:
            entry = dict(entry)
            kind = _KINDS[entry.pop("kind")]
            if kind is CategoricalColumn:
                entry["categories"] = tuple(entry["categories"])
            columns.append(kind(**entry))
        return cls(tuple(columns), bool(plain["scaled"]), GroupRule.from_json(plain["groups"]))


_KINDS = {"numeric": NumericColumn, "categorical": CategoricalColumn}
_KIND_OF = {kind: name for name, kind in _KINDS.items()}


def numbers_of(column, name):
    """A column as float64 with NaN where a value is missing; infinity is an error."""
    type_ = column.type
    if pa.types.is_dictionary(type_):
        column = column.cast(type_.value_type)
    if not _is_number(column.type):
        raise ValueError(
            f"The column {name!r} has values of type {column.type}, expected numbers as in the "
            "table that the model was fitted to."
        )
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    values = column.cast(pa.float64(), safe=False).to_numpy()
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(values.sum())
    infinite = np.isinf(values) if suspicious else None
    if suspicious and infinite.any():
        raise ValueError(
            f"The column {name!r} has {int(infinite.sum()):,} infinite values, the first in row "
            f"{int(np.argmax(infinite))}: distances need finite numbers."
        )
    return values


def texts_of(column):
    """A column as one array of texts, nulls where a value is missing."""
    column = column.cast(pa.string())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _is_number(type_):
    is_ = pa.types
    return (
        is_.is_integer(type_)
        or is_.is_floating(type_)
        or is_.is_decimal(type_)
        or is_.is_boolean(type_)
        or is_.is_null(type_)
    )


def _is_text(type_):
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or _is_view(type_)


def _is_view(type_):
    return pa.types.is_string_view(type_)


def _counted(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _is_categorical(column):
    return isinstance(column, CategoricalColumn)


def _learn_column(column, name, scale, impute):
    type_ = column.type
    if pa.types.is_dictionary(type_) and not _is_text(type_):
        column = column.cast(type_.value_type)
    if column.null_count == len(column):
        raise ValueError(f"The column {name!r} has no values: leave it out with --exclude.")
    if _is_text(column.type):
        return _learn_categories(column, name, impute)
    if _is_number(column.type):
        return _learn_numbers(column, name, scale, impute)
    raise ValueError(
        f"The column {name!r} has values of type {column.type}, expected numbers or text: leave "
        "it out with --exclude, or turn it into numbers first."
    )


def _learn_numbers(column, name, scale, impute):
    _warn_huge_integers(column, name)
    values = numbers_of(column, name)
    missing = np.isnan(values)
    if missing.any():
        _require(impute, name, missing)
        values = values[~missing]
    _warn_row_numbers(column, values, name)
    mean = float(values.mean())
    if not scale:
        return NumericColumn(name, 0.0, 1.0, fill=mean)
    deviation = float(np.sqrt(np.mean((values - mean) ** 2)))
    # What rounding leaves of a constant is no information to be blown up to deviation 1.
    if deviation <= 10 * np.finfo(np.float64).eps * abs(mean):
        warnings.warn(
            f"The column {name!r} is constant: it does not influence the clusters.",
            UserWarning,
            stacklevel=5,
        )
        deviation = 1.0
    return NumericColumn(name, mean, deviation, fill=mean)


def _warn_row_numbers(column, values, name):
    """A permutation of consecutive whole numbers says which row it is, not what it is like."""
    n = len(values)
    if not pa.types.is_integer(column.type) or n < 10 or values.max() - values.min() != n - 1:
        return
    if pc.count_distinct(column).as_py() == n:
        warnings.warn(
            f"The column {name!r} has the numbers {values.min():.0f} to {values.max():.0f}, each "
            f"once: if it numbers the rows, use --id {name} or --exclude {name}.",
            UserWarning,
            stacklevel=6,
        )


def _warn_huge_integers(column, name):
    if not pa.types.is_integer(column.type):
        return
    extremes = [abs(value) for value in pc.min_max(column).as_py().values() if value is not None]
    if extremes and max(extremes) > LARGEST_EXACT_INTEGER:
        warnings.warn(
            f"The column {name!r} has whole numbers beyond 2**53, up to {max(extremes)}: as "
            "floating-point numbers they lose their last digits. If it identifies rows, use --id "
            f"{name} or --exclude {name}.",
            UserWarning,
            stacklevel=6,
        )


def _learn_categories(column, name, impute):
    texts = texts_of(column)
    if texts.null_count:
        _require(impute, name, texts.is_null().to_numpy(zero_copy_only=False))
    counted = pc.value_counts(texts.drop_null())
    values = counted.field("values").to_pylist()
    counts = counted.field("counts").to_numpy()
    _check_text(texts, name, values)
    # The commonest, the first in the alphabet among equals.
    fill = min(zip(-counts, values, strict=True))[1]
    return CategoricalColumn(name, tuple(sorted(values)), fill)


def _check_text(texts, name, values):
    others = [value for value in values if not _looks_numeric(value)]
    if others and len(values) - len(others) > max(1, len(values) // 2):
        row = pc.index(texts, others[0]).as_py()
        raise ValueError(
            f"The column {name!r} is text, although {len(values) - len(others):,} of its "
            f"{len(values):,} different values are numbers: the first other one is {others[0]!r} "
            f"in row {row}. Correct it, declare it missing with --null {others[0]!r}, or leave "
            "the column out with --exclude."
        )
    if len(values) > MAX_CATEGORIES:
        raise ValueError(
            f"The column {name!r} is text with {len(values):,} different values, such as "
            f"{values[0]!r}; at most {MAX_CATEGORIES} can become columns of 0 and 1. Leave it out "
            f"with --exclude {name!r}, or with --id if it identifies rows."
        )


def _looks_numeric(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def _require(impute, name, missing):
    if not impute:
        raise ValueError(
            f"The column {name!r} has {int(missing.sum()):,} missing values in {len(missing):,} "
            f"rows, the first in row {int(np.argmax(missing))}. Use --missing impute to put the "
            "mean or the commonest category in their place, --missing drop-rows to leave these "
            f"rows without a cluster, or --exclude {name!r}."
        )
