"""Tables from CSV, TSV, Parquet and Arrow files, directories, or standard input."""

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import csv

from fairanchor.rows._row_files import Footers
from fairanchor.tables._wording import quoted

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
NOT_UTF8 = "{} is not UTF-8 text: convert it, for instance with iconv -f latin1 -t utf-8."
# All other files are text.
FORMATS = {".parquet": "parquet", ".pq": "parquet", ".arrow": "ipc", ".feather": "ipc",
           ".ipc": "ipc"}  # fmt: skip
TITLES = {"parquet": "Parquet", "ipc": "Arrow"}


class TableSource:
    """A table whose column names are known and whose columns are read on request.

    ``footers`` are those of Parquet or Arrow files, None for text.
    """

    def __init__(
        self,
        title: str,
        columns: list[str],
        read: Callable[[list[str], set[str]], pa.Table],
        footers: Footers | None = None,
    ) -> None:
        self.title = title
        self.columns = columns
        self.footers = footers
        self._read = read
        if not columns:
            raise ValueError(f"{title} has no columns.")
        repeated = sorted({name for name in columns if columns.count(name) > 1})
        if repeated:
            names = ", ".join(map(quoted, repeated))
            raise ValueError(f"{title} has more than one column called {names}: rename them.")

    def read(self, columns: Sequence[str], *, names: Collection[str] = ()) -> pa.Table:
        """Read columns, with at least one row and without dictionaries.

        Values of ``names`` are names: ``007`` stays text in a CSV file, whole numbers in their
        usual spelling become numbers.
        """
        table = self._read(list(columns), set(names))
        if table.num_rows == 0:
            raise ValueError(f"{self.title} has columns but no rows: there is nothing to cluster.")
        for place, field in enumerate(table.schema):
            column = table.column(place)
            if pa.types.is_dictionary(field.type):
                table = table.set_column(place, field.name, column.cast(field.type.value_type))
            elif field.name in names:
                table = table.set_column(place, field.name, as_integers(column))
        return table

    def row_numbers(self, n_rows: int) -> np.ndarray:
        """Number of each row in its file."""
        if self.footers is None:
            return np.arange(n_rows)
        return np.concatenate([np.arange(file.n_rows) for file, _ in self.footers.opened])


def as_integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of text as integers if no spelling is lost."""
    if not pa.types.is_string(column.type) or column.null_count == len(column):
        return column
    try:
        numbers = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
    return numbers if pc.all(pc.equal(numbers.cast(pa.string()), column)).as_py() else column


def open_table(path: Any, *, delimiter: str | None = None) -> TableSource:
    """Open a table without reading its rows: a file, or a directory of Parquet or Arrow files.

    The suffix decides between Parquet, Arrow and text, which may be compressed by gzip (``.gz``).
    ``-`` is standard input, text as well, and a pipe is read to its end. Values of text are
    separated by ``delimiter``, by default a tab for ``.tsv`` and ``.tab``, else a comma.
    """
    path = str(path)
    if path != "-" and not os.path.exists(path):
        raise FileNotFoundError(f"There is no file {path}.")
    if os.path.isdir(path):
        return _open_files(path, _files_in(path))
    if _format_of(path) is not None:
        return _open_files(path, [path])
    data, title = _text_of(path)
    is_tsv = Path(path.lower().removesuffix(".gz")).suffix in (".tsv", ".tab")
    return _open_csv(data, title, delimiter or ("\t" if is_tsv else ","))


def _format_of(path: str) -> str | None:
    return FORMATS.get(os.path.splitext(path)[1].lower())


def _files_in(directory: str) -> list[str]:
    """The Parquet or Arrow files in a directory, in the order of their names."""
    hidden = re.compile(r"(^|/)[._]")
    paths = [path.as_posix() for path in Path(directory).rglob("*") if path.is_file()]
    paths = sorted(path for path in paths if not hidden.search(os.path.relpath(path, directory)))
    if not paths:
        raise ValueError(f"{directory} has no files, expected Parquet or Arrow files.")
    first = {_format_of(path): path for path in reversed(paths)}
    if len(first) > 1 or None in first:
        examples = [first[None]] if None in first else list(first.values())
        raise ValueError(
            f"{directory} has {' and '.join(map(os.path.basename, examples))}: expected only "
            ".parquet files, or only .arrow (.feather). Convert text files to Parquet, or name a "
            "single one."
        )
    return paths


def _open_files(title: str, paths: list[str]) -> TableSource:
    """Parquet or Arrow files as one table."""
    kind = str(_format_of(paths[0]))
    with _reading(title, TITLES[kind]):
        dataset = ds.dataset(paths, format=kind)
    footers = Footers.of(dataset)

    def read(columns: list[str], names: set[str]) -> pa.Table:
        features = [column for column in columns if column not in names]
        footers.check_columns(features, [c for c in columns if c in names], numbers=False)
        with _reading(title, TITLES[kind]):
            table = dataset.to_table(columns)
            # Offsets in a damaged file can point anywhere, and using them would crash the process.
            table.validate(full=True)
        return table

    return TableSource(title, footers.names, read, footers)


def _text_of(path: str) -> tuple[Path | pa.Buffer, str]:
    """A Path, or the content of standard input, a pipe or a compressed file; the table's name."""
    title, is_compressed = path, path.lower().endswith(".gz")
    data: Path | pa.Buffer = Path(path)
    if path == "-":
        if sys.stdin is None:
            raise ValueError("standard input is closed: expected a table.")
        data, title = pa.py_buffer(sys.stdin.buffer.read()), "standard input"
    elif is_compressed or not os.path.isfile(path):  # a pipe cannot be read twice
        data = pa.py_buffer(Path(path).read_bytes())
    if is_compressed:
        with _reading(title, "gzip"):
            data = pa.py_buffer(pa.CompressedInputStream(_stream(data), "gzip").read())
    with _stream(data) as stream:
        head = stream.read(4096)
    if not head:
        raise ValueError(f"{title} is empty: expected a table.")
    if b"\x00" in head or head.startswith(b"PK\x03\x04"):
        raise ValueError(
            f"{title} is not text with values between separators. Parquet and Arrow files are read "
            "by their suffix; save a workbook as CSV, convert UTF-16 to UTF-8."
        )
    return data, title


def _stream(data: Path | pa.Buffer) -> pa.NativeFile:
    return pa.BufferReader(data) if isinstance(data, pa.Buffer) else pa.OSFile(str(data), "rb")


def _open_csv(data: Path | pa.Buffer, title: str, delimiter: str) -> TableSource:
    def parsing(n_columns: int) -> csv.ParseOptions:
        # In a table of one column an empty line is a row without a value.
        return csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=n_columns != 1
        )

    # First, since later rows with decimal commas would raise an error about their number of values.
    with _stream(data) as stream:
        line = stream.read(2**16).decode(errors="replace").splitlines()[:1]
    header = line[0].removeprefix("\ufeff") if line else ""
    other = next((mark for mark in DELIMITERS if mark in header), None)
    if delimiter not in header and other is not None:
        raise ValueError(
            f"{title}, read with {delimiter!r} between values, has a single column called "
            f"{quoted(header)}: it seems to have a {DELIMITERS[other]} between values. "
            f"Use --delimiter {'tab' if other == chr(9) else repr(other)}."
        )
    # Only for the names: types must be decided by all rows, not by the first block.
    with (
        _reading(title, "CSV", delimiter),
        csv.open_csv(_stream(data), parse_options=parsing(0)) as reader,
    ):
        columns = list(reader.schema.names)

    def read(wanted: list[str], names: set[str]) -> pa.Table:
        convert = csv.ConvertOptions(
            include_columns=wanted,
            column_types={name: pa.string() for name in names},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        with _reading(title, "CSV", delimiter):
            table = csv.read_csv(
                _stream(data), parse_options=parsing(len(columns)), convert_options=convert
            )
        for field, column in zip(table.schema, table.columns, strict=True):
            if pa.types.is_binary(field.type):
                raise ValueError(NOT_UTF8.format(title))
            if pa.types.is_string(field.type):
                _check_line_breaks(column, field.name, title)
        return table

    return TableSource(title, columns, read)


def _check_line_breaks(column: pa.ChunkedArray, name: str, title: str) -> None:
    """Raise an error if a value spans several lines: pyarrow reads an open quote to the end."""
    row = pc.index(pc.match_substring_regex(column, "[\r\n]"), True).as_py()
    if row >= 0:
        raise ValueError(
            f"{title}: the value of the column {quoted(name)} in row {row:,} (counted from 0) "
            f"contains a line break: {quoted(column[row].as_py())}. A quote before it is probably "
            "not closed; columns that are used must not contain line breaks."
        )


@contextmanager
def _reading(title: str, kind: str, delimiter: str | None = None) -> Iterator[None]:
    """Add the name of the file and advice to errors of pyarrow."""
    try:
        yield
    except pa.ArrowMemoryError as error:
        raise MemoryError(f"{title} could not be read, or is damaged: {error}") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0][:200]
        if delimiter is None:
            message = f"{title} is not a complete {kind} file: {reason}"
        elif isinstance(error, UnicodeDecodeError) or "UTF8" in reason:
            message = NOT_UTF8.format(title)
        elif "Empty CSV" in reason:
            message = f"{title} is empty: expected a header and rows."
        else:
            message = (
                f"{title} cannot be read as a table with {delimiter!r} between values: {reason}. "
                "Check that every quote in this row is closed, or name another separator with "
                "--delimiter."
            )
        raise ValueError(message) from None
