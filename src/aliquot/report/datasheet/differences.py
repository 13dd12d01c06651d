"""`diff`: where two datasheets differ, question by question: an original and its reproduction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from aliquot.errors import OptionError
from aliquot.report.datasheet.forms import special_value
from aliquot.report.datasheet.questions import Question
from aliquot.report.datasheet.sheet import NOTHING, Answer, Datasheet

SAME, CHANGED, ONLY_ORIGINAL, ONLY_REPRODUCTION, OPEN = (
    "same",
    "changed",
    "only in original",
    "only in reproduction",
    "open",
)


@dataclass(frozen=True)
class Difference:
    """One question in both sheets, with the answers as text; `state` says how they compare.

    States: "same", "changed", "only in original", "only in reproduction", "open" (answered in neither).
    """

    question: str
    criterion: str | None
    title: str
    state: str
    original: str
    reproduction: str


@dataclass(frozen=True)
class SheetDiff:
    """Two sheets side by side, every question in order."""

    rows: tuple[Difference, ...]
    original: str
    reproduction: str

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The questions that are answered differently, or in one sheet only."""
        return tuple(row for row in self.rows if row.state not in (SAME, OPEN))

    def count(self, state: str) -> int:
        """Count the questions of a state."""
        return sum(row.state == state for row in self.rows)

    def to_frame(self) -> pl.DataFrame:
        """One row per question (and criterion)."""
        columns = dict.fromkeys(Difference.__dataclass_fields__, pl.String)
        return pl.DataFrame([vars(row) for row in self.rows], schema=columns)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `datasheet diff --json`."""
        return {
            "original": self.original,
            "reproduction": self.reproduction,
            "counts": {state: self.count(state) for state in (SAME, CHANGED, ONLY_ORIGINAL, ONLY_REPRODUCTION, OPEN)},
            "questions": [vars(row) for row in self.rows],
        }


def diff(original: Datasheet, reproduction: Datasheet, *, match: Mapping[str, str] | None = None) -> SheetDiff:
    """Compare two datasheets, such as an original's and its reproduction's.

    Answers are the same when they choose the same options and their texts differ in nothing but blanks.

    Args:
        original: the one sheet.
        reproduction: the other.
        match: criteria that go by another name in the reproduction: original name -> its name there.

    >>> from aliquot.report.datasheet.sheet import blank
    >>> old, new = blank().with_answer("3.2.1", 10), blank().with_answer("3.2.1", 12)
    >>> [(row.question, row.original, row.reproduction) for row in diff(old, new).differences]
    [('3.2.1', '10', '12')]
    """
    partner = _partners(original, reproduction, dict(match or {}))
    taken = set(partner.values())
    rows = [
        _row(
            question,
            name,
            original.answer(question.number, name),
            _answer(reproduction, question.number, name, partner),
        )
        for question, name in original.places()
    ]
    extra = [
        _row(question, name, NOTHING, reproduction.answer(question.number, name))
        for question, name in reproduction.places()
        if name is not None and name not in taken
    ]
    at = next((at for at, row in enumerate(rows) if row.question.startswith("5")), len(rows))
    return SheetDiff((*rows[:at], *extra, *rows[at:]), original.name, reproduction.name)


def _partners(original: Datasheet, reproduction: Datasheet, match: dict[str, str]) -> dict[str, str]:
    """Return the criterion of the reproduction that each of the original's is: named, or of the same name."""
    for name, other in match.items():
        original.criterion(name)
        reproduction.criterion(other)
    if len(set(match.values())) < len(match):
        raise OptionError(f"match {match}: two criteria cannot be the same one in the reproduction")
    by_fold = {name.casefold(): name for name in reproduction.criterion_names if name not in match.values()}
    found = {
        name: by_fold[name.casefold()]
        for name in original.criterion_names
        if name not in match and name.casefold() in by_fold
    }
    return found | match


def _answer(sheet: Datasheet, number: str, name: str | None, partner: Mapping[str, str]) -> Answer:
    if name is None:
        return sheet.answer(number)
    return sheet.answer(number, partner[name]) if name in partner else NOTHING


def _row(question: Question, name: str | None, old: Answer, new: Answer) -> Difference:
    if not old.given and not new.given:
        state = OPEN
    elif not new.given or not old.given:
        state = ONLY_ORIGINAL if old.given else ONLY_REPRODUCTION
    else:
        state = SAME if _content(question, old) == _content(question, new) else CHANGED
    return Difference(question.number, name, question.title, state, _text(question, old), _text(question, new))


def _content(question: Question, answer: Answer) -> tuple[frozenset[str], str]:
    special = special_value(question, answer.text)
    return frozenset(answer.chosen), special or " ".join(answer.text.split())


def _text(question: Question, answer: Answer) -> str:
    if not question.options:
        return answer.text.strip()
    return "\n".join([*(f"[x] {label}" for label in answer.chosen), *([answer.text.strip()] if answer.text else [])])
