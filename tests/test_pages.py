"""Pages that users read: links lead to files, and the reference lists every public name."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_the_page_lead_to_files(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    for link in links:
        made_by_the_build = "gallery/" in link or "api/generated/" in link
        assert "://" in link or made_by_the_build or (page.parent / link).exists(), link


@pytest.mark.parametrize("module", ["", "audit", "metrics", "plotting", "datasets", "report"])
def test_the_reference_lists_every_public_name(module):
    text = (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8")
    place = f"fairanchor.{module}" if module else "fairanchor"
    listed = set()
    for part in re.split(r"^\.\. currentmodule:: ", text, flags=re.MULTILINE)[1:]:
        if part.split("\n", 1)[0] == place:
            listed |= set(re.findall(r"^   (\w+)$", part, re.MULTILINE))
    assert listed == set(import_module(place).__all__)
