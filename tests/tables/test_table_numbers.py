"""Numbers of any size, and numbers that are names."""

import warnings
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairanchor.tables import GroupRule, Preprocessing
from fairanchor.tables._load import load_for_fit
from fairanchor.tables._missing import MissingPolicy
from fairanchor.tables._numbers import mean_and_deviation
from fairanchor.tables._read import TableSource
from fairanchor.tables._roles import choose_columns

RULE = GroupRule(("sex",))
SCALES = [1e-310, 1e-300, 1e-200, 1e-150, 1e-20, 1.0, 1e20, 1e150, 1e200, 1e300]


def rows_of(values, **options):
    table = pa.table({"a": values})
    return Preprocessing.learn(table, ["a"], RULE, **options).rows_of(table)


@settings(deadline=None)
@given(
    st.lists(st.floats(-1, 1), min_size=2, max_size=20),
    st.integers(-1000, 1000),
)
def test_mean_and_deviation_equal_those_of_exact_fractions(small, exponent):
    values = np.ldexp(np.array(small), exponent)
    exact = [Fraction(value) for value in values.tolist()]
    mean = sum(exact) / len(exact)
    variance = sum((value - mean) ** 2 for value in exact) / len(exact)
    found_mean, found_deviation = mean_and_deviation(values)
    size = max(map(abs, exact))
    assert abs(Fraction(found_mean) - mean) <= size * Fraction(1, 2**48) + Fraction(1, 2**1074)
    # A deviation that rounding could have made counts as none.
    if variance > (size / 2**40) ** 2:
        assert abs(Fraction(found_deviation) ** 2 / variance - 1) < Fraction(1, 1000)
    if variance == 0:
        assert found_deviation == 0


@pytest.mark.parametrize("scale", SCALES)
def test_a_column_of_any_size_is_standardised(scale):
    values = np.array([1.0, 2.0, 4.0, -3.0, 0.0]) * scale
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X = rows_of(values)
    plain = np.array([1.0, 2.0, 4.0, -3.0, 0.0])
    np.testing.assert_allclose(X[:, 0], (plain - plain.mean()) / plain.std(), rtol=1e-3)
    if scale >= 1e-300:  # no digits are lost
        np.testing.assert_allclose(X[:, 0], (plain - plain.mean()) / plain.std(), rtol=1e-12)


def test_the_largest_numbers_of_all_do_not_overflow():
    largest = np.finfo(np.float64).max
    np.testing.assert_allclose(
        rows_of([largest, -largest, largest, -largest])[:, 0], [1, -1, 1, -1]
    )


@pytest.mark.parametrize("scale", SCALES)
def test_a_constant_of_any_size_is_constant(scale):
    with pytest.warns(UserWarning, match="'a' is constant"):
        assert np.all(rows_of([scale] * 5) == 0)


def test_a_column_that_differs_in_its_last_digits_only_says_so():
    with pytest.warns(UserWarning, match=r"'a' is constant, but for the last digits \(0.3 to 0.30"):
        rows_of([0.1 + 0.2, 0.3, 0.3])


def test_a_constant_text_is_announced_too():
    with pytest.warns(UserWarning, match="'a' is constant"):
        rows_of(["x", "x"])


def test_a_new_row_that_is_too_far_away_is_refused():
    preprocessing = Preprocessing.learn(pa.table({"a": [1e-200, 2e-200]}), ["a"], RULE)
    message = "'a' has the value 1e\\+200 in row 1: with a mean of 1.5e-200 .* too far away"
    with pytest.raises(ValueError, match=message):
        preprocessing.rows_of(pa.table({"a": [1e-200, 1e200]}))


def test_whole_numbers_beyond_2_to_53_are_announced_in_columns_of_fractions_as_well():
    identifiers = 2.0**53 + 1000.0 * np.arange(5)
    with pytest.warns(UserWarning, match="up to 9007199254744992, .* digits are lost .*--id a"):
        rows_of(identifiers)
    for harmless in (np.append(identifiers, 0.5), identifiers * 1e10):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rows_of(harmless)


def test_an_id_that_has_lost_its_last_digits_is_announced():
    table = pa.table({"id": 2.0**53 + np.arange(4), "x": [1.0, 2, 3, 4], "sex": list("fmfm")})
    source = TableSource("t", table.column_names, lambda columns, text: table.select(columns))
    roles = choose_columns(source, sensitive=["sex"], id_column="id")
    with pytest.warns(UserWarning, match="'id' has whole .* Two rows may have the same id"):
        load_for_fit(source, roles, MissingPolicy())


DRESSED = {
    "decimal comma": ["0,5", "1,25", "-3,0"],
    "thousands": ["1,234", "20,000", "7,500"],
    "both": ["1.234,5", "2.000,0", "7,5"],
    "percent": ["1%", "2.5 %", "100%"],
    "currency": ["$5", "-$7.50", "$1,000"],
    "currency after": ["5 €", "7,50€", "1.000 €"],
}


@pytest.mark.parametrize("case", DRESSED)
def test_numbers_that_only_people_can_read_are_not_taken_for_categories(case):
    with pytest.raises(ValueError, match="numbers written like .* with a point before decimals"):
        rows_of(DRESSED[case])


def test_codes_with_digits_are_categories():
    X = rows_of(["1a", "2b", "3-4", "1a", "A1"])
    assert X.shape == (5, 4)


def test_a_list_is_no_id():
    table = pa.table({"id": [[1], [2]], "x": [1.0, 2.0], "sex": ["f", "m"]})
    source = TableSource("t", table.column_names, lambda columns, text: table.select(columns))
    roles = choose_columns(source, sensitive=["sex"], id_column="id")
    with pytest.raises(ValueError, match="id column 'id' has values of type list<"):
        load_for_fit(source, roles, MissingPolicy())


def test_names_in_advice_can_be_typed_into_a_shell():
    table = pa.table({"my column": pa.nulls(2)})
    with pytest.raises(ValueError, match="leave it out with --exclude 'my column'"):
        Preprocessing.learn(table, table.column_names, RULE)


def test_endless_names_and_values_are_cut_in_messages():
    table = pa.table({"n" * 10_000: [None, 1.0], "t": [f"{i}" + "x" * 10_000 for i in range(2)]})
    with pytest.raises(ValueError, match="missing value") as caught:
        Preprocessing.learn(table, table.column_names[:1], RULE)
    assert len(str(caught.value)) < 600
