"""Datasheets written for people: TOML with the questions as comments, or JSON of the same layout.

One table for each section ([paper], [system], [experiment], [ethics]), one [[criterion]] for each criterion; in them
`"3.1.1" = "..."`, for a choice `"3.1.2" = ["label", ...]` and `"3.1.2 details" = "..."`. `"3.1.1 from" = "..."` says
that aliquot filled it in. Invariant: what is written is read back as it was, whatever the texts hold.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from aliquot.errors import OptionError, OutputError
from aliquot.io.files import write_bytes
from aliquot.report.datasheet.questions import CRITERION, VERSION, Question, Section, sections
from aliquot.report.datasheet.sheet import NOTHING, Answer, Datasheet

SHEET = "sheet"
DETAILS, FROM = " details", " from"
_WIDTH = 110

_HEAD = f"""\
# Human Evaluation Datasheet, HEDS {VERSION}: questions in aliquot's words, numbers and options as in HEDS.
#
# Text:    write between the quotes; for several lines use three: \"\"\"...\"\"\"
# Options: take away the # in front of what applies; explain in "... details".
# What aliquot filled in says where it comes from ("... from"). Check it; if you change it, delete that line.
# Then:    aliquot datasheet check THIS_FILE      what is missing or does not fit
#          aliquot datasheet render THIS_FILE     Markdown, LaTeX, HTML
"""


def save(sheet: Datasheet, path: str | Path, *, force: bool = False) -> None:
    """Write a sheet as TOML, or as JSON by its ending; an existing file is only replaced with `force`."""
    path = Path(path)
    if path.suffix not in (".toml", ".json"):
        raise OptionError(f"{path}: a datasheet is written as .toml (for people) or .json; choose one of these endings")
    if path.exists() and not force:
        raise OutputError(
            f"{path}: is there already and may hold answers; choose another name, or replace it (--force)"
        )
    if path.suffix == ".json":
        write_bytes(path, msgspec.json.format(msgspec.json.encode(to_document(sheet)), indent=2) + b"\n")
    else:
        write_bytes(path, to_toml(sheet).encode())


def to_document(sheet: Datasheet) -> dict[str, Any]:
    """Return the sheet as plain values in the layout of the file; unanswered questions are left out."""
    document: dict[str, Any] = {SHEET: _about(sheet)}
    for section in sections():
        if section.per_criterion:
            document[CRITERION] = [{"name": c.name} | _entries(section, c.answers) for c in sheet.criteria]
        else:
            document[section.key] = _entries(section, sheet.answers)
    return document


def _about(sheet: Datasheet) -> dict[str, Any]:
    about: dict[str, Any] = {"heds": VERSION}
    if sheet.signature:
        about["signature"] = sheet.signature
    if sheet.results:
        about["results"] = list(sheet.results)
    return about


def _entries(section: Section, answers: Mapping[str, Answer]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for question in section.questions:
        answer = answers.get(question.number)
        if answer is not None:
            entries |= dict(_values(question, answer))
    return entries


def _values(question: Question, answer: Answer) -> Iterator[tuple[str, str | list[str]]]:
    number = question.number
    yield number, list(answer.chosen) if question.options else answer.text
    if question.options and answer.text:
        yield number + DETAILS, answer.text
    if answer.source:
        yield number + FROM, answer.source


def to_toml(sheet: Datasheet) -> str:
    """Return the sheet as TOML with every question, answered or not, and its options as comments.

    >>> print(to_toml(Datasheet(answers={"3.2.1": Answer("12")})).split("# 3.2.1")[1].split("# 3.2.2")[0].rstrip())
     Number of annotators: How many annotators took part?
    #       A whole number: all of them together.
    "3.2.1" = "12"
    """
    parts = [_HEAD, f"[{SHEET}]"]
    parts += [f"{key} = {_toml_value(value)}" for key, value in _about(sheet).items()]
    for section in sections():
        if not section.per_criterion:
            parts += ["", "", *_section_head(section, section.title), f"[{section.key}]"]
            parts += _section_lines(section, sheet.answers)
            continue
        for criterion in sheet.criteria:
            title = " ".join(f"{section.title} {criterion.name}".split())
            parts += ["", "", *_section_head(section, title), f"[[{section.key}]]"]
            parts += [f"name = {_toml_value(criterion.name)}", *_section_lines(section, criterion.answers)]
    return "\n".join(parts) + "\n"


def _section_head(section: Section, title: str) -> list[str]:
    rule = "# " + "=" * (_WIDTH - 2)
    lines = [rule, _comment(f"{section.number} {title}")]
    return [*lines, _comment(section.note), rule] if section.note else [*lines, rule]


def _section_lines(section: Section, answers: Mapping[str, Answer]) -> Iterator[str]:
    for question in section.questions:
        answer = answers.get(question.number, NOTHING)
        yield ""
        yield from _wrapped(f"{question.number} {question.title}: {question.ask}", len(question.number) + 1)
        indent = " " * (len(question.number) + 1)
        yield from _wrapped(indent + _how_to(question), len(indent))
        if question.options:
            yield from _option_lines(question, answer)
        else:
            yield f'"{question.number}" = {_toml_value(answer.text)}'
        if answer.source:
            yield f'"{question.number}{FROM}" = {_toml_value(answer.source)}'


def _how_to(question: Question) -> str:
    how = {"one": "Choose one. ", "several": "Choose all that apply. "}.get(question.kind, "")
    return (how + question.help).strip()


def _option_lines(question: Question, answer: Answer) -> Iterator[str]:
    yield f'"{question.number}" = ['
    for option in question.options:
        mark = "  " if option.label in answer.chosen else "# "
        help_text = f"  # {option.help}" if option.help else ""
        yield f"{mark}{_toml_value(option.label)},{help_text}"
    for label in answer.chosen:
        if question.option(label) is None:
            yield f"  {_toml_value(label)},"
    yield "]"
    yield f'"{question.number}{DETAILS}" = {_toml_value(answer.text)}'


def _wrapped(text: str, indent: int) -> list[str]:
    lines = textwrap.wrap(text, _WIDTH - 2, subsequent_indent=" " * indent, break_long_words=False)
    return [_comment(line) for line in lines]


def _comment(text: str) -> str:
    return f"# {''.join(character for character in text if character.isprintable())}"


def _toml_value(value: str | list[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml_value(entry) for entry in value)}]"
    if "\n" in value:
        return f'"""\n{_escaped(value, several_lines=True)}"""'
    return f'"{_escaped(value, several_lines=False)}"'


def _escaped(text: str, *, several_lines: bool) -> str:
    text = text.replace("\\", "\\\\")
    # Between three quotes one or two may stand as they are, even last (TOML 1.0): only a third would end the string.
    text = text.replace('"""', '""\\"') if several_lines else text.replace('"', '\\"')
    allowed = "\n\t" if several_lines else "\t"
    return "".join(c if c in allowed or (c >= " " and c != "\x7f") else f"\\u{ord(c):04X}" for c in text)
