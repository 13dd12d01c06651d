"""Item JSON lines: one JSON object per item, the format of subset2evaluate; a JSON array of the same is read too.

Reading is one pass with typed decoding, which is also the validation: a line is looked at a second time, slowly, only
to explain what is wrong with it (`item_errors`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from aliquot.data.cells import ScoreCells, TextCells
from aliquot.data.columns import column_of, frame_of, values_of
from aliquot.data.evalset import EvalSet
from aliquot.data.files import decode_text, first_character, write_bytes
from aliquot.data.formats.item_errors import explain
from aliquot.data.itemformat import META, NESTED, column_name, field_name
from aliquot.data.judgments import Judgments
from aliquot.errors import DataError, FormatError

Fields = dict[str, msgspec.Raw]

_LINE = msgspec.json.Decoder(Fields)
_ARRAY = msgspec.json.Decoder(list[Fields])
_SCORES = msgspec.json.Decoder(dict[str, dict[str, float | None] | None] | None)
_TEXTS = msgspec.json.Decoder(dict[str, str | None] | None)
_ID = msgspec.json.Decoder(int | str)
_TEXT = msgspec.json.Decoder(str | None)
_NUMBER = msgspec.json.Decoder(float | None)
_WHOLE = msgspec.json.Decoder(int | None)
_NAME = msgspec.json.Decoder(str | int | None)
_JUDGMENTS = msgspec.json.Decoder(list[dict[str, Any]] | None)
_ANY = msgspec.json.Decoder()
_FIELD_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "i": _ID, "src": _TEXT, "ref": _TEXT, "doc": _NAME, "domain": _NAME, "cost": _NUMBER, "position": _WHOLE,
}  # fmt: skip


def read(raw: bytes, path: Path | str, *, sources_only: bool = False) -> EvalSet:
    """Read item JSON lines or a JSON array of items."""
    reader = _Reader(str(path))
    try:
        for where, fields, line in _items(raw, path):
            try:
                reader.add(fields)
            except (msgspec.MsgspecError, _FieldError) as error:
                raise explain(line, f"{path} {where}", str(error)) from None
    except UnicodeDecodeError:
        decode_text(raw, path)  # finds the line and says it
        raise
    return reader.evalset(sources_only=sources_only)


def _items(raw: bytes, path: Path | str) -> Iterator[tuple[str, Fields, bytes]]:
    """Yield where an item stands, its fields and its text."""
    if not raw or raw.isspace():
        raise FormatError(f"{path}: the file is empty; it should have one JSON object per item and line")
    if first_character(raw) == b"[":
        try:
            array = _ARRAY.decode(raw)
        except msgspec.MsgspecError as error:
            raise explain(raw, str(path), str(error)) from None
        if not array:
            raise FormatError(f"{path}: the JSON array is empty; it should hold one object per item")
        for number, fields in enumerate(array, start=1):
            yield f"entry {number}", fields, msgspec.json.encode(fields)
        return
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if not line or line.isspace():
            continue
        try:
            fields = _LINE.decode(line)
        except msgspec.MsgspecError as error:
            raise explain(line, f"{path} line {number}", str(error)) from None
        yield f"line {number}", fields, line


class _FieldError(Exception):
    """A field that is of the right type but does not fit the lines before."""


class _Reader:
    """Collects items column by column; `evalset` closes it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.columns: dict[str, list[Any]] = {}
        self.ids: dict[int | str, int] = {}
        self.scores = ScoreCells()
        self.texts = TextCells()
        self.judgments: list[dict[str, Any]] = []
        self.meta: dict[str, Any] = {}
        self.without_systems: int | str | None = None

    def add(self, fields: Fields) -> None:
        row = len(self.ids)
        item = self._id(fields, row)
        scores = _SCORES.decode(fields["scores"]) if "scores" in fields else None
        texts = _TEXTS.decode(fields["tgt"]) if "tgt" in fields else None
        if not scores and not texts:
            self.without_systems = item if self.without_systems is None else self.without_systems
        self.scores.add(row, scores or {})
        self.texts.add(row, texts or {})
        if "judgments" in fields:
            self._add_judgments(item, _JUDGMENTS.decode(fields["judgments"]) or [])
        if META in fields and row == 0:
            self.meta = _ANY.decode(fields[META])
        for field, value in fields.items():
            if field not in NESTED and field not in ("i", META):
                self._put(row, field, value)

    def _id(self, fields: Fields, row: int) -> int | str:
        item: int | str = _ID.decode(fields["i"]) if "i" in fields else row
        if item in self.ids:
            raise _FieldError(
                f"the item id {item!r} (field i) occurs twice, first as item "
                f"number {self.ids[item] + 1}; give every item its own id"
            )
        self.ids[item] = row
        return item

    def _put(self, row: int, field: str, value: msgspec.Raw) -> None:
        column = self.columns.setdefault(column_name(field), [])
        column.extend([None] * (row - len(column)))
        column.append(_FIELD_DECODERS.get(field, _ANY).decode(value))

    def _add_judgments(self, item: int | str, judgments: list[dict[str, Any]]) -> None:
        for number, judgment in enumerate(judgments):
            for key in ("value", "seconds"):
                value = judgment.get(key)
                if value is not None and type(value) not in (int, float):
                    raise _FieldError(f"judgments[{number}].{key}: expected a number, found {value!r}")
            if type(judgment.get("system")) is not str:
                raise _FieldError(f"judgments[{number}] does not name its 'system'")
            self.judgments.append({"item": item, **judgment})

    def evalset(self, *, sources_only: bool) -> EvalSet:
        systems = list(dict.fromkeys([*self.texts.columns, *self.scores.systems]))
        judged = {judgment["system"] for judgment in self.judgments}
        systems += sorted(judged - set(systems))
        self._check_systems(systems, sources_only=sources_only)
        n = len(self.ids)
        ids = list(self.ids)
        if len({type(item) for item in ids}) > 1:
            ids = [str(item) for item in ids]
        for column in self.columns.values():
            column.extend([None] * (n - len(column)))
        named: dict[str, list[Any]] = {name: [v if v is None else str(v) for v in self.columns[name]]
                 for name in ("document", "domain") if name in self.columns}  # fmt: skip
        items = pl.DataFrame(
            [pl.Series("id", ids), *(column_of(name, named.get(name, col)) for name, col in self.columns.items())]
        )
        try:
            return EvalSet(
                items=items,
                systems=tuple(systems),
                scores=self.scores.arrays(n, systems),
                outputs=self.texts.frame(n, systems),
                judgments=_judgments_of(self.judgments, items["id"].dtype),
                human=self.meta.get("human"),
                flipped=frozenset(self.meta.get("flipped", ())),
                name=_short_name(self.path),
            )
        except DataError as error:
            raise FormatError(f"{self.path}: {error}") from None

    def _check_systems(self, systems: list[str], *, sources_only: bool) -> None:
        if not systems and not sources_only:
            raise FormatError(
                f"{self.path}: no item has a system (fields 'tgt' and 'scores' are absent or empty); "
                'give outputs as "tgt": {"sysA": "..."} or scores as "scores": {"sysA": {"human": 0.9}}'
            )
        if systems and self.without_systems is not None:
            raise FormatError(
                f"{self.path}: item {self.without_systems!r} has no systems (fields 'tgt' and 'scores' are absent or "
                'empty); remove the item, or name its systems, e.g. "tgt": {"sysA": null}'
            )


def _judgments_of(records: list[dict[str, Any]], id_type: pl.DataType) -> Judgments | None:
    if not records:
        return None
    table = frame_of([{"value": None, **record} for record in records])
    return Judgments(table.with_columns(pl.col("item").cast(id_type)))


def _short_name(path: str) -> str:
    name = Path(path).name
    for ending in (".gz", ".jsonl", ".json", ".ndjson"):
        name = name.removesuffix(ending)
    return name or path


def write(evalset: EvalSet, path: Path | str) -> None:
    """Write item JSON lines, compressed where the path ends in .gz."""
    encode = msgspec.json.Encoder().encode
    write_bytes(path, b"".join(encode(record) + b"\n" for record in records(evalset)))


def records(evalset: EvalSet) -> Iterator[dict[str, Any]]:
    """Yield each item as the JSON object it is written as."""
    columns = {column: values_of(evalset.items[column]) for column in evalset.items.columns}
    judgments = _judgments_by_item(evalset)
    meta = {"human": evalset.human, "flipped": sorted(evalset.flipped)} if evalset.flipped else None
    cells = _cell_records(evalset)
    for row in range(evalset.n_items):
        record: dict[str, Any] = {}
        for column, values in columns.items():
            field, value = field_name(column), values[row]
            if value is not None or field == column:  # absent and null mean the same for the format's own fields
                record[field] = value
        if meta and row == 0:
            record[META] = meta
        record["tgt"], record["scores"] = next(cells)
        if evalset.outputs is None:
            del record["tgt"]
        if judgments is not None:
            record["judgments"] = judgments.get(columns["id"][row], [])
        yield record


def _cell_records(evalset: EvalSet) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each item's texts and scores; absent texts are null only where nothing else names the system."""
    names = list(evalset.scores)
    stacked = np.stack([evalset.scores[name] for name in names], axis=2) if names else None
    texts = [evalset.outputs[s].to_list() for s in evalset.systems] if evalset.outputs is not None else None
    for row in range(evalset.n_items):
        scores: dict[str, Any] = {}
        for column, system in enumerate(evalset.systems):
            values = stacked[row, column].tolist() if stacked is not None else []
            present = {name: value for name, value in zip(names, values, strict=True) if value == value}  # noqa: PLR0124
            if row == 0:  # the first line names every score, so that a score without any value survives
                present = {name: (None if value != value else value) for name, value in zip(names, values, strict=True)}  # noqa: PLR0124
            if present or row == 0 or texts is None:
                scores[system] = present
        out = {}
        if texts is not None:
            out = {s: texts[c][row] for c, s in enumerate(evalset.systems) if texts[c][row] is not None or row == 0}
            if not out and not scores:
                out = dict.fromkeys(evalset.systems)
        yield out, scores


def _judgments_by_item(evalset: EvalSet) -> dict[int | str, list[dict[str, Any]]] | None:
    if evalset.judgments is None:
        return None
    table = evalset.judgments.table
    columns = {name: values_of(table[name]) for name in table.columns if name != "item"}
    grouped: dict[int | str, list[dict[str, Any]]] = {}
    for row, item in enumerate(table["item"].to_list()):
        record = {name: values[row] for name, values in columns.items() if values[row] is not None}
        grouped.setdefault(item, []).append(record)
    return grouped
