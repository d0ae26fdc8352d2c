"""Dask data frames and arrays as rows in chunks."""

import numpy as np

from fairanchor.rows import _chunks
from fairanchor.rows._dask import RawRows, check_versions, load_parts
from fairanchor.rows._open import column_names, open_raw


class CollectionSource:
    """Partitions of a Dask collection.

    Parameters
    ----------
    client : distributed.Client
    parts : list of distributed.Future
    make : callable
        ``make(part, a, b)`` gives the `RawRows` of rows a to b of a partition.
    feature_names : list of str, or None
    n_features : int
    """

    def __init__(self, client, parts, make, feature_names, n_features):
        self.client = client
        self.parts = parts
        self.make = make
        self.feature_names = feature_names
        self.n_features = n_features
        self.sizes = client.gather(client.map(_length, parts, pure=False))
        self.n_rows = int(sum(self.sizes))

    @classmethod
    def of(cls, X, sensitive_features):
        """The partitions of a Dask DataFrame or a Dask array, on the workers of the client."""
        client = _client()
        check_versions(client)
        if hasattr(X, "columns"):
            return cls._of_frame(client, X, sensitive_features)
        return cls._of_array(client, X, sensitive_features)

    @classmethod
    def _of_frame(cls, client, frame, sensitive_features):
        names = [str(name) for name in frame.columns]
        sensitive = column_names(sensitive_features)
        for name in sensitive:
            if name not in names:
                raise ValueError(
                    f"The column {name!r} of sensitive_features is not in the Dask DataFrame. It "
                    f"has: {', '.join(names[:20])}."
                )
        features = [name for name in names if name not in sensitive]
        for name in features:
            if frame.dtypes[name].kind not in "biuf":
                raise ValueError(
                    f"The column {name!r} is of type {frame.dtypes[name]}, expected numbers. Drop "
                    "it, or encode it as numbers."
                )
        parts = client.compute(frame.to_delayed())
        return cls(client, parts, _FrameRows(features, sensitive), features, len(features))

    @classmethod
    def _of_array(cls, client, X, sensitive_features):
        import dask
        import dask.array as da

        if X.ndim != 2:
            raise ValueError(f"X is a Dask array with {X.ndim} dimensions, expected 2.")
        X = X.rechunk({1: -1})
        blocks = X.to_delayed()[:, 0].tolist()
        if sensitive_features is None:
            parts = client.compute(blocks)
            return cls(client, parts, _ArrayRows(), None, X.shape[1])
        groups = sensitive_features
        if not isinstance(groups, da.Array):
            groups = da.from_array(np.asarray(groups), chunks=(X.chunks[0],))
        if groups.ndim != 1 or groups.shape[0] != X.shape[0]:
            raise ValueError(
                f"sensitive_features has shape {groups.shape}, X has {X.shape[0]} rows: every row "
                "needs exactly one group."
            )
        groups = groups.rechunk((X.chunks[0],)).to_delayed().tolist()
        pairs = [dask.delayed(_pair)(*pair) for pair in zip(blocks, groups, strict=True)]
        return cls(client, client.compute(pairs), _ArrayRows(), None, X.shape[1])

    def read(self):
        """All rows, if they are few."""
        (raw,) = load_parts(self.client, self.parts, self.sizes, self.make, max(self.n_rows, 1))
        raw = raw.result()
        return raw.X, raw.columns

    def open(self, missing, n_jobs):
        """Look at all rows once; see `FileSource.open`."""
        given = (self.client, self.parts, self.sizes, self.make, _chunks.CHUNK_ROWS)
        raw = load_parts(*given)
        self.parts = None  # the cluster keeps what chunks are made of no longer than needed
        opened = open_raw(self.client, raw, self.n_features, missing)
        opened.rows.parts = [(f"part.{k}.parquet", size) for k, size in enumerate(self.sizes)]
        return opened


class _FrameRows:
    """Rows of a pandas partition."""

    def __init__(self, features, sensitive):
        self.features = features
        self.sensitive = sensitive

    def __call__(self, frame, a, b):
        import pyarrow as pa

        own = frame.iloc[a:b]
        missing = [name for name in self.features if name not in own.columns]
        if missing:
            raise ValueError(f"A partition lacks the column {missing[0]!r}.")
        X = np.ascontiguousarray(own[self.features].to_numpy(dtype=np.float64))
        _check_finite(X, self.features, own.index)
        columns = [
            pa.chunked_array([pa.array(own[name], from_pandas=True)]) for name in self.sensitive
        ]
        return RawRows(X, columns)


class _ArrayRows:
    """Rows of a block of an array, alone or with its groups."""

    def __call__(self, part, a, b):
        import pyarrow as pa

        X, groups = part if isinstance(part, tuple) else (part, None)
        own = np.ascontiguousarray(X[a:b], dtype=np.float64)
        _check_finite(own, range(own.shape[1]), range(a, b))
        columns = [] if groups is None else [pa.chunked_array([pa.array(groups[a:b])])]
        return RawRows(own, columns)


def _check_finite(X, features, index):
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        i, j = bad[0]
        what = "NaN" if np.isnan(X[i, j]) else "infinity"
        raise ValueError(
            f"A partition has {what} in column {features[j]!r}, index {index[i]!r}. Distances need "
            "finite numbers: impute or drop them."
        )


def _pair(block, groups):
    return block, groups


def _length(part):
    return len(part[0]) if isinstance(part, tuple) else len(part)


def _client():
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        raise RuntimeError(
            "X is a Dask collection, but there is no Dask client. Start one first: "
            "dask.distributed.Client() for this machine, or Client(address) of a scheduler."
        ) from None
