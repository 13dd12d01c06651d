"""Proving that judgments are what the log says: all events are applied to empty tables again."""

from __future__ import annotations

import gc
import sqlite3
from collections import Counter, namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateIndex, CreateTable

from aliquot.collect.event_types import read_event
from aliquot.collect.events import Log
from aliquot.collect.people import erase_again
from aliquot.collect.protocols import Protocol
from aliquot.collect.schema import DERIVED, columns_of, is_damage, metadata
from aliquot.collect.statements import UNSEALED, event_digest, sql
from aliquot.collect.store import Store
from aliquot.collect.unit_texts import UnitTexts
from aliquot.core.result import Result
from aliquot.core.view import View
from aliquot.errors import AliquotError, DamagedError
from aliquot.io.formats.campaign import REDERIVE, SEALED, Rows, require_sealed, seal_of_table
from aliquot.io.formats.campaign_database import build_damage_error

MAX_LISTED = 5  # faults of one kind that are listed
_NUMBERED = ("messages", "audit")  # their ids come from the database and may have gaps


@dataclass(frozen=True)
class CheckResult(Result):
    """What `collect check` found: the number of events, and differences between the log and the tables."""

    events: int
    judgments: int
    faults: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether the tables are what the log says."""
        return not self.faults

    def document(self) -> Mapping[str, Any]:
        """Return the fields and whether the campaign is sound."""
        return {"events": self.events, "judgments": self.judgments, "sound": self.sound, "faults": self.faults}

    def to_frame(self) -> pl.DataFrame:
        """One row per fault."""
        return pl.DataFrame({"fault": list(self.faults)}, schema={"fault": pl.String})

    def views(self) -> Sequence[View]:
        """Return what was checked, and the faults."""
        return [
            View(
                "faults",
                intro=[
                    f"{self.events:,} events, {self.judgments:,} rows of judgments",
                    *(f"fault: {fault}" for fault in self.faults),
                    "the tables are what the log says" if self.sound else "restore the campaign from a backup",
                ],
            )
        ]


def read_rows(connection: Connection, table: str, columns: Sequence[str] = ()) -> Rows:
    """Return all rows of a table, or some columns of them, as the database gives them."""
    names = list(columns or columns_of(table))
    order = " ORDER BY id" if table == "events" else ""
    return Rows(names, list(map(tuple, connection.exec_driver_sql(_select_query(table, names) + order).all())))


def seals_of(connection: Connection) -> dict[str, int]:
    """Return the seals by table."""
    return {row.name: row.value for row in connection.execute(sql("SELECT name, value FROM seals"))}


def seal_all(connection: Connection) -> None:
    """Seal the tables and events of a campaign that had no seals."""
    values = [
        {"name": name, "value": seal_of_table(name, read_rows(connection, name, SEALED[name]))} for name in SEALED
    ]
    connection.execute(sql("DELETE FROM seals"))
    connection.execute(sql("INSERT INTO seals (name, value) VALUES (:name, :value)"), values)
    events = read_rows(connection, "events", ("id", *_DIGESTED)).rows
    digests = [{"id": number, "digest": event_digest(*fields)} for number, *fields in events]
    if digests:
        connection.execute(sql("UPDATE events SET digest = :digest WHERE id = :id"), digests)


_APPLIED = ("id", "time", "kind", "payload")
_DIGESTED = ("time", "actor", "kind", "client_id", "payload")


# -- applying the log to tables in memory ----------------------------------------------------------------------------


class _Memory:
    """The part of SQLAlchemy's connection that events use, straight on SQLite in memory; several times as fast."""

    def __init__(self) -> None:
        self.database = sqlite3.connect(":memory:", isolation_level=None)
        self.dialect = SimpleNamespace(name=UNSEALED)
        for table in metadata.sorted_tables:
            looked_up = [index for index in table.indexes if index.name not in _FOR_THE_QUEUE]
            statements: list[Any] = [CreateTable(table), *map(CreateIndex, looked_up)]
            for statement in statements:
                self.database.execute(str(statement.compile(dialect=sqlite.dialect())))
        self.database.execute("PRAGMA journal_mode = OFF")
        self.database.execute("BEGIN")

    def execute(self, statement: Any, values: Any = ()) -> _QueryResult:
        """Run a text with values by name, or an insertion of rows that all have the same columns."""
        if isinstance(statement, sa.TextClause):
            return _QueryResult(self.database.execute(statement.text, values), statement.text)
        text = _insert_query(statement.table.name, tuple(values[0]))
        return _QueryResult(self.database.executemany(text, [tuple(row.values()) for row in values]), text)


_FOR_THE_QUEUE = ("units_open", "assignments_leases", "assignments_annotator")
"""Indexes that applying events does without."""


@cache
def _insert_query(table: str, columns: Sequence[str]) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    return f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"


class _QueryResult:
    """The part of SQLAlchemy's result that events use."""

    def __init__(self, cursor: sqlite3.Cursor, query: str) -> None:
        self.cursor, self.query = cursor, query

    def __iter__(self) -> Iterator[Any]:
        return iter(self.all())

    def all(self) -> list[Any]:
        return list(map(self._row_type()._make, self.cursor.fetchall()))

    def one_or_none(self) -> Any:
        row = self.cursor.fetchone()
        return None if row is None else self._row_type()._make(row)

    def one(self) -> Any:
        row = self.one_or_none()
        if row is None:
            raise ValueError("a row that the event is about is missing")
        return row

    def scalar(self) -> Any:
        row = self.cursor.fetchone()
        return None if row is None else row[0]

    def mappings(self) -> _QueryResult:
        return self

    def _row_type(self) -> Any:
        row_type = _ROW_TYPES.get(self.query)
        if row_type is None:
            row_type = _ROW_TYPES[self.query] = _row_of([column[0] for column in self.cursor.description])
        return row_type


_ROW_TYPES: dict[str, Any] = {}  # query -> the type of its rows


def _row_of(names: Sequence[str]) -> Any:
    """Make a type of rows whose values are found by `row.name`, by `row["name"]` and by `**row`."""
    plain: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc]
    places = {name: index for index, name in enumerate(names)}

    class Row(plain):
        __slots__ = ()

        def __getitem__(self, name: Any) -> Any:
            return tuple.__getitem__(self, places[name] if isinstance(name, str) else name)

        def keys(self) -> list[str]:
            return list(names)

    return Row


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Look for no cycles among the many rows meanwhile, which would take a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def rebuild_tables(
    events: Rows, protocol: Protocol, texts: Callable[[], UnitTexts], place: str | Path
) -> dict[str, Rows]:
    """Return the derived tables as the log makes them."""
    memory: Any = _Memory()
    log = Log(protocol, texts)
    with closing(memory.database), _without_collecting():
        for number, time, kind, payload in map(itemgetter(*map(events.names.index, _APPLIED)), events.rows):
            try:
                if (event := read_event(kind, payload)) is not None:
                    log.apply(memory, time, event, payload)
            except AliquotError:
                raise
            except Exception as error:  # noqa: BLE001  (a damaged event can hold anything)
                why = f"{type(error).__name__}: {error}"
                raise build_damage_error(
                    place, f"event {number} ({kind}) of the log cannot be applied ({why})"
                ) from None
        columns = {name: columns_of(name) for name in DERIVED}
        return {
            name: Rows(list(names), memory.database.execute(_select_query(name, names)).fetchall())
            for name, names in columns.items()
        }


def _select_query(table: str, columns: Sequence[str]) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    return f"SELECT {names} FROM {table}"


def rederive_tables(store: Store, protocol: Protocol, texts: Callable[[], UnitTexts]) -> None:
    """Make tables of a campaign of an older version again from the log, and seal them.

    In version 1 lists of systems were texts, and answers about documents were repeated for each item; until version
    2 an excluded annotator's judgments counted again after another action, and texts of forgotten people stayed.
    """

    def change(connection: Connection) -> int:
        deleted = connection.execute(sql("DELETE FROM meta WHERE key = :key"), {"key": REDERIVE})
        if not deleted.rowcount:  # by another process
            return 0
        forgotten = erase_again(connection)
        tables = rebuild_tables(read_rows(connection, "events"), protocol, texts, store.place)
        for name in ("annotators", "choices", "judgments", "messages", "audit"):
            connection.execute(sql(f"DELETE FROM {name}"))
            rows = sorted(tables[name].as_dicts(), key=lambda row: float(row["time" if "time" in row else "created"]))
            if rows:
                connection.execute(metadata.tables[name].insert(), rows)
        seal_all(connection)
        return forgotten

    if store.write(change):
        store.vacuum()


# -- comparing -------------------------------------------------------------------------------------------------------


def check_tables(
    source: Connection, protocol: Protocol, texts: Callable[[], UnitTexts], place: str | Path
) -> CheckResult:
    """Compare every derived table with what the log makes of it, and look at the database itself."""
    faults = _faults_of_file(source)
    stored: dict[str, Rows] = {}
    for name in (*DERIVED, "events"):
        try:
            stored[name] = read_rows(source, name)
        except AliquotError:
            raise
        except (DBAPIError, ValueError) as error:
            faults.append(f"{name}: cannot be read ({getattr(error, 'orig', error)})")
    differing: dict[str, str] = {}
    if "events" in stored:
        faults += _damaged_events(stored["events"])
        try:
            made = rebuild_tables(stored["events"], protocol, texts, place)
            differing = {
                name: _describe_differences(name, stored[name], made[name]) for name in DERIVED if name in stored
            }
        except AliquotError as error:
            faults.append(f"events: {error}")
    faults += [f"{name}: {what}" for name, what in differing.items() if what]
    faults += _broken_seals(source, {name: rows for name, rows in stored.items() if not differing.get(name)}, place)
    if not faults:
        over = sum(row["taken"] > row["wanted"] for row in stored["units"].as_dicts())
        faults += [f"units: {over} have more judgments than wanted"] if over else []
    events, judgments = (len(stored[name].rows) if name in stored else 0 for name in ("events", "judgments"))
    return CheckResult(events, judgments, tuple(faults))


def _faults_of_file(source: Connection) -> list[str]:
    if source.dialect.name != "sqlite":
        return []
    try:
        lines = source.exec_driver_sql(f"PRAGMA integrity_check({MAX_LISTED})").scalars().all()
    except DBAPIError as error:
        if not is_damage(error):
            raise
        lines = [str(error.orig)]
    return [f"the file is damaged: {line}" for line in lines if line != "ok"]


def _damaged_events(events: Rows) -> list[str]:
    pick = itemgetter(*(events.names.index(name) for name in ("digest", *_DIGESTED)))
    faults = [
        f"events: the checksum of event {row[0]} (kind {_shorten(row[events.names.index('kind')])}) does not fit"
        for row in events.rows
        if not _is_whole(*pick(row))
    ]
    kinds = [row[events.names.index("kind")] for row in events.rows[:1]]
    if kinds != ["campaign"]:
        faults.insert(0, "events: the log does not begin with the making of the campaign")
    more = len(faults) - MAX_LISTED
    return [*faults[:MAX_LISTED], f"events: so it is with {more} more"] if more > 0 else faults


def _is_whole(digest: Any, *fields: Any) -> bool:
    try:
        return bool(digest == event_digest(*fields))
    except (TypeError, ValueError):
        return False


def _broken_seals(source: Connection, stored: Mapping[str, Rows], place: str | Path) -> list[str]:
    """Look at the seals of the tables that do not differ from the log, and of those that it does not make."""
    faults = []
    for name in SEALED:
        try:
            if name in stored or name not in DERIVED:
                require_sealed(place, name, stored.get(name) or read_rows(source, name, SEALED[name]), seals_of(source))
        except (DBAPIError, DamagedError) as error:
            faults.append(f"{name}: {getattr(error, 'orig', 'the checksum does not fit the rows')}")
    return faults


_KEYS = {
    "judgments": ("item", "system", "annotator", "criterion", "cell_id", "error"),
    "choices": ("item", "system_a", "system_b", "annotator", "cell_id"),
}


def _describe_differences(table: str, stored: Rows, made: Rows) -> str:
    """Say how many rows differ from those of the log, and what is wrong with the first."""
    names = [name for name in made.names if not (table in _NUMBERED and name == "id")]
    pick = itemgetter(*map(made.names.index, names))
    stored_counts, made_counts = (
        Counter(rows.rows if names == made.names else map(pick, rows.rows)) for rows in (stored, made)
    )
    if stored_counts == made_counts:
        return ""
    extra, lacking = (list((stored_counts - made_counts).elements()), list((made_counts - stored_counts).elements()))
    columns = metadata.tables[table]
    keys = _KEYS.get(table) or [c.name for c in columns.primary_key if c.name in names] or names[:2]
    return (
        f"{len(extra)} rows are not in the log, {len(lacking)} rows of the log are missing or differ; "
        f"{_describe_first(names, keys, extra, lacking)}"
    )


def _describe_first(names: list[str], keys: Sequence[str], extra: list[Any], lacking: list[Any]) -> str:
    def key(row: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(value for name, value in zip(names, row, strict=True) if name in keys)

    row_in_question = lacking[0] if lacking else extra[0]
    place = ", ".join(
        f"{name} {_shorten(value)}"
        for name, value in zip(names, row_in_question, strict=True)
        if name in keys and value is not None
    )
    if not lacking:
        return f"not in the log: {place}"
    twin = next((row for row in extra if key(row) == key(row_in_question)), None)
    if twin is None:
        return f"missing or under another name: {place}"
    changed = [
        f"{name} is {_shorten(old)}, by the log {_shorten(new)}"
        for name, old, new in zip(names, twin, row_in_question, strict=True)
        if old != new
    ]
    return f"first: {place}: {'; '.join(changed)}"


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
