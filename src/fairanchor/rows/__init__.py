"""Where the rows live, and the two verbs that sweep over them: map and sum over blocks.

A *block* is a run of ``BLOCK_ROWS`` consecutive rows, or fewer at the end of a table. Its
boundaries depend on the row number only, never on the number of threads, and results are combined
in block order, so that every sum has the same bits on one thread and on many.
"""

from fairanchor.rows._chunks import Chunk, ChunkedRows, DrawnRows, MemoryChunks
from fairanchor.rows._memory import (
    BLOCK_ROWS,
    Block,
    DistinctRows,
    MemoryRows,
    distinct_rows,
    map_in_threads,
)
from fairanchor.rows._samples import Sampler

__all__ = [
    "BLOCK_ROWS",
    "Block",
    "Chunk",
    "ChunkedRows",
    "DistinctRows",
    "DrawnRows",
    "MemoryChunks",
    "MemoryRows",
    "Sampler",
    "distinct_rows",
    "map_in_threads",
]
