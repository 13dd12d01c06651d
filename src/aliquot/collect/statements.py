"""SQL statements for SQLite and PostgreSQL: prepared once, with the locks that several processes need, and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from aliquot.collect.schema import columns_of, metadata
from aliquot.io.formats.campaign import SEAL_MODULUS, SEALED, seal_of

Payload = dict[str, Any]


@cache
def sql(statement: str) -> sa.TextClause:
    """Prepare a statement once."""
    return sa.text(statement)


def lock_statement(connection: Connection, statement: str, *, skip: bool = False) -> sa.TextClause:
    """Lock the rows that a query returns until the transaction ends; SQLite has one writer and needs none."""
    if connection.dialect.name != "postgresql":
        return sql(statement)
    return sql(f"{statement} FOR UPDATE{' SKIP LOCKED' if skip else ''}")


NUMBERING, ALLOCATING = 1, 2
UNSEALED = "memory"
"""The name of the dialect of tables that are made for comparing only."""


def one_at_a_time(connection: Connection, what: int) -> None:
    """Lock the numbering of new rows for all other processes until the transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(sql("SELECT pg_advisory_xact_lock(:key)"), {"key": 41_823_000 + what})


def insert_rows(connection: Connection, table: str, rows: Sequence[Payload]) -> None:
    """Insert rows; absent fields are null. The seal of the table, if it has one, follows."""
    if not rows:
        return
    if table in SEALED:
        rows = [_as_stored(table, row) for row in rows]
        update_seal(connection, table, rows)
    else:
        names = list(dict.fromkeys(name for row in rows for name in row))
        rows = [{name: row.get(name) for name in names} for row in rows]
    connection.execute(sa.insert(metadata.tables[table]), rows)


def _as_stored(table: str, row: Payload) -> Payload:
    """Return a whole row as databases give it back: real numbers as such, and never -0.0."""
    values: Payload = dict.fromkeys(columns_of(table)) | row
    for name in _real_columns(table):
        if values[name] is not None:
            values[name] = float(values[name]) + 0.0
    return values


@cache
def _real_columns(table: str) -> tuple[str, ...]:
    return tuple(str(column.name) for column in metadata.tables[table].columns if isinstance(column.type, sa.Float))


def update_seal(connection: Connection, table: str, added: Sequence[Any], removed: Sequence[Any] = ()) -> None:
    """Update a table's seal for added and removed rows; a changed row is both."""
    if (added or removed) and connection.dialect.name != UNSEALED:
        connection.execute(
            sql(
                "INSERT INTO seals (name, value) VALUES (:name, :by) ON CONFLICT (name) "
                "DO UPDATE SET value = (seals.value + :by) % :modulus"
            ),
            {
                "name": table,
                "by": (seal_of(table, added) - seal_of(table, removed)) % SEAL_MODULUS,
                "modulus": SEAL_MODULUS,
            },
        )


def delete_rows(connection: Connection, table: str, where: str, values: Payload) -> None:
    """Delete rows of a sealed table; the caller holds a lock on their annotator."""
    gone = connection.execute(sql(f"SELECT * FROM {table} WHERE {where}"), values).mappings().all()
    update_seal(connection, table, (), gone)
    connection.execute(sql(f"DELETE FROM {table} WHERE {where}"), values)


def set_meta(connection: Connection, key: str, value: str) -> None:
    """Change one entry of the table `meta`, or add it."""
    query = lock_statement(connection, "SELECT key, value FROM meta WHERE key = :key")
    before = connection.execute(query, {"key": key}).mappings().all()
    update_seal(connection, "meta", [{"key": key, "value": value}], before)
    connection.execute(
        sql("INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = :value"),
        {"key": key, "value": value},
    )


def add_to_counter(connection: Connection, name: str, by: int) -> None:
    """Add to a counter."""
    connection.execute(
        sql(
            "INSERT INTO counters (name, value) VALUES (:name, :by) ON CONFLICT (name) "
            "DO UPDATE SET value = counters.value + :by"
        ),
        {"name": name, "by": by},
    )


def encode(value: Any) -> str:
    """Return a value as JSON."""
    return msgspec.json.encode(value).decode()


def decode(text: str) -> Any:
    """Return the value of a JSON text."""
    return msgspec.json.decode(text)


def event_digest(time: float, actor: str, kind: str, client_id: str | None, payload: str) -> int:
    """Return the digest that an event carries; as large as the integers of a database."""
    fields = msgspec.json.encode((float(time), actor, kind, client_id, payload))
    return int.from_bytes(blake2b(fields, digest_size=8).digest(), "big", signed=True)
