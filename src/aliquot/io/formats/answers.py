"""Answers exported by annotation tools, converted to judgments; shared by the readers of those tools.

A reader gives one `ToolAnswer` for each thing an annotator said of one output. An export may name item and system, or
hold opaque ids only: the key, kept apart from what annotators see, then gives the item and system of each id.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from aliquot.core.columns import frame_from_records, scatter_texts
from aliquot.core.evalset import EvalSet
from aliquot.core.judgments import CONTROL_ITEM, MARKED, Judgments
from aliquot.errors import DataError, FormatError, quoted
from aliquot.io.files import read_bytes
from aliquot.io.formats.mqm import MQMWeights
from aliquot.io.formats.table_columns import map_columns, parse_ids, parse_names
from aliquot.io.formats.table_files import read_frame
from aliquot.io.formats.tables import add_criterion_scores, factorize_labels

CELL = "cell"
"""The column of opaque ids, in keys and in what is written for annotators."""
SEVERITIES = ("neutral", "minor", "major", "critical")
MQM = "mqm"
REMEDY = "export the file again"
_NO_ERROR = "no-error"
_MAX_SPANS = 10_000

Id = int | str
Fields = dict[str, Any]


@dataclass(frozen=True)
class Key:
    """Opaque ids and their items and systems."""

    cells: Mapping[str, tuple[Id, str]]
    where: str

    def find_cell(self, cell: str | None, where: str) -> tuple[Id, str]:
        """Return item and system of an id; raise FormatError if the key lacks it."""
        if cell is None:
            raise FormatError(
                f"{where}: it has no id to look up in the key {self.where}; leave `key` out, or export the ids, too"
            )
        if cell not in self.cells:
            raise FormatError(
                f"{where}: the id '{cell}' is not in the key {self.where}; give the key that was written "
                "with this campaign"
            )
        return self.cells[cell]


@dataclass(frozen=True)
class ToolAnswer:
    """One answer on one output: `name` of the question, and a number as `value` or another answer as `label`."""

    where: str
    annotator: str | None
    name: str | None = None
    value: float | None = None
    label: str | None = None
    spans: tuple[dict[str, Any], ...] | None = None  # None: spans were not asked for
    item: Id | None = None
    system: str | None = None
    cell: str | None = None
    source: str | None = None
    output: str | None = None
    document: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


# -- the key -------------------------------------------------------------------------------------------------------


def read_key(path: Path | str) -> Key:
    """Read a key: a table with the columns cell (the opaque id), item and system."""
    frame = read_frame(read_bytes(path), path)
    name = next((n for n in frame.columns if n.strip().casefold() in (CELL, "id", "code")), None)
    roles = map_columns([n for n in frame.columns if n != name], None, str(path))
    for role, column in {CELL: name, "item": roles.get("item"), "system": roles.get("system")}.items():
        if column is None:
            raise FormatError(
                f"{path}: a key needs the columns cell, item and system; there is no '{role}' among "
                f"{quoted(frame.columns)}"
            )
    ids = parse_names(frame[str(name)], str(path))
    doubled = ids.filter(ids.is_duplicated())
    if len(doubled):
        raise FormatError(f"{path}: the id '{doubled[0]}' occurs twice; a key names each id once")
    items, systems = parse_ids(frame[roles["item"]], str(path)), parse_names(frame[roles["system"]], str(path))
    pairs = zip(items.to_list(), systems.to_list(), strict=True)
    return Key(dict(zip(ids.to_list(), pairs, strict=True)), str(path))


def apply_key(table: pl.DataFrame, key: Key, where: str) -> pl.DataFrame:
    """Replace a table's column of opaque ids by item and system."""
    name = next((n for n in table.columns if n.strip().casefold() == CELL), None)
    name = name or map_columns(table.columns, None, where).get("item")
    if name is None:
        raise FormatError(
            f"{where}: no column holds ids for `key`; name it '{CELL}'; there are {quoted(table.columns)}"
        )
    ids = parse_names(table[name], where).to_list()
    cells = [key.find_cell(cell, f"{where} row {row}") for row, cell in enumerate(ids, start=1)]
    roles = map_columns([n for n in table.columns if n != name], None, where)
    remaining = table.drop(name, *(roles[role] for role in ("item", "system") if role in roles))
    items, systems = [item for item, _ in cells], [system for _, system in cells]
    return remaining.with_columns(pl.Series("item", items), pl.Series("system", systems, dtype=pl.String))


# -- values and spans ----------------------------------------------------------------------------------------------


def parse_number(value: object) -> float | None:
    """Parse a finite number; None for anything else.

    >>> parse_number("4"), parse_number(True), parse_number("1e999"), parse_number("good")
    (4.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def require_type(value: Any, kind: type, where: str, what: str) -> Any:
    """Return the value; raise FormatError if it has another type."""
    if not isinstance(value, kind):
        raise FormatError(f"{where}: expected {what}, found {_shorten_repr(value)}; {REMEDY}")
    return value


def _shorten_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def read_span(value: Any, where: str, text: str | None = None, *, inclusive: bool = False) -> dict[str, Any]:
    """Return one span as start, end (first character after it), severity, category and the text it covers.

    A place that is no number, or behind the end of the text, stands for something that is missing in the output.
    """
    fields = require_type(value, dict, where, "a span with start, end and severity")
    start, end = _read_offset(fields, "start_i", "start"), _read_offset(fields, "end_i", "end")
    missing = start is None or end is None or (text is not None and start >= len(text))
    stop = None if missing or end is None else end + inclusive
    label, severity = _read_severity(fields, where)
    category = fields.get("category") or fields.get("type") or label
    if isinstance(fields.get("subtype"), str) and isinstance(category, str):
        category = f"{category}/{fields['subtype']}"
    quote = fields.get("text") or fields.get("quote")
    if not isinstance(quote, str):
        quote = None if missing or text is None else text[start:stop]
    return {
        "start": None if missing else start,
        "end": stop,
        "severity": severity,
        "category": category if isinstance(category, str) else "Omission" if missing else None,
        "text": quote,
    }


def _read_offset(fields: Mapping[str, Any], name: str, other: str) -> int | None:
    offset = fields[name] if name in fields else fields.get(other)
    if type(offset) is int:
        return offset if 0 <= offset < 2**31 else None
    value = parse_number(offset)
    return int(value) if value is not None and 0 <= value < 2**31 else None


def _read_severity(fields: Mapping[str, Any], where: str) -> tuple[str | None, str | None]:
    """Return the label without the severity, and the severity: 'Major: Accuracy' has both."""
    severity = fields.get("severity")
    labels = fields.get("labels", fields.get("label"))
    label = labels[0] if isinstance(labels, list) and labels else labels
    if severity is None and isinstance(label, str):
        head, _, kind = label.partition(":")
        if head.strip().casefold() in SEVERITIES:
            return kind.strip() or None, head.strip()
    if severity is not None and not isinstance(severity, str):
        raise FormatError(
            f"{where}: the severity of a span is {_shorten_repr(severity)}; expected a name such as minor"
        )
    return (label if isinstance(label, str) else None), severity or None


def read_spans(
    value: Any, where: str, text: str | None = None, *, inclusive: bool = False
) -> tuple[dict[str, Any], ...]:
    """Parse a list of spans."""
    spans = require_type(value if value is not None else [], list, where, "a list of spans")
    if len(spans) > _MAX_SPANS:
        raise FormatError(f"{where}: {len(spans)} spans on one output; at most {_MAX_SPANS} are read")
    return tuple(read_span(span, where, text, inclusive=inclusive) for span in spans)


# -- records with named answers ------------------------------------------------------------------------------------


def require_object(value: Any, where: str) -> Fields:
    """Parse a JSON object; raise FormatError if it is not one."""
    return dict(require_type(value, dict, where, "an object"))


def identify_output(data: Mapping[str, Any], record_id: Any) -> Fields:
    """Return item, system, opaque id and texts of a record by the usual column names."""
    plain = {name: value for name, value in data.items() if _is_id(value)}
    roles = map_columns(list(plain), None, "record")
    item = plain[roles["item"]] if "item" in roles else record_id if _is_id(record_id) else None
    cell = plain.get(CELL, item)
    text_roles: tuple[str, ...] = ("source", "output", "document")
    texts = {role: str(plain[roles[role]]) for role in text_roles if role in roles}
    system = str(plain[roles["system"]]) if "system" in roles else None
    return {"item": item, "system": system, "cell": None if cell is None else str(cell), **texts}


def _is_id(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def build_answers(named: Mapping[str, Any], base: Fields, spans: list[Any] | None, where: str) -> Iterator[ToolAnswer]:
    """Yield an answer for each question; spans belong to the first, or to an answer of their own.

    `base` holds annotator, place and `extra` columns of the record.
    """
    own_spans = None if spans is None else read_spans(spans, where, base.get("output"))
    questions = list(named.items()) or ([("", None)] if own_spans is not None else [])
    for number, (name, answer) in enumerate(questions):
        value = parse_number(answer)
        label = answer if value is None and isinstance(answer, str) else None
        extra = dict(base["extra"])
        if number:
            extra.pop("seconds", None)  # the time of a record is that of all its questions: counted once
        more = {"spans": own_spans if number == 0 else None, "extra": extra}
        yield ToolAnswer(**{**base, **more}, where=where, name=name or None, value=value, label=label)


def read_user(user: Any) -> str | None:
    """Return the name of a user, who may be an object."""
    if isinstance(user, dict):
        user = next((user[name] for name in ("email", "username", "id") if user.get(name) is not None), None)
    return None if user is None else str(user)


# -- to an EvalSet -------------------------------------------------------------------------------------------------


def evalset_from_answers(
    answers: Iterable[ToolAnswer], path: Path | str, key: Key | None, weights: MQMWeights | None = None
) -> EvalSet:
    """Build an EvalSet from answers, with the outputs and sources of the export.

    Where no answer of the file has a number and errors were marked, each error is a row with minus its weight as the
    value, as of an MQM file. Otherwise the spans of an answer are kept in its column `spans`.
    """
    identified = [_identify_answer(answer, key) for answer in answers]
    if not identified:
        raise FormatError(f"{path}: it holds no answers; export the file again when annotators have judged something")
    by_errors = all(a.value is None for a in identified) and any(a.spans is not None for a in identified)
    names = {a.name for a in identified if a.value is not None}
    single = len(names) <= 1  # the only question needs no name
    if by_errors:
        rows = [row for a in identified if a.spans is not None for row in _build_error_rows(a, weights or MQMWeights())]
    else:
        rows = [_build_row(a, None if single else a.name) for a in identified]
    return _build_evalset(identified, rows, path)


def _identify_answer(answer: ToolAnswer, key: Key | None) -> ToolAnswer:
    if key is None:
        for what, value in (("item", answer.item), ("system", answer.system)):
            if value is None:
                raise FormatError(
                    f"{answer.where}: it names no {what}; give the key of its ids: `key=key.csv` "
                    "with the columns cell, item and system"
                )
        return answer
    joined = None if answer.item is None or answer.system is None else f"{answer.item}:{answer.system}"
    candidates = [c for c in (answer.cell, joined) if c is not None]
    cell = next((c for c in candidates if c in key.cells), candidates[0] if candidates else None)
    item, system = key.find_cell(cell, answer.where)
    return replace(answer, item=item, system=system)


def _build_row(answer: ToolAnswer, criterion: str | None) -> dict[str, Any]:
    row: Fields = {"item": answer.item, "system": answer.system, "annotator": answer.annotator, "criterion": criterion}
    row |= {"value": answer.value, **answer.extra}
    if answer.label is not None:
        row["label"] = answer.label
    if answer.spans is not None:
        row["spans"] = list(answer.spans)
    return row


def _build_error_rows(answer: ToolAnswer, weights: MQMWeights) -> list[dict[str, Any]]:
    base = _build_row(replace(answer, spans=None), MQM)
    if not answer.spans:
        return [base | {"value": 0.0, "error": 0, "category": _NO_ERROR, "severity": _NO_ERROR}]
    rows = []
    for number, span in enumerate(answer.spans):
        severity, category = span["severity"] or "", span["category"] or ""
        cost = weights.weigh_error(category, severity) if severity else None
        if cost is None:
            raise FormatError(
                f"{answer.where}: the severity '{severity}' of a span is not known; known are {', '.join(SEVERITIES)}"
            )
        where = {"span": span["text"], "start": span["start"], "end": span["end"]}
        row = base | {"value": -cost + 0.0, "error": number, "category": category, "severity": severity, **where}
        rows.append(row | ({"seconds": None} if number and "seconds" in row else {}))  # an answer's time counts once
    return rows


def _build_evalset(answers: Sequence[ToolAnswer], rows: list[dict[str, Any]], path: Path | str) -> EvalSet:
    if not rows:
        raise FormatError(f"{path}: no answer can be read; see docs/formats.md for what is")
    table = frame_from_records(rows)
    try:
        judged = Judgments(table.with_columns(parse_ids(_cast_ids(table["item"]), str(path)).alias("item")))
    except DataError as error:
        raise FormatError(f"{path}: {error}") from None
    every = parse_ids(_cast_ids(pl.Series("item", [a.item for a in answers], strict=False)), str(path))
    ids, rows_of_answers = factorize_labels(every)
    systems, column = factorize_labels(pl.Series("system", [a.system for a in answers], dtype=pl.String))
    outputs = None
    if any(a.output is not None for a in answers):
        outputs = scatter_texts(rows_of_answers, column, [a.output for a in answers], len(ids), systems.to_list())
    evalset = EvalSet(
        items=_build_items(ids, rows_of_answers, answers),
        systems=tuple(systems.to_list()),
        outputs=outputs,
        judgments=judged,
        name=Path(path).name.split(".")[0],
    )
    usable = judged.usable().table
    return add_criterion_scores(evalset) if usable["value"].count() else evalset


def _cast_ids(column: pl.Series) -> pl.Series:
    return column if column.dtype.is_integer() or column.dtype == pl.String else column.cast(pl.String)


def _build_items(ids: pl.Series, row_index: np.ndarray[Any, Any], answers: Sequence[ToolAnswer]) -> pl.DataFrame:
    columns = [ids.alias("id")]
    for name in ("source", "document"):
        texts: list[str | None] = [None] * len(ids)
        for row, answer in zip(row_index.tolist(), answers, strict=True):
            texts[row] = texts[row] if texts[row] is not None else getattr(answer, name)
        if any(text is not None for text in texts):
            columns.append(pl.Series(name, texts, dtype=pl.String))
    return pl.DataFrame(columns)


def mark_excluded(reason: str) -> dict[str, str]:
    """Return the column that keeps an answer out of the scores, with the reason."""
    return {MARKED: reason}


def mark_control(kind: str = "true") -> dict[str, str]:
    """Return the columns of an answer on a control item, which stays in the table and out of the scores."""
    return {"control": kind, MARKED: CONTROL_ITEM}
