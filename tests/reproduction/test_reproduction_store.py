"""Finished cells: kept under a name that tells them apart, never half written."""

import json
from dataclasses import replace

import pytest

from fairanchor.reproduction import _cells
from fairanchor.reproduction._cells import Cell, Settings, fingerprint
from fairanchor.reproduction._data import Shape
from fairanchor.reproduction._store import MARKER, CellStore, check_folder, write_text

CELL = Cell("law", "spfc", "framework", "ours", per_group=5, alpha=1.0)
SHAPE = Shape("law", 100, 10, 2, (40, 60), "the published table", "0123")
SETTINGS = Settings()


@pytest.mark.parametrize(
    "change",
    [
        {"cell": replace(CELL, alpha=2.0)},
        {"cell": replace(CELL, refine=20)},
        {"cell": replace(CELL, rows=50)},
        {"shape": replace(SHAPE, digest="4567")},
        {"settings": replace(SETTINGS, seed=1)},
    ],
)
def test_whatever_changes_a_result_changes_its_name(change):
    given = {"cell": CELL, "shape": SHAPE, "settings": SETTINGS}
    assert fingerprint(**given) != fingerprint(**(given | change))


def test_another_version_of_the_library_has_other_names(monkeypatch):
    before = fingerprint(CELL, SHAPE, SETTINGS)
    monkeypatch.setattr(_cells, "__version__", "999")
    assert fingerprint(CELL, SHAPE, SETTINGS) != before


def test_limits_matter_to_timed_cells_only():
    patient = replace(SETTINGS, time_limit=1.0)
    assert fingerprint(CELL, SHAPE, SETTINGS) == fingerprint(CELL, SHAPE, patient)
    timed = replace(CELL, timed=True)
    assert fingerprint(timed, SHAPE, SETTINGS) != fingerprint(timed, SHAPE, patient)


def test_a_result_comes_back_as_it_was(tmp_path):
    store = CellStore(tmp_path / "cells", SETTINGS)
    assert store.get(CELL, SHAPE) is None
    result = {"status": "done", "acc": 1 / 3, "warnings": ["é"]}
    store.put(CELL, SHAPE, result)
    assert store.get(CELL, SHAPE) == result
    assert store.get(replace(CELL, alpha=7.0), SHAPE) is None
    (file,) = (tmp_path / "cells").iterdir()
    assert json.loads(file.read_text())["cell"]["per_group"] == 5


def test_a_damaged_file_is_announced_and_measured_again(tmp_path):
    store = CellStore(tmp_path, SETTINGS)
    store.put(CELL, SHAPE, {"status": "done"})
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text()[:10])
    with pytest.warns(UserWarning, match="cannot be read .* measured again"):
        assert store.get(CELL, SHAPE) is None


def test_recompute_ignores_earlier_results_but_not_its_own(tmp_path):
    CellStore(tmp_path, SETTINGS).put(CELL, SHAPE, {"status": "done", "acc": 0.1})
    store = CellStore(tmp_path, SETTINGS, recompute=True)
    assert store.get(CELL, SHAPE) is None
    store.put(CELL, SHAPE, {"status": "done", "acc": 0.2})
    assert store.get(CELL, SHAPE)["acc"] == 0.2


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    write_text(path, "old")

    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_text(path, "new")
    assert [file.name for file in tmp_path.iterdir()] == ["table.csv"]
    assert path.read_text() == "old"


def test_only_own_or_empty_folders_are_written_to(tmp_path):
    check_folder(tmp_path / "new")
    check_folder(tmp_path / "new")  # empty
    (tmp_path / "new" / "thesis.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="was not made by this command"):
        check_folder(tmp_path / "new")
    check_folder(tmp_path / "new", force=True)
    (tmp_path / "new" / MARKER).write_text("{}")
    check_folder(tmp_path / "new")
    with pytest.raises(FileExistsError, match="is a file"):
        check_folder(tmp_path / "new" / "thesis.txt")
