"""Files that would fill the memory are refused before they do."""

import gzip
import io
import os
import resource

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fairanchor.tables import _room
from fairanchor.tables._read import open_table


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(_room, "ALWAYS_UNPACKED", 10_000)


def packed(path, content):
    path.write_bytes(gzip.compress(content, mtime=0))
    return path


def test_a_bomb_is_refused_when_the_limit_is_passed(tmp_path, small_limits, monkeypatch):
    path = packed(tmp_path / "bomb.csv.gz", b"x,g\n" + b"1,a\n" * 1_000_000)
    unpacked = []
    read = _room._Unpacking.read
    monkeypatch.setattr(
        _room._Unpacking, "read", lambda self, n: unpacked.append(read(self, n)) or unpacked[-1]
    )
    with pytest.raises(ValueError, match=r"bomb.csv.gz unpacks to more than [\d,]+ bytes, 200 "):
        open_table(path).read(["x"])
    assert sum(map(len, unpacked)) < 3_000_000  # of 4,000,004


def test_a_bomb_in_a_format_that_is_read_at_any_place_is_refused(tmp_path, small_limits):
    path = packed(tmp_path / "bomb.parquet.gz", b"PAR1" + bytes(5_000_000))
    with pytest.raises(ValueError, match="unpacks to more than"):
        open_table(path)


def test_a_table_that_is_packed_well_is_read(tmp_path, small_limits):
    path = packed(tmp_path / "even.csv.gz", b"x,g\n" + b"1,a\n" * 4_000)
    assert path.stat().st_size < 1_000
    assert open_table(path).read(["x", "g"]).num_rows == 4_000


def test_more_rows_than_memory_are_refused_before_they_are_read(tmp_path, monkeypatch):
    """A Parquet file of a few kB can have any number of equal rows."""
    table = pa.table({"x": np.zeros(100_000), "y": np.zeros(100_000)})
    parquet.write_table(table, tmp_path / "even.parquet")
    monkeypatch.setattr(_room, "largest_memory", lambda: 1_000_000)
    source = open_table(tmp_path / "even.parquet")
    assert source.read(["x"]).num_rows == 100_000
    with pytest.raises(MemoryError, match="100,000 rows, and 2 columns .* 0.0 GB. A folder of"):
        source.read(["x", "y"])


def test_reading_is_refused_where_memory_is_short(tmp_path, monkeypatch):
    """pyarrow ends the process if it cannot have its buffers."""
    (tmp_path / "t.csv").write_text("x,y\n1,2\n")
    assert open_table(tmp_path / "t.csv").columns == ["x", "y"]
    monkeypatch.setattr(_room, "SPARE_BYTES", 2**60)
    with pytest.raises(MemoryError, match=r"Reading .*t.csv takes at least .* MB, and there is"):
        open_table(tmp_path / "t.csv")


def test_unpacking_is_refused_where_memory_is_short(tmp_path, monkeypatch):
    path = packed(tmp_path / "t.csv.gz", b"x,g\n" + b"1,a\n" * 1_000_000)
    source = open_table(path)
    looked = []

    def short(n_bytes, title):
        looked.append(n_bytes)
        if n_bytes > 1_000_000:
            raise MemoryError(f"Reading {title} takes more")

    monkeypatch.setattr(_room, "check_spare", short)
    with pytest.raises(MemoryError, match=r"t.csv.gz takes more"):
        source.read(["x"])
    assert max(looked) < 2_000_000  # half of 4,000,004, and not all was unpacked


def test_a_limit_of_the_process_counts(monkeypatch):
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    for limit, expected in ((unlimited, whole), ((5_000, 5_000), 5_000)):
        monkeypatch.setattr(resource, "getrlimit", lambda what, limit=limit: limit)
        assert _room.largest_memory() == expected


def test_damage_is_told_from_a_lack_of_memory():
    """pyarrow asks for what damaged lengths say."""
    buffer = io.BytesIO()
    parquet.write_table(pa.table({"x": [1.0]}), buffer)
    absurd = pa.ArrowMemoryError("malloc of size 1152921504606846976 failed")
    plausible = pa.ArrowMemoryError("malloc of size 1048576 failed")
    assert _room.is_damage(absurd, len(buffer.getvalue()))
    assert not _room.is_damage(plausible, len(buffer.getvalue()))
    assert not _room.is_damage(pa.ArrowMemoryError("out of memory"), 10)
