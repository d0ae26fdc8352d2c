"""Rows on real clusters of processes: the labels of memory, also when a worker is killed."""

import gc
import os
import pickle
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

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
from distributed import Client, LocalCluster

from fairanchor import (
    AnchorFairClustering,
    FairKMeans,
    FairnessTargets,
    ReconstructionGraph,
    SociallyFairKMeans,
)
from fairanchor.assignment import _sweep, _transport
from fairanchor.cluster._large_scale import LargeScaleClusterer
from fairanchor.exceptions import FairnessWarning
from fairanchor.rows import _chunks, _dask
from fairanchor.rows._checkpoint import Checkpoint
from fairanchor.rows._dask import check_versions
from fairanchor.rows._open import FileTable

# Clusters take seconds to start: one test process starts one for all.
pytestmark = [pytest.mark.xdist_group("dask"), pytest.mark.slow]

N_ROWS = 2_000
CHUNK_ROWS = 350
EDGES = [0, 150, 150, 900, 901, N_ROWS]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", CHUNK_ROWS)


class WatchedCluster(LocalCluster):
    """Forgets a worker that was killed before the cluster has seen it, for which others fail."""

    def _update_worker_status(self, op, msg):
        if op != "remove" or msg in self.scheduler_info["workers"]:
            super()._update_worker_status(op, msg)


@pytest.fixture(scope="module")
def cluster():
    with WatchedCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        memory_limit=None,
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """The client that collections find, once workers that a test has killed are back."""
    with Client(cluster, set_as_default=False) as client, client.as_current():
        client.wait_for_workers(1, timeout=60)
        wait_until(lambda: _all_respond(client))
        yield client


def _all_respond(client):
    try:
        return bool(client.run(os.getpid))
    except (KeyError, OSError):
        return False


def scale(client, n_workers):
    """Start or stop workers until there are so many."""
    client.cluster.scale(n_workers)
    client.wait_for_workers(n_workers, timeout=60)
    wait_until(lambda: len(client.scheduler_info(n_workers=-1)["workers"]) == n_workers)


def wait_until(condition, seconds=30.0):
    """Clusters learn of things a little later."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def frame():
    """Whole and equal rows among them, and three groups, one of which comes late."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 3)) + 4.0 * np.eye(3)[rng.integers(0, 3, size=N_ROWS)]
    X[:600] = np.round(X[:600])
    groups = rng.choice(["b", "a"], size=N_ROWS)
    groups[-200:] = rng.choice(["b", "a", "c"], size=200)
    return pd.DataFrame({"g": groups, "x": X[:, 0], "y": X[:, 1], "z": X[:, 2]})


@pytest.fixture(scope="module")
def dataset(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dask")
    for k, (a, b) in enumerate(zip(EDGES[:-1], EDGES[1:], strict=True)):
        table = pa.Table.from_pandas(frame.iloc[a:b], preserve_index=False)
        pq.write_table(table, folder / f"f{k}.parquet", row_group_size=200)
    return ds.dataset(folder, format="parquet")


def parts_of(frame, edges=EDGES):
    return [frame.iloc[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)]


def dask_frame(parts, meta=None):
    """A Dask DataFrame of these partitions, whatever they are."""
    meta = parts[0].iloc[:0] if meta is None else meta
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=meta, verify_meta=False)


# The reconstruction graph has the most kinds of passes.
MODEL = AnchorFairClustering(3, graph="reconstruction", n_anchors=60, random_state=0)


@pytest.fixture(scope="module")
def expected(frame):
    """The model of the rows in memory, in as many chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LargeScaleClusterer, "_chunk_rows", CHUNK_ROWS)
        return clone(MODEL).fit(frame[["x", "y", "z"]], sensitive_features=frame["g"])


def assert_same_model(found, expected):
    assert_array_equal(np.concatenate(list(found.iter_labels())), expected.labels_)
    assert found.groups_.tolist() == expected.groups_.tolist()
    for name in ("counts_", "cluster_centers_", "assignment_prices_", "multipliers_", "anchors_",
                 "inertia_", "n_iter_", "cost_path_", "lp_value_"):  # fmt: skip
        assert hasattr(found, name) == hasattr(expected, name), name
        if hasattr(expected, name):
            assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert getattr(found, "history_", None) == getattr(expected, "history_", None)


# The same labels


def test_any_number_of_workers_gives_the_labels_of_memory(client, dataset, expected, tmp_path):
    for n_workers in (1, 2, 4):
        scale(client, n_workers)
        table = FileTable(dataset, client=client)
        found = clone(MODEL).fit(table, sensitive_features="g")
        assert_same_model(found, expected)
    found.write_labels(tmp_path / "out")
    scale(client, 2)
    written = ds.dataset(tmp_path / "out").to_table().column("cluster").to_numpy()
    assert_array_equal(written, expected.labels_)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"f{k}.parquet" for k in range(5)]
    copied = pickle.loads(pickle.dumps(found))
    new = pd.DataFrame(found.anchors_, columns=found.feature_names_in_)
    groups = ["a"] * len(new)
    assert_array_equal(
        copied.predict(new, sensitive_features=groups),
        found.predict(new, sensitive_features=groups),
    )


def test_a_worker_with_several_threads_gives_the_labels_of_memory(dataset, expected):
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=4, processes=False, dashboard_address=":0"
        ) as threads,
        Client(threads, set_as_default=False) as client,
    ):
        found = clone(MODEL).fit(FileTable(dataset, client=client), sensitive_features="g")
        assert_same_model(found, expected)


OTHER_MODELS = {
    "default": AnchorFairClustering(3, random_state=0),
    "fair k-means on the anchors": AnchorFairClustering(
        3, clusterer="fair_kmeans", fairness="anchors", random_state=0
    ),
    "fdas": AnchorFairClustering(3, anchors="fdas", n_anchors=60, random_state=0),
    "FairKMeans": FairKMeans(3, random_state=0),
    "cosine": FairKMeans(3, metric="cosine", random_state=0),
    "sizes": FairKMeans(3, fairness=FairnessTargets(max_size=700), random_state=0),
    "SociallyFairKMeans": SociallyFairKMeans(3, n_init=4, random_state=0),
    "FairKMeans from labels": FairKMeans(3, init=np.arange(N_ROWS) % 3, random_state=0),
}


@pytest.mark.parametrize("name", OTHER_MODELS)
def test_other_models_give_the_labels_of_memory(name, client, dataset, frame):
    model = OTHER_MODELS[name]
    expected = clone(model).fit(frame[["x", "y", "z"]], sensitive_features=frame["g"])
    found = clone(model).fit(FileTable(dataset, client=client), sensitive_features="g")
    assert_same_model(found, expected)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["default", "fdas", "FairKMeans", "few passes"])
def test_bands_above_the_budget_give_the_labels_of_memory(
    name, client, dataset, frame, monkeypatch
):
    monkeypatch.setattr(_sweep, "MOST_ENTRIES", 200)
    monkeypatch.setattr(_sweep, "ENTRIES_PER_CELL", 0)
    monkeypatch.setattr(_transport, "FEW_ENTRIES", 0)
    few = FairKMeans(3, tol=0.0, max_passes=4, random_state=0)
    model = OTHER_MODELS.get(name, few)
    expected = clone(model).fit(frame[["x", "y", "z"]], sensitive_features=frame["g"])
    for table in (FileTable(dataset, client=client), dataset):
        found = clone(model).fit(table, sensitive_features="g")
        assert_same_model(found, expected)


def test_a_data_frame_gives_the_labels_of_memory(client, frame, expected, tmp_path):
    """One of its partitions is empty, one has a single row, one has categories for groups."""
    parts = parts_of(frame)
    parts[3] = parts[3].astype({"g": "category"})
    found = clone(MODEL).fit(dask_frame(parts), sensitive_features="g")
    assert_same_model(found, expected)
    assert found.feature_names_in_.tolist() == ["x", "y", "z"]
    found.write_labels(tmp_path / "out")
    rows = [pq.read_metadata(tmp_path / "out" / f"part.{k}.parquet").num_rows for k in range(5)]
    assert rows == np.diff(EDGES).tolist()


def test_arrays_give_the_labels_of_memory(client, frame, expected):
    X = da.from_array(frame[["x", "y", "z"]].to_numpy(), chunks=(333, 2))
    groups = frame["g"].to_numpy(dtype=str)
    for given in (groups, da.from_array(groups, chunks=(500,)), groups.tolist()):
        found = clone(MODEL).fit(X, sensitive_features=given)
        assert_same_model(found, expected)
    assert not hasattr(found, "feature_names_in_")


def test_collections_of_one_chunk_are_read_into_memory(client, frame, monkeypatch):
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", N_ROWS)
    expected = clone(MODEL).fit(frame[["x", "y", "z"]], sensitive_features=frame["g"])
    for X, groups in (
        (dask_frame(parts_of(frame)), "g"),
        (da.from_array(frame[["x", "y", "z"]].to_numpy(), chunks=(333, 2)), frame["g"].tolist()),
    ):
        found = clone(MODEL).fit(X, sensitive_features=groups)
        assert_array_equal(found.labels_, expected.labels_)


def test_several_columns_and_missing_groups(client, frame):
    """Integers with missing values in some partitions only."""
    years = (np.arange(N_ROWS) % 2 + 1990).astype(object)
    years[800:820] = None
    frame = frame.assign(year=pd.array(years, dtype="Int64"))
    model = clone(MODEL).set_params(missing_groups="own_group")
    columns = pd.DataFrame({"g": frame["g"], "year": years})
    expected = clone(model).fit(frame[["x", "y", "z"]], sensitive_features=columns)
    found = clone(model).fit(dask_frame(parts_of(frame)), sensitive_features=["g", "year"])
    assert_same_model(found, expected)
    assert ("a", 1990) in found.groups_.tolist()
    assert ("a", None) in found.groups_.tolist()
    assert found.sensitive_names_in_.tolist() == ["g", "year"]
    rows, swapped = frame[["x", "y", "z"]], columns[["year", "g"]]
    labels = expected.predict(rows, sensitive_features=columns)
    assert_array_equal(found.predict(rows, sensitive_features=swapped), labels)


def test_no_groups_are_one_group_with_a_warning(client, frame):
    X = frame[["x", "y", "z"]].to_numpy()
    with pytest.warns(FairnessWarning, match="one group"):
        expected = clone(MODEL).fit(X)
    with pytest.warns(FairnessWarning, match="one group"):
        found = clone(MODEL).fit(da.from_array(X, chunks=(300, 3)))
    assert_same_model(found, expected)


def test_a_run_begun_in_files_goes_on_on_a_cluster(client, dataset, expected, tmp_path):
    class Stopped(Exception):
        pass

    def stop(title, done, n_chunks):
        if (title, done) == ("sweep", 2):
            raise Stopped

    begun = FileTable(dataset, checkpoint=partial(Checkpoint, tmp_path), progress=stop)
    with pytest.raises(Stopped):
        clone(MODEL).fit(begun, sensitive_features="g")
    titles = []
    found = clone(MODEL).fit(
        FileTable(
            dataset,
            client=client,
            checkpoint=partial(Checkpoint, tmp_path, resume=True),
            progress=lambda title, done, n_chunks: titles.append(title),
        ),
        sensitive_features="g",
    )
    assert "anchor graph" not in titles
    assert titles[:6] == ["first look"] * 6
    assert_same_model(found, expected)


def test_workers_compile_kernels_when_they_join(client, dataset, tmp_path):
    scale(client, 1)
    FairKMeans(3, random_state=0).fit(FileTable(dataset, client=client), sensitive_features="g")

    def kernels(dask_worker):
        from fairanchor._kernels._sweep import classify

        return len(classify.signatures)

    known = client.run(kernels)
    assert min(known.values()) > 0
    scale(client, 3)  # the new ones have not seen any row
    now = client.run(kernels)
    assert len(now) == 3
    assert min(now.values()) == max(known.values())


# Workers that are lost


def test_a_worker_killed_within_a_pass_changes_no_label(
    client, dataset, expected, tmp_path, monkeypatch
):
    """It dies at the fourth chunk of a sum, when it holds chunks and results."""
    scale(client, 2)
    mark = str(tmp_path / "killed")

    def kill_once(kernel, chunk):
        if chunk.number == 3 and not os.path.exists(mark):
            with open(mark, "w") as file:
                file.write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return chunk.distinct.sum(kernel)

    monkeypatch.setattr(_chunks, "_sum_of_chunk", kill_once)
    found = clone(MODEL).fit(FileTable(dataset, client=client), sensitive_features="g")
    with open(mark) as file:
        killed = int(file.read())
    assert killed != os.getpid()
    alive = client.run(os.getpid).values()
    assert killed not in alive
    assert_same_model(found, expected)


def test_steps_leave_nothing_on_the_cluster(client, dataset):
    model = clone(MODEL).fit(FileTable(dataset, client=client), sensitive_features="g")

    def kinds():
        held = {key for keys in client.has_what().values() for key in keys}
        return {key.rsplit("-", 2)[0] for key in held}

    wait_until(lambda: kinds() == {"fairanchor-chunk"})
    del model
    gc.collect()
    wait_until(lambda: kinds() == set())


def test_labels_are_not_to_be_had_once_the_client_is_closed(cluster, dataset, tmp_path):
    with Client(cluster, set_as_default=False) as client:
        model = clone(MODEL).fit(FileTable(dataset, client=client), sensitive_features="g")
    with pytest.raises(RuntimeError, match="is closed. Write the labels before"):
        model.write_labels(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def folder(frame, tmp_path):
    """Files that may be changed."""
    folder = tmp_path / "data"
    folder.mkdir()
    for k, part in enumerate(parts_of(frame, range(0, N_ROWS + 1, 500))):
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), folder / f"f{k}.parquet")
    return folder


def gathered(model):
    return np.concatenate(list(model.iter_labels()))


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


def test_a_killed_driver_of_a_cluster_is_resumed(client, folder, expected, tmp_path):
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
    assert_array_equal(gathered(found), expected.labels_)
    assert "anchor graph" not in titles
    assert "sweep" in titles


def test_workers_that_die_again_and_again_are_told_with_what_helps(client, folder, monkeypatch):
    rows, _, _ = (
        FileTable(ds.dataset(folder), client=client)
        .source("g")
        .open(CHUNK_ROWS, "error", None, 3, lambda n_groups: 20)
    )
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(RuntimeError, match=r"'test' failed on the cluster: .* died .*memory"):
        rows.each("test", kill_own_process)
    client.wait_for_workers(1, timeout=60)


def kill_own_process(chunk):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_file_cut_short_after_its_worker_was_killed_is_named(client, folder):
    """Its chunks have to be read again, and are not what they were."""
    scale(client, 1)
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
        with pytest.raises(RuntimeError, match=r"worker tcp://\S+ .* has fairanchor 0\.0\.1"):
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


# Groups of an array


def test_several_columns_of_groups_of_an_array_are_their_intersection(client, frame):
    X = da.from_array(frame[["x", "y", "z"]].to_numpy(), chunks=(300, 3))
    frame = frame.assign(h=np.arange(N_ROWS) % 2)
    groups = frame[["g", "h"]].to_numpy(dtype=object)
    expected = clone(MODEL).fit(frame[["x", "y", "z"]], sensitive_features=frame[["g", "h"]])
    for given in (groups, da.from_array(groups, chunks=(700, 1))):
        found = clone(MODEL).fit(X, sensitive_features=given)
        assert_same_model(found, expected)
    with pytest.raises(ValueError, match=r"shape \(2000, 0\), expected \(2000,\) or \(2000, n_col"):
        clone(MODEL).fit(X, sensitive_features=np.empty((N_ROWS, 0)))


# Errors


def test_a_collection_needs_a_client(frame):
    with pytest.raises(RuntimeError, match=r"no Dask client. Start one first: .*Client\(\)"):
        clone(MODEL).fit(dask_frame(parts_of(frame)), sensitive_features="g")


def test_a_collection_needs_distributed(frame, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "fairanchor.rows._dask")
    with pytest.raises(ImportError, match=r"pip install 'fairanchor\[dask\]'"):
        clone(MODEL).fit(da.zeros((5, 2)))


def test_a_cluster_without_workers_raises(monkeypatch):
    monkeypatch.setattr(_dask, "WAIT_SECONDS", 0.2)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty,
        Client(empty, set_as_default=False) as client,
        pytest.raises(RuntimeError, match="has no workers, and none came within 0.2 s. Start some"),
    ):
        check_versions(client)


def with_part(frame, number, **columns):
    """Partitions of which one has other columns; None drops one."""
    parts = parts_of(frame)
    for name, values in columns.items():
        part = parts[number].drop(columns=name)
        parts[number] = part if values is None else part.assign(**{name: values})
    return parts


def last_is(values, last):
    values = np.array(values, dtype=object if last is None else None)
    values[-1] = last
    return values


WRONG_PARTS = {
    "NaN": (
        {"y": last_is(np.zeros(750), np.nan)},
        "Partition 2 has a missing value .* in column 'y', row 749",
    ),
    "infinity": ({"x": np.full(750, np.inf)}, "Partition 2 has infinity in column 'x', row 0"),
    "a missing group": (
        {"g": last_is(["a"] * 750, None)},
        "Partition 2 has 1 or more missing values in column 'g' of sensitive_features, the first "
        "in row 749",
    ),
    "a missing feature": ({"z": None}, "Partition 2 has 0 columns 'z'"),
    "a missing sensitive column": ({"g": None}, "Partition 2 has 0 columns 'g'"),
    "text for numbers": (
        {"x": ["one"] * 750},
        "Partition 2 has a column 'x' of type .*, expected numbers",
    ),
    "another type of groups": (
        {"g": np.arange(750)},
        "groups of partitions 0 to 2 are of different types",
    ),
}


@pytest.mark.parametrize("case", WRONG_PARTS)
def test_what_is_wrong_with_one_partition_is_named(case, client, frame):
    columns, message = WRONG_PARTS[case]
    collection = dask_frame(with_part(frame, 2, **columns))
    with pytest.raises(ValueError, match=message):
        clone(MODEL).fit(collection, sensitive_features="g")


def test_what_is_wrong_with_one_file_is_named(client, frame, tmp_path):
    for k, part in enumerate(with_part(frame, 2, y=last_is(np.zeros(750), np.inf))):
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), tmp_path / f"f{k}.parquet")
    table = FileTable(ds.dataset(tmp_path), client=client)
    with pytest.raises(ValueError, match=r"f2\.parquet has infinity in column 'y', row 749"):
        clone(MODEL).fit(table, sensitive_features="g")


def test_what_is_wrong_with_one_block_is_named(client, frame):
    X = frame[["x", "y", "z"]].to_numpy().copy()
    X[1_000, 1] = np.inf
    X = da.from_array(X, chunks=(300, 3))
    with pytest.raises(ValueError, match="Partition 3 has infinity in column 1, row 100"):
        clone(MODEL).fit(X, sensitive_features=frame["g"].tolist())
    groups = frame["g"].to_numpy(dtype=object)
    groups[500] = 7
    X = da.from_array(np.ones((N_ROWS, 3)), chunks=(300, 3))
    with pytest.raises(ValueError, match="Partition 1 has groups of different types"):
        clone(MODEL).fit(X, sensitive_features=groups)
    groups[CHUNK_ROWS : 2 * CHUNK_ROWS] = 7  # partitions and chunks of one type each
    X = X.rechunk((CHUNK_ROWS, 3))
    with pytest.raises(ValueError, match=r"different rows: .*7 \(int\)"):
        clone(MODEL).fit(X, sensitive_features=groups)


WRONG_ARGUMENTS = {
    "unknown column": (
        lambda frame: (dask_frame([frame]), "sex"),
        ValueError,
        "The Dask DataFrame has 0 columns 'sex', expected one. It has: g, x, y, z",
    ),
    "a text feature": (
        lambda frame: (dask_frame([frame]), None),
        ValueError,
        "has a column 'g' of type .*, expected numbers",
    ),
    "no features": (
        lambda frame: (dask_frame([frame]), ["g", "x", "y", "z"]),
        ValueError,
        "no columns but those of sensitive_features",
    ),
    "a series": (
        lambda frame: (dask_frame([frame]), frame["g"]),
        TypeError,
        "is a Series, expected the name of a column",
    ),
    "no rows": (
        lambda frame: (dask_frame([frame.iloc[:0]] * 2), "g"),
        ValueError,
        r"The 2 partition\(s\) of the Dask collection have no rows",
    ),
    "one dimension": (lambda frame: (da.zeros(9), None), TypeError, "Array with 1 dimension"),
    "a bag": (
        lambda frame: (dask.bag.from_sequence([1]), None),
        TypeError,
        "X is a Dask Bag, expected a DataFrame or an array",
    ),
    "too few groups": (
        lambda frame: (da.zeros((9, 2)), ["a"] * 8),
        ValueError,
        r"sensitive_features has shape \(8,\), expected \(9,\)",
    ),
    "unknown sizes": (
        lambda frame: (dask_frame([frame[["x"]]]).to_dask_array(), None),
        ValueError,
        "unknown sizes: call its compute_chunk_sizes",
    ),
}


@pytest.mark.parametrize("case", WRONG_ARGUMENTS)
def test_wrong_arguments_raise(case, client, frame):
    arguments, error, message = WRONG_ARGUMENTS[case]
    X, groups = arguments(frame)
    with pytest.raises(error, match=message):
        clone(MODEL).fit(X, sensitive_features=groups)


def test_what_needs_rows_in_memory_raises(client, dataset):
    table = FileTable(dataset, client=client)
    with pytest.raises(ValueError, match="sample_weight.*in memory"):
        clone(MODEL).fit(table, sensitive_features="g", sample_weight=np.ones(N_ROWS))
    with pytest.raises(ValueError, match="solver='admm'.*in memory"):
        clone(MODEL).set_params(graph=ReconstructionGraph(solver="admm")).fit(
            table, sensitive_features="g"
        )
