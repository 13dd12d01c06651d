"""Reading a partition: asked-for columns as tables of bounded size, or whole items at some rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from aliquot.data.columns import cast_column
from aliquot.data.itemformat import COLUMN_OF_FIELD, META, NESTED, column_name
from aliquot.errors import DataError, FormatError
from aliquot.pool.columns import Column, Kind, label_of
from aliquot.pool.lines import lines_at, read_lines
from aliquot.pool.source import (
    PARQUET,
    Partition,
    Pool,
    field_of,
    missing_field,
    parquet_columns,
    plain_columns,
    unreadable_parquet,
)

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
    for field, value in record.items():
        if field in (*NESTED, META):
            continue
        by_format = field if partition.kind == PARQUET and field not in COLUMN_OF_FIELD else column_name(field)
        other = f"field:{field}" if by_format in KINDS else by_format
        item[roles.get(field, other)] = value
    return item
