"""Labels of rows that are elsewhere: written whole or not at all; and the models they leave."""

import pickle
import time
from copy import deepcopy

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from fairanchor import AnchorFairClustering, load_model
from fairanchor.cluster._large_scale import LargeScaleClusterer
from fairanchor.rows._label_files import names_of_files
from fairanchor.rows._open import FileTable

N_ROWS = 3_000
CHUNK_ROWS = 550
# Files end within chunks, chunks within files; one is empty, one has a single row.
EDGES = [0, 100, 100, 1_350, 1_351, 2_500, N_ROWS]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", CHUNK_ROWS)


def make_rows(seed=0, n=N_ROWS):
    """Features with whole and equal rows among them, and three groups."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) + 4.0 * np.eye(4)[rng.integers(0, 3, size=n)]
    X[: n // 3] = np.round(X[: n // 3])
    groups = np.array(["b", "a", "c"])[rng.choice(3, size=n, p=[0.3, 0.6, 0.1])]
    return X, groups


def make_table(X, **columns):
    return pa.table({**columns, **{f"x{j}": X[:, j] for j in range(X.shape[1])}})


def write_files(folder, table, edges=EDGES, *, row_group_size=400):
    folder.mkdir(exist_ok=True)
    for k, (a, b) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        part = table.slice(a, b - a)
        pq.write_table(part, folder / f"f{k}.parquet", row_group_size=row_group_size)
    return ds.dataset(folder, format="parquet")


def gathered(model):
    return np.concatenate(list(model.iter_labels()))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Rows in memory, and the same in files."""
    X, groups = make_rows()
    folder = tmp_path_factory.mktemp("stored") / "data"
    return X, groups, write_files(folder, make_table(X, g=groups))


@pytest.fixture
def streamed(stored):
    """A model of the rows in files."""
    X, groups, dataset = stored
    return AnchorFairClustering(4, random_state=0).fit(dataset, sensitive_features="g")


# Label files


def read_labels(folder, name):
    return pq.read_table(folder / name).to_pydict()


def test_label_files_have_the_names_and_the_rows_of_the_input(streamed, tmp_path):
    streamed.write_labels(tmp_path / "out")
    labels = gathered(streamed)
    files = sorted(item.name for item in (tmp_path / "out").iterdir())
    assert files == [f"f{k}.parquet" for k in range(6)]
    for k, (a, b) in enumerate(zip(EDGES[:-1], EDGES[1:], strict=True)):
        found = read_labels(tmp_path / "out", f"f{k}.parquet")
        assert found == {"row": list(range(b - a)), "cluster": labels[a:b].tolist()}
    assert [item.name for item in tmp_path.iterdir()] == ["out"]


def test_label_files_of_nested_folders_are_nested(stored, tmp_path):
    X, groups, _ = stored
    table = make_table(X, g=groups)
    for name in ("2023/a.parquet", "2024/01/a.parquet", "2024/b"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(0, 2_000), tmp_path / "data" / name)
    dataset = ds.dataset(tmp_path / "data", format="parquet")
    model = AnchorFairClustering(2, random_state=0).fit(dataset, sensitive_features="g")
    model.write_labels(tmp_path / "out")
    found = sorted(str(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*.*"))
    assert found == ["2023/a.parquet", "2024/01/a.parquet", "2024/b.parquet"]


def test_names_of_label_files_are_what_paths_do_not_share():
    assert names_of_files(["/d/a.parquet", "/d/b.parquet"]) == ["a.parquet", "b.parquet"]
    assert names_of_files(["/d/x/a.arrow", "/d/b.parquet"]) == ["x/a.arrow.parquet", "b.parquet"]
    assert names_of_files(["/d/x/a.parquet"]) == ["a.parquet"]


def test_nothing_is_left_of_labels_that_could_not_be_written(streamed, stored, tmp_path):
    """The input is damaged by the time that labels are computed."""
    first = tmp_path / "data"
    dataset = write_files(first, make_table(stored[0], g=stored[1]))
    model = AnchorFairClustering(3, random_state=0).fit(dataset, sensitive_features="g")
    (first / "f4.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"f4\.parquet was changed"):
        model.write_labels(tmp_path / "out")
    assert [item.name for item in tmp_path.iterdir()] == ["data"]


def test_an_existing_folder_is_replaced_only_when_told_to(streamed, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    streamed.write_labels(out)  # an empty folder is no loss
    before = read_labels(out, "f2.parquet")
    (out / "f0.parquet").unlink()
    with pytest.raises(FileExistsError, match="exists already"):
        streamed.write_labels(out)
    assert not (out / "f0.parquet").exists()
    streamed.write_labels(out, force=True)
    assert (out / "f0.parquet").exists()
    assert read_labels(out, "f2.parquet") == before
    assert [item.name for item in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_cannot_take_its_name_leaves_the_old_one(streamed, tmp_path, monkeypatch):
    out = tmp_path / "out"
    streamed.write_labels(out)
    stamp = (out / "f1.parquet").stat().st_mtime_ns
    time.sleep(0.01)
    rename = type(out).rename

    def fail(self, target):
        if self.name.endswith(".partial"):
            raise OSError("no luck")
        return rename(self, target)

    monkeypatch.setattr(type(out), "rename", fail)
    with pytest.raises(OSError, match="no luck"):
        streamed.write_labels(out, force=True)
    assert (out / "f1.parquet").stat().st_mtime_ns == stamp
    assert [item.name for item in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("what", ["a note", "data", "no parquet"])
def test_a_folder_of_something_else_is_never_replaced(what, streamed, stored, tmp_path):
    out = tmp_path / "out"
    if what == "data":  # the input itself, say
        write_files(out, make_table(stored[0], g=stored[1]))
    else:
        streamed.write_labels(out)
        (out / ("note.txt" if what == "a note" else "f9.parquet")).write_text("mine")
    before = {item.name: item.stat().st_mtime_ns for item in out.iterdir()}
    with pytest.raises(FileExistsError, match="files that are not labels"):
        streamed.write_labels(out, force=True)
    assert {item.name: item.stat().st_mtime_ns for item in out.iterdir()} == before


def test_impossible_folders_are_refused_before_any_row_is_read(streamed, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="file is a file, expected the name of a directory"):
        streamed.write_labels(tmp_path / "file", force=True)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        streamed.write_labels(tmp_path / "no" / "out")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError, match="broken link"):
        streamed.write_labels(tmp_path / "link")


def test_a_link_to_a_folder_stays_a_link(streamed, tmp_path):
    streamed.write_labels(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    streamed.write_labels(tmp_path / "link", force=True)
    assert (tmp_path / "link").is_symlink()
    assert len(list((tmp_path / "real").iterdir())) == 6


# What becomes of the model


def test_a_model_of_files_is_saved_and_loaded(streamed, stored, tmp_path):
    X, groups, _ = stored
    frame = pd.DataFrame(X, columns=streamed.feature_names_in_)
    expected = streamed.predict(frame, sensitive_features=groups)
    streamed.save(tmp_path / "model.npz")
    assert (tmp_path / "model.npz").stat().st_size < 100_000
    loaded = load_model(tmp_path / "model.npz")
    assert_array_equal(loaded.predict(frame, sensitive_features=groups), expected)
    assert_array_equal(loaded.counts_, streamed.counts_)
    with pytest.raises(ValueError, match="does not know the rows"):
        loaded.write_labels(tmp_path / "out")


@pytest.mark.parametrize("copy", [deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_predicts_but_does_not_know_the_rows(copy, stored, tmp_path):
    X, groups, dataset = stored
    table = FileTable(dataset, progress=lambda *step: None)
    model = AnchorFairClustering(3, random_state=0).fit(table, sensitive_features="g")
    copied = copy(model)
    frame = pd.DataFrame(X, columns=model.feature_names_in_)
    assert_array_equal(
        copied.predict(frame, sensitive_features=groups),
        model.predict(frame, sensitive_features=groups),
    )
    with pytest.raises(ValueError, match="does not know the rows"):
        copied.write_labels(tmp_path / "out")
    assert len(gathered(model)) == N_ROWS  # which the original still does


def test_a_clone_is_not_fitted_and_fits_anew(streamed, stored):
    again = clone(streamed)
    assert not hasattr(again, "counts_")
    again.fit(stored[2], sensitive_features="g")
    assert_array_equal(gathered(again), gathered(streamed))


def test_fitting_again_forgets_the_labels_of_before(stored, tmp_path):
    X, groups, dataset = stored
    model = AnchorFairClustering(3, random_state=0)
    model.fit(X[:500], sensitive_features=groups[:500])
    model.fit(dataset, sensitive_features="g")
    assert not hasattr(model, "labels_")
    model.fit(X[:500], sensitive_features=groups[:500])
    assert len(model.labels_) == 500
    assert not hasattr(model, "feature_names_in_")
    with pytest.raises(ValueError, match="labels are in labels_"):
        model.write_labels(tmp_path / "out")


def test_fit_predict_gathers_the_labels(stored):
    X, groups, dataset = stored
    expected = AnchorFairClustering(3, random_state=0).fit_predict(X, sensitive_features=groups)
    found = AnchorFairClustering(3, random_state=0).fit_predict(dataset, sensitive_features="g")
    assert_array_equal(found, expected)


def test_all_but_predict_take_rows_in_memory(streamed, stored):
    dataset = stored[2]
    for method in (streamed.predict_proba, streamed.transform, streamed.score):
        with pytest.raises(TypeError, match="FileSystemDataset, expected rows in memory"):
            method(dataset, sensitive_features="g")
