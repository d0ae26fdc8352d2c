"""Rows from anything with an Arrow stream: relations of DuckDB, lazy frames, readers of batches.

Tables in memory, which NumPy reads directly (pandas, polars, pyarrow), do not count as streams.
"""

from collections.abc import Iterator
from typing import Any


def is_stream(X: Any) -> bool:
    """Whether rows have to be fetched, through ``__arrow_c_stream__`` or as a lazy frame."""
    fetched = hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__array__")
    return fetched or (hasattr(X, "collect") and hasattr(X, "collect_schema"))


def is_dataset(X: Any) -> bool:
    """Whether X is a dataset of pyarrow."""
    return type(X).__module__.startswith("pyarrow") and hasattr(X, "scanner")


def is_dask_frame(X: Any) -> bool:
    """Whether X is a Dask DataFrame."""
    return type(X).__module__.startswith("dask") and hasattr(X, "columns")


def table_of_stream(X: Any, sensitive_features: Any) -> tuple[Any, Any]:
    """All rows as a pyarrow table, and their groups; named columns are taken out of the table."""
    import pyarrow as pa

    batches = list(_batches(X))
    if not batches:
        raise ValueError(f"X is a {type(X).__name__} without rows.")
    return _split(pa.Table.from_batches(batches), sensitive_features)


def tables_of_stream(X: Any, sensitive_features: Any) -> Iterator[tuple[Any, Any]]:
    """`table_of_stream`, a batch at a time; all at once, if the groups are not in the stream."""
    import pyarrow as pa

    if sensitive_features is not None and not _names(sensitive_features):
        yield table_of_stream(X, sensitive_features)
        return
    for batch in _batches(X):
        yield _split(pa.Table.from_batches([batch]), sensitive_features)


def _batches(X: Any) -> Iterator[Any]:
    """Record batches with rows."""
    import pyarrow as pa

    streams: Any = [X]
    if is_dataset(X):
        streams = [X.scanner().to_reader()]
    elif is_dask_frame(X):
        frames = (part.compute() for part in X.partitions)
        streams = (pa.Table.from_pandas(frame, preserve_index=False) for frame in frames)
    elif not hasattr(X, "__arrow_c_stream__"):  # a lazy frame of polars; older ones have no batches
        streams = X.collect_batches() if hasattr(X, "collect_batches") else [X.collect()]
    for stream in streams:
        for batch in pa.RecordBatchReader.from_stream(stream):
            if batch.num_rows:
                yield batch


def _names(sensitive_features: Any) -> list[str]:
    """Names of columns; none, if these are values."""
    if isinstance(sensitive_features, str):
        return [sensitive_features]
    is_list = isinstance(sensitive_features, (list, tuple))
    are_names = is_list and all(isinstance(name, str) for name in sensitive_features)
    return list(sensitive_features) if are_names else []


def _split(table: Any, sensitive_features: Any) -> tuple[Any, Any]:
    names = _names(sensitive_features)
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
