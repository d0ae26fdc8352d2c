"""The page as text: complete, closed, deterministic, and honest about what it leaves out."""

import base64
import hashlib
import io
import re
import sys
import time
from collections import Counter
from dataclasses import fields
from functools import cache
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from fairanchor import AnchorFairClustering, FairKMeans
from fairanchor.datasets import make_zafar
from fairanchor.report import RunSummary, render_report, summarise_labels, summarise_run

PANELS = ["composition", "balance", "price", "profiles", "map", "convergence", "anchors", "repeat"]
VOID = {"meta", "img"}


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


def test_all_panels_are_there_and_in_the_contents(page):
    sections = [a["id"] for tag, a in page.elements if tag == "section"]
    assert sections == ["headline", *PANELS, "cautions", "terms"]
    links = [a["href"] for tag, a in page.elements if tag == "a"]
    assert links == [f"#{key}" for key in [*PANELS, "cautions", "terms"]]


def test_panels_are_those_of_the_method():
    data = make_zafar(300, variant="original", random_state=0)
    X, groups = data.data, data.sensitive_features
    model = AnchorFairClustering(2, n_anchors=40, random_state=0).fit(X, sensitive_features=groups)
    page = Page(render_report(summarise_run(model, X, sensitive_features=groups)))
    sections = [a["id"] for tag, a in page.elements if tag == "section"]
    assert "anchors" in sections
    assert not {"convergence", "left-out"} & set(sections)


def test_the_cost_of_each_iteration_is_in_the_report():
    data = make_zafar(300, variant="original", random_state=0)
    X, groups = data.data, data.sensitive_features
    model = FairKMeans(4, init="random", n_init=1, random_state=0).fit(X, sensitive_features=groups)
    run = summarise_run(model, X, sensitive_features=groups)
    assert [record["cost"] for record in run.history] == model.cost_path_.tolist()
    page = Page(render_report(run))
    assert f"0 {model.cost_path_[0]:,.6g}" in page.words
    assert f"{len(model.cost_path_) - 1} {model.cost_path_[-1]:,.6g}" in page.words
    assert "The iterations converged." in page.words
    assert "anchors" not in page.words


def test_the_same_run_gives_the_same_bytes_whatever_the_user_set(html, fair_run):
    import matplotlib as mpl

    with mpl.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.grid": True}):
        assert render_report(fair_run) == html
        assert mpl.rcParams["font.size"] == 30


def test_every_element_is_closed_and_every_id_is_unique(page):
    assert page.open == []
    assert [name for name, n in Counter(page.all("id")).items() if n > 1] == []


def test_every_reference_has_its_target(page):
    ids = set(page.all("id"))
    used = {value.removeprefix("#") for value in page.all("href")}
    for value in page.all("aria-labelledby"):
        used |= set(value.split())
    assert used <= ids


def figures_of(page):
    """Source of each figure, parsed."""
    sources = [a["src"] for tag, a in page.elements if tag == "img"]
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    return [
        ElementTree.parse(io.BytesIO(base64.b64decode(source.partition(",")[2])))
        for source in sources
    ]


def test_every_figure_has_a_text_alternative(page):
    assert len(figures_of(page)) == 9
    assert all(len(a["alt"]) > 20 for tag, a in page.elements if tag == "img")


def test_nothing_is_loaded_run_or_styled_inline(page, html):
    assert not {tag for tag, _ in page.elements} & {"script", "link", "iframe", "object"}
    names = {name for _, attributes in page.elements for name in attributes}
    assert not {name for name in names if name.startswith("on")}
    assert "style" not in names
    assert not names & {"srcset", "action", "data"}
    assert not re.search(r"https?://", html)
    for figure in figures_of(page):
        links = [value for e in figure.iter() for name, value in e.items() if "href" in name]
        assert all(link.startswith("#") for link in links)
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


def test_the_headline_has_the_numbers(page, fair_run):
    assert "Do the clusters mirror the population? Yes." in page.words
    totals = fair_run.counts.sum(axis=0)
    assert f"can exceed {totals.min() / totals.max():.4f}" in page.words
    extra = fair_run.cost / fair_run.plain_cost - 1
    assert f"Its cost is {extra:.1%} higher than that of plain k-means" in page.words


def test_the_table_has_every_count(page, fair_run):
    for row in fair_run.counts:
        for count in row:
            assert f"{count / row.sum():.1%} ({count:,.0f})" in page.words


def test_caution_parameters_and_versions_are_said(page):
    assert "Assigning new people uses their protected attribute" in page.words
    for words in ("random_state 0", "graph reconstruction", "numpy", "scikit-learn"):
        assert words in page.words
    assert "1,500 of 2,000 rows are drawn" in page.words


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
        }
    )
    tame_page = Page(render_report(tame))
    assert Counter(tag for tag, _ in page.elements) == Counter(tag for tag, _ in tame_page.elements)
    assert page.style == tame_page.style
    for name in hostile_run.group_names:
        assert " ".join(name.split()) in page.words


def test_labels_alone_leave_panels_out_and_say_why():
    run = summarise_labels(["x", "x", "y", "y"], sensitive_features=["a", "b", "a", "b"])
    page = Page(render_report(run))
    sections = [a["id"] for tag, a in page.elements if tag == "section"]
    assert sections == [
        "headline",
        "composition",
        "balance",
        "repeat",
        "cautions",
        "left-out",
        "terms",
    ]
    for words in (
        "The price of fairness: there is no plain k-means",
        "Profiles of the clusters, and the rows on a map: the features of the rows are not known",
        "The parameters are not known",
    ):
        assert words in page.words
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
    "more clusters with plain k-means": {
        "labels": [0, 0, 1, 1],
        "group_codes": [0, 1, 0, 1],
        "group_names": ["a", "b"],
        "features": np.arange(8.0).reshape(4, 2),
        "plain_labels": [3, 2, 1, 0],
    },
    "weights": {
        "labels": [0, 0, 1],
        "group_codes": [0, 1, 1],
        "group_names": ["a", ("b", None)],
        "sample_weight": [0.5, 0.25, 3.0],
    },
    "a long history": {
        "labels": [0, 1],
        "group_codes": [0, 1],
        "group_names": ["a", "b"],
        "history": [{"sweep": i, "mass_error": 9.0 / i, "rho": 1.0} for i in range(1, 101)],
    },
    "costs without labels": {
        "labels": [0, 1],
        "group_codes": [0, 1],
        "group_names": ["a", "b"],
        "cost": 2.0,
        "plain_cost": 1.0,
        "parameters": {"seed": None, "callable": len, "table": np.zeros((2, 2))},
        "converged": False,
    },
    "anchors without features": {
        "labels": [0, 1],
        "group_codes": [0, 1],
        "group_names": ["a", "b"],
        "anchors": [[0.0, 1.0], [2.0, 3.0]],
        "anchor_labels": [0, 1],
    },
    "glyphs that no font of matplotlib has": {
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
    assert "The 40 of 75 clusters farthest from the population are shown" in words
    assert "There are 31 groups. Smaller ones are drawn as one" in words
    assert "The figure shows the 12 of 40 features" in words
    words = unusual_page("a long history").words
    assert "First and last iterations" in words


def test_cautions_depend_on_the_run():
    words = unusual_page("costs without labels").words
    assert "The fit did not converge." in words
    assert "No seed was given" in words
    assert "2 groups of fewer than 20 rows, the smallest of 1: such shares" in words


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
        plain_labels=(labels + 1) % 8,
        cost=1.1,
        plain_cost=1.0,
        anchors=X[:60],
        anchor_labels=labels[:60],
        anchor_masses=np.ones(60),
        history=[{"sweep": 1, "mass_error": 1.0}],
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
