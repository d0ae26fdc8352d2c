"""Files that are whole or not there."""

import os
import resource
import stat

import pytest

from fairanchor._utils._files import check_output, replacing


def write(path, data=b"new", **options):
    with replacing(path, **options) as file:
        file.write(data)


def test_a_new_file_has_its_content_and_nothing_else_is_left(tmp_path):
    write(tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.csv"]


def test_a_new_file_has_the_permissions_of_ordinary_files(tmp_path):
    (tmp_path / "ordinary").write_bytes(b"")
    write(tmp_path / "a.csv")
    assert (tmp_path / "a.csv").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_an_existing_file_is_replaced_only_by_force_and_keeps_its_permissions(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with pytest.raises(FileExistsError, match="force=True"):
        write(path)
    assert path.read_bytes() == b"old"
    write(path, force=True)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [OSError("no space"), KeyboardInterrupt()])
def test_an_error_while_writing_leaves_the_old_file_and_no_other(tmp_path, error):
    path = tmp_path / "a.csv"
    path.write_bytes(b"old")

    def fail(file):
        file.write(b"half")
        raise error

    with pytest.raises(type(error)), replacing(path, force=True) as file:
        fail(file)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.csv"]


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            write(path, b"x" * 1_000_000, force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.csv"]


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path):
    path = tmp_path / "a.csv"
    with pytest.raises(FileExistsError), replacing(path):
        path.write_bytes(b"theirs")
    assert path.read_bytes() == b"theirs"


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write(link, force=True)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_name_may_be_as_long_as_names_can_be(tmp_path):
    path = tmp_path / ("é" * 125 + ".csv")
    write(path)
    assert path.read_bytes() == b"new"


def test_an_error_of_writing_names_the_file(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="could not be written: No space left") as caught:
        write(tmp_path / "a.csv")
    assert caught.value.filename == str(tmp_path / "a.csv")
    assert caught.value.errno == 28
    assert os.listdir(tmp_path) == []


def test_an_error_about_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "a.csv"):
        (tmp_path / "none").read_bytes()
    assert caught.value.filename == str(tmp_path / "none")
    assert os.listdir(tmp_path) == []


@pytest.fixture
def private_umask():
    before = os.umask(0o027)
    yield 0o640
    os.umask(before)


def test_files_are_synced_and_have_the_mode_of_the_umask(tmp_path, private_umask, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), fsync(file)))
    write(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == private_umask
    assert len(synced) == 2  # the file and its folder
    assert os.listdir(tmp_path) == ["a"]


def test_a_device_is_written_as_it_is():
    check_output(os.devnull)
    write(os.devnull)
    assert not os.path.isfile(os.devnull)


def test_a_folder_and_a_missing_folder_are_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a directory"):
        check_output(tmp_path)
    with pytest.raises(FileNotFoundError, match="the directory .* does not exist"):
        check_output(tmp_path / "nowhere" / "a.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError, match="not writable"):
            check_output(tmp_path / "a.csv")
    finally:
        tmp_path.chmod(0o700)
