"""The journal of a long run: finished units are on disk before the next begins, so that a killed run goes on.

A line of JSON for each finished unit, flushed and synced; a last line that was cut off is ignored. The first line is
the signature of the run: another run's journal is never mixed in.
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
            self.file.write(msgspec.json.encode({"key": key, "cells": cells}) + b"\n")
            self.file.flush()
            os.fsync(self.file.fileno())


@contextmanager
def open_journal(output: Path | None, signature: str) -> Iterator[Journal]:
    """Open the journal beside an output file, with what an earlier, killed run had finished; none without a file."""
    if output is None:
        yield Journal()
        return
    path = journal_path(output)
    done, whole = _read(path, signature)
    try:
        with path.open("r+b" if whole else "wb") as file:
            file.truncate(whole)
            file.seek(whole)
            journal = Journal(done, file)
            if not whole:
                file.write(msgspec.json.encode({"signature": signature}) + b"\n")
                file.flush()
            yield journal
    except OSError as error:
        raise OutputError(f"{path}: cannot keep the journal of finished replays: {error.strerror or error}") from error


def _read(path: Path, signature: str) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """Finished units of the same run, and the length of the part of the file that is whole."""
    if not path.exists():
        return {}, 0
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    lines = content[:whole].splitlines()
    try:
        records = [msgspec.json.decode(line) for line in lines]
        first = records[0]["signature"] if records else None
        done = {record["key"]: record["cells"] for record in records[1:]}
    except (msgspec.DecodeError, KeyError, TypeError):
        raise OutputError(f"{path}: is not a journal of replays; move it away or name another output") from None
    if first is None:
        return {}, 0
    if first != signature:
        raise OutputError(
            f"{path}: holds the unfinished replays of another run ({first}); finish that one, or delete the file to "
            "start anew"
        )
    return done, whole
