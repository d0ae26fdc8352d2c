"""Rows in files, read anew for every pass: memory holds two chunks, however many rows there are."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from fairanchor.rows._chunks import Chunk, ChunkedRows
from fairanchor.rows._memory import MemoryRows


class StreamedRows(ChunkedRows):
    """Chunks that are read when they are needed.

    Parameters
    ----------
    loader : ChunkLoader
    group_sizes_of_chunks : ndarray of shape (n_chunks, n_groups)
    """

    def __init__(self, loader, group_sizes_of_chunks):
        self.loader = loader
        self.n_jobs = loader.n_jobs
        n_features = len(loader.files.feature_names)
        super().__init__(n_features, group_sizes_of_chunks, loader.chunk_rows)

    def _run(self, title, calls):
        for chunk, call in zip(read_ahead(self.loader, self.n_chunks), calls, strict=True):
            yield call(chunk)


@dataclass(frozen=True)
class ChunkLoader:
    """Makes a chunk of a span of a table in files.

    Attributes
    ----------
    files : RowFiles
    encoder : GroupEncoder
    scale : float
        What the features are multiplied by.
    chunk_rows : int
    n_jobs : int or None
    """

    files: object
    encoder: object
    scale: float
    chunk_rows: int
    n_jobs: int | None

    def __call__(self, number):
        """The chunk with this number."""
        start = number * self.chunk_rows
        X, names = self.files.read(start, min(start + self.chunk_rows, self.files.n_rows))
        if self.scale != 1.0:
            X *= self.scale
        codes = self.encoder.codes_of(names, len(X))
        return Chunk(number, start, MemoryRows(X, codes, self.encoder.n_groups, n_jobs=self.n_jobs))


def read_ahead(load, n):
    """Yield ``load(0) .. load(n - 1)``; the next one is being read while one is worked on."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(load, 0)
        for number in range(n):
            current = following.result()
            if number + 1 < n:
                following = pool.submit(load, number + 1)
            yield current
            del current


@dataclass(frozen=True)
class GroupEncoder:
    """Canonical codes of groups by their names.

    Attributes
    ----------
    names : tuple
        In canonical order.
    """

    names: tuple

    @property
    def n_groups(self):
        return len(self.names)

    def codes_of(self, columns, n_rows):
        """Codes of the rows of sensitive columns; all zero without a column."""
        from fairanchor.groups._groups import encode_names

        if not columns:
            return np.zeros(n_rows, dtype=np.int64)
        codes, names = encode_names(as_table(columns), missing="own_group")
        position = {name: code for code, name in enumerate(self.names)}
        return np.array([position[name] for name in names], dtype=np.int64)[codes]


def as_table(columns, titles=None):
    """Sensitive columns as `check_groups` takes them."""
    from fairanchor.groups._groups import SeparateColumns

    separate = tuple(map(_without_floats, columns))
    return separate[0] if len(separate) == 1 else SeparateColumns(separate, titles)


def _without_floats(column):
    """Integers with missing values as objects: as floats their names would differ by chunk."""
    import pyarrow.types as types

    if types.is_integer(column.type) and column.null_count:
        return np.array(column.to_pylist(), dtype=object)
    return column
