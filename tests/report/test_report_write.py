"""The files appear whole or not at all."""

import json

import pytest

from fairanchor.report import summarise_labels, write_report

OLD = "<p>the old report</p>"


@pytest.fixture
def run():
    return summarise_labels([0, 0, 1, 1], sensitive_features=["a", "b", "a", "b"])


def test_an_old_file_is_replaced_only_with_force(tmp_path, run):
    path = tmp_path / "report.html"
    path.write_text(OLD)
    with pytest.raises(FileExistsError, match="force=True"):
        write_report(path, run)
    assert path.read_text() == OLD
    write_report(str(path), run, force=True)
    assert path.read_text("utf-8").startswith("<!DOCTYPE html>")
    facts = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert facts["met"]["answer"] == "Yes"
    path.unlink()
    with pytest.raises(FileExistsError, match=r"report\.json"):
        write_report(path, run)


BAD_PATHS = [
    ("missing/report.html", FileNotFoundError, "missing"),
    (".", IsADirectoryError, "is a directory"),
]


@pytest.mark.parametrize(("name", "error", "message"), BAD_PATHS)
def test_a_path_that_cannot_be_written_is_refused_before_the_work(
    tmp_path, run, monkeypatch, name, error, message
):
    monkeypatch.setattr("fairanchor.report.render_report", lambda run: pytest.fail("rendered"))
    with pytest.raises(error, match=message):
        write_report(tmp_path / name, run, force=True)
