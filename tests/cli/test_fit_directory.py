"""``fairanchor fit`` of a folder: engines agree, labels keep the files, bad requests are named."""

import json
import sys

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from pyarrow import parquet

from fairanchor import load_model
from fairanchor.cluster._large_scale import LargeScaleClusterer
from fairanchor.rows import _dask, _row_files

EDGES = [0, 250, 250, 600, 900]
SPFC = ["--clusterer", "spfc"]


@pytest.fixture
def files(folder):
    """The people in four files of a folder, one of them empty."""
    (folder / "people").mkdir()
    table = folder.people.drop_columns("person")
    for k, (a, b) in enumerate(zip(EDGES[:-1], EDGES[1:], strict=True)):
        name = f"people/part-{k}.parquet"
        parquet.write_table(table.slice(a, b - a), folder / name, row_group_size=100)
    return folder


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks that these few people fill several times."""
    monkeypatch.setattr(LargeScaleClusterer, "_chunk_rows", 128)


def fit_arguments(engine, output, *more):
    return ("fit", "people", "-k", 3, "--sensitive", "sex", "--engine", engine, "-o", output, *more)


def labels_in(path):
    return [parquet.read_table(file) for file in sorted(path.glob("*.parquet"))]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("options", [[], SPFC], ids=["fair k-means", "framework"])
def test_memory_and_stream_give_the_same_labels_in_files_of_the_same_names(
    files, run, options, monkeypatch
):
    run(*fit_arguments("memory", "one", *options))
    run(*fit_arguments("stream", "two", "--model", "two.npz", *options))
    assert [p.name for p in sorted((files / "two").iterdir())] == [
        f"part-{k}.parquet" for k in range(4)
    ]
    for k, (one, two) in enumerate(
        zip(labels_in(files / "one"), labels_in(files / "two"), strict=True)
    ):
        assert one.equals(two)
        assert two.column("row").to_pylist() == list(range(EDGES[k + 1] - EDGES[k]))
    labels = np.concatenate([t.column("cluster").to_numpy() for t in labels_in(files / "two")])
    sexes = folder_sexes(files)
    counts = np.array([[np.sum((labels == l) & (sexes == s)) for s in "fm"] for l in range(3)])
    proportional = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    assert np.abs(counts - proportional).max() < 1
    # What `predict` makes of the same people in one file.
    assert load_model(files / "two.npz").n_features_in_ == 3 + 3
    run("predict", "two.npz", "people.parquet", "-o", "again.parquet")
    again = parquet.read_table(files / "again.parquet").column("cluster").to_numpy()
    assert np.mean(again == labels) > 0.99
    # The same files, piece by piece.
    monkeypatch.setattr(_row_files, "BATCH_ROWS", 40)
    result = run("predict", "two.npz", "people", "-o", "three", "--json")
    pieces = labels_in(files / "three")
    assert [len(t) for t in pieces] == np.diff(EDGES).tolist()
    assert pieces[0].schema == labels_in(files / "two")[0].schema
    assert_array_equal(np.concatenate([t.column("cluster").to_numpy() for t in pieces]), again)
    one = run("predict", "two.npz", "people.parquet", "--json")
    for name in ("n_rows", "sizes", "groups", "counts", "balance", "mnce"):
        assert json.loads(result.stdout)[name] == json.loads(one.stdout)[name], name


def folder_sexes(files):
    return np.array(files.people.column("sex").to_pylist())


@pytest.mark.usefixtures("small_chunks")
def test_means_and_deviations_of_chunks_are_those_of_the_table(files, run):
    run(*fit_arguments("stream", "two", "--model", "m.npz"))
    age = files.people.column("age").to_numpy().astype(float)
    columns = {column.name: column for column in load_model("m.npz").preprocessing_.columns}
    assert columns["age"].center == pytest.approx(age.mean(), rel=1e-12)
    assert columns["age"].scale == pytest.approx(age.std(), rel=1e-12)
    assert columns["job"].categories == ("cook", "nurse", "smith")


@pytest.mark.usefixtures("small_chunks")
def test_the_layout_of_the_files_does_not_matter(files, run):
    (files / "whole").mkdir()
    parquet.write_table(files.people.drop_columns("person"), files / "whole/all.parquet")
    run(*fit_arguments("stream", "parts", "--model", "parts.npz"))
    run("fit", "whole", *fit_arguments("stream", "one", "--model", "one.npz")[2:])
    one, parts = (load_model(name).preprocessing_ for name in ("one.npz", "parts.npz"))
    assert one == parts
    assert_array_equal(
        *(np.concatenate([t["cluster"] for t in labels_in(files / n)]) for n in ("one", "parts"))
    )


def with_missing(files, name, row):
    """Leave out a value of the third file."""
    path = files / "people/part-2.parquet"
    table = parquet.read_table(path)
    values = table.column(name).to_pylist()
    values[row] = None
    parquet.write_table(table.drop_columns(name).append_column(name, pa.array(values)), path)


@pytest.mark.usefixtures("small_chunks")
def test_missing_features_are_imputed_on_request_by_every_engine(files, run):
    with_missing(files, "age", 7)
    for engine in ("memory", "stream"):
        run(*fit_arguments(engine, engine, "--missing", "impute", "--model", f"{engine}.npz"))
    for one, two in zip(labels_in(files / "memory"), labels_in(files / "stream"), strict=True):
        assert one.equals(two)
    ages = np.delete(files.people["age"].to_numpy().astype(float), EDGES[2] + 7)
    column = load_model("stream.npz").preprocessing_.columns[0]
    assert (column.name, column.center) == ("age", pytest.approx(ages.mean()))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("clusterer", ["fair_kmeans", "vfc"])
def test_the_report_of_a_directory_has_the_counts_of_all_rows(files, run, engine, clusterer):
    people = files.people.drop_columns("person")
    # More rows than the report takes features of.
    for number in range(25):
        parquet.write_table(people, files / "people" / f"more{number}.parquet")
    options = ("--clusterer", clusterer, "--report", "report.html", "--model", "m.npz")
    run(*fit_arguments(engine, "out", *options))
    assert not hasattr(load_model("m.npz"), "feature_names_in_")
    facts = json.loads((files / "report.json").read_text())
    assert facts["asked"]["n_rows"] == np.sum(facts["met"]["counts"]) == 26 * len(people)
    assert "fairanchor fit people -k 3" in facts["made"]["command"]


@pytest.mark.slow
@pytest.mark.usefixtures("small_chunks")
def test_a_cluster_started_here_gives_the_same_labels(files, run):
    pytest.importorskip("distributed")
    run(*fit_arguments("memory", "one"))
    run(*fit_arguments("dask", "two", "--jobs", 1))
    for one, two in zip(labels_in(files / "one"), labels_in(files / "two"), strict=True):
        assert one.equals(two)


@pytest.mark.usefixtures("small_chunks")
def test_a_checkpoint_is_taken_up_and_belongs_to_one_run(files, run):
    run(*fit_arguments("stream", "one", "--checkpoint", "kept"))
    assert sum(path.stat().st_size for path in (files / "kept").iterdir()) < 500_000
    again = run(*fit_arguments("stream", "two", "--checkpoint", "kept"), code=1)
    assert "Use --resume" in again.stderr
    run(*fit_arguments("stream", "two", "--checkpoint", "kept", "--resume"))
    for one, two in zip(labels_in(files / "one"), labels_in(files / "two"), strict=True):
        assert one.equals(two)
    more = ("--checkpoint", "kept", "--resume", "--seed", 7)
    other = run(*fit_arguments("stream", "three", *more), code=1)
    assert "belongs to another run" in other.stderr
    assert not (files / "three").exists()


FOR_A_FILE = {
    "--id": ["--id", "person"],
    "--missing": ["--missing", "drop-rows"],
    "--scheduler": ["--scheduler", "tcp://127.0.0.1:1"],
    "--resume": ["--resume"],
}


@pytest.mark.parametrize("name", FOR_A_FILE)
def test_what_a_folder_cannot_have_is_refused_at_once(files, run, name):
    result = run(*fit_arguments("stream", "out", *FOR_A_FILE[name]), code=2)
    assert name in result.stderr
    assert not (files / "out").exists()


@pytest.mark.parametrize("option", [["--engine", "stream"], ["--checkpoint", "kept"]])
def test_options_of_folders_are_refused_for_a_file(folder, run, option):
    result = run("fit", "people.csv", "-k", 2, "--sensitive", "sex", *option, code=2)
    assert option[0] in result.stderr
    assert "INPUT is a file" in result.stderr


def test_an_existing_folder_stays_without_force_and_a_foreign_one_always(files, run):
    run(*fit_arguments("memory", "out"))
    (files / "out/part-0.parquet").rename(files / "out/old.parquet")
    assert "--force" in run(*fit_arguments("memory", "out"), code=1).stderr
    run(*fit_arguments("memory", "out", "--force"))
    assert not (files / "out/old.parquet").exists()
    (files / "out" / "thesis.txt").write_text("mine")
    result = run(*fit_arguments("memory", "out", "--force"), code=1)
    assert "thesis.txt" in result.stderr
    assert (files / "out" / "thesis.txt").read_text() == "mine"
    inside = run(*fit_arguments("memory", "people/labels"), code=2)
    assert "is inside INPUT people" in inside.stderr
    kept = run(*fit_arguments("stream", "labels", "--checkpoint", "labels/kept"), code=2)
    assert "is inside -o labels" in kept.stderr


def test_bad_folders_are_named(files, run):
    def message(code=1, *more):
        return run(*fit_arguments("stream", "out", *more), code=code).stderr

    parquet.write_table(pa.table({"sex": ["f"], "age": [1]}), files / "people/odd.parquet")
    assert "'income' is missing" in message()
    assert "odd.parquet" in message()
    (files / "people/odd.parquet").unlink()
    (files / "people/notes.csv").write_text("a,b\n")
    assert "notes.csv" in message()
    (files / "people/notes.csv").unlink()
    for file in (files / "people").iterdir():
        file.unlink()
    assert "has no files" in message()


def test_missing_values_are_named_by_file_and_row(files, run):
    with_missing(files, "age", 7)
    message = run(*fit_arguments("stream", "out"), code=1).stderr
    assert "part-2.parquet" in message
    assert "'age'" in message
    assert "row 7" in message


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_is_said(files, run):
    pytest.importorskip("distributed")
    arguments = fit_arguments("dask", "out", "--scheduler", "tcp://127.0.0.1:9")
    assert "cannot be reached" in run(*arguments, code=1).stderr


@pytest.mark.usefixtures("small_chunks")
def test_a_run_is_resumed_by_another_spelling_of_the_same_folder(files, run):
    run(*fit_arguments("stream", "one", "--checkpoint", "kept"))
    for number, spelling in enumerate(["./people/", str(files / "people")]):
        command, _, *others = fit_arguments(
            "stream", f"again{number}", "--checkpoint", "kept", "--resume"
        )
        run(command, spelling, *others)
        for one, two in zip(
            labels_in(files / "one"), labels_in(files / f"again{number}"), strict=True
        ):
            assert one.equals(two)


def test_missing_groups_are_advised_by_the_option(files, run):
    with_missing(files, "sex", 0)
    message = run(*fit_arguments("stream", "out"), code=1).stderr
    assert "part-2.parquet has 1 or more missing values in column 'sex'" in message
    assert "Use --missing own-group" in message
    assert "missing_groups" not in message
    run(*fit_arguments("stream", "out", "--missing", "own-group"))


def test_label_files_that_would_meet_are_refused_before_the_fit(files, run):
    people = files / "people"
    (people / "part-0.parquet").rename(people / "a.pq")
    (people / "part-2.parquet").rename(people / "a.pq.parquet")
    result = run(*fit_arguments("stream", "out"), code=1)
    assert "Two files of the input would have their labels in a.pq.parquet" in result.stderr
    assert "Clustering" not in result.stderr
    assert not (files / "out").exists()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("option", [("--tolerance", 0.2), ("--min-size", 250), ("--max-size", 310)])
def test_bounds_hold_wherever_the_rows_are(files, run, option):
    found = []
    for engine in ("stream", "memory"):
        run(*fit_arguments(engine, engine, *option))
        parts = [table.column("cluster").to_numpy() for table in labels_in(files / engine)]
        found.append(np.concatenate(parts))
    assert_array_equal(found[0], found[1])
    sizes = np.bincount(found[0])
    assert sizes.min() >= (250 if option[0] == "--min-size" else 1)
    assert sizes.max() <= (310 if option[0] == "--max-size" else sizes.sum())


def test_a_directory_needs_no_dask(files, run, monkeypatch):
    for module in ("fairanchor.rows._dask", "fairanchor.cli._fit"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    for library in ("dask", "distributed"):
        monkeypatch.setitem(sys.modules, library, None)
    run(*fit_arguments("stream", "labels"))
    assert len(labels_in(files / "labels")) == len(EDGES) - 1


def test_the_id_of_a_directory_is_a_column_to_leave_out(files, run):
    message = run(*fit_arguments("stream", "labels", "--id", "age"), code=2).stderr
    assert "use --exclude for this column" in " ".join(message.split())


def test_a_cluster_without_workers_is_said_before_any_row_is_read(files, run, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(_dask, "WAIT_SECONDS", 0.2)
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty:
        more = ("--scheduler", empty.scheduler_address)
        result = run(*fit_arguments("dask", "out", *more), code=1)
    assert "has no workers, and none came within 0.2 s. Start some" in result.stderr


def test_what_predict_does_not_take_with_a_directory_is_named(files, run):
    run(*fit_arguments("stream", "labels", "--model", "m.npz"))
    for options, words in [
        (["-o", "new", "--id", "age"], "--id is for a single file"),
        ([], "name it with -o"),
        (["-o", "people/new"], "is inside"),
        (["-o", "new", "--missing", "drop-rows"], "single file"),
    ]:
        assert words in run("predict", "m.npz", "people", *options, code=2).stderr
    (files / "other").mkdir()
    table = files.people.drop_columns(["person", "age"])
    parquet.write_table(table, files / "other" / "a.parquet")
    assert "'age'" in run("predict", "m.npz", "other", "-o", "new", code=1).stderr
    assert not (files / "new").exists()
