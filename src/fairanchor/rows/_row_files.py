"""Parquet and Arrow files as one long table.

Rows are numbered through all files, in the order of the dataset's files. Only footers are read,
until a span of rows is requested.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as types
from pyarrow.fs import FileType

from fairanchor._utils._cached import cached_property
from fairanchor.rows._label_files import names_of_files, paths_below
from fairanchor.rows._raw_rows import RawRows
from fairanchor.rows._tables import check_finite

MISSING_ADVICE = "missing_groups='own_group'"
KINDS = {"parquet": "parquet", "ipc": "ipc", "arrow": "ipc", "feather": "ipc"}
# Types whose numbers float32 holds.
SHORT = {
    pa.bool_(), pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.float16(), pa.float32()
}  # fmt: skip
# Rows decoded at a time: what a reader holds besides the requested span.
BATCH_ROWS = 2**16


@dataclass(frozen=True)
class RowFile:
    """One file.

    Attributes
    ----------
    path : str
        In the file system of the dataset.
    kind : {"parquet", "ipc"}
    pieces : ndarray of int
        Rows of each row group or record batch.
    stamp : tuple of int
        Size in bytes and time of the last change, when its footer was read.
    """

    path: str
    kind: str
    pieces: np.ndarray
    stamp: tuple[int, int]

    @property
    def n_rows(self) -> int:
        return int(self.pieces.sum())


@dataclass(frozen=True)
class Footers:
    """The footers of a dataset's files: a `RowFile` and a schema for each."""

    dataset: Any
    opened: list[tuple[RowFile, pa.Schema]]

    @classmethod
    def of(cls, dataset: Any) -> "Footers":
        """Read the footers of all files of a ``pyarrow.dataset.FileSystemDataset``."""
        kind = _kind_of(dataset)
        if getattr(dataset, "_scan_options", None):
            raise ValueError(
                "The dataset has a filter, expected one without: rows are found by their number in "
                "their file. Write the selected rows to new files "
                "(pyarrow.dataset.write_dataset)."
            )
        opened = [_read_footer(dataset.filesystem, path, kind) for path in dataset.files]
        if not opened:
            raise ValueError("The dataset has no files, expected at least one with rows.")
        return cls(dataset, opened)

    @property
    def names(self) -> list[str]:
        """Names of all columns: the dataset's schema is that of its first file only."""
        return list(dict.fromkeys(name for _, schema in self.opened for name in schema.names))

    def check_columns(
        self, features: Sequence[str], sensitive: Sequence[str], *, numbers: bool
    ) -> None:
        """Raise an error for a column that a file lacks, or whose type differs between files."""
        kinds: dict[str, tuple] = {}
        for file, schema in self.opened:
            for name in (*features, *sensitive):
                places = schema.get_all_field_indices(name)
                if len(places) != 1:
                    problem = f"is there {len(places)} times" if places else "is missing"
                    raise ValueError(
                        f"The column {name!r} {problem} in {file.path}, expected once in every "
                        "file."
                    )
                type_ = schema.field(places[0]).type
                if types.is_dictionary(type_):
                    type_ = type_.value_type
                is_number = types.is_integer(type_) or types.is_floating(type_)
                if numbers and name in features and not (is_number or types.is_boolean(type_)):
                    raise ValueError(
                        f"The column {name!r} is of type {type_} in {file.path}, expected numbers. "
                        "Name the columns that are features, or encode it as numbers."
                    )
                if types.is_null(type_):  # all values are missing, whatever they would be
                    continue
                kind, other, path = kinds.setdefault(name, (kind_of_names(type_), type_, file.path))
                if name in sensitive and kind != kind_of_names(type_):
                    raise ValueError(
                        f"The column {name!r} is of type {type_} in {file.path}, but of type "
                        f"{other} in {path}: their groups would not be the same."
                    )

    def dtype_of(self, features: Sequence[str]) -> Any:
        """float32 if it has all digits of the numbers in these columns, else float64."""
        found = {schema.field(name).type for _, schema in self.opened for name in features}
        return np.float32 if found <= SHORT else np.float64

    def check_names(self) -> None:
        """Raise an error for columns in directory names, and for files that are there twice."""
        elsewhere = [name for name in self.dataset.schema.names if name not in self.names]
        if elsewhere:
            raise ValueError(
                f"The column {elsewhere[0]!r} is in the names of directories, not in the files: "
                "open the dataset without partitioning, and write the column into the files if it "
                "is needed."
            )
        for path, number in Counter(file.path for file, _ in self.opened).items():
            if number > 1:
                raise ValueError(f"{path} is in the dataset {number} times, expected once.")


@dataclass(frozen=True)
class RowFiles:
    """A table in files.

    Attributes
    ----------
    filesystem : pyarrow.fs.FileSystem
    files : tuple of RowFile
    features, sensitive : tuple of str
        Columns that are read.
    preprocessing : object or None
        ``rows_of(table)`` makes numbers of the features; without it they are numbers.
    missing_advice : str
        How the user makes rows without a group a group of their own.
    dtype : dtype
        Of the features: float32 where that has all their digits, else float64.
    """

    filesystem: Any
    files: tuple[RowFile, ...]
    features: tuple[str, ...]
    sensitive: tuple[str, ...]
    preprocessing: Any = None
    missing_advice: str = MISSING_ADVICE
    batch_rows: int = BATCH_ROWS
    dtype: Any = np.float64

    @classmethod
    def of(
        cls,
        dataset: Any,
        features: Sequence[str] | None,
        sensitive: Sequence[str],
        *,
        numbers: bool = True,
    ) -> "RowFiles":
        """The rows of a dataset, or of its `Footers`.

        By default all columns that are not sensitive are features. ``numbers`` states whether
        they have to be numbers.
        """
        footers = dataset if isinstance(dataset, Footers) else Footers.of(dataset)
        footers.check_names()
        names = footers.names
        for name in sensitive:
            if name not in names:
                raise ValueError(
                    f"The column {name!r} of sensitive_features is missing. The files of the "
                    f"dataset have: {', '.join(names[:20])}."
                )
        if features is None:
            features = [name for name in names if name not in sensitive]
        if not features:
            raise ValueError(
                f"The dataset has no columns but those of sensitive_features ({', '.join(names)}), "
                "expected at least one feature to compute distances from."
            )
        footers.check_columns(features, sensitive, numbers=numbers)
        files = tuple(file for file, _ in footers.opened)
        if not any(file.n_rows for file in files):
            raise ValueError(
                f"The {len(files)} file(s) of the dataset have no rows ({files[0].path})."
            )
        dtype = footers.dtype_of(features) if numbers else np.float64
        filesystem = footers.dataset.filesystem
        return cls(filesystem, files, tuple(features), tuple(sensitive), dtype=dtype)

    @cached_property
    def starts(self) -> np.ndarray:
        """Number of each file's first row, and the number of all rows."""
        return np.cumsum([0, *(file.n_rows for file in self.files)])

    @property
    def n_rows(self) -> int:
        return int(self.starts[-1])

    @property
    def feature_names(self) -> list[str]:
        """Names of the features after preprocessing."""
        made = self.preprocessing
        return list(self.features) if made is None else made.feature_names

    @property
    def parts(self) -> list[tuple[str, int]]:
        """Name and number of rows of the label files."""
        names = names_of_files([file.path for file in self.files])
        return [(name, file.n_rows) for name, file in zip(names, self.files, strict=True)]

    def around(self, start: int, stop: int) -> tuple["RowFiles", int, int]:
        """A table of those files only that have rows of a span, and the span in it."""
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        last = int(np.searchsorted(self.starts, stop, side="left"))
        begin = int(self.starts[first])
        return replace(self, files=self.files[first:last]), start - begin, stop - begin

    def fingerprint(self) -> dict[str, Any]:
        """Identifies the table by names, sizes and times of its files, and by its columns.

        Names are those below the files' common directory, however its path is written.
        """
        names = paths_below([file.path for file in self.files])
        files = {
            name: {"rows": file.n_rows, "bytes": file.stamp[0], "modified": file.stamp[1]}
            for name, file in zip(names, self.files, strict=True)
        }
        made = None if self.preprocessing is None else self.preprocessing.to_json()
        columns = {"features": self.features, "sensitive_features": self.sensitive}
        return {"files": files, **columns, "preprocessing": made}

    def read(self, start: int, stop: int, missing: str = "own_group") -> RawRows:
        """Features (finite) and sensitive columns of a span of rows.

        ``missing`` is "error" or "own_group": how missing groups are treated.
        """
        return next(self.read_in_turn(start, stop, stop - start, missing))

    def read_in_turn(
        self, start: int, stop: int, n_rows: int, missing: str = "own_group"
    ) -> Iterator[RawRows]:
        """`read` of ``n_rows`` rows after the other; no row group is decoded twice."""
        batches = self._batches(start, stop)
        rest: tuple | None = None
        for begin in range(start, stop, n_rows):
            size = min(n_rows, stop - begin)
            X = np.empty((size, len(self.feature_names)), dtype=self.dtype)
            tables, place = [], 0
            while place < size:
                file, batch, row = rest or next(batches)
                rest = None
                if batch.num_rows > size - place:
                    taken = size - place
                    rest = file, batch.slice(taken), row + taken
                    batch = batch.slice(0, taken)
                self._write_numbers(batch, X[place : place + batch.num_rows], file, row)
                columns = {name: plain(batch.column(name)) for name in self.sensitive}
                if missing == "error":
                    for name, values in columns.items():
                        check_groups_known(values, name, file.path, row, self.missing_advice)
                tables.append(pa.table(columns))
                place += batch.num_rows
            # A column without any value takes the type that it has elsewhere.
            yield RawRows(X, pa.concat_tables(tables, promote_options="default"))

    def tables(self, start: int, stop: int) -> Iterator[tuple[str, int, pa.Table]]:
        """Yield the columns of a span as they are in the files: (path, first row, table)."""
        for file, batch, row in self._batches(start, stop):
            yield file.path, row, pa.Table.from_batches([batch])

    def _write_numbers(
        self, batch: pa.RecordBatch, out: np.ndarray, file: RowFile, row: int
    ) -> None:
        if self.preprocessing is None:
            for j, name in enumerate(self.features):
                out[:, j] = numbers_of(batch.column(name))
            check_finite(out, self.features, file.path, row)
            return
        try:
            out[:] = self.preprocessing.rows_of(pa.Table.from_batches([batch]))
        except ValueError as error:
            raise ValueError(f"{file.path}, from row {row} on: {error}") from error

    def _batches(self, start: int, stop: int) -> Iterator[tuple[RowFile, pa.RecordBatch, int]]:
        """Yield (file, record batch, number of its first row in the file) for a span of rows."""
        for file, begin in zip(self.files, self.starts.tolist(), strict=False):
            a, b = max(start - begin, 0), min(stop - begin, file.n_rows)
            if a < b:
                for batch, row in self._file_batches(file, a, b):
                    yield file, batch, row

    def _file_batches(self, file: RowFile, a: int, b: int) -> Iterator[tuple]:
        stamp = _stamp_of(self.filesystem, file.path)
        if stamp != file.stamp:
            raise ValueError(
                f"{file.path} was changed since the run began ({file.stamp[0]:,} bytes then, "
                f"{stamp[0]:,} now): every pass has to see the same rows. Start again."
            )
        columns = [*dict.fromkeys([*self.features, *self.sensitive])]
        edges = np.cumsum([0, *file.pieces])
        first = int(np.searchsorted(edges, a, side="right")) - 1
        last = int(np.searchsorted(edges, b, side="left"))
        read = _read_parquet if file.kind == "parquet" else _read_ipc
        row = int(edges[first])
        try:
            with self.filesystem.open_input_file(file.path) as source:
                for batch in read(source, columns, range(first, last), self.batch_rows):
                    skip, end = max(a - row, 0), min(b - row, batch.num_rows)
                    if skip < end:
                        yield batch.slice(skip, end - skip), row + skip
                    row += batch.num_rows
                    if row >= b:
                        break
        except (pa.ArrowException, OSError) as error:
            raise ValueError(
                f"{file.path} could not be read from row {row} on: {_one_line(error)}. The file is "
                "damaged, or was changed while it was being read."
            ) from error
        if row < b:
            raise ValueError(
                f"{file.path} ended after row {row}, expected {file.n_rows} rows: it is damaged."
            )


def _kind_of(dataset: Any) -> str:
    """``"parquet"`` or ``"ipc"``."""
    format_ = dataset.format.default_extname if hasattr(dataset, "files") else None
    if format_ not in KINDS:
        what = f"type {type(dataset).__name__}" if format_ is None else f"format {format_!r}"
        raise TypeError(
            f"The dataset is of {what}, expected a FileSystemDataset of Parquet or Arrow IPC "
            "files, of which every pass can read some rows. Write it to such files once "
            "(pyarrow.dataset.write_dataset), or give fit the features of dataset.to_table()."
        )
    return KINDS[format_]


def _stamp_of(filesystem: Any, path: str) -> tuple[int, int]:
    """Size of a file in bytes, and the time of its last change."""
    info = filesystem.get_file_info(path)
    if info.type == FileType.NotFound:
        raise ValueError(f"{path} no longer exists. Start again.")
    return int(info.size), int(info.mtime_ns or 0)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _read_footer(filesystem: Any, path: str, kind: str) -> tuple[RowFile, pa.Schema]:
    """A file and its schema."""
    stamp = _stamp_of(filesystem, path)
    footer: Callable = _parquet_footer if kind == "parquet" else _ipc_footer
    try:
        with filesystem.open_input_file(path) as source:
            pieces, schema = footer(source)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} could not be opened as {kind}: {_one_line(error)}.") from error
    return RowFile(path, kind, np.array(pieces, dtype=np.int64), stamp), schema


def _parquet_footer(source: Any) -> tuple[list[int], pa.Schema]:
    file = pq.ParquetFile(source)
    groups = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
    return groups, file.schema_arrow


def _ipc_footer(source: Any) -> tuple[list[int], pa.Schema]:
    schema = pa.ipc.open_file(source).schema
    if len(schema) == 0:
        return [], schema
    # pyarrow knows the rows of a batch only once the batch is read: read one column of it.
    file = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=[0]))
    return [file.get_batch(k).num_rows for k in range(file.num_record_batches)], schema


def _read_parquet(
    source: Any, columns: list[str], pieces: range, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    yield from pq.ParquetFile(source).iter_batches(
        batch_size=batch_rows, row_groups=list(pieces), columns=columns, use_threads=True
    )


def _read_ipc(
    source: Any, columns: list[str], pieces: range, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    schema = pa.ipc.open_file(source).schema
    wanted = sorted(map(schema.get_field_index, columns))
    options = pa.ipc.IpcReadOptions(included_fields=wanted)
    file = pa.ipc.open_file(source, options=options)
    for piece in pieces:
        yield file.get_batch(piece).select(columns)


# Columns.


def kind_of_names(type_: pa.DataType) -> str:
    """What types of a sensitive column have to share, for equal groups to have equal names."""
    if types.is_dictionary(type_):
        type_ = type_.value_type
    if types.is_integer(type_) and not types.is_uint64(type_):
        return "integer"
    if types.is_floating(type_):
        return "number"
    return "text" if types.is_string(type_) or types.is_large_string(type_) else str(type_)


def plain(column: pa.Array) -> pa.Array:
    """A column as a dictionary whose values have a width that all files share."""
    if types.is_null(column.type):
        return column
    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    wide = {"integer": pa.int64(), "number": pa.float64(), "text": pa.large_string()}
    values, indices = column.dictionary, column.indices
    values = values.cast(wide.get(kind_of_names(values.type), values.type))
    return pa.DictionaryArray.from_arrays(indices.cast(pa.int32()), values)


def check_groups_known(
    column: pa.Array, name: Any, where: str, row: int, advice: str = MISSING_ADVICE
) -> None:
    """Raise an error for rows without a group; ``row`` is the number of the first one."""
    if types.is_dictionary(column.type):
        if not column.null_count and not _is_missing(column.dictionary).any():
            return
        column = column.dictionary_decode()
    is_missing = _is_missing(column)
    if is_missing.any():
        raise ValueError(
            f"{where} has {np.count_nonzero(is_missing)} or more missing values in column "
            f"{name!r} of sensitive_features, the first in row {row + int(np.argmax(is_missing))}: "
            f"a row without a group cannot be counted for one. Use {advice} to treat them as a "
            "separate group, or leave these rows out."
        )


def _is_missing(column: pa.Array) -> np.ndarray:
    return column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)


def numbers_of(column: pa.Array) -> np.ndarray:
    """A column of numbers as an array; missing values are NaN."""
    if column.null_count and types.is_boolean(column.type):
        column = column.cast(pa.float32())
    return column.to_numpy(zero_copy_only=False)
