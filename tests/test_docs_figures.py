"""Figures on the first screen of the README and in the comparison are those that were measured."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
COMPARED = ROOT / "docs" / "background" / "compared.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]


def text_of(path):
    """Text of a page with line breaks as spaces: figures may stand at the end of a line."""
    return re.sub(r"\s+", " ", path.read_text(encoding="utf-8"))


def methods_of(table):
    records = json.loads((RESULTS / "census.json").read_text())["records"]
    return next(record["methods"] for record in records if record["table"] == table)


def test_speed_on_the_first_screen_is_that_of_the_census():
    ours = methods_of("census-like")["AnchorFairClustering"]
    first_screen = text_of(ROOT / "README.md").split("## Try it")[0]
    claim = (
        f"{ours['median_seconds']:.1f} s on 2 cores, {ours['time_over_kmeans']:.2f} times one run"
    )
    assert claim in first_screen


def test_costs_on_the_first_screen_are_those_of_the_table_below():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pattern = r"^\| {} \| AnchorFairClustering \| (\d\.\d+) \|"
    costs = [
        re.search(pattern.format(table), readme, re.MULTILINE)[1]
        for table in ("Law School", "Credit", "Bank")
    ]
    assert "{}, {} and {} times as much as plain k-means".format(*costs) in text_of(
        ROOT / "README.md"
    )


@pytest.mark.parametrize("table", ["census-like", "KDD census"])
def test_times_against_kmeans_in_the_comparison_are_measured(table):
    methods = methods_of(table)
    ours, plain = methods["AnchorFairClustering"], methods["KMeans"]
    text = text_of(COMPARED)
    assert f"{ours['time_over_kmeans']:.2f} times as long" in text
    assert f"{ours['median_seconds']:.2f} s and {plain['median_seconds']:.2f} s" in text


def test_the_table_of_peers_in_the_comparison_is_measured():
    records = json.loads((RESULTS / "peers.json").read_text())["records"]
    lines = COMPARED.read_text(encoding="utf-8").split("## The same 2,000 rows")[1].splitlines()
    printed = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    figures = {tuple(cells[1:]) for cells in printed[2:]}
    measured = {
        (
            f"{r['seconds']:.2f}",
            *(f"{r[name]:.3f}" for name in ("cost_per_row", "balance", "relative_balance")),
        )
        for r in records
    }
    assert figures
    assert figures <= measured


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_the_page_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    for link in links:
        is_made_by_the_build = link.startswith("gallery/")
        assert "://" in link or is_made_by_the_build or (page.parent / link).exists(), link


def test_figures_of_separate_attributes_are_measured():
    records = json.loads((RESULTS / "attributes.json").read_text())["records"]
    joint, separate = (
        next(r for r in records if r["method"] == "FairKMeans" and r["attributes"] == attributes)
        for attributes in ("intersection", "separate")
    )
    sex, race = separate["columns"]["sex"], separate["columns"]["race"]
    text = text_of(ROOT / "docs" / "fairness.md")
    assert f"a cost of {joint['cost_per_row']:.3f} per row for the intersection" in text
    assert f"and of {separate['cost_per_row']:.3f} for the separate attributes" in text
    assert max(sex["violation"], race["violation"]) < 1.0
    claim = (
        f"(relative balance {sex['relative_balance']:.4f} for sex and "
        f"{race['relative_balance']:.4f} for race, whose smallest cell had {race['smallest_cell']} "
        f"rows) after {separate['processor_seconds']:.1f} s of processor time"
    )
    assert claim in text
