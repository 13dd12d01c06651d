"""Item JSON lines: one JSON object per item, the format of subset2evaluate; a JSON array of the same is read too.

Reading is one pass with typed decoding, which is also the validation: a line is looked at a second time, slowly, only
to explain what is wrong with it (`item_errors`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import numpy as np
import polars as pl

from aliquot.core.columns import (
    ScoreCells,
    TextCells,
    decode_column,
    encode_column,
    frame_from_records,
    ordered_union,
    unify_ids,
)
from aliquot.core.conventions import guess_human_score
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import Judgments
from aliquot.errors import FormatError
from aliquot.io.files import count_keys, decode_text, first_character, require_unique_keys
from aliquot.io.formats.item_fields import META, NESTED, USAGE, build_line_error, column_name, field_name
from aliquot.io.writing import write_bytes
from aliquot.stats.arrays import FloatArray

Fields = dict[str, msgspec.Raw]


class _SetMetadata(msgspec.Struct):
    """Metadata of the whole set, kept on the first line."""

    human: str | None = None
    flipped: tuple[str, ...] = ()


_LINE = msgspec.json.Decoder(Fields)
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_SCORES = msgspec.json.Decoder(dict[str, dict[str, float | None] | None] | None)
_TEXTS = msgspec.json.Decoder(dict[str, str | None] | None)
_ID = msgspec.json.Decoder(int | str)
_TEXT = msgspec.json.Decoder(str | None)
_NUMBER = msgspec.json.Decoder(float | None)
_WHOLE = msgspec.json.Decoder(int | None)
_NAME = msgspec.json.Decoder(str | int | None)
_JUDGMENTS = msgspec.json.Decoder(list[dict[str, Any]] | None)
_META = msgspec.json.Decoder(_SetMetadata | None)
_ANY = msgspec.json.Decoder()
_DECODE_ERRORS = (msgspec.MsgspecError, RecursionError)
_INT64 = range(-(2**63), 2**63)  # integers beyond 64 bits have no place in a table
_FIELD_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "i": _ID,
    "src": _TEXT,
    "ref": _TEXT,
    "doc": _NAME,
    "domain": _NAME,
    "cost": _NUMBER,
    "position": _WHOLE,
}


def read(raw: bytes, path: Path | str, *, sources_only: bool = False) -> EvalSet:
    """Read item JSON lines or a JSON array of items."""
    reader = _ItemReader(str(path))
    try:
        for where, fields, line in _iterate_items(raw, path):
            try:
                reader.add(fields, where)
            except (*_DECODE_ERRORS, _FieldError) as error:
                raise build_line_error(line, f"{path} {where}", str(error)) from None
    except UnicodeDecodeError:
        decode_text(raw, path)  # raises with the line
        raise
    keys = reader.keys + reader.scores.added + reader.usage.added
    require_unique_keys(raw, keys, ((f"{path} {where}", line) for where, _, line in _iterate_items(raw, path)))
    return reader.build_evalset(sources_only=sources_only)


def _iterate_items(raw: bytes, path: Path | str) -> Iterator[tuple[str, Fields, bytes]]:
    """Yield position, fields and text of each item."""
    if not raw or raw.isspace():
        raise FormatError(f"{path}: the file is empty; it should have one JSON object per item and line")
    if first_character(raw) == b"[":
        try:
            array = _ARRAY.decode(raw)
        except _DECODE_ERRORS as error:
            raise build_line_error(raw, str(path), str(error)) from None
        if not array:
            raise FormatError(f"{path}: the JSON array is empty; it should hold one object per item")
        texts, each = (bytes(entry) for entry in array), "entry"
    else:
        texts, each = (line for line in raw.split(b"\n")), "line"
    for number, text in enumerate(texts, start=1):
        if not text or text.isspace():
            continue
        try:
            fields = _LINE.decode(text)
        except _DECODE_ERRORS as error:
            raise build_line_error(text, f"{path} {each} {number}", str(error)) from None
        yield f"{each} {number}", fields, text


class _FieldError(Exception):
    """A field of the right type that does not fit the other fields."""


class _ItemReader:
    """Collects items column by column; `evalset` closes it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.columns: dict[str, list[Any]] = {}
        self.ids: list[int | str] = []
        self.rows: dict[str, int] = {}
        self.scores, self.usage = ScoreCells(), ScoreCells()
        self.texts = TextCells()
        self.judgments: list[dict[str, Any]] = []
        self.judged_rows: list[int] = []
        self.meta: _SetMetadata | None = None
        self.without_systems: str | None = None
        self.keys = 0  # of all objects, but those of one cell's scores

    def add(self, fields: Fields, where: str) -> None:
        row = len(self.ids)
        item = self._read_id(fields, row)
        scores = _SCORES.decode(fields["scores"]) if "scores" in fields else None
        texts = _TEXTS.decode(fields["tgt"]) if "tgt" in fields else None
        judgments = _JUDGMENTS.decode(fields["judgments"]) if "judgments" in fields else None
        if not (scores or texts or judgments or self.without_systems):
            self.without_systems = f"{where}: item {item!r}"
        self.scores.add(row, scores or {})
        self.texts.add(row, texts or {})
        self.keys += len(fields) + len(texts or ()) + len(scores or ())  # scores count those inside
        if USAGE in fields:
            self._add_usage(row, fields[USAGE])
        if judgments:
            flat = bytes(fields["judgments"]).count(b"{") == len(judgments)
            self.keys += sum(map(len, judgments)) if flat else count_keys(judgments)
        for number, judgment in enumerate(judgments or ()):
            self.judgments.append(_validate_judgment(judgment, item, number))
            self.judged_rows.append(row)
        if META in fields:
            meta = _META.decode(fields[META])
            self.meta = self.meta or meta
            self.keys += count_keys(_ANY.decode(fields[META]))
        for field, value in fields.items():
            if field not in NESTED and field not in ("i", META):
                self._put_field(row, field, value)

    def _read_id(self, fields: Fields, row: int) -> int | str:
        item: int | str = _ID.decode(fields["i"]) if "i" in fields else row
        if type(item) is int and item not in _INT64:
            raise _FieldError(f"the item id {item} (field i) is beyond 64 bits; write it as a string")
        first = self.rows.setdefault(str(item), row)
        if first != row:
            raise _FieldError(
                f"the item id {item!r} (field i) occurs twice, first as item number {first + 1}; "
                "give every item its own id"
            )
        self.ids.append(item)
        return item

    def _add_usage(self, row: int, value: msgspec.Raw) -> None:
        try:
            usage = _SCORES.decode(value) or {}
        except msgspec.ValidationError:  # a column of another tool, such as {"prompt_tokens": 12}
            self._put_field(row, USAGE, value)
            return
        self.usage.add(row, usage)
        self.keys += len(usage)

    def _put_field(self, row: int, field: str, value: msgspec.Raw) -> None:
        column = self.columns.setdefault(column_name(field), [])
        column.extend([None] * (row - len(column)))
        decoded = _FIELD_DECODERS.get(field, _ANY).decode(value)
        column.append(decoded)
        if isinstance(decoded, (dict, list)):
            self.keys += count_keys(decoded)

    def build_evalset(self, *, sources_only: bool) -> EvalSet:
        judged = [judgment["system"] for judgment in self.judgments]
        systems = ordered_union([self.texts.columns, self.scores.systems, judged, self.usage.systems])
        self._check_systems(systems, sources_only=sources_only)
        n = len(self.ids)
        for column in self.columns.values():
            column.extend([None] * (n - len(column)))
        named: dict[str, list[Any]] = {
            name: [v if v is None else str(v) for v in self.columns[name]]
            for name in ("document", "domain")
            if name in self.columns
        }
        items = pl.DataFrame(
            [
                pl.Series("id", unify_ids(self.ids)),
                *(encode_column(name, named.get(name, column)) for name, column in self.columns.items()),
            ]
        )
        meta = self.meta or _SetMetadata()
        return EvalSet(
            items=items,
            systems=tuple(systems),
            scores=self.scores.to_arrays(n, systems),
            usage=self.usage.to_arrays(n, systems),
            outputs=self.texts.to_frame(n, systems),
            judgments=_build_judgments(self.judgments, items["id"].gather(self.judged_rows)),
            human=meta.human,
            flipped=frozenset(meta.flipped),
            name=_strip_endings(self.path),
        )

    def _check_systems(self, systems: list[str], *, sources_only: bool) -> None:
        if not systems and not sources_only:
            raise FormatError(
                f"{self.path}: no item has a system (fields 'tgt' and 'scores' are absent or empty); "
                'give outputs as "tgt": {"sysA": "..."} or scores as "scores": {"sysA": {"human": 0.9}}; '
                "sources alone are for `aliquot select`"
            )
        if systems and self.without_systems is not None:
            raise FormatError(
                f"{self.path} {self.without_systems} has no systems (fields 'tgt' and 'scores' are absent or "
                'empty); remove the item, or name its systems, e.g. "tgt": {"sysA": null}'
            )


def _validate_judgment(judgment: dict[str, Any], item: int | str, number: int) -> dict[str, Any]:
    """Return the judgment with names as texts; raise _FieldError if it is not valid."""

    def refuse(field: str, expected: str) -> NoReturn:
        raise _FieldError(f"judgments[{number}].{field}: expected {expected}, found {judgment.get(field)!r}")

    if type(judgment.get("system")) is not str:
        refuse("system", "a system's name")
    for field in ("value", "seconds"):
        value = judgment.get(field)
        if type(value) is int and value in _INT64:
            judgment[field] = float(value)
        elif value is not None and type(value) is not float:
            refuse(field, "a number of at most 64 bits")
    for field in ("annotator", "criterion"):
        name = judgment.get(field)
        if type(name) is int:
            judgment[field] = str(name)
        elif name is not None and type(name) is not str:
            refuse(field, "a name")
    if "item" in judgment and str(judgment["item"]) != str(item):
        refuse("item", f"the item it stands in, {item!r},")
    return judgment


def _build_judgments(records: list[dict[str, Any]], items: pl.Series) -> Judgments | None:
    if not records:
        return None
    return Judgments(
        frame_from_records([{"value": None, **record} for record in records]).with_columns(items.alias("item"))
    )


def _strip_endings(path: str) -> str:
    name = Path(path).name
    for ending in (".gz", ".jsonl", ".json", ".ndjson"):
        name = name.removesuffix(ending)
    return name or path


def write(evalset: EvalSet, path: Path | str) -> None:
    """Write item JSON lines, compressed where the path ends in .gz."""
    encode = msgspec.json.Encoder().encode
    write_bytes(path, b"".join(encode(record) + b"\n" for record in iterate_records(evalset)))


def iterate_records(evalset: EvalSet) -> Iterator[dict[str, Any]]:
    """Yield each item as a JSON object."""
    columns = {column: decode_column(evalset.items[column]) for column in evalset.items.columns}
    judgments = _group_judgments(evalset)
    meta = _build_meta(evalset)
    cells, usage = _iterate_cells(evalset), _iterate_numbers(evalset, evalset.usage)
    for row in range(evalset.n_items):
        record: dict[str, Any] = {}
        for column, values in columns.items():
            field, value = field_name(column), values[row]
            if value is not None or field == column:  # absent and null mean the same for the format's own fields
                record[field] = value
        if meta is not None and row == 0:
            record[META] = meta
        record["tgt"], record["scores"] = next(cells)
        if evalset.outputs is None:
            del record["tgt"]
        if evalset.usage:
            record[USAGE] = next(usage)
        if judgments is not None:
            record["judgments"] = judgments.get(columns["id"][row], [])
        yield record


def _build_meta(evalset: EvalSet) -> _SetMetadata | None:
    """Return the metadata, or None if the lines imply them."""
    if evalset.flipped or evalset.human not in (None, guess_human_score(evalset.scores)):
        return _SetMetadata(evalset.human, tuple(sorted(evalset.flipped)))
    return None


def _iterate_cells(evalset: EvalSet) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each item's texts and scores; absent texts are null only where nothing else names the system."""
    texts = [evalset.outputs[s].to_list() for s in evalset.systems] if evalset.outputs is not None else None
    for row, numbers in enumerate(_iterate_numbers(evalset, evalset.scores)):
        scores = {s: present for s, present in numbers.items() if present or row == 0 or texts is None}
        out = {}
        if texts is not None:
            out = {s: texts[c][row] for c, s in enumerate(evalset.systems) if texts[c][row] is not None or row == 0}
            if not out and not scores:
                out = dict.fromkeys(evalset.systems)
        yield out, scores


def _iterate_numbers(evalset: EvalSet, arrays: Mapping[str, FloatArray]) -> Iterator[dict[str, dict[str, Any]]]:
    """Yield {system: {name: number}} of each item; the first names every array, so that an empty one survives."""
    names = list(arrays)
    stacked = np.stack([arrays[name] for name in names], axis=2) if names else None
    for row in range(evalset.n_items):
        cells = [[] for _ in evalset.systems] if stacked is None else stacked[row].tolist()
        yield {
            system: (dict.fromkeys(names) if row == 0 else {})
            | {name: value for name, value in zip(names, values, strict=True) if not math.isnan(value)}
            for system, values in zip(evalset.systems, cells, strict=True)
        }


def _group_judgments(evalset: EvalSet) -> dict[int | str, list[dict[str, Any]]] | None:
    if evalset.judgments is None:
        return None
    table = evalset.judgments.table
    columns = {name: decode_column(table[name]) for name in table.columns if name != "item"}
    grouped: dict[int | str, list[dict[str, Any]]] = {}
    for row, item in enumerate(table["item"].to_list()):
        record = {name: values[row] for name, values in columns.items() if values[row] is not None}
        grouped.setdefault(item, []).append(record)
    return grouped
