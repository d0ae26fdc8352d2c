"""Which fits a request needs: the grid of the paper, no more than asked, all that is shown."""

from dataclasses import replace

import pytest

from fairanchor.reproduction._cells import Settings
from fairanchor.reproduction._data import PUBLISHED_ROWS, Shape
from fairanchor.reproduction._methods import METHODS
from fairanchor.reproduction._plan import (
    FIGURES,
    TABLES,
    Request,
    choices_bound,
    estimated_seconds,
    first_cells,
    grid_cells,
    second_cells,
)
from fairanchor.reproduction._records import all_records
from fairanchor.reproduction._run import Outcome

SETTINGS = Settings()
LAW = Shape("law", 18_692, 10, 2, (8142, 10550), "published", "0")
CREDIT = Shape("credit", 29_537, 22, 5, (11646, 17891), "published", "1")
CENSUS = Shape("census", PUBLISHED_ROWS["census"], 25, 5, (1_146_744, 1_311_541), "made", "2")
SHAPES = {shape.name: shape for shape in (LAW, CREDIT, CENSUS)}
EVERYTHING = Request(TABLES, FIGURES, tuple(SHAPES))


def result_of(cell, best=False):
    values = dict.fromkeys(("acc", "nmi", "balance", "mnce", "relative_balance", "cost"), 0.5)
    values |= {"seconds": 1.0, "clusters_found": 2, "dataset_balance": 0.7, "rows": 100}
    values |= {"n_anchors": 4, "alpha": cell.alpha or 1.0, "acc": 0.9 if best else 0.5}
    return {"status": "done", "without_constraint": values, "history": [], **values}


def all_results(request, settings, best=lambda cell: False):
    results = {c: result_of(c, best(c)) for c in first_cells(request, SHAPES, settings)}
    return results | {c: result_of(c) for c in second_cells(request, SHAPES, settings, results)}


def test_grid_is_the_papers_without_fewer_anchors_than_clusters():
    law = grid_cells(LAW, "vfc", "ours", SETTINGS)
    assert {(c.per_group, c.alpha) for c in law} == {
        (m, alpha) for m in (2, 5, 10, 15, 20) for alpha in (1e-4, 1e-2, 1.0, 100.0)
    }
    credit = grid_cells(CREDIT, "vfc", "ours", SETTINGS)
    assert {c.per_group for c in credit} == {5, 10, 15, 20}


def test_only_the_faithful_block_searches_on_a_sample():
    assert {c.rows for c in grid_cells(LAW, "vfc", "faithful", SETTINGS)} == {None}
    assert {c.rows for c in grid_cells(CREDIT, "vfc", "faithful", SETTINGS)} == {20_000}
    assert {c.rows for c in grid_cells(CREDIT, "vfc", "ours", SETTINGS)} == {None}


def test_a_choice_is_fitted_to_all_rows_that_the_block_can_afford():
    results = all_results(EVERYTHING, SETTINGS)
    chosen = second_cells(EVERYTHING, SHAPES, SETTINGS, results)
    rows = {(c.dataset, c.block): set() for c in chosen}
    for cell in chosen:
        rows[cell.dataset, cell.block].add(cell.rows)
    assert rows["credit", "faithful"] == {None}
    assert rows["census", "faithful"] == {20_000}
    assert rows["census", "ours"] == {None}


def test_the_choice_of_a_grid_is_what_is_fitted():
    wanted = {"per_group": 15, "alpha": 1e-2}

    def best(cell):
        return all(getattr(cell, name) == value for name, value in wanted.items())

    results = all_results(EVERYTHING, SETTINGS, best)
    chosen = second_cells(EVERYTHING, SHAPES, SETTINGS, results)
    for method in METHODS:
        assert any(
            c.method == method and c.block == "faithful" and best(c) and c.unconstrained
            for c in chosen
        )


@pytest.mark.parametrize("table", TABLES)
def test_every_row_of_a_table_has_its_fits(table):
    request = Request((table,), (), tuple(SHAPES))
    results = all_results(request, SETTINGS)
    records = all_records(request, SETTINGS, Outcome(SHAPES, results))
    measured = [record for record in records if record["block"] != "published"]
    for block in ("faithful", "ours"):
        own = {(r["dataset"], r["method"]) for r in measured if r["block"] == block}
        assert own >= {(dataset, method) for dataset in SHAPES for method in METHODS}
    variants = {r.get("variant") for r in measured}
    expected = {"3": {"random", "das", "fdas", "kmeans"},
                "5": {"with constraint", "without constraint"}}  # fmt: skip
    assert variants == expected.get(table, {None})


def test_a_figure_alone_needs_two_lines_of_the_grid_at_most():
    for figure, varied in (("alpha", 4), ("anchors", 5)):
        request = Request((), (figure,), ("law",))
        cells = first_cells(request, SHAPES, SETTINGS)
        assert len(cells) == 2 * len(METHODS) * varied
        assert second_cells(request, SHAPES, SETTINGS, {c: result_of(c) for c in cells}) == []


@pytest.mark.parametrize("tables", [TABLES, ("2",), ("3",), ("4",), ("5",), ()])
def test_no_choice_takes_longer_than_the_bound(tables):
    request = replace(EVERYTHING, tables=tables)

    def best(cell):
        return cell.per_group == 20

    results = all_results(request, SETTINGS, best)
    cells = second_cells(request, SHAPES, SETTINGS, results)
    seconds = sum(estimated_seconds(c, SHAPES[c.dataset], SETTINGS) for c in cells)
    assert seconds <= choices_bound(request, SHAPES, SETTINGS) * (1 + 1e-9)


def test_a_grid_that_was_refused_altogether_leaves_no_choice_and_no_error():
    request = Request(("2", "3", "5"), (), ("law",))
    results = {c: result_of(c) for c in first_cells(request, SHAPES, SETTINGS)}
    for cell in grid_cells(LAW, "fairlets", "faithful", SETTINGS):
        results[cell] = {"status": "refused", "message": "too few fairlets", "rows": 10}
    results |= {c: result_of(c) for c in second_cells(request, SHAPES, SETTINGS, results)}
    records = all_records(request, SETTINGS, Outcome(SHAPES, results))
    refused = [
        r
        for r in records
        if r["method"] == "fairlets" and r["block"] == "faithful" and r["table"] in ("3", "5")
    ]
    assert refused == []
