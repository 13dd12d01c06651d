"""Two sheets side by side."""

from __future__ import annotations

import pytest

from aliquot.errors import AliquotError, OptionError
from aliquot.report.datasheet import Criterion, Datasheet, diff
from aliquot.report.datasheet.differences import CHANGED, ONLY_ORIGINAL, ONLY_REPRODUCTION, OPEN, SAME
from aliquot.report.datasheet.questions import load_questions


def renamed(sheet: Datasheet, name: str) -> Datasheet:
    return Datasheet(sheet.answers, tuple(Criterion(name, criterion.answers) for criterion in sheet.criteria))


def test_a_sheet_is_like_itself(complete):
    result = diff(complete, complete)
    assert result.differences == ()
    assert (result.count(SAME), result.count(OPEN)) == (44, 1)
    assert result.to_frame().height == 45
    assert result.to_dict()["counts"]["same"] == 44


def test_what_differs(complete):
    labels = load_questions()["3.2.2"].labels
    other = complete.with_answer("3.2.1", "15").with_answer("5.1", "").with_answer("3.3.8", "At home.")
    other = other.with_answer("3.2.2", [labels[1], *complete.answer("3.2.2").chosen[1:]], details="Translators.")
    result = diff(complete, other)
    states = {row.question: row.state for row in result.differences}
    assert states == {"3.2.1": CHANGED, "3.2.2": CHANGED, "5.1": ONLY_ORIGINAL, "3.3.8": ONLY_REPRODUCTION}
    row = next(row for row in result.rows if row.question == "3.2.2")
    assert row.original.splitlines()[0] == "[x] experts"
    assert row.reproduction.splitlines()[0] == "[x] non-experts"
    assert row.original.endswith("Translators.")


def test_what_does_not_differ(complete):
    chosen = complete.answer("3.2.2").chosen
    other = complete.with_answer("3.2.2", list(reversed(chosen)), details=" Translators. \n")
    other = other.with_answer("3.2.3", "An\n agency.").with_answer("1.2", "n/a.").with_answer("3.3.1", "No", source="x")
    assert diff(complete, other).differences == ()


def test_criteria_go_by_name(complete):
    assert diff(complete, renamed(complete, "Fluency")).differences == ()
    apart = diff(complete, renamed(complete, "readability"))
    assert apart.count(ONLY_ORIGINAL) == apart.count(ONLY_REPRODUCTION) == 17
    numbers = [row.question for row in apart.rows]
    assert numbers.index("5.1") > max(at for at, number in enumerate(numbers) if number.startswith("4"))
    assert diff(complete, renamed(complete, "readability"), match={"fluency": "readability"}).differences == ()


def test_wrong_matches(complete):
    with pytest.raises(AliquotError, match="unknown criterion 'x'"):
        diff(complete, complete, match={"x": "fluency"})
    with pytest.raises(AliquotError, match="unknown criterion 'x'"):
        diff(complete, complete, match={"fluency": "x"})
    two = Datasheet(complete.answers, (*complete.criteria, Criterion("b")))
    with pytest.raises(OptionError, match="two criteria"):
        diff(two, complete, match={"fluency": "fluency", "b": "fluency"})
