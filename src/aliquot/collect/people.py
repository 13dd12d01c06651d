"""Annotators in the log: link, work and judgments, form answers, deletion of personal data.

Invariants: link, work and judgments change independently; a forgotten person never comes back; after `erase_person`
nothing that the person answered, and nothing that was typed by, to or about the person, is in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import UNSET
from sqlalchemy.engine import Connection

from aliquot.collect import event_types as kinds
from aliquot.collect.answers import FORM
from aliquot.collect.crowd import Visit
from aliquot.collect.statements import Payload, decode, delete_rows, encode, event_digest, insert_rows, sql, update_seal
from aliquot.core.judgments import MODEL

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


def describe_standing(row: Any) -> str:
    """Return an annotator's facts in words: "active", or what keeps the annotator from working.

    >>> from types import SimpleNamespace
    >>> describe_standing(SimpleNamespace(link="withdrawn", work="active", counts=0))
    'excluded, link withdrawn'
    """
    if row.link == FORGOTTEN:
        return FORGOTTEN
    words = ("" if row.counts else EXCLUDED, "paused" * (row.work == "paused"), "link withdrawn" * (row.link != VALID))
    return ", ".join(filter(None, words)) or "active"


class Extra(msgspec.Struct, frozen=True):
    """What is stored of an annotator besides answers: the JSON of the column `annotators.extra`.

    Only for reading: `collect check` compares the stored text, whose keys stand in the order of the events.
    """

    visit: Visit | None = None
    secret: str | None = None
    quiz_attempts: int = 0
    quiz_passed: bool = False
    examples_done: int = 0
    form: dict[str, msgspec.Raw] | None = None


def read_extra(connection: Connection, annotator: str) -> Extra:
    """Return what is stored of an annotator besides answers."""
    text = connection.execute(sql("SELECT extra FROM annotators WHERE id = :id"), {"id": annotator}).scalar()
    return msgspec.json.decode(str(text), type=Extra)


@dataclass(frozen=True)
class AnnotatorRecord:
    """The part of an annotator's row that the log needs."""

    name: str
    kind: str
    counts: int
    n_cells: int


def find_annotator(connection: Connection, annotator: str) -> AnnotatorRecord:
    """Return an annotator by id."""
    query = sql("SELECT name, kind, counts, n_cells FROM annotators WHERE id = :id")
    return AnnotatorRecord(*connection.execute(query, {"id": annotator}).one())


def is_model(connection: Connection, annotator: str) -> bool:
    """Return whether an annotator is an automatic judge."""
    kind = connection.execute(sql("SELECT kind FROM annotators WHERE id = :id"), {"id": annotator}).scalar()
    return kind == "model"


def judgment_mark(annotator: AnnotatorRecord) -> str | None:
    """Return the mark of an annotator's judgments; None where they count."""
    return (MODEL if annotator.kind == "model" else None) if annotator.counts else EXCLUDED


# -- applying ------------------------------------------------------------------------------------------------------


def _add_annotator(_log: Any, connection: Connection, time: float, event: kinds.AnnotatorAdded) -> None:
    zero = {"n_done": 0, "n_cells": 0, "active_ms": 0, "last_seen": None}
    extra = {} if event.extra is UNSET else event.extra or {}
    columns = msgspec.structs.asdict(event) | {"extra": encode(extra), "created": time}
    insert_rows(connection, "annotators", [columns | _FACTS | zero])


def _change_annotator(_log: Any, connection: Connection, _time: float, event: kinds.AnnotatorChanged) -> None:
    """Change one fact of an annotator; judgments of excluded annotators are marked, and count again when included."""
    facts = {name: value for name in _FACTS if (value := getattr(event, name)) is not UNSET}
    change = ", ".join(f"{name} = :{name}" for name in facts) if event.state is UNSET else _OLD_STATES[event.state]
    key = {"id": event.id}
    connection.execute(
        sql(f"UPDATE annotators SET {change} WHERE id = :id AND link <> 'forgotten'"),
        facts | key,
    )
    if event.counts is UNSET and event.state is UNSET:
        return
    annotator = find_annotator(connection, event.id)
    marks = {"new": judgment_mark(annotator), "name": annotator.name, "excluded": EXCLUDED, "plain": MODEL}
    where = "WHERE annotator = :name AND (marked IS NULL OR marked IN (:excluded, :plain))"
    for table in ("judgments", "choices"):
        before = connection.execute(sql(f"SELECT * FROM {table} {where}"), marks).mappings().all()
        update_seal(connection, table, [{**row, "marked": marks["new"]} for row in before], before)
        connection.execute(sql(f"UPDATE {table} SET marked = :new {where}"), marks)


def _renew_link(_log: Any, connection: Connection, _time: float, event: kinds.LinkRenewed) -> None:
    connection.execute(
        sql(
            "UPDATE annotators SET token_hash = :hash, token_number = :number, link = COALESCE(:link, link) "
            "WHERE id = :id AND link <> 'forgotten'"
        ),
        {
            "hash": event.token_hash,
            "number": event.token_number,
            "id": event.id,
            "link": None if event.link is UNSET else event.link,
        },
    )
    # Whoever bound the worker may be somebody else: with the new link the worker's browser gets a new secret.
    _change_extra(connection, event.id, lambda extra: {k: v for k, v in extra.items() if k != "secret"})


def _store_message(_log: Any, connection: Connection, time: float, event: kinds.MessageSent) -> None:
    insert_rows(connection, "messages", [{"annotator_id": event.id, "text": event.text, "created": time}])


def _add_to_extra(connection: Connection, annotator: str, change: Callable[[Payload], Payload], time: float) -> None:
    """Add to what is stored of an annotator besides answers."""
    _change_extra(connection, annotator, lambda extra: extra | change(extra))
    connection.execute(sql("UPDATE annotators SET last_seen = :now WHERE id = :id"), {"now": time, "id": annotator})


def _change_extra(connection: Connection, annotator: str, change: Callable[[Payload], Payload]) -> None:
    key = {"id": annotator}
    extra = decode(str(connection.execute(sql("SELECT extra FROM annotators WHERE id = :id"), key).scalar()))
    connection.execute(
        sql("UPDATE annotators SET extra = :extra WHERE id = :id"), key | {"extra": encode(change(extra))}
    )


def _store_form(_log: Any, connection: Connection, time: float, event: kinds.FormAnswered) -> None:
    _add_to_extra(connection, event.annotator, lambda _: {FORM: event.answer}, time)


def _count_quiz(_log: Any, connection: Connection, time: float, event: kinds.QuizTaken) -> None:
    _add_to_extra(
        connection,
        event.annotator,
        lambda extra: {"quiz_attempts": extra.get("quiz_attempts", 0) + 1, "quiz_passed": event.passed},
        time,
    )


def _count_example(_log: Any, connection: Connection, time: float, event: kinds.ExampleTaken) -> None:
    _add_to_extra(connection, event.annotator, lambda extra: {"examples_done": extra.get("examples_done", 0) + 1}, time)


def _record_visit(_log: Any, connection: Connection, time: float, event: kinds.WorkerArrived) -> None:
    """Record a visit of a crowd worker; keep the latest session, and the secret of the first."""
    secret = {} if event.secret is UNSET else {"secret": event.secret}
    _add_to_extra(connection, event.annotator, lambda _: {"visit": event.visit, **secret}, time)


def _forget_annotator(_log: Any, connection: Connection, _time: float, event: kinds.AnnotatorForgotten) -> None:
    """Delete a person's answers, messages and name; how many units were judged stays."""
    key = {"id": event.id}
    connection.execute(  # first: this waits for what the person has just sent
        sql(
            "UPDATE annotators SET link = 'forgotten', extra = '{}', name = :new, token_hash = :new, active_ms = 0, "
            "last_seen = NULL WHERE id = :id"
        ),
        key | {"new": event.alias},
    )
    assignments = "assignment_id IN (SELECT id FROM assignments WHERE annotator_id = :id)"
    for table in ("judgments", "choices"):
        delete_rows(connection, table, assignments, key)
    connection.execute(sql(f"DELETE FROM answers WHERE {assignments}"), key)
    connection.execute(sql("UPDATE messages SET text = '' WHERE annotator_id = :id"), key)


HANDLERS: Mapping[type[kinds.Event], Callable[[Any, Connection, float, Any], None]] = MappingProxyType(
    {
        kinds.AnnotatorAdded: _add_annotator,
        kinds.AnnotatorChanged: _change_annotator,
        kinds.LinkRenewed: _renew_link,
        kinds.MessageSent: _store_message,
        kinds.FormAnswered: _store_form,
        kinds.QuizTaken: _count_quiz,
        kinds.ExampleTaken: _count_example,
        kinds.WorkerArrived: _record_visit,
        kinds.AnnotatorForgotten: _forget_annotator,
    }
)
"""Event about a person -> what it changes."""

# -- forgetting ----------------------------------------------------------------------------------------------------

_ANSWERS = tuple(kind for kind, event in kinds.EVENT_TYPES.items() if event.IS_ANSWER)
_WITH_PERSONS = ("allocate", *(kind for kind, event in kinds.EVENT_TYPES.items() if event.PERSONAL))


def erase_person(connection: Connection, identity: str, alias: str) -> None:
    """Take a person's answers, name and texts out of the log, and out of the audit table that copies it."""
    key = {"id": identity}
    names = {None, *connection.execute(sql("SELECT name FROM annotators WHERE id <> :id"), key).scalars()}
    answers = sql(f"SELECT id, time, actor FROM events WHERE actor = :id AND kind IN {_ANSWERS}")
    for row in connection.execute(answers, key).all():
        connection.execute(
            sql("UPDATE events SET payload = '{}', kind = 'erased', client_id = NULL, digest = :digest WHERE id = :id"),
            {"digest": event_digest(row.time, row.actor, "erased", None, "{}"), "id": row.id},
        )
    rows = connection.execute(
        sql(f"SELECT id, time, actor, kind, client_id, payload FROM events WHERE kind IN {_WITH_PERSONS}")
    )
    for row in rows.all():
        before = kinds.read_event(row.kind, row.payload)
        if isinstance(before, kinds.CellsAllocated):
            entries = [entry for entry in before.log if entry.get("annotator") in names]
            after: kinds.Event = msgspec.structs.replace(before, log=entries)
        elif before is not None and identity in (row.actor, getattr(before, "id", None)):
            texts = {field: alias if field == "name" else "" for field in before.PERSONAL}
            typed = {field: text for field, text in texts.items() if getattr(before, field) is not UNSET}
            after = msgspec.structs.replace(before, **typed)
        else:
            continue
        if after != before:
            _rewrite_event(connection, row, after.encode())


def _rewrite_event(connection: Connection, row: Any, payload: str) -> None:
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
