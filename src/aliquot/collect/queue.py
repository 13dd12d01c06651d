"""Who judges what next: leases that expire, exactly k finished judgments of each unit, never one annotator twice.

Invariants: `taken` of a unit is its leases plus its finished judgments, and never above `wanted`; an annotator has at
most one assignment of a unit, ever. All functions run inside a transaction of the writer.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from aliquot.collect import event_types as kinds
from aliquot.collect.events import LEASE_QUERY, Lease, Log, find_lease
from aliquot.collect.lists import choose_slot_order, hash_draw
from aliquot.collect.people import is_model
from aliquot.collect.statements import decode, lock_statement, sql
from aliquot.collect.unit_texts import expected_seconds

LEASE_SECONDS = 1800.0
LEASE_FACTOR = 10.0
_CANDIDATES = 200
_EXPIRED_AT_ONCE = 50


@dataclass(frozen=True)
class OpenUnit:
    """An open unit."""

    id: int
    systems: tuple[str, ...]


def lease_seconds(n_cells: int, n_chars: int) -> float:
    """Return how long a lease lasts after the last sign of life: generous, at least half an hour."""
    return max(LEASE_SECONDS, LEASE_FACTOR * expected_seconds(n_cells, n_chars))


def lease_expiry(connection: Connection, unit: int, now: float) -> float:
    """Return when a lease of a unit that is renewed now expires."""
    row = connection.execute(sql("SELECT n_cells, n_chars FROM units WHERE id = :id"), {"id": unit}).one()
    return now + lease_seconds(row.n_cells, row.n_chars)


def free_expired_leases(log: Log, connection: Connection, now: float) -> int:
    """Free leases that have expired, some at a time; return how many."""
    rows = connection.execute(
        lock_statement(
            connection,
            "SELECT id, policy FROM assignments WHERE state = 'leased' AND expires_at < :now ORDER BY "
            "expires_at LIMIT :most",
            skip=True,
        ),
        {"now": now, "most": _EXPIRED_AT_ONCE},
    ).all()
    for row in rows:
        log.append(connection, now, "system", kinds.LeaseExpired(assignment=row.id, keep=row.policy == "fixed"))
    return len(rows)


Planter = Callable[[Log, Connection, str, float, int], Lease | None]


def next_lease(
    log: Log, connection: Connection, annotator: str, now: float, seed: int, plant: Planter | None = None
) -> Lease | None:
    """Return the annotator's open lease, or make one; None where nothing is left for this annotator.

    `plant` may serve a check instead of work.
    """
    free_expired_leases(log, connection, now)
    lease = _find_own_lease(connection, annotator, "leased") or _resume_own(log, connection, annotator, now)
    if lease is None and plant is not None:
        lease = plant(log, connection, annotator, now, seed)
    return lease or _lease_new_unit(log, connection, annotator, now, seed)


def _find_own_lease(connection: Connection, annotator: str, state: str) -> Lease | None:
    row = connection.execute(
        sql(LEASE_QUERY + "annotator_id = :annotator AND state = :state ORDER BY position LIMIT 1"),
        {"annotator": annotator, "state": state},
    ).one_or_none()
    return None if row is None else Lease(*row)


def _resume_own(log: Log, connection: Connection, annotator: str, now: float) -> Lease | None:
    """Lease the annotator's own expired unit again, answers and all, if nobody took it; or the next of a fixed list."""
    row = connection.execute(
        sql(
            "SELECT a.id, a.unit_id, a.state FROM assignments a JOIN units u ON u.id = a.unit_id WHERE "
            "a.annotator_id = :annotator AND (a.state = 'planned' OR (a.state = 'expired' AND (u.taken < u.wanted OR "
            "EXISTS (SELECT 1 FROM annotators m WHERE m.id = :annotator AND m.kind = 'model')))) "
            "ORDER BY a.state, a.position LIMIT 1"
        ),
        {"annotator": annotator},
    ).one_or_none()
    if row is None or not has_room(connection, row.unit_id, annotator, planned=row.state == "planned"):
        return None
    expires = lease_expiry(connection, row.unit_id, now)
    log.append(connection, now, annotator, kinds.LeaseResumed(assignment=row.id, expires=expires))
    return find_lease(connection, row.id)


def has_room(connection: Connection, unit: int, annotator: str, *, planned: bool = False) -> bool:
    """Tell whether a unit may be judged once more; nobody else can take it until the transaction ends."""
    if planned or is_model(connection, annotator):
        return True
    row = connection.execute(
        lock_statement(connection, "SELECT taken, wanted FROM units WHERE id = :id"), {"id": unit}
    ).one()
    return bool(row.taken < row.wanted)


def _lease_new_unit(log: Log, connection: Connection, annotator: str, now: float, seed: int) -> Lease | None:
    candidates = _list_open_units(connection, annotator)
    if not candidates:
        return None
    exposures = _read_exposures(connection, annotator)
    claimed = _claim_unit(connection, candidates, _count_by_system(exposures), seed, annotator)
    if claimed is None:
        return None
    chosen, probability = claimed
    slots = choose_slot_order(chosen.systems, exposures, f"{seed}/{annotator}/{chosen.id}")
    position = connection.execute(
        sql("SELECT COUNT(*) FROM assignments WHERE annotator_id = :annotator"), {"annotator": annotator}
    ).scalar()
    assignment = secrets.token_urlsafe(12)
    event = kinds.UnitLeased(
        assignment=assignment,
        unit=chosen.id,
        annotator=annotator,
        position=int(position or 0) + 1,
        slots=slots,
        policy="shared",
        seed=seed,
        probability=probability,
        expires=lease_expiry(connection, chosen.id, now),
    )
    log.append(connection, now, annotator, event)
    return find_lease(connection, assignment)


def _claim_unit(
    connection: Connection, candidates: list[OpenUnit], exposures: dict[str, int], seed: int, annotator: str
) -> tuple[OpenUnit, float] | None:
    """Choose a unit that nobody else is about to take; where others hold all of them, wait for the first."""
    for skip in (True, False):
        remaining = list(candidates)
        while remaining:
            chosen, probability = choose_unit(remaining, exposures, seed, annotator)
            if connection.dialect.name != "postgresql" or is_model(connection, annotator):
                return chosen, probability
            query = "SELECT taken < wanted FROM units WHERE id = :id"
            if connection.execute(lock_statement(connection, query, skip=skip), {"id": chosen.id}).scalar():
                return chosen, probability
            remaining.remove(chosen)
    return None


def _list_open_units(connection: Connection, annotator: str) -> list[OpenUnit]:
    """Return the next open units from the annotator's own place in the random order, round to the start again."""
    start = connection.execute(sql("SELECT offset_rank FROM annotators WHERE id = :id"), {"id": annotator}).scalar()
    # An automatic judge takes every unit, also those made for judges alone, and none from people.
    model = is_model(connection, annotator)
    is_open = "u.kind IN ('work', 'model')" if model else "u.taken < u.wanted AND u.kind = 'work'"
    open_units: list[OpenUnit] = []
    for where in ("rank >= :start", "rank < :start"):
        rows = connection.execute(
            sql(
                "SELECT u.id, u.systems FROM units u WHERE "
                + is_open
                + " AND u."
                + where
                + " AND NOT EXISTS (SELECT 1 FROM assignments a WHERE a.unit_id = u.id AND a.annotator_id = "
                ":annotator) ORDER BY u.rank LIMIT :most"
            ),
            {"start": start, "annotator": annotator, "most": _CANDIDATES - len(open_units)},
        )
        open_units += [OpenUnit(row.id, tuple(decode(row.systems))) for row in rows]
        if len(open_units) >= _CANDIDATES:
            break
    return open_units


def _read_exposures(connection: Connection, annotator: str) -> dict[tuple[str, int], int]:
    rows = connection.execute(
        sql("SELECT system, slot, n FROM exposures WHERE annotator_id = :annotator"), {"annotator": annotator}
    )
    return {(row.system, row.slot): row.n for row in rows}


def _count_by_system(exposures: dict[tuple[str, int], int]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for (system, _), count in exposures.items():
        totals[system] = totals.get(system, 0) + count
    return totals


def choose_unit(
    candidates: Sequence[OpenUnit], exposures: dict[str, int], seed: int, annotator: str
) -> tuple[OpenUnit, float]:
    """Return a unit whose systems the annotator has seen least, drawn by a hash, and its probability.

    >>> choose_unit([OpenUnit(1, ("A",)), OpenUnit(2, ("B",))], {"A": 3}, 0, "ann")
    (OpenUnit(id=2, systems=('B',)), 1.0)
    """
    mean = [sum(exposures.get(system, 0) for system in unit.systems) / len(unit.systems) for unit in candidates]
    least_seen = min(mean)
    least = [unit for unit, count in zip(candidates, mean, strict=True) if count <= least_seen]
    return min(least, key=lambda unit: hash_draw(f"{seed}/{annotator}/{unit.id}")), 1.0 / len(least)
