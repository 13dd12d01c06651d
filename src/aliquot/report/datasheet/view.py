"""A datasheet as a reader meets it, whatever the format: parts with entries, each with what is to be shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aliquot.report.datasheet.checking import check, is_needed
from aliquot.report.datasheet.questions import Question, Section, sections
from aliquot.report.datasheet.sheet import Datasheet

TITLE = "Human Evaluation Datasheet (HEDS 2.0)"
NOT_ANSWERED, NOT_NEEDED = "not answered", "not needed"
URL = re.compile(r"https?://[^\s<>\"'{}|\\^`\x00-\x20\x7f]+[^\s<>\"'{}|\\^`.,;:!?)\]\x00-\x20\x7f]")


@dataclass(frozen=True)
class Choice:
    """An option with its mark."""

    label: str
    chosen: bool


@dataclass(frozen=True)
class Entry:
    """A question with its answer: options to show, paragraphs of lines, and a remark where there is no answer."""

    number: str
    title: str
    ask: str
    choices: tuple[Choice, ...]
    paragraphs: tuple[tuple[str, ...], ...]
    remark: str
    source: str


@dataclass(frozen=True)
class Group:
    """Entries under one heading (empty where a part has no smaller ones)."""

    number: str
    title: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Part:
    """A section of the sheet, for a criterion where it is asked for each."""

    number: str
    title: str
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class View:
    """The whole sheet, ready to be written down."""

    name: str
    status: str
    parts: tuple[Part, ...]
    signatures: tuple[str, ...]


def view(sheet: Datasheet, *, full: bool = False) -> View:
    """Lay a sheet out for readers; `full` shows the options that were not chosen, too."""
    found = check(sheet)
    status = f"{found.answered} of {found.questions} questions answered"
    return View(
        name=sheet.name,
        status=status + ("." if found.complete else "; not complete."),
        parts=tuple(_parts(sheet, full)),
        signatures=tuple(text for text in (sheet.signature, *sheet.results) if text),
    )


def _parts(sheet: Datasheet, full: bool) -> Iterator[Part]:
    for section in sections():
        names: Sequence[str | None] = sheet.criterion_names if section.per_criterion else (None,)
        for name in names:
            title = section.title if name is None else f"{section.title}: {one_line(name)}"
            yield Part(section.number, title, tuple(_groups(sheet, section, name, full)))


def _groups(sheet: Datasheet, section: Section, name: str | None, full: bool) -> Iterator[Group]:
    for number, title in section.subsections.items() or (("", ""),):
        asked = [question for question in section.questions if question.number.startswith(number)]
        yield Group(number, title, tuple(_entry(sheet, question, name, full) for question in asked))


def _entry(sheet: Datasheet, question: Question, name: str | None, full: bool) -> Entry:
    answer = sheet.answer(question.number, name)
    choices = [Choice(label, label in answer.chosen) for label in question.labels]
    choices += [
        Choice(f"{label} (not an option of HEDS)", True) for label in answer.chosen if label not in question.labels
    ]
    remark = ""
    if not answer.chosen if question.options else not answer.text.strip():
        remark = NOT_ANSWERED if is_needed(sheet, question.number) else NOT_NEEDED
    return Entry(
        question.number, question.title, question.ask,
        choices=tuple(choice for choice in choices if full or choice.chosen),
        paragraphs=paragraphs(answer.text), remark=remark, source=answer.source if answer.given else "",
    )  # fmt: skip


def paragraphs(text: str) -> tuple[tuple[str, ...], ...]:
    r"""Part a text at empty lines into paragraphs, each a tuple of its lines, without blanks at their ends.

    >>> paragraphs("one\n two\n\n\nthree")
    (('one', 'two'), ('three',))
    """
    lines = [line.strip() for line in re.sub(r"\r\n?", "\n", text).split("\n")]
    blocks = re.split(r"\n{2,}", "\n".join(lines).strip("\n"))
    return tuple(tuple(block.split("\n")) for block in blocks if block.strip())


def one_line(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


def split_links(text: str) -> list[tuple[str, bool]]:
    """Part a text into what is a web address and what is not.

    >>> split_links("see https://a.org/x_y.")
    [('see ', False), ('https://a.org/x_y', True), ('.', False)]
    """
    pieces: list[tuple[str, bool]] = []
    at = 0
    for found in URL.finditer(text):
        pieces += [(text[at : found.start()], False), (found.group(), True)]
        at = found.end()
    return [piece for piece in (*pieces, (text[at:], False)) if piece[0]]
