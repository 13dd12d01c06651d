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

from aliquot.errors import DataError

JSON_DTYPE = pl.Struct({"json": pl.String})
_NONE = type(None)
_NATIVE: tuple[tuple[set[type], pl.DataType], ...] = (
    ({_NONE}, pl.Null()),
    ({str, _NONE}, pl.String()),
    ({bool, _NONE}, pl.Boolean()),
    ({int, _NONE}, pl.Int64()),
    ({int, float, _NONE}, pl.Float64()),
)
_EXACT = 2**53  # beyond it a float column would round an integer


def column_of(name: str, values: Sequence[Any]) -> pl.Series:
    """Make a column of values as they came out of JSON.

    >>> column_of("refs", [["a", "b"], None]).dtype == JSON_DTYPE
    True
    >>> column_of("year", [2023, None]).dtype
    Int64
    """
    kinds = set(map(type, values))
    for accepted, dtype in _NATIVE:
        if kinds <= accepted and (float not in accepted or _exact_as_floats(values)):
            try:
                return pl.Series(name, values, dtype=dtype, strict=True)
            except (OverflowError, TypeError, pl.exceptions.PolarsError):  # an integer beyond 64 bits
                break
    encoded = [None if value is None else {"json": msgspec.json.encode(value).decode()} for value in values]
    return pl.Series(name, encoded, dtype=JSON_DTYPE)


def _exact_as_floats(values: Sequence[Any]) -> bool:
    return all(-_EXACT <= value <= _EXACT for value in values if type(value) is int)


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


def same_content(a: pl.DataFrame | None, b: pl.DataFrame | None) -> bool:
    """Tell whether two tables say the same: the order of columns, and columns without any value, say nothing.

    >>> same_content(pl.DataFrame({"a": [1], "b": [None]}), pl.DataFrame({"a": [1]}))
    True
    """
    left, right = _telling(a), _telling(b)
    return left.keys() == right.keys() and all(_same_values(left[k], right[k]) for k in left)


def _same_values(a: pl.Series, b: pl.Series) -> bool:
    of_one_kind = a.dtype == b.dtype or (a.dtype.is_numeric() and b.dtype.is_numeric())  # 1 and 1.0, but not 1 and true
    return of_one_kind and a.equals(b)


def _telling(table: pl.DataFrame | None) -> dict[str, pl.Series]:
    """Return the columns that hold something; what is left of a mixed one counts as the kind it is by now."""
    columns = [] if table is None else [c for c in table if c.null_count() < len(c)]
    return {c.name: column_of(c.name, values_of(c)) if c.dtype == JSON_DTYPE else c for c in columns}


def cast_column(column: pl.Series, dtype: pl.DataType, what: str) -> pl.Series:
    """Cast a column, or say which of its values is not of the kind.

    >>> cast_column(pl.Series("cost", ["1", "dear"]), pl.Float64(), "item column 'cost'")
    Traceback (most recent call last):
        ...
    aliquot.errors.DataError: item column 'cost': row 2 holds 'dear', which is not a number
    """
    kind = "a text" if dtype == pl.String else "a number" if dtype.is_float() else "a whole number"
    try:
        cast = column.cast(dtype, strict=False)
    except pl.exceptions.PolarsError:
        raise DataError(f"{what} holds {column.dtype}; each value should be {kind}") from None
    changed = cast.is_null() & column.is_not_null()
    if dtype.is_integer() and column.dtype.is_float():
        changed |= (cast.cast(column.dtype) != column).fill_null(value=False)
    if changed.any():
        row = int(changed.arg_max() or 0)
        raise DataError(f"{what}: row {row + 1} holds {column[row]!r}, which is not {kind}")
    return cast


def ids_of_one_kind(ids: Sequence[int | str]) -> list[int | str]:
    """Return ids as they are when all are numbers or all are names, else all as names.

    >>> ids_of_one_kind([1, "x"])
    ['1', 'x']
    """
    return list(ids) if len(set(map(type, ids))) < 2 else [str(item) for item in ids]


def ordered_union(groups: Iterable[Iterable[str]]) -> list[str]:
    """Return all names of all groups, once each, in order of first appearance."""
    return list(dict.fromkeys(name for group in groups for name in group))
