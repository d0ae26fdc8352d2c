"""Numbers of rows in Arrow files, found without reading the rows."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fairanchor.rows import _footers, _row_files
from fairanchor.rows._footers import Footers
from fairanchor.rows._ipc_footer import rows_of_batches
from fairanchor.rows._row_files import RowFiles


def written(sizes, **options):
    """Bytes of an Arrow file with record batches of these sizes."""
    sink = io.BytesIO()
    schema = pa.schema([("x", pa.float64()), ("g", pa.string())])
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for size in sizes:
            columns = [np.arange(float(size)), ["a"] * size]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    return sink.getvalue()


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 300), max_size=8),
    compression=st.sampled_from([None, "lz4", "zstd"]),
    legacy=st.booleans(),
)
def test_rows_of_batches_are_those_of_the_batches_that_pyarrow_reads(sizes, compression, legacy):
    content = written(sizes, compression=compression, use_legacy_format=legacy)
    file = pa.ipc.open_file(pa.BufferReader(content))
    read = [file.get_batch(k).num_rows for k in range(file.num_record_batches)]
    assert rows_of_batches(pa.BufferReader(content)) == read == sizes


def test_a_file_with_dictionaries_and_metadata_is_understood():
    table = pa.table({"g": pa.array(["a", "b"] * 500).dictionary_encode(), "x": np.arange(1000.0)})
    table = table.replace_schema_metadata({"note": "ä" * 300})
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=300)
    assert rows_of_batches(pa.BufferReader(sink.getvalue())) == [300, 300, 300, 100]


class CountingFile(io.BytesIO):
    """Counts the bytes that are read."""

    n_read = 0

    def read(self, size=-1):
        content = super().read(size)
        self.n_read += len(content)
        return content


def test_hardly_anything_of_the_file_is_read():
    content = written([100_000] * 5)
    source = CountingFile(content)
    pieces, schema = _footers._ipc_footer(pa.PythonFile(source, mode="r"))
    assert pieces == [100_000] * 5
    assert schema.names == ["x", "g"]
    assert source.n_read < 0.01 * len(content)


def test_only_the_wanted_columns_of_an_arrow_file_are_read(tmp_path):
    wide = {f"x{j}": np.random.default_rng(j).normal(size=20_000) for j in range(30)}
    table = pa.table(wide | {"g": pa.array(["a", "b"] * 10_000).dictionary_encode()})
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=5_000)
    source = CountingFile(sink.getvalue())
    columns = ["g", "x7"]
    batches = list(_row_files._read_ipc(pa.PythonFile(source, mode="r"), columns, range(1, 3)))
    assert pa.Table.from_batches(batches).equals(table.select(columns).slice(5_000, 10_000))
    assert source.n_read < 0.1 * len(sink.getvalue())


def test_damaged_footers_are_errors_or_do_not_matter():
    content = written([50, 70])
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        damaged = bytearray(content)
        damaged[int(rng.integers(len(content) - 400, len(content)))] = int(rng.integers(256))
        try:
            found = rows_of_batches(pa.BufferReader(bytes(damaged)))
        except OSError:
            refused += 1
        else:
            assert all(n >= 0 for n in found)
    assert refused > 10
    for short in (b"", b"ARROW1", content[:-1], content[-200:]):
        with pytest.raises(OSError, match="footer|Arrow file"):
            rows_of_batches(pa.BufferReader(short))


@pytest.fixture
def folder(tmp_path):
    for k in range(3):
        (tmp_path / f"f{k}.arrow").write_bytes(written([100, 50]))
    return tmp_path


def test_footers_are_looked_at_once(folder, monkeypatch):
    seen, look_at = [], _footers._look_at
    monkeypatch.setattr(
        _footers, "_look_at", lambda *given: seen.append(given[1]) or look_at(*given)
    )
    footers = Footers.of(ds.dataset(folder, format="ipc"))
    assert footers.names == ["x", "g"]
    files = RowFiles.of(footers, ["x"], ["g"])
    assert len(seen) == 3
    assert files.n_rows == 450
    X, (names,) = files.read(140, 160)
    assert_array_equal(X[:, 0], [*np.arange(40.0, 50.0), *np.arange(10.0)])
    assert names.to_pylist() == ["a"] * 20


def test_an_arrow_file_cut_short_is_told_with_its_name(folder):
    dataset = ds.dataset(folder, format="ipc")
    path = folder / "f1.arrow"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"f1\.arrow could not be opened as ipc: it does not end"):
        Footers.of(dataset)
