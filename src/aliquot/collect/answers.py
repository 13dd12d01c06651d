"""Answers: typed values of the widgets, read from JSON and checked against the protocol and the texts that were shown.

An answer belongs to one cell: {widget name: value}. Its JSON, in requests, events and tables, has no tags: the widget
tells which class a value has. `check_answer` reads what somebody sends, `read_answer` what is stored.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeGuard

import msgspec

from aliquot.collect.errors import CollectError
from aliquot.collect.protocols import Choice, Field, Form, Protocol, Score, Spans, Text, Widget
from aliquot.collect.unit_texts import Cell, MarkedSpan, ShownUnit, slot_names

FORM = "form"
"""The id of the cell that holds what an annotator says about himself or herself."""
MAX_TEXT, MAX_SPANS = 100_000, 1_000
MAX_NUMBER = 2**53  # whole numbers up to here are the same in JSON, JavaScript and databases
Number = int | float


# -- values --------------------------------------------------------------------------------------------------------


class ScoreValue(msgspec.Struct, frozen=True):
    """A score."""

    value: Number


class CriterionScores(msgspec.Struct, frozen=True):
    """A score for each criterion that was answered."""

    values: dict[str, Number]


class MarkedSpans(msgspec.Struct, frozen=True):
    """Errors marked in a text; none where the text has no error."""

    spans: list[MarkedSpan]


class Preference(msgspec.Struct, frozen=True):
    """The slot that is better, or "tie"; with a strength where the widget asks for one (`graded`)."""

    choice: str
    strength: int | None = None
    graded: bool = False


class BestWorst(msgspec.Struct, frozen=True):
    """The best and the worst slot; None while the annotator has not chosen."""

    best: str | None = None
    worst: str | None = None


class RankedSlots(msgspec.Struct, frozen=True):
    """Groups of tied slots, best first."""

    groups: list[list[str]]


class WrittenText(msgspec.Struct, frozen=True):
    """A post-edited output or a comment."""

    text: str


class FormEntries(msgspec.Struct, frozen=True):
    """What an annotator entered into a form, by field."""

    entries: dict[str, str | Number | bool]


Value = ScoreValue | CriterionScores | MarkedSpans | Preference | BestWorst | RankedSlots | WrittenText | FormEntries
Answer = Mapping[str, Value]
"""Widget name -> value, of one cell."""


def read_answer(protocol: Protocol, scope: str, content: str | bytes | msgspec.Raw) -> dict[str, Value]:
    """Read the JSON of a stored answer to the widgets of one scope."""
    return read_values(protocol, scope, msgspec.json.decode(content, type=dict[str, msgspec.Raw]))


def read_values(protocol: Protocol, scope: str, values: Mapping[str, msgspec.Raw]) -> dict[str, Value]:
    """Read the JSON of each value of a stored answer."""
    return {w.name: _read_value(w, values[w.name]) for w in protocol.of_scope(scope) if w.name in values}


def _read_value(widget: Widget, content: msgspec.Raw) -> Value:
    if isinstance(widget, Score):
        if widget.criteria:
            return CriterionScores(msgspec.json.decode(content, type=dict[str, Number]))
        return ScoreValue(msgspec.json.decode(content, type=Number))
    if isinstance(widget, Spans):
        return MarkedSpans(msgspec.json.decode(content, type=list[MarkedSpan]))
    if isinstance(widget, Choice):
        if widget.style == "best-worst":
            return msgspec.json.decode(content, type=BestWorst)
        if widget.style == "ranking":
            return RankedSlots(msgspec.json.decode(content, type=list[list[str]]))
        choice = msgspec.json.decode(content, type=str | Preference)
        return Preference(choice) if isinstance(choice, str) else msgspec.structs.replace(choice, graded=True)
    if isinstance(widget, Text):
        return WrittenText(msgspec.json.decode(content, type=str))
    return FormEntries(msgspec.json.decode(content, type=dict[str, str | Number | bool]))


def encode_answer(answer: Answer) -> msgspec.Raw:
    """Return an answer as the JSON that is stored."""
    return msgspec.Raw(msgspec.json.encode({name: _to_json(value) for name, value in answer.items()}))


def _to_json(value: Value) -> Any:
    if isinstance(value, Preference):
        strength = {} if value.strength is None else {"strength": value.strength}
        return {"choice": value.choice, **strength} if value.graded else value.choice
    if isinstance(value, BestWorst):
        slots = {"best": value.best, "worst": value.worst}
        return {name: slot for name, slot in slots.items() if slot is not None}
    (content,) = msgspec.structs.astuple(value)
    return content


# -- checking what somebody sends ----------------------------------------------------------------------------------


def build_refusal(message: str) -> CollectError:
    """Build the error for an invalid answer."""
    return CollectError("bad_answer", message)


def check_text(name: str, value: Any, max_length: int = MAX_TEXT) -> str:
    """Return the text; raise if it is not a string, too long, or cannot be stored (NUL, lone surrogates)."""
    if not isinstance(value, str) or len(value) > max_length:
        raise build_refusal(f"{name}: expected a text of at most {max_length:,} characters, found {_describe(value)}")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise build_refusal(f"{name}: the text has a character that cannot be stored (NUL or half a pair); remove it")
    return value


def _describe(value: Any) -> str:
    """Describe a value of any size in a message."""
    if isinstance(value, str):
        return f"{value[:40]!r}" if len(value) <= 40 else f"a text of {len(value):,} characters"
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < MAX_NUMBER):
        return repr(value)
    return "a large number" if isinstance(value, int) else f"a {'list' if isinstance(value, list) else 'table'}"


def check_answer(protocol: Protocol, shown_unit: ShownUnit, cell_id: str, answer: Any) -> dict[str, Value]:
    """Validate an answer to a cell against the protocol and the unit, and return its values."""
    if not isinstance(answer, dict):
        raise build_refusal(f"an answer is an object with the widgets' names, found {type(answer).__name__}")
    if cell_id == FORM:
        cell = Cell(FORM, "annotator")
    elif cell_id in shown_unit.cells:
        cell = shown_unit.cells[cell_id]
    else:
        raise build_refusal(f"the cell {_describe(cell_id)} is not in this unit; load the unit again")
    widgets = {widget.name: widget for widget in protocol.of_scope(cell.scope)}
    values = {}
    for name, value in answer.items():
        if name not in widgets:
            raise build_refusal(f"the protocol asks nothing called {_describe(name)} here; load the page again")
        if value is not None:
            values[name] = _check_value(widgets[name], value, shown_unit, cell)
    return values


def missing_widgets(protocol: Protocol, scope: str, answer: Answer) -> list[str]:
    """Return the names of required widgets that have no complete value yet."""
    return [w.name for w in protocol.of_scope(scope) if w.required and not _is_complete(w, answer.get(w.name))]


def _is_complete(widget: Widget, value: Value | None) -> bool:
    match value:
        case None:
            return False
        case CriterionScores() if isinstance(widget, Score):
            return set(widget.criteria) <= value.values.keys()
        case MarkedSpans() if isinstance(widget, Spans):  # saved while it is being made, a span may lack both
            return all(span.severity and (span.category or not widget.categories) for span in value.spans)
        case BestWorst():
            return bool(value.best and value.worst)
        case Preference() if isinstance(widget, Choice) and widget.strength:
            return value.choice == "tie" or value.strength is not None
        case WrittenText():
            return bool(value.text.strip())
        case FormEntries() if isinstance(widget, Form):
            return all(value.entries.get(f.name) not in (None, "", False) for f in widget.fields if f.required)
    return True


def _check_value(widget: Widget, value: Any, shown_unit: ShownUnit, cell: Cell) -> Value:
    if isinstance(widget, Score):
        return _check_score(widget, value)
    if isinstance(widget, Spans):
        return _check_spans(widget, value, shown_unit, cell)
    if isinstance(widget, Choice):
        return _check_choice(widget, value, slot_names(len(shown_unit.systems)))
    if isinstance(widget, Text):
        return WrittenText(check_text(widget.name, value))
    return _check_form(widget, value)


def _check_score(widget: Score, value: Any) -> ScoreValue | CriterionScores:
    if not widget.criteria:
        return ScoreValue(_check_number(widget, value))
    if not isinstance(value, dict) or not set(value) <= set(widget.criteria):
        raise build_refusal(f"{widget.name}: expected an object with a number for each of {', '.join(widget.criteria)}")
    return CriterionScores(
        {name: _check_number(widget, number) for name, number in value.items() if number is not None}
    )


def _check_number(widget: Score, value: Any) -> Number:
    if not is_number(value):
        raise build_refusal(f"{widget.name}: expected a number, found {_describe(value)}")
    if not widget.low <= value <= widget.high:
        raise build_refusal(f"{widget.name}: {value:g} is outside {widget.low:g} to {widget.high:g}")
    steps = (value - widget.low) / widget.step
    if abs(steps - round(steps)) > 1e-6:
        raise build_refusal(f"{widget.name}: {value:g} is between two steps of {widget.step:g} from {widget.low:g}")
    return value


def is_number(value: Any) -> TypeGuard[Number]:
    """Return whether a value of JSON is a finite number that can be stored."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (math.isfinite(value) if isinstance(value, float) else abs(value) < MAX_NUMBER)
    )


def text_digest(text: str) -> str:
    """Return 16 hexadecimal digits of a text that was shown."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _check_spans(widget: Spans, value: Any, shown_unit: ShownUnit, cell: Cell) -> MarkedSpans:
    if not isinstance(value, list) or len(value) > MAX_SPANS:
        raise build_refusal(f"{widget.name}: expected a list of at most {MAX_SPANS} spans")
    texts = {"output": shown_unit.output(cell).text}
    source = shown_unit.row(cell).source
    if widget.on_source and source is not None:
        texts["source"] = source.text
    severities = {severity.name for severity in widget.severities}
    categories = {name for name, below in widget.categories.items() if not below}
    categories |= {f"{name}/{leaf}" for name, below in widget.categories.items() for leaf in below}
    return MarkedSpans([_check_span(widget, span, texts, severities, categories) for span in value])


def _check_span(
    widget: Spans, span: Any, texts: Mapping[str, str], severities: set[str], categories: set[str]
) -> MarkedSpan:
    if not isinstance(span, dict):
        raise build_refusal(f"{widget.name}: a span is an object with start, end, quote and severity")
    side = span.get("side", "output")
    text = texts.get(side) if isinstance(side, str) else None
    if text is None:
        raise build_refusal(f"{widget.name}: spans cannot be marked on {_describe(side)} here")
    start, end = span.get("start"), span.get("end")
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text):
        raise build_refusal(
            f"{widget.name}: a span from {_describe(start)} to {_describe(end)} is not inside the text of {len(text)} "
            "characters"
        )
    if span.get("quote") != text[start:end]:
        raise build_refusal(f"{widget.name}: the span's text is not what was shown there; load the unit again")
    severity = span.get("severity")
    if severity is not None and not _is_among(severity, severities):
        raise build_refusal(
            f"{widget.name}: no severity {_describe(severity)}; there are {', '.join(sorted(severities))}"
        )
    category = span.get("category")
    if category is not None and not _is_among(category, categories):
        raise build_refusal(f"{widget.name}: no category {_describe(category)}; load the page again")
    return MarkedSpan(start, end, text[start:end], severity, category, side, text_digest(text))


def _is_among(value: Any, names: Collection[str]) -> TypeGuard[str]:
    return isinstance(value, str) and value in names


def _check_choice(widget: Choice, value: Any, slots: Sequence[str]) -> Preference | BestWorst | RankedSlots:
    if widget.style == "pairwise":
        return _check_preference(widget, value, slots)
    if widget.style == "best-worst":
        if not isinstance(value, dict) or not set(value) <= {"best", "worst"}:
            raise build_refusal(f'{widget.name}: expected {{"best": slot, "worst": slot}}')
        chosen = [slot for slot in value.values() if slot is not None]
        if not all(_is_among(slot, slots) for slot in chosen) or len(set(chosen)) < len(chosen):
            raise build_refusal(f"{widget.name}: best and worst are two different ones of {', '.join(slots)}")
        return BestWorst(value.get("best"), value.get("worst"))
    groups = [group if isinstance(group, list) else [group] for group in (value if isinstance(value, list) else [])]
    flat = [slot for group in groups for slot in group]
    if not all(_is_among(slot, slots) for slot in flat) or sorted(flat) != sorted(slots):
        raise build_refusal(f"{widget.name}: a ranking names each of {', '.join(slots)} once")
    if not widget.ties and any(len(group) != 1 for group in groups):
        raise build_refusal(f"{widget.name}: ties are not allowed")
    return RankedSlots(groups)


def _check_preference(widget: Choice, value: Any, slots: Sequence[str]) -> Preference:
    chosen, strength = (value.get("choice"), value.get("strength")) if isinstance(value, dict) else (value, None)
    options = [*slots, "tie"] if widget.ties else list(slots)
    if not _is_among(chosen, options):
        raise build_refusal(f"{widget.name}: expected one of {', '.join(options)}, found {_describe(chosen)}")
    if not widget.strength:
        return Preference(chosen)
    if strength is not None and not (type(strength) is int and 1 <= strength <= widget.strength):
        raise build_refusal(f"{widget.name}: the strength is 1 to {widget.strength}, found {_describe(strength)}")
    return Preference(chosen, None if chosen == "tie" else strength, graded=True)


def _check_form(widget: Form, value: Any) -> FormEntries:
    fields = {field.name: field for field in widget.fields}
    if not isinstance(value, dict) or not set(value) <= set(fields):
        raise build_refusal(f"{widget.name}: expected an object with the fields {', '.join(fields)}")
    return FormEntries({name: _check_field(fields[name], entry) for name, entry in value.items() if entry is not None})


def _check_field(field: Field, value: Any) -> str | Number | bool:
    if field.kind == "text":
        return check_text(field.name, value)
    if field.kind == "select" and not _is_among(value, field.options):
        raise build_refusal(f"{field.name}: expected one of {', '.join(field.options)}, found {_describe(value)}")
    fits = field.kind == "select" or (is_number(value) if field.kind == "number" else isinstance(value, bool))
    if not fits:
        raise build_refusal(f"{field.name}: expected {field.kind}, found {_describe(value)}")
    checked: str | Number | bool = value
    return checked
