"""What ``make oldest`` installs is what pyproject.toml promises."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_dependency_is_installed_in_its_oldest_version():
    command = [sys.executable, ROOT / ".ci" / "oldest.py", "report"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    promised = project["dependencies"] + project["optional-dependencies"]["report"]
    assert done.stdout.splitlines() == [one.replace(">=", "==") + ".*" for one in promised]


def test_the_tests_of_the_oldest_versions_exist():
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    (line,) = [line for line in text.splitlines() if line.startswith("SMOKE")]
    paths = line.partition(":=")[2].split()
    assert len(paths) >= 5
    assert all((ROOT / path).exists() for path in paths)
