"""Columns to numbers and to groups, against NumPy, pandas and scikit-learn."""

import datetime as dt
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fairanchor.exceptions import FairnessWarning
from fairanchor.tables import GroupRule, Preprocessing, learn_groups
from fairanchor.tables._grouping import encode_groups, spelling
from fairanchor.tables._load import ids_of
from fairanchor.tables._missing import MissingPolicy
from fairanchor.tables._plain import from_plain, to_plain
from fairanchor.tables._roles import Roles

RULE = GroupRule(("sex",))


def learned(columns, **options):
    table = pa.table(columns)
    preprocessing = Preprocessing.learn(table, table.column_names, RULE, **options)
    impute = options.get("impute", False)
    return preprocessing, preprocessing.rows_of(table, impute=impute)


def test_numbers_and_categories_equal_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    numbers = rng.normal(1e6, 3.0, size=(500, 2))
    jobs = rng.choice(["nurse", "cook", "smith"], 500)
    preprocessing, X = learned({"a": numbers[:, 0], "job": jobs, "b": numbers[:, 1]})
    scaled = StandardScaler().fit_transform(numbers)
    encoded = OneHotEncoder(sparse_output=False).fit_transform(jobs[:, None])
    np.testing.assert_allclose(X[:, [0, 4]], scaled, atol=1e-8)
    np.testing.assert_array_equal(X[:, 1:4], encoded)
    assert preprocessing.feature_names == ["a", "job=cook", "job=nurse", "job=smith", "b"]
    assert X.flags.c_contiguous


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
    _, X = learned({"a": column}, scale=False)
    np.testing.assert_array_equal(X, [[1.0], [2.0], [4.0]])


def test_booleans_are_numbers_and_dictionaries_of_text_are_categories():
    _, X = learned({"b": [True, False], "t": pa.array(["x", "y"]).dictionary_encode()}, scale=False)
    np.testing.assert_array_equal(X, [[1, 1, 0], [0, 0, 1]])


def test_without_scaling_numbers_stay_as_they_are():
    values = np.array([1e9, -3.0, 0.1])
    _, X = learned({"a": values}, scale=False)
    np.testing.assert_array_equal(X[:, 0], values)


def test_a_constant_column_says_so_and_becomes_zero():
    with pytest.warns(UserWarning, match="'a' is constant"):
        _, X = learned({"a": [0.1] * 1000})
    np.testing.assert_allclose(X, 0.0, atol=1e-15)


def test_whole_numbers_beyond_2_to_53_are_announced():
    with pytest.warns(UserWarning, match=r"beyond 2\*\*53, up to 9007199254740993.*--id a"):
        learned({"a": [1, 2**53 + 1]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learned({"a": [1, 2**53]})


def test_a_column_that_numbers_the_rows_is_announced():
    numbers = np.random.default_rng(0).permutation(50)
    with pytest.warns(UserWarning, match="numbers 0 to 49, each once: .*--exclude a"):
        learned({"a": numbers})
    numbers[0] = numbers[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learned({"a": numbers})


def test_imputed_values_are_the_mean_and_the_commonest_category():
    columns = {"a": [1.0, None, 3.0, np.nan], "t": ["y", None, "x", "y"]}
    preprocessing, X = learned(columns, scale=False, impute=True)
    np.testing.assert_array_equal(X[:, 0], [1, 2, 3, 2])
    np.testing.assert_array_equal(X[:, 1:], [[0, 1], [0, 1], [1, 0], [0, 1]])
    assert [column.fill for column in preprocessing.columns] == [2.0, "y"]


BAD_COLUMNS = {
    "missing number": ([1.0, None], "'a' has 1 missing value in 2 rows, the first in row 1"),
    "NaN": ([np.nan, 1.0], "1 missing value in 2 rows, the first in row 0"),
    "missing text": (["x", None], "--missing impute"),
    "infinite": ([1.0, np.inf], "1 infinite value, the first in row 1"),
    "nearly numbers": (
        ["1", "2", "3", "4?"],
        "3 of its 4 different values are numbers.*'4\\?' in row 3",
    ),
    "too many categories": ([f"t{i}" for i in range(101)], "101 different values.*--exclude"),
    "dates": ([dt.date(2020, 1, 1)], "type date32.*expected numbers or text"),
    "lists": ([[1], [2]], "expected numbers or text"),
    "no values": (pa.nulls(3), "has no values"),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_a_bad_column_is_refused_by_name(case):
    column, message = BAD_COLUMNS[case]
    with pytest.raises(ValueError, match=message):
        learned({"a": column})


def test_the_row_of_a_misspelled_number_counts_missing_values_too():
    with pytest.raises(ValueError, match="'x' in row 4"):
        learned({"a": ["1", None, "2", "3", "x"]}, impute=True)


def test_new_rows_are_treated_as_the_learned_ones():
    table = pa.table({"a": [1.0, 2.0, 6.0], "t": ["x", "y", "x"]})
    preprocessing = Preprocessing.learn(table, ["a", "t"], RULE)
    again = Preprocessing.from_json(preprocessing.to_json())
    assert again == preprocessing
    np.testing.assert_array_equal(again.rows_of(table), preprocessing.rows_of(table))
    new = pa.table({"t": ["y"], "a": pa.array([2], pa.int32())})
    np.testing.assert_array_equal(again.rows_of(new), preprocessing.rows_of(table)[1:2])


def test_a_new_category_is_announced_and_is_none_of_the_known():
    table = pa.table({"t": ["x", "y"]})
    preprocessing = Preprocessing.learn(table, ["t"], RULE)
    with pytest.warns(
        UserWarning, match="1 value of the column 't' the model has not seen, such as 'z'"
    ):
        X = preprocessing.rows_of(pa.table({"t": ["x", "z"]}))
    np.testing.assert_array_equal(X, [[1, 0], [0, 0]])


def test_text_where_numbers_were_learned_is_refused():
    preprocessing = Preprocessing.learn(pa.table({"a": [1, 2]}), ["a"], RULE)
    with pytest.raises(ValueError, match="'a' has values of type string, expected numbers"):
        preprocessing.rows_of(pa.table({"a": ["one"]}))


# Groups.


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans()), min_size=1, max_size=40
    )
)
def test_intersections_are_the_distinct_tuples(rows):
    columns = list(zip(*rows, strict=True))
    table = pa.table({name: list(values) for name, values in zip("xyz", columns, strict=True)})
    grouping = encode_groups(table, ["x", "y", "z"])
    assert [grouping.names[code] for code in grouping.codes] == rows
    assert dict(zip(grouping.names, grouping.sizes.tolist(), strict=True)) == Counter(rows)
    assert grouping.per_row().tolist() == rows


def test_a_product_of_values_beyond_int64_does_not_overflow():
    n = 300
    columns = {f"c{j}": np.random.default_rng(j).permutation(n) for j in range(10)}
    grouping = encode_groups(pa.table(columns), list(columns))
    expected = list(zip(*[values.tolist() for values in columns.values()], strict=True))
    assert [grouping.names[code] for code in grouping.codes] == expected


def test_text_of_whole_numbers_names_numbers_unless_zeros_lead():
    assert encode_groups(pa.table({"g": ["1", "-2", "1"]}), ["g"]).names == [1, -2]
    assert encode_groups(pa.table({"g": ["01", "2"]}), ["g"]).names == ["01", "2"]
    assert encode_groups(pa.table({"g": ["1.0", "2"]}), ["g"]).names == ["1.0", "2"]


def test_missing_groups_are_refused_or_a_group_of_their_own():
    table = pa.table({"g": ["a", None, "b"], "h": [1.0, np.nan, 1.0]})
    with pytest.raises(ValueError, match="'g' has 1 missing value in 3 rows, first in row 1"):
        encode_groups(table, ["g"])
    grouping = encode_groups(table, ["g", "h"], missing="own_group")
    assert grouping.per_row().tolist() == [("a", 1.0), (None, None), ("b", 1.0)]


def test_a_column_without_any_value_is_one_group_of_its_own():
    grouping = encode_groups(pa.table({"g": pa.nulls(3)}), ["g"], missing="own_group")
    assert grouping.names == [None]
    assert grouping.codes.tolist() == [0, 0, 0]


def test_small_groups_are_merged_and_stay_so_for_new_rows():
    values = ["a"] * 10 + ["b"] * 3 + ["c"] * 2 + ["d"] * 5
    with pytest.warns(FairnessWarning, match="2 groups .* fewer than 4 rows .* 'other', of 5 rows"):
        grouping, rule = learn_groups(pa.table({"g": values}), ["g"], min_size=4)
    expected = Counter({"a": 10, "d": 5, "other": 5})
    assert dict(zip(grouping.names, grouping.sizes.tolist(), strict=True)) == expected
    rule = GroupRule.from_json(rule.to_json())
    new = rule.groups_of(pa.table({"g": ["c", "d", "z", "b"]}), grouping.names)
    assert new.per_row().tolist() == ["other", "d", "z", "other"]


def test_a_single_small_group_has_nothing_to_be_merged_with():
    with pytest.warns(FairnessWarning, match="Only the group 'b'"):
        grouping, rule = learn_groups(pa.table({"g": ["a"] * 9 + ["b"]}), ["g"], min_size=2)
    assert set(grouping.names) == {"a", "b"}
    assert rule.merged == ()


def test_many_groups_warn_and_name_the_way_out():
    with pytest.warns(FairnessWarning, match="200 groups in 400 rows.*--min-group-size"):
        learn_groups(pa.table({"age": np.arange(400) // 2}), ["age"])
    with pytest.raises(ValueError, match="2,000 groups .* At most 1,000"):
        learn_groups(pa.table({"person": np.arange(2000)}), ["person"])


@pytest.mark.parametrize(
    ("known", "new"), [(1, "1"), (1, 1.0), (True, "True"), (False, "false"), ("1", 1)]
)
def test_a_group_is_known_by_its_spelling(known, new):
    rule = GroupRule(("g",))
    named = rule.groups_of(pa.table({"g": [new]}), [known, "else"])
    assert named.names == [known]
    assert type(named.names[0]) is type(known)
    assert spelling((known, None)) == spelling((new, None))


def test_codes_follow_another_order_of_the_names():
    grouping = encode_groups(pa.table({"g": ["b", "a", "b"]}), ["g"])
    assert grouping.codes_among(["a", "b"]).tolist() == [1, 0, 1]


# Missing values, identifiers, and names in files.


def test_rows_are_dropped_only_for_what_nothing_else_was_said_about():
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
    with pytest.raises(ValueError, match="contradict"):
        MissingPolicy.of(["error", "impute"])


def test_ids_become_numbers_only_if_nothing_is_lost():
    assert ids_of(pa.array(["1", "20"])).to_pylist() == [1, 20]
    for kept in (["007", "8"], ["1", "x"], ["12345678901234567890123", "1"], ["1.0", "2"]):
        assert ids_of(pa.array(kept)).to_pylist() == kept


@pytest.mark.parametrize(
    "value",
    [
        "a", "", 1, -(2**70), 1.5, float("inf"), True, None, ("a", 1, None), (("x",), 2.0),
        dt.date(2020, 2, 29), dt.datetime(2020, 1, 1, 12, 30, 5, 17), dt.time(3, 4),
        dt.timedelta(days=-3, microseconds=9), np.datetime64("2020-01-01T00:00:00.000000001"),
        np.timedelta64(5, "ns"), np.int32(3), np.str_("s"), b"\x00\xff", [1, [2]], {"k": (1,)},
        pd.Timestamp("2020-01-01"),
    ],
    ids=repr,
)  # fmt: skip
def test_names_of_groups_survive_json_with_their_type(value):
    import json

    again = from_plain(json.loads(json.dumps(to_plain(value), allow_nan=False)))
    assert again == value
    assert isinstance(value, (type(again), np.generic))


def test_what_json_cannot_hold_is_refused():
    with pytest.raises(TypeError, match="is a object, which a model file cannot hold"):
        to_plain(object())
    with pytest.raises(ValueError, match="There is no type 'code'"):
        from_plain({"code": "import os"})
    with pytest.raises(ValueError, match="neither a time nor a duration"):
        from_plain({"numpy_time": ["O", 1]})
