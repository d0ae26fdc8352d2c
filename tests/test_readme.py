"""The README's code runs as printed."""

import re
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.slow
def test_python_blocks_of_the_readme_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    namespace = {}
    for block in blocks:
        exec(block, namespace)
    model = namespace["model"]
    assert model.worst_violation_ < 1
    np.testing.assert_array_equal(namespace["new_labels"], model.labels_[:10])
    X, group = namespace["X"], namespace["group"]
    again = namespace["load_model"](tmp_path / "segments.npz")
    np.testing.assert_array_equal(again.predict(X, sensitive_features=group), model.labels_)
    assert "<html" in (tmp_path / "segments.html").read_text(encoding="utf-8")
