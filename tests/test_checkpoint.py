"""Runs that are stopped, by a signal or an error, and go on to the same labels."""

import signal
import subprocess
import sys
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.cluster import KMeans

import fairanchor
from fairanchor import AnchorFairClustering, FairKMeans, ReconstructionGraph
from fairanchor.cluster._large_scale import LargeScaleClusterer
from fairanchor.rows._checkpoint import Checkpoint, identity_of_run
from fairanchor.rows._open import FileTable
from tiers import first_is_fast

# One process runs the tests that share a finished run.
pytestmark = pytest.mark.xdist_group("checkpoint")

CHUNK_ROWS = 500
N_ROWS = 2_700


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", CHUNK_ROWS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows in two files, with three groups."""
    folder = tmp_path_factory.mktemp("checkpoint") / "data"
    folder.mkdir()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 3)) + 3.0 * np.eye(3)[rng.integers(0, 3, size=N_ROWS)]
    table = pa.table({"g": rng.choice(["a", "b", "c"], size=N_ROWS), "x": X[:, 0], "y": X[:, 1]})
    pq.write_table(table.slice(0, 1_000), folder / "one.parquet")
    pq.write_table(table.slice(1_000), folder / "two.parquet")
    return folder


class Stopped(Exception):
    """What stops a run in these tests."""


class StopAt:
    """Counts the chunks of all passes, and stops the run at one of them."""

    def __init__(self, step=None):
        self.step = step
        self.seen = []

    def __call__(self, title, done, n_chunks):
        self.seen.append((title, done))
        if len(self.seen) == self.step:
            raise Stopped


# The reconstruction graph has the most kinds of passes.
FRAMEWORK = AnchorFairClustering(3, graph="reconstruction", n_anchors=60, random_state=0)


def run(
    folder,
    checkpoint=None,
    *,
    estimator=FRAMEWORK,
    resume=False,
    progress=None,
    features=None,
    **parameters,
):
    """Fit a model with a checkpoint."""
    model = clone(estimator).set_params(**parameters)
    kept = None if checkpoint is None else partial(Checkpoint, checkpoint, resume=resume)
    dataset = ds.dataset(folder, format="parquet")
    table = FileTable(dataset, features, checkpoint=kept, progress=progress)
    return model.fit(table, sensitive_features="g")


def assert_whole(directory):
    """Nothing but finished passes."""
    names = sorted(item.name for item in directory.iterdir())
    assert names == [*(f"pass-{k:04d}.npz" for k in range(len(names) - 1)), "run.npz"]


def n_bytes(directory):
    return sum(item.stat().st_size for item in directory.iterdir())


def gathered(model):
    return np.concatenate(list(model.iter_labels()))


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    """A run that nobody stopped: its model, its steps and its checkpoint."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LargeScaleClusterer, "_chunk_rows", CHUNK_ROWS)
        steps = StopAt()
        checkpoint = tmp_path_factory.mktemp("finished")
        model = run(folder, checkpoint, progress=steps)
        return model, list(steps.seen), checkpoint


# Going on


def test_a_checkpoint_changes_no_label(finished, folder):
    plain = run(folder)
    assert_array_equal(gathered(plain), gathered(finished[0]))
    assert plain.inertia_ == finished[0].inertia_


@pytest.mark.slow
def test_a_run_stopped_in_any_pass_goes_on_to_the_same_labels(finished, folder, tmp_path):
    """Stopped twice: in the second chunk of every pass, and somewhere after that."""
    expected, steps, _ = finished
    labels = gathered(expected)
    rng = np.random.default_rng(0)
    places = [k + 1 for k, (title, done) in enumerate(steps) if done == 2]
    assert len(places) >= 5
    for place in places:
        checkpoint = tmp_path / str(place)
        with pytest.raises(Stopped):
            run(folder, checkpoint, progress=StopAt(place))
        again = StopAt(int(rng.integers(1, 12)))  # two passes are made anew in any case
        with pytest.raises(Stopped):
            run(folder, checkpoint, resume=True, progress=again)
        found = run(folder, checkpoint, resume=True)
        assert_array_equal(gathered(found), labels)
        assert found.inertia_ == expected.inertia_
        assert found.history_ == expected.history_
        assert_whole(checkpoint)


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [AnchorFairClustering(3, random_state=0), FairKMeans(3, random_state=0)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_every_estimator_goes_on_to_the_same_labels(estimator, folder, tmp_path):
    steps = StopAt()
    expected = run(folder, tmp_path / "whole", estimator=estimator, progress=steps)
    places = [k + 1 for k, (title, done) in enumerate(steps.seen) if done == 2]
    for place in places:
        checkpoint = tmp_path / str(place)
        with pytest.raises(Stopped):
            run(folder, checkpoint, estimator=estimator, progress=StopAt(place))
        found = run(folder, checkpoint, estimator=estimator, resume=True)
        assert_array_equal(gathered(found), gathered(expected))
        assert found.inertia_ == expected.inertia_
        assert_array_equal(found.assignment_prices_, expected.assignment_prices_)


def test_what_is_known_is_not_computed_again(finished, folder):
    expected, steps, checkpoint = finished
    resumed = StopAt()
    found = run(folder, checkpoint, resume=True, progress=resumed)
    assert_array_equal(gathered(found), gathered(expected))
    assert {title for title, _ in steps} >= {"anchor graph", "sweep"}
    repeated = {title for title, _ in resumed.seen}
    assert repeated <= {"first look", "sample", "prices", "writing"}


SCRIPT = """
import os, signal, sys
from functools import partial
import numpy as np
import pyarrow.dataset as ds
from fairanchor import AnchorFairClustering
from fairanchor.cluster._large_scale import LargeScaleClusterer
from fairanchor.rows._checkpoint import Checkpoint
from fairanchor.rows._open import FileTable

folder, checkpoint, out, chunk_rows, resume, last_step = sys.argv[1:]
LargeScaleClusterer._chunk_rows = int(chunk_rows)
steps = []

def progress(title, done, n_chunks):
    steps.append(title)
    if len(steps) == int(last_step):
        os.kill(os.getpid(), signal.SIGKILL)

table = FileTable(
    ds.dataset(folder, format="parquet"),
    checkpoint=partial(Checkpoint, checkpoint, resume=resume == "resume"),
    progress=progress,
)
model = AnchorFairClustering(3, graph="reconstruction", n_anchors=60, random_state=0)
model.fit(table, sensitive_features="g").write_labels(out)
"""


@pytest.mark.slow
def test_a_killed_driver_goes_on_to_the_same_labels(finished, folder, tmp_path):
    """SIGKILL in two runs, each at a step drawn at random; the third one ends."""
    expected, steps, _ = finished
    rng = np.random.default_rng()
    stops = [int(rng.integers(low, low + 12)) for low in (4, 7)]
    for k, stop in enumerate([*stops, 0]):
        given = [folder, tmp_path / "kept", tmp_path / "out", CHUNK_ROWS, "resume" if k else "new"]
        command = [sys.executable, "-W", "error", "-c", SCRIPT, *map(str, given), str(stop)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == (-signal.SIGKILL if stop else 0), (stops, done.stderr)
        assert_whole(tmp_path / "kept")
    found = ds.dataset(tmp_path / "out").to_table().column("cluster").to_numpy()
    assert_array_equal(found, gathered(expected), err_msg=str(stops))


@pytest.mark.slow
def test_a_checkpoint_is_small_however_many_chunks_there_are(finished, folder, tmp_path):
    size = n_bytes(finished[2])
    assert size < 500_000  # rows near a tie, of a few passes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LargeScaleClusterer, "_chunk_rows", 30)
        run(folder, tmp_path)
    assert n_bytes(tmp_path) < 1.5 * size


def test_a_run_in_one_chunk_keeps_who_it_is(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", N_ROWS)
    labels = run(folder, tmp_path).labels_
    with pytest.raises(FileExistsError, match="checkpoint of an earlier run"):
        run(folder, tmp_path)
    assert_array_equal(run(folder, tmp_path, resume=True).labels_, labels)
    with pytest.raises(ValueError, match="n_clusters was 3, is 4"):
        run(folder, tmp_path, resume=True, n_clusters=4)


# Errors


@pytest.mark.slow
def test_a_checkpoint_is_neither_overwritten_nor_invented(finished, folder, tmp_path):
    before = {path: path.read_bytes() for path in finished[2].iterdir()}
    with pytest.raises(FileExistsError, match="checkpoint of an earlier run. Use --resume"):
        run(folder, finished[2])
    assert {path: path.read_bytes() for path in finished[2].iterdir()} == before
    with pytest.raises(FileNotFoundError, match="no run to resume. Leave out --resume"):
        run(folder, tmp_path / "none", resume=True)
    assert not (tmp_path / "none").exists()


OTHER_RUNS = {
    "n_clusters was 3, is 4": {"n_clusters": 4},
    "random_state was 0, is 1": {"random_state": 1},
    'clusterer was null, is "spfc"': {"clusterer": "spfc"},
    'clusterer was null, is {"class": "sklearn.cluster._kmeans.KMeans"': {"clusterer": KMeans()},
    'anchors was "kmeans", is .5, 6, 7.': {"anchors": np.arange(5, 60)},
    'graph was "reconstruction", is .*"alpha": 1.0': {"graph": ReconstructionGraph(alpha=1.0)},
    'features was ."x", "y"., is ."x".': {"features": ["x"]},
}


@pytest.mark.parametrize("message", first_is_fast(OTHER_RUNS, 2))
def test_another_run_raises_with_what_differs(message, finished, folder):
    steps = StopAt()
    with pytest.raises(ValueError, match=f"belongs to another run: {message}"):
        run(folder, finished[2], resume=True, progress=steps, **OTHER_RUNS[message])
    assert steps.seen == []  # before any row is read


def test_another_version_or_chunk_raises(finished, folder, monkeypatch):
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", 600)
    with pytest.raises(ValueError, match="another run: chunk_rows was 500, is 600"):
        run(folder, finished[2], resume=True)
    monkeypatch.setattr(fairanchor, "__version__", "99.0")
    with pytest.raises(ValueError, match=r'another run: fairanchor was ".*", is "99.0"'):
        run(folder, finished[2], resume=True)


def test_other_data_raise_with_the_file_that_differs(folder, tmp_path):
    copy = tmp_path / "data"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    quick = FairKMeans(3, random_state=0)
    run(copy, tmp_path / "kept", estimator=quick)
    table = pq.read_table(copy / "two.parquet")
    pq.write_table(table.slice(0, 1_600), copy / "two.parquet")
    with pytest.raises(ValueError, match="another run: rows of .*two.parquet was 1700, is 1600"):
        run(copy, tmp_path / "kept", estimator=quick, resume=True)
    pq.write_table(table.slice(1_600), copy / "three.parquet")
    (copy / "two.parquet").unlink()
    with pytest.raises(ValueError, match="another run: .*three.parquet was null, is"):
        run(copy, tmp_path / "kept", estimator=quick, resume=True)


def test_another_number_of_threads_is_the_same_run(finished, folder):
    found = run(folder, finished[2], resume=True, n_jobs=2)
    assert_array_equal(gathered(found), gathered(finished[0]))


@pytest.mark.parametrize("seed", [None, np.random.RandomState(0)])
def test_a_seed_that_cannot_be_repeated_raises(seed, folder, tmp_path):
    with pytest.raises(
        ValueError, match="random_state=.*, expected an integer: a run with a check"
    ):
        run(folder, tmp_path, random_state=seed)
    assert list(tmp_path.iterdir()) == []


def damaged(content):
    yield content[: len(content) // 2]
    yield b""
    yield b"no archive at all"
    rng = np.random.default_rng(0)
    for _ in range(150):
        changed = bytearray(content)
        for place in rng.integers(0, len(content), size=int(rng.integers(1, 4))):
            changed[place] ^= 1 << int(rng.integers(0, 8))
        if changed != content:
            yield bytes(changed)


@pytest.mark.parametrize("name", ["run.npz", "pass-0000.npz"])
def test_a_damaged_checkpoint_raises_with_its_file(tmp_path, name):
    checkpoint = Checkpoint(tmp_path, {"a": 1})
    checkpoint.recall("pass")
    checkpoint.record("pass", (np.arange(30.0), [0.5, None]))
    path = tmp_path / name
    for content in damaged(path.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{name} is not a checkpoint, or is damaged"):
            Checkpoint(tmp_path, {"a": 1}, resume=True)


# The checkpoint by itself

plain_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False),
        st.text(),
        st.sampled_from([np.arange(3), np.ones((2, 2)), np.zeros(0), np.float64(0.1), np.int64(7)]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=8,
)


def assert_equal_values(found, expected):
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        assert_array_equal(found, expected)
    elif isinstance(expected, (list, tuple)):
        assert isinstance(found, list)  # tuples as well
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_equal_values(one, other)
    else:
        assert found == expected


@pytest.mark.slow
@given(results=st.lists(plain_values, max_size=3))
def test_results_come_back_as_they_were(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    checkpoint = Checkpoint(folder, {"a": 1})
    for result in results:
        assert checkpoint.recall("pass") is None
        checkpoint.record("pass", result)
    again = Checkpoint(folder, {"a": 1}, resume=True)
    for result in results:
        assert_equal_values(again.recall("pass"), result)
    assert again.recall("pass") is None


def test_a_pass_that_is_not_kept_has_to_be_made_again(tmp_path):
    checkpoint = Checkpoint(tmp_path, {})
    for title, result in (("one", 1.5), ("two", None), ("three", 2.5)):
        assert checkpoint.recall(title) is None
        checkpoint.record(title, result)
    again = Checkpoint(tmp_path, {}, resume=True)
    assert again.recall("one") == 1.5
    assert again.recall("two") is None
    again.record("two", None)
    with pytest.raises(ValueError, match="has the pass 'three' where this run has 'four'"):
        again.recall("four")


def test_a_result_that_cannot_be_kept_is_told_and_spoils_nothing(tmp_path):
    checkpoint = Checkpoint(tmp_path, {})
    checkpoint.recall("one")
    checkpoint.record("one", 1.0)
    checkpoint.recall("two")
    with pytest.raises(TypeError, match="A pass returned a set, which a checkpoint cannot keep"):
        checkpoint.record("two", {1, 2})
    again = Checkpoint(tmp_path, {}, resume=True)
    assert again.recall("one") == 1.0
    assert again.recall("two") is None


def test_a_full_disk_leaves_the_checkpoint_of_before(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path, {})
    checkpoint.recall("one")
    checkpoint.record("one", 1.0)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    checkpoint.recall("two")
    with pytest.raises(OSError, match="No space left"):
        checkpoint.record("two", 2.0)
    assert_whole(tmp_path)
    assert Checkpoint(tmp_path, {}, resume=True).recall("one") == 1.0


def some_clusterer(points, groups, n_clusters, *, sample_weight, random_state):
    """Named, so that every process describes it in the same way."""


def test_parameters_are_described_alike_in_every_process():
    described = [
        identity_of_run(
            {
                "random_state": 0,
                "n_jobs": n_jobs,
                "clusterer": clusterer,
                "anchors": np.arange(5_000),
            },
            {},
            10,
        )
        for n_jobs, clusterer in (
            (1, some_clusterer), (2, some_clusterer), (1, FairKMeans(3)), (1, FairKMeans(4)),
        )
    ]  # fmt: skip
    assert described[0] == described[1]
    assert described[0]["parameters"]["clusterer"].endswith("test_checkpoint.some_clusterer")
    assert described[0]["parameters"]["anchors"] == list(range(5_000))
    assert described[2] != described[3]
