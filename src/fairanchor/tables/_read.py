"""Tables from CSV, TSV, Parquet and Arrow files, or from standard input."""

import sys
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, ipc, parquet

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".txt": "csv",
    ".gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


class TableSource:
    """A table whose column names are known and whose columns are read on request.

    Attributes
    ----------
    title : str
        What to call it in messages.
    columns : list of str
        In file order, without repetition.
    """

    def __init__(self, title, columns, read):
        self.title = title
        self.columns = columns
        self._read = read
        if not columns:
            raise ValueError(f"{title} has no columns.")
        repeated = sorted({name for name in columns if columns.count(name) > 1})
        if repeated:
            raise ValueError(
                f"{title} has more than one column called {', '.join(map(repr, repeated))}: which "
                "is meant cannot be told. Rename them."
            )

    def read(self, columns, *, text=()):
        """The named columns as a pyarrow Table with at least one row.

        Parameters
        ----------
        columns : sequence of str
        text : collection of str
            Columns whose spelling matters (``007``): a CSV file's are not turned into numbers.
            Files that carry types keep them.
        """
        table = self._read(list(columns), set(text))
        if table.num_rows == 0:
            raise ValueError(f"{self.title} has columns but no rows: there is nothing to cluster.")
        return table


def open_table(path, *, delimiter=None, null_values=()):
    """Look at a table without reading its rows.

    Parameters
    ----------
    path : str or path-like
        CSV (also compressed by gzip), TSV, Parquet or Arrow IPC (Feather); ``-`` is standard
        input. The content decides between Parquet, Arrow and text.
    delimiter : str, default=None
        Separator of a text table; by default a tab for ``.tsv`` and ``.tab``, else a comma.
    null_values : sequence of str
        Texts that mean a missing value in a text table, besides the empty one, NA, NaN, null
        and their usual spellings.

    Returns
    -------
    source : TableSource
    """
    data, title = _data_of(path)
    head = data[:8].to_pybytes() if isinstance(data, pa.Buffer) else _head_of(data)
    kind = _kind(head, Path(str(path)).suffix.lower(), title)
    if kind == "csv":
        tabbed = Path(str(path)).suffix.lower() in (".tsv", ".tab")
        delimiter = delimiter or ("\t" if tabbed else ",")
        return _open_csv(data, title, delimiter, null_values, gzipped=head[:2] == b"\x1f\x8b")
    return {"parquet": _open_parquet, "arrow": _open_arrow, "stream": _open_stream}[kind](
        data, title
    )


def _data_of(path):
    """A Path, or all of standard input as a Buffer, and what to call it."""
    if str(path) == "-":
        data = sys.stdin.buffer.read()
        if not data:
            raise ValueError("standard input is empty: expected a table.")
        return pa.py_buffer(data), "standard input"
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, expected one file with a table.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if path.is_file() and path.stat().st_size == 0:
        raise ValueError(f"{path} is empty: expected a table.")
    return path, str(path)


def _head_of(path):
    with path.open("rb") as file:
        return file.read(8)


def _kind(head, suffix, title):
    """Format by the first bytes; a suffix that promises another one is an error."""
    promised = SUFFIXES.get(suffix)
    if head[:4] == b"PAR1":
        return "parquet"
    if head[:6] == b"ARROW1":
        return "arrow"
    if head[:4] == b"\xff\xff\xff\xff":
        return "stream"
    if head[:2] == b"PK":
        raise ValueError(
            f"{title} is a zip archive or an Excel workbook, expected CSV, TSV, Parquet or Arrow: "
            "save the sheet as CSV."
        )
    if head[:4] == b"FEA1":
        raise ValueError(
            f"{title} is a Feather file of version 1, expected version 2: write it again."
        )
    if promised in ("parquet", "arrow"):
        raise ValueError(
            f"{title} ends in {suffix!r} but does not begin as such a file does: it is damaged or "
            "has the wrong suffix."
        )
    if b"\x00" in head and head[:2] != b"\x1f\x8b":
        raise ValueError(f"{title} is not text, and neither Parquet nor Arrow.")
    return "csv"


def _stream(data):
    return pa.BufferReader(data) if isinstance(data, pa.Buffer) else pa.OSFile(str(data), "rb")


def _open_parquet(data, title):
    try:
        file = parquet.ParquetFile(_stream(data))
    except (pa.ArrowException, OSError) as error:
        raise _damaged(title, "Parquet", error) from None

    def read(columns, text):
        try:
            return file.read(columns=columns).select(columns)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(title, "Parquet", error) from None

    return TableSource(title, list(file.schema_arrow.names), read)


def _open_arrow(data, title):
    return _opened_ipc(data, title, ipc.open_file)


def _open_stream(data, title):
    return _opened_ipc(data, title, ipc.open_stream)


def _opened_ipc(data, title, opener):
    try:
        reader = opener(_stream(data))
    except (pa.ArrowException, OSError) as error:
        raise _damaged(title, "Arrow", error) from None

    def read(columns, text):
        try:
            table = reader.read_all().select(columns)
            # Offsets of a damaged file can point anywhere; using them would end the process.
            table.validate(full=True)
            return table
        except (pa.ArrowException, OSError) as error:
            raise _damaged(title, "Arrow", error) from None

    return TableSource(title, list(reader.schema.names), read)


def _damaged(title, kind, error):
    reason = str(error).splitlines()[0]
    return ValueError(f"{title} is not a complete {kind} file: {reason}")


def _open_csv(data, title, delimiter, null_values, *, gzipped):
    def stream():
        plain = _stream(data)
        return pa.CompressedInputStream(plain, "gzip") if gzipped else plain

    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    try:
        # Only for the names: types must be decided by all rows, not by the first block.
        with csv.open_csv(stream(), parse_options=parse) as reader:
            columns = list(reader.schema.names)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable_csv(title, delimiter, error) from None
    _check_delimiter(columns, delimiter, title)

    def read(wanted, text):
        return _read_csv(stream(), title, parse, wanted, text, null_values)

    return TableSource(title, columns, read)


def _check_delimiter(columns, delimiter, title):
    other = next((mark for mark in DELIMITERS if mark != delimiter and mark in columns[0]), None)
    if len(columns) == 1 and other is not None:
        raise ValueError(
            f"{title}, read with {delimiter!r} between values, has a single column called "
            f"{columns[0]!r}: it seems to have a {DELIMITERS[other]} between values. "
            f"Use --delimiter {'tab' if other == chr(9) else repr(other)}."
        )


def _read_csv(stream, title, parse, columns, text, null_values):
    convert = csv.ConvertOptions(
        include_columns=columns,
        column_types={name: pa.string() for name in text},
        null_values=[*csv.ConvertOptions().null_values, *null_values],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        table = csv.read_csv(stream, parse_options=parse, convert_options=convert)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable_csv(title, parse.delimiter, error) from None
    binary = [name for name in columns if pa.types.is_binary(table.schema.field(name).type)]
    if binary:
        raise ValueError(_not_utf8(title, f"column {binary[0]!r}"))
    return table


def _unreadable_csv(title, delimiter, error):
    reason = str(error).splitlines()[0]
    if "UTF8" in reason:
        return ValueError(_not_utf8(title, "it"))
    if "Empty CSV" in reason:
        return ValueError(f"{title} is empty: expected a header and rows.")
    return ValueError(
        f"{title} cannot be read as a table with {delimiter!r} between values: {reason} "
        "(--delimiter names another separator)."
    )


def _not_utf8(title, what):
    return f"{title}: {what} is not UTF-8 text. Convert the file, for instance with iconv."
