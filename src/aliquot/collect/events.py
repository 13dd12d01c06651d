"""The log: every change is an event, appended and applied in one transaction.

Invariant: the derived tables are what applying all events in order to empty tables gives; `rebuild` does that, and
`collect check` compares. Nothing but `apply` changes a derived table.

Every event carries a digest of itself, so that damage to the log is told from damage to tables. Whoever changes a row
of a sealed table (see `aliquot.io.formats.campaign`) changes the seal in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from aliquot.collect import people
from aliquot.collect.answers import Shown, missing_widgets
from aliquot.collect.people import is_model
from aliquot.collect.protocols import Protocol
from aliquot.collect.records import Given, Page, derive
from aliquot.collect.statements import (
    Payload,
    add_to_counter,
    decode,
    delete_rows,
    encode,
    event_digest,
    insert,
    locking,
    set_meta,
    sql,
)
from aliquot.collect.units import Row, Texts, Unit, characters, shown_rows
from aliquot.core.judgments import CONTROL_ITEM

JUDGED = "work"
ACTIONS = frozenset(
    {
        "annotator_state",
        "reassigned",
        "message",
        "campaign_state",
        "wanted",
        "topped_up",
        "rejudge",
        "links_renewed",
        "forgotten",
        "guidelines_changed",
        "systems_added",
        "workers",
    }
)
"""Kinds of events that the audit log shows."""


_MOST_SHOWN = 1024  # units in memory; more than annotators who work at the same time


class Log:
    """Appends events and applies them; knows the protocol, and how to get at the texts of new units."""

    def __init__(self, protocol: Protocol, texts: Callable[[], Texts]) -> None:
        self.protocol, self.texts = protocol, texts
        self._shown: dict[int, Shown] = {}

    def append(
        self, connection: Connection, time: float, actor: str, kind: str, payload: Payload, client_id: str | None = None
    ) -> bool:
        """Append an event and apply it; False where an event of this client id is there already."""
        text = encode(payload)
        done = connection.execute(
            sql(
                "INSERT INTO events (time, actor, kind, client_id, payload, digest) VALUES (:time, :actor, :kind, "
                ":client, :payload, :digest) ON CONFLICT (client_id) DO NOTHING"
            ),
            {
                "time": time,
                "actor": actor,
                "kind": kind,
                "client": client_id,
                "payload": text,
                "digest": event_digest(time, actor, kind, client_id, text),
            },
        )
        if done.rowcount == 0:
            return False
        self.apply(connection, time, kind, payload)
        return True

    def has(self, connection: Connection, client_id: str) -> bool:
        """Tell whether an event of this client id is there."""
        query = sql("SELECT COUNT(*) FROM events WHERE client_id = :id")
        return bool(connection.execute(query, {"id": client_id}).scalar())

    def apply(self, connection: Connection, time: float, kind: str, payload: Payload) -> None:
        """Change the derived tables as an event says."""
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, connection, time, payload)
        if kind in ACTIONS:
            insert(connection, "audit", [{"time": time, "kind": kind, "payload": encode(payload)}])

    def shown(self, connection: Connection, unit: int) -> Shown:
        """Return a unit as it is shown; units never change, so that those in work are kept."""
        found = self._shown.get(unit)
        if found is None:
            row = connection.execute(
                sql("SELECT systems, document, payload FROM units WHERE id = :id"), {"id": unit}
            ).one()
            if len(self._shown) >= _MOST_SHOWN:
                self._shown.clear()
            found = self._shown[unit] = Shown.read(row.systems, row.document, row.payload)
        return found


@dataclass(frozen=True)
class Lease:
    """One row of the table of assignments."""

    id: str
    unit_id: int
    annotator_id: str
    state: str
    position: int
    slots: str


_LEASE = "SELECT id, unit_id, annotator_id, state, position, slots FROM assignments WHERE "


def lease(connection: Connection, assignment: str, *, lock: bool = False) -> Lease | None:
    """Return an assignment by its id; `lock` keeps other processes from freeing it meanwhile."""
    query = _LEASE + "id = :id"
    row = connection.execute(locking(connection, query) if lock else sql(query), {"id": assignment}).one_or_none()
    return None if row is None else Lease(*row)


# -- applying ------------------------------------------------------------------------------------------------------


def _guidelines(_log: Log, connection: Connection, time: float, payload: Payload) -> None:
    insert(connection, "guidelines", [payload | {"created": time}])


def _campaign_state(_log: Log, connection: Connection, _time: float, payload: Payload) -> None:
    set_meta(connection, "state", payload["state"])


def _workers(_log: Log, connection: Connection, _time: float, payload: Payload) -> None:
    set_meta(connection, "workers", str(payload["most"]))


def _wanted(_log: Log, connection: Connection, _time: float, payload: Payload) -> None:
    """Change how often outputs are judged; units that have more already keep them."""
    before = connection.execute(sql("SELECT SUM(wanted) FROM units WHERE kind = 'work'")).scalar() or 0
    connection.execute(
        sql("UPDATE units SET wanted = CASE WHEN taken > :wanted THEN taken ELSE :wanted END WHERE kind = 'work'"),
        {"wanted": payload["wanted"]},
    )
    after = connection.execute(sql("SELECT SUM(wanted) FROM units WHERE kind = 'work'")).scalar() or 0
    add_to_counter(connection, "wanted", int(after) - int(before))
    set_meta(connection, "per_output", str(payload["wanted"]))


def _rejudge(_log: Log, connection: Connection, _time: float, payload: Payload) -> None:
    """Units that the annotator finished get one judgment more, by somebody else."""
    of_annotator = (
        "kind = 'work' AND id IN (SELECT unit_id FROM assignments WHERE annotator_id = :id AND state = 'done')"
    )
    count = connection.execute(sql(f"SELECT COUNT(*) FROM units WHERE {of_annotator}"), {"id": payload["id"]}).scalar()  # noqa: S608
    connection.execute(sql(f"UPDATE units SET wanted = wanted + 1 WHERE {of_annotator}"), {"id": payload["id"]})  # noqa: S608
    add_to_counter(connection, "wanted", int(count or 0))


def _unit(log: Log, connection: Connection, _time: float, payload: Payload) -> None:
    """Put a unit into its table with the texts it shows, and its cells."""
    unit = Unit(
        payload["document"],
        tuple(payload["systems"]),
        tuple(Row(item, context=context) for item, context in payload["rows"]),
    )
    rows = shown_rows(unit, log.texts())
    replaced = payload.get("texts", {})  # damaged copies: cell -> text
    shown: Payload = {"rows": rows}
    by_item = {row["item"]: row for row in rows if not row["context"]}
    slot = {system: at for at, system in enumerate(unit.systems)}
    cells = []
    for cell in payload["cells"]:
        item, system = cell["item"], cell["system"]
        if item is None:
            shown["document_cell"] = cell["id"]
        elif system is None:
            by_item[item]["cell"] = cell["id"]
        else:
            by_item[item]["outputs"][slot[system]]["cell"] = cell["id"]
            by_item[item]["outputs"][slot[system]]["text"] = replaced.get(
                cell["id"], by_item[item]["outputs"][slot[system]]["text"]
            )
        cells.append(
            {
                "id": cell["id"],
                "unit_id": payload["id"],
                "item": None if item is None else encode(item),
                "system": system,
                "slot": slot.get(system, 0),
                "control": cell.get("control"),
                "expected": encode(cell["expected"]) if cell.get("expected") is not None else None,
                "repeat_of": cell.get("repeat_of"),
            }
        )
    insert(
        connection,
        "units",
        [
            {
                "id": payload["id"],
                "rank": payload["rank"],
                "document": payload["document"],
                "systems": encode(payload["systems"]),
                "wanted": payload["wanted"],
                "taken": 0,
                "kind": payload["kind"],
                "payload": encode(shown),
                "n_cells": len(cells),
                "n_chars": characters(rows),
            }
        ],
    )
    insert(connection, "cells", cells)
    if payload["kind"] == JUDGED:
        add_to_counter(connection, "units", 1)
        add_to_counter(connection, "wanted", payload["wanted"])


def _take(connection: Connection, unit: int, by: int, annotator: str) -> None:
    if is_model(connection, annotator):
        return
    connection.execute(sql("UPDATE units SET taken = taken + :by WHERE id = :id"), {"by": by, "id": unit})


def _plan(_log: Log, connection: Connection, _time: float, payload: Payload) -> None:
    """An entry of a fixed list: counts as taken from the beginning."""
    insert(
        connection,
        "assignments",
        [
            {
                "id": payload["assignment"],
                "unit_id": payload["unit"],
                "annotator_id": payload["annotator"],
                "state": "planned",
                "position": payload["position"],
                "slots": encode(payload["slots"]),
                "policy": payload["policy"],
                "probability": payload["probability"],
                "leased_at": None,
                "expires_at": None,
                "done_at": None,
            }
        ],
    )
    _take(connection, payload["unit"], 1, payload["annotator"])
    _expose(connection, payload)


def _expose(connection: Connection, payload: Payload) -> None:
    systems = decode(
        str(connection.execute(sql("SELECT systems FROM units WHERE id = :id"), {"id": payload["unit"]}).scalar())
    )
    for slot, at in enumerate(payload["slots"]):
        connection.execute(
            sql(
                "INSERT INTO exposures (annotator_id, system, slot, n) VALUES (:annotator, :system, :slot, 1) "
                "ON CONFLICT (annotator_id, system, slot) DO UPDATE SET n = exposures.n + 1"
            ),
            {"annotator": payload["annotator"], "system": systems[at], "slot": slot},
        )


def _leased(_log: Log, connection: Connection, time: float, payload: Payload) -> None:
    connection.execute(
        sql(
            "INSERT INTO assignments (id, unit_id, annotator_id, state, position, slots, policy, probability, "
            "leased_at, expires_at) VALUES (:id, :unit, :annotator, 'leased', :position, :slots, :policy, "
            ":probability, :now, :expires)"
        ),
        {
            "id": payload["assignment"],
            "unit": payload["unit"],
            "annotator": payload["annotator"],
            "position": payload["position"],
            "slots": encode(payload["slots"]),
            "policy": payload["policy"],
            "probability": payload["probability"],
            "now": time,
            "expires": payload["expires"],
        },
    )
    _take(connection, payload["unit"], 1, payload["annotator"])
    _expose(connection, payload)
    if not is_model(connection, payload["annotator"]):
        _note_first(connection, time)


def _note_first(connection: Connection, time: float) -> None:
    """Remember when work began: forecasts need it, and must not search for it."""
    connection.execute(
        sql("INSERT INTO counters (name, value) VALUES ('first_lease', :now) ON CONFLICT (name) DO NOTHING"),
        {"now": int(time)},
    )


def _resumed(_log: Log, connection: Connection, time: float, payload: Payload) -> None:
    """A planned or expired assignment is leased (again)."""
    found = lease(connection, payload["assignment"])
    if found is None:
        return
    connection.execute(
        sql("UPDATE assignments SET state = 'leased', leased_at = :now, expires_at = :expires WHERE id = :id"),
        {"now": time, "expires": payload["expires"], "id": found.id},
    )
    if found.state != "planned":
        _take(connection, found.unit_id, 1, found.annotator_id)
    if not is_model(connection, found.annotator_id):
        _note_first(connection, time)


def _freed(state: str) -> Callable[[Log, Connection, float, Payload], None]:
    def apply(_log: Log, connection: Connection, _time: float, payload: Payload) -> None:
        found = lease(connection, payload["assignment"])
        if found is None:
            return
        kept = payload.get("keep", False)  # an entry of a fixed list waits for its annotator
        connection.execute(
            sql("UPDATE assignments SET state = :state, expires_at = NULL WHERE id = :id"),
            {"state": "planned" if kept else state, "id": found.id},
        )
        if not kept:
            _take(connection, found.unit_id, -1, found.annotator_id)

    return apply


def _saved(log: Log, connection: Connection, time: float, payload: Payload) -> None:
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
            "assignment": payload["assignment"],
            "cell": payload["cell"],
            "answer": encode(payload["answer"]),
            "active": payload["active_ms"],
            "idle": payload["idle_ms"],
            "guidelines": payload["guidelines"],
            "now": time,
            "writer": payload.get("writer"),
        },
    )
    connection.execute(
        sql("UPDATE assignments SET expires_at = :expires WHERE id = :id AND state = 'leased'"),
        {"expires": payload["expires"], "id": payload["assignment"]},
    )
    found = lease(connection, payload["assignment"])
    if found is None:
        return
    connection.execute(
        sql("UPDATE annotators SET active_ms = active_ms + :active, last_seen = :now WHERE id = :id"),
        {"active": payload["active_ms"], "now": time, "id": found.annotator_id},
    )
    if found.state in ("done", "surplus"):
        _change(log, connection, found, payload)


def _change(log: Log, connection: Connection, found: Lease, payload: Payload) -> None:
    """An answer is changed after its unit was submitted: judgments follow, unless the new answer is incomplete."""
    cell = log.shown(connection, found.unit_id).cells.get(payload["cell"])
    if cell is None or missing_widgets(log.protocol, cell.scope, payload["answer"]):
        return
    key = {"assignment": found.id, "cell": cell.id}
    where = "assignment_id = :assignment AND cell_id = :cell"
    before = connection.execute(sql(f'SELECT MIN("order") FROM judgments WHERE {where}'), key).scalar()  # noqa: S608
    number = list(log.shown(connection, found.unit_id).cells).index(cell.id)
    for table in ("judgments", "choices"):
        delete_rows(connection, table, where, key)
    _derive(log, connection, found, int(before or 1) - number - 1, only=cell.id)


def _submitted(log: Log, connection: Connection, time: float, payload: Payload) -> None:
    found = lease(connection, payload["assignment"])
    if found is None:
        return
    surplus = payload.get("surplus", False)
    connection.execute(
        sql("UPDATE assignments SET state = :state, done_at = :now, expires_at = NULL WHERE id = :id"),
        {"state": "surplus" if surplus else "done", "now": time, "id": found.id},
    )
    if payload.get("retake"):
        _take(connection, found.unit_id, 1, found.annotator_id)
    row = connection.execute(sql("SELECT n_cells FROM annotators WHERE id = :id"), {"id": found.annotator_id}).one()
    cells = len(log.shown(connection, found.unit_id).cells)
    connection.execute(
        sql("UPDATE annotators SET n_done = n_done + 1, n_cells = n_cells + :cells, last_seen = :now WHERE id = :id"),
        {"cells": cells, "now": time, "id": found.annotator_id},
    )
    counted = unit_kind(connection, found.unit_id) == JUDGED and not is_model(connection, found.annotator_id)
    if not surplus and counted:
        add_to_counter(connection, "done", 1)
    _derive(log, connection, found, row.n_cells)


def unit_kind(connection: Connection, unit: int) -> str:
    """Return whether a unit is work or a check."""
    return str(connection.execute(sql("SELECT kind FROM units WHERE id = :id"), {"id": unit}).scalar())


def _derive(log: Log, connection: Connection, found: Lease, order: int, only: str | None = None) -> None:
    state = connection.execute(sql("SELECT state FROM assignments WHERE id = :id"), {"id": found.id}).scalar()
    person = connection.execute(
        sql("SELECT name, kind, counts FROM annotators WHERE id = :id"), {"id": found.annotator_id}
    ).one()
    rows = connection.execute(sql("SELECT * FROM answers WHERE assignment_id = :id"), {"id": found.id}).mappings().all()
    given = {
        row["cell_id"]: Given(
            decode(row["answer"]), row["active_ms"] / 1000, row["saved_at"], row["guidelines_version"]
        )
        for row in rows
        if only is None or row["cell_id"] == only
    }
    shown = log.shown(connection, found.unit_id)
    # a surplus judgment stays one when its annotator is included again
    marked = "surplus" if state == "surplus" else people.mark_of(person)
    page = Page(found.id, person.name, shown, decode(found.slots), order, marked)
    judgments, choices = derive(log.protocol, page, given, _controls(connection, found.unit_id))
    insert(connection, "judgments", judgments)
    insert(connection, "choices", choices)


def _controls(connection: Connection, unit: int) -> Mapping[str, Mapping[str, Any]]:
    rows = connection.execute(
        sql(
            "SELECT id, control, expected, repeat_of FROM cells WHERE unit_id = :unit AND "
            "(control IS NOT NULL OR repeat_of IS NOT NULL)"
        ),
        {"unit": unit},
    )
    return {
        row.id: {
            "control": row.control,
            "repeat": 1 if row.repeat_of else None,
            **({"marked": CONTROL_ITEM} if row.control else {}),
            "range": None if row.expected is None else decode(row.expected),
        }
        for row in rows
    }


_HANDLERS: dict[str, people.Handler] = {
    "guidelines": _guidelines,
    "unit": _unit,
    "plan": _plan,
    "lease": _leased,
    "resume": _resumed,
    "return": _freed("returned"),
    "expire": _freed("expired"),
    "revoke": _freed("revoked"),
    "save": _saved,
    "submit": _submitted,
    "campaign_state": _campaign_state,
    "workers": _workers,
    "wanted": _wanted,
    "rejudge": _rejudge,
    **people.HANDLERS,
}
