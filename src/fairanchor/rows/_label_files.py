"""Labels of rows that are elsewhere: computed chunk by chunk, written file by file."""

import os
import posixpath
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

COLUMNS = ["row", "cluster"]


@dataclass(frozen=True)
class LabelsElsewhere:
    """Labels as a function of rows in chunks.

    Attributes
    ----------
    rows : ChunkedRows
        Has ``parts``, the (name, number of rows) of the files or partitions.
    labellers : list of callable
        For every chunk a function that labels it.
    """

    rows: object
    labellers: list

    def __iter__(self):
        """Labels of one chunk after the other, in row order."""
        rows = self.rows
        for number, labels in enumerate(rows._run("writing", self.labellers)):
            if rows.progress is not None:
                rows.progress("writing", number + 1, rows.n_chunks)
            yield labels

    def write(self, path, *, force=False):
        """Write a folder of label files; see `write_label_files`."""
        write_label_files(path, self.rows.parts, iter(self), force=force)


def write_label_files(path, parts, arrays, *, force=False):
    """Write a folder of Parquet files named and ordered as those of the input.

    Each has the columns ``row``, the number of the row in its file, and ``cluster``. The
    folder appears when it is complete.

    Parameters
    ----------
    path : str or path-like
        The folder.
    parts : sequence of (str, int)
        Name and number of rows of every file.
    arrays : iterator of ndarray
        Labels of all rows in order, cut anywhere.
    force : bool
        Whether an existing folder may be replaced.
    """
    check_names([name for name, _ in parts])
    check_folder(path, force=force)
    path = Path(os.path.realpath(path))  # a link stays a link
    partial = path.with_name(f".fairanchor-{secrets.token_hex(6)}.partial")
    try:
        partial.mkdir()
        _write_files(partial, parts, _Pieces(arrays))
        check_folder(path, force=force)  # it may have appeared in the meantime
        _put_in_place(partial, path)
    finally:
        if partial.exists():
            shutil.rmtree(partial)


def _put_in_place(partial, path):
    """Give a folder its name; what was there under this name is deleted afterwards."""
    if not path.exists():
        partial.rename(path)
        return
    old = path.with_name(f".fairanchor-{secrets.token_hex(6)}.old")
    path.rename(old)
    try:
        partial.rename(path)
    except OSError:
        old.rename(path)
        raise
    shutil.rmtree(old)


def _write_files(folder, parts, pieces):
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(list(zip(COLUMNS, (pa.int64(), pa.int32()), strict=True)))
    for name, n_rows in parts:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            with pq.ParquetWriter(file, schema) as writer:
                row = 0
                for labels in pieces.take(n_rows):
                    numbers = np.arange(row, row + len(labels))
                    writer.write_table(pa.table([numbers, labels], schema=schema))
                    row += len(labels)
            file.flush()
            os.fsync(file.fileno())


class _Pieces:
    """A sequence of arrays, cut anew."""

    def __init__(self, arrays):
        self.arrays = arrays
        self.rest = np.empty(0, dtype=np.int32)

    def take(self, n):
        """Yield arrays of n elements together."""
        while n:
            if len(self.rest) == 0:
                self.rest = next(self.arrays)
            own, self.rest = self.rest[:n], self.rest[n:]
            n -= len(own)
            yield own


def check_folder(path, *, force=False):
    """Refuse a folder that could not be written later.

    Only a folder of label files is ever replaced.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"{path} is a file, expected the name of a folder to write.")
    if path.is_symlink() and not path.exists():
        raise FileExistsError(f"{path} is a link to nowhere, expected the name of a folder.")
    if path.exists() and any(path.iterdir()):
        if not force:
            raise FileExistsError(f"{path} exists already. Use force=True to replace it.")
        for item in sorted(path.rglob("*")):
            if not item.is_dir() and not _is_label_file(item):
                raise FileExistsError(
                    f"{path} has files that are no labels ({item.relative_to(path)}): it is not "
                    "replaced. Give the name of another folder."
                )
    parent = path.resolve().parent
    if not parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: the folder {parent} does not exist.")


def _is_label_file(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix != ".parquet":
        return False
    try:
        return pq.read_schema(path).names == COLUMNS
    except (pa.ArrowException, OSError):
        return False


def names_of_files(paths):
    """Names of label files for input files: their paths below what they have in common.

    They all end in ``.parquet``, whatever the input files were.
    """
    names = paths_below(paths)
    return [name if name.endswith(".parquet") else f"{name}.parquet" for name in names]


def paths_below(paths):
    """Paths below the folder that they have in common."""
    paths = [posixpath.normpath(path) for path in paths]
    root = posixpath.commonpath([posixpath.dirname(path) for path in paths])
    return [posixpath.relpath(path, root) if root else path for path in paths]


def check_names(names):
    """Refuse label files of which one would take the place of another."""
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(
                f"Two files of the input would have their labels in {name}: label files are named "
                f"after the input's, and end in .parquet. Rename the file {_stem(name)!r}."
            )
        seen.add(name)
    for name in names:
        for folder in map(str, PurePosixPath(name).parents):
            if folder in seen:
                raise ValueError(
                    f"The labels of one file of the input would be in {folder}, which is the "
                    f"folder of {name}: label files are named after the input's, and end in "
                    f".parquet. Rename the file {_stem(folder)!r}."
                )


def _stem(name):
    return name.removesuffix(".parquet")
