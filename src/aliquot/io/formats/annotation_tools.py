"""Exports of general annotation tools, identified by their first record: Label Studio, Potato, Prodigy and Argilla.

They share one idea: a record shows one output and holds, for each annotator, named answers. The record's own data
name the item and system (columns by their usual names), or hold an id that the key explains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl

from aliquot.core.columns import frame_from_records
from aliquot.core.evalset import EvalSet
from aliquot.errors import FormatError, quoted
from aliquot.io.files import decode_json, first_character, number_lines
from aliquot.io.formats import arena, argilla, label_studio, potato, prodigy
from aliquot.io.formats import label_studio_pairs as pairs
from aliquot.io.formats.answers import REMEDY, Fields, Key, evalset_from_answers, require_object, require_type
from aliquot.io.formats.mqm import MQMWeights
from aliquot.io.formats.table_files import read_frame

TOOLS: dict[str, ModuleType] = {"label-studio": label_studio, "prodigy": prodigy, "potato": potato, "argilla": argilla}
_POTATO_COLUMN = re.compile(r"^[^.]+\.[^.]+$|:::")


def read(raw: bytes, path: Path | str, key: Key | None = None, weights: MQMWeights | None = None) -> EvalSet:
    """Read the export of any of these tools."""
    records = list(_iterate_records(raw, path))
    battles = _list_battles(records, path)
    if battles is not None:
        return arena.from_table(battles, str(path))
    answers = [
        answer for where, record in records for answer in _find_reader(record, where).read_answers(record, where)
    ]
    return evalset_from_answers(answers, path, key, weights)


def read_choices(raw: bytes, path: Path | str) -> pl.DataFrame | None:
    """Return the choices between two outputs that an export of Label Studio holds; None for others."""
    return _list_battles(list(_iterate_records(raw, path)), path)


def _list_battles(records: list[tuple[str, Fields]], path: Path | str) -> pl.DataFrame | None:
    if not records or not (label_studio.looks_like(records[0][1]) and pairs.is_side_by_side(records[0][1])):
        return None
    battles = [battle for where, record in records for battle in pairs.read_battles(record, where)]
    if not battles:
        raise FormatError(f"{path}: it holds no answers; export the file again when annotators have judged something")
    return frame_from_records(battles)


def detect_tool(fields: Mapping[str, Any]) -> str | None:
    """Return the name of the tool that wrote a record; None for others."""
    return next((name for name, tool in TOOLS.items() if tool.looks_like(fields)), None)


def detect_header_tool(names: list[str]) -> str | None:
    """Return the tool whose CSV has this header; None for others.

    >>> [detect_header_tool(["instance_id", "user_id", name]) for name in ("quality.5", "score")]
    ['potato', None]
    """
    columns = {name.strip('"') for name in names}
    if {"annotation_id", "annotator", "lead_time"} <= columns:
        return "label-studio"
    is_potato = "instance_id" in columns and {"user", "user_id"} & columns and any(map(_POTATO_COLUMN.search, columns))
    return "potato" if is_potato else None


def _find_reader(record: Fields, where: str) -> ModuleType:
    name = detect_tool(record)
    if name is not None:
        return TOOLS[name]
    raise FormatError(
        f"{where}: not a record of Label Studio, Potato, Prodigy or Argilla, but {quoted(record, 8)}; {REMEDY}"
    )


def _iterate_records(raw: bytes, path: Path | str) -> Iterator[tuple[str, Fields]]:
    start = first_character(raw)
    if start == b"[":
        for number, record in enumerate(
            require_type(decode_json(raw, str(path), REMEDY), list, str(path), "a list"), start=1
        ):
            yield f"{path} record {number}", require_object(record, f"{path} record {number}")
    elif start == b"{":
        for where, line in number_lines(raw, path):
            yield where, require_object(decode_json(line, where, REMEDY), where)
    else:
        for number, row in enumerate(read_frame(raw, path).iter_rows(named=True), start=1):
            where = f"{path} row {number}"
            yield where, {name: _decode_cell(value, where) for name, value in row.items() if value is not None}


def _decode_cell(value: Any, where: str) -> Any:
    """Decode a cell that holds JSON; return other cells unchanged."""
    nested = isinstance(value, str) and value.startswith(("[{", '{"', "[]"))
    return decode_json(value, where, REMEDY) if nested else value
