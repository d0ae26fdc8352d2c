"""The container of model files and checkpoints: a JSON document and arrays in one archive.

An archive is a ZIP file that NumPy opens as ``.npz``: the member ``content.json`` is the document,
each other member an array in NumPy's format 1.0 (little-endian, C order). The comment of the
archive is the SHA-256 of all bytes before it. Reading runs no code: pickled objects are invalid,
and memory is allocated only for sizes that were checked.
"""

import hashlib
import io
import json
import math
import zipfile
from typing import Any

import numpy as np

DOCUMENT, CHECKSUM_LENGTH = "content.json", 64
DTYPES = ("<f8", "<i8", "<i4", "|b1")
# Bytes of an archive, of its document, and of all that it decompresses to: a constant plus a
# multiple of the archive's size, and never more than the last number.
LARGEST_FILE, LARGEST_DOCUMENT = 2**30, 2**23
ALWAYS_DECOMPRESSED, LARGEST_RATIO, LARGEST_DECOMPRESSED = 2**26, 100, 2**31


class ArchiveError(ValueError):
    """Bytes are not an archive of this library, or are damaged."""


def require(condition: bool, part: str) -> None:
    """Raise an error about a part of an archive unless the condition holds."""
    if not condition:
        raise ArchiveError(f"invalid {part}")


def pack(document: Any, arrays: dict[str, np.ndarray]) -> bytes:
    """Bytes of an archive; equal contents give equal bytes."""
    members = {DOCUMENT: json.dumps(document, indent=1).encode("ascii")}
    for name, array in sorted(arrays.items()):
        array = np.asarray(array, order="C")
        portable = array.astype(array.dtype.newbyteorder("<"), copy=False)
        require(portable.dtype.str in DTYPES, f"type {portable.dtype} of the array {name!r}")
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, portable, version=(1, 0), allow_pickle=False)
        members[f"{name}.npy"] = buffer.getvalue()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.comment = bytes(CHECKSUM_LENGTH)
        for name, member in members.items():
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3  # the same on every system
            archive.writestr(entry, member, zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    _check_sizes(archive.infolist(), len(content))
    return with_checksum(content)


def with_checksum(content: bytes) -> bytes:
    """The bytes of an archive with their checksum in place of its comment."""
    content = content[:-CHECKSUM_LENGTH]
    return content + hashlib.sha256(content).hexdigest().encode("ascii")


def unpack(content: bytes) -> tuple[Any, dict[str, np.ndarray]]:
    """Document and arrays of an archive; any other bytes raise an `ArchiveError`."""
    try:
        require(content[:4] == b"PK\x03\x04", "first bytes")
        require(len(content) <= LARGEST_FILE, f"size of {len(content):,} bytes or more")
        require(content == with_checksum(content), "checksum")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            _check_sizes(entries, len(content))
            members = {entry.filename: _read(archive, entry) for entry in entries}
        require(len(members) == len(entries) and DOCUMENT in members, "list of members")
        document = json.loads(members.pop(DOCUMENT))
        return document, {
            name.removesuffix(".npy"): _array(name, member) for name, member in members.items()
        }
    except ArchiveError:
        raise
    except Exception as error:  # whatever the parsers make of bytes that mean nothing
        why = f"{type(error).__name__}: {str(error).rstrip('.')}"
        raise ArchiveError(f"it is cut off or altered ({why})") from error


def _check_sizes(entries: list[zipfile.ZipInfo], file_size: int) -> None:
    """Raise an error for an archive that would fill the memory, by the sizes that it declares."""
    total = sum(entry.file_size for entry in entries)
    document = sum(entry.file_size for entry in entries if entry.filename == DOCUMENT)
    bound = min(ALWAYS_DECOMPRESSED + LARGEST_RATIO * file_size, LARGEST_DECOMPRESSED)
    require(
        file_size <= LARGEST_FILE and total <= bound and document <= LARGEST_DOCUMENT,
        f"size ({file_size:,} bytes, which decompress to {total:,}; at most {bound:,} are read)",
    )


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Bytes of a member, at most as many as it declares."""
    is_known = entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    require(is_known and not entry.flag_bits & 1, f"compression of {entry.filename!r}")
    with archive.open(entry) as member:
        content = member.read(entry.file_size)
    require(len(content) == entry.file_size, f"size of {entry.filename!r}")
    return content


def _array(name: str, content: bytes) -> np.ndarray:
    """An array whose header agrees with the number of its bytes."""
    file = io.BytesIO(content)
    require(np.lib.format.read_magic(file) == (1, 0), f"version of {name!r}")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file, max_header_size=1000)
    n_bytes = math.prod(shape) * dtype.itemsize
    is_valid = dtype.str in DTYPES and not is_fortran and all(size >= 0 for size in shape)
    require(is_valid and n_bytes == len(content) - file.tell(), f"array {name!r} of shape {shape}")
    array = np.frombuffer(content, dtype, offset=file.tell()).reshape(shape)
    return array.astype(dtype.newbyteorder("="))
