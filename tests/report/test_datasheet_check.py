"""Every rule of HEDS by itself: a complete sheet with one answer changed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aliquot.report.datasheet import Datasheet, check, render
from aliquot.report.datasheet.checking import ADVICE, RULE, UNANSWERED, read_scale
from aliquot.report.datasheet.forms import find_language_pair, find_unknown_languages, languages_by_code
from aliquot.report.datasheet.questions import load_questions
from aliquot.report.datasheet.sheet import make_blank_sheet


def changed(sheet: Datasheet, number: str, value: object, details: str | None = None) -> Datasheet:
    name = "fluency" if number.startswith("4") else None
    question = load_questions()[number]
    if isinstance(value, list) and all(isinstance(place, int) for place in value):
        value = [question.labels[place] for place in value]
    kept = sheet.answer(number, name).text if question.options and details is None else details or ""
    return sheet.with_answer(number, value, details=kept, criterion=name)  # type: ignore[arg-type]


def found(sheet: Datasheet) -> list[tuple[str, str]]:
    return [(finding.question, finding.kind) for finding in check(sheet).findings]


def test_a_complete_sheet(complete):
    result = check(complete)
    assert result.complete
    assert result.findings == ()
    assert result.answered == result.questions == 44  # 3.3.8 is not needed


def test_every_question_of_a_blank_sheet_is_unanswered():
    result = check(make_blank_sheet(["a", "b"]))
    listed = [(finding.question, finding.criterion) for finding in result.findings]
    assert listed == [(question.number, name) for question, name in make_blank_sheet(["a", "b"]).places()]
    assert {finding.kind for finding in result.findings} == {UNANSWERED}
    assert (result.answered, result.questions) == (0, 28 + 2 * 17)
    assert not result.complete


@pytest.mark.parametrize("number", load_questions())
def test_each_answer_is_missed(complete, number):
    name = "fluency" if number.startswith("4") else None
    if number == "3.3.8":
        return
    question = load_questions()[number]
    without = complete.with_answer(number, [] if question.options else " ", criterion=name)
    assert (number, UNANSWERED) in found(without)
    assert check(without).answered == 43


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("1.1", "a paper"),
        ("1.2", "on request"),
        ("1.3", "A. Person"),
        ("2.4", "en"),
        ("2.5", "Klingon"),
        ("3.1.1", "about 100"),
        ("3.1.1", "0"),
        ("3.1.1", "-3"),
        ("3.1.1", "1.5"),
        ("3.2.1", "twelve"),
        ("3.3.1", "perhaps"),
        ("3.3.1", "Yes."),
        ("4.3.3", "five"),
        ("3.1.2", [0, 1]),
        ("3.1.2", ["by lot"]),
        ("2.1", ["text: sentense"]),
        ("3.3.3", [1, 5]),
        ("3.3.5", [0, 2]),
        ("3.3.6", [1, 3]),
        ("3.2.2", [0, 2, 5]),
        ("3.2.2", [0, 1, 2, 5, 7]),
    ],
)
def test_broken_rules(complete, number, value):
    sheet = changed(complete, number, value)
    assert (number, RULE) in found(sheet)
    assert {question for question, _ in found(sheet)} == {number} or number.startswith("4.3")
    assert not check(sheet).complete


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("1.1", "for preregistration"),
        ("1.1", "For preregistration."),
        ("1.1", "doi:10.18653/v1/2022.humeval-1.6"),
        ("1.2", "n/a"),
        ("1.3", "A. Person, a [at] example.org"),
        ("2.4", "N/A"),
        ("2.4", "English, Chinese (Traditional) and Czech"),
        ("2.5", "Cebuano (ceb)"),
        ("3.1.1", "460 (refA: 120)"),
        ("3.3.1", "Yes: OSF, https://osf.io/x"),
        ("3.3.1", "no"),
        ("3.3.3", [5]),
        ("3.3.3", [5, 6]),
        ("3.2.2", [0, 1, 2, 5, 7, 8]),
        ("3.2.2", [8]),
        ("4.3.10", "none"),
    ],
)
def test_kept_rules(complete, number, value):
    assert check(changed(complete, number, value)).findings == ()


@pytest.mark.parametrize("number", ["2.1", "2.2", "2.3", "3.1.2", "3.3.7", "4.3.5", "4.3.8"])
def test_other_must_be_explained(complete, number):
    other = len(load_questions()[number].labels) - 1
    assert (number, RULE) in found(changed(complete, number, [other], ""))
    assert (number, RULE) not in found(changed(complete, number, [other], "like this"))


@pytest.mark.parametrize("number", ["3.2.2", "3.3.3", "3.3.5", "3.3.6"])
def test_details_are_always_wanted(complete, number):
    answer = complete.answer(number)
    assert found(complete.with_answer(number, answer.chosen, details="  ")) == [(number, RULE)]


@pytest.mark.parametrize("criteria", [[], ["fluency"], ["a", "b"]])
def test_unanswered_questions_are_all_that_are_not_answered(criteria):
    sheet = make_blank_sheet(criteria).with_answer("3.2.1", 4)
    sheet = sheet.with_answer("3.3.3", [0]).with_answer("1.2", "TODO: link")  # type: ignore[list-item]
    result = check(sheet)
    kinds = [finding.kind for finding in result.findings]
    assert kinds.count(UNANSWERED) == result.questions - result.answered
    assert result.answered == 2
    assert f"{result.answered} of {result.questions} questions answered" in repr(sheet)
    page = render(sheet)
    assert page.count("*not answered*") == kinds.count(UNANSWERED)


def test_conditions_are_needed_unless_annotators_choose_the_place(complete):
    lab = changed(complete, "3.3.7", [1])
    assert found(lab) == [("3.3.8", UNANSWERED)]
    assert check(lab.with_answer("3.3.8", "A quiet room.")).complete


@pytest.mark.parametrize(
    ("size", "values", "fits"),
    [
        ("5", "1-5", True),
        ("5", "1, 2, 3, 4, 5", True),
        ("5", "1 = bad, 2, 3, 4, 5 = good", True),
        ("5", "1 (bad, very) to 5 (good)", True),
        ("5", "1-4", False),
        ("5", "0-5", False),
        ("3", "A better, B better, neither", True),
        ("2", "A better, B better, neither", False),
        ("101", "0–100", True),
        ("100", "0-100", False),
        ("11", "0 to 1 in steps of 0.1", True),
        ("2", "yes/no", True),
        ("continuous", "0-1", True),
        ("continuous", "low, high", False),
        ("continuous", "any real number", False),
    ],
)
def test_values_have_the_size_of_the_scale(complete, size, values, fits):
    sheet = changed(changed(complete, "4.3.3", size), "4.3.4", values)
    assert (("4.3.4", RULE) not in found(sheet)) == fits


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"4.3.3": "N/A", "4.3.4": "N/A", "4.3.5": [3], "4.3.6": "They rank outputs."}, []),
        ({"4.3.3": "N/A", "4.3.4": "N/A", "4.3.5": [3]}, ["4.3.6"]),
        ({"4.3.3": "N/A"}, ["4.3.3"]),
        ({"4.3.4": "N/A"}, ["4.3.4"]),
        ({"4.3.5": [3]}, ["4.3.5"]),
        ({"4.3.6": "They rank outputs."}, ["4.3.6"]),
    ],
)
def test_a_rating_instrument_or_a_task(complete, changes, broken):
    sheet = complete
    for number, value in changes.items():
        sheet = changed(sheet, number, value)
    assert found(sheet) == [(number, RULE) for number in broken]


def test_advice_does_not_make_a_sheet_incomplete(complete):
    spoken = changed(complete, "2.1", [10])  # machine translation of something visual
    assert found(spoken) == [("2.3", ADVICE)]
    powerless = changed(complete, "3.1.3", "Not calculated.")
    assert found(powerless) == [("3.1.3", ADVICE)]
    ordering = changed(complete, "2.3", [1])
    assert found(ordering) == [("2.3", ADVICE)]
    assert check(spoken).complete
    assert check(powerless).complete


def test_a_sheet_without_criteria_is_not_complete(complete):
    bare = Datasheet(answers=complete.answers)
    assert [(finding.question, finding.kind) for finding in check(bare).findings] == [("4", RULE)]


def test_todo_is_no_answer(complete):
    assert found(complete.with_answer("3.2.3", "TODO ask the agency")) == [("3.2.3", UNANSWERED)]


def test_a_wrong_label_is_named_with_what_may_be_meant(complete):
    (finding,) = check(changed(complete, "4.3.5", ["Slidr"])).findings
    assert "did you mean 'Slider'?" in finding.problem
    finding, _ = check(changed(complete, "3.3.7", ["evaluation carried out in a lab"], "")).findings
    assert "evaluation carried out in a lab, and conditions are the same" in finding.problem


def test_findings_come_in_the_order_of_the_sheet():
    numbers = [
        finding.question
        for finding in check(make_blank_sheet(["a"]).with_answer("4.3.3", "N/A", criterion="a")).findings
    ]
    order = list(load_questions())
    assert numbers == sorted(numbers, key=order.index)


# -- pieces ----------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(-50, 50), st.integers(1, 60), st.sampled_from(["{}-{}", "{} to {}", "{} – {}", "from {} to {}"]))
def test_a_range_has_as_many_values_as_its_list(low, more, pattern):
    written = pattern.format(low, low + more)
    assert read_scale(written).size == more + 1
    listed = ", ".join(str(low + at) for at in range(more + 1))
    assert read_scale(listed).size == more + 1


def test_all_names_of_all_languages_are_known():
    names = [name for names in languages_by_code().values() for name in names]
    assert len(languages_by_code()) == 185  # the 183 of today, and bh and sh, which were once in the list
    assert find_unknown_languages("; ".join(names)) == []
    assert [guess for _, guess in find_unknown_languages(", ".join(languages_by_code()))] == [
        n[0] for n in languages_by_code().values()
    ]


def test_language_pairs_in_names():
    assert find_language_pair("wmt24-esa-en-cs") == ("English", "Czech")
    assert find_language_pair("en-en") is None
    assert find_language_pair("data-xx-yy") is None
    assert find_language_pair("wmt22-da-de-en") is None  # ambiguous
