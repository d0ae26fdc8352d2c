"""From what users pass to ``fit`` and ``predict`` to rows: files, Dask collections, streams."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairanchor.groups._columns import text_names
from fairanchor.rows._chunks import N_SAMPLES, Chunk, StreamedRows, read_ahead
from fairanchor.rows._raw_rows import OpenedRows, RawRows, RunningSample, merge_surveys


@dataclass(frozen=True)
class FileTable:
    """A pyarrow dataset, and how it is to be read.

    Attributes
    ----------
    dataset : pyarrow.dataset.FileSystemDataset, or RowFiles
    features : sequence of str or None
        Columns that are features; by default all that are not sensitive.
    client : distributed.Client or None
        Of a cluster whose workers read the files; by default this process does.
    checkpoint : callable or None
        Given the identity of the run (`identity_of_run`), returns its `Checkpoint`.
    progress : callable or None
        Called with a pass's title, the number of finished chunks, and of all.
    """

    dataset: Any
    features: Any = None
    client: Any = None
    checkpoint: Callable | None = None
    progress: Callable | None = None

    def source(self, sensitive_features: Any) -> "FileTable":
        """The same table with `RowFiles` for a dataset, whose rows can be read."""
        from fairanchor.rows._row_files import RowFiles  # loads pyarrow

        if isinstance(self.dataset, RowFiles):
            return self
        names = column_names(sensitive_features)
        return replace(self, dataset=RowFiles.of(self.dataset, self.features, names))

    @property
    def n_rows(self) -> int:
        return self.dataset.n_rows

    @property
    def feature_names(self) -> list[str]:
        return self.dataset.feature_names

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    def fingerprint(self) -> dict[str, Any]:
        """Identifies the rows."""
        return self.dataset.fingerprint()

    def read(self, missing: str) -> RawRows:
        """All rows, if they are few."""
        return self.dataset.read(0, self.n_rows, missing)

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
        """Read all rows once, for their groups, the range of their numbers, and a sample.

        ``missing`` is "error" or "own_group": how missing groups are treated. ``n_clusters`` is
        the number of costs per row for which a cluster reserves memory, ``sample_rows(n_groups)``
        the number of rows of each group in a sample. With ``unit`` rows have unit length.
        """
        files, n_chunks = self.dataset, -(-self.n_rows // chunk_rows)
        if self.client is not None:
            from fairanchor.rows._dask import open_raw, read_files

            raw = read_files(self.client, files, chunk_rows, missing)
            return open_raw(self, raw, files.parts, chunk_rows, n_clusters, n_jobs, unit)

        def raw_chunks(missing: str = "own_group") -> Iterator[tuple[int, RawRows]]:
            yield from enumerate(files.read_in_turn(0, self.n_rows, chunk_rows, missing))

        def chunks() -> Iterator[Chunk]:
            for k, raw in raw_chunks():
                yield raw.coded(k, k * chunk_rows, names, scale, n_jobs, unit=unit)

        sample = RunningSample(lambda n_groups: N_SAMPLES * sample_rows(n_groups))
        surveys = (raw.survey(k * chunk_rows, sample) for k, raw in read_ahead(raw_chunks(missing)))
        groups, sizes, scale = merge_surveys(surveys, n_chunks, self.progress)
        names = tuple(groups.names)
        rows = StreamedRows(chunks, self.n_features, sizes, chunk_rows, n_jobs)
        rows.parts = files.parts
        rows.drawn = sample.drawn(groups, scale, n_jobs, unit)
        return rows, groups, scale


def kind_of(X: Any) -> str | None:
    """``"files"``, ``"dask"``, ``"stream"``, or None for rows in memory.

    Files are a pyarrow dataset, the path of a file or a directory, a list of paths, or a function
    that opens an Arrow stream, which is read again in every pass.
    The rows of a stream have to be fetched, through ``__arrow_c_stream__`` or as a lazy frame: a
    relation of DuckDB, a reader of batches. Tables that NumPy reads directly are in memory.
    """
    module = type(X).__module__
    is_dataset = module.startswith("pyarrow") and type(X).__name__.endswith("Dataset")
    if isinstance(X, FileTable) or is_dataset or _are_paths(X) or _is_function(X):
        return "files"
    if module.startswith("dask"):
        return "dask"
    is_lazy = hasattr(X, "collect") and hasattr(X, "collect_schema")
    return "stream" if is_lazy or _has_stream(X) and not hasattr(X, "__array__") else None


def source_of(X: Any, sensitive_features: Any) -> Any:
    """The rows of files or of a Dask collection: a `FileTable` or a `CollectionSource`."""
    if kind_of(X) == "files":
        if _is_function(X):
            from fairanchor.rows._row_stream import RowStream  # loads pyarrow

            return FileTable(RowStream.opened(X, column_names(sensitive_features)))
        table = X if isinstance(X, FileTable) else FileTable(_dataset(X))
        return table.source(sensitive_features)
    try:
        from fairanchor.rows._dask import CollectionSource
    except ImportError as error:
        raise ImportError(
            "X is a Dask collection, which needs dask.distributed: pip install 'fairanchor[dask]'."
        ) from error
    if hasattr(X, "columns"):
        sensitive_features = column_names(sensitive_features)
    return CollectionSource.of(X, sensitive_features)


def column_names(sensitive_features: Any) -> list[str]:
    """Names of the sensitive columns."""
    if sensitive_features is None:
        return []
    names = _as_names(sensitive_features)
    if not names:
        raise TypeError(
            f"sensitive_features is a {type(sensitive_features).__name__}, expected the name of a "
            "column or a list of names: for rows that are not in memory, groups are read with them."
        )
    return names


def sensitive_names(X: Any, sensitive_features: Any) -> list[str] | None:
    """Names of the sensitive columns as ``fit`` gets them; None where they have none."""
    kind = kind_of(X)
    if kind == "files" or (kind == "dask" and hasattr(X, "columns")):
        names = column_names(sensitive_features)
        return names if names and len(set(names)) == len(names) else None
    return text_names(sensitive_features)


# Rows that are fetched batch by batch.


def is_batched(X: Any) -> bool:
    """Whether `tables_of` yields the rows: of a stream, a dataset or a Dask DataFrame."""
    kind = kind_of(X)
    if kind == "files":
        return not isinstance(X, FileTable)
    return kind == "stream" or (kind == "dask" and hasattr(X, "columns"))


def tables_of(X: Any, sensitive_features: Any, *, whole: bool = False) -> Iterator[tuple]:
    """Tables of pyarrow and their groups; named columns are taken out of the tables.

    One table after the other, or one of all rows: so are those whose groups are not in the stream.
    """
    import pyarrow as pa

    batches = _batches(X)
    if whole or not (sensitive_features is None or _as_names(sensitive_features)):
        every = list(batches)
        if not every:
            raise ValueError(f"X is a {type(X).__name__} without rows.")
        yield _split(pa.Table.from_batches(every), sensitive_features)
        return
    for batch in batches:
        yield _split(pa.Table.from_batches([batch]), sensitive_features)


def _is_function(X: Any) -> bool:
    return callable(X) and not hasattr(X, "__array__") and not _has_stream(X)


def _are_paths(X: Any) -> bool:
    """Whether X is the path of a file or a directory, or a list of paths."""
    paths = X if isinstance(X, (list, tuple)) else [X]
    return len(paths) > 0 and all(isinstance(path, (str, os.PathLike)) for path in paths)


def _dataset(X: Any) -> Any:
    """X, or the pyarrow dataset of its paths: Arrow files by their suffix, else Parquet."""
    if not _are_paths(X):
        return X
    import pyarrow.dataset

    several = isinstance(X, (list, tuple))
    paths = [os.fspath(path) for path in X] if several else [os.fspath(X)]
    inside = next(Path(paths[0]).glob("*.*"), paths[0])  # of a directory
    is_arrow = Path(inside).suffix in {".arrow", ".feather", ".ipc"}
    source = paths if several else paths[0]
    return pyarrow.dataset.dataset(source, format="ipc" if is_arrow else "parquet")


def _has_stream(X: Any) -> bool:
    return hasattr(X, "__arrow_c_stream__")


def _batches(X: Any) -> Iterator[Any]:
    """Record batches with rows."""
    import pyarrow as pa

    streams: Any = [X]
    if _is_function(X):
        from fairanchor.rows._row_stream import reader_of

        streams = [reader_of(X)]
    elif kind_of(X) == "files":
        streams = [_dataset(X).scanner().to_reader()]
    elif kind_of(X) == "dask":
        frames = (part.compute() for part in X.partitions)
        streams = (pa.Table.from_pandas(frame, preserve_index=False) for frame in frames)
    elif not _has_stream(X):  # a lazy frame of polars; older ones have no batches
        streams = X.collect_batches() if hasattr(X, "collect_batches") else [X.collect()]
    for stream in streams:
        for batch in pa.RecordBatchReader.from_stream(stream):
            if batch.num_rows:
                yield batch


def _as_names(sensitive_features: Any) -> list[str]:
    """Names of columns; none, if these are values."""
    if isinstance(sensitive_features, str):
        return [sensitive_features]
    is_list = isinstance(sensitive_features, (list, tuple))
    are_names = is_list and all(isinstance(name, str) for name in sensitive_features)
    return list(sensitive_features) if are_names else []


def _split(table: Any, sensitive_features: Any) -> tuple[Any, Any]:
    names = _as_names(sensitive_features)
    missing = [name for name in names if name not in table.column_names]
    if missing and (isinstance(sensitive_features, str) or len(names) != len(table)):
        raise ValueError(
            f"sensitive_features names {missing[0]!r}, which is not a column of X. It has: "
            f"{', '.join(table.column_names[:20])}."
        )
    if missing or not names:
        return table, sensitive_features
    columns = table.column(names[0]) if len(names) == 1 else table.select(names)
    return table.drop_columns(names), columns
