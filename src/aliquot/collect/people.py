"""Annotators in the log: whether link, work and judgments are good, what they said about themselves, being forgotten.

Invariants: link, work and judgments change independently; a forgotten person never comes back; after `erase_person`
nothing that the person answered, and nothing that was typed by, to or about the person, is in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy.engine import Connection

from aliquot.collect.answers import FORM
from aliquot.collect.statements import Payload, decode, delete_rows, encode, event_digest, insert, reseal, sql
from aliquot.core.judgments import MODEL

Handler = Callable[[Any, Connection, float, Payload], None]
VALID, WITHDRAWN, FORGOTTEN = "valid", "withdrawn", "forgotten"
EXCLUDED = "excluded"
WORKING = "link = 'valid' AND work = 'active' AND counts = 1 AND kind <> 'model'"
"""SQL: people who get units."""
_FACTS: Payload = {"link": VALID, "work": "active", "counts": 1}
"""Facts of a new annotator; each changes on its own."""
_OLD_STATES = {
    "active": "counts = CASE WHEN work = 'active' THEN 1 ELSE counts END, work = 'active'",
    "paused": "work = 'paused'",
    "excluded": "counts = 0, work = 'active'",
    "revoked": "link = 'withdrawn'",
}
"""State in an event of version 2 or earlier -> the facts. "active" ended a pause, or else an exclusion."""


def standing(row: Any) -> str:
    """Return an annotator's facts in words: "active", or what keeps the annotator from working.

    >>> from types import SimpleNamespace
    >>> standing(SimpleNamespace(link="withdrawn", work="active", counts=0))
    'excluded, link withdrawn'
    """
    if row.link == FORGOTTEN:
        return FORGOTTEN
    words = ("" if row.counts else EXCLUDED, "paused" * (row.work == "paused"), "link withdrawn" * (row.link != VALID))
    return ", ".join(filter(None, words)) or "active"


def is_model(connection: Connection, annotator: str) -> bool:
    """Return whether an annotator is an automatic judge, whose work is none of the k judgments of a unit."""
    kind = connection.execute(sql("SELECT kind FROM annotators WHERE id = :id"), {"id": annotator}).scalar()
    return kind == "model"


def mark_of(person: Any) -> str | None:
    """Return the mark of a person's judgments; None where they count."""
    return (MODEL if person.kind == "model" else None) if person.counts else EXCLUDED


# -- applying ------------------------------------------------------------------------------------------------------


def _annotator(_log: Any, connection: Connection, time: float, payload: Payload) -> None:
    zero = {"n_done": 0, "n_cells": 0, "active_ms": 0, "last_seen": None}
    extra = encode(payload.get("extra") or {})
    insert(connection, "annotators", [payload | {"extra": extra, "created": time} | _FACTS | zero])


def _annotator_state(_log: Any, connection: Connection, _time: float, payload: Payload) -> None:
    """Change one fact of an annotator; judgments of excluded annotators are marked, and count again when included."""
    facts = {name: payload[name] for name in _FACTS if name in payload}
    change = _OLD_STATES[payload["state"]] if "state" in payload else ", ".join(f"{name} = :{name}" for name in facts)
    key = {"id": payload["id"]}
    connection.execute(
        sql(f"UPDATE annotators SET {change} WHERE id = :id AND link <> 'forgotten'"),  # noqa: S608
        facts | key,
    )
    if not {"counts", "state"} & payload.keys():
        return
    person = connection.execute(sql("SELECT name, kind, counts FROM annotators WHERE id = :id"), key).one()
    marks = {"new": mark_of(person), "name": person.name, "excluded": EXCLUDED, "plain": MODEL}
    where = "WHERE annotator = :name AND (marked IS NULL OR marked IN (:excluded, :plain))"
    for table in ("judgments", "choices"):
        before = connection.execute(sql(f"SELECT * FROM {table} {where}"), marks).mappings().all()  # noqa: S608
        reseal(connection, table, [{**row, "marked": marks["new"]} for row in before], before)
        connection.execute(sql(f"UPDATE {table} SET marked = :new {where}"), marks)  # noqa: S608


def _annotator_token(_log: Any, connection: Connection, _time: float, payload: Payload) -> None:
    connection.execute(
        sql(
            "UPDATE annotators SET token_hash = :hash, token_number = :number, link = COALESCE(:link, link) "
            "WHERE id = :id AND link <> 'forgotten'"
        ),
        {
            "hash": payload["token_hash"],
            "number": payload["token_number"],
            "id": payload["id"],
            "link": payload.get("link"),
        },
    )
    # Whoever bound the worker may be somebody else: with the new link the worker's browser gets a new secret.
    _change_extra(connection, payload["id"], lambda extra: {k: v for k, v in extra.items() if k != "secret"})


def _message(_log: Any, connection: Connection, time: float, payload: Payload) -> None:
    insert(connection, "messages", [{"annotator_id": payload["id"], "text": payload["text"], "created": time}])


def _remember(connection: Connection, annotator: str, change: Callable[[Payload], Payload], time: float) -> None:
    """Add to what is stored of an annotator besides answers."""
    _change_extra(connection, annotator, lambda extra: extra | change(extra))
    connection.execute(sql("UPDATE annotators SET last_seen = :now WHERE id = :id"), {"now": time, "id": annotator})


def _change_extra(connection: Connection, annotator: str, change: Callable[[Payload], Payload]) -> None:
    key = {"id": annotator}
    extra = decode(str(connection.execute(sql("SELECT extra FROM annotators WHERE id = :id"), key).scalar()))
    connection.execute(
        sql("UPDATE annotators SET extra = :extra WHERE id = :id"), key | {"extra": encode(change(extra))}
    )


def _form(_log: Any, connection: Connection, time: float, payload: Payload) -> None:
    _remember(connection, payload["annotator"], lambda _: {FORM: payload["answer"]}, time)


def _quiz(_log: Any, connection: Connection, time: float, payload: Payload) -> None:
    _remember(
        connection,
        payload["annotator"],
        lambda extra: {"quiz_attempts": extra.get("quiz_attempts", 0) + 1, "quiz_passed": payload["passed"]},
        time,
    )


def _example(_log: Any, connection: Connection, time: float, payload: Payload) -> None:
    _remember(
        connection, payload["annotator"], lambda extra: {"examples_done": extra.get("examples_done", 0) + 1}, time
    )


def _came(_log: Any, connection: Connection, time: float, payload: Payload) -> None:
    """Record a visit of a crowd worker; keep the latest session, and the secret of the first."""
    _remember(connection, payload["annotator"], lambda _: {n: v for n, v in payload.items() if n != "annotator"}, time)


def _forgotten(_log: Any, connection: Connection, _time: float, payload: Payload) -> None:
    """Delete a person's answers, messages and name; how many units were judged stays."""
    key = {"id": payload["id"]}
    connection.execute(  # first: this waits for what the person has just sent
        sql(
            "UPDATE annotators SET link = 'forgotten', extra = '{}', name = :new, token_hash = :new, active_ms = 0, "
            "last_seen = NULL WHERE id = :id"
        ),
        key | {"new": payload["alias"]},
    )
    own = "assignment_id IN (SELECT id FROM assignments WHERE annotator_id = :id)"
    for table in ("judgments", "choices"):
        delete_rows(connection, table, own, key)
    connection.execute(sql(f"DELETE FROM answers WHERE {own}"), key)  # noqa: S608
    connection.execute(sql("UPDATE messages SET text = '' WHERE annotator_id = :id"), key)


HANDLERS: Mapping[str, Handler] = MappingProxyType(
    {
        "annotator": _annotator,
        "annotator_state": _annotator_state,
        "annotator_token": _annotator_token,
        "message": _message,
        "form": _form,
        "quiz": _quiz,
        "example": _example,
        "came": _came,
        "forgotten": _forgotten,
    }
)
"""Kind of event about a person -> what it changes."""

# -- forgetting ----------------------------------------------------------------------------------------------------

_ERASED = ("save", "form", "quiz", "example", "came")
"""Kinds of events that hold nothing but what a person answered; the others keep all but their typed fields."""
_TYPED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "annotator": ("name",),
        "return": ("reason",),
        "message": ("text", "reason"),
        "annotator_state": ("reason",),
        "reassigned": ("reason",),
        "rejudge": ("reason",),
        "links_renewed": ("reason",),
    }
)
"""Kind of event -> fields with the name of a person, or with text that was typed by, to or about the person."""


def erase_person(connection: Connection, identity: str, alias: str) -> None:
    """Take a person's answers, name and texts out of the log, and out of the audit table that copies it."""
    key = {"id": identity}
    others = {None, *connection.execute(sql("SELECT name FROM annotators WHERE id <> :id"), key).scalars()}
    own = sql(f"SELECT id, time, actor FROM events WHERE actor = :id AND kind IN {_ERASED}")  # noqa: S608
    for row in connection.execute(own, key).all():
        connection.execute(
            sql("UPDATE events SET payload = '{}', kind = 'erased', client_id = NULL, digest = :digest WHERE id = :id"),
            {"digest": event_digest(row.time, row.actor, "erased", None, "{}"), "id": row.id},
        )
    rows = connection.execute(
        sql(f"SELECT id, time, actor, kind, client_id, payload FROM events WHERE kind IN {(*_TYPED, 'allocate')}")  # noqa: S608
    )
    for row in rows.all():
        old = decode(row.payload)
        if row.kind == "allocate":
            new = old | {"log": [entry for entry in old["log"] if entry.get("annotator") in others]}
        elif identity in (row.actor, old.get("id")):
            new = old | {field: alias if field == "name" else "" for field in _TYPED[row.kind] if field in old}
        else:
            continue
        if new != old:
            _rewrite(connection, row, encode(new))


def _rewrite(connection: Connection, row: Any, payload: str) -> None:
    digest = event_digest(row.time, row.actor, row.kind, row.client_id, payload)
    connection.execute(
        sql("UPDATE events SET payload = :new, digest = :digest WHERE id = :id"),
        {"new": payload, "digest": digest, "id": row.id},
    )
    connection.execute(
        sql("UPDATE audit SET payload = :new WHERE time = :time AND kind = :kind AND payload = :old"),
        {"new": payload, "time": row.time, "kind": row.kind, "old": row.payload},
    )


_ANNOTATOR = ("id", "name", "kind", "locale", "token_number", "token_hash", "offset_rank")
"""Fields of the event `annotator`, in order."""


def erase_again(connection: Connection) -> int:
    """Erase what version 2 left in the log of forgotten people, and mend what it damaged; return how many there are."""
    rows = connection.execute(sql("SELECT payload FROM events WHERE kind = 'forgotten'")).scalars().all()
    aliases = {person["id"]: person["alias"] for person in map(decode, rows)}
    if aliases:
        _mend_annotators(connection)
    for identity, alias in aliases.items():
        erase_person(connection, identity, alias)
    return len(aliases)


def _mend_annotators(connection: Connection) -> None:
    """Write the events `annotator` of version 2 again from the table.

    Forgetting replaced the quoted name in all of them: with the name "human", every annotator's kind. The table kept
    the right values, and the fields their order.
    """
    events = connection.execute(sql("SELECT id, payload FROM events WHERE kind = 'annotator' ORDER BY id")).all()
    people = connection.execute(sql("SELECT id, name, kind, locale FROM annotators")).mappings().all()
    numbered = sorted(people, key=lambda person: int(person["id"][1:]))
    for event, person in zip(events, numbered, strict=True):
        fields = dict(zip(_ANNOTATOR, decode(event.payload).values(), strict=False))
        connection.execute(
            sql("UPDATE events SET payload = :new WHERE id = :id"),
            {"new": encode(fields | dict(person)), "id": event.id},
        )
