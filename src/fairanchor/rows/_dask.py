"""Rows on a Dask cluster: chunks stay on the workers, small tables travel.

Every step is a task of its own without side effects, so that what a lost worker held is
computed again from where it came.
"""

from dataclasses import dataclass

import numpy as np

from fairanchor.rows._chunks import Chunk, ChunkedRows
from fairanchor.rows._columns import joined
from fairanchor.rows._memory import MemoryRows
from fairanchor.rows._survey import survey_rows

# How long to wait for the first worker of a cluster.
WAIT_SECONDS = 30


class DaskRows(ChunkedRows):
    """Chunks that are futures.

    Parameters
    ----------
    client : distributed.Client
    chunks : list of distributed.Future
        Of `Chunk`.
    n_features : int
    group_sizes_of_chunks : ndarray of shape (n_chunks, n_groups)
    chunk_rows : int
    n_jobs : int or None
        Threads of what this process does with samples; a worker works on a chunk with one.
    """

    def __init__(self, client, chunks, n_features, group_sizes_of_chunks, chunk_rows, n_jobs=None):
        super().__init__(n_features, group_sizes_of_chunks, chunk_rows)
        self.client = client
        self.n_jobs = n_jobs
        self._chunks = chunks

    def _run(self, title, calls):
        if self.client.status != "running":
            raise RuntimeError(
                "The client of the cluster that holds the rows is closed. Write the labels before "
                "it is, or fit again."
            )
        # Not pure: a call is sent once, and hashing its tables to find an equal one is waste.
        futures = [
            self.client.submit(call, chunk, pure=False, key=_key(title, k))
            for k, (call, chunk) in enumerate(zip(calls, self._chunks, strict=True))
        ]
        for k, future in enumerate(futures):
            result = result_of(future, title)
            futures[k] = None  # the cluster may forget it
            yield result


@dataclass(frozen=True)
class RawRows:
    """Rows of a chunk before their groups have codes."""

    X: np.ndarray
    columns: list

    def __sizeof__(self):
        # What a cluster weighs against the work of moving it.
        return self.X.nbytes + sum(column.nbytes for column in self.columns)


def load_files(client, files, chunk_rows, missing):
    """Chunks of a table in files as futures of `RawRows`: workers read them on their own."""
    starts = range(0, files.n_rows, chunk_rows)
    return [
        client.submit(
            _read, *files.around(start, min(start + chunk_rows, files.n_rows)), missing, pure=False,
            key=_key("read", k),
        )
        for k, start in enumerate(starts)
    ]  # fmt: skip


def load_parts(client, parts, sizes, make, chunk_rows, missing):
    """Chunks of a Dask collection as futures of `RawRows`, by global row number.

    Parameters
    ----------
    client : distributed.Client
    parts : list of distributed.Future
        Of the partitions.
    sizes : sequence of int
        Their numbers of rows.
    make : callable
        ``make(part, number, a, b, missing)`` gives the `RawRows` of rows a to b of the partition
        with this number.
    chunk_rows : int
    missing : {"error", "own_group"}
        What missing groups mean.
    """
    starts = np.cumsum([0, *sizes])
    chunks = []
    for k, begin in enumerate(range(0, int(starts[-1]), chunk_rows)):
        end = min(begin + chunk_rows, int(starts[-1]))
        first = int(np.searchsorted(starts, begin, side="right")) - 1
        last = int(np.searchsorted(starts, end, side="left"))
        own = [p for p in range(first, last) if sizes[p]]
        spans = [
            (p, max(begin - int(starts[p]), 0), min(end - int(starts[p]), int(sizes[p])))
            for p in own
        ]
        given = (make, missing, spans, *(parts[p] for p in own))
        chunks.append(client.submit(_joined, *given, pure=False, key=_key("join", k)))
    return chunks


def survey_chunks(client, chunks, chunk_rows, progress):
    """Surveys of all chunks."""
    futures = [
        client.submit(_survey, chunk, k * chunk_rows, pure=False, key=_key("survey", k))
        for k, chunk in enumerate(chunks)
    ]
    surveys = []
    for future in futures:  # in their order, so that the first error is the same every time
        surveys.append(result_of(future, "first look"))
        if progress is not None:
            progress("first look", len(surveys), len(futures))
    return surveys


def with_codes(client, chunks, encoder, scale, chunk_rows, n_clusters):
    """Futures of `Chunk` from those of `RawRows`."""
    return [
        client.submit(
            _coded, chunk, k, k * chunk_rows, encoder, scale, n_clusters, pure=False,
            key=_key("chunk", k),
        )
        for k, chunk in enumerate(chunks)
    ]  # fmt: skip


def result_of(future, title):
    """Result of a task; what a cluster says of its own failures is said in words."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        raise RuntimeError(
            f"The pass {title!r} was given up: {error.allowed_failures + 1} worker(s) died, one "
            "after the other, while they worked on the same chunk. Most often they ran out of "
            "memory: give them more, or start more of them (docs/large_data.md, Sizing)."
        ) from error
    except CancelledError as error:
        raise RuntimeError(
            f"The pass {title!r} was given up: the cluster lost the rows, or its scheduler. "
            f"({' '.join(str(error).split())})"
        ) from error


def check_versions(client):
    """Refuse workers that run another version of this library, or none."""
    from fairanchor import __version__

    _wait_for_a_worker(client)
    others = {}
    for worker, version in client.run(_version_finder(), on_error="return").items():
        if version != __version__:
            others[worker] = version if isinstance(version, str) else None
    if others:
        worker, version = next(iter(others.items()))
        has = "has no fairanchor" if version is None else f"has fairanchor {version}"
        raise RuntimeError(
            f"{len(others)} worker(s) of the cluster run another version than {__version__}, which "
            f"is here: {worker} {has}. The same labels need the same code everywhere."
        )


def _wait_for_a_worker(client):
    try:
        client.wait_for_workers(1, timeout=WAIT_SECONDS)
    except TimeoutError:
        raise RuntimeError(
            f"The cluster at {client.scheduler.address} has no workers, and none came within "
            f"{WAIT_SECONDS} s. Start some (dask worker {client.scheduler.address})."
        ) from None


def _version_finder():
    # Defined here so that it travels by value: a worker may not have this module.
    def version():
        import importlib.metadata

        return importlib.metadata.version("fairanchor")

    return version


def _key(title, k):
    import uuid

    return f"fairanchor-{title.replace(' ', '-')}-{k}-{uuid.uuid4().hex[:8]}"


def _read(files, start, stop, missing):
    return RawRows(*files.read(start, stop, missing))


def _joined(make, missing, spans, *parts):
    raws = [make(part, *span, missing) for part, span in zip(parts, spans, strict=True)]
    if len(raws) == 1:
        return raws[0]
    numbers = [number for number, *_ in spans]
    columns = [
        _joined_column(own, numbers) for own in zip(*(raw.columns for raw in raws), strict=True)
    ]
    return RawRows(np.concatenate([raw.X for raw in raws]), columns)


def _joined_column(parts, numbers):
    """Parts of a sensitive column as one; a part without any group is of no type."""
    import pyarrow as pa

    types = {part.type: number for part, number in zip(parts, numbers, strict=True)}
    types.pop(pa.null(), None)
    if len(types) > 1:
        (one, p), (other, q) = list(types.items())[:2]
        raise ValueError(
            f"The groups are of type {one} in partition {p}, but of type {other} in partition {q}: "
            "they would not be the same."
        )
    return joined([piece for part in parts for piece in part.chunks])


def _survey(raw, start):
    return survey_rows(raw.X, raw.columns, start)


def _coded(raw, number, start, encoder, scale, n_clusters):
    X = raw.X if scale == 1.0 else raw.X * scale
    codes = encoder.codes_of(raw.columns, len(X))
    rows = MemoryRows(X, codes, encoder.n_groups, n_jobs=1)
    return Chunk(number, start, rows, n_clusters).complete()
