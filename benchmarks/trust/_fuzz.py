"""Damaged and forged files for the readers: only the library's own errors may come out.

Every batch of files is read in a child with limited memory, so that a reader that crashes, hangs or
takes all memory is seen as what it is.
"""

import gzip
import hashlib
import io
import json
import pickle
import random
import resource
import warnings
import zipfile
from pathlib import Path

import _children as children
import numpy as np
import pyarrow as pa
from _interruptions import MEGABYTE, Tally
from pyarrow import csv, feather, parquet

N_ROWS = 120
BATCH = 100
ROOM = 1024 * MEGABYTE


def example_table(rng):
    """A small table with numbers, text, missing values and groups."""
    numbers = rng.normal(size=(2, N_ROWS))
    words = rng.choice(["red", "green", "déjà vu", None], N_ROWS).tolist()
    groups = rng.choice(["a", "b"], N_ROWS).tolist()
    return pa.table({"x": numbers[0], "y": numbers[1], "word": words, "group": groups})


def csv_bytes(table):
    buffer = io.BytesIO()
    csv.write_csv(table, buffer)
    return buffer.getvalue()


def parquet_bytes(table, **options):
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, **options)
    return buffer.getvalue()


def arrow_bytes(table, **options):
    buffer = io.BytesIO()
    feather.write_feather(table, buffer, **options)
    return buffer.getvalue()


def example_files(table):
    """Contents by name of the file."""
    text = csv_bytes(table)
    return {
        "table.csv": text,
        "table.tsv": text.replace(b",", b"\t"),
        "table.csv.gz": gzip.compress(text, mtime=0),
        "plain.parquet": parquet_bytes(table, compression="none", use_dictionary=False),
        "packed.parquet": parquet_bytes(table),
        "plain.arrow": arrow_bytes(table, compression="uncompressed"),
        "packed.arrow": arrow_bytes(table, compression="lz4"),
    }


# What is done to a file.


def flip(rng, content):
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8, 40])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite(rng, content):
    """Numbers in headers that are as large or as small as numbers can be."""
    changed = bytearray(content)
    odd = rng.choice([b"\xff" * 4, b"\x00" * 8, b"\xff" * 8, b"\x7f\xff\xff\xff", b"\x80"])
    start = rng.randrange(len(changed))
    changed[start : start + len(odd)] = odd
    return bytes(changed[: len(content)])


def cut(rng, content):
    return content[: rng.randrange(len(content))]


def leave_out(rng, content):
    start = rng.randrange(len(content))
    return content[:start] + content[start + rng.randrange(1, 60) :]


def repeat(rng, content):
    start = rng.randrange(len(content))
    stop = start + rng.randrange(1, 60)
    return content[:stop] + content[start:stop] * rng.choice([1, 5, 200]) + content[stop:]


def put_in(rng, content):
    odd = [b'"', b"\r", b"\n\n\n", b"\x00", b"\xff\xfe", b"1e999", b",,,,,,", b"nan", b"-0x1p+3"]
    start = rng.randrange(len(content))
    return content[:start] + rng.choice(odd) + content[start:]


def swap_ends(rng, content):
    middle = rng.randrange(len(content))
    return content[middle:] + content[:middle]


MUTATIONS = (flip, flip, overwrite, cut, leave_out, repeat, put_in, swap_ends)


def mutated(rng, content):
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        content = rng.choice(MUTATIONS)(rng, content) if content else b""
    return content


# Reading.


def read_table(path):
    """All that the commands do with a table before they cluster it."""
    from fairanchor.tables._load import load
    from fairanchor.tables._read import open_table
    from fairanchor.tables._roles import MissingPolicy, choose_columns

    table = open_table(path)
    roles = choose_columns(table, sensitive=["group"], features=(), exclude=(), id_column=None)
    policy = MissingPolicy.of(["own-group", "impute"])
    loaded = load(table, roles, policy)
    if not np.isfinite(loaded.X).all():
        raise AssertionError("a table was read with numbers that are not finite")


def read_model(path):
    """A model file, and a prediction by it if it is accepted."""
    from fairanchor import load_model

    model = load_model(path)
    groups = np.empty(5, dtype=object)
    groups[:] = [model.groups_[0]] * 5
    labels = model.predict(np.zeros((5, model.n_features_in_)), sensitive_features=groups.tolist())
    if not 0 <= labels.min() <= labels.max() < model.n_clusters:
        raise AssertionError(f"a model was read that predicts {labels}")


def read_checkpoint(path):
    """A checkpoint, as a resumed run reads it."""
    from fairanchor.rows._checkpoint import Checkpoint

    Checkpoint(Path(path).parent, {"a": 1}, resume=True)


def allowed_errors(read):
    from fairanchor.persistence import ModelFileError

    # pyarrow allocates what damaged lengths in a table claim.
    return {read_model: ModelFileError, read_table: (ValueError, MemoryError)}.get(read, ValueError)


def read_batch(read, folder, name, contents, found):
    """Read files one after the other; what came of each goes to the file ``found``, at once."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
    path = Path(folder) / name
    with Path(found).open("w") as file:
        for content in contents:
            path.write_bytes(content)
            ending = ending_of(read, path)
            print(ending[:300].replace("\n", " "), file=file, flush=True)


def ending_of(read, path):
    """What comes of reading a file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(path)
    except allowed_errors(read) as error:
        return "error" if is_clear(error, path) else f"unclear: {error!r}"
    except BaseException as error:
        return repr(error)
    return "read"


def is_clear(error, path):
    """Whether an error says which file, or which of its columns, is at fault."""
    text = str(error)
    return type(error) is not UnicodeDecodeError and (str(path) in text or "column" in text)


def fuzz(read, folder, name, content, number, seed=0):
    """Read ``number`` damaged versions of one file.

    Returns
    -------
    tally : Tally
        How many were read and refused; violations are any other end, with the file kept beside.
    """
    rng, tally = random.Random(f"{name} {seed}"), Tally.empty()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    contents = [mutated(rng, content) for _ in range(number)]
    read_all(read, folder, name, contents, tally)
    return tally


def read_all(read, folder, name, contents, tally):
    while contents:
        batch, contents = contents[:BATCH], contents[BATCH:]
        ended = children.run(read_batch, read, folder, name, batch, folder / "found.txt",
                             said=folder / "said.txt")  # fmt: skip
        endings = (folder / "found.txt").read_text().splitlines()
        if len(endings) < len(batch):  # the next one ended the child
            endings.append(f"exit code {ended.code}: {ended.said[-200:]}")
            contents = batch[len(endings) :] + contents
        for content, ending in zip(batch, endings, strict=False):
            if ending == "read" or ending.startswith("error"):
                tally.count(ending)
                continue
            tally.count("violation")
            kept = folder / f"violation-{len(tally.violations)}-{name}"
            kept.write_bytes(content)
            tally.violations.append(f"{kept.name}: {ending}")


# Forged files: well-formed, and made to harm.


class Program:
    """An object whose pickle runs a program when it is opened."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return exec, (f"open({str(self.path)!r}, 'w').close()",)


def packed(entries, **options):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, **options) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def header_of(shape):
    buffer = io.BytesIO()
    description = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, description)
    return buffer.getvalue()


def signed(entries):
    """A model file of these members with the checksum that a reader expects."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = bytes(64)
        for name, data in entries.items():
            archive.writestr(name, data)
    content = buffer.getvalue()[:-64]
    return content + hashlib.sha256(content).hexdigest().encode()


def forged_models(model, trap):
    """Model files made to run a program or to fill the memory; ``trap`` is what would appear."""
    with zipfile.ZipFile(io.BytesIO(model)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(entries["content.json"])
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.dumps(Program(trap), protocol)
    objects = io.BytesIO()
    np.save(objects, np.array([Program(trap)], dtype=object), allow_pickle=True)
    for name in entries:
        yield signed(entries | {name: objects.getvalue()})
        yield signed(entries | {name: pickle.dumps(Program(trap))})
    for name in ("content.json", min(entries)):
        yield signed(entries | {name: bytes(300 * MEGABYTE)})
    for shape in ((2**40,), (2**31, 2**31), (0, 2**62), (10**18, 10**18)):
        for name in entries:
            if name.endswith(".npy"):
                yield signed(entries | {name: header_of(shape)})
    for key in ("class", "costs", "groups", "parameters"):
        for value in (2**31, 10**30, -1, 1.5, "3", None, [3], {}):
            text = json.dumps(manifest | {key: value}).encode()
            yield signed(entries | {"content.json": text})
    for value in (-1, 0, 1.5, "3", [3], {}):
        wrong = manifest["parameters"] | {"n_clusters": value}
        yield signed(
            entries | {"content.json": json.dumps(manifest | {"parameters": wrong}).encode()}
        )
    yield signed(entries | {"content.json": b"[" * 200_000})
    yield signed(entries | {"../../escape": b"x"})


def forged_checkpoints(trap):
    """Archives for the reader of checkpoints."""
    objects = io.BytesIO()
    np.save(objects, np.array([Program(trap)], dtype=object), allow_pickle=True)
    yield pickle.dumps(Program(trap))
    text = json.dumps({"title": "one", "result": {"array": "array_0"}}).encode()
    for array in (
        objects.getvalue(),
        header_of((2**45,)),
        header_of((2**31,)) + bytes(2**24),
        header_of((2**25,)) + bytes(2**28),
    ):
        yield signed({"content.json": text, "array_0.npy": array})


def forged_tables(trap):
    """Files with the names of tables that would run a program if they were unpickled."""
    yield "pickle.csv", pickle.dumps(Program(trap))
    yield "pickle.parquet", pickle.dumps(Program(trap))
