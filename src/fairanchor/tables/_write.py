"""Tables of labels to CSV, TSV, Parquet and Arrow files."""

import csv as quoting
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, feather, parquet

from fairanchor._utils._files import is_device, replacing, standard_output


def write_table(table: pa.Table, path: Any, *, force: bool = False) -> None:
    """Write a table in the format of the path's suffix, completely or not at all.

    ``-`` is standard output, as CSV; ``force`` allows to replace an existing file.
    """
    write = check_format(path)
    if str(path) == "-":
        with standard_output() as file:
            write(table, file.buffer)
        return
    with replacing(path, force=force) as file:
        write(table, file)


def check_format(path: Any) -> Callable[[pa.Table, Any], None]:
    """The writer for a path's suffix; an unknown suffix is an error."""
    suffix = Path(str(path)).suffix.lower()
    if str(path) == "-" or is_device(path):
        return _write_csv
    if suffix not in WRITERS:
        ending = f"ends in {suffix!r}, which names no format" if suffix else "has no suffix"
        raise click.UsageError(f"{path} {ending}: expected one of {', '.join(WRITERS)}.")
    return WRITERS[suffix]


def spreadsheet_safe(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text with an apostrophe before cells that a spreadsheet would run as a formula.

    Doing it twice changes nothing.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    is_formula = pc.and_(
        pc.match_substring_regex(column, r"^[=+\-@\t\r]"),
        pc.invert(pc.match_substring_regex(column, r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$")),
    )
    return pc.if_else(is_formula, pc.binary_join_element_wise("'", column, ""), column)


def _write_csv(table: pa.Table, file: Any, delimiter: str = ",") -> None:
    names = spreadsheet_safe(pa.chunked_array([table.column_names], pa.string())).to_pylist()
    table = pa.table([spreadsheet_safe(column) for column in table.columns], names)
    header = io.StringIO()
    # pyarrow quotes every name, this only names that need it.
    quoting.writer(header, delimiter=delimiter, lineterminator="\n").writerow(names)
    file.write(header.getvalue().encode("utf-8"))
    options = csv.WriteOptions(include_header=False, delimiter=delimiter)
    for batch in table.to_batches(max_chunksize=1 << 17):
        # Through a buffer: pyarrow closes the file that it writes to.
        sink = pa.BufferOutputStream()
        csv.write_csv(batch, sink, options)
        file.write(sink.getvalue())


WRITERS: dict[str, Callable[[pa.Table, Any], None]] = {
    ".csv": _write_csv,
    ".tsv": partial(_write_csv, delimiter="\t"),
    **dict.fromkeys((".parquet", ".pq"), parquet.write_table),
    **dict.fromkeys(
        (".arrow", ".feather", ".ipc"), partial(feather.write_feather, compression="uncompressed")
    ),
}
