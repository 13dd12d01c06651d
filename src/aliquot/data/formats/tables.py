"""Tables people keep scores and judgments in: long scores, wide scores, long judgments; CSV, TSV or Parquet.

Text files are read as text and turned into numbers here, so that an error can name the row and the value.
"""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from aliquot.data.cells import text_frame
from aliquot.data.evalset import EvalSet
from aliquot.data.files import decode_text, whole_file, write_bytes
from aliquot.data.formats.table_columns import ITEM_FIELDS, SYNONYMS, map_columns, require
from aliquot.data.judgments import Judgments
from aliquot.errors import AliquotWarning, FormatError, OptionError, quoted, unknown_name
from aliquot.stats.arrays import FloatArray, IntArray

_MISSING = ("", "NA", "N/A", "NaN", "nan", "None", "null", "NULL")
_WIDE = ("systems", "metrics")


@dataclass(frozen=True)
class TableOptions:
    """How a table is to be understood where its columns do not say.

    Attributes:
        columns: our column role -> the table's column name.
        wide: "systems" or "metrics" when columns are systems or metrics.
        score_name: the name of the score where the table gives none.
    """

    columns: Mapping[str, str] | None = None
    wide: str | None = None
    score_name: str | None = None


def read_text(raw: bytes, path: Path | str, options: TableOptions) -> EvalSet:
    """Read a CSV or TSV table."""
    text = decode_text(raw, path)
    separator = sniff_separator(text)
    try:
        table = pl.read_csv(text.encode(), separator=separator, infer_schema=False, null_values=list(_MISSING))
    except pl.exceptions.PolarsError as error:
        raise _explain_rows(text, separator, path, str(error)) from None
    if not table.height:
        raise FormatError(f"{path}: the table has a header but no rows")
    return from_table(table, str(path), options)


def sniff_separator(text: str) -> str:
    """Tell tab, comma and semicolon apart by the header."""
    header = text.split("\n", 1)[0]
    return max("\t,;", key=header.count)


def _explain_rows(text: str, separator: str, path: Path | str, reason: str) -> FormatError:
    rows = csv.reader(io.StringIO(text), delimiter=separator)
    header = next(rows, [])
    for row in rows:
        if row and len(row) != len(header):
            return FormatError(
                f"{path} line {rows.line_num}: {len(row)} fields where the header has {len(header)}; "
                f"mend the row that begins {quoted(row[:2])}"
            )
    first = reason.splitlines()[0] if reason else "unreadable"
    return FormatError(f"{path}: not a readable table ({first}); check separators and quotes")


def from_table(table: pl.DataFrame, where: str, options: TableOptions | None = None) -> EvalSet:
    """Make an EvalSet of a table, deciding by its columns which kind it is."""
    options = options or TableOptions()
    if options.wide is not None and options.wide not in _WIDE:
        raise unknown_name("--wide", options.wide, _WIDE)
    roles = map_columns(table.columns, options.columns, where)
    table = table.rename({theirs: ours for ours, theirs in roles.items() if theirs != ours} | _aside(table, roles))
    require(["item"], roles, table.columns, "tables", where)
    if options.wide is not None or ("value" not in roles and "annotator" not in roles):
        return _from_wide(table, roles, where, options)
    if "annotator" in roles or "criterion" in roles:
        return _from_judgments(table, roles, where)
    return _from_long(table, roles, where, options)


def _aside(table: pl.DataFrame, roles: Mapping[str, str]) -> dict[str, str]:
    """Rename columns that bear one of our names but were mapped to nothing or something else by the user."""
    taken = set(roles) - set(roles.values())
    return {name: f"{name}_" for name in table.columns if name in taken and roles.get(name) != name}


# -- the kinds -----------------------------------------------------------------------------------------------------


def _from_long(table: pl.DataFrame, roles: Mapping[str, str], where: str, options: TableOptions) -> EvalSet:
    require(["system", "value"], roles, table.columns, "long scores", where)
    value = _numbers(table["value"], where)
    items, rows = codes(_ids(table["item"], where))
    systems, columns = codes(_names(table["system"], where))
    if "metric" in roles:
        metrics, which = codes(_names(table["metric"], where))
        names = metrics.to_list()
    else:
        names, which = [options.score_name or roles["value"]], np.zeros(len(rows), dtype=np.int64)
    shape = (len(names), len(items), len(systems))
    cell = (which * shape[1] + rows) * shape[2] + columns
    scores = _scatter(value, cell, shape, table, where)
    return EvalSet(
        items=_item_table(items, table, rows),
        systems=tuple(systems.to_list()),
        scores=dict(zip(names, scores, strict=True)),
        outputs=_outputs(table, rows, columns, items, systems),
        name=Path(where).name.split(".")[0],
    )


def _scatter(value: FloatArray, cell: IntArray, shape: tuple[int, ...], table: pl.DataFrame, where: str) -> FloatArray:
    """Put each value into its cell; two rows for one cell must agree."""
    scores = np.full(int(np.prod(shape)), np.nan)
    scores[cell] = value
    differs = (scores[cell] != value) & np.isfinite(value)
    if differs.any():
        second = int(np.flatnonzero(differs)[0])
        first = int(np.flatnonzero(cell == cell[second])[-1])
        low, high = sorted((first, second))
        row = table.row(high, named=True)
        label = f", metric {row['metric']}" if "metric" in row else ""
        raise FormatError(
            f"{where} row {high + 1}: item {row['item']}, system {row['system']}{label} has the value {value[high]:g} "
            f"here and {value[low]:g} in row {low + 1}; keep one, or add an 'annotator' column if both are judgments"
        )
    return scores.reshape(shape)


def _from_wide(table: pl.DataFrame, roles: Mapping[str, str], where: str, options: TableOptions) -> EvalSet:
    others = [name for name in table.columns if name not in SYNONYMS]
    if options.wide is None and "system" not in roles:
        raise FormatError(
            f"{where}: no columns 'system' and 'value', so {quoted(others, 5)} could be systems or metrics; "
            "say which with --wide systems or --wide metrics, or name columns with --columns"
        )
    if not others:
        raise FormatError(f"{where}: no column holds scores; there are {quoted(table.columns)}")
    if options.wide == "systems":
        return _from_system_columns(table, others, where, options)
    require(["system"], roles, table.columns, "tables with one column a metric", where)
    numeric = [name for name in others if _is_numeric(table[name])]
    left = [name for name in others if name not in numeric]
    if not numeric:
        raise FormatError(f"{where}: none of the columns {quoted(others)} holds numbers; name them with --columns")
    if left:
        warnings.warn(f"{where}: the columns {quoted(left)} hold text and are not scores: left out", AliquotWarning, 2)
    items, rows = codes(_ids(table["item"], where))
    systems, columns = codes(_names(table["system"], where))
    shape = (len(items), len(systems))
    cell = rows * shape[1] + columns
    scores = {name: _scatter(_numbers(table[name], where), cell, shape, table, where) for name in numeric}
    return EvalSet(
        items=_item_table(items, table, rows),
        systems=tuple(systems.to_list()),
        scores=scores,
        outputs=_outputs(table, rows, columns, items, systems),
        name=Path(where).name.split(".")[0],
    )


def _from_system_columns(table: pl.DataFrame, systems: list[str], where: str, options: TableOptions) -> EvalSet:
    ids = _ids(table["item"], where)
    if ids.is_duplicated().any():
        raise FormatError(f"{where}: item {ids.filter(ids.is_duplicated())[0]} has two rows; each item has one here")
    values = np.column_stack([_numbers(table[system], where) for system in systems])
    items, rows = codes(ids)
    return EvalSet(
        items=_item_table(items, table, rows),
        systems=tuple(systems),
        scores={options.score_name or "score": values},
        name=Path(where).name.split(".")[0],
    )


def _from_judgments(table: pl.DataFrame, roles: Mapping[str, str], where: str) -> EvalSet:
    judgments = judgments_table(table, roles, where)
    items, rows = codes(judgments["item"])
    systems, columns = codes(judgments["system"])
    evalset = EvalSet(
        items=_item_table(items, table, rows),
        systems=tuple(systems.to_list()),
        outputs=_outputs(table, rows, columns, items, systems),
        judgments=Judgments(judgments),
        name=Path(where).name.split(".")[0],
    )
    return with_criteria(evalset)


def judgments_table(table: pl.DataFrame, roles: Mapping[str, str], where: str) -> pl.DataFrame:
    """Return the judgments of a table whose columns bear our names: typed, without texts and item columns."""
    require(["item", "system", "value"], roles, table.columns, "judgments", where)
    drop = [name for name in (*ITEM_FIELDS, "output") if name in table.columns]
    typed = [_guess_type(table[name]) for name in table.columns if name not in (*drop, "item", "system", "value")]
    number = {"seconds": _numbers(table["seconds"], where)} if "seconds" in table.columns else {}
    return pl.DataFrame(
        [
            _ids(table["item"], where),
            _names(table["system"], where),
            pl.Series("value", _numbers(table["value"], where), nan_to_null=True),
            *typed,
        ]
    ).with_columns(**{name: pl.Series(values, nan_to_null=True) for name, values in number.items()})


def with_criteria(evalset: EvalSet) -> EvalSet:
    """Add `human`, the mean over all judgments of a cell, and `human_<criterion>` for each of several criteria."""
    evalset = evalset.aggregate()
    criteria = evalset.judgments.criteria if evalset.judgments is not None else []
    for criterion in criteria if len(criteria) > 1 else []:
        evalset = evalset.aggregate(criterion=criterion)
    return evalset


# -- columns -------------------------------------------------------------------------------------------------------


def codes(labels: pl.Series) -> tuple[pl.Series, IntArray]:
    """Return the distinct labels in order of first appearance and each row's index among them."""
    distinct = labels.alias("key").unique(maintain_order=True)
    index = pl.DataFrame({"key": distinct, "at": np.arange(len(distinct))})
    at = labels.alias("key").to_frame().join(index, on="key", how="left", maintain_order="left")["at"]
    return distinct, at.to_numpy().astype(np.int64, copy=False)


def _ids(column: pl.Series, where: str) -> pl.Series:
    if column.null_count():
        raise FormatError(f"{where} row {_first(column.is_null())}: the column 'item' is empty; every row needs one")
    if column.dtype != pl.String:
        return column if column.dtype.is_integer() else column.cast(pl.String)
    numbers = column.cast(pl.Int64, strict=False)
    plain = numbers.null_count() == 0 and (numbers.cast(pl.String) == column).all()  # '007' stays a name
    return numbers if plain else column


def _names(column: pl.Series, where: str) -> pl.Series:
    if column.null_count():
        raise FormatError(
            f"{where} row {_first(column.is_null())}: the column '{column.name}' is empty; every row needs one"
        )
    return column.cast(pl.String)


def _numbers(column: pl.Series, where: str) -> FloatArray:
    if column.dtype == pl.Boolean:
        raise FormatError(f"{where}: the column '{column.name}' holds true and false; scores must be numbers")
    numbers = column.cast(pl.Float64, strict=False)
    bad = numbers.is_null() & column.is_not_null()
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


def _first(mask: pl.Series) -> int:
    return int(mask.arg_max() or 0) + 1


def _is_numeric(column: pl.Series) -> bool:
    return column.dtype.is_numeric() or (
        column.dtype == pl.String and column.cast(pl.Float64, strict=False).null_count() == column.null_count()
    )


def _guess_type(column: pl.Series) -> pl.Series:
    """Turn a text column into integers, numbers or booleans where all of it is."""
    if column.dtype != pl.String or column.name in ("annotator", "criterion"):
        return column
    for dtype in (pl.Int64, pl.Float64):
        cast = column.cast(dtype, strict=False)
        if cast.null_count() == column.null_count():
            return cast
    folded = column.str.to_lowercase()
    if folded.drop_nulls().is_in(["true", "false"]).all():
        return folded == "true"
    return column


def _item_table(items: pl.Series, table: pl.DataFrame, rows: IntArray) -> pl.DataFrame:
    """Take each item's fields from its first row."""
    fields = [name for name in ITEM_FIELDS if name in table.columns]
    first = np.unique(rows, return_index=True)[1]
    typed = {"cost": pl.Float64, "position": pl.Int64}
    columns = [table[name].gather(first).cast(typed.get(name, pl.String), strict=False) for name in fields]
    return pl.DataFrame([items.alias("id"), *columns])


def _outputs(
    table: pl.DataFrame, rows: IntArray, columns: IntArray, items: pl.Series, systems: pl.Series
) -> pl.DataFrame | None:
    if "output" not in table.columns:
        return None
    return text_frame(rows, columns, table["output"].to_list(), len(items), systems.to_list())


# -- writing -------------------------------------------------------------------------------------------------------


def write(table: pl.DataFrame, path: Path | str) -> None:
    """Write a table by the path's ending: .csv, .tsv (and .gz of them) or .parquet."""
    name = str(path).removesuffix(".gz")
    if name.endswith(".parquet"):
        with whole_file(path) as temporary:
            table.write_parquet(temporary)
        return
    if not name.endswith((".csv", ".tsv")):
        raise OptionError(f"{path}: unknown ending for a table; use .csv, .tsv or .parquet")
    nested = [column.name for column in table if column.dtype.is_nested()]
    flat = table.with_columns(pl.col(name).struct.field("json").alias(name) for name in nested)
    write_bytes(path, flat.write_csv(separator="\t" if name.endswith(".tsv") else ",").encode())


def long_scores(evalset: EvalSet, names: Sequence[str] | None = None) -> pl.DataFrame:
    """One row per item, system and score that is present: item, system, metric, value."""
    cells = evalset.to_frame().select("item", "system", *(names or evalset.scores))
    return cells.unpivot(index=["item", "system"], variable_name="metric").drop_nulls("value")
