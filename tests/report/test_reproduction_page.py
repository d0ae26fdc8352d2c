"""The page of ``fairanchor reproduce``: closed by its policy, readable aloud and in the dark."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from fairanchor.reproduction._cells import Settings
from fairanchor.reproduction._data import Shape
from fairanchor.reproduction._page import render_page
from fairanchor.reproduction._plan import Request
from fairanchor.reproduction._records import all_records
from fairanchor.reproduction._run import Outcome

VOID = {"meta", "img"}


class Page(HTMLParser):
    """Elements in order with their attributes, the style sheet, and what is open at the end."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.open, self.style = [], [], ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes), self.open[-1] if self.open else None))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.style += data

    def of(self, tag):
        return [attributes for name, attributes, _ in self.elements if name == tag]


@pytest.fixture(scope="module")
def page():
    """The page with what is printed in the paper, and a figure, but nothing measured."""
    datasets = ("law", "bank", "zafar")
    request = Request(tables=("2", "3", "4", "5"), figures=("convergence",), datasets=datasets)
    shapes = {name: Shape(name, 100, 5, 2, (60, 40), "<generated>", "0") for name in datasets}
    outcome = Outcome(shapes, {})
    records = all_records(request, Settings(), outcome)
    assert any(record["block"] == "published" for record in records)
    pictures = {"convergence": b"<svg xmlns='http://www.w3.org/2000/svg'/>"}
    return Page(render_page(request, Settings(), outcome, records, pictures))


def test_the_policy_allows_this_style_sheet_and_pictures_within_the_page_only(page):
    policy = next(a["content"] for a in page.of("meta") if "http-equiv" in a)
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert not [a for _, a, _ in page.elements if "style" in a]
    assert not {tag for tag, _, _ in page.elements} & {"script", "link", "iframe", "object"}
    assert all(a["src"].startswith("data:image/svg+xml") for a in page.of("img"))


def test_tables_have_headers_with_a_scope_and_a_name(page):
    assert len(page.of("table")) == len(page.of("thead")) == len(page.of("tbody")) >= 3
    assert all(a.get("scope") in ("col", "row") for a in page.of("th"))
    regions = [a for a in page.of("div") if a.get("class") == "wide"]
    assert len(regions) == len(page.of("table"))
    assert all(a["role"] == "region" and a["aria-label"] and a["tabindex"] == "0" for a in regions)
    names = [a["aria-label"] for a in regions]
    assert len(set(names)) == len(names)


def test_every_element_is_closed_and_every_link_has_its_target(page):
    assert page.open == []
    ids = {a["id"] for _, a, _ in page.elements if "id" in a}
    links = [a["href"].removeprefix("#") for a in page.of("a")]
    assert set(links) == ids
    assert len(links) == len(set(links))


def test_headings_skip_no_level_and_pictures_have_an_alternative(page):
    levels = [int(tag[1]) for tag, _, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    steps = zip(levels, levels[1:], strict=False)
    assert all(following <= level + 1 for level, following in steps)
    assert all(len(a["alt"]) > 40 for a in page.of("img"))


def luminance(color):
    """Relative luminance of a colour ``#rrggbb``, as in the accessibility guidelines."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_both_schemes(page, scheme):
    light, dark = re.findall(r":root \{(.*?)\}", page.style, re.DOTALL)
    colors = dict(re.findall(r"--(\w+): (#\w{6});", light))
    if scheme == "dark":
        colors |= dict(re.findall(r"--(\w+): (#\w{6});", dark))
    for ground in ("page", "tint", "printed"):
        for text in ("ink", "soft", "good", "bad", "link"):
            bright, dim = sorted([luminance(colors[ground]), luminance(colors[text])])[::-1]
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, (text, ground)


def test_it_has_a_printed_form(page):
    printed = page.style[page.style.index("@media print") :]
    assert "overflow: visible" in printed
    assert "nav { display: none; }" in printed
