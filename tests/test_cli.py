"""The command line, and what importing costs."""

import pytest
from click.testing import CliRunner

from fairanchor.cli import main


@pytest.mark.slow
def test_the_demonstration_names_commands_that_run_and_keeps_the_report_of_an_earlier_one(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    arguments = ["demo", "--rows", "3000", "-k", "3", "--jobs", "1"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    for words in ("Plain k-means", "FairKMeans", "balance above", "seconds"):
        assert words in result.output
    report = (tmp_path / "demo-report.html").read_text()
    assert "<html" in report
    (tmp_path / "demo-report.html").write_text("mine")
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 0, again.output
    assert (tmp_path / "demo-report.html").read_text() == "mine"
    assert CliRunner().invoke(main, [*arguments, "--report", "demo-report.html"]).exit_code == 1
    commands = [line.split()[1:] for line in result.output.splitlines() if line.startswith("main ")]
    assert len(commands) == 2
    for command in commands:
        run = CliRunner().invoke(main, command)
        assert run.exit_code == 0, run.output
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 5001


def test_public_names_are_importable_and_listed():
    import fairanchor

    for name in fairanchor.__all__:
        assert getattr(fairanchor, name).__name__ == name
    assert set(fairanchor.__all__) < set(dir(fairanchor))


def test_the_table_of_the_demonstration_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["demo", "--save", "-"])
    assert result.exit_code == 2
    assert "--save needs a file" in result.output
