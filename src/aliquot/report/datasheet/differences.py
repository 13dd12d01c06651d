"""`diff`: where two datasheets differ, question by question: an original and its reproduction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import polars as pl

from aliquot.core.shown import Shown
from aliquot.core.view import Column, View
from aliquot.errors import OptionError
from aliquot.report.datasheet.forms import match_special_value
from aliquot.report.datasheet.questions import SheetQuestion
from aliquot.report.datasheet.sheet import NOTHING, Answer, Datasheet

State = Literal["same", "changed", "only in original", "only in reproduction", "open"]
SAME, CHANGED, ONLY_ORIGINAL, ONLY_REPRODUCTION, OPEN = STATES = get_args(State)
_MARKS: Mapping[str, str] = {SAME: "=", CHANGED: "~", ONLY_ORIGINAL: "-", ONLY_REPRODUCTION: "+"}


@dataclass(frozen=True)
class Difference:
    """One question in both sheets, with the answers as text; `state` says how they compare.

    States: "same", "changed", "only in original", "only in reproduction", "open" (answered in neither).
    """

    question: str
    criterion: str | None
    title: str
    state: State
    original: str
    reproduction: str


@dataclass(frozen=True)
class SheetDiff(Shown):
    """Two sheets side by side, every question in order."""

    rows: tuple[Difference, ...]
    original: str
    reproduction: str

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The questions that are answered differently, or in one sheet only."""
        return tuple(row for row in self.rows if row.state not in (SAME, OPEN))

    def count(self, state: State) -> int:
        """Count the questions of a state."""
        return sum(row.state == state for row in self.rows)

    def views(self) -> Sequence[View]:
        """Return the views `differences` and `summary`, and as a detail `answers`: all questions that are answered."""
        return (
            self._make_view("differences", self.differences),
            self._make_view("answers", [row for row in self.rows if row.state != OPEN], detail=True),
            View("summary", intro=(self.summary,)),
        )

    def _make_view(self, name: str, rows: Sequence[Difference], *, detail: bool = False) -> View:
        columns = (
            Column("question", lambda row: f"{_MARKS[row.state]} {row.question} {row.title}", "text"),
            *([Column("criterion", kind="name")] if any(row.criterion for row in rows) else []),
            Column(f"original ({self.original})", "original", "text"),
            Column(f"reproduction ({self.reproduction})", "reproduction", "text"),
        )
        return View(name, rows, columns, detail=detail)

    @property
    def summary(self) -> str:
        """How many questions are answered alike, changed, or in one sheet only."""
        return (
            f"{self.count(SAME)} alike, {self.count(CHANGED)} changed (~), {self.count(ONLY_ORIGINAL)} only in the "
            f"original (-), {self.count(ONLY_REPRODUCTION)} only in the reproduction (+), {self.count(OPEN)} open"
        )

    def to_frame(self) -> pl.DataFrame:
        """Return one row per question (and criterion)."""
        columns = dict.fromkeys(Difference.__dataclass_fields__, pl.String)
        return pl.DataFrame([vars(row) for row in self.rows], schema=columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document of `datasheet diff --json`."""
        return {
            "original": self.original,
            "reproduction": self.reproduction,
            "counts": {state: self.count(state) for state in STATES},
            "questions": [vars(row) for row in self.rows],
        }


def diff(original: Datasheet, reproduction: Datasheet, *, match: Mapping[str, str] | None = None) -> SheetDiff:
    """Compare two datasheets, such as an original's and its reproduction's.

    Answers are the same when they choose the same options and their texts differ in nothing but blanks.

    Args:
        original: the one sheet.
        reproduction: the other.
        match: criteria that go by another name in the reproduction: original name -> its name there.

    >>> from aliquot.report.datasheet.sheet import make_blank_sheet
    >>> old, new = make_blank_sheet().with_answer("3.2.1", 10), make_blank_sheet().with_answer("3.2.1", 12)
    >>> [(row.question, row.original, row.reproduction) for row in diff(old, new).differences]
    [('3.2.1', '10', '12')]
    """
    partner = _match_criteria(original, reproduction, dict(match or {}))
    matched = set(partner.values())
    rows = [
        _compare_answers(
            question,
            name,
            original.answer(question.number, name),
            _find_partner_answer(reproduction, question.number, name, partner),
        )
        for question, name in original.places()
    ]
    extra = [
        _compare_answers(question, name, NOTHING, reproduction.answer(question.number, name))
        for question, name in reproduction.places()
        if name is not None and name not in matched
    ]
    end = next((end for end, row in enumerate(rows) if row.question.startswith("5")), len(rows))
    return SheetDiff((*rows[:end], *extra, *rows[end:]), original.name, reproduction.name)


def _match_criteria(original: Datasheet, reproduction: Datasheet, match: dict[str, str]) -> dict[str, str]:
    """Return the criterion of the reproduction that each of the original's is: named, or of the same name."""
    for name, partner in match.items():
        original.criterion(name)
        reproduction.criterion(partner)
    if len(set(match.values())) < len(match):
        raise OptionError(f"match {match}: two criteria cannot be the same one in the reproduction")
    by_fold = {name.casefold(): name for name in reproduction.criterion_names if name not in match.values()}
    same_names = {
        name: by_fold[name.casefold()]
        for name in original.criterion_names
        if name not in match and name.casefold() in by_fold
    }
    return same_names | match


def _find_partner_answer(sheet: Datasheet, number: str, name: str | None, partner: Mapping[str, str]) -> Answer:
    if name is None:
        return sheet.answer(number)
    return sheet.answer(number, partner[name]) if name in partner else NOTHING


def _compare_answers(question: SheetQuestion, name: str | None, old: Answer, new: Answer) -> Difference:
    state: State
    if not old.given and not new.given:
        state = OPEN
    elif not new.given or not old.given:
        state = ONLY_ORIGINAL if old.given else ONLY_REPRODUCTION
    else:
        state = SAME if _normalise_answer(question, old) == _normalise_answer(question, new) else CHANGED
    texts = (_write_answer(question, answer) for answer in (old, new))
    return Difference(question.number, name, question.title, state, *texts)


def _normalise_answer(question: SheetQuestion, answer: Answer) -> tuple[frozenset[str], str]:
    special = match_special_value(question, answer.text)
    return frozenset(answer.chosen), special or " ".join(answer.text.split())


def _write_answer(question: SheetQuestion, answer: Answer) -> str:
    if not question.options:
        return answer.text.strip()
    return "\n".join([*(f"[x] {label}" for label in answer.chosen), *([answer.text.strip()] if answer.text else [])])
