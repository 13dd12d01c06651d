"""Units for automatic judges: outputs that people do not judge.

People judge a selection; a judge model is worth most as a metric of the whole set, because estimates use a metric on
the items that nobody judged. So everything that was not selected becomes units of the kind `model`, which no person
gets and which count in no progress.
"""

from __future__ import annotations

from sqlalchemy.engine import Connection

from aliquot.collect.creating import add_units
from aliquot.collect.events import Log
from aliquot.collect.protocols import Protocol
from aliquot.collect.statements import decode, sql
from aliquot.collect.units import Unit, make_units
from aliquot.core.evalset import EvalSet, ItemId
from aliquot.core.selection import Selection
from aliquot.errors import DataError

KIND = "model"


def add_unselected(
    log: Log, connection: Connection, evalset: EvalSet, protocol: Protocol, seed: int, now: float
) -> None:
    """Add units for all outputs that are in no unit yet, once for all judges."""
    rows = connection.execute(
        sql("SELECT DISTINCT c.item, u.systems FROM cells c JOIN units u ON u.id = c.unit_id WHERE c.item IS NOT NULL")
    )
    systems_of_item: dict[ItemId, set[str]] = {}
    for row in rows:
        systems_of_item.setdefault(decode(row.item), set()).update(decode(row.systems))
    units = cut_unselected_units(evalset, protocol, systems_of_item, seed)
    if units:
        add_units(log, connection, units, 0, now, KIND)


def cut_unselected_units(
    evalset: EvalSet, protocol: Protocol, systems_of_item: dict[ItemId, set[str]], seed: int
) -> list[Unit]:
    """Return units for the outputs that are in no unit; of whole items for side-by-side protocols."""
    remaining: dict[ItemId, tuple[str, ...]] = {}
    for item in evalset.ids:
        in_units = systems_of_item.get(item, set())
        absent = tuple(system for system in evalset.systems if system not in in_units)
        if absent and not (protocol.side_by_side and in_units):
            remaining[item] = absent
    if not remaining:
        return []
    chosen = Selection(tuple(remaining), evalset.n_items, "given", systems=tuple(remaining.values()))
    try:
        return make_units(evalset, chosen, protocol, seed=seed, skip_missing=True)
    except DataError:
        return []  # nothing that is left has an output, or enough of them to compare
