"""Columns to numbers: standardised, or one column of zeros and ones per category.

A table is learned in one or several parts. Every part gives a few statistics of each column, and
they are merged in the order of the parts, so that it does not matter which process computed them.
What was learned is saved in the model file, and `Preprocessing.to_transformer` gives it as a
scikit-learn transformer.
"""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairanchor._utils._shared_state import users_stacklevel
from fairanchor.tables._roles import is_missing
from fairanchor.tables._wording import counted, quoted, typed

MAX_CATEGORIES = 100
LARGEST_EXACT_INTEGER = 2**53
# Numbers with separators, units or currencies, and dates.
NUMBER_LIKE = re.compile(r"[-+]?[€$£]?\s?[-+]?\d[\d.,' ]*([eE][-+]?\d+)?\s?[%€$£]?")
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True)
class NumericColumn:
    """``(value - center) / scale``; an imputed value is ``center``, the mean."""

    name: str
    center: float
    scale: float

    @property
    def outputs(self) -> list[str]:
        return [self.name]

    def write(self, column: pa.ChunkedArray, out: np.ndarray) -> None:
        """Fill the only column of ``out``."""
        values = _numbers_of(column, self.name)
        with np.errstate(over="ignore"):
            np.divide(values - self.center, self.scale, out=out[:, 0])
        out[np.isnan(values), 0] = 0.0
        if not np.isfinite(out).all():
            row = int(np.argmin(np.isfinite(out[:, 0])))
            raise ValueError(
                f"The column {quoted(self.name)} has the value {values[row]:g} in row {row}, which "
                f"is too far from the mean {self.center:g} of the fit for double precision."
            )


@dataclass(frozen=True)
class CategoricalColumn:
    """One column of zeros and ones per category; an imputed value is ``fill``."""

    name: str
    categories: tuple[str, ...]
    fill: str

    @property
    def outputs(self) -> list[str]:
        return [category_name(self.name, category) for category in self.categories]

    def write(self, column: pa.ChunkedArray, out: np.ndarray) -> None:
        """Fill the columns of ``out``, one per category; a new category is a row of zeros."""
        texts = _texts_of(column).fill_null(self.fill)
        codes = pc.index_in(texts, value_set=pa.array(self.categories, pa.string()))
        codes = codes.fill_null(-1).to_numpy(zero_copy_only=False)
        known = np.flatnonzero(codes >= 0)
        if len(known) < len(codes):
            first = texts[int(np.argmin(codes >= 0))].as_py()
            warnings.warn(
                f"The column {quoted(self.name)} has {counted(len(codes) - len(known), 'value')} "
                f"that the model has not seen, such as {quoted(first)}. They are encoded as 0 for "
                "every category.",
                UserWarning,
                stacklevel=users_stacklevel(),
            )
        out[:] = 0.0
        out[known, codes[known]] = 1.0


Column = NumericColumn | CategoricalColumn
KINDS = {NumericColumn: "numeric", CategoricalColumn: "categorical"}


def category_name(column: str, category: str) -> str:
    """Name of the feature of a category."""
    return f"{column}={category}"


@dataclass(frozen=True)
class Preprocessing:
    """From a table's columns to the rows that are clustered.

    Attributes
    ----------
    columns : tuple of NumericColumn and CategoricalColumn
    sensitive : tuple of str
        The columns whose values name a row's group.
    impute : bool
        Whether missing values are replaced by the mean or the most frequent category; otherwise
        they are an error.
    """

    columns: tuple[Column, ...]
    sensitive: tuple[str, ...]
    impute: bool = False

    @classmethod
    def learn(
        cls,
        table: pa.Table,
        features: Sequence[str],
        sensitive: Sequence[str],
        *,
        impute: bool = False,
    ) -> Preprocessing:
        """Learn means, deviations and categories of a table; ``impute`` allows missing values."""
        for name in features:
            _warn_identifiers(table.column(name), name)
        statistics = statistics_of([values_of(table, features, impute=impute)], features)
        return cls.of_statistics([statistics], features, sensitive, impute=impute)

    @classmethod
    def of_statistics(
        cls,
        statistics: Iterable[list[Statistics]],
        features: Sequence[str],
        sensitive: Sequence[str],
        *,
        impute: bool = False,
    ) -> Preprocessing:
        """Merge the statistics (`statistics_of`) of all parts of a table, in their order."""
        merged = reduce(partial(_merged, features), statistics)
        columns = tuple(part.column(name) for part, name in zip(merged, features, strict=True))
        return cls(columns, tuple(sensitive), impute)

    @property
    def inputs(self) -> list[str]:
        """Names of the columns that are read."""
        return [column.name for column in self.columns]

    @property
    def text_columns(self) -> set[str]:
        """Columns whose values are names, even if a text file has digits there."""
        numeric = {column.name for column in self.columns if isinstance(column, NumericColumn)}
        return {*self.inputs, *self.sensitive} - numeric

    @property
    def feature_names(self) -> list[str]:
        """Names of the features that come out."""
        return [output for column in self.columns for output in column.outputs]

    def rows_of(self, table: pa.Table) -> np.ndarray:
        """The features of a table's rows: float64, C-contiguous."""
        X = np.empty((table.num_rows, len(self.feature_names)))
        start = 0
        for column in self.columns:
            stop = start + len(column.outputs)
            values = table.column(column.name)
            if not self.impute:
                check_complete(values, column.name)
            column.write(values, X[:, start:stop])
            start = stop
        return X

    def to_transformer(self) -> Any:
        """The same preprocessing as a fitted scikit-learn transformer.

        Returns
        -------
        transformer : sklearn.compose.ColumnTransformer
            For data frames with the columns of the table. A ``StandardScaler`` or a
            ``OneHotEncoder`` for every column, after a ``SimpleImputer`` if ``impute`` is True. It
            needs pandas. A category that was not learned gives zeros and a warning of
            scikit-learn.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from fairanchor.tables import Preprocessing
        >>> table = pa.table({"age": [30, 50], "job": ["cook", "nurse"], "sex": ["f", "m"]})
        >>> preprocessing = Preprocessing.learn(table, ["age", "job"], ["sex"])
        >>> preprocessing.to_transformer().transform(table.to_pandas())
        array([[-1.,  1.,  0.],
               [ 1.,  0.,  1.]])
        """
        import pandas as pd
        from sklearn.compose import ColumnTransformer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        steps: list[Any] = []
        row: dict[str, list[Any]] = {}
        for number, column in enumerate(self.columns):
            if isinstance(column, NumericColumn):
                row[column.name] = [column.center]
                step = StandardScaler()
                if self.impute:
                    step = make_pipeline(step, SimpleImputer(strategy="constant", fill_value=0.0))
            else:
                row[column.name] = [column.fill]
                step = OneHotEncoder(
                    categories=[list(column.categories)],
                    sparse_output=False,
                    handle_unknown="warn",
                    feature_name_combiner=category_name,
                )
                if self.impute:
                    # Missing text is NaN or None, depending on the version of pandas.
                    imputers = [
                        SimpleImputer(
                            missing_values=missing, strategy="constant", fill_value=column.fill
                        )
                        for missing in (np.nan, None)
                    ]
                    step = make_pipeline(*imputers, step)
            steps.append((f"column {number}", step, [column.name]))
        # Fitted to one row of means, which has no deviations.
        transformer = ColumnTransformer(steps, verbose_feature_names_out=False)
        transformer.fit(pd.DataFrame(row))
        for number, column in enumerate(self.columns):
            if isinstance(column, NumericColumn):
                step = transformer.named_transformers_[f"column {number}"]
                scaler = step[0] if self.impute else step
                scaler.scale_, scaler.var_ = np.array([column.scale]), np.array([column.scale**2])
        return transformer

    def describe(self) -> str:
        """One sentence for people."""
        n_categorical = sum(isinstance(column, CategoricalColumn) for column in self.columns)
        n_numeric = len(self.columns) - n_categorical
        parts = []
        if n_numeric:
            columns = counted(n_numeric, "numeric column")
            parts.append(f"{columns} standardised (mean 0, deviation 1)")
        if n_categorical:
            n_outputs = len(self.feature_names) - n_numeric
            outputs = f"{counted(n_outputs, 'column')} of 0 and 1"
            parts.append(f"{counted(n_categorical, 'text column')} as {outputs}")
        return " and ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """A structure of JSON types; numbers keep all digits."""
        columns = [{"kind": KINDS[type(column)]} | asdict(column) for column in self.columns]
        return {"columns": columns, "sensitive": list(self.sensitive), "impute": self.impute}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Preprocessing:
        """Inverse of `to_json`; a structure that it cannot have written is an error."""
        columns: list[Column] = []
        for entry in plain["columns"]:
            entry = dict(entry)
            kind = entry.pop("kind")
            column: Column
            if kind == "numeric":
                column = NumericColumn(**entry)
                numbers = (column.center, column.scale)
                is_valid = all(type(x) is float and math.isfinite(x) for x in numbers)
                is_valid = is_valid and column.scale > 0
            else:
                entry["categories"] = tuple(entry["categories"])
                column = CategoricalColumn(**entry)
                is_valid = all(isinstance(text, str) for text in column.categories)
                is_valid = is_valid and len(set(column.categories)) == len(column.categories)
                is_valid = is_valid and kind == "categorical" and column.fill in column.categories
            if not (is_valid and isinstance(column.name, str)):
                raise ValueError(f"invalid column {str(column)[:200]}")
            columns.append(column)
        sensitive, impute = tuple(plain["sensitive"]), plain["impute"]
        are_texts = all(isinstance(name, str) for name in sensitive)
        if not (are_texts and type(impute) is bool):
            raise ValueError("invalid preprocessing")
        return cls(tuple(columns), sensitive, impute)


# Learning.


@dataclass(frozen=True)
class NumberStatistics:
    """Number of values, mean, and sum of squared differences from the mean."""

    n: int
    mean: float
    squares: float

    @classmethod
    def of(cls, parts: list[np.ndarray]) -> NumberStatistics:
        values = np.concatenate(parts)
        values = values[~np.isnan(values)]
        if len(values) == 0:
            return cls(0, 0.0, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(values.mean())
            return cls(len(values), mean, float(((values - mean) ** 2).sum()))

    def merged(self, other: NumberStatistics) -> NumberStatistics:
        n = self.n + other.n
        if 0 in (self.n, other.n):
            return self if self.n else other
        step = other.mean - self.mean
        squares = self.squares + other.squares + step * step * (self.n / n) * other.n
        return NumberStatistics(n, self.mean + step * (other.n / n), squares)

    def column(self, name: str) -> NumericColumn:
        """The column that was learned."""
        if self.n == 0:
            raise _no_values(name)
        if not (math.isfinite(self.mean) and math.isfinite(self.squares)):
            raise ValueError(
                f"The column {quoted(name)} has numbers whose squares exceed double precision. "
                "Divide it by a constant, which does not change the standardised values."
            )
        deviation = math.sqrt(self.squares / self.n)
        # A deviation that rounding can cause is no information to be scaled up to 1.
        if deviation <= 10 * np.finfo(np.float64).eps * abs(self.mean):
            deviation = 1.0
            _warn_constant(name)
        return NumericColumn(name, self.mean, deviation)


@dataclass(frozen=True)
class TextStatistics:
    """How often each text occurs."""

    counts: Counter[str]

    @classmethod
    def of(cls, parts: list[Counter[str]]) -> TextStatistics:
        return cls(sum(parts, Counter()))

    def merged(self, other: TextStatistics) -> TextStatistics:
        return TextStatistics(self.counts + other.counts)

    def checked(self, name: str) -> TextStatistics:
        """Itself; too many different texts are an error."""
        if len(self.counts) > MAX_CATEGORIES:
            _check_number_like(list(self.counts), name)
            raise ValueError(
                f"The column {quoted(name)} is text with {len(self.counts):,} or more different "
                f"values, such as {quoted(next(iter(self.counts)))}; at most {MAX_CATEGORIES} can "
                f"become columns of 0 and 1. Leave it out with --exclude {typed(name)}, or with "
                f"--id {typed(name)} if it identifies rows."
            )
        return self

    def column(self, name: str) -> CategoricalColumn:
        """The column that was learned."""
        if not self.counts:
            raise _no_values(name)
        values = list(self.checked(name).counts)
        _check_number_like(values, name)
        if len(values) == 1:
            _warn_constant(name)
        # The most frequent one, and the first in the alphabet among equals.
        fill = min(values, key=lambda text: (-self.counts[text], text))
        return CategoricalColumn(name, tuple(sorted(values)), fill)


Statistics = NumberStatistics | TextStatistics


def values_of(table: pa.Table, features: Sequence[str], *, impute: bool) -> list[Any]:
    """Numbers of each numeric feature, and how often each text occurs in the others."""
    values: list[Any] = []
    for name in features:
        column = table.column(name)
        type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not impute:
            check_complete(column, name, learning=True)
        if _is_number(type_):
            values.append(_numbers_of(column, name))
        elif _is_text(type_):
            distinct = pc.value_counts(_texts_of(column).drop_null())
            pairs = zip(*(distinct.field(k).to_pylist() for k in ("values", "counts")), strict=True)
            values.append(Counter(dict(pairs)))
        else:
            raise ValueError(
                f"The column {quoted(name)} has values of type {type_}, expected numbers or text: "
                f"leave it out with --exclude {typed(name)}, or turn it into numbers first."
            )
    return values


def statistics_of(parts: list[list[Any]], features: Sequence[str]) -> list[Statistics]:
    """Statistics of each feature in consecutive pieces of a table, from their `values_of`.

    They depend on the rows, not on where the pieces end.
    """
    statistics: list[Statistics] = []
    for name, values in zip(features, zip(*parts, strict=True), strict=True):
        is_text = {isinstance(part, Counter) for part in values}
        if len(is_text) > 1:
            raise _mixed(name)
        of: Any = TextStatistics.of if is_text.pop() else NumberStatistics.of
        statistics.append(of(list(values)))
    return statistics


def _merged(features: Sequence[str], one: list[Any], other: list[Any]) -> list[Statistics]:
    merged: list[Statistics] = []
    for name, a, b in zip(features, one, other, strict=True):
        if type(a) is not type(b):
            raise _mixed(name)
        both = a.merged(b)
        merged.append(both.checked(name) if isinstance(both, TextStatistics) else both)
    return merged


def _mixed(name: str) -> ValueError:
    return ValueError(f"The column {quoted(name)} has numbers in some files and text in others.")


def check_complete(column: pa.ChunkedArray, name: str, *, learning: bool = False) -> None:
    """Raise an error for missing values."""
    if column.null_count == 0 and not pa.types.is_floating(column.type):
        return
    missing = is_missing(column)
    if not missing.any():
        return
    if missing.all() and learning:
        raise _no_values(name)
    raise ValueError(
        f"The column {quoted(name)} has {counted(int(missing.sum()), 'missing value')} in "
        f"{counted(len(missing), 'row')}, the first in row {int(np.argmax(missing))}. Use "
        "--missing impute to put the mean or the most frequent category in their place, "
        "--missing drop-rows (of a single file) to leave these rows without a cluster"
        + (f", or --exclude {typed(name)}." if learning else ".")
    )


def _is_number(type_: pa.DataType) -> bool:
    is_ = pa.types
    checks = (is_.is_integer, is_.is_floating, is_.is_decimal, is_.is_boolean, is_.is_null)
    return any(check(type_) for check in checks)


def _is_text(type_: pa.DataType) -> bool:
    is_ = pa.types
    return any(check(type_) for check in (is_.is_string, is_.is_large_string, is_.is_string_view))


def _numbers_of(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """A column as float64 with NaN where a value is missing; infinity is an error."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not _is_number(column.type):
        raise ValueError(
            f"The column {quoted(name)} has values of type {column.type}, expected numbers as in "
            "the table that the model was fitted to."
        )
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    values = column.cast(pa.float64(), safe=False).to_numpy()
    infinite = np.isinf(values)
    if infinite.any():
        raise ValueError(
            f"The column {quoted(name)} has {counted(int(infinite.sum()), 'infinite value')}, the "
            f"first in row {int(np.argmax(infinite))}: distances need finite numbers."
        )
    return values


def _texts_of(column: pa.ChunkedArray) -> pa.Array:
    return column.cast(pa.string()).combine_chunks()


def _check_number_like(values: list[str], name: str) -> None:
    """Raise an error for text that seems to be numbers with a flaw."""
    alike = [value for value in values if NUMBER_LIKE.fullmatch(value)]
    # Digits alone are codes: a file that knows types would have numbers as numbers.
    if len(alike) <= max(1, len(values) // 2) or all(map(NUMBER.fullmatch, values)):
        return
    others = [value for value in values if value not in set(alike)]
    other = f"; the first other value is {quoted(others[0])}" if others else ""
    raise ValueError(
        f"The column {quoted(name)} is text, although {len(alike):,} of its {len(values):,} "
        f"different values are written like numbers or dates, such as {quoted(alike[0])}{other}. "
        "Write numbers with a point before decimals and no other sign, leave missing ones empty, "
        f"or leave the column out with --exclude {typed(name)}."
    )


def _no_values(name: str) -> ValueError:
    return ValueError(
        f"The column {quoted(name)} has no values: leave it out with --exclude {typed(name)}."
    )


def _warn_constant(name: str) -> None:
    warnings.warn(
        f"The column {quoted(name)} is constant: it does not influence the clusters.",
        UserWarning,
        stacklevel=users_stacklevel(),
    )


def _warn_identifiers(column: pa.ChunkedArray, name: str) -> None:
    """Warn of whole numbers that seem to identify rows."""
    if not pa.types.is_integer(column.type) or column.null_count == len(column):
        return
    low, high = pc.min_max(column).as_py().values()
    reason = None
    if max(abs(low), abs(high)) > LARGEST_EXACT_INTEGER:
        reason = f"whole numbers beyond 2**53, up to {high}, which lose their last digits"
    elif (
        len(column) >= 10 and high - low == len(column) - 1 == pc.count_distinct(column).as_py() - 1
    ):
        reason = f"the numbers {low} to {high}, each once"
    if reason is not None:
        warnings.warn(
            f"The column {quoted(name)} has {reason}. If it identifies rows, use --id "
            f"{typed(name)} or --exclude {typed(name)}.",
            UserWarning,
            stacklevel=users_stacklevel(),
        )
