"""Manners of the whole command line: help, examples, interrupts, full disks, start-up."""

import datetime as dt
import json
import os
import pty
import re
import resource
import shlex
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from fairanchor import FairKMeans
from fairanchor.cli import main
from fairanchor.cli._common import print_json

# Their examples take minutes.
SLOW = {"demo", "warm-up"}
FIT = ("fit", "people.csv", "-k", "2", "--sensitive", "sex", "--id", "person", "--jobs", "1")


def example_of(name):
    """The command after ``Example:`` in a command's help."""
    text = CliRunner().invoke(main, [name, "--help"], terminal_width=400).stdout
    return shlex.split(re.search(r"Example: fairanchor (.*)", text).group(1))


def test_every_command_has_help_with_an_example():
    for name in main.commands:
        assert main.commands[name].name == name
        assert example_of(name)[0] == name


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in main.commands if name not in SLOW])
def test_the_examples_run_as_printed(folder, run, name):
    folder.write("new.csv")
    if name in ("predict", "audit", "report"):
        run(*example_of("fit"))
    run(*example_of(name))


def test_help_and_version_import_nothing_heavy():
    for argument in ("--help", "--version"):
        code = (
            "import sys; from fairanchor.cli import main\n"
            f"try: main([{argument!r}])\n"
            "except SystemExit: pass\n"
            "heavy = {'numpy', 'numba', 'sklearn', 'scipy', 'pyarrow', 'rich', 'matplotlib'}\n"
            "print(sorted(heavy & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout.strip().endswith("[]"), done.stdout


def test_json_has_any_name_and_no_nan(capsys):
    summary = {"groups": [("a", None), dt.date(2020, 1, 2)], "cost": float("nan"), "n": np.int64(3)}
    print_json(summary)
    found = json.loads(capsys.readouterr().out)
    assert found == {"groups": [["a", None], "2020-01-02"], "cost": None, "n": 3}


def test_an_unknown_command_is_wrong_usage(run):
    assert "No such command" in run("cluster", code=2).output


def test_an_interrupt_ends_with_130_and_leaves_nothing(folder, run, monkeypatch):
    def interrupted(self, *args, **kwargs):
        raise KeyboardInterrupt

    before = folder.names
    monkeypatch.setattr(FairKMeans, "fit", interrupted)
    result = run(*FIT, "-o", "labels.csv", "--model", "m.npz", code=130)
    assert "Interrupted" in result.stderr
    assert folder.names == before


@pytest.mark.slow
def test_a_real_ctrl_c_ends_with_130(folder):
    code = (
        "import os, signal\n"
        "from fairanchor import FairKMeans\n"
        "from fairanchor.cli import main\n"
        "fit = FairKMeans.fit\n"
        "def slow(self, *args, **kwargs):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return fit(self, *args, **kwargs)\n"
        "FairKMeans.fit = slow\n"
        f"main({[*FIT, '-o', 'labels.csv']!r})\n"
    )
    before = folder.names
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert folder.names == before


def test_a_full_disk_is_an_error_and_leaves_the_old_file(folder, run):
    (folder / "labels.csv").write_text("old")
    before = folder.names
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        result = run(*FIT, "-o", "labels.csv", "--force", code=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "File too large" in result.stderr
    assert (folder / "labels.csv").read_text() == "old"
    assert folder.names == before


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_traceback(folder):
    command = [sys.executable, "-m", "fairanchor", *FIT, "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 1
    assert "Traceback" not in stderr


def test_a_defect_is_not_dressed_up_as_bad_input(folder, run, monkeypatch):
    def broken(self, *args, **kwargs):
        raise AttributeError("a defect")

    monkeypatch.setattr(FairKMeans, "fit", broken)
    with pytest.raises(AttributeError, match="a defect"):
        run(*FIT)


def test_errors_show_where_they_happened_on_request(folder, run, monkeypatch):
    monkeypatch.setenv("FAIRANCHOR_TRACEBACK", "1")
    with pytest.raises(FileNotFoundError):
        run("fit", "none.csv", "-k", 2, "--sensitive", "sex")


STEP = "with run.step('fit', 'Clustering 900 rows'): pass"


def output_on_a_terminal(*, quiet=False, step=STEP, **environment):
    """What a step of a command writes to standard error when that is a terminal."""
    leader, follower = pty.openpty()
    code = f"from fairanchor.cli._terminal import Run\nrun = Run({quiet})\n{step}"
    environment = os.environ | {"TERM": "xterm"} | environment
    process = subprocess.Popen([sys.executable, "-c", code], stderr=follower, env=environment)
    os.close(follower)
    written = b""
    while True:
        try:
            data = os.read(leader, 4096)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        written += data
    os.close(leader)
    assert process.wait() == 0
    return written.decode("utf-8")


def test_progress_is_shown_on_a_terminal_only(folder, run):
    shown = output_on_a_terminal()
    assert "Clustering 900 rows" in shown
    assert "\x1b[" in shown
    assert output_on_a_terminal(quiet=True) == ""
    elsewhere = run(*FIT).stderr
    assert "Clustering 900 rows" not in elsewhere
    assert "\x1b" not in elsewhere


def test_passes_over_chunks_are_counted_on_a_terminal():
    step = """
with run.step('fit', 'Clustering') as show:
    for done in range(1, 4):
        show('first pass', done, 3)
"""
    shown = output_on_a_terminal(step=step)
    assert "Clustering: first pass" in shown
    assert "3/3" in shown


def test_no_color_is_respected():
    colors = re.compile(r"\x1b\[[0-9;]*3[0-7]m")
    assert colors.search(output_on_a_terminal())
    assert not colors.search(output_on_a_terminal(NO_COLOR="1"))


def test_warnings_before_an_error_are_not_lost(folder, run):
    folder.write("odd.csv", number=list(range(900)), empty=[None] * 899 + [1])
    result = run("fit", "odd.csv", *FIT[2:], code=1)
    assert "Warning: The column 'number' has the numbers 0 to 899" in result.stderr
    assert "Error: The column 'empty' has 899 missing values" in result.stderr


def test_an_output_that_is_an_input_or_another_output_is_refused(folder, run):
    before = (folder / "people.csv").read_bytes()
    result = run(*FIT, "-o", "./people.csv", "--force", code=2)
    assert "is an input" in result.stderr
    assert (folder / "people.csv").read_bytes() == before
    result = run(*FIT, "-o", "./m.csv", "--model", "m.csv", "--force", code=2)
    assert "Two outputs would be written to" in result.stderr


@pytest.mark.slow
def test_a_damaged_arrow_file_is_refused_not_followed(folder):
    """Offsets that point anywhere would end the process."""
    code = """
import numpy as np, pyarrow as pa
from pyarrow import feather
from fairanchor.tables._read import open_table
feather.write_feather(pa.table({"g": ["a", "bb", "ccc"] * 100}), "whole.arrow", "uncompressed")
whole = open("whole.arrow", "rb").read()
for place in np.random.default_rng(0).integers(len(whole), size=300).tolist():
    damaged = bytearray(whole)
    damaged[place] ^= 0xFF
    open("damaged.arrow", "wb").write(bytes(damaged))
    try:
        source = open_table("damaged.arrow")
        source.read(source.columns)["g"].dictionary_encode()
    except (ValueError, OSError, KeyError):
        pass
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder.path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
