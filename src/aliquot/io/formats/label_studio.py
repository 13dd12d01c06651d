"""Label Studio's exports: JSON (tasks with annotations), JSON-MIN and CSV (flat records, one an annotation)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aliquot.io.formats.answers import (
    Fields,
    ToolAnswer,
    build_answers,
    identify_output,
    parse_number,
    read_user,
    require_object,
    require_type,
)
from aliquot.io.formats.table_columns import map_columns

_LABELS = ("labels", "hypertextlabels", "paragraphlabels")
_TIMES = ("created_at", "updated_at", "lead_time")
OWN_FIELDS = ("annotator", "annotation_id", *_TIMES, "was_cancelled", "agreement")
"""Fields of a flat record, beside its id, that are not the task's data."""


def looks_like(fields: Mapping[str, Any]) -> bool:
    """Return whether a record is a task or a flat record of Label Studio."""
    nested = isinstance(fields.get("data"), dict) and isinstance(fields.get("annotations"), list)
    return nested or {"annotation_id", "annotator", "lead_time"} <= fields.keys()


def read_answers(record: Fields, where: str) -> Iterator[ToolAnswer]:
    """Yield the annotators' answers on one task, without cancelled ones and ground truths."""
    if "annotations" not in record:
        yield from _read_flat(record, where)
        return
    output = identify_output(require_object(record.get("data"), f"{where}, data"), record.get("id"))
    annotations = require_type(record["annotations"], list, f"{where}, annotations", "a list")
    for number, value in enumerate(annotations, start=1):
        place = f"{where}, annotation {number}"
        annotation = require_object(value, place)
        if annotation.get("was_cancelled") is True or annotation.get("ground_truth") is True:
            continue
        results = require_type(annotation.get("result") or [], list, f"{place}, result", "a list of results")
        named, spans = _read_results([require_object(result, f"{place}, result") for result in results])
        base = {**output, "annotator": read_user(annotation.get("completed_by")), "extra": _read_timing(annotation)}
        yield from build_answers(named, base, spans, place)


def _read_results(results: list[Fields]) -> tuple[Fields, list[Any] | None]:
    """Return answers by name, and the regions with their labels (joined by the region's id)."""
    named: Fields = {}
    regions: dict[Any, Fields] = {}
    for number, result in enumerate(results):
        value = result.get("value")
        if not isinstance(value, dict):
            continue
        if "start" in value and "end" in value:
            region = regions.setdefault(str(result.get("id", number)), {})
            region |= {name: value[name] for name in ("start", "end", "text") if name in value}
            labels = next((value[name] for name in _LABELS if name in value), None)
            region |= {} if labels is None else {"label": labels}
            path = _first_entry(value.get("taxonomy")) or value.get("choices")
            region |= {"category": "/".join(map(str, path))} if isinstance(path, list) else {}
        else:
            named[str(result.get("from_name", "answer"))] = _read_value(value)
    return named, list(regions.values()) if regions or not named else []


def _read_value(value: Fields) -> Any:
    """Return the number, rating, only choice or text of a result."""
    for name in ("number", "rating", "choices", "text", "taxonomy"):
        if name in value:
            content = value[name]
            return _first_entry(content) if isinstance(content, list) and len(content) == 1 else content
    return None


def _read_flat(record: Fields, where: str) -> Iterator[ToolAnswer]:
    """Read a flat record (JSON-MIN, CSV): answers are lists of objects, numbers also under a usual name."""
    if str(record.get("was_cancelled")).casefold() == "true":
        return
    data = {name: value for name, value in record.items() if name not in OWN_FIELDS}
    structured = {name: value for name, value in data.items() if isinstance(value, (list, dict))}
    named: Fields = {}
    spans: list[Any] = []
    for name, value in structured.items():
        several = [region for region in (value if isinstance(value, list) else [value]) if isinstance(region, dict)]
        regions = [region for region in several if "start" in region and "end" in region]
        spans += [region | {"label": next((region[n] for n in _LABELS if n in region), None)} for region in regions]
        if several and not regions:
            named[name] = _read_value(several[0])
    usual = map_columns(list(data), None, where).get("value")
    if usual is not None and usual not in structured:
        named[usual] = data[usual]
    base = {
        **identify_output({n: v for n, v in data.items() if n not in named}, record.get("id")),
        "extra": _read_timing(record),
    }
    yield from build_answers(named, base | {"annotator": read_user(record.get("annotator"))}, spans, where)


def _read_timing(fields: Mapping[str, Any]) -> Fields:
    seconds, created = parse_number(fields.get("lead_time")), fields.get("created_at")
    timing: Fields = {} if seconds is None or seconds < 0 else {"seconds": seconds}
    return timing | ({"time": created} if isinstance(created, str) else {})


def _first_entry(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None
