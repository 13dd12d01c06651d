"""The report page in a real browser: nothing is requested, nothing goes wrong, and axe finds nothing."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from tests.browser.offline_page import chromium, open_file, violations

import aliquot

pytest.importorskip("jinja2")
pytest.importorskip("playwright")
pytest.importorskip("axe_playwright_python")

NAMES = ("<script>alert(1)</script>", "مترجم عربي ١", "x" * 300, r"$\frac{a}{b}$")


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    data = aliquot.synthetic(items=50, systems=4, protocol="da", annotators=4, judgments_per_output=2, seed=3)
    data = data.rename(systems=dict(zip(data.systems, NAMES, strict=True)))
    source = pl.Series("source", ["هذا نص يُقرأ من اليمين إلى اليسار. </p><script>alert(2)</script>"] * 25 + ["a"] * 25)
    data = replace(data, items=data.items.with_columns(source))
    chosen = aliquot.select(data, "pps", budget=30, seed=1)
    path = tmp_path_factory.mktemp("report") / "report.html"
    aliquot.make_report(data, selection=chosen, clean="da_wmt").save(path)
    return path


@pytest.fixture(scope="module")
def browser():
    with chromium() as made:
        yield made


@pytest.fixture
def opened(browser, page_file):
    pages = []

    def opened(**options):
        page, page_wrong = open_file(browser, page_file, **options)
        page.wrong = page_wrong
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_requested_and_axe_finds_nothing(opened, scheme):
    page = opened(color_scheme=scheme)
    assert violations(page) == ""
    assert page.wrong == []


def test_a_phone_scrolls_down_only(opened):
    page = opened(viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_names_hide_and_come_back(opened):
    page = opened()
    name = page.locator("main table .named").first
    assert name.is_visible()
    page.check("#blind")
    assert not name.is_visible()
    assert page.locator("main table .letter").first.inner_text().startswith("System ")
    assert NAMES[1] not in page.locator("main").inner_text()
    page.uncheck("#blind")
    assert name.is_visible()


def test_examples_are_browsed(opened):
    page = opened()
    section = page.locator("section.examples")
    assert section.locator("details.example[open]").count() == 1
    section.get_by_role("button", name="Next").click()
    assert section.locator("details.example").nth(1).evaluate("one => one.open")
    section.get_by_label("Search").fill("no such words anywhere")
    assert section.locator("details.example:visible").count() == 0
    assert section.locator(".count").inner_text().startswith("0 of")


def test_texts_are_copied(opened):
    page = opened()
    button = page.locator("button.copy").first
    button.click()
    assert button.inner_text() in ("Copied", "Press Ctrl+C")
    assert "We compare 4 systems" in page.evaluate("getSelection().toString()")
    assert page.wrong == []


def test_the_page_works_without_script(opened):
    page = opened(java_script_enabled=False)
    assert page.locator("table.matrix").is_visible()
    assert page.locator("details.example").first.is_visible()
    assert not page.locator(".browse").is_visible()
    assert not page.locator("button.copy").first.is_visible()


def test_right_to_left_text_runs_right_to_left(opened):
    page = opened()
    texts = page.locator("section.examples p[dir=auto]").filter(has_text="هذا نص")
    assert texts.first.evaluate("one => getComputedStyle(one).direction") == "rtl"


def test_it_prints(opened, tmp_path):
    page = opened()
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    page.pdf(path=str(tmp_path / "r.pdf"), format="A4")
    assert (tmp_path / "r.pdf").stat().st_size > 20_000
