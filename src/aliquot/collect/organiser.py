"""Data of the organiser's page: progress, results, annotators, cost.

`overview` is everything the page shows, as plain values: `aliquot collect status --json` prints it, too. The snapshot
in it is taken in the background when there is something new, so that showing the page costs the same after 100 answers
as after 1,000,000.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import polars as pl

from aliquot.annotation.ballots import table_preferences
from aliquot.annotation.choice_tables import detect_table_kind
from aliquot.annotation.clean import clean
from aliquot.collect import crowd
from aliquot.collect.actions import list_audit
from aliquot.collect.campaign import Campaign
from aliquot.collect.checks import annotator_cards
from aliquot.collect.people import Extra, describe_standing
from aliquot.collect.planting import page_floors
from aliquot.collect.snapshot import Snapshot, describe_snapshot, take_snapshot
from aliquot.collect.statements import decode, sql
from aliquot.collect.status import status_of
from aliquot.core.judgments import Judgments
from aliquot.core.result import Result, frame_of, to_plain
from aliquot.core.view import Column, View
from aliquot.errors import AliquotError, DataError
from aliquot.io.formats.campaign import read_choices, read_table

LOG = logging.getLogger("aliquot.collect")
_PAUSE = 2.0  # seconds between two snapshots, at least
_FIRST_WAIT = 30.0  # seconds that the page waits for the first snapshot
_UNWATCHED = 120.0  # seconds without a look after which no more snapshots are taken


@dataclass(frozen=True)
class Overview:
    """State of a campaign: progress, cost, results, annotators, actions."""

    title: str
    state: str
    protocol: str
    time: float
    done: int
    wanted: int
    seconds: float
    seconds_left: float
    end: float | None  # when it will be finished at today's pace; None where nobody works
    money: float
    money_left: float
    currency: str
    snapshot: Snapshot
    people: tuple[dict[str, Any], ...]
    audit: tuple[dict[str, Any], ...]
    problem: str | None = None  # since when and why there is no newer snapshot
    notice: str | None = None  # that shared links let nobody in any more

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; undefined numbers are null."""
        document: dict[str, Any] = to_plain(vars(self) | {"snapshot": vars(self.snapshot)})
        return document | {"words": list(self.words)}

    @property
    def words(self) -> Sequence[str]:
        """Problems and notices, followed by the snapshot in sentences."""
        sentences = () if self.snapshot is _UNKNOWN else describe_snapshot(self.snapshot)
        return (*filter(None, (self.problem, self.notice)), *sentences)


_UNKNOWN = Snapshot((), (), 0, 0, False, "", 0.0, 0, 0, 0.0, float("nan"), ())
"""Shown where the first snapshot failed."""


def overview(campaign: Campaign, snapshot: Snapshot | None = None, problem: str | None = None) -> Overview:
    """Return the state of a campaign; computes a snapshot unless one is passed."""
    now = campaign.store.clock.now()
    with campaign.store.read() as connection:
        people = [
            dict(row._mapping) | {"state": describe_standing(row)}  # noqa: SLF001  (public in SQLAlchemy)
            for row in connection.execute(
                sql(
                    "SELECT name, kind, link, work, counts, n_done, active_ms, last_seen FROM annotators ORDER BY "
                    "created, name"
                )
            )
        ]
        status = status_of(connection, campaign.facts.title, campaign.protocol.name, now)
        actions = list_audit(connection)
        names = {row.id: row.name for row in connection.execute(sql("SELECT id, name FROM annotators"))}
    seconds_left = float("nan") if status.seconds_left is None else max(0.0, status.seconds_left)
    paid = campaign.protocol.payment.per_unit
    for entry in actions:
        entry["payload"] = decode(entry["payload"])
        entry["target"] = names.get(entry["payload"].get("id") or "", "")
    return Overview(
        status.title,
        status.state,
        status.protocol,
        now,
        status.units_done,
        status.units_wanted,
        status.active_seconds,
        seconds_left,
        _forecast_end(people, seconds_left, now),
        paid * sum(one.units_done for one in status.annotators if one.kind != "model"),
        paid * max(0, status.units_wanted - status.units_done),
        campaign.protocol.payment.currency,
        snapshot if snapshot is not None else snapshot_of(campaign),
        tuple(people),
        tuple(actions),
        problem,
        campaign.admission.crowd_notice(),
    )


def _forecast_end(people: Sequence[Mapping[str, Any]], seconds_left: float, now: float) -> float | None:
    """Forecast the end, if everybody who worked in the last hour continues."""
    able = [p for p in people if p["state"] == "active" and p["kind"] != "model"]
    working = sum(1 for p in able if p["last_seen"] and now - p["last_seen"] < 3600)
    return now + seconds_left / working if working and math.isfinite(seconds_left) and seconds_left else None


def snapshot_of(campaign: Campaign) -> Snapshot:
    """Take a snapshot of a campaign; the protocol may name cleaning steps that come before."""
    judgments = Judgments(read_table(campaign.store.place))  # also before the first
    with campaign.store.read() as connection:
        floors = page_floors(campaign.log, connection)
    judgments = _clean_judgments(campaign, judgments)
    picture = None
    if campaign.inputs.allocation is not None:
        with campaign.store.read() as connection:
            picture = campaign.inputs.allocation.advice(connection).picture
    snapshot = take_snapshot(campaign.data, campaign.selection, judgments, picture=picture)
    cards = annotator_cards(judgments, floor=floors) if floors else snapshot.annotators
    return replace(snapshot, annotators=cards, choices=_count_choices(campaign))


def _count_choices(campaign: Campaign) -> int | None:
    """Count choices between two systems as `compare` does; None where the protocol asks for none."""
    frame = read_choices(campaign.store.place)
    if frame is None:
        return None
    try:
        return len(table_preferences(frame, detect_table_kind(frame.columns) or "pairwise").choices)
    except DataError:  # none counts
        return 0


def _clean_judgments(campaign: Campaign, judgments: Judgments) -> Judgments:
    steps = campaign.protocol.checks.clean
    return clean(judgments, steps=steps).judgments if steps and len(judgments) else judgments


@dataclass(frozen=True)
class Payments(Result):
    """What the annotators of a campaign are paid."""

    people: tuple[crowd.WorkerPayment, ...]
    currency: str

    @property
    def total(self) -> float:
        """Base and bonus of all."""
        return sum(row.base + row.bonus for row in self.people)

    def to_frame(self) -> pl.DataFrame:
        """One row per annotator."""
        return frame_of(self.people, crowd.WorkerPayment)

    def views(self) -> Sequence[View]:
        """Return a row for each annotator."""
        columns = [
            Column("annotator", kind="name"),
            Column("units", kind="count"),
            Column("hours", lambda row: row.seconds / 3600, places=1, rank=3),
            Column("base", places=2),
            Column("bonus", places=2),
            Column("an hour", "hourly", places=2, rank=1),
            Column("outcome", kind="text", rank=2),
        ]
        return [View("payments", self.people, columns, caption=f"in {self.currency}")]


def payments_of(campaign: Campaign) -> Payments:
    """Return what each annotator is paid; the bonus requires an annotator card without warnings."""
    with campaign.store.read() as connection:
        people = connection.execute(
            sql(
                "SELECT name, counts, n_done, active_ms, extra FROM annotators WHERE kind = 'human' "
                "ORDER BY created, name"
            )
        ).all()
    cards = {card.annotator: card for card in snapshot_of(campaign).annotators}
    work: list[tuple[str, str, int, float, crowd.Outcome, bool]] = []
    for person in people:
        extra = msgspec.json.decode(person.extra, type=Extra)
        screened = extra.quiz_attempts > 0 and not extra.quiz_passed
        outcome: crowd.Outcome = "screened_out" if screened else "completed" if person.counts else "failed"
        passed = person.name in cards and not cards[person.name].evidence
        worker = person.name if extra.visit is None else extra.visit.worker
        work.append((person.name, worker, person.n_done, person.active_ms / 1000, outcome, passed))
    payment = campaign.protocol.payment
    rows = crowd.compute_payments(work, per_unit=payment.per_unit, bonus=payment.bonus, currency=payment.currency)
    return Payments(tuple(rows), payment.currency)


@dataclass(frozen=True)
class _Problem:
    """Why snapshots fail, and since when."""

    time: float
    words: str


class LiveView:
    """Keeps the last snapshot, and notifies waiting readers of a new one.

    One background thread a server, while somebody looks. A snapshot that fails is tried again; until then the page
    shows the last one, since when it fails, and why.
    """

    def __init__(self, campaign: Campaign, pause: float = _PAUSE) -> None:
        self._campaign, self._pause = campaign, pause
        self._changed = threading.Condition()
        self._snapshot: Snapshot | None = None
        self._problem: _Problem | None = None
        self._version, self._seen = 0, -1
        self._looked_at = 0.0
        self._thread: threading.Thread | None = None

    def overview(self) -> Overview:
        """Return the current state with the last snapshot."""
        self.start()
        with self._changed:
            self._changed.wait_for(lambda: self._snapshot is not None or self._problem is not None, _FIRST_WAIT)
            snapshot, problem = self._snapshot, self._problem
        if problem is not None:
            since = f"Since {in_utc(problem.time)} the estimates cannot be computed: {problem.words}"
            return overview(self._campaign, snapshot or _UNKNOWN, since)
        if snapshot is None:
            return overview(self._campaign, _UNKNOWN, "The first estimates are still being computed.")
        return overview(self._campaign, snapshot)

    def version(self) -> int:
        """Return the number of the last snapshot."""
        self.start()
        return self._version

    def wait(self, version: int, seconds: float) -> int:
        """Wait for a snapshot newer than `version`, up to a timeout; return the current version."""
        self.start()
        with self._changed:
            self._changed.wait_for(lambda: self._version != version, seconds)
            return self._version

    def start(self) -> None:
        """Start the background thread; it stops when nobody has looked for a while."""
        with self._changed:
            self._looked_at = time.monotonic()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch_for_changes, name="aliquot-snapshots", daemon=True)
                self._thread.start()

    def _watch_for_changes(self) -> None:
        resting = threading.Event()  # never set: its wait is a pause
        while self._is_watched():
            started = time.monotonic()
            fresh = self._take_snapshot()
            # A large campaign's snapshot takes a while: at most a fifth of the time goes into them.
            resting.wait(max(self._pause, 4 * (time.monotonic() - started)) if fresh else self._pause / 4)

    def _is_watched(self) -> bool:
        with self._changed:
            watched = time.monotonic() - self._looked_at < _UNWATCHED
            if not watched:
                self._thread = None
            return watched

    def _take_snapshot(self) -> bool:
        """Take a snapshot if anything has happened since the last one, or if that one failed."""
        last = self._seen
        try:
            last = self._last_event()
            if last == self._seen and self._problem is None:
                return False
            self._publish(last, snapshot_of(self._campaign), None)
        # Whatever it is, the page says so and the thread goes on; a panic of polars is no Exception.
        except BaseException as error:  # noqa: BLE001
            self._publish(last, self._snapshot, self._problem_of(error))
        return True

    def _publish(self, last: int, snapshot: Snapshot | None, problem: _Problem | None) -> None:
        with self._changed:
            is_news = (last, problem) != (self._seen, self._problem)
            self._seen, self._snapshot, self._problem = last, snapshot, problem
            if is_news:
                self._version += 1
                self._changed.notify_all()

    def _problem_of(self, error: BaseException) -> _Problem:
        """Describe why snapshots fail and since when; logged once."""
        words = str(error) if isinstance(error, AliquotError) else f"{type(error).__name__}: {error}"
        if self._problem is not None and self._problem.words == words:
            return self._problem
        LOG.warning("the organiser's page shows no new snapshot: %s", words)
        return _Problem(self._campaign.store.clock.now(), words)

    def _last_event(self) -> int:
        with self._campaign.store.read() as connection:
            return int(connection.execute(sql("SELECT MAX(id) FROM events")).scalar() or 0)


def in_utc(seconds: float | None) -> str:
    """UTC, so that daylight saving changes nothing."""
    if seconds is None:
        return ""
    moment = datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%d %H:%M UTC")
