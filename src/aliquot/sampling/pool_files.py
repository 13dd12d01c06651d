"""What is read of every source: columns by name, by the field they stand in, and by kind."""

from __future__ import annotations

import glob
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import polars as pl

from aliquot.errors import DataError, FormatError, OptionError, unknown_name
from aliquot.io.files import first_character, require_readable
from aliquot.io.formats.item_fields import FIELD_OF_COLUMN, NESTED

# -- What is read of every source: columns by name, by the field they stand in, and by kind --------------------------


Kind = Literal["id", "text", "name", "number", "whole", "label"]
_EXACT = 2**53


@dataclass(frozen=True)
class Column:
    """One column of a pool: `name` in our tables, `field` in the files."""

    name: str
    field: str
    kind: Kind


def label_of(value: Any) -> str | None:
    """Write a value as the name of its group; 1 and 1.0 are one group, whatever stands in other partitions.

    >>> label_of(1), label_of(1.0), label_of(1.5), label_of("news"), label_of(True), label_of(None)
    ('1', '1', '1.5', 'news', 'true', None)
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return msgspec.json.encode(value).decode()


# -- A pool of sources: files of JSON lines or Parquet, cut into partitions that are read one at a time --------------


LINES, ZIPPED, PARQUET = "lines", "gzip", "parquet"
PARTITION_BYTES = 1 << 24
PARTITION_ROWS = 1 << 16
ROLES = ("id", "source", "document", "position", "domain", "cost")
_PATTERN = frozenset("*?[")


@dataclass(frozen=True)
class Partition:
    """A stretch of a file: bytes of JSON lines, rows of Parquet; a gzip file is one partition."""

    number: int
    path: str
    kind: str
    start: int
    stop: int
    weight: float
    """Its share of the pool's bytes, to tell how far a run is."""


@dataclass(frozen=True)
class Pool:
    """Files and how they are cut.

    Attributes:
        files: the files in order.
        partitions: the stretches they are read in.
        fields: role or column -> the name it bears in the files, where it is not the item format's.
    """

    files: tuple[str, ...]
    partitions: tuple[Partition, ...]
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Names, sizes and times of the files: what must not change while a killed run waits to go on."""
        digest = hashlib.blake2b(digest_size=8)
        for name in self.files:
            state = Path(name).stat()
            digest.update(f"{Path(name).resolve()}\x1f{state.st_size}\x1f{state.st_mtime_ns}\n".encode())
        digest.update(repr([(part.start, part.stop) for part in self.partitions]).encode())
        return digest.hexdigest()


def open_pool(
    paths: str | Path | Sequence[str | Path],
    columns: Mapping[str, str] | None = None,
    *,
    partition_rows: int = PARTITION_ROWS,
    partition_bytes: int = PARTITION_BYTES,
) -> Pool:
    """Find the files and cut them into partitions; nothing but headers is read.

    Args:
        paths: files or patterns (pool/*.parquet).
        columns: role -> the name it bears in the files, e.g. {"source": "text"}.
        partition_rows: rows of Parquet in a partition.
        partition_bytes: bytes of JSON lines in a partition.
    """
    names = _files([paths] if isinstance(paths, str | Path) else list(paths))
    for role in columns or {}:
        if role not in ROLES:
            raise unknown_name("role of a column", role, ROLES, "write --columns source=text,id=key")
    twice = [name for name, times in Counter((columns or {}).values()).items() if times > 1]
    if twice:
        raise OptionError(f"--columns names '{twice[0]}' for two roles; a column plays one")
    partitions: list[Partition] = []
    for name in names:
        kind = _kind(name)
        size = Path(name).stat().st_size
        if kind == PARQUET:
            cuts = _cuts(_parquet_rows(name), partition_rows)
        else:
            cuts = _cuts(size, partition_bytes) if kind == LINES else [(0, size)]
        whole = max(1, cuts[-1][1] if cuts else 1)
        for start, stop in cuts:
            weight = size * (stop - start) / whole
            partitions.append(Partition(len(partitions), name, kind, start, stop, weight))
    return Pool(tuple(names), tuple(partitions), dict(columns or {}))


def _files(paths: Sequence[str | Path]) -> list[str]:
    if not paths:
        raise OptionError("no file of sources is named; give Parquet or JSON lines files, or a pattern in quotes")
    names: list[str] = []
    for path in map(str, paths):
        if _PATTERN & set(path) and not Path(path).exists():
            found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207  (absolute patterns are welcome)
            if not found:
                raise FormatError(f"{path}: no file fits this pattern; check the path")
            names += found
        else:
            names.append(path)
    seen: dict[Path, str] = {}
    for name in names:
        place = Path(name).resolve()
        if place in seen:
            raise OptionError(f"{name}: the file is named twice (also as {seen[place]}); each source counts once")
        seen[place] = name
    return names


def _kind(name: str) -> str:
    path = Path(name)
    require_readable(path)
    if path.is_dir():
        raise FormatError(f"{name}: is a folder; name its files with a pattern, e.g. '{name.rstrip('/')}/*.parquet'")
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
        raise FormatError(
            f"{name} line 1: neither Parquet nor a JSON object a line; see docs/pools.md for what is read"
        )
    return LINES


def _parquet_rows(name: str) -> int:
    try:
        return int(pl.scan_parquet(name).select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise unreadable_parquet(name, error) from None


def unreadable_parquet(name: str, error: Exception, where: str = "") -> FormatError:
    """Build the error for a Parquet file that cannot be read."""
    reason = (str(error).splitlines() or ["no reason given"])[0][:200]
    return FormatError(f"{name}{where}: unreadable Parquet ({reason}); the file is truncated or damaged: copy it again")


def _cuts(size: int, step: int) -> list[tuple[int, int]]:
    if step < 1:
        raise OptionError(f"a partition of {step} is none; choose at least 1")
    return [(start, min(size, start + step)) for start in range(0, size, step)]


def field_of(pool: Pool, column: str, partition: Partition) -> str:
    """Return the name under which a column stands in a file; Parquet may use the fields' or the columns' names."""
    if column in pool.fields:
        return pool.fields[column]
    name = FIELD_OF_COLUMN.get(column, column)
    if partition.kind == PARQUET and name != column and name not in parquet_columns(partition.path):
        return column
    return name


def parquet_columns(name: str) -> dict[str, pl.DataType]:
    """Return the columns of a Parquet file."""
    try:
        return dict(pl.read_parquet_schema(name))
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise unreadable_parquet(name, error) from None


def plain_columns(name: str) -> list[str]:
    """Return the columns of a Parquet file that belong to an item itself, not to its outputs and scores."""
    return [column for column in parquet_columns(name) if column not in NESTED]


def missing_field(partition: Partition, column: str, name: str, known: Sequence[str]) -> DataError:
    """Build the error for a column that a file lacks."""
    listed = ", ".join(f"'{entry}'" for entry in list(known)[:12])
    advice = f"name it with --columns {column}=NAME" if column in ROLES else "check the name"
    return DataError(f"{partition.path}: no {column} ('{name}' is absent); there are: {listed}; {advice}")
