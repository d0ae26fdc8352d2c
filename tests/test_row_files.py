"""Files that are not what they should be: every error names the file, the column and the row."""

import io
import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from fairanchor import AnchorFairClustering, ReconstructionGraph
from fairanchor.cluster._large_scale import LargeScaleClusterer
from fairanchor.rows._open import FileTable, column_names, kind_of
from fairanchor.rows._row_files import RowFiles

N_FILES, FILE_ROWS = 4, 150
N_ROWS = N_FILES * FILE_ROWS
CHUNK_ROWS = 200


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", CHUNK_ROWS)


@pytest.fixture
def folder(tmp_path):
    """Files f0 .. f3 with the columns g, x0, x1."""
    folder = tmp_path / "data"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for k in range(N_FILES):
        table = {"g": ["a", "b", "c"] * (FILE_ROWS // 3)}
        table |= {f"x{j}": rng.normal(size=FILE_ROWS) for j in range(2)}
        pq.write_table(pa.table(table), folder / f"f{k}.parquet", row_group_size=64)
    return folder


def change(folder, number, **columns):
    """Write a file again with other columns; None drops one."""
    path = folder / f"f{number}.parquet"
    table = dict(pq.read_table(path).to_pydict()) | columns
    pq.write_table(pa.table({name: own for name, own in table.items() if own is not None}), path)


def numbers_with(value, row):
    numbers = np.arange(FILE_ROWS, dtype=float).tolist()
    numbers[row] = value
    return pa.array(numbers)


def fit(folder, sensitive_features="g", **parameters):
    model = AnchorFairClustering(2, random_state=0, **parameters)
    return model.fit(ds.dataset(folder, format="parquet"), sensitive_features=sensitive_features)


def test_the_files_are_fine_before_anything_is_changed(folder):
    model = fit(folder)
    assert model.counts_.sum() == N_ROWS
    assert model.worst_violation_ < 1


# Each: what is wrong with file 2 (the third), and what the message says.
WRONG_COLUMNS = {
    "NaN": (
        {"x1": numbers_with(np.nan, 77)},
        r"f2\.parquet has NaN in column 'x1', row 77\. Distances need finite",
    ),
    "NaN in the last row": (
        {"x0": numbers_with(np.nan, FILE_ROWS - 1)},
        r"f2\.parquet has NaN in column 'x0', row 149",
    ),
    "infinity": (
        {"x0": numbers_with(-np.inf, 3)},
        r"f2\.parquet has infinity in column 'x0', row 3",
    ),
    "a missing number": (
        {"x1": numbers_with(None, 70)},
        r"f2\.parquet has 1 or more missing values in column 'x1', the first in row 70",
    ),
    "a missing integer": (
        {"x1": pa.array([None, *range(FILE_ROWS - 1)])},
        r"f2\.parquet has 1 or more missing values in column 'x1', the first in row 0",
    ),
    "a missing group": (
        {"g": ["a"] * 90 + [None] + ["b"] * 59},
        r"f2\.parquet has 1 or more missing values in column 'g' of sensitive_features, the first "
        r"in row 90: .* missing_groups='own_group'",
    ),
    "a missing feature": ({"x1": None}, r"column 'x1' is missing in .*f2\.parquet"),
    "a missing sensitive column": ({"g": None}, r"column 'g' is missing in .*f2\.parquet"),
    "text for numbers": (
        {"x1": ["one"] * FILE_ROWS},
        r"column 'x1' is of type string in .*f2\.parquet, expected numbers",
    ),
    "another type of groups": (
        {"g": np.arange(FILE_ROWS)},
        r"column 'g' is of type int64 in .*f2\.parquet, but of type string in .*f0\.parquet",
    ),
    "too large a number": ({"x0": numbers_with(1e200, 5)}, r"value of X is 1e\+200"),
}


@pytest.mark.parametrize("case", WRONG_COLUMNS)
@pytest.mark.parametrize("chunk_rows", [CHUNK_ROWS, N_ROWS])
def test_what_is_wrong_with_one_file_is_named(case, chunk_rows, folder, monkeypatch):
    """Whether rows come in chunks or fit in memory."""
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", chunk_rows)
    columns, message = WRONG_COLUMNS[case]
    change(folder, 2, **columns)
    with pytest.raises(ValueError, match=message):
        fit(folder)


def test_a_column_that_is_there_twice_is_refused(folder):
    path = folder / "f1.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("x1", table.column("x0")), path)
    with pytest.raises(ValueError, match=r"column 'x1' is there 2 times in .*f1\.parquet"):
        fit(folder)


def test_missing_groups_of_a_float_column_are_missing(folder):
    for k in range(N_FILES):
        values = np.arange(FILE_ROWS) % 2 + 0.5
        values[100] = np.nan if k == 3 else 0.5
        change(folder, k, g=values)
    with pytest.raises(ValueError, match=r"f3\.parquet has 1 .* 'g' .* first in row 100"):
        fit(folder)


def test_wide_unsigned_groups_do_not_mix_with_others(folder):
    for k in range(N_FILES):
        change(folder, k, g=pa.array([1, 2, 3] * 50, pa.uint64() if k == 3 else pa.int64()))
    with pytest.raises(ValueError, match=r"type uint64 in .*f3\.parquet, but of type int64 in"):
        fit(folder)


WRONG_ARGUMENTS = {
    "unknown column": (
        {"sensitive_features": "sex"},
        ValueError,
        "column 'sex' of sensitive_features is missing. The files of the dataset have: g, x0, x1",
    ),
    "codes": (
        {"sensitive_features": np.zeros(N_ROWS)},
        TypeError,
        "sensitive_features is a ndarray, expected the name of a column or a list of names",
    ),
    "no names": ({"sensitive_features": []}, TypeError, "is a list, expected the name"),
    "numbers": ({"sensitive_features": [0]}, TypeError, "is a list, expected the name"),
    "only groups": (
        {"sensitive_features": ["g", "x0", "x1"]},
        ValueError,
        "no columns but those of sensitive_features",
    ),
    "admm": (
        {"graph": ReconstructionGraph(solver="admm")},
        ValueError,
        "solver='admm' needs all rows in memory.* 600",
    ),
    "argmax": ({"assignment": "argmax"}, ValueError, "assignment='argmax' needs all rows"),
    "too many anchors": ({"n_anchors": 700}, ValueError, "n_anchors=700 should be <= n_samples"),
}


@pytest.mark.parametrize("case", WRONG_ARGUMENTS)
def test_wrong_arguments_are_refused(case, folder):
    arguments, error, message = WRONG_ARGUMENTS[case]
    with pytest.raises(error, match=message):
        fit(folder, **arguments)


def test_weights_are_refused(folder):
    model = AnchorFairClustering(2)
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(ds.dataset(folder), sensitive_features="g", sample_weight=np.ones(N_ROWS))


def test_more_clusters_than_rows_are_refused(folder):
    model = AnchorFairClustering(N_ROWS + 1)
    with pytest.raises(ValueError, match="n_samples=600 should be >= n_clusters=601"):
        model.fit(ds.dataset(folder), sensitive_features="g")


def test_a_named_feature_that_is_not_there_is_refused(folder):
    table = FileTable(ds.dataset(folder), features=["x0", "height"])
    with pytest.raises(ValueError, match=r"column 'height' is missing in .*f0\.parquet"):
        AnchorFairClustering(2).fit(table, sensitive_features="g")


# Datasets that are no files of rows


def test_a_dataset_without_files_or_rows_is_refused(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="dataset"):
        fit(tmp_path / "empty", None)
    for k in range(N_FILES):
        path = folder / f"f{k}.parquet"
        pq.write_table(pq.read_table(path).slice(0, 0), path)
    with pytest.raises(ValueError, match=r"The 4 file\(s\) of the dataset have no rows"):
        fit(folder)


def test_empty_files_among_others_do_not_matter(folder):
    expected = fit(folder)
    nothing = pq.read_table(folder / "f1.parquet").slice(0, 0)
    for name in ("a", "f1a", "z"):
        pq.write_table(nothing, folder / f"{name}.parquet")
    found = fit(folder)
    assert_array_equal(found.counts_, expected.counts_)
    for a, b in zip(found.iter_labels(), expected.iter_labels(), strict=True):
        assert_array_equal(a, b)


def test_text_files_are_refused_with_a_way_out(tmp_path):
    pyarrow.csv.write_csv(pa.table({"x": [1.0]}), tmp_path / "a.csv")
    with pytest.raises(TypeError, match=r"format 'csv', expected Parquet .*write_dataset"):
        AnchorFairClustering(1).fit(ds.dataset(tmp_path, format="csv"))


def test_groups_in_the_names_of_folders_are_refused_with_where_they_are(folder):
    for k in range(N_FILES):
        change(folder, k, g=None)
        (folder / f"g={k % 2}").mkdir(exist_ok=True)
        path = folder / f"f{k}.parquet"
        path.rename(folder / f"g={k % 2}" / path.name)
    dataset = ds.dataset(folder, partitioning="hive")
    with pytest.raises(ValueError, match="'g' .* is in the names of directories, not in the files"):
        AnchorFairClustering(2).fit(dataset, sensitive_features="g")


def test_datasets_in_memory_are_refused_with_a_way_out():
    dataset = ds.dataset(pa.table({"x": [1.0, 2.0]}))
    with pytest.raises(TypeError, match="type InMemoryDataset, expected .* Parquet"):
        AnchorFairClustering(1).fit(dataset)


def test_a_filter_is_refused_since_it_would_be_ignored(folder):
    dataset = ds.dataset(folder).filter(ds.field("x0") > 0)
    with pytest.raises(ValueError, match="has a filter, expected one without"):
        AnchorFairClustering(2).fit(dataset, sensitive_features="g")


def test_what_is_in_memory_is_not_mistaken_for_a_dataset(folder):
    assert kind_of(np.zeros((2, 2))) is None
    assert kind_of(pa.table({"x": [1]})) is None
    assert kind_of(ds.dataset(folder)) == "files"
    assert column_names(("a", "b")) == ["a", "b"]


# Files that change


@pytest.fixture
def opened(folder):
    """Rows of the files, looked at once."""
    return (
        FileTable(ds.dataset(folder))
        .source("g")
        .open(CHUNK_ROWS, "error", None, 2, lambda n_groups: 20)
        .rows
    )


def total(rows):
    return rows.sum(lambda block: (np.array([block.weights.sum()]),))[0][0]


def truncate(path):
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 100)


def rewrite(path):
    """The same size in bytes, another time."""
    content = path.read_bytes()
    stamp = path.stat().st_mtime_ns
    path.write_bytes(content)
    os.utime(path, ns=(stamp, stamp + 1_000_000))


CHANGES = {
    "truncated": (truncate, r"f2\.parquet was changed since the run began \([\d,]+ bytes then"),
    "rewritten": (rewrite, r"f2\.parquet was changed since the run began"),
    "emptied": (lambda path: path.write_bytes(b""), r"f2\.parquet was changed .* 0 now"),
    "deleted": (lambda path: path.unlink(), r"f2\.parquet no longer exists"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_file_that_changes_between_passes_ends_the_run(what, folder, opened):
    assert total(opened) == N_ROWS
    how, message = CHANGES[what]
    how(folder / "f2.parquet")
    with pytest.raises(ValueError, match=message):
        total(opened)


@pytest.mark.parametrize("what", CHANGES)
def test_a_file_that_changes_during_fit_ends_it(what, folder):
    how, message = CHANGES[what]
    passes = []

    def progress(title, done, n_chunks):
        if done == n_chunks:
            passes.append(title)
            if len(passes) == 2:
                how(folder / "f2.parquet")

    model = AnchorFairClustering(2, random_state=0)
    table = FileTable(ds.dataset(folder), progress=progress)
    with pytest.raises(ValueError, match=message):
        model.fit(table, sensitive_features="g")
    assert len(passes) == 2
    assert not hasattr(model, "counts_")


def changed(files, path, content):
    """The table after a file was replaced without a trace in its size and time."""
    path.write_bytes(content)
    info = path.stat()
    stamps = {str(path): (info.st_size, info.st_mtime_ns)}
    return replace(
        files,
        files=tuple(replace(f, stamp=stamps.get(f.path, f.stamp)) for f in files.files),
    )


def test_a_damaged_page_is_reported_with_its_file(folder):
    path = folder / "f1.parquet"
    files = RowFiles.of(ds.dataset(folder), None, ["g"])
    content = path.read_bytes()
    files = changed(files, path, content[:4] + b"\xff" * 396 + content[400:])
    with pytest.raises(ValueError, match=r"f1\.parquet could not be read from row \d+ on: .*damag"):
        files.read(0, N_ROWS)


def test_a_file_with_fewer_rows_than_its_footer_is_reported(folder):
    path = folder / "f1.parquet"
    files = RowFiles.of(ds.dataset(folder), None, ["g"])
    buffer = io.BytesIO()
    pq.write_table(pq.read_table(path).slice(0, 140), buffer, row_group_size=64)
    files = changed(files, path, buffer.getvalue())
    with pytest.raises(ValueError, match=r"f1\.parquet ended after row 140, expected 150 rows"):
        files.read(0, N_ROWS)


def test_a_file_that_is_no_parquet_is_told_at_once(folder):
    dataset = ds.dataset(folder)
    (folder / "f3.parquet").write_bytes(b"PAR1 this is no file PAR1")
    with pytest.raises(ValueError, match=r"f3\.parquet could not be opened as parquet"):
        AnchorFairClustering(2).fit(dataset, sensitive_features="g")


# Reading


@pytest.mark.parametrize("batch_rows", [7, 64, 2**16])
def test_any_span_of_rows_is_read_as_it_is(batch_rows, folder):
    files = replace(RowFiles.of(ds.dataset(folder), None, ["g"]), batch_rows=batch_rows)
    whole = ds.dataset(folder).to_table()
    X = np.column_stack([whole.column("x0").to_numpy(), whole.column("x1").to_numpy()])
    names = whole.column("g").to_pylist()
    spans = [(0, 1), (0, N_ROWS), (149, 151), (150, 300), (63, 65), (10, 590), (599, 600)]
    for start, stop in spans:
        found, (groups,) = files.read(start, stop)
        assert_array_equal(found, X[start:stop])
        assert groups.to_pylist() == names[start:stop]


def test_fingerprints_tell_tables_apart(folder):
    dataset = ds.dataset(folder)
    one = RowFiles.of(dataset, None, ["g"]).fingerprint()
    assert one == RowFiles.of(ds.dataset(folder), None, ["g"]).fingerprint()
    assert one != RowFiles.of(dataset, ["x0"], ["g"]).fingerprint()
    rewrite(folder / "f1.parquet")
    assert one != RowFiles.of(dataset, None, ["g"]).fingerprint()
