"""The benchmark of the paper: published numbers, choices, resumed runs, and one small run."""

import csv
import json
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks" / "paper"
# Left there: processes of their own import the modules as well.
sys.path.insert(0, str(FOLDER))

import cells  # noqa: E402
import data  # noqa: E402
import fits  # noqa: E402
import records  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402

SHAPE = data.Shape("zafar", 100, 5, 2, (60, 40), "generated", "0")
COURSE = cells.Request((), ("convergence",), ("zafar",))


@contextmanager
def silent(title, n_cells):
    yield lambda cell, result: None


def test_published_numbers_are_read_as_they_are_in_the_file():
    published = records.read_published()
    keys = ("table", "dataset", "method", "where", "variant", "metric")
    assert len({tuple(r[key] for key in keys) for r in published}) == len(published) == 350
    for record in published:
        assert record["table"] in cells.TABLES
        assert record["dataset"] in data.TITLES
        assert record["method"] in cells.METHODS
        assert record["where"] in ("alone", "framework")
        assert record["kind"] in records.KINDS
        assert (record["value"] is None) == (record["kind"] != "value")
    wanted = {"table": "2", "dataset": "bank", "method": "vfc", "metric": "acc"}
    alone, framework = sorted(records.select(published, **wanted), key=lambda r: r["where"])
    assert (alone["value"], framework["value"]) == (0.642, 0.719)


def test_no_published_balance_exceeds_that_of_its_dataset():
    # min / max of the published group sizes; Zafar's of one draw and its spread.
    bounds = {"law": 8142 / 10550, "credit": 11646 / 17891, "bank": 4612 / 24928, "zafar": 0.71}
    for record in records.select(records.read_published(), metric="balance"):
        if record["value"] and record["dataset"] in bounds:
            assert record["value"] <= bounds[record["dataset"]] + 0.0005


def test_the_label_free_rule_takes_the_least_cost_among_fair_points_and_ignores_labels():
    points = [(0.9, 0.5, 2.0), (0.2, 0.99, 5.0), (0.1, 0.985, 4.0), (0.3, 0.5, 1.0)]
    grid = [
        cells.Cell("law", "vfc", "framework", "ours", per_group=5, alpha=float(i))
        for i in range(len(points))
    ]
    results = {
        cell: {"status": "done", "acc": acc, "nmi": 0.0, "relative_balance": fair, "cost": cost}
        for cell, (acc, fair, cost) in zip(grid, points, strict=True)
    }
    assert cells.choose("grid_labels", results) == grid[0]
    assert cells.choose("grid_label_free", results) == grid[2]
    results[grid[2]]["status"] = results[grid[1]]["status"] = "refused"
    assert cells.choose("grid_label_free", results) == grid[0]  # none is fair enough: a tie
    assert cells.choose("grid_labels", {}) is None


def test_an_interrupted_run_continues_without_measuring_again(tmp_path, monkeypatch):
    measured = []

    def measure(cell, settings):
        if len(measured) == 2 and not list(tmp_path.glob("go on")):
            raise KeyboardInterrupt
        measured.append(cell)
        return {"status": "done", "seed": settings.seed}

    def go(settings=None, **options):
        settings = settings or cells.Settings()
        shapes = options.pop("shapes", {"zafar": SHAPE})
        folder = tmp_path / "cells"
        return fits.run(COURSE, settings, folder, shapes, progress=silent, **options)

    monkeypatch.setattr(fits, "measure_cell", measure)
    with pytest.raises(KeyboardInterrupt):
        go()
    (tmp_path / "go on").touch()
    outcome = go()
    n_cells = len(outcome.results)
    assert len(set(measured)) == len(measured) == n_cells == 6
    assert go() == outcome
    assert len(measured) == n_cells
    # Whatever changes a result is measured.
    assert all(r["seed"] == 1 for r in go(cells.Settings(seed=1)).results.values())
    go(shapes={"zafar": replace(SHAPE, digest="1")})
    go(recompute=True)
    assert len(measured) == 4 * n_cells


@pytest.mark.slow
def test_a_small_run_writes_tables_figures_and_findings(tmp_path, monkeypatch):
    for module in (cells, records):
        monkeypatch.setattr(module, "METHODS", {"spfc": "SpFC", "vfc": "VFC"})
    request = cells.Request(cells.TABLES, ("alpha", "convergence"), ("zafar",))
    settings = cells.Settings(
        max_rows=100, per_group=(5,), alphas=(1.0, 100.0), own_per_group=(5, 20)
    )
    shapes = {"zafar": data.shape_of(data.load("zafar", None, 100))}
    outcome = fits.run(request, settings, tmp_path / "cells", shapes, progress=silent)
    assert {result["status"] for result in outcome.results.values()} == {"done"}
    found = report.write_report(tmp_path, request, settings, outcome)
    assert found == json.loads((tmp_path / "results.json").read_text())
    for table in cells.TABLES:
        for block in cells.BLOCKS:
            own = records.select(found, table=table, block=block, status="done")
            assert {"spfc", "vfc"} <= {record["method"] for record in own}
        with (tmp_path / f"table{table}.csv").open(encoding="utf-8") as file:
            assert all(None not in line for line in csv.DictReader(file))
    # Counts are proportional to one sample at any number of rows.
    ours = records.select(found, table="2", block="ours", where="framework")
    violations = records.select(ours, metric="worst_violation")
    assert {r["selection"] for r in violations} >= {"defaults", *cells.RULES}
    assert max(record["value"] for record in violations) < 1
    for figure in request.figures:
        assert (tmp_path / f"figure_{figure}.svg").read_text().count("<path") > 10
    text = (tmp_path / "findings.md").read_text(encoding="utf-8")
    for section in ("The data", "exact composition", "the targets", "Proposition 1"):
        assert section in text
    assert "0.71" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_the_plan_counts_the_fits_and_runs_none(tmp_path):
    arguments = ["--all", "--dataset", "zafar", "--rows", "100", "--plan", "--json"]
    result = CliRunner().invoke(run.main, [*arguments, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    planned = json.loads(result.stdout)
    grid = [line for line in planned if not {"timed", "history"} & set(line["cell"])]
    assert len(grid) == len(cells.METHODS) * (5 * 4 + 5)  # anchors and alphas; our anchors
    assert not any(line["done"] for line in planned)
    assert not (tmp_path / "out").exists()


def test_the_page_of_the_documentation_is_the_findings_of_the_committed_run():
    findings = FOLDER / "results" / "findings.md"
    if not findings.exists():
        pytest.skip("no results are committed")
    assert (ROOT / "docs" / "reproduction.md").read_text() == findings.read_text()
