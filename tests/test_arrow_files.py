"""Arrow files: the rows of their record batches, and reading some columns of some rows."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fairanchor.rows import _row_files
from fairanchor.rows._row_files import Footers, RowFiles


def written(sizes, **options):
    """Bytes of an Arrow file with record batches of these sizes."""
    sink = io.BytesIO()
    schema = pa.schema([("x", pa.float64()), ("g", pa.string())])
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for size in sizes:
            columns = [np.arange(float(size)), ["a"] * size]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    return sink.getvalue()


def rows_of_batches(content):
    return _row_files._ipc_footer(pa.BufferReader(content))[0]


@given(
    sizes=st.lists(st.integers(0, 300), max_size=8),
    compression=st.sampled_from([None, "lz4", "zstd"]),
    legacy=st.booleans(),
)
def test_every_record_batch_is_counted(sizes, compression, legacy):
    content = written(sizes, compression=compression, use_legacy_format=legacy)
    assert rows_of_batches(content) == sizes


def test_batches_whose_first_column_is_a_dictionary_or_nested_are_counted():
    x = np.arange(1000.0)
    for first in (pa.array(["a", "b"] * 500).dictionary_encode(), pa.array([{"a": 1}] * 1000)):
        table = pa.table({"first": first, "x": x}).replace_schema_metadata({"note": "ä" * 300})
        sink = io.BytesIO()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=300)
        assert rows_of_batches(sink.getvalue()) == [300, 300, 300, 100]


def test_a_file_without_columns_has_no_rows():
    sink = io.BytesIO()
    pa.ipc.new_file(sink, pa.schema([])).close()
    assert rows_of_batches(sink.getvalue()) == []


def test_a_dataset_gives_the_same_rows_as_arrow_and_as_parquet(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({"g": rng.choice(["a", "b"], 1000), "x": rng.normal(size=1000)})
    for kind in ("ipc", "parquet"):
        ds.write_dataset(
            table, tmp_path / kind, format=kind, max_rows_per_group=90, max_rows_per_file=400
        )
    arrow, parquet = (
        RowFiles.of(ds.dataset(tmp_path / kind, format=kind), ["x"], ["g"])
        for kind in ("ipc", "parquet")
    )
    assert arrow.n_rows == parquet.n_rows == 1000
    for start, stop in ((0, 1000), (85, 95), (390, 410), (999, 1000)):
        found, expected = arrow.read(start, stop), parquet.read(start, stop)
        assert_array_equal(found.X, expected.X)
        assert_array_equal(found.X[:, 0], table["x"].to_numpy()[start:stop])
        assert found.columns["g"].to_pylist() == expected.columns["g"].to_pylist()


class CountingFile(io.BytesIO):
    """Counts the bytes that are read."""

    n_read = 0

    def read(self, size=-1):
        content = super().read(size)
        self.n_read += len(content)
        return content


def test_only_the_wanted_columns_of_an_arrow_file_are_read(tmp_path):
    wide = {f"x{j}": np.random.default_rng(j).normal(size=20_000) for j in range(30)}
    table = pa.table(wide | {"g": pa.array(["a", "b"] * 10_000).dictionary_encode()})
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=5_000)
    source = CountingFile(sink.getvalue())
    columns = ["g", "x7"]
    file = pa.PythonFile(source, mode="r")
    batches = list(_row_files._read_ipc(file, columns, range(1, 3), batch_rows=100))
    assert pa.Table.from_batches(batches).equals(table.select(columns).slice(5_000, 10_000))
    assert source.n_read < 0.1 * len(sink.getvalue())


@pytest.fixture
def folder(tmp_path):
    for k in range(3):
        (tmp_path / f"f{k}.arrow").write_bytes(written([100, 50]))
    return tmp_path


def test_rows_of_arrow_files_are_found_by_their_number(folder):
    footers = Footers.of(ds.dataset(folder, format="ipc"))
    assert footers.names == ["x", "g"]
    files = RowFiles.of(footers, ["x"], ["g"])
    assert files.n_rows == 450
    raw = files.read(140, 160)
    assert_array_equal(raw.X[:, 0], [*np.arange(40.0, 50.0), *np.arange(10.0)])
    assert raw.columns["g"].to_pylist() == ["a"] * 20


def test_an_arrow_file_cut_short_is_told_with_its_name(folder):
    dataset = ds.dataset(folder, format="ipc")
    path = folder / "f1.arrow"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"f1\.arrow could not be opened as ipc: .*Arrow file"):
        Footers.of(dataset)
