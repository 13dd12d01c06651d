"""What the annotators' pages call: the next unit, saving, submitting, returning; quiz and examples before.

Every change is an event in the log and on the disk before a method returns. Methods may be called from many threads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from sqlalchemy.engine import Connection

from aliquot.collect import crowd, queue, training
from aliquot.collect import event_types as kinds
from aliquot.collect.answers import (
    FORM,
    Answer,
    check_answer,
    check_text,
    encode_answer,
    missing_widgets,
    read_answer,
    read_values,
)
from aliquot.collect.errors import CollectError
from aliquot.collect.events import Lease, Log, find_lease, unit_kind
from aliquot.collect.people import VALID, WORKING, Extra, read_extra
from aliquot.collect.planting import CHECK, grade_annotator, plant_check
from aliquot.collect.statements import decode, lock_statement, sql
from aliquot.collect.store import Change, Store
from aliquot.collect.stored_inputs import StoredInputs, campaign_state, judgments_per_output
from aliquot.collect.tokens import read_secret, token_hash
from aliquot.collect.unit_texts import ShownRow, ShownUnit, expected_seconds, slot_names

MAX_MS = 3_600_000  # active or idle time of one change that is believed
MAX_CHANGES = 1_000
_SAVE_FACTS = (
    "SELECT (SELECT value FROM meta WHERE key = 'state') AS state, "
    "(SELECT MAX(version) FROM guidelines) AS guidelines, n_cells, n_chars FROM units WHERE id = :unit"
)
_PROGRESS = (
    "SELECT n_done, active_ms, kind, "
    f"(SELECT COUNT(*) FROM annotators WHERE {WORKING}) AS active, "
    "(SELECT value FROM counters WHERE name = 'wanted') AS wanted, "
    "(SELECT value FROM counters WHERE name = 'done') AS done, "
    "(SELECT value FROM counters WHERE name = 'units') AS units FROM annotators WHERE id = :id"
)


@dataclass(frozen=True)
class Annotator:
    """The annotator that a link belongs to."""

    id: str
    name: str
    kind: str
    locale: str


@dataclass(frozen=True)
class AnswerChange:
    """A change of an answer as a page sends it, checked; see `AnnotatorPages.save`."""

    id: str
    cell: str
    answer: Answer
    base: int | None
    writer: str | None
    active_ms: int
    idle_ms: int


@dataclass(frozen=True)
class _Version:
    """Revision of a stored answer, and the page that saved it last."""

    revision: int
    writer: str | None


class AnnotatorPages:
    """Serves annotators; returns plain values, as they go over the wire."""

    def __init__(self, store: Store, log: Log, inputs: StoredInputs) -> None:
        self.store, self.log, self.inputs = store, log, inputs
        self.protocol, self.facts = inputs.protocol, inputs.facts

    def annotator(self, token: str) -> Annotator:
        """Return the annotator of a token, or raise."""
        with self.store.read() as connection:
            return self._find_annotator(connection, token)

    def _find_annotator(self, connection: Connection, token: str) -> Annotator:
        row = connection.execute(
            sql("SELECT id, name, kind, locale, link FROM annotators WHERE token_hash = :hash"),
            {"hash": token_hash(token)},
        ).one_or_none()
        if row is None:
            raise CollectError("link_unknown", "this link is not known; ask the organiser for yours")
        if row.link != VALID:
            raise _build_withdrawn_error()
        return Annotator(row.id, row.name, row.kind, row.locale)

    def state(self, annotator: Annotator) -> dict[str, Any]:
        """Return the page's initial data: protocol, guidelines, annotator, progress, messages."""
        with self.store.read() as connection:
            row = connection.execute(sql("SELECT version, text FROM guidelines ORDER BY version DESC LIMIT 1")).one()
            return {
                "protocol": self.protocol.for_page(),
                "guidelines": {"version": row.version, "text": row.text},
                "annotator": {"name": annotator.name, "locale": annotator.locale}
                | self._browser_key(connection, annotator),
                "progress": self._read_progress(connection, annotator.id),
                "campaign": {"title": self.facts.title, "state": campaign_state(connection)},
                "messages": _list_messages(connection, annotator.id),
            }

    def _browser_key(self, connection: Connection, annotator: Annotator) -> dict[str, str]:
        """Return the key under which a crowd worker's browser stores the token."""
        visit = read_extra(connection, annotator.id).visit
        return {} if visit is None else {"kept_as": crowd.storage_key(self.facts.id, annotator.name)}

    def next_unit(self, annotator: Annotator) -> dict[str, Any]:
        """Return the annotator's open unit, else the next one, else that the work is finished."""
        return self._write_change(lambda connection: self._find_next_unit(connection, annotator))

    def _write_change(self, change: Change[dict[str, Any]]) -> dict[str, Any]:
        """Write in a transaction; reset the allocator if it fails."""
        try:
            return self.store.write(change)
        except BaseException:
            if self.inputs.allocation is not None:
                self.inputs.allocation.forget()
            raise

    def _lock_annotator(self, connection: Connection, annotator: Annotator) -> Any:
        """Lock the annotator's row: requests are serialised in all processes. Raise if the link is withdrawn."""
        query = lock_statement(connection, "SELECT link, work, counts FROM annotators WHERE id = :id")
        row = connection.execute(query, {"id": annotator.id}).one()
        if row.link != VALID:
            raise _build_withdrawn_error()
        return row

    def _find_next_unit(self, connection: Connection, annotator: Annotator) -> dict[str, Any]:
        person = self._lock_annotator(connection, annotator)
        state = campaign_state(connection)
        if person.counts and "paused" in (state, person.work):
            return {"paused": True, "message": "The work is paused; what you did is stored. Please come back later."}
        if state == "closed" or not person.counts:
            words = {"finished": True, "message": "The campaign is closed. Thank you for your work."}
            return self._add_completion_code(
                connection, annotator, words | ({} if person.counts else {"outcome": "failed"})
            )
        before = training.next_training_step(self.protocol, connection, annotator.id)
        if before is not None:
            return self._add_completion_code(connection, annotator, before)
        now, seed, allocation = self.store.clock.now(), self.facts.seed, self.inputs.allocation
        lease = queue.next_lease(self.log, connection, annotator.id, now, seed, plant_check)
        if (
            lease is None
            and allocation is not None
            and allocation.more(self.log, connection, judgments_per_output(connection), now)
        ):
            lease = queue.next_lease(self.log, connection, annotator.id, now, seed)
        if lease is None:
            words = {"finished": True, "message": "There is nothing left for you to judge. Thank you for your work."}
            return self._add_completion_code(connection, annotator, words)
        return {"unit": self._view_unit(connection, lease, annotator)}

    def _add_completion_code(
        self, connection: Connection, annotator: Annotator, words: dict[str, Any]
    ) -> dict[str, Any]:
        """Add a crowd worker's completion code, and where to submit it."""
        outcome: crowd.Outcome = words.pop("outcome", "completed")
        visit = read_extra(connection, annotator.id).visit
        if not words.get("finished") or visit is None:
            return words
        code = crowd.code_for(read_secret(self.inputs.key_file), outcome, annotator.name, self.protocol.crowd.codes())
        more = {"code": code}
        if visit.submit_to:
            more |= {"submit_to": visit.submit_to, "session": visit.session or ""}
        elif self.protocol.crowd.return_url:
            more["return_url"] = self.protocol.crowd.return_url.replace("{code}", code)
        return words | more

    def quiz(self, annotator: Annotator, answers: Any) -> dict[str, Any]:
        """Grade the questions on the instructions."""

        def change(connection: Connection) -> dict[str, Any]:
            self._lock_annotator(connection, annotator)
            return training.take_quiz(self.log, connection, annotator.id, answers, self.store.clock.now())

        return self.store.write(change)

    def example(self, annotator: Annotator, score: Any) -> dict[str, Any]:
        """Give feedback on an example of the tutorial."""

        def change(connection: Connection) -> dict[str, Any]:
            self._lock_annotator(connection, annotator)
            return training.take_example(self.log, connection, annotator.id, score, self.store.clock.now())

        return self.store.write(change)

    def unit(self, annotator: Annotator, assignment: str) -> dict[str, Any]:
        """Return one of the annotator's own units, to look at or to change."""
        with self.store.read() as connection:
            lease = self._require_own(connection, annotator, assignment)
            return {"unit": self._view_unit(connection, lease, annotator)}

    def history(self, annotator: Annotator) -> list[dict[str, Any]]:
        """Return the annotator's own units in order: assignment, label, done."""
        with self.store.read() as connection:
            rows = connection.execute(
                sql(
                    "SELECT id, position, state FROM assignments WHERE annotator_id = :id AND state IN ('leased', "
                    "'done', 'surplus') ORDER BY position"
                ),
                {"id": annotator.id},
            ).all()
        return [{"assignment": row.id, "label": str(row.position), "done": row.state != "leased"} for row in rows]

    def save(self, annotator: Annotator, assignment: str, changes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Store changes of answers; each is stored once, however often it is sent.

        A change is {id: unique text of the client, cell, answer: the whole answer of the cell, active_ms, idle_ms: time
        since the last change of this cell, base: revision of the answer that was changed, writer: text of this page
        alone}. A change of an answer that another page has changed since raises "stale", and nothing is stored; without
        `base` the last that arrives wins. All stay in the log.
        """
        return self.store.write(lambda connection: self._save_changes(connection, annotator, assignment, changes))

    def saving(self, token: str, assignment: str, changes: Sequence[Mapping[str, Any]]) -> Future[dict[str, Any]]:
        """Do `annotator` and `save` in one step; the future is done once the answers are on the disk.

        A server that waits for futures needs no thread for each save: on a busy machine every hand-over costs.
        """
        return self.store.submit(
            lambda connection: self._save_changes(
                connection, self._find_annotator(connection, token), assignment, changes
            )
        )

    def _read_change(self, shown_unit: ShownUnit, change: Any) -> AnswerChange:
        if not isinstance(change, Mapping) or not change.get("id"):
            raise CollectError("bad_answer", "every change needs an id, a text of 1 to 100 characters")
        check_text("id", change["id"], 100)
        cell = check_text("cell", change.get("cell"), 100)
        base, writer = change.get("base"), change.get("writer")
        if not isinstance(base, int | None):
            raise CollectError("bad_answer", "base should be a whole number")
        if writer is not None:
            check_text("writer", writer, 100)
        answer = check_answer(self.protocol, shown_unit, cell, change.get("answer"))
        active_ms, idle_ms = _read_ms(change.get("active_ms")), _read_ms(change.get("idle_ms"))
        return AnswerChange(change["id"], cell, answer, base, writer, active_ms, idle_ms)

    def _save_changes(
        self, connection: Connection, annotator: Annotator, assignment: str, sent: Sequence[Any]
    ) -> dict[str, Any]:
        if not isinstance(sent, list | tuple) or len(sent) > MAX_CHANGES:
            raise CollectError("bad_answer", f"changes should be a list of at most {MAX_CHANGES}")
        now = self.store.clock.now()
        person = self._lock_annotator(connection, annotator)
        lease = self._require_own(connection, annotator, assignment, lock=True)
        shown_unit = self.log.show_unit(connection, lease.unit_id)
        changes = [self._read_change(shown_unit, change) for change in sent]
        # Statements are what a save costs: facts that belong together come by one.
        facts = connection.execute(sql(_SAVE_FACTS), {"unit": lease.unit_id}).one()
        if facts.state == "closed":
            raise CollectError("campaign_closed", "the campaign is closed; this change is not stored")
        if lease.state in ("expired", "planned"):
            self._resume_lease(connection, lease, person, now)
        expires = now + queue.lease_seconds(facts.n_cells, facts.n_chars)
        versions = self._read_versions(connection, lease.id)
        revisions: dict[str, int] = {}
        for change in changes:
            # Ids of clients are unique for an assignment only: nobody can hinder others by guessing theirs.
            cell, client_id = change.cell, f"{lease.id}/{change.id}"
            if cell == FORM:
                form = kinds.FormAnswered(annotator=annotator.id, answer=encode_answer(change.answer))
                self.log.append(connection, now, annotator.id, form, client_id)
                continue
            if _is_stale(change, versions.get(cell)):
                if self.log.has_event(connection, client_id):
                    continue  # sent again: it was stored before the other change, whose revision this page has not seen
                raise CollectError(
                    "stale",
                    "this answer was changed in another tab or on another device meanwhile; load the unit again",
                )
            event = kinds.AnswerSaved(
                assignment=lease.id,
                cell=cell,
                answer=encode_answer(change.answer),
                active_ms=change.active_ms,
                idle_ms=change.idle_ms,
                writer=change.writer,
                guidelines=facts.guidelines,
                expires=expires,
            )
            if self.log.append(connection, now, annotator.id, event, client_id):
                versions[cell] = _Version(versions[cell].revision + 1 if cell in versions else 1, change.writer)
            revisions[cell] = versions[cell].revision
        return {
            "saved": [change.id for change in changes],
            "revisions": revisions,
            "progress": self._read_progress(connection, annotator.id),
        }

    def _resume_lease(self, connection: Connection, lease: Lease, person: Any, now: float) -> None:
        """Renew an expired lease if the unit is still free; answers are kept in any case."""
        if lease.state == "planned" or _may_take(connection, lease, person):
            expires = queue.lease_expiry(connection, lease.unit_id, now)
            event = kinds.LeaseResumed(assignment=lease.id, expires=expires)
            self.log.append(connection, now, lease.annotator_id, event)

    def submit(self, annotator: Annotator, assignment: str) -> dict[str, Any]:
        """Finish a unit: return what is missing, or the next unit, or that nothing is left."""
        return self._write_change(lambda connection: self._submit_unit(connection, annotator, assignment))

    def _submit_unit(self, connection: Connection, annotator: Annotator, assignment: str) -> dict[str, Any]:
        person = self._lock_annotator(connection, annotator)
        lease = self._require_own(connection, annotator, assignment, lock=True)
        if lease.state not in ("done", "surplus"):
            if campaign_state(connection) == "closed":
                raise CollectError("campaign_closed", "the campaign is closed; the unit was not submitted")
            missing = self._list_missing(connection, lease, annotator)
            if missing:
                return {"missing": missing}
            retake = lease.state == "expired"
            surplus = retake and not _may_take(connection, lease, person)
            event = kinds.UnitSubmitted(assignment=lease.id, surplus=surplus, retake=retake and not surplus)
            self.log.append(connection, self.store.clock.now(), annotator.id, event)
            self._pause_if_failing(connection, lease)
        return self._find_next_unit(connection, annotator)

    def _pause_if_failing(self, connection: Connection, lease: Lease) -> None:
        """Pause an annotator who fails the checks, if the protocol asks for it."""
        if self.protocol.checks.action != "pause" or unit_kind(connection, lease.unit_id) != CHECK:
            return
        card = grade_annotator(self.log, connection, lease.annotator_id)
        if card is not None and card.suggestion.startswith("pause"):
            reason = "; ".join(card.evidence)
            event = kinds.AnnotatorChanged(id=lease.annotator_id, work="paused", reason=reason)
            self.log.append(connection, self.store.clock.now(), "system", event)

    def give_back(self, annotator: Annotator, assignment: str, reason: str = "") -> dict[str, Any]:
        """Return a unit to the queue without judging it, and get the next one."""

        def change(connection: Connection) -> dict[str, Any]:
            self._lock_annotator(connection, annotator)
            lease = self._require_own(connection, annotator, assignment, lock=True)
            if lease.state in ("done", "surplus"):
                raise CollectError("lease_lost", "this unit was submitted; it can be changed, but not returned")
            if lease.state in ("leased", "planned"):
                event = kinds.UnitReturned(assignment=lease.id, reason=check_text("reason", reason[:1000]))
                self.log.append(connection, self.store.clock.now(), annotator.id, event)
            return self._find_next_unit(connection, annotator)

        return self.store.write(change)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _require_own(
        self, connection: Connection, annotator: Annotator, assignment: str, *, lock: bool = False
    ) -> Lease:
        lease = None if "\0" in assignment else find_lease(connection, assignment, lock=lock)
        if lease is None or lease.annotator_id != annotator.id:
            raise CollectError("unit_unknown", "there is no such unit among yours; load the page again")
        if lease.state in ("returned", "revoked"):
            raise CollectError("lease_lost", "this unit was given to somebody else; load the page again for the next")
        return lease

    def _answer_texts(self, connection: Connection, assignment: str) -> dict[str, str]:
        rows = connection.execute(
            sql("SELECT cell_id, answer FROM answers WHERE assignment_id = :id"), {"id": assignment}
        )
        return {row.cell_id: row.answer for row in rows}

    def _read_versions(self, connection: Connection, assignment: str) -> dict[str, _Version]:
        rows = connection.execute(
            sql("SELECT cell_id, revision, writer FROM answers WHERE assignment_id = :id"), {"id": assignment}
        )
        return {row.cell_id: _Version(row.revision, row.writer) for row in rows}

    def _list_missing(self, connection: Connection, lease: Lease, annotator: Annotator) -> list[dict[str, str]]:
        texts = self._answer_texts(connection, lease.id)
        missing = []
        if self.protocol.of_scope("annotator"):
            names = self._missing_of_form(read_extra(connection, annotator.id))
            missing += [{"cell": FORM, "widget": name} for name in names]
        for cell in self.log.show_unit(connection, lease.unit_id).cells.values():
            answer = read_answer(self.protocol, cell.scope, texts.get(cell.id, "{}"))
            names = missing_widgets(self.protocol, cell.scope, answer)
            missing += [{"cell": cell.id, "widget": name} for name in names]
        return missing

    def _missing_of_form(self, extra: Extra) -> list[str]:
        return missing_widgets(self.protocol, "annotator", read_values(self.protocol, "annotator", extra.form or {}))

    def _view_unit(self, connection: Connection, lease: Lease, annotator: Annotator) -> dict[str, Any]:
        """Return a unit as the page gets it: opaque ids and slots, nothing that tells a system or an item."""
        shown_unit = self.log.show_unit(connection, lease.unit_id)
        slots = decode(lease.slots)
        names = slot_names(len(slots))
        answers = {cell: decode(text) for cell, text in self._answer_texts(connection, lease.id).items()}
        unit: dict[str, Any] = {
            "assignment": lease.id,
            "number": lease.position,
            "of": self._read_progress(connection, annotator.id)["total"],
            "rows": [_wire_row(row, slots, names) for row in shown_unit.rows],
            "answers": answers,
            "revisions": {cell: v.revision for cell, v in self._read_versions(connection, lease.id).items()},
            "submitted": lease.state in ("done", "surplus"),
        }
        if shown_unit.document_cell:
            unit["document_cell"] = shown_unit.document_cell
        if self.protocol.of_scope("annotator"):
            extra = read_extra(connection, annotator.id)
            if extra.form is None or self._missing_of_form(extra):
                unit["annotator_cell"] = FORM
                answers |= {} if extra.form is None else {FORM: msgspec.json.decode(msgspec.json.encode(extra.form))}
        return unit

    def _read_progress(self, connection: Connection, annotator: str) -> dict[str, Any]:
        """Return units done and expected, and the seconds left; constant time."""
        row = connection.execute(sql(_PROGRESS), {"id": annotator}).one()
        remaining = max(0, (row.wanted or 0) - (row.done or 0))
        open_units = max(0, (row.units or 0) - row.n_done)
        share = open_units if row.kind == "model" else min(-(-remaining // (row.active or 1)), open_units)
        pace = row.active_ms / 1000 / row.n_done if row.n_done else self._guessed_pace
        return {"done": row.n_done, "total": row.n_done + share, "seconds_left": round(share * pace)}

    @cached_property
    def _guessed_pace(self) -> float:
        with self.store.read() as connection:
            row = connection.execute(sql("SELECT AVG(n_cells) AS cells, AVG(n_chars) AS chars FROM units")).one()
        return expected_seconds(int(row.cells or 1), int(row.chars or 0))


def _may_take(connection: Connection, lease: Lease, person: Any) -> bool:
    """Return whether an expired unit may be leased again; an excluded annotator's judgment would not count."""
    return bool(person.counts) and queue.has_room(connection, lease.unit_id, lease.annotator_id)


def _build_withdrawn_error() -> CollectError:
    return CollectError("link_revoked", "this link was withdrawn; ask the organiser for a new one")


def _is_stale(change: AnswerChange, stored: _Version | None) -> bool:
    """Return whether another page changed the answer since this page read it."""
    revision, writer = (stored.revision, stored.writer) if stored is not None else (0, None)
    is_own = writer is not None and writer == change.writer
    return change.base is not None and change.base != revision and not is_own


def _read_ms(value: Any) -> int:
    """Return a time in milliseconds within limits; 0 where a page sends something else."""
    is_usable = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, float):
        is_usable = not math.isnan(value)
    return int(min(max(value, 0), MAX_MS)) if is_usable else 0


def _wire_row(row: ShownRow, slots: Sequence[int], names: Sequence[str]) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.to_builtins(row)
    del content["item"]
    outputs = [
        {"slot": slot, "cell": None} | content["outputs"][number] for slot, number in zip(names, slots, strict=True)
    ]
    return {"cell": None} | content | {"outputs": outputs}


def _list_messages(connection: Connection, annotator: str) -> list[dict[str, Any]]:
    """The organiser's last messages to this annotator or to everybody, oldest first."""
    rows = connection.execute(
        sql("SELECT id, text FROM messages WHERE annotator_id IS NULL OR annotator_id = :id ORDER BY id DESC LIMIT 5"),
        {"id": annotator},
    ).all()
    return [{"id": row.id, "text": row.text} for row in reversed(rows)]
