"""Writing durably: every change is one transaction, and on SQLite all changes that wait share one commit.

One thread writes. It takes all functions that wait, runs each in a savepoint, commits once (synchronous=FULL), and only
then answers. A function that raises undoes its own part only. Reads use other connections.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from aliquot.collect.errors import DamagedStoreError, StorageError
from aliquot.collect.schema import BUSY_SECONDS, is_damage, is_url, metadata, open_engine
from aliquot.io.formats.campaign_database import build_damage_error, without_password

Result = TypeVar("Result")
Change = Callable[[Connection], Result]
_PASSING = ("40001", "40P01")  # serialization failure, deadlock: PostgreSQL asks to try again
_RETRIES = 6
MAX_BATCH = 256  # functions that share one commit


class Clock:
    """Seconds since 1970 that never go back, even when the computer's clock is set back."""

    def __init__(self, at_least: float = 0.0) -> None:
        self._start = max(time.time(), at_least)
        self._began = time.monotonic()

    def now(self) -> float:
        """Return the time; later calls never give an earlier one."""
        return round(self._start + time.monotonic() - self._began, 3)


class Store:
    """A campaign's database: reads on many connections, writes one after the other."""

    def __init__(self, place: str | Path, clock: Clock | None = None) -> None:
        self.place = place
        self.engine = open_engine(place)
        self._jobs: queue.SimpleQueue[tuple[Change[Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.clock = clock or Clock(self._last_time())

    def _last_time(self) -> float:
        with self.read() as connection:
            time_of_last = connection.execute(sa.text("SELECT time FROM events ORDER BY id DESC LIMIT 1")).scalar()
        return float(time_of_last) if isinstance(time_of_last, int | float) else 0.0

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection for reading: what it sees does not change while it is open."""
        # Rows and their seals are read one after the other; PostgreSQL shows one moment only where it is asked to.
        try:
            with self.engine.connect() as connection:
                if is_url(self.place):
                    connection.execution_options(isolation_level="REPEATABLE READ")
                yield connection
        except DBAPIError as error:
            raise _build_storage_error(self.place, error) from None

    def write(self, change: Change[Result]) -> Result:
        """Run a function in a transaction and return its result once it is on the disk."""
        return self.submit(change).result()

    def submit(self, change: Change[Result]) -> Future[Result]:
        """Hand a function to the writer; the future is done once its changes are on the disk."""
        future: Future[Result] = Future()
        if is_url(self.place):
            self._run_at_once(change, future)
            return future
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run_writer, name="aliquot-writer", daemon=True)
                self._thread.start()
        self._jobs.put((change, future))
        return future

    def _run_at_once(self, change: Change[Result], future: Future[Result]) -> None:
        try:
            result = self._run_with_retries(change)
        except DBAPIError as error:
            future.set_exception(_build_storage_error(self.place, error))
        except Exception as error:  # noqa: BLE001  (handed to the caller)
            future.set_exception(error)
        else:
            future.set_result(result)

    def _run_with_retries(self, change: Change[Result]) -> Result:
        """Run a function in a transaction; retry after deadlocks and serialization failures."""
        for attempt in range(_RETRIES):
            try:
                with self.engine.begin() as connection:
                    return change(connection)
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) not in _PASSING or attempt + 1 == _RETRIES:
                    raise
                time.sleep(0.01 * 2**attempt)
        raise AssertionError  # never reached

    def _run_writer(self) -> None:
        while (job := self._jobs.get()) is not None:
            batch = [job]
            stop = False
            with suppress(queue.Empty):
                while len(batch) < MAX_BATCH:
                    more = self._jobs.get_nowait()
                    if more is None:
                        stop = True
                        break
                    batch.append(more)
            self._commit_batch(batch)
            if stop:
                return

    def _commit_batch(self, batch: list[tuple[Change[Any], Future[Any]]]) -> None:
        """Run all functions in one transaction; answer them after the commit, or all with the same error."""
        answered: list[tuple[Future[Any], Any]] = []
        failed: list[tuple[Future[Any], BaseException]] = []
        try:
            with self.engine.connect().execution_options(immediate=True) as connection, connection.begin():
                for change, future in batch:
                    self._run_in_savepoint(connection, change, future, answered, failed)
        except DBAPIError as error:
            fault = _build_storage_error(self.place, error)
            for _, future in batch:
                future.set_exception(fault)
            return
        except BaseException as error:  # noqa: BLE001  (the thread must live on, and nobody may wait for ever)
            for _, future in batch:
                future.set_exception(error)
            return
        for future, result in answered:
            future.set_result(result)
        for future, reason in failed:
            future.set_exception(reason)

    @staticmethod
    def _run_in_savepoint(
        connection: Connection,
        change: Change[Any],
        future: Future[Any],
        answered: list[tuple[Future[Any], Any]],
        failed: list[tuple[Future[Any], BaseException]],
    ) -> None:
        connection.exec_driver_sql("SAVEPOINT one")
        try:
            answered.append((future, change(connection)))
        except DBAPIError:
            raise  # a full disk may have ended the whole transaction: nothing of this batch is kept
        except Exception as error:  # noqa: BLE001  (handed to the caller)
            connection.exec_driver_sql("ROLLBACK TO one")
            failed.append((future, error))
        connection.exec_driver_sql("RELEASE one")

    def vacuum(self) -> None:
        """Rewrite the database, so that no bytes of deleted rows remain."""
        try:
            if is_url(self.place):
                self._vacuum_tables()
            else:
                self._vacuum_file()
        except (DBAPIError, sqlite3.Error) as error:
            raise StorageError(
                f"{without_password(self.place)}: the data are deleted, but the database could not be written anew "
                f"({str(getattr(error, 'orig', error)).strip()}), and old pages may hold parts of them; run "
                f"VACUUM{' FULL' * is_url(self.place)} on it"
            ) from None

    def _vacuum_tables(self) -> None:
        """Rewrite the tables; a plain VACUUM leaves the bytes of deleted rows in their pages."""
        names = ", ".join(metadata.tables)
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(f"SET lock_timeout = '{BUSY_SECONDS:g}s'")
            try:
                connection.exec_driver_sql(f"VACUUM (FULL, ANALYZE) {names}")
            finally:
                connection.exec_driver_sql("RESET lock_timeout")

    def _vacuum_file(self) -> None:
        with closing(self.engine.raw_connection()) as raw:
            cursor = raw.cursor()
            cursor.execute("VACUUM")
            is_blocked = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if is_blocked:
            raise StorageError(
                f"{self.place}: the data are deleted, but another program is reading the file, so that old pages may "
                "still hold parts of them; close all programs that use it: the last one to end removes them"
            )

    def copy_file(self, target: Path) -> None:
        """Copy one moment of an SQLite database into a new file, with what its write-ahead log holds."""
        raw = self.engine.raw_connection()
        try:
            with closing(sqlite3.connect(target)) as copy:
                raw.driver_connection.backup(copy)  # type: ignore[union-attr]
        finally:
            raw.close()

    def close(self) -> None:
        """Finish pending writes, and close all connections."""
        with self._lock:
            if self._thread is not None:
                self._jobs.put(None)
                self._thread.join()
                self._thread = None
        self.engine.dispose()


def _build_storage_error(place: str | Path, error: DBAPIError) -> StorageError:
    where = without_password(place)
    reason = str(error.orig).splitlines()[0] if str(error.orig) else type(error.orig).__name__
    if is_damage(error):
        return DamagedStoreError(str(build_damage_error(place, reason)))
    remedy = "start the server" if is_url(place) else "free space or unlock the file"
    if "readonly" in reason:
        remedy = f"give yourself the right to write {where} and its folder, or copy it to one that can be written"
    return StorageError(
        f"{where}: cannot be written or read now ({reason}); nothing of it was stored; {remedy}, and send it again"
    )
