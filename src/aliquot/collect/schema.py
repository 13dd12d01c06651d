"""The tables of a campaign, their versions, and how a database is opened.

SQLite in one file by default: write-ahead log, synchronous=FULL, so that a committed answer survives a power cut.
Ids of items are stored as JSON, so that 7 and "7" stay apart. Times are seconds since 1970.
"""

from __future__ import annotations

import sqlite3
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aliquot.errors import FormatError, MissingExtraError
from aliquot.io.formats.campaign import SEALED
from aliquot.io.formats.campaign_database import (
    APPLICATION,
    MAGIC,
    VERSION,
    at_rest_uri,
    build_damage_error,
    is_at_rest,
    make_url_engine,
    read_only_folder,
    require_tables,
    require_version,
    without_password,
)

try:
    import sqlalchemy as sa
    from sqlalchemy import event
    from sqlalchemy.exc import DBAPIError
except ImportError:  # pragma: no cover
    raise MissingExtraError("campaigns need SQLAlchemy: pip install 'aliquot[serve]'") from None

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

BUSY_SECONDS = 10.0

metadata = sa.MetaData()
_text, _whole, _real = sa.Text, sa.BigInteger, sa.Float(53)


def _column(name: str, kind: Any, **options: Any) -> sa.Column[Any]:
    options.setdefault("nullable", False)
    return sa.Column(name, kind, **options)


def _nullable_column(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True)


sa.Table("meta", metadata, _column("key", _text, primary_key=True), _column("value", _text))
sa.Table(
    "inputs",
    metadata,
    _column("name", _text, primary_key=True),
    _column("sha256", _text),
    _column("content", sa.LargeBinary),
)
sa.Table(
    "guidelines",
    metadata,
    _column("version", _whole, primary_key=True),
    _column("locale", _text),
    _column("text", _text),
    _column("created", _real),
)
sa.Table("counters", metadata, _column("name", _text, primary_key=True), _column("value", _whole))
sa.Table(
    "annotators",
    metadata,
    _column("id", _text, primary_key=True),
    _column("name", _text, unique=True),
    _column("kind", _text),
    _column("token_hash", _text, unique=True),
    _column("token_number", _whole),
    _column("link", _text),
    _column("work", _text),
    _column("counts", _whole),
    _column("locale", _text),
    _column("offset_rank", _whole),
    _column("extra", _text),
    _column("created", _real),
    _column("n_done", _whole),
    _column("n_cells", _whole),
    _column("active_ms", _whole),
    _nullable_column("last_seen", _real),
)
units = sa.Table(
    "units",
    metadata,
    _column("id", _whole, primary_key=True, autoincrement=False),
    _column("rank", _whole),
    _nullable_column("document", _text),
    _column("systems", _text),
    _column("wanted", _whole),
    _column("taken", _whole),
    _column("kind", _text),
    _column("payload", _text),
    _column("n_cells", _whole),
    _column("n_chars", _whole),
)
# Only open units are in this index: finding the next one costs the same at the end of a campaign as at its start.
sa.Index("units_open", units.c.rank, sqlite_where=sa.text("taken < wanted"), postgresql_where=sa.text("taken < wanted"))
sa.Table(
    "cells",
    metadata,
    _column("id", _text, primary_key=True),
    _column("unit_id", _whole, index=True),
    _nullable_column("item", _text),
    _nullable_column("system", _text),
    _column("slot", _whole),
    _nullable_column("control", _text),
    _nullable_column("expected", _text),
    _nullable_column("repeat_of", _text),
)
sa.Table(
    "assignments",
    metadata,
    _column("id", _text, primary_key=True),
    _column("unit_id", _whole),
    _column("annotator_id", _text),
    _column("state", _text),
    _column("position", _whole),
    _column("slots", _text),
    _column("policy", _text),
    _column("probability", _real),
    _nullable_column("leased_at", _real),
    _nullable_column("expires_at", _real),
    _nullable_column("done_at", _real),
    sa.UniqueConstraint("unit_id", "annotator_id"),
    sa.Index("assignments_annotator", "annotator_id", "state", "position"),
    sa.Index(
        "assignments_leases",
        "expires_at",
        sqlite_where=sa.text("state = 'leased'"),
        postgresql_where=sa.text("state = 'leased'"),
    ),
)
sa.Table(
    "answers",
    metadata,
    _column("assignment_id", _text, primary_key=True),
    _column("cell_id", _text, primary_key=True),
    _column("answer", _text),
    _column("revision", _whole),
    _column("active_ms", _whole),
    _column("idle_ms", _whole),
    _column("guidelines_version", _whole),
    _column("saved_at", _real),
    _nullable_column("writer", _text),
)
sa.Table(
    "exposures",
    metadata,
    _column("annotator_id", _text, primary_key=True),
    _column("system", _text, primary_key=True),
    _column("slot", _whole, primary_key=True),
    _column("n", _whole),
)
sa.Table(
    "judgments",
    metadata,
    _column("assignment_id", _text),
    _column("cell_id", _text),
    _column("item", _text),
    _column("system", _text),
    _column("annotator", _text),
    _nullable_column("criterion", _text),
    _nullable_column("value", _real),
    _nullable_column("seconds", _real),
    _column("time", _real),
    _column("order", _whole),
    _nullable_column("control", _text),
    _nullable_column("expected", _real),
    _nullable_column("repeat", _whole),
    _column("page", _text),
    _column("protocol", _text),
    _column("guidelines", _whole),
    _nullable_column("error", _whole),
    _nullable_column("category", _text),
    _nullable_column("severity", _text),
    _nullable_column("span", _text),
    _nullable_column("start", _whole),
    _nullable_column("end", _whole),
    _nullable_column("side", _text),
    _nullable_column("spans", _text),
    _nullable_column("text", _text),
    _nullable_column("marked", _text),
    sa.Index("judgments_cell", "assignment_id", "cell_id"),
)
sa.Table(
    "choices",
    metadata,
    _column("assignment_id", _text),
    _column("cell_id", _text),
    _column("item", _text),
    _column("annotator", _text),
    _nullable_column("system_a", _text),
    _nullable_column("system_b", _text),
    _nullable_column("choice", _text),
    _nullable_column("strength", _whole),
    _nullable_column("shown", _text),
    _nullable_column("best", _text),
    _nullable_column("worst", _text),
    _nullable_column("ranking", _text),
    _nullable_column("final", _text),
    _nullable_column("output_a", _text),
    _nullable_column("seconds", _real),
    _column("time", _real),
    _nullable_column("text", _text),
    _nullable_column("marked", _text),
    sa.Index("choices_cell", "assignment_id", "cell_id"),
)
_number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
sa.Table(
    "messages",
    metadata,
    _column("id", _number, primary_key=True),
    _nullable_column("annotator_id", _text),
    _column("text", _text),
    _column("created", _real),
)
# What the organiser did: a table of its own, so that showing it costs the same after a million answers.
sa.Table(
    "audit",
    metadata,
    _column("id", _number, primary_key=True),
    _column("time", _real),
    _column("kind", _text),
    _column("payload", _text),
)
sa.Table("seals", metadata, _column("name", _text, primary_key=True), _column("value", _whole))
# SQLite numbers only INTEGER keys by itself; numbers of events never come again, even after the last one is deleted.
sa.Table(
    "events",
    metadata,
    _column("id", _number, primary_key=True),
    _column("time", _real),
    _column("actor", _text),
    _column("kind", _text),
    sa.Column("client_id", _text, nullable=True, unique=True),
    _column("payload", _text),
    _nullable_column("digest", _whole),
    sqlite_autoincrement=True,
)

DERIVED = (
    "guidelines",
    "annotators",
    "units",
    "cells",
    "assignments",
    "answers",
    "exposures",
    "counters",
    "judgments",
    "choices",
    "messages",
    "audit",
)
"""Tables that follow from the events (and from the inputs); `collect check` builds them again."""


@cache
def columns_of(table: str) -> tuple[str, ...]:
    """Return the names of a table's columns, as plain texts."""
    return tuple(str(column.name) for column in metadata.tables[table].columns)


def is_url(place: str | Path) -> bool:
    """Tell whether a database is named by a URL instead of a file.

    >>> is_url("postgresql+psycopg://host/db"), is_url("campaign.db")
    (True, False)
    """
    return "://" in str(place)


def make_engine(place: str | Path, *, at_rest: bool = False) -> Engine:
    """Make the engine for a file or a URL; opens nothing yet. A file at rest is only read, and nothing is beside it."""
    if is_url(place):
        return make_url_engine(str(place), pool_pre_ping=True, pool_size=20, max_overflow=20)
    name = at_rest_uri(place) if at_rest else str(place)  # no URL of SQLAlchemy: names of files may hold ? and #
    engine = sa.create_engine(
        "sqlite://",
        pool_size=64,
        max_overflow=64,
        poolclass=sa.pool.QueuePool,
        creator=lambda: sqlite3.connect(name, uri=at_rest, timeout=BUSY_SECONDS, check_same_thread=False),
    )

    @event.listens_for(engine, "connect")
    def _set_pragmas(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin where we say so
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA secure_delete = ON")  # what is forgotten leaves the file
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin_transaction(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("immediate", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def create(engine: Engine) -> None:
    """Create all tables in an empty database."""
    if engine.dialect.name == "sqlite":
        raw = engine.raw_connection()
        try:
            raw.cursor().execute(f"PRAGMA application_id = {APPLICATION}")
            raw.cursor().execute("PRAGMA journal_mode = WAL")
        finally:
            raw.close()
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO meta VALUES ('schema', :version)"), {"version": str(VERSION)})
        connection.execute(sa.insert(metadata.tables["seals"]), [{"name": table, "value": 0} for table in SEALED])


MIGRATIONS = {
    2: "ALTER TABLE answers ADD COLUMN writer TEXT",
    3: "ALTER TABLE annotators ADD COLUMN link TEXT NOT NULL DEFAULT 'valid'; ALTER TABLE annotators ADD COLUMN work "
    "TEXT NOT NULL DEFAULT 'active'; ALTER TABLE annotators ADD COLUMN counts BIGINT NOT NULL DEFAULT 1; "
    "ALTER TABLE annotators DROP COLUMN state; ALTER TABLE events ADD COLUMN digest BIGINT; CREATE TABLE seals "
    "(name TEXT PRIMARY KEY, value BIGINT NOT NULL); INSERT INTO meta VALUES ('rederive', 'annotators') "
    "ON CONFLICT (key) DO NOTHING",
}
"""Version -> the SQL that leads to it from the version before.

Version 2: writers of answers; JSON lists of systems. Version 3: an annotator's link, work and judgments are three
facts instead of one state; checksums of events and of the tables that become numbers.
"""


def open_engine(place: str | Path) -> Engine:
    """Open a campaign, bring one of an older version up to date, and refuse what is none, or of a newer version.

    Where SQLite cannot write beside a file (in a read-only folder, on a full disk), the file is opened at rest: what
    only reads works.
    """
    if is_url(place):
        engine = make_engine(place)
    else:
        _require_file(Path(place))
        engine = _engine_of_file(Path(place))
    try:
        version = _read_version(engine, place)
        for number in range(version + 1, VERSION + 1):
            _migrate_to(engine, number)
    except DBAPIError as error:
        engine.dispose()
        raise FormatError(
            f"{without_password(place)}: was made by an older aliquot and cannot be brought up to date "
            f"({error.orig}); make it writable, or copy it"
        ) from None
    except BaseException:
        engine.dispose()
        raise
    return engine


def _engine_of_file(path: Path) -> Engine:
    engine = make_engine(path)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("SELECT 1 FROM sqlite_master LIMIT 1")
    except DBAPIError as error:
        engine.dispose()
        if is_damage(error):
            raise build_damage_error(path, f"it cannot be read as a campaign ({error.orig})") from None
        if _sqlite_code(error) in _BUSY:
            raise FormatError(
                f"{path}: cannot be read now ({error.orig}); another program keeps it for itself; close that program"
            ) from None
        if not is_at_rest(path):
            raise read_only_folder(path, error.orig) from None
        engine = make_engine(path, at_rest=True)
    return engine


def _read_version(engine: Engine, place: str | Path) -> int:
    try:
        with engine.connect() as connection:
            tables = set(sa.inspect(connection).get_table_names())
            is_ours = {"meta", "events"} <= tables or (
                engine.dialect.name == "sqlite"
                and connection.exec_driver_sql("PRAGMA application_id").scalar() == APPLICATION
            )
            require_tables(tables, {"meta", "events"}, is_ours, place)
            value = connection.execute(sa.text("SELECT value FROM meta WHERE key = 'schema'")).scalar()
            version = require_version(value, without_password(place))
    except DBAPIError as error:
        if is_url(place):
            reason = str(error.orig).splitlines()[0]
            raise FormatError(
                f"{without_password(place)}: cannot be read as a campaign ({reason}); "
                "check the URL, and that the server runs"
            ) from None
        raise build_damage_error(place, f"it cannot be read as a campaign ({error.orig})") from None
    if version == VERSION:
        require_tables(tables, metadata.tables.keys(), is_ours, place)
    return version


_PASSING = {3, 5, 6, 7, 8, 9, 10, 13, 14, 15, 19, 22}
"""SQLite's codes for what is no damage: locked, read-only, full, cannot be opened, no memory, a refused row, ..."""
_BUSY = {5, 6}


def is_damage(error: DBAPIError | sqlite3.Error) -> bool:
    """Tell whether SQLite complains about the file itself: malformed, or without a table or column of ours."""
    return isinstance(getattr(error, "orig", error), sqlite3.Error) and _sqlite_code(error) not in _PASSING


def _sqlite_code(error: DBAPIError | sqlite3.Error) -> int:
    return int(getattr(getattr(error, "orig", error), "sqlite_errorcode", 1)) & 0xFF


def remove_beside(path: Path) -> None:
    """Remove what SQLite leaves beside a file whose writing failed."""
    for ending in ("-wal", "-shm", "-journal"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


def _migrate_to(engine: Engine, number: int) -> None:
    """Lead to a version from the one before, unless another process has just done so."""
    with engine.begin() as connection:
        updated = connection.execute(
            sa.text("UPDATE meta SET value = :version WHERE key = 'schema' AND value = :before"),
            {"version": str(number), "before": str(number - 1)},
        )
        for statement in MIGRATIONS[number].split(";") if updated.rowcount else []:
            connection.execute(sa.text(statement))


def _require_file(path: Path) -> None:
    if not path.exists():
        raise FormatError(f"{path}: no such file; `aliquot collect new` makes a campaign")
    if path.is_dir():
        raise FormatError(f"{path}: is a folder where a campaign's file is meant; name the .db file")
    with path.open("rb") as file:
        start = file.read(16)
    if start != MAGIC:
        raise FormatError(f"{path}: is no campaign (not an SQLite file); `aliquot collect new` makes one")
