"""SQL statements for SQLite and PostgreSQL: prepared once, with the locks that several processes need, and JSON."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from aliquot.collect.schema import metadata

Payload = dict[str, Any]


@cache
def sql(statement: str) -> sa.TextClause:
    """Prepare a statement once."""
    return sa.text(statement)


def locking(connection: Connection, statement: str, *, skip: bool = False) -> sa.TextClause:
    """Lock the rows that a query returns until the transaction ends; SQLite has one writer and needs none."""
    if connection.dialect.name != "postgresql":
        return sql(statement)
    return sql(f"{statement} FOR UPDATE{' SKIP LOCKED' if skip else ''}")


NUMBERING, ALLOCATING = 1, 2


def one_at_a_time(connection: Connection, what: int) -> None:
    """Let one process number new rows at a time, until the transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(sql("SELECT pg_advisory_xact_lock(:key)"), {"key": 41_823_000 + what})


def insert(connection: Connection, table: str, rows: list[Payload]) -> None:
    """Insert rows; absent fields are null."""
    if rows:
        names = list(dict.fromkeys(name for row in rows for name in row))
        filled = [{name: row.get(name) for name in names} for row in rows]
        connection.execute(sa.insert(metadata.tables[table]), filled)


def add_to_counter(connection: Connection, name: str, by: int) -> None:
    """Add to a counter."""
    connection.execute(
        sql("INSERT INTO counters (name, value) VALUES (:name, :by) ON CONFLICT (name) "
            "DO UPDATE SET value = counters.value + :by"),
        {"name": name, "by": by},
    )  # fmt: skip


def set_meta(connection: Connection, key: str, value: str) -> None:
    """Change one entry of the table `meta`, or add it."""
    connection.execute(
        sql("INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = :value"),
        {"key": key, "value": value},
    )


def encode(value: Any) -> str:
    """Return a value as JSON."""
    return msgspec.json.encode(value).decode()


def decode(text: str) -> Any:
    """Return the value of a JSON text."""
    return msgspec.json.decode(text)
