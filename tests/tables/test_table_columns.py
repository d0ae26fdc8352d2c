"""Columns to numbers and to groups, against NumPy, pandas and scikit-learn."""

import datetime as dt
import json
import warnings
from collections import Counter

import click
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fairanchor.exceptions import FairnessWarning
from fairanchor.tables import Preprocessing
from fairanchor.tables._load import (
    check_number_of_groups,
    groups_of,
    load,
    roles_for_predict,
    spelling,
)
from fairanchor.tables._plain import from_plain, to_plain
from fairanchor.tables._preprocessing import statistics_of
from fairanchor.tables._read import TableSource, as_integers
from fairanchor.tables._roles import MissingPolicy, Roles, choose_columns

POLICY = MissingPolicy.of(["error"])


def learned(columns, **options):
    table = pa.table(columns)
    preprocessing = Preprocessing.learn(table, table.column_names, ["sex"], **options)
    return preprocessing, preprocessing.rows_of(table)


def source_of(**columns):
    table = pa.table(columns)
    return TableSource("t", table.column_names, lambda wanted, names: table.select(wanted))


@pytest.fixture
def people():
    """Numbers far from 0, and text."""
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "a": rng.normal(1e6, 3.0, 500),
            "job": rng.choice(["nurse", "cook", "smith"], 500),
            "b": rng.integers(0, 9, 500),
        }
    )


def test_numbers_and_categories_equal_those_of_scikit_learn(people):
    preprocessing, X = learned(people)
    expected = make_column_transformer(
        (StandardScaler(), ["a"]),
        (OneHotEncoder(sparse_output=False), ["job"]),
        (StandardScaler(), ["b"]),
    ).fit_transform(people.to_pandas())
    np.testing.assert_allclose(X, expected, atol=1e-8)
    assert preprocessing.feature_names == ["a", "job=cook", "job=nurse", "job=smith", "b"]
    assert X.flags.c_contiguous


@pytest.mark.parametrize("impute", [False, True])
def test_the_transformer_gives_the_same_bits_for_new_rows(people, impute):
    preprocessing, _ = learned(people[:300], impute=impute)
    preprocessing = Preprocessing.from_json(json.loads(json.dumps(preprocessing.to_json())))
    new = people[300:]
    if impute:
        gaps = [None, *new["b"].to_pylist()[1:]]
        new = new.set_column(2, "b", pa.array(gaps)).set_column(
            1, "job", pa.array([None, *new["job"].to_pylist()[1:]])
        )
    transformer = preprocessing.to_transformer()
    frame = new.to_pandas()[["job", "b", "a"]]  # columns are found by their names
    np.testing.assert_array_equal(transformer.transform(frame), preprocessing.rows_of(new))
    assert transformer.get_feature_names_out().tolist() == preprocessing.feature_names


@pytest.mark.parametrize("cuts", [[250], [1, 2, 499], [100, 200, 300]])
def test_a_table_in_parts_is_learned_like_the_whole(people, cuts):
    names, edges = people.column_names, [0, *cuts, 500]
    pieces = [people.slice(a, b - a) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    whole, X = learned(people)
    # Where the pieces of one chunk end does not matter at all.
    statistics = statistics_of(pieces, names, impute=False)
    assert Preprocessing.of_statistics([statistics], names, ["sex"]) == whole
    chunks = [statistics_of([piece], names, impute=False) for piece in pieces]
    merged = Preprocessing.of_statistics(chunks, names, ["sex"])
    np.testing.assert_allclose(merged.rows_of(people), X, rtol=1e-8, atol=1e-9)
    assert merged.feature_names == whole.feature_names


def test_any_name_of_a_column_is_possible_in_a_transformer():
    table = pa.table({"a__b": [1.0, 2.0], "n_jobs": ["x", "y"], "": [3, 5]})
    preprocessing, X = learned(table)
    np.testing.assert_array_equal(preprocessing.to_transformer().transform(table.to_pandas()), X)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2, 4], pa.int8()),
        pa.array([1, 2, 4], pa.uint64()),
        pa.array([1.0, 2.0, 4.0], pa.float32()),
        pa.array([1, 2, 4], pa.decimal128(5, 2)),
        pa.array([1, 2, 4]).dictionary_encode(),
        pa.chunked_array([[1], [2, 4]]),
    ],
    ids=lambda column: str(column.type),
)
def test_every_kind_of_number_gives_the_same_rows(column):
    _, X = learned({"a": column})
    np.testing.assert_allclose(X, StandardScaler().fit_transform([[1], [2], [4]]))


def test_booleans_are_numbers_and_dictionaries_of_text_are_categories():
    _, X = learned({"b": [True, False], "t": pa.array(["x", "y"]).dictionary_encode()})
    np.testing.assert_array_equal(X, [[1, 1, 0], [-1, 0, 1]])


@pytest.mark.parametrize("column", [[0.1] * 1000, ["x", "x"], [0.1 + 0.2, 0.3, 0.3]])
def test_a_constant_column_warns(column):
    with pytest.warns(UserWarning, match="'a' is constant"):
        _, X = learned({"a": column})
    np.testing.assert_allclose(X - X[0], 0.0, atol=1e-15)


IDENTIFIERS = {
    "huge": ([1, 2**53 + 1], r"beyond 2\*\*53, up to 9007199254740993.*--id a"),
    "row numbers": (
        np.random.default_rng(0).permutation(50),
        "numbers 0 to 49, each .*--exclude a",
    ),
}


@pytest.mark.parametrize("case", IDENTIFIERS)
def test_columns_that_seem_to_identify_rows_warn(case):
    column, message = IDENTIFIERS[case]
    with pytest.warns(UserWarning, match=message):
        learned({"a": column})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learned({"a": [*column[:-1], column[0]] if len(column) > 2 else [1, 2**53]})


def test_imputed_values_are_the_mean_and_the_most_frequent_category():
    columns = {"a": [1.0, None, 3.0, np.nan], "t": ["y", None, "x", "y"]}
    _, X = learned(columns, impute=True)
    np.testing.assert_array_equal(X[:, 0], [-1, 0, 1, 0])
    np.testing.assert_array_equal(X[:, 1:], [[0, 1], [0, 1], [1, 0], [0, 1]])


BAD_COLUMNS = {
    "missing number": ([1.0, None], "'a' has 1 missing value in 2 rows, the first in row 1"),
    "NaN": ([np.nan, 1.0], "1 missing value in 2 rows, the first in row 0"),
    "missing text": (["x", None], "--missing impute"),
    "infinite": ([1.0, np.inf], "1 infinite value, the first in row 1"),
    "too large": ([1e200, -1e200], "squares exceed double precision. Divide it by a constant"),
    "nearly numbers": (
        ["1", "2", "3", "4?"],
        r"3 of its 4 different values are written like numbers .* other value is '4\?'",
    ),
    "decimal comma": (["0,5", "1,25", "-3,0"], "like numbers or dates, such as '0,5'"),
    "percent": (["1%", "2.5 %", "100%"], "with a point before decimals"),
    "currency": (["$5", "-$7.50", "$1,000"], "with a point before decimals"),
    "dates as text": (["07.04.2024", "08.04.2024"], "numbers or dates"),
    "too many categories": ([f"t{i}" for i in range(101)], "101 or more different .*--exclude"),
    "dates": ([dt.date(2020, 1, 1)], "type date32.*expected numbers or text"),
    "lists": ([[1], [2]], "expected numbers or text"),
    "no values": (pa.nulls(3), "has no values: leave it out with --exclude a"),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_a_bad_column_is_an_error_that_names_it(case):
    column, message = BAD_COLUMNS[case]
    with pytest.raises(ValueError, match=message):
        learned({"a": column})


@pytest.mark.parametrize("codes", [["1a", "2b", "3-4", "1a", "A1"], ["01", "02", "10"]])
def test_codes_with_digits_are_categories(codes):
    _, X = learned({"a": codes})
    assert X.shape == (len(codes), len(set(codes)))


def test_new_rows_are_treated_as_the_learned_ones():
    table = pa.table({"a": [1.0, 2.0, 6.0], "t": ["x", "y", "x"]})
    preprocessing, X = learned(table)
    assert Preprocessing.from_json(preprocessing.to_json()) == preprocessing
    new = pa.table({"t": ["y"], "a": pa.array([2], pa.int32())})
    np.testing.assert_array_equal(preprocessing.rows_of(new), X[1:2])
    with pytest.raises(ValueError, match="'a' has values of type string, expected numbers"):
        preprocessing.rows_of(pa.table({"a": ["one"], "t": ["x"]}))


def test_a_new_category_warns_and_is_none_of_the_known():
    preprocessing, _ = learned({"t": ["x", "y"]})
    with pytest.warns(UserWarning, match="'t' has 1 value .*, such as 'z'"):
        X = preprocessing.rows_of(pa.table({"t": ["x", "z"]}))
    np.testing.assert_array_equal(X, [[1, 0], [0, 0]])


def test_long_names_and_values_are_cut_in_messages():
    table = pa.table({"n" * 10_000: [None, 1.0]})
    with pytest.raises(ValueError, match="missing value") as caught:
        learned(table)
    assert len(str(caught.value)) < 600


# Groups.


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans()), min_size=1, max_size=40
    )
)
def test_intersections_are_the_distinct_tuples(rows):
    columns = list(zip(*rows, strict=True))
    table = pa.table({name: list(values) for name, values in zip("xyz", columns, strict=True)})
    groups = groups_of(table, ["x", "y", "z"], "error")
    assert groups.names[groups.codes].tolist() == rows
    assert dict(zip(groups.names, groups.sizes.tolist(), strict=True)) == Counter(rows)


def test_missing_groups_are_an_error_or_a_group_of_their_own():
    table = pa.table({"g": ["a", None, "b"], "h": [1.0, np.nan, 1.0], "i": [1, None, 1]})
    with pytest.raises(ValueError, match="'g' has 1 missing value in 3 rows, the first in row 1"):
        groups_of(table, ["g"], "error")
    groups = groups_of(table, ["g", "h", "i"], "own_group")
    assert groups.names[groups.codes].tolist() == [("a", 1.0, 1), (None, None, None), ("b", 1.0, 1)]
    assert groups_of(pa.table({"g": pa.nulls(3)}), ["g"], "own_group").names.tolist() == [None]


def test_missing_values_of_a_categorical_column_are_not_another_group():
    categorical = pa.chunked_array([pa.array(["a", "b", None]).dictionary_encode()])
    source = source_of(g=categorical, x=[1.0, 2.0, 3.0])
    loaded = load(source, Roles(("g",), ("x",)), MissingPolicy.of(["own-group"]))
    assert loaded.sensitive_features().tolist() == ["a", "b", None]
    assert loaded.sensitive_features(missing="?").tolist() == ["a", "b", "?"]


def test_many_groups_warn_and_too_many_are_an_error():
    for n_groups, outcome in [
        (1, pytest.warns(FairnessWarning, match="'g' has one value only, 0")),
        (200, pytest.warns(FairnessWarning, match="200 groups .* merge small groups")),
        (2000, pytest.raises(ValueError, match="2,000 groups .* At most 1,000")),
    ]:
        groups = groups_of(pa.table({"g": np.arange(n_groups)}), ["g"], "error")
        with outcome:
            check_number_of_groups(groups, ["g"])


@pytest.mark.parametrize(
    ("known", "new"), [(1, "1"), (1, 1.0), (True, "True"), (False, "false"), ("1", 1)]
)
def test_a_group_is_known_by_its_spelling(known, new):
    preprocessing, _ = learned({"x": [1.0, 2.0]})
    source = source_of(x=[1.0], sex=[new])
    roles = roles_for_predict(source, preprocessing)
    loaded = load(source, roles, POLICY, preprocessing=preprocessing, known=[known, "else"])
    assert loaded.sensitive_features().tolist() == [known]
    assert type(loaded.sensitive_features()[0]) is type(known)
    assert spelling((known, None)) == spelling((new, None))


# Missing values, identifiers, and names in files.


def test_rows_are_dropped_only_where_no_other_choice_applies():
    table = pa.table({"g": ["a", None, "b"], "x": [None, 1.0, 2.0]})
    roles = Roles(("g",), ("x",))
    kept = {
        ("drop-rows",): [False, False, True],
        ("drop-rows", "own-group"): [False, True, True],
        ("drop-rows", "impute"): [True, False, True],
    }
    for choices, expected in kept.items():
        assert MissingPolicy.of(choices).complete_rows(table, roles).tolist() == expected
    assert MissingPolicy.of(["error"]).complete_rows(table, roles) is None
    with pytest.raises(click.UsageError, match="contradict"):
        MissingPolicy.of(["error", "impute"])


def test_text_becomes_numbers_only_if_nothing_is_lost():
    assert as_integers(pa.chunked_array([["1", None, "-3"]])).to_pylist() == [1, None, -3]
    for kept in (["007", "8"], ["1", "x"], ["12345678901234567890123", "1"], ["1.0"], [None]):
        assert as_integers(pa.chunked_array([kept])).to_pylist() == kept


def test_a_list_is_no_id():
    source = source_of(id=[[1], [2]], x=[1.0, 2.0], sex=["f", "m"])
    roles = choose_columns(source, sensitive=["sex"], id_column="id")
    with pytest.raises(ValueError, match="column 'id' has values of type list<"):
        load(source, roles, POLICY)


@pytest.mark.parametrize(
    "value",
    [
        "a", "", 1, -(2**70), 1.5, float("inf"), True, None, ("a", 1, None), (("x",), 2.0),
        dt.date(2020, 2, 29), dt.datetime(2020, 1, 1, 12, 30, 5, 17),
        np.datetime64("2020-01-01T00:00:00.000000001"),
        np.timedelta64(5, "ns"), np.int32(3), np.str_("s"), [1, [2]], {"k": (1,)},
        pd.Timestamp("2020-01-01"),
    ],
    ids=repr,
)  # fmt: skip
def test_names_of_groups_survive_json_with_their_type(value):
    again = from_plain(json.loads(json.dumps(to_plain(value), allow_nan=False)))
    assert again == value
    assert isinstance(value, (type(again), np.generic))


def test_what_json_cannot_hold_is_an_error():
    with pytest.raises(TypeError, match="is a object, which a model file cannot hold"):
        to_plain(object())
    with pytest.raises(ValueError, match="There is no type 'code'"):
        from_plain({"code": "import os"})
    with pytest.raises(ValueError, match="neither a time nor a duration"):
        from_plain({"numpy_time": ["O", 1]})
