"""Modules have docstrings, and the pages and the map of the code name what is there."""

import ast
import re
from pathlib import Path

import pytest

import fairanchor

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "fairanchor").rglob("*.py"))
SCRIPTS = sorted([*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "examples").glob("*.py")])


def test_every_module_says_what_lives_there():
    trees = {str(path): ast.parse(path.read_text()) for path in SOURCES + SCRIPTS}
    assert [path for path, tree in trees.items() if not ast.get_docstring(tree)] == []


def test_the_map_of_the_code_names_every_folder_and_no_other():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"^  (\w+)/ ", text, re.MULTILINE))
    package = ROOT / "src" / "fairanchor"
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    assert folders - drawn <= {"_plots"}  # drawn beside plotting.py
    assert drawn <= folders


def test_the_map_of_the_code_names_every_module_beside_the_folders():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"\w+\.py", text[text.index("```text") : text.index("tests/  ")]))
    modules = {path.name for path in SOURCES if path.parent.name == "fairanchor"}
    assert drawn == modules - {"__main__.py"}


@pytest.mark.parametrize("module", ["", "metrics", "plotting", "datasets", "report"])
def test_the_reference_has_every_public_name(module):
    text = (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8")
    place = f"fairanchor.{module}" if module else "fairanchor"
    listed = set()
    for part in re.split(r"^\.\. currentmodule:: ", text, flags=re.MULTILINE)[1:]:
        if part.split("\n", 1)[0] == place:
            listed |= set(re.findall(r"^   (\w+)$", part, re.MULTILINE))
    package = __import__(place, fromlist=["__all__"])
    assert listed == set(package.__all__)


def test_names_in_the_notation_are_in_the_code():
    rows = (ROOT / "docs" / "background" / "notation.md").read_text(encoding="utf-8").splitlines()
    cells = [cell for row in rows if row.startswith("|") for cell in row.split("|")[3:5]]
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    places = {str(path.relative_to(ROOT / "src" / "fairanchor")) for path in SOURCES}
    for name in re.findall(r"`([^`]+)`", " ".join(cells)):
        if name.endswith((".py", "/")):
            assert any(place.startswith(name) for place in places), name
        else:
            word = re.split(r"[=(\[]", name)[0].split(".")[-1].replace("len", "groups_")
            assert re.search(rf"\b{word}\b", code), name


def test_every_notation_parameter_belongs_to_the_estimator():
    parameters = set(fairanchor.AnchorFairClustering().get_params())
    rows = (ROOT / "docs" / "background" / "notation.md").read_text(encoding="utf-8").splitlines()
    columns = [row.split("|")[3] for row in rows if row.startswith("|")]
    named = set(re.findall(r"`(\w+)=", " ".join(columns)))
    assert named
    assert named <= parameters
