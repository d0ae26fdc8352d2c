"""The benchmark of the tolerance runs, and its checks hold on small rows."""

import importlib
import json
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "benchmarks"


def test_a_quick_run_leaves_complete_results(tmp_path, capsys):
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    benchmark = importlib.import_module("tolerance")
    assert benchmark.main(["--quick", "--rows", "500", "--results", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "tolerance.json").read_text())
    assert all(check["holds"] for check in document["checks"])
    assert [record["tolerance"] for record in document["records"]] == list(benchmark.TOLERANCES)
    for record in document["records"]:
        assert record["violation"] < 1.0
        assert record["seconds"] > 0.0
        assert record["seconds_of_whole_program"] > 0.0
    assert "rows move" in capsys.readouterr().out
