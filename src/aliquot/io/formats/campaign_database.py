"""Opening the databases of campaigns: SQLite files and PostgreSQL URLs, for reading here and for writing in `collect`.

A file is read with the standard library alone; a URL needs SQLAlchemy.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aliquot.errors import DamagedError, FormatError, MissingExtraError

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

MAGIC = b"SQLite format 3\0"
APPLICATION = 0x414C5154  # "ALQT" in the header of the SQLite file: tells a campaign from other databases
VERSION = 3
"""The newest version of the tables."""

_URL = re.compile(r"^(postgresql(\+\w+)?):/{1,2}(?=[^/])")
_PASSWORD = re.compile(r"(?s)^([A-Za-z][\w+.-]+:/{1,2}[^:/?]*):.*@")  # greedy: a password may hold any character
_SECRET_OPTION = re.compile(r"(?i)([?&](?:ssl)?password=)[^&]*")


def as_url(source: str | Path) -> str | None:
    """Return the URL that names a database, also one that a Path has shortened; None for files.

    >>> as_url(Path("postgresql+psycopg://host/db")), as_url("campaign.db")
    ('postgresql+psycopg://host/db', None)
    """
    match = _URL.match(str(source))
    return None if match is None else f"{match.group(1)}://{str(source)[match.end() :]}"


def without_password(place: str | Path) -> str:
    """Name a file or a database for people: the password of a URL is not shown.

    >>> without_password("postgresql+psycopg://me:secret@host/db?sslpassword=x"), without_password("campaign.db")
    ('postgresql+psycopg://me:***@host/db?sslpassword=***', 'campaign.db')
    """
    return _SECRET_OPTION.sub(r"\1***", _PASSWORD.sub(r"\1:***@", str(place)))


def is_campaign(source: str | Path) -> bool:
    """Return whether a path or URL names a campaign (or at least an SQLite file)."""
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


def build_damage_error(place: str | Path, what: str) -> DamagedError:
    """Build the error for a campaign that holds something else than what was written."""
    name = without_password(place)
    return DamagedError(
        f"{name}: the campaign is damaged: {what}; restore it from a backup (aliquot collect check "
        f"{name} shows what is damaged)"
    )


# -- opening -----------------------------------------------------------------------------------------------------


def is_at_rest(path: str | Path) -> bool:
    """Return whether a campaign's file is complete, without a write-ahead log of changes beside it."""
    try:
        return not Path(f"{Path(path).resolve()}-wal").stat().st_size
    except OSError:
        return True


def at_rest_uri(path: str | Path) -> str:
    """Return the SQLite URI that reads a file unchanged and writes nothing beside it."""
    return f"{Path(path).resolve().as_uri()}?mode=ro&immutable=1"


def read_only_folder(path: str | Path, error: object) -> FormatError:
    """Build the error for changes beside a file in a folder where SQLite cannot write."""
    return FormatError(
        f"{path}: cannot be read here ({error}): {Path(path).name}-wal beside it holds changes, and "
        "SQLite needs to write in the folder to read them; copy the file with its -wal and -shm to a "
        "folder that can be written"
    )


def connect_read_only(path: Path, rested: bool) -> sqlite3.Connection:
    """Open for reading; where nobody writes, as a file at rest, also in a folder that cannot be written."""
    if rested:
        return sqlite3.connect(at_rest_uri(path), uri=True, isolation_level=None)
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=10, isolation_level=None)
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")
    except sqlite3.OperationalError as error:
        raise read_only_folder(path, error) from None
    return connection


def make_url_engine(url: str, **options: Any) -> Engine:
    """Make the engine for a PostgreSQL URL; opens nothing yet."""
    if find_spec("sqlalchemy") is None:
        raise MissingExtraError("campaigns in PostgreSQL need SQLAlchemy: pip install 'aliquot[serve,postgres]'")
    import sqlalchemy as sa  # noqa: PLC0415  (an extra)

    try:
        return sa.create_engine(url, **options)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{without_password(url)}: needs {error.name}: pip install 'aliquot[postgres]'"
        ) from None
    except (sa.exc.ArgumentError, ValueError):  # their words quote the URL
        raise FormatError(
            f"{without_password(url)}: is no URL of a database; write e.g. postgresql+psycopg://USER:PASSWORD"
            "@HOST/DATABASE, with %40 for an @ in the password"
        ) from None


def require_tables(tables: Collection[str], needed: Collection[str], is_ours: bool, place: str | Path) -> None:
    """Refuse a database that lacks tables of a campaign: it is damaged if it is ours, and else no campaign."""
    lacking = sorted(set(needed) - set(tables))
    if lacking and is_ours:
        raise build_damage_error(place, f"the table {lacking[0]} is missing")
    if lacking:
        raise FormatError(
            f"{without_password(place)}: is a database, but no campaign; name one that `aliquot collect new` made, or "
            "write its table as CSV"
        )


def require_version(version: object, place: object) -> int:
    """Return the version of a campaign's tables; refuse one that is no version of ours."""
    if not isinstance(version, str) or re.fullmatch("[1-9][0-9]{0,50}", version) is None:
        raise build_damage_error(str(place), f"the version of its tables is {str(version)[:40]!r}, not 1 to {VERSION}")
    if int(version) > VERSION:
        raise FormatError(
            f"{place}: was made by a newer aliquot (version {version} of the tables; this one knows "
            f"{VERSION}); upgrade: pip install -U aliquot"
        )
    return int(version)
