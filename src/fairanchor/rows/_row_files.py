"""Parquet and Arrow files as one long table: which rows are where, and reading some of them.

Rows are numbered through all files, in the order of the dataset's files. Nothing is read but
footers, until a span of rows is asked for.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

# Rows decoded at a time: what a reader holds besides the span that was asked for.
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
    size, modified : int
        When it was first looked at: another size or time is another file.
    """

    path: str
    kind: str
    pieces: np.ndarray
    size: int
    modified: int

    @property
    def n_rows(self):
        return int(self.pieces.sum())


@dataclass(frozen=True)
class RowFiles:
    """A table in files.

    Attributes
    ----------
    filesystem : pyarrow.fs.FileSystem
    files : tuple of RowFile
    features, sensitive : tuple of str
        Columns that are read: numbers, and the names of groups.
    """

    filesystem: object
    files: tuple
    features: tuple
    sensitive: tuple

    @classmethod
    def of(cls, dataset, features, sensitive):
        """Look at the files of a ``pyarrow.dataset.FileSystemDataset``.

        Parameters
        ----------
        dataset : pyarrow.dataset.FileSystemDataset
        features : sequence of str, or None
            By default all columns that are not sensitive.
        sensitive : sequence of str
        """
        kind = _kind_of(dataset)
        names = dataset.schema.names
        for name in sensitive:
            if name not in names:
                raise ValueError(
                    f"The column {name!r} of sensitive_features is not in the dataset. It has: "
                    f"{', '.join(names[:20])}."
                )
        if features is None:
            features = [name for name in names if name not in sensitive]
        filesystem = dataset.filesystem
        opened = [_look_at(filesystem, path, kind) for path in dataset.files]
        if not opened:
            raise ValueError("The dataset has no files, expected at least one with rows.")
        _check_columns(opened, features, sensitive)
        files = tuple(file for file, _ in opened)
        return cls(filesystem, files, tuple(features), tuple(sensitive))

    @cached_property
    def starts(self):
        """Number of each file's first row, and the number of all rows."""
        return np.cumsum([0, *(file.n_rows for file in self.files)])

    @property
    def n_rows(self):
        return int(self.starts[-1])

    def fingerprint(self):
        """What tells this table from another: names, sizes and times of its files, and columns."""
        files = [[file.path, file.n_rows, file.size, file.modified] for file in self.files]
        return {"files": files, "features": self.features, "sensitive": self.sensitive}

    def read(self, start, stop):
        """Rows of a span.

        Returns
        -------
        X : ndarray of shape (stop - start, n_features), float64
            Finite numbers.
        names : list of pyarrow.ChunkedArray
            The sensitive columns.
        """
        import pyarrow as pa

        X = np.empty((stop - start, len(self.features)))
        names = [[] for _ in self.sensitive]
        place = 0
        for file, batch, row in self._batches(start, stop):
            own = X[place : place + batch.num_rows]
            for j, name in enumerate(self.features):
                own[:, j] = _numbers(batch.column(name), name, file, row)
            _check_finite(own, self.features, file, row)
            for values, name in zip(names, self.sensitive, strict=True):
                values.append(_plain(batch.column(name)))
            place += batch.num_rows
        return X, [pa.chunked_array(values) for values in names]

    def _batches(self, start, stop):
        """Yield (file, record batch, number of its first row in the file) for a span of rows."""
        columns = [*dict.fromkeys([*self.features, *self.sensitive])]
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        for file, begin in zip(self.files[first:], self.starts[first:], strict=False):
            if begin >= stop:
                return
            a, b = max(start - int(begin), 0), min(stop - int(begin), file.n_rows)
            if a < b:
                yield from self._file_batches(file, columns, a, b)

    def _file_batches(self, file, columns, a, b):
        import pyarrow as pa

        self._check_unchanged(file)
        edges = np.cumsum([0, *file.pieces])
        first = int(np.searchsorted(edges, a, side="right")) - 1
        last = int(np.searchsorted(edges, b, side="left"))
        read = _READERS[file.kind]
        row = int(edges[first])
        try:
            with self.filesystem.open_input_file(file.path) as source:
                for batch in read(source, columns, range(first, last)):
                    skip, end = max(a - row, 0), min(b - row, batch.num_rows)
                    if skip < end:
                        yield file, batch.slice(skip, end - skip), row + skip
                    row += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise ValueError(
                f"{file.path} could not be read from row {row} on: {error}. The file is damaged, "
                "or was changed while it was being read."
            ) from error
        if row < b:
            raise ValueError(
                f"{file.path} ended after row {row}, expected {file.n_rows} rows: it is damaged."
            )

    def _check_unchanged(self, file):
        size, modified = _stamp(self.filesystem, file.path)
        if (size, modified) != (file.size, file.modified):
            raise ValueError(
                f"{file.path} was changed since the run began ({file.size:,} bytes then, "
                f"{size:,} now): every pass has to see the same rows. Start again."
            )


def _kind_of(dataset):
    kind = dataset.format.default_extname if hasattr(dataset, "format") else None
    kind = {"parquet": "parquet", "ipc": "ipc", "arrow": "ipc", "feather": "ipc"}.get(kind)
    if kind is None or not hasattr(dataset, "files"):
        found = getattr(getattr(dataset, "format", None), "default_extname", type(dataset).__name__)
        raise TypeError(
            f"The dataset is of format {found!r}, expected Parquet or Arrow IPC files: every pass "
            "reads some rows of some files, which text cannot give. Write it as Parquet once "
            "(pyarrow.dataset.write_dataset)."
        )
    return kind


def _stamp(filesystem, path):
    from pyarrow.fs import FileType

    info = filesystem.get_file_info(path)
    if info.type == FileType.NotFound:
        raise ValueError(f"{path} does not exist any more.")
    return int(info.size), int(info.mtime_ns or 0)


def _look_at(filesystem, path, kind):
    """A file and its schema, from its footer."""
    import pyarrow as pa

    size, modified = _stamp(filesystem, path)
    try:
        with filesystem.open_input_file(path) as source:
            pieces, schema = _FOOTERS[kind](source)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} could not be opened as {kind}: {error}") from error
    return RowFile(path, kind, np.array(pieces, dtype=np.int64), size, modified), schema


def _parquet_footer(source):
    import pyarrow.parquet as pq

    file = pq.ParquetFile(source)
    groups = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
    return groups, file.schema_arrow


def _ipc_footer(source):
    import pyarrow as pa

    file = pa.ipc.open_file(source)
    return [file.get_batch(k).num_rows for k in range(file.num_record_batches)], file.schema


def _read_parquet(source, columns, pieces):
    import pyarrow.parquet as pq

    file = pq.ParquetFile(source)
    yield from file.iter_batches(
        batch_size=BATCH_ROWS, row_groups=list(pieces), columns=columns, use_threads=True
    )


def _read_ipc(source, columns, pieces):
    import pyarrow as pa

    file = pa.ipc.open_file(source)
    for piece in pieces:
        yield file.get_batch(piece).select(columns)


_FOOTERS = {"parquet": _parquet_footer, "ipc": _ipc_footer}
_READERS = {"parquet": _read_parquet, "ipc": _read_ipc}


def _check_columns(opened, features, sensitive):
    """Refuse a file that lacks a column, or whose column is of another kind than elsewhere."""
    import pyarrow.types as types

    kinds = {}
    for file, schema in opened:
        for name in (*features, *sensitive):
            place = schema.get_all_field_indices(name)
            if len(place) != 1:
                problem = "is missing" if not place else f"is there {len(place)} times"
                raise ValueError(
                    f"The column {name!r} {problem} in {file.path}, expected once in every file."
                )
            type_ = schema.field(place[0]).type
            if types.is_dictionary(type_):
                type_ = type_.value_type
            is_number = types.is_integer(type_) or types.is_floating(type_)
            if name in features and not (is_number or types.is_boolean(type_)):
                raise ValueError(
                    f"The column {name!r} is of type {type_} in {file.path}, expected numbers. "
                    "Name the columns that are features, or encode it as numbers."
                )
            kind = _kind_of_names(type_)
            other = kinds.setdefault(name, (kind, type_, file.path))
            if name in sensitive and other[0] != kind:
                raise ValueError(
                    f"The column {name!r} is of type {type_} in {file.path}, but of type "
                    f"{other[1]} in {other[2]}: their groups would not be the same."
                )


def _kind_of_names(type_):
    import pyarrow.types as types

    for kind, is_kind in (
        ("integer", types.is_integer),
        ("number", types.is_floating),
        ("truth", types.is_boolean),
        ("text", lambda t: types.is_string(t) or types.is_large_string(t)),
    ):
        if is_kind(type_):
            return kind
    return str(type_)


def _plain(column):
    """A column without dictionary, of a width that all files share."""
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    wide = {"integer": pa.int64(), "number": pa.float64(), "text": pa.large_string()}
    kind = _kind_of_names(column.type)
    if kind in wide and not types.is_uint64(column.type):
        return column.cast(wide[kind])
    return column


def _numbers(column, name, file, row):
    if column.null_count:
        first = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(
            f"{file.path} has {column.null_count} or more missing values in column {name!r}, the "
            f"first in row {row + first}. Distances need numbers: impute or drop them."
        )
    return column.to_numpy(zero_copy_only=False)


def _check_finite(X, features, file, row):
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):
            return
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        i, j = bad[0]
        what = "NaN" if np.isnan(X[i, j]) else "infinity"
        raise ValueError(
            f"{file.path} has {what} in column {features[j]!r}, row {row + i}. Distances need "
            "finite numbers: impute or drop them."
        )
