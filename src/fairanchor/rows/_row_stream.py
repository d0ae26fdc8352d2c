"""Rows of an Arrow stream that a function opens again for every pass."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from fairanchor.rows._raw_rows import RawRows
from fairanchor.rows._row_files import Footers, RowFile, RowFiles

NAME = "stream"


@dataclass(frozen=True)
class RowStream(RowFiles):
    """A table that is streamed from its first row in every pass, as if it were one file.

    Attributes
    ----------
    open_stream : callable
        Returns the stream, or an iterator over record batches.
    checksums : dict
        Of the features of each chunk in the first pass, by first row and number of rows.
    """

    open_stream: Callable[[], Any] = tuple
    checksums: dict = field(default_factory=dict)

    @classmethod
    def opened(cls, open_stream: Callable[[], Any], sensitive: Sequence[str]) -> "RowStream":
        """The rows of a stream, which is read once to count them."""
        reader = reader_of(open_stream)
        n_rows = sum(batch.num_rows for batch in reader)
        file = RowFile(NAME, "ipc", np.array([n_rows], dtype=np.int64), (0, 0))
        source = SimpleNamespace(schema=reader.schema, filesystem=None)
        rows: Any = cls.of(Footers(source, [(file, reader.schema)]), None, sensitive)
        return replace(rows, open_stream=open_stream)

    def read_in_turn(
        self, start: int, stop: int, n_rows: int, missing: str = "own_group"
    ) -> Iterator[RawRows]:
        """As for files; raises an error if a pass has other features than the first one."""
        for raw in super().read_in_turn(start, stop, n_rows, missing):
            checksum = crc32(np.ascontiguousarray(raw.X).data)
            if self.checksums.setdefault((start, len(raw.X)), checksum) != checksum:
                raise ValueError(
                    f"The stream has other rows from row {start} on than when it was first read: "
                    "every pass has to see the same rows in the same order. Sort the query."
                )
            yield raw
            start += len(raw.X)

    def _file_batches(self, file: RowFile, a: int, b: int) -> Iterator[tuple]:
        columns = [*dict.fromkeys([*self.features, *self.sensitive])]
        row = 0
        for batch in reader_of(self.open_stream):
            skip, end = max(a - row, 0), min(b - row, batch.num_rows)
            if skip < end:
                yield batch.slice(skip, end - skip).select(columns), row + skip
            row += batch.num_rows
            if row >= b:
                return
        raise ValueError(
            f"The stream ended after row {row}, but had {file.n_rows} rows when it was first read: "
            "every pass has to see the same rows in the same order."
        )


def reader_of(open_stream: Callable[[], Any]) -> pa.RecordBatchReader:
    """Record batches of what the function returns."""
    stream = open_stream()
    if hasattr(stream, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(stream)
    batches = iter(stream) if hasattr(stream, "__iter__") else iter(())
    first = next(batches, None)
    if not isinstance(first, pa.RecordBatch):
        raise TypeError(
            f"X is a function that returned {type(stream).__name__}, expected an Arrow stream or "
            "an iterator over record batches."
        )
    return pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))
