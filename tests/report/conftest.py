from __future__ import annotations

import pytest

from aliquot.report.datasheet import Datasheet
from aliquot.report.datasheet.questions import load_questions
from aliquot.report.datasheet.sheet import make_blank_sheet


def labels(number: str, *places: int) -> list[str]:
    return [load_questions()[number].labels[place] for place in places]


@pytest.fixture(scope="session")
def complete() -> Datasheet:
    """A sheet with one criterion on which `check` has nothing to say."""
    sheet = make_blank_sheet(["fluency"])
    texts = {
        "1.1": "https://example.org/paper",
        "1.2": "N/A",
        "1.3": "A. Person, University, a@example.org",
        "2.4": "English",
        "2.5": "Czech",
        "3.1.1": "100",
        "3.1.3": "0.8 by aliquot plan",
        "3.2.1": "12",
        "3.2.3": "An agency.",
        "3.2.4": "A tutorial.",
        "3.2.5": "Nothing else.",
        "3.3.1": "No",
        "3.3.2": "Appraise",
        "3.3.4": "One page.",
        "5.1": "No",
        "5.2": "No",
        "5.3": "No",
        "5.4": "No",
    }
    for number, text in texts.items():
        sheet = sheet.with_answer(number, text)
    choices = {
        "2.1": ([4], ""),
        "2.2": ([4], ""),
        "2.3": ([14], ""),
        "3.1.2": ([0], ""),
        "3.2.2": ([0, 2, 5, 7], "Translators."),
        "3.3.3": ([1], "Control items."),
        "3.3.5": ([2], "As they like."),
        "3.3.6": ([1], "By e-mail."),
        "3.3.7": ([0], ""),
    }
    for number, (places, details) in choices.items():
        sheet = sheet.with_answer(number, labels(number, *places), details=details)
    for number, place in {
        "4.1.1": 1,
        "4.1.2": 0,
        "4.1.3": 0,
        "4.2.1": 1,
        "4.2.2": 0,
        "4.2.3": 0,
        "4.3.5": 0,
        "4.3.8": 1,
    }.items():
        sheet = sheet.with_answer(number, labels(number, place), criterion="fluency")
    own = {
        "4.3.1": "Fluency",
        "4.3.2": "N/A",
        "4.3.3": "5",
        "4.3.4": "1-5",
        "4.3.6": "N/A",
        "4.3.7": "How fluent?",
        "4.3.9": "Means.",
        "4.3.10": "None",
        "4.3.11": "No",
    }
    for number, text in own.items():
        sheet = sheet.with_answer(number, text, criterion="fluency")
    return sheet
