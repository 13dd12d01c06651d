"""Proving that judgments are what the log says: all events are applied to empty tables again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from aliquot.collect.events import Log
from aliquot.collect.protocols import Protocol
from aliquot.collect.schema import DERIVED, metadata, tables_of
from aliquot.collect.statements import decode, sql
from aliquot.collect.units import Texts


@dataclass(frozen=True)
class CheckResult:
    """What `collect check` found: the number of events, and differences between the log and the tables."""

    events: int
    judgments: int
    faults: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether the tables are what the log says."""
        return not self.faults

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {"events": self.events, "judgments": self.judgments, "sound": self.sound, "faults": list(self.faults)}


def rebuilt(source: Connection, protocol: Protocol, texts: Callable[[], Texts]) -> dict[str, list[dict[str, Any]]]:
    """Return the derived tables as the log makes them."""
    engine = sa.create_engine("sqlite://", poolclass=sa.pool.StaticPool)
    metadata.create_all(engine)
    log = Log(protocol, texts)
    with engine.begin() as memory:
        for row in source.execute(sql("SELECT time, kind, payload FROM events ORDER BY id")):
            log.apply(memory, row.time, row.kind, decode(row.payload))
        found = tables_of(memory)
    engine.dispose()
    return found


def check(source: Connection, protocol: Protocol, texts: Callable[[], Texts]) -> CheckResult:
    """Compare every derived table with what the log makes of it, and look at the database itself."""
    faults: list[str] = []
    if source.dialect.name == "sqlite":
        said = source.exec_driver_sql("PRAGMA quick_check").scalars().all()
        faults += [f"the file is damaged: {line}" for line in said if line != "ok"]
    stored, made = tables_of(source), rebuilt(source, protocol, texts)
    for name in DERIVED:
        differs = _differences(stored[name], made[name])
        if differs:
            faults.append(f"{name}: {differs}")
    over = source.execute(sql("SELECT COUNT(*) FROM units WHERE taken > wanted")).scalar()
    if over:
        faults.append(f"units: {over} have more judgments than wanted")
    events = int(source.execute(sql("SELECT COUNT(*) FROM events")).scalar() or 0)
    return CheckResult(events, len(stored["judgments"]), tuple(faults))


def _differences(stored: list[dict[str, Any]], made: list[dict[str, Any]]) -> str:
    one, other = ([tuple(row.items()) for row in rows] for rows in (stored, made))
    if one == other:
        return ""
    extra = sum(row not in set(other) for row in one)
    lacking = sum(row not in set(one) for row in other)
    return f"{extra} rows are not in the log, {lacking} rows of the log are missing or differ"
