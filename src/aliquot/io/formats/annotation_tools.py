"""Exports of general annotation tools, told apart by their first record: Label Studio, Potato, Prodigy and Argilla.

They share one idea: a record shows one output and holds, for each annotator, named answers. The record's own data say
which item and system it is (columns by their usual names), or hold an id that the key explains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from aliquot.core.evalset import EvalSet
from aliquot.errors import FormatError, quoted
from aliquot.io.files import decode_json, first_character, numbered_lines
from aliquot.io.formats import argilla, label_studio, potato, prodigy
from aliquot.io.formats.answers import REMEDY, Fields, Key, fields_of, from_answers, require_kind
from aliquot.io.formats.mqm import MQMWeights
from aliquot.io.formats.table_files import read_frame

TOOLS: dict[str, ModuleType] = {"label-studio": label_studio, "prodigy": prodigy, "potato": potato, "argilla": argilla}
_POTATO_COLUMN = re.compile(r"^[^.]+\.[^.]+$|:::")


def read(raw: bytes, path: Path | str, key: Key | None = None, weights: MQMWeights | None = None) -> EvalSet:
    """Read the export of any of these tools."""
    answers = [
        answer for where, record in _records(raw, path) for answer in _tool(record, where).answers(record, where)
    ]
    return from_answers(answers, path, key, weights)


def tool_of(fields: Mapping[str, Any]) -> str | None:
    """Return the name of the tool whose record this is."""
    return next((name for name, tool in TOOLS.items() if tool.looks_like(fields)), None)


def tool_of_header(names: list[str]) -> str | None:
    """Return the tool whose CSV has this header.

    >>> tool_of_header(["instance_id", "user_id", "quality.5"]), tool_of_header(["instance_id", "user_id", "score"])
    ('potato', None)
    """
    found = {name.strip('"') for name in names}
    if {"annotation_id", "annotator", "lead_time"} <= found:
        return "label-studio"
    is_potato = "instance_id" in found and {"user", "user_id"} & found and any(map(_POTATO_COLUMN.search, found))
    return "potato" if is_potato else None


def _tool(record: Fields, where: str) -> ModuleType:
    name = tool_of(record)
    if name is not None:
        return TOOLS[name]
    raise FormatError(
        f"{where}: not a record of Label Studio, Potato, Prodigy or Argilla, but {quoted(record, 8)}; {REMEDY}"
    )


def _records(raw: bytes, path: Path | str) -> Iterator[tuple[str, Fields]]:
    start = first_character(raw)
    if start == b"[":
        for at, one in enumerate(require_kind(decode_json(raw, str(path), REMEDY), list, str(path), "a list"), start=1):
            yield f"{path} record {at}", fields_of(one, f"{path} record {at}")
    elif start == b"{":
        for where, line in numbered_lines(raw, path):
            yield where, fields_of(decode_json(line, where, REMEDY), where)
    else:
        for at, row in enumerate(read_frame(raw, path).iter_rows(named=True), start=1):
            where = f"{path} row {at}"
            yield where, {name: _cell(value, where) for name, value in row.items() if value is not None}


def _cell(value: Any, where: str) -> Any:
    """Return the content of a cell that holds JSON, and other cells as they are."""
    nested = isinstance(value, str) and value.startswith(("[{", '{"', "[]"))
    return decode_json(value, where, REMEDY) if nested else value
