"""Files of many kinds and spellings: what travels with a task, names of labels, groups, costs."""

import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fairanchor import AnchorFairClustering, FairKMeans, FairSpectralClustering
from fairanchor.cluster._large_scale import LargeScaleClusterer
from fairanchor.rows._label_files import check_names, names_of_files, write_label_files
from fairanchor.rows._row_files import RowFiles
from tiers import first_is_fast

N_FILES, FILE_ROWS = 4, 150
N_ROWS = N_FILES * FILE_ROWS


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", 200)


def write(folder, groups, seed=0):
    """Files with the columns g, x0, x1; for each file the values of g."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    for k, own in enumerate(groups):
        table = {"g": own} | {f"x{j}": rng.normal(size=len(own)) for j in range(2)}
        pq.write_table(pa.table(table), folder / f"f{k:03d}.parquet")
    return ds.dataset(folder, format="parquet")


def features_of(dataset):
    table = dataset.to_table(columns=["x0", "x1"])
    return np.column_stack([column.to_numpy() for column in table.columns])


def gathered(model):
    return np.concatenate(list(model.iter_labels()))


# What travels with a task


def test_any_span_is_read_from_its_own_files(tmp_path):
    files = RowFiles.of(
        write(tmp_path / "data", [["a"] * n for n in (3, 0, 5, 1, 0, 4)]), None, "g"
    )
    for start in range(files.n_rows):
        for stop in range(start + 1, files.n_rows + 1):
            own, a, b = files.around(start, stop)
            assert_array_equal(own.read(a, b).X, files.read(start, stop).X)
            assert len(own.files) <= stop - start + 2


def test_a_task_does_not_carry_all_files(tmp_path):
    sizes = []
    for n_files in (5, 100):
        files = RowFiles.of(write(tmp_path / str(n_files), [["a"] * 4] * n_files), None, "g")
        sizes.append(len(pickle.dumps(files.around(9, 15))))
    assert sizes[1] < 1.1 * sizes[0]


# How paths are written


def test_the_same_folder_in_another_spelling_is_the_same_table(tmp_path, monkeypatch):
    write(tmp_path / "data", [["a"] * 5] * 2)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    spellings = ["data", "./data/", "other/../data", str(tmp_path / "data")]
    prints = [
        RowFiles.of(ds.dataset(path, format="parquet"), None, "g").fingerprint()
        for path in spellings
    ]
    assert prints == [prints[0]] * 4
    assert list(prints[0]["files"]) == ["f000.parquet", "f001.parquet"]


# Names of label files


def test_label_files_that_would_meet_raise_before_anything_is_written(tmp_path):
    paths, message = ["d/x", "d/x.parquet"], r"Two files .* labels in x\.parquet: .* the file 'x'"
    names = names_of_files(paths)
    with pytest.raises(ValueError, match=message):
        check_names(names)
    with pytest.raises(ValueError, match=message):
        write_label_files(tmp_path / "out", [(name, 1) for name in names], iter([]))
    assert list(tmp_path.iterdir()) == []


def test_a_fit_does_not_mind_names_that_only_label_files_would(tmp_path):
    write(tmp_path / "data", [["a", "b"] * 75] * N_FILES)
    os.rename(tmp_path / "data" / "f001.parquet", tmp_path / "data" / "f000")
    model = AnchorFairClustering(2, random_state=0)
    model.fit(ds.dataset(tmp_path / "data", format="parquet"), sensitive_features="g")
    assert len(gathered(model)) == N_ROWS
    with pytest.raises(ValueError, match=r"Two files of the input .* f000\.parquet"):
        model.write_labels(tmp_path / "out")


# Groups that are missing in a whole file


NAMES = {"text": ["a", "b", None], "integers": [1, 2, None], "truth": [True, False, None]}


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("file_rows", first_is_fast([FILE_ROWS, 400]))
def test_a_file_in_which_all_groups_are_missing_has_that_group(kind, file_rows, tmp_path):
    """Its column has no type; one of the larger files fills a chunk alone."""
    some = NAMES[kind] * (file_rows // 3)
    groups = [some, pa.nulls(file_rows), some, some]
    dataset = write(tmp_path / "data", groups)
    listed = [
        name for own in groups for name in (own if isinstance(own, list) else [None] * file_rows)
    ]
    model = AnchorFairClustering(2, missing_groups="own_group", random_state=0)
    found = model.fit(dataset, sensitive_features="g")
    labels = gathered(found)
    expected = AnchorFairClustering(2, missing_groups="own_group", random_state=0)
    expected.fit(features_of(dataset)[: len(listed)], sensitive_features=np.array(listed, object))
    assert_array_equal(labels, expected.labels_)
    assert found.groups_.tolist() == expected.groups_.tolist()
    assert [type(name) for name in found.groups_] == [type(name) for name in expected.groups_]


@pytest.mark.parametrize(
    ("last", "names"), [(2.0, [1, 2, None]), (2.5, [1.0, 2.0, 2.5, None]), (np.inf, None)]
)
def test_numbers_with_missing_values_in_some_chunks_are_named_as_in_memory(last, names, tmp_path):
    parts = [[1.0, 2.0, 2.0] * (FILE_ROWS // 3)] * N_FILES
    parts[1], parts[-1] = [None, None, *parts[1][2:]], [*parts[-1][:-2], last, last]
    dataset = write(tmp_path / "data", parts)
    model = AnchorFairClustering(2, missing_groups="own_group", random_state=0)
    found = gathered(model.fit(dataset, sensitive_features="g")), model.groups_.tolist()
    groups = pa.concat_arrays([pa.array(part, pa.float64()) for part in parts])
    model.fit(features_of(dataset), sensitive_features=groups)
    assert_array_equal(found[0], model.labels_)
    assert list(map(repr, found[1])) == list(map(repr, model.groups_))
    assert names is None or repr(found[1]) == repr(names)


def test_a_file_in_which_all_groups_are_missing_is_named(tmp_path):
    groups = [["a", "b"] * 75] * 3
    dataset = write(tmp_path / "data", [*groups[:2], pa.nulls(FILE_ROWS), groups[2]])
    with pytest.raises(ValueError, match=r"f002\.parquet has \d+ or more missing values"):
        AnchorFairClustering(2, random_state=0).fit(dataset, sensitive_features="g")


# Datasets that are no files


def test_datasets_that_are_no_files_raise_with_a_way_out(tmp_path):
    one = write(tmp_path / "one", [["a", "b"] * 75])
    for dataset, message in (
        (ds.dataset(pa.table({"x": [1.0]})), r"type InMemoryDataset, .*dataset\.to_table\(\)"),
        (ds.dataset([one, one]), r"type UnionDataset, expected .* files"),
    ):
        with pytest.raises(TypeError, match=message):
            AnchorFairClustering(2).fit(dataset, sensitive_features="g")


def test_an_estimator_that_needs_all_rows_names_those_that_do_not(tmp_path):
    dataset = write(tmp_path / "data", [["a", "b"] * 75])
    with pytest.raises(TypeError, match="FileSystemDataset.*FairSpectralClustering.*AnchorFair"):
        FairSpectralClustering(2).fit(dataset, sensitive_features="g")


# Costs


@pytest.mark.parametrize("estimator", [AnchorFairClustering, FairKMeans])
def test_the_cost_of_far_clusters_keeps_its_digits(estimator):
    """Clusters are ten million times farther from each other than their rows are."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 2))
    X[::2] += 1e7
    groups = np.array(["a", "a", "b", "b"])[np.arange(N_ROWS) % 4]
    model = estimator(2, random_state=0).fit(X, sensitive_features=groups)
    exact = np.longdouble(0)
    for l in range(2):
        own = X[model.labels_ == l].astype(np.longdouble)
        exact += ((own - own.mean(axis=0)) ** 2).sum()
    assert exact < 10 * N_ROWS  # every row is in its own cluster
    assert_allclose(model.inertia_, float(exact), rtol=1e-9)
