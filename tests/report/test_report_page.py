"""The page as text: complete, closed, deterministic, and honest about what it leaves out."""

import base64
import hashlib
import json
import re
import sys
import time
from collections import Counter
from dataclasses import fields
from functools import cache
from html.parser import HTMLParser
from importlib import metadata
from types import SimpleNamespace

import numpy as np
import pytest

from fairanchor._utils._records import json_value
from fairanchor.report import RunSummary, render_report, report_facts, summarise_labels

SECTIONS = ["headline", "asked", "met", "pays", "clusters", "robust", "made"]
VOID = {"meta"}


class Page(HTMLParser):
    """Elements of a page in order, and its visible text."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.open, self.text, self.style = [], [], [], ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"
        if tag in {"td", "th", "dt", "dd"}:
            self.text.append(" ")

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.text.append(data)

    def all(self, attribute):
        return [a[attribute] for _, a in self.elements if attribute in a]

    @property
    def words(self):
        return " ".join("".join(self.text).split())


@pytest.fixture(scope="module")
def html(fair_run):
    return render_report(fair_run)


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_the_sections_answer_in_the_order_of_the_questions(page):
    assert [a["id"] for tag, a in page.elements if tag == "section"] == SECTIONS


def test_the_same_run_gives_the_same_bytes(html, fair_run):
    assert render_report(fair_run) == html


def test_every_element_is_closed_and_every_id_is_unique(page):
    assert page.open == []
    assert [name for name, n in Counter(page.all("id")).items() if n > 1] == []


def test_every_reference_has_its_target(page):
    ids = set(page.all("id"))
    used = {value.removeprefix("#") for value in page.all("href")}
    for value in page.all("aria-labelledby"):
        used |= set(value.split())
    assert used <= ids


def test_figures_are_inline_and_have_a_text_alternative(page):
    figures = [a for tag, a in page.elements if tag == "svg" and a.get("role") == "img"]
    # All rows and four clusters, two groups and all rows, the curve.
    assert len(figures) == 5 + 3 + 1
    assert all(len(a.get("aria-label", "caption of the curve")) > 10 for a in figures)
    assert "img" not in {tag for tag, _ in page.elements}


def test_nothing_is_loaded_run_or_styled_inline(page, html):
    assert not {tag for tag, _ in page.elements} & {"script", "link", "iframe", "object"}
    names = {name for _, attributes in page.elements for name in attributes}
    assert not {name for name in names if name.startswith("on")}
    assert "style" not in names
    assert not names & {"srcset", "action", "data"}
    assert not re.search(r"https?://", html)
    assert all(link.startswith("#") for link in page.all("href"))
    assert "@import" not in page.style
    assert "url(" not in page.style


def test_the_policy_allows_this_style_sheet_only(page):
    policy = next(
        a["content"]
        for tag, a in page.elements
        if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_the_headline_is_in_shares_of_people(page, fair_run):
    women = fair_run.counts[:, 1].sum() / fair_run.counts.sum()
    assert "Does every cluster mirror all rows? Yes. " in page.words
    assert f"{women:.1%}" in page.words


def test_every_count_cost_and_certificate_is_on_the_page_and_in_the_facts(page, fair_run):
    facts = json.loads(json.dumps(json_value(report_facts(fair_run)), allow_nan=False))
    for row, listed in zip(fair_run.counts, facts["met"]["counts"], strict=True):
        assert listed == row.tolist()
        for count in row:
            assert f"{count:,.0f} ({count / row.sum():.1%})" in page.words
    for record in facts["who_pays"]:
        assert f"{record['changed']:.1%}" in page.words
        assert f"{record['ratio'] - 1:+.1%}" in page.words
    number = facts["robustness"]["breakdown_errors"]
    assert f"Fewest wrong records that can push it below 0.8: {number:,}" in page.words
    assert len(facts["clusters"]) == 4
    assert f"Most typical rows: {', '.join(map(str, facts['clusters'][0]['typical_rows']))}" in (
        page.words
    )
    assert set(facts["made"]["fingerprints"]) == {"labels", "groups", "features"}


def test_cautions_parameters_and_versions_are_there(page, fair_run):
    assert "Assigning new people uses their protected attribute" in page.words
    assert fair_run.date in page.words
    for words in ("random_state 0", "graph reconstruction", "numpy", "scikit-learn"):
        assert words in page.words


def test_results_of_other_checks_have_their_place():
    run = summarise_labels([0, 0, 1, 1], sensitive_features=["a", "b", "a", "b"])
    point = {"n_rewritten": 2, "share": 0.5, "worst": 0.25, "median": 0.75, "control": 0.875}
    run.robustness = SimpleNamespace(records=[point], baseline=1.0, worst=0.25, control=0.875)
    run.stability = np.array([[0.9, 0.0], [0.625, 0.25]])
    words = Page(render_report(run)).words
    assert "0.2500 in the worst case that was found" in words
    assert "2 (50.0%) 0.2500 0.7500 0.8750" in words
    assert "Cluster 1: 0.625; 25.0% of its rows are below 0.8" in words
    assert report_facts(run)["robustness"]["check"]["records"] == [point]


def test_favourable_clusters_have_rates_with_intervals():
    labels = ["in"] * 40 + ["out"] * 60
    groups = ["f"] * 10 + ["m"] * 30 + ["f"] * 40 + ["m"] * 19 + ["x"]
    run = summarise_labels(labels, sensitive_features=groups, favourable=["in"])
    words = Page(render_report(run)).words
    assert "10 of 50" in words
    assert "below four fifths" in words
    assert "less than 2 % of the rows" in words
    assert "complian" not in words.lower()


@pytest.mark.slow
def test_hostile_names_are_text_and_change_nothing(hostile_run):
    page = Page(render_report(hostile_run))
    tame_names = [f"name {i}" for i in range(len(hostile_run.group_names))]
    tame = RunSummary(
        **{
            **{f.name: getattr(hostile_run, f.name) for f in fields(hostile_run)},
            "title": "tame",
            "cluster_names": tame_names,
            "group_names": tame_names,
            "feature_names": tame_names,
            "parameters": {name: name for name in tame_names},
            "timings": dict.fromkeys(tame_names, 1.0),
            "columns": tame_names[:1],
            "command": "tame",
            "warnings": tame_names,
        }
    )
    tame_page = Page(render_report(tame))
    assert Counter(tag for tag, _ in page.elements) == Counter(tag for tag, _ in tame_page.elements)
    assert page.style == tame_page.style
    for name in hostile_run.group_names:
        assert " ".join(name.split()) in page.words


def test_what_is_not_known_is_stated():
    run = summarise_labels(["x", "x", "y", "y"], sensitive_features=["a", "b", "a", "b"])
    page = Page(render_report(run))
    assert [a["id"] for tag, a in page.elements if tag == "section"] == SECTIONS
    assert page.words.count("Not known: the features of the rows") == 2
    assert "The parameters are not known" in page.words
    assert "Assigning new people" not in page.words


UNUSUAL = {
    "one row": {"labels": [0], "group_codes": [0], "group_names": ["a"]},
    "one cluster": {"labels": [0] * 4, "group_codes": [0, 1, 0, 1], "group_names": ["a", "b"]},
    "an empty cluster and group": {
        "labels": [0, 2, 2],
        "group_codes": [0, 2, 0],
        "group_names": ["a", "none", "b"],
        "cluster_names": ["x", "y", "z", "w"],
    },
    "one constant feature": {
        "labels": [0, 1, 1],
        "group_codes": [0, 1, 0],
        "group_names": ["a", "b"],
        "features": np.zeros((3, 1)),
    },
    "many clusters and groups": {
        "labels": np.arange(3000) % 75,
        "group_codes": np.arange(3000) % 31,
        "group_names": list(range(31)),
        "features": np.random.default_rng(0).normal(size=(3000, 40)),
    },
    "weights": {
        "labels": [0, 0, 1],
        "group_codes": [0, 1, 1],
        "group_names": ["a", ("b", None)],
        "sample_weight": [0.5, 0.25, 3.0],
    },
    "no seed": {
        "labels": [0, 1],
        "group_codes": [0, 1],
        "group_names": ["a", "b"],
        "parameters": {"seed": None, "callable": len, "table": np.zeros((2, 2))},
        "converged": False,
    },
    "other scripts": {
        "labels": [0, 1],
        "group_codes": [0, 1],
        "group_names": ["女性", "\U0001f468"],
    },
}


@cache
def unusual_page(name):
    return Page(render_report(RunSummary(title=name, **UNUSUAL[name])))


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_runs_are_reported(name):
    page = unusual_page(name)
    assert page.open == []
    assert [i for i, n in Counter(page.all("id")).items() if n > 1] == []


@pytest.mark.slow
def test_what_is_not_drawn_is_said():
    words = unusual_page("many clusters and groups").words
    assert "Shown are the 40 of 75 clusters" in words
    assert "There are 31 groups; the smaller ones are drawn as one" in words
    assert "The 12 of 40 features" in words


def test_cautions_depend_on_the_run():
    words = unusual_page("no seed").words
    assert "The fit did not converge." in words
    assert "No seed was given" in words
    assert "not computed for rows with weights" in unusual_page("weights").words


@pytest.mark.slow
def test_a_million_rows_take_seconds_and_the_file_stays_small():
    rng = np.random.default_rng(0)
    n_rows = 1_000_000
    X = rng.normal(size=(n_rows, 10))
    labels = rng.integers(0, 8, n_rows)
    start = time.process_time()
    run = RunSummary(
        title="t",
        labels=labels,
        group_codes=rng.integers(0, 3, n_rows),
        group_names=["a", "b", "c"],
        features=X,
    )
    html = render_report(run)
    # Twice what an idle core needs.
    assert time.process_time() - start < 5.0
    assert len(html.encode()) < 1_000_000


def test_without_jinja_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    run = summarise_labels([0, 1], sensitive_features=["a", "b"])
    with pytest.raises(ImportError, match=r'pip install "fairanchor\[report\]"'):
        render_report(run)


def test_the_facts_need_no_jinja(monkeypatch):
    version = metadata.version

    def without_jinja(name):
        if name == "jinja2":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.setattr(metadata, "version", without_jinja)
    facts = report_facts(summarise_labels([0, 1], sensitive_features=["a", "b"]))
    assert facts["met"]["relative_balance"] == 0.0
