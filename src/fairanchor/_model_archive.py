"""The container of a model file: a zip archive of one JSON text and plain arrays.

Nothing that a file says is believed before it was checked against something else: sizes against
limits before memory is taken, shapes of arrays against those that the JSON text declares, and
all contents against a checksum. Array headers are matched with a pattern, not evaluated.
"""

import hashlib
import json
import math
import re
import struct
import zipfile

import numpy as np

FORMAT = "fairanchor-model"
# Raised when an older program would misread the file, or could not read it.
FORMAT_VERSION = 2
MANIFEST = "model.json"
LARGEST_MANIFEST = 20_000_000
# No model whose arrays are distinct numbers unpacks to more than this many times its size.
LARGEST_RATIO = 100
# What may be unpacked from however small a file.
ALWAYS_UNPACKED = 256 * 2**20
ARRAY_TYPES = ("<f8", "<i8", "<i4", "|b1")
MAGIC = b"\x93NUMPY"
LONGEST_HEADER = 1000
HEADER = re.compile(
    r"\{'descr': '([^']{2,6})', 'fortran_order': False, 'shape': \(([\d, ]*)\), \} *\n"
)
PICKLES = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))


class ModelFileError(ValueError):
    """A file is not a model of this library, is damaged, or is of a newer version."""


def write_archive(file, manifest, arrays):
    """Write a manifest and arrays; equal contents are equal bytes.

    Parameters
    ----------
    file : binary file object
    manifest : dict
        JSON types. What describes the container itself is added here.
    arrays : dict from name to ndarray
    """
    arrays = {name: _portable(name, array) for name, array in sorted(arrays.items())}
    described = {
        name: {"type": array.dtype.str, "shape": list(array.shape)}
        for name, array in arrays.items()
    }
    manifest = {"format": FORMAT, "format_version": FORMAT_VERSION, **manifest, "arrays": described}
    manifest["sha256"] = _checksum(manifest, arrays)
    text = json.dumps(manifest, allow_nan=False, indent=1).encode("ascii")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_entry(MANIFEST), text)
        for name, array in arrays.items():
            with archive.open(_entry(_file_name(name)), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
        _check_sizes(archive.infolist(), file.tell())


def read_archive(file, declared_shapes):
    """Read what `write_archive` wrote, or raise; memory is taken only for sizes that agree.

    Parameters
    ----------
    file : binary file object
    declared_shapes : callable
        From the manifest to the shapes of all arrays by name; raises if the manifest is not one
        of a model. Called before any array is read.

    Returns
    -------
    manifest : dict
    arrays : dict from name to ndarray
    """
    check_kind(file)
    with zipfile.ZipFile(file) as archive:
        entries = _entries(archive)
        manifest = _read_manifest(archive, entries)
        shapes = declared_shapes(manifest)
        described = _described_arrays(manifest, shapes)
        unexpected = sorted(set(entries) - {MANIFEST, *map(_file_name, described)})
        if unexpected:
            raise ModelFileError(f"it has an entry {unexpected[0]!r}, which no model has")
        arrays = {
            name: _read_array(archive, entries, name, np.dtype(type_), shapes[name])
            for name, type_ in described.items()
        }
    if _checksum(manifest, arrays) != manifest.get("sha256"):
        raise ModelFileError("its contents do not match their checksum")
    return manifest, {name: array.astype(array.dtype.newbyteorder("=")) for name, array in
                      arrays.items()}  # fmt: skip


def check_kind(file):
    """Refuse what is no zip archive by its first bytes, a pickle by its name."""
    start = file.read(4)
    if start[:2] in PICKLES:
        raise ModelFileError(
            "it is a pickle, which this library never opens because that can run any program"
        )
    if start != b"PK\x03\x04":
        raise ModelFileError("it does not begin like one" if start else "it is empty")
    file.seek(0)


def _entry(name):
    # A fixed date: equal models are equal files.
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _file_name(name):
    return f"{name}.npy"


def _portable(name, array):
    """The array in C order and little-endian, of a type that the format has."""
    array = np.ascontiguousarray(array)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if array.dtype.str not in ARRAY_TYPES:
        raise TypeError(f"{name} has type {array.dtype}, which a model file cannot hold.")
    return array


def _checksum(manifest, arrays):
    """SHA-256 of all that the archive holds, however it is spelled and packed."""
    rest = {key: value for key, value in manifest.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode("ascii"))
    for name, array in sorted(arrays.items()):
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _entries(archive):
    """Directory of the archive by name, after a look at its sizes."""
    listed = archive.infolist()
    archive.fp.seek(0, 2)
    _check_sizes(listed, archive.fp.tell())
    entries = {info.filename: info for info in listed}
    if len(entries) < len(listed):
        raise ModelFileError("it has two entries of one name")
    for name, info in entries.items():
        packed = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        if info.flag_bits & 1 or not packed:
            raise ModelFileError(f"its entry {name!r} is encrypted, or packed in another way")
    return entries


def _check_sizes(listed, file_size):
    """Refuse an archive that would fill the memory, by the sizes that it declares."""
    total, limit = sum(info.file_size for info in listed), ALWAYS_UNPACKED
    limit += LARGEST_RATIO * file_size
    if total > limit:
        raise ModelFileError(
            f"its {file_size:,} bytes would unpack to {total:,}, more than the {limit:,} that a "
            "model of this size can have"
        )
    text = sum(info.file_size for info in listed if info.filename == MANIFEST)
    if text > LARGEST_MANIFEST:
        raise ModelFileError(
            f"its entry {MANIFEST} has {text:,} bytes, at most {LARGEST_MANIFEST:,} are read"
        )


def _read_manifest(archive, entries):
    if MANIFEST not in entries:
        raise ModelFileError(f"it has no entry {MANIFEST}")
    try:
        manifest = json.loads(
            _read_bytes(archive, entries[MANIFEST]), parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{MANIFEST} cannot be read, {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError(f"{MANIFEST} does not say {FORMAT!r}")
    return manifest


def _refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


def _read_bytes(archive, info):
    with archive.open(info) as member:
        # A size given to read bounds what is unpacked; without one a lying entry is unpacked whole.
        content = member.read(info.file_size)
        if len(content) != info.file_size or member.read(1):
            raise ModelFileError(f"its entry {info.filename!r} has not the size that it declares")
    return content


def _described_arrays(manifest, shapes):
    """Type of each array by name, once names and shapes are those that a model has."""
    described = manifest.get("arrays")
    if not isinstance(described, dict) or set(described) != set(shapes):
        given = sorted(described) if isinstance(described, dict) else described
        raise ModelFileError(f"its arrays are {given}, expected {sorted(shapes)}")
    types = {}
    for name, entry in described.items():
        if not isinstance(entry, dict) or entry.get("type") not in ARRAY_TYPES:
            raise ModelFileError(f"its array {name!r} is {entry}, expected one of {ARRAY_TYPES}")
        if entry.get("shape") != list(shapes[name]):
            raise ModelFileError(
                f"its array {name!r} has shape {entry.get('shape')}, expected {list(shapes[name])}"
            )
        types[name] = entry["type"]
    return types


def _read_array(archive, entries, name, dtype, shape):
    info = entries.get(_file_name(name))
    if info is None:
        raise ModelFileError(f"it has no entry {_file_name(name)!r}")
    n_bytes = math.prod(shape) * dtype.itemsize
    if not n_bytes < info.file_size <= n_bytes + LONGEST_HEADER:
        raise ModelFileError(
            f"its entry {info.filename!r} declares {info.file_size:,} bytes, but an array of shape "
            f"{list(shape)} has {n_bytes:,}"
        )
    content = _read_bytes(archive, info)
    start = _header_end(content, name, dtype, shape)
    if len(content) - start != n_bytes:
        raise ModelFileError(f"its array {name!r} has {len(content) - start} bytes, not {n_bytes}")
    return np.frombuffer(content, dtype, offset=start).reshape(shape)


def _header_end(content, name, dtype, shape):
    """Where the numbers begin, if the header says what was declared."""
    if content[:8] != MAGIC + b"\x01\x00":
        raise ModelFileError(f"its array {name!r} does not begin like one")
    (length,) = struct.unpack("<H", content[8:10])
    match = HEADER.fullmatch(content[10 : 10 + length].decode("latin-1"))
    if match is None:
        raise ModelFileError(f"its array {name!r} has a header that cannot be read")
    sizes = tuple(int(size) for size in match.group(2).split(",") if size.strip())
    if match.group(1) != dtype.str or sizes != tuple(shape):
        raise ModelFileError(
            f"its array {name!r} has type {match.group(1)} and shape {list(sizes)}, declared are "
            f"{dtype.str} and {list(shape)}"
        )
    return 10 + length
