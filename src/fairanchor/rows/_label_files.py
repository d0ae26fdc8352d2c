"""Labels of rows that are elsewhere: computed chunk by chunk, written file by file."""

import os
import posixpath
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class LabelsElsewhere:
    """Labels as a function of rows in chunks.

    Attributes
    ----------
    rows : ChunkedRows
        Has ``parts``, the (name, number of rows) of the files or partitions.
    agreed : AgreedResult
    """

    rows: object
    agreed: object

    def __iter__(self):
        """Labels of one chunk after the other, in row order."""
        calls = [self.agreed.labels_of] * self.rows.n_chunks
        rows = self.rows
        for number, labels in enumerate(rows._run("writing", calls)):
            if rows.progress is not None:
                rows.progress("writing", number + 1, rows.n_chunks)
            yield labels

    def write(self, path, *, force=False):
        """Write a folder of Parquet files named and ordered as those of the input.

        Each has the columns ``row``, the number of the row in its file, and ``cluster``. The
        folder appears when it is complete.

        Parameters
        ----------
        path : str or path-like
            The folder.
        force : bool
            Whether an existing folder may be replaced.
        """
        path = Path(path)
        check_folder(path, force=force)
        partial = path.with_name(f".fairanchor-{secrets.token_hex(6)}.partial")
        try:
            partial.mkdir(parents=True)
            self._write_files(partial)
            check_folder(path, force=force)  # it may have appeared in the meantime
            old = None
            if path.exists():
                old = path.with_name(f".fairanchor-{secrets.token_hex(6)}.old")
                path.rename(old)
            partial.rename(path)
            if old is not None:
                shutil.rmtree(old)
        finally:
            if partial.exists():
                shutil.rmtree(partial)

    def _write_files(self, folder):
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([("row", pa.int64()), ("cluster", pa.int32())])
        pieces = _Pieces(iter(self))
        for name, n_rows in self.rows.parts:
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
                with suppress(OSError):  # not every file system can
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
    if path.exists() and any(path.iterdir()):
        if not force:
            raise FileExistsError(f"{path} exists already. Use --force to replace it (force=True).")
        others = [item for item in path.rglob("*") if item.is_file() and item.suffix != ".parquet"]
        if others:
            raise FileExistsError(
                f"{path} has files that are no labels ({others[0].name}): it is not replaced."
            )
    parent = path.resolve().parent
    if not parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: the folder {parent} does not exist.")


def names_of_files(paths):
    """Names of label files for input files: their paths below what they have in common.

    They all end in ``.parquet``, whatever the input files were.
    """
    root = posixpath.commonpath([posixpath.dirname(path) for path in paths])
    names = [posixpath.relpath(path, root) if root else path for path in paths]
    return [name if name.endswith(".parquet") else f"{name}.parquet" for name in names]
