"""Answers as they come from a page or a sheet: whether they fit the protocol and the text shown, and what is missing.

An answer belongs to one cell: {widget name: value}. Offsets of spans are code points of the text shown.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeGuard

import msgspec

from aliquot.collect.errors import CollectError
from aliquot.collect.protocols import Choice, Field, Form, Protocol, Score, Spans, Text, Widget
from aliquot.core.evalset import ItemId

FORM = "form"
"""The id of the cell that holds what an annotator says about himself or herself."""
SLOTS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MOST_TEXT, _MOST_SPANS = 100_000, 1_000
MAX_NUMBER = 2**53  # whole numbers up to here are the same in JSON, JavaScript and databases


@dataclass(frozen=True)
class Cell:
    """Where an answer belongs: to an output, an item (no output) or a document (no row)."""

    id: str
    scope: str
    row: int | None = None
    output: int | None = None


@dataclass(frozen=True)
class Shown:
    """A unit as it is stored: systems, rows with texts and cells."""

    systems: tuple[str, ...]
    rows: list[dict[str, Any]]
    document: str | None
    document_cell: str | None

    @classmethod
    def read(cls, systems: str, document: str | None, payload: str) -> Shown:
        """Read the columns of the table `units`."""
        found = msgspec.json.decode(payload)
        return cls(tuple(msgspec.json.decode(systems)), found["rows"], document, found.get("document_cell"))

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """All cells by their ids, in reading order."""
        found: list[Cell] = []
        for at, row in enumerate(self.rows):
            if row.get("cell"):
                found.append(Cell(row["cell"], "item", at))
            found += [
                Cell(output["cell"], "output", at, number)
                for number, output in enumerate(row["outputs"])
                if output.get("cell")
            ]
        if self.document_cell:
            found.append(Cell(self.document_cell, "document"))
        return {cell.id: cell for cell in found}

    def item(self, cell: Cell) -> ItemId:
        """Return the item of a cell that has one."""
        found: ItemId = self.rows[cell.row or 0]["item"]
        return found

    def judged_items(self) -> list[ItemId]:
        """Return the items that are no context, in reading order."""
        return [row["item"] for row in self.rows if not row["context"]]


def slot_names(count: int) -> list[str]:
    """Return the names of the places side by side: A, B, ... Z, A2, B2, ...

    >>> slot_names(3)
    ['A', 'B', 'C']
    """
    return [SLOTS[at % 26] + ("" if at < 26 else str(at // 26 + 1)) for at in range(count)]


def refuse(message: str) -> CollectError:
    """Build the error for an answer that does not fit."""
    return CollectError("bad_answer", message)


def check_text(name: str, value: Any, most: int = _MOST_TEXT) -> str:
    """Return a typed text, or raise for other types, long texts and what PostgreSQL or UTF-8 cannot hold."""
    if not isinstance(value, str) or len(value) > most:
        raise refuse(f"{name}: expected a text of at most {most:,} characters, found {_in_words(value)}")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise refuse(f"{name}: the text has a character that cannot be stored (NUL or half a pair); remove it")
    return value


def _in_words(value: Any) -> str:
    """Describe a value of any size in a message."""
    if isinstance(value, str):
        return f"{value[:40]!r}" if len(value) <= 40 else f"a text of {len(value):,} characters"
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < MAX_NUMBER):
        return repr(value)
    return "a large number" if isinstance(value, int) else f"a {'list' if isinstance(value, list) else 'table'}"


def check_answer(protocol: Protocol, shown: Shown, cell_id: str, answer: Any) -> dict[str, Any]:
    """Return the answer as it is stored, or raise with what does not fit."""
    if not isinstance(answer, dict):
        raise refuse(f"an answer is an object with the widgets' names, found {type(answer).__name__}")
    if cell_id == FORM:
        cell = Cell(FORM, "annotator")
    elif cell_id in shown.cells:
        cell = shown.cells[cell_id]
    else:
        raise refuse(f"the cell {_in_words(cell_id)} is not in this unit; load the unit again")
    widgets = {widget.name: widget for widget in protocol.of_scope(cell.scope)}
    checked = {}
    for name, value in answer.items():
        if name not in widgets:
            raise refuse(f"the protocol asks nothing called {_in_words(name)} here; load the page again")
        if value is not None:
            checked[name] = _checked(widgets[name], value, shown, cell)
    return checked


def missing_widgets(protocol: Protocol, scope: str, answer: Mapping[str, Any]) -> list[str]:
    """Return the names of required widgets that have no complete value yet."""
    return [w.name for w in protocol.of_scope(scope) if w.required and not _complete(w, answer.get(w.name))]


def _complete(widget: Widget, value: Any) -> bool:
    if value is None:
        return False
    if isinstance(widget, Score) and widget.criteria:
        return all(value.get(name) is not None for name in widget.criteria)
    if isinstance(widget, Spans):  # saved while it is being made, a span may lack both
        return all(span["severity"] and (span["category"] or not widget.categories) for span in value)
    if isinstance(widget, Choice) and widget.style == "best-worst":
        return bool(value.get("best") and value.get("worst"))
    if isinstance(widget, Choice) and isinstance(value, dict) and widget.strength:
        return value.get("choice") == "tie" or value.get("strength") is not None
    if isinstance(widget, Choice) and widget.strength:
        return bool(value == "tie")
    if isinstance(widget, Text):
        return bool(value.strip())
    if isinstance(widget, Form):
        return all(value.get(field.name) not in (None, "", False) for field in widget.fields if field.required)
    return True


def _checked(widget: Widget, value: Any, shown: Shown, cell: Cell) -> Any:
    if isinstance(widget, Score):
        return _score(widget, value)
    if isinstance(widget, Spans):
        return _spans(widget, value, shown, cell)
    if isinstance(widget, Choice):
        return _choice(widget, value, slot_names(len(shown.systems)))
    if isinstance(widget, Text):
        return check_text(widget.name, value)
    return _form(widget, value)


def _score(widget: Score, value: Any) -> Any:
    if not widget.criteria:
        return _number(widget, value)
    if not isinstance(value, dict) or not set(value) <= set(widget.criteria):
        raise refuse(f"{widget.name}: expected an object with a number for each of {', '.join(widget.criteria)}")
    return {name: _number(widget, number) for name, number in value.items() if number is not None}


def _number(widget: Score, value: Any) -> float:
    if not is_number(value):
        raise refuse(f"{widget.name}: expected a number, found {_in_words(value)}")
    if not widget.low <= value <= widget.high:
        raise refuse(f"{widget.name}: {value:g} is outside {widget.low:g} to {widget.high:g}")
    steps = (value - widget.low) / widget.step
    if abs(steps - round(steps)) > 1e-6:
        raise refuse(f"{widget.name}: {value:g} is between two steps of {widget.step:g} from {widget.low:g}")
    return value


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value of JSON is a finite number that can be stored."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (math.isfinite(value) if isinstance(value, float) else abs(value) < MAX_NUMBER)
    )


def text_digest(text: str) -> str:
    """Return 16 hexadecimal digits of a text that was shown."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _spans(widget: Spans, value: Any, shown: Shown, cell: Cell) -> list[dict[str, Any]]:
    if not isinstance(value, list) or len(value) > _MOST_SPANS:
        raise refuse(f"{widget.name}: expected a list of at most {_MOST_SPANS} spans")
    row = shown.rows[cell.row or 0]
    texts = {"output": row["outputs"][cell.output or 0]["text"]}
    if widget.on_source and "source" in row:
        texts["source"] = row["source"]["text"]
    severities = {severity.name for severity in widget.severities}
    categories = {name for name, below in widget.categories.items() if not below}
    categories |= {f"{name}/{leaf}" for name, below in widget.categories.items() for leaf in below}
    return [_span(widget, span, texts, severities, categories) for span in value]


def _span(
    widget: Spans, span: Any, texts: Mapping[str, str], severities: set[str], categories: set[str]
) -> dict[str, Any]:
    if not isinstance(span, dict):
        raise refuse(f"{widget.name}: a span is an object with start, end, quote and severity")
    side = span.get("side", "output")
    text = texts.get(side) if isinstance(side, str) else None
    if text is None:
        raise refuse(f"{widget.name}: spans cannot be marked on {_in_words(side)} here")
    start, end = span.get("start"), span.get("end")
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text):
        raise refuse(
            f"{widget.name}: a span from {_in_words(start)} to {_in_words(end)} is not inside the text of {len(text)} "
            "characters"
        )
    if span.get("quote") != text[start:end]:
        raise refuse(f"{widget.name}: the span's text is not what was shown there; load the unit again")
    severity = span.get("severity")
    if severity is not None and not _is_among(severity, severities):
        raise refuse(f"{widget.name}: no severity {_in_words(severity)}; there are {', '.join(sorted(severities))}")
    category = span.get("category")
    if category is not None and not _is_among(category, categories):
        raise refuse(f"{widget.name}: no category {_in_words(category)}; load the page again")
    return {
        "start": start,
        "end": end,
        "quote": text[start:end],
        "severity": severity,
        "category": category,
        "side": side,
        "text": text_digest(text),
    }


def _is_among(value: Any, names: Collection[str]) -> bool:
    return isinstance(value, str) and value in names


def _choice(widget: Choice, value: Any, slots: Sequence[str]) -> Any:
    if widget.style == "pairwise":
        return _preference(widget, value, slots)
    if widget.style == "best-worst":
        if not isinstance(value, dict) or not set(value) <= {"best", "worst"}:
            raise refuse(f'{widget.name}: expected {{"best": slot, "worst": slot}}')
        chosen = {name: slot for name, slot in value.items() if slot is not None}
        if not all(_is_among(slot, slots) for slot in chosen.values()) or len(set(chosen.values())) < len(chosen):
            raise refuse(f"{widget.name}: best and worst are two different ones of {', '.join(slots)}")
        return chosen
    groups = value if isinstance(value, list) else []
    flat = [slot for group in groups for slot in (group if isinstance(group, list) else [group])]
    if not all(_is_among(slot, slots) for slot in flat) or sorted(flat) != sorted(slots):
        raise refuse(f"{widget.name}: a ranking names each of {', '.join(slots)} once")
    tied = any(isinstance(group, list) and len(group) != 1 for group in groups)
    if tied and not widget.ties:
        raise refuse(f"{widget.name}: ties are not allowed")
    return [group if isinstance(group, list) else [group] for group in groups]


def _preference(widget: Choice, value: Any, slots: Sequence[str]) -> Any:
    chosen, strength = (value.get("choice"), value.get("strength")) if isinstance(value, dict) else (value, None)
    allowed = [*slots, "tie"] if widget.ties else list(slots)
    if not _is_among(chosen, allowed):
        raise refuse(f"{widget.name}: expected one of {', '.join(allowed)}, found {_in_words(chosen)}")
    if not widget.strength:
        return chosen
    if strength is not None and not (type(strength) is int and 1 <= strength <= widget.strength):
        raise refuse(f"{widget.name}: the strength is 1 to {widget.strength}, found {_in_words(strength)}")
    return {"choice": chosen} | ({} if strength is None or chosen == "tie" else {"strength": strength})


def _form(widget: Form, value: Any) -> dict[str, Any]:
    fields = {field.name: field for field in widget.fields}
    if not isinstance(value, dict) or not set(value) <= set(fields):
        raise refuse(f"{widget.name}: expected an object with the fields {', '.join(fields)}")
    return {name: _field(fields[name], given) for name, given in value.items() if given is not None}


def _field(field: Field, value: Any) -> Any:
    if field.kind == "text":
        return check_text(field.name, value)
    if field.kind == "select" and not _is_among(value, field.options):
        raise refuse(f"{field.name}: expected one of {', '.join(field.options)}, found {_in_words(value)}")
    fits = field.kind == "select" or (is_number(value) if field.kind == "number" else isinstance(value, bool))
    if not fits:
        raise refuse(f"{field.name}: expected {field.kind}, found {_in_words(value)}")
    return value
