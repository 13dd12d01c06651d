"""The journal of a long run: finished units are on disk before the next begins, so that a killed run goes on.

A line of JSON for each finished unit, flushed and synced; lines from the first damaged one on are dropped, and their
units run again. The first line is the signature of the run: another run's journal is never mixed in. One run at a time
writes a journal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from aliquot.errors import OutputError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


_HEAD = b'{"signature":'


def journal_path(output: Path) -> Path:
    """Where the journal of an output file lies.

    >>> journal_path(Path("out.parquet")).name
    'out.parquet.part'
    """
    return output.with_name(output.name + ".part")


@dataclass
class Journal:
    """Finished units by key; `add` remembers one for good."""

    done: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    file: BinaryIO | None = None

    def add(self, key: str, cells: list[dict[str, Any]]) -> None:
        """Remember a finished unit."""
        self.done[key] = cells
        if self.file is not None:
            self.write({"key": key, "cells": cells})

    def write(self, record: dict[str, Any]) -> None:
        """Put a line on the disk, whole, before anything else happens."""
        if self.file is None:
            return
        try:
            self.file.write(msgspec.json.encode(record) + b"\n")
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            raise _cannot_keep(Path(self.file.name), error) from error


@contextmanager
def open_journal(output: Path | None, signature: str) -> Iterator[Journal]:
    """Open the journal beside an output file, with what an earlier, killed run had finished; none without a file."""
    if output is None:
        yield Journal()
        return
    path = journal_path(output)
    with _opened(path) as file:
        content = file.read()
        done, whole = _read(content, path, signature)
        file.seek(whole)
        file.truncate()
        journal = Journal(done, file)
        if not whole:
            journal.write({"signature": signature})
        yield journal


def _opened(path: Path) -> BinaryIO:
    """Open for reading and writing, made where it is missing, for this run alone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
        file.seek(0)
    except OSError as error:
        raise _cannot_keep(path, error) from error
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise OutputError(f"{path}: another run is writing it; wait for that one, or name another output") from None
    except OSError:  # a file system without locks: then nothing keeps two runs apart, as before
        return file
    return file


def _cannot_keep(path: Path, error: OSError) -> OutputError:
    return OutputError(f"{path}: cannot keep the journal of finished replays: {error.strerror or error}")


def _read(content: bytes, path: Path, signature: str) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """Finished units of the same run, and the length of the part of the file that is whole."""
    lines = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)
    if not lines and (content.startswith(_HEAD) or _HEAD.startswith(content)):
        return {}, 0  # killed at its first line
    first = _decoded(lines[0]) if lines else None
    if first is None or "signature" not in first:
        raise OutputError(f"{path}: is not a journal of replays; move it away or name another output")
    if first["signature"] != signature:
        raise OutputError(
            f"{path}: holds the unfinished replays of another run ({first['signature']}); finish that one, or delete "
            "the file to start anew"
        )
    done, whole = {}, len(lines[0])
    for line in lines[1:]:
        record = _decoded(line)
        if record is None or not {"key", "cells"} <= record.keys():
            break
        done[record["key"]] = [_numbers(cell) for cell in record["cells"]]
        whole += len(line)
    return done, whole


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return record if isinstance(record, dict) else None


def _numbers(cell: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN: what was written as null was undefined."""
    return {name: float("nan") if value is None else value for name, value in cell.items()}
