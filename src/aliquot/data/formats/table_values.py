"""Cells of a table as ids, names and numbers; whatever is not one is named with its row, column and value."""

from __future__ import annotations

import numpy as np
import polars as pl

from aliquot.errors import FormatError
from aliquot.stats.arrays import FloatArray

_MISSING = ("", "NA", "N/A", "NaN", "nan", "None", "null", "NULL")
"""What people write where a number is missing; in a column of texts these are texts."""


def ids_of(column: pl.Series, where: str) -> pl.Series:
    """Return ids: whole numbers where all are written as such ('007' stays a name)."""
    _require_all(column, where)
    if column.dtype != pl.String:
        return column if column.dtype.is_integer() else _as_text(column, where)
    numbers = column.cast(pl.Int64, strict=False)
    plain = numbers.null_count() == 0 and (numbers.cast(pl.String) == column).all()
    return numbers if plain else column


def names_of(column: pl.Series, where: str) -> pl.Series:
    """Return names; every row must have one."""
    _require_all(column, where)
    return _as_text(column, where)


def _require_all(column: pl.Series, where: str) -> None:
    if column.null_count():
        raise FormatError(
            f"{where} row {_first(column.is_null())}: the column '{column.name}' is empty; every row needs one"
        )


def _as_text(column: pl.Series, where: str) -> pl.Series:
    if column.dtype.is_nested():
        raise FormatError(f"{where}: the column '{column.name}' holds {column.dtype}; it should hold names")
    return column.cast(pl.String)


def numbers_of(column: pl.Series, where: str) -> FloatArray:
    """Return finite numbers, NaN where missing."""
    if column.dtype == pl.Boolean:
        raise FormatError(f"{where}: the column '{column.name}' holds true and false; scores must be numbers")
    if column.dtype.is_nested() or column.dtype.is_temporal():
        raise FormatError(
            f"{where} row 1: '{column[0]}' in column '{column.name}' is not a number ({column.dtype}); scores must be"
        )
    numbers, bad = _as_numbers(column)
    if bad.any():
        row = _first(bad)
        raise FormatError(
            f"{where} row {row}: '{column[row - 1]}' in column '{column.name}' is not a number; "
            "correct it, or leave it empty if it is missing"
        )
    values: FloatArray = numbers.to_numpy()
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0]) + 1
        raise FormatError(f"{where} row {row}: column '{column.name}' is infinite; leave it empty if it is missing")
    return values


def whole_numbers_of(column: pl.Series, where: str) -> pl.Series:
    """Return whole numbers, null where missing."""
    numbers = pl.Series(column.name, numbers_of(column, where), nan_to_null=True)
    broken = (numbers != numbers.round()).fill_null(value=False)
    if broken.any():
        row = _first(broken)
        raise FormatError(
            f"{where} row {row}: '{column[row - 1]}' in column '{column.name}' is not a whole number; correct it"
        )
    return numbers.cast(pl.Int64)


def is_numeric(column: pl.Series) -> bool:
    """Tell whether all that is there are numbers."""
    if column.dtype != pl.String:
        return column.dtype.is_numeric()
    return not _as_numbers(column)[1].any()


def guess_type(column: pl.Series) -> pl.Series:
    """Turn a text column into integers, numbers or booleans where all of it is."""
    if column.dtype != pl.String or column.name in ("annotator", "criterion"):
        return column
    numbers, bad = _as_numbers(column)
    if not bad.any():
        whole = column.cast(pl.Int64, strict=False)
        return whole if whole.null_count() == numbers.null_count() else numbers
    folded = column.str.to_lowercase()
    if folded.drop_nulls().is_in(["true", "false"]).all():
        return folded == "true"
    return column


def _as_numbers(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return the numbers, null where missing, and which cells hold something else."""
    if column.dtype != pl.String:
        return column.cast(pl.Float64, strict=False), pl.repeat(value=False, n=len(column), eager=True)
    text = column.str.strip_chars()
    missing = column.is_null() | text.is_in(_MISSING)
    numbers = text.cast(pl.Float64, strict=False).set(missing, None)
    return numbers, numbers.is_null() & ~missing


def _first(mask: pl.Series) -> int:
    return int(mask.arg_max() or 0) + 1
