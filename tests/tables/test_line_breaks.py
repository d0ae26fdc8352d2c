"""Rows that a missing quote would swallow."""

import csv
import io
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairanchor.tables import open_table

ROWS = [[str(i), str(i * 10), "cook" if i % 3 else "nurse", "fm"[i % 2]] for i in range(60)]
HEADER = ["id", "age", "job", "sex"]


def text_of(rows, *, ends=True, end="\n"):
    return end.join([",".join(row) for row in [HEADER, *rows]]) + (end if ends else "")


def with_quotes(opened=None, closed=None, column=2):
    """The rows with a quote before one value, after another one, or both."""
    rows = [list(row) for row in ROWS]
    if opened is not None:
        rows[opened][column] = '"' + rows[opened][column]
    if closed is not None:
        rows[closed][column] += '"'
    return rows


def read(path, columns=("id", "age", "job", "sex")):
    return open_table(path).read(list(columns), text=["id", "job", "sex"])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("column", [2, 3])
@pytest.mark.parametrize("columns", [("age", "sex"), ("age", "job", "sex")])
def test_a_quote_that_is_never_closed_is_named_by_its_line(tmp_path, end, ends, column, columns):
    path = tmp_path / "t.csv"
    path.write_text(text_of(with_quotes(opened=20, column=column), ends=ends, end=end), newline="")
    with pytest.raises(ValueError, match="a quote that opens in line 22 is not closed"):
        read(path, columns)


@pytest.mark.parametrize("ends", [True, False])
def test_a_quote_that_opens_in_the_last_line_is_no_part_of_a_name(tmp_path, ends):
    path = tmp_path / "t.csv"
    path.write_text(text_of(with_quotes(opened=59, column=3), ends=ends))
    if ends:
        with pytest.raises(ValueError, match="a quote that opens in line 61 is not closed"):
            read(path)
    else:
        assert read(path)["sex"].to_pylist() == [row[3] for row in ROWS]


def test_a_quote_in_the_header_is_named(tmp_path):
    (tmp_path / "t.csv").write_text(text_of(ROWS).replace("job", '"job'))
    with pytest.raises(ValueError, match="a quote that opens in line 1 is not closed"):
        read(tmp_path / "t.csv")


def test_two_stray_quotes_do_not_hide_the_rows_between_them(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(text_of(with_quotes(opened=20, closed=30)))
    with pytest.raises(ValueError, match="column 'job' that begins in line 22 goes on to line 32"):
        read(path)
    with pytest.warns(UserWarning, match="1 value of several lines .* 'job' in lines 22 to 32"):
        table = read(path, ["age", "sex"])
    assert table.num_rows == 50  # the warning is all that tells


def test_text_after_a_closing_quote_ends_a_value_that_opened_lines_before(tmp_path):
    rows = with_quotes(opened=20)
    rows[25][2] = f'"{rows[25][2]}"'
    (tmp_path / "t.csv").write_text(text_of(rows))
    with pytest.raises(ValueError, match="opens in line 22 is not closed before line 27"):
        read(tmp_path / "t.csv", ["age", "sex"])


def test_values_longer_than_the_limit_of_the_csv_module_are_looked_at(tmp_path):
    limit = csv.field_size_limit()
    rows = with_quotes(opened=2) + ROWS * 400
    (tmp_path / "t.csv").write_text(text_of(rows))
    with pytest.raises(ValueError, match="a quote that opens in line 4 is not closed"):
        read(tmp_path / "t.csv")
    assert csv.field_size_limit() == limit


TEXTS = st.text(st.sampled_from('ab "\n,'), max_size=6)


@settings(deadline=None, max_examples=150)
@given(notes=st.lists(TEXTS, min_size=1, max_size=8), quoting=st.sampled_from([0, 1]))
def test_no_row_of_a_correct_file_is_lost_or_refused(tmp_path_factory, notes, quoting):
    """Written by Python's own module: any note in a column that is not read."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, quoting=quoting, lineterminator="\n")
    writer.writerow(["sex", "note", "age"])
    writer.writerows(["f", note, i] for i, note in enumerate(notes))
    path = tmp_path_factory.mktemp("notes") / "t.csv"
    path.write_text(buffer.getvalue(), newline="")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some notes do look like rows
        table = open_table(path).read(["age", "sex"], text=["sex"])
        assert table["age"].to_pylist() == list(range(len(notes)))
        if any("\n" in note for note in notes):
            with pytest.raises(ValueError, match="the column 'note' that begins in line"):
                open_table(path).read(["note", "age"])


def test_prose_of_several_lines_gives_no_warning(tmp_path):
    rows = [
        [*row[:2], '"He said, that is, nothing.\nThen he left, for good."', row[3]] for row in ROWS
    ]
    (tmp_path / "t.csv").write_text(text_of(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(tmp_path / "t.csv", ["age", "sex"]).num_rows == 60
