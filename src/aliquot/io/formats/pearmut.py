"""Pearmut's log of annotations: JSON lines, or the JSON object of campaigns that its dashboard downloads.

Each record is one submission of a document: `item` holds its segments, `annotation` for each segment and model a score,
error spans and a text. The last submission of a user counts; a reset takes away what the user did before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from aliquot.core.evalset import EvalSet
from aliquot.errors import FormatError
from aliquot.io.files import decode_json, number_lines
from aliquot.io.formats.answers import (
    Key,
    ToolAnswer,
    evalset_from_answers,
    mark_control,
    parse_number,
    read_spans,
    require_type,
)
from aliquot.io.formats.mqm import MQMWeights

_RESET = "__RESET__"
_MAX_IDLE_SECONDS = 60.0  # Pearmut's own cap of the time between two actions, in seconds
_TRAINING = ("welcome_", "goodbye_")
_CHECK = "random_"
_REMEDY = "download the annotations from Pearmut again"


def looks_like(fields: dict[str, Any]) -> bool:
    """Return whether an object is a record of Pearmut's log, or its object of campaigns."""
    if {"annotation", "item_i", "user_id"} <= fields.keys():
        return True
    first = next((logs for logs in fields.values() if logs), None) if fields else None
    return isinstance(first, list) and isinstance(first[0], dict) and looks_like(first[0]) and _holds_lists(fields)


def _holds_lists(fields: dict[str, Any]) -> bool:
    return all(isinstance(value, list) for value in fields.values())


def read(raw: bytes, path: Path | str, key: Key | None = None, weights: MQMWeights | None = None) -> EvalSet:
    """Read Pearmut's annotations."""
    latest: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    for where, record in _iterate_records(raw, path):
        user, item = str(record.get("user_id")), str(record.get("item_i"))
        if record.get("annotation") == _RESET:
            latest = {unit: entry for unit, entry in latest.items() if unit[0] != user or item not in ("None", unit[1])}
        else:
            latest[user, item] = (where, record)
    answers = [answer for where, record in latest.values() for answer in _read_answers(record, where)]
    return evalset_from_answers(answers, path, key, weights)


def _iterate_records(raw: bytes, path: Path | str) -> Iterator[tuple[str, dict[str, Any]]]:
    lines = list(number_lines(raw, path))
    is_lines = all(line.lstrip()[:1] == b"{" and line.rstrip()[-1:] == b"}" for _, line in lines[:2])
    document = decode_json(raw, str(path), _REMEDY) if len(lines) == 1 or not is_lines else None
    if document is None:
        yield from ((where, _require_record(decode_json(line, where, _REMEDY), where)) for where, line in lines)
    elif isinstance(document, list) or not looks_like(document) or not _holds_lists(document):
        several = document if isinstance(document, list) else [document]
        yield from (
            (f"{path} record {number}", _require_record(record, f"{path} record {number}"))
            for number, record in enumerate(several, 1)
        )
    else:
        for name, log in document.items():
            for number, record in enumerate(
                require_type(log, list, f"{path}, {name}", "a list of submissions"), start=1
            ):
                yield f"{path}, {name}, record {number}", _require_record(record, f"{path}, {name}, record {number}")


def _require_record(value: Any, where: str) -> dict[str, Any]:
    return dict(require_type(value, dict, where, "an object with annotation, item and user_id"))


def _read_answers(record: dict[str, Any], where: str) -> Iterator[ToolAnswer]:
    items, annotations = record.get("item"), record.get("annotation")
    if not isinstance(items, list) or not isinstance(annotations, list):
        return  # a form about the user, or another kind of event
    if any(isinstance(item, dict) and "form" in item for item in items):
        return
    if len(items) != len(annotations):
        raise FormatError(f"{where}: {len(annotations)} annotations of {len(items)} segments; {_REMEDY}")
    kind = str(record.get("item_i"))
    extra: dict[str, Any] = {}
    if kind.startswith((*_TRAINING, _CHECK)):
        extra |= mark_control("training" if kind.startswith(_TRAINING) else "true")
    cells = sum(len(by_model) for by_model in annotations if isinstance(by_model, dict))
    seconds, time = _measure_time(record.get("actions"), where)
    if cells and seconds is not None:
        extra |= {"seconds": seconds / cells}
    extra |= {"time": time} if time is not None else {}
    for number, (item, by_model) in enumerate(zip(items, annotations, strict=True), start=1):
        if by_model is not None:  # a segment that was skipped
            yield from _read_segment(item, by_model, str(record.get("user_id")), extra, f"{where}, segment {number}")


def _read_segment(item: Any, by_model: Any, user: str, extra: dict[str, Any], where: str) -> Iterator[ToolAnswer]:
    item = require_type(item, dict, where, "a segment with tgt")
    texts = item.get("tgt")
    texts = texts if isinstance(texts, dict) else {}
    name = item.get("item_id")
    name = name if isinstance(name, (int, str)) and not isinstance(name, bool) else None
    for model, answer in require_type(by_model, dict, where, "an object: model -> annotation").items():
        place = f"{where}, model '{model}'"
        fields = require_type(answer, dict, place, "an annotation with score and error_spans")
        text = texts.get(model)
        text = text if isinstance(text, str) else None
        more = extra | ({"text": fields["textfield"]} if isinstance(fields.get("textfield"), str) else {})
        spans = read_spans(fields["error_spans"], place, text, inclusive=True) if fields.get("error_spans") else ()
        source, document = item.get("src"), item.get("doc_id", item.get("document"))
        base = {
            "where": place,
            "annotator": user,
            "item": name,
            "system": str(model),
            "output": text,
            "extra": more,
            "source": source if isinstance(source, str) else None,
            "document": document if isinstance(document, str) else None,
            "spans": spans if fields.get("error_spans") is not None else None,
        }
        sliders = fields.get("sliders")
        yield from _split_sliders(
            sliders if isinstance(sliders, dict) and sliders else fields.get("score"), base, place
        )


def _split_sliders(score: Any, base: dict[str, Any], where: str) -> Iterator[ToolAnswer]:
    """Yield one answer, or one for each slider where a campaign has several."""
    if isinstance(score, dict):
        for name, value in score.items():
            yield ToolAnswer(**base, name=name, value=_parse_score(value, f"{where}, slider '{name}'"))
        return
    yield ToolAnswer(**base, value=_parse_score(score, where))


def _parse_score(score: Any, where: str) -> float | None:
    value = parse_number(score)
    if score is not None and value is None:
        raise FormatError(f"{where}: the score is {score!r}, which is not a number; {_REMEDY}")
    return value


def _measure_time(actions: Any, where: str) -> tuple[float | None, float | None]:
    """Return the seconds spent, without idle time, and the time of the last action."""
    times = [
        parse_number(action.get("time"))
        for action in require_type(actions if actions is not None else [], list, f"{where}, actions", "a list")
        if isinstance(action, dict)
    ]
    stamps = sorted(time for time in times if time is not None)
    if len(stamps) < 2:
        return None, stamps[0] if stamps else None
    return sum(min(b - a, _MAX_IDLE_SECONDS) for a, b in pairwise(stamps)), stamps[-1]
