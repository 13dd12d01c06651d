"""Columns out of loose records and back, losing nothing.

Invariant: `values_of(column_of(values)) == values`. Plain values become a native column; whatever else JSON can hold
(lists, objects, mixtures) is kept as its JSON text in a struct with the single field `json`, so that a column says by
its type what it is, in memory and in Parquet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

JSON_DTYPE = pl.Struct({"json": pl.String})
_NONE = type(None)
_NATIVE: tuple[tuple[set[type], pl.DataType], ...] = (
    ({_NONE}, pl.Null()),
    ({str, _NONE}, pl.String()),
    ({bool, _NONE}, pl.Boolean()),
    ({int, _NONE}, pl.Int64()),
    ({int, float, _NONE}, pl.Float64()),
)


def column_of(name: str, values: Sequence[Any]) -> pl.Series:
    """Make a column of values as they came out of JSON.

    >>> column_of("refs", [["a", "b"], None]).dtype == JSON_DTYPE
    True
    >>> column_of("year", [2023, None]).dtype
    Int64
    """
    kinds = set(map(type, values))
    for accepted, dtype in _NATIVE:
        if kinds <= accepted:
            try:
                return pl.Series(name, values, dtype=dtype, strict=True)
            except (OverflowError, TypeError, pl.exceptions.PolarsError):  # an integer beyond 64 bits
                break
    encoded = [None if value is None else {"json": msgspec.json.encode(value).decode()} for value in values]
    return pl.Series(name, encoded, dtype=JSON_DTYPE)


def values_of(column: pl.Series) -> list[Any]:
    """Return the values of a column as `column_of` was given them."""
    values = column.to_list()
    if column.dtype != JSON_DTYPE:
        return values
    return [None if value is None or value["json"] is None else msgspec.json.decode(value["json"]) for value in values]


def frame_of(records: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Make a table of records; fields are in order of first appearance, absent ones null.

    >>> frame_of([{"a": 1}, {"b": "x"}]).to_dicts()
    [{'a': 1, 'b': None}, {'a': None, 'b': 'x'}]
    """
    names = ordered_union(records)
    return pl.DataFrame([column_of(name, [record.get(name) for record in records]) for name in names])


def ordered_union(groups: Iterable[Iterable[str]]) -> list[str]:
    """Return all names of all groups, once each, in order of first appearance."""
    return list(dict.fromkeys(name for group in groups for name in group))
