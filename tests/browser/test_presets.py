"""One document in every preset, by keyboard only and by mouse: what the campaign stores is what was typed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from tests.browser.conftest import TEXTS, Serve, Tab
from tests.browser.serving import Served

from aliquot.collect.protocols import list_protocols

Row = dict[str, Any]


def rows(site: Served, table: str) -> list[Row]:
    """The derived rows of a campaign's file, read as anybody would."""
    connection = sqlite3.connect(str(site.campaign.store.place))
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY rowid")]  # noqa: S608
    finally:
        connection.close()


def values(site: Served) -> list[tuple[str, str | None, float]]:
    found = {(json.loads(row["item"]), row["criterion"], row["value"]) for row in rows(site, "judgments")}
    return sorted(found, key=str)


def shown(tab: Tab, slot: int = 0) -> list[str]:
    """The outputs on the screen, in reading order, of one place side by side."""
    return [
        row.locator(".output .text").nth(slot).text_content()
        for row in tab.page.locator(".row:not(.context):not(.apart)").all()
    ]


# -- by keyboard: each flow types, and returns what the table `judgments` should hold as (item, criterion, value)


def da(tab: Tab) -> None:
    tab.keys("j", "7", "3", "Enter", "4", "1")


def sqm(tab: Tab) -> None:
    tab.keys("j", "5", "Enter", "2")


def likert(tab: Tab) -> None:
    tab.keys("j", "4", "Enter", "3", "Enter", "2", "Enter", "1")


def esa(tab: Tab) -> None:
    tab.keys("j", "ArrowRight", "Shift+ArrowRight", "2")  # the first two words
    tab.keys("Enter", "6", "6", "Enter", "n", "Enter", "1", "0", "0")


def esa_ai(tab: Tab) -> None:
    tab.keys("Enter", "6", "6", "Enter", "1", "0", "0")  # the suggested spans stay


def mqm(tab: Tab) -> None:
    tab.keys("j", "ArrowRight", "2", "1", "3")  # major, Accuracy, Mistranslation
    tab.keys("Enter", "n")


def pairwise(tab: Tab) -> None:
    tab.keys("j", "1", "Enter", "3")  # A is much better; about equal


def contrastive(tab: Tab) -> None:
    tab.keys("Enter")
    for score in (("9", "0"), ("4", "0"), ("8", "0"), ("3", "0")):
        tab.keys("n", "Enter", *score, "Enter")


def best_worst(tab: Tab) -> None:
    tab.keys("j", "1", "Shift+2", "Enter", "2", "Shift+1")


def postedit(tab: Tab) -> None:
    tab.keys("j", "Control+End")
    tab.page.keyboard.type(" More.")
    tab.keys("Tab", "Tab", "Tab")  # its button, the next text, its button: correct as it is
    tab.keys("Space")


def document_comparison(tab: Tab) -> None:
    tab.keys("j", "1")


FLOWS: dict[str, Callable[[Tab], None]] = {
    "da": da,
    "sqm": sqm,
    "likert": likert,
    "esa": esa,
    "esa-ai": esa_ai,
    "mqm": mqm,
    "pairwise": pairwise,
    "contrastive": contrastive,
    "best-worst": best_worst,
    "postedit": postedit,
    "document-comparison": document_comparison,
}
FIRST, SECOND = "secretItem0", "secretItem1"
EXPECTED: dict[str, list[tuple[str, str | None, float]]] = {
    "da": [(FIRST, "score", 73), (SECOND, "score", 41)],
    "sqm": [(FIRST, "score", 5), (SECOND, "score", 2)],
    "likert": [(FIRST, "adequacy", 4), (FIRST, "fluency", 3), (SECOND, "adequacy", 2), (SECOND, "fluency", 1)],
    "esa": [(FIRST, "score", 66), (SECOND, "score", 100)],
    "esa-ai": [(FIRST, "score", 66), (SECOND, "score", 100)],
    "mqm": [(FIRST, None, -5), (SECOND, None, 0)],
    "pairwise": [(FIRST, "preference", 0), (FIRST, "preference", 1), (SECOND, "preference", 0.5)],
    "contrastive": [(FIRST, "score", 40), (FIRST, "score", 90), (SECOND, "score", 30), (SECOND, "score", 80)],
    "best-worst": [(FIRST, None, -1), (FIRST, None, 1), (SECOND, None, -1), (SECOND, None, 1)],
}


def test_every_preset_has_a_flow():
    assert sorted(FLOWS) == sorted(list_protocols())


@pytest.mark.parametrize("preset", sorted(FLOWS))
def test_by_keyboard(preset: str, serve: Serve, open_tab: Callable[..., Tab]):
    site = serve(preset)
    tab = open_tab(site.links["kim"])
    FLOWS[preset](tab)
    texts = shown(tab)
    tab.submit_by_key()
    if preset in EXPECTED:
        found = values(site)
        wanted = EXPECTED[preset]
        assert [(item, value) for item, _, value in found] == [(item, value) for item, _, value in wanted]
        if preset == "likert":
            assert [criterion for _, criterion, _ in found] == [criterion for _, criterion, _ in wanted]
    check_details(preset, site, texts)


def check_details(preset: str, site: Served, texts: list[str]) -> None:
    """What a value alone does not say: spans, categories, choices, texts."""
    judged = rows(site, "judgments")
    first = next((row for row in judged if json.loads(row["item"]) == FIRST), {}) if judged else {}
    if preset == "esa":
        [span] = json.loads(first["spans"])
        assert (span["start"], span["quote"], span["severity"]) == (0, "The <", "major")
    elif preset == "esa-ai":
        [span] = json.loads(first["spans"])
        assert (span["start"], span["end"], span["quote"], span["severity"]) == (0, 3, "The", "minor")
    elif preset == "mqm":
        assert (first["category"], first["severity"]) == ("Accuracy/Mistranslation", "major")
        assert (first["start"], first["end"]) == (0, 3)
    elif preset == "postedit":
        assert [row["text"] for row in judged] == [f"{texts[0]} More.", texts[1]]
        assert judged[0]["value"] < 0
        assert judged[1]["value"] == 0
    elif preset == "pairwise":
        choices = rows(site, "choices")
        assert [row["strength"] for row in choices] == [2, None]
        assert [row["choice"] for row in choices] == ["a", "tie"]
    elif preset == "document-comparison":
        assert [row["value"] for row in judged]


@pytest.mark.parametrize("preset", sorted(FLOWS))
def test_by_mouse(preset: str, serve: Serve, open_tab: Callable[..., Tab]):
    site = serve(preset)
    tab = open_tab(site.links["lee"])
    page = tab.page
    for output in page.locator(".row:not(.context) .markable").all():
        if "output" in (output.evaluate("node => node.parentElement.className")) and preset != "esa-ai":
            output.dblclick(position={"x": 12, "y": 14})  # the first word
            page.locator(".spanbar .level-1").click()
            if preset == "mqm":
                page.locator(".spanbar .category").nth(0).click()
                page.locator(".spanbar .category:not(.back)").nth(2).click()
    typed: list[float] = []
    for slider in page.locator(".range").all():
        box = slider.bounding_box()
        slider.click(position={"x": box["width"] * (0.2 + 0.15 * len(typed)), "y": box["height"] / 2})
        typed.append(float(page.locator(".number").nth(len(typed)).input_value()))
    for number, group in enumerate(page.locator("[role=radiogroup]").all()):
        group.locator(".step").nth(number % 2).click()
    for number, area in enumerate(page.locator(".post-edit textarea").all()):
        area.fill(f"Text {number}")
    tab.left_by(lambda: page.locator(".bottom .submit").click())
    judged = rows(site, "judgments")
    assert judged
    if typed:
        assert sorted(row["value"] for row in judged if row["value"] is not None) == sorted(typed)
    if preset in ("esa", "contrastive"):
        spans = [span for row in judged for span in json.loads(row["spans"])]
        assert {(span["quote"], span["severity"]) for span in spans} == {("The", "major"), ("Ein", "major")}
    if preset == "mqm":
        assert {(row["category"], row["span"]) for row in judged} == {
            ("Accuracy/Mistranslation", "Ein"),
            ("Accuracy/Mistranslation", "The"),
        }
    if preset == "postedit":
        assert [row["text"] for row in judged] == ["Text 0", "Text 1"]


def test_text_is_text(serve: Serve, open_tab: Callable[..., Tab]):
    tab = open_tab(serve("da").links["kim"])
    assert tab.page.locator(".source .text").first.text_content() == TEXTS[0]
    assert tab.page.locator(".unit script").count() == 0
