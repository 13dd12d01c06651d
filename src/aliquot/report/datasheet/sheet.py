"""A datasheet: the answers to HEDS, once for the experiment and once for each criterion. Immutable.

Invariant: answers stand under numbers that HEDS has, in its order; an empty answer is no answer and is not kept;
criteria have names that differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from aliquot.core.shown import Shown
from aliquot.core.view import Column, View
from aliquot.errors import DataError, OptionError, unknown_name
from aliquot.report.datasheet.questions import SheetQuestion, find_question, load_questions, select_questions

_MAX_SUMMARY = 60  # letters of an answer in a table
_SURROGATE = re.compile("[\ud800-\udfff]")
_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-"})


@dataclass(frozen=True)
class Answer:
    """One answer: the labels chosen, the text (for a choice: its details), and where aliquot took it from, if so."""

    text: str = ""
    chosen: tuple[str, ...] = ()
    source: str = ""

    @property
    def given(self) -> bool:
        """Whether there is anything in it."""
        return bool(self.text.strip() or self.chosen)


NOTHING = Answer()


@dataclass(frozen=True)
class Criterion:
    """One criterion that annotators judged: the name it has here, and its answers to section 4."""

    name: str
    answers: Mapping[str, Answer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", _require_encodable(self.name.strip(), "a criterion's name"))
        if not self.name:
            raise DataError("a criterion has no name; give it one")
        object.__setattr__(self, "answers", _sort_answers(self.answers, per_criterion=True))


@dataclass(frozen=True)
class Datasheet(Shown):
    """The answers to HEDS for one experiment.

    >>> sheet = Datasheet(criteria=(Criterion("fluency"),)).with_answer("3.2.1", 12)
    >>> sheet.answer("3.2.1").text, sheet.answer("4.3.1", "fluency").given
    ('12', False)
    >>> sheet
    Datasheet('datasheet': 1 of 45 questions answered, criteria: fluency)
    """

    # question number -> answer, for the questions about the experiment as a whole
    answers: Mapping[str, Answer] = field(default_factory=dict)
    criteria: tuple[Criterion, ...] = ()  # the criteria in order, each with its own answers
    signature: str = ""  # how the sheet was prefilled
    results: tuple[str, ...] = ()  # the signatures of the results it was prefilled from
    name: str = field(default="datasheet", compare=False)  # where it came from, for tables and messages
    notes: tuple[str, ...] = field(default=(), compare=False)  # what could not be filled in, and why; not saved

    def __post_init__(self) -> None:
        object.__setattr__(self, "answers", _sort_answers(self.answers, per_criterion=False))
        object.__setattr__(self, "criteria", tuple(self.criteria))
        names = self.criterion_names
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{self.name}: the criterion '{twice}' stands there twice; give them different names")

    __hash__ = None  # type: ignore[assignment]

    @property
    def criterion_names(self) -> tuple[str, ...]:
        """The names of the criteria."""
        return tuple(criterion.name for criterion in self.criteria)

    def criterion(self, name: str) -> Criterion:
        """Return a criterion by name, or raise with those there are."""
        for criterion in self.criteria:
            if criterion.name == name:
                return criterion
        raise unknown_name("criterion", name, self.criterion_names, f"see [[criterion]] in {self.name}")

    def answer(self, number: str, criterion: str | None = None) -> Answer:
        """Return the answer to a question, empty where there is none yet."""
        question = find_question(number)
        if question.per_criterion != (criterion is not None):
            raise OptionError(f"question {number} is asked " + _describe_place(question))
        answers = self.answers if criterion is None else self.criterion(criterion).answers
        return answers.get(number, NOTHING)

    def with_answer(
        self,
        number: str,
        value: str | float | Sequence[str],
        *,
        details: str = "",
        criterion: str | None = None,
        source: str = "",
    ) -> Datasheet:
        """Return the sheet with this answer: a text, a number, or the label(s) chosen with their details."""
        question = find_question(number)
        self.answer(number, criterion)  # raises where it is asked otherwise
        answer = make_answer(question, value, details, source)
        if criterion is None:
            return replace(self, answers={**self.answers, number: answer})
        changed = self.criterion(criterion)
        changed = replace(changed, answers={**changed.answers, number: answer})
        return replace(self, criteria=tuple(changed if old.name == criterion else old for old in self.criteria))

    def places(self) -> list[tuple[SheetQuestion, str | None]]:
        """Return every question with the criterion it is asked for, None for the whole experiment."""
        per = [question for question in load_questions().values() if question.per_criterion]
        before = [(question, None) for question in load_questions().values() if question.number < "4"]
        after = [(question, None) for question in load_questions().values() if question.number >= "5"]
        return [*before, *((question, name) for name in self.criterion_names for question in per), *after]

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the sheet as TOML for people to edit (or as .json); an existing file is kept unless `force`."""
        from aliquot.report.datasheet.files import save_sheet  # noqa: PLC0415  (files.py is built on this class)

        save_sheet(self, path, force=force)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, laid out as in the file."""
        from aliquot.report.datasheet.files import to_document  # noqa: PLC0415  (likewise)

        return to_document(self)

    def views(self) -> Sequence[View]:
        """Return the views `answers`, what aliquot filled in, and `status`."""
        from aliquot.report.datasheet.checking import check  # noqa: PLC0415  (checking.py is built on this class)

        rows = self.to_frame().filter(pl.col("source") != "").to_dicts()
        columns = (
            Column("question", lambda row: f"{row['question']} {row['title']}", "text"),
            *([Column("criterion", kind="name")] if any(row["criterion"] for row in rows) else []),
            Column("filled in", _summarise_answer, "text"),
            Column("from", "source", "text"),
        )
        result = check(self)
        criteria = ", ".join(self.criterion_names)
        status = f"{result.answered} of {result.questions} questions filled in; criteria: {criteria}"
        return (View("answers", rows, columns), View("status", intro=(status,)))

    def to_frame(self) -> pl.DataFrame:
        """Return one row per question (and criterion): number, criterion, title, answer, details, source."""
        rows = []
        for question, name in self.places():
            answer = self.answer(question.number, name)
            choice = bool(question.options)
            rows.append(
                (
                    question.number,
                    name,
                    question.title,
                    "; ".join(answer.chosen) if choice else answer.text,
                    answer.text if choice else "",
                    answer.source,
                )
            )
        columns = ("question", "criterion", "title", "answer", "details", "source")
        return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")

    def __repr__(self) -> str:
        from aliquot.report.datasheet.checking import check  # noqa: PLC0415  (checking.py is built on this class)

        status, criteria = check(self), ", ".join(self.criterion_names) or "none"
        answered = f"{status.answered} of {status.questions} questions answered"
        return f"Datasheet('{self.name}': {answered}, criteria: {criteria})"


def _summarise_answer(row: Mapping[str, str]) -> str:
    text = " ".join("; ".join(part for part in (row["answer"], row["details"]) if part).split())
    return text if len(text) <= _MAX_SUMMARY else f"{text[: _MAX_SUMMARY - 3]}..."


def list_changes(before: Datasheet, after: Datasheet, criterion: str) -> list[str]:
    """Return the numbers of a criterion's answers that differ between two states of a sheet."""
    old, new = before.criterion(criterion).answers, after.criterion(criterion).answers
    return [number for number, answer in new.items() if old.get(number) != answer]


def make_answer(
    question: SheetQuestion, value: str | float | Sequence[str], details: str = "", source: str = ""
) -> Answer:
    """Turn a value into an answer; labels are matched whatever their case, blanks and kind of quotation mark.

    A label that is no option is kept as it is: `check` names it and what may be meant.
    """
    if isinstance(value, bool):
        raise OptionError(f"question {question.number}: {value} is neither a text nor a label; write it as text")
    if not question.options:
        if details:
            raise OptionError(f"question {question.number} has no options and therefore no details; put all in one")
        text = str(value) if isinstance(value, str | int | float) else ", ".join(value)
        return Answer(_require_encodable(text, f"question {question.number}"), source=source)
    entries = [value] if isinstance(value, str) else [value] if isinstance(value, int | float) else list(value)
    labels = [_match_label(question, str(label)) for label in entries if str(label).strip()]
    where = f"question {question.number}"
    chosen = tuple(_require_encodable(label, where) for label in dict.fromkeys(labels))
    return Answer(_require_encodable(details, where), chosen, source)


def _match_label(question: SheetQuestion, label: str) -> str:
    by_fold = {_fold_label(option): option for option in question.labels}
    return by_fold.get(_fold_label(label), label)


def _fold_label(label: str) -> str:
    return " ".join(label.translate(_QUOTES).casefold().split())


def _require_encodable(text: str, where: str) -> str:
    match = _SURROGATE.search(text)
    if match:
        raise DataError(f"{where}: the character {match.group()!r} is half of one and cannot be written; remove it")
    return text


def _sort_answers(answers: Mapping[str, Answer], *, per_criterion: bool) -> Mapping[str, Answer]:
    for number in answers:
        question = find_question(number)
        if question.per_criterion != per_criterion:
            raise OptionError(f"question {number} is asked " + _describe_place(question))
    in_order = {number: answers[number] for number in load_questions() if number in answers}
    return MappingProxyType({number: answer for number, answer in in_order.items() if answer != NOTHING})


def _describe_place(question: SheetQuestion) -> str:
    return "for each criterion; name one" if question.per_criterion else "once, not for a criterion; name none"


def copy(
    sheet: Datasheet,
    source: str,
    targets: str | Sequence[str] | None = None,
    *,
    questions: Sequence[str] | None = None,
    overwrite: bool = False,
) -> Datasheet:
    """Copy answers of one criterion to others, which are often judged in the same way.

    Args:
        sheet: the datasheet.
        source: the criterion to copy from.
        targets: the criteria to copy to; all others when not given.
        questions: numbers or parts ("4.2", "4.3.5"); by default all but those that belong to one criterion alone:
            what is judged (4.1), its name, definition and question (4.3.1, 4.3.2, 4.3.7), and agreement (4.3.11).
        overwrite: replace answers that are there; otherwise only empty ones are filled.

    >>> sheet = Datasheet(criteria=(Criterion("fluency"), Criterion("coherence")))
    >>> sheet = sheet.with_answer("4.3.3", 5, criterion="fluency")
    >>> copy(sheet, "fluency").answer("4.3.3", "coherence").text
    '5'
    """
    giver = sheet.criterion(source)
    names = [targets] if isinstance(targets, str) else targets
    takers = [name for name in sheet.criterion_names if name != source] if names is None else list(names)
    for name in takers:
        sheet.criterion(name)
        if name == source:
            raise OptionError(f"'{source}' cannot be copied to itself; name other criteria")
    numbers = _numbers_to_copy(questions)
    copies = {number: answer for number, answer in giver.answers.items() if number in numbers and answer.given}

    def copy_answers(criterion: Criterion) -> Criterion:
        if criterion.name not in takers:
            return criterion
        present = {number: answer for number, answer in criterion.answers.items() if answer.given}
        merged = {**present, **copies} if overwrite else {**copies, **present}
        return replace(criterion, answers=merged)

    return replace(sheet, criteria=tuple(copy_answers(criterion) for criterion in sheet.criteria))


def _numbers_to_copy(questions: Sequence[str] | None) -> set[str]:
    if questions is None:
        return {question.number for question in select_questions(("4",)) if not question.own}
    chosen = select_questions(tuple([questions] if isinstance(questions, str) else questions))
    outside = next((question for question in chosen if not question.per_criterion), None)
    if outside is not None:
        raise OptionError(f"question {outside.number} is not about a criterion; only those of section 4 can be copied")
    return {question.number for question in chosen}


def make_blank_sheet(criteria: Sequence[str] = (), **fields: Any) -> Datasheet:
    """Return a sheet without answers, for these criteria.

    >>> make_blank_sheet(["fluency", "coherence"]).criterion_names
    ('fluency', 'coherence')
    """
    return Datasheet(criteria=tuple(Criterion(name) for name in criteria), **fields)
