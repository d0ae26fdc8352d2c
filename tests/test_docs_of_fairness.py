"""The page on fairness: its examples run."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "fairness.md"


def test_python_blocks_of_the_page_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 4
    namespace = {}
    for block in blocks:
        exec(block, namespace)
    assert "relative_balance" in capsys.readouterr().out
    costs = namespace["path"].table["cost"]
    assert costs[0] > costs[-1]


@pytest.mark.parametrize("name", ["tolerance", "attributes", "unknown_groups", "fairness_path"])
def test_the_page_explains(name):
    assert f"`{name}" in PAGE.read_text(encoding="utf-8")
