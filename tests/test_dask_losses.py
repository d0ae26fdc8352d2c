"""A real cluster that loses what it has: its driver, its files, and memory that nobody counts."""

import os
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

pytest.importorskip("dask", reason="needs dask: pip install 'fairanchor[dask]'")
pytest.importorskip("distributed", reason="needs distributed: pip install 'fairanchor[dask]'")

import dask.array as da
from distributed import Client, LocalCluster

from fairanchor import AnchorFairClustering, FairKMeans
from fairanchor.cluster._large_scale import LargeScaleClusterer
from fairanchor.rows import _dask
from fairanchor.rows._checkpoint import Checkpoint
from fairanchor.rows._open import FileTable

pytestmark = [pytest.mark.xdist_group("dask"), pytest.mark.slow]

N_ROWS = 2_000
CHUNK_ROWS = 350
MODEL = AnchorFairClustering(3, graph="reconstruction", n_anchors=60, random_state=0)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", CHUNK_ROWS)


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=None
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster, set_as_default=False) as client, client.as_current():
        yield client


@pytest.fixture(scope="module")
def frame():
    """The first rows are whole numbers, so that many are equal."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 3)) + 4.0 * np.eye(3)[rng.integers(0, 3, size=N_ROWS)]
    X[:900] = np.round(X[:900])
    groups = {"g": rng.choice(["a", "b"], size=N_ROWS), "h": np.arange(N_ROWS) % 2}
    return pd.DataFrame(groups | {"x": X[:, 0], "y": X[:, 1], "z": X[:, 2]})


@pytest.fixture
def folder(frame, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for k in range(4):
        part = pa.Table.from_pandas(frame.iloc[500 * k : 500 * (k + 1)], preserve_index=False)
        pq.write_table(part.drop_columns("h"), folder / f"f{k}.parquet")
    return folder


def expected_labels(frame, groups="g"):
    model = clone(MODEL).fit(frame[["x", "y", "z"]], sensitive_features=frame[groups])
    return model.labels_


def gathered(model):
    return np.concatenate(list(model.iter_labels()))


# What is lost


DRIVER = """
import os, signal, sys
from functools import partial
import pyarrow.dataset as ds
from distributed import Client
from fairanchor import AnchorFairClustering
from fairanchor.cluster._large_scale import LargeScaleClusterer
from fairanchor.rows._checkpoint import Checkpoint
from fairanchor.rows._open import FileTable

def progress(title, done, n_chunks):
    if (title, done) == ("sweep", 2):
        os.kill(os.getpid(), signal.SIGKILL)

LargeScaleClusterer._chunk_rows = {chunk_rows}
table = FileTable(
    ds.dataset(sys.argv[1], format="parquet"), client=Client(sys.argv[2]),
    checkpoint=partial(Checkpoint, sys.argv[3]), progress=progress,
)
model = AnchorFairClustering(3, graph="reconstruction", n_anchors=60, random_state=0)
model.fit(table, sensitive_features="g")
"""


def test_a_killed_driver_of_a_cluster_goes_on_to_the_same_labels(client, folder, frame, tmp_path):
    script = DRIVER.format(chunk_rows=CHUNK_ROWS)
    arguments = [str(folder), client.scheduler.address, str(tmp_path / "kept")]
    ended = subprocess.run([sys.executable, "-c", script, *arguments], check=False, timeout=300)
    assert ended.returncode == -signal.SIGKILL
    titles = []
    table = FileTable(
        ds.dataset(folder, format="parquet"),
        client=client,
        checkpoint=partial(Checkpoint, tmp_path / "kept", resume=True),
        progress=lambda title, done, n_chunks: titles.append(title),
    )
    found = clone(MODEL).fit(table, sensitive_features="g")
    assert_array_equal(gathered(found), expected_labels(frame))
    assert "anchor graph" not in titles
    assert "sweep" in titles


def test_workers_that_die_again_and_again_are_told_with_what_helps(client, folder, monkeypatch):
    opened = (
        FileTable(ds.dataset(folder), client=client).source("g").open(CHUNK_ROWS, "error", None, 3)
    )
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(RuntimeError, match=r"'test' was given up: 1 worker\(s\) died.*memory"):
        opened.rows.each("test", kill_own_process)
    client.wait_for_workers(1, timeout=60)


def kill_own_process(chunk):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_file_cut_short_after_its_worker_was_killed_is_named(client, folder):
    """Its chunks have to be read again, and are not what they were."""
    model = clone(MODEL).fit(FileTable(ds.dataset(folder), client=client), sensitive_features="g")
    (before,) = client.run(os.getpid).values()
    path = folder / "f2.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    os.kill(before, signal.SIGKILL)
    end = time.monotonic() + 60
    while list(client.run(os.getpid, on_error="ignore").values()) in ([], [before]):
        assert time.monotonic() < end, "the worker did not come back"
        time.sleep(0.2)
    with pytest.raises(ValueError, match=r"f2\.parquet was changed since the run began"):
        gathered(model)


def test_workers_that_have_another_version_installed_raise(client, folder, tmp_path):
    """Found by the very files that an installation leaves, on the worker only."""
    installed = tmp_path / "site" / "fairanchor-0.0.1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: fairanchor\nVersion: 0.0.1\n")
    site = str(tmp_path / "site")
    client.run(lambda: sys.path.insert(0, site))
    try:
        with pytest.raises(
            RuntimeError, match=r"1 worker\(s\) .* tcp://\S+ has fairanchor 0\.0\.1"
        ):
            clone(MODEL).fit(FileTable(ds.dataset(folder), client=client), sensitive_features="g")
    finally:
        client.run(lambda: sys.path.remove(site))


# What is counted


def bytes_of_arrays(thing, seen):
    """Bytes of all arrays that a thing holds, each once."""
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return bytes_of_arrays(thing.base, seen) if thing.base is not None else thing.nbytes
    if isinstance(thing, dict):
        return sum(bytes_of_arrays(item, seen) for item in thing.values())
    if isinstance(thing, (list, tuple)):
        return sum(bytes_of_arrays(item, seen) for item in thing)
    return sum(bytes_of_arrays(item, seen) for item in getattr(thing, "__dict__", {}).values())


def held_by(dask_worker):
    return {key: bytes_of_arrays(thing, set()) for key, thing in dask_worker.data.items()}


@pytest.mark.parametrize(
    "model",
    [
        AnchorFairClustering(8, clusterer="fair_kmeans", random_state=0),
        AnchorFairClustering(
            8, clusterer="fair_kmeans", graph="reconstruction", n_anchors=60, random_state=0
        ),
        FairKMeans(8, random_state=0),
    ],
    ids=["local", "reconstruction", "FairKMeans"],
)
def test_the_scheduler_knows_all_that_workers_keep(model, client, folder):
    model = clone(model)
    model.fit(FileTable(ds.dataset(folder), client=client), sensitive_features="g")
    list(model.iter_labels())
    known = {k: n for k, n in client.nbytes(summary=False).items() if "-chunk-" in k}
    held = {}
    for own in client.run(held_by).values():
        held |= own
    assert len(known) == 6
    for key, n_bytes in known.items():
        assert 8 * CHUNK_ROWS < held[key] <= n_bytes


def test_threads_are_those_of_the_driver(client, folder):
    table = FileTable(ds.dataset(folder), client=client)
    opened = table.source("g").open(CHUNK_ROWS, "error", 2, 3)
    assert isinstance(opened.rows, _dask.DaskRows)
    assert opened.rows.n_jobs == 2
    assert opened.rows.draw([np.array([0]), np.array([0])]).rows.n_jobs == 2


# Groups of an array


def test_several_columns_of_groups_of_an_array_are_their_intersection(client, frame):
    X = da.from_array(frame[["x", "y", "z"]].to_numpy(), chunks=(300, 3))
    expected = expected_labels(frame, ["g", "h"])
    groups = frame[["g", "h"]].to_numpy(dtype=object)
    for given in (groups, da.from_array(groups, chunks=(700, 1))):
        found = clone(MODEL).fit(X, sensitive_features=given)
        assert_array_equal(gathered(found), expected)
        assert found.groups_.tolist() == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    with pytest.raises(ValueError, match=r"shape \(2000, 0\), expected \(2000,\) or \(2000, n_col"):
        clone(MODEL).fit(X, sensitive_features=np.empty((N_ROWS, 0)))
