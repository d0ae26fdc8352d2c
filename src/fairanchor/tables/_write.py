"""Tables of labels to CSV, TSV, Parquet and Arrow files."""

import csv as quoting
import io
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, feather, parquet

from fairanchor._utils._files import is_device, replacing, standard_output
from fairanchor.tables._wording import RequestError


def write_table(table, path, *, force=False):
    """Write a table in the format of the path's suffix, whole or not at all.

    Parameters
    ----------
    table : pyarrow.Table
    path : str or path-like
        ``-`` is standard output, as CSV.
    force : bool, default=False
        Whether an existing file may be replaced.
    """
    write = check_format(path)
    if str(path) == "-":
        with standard_output() as file:
            _write_csv(table, file.buffer)
        return
    with replacing(path, force=force) as file:
        write(table, file)


def check_format(path):
    """The writer for a path's suffix; an unknown suffix is an error."""
    suffix = Path(str(path)).suffix.lower()
    if str(path) == "-" or is_device(path):
        return _write_csv
    if suffix not in WRITERS:
        ending = f"ends in {suffix!r}, which names no format" if suffix else "has no suffix"
        raise RequestError(f"{path} {ending}: expected one of {', '.join(WRITERS)}.")
    return WRITERS[suffix]


def _write_csv(table, file, delimiter=","):
    header = io.StringIO()
    quoting.writer(header, delimiter=delimiter, lineterminator="\n").writerow(table.column_names)
    file.write(header.getvalue().encode("utf-8"))
    options = csv.WriteOptions(include_header=False, delimiter=delimiter)
    sink = pa.BufferOutputStream()
    # Through a buffer: pyarrow closes what it writes to, and the file is still to be synced.
    for batch in table.to_batches(max_chunksize=1 << 17):
        csv.write_csv(batch, sink, options)
        file.write(sink.getvalue())
        sink = pa.BufferOutputStream()


def _write_tsv(table, file):
    _write_csv(table, file, "\t")


def _write_parquet(table, file):
    parquet.write_table(table, file)


def _write_arrow(table, file):
    feather.write_feather(table, file, compression="uncompressed")


WRITERS = {
    ".csv": _write_csv,
    ".tsv": _write_tsv,
    ".parquet": _write_parquet,
    ".pq": _write_parquet,
    ".arrow": _write_arrow,
    ".feather": _write_arrow,
    ".ipc": _write_arrow,
}
