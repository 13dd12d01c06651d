"""Datasheets as files: TOML with the questions as comments for people to edit, or JSON or YAML of the same layout.

One table for each section ([paper], [system], [experiment], [ethics]), one [[criterion]] for each criterion; in them
`"3.1.1" = "..."`, for a choice `"3.1.2" = ["label", ...]` and `"3.1.2 details" = "..."`. `"3.1.1 from" = "..."` says
that aliquot filled it in. Invariant: what is written is read back as it was, whatever the texts hold. Errors of reading
name the file and the line.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from aliquot.errors import AliquotError, FormatError, MissingExtraError, OptionError, OutputError, unknown_name
from aliquot.io.files import decode_json, decode_text, read_bytes
from aliquot.io.writing import resolve_ending, write_bytes
from aliquot.report.datasheet.questions import (
    CRITERION,
    VERSION,
    SheetQuestion,
    SheetSection,
    find_question,
    load_questions,
    load_sections,
)
from aliquot.report.datasheet.sheet import NOTHING, Answer, Criterion, Datasheet, make_answer

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


def save_sheet(sheet: Datasheet, path: str | Path, *, force: bool = False) -> None:
    """Write a sheet as TOML, or as JSON by its ending; an existing file is only replaced with `force`."""
    path = Path(path)
    ending = Path(resolve_ending(path, "sheet.toml")).suffix
    if ending not in (".toml", ".json"):
        raise OptionError(f"{path}: a datasheet is written as .toml (for people) or .json; choose one of these endings")
    if path.is_file() and not force:
        raise OutputError(
            f"{path}: is there already and may hold answers; choose another name, or replace it (`force`)"
        )
    if ending == ".json":
        write_bytes(path, msgspec.json.format(msgspec.json.encode(to_document(sheet)), indent=2) + b"\n")
    else:
        write_bytes(path, to_toml(sheet).encode())


def to_document(sheet: Datasheet) -> dict[str, Any]:
    """Return the sheet as plain values in the layout of the file; unanswered questions are left out."""
    document: dict[str, Any] = {SHEET: _list_sheet_fields(sheet)}
    for section in load_sections():
        if section.per_criterion:
            document[CRITERION] = [{"name": c.name} | _list_entries(section, c.answers) for c in sheet.criteria]
        else:
            document[section.key] = _list_entries(section, sheet.answers)
    return document


def _list_sheet_fields(sheet: Datasheet) -> dict[str, Any]:
    about = {"heds": VERSION, "signature": sheet.signature, "results": list(sheet.results)}
    return {key: value for key, value in about.items() if value}


def _list_entries(section: SheetSection, answers: Mapping[str, Answer]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for question in section.questions:
        number, answer = question.number, answers.get(question.number, NOTHING)
        if number in answers:
            entries[number] = list(answer.chosen) if question.options else answer.text
        if question.options and answer.text:
            entries[number + DETAILS] = answer.text
        if answer.source:
            entries[number + FROM] = answer.source
    return entries


def to_toml(sheet: Datasheet) -> str:
    """Return the sheet as TOML with every question, answered or not, and its options as comments.

    >>> print(to_toml(Datasheet(answers={"3.2.1": Answer("12")})).split("# 3.2.1")[1].split("# 3.2.2")[0].rstrip())
     Number of annotators: How many annotators took part?
    #       [HEDS 2.0, question 3.2.1: Number of evaluators]
    #       A whole number: all of them together.
    "3.2.1" = "12"
    """
    parts = [_HEAD, f"[{SHEET}]"]
    parts += [f"{key} = {_toml_value(value)}" for key, value in _list_sheet_fields(sheet).items()]
    for section in load_sections():
        if not section.per_criterion:
            parts += ["", "", *_section_head(section, section.title), f"[{section.key}]"]
            parts += _section_lines(section, sheet.answers)
            continue
        for criterion in sheet.criteria:
            title = " ".join(f"{section.title} {criterion.name}".split())
            parts += ["", "", *_section_head(section, title), f"[[{section.key}]]"]
            parts += [f"name = {_toml_value(criterion.name)}", *_section_lines(section, criterion.answers)]
    return "\n".join(parts) + "\n"


def _section_head(section: SheetSection, title: str) -> list[str]:
    rule = "# " + "=" * (_WIDTH - 2)
    texts = [f"{section.number} {title}", *([section.note] if section.note else [])]
    return [rule, *map(_comment_out, texts), rule]


def _section_lines(section: SheetSection, answers: Mapping[str, Answer]) -> Iterator[str]:
    for question in section.questions:
        answer = answers.get(question.number, NOTHING)
        yield ""
        indent = " " * (len(question.number) + 1)
        how = {"one": "Choose one. ", "several": "Choose all that apply. "}.get(question.kind, "")
        for text in (
            f"{question.number} {question.title}: {question.ask}",
            f"{indent}[{question.in_heds}]",
            indent + (how + question.help).strip(),
        ):
            wrapped = textwrap.wrap(text, _WIDTH - 2, subsequent_indent=indent, break_long_words=False)
            yield from (_comment_out(line) for line in wrapped)
        if question.options:
            yield from _option_lines(question, answer)
        else:
            yield f'"{question.number}" = {_toml_value(answer.text)}'
        if answer.source:
            yield f'"{question.number}{FROM}" = {_toml_value(answer.source)}'


def _option_lines(question: SheetQuestion, answer: Answer) -> Iterator[str]:
    yield f'"{question.number}" = ['
    for option in question.options:
        mark = "  " if option.label in answer.chosen else "# "
        help_text = f"  # {option.help}" if option.help else ""
        yield f"{mark}{_toml_value(option.label)},{help_text}"
    for label in answer.chosen:
        if question.find_option(label) is None:
            yield f"  {_toml_value(label)},"
    yield "]"
    yield f'"{question.number}{DETAILS}" = {_toml_value(answer.text)}'


def _comment_out(text: str) -> str:
    return f"# {''.join(character for character in text if character.isprintable())}"


def _toml_value(value: str | list[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml_value(entry) for entry in value)}]"
    if "\n" in value:
        return f'"""\n{_escape_toml(value, several_lines=True)}"""'
    return f'"{_escape_toml(value, several_lines=False)}"'


def _escape_toml(text: str, *, several_lines: bool) -> str:
    text = text.replace("\\", "\\\\")
    # Between three quotes one or two may stand as they are, even last (TOML 1.0): only a third would end the string.
    text = text.replace('"""', '""\\"') if several_lines else text.replace('"', '\\"')
    allowed = "\n\t" if several_lines else "\t"
    return "".join(c if c in allowed or (c >= " " and c != "\x7f") else f"\\u{ord(c):04X}" for c in text)


# -- Reading ---------------------------------------------------------------------------------------------------------


def load(path: str | Path) -> Datasheet:
    """Read a datasheet: TOML, or by the ending YAML (with PyYAML) or JSON."""
    text = decode_text(read_bytes(path), path)
    suffix = Path(path).suffix.lower()
    parse = {".yaml": _parse_yaml, ".yml": _parse_yaml, ".json": _parse_json}.get(suffix, _parse_toml)
    try:
        document = parse(text, path)
    except RecursionError:
        raise FormatError(f"{path}: nested too deeply; a datasheet has tables of answers and nothing below") from None
    if not isinstance(document, dict):
        raise FormatError(
            f"{path}: a datasheet has tables such as [paper] and [[criterion]]; start one with `aliquot datasheet new`"
        )
    return _SheetReader(path, text).read_sheet(document)


def _parse_toml(text: str, path: str | Path) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        match = re.search(r"\(at line (\d+), column (\d+)\)", message)
        where = f"{path} line {match.group(1)}, column {match.group(2)}" if match else f"{path} (at its end)"
        reason = re.sub(r" ?\((at line|at end).*\)$", "", message)
        raise FormatError(
            f"{where}: not valid TOML ({reason}); put texts in quotes, options end with a comma"
        ) from None


def _parse_yaml(text: str, path: str | Path) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]  # noqa: PLC0415  (only those who write YAML need it)
    except ImportError:
        raise MissingExtraError(f"{path}: reading YAML needs PyYAML (`pip install pyyaml`), or write TOML") from None
    try:
        # The base loader leaves every scalar a text: a plain No is an answer, and 4.3.10 is not a number.
        return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  (the base loader makes texts only)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path} line {mark.line + 1}" if mark is not None else str(path)
        raise FormatError(f"{where}: not valid YAML ({getattr(error, 'problem', None) or error}); correct it") from None


def _parse_json(text: str, path: str | Path) -> Any:
    return decode_json(text, str(path), "correct it")


class _SheetReader:
    """Turns a document into a sheet; every error names the file and, where it can be found, the line."""

    def __init__(self, path: str | Path, text: str) -> None:
        self.path = path
        self.lines = text.splitlines()

    def read_sheet(self, document: Mapping[str, Any]) -> Datasheet:
        tables = [SHEET, *(section.key for section in load_sections())]
        answers: dict[str, Answer] = {}
        for key, table in document.items():
            if key not in tables:
                raise self._make_error(str(key), str(unknown_name("table", key, tables)))
            if key in (SHEET, CRITERION):
                continue
            table_answers = self._read_answers(self._read_table(table, key), per_criterion=False)
            twice = next((number for number in table_answers if number in answers), None)
            if twice is not None:
                raise self._make_error(twice, f"question {twice} is answered in two tables; keep one")
            answers |= table_answers
        about = self._read_sheet_fields(document.get(SHEET) or {})
        criteria = self._read_criteria(document.get(CRITERION) or [])
        try:
            return Datasheet(answers, criteria, name=Path(self.path).stem, **about)
        except AliquotError as error:
            raise FormatError(f"{self.path}: {error}") from None

    def _read_sheet_fields(self, table: Any) -> dict[str, Any]:
        about = self._read_table(table, SHEET)
        version = str(about.get("heds", VERSION))
        if version != VERSION:
            raise self._make_error("heds", f"the sheet is of HEDS {version}; aliquot knows HEDS {VERSION}")
        results = about.get("results", [])
        results = [results] if isinstance(results, str) else results
        if not isinstance(results, list) or not all(isinstance(result, str) for result in results):
            raise self._make_error("results", "results should be a list of signatures in quotes")
        return {"signature": str(about.get("signature", "")), "results": tuple(results)}

    def _read_criteria(self, tables: Any) -> tuple[Criterion, ...]:
        if isinstance(tables, dict):
            raise self._make_error(CRITERION, "a criterion stands in double brackets: write [[criterion]]")
        if not isinstance(tables, list):
            raise self._make_error(CRITERION, "criterion should be a list of tables: [[criterion]]")
        criteria = []
        for number, table in enumerate(tables, start=1):
            fields = dict(self._read_table(table, CRITERION))
            name = str(fields.pop("name", "")).strip() or f"criterion {number}"
            criteria.append(Criterion(name, self._read_answers(fields, per_criterion=True)))
        return tuple(criteria)

    def _read_answers(self, table: Mapping[str, Any], *, per_criterion: bool) -> dict[str, Answer]:
        parts: dict[str, dict[str, Any]] = {}
        for key, value in table.items():
            number, kind = self._split_key(str(key))
            question = load_questions()[number]
            if question.per_criterion != per_criterion:
                where = "a [[criterion]]" if question.per_criterion else f"[{question.section}]"
                raise self._make_error(str(key), f"question {number} belongs to {where}; move it there")
            parts.setdefault(number, {})[kind] = value
        return {number: self._read_answer(load_questions()[number], fields) for number, fields in parts.items()}

    def _split_key(self, key: str) -> tuple[str, str]:
        number, _, kind = key.strip().partition(" ")
        kind = kind.strip()
        try:
            find_question(number)
        except AliquotError as error:
            raise self._make_error(key, str(error)) from None
        if kind not in ("", DETAILS.strip(), FROM.strip()):
            raise self._make_error(key, str(unknown_name("entry", kind, ["details", "from"], f"of question {number}")))
        return number, kind

    def _read_answer(self, question: SheetQuestion, fields: Mapping[str, Any]) -> Answer:
        number = question.number
        texts = {kind: self._read_text(fields.get(kind, ""), f"{number} {kind}") for kind in ("details", "from")}
        value = fields.get("", [] if question.options else "")
        if isinstance(value, bool) or not isinstance(value, str | int | float | list):
            raise self._make_error(number, f"the answer to {number} should be text in quotes, found {value!r}")
        if isinstance(value, list):
            value = [self._read_text(entry, number) for entry in value]
        try:
            return make_answer(question, value, texts["details"], texts["from"])
        except AliquotError as error:
            raise self._make_error(number, str(error)) from None

    def _read_text(self, value: Any, key: str) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self._make_error(key.partition(" ")[0], f"{key.strip()} should be text in quotes, found {value!r}")
        return str(value)

    def _read_table(self, value: Any, key: str) -> Mapping[str, Any]:
        if value in ("", None):  # YAML: a key with nothing below it
            return {}
        if not isinstance(value, dict):
            raise self._make_error(key, f"'{key}' should be a table with questions in it, found {value!r}")
        return value

    def _make_error(self, key: str, message: str) -> FormatError:
        name = re.escape(key)
        as_key = rf"""\s*-?\s*["']?{name}(?:{DETAILS}|{FROM})?["']?\s*[=:]"""
        as_table = rf"""\s*\[+\s*["']?{name}["']?\s*\]"""
        keys_first = ((pattern, *line) for pattern in (as_key, as_table) for line in enumerate(self.lines, start=1))
        line = next((number for pattern, number, text in keys_first if re.match(pattern, text)), None)
        return FormatError(f"{self.path}{f' line {line}' if line else ''}: {message}")


def find_own_comments(path: str | Path) -> list[str]:
    """Return the comments in a TOML sheet that aliquot did not write: writing it anew would lose them."""
    text = decode_text(read_bytes(path), path)
    ours = {line.strip() for line in to_toml(load(path)).splitlines()}
    bare = {line.removeprefix("#").strip() for line in ours}
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line.startswith("#") and line not in ours and line.lstrip("# ") not in bare]
