"""Parquet and Arrow files as one long table: which rows are where, and reading some of them.

Rows are numbered through all files, in the order of the dataset's files. Nothing is read but
footers, until a span of rows is asked for.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairanchor.rows._columns import (
    check_columns,
    check_finite,
    check_groups_known,
    numbers_of,
    plain,
)

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
        Columns that are read: what features are made of, and the names of groups.
    preprocessing : object or None
        ``rows_of(table)`` makes numbers of the features; without it they are numbers.
    """

    filesystem: object
    files: tuple
    features: tuple
    sensitive: tuple
    preprocessing: object = None

    @classmethod
    def of(cls, dataset, features, sensitive, *, numbers=True):
        """Look at the files of a ``pyarrow.dataset.FileSystemDataset``.

        Parameters
        ----------
        dataset : pyarrow.dataset.FileSystemDataset
        features : sequence of str, or None
            By default all columns that are not sensitive.
        sensitive : sequence of str
        numbers : bool
            Whether features have to be numbers.
        """
        opened = _look_at_all(dataset)
        names = _names_in(opened)
        for name in sensitive:
            if name not in names:
                is_in_paths = name in dataset.schema.names
                where = "in the names of folders, not in the files" if is_in_paths else "missing"
                raise ValueError(
                    f"The column {name!r} of sensitive_features is {where}. The files of the "
                    f"dataset have: {', '.join(names[:20])}."
                )
        if features is None:
            features = [name for name in names if name not in sensitive]
        if not features:
            raise ValueError(
                f"The dataset has no columns but those of sensitive_features ({', '.join(names)}), "
                "expected at least one feature: there are no distances without."
            )
        check_columns(opened, features, sensitive, numbers=numbers)
        files = tuple(file for file, _ in opened)
        _check_names(dataset, names, files)
        if not any(file.n_rows for file in files):
            raise ValueError(
                f"The {len(files)} file(s) of the dataset have no rows ({files[0].path})."
            )
        return cls(dataset.filesystem, files, tuple(features), tuple(sensitive))

    @cached_property
    def starts(self):
        """Number of each file's first row, and the number of all rows."""
        return np.cumsum([0, *(file.n_rows for file in self.files)])

    @property
    def n_rows(self):
        return int(self.starts[-1])

    @property
    def feature_names(self):
        """Names of the features that come out."""
        if self.preprocessing is None:
            return list(self.features)
        return self.preprocessing.feature_names

    def fingerprint(self):
        """What tells this table from another: names, sizes and times of its files, and columns."""
        files = {
            file.path: {"rows": file.n_rows, "bytes": file.size, "modified": file.modified}
            for file in self.files
        }
        made = None if self.preprocessing is None else self.preprocessing.to_json()
        columns = {"features": self.features, "sensitive_features": self.sensitive}
        return {"files": files, **columns, "preprocessing": made}

    def read(self, start, stop, missing="own_group"):
        """Rows of a span.

        Parameters
        ----------
        start, stop : int
        missing : {"error", "own_group"}
            What missing groups mean.

        Returns
        -------
        X : ndarray of shape (stop - start, n_features), float64
            Finite numbers.
        names : list of pyarrow.ChunkedArray
            The sensitive columns.
        """
        import pyarrow as pa

        X = np.empty((stop - start, len(self.feature_names)))
        names = [[] for _ in self.sensitive]
        place = 0
        for file, batch, row in self._batches(start, stop):
            self._write_numbers(batch, X[place : place + batch.num_rows], file, row)
            for values, name in zip(names, self.sensitive, strict=True):
                values.append(plain(batch.column(name)))
                if missing == "error":
                    check_groups_known(values[-1], name, file.path, row)
            place += batch.num_rows
        return X, [pa.chunked_array(values) for values in names]

    def tables(self, start, stop):
        """Yield the columns of a span as they are in the files: (path, first row, table)."""
        import pyarrow as pa

        for file, batch, row in self._batches(start, stop):
            yield file.path, row, pa.Table.from_batches([batch])

    def _write_numbers(self, batch, out, file, row):
        if self.preprocessing is None:
            for j, name in enumerate(self.features):
                out[:, j] = numbers_of(batch.column(name), name, file.path, row)
            check_finite(out, self.features, file.path, row)
            return
        import pyarrow as pa

        try:
            out[:] = self.preprocessing.rows_of(pa.Table.from_batches([batch]))
        except ValueError as error:
            raise ValueError(f"{file.path}, from row {row} on: {error}") from error

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

    def _check_unchanged(self, file):
        size, modified = _stamp(self.filesystem, file.path)
        if (size, modified) != (file.size, file.modified):
            raise ValueError(
                f"{file.path} was changed since the run began ({file.size:,} bytes then, "
                f"{size:,} now): every pass has to see the same rows. Start again."
            )


def _check_names(dataset, names, files):
    """Refuse columns that are in the names of folders, and files that are there twice."""
    elsewhere = [name for name in dataset.schema.names if name not in names]
    if elsewhere:
        raise ValueError(
            f"The column {elsewhere[0]!r} is in the names of folders, not in the files: open the "
            "dataset without partitioning, and write the column into the files if it is needed."
        )
    paths = [file.path for file in files]
    for path in paths:
        if paths.count(path) > 1:
            raise ValueError(f"{path} is in the dataset {paths.count(path)} times, expected once.")


def names_of_columns(dataset):
    """Names of all columns that a file of the dataset has."""
    return _names_in(_look_at_all(dataset))


def _names_in(opened):
    # A dataset's own schema is that of its first file: others may have more.
    return list(dict.fromkeys(name for _, schema in opened for name in schema.names))


def _look_at_all(dataset):
    kind = _kind_of(dataset)
    _refuse_filter(dataset)
    opened = [_look_at(dataset.filesystem, path, kind) for path in dataset.files]
    if not opened:
        raise ValueError("The dataset has no files, expected at least one with rows.")
    return opened


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


def _refuse_filter(dataset):
    """Refuse a dataset of which only some rows are meant: files are read as they are."""
    if getattr(dataset, "_scan_options", None):
        raise ValueError(
            "The dataset has a filter, expected one without: rows are found by their number in "
            "their file. Write the rows that are wanted to files of their own "
            "(pyarrow.dataset.write_dataset)."
        )


def _stamp(filesystem, path):
    from pyarrow.fs import FileType

    info = filesystem.get_file_info(path)
    if info.type == FileType.NotFound:
        raise ValueError(f"{path} does not exist any more.")
    return int(info.size), int(info.mtime_ns or 0)


def _one_line(error):
    return " ".join(str(error).split()).rstrip(".")


def _look_at(filesystem, path, kind):
    """A file and its schema, from its footer."""
    import pyarrow as pa

    size, modified = _stamp(filesystem, path)
    try:
        with filesystem.open_input_file(path) as source:
            pieces, schema = _FOOTERS[kind](source)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} could not be opened as {kind}: {_one_line(error)}.") from error
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
