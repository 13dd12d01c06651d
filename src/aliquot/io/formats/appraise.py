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
from aliquot.io.files import decode_json, decode_text, numbered_lines
from aliquot.io.formats.answers import Answer, Key, control, from_answers, marked, number, require_kind, spans_of
from aliquot.io.formats.mqm import MQMWeights

TYPES = ("TGT", "CHK", "BAD", "REF")
"""Ordinary items, repeats of them, damaged copies, and references in the place of an output."""
_FIXED = 7
_LONGEST = 1_000_000
_DEEPEST = 20
_REMEDY = "export the scores from Appraise again"


def looks_like_row(header: str) -> bool:
    """Tell the CSV by its first line, which is a row already.

    >>> looks_like_row("deu1101,sysA,3,TGT,eng,deu,85,doc1,False,[],1.5,9.0")
    True
    """
    try:
        row = next(csv.reader([header]), [])
    except csv.Error:
        return False
    return len(row) >= _FIXED and row[3] in TYPES and number(row[6]) is not None


def looks_like(fields: dict[str, Any]) -> bool:
    """Tell a line of Appraise's JSON lines."""
    return {"annotator", "item_type", "task_type"} <= fields.keys() and bool({"target_id", "targets"} & fields.keys())


def read(raw: bytes, path: Path | str, key: Key | None = None, weights: MQMWeights | None = None) -> EvalSet:
    """Read Appraise's export, either kind."""
    lines = raw.lstrip()[:1] == b"{"
    return from_answers(_from_lines(raw, path) if lines else _from_csv(raw, path), path, key, weights)


# -- CSV -----------------------------------------------------------------------------------------------------------


def _from_csv(raw: bytes, path: Path | str) -> Iterator[Answer]:
    text = decode_text(raw, path)
    usual = csv.field_size_limit(max(len(text), csv.field_size_limit()))
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            if row:
                yield _of_row(row, f"{path} line {reader.line_num}")
    except csv.Error as error:
        raise FormatError(f"{path} line {reader.line_num}: not CSV ({error}); {_REMEDY}") from None
    finally:
        csv.field_size_limit(usual)


def _of_row(row: list[str], where: str) -> Answer:
    if len(row) < _FIXED:
        raise FormatError(f"{where}: {len(row)} fields; rows of Appraise have at least {_FIXED}; {_REMEDY}")
    user, system, item, kind, _, _, score, *rest = row
    document, complete, spans = None, False, None
    if len(rest) >= 2 and rest[1] in ("True", "False"):
        document, complete, *rest = rest[0], rest[1] == "True", *rest[2:]
    if rest and number(rest[0]) is None:
        spans, rest = rest[0], rest[1:]
    start, end = (number(text) for text in (*rest, "", "")[:2])
    fields: dict[str, Any] = {
        "item": item,
        "system": system,
        "item_type": kind,
        "score": score,
        "document_id": document,
    }
    fields |= {"start_time": start, "end_time": end, "is_complete_document": complete}
    return _answer(fields | {"annotator": user, "mqm_annotations": spans}, where)


def parse_literal(text: str, where: str) -> Any:
    """Return the value of a JSON text, or of a Python literal: names, calls and operators are refused.

    >>> parse_literal("[{'start_i': 8, 'severity': None}]", "row 1")
    [{'start_i': 8, 'severity': None}]
    """
    if len(text) > _LONGEST:
        raise FormatError(f"{where}: spans of {len(text)} characters; at most {_LONGEST} are read")
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        pass  # then it is a Python literal, or nothing
    # literal_eval runs nothing, but deep nesting can exhaust the interpreter's stack
    if _depth(text) > _DEEPEST:
        raise FormatError(f"{where}: spans are nested more than {_DEEPEST} deep; {_REMEDY}")
    try:
        found = ast.literal_eval(text.strip())
        return msgspec.json.decode(msgspec.json.encode(found))  # as JSON would have it; no halves of characters
    except (ValueError, SyntaxError, TypeError, OverflowError, MemoryError, RecursionError, msgspec.MsgspecError):
        raise FormatError(f"{where}: spans are neither JSON nor a Python literal: '{text[:40]}'; {_REMEDY}") from None


def _depth(text: str) -> int:
    depth = deepest = 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        deepest = max(deepest, depth)
    return deepest


# -- JSON lines ----------------------------------------------------------------------------------------------------


def _from_lines(raw: bytes, path: Path | str) -> Iterator[Answer]:
    for where, line in numbered_lines(raw, path):
        fields = require_kind(decode_json(line, where, _REMEDY), dict, where, "an object of one result")
        targets = fields.get("targets")
        several = [{}] if targets is None else require_kind(targets, list, f"{where}, targets", "a list of outputs")
        for target in several:
            both = fields | require_kind(target, dict, f"{where}, targets", "an object of one output")
            item = both.get("segment_id", both.get("item_id"))
            yield _answer(both | {"item": item, "system": both.get("target_id")}, where)


def _answer(fields: dict[str, Any], where: str) -> Answer:
    for name in ("item", "system", "annotator"):
        if isinstance(fields.get(name), bool) or not isinstance(fields.get(name), (str, int)):
            raise FormatError(f"{where}: the field '{name}' is {fields.get(name)!r}; expected a name; {_REMEDY}")
    kind = fields.get("item_type")
    if kind not in TYPES:
        raise FormatError(f"{where}: the item type is {kind!r}; expected one of {', '.join(TYPES)}; {_REMEDY}")
    value = number(fields.get("score"))
    if value is None and fields.get("score") not in (None, "", "None"):
        raise FormatError(f"{where}: the score is {fields['score']!r}, which is not a number; {_REMEDY}")
    text = fields.get("target_text")
    source, document = fields.get("source_text"), fields.get("document_id")
    return Answer(
        where=where,
        annotator=str(fields["annotator"]),
        value=value,
        item=fields["item"],
        system=str(fields["system"]),
        spans=_spans(fields.get("mqm_annotations"), where, text if isinstance(text, str) else None),
        output=text if isinstance(text, str) and kind == "TGT" else None,
        source=source if isinstance(source, str) else None,
        document=document.removesuffix("#bad") if isinstance(document, str) else None,
        extra=_extra(kind, fields),
    )


def _extra(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    start, end = number(fields.get("start_time")), number(fields.get("end_time"))
    extra: dict[str, Any] = {"repeat": True} if kind == "CHK" else control() if kind == "BAD" else {}
    if kind == "REF":
        extra = marked("reference")
    elif fields.get("is_complete_document") is True:
        extra |= marked("document score")
    if start is not None and end is not None and end >= start:
        extra |= {"seconds": end - start}
    return extra | ({"time": end} if end is not None else {})


def _spans(given: Any, where: str, text: str | None) -> tuple[dict[str, Any], ...] | None:
    found = parse_literal(given, where) if isinstance(given, str) else given
    if isinstance(found, str):  # JSON inside JSON: the database keeps a text
        found = parse_literal(found, where)
    if isinstance(found, dict):  # what a batch asked for, with what was marked in `payload`
        found = found.get("payload")
    return None if found is None else spans_of(found, where, text)
