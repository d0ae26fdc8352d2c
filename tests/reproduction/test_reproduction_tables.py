"""Published numbers as they are in the file, and tables as pure functions of records."""

import csv
import io

import pytest

from fairanchor.reproduction._data import TITLES
from fairanchor.reproduction._findings import coincidences, discussion, largest_lines
from fairanchor.reproduction._methods import METHODS
from fairanchor.reproduction._plan import TABLES
from fairanchor.reproduction._published import KINDS, read_published
from fairanchor.reproduction._tables import comparisons, promises, quality_rows, shown, table_csv


def record(**changes):
    base = {
        "table": "2", "dataset": "bank", "method": "vfc", "block": "ours", "metric": "acc",
        "value": 0.7, "where": "framework", "variant": None, "status": "done", "note": "",
        "selection": "grid_labels", "rows": 100,
    }  # fmt: skip
    return base | changes


def published(**changes):
    given = {"block": "published", "kind": "value", "selection": None, "note": "paper"} | changes
    return {key: value for key, value in record(**given).items() if key != "rows"}


def test_published_numbers_are_well_formed_and_have_a_source():
    numbers = read_published()
    keys = [(n.table, n.dataset, n.method, n.where, n.variant, n.metric) for n in numbers]
    assert len(set(keys)) == len(keys)
    for number in numbers:
        assert number.table in TABLES
        assert number.dataset in (*TITLES, "any")
        assert number.method in (*METHODS, "any")
        assert number.where in ("alone", "framework")
        assert number.kind in KINDS
        assert number.source.startswith("paper")
        assert (number.value is None) == (number.kind == "not reported")
        if number.metric in ("acc", "nmi", "balance", "mnce") and number.value is not None:
            assert 0 <= number.value <= 1


def test_no_published_balance_exceeds_that_of_its_dataset():
    # min / max of the published group sizes; Zafar's of one draw and its spread.
    bounds = {"law": 8142 / 10550, "credit": 11646 / 17891, "bank": 4612 / 24928, "zafar": 0.71}
    for number in read_published():
        if number.metric == "balance" and number.value and number.dataset in bounds:
            assert number.value <= bounds[number.dataset] + 0.0005


def test_csv_has_published_and_measured_values_in_one_line():
    records = [
        published(value=0.719),
        record(value=0.75),
        record(value=0.6, block="faithful"),
        record(value=None, block="ours", selection=None, where="alone", status="not run",
               note="needs about 99 GB"),
    ]  # fmt: skip
    lines = list(csv.DictReader(io.StringIO(table_csv(records, "2"))))
    assert lines[0]["published"] == "0.719"
    assert lines[0]["ours, grid_labels"] == "0.75"
    assert lines[0]["faithful, grid_labels"] == "0.6"
    assert lines[1]["ours"] == "not run"
    assert "needs about 99 GB" in lines[1]["note"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (record(value=0.71949), "0.719"),
        (record(value=None, status="time limit"), "over the time limit"),
        (record(value=None, status="refused"), "refused"),
        (published(value=1800.0, metric="seconds", kind="limit"), "> 1800"),
        (published(value=None, kind="not reported"), "–"),
        (record(value=12.3456, metric="seconds"), "12.3"),
        (record(value=3, metric="clusters_found"), "3"),
        (None, ""),
    ],
)
def test_values_are_shown_as_people_write_them(given, text):
    assert shown(given) == text


def test_comparison_counts_what_rounds_to_the_printed_value_as_reached():
    for value, reached in ((0.7186, True), (0.7184, False), (0.8, True)):
        (line,) = comparisons([published(value=0.719), record(value=value)])
        assert line["reached"] is reached


def test_comparison_uses_the_method_itself_where_the_paper_ran_it_alone():
    records = [
        published(value=0.6, where="alone"),
        record(value=0.9),
        record(value=0.5, where="alone", selection=None),
    ]
    (line,) = comparisons(records)
    assert line["measured"]["value"] == 0.5
    assert not line["reached"]


def test_a_cell_below_its_printed_value_is_discussed_with_its_neighbours():
    records = [
        published(value=0.719),
        published(value=0.184, metric="balance"),
        record(value=0.6),
        record(value=0.185, metric="balance"),
        record(value=0.7, block="faithful"),
        record(value=0.65, selection="grid_labels_refined"),
        record(value=0.72, table="5", variant="without constraint"),
        record(value=1.0, metric="mnce"),
    ]
    (line,) = [line for line in comparisons(records) if not line["reached"]]
    text = discussion(line, records)
    assert text.startswith("**Bank, VFC, framework, ACC**: 0.600 against 0.719 published")
    assert "with Balance 0.185 against 0.184 and MNCE 1.000 against an unknown value." in text
    assert "faithful, chosen with labels: 0.700; " in text
    assert "without the constraint: 0.720; ours, refined: 0.650." in text


@pytest.mark.parametrize(
    ("changes", "kept"),
    [({}, True), ({"worst_violation": 1.0}, False), ({"mnce": 0.998}, False)],
)
def test_a_promise_is_kept_only_if_both_halves_are(changes, kept):
    values = {"balance": 0.18, "dataset_balance": 0.185, "mnce": 0.9995, "worst_violation": 0.6}
    records = [record(metric=name, value=value) for name, value in (values | changes).items()]
    (line,) = promises(records)
    assert line["kept"] is kept
    assert line["cells"] == 1


def test_largest_printed_value_stands_beside_the_largest_of_ours():
    records = [
        published(value=0.6, kind="largest", method="any"),
        record(value=0.4),
        record(value=0.5, method="ffc"),
        record(value=0.9, selection="defaults"),
    ]
    (line,) = largest_lines(records)
    assert (line["published"], line["ours"], line["refined"]) == (0.6, "0.500", "")


def test_rows_of_a_table_are_in_the_order_of_the_paper():
    records = [
        record(method="ffc"),
        published(method="vfc"),
        record(method="spfc", where="alone", selection=None),
        record(method="vfc"),
    ]
    rows = quality_rows(records, "2", "bank")
    assert [row["method"] for row in rows] == ["spfc", "vfc", "vfc", "ffc"]
    assert [row["column"] for row in rows][1:3] == ["published", "ours, grid_labels"]


def test_a_printed_row_coincides_only_if_all_four_measures_do():
    printed = {"acc": 0.719, "nmi": 0.062, "balance": 0.184, "mnce": 0.976}
    equal = {"acc": 0.7193, "nmi": 0.0625, "balance": 0.1837, "mnce": 0.9759}
    records = [published(metric=name, value=value) for name, value in printed.items()]
    records += [record(metric=m, value=v, where="alone", selection=None) for m, v in equal.items()]
    records += [record(metric=m, value=v) for m, v in (equal | {"nmi": 0.07}).items()]
    (line,) = coincidences(records)
    assert line["measured"]["where"] == "alone"
    assert line["values"] == "0.719 / 0.062 / 0.184 / 0.976"
