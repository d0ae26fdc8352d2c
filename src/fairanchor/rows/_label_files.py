"""Labels of rows in chunks: computed chunk by chunk, written file by file."""

import os
import posixpath
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairanchor._utils._typing import Path as PathName
from fairanchor.rows._chunks import ChunkedRows, read_ahead

COLUMNS = ["row", "cluster"]


@dataclass(frozen=True)
class ChunkedLabels:
    """Labels of rows in chunks; ``labellers`` has a function for every chunk."""

    rows: ChunkedRows
    labellers: list[Callable]

    def __iter__(self) -> Iterator[np.ndarray]:
        """Labels of one chunk after the other, in row order."""
        return self.rows.run("writing", self.labellers)

    def write(self, path: PathName, *, force: bool = False) -> None:
        """Write a directory of label files; see `write_label_files`."""
        write_label_files(path, self.rows.parts, self, force=force)


def write_label_files(
    path: PathName,
    parts: Sequence[tuple[str, int]],
    labels: Iterable[np.ndarray],
    *,
    force: bool = False,
) -> None:
    """Write a directory of Parquet files named and ordered as those of the input.

    Each has the columns ``row``, the number of the row in its file, and ``cluster``. The
    directory appears when it is complete.

    Parameters
    ----------
    path : str or path-like
        The directory.
    parts : sequence of (str, int)
        Name and number of rows of every file.
    labels : iterable of ndarray
        Labels of all rows in order, cut anywhere.
    force : bool
        Whether an existing directory may be replaced.
    """
    check_names([name for name, _ in parts])
    check_folder(path, force=force)
    target = Path(os.path.realpath(path))  # a link stays a link
    partial = target.with_name(f".fairanchor-{secrets.token_hex(6)}.partial")
    try:
        partial.mkdir()
        _write_files(partial, parts, read_ahead(iter(labels)))
        check_folder(target, force=force)  # it may have appeared in the meantime
        _put_in_place(partial, target)
    finally:
        if partial.exists():
            shutil.rmtree(partial)


def _put_in_place(partial: Path, path: Path) -> None:
    """Rename a directory; one that had the name before is deleted afterwards."""
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


def _write_files(
    directory: Path, parts: Sequence[tuple[str, int]], labels: Iterator[np.ndarray]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(list(zip(COLUMNS, (pa.int64(), pa.int32()), strict=True)))
    rest = np.empty(0, dtype=np.int32)
    for name, n_rows in parts:
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            encodings = {"row": "DELTA_BINARY_PACKED"}  # of consecutive numbers next to nothing
            with pq.ParquetWriter(
                file, schema, use_dictionary=["cluster"], column_encoding=encodings
            ) as writer:
                row = 0
                while row < n_rows:
                    if len(rest) == 0:
                        rest = next(labels)
                    piece, rest = np.split(rest, [n_rows - row])
                    numbers = np.arange(row, row + len(piece))
                    writer.write_table(pa.table([numbers, piece], schema=schema))
                    row += len(piece)
            file.flush()
            os.fsync(file.fileno())


def check_folder(path: PathName, *, force: bool = False) -> None:
    """Raise an error for a directory that could not be written later.

    Only a directory of label files is ever replaced.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"{path} is a file, expected the name of a directory to write.")
    if path.is_symlink() and not path.exists():
        raise FileExistsError(f"{path} is a broken link, expected the name of a directory.")
    if path.exists() and any(path.iterdir()):
        if not force:
            raise FileExistsError(f"{path} exists already. Use force=True to replace it.")
        for item in sorted(path.rglob("*")):
            if not item.is_dir() and not _is_label_file(item):
                raise FileExistsError(
                    f"{path} has files that are not labels ({item.relative_to(path)}): it is not "
                    "replaced. Give the name of another directory."
                )
    parent = path.resolve().parent
    if not parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: the directory {parent} does not exist.")


def _is_label_file(path: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return path.suffix == ".parquet" and pq.read_schema(path).names == COLUMNS
    except (pa.ArrowException, OSError):
        return False


def names_of_files(paths: Sequence[str]) -> list[str]:
    """Names of label files: paths below the common directory, all ending in ``.parquet``."""
    names = paths_below(paths)
    return [name if name.endswith(".parquet") else f"{name}.parquet" for name in names]


def paths_below(paths: Sequence[str]) -> list[str]:
    """Paths below their common directory."""
    paths = [posixpath.normpath(path) for path in paths]
    root = posixpath.commonpath([posixpath.dirname(path) for path in paths])
    return [posixpath.relpath(path, root) if root else path for path in paths]


def check_names(names: Sequence[str]) -> None:
    """Raise an error for label files of which one would take the place of another."""
    for name, number in Counter(names).items():
        if number > 1:
            raise ValueError(
                f"Two files of the input would have their labels in {name}: label files are named "
                f"after the input's, and end in .parquet. Rename the file "
                f"{name.removesuffix('.parquet')!r}."
            )
