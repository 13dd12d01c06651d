"""The datasheet against the questions of HEDS 2.0 as published, and filled in from real campaigns."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.real.conftest import load_real

from aliquot import datasheet
from aliquot.report.datasheet.questions import load_questions, load_sections

SHARED = Path(__file__).parents[2].parent / "shared"
HEDS = SHARED / "heds" / "heds2.json"
PAPER = SHARED / "papers" / "humeval2022.txt"
DATA = SHARED / "data"

needs_heds = pytest.mark.skipif(not HEDS.exists(), reason=f"the published questions are not at {HEDS}")
needs_data = pytest.mark.skipif(not DATA.exists(), reason=f"the real data are not at {DATA}")


@needs_heds
def test_numbers_options_and_rules_are_those_of_heds():
    published = json.loads(HEDS.read_text())
    kinds = {"text": "text", "single": "one", "multiple": "several"}
    assert [section.number for section in load_sections()] == [section["id"] for section in published["sections"]]
    theirs = {q["id"]: q for section in published["sections"] for q in section["questions"]}
    assert list(load_questions()) == list(theirs)
    for number, question in load_questions().items():
        their = theirs[number]
        options = their.get("options", [])
        assert question.kind == kinds[their["type"]]
        assert question.official == their["title"]
        assert list(question.labels) == [option["label"] for option in options]
        assert [o.other for o in question.options] == [option.get("is_other", False) for option in options]
        assert [o.exclusive for o in question.options] == [option.get("exclusive", False) for option in options]
        assert [o.pair is None for o in question.options] == ["pair" not in option for option in options]
        assert (question.details == "always") == their.get("details_text_always", False)
        assert question.expected == their.get("expected_selections")
        if question.form != "yes_no":
            assert list(question.special) == their.get("special_values", [])
        assert question.form or their.get("text_format") in (None, "link or description")


@needs_heds
@pytest.mark.skipif(not PAPER.exists(), reason=f"the paper is not at {PAPER}")
def test_questions_and_help_are_in_our_words():
    """No run of seven words is the paper's or the published file's; option labels, which are HEDS's, aside."""
    paper = " ".join(PAPER.read_text().splitlines()[3704:5787]).replace("- ", "")
    published = json.loads(HEDS.read_text())
    theirs = runs(paper)
    for section in published["sections"]:
        for question in section["questions"]:
            for text in (
                question["question"],
                question["guidance"],
                *(o["description"] for o in question.get("options", [])),
            ):
                theirs |= runs(text)
    for question in load_questions().values():
        for text in (question.ask, question.help, *(option.help for option in question.options)):
            assert not runs(text) & theirs, text


def runs(text: str, length: int = 7) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.casefold())
    return {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}


CAMPAIGNS = {
    "summeval": ({"3.1.1": "100", "3.2.1": "8"}, ["coherence", "consistency", "fluency", "relevance"], "5"),
    "wmt24-esa-en-cs-waves23": ({"3.1.1": "297", "3.2.1": "12", "2.4": "English", "2.5": "Czech"}, ["ESA"], "101"),
    "dialsummeval": ({"3.1.1": "100", "3.2.1": "3"}, ["consistency", "relevance", "fluency", "coherence"], "5"),
    "wmt22-da-de-en": ({"3.2.1": "151", "2.4": ""}, ["human"], ""),  # z-scores: no scale; da-de or de-en: no language
}


@needs_data
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_campaigns(name, tmp_path):
    path = DATA / f"{name}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    expected, criteria, size = CAMPAIGNS[name]
    sheet = datasheet.new(load_real(name))
    for number, text in expected.items():
        assert sheet.answer(number).text == text
    assert list(sheet.criterion_names) == criteria
    assert {sheet.answer("4.3.3", criterion).text for criterion in criteria} == {size}
    assert [f for f in datasheet.check(sheet).findings if f.kind == "rule"] == []
    sheet.save(tmp_path / "sheet.toml")
    assert datasheet.load(tmp_path / "sheet.toml") == sheet
    for form in ("markdown", "latex", "html"):
        assert len(datasheet.render(sheet, form)) > 5000
