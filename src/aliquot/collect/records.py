"""From answers to judgments and choices: rows that `estimate`, `clean`, `agreement`, `compare` and others read.

| asked | rows of judgments | value |
|---|---|---|
| score | one an output (one a criterion) | as given; spans stand in `spans` |
| spans alone (MQM) | one an error, or one `no-error` | minus the weight |
| pairwise | one a system, criterion `preference` | 1 better, 0.5 tie, 0 worse |
| best-worst | one a system shown | 1 best, 0, -1 worst |
| ranking | one a system | minus the rank |
| post-edit | one an output | minus 100 edits per word of the output |

Comparisons are rows of `choices`, too. An answer about a document is one judgment of each system: it stands at the
first of the document's items that was to be judged, because repeating it for the others would make many of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from aliquot.collect.answers import (
    Answer,
    BestWorst,
    CriterionScores,
    MarkedSpans,
    Number,
    Preference,
    RankedSlots,
    ScoreValue,
    Value,
    WrittenText,
    missing_widgets,
)
from aliquot.collect.protocols import Choice, Protocol, Score, Spans, Text, Widget
from aliquot.collect.unit_texts import Cell, MarkedSpan, ShownUnit, slot_names
from aliquot.core.judgments import CONTROL_ITEM
from aliquot.io.formats.mqm import MQMWeights

PREFERENCE = "preference"
"""The criterion of judgments that come from comparisons."""
_NO_ERROR = "no-error"
_SIDES = (("a", "b", "tie"), ("left", "right", "equal"), ("first", "second", "same"))
"""What the column `choice` says: the first labels of which none is the name of one of the two systems."""
Record = dict[str, Any]


class Control(msgspec.Struct, frozen=True):
    """What is known of a cell that tests the annotator."""

    control: str | None = None
    is_repeat: bool = False
    expected: tuple[Number, Number] | None = None  # the range of right answers


@dataclass(frozen=True)
class TimedAnswer:
    """One answer with what is known of how it was given."""

    answer: Answer
    seconds: float | None
    time: float
    guidelines: int


@dataclass(frozen=True)
class SubmittedUnit:
    """A submitted unit: who did what, in which order the systems were shown."""

    assignment: str
    annotator: str
    content: ShownUnit
    slots: Sequence[int]
    order: int  # judgments that the annotator had given before
    marked: str | None = None

    def systems_by_slot(self) -> dict[str, str]:
        """Return slot -> system."""
        names = slot_names(len(self.slots))
        return {slot: self.content.systems[number] for slot, number in zip(names, self.slots, strict=True)}


def derive_rows(
    protocol: Protocol, unit: SubmittedUnit, answers: Mapping[str, TimedAnswer], controls: Mapping[str, Control]
) -> tuple[list[Record], list[Record]]:
    """Return the rows of judgments and of choices that these answers make; incomplete answers make none."""
    judgments: list[Record] = []
    choices: list[Record] = []
    for number, cell in enumerate(unit.content.cells.values()):
        answer = answers.get(cell.id)
        if answer is None or missing_widgets(protocol, cell.scope, answer.answer):
            continue
        control = controls.get(cell.id)
        common = _judgment_fields(protocol, unit, cell, answer, number)
        if control is not None:
            common |= {"control": control.control, "repeat": 1 if control.is_repeat else None}
            common |= {"marked": CONTROL_ITEM} if control.control else {}
        rows = [common | row for row in _judgment_rows(protocol, unit, cell, answer)]
        if control is not None and control.expected is not None:
            rows = [row | {"expected": nearest_expected(row.get("value"), control.expected)} for row in rows]
        judgments += rows
        choices += [_choice_fields(unit, cell, answer) | row for row in _choice_rows(protocol, unit, cell, answer)]
    return judgments, choices


def nearest_expected(value: Number | None, expected: tuple[Number, Number]) -> Number | None:
    """The right answer nearest to the one given: within a known range every answer is right, as `clean` counts it."""
    low, high = expected
    return None if value is None else min(max(value, low), high)


def _judgment_fields(protocol: Protocol, unit: SubmittedUnit, cell: Cell, answer: TimedAnswer, number: int) -> Record:
    return {
        "assignment_id": unit.assignment,
        "cell_id": cell.id,
        "annotator": unit.annotator,
        "criterion": None,
        "seconds": answer.seconds,
        "time": answer.time,
        "order": unit.order + number + 1,
        "page": unit.assignment,
        "protocol": protocol.name,
        "guidelines": answer.guidelines,
        "marked": unit.marked,
    }


def _encode_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _judgment_rows(protocol: Protocol, unit: SubmittedUnit, cell: Cell, answer: TimedAnswer) -> Iterator[Record]:
    widgets = protocol.of_scope(cell.scope)
    value_widgets = [w for w in widgets if _gives_judgments(w, widgets)]
    spans = next((answer.answer.get(w.name) for w in widgets if isinstance(w, Spans)), None)
    extra: Record = {"text": _read_comment(widgets, answer.answer)}
    if isinstance(spans, MarkedSpans) and any(isinstance(w, Score) for w in value_widgets):
        extra["spans"] = _encode_json(spans.spans)
    for widget in value_widgets:
        value = answer.answer.get(widget.name)
        if value is not None:
            name = widget.name if len(value_widgets) > 1 else None
            yield from (extra | row for row in _value_rows(widget, value, name, unit, cell, answer.seconds))


def _gives_judgments(widget: Widget, beside: Sequence[Widget]) -> bool:
    if isinstance(widget, Spans):
        return not any(isinstance(neighbour, Score) for neighbour in beside)
    return isinstance(widget, Score | Choice) or (isinstance(widget, Text) and widget.style == "postedit")


def _read_comment(widgets: Sequence[Widget], answer: Answer) -> str | None:
    value = next((answer.get(w.name) for w in widgets if isinstance(w, Text) and w.style == "comment"), None)
    return value.text or None if isinstance(value, WrittenText) else None


def _value_rows(
    widget: Widget, value: Value, name: str | None, unit: SubmittedUnit, cell: Cell, seconds: float | None
) -> Iterator[Record]:
    match value:
        case ScoreValue():
            yield from _score_rows(unit, cell, {name: value.value}, seconds)
        case CriterionScores():
            yield from _score_rows(unit, cell, value.values, seconds)
        case MarkedSpans() if isinstance(widget, Spans):
            for place in _judged_outputs(unit, cell):
                yield from (place | row for row in _error_rows(widget, value.spans, name))
        case WrittenText():
            rate = -100.0 * edit_rate(unit.content.output(cell).text, value.text) + 0.0
            for place in _judged_outputs(unit, cell):
                yield place | {"criterion": name, "value": rate, "text": value.text}
        case Preference() | BestWorst() | RankedSlots():
            yield from _preference_rows(value, unit, cell, seconds)


def _score_rows(
    unit: SubmittedUnit, cell: Cell, scores: Mapping[str, Number] | Mapping[str | None, Number], seconds: float | None
) -> Iterator[Record]:
    share = None if seconds is None else round(seconds / len(scores), 3)  # they add up
    for place in _judged_outputs(unit, cell):
        for criterion, number in scores.items():
            yield place | {"criterion": criterion, "value": float(number), "seconds": share}


def _judged_outputs(unit: SubmittedUnit, cell: Cell) -> Iterator[Record]:
    """Yield item and system of the outputs that an answer is about."""
    shown_unit = unit.content
    item = _encode_json(shown_unit.judged_items()[0] if cell.row is None else shown_unit.row(cell).item)
    for system in shown_unit.systems if cell.output is None else [shown_unit.systems[cell.output]]:
        yield {"item": item, "system": system}


def _error_rows(widget: Spans, spans: Sequence[MarkedSpan], name: str | None) -> Iterator[Record]:
    """Yield one row for each error, with minus its weight; one row with 0 where there is none."""
    criterion = name or "mqm"
    if not spans:
        yield {"criterion": criterion, "value": 0.0, "error": 0, "category": _NO_ERROR, "severity": _NO_ERROR}
    for number, span in enumerate(spans):
        yield {
            "criterion": criterion,
            "value": -_weigh_error(widget, span) + 0.0,
            "error": number,
            "category": span.category or "Other",
            "severity": span.severity,
            "span": span.quote,
            "start": span.start,
            "end": span.end,
            "side": span.side,
        }


_WMT = MQMWeights()


def _weigh_error(widget: Spans, span: MarkedSpan) -> float:
    """Return the severity's weight; the categories that WMT weighs otherwise keep WMT's weights."""
    weight = next((severity.weight for severity in widget.severities if severity.name == span.severity), 0.0)
    severity = span.severity or ""
    usual, special = _WMT.weigh_error("", severity), _WMT.weigh_error(span.category or "", severity)
    return weight if special is None or special == usual else special


def _preference_rows(
    value: Preference | BestWorst | RankedSlots, unit: SubmittedUnit, cell: Cell, seconds: float | None
) -> Iterator[Record]:
    systems = unit.systems_by_slot()
    values = _slot_values(value, list(systems))
    share = None if seconds is None else round(seconds / len(systems), 3)  # they add up
    slot_of = {system: slot for slot, system in systems.items()}
    for place in _judged_outputs(unit, cell):
        yield place | {"criterion": PREFERENCE, "value": values[slot_of[place["system"]]], "seconds": share}


def _slot_values(value: Preference | BestWorst | RankedSlots, slots: Sequence[str]) -> dict[str, float]:
    if isinstance(value, Preference):
        return {slot: 0.5 if value.choice == "tie" else float(slot == value.choice) for slot in slots}
    if isinstance(value, BestWorst):
        return {slot: float(slot == value.best) - float(slot == value.worst) for slot in slots}
    ranks: dict[str, float] = {}
    for group in value.groups:
        first = len(ranks) + 1
        ranks |= dict.fromkeys(group, -(first + (len(group) - 1) / 2))
    return ranks


def _choice_fields(unit: SubmittedUnit, cell: Cell, answer: TimedAnswer) -> Record:
    shown_unit = unit.content
    item = (shown_unit.document or shown_unit.judged_items()[0]) if cell.row is None else shown_unit.row(cell).item
    return {
        "assignment_id": unit.assignment,
        "cell_id": cell.id,
        "item": _encode_json(item),
        "annotator": unit.annotator,
        "seconds": answer.seconds,
        "time": answer.time,
        "marked": unit.marked,
    }


def _choice_rows(protocol: Protocol, unit: SubmittedUnit, cell: Cell, answer: TimedAnswer) -> Iterator[Record]:
    systems = unit.systems_by_slot()
    widgets = protocol.of_scope(cell.scope)
    comment = _read_comment(widgets, answer.answer)
    for widget in widgets:
        value = answer.answer.get(widget.name)
        if isinstance(value, Preference | BestWorst | RankedSlots):
            yield {"text": comment} | _choice_row(value, systems)
        elif isinstance(value, WrittenText) and isinstance(widget, Text) and widget.style == "postedit":
            system = unit.content.systems[cell.output or 0]
            yield {"system_a": system, "output_a": unit.content.output(cell).text, "final": value.text}


def _choice_row(value: Preference | BestWorst | RankedSlots, systems: Mapping[str, str]) -> Record:
    if isinstance(value, Preference):
        (first, a), (_, b) = systems.items()
        left_label, right, tie = next(labels for labels in _SIDES if not {a, b} & {*labels})
        side = tie if value.choice == "tie" else left_label if value.choice == first else right
        return {"system_a": a, "system_b": b, "choice": side, "strength": value.strength}
    if isinstance(value, BestWorst):
        systems_json = _encode_json(list(systems.values()))
        return {"shown": systems_json, "best": systems[value.best or ""], "worst": systems[value.worst or ""]}
    return {"ranking": _encode_json([[systems[slot] for slot in group] for group in value.groups])}


def edit_rate(output: str, final: str) -> float:
    """Return the word edits (insertions, deletions, replacements) per word of the output.

    >>> edit_rate("a b c d", "a x c"), edit_rate("same text", "same text")
    (0.5, 0.0)
    """
    before, after = output.split(), final.split()
    return word_edits(before, after) / max(1, len(before))


def word_edits(before: Sequence[str], after: Sequence[str]) -> int:
    """Return the Levenshtein distance of two lists of words; what both begin and end with is skipped first."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    before, after = before[start:], after[start:]
    while before and after and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    row = list(range(len(after) + 1))
    for i, old_word in enumerate(before, start=1):
        diagonal, row[0] = row[0], i
        for j, new_word in enumerate(after, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (old_word != new_word))
    return row[-1]
