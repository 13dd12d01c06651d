"""A copy of a campaign while people judge: one moment of the database, whole or not at all, as an SQLite file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from aliquot.collect.campaign import Campaign
from aliquot.collect.schema import create, is_url, make_engine, metadata
from aliquot.errors import OutputError
from aliquot.io.writing import whole_file

_ROWS = 5_000


def backup(campaign: Campaign, path: str | Path) -> int:
    """Copy a campaign into a new file and return the number of events in it.

    The secret of the links is not copied: keep CAMPAIGN.key apart.
    """
    target = Path(path)
    if target.exists():
        raise OutputError(f"{target}: exists already, and backups are not overwritten; name another file")
    with whole_file(target) as temporary:
        temporary.unlink()
        if is_url(campaign.store.place):
            _copy_tables(campaign, temporary)
        else:
            _copy_file(Path(campaign.store.place), temporary)
        with closing(sqlite3.connect(temporary)) as made:
            events = int(made.execute("SELECT COUNT(*) FROM events").fetchone()[0])
    return events


def _copy_file(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
        new.execute("PRAGMA journal_mode = DELETE")  # one file; the server that opens it makes it a WAL again


def _copy_tables(campaign: Campaign, target: Path) -> None:
    engine = make_engine(target)
    try:
        create(engine)
        source = campaign.store.engine.connect().execution_options(isolation_level="REPEATABLE READ")
        with source, source.begin(), engine.begin() as new:
            new.execute(sa.delete(metadata.tables["meta"]))
            for table in metadata.sorted_tables:
                rows = source.execute(sa.select(table)).mappings()
                while part := rows.fetchmany(_ROWS):
                    new.execute(sa.insert(table), [dict(row) for row in part])
    finally:
        engine.dispose()
    with closing(sqlite3.connect(target)) as new_file:
        new_file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        new_file.execute("PRAGMA journal_mode = DELETE")
