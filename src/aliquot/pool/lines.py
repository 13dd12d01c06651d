"""Reading a partition of JSON lines in blocks of whole lines, with the line's number in every error."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
import polars as pl

from aliquot.data.files import first_character
from aliquot.data.formats.item_errors import explain
from aliquot.errors import FormatError, OptionError
from aliquot.pool.columns import Column, Kind, label_of
from aliquot.pool.source import LINES, Partition

BLOCK = 1 << 24
_BOM = b"\xef\xbb\xbf"
_WORD = range(-(2**63), 2**63)
_REFUSED = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
_TYPES: Mapping[Kind, Any] = {
    "id": int | str | None,
    "text": str | None,
    "name": str | int | None,
    "number": float | None,
    "whole": int | None,
    "label": Any,
}


def read_lines(partition: Partition, columns: Sequence[Column]) -> Iterator[pl.DataFrame]:
    """Yield tables with the asked-for columns, block after block; a field that a line lacks is null."""
    kinds = _kinds(columns)
    decoder, place = _decoder(tuple(kinds.items())), {field: at for at, field in enumerate(kinds)}
    for offset, raw in blocks(partition):
        rows = _decoded(decoder, raw, partition, offset)
        if rows:
            yield pl.DataFrame([_series(column, rows, place[column.field], partition) for column in columns])


def _kinds(columns: Sequence[Column]) -> dict[str, Kind]:
    """Each field once, with its kind: a column may be a group and something else besides."""
    kinds: dict[str, Kind] = {}
    for column in columns:
        known = kinds.setdefault(column.field, column.kind)
        if known == "label":
            kinds[column.field] = column.kind
        elif column.kind not in (known, "label"):
            raise OptionError(
                f"the field '{column.field}' is asked for as {known} and as {column.kind}; name another column"
            )
    return kinds


@lru_cache(maxsize=8)
def _decoder(fields: tuple[tuple[str, Kind], ...]) -> msgspec.json.Decoder[Any]:
    """A decoder of just these fields; the others are skipped unread."""
    entries = [
        (f"f{at}", _TYPES[kind] | None if kind != "label" else Any, msgspec.field(default=None, name=field))
        for at, (field, kind) in enumerate(fields)
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Line", entries, gc=False))


def _decoded(decoder: msgspec.json.Decoder[Any], raw: bytes, partition: Partition, offset: int) -> list[Any]:
    """Decode a block at once; look at it line by line only when something is wrong with it."""
    try:
        rows = decoder.decode_lines(raw)
        lines = raw.count(b"\n") + (not raw.endswith(b"\n"))
        if raw.startswith(b"{") and raw.count(b"\n{") + 1 == lines == len(rows):  # no blank line, one object in each
            return rows
    except _REFUSED:
        pass
    rows = []
    for number, line in enumerate(raw.split(b"\n")):
        if not line or line.isspace():
            continue
        try:
            rows.append(decoder.decode(line))
        except _REFUSED as error:
            where = f"{partition.path} line {_lines_before(partition, offset) + number + 1}"
            raise refused(line, where, error) from None
    return rows


def refused(line: bytes, where: str, error: Exception) -> FormatError:
    """Build the error for a line that is no item."""
    if isinstance(error, UnicodeDecodeError):
        return FormatError(
            f"{where}: byte 0x{error.object[error.start]:02x} is not valid UTF-8; convert the file first, "
            "e.g. `iconv -f latin1 -t utf-8`"
        )
    return explain(line, where, str(error))


def _series(column: Column, rows: list[Any], at: int, partition: Partition) -> pl.Series:
    attribute = f"f{at}"
    values = [getattr(row, attribute) for row in rows]
    if column.kind == "label":
        return pl.Series(column.name, [label_of(value) for value in values], dtype=pl.String)
    if column.kind == "id":
        return ids_series(column.name, values, partition)
    if column.kind == "name":
        return pl.Series(column.name, [None if v is None else str(v) for v in values], dtype=pl.String)
    if column.kind == "whole":
        _refuse_beyond_word(values, column.field, partition)
        return pl.Series(column.name, values, dtype=pl.Int64)
    return pl.Series(column.name, values, dtype=pl.String if column.kind == "text" else pl.Float64)


def ids_series(name: str, values: list[Any], partition: Partition) -> pl.Series:
    """Ids as whole numbers where all are, else as texts."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {int}:
        _refuse_beyond_word(values, "id", partition)
        return pl.Series(name, values, dtype=pl.Int64)
    return pl.Series(name, [None if value is None else str(value) for value in values], dtype=pl.String)


def _refuse_beyond_word(values: list[Any], what: str, partition: Partition) -> None:
    bad = next((value for value in values if value is not None and value not in _WORD), None)
    if bad is not None:
        advice = "write it as a string" if what == "id" else "choose smaller numbers"
        raise FormatError(
            f"{partition.path}: the {'item id' if what == 'id' else what} {bad} is beyond 64 bits; {advice}"
        )


def blocks(partition: Partition) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) blocks of whole lines: those that begin inside the partition."""
    with _opened(partition) as file:
        zipped = partition.kind != LINES
        if partition.start:
            file.seek(partition.start - 1)
            file.readline()  # the line before belongs to the partition before
        while zipped or file.tell() < partition.stop:
            offset = file.tell()
            wanted = BLOCK if zipped else min(BLOCK, partition.stop - offset)
            block = file.read(wanted)
            if not block:
                return
            block += b"" if block.endswith(b"\n") else file.readline()
            if offset == 0:
                block = block.removeprefix(_BOM)
                if zipped and first_character(block) not in (b"{", b""):
                    raise FormatError(f"{partition.path} line 1: not a JSON object a line; see docs/pools.md")
            yield offset, block


@contextmanager
def _opened(partition: Partition) -> Iterator[BinaryIO]:
    path = Path(partition.path)
    if partition.kind == LINES:
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path, "rb") as file:
            yield cast("BinaryIO", file)
    except EOFError:
        raise FormatError(f"{path}: the gzip data end too early (truncated file); copy or download it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"{path}: damaged gzip data ({error}); copy or download it again") from None


def _lines_before(partition: Partition, offset: int) -> int:
    """Count the lines before an offset of the file (of its unpacked content); only errors ask for it."""
    count, left = 0, offset
    with _opened(partition) as file:
        while left > 0:
            block = file.read(min(BLOCK, left))
            if not block:
                break
            count += block.count(b"\n")
            left -= len(block)
    return count


def lines_at(partition: Partition, rows: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (row, the whole JSON object) for these rows of the partition, ascending; blank lines are no rows."""
    wanted, at = iter(rows), 0
    next_row = next(wanted, None)
    for offset, raw in blocks(partition):
        for number, line in enumerate(raw.split(b"\n")):
            if next_row is None:
                return
            if not line or line.isspace():
                continue
            if at == next_row:
                where = f"{partition.path} line"
                try:
                    yield at, msgspec.json.decode(line, type=dict[str, Any])
                except _REFUSED as error:
                    raise refused(line, f"{where} {_lines_before(partition, offset) + number + 1}", error) from None
                next_row = next(wanted, None)
            at += 1
