"""The questions of the Human Evaluation Datasheet, HEDS 2.0: numbers, options and rules as data (questions.toml).

Invariant: numbers are unique, every question with options has labels that differ, and the order is that of the sheet.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

from aliquot.errors import NameUnknownError, closest, quoted

VERSION = "2.0"
CRITERION = "criterion"
"""The section that is repeated for each criterion."""


@dataclass(frozen=True)
class Option:
    """One label to choose, with the properties that the rules use."""

    label: str
    help: str = ""
    other: bool = False
    exclusive: bool = False
    pair: str | None = None
    input: tuple[str, ...] = ()
    output_not_text: bool = False


@dataclass(frozen=True)
class SheetQuestion:
    """One question: its number, our wording, and what an answer must look like."""

    number: str
    title: str
    official: str  # the title of this number in HEDS
    ask: str
    help: str
    kind: Literal["text", "one", "several"]
    section: str
    form: str = ""
    special: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    details: str = ""
    expected: int | None = None
    own: bool = False

    @property
    def in_heds(self) -> str:
        """Where it is in the official form.

        >>> load_questions()["3.1.1"].in_heds
        'HEDS 2.0, question 3.1.1: Number of items per system'
        """
        return f"HEDS {VERSION}, question {self.number}: {self.official}"

    @property
    def per_criterion(self) -> bool:
        """Whether it is asked once for each criterion."""
        return self.section == CRITERION

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its options."""
        return tuple(option.label for option in self.options)

    def find_option(self, label: str) -> Option | None:
        """Return the option of this label, or None."""
        return next((option for option in self.options if option.label == label), None)


@dataclass(frozen=True)
class SheetSection:
    """A part of the sheet."""

    key: str
    number: str
    title: str
    questions: tuple[SheetQuestion, ...]
    note: str = ""
    subsections: Mapping[str, str] = field(default_factory=dict)

    @property
    def per_criterion(self) -> bool:
        """Whether it is filled in once for each criterion."""
        return self.key == CRITERION


@cache
def load_sections() -> tuple[SheetSection, ...]:
    """Return the parts of the sheet in order.

    >>> [(section.number, section.title, len(section.questions)) for section in load_sections()][:2]
    [('1', 'Paper and resources', 3), ('2', 'Evaluated systems', 5)]
    """
    document = tomllib.loads(files("aliquot.report.datasheet").joinpath("questions.toml").read_text(encoding="utf-8"))
    for section in document["sections"]:
        for question in section["questions"]:
            question["section"] = section["key"]
    return msgspec.convert(document["sections"], tuple[SheetSection, ...])


@cache
def load_questions() -> Mapping[str, SheetQuestion]:
    """Return all questions by number, in the order of the sheet.

    >>> len(load_questions()), load_questions()["3.2.1"].ask
    (45, 'How many annotators took part?')
    """
    return {question.number: question for section in load_sections() for question in section.questions}


def find_question(number: str) -> SheetQuestion:
    """Return a question by its number, or raise with the nearest there is.

    >>> find_question("3.2.9")
    Traceback (most recent call last):
        ...
    aliquot.errors.NameUnknownError: unknown question '3.2.9' in HEDS 2.0; did you mean '3.2.5'? 3.2 has: '3.2.1', ...
    """
    questions = load_questions()
    if number in questions:
        return questions[number]
    raise unknown_question(number)


def unknown_question(number: str) -> NameUnknownError:
    """Build the error for a number that is not there: what is nearest, and what its part of the sheet has."""
    part = number.strip().rpartition(".")[0]
    within = [name for name in load_questions() if part and name.startswith(f"{part}.")]
    guess = within[-1] if within else closest(number, load_questions())
    hint = f" did you mean '{guess}'?" if guess else ""
    available = f" {part} has: {', '.join(map(repr, within))}" if within else " numbers go from '1.1' to '5.4'"
    return NameUnknownError(f"unknown question '{number}' in HEDS {VERSION};{hint}{available}")


def select_questions(prefixes: tuple[str, ...]) -> tuple[SheetQuestion, ...]:
    """Return the questions with one of these numbers or in one of these parts, in order.

    >>> [question.number for question in select_questions(("4.2", "4.3.5"))]
    ['4.2.1', '4.2.2', '4.2.3', '4.3.5']
    """
    chosen: dict[str, SheetQuestion] = {}
    for prefix in prefixes:
        matches = {n: q for n, q in load_questions().items() if n == prefix or n.startswith(f"{prefix.rstrip('.')}.")}
        if not matches:
            raise unknown_question(prefix)
        chosen |= matches
    return tuple(question for question in load_questions().values() if question.number in chosen)


def unknown_option(question: SheetQuestion, label: str) -> NameUnknownError:
    """Build the error for a label that is not among a question's options.

    >>> print(unknown_option(load_questions()["3.2.2"], "paid"))
    unknown option 'paid' of question 3.2.2; did you mean 'paid (including non-monetary compensation such as course ...
    """
    folded = label.casefold().strip()
    # The start of a label first: by its letters, 'paid' is nearest to 'not paid'.
    starts = [option for option in question.labels if folded and option.casefold().startswith(folded)]
    guess = starts[0] if starts else closest(label, question.labels)
    remedy = f"did you mean '{guess}'?" if guess else f"available: {quoted(question.labels)}"
    return NameUnknownError(f"unknown option '{label}' of question {question.number}; {remedy}")
