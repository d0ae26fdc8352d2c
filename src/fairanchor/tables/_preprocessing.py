"""Columns to numbers: standardised, or one column of zeros and ones per category.

A table is learned in one or several parts. Every part gives a few statistics of each column, and
they are merged in the order of the parts, so that it does not matter which process computed them.
What was learned is saved in the model file, and `Preprocessing.to_transformer` gives it as a
scikit-learn transformer.
"""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from fairanchor._utils._shared_state import users_stacklevel
from fairanchor.rows._chunks import CHUNK_ROWS
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
        with np.errstate(over="ignore"):  # infinity is an error of the estimator
            np.divide(values - self.center, self.scale, out=out[:, 0])
        out[np.isnan(values), 0] = 0.0


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
            _warn(
                f"The column {quoted(self.name)} has {counted(len(codes) - len(known), 'value')} "
                f"that the model has not seen, such as {quoted(first)}. They are encoded as 0 for "
                "every category."
            )
        out[:] = 0.0
        out[known, codes[known]] = 1.0


Column = NumericColumn | CategoricalColumn


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
        starts = range(0, max(table.num_rows, 1), CHUNK_ROWS)  # as of files in chunks
        parts = ([table.slice(start, CHUNK_ROWS)] for start in starts)
        statistics = (statistics_of(part, features, impute=impute) for part in parts)
        return cls.of_statistics(statistics, features, sensitive, impute=impute)

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
        merged = reduce(lambda one, other: list(map(Statistics.merged, one, other)), statistics)
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
                parts: list[Any] = [StandardScaler()]
                if self.impute:
                    parts.append(SimpleImputer(strategy="constant", fill_value=0.0))
            else:
                row[column.name] = [column.fill]
                # Missing text is NaN or None, depending on the version of pandas.
                parts = [
                    SimpleImputer(missing_values=v, strategy="constant", fill_value=column.fill)
                    for v in ((np.nan, None) if self.impute else ())
                ]
                parts.append(
                    OneHotEncoder(
                        categories=[list(column.categories)],
                        sparse_output=False,
                        handle_unknown="warn",
                        feature_name_combiner=category_name,
                    )
                )
            steps.append((f"column {number}", make_pipeline(*parts), [column.name]))
        # Fitted to one row of means, which has no deviations.
        transformer = ColumnTransformer(steps, verbose_feature_names_out=False)
        transformer.fit(pd.DataFrame(row))
        for number, column in enumerate(self.columns):
            if isinstance(column, NumericColumn):
                scaler = transformer.named_transformers_[f"column {number}"][0]
                scaler.scale_, scaler.var_ = np.array([column.scale]), np.array([column.scale**2])
        return transformer

    def describe(self) -> str:
        """One sentence for people."""
        n_numeric = sum(isinstance(column, NumericColumn) for column in self.columns)
        n_text, parts = len(self.columns) - n_numeric, []
        if n_numeric:
            columns = counted(n_numeric, "numeric column")
            parts.append(f"{columns} standardised (mean 0, deviation 1)")
        if n_text:
            outputs = counted(len(self.feature_names) - n_numeric, "column")
            parts.append(f"{counted(n_text, 'text column')} as {outputs} of 0 and 1")
        return " and ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """A structure of JSON types; numbers keep all digits."""
        columns = [asdict(column) for column in self.columns]
        return {"columns": columns, "sensitive": list(self.sensitive), "impute": self.impute}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Preprocessing:
        """Inverse of `to_json`; a structure that it cannot have written is an error."""
        columns: list[Column] = []
        texts: list[Any] = list(plain["sensitive"])
        is_valid = type(plain["impute"]) is bool
        for entry in plain["columns"]:
            texts.append(entry["name"])
            if "categories" in entry:
                names = tuple(entry["categories"])
                texts += names
                is_valid &= len(set(names)) == len(names) and entry["fill"] in names
                columns.append(CategoricalColumn(**(entry | {"categories": names})))
            else:
                numbers = entry["center"], entry["scale"]
                is_valid &= all(type(x) is float and math.isfinite(x) for x in numbers)
                is_valid &= bool(entry["scale"] > 0)
                columns.append(NumericColumn(**entry))
        if not (is_valid and all(isinstance(text, str) for text in texts)):
            raise ValueError("invalid preprocessing")
        return cls(tuple(columns), tuple(plain["sensitive"]), plain["impute"])


# Learning.


@dataclass(frozen=True)
class Statistics:
    """Of the values of a column: number, mean and sum of squared differences from it, or texts.

    ``texts`` has how often each text occurs; None is a column of numbers.
    """

    name: str
    n: int = 0
    mean: float = 0.0
    squares: float = 0.0
    texts: Counter[str] | None = None

    @classmethod
    def of(cls, name: str, parts: list[Any]) -> Statistics:
        """Of consecutive pieces, whatever their lengths: arrays of numbers, or counts of texts."""
        if any(isinstance(part, Counter) for part in parts):
            if not all(isinstance(part, Counter) for part in parts):
                raise _mixed(name)
            return cls(name, texts=sum(parts, Counter()))
        values = np.concatenate(parts)
        values = values[~np.isnan(values)]
        if len(values) == 0:
            return cls(name)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(values.mean())
            return cls(name, len(values), mean, float(((values - mean) ** 2).sum()))

    def merged(self, other: Statistics) -> Statistics:
        """Those of both parts."""
        if self.texts is not None and other.texts is not None:
            texts = self.texts + other.texts
            if len(texts) > MAX_CATEGORIES:
                _check_texts(texts, self.name)
            return Statistics(self.name, texts=texts)
        if self.texts is not None or other.texts is not None:
            raise _mixed(self.name)
        if 0 in (self.n, other.n):
            return self if self.n else other
        n, step = self.n + other.n, other.mean - self.mean
        squares = self.squares + other.squares + step * step * (self.n / n) * other.n
        return Statistics(self.name, n, self.mean + step * (other.n / n), squares)

    def column(self, name: str) -> Column:
        """The column that was learned."""
        if not (self.texts or self.n):
            raise _no_values(name)
        if self.texts is not None:
            _check_texts(self.texts, name)
            # The most frequent one, and the first in the alphabet among equals.
            [(fill, _)] = Counter(dict(sorted(self.texts.items()))).most_common(1)
            column: Column = CategoricalColumn(name, tuple(sorted(self.texts)), fill)
            is_constant = len(self.texts) == 1
        else:
            deviation = math.sqrt(self.squares / self.n)
            if not (math.isfinite(self.mean) and math.isfinite(deviation)):
                raise ValueError(
                    f"The column {quoted(name)} has numbers whose squares exceed double precision. "
                    "Divide it by a constant, which does not change the standardised values."
                )
            # A deviation that rounding can cause is no information to be scaled up to 1.
            is_constant = deviation <= 10 * sys.float_info.epsilon * abs(self.mean)
            column = NumericColumn(name, self.mean, 1.0 if is_constant else deviation)
        if is_constant:
            _warn(f"The column {quoted(name)} is constant: it does not influence the clusters.")
        return column


def statistics_of(
    tables: Iterable[pa.Table], features: Sequence[str], *, impute: bool
) -> list[Statistics]:
    """Statistics of each feature in consecutive pieces of a table.

    They depend on the rows, not on where the pieces end.
    """
    parts = [[_values_of(table, name, impute=impute) for name in features] for table in tables]
    columns = zip(*parts, strict=True)
    return [Statistics.of(name, list(c)) for name, c in zip(features, columns, strict=True)]


def _values_of(table: pa.Table, name: str, *, impute: bool) -> np.ndarray | Counter[str]:
    """Numbers of a column, or how often each text occurs."""
    column = table.column(name)
    type_ = column.type.value_type if types.is_dictionary(column.type) else column.type
    if not impute:
        check_complete(column, name, learning=True)
    if _is_number(type_):
        return _numbers_of(column, name)
    if types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_):
        distinct = pc.value_counts(_texts_of(column).drop_null())
        pairs = (distinct.field(part).to_pylist() for part in ("values", "counts"))
        return Counter(dict(zip(*pairs, strict=True)))
    raise ValueError(
        f"The column {quoted(name)} has values of type {type_}, expected numbers or text: "
        f"leave it out with --exclude {typed(name)}, or turn it into numbers first."
    )


def check_complete(column: pa.ChunkedArray, name: str, *, learning: bool = False) -> None:
    """Raise an error for missing values."""
    if column.null_count == 0 and not types.is_floating(column.type):
        return
    missing = is_missing(column)
    if not missing.any():
        return
    if missing.all() and learning:
        raise _no_values(name)
    raise ValueError(
        f"The column {quoted(name)} has {counted(int(missing.sum()), 'missing value')} in "
        f"{counted(len(missing), 'row')}, the first in row {int(np.argmax(missing))} (counted from "
        "0). Use --missing impute to put the mean or the most frequent category in their place, "
        "--missing drop-rows (of a single file) to leave these rows without a cluster"
        + (f", or --exclude {typed(name)}." if learning else ".")
    )


def _is_number(type_: pa.DataType) -> bool:
    is_real = types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_)
    return is_real or types.is_boolean(type_) or types.is_null(type_)


def _numbers_of(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """A column as float64 with NaN where a value is missing; infinity is an error."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not _is_number(column.type):
        raise ValueError(
            f"The column {quoted(name)} has values of type {column.type}, expected numbers as in "
            "the table that the model was fitted to."
        )
    if types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    values = column.cast(pa.float64(), safe=False).to_numpy()
    infinite = np.isinf(values)
    if infinite.any():
        raise ValueError(
            f"The column {quoted(name)} has {counted(int(infinite.sum()), 'infinite value')}, the "
            f"first in row {int(np.argmax(infinite))} (counted from 0): distances need "
            "finite numbers."
        )
    return values


def _texts_of(column: pa.ChunkedArray) -> pa.Array:
    return column.cast(pa.string()).combine_chunks()


def _check_texts(texts: Iterable[str], name: str) -> None:
    """Raise an error for text that seems to be numbers with a flaw, or has too many values."""
    values = list(texts)
    alike = [value for value in values if NUMBER_LIKE.fullmatch(value)]
    # Digits alone are codes: a file that knows types would have numbers as numbers.
    if len(alike) > max(1, len(values) // 2) and not all(map(NUMBER.fullmatch, values)):
        others = [value for value in values if value not in set(alike)]
        other = f"; the first other value is {quoted(others[0])}" if others else ""
        raise ValueError(
            f"The column {quoted(name)} is text, although {len(alike):,} of its {len(values):,} "
            f"different values are written like numbers or dates, such as {quoted(alike[0])}"
            f"{other}. Write numbers with a point before decimals and no other sign, leave missing "
            f"ones empty, or leave the column out with --exclude {typed(name)}."
        )
    if len(values) > MAX_CATEGORIES:
        raise ValueError(
            f"The column {quoted(name)} is text with {len(values):,} or more different values, "
            f"such as {quoted(values[0])}; at most {MAX_CATEGORIES} can become columns of 0 and 1. "
            f"Leave it out with --exclude {typed(name)}, or with --id {typed(name)} if it "
            "identifies rows."
        )


def _no_values(name: str) -> ValueError:
    return ValueError(
        f"The column {quoted(name)} has no values: leave it out with --exclude {typed(name)}."
    )


def _mixed(name: str) -> ValueError:
    return ValueError(f"The column {quoted(name)} has numbers in some files and text in others.")


def _warn_identifiers(column: pa.ChunkedArray, name: str) -> None:
    """Warn of whole numbers that seem to identify rows."""
    n = len(column)
    if not types.is_integer(column.type) or column.null_count == n:
        return
    low, high = pc.min_max(column).as_py().values()
    if max(abs(low), abs(high)) > LARGEST_EXACT_INTEGER:
        reason = f"whole numbers beyond 2**53, up to {high}, which lose their last digits"
    elif n >= 10 and high - low == n - 1 and pc.count_distinct(column).as_py() == n:
        reason = f"the numbers {low} to {high}, each once"
    else:
        return
    _warn(
        f"The column {quoted(name)} has {reason}. If it identifies rows, use --id {typed(name)} or "
        f"--exclude {typed(name)}."
    )


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=users_stacklevel())
