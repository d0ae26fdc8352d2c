"""Files that would fill the memory, refused before they do."""

import mmap
import os
import re

import pyarrow as pa

# No table of people unpacks to more than this many times its size; endless zeros to a thousand.
LARGEST_RATIO = 200
# What may be unpacked from however small a file.
ALWAYS_UNPACKED = 256 * 2**20
# What pyarrow's readers take beside the table: blocks, threads, buffers.
SPARE_BYTES = 64 * 2**20


class _Unpacking:
    """What a gzip stream unpacks to, up to the size that its file justifies."""

    def __init__(self, packed, n_packed_bytes, title):
        self._stream = pa.CompressedInputStream(packed, "gzip")
        self._limit = ALWAYS_UNPACKED + LARGEST_RATIO * n_packed_bytes
        self._n_bytes = 0
        self._title = title

    @property
    def closed(self):
        return self._stream.closed

    def readable(self):
        return True

    def close(self):
        self._stream.close()

    def read(self, n_bytes):
        block = self._stream.read(n_bytes)
        self._n_bytes += len(block)
        if self._n_bytes > self._limit:
            raise ValueError(
                f"{self._title} unpacks to more than {self._limit:,} bytes, {LARGEST_RATIO} times "
                "its size: this is no table. If it is one, unpack it first."
            )
        # Of a plain file this is known beforehand; here, half of it has been taken already.
        check_spare(self._n_bytes // 2, self._title)
        return block


def unpacking(packed, n_packed_bytes, title):
    """The stream of what a gzip stream holds, which ends with an error if it is a bomb.

    Parameters
    ----------
    packed : pyarrow.NativeFile
    n_packed_bytes : int
        Its size.
    title : str
    """
    return pa.PythonFile(_Unpacking(packed, n_packed_bytes, title), mode="r")


def check_spare(n_bytes, title):
    """Refuse to read where memory is so short that pyarrow would end the process.

    Parameters
    ----------
    n_bytes : int
        Size of the file.
    title : str
    """
    needed = SPARE_BYTES + 2 * n_bytes
    try:
        mmap.mmap(-1, needed).close()
    except OSError as error:
        raise MemoryError(
            f"Reading {title} takes at least {needed / 1e6:,.0f} MB, and there is less."
        ) from error


def check_room(n_rows, n_columns, title):
    """Refuse a table whose numbers alone are more than the process can have."""
    needed, room = 8 * n_rows * n_columns, largest_memory()
    if needed > room:
        raise MemoryError(
            f"{title} has {n_rows:,} rows, and {n_columns} columns of them are to be read: at "
            f"least {needed / 1e9:,.1f} GB, and there are {room / 1e9:,.1f} GB. A folder of "
            "Parquet files is read chunk by chunk."
        )


def largest_memory():
    """Bytes that this process can have at most: the machine's, or what it is limited to."""
    room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        import resource
    except ImportError:  # not on this system
        return room
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return room if limit == resource.RLIM_INFINITY else min(room, limit)


def is_damage(error, n_file_bytes):
    """Whether memory was asked for that no whole file of this size could need.

    Damaged lengths are tried by pyarrow as if they were meant.
    """
    asked = re.search(r"size (\d+)", str(error))
    return asked is not None and int(asked.group(1)) > ALWAYS_UNPACKED + 1000 * n_file_bytes
