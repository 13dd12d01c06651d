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

from aliquot.collect.answers import Cell, Shown, missing_widgets, slot_names
from aliquot.collect.protocols import Choice, Protocol, Score, Spans, Text, Widget
from aliquot.io.formats.mqm import MQMWeights

PREFERENCE = "preference"
"""The criterion of judgments that come from comparisons."""
_NO_ERROR = "no-error"
_SIDES = (("a", "b", "tie"), ("left", "right", "equal"), ("first", "second", "same"))
"""What the column `choice` says: the first labels of which none is the name of one of the two systems."""
Record = dict[str, Any]


@dataclass(frozen=True)
class Given:
    """One answer with what is known of how it was given."""

    answer: Mapping[str, Any]
    seconds: float | None
    time: float
    guidelines: int


@dataclass(frozen=True)
class Page:
    """A submitted unit: who did what, in which order the systems were shown."""

    assignment: str
    annotator: str
    shown: Shown
    slots: Sequence[int]
    order: int  # judgments that the annotator had given before
    marked: str | None = None

    def systems_shown(self) -> dict[str, str]:
        """Return slot -> system."""
        return {slot: self.shown.systems[at] for slot, at in zip(slot_names(len(self.slots)), self.slots, strict=True)}


def derive(
    protocol: Protocol, page: Page, given: Mapping[str, Given], controls: Mapping[str, Mapping[str, Any]]
) -> tuple[list[Record], list[Record]]:
    """Return the rows of judgments and of choices that these answers make; incomplete answers make none."""
    judgments: list[Record] = []
    choices: list[Record] = []
    for number, cell in enumerate(page.shown.cells.values()):
        found = given.get(cell.id)
        if found is None or missing_widgets(protocol, cell.scope, found.answer):
            continue
        control = dict(controls.get(cell.id, {}))
        known = control.pop("range", None)
        common = _common(protocol, page, cell, found, number) | control
        rows = [common | row for row in _judgment_rows(protocol, page, cell, found)]
        judgments += [row | {"expected": _expected(row, known)} for row in rows] if known else rows
        choices += [_choice_common(page, cell, found) | row for row in _choice_rows(protocol, page, cell, found)]
    return judgments, choices


def _expected(row: Record, known: Sequence[float]) -> float | None:
    """The right answer nearest to the one given: within a known range every answer is right, as `clean` counts it."""
    value, (low, high) = row.get("value"), known
    return None if value is None else min(max(value, low), high)


def _common(protocol: Protocol, page: Page, cell: Cell, given: Given, number: int) -> Record:
    return {
        "assignment_id": page.assignment,
        "cell_id": cell.id,
        "annotator": page.annotator,
        "criterion": None,
        "seconds": given.seconds,
        "time": given.time,
        "order": page.order + number + 1,
        "page": page.assignment,
        "protocol": protocol.name,
        "guidelines": given.guidelines,
        "marked": page.marked,
    }


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _judgment_rows(protocol: Protocol, page: Page, cell: Cell, given: Given) -> Iterator[Record]:
    widgets = protocol.of_scope(cell.scope)
    asked = [w for w in widgets if _is_value(w, widgets)]
    comment = next((given.answer.get(w.name) for w in widgets if isinstance(w, Text) and w.style == "comment"), None)
    spans = next((given.answer.get(w.name) for w in widgets if isinstance(w, Spans)), None)
    extra: Record = {"text": comment or None}
    if spans is not None and any(isinstance(w, Score) for w in asked):
        extra["spans"] = _json(spans)
    for widget in asked:
        value = given.answer.get(widget.name)
        if value is None:
            continue
        name = widget.name if len(asked) > 1 else None
        for row in _rows_of(widget, value, name, page, cell, given):
            yield extra | row


def _is_value(widget: Widget, beside: Sequence[Widget]) -> bool:
    if isinstance(widget, Spans):
        return not any(isinstance(other, Score) for other in beside)
    return isinstance(widget, Score | Choice) or (isinstance(widget, Text) and widget.style == "postedit")


def _rows_of(widget: Widget, value: Any, name: str | None, page: Page, cell: Cell, given: Given) -> Iterator[Record]:
    if isinstance(widget, Choice):
        yield from _preferences(widget, value, page, cell, given)
        return
    for place in _places(page, cell):
        if isinstance(widget, Score):
            by_criterion = value if widget.criteria else {name: value}
            seconds = None if given.seconds is None else round(given.seconds / len(by_criterion), 3)  # they add up
            for criterion, number in by_criterion.items():
                yield place | {"criterion": criterion, "value": float(number), "seconds": seconds}
        elif isinstance(widget, Spans):
            yield from (place | row for row in _errors(widget, value, name))
        elif isinstance(widget, Text):
            output = page.shown.rows[cell.row or 0]["outputs"][cell.output or 0]["text"]
            yield place | {"criterion": name, "value": -100.0 * edit_rate(output, value) + 0.0, "text": value}


def _places(page: Page, cell: Cell) -> Iterator[Record]:
    """Yield item and system of the outputs that an answer is about."""
    if cell.output is not None:
        yield {"item": _json(page.shown.item(cell)), "system": page.shown.systems[cell.output]}
        return
    item = page.shown.judged_items()[0] if cell.row is None else page.shown.item(cell)
    for system in page.shown.systems:
        yield {"item": _json(item), "system": system}


def _errors(widget: Spans, spans: Sequence[Mapping[str, Any]], name: str | None) -> Iterator[Record]:
    """Yield one row for each error, with minus its weight; one row with 0 where there is none."""
    criterion = name or "mqm"
    if not spans:
        yield {"criterion": criterion, "value": 0.0, "error": 0, "category": _NO_ERROR, "severity": _NO_ERROR}
    for number, span in enumerate(spans):
        yield {
            "criterion": criterion,
            "value": -_weight(widget, span) + 0.0,
            "error": number,
            "category": span["category"] or "Other",
            "severity": span["severity"],
            "span": span["quote"],
            "start": span["start"],
            "end": span["end"],
            "side": span["side"],
        }


_WMT = MQMWeights()


def _weight(widget: Spans, span: Mapping[str, Any]) -> float:
    """Return the severity's weight; the categories that WMT weighs otherwise keep WMT's weights."""
    own = next((severity.weight for severity in widget.severities if severity.name == span["severity"]), 0.0)
    category = span["category"] or ""
    usual, special = _WMT.of("", span["severity"]), _WMT.of(category, span["severity"])
    return own if special is None or special == usual else special


def _preferences(widget: Choice, value: Any, page: Page, cell: Cell, given: Given) -> Iterator[Record]:
    systems = page.systems_shown()
    values = _choice_values(widget, value, list(systems))
    for place in _places(page, cell):
        slot = next(slot for slot, system in systems.items() if system == place["system"])
        seconds = None if given.seconds is None else round(given.seconds / len(systems), 3)  # so that they add up
        yield place | {"criterion": PREFERENCE, "value": values[slot], "seconds": seconds}


def _choice_values(widget: Choice, value: Any, slots: Sequence[str]) -> dict[str, float]:
    if widget.style == "pairwise":
        chosen = value["choice"] if isinstance(value, dict) else value
        return {slot: 0.5 if chosen == "tie" else float(slot == chosen) for slot in slots}
    if widget.style == "best-worst":
        return {slot: float(slot == value["best"]) - float(slot == value["worst"]) for slot in slots}
    ranks: dict[str, float] = {}
    for group in value:
        first = len(ranks) + 1
        ranks |= dict.fromkeys(group, -(first + (len(group) - 1) / 2))
    return ranks


def _choice_common(page: Page, cell: Cell, given: Given) -> Record:
    item = (page.shown.document or page.shown.judged_items()[0]) if cell.row is None else page.shown.item(cell)
    return {
        "assignment_id": page.assignment,
        "cell_id": cell.id,
        "item": _json(item),
        "annotator": page.annotator,
        "seconds": given.seconds,
        "time": given.time,
        "marked": page.marked,
    }


def _choice_rows(protocol: Protocol, page: Page, cell: Cell, given: Given) -> Iterator[Record]:
    systems = page.systems_shown()
    widgets = protocol.of_scope(cell.scope)
    comment = next((given.answer.get(w.name) for w in widgets if isinstance(w, Text) and w.style == "comment"), None)
    for widget in widgets:
        value = given.answer.get(widget.name)
        if value is None:
            continue
        if isinstance(widget, Choice):
            yield {"text": comment or None} | _choice_row(widget, value, systems)
        elif isinstance(widget, Text) and widget.style == "postedit":
            output = page.shown.rows[cell.row or 0]["outputs"][cell.output or 0]["text"]
            yield {"system_a": page.shown.systems[cell.output or 0], "output_a": output, "final": value}


def _choice_row(widget: Choice, value: Any, systems: Mapping[str, str]) -> Record:
    if widget.style == "pairwise":
        chosen, strength = (value["choice"], value.get("strength")) if isinstance(value, dict) else (value, None)
        (first, a), (_, b) = systems.items()
        left, right, tie = next(labels for labels in _SIDES if not {a, b} & {*labels})
        side = tie if chosen == "tie" else left if chosen == first else right
        return {"system_a": a, "system_b": b, "choice": side, "strength": strength}
    if widget.style == "best-worst":
        shown = _json(list(systems.values()))
        return {"shown": shown, "best": systems[value["best"]], "worst": systems[value["worst"]]}
    return {"ranking": _json([[systems[slot] for slot in group] for group in value])}


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
    for i, one in enumerate(before, start=1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(after, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (one != other))
    return row[-1]
