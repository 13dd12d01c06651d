"""Units of work: which items of which systems are judged together, with what context. Pure; knows no database.

Invariants: every selected cell is in exactly one unit (with `pairs="all"`, or where the number of systems does not
divide by the number shown, in at least one); the rows of a unit are in reading order; context is never judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from aliquot.collect.protocols import Protocol
from aliquot.core.evalset import EvalSet, ItemId
from aliquot.core.selection import Selection
from aliquot.errors import DataError, quoted
from aliquot.validation import at_least, one_of

PAIRS = ("balanced", "all")
UNIT_ITEMS = 10


@dataclass(frozen=True)
class UnitRow:
    """One item of a unit; context is shown in grey and not judged."""

    item: ItemId
    context: bool = False


@dataclass(frozen=True)
class Unit:
    """What an annotator gets at once: items of one document, of one system or of several side by side."""

    document: str | None
    systems: tuple[str, ...]
    rows: tuple[UnitRow, ...]

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
    one_of("pairs", pairs, PAIRS)
    at_least("unit_items", unit_items, 1)
    wanted = _cells_to_judge(evalset, selection, skip_missing=skip_missing)
    rng = np.random.default_rng(seed)
    rotation = _Rotation(protocol, pairs, rng)
    units: list[Unit] = []
    for document, order in _list_documents(evalset):
        for systems, items in _by_systems(order, wanted):
            for group in rotation.groups(systems, len(items)):
                units += [
                    Unit(document, group, rows) for rows in _split_items(order, items, protocol.context, unit_items)
                ]
    return [units[index] for index in rng.permutation(len(units))]


def _cells_to_judge(
    evalset: EvalSet, selection: Selection | None, *, skip_missing: bool
) -> dict[ItemId, tuple[str, ...]]:
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
        present = tuple(name for name in names if texts[name][row_of[item]] is not None)
        missing += [(item, name) for name in names if name not in present]
        if present:
            wanted[item] = present
    if missing and not skip_missing:
        item, system = missing[0]
        more = f" ({len(missing)} outputs are missing in all)" if len(missing) > 1 else ""
        raise DataError(
            f"{evalset.name}: item {item!r} has no output of the system '{system}'{more}; add it, or leave "
            "such outputs out with `skip_missing`"
        )
    if not wanted:
        raise DataError(f"{evalset.name}: no output is left to judge; check the selection")
    return wanted


def _list_documents(evalset: EvalSet) -> Iterator[tuple[str | None, list[ItemId]]]:
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
        has_positions = all(places[row] is not None for row in rows)
        order = sorted(rows, key=lambda row: (places[row], row)) if has_positions else rows
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


def _split_items(
    order: Sequence[ItemId], items: Sequence[ItemId], context: int, limit: int
) -> Iterator[tuple[UnitRow, ...]]:
    """Yield parts of about equal size, each with its neighbours as context."""
    place = {item: index for index, item in enumerate(order)}
    for part in np.array_split(np.arange(len(items)), -(-len(items) // limit)):
        judged = {place[items[index]] for index in part.tolist()}
        visible = {
            near for index in judged for near in range(index - context, index + context + 1) if 0 <= near < len(order)
        }
        yield tuple(UnitRow(order[index], index not in judged) for index in sorted(visible))


# -- which systems are shown together ------------------------------------------------------------------------------


class _Rotation:
    """Assigns systems to groups so that all pairs are shown together equally often."""

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
        return self._deal_best(systems, show, weight)

    def _deal_best(self, systems: tuple[str, ...], show: int, weight: int) -> list[tuple[str, ...]]:
        """Return the best of several random groupings; a last group that is too small is filled up."""
        deals = [self._deal_once(systems, show) for _ in range(_TRIES)]
        best = min(deals, key=lambda deal: sum(self._group_cost(group) for group in deal))
        for group in best:
            for pair in combinations(group, 2):
                key = frozenset(pair)
                self.met[key] = self.met.get(key, 0) + weight
        place = {system: index for index, system in enumerate(systems)}
        return [tuple(sorted(group, key=place.__getitem__)) for group in best]

    def _deal_once(self, systems: tuple[str, ...], show: int) -> list[list[str]]:
        remaining = [systems[index] for index in self.rng.permutation(len(systems))]
        groups: list[list[str]] = []
        while remaining:
            group = [remaining.pop(0)]
            while len(group) < show:
                pool = remaining or [system for system in systems if system not in group]
                nearest = min(
                    pool, key=lambda system: sum(self._count_meetings(system, neighbour) for neighbour in group)
                )
                group.append(nearest)
                if remaining:
                    remaining.remove(nearest)
            groups.append(group)
        return groups

    def _count_meetings(self, first: str, second: str) -> float:
        return self.met.get(frozenset((first, second)), 0)

    def _group_cost(self, group: Sequence[str]) -> float:
        return sum(self._count_meetings(*pair) ** 2 for pair in combinations(group, 2))


_TRIES = 8
