"""Dask data frames and arrays as rows in chunks."""

from dataclasses import dataclass

import numpy as np

from fairanchor.rows import _chunks
from fairanchor.rows._columns import check_finite, check_groups_known, kind_of_names, plain
from fairanchor.rows._dask import RawRows, check_versions, load_parts, result_of
from fairanchor.rows._open import column_names, open_raw


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

    def __init__(self, client, parts, make, feature_names, n_features):
        self.client = client
        self.parts = parts
        self.make = make
        self.feature_names = feature_names
        self.n_features = n_features
        lengths = client.map(_length, parts, pure=False)
        self.sizes = [result_of(length, "sizes of partitions") for length in lengths]
        self.n_rows = int(sum(self.sizes))
        if self.n_rows == 0:
            raise ValueError(f"The {len(parts)} partition(s) of the Dask collection have no rows.")

    @classmethod
    def of(cls, X, sensitive_features):
        """The partitions of a Dask DataFrame or a Dask array, on the workers of the client."""
        if not hasattr(X, "to_delayed") or not hasattr(X, "ndim") or X.ndim != 2:
            shape = f" with {X.ndim} dimension(s)" if hasattr(X, "ndim") else ""
            raise TypeError(
                f"X is a Dask {type(X).__name__}{shape}, expected a DataFrame or an array with "
                "rows and columns."
            )
        client = _client()
        check_versions(client)
        if hasattr(X, "columns"):
            return cls._of_frame(client, X, sensitive_features)
        return cls._of_array(client, X, sensitive_features)

    @classmethod
    def _of_frame(cls, client, frame, sensitive_features):
        make = _FrameRows.of(frame, column_names(sensitive_features))
        parts = client.compute(frame.to_delayed())
        are_text = all(isinstance(name, str) for name in make.features)
        names = list(make.features) if are_text else None  # as scikit-learn has it
        return cls(client, parts, make, names, len(make.features))

    @classmethod
    def _of_array(cls, client, X, sensitive_features):
        import dask

        if np.isnan(X.shape[0]):
            raise ValueError(
                "X is a Dask array whose chunks have unknown sizes: call its compute_chunk_sizes() "
                "first."
            )
        X = X.rechunk({1: -1})
        parts = X.to_delayed()[:, 0].tolist()
        if sensitive_features is not None:
            groups = _groups_like(X, sensitive_features)
            parts = [dask.delayed(_pair)(*pair) for pair in zip(parts, groups, strict=True)]
        return cls(client, client.compute(parts), _ArrayRows(), None, X.shape[1])

    def read(self, missing):
        """All rows, if they are few: features, and the sensitive columns."""
        given = (self.client, self.parts, self.sizes, self.make, self.n_rows, missing)
        (raw,) = load_parts(*given)
        raw = result_of(raw, "reading")
        return raw.X, raw.columns

    def open(self, missing, n_jobs, n_clusters):
        """Look at all rows once; see `FileSource.open`."""
        given = (self.client, self.parts, self.sizes, self.make, _chunks.CHUNK_ROWS, missing)
        raw = load_parts(*given)
        self.parts = None  # the cluster keeps what chunks are made of no longer than needed
        asked = (self.n_features, n_clusters, n_jobs)
        opened = open_raw(self.client, raw, *asked, self.progress)
        digits = len(str(len(self.sizes) - 1))  # so that the order of names is that of partitions
        opened.rows.parts = [
            (f"part.{k:0{digits}d}.parquet", size) for k, size in enumerate(self.sizes)
        ]
        return opened


@dataclass(frozen=True)
class _FrameRows:
    """Rows of a pandas partition.

    Attributes
    ----------
    features, sensitive : tuple
        Names of columns.
    kinds : tuple of str
        What the names of the groups are in each sensitive column; None if nothing is known.
    """

    features: tuple
    sensitive: tuple
    kinds: tuple

    @classmethod
    def of(cls, frame, sensitive):
        """By the columns that a Dask DataFrame says its partitions have."""
        names = list(frame.columns)
        for name in sensitive:
            if name not in names:
                raise ValueError(
                    f"The column {name!r} of sensitive_features is not in the Dask DataFrame. It "
                    f"has: {', '.join(map(str, names[:20]))}."
                )
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"The Dask DataFrame has {names.count(name)} columns {name!r}.")
        features = [name for name in names if name not in sensitive]
        if not features:
            raise ValueError(
                "The Dask DataFrame has no columns but those of sensitive_features, expected at "
                "least one feature: there are no distances without."
            )
        _check_numbers(frame, features, "The Dask DataFrame")
        kinds = tuple(_kind_of_dtype(frame.dtypes[name]) for name in sensitive)
        return cls(tuple(features), tuple(sensitive), kinds)

    def __call__(self, frame, number, a, b, missing):
        where = f"Partition {number}"
        own = frame.iloc[a:b]
        for name in (*self.features, *self.sensitive):
            if name not in own.columns:
                raise ValueError(f"{where} lacks the column {name!r}.")
        _check_numbers(own, self.features, where)
        X = own[list(self.features)].to_numpy(dtype=np.float64, na_value=np.nan)
        X = np.ascontiguousarray(X)
        check_finite(X, self.features, where, a)
        columns = []
        for name, kind in zip(self.sensitive, self.kinds, strict=True):
            columns.append(_names_of_groups(own[name], name, kind, where, a, missing))
        return RawRows(X, columns)


class _ArrayRows:
    """Rows of a block of an array, alone or with its groups."""

    def __call__(self, part, number, a, b, missing):
        where = f"Block {number}"
        X, groups = part if isinstance(part, tuple) else (part, None)
        own = np.ascontiguousarray(X[a:b], dtype=np.float64)
        check_finite(own, range(own.shape[1]), where, a)
        columns = []
        if groups is not None:
            for values in groups[a:b].T:
                given = ("sensitive_features", None, where, a, missing)
                columns.append(_names_of_groups(values, *given))
        return RawRows(own, columns)


def _check_numbers(frame, features, where):
    for name in features:
        if frame.dtypes[name].kind not in "biuf":
            raise ValueError(
                f"{where} has a column {name!r} of type {frame.dtypes[name]}, expected numbers. "
                "Drop it, or encode it as numbers."
            )


def _kind_of_dtype(dtype):
    """What a sensitive column of this type holds, or None if that can be anything."""
    import pandas as pd
    import pyarrow as pa

    if dtype.kind == "O" and not isinstance(dtype, (pd.StringDtype, pd.ArrowDtype)):
        return None
    return kind_of_names(pa.array(pd.Series([], dtype=dtype)).type)


def _names_of_groups(values, name, kind, where, row, missing):
    """A sensitive column as an arrow array, like those of other partitions."""
    import pyarrow as pa
    import pyarrow.types as types

    try:
        column = plain(pa.array(values, from_pandas=True))
    except pa.ArrowException as error:
        raise ValueError(
            f"{where} has groups of different types in column {name!r}: {error}"
        ) from error
    if missing == "error":
        check_groups_known(column, name, where, row)
    found = kind_of_names(column.type)
    if kind is not None and found != kind and not types.is_null(column.type):
        raise ValueError(
            f"{where} has a column {name!r} of type {column.type}, expected {kind} as in the Dask "
            "DataFrame: its groups would not be the same as elsewhere."
        )
    return pa.chunked_array([column])


def _groups_like(X, sensitive_features):
    """Blocks of the groups of a Dask array's rows, cut as its own; columns of each are groups."""
    import dask.array as da

    groups = sensitive_features
    if not isinstance(groups, da.Array):
        groups = np.asarray(groups)
    if groups.ndim not in (1, 2) or groups.shape[0] != X.shape[0] or 0 in groups.shape[1:]:
        raise ValueError(
            f"sensitive_features has shape {groups.shape}, expected ({X.shape[0]},) or "
            f"({X.shape[0]}, n_columns), since X has {X.shape[0]} rows: every row needs exactly "
            "one group."
        )
    if not isinstance(groups, da.Array):
        groups = da.from_array(groups, chunks=(X.chunks[0], *groups.shape[1:]))
    groups = groups[:, None] if groups.ndim == 1 else groups
    return groups.rechunk((X.chunks[0], groups.shape[1:])).to_delayed()[:, 0].tolist()


def _pair(block, groups):
    return block, groups


def _length(part):
    return len(part[0]) if isinstance(part, tuple) else len(part)


def _client():
    try:
        from distributed import get_client
    except ImportError as error:
        raise ImportError(
            "X is a Dask collection, which needs dask.distributed: pip install 'fairanchor[dask]'."
        ) from error
    try:
        return get_client()
    except ValueError:
        raise RuntimeError(
            "X is a Dask collection, but there is no Dask client. Start one first: "
            "dask.distributed.Client() for this machine, or Client(address) of a scheduler."
        ) from None
