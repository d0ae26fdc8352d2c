"""Text tables, read by pyarrow: delimiters, encodings, and errors that name the file."""

import codecs

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from fairanchor.tables._wording import quoted

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)


class TextTable:
    """A text table whose header has been read.

    Parameters
    ----------
    open_stream : callable
        Returns the file's bytes as a stream, from its beginning.
    title : str
    delimiter : str
    null_values : sequence of str
        Texts that mean a missing value, besides the usual ones.

    Attributes
    ----------
    columns : list of str
        In file order.
    """

    def __init__(self, open_stream, title, delimiter, null_values):
        self._open_stream = open_stream
        self._title = title
        self._delimiter = delimiter
        self._null_values = null_values
        try:
            # Only for the names: types must be decided by all rows, not by the first block.
            with csv.open_csv(open_stream(), parse_options=self._parsing(())) as reader:
                self.columns = list(reader.schema.names)
        except pa.ArrowMemoryError:
            raise
        except UNREADABLE as error:
            raise self._unreadable(error) from None
        _check_delimiter(self.columns, delimiter, title)

    def read(self, wanted, text):
        """The wanted columns as a pyarrow Table, those in ``text`` as text."""
        usual = csv.ConvertOptions()
        convert = csv.ConvertOptions(
            include_columns=wanted,
            column_types={name: pa.string() for name in text},
            null_values=[*usual.null_values, *self._null_values],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parsing = self._parsing(self.columns)
        try:
            table = csv.read_csv(
                self._open_stream(), parse_options=parsing, convert_options=convert
            )
        except pa.ArrowMemoryError:
            raise
        except UNREADABLE as error:
            raise self._unreadable(error) from None
        if any(pa.types.is_binary(field.type) for field in table.schema):
            raise ValueError(self._wrong_encoding())
        _check_line_breaks(table, self._title)
        return table

    def _parsing(self, columns):
        return csv.ParseOptions(
            delimiter=self._delimiter,
            newlines_in_values=True,
            # In a table of one column an empty line is a row without a value.
            ignore_empty_lines=len(columns) != 1,
        )

    def _unreadable(self, error):
        reason = str(error).splitlines()[0]
        if isinstance(error, UnicodeDecodeError) or "UTF8" in reason:
            return ValueError(self._wrong_encoding())
        if "compressed stream" in reason or "inflate" in reason:
            return ValueError(f"{self._title} is not a complete gzip file: {reason}")
        if "Empty CSV" in reason:
            return ValueError(f"{self._title} is empty: expected a header and rows.")
        return ValueError(
            f"{self._title} cannot be read as a table with {self._delimiter!r} between values: "
            f"{_cut(reason)}. Check that every quote in this row is closed, or name another "
            "separator with --delimiter."
        )

    def _wrong_encoding(self):
        line, byte = _first_wrong_byte(self._open_stream())
        return (
            f"{self._title} is not UTF-8 text: the byte 0x{byte:02x} in line {line} is none of it "
            f"(in Latin-1 it is {bytes([byte]).decode('latin-1')!r}). Convert the file, for "
            "instance with iconv -f latin1 -t utf-8."
        )


def _check_delimiter(columns, delimiter, title):
    other = next((mark for mark in DELIMITERS if mark != delimiter and mark in columns[0]), None)
    if len(columns) == 1 and other is not None:
        raise ValueError(
            f"{title}, read with {delimiter!r} between values, has a single column called "
            f"{quoted(columns[0])}: it seems to have a {DELIMITERS[other]} between values. "
            f"Use --delimiter {'tab' if other == chr(9) else repr(other)}."
        )


def _check_line_breaks(table, title):
    """Raise an error if a value spans several lines: a missing quote hides the rows after it."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not pa.types.is_string(column.type):
            continue
        row = pc.index(pc.match_substring_regex(column, "[\r\n]"), True).as_py()
        if row >= 0:
            raise ValueError(
                f"{title}: the value of the column {quoted(name)} in row {row:,} (counted from 0) "
                f"contains a line break: {quoted(column[row].as_py())}. A quote before it is "
                "probably not closed; columns that are used must not contain line breaks."
            )


def _cut(reason, at_most=200):
    return reason if len(reason) <= at_most else reason[:at_most] + "…"


def _first_wrong_byte(stream):
    """Line and value of the first byte that is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line, kept = 1, b""
    while block := stream.read(1 << 20):
        # What the decoder kept of the block before is a part of the text that it complains about.
        text = kept + block
        try:
            decoder.decode(block)
        except UnicodeDecodeError as error:
            return line + text[: error.start].count(b"\n"), text[error.start]
        kept = decoder.getstate()[0]
        line += text[: len(text) - len(kept)].count(b"\n")
    return line, kept[0] if kept else 0
