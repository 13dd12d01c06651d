"""Journals of long runs: each finished unit is on disk before the next begins, so that a killed run can resume.

One line of JSON for each finished unit, followed by the bytes it announces, flushed and synced. Everything from the
first damaged unit on is dropped, and those units run again. The first line is the signature of the run: units of
another run are never mixed in. One run at a time writes a journal; others wait.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

import msgspec

from aliquot.errors import OutputError
from aliquot.io.locks import hold_lock
from aliquot.io.overwrite import refuse_overwrite
from aliquot.io.writing import is_stream

_FIRST_LINE_START = b'{"signature":'


def journal_path(output: Path) -> Path:
    """Return the path of an output file's journal.

    >>> journal_path(Path("out.parquet")).name
    'out.parquet.part'
    """
    return output.with_name(output.name + ".part")


@dataclass
class Journal:
    """Finished units by key, in memory and, with a file, on disk.

    Attributes:
        done: what each unit gave.
        starts: where the bytes of each unit begin in the file.
        file: where they are written; None keeps them in memory only.
        synced: whether to wait until each unit is on the disk.
    """

    done: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    file: BinaryIO | None = None
    synced: bool = True

    def add(self, key: str, cells: list[dict[str, Any]], payload: bytes = b"") -> None:
        """Add a finished unit, with its bytes (which need a file)."""
        self.done[key] = cells
        if self.file is None:
            return
        record: dict[str, Any] = {"key": key, "cells": cells}
        if payload:
            record |= {"bytes": len(payload), "crc": crc32(payload)}
        self.write(record, payload)
        self.starts[key] = self.file.tell() - len(payload)

    def write(self, record: dict[str, Any], payload: bytes = b"") -> None:
        """Append a line and the bytes after it, and sync."""
        if self.file is None:
            return
        end = self.file.seek(0, os.SEEK_END)
        try:
            _write_all(self.file.fileno(), msgspec.json.encode(record) + b"\n")
            _write_all(self.file.fileno(), payload)
            if self.synced:
                os.fsync(self.file.fileno())
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self.file.fileno(), end)
            raise build_journal_error(self.file.name, error) from error
        self.file.seek(0, os.SEEK_END)

    def payload(self, key: str, start: int, size: int) -> bytes:
        """Read `size` of a unit's bytes from its byte `start` on."""
        if self.file is None:
            return b""
        try:
            self.file.seek(self.starts[key] + start)
            return self.file.read(size)
        except OSError as error:
            raise build_journal_error(self.file.name, error) from error


@contextmanager
def open_journal(output: Path | None, signature: str) -> Iterator[Journal]:
    """Open the journal beside an output file, with the units that an interrupted run finished.

    Without an output file, or with standard output or another stream, the journal is in memory only.
    """
    if output is None or is_stream(output):
        yield Journal()
        return
    path = journal_path(output)
    refuse_overwrite(output)
    refuse_overwrite(path)
    with _lock_journal(path), _open_file(path) as file:
        journal = Journal(file=file)
        try:
            end = _read_units(journal, file, path, signature)
            file.truncate(end)
        except OSError as error:
            raise build_journal_error(path, error) from error
        if not end:
            try:
                journal.write({"signature": signature})
            except OutputError:
                path.unlink(missing_ok=True)  # nothing is in it
                raise
        yield journal


def _open_file(path: Path) -> BinaryIO:
    """Open a file for reading and appending."""
    try:
        file = path.open("a+b")
        file.seek(0)
    except OSError as error:
        raise build_journal_error(path, error) from error
    return file


@contextmanager
def _lock_journal(path: Path) -> Iterator[None]:
    """Hold the journal's lock; wait while another run holds it."""
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(hold_lock(path.with_name(f".{path.name}.lock"), "writes the same output"))
        except OSError as error:
            raise build_journal_error(path, error) from error
        yield


def _write_all(handle: int, content: bytes) -> None:
    """Write unbuffered, so that closing the file does not retry what a full disk refused."""
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[os.write(handle, remaining) :]


def build_journal_error(path: object, error: OSError) -> OutputError:
    """Build the error for a journal, or a file beside it, that cannot be written."""
    place = path if isinstance(path, str | Path) else "temporary file"  # one without a name has a number
    return OutputError(
        f"{place}: cannot keep the journal of finished work ({error.strerror or error}); free space, or choose another "
        "disk with -o or TMPDIR"
    )


def _read_units(journal: Journal, file: BinaryIO, path: Path, signature: str) -> int:
    """Read the finished units of the same run; return the length of the valid part of the file."""
    line = file.readline()
    if not line.endswith(b"\n") and (line.startswith(_FIRST_LINE_START) or _FIRST_LINE_START.startswith(line)):
        return 0  # killed at its first line
    first = _decode_line(line)
    if first is None or "signature" not in first:
        raise OutputError(f"{path}: is not a journal; move it away or name another output")
    if first["signature"] != signature:
        raise OutputError(
            f"{path}: holds the unfinished work of another run ({first['signature']}); finish that one, or delete the "
            "file to start again"
        )
    end = file.tell()
    while (record := _decode_line(file.readline())) is not None and _is_unit(record):
        start, payload = file.tell(), file.read(record.get("bytes", 0))
        if len(payload) < record.get("bytes", 0) or (payload and crc32(payload) != record.get("crc")):
            break
        journal.done[record["key"]] = [_restore_nan(cell) for cell in record["cells"]]
        journal.starts[record["key"]], end = start, file.tell()
    return end


def _decode_line(line: bytes) -> dict[str, Any] | None:
    """Decode a line; None if it is truncated or not an object."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _is_unit(record: dict[str, Any]) -> bool:
    """Return whether a record is a finished unit with fields of the right types."""
    cells, size = record.get("cells"), record.get("bytes", 0)
    rows = isinstance(cells, list) and all(isinstance(cell, dict) for cell in cells)
    return isinstance(record.get("key"), str) and rows and type(size) is int and 0 <= size < 1 << 40


def _restore_nan(cell: dict[str, Any]) -> dict[str, Any]:
    """Replace None by NaN, which JSON cannot hold."""
    return {name: float("nan") if value is None else value for name, value in cell.items()}
