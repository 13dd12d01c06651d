"""Campaigns of `aliquot collect` as data: the judgments in them, also while people are judging.

A campaign is an SQLite file, or a PostgreSQL database named by its URL. Reading needs the standard library only (for
PostgreSQL, SQLAlchemy). What the tables mean is decided in `aliquot.collect`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from aliquot.core.columns import column_of, ids_of_one_kind
from aliquot.core.origin import OUTPUT_DIGEST, text_digest
from aliquot.errors import DataError, FormatError, MissingExtraError

MAGIC = b"SQLite format 3\0"
VERSION = 3
"""The newest version of the tables that is read; the same as in `aliquot.collect.schema`."""

_URL = re.compile(r"^(postgresql(\+\w+)?):/{1,2}(?=[^/])")
_PASSWORD = re.compile(r"(?s)^([A-Za-z][\w+.-]+:/{1,2}[^:/?]*):.*@")  # greedy: a password may hold any character
_SECRET_OPTION = re.compile(r"(?i)([?&](?:ssl)?password=)[^&]*")
_KEYS = ("assignment_id", "cell_id")
_RENAMED = {"side": "span_in"}


def as_url(source: str | Path) -> str | None:
    """Return the URL that names a database, also one that a Path has shortened; None for files.

    >>> as_url(Path("postgresql+psycopg://host/db")), as_url("campaign.db")
    ('postgresql+psycopg://host/db', None)
    """
    found = _URL.match(str(source))
    return None if found is None else f"{found.group(1)}://{str(source)[found.end() :]}"


def without_password(place: str | Path) -> str:
    """Name a file or a database for people: the password of a URL is not shown.

    >>> without_password("postgresql+psycopg://me:secret@host/db?sslpassword=x"), without_password("campaign.db")
    ('postgresql+psycopg://me:***@host/db?sslpassword=***', 'campaign.db')
    """
    return _SECRET_OPTION.sub(r"\1***", _PASSWORD.sub(r"\1:***@", str(place)))


def is_campaign(source: str | Path) -> bool:
    """Tell whether a path or URL names a campaign (or at least an SQLite file)."""
    if as_url(source) is not None:
        return True
    path = Path(source)
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_table(source: str | Path, table: str = "judgments", left_out: Sequence[str] = _KEYS) -> pl.DataFrame:
    """Return the table `judgments` or `choices` under the names that other verbs know; empty columns are left out."""
    url = as_url(source)
    version, names, rows = _from_url(url, table) if url is not None else _from_file(Path(source), table)
    try:
        frame = _frame(names, rows, left_out)
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, OSError, pl.exceptions.PolarsError) as error:
        raise _unreadable(source, error) from None
    # Before version 2 lists of systems were texts; before version 3 marks of excluded annotators could be lost.
    is_outdated = version < 2 and bool({"shown", "ranking"} & set(frame.columns))
    if is_outdated or (version < 3 and _had_exclusions(source)):
        name = without_password(source)
        raise FormatError(f"{name}: was made by an older aliquot; bring it up to date first: aliquot collect check "
                          f"{name}")  # fmt: skip
    return frame


def _had_exclusions(source: str | Path) -> bool:
    url = as_url(source)
    _, names, rows = _from_url(url, "audit") if url is not None else _from_file(Path(source), "audit")
    return any('"state":"excluded"' in row[names.index("payload")] for row in rows)


def read_judgments(source: str | Path) -> pl.DataFrame:
    """Return the judgments, or say that there are none yet."""
    frame = read_table(source)
    if not frame.height:
        place = without_password(source)
        raise DataError(f"{place}: nobody has submitted a unit yet, so that there are no judgments; see "
                        f"`aliquot collect status {place}`")  # fmt: skip
    return frame


def read_judgments_of_texts(source: str | Path) -> pl.DataFrame:
    """Return the judgments, each with the digest of the output that was shown; of attention checks there is none."""
    frame = read_table(source, left_out=_KEYS[:1])
    if not frame.height:
        return read_judgments(source)
    url = as_url(source)
    _, names, rows = _from_url(url, "units") if url is not None else _from_file(Path(source), "units")
    payload = names.index("payload")
    try:
        shown = [row for unit in rows for row in msgspec.json.decode(unit[payload])["rows"]]
        digests = {output["cell"]: text_digest(output["text"]) or None
                   for row in shown for output in row["outputs"] if output.get("cell")}  # fmt: skip
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(source, error) from None
    seen = pl.col("cell_id").replace_strict(digests, default=None, return_dtype=pl.String)
    real = pl.col("control").is_null() if "control" in frame.columns else pl.lit(value=True)
    return frame.with_columns(pl.when(real).then(seen).alias(OUTPUT_DIGEST)).drop("cell_id")


def read_choices(source: str | Path) -> pl.DataFrame | None:
    """Return the comparisons, or None where the campaign asks for none (post-editing alone compares nothing)."""
    frame = read_table(source, "choices")
    return frame if frame.height and {"choice", "best", "ranking"} & set(frame.columns) else None


def _from_file(path: Path, table: str) -> tuple[int, list[str], Sequence[Sequence[Any]]]:
    try:
        with closing(_connect(path)) as connection:
            version = _require_campaign(connection, path)
            cursor = connection.execute(f'SELECT * FROM "{table}" ORDER BY rowid')  # noqa: S608  (one of ours)
            names = [column[0] for column in cursor.description]
            return version, names, cursor.fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from None


def _unreadable(source: str | Path, error: Exception) -> FormatError:
    return FormatError(f"{without_password(source)}: cannot be read as a campaign ({error}); restore it from a backup")


def _connect(path: Path) -> sqlite3.Connection:
    """Open for reading; where nobody writes, or the folder cannot be written, as a file at rest."""
    name = path.resolve().as_uri()
    if not Path(f"{path.resolve()}-wal").exists():
        return sqlite3.connect(f"{name}?mode=ro&immutable=1", uri=True)
    try:
        connection = sqlite3.connect(f"{name}?mode=ro", uri=True, timeout=10)
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")
    except sqlite3.OperationalError:
        connection = sqlite3.connect(f"{name}?mode=ro&immutable=1", uri=True)
    return connection


def _require_campaign(connection: sqlite3.Connection, path: Path) -> int:
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"meta", "judgments", "choices", "events"} <= names:
        raise FormatError(f"{path}: is an SQLite database, but no campaign; name a file that `aliquot collect new` "
                          "made, or write its table as CSV")  # fmt: skip
    found = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    return _require_version(None if found is None else str(found[0]), path)


def _require_version(found: str | None, where: object) -> int:
    if found is None or not found.isdigit():
        raise FormatError(f"{where}: the campaign does not say its version; restore it from a backup")
    if int(found) > VERSION:
        raise FormatError(f"{where}: was made by a newer aliquot (version {found} of the tables; this one knows "
                          f"{VERSION}); upgrade: pip install -U aliquot")  # fmt: skip
    return int(found)


def _from_url(url: str, table: str) -> tuple[int, list[str], Sequence[Sequence[Any]]]:
    if find_spec("sqlalchemy") is None:
        raise MissingExtraError("campaigns in PostgreSQL need SQLAlchemy: pip install 'aliquot[serve,postgres]'")
    import sqlalchemy as sa  # noqa: PLC0415  (an extra)

    place = without_password(url)
    try:
        engine = sa.create_engine(url)
        with engine.connect() as connection:
            stored = connection.execute(sa.text("SELECT value FROM meta WHERE key = 'schema'")).scalar()
            version = _require_version(stored, place)
            order = {"judgments": '"time", "order"', "choices": '"time"', "units": "id", "audit": "id"}[table]
            result = connection.execute(sa.text(f'SELECT * FROM "{table}" ORDER BY {order}'))  # noqa: S608
            return version, list(result.keys()), [tuple(row) for row in result]
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"{place}: needs {error.name}: pip install 'aliquot[postgres]'") from None
    except (sa.exc.SQLAlchemyError, ValueError) as error:  # a ValueError quotes the URL
        reason = "not a URL" if isinstance(error, ValueError) else str(getattr(error, "orig", error)).splitlines()[0]
        raise FormatError(f"{place}: cannot be read as a campaign ({reason}); check the URL") from None


def records_frame(records: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Make the same table of rows that are not in a database: absent fields are null."""
    names = list(dict.fromkeys(name for record in records for name in record))
    return _frame(names, [[record.get(name) for name in names] for record in records])


def _frame(names: Sequence[str], rows: Sequence[Sequence[Any]], left_out: Sequence[str] = _KEYS) -> pl.DataFrame:
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in names]
    found = {}
    for name, values in zip(names, columns, strict=True):
        if name in left_out or (rows and all(value is None for value in values)):
            continue
        found[_RENAMED.get(name, name)] = _typed(name, list(values))
    return pl.DataFrame([series.alias(name) for name, series in found.items()])


def _typed(name: str, values: list[Any]) -> pl.Series:
    if name == "item":
        return pl.Series(name, ids_of_one_kind([msgspec.json.decode(value) for value in values]))
    if name == "time":
        return pl.Series(name, [iso_time(value) for value in values], dtype=pl.String)
    if name in ("value", "seconds"):
        return pl.Series(name, values, dtype=pl.Float64)
    return column_of(name, values)


def iso_time(seconds: float) -> str:
    """Return a time as text, in UTC.

    >>> iso_time(0.5)
    '1970-01-01T00:00:00.500Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
