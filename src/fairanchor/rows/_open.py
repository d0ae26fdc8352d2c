"""From what users pass to ``fit`` to rows in chunks: pyarrow datasets and Dask collections."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairanchor.groups._columns import text_names
from fairanchor.groups._groups import Groups
from fairanchor.rows._chunks import Chunk, ChunkedRows, StreamedRows, read_ahead
from fairanchor.rows._raw_rows import RawRows, Survey, merge_surveys


class OpenedRows(NamedTuple):
    """Rows in chunks, their groups (without codes), and what features were multiplied by."""

    rows: ChunkedRows
    groups: Groups
    scale: float


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

    def source(self, sensitive_features: Any) -> "FileSource":
        """The rows of the table."""
        from fairanchor.rows._row_files import RowFiles  # loads pyarrow

        files = self.dataset
        if not isinstance(files, RowFiles):
            files = RowFiles.of(files, self.features, column_names(sensitive_features))
        return FileSource(files, self.client, self.checkpoint, self.progress)


def kind_of(X: Any) -> str | None:
    """``"files"``, ``"dask"``, or None for rows in memory."""
    module = type(X).__module__
    if isinstance(X, FileTable) or (
        module.startswith("pyarrow") and type(X).__name__.endswith("Dataset")
    ):
        return "files"
    return "dask" if module.startswith("dask") else None


def source_of(X: Any, sensitive_features: Any) -> Any:
    """The rows behind X: `FileSource` or `CollectionSource`."""
    if kind_of(X) == "files":
        table = X if isinstance(X, FileTable) else FileTable(X)
        return table.source(sensitive_features)
    from fairanchor.rows._dask import CollectionSource  # loads dask

    if hasattr(X, "columns"):
        sensitive_features = column_names(sensitive_features)
    return CollectionSource.of(X, sensitive_features)


def column_names(sensitive_features: Any) -> list[str]:
    """Names of the sensitive columns."""
    if sensitive_features is None:
        return []
    if isinstance(sensitive_features, str):
        return [sensitive_features]
    is_list = isinstance(sensitive_features, (list, tuple)) and len(sensitive_features) > 0
    if not is_list or not all(isinstance(name, str) for name in sensitive_features):
        raise TypeError(
            f"sensitive_features is a {type(sensitive_features).__name__}, expected the name of a "
            "column or a list of names: for rows that are not in memory, groups are read with them."
        )
    return list(sensitive_features)


def sensitive_names(X: Any, sensitive_features: Any) -> list[str] | None:
    """Names of the sensitive columns as ``fit`` gets them; None where they have none."""
    kind = kind_of(X)
    if kind == "files" or (kind == "dask" and hasattr(X, "columns")):
        names = column_names(sensitive_features)
        return names if names and len(set(names)) == len(names) else None
    return text_names(sensitive_features)


class FileSource:
    """Files that this process reads a chunk at a time, or that workers of a cluster keep."""

    def __init__(
        self,
        files: Any,
        client: Any = None,
        checkpoint: Callable | None = None,
        progress: Callable | None = None,
    ) -> None:
        self.files = files
        self.client = client
        self.checkpoint = checkpoint
        self.progress = progress
        self.n_rows: int = files.n_rows
        self.feature_names: list[str] = files.feature_names

    def read(self, missing: str) -> RawRows:
        """All rows, if they are few."""
        return RawRows(*self.files.read(0, self.n_rows, missing))

    def fingerprint(self) -> dict[str, Any]:
        """Identifies these rows."""
        return self.files.fingerprint()

    def open(
        self, chunk_rows: int, missing: str, n_jobs: int | None, n_clusters: int
    ) -> OpenedRows:
        """Read all rows once, for their groups and the range of their numbers.

        Parameters
        ----------
        chunk_rows : int
        missing : {"error", "own_group"}
            How missing groups are treated.
        n_jobs : int or None
        n_clusters : int
            Number of costs per row for which a cluster reserves memory.
        """
        files, n_chunks = self.files, -(-self.n_rows // chunk_rows)
        n_features = len(self.feature_names)
        if self.client is not None:
            from fairanchor.rows._dask import check_versions, open_raw, read_files

            check_versions(self.client)
            raw = read_files(self.client, files, chunk_rows, missing)
            opened = open_raw(
                self.client, raw, n_features, chunk_rows, n_clusters, n_jobs, self.progress
            )
            opened.rows.parts = files.parts
            return opened

        def read(number: int, missing: str = "own_group") -> tuple[int, RawRows]:
            start = number * chunk_rows
            return start, RawRows(*files.read(start, min(start + chunk_rows, self.n_rows), missing))

        def survey(number: int) -> Survey:
            start, raw = read(number, missing)
            return raw.survey(start)

        def load(number: int) -> Chunk:
            start, raw = read(number)
            return raw.coded(number, start, names, scale, n_jobs)

        surveys = read_ahead(survey, n_chunks)
        groups, sizes, scale = merge_surveys(surveys, n_chunks, self.progress)
        names = tuple(groups.names)
        rows = StreamedRows(load, n_features, sizes, chunk_rows, n_jobs)
        rows.parts = files.parts
        return OpenedRows(rows, groups, scale)
