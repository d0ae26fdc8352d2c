"""What reaches the terminal and standard output: odd names, dumb terminals, readers that go."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from test_command_line import output_on_a_terminal

from fairanchor.cli import main
from fairanchor.cli._common import composition_lines, show_name
from fairanchor.cli._terminal import printable
from fairanchor.plotting._names import display_name

FIT = ("fit", "people.csv", "-k", "2", "--sensitive", "sex", "--id", "person", "--jobs", "1", "-q")
AUDIT = ("audit", "people.csv", "--sensitive", "sex", "--cluster", "job")
NASTY = "\x1b[31mred\x07\n" + "\u202e" + "x" * 300


def fairanchor(*arguments, **options):
    """The command line in a process of its own."""
    command = [sys.executable, "-m", "fairanchor", *arguments]
    return subprocess.run(command, capture_output=True, **options)


def is_harmless(text):
    return all(character.isprintable() or character == "\n" for character in text)


def test_names_of_groups_are_shown_as_text_and_cut():
    assert is_harmless(show_name(NASTY))
    assert "\n" not in show_name(NASTY)
    assert len(show_name(NASTY)) <= 40
    assert show_name((NASTY, "b", None)).endswith(" × b × (missing)")
    # As reports, pictures and the sentences of an audit have it.
    assert show_name(("f", 1)) == display_name(("f", 1)) == "f × 1"
    lines = composition_lines(np.ones((2, 2)), [NASTY, "b"], [NASTY, "c"])
    assert max(map(len, lines)) < 160
    assert len(lines) == 4


def test_names_in_data_cannot_write_to_the_terminal(folder, run):
    people = folder.people
    sex = [NASTY if value == "f" else value for value in people["sex"].to_pylist()]
    folder.write("odd.parquet", sex=sex)
    result = run("fit", "odd.parquet", *FIT[2:-1], "-o", "a.csv")
    audited = run("audit", "odd.parquet", "--sensitive", "sex", "--cluster", "sex", code=2)
    jobs = run("audit", "odd.parquet", "--sensitive", "job", "--cluster", "sex")
    folder.write("column.parquet", **{NASTY: pa.nulls(len(people))})
    refused = run("fit", "column.parquet", *FIT[2:], "--exclude", "zz", code=1)
    for text in (result.stderr, audited.stderr, jobs.stdout, refused.stderr):
        assert is_harmless(text)
        assert max(map(len, text.splitlines())) < 900


def test_a_file_name_cannot_write_to_the_terminal(folder, run):
    (folder.path / "\x1b[31m.csv").write_text("a")
    assert is_harmless(run("fit", "\x1b[31m.csv", *FIT[2:], code=1).stderr)


def test_nothing_but_text_is_printable():
    assert printable("a\tb\x1bc\u202ed\ne") == r"a\tb\x1bc\u202ed e"


def test_a_dumb_terminal_gets_no_spinner():
    for term in ("dumb", "unknown"):
        assert output_on_a_terminal(TERM=term) == ""


@pytest.mark.slow
def test_a_terminal_without_the_letters_gets_their_numbers(folder):
    folder.write("odd.csv", sex=["é" if i % 2 else "漢" for i in range(len(folder.people))])
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = fairanchor("audit", "odd.csv", *AUDIT[2:], env=environment, encoding="latin-1")
    assert done.returncode == 0, done.stderr
    header = done.stdout.splitlines()[0].split()
    assert header == ["cluster", "rows", "é", r"\u6f22"]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [FIT, AUDIT])
def test_a_full_standard_output_is_named_once(folder, arguments):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "fairanchor", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["Error: standard output: No space left on device"]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [FIT, AUDIT])
def test_a_closed_standard_output_is_said(folder, arguments):
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "fairanchor", *arguments],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 1
    assert "tandard output is closed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_command_silently(folder):
    command = [sys.executable, "-m", "fairanchor", *AUDIT, "-q"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 1
    assert stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("option", ["-o", "--model", "--report"])
def test_an_error_of_writing_names_the_file_and_leaves_nothing(folder, run, monkeypatch, option):
    name = {"-o": "labels.csv", "--model": "m.npz", "--report": "r.html"}[option]
    before = folder.names

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = run(*FIT, option, name, code=1)
    assert result.stderr == f"Error: {name}: could not be written: No space left on device\n"
    assert folder.names == before


def test_errors_of_usage_name_the_command_for_help():
    result = CliRunner().invoke(main, ["fit", "-", "-k", "2", "--sensitive", "g", "-o", "a.xyz"])
    assert result.exit_code == 2
    assert "Try 'main fit --help' for help." in result.stderr
