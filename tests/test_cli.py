"""The command line, and what importing costs."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from fairanchor.cli import main


@pytest.mark.slow
def test_demo_prints_both_compositions_and_the_balance():
    result = CliRunner().invoke(main, ["demo", "--rows", "3000", "-k", "3", "--jobs", "1"])
    assert result.exit_code == 0, result.output
    for words in ("Plain k-means", "FairKMeans", "best possible balance", "seconds"):
        assert words in result.output


def test_every_command_has_help_with_an_example():
    for name in main.list_commands(None):
        command = main.get_command(None, name)
        result = CliRunner().invoke(main, [name, "--help"])
        assert result.exit_code == 0
        assert command.help
        assert f"fairanchor {name}" in result.output


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from fairanchor.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'numba', 'sklearn', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")


def test_public_names_are_importable_and_listed():
    import fairanchor

    for name in fairanchor.__all__:
        assert getattr(fairanchor, name).__name__ == name
    assert set(fairanchor.__all__) < set(dir(fairanchor))
