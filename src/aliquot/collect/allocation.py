"""Adaptive queue: an Allocator decides while people judge which system is judged next on which item.

Units are made when somebody needs work and none is open. The log keeps what the allocator was told and what it asked
for, so that every process, and a server that starts again, has the same allocator: the same log, the same next cells.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy.engine import Connection

from aliquot.collect.creating import add_units
from aliquot.collect.event_types import CellsAllocated
from aliquot.collect.events import Log
from aliquot.collect.new_campaign import AllocationOptions
from aliquot.collect.protocols import Protocol
from aliquot.collect.statements import ALLOCATING, decode, one_at_a_time, sql
from aliquot.collect.units import make_units
from aliquot.core.evalset import EvalSet
from aliquot.core.selection import Selection
from aliquot.sampling.allocator import Advice, Allocator
from aliquot.sampling.allocator_inputs import Ask

_CELLS = 10  # asked for at once: enough for a unit, few enough to learn from every answer soon


class Allocation:
    """An allocator whose state is replayed from a campaign's log."""

    def __init__(self, evalset: EvalSet, protocol: Protocol, options: AllocationOptions, seed: int) -> None:
        self._evalset, self._protocol, self._seed = evalset, protocol, seed
        self._options = msgspec.structs.asdict(options) | {"unit": unit_of(evalset, protocol), "seed": seed}
        self._lock = threading.RLock()
        self.forget()

    def forget(self) -> None:
        """Reset the state after a rollback or an erased event; it is replayed from the log at the next use."""
        with self._lock:
            self._allocator: Allocator | None = None
            self._event = 0  # the last event that was taken
            self._known: set[tuple[str, str, str]] = set()  # item, system, annotator of judgments that it knows

    def current(self, connection: Connection) -> Allocator:
        """Return the allocator after all events so far."""
        with self._lock:
            return self._read_log(connection)

    def _read_log(self, connection: Connection) -> Allocator:
        allocator = self._allocator = self._allocator or Allocator(self._evalset, **self._options)
        rows = connection.execute(
            sql("SELECT id, payload FROM events WHERE kind = 'allocate' AND id > :last ORDER BY id"),
            {"last": self._event},
        ).all()
        for row in rows:
            for event in decode(row.payload)["log"]:
                allocator.replay(event)
                if event["event"] == "judgment":
                    self._known.add((str(event["item"]), event["system"], str(event.get("annotator"))))
            self._event = row.id
        return allocator

    def more(self, log: Log, connection: Connection, wanted: int, now: float, cells: int = _CELLS) -> int:
        """Ask for more cells and put them into the queue; return how many units that makes, 0 at the end."""
        one_at_a_time(connection, ALLOCATING)
        with self._lock:
            return self._add_asked_units(log, connection, wanted, now, cells)

    def _add_asked_units(self, log: Log, connection: Connection, wanted: int, now: float, cells: int) -> int:
        allocator = self._read_log(connection)
        before = len(allocator.state()["log"])
        allocator.add(self._list_new_judgments(connection))
        if allocator.advice().stop:
            asks: list[Ask] = []
        else:
            asks = allocator.next(cells)
        entries = allocator.state()["log"][before:]
        if not entries:
            return 0
        log.append(connection, now, "system", CellsAllocated(log=entries))
        self._event = int(connection.execute(sql("SELECT MAX(id) FROM events WHERE kind = 'allocate'")).scalar() or 0)
        if not asks:
            return 0
        units = make_units(self._evalset, asked_cells(self._evalset, asks), self._protocol, seed=self._seed + before)
        add_units(log, connection, units, wanted, now)
        return len(units)

    def _list_new_judgments(self, connection: Connection) -> list[tuple[Any, ...]]:
        """Return judgments that the allocator has not received, errors summed; later changes of an answer are ignored.

        Marks are ignored: what is known of an annotator may depend on the scores. Automatic judges are a metric.
        """
        rows = connection.execute(
            sql(
                "SELECT item, system, annotator, SUM(value) AS total, AVG(value) AS mean, MAX(error) AS errors, "
                'MIN("order") AS place FROM judgments WHERE control IS NULL AND "repeat" IS NULL '
                "AND value IS NOT NULL AND annotator NOT IN (SELECT name FROM annotators WHERE kind = 'model') "
                "GROUP BY item, system, annotator ORDER BY MIN(time), place"
            )
        ).all()
        fresh = []
        for row in rows:
            item = decode(row.item)
            key = (str(item), row.system, str(row.annotator))
            if key not in self._known:
                self._known.add(key)
                fresh.append(
                    (item, row.system, float(row.total if row.errors is not None else row.mean), row.annotator)
                )
        return fresh

    def selection(self, connection: Connection) -> Selection | None:
        """Return the cells requested so far with their probabilities; None before the first."""
        with self._lock:
            allocator = self._read_log(connection)
            return allocator.selection() if allocator.asked else None

    def advice(self, connection: Connection) -> Advice:
        """Return the allocator's current advice."""
        with self._lock:
            return self._read_log(connection).advice()


def unit_of(evalset: EvalSet, protocol: Protocol) -> str:
    """Return the allocation unit: item for comparisons, else document where there are documents, else cell."""
    if protocol.side_by_side:
        return "item"
    return "document" if evalset.documents is not None else "cell"


def asked_cells(evalset: EvalSet, asks: Sequence[Ask]) -> Selection:
    """Convert the allocator's requests to a selection."""
    systems: dict[Any, list[str]] = {}
    for ask in asks:
        systems.setdefault(ask.item, []).append(ask.system)
    return Selection(
        tuple(systems), evalset.n_items, "allocate", systems=tuple(tuple(names) for names in systems.values())
    )
