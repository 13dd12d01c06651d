"""The files of a pool: cut into partitions, each read as tables of some columns or as whole items at some rows.

Polars reads Parquet. JSON lines are decoded here: `scan_ndjson` names no line in its errors, guesses types from the
first lines, and cannot start in the middle of a file, as the partitions of other processes do.
"""

from __future__ import annotations

import glob
import gzip
import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import msgspec
import numpy as np
import polars as pl

from aliquot.core.columns import cast_column
from aliquot.errors import DataError, FormatError, OptionError, unknown_name
from aliquot.io.files import count_keys, first_character, require_file, require_readable, require_unique_keys
from aliquot.io.formats.item_fields import COLUMN_OF_FIELD, FIELD_OF_COLUMN, META, NESTED, build_line_error, column_name
from aliquot.io.parquet_seal import PARQUET_ERRORS, require_intact_file, silence_panics

LINES, ZIPPED, PARQUET = "lines", "gzip", "parquet"
PARTITION_BYTES = 1 << 24
PARTITION_ROWS = 1 << 16
BLOCK = 1 << 24
ROLES = ("id", "source", "document", "position", "domain", "cost")
OPTIONAL = ("id", "document", "position")

Kind = Literal["id", "text", "name", "number", "whole", "label"]
KINDS: dict[str, Kind] = {
    "id": "id",
    "source": "text",
    "reference": "text",
    "document": "name",
    "domain": "name",
    "position": "whole",
    "cost": "number",
}
_DTYPES: dict[Kind, pl.DataType] = {
    "id": pl.Int64(),
    "text": pl.String(),
    "name": pl.String(),
    "number": pl.Float64(),
    "whole": pl.Int64(),
    "label": pl.String(),
}
_JSON_TYPES: Mapping[Kind, Any] = {
    "id": int | str | None,
    "text": str | None,
    "name": str | int | None,
    "number": float | None,
    "whole": int | None,
    "label": Any,
}
_TEXTS = ("id", "text", "name")
_INT64 = range(-(2**63), 2**63)
_EXACT = 2**53
_REFUSED = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
_NO_PARQUET = (*PARQUET_ERRORS, OSError)


@dataclass(frozen=True)
class Partition:
    """A range of a file (bytes of JSON lines, rows of Parquet, all of a gzip file); `weight` is its size in bytes."""

    number: int
    path: str
    kind: str
    start: int
    stop: int
    weight: float


@dataclass(frozen=True)
class Pool:
    """Files and their partitions."""

    files: tuple[str, ...]  # the files in order
    partitions: tuple[Partition, ...]  # the stretches they are read in
    # role or column -> its name in the files, where that is not the item format's
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Digest of the files' names, sizes and times: a resumed run needs unchanged files."""
        digest = hashlib.blake2b(digest_size=8)
        for name in self.files:
            state = Path(name).stat()
            digest.update(f"{Path(name).resolve()}\x1f{state.st_size}\x1f{state.st_mtime_ns}\n".encode())
        digest.update(repr([(part.start, part.stop) for part in self.partitions]).encode())
        return digest.hexdigest()


@dataclass(frozen=True)
class PoolColumn:
    """One column to read: `name` in our tables, `field` in the files."""

    name: str
    field: str
    kind: Kind


# -- finding and cutting files ---------------------------------------------------------------------------------------


def open_pool(
    paths: str | Path | Sequence[str | Path],
    columns: Mapping[str, str] | None = None,
    *,
    partition_rows: int = PARTITION_ROWS,
    partition_bytes: int = PARTITION_BYTES,
) -> Pool:
    """Find the files and cut them into partitions; only headers are read.

    `columns`: role -> its name in the files, e.g. {"source": "text"}. Partitions hold `partition_rows` of Parquet or
    `partition_bytes` of JSON lines.
    """
    names = _expand_paths([paths] if isinstance(paths, str | Path) else list(paths))
    for role in columns or {}:
        if role not in ROLES:
            raise unknown_name("role of a column", role, ROLES, "write `columns` source=text,id=key")
    twice = [name for name, times in Counter((columns or {}).values()).items() if times > 1]
    if twice:
        raise OptionError(f"`columns` names '{twice[0]}' for two roles; give each role its own column")
    partitions: list[Partition] = []
    for name in names:
        kind, size = _detect_kind(name), Path(name).stat().st_size
        if kind == PARQUET:
            total, step = _parquet_rows(name), partition_rows
        else:
            total, step = size, partition_bytes if kind == LINES else size
        if step < 1:
            raise OptionError(f"a partition of {step} is empty; choose at least 1")
        for start in range(0, total, step):
            stop = min(total, start + step)
            partitions.append(Partition(len(partitions), name, kind, start, stop, size * (stop - start) / total))
    return Pool(tuple(names), tuple(partitions), dict(columns or {}))


def _expand_paths(paths: Sequence[str | Path]) -> list[str]:
    if not paths:
        raise OptionError("no file of sources is named; give Parquet or JSON lines files, or a pattern in quotes")
    names: list[str] = []
    for path in map(str, paths):
        if set("*?[") & set(path) and not Path(path).exists():
            matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207  (Path.glob refuses absolute patterns)
            if not matches:
                raise FormatError(f"{path}: no file fits this pattern; check the path")
            names += matches
        else:
            names.append(path)
    names_by_path: dict[Path, str] = {}
    for name in names:
        place = Path(name).resolve()
        if place in names_by_path:
            raise OptionError(
                f"{name}: the file is named twice (also as {names_by_path[place]}); each source counts once"
            )
        names_by_path[place] = name
    return names


def _detect_kind(name: str) -> str:
    path = Path(name)
    require_readable(path)
    if path.is_dir():
        raise FormatError(f"{name}: is a folder; name its files with a pattern, e.g. '{name.rstrip('/')}/*.parquet'")
    require_file(path)
    with path.open("rb") as file:
        start = file.read(1 << 16)
    if start.startswith(b"PAR1"):
        return PARQUET
    if start.startswith(b"\x1f\x8b"):
        return ZIPPED
    if not start:
        raise FormatError(f"{name}: the file is empty; it should hold sources")
    first = first_character(start.removeprefix(b"\xef\xbb\xbf"))
    if first == b"[":
        raise FormatError(f"{name}: is a JSON array, which cannot be read in parts; write one JSON object a line")
    if first not in (b"{", b""):
        raise FormatError(f"{name} line 1: neither Parquet nor a JSON object a line; docs/pools.md lists the formats")
    return LINES


def find_field(pool: Pool, column: str, partition: Partition) -> str:
    """Return the name of a column in a file; Parquet may use the names of the fields or of the columns."""
    if column in pool.fields:
        return pool.fields[column]
    name = FIELD_OF_COLUMN.get(column, column)
    if partition.kind == PARQUET and name != column and name not in _parquet_columns(partition.path):
        return column
    return name


# -- reading a partition ---------------------------------------------------------------------------------------------


def read_partition(
    pool: Pool, partition: Partition, names: Sequence[str], labels: Sequence[str] = (), hints: Sequence[str] = ()
) -> Iterator[pl.DataFrame]:
    """Yield tables of bounded size: columns `names`, `labels` (as `label:NAME`), and `hints` that a file may lack."""
    columns = [PoolColumn(name, find_field(pool, name, partition), KINDS.get(name, "number")) for name in names]
    for prefix, group_names in (("label", labels), ("hint", hints)):
        columns += [PoolColumn(f"{prefix}:{name}", find_field(pool, name, partition), "label") for name in group_names]
    if partition.kind == PARQUET:
        yield _read_rows(partition, columns)
        return
    kinds = _field_kinds(columns)
    decoder, place = _build_decoder(tuple(kinds.items())), {field: f"f{index}" for index, field in enumerate(kinds)}
    for offset, raw in _read_blocks(partition):
        rows = _decode_block(decoder, raw, partition, offset)
        if rows:
            values_by_column = [(column, [getattr(row, place[column.field]) for row in rows]) for column in columns]
            yield pl.DataFrame([_build_series(column, values, partition) for column, values in values_by_column])


def read_items(pool: Pool, partition: Partition, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Return the whole items at these rows of the partition, by our column names; an absent id is absent."""
    fields = {name: find_field(pool, name, partition) for name in KINDS}
    if partition.kind == PARQUET:
        plain = [column for column in _parquet_columns(partition.path) if column not in NESTED]
        table = _scan_rows(partition, plain)[np.asarray(rows, dtype=np.int64)]
        texts = [PoolColumn(field, field, KINDS[name]) for name, field in fields.items() if KINDS[name] in _TEXTS]
        read = [
            _cast_values(table[column.field], column, partition) for column in texts if column.field in table.columns
        ]
        records: list[dict[str, Any]] = table.with_columns(read).to_dicts()
    else:
        records = _read_lines(partition, rows)
    if len(records) != len(rows):
        raise FormatError(f"{partition.path}: the file changed while it was read; start again")
    roles = {field: name for name, field in fields.items()}
    return [_by_column(partition, roles, record) for record in records]


def _by_column(partition: Partition, roles: Mapping[str, str], record: dict[str, Any]) -> dict[str, Any]:
    """Rename an item's fields to our columns, without outputs, scores and judgments.

    A field that has a role's name, but another field has the role here, is called `field:NAME`.
    """
    item: dict[str, Any] = {}
    for key, value in record.items():
        if key in (*NESTED, META):
            continue
        by_format = key if partition.kind == PARQUET and key not in COLUMN_OF_FIELD else column_name(key)
        item[roles.get(key, f"field:{key}" if by_format in KINDS else by_format)] = value
    return item


def group_label(value: Any) -> str | None:
    """Return a value as the name of its group; 1 and 1.0 are one group in all partitions.

    >>> group_label(1), group_label(1.0), group_label(1.5), group_label("news"), group_label(True), group_label(None)
    ('1', '1', '1.5', 'news', 'true', None)
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return msgspec.json.encode(value).decode()


# -- Parquet ---------------------------------------------------------------------------------------------------------


def _build_parquet_error(name: str, error: Exception, where: str = "") -> FormatError:
    reason = (str(error).splitlines() or ["no reason given"])[0][:200]
    return FormatError(f"{name}{where}: unreadable Parquet ({reason}); the file is truncated or damaged: copy it again")


def _parquet_rows(name: str) -> int:
    """Count the rows; raise if a file written by aliquot has changed."""
    try:
        require_intact_file(name)
        with silence_panics():
            return int(pl.scan_parquet(name).select(pl.len()).collect().item())
    except _NO_PARQUET as error:
        raise _build_parquet_error(name, error) from None


def _parquet_columns(name: str) -> list[str]:
    try:
        with silence_panics():
            return list(pl.read_parquet_schema(name))
    except _NO_PARQUET as error:
        raise _build_parquet_error(name, error) from None


def _scan_rows(partition: Partition, fields: Sequence[str]) -> pl.DataFrame:
    first, last = partition.start, partition.stop
    try:
        lazy = pl.scan_parquet(partition.path).slice(first, last - first)
        with silence_panics():
            return lazy.select(fields or pl.lit(0).alias("none")).collect()
    except _NO_PARQUET as error:
        raise _build_parquet_error(partition.path, error, f" rows {first + 1} to {last}") from None


def _read_rows(partition: Partition, columns: Sequence[PoolColumn]) -> pl.DataFrame:
    available = _parquet_columns(partition.path)
    for column in columns:
        if column.field not in available and column.name not in OPTIONAL and not column.name.startswith("hint:"):
            name = column.name.removeprefix("label:")
            listed = ", ".join(f"'{entry}'" for entry in available[:12])
            advice = f"name it with `columns` {name}=NAME" if name in ROLES else "check the name"
            raise DataError(f"{partition.path}: no {name} ('{column.field}' is absent); there are: {listed}; {advice}")
    table = _scan_rows(partition, list(dict.fromkeys(column.field for column in columns if column.field in available)))
    absent = pl.Series([None], dtype=pl.String).extend_constant(None, partition.stop - partition.start - 1)
    return pl.DataFrame(
        [
            _cast_values(table[column.field], column, partition)
            if column.field in available
            else absent.alias(column.name)
            for column in columns
        ]
    )


def _cast_values(values: pl.Series, column: PoolColumn, partition: Partition) -> pl.Series:
    what, kind = f"{partition.path}: the column '{column.field}'", column.kind
    if kind == "label":
        return _label_values(values).alias(column.name)
    if kind == "id" and values.dtype.is_integer():
        try:
            return values.cast(pl.Int64).alias(column.name)
        except pl.exceptions.InvalidOperationError:
            raise DataError(f"{what} holds ids beyond 64 bits with a sign; write them as strings") from None
    if kind == "number" and not values.dtype.is_numeric() and values.dtype != pl.Null:
        raise DataError(f"{what} holds {values.dtype}; each value should be a number")
    if kind != "id":
        what = f"{partition.path} (rows from {partition.start + 1} on): the column '{column.field}'"
    return cast_column(values, pl.String() if kind == "id" else _DTYPES[kind], what).alias(column.name)


def _label_values(values: pl.Series) -> pl.Series:
    if values.dtype.is_integer() or values.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Boolean):
        return values.cast(pl.String)
    return pl.Series([group_label(value) for value in values.to_list()], dtype=pl.String)


# -- JSON lines ------------------------------------------------------------------------------------------------------


def _field_kinds(columns: Sequence[PoolColumn]) -> dict[str, Kind]:
    """Return each field's kind; a field may be a label and have another kind too."""
    kinds: dict[str, Kind] = {}
    for column in columns:
        kind = kinds.setdefault(column.field, column.kind)
        if kind == "label":
            kinds[column.field] = column.kind
        elif column.kind not in (kind, "label"):
            raise OptionError(
                f"the field '{column.field}' is needed as {kind} and as {column.kind}; name another column"
            )
    return kinds


@lru_cache(maxsize=8)
def _build_decoder(fields: tuple[tuple[str, Kind], ...]) -> msgspec.json.Decoder[Any]:
    """Return a decoder of these fields; others are skipped."""
    entries = [
        (f"f{index}", _JSON_TYPES[kind], msgspec.field(default=None, name=field))
        for index, (field, kind) in enumerate(fields)
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Line", entries, gc=False))


def _decode_block(decoder: msgspec.json.Decoder[Any], raw: bytes, partition: Partition, offset: int) -> list[Any]:
    """Decode a block at once, or line by line if that fails."""
    names = [b"%s:" % msgspec.json.encode(name) for name in decoder.type.__struct_encode_fields__]
    try:
        rows = decoder.decode_lines(raw)
        lines = raw.count(b"\n") + (not raw.endswith(b"\n"))
        if any(raw.count(name) > lines for name in names):  # twice in one line: nested, or by mistake
            _require_unique(raw, names, partition, offset)
        if raw.startswith(b"{") and raw.count(b"\n{") + 1 == lines == len(rows):  # no blank line, one object in each
            return rows
    except _REFUSED:
        pass
    return [_decode_line(decoder, line, partition, offset, number) for number, line in _number_lines(raw)]


def _require_unique(raw: bytes, names: Sequence[bytes], partition: Partition, offset: int) -> None:
    """Raise FormatError if a line has a field twice."""
    for number, line in _number_lines(raw):
        if any(line.count(name) > 1 for name in names):
            where = f"{partition.path} line {_count_lines_before(partition, offset) + number + 1}"
            require_unique_keys(line, count_keys(msgspec.json.decode(line)), [(where, line)])


def _number_lines(raw: bytes) -> Iterator[tuple[int, bytes]]:
    return ((number, line) for number, line in enumerate(raw.split(b"\n")) if line and not line.isspace())


def _decode_line(
    decoder: msgspec.json.Decoder[Any], line: bytes, partition: Partition, offset: int, number: int
) -> Any:
    """Decode one line, the `number`-th of the block at `offset`."""
    try:
        return decoder.decode(line)
    except _REFUSED as error:
        where = f"{partition.path} line {_count_lines_before(partition, offset) + number + 1}"
        if isinstance(error, UnicodeDecodeError):
            raise FormatError(
                f"{where}: byte 0x{error.object[error.start]:02x} is not valid UTF-8; convert the file first, "
                "e.g. `iconv -f latin1 -t utf-8`"
            ) from None
        raise build_line_error(line, where, str(error)) from None


def _build_series(column: PoolColumn, values: list[Any], partition: Partition) -> pl.Series:
    kind = column.kind
    if kind == "label":
        values = [group_label(value) for value in values]
    elif kind == "name" or (kind == "id" and set(map(type, values)) - {type(None)} != {int}):
        values, kind = [None if value is None else str(value) for value in values], "name"
    elif kind in ("id", "whole"):
        bad = next((value for value in values if value is not None and value not in _INT64), None)
        if bad is not None:
            what, advice = (
                ("item id", "write it as a string") if kind == "id" else (column.field, "use smaller numbers")
            )
            raise FormatError(f"{partition.path}: the {what} {bad} is beyond 64 bits; {advice}")
    return pl.Series(column.name, values, dtype=_DTYPES[kind])


def _read_lines(partition: Partition, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Return the JSON objects at ascending rows of the partition; blank lines do not count."""
    decoder, chosen, row = msgspec.json.Decoder(dict[str, Any]), set(rows), 0
    items: list[dict[str, Any]] = []
    for offset, raw in _read_blocks(partition):
        for number, line in _number_lines(raw):
            if row in chosen:
                items.append(_decode_line(decoder, line, partition, offset, number))
            row += 1
        if len(items) == len(chosen):
            break
    return items


def _read_blocks(partition: Partition) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) blocks of the lines that begin inside the partition."""
    with _open_lines(partition) as file:
        zipped = partition.kind != LINES
        if partition.start:
            file.seek(partition.start - 1)
            file.readline()  # the line before belongs to the partition before
        while zipped or file.tell() < partition.stop:
            offset = file.tell()
            block = file.read(BLOCK if zipped else min(BLOCK, partition.stop - offset))
            if not block:
                return
            block += b"" if block.endswith(b"\n") else file.readline()
            if offset == 0:
                block = block.removeprefix(b"\xef\xbb\xbf")
                if zipped and first_character(block) not in (b"{", b""):
                    raise FormatError(f"{partition.path} line 1: not a JSON object a line; see docs/pools.md")
            yield offset, block


@contextmanager
def _open_lines(partition: Partition) -> Iterator[BinaryIO]:
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


def _count_lines_before(partition: Partition, offset: int) -> int:
    """Count the lines before an offset of the unpacked file, for error messages."""
    count = 0
    with _open_lines(partition) as file:
        while offset > 0 and (block := file.read(min(BLOCK, offset))):
            count += block.count(b"\n")
            offset -= len(block)
    return count
