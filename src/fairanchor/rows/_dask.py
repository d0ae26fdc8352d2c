"""Rows on a Dask cluster: chunks stay on the workers, small tables travel.

Every step is a task without side effects, so that what a lost worker held is computed again.
"""

import asyncio
import importlib.metadata
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from distributed import KilledWorker, Lock, WorkerPlugin, get_client

import fairanchor
from fairanchor.rows._chunks import Chunk, ChunkedRows
from fairanchor.rows._raw_rows import SURVEY, OpenedRows, RawRows, merge_surveys
from fairanchor.rows._row_files import RowFiles, check_groups_known, plain
from fairanchor.rows._tables import check_finite

# For the first worker of a cluster.
WAIT_SECONDS = 30


class DaskRows(ChunkedRows):
    """Chunks that are futures; a worker works on one with a single thread."""

    def __init__(self, client: Any, chunks: list, *parameters: Any) -> None:
        super().__init__(*parameters)
        self.client = client
        self._chunks = chunks

    def _run(self, title: str, calls: Sequence[Callable]) -> Iterator[Any]:
        if self.client.status != "running":
            raise RuntimeError(
                "The client of the cluster that holds the rows is closed. Write the labels before "
                "it is, or fit again."
            )
        futures: list[Any] = [
            _submit(self.client, title, k, call, chunk)
            for k, (call, chunk) in enumerate(zip(calls, self._chunks, strict=True))
        ]
        for k, future in enumerate(futures):
            result = result_of(future, title)
            futures[k] = None  # the cluster may forget it
            yield result


def read_files(client: Any, files: Any, chunk_rows: int, missing: str) -> list:
    """Chunks of a table in files as futures of `RawRows`: workers read the files."""
    return [
        _submit(
            client, "read", k, RowFiles.read,
            *files.around(start, min(start + chunk_rows, files.n_rows)), missing,
        )
        for k, start in enumerate(range(0, files.n_rows, chunk_rows))
    ]  # fmt: skip


def open_raw(
    source: Any,
    raw: list,
    parts: list[tuple[str, int]],
    chunk_rows: int,
    n_clusters: int,
    n_jobs: int | None,
    unit: bool,
) -> OpenedRows:
    """Rows of a source on its cluster, from futures of `RawRows`."""
    client = source.client
    futures = [
        _submit(client, "survey", k, RawRows.survey, chunk, k * chunk_rows)
        for k, chunk in enumerate(raw)
    ]
    # In their order, so that the first error is the same every time.
    surveys = (result_of(future, SURVEY) for future in futures)
    groups, sizes, scale = merge_surveys(surveys, len(futures), source.progress)
    chunks = [
        _submit(
            client, "chunk", k, _coded, chunk, k, k * chunk_rows, tuple(groups.names), scale,
            n_clusters, unit,
        )
        for k, chunk in enumerate(raw)
    ]  # fmt: skip
    rows = DaskRows(client, chunks, source.n_features, sizes, chunk_rows, n_jobs)
    rows.parts = parts
    return rows, groups, scale


def result_of(future: Any, title: str) -> Any:
    """Result of a task; failures of the cluster raise an error with their usual cause."""
    try:
        return future.result()
    except (KilledWorker, CancelledError) as error:
        raise RuntimeError(
            f"The pass {title!r} failed on the cluster: {' '.join(str(error).split())} Most often "
            "workers ran out of memory: give them more, or start more of them (guide, 'A cluster "
            "of machines')."
        ) from error


def check_versions(client: Any) -> None:
    """Raise an error if workers run another version of this library, or there are none."""
    try:
        client.wait_for_workers(1, timeout=WAIT_SECONDS)
    except TimeoutError:
        raise RuntimeError(
            f"The cluster has no workers, and none came within {WAIT_SECONDS} s. Start some "
            f"(dask worker {client.scheduler.address})."
        ) from None
    here = fairanchor.__version__
    versions = client.run(importlib.metadata.version, "fairanchor", on_error="return")
    for worker, version in versions.items():
        if version != here and not isinstance(version, OSError):  # of a worker that was lost
            has = f"has fairanchor {version}" if isinstance(version, str) else "has no fairanchor"
            raise RuntimeError(
                f"The worker {worker} of the cluster {has}, expected {here} as here: the same "
                "labels need the same code everywhere."
            )


def warm_up(client: Any, compile_kernels: Callable) -> None:
    """Have workers compile kernels before they get any rows, those that join later included.

    Parameters
    ----------
    client : distributed.Client
    compile_kernels : callable
        Compiles what is not in the cache of the machine, on one worker of it after the other.
    """
    check_versions(client)
    client.register_plugin(_WarmUp(compile_kernels), name="fairanchor-warm-up")


class _WarmUp(WorkerPlugin):
    def __init__(self, compile_kernels: Callable) -> None:
        self.compile_kernels = compile_kernels

    async def setup(self, worker: Any) -> None:
        # The next worker of this machine finds the kernels in the cache.
        async with Lock(
            f"fairanchor-{worker.ip}", scheduler_rpc=worker.scheduler, loop=worker.loop
        ):
            await asyncio.to_thread(self.compile_kernels)


class CollectionSource:
    """Partitions of a Dask collection.

    Parameters
    ----------
    client : distributed.Client
    parts : list of distributed.Future
    make : callable
        ``make(part, number, a, b, missing)`` gives the `RawRows` of rows a to b of a partition.
    feature_names : list of str, or None
    n_features : int
    """

    checkpoint = None
    progress = None

    def __init__(
        self, client: Any, parts: list, make: Callable, feature_names: Any, n_features: int
    ) -> None:
        self.client = client
        self.parts = parts
        self.make = make
        self.feature_names = feature_names
        self.n_features = n_features
        lengths = client.map(len, parts, pure=False)
        self.sizes = [result_of(length, "sizes of partitions") for length in lengths]
        self.n_rows = int(sum(self.sizes))
        if self.n_rows == 0:
            raise ValueError(f"The {len(parts)} partition(s) of the Dask collection have no rows.")

    @classmethod
    def of(cls, X: Any, sensitive_features: Any) -> "CollectionSource":
        """The partitions of a Dask DataFrame or a Dask array, on the workers of the client."""
        if not hasattr(X, "to_delayed") or getattr(X, "ndim", None) != 2:
            shape = f" with {X.ndim} dimension(s)" if hasattr(X, "ndim") else ""
            raise TypeError(
                f"X is a Dask {type(X).__name__}{shape}, expected a DataFrame or an array with "
                "rows and columns."
            )
        client = _client()
        check_versions(client)
        if hasattr(X, "columns"):
            make = _FrameRows.of(X, sensitive_features)
            are_text = all(isinstance(name, str) for name in make.features)
            names = list(make.features) if are_text else None  # as in scikit-learn
            return cls(client, client.compute(X.to_delayed()), make, names, len(make.features))
        parts, n_columns = _frames_of(X, sensitive_features)
        groups = tuple(f"group {j}" for j in range(n_columns))
        make = _FrameRows(tuple(range(X.shape[1])), groups)
        return cls(client, client.compute(parts), make, None, X.shape[1])

    def read(self, missing: str) -> RawRows:
        """All rows, if they are few."""
        [raw] = self._raw(self.n_rows, missing)
        return result_of(raw, "reading")

    def open(
        self,
        chunk_rows: int,
        missing: str,
        n_jobs: int | None,
        n_clusters: int,
        sample_rows: Callable[[int], int],
        *,
        unit: bool = False,
    ) -> OpenedRows:
        """Read all rows once; see `FileTable.open`. The sample is drawn when it is needed."""
        raw = self._raw(chunk_rows, missing)
        self.parts = []  # the cluster keeps partitions no longer than needed
        digits = len(str(len(self.sizes) - 1))  # so that the order of names is that of partitions
        parts = [(f"part.{k:0{digits}d}.parquet", size) for k, size in enumerate(self.sizes)]
        return open_raw(self, raw, parts, chunk_rows, n_clusters, n_jobs, unit)

    def _raw(self, chunk_rows: int, missing: str) -> list:
        """Chunks by global row number, as futures of `RawRows`."""
        starts = np.cumsum([0, *self.sizes]).tolist()
        chunks = []
        for k, begin in enumerate(range(0, self.n_rows, chunk_rows)):
            end = min(begin + chunk_rows, self.n_rows)
            spans = [
                (p, max(begin - start, 0), min(end - start, size))
                for p, (start, size) in enumerate(zip(starts, self.sizes, strict=False))
                if size and start < end and begin < start + size
            ]
            parts = [self.parts[p] for p, _, _ in spans]
            chunks.append(_submit(self.client, "join", k, _join, self.make, missing, spans, *parts))
        return chunks


@dataclass(frozen=True)
class _FrameRows:
    """Makes rows of pandas partitions.

    Attributes
    ----------
    features, sensitive : tuple
        Names of columns.
    """

    features: tuple
    sensitive: tuple

    @classmethod
    def of(cls, frame: Any, sensitive: Sequence) -> "_FrameRows":
        """By the columns that a Dask DataFrame declares."""
        names = list(frame.columns)
        features = tuple(name for name in names if name not in sensitive)
        if not features:
            raise ValueError(
                "The Dask DataFrame has no columns but those of sensitive_features, expected at "
                "least one feature to compute distances from."
            )
        made = cls(features, tuple(sensitive))
        made.check(frame, "The Dask DataFrame")
        return made

    def check(self, frame: Any, where: str) -> None:
        """Raise an error for columns that are not as they have to be."""
        names = list(frame.columns)
        for name in (*self.features, *self.sensitive):
            if names.count(name) != 1:
                raise ValueError(
                    f"{where} has {names.count(name)} columns {name!r}, expected one. It has: "
                    f"{', '.join(map(str, names[:20]))}."
                )
        for name in self.features:
            if frame.dtypes[name].kind not in "biuf":
                raise ValueError(
                    f"{where} has a column {name!r} of type {frame.dtypes[name]}, expected "
                    "numbers. Drop it, or encode it as numbers."
                )

    def __call__(self, frame: Any, number: int, a: int, b: int, missing: str) -> RawRows:
        where = f"Partition {number}"
        part = frame.iloc[a:b]
        self.check(part, where)
        X = part[list(self.features)].to_numpy(dtype=np.float64, na_value=np.nan)
        X = np.ascontiguousarray(X)
        check_finite(X, self.features, where, a)
        columns = {
            name: _names_of_groups(part[name], name, where, a, missing) for name in self.sensitive
        }
        return RawRows(X, pa.table(columns))


def _names_of_groups(values: Any, name: Any, where: str, row: int, missing: str) -> pa.Array:
    """A sensitive column as an Arrow array, like those of other partitions."""
    try:
        column = plain(pa.array(values, from_pandas=True))
    except pa.ArrowException as error:
        raise ValueError(
            f"{where} has groups of different types in column {name!r}: {error}"
        ) from error
    if missing == "error":
        check_groups_known(column, name, where, row)
    return column


def _frames_of(X: Any, sensitive_features: Any) -> tuple[list, int]:
    """Delayed data frames of a Dask array's rows and groups, and the number of group columns."""
    import dask
    import dask.array as da

    if np.isnan(X.shape[0]):
        raise ValueError(
            "X is a Dask array whose chunks have unknown sizes: call its compute_chunk_sizes() "
            "first."
        )
    X = X.rechunk({1: -1})
    blocks = X.to_delayed()[:, 0].tolist()
    if sensitive_features is None:
        return [dask.delayed(_as_frame)(block) for block in blocks], 0
    groups = sensitive_features
    if not isinstance(groups, da.Array):
        groups = da.from_array(np.asarray(groups), chunks=-1)
    if groups.ndim not in (1, 2) or groups.shape[0] != X.shape[0] or 0 in groups.shape[1:]:
        raise ValueError(
            f"sensitive_features has shape {groups.shape}, expected ({X.shape[0]},) or "
            f"({X.shape[0]}, n_columns), since X has {X.shape[0]} rows: every row needs exactly "
            "one group."
        )
    groups = groups[:, None] if groups.ndim == 1 else groups
    parts = groups.rechunk((X.chunks[0], groups.shape[1:])).to_delayed()[:, 0].tolist()
    pairs = zip(blocks, parts, strict=True)
    return [dask.delayed(_as_frame)(*pair) for pair in pairs], groups.shape[1]


def _client() -> Any:
    try:
        return get_client()
    except ValueError:
        raise RuntimeError(
            "X is a Dask collection, but there is no Dask client. Start one first: "
            "dask.distributed.Client() for this machine, or Client(address) of a scheduler."
        ) from None


# Tasks.


def _submit(client: Any, title: str, k: int, function: Callable, *arguments: Any) -> Any:
    # Not pure: a call is sent once, and hashing its tables to find an equal one is waste.
    key = f"fairanchor-{title.replace(' ', '-')}-{k}-{uuid.uuid4().hex[:8]}"
    return client.submit(function, *arguments, pure=False, key=key)


def _as_frame(block: np.ndarray, groups: np.ndarray | None = None) -> Any:
    import pandas as pd

    frame = pd.DataFrame(block)
    for j, values in enumerate([] if groups is None else groups.T):
        frame[f"group {j}"] = values
    return frame


def _coded(
    raw: RawRows, number: int, start: int, names: tuple, scale: float, n_clusters: int, unit: bool
) -> Chunk:
    chunk = raw.coded(number, start, names, scale, n_clusters=n_clusters, unit=unit)
    _ = chunk.distinct  # the memory that the cluster is told of grows by costs only
    return chunk


def _join(make: Callable, missing: str, spans: list, *parts: Any) -> RawRows:
    raws = [make(part, *span, missing) for part, span in zip(parts, spans, strict=True)]
    if len(raws) == 1:
        return raws[0]
    try:  # a part without any group has no type
        columns = pa.concat_tables([raw.columns for raw in raws], promote_options="default")
    except pa.ArrowException as error:
        raise ValueError(
            f"The groups of partitions {spans[0][0]} to {spans[-1][0]} are of different types, "
            f"so that they would not be the same: {error}"
        ) from error
    return RawRows(np.concatenate([raw.X for raw in raws]), columns)
