"""The log: every change is an event, appended and applied in one transaction.

Invariant: the derived tables are what applying all events in order to empty tables gives; `rebuild_tables` does that,
and `collect check` compares. Nothing but `apply` changes a derived table.

Every event carries a digest of itself, so that damage to the log is told from damage to tables. Whoever changes a row
of a sealed table (see `aliquot.io.formats.campaign`) changes the seal in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import UNSET
from sqlalchemy.engine import Connection

from aliquot.collect import event_types as kinds
from aliquot.collect import people
from aliquot.collect.answers import missing_widgets, read_answer
from aliquot.collect.people import is_model
from aliquot.collect.protocols import Protocol
from aliquot.collect.records import Control, SubmittedUnit, TimedAnswer, derive_rows
from aliquot.collect.statements import (
    add_to_counter,
    decode,
    delete_rows,
    encode,
    event_digest,
    insert_rows,
    lock_statement,
    set_meta,
    sql,
)
from aliquot.collect.unit_texts import ShownUnit, UnitPayload, UnitTexts, count_characters
from aliquot.collect.units import Unit, UnitRow

JUDGED = "work"
MAX_CACHED_UNITS = 1024  # more than annotators who work at the same time


class Log:
    """Appends events and applies them to the derived tables."""

    def __init__(self, protocol: Protocol, texts: Callable[[], UnitTexts]) -> None:
        self.protocol, self.texts = protocol, texts
        self._units: dict[int, ShownUnit] = {}

    def append(
        self, connection: Connection, time: float, actor: str, event: kinds.Event, client_id: str | None = None
    ) -> bool:
        """Append an event and apply it; False where an event of this client id is there already."""
        payload = event.encode()
        inserted = connection.execute(
            sql(
                "INSERT INTO events (time, actor, kind, client_id, payload, digest) VALUES (:time, :actor, :kind, "
                ":client, :payload, :digest) ON CONFLICT (client_id) DO NOTHING"
            ),
            {
                "time": time,
                "actor": actor,
                "kind": event.KIND,
                "client": client_id,
                "payload": payload,
                "digest": event_digest(time, actor, event.KIND, client_id, payload),
            },
        )
        if inserted.rowcount == 0:
            return False
        self.apply(connection, time, event, payload)
        return True

    def has_event(self, connection: Connection, client_id: str) -> bool:
        """Tell whether an event of this client id is there."""
        query = sql("SELECT COUNT(*) FROM events WHERE client_id = :id")
        return bool(connection.execute(query, {"id": client_id}).scalar())

    def apply(self, connection: Connection, time: float, event: kinds.Event, payload: str) -> None:
        """Change the derived tables as an event says; `payload` is its JSON as the log keeps it."""
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, connection, time, event)
        if event.IS_AUDITED:
            insert_rows(connection, "audit", [{"time": time, "kind": event.KIND, "payload": payload}])

    def show_unit(self, connection: Connection, unit: int) -> ShownUnit:
        """Return a unit as it is shown. Units never change and are cached."""
        shown_unit = self._units.get(unit)
        if shown_unit is None:
            row = connection.execute(
                sql("SELECT systems, document, payload FROM units WHERE id = :id"), {"id": unit}
            ).one()
            if len(self._units) >= MAX_CACHED_UNITS:
                self._units.clear()
            shown_unit = self._units[unit] = ShownUnit.read(row.systems, row.document, row.payload)
        return shown_unit


@dataclass(frozen=True)
class Lease:
    """One row of the table of assignments."""

    id: str
    unit_id: int
    annotator_id: str
    state: str
    position: int
    slots: str


LEASE_QUERY = "SELECT id, unit_id, annotator_id, state, position, slots FROM assignments WHERE "


def find_lease(connection: Connection, assignment: str, *, lock: bool = False) -> Lease | None:
    """Return an assignment by its id; `lock` keeps other processes from freeing it meanwhile."""
    query = LEASE_QUERY + "id = :id"
    row = connection.execute(
        lock_statement(connection, query) if lock else sql(query), {"id": assignment}
    ).one_or_none()
    return None if row is None else Lease(*row)


def unit_kind(connection: Connection, unit: int) -> str:
    """Return whether a unit is work or a check."""
    return str(connection.execute(sql("SELECT kind FROM units WHERE id = :id"), {"id": unit}).scalar())


# -- applying: the campaign and its units --------------------------------------------------------------------------


def _store_guidelines(_log: Log, connection: Connection, time: float, event: kinds.GuidelinesWritten) -> None:
    insert_rows(connection, "guidelines", [msgspec.structs.asdict(event) | {"created": time}])


def _change_state(_log: Log, connection: Connection, _time: float, event: kinds.StateChanged) -> None:
    set_meta(connection, "state", event.state)


def _limit_workers(_log: Log, connection: Connection, _time: float, event: kinds.WorkersLimited) -> None:
    set_meta(connection, "workers", str(event.most))


def _change_wanted(_log: Log, connection: Connection, _time: float, event: kinds.JudgmentsWanted) -> None:
    """Change how often outputs are judged; units that have more already keep them."""
    before = connection.execute(sql("SELECT SUM(wanted) FROM units WHERE kind = 'work'")).scalar() or 0
    connection.execute(
        sql("UPDATE units SET wanted = CASE WHEN taken > :wanted THEN taken ELSE :wanted END WHERE kind = 'work'"),
        {"wanted": event.wanted},
    )
    after = connection.execute(sql("SELECT SUM(wanted) FROM units WHERE kind = 'work'")).scalar() or 0
    add_to_counter(connection, "wanted", int(after) - int(before))
    set_meta(connection, "per_output", str(event.wanted))


def _rejudge_work(_log: Log, connection: Connection, _time: float, event: kinds.WorkRejudged) -> None:
    """Ask for one more judgment, by somebody else, of the units that the annotator finished."""
    of_annotator = (
        "kind = 'work' AND id IN (SELECT unit_id FROM assignments WHERE annotator_id = :id AND state = 'done')"
    )
    count = connection.execute(sql(f"SELECT COUNT(*) FROM units WHERE {of_annotator}"), {"id": event.id}).scalar()
    connection.execute(sql(f"UPDATE units SET wanted = wanted + 1 WHERE {of_annotator}"), {"id": event.id})
    add_to_counter(connection, "wanted", int(count or 0))


def _add_unit(log: Log, connection: Connection, _time: float, event: kinds.UnitAdded) -> None:
    """Put a unit into its table with the texts it shows, and its cells."""
    unit = Unit(event.document, tuple(event.systems), tuple(UnitRow(item, context) for item, context in event.rows))
    content = UnitPayload(log.texts().show_unit(unit))
    damaged_texts = {} if event.texts is UNSET else event.texts
    row_of = {row.item: row for row in content.rows if not row.context}
    slot_of = {system: slot for slot, system in enumerate(unit.systems)}
    cells = []
    for cell in event.cells:
        if cell.item is None:
            content.document_cell = cell.id
        elif cell.system is None:
            row_of[cell.item].cell = cell.id
        else:
            output = row_of[cell.item].outputs[slot_of[cell.system]]
            output.cell, output.text = cell.id, damaged_texts.get(cell.id, output.text)
        cells.append(
            {
                "id": cell.id,
                "unit_id": event.id,
                "item": None if cell.item is None else encode(cell.item),
                "system": cell.system,
                "slot": slot_of.get(cell.system or "", 0),
                "control": cell.control,
                "expected": None if cell.expected is None else encode(cell.expected),
                "repeat_of": cell.repeat_of,
            }
        )
    insert_rows(
        connection,
        "units",
        [
            {
                "id": event.id,
                "rank": event.rank,
                "document": event.document,
                "systems": encode(event.systems),
                "wanted": event.wanted,
                "taken": 0,
                "kind": event.kind,
                "payload": encode(content),
                "n_cells": len(cells),
                "n_chars": count_characters(content.rows),
            }
        ],
    )
    insert_rows(connection, "cells", cells)
    if event.kind == JUDGED:
        add_to_counter(connection, "units", 1)
        add_to_counter(connection, "wanted", event.wanted)


# -- applying: assignments -----------------------------------------------------------------------------------------


def _add_assignment(_log: Log, connection: Connection, time: float, event: kinds.UnitPlanned) -> None:
    """Add an assignment that is leased, or an entry of a fixed list, which counts as taken from the beginning."""
    leased = isinstance(event, kinds.UnitLeased)
    insert_rows(
        connection,
        "assignments",
        [
            {
                "id": event.assignment,
                "unit_id": event.unit,
                "annotator_id": event.annotator,
                "state": "leased" if leased else "planned",
                "position": event.position,
                "slots": encode(event.slots),
                "policy": event.policy,
                "probability": event.probability,
                "leased_at": time if leased else None,
                "expires_at": event.expires if isinstance(event, kinds.UnitLeased) else None,
                "done_at": None,
            }
        ],
    )
    _count_exposures(connection, event)
    if not is_model(connection, event.annotator):
        _add_taken(connection, event.unit, 1)
        if leased:
            _record_first_lease(connection, time)


def _add_taken(connection: Connection, unit: int, by: int) -> None:
    """Change the number of people who have or finished a unit; automatic judges are not counted."""
    connection.execute(sql("UPDATE units SET taken = taken + :by WHERE id = :id"), {"by": by, "id": unit})


def _count_exposures(connection: Connection, event: kinds.UnitPlanned) -> None:
    systems = decode(
        str(connection.execute(sql("SELECT systems FROM units WHERE id = :id"), {"id": event.unit}).scalar())
    )
    for slot, number in enumerate(event.slots):
        connection.execute(
            sql(
                "INSERT INTO exposures (annotator_id, system, slot, n) VALUES (:annotator, :system, :slot, 1) "
                "ON CONFLICT (annotator_id, system, slot) DO UPDATE SET n = exposures.n + 1"
            ),
            {"annotator": event.annotator, "system": systems[number], "slot": slot},
        )


def _record_first_lease(connection: Connection, time: float) -> None:
    """Record when work began, for forecasts."""
    connection.execute(
        sql("INSERT INTO counters (name, value) VALUES ('first_lease', :now) ON CONFLICT (name) DO NOTHING"),
        {"now": int(time)},
    )


def _resume_lease(_log: Log, connection: Connection, time: float, event: kinds.LeaseResumed) -> None:
    """A planned or expired assignment is leased (again)."""
    lease = find_lease(connection, event.assignment)
    if lease is None:
        return
    connection.execute(
        sql("UPDATE assignments SET state = 'leased', leased_at = :now, expires_at = :expires WHERE id = :id"),
        {"now": time, "expires": event.expires, "id": lease.id},
    )
    if not is_model(connection, lease.annotator_id):
        if lease.state != "planned":
            _add_taken(connection, lease.unit_id, 1)
        _record_first_lease(connection, time)


_FREED_STATES = {kinds.UnitReturned: "returned", kinds.LeaseExpired: "expired", kinds.AssignmentRevoked: "revoked"}


def _free_assignment(
    _log: Log,
    connection: Connection,
    _time: float,
    event: kinds.UnitReturned | kinds.LeaseExpired | kinds.AssignmentRevoked,
) -> None:
    lease = find_lease(connection, event.assignment)
    if lease is None:
        return
    keep = isinstance(event, kinds.LeaseExpired) and event.keep
    connection.execute(
        sql("UPDATE assignments SET state = :state, expires_at = NULL WHERE id = :id"),
        {"state": "planned" if keep else _FREED_STATES[type(event)], "id": lease.id},
    )
    if not keep and not is_model(connection, lease.annotator_id):
        _add_taken(connection, lease.unit_id, -1)


# -- applying: answers, and the judgments that follow from them ----------------------------------------------------


def _save_answer(log: Log, connection: Connection, time: float, event: kinds.AnswerSaved) -> None:
    connection.execute(
        sql(
            "INSERT INTO answers (assignment_id, cell_id, answer, revision, active_ms, idle_ms, guidelines_version, "
            "saved_at, writer) VALUES (:assignment, :cell, :answer, 1, :active, :idle, :guidelines, :now, :writer) "
            "ON CONFLICT (assignment_id, cell_id) DO UPDATE SET answer = excluded.answer, "
            "revision = answers.revision + 1, active_ms = answers.active_ms + excluded.active_ms, "
            "idle_ms = answers.idle_ms + excluded.idle_ms, guidelines_version = excluded.guidelines_version, "
            "saved_at = excluded.saved_at, writer = excluded.writer"
        ),
        {
            "assignment": event.assignment,
            "cell": event.cell,
            "answer": bytes(event.answer).decode(),
            "active": event.active_ms,
            "idle": event.idle_ms,
            "guidelines": event.guidelines,
            "now": time,
            "writer": event.writer,
        },
    )
    connection.execute(
        sql("UPDATE assignments SET expires_at = :expires WHERE id = :id AND state = 'leased'"),
        {"expires": event.expires, "id": event.assignment},
    )
    lease = find_lease(connection, event.assignment)
    if lease is None:
        return
    connection.execute(
        sql("UPDATE annotators SET active_ms = active_ms + :active, last_seen = :now WHERE id = :id"),
        {"active": event.active_ms, "now": time, "id": lease.annotator_id},
    )
    if lease.state in ("done", "surplus"):
        _update_judgments(log, connection, lease, event)


def _update_judgments(log: Log, connection: Connection, lease: Lease, event: kinds.AnswerSaved) -> None:
    """Update the judgments of a submitted unit after an answer changed, unless the new answer is incomplete."""
    cells = log.show_unit(connection, lease.unit_id).cells
    cell = cells.get(event.cell)
    if cell is None or missing_widgets(log.protocol, cell.scope, read_answer(log.protocol, cell.scope, event.answer)):
        return
    key = {"assignment": lease.id, "cell": cell.id}
    where = "assignment_id = :assignment AND cell_id = :cell"
    before = connection.execute(sql(f'SELECT MIN("order") FROM judgments WHERE {where}'), key).scalar()
    for table in ("judgments", "choices"):
        delete_rows(connection, table, where, key)
    annotator = people.find_annotator(connection, lease.annotator_id)
    _insert_judgments(log, connection, lease, annotator, int(before or 1) - list(cells).index(cell.id) - 1, cell.id)


def _submit_unit(log: Log, connection: Connection, time: float, event: kinds.UnitSubmitted) -> None:
    lease = find_lease(connection, event.assignment)
    if lease is None:
        return
    state = "surplus" if event.surplus else "done"
    connection.execute(
        sql("UPDATE assignments SET state = :state, done_at = :now, expires_at = NULL WHERE id = :id"),
        {"state": state, "now": time, "id": lease.id},
    )
    annotator = people.find_annotator(connection, lease.annotator_id)
    if annotator.kind != "model":
        if event.retake:
            _add_taken(connection, lease.unit_id, 1)
        if not event.surplus and unit_kind(connection, lease.unit_id) == JUDGED:
            add_to_counter(connection, "done", 1)
    connection.execute(
        sql("UPDATE annotators SET n_done = n_done + 1, n_cells = n_cells + :cells, last_seen = :now WHERE id = :id"),
        {"cells": len(log.show_unit(connection, lease.unit_id).cells), "now": time, "id": lease.annotator_id},
    )
    _insert_judgments(log, connection, replace(lease, state=state), annotator, annotator.n_cells)


def _insert_judgments(
    log: Log,
    connection: Connection,
    lease: Lease,
    annotator: people.AnnotatorRecord,
    order: int,
    only: str | None = None,
) -> None:
    """Add the judgments and choices of a submitted unit, or of one of its cells."""
    shown_unit = log.show_unit(connection, lease.unit_id)
    query = sql(
        "SELECT cell_id, answer, active_ms, saved_at, guidelines_version FROM answers WHERE assignment_id = :id"
    )
    answers = {
        row.cell_id: TimedAnswer(
            read_answer(log.protocol, shown_unit.cells[row.cell_id].scope, row.answer),
            row.active_ms / 1000,
            row.saved_at,
            row.guidelines_version,
        )
        for row in connection.execute(query, {"id": lease.id}).all()
        if row.cell_id in shown_unit.cells and only in (None, row.cell_id)
    }
    # a surplus judgment stays one when its annotator is included again
    marked = "surplus" if lease.state == "surplus" else people.judgment_mark(annotator)
    unit = SubmittedUnit(lease.id, annotator.name, shown_unit, decode(lease.slots), order, marked)
    judgments, choices = derive_rows(log.protocol, unit, answers, _read_controls(connection, lease.unit_id))
    insert_rows(connection, "judgments", judgments)
    insert_rows(connection, "choices", choices)


def _read_controls(connection: Connection, unit: int) -> Mapping[str, Control]:
    rows = connection.execute(
        sql(
            "SELECT id, control, expected, repeat_of FROM cells WHERE unit_id = :unit AND "
            "(control IS NOT NULL OR repeat_of IS NOT NULL)"
        ),
        {"unit": unit},
    )
    return {
        row.id: Control(row.control, bool(row.repeat_of), None if row.expected is None else decode(row.expected))
        for row in rows
    }


Handler = Callable[[Log, Connection, float, Any], None]
_HANDLERS: dict[type[kinds.Event], Handler] = {
    kinds.GuidelinesWritten: _store_guidelines,
    kinds.UnitAdded: _add_unit,
    kinds.UnitPlanned: _add_assignment,
    kinds.UnitLeased: _add_assignment,
    kinds.LeaseResumed: _resume_lease,
    kinds.UnitReturned: _free_assignment,
    kinds.LeaseExpired: _free_assignment,
    kinds.AssignmentRevoked: _free_assignment,
    kinds.AnswerSaved: _save_answer,
    kinds.UnitSubmitted: _submit_unit,
    kinds.StateChanged: _change_state,
    kinds.WorkersLimited: _limit_workers,
    kinds.JudgmentsWanted: _change_wanted,
    kinds.WorkRejudged: _rejudge_work,
    **people.HANDLERS,
}
