"""Parquet and Arrow files as one long table: which rows are where, and reading some of them.

Rows are numbered through all files, in the order of the dataset's files. Nothing is read but
footers, until a span of rows is asked for.
"""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairanchor.rows._columns import (
    MISSING_ADVICE,
    check_columns,
    check_finite,
    check_groups_known,
    joined,
    numbers_of,
    plain,
)
from fairanchor.rows._footers import Footers, one_line, stamp_of
from fairanchor.rows._label_files import names_of_files, paths_below

# Rows decoded at a time: what a reader holds besides the span that was asked for.
BATCH_ROWS = 2**16


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
    missing_advice : str
        What makes a group of rows without one, where the user can say it.
    """

    filesystem: object
    files: tuple
    features: tuple
    sensitive: tuple
    preprocessing: object = None
    missing_advice: str = MISSING_ADVICE

    @classmethod
    def of(cls, dataset, features, sensitive, *, numbers=True):
        """The rows of a ``pyarrow.dataset.FileSystemDataset``.

        Parameters
        ----------
        dataset : pyarrow.dataset.FileSystemDataset, or Footers
            The latter if its files have been looked at before.
        features : sequence of str, or None
            By default all columns that are not sensitive.
        sensitive : sequence of str
        numbers : bool
            Whether features have to be numbers.
        """
        footers = dataset if isinstance(dataset, Footers) else Footers.of(dataset)
        names = footers.names
        for name in sensitive:
            if name not in names:
                is_in_paths = name in footers.dataset.schema.names
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
        check_columns(footers.opened, features, sensitive, numbers=numbers)
        files = tuple(file for file, _ in footers.opened)
        _check_names(footers.dataset, names, files)
        if not any(file.n_rows for file in files):
            raise ValueError(
                f"The {len(files)} file(s) of the dataset have no rows ({files[0].path})."
            )
        return cls(footers.dataset.filesystem, files, tuple(features), tuple(sensitive))

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

    @property
    def parts(self):
        """Name and number of rows of the label files."""
        names = names_of_files([file.path for file in self.files])
        return [(name, file.n_rows) for name, file in zip(names, self.files, strict=True)]

    def around(self, start, stop):
        """A table of those files only that have rows of a span, and the span in it.

        Returns
        -------
        files : RowFiles
        start, stop : int
        """
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        last = int(np.searchsorted(self.starts, stop, side="left"))
        begin = int(self.starts[first])
        return replace(self, files=self.files[first:last]), start - begin, stop - begin

    def fingerprint(self):
        """What tells this table from another: names, sizes and times of its files, and columns.

        Names are those below the files' common folder, however its path is written.
        """
        names = paths_below([file.path for file in self.files])
        files = {
            name: {"rows": file.n_rows, "bytes": file.size, "modified": file.modified}
            for name, file in zip(names, self.files, strict=True)
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
        X = np.empty((stop - start, len(self.feature_names)))
        names = [[] for _ in self.sensitive]
        place = 0
        for file, batch, row in self._batches(start, stop):
            self._write_numbers(batch, X[place : place + batch.num_rows], file, row)
            for values, name in zip(names, self.sensitive, strict=True):
                values.append(plain(batch.column(name)))
                if missing == "error":
                    check_groups_known(values[-1], name, file.path, row, self.missing_advice)
            place += batch.num_rows
        return X, [joined(values) for values in names]

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
                f"{file.path} could not be read from row {row} on: {one_line(error)}. The file is "
                "damaged, or was changed while it was being read."
            ) from error
        if row < b:
            raise ValueError(
                f"{file.path} ended after row {row}, expected {file.n_rows} rows: it is damaged."
            )

    def _check_unchanged(self, file):
        size, modified = stamp_of(self.filesystem, file.path)
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
    for path, number in Counter(file.path for file in files).items():
        if number > 1:
            raise ValueError(f"{path} is in the dataset {number} times, expected once.")


def _read_parquet(source, columns, pieces):
    import pyarrow.parquet as pq

    file = pq.ParquetFile(source)
    yield from file.iter_batches(
        batch_size=BATCH_ROWS, row_groups=list(pieces), columns=columns, use_threads=True
    )


def _read_ipc(source, columns, pieces):
    import pyarrow as pa

    schema = pa.ipc.open_file(source).schema
    wanted = sorted(map(schema.get_field_index, columns))
    options = pa.ipc.IpcReadOptions(included_fields=wanted)
    file = pa.ipc.open_file(source, options=options)
    for piece in pieces:
        yield file.get_batch(piece).select(columns)


_READERS = {"parquet": _read_parquet, "ipc": _read_ipc}
