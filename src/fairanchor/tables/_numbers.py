"""Columns of numbers: as float64, their mean and deviation, and what looks like a row's name."""

import math
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairanchor.tables._wording import counted, quoted, typed

LARGEST_EXACT_INTEGER = 2**53
# Beyond it, every floating-point number is whole, whatever it measures.
LARGEST_IDENTIFIER = 2**64


def is_number(type_):
    """Whether values of a pyarrow type are taken as numbers."""
    is_ = pa.types
    return (
        is_.is_integer(type_)
        or is_.is_floating(type_)
        or is_.is_decimal(type_)
        or is_.is_boolean(type_)
        or is_.is_null(type_)
    )


def numbers_of(column, name):
    """A column as float64 with NaN where a value is missing; infinity is an error."""
    type_ = column.type
    if pa.types.is_dictionary(type_):
        column = column.cast(type_.value_type)
    if not is_number(column.type):
        raise ValueError(
            f"The column {quoted(name)} has values of type {column.type}, expected numbers as in "
            "the table that the model was fitted to."
        )
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    values = column.cast(pa.float64(), safe=False).to_numpy()
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(values.sum())
    infinite = np.isinf(values) if suspicious else None
    if suspicious and infinite.any():
        raise ValueError(
            f"The column {quoted(name)} has {counted(int(infinite.sum()), 'infinite value')}, the "
            f"first in row {int(np.argmax(infinite))}: distances need finite numbers."
        )
    return values


def mean_and_deviation(values):
    """Mean and standard deviation of finite numbers of any size, or (mean, 0) of a constant.

    Squares of numbers beyond 1e154 overflow and those of numbers below 1e-162 vanish, so that
    the work is done on numbers divided by a power of two, which rounds nothing.
    """
    exponent = _exponent_of(np.abs(values).max(initial=0.0))
    small = np.ldexp(values, -exponent)
    mean = float(small.mean())
    deviation = float(np.sqrt(np.mean((small - mean) ** 2)))
    # What rounding leaves of a constant is no information to be blown up to deviation 1.
    if deviation <= 10 * np.finfo(np.float64).eps * abs(mean):
        deviation = 0.0
    return math.ldexp(mean, exponent), math.ldexp(deviation, exponent)


def standardise(values, center, scale, out, name):
    """``(values - center) / scale`` in ``out``, for numbers of any size."""
    with np.errstate(over="ignore", invalid="ignore"):
        np.subtract(values, center, out=out)
        if scale != 1.0:
            out /= scale
        if not np.isfinite(out.sum()):
            # The difference of numbers near the largest one may be larger than that.
            exponent = _exponent_of(scale)
            np.subtract(np.ldexp(values, -exponent), math.ldexp(center, -exponent), out=out)
            out /= math.ldexp(scale, -exponent)
    if not np.isfinite(out).all():
        row = int(np.argmin(np.isfinite(out)))
        raise ValueError(
            f"The column {quoted(name)} has the value {values[row]:g} in row {row}: with a mean of "
            f"{center:g} and a deviation of {scale:g} in the table that was learned from, it is "
            "too far away to be measured."
        )


def warn_identifiers(column, values, name):
    """Say that a column looks as if it named rows, or has lost digits that would."""
    if pa.types.is_integer(column.type):
        _warn_huge_integers(column, name)
        _warn_row_numbers(column, values, name)
    elif pa.types.is_floating(column.type):
        warn_rounded_identifiers(values, name, f"{_if_it_identifies(name)}.")


def warn_rounded_identifiers(values, name, advice):
    """Say that whole numbers are stored in a type that cannot tell neighbours apart."""
    largest = np.abs(values).max(initial=0.0)
    if not LARGEST_EXACT_INTEGER < largest < LARGEST_IDENTIFIER:
        return
    if np.array_equal(np.floor(values), values):
        warnings.warn(
            f"The column {quoted(name)} has whole numbers beyond 2**53, up to {largest:.0f}, as "
            f"floating-point numbers: their last digits are lost already. {advice}",
            UserWarning,
            stacklevel=7,
        )


def _if_it_identifies(name):
    return f"If it identifies rows, use --id {typed(name)} or --exclude {typed(name)}"


def _warn_row_numbers(column, values, name):
    """A permutation of consecutive whole numbers says which row it is, not what it is like."""
    n = len(values)
    if n < 10 or values.max() - values.min() != n - 1:
        return
    if pc.count_distinct(column).as_py() == n:
        warnings.warn(
            f"The column {quoted(name)} has the numbers {values.min():.0f} to {values.max():.0f}, "
            f"each once: if it numbers the rows, use --id {typed(name)} or --exclude "
            f"{typed(name)}.",
            UserWarning,
            stacklevel=7,
        )


def _warn_huge_integers(column, name):
    extremes = [abs(value) for value in pc.min_max(column).as_py().values() if value is not None]
    if extremes and max(extremes) > LARGEST_EXACT_INTEGER:
        warnings.warn(
            f"The column {quoted(name)} has whole numbers beyond 2**53, up to {max(extremes)}: as "
            f"floating-point numbers they lose their last digits. {_if_it_identifies(name)}.",
            UserWarning,
            stacklevel=7,
        )


def _exponent_of(number):
    return int(np.frexp(number)[1])
