"""`Preprocessing` of a table that is read a chunk at a time.

Every chunk gives a few numbers for each column; they are merged in the order of the chunks,
so that means and deviations do not depend on who has read which.
"""

import math
import warnings
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairanchor.tables._numbers import is_number, mean_and_deviation, numbers_of
from fairanchor.tables._preprocessing import (
    MAX_CATEGORIES,
    CategoricalColumn,
    NumericColumn,
    Preprocessing,
    texts_of,
)
from fairanchor.tables._wording import quoted, typed


@dataclass(frozen=True)
class NumberStatistics:
    """Number, mean and sum of squared differences from it."""

    n: int
    mean: float
    squares: float

    @classmethod
    def of(cls, column, name):
        """Of a column without missing values."""
        values = numbers_of(column, name)
        mean, deviation = mean_and_deviation(values)
        return cls(len(values), mean, len(values) * deviation**2)

    def merged(self, other):
        """Of both together."""
        n = self.n + other.n
        step = other.mean - self.mean
        squares = self.squares + other.squares + step * step * (self.n / n) * other.n
        return NumberStatistics(n, self.mean + step * (other.n / n), squares)

    def checked(self, name):
        """These statistics."""
        return self

    def column(self, name, *, scale):
        """How the column becomes a feature."""
        if not (math.isfinite(self.mean) and math.isfinite(self.squares)):
            raise ValueError(
                f"The column {quoted(name)} has numbers whose squares leave the range of doubles: "
                "divide it by a constant, which changes nothing after standardising."
            )
        if not scale:
            return NumericColumn(name, 0.0, 1.0, fill=self.mean)
        deviation = math.sqrt(self.squares / self.n)
        if deviation <= 10 * np.finfo(np.float64).eps * abs(self.mean):
            deviation = 0.0
            _warn_constant(name)
        return NumericColumn(name, self.mean, deviation or 1.0, fill=self.mean)


@dataclass(frozen=True)
class TextStatistics:
    """How often each text occurs."""

    counts: Counter

    @classmethod
    def of(cls, column, name):
        """Of a column without missing values."""
        found = pc.value_counts(texts_of(column))
        values = found.field("values").to_pylist()
        counts = found.field("counts").to_pylist()
        return cls(Counter(dict(zip(values, counts, strict=True)))).checked(name)

    def merged(self, other):
        """Of both together."""
        return TextStatistics(self.counts + other.counts)

    def checked(self, name):
        """These statistics; refused as soon as there are too many texts to become columns."""
        if len(self.counts) > MAX_CATEGORIES:
            raise ValueError(
                f"The column {quoted(name)} is text with {len(self.counts):,} different values or "
                f"more, such as {quoted(next(iter(self.counts)))}; at most {MAX_CATEGORIES} can "
                f"become columns of 0 and 1. Leave it out with --exclude {typed(name)}."
            )
        return self

    def column(self, name, *, scale):
        """How the column becomes features."""
        if len(self.counts) == 1:
            _warn_constant(name)
        fill = min(self.counts, key=lambda text: (-self.counts[text], text))
        return CategoricalColumn(name, tuple(sorted(self.counts)), fill)


def statistics_of_span(files, start, stop):
    """Statistics of all features in a span of rows.

    Parameters
    ----------
    files : RowFiles
    start, stop : int

    Returns
    -------
    statistics : list
        One for every feature.
    """
    merged = None
    for path, row, table in files.tables(start, stop):
        own = []
        for name in files.features:
            column = table.column(name)
            _check_values(column, name, path, row)
            own.append(_kind(column, name).of(column, name))
        merged = own if merged is None else merge_statistics(merged, own, files.features, path)
    return merged


def merge_statistics(one, other, names, path=None):
    """Statistics of both spans, feature by feature."""
    merged = []
    for name, a, b in zip(names, one, other, strict=True):
        if type(a) is not type(b):
            where = "" if path is None else f"; {path} differs from those before it"
            raise ValueError(
                f"The column {quoted(name)} has numbers in some files and text in others{where}."
            )
        merged.append(a.merged(b).checked(name))
    return merged


def _check_values(column, name, path, row):
    """Refuse values that distances cannot be made of, and say where they are."""
    bad, what = None, "a missing value"
    if column.null_count:
        bad = column.is_null().to_numpy()
    elif pa.types.is_floating(column.type):
        values = column.to_numpy()
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isfinite(values.sum()):
                bad = ~np.isfinite(values)
                what = "NaN" if np.isnan(values).any() else "infinity"
    if bad is not None and bad.any():
        raise ValueError(
            f"{path} has {what} in the column {quoted(name)}, the first in row "
            f"{row + int(np.argmax(bad))}: fill or drop such rows, or leave the column out with "
            f"--exclude {typed(name)}."
        )


def preprocessing_of(statistics, names, groups, *, scale=True):
    """Merge the statistics of all spans.

    Parameters
    ----------
    statistics : iterable of list
        For every span, in order, those of the features.
    names : sequence of str
        The features.
    groups : GroupRule
    scale : bool
        Whether to standardise numeric columns.

    Returns
    -------
    preprocessing : Preprocessing
    """
    statistics = iter(statistics)
    merged = next(statistics)
    for own in statistics:
        merged = merge_statistics(merged, own, names)
    columns = [own.column(name, scale=scale) for own, name in zip(merged, names, strict=True)]
    return Preprocessing(tuple(columns), scale, groups)


def _kind(column, name):
    type_ = column.type
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if is_number(type_):
        return NumberStatistics
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return TextStatistics
    raise ValueError(
        f"The column {quoted(name)} has values of type {type_}, expected numbers or text: leave it "
        f"out with --exclude {typed(name)}, or turn it into numbers first."
    )


def _warn_constant(name):
    warnings.warn(
        f"The column {quoted(name)} is constant: it does not influence the clusters.",
        UserWarning,
        stacklevel=4,
    )
