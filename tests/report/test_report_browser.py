"""The page in a real browser, without a network: nothing requested, no complaint."""

import os
import re
import shutil

import numpy as np
import pytest

from fairanchor.report import summarise_labels, write_report

pytestmark = pytest.mark.slow

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECTIONS = ["headline", "asked", "met", "pays", "clusters", "robust", "made"]


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium: FAIRANCHOR_CHROMIUM, or the first one on the path."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    path = os.environ.get("FAIRANCHOR_CHROMIUM") or next(
        filter(None, map(shutil.which, NAMES)), None
    )
    if path is None:
        pytest.skip(
            "there is no Chromium here: install the package chromium, or set FAIRANCHOR_CHROMIUM "
            "to its path"
        )
    with playwright.sync_playwright() as started:
        # The sandbox needs rights that containers often lack; the pages are our own.
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file_of(tmp_path_factory):
    """The report of a run, written once."""
    directory, written = tmp_path_factory.mktemp("reports"), {}

    def write(run):
        path = directory / f"report-{id(run)}.html"
        if path not in written:
            write_report(path, run)
            written[path] = run  # kept alive, so that no other run gets its id
        return path

    return write


@pytest.fixture
def visit(browser, file_of):
    """Open the report of a run; returns the page, its requests and its complaints."""
    contexts = []

    def open_report(run, **settings):
        context = browser.new_context(offline=True, **settings)
        contexts.append(context)
        page = context.new_page()
        requests, complaints = [], []
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.goto(file_of(run).as_uri())
        return page, requests, complaints

    yield open_report
    for context in contexts:
        context.close()


def brightness(color):
    """Mean of the channels of a CSS colour, 0 to 255."""
    channels = [float(part) for part in re.findall(r"[\d.]+", color)[:3]]
    return sum(channels) / 3


def style_of(page, selector, name):
    return page.evaluate(
        "([selector, name]) => getComputedStyle(document.querySelector(selector))[name]",
        [selector, name],
    )


@pytest.mark.parametrize("which", ["fair_run", "hostile_run"])
def test_nothing_is_requested_and_nothing_is_complained_about(visit, request, which):
    page, requests, complaints = visit(request.getfixturevalue(which))
    assert [url for url in requests if not url.startswith("data:")] == [page.url]
    assert complaints == []


def test_all_sections_are_visible_and_have_their_figures(visit, fair_run):
    page, _, _ = visit(fair_run)
    for key in SECTIONS:
        assert page.locator(f"#{key} h2").is_visible()
    for key, n_figures in (("met", 5), ("pays", 3), ("robust", 1)):
        boxes = [f.bounding_box() for f in page.locator(f"#{key} svg[role=img]").all()]
        assert len(boxes) == n_figures
        assert all(box["width"] > 200 and box["height"] > 15 for box in boxes)


def test_the_style_sheet_is_allowed_by_the_policy(visit, fair_run):
    page, _, _ = visit(fair_run)
    assert style_of(page, ".bars .line", "display") == "grid"


def test_hostile_names_are_shown_as_text(visit, hostile_run):
    page, _, _ = visit(hostile_run)
    assert page.locator("h1").inner_text() == "<script>alert(1)</script>"
    assert page.evaluate("document.scripts.length") == 0
    headings = page.locator("#met thead th").all_inner_texts()
    assert set(hostile_run.group_names) <= set(headings)
    assert page.locator("body").is_visible()


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_text_and_figures_can_be_read_in_both_themes(visit, fair_run, scheme, dark):
    page, _, _ = visit(fair_run, color_scheme=scheme)
    surface = brightness(style_of(page, ".panel", "backgroundColor"))
    assert (surface < 60) == dark
    assert abs(brightness(style_of(page, "body", "color")) - surface) > 150
    assert abs(brightness(style_of(page, ".curve text", "fill")) - surface) > 150
    for shape in ("rect.s0", "rect.s1", "rect.s-plain"):
        assert abs(brightness(style_of(page, shape, "fill")) - surface) > 50


def test_it_prints_light_even_from_a_dark_screen(visit, fair_run):
    page, _, _ = visit(fair_run, color_scheme="dark")
    page.emulate_media(media="print")
    assert brightness(style_of(page, "body", "color")) < 80
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 10


@pytest.mark.parametrize("width", [360, 390, 800, 1400])
def test_no_window_is_too_narrow(visit, fair_run, width):
    page, _, _ = visit(fair_run, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_an_audit_of_labels_alone_is_a_whole_page(visit):
    run = summarise_labels(["x", "x", "y", "y"], sensitive_features=["a", "b", "a", "b"])
    page, requests, complaints = visit(run)
    assert [url for url in requests if not url.startswith("data:")] == [page.url]
    assert complaints == []


@pytest.fixture(scope="module")
def wide_run():
    """35 clusters and 45 groups with long names."""
    rng = np.random.default_rng(0)
    labels = [f"the cluster with the long name number {l}" for l in rng.integers(0, 35, 3000)]
    groups = [f"people of the group number {g}" for g in rng.integers(0, 45, 3000)]
    return summarise_labels(labels, sensitive_features=groups)


def test_a_wide_table_scrolls_and_prints_whole(visit, wide_run):
    page, _, complaints = visit(wide_run, viewport={"width": 700, "height": 900})
    region = page.locator("#met .table").first
    assert region.evaluate("e => e.scrollWidth > e.clientWidth")
    assert "linear-gradient" in style_of(page, "#met .table", "backgroundImage")
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    # What is printed on A4 is 182 mm wide.
    page.set_viewport_size({"width": 688, "height": 1000})
    page.emulate_media(media="print")
    assert region.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    assert style_of(page, "#met .table", "overflowX") == "visible"
    assert complaints == []
