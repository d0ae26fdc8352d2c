"""Where the rows live, and the two verbs that sweep over them: map and sum over blocks.

A *block* is a run of ``BLOCK_ROWS`` consecutive rows, or of fewer in a table of a few blocks.
Its boundaries depend on the table's length and the row number only, never on the number of
threads, and results are combined in block order, so that every sum has the same bits on one
thread and on many.
"""

from fairanchor.rows._chunks import Chunk, ChunkedRows, DrawnRows, MemoryChunks
from fairanchor.rows._distinct import DistinctRows, distinct_rows
from fairanchor.rows._memory import BLOCK_ROWS, Block, MemoryRows, map_in_threads
from fairanchor.rows._stand_in import (
    draw_for_samples,
    samples_of_drawn,
    stand_in_samples,
)

__all__ = [
    "BLOCK_ROWS",
    "Block",
    "Chunk",
    "ChunkedRows",
    "DistinctRows",
    "DrawnRows",
    "MemoryChunks",
    "MemoryRows",
    "distinct_rows",
    "draw_for_samples",
    "map_in_threads",
    "samples_of_drawn",
    "stand_in_samples",
]
