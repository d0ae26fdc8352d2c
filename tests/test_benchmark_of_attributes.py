"""The benchmark of several attributes runs, and its checks hold on small rows."""

import importlib
import json
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "benchmarks"


def test_a_quick_run_has_every_column_of_every_method(tmp_path, capsys):
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    benchmark = importlib.import_module("attributes")
    assert benchmark.main(["--quick", "--repeats", "1", "--results", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "attributes.json").read_text())
    assert all(check["holds"] for check in document["checks"])
    assert len(document["records"]) == 2 * len(benchmark.METHODS)
    costs = {(r["method"], r["attributes"]): r["cost_per_row"] for r in document["records"]}
    for method in benchmark.METHODS:
        assert costs[method, "separate"] <= 1.01 * costs[method, "intersection"]
    assert "race" in capsys.readouterr().out
