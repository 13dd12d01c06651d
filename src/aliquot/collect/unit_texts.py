"""What an annotator sees of a unit: texts of the rows and outputs, and the cells that are answered.

These structs are also the JSON of the column `units.payload`. The order of their fields is that of the stored keys:
`collect check` compares the stored text with the one made from the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from aliquot.collect.protocols import Protocol, Spans
from aliquot.collect.units import Unit, UnitRow
from aliquot.core.columns import decode_column
from aliquot.core.conventions import list_language_pairs
from aliquot.core.evalset import EvalSet, ItemId
from aliquot.errors import DataError, quoted

SLOTS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SECONDS_PER_CHARACTER, _SECONDS_PER_CELL = 0.08, 6.0  # first guesses; replaced by measured pace after the first unit


class MarkedSpan(msgspec.Struct, frozen=True):
    """An error marked in a text. Offsets are code points; `digest` identifies the text that was shown."""

    start: int
    end: int
    quote: str
    severity: str | None
    category: str | None = None
    side: str = "output"
    digest: str | UnsetType = msgspec.field(default=UNSET, name="text")


class ShownText(msgspec.Struct, omit_defaults=True):
    """A source or a reference."""

    text: str
    lang: str | None = None


class ShownOutput(msgspec.Struct, omit_defaults=True):
    """An output, the spans it begins with, and the cell that asks about it."""

    text: str
    lang: str | None = None
    prefilled: list[MarkedSpan] | None = None
    cell: str | None = None


class Medium(msgspec.Struct):
    """A sound, an image or a video."""

    kind: Literal["audio", "image", "video"]
    url: str


class ShownRow(msgspec.Struct, omit_defaults=True, kw_only=True):
    """An item of a unit; outputs are in the order of the unit's systems. Context is not judged."""

    item: ItemId
    context: bool
    source: ShownText | None = None
    reference: ShownText | None = None
    media: list[Medium] | None = None
    outputs: list[ShownOutput]
    cell: str | None = None


class UnitPayload(msgspec.Struct, omit_defaults=True):
    """The JSON of the column `units.payload`."""

    rows: list[ShownRow]
    document_cell: str | None = None


@dataclass(frozen=True)
class Cell:
    """Where an answer belongs: to an output, an item (no output) or a document (no row)."""

    id: str
    scope: str
    row: int | None = None
    output: int | None = None


@dataclass(frozen=True)
class ShownUnit:
    """A unit as it is stored: systems, rows with texts and cells."""

    systems: tuple[str, ...]
    rows: list[ShownRow]
    document: str | None
    document_cell: str | None

    @classmethod
    def read(cls, systems: str, document: str | None, payload: str) -> ShownUnit:
        """Read the columns of the table `units`."""
        content = msgspec.json.decode(payload, type=UnitPayload)
        return cls(tuple(msgspec.json.decode(systems, type=list[str])), content.rows, document, content.document_cell)

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """All cells by their ids, in reading order."""
        cells: list[Cell] = []
        for number, row in enumerate(self.rows):
            if row.cell:
                cells.append(Cell(row.cell, "item", number))
            cells += [
                Cell(output.cell, "output", number, column) for column, output in enumerate(row.outputs) if output.cell
            ]
        if self.document_cell:
            cells.append(Cell(self.document_cell, "document"))
        return {cell.id: cell for cell in cells}

    def row(self, cell: Cell) -> ShownRow:
        """Return the row of a cell; the first for a cell of the document."""
        return self.rows[cell.row or 0]

    def output(self, cell: Cell) -> ShownOutput:
        """Return the output of a cell; the first for a cell that is about several."""
        return self.row(cell).outputs[cell.output or 0]

    def judged_items(self) -> list[ItemId]:
        """Return the items that are no context, in reading order."""
        return [row.item for row in self.rows if not row.context]


def slot_names(count: int) -> list[str]:
    """Return the names of the places side by side: A, B, ... Z, A2, B2, ...

    >>> slot_names(3)
    ['A', 'B', 'C']
    """
    return [SLOTS[slot % 26] + ("" if slot < 26 else str(slot // 26 + 1)) for slot in range(count)]


class UnitTexts:
    """The texts of a set, by item and system, as units show them."""

    def __init__(self, evalset: EvalSet, protocol: Protocol) -> None:
        self.row_of = {item: row for row, item in enumerate(evalset.ids)}
        columns = evalset.items.columns
        blank: list[Any] = [None] * evalset.n_items
        self.source = evalset.items["source"].to_list() if protocol.source and "source" in columns else blank
        self.reference = (
            evalset.items["reference"].to_list() if protocol.reference and "reference" in columns else blank
        )
        self.media = decode_column(evalset.items["media"]) if "media" in columns else blank
        outputs = evalset.outputs
        self.outputs = {} if outputs is None else {system: outputs[system].to_list() for system in evalset.systems}
        self.pairs = [(pair or "").replace("_", "-").split("-", 1) for pair in list_language_pairs(evalset)]
        self.prefilled = _read_prefilled(evalset, protocol)

    def show_unit(self, unit: Unit) -> list[ShownRow]:
        """Return all rows of a unit with their texts; outputs are in the order of the unit's systems."""
        return [self._show_row(row, unit.systems) for row in unit.rows]

    def _show_row(self, row: UnitRow, systems: Sequence[str]) -> ShownRow:
        number = self.row_of[row.item]
        source_language, language = self.pairs[number] if len(self.pairs[number]) == 2 else ("", "")
        source, reference, media = self.source[number], self.reference[number], self.media[number]
        return ShownRow(
            item=row.item,
            context=row.context,
            source=None if source is None else ShownText(source, source_language or None),
            reference=None if reference is None else ShownText(reference, language or None),
            media=_read_media(media, row.item) if media else None,
            outputs=[self._show_output(number, system, row, language) for system in systems],
        )

    def _show_output(self, number: int, system: str, row: UnitRow, language: str) -> ShownOutput:
        suggested = self.prefilled[number].get(system) if self.prefilled and not row.context else None
        return ShownOutput(self.outputs[system][number] or "", language or None, suggested)


def _read_media(value: Any, item: ItemId) -> list[Medium]:
    entries = value if isinstance(value, list) else [value]
    for entry in entries:
        if not (isinstance(entry, dict) and entry.get("kind") in ("audio", "image", "video") and entry.get("url")):
            raise DataError(
                f"item {item!r}: the field media should be a list of {{kind, url}} with the kind audio, "
                f"image or video, found {entry!r}; correct it"
            )
    return [Medium(entry["kind"], str(entry["url"])) for entry in entries]


def _read_prefilled(evalset: EvalSet, protocol: Protocol) -> list[dict[str, list[MarkedSpan]]] | None:
    """Each item's suggested spans by system, from the column that the protocol names."""
    widget = next((w for w in protocol.widgets if isinstance(w, Spans) and w.prefill), None)
    if widget is None or widget.prefill is None:
        return None
    if widget.prefill not in evalset.items.columns:
        raise DataError(
            f"{evalset.name}: the protocol '{protocol.name}' begins with the spans in the field "
            f'\'{widget.prefill}\', which the items lack; add it as {{"sysA": [{{"start": 0, "end": 4, '
            '"severity": "minor"}]}'
        )
    severities = {severity.name for severity in widget.severities}
    suggestions: list[dict[str, list[MarkedSpan]]] = []
    values = decode_column(evalset.items[widget.prefill])
    for number, (item, by_system) in enumerate(zip(evalset.ids, values, strict=True)):
        spans: dict[str, list[MarkedSpan]] = {}
        for system, entries in (by_system or {}).items() if isinstance(by_system, dict) else ():
            text = "" if evalset.outputs is None or system not in evalset.systems else evalset.outputs[system][number]
            spans[system] = [_read_suggestion(entry, text or "", severities, item) for entry in entries or ()]
        suggestions.append(spans)
    return suggestions


def _read_suggestion(span: Any, text: str, severities: Iterable[str], item: ItemId) -> MarkedSpan:
    start, end = (span.get("start"), span.get("end")) if isinstance(span, dict) else (None, None)
    if not (isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= len(text)):
        raise DataError(
            f"item {item!r}: a suggested span should have start and end within the output's {len(text)} "
            f"characters, found {span!r}; correct it"
        )
    severity = span.get("severity")
    if severity not in severities:
        raise DataError(
            f"item {item!r}: a suggested span has the severity {severity!r}; the protocol has {quoted(severities)}"
        )
    return MarkedSpan(start, end, text[start:end], severity, span.get("category"))


def count_characters(rows: Iterable[ShownRow]) -> int:
    """Count the characters to be read for judging: sources and outputs that are no context."""
    judged = [row for row in rows if not row.context]
    sources = sum(len(row.source.text) for row in judged if row.source is not None)
    return sources + sum(len(output.text) for row in judged for output in row.outputs)


def expected_seconds(n_cells: int, n_chars: int) -> float:
    """Estimate the seconds that a unit takes, from its cells and characters."""
    return _SECONDS_PER_CELL * n_cells + _SECONDS_PER_CHARACTER * n_chars
