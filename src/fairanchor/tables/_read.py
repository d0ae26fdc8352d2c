"""Tables from CSV, TSV, Parquet and Arrow files, or from standard input."""

import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow import ipc, parquet

from fairanchor.tables._csv import TextTable
from fairanchor.tables._wording import quoted

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
GZIP = b"\x1f\x8b"
# First bytes of what is no table, or none that can be read.
FOREIGN = {
    b"PK": "a zip archive or an Excel workbook: save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an Excel workbook of the old kind: save the sheet as CSV",
    b"FEA1": "a Feather file of version 1: write it again as version 2",
    b"BZh": "compressed by bzip2: unpack it, or use gzip",
    b"\xfd7zXZ": "compressed by xz: unpack it, or use gzip",
    b"\x28\xb5\x2f\xfd": "compressed by zstd: unpack it, or use gzip",
    b"\xff\xfe": "UTF-16 text: convert it to UTF-8, for instance with iconv -f utf-16 -t utf-8",
    b"\xfe\xff": "UTF-16 text: convert it to UTF-8, for instance with iconv -f utf-16 -t utf-8",
}


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
            names = ", ".join(map(quoted, repeated))
            raise ValueError(
                f"{title} has more than one column called {names}: which is meant cannot be told. "
                "Rename them."
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
        CSV, TSV, Parquet or Arrow IPC (Feather), also compressed by gzip; ``-`` is standard
        input. The content decides between Parquet, Arrow and text. A pipe is read to its end.
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
    name = Path(str(path).lower())
    gzipped = _head_of(_stream(data), title)[:2] == GZIP
    if gzipped and name.suffix == ".gz":
        name = name.with_suffix("")
    opened = partial(_unpacked_stream if gzipped else _stream, data)
    head = _head_of(opened(), title)
    kind = _kind(head, name.suffix, title)
    if kind == "csv":
        delimiter = delimiter or ("\t" if name.suffix in (".tsv", ".tab") else ",")
        text = TextTable(opened, title, delimiter, null_values)
        return TableSource(title, text.columns, text.read)
    if gzipped:  # these formats are read at any place, not from beginning to end
        data = _unpacked(opened(), title)
    return {"parquet": _open_parquet, "arrow": _open_arrow, "stream": _open_stream}[kind](
        data, title
    )


def _data_of(path):
    """A Path, or all bytes of standard input or a pipe as a Buffer, and what to call it."""
    if str(path) == "-":
        if sys.stdin is None:
            raise ValueError("standard input is closed: expected a table.")
        return _all_of(sys.stdin.buffer, "standard input"), "standard input"
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, expected one file with a table.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if not path.is_file():  # a pipe cannot be read twice
        with path.open("rb") as file:
            return _all_of(file, str(path)), str(path)
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty: expected a table.")
    return path, str(path)


def _all_of(file, title):
    data = file.read()
    if not data:
        raise ValueError(f"{title} is empty: expected a table.")
    return pa.py_buffer(data)


def _stream(data):
    return pa.BufferReader(data) if isinstance(data, pa.Buffer) else pa.OSFile(str(data), "rb")


def _unpacked_stream(data):
    return pa.CompressedInputStream(_stream(data), "gzip")


def _head_of(stream, title):
    try:
        return stream.read(4096)
    except OSError as error:
        raise _damaged(title, "gzip", error) from None


def _unpacked(stream, title):
    try:
        return pa.py_buffer(stream.read())
    except OSError as error:
        raise _damaged(title, "gzip", error) from None


def _kind(head, suffix, title):
    """Format by the first bytes; a suffix that promises another one is an error."""
    if head[:4] == b"PAR1":
        return "parquet"
    if head[:6] == b"ARROW1":
        return "arrow"
    if head[:4] == b"\xff\xff\xff\xff":
        return "stream"
    for start, what in FOREIGN.items():
        if head.startswith(start):
            raise ValueError(f"{title}, expected to be CSV, TSV, Parquet or Arrow, is {what}.")
    if SUFFIXES.get(suffix) in ("parquet", "arrow"):
        raise ValueError(
            f"{title} ends in {suffix!r} but does not begin as such a file does: it is damaged or "
            "has the wrong suffix."
        )
    if suffix in (".json", ".jsonl", ".ndjson"):
        raise ValueError(f"{title} is JSON, expected CSV, TSV, Parquet or Arrow.")
    if b"\x00" in head:
        raise ValueError(f"{title} is not text, and neither Parquet nor Arrow.")
    return "csv"


def _open_parquet(data, title):
    with _naming(title, "Parquet"):
        file = parquet.ParquetFile(_stream(data))

    def read(columns, text):
        with _naming(title, "Parquet"):
            return _validated(file.read(columns=columns).select(columns))

    return TableSource(title, list(file.schema_arrow.names), read)


def _open_arrow(data, title):
    return _opened_ipc(data, title, ipc.open_file)


def _open_stream(data, title):
    return _opened_ipc(data, title, ipc.open_stream)


def _opened_ipc(data, title, opener):
    with _naming(title, "Arrow"):
        reader = opener(_stream(data))

    def read(columns, text):
        with _naming(title, "Arrow"):
            return _validated(reader.read_all().select(columns))

    return TableSource(title, list(reader.schema.names), read)


def _validated(table):
    # Offsets of a damaged file can point anywhere, which would end the process when they are used,
    # and text can be none.
    table.validate(full=True)
    return table


@contextmanager
def _naming(title, kind):
    """Add the name of the file and its format to errors of pyarrow."""
    try:
        yield
    except pa.ArrowMemoryError as error:
        raise MemoryError(
            f"{title} could not be read as {kind}: {str(error).splitlines()[0]}. The file is "
            "larger than the available memory, or it is damaged. A folder of Parquet files is "
            "read in chunks."
        ) from error
    except (pa.ArrowException, OSError) as error:
        raise _damaged(title, kind, error) from None


def _damaged(title, kind, error):
    reason = str(error).splitlines()[0]
    return ValueError(f"{title} is not a complete {kind} file: {reason}")
