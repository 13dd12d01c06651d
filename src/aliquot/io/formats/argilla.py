"""Argilla's records as JSON: nested or flat of version 2, and those of version 1's feedback datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aliquot.io.formats.answers import Fields, ToolAnswer, build_answers, identify_output, require_object

_FLAT = ".responses"


def looks_like(fields: Mapping[str, Any]) -> bool:
    """Return whether a record is Argilla's."""
    nested = isinstance(fields.get("fields"), dict) and isinstance(fields.get("responses"), (dict, list))
    return nested or any(name.endswith(_FLAT) for name in fields)


def read_answers(record: Fields, where: str) -> Iterator[ToolAnswer]:
    """Yield each user's submitted answers on one record."""
    data: Fields = {}
    for part in (record.get("fields"), record.get("metadata")):
        data |= part if isinstance(part, dict) else {}
    if "fields" not in record:
        data = {name: value for name, value in record.items() if "." not in name and not name.startswith("_")}
    place = identify_output(data, record.get("external_id") or record.get("id"))
    for user, responses in _group_by_user(record, where).items():
        spans = [span for value in responses.values() if _is_spans(value) for span in value]
        named = {name: _read_value(value) for name, value in responses.items() if not _is_spans(value)}
        own_spans = spans if spans or any(value == [] for value in responses.values()) else None
        base = {**place, "annotator": None if user == "None" else user, "extra": {}}
        yield from build_answers({n: v for n, v in named.items() if v != []}, base, own_spans, where)


def _group_by_user(record: Fields, where: str) -> dict[str, Fields]:
    """Return user -> question -> value of all submitted answers."""
    users: dict[str, Fields] = {}
    responses = record.get("responses")
    if isinstance(responses, list):  # of version 1: one entry a user
        for response in responses:
            entry = require_object(response, f"{where}, responses")
            values = entry.get("values")
            if entry.get("status", "submitted") == "submitted" and isinstance(values, dict):
                answers = {name: v.get("value") if isinstance(v, dict) else v for name, v in values.items()}
                users.setdefault(str(entry.get("user_id")), {}).update(answers)
        return users
    if isinstance(responses, dict):
        by_question = {
            name: [require_object(response, f"{where}, responses.{name}") for response in entries or []]
            for name, entries in responses.items()
            if isinstance(entries, (list, type(None)))
        }
    else:
        by_question = {name.removesuffix(_FLAT): _read_flat(record, name) for name in record if name.endswith(_FLAT)}
    for name, entries in by_question.items():
        for entry in entries:
            if entry.get("status") in (None, "submitted"):
                users.setdefault(str(entry.get("user_id")), {})[name] = entry.get("value")
    return users


def _read_flat(record: Fields, name: str) -> list[Fields]:
    values = record[name] if isinstance(record[name], list) else []
    names, states = record.get(f"{name}.users") or [], record.get(f"{name}.status") or []
    return [
        {"value": value, "user_id": _get_index(names, number), "status": _get_index(states, number)}
        for number, value in enumerate(values)
    ]


def _get_index(values: Any, index: int) -> Any:
    return values[index] if isinstance(values, list) and index < len(values) else None


def _is_spans(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(span, dict) and "start" in span for span in value)


def _read_value(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) else value
