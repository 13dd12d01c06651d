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
import numpy as np
import polars as pl

from aliquot.core.columns import cast_column
from aliquot.errors import DataError, FormatError, OptionError
from aliquot.io.files import first_character
from aliquot.io.formats.item_fields import COLUMN_OF_FIELD, META, NESTED, column_name, explain
from aliquot.sampling.pool_files import (
    LINES,
    PARQUET,
    Column,
    Kind,
    Partition,
    Pool,
    field_of,
    label_of,
    missing_field,
    parquet_columns,
    plain_columns,
    unreadable_parquet,
)

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


# -- Reading a partition: asked-for columns as tables of bounded size, or whole items at some rows -------------------


KINDS: dict[str, Kind] = {
    "id": "id", "source": "text", "reference": "text", "document": "name", "domain": "name", "position": "whole",
    "cost": "number",
}  # fmt: skip
OPTIONAL = ("id", "document", "position")
_TEXTS = ("id", "text", "name")
_DTYPES: dict[Kind, pl.DataType] = {
    "text": pl.String(), "name": pl.String(), "number": pl.Float64(), "whole": pl.Int64(),
}  # fmt: skip


def read_partition(
    pool: Pool, partition: Partition, names: Sequence[str], labels: Sequence[str] = (), hints: Sequence[str] = ()
) -> Iterator[pl.DataFrame]:
    """Yield tables of the partition with the columns `names` (by their kinds) and `labels` (as `label:NAME`).

    `hints` are labels (`hint:NAME`) that a file may lack.
    """
    columns = [Column(name, field_of(pool, name, partition), KINDS.get(name, "number")) for name in names]
    columns += [Column(f"label:{name}", field_of(pool, name, partition), "label") for name in labels]
    columns += [Column(f"hint:{name}", field_of(pool, name, partition), "label") for name in hints]
    if partition.kind == PARQUET:
        yield _read_rows(partition, columns)
    else:
        yield from read_lines(partition, columns)


def _read_rows(partition: Partition, columns: Sequence[Column]) -> pl.DataFrame:
    there = parquet_columns(partition.path)
    for column in columns:
        optional = column.name in OPTIONAL or column.name.startswith("hint:")
        if column.field not in there and not optional:
            raise missing_field(partition, column.name.removeprefix("label:"), column.field, list(there))
    present = list(dict.fromkeys(column.field for column in columns if column.field in there))
    table = _slice(partition, present)
    height = partition.stop - partition.start
    series = []
    for column in columns:
        if column.field in table.columns:
            series.append(_typed(table[column.field], column, partition))
        else:
            series.append(pl.Series(column.name, [None], dtype=pl.String).extend_constant(None, height - 1))
    return pl.DataFrame(series)


def _slice(partition: Partition, fields: Sequence[str]) -> pl.DataFrame:
    first, last = partition.start, partition.stop
    try:
        lazy = pl.scan_parquet(partition.path).slice(first, last - first)
        table = lazy.select(fields).collect() if fields else lazy.select(pl.lit(0).alias("none")).collect()
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise unreadable_parquet(partition.path, error, f" rows {first + 1} to {last}") from None
    return table


def _typed(values: pl.Series, column: Column, partition: Partition) -> pl.Series:
    if column.kind == "id":
        if values.dtype.is_integer():
            try:
                return values.cast(pl.Int64).alias(column.name)
            except pl.exceptions.InvalidOperationError:
                what = f"{partition.path}: the column '{column.field}' holds ids beyond 64 bits with a sign"
                raise DataError(f"{what}; write them as strings") from None
        return cast_column(values, pl.String(), f"{partition.path}: the column '{column.field}'").alias(column.name)
    if column.kind == "label":
        return _labels(values).alias(column.name)
    if column.kind == "number" and not values.dtype.is_numeric() and values.dtype != pl.Null:
        raise DataError(
            f"{partition.path}: the column '{column.field}' holds {values.dtype}; each value should be a number"
        )
    what = f"{partition.path} (rows from {partition.start + 1} on): the column '{column.field}'"
    return cast_column(values, _DTYPES[column.kind], what).alias(column.name)


def _labels(values: pl.Series) -> pl.Series:
    if values.dtype == pl.String:
        return values
    if values.dtype.is_integer() or values.dtype in (pl.Categorical, pl.Enum, pl.Boolean):
        return values.cast(pl.String)
    return pl.Series([label_of(value) for value in values.to_list()], dtype=pl.String)


def items_at(pool: Pool, partition: Partition, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Return the whole items at these rows of the partition, by our column names; an absent id is absent."""
    fields = {name: field_of(pool, name, partition) for name in KINDS}
    if partition.kind == PARQUET:
        table = _slice(partition, plain_columns(partition.path))[np.asarray(rows, dtype=np.int64)]
        texts = [Column(field, field, KINDS[name]) for name, field in fields.items() if KINDS[name] in _TEXTS]
        read = [_typed(table[column.field], column, partition) for column in texts if column.field in table.columns]
        records: list[dict[str, Any]] = table.with_columns(read).to_dicts()
    else:
        records = [record for _, record in lines_at(partition, rows)]
    if len(records) != len(rows):
        raise FormatError(f"{partition.path}: the file changed while it was read; start again")
    roles = {field: name for name, field in fields.items()}
    return [_by_column(partition, roles, record) for record in records]


def _by_column(partition: Partition, roles: Mapping[str, str], record: dict[str, Any]) -> dict[str, Any]:
    """Name an item's fields as our columns; outputs, scores and judgments are left in the pool.

    A field that bears a role's name, but is not the one that plays it here, keeps its name behind `field:`.
    """
    item: dict[str, Any] = {}
    for key, value in record.items():
        if key in (*NESTED, META):
            continue
        by_format = key if partition.kind == PARQUET and key not in COLUMN_OF_FIELD else column_name(key)
        other = f"field:{key}" if by_format in KINDS else by_format
        item[roles.get(key, other)] = value
    return item
