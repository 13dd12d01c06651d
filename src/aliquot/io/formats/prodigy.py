"""Prodigy's datasets as `db-out` writes them: JSON lines, one task with its answer each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aliquot.io.formats.answers import Fields, ToolAnswer, build_answers, identify_output, parse_number, read_user
from aliquot.io.formats.table_columns import map_columns


def looks_like(fields: Mapping[str, Any]) -> bool:
    """Return whether a record is a task of Prodigy."""
    return "answer" in fields and bool({"_task_hash", "_input_hash"} & fields.keys())


def read_answers(record: Fields, where: str) -> Iterator[ToolAnswer]:
    """Yield the answer to one task: a number in it, the choice, or 1 and 0 for accepted and rejected."""
    meta = record.get("meta")
    data = {**record, **(meta if isinstance(meta, dict) else {})}
    data = {name: value for name, value in data.items() if not name.startswith("_") and name not in ("answer", "text")}
    usual = map_columns(list(data), None, where).get("value")
    named = {usual: data[usual]} if usual is not None and parse_number(data[usual]) is not None else {}
    chosen, spans = record.get("accept"), record.get("spans")
    if isinstance(chosen, list) and chosen:
        named["accept"] = _read_choice(chosen[0], record.get("options"))
    is_accepted = record["answer"] == "accept"
    if not named and spans is None and chosen is None and record["answer"] in ("accept", "reject"):
        named["answer"] = float(is_accepted)
        is_accepted = True
    time = parse_number(record.get("_timestamp"))
    base = {
        **identify_output({n: v for n, v in data.items() if n != usual}, None),
        "annotator": read_user(record.get("_annotator_id") or record.get("_session_id")),
        "extra": {} if time is None else {"time": time},
    }
    if "output" not in base and isinstance(record.get("text"), str):
        base["output"] = record["text"]
    if not is_accepted:  # ignored, or refused although there were choices: an answer without a value
        named, spans = dict.fromkeys(named or ["accept"]), None
    yield from build_answers(named, base, spans if spans is None or isinstance(spans, list) else [spans], where)


def _read_choice(chosen: Any, options: Any) -> Any:
    """Return the chosen option's id where it is a number, else its text."""
    if parse_number(chosen) is not None:
        return chosen
    choices = [choice for choice in options if isinstance(choice, dict)] if isinstance(options, list) else []
    text = next((choice.get("text") for choice in choices if choice.get("id") == chosen), None)
    return text if isinstance(text, str) else str(chosen)
