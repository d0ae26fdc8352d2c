"""Groups: every way to hand them over gives the same codes; names never matter."""

import enum
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fairanchor.exceptions import FairnessWarning
from fairanchor.groups._groups import (
    check_attributes,
    check_groups,
    codes_of_known_groups,
    encode_names,
)

relaxed = settings(deadline=None)


class Colour(enum.Enum):
    """A type without an order."""

    RED = 1
    BLUE = 2


# Kinds of columns: all hold the same grouping of six rows

TEXT = ["b", "a", "b", "c", "b", "a"]
TEXT_COLUMNS = {
    "list": TEXT,
    "tuple": tuple(TEXT),
    "fixed-width text": np.array(TEXT),
    "object": np.array(TEXT, dtype=object),
    "StringDType": np.array(TEXT, dtype=np.dtypes.StringDType()),
    "one column": np.array(TEXT).reshape(-1, 1),
    "pandas": pd.Series(TEXT, index=[5, 4, 3, 2, 1, 0]),
    "pandas string": pd.Series(TEXT, dtype="string"),
    "pandas category": pd.Series(TEXT, dtype=pd.CategoricalDtype(["c", "unused", "b", "a"])),
    "Categorical": pd.Categorical(TEXT, categories=["c", "b", "a"], ordered=True),
    "Index": pd.Index(TEXT),
    "frame of one column": pd.DataFrame({"g": TEXT}),
    "polars": pl.Series("g", TEXT),
    "polars category": pl.Series("g", TEXT, dtype=pl.Categorical),
    "polars enum": pl.Series("g", TEXT, dtype=pl.Enum(["c", "b", "a"])),
    "polars frame": pl.DataFrame({"g": TEXT}),
    "pyarrow": pa.array(TEXT),
    "pyarrow large": pa.array(TEXT, type=pa.large_string()),
    "pyarrow dictionary": pa.array(TEXT).dictionary_encode(),
    "pyarrow chunks": pa.chunked_array([TEXT[:2], TEXT[2:]]),
    "pyarrow table": pa.table({"g": TEXT}),
    "pyarrow batch": pa.record_batch({"g": TEXT}),
}


@pytest.mark.parametrize("kind", TEXT_COLUMNS)
def test_text_gives_the_same_groups_from_any_container(kind):
    groups = check_groups(TEXT_COLUMNS[kind], 6)
    assert_array_equal(groups.codes, [0, 1, 0, 2, 0, 1])
    assert groups.codes.dtype == np.int64
    assert groups.names.tolist() == ["b", "a", "c"]
    assert_array_equal(groups.sizes, [3, 2, 1])
    assert groups.public_names.tolist() == ["a", "b", "c"]
    assert groups.n_groups == 3


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([2, 1, 2, 3, 2, 1], [2, 1, 3]),
        (np.array([2, 1, 2, 3, 2, 1], dtype=np.uint8), [2, 1, 3]),
        ([0.5, -1.0, 0.5, 7.0, 0.5, -1.0], [0.5, -1.0, 7.0]),
        ([b"y", b"x", b"y", b"z", b"y", b"x"], [b"y", b"x", b"z"]),
        (pd.Series([2, 1, 2, 3, 2, 1], dtype="Int64"), [2, 1, 3]),
        (pl.Series([2, 1, 2, 3, 2, 1]), [2, 1, 3]),
        (pa.array([2, 1, 2, 3, 2, 1]), [2, 1, 3]),
        ([1j, 2, 1j, 3j, 1j, 2], [1j, 2, 3j]),
        (
            [date(2020, 1, d) for d in (2, 1, 2, 3, 2, 1)],
            [date(2020, 1, 2), date(2020, 1, 1), date(2020, 1, 3)],
        ),
    ],
)
def test_groups_may_be_named_by_values_of_any_type(values, names):
    groups = check_groups(values, 6)
    assert_array_equal(groups.codes, [0, 1, 0, 2, 0, 1])
    assert groups.names.tolist() == names


@pytest.mark.parametrize(
    "values",
    [
        [True, False, True],
        np.array([True, False, True]),
        pd.Series([True, False, True]),
        pd.Series([True, False, True], dtype="boolean"),
        pl.Series([True, False, True]),
        pa.array([True, False, True]),
    ],
)
def test_booleans_are_two_groups(values):
    groups = check_groups(values, 3)
    assert_array_equal(groups.codes, [0, 1, 0])
    assert groups.names.tolist() == [True, False]
    assert groups.public_names.tolist() == [False, True]


@pytest.mark.parametrize("column", [pl.Series, pa.array, pd.array])
def test_large_integers_beside_missing_values_keep_their_digits(column):
    values = [2**60, 2**60 + 1, None, 2**60 + 1]
    groups = check_groups(column(values), 4, missing="own_group")
    assert groups.names.tolist() == [2**60 + 1, 2**60, None]


def test_names_of_mixed_and_unordered_types_are_accepted():
    groups = check_groups(np.array([1, "a", 2.5, "a"], dtype=object), 4)
    assert_array_equal(groups.codes, [1, 0, 2, 0])
    assert groups.public_names.tolist() == [2.5, 1, "a"]  # float, int, str
    colours = check_groups([Colour.RED, Colour.BLUE, Colour.RED], 3)
    assert colours.names.tolist() == [Colour.RED, Colour.BLUE]
    assert colours.public_names.tolist() == [Colour.BLUE, Colour.RED]


def test_number_and_text_in_a_list_are_different_groups():
    assert check_groups([1, "1", 1], 3).names.tolist() == [1, "1"]


# Several columns

FIRST, SECOND = ["m", "f", "m", "f", "m"], [1, 1, 2, 1, 1]
TWO_COLUMNS = {
    "pandas": pd.DataFrame({"sex": FIRST, "age": SECOND}),
    "pandas, equal titles": pd.DataFrame(
        list(zip(FIRST, SECOND, strict=True)), columns=["same", "same"]
    ),
    "polars": pl.DataFrame({"sex": FIRST, "age": SECOND}),
    "pyarrow": pa.table({"sex": FIRST, "age": SECOND}),
    "pyarrow batch": pa.record_batch({"sex": FIRST, "age": SECOND}),
    "object array": np.array([FIRST, SECOND], dtype=object).T,
    "list of pairs": list(zip(FIRST, SECOND, strict=True)),
}


@pytest.mark.parametrize("kind", TWO_COLUMNS)
def test_several_columns_are_intersected(kind):
    groups = check_groups(TWO_COLUMNS[kind], 5)
    assert_array_equal(groups.codes, [0, 1, 2, 1, 0])
    assert groups.names.tolist() == [("m", 1), ("f", 1), ("m", 2)]
    assert groups.public_names.tolist() == [("f", 1), ("m", 1), ("m", 2)]


@pytest.mark.parametrize("kind", TWO_COLUMNS)
def test_attributes_are_the_groups_of_each_column(kind):
    first, second = check_attributes(TWO_COLUMNS[kind], 5)
    assert_array_equal(first.codes, [0, 1, 0, 1, 0])
    assert first.names.tolist() == ["m", "f"]
    assert_array_equal(second.codes, [0, 0, 1, 0, 0])
    assert second.names.tolist() == [1, 2]


@pytest.mark.parametrize("kind", TEXT_COLUMNS)
def test_a_single_column_is_one_attribute_with_the_same_groups(kind):
    (attribute,) = check_attributes(TEXT_COLUMNS[kind], 6)
    groups = check_groups(TEXT_COLUMNS[kind], 6)
    assert_array_equal(attribute.codes, groups.codes)
    assert attribute.public_names.tolist() == groups.public_names.tolist()


@relaxed
@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=30))
def test_intersection_equals_grouping_by_tuples(rows):
    codes, names = encode_names(np.array(rows))
    assert [names[code] for code in codes] == rows
    assert names == sorted(set(rows))


# Canonical codes


@relaxed
@given(values=st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_codes_are_by_size_and_then_by_first_row(values):
    groups = check_groups(values, len(values))
    expected = sorted(set(values), key=lambda v: (-values.count(v), values.index(v)))
    assert groups.names.tolist() == expected
    assert [groups.names[code] for code in groups.codes] == values
    assert groups.sizes.tolist() == [values.count(v) for v in expected]
    assert groups.public_names.tolist() == sorted(set(values))


@relaxed
@given(
    values=st.lists(st.integers(0, 5), min_size=1, max_size=40),
    names=st.permutations(["zeta", "Alpha", "", "10", "9", "émile"]),
)
def test_codes_do_not_depend_on_names_or_their_type(values, names):
    by_number = check_groups(values, len(values))
    for renamed in (
        [names[v] for v in values],
        pd.Categorical([names[v] for v in values], categories=names),
        [-v for v in values],
        [float(v) / 3 for v in values],
    ):
        groups = check_groups(renamed, len(values))
        assert_array_equal(groups.codes, by_number.codes)
        assert_array_equal(groups.sizes, by_number.sizes)


def test_public_tables_have_columns_in_the_order_of_the_names():
    groups = check_groups(["c", "a", "c", "b", "c", "b"], 6)
    table = np.array([[10, 20, 30], [40, 50, 60]])  # columns c, b, a
    assert_array_equal(groups.to_public(table), [[30, 20, 10], [60, 50, 40]])
    assert groups.to_public(table).flags.c_contiguous


@relaxed
@given(values=st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_from_public_undoes_to_public(values):
    groups = check_groups(values, len(values))
    table = np.arange(2 * groups.n_groups).reshape(2, -1)
    assert_array_equal(groups.from_public(groups.to_public(table)), table)
    assert_array_equal(groups.to_public(groups.from_public(table)), table)
    counts = np.bincount(groups.codes)
    assert groups.to_public(counts).tolist() == [values.count(name) for name in groups.public_names]


def test_every_row_may_be_a_group_of_its_own():
    groups = check_groups(np.arange(1000)[::-1], 1000)
    assert_array_equal(groups.codes, np.arange(1000))
    assert groups.names[0] == 999


def test_no_sensitive_features_are_one_group_with_a_warning():
    with pytest.warns(FairnessWarning, match="all rows are taken as one group"):
        groups = check_groups(None, 4)
    assert_array_equal(groups.codes, [0, 0, 0, 0])
    assert groups.sizes.tolist() == [4]
    with pytest.warns(FairnessWarning, match="all rows are taken as one group"):
        (attribute,) = check_attributes(None, 4)
    assert_array_equal(attribute.codes, [0, 0, 0, 0])


def test_input_is_not_changed():
    values = np.array(["b", None, "a"], dtype=object)
    before = values.copy()
    check_groups(values, 3, missing="own_group")
    assert_array_equal(values, before)


# Missing values: row 1 of three

MISSING = {
    "list with None": ["b", None, "a"],
    "list with NaN": ["b", float("nan"), "a"],
    "object with NaN": np.array(["b", np.nan, "a"], dtype=object),
    "object with NaT": np.array(["b", np.datetime64("NaT"), "a"], dtype=object),
    "object with NA": np.array(["b", pd.NA, "a"], dtype=object),
    "masked": np.ma.masked_array(["b", "x", "a"], mask=[False, True, False]),
    "StringDType": np.array(["b", None, "a"], dtype=np.dtypes.StringDType(na_object=None)),
    "pandas": pd.Series(["b", None, "a"]),
    "pandas string": pd.Series(["b", None, "a"], dtype="string"),
    "pandas category": pd.Series(["b", None, "a"], dtype="category"),
    "polars": pl.Series(["b", None, "a"]),
    "polars category": pl.Series(["b", None, "a"], dtype=pl.Categorical),
    "pyarrow": pa.array(["b", None, "a"]),
    "pyarrow dictionary": pa.array(["b", None, "a"]).dictionary_encode(),
    "pyarrow table": pa.table({"g": ["b", None, "a"]}),
    "numbers": [2.0, np.nan, 1.0],
    "pandas Int64": pd.Series([2, None, 1], dtype="Int64"),
    "polars integers": pl.Series([2, None, 1]),
    "pyarrow integers": pa.array([2, None, 1]),
    "masked numbers": np.ma.masked_array([2, 3, 1], mask=[False, True, False]),
    "times": np.array(["2021", "NaT", "2020"], dtype="M8[s]"),
    "nanosecond times": np.array(["2021", "NaT", "2020"], dtype="M8[ns]"),
    "pandas times": pd.to_datetime(pd.Series(["2021-01-01", None, "2020-01-01"])),
    "pandas boolean": pd.Series([True, None, False], dtype="boolean"),
    "polars boolean": pl.Series([True, None, False]),
    "pyarrow boolean": pa.array([True, None, False]),
}


@pytest.mark.parametrize("kind", MISSING)
def test_missing_values_are_refused_with_their_place(kind):
    with pytest.raises(ValueError, match="1 missing values in 3 rows, first at row 1") as raised:
        check_groups(MISSING[kind], 3)
    assert "missing_groups" not in str(raised.value)
    with pytest.raises(ValueError, match="first at row 1: .* Use missing_groups='own_group'"):
        check_groups(MISSING[kind], 3, missing="error")


@pytest.mark.parametrize("kind", MISSING)
def test_missing_values_can_be_a_group_of_their_own(kind):
    groups = check_groups(MISSING[kind], 3, missing="own_group")
    assert_array_equal(groups.codes, [0, 1, 2])
    assert groups.names[1] is None
    assert groups.public_names[2] is None


def test_all_kinds_of_missing_values_are_one_group():
    values = np.array([None, np.nan, "a", float("nan"), pd.NA, pd.NaT], dtype=object)
    groups = check_groups(values, 6, missing="own_group")
    assert_array_equal(groups.codes, [0, 0, 1, 0, 0, 0])
    assert groups.names.tolist() == [None, "a"]


def test_missing_values_in_one_of_several_columns():
    frame = pd.DataFrame({"sex": ["m", "f", "m"], "race": ["x", None, "y"]})
    with pytest.raises(ValueError, match=r"\(column 'race'\) has 1 missing values in 3 rows"):
        check_groups(frame, 3)
    groups = check_groups(frame, 3, missing="own_group")
    assert groups.names.tolist() == [("m", "x"), ("f", None), ("m", "y")]


# Known groups, for prediction


def test_new_rows_get_the_codes_of_the_known_names():
    known = check_groups(["b", "a", "b", "c", "b", "a"], 6).names
    codes, unknown = codes_of_known_groups(["c", "a", "b"], known, 3)
    assert_array_equal(codes, [2, 1, 0])
    assert unknown == {}


def test_unknown_groups_are_named_and_counted():
    codes, unknown = codes_of_known_groups(["x", "b", "x", "y"], ["b", "a"], 4)
    assert_array_equal(codes, [-1, 0, -1, -1])
    assert unknown == {"x": 2, "y": 1}


def test_known_groups_of_several_columns_and_of_missing_values():
    train = pd.DataFrame({"s": ["m", "f", None], "r": [1, 1, 2]})
    known = check_groups(train, 3, missing="own_group").names
    codes, unknown = codes_of_known_groups(
        pd.DataFrame({"s": [None, "m", "m"], "r": [2, 1, 2]}), known, 3, missing="own_group"
    )
    assert_array_equal(codes, [2, 0, -1])
    assert unknown == {("m", 2): 1}


def test_known_groups_are_recognised_in_another_container():
    known = check_groups(pd.Series([2, 1, 2], dtype="Int64"), 3).names
    codes, unknown = codes_of_known_groups(pl.Series([1.0, 2.0]), known, 2)
    assert_array_equal(codes, [1, 0])
    assert unknown == {}


# Bad input


@pytest.mark.parametrize(
    ("values", "error", "match"),
    [
        (["a", "b"], ValueError, "sensitive_features has 2 rows, expected 3"),
        ("abc", TypeError, "is a str, expected the group of each row"),
        ({"a": [1, 2, 3]}, TypeError, "is a dict, expected the group of each row"),
        (np.zeros((3, 2, 1)), ValueError, r"shape \(3, 2, 1\), expected"),
        (np.zeros((3, 0)), ValueError, "at least one column"),
        (pd.DataFrame(index=range(3)), ValueError, "DataFrame without columns"),
        (pl.DataFrame(), ValueError, "DataFrame without columns"),
        (pl.LazyFrame({"g": [1, 2, 3]}), TypeError, r"LazyFrame, which has no rows yet: call \.co"),
        (np.array([[], {}, []], dtype=object), TypeError, "cannot name a group"),
    ],
)
def test_bad_sensitive_features_are_refused(values, error, match):
    for check in (check_groups, check_attributes):
        with pytest.raises(error, match=match):
            check(values, 3)


def test_known_groups_refuse_another_number_of_rows():
    with pytest.raises(ValueError, match="sensitive_features has 2 rows, expected 3"):
        codes_of_known_groups(["a", "b"], ["a", "b"], 3)


def test_dates_keep_their_names():
    dates = np.array(["2020-01-01", "2021-06-01", "2020-01-01"], dtype="datetime64[ns]")
    groups = check_groups(dates, 3)
    assert groups.public_names.tolist() == [dates[0], dates[1]]
    codes, unknown = codes_of_known_groups(dates[1:], groups.public_names, 2)
    assert codes.tolist() == [1, 0]
    assert unknown == {}


@pytest.mark.parametrize(
    "values",
    [
        np.array([-100, 100, 100], dtype=np.int8),
        np.array([-30_000, 30_000, 30_000], dtype=np.int16),
        np.array([2**63 + 5, 2**63 + 7, 2**63 + 7], dtype=np.uint64),
        np.array([-(2**63), -(2**63) + 1, -(2**63) + 1]),
    ],
)
def test_integers_at_the_ends_of_their_type_keep_their_names(values):
    groups = check_groups(values, 3)
    assert_array_equal(groups.codes, [1, 0, 0])
    assert [int(name) for name in groups.public_names] == [int(values[0]), int(values[1])]


def test_nulls_of_a_dictionary_column_of_arrow_are_missing():
    column = pa.array(["a", "b", None] * 4).dictionary_encode()
    for values in (column, pa.chunked_array([column]), pa.table({"g": column})):
        groups = check_groups(values, 12, missing="own_group")
        assert groups.public_names.tolist() == ["a", "b", None]
        assert groups.sizes.tolist() == [4, 4, 4]
        with pytest.raises(ValueError, match="4 missing values"):
            check_groups(values, 12, missing="error")


def test_whole_numbers_beside_missing_values_keep_their_names():
    groups = check_groups(np.array([1.0, 2.0, np.nan, 2.0]), 4, missing="own_group")
    assert groups.public_names.tolist() == [1, 2, None]
    assert [type(name) for name in groups.public_names[:2]] == [int, int]
    fractions = check_groups(np.array([1.0, 2.5, np.nan]), 3, missing="own_group")
    assert fractions.public_names.tolist() == [1.0, 2.5, None]
