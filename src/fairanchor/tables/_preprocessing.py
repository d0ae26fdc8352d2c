"""Columns to numbers: standardised, or one column of zeros and ones per category.

What was learned from the training table is all that is needed for new rows, and it travels in
the model file.
"""

import re
import warnings
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairanchor.tables._grouping import GroupRule
from fairanchor.tables._numbers import (
    is_number,
    mean_and_deviation,
    numbers_of,
    standardise,
    warn_identifiers,
)
from fairanchor.tables._wording import counted, quoted, typed

MAX_CATEGORIES = 100
# Commas, units and currencies: numbers to people, text to programs.
DRESSED_NUMBER = re.compile(r"[-+]?[€$£]?\s?[-+]?\d[\d.,' ]*\s?[%€$£]?")


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
        standardise(values, self.center, self.scale, out[:, 0], self.name)


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
                f"{counted(len(codes) - len(known), 'value')} of the column {quoted(self.name)} "
                f"the model has not seen, such as {quoted(first)}: counted as none of its "
                "categories.",
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
            parts.append(f"{counted(n_numeric, 'numeric column')} {scaling}")
        if n_categorical:
            n_outputs = len(self.feature_names) - n_numeric
            outputs = f"{counted(n_outputs, 'column')} of 0 and 1"
            parts.append(f"{counted(n_categorical, 'text column')} as {outputs}")
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


def texts_of(column):
    """A column as one array of texts, nulls where a value is missing."""
    column = column.cast(pa.string())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _is_text(type_):
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or _is_view(type_)


def _is_view(type_):
    return pa.types.is_string_view(type_)


def _is_categorical(column):
    return isinstance(column, CategoricalColumn)


def _learn_column(column, name, scale, impute):
    type_ = column.type
    if pa.types.is_dictionary(type_) and not _is_text(type_):
        column = column.cast(type_.value_type)
    if column.null_count == len(column):
        raise ValueError(
            f"The column {quoted(name)} has no values: leave it out with --exclude {typed(name)}."
        )
    if _is_text(column.type):
        return _learn_categories(column, name, impute)
    if is_number(column.type):
        return _learn_numbers(column, name, scale, impute)
    raise ValueError(
        f"The column {quoted(name)} has values of type {column.type}, expected numbers or text: "
        f"leave it out with --exclude {typed(name)}, or turn it into numbers first."
    )


def _learn_numbers(column, name, scale, impute):
    values = numbers_of(column, name)
    missing = np.isnan(values)
    if missing.any():
        _require(impute, name, missing, learning=True)
        values = values[~missing]
    warn_identifiers(column, values, name)
    mean, deviation = mean_and_deviation(values)
    if not scale:
        return NumericColumn(name, 0.0, 1.0, fill=mean)
    if deviation == 0.0:
        low, high = float(values.min()), float(values.max())
        differs = f", but for the last digits ({low!r} to {high!r})" if low < high else ""
        _warn_constant(name, differs)
    return NumericColumn(name, mean, deviation or 1.0, fill=mean)


def _warn_constant(name, differs=""):
    warnings.warn(
        f"The column {quoted(name)} is constant{differs}: it does not influence the clusters.",
        UserWarning,
        stacklevel=6,
    )


def _learn_categories(column, name, impute):
    texts = texts_of(column)
    if texts.null_count:
        _require(impute, name, texts.is_null().to_numpy(zero_copy_only=False), learning=True)
    found = pc.value_counts(texts.drop_null())
    values = found.field("values").to_pylist()
    counts = found.field("counts").to_numpy()
    _check_text(texts, name, values)
    if len(values) == 1:
        _warn_constant(name)
    # The commonest, the first in the alphabet among equals.
    fill = min(zip(-counts, values, strict=True))[1]
    return CategoricalColumn(name, tuple(sorted(values)), fill)


def _check_text(texts, name, values):
    others = [value for value in values if not _looks_numeric(value)]
    if others and len(values) - len(others) > max(1, len(values) // 2):
        row = pc.index(texts, others[0]).as_py()
        raise ValueError(
            f"The column {quoted(name)} is text, although {len(values) - len(others):,} of its "
            f"{len(values):,} different values are numbers: the first other one is "
            f"{quoted(others[0])} in row {row}. Correct it, declare it missing with --null "
            f"{typed(others[0])}, or leave the column out with --exclude {typed(name)}."
        )
    dressed = [value for value in others if DRESSED_NUMBER.fullmatch(value)]
    if len(dressed) > len(values) // 2:
        raise ValueError(
            f"The column {quoted(name)} is text: {len(dressed):,} of its {len(values):,} different "
            f"values are numbers written like {quoted(dressed[0])}. Write them with a point before "
            "decimals and no other sign, or leave the column out with --exclude "
            f"{typed(name)}."
        )
    if len(values) > MAX_CATEGORIES:
        raise ValueError(
            f"The column {quoted(name)} is text with {len(values):,} different values, such as "
            f"{quoted(values[0])}; at most {MAX_CATEGORIES} can become columns of 0 and 1. Leave "
            f"it out with --exclude {typed(name)}, or with --id {typed(name)} if it identifies "
            "rows."
        )


def _looks_numeric(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def _require(impute, name, missing, *, learning=False):
    if impute:
        return
    choices = [
        "--missing impute to put the mean or the commonest category in their place",
        "--missing drop-rows to leave these rows without a cluster",
    ]
    if learning:
        choices.append(f"--exclude {typed(name)}")
    raise ValueError(
        f"The column {quoted(name)} has {counted(int(missing.sum()), 'missing value')} in "
        f"{counted(len(missing), 'row')}, the first in row {int(np.argmax(missing))}. Use "
        f"{', '.join(choices[:-1])}, or {choices[-1]}."
    )
