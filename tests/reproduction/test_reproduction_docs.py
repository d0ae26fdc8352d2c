"""The page of findings in the documentation is the one that the committed results made."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_documentation_is_the_findings_of_the_committed_run():
    results = ROOT / "benchmarks" / "paper" / "results"
    if not (results / "findings.md").exists():
        pytest.skip("no full run is committed in benchmarks/paper/results")
    assert (ROOT / "docs" / "reproduction.md").read_text() == (results / "findings.md").read_text()
