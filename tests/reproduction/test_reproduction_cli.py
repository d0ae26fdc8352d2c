"""``fairanchor reproduce``: the whole way from a request to a page, and every wrong request."""

import csv
import importlib.util
import json
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner

from fairanchor.cli._reproduce import DATASETS, FIGURES, TABLES, reproduce
from fairanchor.reproduction import _plan, _report, _run
from fairanchor.reproduction._data import TITLES
from fairanchor.reproduction._methods import METHODS

SMALL = ["--dataset", "zafar", "--rows", "100"]
COURSE = ["--figure", "convergence", *SMALL]


def invoke(*arguments):
    return CliRunner().invoke(reproduce, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "Say what to reproduce: --all, --table, --figure or --quick."),
        (["--all", "--table", "2"], 2, "--all already includes every --table and --figure"),
        (["--quick", "--rows", "500"], 2, "--quick has its own number of rows"),
        (["--table", "6"], 2, "'6' is not one of '2', '3', '4', '5'"),
        (["--figure", "beta"], 2, "'beta' is not one of 'alpha', 'anchors', 'convergence'"),
        (["--table", "2", "--time-limit", "0"], 2, "--time-limit"),
        (["--table", "2", "--rows", "5"], 2, "--rows"),
        (["--table", "2", "--data", "nowhere"], 2, "'nowhere' does not exist"),
    ],
)
def test_wrong_requests_are_refused_with_the_reason(tmp_path, arguments, code, message):
    result = invoke(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == code
    assert message in result.output
    assert not (tmp_path / "out").exists()


def test_a_missing_table_is_named_with_where_to_get_it(tmp_path):
    result = invoke("--table", "4", "--dataset", "law", "--data", tmp_path, "--out", tmp_path / "o")
    assert result.exit_code == 1
    assert "There is no copy of law_school" in result.output
    assert "law_dataset.arff" in result.output


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "table2.csv").write_text("precious")
    result = invoke(*COURSE, "--out", tmp_path)
    assert result.exit_code == 1
    assert "was not made by this command" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["table2.csv"]


def test_missing_packages_are_named_with_the_extra(tmp_path, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find_spec(name)
    )
    result = invoke(*COURSE, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "needs matplotlib; install with: pip install 'fairanchor[report]'" in result.output


def test_names_of_the_command_line_are_those_of_the_plan():
    # The command line lists them again, so that its help imports nothing heavy.
    assert TABLES == _plan.TABLES
    assert FIGURES == _plan.FIGURES
    assert tuple(TITLES) == DATASETS


def test_importing_the_command_imports_nothing_heavy():
    code = (
        "import sys, fairanchor.cli._reproduce\n"
        "print({'numpy', 'numba', 'sklearn', 'matplotlib', 'rich', 'jinja2'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    measured = []

    def until(count):
        def measure(cell, settings):
            if len(measured) == count:
                raise KeyboardInterrupt
            measured.append(cell)
            return original(cell, settings)

        return measure

    original = _run.measure_cell
    monkeypatch.setattr(_run, "measure_cell", until(2))
    stopped = invoke(*COURSE, "--out", tmp_path)
    assert stopped.exit_code == 130
    assert "Finished fits are in" in stopped.output
    assert len(list((tmp_path / "cells").iterdir())) == 2
    assert not (tmp_path / "index.html").exists()

    monkeypatch.setattr(_run, "measure_cell", until(-1))
    assert invoke(*COURSE, "--out", tmp_path).exit_code == 0
    assert len(set(measured)) == len(measured) == len(list((tmp_path / "cells").iterdir()))
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}

    before = len(measured)
    assert invoke(*COURSE, "--out", tmp_path).exit_code == 0
    assert len(measured) == before
    assert first == {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}

    assert invoke(*COURSE, "--out", tmp_path, "--recompute").exit_code == 0
    assert len(measured) == 2 * before


def test_finished_fits_of_other_code_are_used_with_a_warning(tmp_path, monkeypatch):
    assert "Warning" not in invoke(*COURSE, "--out", tmp_path).output
    assert "Warning" not in invoke(*COURSE, "--out", tmp_path).output
    monkeypatch.setattr(_report, "source_digest", lambda: "changed")
    assert "by other code of the same version" in invoke(*COURSE, "--out", tmp_path).output


def test_the_plan_lists_every_fit_and_runs_none(tmp_path, monkeypatch):
    monkeypatch.setattr(_run, "measure_cell", None)
    result = invoke("--all", *SMALL, "--plan", "--json", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    lines = json.loads(result.stdout)
    grid = [line for line in lines if "per_group" in line["cell"] and "history" not in line["cell"]]
    assert len(grid) == 2 * len(METHODS) * 5 * 4  # blocks, methods, anchors, alphas
    assert all(line["seconds"] > 0 for line in grid)
    assert not any(line["done"] for line in lines)
    assert not (tmp_path / "out").exists()
    text = invoke("--all", *SMALL, "--plan", "--out", tmp_path / "out")
    assert "minutes of one core for" in text.output


class Tags(HTMLParser):
    """Names and addresses of all elements, and the text."""

    def __init__(self):
        super().__init__()
        self.names, self.addresses, self.text = set(), [], []

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.slow
@pytest.mark.timeout(900)  # two minutes on two idle cores
def test_quick_makes_every_table_and_figure_of_every_dataset(tmp_path, data_dir):
    result = invoke("--quick", "--data", data_dir, "--out", tmp_path, "--jobs", 2, "--json")
    assert result.exit_code == 0, result.output
    records = json.loads(result.stdout)
    assert records == json.loads((tmp_path / "results.json").read_text())
    check_records(records)
    for table in TABLES:
        with (tmp_path / f"table{table}.csv").open() as file:
            lines = list(csv.DictReader(file))
        assert {line["dataset"] for line in lines} >= set(DATASETS)
        assert {line["method"] for line in lines} >= set(METHODS)
    for figure in FIGURES:
        assert (tmp_path / f"figure_{figure}.svg").read_text().count("<path") > 20
    check_page((tmp_path / "index.html").read_text())
    findings = (tmp_path / "findings.md").read_text()
    for section in ("The data", "exact composition", "the targets", "Proposition 1"):
        assert section in findings


def check_records(records):
    for record in records:
        assert {"table", "dataset", "method", "block", "metric", "value"} <= set(record)
        assert record["block"] in ("published", "faithful", "ours")
    done = [r for r in records if r["block"] != "published" and r["value"] is not None]
    for table in TABLES:
        for block in ("faithful", "ours"):
            own = {
                (r["dataset"], r["method"])
                for r in done
                if r["table"] == table and r["block"] == block
            }
            assert own >= {(dataset, method) for dataset in DATASETS for method in METHODS}
    selections = {r.get("selection") for r in done if r["table"] == "2" and r["block"] == "ours"}
    assert selections >= {"defaults", "grid_labels", "grid_label_free"}
    # The one promise that holds at any number of rows: counts are exact to one sample.
    with_constraint = [
        r["value"]
        for r in done
        if r["metric"] == "worst_violation" and r["table"] == "2" and r["block"] == "ours"
    ]
    assert max(with_constraint) < 1


def check_page(html):
    tags = Tags()
    tags.feed(html)
    assert not tags.names & {"script", "iframe", "link", "object"}
    assert all(address.startswith(("#", "data:image/svg+xml")) for address in tags.addresses)
    text = " ".join(tags.text)
    for title in (*TITLES.values(), *METHODS.values(), "published", "faithful", "ours", "Table 4"):
        assert title in text
