"""Units of work: which items of which systems are judged together, with what context. Pure; knows no database.

Invariants: every selected cell is in exactly one unit (with `pairs="all"`, or where the number of systems does not
divide by the number shown, in at least one); the rows of a unit are in reading order; context is never judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from aliquot.collect.protocols import Protocol, Spans
from aliquot.core.columns import decode_column
from aliquot.core.conventions import list_language_pairs
from aliquot.core.evalset import EvalSet, ItemId
from aliquot.core.selection import Selection
from aliquot.errors import DataError, OptionError, quoted, unknown_name

PAIRS = ("balanced", "all")
UNIT_ITEMS = 10
_SECONDS_PER_CHARACTER, _SECONDS_PER_CELL = 0.08, 6.0  # first guesses; replaced by measured pace after the first unit


@dataclass(frozen=True)
class Row:
    """One item of a unit; context is shown in grey and not judged."""

    item: ItemId
    context: bool = False


@dataclass(frozen=True)
class Unit:
    """What an annotator gets at once: items of one document, of one system or of several side by side."""

    document: str | None
    systems: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def judged(self) -> tuple[ItemId, ...]:
        """The items to judge, in reading order."""
        return tuple(row.item for row in self.rows if not row.context)

    def cells(self, protocol: Protocol) -> Iterator[tuple[ItemId | None, str | None]]:
        """Yield what is answered: (item, system), (item, None) for an item, (None, None) for the document."""
        for item in self.judged:
            if protocol.of_scope("item"):
                yield item, None
            if protocol.of_scope("output"):
                for system in self.systems:
                    yield item, system
        if protocol.of_scope("document"):
            yield None, None


def make_units(
    evalset: EvalSet,
    selection: Selection | None,
    protocol: Protocol,
    *,
    seed: int = 0,
    unit_items: int = UNIT_ITEMS,
    pairs: str = "balanced",
    skip_missing: bool = False,
) -> list[Unit]:
    """Cut the selected cells into units, in a random order.

    Args:
        evalset: the data, with outputs.
        selection: the items to judge (and the systems, where the selection names them); None means all.
        protocol: how they are judged.
        seed: same seed, same units in the same order.
        unit_items: at most so many items in a unit.
        pairs: "balanced" shows each output once, and all pairs of systems equally often; "all" shows every pair.
        skip_missing: leave out cells without an output instead of refusing them.

    >>> import aliquot
    >>> from aliquot.collect.protocols import load_protocol
    >>> data = aliquot.synthetic(items=4, systems=2, seed=1)
    >>> len(make_units(data, None, load_protocol("da")))  # one document, two systems
    2
    """
    if pairs not in PAIRS:
        raise unknown_name("--pairs", pairs, PAIRS)
    if unit_items < 1:
        raise OptionError(f"--unit-items {unit_items}: a unit has at least 1 item")
    wanted = _wanted(evalset, selection, skip_missing=skip_missing)
    rng = np.random.default_rng(seed)
    rotation = _Rotation(protocol, pairs, rng)
    units: list[Unit] = []
    for document, order in _documents(evalset):
        for systems, items in _by_systems(order, wanted):
            for group in rotation.groups(systems, len(items)):
                units += [Unit(document, group, rows) for rows in _parts(order, items, protocol.context, unit_items)]
    return [units[at] for at in rng.permutation(len(units))]


def _wanted(evalset: EvalSet, selection: Selection | None, *, skip_missing: bool) -> dict[ItemId, tuple[str, ...]]:
    """Item -> systems to judge; every cell has an output."""
    if evalset.outputs is None:
        raise DataError(f'{evalset.name}: there are no outputs to judge; give them as "tgt": {{"sysA": "..."}}')
    ids = evalset.ids if selection is None else list(selection.ids)
    systems = (
        selection.systems if selection is not None and selection.systems is not None else [evalset.systems] * len(ids)
    )
    row_of = {item: row for row, item in enumerate(evalset.ids)}
    texts = {system: evalset.outputs[system].to_list() for system in evalset.systems}
    wanted: dict[ItemId, tuple[str, ...]] = {}
    missing: list[tuple[ItemId, str]] = []
    for item, names in zip(ids, systems, strict=True):
        unknown = next((name for name in names if name not in texts), None)
        if unknown is not None:
            raise DataError(
                f"{evalset.name}: the selection asks for the system '{unknown}' on item {item!r}, which is "
                f"not in the data (there are {quoted(evalset.systems, 5)}); give the data it was made "
                "from"
            )
        there = tuple(name for name in names if texts[name][row_of[item]] is not None)
        missing += [(item, name) for name in names if name not in there]
        if there:
            wanted[item] = there
    if missing and not skip_missing:
        item, system = missing[0]
        more = f" ({len(missing)} outputs are missing in all)" if len(missing) > 1 else ""
        raise DataError(
            f"{evalset.name}: item {item!r} has no output of the system '{system}'{more}; add it, or leave "
            "such outputs out with --skip-missing / skip_missing=True"
        )
    if not wanted:
        raise DataError(f"{evalset.name}: no output is left to judge; check the selection")
    return wanted


def _documents(evalset: EvalSet) -> Iterator[tuple[str | None, list[ItemId]]]:
    """Yield each document with its items in reading order; an item without a document stands alone."""
    ids = evalset.ids
    codes = evalset.documents
    if codes is None:
        yield from ((None, [item]) for item in ids)
        return
    names = evalset.items["document"].to_list()
    places = evalset.items["position"].to_list() if "position" in evalset.items.columns else [None] * len(ids)
    by_code: dict[int, list[int]] = {}
    for row, code in enumerate(codes.tolist()):
        by_code.setdefault(code, []).append(row)
    for rows in by_code.values():
        known = all(places[row] is not None for row in rows)
        order = sorted(rows, key=lambda row: (places[row], row)) if known else rows
        yield None if names[rows[0]] is None else str(names[rows[0]]), [ids[row] for row in order]


def _by_systems(
    order: Sequence[ItemId], wanted: Mapping[ItemId, tuple[str, ...]]
) -> Iterator[tuple[tuple[str, ...], list[ItemId]]]:
    """Yield the document's items that have the same systems to judge, together."""
    groups: dict[tuple[str, ...], list[ItemId]] = {}
    for item in order:
        if item in wanted:
            groups.setdefault(wanted[item], []).append(item)
    yield from groups.items()


def _parts(order: Sequence[ItemId], items: Sequence[ItemId], context: int, most: int) -> Iterator[tuple[Row, ...]]:
    """Yield parts of about equal size, each with its neighbours as context."""
    place = {item: at for at, item in enumerate(order)}
    for part in np.array_split(np.arange(len(items)), -(-len(items) // most)):
        judged = {place[items[at]] for at in part.tolist()}
        shown = {near for at in judged for near in range(at - context, at + context + 1) if 0 <= near < len(order)}
        yield tuple(Row(order[at], at not in judged) for at in sorted(shown))


# -- which systems are shown together ------------------------------------------------------------------------------


class _Rotation:
    """Deals systems into groups so that over the documents every pair meets equally often."""

    def __init__(self, protocol: Protocol, pairs: str, rng: np.random.Generator) -> None:
        self.protocol, self.pairs, self.rng = protocol, pairs, rng
        self.met: dict[frozenset[str], float] = {}

    def groups(self, systems: tuple[str, ...], weight: int) -> list[tuple[str, ...]]:
        if not self.protocol.side_by_side:
            return [(system,) for system in systems]
        if len(systems) < 2:
            raise DataError(
                f"the protocol '{self.protocol.name}' compares systems, and on some items only one is "
                "selected; select at least two on each item, or take another protocol"
            )
        show = len(systems) if self.protocol.show == "all" else min(self.protocol.show, len(systems))
        if show == len(systems):
            return [systems]
        if self.pairs == "all":
            return list(combinations(systems, show))
        return self._dealt(systems, show, weight)

    def _dealt(self, systems: tuple[str, ...], show: int, weight: int) -> list[tuple[str, ...]]:
        """Deal all systems, the best of some random deals; a last group that is too small takes others in."""
        deals = [self._deal(systems, show) for _ in range(_TRIES)]
        best = min(deals, key=lambda deal: sum(self._cost(group) for group in deal))
        for group in best:
            for pair in combinations(group, 2):
                key = frozenset(pair)
                self.met[key] = self.met.get(key, 0) + weight
        place = {system: at for at, system in enumerate(systems)}
        return [tuple(sorted(group, key=place.__getitem__)) for group in best]

    def _deal(self, systems: tuple[str, ...], show: int) -> list[list[str]]:
        left = [systems[at] for at in self.rng.permutation(len(systems))]
        groups: list[list[str]] = []
        while left:
            group = [left.pop(0)]
            while len(group) < show:
                pool = left or [system for system in systems if system not in group]
                nearest = min(pool, key=lambda system: sum(self._met(system, other) for other in group))
                group.append(nearest)
                if left:
                    left.remove(nearest)
            groups.append(group)
        return groups

    def _met(self, one: str, other: str) -> float:
        return self.met.get(frozenset((one, other)), 0)

    def _cost(self, group: Sequence[str]) -> float:
        return sum(self._met(*pair) ** 2 for pair in combinations(group, 2))


_TRIES = 8


# -- what is shown -------------------------------------------------------------------------------------------------


class Texts:
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
        self.prefilled = _prefilled(evalset, protocol)

    def row(self, row: Row, systems: Sequence[str]) -> dict[str, Any]:
        """Return what is shown of an item: source, reference, media, outputs in the order of `systems`."""
        at = self.row_of[row.item]
        pair = self.pairs[at] if len(self.pairs[at]) == 2 else ["", ""]
        shown: dict[str, Any] = {"item": row.item, "context": row.context}
        if self.source[at] is not None:
            shown["source"] = {"text": self.source[at]} | ({"lang": pair[0]} if pair[0] else {})
        if self.reference[at] is not None:
            shown["reference"] = {"text": self.reference[at]} | ({"lang": pair[1]} if pair[1] else {})
        if self.media[at]:
            shown["media"] = _media(self.media[at], row.item)
        shown["outputs"] = [self._output(at, system, row, pair[1]) for system in systems]
        return shown

    def _output(self, at: int, system: str, row: Row, language: str) -> dict[str, Any]:
        output: dict[str, Any] = {"text": self.outputs[system][at] or ""}
        if language:
            output["lang"] = language
        suggested = self.prefilled[at].get(system) if self.prefilled and not row.context else None
        if suggested is not None:
            output["prefilled"] = suggested
        return output


def _media(value: Any, item: ItemId) -> list[dict[str, str]]:
    entries = value if isinstance(value, list) else [value]
    for entry in entries:
        if not (isinstance(entry, dict) and entry.get("kind") in ("audio", "image", "video") and entry.get("url")):
            raise DataError(
                f"item {item!r}: the field media should be a list of {{kind, url}} with the kind audio, "
                f"image or video, found {entry!r}; correct it"
            )
    return [{"kind": entry["kind"], "url": str(entry["url"])} for entry in entries]


def _prefilled(evalset: EvalSet, protocol: Protocol) -> list[dict[str, list[dict[str, Any]]]] | None:
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
    values = decode_column(evalset.items[widget.prefill])
    known = {severity.name for severity in widget.severities}
    found: list[dict[str, list[dict[str, Any]]]] = []
    for item, by_system in zip(evalset.ids, values, strict=True):
        spans: dict[str, list[dict[str, Any]]] = {}
        for system, given in (by_system or {}).items() if isinstance(by_system, dict) else ():
            text = (
                "" if evalset.outputs is None or system not in evalset.systems else evalset.outputs[system][len(found)]
            )
            spans[system] = [_suggested(span, text or "", known, item) for span in given or ()]
        found.append(spans)
    return found


def _suggested(span: Any, text: str, known: Iterable[str], item: ItemId) -> dict[str, Any]:
    start, end = (span.get("start"), span.get("end")) if isinstance(span, dict) else (None, None)
    if not (isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= len(text)):
        raise DataError(
            f"item {item!r}: a suggested span should have start and end within the output's {len(text)} "
            f"characters, found {span!r}; correct it"
        )
    severity = span.get("severity")
    if severity not in known:
        raise DataError(
            f"item {item!r}: a suggested span has the severity {severity!r}; the protocol has {quoted(known)}"
        )
    return {
        "start": start,
        "end": end,
        "quote": text[start:end],
        "severity": severity,
        "category": span.get("category"),
        "side": "output",
    }


def shown_rows(unit: Unit, texts: Texts) -> list[dict[str, Any]]:
    """Return all rows of a unit with their texts; outputs are in the order of the unit's systems."""
    return [texts.row(row, unit.systems) for row in unit.rows]


def characters(rows: Iterable[Mapping[str, Any]]) -> int:
    """Count the characters to be read for judging: sources and outputs that are no context."""
    judged = [row for row in rows if not row["context"]]
    sources = sum(len(row["source"]["text"]) for row in judged if "source" in row)
    return sources + sum(len(output["text"]) for row in judged for output in row["outputs"])


def expected_seconds(n_cells: int, n_chars: int) -> float:
    """Guess how long a unit takes before anybody has done one."""
    return _SECONDS_PER_CELL * n_cells + _SECONDS_PER_CHARACTER * n_chars
