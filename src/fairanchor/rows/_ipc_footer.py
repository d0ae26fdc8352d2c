"""How many rows each record batch of an Arrow file has, without reading the rows.

pyarrow tells it only of a batch that was read. The file's footer says where the batches are, and
each begins with a description of some hundred bytes that has its number of rows: these are
flatbuffers, of which a few offsets are followed here (Arrow columnar format, "IPC File Format").
"""

import struct

MAGIC = b"ARROW1"
CONTINUES = 0xFFFFFFFF
# Offset, length of the description and length of the rows of a batch, with padding.
BLOCK = struct.Struct("<qi4xq")
# Places of fields in their tables.
FOOTER_BATCHES = 3
MESSAGE_HEADER = 2
BATCH_LENGTH = 0


def rows_of_batches(source):
    """Number of rows of each record batch.

    Parameters
    ----------
    source : pyarrow.NativeFile
        Can be read from any place.

    Returns
    -------
    rows : list of int
    """
    try:
        return [_rows_of_batch(source, *block) for block in _blocks(source)]
    except struct.error as error:
        raise OSError(f"its footer makes no sense ({error})") from error


def _blocks(source):
    """Place and length of the description of each batch."""
    size = source.size()
    tail = _read(source, size - 4 - len(MAGIC), 4 + len(MAGIC))
    if tail[4:] != MAGIC:
        raise OSError("it does not end like an Arrow file")
    (length,) = struct.unpack("<i", tail[:4])
    footer = _Table.root(_read(source, size - len(tail) - length, length))
    return [block[:2] for block in footer.structs(FOOTER_BATCHES, BLOCK)]


def _rows_of_batch(source, offset, length):
    message = _read(source, offset, length)
    # Files of before 2019 have no mark before the size.
    start = 8 if struct.unpack_from("<I", message)[0] == CONTINUES else 4
    rows = _Table.root(message[start:]).table(MESSAGE_HEADER).int64(BATCH_LENGTH)
    if rows < 0:
        raise OSError(f"a batch of it has {rows} rows")
    return rows


def _read(source, offset, length):
    if offset < 0 or length < 0 or offset + length > source.size():
        raise OSError("its footer points to nowhere")
    source.seek(offset)
    return source.read(length)


class _Table:
    """A table of a flatbuffer: fields are found by way of a list of their offsets."""

    def __init__(self, content, place):
        self.content = content
        self.place = place

    @classmethod
    def root(cls, content):
        return cls(content, *struct.unpack_from("<I", content))

    def int64(self, number):
        """A number; zero if it is not there, as the format has it."""
        place = self._field(number)
        return 0 if place is None else struct.unpack_from("<q", self.content, place)[0]

    def table(self, number):
        """A table."""
        return _Table(self.content, self._followed(number))

    def structs(self, number, layout):
        """A list of structs; empty if it is not there."""
        if self._field(number) is None:
            return []
        place = self._followed(number)
        (length,) = struct.unpack_from("<I", self.content, place)
        end = place + 4 + length * layout.size
        return list(layout.iter_unpack(self.content[place + 4 : end]))

    def _followed(self, number):
        place = self._field(number)
        if place is None:
            raise struct.error(f"field {number} is missing")
        return place + struct.unpack_from("<I", self.content, place)[0]

    def _field(self, number):
        """Where a field is, or None if it is not there."""
        table = self.place - struct.unpack_from("<i", self.content, self.place)[0]
        (size,) = struct.unpack_from("<H", self.content, table)
        if 4 + 2 * number >= size:
            return None
        (offset,) = struct.unpack_from("<H", self.content, table + 4 + 2 * number)
        return self.place + offset if offset else None
