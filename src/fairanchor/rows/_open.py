"""From what users hand to ``fit`` to rows in chunks: pyarrow datasets and Dask collections."""

from dataclasses import dataclass
from functools import partial

from fairanchor._utils._scaling import scale_of_largest
from fairanchor.rows import _chunks
from fairanchor.rows._stream import ChunkLoader, GroupEncoder, StreamedRows, read_ahead
from fairanchor.rows._survey import merge_surveys, survey_rows


@dataclass(frozen=True)
class OpenedRows:
    """Rows that are elsewhere, ready to be swept.

    Attributes
    ----------
    rows : ChunkedRows
    groups : Groups
        Without codes.
    scale : float
        What the features were multiplied by.
    """

    rows: object
    groups: object
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
        Given what tells the run from others (`identity_of_run`), gives its `Journal`.
    progress : callable or None
        Called with a pass's title, the number of chunks done, and of all.
    """

    dataset: object
    features: object = None
    client: object = None
    checkpoint: object = None
    progress: object = None

    def source(self, sensitive_features):
        """The rows of the table."""
        from fairanchor.rows._row_files import RowFiles

        files = self.dataset
        if not isinstance(files, RowFiles):
            files = RowFiles.of(files, self.features, column_names(sensitive_features))
        source = FileSource(files) if self.client is None else FilesOnDaskSource(files, self.client)
        source.checkpoint, source.progress = self.checkpoint, self.progress
        return source


def kind_of(X):
    """``"files"``, ``"dask"``, or None for what is in memory."""
    module = type(X).__module__
    if isinstance(X, FileTable) or (
        module.startswith("pyarrow") and type(X).__name__.endswith("Dataset")
    ):
        return "files"
    return "dask" if module.startswith("dask") else None


def source_of(X, sensitive_features):
    """The rows behind X: `FileSource`, `FilesOnDaskSource` or `CollectionSource`."""
    if kind_of(X) == "files":
        table = X if isinstance(X, FileTable) else FileTable(X)
        return table.source(sensitive_features)
    from fairanchor.rows._collections import CollectionSource

    return CollectionSource.of(X, sensitive_features)


def column_names(sensitive_features):
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


class FileSource:
    """Files that this process reads, a chunk at a time.

    Parameters
    ----------
    files : RowFiles
    """

    checkpoint = None
    progress = None

    def __init__(self, files):
        self.files = files
        self.n_rows = files.n_rows
        self.feature_names = files.feature_names

    def read(self, missing):
        """All rows, if they are few: features, and the sensitive columns."""
        return self.files.read(0, self.n_rows, missing)

    def fingerprint(self):
        """What tells these rows from others."""
        return self.files.fingerprint()

    def open(self, missing, n_jobs, n_clusters):
        """Look at all rows once.

        Parameters
        ----------
        missing : {"error", "own_group"}
            What missing groups mean.
        n_jobs : int or None
        n_clusters : int
            For which whoever keeps rows keeps scores as well.

        Returns
        -------
        opened : OpenedRows
        """
        chunk_rows = _chunks.CHUNK_ROWS
        n_chunks = -(-self.n_rows // chunk_rows)
        look = partial(_survey_files, self.files, chunk_rows, missing)
        surveys = []
        for survey in read_ahead(look, n_chunks):
            surveys.append(survey)
            if self.progress is not None:
                self.progress("first look", len(surveys), n_chunks)
        groups, sizes, largest = merge_surveys(surveys)
        scale = scale_of_largest(largest)
        encoder = GroupEncoder(tuple(groups.names))
        loader = ChunkLoader(self.files, encoder, scale, chunk_rows, n_jobs)
        rows = StreamedRows(loader, sizes)
        rows.parts = self.files.parts
        return OpenedRows(rows, groups, scale)


def _survey_files(files, chunk_rows, missing, number):
    start = number * chunk_rows
    X, columns = files.read(start, min(start + chunk_rows, files.n_rows), missing)
    return survey_rows(X, columns, start)


class FilesOnDaskSource(FileSource):
    """Files that the workers of a cluster read and keep.

    Parameters
    ----------
    files : RowFiles
    client : distributed.Client
    """

    def __init__(self, files, client):
        super().__init__(files)
        self.client = client

    def open(self, missing, n_jobs, n_clusters):
        from fairanchor.rows._dask import check_versions, load_files

        check_versions(self.client)
        raw = load_files(self.client, self.files, _chunks.CHUNK_ROWS, missing)
        asked = (len(self.feature_names), n_clusters, n_jobs)
        opened = open_raw(self.client, raw, *asked, self.progress)
        opened.rows.parts = self.files.parts
        return opened


def open_raw(client, raw, n_features, n_clusters, n_jobs, progress=None):
    """Rows on a cluster from futures of `RawRows`."""
    from fairanchor.rows._dask import DaskRows, survey_chunks, with_codes

    chunk_rows = _chunks.CHUNK_ROWS
    groups, sizes, largest = merge_surveys(survey_chunks(client, raw, chunk_rows, progress))
    scale = scale_of_largest(largest)
    encoder = GroupEncoder(tuple(groups.names))
    chunks = with_codes(client, raw, encoder, scale, chunk_rows, n_clusters)
    rows = DaskRows(client, chunks, n_features, sizes, chunk_rows, n_jobs)
    return OpenedRows(rows, groups, scale)
