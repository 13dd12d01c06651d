"""How far a campaign is: who did how much, how fast, and when it will be finished."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import polars as pl
from sqlalchemy.engine import Connection

from aliquot.collect.people import FORGOTTEN, standing
from aliquot.collect.statements import sql
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
class Status:
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
        schema = dict.fromkeys(AnnotatorStatus.__dataclass_fields__)
        return pl.DataFrame([asdict(one) for one in self.annotators], schema=list(schema), infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self) | {"share": self.share}


def status_of(connection: Connection, title: str, protocol: str, now: float) -> Status:
    """Read the progress from counters and annotators: costs the same however long the log is."""
    counters = {row.name: row.value for row in connection.execute(sql("SELECT name, value FROM counters"))}
    state = str(connection.execute(sql("SELECT value FROM meta WHERE key = 'state'")).scalar())
    leases = connection.execute(
        sql("SELECT annotator_id, COUNT(*) AS n FROM assignments WHERE state = 'leased' GROUP BY annotator_id")
    )
    open_units = {row.annotator_id: row.n for row in leases}
    rows = connection.execute(sql("SELECT * FROM annotators ORDER BY created, name")).all()
    people = tuple(_annotator(row, open_units.get(row.id, 0)) for row in rows)
    done, wanted = counters.get("done", 0), counters.get("wanted", 0)
    first = counters.get("first_lease")
    humans = [one for one in people if one.kind != "model"]  # the work of automatic judges is no part of the k
    spent = sum(one.active_seconds for one in humans)
    finished = sum(one.units_done for one in humans if one.state != FORGOTTEN)  # whose seconds are deleted
    left = None if not finished else round((wanted - done) * spent / finished, 1)
    return Status(
        title,
        protocol,
        state,
        done,
        wanted,
        sum(open_units.values()),
        sum(one.answers for one in humans),
        round(spent, 1),
        left,
        _forecast(first, now, done, wanted),
        people,
    )


def _annotator(row: Any, leased: int) -> AnnotatorStatus:
    seconds = row.active_ms / 1000
    return AnnotatorStatus(
        row.name,
        row.kind,
        standing(row),
        row.n_done,
        leased,
        row.n_cells,
        seconds,
        round(seconds / row.n_done, 1) if row.n_done and row.link != FORGOTTEN else None,
        None if row.last_seen is None else iso_time(row.last_seen),
    )


def _forecast(first: float | None, now: float, done: int, wanted: int) -> str | None:
    """Return when all is done if work goes on at the pace so far, nights and pauses included; None before the start."""
    if first is None or not done or done >= wanted or now <= first:
        return None
    end = now + (now - first) / done * (wanted - done)
    return iso_time(end) if end < now + 10_000 * _DAY else None
