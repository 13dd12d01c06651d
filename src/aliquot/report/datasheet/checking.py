"""Is a datasheet complete? Every question that is unanswered and every rule of HEDS that is broken, with a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import polars as pl

from aliquot.core.shown import Shown
from aliquot.core.view import Column, View
from aliquot.report.datasheet import forms
from aliquot.report.datasheet.questions import SheetQuestion, load_questions, unknown_option
from aliquot.report.datasheet.sheet import Answer, Datasheet

# -- How many values a written scale has: "1-5", "1 to 100", "0, 25, ..., 100", "A better, B better, neither" --------


_NUMBER = r"[-−+]?\d+(?:\.\d+)?"
_RANGE = re.compile(rf"^\W*?(?:from\s+)?({_NUMBER})\s*(?:-|–|—|−|to|\.\.+|…|through)\s*({_NUMBER})(?![\d.]*\d)")
_STEP = re.compile(rf"steps?\s*(?:of|size)?\s*[:=]?\s*({_NUMBER})")
_LABEL = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|(?<=\d)\s*[=:]\s*[^,;|\n–—-]+")
_DOTS = ("...", "…", "..", "etc", "etc.")


@dataclass(frozen=True)
class WrittenScale:
    """A scale as a text describes it: the number of values (None where unclear), and whether it is a range."""

    size: int | None
    is_range: bool


def read_scale(text: str) -> WrittenScale:
    """Read a list or a range of values; names in brackets or after '=' are not values.

    >>> read_scale("1-100"), read_scale("A better, B better, neither")
    (WrittenScale(size=100, is_range=True), WrittenScale(size=3, is_range=False))
    >>> read_scale("1 (not at all fluent) to 5 (very fluent)").size, read_scale("0, 25, ..., 100").size
    (5, 5)
    >>> read_scale("0.0 to 1.0").size is None, read_scale("0-1 in steps of 0.1").size, read_scale("-25 to 0").size
    (True, 11, 26)
    """
    plain = _LABEL.sub(" ", text).strip()
    match = _RANGE.match(plain)
    if match and not re.search(r"[,;|\n]", plain[match.end() :].replace("in steps", "")):
        return WrittenScale(_range_size(match.group(1), match.group(2), plain[match.end() :]), is_range=True)
    values = _split_values(re.sub(r"\([^()]*\)", "", text))  # a comma inside brackets separates no values
    if any(value in _DOTS for value in values):
        return WrittenScale(_progression_size([value for value in values if value not in _DOTS]), is_range=True)
    return WrittenScale(len(values), is_range=False)


def _split_values(text: str) -> list[str]:
    """Split a list at commas and the like; a text without any at slashes, 'or' and 'and': yes/no, A or B."""
    for separator in (r"[,;|\n]", r"/|\bor\b|\band\b"):
        values = [value.strip() for value in re.split(separator, text) if value.strip()]
        if len(values) > 1:
            return values
    return values


def _range_size(low: str, high: str, after: str) -> int | None:
    step = _STEP.search(after)
    if step is None and ("." in low or "." in high):
        return None
    return _count_steps(
        _parse_fraction(low), _parse_fraction(high), _parse_fraction(step.group(1)) if step else Fraction(1)
    )


def _progression_size(values: list[str]) -> int | None:
    """Return the size of `1, 2, ..., 10`: the first two give the step, the last the end."""
    numbers = [re.match(_NUMBER, value) for value in values]
    if len(values) < 3 or any(number is None for number in numbers):
        return None
    exact = [_parse_fraction(number.group()) for number in numbers if number]
    return _count_steps(exact[0], exact[-1], exact[1] - exact[0])


def _count_steps(low: Fraction, high: Fraction, step: Fraction) -> int | None:
    if step == 0 or (high - low) / step < 0 or ((high - low) / step).denominator != 1:
        return None
    return int((high - low) / step) + 1


def _parse_fraction(text: str) -> Fraction:
    return Fraction(text.replace("−", "-"))


# -- Is a datasheet complete? Every question that is unanswered and every rule of HEDS that is broken, with a remedy -


FindingKind = Literal["unanswered", "rule", "advice"]
UNANSWERED, RULE, ADVICE = get_args(FindingKind)
_TITLES: Mapping[FindingKind, str] = {"rule": "Rules broken", "unanswered": "Not answered", "advice": "Worth a look"}
_TODO = "todo"
_PLACE, _CONDITIONS = "3.3.7", "3.3.8"
_SIZE, _VALUES, _LOOK, _TASK = "4.3.3", "4.3.4", "4.3.5", "4.3.6"


@dataclass(frozen=True)
class Finding:
    """One thing to do: the question, for which criterion (None: the whole experiment), what is wrong, what to do.

    `kind` is "unanswered" (one for each question without an answer), "rule" (an answer, or the lack of a criterion or
    of details, breaks a rule of HEDS) or "advice" (worth a look; the sheet counts as complete without it).
    """

    question: str
    criterion: str | None
    kind: FindingKind
    problem: str
    remedy: str


@dataclass(frozen=True)
class Check(Shown):
    """What `check` found, in the order of the sheet."""

    findings: tuple[Finding, ...]
    questions: int
    answered: int
    name: str = "datasheet"

    @property
    def complete(self) -> bool:
        """Whether every question is answered and no rule is broken."""
        return not any(finding.kind in (UNANSWERED, RULE) for finding in self.findings)

    @property
    def status(self) -> str:
        """How many questions are answered, and whether the sheet is complete."""
        state = "complete" if self.complete else "not complete"
        return f"{self.name}: {self.answered} of {self.questions} questions answered; {state}"

    def views(self) -> Sequence[View]:
        """Return the findings of each kind, broken rules first, and the status."""
        views = []
        for kind, title in _TITLES.items():
            findings = [finding for finding in self.findings if finding.kind == kind]
            columns = (
                Column("question", kind="name"),
                *([Column("criterion", kind="name")] if any(finding.criterion for finding in findings) else []),
                Column("what", "problem", "text"),
                Column("what to do", "remedy", "text"),
            )
            if findings:
                views.append(View(kind, findings, columns, f"{title} ({len(findings)})"))
        return (*views, View("status", intro=(self.status,)))

    def to_frame(self) -> pl.DataFrame:
        """Return one row per finding."""
        columns = dict.fromkeys(Finding.__dataclass_fields__, pl.String)
        return pl.DataFrame([vars(finding) for finding in self.findings], schema=columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document of `datasheet check --json`."""
        return {
            "name": self.name,
            "complete": self.complete,
            "questions": self.questions,
            "answered": self.answered,
            "findings": [vars(finding) for finding in self.findings],
        }


def check(sheet: Datasheet) -> Check:
    """Check a datasheet: what is unanswered, and which answers break a rule of HEDS.

    >>> from aliquot.report.datasheet.sheet import make_blank_sheet
    >>> result = check(make_blank_sheet(["fluency"]).with_answer("3.2.1", "a dozen"))
    >>> result.complete, result.answered, result.questions
    (False, 1, 45)
    >>> [finding.problem for finding in result.findings if finding.kind == "rule"]
    ["'a dozen' is not a whole number"]
    """
    places = [(question, name) for question, name in sheet.places() if is_needed(sheet, question.number)]
    answered = sum(is_answered(question, sheet.answer(question.number, name)) for question, name in places)
    findings = [finding for question, name in sheet.places() for finding in _check_question(sheet, question, name)]
    findings += [finding for name in sheet.criterion_names for finding in _check_scale(sheet, name)]
    findings += list(_check_task(sheet))
    if not sheet.criteria:
        remedy = "add a [[criterion]] with a name for each criterion that was judged"
        findings.append(Finding("4", None, RULE, "there is no criterion", remedy))
    order = {place: index for index, place in enumerate([(q.number, name) for q, name in sheet.places()])}
    findings.sort(key=lambda finding: order.get((finding.question, finding.criterion), len(order)))
    return Check(tuple(findings), len(places), answered, sheet.name)


def is_needed(sheet: Datasheet, number: str) -> bool:
    """Return whether a question asks for an answer: 3.3.8 does not where annotators choose the place themselves."""
    if number != _CONDITIONS:
        return True
    return sheet.answer(_PLACE).chosen != load_questions()[_PLACE].labels[:1]


def is_answered(question: SheetQuestion, answer: Answer) -> bool:
    """Return whether an answer counts: an option is chosen, or there is a text that is not just a reminder."""
    if question.options:
        return bool(answer.chosen)
    return bool(answer.text.strip()) and not answer.text.strip().casefold().startswith(_TODO)


def _check_question(sheet: Datasheet, question: SheetQuestion, name: str | None) -> Iterator[Finding]:
    answer = sheet.answer(question.number, name)
    if is_answered(question, answer):
        rules = _check_choice(question, answer) if question.options else _check_text(question, answer)
        for kind, problem, remedy in rules:
            yield Finding(question.number, name, kind, problem, remedy)
    elif is_needed(sheet, question.number):
        remedy = {"one": "choose one option", "several": "choose all options that apply"}.get(
            question.kind, question.help or "write an answer"
        )
        if question.details == "always" and not answer.text.strip():
            remedy += f"; {_details_remedy(question)}"
        yield Finding(question.number, name, UNANSWERED, question.ask, remedy)


def _details_remedy(question: SheetQuestion) -> str:
    return f'say more in "{question.number} details"; HEDS wants it whatever is chosen'


def _check_text(question: SheetQuestion, answer: Answer) -> Iterator[tuple[FindingKind, str, str]]:
    fault = forms.find_fault(question, answer.text)
    if fault is not None:
        yield (ADVICE if question.form in forms.ADVICE else RULE, *fault)


def _check_choice(question: SheetQuestion, answer: Answer) -> Iterator[tuple[FindingKind, str, str]]:
    if question.details == "always" and not answer.text.strip():
        yield RULE, "the details are missing", _details_remedy(question)
    for label in answer.chosen:
        if question.find_option(label) is None:
            yield RULE, str(unknown_option(question, label)), "write the option as HEDS has it"
    chosen = [option for option in question.options if option.label in answer.chosen]
    if question.kind == "one" and len(answer.chosen) > 1:
        yield RULE, f"{len(answer.chosen)} options are chosen where one is meant", "keep one and explain in the details"
    other_option = next((option for option in chosen if option.other), None)
    if other_option is not None and question.details != "always" and not answer.text.strip():
        yield RULE, f"'{other_option.label}' is chosen but not explained", f'say more in "{question.number} details"'
    exclusive_option = next((option for option in chosen if option.exclusive), None)
    beside = [option for option in chosen if not option.exclusive and not option.other]
    if exclusive_option is not None and beside:
        yield RULE, f"'{exclusive_option.label}' is chosen beside '{beside[0].label}'", "keep one of the two"
    if question.expected is not None and other_option is None:
        yield from _check_pairs(question, answer)


def _check_pairs(question: SheetQuestion, answer: Answer) -> Iterator[tuple[FindingKind, str, str]]:
    """Check that one option of each pair is chosen, or Other with an explanation (3.2.2)."""
    pairs: dict[str, list[str]] = {}
    for option in question.options:
        if option.pair is not None:
            pairs.setdefault(option.pair, []).append(option.label)
    last = question.options[-1].label
    for labels in pairs.values():
        count = sum(label in answer.chosen for label in labels)
        if count != 1:
            which = "neither" if count == 0 else "both"
            remedy = f"choose one of them, or choose '{last}' too and explain in the details"
            yield RULE, f"{which} of '{labels[0]}' and '{labels[1]}' chosen; one of each pair is expected", remedy


def _check_scale(sheet: Datasheet, name: str) -> Iterator[Finding]:
    """Check that 4.3.3 to 4.3.6 describe either a rating instrument or a task without one (HEDS, notes on them)."""
    size, values, task = (sheet.answer(number, name).text.strip() for number in (_SIZE, _VALUES, _TASK))
    look = sheet.answer(_LOOK, name).chosen
    without = {
        number: absent
        for number, text, absent in (
            (_SIZE, size, forms.is_not_applicable(size)),
            (_VALUES, values, forms.is_not_applicable(values)),
            (_LOOK, look, load_questions()[_LOOK].labels[3] in look),
        )
        if text
    }
    if len(set(without.values())) > 1:
        absent = next(number for number, is_absent in without.items() if is_absent)
        present = next(number for number, is_absent in without.items() if not is_absent)
        yield Finding(
            absent,
            name,
            RULE,
            f"N/A, but {present} describes a rating instrument",
            f"{_SIZE}, {_VALUES} and {_LOOK} are all N/A or all answered",
        )
        return
    if len(without) == 3 and all(without.values()) and task and forms.is_not_applicable(task):
        remedy = "describe what annotators do and what is recorded"
        yield Finding(_TASK, name, RULE, f"N/A, but {_SIZE} to {_LOOK} say that there is no rating instrument", remedy)
    if without and not any(without.values()) and task and not forms.is_not_applicable(task):
        problem = "a task without rating instrument is described, but there is an instrument"
        yield Finding(_TASK, name, RULE, problem, f"write N/A here, or N/A in {_SIZE}, {_VALUES} and {_LOOK}")
    yield from _check_values(name, size, values)


def _check_values(name: str, size: str, values: str) -> Iterator[Finding]:
    """Check that the list or range of 4.3.4 has the size of 4.3.3."""
    stated_size = forms.parse_whole_number(size)
    if not values or forms.is_not_applicable(values):
        return
    scale = read_scale(values)
    if stated_size is not None and scale.size is not None and scale.size != stated_size:
        problem = f"{scale.size} value{'s' * (scale.size != 1)} where {_SIZE} says {stated_size}"
        remedy = "list them with commas or give a range (1-5); names of values in brackets"
        yield Finding(_VALUES, name, RULE, problem, remedy)
    if size.casefold() == "continuous" and not scale.is_range and scale.size is not None:
        yield Finding(_VALUES, name, RULE, f"a list where {_SIZE} says continuous", "give a range, e.g. 0-1")


def _check_task(sheet: Datasheet) -> Iterator[Finding]:
    """Check that input and output fit the task, where HEDS has guidance on it."""
    inputs, outputs = sheet.answer("2.1").chosen, sheet.answer("2.2").chosen
    for option in load_questions()["2.3"].options:
        if option.label not in sheet.answer("2.3").chosen:
            continue
        if inputs and option.input and not any(_is_usual_input(label, option.input) for label in inputs):
            problem = f"'{option.label}' usually takes {' or '.join(option.input)} as input, 2.1 says otherwise"
            yield Finding("2.3", None, ADVICE, problem, "check 2.1 and 2.3")
        if outputs and option.output_not_text and all(label.startswith("text:") for label in outputs):
            problem = f"the output of '{option.label}' is not text, 2.2 says it is"
            yield Finding("2.3", None, ADVICE, problem, "check 2.2 and 2.3")


def _is_usual_input(label: str, accepted: tuple[str, ...]) -> bool:
    return label in (*accepted, "multi-modal", "other (please specify)") or (
        "text: *" in accepted and label.startswith("text:")
    )
