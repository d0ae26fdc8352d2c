"""The file appears whole or not at all."""

import errno
import os
import stat

import pytest

from fairanchor.report import summarise_labels, write_report

OLD = "<p>the old report</p>"


@pytest.fixture
def run():
    return summarise_labels([0, 0, 1, 1], sensitive_features=["a", "b", "a", "b"])


def test_a_new_file_is_written_with_the_usual_permissions(tmp_path, run):
    path = tmp_path / "report.html"
    write_report(path, run)
    other = tmp_path / "other"
    other.touch()
    assert path.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_an_old_file_is_replaced_only_with_force(tmp_path, run):
    path = tmp_path / "report.html"
    path.write_text(OLD)
    path.chmod(0o640)
    with pytest.raises(FileExistsError, match="force=True"):
        write_report(path, run)
    assert path.read_text() == OLD
    write_report(str(path), run, force=True)
    assert path.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path, run):
    target, link = tmp_path / "target.html", tmp_path / "link.html"
    target.write_text(OLD)
    link.symlink_to(target)
    write_report(link, run, force=True)
    assert link.is_symlink()
    assert target.read_text("utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, run, monkeypatch, call):
    path = tmp_path / "report.html"
    path.write_text(OLD)

    def fail(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        write_report(path, run, force=True)
    assert path.read_text() == OLD
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


BAD_PATHS = [
    ("missing/report.html", FileNotFoundError, "the directory .*missing does not exist"),
    (".", IsADirectoryError, "is a directory"),
]


@pytest.mark.parametrize(("name", "error", "message"), BAD_PATHS)
def test_a_path_that_cannot_be_written_is_refused_before_the_work(
    tmp_path, run, monkeypatch, name, error, message
):
    monkeypatch.setattr("fairanchor.report.render_report", lambda run: pytest.fail("rendered"))
    with pytest.raises(error, match=message):
        write_report(tmp_path / name, run, force=True)
