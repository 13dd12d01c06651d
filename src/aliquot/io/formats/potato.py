"""Potato's exports: JSON lines and CSV, one record for each annotator and instance, of version 2 and of version 1."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from aliquot.io.files import decode_json
from aliquot.io.formats.answers import REMEDY, Fields, ToolAnswer, build_answers, identify_output, parse_number

_CLOCK = re.compile(r"(\d{1,6})\s*([dhms])\b")
_IN_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_LABELS = ("labels", "label_annotations")
_SCALE = re.compile(r"^(?:scale[_ ]?)?(-?\d{1,9})$")


def looks_like(fields: Mapping[str, Any]) -> bool:
    """Return whether a record is Potato's."""
    has_labels = any(isinstance(fields.get(name), dict) for name in _LABELS)
    return (
        "instance_id" in fields
        and bool({"user_id", "user"} & fields.keys())
        and (has_labels or bool(_collect_labels(fields)))
    )


def _collect_labels(fields: Mapping[str, Any]) -> Fields:
    """Return schema -> label -> value, also of the columns `schema.label` or `schema:::label` of a CSV."""
    for name in _LABELS:
        if isinstance(fields.get(name), dict):
            return dict(fields[name])
    labels: Fields = {}
    for name, value in fields.items():
        schema, mark, label = name.partition(":::") if ":::" in name else name.partition(".")
        if mark and schema and label:
            labels.setdefault(schema, {})[label] = value
    return labels


def read_answers(record: Fields, where: str) -> Iterator[ToolAnswer]:
    """Yield one annotator's answers on one instance."""
    named: Fields = {}
    spans: list[Any] | None = None
    for schema, answer in _collect_labels(record).items():
        labels = dict(answer) if isinstance(answer, dict) else {"": answer}
        data = labels.get("_data")
        labels |= decode_json(data, where, REMEDY) if isinstance(data, str) and data[:1] == "{" else {}
        for name in ("errors", "_spans"):
            if isinstance(labels.get(name), list):
                spans = [*(spans or []), *labels.pop(name)]
                labels.pop("score", None)  # computed by the tool from the errors
        answered = {n: v for n, v in labels.items() if not n.startswith("_") and v not in (False, None, "", "false")}
        if answered:
            named[schema] = _read_value(answered)
    marked = record.get("spans", record.get("span_annotations"))
    spans = _collect_spans(marked, spans)
    behaviour = record.get("behavioral_data")
    seconds = _read_seconds(behaviour) if isinstance(behaviour, dict) else None
    text = record.get("displayed_text")
    base = {
        **identify_output({}, record["instance_id"]),
        "annotator": str(record.get("user_id", record.get("user"))),
        "output": text if isinstance(text, str) else None,
        "extra": {} if seconds is None else {"seconds": seconds},
    }
    yield from build_answers(named, base, spans, where)


def _read_value(labels: Fields) -> Any:
    """Return the number chosen: the value, or the label of a ticked box."""
    for label, value in labels.items():
        number = parse_number(value)
        if number is not None:
            return number
        ticked = _SCALE.match(str(label)) or _SCALE.match(str(value))
        if ticked:
            return float(ticked.group(1))
    label, value = next(iter(labels.items()))
    return str(label) if value in (True, "true", "True") or not isinstance(value, str) else value


def _collect_spans(marked: Any, spans: list[Any] | None) -> list[Any] | None:
    """Return the spans of all schemas that are not on the source."""
    if isinstance(marked, list):
        return [*(spans or []), *marked]
    if not isinstance(marked, dict):
        return spans
    for by_field in marked.values():
        groups = by_field if isinstance(by_field, dict) else {"": by_field}
        for name, group in groups.items():
            if isinstance(group, list) and name != "source":
                on_output = [s for s in group if not (isinstance(s, dict) and s.get("target_field") == "source")]
                spans = [*(spans or []), *on_output]
    return spans


def _read_seconds(behaviour: Fields) -> float | None:
    spent = parse_number(behaviour.get("time_spent", behaviour.get("total_time_ms")))
    if spent is not None:
        return spent if "time_spent" in behaviour else spent / 1000
    clock = _CLOCK.findall(str(behaviour.get("time_string", ""))[:100])
    return float(sum(int(count) * _IN_SECONDS[unit] for count, unit in clock)) if clock else None
