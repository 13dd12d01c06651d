"""How far a campaign is: who did how much, how fast, and when it will be finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from sqlalchemy.engine import Connection

from aliquot.collect.people import FORGOTTEN, describe_standing
from aliquot.collect.statements import sql
from aliquot.core.result import Result, frame_of
from aliquot.core.view import Column, View
from aliquot.core.written import format_percent
from aliquot.io.formats.campaign import iso_time

_DAY = 86400.0


@dataclass(frozen=True)
class AnnotatorStatus:
    """One annotator's work so far.

    `state` is "active", or what keeps the annotator from working: excluded, paused, link withdrawn. `answers` counts
    what was asked and answered: a comparison of four outputs is one answer. `pace` is seconds of
    active work a unit.
    """

    annotator: str
    kind: str
    state: str
    units_done: int
    units_open: int
    answers: int
    active_seconds: float
    pace: float | None
    last_seen: str | None


@dataclass(frozen=True)
class Status(Result):
    """A campaign's progress. `units` counts finished work: a unit judged by k annotators counts k times."""

    title: str
    protocol: str
    state: str
    units_done: int
    units_wanted: int
    units_leased: int
    answers: int
    active_seconds: float
    seconds_left: float | None
    finished_by: str | None
    annotators: tuple[AnnotatorStatus, ...]

    @property
    def share(self) -> float:
        """The share of the work that is done."""
        return self.units_done / self.units_wanted if self.units_wanted else 1.0

    def to_frame(self) -> pl.DataFrame:
        """One row per annotator."""
        return frame_of(self.annotators, AnnotatorStatus)

    def document(self) -> Mapping[str, Any]:
        """Return the fields and the share that is done."""
        return self.fields_without() | {"share": self.share}

    def views(self) -> Sequence[View]:
        """Return the progress in words, and a row for each annotator."""
        time_left = "" if self.seconds_left is None else f", about {format_duration(self.seconds_left)} to go"
        progress = f"{self.units_done:,} of {self.units_wanted:,} units done ({format_percent(self.share)})"
        intro = [
            f"{self.title} ({self.protocol}), {self.state}",
            f"{progress}, {self.units_leased:,} being judged",
            f"{format_duration(self.active_seconds)} of work{time_left}",
        ]
        if self.finished_by is not None:
            intro.append(f"at the pace so far it ends {_to_minute(self.finished_by)} UTC")
        columns = [
            Column("annotator", kind="name"),
            Column("state", kind="text"),
            Column("units done", "units_done", "count"),
            Column("open", "units_open", "count", rank=2),
            Column("answers", kind="count", rank=1),
            Column("s a unit", "pace", rank=3),
            Column("last seen", lambda row: "never" if row.last_seen is None else _to_minute(row.last_seen), "text"),
        ]
        return [View("annotators", self.annotators, columns, title="annotators", intro=intro)]


def format_duration(seconds: float) -> str:
    """Return a time for people.

    >>> format_duration(600), format_duration(9000)
    ('10 min', '2.5 h')
    """
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _to_minute(time: str) -> str:
    return time[:16].replace("T", " ")


def status_of(connection: Connection, title: str, protocol: str, now: float) -> Status:
    """Read the progress from counters and annotators: costs the same however long the log is."""
    counters = {row.name: row.value for row in connection.execute(sql("SELECT name, value FROM counters"))}
    state = str(connection.execute(sql("SELECT value FROM meta WHERE key = 'state'")).scalar())
    leases = connection.execute(
        sql("SELECT annotator_id, COUNT(*) AS n FROM assignments WHERE state = 'leased' GROUP BY annotator_id")
    )
    open_units = {row.annotator_id: row.n for row in leases}
    rows = connection.execute(sql("SELECT * FROM annotators ORDER BY created, name")).all()
    people = tuple(_annotator_status(row, open_units.get(row.id, 0)) for row in rows)
    done, wanted = counters.get("done", 0), counters.get("wanted", 0)
    first = counters.get("first_lease")
    humans = [person for person in people if person.kind != "model"]  # the work of automatic judges is no part of the k
    spent = sum(person.active_seconds for person in humans)
    finished = sum(person.units_done for person in humans if person.state != FORGOTTEN)  # whose seconds are deleted
    seconds_left = None if not finished else round((wanted - done) * spent / finished, 1)
    return Status(
        title,
        protocol,
        state,
        done,
        wanted,
        sum(open_units.values()),
        sum(person.answers for person in humans),
        round(spent, 1),
        seconds_left,
        _forecast_end(first, now, done, wanted),
        people,
    )


def _annotator_status(row: Any, leased: int) -> AnnotatorStatus:
    seconds = row.active_ms / 1000
    return AnnotatorStatus(
        row.name,
        row.kind,
        describe_standing(row),
        row.n_done,
        leased,
        row.n_cells,
        seconds,
        round(seconds / row.n_done, 1) if row.n_done and row.link != FORGOTTEN else None,
        None if row.last_seen is None else iso_time(row.last_seen),
    )


def _forecast_end(first: float | None, now: float, n_done: int, n_wanted: int) -> str | None:
    """Return when all is done if work goes on at the pace so far, nights and pauses included; None before the start."""
    if first is None or not n_done or n_done >= n_wanted or now <= first:
        return None
    end = now + (now - first) / n_done * (n_wanted - n_done)
    return iso_time(end) if end < now + 10_000 * _DAY else None
