"""Appraise's export of scores: a CSV without header, with spans as Python or JSON literals, or its JSON lines.

Columns of the CSV: user, system, item, type of item, source and target language, score, then where the campaign has
them document, whether the row is a whole document's score, and spans; then start and end time, and batch ids.
"""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from aliquot.core.evalset import EvalSet
from aliquot.errors import FormatError
from aliquot.io.files import decode_json, decode_text, number_lines
from aliquot.io.formats.answers import (
    Key,
    ToolAnswer,
    evalset_from_answers,
    mark_control,
    mark_excluded,
    parse_number,
    read_spans,
    require_type,
)
from aliquot.io.formats.mqm import MQMWeights

TYPES = ("TGT", "CHK", "BAD", "REF")
"""Ordinary items, repeats of them, damaged copies, and references in the place of an output."""
_MIN_FIELDS = 7
_MAX_CHARACTERS = 1_000_000
_MAX_DEPTH = 20
_REMEDY = "export the scores from Appraise again"


def looks_like_row(header: str) -> bool:
    """Return whether the first line of a file is a row of Appraise's CSV.

    >>> looks_like_row("deu1101,sysA,3,TGT,eng,deu,85,doc1,False,[],1.5,9.0")
    True
    """
    try:
        row = next(csv.reader([header]), [])
    except csv.Error:
        return False
    return len(row) >= _MIN_FIELDS and row[3] in TYPES and parse_number(row[6]) is not None


def looks_like(fields: dict[str, Any]) -> bool:
    """Return whether a line is Appraise JSONL."""
    return {"annotator", "item_type", "task_type"} <= fields.keys() and bool({"target_id", "targets"} & fields.keys())


def read(raw: bytes, path: Path | str, key: Key | None = None, weights: MQMWeights | None = None) -> EvalSet:
    """Read Appraise's export, either kind."""
    lines = raw.lstrip()[:1] == b"{"
    return evalset_from_answers(_read_lines(raw, path) if lines else _read_csv(raw, path), path, key, weights)


# -- CSV -----------------------------------------------------------------------------------------------------------


def _read_csv(raw: bytes, path: Path | str) -> Iterator[ToolAnswer]:
    text = decode_text(raw, path)
    usual = csv.field_size_limit(max(len(text), csv.field_size_limit()))
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            if row:
                yield _parse_row(row, f"{path} line {reader.line_num}")
    except csv.Error as error:
        raise FormatError(f"{path} line {reader.line_num}: not CSV ({error}); {_REMEDY}") from None
    finally:
        csv.field_size_limit(usual)


def _parse_row(row: list[str], where: str) -> ToolAnswer:
    if len(row) < _MIN_FIELDS:
        raise FormatError(f"{where}: {len(row)} fields; rows of Appraise have at least {_MIN_FIELDS}; {_REMEDY}")
    user, system, item, kind, _, _, score, *remaining = row
    document, complete, spans = None, False, None
    if len(remaining) >= 2 and remaining[1] in ("True", "False"):
        document, complete, *remaining = remaining[0], remaining[1] == "True", *remaining[2:]
    if remaining and parse_number(remaining[0]) is None:
        spans, remaining = remaining[0], remaining[1:]
    start, end = (parse_number(text) for text in (*remaining, "", "")[:2])
    fields: dict[str, Any] = {
        "item": item,
        "system": system,
        "item_type": kind,
        "score": score,
        "document_id": document,
    }
    fields |= {"start_time": start, "end_time": end, "is_complete_document": complete}
    return _build_answer(fields | {"annotator": user, "mqm_annotations": spans}, where)


def parse_literal(text: str, where: str) -> Any:
    """Parse JSON or a Python literal; raise FormatError for names, calls and operators.

    >>> parse_literal("[{'start_i': 8, 'severity': None}]", "row 1")
    [{'start_i': 8, 'severity': None}]
    """
    if len(text) > _MAX_CHARACTERS:
        raise FormatError(f"{where}: spans of {len(text)} characters; at most {_MAX_CHARACTERS} are read")
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        pass  # then it is a Python literal, or nothing
    # literal_eval runs nothing, but deep nesting can exhaust the interpreter's stack
    if _measure_depth(text) > _MAX_DEPTH:
        raise FormatError(f"{where}: spans are nested more than {_MAX_DEPTH} deep; {_REMEDY}")
    try:
        value = ast.literal_eval(text.strip())
        return msgspec.json.decode(msgspec.json.encode(value))  # as JSON would have it; no halves of characters
    except (ValueError, SyntaxError, TypeError, OverflowError, MemoryError, RecursionError, msgspec.MsgspecError):
        raise FormatError(f"{where}: spans are neither JSON nor a Python literal: '{text[:40]}'; {_REMEDY}") from None


def _measure_depth(text: str) -> int:
    depth = deepest = 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        deepest = max(deepest, depth)
    return deepest


# -- JSON lines ----------------------------------------------------------------------------------------------------


def _read_lines(raw: bytes, path: Path | str) -> Iterator[ToolAnswer]:
    for where, line in number_lines(raw, path):
        fields = require_type(decode_json(line, where, _REMEDY), dict, where, "an object of one result")
        targets = fields.get("targets")
        several = [{}] if targets is None else require_type(targets, list, f"{where}, targets", "a list of outputs")
        for target in several:
            merged = fields | require_type(target, dict, f"{where}, targets", "an object of one output")
            item = merged.get("segment_id", merged.get("item_id"))
            yield _build_answer(merged | {"item": item, "system": merged.get("target_id")}, where)


def _build_answer(fields: dict[str, Any], where: str) -> ToolAnswer:
    for name in ("item", "system", "annotator"):
        if isinstance(fields.get(name), bool) or not isinstance(fields.get(name), (str, int)):
            raise FormatError(f"{where}: the field '{name}' is {fields.get(name)!r}; expected a name; {_REMEDY}")
    kind = fields.get("item_type")
    if kind not in TYPES:
        raise FormatError(f"{where}: the item type is {kind!r}; expected one of {', '.join(TYPES)}; {_REMEDY}")
    value = parse_number(fields.get("score"))
    if value is None and fields.get("score") not in (None, "", "None"):
        raise FormatError(f"{where}: the score is {fields['score']!r}, which is not a number; {_REMEDY}")
    text = fields.get("target_text")
    source, document = fields.get("source_text"), fields.get("document_id")
    return ToolAnswer(
        where=where,
        annotator=str(fields["annotator"]),
        value=value,
        item=fields["item"],
        system=str(fields["system"]),
        spans=_read_span_field(fields.get("mqm_annotations"), where, text if isinstance(text, str) else None),
        output=text if isinstance(text, str) and kind == "TGT" else None,
        source=source if isinstance(source, str) else None,
        document=document.removesuffix("#bad") if isinstance(document, str) else None,
        extra=_read_extra(kind, fields),
    )


def _read_extra(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    start, end = parse_number(fields.get("start_time")), parse_number(fields.get("end_time"))
    extra: dict[str, Any] = {"repeat": True} if kind == "CHK" else mark_control() if kind == "BAD" else {}
    if kind == "REF":
        extra = mark_excluded("reference")
    elif fields.get("is_complete_document") is True:
        extra |= mark_excluded("document score")
    if start is not None and end is not None and end >= start:
        extra |= {"seconds": end - start}
    return extra | ({"time": end} if end is not None else {})


def _read_span_field(value: Any, where: str, text: str | None) -> tuple[dict[str, Any], ...] | None:
    spans = parse_literal(value, where) if isinstance(value, str) else value
    if isinstance(spans, str):  # JSON inside JSON: the database keeps a text
        spans = parse_literal(spans, where)
    if isinstance(spans, dict):  # what a batch asked for, with what was marked in `payload`
        spans = spans.get("payload")
    return None if spans is None else read_spans(spans, where, text)
