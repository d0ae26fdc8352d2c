"""Values of a text table that go over several lines, which may be rows that a quote swallowed."""

import csv
import io
import re
import sys
import warnings
from contextlib import contextmanager

from fairanchor.tables._wording import counted, quoted

LINE_BREAK = re.compile("\r\n|\r|\n")


def check_line_breaks(open_stream, table, *, title, delimiter, columns):
    """Refuse or announce values in which a missing quote may have hidden rows.

    Parameters
    ----------
    open_stream : callable
        Returns the file's bytes as a stream, from its beginning.
    table : pyarrow.Table
        What was read: columns in which no line break is accepted.
    title : str
    delimiter : str
    columns : list of str
        All columns, in file order.
    """
    n_lines, has_quotes = _lines_of(open_stream())
    # As many lines as rows: no value can go over two of them, but the last one may be open.
    as_many = n_lines == table.num_rows + 1 and not _ends_with_a_line_break(table)
    if as_many or not has_quotes:
        return
    suspicious = []
    for first, last, fields in _records_over_lines(open_stream(), delimiter):
        if fields is None:
            raise ValueError(_unclosed(title, first, last))
        for position, value in enumerate(fields[: len(columns)]):
            pieces = LINE_BREAK.split(value)
            if len(pieces) == 1:
                continue
            if columns[position] in table.column_names and first > 1:
                raise ValueError(
                    f"{title}: the value of the column {quoted(columns[position])} that begins in "
                    f"line {first} goes on to line {last}. A quote seems not to be closed in line "
                    f"{first}, which hides the rows after it; line breaks are accepted only in "
                    "columns that are not used."
                )
            if _look_like_rows(pieces, position, len(columns), delimiter):
                suspicious.append((columns[position], first, last))
    if suspicious:
        _warn_suspicious(title, suspicious)


def unclosed_quote(open_stream, title, delimiter):
    """Message about a quote that does not match, or None if there is no such quote."""
    for first, last, fields in _records_over_lines(open_stream(), delimiter):
        if fields is None:
            return _unclosed(title, first, last)
    return None


def _unclosed(title, first, last):
    hidden = f" before line {last}, which hides the rows between" if last > first else ""
    return (
        f"{title}: a quote that opens in line {first} is not closed{hidden}. Correct the quotes in "
        f"line {first} (a quote within quotes is written twice)."
    )


def _ends_with_a_line_break(table):
    values = [column[-1].as_py() for column in table.columns if len(column)]
    return any(isinstance(value, str) and value.endswith(("\n", "\r")) for value in values)


def _warn_suspicious(title, suspicious):
    column, first, last = suspicious[0]
    warnings.warn(
        f"{title} has {counted(len(suspicious), 'value')} of several lines that look like rows "
        f"themselves, the first in the column {quoted(column)} in lines {first} to {last}: if a "
        "quote is not closed there, these rows are lost.",
        UserWarning,
        stacklevel=5,
    )


def _lines_of(stream):
    """Number of lines, and whether there is any quote."""
    n_breaks, has_quotes, last = 0, False, b""
    while block := stream.read(1 << 20):
        n_breaks += block.count(b"\n")
        has_quotes = has_quotes or b'"' in block
        last = block[-1:]
    return n_breaks + (last not in (b"", b"\n")), has_quotes


def _records_over_lines(stream, delimiter):
    """First line, last line and fields of records of several lines.

    There are no fields where quotes do not match: the file ends within quotes, or something else
    than a delimiter follows a closing quote.
    """
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    before = 0
    with _fields_of_any_length():
        while True:
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                fields = None
                ended = "end of data" in str(error)
            if reader.line_num > before + 1 or (fields is None and ended):
                yield before + 1, reader.line_num, fields
            before = reader.line_num


@contextmanager
def _fields_of_any_length():
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _look_like_rows(pieces, position, n_columns, delimiter):
    """Whether the lines of a value have as many delimiters as if they were (parts of) rows."""
    found = [piece.count(delimiter) for piece in pieces]
    inner = [n_columns - 1] * (len(pieces) - 2)
    return n_columns > 1 and found == [n_columns - 1 - position, *inner, position]
