"""Campaigns of `aliquot collect` as data: the judgments in them, also while people are judging.

A campaign is an SQLite file, or a PostgreSQL database named by its URL. Reading needs the standard library only (for
PostgreSQL, SQLAlchemy). What the tables mean is decided in `aliquot.collect`.

The tables that become numbers are sealed: `seals` holds the sum of the digests of all rows of a table. A sum, because
rows come, change and go one at a time; and whoever changes one takes off the digest that the row has by then, so that
damage stays visible after any change. A row that is lost, read twice or read as another does not fit the sum.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from aliquot.core.columns import encode_column, unify_ids
from aliquot.core.origin import OUTPUT_DIGEST, digest_text
from aliquot.errors import AliquotError, DataError, FormatError
from aliquot.io.formats.campaign_database import (
    APPLICATION,
    VERSION,
    as_url,
    build_damage_error,
    connect_read_only,
    is_at_rest,
    make_url_engine,
    require_tables,
    require_version,
    without_password,
)

REDERIVE = "rederive"
"""A key of `meta`: the tables of a campaign of an older version are to be made again from the log."""
SEALED: Mapping[str, tuple[str, ...]] = {
    "judgments": (),
    "choices": (),
    "meta": (),
    "inputs": ("name", "sha256"),
    "units": ("id", "rank", "document", "systems", "kind", "payload", "n_cells", "n_chars"),
}
"""Table -> columns that its seal covers; () are all. Those that are left out change with every lease."""
SEAL_MODULUS = 2**62
"""Seals are sums modulo this, so that two of them add up within the 64 bits of a database."""
_UNSEALED_KEYS = ("schema", REDERIVE)  # of `meta`: they change before a campaign of an older version has seals

_KEYS = ("assignment_id", "cell_id")
_RENAMED = {"side": "span_in"}


def read_table(source: str | Path, table: str = "judgments", left_out: Sequence[str] = _KEYS) -> pl.DataFrame:
    """Return the table `judgments` or `choices` under the names that other verbs know; empty columns are left out."""
    return _as_frame(source, _read_tables(source, table)[table], left_out)


def _as_frame(source: str | Path, rows: Rows, left_out: Sequence[str]) -> pl.DataFrame:
    try:
        return _build_frame(rows.names, rows.rows, left_out)
    except AliquotError:
        raise
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, OSError, pl.exceptions.PolarsError) as error:
        raise _build_reading_error(source, error) from None


def read_judgments(source: str | Path) -> pl.DataFrame:
    """Return the judgments, or say that there are none yet."""
    frame = read_table(source)
    if not frame.height:
        place = without_password(source)
        raise DataError(
            f"{place}: nobody has submitted a unit yet, so there are no judgments; see `aliquot collect status {place}`"
        )
    return frame


def read_judgments_of_texts(source: str | Path) -> pl.DataFrame:
    """Return the judgments, each with the digest of the output that was shown; of attention checks there is none."""
    tables = _read_tables(source, "judgments", "units")
    frame = _as_frame(source, tables["judgments"], _KEYS[:1])
    if not frame.height:
        return read_judgments(source)
    units = tables["units"]
    try:
        payload = units.names.index("payload")
        displayed = [row for unit in units.rows for row in msgspec.json.decode(unit[payload])["rows"]]
        digests = {
            output["cell"]: digest_text(output["text"]) or None
            for row in displayed
            for output in row["outputs"]
            if output.get("cell")
        }
        digest = pl.col("cell_id").replace_strict(digests, default=None, return_dtype=pl.String)
        real = pl.col("control").is_null() if "control" in frame.columns else pl.lit(value=True)
        return frame.with_columns(pl.when(real).then(digest).alias(OUTPUT_DIGEST)).drop("cell_id")
    except AliquotError:
        raise
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError, ValueError, pl.exceptions.PolarsError) as error:
        raise _build_reading_error(source, error) from None


def read_choices(source: str | Path) -> pl.DataFrame | None:
    """Return the comparisons, or None where the campaign asks for none (post-editing alone compares nothing)."""
    frame = read_table(source, "choices")
    return frame if frame.height and {"choice", "best", "ranking"} & set(frame.columns) else None


# -- seals -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """A table as it is stored."""

    names: list[str]
    rows: Sequence[Sequence[Any]]

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return each row as name -> value."""
        return [dict(zip(self.names, row, strict=True)) for row in self.rows]


def seal_of(table: str, rows: Iterable[Mapping[str, Any]]) -> int:
    """Return what whole rows, with values as the database gives them back, add to the seal of their table.

    >>> one, other = {"name": "data", "sha256": "1f"}, {"name": "protocol", "sha256": "2e"}
    >>> seal_of("inputs", [one, other]) == (seal_of("inputs", [one]) + seal_of("inputs", [other])) % SEAL_MODULUS
    True
    """
    all_rows = list(rows)
    names = sorted(SEALED[table] or (all_rows[0] if all_rows else ()))
    return _compute_seal(names, ([row[name] for name in names] for row in all_rows))


def seal_of_table(table: str, rows_of_table: Rows) -> int:
    """Return the seal of a whole table."""
    rows: Iterable[Sequence[Any]] = rows_of_table.rows
    if table == "meta":
        key = rows_of_table.names.index("key")
        rows = [row for row in rows if row[key] not in _UNSEALED_KEYS]
    names = sorted(SEALED[table] or rows_of_table.names)
    return _compute_seal(names, map(itemgetter(*map(rows_of_table.names.index, names)), rows))


def _compute_seal(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    begun, encode, total = blake2b(_encode(names), digest_size=8), _encode, 0
    for row in rows:
        digest = begun.copy()
        digest.update(encode(row))
        total += int.from_bytes(digest.digest(), "big")
    return total % SEAL_MODULUS


_encode = msgspec.json.Encoder().encode


def require_sealed(place: str | Path, table: str, rows: Rows, seals: Mapping[str, int]) -> None:
    """Refuse a table whose rows are not those that were written."""
    try:
        fits = seals.get(table) == seal_of_table(table, rows)
    except (ValueError, TypeError, OverflowError):  # a column is gone, or holds what no row of ours does
        fits = False
    if not fits:
        raise build_damage_error(place, f"the checksum of the table {table} does not fit its rows")


# -- reading -------------------------------------------------------------------------------------------------------

_Run = Callable[[str], Rows]


def _read_tables(source: str | Path, *tables: str) -> dict[str, Rows]:
    """Return tables as they are at one moment; those of a campaign of the present version fit their seals."""
    url = as_url(source)
    return _read_file(Path(source), tables) if url is None else _read_url(url, tables)


def _read_all(run: _Run, tables: Sequence[str], orders: Mapping[str, str], place: str) -> dict[str, Rows]:
    meta = {row[0]: row[1] for row in run("SELECT key, value FROM meta").rows}
    version = require_version(meta.get("schema"), place)
    rows_by_table = {table: run(f'SELECT * FROM "{table}" ORDER BY {orders[table]}') for table in tables}  # noqa: S608  (names of our own)
    # Before version 2 lists of systems were texts; before version 3 marks of excluded annotators could be lost.
    if REDERIVE in meta or (version < 2 and _has_lists(rows_by_table)) or (version < 3 and _had_exclusions(run)):
        raise FormatError(
            f"{place}: was made by an older aliquot; bring it up to date first: aliquot collect check {place}"
        )
    if version >= VERSION:
        seals = {row[0]: row[1] for row in run("SELECT name, value FROM seals").rows}
        for table, rows in rows_by_table.items():
            require_sealed(place, table, rows, seals)
    return rows_by_table


def _has_lists(rows_by_table: Mapping[str, Rows]) -> bool:
    return any(
        row[index] is not None
        for table in rows_by_table.values()
        for index, name in enumerate(table.names)
        if name in ("shown", "ranking")
        for row in table.rows
    )


def _had_exclusions(run: _Run) -> bool:
    return any('"state":"excluded"' in row[0] for row in run("SELECT payload FROM audit").rows)


def _read_file(path: Path, tables: Sequence[str]) -> dict[str, Rows]:
    try:
        rested = is_at_rest(path)
        try:
            rows_by_table = _rows_of_file(path, tables, rested)
        except (sqlite3.Error, UnicodeDecodeError, FormatError):
            if not rested or is_at_rest(path):
                raise
        else:
            if not rested or is_at_rest(path):
                return rows_by_table
        return _rows_of_file(path, tables, rested=False)  # a server began to write meanwhile
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _build_reading_error(path, error) from None


def _rows_of_file(path: Path, tables: Sequence[str], rested: bool) -> dict[str, Rows]:
    with closing(connect_read_only(path, rested)) as connection:
        connection.execute("BEGIN")  # all that is read is of one moment
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        is_ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION
        require_tables(names, ("meta", "judgments", "choices", "events"), is_ours, path)

        def run(query: str) -> Rows:
            cursor = connection.execute(query)
            return Rows([column[0] for column in cursor.description], cursor.fetchall())

        return _read_all(run, tables, dict.fromkeys(tables, "rowid"), str(path))


def _build_reading_error(source: str | Path, error: Exception) -> FormatError:
    return build_damage_error(source, f"it cannot be read as a campaign ({error})")


_ORDERS = {"judgments": '"time", "order"', "choices": '"time"', "units": "id"}  # in PostgreSQL, rows have no order


def _read_url(url: str, tables: Sequence[str]) -> dict[str, Rows]:
    place = without_password(url)
    engine = make_url_engine(url)
    import sqlalchemy as sa  # noqa: PLC0415  (an extra)

    try:
        with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:

            def run(query: str) -> Rows:
                result = connection.execute(sa.text(query))
                return Rows(list(result.keys()), [tuple(row) for row in result])

            return _read_all(run, tables, _ORDERS, place)
    except sa.exc.SQLAlchemyError as error:
        reason = str(getattr(error, "orig", error)).splitlines()[0]
        raise FormatError(f"{place}: cannot be read as a campaign ({reason}); check the URL") from None


# -- rows as a table -----------------------------------------------------------------------------------------------


def records_frame(records: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Make the same table of rows that are not in a database: absent fields are null."""
    names = list(dict.fromkeys(name for record in records for name in record))
    return _build_frame(names, [[record.get(name) for name in names] for record in records])


def _build_frame(names: Sequence[str], rows: Sequence[Sequence[Any]], left_out: Sequence[str] = _KEYS) -> pl.DataFrame:
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in names]
    series_by_name = {}
    for name, values in zip(names, columns, strict=True):
        if name in left_out or (rows and all(value is None for value in values)):
            continue
        series_by_name[_RENAMED.get(name, name)] = _build_series(name, list(values))
    return pl.DataFrame([series.alias(name) for name, series in series_by_name.items()])


def _build_series(name: str, values: list[Any]) -> pl.Series:
    if name == "item":
        return pl.Series(name, unify_ids([msgspec.json.decode(value) for value in values]))
    if name == "time":
        return pl.Series(name, [iso_time(value) for value in values], dtype=pl.String)
    if name in ("value", "seconds"):
        return pl.Series(name, values, dtype=pl.Float64)
    return encode_column(name, values)


def iso_time(seconds: float) -> str:
    """Return a time as text, in UTC.

    >>> iso_time(0.5)
    '1970-01-01T00:00:00.500Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
