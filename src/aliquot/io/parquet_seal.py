"""A checksum in the Parquet files that we write, so that damage on a disk or in transfer is noticed on reading.

Parquet's own checksums of pages are optional, and Polars neither writes nor checks them: a flipped bit in a page of
numbers is just another number. The checksum stands in the file's metadata and covers every byte of the file but its own
digits. Files of other programs have none and are read as they are.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl

from aliquot.errors import FormatError

# Damaged files make Polars panic, which is no Exception.
PARQUET_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, OverflowError, MemoryError)
CHECKSUM_KEY = "aliquot_checksum"
_DIGITS = 16
BLANK_CHECKSUM = "blake2b:" + "0" * _DIGITS
_CHECKSUM_PATTERN = re.compile(
    rb"aliquot_checksum\x18\x18blake2b:([0-9a-f]{16})"
)  # lengths as Thrift's compact protocol has them
_MAX_FOOTER = 1 << 24


def fill_checksum(raw: bytes) -> bytes:
    """Fill in the checksum of a file whose metadata have `KEY: BLANK`."""
    match = _find_checksum(raw)
    if match is None:
        return raw
    start, end = match.span(1)
    return raw[:start] + _compute_checksum(raw, start, end) + raw[end:]


def require_intact(raw: bytes, path: Path | str) -> None:
    """Raise FormatError if a file of ours does not match its checksum."""
    if not _matches_checksum(raw) and _has_checksum(raw):
        raise _build_damage_error(path)


def require_intact_file(path: Path | str) -> None:
    """Raise FormatError if a file of ours does not match its checksum; the file is memory-mapped."""
    with Path(path).open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
            fits = _matches_checksum(raw)
    if not fits and _has_checksum(Path(path)):
        raise _build_damage_error(path)


def _matches_checksum(raw: bytes | mmap.mmap) -> bool:
    match = _find_checksum(raw) if raw[:4] == b"PAR1" else None
    return match is None or match.group(1) == _compute_checksum(raw, *match.span(1))


def _build_damage_error(path: Path | str) -> FormatError:
    return FormatError(f"{path}: the Parquet file is damaged (its checksum does not fit); copy or make it again")


def _has_checksum(source: bytes | Path) -> bool:
    """Return whether the metadata hold a checksum; True if they are damaged."""
    try:
        with silence_panics():
            return CHECKSUM_KEY in pl.read_parquet_metadata(source)
    except PARQUET_ERRORS:
        return True


def _find_checksum(raw: bytes | mmap.mmap) -> re.Match[bytes] | None:
    """Return the last checksum: texts in the data may hold one, too, and the metadata come last."""
    position = raw.rfind(CHECKSUM_KEY.encode(), max(0, len(raw) - _MAX_FOOTER))
    return None if position < 0 else _CHECKSUM_PATTERN.match(raw, position)


def _compute_checksum(raw: bytes | mmap.mmap, start: int, end: int) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGITS // 2)
    with memoryview(raw) as view, view[:start] as before, view[end:] as after:
        digest.update(before)
        digest.update(after)
    return digest.hexdigest().encode()


# -- panics --------------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_quiet: list[int] = []  # copies of standard error, one for each reader that has it closed


@contextmanager
def silence_panics() -> Iterator[None]:
    """Silence standard error while Polars reads a file that may be damaged.

    A panic of Polars is an exception, which becomes one line; Rust prints lines of its own before, straight to the
    file descriptor. Threads may read at the same time: the last one to end gives standard error back.
    """
    with _lock, suppress(OSError):  # there may be no standard error
        _quiet.append(os.dup(2))
        if len(_quiet) == 1:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 2)
            os.close(null)
    try:
        yield
    finally:
        with _lock, suppress(OSError):
            if _quiet:
                # The first copy is that of the real one; the others are of the null device.
                copy = _quiet.pop()
                if not _quiet:
                    os.dup2(copy, 2)
                os.close(copy)
