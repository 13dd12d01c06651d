"""A copy of a campaign while people judge: one moment of the database, whole or not at all, as an SQLite file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from aliquot.collect.campaign import Campaign
from aliquot.collect.schema import create, is_damage, is_url, make_engine, metadata, remove_beside
from aliquot.errors import AliquotError, OutputError
from aliquot.io.formats.campaign_database import build_damage_error
from aliquot.io.writing import atomic_file

_ROWS = 5_000


def backup(campaign: Campaign, path: str | Path) -> int:
    """Copy a campaign into a new file and return the number of events in it.

    The secret of the links is not copied: keep CAMPAIGN.key apart.
    """
    target = Path(path)
    if target.exists():
        raise OutputError(f"{target}: exists already, and backups are not overwritten; name another file")
    with atomic_file(target) as temporary:
        temporary.unlink()
        try:
            if is_url(campaign.store.place):
                _copy_tables(campaign, temporary)
            else:
                campaign.store.copy_file(temporary)
            with closing(sqlite3.connect(temporary)) as made:
                made.execute("PRAGMA journal_mode = DELETE")  # one file, which can be read in any folder
                events = int(made.execute("SELECT COUNT(*) FROM events").fetchone()[0])
        except (sqlite3.Error, DBAPIError) as error:
            raise _build_copy_error(campaign, target, error) from None
        finally:
            remove_beside(temporary)
    return events


def _build_copy_error(campaign: Campaign, target: Path, error: sqlite3.Error | DBAPIError) -> AliquotError:
    reason = str(getattr(error, "orig", error)).splitlines()[0]
    if is_damage(error):
        return build_damage_error(campaign.store.place, reason)
    return OutputError(f"{target}: cannot be written ({reason}); free space or choose another -o; nothing was changed")


def _copy_tables(campaign: Campaign, target: Path) -> None:
    engine = make_engine(target)
    try:
        create(engine)
        source = campaign.store.engine.connect().execution_options(isolation_level="REPEATABLE READ")
        with source, source.begin(), engine.begin() as new:
            for name in ("meta", "seals"):
                new.execute(sa.delete(metadata.tables[name]))
            for table in metadata.sorted_tables:
                rows = source.execute(sa.select(table)).mappings()
                while part := rows.fetchmany(_ROWS):
                    new.execute(sa.insert(table), [dict(row) for row in part])
    finally:
        engine.dispose()
