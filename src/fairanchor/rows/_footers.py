"""What the footers of a dataset's files say: rows and columns, before any row is read."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class RowFile:
    """One file.

    Attributes
    ----------
    path : str
        In the file system of the dataset.
    kind : {"parquet", "ipc"}
    pieces : ndarray of int
        Rows of each row group or record batch.
    size, modified : int
        When it was first looked at: another size or time is another file.
    """

    path: str
    kind: str
    pieces: np.ndarray
    size: int
    modified: int

    @property
    def n_rows(self):
        return int(self.pieces.sum())


@dataclass(frozen=True)
class Footers:
    """What the footers of a dataset's files say.

    Attributes
    ----------
    dataset : pyarrow.dataset.FileSystemDataset
    opened : list of (RowFile, pyarrow.Schema)
    """

    dataset: object
    opened: list

    @classmethod
    def of(cls, dataset):
        """Look at all files."""
        kind = _kind_of(dataset)
        _refuse_filter(dataset)
        opened = [_look_at(dataset.filesystem, path, kind) for path in dataset.files]
        if not opened:
            raise ValueError("The dataset has no files, expected at least one with rows.")
        return cls(dataset, opened)

    @property
    def names(self):
        """Of all columns: a dataset's own schema is that of its first file, others may have more.

        Returns
        -------
        names : list of str
        """
        return list(dict.fromkeys(name for _, schema in self.opened for name in schema.names))


def _kind_of(dataset):
    """``"parquet"`` or ``"ipc"``."""
    _refuse_other_datasets(dataset)
    format_ = dataset.format.default_extname
    kinds = {"parquet": "parquet", "ipc": "ipc", "arrow": "ipc", "feather": "ipc"}
    if format_ not in kinds:
        raise TypeError(
            f"The dataset is of format {format_!r}, expected Parquet or Arrow IPC files: every "
            "pass reads some rows of some files, which text cannot give. Write it as Parquet once "
            "(pyarrow.dataset.write_dataset)."
        )
    return kinds[format_]


def _refuse_other_datasets(dataset):
    if hasattr(dataset, "files"):
        return
    name = type(dataset).__name__
    advice = {
        "InMemoryDataset": "Its rows are in memory already: give fit the features of "
        "dataset.to_table(), and sensitive_features as values.",
        "UnionDataset": "Open all files as one: pyarrow.dataset.dataset([path, ...]).",
    }
    raise TypeError(
        f"The dataset is of type {name}, expected a FileSystemDataset of Parquet or Arrow IPC "
        f"files. {advice.get(name, 'Write it as Parquet once (pyarrow.dataset.write_dataset).')}"
    )


def _refuse_filter(dataset):
    """Refuse a dataset of which only some rows are meant: files are read as they are."""
    if getattr(dataset, "_scan_options", None):
        raise ValueError(
            "The dataset has a filter, expected one without: rows are found by their number in "
            "their file. Write the rows that are wanted to files of their own "
            "(pyarrow.dataset.write_dataset)."
        )


def stamp_of(filesystem, path):
    """Size of a file in bytes, and when it was changed."""
    from pyarrow.fs import FileType

    info = filesystem.get_file_info(path)
    if info.type == FileType.NotFound:
        raise ValueError(f"{path} does not exist any more.")
    return int(info.size), int(info.mtime_ns or 0)


def one_line(error):
    """What an error says, without line breaks and without a full stop."""
    return " ".join(str(error).split()).rstrip(".")


def _look_at(filesystem, path, kind):
    """A file and its schema, from its footer."""
    import pyarrow as pa

    size, modified = stamp_of(filesystem, path)
    try:
        with filesystem.open_input_file(path) as source:
            pieces, schema = _FOOTERS[kind](source)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} could not be opened as {kind}: {one_line(error)}.") from error
    return RowFile(path, kind, np.array(pieces, dtype=np.int64), size, modified), schema


def _parquet_footer(source):
    import pyarrow.parquet as pq

    file = pq.ParquetFile(source)
    groups = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
    return groups, file.schema_arrow


def _ipc_footer(source):
    import pyarrow as pa

    schema = pa.ipc.open_file(source).schema
    if len(schema) == 0:
        return [], schema
    # pyarrow knows the rows of a batch only once the batch is read: read one column of it.
    file = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=[0]))
    return [file.get_batch(k).num_rows for k in range(file.num_record_batches)], schema


_FOOTERS = {"parquet": _parquet_footer, "ipc": _ipc_footer}
