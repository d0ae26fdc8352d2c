"""Reading tables of every format, and writing them back."""

import gzip
import io
import os
import sys
import threading

import click
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from fairanchor.tables._read import open_table
from fairanchor.tables._roles import choose_columns
from fairanchor.tables._write import write_table

TABLE = pa.table(
    {
        "id": ["007", "8", "x,y"],
        "age": [30, 40, 50],
        "income": [1.5, 2.25, -1e-3],
        "sex": ["f", "m", "f"],
    }
)


def read_all(path, **options):
    source = open_table(path, **options)
    return source.read(source.columns, names=["id"])


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".pq", ".arrow", ".feather"])
def test_what_is_written_is_read_again(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    write_table(TABLE, path)
    assert read_all(path).equals(TABLE)


def test_csv_is_read_by_other_programs(tmp_path):
    import pandas as pd

    write_table(TABLE, tmp_path / "t.csv")
    frame = pd.read_csv(tmp_path / "t.csv", dtype={"id": str})
    assert frame.to_dict("list") == TABLE.to_pydict()


def as_parquet(table):
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def as_csv(table):
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink)
    return sink.getvalue().to_pybytes()


def test_files_without_a_known_suffix_are_text(tmp_path):
    for name in ("t.dat", "no suffix", "T.CSV"):
        (tmp_path / name).write_bytes(as_csv(TABLE))
        assert read_all(tmp_path / name).equals(TABLE), name


def test_standard_input_is_text(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(as_csv(TABLE))))
    assert read_all("-").equals(TABLE)


@pytest.mark.parametrize(("name", "mark"), [("t.csv.gz", b","), ("t.tsv.gz", b"\t")])
def test_text_may_be_compressed(tmp_path, name, mark):
    table = TABLE.drop_columns("id")
    (tmp_path / name).write_bytes(gzip.compress(as_csv(table).replace(b",", mark)))
    source = open_table(tmp_path / name)
    assert source.read(source.columns).equals(table)


def test_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(as_csv(TABLE),))
    writer.start()
    try:
        assert read_all(pipe).equals(TABLE)
    finally:
        writer.join()


def test_an_empty_pipe_and_closed_standard_input_are_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="is empty"):
        open_table(os.devnull)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="standard input is closed"):
        open_table("-")


@given(cut=st.integers(2, len(gzip.compress(as_csv(TABLE), mtime=0)) - 1))
def test_no_truncated_gzip_file_is_taken_for_a_whole_one(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "t.csv.gz"
    path.write_bytes(gzip.compress(as_csv(TABLE), mtime=0)[:cut])
    with pytest.raises(ValueError, match="is not a complete gzip file"):
        read_all(path)


def test_an_empty_line_of_a_single_column_is_a_missing_value(tmp_path):
    (tmp_path / "t.csv").write_text("cluster\n1\n\n0\n")
    assert read_all(tmp_path / "t.csv")["cluster"].to_pylist() == [1, None, 0]
    (tmp_path / "t.csv").write_text("a,b\n1,2\n\n3,4\n")
    assert read_all(tmp_path / "t.csv")["a"].to_pylist() == [1, 3]


def test_types_of_a_csv_file_are_decided_by_all_its_rows(tmp_path):
    """A first block of whole numbers, then a fraction, and text in another column."""
    rows = "1,2\n" * 600_000 + "1.5,two\n"
    (tmp_path / "t.csv").write_text("a,b\n" + rows)
    table = read_all(tmp_path / "t.csv")
    assert table.schema.types == [pa.float64(), pa.string()]
    assert table.num_rows == 600_001


def test_line_breaks_are_accepted_in_columns_that_are_not_read(tmp_path):
    (tmp_path / "t.csv").write_text('a,note\n1,"x, y\nand, z\n"\n2,z\n')
    source = open_table(tmp_path / "t.csv")
    assert source.read(["a"])["a"].to_pylist() == [1, 2]
    with pytest.raises(ValueError, match="column 'note' in row 0 .* contains a line break: 'x, y"):
        source.read(["a", "note"])


@pytest.mark.parametrize("closed", ["", '"'])
def test_an_unclosed_quote_does_not_hide_rows(tmp_path, closed):
    (tmp_path / "t.csv").write_text(f'age,sex\n1,m\n2,"f\n3,m\n4,f{closed}\n5,m\n')
    with pytest.raises(ValueError, match="'sex' in row 1 .* A quote before it is probably not"):
        open_table(tmp_path / "t.csv").read(["age", "sex"])


def test_missing_values_of_text_are_missing_unless_quoted(tmp_path):
    (tmp_path / "t.csv").write_text('a,b\nNA,1\n"NA",\n,3\n')
    table = read_all(tmp_path / "t.csv")
    assert table["a"].to_pylist() == [None, "NA", None]
    assert table["b"].to_pylist() == [1, None, 3]


REFUSED = {
    "empty": ("t.csv", b"", "is empty"),
    "header only": ("t.csv", b"a,b\n", "has columns but no rows"),
    "semicolons": ("t.csv", b"a;b;sex\n1;2;f\n", "semicolon between values. Use --delimiter ';'"),
    "semicolons and decimal commas": ("t.csv", b"a;b\n1,5;2\n", "Use --delimiter ';'"),
    "tabs": ("t.csv", b"a\tb\n1\t2\n", "Use --delimiter tab"),
    "uneven rows": ("t.csv", b"a,b\n1,2\n1,2,3\n", "Expected 2 columns, got 3.*--delimiter"),
    "open quote": ("t.csv", b'a,b\n1,2\n"1,2\n', "Expected 2 columns, got 1.*every quote"),
    "repeated names": ("t.csv", b"a,b,a\n1,2,3\n", "more than one column called 'a'"),
    "not UTF-8": (
        "t.csv",
        "a,b\n1,é\n".encode("latin-1"),
        "is not UTF-8 text.*iconv -f latin1",
    ),
    "id not UTF-8": ("t.csv", "id,b\né,1\n".encode("latin-1"), "not UTF-8"),
    "workbook": ("t.csv", b"PK\x03\x04....", "save a workbook as CSV"),
    "old workbook": ("t.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00", "is not text"),
    "UTF-16": ("t.csv", "a,b\n1,2\n".encode("utf-16"), "convert UTF-16 to UTF-8"),
    "NUL later on": ("t.csv", b"a,b\n" + b"1,2\n" * 9 + b"\x00", "is not text"),
    "header not UTF-8": ("t.csv", "é,b\n1,2\n".encode("latin-1"), "is not UTF-8 text"),
    "binary": ("t.csv", b"\x00\x01\x02\x03\x04\x05\x06\x07", "is not text"),
    "text called Parquet": ("t.parquet", b"a,b\n1,2\n", "not a complete Parquet file"),
    "truncated Parquet": ("t.parquet", as_parquet(TABLE)[:200], "not a complete Parquet file"),
    "truncated Arrow": ("t.arrow", b"ARROW1\x00\x00abc", "not a complete Arrow file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_file_is_refused_with_the_reason(tmp_path, case):
    name, content, message = REFUSED[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_all(tmp_path / name)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        open_table(tmp_path / "none.csv")


def test_a_directory_is_one_table_in_the_order_of_its_files(tmp_path):
    parquet.write_table(TABLE.slice(2), tmp_path / "b.parquet")
    parquet.write_table(TABLE.slice(0, 2), tmp_path / "a.parquet")
    source = open_table(tmp_path)
    assert source.columns == TABLE.column_names
    assert source.read(source.columns, names=["id"]).equals(TABLE)
    assert source.row_numbers(3).tolist() == [0, 1, 0]
    parquet.write_table(TABLE.drop_columns("sex"), tmp_path / "c.parquet")
    with pytest.raises(ValueError, match="'sex' is missing in .*c.parquet"):
        open_table(tmp_path).read(["sex"], names=["sex"])


def test_an_unknown_suffix_of_the_output_is_refused(tmp_path):
    with pytest.raises(click.UsageError, match="ends in '.xlsx', which"):
        write_table(TABLE, tmp_path / "t.xlsx")
    assert list(tmp_path.iterdir()) == []


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(cut=st.integers(1, len(as_parquet(TABLE)) - 1))
def test_no_truncated_parquet_is_taken_for_a_whole_one(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "t.parquet"
    path.write_bytes(as_parquet(TABLE)[:cut])
    with pytest.raises(ValueError, match="not a complete Parquet"):
        read_all(path)


# What each column is for.


@pytest.fixture
def source(tmp_path):
    write_table(TABLE, tmp_path / "t.parquet")
    return open_table(tmp_path / "t.parquet")


def test_sensitive_columns_and_the_id_are_no_features_unless_named(source):
    roles = choose_columns(source, sensitive=["sex"], id_column="id")
    assert roles.features == ("age", "income")
    roles = choose_columns(source, sensitive=["sex"], exclude=["id,age"])
    assert roles.features == ("income",)
    roles = choose_columns(source, sensitive=["sex", "age"], features=["income,age"])
    assert roles.features == ("income", "age")
    assert roles.needed == ["sex", "age", "income"]


def test_a_name_with_a_comma_is_taken_whole(tmp_path):
    write_table(pa.table({"a,b": [1], "c": [2]}), tmp_path / "t.parquet")
    roles = choose_columns(open_table(tmp_path / "t.parquet"), sensitive=["a,b"])
    assert roles.sensitive == ("a,b",)


def test_a_column_without_a_name_can_have_any_role(tmp_path):
    """pandas writes such a column unless told otherwise."""
    (tmp_path / "t.csv").write_text(",x,sex\n0,1.5,f\n1,2.5,m\n")
    source = open_table(tmp_path / "t.csv")
    assert choose_columns(source, sensitive=["sex"]).features == ("", "x")
    assert choose_columns(source, sensitive=["sex"], exclude=[""]).features == ("x",)
    assert choose_columns(source, sensitive=["sex"], id_column="").features == ("x",)
    assert choose_columns(source, sensitive=["sex"], features=["x", ""]).features == ("x", "")
    assert choose_columns(source, sensitive=[""], exclude=["sex,"]).sensitive == ("",)


BAD_ROLES = {
    "misspelled": ({"sensitive": ["sxe"]}, "no column 'sxe'; did you mean 'sex'"),
    "other case": ({"sensitive": ["SEX"]}, "did you mean 'sex'"),
    "unlike any": ({"sensitive": ["zzzz"]}, r"no column 'zzzz'\. Its columns are 'id'"),
    "feature": ({"sensitive": ["sex"], "features": ["agee"]}, "did you mean 'age'"),
    "excluded": ({"sensitive": ["sex"], "exclude": ["incme"]}, "did you mean 'income'"),
    "id": ({"sensitive": ["sex"], "id_column": "idd"}, "did you mean 'id'"),
    "both": (
        {"sensitive": ["sex"], "features": ["age"], "exclude": ["id"]},
        "--features and --exclude",
    ),
    "id is feature": (
        {"sensitive": ["sex"], "features": ["id"], "id_column": "id"},
        "cannot be the id",
    ),
    "none left": ({"sensitive": ["sex"], "exclude": ["id,age,income"]}, "no column left"),
}


@pytest.mark.parametrize("case", BAD_ROLES)
def test_bad_column_names_are_refused_with_the_nearest(source, case):
    arguments, message = BAD_ROLES[case]
    with pytest.raises((ValueError, click.UsageError), match=message):
        choose_columns(source, **arguments)


def test_only_the_columns_asked_for_are_read(source):
    table = source.read(["income", "sex"])
    assert table.column_names == ["income", "sex"]
    np.testing.assert_array_equal(table["income"], TABLE["income"])
